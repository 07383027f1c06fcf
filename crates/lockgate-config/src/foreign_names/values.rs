//! Cures for values of another type that have a known meaning.

use Given::{Any, List, Number, Table, Text, True};

/// The kind of the value that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    True,
    Number,
    Text,
    List,
    Table,
    /// A value of any kind.
    Any,
}

const HSTS: &str = "write headers = { secure = true }";

/// Keys, the invalid value and the cure.
const VALUES: &[(&str, Given, &str)] = &[
    ("hsts", Any, HSTS),
    (
        "maintenance",
        True,
        "write maintenance = { body = \"back soon\\n\" }, the response while no endpoint is up; to take a site out of service write respond = { status = 503, body = \"back soon\\n\" } instead of proxy",
    ),
    (
        "health",
        True,
        "write health = \"/health\", or \"tcp\" to check the connection only",
    ),
    ("metrics", True, "write metrics = \"127.0.0.1:9090\""),
    (
        "access_log",
        True,
        "leave it out: \"stdout\" is the default; or write access_log = \"/var/log/lockgate/access.log\"",
    ),
    (
        "redirect",
        Number,
        "write redirect = { to = \"https://example.org{path}\", status = 301 }",
    ),
    (
        "redirect",
        True,
        "write redirect = \"https://example.org{path}\"; plain HTTP is redirected to HTTPS by default",
    ),
    (
        "timeouts",
        Any,
        "write timeouts = { connect = \"5s\" }: each deadline has its own key",
    ),
    ("limits", Number, "write limits = { connections = 20000 }"),
    (
        "compress",
        Text,
        "write compress = true, or compress = { codings = [\"gzip\"] }",
    ),
    (
        "compress",
        List,
        "write compress = { codings = [\"zstd\", \"gzip\"] }",
    ),
    (
        "http2",
        True,
        "leave it out: over TLS HTTP/2 is on; http2 = { streams = 64 } bounds it",
    ),
    (
        "auth",
        Text,
        "write auth = { basic = \"/etc/lockgate/htpasswd\" }",
    ),
    (
        "auth",
        True,
        "write auth = { basic = \"/etc/lockgate/htpasswd\" }",
    ),
    ("retry", Number, "write retry = { times = 2 }"),
    ("queue", Number, "write queue = { max = 100 }"),
    ("eject", Number, "write eject = { errors = 3 }"),
    (
        "eject",
        True,
        "leave it out: it is on unless eject = false; eject = { errors = 3 } is the long form",
    ),
    (
        "retry",
        True,
        "leave it out: it is on unless retry = false; retry = { times = 2 } is the long form",
    ),
    (
        "tls",
        True,
        "write tls = {}, which uses [tls] and [acme]; or tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }",
    ),
    (
        "acme",
        True,
        "write acme = {} in a site, or [acme] at the top for all",
    ),
    (
        "acme",
        Text,
        "write acme = { directory = \"letsencrypt\" }, or acme = { email = \"me@example.com\" }",
    ),
    (
        "rewrite",
        List,
        "write rewrite = \"/v1/{*}\"; regular expressions are not for paths",
    ),
    (
        "paths",
        Table,
        "write [site.\"example.com\".path.\"/x\"], without the s",
    ),
    (
        "strip_prefix",
        Text,
        "write strip_prefix = true: the part of the path before /* is removed",
    ),
    (
        "client_auth",
        True,
        "write client_auth = { ca = \"/etc/tls/clients.pem\" }",
    ),
    ("headers", List, "write headers = { x-name = \"value\" }"),
    ("headers", Text, "write headers = { x-name = \"value\" }"),
    (
        "request_headers",
        List,
        "write request_headers = { x-name = \"value\" }",
    ),
    ("drain", Text, "write drain = { deadline = \"30s\" }"),
    ("drain", Number, "write drain = { deadline = \"30s\" }"),
];

/// The cure for `key` with such a value.
pub(crate) fn other_type_cure(key: &str, given: Given) -> Option<&'static str> {
    let found = VALUES.iter().find(|(known, what, _)| {
        *known == key && matches!(what, what if *what == given || *what == Any)
    });
    found.map(|(_, _, cure)| *cure)
}
