//! `shape`: the rates that bytes are held to.

use crate::values::{ByteRate, False, Short, ShortOrLong, TableOf, Unless};

use super::Unset::Absent;
use super::{ConfigKey, Defaulted, KeyRow};

pub(crate) const SHAPE: Defaulted<ShortOrLong<Option<u64>>> = ConfigKey::defaulted(
    "shape",
    &Short {
        short: Unless(False, ByteRate),
        long: TableOf(listener::ALL),
    },
    "false",
    r#"{ per_connection = "10MB/s", per_client = "20MB/s", total = "1GB/s" }"#,
    "The rates that bytes are held to, in and out each: what comes faster is not refused, but read later, so that whoever \
     sends it is held up. The short form is `per_connection`. What may be saved while nothing moves is a twentieth of a \
     second's worth, or a packet. Those who share a rate have their turns in the order of asking. Bytes are those of what \
     is carried, without TLS; of sites they are those of bodies, and of what WebSockets carry, while heads and answers of our own \
     are free. Who is held up is neither idle nor slow. A path that inherits it shares its rates with its site; one \
     that has its own has nothing of its site's.",
);

/// `shape` of a `[tunnel]` table.
pub(crate) const TUNNEL: Defaulted<ShortOrLong<Option<u64>>> = ConfigKey::defaulted(
    "shape",
    &Short {
        short: Unless(False, ByteRate),
        long: TableOf(tunnel::ALL),
    },
    "false",
    r#"{ per_tunnel = "10MB/s", per_user = "50MB/s", total = "1GB/s" }"#,
    "The rates that bytes are held to, in and out each, as in a `[tcp]` table. The short form is `per_tunnel`.",
);

const BOTH: Short<ByteRate> = Short {
    short: ByteRate,
    long: TableOf(directions::ALL),
};

pub(crate) const PER_CLIENT: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
    "per_client",
    &BOTH,
    Absent("no limit"),
    r#""20MB/s""#,
    "For all connections of one client address together (IPv6: each /64), whichever worker has them. For sites \
     the client is who `trusted` proxies say. Clients over Unix sockets have no address, and are not held to it.",
);

pub(crate) const TOTAL: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
    "total",
    &BOTH,
    Absent("no limit"),
    r#""1GB/s""#,
    "For all clients together, in the whole process.",
);

table! {
    /// `shape` of `[tcp]` tables, sites and paths.
    mod listener;

    const PER_CONNECTION: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
        "per_connection",
        &BOTH,
        Absent("no limit"),
        r#"{ in = "1MB/s", out = "10MB/s" }"#,
        "For each connection of a client: all requests on it together.",
    );

    const PER_CLIENT: ConfigKey<ShortOrLong<u64>> = super::PER_CLIENT;
    const TOTAL: ConfigKey<ShortOrLong<u64>> = super::TOTAL;
}

table! {
    /// `shape` of `[tunnel]` tables.
    mod tunnel;

    const PER_TUNNEL: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
        "per_tunnel",
        &BOTH,
        Absent("no limit"),
        r#"{ in = "1MB/s", out = "10MB/s" }"#,
        "For each tunnel, also where several are on one connection, and the bodies of each request that is forwarded.",
    );

    const PER_CLIENT: ConfigKey<ShortOrLong<u64>> = super::PER_CLIENT;

    const PER_USER: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
        "per_user",
        &BOTH,
        Absent("no limit"),
        r#""50MB/s""#,
        "For everything that one user of `auth` has, together.",
    )
    .around(r#"auth = { basic = "/etc/lockgate/htpasswd" }"#);

    const TOTAL: ConfigKey<ShortOrLong<u64>> = super::TOTAL;
}

table! {
    /// A rate for each direction.
    mod directions;

    const IN: ConfigKey<u64> = ConfigKey::new(
        "in",
        &ByteRate,
        Absent("no limit"),
        r#""1MB/s""#,
        "What clients send.",
    );

    const OUT: ConfigKey<u64> = ConfigKey::new(
        "out",
        &ByteRate,
        Absent("no limit"),
        r#""10MB/s""#,
        "What is sent to clients.",
    );
}
