//! The keys of `[[test]]`: a request, and what is expected of the configuration for it.

use std::net::IpAddr;

use crate::model::{OutcomeKind, TestedRequest};
use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required};
use super::{ConfigKey, KeyRow, MapKeys};

const ANY: super::Unset = Absent("any");
const EXPECTED: &str = r#"expect = { site = "app.example.com" }"#;
const REQUEST_OF_APP: &str =
    r#"request = "GET https://app.example.com/", expect = { route = "/*" }"#;

table! {
    const REQUEST: ConfigKey<TestedRequest> = ConfigKey::new(
        "request",
        &RequestOfTest,
        Required,
        r#""POST https://app.example.com/api/users?x=1""#,
        "The method and the URL of the request. Without a method it is `GET`.",
    )
    .with(EXPECTED);

    const FROM: ConfigKey<IpAddr> = ConfigKey::new(
        "from",
        &Ip,
        Absent("`192.0.2.1`, an address that no network has"),
        r#""10.0.0.7""#,
        "The address that the client connects from.",
    )
    .with(REQUEST_OF_APP);

    const SNI: ConfigKey<Option<String>> = ConfigKey::new(
        "sni",
        &Unless(False, SingleLine),
        Absent("the host of the URL"),
        r#""other.example.com""#,
        "The server name in the client's TLS; `false` is for none.",
    )
    .with(REQUEST_OF_APP);

    const LISTENER: ConfigKey<String> = ConfigKey::new(
        "listener",
        &SingleLine,
        Absent("the one with the port of the URL"),
        r#""10.0.0.1:443""#,
        "The listener, as `lockgate check -v` names it, if several have the port of the URL.",
    )
    .with(REQUEST_OF_APP);

    const HEADERS: ConfigKey<MapOf<String>> = ConfigKey::new(
        "headers",
        &Map { names: MapKeys::TestFields, of: FieldValue, beside: &[] },
        Absent("none but `Host`"),
        r#"{ cookie = "a=b", x-forwarded-for = "203.0.113.9" }"#,
        "The fields of the request. `Host` is the host of the URL if it is not here.",
    )
    .with(REQUEST_OF_APP);

    const EXPECT: ConfigKey<CheckedTable> = ConfigKey::new(
        "expect",
        &TableOf(expect::ALL),
        Required,
        r#"{ site = "app.example.com", route = "/api/*", pool = "api" }"#,
        "What `lockgate explain` says of the request, at least in one respect.",
    )
    .with(r#"request = "GET https://app.example.com/api/users""#);
}

table! {
    /// What is expected.
    mod expect;

    const SITE: ConfigKey<String> = ConfigKey::new(
        "site",
        &SingleLine,
        ANY,
        r#""app.example.com""#,
        "The site, as it is written in the header of its table.",
    );

    const ROUTE: ConfigKey<String> = ConfigKey::new(
        "route",
        &SingleLine,
        ANY,
        r#""/api/*""#,
        "The route, as it is written in the header of its `path` table. That of the site itself is \
         `/*`.",
    );

    const OUTCOME: ConfigKey<OutcomeKind> = ConfigKey::new(
        "outcome",
        &Words(&[
            ("proxied", OutcomeKind::Proxied),
            ("files", OutcomeKind::Files),
            ("responded", OutcomeKind::Responded),
            ("refused", OutcomeKind::Refused),
            ("relayed", OutcomeKind::Relayed),
            ("alert", OutcomeKind::Alert),
        ]),
        ANY,
        r#""proxied""#,
        "What becomes of it: `proxied` to an endpoint, `files`, `responded` by `redirect`, \
         `respond` or `cors`, `refused` with an error, `relayed` by a `[tcp]` table, or an `alert` \
         of TLS because there is no certificate.",
    );

    const STATUS: ConfigKey<u16> = ConfigKey::new(
        "status",
        &WholeNumber::new(100, 599),
        ANY,
        "301",
        "The status of the response that Lockgate makes. Statuses of endpoints and of files are not \
         known before the request is sent.",
    );

    const LOCATION: ConfigKey<String> = ConfigKey::new(
        "location",
        &SingleLine,
        ANY,
        r#""https://www.example.com/""#,
        "The field `Location` of a redirect.",
    );

    const POOL: ConfigKey<String> = ConfigKey::new(
        "pool",
        &SingleLine,
        ANY,
        r#""api""#,
        "The pool, as `[pool.NAME]`, that the request is proxied or relayed to.",
    );

    const ENDPOINT: ConfigKey<String> = ConfigKey::new(
        "endpoint",
        &SingleLine,
        ANY,
        r#""127.0.0.1:3000""#,
        "An endpoint among those that the request may be proxied or relayed to.",
    );

    const TARGET: ConfigKey<String> = ConfigKey::new(
        "target",
        &SingleLine,
        ANY,
        r#""/users?x=1""#,
        "Path and query, as the endpoint gets them.",
    );

    const SENT: ConfigKey<MapOf<Option<String>>> = ConfigKey::new(
        "sent",
        &Map { names: MapKeys::TestFields, of: Unless(False, FieldValue), beside: &[] },
        ANY,
        r#"{ host = "app.internal", x-forwarded-proto = "https", x-debug = false }"#,
        "Fields of the request, as the endpoint gets them; `false` is for a field that it does not \
         get.",
    );
}
