//! `lockgate cert`: the certificates that Lockgate obtains, from an authority on this machine, and
//! those that other programs have stored.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lockgate_testkit::acme::{AcmeServer, ChallengeKind, Fault, Resource};
use lockgate_testkit::{Authority, Folder, Lockgate, RunResult, eventually};
use serde_json::Value;

use crate::admin::ask;
use crate::scene::{lockgate, text};

const A: &str = "a.example.com";
const B: &str = "b.example.com";

/// The configuration of sites with certificates from an authority.
struct CertScene {
    folder: Folder,
    authority: AcmeServer,
    socket: PathBuf,
    toml: String,
}

/// The same with a Lockgate that runs.
struct RunningScene {
    scene: CertScene,
    gate: Lockgate,
}

impl CertScene {
    fn new(names: &[&str]) -> Self {
        let (folder, authority) = (Folder::new(), AcmeServer::start());
        let socket = folder.path("admin.sock");
        let mut toml = format!(
            "state = \"{}\"\nports = {{ http = 0, https = 0 }}\nadmin = \"unix:{}\"\n\
             [acme]\ndirectory = \"{}\"\nca = \"{}\"\n",
            text(&folder.path("state")),
            text(&socket),
            authority.directory(),
            text(authority.ca_file()),
        );
        for name in names {
            toml += &format!("[site.\"{name}\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"ok\"\n");
        }
        fs::create_dir(folder.path("state")).unwrap();
        Self {
            folder,
            authority,
            socket,
            toml,
        }
    }

    /// Starts it. The authority issues nothing before it knows the port.
    fn start(self) -> RunningScene {
        self.authority.set_challenges(&[ChallengeKind::TlsAlpn01]);
        self.authority.fail(Resource::NewOrder, Fault::Hold);
        let gate = lockgate().start(&self.toml);
        let (_, status) = ask(&self.socket, "GET", "/v1/status", "");
        let listeners = status["listeners"].as_array().unwrap();
        let https = listeners.iter().find(|one| one["kind"] == "https").unwrap();
        let address = https["address"].as_str().unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        self.authority.set_tls_port(port.parse().unwrap());
        self.authority.clear_faults();
        self.authority.release();
        RunningScene { scene: self, gate }
    }

    /// The configuration as a file, for commands without a Lockgate.
    fn file(&self) -> String {
        text(&self.folder.write("lockgate.toml", &self.toml))
    }

    fn cert_file(&self, name: &str) -> PathBuf {
        self.folder.path("state/certs").join(format!("{name}.pem"))
    }
}

impl RunningScene {
    /// With a certificate for each name.
    fn with_certs(names: &[&str]) -> Self {
        let running = CertScene::new(names).start();
        for name in names {
            running.wait_for_state(name, "valid");
        }
        running
    }

    fn command(&self, words: &[&str]) -> RunResult {
        let file = text(&self.gate.configuration());
        let with_file = words.iter().copied().chain(["-c", &file]);
        lockgate().run(&with_file.collect::<Vec<_>>())
    }

    /// The certificate of a name, as `/v1/certs` shows it.
    fn cert(&self, name: &str) -> Value {
        let (_, certs) = ask(&self.scene.socket, "GET", "/v1/certs", "");
        let mut managed = certs["managed"].as_array().unwrap().iter();
        managed.find(|one| one["name"] == name).unwrap().clone()
    }

    fn wait_for_state(&self, name: &str, state: &str) {
        eventually("the state of the certificate", || {
            (self.cert(name)["state"] == state).then_some(())
        });
    }

    fn issued(&self) -> usize {
        self.scene.authority.issued().len()
    }
}

fn has(result: &RunResult, code: i32, texts: &[&str]) {
    let all = format!("{}\n{}", result.stdout, result.stderr);
    assert_eq!(result.code, Some(code), "{all}");
    for text in texts {
        assert!(all.contains(text), "{text}: {all}");
    }
}

#[test]
fn cert_list_and_show_tell_how_each_certificate_stands() {
    let running = RunningScene::with_certs(&[A, B]);
    let list = running.command(&["cert", "list"]);
    has(&list, 0, &["NAME", A, B, "p256", "valid", "127.0.0.1:"]);
    assert_eq!(list.stdout.lines().count(), 3, "{}", list.stdout);
    let directory = running.scene.authority.directory();
    let file = text(&running.scene.cert_file(A));
    let shown = running.command(&["cert", "show", A]);
    has(
        &shown,
        0,
        &[&directory, &file, "tls-alpn-01", "days left: ", "issuer"],
    );
    assert!(!shown.stdout.contains(B), "{}", shown.stdout);
    let json = running.command(&["cert", "show", "A.EXAMPLE.com", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["managed"][0]["names"][0], A);
    let unknown = running.command(&["cert", "show", "c.example.com"]);
    has(&unknown, 1, &["lockgate cert list"]);
    has(
        &running.command(&["certs"]),
        0,
        &["ISSUER", "obtained by Lockgate:", "STATE"],
    );
}

#[test]
fn cert_list_reads_the_folder_where_no_lockgate_runs() {
    let scene = CertScene::new(&[A]);
    let file = scene.file();
    let none = lockgate().run(&["cert", "list", "-c", &file]);
    has(&none, 0, &["no certificate is obtained", "state/certs has"]);
    let issued = Authority::new("Test").issue(&[A]);
    fs::create_dir(scene.folder.path("state/certs")).unwrap();
    fs::write(scene.cert_file(A), issued.both()).unwrap();
    let list = lockgate().run(&["cert", "list", "-c", &file]);
    has(&list, 0, &["this is what", A, "valid"]);
    let json = lockgate().run(&["cert", "show", A, "--json", "-c", &file]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["managed"][0]["file"], text(&scene.cert_file(A)));
    let socket = text(&scene.socket);
    let named = lockgate().run(&["cert", "list", "--admin", &socket]);
    has(&named, 1, &["no admin socket"]);
    for words in [&["renew", A][..], &["revoke", A], &["obtain", A]] {
        let words = [&["cert"], words, &["-c", &file]].concat();
        has(&lockgate().run(&words), 1, &["Lockgate does not run"]);
    }
    let words = ["cert", "obtain", A, "--dry-run", "-c", &file];
    has(&lockgate().run(&words), 1, &["needs a running Lockgate"]);
}

#[test]
fn cert_renew_waits_for_another_certificate_or_for_the_failure() {
    let running = RunningScene::with_certs(&[A]);
    let before = fs::read(running.scene.cert_file(A)).unwrap();
    let renewed = running.command(&["cert", "renew", A, "--wait"]);
    has(&renewed, 0, &[A, "obtained, valid until"]);
    assert_eq!(running.issued(), 2);
    assert_ne!(fs::read(running.scene.cert_file(A)).unwrap(), before);
    let obtained = running.command(&["cert", "obtain", A, "--wait", "--json"]);
    let json: Value = serde_json::from_str(&obtained.stdout).unwrap();
    assert_eq!(json["renewals"][0]["error"], Value::Null);
    assert_eq!(running.issued(), 3);
    let refusal = Fault::problem(403, "caa");
    running.scene.authority.fail(Resource::NewOrder, refusal);
    let failed = running.command(&["cert", "renew", A, "--wait"]);
    has(&failed, 1, &[A, "caa: the test wants it so"]);
    // The time after a failure does not hold up the operator.
    running.scene.authority.clear_faults();
    has(&running.command(&["cert", "renew", A, "--wait"]), 0, &[A]);
    let unknown = running.command(&["cert", "renew", "c.example.com", "--wait"]);
    has(&unknown, 1, &["obtains no certificate", "`[acme]`"]);
}

#[test]
fn cert_revoke_is_answered_by_the_authority_and_another_certificate_comes() {
    let running = RunningScene::with_certs(&[A]);
    let authority = &running.scene.authority;
    let key = |pem: Vec<u8>| {
        String::from_utf8(pem)
            .unwrap()
            .split_once("PRIVATE")
            .unwrap()
            .1
            .to_owned()
    };
    let before = key(fs::read(running.scene.cert_file(A)).unwrap());
    authority.fail(Resource::RevokeCert, Fault::problem(403, "unauthorized"));
    let refused = running.command(&["cert", "revoke", A]);
    has(&refused, 1, &["has not revoked", "the test wants it so"]);
    let (status, error) = ask(
        &running.scene.socket,
        "POST",
        "/v1/certs/revoke",
        r#"{ "name": "a.example.com" }"#,
    );
    assert_eq!(
        (status, error["error"]["code"].as_str()),
        (502, Some("revocation_refused"))
    );
    assert_eq!(running.issued(), 1);
    authority.clear_faults();
    let revoked = running.command(&["cert", "revoke", A, "--reason", "superseded"]);
    has(
        &revoked,
        0,
        &["revoked at", "served until there is another"],
    );
    let issued = authority.wait_for_issued(2);
    assert_eq!((issued[0].revoked, issued[1].revoked), (Some(4), None));
    running.wait_for_state(A, "valid");
    assert_ne!(key(fs::read(running.scene.cert_file(A)).unwrap()), before);
    assert_eq!(running.cert(A)["revoked"], Value::Null);
    let (status, error) = ask(
        &running.scene.socket,
        "POST",
        "/v1/certs/revoke",
        r#"{ "name": "c.example.com" }"#,
    );
    assert_eq!(
        (status, &error["error"]["code"]),
        (404, &"unknown_name".into())
    );
    let (status, error) = ask(
        &running.scene.socket,
        "POST",
        "/v1/certs/revoke",
        r#"{ "name": "a.example.com", "reason": "boredom" }"#,
    );
    assert_eq!(status, 422, "{error}");
}

#[test]
fn a_certificate_with_a_compromised_key_is_served_no_more() {
    let running = RunningScene::with_certs(&[A]);
    let authority = &running.scene.authority;
    authority.fail(Resource::NewOrder, Fault::problem(500, "serverInternal"));
    let revoked = running.command(&["cert", "revoke", A, "--reason", "keyCompromise"]);
    has(&revoked, 0, &["it is served no more"]);
    assert!(!running.scene.cert_file(A).exists());
    running.wait_for_state(A, "awaited");
    eventually("the listener has it no more", || {
        let (_, certs) = ask(&running.scene.socket, "GET", "/v1/certs", "");
        certs["certs"].as_array().unwrap().is_empty().then_some(())
    });
    let again = running.command(&["cert", "revoke", A]);
    has(&again, 1, &["there is no certificate for"]);
    let ready = running.gate.get("/ready");
    let expected = format!("ready\ncertificates awaited: {A}\n");
    assert_eq!(ready, (200, expected));
    has(
        &running.command(&["status"]),
        0,
        &["certificates awaited: 1, late: 0"],
    );
    authority.clear_faults();
    has(&running.command(&["cert", "renew", A, "--wait"]), 0, &[A]);
    assert_eq!(running.gate.get("/ready"), (200, "ready\n".to_owned()));
}

#[test]
fn a_dry_run_of_an_order_changes_nothing_and_tells_what_fails() {
    let running = RunningScene::with_certs(&[A, B]);
    let files = || [A, B].map(|name| fs::read(running.scene.cert_file(name)).unwrap());
    let before = files();
    let words = ["cert", "obtain", A, B, "--dry-run"];
    let tried = running.command(&words);
    has(
        &tried,
        0,
        &[
            A,
            B,
            "obtained",
            "tls-alpn-01",
            "is the configured directory",
        ],
    );
    assert_eq!(running.issued(), 4);
    assert_eq!(running.scene.authority.accounts().len(), 1);
    let authority = &running.scene.authority;
    authority.fail_name(Resource::Challenge, B, Fault::invalid("connection"));
    let failed = running.command(&words);
    let cause = "b.example.com by tls-alpn-01: validation: the test wants it so";
    has(
        &failed,
        1,
        &[A, "obtained", "failed", cause, "port 443 must be open"],
    );
    assert!(files() == before, "other certificates are served");
    assert!(!running.scene.folder.path("state/certs/trial").exists());
    assert_eq!(running.cert(B)["failures"], 0);
    let unknown = running.command(&["cert", "obtain", "c.example.com", "--dry-run"]);
    has(&unknown, 1, &["obtains no certificate"]);
    for names in ["[]", "[1]", "\"a\"", "null"] {
        let body = format!("{{ \"names\": {names} }}");
        let (status, _) = ask(&running.scene.socket, "POST", "/v1/certs/try", &body);
        assert_eq!(status, 422, "{names}");
    }
}

/// A folder of certbot with one certificate.
fn certbot(folder: &Path, names: &[&str], directory: &str) {
    let issued = Authority::new("Test").issue(names);
    let (live, archive) = (folder.join("live/one"), folder.join("archive/one"));
    for made in [&live, &archive, &folder.join("renewal")] {
        fs::create_dir_all(made).unwrap();
    }
    fs::write(archive.join("fullchain1.pem"), issued.pem()).unwrap();
    fs::write(archive.join("privkey1.pem"), issued.key_pem()).unwrap();
    for file in ["fullchain", "privkey"] {
        let target = format!("../../archive/one/{file}1.pem");
        symlink(target, live.join(format!("{file}.pem"))).unwrap();
    }
    let settings = format!("[renewalparams]\nserver = {directory}\n");
    fs::write(folder.join("renewal/one.conf"), settings).unwrap();
}

#[test]
fn an_imported_certificate_is_served_and_not_ordered() {
    let scene = CertScene::new(&[A]);
    let file = scene.file();
    let stored = scene.folder.path("letsencrypt");
    let wrong = lockgate().run(&["cert", "import", &text(scene.folder.dir()), "-c", &file]);
    has(&wrong, 1, &["--from"]);
    certbot(
        &stored,
        &[A, "www.example.com"],
        &scene.authority.directory(),
    );
    let words = ["cert", "import", &text(&stored), "-c", &file];
    let imported = lockgate().run(&words);
    has(
        &imported,
        0,
        &["WHAT", A, "imported", "valid until", "live/one"],
    );
    assert!(!imported.stdout.contains("www"), "{}", imported.stdout);
    has(&lockgate().run(&words), 0, &["there already"]);
    let running = scene.start();
    running.wait_for_state(A, "valid");
    let (_, certs) = ask(&running.scene.socket, "GET", "/v1/certs", "");
    assert_eq!(certs["certs"][0]["names"][0], A);
    assert_eq!(running.scene.authority.count(Resource::NewOrder), 0);
    assert_eq!(
        running.cert(A)["directory"],
        running.scene.authority.directory()
    );
    // The process that obtains certificates has the folder for itself.
    let held = lockgate().run(&words);
    has(&held, 1, &["stop it, import, and start it again"]);
}

#[test]
fn an_import_into_a_folder_takes_every_name_and_reports_what_is_left_out() {
    let folder = Folder::new();
    let (stored, state) = (folder.path("letsencrypt"), folder.path("state"));
    fs::create_dir(&state).unwrap();
    certbot(&stored, &[A, B], "https://ca.example/dir");
    fs::create_dir_all(stored.join("live/broken")).unwrap();
    let words = [
        "cert",
        "import",
        "--from",
        "certbot",
        &text(&stored),
        "--state",
        &text(&state),
    ];
    let imported = lockgate().run(&words);
    has(
        &imported,
        0,
        &[A, B, "imported", "left out", "live/broken", "No such file"],
    );
    let json = lockgate().run(&[&words[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["entries"][0]["result"], "there already");
    let empty = folder.path("empty");
    fs::create_dir_all(empty.join("live")).unwrap();
    let words = ["cert", "import", &text(&empty), "--state", &text(&state)];
    has(&lockgate().run(&words), 1, &["there is nothing of certbot"]);
    let words = ["cert", "import", &text(&empty), "--state", "x", "-c", "y"];
    has(&lockgate().run(&words), 2, &["cannot be used with"]);
}
