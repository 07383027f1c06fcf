//! Tunnels over TLS and HTTP/2 (RFC 9113 §8.5), where each is a stream.

use lockgate_testkit::h2::Client;
use lockgate_testkit::{Folder, Http, Lockgate, Origin, Signal, bytes};

use super::{connect, ping_pong, tunnels};
use crate::scene::{NAME, Site, deserted, lockgate, text};

fn plain() -> Lockgate {
    lockgate().start(&tunnels("protocols = [\"h2c\", \"http1\"]"))
}

fn secure(site: &Site) -> String {
    tunnels(&format!("tls = {{ cert = \"{}\" }}", site.cert))
}

/// CONNECT has neither a scheme nor a path.
fn request(target: &str) -> http::Request<()> {
    let mut request = http::Request::new(());
    *request.method_mut() = http::Method::CONNECT;
    *request.uri_mut() = target.parse().unwrap();
    request
}

#[test]
fn an_https_proxy_serves_connect_over_http1() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate().start(&secure(&site));
    let mut client = Http::over(site.connect(&gate));
    client.send(connect(&origin.address()) + "early");
    let mut upstream = Http::over(origin.accept());
    upstream.expect("early");
    assert_eq!(client.head(), "HTTP/1.1 200 OK\r\n\r\n");
    upstream.send("pong");
    client.expect("pong");
    client.stream.finish();
    upstream.expect_end();
    upstream.send("last");
    drop(upstream);
    client.expect("last");

    let served =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let authority = site.folder.write("ca.pem", site.authority.pem());
    let resolve = format!("{NAME}:{}:127.0.0.1", gate.address().port());
    let proxy = format!("https://{NAME}:{}", gate.address().port());
    let target = format!("http://{}/", served.address());
    let curl = std::process::Command::new("curl")
        .args([
            "-sS",
            "--max-time",
            "20",
            "--proxytunnel",
            "--resolve",
            &resolve,
            "--proxy",
            &proxy,
        ])
        .arg("--proxy-cacert")
        .arg(authority)
        .arg(&target)
        .output()
        .expect("curl is there");
    assert_eq!(
        String::from_utf8_lossy(&curl.stdout),
        "ok",
        "{}",
        String::from_utf8_lossy(&curl.stderr)
    );
}

#[test]
fn each_http2_stream_is_its_own_connect_tunnel() {
    let site = Site::new();
    let (over_tls, without) = (lockgate().start(&secure(&site)), plain());
    for (gate, client) in [
        (
            &over_tls,
            Client::connect_tls(&site.client(), over_tls.address(), NAME),
        ),
        (&without, Client::connect(without.address())),
    ] {
        let (one, other) = (Origin::tcp(), Origin::tcp());
        let mut first = client.begin(request(&one.address()), false);
        let mut second = client.begin(request(&other.address()), false);
        // Before the response is there.
        first.send("early", false);
        let (mut at_first, mut at_second) = (Http::over(one.accept()), Http::over(other.accept()));
        at_first.expect("early");
        assert_eq!(first.head().unwrap().status, 200);
        assert_eq!(second.head().unwrap().status, 200);
        let (going, coming) = (bytes(1, 300_000), bytes(2, 200_000));
        std::thread::scope(|scope| {
            scope.spawn(|| first.send(going.clone(), true));
            assert!(at_first.exactly(going.len()) == going);
            // The end of one direction leaves the other.
            at_first.expect_end();
        });
        at_second.send("second");
        assert_eq!(second.piece().unwrap().unwrap(), "second");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                at_first.send(&coming);
                drop(at_first);
            });
            let mut came = Vec::new();
            while let Some(piece) = first.piece().unwrap() {
                came.extend_from_slice(&piece);
            }
            assert!(came == coming);
        });
        let line = gate.line("the end of a tunnel", |line| {
            line["received_bytes"] == 300_005
        });
        assert_eq!(
            (&line["endpoint"], &line["sent_bytes"]),
            (&one.address().into(), &200_000.into()),
            "{line}"
        );
        assert_eq!(
            (&line["cause"], &line["host"]),
            (&"client_closed".into(), &one.address().into()),
            "{line}"
        );
        let opened = gate.line("the request", |line| line["target"] == one.address());
        assert_eq!(line["request"], opened["id"], "{line}");
        assert!(
            line["received_first_byte_seconds"].is_number() && line["sent_end_seconds"].is_number(),
            "{line}"
        );
        second.send("still", true);
        at_second.expect("still");
    }
}

/// RFC 9113 §8.5: the reset of one side is that of the other.
#[test]
fn resets_pass_between_connect_stream_and_target() {
    const CANCEL: u32 = 8;
    let gate = plain();
    let client = Client::connect(gate.address());
    let origin = Origin::tcp();
    let mut stream = client.begin(request(&origin.address()), false);
    let upstream = origin.accept();
    stream.head().unwrap();
    upstream.reset();
    let error = stream.piece().unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::CONNECT_ERROR));
    let mut stream = client.begin(request(&origin.address()), false);
    let mut upstream = origin.accept();
    stream.head().unwrap();
    stream.reset(CANCEL);
    upstream.expect_reset();
}

#[test]
fn a_refused_connect_stream_keeps_the_connection() {
    let gate = lockgate().start(&tunnels("protocols = [\"h2c\"]\ndeny = [\"127.0.0.9\"]"));
    let client = Client::connect(gate.address());
    for (target, status) in [
        ("127.0.0.9:1".to_owned(), 403),
        (deserted().to_string(), 502),
        ("127.0.0.1:0".to_owned(), 400),
    ] {
        let answer = client.begin(request(&target), false).answer();
        assert_eq!(answer.status, status, "{target}");
    }
    assert_eq!(client.get("/").status, 405);
    let origin = Origin::tcp();
    let mut stream = client.begin(request(&origin.address()), false);
    let mut upstream = Http::over(origin.accept());
    stream.head().unwrap();
    stream.send("ping", false);
    upstream.expect("ping");
}

#[test]
fn each_connect_stream_needs_proxy_authorization() {
    let folder = Folder::new();
    let hash = "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m";
    let users = text(&folder.write("users", format!("alice:{hash}\n")));
    let gate = lockgate().start(&tunnels(&format!(
        "protocols = [\"h2c\"]\nauth = {{ basic = \"{users}\" }}"
    )));
    let (client, origin) = (Client::connect(gate.address()), Origin::tcp());
    for _ in 0..2 {
        let answer = client.begin(request(&origin.address()), false).answer();
        assert_eq!(answer.status, 407);
        assert_eq!(
            answer.field("proxy-authenticate"),
            Some(r#"Basic realm="restricted", charset="UTF-8""#)
        );
        let mut with = request(&origin.address());
        with.headers_mut().insert(
            "proxy-authorization",
            "Basic YWxpY2U6b3BlbiBzZXNhbWU=".parse().unwrap(),
        );
        let mut stream = client.begin(with, false);
        assert_eq!(stream.head().unwrap().status, 200);
        stream.send("ping", true);
        Http::over(origin.accept()).expect("ping");
    }
    let line = gate.line("whose it was", |line| line["status"] == 200);
    assert_eq!(line["user"], "alice", "{line}");
}

#[test]
fn connect_streams_are_counted_and_limited_individually() {
    let keys = "protocols = [\"h2c\"]\nmax_per_client = 2\nmax_bytes = \"1KB\"";
    let gate = lockgate().start(&tunnels(keys));
    let (client, origin, another) = (
        Client::connect(gate.address()),
        Origin::tcp(),
        Origin::tcp(),
    );
    let mut one = client.begin(request(&origin.address()), false);
    let mut other = client.begin(request(&another.address()), false);
    let (mut at_one, mut at_other) = (Http::over(origin.accept()), Http::over(another.accept()));
    assert_eq!(
        (one.head().unwrap().status, other.head().unwrap().status),
        (200, 200)
    );
    assert_eq!(
        client
            .begin(request(&origin.address()), false)
            .answer()
            .status,
        429
    );
    one.send(vec![0; 2_000], false);
    at_one.exactly(2_000);
    let line = gate.line("the end of one", |line| {
        line["cause"] == "limit" && line["received_bytes"] == 2_000
    });
    assert_eq!(line["side"], "lockgate", "{line}");
    assert!(one.piece().is_err());
    at_one.stream.wait_closed();
    other.send("word", false);
    at_other.expect("word");
}

#[test]
fn a_drain_keeps_http2_tunnels() {
    let gate = plain();
    let (client, origin) = (Client::connect(gate.address()), Origin::tcp());
    let mut stream = client.begin(request(&origin.address()), false);
    let mut upstream = Http::over(origin.accept());
    stream.head().unwrap();
    gate.signal(Signal::TERM);
    gate.says("draining");
    stream.send("ping", false);
    upstream.expect("ping");
    upstream.send("pong");
    assert_eq!(stream.piece().unwrap().unwrap(), "pong");
    stream.send("", true);
    drop(upstream);
    while stream.piece().unwrap().is_some() {}
    drop(stream);
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn http1_clients_work_beside_http2_tunnels() {
    let gate = plain();
    let origin = Origin::tcp();
    let mut client = Http::connect(gate.address());
    client.send_in(1, connect(&origin.address()));
    client.head();
    ping_pong(&mut client, &mut Http::over(origin.accept()));
}

/// RFC 9113 §8.5: "Receipt of any frame type other than DATA, RST_STREAM, WINDOW_UPDATE, or
/// PRIORITY frames on a connected stream MUST be treated as a stream error".
#[test]
fn trailers_reset_a_connect_stream() {
    let (gate, origin) = (plain(), Origin::tcp());
    let client = Client::connect(gate.address());
    let mut tunnel = client.begin(request(&origin.address()), false);
    let mut upstream = Http::over(origin.accept());
    assert_eq!(tunnel.head().unwrap().status, 200);
    tunnel.send("some", false);
    upstream.expect("some");
    tunnel.trailers(&[("x-late", "1")]);
    assert!(tunnel.piece().unwrap_err().is_reset());
    upstream.stream.expect_reset();
}
