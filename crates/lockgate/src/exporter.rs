//! The figures of `/metrics`, pushed to other programs: a task for each in one thread, which starts
//! with the first; and spans of requests, sent by a task of their own.
//!
//! A worker never waits for it: a reading is what a request for `/metrics` is. What a program does not
//! take waits, of bounded size. See `lockgate_export` for the bytes.

mod connection;
mod otlp;
mod pushing;
mod settings;
mod sink_connection;
mod sink_response;
mod sink_transport;
mod span_exporter;
mod span_settings;
mod span_status;
mod spans;
mod status;

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::background::{Background, OwnedTask};

use pushing::{LAST_PUSH, Pushing, SLACK};

pub(crate) use settings::{CountedBefore, FigureSource, SinkSettings};
pub(crate) use sink_transport::SinkTransport;
pub(crate) use span_exporter::SpanExporter;
pub(crate) use span_settings::SpanSettings;
pub(crate) use status::{LossReason, SinkStatus, SinkStatuses};

/// The tasks of the running configuration. Dropping this ends them without a last push.
#[derive(Default)]
pub(crate) struct Exporter {
    statuses: Arc<SinkStatuses>,
    thread: Option<Arc<Background>>,
    running: Vec<RunningSink>,
}

/// A task that pushes to one program.
struct RunningSink {
    settings: SinkSettings,
    status: Arc<SinkStatus>,
    task: OwnedTask,
    /// Asks for the last push.
    finish: watch::Sender<bool>,
    /// Told when it is over.
    finished: oneshot::Receiver<()>,
    /// Ends with the last of its tasks.
    thread: Arc<Background>,
}

impl Exporter {
    /// Where the state of each program can be looked up while the tasks go on.
    pub(crate) fn statuses(&self) -> Arc<SinkStatuses> {
        Arc::clone(&self.statuses)
    }

    /// Pushes to the wanted programs. Tasks with the same settings go on; those that are gone push
    /// once more, beside the caller.
    ///
    /// To be called in a runtime.
    pub(crate) fn keep(
        &mut self,
        wanted: Vec<SinkSettings>,
        figures: &FigureSource,
        counted: CountedBefore,
    ) {
        let thread = Background::continued(self.thread.as_ref(), wanted.len(), "export");
        let (wanted, thread) = match thread {
            Ok(thread) => (wanted, thread),
            Err(error) => {
                tracing::error!(%error, "there is no thread for figures: none are pushed");
                (Vec::new(), None)
            }
        };
        let mut before = std::mem::take(&mut self.running);
        let kept = wanted.iter().map(|settings| {
            let same = |one: &RunningSink| one.settings == *settings;
            before
                .iter()
                .position(same)
                .map(|at| before.swap_remove(at))
        });
        let kept: Vec<_> = kept.collect();
        // The counts of a program with other settings go on.
        let known: Vec<_> = before.iter().map(|one| Arc::clone(&one.status)).collect();
        // They are asked to read once more at the moment at which the new ones begin to count.
        for gone in before {
            tokio::spawn(gone.finish());
        }
        let sinks = wanted.into_iter().zip(kept);
        self.running = sinks
            .filter_map(|(settings, kept)| {
                kept.or_else(|| {
                    let status = known
                        .iter()
                        .find(|status| status.name == settings.sink.name);
                    let status = status.map_or_else(
                        || Arc::new(SinkStatus::new(&settings.sink.name)),
                        Arc::clone,
                    );
                    let thread = Arc::clone(thread.as_ref()?);
                    let figures = Arc::clone(figures);
                    Some(RunningSink::start(
                        settings, status, thread, figures, counted,
                    ))
                })
            })
            .collect();
        self.thread = thread;
        let statuses = self.running.iter().map(|one| Arc::clone(&one.status));
        self.statuses.set(statuses.collect());
    }

    /// Has every task push the figures of this moment and what waits, and ends them. It takes no
    /// longer than a second and a half.
    pub(crate) fn finish(&mut self) -> impl Future<Output = ()> + Send + use<> {
        self.thread = None;
        let ending: Vec<_> = self.running.drain(..).map(RunningSink::finish).collect();
        async move {
            let all = async {
                for sink in ending {
                    sink.await;
                }
            };
            // Their thread may hang: then none of them ends.
            let _ = timeout(LAST_PUSH + SLACK, all).await;
        }
    }
}

impl RunningSink {
    fn start(
        settings: SinkSettings,
        status: Arc<SinkStatus>,
        thread: Arc<Background>,
        figures: FigureSource,
        counted: CountedBefore,
    ) -> Self {
        let (finish, finishing) = watch::channel(false);
        let (done, finished) = oneshot::channel();
        let (of_task, seen) = (settings.clone(), Arc::clone(&status));
        let task = thread.spawn(move || async move {
            let pushing = Pushing::new(of_task, seen, figures);
            pushing.run(counted, finishing).await;
            // One that is dropped is not waited for.
            let _ = done.send(());
        });
        Self {
            settings,
            status,
            task,
            finish,
            finished,
            thread,
        }
    }

    /// Asks for the last push now; the future waits for it.
    fn finish(self) -> impl Future<Output = ()> + Send + use<> {
        let Self {
            task,
            finish,
            finished,
            thread,
            ..
        } = self;
        let _ = finish.send(true);
        async move {
            let _ = timeout(LAST_PUSH + SLACK, finished).await;
            drop((task, finish, thread));
        }
    }
}

#[cfg(test)]
mod tests;
