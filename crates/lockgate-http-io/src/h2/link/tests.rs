//! Links on sockets, with the layer as their client.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::task::{Poll, Waker};
use std::time::Duration;

use lockgate_http::fields::Fields;
use lockgate_http::h2::{Budget, Event, FieldSection, LocalSettings, Role, SectionError, frames};
use lockgate_http::head::{BodyLength, Method, RequestHead, ResponseHead};
use lockgate_http::hpack::Indexing;
use lockgate_net::millis::Millis;
use lockgate_net::reactor::Reactor;
use lockgate_net::socket::{Socket, SocketFamily};

use super::*;
use crate::body::{BodyReader, BodyWriter, ReadError};
use crate::h2::DownstreamStream;
use crate::message::{ClientExchange, Persistence};

const RATE: FrameRate = FrameRate {
    count: 1,
    every: Duration::from_secs(1),
    burst: 1_000,
};
const LIMITS: LinkLimits = LinkLimits {
    streams: 100,
    window: 1 << 20,
    connection_window: 8 << 20,
    head_list: 32 * 1024,
    resets: RATE,
    control: RATE,
};

/// A client, and the link at the other end.
struct Scene {
    reactor: Reactor,
    link: SharedLink,
    buffers: Rc<WorkerBuffers>,
    client: Connection<()>,
    socket: TcpStream,
    /// Bytes that the client has sent, and those that it has read ahead.
    sent: u64,
    unread: Vec<u8>,
    /// Streams that the link has told of.
    opened: Vec<(Key, bool)>,
    section: FieldSection,
}

impl Scene {
    fn new() -> Self {
        Self::with(LIMITS)
    }

    fn with(limits: LinkLimits) -> Self {
        let reactor = Reactor::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let buffers = WorkerBuffers::new();
        let made = async {
            let socket = Socket::new(accepted.into(), SocketFamily::Tcp).unwrap();
            let stream = Stream::new(socket, None, Vec::new());
            let blocks = BufferPool::new();
            Link::of_client(stream, &blocks, &buffers, &[], &limits, Millis::ZERO)
        };
        let link = reactor.block_on(made).unwrap();
        let settings = LocalSettings {
            streams: 0,
            window: 65_535,
            connection_window: 65_535,
            head_list: 32 * 1024,
            connect_protocol: false,
        };
        Self {
            reactor,
            link,
            buffers,
            client: Connection::new(Role::Client, settings, Budget::UNLIMITED),
            socket,
            sent: 0,
            unread: Vec::new(),
            opened: Vec::new(),
            section: FieldSection::default(),
        }
    }

    /// Begins a request in the client.
    fn post(&mut self) -> Key {
        let opened = self.client.open(Method::Post, (), false, |block| {
            for (name, value) in [
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", "a.test"),
                (":path", "/"),
            ] {
                block.field(name.as_bytes(), value.as_bytes(), Indexing::Keep);
            }
        });
        opened.unwrap()
    }

    /// Sends what the client has written.
    fn send(&mut self) {
        let unsent = self.client.unsent();
        self.socket.write_all(unsent).unwrap();
        self.sent += unsent.len() as u64;
        self.client.note_sent(usize::MAX);
    }

    /// Takes turns of the link until this holds, or it fails.
    fn turns(&mut self, mut is_done: impl FnMut(&mut Link) -> bool) -> Result<(), LinkError> {
        let Self {
            reactor,
            link,
            opened,
            ..
        } = self;
        let turns = poll_fn(|cx| {
            let mut link = link.borrow_mut();
            link.begin_turn(cx);
            let failed = loop {
                match link.poll_event(cx) {
                    Poll::Ready(Ok(LinkEvent::Request { key, has_ended })) => {
                        opened.push((key, has_ended));
                    }
                    Poll::Ready(Ok(LinkEvent::HeadTooLong)) => {}
                    Poll::Ready(Ok(LinkEvent::Ended { .. })) => panic!("the client stays"),
                    Poll::Ready(Err(error)) => break Some(error),
                    Poll::Pending => break None,
                }
            };
            let _ = link.poll_send(cx);
            link.end_turn();
            match failed {
                Some(error) => Poll::Ready(Err(error)),
                None if is_done(&mut link) => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        });
        reactor.block_on(turns).unwrap()
    }

    /// Sends all of the client's, and waits until the link has handled it; the client has the answers.
    fn settle(&mut self) {
        self.client.ping(*b"settled?");
        self.send();
        let sent = self.sent;
        self.turns(|link| link.bytes_moved().1 == sent && is_flushed(link))
            .unwrap();
        while !matches!(self.next_event(), Event::Pong { .. }) {}
    }

    /// Takes turns until all is sent.
    fn flush(&mut self) {
        self.turns(|link| is_flushed(link)).unwrap();
    }

    /// Reads for the client, which gets more.
    fn next_event(&mut self) -> Event {
        loop {
            let used = self
                .client
                .receive(&self.unread, &mut self.section)
                .unwrap();
            self.unread.drain(..used);
            if let Some(event) = self.client.next_event() {
                return event;
            }
            let mut more = [0; 16 * 1024];
            let read = self.socket.read(&mut more).unwrap();
            assert!(read > 0, "the link stays");
            self.unread.extend_from_slice(&more[..read]);
        }
    }

    fn stream(&self, at: usize) -> DownstreamStream {
        let (key, has_ended) = self.opened[at];
        DownstreamStream::new(&self.link, key, has_ended)
    }
}

fn is_flushed(link: &Link) -> bool {
    !link.is_blocked() && link.connection.unsent().is_empty()
}

fn poll_data(stream: &mut DownstreamStream) -> Poll<Result<usize, ReadError>> {
    let cx = &mut Context::from_waker(Waker::noop());
    stream.poll_data(cx).map_ok(|()| stream.data().len())
}

/// Today's 62 writes for 1 MB were one for each frame.
#[test]
fn data_frames_of_one_turn_are_one_piece_of_a_body() {
    let mut scene = Scene::new();
    let key = scene.post();
    for at in 0..3 {
        assert_eq!(scene.client.data(key, &[at; 16_384], at == 2), 16_384);
    }
    scene.settle();
    let mut stream = scene.stream(0);
    assert!(matches!(poll_data(&mut stream), Poll::Ready(Ok(49_152))));
    assert_eq!((stream.data()[0], stream.data()[49_151]), (0, 2));
    assert!(stream.is_last());
    stream.consume(49_152);
    assert!(stream.is_complete());
}

/// RFC 9113 §5.2.2 warns of it: the window of the connection is less than those of its streams.
#[test]
fn bodies_that_nothing_takes_do_not_stop_the_others() {
    let mut scene = Scene::new();
    scene.settle();
    let mut sent = 0;
    for _ in 0..32 {
        let key = scene.post();
        loop {
            let taken = scene.client.data(key, &[0; 16_384], false);
            sent += taken;
            if taken == 0 {
                break;
            }
            scene.settle();
        }
    }
    assert_eq!(sent, 32 * 65_535, "every body has its own window");
    let link = scene.link.borrow();
    assert_eq!(link.connection.kept_bytes(), sent);
    assert!(sent > link.windows.connection() as usize);
}

/// The bound of that: as much again as the connection's window.
#[test]
fn kept_bodies_are_bounded_by_the_limit_of_the_connection() {
    const MOST: usize = 1 << 20;
    let mut scene = Scene::with(LinkLimits {
        connection_window: MOST as u32,
        ..LIMITS
    });
    scene.settle();
    let mut sent = 0;
    for _ in 0..40 {
        let key = scene.post();
        while let taken @ 1.. = scene.client.data(key, &[0; 16_384], false) {
            sent += taken;
            scene.settle();
        }
    }
    let kept = scene.link.borrow().connection.kept_bytes();
    assert!((MOST / 2..=MOST).contains(&kept), "{kept}");
    assert_eq!(scene.client.connection_window(), 0);
    assert!(sent <= 2 * MOST, "{sent}");
    // When the first of them are taken, there is room for what was not kept.
    for at in 0..20 {
        let mut stream = scene.stream(at);
        let Poll::Ready(Ok(length)) = poll_data(&mut stream) else {
            panic!("there is data");
        };
        stream.consume(length);
    }
    scene.settle();
    assert!(scene.client.connection_window() > 0);
    let kept = scene.link.borrow().connection.kept_bytes();
    assert_eq!(kept, sent - 20 * 65_535, "all that is left");
}

#[test]
fn a_link_between_two_turns_holds_no_buffers() {
    let mut scene = Scene::new();
    scene.post();
    scene.settle();
    assert_eq!(scene.buffers.spare(), 1);
    let mut stream = scene.stream(0);
    stream.respond(
        &RequestHead::default(),
        &ResponseHead::of(200),
        BodyLength::Known(2),
        Persistence::KeepAlive,
    );
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(matches!(
        stream.poll_write(cx, b"ok", true),
        Poll::Ready(Ok(2))
    ));
    assert_eq!(scene.buffers.spare(), 0, "until it is sent");
    scene.flush();
    assert_eq!(scene.buffers.spare(), 1);
    assert!(scene.link.borrow().inbox.is_empty());
}

/// Otherwise all but one begin each turn with small buffers, and free large ones at its end.
#[test]
fn each_of_many_links_gets_large_buffers_back() {
    let mut scenes = [Scene::new(), Scene::new()];
    let shared = Rc::clone(&scenes[0].buffers);
    scenes[1].link.borrow_mut().buffers = Rc::clone(&shared);
    let [mut one, mut other] = scenes.each_mut().map(|scene| {
        scene.post();
        scene.settle();
        scene.stream(0)
    });
    let cx = &mut Context::from_waker(Waker::noop());
    let mut write = |stream: &mut DownstreamStream| {
        let (head, request) = (ResponseHead::of(200), RequestHead::default());
        stream.respond(&request, &head, BodyLength::Chunked, Persistence::KeepAlive);
        assert!(stream.poll_write(cx, &[0; 30_000], true).is_ready());
    };
    write(&mut one);
    write(&mut other);
    scenes.iter_mut().for_each(Scene::flush);
    assert_eq!(shared.spare(), 2);
    let sets = [shared.take(), shared.take()];
    assert!(sets.iter().all(|set| set.memory() >= 30_000), "{sets:?}");
}

/// RFC 9113 §5.4.2; data before it is of no more use.
#[test]
fn a_reset_of_the_client_ends_the_stream_at_once() {
    let mut scene = Scene::new();
    let key = scene.post();
    scene.client.data(key, b"some", false);
    scene.client.close(key, code::CANCEL);
    scene.settle();
    let mut stream = scene.stream(0);
    let lost = poll_data(&mut stream);
    let expected = Reset {
        code: Some(code::CANCEL),
        by_peer: true,
        unprocessed: false,
        fault: None,
    };
    assert!(
        matches!(lost, Poll::Ready(Err(ReadError::Reset(reset))) if reset == expected),
        "{lost:?}"
    );
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(stream.poll_gone(cx).is_ready());
    // The client may have opened another one by now.
    assert_eq!(scene.link.borrow().connection.active(), 0);
    drop(stream);
    assert!(scene.link.borrow().resets.is_empty());
}

/// RFC 9113 §8.1.1: a stream error, before which a response is allowed.
#[test]
fn a_malformed_request_is_answered_and_reset() {
    let mut scene = Scene::new();
    let key = scene.post();
    scene.settle();
    let mut stream = scene.stream(0);
    stream.mark_malformed();
    stream.respond(
        &RequestHead::default(),
        &ResponseHead::of(400),
        BodyLength::Known(2),
        Persistence::KeepAlive,
    );
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(matches!(
        stream.poll_write(cx, b"no", true),
        Poll::Ready(Ok(2))
    ));
    assert!(stream.is_finished());
    drop(stream);
    scene.flush();
    assert!(matches!(
        scene.next_event(),
        Event::Head { ended: false, .. }
    ));
    assert!(matches!(
        scene.next_event(),
        Event::Data { ended: false, .. }
    ));
    let Event::Reset { key: lost, reset } = scene.next_event() else {
        panic!("no reset");
    };
    assert_eq!((lost, reset.code), (key, code::PROTOCOL_ERROR));
}

/// RFC 6585 §5. Nothing is kept of such a head, and no task is begun for it.
#[test]
fn a_head_beyond_what_is_decoded_gets_a_431() {
    let mut scene = Scene::new();
    let long = vec![b'x'; LIMITS.head_list];
    scene.client.open(Method::Get, (), true, |block| {
        block.field(b":method", b"GET", Indexing::Keep);
        block.field(b"x", &long, Indexing::Never);
    });
    scene.send();
    let sent = scene.sent;
    scene
        .turns(|link| link.bytes_moved().1 == sent && is_flushed(link))
        .unwrap();
    assert!(matches!(
        scene.next_event(),
        Event::Head { ended: true, .. }
    ));
    let mut head = ResponseHead::default();
    let limits = HeadLimits::default();
    scene.section.response(&limits, &mut head).unwrap();
    assert_eq!((head.status, scene.opened.len()), (431, 0));
    assert_eq!(scene.link.borrow().connection.active(), 0);
}

/// CVE-2019-9512.
#[test]
fn a_flood_ends_the_link_and_its_streams() {
    let mut scene = Scene::new();
    scene.post();
    scene.settle();
    let mut stream = scene.stream(0);
    let ping = [&[0, 0, 8, frames::PING, 0, 0, 0, 0, 0][..], &[0; 8]].concat();
    scene.socket.write_all(&ping.repeat(2_000)).unwrap();
    let failed = scene.turns(|_| false);
    assert!(
        matches!(
            failed,
            Err(LinkError::Violation(LinkViolation::Rule(
                ConnectionError::Control
            )))
        ),
        "{failed:?}"
    );
    scene
        .link
        .borrow_mut()
        .end_streams(Some(code::ENHANCE_YOUR_CALM));
    let lost = poll_data(&mut stream);
    assert!(
        matches!(
            lost,
            Poll::Ready(Err(ReadError::Reset(Reset { code: Some(11), .. })))
        ),
        "{lost:?}"
    );
}

/// A reference of one byte may stand for 4,000 in the trailers of each stream (CVE-2016-6581).
#[test]
fn trailers_of_open_streams_take_bounded_memory() {
    let mut scene = Scene::new();
    let long = [b'x'; 3_900];
    let mut fields = Fields::default();
    for _ in 0..7 {
        fields.append(b"x-long", &long);
    }
    for _ in 0..100 {
        let key = scene.post();
        scene.client.trailers(key, &fields);
        scene.settle();
    }
    let refused = |at| {
        let mut stream = scene.stream(at);
        let read = poll_data(&mut stream);
        matches!(
            read,
            Poll::Ready(Err(ReadError::Section(SectionError::TooLong)))
        )
    };
    let refused: Vec<bool> = (0..100).map(refused).collect();
    // Of 1 MB.
    let kept = refused.iter().filter(|refused| !**refused).count();
    assert!((30..40).contains(&kept), "{kept}");
    assert!(!refused[0] && refused[99]);
}

/// RFC 9113 §6.8: a client that leaves has its responses first.
#[test]
fn a_goaway_of_the_client_counts_when_all_is_answered() {
    let mut scene = Scene::new();
    scene.post();
    scene.send();
    let goaway = [
        0,
        0,
        8,
        frames::GOAWAY,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        2,
    ];
    scene.socket.write_all(&goaway).unwrap();
    scene.sent += goaway.len() as u64;
    scene.settle();
    let stream = scene.stream(0);
    assert_eq!(scene.link.borrow().goaway(), None);
    drop(stream);
    assert_eq!(scene.link.borrow().goaway(), Some(code::INTERNAL_ERROR));
}

/// Otherwise the log says that a client has got what it has cancelled.
#[test]
fn a_response_to_a_stream_that_was_reset_is_not_delivered() {
    let mut scene = Scene::new();
    let key = scene.post();
    scene.client.close(key, code::CANCEL);
    scene.settle();
    let mut stream = scene.stream(0);
    stream.respond(
        &RequestHead::default(),
        &ResponseHead::of(204),
        BodyLength::Empty,
        Persistence::KeepAlive,
    );
    assert!(stream.is_finished());
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(matches!(stream.poll_flush(cx), Poll::Ready(Err(_))));
}

/// Otherwise a page over a slow link loses its images: they wait as long as the responses before
/// them take.
#[test]
fn waiting_behind_other_streams_is_not_waiting_for_the_client() {
    let mut scene = Scene::new();
    scene.post();
    scene.post();
    scene.settle();
    let cx = &mut Context::from_waker(Waker::noop());
    let (head, request) = (ResponseHead::of(200), RequestHead::default());
    let mut streams = [scene.stream(0), scene.stream(1)];
    for stream in &mut streams {
        stream.respond(&request, &head, BodyLength::Chunked, Persistence::KeepAlive);
    }
    let [first, second] = &mut streams;
    scene.link.borrow_mut().order.send(usize::MAX);
    assert!(second.poll_write(cx, b"data", true).is_pending());
    assert!(!second.is_blocked(), "it has not had its turn");
    scene.flush();
    // The client's windows are of 65,535 bytes, and it does not read.
    let large = [0; 60_000];
    assert!(matches!(
        first.poll_write(cx, &large, false),
        Poll::Ready(Ok(60_000))
    ));
    scene.flush();
    assert!(matches!(
        second.poll_write(cx, &large, false),
        Poll::Ready(Ok(5_535))
    ));
    scene.flush();
    assert!(second.poll_write(cx, &large, false).is_pending());
    assert!(
        second.is_blocked(),
        "it has its turn, and there is no window"
    );
}
