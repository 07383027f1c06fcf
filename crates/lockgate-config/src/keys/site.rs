//! The keys of `[site."HOST"]` tables beside those that they share with their paths.

use std::net::IpAddr;

use lockgate_rules::{AcceptProxy, HostPattern, PathKey};

use crate::model::Protocol;
use crate::values::*;

use super::Unset::{Absent, Within};
use super::access_log::{self, AccessLogForm};
use super::tls::TlsForm;
use super::{ConfigKey, Defaulted, KeyRow, PROXY_HEADER, SPOKEN, acme, route, tls};

pub(crate) use reached::{ACCEPT_PROXY, ACME, ALIAS, LISTEN, PROTOCOLS, TLS};
pub(crate) use whole::{ACCESS_LOG, PATH};

/// The keys of a site.
pub(crate) const ALL: &[KeyRow] = &joined::<
    { reached::ALL.len() + route::ALL.len() + whole::ALL.len() },
>(&[reached::ALL, route::ALL, whole::ALL]);

/// Several lists of keys as one.
const fn joined<const N: usize>(lists: &[&[KeyRow]]) -> [KeyRow; N] {
    let mut all = [TLS.row(); N];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let len = lists[list].len();
        all.split_at_mut(at)
            .1
            .split_at_mut(len)
            .0
            .copy_from_slice(lists[list]);
        at += len;
        list += 1;
    }
    all
}

table! {
    /// How clients reach a site.
    mod reached;

    const ALIAS: Defaulted<Items<HostPattern>> = ConfigKey::defaulted(
        "alias",
        &List { of: SiteHost, least: 0 },
        "[]",
        r#"["example.org", "*.example.org"]"#,
        "More hosts of the same site, without ports.",
    );

    const LISTEN: Defaulted<Items<IpAddr>> = ConfigKey::defaulted(
        "listen",
        &List { of: Ip, least: 1 },
        r#"["0.0.0.0", "[::]"]"#,
        r#"["127.0.0.1", "[::1]"]"#,
        "The addresses to bind, without ports.",
    );

    const TLS: ConfigKey<TlsForm> = ConfigKey::new(
        "tls",
        &Short { short: tls::SHORT, long: TableOf(tls::site::ALL) },
        Absent("`[tls]` and `[acme]` if the key has no port, else plain HTTP"),
        r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
        "Terminates TLS. The short form is the path of `cert`, or `\"internal\"`: certificates of \
         Lockgate's own authority, as `issuer` says. `{}` uses `[tls]` and `[acme]` unchanged; `false` is \
         plain HTTP, on `ports.http` if the site's key has no port.",
    )
    .inside(r#"cert = "/etc/tls/app.pem""#);

    const ACME: ConfigKey<ShortOrLong<()>> = ConfigKey::new(
        "acme",
        &Short { short: False, long: TableOf(acme::ALL) },
        Absent("`[acme]`, if it is there"),
        r#"{ profile = "shortlived" }"#,
        "How this site gets certificates by ACME, merged over `[acme]` key by key. Where there is no \
         `[acme]`, this table is enough. `false` gets none for this site.",
    )
    .with("tls = {}");

    const PROTOCOLS: ConfigKey<Items<Protocol>> = ConfigKey::new(
        "protocols",
        &SPOKEN,
        Absent("`[\"h2\", \"http1\"]` over TLS, `[\"http1\"]` without"),
        r#"["http1", "h2c"]"#,
        "The protocols for clients. Over TLS, `\"h2\"` and `\"http1\"` in order of preference, \
         chosen by ALPN; sites on one address may differ. Without TLS, `\"http1\"`, and `\"h2c\"` \
         for clients that begin with HTTP/2 (prior knowledge), as gRPC clients inside a network do; \
         all sites on one address must have the same value. The redirect from `ports.http` is not \
         affected.",
    );

    const ACCEPT_PROXY: Defaulted<AcceptProxy> = ConfigKey::defaulted(
        "accept_proxy",
        &PROXY_HEADER,
        "false",
        r#""require""#,
        "Whether clients send a PROXY header first, as in a `[tcp]` table. All sites on one address \
         must have the same value.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#);
}

table! {
    /// What only a whole site has.
    mod whole;

    const ACCESS_LOG: ConfigKey<AccessLogForm> = ConfigKey::new(
        "access_log",
        &access_log::FORM,
        Absent("the global `access_log`"),
        r#""combined:/var/log/lockgate/app.log""#,
        "A log of its own for the requests of this site, with its own format, or `false` for none. \
         Connections that end without a request are in the global log. Sites with the same value \
         share a log. Two logs that differ in anything (`format`, `sample`, `mask_ip`, `rotate`), \
         the global one included, cannot write to one file.",
    );

    const PATH: ConfigKey<Vec<Keyed<PathKey>>> = ConfigKey::new(
        "path",
        &Tables::of(route::ALL),
        Within,
        "",
        "Settings for some paths of the site. PATH is `\"/x\"` (that path), `\"/x/*\"` (all paths \
         below it) or `\"/x/{id}/y\"` (one segment is a parameter), each optionally after a method: \
         `\"POST /x\"`. The most specific one applies. A path that matches none gets the site's own \
         action, or 404 if it has none. A table without `proxy`, `root`, `redirect` or `respond` \
         keeps its site's; every other key is merged over the site's, and `false` removes one.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#);
}
