//! The task against real sinks.

use lockgate_config::{AuthoritySource, EndpointAddr, OtlpTarget, OtlpUrl, TraceExport, UrlScheme};
use lockgate_limits::WorkerIndex;
use lockgate_proxy::spans::SpanBatch;
use lockgate_rules::TraceShare;
use lockgate_testkit::{DEADLINE, Origin, eventually};

use super::super::{SinkStatuses, SinkTransport, SpanExporter};
use super::*;

const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn settings(to: &Origin, given_up: Duration) -> SpanSettings {
    let to = OtlpTarget {
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
        transport: SinkTransport::Plain,
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
    let (queue, statuses) = (Arc::new(SpanQueue::new(1)), Arc::<SinkStatuses>::default());
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
            queue.push(WorkerIndex::new(0), batch("first", 3));
            let mut http = origin.http();
            let request = http.request();
            assert_eq!(request.first_line(), "POST /below/v1/traces HTTP/1.1");
            assert_eq!(request.field("host"), Some("otlp.test"));
            assert!(String::from_utf8_lossy(&request.body).contains("first"));
            queue.push(WorkerIndex::new(0), batch("second", 5));
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
fn a_connection_that_the_sink_has_closed_is_made_again() {
    let origin = Origin::tcp();
    with_exporter(|exporter, queue, statuses| {
        exporter.keep(Some(settings(&origin, Duration::MAX)));
        let status = statuses.spans().unwrap();
        for sent in 1..=3 {
            queue.push(WorkerIndex::new(0), batch("a", 1));
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
            queue.push(WorkerIndex::new(0), batch("first", 3));
            let origin = is_there.then(|| Origin::tcp_at(address));
            serving = origin.map(|origin| origin.answering(|_| TAKEN.as_bytes().to_vec()));
        });
        drop(serving);
        let status = seen.unwrap();
        let counted = (status.sent(), lost(&status, "unreachable"));
        assert_eq!(counted, if is_there { (3, 0) } else { (0, 3) });
    }
}
