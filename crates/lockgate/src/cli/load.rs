//! The words of `load`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lockgate_load::expect::{BodyCheck, Expect, Length};
use lockgate_load::options::{
    ConnectionOptions, LoadOptions, RequestOptions, ThreadOptions, TimingOptions, TlsOptions,
};
use lockgate_load::profile::{Profile, RequestRates, Spike, duration};
use lockgate_load::schedule::RequestRate;
use lockgate_load::shared_link::LinkRate;
use lockgate_load::target::{RequestBody, Varying};
use lockgate_net::proxy_protocol::HeaderVersion;
use lockgate_net::tls::{CaSource, CertFiles};
use lockgate_report::push::Gateway;
use lockgate_report::threshold::Threshold;

/// What `load` does, and where its reports go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) options: LoadOptions,
    /// What is done with them.
    pub(crate) what: What,
    /// What makes it fail.
    pub(crate) fail_if: Option<Threshold>,
    pub(crate) files: Files,
    /// Nothing is shown while it goes on.
    pub(crate) quiet: bool,
    /// Where counts are pushed meanwhile.
    pub(crate) push: Option<Gateway>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The URLs, again and again.
    Targets,
    /// A page with its objects (`--page`).
    Page,
}

/// Where reports go beside the text; `-` is stdout, instead of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Files {
    pub(crate) json: Option<PathBuf>,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) timeline: Option<PathBuf>,
    pub(crate) hdr: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
}

impl Files {
    /// # Errors
    /// Where two go to one place.
    fn check(&self) -> Result<(), String> {
        let all = [&self.json, &self.csv, &self.timeline, &self.hdr, &self.html];
        let mut paths: Vec<_> = all.into_iter().flatten().collect();
        paths.sort_unstable();
        match paths.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!(
                "{}: two reports cannot go to one place",
                pair[0].display()
            )),
            None => Ok(()),
        }
    }
}

#[derive(Args)]
pub(super) struct LoadTyped {
    /// What to ask for: http, https, ws, wss (messages that come back), tcp and tls (bytes that
    /// come back)
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Load the page at the URL with all objects of its origin, as a browser does, -n times
    #[arg(long, conflicts_with_all = NOT_OF_PAGES)]
    page: bool,
    /// Say with each request how soon it is wanted, as Chromium does (RFC 9218); with --page and
    /// --http2
    #[arg(long, requires_all = ["page", "http2"])]
    priorities: bool,
    /// Each URL's share of the requests, in their order: 3,1
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    weights: Vec<u32>,
    /// Connections at once, over all threads [default: 10; 6 with --page, 1 of HTTP/2]
    #[arg(short, long, value_name = "N", value_parser = at_least_one, help_heading = "How much")]
    connections: Option<usize>,
    /// Speak HTTP/2: agreed on by ALPN with https, known beforehand with http
    #[arg(long, help_heading = "How much")]
    http2: bool,
    /// Requests at once on each connection, with --http2 [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_one, requires = "http2", help_heading = "How much")]
    streams: Option<usize>,
    /// Make a unary call of gRPC with each request: the body is its message, and grpc-status must
    /// be 0
    #[arg(long, requires = "http2", conflicts_with_all = ["method", "body_random"], help_heading = "What is sent")]
    grpc: bool,
    /// How long, per stage: 10s, 500ms, 5m [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = lasting, help_heading = "How much")]
    duration: Option<Duration>,
    /// End after so many requests instead
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["duration", "step"], help_heading = "How much")]
    count: Option<u64>,
    /// Go through everything so many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one, help_heading = "How much")]
    rounds: usize,
    /// What is not counted at the beginning: 2s [default: 1s; none with -n]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "How much")]
    warm_up: Option<Duration>,
    /// Requests on one connection before it is closed [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "How much")]
    per_connection: Option<u64>,
    /// What one request may take, from when it was due; a whole load with --page [default: 10s;
    /// 60s with --page]
    #[arg(long, value_name = "TIME", value_parser = lasting, help_heading = "How much")]
    timeout: Option<Duration>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one, help_heading = "How much")]
    threads: usize,
    /// Pin each thread to one of these CPUs: 1 or 2,3
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        help_heading = "How much"
    )]
    cpus: Vec<usize>,

    /// Requests a second, due whatever the answers do (open loop): 1k, 60/min, a ramp 1k..25k
    #[arg(long, value_name = "RATE", help_heading = "Open loop")]
    rate: Option<RequestRates>,
    /// Make a ladder of the range, by steps of this rate
    #[arg(
        long,
        value_name = "RATE",
        requires = "rate",
        help_heading = "Open loop"
    )]
    step: Option<RequestRate>,
    /// How long each step lasts
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "step", help_heading = "Open loop")]
    every: Option<Duration>,
    /// How long the last step lasts instead
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "step", help_heading = "Open loop")]
    hold: Option<Duration>,
    /// Another rate for a while: 10k@5s+2s is 10k from 5 s on for 2 s
    #[arg(
        long,
        value_name = "RATE@AT+FOR",
        requires = "rate",
        help_heading = "Open loop"
    )]
    spike: Option<Spike>,

    /// The method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "NAME", help_heading = "What is sent")]
    method: Option<String>,
    /// A header field
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field, help_heading = "What is sent")]
    headers: Vec<(String, String)>,
    /// A header field with one of several values, drawn for each request
    #[arg(long, value_name = "NAME: A|B|C", value_parser = varying, help_heading = "What is sent")]
    header_any: Vec<Varying>,
    /// A body, or a message: this text
    #[arg(
        long,
        value_name = "TEXT",
        group = "what",
        help_heading = "What is sent"
    )]
    body: Option<String>,
    /// The bytes of a file
    #[arg(
        long,
        value_name = "FILE",
        group = "what",
        help_heading = "What is sent"
    )]
    body_file: Option<PathBuf>,
    /// So many bytes, always the same: 10KB
    #[arg(long, value_name = "SIZE", value_parser = size, group = "what", help_heading = "What is sent")]
    body_size: Option<usize>,
    /// So many random bytes, others for each request
    #[arg(long, value_name = "SIZE", value_parser = size, group = "what", help_heading = "What is sent")]
    body_random: Option<usize>,

    /// Statuses that are successes
    #[arg(long, value_name = "N,N-N", value_delimiter = ',', value_parser = statuses, default_value = "200-299", help_heading = "What must come back")]
    expect_status: Vec<RangeInclusive<u16>>,
    /// Bytes of a body, or `any` [default: as many as the first answer has; of bytes and messages:
    /// as many as were sent]
    #[arg(long, value_name = "N|any", value_parser = length, help_heading = "What must come back")]
    expect_length: Option<Length>,
    /// The hash of a body in hexadecimal, or `first`: that of the first answer
    #[arg(long, value_name = "HEX|first", value_parser = hash, help_heading = "What must come back")]
    expect_sha256: Option<BodyCheck>,
    /// Go on although the first answer was a failure
    #[arg(long, help_heading = "What must come back")]
    anyway: bool,
    /// End the run with the first answer of such a status
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(100..1000), help_heading = "What must come back")]
    stop_on: Vec<u16>,

    /// Connect to this Unix socket, whatever the URL says
    #[arg(long, value_name = "PATH", help_heading = "The way there")]
    unix: Option<PathBuf>,
    /// Connect through a CONNECT proxy: http://HOST:PORT
    #[arg(long, value_name = "URL", help_heading = "The way there")]
    proxy: Option<String>,
    /// USER:PASSWORD for it
    #[arg(long, value_name = "USER:PASSWORD", help_heading = "The way there")]
    proxy_user: Option<String>,
    /// Read as from a link of this rate, which all connections share: 1024kbit/s, 10Mbit/s,
    /// 128kB/s
    #[arg(long, value_name = "RATE", help_heading = "The way there")]
    link: Option<LinkRate>,
    /// Begin connections with a PROXY header: v1 or v2
    #[arg(long, value_name = "v1|v2", value_parser = proxy_version, help_heading = "The way there")]
    proxy_protocol: Option<HeaderVersion>,

    /// Take any certificate
    #[arg(long, conflicts_with = "ca", help_heading = "TLS")]
    insecure: bool,
    /// Trust the signers in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    ca: Option<PathBuf>,
    /// The name for SNI and for the certificate [default: the host of the URL]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    sni: Option<String>,
    /// 1.2, 1.3 or both
    #[arg(long, value_name = "N,N", value_delimiter = ',', help_heading = "TLS")]
    tls: Vec<String>,
    /// Cipher suites by their names, the preferred one first
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
    /// Show this certificate (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    cert: Option<PathBuf>,
    /// Its key, where it is not in the same file
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    key: Option<PathBuf>,

    /// Read CPU time and memory of a process and its descendants beside: NAME=PID
    #[arg(long, value_name = "NAME=PID", value_parser = watched, help_heading = "What is told")]
    watch: Vec<(String, u32)>,
    /// Show nothing while it goes on: no block on a terminal, no line a second elsewhere
    #[arg(short, long, help_heading = "What is told")]
    quiet: bool,
    /// Push counts to a Prometheus push gateway, at every stage's beginning, every 10 s and at the
    /// end, and leave the last there: http://HOST:PORT[/PREFIX]
    #[arg(long, value_name = "URL", help_heading = "What is told")]
    push: Option<String>,
    /// The job's name at the gateway, where a run replaces the last one of the same name
    #[arg(
        long,
        value_name = "NAME",
        requires = "push",
        default_value = "lockgate_load",
        help_heading = "What is told"
    )]
    push_job: String,
    /// Exit with 3 where this holds of a stage: 'p99 > 20ms or errors > 0'
    #[arg(long, value_name = "CONDITION", value_parser = Threshold::parse, help_heading = "What is told")]
    fail_if: Option<Threshold>,
    /// Write everything as JSON; `-` is stdout, instead of the text
    #[arg(long, value_name = "FILE", help_heading = "What is told")]
    json: Option<PathBuf>,
    /// Write one line a stage as CSV
    #[arg(long, value_name = "FILE", help_heading = "What is told")]
    csv: Option<PathBuf>,
    /// Write one line a second as CSV
    #[arg(long, value_name = "FILE", help_heading = "What is told")]
    timeline: Option<PathBuf>,
    /// Write latency as an HDR log, for HdrHistogram's own tools
    #[arg(long, value_name = "FILE", help_heading = "What is told")]
    hdr: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE", help_heading = "What is told")]
    html: Option<PathBuf>,
}

/// What a page has no use for: it is asked for as it is, by one thread, one load after the other.
const NOT_OF_PAGES: [&str; 33] = [
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
    "push",
    "push_job",
    "fail_if",
    "csv",
    "timeline",
    "hdr",
    "html",
    "no_resumption",
];

/// What is sent where something must be and nothing was said: messages and bytes that come back.
const ECHOED: usize = 64;

impl LoadTyped {
    /// # Errors
    /// A file that cannot be read, two reports to one place.
    pub(super) fn resolve(self) -> Result<Load, String> {
        let echoes = self
            .urls
            .iter()
            .all(|url| !url.to_ascii_lowercase().starts_with("http"));
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
            command: std::env::args().skip(1).collect(),
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
            watch: self.watch,
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
        let files = Files {
            json,
            csv,
            timeline,
            hdr,
            html,
        };
        files.check()?;
        let what = if self.page { What::Page } else { What::Targets };
        Ok(Load {
            options,
            what,
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

fn at_least_one(written: &str) -> Result<usize, String> {
    match written.parse() {
        Ok(number) if (1..=1_000_000).contains(&number) => Ok(number),
        _ => Err("write a number from 1 to 1000000".into()),
    }
}

fn time(written: &str) -> Result<Duration, String> {
    if written == "0" {
        Ok(Duration::ZERO)
    } else {
        duration(written).map_err(|error| error.to_string())
    }
}

fn lasting(written: &str) -> Result<Duration, String> {
    match duration(written) {
        Ok(Duration::ZERO) => Err("no time at all is too short: write 10s, 500ms".into()),
        read => read.map_err(|error| error.to_string()),
    }
}

fn field(written: &str) -> Result<(String, String), String> {
    match written.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err("write NAME: VALUE".into()),
    }
}

fn varying(written: &str) -> Result<Varying, String> {
    let (name, values) = field(written)?;
    Ok(Varying {
        name,
        values: values
            .split('|')
            .map(|value| value.trim().to_owned())
            .collect(),
    })
}

fn size(written: &str) -> Result<usize, String> {
    let end = written
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(written.len());
    let (number, unit) = written.split_at(end);
    let scale = match unit {
        "" | "B" => 1,
        "KB" | "k" | "K" => 1_000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => 0,
    };
    match number
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
    {
        Some(bytes) if scale > 0 && bytes <= 1 << 30 => Ok(bytes),
        _ => Err("write a number of bytes up to 1 GB: 100, 10KB, 1MB, 64KiB".into()),
    }
}

fn statuses(written: &str) -> Result<RangeInclusive<u16>, String> {
    let number = |text: &str| {
        text.parse::<u16>()
            .ok()
            .filter(|status| (100..=999).contains(status))
    };
    let range = match written.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(written).map(|status| (status, status)),
    };
    match range {
        Some((from, to)) if from <= to => Ok(from..=to),
        _ => Err("write statuses: 200 or 200-299".into()),
    }
}

fn length(written: &str) -> Result<Length, String> {
    match written {
        "any" => Ok(Length::Any),
        number => number
            .parse()
            .map(Length::Exactly)
            .map_err(|_| "write a number of bytes, or any".into()),
    }
}

fn hash(written: &str) -> Result<BodyCheck, String> {
    if written == "first" {
        return Ok(BodyCheck::First);
    }
    let digit = |at: usize| {
        written
            .as_bytes()
            .get(at)
            .and_then(|digit| char::from(*digit).to_digit(16))
    };
    let bytes: Option<Vec<u8>> = (0..32)
        .map(|at| Some((digit(2 * at)? * 16 + digit(2 * at + 1)?) as u8))
        .collect();
    match bytes.and_then(|bytes| bytes.try_into().ok()) {
        Some(hash) if written.len() == 64 => Ok(BodyCheck::Sha256(hash)),
        _ => Err("write 64 hexadecimal digits, or first".into()),
    }
}

fn proxy_version(written: &str) -> Result<HeaderVersion, String> {
    match written {
        "v1" => Ok(HeaderVersion::V1),
        "v2" => Ok(HeaderVersion::V2),
        _ => Err("write v1 or v2".into()),
    }
}

fn watched(written: &str) -> Result<(String, u32), String> {
    let parts = written
        .split_once('=')
        .and_then(|(name, pid)| Some((name.to_owned(), pid.parse().ok()?)));
    parts
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| "write NAME=PID: nginx=1234".into())
}

#[cfg(test)]
mod tests;
