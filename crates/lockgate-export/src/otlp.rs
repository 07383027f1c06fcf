//! OTLP, the protocol of OpenTelemetry: requests of its version 1 in binary Protocol Buffers.
//!
//! Numbers of fields are those of the `.proto` files of opentelemetry-proto 1.x, below
//! `opentelemetry/proto`: <https://github.com/open-telemetry/opentelemetry-proto>. Names of attributes
//! are those of OpenTelemetry's semantic conventions.

mod metrics;
mod protobuf;
mod resource;
mod response;
mod span;

pub use metrics::OtlpMetricsEncoder;
pub use resource::OtlpResource;
pub use response::{PartialSuccess, partial_success};
pub use span::{SpanHead, SpanKind, SpanParent, SpanWriter, trace_request};

/// The most bytes of a request before it is compressed: collectors take some megabytes.
pub const REQUEST: usize = 1 << 20;
