//! Metrics and spans for programs that are pushed to: figures and a time in, bytes out.
//!
//! Sends nothing and reads no clock: what is due when, and what waits, are values here too.
//!
//! # Layout
//! - [`GraphiteEncoder`], [`StatsdEncoder`], [`InfluxEncoder`]: a [`PointEncoder`] for each protocol.
//! - [`otlp`]: OpenTelemetry's protocol, for metrics and spans.
//! - [`EncodedPoints`]: the bytes of one reading, in the frames that are sent each as a whole.
//! - [`PointQueue`]: readings that could not be sent yet, of bounded size.
//! - [`Schedule`]: when the next reading is due.

#![forbid(unsafe_code)]

mod encoder;
mod filtered;
mod graphite;
mod influx;
pub mod otlp;
mod path;
mod pickle;
mod points;
mod queue;
mod schedule;
mod statsd;
#[cfg(test)]
mod test_figures;

pub use encoder::{Figures, PointEncoder};
pub use filtered::filtered;
pub use graphite::GraphiteEncoder;
pub use influx::InfluxEncoder;
pub use points::{DATAGRAM, EncodedPoints, PointFrame};
pub use queue::PointQueue;
pub use schedule::{Schedule, Tick};
pub use statsd::StatsdEncoder;
