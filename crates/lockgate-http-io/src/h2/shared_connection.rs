//! A connection to an endpoint that many requests share: its streams, its liveness, and the task
//! that drives it.
//!
//! Chooses nothing and dials nothing: see `lockgate_upstream::h2_pool`.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, SendStream};
use lockgate_http::h2::SectionError;
use lockgate_net::millis::Millis;
use lockgate_net::stream::{BufferPool, Stream, StreamError};

use super::cancelled_requests::CancelledRequests;
use super::keepalive_ping::{ConnectionActivity, Keepalive, KeepaliveAction};
use super::{FrameIo, Io};
use crate::body::{ReadError, Reset};

/// The most requests at once on one connection, also where the endpoint allows more: this bounds
/// what fails with a connection, and what waits for a retransmission.
pub const MOST: usize = 100;
/// Requests cancelled without a response within about a second, after which a connection takes no
/// new ones for that time.
const TAKEN_BACK: u32 = 8;
/// The receive window of one response: 10 MB/s over 100 ms.
const WINDOW: u32 = 1024 * 1024;
/// The receive window of the connection: clients that take nothing never block the others.
const CONNECTION_WINDOW: u32 = MOST as u32 * WINDOW;
/// Bytes of one request that may wait in the connection behind others.
const HELD: usize = 64 * 1024;
/// Streams that we have reset and that are remembered, some hundred bytes each, and for how long:
/// further frames on them are dropped silently.
const RESETS: usize = 10 * MOST;
const REMEMBERED: Duration = Duration::from_secs(30);
/// The longest field section that is read; one beyond our limits is a stream error. For a longer
/// one, with some tolerance for frames that are not full, the h2 crate ends the connection.
const FIELDS: u32 = 256 * 1024;
/// The close reason of a connection that the peer has ended in an orderly way.
const CLOSED: &str = "closed";

/// An HTTP/2 connection to an endpoint.
#[derive(Debug)]
pub struct SharedConnection {
    /// None when no more requests are sent.
    send: RefCell<Option<SendRequest<Bytes>>>,
    frame_io: Rc<RefCell<FrameIo>>,
    secure: bool,
    /// Open requests.
    streams: Cell<usize>,
    /// The most open requests that the endpoint and we allow.
    max_streams: Cell<usize>,
    /// All requests so far.
    requests_made: Cell<u64>,
    /// Requests cancelled without a response since the last check.
    cancelled_lately: Cell<u32>,
    /// Cancelled requests that were not reset yet.
    cancelled: RefCell<CancelledRequests>,
    /// Whether the open requests are the last.
    leaving: Cell<bool>,
    closed: Cell<bool>,
    close_reason: RefCell<Option<String>>,
    order: Cell<Option<KeepaliveAction>>,
    driver: RefCell<Option<Waker>>,
    /// When SETTINGS had come, for `ReusePolicy::New`.
    ready_at: Instant,
    /// When it was connected, before its handshake; a time of the worker's clock, here and below.
    connected_at: Millis,
    /// When a check first found no open request.
    idle_since: Cell<Option<Millis>>,
    keepalive: RefCell<Keepalive>,
}

impl SharedConnection {
    /// Begins HTTP/2 on a new connection at the time `now`, and waits for the endpoint's SETTINGS.
    ///
    /// # Errors
    /// When it does not speak HTTP/2, or has gone.
    pub async fn handshake(
        stream: Stream,
        blocks: &Rc<BufferPool>,
        now: Millis,
    ) -> io::Result<(Rc<Self>, Driver)> {
        let secure = stream.is_secure();
        let frame_io = Rc::new(RefCell::new(FrameIo::to_endpoint(
            stream,
            blocks,
            FIELDS as usize,
        )));
        let handshake = Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(FIELDS)
            .max_send_buffer_size(HELD)
            // Frames that were on their way on streams that we have reset are no offence: the crate
            // would end the connection with all other requests for them.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(RESETS)
            .reset_stream_duration(REMEMBERED)
            .enable_push(false)
            // No request before the endpoint's SETTINGS, which may allow fewer.
            .initial_max_send_streams(0)
            .handshake(Io(Rc::clone(&frame_io)));
        let mut handshake = std::pin::pin!(handshake);
        let begun = poll_fn(|cx| {
            let begun = handshake.as_mut().poll(cx);
            // The next read reports the error.
            let _ = frame_io.borrow_mut().poll_send(cx);
            begun
        });
        let foreign = |error: h2::Error| {
            let told = frame_io
                .borrow_mut()
                .take_broken()
                .map(|error| error.to_string());
            io::Error::other(format!(
                "HTTP/2 failed: {}",
                told.unwrap_or_else(|| error.to_string())
            ))
        };
        let (send, mut connection) = begun.await.map_err(foreign)?;
        poll_fn(|cx| {
            frame_io.borrow_mut().begin_turn();
            match Pin::new(&mut connection).poll(cx) {
                Poll::Ready(Ok(())) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(foreign(error))),
                Poll::Pending => {
                    let _ = frame_io.borrow_mut().poll_send(cx);
                    if connection.max_concurrent_send_streams() > 0 {
                        Poll::Ready(Ok(()))
                    } else {
                        Poll::Pending
                    }
                }
            }
        })
        .await?;
        let pings = connection.ping_pong();
        let shared = Rc::new(Self {
            send: RefCell::new(Some(send)),
            frame_io,
            secure,
            streams: Cell::new(0),
            max_streams: Cell::new(connection.max_concurrent_send_streams().min(MOST)),
            requests_made: Cell::new(0),
            cancelled_lately: Cell::new(0),
            cancelled: RefCell::default(),
            leaving: Cell::new(false),
            closed: Cell::new(false),
            close_reason: RefCell::default(),
            order: Cell::default(),
            driver: RefCell::default(),
            ready_at: Instant::now(),
            connected_at: now,
            idle_since: Cell::default(),
            keepalive: RefCell::default(),
        });
        let driver = Driver {
            shared: Rc::clone(&shared),
            connection,
            pings,
        };
        Ok((shared, driver))
    }

    /// Reserves a stream for one more request; returns whether there was one.
    pub(super) fn reserve(&self) -> bool {
        let rests = self.cancelled_lately.get() >= TAKEN_BACK;
        if self.leaving.get() || rests || self.streams.get() >= self.max_streams.get() {
            return false;
        }
        self.streams.set(self.streams.get() + 1);
        self.requests_made.set(self.requests_made.get() + 1);
        self.idle_since.set(None);
        true
    }

    /// The most open requests.
    pub fn max_streams(&self) -> usize {
        self.max_streams.get()
    }

    /// All requests so far.
    pub fn requests_made(&self) -> u64 {
        self.requests_made.get()
    }

    /// When SETTINGS had come, for `ReusePolicy::New`.
    pub fn ready_at(&self) -> Instant {
        self.ready_at
    }

    /// When it was connected, before its handshake; a time of the worker's clock.
    pub fn connected_at(&self) -> Millis {
        self.connected_at
    }

    /// Whether no request is open.
    pub fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// Since when no request is open, if it takes requests; [`Millis::MAX`] before a check has
    /// found it idle.
    pub fn idle_since(&self) -> Option<Millis> {
        (self.is_idle() && !self.leaving.get())
            .then(|| self.idle_since.get().unwrap_or(Millis::MAX))
    }

    /// Whether, without open requests, the kernel says that the endpoint has sent nothing and is
    /// still connected.
    pub fn is_quiet_now(&self) -> bool {
        !self.is_idle() || self.frame_io.borrow().stream().is_quiet_now()
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Takes no more requests, and closes after the open ones.
    pub fn close_when_idle(&self) {
        self.leaving.set(true);
        if self.is_idle() && self.send.borrow_mut().take().is_some() {
            self.wake();
        }
    }

    /// Checks about once a second whether the endpoint answers, and whether a request is open.
    pub fn check_liveness(&self, now: Millis) {
        self.cancelled_lately.set(0);
        let seen = self.seen();
        let order = self.keepalive.borrow_mut().check(now, seen);
        if seen.idle {
            let since = self.idle_since.get().unwrap_or(now);
            self.idle_since.set(Some(since));
        }
        if let Some(order) = order {
            if order == KeepaliveAction::Drop {
                self.record_failure("the endpoint does not answer PING");
            }
            self.order.set(Some(order));
            self.wake();
        }
    }

    fn seen(&self) -> ConnectionActivity {
        let mut frame_io = self.frame_io.borrow_mut();
        let ((sent, received), blocked) = (frame_io.bytes_moved(), frame_io.is_blocked());
        let responses = frame_io.endpoint_frames().frames();
        ConnectionActivity {
            sent,
            received,
            responses,
            blocked,
            idle: self.is_idle(),
        }
    }

    /// Notes that frames of a request were sent, to which a reaction is expected.
    pub(super) fn note_request(&self) {
        let received = self.frame_io.borrow().bytes_moved().1;
        self.keepalive.borrow_mut().note_request(received);
    }

    /// Whether the endpoint takes extended CONNECT (RFC 8441 §3).
    pub(super) fn takes_tunnels(&self) -> bool {
        self.send
            .borrow()
            .as_ref()
            .is_some_and(SendRequest::is_extended_connect_protocol_enabled)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    pub(super) fn sent(&self) -> u64 {
        self.frame_io.borrow().bytes_moved().0
    }

    pub(super) fn send_request(
        &self,
        head: http::Request<()>,
        ended: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), Reset> {
        let mut send = self.send.borrow_mut();
        let Some(send) = &mut *send else {
            return Err(Reset::CANCELLED);
        };
        let asked = send
            .send_request(head, ended)
            .map_err(|error| Reset::from(&error))?;
        let mut frame_io = self.frame_io.borrow_mut();
        frame_io
            .endpoint_frames()
            .begin_request(asked.0.stream_id().as_u32());
        drop(frame_io);
        self.note_request();
        Ok(asked)
    }

    /// The error in the response on this stream that the crate does not report.
    pub(super) fn wrong(&self, stream: u32) -> Option<SectionError> {
        self.frame_io.borrow_mut().endpoint_frames().wrong(stream)
    }

    /// Cancels a request without a response. An endpoint that sees too many of these ends the
    /// connection with all requests (CVE-2023-44487). So it gets no new ones for a while: these use
    /// another connection.
    pub(super) fn cancel(&self, response: ResponseFuture) {
        self.cancelled_lately.set(self.cancelled_lately.get() + 1);
        let stream = response.stream_id().as_u32();
        if self.closed.get() || self.cancelled.borrow_mut().reset(response) {
            self.release(Some(stream));
        } else {
            self.wake();
        }
    }

    /// Gives a reserved stream back, and forgets its request.
    pub(super) fn release(&self, stream: Option<u32>) {
        if let Some(stream) = stream {
            let mut frame_io = self.frame_io.borrow_mut();
            frame_io.endpoint_frames().end_request(stream);
        }
        self.streams.set(self.streams.get() - 1);
        if self.leaving.get() {
            self.close_when_idle();
        }
    }

    /// Why a stream has ended, with the connection's reason if the whole connection has ended.
    pub(super) fn explain(&self, reset: Reset) -> ReadError {
        match (&*self.close_reason.borrow(), reset.code) {
            (Some(why), None) => lost(why),
            _ => reset.into(),
        }
    }

    fn record_failure(&self, why: impl Into<String>) {
        self.leaving.set(true);
        self.close_reason
            .borrow_mut()
            .get_or_insert_with(|| why.into());
    }

    fn wake(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }
}

/// The error of each stream of a closed connection.
fn lost(why: &str) -> ReadError {
    let kind = if why == CLOSED {
        io::ErrorKind::UnexpectedEof
    } else {
        io::ErrorKind::Other
    };
    StreamError::Io(io::Error::new(kind, why.to_owned())).into()
}

/// The driver of a [`SharedConnection`]: a future that moves its frames, and completes when it is
/// closed.
#[derive(Debug)]
pub struct Driver {
    shared: Rc<SharedConnection>,
    connection: Connection<Io, Bytes>,
    pings: Option<PingPong>,
}

impl Driver {
    /// Drives the connection to its end.
    pub async fn run(mut self) {
        poll_fn(|cx| self.poll_turn(cx)).await;
        self.shared.closed.set(true);
        self.shared.leaving.set(true);
        self.shared.send.borrow_mut().take();
        self.shared.cancelled.take();
    }

    /// Handles all received frames, and sends the frames that follow from them.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &self.shared;
        let mut driver = shared.driver.borrow_mut();
        if !driver
            .as_ref()
            .is_some_and(|driver| driver.will_wake(cx.waker()))
        {
            *driver = Some(cx.waker().clone());
        }
        drop(driver);
        match (shared.order.take(), &mut self.pings) {
            (Some(KeepaliveAction::Drop), _) => return Poll::Ready(()),
            (Some(KeepaliveAction::Ping), Some(pings)) => {
                // It fails while another PING is on its way.
                let _ = pings.send_ping(Ping::opaque());
            }
            _ => {}
        }
        shared.frame_io.borrow_mut().begin_turn();
        let ended = Pin::new(&mut self.connection).poll(cx);
        let reset = shared
            .cancelled
            .borrow_mut()
            .poll(cx, &mut self.connection, WINDOW);
        for stream in reset {
            shared.release(Some(stream));
        }
        if let Some(pings) = &mut self.pings {
            // Only the received bytes matter, not the acknowledgement.
            let _ = pings.poll_pong(cx);
        }
        let mut frame_io = shared.frame_io.borrow_mut();
        let sent = frame_io.poll_send(cx);
        frame_io.await_rest();
        let broken = frame_io.take_broken().map(|error| error.to_string());
        let frames = frame_io.endpoint_frames();
        let (worn, lost) = (frames.is_worn(), frames.is_lost());
        drop(frame_io);
        match (ended, sent) {
            (Poll::Ready(Ok(())), _) => {
                shared.record_failure(broken.unwrap_or_else(|| CLOSED.to_owned()))
            }
            (Poll::Ready(Err(error)), _) => {
                shared.record_failure(broken.unwrap_or_else(|| error.to_string()))
            }
            (Poll::Pending, Poll::Ready(Err(error))) => {
                shared.record_failure(broken.unwrap_or_else(|| error.to_string()));
            }
            // The crate has accepted a section that we could not parse: its fields are unchecked.
            (Poll::Pending, _) if lost => {
                shared.record_failure("a field section cannot be decoded")
            }
            (Poll::Pending, _) => {
                shared
                    .max_streams
                    .set(self.connection.max_concurrent_send_streams().min(MOST));
                let mut send = shared.send.borrow_mut();
                // GOAWAY (RFC 9113 §6.8): open requests go on.
                let gone = send
                    .as_mut()
                    .is_some_and(|send| matches!(send.poll_ready(cx), Poll::Ready(Err(_))));
                drop(send);
                if gone || worn {
                    shared.close_when_idle();
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}
