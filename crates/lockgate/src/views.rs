//! The figures of the process as JSON, for the admin socket and the live page.
//!
//! Views borrow the figures, and are written from these at once: with a thousand endpoints a tree of
//! JSON values in between costs ten times as much as the rest.

mod certs;
mod ddns;
mod managed_certs;
mod pools;
mod recent;
mod sites;
mod status;
mod timestamp;

use std::time::Duration;

use serde::{Serialize, Serializer};

pub(crate) use certs::certs;
pub(crate) use managed_certs::{awaited_certs, managed_cert};
pub(crate) use pools::{mode_name, pools, state_name};
pub(crate) use recent::{EndpointSpan, RecentCounts, RecentSpan};
pub(crate) use sites::sites;
pub(crate) use status::{StatusView, status};
pub(crate) use timestamp::timestamp;

/// A list with elements that are made as it is written.
pub(crate) struct ListView<I>(pub(crate) I);

impl<I> Serialize for ListView<I>
where
    I: Iterator<Item: Serialize> + Clone,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Seconds with one digit behind the point.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
