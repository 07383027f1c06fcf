//! The commands beside `run`: their output and exit codes.

use std::sync::Arc;

use lockgate_testkit::{Folder, Lockgate, Origin, Tls, Wire};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use serde_json::Value;

use crate::scene::{NAME, Site, lockgate, plain, text};

fn written(toml: &str) -> (Folder, String) {
    let folder = Folder::new();
    let file = text(&folder.write("lockgate.toml", toml));
    (folder, file)
}

#[test]
fn exit_codes_distinguish_success_failure_and_usage() {
    let (_good_folder, good) = written(&plain("127.0.0.1:9"));
    let (_bad_folder, bad) = written("[tcp.\"127.0.0.1:0\"]\nproxi = \"127.0.0.1:9\"\n");
    for (arguments, code) in [
        (&["version"][..], 0),
        (&["--version"], 0),
        (&["--help"], 0),
        (&["check", "-c", &good], 0),
        (&["-t", "-c", &good], 0),
        (&["check", "-c", &bad], 1),
        (&["run", "-c", &bad], 1),
        (&["run", "-c", "/nonexistent/lockgate.toml"], 1),
        (&["check", "-c", "/nonexistent/lockgate.toml"], 1),
        (&[], 2),
        (&["fly"], 2),
        (&["run", "--fast"], 2),
        (&["proxy", ":0"], 2),
        (&["serve"], 2),
        (&["serve", ".", "--listen", "8000"], 2),
        (&["serve", "/nonexistent/folder"], 1),
    ] {
        let ended = lockgate().run(arguments);
        assert_eq!(
            ended.code,
            Some(code),
            "{arguments:?}: {} {}",
            ended.stdout,
            ended.stderr
        );
    }
}

#[test]
fn check_reports_every_mistake_with_its_position() {
    let (_folder, file) = written(
        "workerz = 2\n[tcp.\"127.0.0.1:0\"]\nproxy = \"127.0.0.1\"\ntimeouts = { connect = 5 }\n\
         [tcp.\"127.0.0.2:0\"]\ntls = \"/nonexistent.pem\"\nproxy = \"127.0.0.1:9\"\n",
    );
    let ended = lockgate().run(&["check", "-c", &file]);
    assert_eq!(ended.code, Some(1));
    for (code, line) in [("E0010", 1), ("E0016", 3), ("E0013", 4)] {
        assert!(
            ended.stderr.contains(&format!("error[{code}]")),
            "{code}: {}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains(&format!("lockgate.toml:{line}:")),
            "line {line}: {}",
            ended.stderr
        );
    }
    assert!(
        ended.stderr.contains("workers"),
        "a suggestion: {}",
        ended.stderr
    );
    assert!(
        !ended.stderr.contains('\x1b'),
        "no colour where there is no terminal"
    );
}

#[test]
fn check_prints_json() {
    let (_folder, file) = written("[tcp.\"127.0.0.1:0\"]\nproxi = \"127.0.0.1:9\"\n");
    let ended = lockgate().run(&["check", "--json", "-c", &file]);
    assert_eq!(ended.code, Some(1));
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(said["report"]["errors"].as_u64().unwrap() >= 1, "{said}");
    let diagnostics = said["report"]["diagnostics"].as_array().unwrap();
    let unknown = diagnostics
        .iter()
        .find(|diagnostic| diagnostic["code"] == "E0010")
        .unwrap();
    assert_eq!(
        (&unknown["line"], &unknown["column"]),
        (&2.into(), &1.into()),
        "{said}"
    );
}

#[test]
fn check_strict_fails_on_warnings() {
    let site = Site::new();
    let expired = site
        .folder
        .certificate("expired.pem", &site.authority.issue_expired(&[NAME]));
    let (_folder, file) = written(&format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = \"{expired}\"\nproxy = \"127.0.0.1:9\"\n"
    ));
    let ended = lockgate().run(&["check", "-c", &file]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("W0101"), "{}", ended.stderr);
    assert_eq!(
        lockgate().run(&["check", "--strict", "-c", &file]).code,
        Some(2)
    );
    let (_folder, good) = written(&plain("127.0.0.1:9"));
    assert_eq!(
        lockgate().run(&["check", "--strict", "-c", &good]).code,
        Some(0)
    );
}

#[test]
fn check_verbose_shows_certificates_and_tls_settings() {
    let site = Site::new();
    let (_folder, file) = written(&site.tls("127.0.0.1:9", ", alpn = [\"h2\"]"));
    let ended = lockgate().run(&["check", "-v", "-c", &file]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for said in [
        "127.0.0.1:0",
        NAME,
        "1.2",
        "1.3",
        "h2",
        "X25519MLKEM768",
        "127.0.0.1:9",
        "days left",
    ] {
        assert!(ended.stdout.contains(said), "{said} in {}", ended.stdout);
    }
    let ended = lockgate().run(&["check", "-v", "--json", "-c", &file]);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        said["listeners"][0]["tls"]["certificates"][0]["names"][0], NAME,
        "{said}"
    );
}

#[test]
fn check_binds_and_writes_nothing() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (_folder, file) = written(&format!(
        "state = \"{}\"\n[tcp.\"{}\"]\nproxy = \"127.0.0.1:9\"\n",
        text(&folder.path("state")),
        taken.local_addr().unwrap()
    ));
    assert_eq!(lockgate().run(&["check", "-c", &file]).code, Some(0));
    assert!(!folder.path("state").exists());
}

#[test]
fn the_configuration_file_may_be_named_by_the_environment() {
    let (_folder, file) = written(&plain("127.0.0.1:9"));
    let ended = lockgate()
        .variable("LOCKGATE_CONFIG", &file)
        .run(&["check"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// A verifier that accepts every certificate: these are made for the occasion.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A TLS connection to the server at `address`, which offers these protocols.
pub(super) fn trusting_anybody(address: &str, alpn: &[&str]) -> Tls {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Tls::connect(
        &Arc::new(config),
        Wire::connect(address.parse().unwrap()),
        "localhost",
    )
    .unwrap()
}

/// The address in the line of the operator log, here as text, that has these words.
pub(super) fn address_said(gate: &Lockgate, words: &str) -> String {
    gate.stderr().find(words, |line| {
        let (_, fields) = line.split_once(words)?;
        let (_, address) = fields.split_once("address=")?;
        address.split_whitespace().next().map(str::to_owned)
    })
}

/// The address of the listener that serves `what`, from the log.
fn listening(gate: &Lockgate, what: &str) -> String {
    gate.stderr().find(what, |line| {
        let (_, rest) = line.split_once("listening")?;
        let address = rest.split_once("address=")?.1.split_whitespace().next()?;
        rest.contains(&format!("what=\"{what}\""))
            .then(|| address.to_owned())
    })
}

/// Sends a request over a connection of its own, and returns the response.
fn response_to(address: &str, request: &str) -> String {
    let mut client = trusting_anybody(address, &["http/1.1"]);
    client.send(request);
    String::from_utf8(client.end().0).unwrap()
}

#[test]
fn demo_serves_a_page_an_application_and_a_relay() {
    let gate = lockgate().command(&[
        "demo",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
    ]);
    let (site, relay) = (listening(&gate, "https"), listening(&gate, "tls"));
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let page = response_to(&site, &get("/"));
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("ETag: "),
        "{page}"
    );
    assert!(page.contains("<h1>It works</h1>"), "{page}");
    // Both endpoints answer, sooner or later.
    for name in ["application 1 of 2", "application 2 of 2"] {
        lockgate_testkit::eventually(name, || {
            response_to(&site, &get("/api/hello"))
                .contains(name)
                .then_some(())
        });
    }
    assert!(response_to(&site, &get("/api/hello")).contains("for 127.0.0.1 by https"));
    let answer = response_to(
        &relay,
        "POST /echo HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("TLSv1.3") && answer.ends_with("hello"),
        "{answer}"
    );
    assert_eq!(
        trusting_anybody(&site, &["h2"]).agreed().alpn_protocol(),
        Some(&b"h2"[..])
    );
    let mut metrics = Wire::connect(address_said(&gate, "metrics").parse().unwrap());
    metrics.send("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(metrics.rest().starts_with(b"HTTP/1.1 200 OK"));
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn demo_prints_commands_to_try_with_its_addresses() {
    let gate = lockgate().command(&[
        "demo",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
    ]);
    gate.stdout().find("the end of the invitation", |line| {
        line.contains("Ctrl-C").then_some(())
    });
    let printed = gate.stdout().text();
    let (site, relay) = (listening(&gate, "https"), listening(&gate, "tls"));
    let metrics = address_said(&gate, "metrics");
    for said in [
        format!("curl -k https://{site}/ "),
        format!("curl -k https://{site}/api/hello "),
        format!("curl -k https://{relay}/hello "),
        format!("curl http://{metrics}/metrics"),
        format!("lockgate load --insecure -d 5s https://{site}/api/hello"),
        "docs/config.md".to_owned(),
    ] {
        assert!(printed.contains(&said), "{said:?} in {printed}");
    }
}

#[test]
fn proxy_command_terminates_tls_without_a_file() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().command(&["proxy", "127.0.0.1:0", origin.address(), "--tls", "self"]);
    let mut client = trusting_anybody(&address_said(&gate, "listening"), &[]);
    client.send("ping");
    client.expect("ping");
    drop(client);
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn proxy_command_takes_a_certificate_or_none() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let cert = text(&site.folder.write("one.crt", site.issued.pem()));
    let key = text(&site.folder.write("one.key", site.issued.key_pem()));
    let gate = lockgate().command(&[
        "proxy",
        "127.0.0.1:0",
        origin.address(),
        "--tls",
        &format!("{cert},{key}"),
    ]);
    let mut client = site
        .client()
        .connect(address_said(&gate, "listening").parse().unwrap(), NAME)
        .unwrap();
    client.send("ping");
    client.expect("ping");
    let gate = lockgate().command(&["proxy", "127.0.0.1:0", origin.address()]);
    let mut client = Wire::connect(address_said(&gate, "listening").parse().unwrap());
    client.send("ping");
    client.expect("ping");
}
