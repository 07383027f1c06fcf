//! Sessions that are resumed by tickets, and those that must not be.

use std::net::SocketAddr;
use std::sync::Arc;

use lockgate_testkit::{Authority, ClientSettings, Lockgate, Origin, Signal, Tls, Wire};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind};

use crate::scene::{NAME, Site, lockgate, text};

/// Connects, and reads a response: a ticket of TLS 1.3 comes with it. The kind of the handshake.
pub(crate) fn visit(config: &Arc<ClientConfig>, to: SocketAddr, name: &str) -> HandshakeKind {
    let mut tls = Tls::connect(config, Wire::connect(to), name).unwrap();
    tls.send("ping");
    tls.expect("ping");
    let kind = tls.agreed().handshake_kind().unwrap();
    tls.finish();
    tls.rest();
    kind
}

fn by_each_version(client: &ClientSettings) -> [Arc<ClientConfig>; 2] {
    [&TLS12, &TLS13].map(|version| client.clone().version(version).build())
}

/// A file of ticket keys: one key a line, the first one makes tickets.
fn keys(numbers: &[u8]) -> String {
    let key = |number: &u8| {
        (0..48)
            .map(|at| format!("{:02x}", number.wrapping_mul(31) ^ at))
            .collect::<String>()
    };
    numbers.iter().map(|number| key(number) + "\n").collect()
}

#[test]
fn sessions_resume_on_any_worker() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let mut gate = lockgate().workers(2).start(&site.tls(origin.address(), ""));
    for config in by_each_version(&site.client()) {
        assert_eq!(visit(&config, gate.address(), NAME), HandshakeKind::Full);
        assert_eq!(gate.next_line()["resumed"], false);
        for _ in 0..6 {
            assert_eq!(visit(&config, gate.address(), NAME), HandshakeKind::Resumed);
            assert_eq!(gate.next_line()["resumed"], true);
        }
    }
    gate.wait_for_sample(
        "lockgate_tls_handshakes_total",
        &["version=\"TLSv1.2\"", "resumed=\"true\""],
        6.0,
    );
    gate.wait_for_sample(
        "lockgate_tls_handshakes_total",
        &["version=\"TLSv1.3\"", "resumed=\"true\""],
        6.0,
    );
}

#[test]
fn without_session_tickets_every_handshake_is_full() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&site.tls(origin.address(), ", tickets = false"));
    for config in by_each_version(&site.client()) {
        for _ in 0..2 {
            assert_eq!(visit(&config, gate.address(), NAME), HandshakeKind::Full);
        }
    }
}

#[test]
fn a_ticket_key_file_lets_sessions_survive_a_restart() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let file = text(&site.folder.write("tickets", keys(&[1])));
    for (tickets, expected) in [
        (
            format!(", tickets = {{ keys = \"{file}\" }}"),
            HandshakeKind::Resumed,
        ),
        (String::new(), HandshakeKind::Full),
    ] {
        let toml = site.tls(origin.address(), &tickets);
        let configs = by_each_version(&site.client());
        let gate = lockgate().start(&toml);
        for config in &configs {
            assert_eq!(visit(config, gate.address(), NAME), HandshakeKind::Full);
        }
        assert_eq!(gate.stop().code, Some(0));
        let gate = lockgate().start(&toml);
        for config in &configs {
            assert_eq!(visit(config, gate.address(), NAME), expected);
        }
    }
}

#[test]
fn sessions_survive_ticket_key_rotation_until_the_key_is_gone() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let file = text(&site.folder.write("tickets", keys(&[1])));
    let toml = site.tls(
        origin.address(),
        &format!(", tickets = {{ keys = \"{file}\" }}"),
    );
    let gate = lockgate().start(&toml);
    // One client that returns after the first rotation, one that stays away until its key is gone.
    let (returning, away) = (
        by_each_version(&site.client()),
        by_each_version(&site.client()),
    );
    for config in returning.iter().chain(&away) {
        assert_eq!(visit(config, gate.address(), NAME), HandshakeKind::Full);
    }
    site.folder.write("tickets", keys(&[2, 1]));
    read_again(&gate, 1);
    for config in &returning {
        assert_eq!(visit(config, gate.address(), NAME), HandshakeKind::Resumed);
    }
    site.folder.write("tickets", keys(&[3, 2]));
    read_again(&gate, 2);
    for config in &returning {
        assert_eq!(
            visit(config, gate.address(), NAME),
            HandshakeKind::Resumed,
            "by the second key"
        );
    }
    for config in &away {
        assert_eq!(
            visit(config, gate.address(), NAME),
            HandshakeKind::Full,
            "the first key is gone"
        );
    }
}

/// Has files read again, and waits until that is done.
fn read_again(gate: &Lockgate, number: usize) {
    gate.signal(Signal::HUP);
    let mut left = number;
    gate.stderr().find("a reload", |line| {
        left -= usize::from(line.contains("the configuration was reloaded"));
        (left == 0).then_some(())
    });
}

#[test]
fn session_tickets_never_resume_across_client_certificate_rules() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let (one, other) = (Authority::new("One"), Authority::new("Other"));
    let file = |name: &str, authority: &Authority| text(&site.folder.write(name, authority.pem()));
    let (one_ca, other_ca) = (file("one.pem", &one), file("other.pem", &other));
    let require = |ca: &str| format!(", client_auth = {{ mode = \"require\", ca = \"{ca}\" }}");
    let request = |ca: &str| format!(", client_auth = {{ mode = \"request\", ca = \"{ca}\" }}");
    let keys = site.folder.write("tickets", keys(&[1]));
    let toml = format!("[tls]\ntickets = {{ keys = \"{}\" }}\n", text(&keys))
        + &site.listener("127.0.0.1:0", origin.address(), "")
        + &site.listener("127.0.0.2:0", origin.address(), &request(&one_ca))
        + &site.listener("127.0.0.3:0", origin.address(), &require(&one_ca))
        + &site.listener("127.0.0.4:0", origin.address(), &require(&other_ca))
        + &site.listener("127.0.0.5:0", origin.address(), "");
    let gate = lockgate().start(&toml);
    let at = |host: u8| gate.at(&format!("127.0.0.{host}:0"));
    // Without a certificate: a session from a listener without client certificates does not resume
    // where they are required.
    for config in by_each_version(&site.client()) {
        assert_eq!(visit(&config, at(1), NAME), HandshakeKind::Full);
        assert_eq!(
            visit(&config, at(5), NAME),
            HandshakeKind::Resumed,
            "the same rules"
        );
        for host in [3, 4] {
            let entered = Tls::connect(&config, Wire::connect(at(host)), NAME);
            super::refusal(entered).expect("no certificate, no entry");
        }
        assert_eq!(visit(&config, at(2), NAME), HandshakeKind::Full);
    }
    // With a certificate of the one authority: it is none of the other.
    for config in by_each_version(&site.client().identity(&one.issue(&["alice"]))) {
        assert_eq!(visit(&config, at(3), NAME), HandshakeKind::Full);
        assert_eq!(visit(&config, at(3), NAME), HandshakeKind::Resumed);
        super::refusal(Tls::connect(&config, Wire::connect(at(4)), NAME)).expect("a stranger");
        assert_eq!(visit(&config, at(2), NAME), HandshakeKind::Full);
    }
}

#[test]
fn a_resumed_client_keeps_its_client_certificate_name() {
    let site = Site::new();
    let clients = Authority::new("Clients");
    let ca = text(&site.folder.write("clients.pem", clients.pem()));
    let origin = Origin::tcp().echo();
    let auth = format!(", client_auth = {{ mode = \"require\", ca = \"{ca}\" }}");
    let mut gate = lockgate().start(&site.tls(origin.address(), &auth));
    for config in by_each_version(&site.client().identity(&clients.issue(&["alice"]))) {
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
            assert_eq!(visit(&config, gate.address(), NAME), expected);
            assert_eq!(gate.next_line()["client_cn"], "alice");
        }
    }
}
