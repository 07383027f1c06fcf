//! A request whose answer is not made here: by whom it is, the exchange with them, and what follows
//! it.

use std::sync::Arc;

use lockgate_http::asked::asked;
use lockgate_http::forwarding::Recipient;
use lockgate_http::head::{Method, RequestHead};

use super::{Next, Serving};
use crate::access_log::{Cause, Side};
use crate::action::connect::{Connect, Forward};
use crate::action::proxy::Proxy;
use crate::boxed::boxed;
use crate::clock::Waiting;
use crate::downstream::connection::Ending;
use crate::downstream::own::{Answerer, pace};
use crate::downstream::seen::Seen;
use crate::exchange::{Exchange, Failure, Opener, Request};
use crate::files::Files;
use crate::message::Downstream;
use crate::shaping::{Shape, Shaped, Shapers};
use crate::site::{Action, Route};
use crate::upstream::Wish;

/// Where an answer comes from that we do not make ourselves.
#[derive(Clone, Copy)]
pub(super) enum Elsewhere<'s> {
    Endpoint(&'s Proxy),
    Target(&'s Connect),
    Forward(&'s Connect, &'s Forward),
    Folder(&'s Arc<Files>),
}

impl<'s> Elsewhere<'s> {
    /// Whether it gets the target as the route rewrites it.
    pub(super) fn rewrites(self) -> bool {
        matches!(self, Self::Endpoint(_))
    }

    /// Who answers requests with this method, if it is not we.
    pub(super) fn of(action: &'s Action, recipient: Recipient, method: Method) -> Option<Self> {
        match (action, recipient, method) {
            (Action::Proxy(proxy), Recipient::Next, _) => Some(Self::Endpoint(proxy)),
            (Action::Connect(connect), _, Method::Connect) => Some(Self::Target(connect)),
            (Action::Connect(connect), Recipient::Next, method) if method != Method::Trace => {
                connect
                    .forward
                    .as_ref()
                    .map(|forward| Self::Forward(connect, forward))
            }
            (Action::Files(files), _, Method::Get | Method::Head) => Some(Self::Folder(files)),
            _ => None,
        }
    }
}

impl<'s> Serving<'s> {
    /// Has `source` answer, and says what follows.
    pub(super) async fn ask_elsewhere<D: Downstream>(
        &self,
        (source, wish): (Elsewhere<'s>, Wish),
        route: &Route,
        mut request: Request<'_>,
        down: &mut D,
        seen: &mut Seen<'s>,
        keep: bool,
    ) -> Next {
        let Self {
            sites,
            asking,
            guard,
            ..
        } = *self;
        let (worker, head) = (request.worker, request.received());
        let told = match source {
            Elsewhere::Endpoint(proxy) => {
                let pool = worker.upstream(proxy.upstream).pool();
                let fields = request.outgoing.head.fields();
                request.outgoing.cookies = pool
                    .settings
                    .sticky()
                    .and_then(|sticky| sticky.without_ours(fields));
                seen.upstream = Some(proxy.upstream);
                pool.settings.proxy_protocol.is_some()
            }
            Elsewhere::Target(connect) => connect.proxy_protocol.is_some(),
            Elsewhere::Forward(connect, forward) => {
                request.outgoing.client = &forward.client;
                connect.proxy_protocol.is_some()
            }
            Elsewhere::Folder(_) => false,
        };
        let addresses = told.then(|| self.addresses(down)).flatten();
        guard.watch().hold_to(pace(route.rules.rates));
        let mut exchange = Exchange {
            request,
            guard,
            account: self.connection.account(),
            share_of: self.connection.share_of(head.version),
            down,
            wish,
            private: &asking.private,
            introduction: &|version| self.introduce(version, addresses),
            shapers: route
                .rules
                .shape
                .as_ref()
                .map(|shape| self.shapers(shape, &route.action, seen)),
            cells: worker
                .cells
                .http
                .site(seen.site.map(|site| sites.sites[site].place)),
            began: seen.began,
            keep,
            outcome: &mut seen.outcome,
        };
        let result = match source {
            Elsewhere::Endpoint(proxy) => proxy.run(&mut exchange).await,
            Elsewhere::Target(connect) => {
                boxed(|| connect.run(&mut exchange, seen.user.as_ref())).await
            }
            Elsewhere::Forward(connect, forward) => {
                let user = seen.user.as_ref();
                boxed(|| connect.forward(&forward.proxy, &mut exchange, user)).await
            }
            Elsewhere::Folder(files) => files.run(&mut exchange).await,
        };
        self.followed(down, head, seen, result, keep).await
    }

    /// What follows a request that was answered there, or was not.
    async fn followed<D: Downstream>(
        &self,
        down: &mut D,
        head: &RequestHead,
        seen: &mut Seen<'_>,
        result: Result<(), Failure>,
        keep: bool,
    ) -> Next {
        self.guard.watch().waits(Waiting::Otherwise);
        seen.received = down.taken();
        let answered = seen.outcome.status != 0;
        match result {
            Err(failure) if !answered => {
                // Behind a CONNECT may be what is no HTTP.
                let keep = keep && head.method != Method::Connect;
                return self
                    .fail(down, head, seen, (Answerer::Application, failure), keep)
                    .await;
            }
            Err(failure) => {
                seen.sent = down.moved();
                let ending = Ending::because(failure.cause, failure.side, failure.detail.clone());
                seen.failure = Some(failure);
                return Next::End(ending);
            }
            Ok(()) => seen.sent = down.moved(),
        }
        match seen.outcome.switched.take() {
            Some(mut switched) => {
                let host = asked(head).map_or(&b""[..], |asked| asked.host).into();
                switched.opener = Some(Box::new(Opener {
                    id: seen.id,
                    host,
                    user: seen.user.clone(),
                }));
                let site = seen.site.map(|site| self.sites.sites[site].place);
                Next::Tunnel { switched, site }
            }
            None if seen.outcome.reusable => Next::Request,
            None => Next::Close(Ending::new(Cause::ClientClosed, Side::Lockgate)),
        }
    }

    /// What a request may move, of what its connection has left. A tunnel is held to its rate on
    /// its own.
    fn shapers(&self, shape: &Arc<Shape>, action: &Action, seen: &Seen<'_>) -> Box<Shapers> {
        let client = seen.client.key();
        let line = &self.connection.worker.line;
        let of = |connection: &Shaped| {
            Box::new(shape.shapers(connection, client, seen.user.as_ref(), line))
        };
        if matches!(action, Action::Connect(_)) {
            return of(&shape.connection());
        }
        let mut shaped = self.asking.shaped.borrow_mut();
        let known = shaped
            .iter()
            .position(|(known, _)| Arc::ptr_eq(known, shape));
        let known = known.unwrap_or_else(|| {
            shaped.push((Arc::clone(shape), shape.connection()));
            shaped.len() - 1
        });
        of(&shaped[known].1)
    }
}
