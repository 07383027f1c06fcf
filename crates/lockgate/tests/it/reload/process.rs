//! Settings of the whole process that a reload changes.

use std::net::{SocketAddr, TcpStream};

use lockgate_testkit::{Folder, Http, Signal, eventually};

use super::{get, reload, responding};
use crate::live_page::Page;
use crate::scene::{lockgate, own_host, text};

#[test]
fn the_access_log_and_its_format_change_with_a_reload() {
    let folder = Folder::new();
    let (first, second) = (folder.path("first.log"), folder.path("second.log"));
    let logging = |log: &str| format!("access_log = {log}\n{}", responding("x"));
    let to = |path: &std::path::Path| logging(&format!("\"{}\"", text(path)));
    let gate = lockgate().workers(2).start(&to(&first));
    let ask = |path: &str| {
        let mut client = Http::connect(gate.address());
        client.send(get(path));
        client.answer();
    };
    let has = |path: &std::path::Path, word: &str| {
        eventually(word, || {
            let log = std::fs::read_to_string(path).unwrap_or_default();
            log.contains(word).then_some(())
        });
    };
    ask("/one");
    has(&first, "\"target\":\"/one\"");
    reload(&gate, &to(&second));
    ask("/two");
    has(&second, "\"target\":\"/two\"");
    reload(&gate, &logging(&format!("\"combined:{}\"", text(&second))));
    ask("/three");
    has(&second, "\"GET /three HTTP/1.1\" 200");
    assert!(!std::fs::read_to_string(&first).unwrap().contains("/two"));
}

#[test]
fn the_metrics_address_changes_with_a_reload() {
    let other = std::net::TcpListener::bind((own_host(), 0)).unwrap();
    let at = other.local_addr().unwrap();
    drop(other);
    let gate = lockgate().start(&responding("x"));
    let before = gate.metrics_address();
    let page = Page::open(before);
    gate.rewrite(&format!("metrics = \"{at}\"\n{}", responding("x")));
    gate.signal(Signal::HUP);
    gate.says("the configuration was reloaded");
    let mut client = Http::connect(at);
    client.send("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!(client.answer().status(), 200);
    eventually("the old address is closed", || {
        TcpStream::connect(before).is_err().then_some(())
    });
    page.ends();
}

#[test]
fn the_limit_of_connections_changes_with_a_reload() {
    let limited = |size: u32| format!("limits = {{ connections = {size} }}\n{}", responding("x"));
    let gate = lockgate().start(&limited(100));
    assert_eq!(gate.sample("lockgate_connections_limit", &[]), 100.0);
    for size in [10, 300] {
        reload(&gate, &limited(size));
        assert_eq!(
            gate.sample("lockgate_connections_limit", &[]),
            f64::from(size)
        );
    }
}

#[test]
fn trusted_proxies_change_on_a_kept_connection() {
    let with = |trusted: &str| {
        format!(
            "trusted = [{trusted}]\n{}allow = [\"10.0.0.1\"]\n",
            responding("x")
        )
    };
    let gate = lockgate().start(&with(""));
    let mut client = Http::connect(gate.address());
    let mut ask = || {
        client.send("GET / HTTP/1.1\r\nHost: app.test\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n");
        client.answer().status()
    };
    assert_eq!(ask(), 403);
    reload(&gate, &with("\"127.0.0.1\""));
    assert_eq!(ask(), 200);
    reload(&gate, &with(""));
    assert_eq!(ask(), 403);
}

#[test]
fn a_watched_configuration_is_taken_over_with_its_included_files() {
    let folder = Folder::new();
    let part = folder.write("part.toml", responding("old"));
    let toml = format!("reload = \"watch\"\ninclude = [\"{}\"]\n", text(&part));
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    for (written, body) in [
        (None, "old"),
        (Some("new"), "new"),
        (Some("newest"), "newest"),
    ] {
        if let Some(body) = written {
            // As editors do, and as a ConfigMap does: another file in its place.
            let beside = folder.write("beside", responding(body));
            std::fs::rename(beside, &part).unwrap();
        }
        eventually(body, || {
            client.send(get("/"));
            (client.answer().body == body.as_bytes()).then_some(())
        });
    }
    // A mistake leaves what runs, and the cure is taken over.
    folder.write("part.toml", "[site");
    gate.says("has mistakes, so the running configuration stays");
    client.send(get("/"));
    assert_eq!(client.answer().body, b"newest");
    folder.write("part.toml", responding("last"));
    eventually("the cured file", || {
        client.send(get("/"));
        (client.answer().body == b"last").then_some(())
    });
}

#[test]
fn a_port_below_1024_is_bound_by_a_reload_after_root_is_given_up() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can give up root");
    }
    let user = "user = \"nobody\"\n";
    let gate = lockgate()
        .workers(2)
        .start(&(user.to_owned() + &responding("high")));
    // The user `nobody` can read the file.
    let file = gate.configuration();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(file.parent().unwrap(), mode(0o755)).unwrap();
    let low = SocketAddr::from((own_host(), 81));
    let site = format!(
        "[site.\":81\"]\nlisten = [\"{}\"]\nrespond = {{ body = \"low\" }}\n",
        low.ip()
    );
    reload(&gate, &(user.to_owned() + &responding("high") + &site));
    let mut client = Http::connect(low);
    client.send(get("/"));
    assert_eq!(client.answer().body, b"low");
}
