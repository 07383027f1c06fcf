//! Traces: what is read of one is found again where it was written.

use lockgate_http::fields::{Fields, Known};
use lockgate_http::trace::TraceParent;

/// Any bytes as a value of traceparent.
pub fn traceparent(data: &[u8]) {
    let Some(told) = TraceParent::parse(data) else {
        return;
    };
    let parts: Vec<&[u8]> = data.split(|byte| *byte == b'-').collect();
    assert!(matches!(parts[..], [b"00", _, _, _]) || parts.len() >= 4 && parts[0] != b"00");
    assert_eq!(parts[1], told.trace.as_str().as_bytes());
    assert_eq!(parts[2], told.span.as_str().as_bytes());
    assert_eq!(
        [parts[0], parts[1], parts[2], parts[3]].map(<[u8]>::len),
        [2, 32, 16, 2]
    );
    for id in [told.trace.as_str(), told.span.as_str()] {
        assert!(id.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert!(id.bytes().any(|digit| digit != b'0'));
    }
    assert_ne!(told.trace.bytes(), [0; 16]);
    assert_ne!(told.span.bytes(), [0; 8]);
    let mut fields = Fields::default();
    told.write(&mut fields);
    assert_eq!(TraceParent::of(&fields), Some(told));
    assert!(
        fields
            .only(Known::Traceparent)
            .is_some_and(|value| value.len() == 55)
    );
}
