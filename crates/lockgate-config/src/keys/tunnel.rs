//! The keys of `[tunnel."ADDR"]` tables.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::{AcceptProxy, Cidr, ProxyVersion};

use crate::model::Protocol;
use crate::table::CheckedTable;
use crate::tunnel_rule::TunnelRule;
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::tls::TlsForm;
use super::{
    AT_LEAST_1MS, ConfigKey, Defaulted, KeyRow, OFF, PROXY_HEADER, PROXY_VERSIONS, SPOKEN, route,
    shape, timeouts, tls,
};

table! {
    const TLS: Defaulted<TlsForm> = ConfigKey::defaulted(
        "tls",
        &Short { short: tls::FILE_ONLY, long: TableOf(tls::tunnel::ALL) },
        "false",
        r#"{ cert = "/etc/tls/proxy.pem", key = "/etc/tls/proxy.key" }"#,
        "TLS with clients (an HTTPS proxy). The short form is the path of `cert`; `{}` uses `[tls]` \
         unchanged.",
    )
    .inside(r#"cert = "/etc/tls/proxy.pem""#);

    const PROTOCOLS: ConfigKey<Items<Protocol>> = ConfigKey::new(
        "protocols",
        &SPOKEN,
        Absent("`[\"h2\", \"http1\"]` over TLS, `[\"http1\"]` without"),
        r#"["http1", "h2c"]"#,
        "The protocols for clients, as in a `[site]` table. Over HTTP/2, one connection has up to \
         `http2.streams` tunnels.",
    );

    const ACCEPT_PROXY: Defaulted<AcceptProxy> = ConfigKey::defaulted(
        "accept_proxy",
        &PROXY_HEADER,
        "false",
        r#""require""#,
        "Whether clients send a PROXY header first, as in a `[tcp]` table.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#);

    const CLIENTS: ConfigKey<Items<Cidr>> = ConfigKey::new(
        "clients",
        &List { of: CidrNetwork, least: 1 },
        Absent("with `auth`, every client; else loopback, private and link-local addresses, and clients of the Unix socket"),
        r#"["10.0.0.0/8", "192.0.2.0/24"]"#,
        "The client addresses that are served; others get 403. A proxy that is open to all \
         addresses without `auth` is a warning: any client can hide behind its address. Behind a \
         NAT, or a load balancer without PROXY headers, all clients look local: ask for a password \
         there.",
    );

    const ALLOW: ConfigKey<Items<TunnelRule>> = ConfigKey::new(
        "allow",
        &List { of: TunnelTarget, least: 1 },
        Absent("every host on port 443, and 80 with `forward`"),
        r#"["*.example.org:443", "example.com:80,8000-8999", "10.1.0.0/16:22", "[2001:db8::/32]:443", "*:993"]"#,
        "The targets of tunnels; other targets get 403. A host name allows that host, `*.` every \
         host below it, `*` every host; a network allows every target with an address in it, by \
         name or not. Ports are one port, several with commas, ranges with `-`, or `*`; without \
         ports it is 443, and 80 with `forward`. Lockgate resolves names itself and checks each \
         address against the rules again; it connects only to the checked address.",
    );

    const DENY: ConfigKey<Items<TunnelRule>> = ConfigKey::new(
        "deny",
        &List { of: TunnelTarget, least: 1 },
        Absent("no target"),
        r#"["*.internal.example.org", "*:25", "203.0.113.0/24"]"#,
        "Targets that are refused even if `allow` has them; without ports, on every port. A name \
         does not deny its addresses.",
    );

    const PRIVATE: Defaulted<bool> = ConfigKey::defaulted(
        "private",
        &Flag,
        "false",
        "true",
        "Whether tunnels may lead to addresses that are not public: loopback, private, link-local \
         (cloud metadata), shared, multicast and reserved ones, also when mapped into IPv6 or by \
         NAT64. Without it, such an address is reached only if a network in `allow` that contains \
         no public address has it: `\"10.1.0.0/16:22\"` allows its own addresses, \
         `\"0.0.0.0/0:22\"` no private ones.",
    );

    const AUTH: Defaulted<ShortOrLong<()>> = ConfigKey::defaulted(
        "auth",
        &Short { short: False, long: TableOf(auth::ALL) },
        "false",
        r#"{ basic = "/etc/lockgate/htpasswd", realm = "proxy" }"#,
        "Access by password, which clients send as `Proxy-Authorization`. Others get 407.",
    );

    const LIMIT: Defaulted<ShortOrLong<Option<WrittenLimit>>> = route::LIMIT;

    const MAX_PER_CLIENT: Defaulted<Option<usize>> = ConfigKey::defaulted(
        "max_per_client",
        &Unless(OFF, WholeNumber::count()),
        r#""off""#,
        "100",
        "Tunnels at once of one client address (of IPv6 the /64), on all workers. Further ones get \
         429. A forwarded request counts only after it has switched to another protocol.",
    );

    const MAX_PER_USER: Defaulted<Option<usize>> = ConfigKey::defaulted(
        "max_per_user",
        &Unless(OFF, WholeNumber::count()),
        r#""off""#,
        "100",
        "Tunnels at once of one user of `auth`, on all workers. Further ones get 429.",
    )
    .with(r#"auth = { basic = "/etc/lockgate/htpasswd" }"#);

    const MAX_LIFETIME: Defaulted<Option<Duration>> = ConfigKey::defaulted(
        "max_lifetime",
        &Unless(OFF, AT_LEAST_1MS),
        r#""off""#,
        r#""8h""#,
        "The time after which a tunnel is closed, even if it is active.",
    );

    const MAX_BYTES: Defaulted<Option<u64>> = ConfigKey::defaulted(
        "max_bytes",
        &Unless(OFF, Size { min: 1, max: u64::MAX }),
        r#""off""#,
        r#""10GB""#,
        "The number of bytes, both directions together, after which a tunnel is closed. Lockgate \
         reads no more then, except the rest of a 16 KB record under TLS and up to 1 MB over \
         HTTP/2, and closes the tunnel within a tenth of a second; within one second if a worker \
         has more than 1,024 connections.",
    );

    const SHAPE: Defaulted<ShortOrLong<Option<u64>>> = shape::TUNNEL;

    const PROXY_PROTOCOL: ConfigKey<ProxyVersion> = ConfigKey::new(
        "proxy_protocol",
        &PROXY_VERSIONS,
        Absent("none is sent"),
        r#""v2""#,
        "Sends a PROXY header with the client's address to the target, for targets that expect one.",
    );

    const FORWARD: Defaulted<bool> = ConfigKey::defaulted(
        "forward",
        &Flag,
        "false",
        "true",
        "Whether requests for `http:` URLs are forwarded too. The rules for targets are the same; \
         rules without ports allow 80 as well. Each request has its own connection. Targets do not \
         learn the client's address (no `X-Forwarded-For`), only by `Via` that a proxy forwarded \
         the request. `timeouts.response` of the global table applies.",
    );

    const DNS: ConfigKey<CheckedTable> = ConfigKey::new(
        "dns",
        &TableOf(dns::ALL),
        Within,
        r#"{ ttl = "10s" }"#,
        "Resolution of target names.",
    );

    const TIMEOUTS: ConfigKey<CheckedTable> = ConfigKey::new(
        "timeouts",
        &TableOf(timeouts::relay::ALL),
        Absent("the global `timeouts`"),
        r#"{ connect = "10s" }"#,
        "Deadlines of this listener, merged over the global `[timeouts]` key by key. `connect` is \
         for resolving a name, and again for connecting to all of its addresses.",
    );
}

table! {
    /// `dns` of a tunnel.
    mod dns;

    const TTL: Defaulted<Duration> = ConfigKey::defaulted(
        "ttl",
        &Time { min: 0 },
        r#""60s""#,
        r#""10s""#,
        "How long the addresses of a name are used before it is resolved again, or sooner if none \
         of them can be reached. That a name has no address is remembered for at most 5 s. The TTL \
         of the DNS records is not used: the system resolver does not tell it (`/etc/hosts` counts \
         too).",
    );
}

table! {
    /// `auth` of a tunnel.
    mod auth;

    const BASIC: ConfigKey<PathBuf> = ConfigKey::new(
        "basic",
        &FilePath,
        Required,
        r#""/etc/lockgate/htpasswd""#,
        "A file of users and hashed passwords, as in a `[site]` table.",
    );

    const REALM: Defaulted<String> = route::REALM;
}
