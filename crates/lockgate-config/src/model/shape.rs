//! Bandwidth limits in the words of the configuration.

use std::num::NonZeroU64;

use lockgate_rules::Directions;

use crate::units::smallest;

/// The limited rates in the words of the configuration: `10MB/s`, or `in 1MB/s` and `out 10MB/s`.
pub fn rates_shown(rates: Directions) -> Vec<String> {
    let rate = |rate: NonZeroU64| format!("{}/s", smallest(rate.get()));
    match (rates.received, rates.sent) {
        (Some(received), Some(sent)) if received == sent => vec![rate(sent)],
        (received, sent) => {
            let ways = [("in", received), ("out", sent)];
            let limited =
                |(way, limit): (_, Option<_>)| limit.map(|limit| format!("{way} {}", rate(limit)));
            ways.into_iter().filter_map(limited).collect()
        }
    }
}
