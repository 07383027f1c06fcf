//! The share of traces that is recorded: by the id of a trace, so that all programs that have the
//! same share record the same traces.

/// A share of all traces, from none to all.
///
/// OpenTelemetry's `TraceIdRatioBased` (Trace SDK, "Sampling"): a trace of a smaller share is in every
/// larger one. Of the id it reads the last 63 bits before the lowest one, as OpenTelemetry's Go does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceShare(u64);

impl TraceShare {
    /// All traces.
    pub const ALL: Self = Self(1 << 63);

    /// This share, from 0 to 1; other numbers become the nearest of these.
    pub fn new(share: f64) -> Self {
        // What is no number becomes 0.
        Self((share.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64)
    }

    /// Whether the trace with this id is among the share.
    pub fn takes(self, trace: u128) -> bool {
        (trace as u64) >> 1 < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_takes_traces_by_the_last_bits_of_their_ids() {
        let high = u128::MAX << 64;
        for (share, trace, is_taken) in [
            (0.0, 0, false),
            (-1.0, 0, false),
            (f64::NAN, 0, false),
            (1.0, u128::MAX, true),
            (7.0, u128::MAX, true),
            (0.5, 0x7fff_ffff_ffff_ffff, true),
            (0.5, 0x8000_0000_0000_0000, false),
            (0.5, high | 0x7fff_ffff_ffff_ffff, true),
            (0.25, 0x3fff_ffff_ffff_fffe, true),
            (0.25, high | 0x4000_0000_0000_0000, false),
            // The id of the examples in W3C's Trace Context.
            (0.63, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, false),
            (0.64, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, true),
        ] {
            let found = TraceShare::new(share).takes(trace);
            assert_eq!(found, is_taken, "{share} {trace:x}");
        }
        assert_eq!(TraceShare::new(1.0), TraceShare::ALL);
    }
}
