//! What to write instead of a key that does not exist: names that other servers use, keys that will come
//! later, and the nearest spelling.
//!
//! Does not report: see `check`.

/// Keys and tables that are known but not in this version, by their path, with what helps meanwhile.
const LATER: &[(&str, &str)] = &[
    ("site.*.also", "write a site of its own: redirect = \"https://example.com{path}\""),
    ("tcp.*.allow", "remove it, and filter in front"),
    ("tcp.*.deny", "remove it, and filter in front"),
];

/// Words that others use for ours, with one that stands beside ours.
const OTHER_WORDS: &[(&str, &[&str], &str)] = &[
    ("http1", &["h1", "http", "http/1.1", "http1.1", "http/1", "http11"], "http1"),
    ("http1", &["http2", "http/2", "http/2.0", "https", "grpcs"], "h2"),
    ("http1", &["grpc", "h2c-prior-knowledge"], "h2c"),
    ("p2c", &["random", "random_two", "two-random-choices", "random(2)", "ewma", "peak_ewma"], "p2c"),
    ("p2c", &["leastconn", "least_conn", "least-conn", "least_request", "least_connections"], "least"),
    ("p2c", &["roundrobin", "round_robin", "static-rr", "rr", "wrr", "weighted_round_robin"], "round-robin"),
];

/// Words that are known but not in this version, with one that stands beside them and what helps meanwhile.
const LATER_WORDS: &[(&str, &[&str], &str)] =
    &[("http1", &["h3", "quic", "http3"], "write \"h2\", or \"h2c\" without TLS")];

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
        "write proxy = \"127.0.0.1:3000\", a list of addresses or \"pool:NAME\", in the [site] or [tcp] table",
    ),
    (
        &["endpoints", "addresses"],
        "write the list as proxy = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"], or in [pool.NAME]",
    ),
    (
        &["listen", "bind", "address", "frontend", "listener", "listeners", "entrypoints", "port", "addr"],
        "the address is the key of the table: [site.\"example.com:8443\"], [tcp.\":8443\"]",
    ),
    (
        &["server_name", "host", "hosts", "servername", "sni_hosts", "server_names", "domain", "domains"],
        "the host is the key of the table: [site.\"example.com\"], more of them stand in alias",
    ),
    (
        &["location", "locations", "route", "routes", "path", "handle", "rule"],
        "write [site.\"example.com\".path.\"/x/*\"]; in a [tcp] table bytes are relayed unread, so there are no paths",
    ),
    (
        &["tunnel_pass", "forward_proxy", "http_port", "http_tunnel", "connect_proxy", "forwardproxy"],
        "write [tunnel.\":3128\"], with allow = [\"*.example.org:443\"]",
    ),
    (
        &["connectport", "connect_port", "connect_ports", "safe_ports", "ssl_ports", "allowed_ports"],
        "write the ports into the rules of a [tunnel] table: allow = [\"*:443\"]",
    ),
    (
        &[
            "allowed_targets",
            "allowed_hosts",
            "whitelist",
            "allowlist",
            "http_access",
            "acl",
            "blocklist",
            "blacklist",
        ],
        "write allow or deny: [\"*.example.org:443\", \"10.1.0.0/16:22\"] in a [tunnel] table, [\"10.0.0.0/8\"] in a [site] table",
    ),
    (
        &["dns_cache", "dns_cache_ttl", "positive_dns_ttl", "resolver_ttl", "dns_ttl"],
        "write dns = { ttl = \"60s\" } in the [tunnel] table; names of endpoints are looked up every 30s",
    ),
    (
        &["proxy_auth", "auth_param", "basic_proxy_auth"],
        "write auth = { basic = \"/etc/lockgate/htpasswd\" } in the [tunnel] table",
    ),
    (&["return", "redir", "redirect_to"], "write redirect = \"https://example.org{path}\", or respond = 404"),
    (
        &["proxy_set_header", "header_up", "set_request_header", "customrequestheaders"],
        "write request_headers = { x-name = \"value\" }",
    ),
    (
        &["add_header", "header", "header_down", "set_header", "response_headers", "customresponseheaders"],
        "write headers = { x-name = \"value\" }",
    ),
    (
        &["auth_basic", "auth_basic_user_file", "basic_auth", "basicauth", "htpasswd"],
        "write auth = { basic = \"/etc/lockgate/htpasswd\" }",
    ),
    (
        &["forward_auth", "forwardauth", "auth_request", "ext_authz", "external_auth", "auth_url"],
        "write auth = { forward = \"127.0.0.1:4181\", path = \"/verify\", copy = [\"remote-user\"] }",
    ),
    (
        &["copy_headers", "authresponseheaders", "auth_request_set", "auth_response_headers"],
        "write copy = [\"remote-user\"] beside forward",
    ),
    (
        &[
            "tracing",
            "otel",
            "otel_trace",
            "opentelemetry",
            "opentracing",
            "traceparent",
            "otel_trace_context",
        ],
        "write trace = true, or trace = \"10%\", in the [site] or path table",
    ),
    (
        &[
            "proxy_download_rate",
            "proxy_upload_rate",
            "bwlim_in",
            "bwlim_out",
            "bandwidth",
            "bandwidth_limit",
            "throttle",
            "speed_limit",
        ],
        "write shape = { per_connection = { in = \"1MB/s\", out = \"10MB/s\" } }",
    ),
    (
        &["limit_rate", "limit_rate_after", "proxy_limit_rate", "bwlim"],
        "write shape = { per_connection = { out = \"10MB/s\" } }",
    ),
    (
        &["resolver", "resolvers", "nameserver", "nameservers", "dns_servers"],
        "write dns = { servers = [\"10.0.0.53:53\"] } at the top, or leave those of /etc/resolv.conf",
    ),
    (&["limit_req", "rate_limit", "ratelimit"], "write limit = \"20/s per client burst 40\""),
    (
        &["client_max_body_size", "max_body", "max_body_size", "request_body", "body_max"],
        "write body = { max = \"10MB\" }",
    ),
    (
        &["file_server", "document_root", "documentroot", "static", "webroot", "public", "root_dir", "files"],
        "write root = \"/srv/www\" in the [site] or path table",
    ),
    (
        &["try_files", "try_file"],
        "write try = [\"{path}\", \"{path}/\", \"/app.html\"], or spa = true, beside root",
    ),
    (&["fallback", "fallback_page", "page_fallback", "single_page"], "write spa = \"/app.html\" beside root"),
    (
        &["autoindex", "browse", "directory_listing", "directory_index_listing"],
        "write listing = true beside root",
    ),
    (&["directoryindex", "directory_index", "index_names"], "write index = [\"index.html\"] beside root"),
    (&["page404", "page_404", "errordocument", "404"], "write not_found = \"/404.html\" beside root"),
    (
        &["default_type", "mime_types", "mime", "addtype"],
        "write types = { \".log\" = \"text/plain\" } beside root",
    ),
    (
        &["gzip_static", "brotli_static", "zstd_static"],
        "precompressed files are sent unless precompressed = false",
    ),
    (&["disable_symlinks", "follow_symlinks"], "write symlinks = \"inside\" or \"follow\" beside root"),
    (
        &["open_file_cache", "sendfile", "tcp_nopush", "aio", "directio", "output_buffers"],
        "remove it: files are cached and sent so without a word",
    ),
    (
        &["gzip", "encode", "brotli", "zstd", "compression", "gzip_types", "gzip_min_length", "deflate"],
        "write compress = true, or compress = { codings = [\"gzip\"], types = [\"text/*\"], min = \"1KB\" }",
    ),
    (
        &["expires", "cache_control", "cache_policy", "expiresbytype", "expiresdefault"],
        "write cache = { \"*\" = \"no-cache\", \"/assets/*\" = \"1y immutable\", \"text/css\" = \"1d\" }",
    ),
    (
        &["hsts", "strict_transport_security", "security_headers", "stsseconds", "framedeny"],
        "write headers = { secure = true }",
    ),
    (
        &["access_control_allow_origin", "allow_origin", "accesscontrolalloworiginlist", "cors_headers"],
        "write cors = \"https://app.example.com\", a list of origins, or true",
    ),
    (
        &[
            "sub_filter",
            "subs_filter",
            "replace",
            "replace_filter",
            "body_filter",
            "substitute",
            "js_body_filter",
        ],
        "write rewrite_body = [{ text = \"a\", with = \"b\" }]",
    ),
    (
        &["rewrite_rules", "map", "redirect_map", "rewritemap", "redirectmatch", "url_map"],
        "write redirects = \"/etc/lockgate/redirects\", a file with lines such as: /old/* /new/{*} 301",
    ),
    (&["server_tokens"], "remove it, or write headers = { server = false }"),
    (&["charset_types", "override_charset", "adddefaultcharset"], "write charset = \"utf-8\" beside root"),
    (
        &["error_page", "errorfile", "handle_errors", "errors"],
        "write error_pages = { 502 = \"/path/502.html\" }",
    ),
    (
        &["health_check", "healthcheck", "check", "option_httpchk"],
        "write health = \"/health\" in [pool.NAME]",
    ),
    (
        &[
            "tcp_check",
            "tcp_check_send",
            "tcp_check_expect",
            "send_string",
            "option_tcp_check",
            "option_redis_check",
        ],
        "write health = { tcp = true, send = \"PING\\r\\n\", expect = \"PONG\" } in [pool.NAME]",
    ),
    (
        &[
            "max_fails",
            "fail_timeout",
            "outlier_detection",
            "observe",
            "on_error",
            "error_limit",
            "fail_duration",
            "passive_health_check",
            "passivehealthcheck",
        ],
        "write eject = { errors = 5, for = \"10s\" } in [pool.NAME]",
    ),
    (&["slowstart", "slow_start_config", "slowstartduration"], "write slow_start = \"30s\" in [pool.NAME]"),
    (
        &[
            "sticky_cookie",
            "stickiness",
            "session_affinity",
            "sessionaffinity",
            "persistence",
            "cookie",
            "sticky",
        ],
        "write balance = { sticky = \"cookie:lg\" } in [pool.NAME]",
    ),
    (
        &["ip_hash", "hash_policy", "hash_type", "hash", "consistent_hash", "balance_source", "stick_table"],
        "write balance = { hash = \"client\" } in [pool.NAME]",
    ),
    (&["lb_policy", "lb", "loadbalancer", "policy_lb"], "write balance = \"least\" in [pool.NAME]"),
    (
        &["proxy_read_timeout", "timeout_http_request", "read_timeout", "response_timeout"],
        "write timeouts = { response = \"60s\" }",
    ),
    (&["keepalive_timeout", "timeout_http_keep_alive"], "write timeouts = { idle = \"75s\" } at the top"),
    (&["stripprefix", "uri_strip_prefix", "handle_path"], "write strip_prefix = true in the path table"),
    (&["serveralias", "aliases", "server_alias"], "write alias = [\"example.org\"]"),
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
        "write tls = { cert = \"/etc/tls/app.pem\" } in the [site] or [tcp] table",
    ),
    (
        &["ssl_certificate_key", "key_file", "private_key", "ssl_key", "tls_key"],
        "write tls = { key = \"/etc/tls/app.key\" } beside cert",
    ),
    (
        &[
            "ssl_preread",
            "ssl_preread_server_name",
            "req_ssl_sni",
            "req_ssl_hello_type",
            "ssl_fc_sni",
            "hostsni",
            "hostsniregexp",
            "passthrough",
            "tls_passthrough",
            "ssl_passthrough",
            "layer4",
        ],
        "write sni.\"mail.example.com\" = \"10.0.0.5:443\" in [tcp.\":443\"], and default = \"…\" for all other names",
    ),
    (
        &["req_ssl_alpn", "ssl_preread_alpn_protocols", "acme_tls_1", "tls_alpn_01"],
        "write alpn.\"acme-tls/1\" = \"127.0.0.1:10443\" in [tcp.\":443\"]",
    ),
    (&["ssl", "https"], "write tls = { cert = \"/etc/tls/app.pem\" }"),
    (
        &["ssl_protocols", "min_version", "tls_protos", "ssl_min_ver", "minversion"],
        "write policy = { versions = [\"1.2\", \"1.3\"] } in [tls]",
    ),
    (
        &["protocols"],
        "write protocols = [\"h2\", \"http1\"] in the [site] table, protocol = \"h2\" in [pool.NAME]; versions of TLS are policy = { versions = [\"1.2\", \"1.3\"] } in [tls]",
    ),
    (
        &["protocol", "proto", "scheme"],
        "towards endpoints write protocol = \"h2c\" in [pool.NAME], or \"h2\" beside tls; towards clients protocols = [\"h2\", \"http1\"] in the [site] table; in a [tcp] table bytes are relayed unread, so there is none",
    ),
    (
        &["alpn"],
        "write protocols = [\"h2\", \"http1\"] in the [site] table; what is relayed has it in `tls` of [tcp.\"ADDR\"]",
    ),
    (
        &["http2", "h2", "h2c", "http_2", "enable_http2", "http2_enabled"],
        "over TLS HTTP/2 is on, unless protocols = [\"http1\"] in the [site] table; without TLS write protocols = [\"http1\", \"h2c\"]",
    ),
    (
        &["http2_max_concurrent_streams", "max_concurrent_streams", "maxconcurrentstreams"],
        "write http2 = { streams = 128 } at the top",
    ),
    (
        &[
            "http2_recv_buffer_size",
            "http2_body_preread_size",
            "initial_stream_window_size",
            "initial_window_size",
        ],
        "write http2 = { window = \"1MB\" } at the top",
    ),
    (
        &["grpc_pass", "grpc_proxy", "grpc"],
        "write proxy = { to = \"127.0.0.1:50051\", protocol = \"h2c\" } in the [site] table, or protocol = \"h2\" with tls = {}",
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
        "there are no such sections: keys stand at the top, in [tls], [site.\"HOST\"], [pool.NAME] or [tcp.\"ADDR\"]",
    ),
];

/// What to do about a key that this version does not have yet.
pub(crate) fn later(path: &str) -> Option<&'static str> {
    LATER.iter().find(|(known, _)| *known == path).map(|(_, cure)| *cure)
}

/// What to do about a word that this version does not have yet, where `known` are those that it has.
pub(crate) fn later_word(known: &[&str], word: &str) -> Option<&'static str> {
    let found = LATER_WORDS.iter().find(|(beside, words, _)| known.contains(beside) && words.contains(&word));
    found.map(|(_, _, cure)| *cure)
}

/// The word among `known` for what others call `word`.
pub(crate) fn other_word(known: &[&str], word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let means = |(beside, words, _): &&(&str, &[&str], &str)| {
        known.contains(beside) && words.contains(&word.as_str())
    };
    OTHER_WORDS.iter().find(means).map(|(_, _, ours)| *ours)
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
