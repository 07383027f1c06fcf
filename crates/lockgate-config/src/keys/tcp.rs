//! The keys of `[tcp."ADDR"]` tables, and of the addresses that they share with pools and sites.

use super::Kind::{Bool, Either, Endpoint, False, Integer, List, Map, Path, Table, Target, Word};
use super::Unset::{Absent, Is, Required};
use super::route::SHAPE;
use super::tls::{TCP_TLS, UPSTREAM_TLS};
use super::{AT_LEAST_1MS, CONNECT, COUNT, FALSE, HANDSHAKE, Key, Kind, Names, OFF, TUNNEL_IDLE};

pub(super) const TCP: &[Key] = &[
    TLS_OFF,
    Key { default: Absent("`sni`, `alpn` and `default` say where the bytes go"), ..WHERE_TO },
    Key::new(
        "sni",
        Map(Names::Servers, &RELAYED, &[]),
        Absent("names are not looked at"),
        r#"{ "mail.example.com" = "10.0.0.5:443", "*.example.net" = { proxy = "10.0.0.6:80", tls = { cert = "/etc/tls/net.pem" } } }"#,
        "Where the bytes go by the name that a client asks for in its ClientHello: exact, or `\"*.example.com\"` for \
         every name below it; the most specific one counts. What stands there is said as by `proxy`. TLS goes through as it \
         is, to be decrypted by the endpoint, unless the entry has `tls`. On the same address there may be sites with TLS: \
         their names and these are one table, and none may be in it twice. A client that asks for a name that nobody has, \
         where there is no `default` either, is refused by the alert unrecognized_name, counted and logged. Stands instead of `proxy`.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#),
    Key::new(
        "alpn",
        Map(Names::Protocols, &RELAYED, &[]),
        Absent("protocols are not looked at"),
        r#"{ "acme-tls/1" = "127.0.0.1:10443" }"#,
        "The same by a protocol that a client offers by ALPN (RFC 7301), whatever name it asks for: who offers one of these goes \
         there. Of several the one that the client prefers counts.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#),
    Key::new(
        "default",
        RELAYED,
        Absent("whoever asks for another name is refused"),
        r#""10.0.0.7:443""#,
        "The same for clients that ask for no name, or one that nobody else on the address has. It takes the place of a site \
         for every host, of which there can be none beside it.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#),
    PROXY_PROTOCOL,
    Key::new(
        "accept_proxy",
        Either(&[False, Word(&["require", "optional"])]),
        FALSE,
        r#""require""#,
        "Whether clients send a PROXY header first; only those from addresses in `trusted`, and over Unix sockets, are believed. \
         `\"require\"` refuses everybody else and a connection without one, `\"optional\"` takes their bytes as they are.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#),
    Key::new(
        "timeouts",
        Table(TCP_TIMEOUTS),
        Absent("the global `timeouts`"),
        r#"{ tunnel_idle = "5m" }"#,
        "Deadlines of this listener, merged over the global ones key by key.",
    ),
    Key::new(
        "max_lifetime",
        Either(&[OFF, AT_LEAST_1MS]),
        Is(r#""off""#),
        r#""8h""#,
        "After how long a connection ends, whatever it carries.",
    ),
    SHAPE,
];

/// A way that a ClientHello may lead.
const RELAYED: Kind = Either(&[Target, ENDPOINTS, Table(RELAY)]);

const RELAY: &[Key] = &[WHERE_TO, TLS_OFF, PROXY_PROTOCOL];

const TLS_OFF: Key = Key::new(
    "tls",
    Either(&[False, Path, Table(TCP_TLS)]),
    FALSE,
    r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
    "Takes TLS off. The short form is the path of `cert`; `{}` uses `[tls]` as it is; `false` relays the \
     bytes as they are.",
)
.inside(r#"cert = "/etc/tls/app.pem""#);

const WHERE_TO: Key = Key::new(
    "proxy",
    Either(&[Target, ENDPOINTS, Table(PROXY)]),
    Required,
    r#""unix:/run/app.sock""#,
    "Where the bytes go: `\"pool:NAME\"`, an address, a list of addresses or a table. An address is `\"127.0.0.1:3000\"`, \
     `\"[::1]:3000\"`, `\"app.internal:3000\"` or `\"unix:/run/app.sock\"`. Of a list the endpoint with the \
     fewest connections is taken, and another one when it cannot be reached.",
)
.inside(r#"to = "10.0.0.1:443""#);

const PROXY_PROTOCOL: Key = Key::new(
    "proxy_protocol",
    Word(&["v1", "v2", "pass"]),
    Absent("none is sent"),
    r#""v2""#,
    "The PROXY header that tells the endpoint the client's address; `\"v2\"` tells ALPN, server name, TLS \
     version, cipher and the client certificate's name too, as far as they are known. `\"pass\"` hands on the header that has come, byte for byte, where \
     `accept_proxy` takes one; a client that has sent none, or is not believed, gets one of version 2 as its own. What a table says holds for all \
     its `sni`, `alpn` and `default` that say nothing else.",
);

pub(super) const ENDPOINTS: Kind = List {
    of: &Either(&[Endpoint, Table(ENDPOINT)]),
    least: 1,
};

const ENDPOINT: &[Key] = &[
    Key::new("addr", Endpoint, Required, r#""10.0.0.1:8080""#, "The address."),
    Key::new("weight", Integer { min: 1, max: 256 }, Is("1"), "2", "Its share beside the others.")
        .with(r#"addr = "10.0.0.1:8080""#),
    Key::new(
        "max",
        COUNT,
        Absent("no limit"),
        "200",
        "Connections or requests in flight to it at once, for the process: over all tables that name it.",
    )
    .with(r#"addr = "10.0.0.1:8080""#),
    Key::new(
        "backup",
        Bool,
        FALSE,
        "true",
        "Whether it is used only while no other endpoint of the pool is up. Several backups share what comes by their \
         `weight`; others that are merely at their `max` are waited for. What began at a backup ends there.",
    )
    .with(r#"addr = "10.0.0.1:8080""#),
];

const TCP_TIMEOUTS: &[Key] = &[HANDSHAKE, CONNECT, TUNNEL_IDLE];

const PROXY: &[Key] = &[TO, TLS_TO];

pub(super) const TO: Key = Key::new(
    "to",
    Either(&[Target, ENDPOINTS]),
    Required,
    r#"["10.0.0.1:443", { addr = "10.0.0.2:443", max = 200 }]"#,
    "A pool, an address or a list of addresses, as in the short form. A pool says itself how it is spoken to.",
);

pub(super) const TLS_TO: Key = Key::new(
    "tls",
    Table(UPSTREAM_TLS),
    Absent("no TLS"),
    r#"{ name = "app.internal" }"#,
    "TLS to the endpoints, always verified. `{}` takes every default.",
);
