//! The task that sends spans of requests to a receiver of OpenTelemetry's protocol.
//!
//! It takes them from the queue that the workers fill, and has at most one request of them at a time;
//! what waits beyond that is in the queue, which is bounded.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_config::TraceExport;
use lockgate_export::otlp::{REQUEST, trace_request};
use lockgate_proxy::spans::SpanQueue;
use lockgate_upstream::Random;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::connection::PushError;
use super::otlp::{OtlpAnswer, OtlpClient, TRACES, encode_body, resource};
use super::pushing::{LAST_PUSH, LONGEST_PAUSE, PAUSE};
use super::span_status::SpanStatus;

/// Spans of one request.
const SPANS: u64 = 512;
/// How long more of them are waited for.
const GATHERED: Duration = Duration::from_secs(1);
/// The longest time for one step: a name, a connection, a request.
const STEP: Duration = Duration::from_secs(10);
/// How long the same spans are sent again. Newer ones are worth more.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// Where spans go. A task goes on over a reload while they are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpanSettings {
    /// The receiver. The share is not the task's business.
    export: TraceExport,
    /// The name of this machine.
    host: String,
    /// As [`GATHERED`] and [`GIVEN_UP`].
    gathered: Duration,
    given_up: Duration,
}

impl SpanSettings {
    /// What the configuration says, on the machine `host`.
    pub(crate) fn new(export: &TraceExport, host: &str) -> Self {
        Self {
            export: export.clone(),
            host: host.to_owned(),
            gathered: GATHERED,
            given_up: GIVEN_UP,
        }
    }

    /// The receiver's name in logs and labels.
    pub(super) fn name(&self) -> &str {
        &self.export.name
    }
}

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
            client: OtlpClient::new(settings.export.to.clone()),
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
                    self.tell_down(&why);
                    self.give_up_old();
                    let asked_for = why.pause();
                    sleep(asked_for.unwrap_or_else(|| random.about(pause))).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
        }
    }

    /// Sends what there is, as long as the receiver takes it.
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
                self.tell_down(&why);
            }
        }
        Ok(())
    }

    /// Gives up a request that was sent again for long.
    fn give_up_old(&mut self) {
        let limit = self.settings.given_up;
        if let Some(old) = self.unsent.take_if(|unsent| unsent.since.elapsed() >= limit) {
            self.status.add_unreachable(old.spans);
        }
    }

    fn tell_down(&self, why: &PushError) {
        if !self.is_down.replace(true) {
            let sink = self.status.name.as_str();
            tracing::warn!(sink, %why, "spans cannot be sent: this is tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use lockgate_config::{AuthoritySource, EndpointAddr, OtlpReceiver, OtlpUrl, UrlScheme};
    use lockgate_proxy::spans::SpanBatch;
    use lockgate_rules::TraceShare;
    use lockgate_testkit::{DEADLINE, Origin, eventually};

    use super::super::{SinkStatuses, SpanExporter};
    use super::*;

    const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    fn settings(to: &Origin, given_up: Duration) -> SpanSettings {
        let to = OtlpReceiver {
            url: OtlpUrl {
                scheme: UrlScheme::Http,
                addr: EndpointAddr::Ip(to.socket_address()),
                host: "otlp.test".to_owned(),
                path: "/below".to_owned(),
            },
            fields: Vec::new(),
            ca: AuthoritySource::System,
            compression: None,
            service: "edge".to_owned(),
        };
        SpanSettings {
            export: TraceExport {
                name: "otlp:a.test:4318".to_owned(),
                to,
                share: TraceShare::ALL,
            },
            host: "web1".to_owned(),
            gathered: Duration::ZERO,
            given_up,
        }
    }

    /// A batch that is found again in the body of its request.
    fn batch(text: &str, spans: u64) -> SpanBatch {
        SpanBatch {
            bytes: text.as_bytes().to_vec(),
            spans,
        }
    }

    fn with_exporter(test: impl FnOnce(&mut SpanExporter, &SpanQueue, &SinkStatuses)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let (queue, statuses) = (Arc::<SpanQueue>::default(), Arc::<SinkStatuses>::default());
        let mut exporter = SpanExporter::new(Arc::clone(&queue), Arc::clone(&statuses));
        test(&mut exporter, &queue, &statuses);
        let finished = exporter.finish();
        runtime.block_on(async { timeout(DEADLINE, finished).await.unwrap() });
    }

    fn lost(status: &SpanStatus, reason: &str) -> u64 {
        let lost = status.lost();
        lost.iter().find(|(label, _)| *label == reason).unwrap().1
    }

    #[test]
    fn spans_are_sent_again_until_they_are_given_up_for_newer_ones() {
        for (given_up, again) in [(Duration::MAX, true), (Duration::ZERO, false)] {
            let origin = Origin::tcp();
            with_exporter(|exporter, queue, statuses| {
                exporter.keep(Some(settings(&origin, given_up)));
                let status = statuses.spans().unwrap();
                queue.push(batch("first", 3));
                let mut http = origin.http();
                let request = http.request();
                assert_eq!(request.first_line(), "POST /below/v1/traces HTTP/1.1");
                assert_eq!(request.field("host"), Some("otlp.test"));
                assert!(String::from_utf8_lossy(&request.body).contains("first"));
                queue.push(batch("second", 5));
                http.send(BUSY);
                // Over the same connection.
                let body = http.request().body;
                let text = String::from_utf8_lossy(&body);
                assert_eq!(text.contains("first"), again);
                assert_eq!(text.contains("second"), !again);
                http.send(TAKEN);
                let sent = if again { 3 } else { 5 };
                eventually("it is counted", || (status.sent() >= sent).then_some(()));
                assert_eq!(lost(&status, "unreachable"), if again { 0 } else { 3 });
                if again {
                    http.request();
                    http.send(TAKEN);
                }
            });
        }
    }

    #[test]
    fn a_connection_that_the_receiver_has_closed_is_made_again() {
        let origin = Origin::tcp();
        with_exporter(|exporter, queue, statuses| {
            exporter.keep(Some(settings(&origin, Duration::MAX)));
            let status = statuses.spans().unwrap();
            for sent in 1..=3 {
                queue.push(batch("a", 1));
                let mut http = origin.http();
                http.request();
                http.send(TAKEN);
                eventually("it is counted", || (status.sent() == sent).then_some(()));
            }
            assert_eq!(status.lost().map(|(_, lost)| lost), [0; 3]);
        });
    }

    #[test]
    fn the_last_spans_are_sent_at_the_end_or_counted_as_lost() {
        for is_there in [true, false] {
            let origin = Origin::tcp();
            let settings = settings(&origin, Duration::MAX);
            let address = origin.socket_address();
            drop(origin);
            let (mut seen, mut serving) = (None, None);
            with_exporter(|exporter, queue, statuses| {
                exporter.keep(Some(settings));
                seen = statuses.spans();
                queue.push(batch("first", 3));
                let origin = is_there.then(|| Origin::tcp_at(address));
                serving = origin.map(|origin| origin.answering(|_| TAKEN.as_bytes().to_vec()));
            });
            drop(serving);
            let status = seen.unwrap();
            let counted = (status.sent(), lost(&status, "unreachable"));
            assert_eq!(counted, if is_there { (3, 0) } else { (0, 3) });
        }
    }
}
