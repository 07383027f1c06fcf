//! The h2 crate as the other end, and beside this layer with the same bytes.

use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::fields::Fields;
use crate::h2::frames::{CONTINUATION, DATA, PRIORITY, PUSH_PROMISE};

/// The crate's end of a connection in memory, which is polled again and again.
#[derive(Clone, Default)]
pub(super) struct Pipe(pub(super) Rc<RefCell<PipeBytes>>);

#[derive(Default)]
pub(super) struct PipeBytes {
    pub(super) to_crate: Vec<u8>,
    pub(super) of_crate: Vec<u8>,
    /// Whether nothing more comes.
    is_closed: bool,
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.to_crate.is_empty() && !pipe.is_closed {
            return Poll::Pending;
        }
        let come = pipe.to_crate.len().min(buf.remaining());
        buf.put_slice(&pipe.to_crate[..come]);
        pipe.to_crate.drain(..come);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().of_crate.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Turns until nothing can happen any more: each conversation here takes far fewer.
const TURNS: usize = 1_000;

/// The error of a connection, and those of streams in their order.
type Verdict = (Option<u32>, Vec<(u32, u32)>);

fn verdict(sent: &[Sent]) -> Verdict {
    let number = |payload: &[u8]| u32::from_be_bytes(payload[..4].try_into().unwrap());
    let goaway = sent.iter().rev().find(|(kind, ..)| *kind == GOAWAY);
    let code = goaway.map(|(.., payload)| number(&payload[4..]));
    let resets = sent.iter().filter(|(kind, ..)| *kind == RST_STREAM);
    (
        code.filter(|code| *code != code::NO_ERROR),
        resets
            .map(|(_, _, stream, payload)| (*stream, number(payload)))
            .collect(),
    )
}

/// What a server of the crate says of these bytes of a client; it answers no request.
fn of_the_crate(bytes: &[u8]) -> Verdict {
    let pipe = Pipe::default();
    pipe.0.borrow_mut().to_crate.extend_from_slice(bytes);
    let mut cx = Context::from_waker(Waker::noop());
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(4).max_header_list_size(4096);
    let mut handshake = pin!(builder.handshake::<_, Bytes>(pipe.clone()));
    // Requests that are dropped would be reset.
    let mut requests = Vec::new();
    let connection = (0..TURNS).find_map(|_| match handshake.as_mut().poll(&mut cx) {
        Poll::Ready(connection) => Some(connection),
        Poll::Pending => None,
    });
    if let Ok(mut connection) = connection.expect("all bytes are there") {
        for turn in 0..TURNS {
            match connection.poll_accept(&mut cx) {
                Poll::Ready(Some(Ok(request))) => requests.push(request),
                Poll::Ready(_) => break,
                // All was read, and what follows from it was said.
                Poll::Pending => pipe.0.borrow_mut().is_closed = turn > 10,
            }
        }
    }
    let sent = std::mem::take(&mut pipe.0.borrow_mut().of_crate);
    verdict(&frames_of(&sent))
}

fn of_ours(bytes: &[u8]) -> Verdict {
    let mut server = End::new(Role::Server, SETTINGS_OF_TESTS, Budget::UNLIMITED);
    // The error is in the GOAWAY.
    let _ = server.feed_some(bytes);
    for seen in server.take_seen() {
        if let Seen::Malformed(stream) = seen {
            server.close(stream, code::PROTOCOL_ERROR);
        }
    }
    verdict(&server.sent())
}

#[test]
fn the_h2_crate_judges_the_same_frames_alike() {
    let post = headers(0, 1, POST);
    let get = headers(END_STREAM, 1, GET);
    let mut different = Vec::new();
    for (name, frames) in [
        ("a request", vec![get.clone()]),
        (
            "an upload",
            vec![post.clone(), frame(DATA, END_STREAM, 1, b"x")],
        ),
        (
            "padding",
            vec![post.clone(), frame(DATA, 0x9, 1, b"\x02x\0\0")],
        ),
        (
            "trailers",
            vec![post.clone(), headers(END_STREAM, 1, b"\x00\x01a\x01b")],
        ),
        (
            "a block in pieces",
            vec![
                frame(HEADERS, END_STREAM, 1, &GET[..3]),
                frame(CONTINUATION, END_HEADERS, 1, &GET[3..]),
            ],
        ),
        ("PING", vec![frame(PING, 0, 0, b"12345678")]),
        ("an unknown frame", vec![frame(0x77, 9, 9, b"x")]),
        ("PRIORITY", vec![frame(PRIORITY, 0, 3, b"\0\0\0\x01\x10")]),
        (
            "a reset",
            vec![post.clone(), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])],
        ),
        (
            "windows",
            vec![post.clone(), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 8])],
        ),
        ("DATA on stream 0", vec![frame(DATA, 0, 0, b"x")]),
        ("DATA when idle", vec![frame(DATA, 0, 1, b"x")]),
        ("DATA of an even stream", vec![frame(DATA, 0, 2, b"x")]),
        (
            "too much padding",
            vec![post.clone(), frame(DATA, 0x8, 1, b"\x02x")],
        ),
        ("HEADERS on stream 0", vec![headers(END_STREAM, 0, GET)]),
        (
            "HEADERS of an even stream",
            vec![headers(END_STREAM, 2, GET)],
        ),
        (
            "a lower stream",
            vec![headers(END_STREAM, 3, GET), get.clone()],
        ),
        (
            "DATA behind the end",
            vec![get.clone(), frame(DATA, 0, 1, b"x")],
        ),
        (
            "HEADERS behind the end",
            vec![get.clone(), headers(END_STREAM, 1, GET)],
        ),
        (
            "trailers without an end",
            vec![post.clone(), headers(0, 1, b"\x00\x01a\x01b")],
        ),
        (
            "PRIORITY of 4 bytes",
            vec![frame(PRIORITY, 0, 3, b"\0\0\0\x01")],
        ),
        (
            "PRIORITY on stream 0",
            vec![frame(PRIORITY, 0, 0, b"\0\0\0\x01\x10")],
        ),
        (
            "RST_STREAM when idle",
            vec![frame(RST_STREAM, 0, 1, &[0; 4])],
        ),
        (
            "RST_STREAM on stream 0",
            vec![frame(RST_STREAM, 0, 0, &[0; 4])],
        ),
        (
            "RST_STREAM of 3 bytes",
            vec![post.clone(), frame(RST_STREAM, 0, 1, &[0; 3])],
        ),
        ("SETTINGS of 5 bytes", vec![frame(SETTINGS, 0, 0, &[0; 5])]),
        ("SETTINGS of a stream", vec![frame(SETTINGS, 0, 1, b"")]),
        (
            "an ACK with settings",
            vec![frame(SETTINGS, ACK, 0, &[0; 6])],
        ),
        ("two ACKs", vec![frame(SETTINGS, ACK, 0, b"").repeat(2)]),
        ("ENABLE_PUSH 2", vec![settings(&[(2, 2)])]),
        ("a window of 2³¹", vec![settings(&[(4, 1 << 31)])]),
        ("frames of 16,383", vec![settings(&[(5, 16_383)])]),
        ("frames of 2²⁴", vec![settings(&[(5, 1 << 24)])]),
        (
            "PUSH_PROMISE",
            vec![post.clone(), frame(PUSH_PROMISE, 4, 1, b"\0\0\0\x02\x82")],
        ),
        ("PING of 7 bytes", vec![frame(PING, 0, 0, b"1234567")]),
        ("PING of a stream", vec![frame(PING, 0, 1, b"12345678")]),
        ("GOAWAY of a stream", vec![frame(GOAWAY, 0, 1, &[0; 8])]),
        (
            "WINDOW_UPDATE of 0",
            vec![frame(WINDOW_UPDATE, 0, 0, &[0; 4])],
        ),
        (
            "a window above 2³¹ − 1",
            vec![frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")],
        ),
        (
            "a stream's window above 2³¹ − 1",
            vec![
                post.clone(),
                frame(WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff"),
            ],
        ),
        (
            "WINDOW_UPDATE when idle",
            vec![frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])],
        ),
        (
            "CONTINUATION alone",
            vec![post.clone(), frame(CONTINUATION, 4, 1, b"")],
        ),
        (
            "PING in a block",
            vec![frame(HEADERS, 0, 1, GET), frame(PING, 0, 0, b"12345678")],
        ),
        ("a wrong index", vec![headers(END_STREAM, 1, b"\xff\x00")]),
        (
            "a frame of 16,385 bytes",
            vec![post.clone(), frame(DATA, 0, 1, &[0; 16_385])],
        ),
        (
            "more than the window",
            vec![post.clone(), frame(DATA, 0, 1, &[0; 16_384]).repeat(4)],
        ),
        (
            "more than Content-Length",
            vec![
                headers(0, 1, &[POST, b"\x5c\x011"].concat()),
                frame(DATA, 1, 1, b"ab"),
            ],
        ),
        (
            "less than Content-Length",
            vec![
                headers(0, 1, &[POST, b"\x5c\x013"].concat()),
                frame(DATA, 1, 1, b"ab"),
            ],
        ),
        (
            "a pseudo-field twice",
            vec![headers(1, 1, b"\x82\x82\x86\x84\x41\x01a")],
        ),
        ("a status", vec![headers(1, 1, b"\x82\x86\x84\x88")]),
        (
            "five streams",
            vec![
                (1..10)
                    .step_by(2)
                    .flat_map(|stream| headers(0, stream, POST))
                    .collect(),
            ],
        ),
    ] {
        let greeting = [PREFACE, &settings(&[])[..]].concat();
        let bytes = [greeting, frames.concat()].concat();
        let (ours, theirs) = (of_ours(&bytes), of_the_crate(&bytes));
        if ours != theirs {
            different.push((name, ours, theirs));
        }
    }
    // The crate says PROTOCOL_ERROR of these: RFC 9113 §4.2, §4.3 and §6.5.2 have a code for each, and
    // §5.1 leaves the connection alone where only a stream has ended.
    let protocol = (Some(code::PROTOCOL_ERROR), vec![]);
    let expected = [
        (
            "DATA behind the end",
            (None, vec![(1, code::STREAM_CLOSED)]),
        ),
        (
            "HEADERS behind the end",
            (None, vec![(1, code::STREAM_CLOSED)]),
        ),
        (
            "PRIORITY of 4 bytes",
            (Some(code::FRAME_SIZE_ERROR), vec![]),
        ),
        (
            "RST_STREAM of 3 bytes",
            (Some(code::FRAME_SIZE_ERROR), vec![]),
        ),
        (
            "SETTINGS of 5 bytes",
            (Some(code::FRAME_SIZE_ERROR), vec![]),
        ),
        (
            "an ACK with settings",
            (Some(code::FRAME_SIZE_ERROR), vec![]),
        ),
        ("a window of 2³¹", (Some(code::FLOW_CONTROL_ERROR), vec![])),
        ("PING of 7 bytes", (Some(code::FRAME_SIZE_ERROR), vec![])),
        ("a wrong index", (Some(code::COMPRESSION_ERROR), vec![])),
    ]
    .map(|(name, ours)| (name, ours, protocol.clone()));
    assert_eq!(different, expected);
}

/// An end of this layer that is connected to the crate.
struct Ours {
    end: End,
    pipe: Pipe,
    unread: Vec<u8>,
    /// Data that is to be sent, and the trailers behind it.
    uploads: Vec<(Key, Vec<u8>, Option<Fields>)>,
}

impl Ours {
    fn new(role: Role, pipe: &Pipe) -> Self {
        Self {
            end: End::new(role, SETTINGS_OF_TESTS, Budget::UNLIMITED),
            pipe: pipe.clone(),
            unread: Vec::new(),
            uploads: Vec::new(),
        }
    }

    /// Exchanges all bytes with the crate; returns what was seen.
    fn turn(&mut self) -> Vec<Seen> {
        let mut pipe = self.pipe.0.borrow_mut();
        self.unread.append(&mut pipe.of_crate);
        let used = self.end.feed_some(&self.unread);
        self.unread
            .drain(..used.expect("the crate keeps the rules"));
        let seen = self.end.take_seen();
        let connection = &mut self.end.connection;
        for one in &seen {
            if let Seen::Data(stream, data, _) = one
                && let Some(key) = connection.streams.find(*stream)
            {
                connection.used(key, data.len());
            }
        }
        self.uploads.retain_mut(|(key, left, trailers)| {
            let taken = connection.data(*key, left, trailers.is_none());
            left.drain(..taken);
            if left.is_empty()
                && let Some(trailers) = trailers
            {
                connection.trailers(*key, trailers);
            }
            !left.is_empty()
        });
        pipe.to_crate.extend_from_slice(connection.unsent());
        connection.note_sent(usize::MAX);
        seen
    }
}

fn sum_trailer() -> Fields {
    let mut trailers = Fields::default();
    trailers.append(b"x-sum", b"1");
    trailers
}

/// Sends all of `left` with the crate, and a trailer behind it.
fn send(stream: &mut h2::SendStream<Bytes>, left: &mut Vec<u8>, cx: &mut Context<'_>) {
    stream.reserve_capacity(left.len().min(16_384));
    let Poll::Ready(Some(Ok(room))) = stream.poll_capacity(cx) else {
        return;
    };
    let piece = Bytes::from(left.drain(..room.min(left.len())).collect::<Vec<_>>());
    stream.send_data(piece, false).expect("an open stream");
    if left.is_empty() {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", http::HeaderValue::from_static("1"));
        stream.send_trailers(trailers).expect("an open stream");
    }
}

/// Takes what has come of a body; `true`: all of it, and the trailer.
fn take(body: &mut h2::RecvStream, data: &mut Vec<u8>, cx: &mut Context<'_>) -> bool {
    while let Poll::Ready(Some(piece)) = body.poll_data(cx) {
        let piece = piece.expect("data");
        data.extend_from_slice(&piece);
        body.flow_control()
            .release_capacity(piece.len())
            .expect("what has come");
    }
    matches!(body.poll_trailers(cx), Poll::Ready(Ok(Some(trailers))) if trailers["x-sum"] == "1")
}

fn body_of(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7) as u8).collect()
}

#[test]
fn a_client_of_the_h2_crate_is_served() {
    let pipe = Pipe::default();
    let mut server = Ours::new(Role::Server, &pipe);
    let mut cx = Context::from_waker(Waker::noop());
    let mut handshake = pin!(h2::client::handshake(pipe.clone()));
    let Poll::Ready(Ok((mut requests, connection))) = handshake.as_mut().poll(&mut cx) else {
        panic!("it only writes");
    };
    let mut connection = pin!(connection);
    let request = http::Request::post("http://a/upload").body(()).unwrap();
    let (mut response, mut stream) = requests.send_request(request, false).unwrap();
    let (mut upload, mut came, mut answer) = (body_of(150_000), Vec::new(), Vec::new());
    let (mut seen_trailers, mut incoming, mut is_whole) = (false, None, false);
    for _ in 0..TURNS {
        assert!(connection.as_mut().poll(&mut cx).is_pending());
        if !upload.is_empty() {
            send(&mut stream, &mut upload, &mut cx);
        }
        match &mut incoming {
            None => {
                if let Poll::Ready(response) = Pin::new(&mut response).poll(&mut cx) {
                    let (parts, body) = response.unwrap().into_parts();
                    assert_eq!(parts.status, 200);
                    assert_eq!(parts.headers["content-type"], "text/plain");
                    incoming = Some(body);
                }
            }
            Some(body) => is_whole = is_whole || take(body, &mut answer, &mut cx),
        }
        for seen in server.turn() {
            match seen {
                Seen::Request(stream, line, false) => {
                    assert_eq!(line, "POST /upload");
                    let key = server.end.key(stream);
                    let mut head = ResponseHead::of(200);
                    head.fields.append(b"Content-Type", b"text/plain");
                    let connection = &mut server.end.connection;
                    connection.interim(key, &ResponseHead::of(103));
                    connection.respond(key, &head, false);
                    let upload = (key, body_of(200_000), Some(sum_trailer()));
                    server.uploads.push(upload);
                }
                Seen::Data(_, data, false) => came.extend_from_slice(&data),
                Seen::Trailers(_, 1) => seen_trailers = true,
                Seen::WindowOpened(_) => {}
                other => panic!("{other:?}"),
            }
        }
        if is_whole {
            break;
        }
    }
    assert!(is_whole && seen_trailers);
    assert!(came == body_of(150_000) && answer == body_of(200_000));
}

#[test]
fn a_server_of_the_h2_crate_answers() {
    let pipe = Pipe::default();
    let mut client = Ours::new(Role::Client, &pipe);
    let key = client
        .end
        .connection
        .open(Method::Post, 1, false, |block| block.repeat(POST))
        .unwrap();
    let upload = (key, body_of(150_000), Some(sum_trailer()));
    client.uploads.push(upload);
    client.turn();
    let mut cx = Context::from_waker(Waker::noop());
    let mut handshake = pin!(h2::server::handshake(pipe.clone()));
    let connection = (0..TURNS).find_map(|_| match handshake.as_mut().poll(&mut cx) {
        Poll::Ready(connection) => Some(connection.unwrap()),
        Poll::Pending => {
            client.turn();
            None
        }
    });
    let mut connection = connection.expect("the preface is there");
    let (mut answer, mut came, mut seen) = (body_of(200_000), Vec::new(), Vec::new());
    let (mut open, mut is_whole) = (None, false);
    for _ in 0..TURNS {
        if let Poll::Ready(accepted) = connection.poll_accept(&mut cx) {
            let (request, mut respond) = accepted.unwrap().unwrap();
            assert_eq!(
                (request.method().as_str(), request.uri().path()),
                ("POST", "/")
            );
            let stream = respond.send_response(http::Response::new(()), false);
            open = Some((request.into_body(), stream.unwrap()));
        }
        if let Some((body, stream)) = &mut open {
            is_whole = is_whole || take(body, &mut came, &mut cx);
            if !answer.is_empty() {
                send(stream, &mut answer, &mut cx);
            }
        }
        seen.extend(client.turn());
        if is_whole && seen.last() == Some(&Seen::Trailers(1, 1)) {
            break;
        }
    }
    assert!(is_whole && came == body_of(150_000));
    assert_eq!(seen.first(), Some(&Seen::Response(1, 200, false)));
    assert_eq!(seen.last(), Some(&Seen::Trailers(1, 1)));
    let data: Vec<_> = seen
        .iter()
        .flat_map(|seen| match seen {
            Seen::Data(_, data, _) => data.clone(),
            _ => Vec::new(),
        })
        .collect();
    assert!(data == body_of(200_000));
}
