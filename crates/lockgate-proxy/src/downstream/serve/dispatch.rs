//! The dispatch of a request to its backend, and the step after the exchange with that.

use std::sync::Arc;

use lockgate_http::forwarding::Recipient;
use lockgate_http::head::{BodyLength, Method};
use lockgate_http::request_target::RequestTarget;
use lockgate_http_io::message::{ClientExchange, OutgoingHead, OutgoingRequest};
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{Cut, WaitReason};
use lockgate_rules::{Pattern, ProxyVersion, RequestValues};
use lockgate_upstream::Preference;

use super::{IncomingRequest, NextStep, ServeContext, min_rate};
use crate::access_log::{Cause, CauseSide};
use crate::action::forward_proxy::{Connect, Forward};
use crate::action::proxy::Proxy;
use crate::downstream::termination::Termination;
use crate::error_response::HttpFault;
use crate::exchange::{Exchange, ExchangeFailure, RoutedRequest, TunnelRequest};
use crate::files::Files;
use crate::shaping::{Shape, Shaped, Shapers};
use crate::site::{Action, Route};

/// The backend of a request: it responds where Lockgate itself does not.
#[derive(Clone, Copy)]
pub(super) enum Backend<'s> {
    /// An endpoint of a pool.
    Endpoint(&'s Proxy),
    /// The target of a tunnel.
    Tunnel(&'s Connect),
    /// The target of a request that is forwarded.
    Forward(&'s Connect, &'s Forward),
    /// A folder of files.
    Folder(&'s Arc<Files>),
}

impl<'s> Backend<'s> {
    /// The backend of requests with this method, if they have any.
    pub(super) fn of(action: &'s Action, recipient: Recipient, method: Method) -> Option<Self> {
        match (action, recipient, method) {
            (Action::Proxy(proxy), Recipient::Next, _) => Some(Self::Endpoint(proxy)),
            (Action::Connect(connect), _, Method::Connect) => Some(Self::Tunnel(connect)),
            (Action::Connect(connect), Recipient::Next, method) if method != Method::Trace => {
                let forward = connect.forward.as_ref();
                forward.map(|forward| Self::Forward(connect, forward))
            }
            (Action::Files(files), _, Method::Get | Method::Head) => Some(Self::Folder(files)),
            _ => None,
        }
    }
}

/// The request of a dispatch, with its route and its backend.
pub(super) struct DispatchRequest<'a, 's> {
    pub(super) backend: Backend<'s>,
    pub(super) preference: Preference,
    pub(super) target: &'a RequestTarget<'a>,
    /// The head as the backend gets it.
    pub(super) outgoing: &'a OutgoingHead<'a>,
    pub(super) values: &'a RequestValues<'a>,
    pub(super) route: &'a Route,
    pub(super) pattern: &'a Pattern,
    pub(super) length: BodyLength,
}

impl<'s, D: ClientExchange> IncomingRequest<'_, 's, D> {
    /// Has the request's backend answer.
    ///
    /// # Errors
    /// The failure of an exchange without a response.
    pub(super) async fn dispatch(
        &mut self,
        request: &DispatchRequest<'_, 's>,
    ) -> Result<NextStep, ExchangeFailure> {
        let ServeContext {
            connection, client, ..
        } = *self.context;
        // Where one is sent, the addresses are known by then.
        let proxy_header = |version| connection.proxy_header(version, client.addresses(|| None));
        let mut exchange = self.exchange(request, &proxy_header);
        let result = match request.backend {
            Backend::Endpoint(proxy) => proxy.run(&mut exchange).await,
            Backend::Tunnel(connect) => boxed(|| connect.run(&mut exchange)).await,
            Backend::Forward(connect, forward) => {
                boxed(|| connect.forward(&forward.proxy, &mut exchange)).await
            }
            Backend::Folder(files) => files.run(&mut exchange).await,
        };
        self.finish(result)
    }

    /// The exchange with the request's backend.
    fn exchange<'x>(
        &'x mut self,
        request: &'x DispatchRequest<'x, 's>,
        proxy_header: &'x dyn Fn(ProxyVersion) -> Vec<u8>,
    ) -> Exchange<'x, D> {
        let ServeContext {
            connection,
            sites,
            client,
            guard,
            ..
        } = *self.context;
        let generation = self.generation();
        let (worker, rules) = (&connection.worker, &request.route.rules);
        let forwarded = match request.backend {
            Backend::Forward(_, forward) => &forward.client,
            Backend::Endpoint(_) | Backend::Tunnel(_) | Backend::Folder(_) => {
                client.forwarded(generation)
            }
        };
        let (mut rewritten, mut cookies) = (None, None);
        let sends_header = match request.backend {
            Backend::Endpoint(proxy) => {
                let pool = generation.upstream(proxy.pool).pool();
                let fields = request.outgoing.fields();
                let sticky = pool.settings.sticky();
                cookies = sticky.and_then(|sticky| sticky.without_ours(fields));
                rewritten = rules.target.rewritten(request.pattern, request.values);
                self.record.upstream = Some(proxy.pool);
                pool.settings.proxy_protocol.is_some()
            }
            Backend::Tunnel(connect) | Backend::Forward(connect, _) => {
                connect.proxy_protocol.is_some()
            }
            Backend::Folder(_) => false,
        };
        if sends_header {
            // For the header, which has no access to the client's socket.
            let _ = self.context.addresses(self.down);
        }
        guard.watch().hold_to(min_rate(rules.rates));
        let shape = rules.shape.as_ref();
        let shapers = shape.map(|shape| self.shapers(shape, &request.route.action));
        let site = self.record.site.map(|site| sites.site(site).index);
        Exchange {
            request: RoutedRequest {
                worker,
                generation,
                outgoing: OutgoingRequest {
                    received: self.head,
                    head: request.outgoing,
                    target: request.target,
                    rewritten,
                    length: request.length,
                    client: forwarded,
                    id: request.values.id,
                    cookies,
                },
                values: request.values,
                pattern: request.pattern,
                rules,
            },
            guard,
            account: connection.account(),
            socket_account: connection.socket_account(self.head.version),
            user: self.record.user.as_ref(),
            down: &mut *self.down,
            preference: request.preference,
            private: &client.private,
            proxy_header,
            shapers,
            cells: generation.cells.http.site(site),
            began: self.record.began,
            persistence: self.persistence,
            outcome: &mut self.record.outcome,
        }
    }

    /// The next step after an exchange with a backend.
    ///
    /// # Errors
    /// The failure of an exchange without a response.
    fn finish(&mut self, result: Result<(), ExchangeFailure>) -> Result<NextStep, ExchangeFailure> {
        let watch = self.context.guard.watch();
        watch.set_wait(WaitReason::Nothing);
        let record = &mut *self.record;
        record.received = self.down.bytes_read();
        // A stream that ends with its connection ends for the same reason.
        let result = result.map_err(|failure| match watch.cut_of_connection() {
            // A deadline is only that of the last frames.
            Some(cut) if cut != Cut::Deadline && failure.cause == Cause::ClientReset => {
                ExchangeFailure {
                    fault: None,
                    ..ExchangeFailure::cut(cut, HttpFault::ResponseTimeout)
                }
            }
            _ => failure,
        });
        match result {
            Err(failure) if record.outcome.status == 0 => return Err(failure),
            Err(failure) => {
                record.sent = self.down.bytes_written();
                let termination =
                    Termination::because(failure.cause, failure.side, failure.detail.clone());
                record.failure = Some(failure);
                return Ok(NextStep::CloseNow(termination));
            }
            Ok(()) => record.sent = self.down.bytes_written(),
        }
        Ok(match record.outcome.switched.take() {
            Some(mut switched) => {
                let host = self.target.as_ref().map_or(&b""[..], |target| target.host);
                switched.tunnel_request = Some(Box::new(TunnelRequest {
                    id: self.id.clone(),
                    host: host.into(),
                    user: record.user.clone(),
                }));
                let site = record.site.map(|site| self.context.sites.site(site).index);
                let http = &self.context.snapshot.generation.cells.http;
                let cells = Arc::clone(http.site(site));
                NextStep::Tunnel { switched, cells }
            }
            None if record.outcome.client_persists => NextStep::Request,
            None => NextStep::Linger(Termination::new(Cause::ClientClosed, CauseSide::Lockgate)),
        })
    }

    /// The shapers of a request: the rest of its connection's rates. A tunnel has rates of its own.
    fn shapers(&self, shape: &Arc<Shape>, action: &Action) -> Box<Shapers> {
        let (client, user) = (self.record.client.key(), self.record.user.as_ref());
        let queue = &self.context.connection.worker.shaping_queue;
        let of = |connection: &Shaped| Box::new(shape.shapers(connection, client, user, queue));
        if matches!(action, Action::Connect(_)) {
            return of(&shape.connection());
        }
        self.context.client.with_shaped(shape, of)
    }
}
