//! Texts made safe for where they are written: JSON, the quotes of a log line, HTML.
//!
//! Texts come from peers: none can end the string it stands in, forge a line, or move the cursor of
//! a terminal. Nearly all are plain ASCII, which is looked through by sixteen bytes at a time and
//! copied whole.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends a JSON string (RFC 8259 §7) with its quotes.
///
/// Beyond what JSON asks for, everything that a terminal or an editor could act on is escaped: DEL,
/// C1 controls, line and paragraph separators, bidirectional overrides. A byte that is no UTF-8
/// becomes the character of that number.
pub(crate) fn json(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    json_inside(out, text);
    out.push(b'"');
}

/// As [`json`], without the quotes.
pub(crate) fn json_inside(out: &mut Vec<u8>, text: &[u8]) {
    if is_plain(text) {
        out.extend_from_slice(text);
        return;
    }
    for chunk in text.utf8_chunks() {
        chunk.valid().chars().for_each(|c| json_char(out, c));
        chunk
            .invalid()
            .iter()
            .for_each(|&byte| code_point(out, u32::from(byte)));
    }
}

fn json_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => code_point(out, u32::from(c)),
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// `\u00e9`; for code points below 2¹⁶.
fn code_point(out: &mut Vec<u8>, code: u32) {
    let digit = |place: u32| HEX[(code >> (4 * place) & 15) as usize];
    out.extend_from_slice(&[b'\\', b'u', digit(3), digit(2), digit(1), digit(0)]);
}

/// Whether a space may stand in the text as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// The text stands within quotes.
    AsIs,
    /// A space would end the text.
    Escaped,
}

/// The inside of a quoted text in the combined format: all but printable ASCII, and quotes and
/// backslashes, as `\xNN`.
pub(crate) fn quoted(out: &mut Vec<u8>, text: &[u8], space: Space) {
    if space == Space::AsIs && is_plain(text) {
        out.extend_from_slice(text);
        return;
    }
    for &byte in text {
        match byte {
            b' ' if space == Space::AsIs => out.push(b' '),
            b'!'..=b'~' if byte != b'"' && byte != b'\\' => out.push(byte),
            _ => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                out.extend_from_slice(&[
                    b'\\',
                    b'x',
                    high.to_ascii_uppercase(),
                    low.to_ascii_uppercase(),
                ]);
            }
        }
    }
}

/// Appends text of an HTML element or of a quoted attribute.
pub(crate) fn html(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            byte => out.push(byte),
        }
    }
}

/// The first `longest` bytes of a text, fewer if a character would be cut, and whether there is
/// more.
pub(crate) fn cut(text: &[u8], longest: usize) -> (&[u8], bool) {
    let Some(&next) = text.get(longest) else {
        return (text, false);
    };
    let is_inside = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    let mut end = longest;
    if is_inside(next) {
        // A character has at most three bytes behind its first.
        let before = text[..longest]
            .iter()
            .rev()
            .take(3)
            .position(|&byte| !is_inside(byte));
        end -= before.map_or(0, |inside| inside + 1);
    }
    (&text[..end], true)
}

/// Printable ASCII without quotes and backslashes.
fn is_plain(text: &[u8]) -> bool {
    let (chunks, rest) = text.as_chunks::<16>();
    match text.last_chunk::<16>() {
        // What is left over lies in the last sixteen, which may be looked at twice.
        Some(last) => chunks.iter().all(all_plain) && all_plain(last),
        None => rest.iter().all(|&byte| PLAIN[usize::from(byte)]),
    }
}

/// Without a way out in the middle the compiler makes a vector of it.
fn all_plain(bytes: &[u8; 16]) -> bool {
    bytes.iter().fold(true, |all, &byte| {
        all & matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\')
    })
}

const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    plain
};

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_escaped_text_cannot_end_the_string_or_the_line() {
        // RFC 8259 §7
        for (raw, expected) in [
            (&b""[..], r#""""#),
            (b"app.example.com", r#""app.example.com""#),
            (br#"x","cause":"drain"#, r#""x\",\"cause\":\"drain""#),
            (br"\", r#""\\""#),
            (b"a\nb\r\tc", r#""a\nb\r\tc""#),
            (b"\0\x1f\x1b[31m", r#""\u0000\u001f\u001b[31m""#),
            ("\u{7f}\u{9b}".as_bytes(), r#""\u007f\u009b""#),
            (
                "\u{2028}\u{202e}\u{2066}".as_bytes(),
                r#""\u2028\u202e\u2066""#,
            ),
            (
                "bücher.example 本 🚢".as_bytes(),
                r#""bücher.example 本 🚢""#,
            ),
            (b"caf\xe9\xff \xc3", r#""caf\u00e9\u00ff \u00c3""#),
        ] {
            assert_eq!(written(|out| json(out, raw)), expected);
        }
    }

    #[test]
    fn every_json_character_is_read_back_as_itself() {
        for c in (0..=0x10_ffff)
            .filter_map(char::from_u32)
            .filter(|c| u32::from(*c) < 0x3000 || c.is_control())
        {
            let text = format!("a{c}b");
            let line = written(|out| json(out, text.as_bytes()));
            assert!(!line.chars().any(char::is_control), "{c:?}");
            assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }
    }

    #[test]
    fn every_byte_at_every_position_is_valid_json() {
        for byte in 0..=255 {
            for place in 0..40 {
                let mut text = vec![b'a'; 40];
                text[place] = byte;
                let line = written(|out| json(out, &text));
                let expected: String = text.iter().map(|&byte| char::from(byte)).collect();
                assert_eq!(serde_json::from_str::<String>(&line).unwrap(), expected);
            }
        }
    }

    #[test]
    fn combined_format_quotes_cannot_be_broken() {
        for (raw, expected) in [
            (&b"Mozilla/5.0 (X11)"[..], "Mozilla/5.0 (X11)"),
            (b"a\" 200 1 \"", r"a\x22 200 1 \x22"),
            (b"a\\\r\n\t\x1b\x7f\xe9", r"a\x5C\x0D\x0A\x09\x1B\x7F\xE9"),
        ] {
            assert_eq!(written(|out| quoted(out, raw, Space::AsIs)), expected);
        }
        assert_eq!(
            written(|out| quoted(out, b"a b", Space::Escaped)),
            r"a\x20b"
        );
    }

    #[test]
    fn a_text_is_truncated_between_characters() {
        for (text, longest, expected) in [
            (&b""[..], 0, (&b""[..], false)),
            (b"abc", 3, (b"abc", false)),
            (b"abcd", 3, (b"abc", true)),
            ("a本".as_bytes(), 4, ("a本".as_bytes(), false)),
            ("a本b".as_bytes(), 4, ("a本".as_bytes(), true)),
            ("a本b".as_bytes(), 3, (b"a", true)),
            ("a本b".as_bytes(), 2, (b"a", true)),
            (&[0x80; 6], 5, (&[0x80; 5], true)),
        ] {
            assert_eq!(cut(text, longest), expected, "{text:?} {longest}");
        }
    }
}
