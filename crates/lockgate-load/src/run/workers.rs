//! The worker threads of a run, with the measurements of the main thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use lockgate_net::nanos::Nanos;

use super::RunProgress;
use super::stage_sum::StageSum;
use super::validity;
use super::watched::{CpuReading, WatchedTree};
use crate::cpu_times::CpuTimes;
use crate::interface::{Interface, InterfaceBytes};
use crate::plan::{LoadStage, RunPlan, Until};
use crate::process_tree::{CpuUsage, ProcessTree};
use crate::result::{Generator, Invalid, StageResult};
use crate::shared_link::SharedLink;
use crate::worker::{self, StageStart, Stop, WorkerEvent, WorkerSetup};

/// Interval at which memory is read and progress is reported.
const TICK: Duration = Duration::from_millis(250);

/// The worker threads, and the counters that the main thread reads. Dropping it waits for the
/// threads.
pub(super) struct WorkerThreads {
    orders: Vec<Sender<StageStart>>,
    events: Receiver<WorkerEvent>,
    threads: Vec<thread::JoinHandle<()>>,
    own: ProcessTree,
    watched: Vec<WatchedTree>,
    /// Interfaces towards the targets, each once.
    interfaces: Vec<Interface>,
    link: Option<Arc<SharedLink>>,
}

/// Counters at the begin of a stage.
struct Baseline {
    begin: Instant,
    watched: Vec<Option<CpuReading>>,
    bytes: Vec<InterfaceBytes>,
    own: CpuUsage,
    cpu_times: CpuTimes,
    link_busy: Nanos,
}

impl WorkerThreads {
    /// Starts the threads; they wait for a stage.
    ///
    /// # Errors
    /// A thread cannot be made.
    pub(super) fn start(
        plan: &Arc<RunPlan>,
        stop: &Arc<Stop>,
        watched: Vec<WatchedTree>,
    ) -> io::Result<Self> {
        let (sender, events) = mpsc::channel();
        let mut workers = Self {
            orders: Vec::new(),
            events,
            threads: Vec::new(),
            own: ProcessTree::new(std::process::id()),
            watched,
            interfaces: interfaces(plan),
            link: plan.link.clone(),
        };
        for thread in 0..plan.threads {
            let (order, orders) = mpsc::channel();
            let share = plan.connections / plan.threads;
            let setup = WorkerSetup {
                plan: Arc::clone(plan),
                thread,
                clients: share + usize::from(thread < plan.connections % plan.threads),
                stop: Arc::clone(stop),
                orders,
                events: sender.clone(),
            };
            let named = thread::Builder::new().name(format!("load-{thread}"));
            let handle = named.spawn(move || worker::run(setup))?;
            workers.threads.push(handle);
            workers.orders.push(order);
        }
        Ok(workers)
    }

    /// Runs one stage on all threads.
    ///
    /// # Errors
    /// A thread cannot go on.
    pub(super) fn run(
        &mut self,
        stage: &LoadStage,
        stop: &Stop,
        observe: &mut impl FnMut(RunProgress<'_>),
    ) -> io::Result<StageResult> {
        let shared = Arc::new(stage.clone());
        let before = self.baseline();
        for order in &self.orders {
            // A thread that has ended has reported why.
            let _ = order.send(StageStart {
                stage: Arc::clone(&shared),
                begin: before.begin,
            });
        }
        let time = match stage.until {
            Until::Time(time) => Some(time),
            Until::Count(_) => None,
        };
        let mut sum = StageSum::new(time);
        // The other threads would go on to the end of the stage.
        self.gather(&mut sum, before.begin, observe)
            .inspect_err(|_| stop.now())?;
        let whole = before.begin.elapsed();
        let cpus = CpuTimes::now().since(&before.cpu_times);
        let elapsed = match stage.until {
            Until::Time(time) if stop.is_requested() => whole.min(time),
            Until::Time(time) => time,
            Until::Count(_) => whole,
        };
        sum.close(elapsed);
        let generator = self.generator(&sum, before.own, elapsed);
        let mut invalid = validity::generator_limits(stage, &generator, &sum.counts);
        invalid.extend(self.full_interfaces(&before.bytes, whole));
        let mut notes = Vec::new();
        if let Some(link) = &self.link {
            notes.extend(link.note(link.busy() - before.link_busy, whole));
        }
        notes.extend(validity::wait_note(&generator));
        let mut watched = Vec::new();
        for (program, before) in self.watched.iter_mut().zip(before.watched) {
            match program.end_stage(before) {
                Ok(program) => watched.push(program),
                Err(note) => notes.push(note),
            }
        }
        Ok(StageResult {
            round: stage.round,
            rate: stage.rate(),
            name: stage.name.clone(),
            elapsed,
            invalid,
            notes,
            counts: sum.counts,
            targets: sum.targets,
            seconds: sum.seconds,
            generator,
            watched,
            cpus,
        })
    }

    /// Reads the counters at the begin of a stage.
    fn baseline(&self) -> Baseline {
        let watched = self.watched.iter().map(WatchedTree::cpu).collect();
        let bytes = self.interfaces.iter().map(Interface::bytes).collect();
        let own = self.own.cpu().unwrap_or_default();
        let cpu_times = CpuTimes::now();
        let link_busy = self.link.as_ref().map_or(Nanos::ZERO, |link| link.busy());
        Baseline {
            begin: Instant::now(),
            watched,
            bytes,
            own,
            cpu_times,
            link_busy,
        }
    }

    /// CPU time of the generator since `before`.
    fn generator(&self, sum: &StageSum, before: CpuUsage, elapsed: Duration) -> Generator {
        let own = self.own.cpu().unwrap_or_default().since(before);
        let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        Generator {
            user: own.user,
            system: own.system,
            busiest: share(sum.busiest.ran + sum.busiest.waited),
            waited: share(sum.waited),
        }
    }

    /// Interfaces that had no room left.
    fn full_interfaces(&self, before: &[InterfaceBytes], elapsed: Duration) -> Vec<Invalid> {
        let interfaces = self.interfaces.iter().zip(before);
        interfaces
            .filter_map(|(interface, before)| {
                let used = interface.used(*before, interface.bytes(), elapsed);
                validity::link_limit(&interface.name, used)
            })
            .collect()
    }

    /// Adds the events of the threads to `sum` until the stage has ended in each.
    fn gather(
        &mut self,
        sum: &mut StageSum,
        begin: Instant,
        observe: &mut impl FnMut(RunProgress<'_>),
    ) -> io::Result<()> {
        let mut working = self.orders.len();
        let mut tick = Instant::now() + TICK;
        while working > 0 {
            let timeout = tick.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(timeout) {
                Ok(WorkerEvent::Second(second, counts)) => sum.add(second, &counts),
                Ok(WorkerEvent::Over { busy, targets }) => {
                    sum.add_thread(busy, targets);
                    working -= 1;
                }
                Ok(WorkerEvent::Broken(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => {
                    tick = Instant::now() + TICK;
                    observe(RunProgress::Tick {
                        elapsed: begin.elapsed(),
                    });
                    for watched in &mut self.watched {
                        watched.sample_memory();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            let elapsed = begin.elapsed();
            while sum.is_second_complete(self.orders.len(), elapsed) {
                let second = sum.close_second();
                observe(RunProgress::Second {
                    elapsed,
                    second,
                    counts: &sum.counts,
                });
            }
        }
        Ok(())
    }
}

/// Interfaces towards the targets of `plan`, each once.
fn interfaces(plan: &RunPlan) -> Vec<Interface> {
    let mut interfaces = Vec::new();
    for peer in plan.peers() {
        if let Some(interface) = Interface::towards(peer.address())
            && !interfaces.contains(&interface)
        {
            interfaces.push(interface);
        }
    }
    interfaces
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        self.orders.clear();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed so.
            let _ = thread.join();
        }
    }
}
