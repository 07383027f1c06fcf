//! A whole run, from the main thread: the first responses, the worker threads, one stage after the
//! other, and the report.

mod stage_sum;
mod validity;
mod watched;
mod workers;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::first_response;
use crate::plan::{LoadStage, Loop, RunPlan};
use crate::result::{
    LoadModel, RunDescription, RunEnd, RunResult, Second, StageCounts, StageResult,
};
use crate::start_error::StartError;
use crate::target::RemotePeer;
use crate::worker::{self, Stop};
use watched::WatchedTree;
use workers::WorkerThreads;

/// Descriptors of the program itself.
const OWN_DESCRIPTORS: u64 = 16;
/// Descriptors that each thread needs.
const THREAD_DESCRIPTORS: u64 = 8;

/// Progress of a run, for its observer.
#[derive(Debug)]
pub enum RunProgress<'a> {
    /// The begin of a stage.
    Begun {
        /// Index of the stage, from 0 on; `None` for the warm-up.
        index: Option<usize>,
        /// The stage that begins, as planned.
        stage: &'a LoadStage,
    },
    /// A tick of the stage, 4 times a second.
    Tick {
        /// Time since the stage began.
        elapsed: Duration,
    },
    /// The end of a second of the stage, also of the warm-up. Seconds come in their order; the rest
    /// at the end of a stage does not come.
    Second {
        /// Time since the stage began.
        elapsed: Duration,
        /// Counts and latencies of this second.
        second: Second,
        /// Counts of the stage so far.
        counts: &'a StageCounts,
    },
    /// The end of a stage; the warm-up has none.
    Over(&'a StageResult),
}

/// Makes the run of `plan`; `observe` gets its progress.
///
/// # Errors
/// The run cannot begin. Later failures are in the report.
pub fn run(
    plan: RunPlan,
    stop: &Arc<Stop>,
    mut observe: impl FnMut(RunProgress<'_>),
) -> Result<RunResult, StartError> {
    reserve(&plan)?;
    // The main thread reads memory and adds up: it must not run on the CPUs of the watched
    // programs.
    worker::pin_to(&plan.cpus)?;
    // Memory that the first connection takes of a program counts for its connections.
    let watched = plan
        .watch
        .iter()
        .map(WatchedTree::new)
        .collect::<Result<Vec<_>, _>>()?;
    let first = first_response::request_all(&plan, stop)?;
    let mut report = RunResult {
        run: describe(&plan),
        began: SystemTime::now(),
        uncounted: first.len() as u64,
        first,
        stages: Vec::new(),
        end: RunEnd::Complete,
    };
    let plan = Arc::new(plan);
    let mut workers = WorkerThreads::start(&plan, stop, watched)?;
    if let Some(stage) = plan.warm_up.as_ref().filter(|_| !stop.is_requested()) {
        observe(RunProgress::Begun { index: None, stage });
        let counts = workers.run(stage, stop, &mut observe)?.counts;
        report.uncounted += counts.succeeded() + counts.failed() + counts.cut;
        report.began = SystemTime::now();
    }
    for (index, stage) in plan.stages.iter().enumerate() {
        if stop.is_requested() {
            break;
        }
        observe(RunProgress::Begun {
            index: Some(index),
            stage,
        });
        let result = workers.run(stage, stop, &mut observe)?;
        observe(RunProgress::Over(&result));
        report.stages.push(result);
    }
    report.end = match stop.status() {
        Some(status) => RunEnd::Stopped(status),
        None if stop.is_requested() => RunEnd::Interrupted,
        None => RunEnd::Complete,
    };
    Ok(report)
}

fn describe(plan: &RunPlan) -> RunDescription {
    let mut stages = plan.stages.iter();
    let is_open = stages.any(|stage| matches!(stage.shape, Loop::Open(_)));
    RunDescription {
        command: plan.command.clone(),
        targets: plan
            .targets
            .iter()
            .map(|target| target.written.clone())
            .collect(),
        model: if is_open {
            LoadModel::Open
        } else {
            LoadModel::Closed
        },
        connections: plan.connections,
        streams: plan.streams,
        threads: plan.threads,
        cpus: plan.cpus.iter().copied().take(plan.threads).collect(),
        timeout: plan.timeout,
    }
}

/// Ensures that there are descriptors and ports for every connection before the run begins.
fn reserve(plan: &RunPlan) -> Result<(), StartError> {
    let connections = plan.connections;
    let peers = plan.peers();
    let needed = (connections * peers.len()) as u64
        + OWN_DESCRIPTORS
        + THREAD_DESCRIPTORS * plan.threads as u64;
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    if needed > allowed {
        return Err(StartError::Descriptors {
            connections,
            needed,
            allowed,
        });
    }
    if limit.current.is_some_and(|current| current < needed) {
        // Every process may raise its limit up to the hard one.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
    let ports = local_ports().unwrap_or(usize::MAX);
    // Each source address has the ports for itself.
    let available = |peer: &RemotePeer| {
        let sources = peer.sources(peer.address()).count().max(1);
        ports.saturating_mul(sources)
    };
    let is_short = |peer: &&Arc<RemotePeer>| peer.is_tcp() && connections > available(peer);
    if peers.iter().any(is_short) {
        return Err(StartError::Ports { connections, ports });
    }
    Ok(())
}

/// The number of local ports that the kernel gives to connections.
fn local_ports() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text
        .split_ascii_whitespace()
        .filter_map(|word| word.parse::<usize>().ok());
    let (low, high) = (ends.next()?, ends.next()?);
    Some((high + 1).saturating_sub(low))
}
