//! Connections fed with frames: what is told, what is answered, and which error ends what.

mod abuse;
mod beside_h2_crate;
mod both_ends;
mod conversations;
mod flow_control;
mod frame_errors;
mod messages;
mod pings;
mod shutdown;
mod stream_states;
mod turns;

use super::*;
use crate::h1::HeadLimits;
use crate::h2::frame_header::{FrameHeader, HEADER_LEN};
use crate::h2::frames::{ACK, END_HEADERS, END_STREAM, HEADERS, PING, SETTINGS};
use crate::h2::{FieldBlock, FieldSection, code};
use crate::head::{Method, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits {
    head: 8192,
    fields: 40,
};

const SETTINGS_OF_TESTS: LocalSettings = LocalSettings {
    streams: 4,
    window: 65_535,
    connection_window: 65_535,
    head_list: 4096,
    connect_protocol: false,
};

const FEW: Budget = Budget {
    resets: 10,
    control: 20,
    updates: 10,
};

/// `:method GET`, `:scheme http`, `:path /`, `:authority a`.
const GET: &[u8] = b"\x82\x86\x84\x41\x01a";
/// `:method POST`, the rest as above.
const POST: &[u8] = b"\x83\x86\x84\x41\x01a";
/// `:status 200`.
const OK: &[u8] = b"\x88";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame_header::begin(&mut bytes, payload.len(), kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, block)
}

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in values {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(SETTINGS, 0, 0, &payload)
}

/// What an end was told of a stream: an event, with the bytes that it lends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Request(u32, String, bool),
    /// A request that is refused when its head is made.
    Malformed(u32),
    Response(u32, u16, bool),
    Interim(u32, u16),
    Data(u32, Vec<u8>, bool),
    Trailers(u32, usize),
    /// The stream, the code, the fault if it was the peer's, and whether it is unprocessed.
    Reset(u32, u32, Option<StreamFault>, bool),
    WindowOpened(u32),
    Goaway(u32),
    Pong([u8; 8]),
    Priority(u32, u8),
}

/// One end of a connection, and all that it was told.
struct End {
    connection: Connection<u32>,
    section: FieldSection,
    seen: Vec<Seen>,
}

/// A frame that an end has sent.
type Sent = (u8, u8, u32, Vec<u8>);

impl End {
    fn new(role: Role, settings: LocalSettings, budget: Budget) -> Self {
        Self {
            connection: Connection::new(role, settings, budget),
            section: FieldSection::default(),
            seen: Vec::new(),
        }
    }

    /// A server behind the prefaces of both sides.
    fn server() -> Self {
        Self::server_with(SETTINGS_OF_TESTS)
    }

    fn server_with(local: LocalSettings) -> Self {
        let mut end = Self::new(Role::Server, local, FEW);
        end.feed(PREFACE).unwrap();
        end.greet();
        end
    }

    /// A client behind the prefaces of both sides.
    fn client() -> Self {
        let mut end = Self::new(Role::Client, SETTINGS_OF_TESTS, FEW);
        end.greet();
        end
    }

    fn greet(&mut self) {
        self.feed(&settings(&[])).unwrap();
        self.feed(&frame(SETTINGS, ACK, 0, b"")).unwrap();
        self.sent();
    }

    /// Gives bytes whose frames are whole.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        let used = self.feed_some(bytes)?;
        assert_eq!(used, bytes.len(), "a frame is cut");
        Ok(())
    }

    /// Gives bytes, and returns how many were handled.
    fn feed_some(&mut self, bytes: &[u8]) -> Result<usize, ConnectionError> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let received = self.connection.receive(rest, &mut self.section);
            while let Some(event) = self.connection.next_event() {
                let seen = self.see(event, rest);
                self.seen.push(seen);
            }
            match received? {
                0 => return Ok(at),
                used => at += used,
            }
        }
    }

    fn see(&mut self, event: Event, bytes: &[u8]) -> Seen {
        match event {
            Event::Head { key, ended, .. } if self.connection.role == Role::Server => {
                self.connection.attach(key, key.stream());
                let mut head = RequestHead::default();
                if self.section.request(&LIMITS, &mut head).is_err() {
                    return Seen::Malformed(key.stream());
                }
                let line = [head.method_name(), b" ", head.target()].concat();
                let line = String::from_utf8_lossy(&line).into_owned();
                Seen::Request(key.stream(), line, ended)
            }
            Event::Head { key, ended, .. } => {
                let mut head = ResponseHead::default();
                self.section.response(&LIMITS, &mut head).unwrap();
                Seen::Response(key.stream(), head.status, ended)
            }
            Event::Interim { key, .. } => {
                let mut head = ResponseHead::default();
                self.section.response(&LIMITS, &mut head).unwrap();
                Seen::Interim(key.stream(), head.status)
            }
            Event::Data { key, at, ended, .. } => {
                assert_eq!(self.connection.get_mut(key), Some(&mut key.stream()));
                Seen::Data(key.stream(), bytes[at].to_vec(), ended)
            }
            Event::Trailers { key, .. } => {
                let mut fields = crate::fields::Fields::default();
                self.section.trailers(&LIMITS, &mut fields).unwrap();
                Seen::Trailers(key.stream(), fields.len())
            }
            Event::Reset { key, reset } => {
                Seen::Reset(key.stream(), reset.code, reset.fault, reset.unprocessed)
            }
            Event::WindowOpened { key } => Seen::WindowOpened(key.stream()),
            Event::Goaway { code } => Seen::Goaway(code),
            Event::Pong { data } => Seen::Pong(data),
            Event::Priority { stream, priority } => Seen::Priority(stream, priority.urgency),
        }
    }

    /// What it was told since the last look.
    fn take_seen(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.seen)
    }

    /// The frames that it has sent since the last look.
    fn sent(&mut self) -> Vec<Sent> {
        let sent = frames_of(self.connection.unsent());
        self.connection.note_sent(usize::MAX);
        sent
    }

    fn key(&self, stream: u32) -> Key {
        self.connection.streams.find(stream).expect("a stream")
    }

    /// Begins a GET on a client.
    fn ask(&mut self, ended: bool) -> Key {
        let next = self.connection.next_id;
        let key = self.connection.open(Method::Get, next, ended, |block| {
            block.repeat(if ended { GET } else { POST });
        });
        self.sent();
        key.expect("there is room")
    }

    fn answer(&mut self, stream: u32, ended: bool) {
        let key = self.key(stream);
        self.connection.respond(key, &ResponseHead::of(200), ended);
        self.sent();
    }

    fn close(&mut self, stream: u32, code: u32) {
        let key = self.key(stream);
        assert_eq!(self.connection.close(key, code), Some(stream));
    }
}

fn frames_of(mut bytes: &[u8]) -> Vec<Sent> {
    let mut frames = Vec::new();
    if let Some(rest) = bytes.strip_prefix(PREFACE) {
        bytes = rest;
    }
    while let Some(header) = FrameHeader::read(bytes) {
        let (payload, rest) = bytes[HEADER_LEN..].split_at(header.length);
        frames.push((header.kind, header.flags, header.stream, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "whole frames are sent");
    frames
}

fn reset_frame(stream: u32, code: u32) -> Sent {
    (RST_STREAM, 0, stream, code.to_be_bytes().to_vec())
}

fn goaway_frame(last: u32, code: u32) -> Sent {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    (GOAWAY, 0, 0, payload)
}

#[test]
fn both_roles_begin_with_their_preface() {
    let mut client = End::new(Role::Client, SETTINGS_OF_TESTS, FEW);
    assert!(client.connection.unsent().starts_with(PREFACE));
    let [(SETTINGS, 0, 0, payload)] = &client.sent()[..] else {
        panic!("SETTINGS");
    };
    // ENABLE_PUSH 0, INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE.
    let expected = [(2, 0), (4, 65_535), (6, 4096)];
    assert_eq!(payload, &frames_of(&settings(&expected))[0].3);
    let local = LocalSettings {
        connect_protocol: true,
        connection_window: 70_000,
        window: u32::MAX,
        ..SETTINGS_OF_TESTS
    };
    let mut server = End::new(Role::Server, local, FEW);
    let [(SETTINGS, 0, 0, payload), (WINDOW_UPDATE, 0, 0, more)] = &server.sent()[..] else {
        panic!("SETTINGS and WINDOW_UPDATE");
    };
    let expected = [(3, 4), (8, 1), (9, 1), (4, (1 << 31) - 1), (6, 4096)];
    assert_eq!(payload, &frames_of(&settings(&expected))[0].3);
    assert_eq!(more[..], (70_000_u32 - 65_535).to_be_bytes());
}

#[test]
fn settings_and_ping_are_acknowledged() {
    let mut client = End::client();
    client.feed(&settings(&[(3, 7)])).unwrap();
    client.feed(&frame(PING, 0, 0, b"12345678")).unwrap();
    let expected = [
        (SETTINGS, ACK, 0, vec![]),
        (PING, ACK, 0, b"12345678".to_vec()),
    ];
    assert_eq!(client.sent(), expected);
    assert_eq!(client.connection.peer_settings().unwrap().streams, 7);
}

#[test]
fn a_priority_update_is_told_by_its_stream() {
    let mut server = End::server();
    let update = |stream: u32| [&stream.to_be_bytes()[..], b"u=1"].concat();
    // Before its request, and for one that is over (RFC 9218 §7.1).
    for stream in [1, 1, 3] {
        server.feed(&frame(0x10, 0, 0, &update(stream))).unwrap();
        if stream == 1 && server.connection.last_id == 0 {
            server.feed(&headers(END_STREAM, 1, GET)).unwrap();
            server.answer(1, true);
        } else if stream == 1 {
            server.close(1, code::NO_ERROR);
        }
    }
    server.feed(&frame(0x10, 0, 0, &update(1))).unwrap();
    let priorities: Vec<_> = server
        .take_seen()
        .into_iter()
        .filter(|seen| matches!(seen, Seen::Priority(..)))
        .collect();
    let expected = [1, 1, 3].map(|stream| Seen::Priority(stream, 1));
    assert_eq!(priorities, expected);
}

/// What a user writes of a response: its status and its fields.
impl<S> Connection<S> {
    fn interim(&mut self, key: Key, head: &ResponseHead) {
        self.interim_with(key, |block| fill(head, block));
    }

    fn respond(&mut self, key: Key, head: &ResponseHead, ended: bool) {
        self.respond_with(key, ended, |block| fill(head, block));
    }
}

fn fill(head: &ResponseHead, block: &mut FieldBlock<'_>) {
    block.status(head.status);
    for field in head.fields.iter() {
        block.message_field(&field);
    }
}
