//! What valid configurations mean.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockgate_config::{
    AccessFormat, AccessLog, AdminSocket, AuthoritySource, CertList, ClientCertificates, Config,
    DownstreamTls, EndpointPool, Environment, Group, ListenAddr, LoadedConfig, LogLevel, LogTarget,
    Metrics, RelayDestination, Tcp, Tickets, TlsVersion, Workers, load, parse_str_in, rates_shown,
};
use lockgate_rules::{AcceptProxy, Directions, ProxyVersion, SentHeader};

fn load_in(text: &str, env: &Environment) -> LoadedConfig {
    match parse_str_in(text, Path::new("/etc/lockgate/lockgate.toml"), env) {
        Ok(loaded) => loaded,
        Err(report) => panic!("{text}\n{report}"),
    }
}

fn config(text: &str) -> Config {
    Config::clone(&load_in(text, &Environment::none()).config)
}

fn listener(inner: &str) -> Tcp {
    config(&format!("[tcp.\":1\"]\n{inner}")).tcp.remove(0)
}

/// The pool that a listener or a route leads to.
fn pool(config: &Config, index: usize) -> &EndpointPool {
    &config.pools[index]
}

/// The only relay of a listener.
fn relay(tcp: &Tcp) -> &RelayDestination {
    tcp.relays()[0]
}

/// The address of the first endpoint of the first listener.
fn first_endpoint(config: &Config) -> String {
    pool(config, relay(&config.tcp[0]).pool).endpoints[0]
        .addr
        .to_string()
}

fn tls(global: &str, own: &str) -> DownstreamTls {
    let env = Environment::none()
        .with_file("/etc/tls/a.pem", "")
        .with_file("/etc/tls/b.pem", "");
    let text = format!("[tls]\n{global}\n[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\ntls = {own}\n");
    relay(&load_in(&text, &env).config.tcp[0])
        .tls
        .clone()
        .expect("the listener has TLS")
}

fn paths(certs: &CertList) -> Vec<&str> {
    certs
        .iter()
        .map(|files| files.cert.to_str().unwrap_or_default())
        .collect()
}

#[test]
fn metrics_have_an_address_and_may_have_names() {
    let metrics = |written: &str| {
        config(&format!(
            "metrics = {written}\n[tcp.\":8443\"]\nproxy = \"127.0.0.1:3000\"\n"
        ))
        .metrics
    };
    let at = ListenAddr::All(9090);
    assert_eq!(
        metrics("\":9090\""),
        Some(Metrics {
            at: at.clone(),
            hosts: Vec::new()
        })
    );
    let named = metrics("{ at = \":9090\", hosts = [\"metrics.example.com\"] }");
    assert_eq!(
        named,
        Some(Metrics {
            at,
            hosts: vec!["metrics.example.com".into()]
        })
    );
    assert_eq!(metrics("false"), None);
}

#[test]
fn the_admin_socket_has_a_place_a_group_and_permissions() {
    let admin = |line: &str| {
        config(&format!(
            "{line}\n[tcp.\":8443\"]\nproxy = \"127.0.0.1:3000\"\n"
        ))
        .admin
    };
    assert_eq!(admin(""), Some(AdminSocket::default()));
    assert_eq!(admin("admin = {}"), Some(AdminSocket::default()));
    assert_eq!(admin("admin = false"), None);
    let at = |line| admin(line).and_then(|admin| admin.at);
    for line in [
        "admin = \"unix:/run/a.sock\"",
        "admin = { at = \"unix:/run/a.sock\" }",
    ] {
        assert_eq!(
            at(line).as_deref(),
            Some(Path::new("/run/a.sock")),
            "{line}"
        );
    }
    // A relative path starts from the folder of the file.
    let relative = at("admin = \"unix:a.sock\"");
    assert_eq!(relative.as_deref(), Some(Path::new("/etc/lockgate/a.sock")));
    for (line, permissions) in [
        ("admin = {}", 0o600),
        ("admin = { group = \"wheel\" }", 0o660),
        ("admin = { group = \"wheel\", mode = \"0666\" }", 0o666),
        ("admin = { mode = \"640\" }", 0o640),
    ] {
        let found = admin(line).map(|admin| admin.permissions());
        assert_eq!(found, Some(permissions), "{line}");
    }
}

#[test]
fn two_lines_are_a_configuration() {
    let config = config("[tcp.\":8443\"]\nproxy = \"127.0.0.1:3000\"\n");
    assert_eq!(config.workers, Workers::Auto);
    assert_eq!(
        config.access_log,
        Some(AccessLog {
            to: LogTarget::Stdout,
            format: AccessFormat::Json,
            sample: 100,
            mask_ip: false,
            rotate: None
        })
    );
    assert_eq!(
        (config.log.level, &config.metrics, config.limits.connections),
        (LogLevel::Info, &None, None)
    );
    assert_eq!(
        (config.limits.per_client, config.limits.handshakes),
        (None, 1024)
    );
    assert_eq!(config.drain.deadline, Duration::from_secs(30));
    assert_eq!(config.timeouts.tunnel_idle, Duration::from_secs(3600));
    assert_eq!(
        (config.socket.backlog, config.socket.keepalive),
        (4096, Some(Duration::from_secs(60)))
    );
    let tcp = &config.tcp[0];
    assert_eq!(
        (tcp.name.as_str(), &tcp.listen),
        (":8443", &ListenAddr::All(8443))
    );
    assert_eq!(first_endpoint(&config), "127.0.0.1:3000");
    assert_eq!((&relay(tcp).tls, relay(tcp).proxy_protocol), (&None, None));
    assert_eq!(tcp.accept_proxy, AcceptProxy::Never);
    assert_eq!((tcp.timeouts, tcp.max_lifetime), (config.timeouts, None));
}

#[test]
fn the_example_of_the_product_is_read() {
    let tcp = listener(
        "tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }\nproxy = \"unix:/run/app.sock\"\nproxy_protocol = \"v2\"\n",
    );
    assert_eq!(
        relay(&tcp).proxy_protocol,
        Some(SentHeader::Own(ProxyVersion::V2))
    );
    let tls = relay(&tcp).tls.clone().unwrap();
    assert_eq!(
        tls.certs.own.as_ref().unwrap().key.as_deref(),
        Some(Path::new("/etc/tls/app.key"))
    );
    assert_eq!(tls.default.as_ref(), tls.certs.iter().next());
    assert_eq!(
        tls.tickets,
        Tickets::Rotating {
            rotate: Duration::from_secs(43_200),
            keep: 3
        }
    );
    assert_eq!(tls.versions, [TlsVersion::Tls12, TlsVersion::Tls13]);
    assert_eq!(
        (tls.groups[0], tls.suites.len()),
        (Group::X25519MlKem768, 9)
    );
}

#[test]
fn short_forms_mean_the_same_as_long_ones() {
    let proxy = "proxy = \"127.0.0.1:1\"";
    for (short, long) in [
        ("log = \"debug\"", "log = { level = \"debug\" }"),
        (
            "access_log = \"/var/a.log\"",
            "access_log = { to = \"/var/a.log\" }",
        ),
        (
            "access_log = \"stderr\"",
            "access_log = { to = \"stderr\" }",
        ),
    ] {
        let rest = format!("[tcp.\":1\"]\n{proxy}\n");
        assert_eq!(
            config(&format!("{short}\n{rest}")),
            config(&format!("{long}\n{rest}"))
        );
    }
    let short = listener(&format!("tls = \"/a.pem\"\n{proxy}"));
    assert_eq!(
        short,
        listener(&format!("tls = {{ cert = \"/a.pem\" }}\n{proxy}"))
    );
    assert_eq!(
        listener(proxy),
        listener("proxy = { to = [{ addr = \"127.0.0.1:1\" }] }")
    );
    assert_eq!(
        listener(proxy),
        listener(&format!(
            "tls = false\naccept_proxy = false\nmax_lifetime = \"off\"\n{proxy}"
        ))
    );
}

#[test]
fn tls_of_a_listener_is_merged_over_the_global_one_key_by_key() {
    let global = "certs = [\"/etc/tls/*.pem\"]\npolicy = \"modern\"\ntickets = false\nclient_auth = { ca = \"/ca\" }";
    let inherited = tls(global, "{}");
    assert_eq!(
        paths(&inherited.certs),
        ["/etc/tls/a.pem", "/etc/tls/b.pem"]
    );
    assert_eq!(
        (&inherited.default, &inherited.tickets),
        (&None, &Tickets::Off)
    );
    assert_eq!(inherited.versions, [TlsVersion::Tls13]);
    assert_eq!(
        inherited.client_auth.as_ref().map(|auth| auth.mode),
        Some(ClientCertificates::Require)
    );
    let own = tls(
        global,
        "{ policy = \"intermediate\", tickets = { keep = 2 }, client_auth = false }",
    );
    assert_eq!(own.versions.len(), 2);
    assert_eq!(
        own.tickets,
        Tickets::Rotating {
            rotate: Duration::from_secs(43_200),
            keep: 2
        }
    );
    assert_eq!(own.client_auth, None);
}

#[test]
fn a_listener_with_one_certificate_of_its_own_uses_it_for_unknown_names() {
    let default = |global: &str, own: &str| tls(global, own).default.map(|files| files.cert);
    let path = |text: &str| Some(PathBuf::from(text));
    let global = "certs = [\"/g.pem\"]\ndefault = \"/d.pem\"";
    assert_eq!(default(global, "\"/own.pem\""), path("/own.pem"));
    assert_eq!(
        default(global, "{ certs = [\"/own.pem\"] }"),
        path("/own.pem")
    );
    assert_eq!(
        default(global, "{ certs = [\"/etc/tls/*.pem\"] }"),
        path("/d.pem")
    );
    assert_eq!(
        default(global, "{ cert = \"/own.pem\", certs = [\"/two.pem\"] }"),
        path("/d.pem")
    );
    assert_eq!(
        default(global, "{ cert = \"/own.pem\", default = \"/mine.pem\" }"),
        path("/mine.pem")
    );
    assert_eq!(default("certs = [\"/g.pem\"]", "{}"), None);
    let both = tls(global, "{ cert = \"/own.pem\" }");
    assert_eq!(paths(&both.certs), ["/own.pem", "/g.pem"]);
}

#[test]
fn a_policy_of_ones_own_keeps_the_rest_of_intermediate() {
    let policy = |policy: &str| tls("", &format!("{{ cert = \"/a\", policy = {policy} }}"));
    let only13 = policy("{ versions = [\"1.3\"] }");
    assert_eq!((only13.suites.len(), only13.groups.len()), (3, 4));
    let suites = policy(
        "{ versions = [\"1.3\", \"1.2\"], suites = [\"TLS_AES_128_GCM_SHA256\", \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"] }",
    );
    let names: Vec<_> = suites.suites.iter().map(|suite| suite.name()).collect();
    assert_eq!(
        names,
        [
            "TLS13_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        ]
    );
    assert_eq!(
        policy("{ groups = [\"SECP256R1MLKEM768\"] }").groups,
        [Group::Secp256r1MlKem768]
    );
}

#[test]
fn timeouts_of_a_listener_are_merged_over_the_global_ones() {
    let text = "timeouts = { connect = \"1s\" }\n[tcp.\":1\"]\nproxy = \"a:1\"\ntimeouts = { tunnel_idle = \"2s\" }\n";
    let timeouts = config(text).tcp[0].timeouts;
    assert_eq!(
        (
            timeouts.connect.as_secs(),
            timeouts.tunnel_idle.as_secs(),
            timeouts.handshake.as_secs()
        ),
        (1, 2, 10)
    );
}

#[test]
fn an_upstream_may_be_a_list_and_speak_tls() {
    let config = config(
        "[tcp.\":1\"]\nproxy = { to = [\"a.b:1\", { addr = \"[::1]:2\", max = 7 }], tls = { ca = \"/ca.pem\", alpn = [\"h2\"] } }",
    );
    let pool = pool(&config, relay(&config.tcp[0]).pool);
    let ends: Vec<_> = pool
        .endpoints
        .iter()
        .map(|end| (end.addr.to_string(), end.max))
        .collect();
    assert_eq!(
        ends,
        [("a.b:1".to_owned(), None), ("[::1]:2".to_owned(), Some(7))]
    );
    let tls = pool.tls.clone().unwrap();
    assert_eq!(
        (tls.name, tls.ca, tls.alpn),
        (
            None,
            AuthoritySource::File("/ca.pem".into()),
            vec!["h2".to_owned()]
        )
    );
}

#[test]
fn variables_and_files_are_filled_in_once() {
    let env = Environment::none()
        .with_var("DIR", "/run")
        .with_var("TRICK", "${env:DIR}")
        .with_file("/etc/lockgate/user", "deploy\r\n");
    let text = "user = \"${file:user}\"\nstate = \"${env:TRICK}\"\n[tcp.\":1\"]\nproxy = \"unix:${env:DIR}/$a.sock\"\n";
    let config = load_in(text, &env).config;
    assert_eq!(config.user.as_deref(), Some("deploy"));
    assert_eq!(config.state, Some("/etc/lockgate/${env:DIR}".into()));
    assert_eq!(first_endpoint(&config), "unix:/run/$a.sock");
}

#[test]
fn files_are_merged_and_their_paths_start_from_their_own_folder() {
    let env = Environment::none()
        .with_file(
            "/etc/lockgate/sites/a.toml",
            "[tls]\ndefault = \"d.pem\"\n[tcp.\":2\"]\ntls = \"a.pem\"\nproxy = \"unix:a.sock\"\n",
        )
        .with_file(
            "/etc/lockgate/sites/b.toml",
            "include = [\"more/c.toml\", \"*.toml\"]\nworkers = 2\n",
        )
        .with_file("/etc/lockgate/sites/more/c.toml", "user = \"c\"\n");
    let text = "include = [\"sites/*.toml\"]\n[tls]\npolicy = \"modern\"\n[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\n";
    let loaded = load_in(text, &env);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    let config = &loaded.config;
    assert_eq!((config.tcp.len(), config.user.as_deref()), (2, Some("c")));
    let second = &config.tcp[1];
    assert_eq!(
        pool(config, relay(second).pool).endpoints[0]
            .addr
            .to_string(),
        "unix:/etc/lockgate/sites/a.sock"
    );
    let tls = relay(second).tls.as_ref().unwrap();
    assert_eq!(
        (paths(&tls.certs), tls.versions.len()),
        (vec!["/etc/lockgate/sites/a.pem"], 1)
    );
    assert_eq!(
        loaded.at("user").unwrap().to_string(),
        "/etc/lockgate/sites/more/c.toml:1:1"
    );
}

#[test]
fn what_is_kept_means_the_same_anywhere_and_holds_no_secret() {
    let env = Environment::none()
        .with_var("KEY", "s3cret/app.key")
        .with_file("/etc/lockgate/user", "deploy")
        .with_file(
            "/etc/lockgate/sites/a.toml",
            "[tcp.\"unix:l.sock\"]\nproxy = [\"unix:a.sock\", { addr = \"a:1\", max = 0x10 }]\n",
        )
        .with_file("/etc/lockgate/tls/a.pem", "");
    let text = "include = [\"sites/*.toml\"]\nuser = \"${file:user}\"\nlog = { level = \"warn\" }\n\
                drain.delay = \"1s\"\naccess_log = \"./\\\"a\\\\b.log\"\n[tls]\ncerts = [\"tls/*.pem\"]\n\
                [tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\ntls = { cert = \"c.pem\", key = \"${env:KEY}\" }\n";
    let loaded = load_in(text, &env);
    let merged = loaded.merged_toml();
    assert!(
        !merged.contains("s3cret") && !merged.contains("deploy") && !merged.contains("include"),
        "{merged}"
    );
    assert!(
        merged.contains("key = \"/etc/lockgate/${env:KEY}\""),
        "{merged}"
    );
    assert!(
        merged.contains("user = \"${file:/etc/lockgate/user}\""),
        "{merged}"
    );
    let again = parse_str_in(&merged, Path::new("/var/lib/lockgate/last.toml"), &env);
    let mut again = again.unwrap_or_else(|report| panic!("{merged}\n{report}"));
    assert_eq!(again.merged_toml(), merged);
    let moved = Arc::make_mut(&mut again.config)
        .tcp
        .iter_mut()
        .find(|tcp| tcp.name.starts_with("unix:"))
        .unwrap();
    assert_eq!(moved.name, "unix:/etc/lockgate/sites/l.sock");
    moved.name = "unix:l.sock".into();
    assert_eq!(again.config, loaded.config);
}

#[test]
fn a_file_on_disk_is_read_with_what_it_includes() {
    let dir = tempfile::tempdir().unwrap();
    let main = dir.path().join("lockgate.toml");
    std::fs::write(&main, "include = [\"*.toml\"]\nworkers = 2\n").unwrap();
    std::fs::write(
        dir.path().join("a.toml"),
        "[tcp.\":1\"]\nproxy = \"unix:app.sock\"\n",
    )
    .unwrap();
    let config = load(&main).unwrap().config;
    assert_eq!(
        first_endpoint(&config),
        format!("unix:{}/app.sock", dir.path().display())
    );
}

#[test]
fn a_text_never_reads_more_than_it_may() {
    let text = "include = [\"/etc/*\"]\nuser = \"${env:PATH}\"\nstate = \"${file:/etc/hostname}\"\n[tcp.\":1\"]\nproxy = \"a:1\"\n";
    let report = parse_str_in(text, Path::new("x"), &Environment::none()).unwrap_err();
    let codes: Vec<_> = report.iter().map(|one| one.code().id()).collect();
    assert_eq!(codes, ["W0001", "E0026", "E0027"]);
}

/// Not a proof, but it runs in every test run; the fuzz target does the rest.
#[test]
fn no_text_makes_it_panic() {
    let seeds = [
        include_str!("golden/mistakes.toml").to_owned(),
        lockgate_config::reference(),
    ];
    let pieces: Vec<&str> = seeds
        .iter()
        .flat_map(|seed| seed.split_inclusive(['\n', ' ', '=', '"', '[', '.']))
        .collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..1_000 {
        let text: String = (0..next(40)).map(|_| pieces[next(pieces.len())]).collect();
        if let Err(report) = parse_str_in(&text, Path::new("x"), &Environment::none()) {
            assert!(!report.render(lockgate_config::Color::Always).is_empty());
        }
    }
    for deep in [
        "[".repeat(100_000),
        "a.".repeat(100_000),
        "a={".repeat(100_000),
        "[[a]]\n".repeat(2_000),
        "=\n".repeat(2_000),
    ] {
        assert!(parse_str_in(&deep, Path::new("x"), &Environment::none()).is_err());
    }
}

#[test]
fn rates_of_bytes_are_for_both_directions_or_for_each() {
    let some = NonZeroU64::new;
    let both = |rate| Directions {
        received: some(rate),
        sent: some(rate),
    };
    let none = Directions::default();
    for (written, connection, client, total) in [
        ("\"10MB/s\"", both(10_000_000), none, none),
        (
            "{ per_client = { in = \"1KB/s\" }, total = { in = \"2KB/s\", out = \"1GB/s\" } }",
            none,
            Directions {
                received: some(1_000),
                sent: None,
            },
            Directions {
                received: some(2_000),
                sent: some(1_000_000_000),
            },
        ),
        (
            "{ per_connection = \"1B/s\", per_client = \"2KB/s\" }",
            both(1),
            both(2_000),
            none,
        ),
    ] {
        let shape = listener(&format!("proxy = \"127.0.0.1:1\"\nshape = {written}"))
            .shape
            .expect(written)
            .value;
        assert_eq!(
            (shape.per_connection, shape.per_client, shape.total),
            (connection, client, total),
            "{written}"
        );
    }
    for nothing in ["", "shape = false"] {
        assert_eq!(
            listener(&format!("proxy = \"127.0.0.1:1\"\n{nothing}")).shape,
            None
        );
    }
    let loaded = load_in(
        "[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\nshape = { total = {} }\n",
        &Environment::none(),
    );
    assert_eq!(loaded.config.tcp[0].shape, None);
    assert!(
        loaded.warnings.to_string().contains("`shape` has no rate"),
        "{}",
        loaded.warnings
    );
}

#[test]
fn tunnels_have_rates_of_their_own_and_of_users() {
    let shape = |keys: &str| {
        let loaded = load_in(&format!("[tunnel.\":1\"]\n{keys}\n"), &Environment::none());
        (
            loaded.config.tunnels[0].shape.clone().unwrap().value,
            loaded.warnings.to_string(),
        )
    };
    let some = NonZeroU64::new;
    let both = |rate| Directions {
        received: some(rate),
        sent: some(rate),
    };
    let auth = "auth = { basic = \"/etc/users\" }\n";
    let (short, _) = shape("shape = \"1MB/s\"");
    assert_eq!(
        (short.per_connection, short.per_user),
        (both(1_000_000), Directions::default())
    );
    let keys = "shape = { per_tunnel = \"1MB/s\", per_client = \"2MB/s\", per_user = \"3MB/s\", total = \"4MB/s\" }";
    let (long, said) = shape(&format!("{auth}{keys}"));
    let rates = [
        long.per_connection,
        long.per_client,
        long.per_user,
        long.total,
    ];
    assert_eq!(rates, [1, 2, 3, 4].map(|mega| both(mega * 1_000_000)));
    assert!(!said.contains("per_user"), "{said}");
    assert!(shape(keys).1.contains("`per_user` has no effect"));
}

#[test]
fn rates_are_shown_as_they_are_written() {
    let rate = NonZeroU64::new;
    for (received, sent, shown) in [
        (rate(1_000_000), rate(1_000_000), &["1MB/s"][..]),
        (
            rate(1_500),
            rate(2_000_000_000),
            &["in 1500B/s", "out 2GB/s"],
        ),
        (None, rate(1 << 20), &["out 1MiB/s"]),
        (None, None, &[]),
    ] {
        assert_eq!(rates_shown(Directions { received, sent }), shown);
    }
}
