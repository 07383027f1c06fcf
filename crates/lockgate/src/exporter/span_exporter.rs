//! The owner of the task that sends spans.

use std::sync::Arc;

use lockgate_proxy::spans::SpanQueue;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::pushing::{LAST_PUSH, SLACK};
use super::span_settings::SpanSettings;
use super::span_status::SpanStatus;
use super::spans::{SpanEnd, SpanPushing};
use super::status::SinkStatuses;
use crate::background::{Background, OwnedTask};

/// The task that sends spans, if the configuration that runs wants one. Dropping this ends it without
/// a last request.
pub(crate) struct SpanExporter {
    queue: Arc<SpanQueue>,
    statuses: Arc<SinkStatuses>,
    running: Option<RunningSpans>,
}

struct RunningSpans {
    settings: SpanSettings,
    status: Arc<SpanStatus>,
    task: OwnedTask,
    /// Asks for the last request.
    end: watch::Sender<SpanEnd>,
    /// Told when it is over.
    finished: oneshot::Receiver<()>,
    /// Ends with its task.
    thread: Arc<Background>,
}

impl SpanExporter {
    /// No task yet, for the spans of this queue. Its state can be looked up in `statuses`.
    pub(crate) fn new(queue: Arc<SpanQueue>, statuses: Arc<SinkStatuses>) -> Self {
        Self {
            queue,
            statuses,
            running: None,
        }
    }

    /// Sends spans as it is wanted, if it is. A task with the same settings goes on; one with others
    /// sends what there is, beside the caller.
    ///
    /// To be called in a runtime.
    pub(crate) fn keep(&mut self, wanted: Option<SpanSettings>) {
        let running = self.running.as_ref().map(|running| &running.settings);
        if running == wanted.as_ref() {
            return;
        }
        let before = self.running.take();
        let known = before.as_ref().map(|before| Arc::clone(&before.status));
        match (before, &wanted) {
            (Some(before), Some(_)) => drop(tokio::spawn(before.finish(SpanEnd::Replaced))),
            (Some(before), None) => drop(tokio::spawn(before.finish(SpanEnd::Over))),
            // Requests that began before the last task ended have added some.
            (None, _) => self.queue.clear(),
        }
        self.running = wanted.and_then(|settings| {
            let known = known.filter(|known| known.name == settings.name());
            let status = known.unwrap_or_else(|| {
                Arc::new(SpanStatus::new(settings.name(), Arc::clone(&self.queue)))
            });
            RunningSpans::start(settings, status)
        });
        let status = self.running.as_ref();
        self.statuses
            .set_spans(status.map(|running| Arc::clone(&running.status)));
    }

    /// Has the task send what there is, and ends it. It takes no longer than a second and a half.
    pub(crate) fn finish(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let running = self.running.take();
        let running = running.map(|running| running.finish(SpanEnd::Over));
        async move {
            if let Some(finished) = running {
                finished.await;
            }
        }
    }
}

impl RunningSpans {
    fn start(settings: SpanSettings, status: Arc<SpanStatus>) -> Option<Self> {
        let thread = match Background::continued(None, 1, "spans") {
            Ok(thread) => thread?,
            Err(error) => {
                tracing::error!(%error, "there is no thread for spans: none are sent");
                return None;
            }
        };
        let (end, ending) = watch::channel(SpanEnd::NotYet);
        let (done, finished) = oneshot::channel();
        let (of_task, seen) = (settings.clone(), Arc::clone(&status));
        let task = thread.spawn(move || async move {
            SpanPushing::new(of_task, seen).run(ending).await;
            // One that is dropped is not waited for.
            let _ = done.send(());
        });
        Some(Self {
            settings,
            status,
            task,
            end,
            finished,
            thread,
        })
    }

    /// Asks for the last request now; the future waits for it.
    fn finish(self, how: SpanEnd) -> impl Future<Output = ()> + Send + use<> {
        let Self {
            task,
            end,
            finished,
            thread,
            ..
        } = self;
        let _ = end.send(how);
        async move {
            let _ = timeout(LAST_PUSH + SLACK, finished).await;
            drop((task, end, thread));
        }
    }
}
