//! The keys of `[site."HOST"]` tables beside those that they share with their paths.

use std::net::IpAddr;
use std::path::PathBuf;

use lockgate_rules::{AcceptProxy, HostPattern, PathKey};

use crate::model::{AccessFormat, LogTarget, Protocol};
use crate::values::*;

use super::Unset::{Absent, Within};
use super::top::LOG_PLACE;
use super::{Defaulted, Key, PROXY_HEADER, Row, SPOKEN, route, tls};

pub(crate) use reached::{ACCEPT_PROXY, ALIAS, LISTEN, PROTOCOLS, TLS};
pub(crate) use whole::{ACCESS_LOG, PATH};

/// The keys of a site.
pub(crate) const ALL: &[Row] = &joined::<
    { reached::ALL.len() + route::ALL.len() + whole::ALL.len() },
>(&[reached::ALL, route::ALL, whole::ALL]);

/// Several lists as one.
const fn joined<const N: usize>(lists: &[&[Row]]) -> [Row; N] {
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

    const ALIAS: Defaulted<Items<HostPattern>> = Key::defaulted(
        "alias",
        &List { of: SiteHost, least: 0 },
        "[]",
        r#"["example.org", "*.example.org"]"#,
        "More hosts that are served alike, without ports.",
    );

    const LISTEN: Defaulted<Items<IpAddr>> = Key::defaulted(
        "listen",
        &List { of: Ip, least: 1 },
        r#"["0.0.0.0", "[::]"]"#,
        r#"["127.0.0.1", "[::1]"]"#,
        "The addresses that are bound, without ports.",
    );

    const TLS: Key<Form<Option<PathBuf>>> = Key::new(
        "tls",
        &Short { short: Unless(False, FilePath), long: TableOf(tls::site::ALL) },
        Absent("`[tls]` as it is where the key has no port; else plain HTTP"),
        r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
        "Takes TLS off. The short form is the path of `cert`; `{}` uses `[tls]` as it is; `false` is plain HTTP, on \
         `ports.http` where the key has no port.",
    )
    .inside(r#"cert = "/etc/tls/app.pem""#);

    const PROTOCOLS: Key<Items<Protocol>> = Key::new(
        "protocols",
        &SPOKEN,
        Absent("`[\"h2\", \"http1\"]` over TLS, `[\"http1\"]` without"),
        r#"["http1", "h2c"]"#,
        "What is spoken with clients. Over TLS `\"h2\"` and `\"http1\"`, best first, of which they choose by ALPN; sites on \
         one address may differ. Without TLS `\"http1\"`, and `\"h2c\"` for clients that begin with HTTP/2 (prior \
         knowledge), as gRPC clients inside a network do; all sites on one address must say the same. It is not about the \
         redirect from `ports.http`.",
    );

    const ACCEPT_PROXY: Defaulted<AcceptProxy> = Key::defaulted(
        "accept_proxy",
        &PROXY_HEADER,
        "false",
        r#""require""#,
        "Whether clients send a PROXY header first, as in a `[tcp]` table; all sites on one address must say the same.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#);
}

table! {
    /// What only a whole site has.
    mod whole;

    const ACCESS_LOG: Key<Form<Option<(AccessFormat, LogTarget)>>> = Key::new(
        "access_log",
        &LOG_PLACE,
        Absent("the global `access_log`"),
        r#""combined:/var/log/lockgate/app.log""#,
        "One line for each request of this site, in a log of its own with a form of its own, or `false` for none. \
         Connections that end without a request are in the global one. Sites that say the same share a log; two \
         that differ cannot write one file.",
    );

    const PATH: Key<Vec<Keyed<PathKey>>> = Key::new(
        "path",
        &Tables::of(route::ALL),
        Within,
        "",
        "What holds for some paths only. PATH is `\"/x\"` (that path), `\"/x/*\"` (what is below), `\"/x/{id}/y\"` (one \
         segment is a parameter), each also after a method: `\"POST /x\"`. The most specific one is taken; a path that none \
         matches is answered by the site's own verb, else with 404. A table without `proxy`, `root`, `redirect` or `respond` keeps \
         that of its site; everything else is merged over what the site says, by key, and `false` removes.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#);
}
