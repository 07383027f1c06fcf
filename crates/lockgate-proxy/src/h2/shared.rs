//! A connection to an endpoint that many requests share: the task that drives it, who has a place
//! on it, and whether it lives.
//!
//! Chooses nothing and dials nothing: see `upstream::sharing`.

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
use lockgate_http::h2::HeadError;
use lockgate_net::stream::{Blocks, Stream, StreamError};

use super::life::{Life, Order, Seen};
use super::unwanted::Unwanted;
use super::{Carrier, Io};
use crate::body::{ReadError, Reset};

/// Requests at once on one connection, where the endpoint allows more: what is lost with a
/// connection, and waits while a packet of it is sent again, is bounded.
pub const MOST: usize = 100;
/// Requests that are taken back on one connection before they are answered, within a second or so,
/// until it takes no more in that time.
const TAKEN_BACK: u32 = 8;
/// What an endpoint may send of one answer before somebody takes it: 10 MB/s over 100 ms.
const WINDOW: u32 = 1024 * 1024;
/// The same of all answers together: clients that take nothing never stop the others of the
/// connection.
const CONNECTION_WINDOW: u32 = MOST as u32 * WINDOW;
/// What of one request may wait in the connection for others to leave.
const HELD: usize = 64 * 1024;
/// Streams that we have reset and that are remembered, some hundred bytes each, and for how long:
/// what still comes on them is thrown away without another word.
const RESETS: usize = 10 * MOST;
const REMEMBERED: Duration = Duration::from_secs(30);
/// Field sections up to this are read, and those that are longer than we take are refused with a
/// word. Beyond, and some more for what frames are not full, the h2 crate ends the connection.
const FIELDS: u32 = 256 * 1024;
/// Why a connection is over whose peer has ended it in an orderly way.
const CLOSED: &str = "closed";

/// One connection.
#[derive(Debug)]
pub struct Shared {
    /// None when no more requests are sent.
    send: RefCell<Option<SendRequest<Bytes>>>,
    carrier: Rc<RefCell<Carrier>>,
    secure: bool,
    /// Requests that have a place.
    streams: Cell<usize>,
    /// What the endpoint allows of them, and we.
    most: Cell<usize>,
    /// All that had one.
    asked: Cell<u64>,
    /// Requests that were taken back before their answer, since it was looked after.
    taken_back: Cell<u32>,
    /// Those of them that the endpoint is still to be told of.
    unwanted: RefCell<Unwanted>,
    /// Whether those that have a place are the last.
    leaving: Cell<bool>,
    over: Cell<bool>,
    /// Why it broke.
    why: RefCell<Option<String>>,
    order: Cell<Option<Order>>,
    driver: RefCell<Option<Waker>>,
    made_at: Instant,
    /// Since when nobody has a place, as far as somebody has looked; milliseconds of the clock,
    /// here and below.
    idle_since: Cell<Option<u64>>,
    life: RefCell<Life>,
}

impl Shared {
    /// Begins HTTP/2 on a connection on which nothing was said, and waits until the endpoint has
    /// said what it allows.
    ///
    /// # Errors
    /// When it does not speak HTTP/2, or has gone.
    pub async fn begin(stream: Stream, blocks: &Rc<Blocks>) -> io::Result<(Rc<Self>, Driver)> {
        let secure = stream.is_secure();
        let carrier = Rc::new(RefCell::new(Carrier::to_endpoint(
            stream,
            blocks,
            FIELDS as usize,
        )));
        let handshake = Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(FIELDS)
            .max_send_buffer_size(HELD)
            // What was on its way on streams that we have reset is no offence, however long and on
            // how many: the crate would end the connection of all the others for it.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(RESETS)
            .reset_stream_duration(REMEMBERED)
            .enable_push(false)
            // None before its SETTINGS: what is too much would be refused.
            .initial_max_send_streams(0)
            .handshake(Io(Rc::clone(&carrier)));
        let mut handshake = std::pin::pin!(handshake);
        let begun = poll_fn(|cx| {
            let begun = handshake.as_mut().poll(cx);
            // What broke is told by the next read.
            let _ = carrier.borrow_mut().poll_send(cx);
            begun
        });
        let foreign = |error: h2::Error| {
            let told = carrier
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
            carrier.borrow_mut().begin_turn();
            match Pin::new(&mut connection).poll(cx) {
                Poll::Ready(Ok(())) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(foreign(error))),
                Poll::Pending => {
                    let _ = carrier.borrow_mut().poll_send(cx);
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
            carrier,
            secure,
            streams: Cell::new(0),
            most: Cell::new(connection.max_concurrent_send_streams().min(MOST)),
            asked: Cell::new(0),
            taken_back: Cell::new(0),
            unwanted: RefCell::default(),
            leaving: Cell::new(false),
            over: Cell::new(false),
            why: RefCell::default(),
            order: Cell::default(),
            driver: RefCell::default(),
            made_at: Instant::now(),
            idle_since: Cell::default(),
            life: RefCell::default(),
        });
        let driver = Driver {
            shared: Rc::clone(&shared),
            connection,
            pings,
        };
        Ok((shared, driver))
    }

    /// Takes a place for one more request, of which it takes no more than `requests` in its life;
    /// says whether there was one.
    pub(super) fn enter(&self, requests: u64) -> bool {
        let rests = self.taken_back.get() >= TAKEN_BACK;
        if self.leaving.get() || rests || self.streams.get() >= self.most.get() {
            return false;
        }
        self.streams.set(self.streams.get() + 1);
        self.asked.set(self.asked.get() + 1);
        self.idle_since.set(None);
        if self.asked.get() >= requests {
            self.leave();
        }
        true
    }

    /// Requests at once that it takes.
    pub fn most(&self) -> usize {
        self.most.get()
    }

    /// Requests that had a place.
    pub fn asked(&self) -> u64 {
        self.asked.get()
    }

    /// When it was made.
    pub fn made_at(&self) -> Instant {
        self.made_at
    }

    /// Whether nobody has a place.
    pub fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// Since when nobody has a place, of one that takes requests: the end of time where nobody has
    /// looked yet.
    pub fn idle_since(&self) -> Option<u64> {
        (self.is_idle() && !self.leaving.get()).then(|| self.idle_since.get().unwrap_or(u64::MAX))
    }

    /// Whether the kernel says that nothing has come and the endpoint is still there, where nobody
    /// has a place.
    pub fn is_quiet_now(&self) -> bool {
        !self.is_idle() || self.carrier.borrow().stream().is_quiet_now()
    }

    /// Whether nothing more comes of it.
    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Takes no more requests, and closes after those that it has.
    pub fn leave(&self) {
        self.leaving.set(true);
        if self.is_idle() && self.send.borrow_mut().take().is_some() {
            self.wake();
        }
    }

    /// Looks, about once a second, whether it lives and is wanted: for `lifetime` after its last
    /// request.
    pub fn look(&self, now: u64, lifetime: u64) {
        self.taken_back.set(0);
        let seen = self.seen();
        let order = self.life.borrow_mut().look(now, seen);
        if seen.idle {
            let since = self.idle_since.get().unwrap_or(now);
            self.idle_since.set(Some(since));
            if now.saturating_sub(since) >= lifetime {
                self.leave();
            }
        }
        if let Some(order) = order {
            if order == Order::Drop {
                self.breaks("the endpoint does not answer PING");
            }
            self.order.set(Some(order));
            self.wake();
        }
    }

    fn seen(&self) -> Seen {
        let mut carrier = self.carrier.borrow_mut();
        let ((sent, received), blocked) = (carrier.moved(), carrier.is_blocked());
        let answered = carrier.answers().map_or(0, |answers| answers.frames());
        Seen {
            sent,
            received,
            answered,
            blocked,
            idle: self.is_idle(),
        }
    }

    /// Something is said for a request, of which a sign is waited for.
    pub(super) fn says(&self) {
        let received = self.carrier.borrow().moved().1;
        self.life.borrow_mut().said(received);
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

    /// Bytes that have left.
    pub(super) fn sent(&self) -> u64 {
        self.carrier.borrow().moved().0
    }

    pub(super) fn ask(
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
        if let Some(answers) = self.carrier.borrow_mut().answers() {
            answers.begins(asked.0.stream_id().as_u32());
        }
        self.says();
        Ok(asked)
    }

    /// What is wrong with the answer on this stream and not told by the crate.
    pub(super) fn wrong(&self, stream: u32) -> Option<HeadError> {
        self.carrier.borrow_mut().answers()?.wrong(stream)
    }

    /// Takes back a request that was not answered. An endpoint that sees that too often ends the
    /// connection for everybody on it (CVE-2023-44487), so that it gets no new ones for a
    /// while: those who come now get another connection.
    pub(super) fn take_back(&self, answer: ResponseFuture) {
        self.taken_back.set(self.taken_back.get() + 1);
        let stream = answer.stream_id().as_u32();
        if self.over.get() || self.unwanted.borrow_mut().reset(answer) {
            self.release(Some(stream));
        } else {
            self.wake();
        }
    }

    /// Gives a place back, and forgets the request that was asked there.
    pub(super) fn release(&self, stream: Option<u32>) {
        if let (Some(stream), Some(answers)) = (stream, self.carrier.borrow_mut().answers()) {
            answers.ends(stream);
        }
        self.streams.set(self.streams.get() - 1);
        if self.leaving.get() {
            self.leave();
        }
    }

    /// Why a stream has ended, if that was the end of all of them.
    pub(super) fn explain(&self, reset: Reset) -> ReadError {
        match (&*self.why.borrow(), reset.code) {
            (Some(why), None) => lost(why),
            _ => reset.into(),
        }
    }

    fn breaks(&self, why: impl Into<String>) {
        self.leaving.set(true);
        self.why.borrow_mut().get_or_insert_with(|| why.into());
    }

    fn wake(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }
}

/// What a connection that is over says of each of its streams.
fn lost(why: &str) -> ReadError {
    let kind = if why == CLOSED {
        io::ErrorKind::UnexpectedEof
    } else {
        io::ErrorKind::Other
    };
    StreamError::Io(io::Error::new(kind, why.to_owned())).into()
}

/// What moves the frames of a [`Shared`] connection: a future that completes when the connection is
/// over.
#[derive(Debug)]
pub struct Driver {
    shared: Rc<Shared>,
    connection: Connection<Io, Bytes>,
    pings: Option<PingPong>,
}

impl Driver {
    /// Drives the connection to its end.
    pub async fn run(mut self) {
        poll_fn(|cx| self.poll_turn(cx)).await;
        self.shared.over.set(true);
        self.shared.leaving.set(true);
        self.shared.send.borrow_mut().take();
        self.shared.unwanted.take();
    }

    /// Does all that can be done now, and sends what came of it.
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
            (Some(Order::Drop), _) => return Poll::Ready(()),
            (Some(Order::Ping), Some(pings)) => {
                // One that is on its way is asked for an answer already.
                let _ = pings.send_ping(Ping::opaque());
            }
            _ => {}
        }
        shared.carrier.borrow_mut().begin_turn();
        let ended = Pin::new(&mut self.connection).poll(cx);
        let reset = shared
            .unwanted
            .borrow_mut()
            .poll(cx, &mut self.connection, WINDOW);
        for stream in reset {
            shared.release(Some(stream));
        }
        if let Some(pings) = &mut self.pings {
            // That something came is all that matters.
            let _ = pings.poll_pong(cx);
        }
        let mut carrier = shared.carrier.borrow_mut();
        let sent = carrier.poll_send(cx);
        carrier.await_rest();
        let broken = carrier.take_broken().map(|error| error.to_string());
        let (worn, lost) = carrier.answers().map_or((false, false), |answers| {
            (answers.is_worn(), answers.is_lost())
        });
        drop(carrier);
        match (ended, sent) {
            (Poll::Ready(Ok(())), _) => shared.breaks(broken.unwrap_or_else(|| CLOSED.to_owned())),
            (Poll::Ready(Err(error)), _) => {
                shared.breaks(broken.unwrap_or_else(|| error.to_string()))
            }
            (Poll::Pending, Poll::Ready(Err(error))) => {
                shared.breaks(broken.unwrap_or_else(|| error.to_string()));
            }
            // The crate has read what we could not follow: what it would hand on is not certain.
            (Poll::Pending, _) if lost => shared.breaks("a field section cannot be decoded"),
            (Poll::Pending, _) => {
                shared
                    .most
                    .set(self.connection.max_concurrent_send_streams().min(MOST));
                let mut send = shared.send.borrow_mut();
                // GOAWAY (RFC 9113 §6.8): those that have a place go on.
                let gone = send
                    .as_mut()
                    .is_some_and(|send| matches!(send.poll_ready(cx), Poll::Ready(Err(_))));
                drop(send);
                if gone || worn {
                    shared.leave();
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}
