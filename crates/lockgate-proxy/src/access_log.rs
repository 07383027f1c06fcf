//! The access log: one entry per relayed connection or tunnel on a stream of HTTP/2, one per
//! exchange, and the worker's end of the way to the file.
//!
//! Writes no file: whole buffers of whole lines go to a channel. The entry of an exchange is in
//! `exchange_entry`.
//!
//! The fields of the line of a connection, in their order: [`reference::CONNECTION`]. One that does
//! not apply is left out.
//!
//! With [`MaskIp::Mask`] addresses lose their last octet (IPv4) or all but the first 48 bits
//! (IPv6), and the ports are left out: behind a shared address a port and a time are as good as a
//! name.

mod exchange_entry;
mod line;
mod log;
mod recent_errors;
pub mod reference;
mod tail;
mod timestamp;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

pub use exchange_entry::{
    CLIENT_LEFT, ExchangeEntry, LoggedConnection, LoggedFailure, LoggedRequest, LoggedTls,
    LoggedUpstream, Timings,
};
use line::{Json, LineSyntax, LineWriter, Logfmt, key, write_number};
pub use log::{LineStyle, LogSample, WorkerLog};
pub use recent_errors::{ErrorSink, RecentErrors, is_error_of_ours};
pub use tail::{OpenTails, TailFilter, TailReader, Tails};
use timestamp::Timestamps;

/// Why a connection ended. The names are the same in the log, in metric labels and in the
/// documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Downstream closed in an orderly way.
    ClientClosed,
    /// Upstream closed in an orderly way.
    UpstreamClosed,
    /// Downstream reset the connection or broke it off.
    ClientReset,
    /// Upstream reset the connection or broke it off.
    UpstreamReset,
    /// Nothing moved for as long as is allowed.
    Idle,
    /// The connection lived as long as is allowed.
    Lifetime,
    /// A peer that was waited for did not keep up the minimum rate or missed a deadline.
    TooSlow,
    /// TLS with downstream failed; with upstream it is [`Cause::ConnectFailed`].
    HandshakeFailed,
    /// No endpoint could be connected to.
    ConnectFailed,
    /// A rule of the configuration refused it.
    RefusedByRule,
    /// A limit was reached.
    Limit,
    /// The deadline of a drain passed.
    Drain,
    /// A fault of Lockgate's own.
    Internal,
}

impl Cause {
    /// Every cause, in the order of [`index`](Self::index).
    pub const ALL: [Self; 13] = [
        Self::ClientClosed,
        Self::UpstreamClosed,
        Self::ClientReset,
        Self::UpstreamReset,
        Self::Idle,
        Self::Lifetime,
        Self::TooSlow,
        Self::HandshakeFailed,
        Self::ConnectFailed,
        Self::RefusedByRule,
        Self::Limit,
        Self::Drain,
        Self::Internal,
    ];

    /// The name in log and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientClosed => "client_closed",
            Self::UpstreamClosed => "upstream_closed",
            Self::ClientReset => "client_reset",
            Self::UpstreamReset => "upstream_reset",
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
            Self::TooSlow => "too_slow",
            Self::HandshakeFailed => "handshake_failed",
            Self::ConnectFailed => "connect_failed",
            Self::RefusedByRule => "refused_by_rule",
            Self::Limit => "limit",
            Self::Drain => "drain",
            Self::Internal => "internal",
        }
    }

    /// The index in [`ALL`](Self::ALL), for a counter per cause.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The side at which a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CauseSide {
    /// The client's side.
    Downstream,
    /// The origin's side.
    Upstream,
    /// Ours: a limit, a rule, a deadline.
    Lockgate,
}

impl CauseSide {
    /// Every side, in the order of [`index`](Self::index).
    pub const ALL: [Self; 3] = [Self::Downstream, Self::Upstream, Self::Lockgate];

    /// The name in log and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Downstream => "downstream",
            Self::Upstream => "upstream",
            Self::Lockgate => "lockgate",
        }
    }

    /// The index in [`ALL`](Self::ALL), for a counter per side.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The address of the other end of a downstream connection, as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoggedAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A Unix socket: its clients have no address.
    Unix,
    /// A client that its trusted proxy has not named.
    Unknown,
}

impl From<SocketAddr> for LoggedAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

/// Whether clients' addresses are written in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaskIp {
    /// In full.
    #[default]
    Keep,
    /// Cut to a network: IPv4 to /24, IPv6 to /48, without the port.
    Mask,
}

impl MaskIp {
    /// The address as it is shown. An IPv4 client of an IPv6 listener is an IPv4 client: masked as
    /// `::ffff:a.b.c.d` it would lose everything.
    pub fn shown(self, ip: IpAddr) -> IpAddr {
        match (ip.to_canonical(), self) {
            (ip, Self::Keep) => ip,
            (IpAddr::V4(ip), Self::Mask) => {
                let [a, b, c, _] = ip.octets();
                Ipv4Addr::new(a, b, c, 0).into()
            }
            (IpAddr::V6(ip), Self::Mask) => {
                let [a, b, c, ..] = ip.segments();
                Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into()
            }
        }
    }
}

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineFormat {
    /// One JSON object.
    #[default]
    Json,
    /// The combined format of Apache and nginx. A relayed connection has no request: `-` stands for
    /// what is missing.
    Combined,
    /// `name=value`, with the names of the JSON.
    Logfmt,
}

/// When one direction of a relay was open, from the beginning of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionSpan {
    /// Until its first byte.
    pub first: Option<Duration>,
    /// Until its end, unless it was cut.
    pub end: Option<Duration>,
}

impl DirectionSpan {
    /// The rate in bytes a second, where the connection took `duration`; `None` where that is too
    /// short.
    fn rate(self, bytes: u64, duration: Duration) -> Option<u64> {
        let millis = self.end.unwrap_or(duration).as_millis();
        let rate = (u128::from(bytes) * 1_000).checked_div(millis)?;
        u64::try_from(rate).ok()
    }
}

/// The log entry of one connection. Borrowed: it lives for the call that writes it.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionEntry<'a> {
    /// The connection's id.
    pub id: u64,
    /// When it was accepted: milliseconds since 1970-01-01 UTC.
    pub accepted: u64,
    /// The listener's address as configured.
    pub listener: &'a str,
    /// The true client, after a PROXY header.
    pub client: LoggedAddress,
    /// The peer that has connected to us.
    pub peer: LoggedAddress,
    /// The request that it began with, where it is an upgrade or a tunnel.
    pub tunnel: Option<TunnelFields<'a>>,
    /// The server name of the ClientHello.
    pub sni: Option<&'a str>,
    /// The protocol agreed on by ALPN.
    pub alpn: Option<&'a str>,
    /// The TLS version.
    pub tls_version: Option<&'a str>,
    /// The cipher suite.
    pub cipher: Option<&'a str>,
    /// Whether an earlier TLS session was resumed.
    pub resumed: Option<bool>,
    /// Common name of the client's certificate.
    pub client_cn: Option<&'a str>,
    /// Bytes received from downstream.
    pub received: u64,
    /// Bytes sent to downstream.
    pub sent: u64,
    /// Both directions, received and sent, of what was relayed.
    pub spans: Option<[DirectionSpan; 2]>,
    /// The duration of the TLS handshake with downstream, finished or failed.
    pub handshake: Option<Duration>,
    /// The duration of connecting to an endpoint, finished or failed.
    pub connect: Option<Duration>,
    /// From accept to the end.
    pub duration: Duration,
    /// The endpoint that served it.
    pub endpoint: Option<&'a str>,
    /// Why it ended.
    pub cause: Cause,
    /// The side at which it ended.
    pub side: CauseSide,
    /// More about the cause, for people.
    pub detail: Option<&'a str>,
}

/// Most bytes of a host that are written.
const HOST: usize = 512;

/// A request after which its connection spoke something else.
#[derive(Debug, Clone, Copy)]
pub struct TunnelFields<'a> {
    /// The request's id.
    pub id: &'a str,
    /// Host and port that it asked for.
    pub host: &'a [u8],
    /// The user, if a password proved it.
    pub user: Option<&'a str>,
}

impl ConnectionEntry<'_> {
    /// Appends its line; allocates only when `out` must grow.
    ///
    /// Texts longer than 512 bytes are cut, so that no peer can make a line longer than some 30 KB.
    fn write(&self, out: &mut Vec<u8>, stamps: &mut Timestamps, format: LineFormat, mask: MaskIp) {
        match format {
            LineFormat::Json => {
                self.write_fields(LineWriter::<Json>::begin(out, stamps, self.accepted), mask)
            }
            LineFormat::Logfmt => {
                self.write_fields(
                    LineWriter::<Logfmt>::begin(out, stamps, self.accepted),
                    mask,
                );
            }
            LineFormat::Combined => {
                // There was no request.
                exchange_entry::write_client(out, self.client, mask);
                out.extend_from_slice(b" - - [");
                stamps.write_common(out, self.accepted);
                out.extend_from_slice(b"] \"-\" - ");
                write_number(out, self.sent);
                out.extend_from_slice(b" \"-\" \"-\"\n");
            }
        }
    }

    fn write_fields<S: LineSyntax>(&self, mut fields: LineWriter<'_, S>, mask: MaskIp) {
        fields.hex(key!("id"), self.id);
        fields.text(key!("listener"), self.listener);
        fields.address([key!("client"), key!("client_port")], self.client, mask);
        fields.address([key!("peer"), key!("peer_port")], self.peer, mask);
        if let Some(TunnelFields { id, host, user }) = self.tunnel {
            fields.text(key!("request"), id);
            fields.some_bytes(key!("host"), Some(host), HOST);
            fields.some_text(key!("user"), user);
        }
        fields.some_text(key!("sni"), self.sni);
        fields.some_text(key!("alpn"), self.alpn);
        fields.some_text(key!("tls_version"), self.tls_version);
        fields.some_text(key!("cipher"), self.cipher);
        if let Some(resumed) = self.resumed {
            fields.yes_or_no(key!("resumed"), resumed);
        }
        fields.some_text(key!("client_cn"), self.client_cn);
        fields.number(key!("received_bytes"), self.received);
        fields.number(key!("sent_bytes"), self.sent);
        if let Some([received, sent]) = self.spans {
            fields.some_seconds(key!("received_first_byte_seconds"), received.first);
            fields.some_seconds(key!("sent_first_byte_seconds"), sent.first);
            fields.some_seconds(key!("received_end_seconds"), received.end);
            fields.some_seconds(key!("sent_end_seconds"), sent.end);
            if let Some(rate) = received.rate(self.received, self.duration) {
                fields.number(key!("received_bytes_per_second"), rate);
            }
            if let Some(rate) = sent.rate(self.sent, self.duration) {
                fields.number(key!("sent_bytes_per_second"), rate);
            }
        }
        fields.some_seconds(key!("handshake_seconds"), self.handshake);
        fields.some_seconds(key!("connect_seconds"), self.connect);
        fields.seconds(key!("duration_seconds"), self.duration);
        fields.some_text(key!("endpoint"), self.endpoint);
        fields.word(key!("cause"), self.cause.as_str());
        fields.word(key!("side"), self.side.as_str());
        fields.some_text(key!("detail"), self.detail);
        fields.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> LoggedAddress {
        LoggedAddress::Ip(text.parse().unwrap())
    }

    pub(super) fn entry() -> ConnectionEntry<'static> {
        ConnectionEntry {
            id: 0xfeed_0000_0000_0001,
            accepted: 1_795_294_561_234,
            listener: ":8443",
            client: ip("203.0.113.9:41022"),
            peer: ip("192.0.2.7:51034"),
            tunnel: None,
            sni: Some("app.example.com"),
            alpn: Some("h2"),
            tls_version: Some("TLSv1.3"),
            cipher: Some("TLS13_AES_256_GCM_SHA384"),
            resumed: Some(false),
            client_cn: Some("alice"),
            received: 100,
            sent: 20_000,
            spans: Some([
                DirectionSpan {
                    first: Some(Duration::from_millis(2)),
                    end: Some(Duration::from_secs(1)),
                },
                DirectionSpan {
                    first: Some(Duration::from_millis(30)),
                    end: None,
                },
            ]),
            handshake: Some(Duration::from_micros(1_250)),
            connect: Some(Duration::from_nanos(90_999)),
            duration: Duration::from_millis(61_000),
            endpoint: Some("unix:/run/app.sock"),
            cause: Cause::ClientClosed,
            side: CauseSide::Downstream,
            detail: Some("close_notify"),
        }
    }

    pub(super) fn plain() -> ConnectionEntry<'static> {
        ConnectionEntry {
            client: LoggedAddress::Unix,
            peer: LoggedAddress::Unix,
            sni: None,
            alpn: None,
            tls_version: None,
            cipher: None,
            resumed: None,
            client_cn: None,
            spans: None,
            handshake: None,
            connect: None,
            endpoint: None,
            detail: None,
            ..entry()
        }
    }

    pub(super) fn line(entry: &ConnectionEntry<'_>, mask: MaskIp) -> String {
        formatted(entry, LineFormat::Json, mask)
    }

    fn formatted(entry: &ConnectionEntry<'_>, format: LineFormat, mask: MaskIp) -> String {
        let mut out = Vec::new();
        entry.write(&mut out, &mut Timestamps::default(), format, mask);
        String::from_utf8(out).unwrap()
    }

    /// A line that leaves no field out.
    pub(super) fn connection_with_every_field() -> String {
        let tunnel = TunnelFields {
            id: "0123",
            host: b"a.test:443",
            user: Some("alice"),
        };
        let spans = entry().spans.map(|[received, sent]| {
            [
                received,
                DirectionSpan {
                    end: received.end,
                    ..sent
                },
            ]
        });
        line(
            &ConnectionEntry {
                tunnel: Some(tunnel),
                spans,
                ..entry()
            },
            MaskIp::Keep,
        )
    }

    #[test]
    fn an_access_log_line_names_the_request_that_opened_it() {
        let tunnel = TunnelFields {
            id: "0123",
            host: b"a.test:443",
            user: Some("alice"),
        };
        let line = line(
            &ConnectionEntry {
                tunnel: Some(tunnel),
                ..plain()
            },
            MaskIp::Keep,
        );
        let expected =
            r#""peer":"unix","request":"0123","host":"a.test:443","user":"alice","received_bytes""#;
        assert!(line.contains(expected), "{line}");
    }

    #[test]
    fn an_access_log_record_is_one_line_with_ordered_fields() {
        let expected = concat!(
            r#"{"time":"2026-11-21T20:56:01.234Z","id":"feed000000000001","listener":":8443","#,
            r#""client":"203.0.113.9","client_port":41022,"peer":"192.0.2.7","peer_port":51034,"#,
            r#""sni":"app.example.com","alpn":"h2","tls_version":"TLSv1.3","#,
            r#""cipher":"TLS13_AES_256_GCM_SHA384","resumed":false,"client_cn":"alice","#,
            r#""received_bytes":100,"sent_bytes":20000,"#,
            r#""received_first_byte_seconds":0.002000,"sent_first_byte_seconds":0.030000,"#,
            r#""received_end_seconds":1.000000,"#,
            r#""received_bytes_per_second":100,"sent_bytes_per_second":327,"#,
            r#""handshake_seconds":0.001250,"connect_seconds":0.000090,"duration_seconds":61.000000,"#,
            r#""endpoint":"unix:/run/app.sock","cause":"client_closed","side":"downstream","#,
            r#""detail":"close_notify"}"#,
            "\n"
        );
        assert_eq!(line(&entry(), MaskIp::Keep), expected);
    }

    #[test]
    fn absent_access_log_fields_are_omitted() {
        let expected = concat!(
            r#"{"time":"2026-11-21T20:56:01.234Z","id":"feed000000000001","listener":":8443","#,
            r#""client":"unix","peer":"unix","received_bytes":100,"sent_bytes":20000,"#,
            r#""duration_seconds":61.000000,"#,
            r#""cause":"client_closed","side":"downstream"}"#,
            "\n"
        );
        assert_eq!(line(&plain(), MaskIp::Mask), expected);
    }

    #[test]
    fn a_masked_address_is_its_network_without_the_port() {
        for (address, kept, masked) in [
            ("203.0.113.9:1", "203.0.113.9", "203.0.113.0"),
            ("255.255.255.255:1", "255.255.255.255", "255.255.255.0"),
            (
                "[2001:db8:aaaa:bbbb::1]:1",
                "2001:db8:aaaa:bbbb::1",
                "2001:db8:aaaa::",
            ),
            ("[::ffff:203.0.113.9]:1", "203.0.113.9", "203.0.113.0"),
            ("[::1]:1", "::1", "::"),
        ] {
            for at in [ip(address), LoggedAddress::Unix] {
                let entry = ConnectionEntry {
                    client: ip(address),
                    peer: at,
                    ..plain()
                };
                let keep = line(&entry, MaskIp::Keep);
                assert!(
                    keep.contains(&format!(r#""client":"{kept}","client_port":1,"#)),
                    "{keep}"
                );
                let mask = line(&entry, MaskIp::Mask);
                assert!(
                    mask.contains(&format!(r#""client":"{masked}","peer":"#)),
                    "{mask}"
                );
                assert!(!mask.contains("port"), "{mask}");
            }
        }
    }

    #[test]
    fn cause_names_are_distinct_and_stand_at_their_index() {
        for (i, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), i);
            assert!(
                Cause::ALL[..i]
                    .iter()
                    .all(|other| other.as_str() != cause.as_str())
            );
        }
        for (i, side) in CauseSide::ALL.into_iter().enumerate() {
            assert_eq!(side.index(), i);
        }
    }

    #[test]
    fn logfmt_and_combined_have_a_connection_line_too() {
        assert_eq!(
            formatted(&entry(), LineFormat::Combined, MaskIp::Mask),
            "203.0.113.0 - - [21/Nov/2026:20:56:01 +0000] \"-\" - 20000 \"-\" \"-\"\n"
        );
        assert_eq!(
            formatted(&plain(), LineFormat::Logfmt, MaskIp::Keep),
            "time=2026-11-21T20:56:01.234Z id=feed000000000001 listener=:8443 client=unix peer=unix \
             received_bytes=100 sent_bytes=20000 duration_seconds=61.000000 cause=client_closed side=downstream\n"
        );
    }
}
