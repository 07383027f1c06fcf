//! The keys of `ports`: where sites without a port are served.

use crate::values::WholeNumber;

use super::{ConfigKey, Defaulted, KeyRow};

table! {
    const HTTP: Defaulted<u16> = ConfigKey::defaulted(
        "http",
        &WholeNumber::new(0, 65_535),
        "80",
        "8080",
        "Where sites without a port redirect to `https`, or are served where they have `tls = false`.",
    );

    const HTTPS: Defaulted<u16> = ConfigKey::defaulted(
        "https",
        &WholeNumber::new(0, 65_535),
        "443",
        "8443",
        "Where sites without a port are served; 0 is any port that is free, which the redirect then names.",
    );
}
