//! What is counted of exchanges: per site and per endpoint, and its names in Prometheus text.
//!
//! Sites and endpoints are those of the configuration; requests without a site count as `other`. A
//! request costs a handful of additions to cells of its own worker.

mod counts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_http::head::Method;
use lockgate_metrics::{
    Bounds, Counter, Gauge, Histogram, HistogramSnapshot, MetricFamilies, Shards,
};
use lockgate_net::index_type;
use lockgate_upstream::{DialError, EndpointIndex, LeaseMetrics};

use super::{EarlierIndexes, SharedCells, WorkerCells};
use crate::access_log::Cause;
use crate::error_response::{HttpFault, grpc};

pub use counts::{EndpointCounts, SiteCounts};

/// Classes of a status; what is none of the first five was made up by an origin.
const CODES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];
const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "other",
];
/// The site of requests that have none.
/// The site of requests without one.
pub const OTHER: &str = "other";

fn class(status: u16) -> usize {
    match status {
        100..=599 => usize::from(status / 100 - 1),
        _ => CODES.len() - 1,
    }
}

const fn method_index(method: Method) -> usize {
    match method {
        Method::Get => 0,
        Method::Head => 1,
        Method::Post => 2,
        Method::Put => 3,
        Method::Delete => 4,
        Method::Connect => 5,
        Method::Options => 6,
        Method::Trace => 7,
        Method::Patch => 8,
        Method::Other => 9,
    }
}

index_type! {
    /// The index of a site among those that a configuration counts: its sites, then its tunnels.
    SiteIndex;
}

/// The cells of one worker that are about HTTP.
#[derive(Debug, Default)]
pub struct HttpCells {
    sites: Vec<SharedCells<SiteCells>>,
    other: SharedCells<SiteCells>,
    endpoints: Vec<SharedCells<EndpointCells>>,
}

impl HttpCells {
    /// The cells of the next configuration.
    pub(super) fn next(&self, earlier: &EarlierIndexes) -> Self {
        Self {
            sites: super::next(&self.sites, &earlier.sites),
            other: Arc::clone(&self.other),
            endpoints: super::next(&self.endpoints, &earlier.endpoints),
        }
    }

    /// The cells of the site; those of `other` for none.
    pub fn site(&self, site: Option<SiteIndex>) -> &SharedCells<SiteCells> {
        site.and_then(|site| self.sites.get(site.get()))
            .unwrap_or(&self.other)
    }

    /// The cells of the endpoint; there are none without one.
    pub fn endpoint(&self, endpoint: Option<EndpointIndex>) -> Option<&EndpointCells> {
        self.endpoints.get(endpoint?.get()).map(|cells| &**cells)
    }
}

/// The counters of leases for the requests of one site.
#[derive(Clone, Copy)]
pub struct LeaseCells<'a> {
    /// The counters of endpoints.
    pub http: &'a HttpCells,
    /// The counters of the site.
    pub site: &'a SiteCells,
}

impl LeaseMetrics for LeaseCells<'_> {
    fn wait_begins(&self) {
        self.site.queued.inc();
    }

    fn wait_ends(&self, waited: Duration) {
        self.site.queued.dec();
        self.site.queue_wait.record(waited);
    }

    fn unreachable(&self, endpoint: Option<EndpointIndex>, error: &DialError) {
        if let Some(cells) = self.http.endpoint(endpoint) {
            cells.failed(HttpFault::from(error));
        }
    }
}

/// The counters of one site in one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct SiteCells {
    /// Exchanges in progress.
    pub in_flight: Gauge,
    /// From a request's first byte to its response's last.
    pub duration: Histogram,
    /// Bytes of bodies from clients.
    pub received: Counter,
    /// Bytes of bodies to clients.
    pub sent: Counter,
    /// Requests that wait for an endpoint to become free.
    pub queued: Gauge,
    /// The durations of waits for an endpoint.
    pub queue_wait: Histogram,
    /// Connections that were upgraded to another protocol.
    pub upgrades: Counter,
    /// The upgraded connections that are open.
    pub upgraded: Gauge,
    requests: [[Counter; CODES.len()]; METHODS.len()],
    errors: [Counter; Cause::ALL.len()],
    calls: [Counter; grpc::STATUSES],
}

impl Default for SiteCells {
    fn default() -> Self {
        Self {
            in_flight: Gauge::new(),
            duration: Histogram::new(Bounds::EXCHANGE),
            received: Counter::new(),
            sent: Counter::new(),
            queued: Gauge::new(),
            queue_wait: Histogram::new(Bounds::EXCHANGE),
            upgrades: Counter::new(),
            upgraded: Gauge::new(),
            requests: Default::default(),
            errors: Default::default(),
            calls: Default::default(),
        }
    }
}

impl SiteCells {
    /// Counts a call of gRPC that has ended with this status.
    pub fn called(&self, status: u16) {
        self.calls[usize::from(status).min(grpc::STATUSES - 1)].inc();
    }

    /// Counts an exchange that is over.
    pub fn finished(&self, method: Method, status: u16, took: Duration) {
        self.requests[method_index(method)][class(status)].inc();
        self.duration.record(took);
    }

    /// Counts an error that Lockgate answered itself, or could not answer any more.
    pub fn failed(&self, cause: Cause) {
        self.errors[cause.index()].inc();
    }
}

/// The counters of one endpoint in one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct EndpointCells {
    /// Exchanges with it that are going on.
    pub in_flight: Gauge,
    /// Idle connections to it, kept for reuse.
    pub idle: Gauge,
    /// Exchanges that went over a connection that had served others before.
    pub reused: Counter,
    /// Requests that were retried after a failure of this endpoint.
    pub retries: Counter,
    /// From a request's last head byte to the first byte of the response.
    pub response: Histogram,
    responses: [Counter; CODES.len()],
    connects: Counter,
    connect_micros: Counter,
    failures: [Counter; HttpFault::ALL.len()],
}

impl Default for EndpointCells {
    fn default() -> Self {
        Self {
            in_flight: Gauge::new(),
            idle: Gauge::new(),
            reused: Counter::new(),
            retries: Counter::new(),
            response: Histogram::new(Bounds::EXCHANGE),
            responses: Default::default(),
            connects: Counter::new(),
            connect_micros: Counter::new(),
            failures: [const { Counter::new() }; HttpFault::ALL.len()],
        }
    }
}

impl EndpointCells {
    /// Counts a connection that was made, with its TLS.
    pub fn connected(&self, took: Duration) {
        self.connects.inc();
        self.connect_micros
            .add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a response, `waited` after the request.
    pub fn responded(&self, status: u16, waited: Duration) {
        self.responses[class(status)].inc();
        self.response.record(waited);
    }

    /// Counts what went wrong here, whether it was made good elsewhere or not.
    pub fn failed(&self, fault: HttpFault) {
        self.failures[fault.index()].inc();
    }
}

/// An endpoint as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointState {
    /// The pool, as configured.
    pub pool: String,
    /// The address, as configured.
    pub endpoint: String,
    /// Whether its slot in the pool is vacant: then it is not shown.
    pub vacant: bool,
    /// The moving average of its response times, once there is one.
    pub latency: Option<Duration>,
}

/// Writes everything that the workers count of HTTP: `sites` and `endpoints` in the order of the
/// cells.
pub fn write(
    families: &mut MetricFamilies<'_>,
    shards: &Shards<WorkerCells>,
    sites: &[String],
    endpoints: &[EndpointState],
) {
    if !sites.is_empty() {
        SiteFamilies {
            shards,
            names: sites,
        }
        .write(families);
    }
    if !endpoints.is_empty() {
        EndpointFamilies {
            shards,
            states: endpoints,
        }
        .write(families);
    }
}

struct SiteFamilies<'a> {
    shards: &'a Shards<WorkerCells>,
    names: &'a [String],
}

impl SiteFamilies<'_> {
    fn write(&self, families: &mut MetricFamilies<'_>) {
        let mut family = families.counter("lockgate_requests_total", "Finished exchanges.");
        for (site, name) in self.each() {
            for (method, method_name) in METHODS.iter().enumerate() {
                for (code, code_name) in CODES.iter().enumerate() {
                    let sum = self.counter(site, |cells| &cells.requests[method][code]);
                    // Most combinations never are: a series for each would be sixty a site.
                    if sum > 0 {
                        let labels = [("site", name), ("method", method_name), ("code", code_name)];
                        family.sample(&labels, sum);
                    }
                }
            }
        }
        let mut family = families.counter(
            "lockgate_request_errors_total",
            "Exchanges that Lockgate ended in an error, by cause.",
        );
        for (site, name) in self.each() {
            for cause in Cause::ALL {
                let sum = self.counter(site, |cells| &cells.errors[cause.index()]);
                if sum > 0 {
                    family.sample(&[("site", name), ("cause", cause.as_str())], sum);
                }
            }
        }
        let mut family = families.counter(
            "lockgate_grpc_calls_total",
            "gRPC calls by their final status, set by endpoints or by Lockgate.",
        );
        for (site, name) in self.each() {
            for status in 0..grpc::STATUSES {
                let sum = self.counter(site, |cells| &cells.calls[status]);
                if sum > 0 {
                    let status = if status == grpc::STATUSES - 1 {
                        "other".to_owned()
                    } else {
                        status.to_string()
                    };
                    family.sample(&[("site", name), ("status", &status)], sum);
                }
            }
        }
        let mut family = families.counter(
            "lockgate_requests_unknown_client_total",
            "Requests of trusted proxies with an X-Forwarded-For that names no address: their client is unknown.",
        );
        family.sample(
            &[],
            self.shards.counter(|cells| &cells.process.unknown_clients),
        );
        let mut family = families.counter(
            "lockgate_request_bytes_total",
            "Bytes of bodies, as seen from Lockgate's clients.",
        );
        for (site, name) in self.each() {
            let (received, sent) = (
                self.counter(site, |cells| &cells.received),
                self.counter(site, |cells| &cells.sent),
            );
            family.sample(&[("site", name), ("direction", "received")], received);
            family.sample(&[("site", name), ("direction", "sent")], sent);
        }
        self.counters(
            families,
            "lockgate_upgrades_total",
            "Connections that were upgraded to another protocol.",
            |cells| &cells.upgrades,
        );
        self.gauges(
            families,
            "lockgate_requests_in_flight",
            "Exchanges in progress.",
            |cells| &cells.in_flight,
        );
        self.gauges(
            families,
            "lockgate_requests_queued",
            "Requests that wait for an endpoint.",
            |cells| &cells.queued,
        );
        self.gauges(
            families,
            "lockgate_upgraded_connections",
            "Open connections that were upgraded to another protocol.",
            |cells| &cells.upgraded,
        );
        self.histograms(
            families,
            "lockgate_request_duration_seconds",
            "Time from the first byte of a request to the last byte of its response.",
            |cells| &cells.duration,
        );
        self.histograms(
            families,
            "lockgate_request_queue_duration_seconds",
            "Time that requests waited for an endpoint, of those that had to wait.",
            |cells| &cells.queue_wait,
        );
    }

    /// Every site, and what has none.
    fn each(&self) -> impl Iterator<Item = (Option<SiteIndex>, &str)> {
        let sites =
            SiteIndex::enumerate(self.names).map(|(site, name)| (Some(site), name.as_str()));
        sites.chain([(None, OTHER)])
    }

    fn counter(&self, site: Option<SiteIndex>, cell: impl Fn(&SiteCells) -> &Counter) -> u64 {
        self.shards.counter(|cells| cell(cells.http.site(site)))
    }

    fn counters(
        &self,
        families: &mut MetricFamilies<'_>,
        name: &'static str,
        help: &str,
        cell: fn(&SiteCells) -> &Counter,
    ) {
        let mut family = families.counter(name, help);
        for (site, label) in self.each() {
            family.sample(&[("site", label)], self.counter(site, cell));
        }
    }

    fn gauges(
        &self,
        families: &mut MetricFamilies<'_>,
        name: &'static str,
        help: &str,
        cell: fn(&SiteCells) -> &Gauge,
    ) {
        let mut family = families.gauge(name, help);
        for (site, label) in self.each() {
            family.sample(
                &[("site", label)],
                self.shards.gauge(|cells| cell(cells.http.site(site))),
            );
        }
    }

    fn histograms(
        &self,
        families: &mut MetricFamilies<'_>,
        name: &'static str,
        help: &str,
        cell: fn(&SiteCells) -> &Histogram,
    ) {
        let mut family = families.histogram(name, help);
        for (site, label) in self.each() {
            if let Some(sum) = self.shards.histogram(|cells| cell(cells.http.site(site))) {
                family.sample(&[("site", label)], &sum);
            }
        }
    }
}

struct EndpointFamilies<'a> {
    shards: &'a Shards<WorkerCells>,
    states: &'a [EndpointState],
}

impl EndpointFamilies<'_> {
    fn write(&self, families: &mut MetricFamilies<'_>) {
        let mut family = families.gauge(
            "lockgate_upstream_latency_ewma_seconds",
            "The moving average of an endpoint's response times.",
        );
        for (_, labels, state) in self.each() {
            if let Some(latency) = state.latency {
                family.sample(&labels, latency.as_secs_f64());
            }
        }
        let mut family = families.counter(
            "lockgate_upstream_requests_total",
            "Responses of an endpoint.",
        );
        for (index, [pool, endpoint], _) in self.each() {
            for (code, name) in CODES.iter().enumerate() {
                let sum = self.counter(index, |cells| &cells.responses[code]);
                if sum > 0 {
                    family.sample(&[pool, endpoint, ("code", name)], sum);
                }
            }
        }
        self.failures(families);
        self.counters(
            families,
            "lockgate_upstream_retries_total",
            "Requests that were retried after a failure of this endpoint.",
            |cells| &cells.retries,
        );
        self.counters(
            families,
            "lockgate_upstream_connects_total",
            "Connections made to an endpoint.",
            |cells| &cells.connects,
        );
        let mut family = families.counter(
            "lockgate_upstream_connect_seconds_total",
            "Total time to connect to an endpoint.",
        );
        for (index, labels, _) in self.each() {
            let micros = self.counter(index, |cells| &cells.connect_micros);
            family.sample(&labels, micros as f64 / 1e6);
        }
        self.counters(
            families,
            "lockgate_upstream_reused_total",
            "Exchanges over a reused connection.",
            |cells| &cells.reused,
        );
        self.gauges(
            families,
            "lockgate_upstream_requests_in_flight",
            "Exchanges in progress.",
            |cells| &cells.in_flight,
        );
        self.gauges(
            families,
            "lockgate_upstream_idle_connections",
            "Idle connections that are kept for reuse.",
            |cells| &cells.idle,
        );
        let mut family = families.histogram(
            "lockgate_upstream_response_duration_seconds",
            "Time from a request to the first byte of its response.",
        );
        for (index, labels, _) in self.each() {
            let own = self.cells(index).map(|cells| cells.response.snapshot());
            if let Some(sum) = own.reduce(HistogramSnapshot::merge) {
                family.sample(&labels, &sum);
            }
        }
    }

    fn failures(&self, families: &mut MetricFamilies<'_>) {
        let mut family = families.counter(
            "lockgate_upstream_failures_total",
            "Failures at an endpoint, by the error types of RFC 9209.",
        );
        for (index, [pool, endpoint], _) in self.each() {
            // Several faults have one type.
            let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
            for fault in HttpFault::ALL {
                *sums.entry(fault.proxy_error()).or_default() +=
                    self.counter(index, |cells| &cells.failures[fault.index()]);
            }
            for (reason, sum) in sums.into_iter().filter(|&(_, sum)| sum > 0) {
                family.sample(&[pool, endpoint, ("reason", reason)], sum);
            }
        }
    }

    fn each(&self) -> impl Iterator<Item = (EndpointIndex, [(&str, &str); 2], &EndpointState)> {
        EndpointIndex::enumerate(self.states)
            .filter(|(_, state)| !state.vacant)
            .map(|(index, state)| {
                (
                    index,
                    [
                        ("pool", state.pool.as_str()),
                        ("endpoint", state.endpoint.as_str()),
                    ],
                    state,
                )
            })
    }

    /// The cells of one endpoint, of every worker.
    fn cells(&self, index: EndpointIndex) -> impl Iterator<Item = &EndpointCells> {
        self.shards
            .iter()
            .filter_map(move |cells| cells.http.endpoint(Some(index)))
    }

    fn counter(&self, index: EndpointIndex, cell: impl Fn(&EndpointCells) -> &Counter) -> u64 {
        self.cells(index)
            .fold(0, |sum, cells| sum.wrapping_add(cell(cells).value()))
    }

    fn counters(
        &self,
        families: &mut MetricFamilies<'_>,
        name: &'static str,
        help: &str,
        cell: fn(&EndpointCells) -> &Counter,
    ) {
        let mut family = families.counter(name, help);
        for (index, labels, _) in self.each() {
            family.sample(&labels, self.counter(index, cell));
        }
    }

    fn gauges(
        &self,
        families: &mut MetricFamilies<'_>,
        name: &'static str,
        help: &str,
        cell: fn(&EndpointCells) -> &Gauge,
    ) {
        let mut family = families.gauge(name, help);
        for (index, labels, _) in self.each() {
            let sum: i64 = self.cells(index).map(|cells| cell(cells).value()).sum();
            family.sample(&labels, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockgate_metrics::ExpositionText;

    use super::*;

    fn shards(workers: usize) -> Shards<WorkerCells> {
        let new = EarlierIndexes {
            sites: vec![None; 2],
            endpoints: vec![None],
            ..EarlierIndexes::default()
        };
        Shards::new(workers, |_| WorkerCells::none().next(&new, &[]))
    }

    fn written(shards: &Shards<WorkerCells>) -> String {
        let mut text = ExpositionText::new();
        let sites = ["a.example".to_owned(), "*.b.example".to_owned()];
        let endpoints = [EndpointState {
            pool: "app".to_owned(),
            endpoint: "10.0.0.1:8080".to_owned(),
            vacant: false,
            latency: Some(Duration::from_millis(250)),
        }];
        write(
            &mut MetricFamilies::new(&mut text),
            shards,
            &sites,
            &endpoints,
        );
        text.finish()
    }

    fn assert_has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(
                text.lines().any(|other| other == *line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn request_metrics_are_summed_by_site_method_and_status_class() {
        let shards = shards(2);
        for worker in 0..2 {
            let cells = shards.shard(worker).unwrap();
            let site = cells.http.site(Some(SiteIndex::new(1)));
            site.finished(Method::Get, 204, Duration::from_millis(3));
            site.finished(Method::Other, 999, Duration::from_millis(3));
            site.in_flight.inc();
            site.received.add(10);
            site.queue_wait.record(Duration::from_millis(20));
            for nowhere in [None, Some(SiteIndex::new(7))] {
                cells
                    .http
                    .site(nowhere)
                    .finished(Method::Post, 404, Duration::ZERO);
                cells.http.site(nowhere).failed(Cause::RefusedByRule);
            }
        }
        assert_has(
            &written(&shards),
            &[
                r#"lockgate_requests_total{site="*.b.example",method="GET",code="2xx"} 2"#,
                r#"lockgate_requests_total{site="*.b.example",method="other",code="other"} 2"#,
                r#"lockgate_requests_total{site="other",method="POST",code="4xx"} 4"#,
                r#"lockgate_request_errors_total{site="other",cause="refused_by_rule"} 4"#,
                r#"lockgate_requests_in_flight{site="*.b.example"} 2"#,
                r#"lockgate_requests_in_flight{site="a.example"} 0"#,
                r#"lockgate_request_bytes_total{site="*.b.example",direction="received"} 20"#,
                r#"lockgate_request_duration_seconds_count{site="*.b.example"} 4"#,
                r#"lockgate_request_queue_duration_seconds_count{site="*.b.example"} 2"#,
            ],
        );
    }

    #[test]
    fn endpoint_failures_are_counted_by_registered_type() {
        let shards = shards(2);
        for worker in 0..2 {
            let cells = shards.shard(worker).unwrap();
            let endpoint = cells.http.endpoint(Some(EndpointIndex::new(0))).unwrap();
            endpoint.connected(Duration::from_micros(750));
            endpoint.responded(502, Duration::from_millis(2));
            endpoint.failed(HttpFault::QueueFull);
            endpoint.failed(HttpFault::QueueTimeout);
            endpoint.idle.inc();
            assert!(
                [Some(EndpointIndex::new(1)), None]
                    .iter()
                    .all(|nowhere| cells.http.endpoint(*nowhere).is_none())
            );
        }
        let labels = r#"pool="app",endpoint="10.0.0.1:8080""#;
        let lines = [
            format!("lockgate_upstream_latency_ewma_seconds{{{labels}}} 0.25"),
            format!("lockgate_upstream_requests_total{{{labels},code=\"5xx\"}} 2"),
            format!(
                "lockgate_upstream_failures_total{{{labels},reason=\"connection_limit_reached\"}} 4"
            ),
            format!("lockgate_upstream_connects_total{{{labels}}} 2"),
            format!("lockgate_upstream_connect_seconds_total{{{labels}}} 0.0015"),
            format!("lockgate_upstream_idle_connections{{{labels}}} 2"),
            format!("lockgate_upstream_response_duration_seconds_count{{{labels}}} 2"),
        ];
        assert_has(&written(&shards), &lines.each_ref().map(String::as_str));
    }

    #[test]
    fn without_sites_no_http_metrics_are_written() {
        let mut text = ExpositionText::new();
        write(&mut MetricFamilies::new(&mut text), &shards(1), &[], &[]);
        assert_eq!(text.finish(), "");
    }

    #[test]
    fn every_status_code_has_a_class() {
        for (status, expected) in [
            (0, "other"),
            (99, "other"),
            (100, "1xx"),
            (299, "2xx"),
            (499, "4xx"),
            (599, "5xx"),
            (600, "other"),
        ] {
            assert_eq!(CODES[class(status)], expected);
        }
    }
}
