//! Asks a service whether a request may, before anything is done with it.

use std::rc::Rc;
use std::time::Instant;

use lockgate_http::asked::Asked;
use lockgate_http::head::{BodyLength, RequestHead};

use super::verdict::{Given, Verdict};
use super::{Next, Serving, host};
use crate::action::forward_auth::ForwardAuth;
use crate::answer::Fault;
use crate::clock::Waiting;
use crate::downstream::own::{Answerer, Refusal};
use crate::downstream::seen::Seen;
use crate::exchange::{Exchange, Failure, Outcome, Request};
use crate::message::{Downstream, OutgoingHead, OutgoingRequest};
use crate::route::Pattern;

impl<'s> Serving<'s> {
    /// Asks `auth` about the request, of whose body nothing is read. Where it may, its fields are
    /// as the service has said; where not, the client has its answer, and this is what follows.
    /// Without an answer nobody is let in.
    pub(super) async fn ask_whether<D: Downstream>(
        &self,
        (auth, pattern): (&'s ForwardAuth, &Pattern),
        down: &mut D,
        (head, asked): (&RequestHead, &Asked<'_>),
        outgoing: &mut OutgoingHead<'_>,
        seen: &mut Seen<'s>,
        keep: bool,
    ) -> Result<Option<Next>, Refusal<'s>> {
        let Self {
            connection,
            sites,
            asking,
            guard,
        } = *self;
        let worker = &connection.worker;
        let mut outcome = Outcome::default();
        let (answered, given) = {
            let question = auth.question(head, outgoing.fields(), asked);
            let host = host(asked, || self.addresses(down));
            let pool = worker.upstream(auth.proxy.upstream).pool();
            let wish = pool.wish(&self.asker(seen.client, &head.fields), guard.clock().now());
            let addresses = pool
                .settings
                .proxy_protocol
                .is_some()
                .then(|| self.addresses(down))
                .flatten();
            let mut gone = |cx: &mut std::task::Context<'_>| down.poll_gone(cx);
            let mut verdict = Verdict::new(&mut gone);
            let mut exchange = Exchange {
                request: Request {
                    worker,
                    outgoing: OutgoingRequest {
                        received: &question,
                        head: &OutgoingHead::of(&question, asked.host),
                        target: auth.asked(asked),
                        rewritten: None,
                        length: BodyLength::Empty,
                        client: &asking.client,
                        id: seen.id.as_bytes(),
                        cookies: pool
                            .settings
                            .sticky()
                            .and_then(|sticky| sticky.without_ours(&question.fields)),
                    },
                    values: self.values(asked, &host, head, seen.client, &seen.id),
                    pattern,
                    rules: &auth.rules,
                },
                guard,
                account: connection.account(),
                share_of: connection.share_of(head.version),
                down: &mut verdict,
                private: &Rc::default(),
                introduction: &|version| self.introduce(version, addresses),
                wish,
                shapers: None,
                cells: worker
                    .cells
                    .http
                    .site(seen.site.map(|site| sites.sites[site].place)),
                began: Instant::now(),
                keep: false,
                outcome: &mut outcome,
            };
            let answered = auth.proxy.run(&mut exchange).await;
            (answered, verdict.into_given())
        };
        guard.settle();
        guard.watch().waits(Waiting::Otherwise);
        let Given {
            head: answer,
            body,
            is_cut,
        } = given;
        if answered.is_ok() && (200..300).contains(&answer.status) {
            auth.admit(&answer.fields, outgoing);
            return Ok(None);
        }
        // From here on the line in the log is about who was asked.
        seen.upstream = Some(auth.proxy.upstream);
        seen.outcome = Outcome {
            status: 0,
            reusable: false,
            switched: None,
            ..outcome
        };
        let failed = match answered {
            Err(failure) => Some(failure),
            Ok(()) if is_cut => Some(Failure::because(
                Fault::BadResponse,
                "a body that is too long",
            )),
            Ok(()) => None,
        };
        Ok(Some(match failed {
            Some(failure) => {
                let detail = format!("the auth service: {}", failure.detail).into();
                let failure = Failure { detail, ..failure };
                self.fail(down, head, seen, (Answerer::AuthService, failure), keep)
                    .await
            }
            None => self.given(down, head, seen, answer, &body, keep).await,
        }))
    }
}
