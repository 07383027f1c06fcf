//! HUP: the file is taken over, or its mistakes are reported. A file that changed and was not taken
//! over is reported too.

use std::os::unix::net::UnixDatagram;

use lockgate_testkit::{Folder, Lockgate, Origin, Signal, Wire};

use crate::scene::{echoes, lockgate, plain, text};

fn info(gate: &Lockgate) -> String {
    let metrics = gate.metrics();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("lockgate_config_info{"));
    line.expect("the metrics name the file").to_owned()
}

#[test]
fn a_changed_file_is_reported_until_hup_takes_it_over() {
    let origin = Origin::tcp().echo();
    let toml = plain(origin.address());
    let gate = lockgate().start(&toml);
    let file = gate.configuration();
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

    gate.rewrite(&(toml.clone() + "# another text\n"));
    gate.says("the configuration file differs from the running configuration");
    gate.wait_for_sample("lockgate_config_differs", &[], 1.0);
    assert_eq!(gate.sample("lockgate_config_check_errors", &[]), 0.0);
    assert_eq!(info(&gate), running);

    gate.signal(Signal::HUP);
    gate.says("the configuration was reloaded");
    gate.wait_for_sample("lockgate_config_differs", &[], 0.0);
    assert_ne!(info(&gate), running);
    echoes(&mut open, "after");
    echoes(&mut Wire::connect(gate.address()), "new");
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
    gate.rewrite(&broken);
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
            .ends_with("lockgate.toml:4:1"),
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
    gate.rewrite(&(lines + &plain(origin.address())));
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
    let toml = plain(origin.address());
    gate.rewrite(&(toml.clone() + "[strange]\n"));
    gate.signal(Signal::HUP);
    said("serving 1 listener; the configuration file has 1 error: see `lockgate check`");
    gate.rewrite(&toml.replace("127.0.0.1:0", "127.0.0.2:0"));
    gate.signal(Signal::HUP);
    said("serving 1 listener");
}

#[test]
fn hup_after_dropping_root_needs_keys_that_the_user_can_read() {
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
    let said = gate.says("app.pem");
    assert_eq!(said["code"], "E0101", "{said}");
    assert_eq!(gate.sample("lockgate_config_check_errors", &[]), 1.0);
}
