//! The spans of an exchange that is over: one of ours as the server of the client, and one as the
//! client of the endpoint that responded.
//!
//! Names of attributes are those of OpenTelemetry's semantic conventions for HTTP, and `lockgate.…` for
//! what these do not know. Queries are never told: they may hold secrets.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockgate_export::otlp::{SpanHead, SpanKind, SpanParent, SpanWriter};
use lockgate_http::head::{HttpVersion, Method};
use lockgate_rules::ClientAddress;
use lockgate_upstream::Endpoint;

use super::ListenerSnapshot;
use super::connection::ClientConnection;
use super::exchange_record::{ExchangeRecord, ReadRequest};
use crate::exchange::ExchangeFailure;
use crate::spans::OpenSpans;

impl ClientConnection {
    /// Hands the spans of an exchange that took `took` from its beginning to the task that sends them.
    #[cold]
    pub(super) fn export_spans(
        &self,
        spans: &OpenSpans,
        request: &ReadRequest<'_>,
        snapshot: &ListenerSnapshot,
        record: &ExchangeRecord<'_>,
        took: Duration,
    ) {
        let times = SpanTimes::new(record.began, took);
        let mut out = self.worker.spans.borrow_mut();
        let method = method_name(request.head.method);
        let route = route_path(record);
        let name = match (method, route) {
            ("_OTHER", "") => "HTTP".to_owned(),
            ("_OTHER", route) => format!("HTTP {route}"),
            (method, "") => method.to_owned(),
            (method, route) => format!("{method} {route}"),
        };
        let server = SpanHead {
            trace: spans.trace.bytes(),
            id: spans.own.server.bytes(),
            parent: spans.parent.map(|parent| SpanParent {
                id: parent.bytes(),
                is_remote: true,
            }),
            flags: spans.flags.bits(),
            name: &name,
            kind: SpanKind::Server,
            start: times.began,
            end: times.end,
        };
        out.add(&server, |span| {
            put_method(span, request);
            if let Some(target) = request.target {
                // That of CONNECT has none.
                span.bytes("url.path", target.path);
                if let Some(authority) = &target.authority {
                    span.text("server.address", without_brackets(&authority.name()));
                    if let Some(port) = authority.port {
                        span.number("server.port", port.into());
                    }
                }
            }
            let is_secure = self.is_secure(request, record);
            span.text("url.scheme", if is_secure { "https" } else { "http" });
            span.text("http.route", route);
            let version = match request.head.version {
                HttpVersion::Http10 => "1.0",
                HttpVersion::Http11 => "1.1",
                HttpVersion::Http2 => "2",
            };
            span.text("network.protocol.version", version);
            if let ClientAddress::Ip(ip) = record.client {
                let shown = snapshot.generation.rules.mask.shown(ip);
                span.text("client.address", &shown.to_string());
            }
            let site = record.site.map(|site| snapshot.sites().site(site));
            span.text("lockgate.site", site.map_or("", |site| site.name.as_str()));
            put_upstream(span, snapshot, record);
            put_status(span, record.outcome.status);
            if let Some(failure) = &record.failure {
                span.text("lockgate.cause", failure.cause.as_str());
                span.text("lockgate.side", failure.side.as_str());
            }
            let status = record.outcome.status;
            put_end(span, record, (status >= 500).then_some(status));
        });
        let Some(endpoint) = &record.outcome.endpoint else {
            return;
        };
        let start = times.leased_from(record);
        let client = SpanHead {
            id: spans.own.client.bytes(),
            parent: Some(SpanParent {
                id: server.id,
                is_remote: false,
            }),
            name: if method == "_OTHER" { "HTTP" } else { method },
            kind: SpanKind::Client,
            start,
            ..server
        };
        out.add(&client, |span| {
            let outcome = &record.outcome;
            put_method(span, request);
            put_server(span, endpoint);
            put_upstream(span, snapshot, record);
            span.flag("lockgate.reused", outcome.endpoint_reused);
            if outcome.retries > 0 {
                span.number("http.request.resend_count", outcome.retries);
            }
            if outcome.connect.is_some() {
                span.event("connected", times.leased(record));
            }
            let status = outcome.endpoint_status;
            if let (Some(took), 1..) = (outcome.response_head, status) {
                span.event(
                    "first_byte",
                    times.leased(record).saturating_add(nanos(took)),
                );
            }
            put_status(span, status);
            // For a client, what its server refuses has failed.
            put_end(span, record, (status >= 400).then_some(status));
        });
    }
}

/// The times of an exchange, in nanoseconds since 1970.
struct SpanTimes {
    began: u64,
    end: u64,
}

impl SpanTimes {
    /// Those of an exchange that began then and took so long. Both clocks are read one after the other:
    /// its end was measured before it was counted and logged, so it is not now.
    fn new(began: Instant, took: Duration) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let began = nanos(now.unwrap_or_default()).saturating_sub(nanos(began.elapsed()));
        Self {
            began,
            end: began.saturating_add(nanos(took)),
        }
    }

    /// When the request had its connection to the endpoint.
    fn leased(&self, record: &ExchangeRecord<'_>) -> u64 {
        let connect = record.outcome.connect.unwrap_or_default();
        self.waited(record).saturating_add(nanos(connect))
    }

    /// When it began to get that connection. After a retry the times to connect of all attempts are
    /// one: then it is when it had the connection.
    fn leased_from(&self, record: &ExchangeRecord<'_>) -> u64 {
        match record.outcome.retries {
            0 => self.waited(record),
            _ => self.leased(record),
        }
    }

    fn waited(&self, record: &ExchangeRecord<'_>) -> u64 {
        let wait = record.outcome.wait.unwrap_or_default();
        self.began.saturating_add(nanos(wait)).min(self.end)
    }
}

/// The method, of those that are known; another one might be anything.
fn method_name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Connect => "CONNECT",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Patch => "PATCH",
        Method::Other => "_OTHER",
    }
}

fn put_method(span: &mut SpanWriter<'_>, request: &ReadRequest<'_>) {
    let head = request.head;
    span.text("http.request.method", method_name(head.method));
    if head.method == Method::Other {
        span.bytes("http.request.method_original", head.method_name());
    }
}

/// The path of the route as configured, without its method; empty for that of the site itself.
fn route_path<'a>(record: &ExchangeRecord<'a>) -> &'a str {
    let name = record.route.map_or("", |route| route.name.as_str());
    name.find('/').and_then(|at| name.get(at..)).unwrap_or("")
}

/// The pool and the endpoint that responded, or failed to.
fn put_upstream(
    span: &mut SpanWriter<'_>,
    snapshot: &ListenerSnapshot,
    record: &ExchangeRecord<'_>,
) {
    if let Some(upstream) = record.upstream {
        let pool = snapshot.generation.upstream(upstream).pool();
        span.text("lockgate.pool", &pool.settings.name);
    }
    if let Some(endpoint) = &record.outcome.endpoint {
        span.text("lockgate.endpoint", &endpoint.label);
    }
}

/// The address of an endpoint; of a Unix socket that is its path.
fn put_server(span: &mut SpanWriter<'_>, endpoint: &Endpoint) {
    match endpoint.authority() {
        Some((host, port)) => {
            span.text("server.address", without_brackets(host));
            span.number("server.port", port.into());
        }
        None => {
            let label = &*endpoint.label;
            span.text(
                "server.address",
                label.strip_prefix("unix:").unwrap_or(label),
            );
        }
    }
}

/// The status of the response, if there was one.
fn put_status(span: &mut SpanWriter<'_>, status: u16) {
    if status != 0 {
        span.number("http.response.status_code", status.into());
    }
}

/// Has a span fail if it has the status of an error, or if its exchange did not come to its end.
fn put_end(span: &mut SpanWriter<'_>, record: &ExchangeRecord<'_>, failed_status: Option<u16>) {
    // A refusal is a response like others.
    let is_cut =
        |failure: &&ExchangeFailure| failure.fault.is_none_or(|fault| fault.status() >= 500);
    let failure = record.failure.as_ref().filter(is_cut);
    if let Some(failure) = failure {
        span.text("error.type", failure.cause.as_str());
        span.fail(&failure.detail);
    } else if let Some(status) = failed_status {
        span.text("error.type", &status.to_string());
        span.fail("");
    }
}

/// An address of IPv6 as it stands alone.
fn without_brackets(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another program's span lies within ours by the clock of the day, however late ours is written.
    #[test]
    fn spans_have_the_times_of_the_exchange_not_of_their_writing() {
        let second = Duration::from_secs(1);
        let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        // It ended nine seconds ago.
        let began = Instant::now() - 10 * second;
        let before = nanos(since_1970() - 10 * second);
        let times = SpanTimes::new(began, second);
        assert_eq!(times.end - times.began, nanos(second));
        assert!(
            times.began <= before + nanos(second),
            "{} {before}",
            times.began
        );
    }

    #[test]
    fn the_client_span_begins_when_its_connection_was_asked_for() {
        let times = SpanTimes {
            began: 1_000,
            end: 9_000,
        };
        let micros = Duration::from_micros;
        for (wait, connect, retries, from, leased) in [
            (None, None, 0, 1_000, 1_000),
            (Some(micros(1)), None, 0, 2_000, 2_000),
            (Some(micros(1)), Some(micros(2)), 0, 2_000, 4_000),
            (Some(micros(1)), Some(micros(2)), 1, 4_000, 4_000),
            // By a clock that was put forward.
            (Some(micros(100)), None, 0, 9_000, 9_000),
        ] {
            let mut record = ExchangeRecord::new(Instant::now(), ClientAddress::Unix);
            (record.outcome.wait, record.outcome.connect) = (wait, connect);
            record.outcome.retries = retries;
            let found = (times.leased_from(&record), times.leased(&record));
            assert_eq!(found, (from, leased), "{wait:?} {connect:?} {retries}");
        }
    }
}
