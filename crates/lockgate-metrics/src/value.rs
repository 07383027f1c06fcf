//! The value of a sample.

/// The value of a sample, without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleValue {
    /// A count, or bytes.
    Unsigned(u64),
    /// A gauge in whole units.
    Signed(i64),
    /// Seconds, ratios, bounds of buckets.
    Float(f64),
}

impl From<u64> for SampleValue {
    fn from(n: u64) -> Self {
        Self::Unsigned(n)
    }
}

impl From<i64> for SampleValue {
    fn from(n: i64) -> Self {
        Self::Signed(n)
    }
}

impl From<f64> for SampleValue {
    fn from(n: f64) -> Self {
        Self::Float(n)
    }
}
