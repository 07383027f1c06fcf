//! The last hour: the traffic of every ten seconds, and the state of each endpoint by minute.
//!
//! Kept in memory, and of a fixed size: a page that is opened after an incident shows it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockgate_metrics::HistogramSnapshot;
use lockgate_proxy::metrics::http::SiteCounts;
use lockgate_upstream::AdminMode;
use serde::{Serialize, Serializer};

use super::rows::micros;
use crate::exposition::{EndpointCondition, EndpointFigures, PoolFigures, SiteFigures};
use crate::views::ListView;

/// The time between two samples.
pub(super) const STEP: Duration = Duration::from_secs(10);
/// Samples of an hour.
const SAMPLES: usize = 360;
/// Samples of a minute.
const MINUTE: usize = 6;
/// Minutes of an hour.
const MINUTES: usize = 60;
/// The most endpoints with a history.
pub(super) const ENDPOINTS: usize = 2_000;

/// The history of a process.
#[derive(Default)]
pub(super) struct History {
    samples: VecDeque<Traffic>,
    last: Option<(Instant, Totals)>,
    /// When the last sample was taken, in seconds since 1970.
    last_unix: u64,
    strips: BTreeMap<(String, String), Strip>,
    /// The samples of the minute that is not over.
    of_minute: usize,
}

/// The counters of each site.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals(BTreeMap<String, SiteCounts>);

/// The traffic between two moments; counts are those of a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) responses: BTreeMap<&'static str, f64>,
    pub(super) errors: BTreeMap<&'static str, f64>,
    pub(super) received: f64,
    pub(super) sent: f64,
    /// Half of the requests took so many seconds at most; `None` without a request.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
}

/// The minutes of an endpoint, the oldest first.
#[derive(Debug, Default)]
struct Strip {
    minutes: VecDeque<u8>,
    /// The worst state of the minute that is not over.
    worst: u8,
    responses: u64,
    failures: u64,
    is_present: bool,
}

impl Totals {
    pub(super) fn of(sites: &[SiteFigures]) -> Self {
        let counts = |site: &SiteFigures| (site.name.clone(), site.counts.clone());
        Self(sites.iter().map(counts).collect())
    }

    /// The traffic since `earlier`, which was `time` ago, site by site: one that a reload has removed
    /// takes its counts with it, and takes nothing from the others.
    pub(super) fn since(&self, earlier: &Self, time: Duration) -> Traffic {
        let (mut responses, mut errors) = (BTreeMap::new(), BTreeMap::new());
        let (mut received, mut sent) = (0, 0);
        let mut duration: Option<HistogramSnapshot> = None;
        for (name, now) in &self.0 {
            let before = earlier.0.get(name);
            add_growth(
                &mut responses,
                &now.responses,
                before.map(|one| &one.responses),
            );
            add_growth(&mut errors, &now.failures, before.map(|one| &one.failures));
            received += growth(now.received, before.map_or(0, |one| one.received));
            sent += growth(now.sent, before.map_or(0, |one| one.sent));
            let more = match (&now.duration, before.and_then(|one| one.duration.as_ref())) {
                (Some(now), Some(before)) => Some(now.since(before)),
                (now, _) => now.clone(),
            };
            duration = match (duration, more) {
                (Some(all), Some(more)) => Some(all.merge(more)),
                (all, more) => all.or(more),
            };
        }
        let seconds = time.as_secs_f64().max(0.1);
        let rate = |count: u64| (count as f64 / seconds * 100.0).round() / 100.0;
        let rates = |counts: BTreeMap<&'static str, u64>| {
            let counts = counts.into_iter();
            counts.map(|(name, count)| (name, rate(count))).collect()
        };
        let quantile = |share| duration.as_ref().and_then(|all| all.quantile(share));
        Traffic {
            responses: rates(responses),
            errors: rates(errors),
            received: rate(received),
            sent: rate(sent),
            p50: quantile(0.5),
            p99: quantile(0.99),
        }
    }
}

/// What a counter has counted since it was `before`; one that is less has begun anew.
fn growth(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn add_growth(
    to: &mut BTreeMap<&'static str, u64>,
    now: &BTreeMap<&'static str, u64>,
    before: Option<&BTreeMap<&'static str, u64>>,
) {
    for (name, count) in now {
        let before = before.and_then(|before| before.get(name));
        *to.entry(name).or_default() += growth(*count, before.copied().unwrap_or(0));
    }
}

impl History {
    /// Takes a sample; due every [`STEP`].
    pub(super) fn take(
        &mut self,
        sites: &[SiteFigures],
        pools: &[PoolFigures],
        (now, unix): (Instant, SystemTime),
    ) {
        let totals = Totals::of(sites);
        if let Some((at, earlier)) = &self.last {
            let sample = totals.since(earlier, now.duration_since(*at));
            if self.samples.len() >= SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
        }
        self.last = Some((now, totals));
        self.last_unix = unix
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        self.take_endpoints(pools);
    }

    fn take_endpoints(&mut self, pools: &[PoolFigures]) {
        for strip in self.strips.values_mut() {
            strip.is_present = false;
        }
        for pool in pools {
            for endpoint in &pool.endpoints {
                let key = (pool.name.clone(), endpoint.endpoint.clone());
                if self.strips.len() < ENDPOINTS || self.strips.contains_key(&key) {
                    self.strips.entry(key).or_default().take(endpoint);
                }
            }
        }
        self.of_minute += 1;
        if self.of_minute >= MINUTE {
            self.of_minute = 0;
            self.strips.retain(|_, strip| strip.is_present);
            self.strips.values_mut().for_each(Strip::end_minute);
        }
    }

    /// The history as the page gets it. Each list has a number for each sample, the oldest first.
    pub(super) fn view(&self) -> impl Serialize {
        let samples = self.samples.iter();
        let mut strips: BTreeMap<&str, BTreeMap<&str, &Strip>> = BTreeMap::new();
        for ((pool, endpoint), strip) in &self.strips {
            strips.entry(pool).or_default().insert(endpoint, strip);
        }
        HistoryView {
            seconds: STEP.as_secs(),
            last: self.last_unix,
            requests: self.lists(|sample| &sample.responses),
            errors: self.lists(|sample| &sample.errors),
            received: ListView(samples.clone().map(|sample| sample.received)),
            sent: ListView(samples.clone().map(|sample| sample.sent)),
            p50: ListView(samples.clone().map(|sample| sample.p50.map(micros))),
            p99: ListView(samples.map(|sample| sample.p99.map(micros))),
            strips,
        }
    }

    /// A list for each name that has occurred.
    fn lists(
        &self,
        of: fn(&Traffic) -> &BTreeMap<&'static str, f64>,
    ) -> BTreeMap<&'static str, impl Serialize> {
        let names = self.samples.iter().flat_map(|sample| of(sample).keys());
        let names: BTreeSet<&'static str> = names.copied().collect();
        let values = |name: &'static str| {
            let samples = self.samples.iter();
            ListView(samples.map(move |sample| of(sample).get(name).copied().unwrap_or(0.0)))
        };
        let names = names.into_iter();
        names.map(|name| (name, values(name))).collect()
    }
}

/// The history as the page gets it.
#[derive(Serialize)]
struct HistoryView<'a, N, R, S, P, Q> {
    seconds: u64,
    last: u64,
    requests: BTreeMap<&'static str, N>,
    errors: BTreeMap<&'static str, N>,
    received: R,
    sent: S,
    p50: P,
    p99: Q,
    strips: BTreeMap<&'a str, BTreeMap<&'a str, &'a Strip>>,
}

impl Strip {
    fn take(&mut self, endpoint: &EndpointFigures) {
        let responses = endpoint.counts.as_ref().map_or(0, |all| all.requests());
        let failures = endpoint
            .counts
            .as_ref()
            .map_or(0, |all| all.failures.values().sum());
        // The first sample has nothing to compare with.
        let is_new = self.minutes.is_empty() && self.worst == 0;
        let state = match endpoint.condition {
            _ if endpoint.mode != AdminMode::Ready => 6,
            EndpointCondition::Down => 5,
            EndpointCondition::Ejected | EndpointCondition::Avoided => 4,
            EndpointCondition::Up if failures > self.failures && !is_new => 3,
            EndpointCondition::Up if responses > self.responses && !is_new => 2,
            // The requests of relays are not known.
            EndpointCondition::Up if endpoint.counts.is_none() && endpoint.in_flight > 0 => 2,
            EndpointCondition::Up => 1,
        };
        (self.responses, self.failures) = (responses, failures);
        self.worst = self.worst.max(state);
        self.is_present = true;
    }

    fn end_minute(&mut self) {
        if self.minutes.len() >= MINUTES - 1 {
            self.minutes.pop_front();
        }
        self.minutes.push_back(std::mem::take(&mut self.worst));
    }
}

/// A digit for each minute, the last for the one that is not over.
impl Serialize for Strip {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let now = (self.worst > 0).then_some(self.worst);
        let all = self.minutes.iter().copied().chain(now);
        let digits = all.map(|state| char::from(b'0' + state));
        serializer.serialize_str(&digits.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_metrics::{Bounds, Histogram};
    use lockgate_proxy::metrics::http::EndpointCounts;
    use serde_json::{Value, json};

    fn site(requests: u64, errors: u64, duration: &Histogram) -> SiteFigures {
        SiteFigures {
            name: "a.test".to_owned(),
            counts: SiteCounts {
                in_flight: 0,
                queued: 0,
                responses: BTreeMap::from([("2xx", requests)]),
                failures: BTreeMap::from([("limit", errors)]),
                received: 10 * requests,
                sent: 100 * requests,
                duration: Some(duration.snapshot()),
            },
        }
    }

    fn pool(condition: EndpointCondition, mode: AdminMode, failures: u64) -> Vec<PoolFigures> {
        let counts = EndpointCounts {
            idle: 0,
            retries: 0,
            failures: BTreeMap::from([("connection_refused", failures)]),
            response: None,
        };
        let mut pool = PoolFigures::of_one(counts);
        let endpoint = &mut pool.endpoints[0];
        (endpoint.condition, endpoint.mode) = (condition, mode);
        vec![pool]
    }

    fn json_of(history: &History) -> Value {
        serde_json::to_value(history.view()).unwrap()
    }

    struct Steps {
        history: History,
        begin: Instant,
        step: u32,
    }

    impl Steps {
        fn new() -> Self {
            Self {
                history: History::default(),
                begin: Instant::now(),
                step: 0,
            }
        }

        fn take(&mut self, sites: &[SiteFigures], pools: &[PoolFigures]) {
            let passed = STEP * self.step;
            self.step += 1;
            let unix = UNIX_EPOCH + Duration::from_secs(1_000) + passed;
            self.history.take(sites, pools, (self.begin + passed, unix));
        }
    }

    #[test]
    fn samples_are_the_traffic_of_a_second_between_two_moments() {
        let (mut steps, duration) = (Steps::new(), Histogram::new(Bounds::EXCHANGE));
        steps.take(&[site(100, 0, &duration)], &[]);
        assert_eq!(json_of(&steps.history)["sent"], json!([]));
        duration.record_many(Duration::from_millis(3), 50);
        steps.take(&[site(150, 5, &duration)], &[]);
        // A reload has removed the site.
        steps.take(&[], &[]);
        let history = json_of(&steps.history);
        assert_eq!(history["requests"], json!({ "2xx": [5.0, 0.0] }));
        assert_eq!(history["errors"], json!({ "limit": [0.5, 0.0] }));
        assert_eq!(history["received"], json!([50.0, 0.0]));
        assert_eq!(history["sent"], json!([500.0, 0.0]));
        assert_eq!(history["p99"][1], Value::Null);
        assert!(history["p50"][0].as_f64().unwrap() > 0.0);
        assert_eq!(
            (&history["last"], &history["seconds"]),
            (&json!(1_020), &json!(10))
        );
    }

    #[test]
    fn a_removed_site_takes_nothing_from_the_traffic_of_others() {
        let (mut steps, duration) = (Steps::new(), Histogram::new(Bounds::EXCHANGE));
        let named = |name: &str, requests| SiteFigures {
            name: name.to_owned(),
            ..site(requests, 0, &duration)
        };
        steps.take(&[named("large", 1_000), named("small", 20)], &[]);
        // A reload removes the large one.
        steps.take(&[named("small", 50)], &[]);
        // It comes back, and the other one begins anew.
        steps.take(&[named("large", 70), named("small", 10)], &[]);
        let history = json_of(&steps.history);
        assert_eq!(history["requests"], json!({ "2xx": [3.0, 8.0] }));
        assert_eq!(history["sent"], json!([300.0, 800.0]));
    }

    #[test]
    fn a_minute_with_connections_of_a_relay_is_in_use() {
        let mut steps = Steps::new();
        let relay = |in_flight| {
            let mut pools = pool(EndpointCondition::Up, AdminMode::Ready, 0);
            let endpoint = &mut pools[0].endpoints[0];
            (endpoint.counts, endpoint.in_flight) = (None, in_flight);
            pools
        };
        (0..MINUTE).for_each(|_| steps.take(&[], &relay(0)));
        steps.take(&[], &relay(1));
        let strips = &json_of(&steps.history)["strips"];
        assert_eq!(strips, &json!({ "app": { "10.0.0.1:80": "12" } }));
    }

    #[test]
    fn an_hour_is_kept_however_long_the_process_runs() {
        let (mut steps, duration) = (Steps::new(), Histogram::new(Bounds::EXCHANGE));
        for step in 0..1_000 {
            let pools = pool(EndpointCondition::Up, AdminMode::Ready, 0);
            steps.take(&[site(step, 0, &duration)], &pools);
        }
        let history = json_of(&steps.history);
        assert_eq!(history["sent"].as_array().unwrap().len(), SAMPLES);
        let strip = history["strips"]["app"]["10.0.0.1:80"].as_str().unwrap();
        assert_eq!(strip.len(), MINUTES);
    }

    #[test]
    fn a_minute_of_an_endpoint_has_its_worst_state() {
        let mut steps = Steps::new();
        let up = |failures| pool(EndpointCondition::Up, AdminMode::Ready, failures);
        let down = pool(EndpointCondition::Down, AdminMode::Ready, 0);
        let ejected = pool(EndpointCondition::Ejected, AdminMode::Ready, 0);
        let drained = pool(EndpointCondition::Up, AdminMode::Drain, 0);
        // Failures of before the first sample are none of the first minute.
        for minute in [
            [&up(7); MINUTE],
            [&up(7), &up(7), &up(8), &up(8), &up(8), &up(8)],
            [&up(8), &ejected, &up(0), &down, &up(0), &up(0)],
            [&drained; MINUTE],
        ] {
            for pools in minute {
                steps.take(&[], pools);
            }
        }
        steps.take(&[], &ejected);
        let strip = |steps: &Steps| json_of(&steps.history)["strips"].clone();
        assert_eq!(strip(&steps), json!({ "app": { "10.0.0.1:80": "13564" } }));
        // An endpoint that is gone is forgotten.
        for _ in 0..2 * MINUTE {
            steps.take(&[], &[]);
        }
        assert_eq!(strip(&steps), json!({}));
    }
}
