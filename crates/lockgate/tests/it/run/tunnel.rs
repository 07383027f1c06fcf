//! `lockgate tunnel`: an HTTP proxy without a configuration.

use lockgate_testkit::{Folder, Http, Lockgate, Origin};

use super::commands::address_said;
use crate::scene::{lockgate, text};

fn tunnel(arguments: &[&str]) -> Lockgate {
    lockgate().command(&[&["tunnel", "127.0.0.1:0"][..], arguments].concat())
}

/// The status line of the response to a CONNECT with these fields.
fn ask(gate: &Lockgate, target: &str, fields: &str) -> (Http, String) {
    let mut client = Http::connect(address_said(gate, "listening").parse().unwrap());
    client.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n"
    ));
    let line = client.head().lines().next().unwrap_or_default().to_owned();
    (client, line)
}

#[test]
fn tunnel_command_reaches_only_allowed_targets() {
    let origin = Origin::tcp();
    let allow = format!("127.0.0.0/8:{}", origin.socket_address().port());
    let gate = tunnel(&[
        "--allow",
        &allow,
        "--allow",
        "*.example.org:443",
        "--deny",
        "127.0.0.9",
    ]);
    let address = address_said(&gate, "listening");
    gate.stdout().find("where, and for whom", |line| {
        let said = format!("Tunnels at http://{address}, for this machine and private networks");
        line.starts_with(&said).then_some(())
    });
    let (mut client, line) = ask(&gate, &origin.address(), "");
    assert_eq!(line, "HTTP/1.1 200 OK");
    let mut upstream = origin.accept();
    client.send("ping");
    upstream.expect("ping");
    let denied = format!("127.0.0.9:{}", origin.socket_address().port());
    for target in ["127.0.0.1:1", "example.org:443", &denied] {
        assert_eq!(
            ask(&gate, target, "").1,
            "HTTP/1.1 403 Forbidden",
            "{target}"
        );
    }
    drop((client, upstream));
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn tunnel_command_with_users_requires_a_password() {
    let folder = Folder::new();
    let hash = "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m";
    let users = text(&folder.write("users", format!("alice:{hash}\n")));
    let origin = Origin::tcp();
    let gate = tunnel(&["--private", "--allow", "*:*", "--auth", &users]);
    assert_eq!(
        ask(&gate, &origin.address(), "").1,
        "HTTP/1.1 407 Proxy Authentication Required"
    );
    let alice = "Proxy-Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n";
    assert_eq!(ask(&gate, &origin.address(), alice).1, "HTTP/1.1 200 OK");
}

#[test]
fn tunnel_command_explains_a_malformed_rule() {
    let ended = lockgate().run(&["tunnel", ":0", "--allow", "*"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("error[E0046]") && ended.stderr.contains("\"*:443\""),
        "{}",
        ended.stderr
    );
}
