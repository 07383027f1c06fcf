//! The Proxy-Status field: the generator of a response and its reason, for programs (RFC 9209).

use super::fault::HttpFault;

/// Most bytes of the details.
const LONGEST: usize = 256;

/// The field's value: `lockgate; error=connection_refused; details="…"`.
pub fn value(fault: HttpFault, details: &str) -> Vec<u8> {
    let mut out = b"lockgate; error=".to_vec();
    out.extend_from_slice(fault.proxy_error().as_bytes());
    if !details.is_empty() {
        out.extend_from_slice(b"; details=");
        write_string(&mut out, details);
    }
    out
}

/// A String of a structured field (RFC 8941 §3.3.3): printable ASCII in quotes. What is none
/// becomes a question mark.
fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for c in text.chars().take(LONGEST) {
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            ' '..='~' => out.push(c as u8),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(details: &str) -> String {
        String::from_utf8(value(HttpFault::ConnectionRefused, details)).unwrap()
    }

    #[test]
    fn proxy_status_details_cannot_end_the_string_or_the_line() {
        // RFC 8941 §4.1.6
        for (details, expected) in [
            ("", "lockgate; error=connection_refused"),
            (
                "gone",
                "lockgate; error=connection_refused; details=\"gone\"",
            ),
            (
                r#"a"; b=\"#,
                "lockgate; error=connection_refused; details=\"a\\\"; b=\\\\\"",
            ),
            (
                "é\r\n\0\u{7f}",
                "lockgate; error=connection_refused; details=\"?????\"",
            ),
        ] {
            assert_eq!(field(details), expected);
        }
        assert!(field(&"本".repeat(100_000)).len() < 2 * LONGEST);
    }
}
