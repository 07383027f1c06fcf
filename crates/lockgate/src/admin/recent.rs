//! The requests of the last seconds: differences between the counters of two questions.
//!
//! Nothing is kept before the first question, and nothing is computed without one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockgate_metrics::HistogramSnapshot;

use crate::exposition::PoolFigures;

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
pub(super) struct RecentSpan {
    /// The time between them.
    pub(super) time: Duration,
    endpoints: BTreeMap<(String, String), EndpointSpan>,
}

/// The figures of one endpoint between two moments.
pub(super) struct EndpointSpan {
    /// Responses a second.
    pub(super) rate: f64,
    /// Half of the responses came within this many seconds; `None` without responses.
    pub(super) p50: Option<f64>,
    /// 99 of 100 responses came within this many seconds.
    pub(super) p99: Option<f64>,
}

impl RecentCounts {
    /// The figures since the oldest sample of the last ten seconds. Without one they are those
    /// since the start, which was `uptime` ago.
    pub(super) fn observe(
        &self,
        pools: &[PoolFigures],
        now: Instant,
        uptime: Duration,
    ) -> RecentSpan {
        let sample = sample(pools);
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
    pub(super) fn of(&self, pool: &str, endpoint: &str) -> Option<&EndpointSpan> {
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
