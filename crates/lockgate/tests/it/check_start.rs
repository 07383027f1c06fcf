//! `check` finds what would stop a start, for the same reasons and with the same codes, and leaves
//! nothing behind.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lockgate_testkit::{Folder, Origin, RunResult};

use crate::scene::{NAME, Site, lockgate, plain, text};

fn check(toml: &str, more: &[&str]) -> RunResult {
    let folder = Folder::new();
    let file = text(&folder.write("lockgate.toml", toml));
    lockgate().run(&[&["check", "-c", &file], more].concat())
}

/// Everything below a folder.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn check_fails_with_the_code_of_the_failed_start() {
    let folder = Folder::new();
    let file = text(&folder.write("file", ""));
    let dir = text(folder.dir());
    let before = tree(folder.dir());
    let relay = plain("127.0.0.1:9");
    for (toml, code, cure) in [
        (
            format!("user = \"no-such-user\"\n{relay}"),
            "E0110",
            "useradd --system no-such-user",
        ),
        (
            format!("access_log = \"{dir}/logs/a.log\"\n{relay}"),
            "E0112",
            &*format!("mkdir -p {dir}/logs"),
        ),
        (
            format!("[site.\"127.0.0.1:0\"]\nrespond = 200\naccess_log = \"{dir}/dir/a.log\"\n"),
            "E0112",
            &*format!("mkdir -p {dir}/dir"),
        ),
        (
            format!("access_log = \"{file}/a.log\"\n{relay}"),
            "E0112",
            "",
        ),
        (format!("state = \"{file}\"\n{relay}"), "E0111", ""),
        (
            format!("state = \"{file}/below/it\"\n{relay}"),
            "E0111",
            "a folder that can be made",
        ),
        (
            "[tcp.\"192.0.2.1:0\"]\nproxy = \"127.0.0.1:9\"\n".to_owned(),
            "E0109",
            "no such address",
        ),
        (
            format!("[tcp.\"unix:{dir}/run/a.sock\"]\nproxy = \"127.0.0.1:9\"\n"),
            "E0109",
            &*format!("mkdir -p {dir}/run"),
        ),
        (
            format!("[tcp.\"unix:{file}\"]\nproxy = \"127.0.0.1:9\"\n"),
            "E0107",
            "no socket",
        ),
        (
            format!("metrics = \"192.0.2.1:0\"\n{relay}"),
            "E0109",
            "no such address",
        ),
    ] {
        for ended in [check(&toml, &[]), lockgate().fail(&toml)] {
            assert_eq!(ended.code, Some(1), "{toml}{}", ended.stderr);
            assert_eq!(
                ended.stderr.matches(&format!("error[{code}]")).count(),
                1,
                "{toml}{}",
                ended.stderr
            );
            assert!(ended.stderr.contains(cure), "{cure:?} in {}", ended.stderr);
            assert!(
                !ended.stderr.contains("`user` must"),
                "no `user` is set: {}",
                ended.stderr
            );
        }
    }
    assert_eq!(tree(folder.dir()), before, "nothing is left behind");
}

#[test]
fn check_creates_no_logs_state_or_sockets() {
    let folder = Folder::new();
    let dir = text(folder.dir());
    let toml = format!(
        "state = \"{dir}/lib/state\"\naccess_log = \"{dir}/a.log\"\n[tcp.\"unix:{dir}/a.sock\"]\nproxy = \"127.0.0.1:9\"\n"
    );
    for more in [&[][..], &["--bind"]] {
        let ended = check(&toml, more);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    assert_eq!(tree(folder.dir()), Vec::<PathBuf>::new());
}

#[test]
fn check_bind_finds_a_port_in_use_without_disturbing_it() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().workers(2).start(&plain(origin.address()));
    let toml = format!(
        "[tcp.\"{}\"]\nproxy = \"{}\"\n",
        gate.address(),
        origin.address()
    );
    assert_eq!(
        check(&toml, &[]).code,
        Some(0),
        "a running Lockgate has the port"
    );
    let ended = check(&toml, &["--bind"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("error[E0107]"), "{}", ended.stderr);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let toml = format!(
        "metrics = \"{}\"\n{}",
        taken.local_addr().unwrap(),
        plain("127.0.0.1:9")
    );
    assert!(check(&toml, &["--bind"]).stderr.contains("error[E0107]"));
    assert_eq!(check(&plain("127.0.0.1:9"), &["--bind"]).code, Some(0));
    crate::scene::echoes(
        &mut lockgate_testkit::Wire::connect(gate.address()),
        "serves on",
    );
}

#[test]
fn check_tests_log_and_state_paths_as_the_configured_user() {
    if !is_root() {
        return println!("skipped: only root can become another user");
    }
    let folder = Folder::new();
    let mode = PermissionsExt::from_mode;
    std::fs::set_permissions(folder.dir(), mode(0o755)).unwrap();
    let log = text(&folder.write("there.log", ""));
    let dir = text(folder.dir());
    for path in [format!("{dir}/new.log"), log] {
        let toml = format!(
            "user = \"nobody\"\naccess_log = \"{path}\"\n{}",
            plain("127.0.0.1:9")
        );
        for ended in [check(&toml, &[]), lockgate().fail(&toml)] {
            assert_eq!(ended.code, Some(1), "{}", ended.stderr);
            assert!(ended.stderr.contains("error[E0112]"), "{}", ended.stderr);
            assert!(
                ended.stderr.contains(&format!("chown nobody {dir}")),
                "{}",
                ended.stderr
            );
        }
    }
    // A start with it keeps no last good configuration, and warns of that.
    let toml = format!(
        "user = \"nobody\"\nstate = \"{dir}\"\n{}",
        plain("127.0.0.1:9")
    );
    let ended = check(&toml, &["--strict"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("warning[W0103]"), "{}", ended.stderr);
    // Keys are read before root is dropped; that they cannot be read again is a warning.
    let site = Site::new();
    let ended = check(
        &("user = \"nobody\"\n".to_owned() + &site.tls("127.0.0.1:9", "")),
        &[],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("warning[W0105]"), "{}", ended.stderr);
    // And so is a folder of files that the user cannot open.
    std::fs::create_dir(folder.path("www")).unwrap();
    std::fs::set_permissions(folder.path("www"), mode(0o700)).unwrap();
    let toml = format!("user = \"nobody\"\n[site.\":8080\"]\nroot = \"{dir}/www\"\n");
    let ended = check(&toml, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("`user` cannot read this folder"),
        "{}",
        ended.stderr
    );
}

#[test]
fn check_without_root_names_the_files_it_could_not_read() {
    let site = Site::new();
    let folder = Folder::new();
    let mode = PermissionsExt::from_mode;
    // As a user that may read the configuration and the certificate, but not the key.
    let cert = folder.write("app.crt", site.issued.pem());
    let key = folder.write("app.key", site.issued.key_pem());
    let toml = format!(
        "user = \"daemon\"\naccess_log = \"/root.log\"\n[tcp.\"127.0.0.1:0\"]\n\
         tls = {{ cert = \"{}\", key = \"{}\" }}\nproxy = \"127.0.0.1:9\"\n",
        cert.display(),
        key.display()
    );
    let file = folder.write("lockgate.toml", toml);
    for readable in [&cert, &file] {
        std::fs::set_permissions(readable, mode(0o644)).unwrap();
    }
    std::fs::set_permissions(folder.dir(), mode(0o755)).unwrap();
    let unprivileged = lockgate().through(&[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
    ]);
    if !is_root() {
        return println!("skipped: only root can become another user");
    }
    let ended = unprivileged.run(&["check", &text(&file)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        ended.stderr.matches("warning[W0109]").count(),
        2,
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("app.key") && ended.stderr.contains("run `check` as root"),
        "{}",
        ended.stderr
    );
    // A start by that user would fail, with a reason.
    let ended = unprivileged.run(&["run", &text(&file)]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("only root can"), "{}", ended.stderr);
}

#[test]
fn check_reports_mistakes_of_keys_and_files_together() {
    let folder = Folder::new();
    let dir = text(folder.dir());
    let toml = format!(
        "workerz = 2\naccess_log = \"{dir}/logs/a.log\"\nuser = \"no-such-user\"\n\
         [tcp.\"127.0.0.1:0\"]\nproxy = \"127.0.0.1:9\"\n\
         tls = {{ cert = \"{dir}/app.pem\", key = \"{dir}/app.ky\", ocsp = \"{dir}/app.ocsp\" }}\n\
         [tcp.\"127.0.0.2:0\"]\nproxy = \"127.0.0.1\"\n\
         [site.\"127.0.0.3:0\"]\nrespond = 200\nauth = {{ basic = \"{dir}/users\" }}\nerror_pages = {{ 404 = \"{dir}/404.html\" }}\n"
    );
    for ended in [check(&toml, &[]), lockgate().fail(&toml)] {
        assert_eq!(ended.code, Some(1));
        for code in [
            "E0010", "E0016", "E0110", "E0112", "E0101", "E0102", "E0106", "E0115", "E0116",
        ] {
            assert_eq!(
                ended.stderr.matches(&format!("error[{code}]")).count(),
                1,
                "{code}: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn the_caret_points_at_the_key_naming_the_file() {
    let folder = Folder::new();
    let dir = text(folder.dir());
    let tls = format!(
        "tls = {{ cert = \"{dir}/c.pem\", key = \"{dir}/k.pem\", ocsp = \"{dir}/o.der\" }}"
    );
    let toml = format!("[tcp.\"127.0.0.1:0\"]\n{tls}\nproxy = \"127.0.0.1:9\"\n");
    let ended = check(&toml, &["--json"]);
    let said: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let column = |code: &str| {
        let all = said["report"]["diagnostics"].as_array().unwrap();
        let found: Vec<_> = all.iter().filter(|one| one["code"] == code).collect();
        assert_eq!(found.len(), 1, "{code}: {said}");
        usize::try_from(found[0]["column"].as_u64().unwrap()).unwrap() - 1
    };
    for (code, file) in [("E0101", "c.pem"), ("E0102", "k.pem"), ("E0106", "o.der")] {
        assert_eq!(
            column(code),
            tls.find(&format!("\"{dir}/{file}")).unwrap(),
            "{code}"
        );
    }
    // The same in a list.
    let site = Site::new();
    let toml = format!(
        "[tls]\ncerts = [{{ cert = \"{}\", key = \"{dir}/k.pem\" }}]\n[site.\"{NAME}\"]\nrespond = 200\n",
        site.cert
    );
    let ended = check(&toml, &[]);
    assert!(
        ended.stderr.contains("lockgate.toml:2:"),
        "{}",
        ended.stderr
    );
    let caret = ended
        .stderr
        .lines()
        .find(|line| line.contains('^'))
        .unwrap()
        .find('^')
        .unwrap();
    let line = ended
        .stderr
        .lines()
        .find(|line| line.contains("certs ="))
        .unwrap();
    assert_eq!(
        caret,
        line.find(&format!("\"{dir}")).unwrap(),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_unknown_tls_key_is_reported_alone() {
    let folder = Folder::new();
    let site = Site::new();
    let cert = folder.write("app.crt", site.issued.pem());
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = {{ cert = \"{}\", keyy = \"/etc/tls/app.key\" }}\nproxy = \"127.0.0.1:9\"\n",
        cert.display()
    );
    let ended = check(&toml, &[]);
    assert_eq!(
        ended.stderr.matches("error[").count(),
        1,
        "{}",
        ended.stderr
    );
}

#[test]
fn check_warns_of_names_without_an_address() {
    let toml = plain("no-such-host.invalid:80");
    let ended = check(&toml, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("warning[W0110]: no-such-host.invalid has no address now"),
        "{}",
        ended.stderr
    );
    assert_eq!(check(&toml, &["--strict"]).code, Some(2));
    assert_eq!(check(&plain("localhost:9"), &["--strict"]).code, Some(0));
}

#[test]
fn a_certificate_glob_skips_ca_files() {
    let site = Site::new();
    site.folder.write("internal-ca.pem", site.authority.pem());
    let toml = format!(
        "[tls]\ncerts = [\"{}/*.pem\"]\n[tcp.\"127.0.0.1:0\"]\ntls = {{}}\nproxy = \"{}\"\n",
        site.folder.dir().display(),
        Origin::tcp().echo().address(),
    );
    let ended = check(&toml, &["-v"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("warning[W0104]"), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("internal-ca.pem: certificates of authorities"),
        "{}",
        ended.stderr
    );
    assert!(
        !ended.stdout.contains("internal-ca.pem"),
        "{}",
        ended.stdout
    );
    let gate = lockgate().start(&toml);
    site.connect(&gate);
    // A certificate named by its path is meant to be served.
    let ended = check(&toml.replace("*.pem", "internal-ca.pem"), &[]);
    assert!(ended.stderr.contains("error[E0102]"), "{}", ended.stderr);
}

#[test]
fn check_verbose_shows_cipher_suites_once_and_units_as_written() {
    let site = Site::new();
    let toml = format!(
        "[tls]\ncerts = [\"{}\"]\n[pool.app]\nendpoints = [{{ addr = \"10.0.0.1:80\", weight = 2, max = 10, backup = true }}, \
         \"10.0.0.2:80\"]\n[site.\"{NAME}\"]\nproxy = \"pool:app\"\nbody = {{ max = \"10GB\" }}\ntimeouts = {{ tunnel_idle = \"8h\" }}\n\
         [site.\"{NAME}:8443\"]\nrespond = 200\ntls = {{}}\n[tcp.\"127.0.0.1:0\"]\nproxy = \"127.0.0.1:9\"\n\
         timeouts = {{ tunnel_idle = \"8h\" }}\n",
        site.cert
    );
    let ended = check(&toml, &["-v"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        ended.stdout.matches("  suites ").count(),
        1,
        "{}",
        ended.stdout
    );
    for said in [
        ", suites and groups as at :443",
        "to 10.0.0.1:80 (weight 2, max 10, backup), 10.0.0.2:80 (pool app)",
        "body up to 10GB",
        "connect 5s, idle 8h",
        "ok, 4 listeners",
    ] {
        assert!(ended.stdout.contains(said), "{said:?} in {}", ended.stdout);
    }
    let ended = check(&plain("127.0.0.1:9"), &[]);
    assert!(
        ended.stdout.trim_end().ends_with("ok, 1 listener"),
        "{}",
        ended.stdout
    );
}
