//! The fields and causes of the access log with their meanings: `docs/observe.md` is made of these
//! tables.
//!
//! Does not write lines: `exchange_entry` and the entry of a connection do, and a test holds their
//! fields against these tables.

use super::{Cause, CauseSide};

/// A field of a line, and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct LogField {
    /// The name in JSON and logfmt.
    pub name: &'static str,
    /// The meaning, with its unit.
    pub meaning: &'static str,
}

const fn field(name: &'static str, meaning: &'static str) -> LogField {
    LogField { name, meaning }
}

/// The fields of the line of an exchange (a request and its response), in the order of the line.
pub const EXCHANGE: &[LogField] = &[
    field(
        "time",
        "when the first byte of the request came: ISO 8601 in UTC with milliseconds",
    ),
    field(
        "id",
        "the id of the request; the application gets the same one",
    ),
    field(
        "trace_id",
        "the trace that the request belongs to (W3C Trace Context)",
    ),
    field(
        "connection",
        "the id of the client's connection, 16 hexadecimal digits",
    ),
    field(
        "listener",
        "the address that accepted the connection, as the configuration has it",
    ),
    field(
        "client",
        "the client's address, after PROXY headers and forwarding fields of `trusted` peers; `unix` for a Unix socket",
    ),
    field("client_port", "the client's port"),
    field(
        "peer",
        "the address of the TCP peer: the client, or the proxy in front of Lockgate",
    ),
    field("peer_port", "the port of the TCP peer"),
    field("user", "the user that `auth.basic` has verified"),
    field("method", "the method"),
    field("scheme", "`http` or `https`, as the client sees it"),
    field(
        "host",
        "the host of the request, with its port if the request has one",
    ),
    field(
        "target",
        "the request-target as received; after 8 KB it is cut, and ends in `…`",
    ),
    field(
        "protocol",
        "the version of HTTP between the client and Lockgate",
    ),
    field(
        "status",
        "the status of the response; 499 if the client left before it",
    ),
    field("received_bytes", "bytes of the request body"),
    field("sent_bytes", "bytes of the response body"),
    field(
        "duration_seconds",
        "from the first byte of the request to the last byte of the response",
    ),
    field(
        "wait_seconds",
        "routing, access control, and the wait for a free endpoint",
    ),
    field(
        "connect_seconds",
        "the time to connect to the endpoint, retries included; absent if the connection was reused",
    ),
    field(
        "first_byte_seconds",
        "from the request to the end of the final response's head",
    ),
    field("body_seconds", "from there to the end of the response"),
    field("site", "the site, as the configuration has it"),
    field("route", "the route, as the configuration has it"),
    field("pool", "the pool that served the request"),
    field(
        "endpoint",
        "the endpoint that served the request, or the last one that was tried",
    ),
    field(
        "reused",
        "whether the connection to the endpoint had served another request before",
    ),
    field(
        "tried",
        "the endpoints that failed before it, separated by commas; absent if none",
    ),
    field(
        "retries",
        "the number of retries; absent if there were none",
    ),
    field("grpc_status", "of a gRPC call: its final status"),
    field(
        "cause",
        "what went wrong: see the causes below; absent if nothing did",
    ),
    field(
        "side",
        "where it went wrong: `downstream` (the client), `upstream` (the endpoint) or `lockgate`",
    ),
    field(
        "detail",
        "more about the cause, for people; its text may change",
    ),
    field("tls_version", "the TLS version of the client's connection"),
    field("cipher", "the cipher suite of the client's connection"),
    field("alpn", "the protocol that ALPN agreed on"),
    field("sni", "the server name of the ClientHello"),
    field(
        "resumed",
        "whether the client resumed an earlier TLS session",
    ),
    field("client_cn", "the common name of the client's certificate"),
    field(
        "referer",
        "the field `Referer` of the request; at most 1 KB",
    ),
    field(
        "user_agent",
        "the field `User-Agent` of the request; at most 1 KB",
    ),
];

/// The fields of the line of a connection (a relay, a tunnel, an upgrade, or one that ended before
/// HTTP began), in the order of the line.
pub const CONNECTION: &[LogField] = &[
    field(
        "time",
        "when the connection was accepted, or the tunnel began: ISO 8601 in UTC with milliseconds",
    ),
    field("id", "the id of the connection, 16 hexadecimal digits"),
    field(
        "listener",
        "the address that accepted the connection, as the configuration has it",
    ),
    field(
        "client",
        "the client's address, after a PROXY header where one is expected; `unix` for a Unix socket",
    ),
    field("client_port", "the client's port"),
    field(
        "peer",
        "the address of the TCP peer: the client, or the proxy in front of Lockgate",
    ),
    field("peer_port", "the port of the TCP peer"),
    field(
        "request",
        "of a tunnel or an upgrade: the id of the request that opened it",
    ),
    field(
        "host",
        "of a tunnel or an upgrade: the host that the request named",
    ),
    field(
        "user",
        "of a tunnel or an upgrade: the user that `auth.basic` has verified",
    ),
    field("sni", "the server name of the ClientHello"),
    field("alpn", "the protocol that ALPN agreed on"),
    field("tls_version", "the TLS version"),
    field("cipher", "the cipher suite"),
    field(
        "resumed",
        "whether the client resumed an earlier TLS session",
    ),
    field("client_cn", "the common name of the client's certificate"),
    field("received_bytes", "bytes from the client"),
    field("sent_bytes", "bytes to the client"),
    field(
        "received_first_byte_seconds",
        "the time until the first byte from the client was relayed",
    ),
    field(
        "sent_first_byte_seconds",
        "the time until the first byte to the client was relayed",
    ),
    field(
        "received_end_seconds",
        "the time until the client ended its direction",
    ),
    field(
        "sent_end_seconds",
        "the time until the endpoint ended its direction",
    ),
    field(
        "received_bytes_per_second",
        "the mean rate from the client, until that direction ended",
    ),
    field(
        "sent_bytes_per_second",
        "the mean rate to the client, until that direction ended",
    ),
    field(
        "handshake_seconds",
        "from the acceptance to the end of the TLS handshake",
    ),
    field(
        "connect_seconds",
        "the time to choose an endpoint and to connect to it, retries included",
    ),
    field("duration_seconds", "from the acceptance to the end"),
    field("endpoint", "the endpoint that served the connection"),
    field("cause", "why the connection ended: see the causes below"),
    field(
        "side",
        "where it ended: `downstream` (the client), `upstream` (the endpoint) or `lockgate`",
    ),
    field(
        "detail",
        "more about the cause, for people; its text may change",
    ),
];

impl Cause {
    /// The meaning of the cause.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::ClientClosed => {
                "The connection ended in an orderly way: the client closed it, or Lockgate did after the last response."
            }
            Self::UpstreamClosed => {
                "The endpoint closed its connection in an orderly way; of an exchange: before its response was complete."
            }
            Self::ClientReset => "The client reset its connection, or a stream of it.",
            Self::UpstreamReset => "The endpoint reset its connection, or a stream of it.",
            Self::Idle => "Nothing moved for `timeouts.idle` or `timeouts.tunnel_idle`.",
            Self::Lifetime => "The connection lived for its `max_lifetime`.",
            Self::TooSlow => {
                "A peer missed a deadline of `timeouts`, or stayed below its minimum of `rates`."
            }
            Self::HandshakeFailed => {
                "The TLS handshake with the client failed; `detail` has the reason."
            }
            Self::ConnectFailed => {
                "No connection to an endpoint could be made, its TLS handshake included; `detail` has the last error."
            }
            Self::RefusedByRule => {
                "A rule refused it: of the configuration (`allow`, `auth`, `body.max`, …) or of the protocol (a malformed message)."
            }
            Self::Limit => "A limit was reached; `detail` names it.",
            Self::Drain => {
                "Lockgate was stopping and `drain.deadline` passed, or the operator has closed the connection."
            }
            Self::Internal => "An internal error of Lockgate.",
        }
    }

    /// The advice to an operator that sees the cause too often.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::ClientClosed => "Nothing: this is how most connections end.",
            Self::UpstreamClosed => {
                "Relays: nothing. Exchanges: look into the application's log, it closed the connection during its response. If only reused connections are affected, the application closes idle connections sooner than `idle.for` of the pool."
            }
            Self::ClientReset => {
                "Nothing while it is rare. Many with status 499: responses take longer than clients wait."
            }
            Self::UpstreamReset => {
                "Look into the application's log: it crashed, was restarted, or closed with unread data."
            }
            Self::Idle => {
                "Raise the timeout if the peers are meant to be silent for so long, or let them send keep-alive messages."
            }
            Self::Lifetime => "Nothing: the configuration asks for it.",
            Self::TooSlow => {
                "`side` names the peer. The client: slow networks or an attack; compare `client`. The endpoint: see its latency, then \
                 `timeouts.response`."
            }
            Self::HandshakeFailed => {
                "See `lockgate_tls_handshake_failures_total` by reason. `refused_our_certificate`: the certificate or its chain; \
                 `unknown_name`: a name without a certificate; `no_certificate_yet`: \
                 one that is being obtained; `no_common_version`: old clients."
            }
            Self::ConnectFailed => {
                "See `lockgate_upstream_up` and `lockgate_upstream_failures_total`: the endpoint is down, its address is wrong, or a \
                 firewall drops packets."
            }
            Self::RefusedByRule => {
                "Nothing if the rule is intended. With `side` `upstream` the endpoint breaks the rules of HTTP: fix the application."
            }
            Self::Limit => {
                "Raise the limit that `detail` names, add endpoints, or find the client that uses it up in `/top`."
            }
            Self::Drain => {
                "Raise `drain.deadline` if connections are meant to live longer than that."
            }
            Self::Internal => "Report it, with the line of the log.",
        }
    }
}

impl CauseSide {
    /// The meaning of the side.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Downstream => "the client, or the network towards it",
            Self::Upstream => "the endpoint, or the network towards it",
            Self::Lockgate => "Lockgate itself: a rule, a limit, a deadline",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::exchange_entry::tests::line_with_every_field;
    use super::super::tests::connection_with_every_field;
    use super::*;

    #[test]
    fn the_field_reference_has_every_log_field_in_order() {
        for (line, table) in [
            (line_with_every_field(), EXCHANGE),
            (connection_with_every_field(), CONNECTION),
        ] {
            let parsed: Value = serde_json::from_str(&line).unwrap();
            let written = parsed.as_object().unwrap();
            for name in written.keys() {
                assert!(
                    table.iter().any(|field| field.name == name),
                    "{name} is in no table"
                );
            }
            let positions: Vec<_> = table
                .iter()
                .map(|field| {
                    line.find(&format!("\"{}\":", field.name))
                        .unwrap_or_else(|| panic!("no {}: {line}", field.name))
                })
                .collect();
            assert!(positions.is_sorted(), "{line}");
        }
    }
}
