//! The options of a run, and the plan made from them. Only this module reads files and resolves
//! names.

mod check;
mod connections;
mod requests;
mod timing;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockgate_net::proxy_protocol::HeaderVersion;
use lockgate_net::tls::{CaSource, CertFiles, ConnectorError, PolicyError};

use crate::expect::Expect;
use crate::plan::{LoadStage, Loop, RunPlan, Until, WatchedProcess};
use crate::profile::{Profile, ProfileError};
use crate::schedule::Schedule;
use crate::shared_link::LinkRate;
use crate::target::{LoadTarget, RemotePeer, RequestBody, Url, UrlError, UrlScheme, Varying};

/// Options of a run, as the command line has them.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// Words of the command line, for reports.
    pub command: Vec<String>,
    /// Targets, and the requests to them.
    pub requests: RequestOptions,
    /// Connections: how many, and how they are made.
    pub connections: ConnectionOptions,
    /// Timing: when requests are due, and when stages end.
    pub timing: TimingOptions,
    /// TLS settings of all connections.
    pub tls: TlsOptions,
    /// Responses that count as successes.
    pub expect: Expect,
    /// Statuses that end the run.
    pub stop_on: Vec<u16>,
    /// Whether the run goes on although the first response of a target is a failure.
    pub anyway: bool,
    /// Threads of the generator and their CPUs.
    pub threads: ThreadOptions,
    /// Watched programs, of which CPU time and memory are measured.
    pub watch: Vec<WatchedProcess>,
}

/// Targets and requests of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestOptions {
    /// URLs of the targets, as written.
    pub urls: Vec<String>,
    /// Weight of each URL, in their order; all are equal where the list is empty.
    pub weights: Vec<u32>,
    /// Method of HTTP requests; by default GET, or POST with a body.
    pub method: Option<String>,
    /// Header fields, as they are sent.
    pub headers: Vec<(String, String)>,
    /// Header fields with one value out of several.
    pub varying: Vec<Varying>,
    /// Body of a request, or message of an echo.
    pub body: RequestBody,
    /// Whether requests are gRPC calls and bodies their messages.
    pub grpc: bool,
    /// Whether requests of a page carry a priority (RFC 9218), over HTTP/2.
    pub priorities: bool,
}

/// Connections of a run: number, streams, proxy, link.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionOptions {
    /// Connections at once, over all threads, to each peer.
    pub number: usize,
    /// Streams of each connection at once; with a number HTTP/2 is spoken.
    pub streams: Option<usize>,
    /// Requests after which a connection is closed.
    pub max_requests: Option<u64>,
    /// Unix socket to connect to instead of the addresses of the URLs.
    pub unix: Option<PathBuf>,
    /// Addresses of hosts, instead of those that the system knows.
    pub resolve: Vec<HostAddresses>,
    /// Source addresses, which connections take in turn.
    pub bind: Vec<IpAddr>,
    /// CONNECT proxy in between: `http://host:port`.
    pub proxy: Option<String>,
    /// Credentials for the proxy: `user:password`.
    pub proxy_user: Option<String>,
    /// Version of the PROXY header that connections begin with.
    pub proxy_protocol: Option<HeaderVersion>,
    /// Rate of the link that all connections share.
    pub link: Option<LinkRate>,
}

/// Addresses of a host and port, instead of those that the system knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAddresses {
    /// Host name, as in a URL.
    pub host: String,
    /// Port, as in a URL.
    pub port: u16,
    /// Its addresses; at least one.
    pub addresses: Vec<IpAddr>,
}

/// Rates and durations of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TimingOptions {
    /// Rates and how long they last, for an open loop.
    pub profile: Option<Profile>,
    /// Duration of a closed loop.
    pub duration: Option<Duration>,
    /// Requests after which a stage ends.
    pub count: Option<u64>,
    /// Number of rounds of all stages.
    pub rounds: usize,
    /// Time before the first stage that is not counted.
    pub warm_up: Duration,
    /// Timeout of one exchange, from when it was due.
    pub timeout: Duration,
}

/// TLS of a run's connections.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsOptions {
    /// Certificate authorities that are trusted.
    pub ca: CaSource,
    /// Server name for SNI and for the certificate.
    pub name: Option<String>,
    /// Versions, `1.2` or `1.3`; both where the list is empty.
    pub versions: Vec<String>,
    /// Cipher suites by their IANA names; the defaults where the list is empty.
    pub suites: Vec<String>,
    /// Key exchange groups, the first of which is offered with a share; the defaults where the
    /// list is empty.
    pub groups: Vec<String>,
    /// Whether TLS sessions are resumed.
    pub resume: bool,
    /// Certificate and key of the client.
    pub identity: Option<CertFiles>,
}

/// Threads of the generator, with their CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadOptions {
    /// Number of threads; no more than there are connections are started.
    pub number: usize,
    /// CPUs that they are pinned to, one after the other; empty: not pinned.
    pub cpus: Vec<usize>,
}

/// A reason why options make no plan.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A URL cannot be requested.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Rates do not make a schedule.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The TLS settings are invalid.
    #[error(transparent)]
    Tls(#[from] ConnectorError),
    /// TLS versions or suites do not exist.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A name has no address.
    #[error("{host}: {error}")]
    Resolve {
        /// The host name without its port.
        host: String,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A source address is none of this machine.
    #[error("--bind {address}: {error}; it must be an address of this machine (`ip address`)")]
    Bind {
        /// The address of the option.
        address: IpAddr,
        /// The error of the system.
        error: std::io::Error,
    },
    /// Two options contradict each other.
    #[error("{0}")]
    Together(String),
    /// A method or field cannot be sent.
    #[error("`{0}` cannot be sent: {1}")]
    Field(String, &'static str),
}

impl OptionsError {
    fn together(text: impl Into<String>) -> Self {
        Self::Together(text.into())
    }
}

impl LoadOptions {
    /// The plan of the run. Resolves names and reads certificates.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn plan(&self) -> Result<RunPlan, OptionsError> {
        self.check()?;
        let stages = self.timing.stages()?;
        Ok(RunPlan {
            command: self.command.clone(),
            targets: self.targets()?,
            connections: self.connections.number,
            streams: self.connections.streams,
            per_connection: self.connections.max_requests,
            threads: self.threads.number.min(self.connections.number),
            cpus: self.threads.cpus.clone(),
            link: self.connections.shared_link(),
            timeout: self.timing.timeout,
            warm_up: self.warm_up(&stages),
            stages,
            stop_on: self.stop_on.clone(),
            anyway: self.anyway,
            watch: self.watch.clone(),
        })
    }

    /// The stage before the first, which is like its beginning and is not counted.
    fn warm_up(&self, stages: &[LoadStage]) -> Option<LoadStage> {
        let first = stages.first().filter(|_| !self.timing.warm_up.is_zero())?;
        let shape = match &first.shape {
            Loop::Closed => Loop::Closed,
            Loop::Open(schedule) => Loop::Open(Schedule::Constant(schedule.initial_rate())),
        };
        Some(LoadStage {
            round: 0,
            name: "warm-up".to_owned(),
            shape,
            until: Until::Time(self.timing.warm_up),
        })
    }

    fn targets(&self) -> Result<Vec<LoadTarget>, OptionsError> {
        let mut peers: Vec<((UrlScheme, String, u16), Arc<RemotePeer>)> = Vec::new();
        let mut targets = Vec::new();
        for (index, written) in self.requests.urls.iter().enumerate() {
            let url = Url::parse(written)?;
            let key = (url.scheme, url.host.clone(), url.port);
            let is_web_socket = matches!(url.scheme, UrlScheme::Ws | UrlScheme::Wss);
            // Each WebSocket is of one target.
            let known = peers
                .iter()
                .find(|(other, _)| *other == key && !is_web_socket);
            let peer = match known {
                Some((_, peer)) => Arc::clone(peer),
                None => {
                    let peer = Arc::new(self.peer(&url)?);
                    peers.push((key, Arc::clone(&peer)));
                    peer
                }
            };
            targets.push(LoadTarget {
                written: written.clone(),
                weight: self.requests.weights.get(index).copied().unwrap_or(1),
                peer,
                request: self.requests.target_request(&url, &self.connections),
                expect: self.expect.clone(),
                first: Default::default(),
            });
        }
        Ok(targets)
    }

    /// The peer of `url`: its addresses and how connections to it are made.
    pub(crate) fn peer(&self, url: &Url) -> Result<RemotePeer, OptionsError> {
        let is_http2 = self.connections.streams.is_some();
        let connector = self.tls.connector(url.scheme, is_http2)?;
        self.connections.peer(url, connector)
    }
}
