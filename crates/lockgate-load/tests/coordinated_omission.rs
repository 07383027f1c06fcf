//! What a generator that waits for answers does not see (coordinated omission), on simulated time.
//!
//! A server answers at once, but stops a single time for `S` of a run of `T`. Whoever asks at a
//! steady rate has a share of `S / T` of its requests fall into the stop, and one that is due `x`
//! after it began waits `S - x`. So a share of `(S - L) / T` waits longer than `L`, and for each
//! quantile `q` above `1 - S / T`
//!
//! ```text
//! latency(q) = S - (1 - q) · T
//! ```
//!
//! With `S` = 1 s and `T` = 10 s: p95 = 500 ms, p99 = 900 ms, p99.9 = 990 ms, max = 1,000 ms.
//! Whoever asks only when the last answer has come asks once during the stop, whatever its length:
//! one request of all is slow.

use std::time::Duration;

use lockgate_load::result::{NanosecondHistogram, StageCounts};
use lockgate_load::schedule::{RequestRate, Schedule};

const RUN: Duration = Duration::from_secs(10);
const STOP: Duration = Duration::from_secs(1);

/// Answers one request after the other, each in a hundredth of a millisecond, but for a second from
/// `stops` on.
#[derive(Clone, Copy)]
struct Server {
    stops: Duration,
}

impl Server {
    /// When it has answered what is sent to it at a moment.
    fn answers(self, sent: Duration) -> Duration {
        let stopped = self.stops..self.stops + STOP;
        let begins = if stopped.contains(&sent) {
            stopped.end
        } else {
            sent
        };
        begins + Duration::from_micros(10)
    }
}

fn record(histogram: &mut NanosecondHistogram, time: Duration) {
    histogram.record(time.as_nanos() as u64).expect("it grows");
}

/// 1,000 requests a second over one connection, sent when they are due or as soon after it as the
/// connection is free.
fn open_loop(server: Server) -> StageCounts {
    let schedule = Schedule::Constant(RequestRate::new(1000.0).expect("a rate"));
    let (mut counts, mut free) = (StageCounts::new(), Duration::ZERO);
    for index in 0..schedule.count(RUN) {
        let due = schedule.due(index);
        let sent = due.max(free);
        free = server.answers(sent);
        record(&mut counts.latency, free - due);
        record(&mut counts.service, free - sent);
    }
    counts
}

/// As many requests over one connection as answers come, each sent when the one before it is
/// answered.
fn closed_loop(server: Server) -> NanosecondHistogram {
    let (mut service, mut now) = (StageCounts::new().service, Duration::ZERO);
    while now < RUN {
        let answered = server.answers(now);
        record(&mut service, answered - now);
        now = answered;
    }
    service
}

/// In milliseconds: p95, p99, p99.9, max.
fn slowest(histogram: &NanosecondHistogram) -> [f64; 4] {
    [0.95, 0.99, 0.999, 1.0].map(|quantile| histogram.value_at_quantile(quantile) as f64 / 1e6)
}

#[test]
fn a_stop_of_one_second_is_in_all_percentiles_of_an_open_loop_and_only_in_the_maximum_of_a_closed_one()
 {
    for stops in [0, 1, 4_200, 9_000].map(Duration::from_millis) {
        let server = Server { stops };
        let open = open_loop(server);
        assert_eq!(open.latency.len(), 10_000);
        for (latency, expected) in slowest(&open.latency)
            .into_iter()
            .zip([500.0, 900.0, 990.0, 1000.0])
        {
            // What has waited is answered one after the other: a hundredth of a millisecond for
            // each.
            assert!(
                (expected..=expected + 10.0).contains(&latency),
                "{expected}: {latency}"
            );
        }
        assert!(
            open.latency.value_at_quantile(0.89) < 1_000_000,
            "nine of ten were due outside the stop"
        );

        for service in [open.service, closed_loop(server)] {
            let [p95, p99, p999, max] = slowest(&service);
            assert!(p95 < 0.1 && p99 < 0.1 && p999 < 0.1, "{p95} {p99} {p999}");
            assert!((1000.0..1001.0).contains(&max), "{max}");
        }
    }
}
