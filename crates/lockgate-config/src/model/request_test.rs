//! Tests of the configuration.

use std::net::IpAddr;

use crate::source::SourceSpan;

/// A `[[test]]`: a request, and what is expected of the configuration for it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTest {
    /// The request.
    pub request: TestedRequest,
    /// The place of the request in the configuration file.
    pub at: SourceSpan,
    /// The client's address, if one is named.
    pub from: Option<IpAddr>,
    /// The server name in the client's TLS, empty for none; without one it is the URL's host.
    pub sni: Option<String>,
    /// The name of the listener, if one is named.
    pub listener: Option<String>,
    /// Fields of the request.
    pub fields: Vec<(String, String)>,
    /// What is expected, at least one thing.
    pub expected: Vec<Expectation>,
}

/// The method and the URL of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedRequest {
    /// The method.
    pub method: String,
    /// A URL of http or https.
    pub url: String,
}

/// An expectation and its place in the configuration file.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// What is expected.
    pub of: ExpectedFact,
    /// The place of its value.
    pub at: SourceSpan,
}

/// What is expected of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedFact {
    /// The key of its site.
    Site(String),
    /// The key of its route.
    Route(String),
    /// What becomes of it.
    Outcome(OutcomeKind),
    /// The status of a response of Lockgate.
    Status(u16),
    /// Where a redirect leads to.
    Location(String),
    /// The name of its pool.
    Pool(String),
    /// One of the endpoints of its pool.
    Endpoint(String),
    /// Path and query, as the endpoint gets them.
    Target(String),
    /// A field, as the endpoint gets it, or does not get it.
    Sent(String, Option<String>),
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// It is sent to an endpoint.
    Proxied,
    /// A file is sent.
    Files,
    /// Lockgate responds.
    Responded,
    /// Lockgate refuses it with an error.
    Refused,
    /// Its connection is relayed.
    Relayed,
    /// The handshake of TLS ends with an alert.
    Alert,
}

impl OutcomeKind {
    /// Its word in the configuration and in explanations.
    pub fn word(self) -> &'static str {
        match self {
            Self::Proxied => "proxied",
            Self::Files => "files",
            Self::Responded => "responded",
            Self::Refused => "refused",
            Self::Relayed => "relayed",
            Self::Alert => "alert",
        }
    }
}
