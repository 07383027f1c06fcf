//! `shape`: bandwidth limits.

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
    "Bandwidth limits, in and out. Lockgate does not refuse faster traffic; it reads later, so the \
     sender slows down. The short form is `per_connection`. While nothing moves, each rate saves up \
     a twentieth of a second's worth, or one packet. Connections that share a rate take turns in \
     the order in which they ask. For a `[tcp]` table the bytes are the relayed ones, without the \
     TLS that Lockgate terminates; for a site they are bodies and WebSocket data, while heads and \
     Lockgate's own responses are free. A limited connection does not count as idle or slow. A path \
     that inherits `shape` shares the rates with its site; a path with its own `shape` uses none of \
     its site's.",
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
    "Bandwidth limits, in and out, as in a `[tcp]` table. The short form is `per_tunnel`.",
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
    "The rate of all connections of one client address together (of IPv6 the /64), on all workers. \
     For sites, the client is the one that `trusted` proxies name. Clients on Unix sockets have no \
     address and are not limited.",
);

pub(crate) const TOTAL: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
    "total",
    &BOTH,
    Absent("no limit"),
    r#""1GB/s""#,
    "The rate of all clients together, per process.",
);

table! {
    /// `shape` of `[tcp]` tables, sites and paths.
    mod listener;

    const PER_CONNECTION: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
        "per_connection",
        &BOTH,
        Absent("no limit"),
        r#"{ in = "1MB/s", out = "10MB/s" }"#,
        "The rate of each client connection: all its requests together.",
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
        "The rate of each tunnel, even if one connection has several, and of the bodies of each \
         forwarded request.",
    );

    const PER_CLIENT: ConfigKey<ShortOrLong<u64>> = super::PER_CLIENT;

    const PER_USER: ConfigKey<ShortOrLong<u64>> = ConfigKey::new(
        "per_user",
        &BOTH,
        Absent("no limit"),
        r#""50MB/s""#,
        "The rate of all tunnels of one user of `auth` together.",
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
        "The rate from clients.",
    );

    const OUT: ConfigKey<u64> = ConfigKey::new(
        "out",
        &ByteRate,
        Absent("no limit"),
        r#""10MB/s""#,
        "The rate to clients.",
    );
}
