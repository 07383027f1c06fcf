//! Upgrades that fail: the process that runs goes on, and says why.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lockgate_testkit::{Signal, Wire, eventually};
use rustix::process::kill_process;
use serde_json::json;

use super::{UpgradeScene, body, pid_of, responding, wait_for_end, wait_for_sockets};
use crate::admin::ask;
use crate::scene::{lockgate, text};

fn scene() -> UpgradeScene {
    UpgradeScene::new(&lockgate().workers(2), &responding("here"))
}

/// An upgrade still succeeds after failed ones.
fn goes_on(mut scene: UpgradeScene) {
    let address = scene.gate.address();
    assert_eq!(body(address), "here");
    wait_for_end(scene.upgrade());
    assert_eq!(body(address), "here");
}

#[test]
fn a_program_that_cannot_serve_changes_nothing() {
    let scene = scene();
    let silent = scene.script("silent", "exit 3");
    let loud = scene.script("loud", "echo one >&2; echo 'cannot do it' >&2; exit 1");
    let killed = scene.script("killed", "kill -9 $$");
    let plain = text(&scene.folder.write("plain", "not executable"));
    for (program, why, output) in [
        (
            "/bin/false".to_owned(),
            "ended before it was ready (exit status: 1)",
            "",
        ),
        (text(&silent), "(exit status: 3)", ""),
        (text(&loud), "(exit status: 1)", "one\ncannot do it"),
        (text(&killed), "signal: 9", ""),
        (plain, "cannot start", ""),
        ("/nonexistent/lockgate".to_owned(), "No such file", ""),
    ] {
        let (said, lines) = scene.failed(program.as_ref(), 60);
        assert!(said.contains(why), "{said}");
        assert_eq!(lines, output);
        assert_eq!(body(scene.gate.address()), "here");
    }
    let line = scene.gate.says("the upgrade has failed");
    assert!(line["why"].as_str().unwrap().contains("ended"), "{line}");
    goes_on(scene);
}

#[test]
fn a_program_that_hangs_is_killed() {
    let scene = scene();
    let pid_file = scene.folder.path("pid");
    let hangs = scene.script(
        "hangs",
        &format!(
            "echo $$ > '{}'; echo 'so far' >&2; while :; do sleep 1; done",
            text(&pid_file)
        ),
    );
    let (why, lines) = scene.failed(&hangs, 1);
    assert_eq!(why, "the new program was not ready within 1 s");
    assert_eq!(lines, "so far");
    let pid = std::fs::read_to_string(pid_file).unwrap();
    wait_for_end(pid.trim().parse().unwrap());
    goes_on(scene);
}

#[test]
fn a_program_that_breaks_the_protocol_changes_nothing() {
    let scene = scene();
    let read = "dd bs=65536 count=9 <&0 >/dev/null 2>&1 &";
    for (name, script, why) in [
        (
            "garbage",
            "printf garbage >&0; sleep 30",
            "does not know this handover",
        ),
        (
            "unknown",
            "printf '{\"ready\":{\"listeners\":[99],\"metrics\":true,\"admin\":true}}' >&0; sleep 30",
            "does not know this handover",
        ),
        (
            "early",
            "printf '{\"serving\":{}}' >&0; sleep 30",
            "does not know this handover",
        ),
        // After it has said that it is ready, and after it was told to serve.
        (
            "ready",
            "printf '{\"ready\":{\"listeners\":[],\"metrics\":true,\"admin\":true}}' >&0; kill -9 $$",
            "the new program has ended before it",
        ),
        (
            "twice",
            "printf '{\"ready\":{\"listeners\":[],\"metrics\":true,\"admin\":true}}' >&0; printf '{\"ready\":{\"listeners\":[],\"metrics\":true,\"admin\":true}}' >&0; sleep 30",
            "does not know this handover",
        ),
    ] {
        let program = scene.script(name, &format!("{read} {script}"));
        let (said, _) = scene.failed(&program, 60);
        assert!(said.contains(why), "{name}: {said}");
        assert_eq!(body(scene.gate.address()), "here");
    }
    goes_on(scene);
}

#[test]
fn a_program_of_another_version_says_so() {
    let scene = scene();
    let binary = env!("CARGO_BIN_EXE_lockgate");
    let newer = scene.script(
        "newer",
        &format!("LOCKGATE_HANDOVER=99 exec '{binary}' \"$@\""),
    );
    let (_, lines) = scene.failed(&newer, 60);
    assert!(lines.contains("version 1 of the handover"), "{lines}");
    // A program from before handovers finds the addresses in use.
    let older = scene.script(
        "older",
        &format!("unset LOCKGATE_HANDOVER; exec '{binary}' \"$@\""),
    );
    let (why, lines) = scene.failed(&older, 60);
    assert!(why.contains("exit status: 1"), "{why}");
    assert!(lines.contains("E0107"), "{lines}");
    goes_on(scene);
}

#[test]
fn a_configuration_with_mistakes_is_not_taken_over() {
    let scene = scene();
    let binary = Path::new(env!("CARGO_BIN_EXE_lockgate"));
    // One that the file shows, one that only the start finds.
    scene.rewrite(&(responding("here") + "nonsense = 1\n"));
    let (_, lines) = scene.failed(binary, 60);
    assert!(lines.contains("nonsense"), "{lines}");
    assert!(!lines.contains("in use"), "{lines}");
    let missing = scene.folder.path("missing.pem");
    let tls = format!(
        "[tcp.\"127.0.0.2:0\"]\nproxy = \"127.0.0.1:9\"\ntls = {{ cert = \"{}\" }}\n",
        text(&missing)
    );
    scene.rewrite(&(responding("here") + &tls));
    let (why, lines) = scene.failed(binary, 60);
    assert_eq!(why, "the new program cannot start");
    assert!(lines.contains("missing.pem"), "{lines}");
    assert!(!lines.contains("in use"), "{lines}");
    scene.rewrite(&responding("here"));
    goes_on(scene);
}

#[test]
fn a_new_process_killed_during_its_start_changes_nothing() {
    let scene = scene();
    // The standard error that it gets with the sockets is full: its first line has to wait.
    scene.gate.fill_stderr();
    let pid_file = scene.folder.path("pid");
    let (binary, pid_at) = (env!("CARGO_BIN_EXE_lockgate"), text(&pid_file));
    let held = scene.script(
        "held",
        &format!("echo $$ > '{pid_at}'; exec '{binary}' \"$@\""),
    );
    scene.rewrite(
        &("log = { format = \"json\", level = \"debug\" }\n".to_owned() + &responding("here")),
    );
    let asks = json!({ "program": held }).to_string();
    let (status, answer) = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| scene.ask(&asks));
        let child = eventually("the new process", || {
            std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok()
        });
        wait_for_sockets(child);
        assert_eq!(body(scene.gate.address()), "here");
        kill_process(pid_of(child), Signal::KILL).unwrap();
        upgrade.join().unwrap()
    });
    assert_eq!(status, 502, "{answer}");
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("signal: 9"), "{why}");
    scene.gate.stderr().read_on();
    scene.rewrite(&responding("here"));
    goes_on(scene);
}

#[test]
fn a_stop_ends_the_upgrade_too() {
    let scene = scene();
    let pid_file = scene.folder.path("pid");
    let hangs = scene.script(
        "hangs",
        &format!(
            "echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000",
            text(&pid_file)
        ),
    );
    let program = format!("{{ \"program\": \"{}\" }}", text(&hangs));
    let pid: u32 = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            // The answer may be lost with the process.
            let mut wire = Wire::connect_unix(&scene.socket);
            wire.send(format!(
                "POST /v1/upgrade HTTP/1.1\r\nhost: lockgate\r\ncontent-length: {}\r\n\r\n{program}",
                program.len()
            ));
            wire.wait_closed();
        });
        let pid = eventually("the program hangs", || {
            std::fs::read_to_string(&pid_file).ok()
        });
        scene.gate.signal(Signal::TERM);
        asked.join().unwrap();
        pid.trim().parse().unwrap()
    });
    wait_for_end(pid);
    wait_for_end(scene.serving);
}

#[test]
fn a_stop_at_the_takeover_stops_the_new_process() {
    let scene = scene();
    let (file, log) = (scene.folder.path("step"), scene.folder.path("said"));
    // It reads the offer in its three packets, and serves once the test allows it.
    let slow = scene.script(
        "slow",
        &format!(
            "read_packets() {{ dd bs=65536 count=$1 <&0 2>/dev/null; }}
             read_packets 3 >/dev/null
             printf '{{\"ready\":{{\"listeners\":[0],\"metrics\":true,\"admin\":true}}}}' >&0
             read_packets 1 > '{1}'
             echo > '{0}.told'
             while [ ! -e '{0}.go' ]; do sleep 0.05; done
             printf '{{\"serving\":{{}}}}' >&0
             read_packets 1 >> '{1}'
             echo > '{0}.ended'",
            text(&file),
            text(&log)
        ),
    );
    let program = format!("{{ \"program\": \"{}\" }}", text(&slow));
    let (status, answer) = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| scene.ask(&program));
        let reached = |step: &str| {
            let path = file.with_extension(step);
            eventually(step, || path.exists().then_some(()));
        };
        reached("told");
        scene.gate.signal(Signal::TERM);
        scene
            .gate
            .says("the new process was told to serve, and is to stop then");
        std::fs::write(file.with_extension("go"), "").unwrap();
        reached("ended");
        upgrade.join().unwrap()
    });
    assert_eq!(status, 200, "{answer}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "gostop");
    wait_for_end(scene.serving);
}

#[test]
fn a_failed_upgrade_leaves_the_file_of_the_admin_socket() {
    let scene = scene();
    let mode = || {
        std::fs::metadata(&scene.socket)
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(), 0o600);
    let socket = text(&scene.socket);
    let changed = |more: &str| {
        let admin = format!("admin = {{ at = \"unix:{socket}\", mode = \"0640\" }}\n");
        scene.gate.rewrite(&(admin + more + &responding("here")));
    };
    // The log is opened after the admin socket.
    changed("access_log = \"/nonexistent/access.log\"\n");
    let binary = Path::new(env!("CARGO_BIN_EXE_lockgate"));
    let (_, lines) = scene.failed(binary, 60);
    assert!(lines.contains("access.log"), "{lines}");
    assert_eq!(mode(), 0o600);
    changed("");
    let mut scene = scene;
    scene.upgrade();
    let found = std::fs::metadata(&scene.socket).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o640);
}

#[test]
fn an_upgrade_is_refused_during_a_drain_or_an_unconfirmed_reload() {
    let scene = UpgradeScene::new(
        &lockgate(),
        &("drain = { delay = \"60s\" }\n".to_owned() + &responding("here")),
    );
    let (status, answer) = ask(
        &scene.socket,
        "POST",
        "/v1/reload",
        "{ \"confirm_seconds\": 600 }",
    );
    assert_eq!(status, 200, "{answer}");
    let refused = |why: &str| {
        let (status, answer) = scene.ask("");
        assert_eq!(status, 409, "{answer}");
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.contains(why), "{said}");
    };
    refused("not confirmed");
    ask(&scene.socket, "POST", "/v1/confirm", "");
    ask(&scene.socket, "POST", "/v1/drain", "");
    refused("drains");
    scene.gate.signal(Signal::USR2);
    scene.gate.says("there is nothing to upgrade");
}

#[test]
fn a_request_that_cannot_be_understood_starts_nothing() {
    let scene = scene();
    for body in [
        "{ \"program\": \"relative\" }",
        "{ \"program\": 1 }",
        "{ \"limit_seconds\": 0 }",
        "{ \"limit_seconds\": \"60\" }",
    ] {
        let (status, answer) = scene.ask(body);
        assert_eq!(
            (status, &answer["error"]["code"]),
            (422, &"unusable".into())
        );
    }
    assert_eq!(scene.answers(), scene.serving);
}
