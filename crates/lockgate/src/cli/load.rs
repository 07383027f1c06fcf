//! The arguments of `load`.

mod values;

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lockgate_load::expect::{BodyCheck, Expect, Length};
use lockgate_load::options::{
    ConnectionOptions, HostAddresses, LoadOptions, RequestOptions, ThreadOptions, TimingOptions,
    TlsOptions,
};
use lockgate_load::plan::WatchedProcess;
use lockgate_load::process_tree::TopProcess;
use lockgate_load::profile::{Profile, RequestRates, Spike, duration};
use lockgate_load::schedule::RequestRate;
use lockgate_load::shared_link::LinkRate;
use lockgate_load::target::{RequestBody, Varying};
use lockgate_net::proxy_protocol::HeaderVersion;
use lockgate_net::tls::{CaSource, CertFiles};
use lockgate_report::push::Gateway;
use lockgate_report::threshold::Threshold;

use values::{
    at_least_one, field, hash, host_addresses, length, positive_time, proxy_version, size,
    statuses, time, varying, watched,
};

/// The run that `load` makes, and its reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadRun {
    pub(crate) options: LoadOptions,
    pub(crate) kind: LoadKind,
    /// The condition that fails the command.
    pub(crate) fail_if: Option<Threshold>,
    pub(crate) files: ReportFiles,
    /// Whether nothing is shown while the run goes on.
    pub(crate) quiet: bool,
    /// The push gateway that gets the counts during the run.
    pub(crate) push: Option<Gateway>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadKind {
    /// Requests for the URLs, in turn.
    Targets,
    /// Loads of a page with its objects (`--page`).
    Page,
}

/// The files of the reports beside the text; `-` is stdout, instead of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReportFiles {
    pub(crate) json: Option<PathBuf>,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) timeline: Option<PathBuf>,
    pub(crate) hdr: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
}

impl ReportFiles {
    /// # Errors
    /// When two reports have the same file.
    fn check(&self) -> Result<(), String> {
        let all = [&self.json, &self.csv, &self.timeline, &self.hdr, &self.html];
        let mut paths: Vec<_> = all.into_iter().flatten().collect();
        paths.sort_unstable();
        match paths.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!(
                "{}: two reports cannot go to the same file",
                pair[0].display()
            )),
            None => Ok(()),
        }
    }
}

#[derive(Args)]
pub(super) struct LoadArgs {
    /// URLs to request: http, https; ws, wss (echoed messages); tcp, tls (echoed bytes)
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Load the page at the URL with all objects of its origin, as a browser does; -n times
    #[arg(long, conflicts_with_all = NOT_FOR_PAGES)]
    page: bool,
    /// Send the priority of each request, as Chromium does (RFC 9218); with --page and --http2
    #[arg(long, requires_all = ["page", "http2"])]
    priorities: bool,
    /// The share of requests for each URL, in the order of the URLs: 3,1
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    weights: Vec<u32>,
    /// Concurrent connections, over all threads [default: 10; with --page 6, or 1 of HTTP/2]
    #[arg(short, long, value_name = "N", value_parser = at_least_one, help_heading = "Amount of load")]
    connections: Option<usize>,
    /// Use HTTP/2: by ALPN with https, by prior knowledge with http
    #[arg(long, help_heading = "Amount of load")]
    http2: bool,
    /// Concurrent requests on each connection, with --http2 [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_one, requires = "http2", help_heading = "Amount of load")]
    streams: Option<usize>,
    /// Make each request a unary gRPC call: the body is its message, and grpc-status must be 0
    #[arg(long, requires = "http2", conflicts_with_all = ["method", "body_random"], help_heading = "Request")]
    grpc: bool,
    /// Duration of each stage: 10s, 500ms, 5m [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = positive_time, help_heading = "Amount of load")]
    duration: Option<Duration>,
    /// End after this many requests instead
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["duration", "step"], help_heading = "Amount of load")]
    count: Option<u64>,
    /// Run all stages this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one, help_heading = "Amount of load")]
    rounds: usize,
    /// Time at the beginning that is not counted: 2s [default: 1s; none with -n]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Amount of load")]
    warm_up: Option<Duration>,
    /// Requests on one connection before it is closed [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Amount of load")]
    per_connection: Option<u64>,
    /// Time limit of a request, from its due time; with --page of a whole load [default: 10s; 60s
    /// with --page]
    #[arg(long, value_name = "TIME", value_parser = positive_time, help_heading = "Amount of load")]
    timeout: Option<Duration>,
    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one, help_heading = "Amount of load")]
    threads: usize,
    /// Pin each thread to one of these CPUs: 1 or 2,3
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        help_heading = "Amount of load"
    )]
    cpus: Vec<usize>,

    /// Requests per second, sent on schedule even when responses are late (open loop): 1k, 60/min,
    /// a ramp 1k..25k
    #[arg(long, value_name = "RATE", help_heading = "Open loop")]
    rate: Option<RequestRates>,
    /// Go through the range in steps of this rate
    #[arg(
        long,
        value_name = "RATE",
        requires = "rate",
        help_heading = "Open loop"
    )]
    step: Option<RequestRate>,
    /// Duration of each step
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "step", help_heading = "Open loop")]
    every: Option<Duration>,
    /// Duration of the last step instead
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "step", help_heading = "Open loop")]
    hold: Option<Duration>,
    /// Another rate for a time: 10k@5s+2s is 10k for 2 s, from second 5 on
    #[arg(
        long,
        value_name = "RATE@AT+FOR",
        requires = "rate",
        help_heading = "Open loop"
    )]
    spike: Option<Spike>,

    /// The request method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "NAME", help_heading = "Request")]
    method: Option<String>,
    /// A header field
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field, help_heading = "Request")]
    headers: Vec<(String, String)>,
    /// A header field with one of several values, chosen at random for each request
    #[arg(long, value_name = "NAME: A|B|C", value_parser = varying, help_heading = "Request")]
    header_any: Vec<Varying>,
    /// The text of the body or message
    #[arg(long, value_name = "TEXT", group = "what", help_heading = "Request")]
    body: Option<String>,
    /// A file with the body or message
    #[arg(long, value_name = "FILE", group = "what", help_heading = "Request")]
    body_file: Option<PathBuf>,
    /// A body of this many bytes, the same in each request: 10KB
    #[arg(long, value_name = "SIZE", value_parser = size, group = "what", help_heading = "Request")]
    body_size: Option<usize>,
    /// A body of this many random bytes, different in each request
    #[arg(long, value_name = "SIZE", value_parser = size, group = "what", help_heading = "Request")]
    body_random: Option<usize>,

    /// Statuses that count as success
    #[arg(long, value_name = "N,N-N", value_delimiter = ',', value_parser = statuses, default_value = "200-299", help_heading = "Expected response")]
    expect_status: Vec<RangeInclusive<u16>>,
    /// The length of the body in bytes, or `any` [default: that of the first response; of messages
    /// and bytes, that of the request]
    #[arg(long, value_name = "N|any", value_parser = length, help_heading = "Expected response")]
    expect_length: Option<Length>,
    /// The SHA-256 of the body in hexadecimal, or `first` for that of the first response
    #[arg(long, value_name = "HEX|first", value_parser = hash, help_heading = "Expected response")]
    expect_sha256: Option<BodyCheck>,
    /// Go on even if the first response is a failure
    #[arg(long, help_heading = "Expected response")]
    anyway: bool,
    /// End the run with the first response of one of these statuses
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(100..1000), help_heading = "Expected response")]
    stop_on: Vec<u16>,

    /// Connect to this Unix socket instead of the URL's host
    #[arg(long, value_name = "PATH", help_heading = "Connection")]
    unix: Option<PathBuf>,
    /// Connect to these addresses for a host and port, instead of those of its name
    #[arg(long, value_name = "HOST:PORT:ADDRESS,…", value_parser = host_addresses, conflicts_with = "unix", help_heading = "Connection")]
    resolve: Vec<HostAddresses>,
    /// Connect from these addresses of this machine in turn
    #[arg(
        long,
        value_name = "ADDRESS,ADDRESS",
        value_delimiter = ',',
        conflicts_with = "unix",
        help_heading = "Connection"
    )]
    bind: Vec<IpAddr>,
    /// Connect through a CONNECT proxy: http://HOST:PORT
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    proxy: Option<String>,
    /// The user and password for the proxy
    #[arg(long, value_name = "USER:PASSWORD", help_heading = "Connection")]
    proxy_user: Option<String>,
    /// Receive as over a link of this rate, which all connections share: 1024kbit/s, 10Mbit/s,
    /// 128kB/s
    #[arg(long, value_name = "RATE", help_heading = "Connection")]
    link: Option<LinkRate>,
    /// Send a PROXY header at the beginning of each connection: v1 or v2
    #[arg(long, value_name = "v1|v2", value_parser = proxy_version, help_heading = "Connection")]
    proxy_protocol: Option<HeaderVersion>,

    /// Accept any certificate
    #[arg(long, conflicts_with = "ca", help_heading = "TLS")]
    insecure: bool,
    /// Trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    ca: Option<PathBuf>,
    /// The name for SNI and for the check of the certificate [default: the host of the URL]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    sni: Option<String>,
    /// TLS versions: 1.2, 1.3 or both
    #[arg(long, value_name = "N,N", value_delimiter = ',', help_heading = "TLS")]
    tls: Vec<String>,
    /// Cipher suites, the preferred one first
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        help_heading = "TLS"
    )]
    suites: Vec<String>,
    /// Key exchange groups, the preferred one first
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        help_heading = "TLS"
    )]
    groups: Vec<String>,
    /// Make a full handshake for every connection
    #[arg(long, help_heading = "TLS")]
    no_resumption: bool,
    /// The client certificate (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    cert: Option<PathBuf>,
    /// The key of the client certificate, if it is in another file
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    key: Option<PathBuf>,

    /// Also measure the CPU time and memory of a process and its descendants: NAME=PID
    #[arg(long, value_name = "NAME=PID", value_parser = watched, help_heading = "Reports")]
    watch: Vec<(String, u32)>,
    /// The same without the process itself, which is a supervisor or a shell: NAME=PID
    #[arg(long, value_name = "NAME=PID", value_parser = watched, help_heading = "Reports")]
    watch_below: Vec<(String, u32)>,
    /// Show no progress: no live view on a terminal, no line a second elsewhere
    #[arg(short, long, help_heading = "Reports")]
    quiet: bool,
    /// Push counts to a Prometheus push gateway at the beginning of each stage, every 10 s and at
    /// the end; the last ones stay there: http://HOST:PORT[/PREFIX]
    #[arg(long, value_name = "URL", help_heading = "Reports")]
    push: Option<String>,
    /// The name of the job at the gateway; a run replaces the last one with the same name
    #[arg(
        long,
        value_name = "NAME",
        requires = "push",
        default_value = "lockgate_load",
        help_heading = "Reports"
    )]
    push_job: String,
    /// Exit with 3 if this holds for a stage: 'p99 > 20ms or errors > 0'
    #[arg(long, value_name = "CONDITION", value_parser = Threshold::parse, help_heading = "Reports")]
    fail_if: Option<Threshold>,
    /// Write the whole report as JSON; `-` is stdout, instead of the text
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    json: Option<PathBuf>,
    /// Write one line per stage as CSV
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    csv: Option<PathBuf>,
    /// Write one line per second as CSV
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    timeline: Option<PathBuf>,
    /// Write the latencies as an HDR log, for the tools of HdrHistogram
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    hdr: Option<PathBuf>,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    html: Option<PathBuf>,
}

/// Options without a meaning for `--page`: one thread loads the page as it is, one load after the
/// other.
const NOT_FOR_PAGES: [&str; 34] = [
    "weights",
    "grpc",
    "streams",
    "duration",
    "rounds",
    "warm_up",
    "per_connection",
    "threads",
    "cpus",
    "rate",
    "step",
    "every",
    "hold",
    "spike",
    "method",
    "header_any",
    "body",
    "body_file",
    "body_size",
    "body_random",
    "expect_length",
    "expect_sha256",
    "anyway",
    "stop_on",
    "watch",
    "watch_below",
    "push",
    "push_job",
    "fail_if",
    "csv",
    "timeline",
    "hdr",
    "html",
    "no_resumption",
];

/// The length of messages and of bytes to be echoed, where no option sets one.
const ECHOED: usize = 64;

impl LoadArgs {
    /// # Errors
    /// A file that cannot be read, two reports with the same file.
    pub(super) fn resolve(self) -> Result<LoadRun, String> {
        let echoes = self
            .urls
            .iter()
            .all(|url| !url.to_ascii_lowercase().starts_with("http"));
        let watched = |programs: Vec<(String, u32)>, top| {
            let each = move |(name, pid)| WatchedProcess { name, pid, top };
            programs.into_iter().map(each)
        };
        let watch = watched(self.watch.clone(), TopProcess::Counted)
            .chain(watched(self.watch_below.clone(), TopProcess::Guard))
            .collect();
        let body = self
            .body()?
            .unwrap_or_else(|| pattern(if echoes { ECHOED } else { 0 }));
        let profile = self.rate.map(|rates| Profile {
            rates,
            step: self.step,
            every: self.every,
            hold: self.hold,
            spike: self.spike,
            duration: self.duration,
        });
        let usual_warm_up = if self.count.is_some() {
            Duration::ZERO
        } else {
            Duration::from_secs(1)
        };
        let length = self.expect_length.unwrap_or(if echoes {
            Length::Exactly(body.len() as u64)
        } else {
            Length::First
        });
        let options = LoadOptions {
            command: ["lockgate".to_owned()]
                .into_iter()
                .chain(std::env::args().skip(1))
                .collect(),
            requests: RequestOptions {
                urls: self.urls,
                weights: self.weights,
                method: self.method,
                headers: self.headers,
                varying: self.header_any,
                body,
                grpc: self.grpc,
                priorities: self.priorities,
            },
            connections: ConnectionOptions {
                number: self.connections.unwrap_or(match (self.page, self.http2) {
                    (true, true) => 1,
                    (true, false) => 6,
                    (false, _) => 10,
                }),
                streams: self.http2.then(|| self.streams.unwrap_or(1)),
                max_requests: self.per_connection,
                unix: self.unix,
                resolve: self.resolve,
                bind: self.bind,
                proxy: self.proxy,
                proxy_user: self.proxy_user,
                proxy_protocol: self.proxy_protocol,
                link: self.link,
            },
            timing: TimingOptions {
                profile,
                duration: self.duration,
                count: self.count,
                rounds: self.rounds,
                warm_up: self.warm_up.unwrap_or(usual_warm_up),
                timeout: self.timeout.unwrap_or(Duration::from_secs(if self.page {
                    60
                } else {
                    10
                })),
            },
            tls: TlsOptions {
                ca: match (self.insecure, self.ca) {
                    (true, _) => CaSource::Anyone,
                    (false, Some(path)) => CaSource::File(path),
                    (false, None) => CaSource::System,
                },
                name: self.sni,
                versions: self.tls,
                suites: self.suites,
                groups: self.groups,
                resume: !self.no_resumption,
                identity: self.cert.map(|cert| CertFiles {
                    cert,
                    key: self.key,
                    ocsp: None,
                }),
            },
            expect: Expect {
                status: self.expect_status,
                length,
                body: self.expect_sha256.unwrap_or(BodyCheck::Any),
            },
            stop_on: self.stop_on,
            anyway: self.anyway,
            threads: ThreadOptions {
                number: self.threads,
                cpus: self.cpus,
            },
            watch,
        };
        let push = self
            .push
            .map(|url| Gateway::new(&url, &self.push_job))
            .transpose();
        let push = push.map_err(|error| error.to_string())?;
        let Self {
            json,
            csv,
            timeline,
            hdr,
            html,
            ..
        } = self;
        let files = ReportFiles {
            json,
            csv,
            timeline,
            hdr,
            html,
        };
        files.check()?;
        let kind = if self.page {
            LoadKind::Page
        } else {
            LoadKind::Targets
        };
        Ok(LoadRun {
            options,
            kind,
            fail_if: self.fail_if,
            files,
            quiet: self.quiet,
            push,
        })
    }

    fn body(&self) -> Result<Option<RequestBody>, String> {
        if let Some(path) = &self.body_file {
            let bytes =
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            return Ok(Some(RequestBody::Fixed(bytes.into())));
        }
        let text = self
            .body
            .as_ref()
            .map(|text| RequestBody::Fixed(text.as_bytes().into()));
        Ok(text
            .or(self.body_size.map(pattern))
            .or(self.body_random.map(RequestBody::Random)))
    }
}

/// Bytes that are text, and differ from one place to the next.
fn pattern(length: usize) -> RequestBody {
    let bytes: Arc<[u8]> = (b'a'..=b'z').cycle().take(length).collect();
    RequestBody::Fixed(bytes)
}

#[cfg(test)]
mod tests;
