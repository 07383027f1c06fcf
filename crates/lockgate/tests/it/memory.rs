//! The memory of the process as a budget: clients that request much and read nothing are cut, and
//! others are served.

use std::any::Any;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use lockgate_testkit::h2::frame::setting;
use lockgate_testkit::h2::{self, Peer, ScriptedResponse};
use lockgate_testkit::{
    Http, Lockgate, Origin, Serving, Signal, Tls, Wire, bytes, eventually, server_config,
};
use rustls::Connection;

use crate::files::Www;
use crate::scene::{NAME, Site, lockgate, text};

/// Clients that read nothing: each costs some 60 KB at first.
const CROWD: usize = 250;
/// As many more where the kernel may take much of their data.
const MOST: usize = 4 * CROWD;
/// Memory that the process may keep for later when all have left.
const KEPT: f64 = 6e6;
/// Little more than the process has by itself.
const LIMITS: &str = "limits = { memory = \"24MB\" }\n";
const REQUEST: &str = "GET /big HTTP/1.1\r\nHost: app.test\r\n\r\n";

/// A folder with one file larger than any buffer, and a small one.
fn www() -> Www {
    let www = Www::with(&[("small", "served")]);
    std::fs::File::create(www.path("big"))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    www
}

fn files(www: &Www, more: &str) -> String {
    format!(
        "{LIMITS}[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nroot = \"{}\"\n{more}\n",
        www.root.display()
    )
}

/// An origin that answers each connection without end, and reads no more than a head.
fn endless() -> Serving {
    Origin::tcp().serve(answer_without_end)
}

fn answer_without_end(client: &mut (impl Read + Write)) {
    let _ = client.read(&mut [0; 4096]);
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000000000\r\n\r\n";
    let _ = client.write_all(head.as_bytes());
    while client.write_all(&NOISE).is_ok() {}
}

/// Random letters, more than any coding remembers: they hardly compress.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    bytes(14, 4 << 20)
        .into_iter()
        .map(|byte| b'a' + byte % 26)
        .collect()
});

/// Counted memory, without kinds that are only measured.
fn counted(gate: &Lockgate) -> f64 {
    ["heap", "coding", "kernel"]
        .iter()
        .map(|kind| gate.sample("lockgate_memory_bytes", &[kind]))
        .sum()
}

/// From another address than the crowd.
fn honest_address() -> IpAddr {
    [127, 0, 0, 9].into()
}

/// Brings a crowd of clients that do not read: some are cut, the log says why, `serves` holds
/// meanwhile, and when all have left nothing of it is held.
fn survives(gate: &Lockgate, join: impl FnMut() -> Box<dyn Any>, serves: impl Fn()) {
    survives_up_to(CROWD, gate, join, serves);
}

/// The same where the crowd grows up to `most` until memory is full.
fn survives_up_to(
    most: usize,
    gate: &Lockgate,
    mut join: impl FnMut() -> Box<dyn Any>,
    serves: impl Fn(),
) {
    serves();
    let before = counted(gate);
    let mut crowd: Vec<_> = (0..CROWD).map(|_| join()).collect();
    // How much the kernel takes, on each side, is not always the same: more come until memory is
    // full.
    eventually("some are cut", || {
        let cut = gate.sample("lockgate_memory_cut_total", &[]) > 0.5;
        if !cut && crowd.len() < most && gate.sample("lockgate_memory_level", &[]) < 1.5 {
            crowd.extend((0..CROWD / 10).map(|_| join()));
        }
        cut.then_some(())
    });
    serves();
    let is_cut = |line: &serde_json::Value| line["cause"] == "limit" && line["detail"] == "memory";
    let line = gate.line("one that was cut", is_cut);
    assert_eq!(
        (&line["side"], &line["client"]),
        (&"lockgate".into(), &"127.0.0.1".into()),
        "{line}"
    );
    drop(crowd);
    eventually("all is given back", || {
        (counted(gate) < before + KEPT).then_some(())
    });
    eventually("nobody is left", || {
        (gate.sample("lockgate_connections", &[]) < 0.5).then_some(())
    });
    serves();
}

/// The same where each client asks for the large response over HTTP/1 without TLS.
fn survives_silent_readers(gate: &Lockgate) {
    let to = gate.address();
    let join = || -> Box<dyn Any> {
        let mut client = Wire::connect_narrow(to);
        client.send(REQUEST);
        Box::new(client)
    };
    survives(gate, join, || get(to, "/small"));
}

fn get(to: SocketAddr, path: &str) {
    let mut client = Http::over(Wire::connect_from(honest_address(), to));
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"
    ));
    let answer = client.answer();
    assert_eq!((answer.status(), answer.text()), (200, "served"));
}

#[test]
fn tls_clients_not_reading_files_are_cut_for_memory() {
    let (www, site) = (www(), Site::new());
    let gate = lockgate().workers(2).start(&files(
        &www,
        &format!("tls = {{ cert = \"{}\" }}", site.cert),
    ));
    let config = site.client().build();
    let to = gate.address();
    let join = || -> Box<dyn Any> {
        let mut client = Tls::connect(&config, Wire::connect_narrow(to), NAME).unwrap();
        client.send(REQUEST);
        client.flush();
        Box::new(client)
    };
    survives(&gate, join, || {
        let mut client =
            Tls::connect(&config, Wire::connect_from(honest_address(), to), NAME).unwrap();
        client.send("GET /small HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n");
        assert!(client.rest().ends_with(b"served"));
    });
}

#[test]
fn unread_http2_streams_are_cut_for_memory() {
    let www = www();
    let gate = lockgate()
        .workers(2)
        .start(&files(&www, "protocols = [\"h2c\", \"http1\"]"));
    let to = gate.address();
    let join = || -> Box<dyn Any> {
        let mut peer = Peer::over(Wire::connect_narrow(to));
        peer.hello(&[(setting::INITIAL_WINDOW_SIZE, u32::MAX >> 1)]);
        peer.window_update(0, (u32::MAX >> 1) - 65_535);
        // Each with few: many of one connection are refused, and then none would be cut.
        (0..4).for_each(|at| peer.get(2 * at + 1, "/big"));
        Box::new(peer)
    };
    survives(&gate, join, || get(to, "/small"));
}

/// The connections to the endpoint are shared by all clients.
#[test]
fn clients_not_reading_http2_endpoints_are_cut_for_memory() {
    let www = www();
    let origin = h2::Origin::plain(|_| {
        ScriptedResponse::new(200)
            .piece(NOISE.as_slice())
            .then_nothing()
    });
    let gate = lockgate().start(&files(
        &www,
        &format!(
            "[pool.app]\nprotocol = \"h2c\"\nendpoints = [\"{}\"]\n\
             [site.\":0\".path.\"/big\"]\nproxy = \"pool:app\"",
            origin.address()
        ),
    ));
    survives_silent_readers(&gate);
}

#[test]
fn plain_clients_not_reading_responses_are_cut_for_memory() {
    let (www, origin) = (www(), endless());
    let more = format!(
        "[site.\":0\".path.\"/big\"]\nproxy = \"{}\"\n",
        origin.address()
    );
    let gate = lockgate().start(&files(&www, &more));
    survives_silent_readers(&gate);
}

/// Clients that read none of an endless response that is made by `keys` and has `field` in its
/// head.
fn survives_readers_of_none(keys: &str, field: &str) {
    let www = www();
    let gate = lockgate().start(&files(
        &www,
        &format!("[site.\":0\".path.\"/big\"]\n{keys}"),
    ));
    let to = gate.address();
    let ask = || {
        let mut client = Wire::connect_narrow(to);
        client.send("GET /big HTTP/1.1\r\nHost: app.test\r\nAccept-Encoding: zstd\r\n\r\n");
        client
    };
    let head = Http::over(ask()).head();
    assert!(head.contains(field), "{head}");
    let join = || -> Box<dyn Any> { Box::new(ask()) };
    survives(&gate, join, || get(to, "/small"));
}

#[test]
fn clients_not_reading_zstd_responses_are_cut_for_memory() {
    let origin = endless();
    survives_readers_of_none(
        &format!("proxy = \"{}\"\ncompress = true", origin.address()),
        "Content-Encoding: zstd\r\n",
    );
}

#[test]
fn clients_not_reading_rewritten_responses_are_cut_for_memory() {
    let origin = endless();
    let rules = "rewrite_body = [{ text = \"some\", with = \"more\" }]";
    survives_readers_of_none(
        &format!("proxy = \"{}\"\n{rules}", origin.address()),
        "Transfer-Encoding: chunked\r\n",
    );
}

#[test]
fn clients_not_reading_tls_upstream_responses_are_cut_for_memory() {
    let site = Site::new();
    let (config, ca) = (
        server_config(&site.issued, None),
        site.folder.write("ca.pem", site.authority.pem()),
    );
    let origin = Origin::tcp().serve(move |wire| {
        if let Ok(Tls {
            session: Connection::Server(mut session),
            mut wire,
        }) = Tls::accept(&config, wire.another())
        {
            answer_without_end(&mut rustls::Stream::new(&mut session, &mut wire));
        }
    });
    let tls = format!("tls = {{ name = \"{NAME}\", ca = \"{}\" }}", text(&ca));
    survives_readers_of_none(
        &format!("proxy = {{ to = \"{}\", {tls} }}", origin.address()),
        "Content-Length: 1000000000000\r\n",
    );
}

#[test]
fn relays_to_clients_not_reading_are_cut_for_memory() {
    let (www, origin) = (www(), endless());
    let relay = format!("[tcp.\"127.0.0.2:0\"]\nproxy = \"{}\"\n", origin.address());
    let gate = lockgate().start(&files(&www, &relay));
    let (sites, relays) = (gate.at("127.0.0.1:0"), gate.at("127.0.0.2:0"));
    let join = || -> Box<dyn Any> {
        let mut client = Wire::connect_narrow(relays);
        client.send("anything");
        Box::new(client)
    };
    survives(&gate, join, || get(sites, "/small"));
}

#[test]
fn uploads_that_no_endpoint_reads_are_cut_for_memory() {
    // Its connections wait to be accepted for ever.
    let (www, deaf) = (www(), Origin::tcp());
    let more = format!(
        "[site.\":0\".path.\"/up\"]\nproxy = \"{}\"\n",
        deaf.address()
    );
    let gate = lockgate().start(&files(&www, &more));
    let to = gate.address();
    let piece = [b'x'; 128 * 1024];
    let join = || -> Box<dyn Any> {
        let mut client = Wire::connect(to);
        client.send("PUT /up HTTP/1.1\r\nHost: app.test\r\nContent-Length: 1000000000\r\n\r\n");
        // The kernel takes all of it, on one side or the other, unless the client is cut first.
        let _ = client.write_all(&piece);
        Box::new(Resets(Some(client)))
    };
    survives_up_to(MOST, &gate, join, || get(to, "/small"));
}

/// The body of a request that waits for memory is not buffered in full, and waiting requests do not
/// delay each other.
#[test]
fn a_burst_of_uploads_leaves_memory_for_others() {
    let (www, deaf) = (www(), Origin::tcp());
    let more = format!(
        "[site.\":0\".path.\"/up\"]\nproxy = \"{}\"\n",
        deaf.address()
    );
    let gate = lockgate().start(&files(&www, &more));
    let to = gate.address();
    let piece = [b'x'; 64 * 1024];
    let upload = |_| {
        let mut client = Wire::connect(to);
        client.send("PUT /up HTTP/1.1\r\nHost: app.test\r\nContent-Length: 100000000\r\n\r\n");
        // The kernel takes as much of it as it likes.
        let _ = client.write_all(&piece);
        Resets(Some(client))
    };
    // All of them are there when the program looks: it accepts many in a row.
    let burst: Vec<_> = gate.paused(|| (0..MOST).map(upload).collect());
    get(to, "/small");
    drop(burst);
    assert_eq!(gate.sample("lockgate_memory_refused_total", &[]), 0.0);
}

/// A client that resets its connection when it leaves: while an exchange waits for the endpoint, a
/// close alone is not noticed.
struct Resets(Option<Wire>);

impl Drop for Resets {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            client.reset();
        }
    }
}

#[test]
fn trusted_peers_are_not_cut_for_memory() {
    let (www, origin) = (www(), endless());
    let more = format!(
        "[site.\":0\".path.\"/big\"]\nproxy = \"{}\"\n",
        origin.address()
    );
    let gate = lockgate().start(&("trusted = [\"127.0.0.1\"]\n".to_owned() + &files(&www, &more)));
    let to = gate.address();
    let mut trusted = Wire::connect_narrow(to);
    trusted.send(REQUEST);
    let stranger = || {
        let mut client = Wire::connect_from([127, 0, 0, 2].into(), to);
        client.send(REQUEST);
        client
    };
    let _crowd: Vec<_> = (0..CROWD).map(|_| stranger()).collect();
    let is_cut = |line: &serde_json::Value| line["cause"] == "limit" && line["detail"] == "memory";
    gate.line("one that was cut", is_cut);
    let port = trusted.local_address().port();
    assert!(gate.lines().iter().all(|line| line["client_port"] != port));
    trusted.expect("HTTP/1.1 200 OK\r\n");
}

#[test]
fn under_memory_pressure_responses_are_not_compressed() {
    let www = www();
    www.write("text.txt", "many words ".repeat(2_000));
    let (gate, origin) = (lockgate(), endless());
    let more = format!(
        "compress = true\n[site.\":0\".path.\"/big\"]\nproxy = \"{}\"\ncompress = false\n",
        origin.address()
    );
    let gate = gate.start(&files(&www, &more));
    let to = gate.address();
    let coding = || {
        let ask = "GET /text.txt HTTP/1.1\r\nHost: app.test\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
        let mut client = Http::over(Wire::connect_from(honest_address(), to));
        client.send(ask);
        client.answer().field("content-encoding").map(str::to_owned)
    };
    assert_eq!(coding().as_deref(), Some("gzip"));
    let mut crowd = Vec::new();
    while gate.sample("lockgate_memory_level", &[]) < 0.5 {
        let mut client = Wire::connect_narrow(to);
        client.send(REQUEST);
        crowd.push(client);
        assert!(crowd.len() < 10 * CROWD, "memory is never scarce");
    }
    // Cached compressed forms are sent as long as they are there: a tick later none is.
    eventually("what was kept is let go", || {
        coding().is_none().then_some(())
    });
}

#[test]
fn memory_cuts_continue_during_a_drain() {
    let (www, origin) = (www(), endless());
    let more = format!(
        "[site.\":0\".path.\"/big\"]\nproxy = \"{}\"\n",
        origin.address()
    );
    let gate = lockgate().start(&("drain = { delay = \"1h\" }\n".to_owned() + &files(&www, &more)));
    gate.signal(Signal::TERM);
    gate.says("draining");
    let join = || {
        let mut client = Wire::connect_narrow(gate.address());
        client.send(REQUEST);
        client
    };
    let crowd: Vec<_> = (0..CROWD).map(|_| join()).collect();
    gate.says("memory is full");
    eventually("some are cut", || {
        (gate.sample("lockgate_memory_cut_total", &[]) > 0.5).then_some(())
    });
    drop(crowd);
    gate.says("there is enough memory again");
}

#[test]
fn the_start_logs_the_memory_limit_and_its_source() {
    let www = www();
    let gate = lockgate().start(&files(&www, ""));
    let ready = gate.says("ready");
    assert_eq!(
        (&ready["memory"], &ready["memory_by"]),
        (&24_000_000.into(), &"limits.memory".into())
    );
    assert_eq!(
        gate.sample("lockgate_memory_limit_bytes", &[]) as u64,
        24_000_000
    );
    let unbounded = lockgate().start(&files(&www, "").replace("\"24MB\"", "\"off\""));
    assert!(!unbounded.metrics().contains("lockgate_memory_limit_bytes"));
}
