//! Listeners that come, go and stay.

use std::net::{TcpListener, TcpStream};

use lockgate_testkit::{Folder, Http, Origin, Wire, eventually};

use super::{FAILURE, RELOADS, get, reload, responding};
use crate::scene::{echoes, lockgate, own_host, text};

/// A site at this address.
fn at(address: &str, text: &str) -> String {
    let (ip, port) = address.rsplit_once(':').unwrap();
    format!("[site.\":{port}\"]\nlisten = [\"{ip}\"]\nrespond = {{ body = \"{text}\" }}\n")
}

/// An address that is free now.
fn free() -> String {
    let listener = TcpListener::bind((own_host(), 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

fn body(address: &str) -> Vec<u8> {
    let mut client = Http::connect(address.parse().unwrap());
    client.send(get("/"));
    client.answer().body
}

#[test]
fn a_listener_is_added_and_removed_by_reloads() {
    let (kept, other) = (free(), free());
    let gate = lockgate().workers(2).start(&at(&kept, "kept"));
    assert_eq!(body(&kept), b"kept");
    for _ in 0..3 {
        reload(&gate, &(at(&kept, "kept") + &at(&other, "other")));
        assert_eq!(body(&other), b"other");
        let mut open = Http::connect(other.parse().unwrap());
        open.send(get("/"));
        assert_eq!(open.answer().body, b"other");
        reload(&gate, &at(&kept, "kept"));
        eventually("the listener is closed", || {
            TcpStream::connect(&other).is_err().then_some(())
        });
        // A kept connection to it is closed between two requests.
        open.stream.wait_closed();
        assert_eq!(body(&kept), b"kept");
    }
}

#[test]
fn a_listener_that_was_just_removed_comes_back() {
    let (kept, other) = (free(), free());
    let gate = lockgate().workers(2).start(&at(&kept, "kept"));
    for _ in 0..3 {
        // Each reload must succeed: the sockets of the one before are not closed yet.
        reload(&gate, &(at(&kept, "kept") + &at(&other, "other")));
        assert_eq!(body(&other), b"other");
        reload(&gate, &at(&kept, "kept"));
    }
    assert_eq!(gate.sample(RELOADS, &[FAILURE]), 0.0);
}

#[test]
fn a_request_on_a_kept_connection_of_a_removed_listener_is_the_last() {
    let (kept, other) = (free(), free());
    let gate = lockgate().start(&(at(&kept, "kept") + &at(&other, "other")));
    let mut open = Http::connect(other.parse().unwrap());
    open.send(get("/"));
    open.answer();
    reload(&gate, &at(&kept, "kept"));
    open.send(get("/"));
    // It was sent before the connection was closed, or it is closed without a part of a response.
    let rest = String::from_utf8(open.rest()).unwrap();
    assert!(
        rest.is_empty() || rest.contains("Connection: close") && rest.ends_with("other"),
        "{rest}"
    );
}

#[test]
fn a_site_becomes_a_relay_on_the_same_address_and_back() {
    let address = free();
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&at(&address, "site"));
    let relay = format!("[tcp.\"{address}\"]\nproxy = \"{}\"\n", origin.address());
    for _ in 0..3 {
        let mut kept = Http::connect(address.parse().unwrap());
        kept.send(get("/"));
        assert_eq!(kept.answer().body, b"site");
        reload(&gate, &relay);
        let mut relayed = Wire::connect(address.parse().unwrap());
        echoes(&mut relayed, "word");
        kept.stream.wait_closed();
        reload(&gate, &at(&address, "site"));
        assert_eq!(body(&address), b"site");
        echoes(&mut relayed, "another");
    }
}

#[test]
fn a_unix_socket_comes_and_goes_with_its_file() {
    let (folder, kept) = (Folder::new(), free());
    let path = folder.path("app.sock");
    let socket = format!(
        "[site.\"unix:{}\"]\nrespond = {{ body = \"unix\" }}\n",
        text(&path)
    );
    let gate = lockgate().workers(2).start(&at(&kept, "kept"));
    for _ in 0..2 {
        reload(&gate, &(at(&kept, "kept") + &socket));
        let mut client = Http::over(Wire::connect_unix(&path));
        client.send(get("/"));
        assert_eq!(client.answer().body, b"unix");
        reload(&gate, &at(&kept, "kept"));
        eventually("the file is removed", || (!path.exists()).then_some(()));
    }
}

#[test]
fn counters_of_a_listener_and_a_site_go_on_after_a_reload() {
    let gate = lockgate().workers(2).start(&responding("old"));
    let ask = || {
        let mut client = Http::connect(gate.address());
        client.send(get("/"));
        client.answer()
    };
    let site = ["site=\":0\"", "method=\"GET\"", "code=\"2xx\""];
    ask();
    gate.wait_for_sample("lockgate_requests_total", &site, 1.0);
    reload(&gate, &(at(&free(), "first") + &responding("new")));
    ask();
    gate.wait_for_sample("lockgate_requests_total", &site, 2.0);
    let listener = ["listener=\"127.0.0.1:0\""];
    gate.wait_for_sample("lockgate_connections_accepted_total", &listener, 2.0);
}
