//! Access control: passwords, networks, and trust in forwarded addresses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockgate_testkit::{Folder, Http, Message, Origin, Serving, Wire, eventually};

use super::{get, plain_site};
use crate::scene::{lockgate, text};

/// The same password for all users, hashed by `htpasswd -B`, crypt(3) and the reference
/// implementation of argon2.
const PASSWORD: &str = "open sesame";
const USERS: [(&str, &str); 4] = [
    (
        "bcrypt",
        "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m",
    ),
    (
        "sha256",
        "$5$rounds=1000$lockgate$.GYOKAogvXq81dmJFZIB45OCOYsC4rvxgHsGiPHPgm6",
    ),
    (
        "sha512",
        "$6$rounds=1000$lockgate$GxWxLRPFe5h7KjyGNe78da89TWTrG4.m3W7usZ7yT3aDbY/Zr0U56CVtPUQJZJDyxb87BFu.lluiabwimiyxe/",
    ),
    (
        "argon2",
        "$argon2id$v=19$m=64,t=1,p=1$K0+ebGfPos6K4Mf3u1nOzQ$SkhCjpT7TDtMP0hukuNYYCewuGZgXqT3j3bNcVxZB4M",
    ),
];

/// A file with [`USERS`].
fn users(folder: &Folder) -> PathBuf {
    let lines: Vec<_> = USERS
        .iter()
        .map(|(user, hash)| format!("{user}:{hash}\n"))
        .collect();
    folder.write("users", lines.concat())
}

/// A site in front of `origin` for the users of the file.
fn site_with_users(origin: &str, file: &Path) -> String {
    plain_site(origin)
        + &format!(
            "auth = {{ basic = \"{}\", realm = 'the \"inner\" ring' }}\n",
            text(file)
        )
}

/// An origin that answers `ok`.
fn ok() -> Serving {
    Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for three in bytes.chunks(3) {
        let bits = three
            .iter()
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = ALPHABET[bits >> (18 - 6 * place) & 63];
            coded.push(if place <= three.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    coded
}

fn basic(user: &str, password: &str) -> String {
    format!(
        "Authorization: Basic {}\r\n",
        base64(format!("{user}:{password}").as_bytes())
    )
}

/// Requests `/` with these lines of the head.
fn ask(client: &mut Http, lines: &str) -> Message {
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    client.answer()
}

#[test]
fn basic_auth_accepts_every_password_hash_format() {
    let (folder, origin) = (Folder::new(), ok());
    let gate = lockgate()
        .workers(2)
        .start(&site_with_users(origin.address(), &users(&folder)));
    let mut client = Http::connect(gate.address());
    // The second time it is remembered.
    for _ in 0..2 {
        for (user, _) in USERS {
            assert_eq!(
                ask(&mut client, &basic(user, PASSWORD)).status(),
                200,
                "{user}"
            );
            let line = gate.line("the line of the user", |line| line["user"] == user);
            assert_eq!(line["status"], 200);
            for wrong in ["", "open sesam", "open sesame ", "Open sesame"] {
                assert_eq!(
                    ask(&mut client, &basic(user, wrong)).status(),
                    401,
                    "{user} {wrong:?}"
                );
            }
        }
    }
    let unknown = gate
        .lines()
        .into_iter()
        .filter(|line| line["status"] == 401);
    assert!(unknown.clone().count() > 0 && unknown.clone().all(|line| line.get("user").is_none()));
    let metrics = gate.metrics() + &gate.top().to_string();
    let said = format!("{}{}{metrics}", gate.stdout().text(), gate.stderr().text());
    for (user, hash) in USERS {
        let coded = base64(format!("{user}:{PASSWORD}").as_bytes());
        for secret in [PASSWORD, &coded, hash, "open sesam"] {
            assert!(!said.contains(secret), "{secret} is told");
        }
    }
}

#[test]
fn basic_auth_refuses_bad_credentials_and_keeps_the_connection() {
    let (folder, origin) = (Folder::new(), ok());
    let gate = lockgate().start(&site_with_users(origin.address(), &users(&folder)));
    let mut client = Http::connect(gate.address());
    let good = basic("bcrypt", PASSWORD);
    let coded = base64(b"bcrypt:open sesame");
    let long = "x".repeat(20_000);
    for lines in [
        String::new(),
        // Which one is meant?
        good.clone() + &good,
        good.clone() + &basic("nobody", "x"),
        basic("nobody", PASSWORD),
        basic("", PASSWORD),
        basic("bcrypt ", PASSWORD),
        "Authorization:\r\n".to_owned(),
        "Authorization: Basic\r\n".to_owned(),
        "Authorization: Basic =\r\n".to_owned(),
        format!("Authorization: Bearer {coded}\r\n"),
        format!("Authorization: Basic {coded}, Basic {coded}\r\n"),
        format!("Authorization: Basic {coded}x\r\n"),
        format!("Authorization: Basic {}\r\n", base64(b"bcrypt")),
        format!(
            "Authorization: Basic {}\r\n",
            base64(b"bcrypt:open sesame\0")
        ),
        format!("Authorization: Basic {}\r\n", base64(b"\xff\xfe:\xff")),
        format!("Authorization: Basic {long}\r\n"),
        format!("Proxy-Authorization: Basic {coded}\r\n"),
        format!("Cookie: Authorization=Basic {coded}\r\n"),
    ] {
        let answer = ask(&mut client, &lines);
        assert_eq!(answer.status(), 401, "{lines}");
        let challenge = r#"Basic realm="the \"inner\" ring", charset="UTF-8""#;
        assert_eq!(answer.field("www-authenticate"), Some(challenge));
        assert_eq!(answer.field("connection"), None);
        assert!(
            answer
                .field("proxy-status")
                .unwrap()
                .contains("error=http_request_denied")
        );
    }
    // RFC 9110 §9.3.2
    client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 401 Unauthorized\r\n"));
    assert_eq!(origin.accepted(), 0);
    assert_eq!(ask(&mut client, &good).text(), "ok");
    // RFC 9110 §11.1: the name of the scheme in any case.
    assert_eq!(
        ask(&mut client, &good.replace("Basic", "bASIC")).text(),
        "ok"
    );
}

#[test]
fn a_changed_htpasswd_file_is_reloaded_unless_it_is_wrong() {
    let (folder, origin) = (Folder::new(), ok());
    let file = users(&folder);
    let gate = lockgate()
        .workers(2)
        .start(&site_with_users(origin.address(), &file));
    let status =
        |user: &str| ask(&mut Http::connect(gate.address()), &basic(user, PASSWORD)).status();
    assert_eq!((status("bcrypt"), status("carol")), (200, 401));
    folder.write("users", format!("carol:{}\n", USERS[0].1));
    eventually("the new user", || (status("carol") == 200).then_some(()));
    // It was remembered, and is forgotten.
    assert_eq!(status("bcrypt"), 401);
    folder.write("users", "carol:hunter2\n");
    let said = gate.says("users").to_string();
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(status("carol"), 200);
}

/// A user with a hash that takes seconds to check, for any password.
fn slow_user(folder: &Folder) -> PathBuf {
    let hash = USERS[2].1.replace("rounds=1000$", "rounds=10000000$");
    folder.write("slow", format!("slow:{hash}\n"))
}

#[test]
fn a_slow_password_hash_blocks_no_other_client() {
    let (folder, origin) = (Folder::new(), ok());
    let toml = site_with_users(origin.address(), &slow_user(&folder))
        + "[site.\":0\".path.\"/open\"]\nauth = false\n";
    let gate = lockgate().start(&toml);
    let mut slow = Http::connect(gate.address());
    slow.send(format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n",
        basic("slow", "x")
    ));
    for _ in 0..20 {
        let mut other = Http::connect(gate.address());
        other.send("GET /open HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(other.answer().text(), "ok");
    }
    assert!(
        slow.stream.is_quiet(Duration::ZERO),
        "it is still being checked"
    );
}

#[test]
fn excess_password_checks_get_503_at_once() {
    let (folder, origin) = (Folder::new(), ok());
    let gate = lockgate()
        .workers(2)
        .start(&site_with_users(origin.address(), &slow_user(&folder)));
    let mut guesses: Vec<Http> = Vec::new();
    let refused = eventually("a guess that is refused", || {
        let mut guess = Http::connect(gate.address());
        let lines = basic("slow", &guesses.len().to_string());
        guess.send(format!(
            "GET / HTTP/1.1\r\nHost: a.test\r\n{lines}Connection: close\r\n\r\n"
        ));
        let refused = !guess.stream.is_quiet(Duration::from_millis(50));
        let answer = refused.then(|| String::from_utf8(guess.rest()).unwrap());
        guesses.push(guess);
        answer
    });
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("\r\nRetry-After: 1\r\n"), "{refused}");
    assert!(guesses.len() < 64, "{} may wait", guesses.len());
}

/// A site for some clients that responds with the client's address.
const FOR_SOME: &str = "trusted = [\"127.0.0.1/32\", \"10.0.0.0/8\"]\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\n\
    respond = \"{client}\"\nallow = [\"192.0.2.0/24\", \"2001:db8::/32\", \"127.0.0.9\"]\ndeny = [\"192.0.2.66\"]\n";

#[test]
fn the_client_is_the_last_untrusted_x_forwarded_for_hop() {
    let gate = lockgate().start(FOR_SOME);
    let mut trusted = Http::connect(gate.address());
    let mut stranger = Http::over(Wire::connect_from([127, 0, 0, 2].into(), gate.address()));
    let mut allowed = Http::over(Wire::connect_from([127, 0, 0, 9].into(), gate.address()));
    for (hops, client) in [
        (&["192.0.2.1"][..], Some("192.0.2.1")),
        (&["192.0.2.66"], None),
        (&["203.0.113.9"], None),
        // Addresses from the client itself stand on the left.
        (&["192.0.2.1, 203.0.113.9"], None),
        (&["192.0.2.1", "203.0.113.9"], None),
        (&["203.0.113.9, 192.0.2.1"], Some("192.0.2.1")),
        (&["203.0.113.9", "192.0.2.1"], Some("192.0.2.1")),
        (
            &["203.0.113.9, 192.0.2.1,10.1.2.3 , 10.9.9.9"],
            Some("192.0.2.1"),
        ),
        (&["192.0.2.1, 192.0.2.66, 10.1.2.3"], None),
        (&["::ffff:192.0.2.7"], Some("192.0.2.7")),
        (&["2001:DB8:0::1"], Some("2001:db8::1")),
        (&["2001:db9::1"], None),
        // An unreadable element hides the client, and all that stands before it.
        (&["192.0.2.1, unknown"], None),
        (&["192.0.2.1, "], None),
        (&["192.0.2.1, 10.0.0.1, 999.1.1.1"], None),
        (&["\"192.0.2.1\""], Some("192.0.2.1")),
        (&[""], None),
        (&[], None),
    ] {
        let lines: String = hops
            .iter()
            .map(|hop| format!("X-Forwarded-For: {hop}\r\n"))
            .collect();
        let answer = ask(&mut trusted, &lines);
        match client {
            Some(client) => assert_eq!((answer.status(), answer.text()), (200, client), "{hops:?}"),
            None => assert_eq!(answer.status(), 403, "{hops:?}"),
        }
        assert_eq!(ask(&mut stranger, &lines).status(), 403, "{hops:?}");
        assert_eq!(ask(&mut allowed, &lines).text(), "127.0.0.9", "{hops:?}");
    }
    let told = gate.line("a client that was told of", |line| {
        line["client"] == "2001:db8::1"
    });
    assert_eq!(
        (&told["peer"], &told["status"]),
        (&"127.0.0.1".into(), &200.into())
    );
    let refused = gate.line("who was refused", |line| line["client"] == "192.0.2.66");
    assert_eq!(
        (&refused["status"], &refused["cause"]),
        (&403.into(), &"refused_by_rule".into())
    );
}

#[test]
fn the_client_address_comes_from_the_proxy_protocol_header() {
    let toml = FOR_SOME.to_owned() + "accept_proxy = \"require\"\n";
    let gate = lockgate().start(&toml);
    for (source, hops, client) in [
        ("TCP4 192.0.2.1 192.0.2.99", "", Some("192.0.2.1")),
        ("TCP4 192.0.2.66 192.0.2.99", "", None),
        ("TCP6 2001:db8::7 2001:db8::99", "", Some("2001:db8::7")),
        // The named client is no proxy of ours: its field counts for nothing.
        (
            "TCP4 203.0.113.9 192.0.2.99",
            "X-Forwarded-For: 192.0.2.1\r\n",
            None,
        ),
        (
            "TCP4 192.0.2.2 192.0.2.99",
            "X-Forwarded-For: 192.0.2.1\r\n",
            Some("192.0.2.2"),
        ),
        (
            "TCP4 10.0.0.5 192.0.2.99",
            "X-Forwarded-For: 192.0.2.1\r\n",
            Some("192.0.2.1"),
        ),
    ] {
        let mut client_of = Http::connect(gate.address());
        client_of.send(format!("PROXY {source} 4711 80\r\n"));
        let answer = ask(&mut client_of, hops);
        match client {
            Some(client) => assert_eq!(
                (answer.status(), answer.text()),
                (200, client),
                "{source} {hops}"
            ),
            None => assert_eq!(answer.status(), 403, "{source} {hops}"),
        }
    }
}

#[test]
fn an_ipv4_client_on_an_ipv6_listener_is_ipv4() {
    let toml = "[site.\":0\"]\nrespond = \"{client}\"\nallow = [\"127.0.0.0/8\"]\n";
    let gate = lockgate().start(toml);
    let mut client = Http::connect(gate.address());
    let port = client.stream.local_address().port();
    assert_eq!(ask(&mut client, "").text(), "127.0.0.1");
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.answer().status(), 400);
    drop(client);
    for status in [200, 400] {
        let line = gate.line("both", |line| line["status"] == status);
        assert_eq!(
            (&line["client"], &line["client_port"]),
            (&"127.0.0.1".into(), &port.into()),
            "{line}"
        );
    }
}

#[test]
fn a_path_may_deny_clients_that_its_site_admits() {
    let toml = "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = 200\n[site.\":0\".path.\"/admin/*\"]\ndeny = [\"127.0.0.0/8\"]\n";
    let gate = lockgate().start(toml);
    // RFC 3986 §6.2.2.1: paths are case-sensitive. For other spellings see `hostile_clients`.
    for (path, status) in [
        ("/", 200),
        ("/admin/", 403),
        ("/admin/x", 403),
        ("/ADMIN/x", 200),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(get(path));
        assert_eq!(client.answer().status(), status, "{path}");
    }
}
