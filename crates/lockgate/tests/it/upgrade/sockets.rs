//! The sockets that change hands: of other numbers of workers, of Unix addresses, and those that
//! the new configuration has no more.

use std::net::{TcpListener, TcpStream};

use lockgate_testkit::{Folder, Origin, Wire, eventually};
use rustls::HandshakeKind;

use super::{UpgradeScene, body, responding, wait_for_end};
use crate::admin::ask;
use crate::scene::{NAME, Site, echoes, lockgate, own_host, text};
use crate::tls::resumption::visit;

/// Connects often enough that each socket of an address has some.
fn all_sockets_accept(scene: &UpgradeScene) {
    for _ in 0..60 {
        assert_eq!(body(scene.gate.address()), "here");
    }
}

#[test]
fn other_numbers_of_workers_serve_every_socket() {
    let workers = |count: usize| format!("workers = {count}\n{}", responding("here"));
    let mut scene = UpgradeScene::new(&lockgate(), &workers(3));
    for count in [1, 4, 2, 2] {
        scene.rewrite(&workers(count));
        let before = scene.upgrade();
        wait_for_end(before);
        all_sockets_accept(&scene);
    }
    // No socket has become two.
    let sockets = || {
        let folder = format!("/proc/{}/fd", scene.serving);
        std::fs::read_dir(folder).unwrap().count()
    };
    let few = sockets();
    let before = scene.upgrade();
    wait_for_end(before);
    let folder = format!("/proc/{}/fd", scene.serving);
    assert!(std::fs::read_dir(folder).unwrap().count() <= few + 2);
}

#[test]
fn a_unix_socket_keeps_its_file() {
    let folder = Folder::new();
    let path = folder.path("relay.sock");
    let echo = Origin::tcp().echo();
    let toml = format!(
        "[tcp.\"unix:{}\"]\nproxy = \"{}\"\n",
        text(&path),
        echo.address()
    );
    let mut scene = UpgradeScene::new(&lockgate().workers(2), &toml);
    let accepts = || echoes(&mut Wire::connect_unix(&path), "word");
    accepts();
    for _ in 0..2 {
        let before = scene.upgrade();
        wait_for_end(before);
        accepts();
        assert_eq!(scene.answers(), scene.serving);
    }
    // The last process removes it.
    let (status, _) = ask(&scene.socket, "POST", "/v1/stop", "");
    assert_eq!(status, 200);
    wait_for_end(scene.serving);
    assert!(!path.exists() && !scene.socket.exists());
}

#[test]
fn a_listener_that_the_new_configuration_lacks_is_closed() {
    let free = {
        let listener = TcpListener::bind((own_host(), 0)).unwrap();
        listener.local_addr().unwrap()
    };
    let other = format!(
        "[site.\":{}\"]\nlisten = [\"{}\"]\nrespond = {{ body = \"other\" }}\n",
        free.port(),
        free.ip()
    );
    let mut scene = UpgradeScene::new(&lockgate(), &(responding("here") + &other));
    assert_eq!(body(free), "other");
    scene.rewrite(&responding("here"));
    let before = scene.upgrade();
    wait_for_end(before);
    assert!(TcpStream::connect(free).is_err());
    scene.rewrite(&(responding("here") + &other));
    let before = scene.upgrade();
    wait_for_end(before);
    assert_eq!(body(free), "other");
    assert_eq!(body(scene.gate.address()), "here");
}

#[test]
fn the_metrics_address_stays_open() {
    let mut scene = UpgradeScene::new(&lockgate(), &responding("here"));
    for _ in 0..2 {
        let before = scene.upgrade();
        wait_for_end(before);
        assert_eq!(scene.gate.get("/ready"), (200, "ready\n".to_owned()));
    }
}

#[test]
fn files_of_sockets_that_the_new_configuration_lacks_are_removed() {
    let folder = Folder::new();
    let path = folder.path("metrics.sock");
    let with = format!("metrics = \"unix:{}\"\n{}", text(&path), responding("here"));
    let mut scene = UpgradeScene::new(&lockgate(), &with);
    wait_for_end(scene.upgrade());
    assert!(path.exists() && scene.socket.exists());
    scene
        .gate
        .rewrite(&("admin = false\n".to_owned() + &responding("here")));
    wait_for_end(scene.upgrade());
    assert!(!path.exists() && !scene.socket.exists());
    assert_eq!(body(scene.gate.address()), "here");
}

#[test]
fn a_stop_after_an_upgrade_closes_the_addresses() {
    let mut scene = UpgradeScene::new(&lockgate().workers(2), &responding("here"));
    let address = scene.gate.address();
    wait_for_end(scene.upgrade());
    ask(&scene.socket, "POST", "/v1/stop", "");
    eventually("the address is closed", || {
        TcpStream::connect(address).is_err().then_some(())
    });
    wait_for_end(scene.serving);
}

#[test]
fn session_tickets_stay_valid_across_an_upgrade() {
    let site = Site::new();
    let echo = Origin::tcp().echo();
    let mut scene = UpgradeScene::new(&lockgate(), &site.tls(echo.address(), ""));
    let client = site.client().build();
    let visit = |scene: &UpgradeScene| visit(&client, scene.gate.address(), NAME);
    assert_eq!(visit(&scene), HandshakeKind::Full);
    assert_eq!(visit(&scene), HandshakeKind::Resumed);
    for _ in 0..2 {
        wait_for_end(scene.upgrade());
        assert_eq!(visit(&scene), HandshakeKind::Resumed);
    }
}
