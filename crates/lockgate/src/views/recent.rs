//! The requests of the last seconds: differences between the counters of two questions.
//!
//! Nothing is kept before the first question, and nothing is computed without one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockgate_metrics::HistogramSnapshot;

use crate::exposition::{PoolFigures, SiteFigures};

/// The time that figures look back.
const BACK: Duration = Duration::from_secs(10);
/// The time between two samples that are kept: questions may come more often.
const APART: Duration = Duration::from_secs(1);

/// The counters of the last questions, the oldest first.
#[derive(Default)]
pub(crate) struct RecentCounts(Mutex<VecDeque<(Instant, Sample)>>);

/// The responses of each endpoint, by pool and label.
type Sample = BTreeMap<(String, String), HistogramSnapshot>;

/// The figures between two moments.
pub(crate) struct RecentSpan {
    /// The time between them.
    pub(crate) time: Duration,
    endpoints: BTreeMap<(String, String), EndpointSpan>,
}

/// The figures of one endpoint between two moments.
pub(crate) struct EndpointSpan {
    /// Responses a second.
    pub(crate) rate: f64,
    /// Half of the responses came within this many seconds; `None` without responses.
    pub(crate) p50: Option<f64>,
    /// 99 of 100 responses came within this many seconds.
    pub(crate) p99: Option<f64>,
}

impl RecentCounts {
    /// The figures since the oldest sample of the last ten seconds. Without one they are those
    /// since the start, which was `uptime` ago.
    pub(crate) fn observe(
        &self,
        pools: &[PoolFigures],
        now: Instant,
        uptime: Duration,
    ) -> RecentSpan {
        self.compare(sample(pools), now, uptime)
    }

    /// The same of sites, which have the name of their pool empty.
    pub(crate) fn observe_sites(
        &self,
        sites: &[SiteFigures],
        now: Instant,
        uptime: Duration,
    ) -> RecentSpan {
        let durations = sites.iter().filter_map(|site| {
            let duration = site.counts.duration.clone()?;
            Some(((String::new(), site.name.clone()), duration))
        });
        self.compare(durations.collect(), now, uptime)
    }

    fn compare(&self, sample: Sample, now: Instant, uptime: Duration) -> RecentSpan {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(at, _)| now.duration_since(*at) <= BACK);
        let is_far = |at: Instant| now.duration_since(at) >= APART;
        let first = kept.front().filter(|(at, _)| is_far(*at));
        let span = match first {
            Some((at, earlier)) => span(&sample, earlier, now.duration_since(*at)),
            None => span(&sample, &Sample::new(), uptime),
        };
        if kept.back().is_none_or(|(at, _)| is_far(*at)) {
            kept.push_back((now, sample));
        }
        span
    }
}

impl RecentSpan {
    /// The same, without figures if it is longer than `longest`.
    pub(crate) fn within(mut self, longest: Duration) -> Self {
        if self.time > longest {
            self.endpoints.clear();
        }
        self
    }

    pub(crate) fn of(&self, pool: &str, endpoint: &str) -> Option<&EndpointSpan> {
        self.endpoints.get(&(pool.to_owned(), endpoint.to_owned()))
    }
}

fn sample(pools: &[PoolFigures]) -> Sample {
    let mut sample = Sample::new();
    for pool in pools {
        for endpoint in &pool.endpoints {
            if let Some(response) = endpoint
                .counts
                .as_ref()
                .and_then(|all| all.response.clone())
            {
                sample.insert((pool.name.clone(), endpoint.endpoint.clone()), response);
            }
        }
    }
    sample
}

fn span(now: &Sample, earlier: &Sample, time: Duration) -> RecentSpan {
    let difference = |key: &(String, String), count: &HistogramSnapshot| {
        let count = match earlier.get(key) {
            Some(earlier) => count.since(earlier),
            None => count.clone(),
        };
        EndpointSpan {
            rate: (count.count() as f64 / time.as_secs_f64().max(1.0) * 10.0).round() / 10.0,
            p50: count.quantile(0.5),
            p99: count.quantile(0.99),
        }
    };
    RecentSpan {
        time,
        endpoints: now
            .iter()
            .map(|(key, count)| (key.clone(), difference(key, count)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_metrics::{Bounds, Histogram};
    use lockgate_proxy::metrics::http::EndpointCounts;

    fn pools(responses: &Histogram) -> Vec<PoolFigures> {
        let counts = EndpointCounts {
            idle: 0,
            retries: 0,
            failures: BTreeMap::new(),
            response: Some(responses.snapshot()),
        };
        vec![PoolFigures::of_one(counts)]
    }

    #[test]
    fn rates_are_those_since_the_oldest_question_of_ten_seconds() {
        let (recent, responses) = (RecentCounts::default(), Histogram::new(Bounds::EXCHANGE));
        let begin = Instant::now();
        let ask = |seconds: u64| {
            let passed = Duration::from_secs(seconds);
            let span = recent.observe(&pools(&responses), begin + passed, passed);
            let rate = span.of("app", "10.0.0.1:80").map(|one| one.rate);
            (span.time.as_secs(), rate)
        };
        let respond = |count| responses.record_many(Duration::from_millis(3), count);
        respond(1_000);
        // Nothing earlier is known than the start.
        assert_eq!(ask(100), (100, Some(10.0)));
        respond(20);
        assert_eq!(ask(105), (5, Some(4.0)));
        assert_eq!(ask(110), (10, Some(2.0)));
        // The first question is too old now.
        respond(50);
        assert_eq!(ask(115), (10, Some(5.0)));
        assert_eq!(ask(200).0, 200);
    }

    #[test]
    fn figures_of_a_long_time_can_be_left_out() {
        let (recent, responses) = (RecentCounts::default(), Histogram::new(Bounds::EXCHANGE));
        let begin = Instant::now();
        let ask = |seconds: u64| {
            let passed = Duration::from_secs(seconds);
            let span = recent.observe(&pools(&responses), begin + passed, passed);
            span.within(BACK).of("app", "10.0.0.1:80").is_some()
        };
        assert_eq!([100, 102, 200].map(ask), [false, true, false]);
    }

    #[test]
    fn frequent_questions_keep_few_samples() {
        let (recent, responses) = (RecentCounts::default(), Histogram::new(Bounds::EXCHANGE));
        let begin = Instant::now();
        for tenth in 0..1_000 {
            let passed = Duration::from_millis(100 * tenth);
            recent.observe(&pools(&responses), begin + passed, passed);
        }
        let kept = recent.0.lock().unwrap().len();
        assert!((9..=11).contains(&kept), "{kept}");
    }
}
