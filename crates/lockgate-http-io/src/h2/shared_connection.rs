//! A connection to an endpoint that many requests share: its streams, its liveness, and the task
//! that drives it.
//!
//! Chooses nothing and dials nothing: see `lockgate_upstream::h2_pool`.

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use lockgate_http::h2::{Key, code, frames};
use lockgate_net::millis::Millis;
use lockgate_net::stream::{BufferPool, Stream, StreamError};

use super::cancelled_requests::CancelledRequests;
use super::keepalive_ping::{ConnectionActivity, Keepalive, KeepaliveAction};
use super::link::{Link, LinkError, LinkEvent, SharedLink};
use super::worker_buffers::WorkerBuffers;
use crate::body::{ReadError, Reset};

/// The most requests at once on one connection, also where the endpoint allows more: this bounds
/// what fails with a connection, and what waits for a retransmission.
pub const MOST: usize = 100;
/// Requests cancelled without a response within about a second, after which a connection takes no
/// new ones for that time.
const TAKEN_BACK: u32 = 8;
/// Empty DATA frames after which a connection gets no more requests, and after which it ends: they
/// cost us time, and the endpoint no window. A stream that lives for days may have some.
const EMPTY: u32 = 64;
const MOST_EMPTY: u32 = 4_096;
/// The time for the acknowledgement of SETTINGS for which cancelled requests wait (RFC 9113 §6.5.3).
const SETTINGS_TIMEOUT: Millis = Millis::from_secs(20);
/// The close reason of a connection that the peer has ended in an orderly way.
const CLOSED: &str = "closed";

/// An HTTP/2 connection to an endpoint.
#[derive(Debug)]
pub struct SharedConnection {
    link: SharedLink,
    secure: bool,
    /// Reserved streams and open requests.
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
    /// When SETTINGS had come, for `ReusePolicy::New`.
    ready_at: Instant,
    /// When it was connected, before its handshake; a time of the worker's clock, here and below.
    connected_at: Millis,
    /// When a check first found no open request.
    idle_since: Cell<Option<Millis>>,
    keepalive: RefCell<Keepalive>,
    /// When a check first found that an acknowledgement of SETTINGS is waited for.
    unsettled_since: Cell<Option<Millis>>,
}

impl SharedConnection {
    /// Begins HTTP/2 on a new connection at the time `now`, and waits for the endpoint's SETTINGS.
    ///
    /// # Errors
    /// When it does not speak HTTP/2, or has gone.
    pub async fn handshake(
        stream: Stream,
        buffers: (&Rc<BufferPool>, &Rc<WorkerBuffers>),
        now: Millis,
    ) -> io::Result<(Rc<Self>, Driver)> {
        let secure = stream.is_secure();
        let link = Link::to_endpoint(stream, buffers, MOST as u32);
        // No request before the endpoint's SETTINGS, which may allow fewer.
        poll_fn(|cx| {
            let mut link = link.borrow_mut();
            link.begin_turn(cx);
            let received = link.poll_event(cx);
            let sent = link.poll_send(cx);
            link.end_turn();
            match (received, sent) {
                (Poll::Ready(Ok(LinkEvent::Ended { .. })), _) => {
                    Poll::Ready(Err(match link.goaway_code() {
                        None => io::ErrorKind::UnexpectedEof.into(),
                        code => io::Error::other(ended_after(code)),
                    }))
                }
                (Poll::Ready(Err(error)), _) => Poll::Ready(Err(handshake_error(error))),
                (_, Poll::Ready(Err(error))) => Poll::Ready(Err(handshake_error(error.into()))),
                _ if link.allowed_streams() > 0 => Poll::Ready(Ok(())),
                _ => Poll::Pending,
            }
        })
        .await?;
        let max_streams = link.borrow().allowed_streams().min(MOST);
        let shared = Rc::new(Self {
            link,
            secure,
            streams: Cell::new(0),
            max_streams: Cell::new(max_streams),
            requests_made: Cell::new(0),
            cancelled_lately: Cell::new(0),
            cancelled: RefCell::default(),
            leaving: Cell::new(false),
            closed: Cell::new(false),
            close_reason: RefCell::default(),
            order: Cell::default(),
            ready_at: Instant::now(),
            connected_at: now,
            idle_since: Cell::default(),
            keepalive: RefCell::default(),
            unsettled_since: Cell::default(),
        });
        let driver = Driver(Rc::clone(&shared));
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
        !self.is_idle() || self.link.borrow().transport().is_quiet_now()
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Takes no more requests, and closes after the open ones.
    pub fn close_when_idle(&self) {
        self.leaving.set(true);
        if self.is_idle() {
            self.link().wake_driver();
        }
    }

    /// Checks about once a second whether the endpoint answers, and whether a request is open.
    pub fn check_liveness(&self, now: Millis) {
        self.cancelled_lately.set(0);
        let seen = self.seen();
        if seen.idle {
            let since = self.idle_since.get().unwrap_or(now);
            self.idle_since.set(Some(since));
        }
        // Nothing is owed to an endpoint that does not take our last frames.
        if seen.idle && seen.blocked && self.leaving.get() {
            return self.order(KeepaliveAction::Drop);
        }
        if self.waits_for_settings(now) {
            self.record_failure("the endpoint does not acknowledge SETTINGS");
            return self.order(KeepaliveAction::Drop);
        }
        let order = self.keepalive.borrow_mut().check(now, seen);
        if let Some(order) = order {
            if order == KeepaliveAction::Drop {
                self.record_failure("the endpoint does not answer PING");
            }
            self.order(order);
        }
    }

    /// Whether cancelled requests have waited too long for an acknowledgement of SETTINGS: without it
    /// each would hold its stream for ever.
    fn waits_for_settings(&self, now: Millis) -> bool {
        let link = self.link.borrow();
        let waits = !self.cancelled.borrow().is_empty() && !link.is_settled() && !link.is_blocked();
        let since = waits.then(|| self.unsettled_since.get().unwrap_or(now));
        self.unsettled_since.set(since);
        since.is_some_and(|since| now - since >= SETTINGS_TIMEOUT)
    }

    fn order(&self, order: KeepaliveAction) {
        self.order.set(Some(order));
        self.link().wake_driver();
    }

    fn seen(&self) -> ConnectionActivity {
        let link = self.link.borrow();
        let (sent, received) = link.bytes_moved();
        ConnectionActivity {
            sent,
            received,
            responses: link.responses(),
            blocked: link.is_blocked(),
            idle: self.is_idle(),
        }
    }

    /// Notes that frames of a request were written, to which a reaction is expected.
    pub(super) fn note_request(&self) {
        let received = self.link.borrow().bytes_moved().1;
        self.keepalive.borrow_mut().note_request(received);
    }

    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Bytes of frames that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.link.borrow().bytes_moved().0
    }

    /// The connection below, for the length of one call.
    pub(super) fn link(&self) -> RefMut<'_, Link> {
        self.link.borrow_mut()
    }

    /// Cancels a request without a response. An endpoint that sees too many of these ends the
    /// connection with all requests (CVE-2023-44487). So it gets no new ones for a while: these use
    /// another connection.
    pub(super) fn cancel(&self, key: Key) {
        self.cancelled_lately.set(self.cancelled_lately.get() + 1);
        let mut link = self.link();
        let is_reset = self.cancelled.borrow_mut().cancel(&mut link, key);
        drop(link);
        if is_reset {
            self.release();
        }
    }

    /// Closes the stream of a request, with this code where it has not ended on both sides.
    pub(super) fn close(&self, key: Key, code: u32) {
        self.link().close(key, code);
        self.release();
    }

    /// Gives a reserved stream back.
    pub(super) fn release(&self) {
        self.give_back(1);
        if self.leaving.get() {
            self.close_when_idle();
        }
    }

    fn give_back(&self, streams: usize) {
        let open = self.streams.get();
        debug_assert!(streams <= open, "a stream is given back twice");
        self.streams.set(open.saturating_sub(streams));
    }

    /// Whether a stream has ended because the connection has, and not by a reset of its own.
    pub(super) fn has_ended_with(&self, reset: Reset) -> bool {
        let has_own = reset.by_peer || reset.fault.is_some();
        reset.code.is_none() || (!has_own && self.link.borrow().is_lost())
    }

    /// Why a stream has ended, with the connection's reason if the whole connection has ended.
    pub(super) fn explain(&self, reset: Reset) -> ReadError {
        match &*self.close_reason.borrow() {
            Some(why) if self.has_ended_with(reset) => lost(why),
            _ => reset.into(),
        }
    }

    fn record_failure(&self, why: impl Into<String>) {
        self.leaving.set(true);
        self.close_reason
            .borrow_mut()
            .get_or_insert_with(|| why.into());
    }
}

/// The error of a handshake.
fn handshake_error(error: LinkError) -> io::Error {
    io::Error::other(format!("HTTP/2 failed: {error}"))
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
pub struct Driver(Rc<SharedConnection>);

impl Driver {
    /// Drives the connection to its end.
    pub async fn run(self) {
        let Self(shared) = self;
        poll_fn(|cx| shared.poll_turn(cx)).await;
        shared.closed.set(true);
        shared.leaving.set(true);
        let mut link = shared.link();
        link.end_streams(None);
        let cancelled = shared.cancelled.take().close_all(&mut link);
        // A stream may have borrowed buffers since the last turn.
        link.end_turn();
        drop(link);
        shared.give_back(cancelled);
    }
}

impl SharedConnection {
    /// Handles all received frames, and sends what follows from them.
    fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        let order = self.order.take();
        if order == Some(KeepaliveAction::Drop) {
            return Poll::Ready(());
        }
        let mut link = self.link();
        link.begin_turn(cx);
        if order == Some(KeepaliveAction::Ping) {
            link.ping();
        }
        let failure = self.receive(cx, &mut link);
        let cancelled = self.cancelled.borrow_mut().advance(&mut link);
        self.give_back(cancelled);
        self.max_streams.set(link.allowed_streams().min(MOST));
        // GOAWAY (RFC 9113 §6.8): open requests go on.
        if !link.takes_requests() || link.empty_frames() >= EMPTY {
            self.leaving.set(true);
        }
        let is_last = failure.is_some() || self.leaving.get() && self.is_idle();
        let sent = if is_last {
            if !link.is_lost() {
                link.abort(code::NO_ERROR);
            }
            link.poll_finish(cx)
        } else {
            link.poll_send(cx)
        };
        link.end_turn();
        drop(link);
        match (failure, sent) {
            (Some(why), _) => self.record_failure(why),
            (None, Poll::Ready(Err(error))) => self.record_failure(error.to_string()),
            (None, Poll::Ready(Ok(()))) if is_last => self.record_failure(CLOSED),
            (None, _) => return Poll::Pending,
        }
        Poll::Ready(())
    }

    /// Handles what has come; the reason why the connection is over, if it is.
    fn receive(&self, cx: &mut Context<'_>, link: &mut Link) -> Option<String> {
        let received = link.poll_event(cx);
        if link.empty_frames() > MOST_EMPTY {
            link.abort(code::ENHANCE_YOUR_CALM);
            return Some("too many empty DATA frames".to_owned());
        }
        match received {
            // An endpoint sends no requests.
            Poll::Pending | Poll::Ready(Ok(LinkEvent::Request { .. } | LinkEvent::HeadTooLong)) => {
                None
            }
            Poll::Ready(Ok(LinkEvent::Ended { .. })) => {
                link.end_streams(None);
                Some(ended_after(link.goaway_code()))
            }
            Poll::Ready(Err(LinkError::Broken(error))) => {
                link.end_streams(None);
                Some(error.to_string())
            }
            Poll::Ready(Err(LinkError::Violation(violation))) => {
                link.end_streams(Some(violation.code()));
                Some(violation.to_string())
            }
        }
    }
}

/// The reason of an end, after a GOAWAY with this code if there was one.
fn ended_after(goaway: Option<u32>) -> String {
    match goaway {
        None | Some(code::NO_ERROR) => CLOSED.to_owned(),
        Some(code) => {
            let name = frames::error_words(code);
            format!("the endpoint has closed after GOAWAY: {name}")
        }
    }
}

#[cfg(test)]
mod tests;
