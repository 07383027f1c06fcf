//! The keys of `[tunnel."ADDR"]` tables.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::{AcceptProxy, Cidr, ProxyVersion};

use crate::model::Protocol;
use crate::tunnel_rule::TunnelRule;
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{
    AT_LEAST_1MS, Defaulted, Key, OFF, PROXY_HEADER, PROXY_VERSIONS, Row, SPOKEN, route, shape,
    timeouts, tls,
};

table! {
    const TLS: Defaulted<Form<Option<PathBuf>>> = Key::defaulted(
        "tls",
        &Short { short: Unless(False, FilePath), long: TableOf(tls::site::ALL) },
        "false",
        r#"{ cert = "/etc/tls/proxy.pem", key = "/etc/tls/proxy.key" }"#,
        "TLS with clients: what they know as an https proxy. The short form is the path of `cert`; `{}` uses `[tls]` as it is.",
    )
    .inside(r#"cert = "/etc/tls/proxy.pem""#);

    const PROTOCOLS: Key<Items<Protocol>> = Key::new(
        "protocols",
        &SPOKEN,
        Absent("`[\"h2\", \"http1\"]` over TLS, `[\"http1\"]` without"),
        r#"["http1", "h2c"]"#,
        "What is spoken with clients, as in a `[site]` table. Over HTTP/2 one connection has up to `http2.streams` tunnels.",
    );

    const ACCEPT_PROXY: Defaulted<AcceptProxy> = Key::defaulted(
        "accept_proxy",
        &PROXY_HEADER,
        "false",
        r#""require""#,
        "Whether clients send a PROXY header first, as in a `[tcp]` table.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#);

    const CLIENTS: Key<Items<Cidr>> = Key::new(
        "clients",
        &List { of: Network, least: 1 },
        Absent("with `auth` everybody; else loopback, private and link-local addresses, and who may open the Unix socket"),
        r#"["10.0.0.0/8", "192.0.2.0/24"]"#,
        "Who may come; others are answered with 403. Whoever opens a proxy to everybody without `auth` lends out its address: that is a warning. Behind \
         what hides addresses (a NAT, a load balancer without PROXY headers) everybody looks like a neighbour: there ask for a password.",
    );

    const ALLOW: Key<Items<TunnelRule>> = Key::new(
        "allow",
        &List { of: TunnelTarget, least: 1 },
        Absent("every host, at port 443, and 80 with `forward`"),
        r#"["*.example.org:443", "example.com:80,8000-8999", "10.1.0.0/16:22", "[2001:db8::/32]:443", "*:993"]"#,
        "Where tunnels may lead; elsewhere is 403. A host is that one by its name, `*.` every one below it, `*` every one; a \
         network is whatever has an address in it, by name or not. Ports are one, several with commas, ranges with `-`, or `*`; without any it is 443, and 80 with `forward`. \
         Names are looked up here, and the rules are asked about each address again: the address that was asked about is the one that is dialled.",
    );

    const DENY: Key<Items<TunnelRule>> = Key::new(
        "deny",
        &List { of: TunnelTarget, least: 1 },
        Absent("nothing"),
        r#"["*.internal.example.org", "*:25", "203.0.113.0/24"]"#,
        "Where they may not, also when `allow` says so; without ports it is every port. A name does not stand for its addresses.",
    );

    const PRIVATE: Defaulted<bool> = Key::defaulted(
        "private",
        &Flag,
        "false",
        "true",
        "Whether tunnels may lead to addresses that are not public: loopback, private, link-local (metadata of clouds), shared, multicast and \
         reserved ones, also in the clothes of IPv6 (mapped, NAT64). Else only to those of a network in `allow` that has no other: \
         `\"10.1.0.0/16:22\"` opens itself, `\"0.0.0.0/0:22\"` does not.",
    );

    const AUTH: Defaulted<Form<()>> = Key::defaulted(
        "auth",
        &Short { short: False, long: TableOf(auth::ALL) },
        "false",
        r#"{ basic = "/etc/lockgate/htpasswd", realm = "proxy" }"#,
        "Who may use it: whoever knows a password, which clients bring as `Proxy-Authorization`; others get 407.",
    );

    const LIMIT: Defaulted<Form<Option<WrittenLimit>>> = route::LIMIT;

    const MAX_PER_CLIENT: Defaulted<Option<usize>> = Key::defaulted(
        "max_per_client",
        &Unless(OFF, Number::count()),
        r#""off""#,
        "100",
        "Tunnels at once of one client address (IPv6: each /64), on all workers together; more are answered with 429. A request \
         that is forwarded counts once it has switched to another protocol.",
    );

    const MAX_PER_USER: Defaulted<Option<usize>> = Key::defaulted(
        "max_per_user",
        &Unless(OFF, Number::count()),
        r#""off""#,
        "100",
        "The same of one user of `auth`.",
    )
    .with(r#"auth = { basic = "/etc/lockgate/htpasswd" }"#);

    const MAX_LIFETIME: Defaulted<Option<Duration>> = Key::defaulted(
        "max_lifetime",
        &Unless(OFF, AT_LEAST_1MS),
        r#""off""#,
        r#""8h""#,
        "After how long a tunnel ends, whatever it carries.",
    );

    const MAX_BYTES: Defaulted<Option<u64>> = Key::defaulted(
        "max_bytes",
        &Unless(OFF, Size { min: 1, max: u64::MAX }),
        r#""off""#,
        r#""10GB""#,
        "After how many bytes a tunnel ends, both directions together. No more is read then, but for the rest of a record of 16 KB under TLS and up to 1 MB over HTTP/2, and the tunnel is cut within a tenth of a second, with more than 1,024 connections on a worker within one.",
    );

    const SHAPE: Defaulted<Form<Option<u64>>> = shape::TUNNEL;

    const PROXY_PROTOCOL: Key<ProxyVersion> = Key::new(
        "proxy_protocol",
        &PROXY_VERSIONS,
        Absent("none is sent"),
        r#""v2""#,
        "The PROXY header that tells the target the client's address: for targets that expect one.",
    );

    const FORWARD: Defaulted<bool> = Key::defaulted(
        "forward",
        &Flag,
        "false",
        "true",
        "Whether requests for `http:` URLs are forwarded too, as clients without a tunnel ask a proxy for them. They go where tunnels may lead, over a connection of their own; rules without ports allow 80 as well. Targets are not told who asks (`X-Forwarded-For`), only by `Via` that it came through a proxy. They have the global `timeouts.response` to answer in.",
    );

    const DNS: Key<Table> = Key::new(
        "dns",
        &TableOf(dns::ALL),
        Within,
        r#"{ ttl = "10s" }"#,
        "Names of targets.",
    );

    const TIMEOUTS: Key<Table> = Key::new(
        "timeouts",
        &TableOf(timeouts::relay::ALL),
        Absent("the global `timeouts`"),
        r#"{ connect = "10s" }"#,
        "Deadlines of this listener, merged over the global ones key by key. `connect` is for the look-up of a name, and again for connecting to all of its addresses.",
    );
}

table! {
    /// `dns` of a tunnel.
    mod dns;

    const TTL: Defaulted<Duration> = Key::defaulted(
        "ttl",
        &Time { min: 0 },
        r#""60s""#,
        r#""10s""#,
        "How long the addresses of a name are used before it is looked up again; sooner when none of them can be reached. That there \
         are none holds for 5s at most. The system does not say what the name server said (`/etc/hosts` counts too).",
    );
}

table! {
    /// `auth` of a tunnel.
    mod auth;

    const BASIC: Key<PathBuf> = Key::new(
        "basic",
        &FilePath,
        Required,
        r#""/etc/lockgate/htpasswd""#,
        "A file of users and hashed passwords, as in a `[site]` table.",
    );

    const REALM: Defaulted<String> = route::REALM;
}
