//! Upgrades of a Lockgate that has given up root.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::{UpgradeScene, body, responding, wait_for_end};
use crate::admin::ask;
use crate::run::only_main_may_bind_low_ports;
use crate::scene::{lockgate, own_host};

/// Lockgate as `user`, with a site on port 81 of these addresses.
fn low(user: &str, hosts: &str) -> String {
    format!(
        "user = \"{user}\"\n{}[site.\":81\"]\nlisten = [{hosts}]\nrespond = {{ body = \"low\" }}\n",
        responding("here")
    )
}

#[test]
fn with_a_user_the_new_program_binds_further_low_ports() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become a user");
    }
    let (first, second) = (own_host(), own_host());
    let mut scene = UpgradeScene::new(&lockgate(), &low("nobody", &format!("\"{first}\"")));
    // The user reads the file, and finds the admin socket.
    for folder in [
        scene.folder.dir(),
        scene.gate.configuration().parent().unwrap(),
    ] {
        std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    let both = format!("\"{first}\", \"{second}\"");
    scene.rewrite(&low("nobody", &both));
    for _ in 0..2 {
        wait_for_end(scene.upgrade());
        assert_eq!(body((first, 81).into()), "low");
        assert_eq!(body((second, 81).into()), "low");
        only_main_may_bind_low_ports(scene.serving);
    }
    // Another user is out of reach.
    scene.rewrite(&low("daemon", &both));
    let (status, answer) = ask(&scene.socket, "POST", "/v1/upgrade", "");
    assert_eq!(status, 502, "{answer}");
    assert!(
        answer["output"].to_string().contains("only root can"),
        "{answer}"
    );
    assert_eq!(scene.answers(), scene.serving);
}
