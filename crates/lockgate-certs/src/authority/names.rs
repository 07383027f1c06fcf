//! Names that certificates of our own authority may have (RFC 5280 §4.2.1.6, RFC 6125 §6.4.3).
//!
//! Resolves nothing, and knows no public suffixes.

/// Why a text is no name for a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// Not ASCII: certificates have the A-labels of a name (RFC 5280 §7.2).
    #[error("write its ASCII form, in which labels begin with `xn--`")]
    NotAscii,
    /// More than 253 bytes (RFC 1035 §2.3.4, without the root).
    #[error("it has more than 253 bytes")]
    Long,
    /// A label without a byte, or with more than 63 (RFC 1035 §2.3.4).
    #[error("each part between dots has 1 to 63 bytes")]
    Label,
    /// Another byte than letters, digits, `-` and `_`.
    #[error("a name has letters, digits, `-` and `_`, and no part begins or ends with `-`")]
    Character,
    /// A `*` that is not the whole of the first label.
    #[error("a `*` stands for the whole of the first part, and nowhere else")]
    Star,
    /// A wildcard above a single label: TLS libraries refuse it.
    #[error("a wildcard needs two parts behind it, as in `*.example.lan`: clients refuse others")]
    WideStar,
    /// The last label is a number, as in no name but in every IPv4 address.
    #[error("its last part is a number, so clients take it for an address")]
    Number,
}

/// The most bytes of a name (RFC 1035 §2.3.4: 255 with the lengths of its labels and the root).
const LONGEST: usize = 253;
/// The most bytes of a label (RFC 1035 §2.3.4).
const LONGEST_LABEL: usize = 63;

/// The name in lower case and without a dot at its end.
///
/// Underscores are allowed, which public authorities refuse: names of containers have them, and
/// clients accept them.
///
/// # Errors
/// What keeps the name from a certificate.
pub fn certificate_name(written: &str) -> Result<String, NameFault> {
    if !written.is_ascii() {
        return Err(NameFault::NotAscii);
    }
    let name = written.strip_suffix('.').unwrap_or(written);
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.len() > LONGEST {
        return Err(NameFault::Long);
    }
    let host = name.strip_prefix("*.").unwrap_or(name);
    if host.contains('*') {
        return Err(NameFault::Star);
    }
    host.split('.').try_for_each(label)?;
    if host.len() < name.len() && !host.contains('.') {
        return Err(NameFault::WideStar);
    }
    let last = host.rsplit('.').next().unwrap_or(host);
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NameFault::Number);
    }
    Ok(name.to_ascii_lowercase())
}

fn label(label: &str) -> Result<(), NameFault> {
    if !(1..=LONGEST_LABEL).contains(&label.len()) {
        return Err(NameFault::Label);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match label.bytes().all(allowed) && !label.starts_with('-') && !label.ends_with('-') {
        true => Ok(()),
        false => Err(NameFault::Character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_lower_case_a_labels_without_a_last_dot() {
        for (written, name) in [
            ("localhost", "localhost"),
            ("Box.LAN.", "box.lan"),
            ("*.example.lan", "*.example.lan"),
            ("xn--mnchen-3ya.example", "xn--mnchen-3ya.example"),
            ("my_app", "my_app"),
            ("1.example", "1.example"),
        ] {
            assert_eq!(certificate_name(written).as_deref(), Ok(name), "{written}");
        }
        let longest = [
            &*"a".repeat(63),
            &"b".repeat(63),
            &"c".repeat(63),
            &"d".repeat(61),
        ]
        .join(".");
        assert_eq!(longest.len(), 253);
        assert!(certificate_name(&longest).is_ok());
    }

    #[test]
    fn a_name_that_no_certificate_can_have_says_why() {
        let long_label = "a".repeat(64);
        let long_name = ["a"; 127].join(".") + "b";
        assert_eq!(long_name.len(), 254);
        for (written, fault) in [
            ("", NameFault::Empty),
            (".", NameFault::Empty),
            ("münchen.example", NameFault::NotAscii),
            ("a..b", NameFault::Label),
            (".a", NameFault::Label),
            (&long_label, NameFault::Label),
            (&long_name, NameFault::Long),
            ("a b", NameFault::Character),
            ("a/b", NameFault::Character),
            ("-a.b", NameFault::Character),
            ("a-.b", NameFault::Character),
            ("a.b\n", NameFault::Character),
            ("https://a.b", NameFault::Character),
            ("a.b:443", NameFault::Character),
            ("*", NameFault::Star),
            ("*.*.b", NameFault::Star),
            ("a.*.b", NameFault::Star),
            ("a*.b.c", NameFault::Star),
            ("*.lan", NameFault::WideStar),
            ("127.0.0.1", NameFault::Number),
            ("example.12", NameFault::Number),
        ] {
            assert_eq!(certificate_name(written), Err(fault), "{written}");
        }
    }
}
