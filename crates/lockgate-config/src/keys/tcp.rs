//! The keys of `[tcp."ADDR"]` tables, and of the addresses that they share with pools and sites.

use std::time::Duration;

use lockgate_rules::{AcceptProxy, ProxyVersion, SentHeader};

use crate::model::EndpointAddr;
use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required};
use super::tls::TlsForm;
use super::{
    AT_LEAST_1MS, ConfigKey, Defaulted, KeyRow, MapKeys, OFF, PROXY_HEADER, shape, timeouts, tls,
};

/// The destination of requests or bytes.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    One(PoolOrEndpoint),
    Many(Items<ShortOrLong<EndpointAddr>>),
}

pub(super) const DESTINATION: Either<Destination> = Either(&[
    &As(PoolOrAddress, Destination::One),
    &As(ENDPOINTS, Destination::Many),
]);

pub(super) const ENDPOINTS: List<Short<UpstreamAddress>> = List {
    of: Short {
        short: UpstreamAddress,
        long: TableOf(endpoint::ALL),
    },
    least: 1,
};

/// A way that a ClientHello may lead.
const RELAYED: Short<Either<Destination>> = Short {
    short: DESTINATION,
    long: TableOf(relay::ALL),
};

/// A way of a server name.
const NAMED: Short<Either<Destination>> = Short {
    short: DESTINATION,
    long: TableOf(entry::ALL),
};

table! {
    const TLS: Defaulted<TlsForm> = TLS_OFF;
    const PROXY: ConfigKey<ShortOrLong<Destination>> = WHERE_TO.or_absent("`sni`, `alpn` and `default` say where the bytes go");

    const SNI: ConfigKey<MapOf<ShortOrLong<Destination>>> = ConfigKey::new(
        "sni",
        &Map { names: MapKeys::Servers, of: NAMED, beside: &[] },
        Absent("server names are ignored"),
        r#"{ "mail.example.com" = "10.0.0.5:443", "*.example.net" = { proxy = "10.0.0.6:80", tls = { cert = "/etc/tls/net.pem" } } }"#,
        "Where connections go, by the server name in the ClientHello: an exact name, or \
         `\"*.example.com\"` for every name below it. The most specific one applies. Values are \
         those of `proxy`. TLS passes through and the endpoint decrypts it, unless the entry has \
         `tls`. Sites with TLS may share the address: their names and these form one table, in \
         which no name may appear twice. If a client asks for an unknown name and there is no \
         `default`, Lockgate refuses it with the alert unrecognized_name, counts it and logs it. \
         Replaces `proxy`.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#);

    const ALPN: ConfigKey<MapOf<ShortOrLong<Destination>>> = ConfigKey::new(
        "alpn",
        &Map { names: MapKeys::Protocols, of: RELAYED, beside: &[] },
        Absent("ALPN is ignored"),
        r#"{ "acme-tls/1" = "127.0.0.1:10443" }"#,
        "Where connections go, by a protocol that the client offers by ALPN (RFC 7301), whatever \
         its server name. If several match, the client's preference decides.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#);

    const DEFAULT: ConfigKey<ShortOrLong<Destination>> = ConfigKey::new(
        "default",
        &RELAYED,
        Absent("a client with another name is refused"),
        r#""10.0.0.7:443""#,
        "Where connections go that have no server name, or one that no other table on the address \
         has. It replaces a site for every host; an address cannot have both.",
    )
    .inside(r#"proxy = "10.0.0.6:80""#);

    const PROXY_PROTOCOL: ConfigKey<SentHeader> = SENT_HEADER;

    const ACCEPT_PROXY: Defaulted<AcceptProxy> = ConfigKey::defaulted(
        "accept_proxy",
        &PROXY_HEADER,
        "false",
        r#""require""#,
        "Whether clients send a PROXY header first. It is believed only from addresses in `trusted` \
         and over Unix sockets. `\"require\"` refuses all other clients and connections without a \
         header; `\"optional\"` treats their bytes as data.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#);

    const TIMEOUTS: ConfigKey<CheckedTable> = ConfigKey::new(
        "timeouts",
        &TableOf(timeouts::relay::ALL),
        Absent("the global `timeouts`"),
        r#"{ tunnel_idle = "5m" }"#,
        "Deadlines of this listener, merged over the global `[timeouts]` key by key.",
    );

    const MAX_LIFETIME: Defaulted<Option<Duration>> = ConfigKey::defaulted(
        "max_lifetime",
        &Unless(OFF, AT_LEAST_1MS),
        r#""off""#,
        r#""8h""#,
        "The time after which a connection is closed, even if it is active.",
    );

    const SHAPE: Defaulted<ShortOrLong<Option<u64>>> = shape::SHAPE;
}

const TLS_OFF: Defaulted<TlsForm> = ConfigKey::defaulted(
    "tls",
    &Short {
        short: tls::FILE_ONLY,
        long: TableOf(tls::tcp::ALL),
    },
    "false",
    r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
    "Terminates TLS. The short form is the path of `cert`; `{}` uses `[tls]` unchanged; `false` \
     relays the bytes unchanged.",
)
.inside(r#"cert = "/etc/tls/app.pem""#);

const WHERE_TO: ConfigKey<ShortOrLong<Destination>> = ConfigKey::new(
    "proxy",
    &Short {
        short: DESTINATION,
        long: TableOf(proxy::ALL),
    },
    Required,
    r#""unix:/run/app.sock""#,
    "Where connections go: `\"pool:NAME\"`, an address, a list of addresses or a table. An address \
     is `\"127.0.0.1:3000\"`, `\"[::1]:3000\"`, `\"app.internal:3000\"` or \
     `\"unix:/run/app.sock\"`. In a list, the endpoint with the fewest connections is used, and \
     another one if it cannot be reached.",
)
.inside(r#"to = "10.0.0.1:443""#);

const SENT_HEADER: ConfigKey<SentHeader> = ConfigKey::new(
    "proxy_protocol",
    &Words(&[
        ("v1", SentHeader::Own(ProxyVersion::V1)),
        ("v2", SentHeader::Own(ProxyVersion::V2)),
        ("pass", SentHeader::Pass),
    ]),
    Absent("none is sent"),
    r#""v2""#,
    "Sends a PROXY header, so that the endpoint learns the client's address. `\"v2\"` also has \
     ALPN, server name, TLS version, cipher and the client certificate's name, as far as they are \
     known. `\"pass\"` forwards the received header unchanged, if `accept_proxy` takes one; a \
     client without a header, or one that is not believed, gets a version 2 header of its own. The \
     value holds for all `sni`, `alpn` and `default` entries of the table that have none.",
);

pub(super) const TO: ConfigKey<Destination> = ConfigKey::new(
    "to",
    &DESTINATION,
    Required,
    r#"["10.0.0.1:443", { addr = "10.0.0.2:443", max = 200 }]"#,
    "A pool, an address or a list of addresses, as in the short form. A pool has its own `tls` and \
     `protocol`.",
);

pub(super) const TLS_TO: ConfigKey<CheckedTable> = ConfigKey::new(
    "tls",
    &TableOf(tls::upstream::ALL),
    Absent("no TLS"),
    r#"{ name = "app.internal" }"#,
    "TLS to the endpoints, always verified. `{}` takes every default.",
);

table! {
    /// An entry of `alpn`, and `default`.
    mod relay;

    const PROXY: ConfigKey<ShortOrLong<Destination>> = WHERE_TO;
    const TLS: Defaulted<TlsForm> = TLS_OFF;

    const PROXY_PROTOCOL: ConfigKey<SentHeader> = SENT_HEADER;
}

table! {
    /// An entry of `sni`.
    mod entry;

    const PROXY: ConfigKey<ShortOrLong<Destination>> = WHERE_TO;

    const TLS: Defaulted<TlsForm> = ConfigKey::defaulted(
        "tls",
        &Short { short: tls::SHORT, long: TableOf(tls::entry::ALL) },
        "false",
        r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
        "Terminates TLS. The short form is the path of `cert`, or `\"internal\"`: certificates of \
         Lockgate's own authority, as `issuer` says. `{}` uses `[tls]` and `[acme]` unchanged; `false` \
         relays the bytes unchanged.",
    )
    .inside(r#"cert = "/etc/tls/app.pem""#);

    const PROXY_PROTOCOL: ConfigKey<SentHeader> = SENT_HEADER;
}

table! {
    mod endpoint;

    const ADDR: ConfigKey<EndpointAddr> = ConfigKey::new(
        "addr",
        &UpstreamAddress,
        Required,
        r#""10.0.0.1:8080""#,
        "The address.",
    );

    const WEIGHT: Defaulted<u16> = ConfigKey::defaulted(
        "weight",
        &WholeNumber::new(1, 256),
        "1",
        "2",
        "Its share of the load, relative to the other endpoints.",
    )
    .with(r#"addr = "10.0.0.1:8080""#);

    const MAX: ConfigKey<usize> = ConfigKey::new(
        "max",
        &WholeNumber::count(),
        Absent("no limit"),
        "200",
        "Connections or requests in flight to the endpoint at once, per process, over all tables \
         that name it.",
    )
    .with(r#"addr = "10.0.0.1:8080""#);

    const BACKUP: Defaulted<bool> = ConfigKey::defaulted(
        "backup",
        &Flag,
        "false",
        "true",
        "Whether the endpoint is used only while no other endpoint of the pool is up. Several \
         backups share the load by `weight`. Endpoints that are only at their `max` are waited for. \
         A request or connection that began at a backup stays there.",
    )
    .with(r#"addr = "10.0.0.1:8080""#);
}

table! {
    mod proxy;

    const TO: ConfigKey<Destination> = super::TO;
    const TLS: ConfigKey<CheckedTable> = TLS_TO;
}
