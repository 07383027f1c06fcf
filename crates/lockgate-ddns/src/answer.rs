//! The answer of a server that tells the address of its client: plain text, JSON or a page, of which
//! the first text that is an address counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::family::AddressFamily;

/// The longest answer that is read, in bytes.
pub const LONGEST: usize = 1024;

/// The first address of a family in an answer, of which [`LONGEST`] bytes are looked at; none if there
/// is none. A word that ends there may be a part of one, and is none.
pub fn first_address(answer: &[u8], family: AddressFamily) -> Option<IpAddr> {
    let answer = match answer.get(..LONGEST) {
        Some(start) => {
            let last = start.iter().rposition(|byte| byte.is_ascii_whitespace());
            &start[..last.unwrap_or_default()]
        }
        None => answer,
    };
    let in_address = |byte: u8| match family {
        AddressFamily::Ipv4 => byte.is_ascii_digit() || byte == b'.',
        AddressFamily::Ipv6 => byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'),
    };
    let mut words = answer.split(|byte| !in_address(*byte));
    words.find_map(|word| address(std::str::from_utf8(word).ok()?, family))
}

/// The address that a word is, but for marks around it, as in `address: 2001:db8::1.`
fn address(word: &str, family: AddressFamily) -> Option<IpAddr> {
    let word = word.trim_end_matches('.');
    match family {
        AddressFamily::Ipv4 => {
            let word = word.trim_start_matches('.');
            word.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
        }
        AddressFamily::Ipv6 => {
            let after_colon = word.strip_prefix(':').unwrap_or(word);
            let parsed: Result<Ipv6Addr, _> = word.parse().or_else(|_| after_colon.parse());
            parsed.ok().map(IpAddr::V6)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4291 §2.2 for the texts of IPv6; the forms are those of public servers.
    #[test]
    fn the_first_address_of_the_family_in_an_answer_counts() {
        use AddressFamily::{Ipv4, Ipv6};
        for (answer, family, expected) in [
            ("8.8.4.4", Ipv4, "8.8.4.4"),
            ("8.8.4.4\n", Ipv4, "8.8.4.4"),
            ("Your address is 8.8.4.4.\r\n", Ipv4, "8.8.4.4"),
            (r#"{"ip":"8.8.4.4","port":41234}"#, Ipv4, "8.8.4.4"),
            (r#"{"version": "1.2.3", "ip": "8.8.4.4"}"#, Ipv4, "8.8.4.4"),
            ("<html>2001:db8::1, 8.8.4.4</html>", Ipv4, "8.8.4.4"),
            ("ip=8.8.4.4:5", Ipv4, "8.8.4.4"),
            ("8.8.4.400, 1.2.3.4", Ipv4, "1.2.3.4"),
            ("8.8.4.4.8", Ipv4, ""),
            ("2606:4700::1111\n", Ipv6, "2606:4700::1111"),
            (r#"{"address":"2606:4700::1111"}"#, Ipv6, "2606:4700::1111"),
            ("Address:2606:4700::1111.", Ipv6, "2606:4700::1111"),
            ("fade 2606:4700::1111", Ipv6, "2606:4700::1111"),
            ("::ffff:8.8.4.4", Ipv6, "::ffff:8.8.4.4"),
            ("8.8.4.4", Ipv6, ""),
            ("2606:4700::1111", Ipv4, ""),
            ("", Ipv4, ""),
            ("none", Ipv6, ""),
            ("\u{0}\u{7f}ü", Ipv6, ""),
        ] {
            let found = first_address(answer.as_bytes(), family);
            let found = found.map(|address| address.to_string()).unwrap_or_default();
            assert_eq!(found, expected, "{answer}");
        }
    }

    #[test]
    fn an_address_that_may_be_cut_off_is_none() {
        let with = |spaces: usize, text: &str| {
            let answer = format!("{}{text}", " ".repeat(spaces));
            first_address(answer.as_bytes(), AddressFamily::Ipv4)
        };
        let whole = Some("1.2.3.4".parse().unwrap());
        assert_eq!(with(LONGEST - 8, "1.2.3.4"), whole);
        assert_eq!(with(LONGEST - 8, "1.2.3.4 and more"), whole);
        assert_eq!(with(LONGEST - 7, "1.2.3.44"), None);
        assert_eq!(with(LONGEST, "1.2.3.4"), None);
    }
}
