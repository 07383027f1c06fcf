//! Requests of OpenTelemetry's protocol: one at a time, over a connection that is kept.
//!
//! OTLP specification 1.x, "OTLP/HTTP": <https://opentelemetry.io/docs/specs/otlp/#otlphttp>. Does not
//! try again and keeps nothing: the caller has the data.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lockgate_client::{ClientRequest, ExchangeLimits, HttpConnection};
use lockgate_config::OtlpTarget;
use lockgate_content::coding::encode_all;
use lockgate_export::EncodedPoints;
use lockgate_export::otlp::{OtlpResource, PartialSuccess, partial_success};
use lockgate_http::date;

use super::connection::{AGENT, PushError, RESPONSE, connect_http, shown};
use super::sink_transport::SinkTransport;
use super::status::{LossReason, SinkStatus};

/// The path of metrics below the URL.
const METRICS: &str = "/v1/metrics";
/// The path of spans.
pub(super) const TRACES: &str = "/v1/traces";
/// The longest pause that a sink may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// What a sink says of a request that need not be sent again.
pub(super) enum OtlpAnswer {
    /// It has it, or a part of it.
    Taken(Option<PartialSuccess>),
    /// It does not want it.
    Refused(PushError),
}

/// Status, Retry-After and body of a response.
type ReceivedAnswer = (u16, Option<Duration>, Vec<u8>);

/// The way to a sink.
pub(super) struct OtlpClient {
    to: OtlpTarget,
    transport: SinkTransport,
    /// The connection of the last request.
    kept: Option<HttpConnection>,
    /// Whether it was told that the sink rejects a part: it may do so with each request.
    has_told: bool,
}

/// The body of a request, compressed where the sink wants it.
pub(super) fn encode_body(to: &OtlpTarget, body: &[u8]) -> Bytes {
    match to.compression {
        None => Bytes::copy_from_slice(body),
        Some(coding) => encode_all(coding, coding.fast_level(), body).into(),
    }
}

/// The process as a resource.
pub(super) fn resource(to: &OtlpTarget, host: &str) -> OtlpResource {
    OtlpResource {
        service: to.service.clone(),
        // Others of this name may run on the machine, and in the middle of an upgrade one does.
        instance: format!("{host}:{}", std::process::id()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: host.to_owned(),
    }
}

impl OtlpClient {
    pub(super) fn new(to: OtlpTarget, transport: SinkTransport) -> Self {
        Self {
            to,
            transport,
            kept: None,
            has_told: false,
        }
    }

    /// Sends an encoded body to the path of a signal, within `limit`.
    ///
    /// # Errors
    /// When it may be sent again.
    pub(super) async fn post(
        &mut self,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<OtlpAnswer, PushError> {
        let limits = ExchangeLimits {
            time: limit,
            head_bytes: 64 * 1024,
            body_bytes: RESPONSE,
        };
        let (status, pause, text) = limits.bound(self.exchange(path, body, limits)).await?;
        match status {
            200..300 => Ok(OtlpAnswer::Taken(partial_success(&text))),
            // "Retryable Response Codes"; "All other 4xx or 5xx response status codes MUST NOT be
            // retried."
            429 | 502 | 503 | 504 => Err(PushError::Busy(status, pause)),
            _ => Ok(OtlpAnswer::Refused(PushError::Status(status, shown(&text)))),
        }
    }

    /// Status, Retry-After and body of the response to a request: on the kept connection, or on a new
    /// one where there is none or the sink has closed it meanwhile.
    async fn exchange(
        &mut self,
        path: &str,
        body: Bytes,
        limits: ExchangeLimits,
    ) -> Result<ReceivedAnswer, PushError> {
        if let Some(mut kept) = self.kept.take()
            && let Ok(found) = self.ask(&mut kept, path, body.clone()).await
        {
            self.keep(kept, &found.2);
            return Ok(found);
        }
        let to = &self.to.url.addr;
        let mut connection = connect_http(to, &self.transport, limits).await?;
        let found = self.ask(&mut connection, path, body).await?;
        self.keep(connection, &found.2);
        Ok(found)
    }

    /// Keeps a connection on which the last response was read to its end.
    fn keep(&mut self, connection: HttpConnection, text: &[u8]) {
        self.kept = (text.len() < RESPONSE).then_some(connection);
    }

    async fn ask(
        &self,
        connection: &mut HttpConnection,
        path: &str,
        body: Bytes,
    ) -> Result<ReceivedAnswer, PushError> {
        let mut fields = Vec::new();
        // A configured one takes its place.
        if !self.to.fields.iter().any(|(name, _)| name == "user-agent") {
            fields.push(("user-agent", AGENT));
        }
        fields.push(("content-type", "application/x-protobuf"));
        if let Some(coding) = self.to.compression {
            fields.push(("content-encoding", coding.token()));
        }
        let configured = self.to.fields.iter();
        fields.extend(configured.map(|(name, value)| (name.as_str(), value.0.as_str())));
        let request = ClientRequest {
            method: "POST",
            host: &self.to.url.host,
            path: &format!("{}{path}", self.to.url.path),
            fields: &fields,
            body,
        };
        let mut response = connection.exchange(&request).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let text = response.read(|_, _| false).await?;
        let pause = response.fields.get("retry-after");
        let pause = pause.and_then(|value| retry_after(value.as_bytes(), now));
        Ok((response.status, pause, text))
    }

    /// Tells the operator once of what the sink `name` does not take of what it is sent.
    pub(super) fn tell_rejected(&mut self, name: &str, partial: &PartialSuccess) {
        if !std::mem::replace(&mut self.has_told, true) {
            let (rejected, why) = (partial.rejected, partial.message.as_str());
            tracing::warn!(
                sink = name,
                rejected,
                why,
                "a part of what is sent is rejected"
            );
        }
    }
}

/// The pause that a Retry-After asks for, seconds or a date (RFC 9110 §10.2.3), of at most five
/// minutes; `now` is in seconds since 1970.
fn retry_after(value: &[u8], now: u64) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    let seconds = match text.parse() {
        Ok(seconds) => seconds,
        Err(_) => date::parse(text.as_bytes(), now)?.saturating_sub(now),
    };
    Some(LONGEST_RETRY_AFTER.min(Duration::from_secs(seconds)))
}

/// Metrics to a sink.
pub(super) struct OtlpSink(OtlpClient);

impl OtlpSink {
    pub(super) fn new(to: OtlpTarget, transport: SinkTransport) -> Box<Self> {
        Box::new(Self(OtlpClient::new(to, transport)))
    }

    /// Sends what is left of the points, each request within `limit`.
    ///
    /// # Errors
    /// When not all were sent, or some were refused. Points that are left then may be sent again.
    pub(super) async fn send(
        &mut self,
        points: &mut EncodedPoints,
        status: &SinkStatus,
        limit: Duration,
    ) -> Result<(), PushError> {
        let Self(client) = self;
        let mut outcome = Ok(());
        while let Some(frame) = points.next_frame() {
            let body = encode_body(&client.to, frame.bytes);
            match client.post(METRICS, body, limit).await? {
                OtlpAnswer::Taken(partial) => {
                    let sent = points.advance();
                    let rejected = partial.as_ref().map_or(0, |partial| partial.rejected);
                    let rejected = rejected.min(sent);
                    status.add_points(sent - rejected);
                    status.add_lost(LossReason::Refused, rejected);
                    if let Some(partial) = &partial {
                        client.tell_rejected(&status.name, partial);
                    }
                }
                OtlpAnswer::Refused(why) => {
                    status.add_lost(LossReason::Refused, points.advance());
                    outcome = Err(why);
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §10.2.3: delay-seconds or HTTP-date.
    #[test]
    fn retry_after_of_a_sink_is_seconds_or_a_date_and_bounded() {
        let now = 784_111_777;
        for (value, seconds) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("301", Some(300)),
            ("18446744073709551615", Some(300)),
            ("Sun, 06 Nov 1994 08:49:57 GMT", Some(20)),
            ("Sun, 06 Nov 1994 08:49:17 GMT", Some(0)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some(300)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let found = retry_after(value.as_bytes(), now);
            assert_eq!(found, seconds.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after(b"\xff", now), None);
    }
}
