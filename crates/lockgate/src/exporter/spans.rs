//! The task that sends spans of requests to a sink of OpenTelemetry's protocol.
//!
//! It takes them from the queue that the workers fill, and has at most one request of them at a time;
//! what waits beyond that is in the queue, which is bounded.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_export::otlp::{REQUEST, trace_request};
use lockgate_proxy::spans::SpanQueue;
use lockgate_upstream::Random;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::connection::PushError;
use super::otlp::{OtlpAnswer, OtlpClient, TRACES, encode_body, resource};
use super::pushing::{LAST_PUSH, LONGEST_PAUSE, PAUSE};
use super::span_settings::SpanSettings;
use super::span_status::SpanStatus;

/// Spans of one request.
const SPANS: u64 = 512;
/// The longest time for one step: a name, a connection, a request.
const STEP: Duration = Duration::from_secs(10);

/// How far the end of the task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanEnd {
    /// It goes on.
    NotYet,
    /// Another task takes what waits.
    Replaced,
    /// Nothing takes spans after it.
    Over,
}

/// The task.
pub(super) struct SpanPushing {
    settings: SpanSettings,
    status: Arc<SpanStatus>,
    client: OtlpClient,
    /// The request that is to be sent.
    unsent: Option<UnsentSpans>,
    is_down: Cell<bool>,
}

/// A request that was not taken yet.
struct UnsentSpans {
    body: Bytes,
    spans: u64,
    since: Instant,
}

impl SpanPushing {
    pub(super) fn new(settings: SpanSettings, status: Arc<SpanStatus>) -> Self {
        Self {
            client: OtlpClient::new(settings.export.to.clone(), settings.transport.clone()),
            settings,
            status,
            unsent: None,
            is_down: Cell::new(false),
        }
    }

    /// Sends until `ending` says so, and then what is left, once.
    pub(super) async fn run(mut self, mut ending: watch::Receiver<SpanEnd>) {
        tokio::select! {
            () = self.send_all() => {}
            _ = ending.wait_for(|end| *end != SpanEnd::NotYet) => {}
        }
        let end = *ending.borrow();
        let _ = match end {
            SpanEnd::Over => timeout(LAST_PUSH, self.send_rest()).await,
            SpanEnd::Replaced | SpanEnd::NotYet => {
                timeout(LAST_PUSH, async { drop(self.send().await) }).await
            }
        };
        let mut left = self.unsent.take().map_or(0, |unsent| unsent.spans);
        if end == SpanEnd::Over {
            let waiting = self.queue().take(u64::MAX, usize::MAX);
            left += waiting.iter().map(|batch| batch.spans).sum::<u64>();
        }
        if left > 0 {
            self.status.add_unreachable(left);
            let sink = self.status.name.as_str();
            tracing::warn!(sink, spans = left, "the last spans could not be sent");
        }
    }

    fn queue(&self) -> &SpanQueue {
        self.status.queue()
    }

    async fn send_all(&mut self) {
        let random = Random::new();
        let mut pause = PAUSE;
        loop {
            if self.unsent.is_none() {
                self.queue().wait_for(1).await;
                let _ = timeout(self.settings.gathered, self.queue().wait_for(SPANS)).await;
                self.fetch();
            }
            match self.send().await {
                Ok(()) => pause = PAUSE,
                Err(why) => {
                    self.tell_down(&why, "spans cannot be sent: this is tried again");
                    self.give_up_old();
                    let asked_for = why.pause();
                    sleep(asked_for.unwrap_or_else(|| random.about(pause))).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
        }
    }

    /// Sends what there is, as long as the sink takes it.
    async fn send_rest(&mut self) {
        loop {
            if self.unsent.is_none() {
                self.fetch();
            }
            if self.unsent.is_none() || self.send().await.is_err() {
                return;
            }
        }
    }

    /// Makes a request of the oldest spans, if there are any.
    fn fetch(&mut self) {
        let batches = self.queue().take(SPANS, REQUEST);
        if batches.is_empty() {
            return;
        }
        let to = &self.settings.export.to;
        let spans = batches.iter().map(|batch| batch.bytes.as_slice());
        let request = trace_request(&resource(to, &self.settings.host), spans);
        self.unsent = Some(UnsentSpans {
            body: encode_body(to, &request),
            spans: batches.iter().map(|batch| batch.spans).sum(),
            since: Instant::now(),
        });
    }

    /// Sends the request that is to be sent.
    ///
    /// # Errors
    /// When it may be sent again.
    async fn send(&mut self) -> Result<(), PushError> {
        let Some(unsent) = &self.unsent else {
            return Ok(());
        };
        let (body, spans) = (unsent.body.clone(), unsent.spans);
        let answer = self.client.post(TRACES, body, STEP).await?;
        self.unsent = None;
        match answer {
            OtlpAnswer::Taken(partial) => {
                let rejected = partial.as_ref().map_or(0, |partial| partial.rejected);
                let rejected = rejected.min(spans);
                self.status.add_sent(spans - rejected);
                self.status.add_refused(rejected);
                if let Some(partial) = &partial {
                    self.client.tell_rejected(&self.status.name, partial);
                }
                if self.is_down.replace(false) {
                    let sink = self.status.name.as_str();
                    tracing::info!(sink, "spans are sent again");
                }
            }
            OtlpAnswer::Refused(why) => {
                self.status.add_refused(spans);
                self.tell_down(
                    &why,
                    "spans are refused: the next ones are sent all the same",
                );
            }
        }
        Ok(())
    }

    /// Gives up a request that was sent again for long.
    fn give_up_old(&mut self) {
        let limit = self.settings.given_up;
        if let Some(old) = self
            .unsent
            .take_if(|unsent| unsent.since.elapsed() >= limit)
        {
            self.status.add_unreachable(old.spans);
        }
    }

    /// Tells once why spans were not taken.
    fn tell_down(&self, why: &PushError, what: &str) {
        if !self.is_down.replace(true) {
            let sink = self.status.name.as_str();
            tracing::warn!(sink, %why, "{what}");
        }
    }
}

#[cfg(test)]
mod tests;
