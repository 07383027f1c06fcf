//! The admission of a request, as far as it is decided here: networks, rates, passwords, and the
//! length that the request announces.

use std::net::IpAddr;
use std::sync::Arc;

use lockgate_http::head::{BodyLength, RequestHead};
use lockgate_net::nanos::Nanos;
use lockgate_rules::{ClientAddress, LimitScope};

use super::IncomingRequest;
use super::refusal::Refusal;
use crate::admit::password_pool::PasswordOutcome;
use crate::admit::rate_limit::{Decision, LimitKey};
use crate::error_response::{Advice, HttpFault};
use crate::site::{BasicAuthCheck, Gatekeeper, RequestLimit, Route};

impl<'s, D> IncomingRequest<'_, 's, D> {
    /// Admits the request by networks and rates, or refuses it.
    pub(super) fn admit(&self, route: &'s Route) -> Result<(), Refusal<'s>> {
        let admission = &route.admission;
        check_network(route, self.record.client)?;
        let client = self.record.client.key_or_unspecified();
        if let Some(limited) = &admission.limit {
            check_rate(
                limited,
                self.head,
                client,
                self.context.guard.clock().nanos(),
            )?;
        }
        Ok(())
    }

    /// The user, by the password of the request.
    pub(super) async fn authenticate(
        &self,
        auth: &'s BasicAuthCheck,
    ) -> Result<Arc<str>, Refusal<'s>> {
        let credentials = credentials(auth, self.head)?;
        let guard = self.context.guard;
        let client = self.record.client.key_or_unspecified();
        let now = guard.clock().now();
        if let Some(user) = auth.checker.cached(credentials, now) {
            return Ok(user);
        }
        match guard
            .within(auth.checker.check(credentials, client, now))
            .await
        {
            Ok(PasswordOutcome::Accepted(user)) => Ok(user),
            Ok(PasswordOutcome::Refused) => Err(challenge(auth)),
            Ok(PasswordOutcome::Busy) | Err(_) => Err(Refusal {
                status: Some(503),
                advice: Advice::RetryAfter(1),
                ..Refusal::because(
                    HttpFault::QueueFull,
                    "too many passwords wait to be checked",
                )
            }),
        }
    }
}

/// Refuses a client of a network that is not served.
pub(super) fn check_network<'s>(route: &Route, client: ClientAddress) -> Result<(), Refusal<'s>> {
    let networks = &route.admission.networks;
    let is_served = match client {
        ClientAddress::Unknown => networks.admits_unknown(),
        client => networks.admits(client.key_or_unspecified()),
    };
    if is_served {
        Ok(())
    } else {
        Err(Refusal::of(HttpFault::Forbidden))
    }
}

/// The credentials of a request; without them, or with several, the challenge.
pub(super) fn credentials<'h, 's>(
    auth: &'s BasicAuthCheck,
    head: &'h RequestHead,
) -> Result<&'h [u8], Refusal<'s>> {
    let field = match auth.to {
        Gatekeeper::Site => &b"authorization"[..],
        Gatekeeper::Proxy => &b"proxy-authorization"[..],
    };
    let mut given = head.fields.named(field);
    match (given.next(), given.next()) {
        (Some(credentials), None) => Ok(credentials),
        _ => Err(challenge(auth)),
    }
}

/// The refusal of a request without the right password.
fn challenge(auth: &BasicAuthCheck) -> Refusal<'_> {
    let (fault, advice) = match auth.to {
        Gatekeeper::Site => (HttpFault::Unauthorized, Advice::Challenge(&auth.realm)),
        Gatekeeper::Proxy => (
            HttpFault::ProxyUnauthorized,
            Advice::ProxyChallenge(&auth.realm),
        ),
    };
    Refusal {
        advice,
        ..Refusal::of(fault)
    }
}

/// Refuses a body that is announced to be too long.
pub(super) fn check_length<'s>(route: &Route, length: BodyLength) -> Result<(), Refusal<'s>> {
    match (route.rules.body_max, length) {
        (Some(most), BodyLength::Known(length)) if length > most => {
            Err(Refusal::of(HttpFault::ContentTooLarge))
        }
        _ => Ok(()),
    }
}

fn check_rate<'s>(
    limited: &'s RequestLimit,
    head: &RequestHead,
    client: IpAddr,
    now: Nanos,
) -> Result<(), Refusal<'s>> {
    let key = match &limited.by {
        LimitScope::Client => LimitKey::Client(client),
        LimitScope::Route => LimitKey::Route,
        LimitScope::Header(name) => head
            .fields
            .named(name.as_bytes())
            .next()
            .map_or(LimitKey::Client(client), LimitKey::Value),
    };
    match limited.limit.ask(key, now) {
        Decision::Allowed => Ok(()),
        Decision::Refused { retry_after } => Err(Refusal {
            status: Some(limited.status),
            advice: Advice::RetryAfter(u32::try_from(retry_after).unwrap_or(u32::MAX)),
            ..Refusal::of(HttpFault::TooManyRequests)
        }),
    }
}
