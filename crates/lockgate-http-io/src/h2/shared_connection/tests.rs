//! A shared connection on a socket, with the layer as its endpoint.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::task::Waker;

use lockgate_http::forwarding::ForwardedClient;
use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{
    Budget, Connection, Event, FieldBlock, FieldSection, LocalSettings, Role, SectionError,
};
use lockgate_http::head::{BodyLength, HttpVersion, RequestHead, ResponseHead};
use lockgate_http::request_target::RequestTarget;
use lockgate_net::reactor::Reactor;
use lockgate_net::socket::{Socket, SocketFamily};

use super::*;
use crate::body::{BodyReader, BodyWriter, WriteError};
use crate::h2::{RequestPseudoFields, UpstreamStream};
use crate::message::{OutgoingHead, OutgoingRequest};

/// An endpoint, and the connection at the other end.
struct EndpointScene {
    reactor: Reactor,
    connection: Rc<SharedConnection>,
    endpoint: Connection<()>,
    socket: TcpStream,
    /// Bytes that the endpoint has sent and read, and those that it has not handled.
    sent: u64,
    read: u64,
    unread: Vec<u8>,
    section: FieldSection,
    /// What the endpoint was told.
    requests: Vec<(Key, RequestHead)>,
    data: usize,
    resets: Vec<u32>,
    goaway: Option<u32>,
}

impl EndpointScene {
    fn new() -> Self {
        let reactor = Reactor::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        dialled.set_nonblocking(true).unwrap();
        let settings = LocalSettings {
            streams: 50,
            window: 65_535,
            connection_window: 65_535,
            head_list: 32 * 1024,
            connect_protocol: true,
        };
        let mut endpoint = Connection::new(Role::Server, settings, Budget::UNLIMITED);
        socket.write_all(endpoint.unsent()).unwrap();
        let sent = endpoint.unsent().len() as u64;
        endpoint.note_sent(usize::MAX);
        let made = async {
            let socket = Socket::new(dialled.into(), SocketFamily::Tcp).unwrap();
            let stream = Stream::new(socket, None, Vec::new());
            let (blocks, buffers) = (BufferPool::new(), WorkerBuffers::new());
            SharedConnection::handshake(stream, (&blocks, &buffers), Millis::ZERO).await
        };
        let (connection, _) = reactor.block_on(made).unwrap().unwrap();
        let mut scene = Self {
            reactor,
            connection,
            endpoint,
            socket,
            sent,
            read: 0,
            unread: Vec::new(),
            section: FieldSection::default(),
            requests: Vec::new(),
            data: 0,
            resets: Vec::new(),
            goaway: None,
        };
        scene.settle();
        scene
    }

    /// Takes turns until this holds; `true`: the connection is over.
    fn turns(&mut self, is_done: impl Fn(&Link) -> bool) -> bool {
        let connection = &self.connection;
        let turns = poll_fn(|cx| {
            if connection.poll_turn(cx).is_ready() {
                return Poll::Ready(true);
            }
            if is_done(&connection.link()) {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        });
        self.reactor.block_on(turns).unwrap()
    }

    /// Sends bytes as an endpoint.
    fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
        self.sent += bytes.len() as u64;
    }

    /// Sends all of the endpoint's, and takes turns until the connection has handled and answered it.
    fn exchange(&mut self) -> bool {
        let unsent = self.endpoint.unsent().to_vec();
        self.endpoint.note_sent(usize::MAX);
        self.send(&unsent);
        let sent = self.sent;
        let is_over = self.turns(|link| {
            link.bytes_moved().1 == sent && link.bytes_written() == link.bytes_moved().0
        });
        self.take();
        is_over
    }

    /// Goes on until neither side has anything to say.
    fn settle(&mut self) {
        loop {
            assert!(!self.exchange(), "it goes on");
            if self.endpoint.unsent().is_empty() {
                return;
            }
        }
    }

    /// Reads what was sent to the endpoint.
    fn take(&mut self) {
        let due = self.connection.sent() - self.read;
        let start = self.unread.len();
        self.unread.resize(start + due as usize, 0);
        self.socket.read_exact(&mut self.unread[start..]).unwrap();
        self.read += due;
        loop {
            let used = self
                .endpoint
                .receive(&self.unread, &mut self.section)
                .unwrap();
            while let Some(event) = self.endpoint.next_event() {
                match event {
                    Event::Head { key, .. } => {
                        self.endpoint.attach(key, ());
                        let mut head = RequestHead::default();
                        let limits = HeadLimits::default();
                        self.section.request(&limits, &mut head).unwrap();
                        self.requests.push((key, head));
                    }
                    Event::Data { key, at, .. } => {
                        self.data += at.len();
                        self.endpoint.used(key, at.len());
                    }
                    Event::Reset { key, reset } => {
                        self.resets.push(reset.code);
                        self.endpoint.close(key, code::CANCEL);
                    }
                    Event::Goaway { code } => self.goaway = Some(code),
                    _ => {}
                }
            }
            if used == 0 {
                return;
            }
            self.unread.drain(..used);
        }
    }

    /// Answers a request as the endpoint; `ended` where no body follows.
    fn respond(&mut self, key: Key, status: u16, ended: bool) {
        let fill = |block: &mut FieldBlock<'_>| block.status(status);
        self.endpoint.respond_with(key, ended, fill);
    }

    fn interim(&mut self, key: Key, status: u16) {
        let fill = |block: &mut FieldBlock<'_>| block.status(status);
        self.endpoint.interim_with(key, fill);
    }

    /// Begins a request, and waits until the endpoint has its head.
    fn ask(&mut self, length: BodyLength) -> (UpstreamStream, Key) {
        let mut head = RequestHead::of(HttpVersion::Http11, b"POST", b"/a?b=<c>");
        head.fields.append(b"Host", b"a.test");
        head.fields.append(b"X-Mixed", b"1");
        head.fields.append(b"Connection", b"keep-alive");
        let target = RequestTarget::of(&head).unwrap();
        let outgoing = OutgoingHead::of(&head, target.host);
        let request = OutgoingRequest {
            received: &head,
            head: &outgoing,
            target: &target,
            rewritten: None,
            length,
            client: &ForwardedClient::new("192.0.2.1".to_owned(), false, false),
            id: b"0123",
            cookies: None,
        };
        let pseudo_fields = RequestPseudoFields::of(&request).unwrap();
        let mut stream = UpstreamStream::open(&self.connection).unwrap();
        assert!(!stream.has_sent());
        stream.send_request(&request, pseudo_fields.at(None));
        self.settle();
        assert!(stream.has_sent());
        let (key, _) = self.requests.last().unwrap();
        (stream, *key)
    }

    /// Whether no stream is open at either end.
    fn is_clean(&self) -> bool {
        self.connection.is_idle() && self.endpoint.active() == 0
    }
}

fn poll_response(stream: &mut UpstreamStream) -> Poll<Result<u16, ReadError>> {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut head = ResponseHead::default();
    stream.poll_response(cx, &mut head).map_ok(|_| head.status)
}

/// The data that is there, which is used.
fn poll_data(stream: &mut UpstreamStream) -> Poll<Result<Vec<u8>, ReadError>> {
    let cx = &mut Context::from_waker(Waker::noop());
    stream.poll_data(cx).map_ok(|()| {
        let data = stream.data().to_vec();
        stream.consume(data.len());
        data
    })
}

fn poll_write(
    stream: &mut UpstreamStream,
    data: &[u8],
    last: bool,
) -> Poll<Result<usize, WriteError>> {
    let cx = &mut Context::from_waker(Waker::noop());
    stream.poll_write(cx, data, last)
}

/// A frame of the endpoint.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// RFC 9113 §8.3.1.
#[test]
fn a_request_and_its_response_pass_with_their_bodies() {
    let mut scene = EndpointScene::new();
    let (mut stream, key) = scene.ask(BodyLength::Known(5));
    let (_, head) = scene.requests.last().unwrap();
    assert_eq!(head.target(), b"/a?b=%3Cc%3E");
    for (name, value) in [
        (&b"host"[..], Some(&b"a.test"[..])),
        (b"x-mixed", Some(b"1")),
        (b"x-forwarded-for", Some(b"192.0.2.1")),
        (b"content-length", Some(b"5")),
        (b"connection", None),
    ] {
        assert_eq!(head.fields.named(name).next(), value, "{name:?}");
    }
    assert!(matches!(
        poll_write(&mut stream, b"hello", true),
        Poll::Ready(Ok(5))
    ));
    assert!(stream.is_flushed());
    assert!(poll_response(&mut stream).is_pending());
    scene.settle();
    assert_eq!(scene.data, 5);
    scene.interim(key, 103);
    scene.respond(key, 200, false);
    for (data, last) in [
        (&[1; 16_384][..], false),
        (&[2; 16_384], false),
        (b"", true),
    ] {
        assert_eq!(scene.endpoint.data(key, data, last), data.len());
    }
    scene.settle();
    assert!(matches!(poll_response(&mut stream), Poll::Ready(Ok(103))));
    assert!(matches!(poll_response(&mut stream), Poll::Ready(Ok(200))));
    let Poll::Ready(Ok(data)) = poll_data(&mut stream) else {
        panic!("it is there");
    };
    assert_eq!(data.len(), 32_768, "frames of one turn are one piece");
    assert!(stream.is_complete());
    drop(stream);
    scene.endpoint.close(key, code::NO_ERROR);
    scene.settle();
    assert!(scene.is_clean());
    assert!(scene.resets.is_empty());
}

/// RFC 9113 §8.1: what has come before a reset, or the end of the connection, is the client's.
#[test]
fn data_before_a_reset_is_delivered_first() {
    for abrupt in [false, true] {
        let mut scene = EndpointScene::new();
        let (mut stream, key) = scene.ask(BodyLength::Empty);
        scene.respond(key, 200, false);
        scene.endpoint.data(key, b"half", false);
        if abrupt {
            let unsent = scene.endpoint.unsent().to_vec();
            scene.send(&unsent);
            scene.socket.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(scene.turns(|_| false));
        } else {
            scene.endpoint.close(key, code::INTERNAL_ERROR);
            scene.settle();
        }
        assert!(matches!(poll_response(&mut stream), Poll::Ready(Ok(200))));
        assert!(matches!(poll_data(&mut stream), Poll::Ready(Ok(data)) if data == b"half"));
        let end = poll_data(&mut stream);
        match abrupt {
            false => assert!(
                matches!(&end, Poll::Ready(Err(ReadError::Reset(reset)))
                    if reset.by_peer && reset.code == Some(code::INTERNAL_ERROR)),
                "{end:?}"
            ),
            true => assert!(
                matches!(&end, Poll::Ready(Err(ReadError::Stream(StreamError::Io(error))))
                    if error.kind() == io::ErrorKind::UnexpectedEof),
                "{end:?}"
            ),
        }
        assert_eq!(stream.is_lost(), abrupt);
    }
}

/// Otherwise a request that has failed by itself is sent again, as if its connection had failed.
#[test]
fn a_reset_is_told_although_the_connection_has_ended_since() {
    let mut scene = EndpointScene::new();
    let (mut stream, key) = scene.ask(BodyLength::Empty);
    scene.endpoint.close(key, code::INTERNAL_ERROR);
    let unsent = scene.endpoint.unsent().to_vec();
    scene.send(&unsent);
    scene.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(scene.turns(|_| false));
    let end = poll_response(&mut stream);
    assert!(
        matches!(&end, Poll::Ready(Err(ReadError::Reset(reset)))
            if reset.by_peer && reset.code == Some(code::INTERNAL_ERROR)),
        "{end:?}"
    );
    assert!(!stream.is_lost());
}

/// RFC 9113 §8.1: "Clients MUST NOT discard responses as a result of receiving such a RST_STREAM".
#[test]
fn a_whole_response_outlives_the_reset_of_its_request() {
    let mut scene = EndpointScene::new();
    let (mut stream, key) = scene.ask(BodyLength::Chunked);
    scene.respond(key, 413, false);
    scene.endpoint.data(key, b"much", true);
    scene.endpoint.close(key, code::NO_ERROR);
    scene.settle();
    let written = poll_write(&mut stream, b"more", false);
    assert!(
        matches!(&written, Poll::Ready(Err(WriteError::Reset(_)))),
        "{written:?}"
    );
    assert!(matches!(poll_response(&mut stream), Poll::Ready(Ok(413))));
    assert!(matches!(poll_data(&mut stream), Poll::Ready(Ok(data)) if data == b"much"));
    assert!(stream.is_complete());
}

/// RFC 9113 §8.1.1: nothing of a malformed head is used; a body is cut short.
#[test]
fn malformed_responses_are_errors_at_the_right_place() {
    let cases: [(&[&[u8]], bool); 7] = [
        // A second head, `:status` in trailers, and content-length 5 without a body.
        (&[b"\x88", b"\x88"], false),
        (&[b"\x88", b"!\x88"], false),
        (&[b"!\x88\x0f\x0d\x015"], false),
        // A field of the connection.
        (&[b"!\x88\x00\x0aconnection\x01x"], false),
        // The same in an interim response, before one that has none.
        (&[b"\x08\x03103\x00\x0aconnection\x01x", b"!\x88"], false),
        // Less data than content-length.
        (&[b"\x88\x0f\x0d\x015", b"=four"], true),
        // A field of the connection in trailers.
        (&[b"\x88", b"!\x00\x0aconnection\x01x"], true),
    ];
    for (pieces, has_head) in cases {
        let mut scene = EndpointScene::new();
        let (mut stream, key) = scene.ask(BodyLength::Empty);
        let mut bytes = Vec::new();
        for piece in pieces {
            let (kind, flags, payload) = match piece {
                [b'!', block @ ..] => {
                    let flags = frames::END_HEADERS | frames::END_STREAM;
                    (frames::HEADERS, flags, block)
                }
                [b'=', data @ ..] => (frames::DATA, frames::END_STREAM, data),
                block => (frames::HEADERS, frames::END_HEADERS, *block),
            };
            bytes.extend(frame(kind, flags, key.stream(), payload));
        }
        scene.send(&bytes);
        let sent = scene.sent;
        assert!(!scene.turns(|link| link.bytes_moved().1 == sent));
        let response = poll_response(&mut stream);
        if has_head {
            assert!(matches!(response, Poll::Ready(Ok(200))), "{response:?}");
            while let Poll::Ready(Ok(data)) = poll_data(&mut stream) {
                assert!(!data.is_empty() && !stream.is_complete());
            }
            assert!(!stream.is_last() && !stream.is_complete(), "{pieces:?}");
        } else {
            let is_refused = matches!(
                &response,
                Poll::Ready(Err(ReadError::Section(SectionError::ConnectionField)))
            ) || matches!(&response, Poll::Ready(Err(ReadError::Reset(reset))) if !reset.by_peer);
            assert!(is_refused, "{pieces:?}: {response:?}");
        }
        assert!(!stream.is_lost(), "others go on");
        drop(stream);
        assert!(scene.connection.is_idle());
    }
}

/// Interim responses are under no flow control.
#[test]
fn a_flood_of_interim_responses_ends_its_request_only() {
    let mut scene = EndpointScene::new();
    let (mut stream, key) = scene.ask(BodyLength::Empty);
    let (mut other, other_key) = scene.ask(BodyLength::Empty);
    for _ in 0..100 {
        scene.interim(key, 103);
    }
    scene.respond(other_key, 204, true);
    scene.settle();
    let response = poll_response(&mut stream);
    assert!(
        matches!(&response, Poll::Ready(Err(ReadError::Reset(reset)))
            if reset.to_string() == "too many interim responses: ENHANCE_YOUR_CALM"),
        "{response:?}"
    );
    assert!(matches!(poll_response(&mut other), Poll::Ready(Ok(204))));
    drop(stream);
    scene.settle();
    assert_eq!(scene.resets, [code::ENHANCE_YOUR_CALM]);
}

/// RFC 9113 §6.8, §8.7.
#[test]
fn requests_above_the_last_stream_of_goaway_are_unprocessed() {
    let mut scene = EndpointScene::new();
    let (mut first, key) = scene.ask(BodyLength::Empty);
    let (mut second, _) = scene.ask(BodyLength::Empty);
    let last = [key.stream().to_be_bytes(), code::NO_ERROR.to_be_bytes()].concat();
    scene.send(&frame(frames::GOAWAY, 0, 0, &last));
    scene.respond(key, 200, true);
    scene.settle();
    assert!(poll_response(&mut second).is_ready());
    assert!(second.is_unprocessed() && second.is_lost() && !second.has_sent());
    assert!(matches!(poll_response(&mut first), Poll::Ready(Ok(200))));
    assert!(UpstreamStream::open(&scene.connection).is_none());
    drop((first, second));
    assert!(scene.exchange(), "it closes behind its last request");
    assert_eq!(scene.goaway, Some(code::NO_ERROR));
}

#[test]
fn an_idle_connection_takes_leave_by_goaway() {
    let mut scene = EndpointScene::new();
    let (stream, key) = scene.ask(BodyLength::Empty);
    scene.connection.close_when_idle();
    scene.settle();
    scene.respond(key, 200, true);
    scene.settle();
    drop(stream);
    assert!(scene.exchange());
    assert_eq!(scene.goaway, Some(code::NO_ERROR));
}

/// CVE-2023-44487: servers on the h2 crate end a connection with 20 of them.
#[test]
fn cancelled_requests_are_reset_as_the_endpoint_reads() {
    let mut scene = EndpointScene::new();
    let streams: Vec<_> = (0..40).map(|_| scene.ask(BodyLength::Empty).0).collect();
    drop(streams);
    assert!(
        UpstreamStream::open(&scene.connection).is_none(),
        "it rests"
    );
    let mut before = 0;
    while scene.resets.len() < 40 {
        assert!(!scene.exchange());
        let resets = scene.resets.len();
        assert!(resets - before <= 8, "{resets} after {before}");
        before = resets;
    }
    scene.settle();
    assert!(scene.is_clean());
    scene.connection.check_liveness(Millis::ZERO);
    assert!(UpstreamStream::open(&scene.connection).is_some());
}

/// RFC 9113 §6.5.3. Without the acknowledgement their streams are never given back.
#[test]
fn an_endpoint_that_never_acknowledges_settings_is_dropped() {
    let mut scene = EndpointScene::new();
    let streams: Vec<_> = (0..10).map(|_| scene.ask(BodyLength::Empty).0).collect();
    drop(streams);
    // It gets the resets and SETTINGS behind them, and sends nothing.
    let read = scene.read;
    assert!(!scene.turns(|link| link.bytes_moved().0 > read));
    for second in 0..=20 {
        assert!(!scene.connection.is_closed(), "{second} s");
        assert!(!scene.turns(|_| true), "{second} s");
        scene.connection.check_liveness(Millis::from_secs(second));
    }
    assert!(scene.turns(|_| false), "it is over");
    let reason = scene.connection.close_reason.borrow().clone();
    assert_eq!(
        reason.as_deref(),
        Some("the endpoint does not acknowledge SETTINGS")
    );
}

/// RFC 9113 §5.1: a wait for room would never end.
#[test]
fn data_behind_the_end_of_a_request_is_an_error_and_no_wait() {
    let mut scene = EndpointScene::new();
    let (mut stream, _) = scene.ask(BodyLength::Chunked);
    assert!(matches!(
        poll_write(&mut stream, b"all", true),
        Poll::Ready(Ok(3))
    ));
    let more = poll_write(&mut stream, b"more", false);
    assert!(matches!(more, Poll::Ready(Err(_))), "{more:?}");
}

#[test]
fn empty_data_frames_retire_and_then_end_a_connection() {
    let mut scene = EndpointScene::new();
    let (mut stream, key) = scene.ask(BodyLength::Empty);
    scene.respond(key, 200, false);
    let empty = frame(frames::DATA, 0, key.stream(), b"");
    scene.settle();
    for (count, takes_more) in [(EMPTY - 1, true), (1, false)] {
        scene.send(&empty.repeat(count as usize));
        scene.settle();
        let more = UpstreamStream::open(&scene.connection);
        assert_eq!(more.is_some(), takes_more);
    }
    assert!(matches!(poll_response(&mut stream), Poll::Ready(Ok(200))));
    assert!(poll_data(&mut stream).is_pending());
    scene.send(&empty.repeat(MOST_EMPTY as usize));
    assert!(scene.turns(|_| false));
    let end = poll_data(&mut stream);
    assert!(
        matches!(&end, Poll::Ready(Err(ReadError::Stream(error)))
            if error.to_string().contains("empty DATA")),
        "{end:?}"
    );
    assert!(stream.is_lost());
}

/// Bodies of requests share a connection, and an endpoint's windows hold them back.
#[test]
fn uploads_wait_for_the_windows_of_the_endpoint() {
    let mut scene = EndpointScene::new();
    let (mut stream, key) = scene.ask(BodyLength::Chunked);
    let mut sent = 0;
    while let Poll::Ready(Ok(taken)) = poll_write(&mut stream, &[0; 20_000], false) {
        sent += taken;
        // The endpoint does not read yet.
        assert!(!scene.turns(|link| link.bytes_written() == link.bytes_moved().0));
    }
    assert_eq!(sent, 65_535);
    assert!(stream.is_blocked());
    scene.settle();
    assert_eq!(scene.data, 65_535);
    assert!(matches!(
        poll_write(&mut stream, b"rest", true),
        Poll::Ready(Ok(4))
    ));
    assert!(!stream.is_blocked() && stream.is_finished());
    scene.settle();
    scene.respond(key, 204, true);
    scene.settle();
    assert!(matches!(poll_response(&mut stream), Poll::Ready(Ok(204))));
}
