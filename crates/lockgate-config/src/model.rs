//! What will run: the configuration with every default filled in, valid by construction.
//!
//! Does not know what was written or where its defaults come from (`keys`). It is not checked again
//! after this. Files named here (certificates, keys, authorities) have not been opened.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::{Cidr, Http2, MinRates};

use crate::source::SourceSpan;

mod content;
mod files;
mod http;
mod pool;
mod shape;
mod tcp;
mod tunnel;

pub use crate::address::{EndpointAddr, ListenAddr};
pub use crate::policy::{Group, Suite, TlsVersion};
pub use content::*;
pub use files::*;
pub use http::*;
pub use pool::*;
pub use shape::*;
pub use tcp::*;
pub use tunnel::*;

/// The whole configuration of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How many worker threads serve connections.
    pub workers: Workers,
    /// The user to become after binding and reading keys.
    pub user: Option<String>,
    /// The directory for the last good configuration.
    pub state: Option<PathBuf>,
    /// Texts that are looked for while running; each name once.
    pub values: Vec<FetchedValue>,
    /// The proxies in front: PROXY headers and forwarding fields from these networks are believed.
    pub trusted: Vec<Cidr>,
    /// Where metrics and health are served.
    pub metrics: Option<Metrics>,
    /// The access log of listeners that have none of their own.
    pub access_log: Option<AccessLog>,
    /// Those of sites that have one of their own, each once, and none of them in a file of
    /// another.
    pub site_logs: Vec<(AccessLog, SourceSpan)>,
    /// The operator log, on stderr.
    pub log: OperatorLog,
    /// How the process drains when it stops.
    pub drain: Drain,
    /// Limits that hold for the whole process.
    pub limits: ProcessLimits,
    /// Deadlines for listeners that set none of their own.
    pub timeouts: Timeouts,
    /// Minimum rates, for sites that set none of their own.
    pub rates: MinRates,
    /// What one client connection may ask for over HTTP/2.
    pub http2: Http2,
    /// Name servers that are asked for records of services; none is those of the system.
    pub name_servers: Vec<SocketAddr>,
    /// Options of listening and accepted sockets.
    pub socket: SocketOptions,
    /// The ports of sites without a port in their key.
    pub ports: Ports,
    /// Named pools by their names, then one for each address that was written inline.
    pub pools: Vec<EndpointPool>,
    /// The `[tcp]` tables, by the text of their keys. At least one here, in `tunnels` or in
    /// `sites`.
    pub tcp: Vec<Tcp>,
    /// The `[tunnel]` tables, by the text of their keys.
    pub tunnels: Vec<TunnelListener>,
    /// The `[site]` tables, by the text of their keys.
    pub sites: Vec<HostedSite>,
}

/// How many worker threads serve connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// As many as the CPU quota gives.
    Auto,
    /// That many, at most 1,024.
    Count(NonZeroUsize),
}

/// Where metrics and health are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// The address that is bound.
    pub at: ListenAddr,
    /// Names under which it may be asked, beside addresses and those of the machine.
    pub hosts: Vec<String>,
}

/// The log of connections and requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// The stream or file that lines are written to.
    pub to: LogTarget,
    /// The form of a line.
    pub format: AccessFormat,
    /// Of a hundred lines so many are written, from 1 to 100.
    pub sample: u8,
    /// Whether client addresses are shortened before they are written.
    pub mask_ip: bool,
    /// When a file is rotated; only for `LogTarget::File`.
    pub rotate: Option<Rotate>,
}

/// Forms of an access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessFormat {
    /// One JSON object a line.
    Json,
    /// The combined log format of Apache httpd.
    Combined,
    /// Pairs of the form `key=value`.
    Logfmt,
}

/// The stream or file that a log is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output of the process.
    Stdout,
    /// Standard error of the process.
    Stderr,
    /// A file that lines are appended to.
    File(PathBuf),
}

/// Rotation of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotate {
    /// The size in bytes past which a new file is begun.
    pub size: u64,
    /// How many old files are kept.
    pub keep: u32,
}

/// The operator log, which goes to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorLog {
    /// The least severe level that is written.
    pub level: LogLevel,
    /// The form of a line.
    pub format: LogFormat,
}

/// Levels of the operator log, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What stops something from working.
    Error,
    /// What should be looked at.
    Warn,
    /// What happened, such as a start.
    Info,
    /// What helps to find a mistake.
    Debug,
}

/// Forms of the operator log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How the process drains when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long listeners stay open after the signal.
    pub delay: Duration,
    /// After how long what still runs is cut.
    pub deadline: Duration,
}

/// How much memory the process may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// What the cgroup or the machine allow.
    Auto,
    /// As much as it takes.
    Off,
    /// At most this number of bytes.
    Bytes(u64),
}

/// Limits that hold for the process, not per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Connections at once; `None` follows from the descriptor limit.
    pub connections: Option<usize>,
    /// Connections at once from one client address; `None` is no limit.
    pub per_client: Option<usize>,
    /// The TLS handshakes that may run at once.
    pub handshakes: usize,
    /// The memory that the process may have.
    pub memory: Memory,
    /// The bytes of a head: request or status line and fields.
    pub head: u64,
    /// The fields of a head.
    pub fields: usize,
    /// Requests on one client connection; `None` is no limit.
    pub requests: Option<u64>,
}

/// The deadlines of one listener or route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From accepting a connection to the end of its TLS handshake, PROXY header included.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its head.
    pub head: Duration,
    /// How long a client connection may wait for its next request.
    pub idle: Duration,
    /// For one attempt to connect to an endpoint.
    pub connect: Duration,
    /// From the end of a request to the first byte of its answer; `None` waits as long as it
    /// takes.
    pub response: Option<Duration>,
    /// How long a relayed connection may carry no byte either way.
    pub tunnel_idle: Duration,
}

/// Options of listening and accepted sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    /// The length of the queue of connections not yet accepted.
    pub backlog: u32,
    /// TCP Fast Open on listeners.
    pub fast_open: bool,
    /// Idle time before the kernel probes a silent peer; `None` switches the probes off.
    pub keepalive: Option<Duration>,
}

/// TLS of a listener, towards clients.
#[derive(Debug, Clone, PartialEq)]
pub struct DownstreamTls {
    /// Chosen by SNI; globs are expanded; the table's own certificate comes first.
    pub certs: Vec<CertPaths>,
    /// For a client that names no host or one that no certificate covers; `None` refuses it.
    ///
    /// A table that names exactly one certificate of its own has that one here. At least one of
    /// `certs` and `default` is given, unless every pattern in `certs` matches no file (a
    /// warning).
    pub default: Option<CertPaths>,
    /// The versions offered; never empty.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites offered, best first; at least one for each version.
    pub suites: Vec<Suite>,
    /// The key exchange groups offered, best first; never empty.
    pub groups: Vec<Group>,
    /// The application protocols offered, best first; empty: no ALPN.
    pub alpn: Vec<String>,
    /// The keys of session tickets, or none.
    pub tickets: Tickets,
    /// The certificates that clients are asked for; `None` asks for none.
    pub client_auth: Option<ClientAuth>,
}

/// The files of one certificate, not opened yet.
#[derive(Debug, Clone, PartialEq)]
pub struct CertPaths {
    /// The file of the chain, in PEM.
    pub cert: PathBuf,
    /// The private key; `None`: in the same file, or beside it.
    pub key: Option<PathBuf>,
    /// An OCSP response in DER, stapled as it is.
    pub ocsp: Option<PathBuf>,
    /// Where the chain was written.
    pub at: SourceSpan,
    /// The place of `key` in the configuration file.
    pub key_at: Option<SourceSpan>,
    /// The place of `ocsp` in the configuration file.
    pub ocsp_at: Option<SourceSpan>,
    /// How the chain was named.
    pub named: CertNaming,
}

/// How the file of a certificate was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertNaming {
    /// By the path of the file.
    ByPath,
    /// By a pattern, which other files may match too.
    ByPattern,
}

/// Session tickets, and where their keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tickets {
    /// Clients do not resume by tickets.
    Off,
    /// Keys made at start and replaced regularly.
    Rotating {
        /// How long a key makes new tickets.
        rotate: Duration,
        /// How many keys are accepted, the current one included.
        keep: u8,
    },
    /// Keys read from a file, so that several processes share them.
    Keys(PathBuf),
}

/// The certificates that clients are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientAuth {
    /// Whether a client may come without one.
    pub mode: ClientCertificates,
    /// The authorities that sign them, in PEM.
    pub ca: PathBuf,
    /// Where the authorities were written.
    pub at: SourceSpan,
}

/// Whether a client may come without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a valid one is refused.
    Require,
    /// A client may send none; one that it sends must be valid.
    Request,
}

impl ClientCertificates {
    /// The word in the configuration: `require`, `request`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::Request => "request",
        }
    }
}

/// TLS to an upstream, always verified.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTls {
    /// The name that is sent and verified; `None`: the endpoint's own host or address.
    ///
    /// Given whenever an endpoint is a Unix socket.
    pub name: Option<String>,
    /// The authorities that may sign its certificate.
    pub ca: AuthoritySource,
    /// The application protocols offered, best first; empty: no ALPN. `h2` alone where HTTP/2 is
    /// spoken.
    pub alpn: Vec<String>,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
}

/// Where trusted authorities come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthoritySource {
    /// The store of the system.
    System,
    /// A file of certificates in PEM.
    File(PathBuf),
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::Stdout => f.write_str("stdout"),
            LogTarget::Stderr => f.write_str("stderr"),
            LogTarget::File(path) => path.display().fmt(f),
        }
    }
}
