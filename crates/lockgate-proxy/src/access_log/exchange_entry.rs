//! One entry per exchange, a request and its response, and its line in each of the formats.
//!
//! Authorization and Cookie have no place here: what is not in the entry cannot be written.
//!
//! The fields of the line, in their order: [`super::reference::EXCHANGE`]. One that does not apply
//! is left out.

use std::net::IpAddr;
use std::time::Duration;

use super::line::{Json, LineSyntax, LineWriter, Logfmt, key, write_ip, write_number};
use super::timestamp::Timestamps;
use super::{Cause, CauseSide, LineFormat, LoggedAddress, MaskIp};
use crate::escape::{self, Space};

/// Most bytes of a target that are written.
const TARGET: usize = 8 * 1024;
/// Most bytes of a Referer or User-Agent that are written.
const FIELD: usize = 1024;
/// Most bytes of a method, host or user that are written.
const NAME: usize = 256;

/// The status of an exchange that ended before its response, because the client left: never sent,
/// only logged and counted.
pub const CLIENT_LEFT: u16 = 499;

/// The log entry of one exchange. Borrowed: it lives for the call that writes it.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeEntry<'a> {
    /// The request's id.
    pub id: &'a str,
    /// The trace that it is a part of.
    pub trace: Option<&'a str>,
    /// When the request's first byte came: milliseconds since 1970-01-01 UTC.
    pub began: u64,
    /// The client's connection.
    pub downstream: LoggedConnection<'a>,
    /// The request, as far as it could be read.
    pub request: LoggedRequest<'a>,
    /// The response's status, or [`CLIENT_LEFT`].
    pub status: u16,
    /// The status of a gRPC call.
    pub grpc_status: Option<u16>,
    /// Bytes of the request's body.
    pub received: u64,
    /// Bytes of the response's body.
    pub sent: u64,
    /// The durations of its phases.
    pub timings: Timings,
    /// The site that has the host.
    pub site: Option<&'a str>,
    /// The route that was taken, as configured.
    pub route: Option<&'a str>,
    /// The origin's side, if there was any.
    pub upstream: Option<LoggedUpstream<'a>>,
    /// The failure, if there was one.
    pub failure: Option<LoggedFailure<'a>>,
}

/// The connection that an exchange came on.
#[derive(Debug, Clone, Copy)]
pub struct LoggedConnection<'a> {
    /// The connection's id.
    pub connection: u64,
    /// The listener's address as configured.
    pub listener: &'a str,
    /// The true client, after PROXY headers and the forwarding fields of trusted peers.
    pub client: LoggedAddress,
    /// The peer that has connected to us.
    pub peer: LoggedAddress,
    /// TLS with the client, if the connection has it.
    pub tls: Option<LoggedTls<'a>>,
}

/// The negotiated TLS with the client.
#[derive(Debug, Clone, Copy)]
pub struct LoggedTls<'a> {
    /// The version.
    pub version: &'a str,
    /// The cipher suite.
    pub cipher: &'a str,
    /// The protocol chosen by ALPN.
    pub alpn: Option<&'a [u8]>,
    /// The server name of the ClientHello.
    pub sni: Option<&'a str>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Common name of the client's certificate.
    pub client_cn: Option<&'a str>,
}

/// The request as the client sent it; a part that could not be read is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoggedRequest<'a> {
    /// The method.
    pub method: &'a [u8],
    /// `http` or `https`, as the client sees it.
    pub scheme: &'static str,
    /// The host, with its port if there was one.
    pub host: &'a [u8],
    /// The request-target.
    pub target: &'a [u8],
    /// `HTTP/1.1`
    pub protocol: &'static str,
    /// The user that a password proved; never a name that was only claimed.
    pub user: Option<&'a [u8]>,
    /// The `Referer` field.
    pub referer: Option<&'a [u8]>,
    /// The `User-Agent` field.
    pub user_agent: Option<&'a [u8]>,
}

/// The durations of an exchange's phases. A phase that was not reached is `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    /// From the request's first byte to the response's last.
    pub duration: Duration,
    /// Until an endpoint was chosen and free.
    pub wait: Option<Duration>,
    /// Connecting to it.
    pub connect: Option<Duration>,
    /// From then to the end of the final response's head.
    pub response_head: Option<Duration>,
    /// From there to the end.
    pub body: Option<Duration>,
}

/// The pool and the endpoint that served an exchange.
#[derive(Debug, Clone, Copy)]
pub struct LoggedUpstream<'a> {
    /// The pool, as configured; a tunnel's target is in none.
    pub pool: Option<&'a str>,
    /// The last endpoint that was tried.
    pub endpoint: Option<&'a str>,
    /// Whether it went over a connection that had served others before.
    pub reused: bool,
    /// The endpoints that were tried before, in vain, with commas between them; empty for none.
    pub tried: &'a str,
    /// The number of retries.
    pub retries: u32,
}

/// The failure of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct LoggedFailure<'a> {
    /// The cause.
    pub cause: Cause,
    /// The side at fault.
    pub side: CauseSide,
    /// More about it, for people.
    pub detail: Option<&'a str>,
}

impl ExchangeEntry<'_> {
    /// Whether it is logged independently of the sample: an error here or at the origin.
    pub fn is_error(&self) -> bool {
        // Of gRPC: UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS.
        let broken = matches!(self.grpc_status, Some(2 | 4 | 13..=15));
        self.status >= 500 || broken || self.failure.is_some()
    }

    /// Its line in a JSON log.
    pub(crate) fn json_line(&self, mask: MaskIp) -> Vec<u8> {
        let (mut line, mut stamps) = (Vec::new(), Timestamps::default());
        self.write(&mut line, &mut stamps, LineFormat::Json, mask);
        line
    }

    /// Appends its line; allocates only when `out` must grow. No peer can make a line longer than
    /// some 70 KB.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        stamps: &mut Timestamps,
        format: LineFormat,
        mask: MaskIp,
    ) {
        match format {
            LineFormat::Json => {
                self.write_fields(LineWriter::<Json>::begin(out, stamps, self.began), mask)
            }
            LineFormat::Logfmt => {
                self.write_fields(LineWriter::<Logfmt>::begin(out, stamps, self.began), mask);
            }
            LineFormat::Combined => self.write_combined(out, stamps, mask),
        }
    }

    fn write_fields<S: LineSyntax>(&self, mut fields: LineWriter<'_, S>, mask: MaskIp) {
        let Self {
            downstream,
            request,
            timings,
            ..
        } = self;
        fields.text(key!("id"), self.id);
        fields.some_text(key!("trace_id"), self.trace);
        fields.hex(key!("connection"), downstream.connection);
        fields.text(key!("listener"), downstream.listener);
        fields.address(
            [key!("client"), key!("client_port")],
            downstream.client,
            mask,
        );
        fields.address([key!("peer"), key!("peer_port")], downstream.peer, mask);
        fields.some_bytes(key!("user"), request.user, NAME);
        for (key, text, longest) in [
            (key!("method"), request.method, NAME),
            (key!("scheme"), request.scheme.as_bytes(), NAME),
            (key!("host"), request.host, NAME),
            (key!("target"), request.target, TARGET),
            (key!("protocol"), request.protocol.as_bytes(), NAME),
        ] {
            if !text.is_empty() {
                fields.bytes(key, text, longest);
            }
        }
        fields.number(key!("status"), u64::from(self.status));
        fields.number(key!("received_bytes"), self.received);
        fields.number(key!("sent_bytes"), self.sent);
        fields.seconds(key!("duration_seconds"), timings.duration);
        fields.some_seconds(key!("wait_seconds"), timings.wait);
        fields.some_seconds(key!("connect_seconds"), timings.connect);
        fields.some_seconds(key!("first_byte_seconds"), timings.response_head);
        fields.some_seconds(key!("body_seconds"), timings.body);
        fields.some_text(key!("site"), self.site);
        fields.some_text(key!("route"), self.route);
        if let Some(upstream) = &self.upstream {
            fields.some_text(key!("pool"), upstream.pool);
            fields.some_text(key!("endpoint"), upstream.endpoint);
            fields.yes_or_no(key!("reused"), upstream.reused);
            if !upstream.tried.is_empty() {
                fields.text(key!("tried"), upstream.tried);
            }
            if upstream.retries > 0 {
                fields.number(key!("retries"), u64::from(upstream.retries));
            }
        }
        if let Some(status) = self.grpc_status {
            fields.number(key!("grpc_status"), u64::from(status));
        }
        if let Some(failure) = &self.failure {
            fields.word(key!("cause"), failure.cause.as_str());
            fields.word(key!("side"), failure.side.as_str());
            fields.some_text(key!("detail"), failure.detail);
        }
        if let Some(tls) = &downstream.tls {
            fields.text(key!("tls_version"), tls.version);
            fields.text(key!("cipher"), tls.cipher);
            fields.some_bytes(key!("alpn"), tls.alpn, NAME);
            fields.some_text(key!("sni"), tls.sni);
            fields.yes_or_no(key!("resumed"), tls.resumed);
            fields.some_text(key!("client_cn"), tls.client_cn);
        }
        fields.some_bytes(key!("referer"), request.referer, FIELD);
        fields.some_bytes(key!("user_agent"), request.user_agent, FIELD);
        fields.end();
    }

    /// `CLIENT - USER [TIME] "REQUEST" STATUS BYTES "REFERER" "AGENT"`, as Apache and nginx write
    /// it.
    fn write_combined(&self, out: &mut Vec<u8>, stamps: &mut Timestamps, mask: MaskIp) {
        write_client(out, self.downstream.client, mask);
        out.extend_from_slice(b" - ");
        match self.request.user {
            Some(user) if !user.is_empty() => {
                escape::quoted(out, escape::cut(user, NAME).0, Space::Escaped);
            }
            _ => out.push(b'-'),
        }
        out.extend_from_slice(b" [");
        stamps.write_common(out, self.began);
        out.extend_from_slice(b"] \"");
        let LoggedRequest {
            method,
            target,
            protocol,
            ..
        } = self.request;
        if method.is_empty() {
            out.push(b'-');
        } else {
            escape::quoted(out, escape::cut(method, NAME).0, Space::AsIs);
            out.push(b' ');
            let (target, is_cut) = escape::cut(target, TARGET);
            escape::quoted(out, target, Space::AsIs);
            if is_cut {
                out.extend_from_slice(b"...");
            }
            out.push(b' ');
            out.extend_from_slice(protocol.as_bytes());
        }
        out.extend_from_slice(b"\" ");
        write_number(out, u64::from(self.status));
        out.push(b' ');
        write_number(out, self.sent);
        for field in [self.request.referer, self.request.user_agent] {
            out.extend_from_slice(b" \"");
            match field {
                Some(text) if !text.is_empty() => {
                    escape::quoted(out, escape::cut(text, FIELD).0, Space::AsIs);
                }
                _ => out.push(b'-'),
            }
            out.push(b'"');
        }
        out.push(b'\n');
    }
}

/// The client's address where a format has but one place for it.
pub(super) fn write_client(out: &mut Vec<u8>, client: LoggedAddress, mask: MaskIp) {
    match client {
        LoggedAddress::Ip(address) => {
            let ip: IpAddr = mask.shown(address.ip());
            write_ip(out, ip);
        }
        // As nginx has it.
        LoggedAddress::Unix => out.extend_from_slice(b"unix:"),
        // The word of the format for what is not there.
        LoggedAddress::Unknown => out.push(b'-'),
    }
}

#[cfg(test)]
pub(super) mod tests;
