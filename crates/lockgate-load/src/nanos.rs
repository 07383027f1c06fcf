//! Times in nanoseconds since a thread's or a link's own zero.

use std::time::Duration;

/// Nanoseconds: a duration, or a time since the zero of a thread or link.
pub(crate) type Nanoseconds = u64;

/// A duration in nanoseconds, at most 584 years.
pub(crate) fn nanoseconds(duration: Duration) -> Nanoseconds {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
