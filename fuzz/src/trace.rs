//! Traces: what is read of one is found again where it was written.

use lockgate_http::trace::TraceId;

/// Any bytes as a value of traceparent.
pub fn traceparent(data: &[u8]) {
    let Some(id) = TraceId::parse(data) else {
        return;
    };
    let parts: Vec<&[u8]> = data.split(|byte| *byte == b'-').collect();
    assert!(matches!(parts[..], [b"00", _, _, _]) || parts.len() >= 4 && parts[0] != b"00");
    assert_eq!(parts[1], id.as_str().as_bytes());
    assert_eq!(
        [parts[0], parts[1], parts[2], parts[3]].map(<[u8]>::len),
        [2, 32, 16, 2]
    );
    assert!(id.as_str().bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert!(id.as_str().bytes().any(|digit| digit != b'0'));
}
