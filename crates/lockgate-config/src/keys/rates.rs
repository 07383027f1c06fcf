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
        "The minimum rate of a request body, while it is expected and Lockgate reads it.",
    );

    const MIN_OUT: Defaulted<Option<u64>> = ConfigKey::defaulted(
        "min_out",
        &Unless(OFF, ByteRate),
        r#""1KB/s""#,
        r#""10KB/s""#,
        "The minimum rate at which a client must read, while Lockgate holds bytes for it.",
    );

    const GRACE: Defaulted<Duration> = ConfigKey::defaulted(
        "grace",
        &Time { min: 1_000 },
        r#""10s""#,
        r#""30s""#,
        "How long a client may stay below a minimum rate before it is disconnected.",
    );
}
