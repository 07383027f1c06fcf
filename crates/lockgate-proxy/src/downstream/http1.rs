//! A client's connection over HTTP/1: one exchange after the other, until one of both closes.
//!
//! Reads heads and ends connections. What becomes of a request is decided in `serve`.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockgate_http::forwarding;
use lockgate_http::h1::{framing, parse};
use lockgate_http::head::{Method, RequestHead};
use lockgate_http_io::body::ReadError;
use lockgate_http_io::h1::H1Connection;
use lockgate_http_io::message::Persistence;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{ConnectionUse, Cut, WaitReason};
use lockgate_net::reactor::prefetched;
use lockgate_net::relay::{Relay, RelayEnd, RelayPreface};
use lockgate_net::stream::Stream;
use lockgate_upstream::{InFlight, UpstreamConnection};

use super::client_context::ClientContext;
use super::connection::ClientConnection;
use super::linger::{LINGER, linger_over_http1};
use super::serve::{NextStep, ServeContext};
use super::termination::{Termination, termination_of_cut};
use super::tunnel::{TunnelEnd, TunnelRun};
use crate::access_log::{Cause, CauseSide};
use crate::action::relay::ClientTransport;
use crate::error_response::{ErrorResponse, HttpFault};
use crate::exchange::{ExchangeFailure, SwitchedConnection, TunnelLimits, TunnelPermits};
use crate::metrics::SharedCells;
use crate::metrics::http::SiteCells;
use crate::shaping::Shapers;

/// The time without a request after which a connection gives back what it can make again: its
/// expanded keys.
const REST: Duration = Duration::from_secs(5);

/// The end of HTTP/1 on a connection.
pub(super) enum Http1End {
    /// The connection is over.
    Over(Termination),
    /// The connection goes on as a relay.
    Switched(Box<SwitchedRelay>),
}

/// A connection that has switched to another protocol, with the endpoint's.
pub(super) struct SwitchedRelay {
    /// Both sides.
    pub(super) relay: Box<Relay>,
    /// The limits of the relay.
    pub(super) tunnel_limits: TunnelLimits,
    /// The counters of its site.
    pub(super) cells: SharedCells<SiteCells>,
    /// The endpoint's count of exchanges, as long as this lasts.
    pub(super) in_flight: InFlight,
    /// The tunnel's permits of its client and its user.
    pub(super) tunnel_permits: TunnelPermits,
}

impl ClientConnection {
    /// Serves requests until the connection is over, or switches protocols.
    pub(super) fn serve_http1(
        &mut self,
        client: ClientTransport,
    ) -> impl Future<Output = Http1End> {
        let context = ClientContext::of(self, &self.listener.snapshot().generation);
        self.guard.watch().used_as.set(ConnectionUse::Http1);
        let stream = Stream::new(client.socket, client.session, client.unsent);
        let mut down = H1Connection::new(stream, &self.worker.blocks, &client.received);
        async move {
            loop {
                // In a block: what it holds takes no room while the next request is waited for.
                let (next, goes) = {
                    let (head, began) = match self.read_head(&mut down).await {
                        Ok(read) => read,
                        Err(termination) => return Http1End::Over(termination),
                    };
                    let snapshot = self.listener.snapshot();
                    let number = snapshot.generation.rules.number;
                    self.guard.watch().generation.set(number);
                    let context = ServeContext {
                        connection: self,
                        snapshot: &snapshot,
                        sites: snapshot.sites(),
                        client: &context,
                        guard: &self.guard,
                    };
                    let next = prefetched(|| context.respond(&mut down, &head, began)).await;
                    let goes = matches!(next, NextStep::Linger(_)) && is_last_request(&head);
                    self.worker.request_heads.give(head);
                    (next, goes)
                };
                if self.guard.is_cut_for_memory() {
                    // What it has not taken is not to stay in the kernel.
                    down.stream.socket().reset_on_close();
                }
                // After its last request a client sends nothing more (RFC 9112 §9.6) but the
                // close_notify of its TLS.
                let is_done = goes
                    && down.reader.has_ended()
                    && !down.reader.holds_bytes()
                    && !down.stream.is_secure();
                // One type and one wait, which has room here.
                let last: Pin<Box<dyn Future<Output = Http1End>>> = match next {
                    NextStep::Request => continue,
                    NextStep::CloseNow(termination) => return Http1End::Over(termination),
                    NextStep::Linger(termination) if is_done => {
                        return Http1End::Over(termination);
                    }
                    NextStep::Linger(termination) => boxed(|| self.linger(down, termination)),
                    NextStep::Tunnel { switched, cells } => {
                        boxed(|| self.switch(down, switched, cells))
                    }
                };
                return last.await;
            }
        }
    }

    /// Reads what the client still sends after its last request.
    async fn linger(&mut self, mut down: H1Connection, termination: Termination) -> Http1End {
        linger_over_http1(&self.guard, &mut down, &termination).await;
        Http1End::Over(termination)
    }

    /// Goes on as a tunnel, over HTTP/2 to the endpoint here, else as a relay.
    async fn switch(
        &mut self,
        mut down: H1Connection,
        switched: Box<SwitchedConnection>,
        cells: SharedCells<SiteCells>,
    ) -> Http1End {
        let SwitchedConnection {
            up,
            permit,
            in_flight,
            tunnel_limits,
            tunnel_permits,
            shapers,
            tunnel_request,
        } = *switched;
        self.guard.watch().used_as.set(ConnectionUse::Tunnel);
        self.tunnel_request = tunnel_request;
        self.endpoint_permit = Some(permit);
        // Its bytes are in the connection's own line.
        self.exchanges.set(0);
        let up = match up {
            UpstreamConnection::H1(connection) => *connection,
            UpstreamConnection::H2(mut stream) => {
                let mut tunnel = TunnelRun {
                    guard: &self.guard,
                    tunnel_limits: &tunnel_limits,
                    cells: &cells,
                    shapers,
                };
                let ended = tunnel.run(&mut down, &mut *stream).await;
                return Http1End::Over(termination_of_tunnel(ended));
            }
        };
        match self.join_upgraded(down, up).await {
            Ok(mut relay) => {
                if let Some(Shapers { received, sent }) = shapers.map(|shapers| *shapers) {
                    relay.shape(received, sent);
                }
                Http1End::Switched(Box::new(SwitchedRelay {
                    relay,
                    tunnel_limits,
                    cells,
                    in_flight,
                    tunnel_permits,
                }))
            }
            Err(termination) => Http1End::Over(termination),
        }
    }

    /// Waits for a request's head, and returns it with the time of its first byte.
    async fn read_head(
        &mut self,
        down: &mut H1Connection,
    ) -> Result<(Box<RequestHead>, Instant), Termination> {
        let idle = {
            let snapshot = self.listener.snapshot();
            let sites = snapshot.sites();
            down.reader.set_limits(sites.limits);
            sites.idle
        };
        let mut began = None;
        // Only from the first byte on: a connection that waits holds no memory for it.
        let mut head: Option<Box<RequestHead>> = None;
        let (guard, spare, listener) = (&self.guard, &self.worker.request_heads, &self.listener);
        guard.watch().generation.set(0);
        guard.watch().site.set(None);
        guard.begin_phase(idle.min(REST));
        guard.watch().set_wait(WaitReason::ForRequest);
        guard.watch().uses_socket.set(false);
        let H1Connection { stream, reader, .. } = &mut *down;
        // The idle limit counts on from the phase's begin.
        let mut more = idle.checked_sub(REST);
        let read = loop {
            let read = guard.poll_within(|cx| {
                let polled = reader.poll_head(cx, stream, |input, progress, limits| {
                    parse::request(
                        input,
                        progress,
                        limits,
                        head.get_or_insert_with(|| spare.take()),
                    )
                });
                if began.is_none() && (polled.is_ready() || reader.has_begun()) {
                    began = Some(Instant::now());
                    guard.begin_phase(listener.snapshot().sites().head);
                    guard.watch().set_wait(WaitReason::ForHead);
                }
                if began.is_none() {
                    guard.watch().mark_between_exchanges();
                }
                polled
            });
            match read.await {
                Err(Cut::Deadline)
                    if began.is_none()
                        && let Some(more) = more.take() =>
                {
                    stream.rest();
                    guard.extend_phase(more);
                }
                read => break read,
            }
        };
        guard.watch().set_wait(WaitReason::Nothing);
        match (read, began.zip(head)) {
            (Ok(Ok(true)), Some((began, head))) => {
                self.spoke = true;
                Ok((head, began))
            }
            (read, _) => Err(boxed(|| self.end_without_head(down, read, began)).await),
        }
    }

    /// Ends a connection that brings no further request, where its head is refused by a response.
    async fn end_without_head(
        &mut self,
        down: &mut H1Connection,
        read: Result<Result<bool, ReadError>, Cut>,
        began: Option<Instant>,
    ) -> Termination {
        let failure = match read {
            Ok(Ok(_)) => {
                send_close_notify(&mut down.stream).await;
                return Termination::client_closed();
            }
            Ok(Err(ReadError::Head(error))) => {
                ExchangeFailure::because(HttpFault::of_head(error.status()), error.to_string())
            }
            Ok(Err(ReadError::Stream(error))) => {
                poll_fn(|cx| {
                    down.stream.alert(cx, &error);
                    Poll::Ready(())
                })
                .await;
                ExchangeFailure::client(&error)
            }
            Ok(Err(error)) => ExchangeFailure::silent(
                Cause::ClientClosed,
                CauseSide::Downstream,
                error.to_string(),
            ),
            Err(cut) if began.is_none() => {
                send_close_notify(&mut down.stream).await;
                return match cut {
                    Cut::Deadline => Termination::idle(),
                    cut => termination_of_cut(cut, "between requests"),
                };
            }
            Err(cut) => ExchangeFailure::cut(cut, HttpFault::RequestTimeout),
        };
        self.spoke |= began.is_some();
        let Some(fault) = failure.fault else {
            return Termination::because(failure.cause, failure.side, failure.detail);
        };
        let id = self.worker.shared.request_ids.id(self.id, 0);
        let error = ErrorResponse {
            id: id.as_str(),
            ..ErrorResponse::of(fault)
        };
        self.guard.begin_phase(LINGER);
        let (guard, head) = (&self.guard, RequestHead::default());
        let sending = self.send_error(down, guard, &head, &error, Persistence::Close);
        let sent = sending.await;
        let termination = Termination::new(fault.cause(), fault.side());
        linger_over_http1(&self.guard, down, &termination).await;
        let began = began.unwrap_or_else(Instant::now);
        self.finish_unserved(&id, began, sent, failure);
        termination
    }

    /// Joins both connections as a relay of the protocol that they have switched to.
    async fn join_upgraded(
        &mut self,
        mut down: H1Connection,
        mut up: H1Connection,
    ) -> Result<Box<Relay>, Termination> {
        let preface = RelayPreface {
            upstream: down.reader.take_received(),
            downstream: Vec::new(),
        };
        // Bytes that the endpoint has sent behind its response go before all others.
        let early = up.reader.take_received();
        let meter = &self.guard.watch().meter;
        meter.sent.set(meter.sent.get() + early.len() as u64);
        down.writer.buffer().extend_from_slice(&early);
        let H1Connection { stream, writer, .. } = &mut down;
        if !matches!(
            self.guard
                .within(poll_fn(|cx| writer.poll_flush(cx, stream)))
                .await,
            Ok(Ok(()))
        ) {
            return Err(Termination::new(Cause::ClientReset, CauseSide::Downstream));
        }
        let (down, up) = (down.stream.into_parts(), up.stream.into_parts());
        let side = |socket, session| match session {
            Some(session) => RelayEnd::tls(socket, session),
            None => RelayEnd::plain(socket),
        };
        let relay = Relay::new(
            side(down.socket, down.session),
            side(up.socket, up.session),
            preface,
        )
        .map_err(Termination::internal)?;
        Ok(Box::new(relay))
    }
}

/// Whether a request is its connection's last, and it is certain where it ends.
fn is_last_request(head: &RequestHead) -> bool {
    !forwarding::keeps_alive(head.version, &head.fields)
        && framing::request(head).is_ok()
        // Behind it may be what is no HTTP.
        && head.method != Method::Connect
}

/// The termination of a connection that had become a tunnel.
pub(super) fn termination_of_tunnel(ended: Result<TunnelEnd, Cut>) -> Termination {
    match ended {
        Ok(TunnelEnd::Whole) => Termination::client_closed(),
        Ok(TunnelEnd::ByClient) => Termination::new(Cause::ClientReset, CauseSide::Downstream),
        Ok(TunnelEnd::ByEndpoint) => Termination::new(Cause::UpstreamReset, CauseSide::Upstream),
        Err(cut) => termination_of_cut(cut, "tunnel"),
    }
}

/// Ends TLS between two requests, where nothing is cut off (RFC 8446 §6.1). A connection without
/// TLS needs no such word.
async fn send_close_notify(stream: &mut Stream) {
    if stream.is_secure() {
        // A client that has gone already does not miss it.
        let _ = poll_fn(|cx| Poll::Ready(stream.poll_finish(cx).is_ready())).await;
    }
}
