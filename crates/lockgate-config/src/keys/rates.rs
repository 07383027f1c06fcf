//! The keys of `rates`: minimum rates of peers.

use std::time::Duration;

use crate::values::{ByteRate, Time, Unless};

use super::{ConfigKey, Defaulted, KeyRow, OFF};

table! {
    const MIN_IN: Defaulted<Option<u64>> = ConfigKey::defaulted(
        "min_in",
        &Unless(OFF, ByteRate),
        r#""1KB/s""#,
        r#""10KB/s""#,
        "The least of a request body that must come while it is due and read.",
    );

    const MIN_OUT: Defaulted<Option<u64>> = ConfigKey::defaulted(
        "min_out",
        &Unless(OFF, ByteRate),
        r#""1KB/s""#,
        r#""10KB/s""#,
        "The least that a client must take while bytes are held for it.",
    );

    const GRACE: Defaulted<Duration> = ConfigKey::defaulted(
        "grace",
        &Time { min: 1_000 },
        r#""10s""#,
        r#""30s""#,
        "How long a peer may stay below before it is cut.",
    );
}
