//! Upgrades under a service manager: it hears which process is the main one.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockgate_testkit::Folder;

use super::{UpgradeScene, responding, wait_for_end};
use crate::admin::ask;
use crate::scene::{lockgate, text};

fn received(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[test]
fn the_service_manager_hears_of_the_new_main_process() {
    let folder = Folder::new();
    let path = folder.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let launch = lockgate().variable("NOTIFY_SOCKET", &text(&path));
    let mut scene = UpgradeScene::new(&launch, &responding("here"));
    assert!(received(&socket).starts_with("READY=1\n"));
    for _ in 0..2 {
        let before = scene.upgrade();
        // The old process first: a message of another than the main process does not count.
        assert_eq!(received(&socket), format!("MAINPID={}\n", scene.serving));
        let ready = received(&socket);
        assert_eq!(ready, "READY=1\nSTATUS=serving 1 listener\n");
        wait_for_end(before);
    }
    // A failed one tells nothing: the next message is that of the stop.
    scene.failed("/bin/false".as_ref(), 60);
    ask(&scene.socket, "POST", "/v1/stop", "");
    assert_eq!(received(&socket), "STOPPING=1\nSTATUS=draining\n");
}

#[test]
fn the_watchdog_of_the_service_hears_the_new_process() {
    let folder = Folder::new();
    let path = folder.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    // systemd names the process, which is not the next one.
    let launch = lockgate()
        .through(&[
            "sh",
            "-c",
            "WATCHDOG_PID=$$ WATCHDOG_USEC=20000000 exec \"$@\"",
            "sh",
        ])
        .variable("NOTIFY_SOCKET", &text(&path));
    let mut scene = UpgradeScene::new(&launch, &responding("here"));
    let next = || loop {
        let said = received(&socket);
        if said != "WATCHDOG=1\n" {
            return said;
        }
    };
    assert!(next().starts_with("READY=1\n"));
    wait_for_end(scene.upgrade());
    assert!(next().starts_with("MAINPID="));
    // Before the interval of the watchdog is over: the first one of the new process, since the old
    // one has ended.
    let said = [received(&socket), received(&socket)];
    assert!(said.iter().any(|said| said == "WATCHDOG=1\n"), "{said:?}");
}

#[test]
fn systemd_finds_no_mistake_in_the_shipped_units() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let folder = Folder::new();
    let unit = std::fs::read_to_string(packaging.join("lockgate.service")).unwrap();
    let installed = "/usr/bin/lockgate ";
    for command in ["ExecStart", "ExecReload"] {
        assert!(
            unit.contains(&format!("{command}={installed}")),
            "{command}"
        );
    }
    let ours = concat!(env!("CARGO_BIN_EXE_lockgate"), " ");
    folder.write("lockgate.service", unit.replace(installed, ours));
    let socket = std::fs::read_to_string(packaging.join("lockgate.socket")).unwrap();
    folder.write("lockgate.socket", socket);
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .args(["lockgate.service", "lockgate.socket"].map(|unit| folder.path(unit)))
        .output();
    match verified {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let of_ours: Vec<_> = said
                .lines()
                .filter(|line| line.contains("lockgate"))
                .collect();
            assert!(output.status.success() && of_ours.is_empty(), "{said}");
        }
        Err(error) => println!("skipped: there is no systemd-analyze ({error})"),
    }
}
