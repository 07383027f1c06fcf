//! TLS with clients: certificates by name, versions, groups, client certificates, and refusals.

mod hostile_clients;
mod reload;
pub(crate) mod resumption;

use lockgate_testkit::{Authority, ED25519, Origin, P384, RSA, Tls, server_config};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, NamedGroup, ProtocolVersion};

use crate::scene::{NAME, Site, VERSIONS, lockgate, text};

/// The name of the certificate that a client was shown, by its position in `issued`.
fn shown_certificate<'a>(tls: &Tls, issued: &[(&'a str, &lockgate_testkit::Issued)]) -> &'a str {
    let leaf = &tls.agreed().peer_certificates().unwrap()[0];
    issued
        .iter()
        .find(|(_, issued)| issued.der() == *leaf)
        .unwrap()
        .0
}

#[test]
fn exact_sni_beats_wildcard_and_wildcard_beats_default() {
    let site = Site::new();
    let make = |name: &str, names: &[&str]| {
        let issued = site.authority.issue(names);
        site.folder.certificate(name, &issued);
        issued
    };
    let wildcard = make("wild.pem", &["*.shop.test"]);
    let exact = make("exact.pem", &["www.shop.test"]);
    let default = make("default.pem", &["default.test"]);
    let issued = [
        ("wildcard", &wildcard),
        ("exact", &exact),
        ("default", &default),
    ];
    let origin = Origin::tcp().echo();
    let dir = text(site.folder.dir());
    let toml = format!(
        "[tls]\ncerts = [\"{dir}/wild.pem\", \"{dir}/exact.pem\"]\ndefault = \"{dir}/default.pem\"\n\
         [tcp.\"127.0.0.1:0\"]\ntls = {{}}\nproxy = \"{}\"\n",
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let client = site.client();
    for (name, expected) in [
        ("www.shop.test", "exact"),
        ("a.shop.test", "wildcard"),
        ("default.test", "default"),
    ] {
        let tls = client.connect(gate.address(), name).unwrap();
        assert_eq!(shown_certificate(&tls, &issued), expected, "{name}");
    }
    // An unknown name gets the default, which the client refuses.
    let refused = client.connect(gate.address(), "other.test").unwrap_err();
    assert!(
        refused.to_string().contains("not valid for name"),
        "{refused}"
    );
    // A wildcard stands for one label (RFC 6125 §6.4.3).
    let refused = client.connect(gate.address(), "a.b.shop.test").unwrap_err();
    assert!(
        refused.to_string().contains("not valid for name"),
        "{refused}"
    );
    // No name at all.
    let mut nameless = site.client();
    nameless.names_server = false;
    assert_eq!(
        shown_certificate(
            &nameless.connect(gate.address(), "default.test").unwrap(),
            &issued
        ),
        "default"
    );
}

#[test]
fn without_a_default_certificate_an_unknown_sni_is_refused() {
    let site = Site::new();
    let origin = Origin::tcp();
    let toml = format!(
        "[tls]\ncerts = [\"{}\"]\n[tcp.\"127.0.0.1:0\"]\ntls = {{}}\nproxy = \"{}\"\n",
        site.cert,
        origin.address()
    );
    let mut gate = lockgate().start(&toml);
    for version in [&TLS12, &TLS13] {
        let client = site.client().version(version);
        let refused = client.connect(gate.address(), "other.test").unwrap_err();
        assert_eq!(
            Tls::alert(&refused),
            Some(AlertDescription::UnrecognisedName),
            "{refused}"
        );
        let line = gate.next_line();
        assert_eq!(line["cause"], "handshake_failed");
        assert_eq!(line["sni"], "other.test", "{line}");
        assert!(
            line["detail"].as_str().unwrap().contains("other.test"),
            "{line}"
        );
    }
    let mut nameless = site.client();
    nameless.names_server = false;
    let refused = nameless.connect(gate.address(), NAME).unwrap_err();
    assert_eq!(
        Tls::alert(&refused),
        Some(AlertDescription::UnrecognisedName)
    );
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"unknown_name\""],
        3.0,
    );
}

#[test]
fn server_order_decides_alpn() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let toml = site.tls(origin.address(), ", alpn = [\"h2\", \"http/1.1\"]")
        + &site.listener("127.0.0.2:0", origin.address(), "");
    let mut gate = lockgate().start(&toml);
    for version in [&TLS12, &TLS13] {
        let client = site.client().version(version);
        for (offered, chosen) in [
            (&["http/1.1", "h2"][..], Some("h2")),
            (&["http/1.1"], Some("http/1.1")),
            (&[], None),
        ] {
            let mut tls = client
                .clone()
                .alpn(offered)
                .connect(gate.address(), NAME)
                .unwrap();
            assert_eq!(tls.agreed().alpn_protocol(), chosen.map(str::as_bytes));
            tls.finish();
            tls.rest();
            assert_eq!(gate.next_line()["alpn"].as_str(), chosen);
        }
        let refused = client
            .clone()
            .alpn(&["postgresql"])
            .connect(gate.address(), NAME)
            .unwrap_err();
        assert_eq!(
            Tls::alert(&refused),
            Some(AlertDescription::NoApplicationProtocol)
        );
        assert_eq!(gate.next_line()["cause"], "handshake_failed");
        // Without `alpn`, offers are ignored.
        let mut tls = client
            .alpn(&["h2"])
            .connect(gate.at("127.0.0.2:0"), NAME)
            .unwrap();
        assert_eq!(tls.agreed().alpn_protocol(), None);
        tls.finish();
        gate.next_line();
    }
}

#[test]
fn every_private_key_type_serves() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let mut toml = String::new();
    for (host, algorithm) in [(1, &RSA), (2, &P384), (3, &ED25519)] {
        let issued = site.authority.issue_with(&[NAME], algorithm, |_| {});
        let cert = site.folder.certificate(&format!("{host}.pem"), &issued);
        toml += &format!(
            "[tcp.\"127.0.0.{host}:0\"]\ntls = \"{cert}\"\nproxy = \"{}\"\n",
            origin.address()
        );
    }
    let gate = lockgate().start(&toml);
    for host in 1..=3 {
        for version in VERSIONS {
            let mut tls = site.connect_by(version, gate.at(&format!("127.0.0.{host}:0")));
            tls.send("ping");
            tls.expect("ping");
        }
    }
}

#[test]
fn an_rsa_only_client_gets_the_rsa_certificate() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let rsa = site
        .folder
        .certificate("rsa.pem", &site.authority.issue_with(&[NAME], &RSA, |_| {}));
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = {{ certs = [\"{}\", \"{rsa}\"] }}\nproxy = \"{}\"\n",
        site.cert,
        origin.address()
    );
    let gate = lockgate().start(&toml);
    for (kind, cipher) in [
        ("ECDSA", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("RSA", "ECDHE-RSA-AES128-GCM-SHA256"),
    ] {
        let Some(said) = openssl(&[
            "-connect",
            &gate.address().to_string(),
            "-servername",
            NAME,
            "-tls1_2",
            "-cipher",
            cipher,
        ]) else {
            return;
        };
        assert!(said.contains(cipher), "{kind}: {said}");
    }
}

/// Output of `openssl s_client` for a connection; `None`, with a message, where it is not
/// installed.
fn openssl(arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new("openssl")
        .arg("s_client")
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output();
    match output {
        Ok(output) => {
            Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
        }
        Err(error) => {
            println!("skipped: openssl does not run here: {error}");
            None
        }
    }
}

#[test]
fn a_capable_client_negotiates_the_post_quantum_group() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&site.tls(origin.address(), ""));
    let group = |tls: &Tls| tls.agreed().negotiated_key_exchange_group().unwrap().name();
    assert_eq!(group(&site.connect(&gate)), NamedGroup::X25519MLKEM768);
    let mut old = site.client();
    for (offered, expected) in [
        (kx_group::X25519, NamedGroup::X25519),
        (kx_group::SECP256R1, NamedGroup::secp256r1),
    ] {
        old.groups = vec![offered];
        assert_eq!(group(&old.connect(gate.address(), NAME).unwrap()), expected);
    }
}

#[test]
fn a_tls_policy_restricts_versions_suites_and_groups() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let toml = site.listener("127.0.0.1:0", origin.address(), ", policy = \"modern\"")
        + &site.listener(
            "127.0.0.2:0",
            origin.address(),
            ", policy = { versions = [\"1.2\"] }",
        )
        + &site.listener(
            "127.0.0.3:0",
            origin.address(),
            ", policy = { groups = [\"secp256r1\"] }",
        )
        + &site.listener(
            "127.0.0.4:0",
            origin.address(),
            ", policy = { suites = [\"TLS13_CHACHA20_POLY1305_SHA256\"], versions = [\"1.3\"] }",
        );
    let gate = lockgate().start(&toml);
    let at = |host: u8| gate.at(&format!("127.0.0.{host}:0"));
    let refused = site
        .client()
        .version(&TLS12)
        .connect(at(1), NAME)
        .unwrap_err();
    assert_eq!(
        Tls::alert(&refused),
        Some(AlertDescription::ProtocolVersion)
    );
    let refused = site
        .client()
        .version(&TLS13)
        .connect(at(2), NAME)
        .unwrap_err();
    assert_eq!(
        Tls::alert(&refused),
        Some(AlertDescription::ProtocolVersion)
    );
    let agreed = site.client().connect(at(2), NAME).unwrap();
    assert_eq!(
        agreed.agreed().protocol_version(),
        Some(ProtocolVersion::TLSv1_2)
    );
    // Through a HelloRetryRequest: the client's first guess is another group.
    let agreed = site.client().connect(at(3), NAME).unwrap();
    assert_eq!(
        agreed
            .agreed()
            .negotiated_key_exchange_group()
            .unwrap()
            .name(),
        NamedGroup::secp256r1
    );
    let agreed = site.client().connect(at(4), NAME).unwrap();
    let suite = agreed.agreed().negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite, rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
}

#[test]
fn required_client_certificates_are_verified() {
    let site = Site::new();
    let clients = Authority::new("Clients");
    let ca = text(&site.folder.write("clients.pem", clients.pem()));
    let alice = clients.issue(&["alice"]);
    let stranger = Authority::new("Strangers").issue(&["mallory"]);
    let outdated = clients.issue_expired(&["bob"]);
    let origin = Origin::tcp().echo();
    let auth = |mode: &str| format!(", client_auth = {{ mode = \"{mode}\", ca = \"{ca}\" }}");
    let toml = site.listener("127.0.0.1:0", origin.address(), &auth("require"))
        + &site.listener("127.0.0.2:0", origin.address(), &auth("request"));
    let mut gate = lockgate().start(&toml);
    for version in [&TLS12, &TLS13] {
        let client = site.client().version(version);
        for listener in ["127.0.0.1:0", "127.0.0.2:0"] {
            let mut tls = client
                .clone()
                .identity(&alice)
                .connect(gate.at(listener), NAME)
                .unwrap();
            tls.send("ping");
            tls.expect("ping");
            tls.finish();
            tls.rest();
            assert_eq!(gate.next_line()["client_cn"], "alice");
            for bad in [&stranger, &outdated] {
                let refused = refusal(
                    client
                        .clone()
                        .identity(bad)
                        .connect(gate.at(listener), NAME),
                );
                assert!(refused.is_some(), "by {listener}");
                let line = gate.next_line();
                assert_eq!(
                    (&line["cause"], &line["endpoint"]),
                    (&"handshake_failed".into(), &serde_json::Value::Null)
                );
            }
        }
        let refused = refusal(client.connect(gate.at("127.0.0.1:0"), NAME));
        let expected = [
            AlertDescription::CertificateRequired,
            AlertDescription::HandshakeFailure,
        ];
        assert!(expected.contains(&refused.unwrap()), "{refused:?}");
        assert_eq!(gate.next_line()["cause"], "handshake_failed");
        let mut tls = client.connect(gate.at("127.0.0.2:0"), NAME).unwrap();
        tls.send("ping");
        tls.expect("ping");
        tls.finish();
        tls.rest();
        assert!(gate.next_line()["client_cn"].is_null());
    }
    assert_eq!(origin.accepted(), 6, "nobody else reached the endpoint");
}

/// The alert that a client is refused by: in TLS 1.3 it comes after the client believes itself
/// done.
fn refusal(connected: std::io::Result<Tls>) -> Option<AlertDescription> {
    match connected {
        Err(error) => Some(Tls::alert(&error).unwrap_or_else(|| panic!("no alert but: {error}"))),
        Ok(mut tls) => Tls::alert(&tls.end().1.unwrap_err()),
    }
}

#[test]
fn a_missing_or_empty_client_ca_file_fails_the_start() {
    let site = Site::new();
    let empty = site.folder.write("empty.pem", "");
    let text_only = site.folder.write("text.pem", "no certificate here\n");
    for ca in [empty, text_only, site.folder.path("missing.pem")] {
        let auth = format!(
            ", client_auth = {{ mode = \"request\", ca = \"{}\" }}",
            text(&ca)
        );
        let ended = lockgate().fail(&site.tls("127.0.0.1:9", &auth));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("E0104") && ended.stderr.contains(&text(&ca)),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn an_endpoint_requiring_a_client_certificate_is_connect_failed() {
    let site = Site::new();
    let ca = site.folder.write("ca.pem", site.authority.pem());
    let origin = Origin::tcp();
    let to = format!(
        "{{ to = \"{}\", tls = {{ name = \"{NAME}\", ca = \"{}\" }} }}",
        origin.address(),
        text(&ca)
    );
    let mut gate = lockgate().start(&format!("[tcp.\"127.0.0.1:0\"]\nproxy = {to}\n"));
    let mut client = lockgate_testkit::Wire::connect(gate.address());
    Tls::accept(
        &server_config(&site.issued, Some(&site.authority)),
        origin.accept(),
    )
    .unwrap_err();
    client.wait_closed();
    // In TLS 1.3 the refusal comes after our handshake is done.
    let cause = gate.next_line()["cause"].clone();
    assert!(
        ["connect_failed", "upstream_reset"].contains(&cause.as_str().unwrap()),
        "{cause}"
    );
}
