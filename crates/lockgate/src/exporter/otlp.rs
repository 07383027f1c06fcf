//! Requests of OpenTelemetry's protocol: one at a time, over a connection that is kept.
//!
//! OTLP specification 1.x, "OTLP/HTTP": <https://opentelemetry.io/docs/specs/otlp/#otlphttp>. Does not
//! try again and keeps nothing: the caller has the data.

use std::time::Duration;

use bytes::Bytes;
use lockgate_client::{ClientRequest, ExchangeLimits, HttpConnection};
use lockgate_config::OtlpTarget;
use lockgate_content::coding::encode_all;
use lockgate_export::EncodedPoints;
use lockgate_export::otlp::{OtlpResource, PartialSuccess, partial_success};

use super::connection::{PushError, connect_http};
use super::sink_response::{AGENT, RESPONSE, ReceivedAnswer, limits, receive, shown};
use super::sink_transport::SinkTransport;
use super::status::{LossReason, SinkStatus};

/// The path of metrics below the URL.
const METRICS: &str = "/v1/metrics";
/// The path of spans.
pub(super) const TRACES: &str = "/v1/traces";

/// What a sink says of a request that need not be sent again.
pub(super) enum OtlpAnswer {
    /// It has it, or a part of it.
    Taken(Option<PartialSuccess>),
    /// It does not want it.
    Refused(PushError),
}

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
        let limits = limits(limit);
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
        Ok(receive(connection.exchange(&request).await?).await?)
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
