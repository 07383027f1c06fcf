//! What to write instead of a key that does not exist: names that other servers use, keys that will come
//! later, and the nearest spelling.
//!
//! Does not report: see `check`.

/// Keys and tables that are known but not in this version, by their path, with what helps meanwhile.
const LATER: &[(&str, &str)] = &[
    ("site", RELAY),
    ("pool", "write the endpoints as a list: proxy = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"]"),
    ("tunnel", "remove the table"),
    ("ports", "the port stands in the key of the table: [tcp.\":443\"]"),
    ("rates", "timeouts.tunnel_idle ends connections that carry nothing"),
    ("limits.head", NO_HTTP),
    ("limits.fields", NO_HTTP),
    ("limits.requests", NO_HTTP),
    ("timeouts.head", NO_HTTP),
    ("timeouts.idle", "for relayed connections write tunnel_idle"),
    ("timeouts.response", NO_HTTP),
    ("access_log.format", "every line is one JSON object"),
    ("access_log.sample", "every connection is logged"),
    ("tcp.*.sni", "give each name its own address, or decrypt with certs"),
    ("tcp.*.default", "give the address in proxy; the default certificate is tls.default"),
    ("tcp.*.shape", "remove it"),
    ("tcp.*.allow", "remove it, and filter in front"),
    ("tcp.*.deny", "remove it, and filter in front"),
    ("tcp.*.balance", "a list is served by fewest connections"),
    ("tcp.*.health", "an endpoint that cannot be reached is passed over"),
    ("endpoint.weight", "a list is served by fewest connections"),
    ("endpoint.backup", "remove it"),
];

const RELAY: &str = "relay its bytes with a listener:\n[tcp.\":443\"]\ntls = { cert = \"/etc/tls/app.pem\", \
                     key = \"/etc/tls/app.key\" }\nproxy = \"127.0.0.1:3000\"";
const NO_HTTP: &str = "it belongs to HTTP, which this version relays unread; remove it";

/// Names from other servers, in their spelling with `_`.
const SYNONYMS: &[(&[&str], &str)] = &[
    (
        &[
            "proxy_pass",
            "reverse_proxy",
            "upstream",
            "upstreams",
            "backend",
            "backends",
            "default_backend",
            "servers",
            "server",
            "target",
            "targets",
            "forward",
            "to",
            "dial",
            "origin",
            "destination",
        ],
        "write proxy = \"127.0.0.1:3000\", or a list of addresses, in the [tcp] table",
    ),
    (&["endpoints", "addresses"], "write the list as proxy = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"]"),
    (
        &["listen", "bind", "address", "frontend", "listener", "listeners", "entrypoints", "port", "addr"],
        "the address is the key of the table: [tcp.\":8443\"]",
    ),
    (
        &["server_name", "host", "hosts", "servername", "sni_hosts"],
        "certificates are chosen by their own names: list them in tls.certs",
    ),
    (
        &["location", "locations", "route", "routes", "path"],
        "bytes are relayed unread, so there are no paths",
    ),
    (
        &[
            "ssl_certificate",
            "pem_file",
            "crt",
            "certificate",
            "cert_file",
            "ssl_cert",
            "tls_cert",
            "ssl_crt",
        ],
        "write tls = { cert = \"/etc/tls/app.pem\" } in the [tcp] table",
    ),
    (
        &["ssl_certificate_key", "key_file", "private_key", "ssl_key", "tls_key"],
        "write tls = { key = \"/etc/tls/app.key\" } beside cert",
    ),
    (&["ssl", "https"], "write tls = { cert = \"/etc/tls/app.pem\" }"),
    (
        &["ssl_protocols", "protocols", "min_version", "tls_protos", "ssl_min_ver", "minversion"],
        "write policy = { versions = [\"1.2\", \"1.3\"] } in [tls]",
    ),
    (
        &["ssl_ciphers", "ciphers", "ciphersuites", "cipher_suites", "ssl_ciphersuites"],
        "write policy = { suites = [\"TLS13_AES_128_GCM_SHA256\"] } in [tls], or leave the default",
    ),
    (
        &["ssl_ecdh_curve", "curves", "ecdh_curve", "curve_preferences"],
        "write policy = { groups = [\"X25519\"] } in [tls], or leave the default",
    ),
    (&["dhparam", "ssl_dhparam", "dh_params"], "remove it: only elliptic curves are used"),
    (
        &["ssl_client_certificate", "ca_file", "client_ca", "client_verify_ca", "clientauth"],
        "write client_auth = { ca = \"/etc/tls/clients.pem\" } in tls",
    ),
    (
        &["ssl_verify_client", "verify", "client_verify"],
        "write client_auth = { mode = \"require\", ca = \"/etc/tls/clients.pem\" } in tls",
    ),
    (
        &["ssl_session_ticket_key", "ticket_keys", "tls_ticket_keys"],
        "write tickets = { keys = \"/etc/lockgate/tickets\" } in tls",
    ),
    (&["ssl_session_tickets", "session_tickets"], "write tickets = false in tls, or leave the default"),
    (&["ssl_stapling", "ssl_stapling_file", "stapling"], "write ocsp = \"/etc/tls/app.ocsp\" beside cert"),
    (
        &["timeout", "timeout_client", "timeout_server", "proxy_timeout", "idle_timeout"],
        "write timeouts = { tunnel_idle = \"1h\" }",
    ),
    (
        &["timeout_connect", "proxy_connect_timeout", "connect_timeout"],
        "write timeouts = { connect = \"5s\" }",
    ),
    (&["ssl_handshake_timeout", "handshake_timeout"], "write timeouts = { handshake = \"10s\" }"),
    (
        &["worker_processes", "nbthread", "nbproc", "threads", "worker_threads"],
        "write workers = 4, or leave \"auto\"",
    ),
    (
        &["worker_connections", "maxconn", "max_connections", "connections"],
        "write limits = { connections = 20000 }, or { addr = \"…\", max = 200 } for one endpoint",
    ),
    (&["limit_conn", "maxconn_per_ip", "per_ip"], "write limits = { per_client = 100 }"),
    (
        &["backlog", "tcp_fastopen", "keepalive", "fastopen"],
        "write it in socket = { backlog = 4096, fast_open = false, keepalive = \"60s\" }",
    ),
    (
        &["send_proxy", "send_proxy_v2", "write_proxy_v2", "write_proxy_v1", "write_proxy", "proxyprotocol"],
        "write proxy_protocol = \"v2\"",
    ),
    (&["accept_proxy_protocol", "proxy_proxy", "real_ip_header"], "write accept_proxy = \"require\""),
    (&["set_real_ip_from", "trusted_proxies", "trustedips"], "write trusted = [\"10.0.0.0/8\"] at the top"),
    (&["error_log", "loglevel", "log_level", "logging", "verbose"], "write log = \"info\""),
    (&["log_format", "accesslog", "logs"], "write access_log = \"/var/log/lockgate/access.log\""),
    (&["prometheus", "stats", "admin", "status"], "write metrics = \"127.0.0.1:9090\" at the top"),
    (
        &["group", "chroot", "daemon", "pidfile", "pid"],
        "remove it: systemd does this; user = \"lockgate\" drops privileges",
    ),
    (&["includes", "import"], "write include = [\"sites/*.toml\"]"),
    (
        &["shutdown_timeout", "grace", "graceful_timeout", "hard_stop_after"],
        "write drain = { deadline = \"30s\" }",
    ),
    (
        &["http", "stream", "global", "defaults", "apps", "events"],
        "there are no such sections: keys stand at the top, in [tls] or in [tcp.\"ADDR\"]",
    ),
];

/// What to do about a key that this version does not have yet.
pub(crate) fn later(path: &str) -> Option<&'static str> {
    LATER.iter().find(|(known, _)| *known == path).map(|(_, cure)| *cure)
}

/// What we call what others call so.
pub(crate) fn synonym(key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase().replace(['-', ' ', '.'], "_");
    SYNONYMS.iter().find(|(names, _)| names.contains(&key.as_str())).map(|(_, cure)| *cure)
}

/// The name that was probably meant: one or two slips of the finger away.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    let written: Vec<char> = written.chars().take(LONGEST + 1).flat_map(char::to_lowercase).collect();
    if written.len() > LONGEST {
        return None;
    }
    let slips = |name: &&str| distance(&written, &name.to_lowercase().chars().collect::<Vec<_>>());
    let allowed = |name: &str| (name.chars().count().min(written.len()) / 3).clamp(1, 3);
    let near = known.into_iter().filter(|name| slips(name) <= allowed(name));
    near.min_by_key(slips)
}

/// Edits between the two, neighbours swapped counting as one (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(ca != cb)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *cb && *ca == b[j - 1] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_finds_the_name_that_was_meant() {
        let known = ["timeouts", "workers", "tls", "tcp", "state"];
        for (written, meant) in [
            ("timeout", Some("timeouts")),
            ("wrokers", Some("workers")),
            ("Workers", Some("workers")),
            ("tsl", Some("tls")),
            ("stat", Some("state")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), known), None);
    }

    #[test]
    fn names_of_other_servers_are_known_in_any_spelling() {
        for name in ["proxy_pass", "pem-file", "SSL_Certificate", "reverse-proxy", "worker_processes"] {
            assert!(synonym(name).is_some(), "{name}");
        }
        assert!(synonym("banana").is_none());
    }
}
