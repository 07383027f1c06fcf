//! A client's connection over HTTP/2: its streams, each a task of its own, and its end.
//!
//! What becomes of a request is decided in `serve`, as it is for HTTP/1.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, SendResponse};
use lockgate_http::h2::SectionError;
use lockgate_http::head::{Method, RequestHead};
use lockgate_http_io::body::BodyReader;
use lockgate_http_io::h2::{
    AbuseLimits, DownstreamStream, FrameIo, HeadVerdict, Io, SendScheduler, Violation,
};
use lockgate_http_io::message::Persistence;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{ConnectionUse, Cut, Guard, WaitReason};
use lockgate_limits::memory::charged;
use lockgate_net::memory::{MemoryLevel, level};
use lockgate_net::reactor;
use lockgate_net::stream::Stream as Connected;
use lockgate_net::token_bucket::TokenRate;
use lockgate_rules::{Allowance, Http2};
use lockgate_upstream::UpstreamConnection;

use super::ListenerSnapshot;
use super::client_context::ClientContext;
use super::connection::ClientConnection;
use super::http1::termination_of_tunnel;
use super::linger::{LINGER, SHORT_LINGER, linger_on_body, linger_over_http2};
use super::serve::{NextStep, ServeContext, min_rate};
use super::termination::{Termination, termination_of_cut};
use super::tunnel::{TunnelEnd, TunnelRun};
use crate::access_log::{Cause, CauseSide};
use crate::action::relay::ClientTransport;
use crate::error_response::{ErrorResponse, HttpFault};
use crate::exchange::{ExchangeFailure, SwitchedConnection};
use crate::metrics::http::SiteCells;

/// Bytes of one response that may wait in the connection for others to leave.
const HELD: usize = 64 * 1024;
/// Field sections that are longer than we take by no more than this get a response, and not only
/// the crate's.
const BEYOND: usize = 16 * 1024;
/// The first window of one body: the initial one of HTTP/2 (RFC 9113 §6.9.2).
const FIRST_WINDOW: u32 = 65_535;
/// Bytes that may wait in the kernel to be sent: a response of higher priority comes behind them.
const UNSENT: i32 = 64 * 1024;
/// The overhead of small pieces of bodies, each some 256 bytes, before they are taken: messages of
/// gRPC come by the thousand, and wait where an application is slow. By itself the crate allows
/// half of the window: 512 pieces.
const OVERHEAD: usize = 4 * 1024 * 1024;
/// Streams that the crate may reset for a client's mistakes beyond those of `AbuseLimits`.
const RESETS: usize = 1_024;

/// Streams of one connection that wait while memory is full; those beyond are refused.
const WAITING: usize = 4;

type H2Requests = h2::server::Connection<Io, Bytes>;

/// A client's connection over HTTP/2, with the state that its streams share.
pub(super) struct H2ClientConnection {
    connection: ClientConnection,
    client: ClientContext,
    frame_io: Rc<RefCell<FrameIo>>,
    scheduler: Rc<SendScheduler>,
    open: Cell<usize>,
    /// The waker of the task that drives the connection, woken when the last stream has ended.
    driver: RefCell<Option<Waker>>,
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

/// The flow-control windows for bodies that endpoints have not taken. They grow while endpoints
/// take bodies: a client that only fills our memory gets no more of it.
struct BodyWindows {
    /// The window of one body.
    stream: u32,
    /// The window of all bodies.
    connection: u32,
    /// Bytes that were used when they last grew.
    since: u64,
}

impl BodyWindows {
    /// A few bodies that are not taken leave room for others.
    const BODIES: u32 = 16;

    fn first(limits: &Http2) -> Self {
        let stream = FIRST_WINDOW.min(limits.window);
        let connection = (stream * Self::BODIES).min(limits.connection_window);
        Self {
            stream,
            connection,
            since: 0,
        }
    }

    /// Grow when endpoints have taken a few times what one body may have.
    fn grow(&mut self, requests: &mut H2Requests, used: u64, limits: &Http2) {
        if MemoryLevel::Easy < level() {
            return;
        }
        if self.stream >= limits.window || used - self.since < 4 * u64::from(self.stream) {
            return;
        }
        let stream = self.stream.saturating_mul(2).min(limits.window);
        // The client has not taken up the last change yet.
        if requests.set_initial_window_size(stream).is_err() {
            return;
        }
        self.stream = stream;
        self.since = used;
        self.connection = stream
            .saturating_mul(Self::BODIES)
            .min(limits.connection_window)
            .max(self.connection);
        requests.set_target_window_size(self.connection);
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
        let worker = Rc::clone(&connection.worker);
        let ClientTransport {
            socket,
            session,
            received,
            unsent,
        } = client;
        let snapshot = connection.listener.snapshot();
        let limits = snapshot.sites().http2;
        let longest = snapshot.sites().limits.head + BEYOND;
        let abuse_limits = AbuseLimits::new(
            worker.clock.now(),
            token_rate(limits.resets),
            token_rate(limits.control),
            longest,
            limits.streams,
        );
        socket.limit_unsent(UNSENT);
        let stream = Connected::new(socket, session, unsent);
        let frame_io = FrameIo::new(stream, &worker.blocks, &received, Some(abuse_limits));
        let context = ClientContext::of(&connection, &snapshot.generation);
        drop(snapshot);
        let h2_connection = Rc::new(Self {
            connection,
            client: context,
            frame_io: Rc::new(RefCell::new(frame_io)),
            scheduler: SendScheduler::new(),
            open: Cell::new(0),
            driver: RefCell::default(),
        });
        let termination = boxed(|| h2_connection.drive()).await;
        h2_connection.scheduler.end();
        (h2_connection, termination)
    }

    async fn drive(self: &Rc<Self>) -> Termination {
        let (snapshot, guard) = (self.snapshot(), &self.connection.guard);
        let (limits, rates) = (snapshot.sites().http2, snapshot.sites().rates);
        guard.begin_phase(snapshot.sites().head);
        drop(snapshot);
        guard.watch().used_as.set(ConnectionUse::Http2);
        guard.watch().set_wait(WaitReason::ForHead);
        let begun = guard.within(boxed(|| self.begin())).await;
        guard.watch().set_wait(WaitReason::Nothing);
        let mut requests = match begun {
            Ok(Ok(requests)) => requests,
            Ok(Err(error)) => return self.broken(&error),
            Err(cut) => return termination_of_cut(cut, "HTTP/2 preface"),
        };
        // A request that came with the preface is in flight before any phase begins.
        guard.end_phase();
        guard.watch().hold_to(min_rate(rates));
        guard.watch().generation.set(0);
        let (mut leaving, mut idle) = (ConnectionShutdown::No, false);
        let mut windows = BodyWindows::first(&limits);
        loop {
            let turn = guard.within(poll_fn(|cx| {
                windows.grow(&mut requests, self.scheduler.used(), &limits);
                if matches!(leaving, ConnectionShutdown::No) && guard.watch().is_draining() {
                    leaving = ConnectionShutdown::Gracefully;
                    requests.graceful_shutdown();
                }
                let turned = self.poll_turn(cx, &mut requests, &mut leaving);
                if turned.is_pending() && !matches!(leaving, ConnectionShutdown::Now(_)) {
                    self.set_phase(&mut idle);
                }
                turned
            }));
            let cut = match turn.await {
                Ok(ended) => {
                    let termination = match leaving {
                        ConnectionShutdown::Now(termination) => termination,
                        _ => ended,
                    };
                    boxed(|| linger_over_http2(guard, &self.frame_io)).await;
                    return termination;
                }
                Err(cut) => cut,
            };
            if let ConnectionShutdown::Now(termination) = leaving {
                // A client that does not take our last frames is disconnected for the reason that
                // they tell.
                return termination;
            }
            let termination = match cut {
                Cut::Deadline if idle => Termination::idle(),
                // Of requests in flight it ends more than their own lines can tell.
                cut if !idle => termination_of_cut(cut, "HTTP/2").always_logged(),
                cut => termination_of_cut(cut, "HTTP/2"),
            };
            if cut == Cut::Memory {
                // What it has not taken is not to stay in the kernel.
                self.frame_io.borrow().stream().socket().reset_on_close();
            }
            if matches!(cut, Cut::Slow | Cut::Memory) {
                // It would not take this either.
                return termination;
            }
            // GOAWAY tells it so, and which requests were not looked at (RFC 9113 §6.8); those in
            // flight have had their time.
            requests.abrupt_shutdown(Reason::NO_ERROR);
            leaving = ConnectionShutdown::Now(termination);
            guard.begin_phase(SHORT_LINGER);
            if cut != Cut::Deadline {
                let _ = poll_fn(|cx| {
                    Poll::Ready(self.poll_turn(cx, &mut requests, &mut leaving).is_ready())
                })
                .await;
            }
            if cut == Cut::Crowded
                && let ConnectionShutdown::Now(termination) = leaving
            {
                // Another client waits for its permit, and nothing of this one is on its way.
                return termination;
            }
        }
    }

    /// SETTINGS, and the client's preface.
    async fn begin(&self) -> Result<H2Requests, h2::Error> {
        let snapshot = self.snapshot();
        let sites = snapshot.sites();
        let limits = sites.http2;
        let windows = BodyWindows::first(&limits);
        let resets = usize::try_from(limits.resets.burst).unwrap_or(usize::MAX);
        let mut handshake = Builder::new()
            .max_concurrent_streams(limits.streams)
            .initial_window_size(windows.stream)
            .initial_connection_window_size(windows.connection)
            .max_header_list_size(u32::try_from(sites.limits.head + BEYOND).unwrap_or(u32::MAX))
            .max_send_buffer_size(HELD)
            .data_frame_budget(OVERHEAD)
            // `AbuseLimits` counts them as they leave: this holds for those that do not, to a
            // client that reads nothing.
            .max_local_error_reset_streams(Some(resets.saturating_add(RESETS)))
            .enable_connect_protocol()
            .handshake(Io(Rc::clone(&self.frame_io)));
        drop(snapshot);
        let begun = poll_fn(|cx| {
            self.begin_turn();
            let begun = Pin::new(&mut handshake).poll(cx);
            // The next read tells which error broke it.
            let mut frame_io = self.frame_io.borrow_mut();
            let _ = frame_io.poll_send(cx);
            // The preface may come in pieces, too.
            frame_io.stream().await_rest();
            begun
        });
        let requests = begun.await?;
        self.frame_io.borrow_mut().enforce();
        Ok(requests)
    }

    fn begin_turn(&self) {
        let mut frame_io = self.frame_io.borrow_mut();
        frame_io.begin_turn();
        if let Some(abuse_limits) = frame_io.abuse_limits() {
            abuse_limits.set_now(self.connection.worker.clock.now());
        }
    }

    /// Does all that can be done now, and sends what came of it.
    fn poll_turn(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        requests: &mut H2Requests,
        leaving: &mut ConnectionShutdown,
    ) -> Poll<Termination> {
        let mut driver = self.driver.borrow_mut();
        if !driver
            .as_ref()
            .is_some_and(|driver| driver.will_wake(cx.waker()))
        {
            *driver = Some(cx.waker().clone());
        }
        drop(driver);
        self.begin_turn();
        let ended = loop {
            match requests.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.open_stream(request, respond, requests, leaving)
                }
                Poll::Ready(Some(Err(error))) => break Some(self.broken(&error)),
                Poll::Ready(None) => {
                    break Some(Termination::client_closed());
                }
                Poll::Pending => match self.violation() {
                    Some(violation) if !matches!(leaving, ConnectionShutdown::Now(_)) => {
                        *leaving = ConnectionShutdown::Now(self.violated(violation));
                        self.connection.guard.begin_phase(SHORT_LINGER);
                        requests.abrupt_shutdown(match violation {
                            Violation::Sections => Reason::COMPRESSION_ERROR,
                            _ => Reason::ENHANCE_YOUR_CALM,
                        });
                    }
                    _ => break None,
                },
            }
        };
        let mut frame_io = self.frame_io.borrow_mut();
        if let Some(abuse_limits) = frame_io.abuse_limits() {
            self.scheduler.update(abuse_limits.take_priorities());
        }
        let sent = frame_io.poll_send(cx);
        frame_io.await_rest();
        if sent.is_ready() {
            self.scheduler.refill();
        }
        let (sent_bytes, received) = frame_io.bytes_moved();
        let meter = &self.connection.guard.watch().meter;
        meter.sent.set(sent_bytes);
        meter.received.set(received);
        match (ended, sent) {
            (Some(termination), _) => Poll::Ready(termination),
            (None, Poll::Ready(Err(error))) => {
                let told = frame_io
                    .take_broken()
                    .map_or_else(|| error.to_string(), |error| error.to_string());
                Poll::Ready(Termination::client_reset(told))
            }
            (None, _) => Poll::Pending,
        }
    }

    /// Sets the phase of the wait for the next turn.
    fn set_phase(&self, idle: &mut bool) {
        let guard = &self.connection.guard;
        let blocked = self.frame_io.borrow().is_blocked();
        // What is left of the last response is still to arrive.
        let nothing = self.open.get() == 0 && !blocked;
        if nothing != *idle {
            *idle = nothing;
            if nothing {
                guard.begin_phase(self.snapshot().sites().idle);
                guard.watch().mark_between_exchanges();
            } else {
                guard.end_phase();
            }
        }
        guard.watch().set_wait(match nothing {
            _ if blocked => WaitReason::ForRoom,
            true => WaitReason::ForRequest,
            false => WaitReason::ForStreams,
        });
    }

    fn violation(&self) -> Option<Violation> {
        self.frame_io.borrow_mut().abuse_limits()?.settle()
    }

    fn violated(&self, violation: Violation) -> Termination {
        self.connection.count_violation(violation.label());
        Termination::because(Cause::Limit, CauseSide::Downstream, violation.as_str())
            .always_logged()
    }

    /// The termination of a connection after an error of its frames.
    fn broken(&self, error: &h2::Error) -> Termination {
        if let Some(error) = self.frame_io.borrow_mut().take_broken() {
            return Termination::client_reset(error);
        }
        match error.reason() {
            Some(Reason::NO_ERROR) | None => {
                Termination::because(Cause::ClientClosed, CauseSide::Downstream, error)
            }
            Some(_) if error.is_remote() => Termination::client_reset(error),
            // The crate's word for a block that it does not decode, because it is too large (RFC
            // 9113 §4.3, §10.5.1).
            Some(Reason::COMPRESSION_ERROR) => self.violated(Violation::Sections),
            Some(Reason::ENHANCE_YOUR_CALM) => {
                self.connection.count_violation("calm");
                Termination::because(Cause::Limit, CauseSide::Downstream, error).always_logged()
            }
            Some(_) => {
                self.connection.count_violation("protocol");
                Termination::because(Cause::RefusedByRule, CauseSide::Downstream, error)
                    .always_logged()
            }
        }
    }

    fn open_stream(
        self: &Rc<Self>,
        request: http::Request<h2::RecvStream>,
        mut respond: SendResponse<Bytes>,
        requests: &mut H2Requests,
        leaving: &mut ConnectionShutdown,
    ) {
        let verdict = self.verdict(respond.stream_id().as_u32());
        if verdict == HeadVerdict::Refuse {
            return self.refuse_stream(respond);
        }
        if verdict == HeadVerdict::Lost {
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        if level() == MemoryLevel::Full && self.open.get() >= WAITING {
            // The request may be sent again, with any method (RFC 9113 §8.7).
            if let Some(abuse_limits) = self.frame_io.borrow_mut().abuse_limits() {
                abuse_limits.end_stream(respond.stream_id().as_u32(), true);
                abuse_limits.note_refusal();
            }
            respond.send_reset(Reason::REFUSED_STREAM);
            self.connection.worker.cells.memory_refused.inc();
            return;
        }
        self.open.set(self.open.get() + 1);
        let (parts, body) = request.into_parts();
        let snapshot = self.snapshot();
        let (limits, max_requests) = (snapshot.sites().limits, snapshot.sites().max_requests);
        let mut head = self.connection.worker.request_heads.take();
        let read = match verdict {
            HeadVerdict::Malformed(error) => Err(error),
            HeadVerdict::Read | HeadVerdict::Refuse | HeadVerdict::Lost => {
                DownstreamStream::read(&parts, &limits, &mut head)
            }
        };
        // Of one that could not be read, no more is known.
        let method = Method::of(parts.method.as_str().as_bytes());
        drop(parts);
        let stream = DownstreamStream::new(body, respond, limits, &self.frame_io, &self.scheduler);
        let exchange = Rc::clone(self).serve_stream(
            snapshot,
            read.map_err(|error| (error, method)),
            head,
            stream,
            Instant::now(),
        );
        reactor::spawn(exchange);
        if matches!(leaving, ConnectionShutdown::No) && self.client.request_count() >= max_requests
        {
            *leaving = ConnectionShutdown::Gracefully;
            requests.graceful_shutdown();
        }
    }

    fn verdict(&self, stream: u32) -> HeadVerdict {
        self.frame_io
            .borrow_mut()
            .abuse_limits()
            .map_or(HeadVerdict::Read, |abuse_limits| {
                abuse_limits.accept(stream)
            })
    }

    /// Refuses a request because the heads of the open streams take all the room; it may be sent
    /// again (RFC 9113 §8.7).
    fn refuse_stream(&self, mut respond: SendResponse<Bytes>) {
        respond.send_reset(Reason::REFUSED_STREAM);
        let connection = &self.connection;
        let id = connection
            .worker
            .shared
            .request_ids
            .id(connection.id, self.client.begin());
        let detail = "the heads of the connection's open streams are too large together";
        let failure = ExchangeFailure::silent(Cause::Limit, CauseSide::Lockgate, detail);
        connection.finish_unserved(&id, Instant::now(), 0, failure);
    }

    /// Serves one request, of which the head was read.
    ///
    /// A block and not a function that is async: that would keep room for its arguments twice.
    fn serve_stream(
        self: Rc<Self>,
        snapshot: Rc<ListenerSnapshot>,
        read: Result<(), (SectionError, Method)>,
        head: Box<RequestHead>,
        mut stream: DownstreamStream,
        began: Instant,
    ) -> impl Future<Output = ()> {
        let open = OpenStream(self);
        async move {
            let Self {
                connection, client, ..
            } = &*open.0;
            let worker = &connection.worker;
            let guard = worker.clock.watch();
            // Its bytes are the connection's, and its memory.
            let _ = guard.watch().stream_of.set(connection.guard.shared());
            let number = snapshot.generation.rules.number;
            guard.watch().generation.set(number);
            match read {
                Ok(()) => {
                    // Until an endpoint is asked, as over HTTP/1: passwords may take long to be
                    // checked.
                    guard.begin_phase(snapshot.sites().head);
                    let context = ServeContext {
                        connection,
                        snapshot: &snapshot,
                        sites: snapshot.sites(),
                        client,
                        guard: &guard,
                    };
                    let part = boxed(|| context.respond(&mut stream, &head, began));
                    let next = charged(connection.guard.shared(), part).await;
                    match next {
                        NextStep::Tunnel { switched, cells } => {
                            drop(snapshot);
                            boxed(|| {
                                open.0
                                    .tunnel(&mut stream, head.method, *switched, &guard, &cells)
                            })
                            .await;
                        }
                        NextStep::CloseNow(_) => {}
                        NextStep::Request | NextStep::Linger(_) if stream.is_complete() => {}
                        NextStep::Request => {
                            boxed(|| linger_on_body(&mut stream, &guard, LINGER)).await
                        }
                        NextStep::Linger(termination) => {
                            boxed(|| linger_on_body(&mut stream, &guard, termination.linger_time()))
                                .await
                        }
                    }
                }
                Err((error, method)) => {
                    boxed(|| {
                        open.0
                            .respond_unreadable(&mut stream, &guard, error, method, began)
                    })
                    .await
                }
            }
            // The frame I/O has counted the bytes; the time for which they were held is known here
            // only.
            let held_for = &connection.guard.watch().meter.held_for;
            held_for.set(held_for.get() + guard.watch().meter.held_for.get());
            worker.request_heads.give(head);
        }
    }

    /// A stream that has become a tunnel, for as long as it lasts.
    async fn tunnel(
        &self,
        stream: &mut DownstreamStream,
        method: Method,
        switched: SwitchedConnection,
        guard: &Guard,
        cells: &SiteCells,
    ) {
        // The endpoint counts it for as long as it lasts.
        let SwitchedConnection {
            mut up,
            permit,
            in_flight: _in_flight,
            tunnel_limits,
            tunnel_permits: _tunnel_permits,
            shapers,
            tunnel_request,
        } = switched;
        if let (Some(idle), UpstreamConnection::H1(connection)) = (tunnel_limits.keepalive, &up) {
            // Without probes a dead peer is found by the idle limit.
            let _ = connection.stream.socket().probe(idle);
        }
        let began = Instant::now();
        let mut tunnel = TunnelRun {
            guard,
            tunnel_limits: &tunnel_limits,
            cells,
            shapers,
        };
        let ended = tunnel.run(stream, &mut up).await;
        match (ended, method, &up) {
            (Ok(TunnelEnd::Whole), ..) => {}
            // RFC 9113 §8.5: the end of one is passed on as that of the other, an error as an
            // error.
            (Ok(TunnelEnd::ByEndpoint), Method::Connect, _) => stream.reset(Reason::CONNECT_ERROR),
            (_, Method::Connect, UpstreamConnection::H1(connection)) => {
                connection.stream.socket().reset_on_close();
                stream.reset(Reason::CANCEL);
            }
            _ => stream.reset(Reason::CANCEL),
        }
        let meter = &guard.watch().meter;
        self.connection.log_tunnel(
            began,
            tunnel_request.as_deref(),
            &permit,
            meter,
            &termination_of_tunnel(ended),
        );
    }

    /// Answers what is no request.
    async fn respond_unreadable(
        &self,
        stream: &mut DownstreamStream,
        guard: &Guard,
        error: SectionError,
        method: Method,
        began: Instant,
    ) {
        let fault = HttpFault::of_head(error.status());
        let failure = ExchangeFailure::because(fault, error.to_string());
        let connection = &self.connection;
        let id = connection
            .worker
            .shared
            .request_ids
            .id(connection.id, self.client.begin());
        let error = ErrorResponse {
            id: id.as_str(),
            ..ErrorResponse::of(fault)
        };
        guard.begin_phase(self.snapshot().sites().head);
        let mut head = RequestHead::default();
        head.method = method;
        let sent = connection
            .send_error(stream, guard, &head, &error, Persistence::KeepAlive)
            .await;
        connection.finish_unserved(&id, began, sent, failure);
    }
}

/// A stream that is open, also when its task is dropped.
struct OpenStream(Rc<H2ClientConnection>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = self.0.open.get() - 1;
        self.0.open.set(open);
        if open == 0
            && let Some(driver) = &*self.0.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }
}

/// An allowance as a bucket has it.
fn token_rate(allowance: Allowance) -> TokenRate {
    let at_least_one = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    let (count, burst) = (at_least_one(allowance.count), at_least_one(allowance.burst));
    TokenRate::new(count, allowance.every, burst)
}
