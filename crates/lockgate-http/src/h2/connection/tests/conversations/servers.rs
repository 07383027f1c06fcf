//! Two servers that do the same with what they get: one on this layer, one of the h2 crate.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::super::beside_h2_crate::Pipe;
use super::super::*;
use super::Dice;
use crate::fields::Fields;
use crate::h2::frames::DATA;
use crate::h2::request;

/// How a message of the client has ended, as its server was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenEnd {
    Open,
    Ended,
    /// With so many fields.
    Trailers(usize),
    Reset(u32),
}

/// A request as its server got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TakenRequest {
    /// Method and target.
    line: String,
    /// The fields whose names begin with `x`, in the order of their text.
    fields: Vec<String>,
    pub(super) body: Vec<u8>,
    pub(super) end: TakenEnd,
}

/// What a server has written of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WrittenAnswer {
    heads: usize,
    bytes: usize,
    pub(super) ended: bool,
}

/// All that can be seen of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerRecord {
    /// The code of the connection's error.
    pub(super) error: Option<u32>,
    /// Streams that were reset, and the codes.
    pub(super) resets: Vec<(u32, u32)>,
    pub(super) requests: BTreeMap<u32, TakenRequest>,
    pub(super) answers: BTreeMap<u32, WrittenAnswer>,
    /// The data of acknowledged PINGs, and the number of acknowledged SETTINGS.
    pongs: Vec<Vec<u8>>,
    acks: usize,
}

/// What a server made of a violation: the connection's error, or the stream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Connection(u32),
    Stream(u32),
    /// The request was refused before, for another reason, and is now.
    Streams(u32, u32),
    Accepted,
    Nothing,
}

impl ServerRecord {
    /// What became of a stream.
    pub(super) fn verdict(&self, stream: u32) -> Judgement {
        let resets = self.resets.iter().filter(|(id, _)| *id == stream);
        let codes: Vec<_> = resets.map(|(_, code)| *code).collect();
        match (self.error, &codes[..]) {
            (Some(code), _) => Judgement::Connection(code),
            (None, [code]) => Judgement::Stream(*code),
            (None, [one, .., other]) => Judgement::Streams(*one, *other),
            (None, []) if self.requests.contains_key(&stream) => Judgement::Accepted,
            (None, []) => Judgement::Nothing,
        }
    }

    /// The number of violations for which a stream or the connection has ended: other codes are planned.
    pub(super) fn faults(&self) -> usize {
        let codes = self.resets.iter().map(|(_, code)| code);
        codes.filter(|code| !PLANNED_CODES.contains(code)).count()
            + usize::from(self.error.is_some())
    }

    /// Whether a request was given up for a violation.
    pub(super) fn has_failed(&self, stream: u32) -> bool {
        self.requests
            .get(&stream)
            .is_some_and(|request| request.end == TakenEnd::Reset(code::PROTOCOL_ERROR))
    }

    /// The record of all other streams.
    pub(super) fn without(&self, stream: u32) -> Self {
        let mut rest = self.clone();
        rest.resets.retain(|(id, _)| *id != stream);
        rest.requests.remove(&stream);
        rest.answers.remove(&stream);
        rest
    }
}

/// A record, and the windows that the server has given since the last look, by stream.
#[derive(Debug, Default)]
pub(super) struct HeardServer {
    pub(super) record: ServerRecord,
    pub(super) given: BTreeMap<u32, i64>,
}

impl HeardServer {
    fn hear(&mut self, sent: &[u8]) {
        let number = |payload: &[u8]| u32::from_be_bytes(*payload.first_chunk().unwrap());
        let record = &mut self.record;
        for (kind, flags, stream, payload) in frames_of(sent) {
            match kind {
                HEADERS | DATA => {
                    let answer = record.answers.entry(stream).or_default();
                    let is_reset = record.resets.iter().any(|(reset, _)| *reset == stream);
                    assert!(!answer.ended && !is_reset, "a frame behind the end");
                    answer.heads += usize::from(kind == HEADERS);
                    answer.bytes += if kind == DATA { payload.len() } else { 0 };
                    answer.ended = flags & END_STREAM != 0;
                }
                RST_STREAM => record.resets.push((stream, number(&payload))),
                GOAWAY => {
                    let code = number(&payload[4..]);
                    record.error = Some(code).filter(|code| *code != code::NO_ERROR);
                }
                WINDOW_UPDATE => {
                    *self.given.entry(stream).or_default() += i64::from(number(&payload));
                }
                PING if flags & ACK != 0 => record.pongs.push(payload),
                SETTINGS if flags & ACK != 0 => record.acks += 1,
                _ => {}
            }
        }
        record.resets.sort_unstable();
    }
}

/// The codes with which servers reset streams without a violation.
const PLANNED_CODES: [u32; 3] = [code::CANCEL, code::INTERNAL_ERROR, code::NO_ERROR];

/// What both servers do with a stream.
#[derive(Debug, Clone, Copy)]
struct ServerPlan {
    /// Whether it is answered when the request has ended, or when its head is there; else never.
    answers_end: bool,
    answers_head: bool,
    /// The length of the answer's body.
    length: usize,
    /// Whether data that has come is used, so that windows go back.
    uses_data: bool,
    /// The code with which it is reset as soon as it is there.
    reset: Option<u32>,
}

impl ServerPlan {
    fn of(seed: u64, stream: u32) -> Self {
        let mut dice = Dice::new(seed ^ (u64::from(stream) << 32));
        Self {
            answers_end: dice.chance(80),
            answers_head: dice.chance(20),
            length: if dice.chance(30) {
                0
            } else {
                dice.below(3_000)
            },
            uses_data: dice.chance(80),
            reset: dice.chance(6).then(|| *dice.pick(&PLANNED_CODES)),
        }
    }

    fn answers(self, end: TakenEnd) -> bool {
        match end {
            TakenEnd::Open => self.answers_head,
            TakenEnd::Ended | TakenEnd::Trailers(_) => self.answers_end || self.answers_head,
            TakenEnd::Reset(_) => false,
        }
    }
}

fn is_of_tests(name: &[u8]) -> bool {
    name.first() == Some(&b'x')
}

/// A server on this layer.
pub(super) struct OurServer {
    seed: u64,
    connection: Connection<()>,
    section: FieldSection,
    unread: Vec<u8>,
    streams: BTreeMap<u32, OurStream>,
    pub(super) heard: HeardServer,
}

struct OurStream {
    key: Key,
    unused: usize,
    /// What is left of the answer, once it has begun.
    left: Option<usize>,
}

impl OurServer {
    pub(super) fn new(seed: u64, local: LocalSettings) -> Self {
        Self {
            seed,
            connection: Connection::new(Role::Server, local, Budget::UNLIMITED),
            section: FieldSection::default(),
            unread: Vec::new(),
            streams: BTreeMap::new(),
            heard: HeardServer::default(),
        }
    }

    pub(super) fn receive(&mut self, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.unread);
        let mut at = 0;
        loop {
            let received = self.connection.receive(&bytes[at..], &mut self.section);
            while let Some(event) = self.connection.next_event() {
                self.see(event, &bytes[at..]);
            }
            match received {
                // The error is in the GOAWAY.
                Err(_) => return,
                Ok(0) => break,
                Ok(used) => at += used,
            }
        }
        self.unread.extend_from_slice(&bytes[at..]);
    }

    fn see(&mut self, event: Event, bytes: &[u8]) {
        let requests = &mut self.heard.record.requests;
        match event {
            Event::Head { key, ended, .. } => {
                let mut head = RequestHead::default();
                let made = self.section.request(&LIMITS, &mut head);
                if made.is_err() || request::length(&head, ended).is_err() {
                    self.connection.close(key, code::PROTOCOL_ERROR);
                    return;
                }
                self.connection.attach(key, ());
                let line = [head.method_name(), b" ", head.target()].concat();
                let fields = head.fields.iter().filter(|field| is_of_tests(field.name));
                let mut fields: Vec<_> = fields
                    .map(|field| {
                        format!(
                            "{}",
                            [field.name, b"=", field.value].concat().escape_ascii()
                        )
                    })
                    .collect();
                fields.sort_unstable();
                let request = TakenRequest {
                    line: String::from_utf8(line).unwrap(),
                    fields,
                    body: Vec::new(),
                    end: if ended {
                        TakenEnd::Ended
                    } else {
                        TakenEnd::Open
                    },
                };
                requests.insert(key.stream(), request);
                let stream = OurStream {
                    key,
                    unused: 0,
                    left: None,
                };
                self.streams.insert(key.stream(), stream);
            }
            Event::Data { key, at, ended, .. } => {
                let request = requests.get_mut(&key.stream()).unwrap();
                request.body.extend_from_slice(&bytes[at.clone()]);
                if ended {
                    request.end = TakenEnd::Ended;
                }
                self.streams.get_mut(&key.stream()).unwrap().unused += at.len();
            }
            Event::Trailers { key, .. } => {
                let mut fields = Fields::default();
                let made = self.section.trailers(&LIMITS, &mut fields);
                let request = requests.get_mut(&key.stream()).unwrap();
                request.end = match made {
                    Ok(()) => TakenEnd::Trailers(fields.len()),
                    Err(_) => {
                        self.connection.close(key, code::PROTOCOL_ERROR);
                        self.streams.remove(&key.stream());
                        TakenEnd::Reset(code::PROTOCOL_ERROR)
                    }
                };
            }
            Event::Reset { key, reset } => {
                self.connection.close(key, code::CANCEL);
                self.streams.remove(&key.stream());
                // A whole request stays one.
                let request = requests.get_mut(&key.stream()).unwrap();
                if request.end == TakenEnd::Open {
                    request.end = TakenEnd::Reset(reset.code);
                }
            }
            Event::WindowOpened { .. } | Event::Goaway { .. } | Event::Priority { .. } => {}
            Event::Interim { .. } | Event::Pong { .. } => panic!("{event:?}"),
        }
    }

    /// Does what the plans say of all streams.
    pub(super) fn act(&mut self) {
        let Self {
            seed,
            connection,
            heard,
            ..
        } = self;
        self.streams.retain(|id, stream| {
            let plan = ServerPlan::of(*seed, *id);
            let end = heard.record.requests[id].end;
            if plan.uses_data {
                connection.used(stream.key, std::mem::take(&mut stream.unused));
            }
            if let Some(code) = plan.reset {
                connection.close(stream.key, code);
                return false;
            }
            if stream.left.is_none() && plan.answers(end) {
                let head = ResponseHead::of(200);
                connection.respond(stream.key, &head, plan.length == 0);
                stream.left = Some(plan.length);
            }
            if let Some(left) = &mut stream.left {
                *left -= connection.data(stream.key, &[b'a'; 3_000][..*left], true);
            }
            let is_over = end != TakenEnd::Open && stream.left == Some(0);
            if is_over {
                connection.close(stream.key, code::NO_ERROR);
            }
            !is_over
        });
        self.heard.hear(self.connection.unsent());
        self.connection.note_sent(usize::MAX);
    }
}

/// A server of the h2 crate.
pub(super) struct CrateServer {
    seed: u64,
    pipe: Pipe,
    state: CrateState,
    streams: BTreeMap<u32, CrateStream>,
    pub(super) heard: HeardServer,
}

enum CrateState {
    Handshake(Pin<Box<h2::server::Handshake<Pipe, Bytes>>>),
    Open(Box<h2::server::Connection<Pipe, Bytes>>),
    Over,
}

struct CrateStream {
    body: h2::RecvStream,
    respond: h2::server::SendResponse<Bytes>,
    unused: usize,
    answer: Option<h2::SendStream<Bytes>>,
    is_answered: bool,
}

impl CrateServer {
    pub(super) fn new(seed: u64, local: LocalSettings) -> Self {
        let pipe = Pipe::default();
        let mut builder = h2::server::Builder::new();
        builder
            .max_concurrent_streams(local.streams)
            .max_header_list_size(local.head_list)
            .initial_window_size(local.window)
            .initial_connection_window_size(local.connection_window);
        let handshake = builder.handshake(pipe.clone());
        Self {
            seed,
            pipe,
            state: CrateState::Handshake(Box::pin(handshake)),
            streams: BTreeMap::new(),
            heard: HeardServer::default(),
        }
    }

    pub(super) fn receive(&mut self, piece: &[u8]) {
        self.pipe.0.borrow_mut().to_crate.extend_from_slice(piece);
        self.poll();
    }

    /// Whether it has ended the connection.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, CrateState::Over)
    }

    /// Polls the connection until it does nothing more.
    fn poll(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match &mut self.state {
                CrateState::Handshake(handshake) => match handshake.as_mut().poll(&mut cx) {
                    Poll::Ready(Ok(connection)) => {
                        self.state = CrateState::Open(Box::new(connection));
                    }
                    Poll::Ready(Err(_)) => self.state = CrateState::Over,
                    Poll::Pending => return,
                },
                CrateState::Open(connection) => match connection.poll_accept(&mut cx) {
                    Poll::Ready(Some(Ok((request, respond)))) => self.accept(request, respond),
                    Poll::Ready(_) => self.state = CrateState::Over,
                    Poll::Pending => return,
                },
                CrateState::Over => return,
            }
        }
    }

    fn accept(
        &mut self,
        request: http::Request<h2::RecvStream>,
        respond: h2::server::SendResponse<Bytes>,
    ) {
        let (head, body) = request.into_parts();
        let target = match (head.uri.path_and_query(), head.uri.authority()) {
            (Some(path), _) => path.to_string(),
            (None, authority) => authority.map(ToString::to_string).unwrap_or_default(),
        };
        let fields = head.headers.iter();
        let fields = fields.filter(|(name, _)| is_of_tests(name.as_str().as_bytes()));
        let mut fields: Vec<_> = fields
            .map(|(name, value)| format!("{name}={}", value.as_bytes().escape_ascii()))
            .collect();
        fields.sort_unstable();
        let taken = TakenRequest {
            line: format!("{} {target}", head.method),
            fields,
            body: Vec::new(),
            end: TakenEnd::Open,
        };
        let id = respond.stream_id().as_u32();
        self.heard.record.requests.insert(id, taken);
        let stream = CrateStream {
            body,
            respond,
            unused: 0,
            answer: None,
            is_answered: false,
        };
        self.streams.insert(id, stream);
    }

    /// Does what the plans say of all streams.
    pub(super) fn act(&mut self) {
        let requests = &mut self.heard.record.requests;
        self.streams.retain(|id, stream| {
            let plan = ServerPlan::of(self.seed, *id);
            let request = requests.get_mut(id).unwrap();
            stream.take(request);
            stream.act(plan, request.end)
        });
        self.poll();
        let sent = std::mem::take(&mut self.pipe.0.borrow_mut().of_crate);
        self.heard.hear(&sent);
        // What is over, and was written, is dropped as slots are.
        let Self { streams, heard, .. } = self;
        streams.retain(|id, _| {
            let has_ended = heard.record.requests[id].end != TakenEnd::Open;
            let answer = heard.record.answers.get(id);
            !has_ended || !answer.is_some_and(|answer| answer.ended)
        });
        self.poll();
    }
}

impl CrateStream {
    /// Takes what has come of a request.
    fn take(&mut self, request: &mut TakenRequest) {
        let mut cx = Context::from_waker(Waker::noop());
        while request.end == TakenEnd::Open {
            match self.body.poll_data(&mut cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(data))) => {
                    request.body.extend_from_slice(&data);
                    self.unused += data.len();
                }
                Poll::Ready(Some(Err(error))) => request.end = TakenEnd::reset(&error),
                Poll::Ready(None) => {
                    request.end = match self.body.poll_trailers(&mut cx) {
                        Poll::Pending => break,
                        Poll::Ready(Ok(Some(fields))) => TakenEnd::Trailers(fields.len()),
                        Poll::Ready(Ok(None)) => TakenEnd::Ended,
                        Poll::Ready(Err(error)) => TakenEnd::reset(&error),
                    };
                }
            }
        }
    }

    /// `false`: the stream is of no more use.
    fn act(&mut self, plan: ServerPlan, end: TakenEnd) -> bool {
        if plan.uses_data {
            let unused = std::mem::take(&mut self.unused);
            // A stream that was reset has no window.
            let _ = self.body.flow_control().release_capacity(unused);
        }
        if let Some(code) = plan.reset {
            if !matches!(end, TakenEnd::Reset(_)) {
                self.respond.send_reset(code.into());
            }
            return false;
        }
        if !self.is_answered && plan.answers(end) {
            self.is_answered = true;
            let response = http::Response::new(());
            // A reset may have come meanwhile.
            if let Ok(mut answer) = self.respond.send_response(response, plan.length == 0) {
                if plan.length > 0 {
                    let _ = answer.send_data(Bytes::from(vec![b'a'; plan.length]), true);
                }
                self.answer = Some(answer);
            }
        }
        !matches!(end, TakenEnd::Reset(_))
    }
}

impl TakenEnd {
    fn reset(error: &h2::Error) -> Self {
        let reason = error.reason().map_or(code::INTERNAL_ERROR, u32::from);
        Self::Reset(reason)
    }
}
