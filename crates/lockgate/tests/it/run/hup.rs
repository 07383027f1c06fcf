//! HUP: the file is checked and compared with the running configuration, and not loaded.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use lockgate_testkit::{Folder, Lockgate, Origin, Signal, Wire};

use crate::scene::{echoes, lockgate, plain, text};

/// Replaces the file of the configuration that runs.
fn write(file: &Path, toml: &str) {
    let beside = file.with_extension("beside");
    std::fs::write(&beside, toml).unwrap();
    std::fs::rename(&beside, file).unwrap();
}

fn info(gate: &Lockgate) -> String {
    let metrics = gate.metrics();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("lockgate_config_info{"));
    line.expect("the metrics name the file").to_owned()
}

#[test]
fn hup_reports_a_changed_configuration_without_loading_it() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&plain(origin.address()));
    let file = gate.configuration();
    let before = std::fs::read_to_string(&file).unwrap();
    let said = gate.says("configuration");
    assert_eq!(said["file"], text(&file));
    let running = info(&gate);
    assert!(
        running.contains(&format!("file=\"{}\"", file.display())),
        "{running}"
    );
    assert!(
        running.contains(said["hash"].as_str().unwrap()),
        "{running}"
    );
    assert_eq!(gate.sample("lockgate_config_differs", &[]), 0.0);
    let mut open = Wire::connect(gate.address());
    echoes(&mut open, "before");

    write(&file, &(before.clone() + "# another text\n"));
    gate.signal(Signal::HUP);
    gate.says("the configuration file differs from the running configuration: restart to use it");
    gate.wait_for_sample("lockgate_config_differs", &[], 1.0);
    assert_eq!(gate.sample("lockgate_config_check_errors", &[]), 0.0);
    assert_eq!(info(&gate), running);
    echoes(&mut open, "after");
    echoes(&mut Wire::connect(gate.address()), "new");

    write(&file, &before);
    gate.signal(Signal::HUP);
    gate.says("the configuration file is the same as the running configuration");
    gate.wait_for_sample("lockgate_config_differs", &[], 0.0);
}

#[test]
fn hup_logs_mistakes_of_the_configuration_file() {
    let folder = Folder::new();
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&plain(origin.address()));
    let broken = format!(
        "workerz = 2\naccess_log = \"{}/no/such.log\"\n{}",
        folder.dir().display(),
        plain(origin.address())
    );
    write(&gate.configuration(), &broken);
    gate.signal(Signal::HUP);
    let said = gate.says("has mistakes, so the running configuration stays");
    assert_eq!(
        (&said["level"], &said["errors"]),
        (&"ERROR".into(), &2.into())
    );
    let unknown = gate.says("no key is called `workerz`");
    assert_eq!(unknown["code"], "E0010");
    assert!(
        unknown["at"]
            .as_str()
            .unwrap()
            .ends_with("lockgate.toml:1:1"),
        "{unknown}"
    );
    gate.says("no/such.log");
    gate.wait_for_sample("lockgate_config_check_errors", &[], 2.0);
    assert_eq!(gate.sample("lockgate_config_differs", &[]), 1.0);
    echoes(
        &mut Wire::connect(gate.address()),
        "the running configuration stays",
    );
}

#[test]
fn hup_with_many_mistakes_keeps_the_log_short() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&plain(origin.address()));
    let lines: String = (0..150)
        .map(|number| format!("strange{number} = 1\n"))
        .collect();
    write(&gate.configuration(), &(lines + &plain(origin.address())));
    gate.signal(Signal::HUP);
    let said = gate.says("has mistakes, so the running configuration stays");
    assert_eq!(said["errors"], 150);
    let logged = gate
        .stderr()
        .json()
        .into_iter()
        .filter(|line| line["code"] == "E0010")
        .count();
    assert_eq!(logged, 10);
}

#[test]
fn the_systemd_status_reports_the_result_of_hup() {
    let folder = Folder::new();
    let origin = Origin::tcp().echo();
    let path = folder.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let gate = lockgate()
        .variable("NOTIFY_SOCKET", &text(&path))
        .start(&plain(origin.address()));
    let said = |expected: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = socket.recv(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.contains("READY=1") {
                assert!(
                    text.contains(&format!("STATUS={expected}\n")) || text.ends_with(expected),
                    "{text}"
                );
                return;
            }
        }
    };
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .unwrap();
    said("serving 1 listener");
    let file = gate.configuration();
    let before = std::fs::read_to_string(&file).unwrap();
    write(&file, &(before.clone() + "# another text\n"));
    gate.signal(Signal::HUP);
    said(
        "serving 1 listener; the configuration file differs from the running configuration: restart to use it",
    );
    write(&file, &(before.clone() + "[strange]\n"));
    gate.signal(Signal::HUP);
    said("serving 1 listener; the configuration file has 1 error: see `lockgate check`");
    write(&file, &before);
    gate.signal(Signal::HUP);
    said("serving 1 listener");
}

#[test]
fn hup_after_dropping_root_reports_no_unreadable_root_files() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can give up root");
    }
    let site = crate::scene::Site::new();
    let origin = Origin::tcp().echo();
    let gate =
        lockgate().start(&("user = \"nobody\"\n".to_owned() + &site.tls(origin.address(), "")));
    // The user `nobody` can read the file, only root the key.
    let file = gate.configuration();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(file.parent().unwrap(), mode(0o755)).unwrap();
    std::fs::set_permissions(&file, mode(0o644)).unwrap();
    gate.signal(Signal::HUP);
    gate.says("the configuration file is the same as the running configuration");
    assert_eq!(gate.sample("lockgate_config_check_errors", &[]), 0.0);
}
