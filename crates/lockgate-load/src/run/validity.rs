//! Checks of a stage: reasons why its figures are not the targets', and notes for the reader.

use std::time::Duration;

use crate::plan::{LoadStage, Loop};
use crate::result::{Bottleneck, Generator, Invalid, StageCounts};

/// From this share of a CPU on a thread is saturated: its measurements are of itself.
const SATURATED: f64 = 0.95;
/// From this share of its speed on a link is full: heads of frames and gaps between them are
/// counted nowhere.
const FULL_LINK: f64 = 0.9;
/// Limit of the generator's own lateness at the 99th percentile.
const LATE: Duration = Duration::from_millis(5);
/// The same where the lateness is a half of the latency.
const LATE_BESIDE_LATENCY: Duration = Duration::from_millis(1);
/// From this share of the time on the wait of a thread for a CPU is part of latencies.
const NOTED_WAIT: f64 = 0.05;

/// Reasons of the generator why the figures of `stage` are invalid.
pub(super) fn generator_limits(
    stage: &LoadStage,
    generator: &Generator,
    counts: &StageCounts,
) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    if generator.busiest >= SATURATED {
        reasons.push(Invalid {
            limit: Bottleneck::Generator,
            text: format!(
                "the generator was the limit: its busiest thread had no CPU to spare ({:.0} % busy); use more --threads, or fewer requests",
                generator.busiest * 100.0
            ),
        });
    }
    if counts.exhausted > 0 {
        reasons.push(Invalid {
            limit: Bottleneck::Generator,
            text: format!(
                "connections failed because of this machine: {} times it had no descriptors, local ports or memory left",
                counts.exhausted
            ),
        });
    }
    let late = Duration::from_nanos(counts.lateness.value_at_quantile(0.99));
    let latency = Duration::from_nanos(counts.latency.value_at_quantile(0.99));
    let is_late = late > LATE || late > LATE_BESIDE_LATENCY && late * 2 > latency;
    if matches!(stage.shape, Loop::Open(_)) && is_late {
        reasons.push(Invalid {
            limit: Bottleneck::Lateness,
            text: format!(
                "the generator was late: one request of a hundred was sent {:.1} ms or more after its time, although a connection was free",
                late.as_secs_f64() * 1e3
            ),
        });
    }
    reasons
}

/// The reason of a network interface of which the share `used` of its speed was used.
pub(super) fn link_limit(name: &str, used: f64) -> Option<Invalid> {
    (used >= FULL_LINK).then(|| Invalid {
        limit: Bottleneck::Link,
        text: format!(
            "the link was the limit: {name} was used by {:.0} % of its speed",
            used * 100.0
        ),
    })
}

/// The note about a generator that waited for CPUs.
pub(super) fn wait_note(generator: &Generator) -> Option<String> {
    (generator.waited > NOTED_WAIT).then(|| {
        format!(
            "the generator waited for a CPU for {:.0} % of the time, which is part of the latencies",
            generator.waited * 100.0
        )
    })
}
