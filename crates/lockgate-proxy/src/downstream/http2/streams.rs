//! The streams of a client's connection over HTTP/2: one request each, in a task of its own.

use std::rc::Rc;
use std::time::{Duration, Instant};

use lockgate_http::h2::{SectionError, code};
use lockgate_http::head::{Method, RequestHead};
use lockgate_http_io::body::BodyReader;
use lockgate_http_io::h2::DownstreamStream;
use lockgate_http_io::message::Persistence;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::Guard;
use lockgate_limits::memory::charged;
use lockgate_upstream::UpstreamConnection;

use super::H2ClientConnection;
use crate::downstream::ListenerSnapshot;
use crate::downstream::connection::ClientConnection;
use crate::downstream::http1::termination_of_tunnel;
use crate::downstream::linger::{LINGER, linger_on_body};
use crate::downstream::serve::{NextStep, ServeContext};
use crate::downstream::tunnel::{TunnelEnd, TunnelRun};
use crate::error_response::{ErrorResponse, HttpFault};
use crate::exchange::{ExchangeFailure, SwitchedConnection};
use crate::metrics::http::SiteCells;

impl H2ClientConnection {
    /// Serves one request, of which the head was read.
    ///
    /// A block and not a function that is async: that would keep room for its arguments twice.
    pub(super) fn serve_stream(
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
                            let part = boxed(|| {
                                open.0
                                    .tunnel(&mut stream, head.method, *switched, &guard, &cells)
                            });
                            charged(connection.guard.shared(), part).await;
                        }
                        NextStep::CloseNow(_) => {}
                        NextStep::Request | NextStep::Linger(_) if stream.is_complete() => {}
                        NextStep::Request => linger(connection, &mut stream, &guard, LINGER).await,
                        NextStep::Linger(termination) => {
                            linger(connection, &mut stream, &guard, termination.linger_time()).await
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
            // The link has counted the bytes; the time for which they were held is known here
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
            (Ok(TunnelEnd::ByEndpoint), Method::Connect, _) => stream.reset(code::CONNECT_ERROR),
            (_, Method::Connect, UpstreamConnection::H1(connection)) => {
                connection.stream.socket().reset_on_close();
                stream.reset(code::CANCEL);
            }
            _ => stream.reset(code::CANCEL),
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
        if error.is_malformed() {
            stream.mark_malformed();
        }
        let fault = HttpFault::of_head(error.status());
        let failure = ExchangeFailure::because(fault, error.to_string());
        let connection = &self.connection;
        let id = self.begin_unserved();
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
        if !stream.is_complete() {
            linger(connection, stream, guard, LINGER).await;
        }
    }
}

/// Takes the rest of a request's body, which the connection was charged with.
fn linger(
    connection: &ClientConnection,
    stream: &mut DownstreamStream,
    guard: &Guard,
    limit: Duration,
) -> impl Future<Output = ()> {
    let part = boxed(|| linger_on_body(stream, guard, limit));
    charged(connection.guard.shared(), part)
}

/// A stream that is open, also when its task is dropped.
struct OpenStream(Rc<H2ClientConnection>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = self.0.open.get() - 1;
        self.0.open.set(open);
        if open == 0
            && let Ok(mut link) = self.0.link.try_borrow_mut()
        {
            // It may be idle now.
            link.wake_driver();
        }
    }
}
