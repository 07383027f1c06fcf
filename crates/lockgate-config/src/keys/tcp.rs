//! The keys of `[tcp."ADDR"]` tables, and of the addresses that they share with pools and sites.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::{AcceptProxy, ProxyVersion, SentHeader};

use crate::model::EndpointAddr;
use crate::values::*;

use super::Unset::{Absent, Required};
use super::{AT_LEAST_1MS, Defaulted, Key, Names, OFF, PROXY_HEADER, Row, shape, timeouts, tls};

/// Where requests or bytes go.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    One(Upstream),
    Many(Items<Form<EndpointAddr>>),
}

pub(super) const DESTINATION: Either<Destination> = Either(&[
    &As(Target, Destination::One),
    &As(ENDPOINTS, Destination::Many),
]);

pub(super) const ENDPOINTS: List<Short<Endpoint>> = List {
    of: Short {
        short: Endpoint,
        long: TableOf(endpoint::ALL),
    },
    least: 1,
};

/// A way that a ClientHello may lead.
const RELAYED: Short<Either<Destination>> = Short {
    short: DESTINATION,
    long: TableOf(relay::ALL),
};

table! {
    const TLS: Defaulted<Form<Option<PathBuf>>> = TLS_OFF;
    const PROXY: Key<Form<Destination>> = WHERE_TO.or_absent("`sni`, `alpn` and `default` say where the bytes go");

    const SNI: Key<MapOf<Form<Destination>>> = Key::new(
        "sni",
        &Map { names: Names::Servers, of: RELAYED, beside: &[] },
        Absent("names are not looked at"),
        r#"{ "mail.example.com" = "10.0.0.5:443", "*.example.net" = { proxy = "10.0.0.6:80", tls = { cert = "/etc/tls/net.pem" } } }"#,
        "Where the bytes go by the name that a client asks for in its ClientHello: exact, or `\"*.example.com\"` for \
         every name below it; the most specific one counts. What stands there is said as by `proxy`. TLS goes through as it \
         is, to be decrypted by the endpoint, unless the entry has `tls`. On the same address there may be sites with TLS: \
         their names and these are one table, and none may be in it twice. A client that asks for a name that nobody has, \
         where there is no `default` either, is refused by the alert unrecognized_name, counted and logged. Stands instead of `proxy`.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#);

    const ALPN: Key<MapOf<Form<Destination>>> = Key::new(
        "alpn",
        &Map { names: Names::Protocols, of: RELAYED, beside: &[] },
        Absent("protocols are not looked at"),
        r#"{ "acme-tls/1" = "127.0.0.1:10443" }"#,
        "The same by a protocol that a client offers by ALPN (RFC 7301), whatever name it asks for: who offers one of these goes \
         there. Of several the one that the client prefers counts.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#);

    const DEFAULT: Key<Form<Destination>> = Key::new(
        "default",
        &RELAYED,
        Absent("whoever asks for another name is refused"),
        r#""10.0.0.7:443""#,
        "The same for clients that ask for no name, or one that nobody else on the address has. It takes the place of a site \
         for every host, of which there can be none beside it.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#);

    const PROXY_PROTOCOL: Key<SentHeader> = SENT_HEADER;

    const ACCEPT_PROXY: Defaulted<AcceptProxy> = Key::defaulted(
        "accept_proxy",
        &PROXY_HEADER,
        "false",
        r#""require""#,
        "Whether clients send a PROXY header first; only those from addresses in `trusted`, and over Unix sockets, are believed. \
         `\"require\"` refuses everybody else and a connection without one, `\"optional\"` takes their bytes as they are.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#);

    const TIMEOUTS: Key<Table> = Key::new(
        "timeouts",
        &TableOf(timeouts::relay::ALL),
        Absent("the global `timeouts`"),
        r#"{ tunnel_idle = "5m" }"#,
        "Deadlines of this listener, merged over the global ones key by key.",
    );

    const MAX_LIFETIME: Defaulted<Option<Duration>> = Key::defaulted(
        "max_lifetime",
        &Unless(OFF, AT_LEAST_1MS),
        r#""off""#,
        r#""8h""#,
        "After how long a connection ends, whatever it carries.",
    );

    const SHAPE: Defaulted<Form<Option<u64>>> = shape::SHAPE;
}

const TLS_OFF: Defaulted<Form<Option<PathBuf>>> = Key::defaulted(
    "tls",
    &Short { short: Unless(False, FilePath), long: TableOf(tls::tcp::ALL) },
    "false",
    r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
    "Takes TLS off. The short form is the path of `cert`; `{}` uses `[tls]` as it is; `false` relays the \
     bytes as they are.",
)
.inside(r#"cert = "/etc/tls/app.pem""#);

const WHERE_TO: Key<Form<Destination>> = Key::new(
    "proxy",
    &Short { short: DESTINATION, long: TableOf(proxy::ALL) },
    Required,
    r#""unix:/run/app.sock""#,
    "Where the bytes go: `\"pool:NAME\"`, an address, a list of addresses or a table. An address is `\"127.0.0.1:3000\"`, \
     `\"[::1]:3000\"`, `\"app.internal:3000\"` or `\"unix:/run/app.sock\"`. Of a list the endpoint with the \
     fewest connections is taken, and another one when it cannot be reached.",
)
.inside(r#"to = "10.0.0.1:443""#);

const SENT_HEADER: Key<SentHeader> = Key::new(
    "proxy_protocol",
    &Words(&[
        ("v1", SentHeader::Own(ProxyVersion::V1)),
        ("v2", SentHeader::Own(ProxyVersion::V2)),
        ("pass", SentHeader::Pass),
    ]),
    Absent("none is sent"),
    r#""v2""#,
    "The PROXY header that tells the endpoint the client's address; `\"v2\"` tells ALPN, server name, TLS \
     version, cipher and the client certificate's name too, as far as they are known. `\"pass\"` hands on the header that has come, byte for byte, where \
     `accept_proxy` takes one; a client that has sent none, or is not believed, gets one of version 2 as its own. What a table says holds for all \
     its `sni`, `alpn` and `default` that say nothing else.",
);

pub(super) const TO: Key<Destination> = Key::new(
    "to",
    &DESTINATION,
    Required,
    r#"["10.0.0.1:443", { addr = "10.0.0.2:443", max = 200 }]"#,
    "A pool, an address or a list of addresses, as in the short form. A pool says itself how it is spoken to.",
);

pub(super) const TLS_TO: Key<Table> = Key::new(
    "tls",
    &TableOf(tls::upstream::ALL),
    Absent("no TLS"),
    r#"{ name = "app.internal" }"#,
    "TLS to the endpoints, always verified. `{}` takes every default.",
);

table! {
    /// An entry of `sni` and `alpn`, and `default`.
    mod relay;

    const PROXY: Key<Form<Destination>> = WHERE_TO;
    const TLS: Defaulted<Form<Option<PathBuf>>> = TLS_OFF;

    const PROXY_PROTOCOL: Key<SentHeader> = SENT_HEADER;
}

table! {
    /// One endpoint.
    mod endpoint;

    const ADDR: Key<EndpointAddr> = Key::new(
        "addr",
        &Endpoint,
        Required,
        r#""10.0.0.1:8080""#,
        "The address.",
    );

    const WEIGHT: Defaulted<u16> = Key::defaulted(
        "weight",
        &Number::new(1, 256),
        "1",
        "2",
        "Its share beside the others.",
    )
    .with(r#"addr = "10.0.0.1:8080""#);

    const MAX: Key<usize> = Key::new(
        "max",
        &Number::count(),
        Absent("no limit"),
        "200",
        "Connections or requests in flight to it at once, for the process: over all tables that name it.",
    )
    .with(r#"addr = "10.0.0.1:8080""#);

    const BACKUP: Defaulted<bool> = Key::defaulted(
        "backup",
        &Flag,
        "false",
        "true",
        "Whether it is used only while no other endpoint of the pool is up. Several backups share what comes by their \
         `weight`; others that are merely at their `max` are waited for. What began at a backup ends there.",
    )
    .with(r#"addr = "10.0.0.1:8080""#);
}

table! {
    /// `proxy`, as a table.
    mod proxy;

    const TO: Key<Destination> = super::TO;
    const TLS: Key<Table> = TLS_TO;
}
