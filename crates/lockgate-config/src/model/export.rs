//! Metrics that are pushed: where to, and in which form.

use std::time::Duration;

use lockgate_rules::{GraphiteNaming, GraphiteProtocol, MetricFilter, SecretText, StatsdTags};

use crate::address::EndpointAddr;

/// Metrics that are pushed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Export {
    /// Where to; each name once.
    pub sinks: Vec<ExportSink>,
    /// Which ones.
    pub filter: MetricFilter,
}

/// A receiver of metrics.
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
}

/// A scheme of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlScheme {
    /// `http`
    Http,
    /// `https`
    Https,
}
