//! A client's connection that speaks HTTP/1: one exchange after the other, until one of both wants
//! no more.
//!
//! Reads heads and ends connections. What becomes of a request is decided in `serve`.

use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use lockgate_http::forwarding;
use lockgate_http::h1::{framing, parse};
use lockgate_http::head::{BodyLength, Method, RequestHead};
use lockgate_net::relay::{Relay, RelayEnd as RelaySide, RelayPreface};
use lockgate_net::stream::Stream;

use super::client_context::ClientContext;
use super::connection::Connection;
use super::ending::{Ending, cut_short};
use super::serve::{NextStep, Serving, deliver};
use super::tunnel::{self, Ended};
use crate::access_log::{Cause, Side};
use crate::action::relay::Client;
use crate::answer::{ErrorAnswer, Fault, Form};
use crate::body::ReadError;
use crate::box_future::boxed;
use crate::clock::{Cut, WaitReason};
use crate::exchange::{ExchangeFailure, Shares, SwitchedConnection, TunnelLimits};
use crate::h1::H1Connection;
use crate::message::Persistence;
use crate::shaping::Shapers;
use crate::site::Sites;
use crate::upstream::{InFlight, UpstreamConnection};

/// How long a client that still sends is listened to after our last word. Many read an answer only
/// when they have sent all of their body, however much that is.
pub(super) const LINGER: Duration = Duration::from_secs(30);
/// The same, of one that has fallen silent, or was too slow before.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// What is read of it in one turn; then the worker's other connections have theirs.
const LINGER_READS: usize = 16;

impl Ending {
    /// How long the client is listened to after its last answer.
    pub(super) fn linger(&self) -> Duration {
        if self.cause == Cause::TooSlow {
            SILENCE
        } else {
            LINGER
        }
    }
}

/// What came of a connection that spoke HTTP.
pub(super) enum Served {
    /// It is over.
    Over(Ending),
    /// It speaks something else from here on.
    Switched {
        /// Both sides.
        relay: Box<Relay>,
        /// What holds for it.
        tunnel_limits: TunnelLimits,
        /// Whose it is, for counters.
        site: Option<usize>,
        /// What counts for the endpoint as long as this lasts.
        _in_flight: InFlight,
        /// What it takes of what may be there at once.
        _shares: Shares,
    },
}

impl Connection {
    /// Serves requests until the connection is over, or speaks something else.
    pub(super) async fn http(&mut self, client: Client, sites: &Sites) -> Served {
        let Client {
            socket,
            session,
            received,
            unsent,
        } = client;
        let context = ClientContext::of(self);
        let stream = Stream::new(socket, session, unsent);
        let mut down = H1Connection::new(stream, &self.worker.blocks, &received);
        down.reader.set_limits(sites.limits);
        loop {
            let (head, began) = match self.head(&mut down, sites).await {
                Ok(read) => read,
                Err(ending) => return Served::Over(ending),
            };
            let serving = Serving {
                connection: self,
                sites,
                client: &context,
                guard: &self.guard,
            };
            let next = boxed(|| serving.respond(&mut down, &head, began)).await;
            if self.guard.is_cut_for_memory() {
                // What it has not taken is not to stay in the kernel.
                down.stream.socket().reset_on_close();
            }
            let goes = matches!(next, NextStep::Close(_)) && says_goodbye(&head);
            self.worker.requests.give(head);
            match next {
                NextStep::Request => {}
                NextStep::End(ending) => return Served::Over(ending),
                NextStep::Close(ending) => {
                    // Of who said that this was the last nothing more comes (RFC 9112 §9.6), but
                    // for TLS's own farewell.
                    let done = goes && down.reader.has_ended() && !down.reader.holds_bytes();
                    if !done || down.stream.is_secure() {
                        self.linger(&mut down, &ending).await;
                    }
                    return Served::Over(ending);
                }
                NextStep::Tunnel { switched, site } => {
                    let SwitchedConnection {
                        up,
                        permit,
                        in_flight,
                        tunnel_limits,
                        shares,
                        shapers,
                        opening,
                    } = *switched;
                    self.opening = opening;
                    self.endpoint = Some(permit);
                    // Its bytes are in the connection's own line.
                    self.exchanges.set(0);
                    let up = match up {
                        UpstreamConnection::H1(link) => *link,
                        UpstreamConnection::H2(mut call) => {
                            let (_in_flight, _shares) = (in_flight, shares);
                            let cells = self.worker.cells.http.site(site);
                            let (down, guard) = (&mut down, &self.guard);
                            let ended = tunnel::run(
                                down,
                                &mut *call,
                                guard,
                                &tunnel_limits,
                                cells,
                                shapers,
                            );
                            let ended = boxed(|| ended).await;
                            return Served::Over(over(ended));
                        }
                    };
                    return match boxed(|| self.switch(down, up)).await {
                        Ok(mut relay) => {
                            if let Some(Shapers { received, sent }) =
                                shapers.map(|shapers| *shapers)
                            {
                                relay.shape(received, sent);
                            }
                            Served::Switched {
                                relay,
                                tunnel_limits,
                                site,
                                _in_flight: in_flight,
                                _shares: shares,
                            }
                        }
                        Err(ending) => Served::Over(ending),
                    };
                }
            }
        }
    }

    /// Waits for a request's head; says when its first byte was there.
    async fn head(
        &mut self,
        down: &mut H1Connection,
        sites: &Sites,
    ) -> Result<(Box<RequestHead>, Instant), Ending> {
        let mut began = None;
        // Only from the first byte on: a connection that waits holds no memory for it.
        let mut head: Option<Box<RequestHead>> = None;
        let (guard, spare) = (&self.guard, &self.worker.requests);
        guard.phase(sites.idle);
        guard.watch().set_wait(WaitReason::ForRequest);
        guard.watch().uses_socket.set(false);
        let H1Connection { stream, reader, .. } = &mut *down;
        let read = guard.within(poll_fn(|cx| {
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
                guard.phase(sites.head);
                guard.watch().set_wait(WaitReason::ForOpening);
            }
            if began.is_none() {
                guard.watch().mark_at_rest();
            }
            polled
        }));
        let read = read.await;
        guard.watch().set_wait(WaitReason::Otherwise);
        let failure = match (read, began.zip(head)) {
            (Ok(Ok(true)), Some((began, head))) => {
                self.spoke = true;
                return Ok((head, began));
            }
            (Ok(Ok(_)), _) => {
                part(&mut down.stream).await;
                return Err(Ending::new(Cause::ClientClosed, Side::Downstream));
            }
            (Ok(Err(ReadError::Head(error))), _) => {
                let fault = match error.status() {
                    414 => Fault::TargetTooLong,
                    431 => Fault::HeadTooLarge,
                    505 => Fault::Version,
                    _ => Fault::Malformed,
                };
                ExchangeFailure::because(fault, error.to_string())
            }
            (Ok(Err(ReadError::Stream(error))), _) => {
                poll_fn(|cx| {
                    down.stream.alert(cx, &error);
                    Poll::Ready(())
                })
                .await;
                ExchangeFailure::client(&error)
            }
            (Ok(Err(error)), _) => {
                ExchangeFailure::silent(Cause::ClientClosed, Side::Downstream, error.to_string())
            }
            (Err(cut), _) if began.is_none() => {
                part(&mut down.stream).await;
                return Err(match cut {
                    Cut::Deadline => Ending::new(Cause::Idle, Side::Lockgate),
                    cut => cut_short(cut, "between requests"),
                });
            }
            (Err(cut), _) => ExchangeFailure::cut(cut, Fault::RequestTimeout),
        };
        self.spoke |= began.is_some();
        if let Some(fault) = failure.fault {
            let id = self.worker.shared.request_ids.id(self.id, 0);
            let error = ErrorAnswer {
                id: id.as_str(),
                ..ErrorAnswer::of(fault)
            };
            let (mut answer, body) = error.make(Form::default(), None);
            answer.fields.append(b"Date", &self.worker.date());
            self.guard.phase(LINGER);
            // Whether it arrives or not, the connection is over.
            let _ = deliver(
                down,
                &self.guard,
                &RequestHead::default(),
                &answer,
                &body,
                Persistence::Close,
            )
            .await;
            let ending = Ending::new(fault.cause(), fault.side());
            self.linger(down, &ending).await;
            let began = began.unwrap_or_else(Instant::now);
            self.unread(id, began, body.len() as u64, failure, sites);
            return Err(ending);
        }
        Err(Ending::because(failure.cause, failure.side, failure.detail))
    }

    /// Sends what is left and waits for the client to close: closing with its bytes unread would
    /// reset the connection, and the reset could overtake the answer (RFC 9112 §9.6).
    async fn linger(&self, down: &mut H1Connection, ending: &Ending) {
        self.guard.phase(ending.linger());
        self.guard.limit_idle(SILENCE);
        self.guard.watch().set_wait(WaitReason::ForClose);
        let received = &self.guard.watch().meter.received;
        let H1Connection {
            stream,
            writer,
            reader,
        } = down;
        let mut finished = false;
        // Whether the client waits for it or not, the connection is over.
        let _ = self
            .guard
            .within(poll_fn(|cx| {
                if !finished {
                    let flushed = ready!(writer.poll_flush(cx, stream));
                    if flushed.is_err() || ready!(stream.poll_finish(cx)).is_err() {
                        return Poll::Ready(());
                    }
                    finished = true;
                    let _ = reader.begin_body(BodyLength::UntilClose);
                }
                for _ in 0..LINGER_READS {
                    match ready!(reader.poll_data(cx, stream)) {
                        Ok(()) if !reader.has_ended() => {
                            let here = reader.data().len();
                            received.set(received.get() + here as u64);
                            reader.consume(here);
                        }
                        _ => return Poll::Ready(()),
                    }
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }))
            .await;
    }

    /// Both connections as a relay of whatever they have agreed to speak.
    async fn switch(
        &mut self,
        mut down: H1Connection,
        mut up: H1Connection,
    ) -> Result<Box<Relay>, Ending> {
        let preface = RelayPreface {
            upstream: down.reader.take_received(),
            downstream: Vec::new(),
        };
        // What the endpoint has said behind its answer goes before anything else.
        let early = up.reader.take_received();
        let meter = &self.guard.watch().meter;
        meter.sent.set(meter.sent.get() + early.len() as u64);
        down.writer.head().extend_from_slice(&early);
        let H1Connection { stream, writer, .. } = &mut down;
        if !matches!(
            self.guard
                .within(poll_fn(|cx| writer.poll_flush(cx, stream)))
                .await,
            Ok(Ok(()))
        ) {
            return Err(Ending::new(Cause::ClientReset, Side::Downstream));
        }
        let (down, up) = (down.stream.into_parts(), up.stream.into_parts());
        let side = |socket, session| match session {
            Some(session) => RelaySide::tls(socket, session),
            None => RelaySide::plain(socket),
        };
        let relay = Relay::new(
            side(down.socket, down.session),
            side(up.socket, up.session),
            preface,
        )
        .map_err(|error| Ending::because(Cause::Internal, Side::Lockgate, error))?;
        Ok(Box::new(relay))
    }
}

/// Whether a request is its connection's last, and it is certain where it ends.
fn says_goodbye(head: &RequestHead) -> bool {
    !forwarding::keeps_alive(head.version, &head.fields)
        && framing::request(head).is_ok()
        // Behind it may be what is no HTTP.
        && head.method != Method::Connect
}

/// How a connection ended that had become a tunnel.
pub(super) fn over(ended: Result<Ended, Cut>) -> Ending {
    match ended {
        Ok(Ended::Whole) => Ending::new(Cause::ClientClosed, Side::Downstream),
        Ok(Ended::ByClient) => Ending::new(Cause::ClientReset, Side::Downstream),
        Ok(Ended::ByEndpoint) => Ending::new(Cause::UpstreamReset, Side::Upstream),
        Err(cut) => cut_short(cut, "tunnel"),
    }
}

/// Ends TLS between two requests, where nothing is cut off (RFC 8446 §6.1). A connection without
/// TLS needs no such word.
async fn part(stream: &mut Stream) {
    if stream.is_secure() {
        // Who has gone already does not miss it.
        let _ = poll_fn(|cx| Poll::Ready(stream.poll_finish(cx).is_ready())).await;
    }
}
