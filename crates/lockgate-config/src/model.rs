//! The model: the configuration as it runs, with every default filled in. It is valid by
//! construction and not checked again.
//!
//! It does not know the source text or the defaults (`keys`). Files named here (certificates, keys,
//! authorities) have not been opened.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockgate_rules::{CertFallback, CertIssuer, Cidr, Http2, MinRates, OnDemand};

use crate::source::SourceSpan;

mod content;
mod export;
mod files;
mod http;
mod pool;
mod request_test;
mod shape;
mod tcp;
mod tunnel;

pub use crate::address::{EndpointAddr, ListenAddr};
pub use crate::policy::{Group, Suite, TlsVersion};
pub use content::*;
pub use export::*;
pub use files::*;
pub use http::*;
pub use pool::*;
pub use request_test::*;
pub use shape::*;
pub use tcp::*;
pub use tunnel::*;

/// The whole configuration of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The number of worker threads.
    pub workers: Workers,
    /// The user to become after binding and reading keys.
    pub user: Option<String>,
    /// The directory for the last good configuration.
    pub state: Option<PathBuf>,
    /// Texts that are fetched while Lockgate runs; each name once.
    pub values: Vec<NamedValue>,
    /// The networks of trusted proxies: PROXY headers and forwarding fields from them are believed.
    pub trusted: Vec<Cidr>,
    /// The metrics address.
    pub metrics: Option<Metrics>,
    /// The admin socket.
    pub admin: Option<AdminSocket>,
    /// Metrics that are pushed.
    pub export: Export,
    /// The access log of listeners that have none of their own.
    pub access_log: Option<AccessLog>,
    /// The access logs of sites with one of their own, each once; no two share a file.
    pub site_logs: Vec<(AccessLog, SourceSpan)>,
    /// The operator log, on stderr.
    pub log: OperatorLog,
    /// When a changed file is taken over.
    pub reload: ReloadTrigger,
    /// The drain of the process.
    pub drain: Drain,
    /// Limits that hold for the whole process.
    pub limits: ProcessLimits,
    /// Deadlines for listeners that set none of their own.
    pub timeouts: Timeouts,
    /// Minimum rates, for sites that set none of their own.
    pub rates: MinRates,
    /// The HTTP/2 limits of one client connection.
    pub http2: Http2,
    /// Name servers for SRV records; empty stands for those of the system.
    pub name_servers: Vec<SocketAddr>,
    /// Options of listening and accepted sockets.
    pub socket: SocketOptions,
    /// The ports of sites without a port in their key.
    pub ports: Ports,
    /// Named pools by their names, then one for each inline list of addresses.
    pub pools: Vec<Arc<EndpointPool>>,
    /// The `[tcp]` tables, by the text of their keys. At least one here, in `tunnels` or in
    /// `sites`.
    pub tcp: Vec<Tcp>,
    /// The `[tunnel]` tables, by the text of their keys.
    pub tunnels: Vec<TunnelListener>,
    /// The `[site]` tables, by the text of their keys.
    pub sites: Vec<HostedSite>,
    /// The `[[test]]` tables, in their order.
    pub tests: Vec<RequestTest>,
}

impl Config {
    /// The files of all error pages; one may be there more than once.
    pub(crate) fn error_pages(&self) -> impl Iterator<Item = &Path> {
        let of_sites = self.sites.iter().map(|site| &site.error_pages);
        let routes = self.sites.iter().flat_map(|site| &site.routes);
        let all = of_sites.chain(routes.map(|route| &route.rules.error_pages));
        all.flatten().map(|(_, path, _)| path.as_path())
    }
}

/// The number of worker threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One for each CPU of the quota.
    Auto,
    /// This number, at most 1,024.
    Count(NonZeroUsize),
}

/// The address of metrics and health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// The address that is bound.
    pub at: ListenAddr,
    /// Hosts that requests may name, besides IP addresses and the names of the machine.
    pub hosts: Vec<String>,
}

/// The Unix socket of the commands that look at a running Lockgate or change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminSocket {
    /// Its path; `None` is the default place.
    pub at: Option<PathBuf>,
    /// A group with members that may use it.
    pub group: Option<String>,
    /// The permissions of the file, if written.
    pub mode: Option<u32>,
}

impl AdminSocket {
    /// The permissions of the file.
    pub fn permissions(&self) -> u32 {
        let group = if self.group.is_some() { 0o660 } else { 0o600 };
        self.mode.unwrap_or(group)
    }
}

/// The log of connections and requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// The stream or file that lines are written to.
    pub to: LogTarget,
    /// The form of a line.
    pub format: AccessFormat,
    /// The percentage of lines that are written, from 1 to 100.
    pub sample: u8,
    /// Whether client addresses are shortened before they are written.
    pub mask_ip: bool,
    /// The rotation of a file; only for `LogTarget::File`.
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
    /// The size in bytes after which a new file is begun.
    pub size: u64,
    /// The number of old files.
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
    /// Failures: something does not work.
    Error,
    /// Conditions that need attention.
    Warn,
    /// Events such as a start.
    Info,
    /// Details that help to find a mistake.
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

/// The drain of a process that stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// The time for which listeners stay open after the signal.
    pub delay: Duration,
    /// The time after which open connections are closed.
    pub deadline: Duration,
    /// The time after a reload after which what goes on by an earlier configuration is closed, if
    /// it ever is.
    pub change: Option<Duration>,
}

/// When a changed file is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadTrigger {
    /// By a signal or a command.
    Manual,
    /// Also when it changes.
    Watch,
}

/// The memory limit of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// A share of the cgroup's or the machine's memory.
    Auto,
    /// No limit.
    Off,
    /// This number of bytes.
    Bytes(u64),
}

/// Limits that hold for the process, not per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Concurrent connections; `None` follows from the descriptor limit.
    pub connections: Option<usize>,
    /// Concurrent connections from one client address; `None` is no limit.
    pub per_client: Option<usize>,
    /// TLS handshakes that are computed at once.
    pub handshakes: usize,
    /// The memory limit of the process.
    pub memory: Memory,
    /// The maximum length of a head (request or status line, and fields), in bytes.
    pub head: u64,
    /// The maximum number of fields of a head.
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
    /// The time that a client connection may wait for its next request.
    pub idle: Duration,
    /// One attempt to connect to an endpoint.
    pub connect: Duration,
    /// From the end of a request to the first byte of its response; `None` is no deadline.
    pub response: Option<Duration>,
    /// The time that a relayed connection may be silent in both directions.
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
    /// Certificates, chosen by SNI; patterns are expanded; the table's own certificate comes first.
    pub certs: CertList,
    /// The certificate for clients without a server name or with one that no certificate covers;
    /// `None` refuses them.
    ///
    /// If a table names exactly one certificate, it is this one.
    pub default: Option<CertPaths>,
    /// The source of certificates for the names of this table that no file covers; `None` if there
    /// are only files.
    ///
    /// At least one of `certs`, `default` and this is set, unless every pattern in `certs` matches
    /// no file (a warning).
    pub managed: Option<ManagedCerts>,
    /// The versions offered; never empty.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites offered, best first; at least one for each version.
    pub suites: Vec<Suite>,
    /// The key exchange groups offered, best first; never empty.
    pub groups: Vec<Group>,
    /// The application protocols offered, best first; empty disables ALPN.
    pub alpn: Vec<String>,
    /// The keys of session tickets, or none.
    pub tickets: Tickets,
    /// The verification of client certificates; `None` requests none.
    pub client_auth: Option<ClientAuth>,
}

/// The source of certificates for the names of a table that no file covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCerts {
    /// The authority that issues them. Tables with equal settings of ACME share one value of them.
    pub issuer: CertIssuer,
    /// What is served for a name until its certificate is there; `None` for the authority in the
    /// state folder, which issues at once.
    pub fallback: CertFallback,
    /// The permission for certificates when a client first asks for a name; `None` obtains none so.
    pub on_demand: Option<Arc<OnDemand>>,
    /// The key that asks for them, in the configuration file.
    pub at: SourceSpan,
}

/// The certificates of a table: its own one, then those that it lists or inherits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertList {
    /// The certificate that the table names by `cert`.
    pub own: Option<CertPaths>,
    /// Those of the nearest `certs`, which all tables that inherit them share.
    pub listed: Arc<[CertPaths]>,
}

impl CertList {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &CertPaths> {
        self.own.iter().chain(&*self.listed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

/// The files of one certificate, not opened yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertPaths {
    /// The file of the chain, in PEM.
    pub cert: PathBuf,
    /// The private key; `None` stands for the same file, or a file beside it.
    pub key: Option<PathBuf>,
    /// An OCSP response in DER, which is stapled.
    pub ocsp: Option<PathBuf>,
    /// The place of the chain in the configuration file.
    pub at: SourceSpan,
    /// The place of `key` in the configuration file.
    pub key_at: Option<SourceSpan>,
    /// The place of `ocsp` in the configuration file.
    pub ocsp_at: Option<SourceSpan>,
    /// The way the chain is named.
    pub named: CertNaming,
}

/// The way the file of a certificate is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertNaming {
    /// By the path of the file.
    ByPath,
    /// By a pattern, which other files may match too.
    ByPattern,
}

/// Session tickets and the source of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tickets {
    /// No session tickets.
    Off,
    /// Keys that are made at the start and replaced regularly.
    Rotating {
        /// The time for which a key issues new tickets.
        rotate: Duration,
        /// The number of accepted keys, the current one included.
        keep: u8,
    },
    /// Keys from a file, which several processes can share.
    Keys(PathBuf),
}

/// The verification of client certificates.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientAuth {
    /// Whether a client must have a certificate.
    pub mode: ClientCertificates,
    /// The file of authorities, in PEM.
    pub ca: PathBuf,
    /// The place of `ca` in the configuration file.
    pub at: SourceSpan,
}

/// Whether a client must have a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients without a valid certificate are refused.
    Require,
    /// A certificate is optional, but must be valid.
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

/// TLS to endpoints; their certificates are always verified.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTls {
    /// The name for SNI and the verification; `None` stands for the endpoint's own host or address.
    ///
    /// Always set if an endpoint is a Unix socket.
    pub name: Option<String>,
    /// The authorities that may sign its certificate.
    pub ca: AuthoritySource,
    /// The application protocols offered, best first; empty disables ALPN. For HTTP/2 only `h2`.
    pub alpn: Vec<String>,
    /// The place in the configuration file, for mistakes that are found later.
    pub at: SourceSpan,
}

/// The source of trusted authorities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AuthoritySource {
    /// The system's store.
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
