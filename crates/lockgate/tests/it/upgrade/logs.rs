//! An access log that two processes write to, from an upgrade to the end of the old one.

use std::path::Path;

use lockgate_testkit::{Folder, Origin, Signal, Wire, eventually};
use rustix::process::kill_process;

use super::{UpgradeScene, pid_of, wait_for_end};
use crate::scene::{echoes, lockgate, plain, text};

/// The sizes of the relays that a log has lines of.
fn logged(file: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // A write may be seen in part: its line has no end yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["received_bytes"].as_u64().unwrap() as usize
    });
    lines.collect()
}

#[test]
fn the_old_process_opens_a_log_that_was_reopened() {
    let (folder, origin) = (Folder::new(), Origin::tcp().echo());
    let (file, moved) = (folder.path("access.log"), folder.path("moved.log"));
    let toml = format!(
        "access_log = \"{}\"\n{}",
        text(&file),
        plain(origin.address())
    );
    let mut scene = UpgradeScene::new(&lockgate(), &toml);
    let mut relay = Wire::connect(scene.gate.address());
    echoes(&mut relay, "one");
    let before = scene.upgrade();
    std::fs::rename(&file, &moved).unwrap();
    kill_process(pid_of(scene.serving), Signal::USR1).unwrap();
    eventually("the new file", || file.exists().then_some(()));
    drop(relay);
    wait_for_end(before);
    assert_eq!((logged(&file), logged(&moved)), (vec![3], vec![]));
}

#[test]
fn the_old_process_rotates_no_log_of_the_new_one() {
    let (folder, origin) = (Folder::new(), Origin::tcp().echo());
    let file = folder.path("access.log");
    let toml = format!(
        "access_log = {{ to = \"{}\", rotate = {{ size = \"1KB\", keep = 0 }} }}\n{}",
        text(&file),
        plain(origin.address())
    );
    let mut scene = UpgradeScene::new(&lockgate(), &toml);
    let relays: Vec<_> = (1..=9)
        .map(|size| {
            let mut relay = Wire::connect(scene.gate.address());
            echoes(&mut relay, &"x".repeat(size));
            (size, relay)
        })
        .collect();
    let before = scene.upgrade();
    for (size, relay) in relays {
        drop(relay);
        // One by one: lines of one buffer stay in one file.
        eventually("its line", || {
            (logged(&file).last() == Some(&size)).then_some(())
        });
    }
    wait_for_end(before);
    assert_eq!(logged(&file), (1..=9).collect::<Vec<_>>());
}
