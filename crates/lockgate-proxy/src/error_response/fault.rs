//! Why Lockgate responds instead of the origin: one row for each reason, and every question about
//! it answered there.
//!
//! Does not write anything: the response is in [`error_response`](super), its field in
//! `proxy_status`.

use crate::access_log::{Cause, CauseSide};

/// The fault of an exchange that Lockgate responds to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpFault {
    /// The request cannot be read in one way only.
    Malformed,
    /// The request's head or body did not come in time.
    RequestTimeout,
    /// The request's body is longer than allowed.
    ContentTooLarge,
    /// The request's target is longer than allowed.
    TargetTooLong,
    /// The request's head is longer, or has more fields, than allowed.
    HeadTooLarge,
    /// A version of HTTP that is not spoken here.
    Version,
    /// A transfer coding or a method that is not spoken here.
    NotImplemented,
    /// No credentials, or wrong ones.
    Unauthorized,
    /// This client may not.
    Forbidden,
    /// No site has the host, or no route the path.
    NotFound,
    /// The route takes other methods.
    MethodNotAllowed,
    /// The connection was opened for another site.
    Misdirected,
    /// The site is in maintenance.
    Maintenance,
    /// The client has asked too often.
    TooManyRequests,
    /// The endpoint's name does not resolve.
    Dns,
    /// The endpoint refuses connections, or cannot be reached.
    ConnectionRefused,
    /// The endpoint did not take the connection in time.
    ConnectionTimeout,
    /// TLS with the endpoint failed.
    TlsProtocol,
    /// The endpoint's certificate was not accepted.
    TlsCertificate,
    /// No endpoint is up.
    NoEndpoint,
    /// Every endpoint is at its limit, and so is the queue.
    QueueFull,
    /// No endpoint became free in time.
    QueueTimeout,
    /// The endpoint closed the connection before it answered.
    ConnectionClosed,
    /// The endpoint reset the connection, or the stream, before it answered.
    ConnectionTerminated,
    /// The endpoint did not take the request in time.
    WriteTimeout,
    /// The endpoint did not answer in time.
    ResponseTimeout,
    /// The endpoint was found to be down before it answered.
    EndpointDown,
    /// The endpoint closed the connection in the middle of its response.
    ResponseIncomplete,
    /// The endpoint reset the connection, or the stream, in the middle of its response.
    ResponseReset,
    /// The endpoint's response is no HTTP, or can be read in more than one way.
    BadResponse,
    /// The head of the endpoint's response is longer, or has more fields, than allowed.
    ResponseHeadTooLarge,
    /// The endpoint switched to a protocol that was not asked for.
    UpgradeFailed,
    /// We have nothing left to connect with.
    Exhausted,
    /// A file, or the directory that files are below, cannot be read.
    FileUnreadable,
    /// No credentials for a proxy, or wrong ones.
    ProxyUnauthorized,
    /// A tunnel may not lead there.
    TargetForbidden,
    /// A tunnel may not lead to an address that is not public.
    TargetPrivate,
    /// The name of a tunnel's target does not resolve.
    TargetUnknown,
    /// The name did not resolve in time.
    TargetDnsTimeout,
    /// A tunnel's target refuses connections.
    TargetRefused,
    /// There is no way to a tunnel's target.
    TargetUnroutable,
    /// A tunnel's target did not take the connection in time.
    TargetTimeout,
}

/// The properties of one fault.
struct FaultRow {
    status: u16,
    error: &'static str,
    cause: Cause,
    side: CauseSide,
    detail: &'static str,
}

const fn row(
    status: u16,
    error: &'static str,
    cause: Cause,
    side: CauseSide,
    detail: &'static str,
) -> FaultRow {
    FaultRow {
        status,
        error,
        cause,
        side,
        detail,
    }
}

/// The client has broken the protocol.
const fn malformed(status: u16, detail: &'static str) -> FaultRow {
    let side = CauseSide::Downstream;
    row(status, REQUEST, Cause::RefusedByRule, side, detail)
}

/// A rule does not allow the request.
const fn refused(status: u16, detail: &'static str) -> FaultRow {
    let side = CauseSide::Lockgate;
    row(status, REQUEST, Cause::RefusedByRule, side, detail)
}

/// A rule denies the client access.
const fn denied(status: u16, detail: &'static str) -> FaultRow {
    let side = CauseSide::Lockgate;
    row(status, DENIED, Cause::RefusedByRule, side, detail)
}

/// The request is past a limit.
const fn limited(status: u16, detail: &'static str) -> FaultRow {
    row(status, REQUEST, Cause::Limit, CauseSide::Lockgate, detail)
}

/// All connections to an origin are in use.
const fn busy(detail: &'static str) -> FaultRow {
    let error = "connection_limit_reached";
    row(503, error, Cause::Limit, CauseSide::Lockgate, detail)
}

/// There is no connection to the origin.
const fn unreachable(status: u16, error: &'static str, detail: &'static str) -> FaultRow {
    let (cause, side) = (Cause::ConnectFailed, CauseSide::Upstream);
    row(status, error, cause, side, detail)
}

/// The origin has failed on a connection.
const fn broken(status: u16, error: &'static str, cause: Cause, detail: &'static str) -> FaultRow {
    row(status, error, cause, CauseSide::Upstream, detail)
}

/// The request cannot be served (RFC 9209 §2.3.16).
const REQUEST: &str = "http_request_error";
/// The client has no access (RFC 9209 §2.3.17).
const DENIED: &str = "http_request_denied";

impl HttpFault {
    /// Every fault.
    pub const ALL: [Self; 42] = [
        Self::Malformed,
        Self::RequestTimeout,
        Self::ContentTooLarge,
        Self::TargetTooLong,
        Self::HeadTooLarge,
        Self::Version,
        Self::NotImplemented,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Misdirected,
        Self::Maintenance,
        Self::TooManyRequests,
        Self::Dns,
        Self::ConnectionRefused,
        Self::ConnectionTimeout,
        Self::TlsProtocol,
        Self::TlsCertificate,
        Self::NoEndpoint,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::ConnectionClosed,
        Self::ConnectionTerminated,
        Self::WriteTimeout,
        Self::ResponseTimeout,
        Self::EndpointDown,
        Self::ResponseIncomplete,
        Self::ResponseReset,
        Self::BadResponse,
        Self::ResponseHeadTooLarge,
        Self::UpgradeFailed,
        Self::Exhausted,
        Self::FileUnreadable,
        Self::ProxyUnauthorized,
        Self::TargetForbidden,
        Self::TargetPrivate,
        Self::TargetUnknown,
        Self::TargetDnsTimeout,
        Self::TargetRefused,
        Self::TargetUnroutable,
        Self::TargetTimeout,
    ];

    /// The fault of a request with an unreadable head, for which this status was found.
    pub(crate) const fn of_head(status: u16) -> Self {
        match status {
            414 => Self::TargetTooLong,
            431 => Self::HeadTooLarge,
            501 => Self::NotImplemented,
            505 => Self::Version,
            _ => Self::Malformed,
        }
    }

    /// The causes are those of the access log. A breach of the protocol is refused by its rules,
    /// and the side tells which peer broke it.
    const fn row(self) -> FaultRow {
        use Cause::{Limit, RefusedByRule, TooSlow, UpstreamClosed, UpstreamReset};
        use CauseSide::{Downstream, Lockgate};
        match self {
            Self::Malformed => malformed(400, "the request is malformed"),
            Self::RequestTimeout => row(
                408,
                REQUEST,
                TooSlow,
                Downstream,
                "the request took too long",
            ),
            Self::ContentTooLarge => limited(413, "the request's body is too large"),
            Self::TargetTooLong => limited(414, "the requested address is too long"),
            Self::HeadTooLarge => limited(431, "the request's head is too large"),
            Self::Version => malformed(505, "this version of HTTP is not supported"),
            Self::NotImplemented => malformed(
                501,
                "the request needs a feature that this server does not support",
            ),
            Self::Unauthorized => denied(401, "a user name and a password are required"),
            Self::Forbidden => denied(403, "access is not allowed"),
            Self::NotFound => refused(404, "nothing was found at this address"),
            Self::MethodNotAllowed => refused(
                405,
                "this address does not support the method of the request",
            ),
            Self::Misdirected => refused(421, "this connection cannot be used for this host"),
            Self::Maintenance => row(
                503,
                "destination_unavailable",
                RefusedByRule,
                Lockgate,
                "the site is in maintenance: try again later",
            ),
            Self::TooManyRequests => limited(429, "too many requests: try again later"),
            Self::Dns => unreachable(
                502,
                "dns_error",
                "the host name of the application does not resolve",
            ),
            Self::ConnectionRefused => unreachable(
                502,
                "connection_refused",
                "the application cannot be reached",
            ),
            Self::ConnectionTimeout => unreachable(
                504,
                "connection_timeout",
                "the application did not accept the connection in time",
            ),
            Self::TlsProtocol => {
                unreachable(502, "tls_protocol_error", "TLS with the application failed")
            }
            Self::TlsCertificate => unreachable(
                502,
                "tls_certificate_error",
                "the application has no certificate that can be trusted",
            ),
            Self::NoEndpoint => {
                unreachable(503, "destination_unavailable", "the application is down")
            }
            Self::QueueFull => busy("the application is busy, and its queue is full"),
            Self::QueueTimeout => busy("the application is busy: the request waited for too long"),
            Self::ConnectionClosed => broken(
                502,
                "connection_terminated",
                UpstreamClosed,
                "the application closed the connection before it responded",
            ),
            Self::ConnectionTerminated => broken(
                502,
                "connection_terminated",
                UpstreamReset,
                "the application reset the connection before it responded",
            ),
            Self::WriteTimeout => broken(
                504,
                "connection_write_timeout",
                TooSlow,
                "the application did not read the request in time",
            ),
            Self::ResponseTimeout => broken(
                504,
                "http_response_timeout",
                TooSlow,
                "the application did not respond in time",
            ),
            Self::EndpointDown => broken(
                503,
                "destination_unavailable",
                TooSlow,
                "the application went down before it responded",
            ),
            Self::ResponseIncomplete => broken(
                502,
                "http_response_incomplete",
                UpstreamClosed,
                "the response ended too early",
            ),
            Self::ResponseReset => broken(
                502,
                "http_response_incomplete",
                UpstreamReset,
                "the response was interrupted",
            ),
            Self::BadResponse => broken(
                502,
                "http_protocol_error",
                RefusedByRule,
                "the response is malformed",
            ),
            Self::ResponseHeadTooLarge => broken(
                502,
                "http_response_header_section_size",
                Limit,
                "the header of the response is too large",
            ),
            Self::UpgradeFailed => broken(
                502,
                "http_upgrade_failed",
                RefusedByRule,
                "the application switched to a protocol that was not requested",
            ),
            Self::Exhausted => busy("this server is at its limit: try again later"),
            Self::FileUnreadable => row(
                500,
                "proxy_internal_error",
                Cause::Internal,
                Lockgate,
                "the file cannot be read",
            ),
            Self::ProxyUnauthorized => {
                denied(407, "this proxy requires a user name and a password")
            }
            Self::TargetForbidden => {
                denied(403, "the rules of this proxy do not allow this target")
            }
            Self::TargetPrivate => row(
                403,
                "destination_ip_prohibited",
                RefusedByRule,
                Lockgate,
                "the target has no public address, and this proxy connects to public addresses only",
            ),
            Self::TargetUnknown => {
                unreachable(502, "dns_error", "the target's name does not resolve")
            }
            Self::TargetDnsTimeout => unreachable(
                504,
                "dns_timeout",
                "the target's name did not resolve in time",
            ),
            Self::TargetRefused => unreachable(
                502,
                "connection_refused",
                "the target refused the connection",
            ),
            Self::TargetUnroutable => unreachable(
                502,
                "destination_ip_unroutable",
                "the target cannot be reached",
            ),
            Self::TargetTimeout => unreachable(
                504,
                "connection_timeout",
                "the target did not accept the connection in time",
            ),
        }
    }

    /// The status of the response, unless the configuration asks for another.
    pub const fn status(self) -> u16 {
        self.row().status
    }

    /// The gRPC status of the fault. As clients would derive it from ours ("HTTP to gRPC Status
    /// Code Mapping") where that is true: a request that may have been processed is
    /// DEADLINE_EXCEEDED when it took too long, one that certainly was not is UNAVAILABLE, which
    /// clients retry.
    pub const fn grpc_status(self) -> u16 {
        const DEADLINE_EXCEEDED: u16 = 4;
        const PERMISSION_DENIED: u16 = 7;
        const RESOURCE_EXHAUSTED: u16 = 8;
        const UNIMPLEMENTED: u16 = 12;
        const INTERNAL: u16 = 13;
        const UNAVAILABLE: u16 = 14;
        const UNAUTHENTICATED: u16 = 16;
        match self {
            Self::RequestTimeout | Self::WriteTimeout | Self::ResponseTimeout => DEADLINE_EXCEEDED,
            Self::Forbidden | Self::TargetForbidden | Self::TargetPrivate => PERMISSION_DENIED,
            Self::ContentTooLarge
            | Self::TargetTooLong
            | Self::HeadTooLarge
            | Self::TooManyRequests
            | Self::ResponseHeadTooLarge => RESOURCE_EXHAUSTED,
            Self::NotFound | Self::MethodNotAllowed | Self::NotImplemented | Self::Version => {
                UNIMPLEMENTED
            }
            Self::Malformed | Self::BadResponse | Self::UpgradeFailed | Self::FileUnreadable => {
                INTERNAL
            }
            Self::Unauthorized | Self::ProxyUnauthorized => UNAUTHENTICATED,
            Self::Misdirected
            | Self::Maintenance
            | Self::Dns
            | Self::ConnectionRefused
            | Self::ConnectionTimeout
            | Self::TlsProtocol
            | Self::TlsCertificate
            | Self::NoEndpoint
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::ConnectionClosed
            | Self::ConnectionTerminated
            | Self::EndpointDown
            | Self::ResponseIncomplete
            | Self::ResponseReset
            | Self::Exhausted
            | Self::TargetUnknown
            | Self::TargetDnsTimeout
            | Self::TargetRefused
            | Self::TargetUnroutable
            | Self::TargetTimeout => UNAVAILABLE,
        }
    }

    /// The error's type as registered by RFC 9209 §2.3.
    pub const fn proxy_error(self) -> &'static str {
        self.row().error
    }

    /// The cause in log, metric and page.
    pub const fn cause(self) -> Cause {
        self.row().cause
    }

    /// The side at fault.
    pub const fn side(self) -> CauseSide {
        self.row().side
    }

    /// The text for the client: never an address, a file or a name behind us.
    pub const fn detail(self) -> &'static str {
        self.row().detail
    }

    /// The index in [`ALL`](Self::ALL), for a counter per fault.
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9209 §2.3, in its order.
    const REGISTERED: [&str; 32] = [
        "dns_timeout",
        "dns_error",
        "destination_not_found",
        "destination_unavailable",
        "destination_ip_prohibited",
        "destination_ip_unroutable",
        "connection_refused",
        "connection_terminated",
        "connection_timeout",
        "connection_read_timeout",
        "connection_write_timeout",
        "connection_limit_reached",
        "tls_protocol_error",
        "tls_certificate_error",
        "tls_alert_received",
        "http_request_error",
        "http_request_denied",
        "http_response_incomplete",
        "http_response_header_section_size",
        "http_response_header_size",
        "http_response_body_size",
        "http_response_trailer_section_size",
        "http_response_trailer_size",
        "http_response_transfer_coding",
        "http_response_content_coding",
        "http_response_timeout",
        "http_upgrade_failed",
        "http_protocol_error",
        "proxy_internal_response",
        "proxy_internal_error",
        "proxy_configuration_error",
        "proxy_loop_detected",
    ];

    #[test]
    fn every_proxy_status_error_type_is_registered() {
        for fault in HttpFault::ALL {
            assert!(REGISTERED.contains(&fault.proxy_error()), "{fault:?}");
        }
    }

    #[test]
    fn fault_sides_agree_with_4xx_and_5xx_status_codes() {
        for (index, fault) in HttpFault::ALL.into_iter().enumerate() {
            assert_eq!(fault.index(), index);
            assert!(
                !lockgate_http::status::reason(fault.status()).is_empty(),
                "{fault:?}"
            );
            assert!(
                fault
                    .detail()
                    .bytes()
                    .all(|byte| matches!(byte, b' '..=b'~')),
                "{fault:?}"
            );
            match fault.status() {
                501 | 505 => assert_eq!(fault.side(), CauseSide::Downstream),
                400..=499 => assert_ne!(fault.side(), CauseSide::Upstream, "{fault:?}"),
                500..=599 => assert_ne!(fault.side(), CauseSide::Downstream, "{fault:?}"),
                other => panic!("{fault:?} is answered {other}"),
            }
        }
    }
}
