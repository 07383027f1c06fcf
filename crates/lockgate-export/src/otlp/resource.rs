//! What figures and spans are of: a process of Lockgate (`resource/v1/resource.proto`), and the
//! library that tells of it (`common/v1/common.proto`).

use super::protobuf::{put_bytes, put_integer, put_message};

/// The name of the scope: we are the library that instruments ourselves.
const SCOPE: &str = "lockgate";

/// A process of Lockgate, in the words of the semantic conventions for resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpResource {
    /// `service.name`: the same for all that serve the same.
    pub service: String,
    /// `service.instance.id`: of all with this name, only this one has it.
    pub instance: String,
    /// `service.version`, which is that of the scope too.
    pub version: String,
    /// `host.name`; empty where it is not known.
    pub host: String,
}

impl OtlpResource {
    /// Appends a request with one resource and one scope. `entries` are the encoded metrics or spans,
    /// each as field 2 of its `ScopeMetrics` or `ScopeSpans`. All messages above them have the same
    /// numbers for both.
    pub(super) fn put_request<'a>(
        &self,
        out: &mut Vec<u8>,
        entries: impl IntoIterator<Item = &'a [u8]>,
    ) {
        // ExportMetricsServiceRequest.resource_metrics, ExportTraceServiceRequest.resource_spans: 1.
        put_message(out, 1, |out| {
            // ResourceMetrics.resource, ResourceSpans.resource: 1; Resource.attributes: 1.
            put_message(out, 1, |out| {
                for (key, value) in [
                    ("service.name", &self.service),
                    ("service.instance.id", &self.instance),
                    ("service.version", &self.version),
                    ("host.name", &self.host),
                ] {
                    if !value.is_empty() {
                        put_text_attribute(out, 1, key, value);
                    }
                }
            });
            // ResourceMetrics.scope_metrics, ResourceSpans.scope_spans: 2.
            put_message(out, 2, |out| {
                // scope: 1. InstrumentationScope.name: 1, .version: 2.
                put_message(out, 1, |out| {
                    put_bytes(out, 1, SCOPE.as_bytes());
                    put_bytes(out, 2, self.version.as_bytes());
                });
                for entries in entries {
                    out.extend_from_slice(entries);
                }
            });
        });
    }
}

/// Appends a `KeyValue` as this field: key 1, value 2; of `AnyValue`, `string_value` is 1.
pub(super) fn put_text_attribute(out: &mut Vec<u8>, field: u64, key: &str, value: &str) {
    put_attribute(out, field, key, |out| put_bytes(out, 1, value.as_bytes()));
}

/// The same for a bool: `bool_value` is 2.
pub(super) fn put_flag_attribute(out: &mut Vec<u8>, field: u64, key: &str, value: bool) {
    put_attribute(out, field, key, |out| put_integer(out, 2, value.into()));
}

/// The same for an integer: `int_value` is 3.
pub(super) fn put_number_attribute(out: &mut Vec<u8>, field: u64, key: &str, value: u32) {
    put_attribute(out, field, key, |out| put_integer(out, 3, value.into()));
}

fn put_attribute(out: &mut Vec<u8>, field: u64, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
    put_message(out, field, |out| {
        put_bytes(out, 1, key.as_bytes());
        put_message(out, 2, value);
    });
}
