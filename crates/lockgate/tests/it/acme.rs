//! Certificates by ACME: orders, challenges, what is kept, and authorities that misbehave.

mod faults;
mod kept;
mod on_demand;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use lockgate_testkit::acme::{AcmeServer, Fault, Resource};
use lockgate_testkit::{Folder, Http, Lockgate, Tls, Wire, eventually};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{AlertDescription, ClientConfig, RootCertStore};

use crate::ddns::zone_server::ZoneServer;
use crate::ddns::{AddressServer, ddns};
use crate::scene::{deserted, lockgate};

/// An authority, and the state folder of its clients.
struct Scene {
    server: AcmeServer,
    state: Folder,
}

impl Scene {
    fn new() -> Self {
        Self {
            server: AcmeServer::start(),
            state: Folder::new(),
        }
    }

    /// Has the authority bind new accounts to an external one; the key of `[acme]` that names it.
    fn requires_eab(&self) -> &'static str {
        self.server
            .require_external_account("kid-1", b"secret-mac-key");
        "eab = { key_id = \"kid-1\", mac_key = \"c2VjcmV0LW1hYy1rZXk\" }\n"
    }

    /// The top of a configuration; `acme` are further keys of its table.
    fn top(&self, acme: &str) -> String {
        self.top_of(&[&self.server], acme)
    }

    fn top_of(&self, servers: &[&AcmeServer], acme: &str) -> String {
        let directories: Vec<_> = servers.iter().map(|server| server.directory()).collect();
        format!(
            "state = \"{}\"\nports = {{ http = 0, https = 0 }}\n\
             [acme]\ndirectory = {directories:?}\nca = \"{}\"\n{acme}",
            self.folder("").display(),
            self.server.ca_file().display(),
        )
    }

    /// The top with another authority after this one; the file `ca` has the roots of both.
    fn top_of_both(&self, second: &AcmeServer) -> String {
        let both = self.state.path("both.pem");
        let read = |server: &AcmeServer| std::fs::read_to_string(server.ca_file()).unwrap();
        std::fs::write(&both, read(&self.server) + &read(second)).unwrap();
        self.top_of(&[&self.server, second], "").replace(
            &self.server.ca_file().display().to_string(),
            &both.display().to_string(),
        )
    }

    /// A configuration with these sites.
    fn sites(&self, names: &[&str]) -> String {
        self.top("") + &sites(names)
    }

    /// Starts Lockgate. The authority answers once it knows the ports.
    fn start(&self, toml: &str) -> Lockgate {
        self.server.fail(Resource::Directory, Fault::Hold);
        let gate = lockgate().workers(2).start(toml);
        self.server.set_tls_port(https(&gate).port());
        self.server.set_http_port(http(&gate).port());
        self.let_go();
        gate
    }

    /// The same, without an end to the faults that are to come.
    fn start_without_clearing(&self, toml: &str) -> Lockgate {
        let gate = lockgate().workers(2).start(toml);
        self.server.set_tls_port(https(&gate).port());
        self.server.set_http_port(http(&gate).port());
        gate
    }

    fn let_go(&self) {
        self.server.clear_faults();
        self.server.release();
    }

    /// A file of the certificates.
    fn file(&self, name: &str) -> PathBuf {
        self.folder("certs").join(name)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.state.path("state").join(name)
    }

    /// The certificate that a client gets which trusts the authority alone.
    fn certificate(&self, gate: &Lockgate, name: &str) -> io::Result<Vec<u8>> {
        certificate(https(gate), name, &self.server.root_pem())
    }

    /// Waits for a certificate of the authority.
    fn served(&self, gate: &Lockgate, name: &str) -> Vec<u8> {
        eventually("the certificate is served", || {
            self.certificate(gate, name).ok()
        })
    }
}

/// Waits until something is so.
fn is(what: &str, mut so: impl FnMut() -> bool) {
    eventually(what, || so().then_some(()));
}

fn sites(names: &[&str]) -> String {
    let site = |name: &&str| {
        format!("[site.\"{name}\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"{name}\"\n")
    };
    names.iter().map(site).collect()
}

/// The listener of the sites.
fn https(gate: &Lockgate) -> SocketAddr {
    gate.at("127.0.0.1:0")
}

/// The listener of the redirects.
fn http(gate: &Lockgate) -> SocketAddr {
    gate.at("127.0.0.1:0 http")
}

fn certificate(at: SocketAddr, name: &str, root: &str) -> io::Result<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(root.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tls = Tls::connect(&Arc::new(config), Wire::connect(at), name)?;
    let chain = tls.agreed().peer_certificates().unwrap();
    Ok(chain[0].to_vec())
}

#[test]
fn a_site_gets_a_certificate_by_http_01() {
    let scene = Scene::new();
    let gate = scene.start(&scene.sites(&["a.example.com", "b.example.com"]));
    let der = scene.served(&gate, "a.example.com");
    scene.served(&gate, "b.example.com");
    let issued = scene.server.issued();
    assert!(issued.iter().any(|one| one.der == der));
    let validations = scene.server.validations();
    assert!(
        validations
            .iter()
            .all(|one| one.kind == "http-01" && one.error.is_none())
    );
    assert_eq!(scene.server.accounts().len(), 1);
    let obtained = gate.says("certificate obtained");
    assert_eq!(obtained["challenge"], "http-01");
    gate.wait_for_sample(
        "lockgate_managed_cert_valid",
        &["name=\"a.example.com\""],
        1.0,
    );
}

#[test]
fn the_redirect_stays_where_http_01_is_answered() {
    let scene = Scene::new();
    let gate = scene.start(&scene.sites(&["a.example.com"]));
    scene.served(&gate, "a.example.com");
    let mut client = Http::connect(http(&gate));
    for path in ["/", "/.well-known/acme-challenge/x"] {
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a.example.com\r\n\r\n"
        ));
        assert_eq!(client.answer().status(), 308, "{path}");
    }
}

#[test]
fn tls_alpn_01_proves_a_name_where_port_80_is_closed() {
    let scene = Scene::new();
    scene.server.fail(Resource::Directory, Fault::Hold);
    let gate = lockgate()
        .workers(2)
        .start(&scene.sites(&["a.example.com"]));
    scene.server.set_tls_port(https(&gate).port());
    scene.server.set_http_port(deserted().port());
    scene.let_go();
    scene.served(&gate, "a.example.com");
    let validations = scene.server.validations();
    let kinds: Vec<_> = validations.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, ["http-01", "tls-alpn-01"]);
    gate.line("the validation", |line| {
        line["detail"] == "a challenge of ACME by TLS-ALPN-01" && line["alpn"] == "acme-tls/1"
    });
}

/// Otherwise it would wait for ten minutes: before the first update no authority finds the name.
#[test]
fn a_name_that_ddns_has_set_is_validated_again_at_once() {
    let scene = Scene::new();
    // A private address, which is not set.
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("10.0.0.1"));
    let toml = scene.sites(&["a.example.org"]) + &ddns(&zone, &addresses, "[\"a.example.org\"]");
    scene.server.set_tls_port(deserted().port());
    scene.server.set_http_port(deserted().port());
    let gate = lockgate().workers(2).start(&toml);
    let told = gate.says("no certificate obtained");
    assert_eq!(told["kind"], "validation", "{told}");
    scene.server.set_tls_port(https(&gate).port());
    scene.server.set_http_port(http(&gate).port());
    addresses.tell("8.8.4.4");
    scene.served(&gate, "a.example.org");
}

#[test]
fn tls_alpn_01_proves_a_name_for_both_keys_at_once() {
    let scene = Scene::new();
    scene.server.set_authorization_reuse(false);
    scene
        .server
        .set_challenges(&[lockgate_testkit::acme::ChallengeKind::TlsAlpn01]);
    let toml = scene.top("key = [\"p256\", \"rsa2048\"]\n") + &sites(&["a.example.com"]);
    let gate = scene.start(&toml);
    scene.server.wait_for_issued(2);
    scene.served(&gate, "a.example.com");
    let validations = scene.server.validations();
    assert_eq!(validations.len(), 2, "{validations:?}");
}

#[test]
fn a_handshake_before_the_certificate_gets_unrecognized_name() {
    let scene = Scene::new();
    scene.server.fail(Resource::Directory, Fault::Hold);
    let gate = lockgate().start(&scene.sites(&["a.example.com"]));
    let error = scene.certificate(&gate, "a.example.com").unwrap_err();
    assert_eq!(Tls::alert(&error), Some(AlertDescription::UnrecognisedName));
    let line = gate.line("the handshake", |line| line["cause"] == "handshake_failed");
    assert_eq!(
        line["detail"],
        "the certificate for the name \"a.example.com\" is not obtained yet"
    );
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"no_certificate_yet\""],
        1.0,
    );
    gate.wait_for_sample(
        "lockgate_managed_cert_valid",
        &["name=\"a.example.com\""],
        0.0,
    );
}

#[test]
fn the_fallback_internal_is_served_until_the_order_is_done() {
    let scene = Scene::new();
    scene.server.fail(Resource::Directory, Fault::Hold);
    let toml = scene.top("fallback = \"internal\"\n") + &sites(&["a.example.com"]);
    let gate = lockgate().start(&toml);
    let root = std::fs::read_to_string(scene.folder("ca/root.pem")).unwrap();
    certificate(https(&gate), "a.example.com", &root).unwrap();
    scene.server.set_tls_port(https(&gate).port());
    scene.server.set_http_port(http(&gate).port());
    scene.let_go();
    scene.served(&gate, "a.example.com");
}

#[test]
fn profile_email_and_both_keys_reach_the_authority() {
    let scene = Scene::new();
    let acme =
        "email = \"me@example.com\"\nprofile = \"shortlived\"\nkey = [\"p256\", \"rsa2048\"]\n";
    let toml = scene.top(acme) + &sites(&["a.example.com"]);
    let gate = scene.start(&toml);
    let issued = scene.server.wait_for_issued(2);
    assert!(
        issued
            .iter()
            .all(|one| one.profile.as_deref() == Some("shortlived"))
    );
    assert_eq!(
        scene.server.accounts()[0].contact,
        ["mailto:me@example.com"]
    );
    scene.served(&gate, "a.example.com");
    is("both files are there", || {
        scene.file("a.example.com.pem").exists() && scene.file("a.example.com.rsa2048.pem").exists()
    });
}

#[test]
fn an_external_account_is_bound_once() {
    let scene = Scene::new();
    let acme = scene.requires_eab();
    let toml = scene.top(acme) + &sites(&["a.example.com"]);
    let gate = scene.start(&toml);
    scene.served(&gate, "a.example.com");
    assert_eq!(
        scene.server.accounts()[0].external.as_deref(),
        Some("kid-1")
    );
    drop(gate);
    let gate = scene.start(&(scene.top(acme) + &sites(&["a.example.com", "b.example.com"])));
    scene.served(&gate, "b.example.com");
    assert_eq!(scene.server.accounts().len(), 1);
}

#[test]
fn a_reload_obtains_for_new_sites_and_keeps_those_that_stay() {
    let scene = Scene::new();
    let gate = scene.start(&scene.sites(&["a.example.com"]));
    let before = scene.served(&gate, "a.example.com");
    gate.rewrite(&scene.sites(&["a.example.com", "b.example.com"]));
    gate.signal(lockgate_testkit::Signal::HUP);
    scene.served(&gate, "b.example.com");
    assert_eq!(scene.certificate(&gate, "a.example.com").unwrap(), before);
    assert_eq!(scene.server.issued().len(), 2);
}

#[test]
fn a_reload_that_removes_a_site_stops_its_order() {
    let scene = Scene::new();
    scene.server.fail(Resource::Directory, Fault::Hold);
    let gate = scene.start_without_clearing(&scene.sites(&["a.example.com", "b.example.com"]));
    scene.server.clear_faults();
    let held = (Resource::Finalize, "b.example.com");
    scene.server.fail_name(held.0, held.1, Fault::Hold);
    scene.server.release();
    scene.served(&gate, "a.example.com");
    scene.server.wait_for("an order to hold", |log| {
        log.iter().filter(|one| one.resource == held.0).count() == 2
    });
    for more in ["c.example.com", "d.example.com"] {
        gate.rewrite(&scene.sites(&["a.example.com", more]));
        gate.signal(lockgate_testkit::Signal::HUP);
        scene.served(&gate, more);
        // The order that is held would now go on.
        scene.let_go();
    }
    assert!(!scene.file("b.example.com.pem").exists());
    assert_eq!(scene.server.count(Resource::Certificate), 3);
}

#[test]
fn forty_names_at_once_share_one_account() {
    let scene = Scene::new();
    let names: Vec<_> = (0..40).map(|n| format!("site{n}.example.com")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    scene.server.refuse_nonces(50, 7);
    let gate = scene.start(&scene.sites(&names));
    for name in names {
        scene.served(&gate, name);
    }
    assert_eq!(scene.server.accounts().len(), 1);
    assert_eq!(scene.server.orders().len(), 40);
}
