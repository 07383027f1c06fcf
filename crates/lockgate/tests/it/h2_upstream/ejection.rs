//! No client may cause the ejection of an endpoint: otherwise an attacker could take half of a pool
//! away.

use lockgate_testkit::h2::frame::{self, code, flag, kind, setting};
use lockgate_testkit::h2::{Client, Origin, Peer, ScriptedResponse, hpack};
use lockgate_testkit::{Http, Lockgate, Origin as Scripted, Wire};

use super::{ask, get, pooled, post};
use crate::scene::lockgate;

/// The first failure would eject, and another endpoint is there to take over.
const STRICT: &str =
    "balance = \"round-robin\"\nretry = false\neject = { errors = 1, for = \"60s\" }";

fn assert_none_is_ejected(gate: &Lockgate, after: &str) {
    let ejections = gate.sample("lockgate_upstream_ejections_total", &[]);
    assert_eq!(ejections, 0.0, "after {after}");
}

/// Answers 200, but resets the streams of paths that end in an error code.
fn origin() -> Origin {
    Origin::plain(|asked| {
        match asked
            .path
            .strip_prefix("/reset/")
            .and_then(|code| code.parse().ok())
        {
            Some(code) => ScriptedResponse::refuse(code),
            None => ScriptedResponse::ok(asked.authority.clone()),
        }
    })
}

/// Waits until the peer has read all, or the connection has ended for it.
fn settle(peer: &mut Peer) {
    for _ in 0..2 {
        let _ = peer.try_send(frame::frame(kind::PING, 0, 0, *b"settle??"));
        while let Ok(Some(frame)) = peer.try_next() {
            if frame.has(kind::PING, flag::ACK) {
                break;
            }
        }
    }
}

/// Requests of HTTP/1 clients, and the status that they get; 0 where they leave before one.
#[test]
fn no_http1_client_request_ejects_an_http2_endpoint() {
    let (one, other) = (origin(), origin());
    let gate = lockgate().start(&pooled(&[&one.address(), &other.address()], STRICT));
    let host = "Host: app.test\r\n";
    let long = |byte: &str, count| format!("GET /{} HTTP/1.1\r\n{host}\r\n", byte.repeat(count));
    for (request, status) in [
        // RFC 9112 §3.2: HTTP/1.0 may do without, and in HTTP/1.1 it may be empty.
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), 200),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned(), 200),
        // Three times as long when it is escaped, and longer than servers on the http crate take.
        (long("<", 25_000), 414),
        (long("<", 20_000), 200),
        (long("a", 60_000), 200),
        (long("a", 65_400), 414),
        (
            "GET /\u{fc}\u{ff} HTTP/1.1\r\nHost: app.test\r\n\r\n".to_owned(),
            400,
        ),
        (
            format!("M{} / HTTP/1.1\r\n{host}\r\n", "m".repeat(9_000)),
            501,
        ),
        (format!("M{} / HTTP/1.1\r\n{host}\r\n", "m".repeat(60)), 200),
        (format!("GET /{{|}}^ HTTP/1.1\r\n{host}\r\n"), 200),
        (format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"), 204),
        (
            format!("GET / HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(60_000)),
            200,
        ),
        (
            format!(
                "GET / HTTP/1.1\r\n{host}{}\r\n",
                "Cookie: a=b\r\n".repeat(90)
            ),
            200,
        ),
        // Bodies that are none, and that end early.
        (
            format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\nx\r\n"),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n1\r\na"),
            0,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: 10\r\n\r\nfour"),
            0,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"),
            0,
        ),
        // An endpoint that resets a stream and goes on has answered it.
        (get("/reset/0"), 502),
        (get("/reset/1"), 502),
        (get("/reset/2"), 502),
        (get("/reset/8"), 502),
        (get("/reset/11"), 502),
        (get("/reset/13"), 502),
    ] {
        let shown = request.get(..60).unwrap_or(&request).to_owned();
        for _ in 0..3 {
            let mut http = Http::connect(gate.address());
            http.send(&request);
            if status == 0 {
                drop(http);
            } else {
                assert_eq!(http.answer().status(), status, "{shown:?}");
            }
        }
        assert_none_is_ejected(&gate, &shown);
    }
    // All of them have been read when these have.
    for _ in 0..4 {
        assert_eq!(ask(&gate, get("/")).text(), "app.test");
    }
    assert_none_is_ejected(&gate, "all of them");
}

/// RFC 9113 §8.3.1: an endpoint gets its own name as authority where the client names no host.
#[test]
fn without_host_the_authority_is_the_endpoint() {
    let origin = origin();
    let gate = lockgate().start(&pooled(&[&origin.address()], STRICT));
    assert_eq!(
        ask(&gate, "GET / HTTP/1.0\r\n\r\n").text(),
        origin.address()
    );
    assert_eq!(
        ask(&gate, "GET / HTTP/1.1\r\nHost:\r\n\r\n").text(),
        origin.address()
    );
    assert_eq!(
        ask(&gate, "GET / HTTP/1.0\r\nHost: app.test\r\n\r\n").text(),
        "app.test"
    );
}

#[test]
fn no_http2_client_request_ejects_an_http2_endpoint() {
    let (one, other) = (origin(), origin());
    let gate = lockgate().start(&pooled(&[&one.address(), &other.address()], STRICT));
    let post = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    type Step = fn(&mut Peer);
    let steps: [(&str, Step); 7] = [
        ("a reset in the middle of a body", |peer| {
            peer.data(1, "some", false);
            settle(peer);
            peer.reset(1, code::CANCEL);
        }),
        ("a reset with a strange code", |peer| {
            peer.reset(1, 0xdead_beef)
        }),
        ("trailers with pseudo-fields", |peer| {
            peer.headers(1, &[(":path", "/")], true)
        }),
        ("trailers without an end", |peer| {
            peer.headers(1, &[("x", "y")], false)
        }),
        ("trailers of a connection", |peer| {
            peer.headers(1, &[("connection", "close")], true)
        }),
        ("a stream window that overflows", |peer| {
            peer.window_update(1, u32::MAX >> 1)
        }),
        ("data after its end", |peer| {
            peer.data(1, "x", true);
            peer.data(1, "x", true);
        }),
    ];
    for (what, step) in steps {
        for _ in 0..3 {
            let mut peer = Peer::connect(gate.address());
            peer.headers(1, &post, false);
            step(&mut peer);
            settle(&mut peer);
        }
        assert_none_is_ejected(&gate, what);
    }
    // A length that is not that of the body.
    for _ in 0..3 {
        let mut peer = Peer::connect(gate.address());
        let section = [
            hpack::section(&post),
            hpack::never_indexed("content-length", "3"),
        ]
        .concat();
        peer.frame(kind::HEADERS, flag::END_HEADERS, 1, section);
        peer.data(1, "xyz1", true);
        settle(&mut peer);
    }
    assert_none_is_ejected(&gate, "a length that is none");
    let client = Client::connect(gate.address());
    for _ in 0..4 {
        assert_eq!(client.get("/").text(), "app.test");
    }
    assert_none_is_ejected(&gate, "all of them");
}

/// RFC 9110 §10.1.1: an endpoint that does not send 100 waits for the body, and the client
/// withholds it.
#[test]
fn a_client_withholding_its_body_ejects_no_endpoint() {
    for protocol in ["http1", "h2c"] {
        let is_h2 = protocol == "h2c";
        let silent = move |wire: &mut Wire| {
            if is_h2 {
                let _ = Peer::accept(wire, &[(setting::MAX_CONCURRENT_STREAMS, 100)]).end();
            } else {
                let _ = wire.end();
            }
        };
        let origins = [Scripted::tcp().serve(silent), Scripted::tcp().serve(silent)];
        let toml = format!(
            "[pool.app]\nprotocol = \"{protocol}\"\nendpoints = {:?}\n{STRICT}\n[site.\":0\"]\n\
             listen = [\"127.0.0.1\"]\nproxy = \"pool:app\"\ntimeouts = {{ response = \"200ms\" }}\n",
            origins.each_ref().map(|origin| origin.address()),
        );
        let gate = lockgate().start(&toml);
        for _ in 0..3 {
            let mut http = Http::connect(gate.address());
            http.send(
                "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
            );
            http.expect("HTTP/1.1 504 ");
        }
        assert_none_is_ejected(&gate, protocol);
        // An endpoint that has the whole request and sends nothing is to blame.
        assert_eq!(ask(&gate, post(b"whole")).status(), 504);
        gate.wait_for_sample("lockgate_upstream_ejections_total", &[], 1.0);
    }
}

/// A reset counts as the 502 that the client gets: only where the operator configures statuses.
#[test]
fn rst_stream_counts_as_502_for_ejection() {
    let eject = |statuses: &str| {
        format!(
            "balance = \"round-robin\"\nretry = false\neject = {{ errors = 3, for = \"60s\"{statuses} }}"
        )
    };
    for (code, statuses, ejections) in [
        (code::INTERNAL_ERROR, ", statuses = [\"502\"]", 1.0),
        (code::CANCEL, ", statuses = [\"500-504\"]", 1.0),
        (code::INTERNAL_ERROR, ", statuses = [\"503\"]", 0.0),
        (code::INTERNAL_ERROR, "", 0.0),
        (code::REFUSED_STREAM, ", statuses = [\"502\"]", 0.0),
    ] {
        let (good, bad) = (
            origin(),
            Origin::plain(move |_| ScriptedResponse::refuse(code)),
        );
        let gate = lockgate().start(&pooled(&[&good.address(), &bad.address()], eject(statuses)));
        let mut reset = 0;
        for _ in 0..20 {
            reset += usize::from(ask(&gate, get("/")).status() == 502);
        }
        let found = gate.sample("lockgate_upstream_ejections_total", &[&bad.address()]);
        assert_eq!(found, ejections, "{code} {statuses}");
        if ejections > 0.0 {
            assert_eq!(reset, 3, "{code} {statuses}");
        }
        assert_eq!(
            gate.sample("lockgate_upstream_ejections_total", &[&good.address()]),
            0.0
        );
    }
}
