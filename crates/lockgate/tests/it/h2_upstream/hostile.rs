//! Endpoints that break the rules of HTTP/2: the response of their client, that others are served,
//! that nothing grows, and whether it counts against the endpoint.

use std::{io, thread};

use lockgate_testkit::h2::frame::{self, code, flag, kind, setting};
use lockgate_testkit::h2::{Origin, Peer, ScriptedResponse, hpack};
use lockgate_testkit::{Http, Lockgate, Origin as Scripted};

use super::{get, post};
use crate::scene::lockgate;

/// The response that the client of an endpoint gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A response with this status, to its end.
    Whole(u16),
    /// The beginning of a response, and never its end.
    Broken,
}

use Told::{Broken, Whole};

/// One endpoint's misbehaviour.
struct Case {
    name: &'static str,
    settings: &'static [(u16, u32)],
    /// A body for the request, which is a GET without one.
    upload: usize,
    /// The frames that follow the request on this stream.
    script: fn(&mut Peer, u32),
    told: Told,
    /// Whether it counts against the endpoint.
    blamed: bool,
    /// Whether the connection ends behind the script.
    closes: bool,
}

const STREAMS: (u16, u32) = (setting::MAX_CONCURRENT_STREAMS, 100);
const OK: &[(&str, &str)] = &[(":status", "200")];

const FAILS: Case = Case {
    name: "",
    settings: &[STREAMS],
    upload: 0,
    script: |_, _| {},
    told: Whole(502),
    blamed: true,
    closes: false,
};
const GOES: Case = Case {
    told: Whole(200),
    blamed: false,
    ..FAILS
};
const BREAKS: Case = Case {
    told: Broken,
    blamed: false,
    ..FAILS
};

fn ok(peer: &mut Peer, stream: u32) {
    let _ = peer.try_send(frame::frame(
        kind::HEADERS,
        flag::END_HEADERS,
        stream,
        hpack::section(OK),
    ));
    let _ = peer.try_send(frame::frame(kind::DATA, flag::END_STREAM, stream, "ok"));
}

/// Sends as much as is taken, and reads meanwhile, as an endpoint does.
fn flood(peer: &mut Peer, frame: &[u8], count: usize) {
    let mut reader = peer.another();
    thread::spawn(move || io::copy(&mut reader.stream, &mut io::sink()));
    let many = frame.repeat(100);
    for _ in 0..count / 100 {
        if peer.try_send(&many).is_err() {
            return;
        }
    }
}

fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame::frame(kind::HEADERS, flags, stream, hpack::section(fields))
}

/// A response with its head in two frames; the first ends within the last field.
fn split(peer: &mut Peer, stream: u32, fields: &[(&str, &str)]) {
    let section = hpack::section(fields);
    let (front, back) = section.split_at(section.len() - 3);
    let _ = peer.try_send(frame::frame(kind::HEADERS, 0, stream, front));
    let _ = peer.try_send(frame::frame(
        kind::CONTINUATION,
        flag::END_HEADERS,
        stream,
        back,
    ));
    let _ = peer.try_send(frame::frame(kind::DATA, flag::END_STREAM, stream, "ok"));
}

const CASES: &[Case] = &[
    // Floods: each frame needs an acknowledgement, or carries nothing.
    Case {
        name: "SETTINGS flood",
        script: |peer, stream| {
            flood(peer, &frame::frame(kind::SETTINGS, 0, 0, ""), 20_000);
            ok(peer, stream);
        },
        ..GOES
    },
    Case {
        name: "PING flood",
        script: |peer, stream| {
            flood(peer, &frame::frame(kind::PING, 0, 0, [7; 8]), 20_000);
            ok(peer, stream);
        },
        ..GOES
    },
    Case {
        name: "unknown frames",
        script: |peer, stream| {
            flood(peer, &frame::frame(0xbb, 0xff, stream, "what"), 20_000);
            flood(peer, &frame::frame(0xbb, 0xff, 0, "what"), 20_000);
            ok(peer, stream);
        },
        ..GOES
    },
    Case {
        name: "PRIORITY flood",
        script: |peer, stream| {
            flood(
                peer,
                &frame::frame(kind::PRIORITY, 0, stream, [0, 0, 0, 0, 7]),
                20_000,
            );
            ok(peer, stream);
        },
        ..GOES
    },
    Case {
        name: "empty DATA flood",
        script: |peer, stream| {
            peer.headers(stream, OK, false);
            flood(peer, &frame::frame(kind::DATA, 0, stream, ""), 20_000);
        },
        ..BREAKS
    },
    Case {
        name: "1xx without end",
        script: |peer, stream| {
            let hints = headers(
                stream,
                flag::END_HEADERS,
                &[(":status", "103"), ("link", "</a>")],
            );
            flood(peer, &hints, 20_000);
        },
        ..FAILS
    },
    Case {
        name: "CONTINUATION flood",
        script: |peer, stream| {
            peer.send(headers(stream, 0, OK));
            flood(
                peer,
                &frame::frame(kind::CONTINUATION, 0, stream, ""),
                20_000,
            );
        },
        ..FAILS
    },
    Case {
        name: "CONTINUATION with large fields",
        script: |peer, stream| {
            peer.send(headers(stream, 0, OK));
            let field = hpack::section(&[("x", &"x".repeat(16_000))]);
            flood(
                peer,
                &frame::frame(kind::CONTINUATION, 0, stream, field),
                1_000,
            );
        },
        ..FAILS
    },
    // Windows. RFC 9113 §5.1: the request has ended, so that its window is of no use and not looked at.
    // The timeout ends the wait for a response.
    Case {
        name: "window of the stream overflows",
        script: |peer, stream| peer.window_update(stream, u32::MAX >> 1),
        told: Whole(504),
        ..FAILS
    },
    Case {
        name: "window of the connection overflows",
        script: |peer, _| {
            peer.window_update(0, u32::MAX >> 1);
        },
        ..FAILS
    },
    Case {
        name: "window update of 0",
        script: |peer, _| peer.window_update(0, 0),
        ..FAILS
    },
    Case {
        name: "windows by SETTINGS beyond 2^31",
        script: |peer, _| peer.settings(&[(setting::INITIAL_WINDOW_SIZE, u32::MAX)]),
        ..FAILS
    },
    Case {
        name: "a window of 0 for ever",
        settings: &[STREAMS, (setting::INITIAL_WINDOW_SIZE, 0)],
        upload: 100_000,
        told: Whole(504),
        ..FAILS
    },
    // DATA and HEADERS out of their order.
    Case {
        name: "DATA before HEADERS",
        script: |peer, stream| peer.data(stream, "x", true),
        ..FAILS
    },
    Case {
        name: "two final heads",
        script: |peer, stream| {
            peer.send(
                [
                    headers(stream, flag::END_HEADERS, OK),
                    headers(stream, flag::END_HEADERS, OK),
                ]
                .concat(),
            )
        },
        ..FAILS
    },
    Case {
        name: "a second head as trailers",
        script: |peer, stream| {
            let end = flag::END_HEADERS | flag::END_STREAM;
            peer.send(
                [
                    headers(stream, flag::END_HEADERS, OK),
                    headers(stream, end, OK),
                ]
                .concat(),
            );
        },
        ..FAILS
    },
    Case {
        name: "trailers with :path behind a body",
        script: |peer, stream| {
            peer.headers(stream, OK, false);
            peer.data(stream, "body", false);
            peer.settle();
            peer.headers(stream, &[(":path", "/")], true);
        },
        ..BREAKS
    },
    Case {
        name: "an answer with :path",
        script: |peer, stream| peer.headers(stream, &[(":status", "200"), (":path", "/")], true),
        ..FAILS
    },
    Case {
        name: "an answer with :method before the answer",
        script: |peer, stream| {
            peer.headers(stream, &[(":status", "103"), (":method", "GET")], false);
            ok(peer, stream);
        },
        ..FAILS
    },
    Case {
        name: "an answer with two :status, split within a field",
        script: |peer, stream| {
            split(
                peer,
                stream,
                &[(":status", "200"), (":status", "404"), ("x", "value")],
            )
        },
        ..FAILS
    },
    Case {
        name: "an answer with transfer-encoding, split within a field",
        script: |peer, stream| {
            split(
                peer,
                stream,
                &[
                    (":status", "200"),
                    ("transfer-encoding", "chunked"),
                    ("x", "value"),
                ],
            );
        },
        ..FAILS
    },
    Case {
        name: "an answer that is split within a field",
        script: |peer, stream| split(peer, stream, &[(":status", "200"), ("x", "value")]),
        ..GOES
    },
    Case {
        name: "a head that depends on its own stream",
        script: |peer, stream| {
            let block = [&stream.to_be_bytes()[..], &[16], &hpack::section(OK)].concat();
            let flags = flag::END_HEADERS | flag::END_STREAM | flag::PRIORITY;
            let _ = peer.try_send(frame::frame(kind::HEADERS, flags, stream, block));
        },
        ..FAILS
    },
    Case {
        name: "a head without :status",
        script: |peer, stream| peer.headers(stream, &[("x", "y")], true),
        ..FAILS
    },
    Case {
        name: "an answer whose end is that of 103",
        script: |peer, stream| peer.headers(stream, &[(":status", "103")], true),
        ..FAILS
    },
    Case {
        name: "more DATA than Content-Length",
        script: |peer, stream| {
            peer.headers(
                stream,
                &[(":status", "200"), ("content-length", "1")],
                false,
            );
            peer.settle();
            peer.data(stream, "much more", true);
        },
        ..BREAKS
    },
    Case {
        name: "DATA after the end",
        script: |peer, stream| {
            ok(peer, stream);
            peer.data(stream, "more", false);
        },
        ..GOES
    },
    Case {
        name: "HEADERS after the end",
        script: |peer, stream| {
            ok(peer, stream);
            peer.headers(stream, OK, true);
        },
        ..GOES
    },
    Case {
        name: "DATA beyond the window",
        script: |peer, stream| {
            peer.headers(stream, OK, false);
            flood(
                peer,
                &frame::frame(kind::DATA, 0, stream, [1; 16_384]),
                8_000,
            );
        },
        ..BREAKS
    },
    // Streams that do not exist.
    Case {
        name: "an answer to nobody",
        script: |peer, stream| peer.headers(stream + 2, OK, true),
        ..FAILS
    },
    Case {
        name: "HEADERS on an even stream",
        script: |peer, _| peer.headers(2, OK, true),
        ..FAILS
    },
    Case {
        name: "HEADERS on the connection",
        script: |peer, _| peer.headers(0, OK, true),
        ..FAILS
    },
    Case {
        name: "a reset of a stream that is idle",
        script: |peer, stream| peer.reset(stream + 2, 0),
        ..FAILS
    },
    Case {
        name: "a push though that is disabled",
        script: |peer, stream| {
            let get = [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "app.test"),
                (":path", "/"),
            ];
            let pushed = [&[0, 0, 0, 2][..], &hpack::section(&get)].concat();
            peer.frame(kind::PUSH_PROMISE, flag::END_HEADERS, stream, pushed);
        },
        ..FAILS
    },
    // Frames that are none.
    Case {
        name: "a frame of 16 MB",
        script: |peer, stream| {
            peer.send([0xff, 0xff, 0xff, kind::DATA, 0, 0, 0, 0, stream as u8]);
            flood(peer, &[0; 16_384], 2_000);
        },
        ..FAILS
    },
    Case {
        name: "SETTINGS of a wrong length",
        script: |peer, _| peer.frame(kind::SETTINGS, 0, 0, [0; 5]),
        ..FAILS
    },
    Case {
        name: "frames of one byte at most",
        script: |peer, _| peer.settings(&[(setting::MAX_FRAME_SIZE, 1)]),
        ..FAILS
    },
    Case {
        name: "frames of any size",
        script: |peer, _| peer.settings(&[(setting::MAX_FRAME_SIZE, u32::MAX)]),
        ..FAILS
    },
    Case {
        name: "a head that HPACK cannot decode",
        script: |peer, stream| peer.frame(kind::HEADERS, flag::END_HEADERS, stream, [0x80 | 62]),
        ..FAILS
    },
    Case {
        name: "HTTP/1",
        script: |peer, _| peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ..FAILS
    },
    // Unusual and allowed.
    Case {
        name: "no table for our heads",
        settings: &[STREAMS, (setting::HEADER_TABLE_SIZE, 0)],
        script: ok,
        ..GOES
    },
    Case {
        name: "a table for our heads of any size",
        settings: &[STREAMS, (setting::HEADER_TABLE_SIZE, u32::MAX)],
        script: ok,
        ..GOES
    },
    Case {
        name: "the table of its heads emptied and filled",
        script: |peer, stream| {
            let sizes = [hpack::table_size(0), hpack::table_size(4_096)].concat();
            let head = [
                sizes,
                hpack::section(OK),
                hpack::remembered("x", "y"),
                hpack::indexed(62),
            ]
            .concat();
            peer.frame(
                kind::HEADERS,
                flag::END_HEADERS | flag::END_STREAM,
                stream,
                head,
            );
        },
        ..GOES
    },
    Case {
        name: "no streams from now on",
        script: |peer, stream| {
            peer.settings(&[(setting::MAX_CONCURRENT_STREAMS, 0)]);
            ok(peer, stream);
        },
        ..GOES
    },
    // Resets: a response to one request.
    Case {
        name: "a reset with NO_ERROR",
        script: |peer, stream| peer.reset(stream, 0),
        blamed: false,
        ..FAILS
    },
    Case {
        name: "a reset with CANCEL",
        script: |peer, stream| peer.reset(stream, 8),
        blamed: false,
        ..FAILS
    },
    Case {
        name: "a reset with a strange code",
        script: |peer, stream| peer.reset(stream, 0xdead_beef),
        blamed: false,
        ..FAILS
    },
    Case {
        name: "a reset with REFUSED_STREAM",
        script: |peer, stream| peer.reset(stream, code::REFUSED_STREAM),
        blamed: false,
        ..FAILS
    },
    Case {
        name: "a reset with NO_ERROR within the answer",
        script: |peer, stream| {
            peer.headers(stream, OK, false);
            peer.data(stream, "half", false);
            peer.settle();
            peer.reset(stream, 0);
        },
        ..BREAKS
    },
    // Goodbyes.
    Case {
        name: "GOAWAY with an error",
        script: |peer, stream| peer.goaway(stream, code::INTERNAL_ERROR),
        closes: true,
        ..FAILS
    },
    Case {
        name: "GOAWAY, and the answer",
        script: |peer, stream| {
            peer.goaway(stream, code::NO_ERROR);
            ok(peer, stream);
        },
        ..GOES
    },
    Case {
        name: "GOAWAY twice with less",
        script: |peer, stream| {
            peer.goaway(u32::MAX >> 1, code::NO_ERROR);
            peer.goaway(stream, code::NO_ERROR);
            ok(peer, stream);
        },
        ..GOES
    },
    Case {
        name: "GOAWAY twice with more",
        script: |peer, stream| {
            peer.goaway(stream, code::NO_ERROR);
            peer.goaway(stream + 2, code::NO_ERROR);
        },
        ..FAILS
    },
    Case {
        name: "GOAWAY that is cut",
        script: |peer, _| peer.frame(kind::GOAWAY, 0, 0, [0; 4]),
        ..FAILS
    },
    Case {
        name: "a close without a goodbye",
        closes: true,
        ..FAILS
    },
];

/// A pool for each case: the endpoint, and one that takes over when it is ejected, after one
/// failure.
fn pools(endpoints: &[String], good: &str) -> String {
    let mut toml =
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\ntimeouts = { response = \"1s\", connect = \"1s\" }\n\
                    respond = \"fine\"\n"
            .to_owned();
    for number in 0..endpoints.len() {
        toml += &format!("[site.\":0\".path.\"/{number}\"]\nproxy = \"pool:p{number}\"\n");
    }
    for (number, endpoint) in endpoints.iter().enumerate() {
        toml += &format!(
            "[pool.p{number}]\nprotocol = \"h2c\"\nretry = false\neject = {{ errors = 1, for = \"600s\" }}\n\
             endpoints = [\"{endpoint}\", {{ addr = \"{good}\", backup = true }}]\n"
        );
    }
    toml
}

/// The response that a client gets for its request.
fn told(http: &mut Http) -> Told {
    let bytes = http.end().0;
    let text = String::from_utf8_lossy(&bytes);
    let mut rest = &*text;
    // Interim responses.
    while rest.starts_with("HTTP/1.1 1") {
        rest = rest.split_once("\r\n\r\n").map_or("", |(_, rest)| rest);
    }
    let (head, body) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    let whole = length.map_or(body.ends_with("0\r\n\r\n"), |length: usize| {
        body.len() == length
    });
    if whole { Whole(status) } else { Broken }
}

fn ejected(gate: &Lockgate, endpoint: &str) -> bool {
    gate.sample(
        "lockgate_upstream_ejections_total",
        &[&format!("endpoint=\"{endpoint}\"")],
    ) > 0.0
}

/// Plays one case; returns its differences.
fn play(gate: &Lockgate, case: &Case, number: usize, origin: &Scripted) -> Vec<String> {
    let mut http = Http::connect(gate.address());
    let length = case.upload;
    let method = if length > 0 { "POST" } else { "GET" };
    let length = if length > 0 {
        format!("Content-Length: {length}\r\n")
    } else {
        String::new()
    };
    let head = format!(
        "{method} /{number} HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n{length}\r\n"
    );
    http.send([head.into_bytes(), vec![b'x'; case.upload]].concat());
    let mut peer = Peer::accept(origin.accept(), case.settings);
    let request = peer.read_until(kind::HEADERS);
    peer.fields(&request);
    (case.script)(&mut peer, request.stream);
    let open = Some(peer).filter(|_| !case.closes);
    let told = told(&mut http);
    drop(open);
    let mut wrong = Vec::new();
    if told != case.told {
        wrong.push(format!(
            "{}: the client gets {told:?} and not {:?}",
            case.name, case.told
        ));
    }
    let blamed = ejected(gate, &origin.address());
    if blamed != case.blamed {
        wrong.push(format!(
            "{}: {}",
            case.name,
            if blamed { "is blamed" } else { "is not blamed" }
        ));
    }
    let target = format!("/{number}");
    let line = gate.line(case.name, |line| line["target"] == target);
    if case.told != Whole(200) && line["side"] != "upstream" {
        wrong.push(format!("{}: is told as {line}", case.name));
    }
    wrong
}

#[test]
fn misbehaving_http2_endpoints_harm_no_other_request() {
    let good = Origin::plain(|_| ScriptedResponse::ok("good"));
    let origins: Vec<_> = CASES.iter().map(|_| Scripted::tcp()).collect();
    let addresses: Vec<_> = origins.iter().map(Scripted::address).collect();
    let gate = lockgate().start(&pools(&addresses, &good.address()));
    let mut other = Http::connect(gate.address());
    let before = gate.resident();
    let mut wrong = Vec::new();
    for (number, (case, origin)) in CASES.iter().zip(&origins).enumerate() {
        println!("{}", case.name);
        wrong.extend(play(&gate, case, number, origin));
        other.send(get("/other"));
        assert_eq!(other.answer().text(), "fine", "after {}", case.name);
    }
    let grown = gate.most_resident().saturating_sub(before);
    assert!(grown < 64_000_000, "{grown} bytes");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// An endpoint that never sends SETTINGS is one that does not answer.
#[test]
fn an_endpoint_without_settings_is_ejected_and_the_request_retried() {
    for settings in [None, Some(0)] {
        let origin = Scripted::tcp();
        let good = Origin::plain(|_| ScriptedResponse::ok("good"));
        let gate = lockgate().start(&pools(&[origin.address()], &good.address()));
        let mut http = Http::connect(gate.address());
        http.send(get("/0"));
        let wire = origin.accept();
        // None at all, or no streams.
        let _peer = match settings {
            Some(streams) => Peer::accept(wire, &[(setting::MAX_CONCURRENT_STREAMS, streams)]),
            None => Peer::over(wire),
        };
        // No request was sent to it: another endpoint gets it.
        assert_eq!(http.answer().text(), "good", "{settings:?}");
        assert!(ejected(&gate, &origin.address()), "{settings:?}");
    }
}

/// RFC 9113 §6.8: streams above the last one were not looked at, for any method; streams below go
/// on. §6.5.2: streams beyond a lowered limit go on as well.
#[test]
fn goaway_and_lowered_stream_limits_lose_no_request() {
    let origin = Scripted::tcp();
    let gate = lockgate().start(&super::pooled(
        &[&origin.address()],
        "retry = { budget = \"100%\" }",
    ));
    let mut clients: Vec<_> = (0..10).map(|_| Http::connect(gate.address())).collect();
    clients[0].send(post(b"first"));
    let mut peer = Peer::accept(origin.accept(), &[STREAMS]);
    let mut streams = Vec::new();
    let next = |peer: &mut Peer| {
        let headers = peer.read_until(kind::HEADERS);
        peer.fields(&headers);
        headers.stream
    };
    streams.push(next(&mut peer));
    for http in &mut clients[1..] {
        http.send(post(b"more"));
        streams.push(next(&mut peer));
    }
    // Fewer than there are, then none at all: they go on.
    peer.settings(&[(setting::MAX_CONCURRENT_STREAMS, 1)]);
    peer.settings(&[(setting::MAX_CONCURRENT_STREAMS, 0)]);
    peer.goaway(u32::MAX >> 1, code::NO_ERROR);
    peer.goaway(streams[6], code::NO_ERROR);
    peer.goaway(streams[4], code::NO_ERROR);
    let mut again = Peer::accept(origin.accept(), &[STREAMS]);
    for _ in 5..10 {
        let stream = next(&mut again);
        again.headers(stream, &[(":status", "201")], true);
    }
    for stream in &streams[..5] {
        peer.headers(*stream, OK, true);
    }
    for (number, http) in clients.iter_mut().enumerate() {
        assert_eq!(
            http.answer().status(),
            if number < 5 { 200 } else { 201 },
            "{number}"
        );
    }
    peer.end().1.unwrap();
}
