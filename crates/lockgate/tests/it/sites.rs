//! Sites from the configuration to the wire: TLS rules by host, redirects, users and pages in their
//! files.

use lockgate_testkit::{ClientSettings, Lockgate, Origin, Tls, Wire, eventually};
use rustls::AlertDescription;

use crate::scene::{Site, lockgate, text};

fn get(host: &str, more: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n")
}

fn plain(gate: &Lockgate, listener: &str, host: &str, more: &str) -> String {
    let answer = Wire::connect(gate.at(listener)).exchange(get(host, more));
    String::from_utf8(answer).unwrap()
}

fn secure(gate: &Lockgate, client: &ClientSettings, name: &str, host: &str) -> String {
    let answer = client
        .connect(gate.at("127.0.0.2:0"), name)
        .unwrap()
        .exchange(get(host, ""));
    String::from_utf8(answer).unwrap()
}

/// One TLS address with two sites, one of which requires client certificates.
fn two_rules(site: &Site) -> String {
    let both = site.folder.certificate(
        "both.pem",
        &site.authority.issue(&["open.test", "inner.test"]),
    );
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    format!(
        "[tls]\ncerts = [\"{both}\"]\n\
         [site.\"open.test:0\"]\nlisten = [\"127.0.0.2\"]\ntls = {{ }}\nrespond = \"open\"\n\
         [site.\"inner.test:0\"]\nlisten = [\"127.0.0.2\"]\nrespond = \"inner\"\n\
         tls = {{ client_auth = {{ ca = \"{ca}\" }} }}\n"
    )
}

#[test]
fn tls_rules_follow_the_sni_host() {
    let site = Site::new();
    let gate = lockgate().start(&two_rules(&site));
    let stranger = site.client();
    assert!(secure(&gate, &stranger, "open.test", "open.test").ends_with("\r\n\r\nopen"));
    let (_, end) = stranger
        .connect(gate.at("127.0.0.2:0"), "inner.test")
        .unwrap()
        .end();
    assert_eq!(
        Tls::alert(&end.unwrap_err()),
        Some(AlertDescription::CertificateRequired)
    );
    let known = site.client().identity(&site.authority.issue(&["client"]));
    assert!(secure(&gate, &known, "inner.test", "inner.test").ends_with("\r\n\r\ninner"));
}

#[test]
fn a_host_with_other_tls_rules_is_a_421() {
    let site = Site::new();
    let gate = lockgate().start(&two_rules(&site));
    // A client that names one host in SNI and another in HTTP does not get around the certificate
    // (RFC 9110 §7.4).
    for (client, name, host) in [
        (site.client(), "open.test", "inner.test"),
        (
            site.client().identity(&site.authority.issue(&["client"])),
            "inner.test",
            "open.test",
        ),
    ] {
        let answer = secure(&gate, &client, name, host);
        assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    }
}

#[test]
fn alpn_is_offered_per_host_and_counted() {
    let site = Site::new();
    let both = site.folder.certificate(
        "both.pem",
        &site.authority.issue(&["elder.test", "new.test"]),
    );
    let gate = lockgate().start(&format!(
        "[tls]\ncerts = [\"{both}\"]\n\
         [site.\"elder.test:0\"]\nlisten = [\"127.0.0.2\"]\ntls = {{}}\nprotocols = [\"http1\"]\nrespond = \"old\"\n\
         [site.\"new.test:0\"]\nlisten = [\"127.0.0.2\"]\ntls = {{}}\nrespond = \"new\"\n"
    ));
    let browser = site.client().alpn(&["http/1.1", "h2"]);
    for (name, chosen) in [("elder.test", "http/1.1"), ("new.test", "h2")] {
        let tls = browser.connect(gate.at("127.0.0.2:0"), name).unwrap();
        assert_eq!(tls.agreed().alpn_protocol(), Some(chosen.as_bytes()));
        gate.wait_for_sample(
            "lockgate_tls_handshakes_total",
            &[&format!("alpn=\"{chosen}\"")],
            1.0,
        );
    }
    let refused = site
        .client()
        .alpn(&["h2"])
        .connect(gate.at("127.0.0.2:0"), "elder.test")
        .unwrap_err();
    assert_eq!(
        Tls::alert(&refused),
        Some(AlertDescription::NoApplicationProtocol)
    );
}

#[test]
fn http_redirects_to_https_unless_the_host_is_served() {
    let site = Site::new();
    let gate = lockgate().start(&format!(
        "ports = {{ http = 0, https = 8443 }}\n\
         [site.\"app.test\"]\nlisten = [\"127.0.0.3\"]\nalias = [\"api.test\"]\ntls = \"{}\"\nrespond = \"tls\"\n\
         [site.\"api.test:0\"]\nlisten = [\"127.0.0.3\"]\nrespond = \"plain\"\n",
        site.cert
    ));
    let answer = plain(&gate, "127.0.0.3:0", "app.test", "");
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    assert!(
        answer.contains("\r\nLocation: https://app.test:8443/\r\n"),
        "{answer}"
    );
    assert!(plain(&gate, "127.0.0.3:0", "api.test", "").ends_with("\r\n\r\nplain"));
}

#[test]
fn an_https_redirect_does_not_decide_protocols() {
    let site = Site::new();
    let gate = |protocols: &str| {
        lockgate().start(&format!(
            "ports = {{ http = 0, https = 0 }}\n\
             [site.\"app.test\"]\nlisten = [\"127.0.0.3\"]\ntls = \"{}\"\nrespond = \"tls\"\n\
             [site.\"api.test:0\"]\nlisten = [\"127.0.0.3\"]\nprotocols = {protocols}\nrespond = \"plain\"\n",
            site.cert
        ))
    };
    let both = gate("[\"http1\", \"h2c\"]");
    assert!(plain(&both, "127.0.0.3:0", "app.test", "").starts_with("HTTP/1.1 308 "));
    // RFC 9113 §3.4: a client that does not begin with the preface gets no response in HTTP/1.
    let only = gate("[\"h2c\"]");
    let answer = Wire::connect(only.at("127.0.0.3:0")).exchange(get("app.test", ""));
    assert!(
        !answer.starts_with(b"HTTP/1.1 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
fn a_changed_htpasswd_file_is_reloaded() {
    let site = Site::new();
    // `mkpasswd -m sha512crypt -R 1000 secret`
    let anna = "anna:$6$rounds=1000$lockgate$G1TSfzON7kA97QS9WBAE7AmEmeFNMHBj0wXjzjad8IoM2Y0t7q7Jw7/yqrlg46CaEK/BcRySZhqRQFOHYvnju1\n";
    let users = site.folder.write("users", "# nobody yet\n");
    let gate = lockgate().start(&format!(
        "[site.\"127.0.0.1:0\"]\nauth = {{ basic = \"{}\" }}\nrespond = \"in\"\n",
        text(&users)
    ));
    // anna:secret
    let asks = || {
        plain(
            &gate,
            ":0",
            "127.0.0.1",
            "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n",
        )
    };
    assert!(asks().starts_with("HTTP/1.1 401 "));
    site.folder.write("users", anna);
    eventually("anna is let in", || {
        asks().ends_with("\r\n\r\nin").then_some(())
    });
    site.folder.write("users", "no user\n");
    gate.says("the old users stay in use");
    assert!(asks().ends_with("\r\n\r\nin"));
}

#[test]
fn endpoints_are_checked_and_counted_under_their_pool_name() {
    let origin = Origin::tcp().serve(|wire| {
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        wire.finish();
    });
    let gate = lockgate().start(&format!(
        "[pool.app]\nendpoints = [\"{0}\", \"127.1.2.3:9\"]\nhealth = {{ path = \"/\", every = \"100ms\" }}\n\
         [site.\":0\"]\nproxy = \"pool:app\"\n",
        origin.address()
    ));
    let labels = ["pool=\"app\"", "endpoint=\"127.1.2.3:9\""];
    gate.wait_for_sample("lockgate_upstream_up", &labels, 0.0);
    assert!(plain(&gate, ":0", "a.test", "").ends_with("\r\n\r\nok"));
    let line = gate.line("the exchange", |line| line["status"] == 200);
    assert_eq!(
        (&line["pool"], &line["endpoint"]),
        (&"app".into(), &origin.address().into())
    );
    gate.wait_for_sample(
        "lockgate_requests_total",
        &["site=\":0\"", "method=\"GET\"", "code=\"2xx\""],
        1.0,
    );
    let why = gate.top()["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["up"] == false)
        .unwrap()["why"]
        .clone();
    assert!(why.as_str().unwrap().contains("cannot connect"), "{why}");
}
