//! The requests of the last seconds: differences between the counters of two questions.
//!
//! Nothing is kept before the first question, and nothing is computed without one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
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

/// The responses of each endpoint, or of each site, in the order of the figures.
struct Sample {
    /// The pool and the label of each. They change with a reload only: samples share them.
    names: Arc<[(String, String)]>,
    counts: Vec<Option<HistogramSnapshot>>,
}

/// The figures between two moments.
pub(crate) struct RecentSpan {
    /// The time between them.
    pub(crate) time: Duration,
    /// In the order of the figures.
    spans: Vec<Option<EndpointSpan>>,
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
        let endpoints = pools.iter().flat_map(|pool| {
            let endpoints = pool.endpoints.iter();
            endpoints.map(|one| {
                let response = one.counts.as_ref().and_then(|all| all.response.as_ref());
                ((&*pool.name, &*one.endpoint), response)
            })
        });
        self.compare(endpoints, now, uptime)
    }

    /// The same of sites, which have the name of their pool empty.
    pub(crate) fn observe_sites(
        &self,
        sites: &[SiteFigures],
        now: Instant,
        uptime: Duration,
    ) -> RecentSpan {
        let sites = sites.iter();
        let sites = sites.map(|site| (("", &*site.name), site.counts.duration.as_ref()));
        self.compare(sites, now, uptime)
    }

    fn compare<'f>(
        &self,
        counts: impl Iterator<Item = NamedCount<'f>> + Clone,
        now: Instant,
        uptime: Duration,
    ) -> RecentSpan {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(at, _)| now.duration_since(*at) <= BACK);
        let is_far = |at: Instant| now.duration_since(at) >= APART;
        let first = kept.front().filter(|(at, _)| is_far(*at));
        let time = first.map_or(uptime, |(at, _)| now.duration_since(*at));
        let earlier = first.map(|(_, sample)| sample);
        let spans = spans(counts.clone(), earlier, time);
        if kept.back().is_none_or(|(at, _)| is_far(*at)) {
            let sample = Sample::of(counts, kept.back().map(|(_, sample)| sample));
            kept.push_back((now, sample));
        }
        RecentSpan { time, spans }
    }
}

/// The pool and the label of an endpoint, and its responses.
type NamedCount<'f> = ((&'f str, &'f str), Option<&'f HistogramSnapshot>);

impl Sample {
    fn of<'f>(counts: impl Iterator<Item = NamedCount<'f>> + Clone, last: Option<&Self>) -> Self {
        let names = counts.clone().map(|(name, _)| name);
        let names = match last.filter(|last| last.is_of(names.clone())) {
            Some(last) => Arc::clone(&last.names),
            None => names
                .map(|(pool, label)| (pool.to_owned(), label.to_owned()))
                .collect(),
        };
        Self {
            names,
            counts: counts.map(|(_, count)| count.cloned()).collect(),
        }
    }

    /// Whether it has these names, in this order.
    fn is_of<'f>(&self, mut names: impl Iterator<Item = (&'f str, &'f str)>) -> bool {
        let mut own = self.names();
        own.all(|name| names.next() == Some(name)) && names.next().is_none()
    }

    fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.names.iter();
        names.map(|(pool, label)| (pool.as_str(), label.as_str()))
    }
}

impl RecentSpan {
    /// The same, without figures if it is longer than `longest`.
    pub(crate) fn within(mut self, longest: Duration) -> Self {
        if self.time > longest {
            self.spans.fill_with(|| None);
        }
        self
    }

    /// The figures, in the order of what was observed.
    pub(crate) fn spans(&self) -> &[Option<EndpointSpan>] {
        &self.spans
    }

    /// The pools that were observed, with the figures of their endpoints.
    pub(crate) fn by_pool<'p>(
        &'p self,
        pools: &'p [PoolFigures],
    ) -> impl Iterator<Item = (&'p PoolFigures, &'p [Option<EndpointSpan>])> + Clone {
        pools.iter().scan(self.spans(), |left, pool| {
            let (own, others) = left.split_at_checked(pool.endpoints.len())?;
            *left = others;
            Some((pool, own))
        })
    }
}

fn spans<'f>(
    counts: impl Iterator<Item = NamedCount<'f>> + Clone,
    earlier: Option<&Sample>,
    time: Duration,
) -> Vec<Option<EndpointSpan>> {
    let Some(earlier) = earlier else {
        let spans = counts.map(|(_, count)| Some(EndpointSpan::of(count?, None, time)));
        return spans.collect();
    };
    if earlier.is_of(counts.clone().map(|(name, _)| name)) {
        let pairs = counts.zip(&earlier.counts);
        let spans = pairs
            .map(|((_, count), earlier)| Some(EndpointSpan::of(count?, earlier.as_ref(), time)));
        return spans.collect();
    }
    let by_name: HashMap<_, _> = earlier.names().zip(&earlier.counts).collect();
    let spans = counts.map(|(name, count)| {
        let earlier = by_name.get(&name).and_then(|count| count.as_ref());
        Some(EndpointSpan::of(count?, earlier, time))
    });
    spans.collect()
}

impl EndpointSpan {
    /// The figures of a time that ends with `now`, and began with `earlier` or the first response.
    fn of(now: &HistogramSnapshot, earlier: Option<&HistogramSnapshot>, time: Duration) -> Self {
        let grown = match earlier {
            // As of most endpoints of a large configuration.
            Some(earlier) if now == earlier => {
                return Self {
                    rate: 0.0,
                    p50: None,
                    p99: None,
                };
            }
            Some(earlier) => &now.since(earlier),
            None => now,
        };
        Self {
            rate: (grown.count() as f64 / time.as_secs_f64().max(1.0) * 10.0).round() / 10.0,
            p50: grown.quantile(0.5),
            p99: grown.quantile(0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

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
            let rate = span.spans()[0].as_ref().map(|one| one.rate);
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
            span.within(BACK).spans()[0].is_some()
        };
        assert_eq!([100, 102, 200].map(ask), [false, true, false]);
    }

    #[test]
    fn figures_go_by_name_where_a_reload_has_changed_the_order() {
        let (recent, responses) = (RecentCounts::default(), Histogram::new(Bounds::EXCHANGE));
        let begin = Instant::now();
        responses.record_many(Duration::from_millis(3), 100);
        recent.observe(&pools(&responses), begin, Duration::ZERO);
        let mut reloaded = pools(&Histogram::new(Bounds::EXCHANGE));
        reloaded[0].name = "new".to_owned();
        responses.record_many(Duration::from_millis(3), 8);
        reloaded.extend(pools(&responses));
        let later = begin + Duration::from_secs(2);
        let span = recent.observe(&reloaded, later, Duration::ZERO);
        let rates: Vec<_> = span
            .by_pool(&reloaded)
            .map(|(pool, spans)| (&*pool.name, spans[0].as_ref().unwrap().rate))
            .collect();
        assert_eq!(rates, [("new", 0.0), ("app", 4.0)]);
        // The next sample is compared by its new order.
        responses.record_many(Duration::from_millis(3), 20);
        let mut newer = pools(&Histogram::new(Bounds::EXCHANGE));
        newer[0].name = "new".to_owned();
        newer.extend(pools(&responses));
        let span = recent.observe(&newer, begin + Duration::from_secs(11), Duration::ZERO);
        assert_eq!(
            span.spans()[1].as_ref().unwrap().rate,
            (20.0 / 9.0 * 10.0_f64).round() / 10.0
        );
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
