//! What `[tunnel]` tables mean.

use std::path::Path;
use std::time::Duration;

use lockgate_config::{Environment, ListenAddr, Protocol, Report, TunnelListener, parse_str_in};

fn tunnel(lines: &str) -> TunnelListener {
    with("", lines)
}

fn with(top: &str, lines: &str) -> TunnelListener {
    let env = Environment::none().with_file("/etc/tls/a.pem", "");
    let text = format!("{top}[tunnel.\":3128\"]\n{lines}\n");
    match parse_str_in(&text, Path::new("/etc/lockgate/lockgate.toml"), &env) {
        Ok(loaded) => loaded.config.tunnels[0].clone(),
        Err(report) => panic!("{text}\n{report}"),
    }
}

fn texts<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn an_empty_table_is_a_proxy_of_neighbours_to_https() {
    let tunnel = tunnel("");
    assert_eq!(
        (tunnel.name.as_str(), &tunnel.listen),
        (":3128", &ListenAddr::All(3128))
    );
    assert_eq!(
        (texts(&tunnel.allow), texts(&tunnel.deny)),
        (vec!["*:443".to_owned()], Vec::new())
    );
    assert!(!tunnel.private && tunnel.tls.is_none() && tunnel.auth.is_none());
    assert_eq!(tunnel.protocols, [Protocol::Http1]);
    let served = |ip: &str| {
        tunnel
            .clients
            .iter()
            .any(|network| network.contains(ip.parse().unwrap()))
    };
    for ip in [
        "127.0.0.1",
        "10.1.1.1",
        "172.31.0.1",
        "192.168.0.1",
        "::1",
        "fd00::1",
        "fe80::1",
        "::ffff:10.0.0.1",
    ] {
        assert!(served(ip), "{ip}");
    }
    for ip in [
        "1.1.1.1",
        "100.64.0.1",
        "172.32.0.1",
        "0.0.0.0",
        "2001:db8::1",
    ] {
        assert!(!served(ip), "{ip}");
    }
    let limits = (
        tunnel.max_per_client,
        tunnel.max_per_user,
        tunnel.max_lifetime,
        tunnel.max_bytes,
    );
    assert_eq!(limits, (None, None, None, None));
    assert_eq!(tunnel.dns_ttl, Duration::from_secs(60));
}

#[test]
fn a_rule_without_ports_allows_443_and_denies_every_port() {
    let tunnel = tunnel(
        "allow = [\"a.test\", \"*.b.test:80,8000-8999\", \"10.0.0.0/8\", \"[fd00::/8]:22\", \"*:*\"]\n\
         deny = [\"c.test\", \"fd00:1::/32\", \"*:25\"]",
    );
    let allow = [
        "a.test:443",
        "*.b.test:80,8000-8999",
        "10.0.0.0/8:443",
        "[fd00::/8]:22",
        "*:*",
    ];
    assert_eq!(texts(&tunnel.allow), allow);
    assert_eq!(texts(&tunnel.deny), ["c.test:*", "[fd00:1::/32]:*", "*:25"]);
}

#[test]
fn what_is_forwarded_may_go_to_port_80() {
    assert_eq!(texts(&tunnel("forward = true").allow), ["*:443,80"]);
    let tunnel =
        tunnel("forward = true\nallow = [\"a.test\", \"b.test:8080\"]\ndeny = [\"c.test\"]");
    assert_eq!(texts(&tunnel.allow), ["a.test:443,80", "b.test:8080"]);
    assert_eq!(texts(&tunnel.deny), ["c.test:*"]);
}

#[test]
fn with_a_password_everybody_may_come() {
    let tunnel = tunnel("auth = { basic = \"/etc/users\" }");
    assert!(tunnel.clients.is_empty() && tunnel.auth.is_some());
    let some = self::tunnel("auth = { basic = \"/etc/users\" }\nclients = [\"192.0.2.0/24\"]");
    assert_eq!(texts(&some.clients), ["192.0.2.0/24"]);
}

#[test]
fn who_may_open_a_unix_socket_may_come() {
    let text = "[tunnel.\"unix:/run/proxy.sock\"]\n";
    let loaded = parse_str_in(text, Path::new("/lockgate.toml"), &Environment::none()).unwrap();
    let clients = &loaded.config.tunnels[0].clients;
    assert!(
        clients
            .iter()
            .any(|network| network.contains("0.0.0.0".parse().unwrap()))
    );
}

#[test]
fn over_tls_http_2_comes_first() {
    let tunnel = tunnel("tls = \"/etc/tls/a.pem\"");
    assert_eq!(tunnel.protocols, [Protocol::H2, Protocol::Http1]);
    assert_eq!(tunnel.tls.unwrap().alpn, ["h2", "http/1.1"]);
    let plain = self::tunnel("protocols = [\"h2c\", \"http1\"]");
    assert_eq!(plain.protocols, [Protocol::Http1, Protocol::H2c]);
}

#[test]
fn deadlines_are_merged_over_the_global_ones() {
    let tunnel = with(
        "timeouts = { connect = \"1s\", tunnel_idle = \"3s\" }\n",
        "timeouts = { tunnel_idle = \"2s\" }",
    );
    let (connect, idle) = (tunnel.timeouts.connect, tunnel.timeouts.tunnel_idle);
    assert_eq!(
        (connect, idle),
        (Duration::from_secs(1), Duration::from_secs(2))
    );
}

#[test]
fn an_open_proxy_is_doubted_and_one_with_a_password_is_not() {
    let warnings = |lines: &str| -> Report {
        let text = format!("[tunnel.\":1\"]\n{lines}\n");
        parse_str_in(&text, Path::new("/lockgate.toml"), &Environment::none())
            .unwrap()
            .warnings
    };
    let open = warnings("clients = [\"::/0\"]\nallow = [\"*:443\"]");
    assert_eq!(
        open.iter().map(|one| one.code().id()).collect::<Vec<_>>(),
        ["W0006"]
    );
    assert!(warnings("clients = [\"::/0\"]\nauth = { basic = \"/etc/users\" }").is_empty());
    assert!(warnings("clients = [\"203.0.113.0/24\"]").is_empty());
}

#[test]
fn private_tunnels_to_cloud_metadata_are_warned_of() {
    let warnings = |lines: &str| -> Vec<String> {
        let text = format!("[tunnel.\":1\"]\n{lines}\n");
        let parsed =
            parse_str_in(&text, Path::new("/lockgate.toml"), &Environment::none()).unwrap();
        parsed
            .warnings
            .iter()
            .map(|one| format!("{} {}", one.code().id(), one.cure()))
            .collect()
    };
    let all = "W0007 add deny = [\"169.254.169.254\", \"169.254.170.2\", \"fd00:ec2::254\"], or allow only the networks that are meant";
    for (lines, expected) in [
        ("private = true\nallow = [\"*:80\"]", Some(all)),
        ("private = true\nallow = [\"*:*\"]", Some(all)),
        (
            "private = true\nallow = [\"*:1-1024\"]\ndeny = [\"10.0.0.0/8\"]",
            Some(all),
        ),
        (
            "private = true\nallow = [\"0.0.0.0/0:*\"]\ndeny = [\"169.254.170.2\"]",
            Some(
                "W0007 add deny = [\"169.254.169.254\"], or allow only the networks that are meant",
            ),
        ),
        (
            "private = true\nallow = [\"*:80\"]\ndeny = [\"169.254.0.0/16\"]",
            Some("W0007 add deny = [\"fd00:ec2::254\"], or allow only the networks that are meant"),
        ),
        // Denied, at no port of theirs, meant, or not private.
        (
            "private = true\nallow = [\"*:80\"]\ndeny = [\"169.254.0.0/16\", \"fd00::/8\"]",
            None,
        ),
        ("private = true\nallow = [\"*:443\"]", None),
        ("private = true\nallow = [\"169.254.169.254:80\"]", None),
        (
            "private = true\nallow = [\"10.0.0.0/8:*\", \"*.internal.example:80\"]",
            None,
        ),
        ("allow = [\"*:80\"]", None),
        ("private = false\nallow = [\"*:*\"]", None),
    ] {
        assert_eq!(
            warnings(lines),
            expected.into_iter().collect::<Vec<_>>(),
            "{lines}"
        );
    }
}
