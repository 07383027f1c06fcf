//! Upgrades that succeed, and what goes on across them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lockgate_testkit::{Folder, Http, Launch, Origin, Signal, Wire, eventually};

use super::{UpgradeScene, body, get, responding, wait_for_end};
use crate::admin::ask;
use crate::reload::reload;
use crate::scene::{echoes, lockgate, plain, text};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: x\r\n\r\n";

#[test]
fn five_upgrades_cut_no_websocket_relay_or_download() {
    no_stream_is_cut(5, UpgradeScene::upgrade);
}

/// Streams of several kinds go on while the process that serves changes so many times; `change`
/// returns the process that has served before.
pub(super) fn no_stream_is_cut(rounds: usize, mut change: impl FnMut(&mut UpgradeScene) -> u32) {
    let origin = Origin::tcp();
    let echo = Origin::tcp().echo();
    let mut scene = UpgradeScene::new(
        &lockgate().workers(2),
        &format!(
            "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"{}\"\n\
             [tcp.\"127.0.0.2:0\"]\nproxy = \"{}\"\n",
            origin.address(),
            echo.address()
        ),
    );
    let address = scene.gate.at("127.0.0.1:0");

    let mut socket = Http::connect(address);
    socket.send(
        "GET /chat HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: k\r\n\r\n",
    );
    let mut socket_at = origin.http();
    socket_at.request();
    socket_at.send(SWITCH);
    socket.head();

    let mut download = Http::connect(address);
    download.send(get());
    let mut download_at = origin.http();
    download_at.request();
    download_at.send("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n");
    download.head();

    let mut relay = Wire::connect(scene.gate.at("127.0.0.2:0"));
    echoes(&mut relay, "first");

    // A kept connection ends between two requests.
    let mut idle = Http::connect(address);
    idle.send(get());
    let mut idle_at = origin.http();
    idle_at.request();
    idle_at.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    idle.answer();

    let first = scene.serving;
    for round in 0..rounds {
        let before = change(&mut scene);
        assert_eq!(scene.answers(), scene.serving);
        let word = format!("{round}{round}");
        socket.send(&word);
        socket_at.expect(&word);
        socket_at.send(&word);
        socket.expect(&word);
        download_at.send(&word);
        download.expect(&word);
        echoes(&mut relay, &word);
        // New connections are those of the new process.
        let mut new = Http::connect(address);
        new.send(get());
        let mut new_at = origin.http();
        new_at.request();
        new_at.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(new.answer().text(), "ok");
        echoes(&mut Wire::connect(scene.gate.at("127.0.0.2:0")), "new");
        if before != first {
            wait_for_end(before);
        }
    }
    idle.expect_end();
    let left = "o".repeat(12 - 2 * rounds);
    download_at.send(&left);
    download.expect(&left);
    download.expect_end();
    socket.stream.finish();
    socket_at.expect_end();
    socket_at.stream.finish();
    socket.expect_end();
    drop(relay);
    // What it had begun is finished.
    wait_for_end(first);
}

#[test]
fn no_new_connection_is_refused_during_upgrades() {
    no_connection_is_refused(5, UpgradeScene::upgrade);
}

/// The same for new connections.
pub(super) fn no_connection_is_refused(
    rounds: usize,
    mut change: impl FnMut(&mut UpgradeScene) -> u32,
) {
    let mut scene = UpgradeScene::new(&lockgate().workers(2), &responding("here"));
    let address = scene.gate.address();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0_u32;
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(body(address), "here");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for _ in 0..rounds {
            let before = change(&mut scene);
            wait_for_end(before);
        }
        done.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
}

#[test]
fn an_upgrade_reads_the_configuration_file() {
    let mut scene = UpgradeScene::new(&lockgate(), &responding("old"));
    let address = scene.gate.address();
    assert_eq!(body(address), "old");
    scene.rewrite(&responding("new"));
    let before = scene.upgrade();
    wait_for_end(before);
    assert_eq!(body(address), "new");
}

#[test]
fn usr2_upgrades() {
    let mut scene = UpgradeScene::new(&lockgate(), &responding("here"));
    scene.gate.signal(Signal::USR2);
    let line = scene.gate.says("the new process serves");
    let before = scene.served_by(u32::try_from(line["pid"].as_u64().unwrap()).unwrap());
    wait_for_end(before);
    assert_eq!(scene.answers(), scene.serving);
    assert_eq!(body(scene.gate.address()), "here");
}

#[test]
fn the_command_upgrades_and_names_the_new_process() {
    let mut scene = UpgradeScene::new(&lockgate(), &responding("here"));
    let file = text(&scene.gate.configuration());
    let done = lockgate().run(&["upgrade", "-c", &file, "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let answer: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let before = scene.served_by(u32::try_from(answer["pid"].as_u64().unwrap()).unwrap());
    wait_for_end(before);

    let binary = env!("CARGO_BIN_EXE_lockgate");
    let done = lockgate().run(&["upgrade", binary, "-c", &file, "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let answer: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    scene.served_by(u32::try_from(answer["pid"].as_u64().unwrap()).unwrap());

    let done = lockgate().run(&["upgrade", "/bin/false", "-c", &file]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.stderr.contains("has ended before it was ready") && done.stderr.contains("goes on"),
        "{}",
        done.stderr
    );
}

#[test]
fn drain_change_cuts_what_an_upgrade_leaves() {
    let origin = Origin::tcp();
    let mut scene = UpgradeScene::new(
        &lockgate(),
        &format!(
            "drain = {{ change = \"1s\" }}\n[tcp.\"127.0.0.1:0\"]\nproxy = \"{}\"\n",
            origin.address()
        ),
    );
    let mut relay = Wire::connect(scene.gate.address());
    let mut relay_at = origin.accept();
    relay.send("word");
    relay_at.expect("word");
    let before = scene.upgrade();
    relay.wait_closed();
    wait_for_end(before);
}

#[test]
fn drain_change_of_an_earlier_reload_holds_during_a_drain() {
    let origin = Origin::tcp();
    let toml = |drain: &str| format!("{drain}{}", plain(&origin.address()));
    let mut scene = UpgradeScene::new(&lockgate(), &toml(""));
    let mut relay = Wire::connect(scene.gate.address());
    let mut relay_at = origin.accept();
    relay.send("word");
    relay_at.expect("word");
    let admin = super::admin_at(&scene.socket);
    for drain in ["drain = { change = \"1s\" }\n", ""] {
        reload(&scene.gate, &(admin.clone() + &toml(drain)));
    }
    let before = scene.upgrade();
    relay.wait_closed();
    wait_for_end(before);
}

#[test]
fn term_to_the_old_process_cuts_after_the_drain_deadline() {
    let origin = Origin::tcp();
    let mut scene = UpgradeScene::new(
        &lockgate(),
        &format!(
            "drain = {{ deadline = \"1s\" }}\n[tcp.\"127.0.0.1:0\"]\nproxy = \"{}\"\n",
            origin.address()
        ),
    );
    let mut relay = Wire::connect(scene.gate.address());
    let mut relay_at = origin.accept();
    relay.send("word");
    relay_at.expect("word");
    let before = scene.upgrade();
    relay_at.send("back");
    relay.expect("back");
    scene.gate.signal(Signal::TERM);
    relay.wait_closed();
    wait_for_end(before);
    assert_eq!(scene.answers(), scene.serving);
}

#[test]
fn a_reload_that_comes_during_an_upgrade_follows_it() {
    let mut scene = UpgradeScene::new(&lockgate(), &responding("old"));
    let address = scene.gate.address();
    let waiting = scene.waiting_program();
    let (pid, refusals) = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| scene.ask(&waiting.body()));
        waiting.wait();
        let (status, refused) = ask(&scene.socket, "POST", "/v1/reload", "");
        let (again, twice) = scene.ask("");
        scene.rewrite(&responding("new"));
        scene.gate.signal(Signal::HUP);
        waiting.go_on();
        let (ok, answer) = upgrade.join().unwrap();
        assert_eq!(ok, 200, "{answer}");
        (
            answer["pid"].as_u64().unwrap(),
            [(status, refused), (again, twice)],
        )
    });
    scene.served_by(u32::try_from(pid).unwrap());
    for (status, refused) in refusals {
        assert_eq!(status, 409, "{refused}");
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("upgrade is under way"), "{why}");
    }
    eventually("the new text", || (body(address) == "new").then_some(()));
}

#[test]
fn a_program_that_was_started_by_a_link_is_found_by_the_link() {
    let folder = Folder::new();
    let (link, beside) = (folder.path("lockgate"), folder.path("beside"));
    let leads_to = |target: &Path| {
        symlink(target, &beside).unwrap();
        std::fs::rename(&beside, &link).unwrap();
    };
    let binary = Path::new(env!("CARGO_BIN_EXE_lockgate"));
    leads_to(binary);
    let mut scene = UpgradeScene::new(&Launch::new(&text(&link)), &responding("here"));
    leads_to(&scene.script("other", "exit 7"));
    let (status, answer) = scene.ask("");
    assert_eq!(status, 502, "{answer}");
    assert!(answer.to_string().contains("exit status: 7"), "{answer}");
    leads_to(binary);
    for _ in 0..2 {
        wait_for_end(scene.upgrade());
        assert_eq!(body(scene.gate.address()), "here");
    }
}
