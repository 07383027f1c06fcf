//! A client's connection over HTTP/2: its turns, its requests, and its end.
//!
//! What becomes of a request is decided in `serve`, as it is for HTTP/1.

mod streams;

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use lockgate_http::h2::{Key, code, frames};
use lockgate_http_io::h2::{
    DownstreamStream, FrameRate, HeadRefusal, Link, LinkError, LinkEvent, LinkLimits,
    LinkViolation, SharedLink,
};
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{ConnectionUse, Cut, WaitReason};
use lockgate_net::memory::{MemoryLevel, level};
use lockgate_net::reactor;
use lockgate_net::stream::Stream;
use lockgate_rules::Allowance;

use super::ListenerSnapshot;
use super::client_context::ClientContext;
use super::connection::ClientConnection;
use super::linger::{SHORT_LINGER, linger_over_http2};
use super::serve::min_rate;
use super::termination::{Termination, termination_of_cut};
use crate::access_log::{Cause, CauseSide};
use crate::action::relay::ClientTransport;
use crate::error_response::HttpFault;
use crate::exchange::ExchangeFailure;
use crate::request_id::RequestId;
use crate::site::ListenerSites;

/// Field sections that are longer than we take by no more than this are decoded, and get a response.
const BEYOND: usize = 16 * 1024;
/// Bytes that may wait in the kernel to be sent: a response of higher priority comes behind them.
const UNSENT: i32 = 64 * 1024;
/// Streams of one connection that wait while memory is full; those beyond are refused.
const WAITING: usize = 4;

/// A client's connection over HTTP/2, with the state that its streams share.
pub(super) struct H2ClientConnection {
    connection: ClientConnection,
    client: ClientContext,
    link: SharedLink,
    /// Streams that have a task.
    open: Cell<usize>,
}

/// The progress of a connection.
struct ConnectionProgress {
    /// Whether the client's preface has come.
    has_begun: bool,
    phase: ConnectionPhase,
    shutdown: ConnectionShutdown,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    /// The next request; nothing is under way.
    Idle,
    /// The rest of a head; nothing else is under way.
    Head,
    /// Its streams, or the client, to take what is sent.
    Streams,
}

/// The progress of a connection's shutdown.
enum ConnectionShutdown {
    /// The connection goes on.
    No,
    /// No new requests are taken; those that have begun are answered.
    Gracefully,
    /// The connection is over but for our last frames.
    Now(Termination),
}

impl ConnectionProgress {
    fn is_over(&self) -> bool {
        matches!(self.shutdown, ConnectionShutdown::Now(_))
    }
}

impl H2ClientConnection {
    pub(super) fn connection(&self) -> &ClientConnection {
        &self.connection
    }

    fn snapshot(&self) -> Rc<ListenerSnapshot> {
        self.connection.listener.snapshot()
    }

    /// Serves requests until the connection is over.
    pub(super) async fn serve(
        connection: ClientConnection,
        client: ClientTransport,
    ) -> (Rc<Self>, Termination) {
        let ClientTransport {
            socket,
            session,
            received,
            unsent,
        } = client;
        let snapshot = connection.listener.snapshot();
        socket.limit_unsent(UNSENT);
        let worker = &connection.worker;
        let link = Link::of_client(
            Stream::new(socket, session, unsent),
            &worker.blocks,
            &worker.h2_buffers,
            &received,
            &link_limits(snapshot.sites()),
            worker.clock.now(),
        );
        let context = ClientContext::of(&connection, &snapshot.generation);
        drop((snapshot, received));
        let h2_connection = Rc::new(Self {
            connection,
            client: context,
            link,
            open: Cell::new(0),
        });
        let termination = boxed(|| h2_connection.drive()).await;
        h2_connection.link.borrow_mut().end_streams(None);
        (h2_connection, termination)
    }

    async fn drive(self: &Rc<Self>) -> Termination {
        let guard = &self.connection.guard;
        guard.begin_phase(self.snapshot().sites().head);
        guard.watch().used_as.set(ConnectionUse::Http2);
        guard.watch().set_wait(WaitReason::ForHead);
        let mut progress = ConnectionProgress {
            has_begun: false,
            phase: ConnectionPhase::Streams,
            shutdown: ConnectionShutdown::No,
        };
        loop {
            let turn = guard.within(poll_fn(|cx| self.poll_progress(cx, &mut progress)));
            let cut = match turn.await {
                Ok(ended) => {
                    let termination = match progress.shutdown {
                        ConnectionShutdown::Now(termination) => termination,
                        _ => ended,
                    };
                    self.link.borrow_mut().end_streams(None);
                    boxed(|| linger_over_http2(guard, &self.link)).await;
                    return termination;
                }
                Err(cut) => cut,
            };
            if let ConnectionShutdown::Now(termination) = progress.shutdown {
                // A client that does not take our last frames is disconnected for the reason that
                // they tell.
                return termination;
            }
            if !progress.has_begun {
                return termination_of_cut(cut, "HTTP/2 preface");
            }
            let termination = match cut {
                Cut::Deadline if progress.phase == ConnectionPhase::Idle => Termination::idle(),
                // Of requests in flight it ends more than their own lines can tell.
                cut if progress.phase == ConnectionPhase::Streams => {
                    termination_of_cut(cut, "HTTP/2").always_logged()
                }
                cut => termination_of_cut(cut, "HTTP/2"),
            };
            if cut == Cut::Memory {
                // What it has not taken is not to stay in the kernel.
                self.link.borrow().transport().socket().reset_on_close();
            }
            if matches!(cut, Cut::Slow | Cut::Memory) {
                // It would not take this either.
                return termination;
            }
            // GOAWAY tells it so, and which requests were not looked at (RFC 9113 §6.8); those in
            // flight have had their time.
            self.link.borrow_mut().abort(code::NO_ERROR);
            progress.shutdown = ConnectionShutdown::Now(termination);
            guard.begin_phase(SHORT_LINGER);
            if cut != Cut::Deadline {
                let _ =
                    poll_fn(|cx| Poll::Ready(self.poll_turn(cx, &mut progress).is_ready())).await;
            }
            if cut == Cut::Crowded
                && let ConnectionShutdown::Now(termination) = progress.shutdown
            {
                // Another client waits for its permit, and nothing of this one is on its way.
                return termination;
            }
        }
    }

    /// Takes a turn, and sets what the connection waits for until the next one.
    fn poll_progress(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        progress: &mut ConnectionProgress,
    ) -> Poll<Termination> {
        let watch = self.connection.guard.watch();
        if progress.has_begun
            && matches!(progress.shutdown, ConnectionShutdown::No)
            && watch.is_draining()
        {
            self.drain(progress);
        }
        let turned = self.poll_turn(cx, progress);
        if !progress.has_begun && self.link.borrow().has_begun() {
            // A request that came with the preface is in flight before any phase begins.
            self.connection.guard.end_phase();
            watch.hold_to(min_rate(self.snapshot().sites().rates));
            watch.generation.set(0);
            progress.has_begun = true;
        }
        if turned.is_pending() && progress.has_begun && !progress.is_over() {
            self.set_phase(&mut progress.phase);
        }
        turned
    }

    /// Does all that can be done now, and sends what came of it.
    fn poll_turn(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        progress: &mut ConnectionProgress,
    ) -> Poll<Termination> {
        let now = self.connection.worker.clock.now();
        let mut link = self.link.borrow_mut();
        link.refill(now);
        link.begin_turn(cx);
        drop(link);
        let ended = if progress.is_over() {
            None
        } else {
            self.receive(cx, progress)
        };
        let mut link = self.link.borrow_mut();
        let goaway = link.goaway();
        let is_over =
            progress.is_over() || ended.is_some() || link.is_drained() || goaway.is_some();
        let sent = if is_over {
            link.poll_finish(cx)
        } else {
            link.poll_send(cx)
        };
        link.end_turn();
        let (sent_bytes, received) = link.bytes_moved();
        drop(link);
        let meter = &self.connection.guard.watch().meter;
        meter.sent.set(sent_bytes);
        meter.received.set(received);
        match (ended, sent) {
            (Some(termination), _) => Poll::Ready(termination),
            (None, Poll::Ready(Err(error))) => Poll::Ready(Termination::client_reset(error)),
            (None, Poll::Ready(Ok(()))) if is_over => Poll::Ready(end_of_goaway(goaway)),
            (None, _) => Poll::Pending,
        }
    }

    /// Handles what has come; the end of the connection, if it is over without our doing.
    fn receive(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        progress: &mut ConnectionProgress,
    ) -> Option<Termination> {
        loop {
            let event = self.link.borrow_mut().poll_event(cx);
            match event {
                Poll::Ready(Ok(LinkEvent::Request { key, has_ended })) => {
                    self.open_stream(key, has_ended, progress);
                }
                Poll::Ready(Ok(LinkEvent::HeadTooLong)) => {
                    let fault = HttpFault::HeadTooLarge;
                    self.log_refusal(ExchangeFailure::because(fault, "more fields than we read"));
                }
                Poll::Ready(Ok(LinkEvent::Ended { is_cut: false })) => {
                    return Some(Termination::client_closed());
                }
                Poll::Ready(Ok(LinkEvent::Ended { is_cut: true })) => {
                    let (cause, side) = (Cause::ClientClosed, CauseSide::Downstream);
                    let detail = "in the middle of a frame or of the preface";
                    return Some(Termination::because(cause, side, detail));
                }
                Poll::Ready(Err(LinkError::Broken(error))) => {
                    return Some(Termination::client_reset(error));
                }
                Poll::Ready(Err(LinkError::Violation(violation))) => {
                    progress.shutdown = ConnectionShutdown::Now(self.violated(violation));
                    self.connection.guard.begin_phase(SHORT_LINGER);
                    self.link.borrow_mut().end_streams(Some(violation.code()));
                    return None;
                }
                Poll::Pending => return None,
            }
        }
    }

    /// Sets the phase of the wait for the next turn.
    fn set_phase(&self, phase: &mut ConnectionPhase) {
        let guard = &self.connection.guard;
        let link = self.link.borrow();
        let is_blocked = link.is_blocked();
        let next = match self.open.get() {
            0 if !is_blocked && link.is_within_frame() => ConnectionPhase::Head,
            0 if !is_blocked => ConnectionPhase::Idle,
            // Also where what is left of the last response is still to arrive.
            _ => ConnectionPhase::Streams,
        };
        drop(link);
        if next != std::mem::replace(phase, next) {
            match next {
                ConnectionPhase::Idle => {
                    guard.begin_phase(self.snapshot().sites().idle);
                    guard.watch().mark_between_exchanges();
                }
                ConnectionPhase::Head => guard.begin_phase(self.snapshot().sites().head),
                ConnectionPhase::Streams => guard.end_phase(),
            }
        }
        guard.watch().set_wait(match next {
            _ if is_blocked => WaitReason::ForRoom,
            ConnectionPhase::Idle => WaitReason::ForRequest,
            ConnectionPhase::Head => WaitReason::ForHead,
            ConnectionPhase::Streams => WaitReason::ForStreams,
        });
    }

    /// The end of a connection for a violation by its client.
    fn violated(&self, violation: LinkViolation) -> Termination {
        self.connection.count_violation(violation.label());
        let cause = if violation.is_abuse() {
            Cause::Limit
        } else {
            Cause::RefusedByRule
        };
        let detail = if violation.is_of_sections() {
            format!("a field section that cannot be decoded: {violation}")
        } else {
            violation.to_string()
        };
        Termination::because(cause, CauseSide::Downstream, detail).always_logged()
    }

    /// Takes no new requests.
    fn drain(&self, progress: &mut ConnectionProgress) {
        progress.shutdown = ConnectionShutdown::Gracefully;
        self.link.borrow_mut().drain();
    }

    /// Serves a request in a task of its own; its head has come.
    fn open_stream(self: &Rc<Self>, key: Key, has_ended: bool, progress: &mut ConnectionProgress) {
        let worker = &self.connection.worker;
        let mut link = self.link.borrow_mut();
        if level() == MemoryLevel::Full && self.open.get() >= WAITING {
            link.refuse(key);
            worker.cells.memory_refused.inc();
            return;
        }
        let snapshot = self.snapshot();
        let (limits, max_requests) = (snapshot.sites().limits, snapshot.sites().max_requests);
        let mut head = worker.request_heads.take();
        let read = match link.read_head(key, &limits, &mut head) {
            Ok(()) => Ok(()),
            Err(HeadRefusal::Malformed(error, method)) => Err((error, method)),
            Err(HeadRefusal::NoRoom) => {
                link.refuse(key);
                worker.request_heads.give(head);
                let detail = "the heads of the connection's open streams are too large together";
                let (limit, side) = (Cause::Limit, CauseSide::Lockgate);
                return self.log_refusal(ExchangeFailure::silent(limit, side, detail));
            }
        };
        drop(link);
        self.open.set(self.open.get() + 1);
        let stream = DownstreamStream::new(&self.link, key, has_ended);
        let exchange = Rc::clone(self).serve_stream(snapshot, read, head, stream, Instant::now());
        reactor::spawn(exchange);
        if matches!(progress.shutdown, ConnectionShutdown::No)
            && self.client.request_count() >= max_requests
        {
            self.drain(progress);
        }
    }

    /// Logs a request that is refused before it has a task.
    fn log_refusal(&self, failure: ExchangeFailure) {
        let id = self.begin_unserved();
        self.connection
            .finish_unserved(&id, Instant::now(), 0, failure);
    }

    /// Counts a request that is not served, and returns its ID.
    fn begin_unserved(&self) -> RequestId {
        let connection = &self.connection;
        let ids = &connection.worker.shared.request_ids;
        ids.id(connection.id, self.client.begin())
    }
}

/// The end of a connection on which nothing is left to do, by the code of the client's GOAWAY.
fn end_of_goaway(goaway: Option<u32>) -> Termination {
    match goaway {
        None | Some(code::NO_ERROR) => Termination::client_closed(),
        Some(code) => {
            let name = frames::error_words(code);
            Termination::client_reset(format_args!("GOAWAY: {name}"))
        }
    }
}

/// The limits of a connection to these sites.
fn link_limits(sites: &ListenerSites) -> LinkLimits {
    let limits = &sites.http2;
    LinkLimits {
        streams: limits.streams,
        window: limits.window,
        connection_window: limits.connection_window,
        head_list: sites.limits.head + BEYOND,
        resets: frame_rate(limits.resets),
        control: frame_rate(limits.control),
    }
}

fn frame_rate(allowance: Allowance) -> FrameRate {
    FrameRate {
        count: allowance.count,
        every: allowance.every,
        burst: allowance.burst,
    }
}
