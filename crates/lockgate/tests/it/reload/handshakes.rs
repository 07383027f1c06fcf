//! Connections whose handshake does not give what the reloaded rules need.

use lockgate_testkit::h2::Client;
use lockgate_testkit::{Http, Lockgate};

use super::{get, reload};
use crate::scene::{NAME, Site, lockgate, text};

/// A site over TLS at `127.0.0.2:0`, with these keys of its `tls`.
fn secure(site: &Site, tls: &str, text: &str) -> String {
    format!(
        "[site.\"{NAME}:0\"]\nlisten = [\"127.0.0.2\"]\ntls = {{ cert = \"{}\"{tls} }}\nrespond = {{ body = \"{text}\" }}\n",
        site.cert
    )
}

fn connect(site: &Site, gate: &Lockgate) -> Http<lockgate_testkit::Tls> {
    Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap())
}

#[test]
fn a_connection_over_tls_is_kept_where_its_rules_stay() {
    let site = Site::new();
    let gate = lockgate().start(&secure(&site, "", "old"));
    let mut client = connect(&site, &gate);
    client.send(get("/"));
    assert_eq!(client.answer().body, b"old");
    let renewed = site.authority.issue(&[NAME]);
    site.folder.certificate("other.pem", &renewed);
    let other = secure(&site, "", "new").replace("app.pem", "other.pem");
    reload(&gate, &other);
    client.send(get("/"));
    assert_eq!(client.answer().body, b"new");
}

#[test]
fn a_changed_rule_of_the_handshake_misdirects_the_next_request_and_ends_the_connection() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    for change in [
        format!(", client_auth = {{ ca = \"{ca}\" }}"),
        format!(", client_auth = {{ ca = \"{ca}\", mode = \"request\" }}"),
        ", policy = \"modern\"".to_owned(),
        ", policy = { suites = [\"TLS13_AES_128_GCM_SHA256\"], versions = [\"1.3\"] }".to_owned(),
        ", policy = { groups = [\"X25519\"] }".to_owned(),
    ] {
        let gate = lockgate().start(&secure(&site, "", "old"));
        let mut client = connect(&site, &gate);
        client.send(get("/"));
        assert_eq!(client.answer().body, b"old", "{change}");
        reload(&gate, &secure(&site, &change, "new"));
        client.send(get("/"));
        let answer = client.answer();
        assert_eq!(answer.status(), 421, "{change}");
        assert_eq!(answer.field("connection"), Some("close"), "{change}");
    }
}

#[test]
fn an_http2_connection_without_what_new_rules_need_gets_421_and_goaway() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let gate = lockgate().start(&secure(&site, "", "old"));
    let client = Client::connect_tls(&site.client(), gate.at("127.0.0.2:0"), NAME);
    assert_eq!(client.get("/").body, b"old");
    let required = format!(", client_auth = {{ ca = \"{ca}\" }}");
    reload(&gate, &secure(&site, &required, "new"));
    assert_eq!(client.get("/").status, 421);
    client.ended().expect("the connection ends in order");
}

#[test]
fn a_site_that_is_gone_misdirects_the_next_request_and_ends_the_connection() {
    let site = Site::new();
    let gate = lockgate().start(&secure(&site, "", "old"));
    let mut client = connect(&site, &gate);
    client.send(get("/"));
    assert_eq!(client.answer().status(), 200);
    reload(
        &gate,
        &secure(&site, "", "new").replace("[site.\"app.test:0\"]", "[site.\"b.test:0\"]"),
    );
    client.send(get("/"));
    let answer = client.answer();
    assert_eq!(answer.status(), 421);
    assert_eq!(answer.field("connection"), Some("close"));
}
