//! The record of an exchange: what is known of a request when it is over, its line in the log, and
//! what it counts for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockgate_http::head::{HttpVersion, Method, RequestHead};
use lockgate_http::request_target::RequestTarget;
use lockgate_http::target::without_userinfo;
use lockgate_http::trace::TraceId;
use lockgate_limits::member_set::MemberSet;
use lockgate_limits::{MemberIndex, PoolIndex};
use lockgate_rules::{ClientAddress, SiteLog};
use lockgate_upstream::Pool;

use super::ListenerSnapshot;
use super::connection::{ClientConnection, address};
use crate::access_log::{
    self, CLIENT_LEFT, CauseSide, ExchangeEntry, LoggedAddress, LoggedConnection, LoggedFailure,
    LoggedRequest, LoggedTls, LoggedUpstream, is_error_of_ours,
};
use crate::error_response::HttpFault;
use crate::exchange::{ExchangeFailure, ExchangeOutcome};
use crate::generation::Generation;
use crate::request_id::RequestId;
use crate::request_traces::{ClaimedTrace, TracedRequest};
use crate::route::ListenerSiteIndex;
use crate::site::{Action, Route, Site};
use crate::spans::OpenSpans;
use crate::worker::unix_millis;

/// The record of one exchange, from its beginning to its line in the log.
pub(super) struct ExchangeRecord<'a> {
    /// Which of its connection's requests it is.
    pub(super) number: u64,
    /// The trace that it is a part of.
    pub(super) trace: Option<TraceId>,
    pub(super) began: Instant,
    pub(super) client: ClientAddress,
    pub(super) site: Option<ListenerSiteIndex>,
    pub(super) route: Option<&'a Route>,
    /// Which of its generation's upstreams it was handed to.
    pub(super) upstream: Option<PoolIndex>,
    pub(super) user: Option<std::sync::Arc<str>>,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) outcome: ExchangeOutcome,
    pub(super) failure: Option<ExchangeFailure>,
    /// Its spans, if it is recorded.
    pub(super) spans: Option<Box<OpenSpans>>,
    /// Where it is reported to, if an operator follows it.
    pub(super) followed: Option<Box<ClaimedTrace>>,
}

/// The request of an exchange, as far as it could be read.
pub(super) struct ReadRequest<'a> {
    pub(super) id: &'a RequestId,
    pub(super) head: &'a RequestHead,
    pub(super) target: Option<&'a RequestTarget<'a>>,
}

impl ExchangeRecord<'_> {
    pub(super) fn new(began: Instant, client: ClientAddress) -> Self {
        Self {
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
            spans: None,
            followed: None,
        }
    }

    /// The status for the log and the counters.
    pub(super) fn status(&self) -> u16 {
        match self.outcome.status {
            0 => CLIENT_LEFT,
            status => status,
        }
    }

    /// Whether it is an error that an operator can do something about. One that clients can cause
    /// would push the others out: a limit of theirs, a malformed request, a site in maintenance.
    fn is_error_of_ours(&self) -> bool {
        let Some(failure) = &self.failure else {
            return self.status() >= 500;
        };
        let is_refusal = failure.fault.is_some_and(|fault| fault.status() < 500);
        match failure.side {
            CauseSide::Downstream => false,
            // Even if it has closed in an orderly way: its response is not whole.
            CauseSide::Upstream => true,
            CauseSide::Lockgate => !is_refusal && is_error_of_ours(failure.cause, failure.side),
        }
    }

    fn timings(&self, duration: Duration) -> access_log::Timings {
        let ExchangeOutcome {
            wait,
            connect,
            response_head,
            ..
        } = self.outcome;
        let body = response_head.map(|head| {
            let before = head + wait.unwrap_or_default() + connect.unwrap_or_default();
            duration.saturating_sub(before)
        });
        access_log::Timings {
            duration,
            wait,
            connect,
            response_head,
            body,
        }
    }
}

impl ClientConnection {
    /// Records a request that was not served, since its head was refused; `sent` bytes were sent.
    pub(super) fn finish_unserved(
        &self,
        id: &RequestId,
        began: Instant,
        sent: u64,
        failure: ExchangeFailure,
    ) {
        let mut record = ExchangeRecord::new(began, ClientAddress::from(self.client.ip()));
        record.sent = sent;
        record.outcome.status = failure.fault.map_or(CLIENT_LEFT, HttpFault::status);
        record.failure = Some(failure);
        let request = ReadRequest {
            id,
            head: &RequestHead::default(),
            target: None,
        };
        self.finish_exchange(&request, &self.listener.snapshot(), &mut record);
    }

    /// Counts an exchange that is over, and writes its line.
    pub(super) fn finish_exchange(
        &self,
        request: &ReadRequest<'_>,
        snapshot: &ListenerSnapshot,
        record: &mut ExchangeRecord<'_>,
    ) {
        self.exchanges.set(self.exchanges.get() + 1);
        let took = record.began.elapsed();
        let (generation, sites) = (&snapshot.generation, snapshot.sites());
        let site = record.site.map(|site| sites.site(site));
        self.count_exchange(request, generation, site, record, took);
        let log = match site.map_or(SiteLog::Shared, |site| site.log) {
            SiteLog::Shared => generation.log.as_ref(),
            SiteLog::Off => None,
            SiteLog::Own(number) => generation.site_logs.get(number),
        };
        if let Some(sinks) = self.line_sinks(log, generation, record.is_error_of_ours()) {
            self.log_exchange(request, snapshot, record, took, |entry| {
                sinks.write_exchange(entry);
            });
        }
        if let Some(spans) = record.spans.take() {
            self.export_spans(&spans, request, snapshot, record, took);
        }
        if let Some(followed) = record.followed.take() {
            self.report_exchange(*followed, request, snapshot, (record, took));
        }
    }

    /// Reports an exchange that an operator follows.
    #[cold]
    fn report_exchange(
        &self,
        followed: ClaimedTrace,
        request: &ReadRequest<'_>,
        snapshot: &ListenerSnapshot,
        (record, took): (&ExchangeRecord<'_>, Duration),
    ) {
        let mut line = Vec::new();
        let mask = snapshot.generation.rules.mask;
        self.log_exchange(request, snapshot, record, took, |entry| {
            line = entry.json_line(mask);
        });
        let local = self.addresses(|| None).map(|(_, to)| to.ip());
        // It may have given up.
        let _ = followed.send(TracedRequest {
            listener: snapshot.settings.name.clone(),
            id: request.id.as_str().to_owned(),
            generation: snapshot.generation.rules.number,
            head: request.head.clone(),
            peer: ClientAddress::from(self.client.ip()),
            local,
            secure: self.negotiated.is_some(),
            acceptor: self.acceptor_index(),
            server_name: self.server_name.as_deref().map(str::to_owned),
            line,
        });
    }

    fn count_exchange(
        &self,
        request: &ReadRequest<'_>,
        generation: &Generation,
        site: Option<&Site>,
        record: &ExchangeRecord<'_>,
        took: Duration,
    ) {
        let (head, status) = (request.head, record.status());
        let cells = generation.cells.http.site(site.map(|site| site.index));
        cells.finished(head.method, status, took);
        cells.received.add(record.received);
        cells.sent.add(record.sent);
        if let Some(failure) = &record.failure {
            cells.failed(failure.cause);
        }
        if let Some(status) = record.outcome.grpc_status {
            cells.called(status);
        }
        if status == 101 || head.method == Method::Connect && matches!(status, 200..=299) {
            cells.upgrades.inc();
        }
        let (now, host) = (
            self.guard.clock().now(),
            site.map_or("other", |site| site.name.as_str()),
        );
        self.worker.top_requests.borrow_mut().record(now, host, || {
            let target = request.target.filter(|_| status < 400);
            let page = target.map(|target| target.path);
            (page, head.fields.named(b"referer").next())
        });
    }

    fn log_exchange(
        &self,
        request: &ReadRequest<'_>,
        snapshot: &ListenerSnapshot,
        record: &ExchangeRecord<'_>,
        took: Duration,
        write: impl FnOnce(&ExchangeEntry<'_>),
    ) {
        let site = record.site.map(|site| snapshot.sites().site(site));
        let upstream = record
            .upstream
            .map(|upstream| snapshot.generation.upstream(upstream).pool());
        let (outcome, negotiated) = (&record.outcome, self.negotiated.as_deref());
        let client = match record.client {
            client if client == ClientAddress::from(self.client.ip()) => address(self.client),
            // A trusted peer does not tell the client's port.
            ClientAddress::Ip(ip) => LoggedAddress::Ip(SocketAddr::new(ip, 0)),
            ClientAddress::Unix => LoggedAddress::Unix,
            ClientAddress::Unknown => LoggedAddress::Unknown,
        };
        let tried = upstream.map_or_else(String::new, |pool| tried(pool, &outcome.tried));
        let was_dispatched = record.upstream.is_some() || outcome.endpoint.is_some();
        write(&ExchangeEntry {
            id: request.id.as_str(),
            trace: record.trace.as_ref().map(TraceId::as_str),
            began: unix_millis().saturating_sub(took.as_millis() as u64),
            downstream: LoggedConnection {
                connection: self.id,
                listener: &snapshot.settings.name,
                client,
                peer: address(self.peer),
                tls: negotiated.map(|agreed| LoggedTls {
                    version: agreed.version,
                    cipher: agreed.cipher,
                    alpn: agreed.alpn.as_deref(),
                    sni: self.server_name.as_deref(),
                    resumed: agreed.resumed,
                    client_cn: agreed.peer_name.as_deref(),
                }),
            },
            request: request.logged(
                &without_userinfo(request.head.target()),
                self.is_secure(request, record),
                record.user.as_deref(),
            ),
            status: record.status(),
            grpc_status: outcome.grpc_status,
            received: record.received,
            sent: record.sent,
            timings: record.timings(took),
            site: site.map(|site| site.name.as_str()),
            route: record
                .route
                .map(|route| route.name.as_str())
                .filter(|name| !name.is_empty()),
            upstream: was_dispatched.then(|| LoggedUpstream {
                pool: upstream.map(|pool| pool.settings.name.as_str()),
                endpoint: outcome
                    .endpoint
                    .as_deref()
                    .map(|endpoint| endpoint.label.as_str()),
                reused: outcome.endpoint_reused,
                tried: &tried,
                retries: outcome.retries,
            }),
            failure: record.failure.as_ref().map(|failure| LoggedFailure {
                cause: failure.cause,
                side: failure.side,
                detail: Some(failure.detail.as_ref()).filter(|detail| !detail.is_empty()),
            }),
        });
    }

    /// Whether the request's URL is one of `https:`. A forward proxy is asked for URLs of others;
    /// to a site of ours clients came by the scheme of their connection.
    pub(super) fn is_secure(&self, request: &ReadRequest<'_>, record: &ExchangeRecord<'_>) -> bool {
        let is_forwarded = record
            .route
            .is_some_and(|route| matches!(route.action, Action::Connect(_)));
        request
            .target
            .filter(|_| is_forwarded)
            .and_then(|target| target.secure.or(request.head.secure))
            .unwrap_or(self.negotiated.is_some())
    }
}

/// The endpoints that a request was brought to in vain, as the log has them.
fn tried(pool: &Pool, tried: &MemberSet) -> String {
    if tried.is_empty() {
        return String::new();
    }
    let members = MemberIndex::enumerate(pool.members());
    let tried = members.filter(|(at, _)| tried.contains(*at));
    tried
        .map(|(_, member)| member.endpoint().label.as_str())
        .collect::<Vec<_>>()
        .join(",")
}

impl<'a> ReadRequest<'a> {
    fn logged(
        &self,
        target: &'a [u8],
        is_secure: bool,
        user: Option<&'a str>,
    ) -> LoggedRequest<'a> {
        let head = self.head;
        LoggedRequest {
            method: head.method_name(),
            scheme: if is_secure { "https" } else { "http" },
            host: self.target.map_or(b"", |target| target.host),
            target,
            protocol: match head.version {
                HttpVersion::Http10 => "HTTP/1.0",
                HttpVersion::Http11 => "HTTP/1.1",
                HttpVersion::Http2 => "HTTP/2.0",
            },
            user: user.map(str::as_bytes),
            referer: head.fields.named(b"referer").next(),
            user_agent: head.fields.named(b"user-agent").next(),
        }
    }
}
