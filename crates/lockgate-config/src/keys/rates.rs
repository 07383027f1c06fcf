//! The keys of `rates`: minimum rates of peers.

use std::time::Duration;

use crate::values::{Rate, Time, Unless};

use super::{Defaulted, Key, OFF, Row};

table! {
    const MIN_IN: Defaulted<Option<u64>> = Key::defaulted(
        "min_in",
        &Unless(OFF, Rate),
        r#""1KB/s""#,
        r#""10KB/s""#,
        "The minimum rate of a request body, while it is expected and Lockgate reads it.",
    );

    const MIN_OUT: Defaulted<Option<u64>> = Key::defaulted(
        "min_out",
        &Unless(OFF, Rate),
        r#""1KB/s""#,
        r#""10KB/s""#,
        "The minimum rate at which a client must read, while Lockgate holds bytes for it.",
    );

    const GRACE: Defaulted<Duration> = Key::defaulted(
        "grace",
        &Time { min: 1_000 },
        r#""10s""#,
        r#""30s""#,
        "How long a client may stay below a minimum rate before it is disconnected.",
    );
}
