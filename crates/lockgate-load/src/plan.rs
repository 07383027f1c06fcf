//! Plan of a run: targets, clients, and stages one after the other.

use std::sync::Arc;
use std::time::Duration;

use crate::schedule::Schedule;
use crate::shared_link::SharedLink;
use crate::target::{LoadTarget, RemotePeer};

/// A whole run.
#[derive(Debug)]
pub struct RunPlan {
    /// The words of the command line, for reports.
    pub command: Vec<String>,
    /// Targets.
    pub targets: Vec<LoadTarget>,
    /// Connections at once, over all threads; each has one exchange at a time, or as many as it
    /// has streams.
    pub connections: usize,
    /// Streams of each connection at once, where HTTP/2 is spoken.
    pub streams: Option<usize>,
    /// Exchanges of one connection before it is closed; `None`: as many as there are.
    pub per_connection: Option<u64>,
    /// Threads of the generator.
    pub threads: usize,
    /// CPUs, of which each thread gets one in turn; empty: wherever the system puts them.
    pub cpus: Vec<usize>,
    /// The slow link that all connections are behind, if they are.
    pub link: Option<Arc<SharedLink>>,
    /// Timeout of one exchange, from when it was due.
    pub timeout: Duration,
    /// Stage before the first that is not counted, at the rate at which the first begins.
    pub warm_up: Option<LoadStage>,
    /// Stages that are counted.
    pub stages: Vec<LoadStage>,
    /// Responses with one of these end the run.
    pub stop_on: Vec<u16>,
    /// Go on although a first response was not as expected.
    pub anyway: bool,
    /// Programs whose CPU time and memory are read at each stage: a name and a process.
    pub watch: Vec<(String, u32)>,
}

impl RunPlan {
    /// Each peer once.
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

/// One step of a run.
#[derive(Debug, Clone)]
pub struct LoadStage {
    /// From 1 on.
    pub round: usize,
    /// For people.
    pub name: String,
    /// Closed or open loop.
    pub shape: Loop,
    /// End of the stage.
    pub until: Until,
}

impl LoadStage {
    /// Its rate a second, if it has one.
    pub fn rate(&self) -> Option<f64> {
        match &self.shape {
            Loop::Open(Schedule::Constant(rate)) => Some(rate.per_second()),
            _ => None,
        }
    }
}

/// What decides when the next request is made.
#[derive(Debug, Clone)]
pub enum Loop {
    /// The answer before it.
    Closed,
    /// A schedule.
    Open(Schedule),
}

/// What ends a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// So much time; what is under way is waited for.
    Time(Duration),
    /// So many requests, over all threads.
    Count(u64),
}
