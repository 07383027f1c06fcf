//! A whole run, from the main thread: the first answers, the threads, one stage after the other,
//! and what came of them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::shared_link::SharedLink;
use crate::first;
use crate::interface::Interface;
use crate::plan::{Loop, Plan, Stage, Until};
use crate::result::{
    End, Generator, Invalid, Limit, LoadModel, Report, RunDescription, Second, StageCounts,
    StageResult, Watched,
};
use crate::ticks::Ticks;
use crate::watch::{Cpu, Tree};
use crate::worker::{self, ThreadTime, WorkerEvent, Order, WorkerSetup, Stop};

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Descriptors of the program itself, and of each thread.
const OWN_DESCRIPTORS: u64 = 16;
const THREAD_DESCRIPTORS: u64 = 8;
/// A thread that was so busy, of 1, had no time to spare: what it measured is itself.
const SATURATED: f64 = 0.95;
/// A link is never fuller than this: heads of frames and gaps between them are counted nowhere.
const FULL: f64 = 0.9;
/// So late may one of a hundred requests be for the generator's own reasons.
const LATE: Duration = Duration::from_millis(5);
/// And so late where it is a half of what one of a hundred takes at all.
const LITTLE: Duration = Duration::from_millis(1);
/// A thread that waited for a CPU for more than this share of the time has waited within latencies,
/// too.
const NOTED: f64 = 0.05;

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are fewer descriptors than connections.
    #[error(
        "{connections} connections need {needed} descriptors, and {allowed} are allowed here: raise the hard limit \
         (ulimit -Hn) or ask for fewer connections"
    )]
    Descriptors {
        /// Asked for.
        connections: usize,
        /// With what the program itself needs.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// One source address has fewer ports than connections.
    #[error(
        "{connections} connections to one address need as many local ports, and net.ipv4.ip_local_port_range has \
         {ports}: widen it or ask for fewer connections"
    )]
    Ports {
        /// Asked for.
        connections: usize,
        /// In the range.
        ports: usize,
    },
    /// A target did not answer as expected, before anything was measured.
    #[error("{target}: {text}")]
    First {
        /// As written.
        target: String,
        /// What was wrong, and what to do.
        text: String,
    },
    /// A program that is to be watched is not there.
    #[error("cannot watch process {pid} ({name}): {error}")]
    Watch {
        /// What it was named.
        name: String,
        /// The process.
        pid: u32,
        /// What /proc says.
        error: io::Error,
    },
    /// A thread could not be made or not go on: a CPU that is not there, no descriptors.
    #[error("a thread of the generator cannot run: {0}")]
    Thread(#[from] io::Error),
}

/// What is told while a run goes on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A stage begins; the warm-up has no place among those that count.
    Begun {
        /// Its place, from 0 on.
        place: Option<usize>,
        /// The stage.
        stage: &'a Stage,
    },
    /// Some of it has passed: told 4 times a second, for whoever shows how far it is.
    Tick {
        /// Since the stage began.
        elapsed: Duration,
    },
    /// A whole second of it has passed, of the warm-up too. Told in their order, from the first one
    /// on; not told is what is left at the end of a stage.
    Second {
        /// How much of the stage has passed.
        elapsed: Duration,
        /// That second.
        second: Second,
        /// All of the stage so far.
        counts: &'a StageCounts,
    },
    /// It is over. Nothing of a warm-up.
    Over(&'a StageResult),
}

/// Makes the run that `plan` says.
///
/// # Errors
/// When it cannot begin. What goes wrong later is in the report.
pub fn run(
    plan: Plan,
    stop: &Arc<Stop>,
    mut tell: impl FnMut(Progress<'_>),
) -> Result<Report, StartError> {
    reserve(&plan)?;
    // The main thread reads memory and adds up: it has no business on the CPUs of who is measured.
    worker::pin_to(&plan.cpus)?;
    // What the first connection takes of a program counts for its connections.
    let trees = plan
        .watch
        .iter()
        .map(|(name, pid)| (name.clone(), Tree::new(*pid)));
    let watched: Vec<_> = trees
        .map(|(name, tree)| {
            let before = tree.memory();
            WatchedTree {
                name,
                tree,
                before,
                peak: None,
            }
        })
        .collect();
    for (watched, (name, pid)) in watched.iter().zip(&plan.watch) {
        let gone = |error| StartError::Watch {
            name: name.clone(),
            pid: *pid,
            error,
        };
        watched.tree.cpu().map_err(gone)?;
    }
    let first = first::ask(&plan, stop)?;
    let mut report = Report {
        run: describe(&plan),
        began: SystemTime::now(),
        uncounted: first.len() as u64,
        first,
        stages: Vec::new(),
        end: End::Complete,
    };
    let plan = Arc::new(plan);
    let mut crew = Workers::start(&plan, stop, watched)?;
    if let Some(stage) = plan.warm_up.as_ref().filter(|_| !stop.is_asked()) {
        tell(Progress::Begun { place: None, stage });
        let warm_up = crew.run(stage, stop, &mut tell)?;
        report.uncounted += warm_up.counts.succeeded() + warm_up.counts.failed() + warm_up.counts.cut;
        report.began = SystemTime::now();
    }
    for (place, stage) in plan.stages.iter().enumerate() {
        if stop.is_asked() {
            break;
        }
        tell(Progress::Begun {
            place: Some(place),
            stage,
        });
        let done = crew.run(stage, stop, &mut tell)?;
        tell(Progress::Over(&done));
        report.stages.push(done);
    }
    report.end = match stop.status() {
        Some(status) => End::Stopped(status),
        None if stop.is_asked() => End::Interrupted,
        None => End::Complete,
    };
    Ok(report)
}

fn describe(plan: &Plan) -> RunDescription {
    let open = plan
        .stages
        .iter()
        .any(|stage| matches!(stage.shape, Loop::Open(_)));
    RunDescription {
        command: plan.command.clone(),
        targets: plan
            .targets
            .iter()
            .map(|target| target.written.clone())
            .collect(),
        model: if open { LoadModel::Open } else { LoadModel::Closed },
        connections: plan.connections,
        streams: plan.streams,
        threads: plan.threads,
        cpus: plan.cpus.iter().copied().take(plan.threads).collect(),
        timeout: plan.timeout,
    }
}

/// Sees to it that there are descriptors and ports for every connection: better said before than
/// found out within.
fn reserve(plan: &Plan) -> Result<(), StartError> {
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
        // Up to the hard limit everybody may.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
    let ports = local_ports().unwrap_or(usize::MAX);
    if connections > ports && peers.iter().any(|peer| peer.is_tcp()) {
        return Err(StartError::Ports { connections, ports });
    }
    Ok(())
}

fn local_ports() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text
        .split_ascii_whitespace()
        .filter_map(|word| word.parse::<usize>().ok());
    let (low, high) = (ends.next()?, ends.next()?);
    Some((high + 1).saturating_sub(low))
}

/// A program that is watched.
struct WatchedTree {
    name: String,
    tree: Tree,
    before: Option<u64>,
    peak: Option<u64>,
}

/// The threads of the generator, and what is watched beside them.
struct Workers {
    orders: Vec<Sender<Order>>,
    news: Receiver<WorkerEvent>,
    threads: Vec<thread::JoinHandle<()>>,
    own: Tree,
    watched: Vec<WatchedTree>,
    /// Interfaces towards the targets, each once.
    interfaces: Vec<Interface>,
    link: Option<Arc<SharedLink>>,
}

impl Workers {
    fn start(plan: &Arc<Plan>, stop: &Arc<Stop>, watched: Vec<WatchedTree>) -> io::Result<Self> {
        let (tell, news) = mpsc::channel();
        let mut crew = Self {
            orders: Vec::new(),
            news,
            threads: Vec::new(),
            own: Tree::new(std::process::id()),
            watched,
            interfaces: Vec::new(),
            link: plan.link.clone(),
        };
        for found in plan
            .peers()
            .iter()
            .filter_map(|peer| Interface::towards(peer.address()))
        {
            if !crew.interfaces.contains(&found) {
                crew.interfaces.push(found);
            }
        }
        for thread in 0..plan.threads {
            let (order, orders) = mpsc::channel();
            let share = plan.connections / plan.threads;
            let clients = share + usize::from(thread < plan.connections % plan.threads);
            let (plan, stop, news) = (Arc::clone(plan), Arc::clone(stop), tell.clone());
            let setup = WorkerSetup {
                plan,
                thread,
                clients,
                stop,
                orders,
                news,
            };
            let named = thread::Builder::new().name(format!("load-{thread}"));
            crew.threads.push(named.spawn(move || worker::run(setup))?);
            crew.orders.push(order);
        }
        Ok(crew)
    }

    /// Runs one stage on all threads.
    fn run(
        &mut self,
        stage: &Stage,
        stop: &Stop,
        tell: &mut impl FnMut(Progress<'_>),
    ) -> io::Result<StageResult> {
        let shared = Arc::new(stage.clone());
        let before = self.cpu();
        let moved: Vec<_> = self.interfaces.iter().map(Interface::moved).collect();
        let own_before = self.own.cpu().unwrap_or_default();
        let ticks = Ticks::now();
        let busy_before = self.link.as_ref().map_or(0, |link| link.busy());
        let begin = Instant::now();
        for order in &self.orders {
            // A thread that has gone has told why.
            let _ = order.send(Order {
                stage: Arc::clone(&shared),
                begin,
            });
        }
        // The other threads would go on to the end of the stage.
        let gathered = self.gather(begin, tell).inspect_err(|_| stop.now())?;
        let whole = begin.elapsed();
        let cpus = Ticks::now().since(&ticks);
        let own = self.own.cpu().unwrap_or_default().since(own_before);
        let elapsed = match stage.until {
            Until::Time(time) if stop.is_asked() => whole.min(time),
            Until::Time(time) => time,
            Until::Count(_) => whole,
        };
        let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let generator = Generator {
            user: own.user,
            system: own.system,
            busiest: share(gathered.busiest.ran + gathered.busiest.waited),
            waited: share(gathered.waited),
        };
        let mut invalid = invalid(stage, &generator, &gathered.counts);
        for (interface, before) in self.interfaces.iter().zip(moved) {
            let used = interface.used(before, interface.moved(), whole);
            if used >= FULL {
                let name = &interface.name;
                let text = format!(
                    "the link was the limit: {name} was used by {:.0} % of its speed",
                    used * 100.0
                );
                invalid.push(Invalid {
                    limit: Limit::Transport,
                    text,
                });
            }
        }
        let mut lost = Vec::new();
        let mut seen = Vec::new();
        for (watched, before) in self.watched.iter_mut().zip(before) {
            let peak = watched.peak.take().max(watched.tree.memory());
            let (name, memory) = (watched.name.clone(), watched.before);
            match (before, watched.tree.cpu()) {
                (Some(before), Ok(now)) => {
                    let Cpu { user, system } = now.since(before);
                    seen.push(Watched {
                        name,
                        user,
                        system,
                        before: memory,
                        peak,
                    });
                }
                _ => lost.push(format!("{name} has ended: what it took is not known")),
            }
        }
        let waited = generator.waited;
        let waits = (waited > NOTED).then(|| {
            format!(
                "the generator waited for a CPU for {:.0} % of the time: latencies have that in them",
                waited * 100.0
            )
        });
        let slow = self
            .link
            .iter()
            .filter_map(|link| link.note(link.busy() - busy_before, whole));
        let notes = slow.chain(waits);
        Ok(StageResult {
            round: stage.round,
            rate: stage.rate(),
            name: stage.name.clone(),
            elapsed,
            invalid,
            notes: notes.chain(lost).collect(),
            counts: gathered.counts,
            seconds: gathered.seconds,
            generator,
            watched: seen,
            cpus,
        })
    }

    /// CPU times so far; none of what is gone.
    fn cpu(&self) -> Vec<Option<Cpu>> {
        self.watched
            .iter()
            .map(|watched| watched.tree.cpu().ok())
            .collect()
    }

    /// Hears the threads out until each is over.
    fn gather(
        &mut self,
        begin: Instant,
        tell: &mut impl FnMut(Progress<'_>),
    ) -> io::Result<Collected> {
        let mut gathered = Collected::default();
        let mut working = self.orders.len();
        let mut look = Instant::now() + LOOK;
        while working > 0 {
            match self
                .news
                .recv_timeout(look.saturating_duration_since(Instant::now()))
            {
                Ok(WorkerEvent::Second(second, counts)) => {
                    gathered.counts.add(&counts);
                    gathered.hear(second, &counts);
                }
                Ok(WorkerEvent::Over { busy }) => {
                    if busy.ran + busy.waited > gathered.busiest.ran + gathered.busiest.waited {
                        gathered.busiest = busy;
                    }
                    gathered.waited = gathered.waited.max(busy.waited);
                    working -= 1;
                }
                Ok(WorkerEvent::Broken(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => {
                    look = Instant::now() + LOOK;
                    tell(Progress::Tick {
                        elapsed: begin.elapsed(),
                    });
                    for watched in &mut self.watched {
                        watched.peak = watched.peak.max(watched.tree.memory());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            let elapsed = begin.elapsed();
            while gathered.knows(self.orders.len(), elapsed) {
                let second = gathered.close();
                tell(Progress::Second {
                    elapsed,
                    second,
                    counts: &gathered.counts,
                });
            }
        }
        while !gathered.open.is_empty() {
            gathered.close();
        }
        Ok(gathered)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.orders.clear();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What all threads have told of a stage.
#[derive(Default)]
struct Collected {
    counts: StageCounts,
    /// Seconds of which everything is known.
    seconds: Vec<Second>,
    /// Those behind them, and how many threads have told of each.
    open: VecDeque<(StageCounts, usize)>,
    busiest: ThreadTime,
    /// The longest that a thread was ready and had no CPU.
    waited: Duration,
}

impl Collected {
    /// Adds what a thread tells of a second.
    fn hear(&mut self, second: usize, counts: &StageCounts) {
        // A thread that had nothing to tell for a while may come late.
        let place = second.saturating_sub(self.seconds.len());
        while self.open.len() <= place {
            self.open.push_back((StageCounts::new(), 0));
        }
        let (sum, heard) = &mut self.open[place];
        sum.add(counts);
        *heard += 1;
    }

    /// Whether the first open second has passed and everything is known of it: by each thread, or
    /// by one that is a second further, where another had nothing to tell.
    fn knows(&self, threads: usize, elapsed: Duration) -> bool {
        let passed = elapsed >= Duration::from_secs(self.seconds.len() as u64 + 1);
        self.open
            .front()
            .is_some_and(|(_, heard)| *heard >= threads && passed)
            || self.open.len() > 1
    }

    /// Sums up the first open second: a histogram is a megabyte, and a run may take days.
    fn close(&mut self) -> Second {
        let (counts, _) = self.open.pop_front().unwrap_or_default();
        let second = summary(&counts);
        self.seconds.push(second);
        second
    }
}

fn summary(counts: &StageCounts) -> Second {
    Second {
        succeeded: counts.succeeded(),
        failed: counts.failed(),
        received: counts.received,
        p50: counts.latency.value_at_quantile(0.5),
        p99: counts.latency.value_at_quantile(0.99),
        max: counts.latency.max(),
    }
}

/// Why the figures of a stage are not those of its targets.
fn invalid(stage: &Stage, generator: &Generator, counts: &StageCounts) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    if generator.busiest >= SATURATED {
        let text = format!(
            "the generator was the limit: its busiest thread had no CPU to spare ({:.0} % busy); more --threads, or \
             fewer requests",
            generator.busiest * 100.0
        );
        reasons.push(Invalid {
            limit: Limit::Generator,
            text,
        });
    }
    if counts.exhausted > 0 {
        let text = format!(
            "connections failed for reasons of this side: {} times it had no descriptors, local ports or memory left",
            counts.exhausted
        );
        reasons.push(Invalid {
            limit: Limit::Generator,
            text,
        });
    }
    let late = Duration::from_nanos(counts.lateness.value_at_quantile(0.99));
    let latency = Duration::from_nanos(counts.latency.value_at_quantile(0.99));
    let is_much = late > LATE || late > LITTLE && late * 2 > latency;
    if matches!(stage.shape, Loop::Open(_)) && is_much {
        let text = format!(
            "the generator was late: one request of a hundred left {:.1} ms or more after it was due, though a \
             connection was free",
            late.as_secs_f64() * 1e3
        );
        reasons.push(Invalid {
            limit: Limit::Lateness,
            text,
        });
    }
    reasons
}
