//! Character references in values of attributes (WHATWG HTML §13.2.5.72 to 84): numbers, and the
//! five names that have a meaning in markup. Others stay as they are written.

use std::borrow::Cow;

const NAMES: [(&[u8], &str); 5] = [
    (b"amp", "&"),
    (b"lt", "<"),
    (b"gt", ">"),
    (b"quot", "\""),
    (b"apos", "'"),
];

/// The value with its references replaced.
pub(super) fn decode(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.iter().position(|byte| *byte == b'&') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match reference(rest) {
            Some((text, used)) => {
                out.extend_from_slice(text.as_bytes());
                rest = &rest[used..];
            }
            None => out.push(b'&'),
        }
    }
    out.extend_from_slice(rest);
    out
}

/// What stands behind an ampersand, and its length.
fn reference(rest: &[u8]) -> Option<(Cow<'static, str>, usize)> {
    if let Some(number) = rest.strip_prefix(b"#") {
        let (digits, radix, before) = match number {
            [b'x' | b'X', digits @ ..] => (digits, 16, 2),
            digits => (digits, 10, 1),
        };
        let length = digits
            .iter()
            .take_while(|digit| char::from(**digit).is_digit(radix))
            .count();
        if length == 0 {
            return None;
        }
        let value = digits[..length].iter().try_fold(0_u32, |sum, digit| {
            sum.checked_mul(radix)?
                .checked_add(char::from(*digit).to_digit(radix)?)
        });
        // §13.2.5.84: what is no character is replaced.
        let character = value
            .filter(|value| *value != 0)
            .and_then(char::from_u32)
            .unwrap_or('\u{fffd}');
        let semicolon = usize::from(digits.get(length) == Some(&b';'));
        return Some((character.to_string().into(), before + length + semicolon));
    }
    let (name, text) = NAMES.into_iter().find(|(name, _)| rest.starts_with(name))?;
    match rest.get(name.len()) {
        Some(b';') => Some((text.into(), name.len() + 1)),
        // §13.2.5.73: `&lt=` and `&ampere` in a URL are none.
        Some(b'=') => None,
        Some(byte) if byte.is_ascii_alphanumeric() => None,
        _ if name == b"apos" => None,
        _ => Some((text.into(), name.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_characters_and_ambiguous_ones_stay() {
        for (written, meant) in [
            ("/a?b=1&amp;c=2", "/a?b=1&c=2"),
            ("&#47;a&#x2F;b&#X2f", "/a/b/"),
            ("&quot;&apos;&lt;&gt;", "\"'<>"),
            // §13.2.5.73, with its own example
            ("/?a=1&lt=2&notit;&ampere", "/?a=1&lt=2&notit;&ampere"),
            ("a&amp", "a&"),
            ("a&amp b", "a& b"),
            ("&apos", "&apos"),
            // §13.2.5.84
            (
                "&#0;&#xD800;&#x110000;&#99999999999;",
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("&#;&#x;&#xg;&", "&#;&#x;&#xg;&"),
        ] {
            assert_eq!(
                String::from_utf8(decode(written.as_bytes())).unwrap(),
                meant,
                "{written}"
            );
        }
    }
}
