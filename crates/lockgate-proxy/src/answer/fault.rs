//! Why Lockgate answers in the origin's place: one row for each reason, and every question about it
//! answered there.
//!
//! Does not write anything: the answer is in [`answer`](super), its field in `proxy_status`.

use crate::access_log::{Cause, Side};

/// What was wrong with an exchange that Lockgate answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
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
    /// The endpoint did not prove who it is.
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
    /// The endpoint closed the connection in the middle of its answer.
    ResponseIncomplete,
    /// The endpoint reset the connection, or the stream, in the middle of its answer.
    ResponseReset,
    /// The endpoint's answer is no HTTP, or can be read in more than one way.
    BadResponse,
    /// The head of the endpoint's answer is longer, or has more fields, than allowed.
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
    /// It did not resolve in time.
    TargetDnsTimeout,
    /// A tunnel's target refuses connections.
    TargetRefused,
    /// There is no way to a tunnel's target.
    TargetUnroutable,
    /// A tunnel's target did not take the connection in time.
    TargetTimeout,
}

/// What there is to say about one fault.
struct Row {
    status: u16,
    error: &'static str,
    cause: Cause,
    side: Side,
    detail: &'static str,
}

const fn row(
    status: u16,
    error: &'static str,
    cause: Cause,
    side: Side,
    detail: &'static str,
) -> Row {
    Row {
        status,
        error,
        cause,
        side,
        detail,
    }
}

/// The client asked for what cannot be served (RFC 9209 §2.3.16).
const REQUEST: &str = "http_request_error";
/// The client asked for what it may not have (RFC 9209 §2.3.17).
const DENIED: &str = "http_request_denied";

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 41] = [
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

    /// The causes are those of the access log. What breaks the protocol is refused by its rules,
    /// and the side says who broke it.
    const fn row(self) -> Row {
        use Cause::{ConnectFailed, Limit, RefusedByRule, TooSlow, UpstreamClosed, UpstreamReset};
        use Side::{Downstream, Lockgate, Upstream};
        match self {
            Self::Malformed => row(
                400,
                REQUEST,
                RefusedByRule,
                Downstream,
                "the request is malformed",
            ),
            Self::RequestTimeout => row(
                408,
                REQUEST,
                TooSlow,
                Downstream,
                "the request took too long",
            ),
            Self::ContentTooLarge => row(
                413,
                REQUEST,
                Limit,
                Lockgate,
                "the request's body is too large",
            ),
            Self::TargetTooLong => row(
                414,
                REQUEST,
                Limit,
                Lockgate,
                "the requested address is too long",
            ),
            Self::HeadTooLarge => row(
                431,
                REQUEST,
                Limit,
                Lockgate,
                "the request's head is too large",
            ),
            Self::Version => row(
                505,
                REQUEST,
                RefusedByRule,
                Downstream,
                "this version of HTTP is not supported",
            ),
            Self::NotImplemented => row(
                501,
                REQUEST,
                RefusedByRule,
                Downstream,
                "the request needs a feature that this server does not support",
            ),
            Self::Unauthorized => row(
                401,
                DENIED,
                RefusedByRule,
                Lockgate,
                "a user name and a password are required",
            ),
            Self::Forbidden => row(
                403,
                DENIED,
                RefusedByRule,
                Lockgate,
                "access is not allowed",
            ),
            Self::NotFound => row(
                404,
                REQUEST,
                RefusedByRule,
                Lockgate,
                "nothing was found at this address",
            ),
            Self::MethodNotAllowed => row(
                405,
                REQUEST,
                RefusedByRule,
                Lockgate,
                "this address does not support the method of the request",
            ),
            Self::Misdirected => row(
                421,
                REQUEST,
                RefusedByRule,
                Lockgate,
                "this connection cannot be used for this host",
            ),
            Self::TooManyRequests => row(
                429,
                REQUEST,
                Limit,
                Lockgate,
                "too many requests: try again later",
            ),
            Self::Dns => row(
                502,
                "dns_error",
                ConnectFailed,
                Upstream,
                "the host name of the application does not resolve",
            ),
            Self::ConnectionRefused => row(
                502,
                "connection_refused",
                ConnectFailed,
                Upstream,
                "the application cannot be reached",
            ),
            Self::ConnectionTimeout => row(
                504,
                "connection_timeout",
                ConnectFailed,
                Upstream,
                "the application did not accept the connection in time",
            ),
            Self::TlsProtocol => row(
                502,
                "tls_protocol_error",
                ConnectFailed,
                Upstream,
                "TLS with the application failed",
            ),
            Self::TlsCertificate => row(
                502,
                "tls_certificate_error",
                ConnectFailed,
                Upstream,
                "the application has no certificate that can be trusted",
            ),
            Self::NoEndpoint => row(
                503,
                "destination_unavailable",
                ConnectFailed,
                Upstream,
                "the application is down",
            ),
            Self::QueueFull => row(
                503,
                "connection_limit_reached",
                Limit,
                Lockgate,
                "the application is busy, and its queue is full",
            ),
            Self::QueueTimeout => row(
                503,
                "connection_limit_reached",
                Limit,
                Lockgate,
                "the application is busy: the request waited for too long",
            ),
            Self::ConnectionClosed => row(
                502,
                "connection_terminated",
                UpstreamClosed,
                Upstream,
                "the application closed the connection before it responded",
            ),
            Self::ConnectionTerminated => row(
                502,
                "connection_terminated",
                UpstreamReset,
                Upstream,
                "the application reset the connection before it responded",
            ),
            Self::WriteTimeout => row(
                504,
                "connection_write_timeout",
                TooSlow,
                Upstream,
                "the application did not read the request in time",
            ),
            Self::ResponseTimeout => row(
                504,
                "http_response_timeout",
                TooSlow,
                Upstream,
                "the application did not respond in time",
            ),
            Self::EndpointDown => row(
                503,
                "destination_unavailable",
                TooSlow,
                Upstream,
                "the application went down before it responded",
            ),
            Self::ResponseIncomplete => row(
                502,
                "http_response_incomplete",
                UpstreamClosed,
                Upstream,
                "the response ended too early",
            ),
            Self::ResponseReset => row(
                502,
                "http_response_incomplete",
                UpstreamReset,
                Upstream,
                "the response was interrupted",
            ),
            Self::BadResponse => row(
                502,
                "http_protocol_error",
                RefusedByRule,
                Upstream,
                "the response is malformed",
            ),
            Self::ResponseHeadTooLarge => row(
                502,
                "http_response_header_section_size",
                Limit,
                Upstream,
                "the header of the response is too large",
            ),
            Self::UpgradeFailed => row(
                502,
                "http_upgrade_failed",
                RefusedByRule,
                Upstream,
                "the application switched to a protocol that was not requested",
            ),
            Self::Exhausted => row(
                503,
                "connection_limit_reached",
                Limit,
                Lockgate,
                "this server is at its limit: try again later",
            ),
            Self::FileUnreadable => row(
                500,
                "proxy_internal_error",
                Cause::Internal,
                Lockgate,
                "the file cannot be read",
            ),
            Self::ProxyUnauthorized => row(
                407,
                DENIED,
                RefusedByRule,
                Lockgate,
                "this proxy requires a user name and a password",
            ),
            Self::TargetForbidden => row(
                403,
                DENIED,
                RefusedByRule,
                Lockgate,
                "the rules of this proxy do not allow this target",
            ),
            Self::TargetPrivate => row(
                403,
                "destination_ip_prohibited",
                RefusedByRule,
                Lockgate,
                "the target has no public address, and this proxy connects to public addresses only",
            ),
            Self::TargetUnknown => row(
                502,
                "dns_error",
                ConnectFailed,
                Upstream,
                "the target's name does not resolve",
            ),
            Self::TargetDnsTimeout => row(
                504,
                "dns_timeout",
                ConnectFailed,
                Upstream,
                "the target's name did not resolve in time",
            ),
            Self::TargetRefused => row(
                502,
                "connection_refused",
                ConnectFailed,
                Upstream,
                "the target refused the connection",
            ),
            Self::TargetUnroutable => row(
                502,
                "destination_ip_unroutable",
                ConnectFailed,
                Upstream,
                "the target cannot be reached",
            ),
            Self::TargetTimeout => row(
                504,
                "connection_timeout",
                ConnectFailed,
                Upstream,
                "the target did not accept the connection in time",
            ),
        }
    }

    /// The status of the answer, unless the configuration asks for another.
    pub const fn status(self) -> u16 {
        self.row().status
    }

    /// The status that ends a call of gRPC. As clients would make it of ours ("HTTP to gRPC Status
    /// Code Mapping") where that says what is so: what may have been done is DEADLINE_EXCEEDED
    /// when it took too long, what certainly was not is UNAVAILABLE, which clients send again.
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

    /// Who was at fault.
    pub const fn side(self) -> Side {
        self.row().side
    }

    /// What a client is told: never an address, a file or a name of what is behind.
    pub const fn detail(self) -> &'static str {
        self.row().detail
    }

    /// The place in [`ALL`](Self::ALL), for a counter per fault.
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
        for fault in Fault::ALL {
            assert!(REGISTERED.contains(&fault.proxy_error()), "{fault:?}");
        }
    }

    #[test]
    fn fault_sides_agree_with_4xx_and_5xx_status_codes() {
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault.index(), place);
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
                501 | 505 => assert_eq!(fault.side(), Side::Downstream),
                400..=499 => assert_ne!(fault.side(), Side::Upstream, "{fault:?}"),
                500..=599 => assert_ne!(fault.side(), Side::Downstream, "{fault:?}"),
                other => panic!("{fault:?} is answered {other}"),
            }
        }
    }
}
