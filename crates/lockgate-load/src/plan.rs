//! Plan of a run: targets, connections, and stages one after the other.

use std::sync::Arc;
use std::time::Duration;

use crate::process_tree::TopProcess;
use crate::schedule::Schedule;
use crate::shared_link::SharedLink;
use crate::target::{LoadTarget, RemotePeer};

/// The plan of a whole run.
#[derive(Debug)]
pub struct RunPlan {
    /// Words of the command line, for reports.
    pub command: Vec<String>,
    /// Targets, of which each request has one, by weight.
    pub targets: Vec<LoadTarget>,
    /// Connections at once, over all threads; each has one exchange at a time, or as many as it
    /// has streams.
    pub connections: usize,
    /// Streams of each connection at once, where HTTP/2 is spoken.
    pub streams: Option<usize>,
    /// Exchanges of one connection before it is closed; `None`: no limit.
    pub per_connection: Option<u64>,
    /// Number of threads of the generator.
    pub threads: usize,
    /// CPUs that the threads are pinned to in turn; empty: not pinned.
    pub cpus: Vec<usize>,
    /// The slow link that all connections share, if there is one.
    pub link: Option<Arc<SharedLink>>,
    /// Timeout of one exchange, from when it was due.
    pub timeout: Duration,
    /// Stage before the first that is not counted, at the rate at which the first begins.
    pub warm_up: Option<LoadStage>,
    /// The measured stages, in their order.
    pub stages: Vec<LoadStage>,
    /// Statuses that end the run.
    pub stop_on: Vec<u16>,
    /// Whether the run goes on although the first response of a target is a failure.
    pub anyway: bool,
    /// Watched programs.
    pub watch: Vec<WatchedProcess>,
}

/// A program of which CPU time and memory are measured: a process with its descendants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedProcess {
    /// Its name in reports.
    pub name: String,
    /// ID of the process.
    pub pid: u32,
    /// Whether the process itself counts.
    pub top: TopProcess,
}

impl RunPlan {
    /// The peers of all targets, each once.
    pub(crate) fn peers(&self) -> Vec<&Arc<RemotePeer>> {
        let mut peers: Vec<&Arc<RemotePeer>> = Vec::new();
        for target in &self.targets {
            if !peers.iter().any(|peer| Arc::ptr_eq(peer, &target.peer)) {
                peers.push(&target.peer);
            }
        }
        peers
    }
}

/// One stage of a run.
#[derive(Debug, Clone)]
pub struct LoadStage {
    /// Round of the stage, from 1 on.
    pub round: usize,
    /// Name in reports, such as `3000/s`.
    pub name: String,
    /// Whether the loop is closed or open.
    pub shape: Loop,
    /// The end of the stage.
    pub until: Until,
}

impl LoadStage {
    /// Requests a second, where the rate is constant.
    pub fn rate(&self) -> Option<f64> {
        match &self.shape {
            Loop::Open(Schedule::Constant(rate)) => Some(rate.per_second()),
            _ => None,
        }
    }
}

/// Trigger of the next request.
#[derive(Debug, Clone)]
pub enum Loop {
    /// The response to the request before it.
    Closed,
    /// A schedule of due times.
    Open(Schedule),
}

/// Condition that ends a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// A duration; requests under way are waited for.
    Time(Duration),
    /// A number of requests, over all threads.
    Count(u64),
}
