//! `lockgate serve`: the files of a folder without a configuration.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use lockgate_testkit::h2::{Client, Peer};
use lockgate_testkit::{Folder, Http, Lockgate, Message};

use super::commands::{address_said, trusting_anybody};
use crate::scene::{NAME, Site, lockgate, text};

/// A folder with a page and one without in it.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("index.html", "the page");
    std::fs::create_dir(folder.path("below")).unwrap();
    folder.write("below/a.txt", "a file");
    folder
}

fn serve(arguments: &[&str]) -> Lockgate {
    lockgate().command(&[&["serve", "--listen", "127.0.0.1:0"][..], arguments].concat())
}

fn get(gate: &Lockgate, path: &str, fields: &str) -> Message {
    let mut client = Http::connect(address_said(gate, "listening").parse().unwrap());
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
    ));
    client.answer()
}

#[test]
fn serve_serves_a_folder_and_prints_its_address() {
    let folder = folder();
    let root = text(&folder.path(""));
    let gate = serve(&[&root]);
    let address = address_said(&gate, "listening");
    gate.stdout().find("what is served, and where", |line| {
        let root = root.trim_end_matches('/');
        (line.starts_with(root)
            && line.contains(&format!("http://{address}/, to this machine only")))
        .then_some(())
    });
    assert_eq!(get(&gate, "/", "").text(), "the page");
    assert_eq!(get(&gate, "/below/a.txt", "").text(), "a file");
    // No listing and no fallback page unless requested.
    assert_eq!(get(&gate, "/below/", "").status(), 404);
    assert_eq!(get(&gate, "/some/page", "").status(), 404);
    let line = gate.line("the page", |line| line["target"] == "/");
    assert_eq!(
        (&line["status"], &line["host"]),
        (&200.into(), &"localhost".into()),
        "{line}"
    );
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn serve_lists_and_falls_back_to_spa_only_on_request() {
    let folder = folder();
    let root = text(&folder.path(""));
    let gate = serve(&[&root, "--listing", "--spa"]);
    let listed = get(&gate, "/below/", "Accept: application/json\r\n");
    assert_eq!(listed.status(), 200);
    assert!(listed.text().contains("a.txt"), "{}", listed.text());
    assert_eq!(get(&gate, "/some/page", "").text(), "the page");
}

#[test]
fn serve_with_self_signed_tls_speaks_http2() {
    let folder = folder();
    let gate = serve(&[&text(&folder.path("")), "--tls", "self"]);
    let tls = trusting_anybody(&address_said(&gate, "listening"), &["h2", "http/1.1"]);
    assert_eq!(tls.agreed().alpn_protocol(), Some(&b"h2"[..]));
    let mut client = Peer::over(tls);
    client.hello(&[]);
    client.get(1, "/");
    let answer = client.answer(1);
    assert_eq!((answer.status, answer.text()), (200, "the page"));
    gate.stdout().find("its URL", |line| {
        line.contains("https://127.0.0.1:").then_some(())
    });
}

#[test]
fn serve_takes_certificate_files() {
    let (site, folder) = (Site::new(), folder());
    let cert = text(&site.folder.write("one.crt", site.issued.pem()));
    let key = text(&site.folder.write("one.key", site.issued.key_pem()));
    let gate = serve(&[&text(&folder.path("")), "--tls", &format!("{cert},{key}")]);
    let address = address_said(&gate, "listening").parse().unwrap();
    let client = Client::connect_tls(&site.client(), address, NAME);
    assert_eq!(client.get("/below/a.txt").text(), "a file");
}

#[test]
fn serve_resolves_a_relative_folder() {
    let folder = folder();
    let script = format!("cd '{}' && exec \"$@\"", folder.path("").display());
    for (written, path, content) in [
        (".", "/", "the page"),
        ("below/..", "/", "the page"),
        ("./below", "/a.txt", "a file"),
    ] {
        let launch = lockgate().through(&["sh", "-c", &script, "sh"]);
        let gate = launch.command(&["serve", written, "--listen", "127.0.0.1:0"]);
        assert_eq!(get(&gate, path, "").text(), content, "{written}");
    }
}

#[test]
fn serve_listens_on_every_address_and_unix_sockets() {
    let folder = folder();
    let gate = lockgate().command(&["serve", &text(&folder.path("")), "--listen", ":0"]);
    let said = address_said(&gate, "listening");
    let port = said.strip_prefix(':').expect("every address");
    gate.stdout().find("a URL", |line| {
        line.contains(&format!("http://localhost:{port}/"))
            .then_some(())
    });
    let mut client = Http::connect(format!("127.0.0.1:{port}").parse().unwrap());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "the page");

    let socket = text(&folder.path("www.sock"));
    let launch = lockgate();
    let gate = launch.command(&[
        "serve",
        &text(&folder.path("below")),
        "--listen",
        &format!("unix:{socket}"),
    ]);
    address_said(&gate, "listening");
    let mut client = UnixStream::connect(&socket).unwrap();
    client
        .write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\na file"), "{answer}");
}

#[test]
fn serve_refuses_a_path_that_is_no_folder() {
    let folder = folder();
    let dollar = folder.path("${env:HOME}");
    std::fs::create_dir(&dollar).unwrap();
    for (path, says) in [
        ("/nonexistent/folder", "/nonexistent/folder: No such file"),
        (&*text(&folder.path("index.html")), "is a file"),
        (&*text(&dollar), "no configuration can have"),
    ] {
        let ended = lockgate().run(&["serve", path]);
        assert_eq!(ended.code, Some(1), "{path}");
        assert!(ended.stderr.contains(says), "{path}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{path}");
    }
}
