//! One element of X-Forwarded-For: the address that a proxy names as its client.
//!
//! The field has no standard. Proxies write a bare address, some with its port (`192.0.2.1:4711`),
//! some as RFC 7239 §6 has nodes of Forwarded: IPv6 in brackets, anything with a colon in quotes,
//! and `unknown` or `_hidden` without an address.

use std::net::{IpAddr, Ipv6Addr};

/// The address in `element`, which has no whitespace around it; an IPv4-mapped address becomes IPv4
/// (RFC 4291 §2.5.5.2).
///
/// `None` for anything else: an empty element, `unknown`, an obfuscated identifier, a name, half of
/// a quoted string, an IPv6 address with a zone, IPv4 in other spellings than four decimal numbers.
pub fn address(element: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(element).ok()?;
    let text = match text.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"')?,
        None => text,
    };
    let ip = match text.strip_prefix('[') {
        Some(rest) => {
            let (ip, port) = rest.split_once(']')?;
            port.is_empty()
                .then_some(())
                .or_else(|| is_port(port.strip_prefix(':')?))?;
            IpAddr::V6(ip.parse::<Ipv6Addr>().ok()?)
        }
        // Without brackets a last group of IPv6 cannot be told from a port: it is taken as a group.
        None => match (text.parse(), text.split_once(':')) {
            (Ok(ip), _) => ip,
            (Err(_), Some((ip, port))) => {
                is_port(port)?;
                IpAddr::V4(ip.parse().ok()?)
            }
            (Err(_), None) => return None,
        },
    };
    Some(ip.to_canonical())
}

/// RFC 7239 §6.3: a number, or an obfuscated one.
fn is_port(port: &str) -> Option<()> {
    let hidden = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is = match port.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(hidden),
        None => {
            (1..=5).contains(&port.len())
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && port.parse::<u16>().is_ok()
        }
    };
    is.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7239 §6, and forms of X-Forwarded-For in the wild.
    #[test]
    fn x_forwarded_for_elements_with_ports_brackets_and_quotes() {
        for (element, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.1:4711", Some("192.0.2.1")),
            ("192.0.2.1:0", Some("192.0.2.1")),
            ("\"192.0.2.1\"", Some("192.0.2.1")),
            ("\"192.0.2.1:4711\"", Some("192.0.2.1")),
            ("192.0.2.1:_port", Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("2001:DB8:0:0::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:65535", Some("2001:db8::1")),
            ("\"[2001:db8::1]\"", Some("2001:db8::1")),
            ("\"[2001:db8::1]:443\"", Some("2001:db8::1")),
            ("\"[2001:db8::1]:_p.0-1\"", Some("2001:db8::1")),
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("[::ffff:192.0.2.1]:80", Some("192.0.2.1")),
            // ambiguous, and so an address
            ("2001:db8::1:4711", Some("2001:db8::1:4711")),
            ("", None),
            ("\"", None),
            ("\"\"", None),
            ("unknown", None),
            ("\"unknown\"", None),
            ("_hidden", None),
            ("_SEVKISEK", None),
            ("localhost", None),
            ("example.com:80", None),
            ("192.0.2.1:", None),
            ("192.0.2.1:65536", None),
            ("192.0.2.1:+80", None),
            ("192.0.2.1:80:80", None),
            ("192.0.2.1:_", None),
            ("192.0.2.1:_a b", None),
            ("192.0.2.1 ", None),
            ("192.0.2.256", None),
            ("192.0.2", None),
            ("010.0.0.1", None),
            ("0x7f.0.0.1", None),
            ("2130706433", None),
            ("[192.0.2.1]", None),
            ("[192.0.2.1]:80", None),
            ("[2001:db8::1", None),
            ("2001:db8::1]", None),
            ("[2001:db8::1]443", None),
            ("[2001:db8::1]:", None),
            ("[2001:db8::1]]", None),
            ("[]", None),
            ("[fe80::1%eth0]", None),
            ("fe80::1%1", None),
            ("\"192.0.2.1", None),
            ("192.0.2.1\"", None),
            ("'192.0.2.1'", None),
            ("\"192.0.2.\\1\"", None),
            ("for=192.0.2.1", None),
            ("192.0.2.1;proto=http", None),
            ("\u{661}92.0.2.1", None),
        ] {
            let expected = expected.map(|ip| ip.parse().unwrap());
            assert_eq!(address(element.as_bytes()), expected, "{element:?}");
        }
        assert_eq!(address(b"192.0.2.1\xff"), None);
    }
}
