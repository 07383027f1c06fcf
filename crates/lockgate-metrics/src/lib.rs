//! Metrics: cells that one worker writes, histograms, top-N accounting and the Prometheus text
//! format.
//!
//! Knows nothing of connections, clocks (time is an argument) or the server of the text.
//!
//! # Layout
//! - [`Counter`], [`Gauge`], [`Histogram`]: cells with one writer, readable from every thread.
//! - [`Shards`]: one padded set of cells per worker, summed on read.
//! - [`Top`]: bounded accounting per key, plain data of one worker, which only a
//!   [`TopSnapshot`] leaves.
//! - [`MetricFamilies`]: what writers of metrics open, and fill with samples.
//! - [`MetricSink`]: what takes them; [`ExpositionText`] makes text exposition format 0.0.4.

#![forbid(unsafe_code)]

mod cell;
mod families;
mod histogram;
mod shards;
mod sink;
mod text;
mod throughput;
mod top;
mod value;

pub use cell::{Counter, Gauge};
pub use families::{HistogramFamily, MetricFamilies, MetricFamily};
pub use histogram::{Bounds, Histogram, HistogramSample, HistogramSnapshot};
pub use shards::{Padded, Shard, Shards};
pub use sink::{FamilyHead, FamilyKind, MetricSink};
pub use text::{CONTENT_TYPE, ExpositionText};
pub use throughput::WINDOW;
pub use top::{Top, TopEntry, TopListing, TopOrder, TopSnapshot, Traffic};
pub use value::SampleValue;
