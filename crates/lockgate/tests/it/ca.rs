//! `lockgate ca`: the files of the internal authority, certificates that it issues, and the machine
//! that trusts it.

mod trust;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

use lockgate_testkit::{Folder, Launch, Origin, RunResult, Tls, Wire};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use serde_json::Value;

use crate::scene::{lockgate, text};
use trust::can_mount;

/// Files of the authority in the order in which they are made.
const FILES: [&str; 3] = ["root.key", "root.pem", "intermediate.pem"];

/// A folder with `state` in it, and the command on it.
struct Machine {
    folder: Folder,
    program: Launch,
}

impl Machine {
    fn new() -> Self {
        let folder = Folder::new();
        Self {
            folder,
            program: lockgate(),
        }
    }

    fn state(&self) -> String {
        text(&self.folder.path("state"))
    }

    /// A file of the authority.
    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path("state/ca").join(name)
    }

    fn run(&self, arguments: &[&str]) -> RunResult {
        self.run_through(&self.program, arguments)
    }

    fn run_through(&self, program: &Launch, arguments: &[&str]) -> RunResult {
        let state = self.state();
        program.run(&[&["ca"], arguments, &["--state", &state]].concat())
    }

    /// The standard output of a command that must succeed.
    fn does(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        ended.stdout
    }

    /// The standard error of a command that must fail.
    fn refuses(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(1), "{arguments:?}: {}", ended.stdout);
        ended.stderr
    }

    /// The root certificate in PEM.
    fn root(&self) -> String {
        fs::read_to_string(self.file("root.pem")).unwrap()
    }

    /// Issues a certificate into the folder; returns the files of it and of its key.
    fn issue(&self, arguments: &[&str]) -> (String, String) {
        let dir = text(self.folder.dir());
        self.does(&[&["issue"], arguments, &["--out", &dir]].concat());
        let file =
            |extension: &str| text(&self.folder.path(&format!("{}.{extension}", arguments[0])));
        (file("crt"), file("key"))
    }

    /// A client that trusts the root alone, perhaps with a certificate of its own.
    fn client(&self, identity: Option<&(String, String)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let root = self.does(&["export"]);
        roots
            .add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = CertificateDer::pem_file_iter(cert).unwrap();
                let chain = chain.map(Result::unwrap).collect();
                let key = PrivateKeyDer::from_pem_file(key).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

fn connect(client: &Arc<ClientConfig>, to: SocketAddr, name: &str) -> std::io::Result<Tls> {
    Tls::connect(client, Wire::connect(to), name)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program as a user without rights.
fn nobody() -> Launch {
    lockgate().through(&[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
    ])
}

#[test]
fn ca_show_and_export_agree_about_the_root_that_was_made_once() {
    let machine = Machine::new();
    let refused = machine.refuses(&["show"]);
    assert!(refused.contains("there is no authority in"), "{refused}");
    assert!(!machine.folder.path("state").exists(), "show makes nothing");
    let first = machine.run(&["export"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(
        first.stderr.contains("a new authority was made"),
        "{}",
        first.stderr
    );
    let second = machine.run(&["export"]);
    assert_eq!((&second.stdout, &*second.stderr), (&first.stdout, ""));
    let shown: Value = serde_json::from_str(&machine.does(&["show", "--json"])).unwrap();
    assert_eq!(shown["folder"], text(&machine.folder.path("state/ca")));
    assert_eq!(shown["root"]["has_key"], true);
    let file = shown["root"]["file"].as_str().unwrap();
    assert_eq!(
        fs::read_to_string(file).unwrap().trim_end(),
        first.stdout,
        "the output has its last line end cut off"
    );
    let printed = machine.does(&["show"]);
    for fact in ["subject", "sha256", "not_before", "not_after"] {
        for cert in ["root", "intermediate"] {
            let fact = shown[cert][fact].as_str().unwrap();
            assert!(printed.contains(fact), "{fact} in {printed}");
        }
    }
    let der = text(&machine.folder.path("root.cer"));
    let said = machine.does(&["export", "--der", &der]);
    assert!(
        said.contains(shown["root"]["sha256"].as_str().unwrap()),
        "{said}"
    );
    let root = CertificateDer::from_pem_slice(first.stdout.as_bytes()).unwrap();
    assert_eq!(fs::read(&der).unwrap(), root.as_ref());
    assert_eq!(
        fs::metadata(&der).unwrap().permissions().mode() & 0o777,
        0o644
    );
    machine.does(&["export", "--der", &der]);
    let refused = machine.refuses(&["export", &der]);
    assert!(refused.contains("--force replaces it"), "{refused}");
    machine.does(&["export", &der, "--force"]);
    assert_eq!(fs::read_to_string(&der).unwrap(), machine.root());
}

#[test]
fn ca_finds_state_in_the_configuration_and_says_where_it_is_missing() {
    let folder = Folder::new();
    let state = text(&folder.path("lib/lockgate"));
    // A mistake elsewhere does not matter.
    let toml = format!("state = \"{state}\"\n[site.\"a.lan\"]\nproxxy = \"a\"\n");
    let file = text(&folder.write("lockgate.toml", toml));
    let ended = lockgate().run(&["ca", "export", "-c", &file]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(folder.path("lib/lockgate/ca/root.pem").exists());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path("lib/lockgate")), 0o700);
    let by_variable = lockgate().variable("LOCKGATE_CONFIG", &file);
    assert_eq!(by_variable.run(&["ca", "show"]).code, Some(0));
    assert_eq!(lockgate().run(&["-c", &file, "ca", "show"]).code, Some(0));
    let without = text(&folder.write("without.toml", "workers = 1\n"));
    for (arguments, says) in [
        (["-c", &without], "add state = \"/var/lib/lockgate\""),
        (["-c", "/nonexistent/a.toml"], "cannot be read"),
        (["--state", &file], "lockgate.toml"),
    ] {
        let ended = lockgate().run(&[&["ca", "export"], &arguments[..]].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
}

#[test]
fn a_certificate_that_ca_issued_serves_names_and_addresses() {
    let machine = Machine::new();
    let (cert, key) = machine.issue(&["box.lan", "*.example.lan", "127.0.0.1", "::1"]);
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&cert), mode(&key)), (0o644, 0o600));
    let rsa = machine.issue(&["old.lan", "--rsa", "--days", "365"]);
    let origin = Origin::tcp().echo();
    // The key is found beside the certificate.
    let toml = format!(
        "[tls]\ncerts = [\"{cert}\", \"{}\"]\ndefault = \"{cert}\"\n\
         [tcp.\"127.0.0.1:0\"]\ntls = {{}}\nproxy = \"{}\"\n",
        rsa.0,
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let client = machine.client(None);
    for name in ["box.lan", "a.example.lan", "127.0.0.1", "::1", "old.lan"] {
        let mut tls = connect(&client, gate.address(), name).unwrap();
        tls.send("ping");
        tls.expect("ping");
        let shown = tls.agreed().peer_certificates().unwrap();
        assert_eq!(shown.len(), 2, "the leaf and the intermediate");
    }
    for name in ["other.lan", "a.b.example.lan", "127.0.0.2"] {
        let refused = connect(&client, gate.address(), name).unwrap_err();
        assert!(
            refused.to_string().contains("not valid for name"),
            "{refused}"
        );
    }
    let stranger = Machine::new().client(None);
    let refused = connect(&stranger, gate.address(), "box.lan").unwrap_err();
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
}

#[test]
fn client_auth_accepts_clients_that_ca_issued_certificates_to() {
    let machine = Machine::new();
    let (cert, _) = machine.issue(&["box.lan"]);
    let root = machine.folder.write("root.pem", machine.does(&["export"]));
    let origin = Origin::tcp().echo();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = {{ cert = \"{cert}\", client_auth = {{ ca = \"{}\" }} }}\nproxy = \"{}\"\n",
        text(&root),
        origin.address()
    );
    let mut gate = lockgate().start(&toml);
    let alice = machine.issue(&["alice", "--client"]);
    let mut tls = connect(&machine.client(Some(&alice)), gate.address(), "box.lan").unwrap();
    tls.send("ping");
    tls.expect("ping");
    tls.finish();
    tls.rest();
    assert_eq!(gate.next_line()["client_cn"], "alice");
    let others = Machine::new();
    let mallory = others.issue(&["alice", "--client"]);
    let server = machine.issue(&["server.lan"]);
    for identity in [None, Some(&mallory), Some(&server)] {
        let refused = match connect(&machine.client(identity), gate.address(), "box.lan") {
            Err(error) => error,
            // In TLS 1.3 the refusal comes after the client believes itself done.
            Ok(mut tls) => tls.end().1.unwrap_err(),
        };
        let expected = [
            AlertDescription::CertificateRequired,
            AlertDescription::UnknownCA,
            AlertDescription::UnsupportedCertificate,
            AlertDescription::BadCertificate,
            AlertDescription::DecryptError,
        ];
        let alert = Tls::alert(&refused);
        assert!(
            alert.is_some_and(|alert| expected.contains(&alert)),
            "{refused}"
        );
        assert_eq!(gate.next_line()["cause"], "handshake_failed");
    }
    assert_eq!(origin.accepted(), 1, "nobody else reached the endpoint");
}

#[test]
fn ca_issue_replaces_files_only_by_force_and_leaves_no_half() {
    let machine = Machine::new();
    let (cert, key) = machine.issue(&["box.lan"]);
    let both = || (fs::read(&cert).unwrap(), fs::read(&key).unwrap());
    let before = both();
    let dir = text(machine.folder.dir());
    let again = ["issue", "box.lan", "--out", &dir];
    assert!(machine.refuses(&again).contains("--force replaces it"));
    assert_eq!(both(), before);
    // The certificate alone is there: no new key is left beside it.
    fs::remove_file(&key).unwrap();
    machine.refuses(&again);
    assert!(!Path::new(&key).exists());
    machine.does(&[&again[..], &["--force"]].concat());
    let after = both();
    assert!(after.0 != before.0 && after.1 != before.1);
    let missing = text(&machine.folder.path("missing/a.crt"));
    let key = text(&machine.folder.path("a.key"));
    let refused = machine.refuses(&["issue", "a.lan", "--cert", &missing, "--key", &key]);
    assert!(refused.contains("missing/a.crt"), "{refused}");
    assert!(
        !Path::new(&key).exists(),
        "a key without its certificate is left"
    );
    let cert = text(&machine.folder.path("a.crt"));
    let said = machine.does(&["issue", "a.lan", "--cert", &cert, "--key", &key]);
    assert!(
        said.contains(&format!("cert = \"{cert}\", key = \"{key}\"")),
        "{said}"
    );
}

#[test]
fn a_creation_that_the_kernel_ends_at_each_file_goes_on() {
    let mut killed = 0;
    // A file that outgrows its limit ends the process by a signal, in the middle of a write.
    for (limit, whole) in [(100, 0), (400, 1), (800, 2)] {
        let machine = Machine::new();
        fs::create_dir(machine.folder.path("state")).unwrap();
        let limited = lockgate().through(&["prlimit", &format!("--fsize={limit}")]);
        let ended = machine.run_through(&limited, &["export"]);
        assert_eq!(ended.code, None, "{}", ended.stderr);
        killed += 1;
        for (at, name) in FILES.iter().enumerate() {
            assert_eq!(machine.file(name).exists(), at < whole, "{name} at {limit}");
        }
        let before: Vec<_> = FILES[..whole]
            .iter()
            .map(|name| fs::read(machine.file(name)).unwrap())
            .collect();
        let root = machine.does(&["export"]);
        for (name, old) in FILES.iter().zip(before) {
            assert_eq!(
                fs::read(machine.file(name)).unwrap(),
                old,
                "{name} at {limit}"
            );
        }
        let entries = fs::read_dir(machine.folder.path("state/ca")).unwrap();
        let unfinished = entries.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".new")
        });
        assert_eq!(unfinished.count(), 0);
        assert_eq!(machine.does(&["export"]), root);
        machine.issue(&["box.lan"]);
    }
    assert_eq!(killed, 3);
}

#[test]
fn a_full_disk_makes_no_half_and_a_disk_for_reading_issues() {
    if !can_mount() {
        return;
    }
    let machine = Machine::new();
    let state = machine.state();
    fs::create_dir(&state).unwrap();
    // Each file takes a page of 4 KB.
    let script = format!(
        "mount -t tmpfs -o size=4k,mode=700 tmpfs {state} && \"$@\"; echo then $?
         mount -o remount,size=1m {state} && \"$@\"; echo then $?
         mount -o remount,ro {state} && \"$@\"; echo then $?"
    );
    let program = lockgate().through(&["unshare", "--mount", "sh", "-c", &script, "sh"]);
    let ended = machine.run_through(&program, &["export"]);
    let (first, rest) = ended.stdout.split_once("then 1\n").unwrap();
    assert_eq!(first, "", "{}", ended.stderr);
    assert!(
        ended.stderr.contains("No space left on device"),
        "{}",
        ended.stderr
    );
    let (second, third) = rest.split_once("then 0\n").unwrap();
    assert!(
        second.starts_with("-----BEGIN CERTIFICATE-----"),
        "{second}"
    );
    assert_eq!(third, format!("{second}then 0"), "{}", ended.stderr);
}

#[test]
fn a_creation_without_its_later_files_keeps_the_root() {
    let machine = Machine::new();
    let root = machine.does(&["export"]);
    fs::remove_file(machine.file("intermediate.pem")).unwrap();
    let ended = machine.run(&["export"]);
    assert!(
        ended
            .stderr
            .contains("a new intermediate certificate was made"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, root);
    // The root's key may be elsewhere as long as the intermediate certificate lasts.
    fs::rename(machine.file("root.key"), machine.folder.path("safe")).unwrap();
    machine.issue(&["box.lan"]);
    let shown = machine.does(&["show"]);
    assert!(shown.contains("not in the folder"), "{shown}");
    fs::remove_file(machine.file("intermediate.pem")).unwrap();
    let refused = machine.refuses(&["export"]);
    assert!(refused.contains("the root's key is not there"), "{refused}");
    let shown = machine.does(&["show"]);
    assert!(shown.contains("none that can be used"), "{shown}");
    fs::write(machine.file("root.pem"), "garbage").unwrap();
    let refused = machine.refuses(&["export"]);
    assert!(refused.contains("restore it from a backup"), "{refused}");
    assert_eq!(fs::read(machine.file("root.pem")).unwrap(), b"garbage");
}

#[test]
fn programs_that_run_at_once_make_one_root() {
    let machine = Machine::new();
    let state = machine.state();
    let programs = [(); 4].map(|()| lockgate().command(&["ca", "export", "--state", &state]));
    let ended = programs.map(lockgate_testkit::Lockgate::ended);
    let root = machine.does(&["export"]);
    for one in &ended {
        assert_eq!((one.code, &one.stdout), (Some(0), &root), "{}", one.stderr);
    }
    let made = ended
        .iter()
        .filter(|one| one.stderr.contains("a new authority"));
    assert_eq!(made.count(), 1);
}

#[test]
fn what_root_makes_the_user_of_the_service_can_use() {
    if !is_root() {
        return println!("skipped: only root can become another user");
    }
    let machine = Machine::new();
    fs::set_permissions(machine.folder.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    // The folder is there already and belongs to the service.
    fs::create_dir(machine.folder.path("state")).unwrap();
    chown(machine.folder.path("state"), Some(65_534), Some(65_534)).unwrap();
    let root = machine.does(&["export"]);
    let entries = fs::read_dir(machine.folder.path("state/ca")).unwrap();
    for entry in entries.map(Result::unwrap) {
        assert_eq!(entry.metadata().unwrap().uid(), 65_534, "{entry:?}");
    }
    let ended = machine.run_through(&nobody(), &["export"]);
    assert_eq!(
        (ended.code, ended.stdout),
        (Some(0), root),
        "{}",
        ended.stderr
    );
    // Root makes the folder for the key `user`.
    let state = text(&machine.folder.path("other"));
    let toml = format!("state = \"{state}\"\nuser = \"65534:65534\"\n");
    let file = text(&machine.folder.write("lockgate.toml", toml));
    let ended = lockgate().run(&["ca", "export", "-c", &file]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for made in ["other", "other/ca", "other/ca/root.key", "other/ca/lock"] {
        let found = fs::metadata(machine.folder.path(made)).unwrap();
        assert_eq!((found.uid(), found.gid()), (65_534, 65_534), "{made}");
    }
}

#[test]
fn without_rights_ca_says_who_has_them() {
    if !is_root() {
        return println!("skipped: only root can become another user");
    }
    let machine = Machine::new();
    fs::set_permissions(machine.folder.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    machine.does(&["export"]);
    for arguments in [&["show"][..], &["export"], &["issue", "box.lan"]] {
        let ended = machine.run_through(&nobody(), arguments);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(
            ended.stderr.contains("run this as root (sudo)"),
            "{}",
            ended.stderr
        );
    }
    let ended = machine.run_through(&nobody(), &["trust"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("belongs to root"), "{}", ended.stderr);
}

#[test]
fn openssl_verifies_what_ca_issued_by_the_strict_rules() {
    let machine = Machine::new();
    let root = text(&machine.folder.write("root.pem", machine.does(&["export"])));
    let (server, _) = machine.issue(&["box.lan", "127.0.0.1"]);
    let long = format!("{}.example.lan", "a".repeat(63));
    let (nameless, _) = machine.issue(&[&long, "--rsa"]);
    let (client, _) = machine.issue(&["alice", "--client"]);
    for (cert, purpose, is_good) in [
        (&server, "sslserver", true),
        (&nameless, "sslserver", true),
        (&client, "sslclient", true),
        (&server, "sslclient", false),
        (&client, "sslserver", false),
    ] {
        let output = std::process::Command::new("openssl")
            .args([
                "verify",
                "-x509_strict",
                "-purpose",
                purpose,
                "-CAfile",
                &root,
            ])
            .args(["-untrusted", cert, cert])
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return println!("skipped: openssl does not run here: {error}"),
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), is_good, "{cert} {purpose}: {said}");
    }
}
