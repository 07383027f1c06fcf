//! Responses of sinks of OTLP: whatever they say, little of it is kept.

use lockgate_export::otlp::partial_success;

/// Any bytes as the body of a response.
pub fn otlp_response(data: &[u8]) {
    let Some(partial) = partial_success(data) else {
        return;
    };
    assert!(partial.rejected > 0 || !partial.message.is_empty());
    assert!(partial.rejected <= i64::MAX as u64);
    assert!(partial.message.chars().count() <= 200);
}
