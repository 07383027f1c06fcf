//! `lockgate ca trust`, in a mount namespace whose trust store is a folder of the test, with programs
//! of the test that note what they were asked for.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lockgate_testkit::{Launch, RunResult};

use super::{Machine, is_root};
use crate::scene::{lockgate, text};

/// Where Debian has the certificates of a machine's owner.
const STORE: &str = "/usr/local/share/ca-certificates";

impl Machine {
    /// Writes a program of the test.
    fn program(&self, name: &str, script: &str) {
        fs::create_dir_all(self.folder.path("bin")).unwrap();
        let file = self.folder.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// The program where the folder `store` is the trust store, and the programs of the test come
    /// first.
    fn in_namespace(&self) -> Launch {
        let store = text(&self.folder.path("store"));
        fs::create_dir_all(&store).unwrap();
        // A folder of Fedora's would be found first.
        let script = format!(
            "mount --bind {store} {STORE} && \
             {{ [ ! -d /etc/pki/ca-trust ] || mount -t tmpfs tmpfs /etc/pki/ca-trust; }} && exec \"$@\""
        );
        let path = format!("{}:/usr/bin:/bin", text(&self.folder.path("bin")));
        lockgate()
            .variable("PATH", &path)
            .variable("HOME", &text(&self.folder.path("home")))
            .variable("SUDO_USER", "")
            .through(&["unshare", "--mount", "sh", "-c", &script, "sh"])
    }

    fn trust(&self, more: &[&str]) -> RunResult {
        self.run_through(&self.in_namespace(), &[&["trust"], more].concat())
    }

    /// The files in the trust store.
    fn stored(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path("store")).unwrap();
        let files = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        files.collect()
    }

    fn noted(&self) -> String {
        fs::read_to_string(self.folder.path("noted")).unwrap_or_default()
    }
}

/// Whether such a namespace can be made here.
pub(super) fn can_mount() -> bool {
    let bind = format!("mount --bind / /mnt && [ -d {STORE} ]");
    let tried = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", &bind])
        .output();
    let can = is_root() && tried.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: no trust store of Debian, or no right to mount one for the test");
    }
    can
}

#[test]
fn ca_trust_adds_the_root_to_the_system_and_takes_it_out_again() {
    if !can_mount() {
        return;
    }
    let machine = Machine::new();
    let noted = text(&machine.folder.path("noted"));
    machine.program(
        "update-ca-certificates",
        &format!("echo update \"$@\" >> {noted}\n"),
    );
    let nothing = machine.trust(&["--uninstall"]);
    assert_eq!(nothing.code, Some(1));
    assert!(
        nothing.stderr.contains("there is no authority"),
        "{}",
        nothing.stderr
    );
    let ended = machine.trust(&[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let root = machine.root();
    assert_eq!(machine.stored(), [&*root]);
    assert_eq!(machine.noted(), "update\n");
    for said in [
        &*format!("wrote {STORE}/lockgate-"),
        "update-ca-certificates",
        "SHA-256",
    ] {
        assert!(ended.stdout.contains(said), "{}", ended.stdout);
    }
    let file = fs::read_dir(machine.folder.path("store")).unwrap().next();
    let file = file.unwrap().unwrap().path();
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert!(text(&file).ends_with(".crt"), "Debian takes no other file");
    // Once more changes nothing.
    assert_eq!(machine.trust(&[]).code, Some(0));
    assert_eq!(machine.stored(), [root]);
    // What others have put there stays.
    fs::write(machine.folder.path("store/other.crt"), "other").unwrap();
    let ended = machine.trust(&["--uninstall"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(machine.stored(), ["other"]);
    assert!(
        machine.noted().ends_with("update --fresh\n"),
        "{}",
        machine.noted()
    );
    let ended = machine.trust(&["--uninstall"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("is not there"), "{}", ended.stdout);
}

#[test]
fn ca_trust_says_what_the_program_of_the_system_said() {
    if !can_mount() {
        return;
    }
    let machine = Machine::new();
    machine.program(
        "update-ca-certificates",
        "echo the disk is full >&2\nexit 3\n",
    );
    let ended = machine.trust(&[]);
    assert_eq!(ended.code, Some(1));
    for said in ["update-ca-certificates failed", "the disk is full", "3"] {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

#[test]
fn ca_trust_adds_the_root_to_databases_of_browsers_once() {
    if !can_mount() {
        return;
    }
    let machine = Machine::new();
    machine.program("update-ca-certificates", "");
    for database in [".pki/nssdb", ".mozilla/firefox/abc.default"] {
        let folder = machine.folder.path("home").join(database);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cert9.db"), "").unwrap();
    }
    fs::create_dir_all(machine.folder.path("home/.mozilla/firefox/no-database")).unwrap();
    let noted = text(&machine.folder.path("noted"));
    // The file `has` stands for a database that has the certificate.
    let has = text(&machine.folder.path("has"));
    let certutil = format!(
        "echo \"$1 $3\" >> {noted}\ncase $1 in\n-L) [ -e {has} ] ;;\n-A) cat >> {noted} ;;\nesac\n"
    );
    machine.program("certutil", &certutil);
    let ended = machine.trust(&[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let root = machine.root();
    let home = text(&machine.folder.path("home"));
    let (chromium, firefox) = (
        format!("sql:{home}/.pki/nssdb"),
        format!("sql:{home}/.mozilla/firefox/abc.default"),
    );
    let expected =
        format!("-L {firefox}\n-A {firefox}\n{root}-L {chromium}\n-A {chromium}\n{root}");
    assert_eq!(machine.noted(), expected);
    assert_eq!(
        ended.stdout.matches("added to").count(),
        2,
        "{}",
        ended.stdout
    );
    fs::write(&has, "").unwrap();
    fs::remove_file(&noted).unwrap();
    machine.trust(&[]);
    assert_eq!(machine.noted(), format!("-L {firefox}\n-L {chromium}\n"));
    fs::remove_file(&noted).unwrap();
    machine.trust(&["--uninstall"]);
    assert!(
        machine.noted().contains(&format!("-D {firefox}\n")),
        "{}",
        machine.noted()
    );
    // A database that refuses is named, and the others are not kept from it.
    fs::remove_file(&has).unwrap();
    machine.program(
        "certutil",
        "[ \"$1\" != -A ] || { echo no password >&2; exit 255; }\nexit 1\n",
    );
    let ended = machine.trust(&[]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.stderr.matches("certutil failed: no password").count(),
        2,
        "{}",
        ended.stderr
    );
    assert_eq!(machine.stored(), [root]);
}
