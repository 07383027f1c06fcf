//! Metrics that are pushed: where to, and in which form.

use std::time::Duration;

use lockgate_rules::{
    Coding, GraphiteNaming, GraphiteProtocol, MetricFilter, SecretText, StatsdTags, TraceShare,
};

use super::AuthoritySource;
use crate::address::EndpointAddr;
use crate::source::SourceSpan;

/// Metrics that are pushed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Export {
    /// Where to; each name once.
    pub sinks: Vec<ExportSink>,
    /// Which ones.
    pub filter: MetricFilter,
    /// The beginnings of names in the filter, with their places.
    pub beginnings: Vec<(String, SourceSpan)>,
    /// Where spans of requests go, if anywhere.
    pub traces: Option<TraceExport>,
    /// The authorities of the sinks over TLS, with their places.
    pub authorities: Vec<(AuthoritySource, SourceSpan)>,
}

/// A sink of spans.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceExport {
    /// Its kind and address, `otlp:10.0.0.9:4318`, for logs and labels.
    pub name: String,
    /// The sink.
    pub to: OtlpTarget,
    /// The share of new traces that is recorded.
    pub share: TraceShare,
}

/// A sink of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportSink {
    /// Its kind and address, `graphite:10.0.0.9:2003`, for logs and labels.
    pub name: String,
    /// The time between two readings: whole seconds, from one to an hour.
    pub every: Duration,
    /// The form.
    pub form: ExportForm,
}

/// The form of metrics that are pushed, and the address.
#[derive(Debug, Clone, PartialEq)]
pub enum ExportForm {
    /// Graphite, over TCP.
    Graphite {
        /// An IP address or a name.
        to: EndpointAddr,
        /// The protocol.
        protocol: GraphiteProtocol,
        /// How series are named.
        naming: GraphiteNaming,
        /// What stands before each name; it may be empty.
        prefix: String,
    },
    /// statsd, over UDP.
    Statsd {
        /// An IP address or a name.
        to: EndpointAddr,
        /// Where labels go.
        tags: StatsdTags,
        /// What stands before each name; it may be empty.
        prefix: String,
    },
    /// InfluxDB's line protocol.
    Influx(InfluxTarget),
    /// OpenTelemetry's protocol, over HTTP.
    Otlp(OtlpTarget),
}

impl ExportForm {
    /// The authorities that the sink is verified by; none where it is not reached over TLS.
    pub fn authorities(&self) -> Option<&AuthoritySource> {
        match self {
            Self::Influx(InfluxTarget::Http(url)) => {
                (url.scheme == UrlScheme::Https).then_some(&url.ca)
            }
            Self::Otlp(to) => to.authorities(),
            Self::Graphite { .. } | Self::Statsd { .. } | Self::Influx(_) => None,
        }
    }
}

/// Where lines of InfluxDB go.
#[derive(Debug, Clone, PartialEq)]
pub enum InfluxTarget {
    /// Bodies of POST requests.
    Http(InfluxUrl),
    /// Datagrams to an IP address or a name.
    Udp(EndpointAddr),
    /// A stream to an IP address or a name.
    Tcp(EndpointAddr),
}

/// A URL that takes lines of InfluxDB.
#[derive(Debug, Clone, PartialEq)]
pub struct InfluxUrl {
    /// `http` or `https`.
    pub scheme: UrlScheme,
    /// An IP address or a name.
    pub addr: EndpointAddr,
    /// The value of Host: host and port of the URL, without the port that the scheme implies.
    pub host: String,
    /// Path and query, which may hold a password; it begins with `/`.
    pub path: SecretText,
    /// The token of the field Authorization, if there is one.
    pub token: Option<SecretText>,
    /// The authorities that verify the server of an `https` URL.
    pub ca: AuthoritySource,
}

/// A sink of OpenTelemetry's protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpTarget {
    /// Its URL.
    pub url: OtlpUrl,
    /// Further fields of requests: names in small letters, and values.
    pub fields: Vec<(String, SecretText)>,
    /// The authorities that it is verified by, over `https`.
    pub ca: AuthoritySource,
    /// The coding of bodies, if they are compressed.
    pub compression: Option<Coding>,
    /// The name of the service.
    pub service: String,
}

impl OtlpTarget {
    /// The authorities that it is verified by; none where it is not reached over TLS.
    pub fn authorities(&self) -> Option<&AuthoritySource> {
        (self.url.scheme == UrlScheme::Https).then_some(&self.ca)
    }
}

/// A URL below which the paths of signals are.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpUrl {
    /// `http` or `https`.
    pub scheme: UrlScheme,
    /// An IP address or a name.
    pub addr: EndpointAddr,
    /// The value of Host: host and port of the URL, without the port that the scheme implies.
    pub host: String,
    /// The path: empty, or it begins with `/` and does not end with it.
    pub path: String,
}

/// A scheme of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlScheme {
    /// `http`
    Http,
    /// `https`
    Https,
}
