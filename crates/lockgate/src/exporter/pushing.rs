//! The task that pushes to one program: one half reads the figures when they are due, the other
//! sends them.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_export::{EncodedPoints, PointQueue, Schedule, filtered};
use lockgate_metrics::MetricSink;
use lockgate_upstream::Random;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::connection::PushError;
use super::settings::{CountedBefore, FigureSource, SinkSettings};
use super::status::{LossReason, SinkState, SinkStatus};

/// The time for a last push.
pub(super) const LAST_PUSH: Duration = Duration::from_secs(1);
/// The time beyond it after which a task is ended from outside.
pub(super) const SLACK: Duration = Duration::from_millis(500);

/// Bytes of readings that wait for a program.
const WAITING: usize = 1_000_000;
/// The pause after a failure, which doubles with each further one up to the longest, plus or minus a
/// tenth.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What both halves of the task share.
pub(super) struct Pushing {
    settings: SinkSettings,
    status: Arc<SinkStatus>,
    figures: FigureSource,
    queue: RefCell<PointQueue>,
    /// Told when the queue has more, or will have no more.
    changed: Notify,
    /// Whether the last reading was taken.
    is_last: Cell<bool>,
}

impl Pushing {
    pub(super) fn new(
        settings: SinkSettings,
        status: Arc<SinkStatus>,
        figures: FigureSource,
    ) -> Self {
        Self {
            settings,
            status,
            figures,
            queue: RefCell::new(PointQueue::new(WAITING)),
            changed: Notify::new(),
            is_last: Cell::new(false),
        }
    }

    /// Pushes until `finishing` says so, and then once more.
    pub(super) async fn run(self, counted: CountedBefore, finishing: watch::Receiver<bool>) {
        tokio::join!(
            self.read(counted, finishing.clone()),
            self.deliver(finishing)
        );
        let left = self.queue.borrow().points();
        if left > 0 {
            self.status.add_lost(LossReason::Unreachable, left);
            let sink = self.status.name.as_str();
            tracing::warn!(sink, points = left, "the last figures could not be pushed");
        }
    }

    /// Reads the figures whenever they are due, and once more at the end.
    async fn read(&self, counted: CountedBefore, mut finishing: watch::Receiver<bool>) {
        let mut encoder = self.settings.encoder();
        let figures = |sink: &mut dyn MetricSink| {
            filtered(&*self.figures, &self.settings.filter, sink);
        };
        if counted == CountedBefore::Something {
            encoder.skip_counted(&figures);
        }
        let schedule = Schedule::new(self.settings.sink.every);
        let mut wait = schedule.first_wait(since_1970());
        loop {
            tokio::select! {
                () = sleep(wait) => {}
                () = asked(&mut finishing) => break,
            }
            let tick = schedule.tick(since_1970());
            self.add(encoder.encode(tick.time, &figures));
            wait = tick.wait;
        }
        self.add(encoder.encode(since_1970(), &figures));
        self.is_last.set(true);
        self.changed.notify_one();
    }

    fn add(&self, points: EncodedPoints) {
        self.status.add_lost(LossReason::TooLong, points.too_long());
        if points.is_empty() {
            return;
        }
        let lost = self.queue.borrow_mut().push(points);
        self.status.add_lost(LossReason::QueueFull, lost);
        self.changed.notify_one();
    }

    /// Sends readings, the oldest first, until the last one was sent or cannot be. What was not sent
    /// is in the queue.
    async fn deliver(&self, mut finishing: watch::Receiver<bool>) {
        let mut until_over = finishing.clone();
        let mut over = pin!(async {
            asked(&mut until_over).await;
            sleep(LAST_PUSH).await;
        });
        let limit = self.settings.limit;
        let first_pause = PAUSE.min(self.settings.sink.every);
        let mut connection = self.settings.connection();
        let random = Random::new();
        let mut pause = first_pause;
        let mut is_last_try = false;
        while let Some(mut points) = self.next().await {
            let sent = tokio::select! {
                sent = connection.send(&mut points, &self.status, limit) => sent,
                () = &mut over => return self.put_back(points),
            };
            let Err(why) = sent else {
                self.tell_up();
                pause = first_pause;
                continue;
            };
            self.tell_down(&why, &points);
            if points.is_empty() {
                continue;
            }
            self.put_back(points);
            if is_last_try {
                return;
            }
            tokio::select! {
                () = sleep(why.pause().unwrap_or_else(|| random.about(pause))) => {}
                () = asked(&mut finishing) => is_last_try = true,
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        connection.close().await;
    }

    /// Keeps a reading that was not sent whole, if there is room.
    fn put_back(&self, points: EncodedPoints) {
        let lost = self.queue.borrow_mut().put_back(points);
        self.status.add_lost(LossReason::QueueFull, lost);
    }

    /// The oldest reading that waits; none after the last one.
    async fn next(&self) -> Option<EncodedPoints> {
        loop {
            let oldest = self.queue.borrow_mut().pop();
            if oldest.is_some() || self.is_last.get() {
                return oldest;
            }
            self.changed.notified().await;
        }
    }

    fn tell_up(&self) {
        if self.status.enter(SinkState::Up) == SinkState::Down {
            let sink = self.status.name.as_str();
            tracing::info!(sink, "figures are pushed again");
        }
    }

    /// Tells once why a reading was not taken, of which `left` may be pushed again.
    fn tell_down(&self, why: &PushError, left: &EncodedPoints) {
        if self.status.enter(SinkState::Down) == SinkState::Down {
            return;
        }
        let sink = self.status.name.as_str();
        if left.is_empty() {
            tracing::warn!(sink, %why, "figures are refused: the next ones are pushed all the same");
        } else {
            tracing::warn!(sink, %why, "figures cannot be pushed: this is tried again");
        }
    }
}

/// Waits until the last push is asked for, or its owner is gone.
async fn asked(finishing: &mut watch::Receiver<bool>) {
    let _ = finishing.wait_for(|is_asked| *is_asked).await;
}

/// The time since 1970 by the clock of the day.
fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
