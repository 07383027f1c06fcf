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
    /// Options of the run that reports show.
    pub run: RunDescription,
    /// When its first stage began.
    pub began: SystemTime,
    /// The first response of each target, which the others are held against.
    pub first: Vec<FirstResponse>,
    /// Its stages in their order; warm-up is none.
    pub stages: Vec<StageResult>,
    /// Requests that were made before the first stage and are in none: the first of each target,
    /// and the warm-up.
    pub uncounted: u64,
    /// How it ended.
    pub end: RunEnd,
}

/// Options of the run that reports show.
#[derive(Debug, Clone)]
pub struct RunDescription {
    /// The words of the command line.
    pub command: Vec<String>,
    /// Targets as written.
    pub targets: Vec<String>,
    /// Whether answers decide when the next request is made.
    pub model: LoadModel,
    /// Connections at once, over all threads.
    pub connections: usize,
    /// Streams of each of them at once, where HTTP/2 is spoken.
    pub streams: Option<usize>,
    /// Threads of the generator.
    pub threads: usize,
    /// CPUs that they are pinned to.
    pub cpus: Vec<usize>,
    /// What one exchange may take.
    pub timeout: Duration,
}

/// What decides when the next request is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadModel {
    /// The response to the one before it, on the same connection: a slow server is asked less.
    Closed,
    /// A schedule: latency counts from when the request was due.
    Open,
}

/// The first response of a target.
#[derive(Debug, Clone)]
pub struct FirstResponse {
    /// The target as written.
    pub target: String,
    /// The status of HTTP.
    pub status: Option<u16>,
    /// Bytes of its body.
    pub length: u64,
    /// What was spoken: `HTTP/1.1`, `HTTP/2`, `gRPC`, `WebSocket`, `bytes`.
    pub protocol: &'static str,
    /// Streams that it takes at once on a connection of HTTP/2, where it says so.
    pub streams: Option<usize>,
    /// Version and suite of TLS.
    pub tls: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// As planned.
    Complete,
    /// By Ctrl-C or TERM: what was measured until then.
    Interrupted,
    /// By a response with a status that was to end it.
    Stopped(u16),
}

/// One step: a rate of a ladder, a round.
#[derive(Debug, Clone)]
pub struct StageResult {
    /// From 1 on.
    pub round: usize,
    /// Requests a second that were due, where there was one rate: none for a closed loop, a ramp
    /// and a spike.
    pub rate: Option<f64>,
    /// What this stage is among the others, for people: `3000/s`, `1000/s to 5000/s`, `closed
    /// loop`.
    pub name: String,
    /// What its rate counts by: its time, or until its last request was answered where a count
    /// ended it.
    pub elapsed: Duration,
    /// What came of its requests.
    pub counts: StageCounts,
    /// The same by seconds, by when exchanges ended.
    pub seconds: Vec<Second>,
    /// What the generator itself took.
    pub generator: Generator,
    /// Programs that were watched, by what they were named.
    pub watched: Vec<Watched>,
    /// CPU time of each CPU of the machine, of all processes.
    pub cpus: Vec<CpuTime>,
    /// Why its figures are not the target's; empty for a valid stage.
    pub invalid: Vec<Invalid>,
    /// What its readers must know, and what makes it no less valid: that the link was the limit
    /// that was asked for.
    pub notes: Vec<String>,
}

/// A reason why figures are not those of the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// What was the limit instead.
    pub limit: Bottleneck,
    /// For people.
    pub text: String,
}

/// What may limit a run in place of its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// The generator had no CPU time left: rate and latency are its own. What a target took for
    /// each response is not.
    Generator,
    /// The generator was late with requests that it had time and connections for.
    Lateness,
    /// A network interface had no room left.
    Link,
}

impl Bottleneck {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Lateness => "lateness",
            Self::Link => "link",
        }
    }
}

/// Histograms hold nanoseconds, right to three digits.
pub type NanosecondHistogram = Histogram<u64>;

/// Counts of requests and connections.
#[derive(Debug, Clone)]
pub struct StageCounts {
    /// Of successes, from when they were due; in a closed loop that is when a client was free, so
    /// that connecting is in it.
    pub latency: NanosecondHistogram,
    /// Of successes, from when a client took them up; connecting is in it. Empty in a closed loop,
    /// where it is the same.
    pub service: NanosecondHistogram,
    /// Of failures, from when they were due.
    pub failed: NanosecondHistogram,
    /// How late the generator itself was, where a connection was free when a request was due.
    pub lateness: NanosecondHistogram,
    /// What it took to open connections, TLS included.
    pub connect: NanosecondHistogram,
    /// Failures of each kind, by [`FailureKind`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// Of these, connections that did not come about for reasons of this side: descriptors, ports,
    /// memory.
    pub exhausted: u64,
    /// What was said of the first failure of each kind.
    pub examples: [Option<String>; FailureKind::ALL.len()],
    /// Responses by their status, successes and failures.
    pub statuses: BTreeMap<u16, u64>,
    /// Connections that were opened.
    pub opened: u64,
    /// Of these, how many resumed a TLS session.
    pub resumed: u64,
    /// Exchanges on connections that had had one before.
    pub reused: u64,
    /// Bytes of messages sent, heads included; under TLS those inside it. Without PROXY headers
    /// and what a CONNECT takes.
    pub sent: u64,
    /// Bytes of messages received, likewise.
    pub received: u64,
    /// Successes that came after the end of the stage's time, to requests from within it: no part
    /// of its rate.
    pub late: u64,
    /// Bytes sent and received by exchanges that ended after the stage's time: no part of its
    /// rates.
    pub late_sent: u64,
    /// See `late_sent`.
    pub late_received: u64,
    /// Requests that were due or under way when the run was ended early: neither successes nor
    /// failures.
    pub cut: u64,
}

impl StageCounts {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            latency: histogram(),
            service: histogram(),
            failed: histogram(),
            lateness: histogram(),
            connect: histogram(),
            failures: [0; FailureKind::ALL.len()],
            exhausted: 0,
            examples: Default::default(),
            statuses: BTreeMap::new(),
            opened: 0,
            resumed: 0,
            reused: 0,
            sent: 0,
            received: 0,
            late: 0,
            late_sent: 0,
            late_received: 0,
            cut: 0,
        }
    }

    /// Exchanges that were as expected.
    pub fn succeeded(&self) -> u64 {
        self.latency.len()
    }

    /// Exchanges that were not.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Adds another thread's, or another second's.
    pub fn add(&mut self, other: &Self) {
        let histograms = [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.failed, &other.failed),
            (&mut self.lateness, &other.lateness),
            (&mut self.connect, &other.connect),
        ];
        for (sum, more) in histograms {
            // Of one precision and able to grow: nothing to refuse.
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

fn histogram() -> NanosecondHistogram {
    let mut histogram =
        Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("three digits are allowed");
    histogram.auto(true);
    histogram
}

/// Why an exchange is no success: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// No connection came about: refused, unreachable, out of descriptors.
    Connect,
    /// A CONNECT proxy between did not let us through.
    Proxy,
    /// The TLS handshake failed, or a record was no record.
    Tls,
    /// It took longer than it may, from when it was due.
    Timeout,
    /// It was due, and no connection became free while it might still have been in time.
    Unsent,
    /// The connection ended before the response was whole.
    Closed,
    /// The server reset the stream of HTTP/2 that the request was on.
    Reset,
    /// It refused the stream, and did nothing about the request.
    Refused,
    /// It ended the connection of HTTP/2 for an error, or twice before it did anything about the
    /// request.
    Goaway,
    /// What came is no response.
    Garbage,
    /// The response has another status than was expected.
    Status,
    /// A call of gRPC has another status than 0.
    Grpc,
    /// Its body is shorter or longer.
    Length,
    /// Its body has the right length and other bytes.
    Body,
}

impl FailureKind {
    /// Each once, in the order in which they are reported.
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

    /// Its name in reports.
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
    /// Exchanges that succeeded.
    pub succeeded: u64,
    /// And that failed.
    pub failed: u64,
    /// Bytes received.
    pub received: u64,
    /// Latency of successes in nanoseconds, or 0 where there were none: the median,
    pub p50: u64,
    /// what one of a hundred exceeded,
    pub p99: u64,
    /// and the longest.
    pub max: u64,
}

/// CPU time of the generator during a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    /// CPU time in user mode, all threads.
    pub user: Duration,
    /// And in the kernel.
    pub system: Duration,
    /// The busiest thread's share of one CPU, 0 to 1, the time that it was ready and had none
    /// counted as busy; of the stage's time, without what came late.
    pub busiest: f64,
    /// The longest share of that time that a thread was ready to run and had no CPU.
    pub waited: f64,
}

/// CPU time and memory of a watched program with its descendants during a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// What it was named.
    pub name: String,
    /// CPU time in user mode.
    pub user: Duration,
    /// And in the kernel.
    pub system: Duration,
    /// Proportional set size in bytes before the first connection, where the kernel tells it.
    pub before: Option<u64>,
    /// And the most that was seen during the stage, 4 times a second.
    pub peak: Option<u64>,
}
