//! The question to an auth service whether a request is admitted.

use std::rc::Rc;
use std::time::Instant;

use lockgate_http::head::BodyLength;
use lockgate_http::request_target::RequestTarget;
use lockgate_http_io::message::{ClientExchange, OutgoingHead, OutgoingRequest, Persistence};
use lockgate_limits::clock::WaitReason;
use lockgate_rules::Pattern;

use super::auth_response::{AuthDownstream, AuthResponse};
use super::{IncomingRequest, ServeContext};
use crate::action::forward_auth::ForwardAuth;
use crate::error_response::HttpFault;
use crate::exchange::{Exchange, ExchangeFailure, ExchangeOutcome, RoutedRequest};

/// Why a request was not authorized.
pub(super) enum Denial {
    /// The service has denied it, by this response.
    Response(AuthResponse),
    /// The service could not be asked.
    Failure(ExchangeFailure),
}

impl<'s, D: ClientExchange> IncomingRequest<'_, 's, D> {
    /// Asks `auth` about the request without its body. An authorized request gets the fields
    /// that the service answers with. Without a response it is not authorized.
    pub(super) async fn authorize(
        &mut self,
        auth: &'s ForwardAuth,
        pattern: &Pattern,
        target: &RequestTarget<'_>,
        outgoing: &mut OutgoingHead<'_>,
    ) -> Result<(), Denial> {
        let ServeContext {
            connection,
            sites,
            client,
            guard,
            ..
        } = *self.context;
        let generation = self.generation();
        let worker = &connection.worker;
        let mut outcome = ExchangeOutcome::default();
        let (responded, response) = {
            let question = auth.question(self.head, outgoing.fields(), target);
            let host = self.host_name(target);
            let asked = auth.asked(target);
            let values = self.values(target, &host);
            let pool = generation.upstream(auth.proxy.pool).pool();
            let preference =
                pool.preference(&self.affinity_input(&self.head.fields), guard.clock().now());
            let addresses = pool
                .settings
                .proxy_protocol
                .is_some()
                .then(|| self.context.addresses(self.down))
                .flatten();
            let request = RoutedRequest {
                worker,
                generation,
                outgoing: OutgoingRequest {
                    received: &question,
                    head: &OutgoingHead::of(&question, target.host),
                    target: &asked,
                    rewritten: None,
                    length: BodyLength::Empty,
                    client: client.forwarded(generation),
                    id: self.id.as_bytes(),
                    cookies: pool
                        .settings
                        .sticky()
                        .and_then(|sticky| sticky.without_ours(&question.fields)),
                },
                values: &values,
                pattern,
                rules: &auth.rules,
            };
            let site = self.record.site.map(|site| sites.site(site).index);
            let mut gone = |cx: &mut std::task::Context<'_>| self.down.poll_gone(cx);
            let mut down = AuthDownstream::new(&mut gone);
            let mut exchange = Exchange {
                request,
                guard,
                account: connection.account(),
                socket_account: connection.socket_account(self.head.version),
                user: None,
                down: &mut down,
                private: &Rc::default(),
                proxy_header: &|version| connection.proxy_header(version, addresses),
                preference,
                shapers: None,
                cells: generation.cells.http.site(site),
                began: Instant::now(),
                persistence: Persistence::Close,
                outcome: &mut outcome,
            };
            let responded = auth.proxy.run(&mut exchange).await;
            (responded, down.into_response())
        };
        guard.end_phase();
        guard.watch().set_wait(WaitReason::Nothing);
        guard.watch().uses_socket.set(false);
        let is_success = (200..300).contains(&response.head.status);
        if responded.is_ok() && is_success {
            auth.admit(&response.head.fields, outgoing);
            return Ok(());
        }
        // From here on the line in the log is about the service.
        self.record.upstream = Some(auth.proxy.pool);
        self.record.outcome = ExchangeOutcome {
            status: 0,
            client_persists: false,
            switched: None,
            ..outcome
        };
        Err(match responded {
            Err(failure) => Denial::Failure(failure),
            Ok(()) if response.is_cut => {
                let why = "a body that is too long";
                Denial::Failure(ExchangeFailure::because(HttpFault::BadResponse, why))
            }
            Ok(()) => Denial::Response(response),
        })
    }
}
