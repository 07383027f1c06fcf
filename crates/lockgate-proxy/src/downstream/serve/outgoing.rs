//! The request as its backend gets it: the route's rules, and the endpoint that its client belongs to.

use lockgate_http::fields::Fields;
use lockgate_http_io::message::OutgoingHead;
use lockgate_net::stream::BufferPool;
use lockgate_rules::RequestValues;
use lockgate_upstream::{AffinityInput, Preference};

use super::IncomingRequest;
use super::refusal::Refusal;
use crate::rules;
use crate::site::{Action, Route};

impl<'s, D> IncomingRequest<'_, 's, D> {
    /// Changes the request by the route's rules.
    pub(super) fn apply_request_rules(
        &self,
        route: &Route,
        values: &RequestValues<'_>,
        outgoing: &mut OutgoingHead<'_>,
    ) -> Result<(), Refusal<'s>> {
        apply_request_rules(route, values, outgoing, &self.worker().blocks)
    }

    /// The endpoint that a request with these fields belongs to, if its pool's balancing ties it to
    /// one.
    pub(super) fn preference(&self, action: &Action, fields: &Fields) -> Preference {
        let Action::Proxy(proxy) = action else {
            return Preference::Any;
        };
        let pool = self.generation().upstream(proxy.pool).pool();
        pool.preference(
            &self.affinity_input(fields),
            self.context.guard.clock().now(),
        )
    }

    /// The input for the choice of an endpoint.
    pub(super) fn affinity_input<'f>(&'f self, fields: &'f Fields) -> AffinityInput<'f> {
        AffinityInput {
            client: self.record.client.key(),
            server_name: self.context.connection.server_name.as_deref(),
            session: None,
            fields: Some(fields),
        }
    }
}

/// Changes a request by its route's rules.
pub(super) fn apply_request_rules<'s>(
    route: &Route,
    values: &RequestValues<'_>,
    outgoing: &mut OutgoingHead<'_>,
    blocks: &BufferPool,
) -> Result<(), Refusal<'s>> {
    match route.action {
        Action::Proxy(_) => {}
        Action::Connect(_) if values.method != b"CONNECT" => {}
        // No other sends the request to anywhere.
        _ => return Ok(()),
    }
    let rules = &route.rules.request_headers;
    if !rules.is_empty() {
        rules::apply(rules, outgoing.change(), values, blocks);
        outgoing
            .check_host()
            .map_err(|error| Refusal::malformed(&error))?;
    }
    if let (Some(rewrite), Action::Proxy(_)) = (&route.rules.rewrite, &route.action) {
        rewrite.ask(values.path, outgoing.change());
    }
    Ok(())
}
