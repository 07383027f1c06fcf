//! The response to an export: how much of it was rejected
//! (`collector/{trace,metrics}/v1/*_service.proto`).

use super::protobuf::{FieldValue, take_field};

/// The longest message that is kept, in characters.
const MESSAGE: usize = 200;

/// What a sink says of a request that it has accepted in part, or with a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialSuccess {
    /// The spans or data points that it has rejected; they are not to be sent again.
    pub rejected: u64,
    /// Why, or a warning: text from outside, of at most 200 characters.
    pub message: String,
}

/// Reads the body of a response with status 200. `None` where all is well, and where it is no such
/// message: the status counts.
pub fn partial_success(mut body: &[u8]) -> Option<PartialSuccess> {
    // ExportTraceServiceResponse.partial_success, ExportMetricsServiceResponse.partial_success: 1.
    let mut told = std::iter::from_fn(|| take_field(&mut body));
    let mut partial = told.find_map(|field| match field {
        (1, FieldValue::Bytes(partial)) => Some(partial),
        _ => None,
    })?;
    // ExportTracePartialSuccess.rejected_spans, ExportMetricsPartialSuccess.rejected_data_points: 1;
    // error_message: 2 of both.
    let (mut rejected, mut message) = (0, String::new());
    while let Some(field) = take_field(&mut partial) {
        match field {
            // An int64, which may say nonsense.
            (1, FieldValue::Number(number)) => {
                rejected = u64::try_from(number.cast_signed()).unwrap_or(0);
            }
            (2, FieldValue::Bytes(text)) => {
                let text = String::from_utf8_lossy(text);
                message = text.chars().take(MESSAGE).collect();
            }
            _ => {}
        }
    }
    let is_told = rejected > 0 || !message.is_empty();
    is_told.then_some(PartialSuccess { rejected, message })
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::{put_bytes, put_integer, put_message};
    use super::*;

    fn response(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put_message(&mut out, 1, write);
        out
    }

    /// trace_service.proto, metrics_service.proto: partial_success = 1; rejected = 1,
    /// error_message = 2.
    #[test]
    fn a_partial_success_tells_what_was_rejected() {
        let told = |rejected, message: &str| {
            Some(PartialSuccess {
                rejected,
                message: message.to_owned(),
            })
        };
        for (body, expected) in [
            (Vec::new(), None),
            (response(|_| {}), None),
            (response(|out| put_integer(out, 1, 0)), None),
            (response(|out| put_integer(out, 1, 3)), told(3, "")),
            (
                response(|out| {
                    put_integer(out, 1, 300);
                    put_bytes(out, 2, b"too old");
                }),
                told(300, "too old"),
            ),
            (response(|out| put_bytes(out, 2, b"soon")), told(0, "soon")),
            (response(|out| put_integer(out, 1, u64::MAX)), None),
            (
                response(|out| put_bytes(out, 2, &[b'x'; 10_000])),
                told(0, &"x".repeat(MESSAGE)),
            ),
            (
                response(|out| put_bytes(out, 2, b"\xff")),
                told(0, "\u{fffd}"),
            ),
            (b"{}".to_vec(), None),
            (b"<html>".to_vec(), None),
            (b"\x0a\xff\xff\xff\xff".to_vec(), None),
        ] {
            assert_eq!(partial_success(&body), expected, "{body:?}");
        }
        // Fields that are not known are passed over.
        let mut body = vec![0x10, 1];
        body.extend(response(|out| {
            put_integer(out, 9, 1);
            put_integer(out, 1, 2);
        }));
        assert_eq!(partial_success(&body), told(2, ""));
    }
}
