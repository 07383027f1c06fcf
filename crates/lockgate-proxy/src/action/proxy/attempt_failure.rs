//! The failure of one attempt, before there was a response: what the verdict on the endpoint and on
//! another attempt needs.

use std::borrow::Cow;

use lockgate_limits::clock::Cut;
use lockgate_upstream::{EndpointFailure, Lease, UpstreamConnection};

use crate::error_response::HttpFault;
use crate::exchange::ExchangeFailure;

/// The failure of an attempt before the response began.
pub(super) struct AttemptFailure {
    pub(super) failure: ExchangeFailure,
    /// Whether any byte of the request has left.
    pub(super) sent: bool,
    /// Whether another attempt could go better: not if it was the client.
    pub(super) worth: bool,
    /// Whether the endpoint was waited for in vain.
    pub(super) late: bool,
    /// Whether a part of the response's head has come.
    begun: bool,
    /// Whether the endpoint has reset the stream alone: over HTTP/2 that is a response to what the
    /// client has sent.
    pub(super) stream_reset: bool,
    /// The verdict on the endpoint, if that is to blame.
    pub(super) blames: Option<EndpointFailure>,
}

/// The way in which a connection or a stream ended before the response.
#[derive(Clone, Copy)]
pub(super) enum UpstreamEnd {
    /// The endpoint has closed the connection in an orderly way.
    Closed,
    /// The connection has broken.
    Reset,
    /// The endpoint has reset the stream, and the connection goes on.
    StreamReset,
}

impl AttemptFailure {
    /// The attempt ended without a fault of the connection.
    pub(super) fn end(failure: ExchangeFailure) -> Self {
        // A response that cannot be read is the endpoint's.
        let blames =
            (failure.fault == Some(HttpFault::BadResponse)).then_some(EndpointFailure::Unserved);
        Self {
            failure,
            sent: true,
            worth: false,
            late: false,
            begun: false,
            stream_reset: false,
            blames,
        }
    }

    /// The endpoint broke off.
    pub(super) fn broken(
        up: &UpstreamConnection,
        how: UpstreamEnd,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let begun = up.has_begun_response();
        // RFC 9209 §2.3.8, §2.3.18: it is another error once a part of the response was received.
        let fault = match (how, begun) {
            (UpstreamEnd::Closed, false) => HttpFault::ConnectionClosed,
            (UpstreamEnd::Reset | UpstreamEnd::StreamReset, false) => {
                HttpFault::ConnectionTerminated
            }
            (UpstreamEnd::Closed, true) => HttpFault::ResponseIncomplete,
            (UpstreamEnd::Reset | UpstreamEnd::StreamReset, true) => HttpFault::ResponseReset,
        };
        let failure = ExchangeFailure::because(fault, detail);
        let stream_reset = matches!(how, UpstreamEnd::StreamReset);
        let blames = (!stream_reset).then_some(EndpointFailure::Reset);
        Self {
            failure,
            sent: up.has_sent(),
            worth: true,
            late: false,
            begun,
            stream_reset,
            blames,
        }
    }

    /// We do not wait any longer. Whether the endpoint had the whole request, and whether the client
    /// sends it without a 100.
    pub(super) fn cut(up: &UpstreamConnection, cut: Cut, uploaded: bool, invited: bool) -> Self {
        let fault = if uploaded {
            HttpFault::ResponseTimeout
        } else {
            HttpFault::WriteTimeout
        };
        let late = matches!(cut, Cut::Deadline | Cut::EndpointDown);
        // Where the client holds its body back, the endpoint may be waiting for that.
        let blames = (late && (invited || uploaded)).then_some(EndpointFailure::Unserved);
        Self {
            failure: ExchangeFailure::cut(cut, fault),
            sent: up.has_sent(),
            worth: late,
            late,
            begun: false,
            stream_reset: false,
            blames,
        }
    }

    /// Whether the failure tells nothing about the endpoint: a connection that was kept may be
    /// closed at any time, also when the request is on its way (RFC 9112 §9.5).
    pub(super) fn is_stale(&self, lease: &Lease) -> bool {
        lease.is_reused() && !self.late && !self.begun && lease.connection.is_lost()
    }
}
