//! The figures of the process as JSON, for the admin socket and the live page.

mod certs;
mod pools;
mod recent;
mod sites;
mod status;
mod timestamp;

use std::time::Duration;

pub(crate) use certs::certs;
pub(crate) use pools::{mode_name, pools};
pub(crate) use recent::RecentCounts;
pub(crate) use sites::sites;
pub(crate) use status::status;

/// Seconds with one digit behind the point.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
