//! The record of an exchange: what is known of a request when it is over, its line in the log, and
//! what it counts for.

use std::net::SocketAddr;
use std::time::Instant;

use lockgate_http::head::{HttpVersion, Method, RequestHead};
use lockgate_http::request_target::RequestTarget;
use lockgate_http::target::without_userinfo;
use lockgate_http::trace::TraceId;
use lockgate_rules::{ClientAddress, SiteLog};

use super::connection::{Connection, address};
use crate::access_log::{self, CLIENT_LEFT};
use crate::answer::Fault;
use crate::exchange::{ExchangeFailure, ExchangeOutcome};
use crate::request_id::RequestId;
use crate::site::{Action, Route, Sites};
use crate::worker::unix_millis;

/// The record of one exchange, from its beginning to its line in the log.
pub(super) struct ExchangeRecord<'a> {
    pub(super) id: RequestId,
    /// Which of its connection's requests it is.
    pub(super) number: u64,
    /// The trace that it is a part of.
    pub(super) trace: Option<TraceId>,
    pub(super) began: Instant,
    pub(super) client: ClientAddress,
    pub(super) site: Option<usize>,
    pub(super) route: Option<&'a Route>,
    /// Which of the worker's upstreams it was handed to.
    pub(super) upstream: Option<usize>,
    pub(super) user: Option<std::sync::Arc<str>>,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) outcome: ExchangeOutcome,
    pub(super) failure: Option<ExchangeFailure>,
}

impl ExchangeRecord<'_> {
    pub(super) fn new(id: RequestId, began: Instant, client: ClientAddress) -> Self {
        Self {
            id,
            number: 0,
            trace: None,
            began,
            client,
            site: None,
            route: None,
            upstream: None,
            user: None,
            received: 0,
            sent: 0,
            outcome: ExchangeOutcome::default(),
            failure: None,
        }
    }
}

impl Connection {
    /// Notes a request whose head could not be read, and which was answered by `sent` bytes.
    pub(super) fn unread(
        &self,
        id: RequestId,
        began: Instant,
        sent: u64,
        failure: ExchangeFailure,
        sites: &Sites,
    ) {
        let mut record = ExchangeRecord::new(id, began, ClientAddress::from(self.client.ip()));
        record.sent = sent;
        record.outcome.status = failure.fault.map_or(CLIENT_LEFT, Fault::status);
        record.failure = Some(failure);
        self.note((&RequestHead::default(), None), sites, &record);
    }

    /// Counts an exchange that is over, and writes its line; `target` is what was asked for, if
    /// that could be read.
    pub(super) fn note(
        &self,
        (head, target): (&RequestHead, Option<&RequestTarget<'_>>),
        sites: &Sites,
        record: &ExchangeRecord<'_>,
    ) {
        self.exchanges.set(self.exchanges.get() + 1);
        let took = record.began.elapsed();
        let site = record.site.map(|site| &sites.sites[site]);
        let cells = self.worker.cells.http.site(site.map(|site| site.place));
        let outcome = &record.outcome;
        let status = if outcome.status == 0 {
            CLIENT_LEFT
        } else {
            outcome.status
        };
        cells.finished(head.method, status, took);
        cells.received.add(record.received);
        cells.sent.add(record.sent);
        if let Some(failure) = &record.failure {
            cells.failed(failure.cause);
        }
        if let Some(status) = outcome.grpc_status {
            cells.called(status);
        }
        if status == 101 || head.method == Method::Connect && matches!(status, 200..=299) {
            cells.upgrades.inc();
        }
        let host = site.map_or("other", |site| site.name.as_str());
        self.worker
            .popular
            .borrow_mut()
            .record(self.guard.clock().now(), host, || {
                let page = target.filter(|_| status < 400).map(|target| target.path);
                (page, head.fields.named(b"referer").next())
            });
        let (mut shared, mut own) = (
            self.worker.log.borrow_mut(),
            self.worker.site_logs.borrow_mut(),
        );
        let log = match site.map_or(SiteLog::Shared, |site| site.log) {
            SiteLog::Shared => shared.as_mut(),
            SiteLog::Off => None,
            SiteLog::Own(number) => own.get_mut(number),
        };
        let Some(log) = log else { return };
        let tried = self.tried(record);
        let negotiated = self.negotiated.as_deref();
        // A proxy is asked for URLs of others; to what is served here clients came by the scheme
        // that they came by.
        let elsewhere = record
            .route
            .is_some_and(|route| matches!(route.action, Action::Connect(_)));
        let secure = target
            .filter(|_| elsewhere)
            .and_then(|target| target.secure.or(head.secure));
        let client = match record.client {
            client if client == ClientAddress::from(self.client.ip()) => address(self.client),
            // Whoever speaks for a client does not say which port it had.
            ClientAddress::Ip(ip) => access_log::Address::Ip(SocketAddr::new(ip, 0)),
            ClientAddress::Unix => access_log::Address::Unix,
            ClientAddress::Unknown => access_log::Address::Unknown,
        };
        log.write_exchange(&access_log::Exchange {
            id: record.id.as_str(),
            trace: record.trace.as_ref().map(TraceId::as_str),
            began: unix_millis().saturating_sub(took.as_millis() as u64),
            downstream: access_log::Downstream {
                connection: self.id,
                listener: &self.listener.name,
                client,
                peer: address(self.peer),
                tls: negotiated.map(|agreed| access_log::Tls {
                    version: agreed.version,
                    cipher: agreed.cipher,
                    alpn: agreed.alpn.as_deref(),
                    sni: self.server_name.as_deref(),
                    resumed: agreed.resumed,
                    client_cn: agreed.peer_name.as_deref(),
                }),
            },
            request: access_log::Request {
                method: head.method_name(),
                scheme: if secure.unwrap_or(negotiated.is_some()) {
                    "https"
                } else {
                    "http"
                },
                host: target.map_or(b"", |target| target.host),
                target: &without_userinfo(head.target()),
                protocol: match head.version {
                    HttpVersion::Http10 => "HTTP/1.0",
                    HttpVersion::Http11 => "HTTP/1.1",
                    HttpVersion::Http2 => "HTTP/2.0",
                },
                user: record.user.as_deref().map(str::as_bytes),
                referer: head.fields.named(b"referer").next(),
                user_agent: head.fields.named(b"user-agent").next(),
            },
            status,
            grpc_status: outcome.grpc_status,
            received: record.received,
            sent: record.sent,
            timings: access_log::Timings {
                duration: took,
                wait: outcome.wait,
                connect: outcome.connect,
                first_byte: outcome.first_byte,
                body: outcome.first_byte.map(|first| {
                    let before = first
                        + outcome.wait.unwrap_or_default()
                        + outcome.connect.unwrap_or_default();
                    took.saturating_sub(before)
                }),
            },
            site: site.map(|site| site.name.as_str()),
            route: record
                .route
                .map(|route| route.name.as_str())
                .filter(|name| !name.is_empty()),
            upstream: (record.upstream.is_some() || outcome.endpoint.is_some()).then(|| {
                access_log::Upstream {
                    pool: record.upstream.map(|upstream| {
                        self.worker.upstream(upstream).pool().settings.name.as_str()
                    }),
                    endpoint: outcome
                        .endpoint
                        .as_deref()
                        .map(|endpoint| endpoint.label.as_str()),
                    reused: outcome.reused,
                    tried: &tried,
                    retries: outcome.retries,
                }
            }),
            failure: record.failure.as_ref().map(|failure| access_log::Failure {
                cause: failure.cause,
                side: failure.side,
                detail: Some(failure.detail.as_ref()).filter(|detail| !detail.is_empty()),
            }),
        });
    }

    /// The endpoints that a request was brought to in vain, as the log has them.
    fn tried(&self, record: &ExchangeRecord<'_>) -> String {
        let Some(upstream) = record.upstream.filter(|_| !record.outcome.tried.is_empty()) else {
            return String::new();
        };
        let members = self
            .worker
            .upstream(upstream)
            .pool()
            .members()
            .iter()
            .enumerate();
        let tried = members.filter(|(at, _)| record.outcome.tried.contains(*at));
        tried
            .map(|(_, member)| member.endpoint().label.as_str())
            .collect::<Vec<_>>()
            .join(",")
    }
}
