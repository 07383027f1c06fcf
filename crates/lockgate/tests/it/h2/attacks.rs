//! Attacks over one HTTP/2 connection, frames by the thousand, and the GOAWAY code that each should
//! end with.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockgate_testkit::Wire;
use lockgate_testkit::h2::frame::{self, code, flag, frame, kind, setting};
use lockgate_testkit::h2::{GoAway, Peer, hpack};

/// An attack: the bytes that are sent once, then the steps that are repeated.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) settings: &'static [(u16, u32)],
    pub(super) begin: fn() -> Vec<u8>,
    /// The bytes of one step, of which there are as many as the attacker likes; counted from 0.
    pub(super) step: fn(u32) -> Vec<u8>,
    /// Whether the attacker reads before it can send no more.
    pub(super) reads: bool,
    /// The codes of GOAWAY by which it may end; where there are none it may go on, since it costs
    /// nothing.
    pub(super) ends: &'static [u32],
}

/// It is nothing wrong but that it is too much.
const CALM: &[u32] = &[code::ENHANCE_YOUR_CALM];
/// The first of it is wrong already, and might end the connection.
const WRONG: &[u32] = &[
    code::ENHANCE_YOUR_CALM,
    code::PROTOCOL_ERROR,
    code::FLOW_CONTROL_ERROR,
    code::STREAM_CLOSED,
    code::FRAME_SIZE_ERROR,
    code::COMPRESSION_ERROR,
];

/// The outcome of an attack.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The attacker's, by which the log knows it.
    pub(super) port: u16,
    /// Whether the peer stopped reading instead.
    pub(super) stalled: bool,
    /// Whether it closed the connection, which the attacker never does.
    pub(super) closed: bool,
    pub(super) goaway: Option<GoAway>,
    /// Codes of RST_STREAM, with how often they came.
    pub(super) resets: BTreeMap<u32, u32>,
    /// Statuses of responses, likewise.
    pub(super) statuses: BTreeMap<String, u32>,
    /// Frames of other kinds, likewise.
    pub(super) frames: BTreeMap<u8, u32>,
}

/// As long as a peer may do nothing at all before it counts as stalled.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends at most this many steps.
pub(super) fn flood(attack: &Attack, to: SocketAddr, most: u32) -> Outcome {
    let mut peer = Peer::over(Wire::connect(to));
    peer.stream.limit(PATIENCE);
    peer.hello(attack.settings);
    peer.send((attack.begin)());
    let over = Arc::new(AtomicBool::new(false));
    let reader = attack.reads.then(|| {
        let (mut reading, over) = (peer.another(), Arc::clone(&over));
        std::thread::spawn(move || observe(&mut reading, &over))
    });
    let (mut steps, mut ended, mut stalled) = (0, false, false);
    let mut bytes = Vec::new();
    while steps < most && !ended && !stalled {
        bytes.clear();
        while bytes.len() < 8 * 1024 && steps < most {
            bytes.extend((attack.step)(steps));
            steps += 1;
        }
        let sent = peer.try_send(&bytes);
        stalled = sent
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        ended = sent.is_err() && !stalled || over.load(Ordering::SeqCst);
    }
    let seen = match reader {
        Some(reader) => reader.join().unwrap(),
        None => observe(&mut peer, &over),
    };
    Outcome {
        port: peer.stream.local_address().port(),
        stalled,
        ..seen
    }
}

/// The same without reading before the end, over any transport, for an attack that begins with
/// nothing; the peer's GOAWAY.
pub(super) fn flood_unread<S: Read + Write>(
    attack: &Attack,
    peer: &mut Peer<S>,
    most: u32,
) -> Option<GoAway> {
    let mut steps = 0..most;
    let mut ended = false;
    while !ended && !steps.is_empty() {
        let bytes: Vec<u8> = steps.by_ref().take(100).flat_map(attack.step).collect();
        ended = peer.try_send(bytes).is_err();
    }
    let (frames, _) = peer.end();
    GoAway::last(&frames)
}

/// Reads to the end, and returns when it comes or is announced.
fn observe(peer: &mut Peer, over: &AtomicBool) -> Outcome {
    let mut seen = Outcome::default();
    loop {
        let frame = match peer.try_next() {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                seen.closed = true;
                break;
            }
            Err(error) => {
                seen.closed = error.kind() != ErrorKind::WouldBlock;
                break;
            }
        };
        match frame.kind {
            kind::HEADERS => {
                let status = peer
                    .fields(&frame)
                    .into_iter()
                    .find(|(name, _)| name == ":status");
                *seen
                    .statuses
                    .entry(status.map(|(_, status)| status).unwrap_or_default())
                    .or_default() += 1;
            }
            kind::RST_STREAM => *seen.resets.entry(frame.number(0)).or_default() += 1,
            kind::GOAWAY => {
                over.store(true, Ordering::SeqCst);
                seen.goaway = Some(GoAway::of(&frame));
            }
            other => *seen.frames.entry(other).or_default() += 1,
        }
    }
    over.store(true, Ordering::SeqCst);
    seen
}

/// HEADERS of a request.
fn request(stream: u32, method: &str, more: &[(&str, &str)], end: bool) -> Vec<u8> {
    let mut fields = vec![
        (":method", method),
        (":scheme", "http"),
        (":authority", "app.test"),
        (":path", "/"),
    ];
    fields.extend_from_slice(more);
    let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flags, stream, hpack::section(&fields))
}

fn get(stream: u32) -> Vec<u8> {
    request(stream, "GET", &[], true)
}

fn post(stream: u32) -> Vec<u8> {
    request(stream, "POST", &[], false)
}

fn reset(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, code::CANCEL.to_be_bytes())
}

fn window_update(stream: u32, more: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, more.to_be_bytes())
}

fn nothing() -> Vec<u8> {
    Vec::new()
}

fn upload() -> Vec<u8> {
    post(1)
}

/// The nth stream of a client.
fn nth(step: u32) -> u32 {
    2 * step + 1
}

/// The same for those that follow [`upload`].
fn after(step: u32) -> u32 {
    2 * step + 3
}

const READS: Attack = Attack {
    name: "",
    settings: &[],
    begin: nothing,
    step: |_| Vec::new(),
    reads: true,
    ends: CALM,
};
const BREAKS: Attack = Attack {
    ends: WRONG,
    ..READS
};
const HARMLESS: Attack = Attack { ends: &[], ..READS };

/// A field section that is not whole, and its number of bytes.
fn unfinished() -> Vec<u8> {
    let section = hpack::section(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]);
    frame(kind::HEADERS, flag::END_STREAM, 1, section)
}

/// A request with as many references to one entry of 4,000 bytes as a frame has room for: 16 KB
/// that stand for 62 MB.
fn bomb(stream: u32, name: &str) -> Vec<u8> {
    let mut section = hpack::section(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]);
    section.extend(hpack::remembered(name, "x".repeat(4_000)));
    section.resize(16_384, hpack::indexed(62)[0]);
    frame(
        kind::HEADERS,
        flag::END_HEADERS | flag::END_STREAM,
        stream,
        section,
    )
}

pub(super) const RAPID_RESET: Attack = Attack {
    name: "rapid reset",
    step: |step| [get(nth(step)), reset(nth(step))].concat(),
    ..READS
};

pub(super) const RAPID_RESET_OF_UPLOADS: Attack = Attack {
    name: "rapid reset of uploads",
    step: |step| {
        let data = frame(kind::DATA, 0, nth(step), "x".repeat(100));
        [post(nth(step)), data, reset(nth(step))].concat()
    },
    ..READS
};

/// CVE-2025-8671: the peer resets, for a mistake that the client makes on purpose.
pub(super) const MADE_YOU_RESET: [Attack; 8] = [
    Attack {
        name: "window update of 0",
        step: |step| [get(nth(step)), window_update(nth(step), 0)].concat(),
        ..BREAKS
    },
    Attack {
        name: "window overflow",
        step: |step| [get(nth(step)), window_update(nth(step), u32::MAX >> 1)].concat(),
        ..BREAKS
    },
    Attack {
        name: "DATA on a half-closed stream",
        step: |step| {
            [
                get(nth(step)),
                frame(kind::DATA, flag::END_STREAM, nth(step), "x"),
            ]
            .concat()
        },
        ..BREAKS
    },
    Attack {
        name: "HEADERS on a half-closed stream",
        step: |step| [get(nth(step)), get(nth(step))].concat(),
        ..BREAKS
    },
    Attack {
        name: "PRIORITY that depends on itself",
        step: |step| {
            let priority = [&nth(step).to_be_bytes()[..], &[1]].concat();
            [
                get(nth(step)),
                frame(kind::PRIORITY, 0, nth(step), priority),
            ]
            .concat()
        },
        ..BREAKS
    },
    Attack {
        name: "PRIORITY of a wrong length",
        step: |step| [get(nth(step)), frame(kind::PRIORITY, 0, nth(step), "abcd")].concat(),
        ..BREAKS
    },
    Attack {
        name: "more DATA than its length says",
        step: |step| {
            let head = request(nth(step), "POST", &[("content-length", "1")], false);
            [head, frame(kind::DATA, flag::END_STREAM, nth(step), "xy")].concat()
        },
        ..BREAKS
    },
    Attack {
        name: "malformed requests",
        step: |step| request(nth(step), "GET", &[("connection", "close")], true),
        ..BREAKS
    },
];

pub(super) const CONTINUATIONS: [Attack; 4] = [
    Attack {
        name: "empty CONTINUATION",
        begin: unfinished,
        step: |_| frame(kind::CONTINUATION, 0, 1, ""),
        ..BREAKS
    },
    Attack {
        name: "small CONTINUATION",
        begin: unfinished,
        step: |_| frame(kind::CONTINUATION, 0, 1, hpack::never_indexed("a", "b")),
        ..BREAKS
    },
    Attack {
        name: "large CONTINUATION",
        begin: unfinished,
        step: |_| {
            frame(
                kind::CONTINUATION,
                0,
                1,
                hpack::section(&[("a", &"x".repeat(16_000))]),
            )
        },
        ..BREAKS
    },
    Attack {
        name: "CONTINUATION of one endless value",
        begin: || {
            let value = [
                vec![0x10],
                hpack::string("a"),
                hpack::number(0, 7, 200_000_000),
            ]
            .concat();
            [unfinished(), frame(kind::CONTINUATION, 0, 1, value)].concat()
        },
        step: |_| frame(kind::CONTINUATION, 0, 1, "x".repeat(16_384)),
        ..BREAKS
    },
];

pub(super) const BOMBS: [Attack; 4] = [
    Attack {
        name: "references to one large field",
        step: |step| bomb(nth(step), "a"),
        ..BREAKS
    },
    Attack {
        name: "references to one large cookie",
        step: |step| bomb(nth(step), "cookie"),
        ..BREAKS
    },
    Attack {
        name: "many tiny fields",
        step: |step| {
            let mut section =
                hpack::section(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]);
            // accept-charset without a value, by one byte.
            section.resize(16_384, hpack::indexed(15)[0]);
            frame(
                kind::HEADERS,
                flag::END_HEADERS | flag::END_STREAM,
                nth(step),
                section,
            )
        },
        ..BREAKS
    },
    Attack {
        name: "a table of another size in every request",
        step: |step| {
            let mut section = [hpack::table_size(0), hpack::table_size(4096)].concat();
            section.extend(hpack::section(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
            ]));
            for _ in 0..400 {
                section.extend(hpack::remembered("", ""));
            }
            frame(
                kind::HEADERS,
                flag::END_HEADERS | flag::END_STREAM,
                nth(step),
                section,
            )
        },
        ..BREAKS
    },
];

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    frame(kind::SETTINGS, 0, 0, frame::settings(values))
}

/// CVE-2019-9512, 9515 and their kind: every frame needs an acknowledgement.
pub(super) const ANSWERED: [Attack; 7] = [
    Attack {
        name: "SETTINGS",
        step: |_| settings(&[]),
        ..READS
    },
    Attack {
        name: "SETTINGS, unread",
        step: |_| settings(&[]),
        reads: false,
        ..READS
    },
    Attack {
        name: "windows of all streams up and down",
        begin: || (0..100).flat_map(|step| post(nth(step))).collect(),
        step: |step| settings(&[(setting::INITIAL_WINDOW_SIZE, 1_000 + step % 2)]),
        ..READS
    },
    Attack {
        name: "SETTINGS of many values",
        step: |_| {
            settings(
                &[
                    (setting::HEADER_TABLE_SIZE, 0),
                    (setting::HEADER_TABLE_SIZE, 4096),
                ]
                .repeat(1_300),
            )
        },
        ..READS
    },
    Attack {
        name: "PING",
        step: |_| frame(kind::PING, 0, 0, "01234567"),
        ..READS
    },
    Attack {
        name: "PING, unread",
        step: |_| frame(kind::PING, 0, 0, "01234567"),
        reads: false,
        ..READS
    },
    Attack {
        name: "requests, unread",
        step: |step| get(nth(step)),
        reads: false,
        ..READS
    },
];

/// Frames that carry nothing.
pub(super) const IDLE: [Attack; 13] = [
    Attack {
        name: "answers to no PING",
        step: |_| frame(kind::PING, flag::ACK, 0, "01234567"),
        ..READS
    },
    Attack {
        name: "answers to no SETTINGS",
        step: |_| frame(kind::SETTINGS, flag::ACK, 0, ""),
        ..BREAKS
    },
    Attack {
        name: "empty DATA",
        begin: upload,
        step: |_| frame(kind::DATA, 0, 1, ""),
        ..READS
    },
    Attack {
        name: "padded empty DATA",
        begin: upload,
        step: |_| {
            frame(
                kind::DATA,
                flag::PADDED,
                1,
                [&[255][..], &[0; 255]].concat(),
            )
        },
        ..READS
    },
    Attack {
        name: "DATA padded by nothing",
        begin: upload,
        step: |_| frame(kind::DATA, flag::PADDED, 1, [0]),
        ..READS
    },
    Attack {
        name: "WINDOW_UPDATE of the connection",
        step: |_| window_update(0, 1),
        ..READS
    },
    Attack {
        name: "WINDOW_UPDATE of a stream",
        begin: upload,
        step: |_| window_update(1, 1),
        ..READS
    },
    Attack {
        name: "WINDOW_UPDATE of a closed stream",
        begin: || [get(1), reset(1)].concat(),
        step: |_| window_update(1, 1),
        ..READS
    },
    Attack {
        name: "PRIORITY",
        step: |step| {
            frame(
                kind::PRIORITY,
                0,
                2 * (step % 1_000_000) + 3,
                [0, 0, 0, 1, 5],
            )
        },
        ..READS
    },
    Attack {
        name: "PRIORITY_UPDATE",
        step: |step| {
            frame(
                kind::PRIORITY_UPDATE,
                0,
                0,
                [&nth(step).to_be_bytes()[..], b"u=1"].concat(),
            )
        },
        ..READS
    },
    Attack {
        name: "frames of no known kind",
        step: |_| frame(0xbe, 0, 0, "x".repeat(100)),
        ..READS
    },
    Attack {
        name: "RST_STREAM of a closed stream",
        begin: || [get(1), reset(1)].concat(),
        step: |_| reset(1),
        ..READS
    },
    Attack {
        name: "GOAWAY",
        step: |_| {
            frame(
                kind::GOAWAY,
                0,
                0,
                [0_u32.to_be_bytes(), code::NO_ERROR.to_be_bytes()].concat(),
            )
        },
        ..HARMLESS
    },
];

/// Frames that cost more than they move.
pub(super) const SMALL: [Attack; 2] = [
    Attack {
        name: "DATA of 1 byte",
        begin: upload,
        step: |_| frame(kind::DATA, 0, 1, "x"),
        ..READS
    },
    Attack {
        name: "DATA of 1 byte, padded",
        begin: upload,
        step: |_| {
            frame(
                kind::DATA,
                flag::PADDED,
                1,
                [&[255, b'x'][..], &[0; 255]].concat(),
            )
        },
        ..BREAKS
    },
];

/// Streams that are over, or begin and never go on.
pub(super) const STREAMS: [Attack; 4] = [
    Attack {
        name: "DATA after a reset",
        begin: || [post(1), reset(1)].concat(),
        step: |_| frame(kind::DATA, 0, 1, "x".repeat(16_384)),
        ..BREAKS
    },
    Attack {
        name: "empty DATA after a reset",
        begin: || [post(1), reset(1)].concat(),
        step: |_| frame(kind::DATA, 0, 1, ""),
        ..READS
    },
    Attack {
        name: "streams left open, beyond what is allowed",
        step: |step| post(nth(step)),
        ..READS
    },
    Attack {
        name: "streams left open, and reset one by one",
        step: |step| {
            let oldest = if step < 100 {
                Vec::new()
            } else {
                reset(after(step - 100))
            };
            [post(after(step)), oldest].concat()
        },
        ..READS
    },
];
