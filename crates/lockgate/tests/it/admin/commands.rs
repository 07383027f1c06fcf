//! The commands that ask over the admin socket: their tables, their JSON, their exit codes.

use std::os::unix::net::UnixListener;

use lockgate_testkit::{Folder, Origin, Wire, eventually};
use serde_json::Value;

use super::AdminScene;
use crate::scene::{Site, echoes, lockgate, plain, text};

#[test]
fn every_command_prints_a_table_or_json() {
    let site = Site::new();
    let scene = AdminScene::new(&format!(
        "[tcp.\"127.0.0.2:0\"]\ntls = \"{}\"\nproxy = \"127.0.0.1:9\"\n",
        site.cert
    ));
    scene.exchange();
    for (words, says) in [
        (
            &["status"][..],
            &["ready", "LISTENER", "http", "memory"][..],
        ),
        (&["pools"], &["POOL", "REQ/S", "app"]),
        (&["endpoints"], &["ENDPOINT", "P99", "up"]),
        (&["certs"], &["DAYS", "app.test", "ECDSA"]),
        (&["log-level"], &["info"]),
        (&["log-level", "warn"], &["warn"]),
        (&["reload"], &["the configuration runs, as generation 2"]),
        (&["reopen"], &["opened again: 1"]),
    ] {
        let table = scene.command(words);
        assert_eq!(table.code, Some(0), "{words:?}: {}", table.stderr);
        for text in says {
            assert!(table.stdout.contains(text), "{words:?}: {}", table.stdout);
        }
        let json = [words, &["--json"]].concat();
        let json = scene.command(&json);
        let value: Value = serde_json::from_str(&json.stdout).expect(&json.stdout);
        assert!(value.is_object(), "{words:?}: {value}");
    }
}

#[test]
fn columns_of_a_table_are_aligned() {
    let scene = AdminScene::new("");
    let table = scene.command(&["pools"]).stdout;
    let ends: Vec<usize> = table.lines().map(str::len).collect();
    assert_eq!(ends.len(), 2, "{table}");
    assert_eq!(ends[0], ends[1], "{table}");
}

#[test]
fn the_socket_is_found_by_admin_or_by_the_variable() {
    let scene = AdminScene::new("");
    let address = format!("unix:{}", text(&scene.socket));
    for socket in [address, text(&scene.socket)] {
        let shown = lockgate().run(&["status", "--admin", &socket]);
        assert_eq!(shown.code, Some(0), "{socket}: {}", shown.stderr);
    }
    let file = text(&scene.gate.configuration());
    let by_variable = lockgate()
        .variable("LOCKGATE_CONFIG", &file)
        .run(&["status"]);
    assert_eq!(by_variable.code, Some(0), "{}", by_variable.stderr);
}

#[test]
fn reload_prints_mistakes_and_exits_1_although_the_file_is_broken() {
    let scene = AdminScene::new("");
    let file = scene.gate.configuration();
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("workerz = 2\n{good}")).unwrap();
    let wrong = scene.command(&["reload"]);
    assert_eq!(wrong.code, Some(1));
    for text in [
        "has mistakes",
        "lockgate.toml:1: [E0010]",
        "`lockgate check`",
    ] {
        assert!(wrong.stderr.contains(text), "{text}: {}", wrong.stderr);
    }
    let json = scene.command(&["reload", "--json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (json.code, &value["error"]["code"]),
        (Some(1), &"mistakes".into())
    );
}

#[test]
fn drain_and_stop_end_the_process() {
    let (folder, echo) = (Folder::new(), Origin::tcp().echo());
    let socket = text(&folder.path("a.sock"));
    let gate = lockgate().start(&format!(
        "admin = \"unix:{socket}\"\ndrain = {{ deadline = \"1h\" }}\n{}",
        plain(echo.address())
    ));
    let mut open = Wire::connect(gate.address());
    echoes(&mut open, "before");
    let run = |verb| lockgate().run(&[verb, "--admin", &socket]).stdout;
    assert_eq!(run("drain"), "the drain begins");
    gate.says("draining");
    assert_eq!(run("drain"), "the drain has begun before, and goes on");
    assert!(run("status").contains("draining"));
    echoes(&mut open, "still served");
    assert_eq!(run("stop"), "open connections are cut");
    assert_eq!(gate.ended().code, Some(3));
}

#[test]
fn a_socket_that_is_no_lockgate_is_told_with_what_to_do() {
    let folder = Folder::new();
    let (gone, stale) = (folder.path("gone.sock"), folder.path("stale.sock"));
    drop(UnixListener::bind(&stale).unwrap());
    let other = folder.path("other.sock");
    let origin = Origin::unix(&other);
    let _serving = origin.answering(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec());
    let mute = folder.path("mute.sock");
    let mute_origin = Origin::unix(&mute);
    let off = folder.write(
        "off.toml",
        format!("admin = false\n{}", plain("127.0.0.1:9")),
    );
    for (option, value, says) in [
        ("--admin", &gone, "Lockgate does not run"),
        ("--admin", &stale, "has ended"),
        ("--admin", &other, "another program answers"),
        ("-c", &off, "has no admin socket"),
        ("-c", &folder.path("gone.toml"), "does not exist"),
    ] {
        let ended = lockgate().run(&["status", option, &text(value)]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
    let refused = std::thread::scope(|scope| {
        let asked = scope.spawn(|| lockgate().run(&["pools", "--admin", &text(&mute)]));
        drop(mute_origin.accept());
        asked.join().unwrap()
    });
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("does not answer as a Lockgate"),
        "{}",
        refused.stderr
    );
}

#[test]
fn healthcheck_asks_the_admin_socket_without_a_metrics_address() {
    let (folder, echo) = (Folder::new(), Origin::tcp().echo());
    let socket = text(&folder.path("a.sock"));
    let gate = lockgate().start(&format!(
        "metrics = false\nadmin = \"unix:{socket}\"\ndrain = {{ delay = \"1h\" }}\n{}",
        plain(echo.address())
    ));
    let file = text(&gate.configuration());
    let check = || lockgate().run(&["healthcheck", "-c", &file]);
    assert_eq!(check().code, Some(0), "{}", check().stderr);
    lockgate().run(&["drain", "--admin", &socket]);
    let draining = eventually("the drain", || {
        Some(check()).filter(|ended| ended.code == Some(1))
    });
    assert!(
        draining.stderr.contains("not ready: draining"),
        "{}",
        draining.stderr
    );
}

#[test]
fn check_against_running_reports_mistakes_and_needed_restarts_and_changes_nothing() {
    let scene = AdminScene::new("");
    let file = scene.gate.configuration();
    let good = std::fs::read_to_string(&file).unwrap();
    let check = |toml: String| {
        std::fs::write(&file, toml).unwrap();
        scene.command(&["check", "--against-running"])
    };
    let same = check(good.clone());
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    assert!(
        same.stdout.contains("`lockgate check` does it"),
        "{}",
        same.stdout
    );
    let restart = check(good.replace("workers = 1", "workers = 2"));
    assert_eq!(restart.code, Some(0), "{}", restart.stderr);
    assert!(restart.stdout.contains("[W0111]"), "{}", restart.stdout);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!(
        "{good}[tcp.\"{}\"]\nproxy = \"127.0.0.1:9\"\n",
        taken.local_addr().unwrap()
    );
    let wrong = check(taken);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("[E0107]"), "{}", wrong.stderr);
    let status = scene.get("/v1/status");
    assert_eq!(status["generation"], 1);
    assert_eq!(
        status["configuration"]["reloads"],
        serde_json::json!({ "succeeded": 0, "failed": 0 })
    );
}
