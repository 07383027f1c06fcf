//! Access to tunnels: clients, passwords, rates and counts; all of it holds for the process.

use lockgate_testkit::{Folder, Http, Lockgate, Message, Origin, eventually};

use super::{connect, opened, ping_pong, tunnels};
use crate::scene::{lockgate, text};

/// The password is "open sesame".
const HASH: &str = "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m";
/// `alice:open sesame`, `bob:open sesame`, `alice:no` (RFC 7617 §2).
const ALICE: &str = "Basic YWxpY2U6b3BlbiBzZXNhbWU=";
const BOB: &str = "Basic Ym9iOm9wZW4gc2VzYW1l";
const WRONG: &str = "Basic YWxpY2U6bm8=";

struct Guarded {
    _folder: Folder,
    toml: String,
}

fn guarded(keys: &str) -> Guarded {
    let folder = Folder::new();
    let file = folder.write("users", format!("alice:{HASH}\nbob:{HASH}\n"));
    let auth = format!(
        "auth = {{ basic = \"{}\", realm = \"way out\" }}\n{keys}",
        text(&file)
    );
    Guarded {
        _folder: folder,
        toml: tunnels(&auth),
    }
}

/// Requests a tunnel with these fields.
fn with(gate: &Lockgate, target: &str, fields: &str) -> (Http, String) {
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n"
    ));
    let head = client.head();
    (client, head)
}

fn tunnel_with_credentials(gate: &Lockgate, target: &str, credentials: &str) -> (Http, String) {
    with(
        gate,
        target,
        &format!("Proxy-Authorization: {credentials}\r\n"),
    )
}

fn answer(gate: &Lockgate, target: &str, fields: &str) -> Message {
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n"
    ));
    client.answer()
}

/// RFC 9110 §11.7, §15.5.8.
#[test]
fn proxy_basic_auth_uses_407_and_logs_the_user() {
    let origin = Origin::tcp();
    let guarded = guarded("");
    let mut gate = lockgate().start(&guarded.toml);
    for fields in [
        String::new(),
        format!("Proxy-Authorization: {WRONG}\r\n"),
        // That of an origin is none of ours.
        format!("Authorization: {ALICE}\r\n"),
        format!("Proxy-Authorization: {ALICE}\r\nProxy-Authorization: {ALICE}\r\n"),
    ] {
        let answer = answer(&gate, &origin.address(), &fields);
        assert_eq!(answer.status(), 407, "{fields}");
        let challenge = r#"Basic realm="way out", charset="UTF-8""#;
        assert_eq!(
            answer.field("proxy-authenticate"),
            Some(challenge),
            "{fields}"
        );
        assert_eq!(answer.field("www-authenticate"), None);
        let line = gate.next_line();
        assert_eq!(
            (&line["status"], line["user"].is_null()),
            (&407.into(), true),
            "{line}"
        );
    }
    let (mut client, head) = tunnel_with_credentials(&gate, &origin.address(), ALICE);
    assert_eq!(head, "HTTP/1.1 200 OK\r\n\r\n");
    ping_pong(&mut client, &mut Http::over(origin.accept()));
    let line = gate.next_line();
    assert_eq!(
        (&line["status"], &line["user"]),
        (&200.into(), &"alice".into()),
        "{line}"
    );
    drop(client);
    let end = gate.next_line();
    assert_eq!(
        (&end["user"], &end["request"]),
        (&"alice".into(), &line["id"]),
        "{end}"
    );
    let ended = gate.stop();
    for secret in ["YWxpY2U6", "sesame"] {
        assert!(
            !ended.stdout.contains(secret) && !ended.stderr.contains(secret),
            "{secret} is in a log"
        );
    }
}

#[test]
fn without_a_password_no_target_is_disclosed() {
    let guarded = guarded("deny = [\"*:1\"]");
    let gate = lockgate().start(&guarded.toml);
    assert_eq!(answer(&gate, "127.0.0.1:1", "").status(), 407);
    assert_eq!(
        answer(
            &gate,
            "127.0.0.1:1",
            &format!("Proxy-Authorization: {ALICE}\r\n")
        )
        .status(),
        403
    );
}

#[test]
fn max_per_client_limits_tunnels_across_workers() {
    let origin = Origin::tcp();
    let gate = lockgate().workers(2).start(&tunnels("max_per_client = 4"));
    let mut open: Vec<_> = (0..4).map(|_| opened(&gate, &origin)).collect();
    // Connections go to either worker.
    for _ in 0..8 {
        let answer = answer(&gate, &origin.address(), "");
        assert_eq!(answer.status(), 429);
        assert!(answer.text().contains("cause: limit"), "{}", answer.text());
    }
    open.pop();
    let (mut client, mut upstream) = eventually("there is room again", || {
        let (client, head) = with(&gate, &origin.address(), "");
        head.starts_with("HTTP/1.1 200")
            .then(|| (client, Http::over(origin.accept())))
    });
    ping_pong(&mut client, &mut upstream);
    for (client, upstream) in &mut open {
        ping_pong(client, upstream);
    }
}

#[test]
fn max_per_user_limits_tunnels_across_workers() {
    // It ends when its client does.
    let origin = Origin::tcp().echo();
    let guarded = guarded("max_per_user = 2");
    let gate = lockgate().workers(2).start(&guarded.toml);
    let open: Vec<_> = (0..2)
        .map(|_| tunnel_with_credentials(&gate, origin.address(), ALICE))
        .collect();
    assert!(
        open.iter()
            .all(|(_, head)| head.starts_with("HTTP/1.1 200"))
    );
    for _ in 0..6 {
        assert!(
            tunnel_with_credentials(&gate, origin.address(), ALICE)
                .1
                .starts_with("HTTP/1.1 429")
        );
    }
    assert!(
        tunnel_with_credentials(&gate, origin.address(), BOB)
            .1
            .starts_with("HTTP/1.1 200")
    );
    drop(open);
    eventually("there is room again", || {
        tunnel_with_credentials(&gate, origin.address(), ALICE)
            .1
            .starts_with("HTTP/1.1 200")
            .then_some(())
    });
}

#[test]
fn a_failed_tunnel_frees_its_slot() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&tunnels("max_per_client = 1\ndeny = [\"127.0.0.9\"]"));
    for _ in 0..3 {
        assert_eq!(answer(&gate, "127.0.0.9:1", "").status(), 403);
    }
    let (mut client, mut upstream) = opened(&gate, &origin);
    ping_pong(&mut client, &mut upstream);
}

#[test]
fn a_tunnel_rate_limit_holds_across_workers() {
    let origin = Origin::tcp();
    let gate = lockgate()
        .workers(2)
        .start(&tunnels("limit = \"3/h per client\""));
    let heads: Vec<_> = (0..9)
        .map(|_| with(&gate, &origin.address(), "").1)
        .collect();
    let count = |status: &str| heads.iter().filter(|head| head.starts_with(status)).count();
    assert_eq!(
        (count("HTTP/1.1 200"), count("HTTP/1.1 429")),
        (3, 6),
        "{heads:?}"
    );
}

#[test]
fn limits_per_client_applies_to_tunnel_connections() {
    let origin = Origin::tcp();
    let gate = lockgate()
        .workers(2)
        .start(&("limits = { per_client = 2 }\n".to_owned() + &tunnels("")));
    let (mut first, mut at_first) = opened(&gate, &origin);
    let (mut second, mut at_second) = opened(&gate, &origin);
    let mut third = Http::connect(gate.address());
    third.send(connect(&origin.address()));
    ping_pong(&mut first, &mut at_first);
    ping_pong(&mut second, &mut at_second);
    drop((first, at_first));
    third.head();
    ping_pong(&mut third, &mut Http::over(origin.accept()));
}
