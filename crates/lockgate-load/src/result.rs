//! Results of a run, before they are reported.
//!
//! Successes and failures are never in one number: a histogram that holds both says nothing about
//! either.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

use crate::cpu_times::CpuTime;

/// Results of a whole run.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Options of the run, for reports.
    pub run: RunDescription,
    /// When its first stage began.
    pub began: SystemTime,
    /// The first response of each target, which the others are compared with.
    pub first: Vec<FirstResponse>,
    /// Stages in their order, without the warm-up.
    pub stages: Vec<StageResult>,
    /// Requests before the first stage, which are in none: the first of each target, and the
    /// warm-up.
    pub uncounted: u64,
    /// How the run ended: as planned or early.
    pub end: RunEnd,
}

/// Options of the run that reports show.
#[derive(Debug, Clone)]
pub struct RunDescription {
    /// Words of the command line.
    pub command: Vec<String>,
    /// URLs of the targets, as written.
    pub targets: Vec<String>,
    /// Whether the loop is closed or open.
    pub model: LoadModel,
    /// Connections at once, over all threads.
    pub connections: usize,
    /// Streams of each of them at once, where HTTP/2 is spoken.
    pub streams: Option<usize>,
    /// Number of threads of the generator.
    pub threads: usize,
    /// CPUs that they are pinned to.
    pub cpus: Vec<usize>,
    /// Timeout of one exchange, from its due time.
    pub timeout: Duration,
}

/// Trigger of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadModel {
    /// The response to the request before it, on the same connection: a slow server gets fewer
    /// requests.
    Closed,
    /// A schedule: latency counts from when the request was due.
    Open,
}

/// The first response of a target.
#[derive(Debug, Clone)]
pub struct FirstResponse {
    /// URL of the target, as written.
    pub target: String,
    /// HTTP status, where HTTP is spoken.
    pub status: Option<u16>,
    /// Length of the body in bytes.
    pub length: u64,
    /// Protocol: `HTTP/1.1`, `HTTP/2`, `gRPC`, `WebSocket`, `bytes`.
    pub protocol: &'static str,
    /// The server's limit of concurrent streams on an HTTP/2 connection, if it has sent one.
    pub streams: Option<usize>,
    /// Version and suite of TLS.
    pub tls: Option<String>,
}

/// End of a run, as planned or early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// The run ended as planned.
    Complete,
    /// A signal ended it: Ctrl-C or TERM.
    Interrupted,
    /// A response had a status of `--stop-on`.
    Stopped(u16),
}

/// Results of one stage: a rate of a ladder, a round.
#[derive(Debug, Clone)]
pub struct StageResult {
    /// Round of the stage, from 1 on.
    pub round: usize,
    /// Due requests a second, where the rate is constant: not in a closed loop, a ramp or a spike.
    pub rate: Option<f64>,
    /// Name in reports: `3000/s`, `1000/s to 5000/s`, `closed loop`.
    pub name: String,
    /// Duration that its rate counts by: the stage's time, or the time until the last response
    /// where a count ended it.
    pub elapsed: Duration,
    /// Counts of its requests and connections.
    pub counts: StageCounts,
    /// Counts of each target, in the order of the options; empty where there is one target.
    pub targets: Vec<TargetCounts>,
    /// The same by seconds, by the end of exchanges; those that end after the stage's time are in
    /// no second.
    pub seconds: Vec<Second>,
    /// CPU time of the generator.
    pub generator: Generator,
    /// Watched programs, in the order of the options.
    pub watched: Vec<Watched>,
    /// CPU time of each CPU of the machine, of all processes.
    pub cpus: Vec<CpuTime>,
    /// Reasons why its figures are not the target's; empty for a valid stage.
    pub invalid: Vec<Invalid>,
    /// Notes for the reader that leave the stage valid, such as that the link was the bottleneck.
    pub notes: Vec<String>,
}

/// A reason why figures are not those of the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The bottleneck instead of the target.
    pub limit: Bottleneck,
    /// Explanation for people, with the measured figures.
    pub text: String,
}

/// Bottleneck of a run other than its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// The generator had no CPU time left: rate and latency are its own. The CPU time of the target
    /// for each response is still the target's.
    Generator,
    /// The generator was late, although a connection was free.
    Lateness,
    /// A network interface had no room left.
    Link,
}

impl Bottleneck {
    /// The bottleneck's name in reports and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Lateness => "lateness",
            Self::Link => "link",
        }
    }
}

/// Histogram of nanoseconds, right to three digits.
pub type NanosecondHistogram = Histogram<u64>;

/// Counts of the requests and connections of a stage.
#[derive(Debug, Clone)]
pub struct StageCounts {
    /// Latency of successes, from when they were due; in a closed loop from when a client was free,
    /// so that connecting is part of it.
    pub latency: NanosecondHistogram,
    /// Service time of successes, from when a client took their tickets; connecting is part of it.
    /// Empty in a closed loop, where it equals the latency.
    pub service: NanosecondHistogram,
    /// Latency of failures, from when they were due.
    pub failed: NanosecondHistogram,
    /// Lateness of the generator, where a connection was free when a request was due.
    pub lateness: NanosecondHistogram,
    /// Time to open connections, TLS included.
    pub connect: NanosecondHistogram,
    /// Time of TLS handshakes, a part of `connect`.
    pub tls: NanosecondHistogram,
    /// Time from when a request was sent to the first byte of its response, of successes.
    pub first_byte: NanosecondHistogram,
    /// Failures of each kind, by [`FailureKind`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// Of these, connections that failed on this side: no descriptors, ports or memory.
    pub exhausted: u64,
    /// Text of the first failure of each kind.
    pub examples: [Option<String>; FailureKind::ALL.len()],
    /// Responses of each status, successes and failures.
    pub statuses: BTreeMap<u16, u64>,
    /// Connections that were opened in this stage.
    pub opened: u64,
    /// Opened connections that resumed a TLS session.
    pub resumed: u64,
    /// Exchanges on connections that were used before.
    pub reused: u64,
    /// Requests that were sent again, because the server had not processed them (RFC 9113 §8.7):
    /// neither successes nor failures by that.
    pub retried: u64,
    /// Bytes of messages sent, heads included, before TLS. PROXY headers and CONNECT requests do
    /// not count.
    pub sent: u64,
    /// Bytes of messages received, likewise.
    pub received: u64,
    /// Successes that came after the end of the stage's time, to requests from within it: no part
    /// of its rate.
    pub late: u64,
    /// Bytes sent and received by exchanges that ended after the stage's time: no part of its
    /// rates.
    pub late_sent: u64,
    /// Bytes received after the stage's time, see `late_sent`.
    pub late_received: u64,
    /// Requests that were due or under way when the run was ended early: neither successes nor
    /// failures.
    pub cut: u64,
}

impl StageCounts {
    /// Counts of an empty stage.
    pub fn new() -> Self {
        Self {
            latency: histogram(),
            service: histogram(),
            failed: histogram(),
            lateness: histogram(),
            connect: histogram(),
            tls: histogram(),
            first_byte: histogram(),
            failures: [0; FailureKind::ALL.len()],
            exhausted: 0,
            examples: Default::default(),
            statuses: BTreeMap::new(),
            opened: 0,
            resumed: 0,
            reused: 0,
            retried: 0,
            sent: 0,
            received: 0,
            late: 0,
            late_sent: 0,
            late_received: 0,
            cut: 0,
        }
    }

    /// Number of exchanges that met the expectations.
    pub fn succeeded(&self) -> u64 {
        self.latency.len()
    }

    /// Number of failed exchanges, of all kinds.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Adds the counts of another thread or second.
    pub fn add(&mut self, other: &Self) {
        let histograms = [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.failed, &other.failed),
            (&mut self.lateness, &other.lateness),
            (&mut self.connect, &other.connect),
            (&mut self.tls, &other.tls),
            (&mut self.first_byte, &other.first_byte),
        ];
        for (sum, more) in histograms {
            // Histograms of one precision that can grow always add up.
            let _ = sum.add(more);
        }
        for (sum, more) in self.failures.iter_mut().zip(other.failures) {
            *sum += more;
        }
        self.exhausted += other.exhausted;
        for (kept, example) in self.examples.iter_mut().zip(&other.examples) {
            if kept.is_none() {
                kept.clone_from(example);
            }
        }
        for (status, more) in &other.statuses {
            *self.statuses.entry(*status).or_default() += more;
        }
        self.opened += other.opened;
        self.resumed += other.resumed;
        self.reused += other.reused;
        self.retried += other.retried;
        self.sent += other.sent;
        self.received += other.received;
        self.late += other.late;
        self.late_sent += other.late_sent;
        self.late_received += other.late_received;
        self.cut += other.cut;
    }
}

impl Default for StageCounts {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts of the requests to one target in a stage. Requests that were never sent have no target.
#[derive(Debug, Clone)]
pub struct TargetCounts {
    /// Latency of successes, from when they were due.
    pub latency: NanosecondHistogram,
    /// Failures of each kind, by [`FailureKind`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// Sum of the latencies of its successes and failures.
    pub time: Duration,
}

impl TargetCounts {
    /// Counts without a request.
    pub fn new() -> Self {
        Self {
            latency: histogram(),
            failures: [0; FailureKind::ALL.len()],
            time: Duration::ZERO,
        }
    }

    /// Number of failed requests, of all kinds.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        // Histograms of one precision that can grow always add up.
        let _ = self.latency.add(&other.latency);
        for (sum, more) in self.failures.iter_mut().zip(other.failures) {
            *sum += more;
        }
        self.time += other.time;
    }
}

impl Default for TargetCounts {
    fn default() -> Self {
        Self::new()
    }
}

fn histogram() -> NanosecondHistogram {
    let mut histogram =
        Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("three digits are allowed");
    histogram.auto(true);
    histogram
}

/// Kind of a failed exchange: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// The connection failed: refused, unreachable, no descriptors.
    Connect,
    /// A CONNECT proxy refused the tunnel.
    Proxy,
    /// The TLS handshake failed, or a record was invalid.
    Tls,
    /// The timeout passed, from when the request was due.
    Timeout,
    /// No connection was free before the timeout.
    Unsent,
    /// The connection ended before the response was whole.
    Closed,
    /// The server reset the stream of HTTP/2 that the request was on.
    Reset,
    /// The server refused the stream, and did not process the request.
    Refused,
    /// The server ended the HTTP/2 connection for an error, or twice before it processed the
    /// request.
    Goaway,
    /// The bytes received are no response.
    Garbage,
    /// The response has an unexpected status.
    Status,
    /// The gRPC call has another status than 0.
    Grpc,
    /// The body is shorter or longer than expected.
    Length,
    /// The body has the right length and other bytes.
    Body,
}

impl FailureKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 14] = [
        Self::Connect,
        Self::Proxy,
        Self::Tls,
        Self::Timeout,
        Self::Unsent,
        Self::Closed,
        Self::Reset,
        Self::Refused,
        Self::Goaway,
        Self::Garbage,
        Self::Status,
        Self::Grpc,
        Self::Length,
        Self::Body,
    ];

    /// The kind's name in reports and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Unsent => "unsent",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::Refused => "refused",
            Self::Goaway => "goaway",
            Self::Garbage => "garbage",
            Self::Status => "status",
            Self::Grpc => "grpc",
            Self::Length => "length",
            Self::Body => "body",
        }
    }
}

/// One second of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Second {
    /// Length: a second, or less for the last one of a stage.
    pub length: Duration,
    /// Exchanges that succeeded in this second.
    pub succeeded: u64,
    /// Exchanges that failed in this second.
    pub failed: u64,
    /// Bytes received in this second.
    pub received: u64,
    /// Median latency of successes in nanoseconds; 0 without a success, as the next two.
    pub p50: u64,
    /// 99th percentile of their latency.
    pub p99: u64,
    /// The longest of their latencies.
    pub max: u64,
}

/// CPU time of the generator during a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    /// CPU time in user mode, all threads.
    pub user: Duration,
    /// CPU time in the kernel, all threads.
    pub system: Duration,
    /// Share of one CPU that the busiest thread used or waited for, 0 to 1, within the stage's
    /// time.
    pub busiest: f64,
    /// Largest share of the time that a thread was ready to run and had no CPU.
    pub waited: f64,
}

/// CPU time and memory of a watched program with its descendants during a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// The name that the options give it.
    pub name: String,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// What the CPU time was read from.
    pub source: CpuSource,
    /// CPUs that its threads might run on at the end of the stage; empty where they are not known.
    pub allowed_cpus: Vec<usize>,
    /// Proportional set size in bytes before the first connection, where it can be read.
    pub before: Option<u64>,
    /// Peak of the proportional set size during the stage, read 4 times a second.
    pub peak: Option<u64>,
}

/// Source of a program's CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuSource {
    /// The control group that holds the program alone: the time of all its processes.
    Cgroup,
    /// The processes in /proc: without the time of ended children that were never waited for.
    Processes,
}

impl CpuSource {
    /// The source's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Processes => "processes",
        }
    }
}
