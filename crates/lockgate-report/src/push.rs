//! Pushes what a run counts to a Prometheus push gateway while it goes on: `--push`.
//!
//! Everything that was counted goes in one group, named by its job, at the beginning of each stage,
//! every ten seconds and at the end of the run. Each push replaces the group (PUT), so that nothing
//! of an earlier run of the same job stands beside it. At the end the group stays: deleted, it
//! would be gone before Prometheus had scraped the last values, which are the result. The gateway's
//! own `push_time_seconds` says how old they are; `curl -X DELETE http://HOST:PORT/metrics/job/NAME` forgets them. Generators that run at once need jobs of their own.
//! <https://github.com/prometheus/pushgateway#api>
//!
//! A thread of its own sends. The run hands over its counts and goes on: what has not left yet when
//! there is newer is replaced by it. Nothing is lost by that, nor by a push that fails, since
//! counts are of all that was until then.

mod exposition;
mod gateway;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub use gateway::{Gateway, GatewayError};

use exposition::{Counted, Counters};
use lockgate_load::Progress;
use lockgate_load::plan::{Loop, Stage};

/// Seconds of a run between two pushes.
const EVERY: u64 = 10;
/// Time series of so many stages are told apart; what more there is of a ladder is one.
const MOST_STAGES: usize = 100;
const OTHERS: &str = "(others)";

/// The pushes of one run.
#[derive(Debug)]
pub struct Push {
    desk: Arc<Desk>,
    /// Which of the counts a stage's are, by its index: rounds share them.
    series: Vec<usize>,
    /// Of stages that are over, in the order in which they began.
    over: Counters,
    current: Option<StagePosition>,
    /// How long the last push of a run is waited for, and the one before it that may be under way.
    patience: Duration,
}

/// A stage that goes on.
#[derive(Debug)]
struct StagePosition {
    series: usize,
    stage: Stage,
    counted: Counted,
    passed: u64,
}

/// What came of all pushes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushes {
    /// Those that the gateway took.
    pub made: u64,
    /// Those that it did not.
    pub failed: u64,
    /// What was said of the last that failed.
    pub why: Option<String>,
}

/// Where counts lie until they are sent: the latest only.
#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: Option<Counters>,
    /// There will be no more.
    closed: bool,
    /// All have been sent.
    done: bool,
    pushes: Pushes,
    /// Of the first push that failed, until somebody was told.
    warning: Option<String>,
}

impl Push {
    /// Makes ready for a run of these stages.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(gateway: Gateway, stages: &[Stage]) -> io::Result<Self> {
        let mut names: Vec<&str> = Vec::new();
        let series = stages.iter().map(|stage| {
            let known = names.iter().position(|name| *name == stage.name);
            known.unwrap_or_else(|| {
                if names.len() <= MOST_STAGES {
                    names.push(if names.len() < MOST_STAGES {
                        &stage.name
                    } else {
                        OTHERS
                    });
                }
                names.len() - 1
            })
        });
        let series = series.collect();
        let over = Counters::of(&names);
        let desk = Arc::new(Desk::default());
        let patience = gateway.patience() * 2;
        let sender = Arc::clone(&desk);
        thread::Builder::new()
            .name("push".to_owned())
            .spawn(move || sender.send_all(&gateway))?;
        Ok(Self {
            desk,
            series,
            over,
            current: None,
            patience,
        })
    }

    /// Takes in what the engine tells. Gives back a warning when it turned out that the gateway
    /// takes nothing: once.
    pub fn tell(&mut self, progress: &Progress<'_>) -> Option<String> {
        match progress {
            // Nothing of a warm-up is counted.
            Progress::Begun { index: None, .. } => self.current = None,
            Progress::Begun {
                index: Some(index),
                stage,
            } => {
                let series = self.series.get(*index).copied().unwrap_or_default();
                let (stage, counted) = ((*stage).clone(), Counted::default());
                self.current = Some(StagePosition {
                    series,
                    stage,
                    counted,
                    passed: 0,
                });
                self.push();
            }
            Progress::Second { counts, .. } => {
                let current = self.current.as_mut()?;
                current.passed += 1;
                if current.passed.is_multiple_of(EVERY) {
                    current.counted = Counted::of(counts);
                    self.push();
                }
            }
            Progress::Over(stage) => {
                if let Some(current) = self.current.take() {
                    // Nothing is due any more, until another stage begins.
                    self.over.due = current.due().map(|_| 0.0);
                    self.over.add(current.series, Counted::of(&stage.counts));
                }
            }
            Progress::Tick { .. } => {}
        }
        self.desk.lock().warning.take()
    }

    /// Pushes for the last time, and waits until that is done or has taken too long.
    pub fn finish(self) -> Pushes {
        self.push();
        let mut state = self.desk.lock();
        state.closed = true;
        self.desk.changed.notify_all();
        let waited = self
            .desk
            .changed
            .wait_timeout_while(state, self.patience, |state| !state.done);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut pushes = state.pushes.clone();
        if !state.done {
            pushes.failed += 1;
            pushes.why = Some("the gateway does not respond".to_owned());
        }
        pushes
    }

    fn push(&self) {
        let mut counts = self.over.clone();
        if let Some(current) = &self.current {
            counts.add(current.series, current.counted.clone());
            counts.due = current.due();
        }
        self.desk.lay(counts);
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
            (0, None) => schedule.at_first().per_second(),
            (passed, None) => (within(passed) - within(passed - 1)) as f64,
        })
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done where this is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lay(&self, counts: Counters) {
        self.lock().next = Some(counts);
        self.changed.notify_all();
    }

    /// Sends what is laid down until there will be no more.
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
        self.desk.lock().closed = true;
        self.desk.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
