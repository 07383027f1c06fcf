//! Push of a run's counts to a Prometheus push gateway while it goes on: `--push`.
//!
//! All counts go in one group, named by its job, at the beginning of each stage, every ten seconds
//! and at the end of the run. Each push replaces the group (PUT), so that nothing of an earlier run
//! of the same job stands beside it. At the end the group stays: deleted, it would be gone before
//! Prometheus had scraped the last values, which are the result. The gateway's own
//! `push_time_seconds` tells their age; `curl -X DELETE http://HOST:PORT/metrics/job/NAME` removes
//! them. Generators that run at once need jobs of their own.
//! <https://github.com/prometheus/pushgateway#api>
//!
//! A thread of its own sends. The run hands over its counts and goes on: counts that are not sent
//! yet are replaced by newer ones. Nothing is lost by that, nor by a failed push, since counts are
//! cumulative.

mod exposition;
mod gateway;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub use gateway::{Gateway, GatewayError};

use exposition::{RunTotals, StageTotals};
use lockgate_load::RunProgress;
use lockgate_load::plan::{LoadStage, Loop};

/// Seconds of a run between two pushes.
const PUSH_INTERVAL: u64 = 10;
/// Limit of stages with time series of their own; the further stages of a ladder share one.
const MAX_STAGES: usize = 100;
const OTHERS: &str = "(others)";

/// The pushes of one run.
#[derive(Debug)]
pub struct Push {
    mailbox: Arc<Mailbox>,
    /// Which of the counts a stage's are, by its index: rounds share them.
    series: Vec<usize>,
    /// Of stages that are over, in the order in which they began.
    ended: RunTotals,
    current: Option<StagePosition>,
    /// How long the last push of a run is waited for, and the one before it that may be under way.
    timeout: Duration,
}

/// A stage that goes on.
#[derive(Debug)]
struct StagePosition {
    series: usize,
    stage: LoadStage,
    totals: StageTotals,
    passed: u64,
}

/// Results of all pushes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushes {
    /// Pushes that the gateway accepted.
    pub made: u64,
    /// Pushes that failed or were refused.
    pub failed: u64,
    /// Error of the latest failed push.
    pub why: Option<String>,
}

/// Where counts lie until they are sent: the latest only.
#[derive(Debug, Default)]
struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: Option<RunTotals>,
    /// There will be no more.
    closed: bool,
    /// Whether all counts have been sent.
    done: bool,
    pushes: Pushes,
    /// Warning of the first failed push, until it is shown.
    warning: Option<String>,
}

impl Push {
    /// Makes ready for a run of these stages.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(gateway: Gateway, stages: &[LoadStage]) -> io::Result<Self> {
        let mut names: Vec<&str> = Vec::new();
        let series = stages.iter().map(|stage| {
            let known = names.iter().position(|name| *name == stage.name);
            known.unwrap_or_else(|| {
                if names.len() <= MAX_STAGES {
                    names.push(if names.len() < MAX_STAGES {
                        &stage.name
                    } else {
                        OTHERS
                    });
                }
                names.len() - 1
            })
        });
        let series = series.collect();
        let ended = RunTotals::of(&names);
        let mailbox = Arc::new(Mailbox::default());
        let timeout = gateway.timeout() * 2;
        let sender = Arc::clone(&mailbox);
        thread::Builder::new()
            .name("push".to_owned())
            .spawn(move || sender.send_all(&gateway))?;
        Ok(Self {
            mailbox,
            series,
            ended,
            current: None,
            timeout,
        })
    }

    /// Takes the engine's progress. Gives a warning after the first failed push: once.
    pub fn observe(&mut self, progress: &RunProgress<'_>) -> Option<String> {
        match progress {
            // Nothing of a warm-up is counted.
            RunProgress::Begun { index: None, .. } => self.current = None,
            RunProgress::Begun {
                index: Some(index),
                stage,
            } => {
                let series = self.series.get(*index).copied().unwrap_or_default();
                let (stage, totals) = ((*stage).clone(), StageTotals::default());
                self.current = Some(StagePosition {
                    series,
                    stage,
                    totals,
                    passed: 0,
                });
                self.push();
            }
            RunProgress::Second { counts, .. } => {
                let current = self.current.as_mut()?;
                current.passed += 1;
                if current.passed.is_multiple_of(PUSH_INTERVAL) {
                    current.totals = StageTotals::of(counts);
                    self.push();
                }
            }
            RunProgress::Over(stage) => {
                if let Some(current) = self.current.take() {
                    // Nothing is due any more, until another stage begins.
                    self.ended.due = current.due().map(|_| 0.0);
                    self.ended
                        .add(current.series, StageTotals::of(&stage.counts));
                }
            }
            RunProgress::Tick { .. } => {}
        }
        self.mailbox.lock().warning.take()
    }

    /// Pushes for the last time, and waits until that is done or has taken too long.
    pub fn finish(self) -> Pushes {
        self.push();
        let mut state = self.mailbox.lock();
        state.closed = true;
        self.mailbox.changed.notify_all();
        let waited = self
            .mailbox
            .changed
            .wait_timeout_while(state, self.timeout, |state| !state.done);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut pushes = state.pushes.clone();
        if !state.done {
            pushes.failed += 1;
            pushes.why = Some("the gateway does not respond".to_owned());
        }
        pushes
    }

    fn push(&self) {
        let mut counts = self.ended.clone();
        if let Some(current) = &self.current {
            counts.add(current.series, current.totals.clone());
            counts.due = current.due();
        }
        self.mailbox.put(counts);
    }
}

impl StagePosition {
    /// Requests a second that are due about now.
    fn due(&self) -> Option<f64> {
        let Loop::Open(schedule) = &self.stage.shape else {
            return None;
        };
        let within = |seconds: u64| schedule.count(Duration::from_secs(seconds));
        Some(match (self.passed, self.stage.rate()) {
            (_, Some(rate)) => rate,
            (0, None) => schedule.initial_rate().per_second(),
            (passed, None) => (within(passed) - within(passed - 1)) as f64,
        })
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done where this is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, counts: RunTotals) {
        self.lock().next = Some(counts);
        self.changed.notify_all();
    }

    /// Sends the latest counts until the mailbox is closed.
    fn send_all(&self, gateway: &Gateway) {
        let mut state = self.lock();
        loop {
            let waited = self
                .changed
                .wait_while(state, |state| state.next.is_none() && !state.closed);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(counts) = state.next.take() else {
                break;
            };
            drop(state);
            let sent = gateway.put(&counts.text());
            state = self.lock();
            match sent {
                Ok(()) => state.pushes.made += 1,
                Err(error) => {
                    let text = error.to_string();
                    if state.pushes.why.is_none() {
                        state.warning = Some(format!(
                            "the push gateway does not accept the counts, and the run goes on: {text}"
                        ));
                    }
                    state.pushes.failed += 1;
                    state.pushes.why = Some(text);
                }
            }
        }
        state.done = true;
        self.changed.notify_all();
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.mailbox.lock().closed = true;
        self.mailbox.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
