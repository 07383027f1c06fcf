//! The field that tells programs who generated an answer and why (RFC 9209).

use super::fault::Fault;

/// Most bytes of the details.
const LONGEST: usize = 256;

/// Appends the field: `Proxy-Status: lockgate; error=connection_refused; details="…"`.
pub fn write(out: &mut Vec<u8>, fault: Fault, details: &str) {
    out.extend_from_slice(b"Proxy-Status: lockgate; error=");
    out.extend_from_slice(fault.proxy_error().as_bytes());
    if !details.is_empty() {
        out.extend_from_slice(b"; details=");
        write_string(out, details);
    }
    out.extend_from_slice(b"\r\n");
}

/// A String of a structured field (RFC 8941 §3.3.3): printable ASCII in quotes. What is none becomes a question mark.
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
        let mut out = Vec::new();
        write(&mut out, Fault::ConnectionRefused, details);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn details_cannot_end_the_string_or_the_line() {
        // RFC 8941 §4.1.6
        for (details, expected) in [
            ("", "Proxy-Status: lockgate; error=connection_refused\r\n"),
            ("gone", "Proxy-Status: lockgate; error=connection_refused; details=\"gone\"\r\n"),
            (r#"a"; b=\"#, "Proxy-Status: lockgate; error=connection_refused; details=\"a\\\"; b=\\\\\"\r\n"),
            ("é\r\n\0\u{7f}", "Proxy-Status: lockgate; error=connection_refused; details=\"?????\"\r\n"),
        ] {
            assert_eq!(field(details), expected);
        }
        assert!(field(&"本".repeat(100_000)).len() < 2 * LONGEST);
    }
}
