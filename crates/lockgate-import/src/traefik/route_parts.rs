//! What the middlewares of a route change in it.

use std::collections::BTreeSet;

use super::node::TraefikNode;
use crate::DraftValue;

/// A change of the path that a service sees.
#[derive(Debug, Clone)]
pub(super) enum TraefikPathStep {
    /// The first of these prefixes that it has is removed.
    Strip(Vec<String>),
    /// This is put before it.
    Add(String),
    /// It becomes this.
    Replace(String),
    /// A pattern and its replacement.
    Pattern(String, String),
}

/// A redirect.
#[derive(Debug, Clone)]
pub(super) enum TraefikRedirect {
    /// To a scheme, perhaps with a port.
    Scheme(String, Option<u16>),
    /// A pattern of URLs and its replacement.
    Pattern(String, String),
}

/// A redirect with what comes before it.
#[derive(Debug, Clone)]
pub(super) struct TraefikRedirectStep {
    /// What it does.
    pub(super) redirect: TraefikRedirect,
    /// Whether it is permanent.
    pub(super) permanent: bool,
    /// Its definition.
    pub(super) node: TraefikNode,
    /// The keys of the middlewares before it.
    pub(super) before: Vec<(String, DraftValue)>,
}

/// What middlewares change in a route.
#[derive(Debug, Clone, Default)]
pub(super) struct RouteParts {
    /// Keys of the table, such as `auth`.
    pub(super) keys: Vec<(String, DraftValue)>,
    /// Fields of responses.
    pub(super) headers: Vec<(String, DraftValue)>,
    /// Fields of requests.
    pub(super) request_headers: Vec<(String, DraftValue)>,
    /// Changes of the path, in their order, with the definition of each.
    pub(super) path: Vec<(TraefikPathStep, TraefikNode)>,
    /// Redirects, in their order.
    pub(super) redirects: Vec<TraefikRedirectStep>,
    /// How often a request is retried.
    pub(super) retry: Option<i64>,
    /// Why the route must not be served.
    pub(super) refuse: Option<String>,
    /// The middlewares that keep requests out.
    pub(super) guards: BTreeSet<String>,
    /// Comments of the table.
    pub(super) comments: Vec<String>,
}

impl RouteParts {
    /// Sets a key; false if it has another value already.
    pub(super) fn set(&mut self, key: &str, value: DraftValue) -> bool {
        match self.keys.iter().find(|(known, _)| known == key) {
            Some((_, known)) => *known == value,
            None => {
                self.keys.push((key.to_owned(), value));
                true
            }
        }
    }

    /// Refuses the route.
    pub(super) fn refuse(&mut self, why: impl Into<String>) {
        self.refuse.get_or_insert(why.into());
    }
}

/// What a middleware must know of its route.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteContext<'a> {
    /// Whether its listener has TLS.
    pub(super) tls: bool,
    /// Whether proxies in front are trusted.
    pub(super) trusted: bool,
    /// The hosts of its rule, as far as they are exact.
    pub(super) hosts: &'a [String],
}
