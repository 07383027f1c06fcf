//! The words of a line: quotes, escapes, comments, environment variables, times and sizes.

/// The words of a line.
///
/// A variable in double quotes becomes `${env:NAME}`. One with a default value keeps it, as
/// `${env:NAME-value}`, so that no caller takes it for the variable alone.
///
/// # Errors
/// Why the line is not one of HAProxy.
pub(super) fn haproxy_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut inside = false;
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('#', None) => break,
            ('"', None) | ('\'', None) => {
                quote = Some(c);
                inside = true;
            }
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                inside = true;
                match chars.next() {
                    None => return Err("a backslash ends the line".to_owned()),
                    Some('n') => word.push('\n'),
                    Some('r') => word.push('\r'),
                    Some('t') => word.push('\t'),
                    Some('x') => {
                        let code = [chars.next(), chars.next()]
                            .into_iter()
                            .try_fold(0, |sum, digit| Some(sum * 16 + digit?.to_digit(16)?));
                        match code.and_then(char::from_u32).filter(char::is_ascii) {
                            Some(c) => word.push(c),
                            None => return Err("`\\x` needs two hexadecimal digits".to_owned()),
                        }
                    }
                    Some(c) if " \\\"'#".contains(c) || (c == '$' && quote.is_some()) => {
                        word.push(c);
                    }
                    Some(c) => {
                        word.push('\\');
                        word.push(c);
                    }
                }
            }
            ('$', Some('"')) => {
                let braces = chars.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(c) = chars.next_if(|c| {
                    c.is_ascii_alphanumeric() || *c == '_' || (braces && *c != '}' && *c != '"')
                }) {
                    name.push(c);
                }
                if name.is_empty() || (braces && chars.next_if_eq(&'}').is_none()) {
                    return Err("a variable has no name or no closing brace".to_owned());
                }
                word.push_str("${env:");
                word.push_str(&name);
                word.push('}');
            }
            (c, None) if c.is_whitespace() => {
                if inside || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                inside = false;
            }
            (c, _) => word.push(c),
        }
    }
    if quote.is_some() {
        return Err("this quote has no end".to_owned());
    }
    if inside || !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

/// A time of HAProxy in milliseconds: `30s`, `500` (milliseconds), `1m`.
pub(super) fn haproxy_time(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let number: u64 = number.parse().ok()?;
    let factor = match unit {
        "" | "ms" => 1,
        "us" => return Some(number.div_ceil(1000)),
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// A time as Lockgate writes it.
pub(super) fn lockgate_time(milliseconds: u64) -> String {
    for (unit, factor) in [("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if milliseconds > 0 && milliseconds.is_multiple_of(factor) {
            // 60s and 90s are read more easily than 1m and 1500ms.
            if unit == "m" && milliseconds < 120_000 {
                continue;
            }
            return format!("{}{unit}", milliseconds / factor);
        }
    }
    format!("{milliseconds}ms")
}

/// Whether a word holds a variable of the environment.
pub(super) fn has_variable(word: &str) -> bool {
    word.contains("${") || word.contains("%[")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_haproxy_does() {
        for (line, expected) in [
            ("  bind :80  # web", vec!["bind", ":80"]),
            (r"a b\ c 'd e' f\#g", vec!["a", "b c", "d e", "f#g"]),
            (
                r#"x "a \"b\" ${HOST}:$PORT" '' "#,
                vec!["x", "a \"b\" ${env:HOST}:${env:PORT}", ""],
            ),
            (r#"x "${A-b}" ${C}"#, vec!["x", "${env:A-b}", "${C}"]),
            (r"reg ^\d+\.x\x41", vec!["reg", r"^\d+\.xA"]),
            ("a#b", vec!["a"]),
        ] {
            assert_eq!(haproxy_words(line).unwrap(), expected, "{line}");
        }
        for line in ["'a", "\"a", "a\\", "\"${}\"", "\"${A\"", r"\xZZ", r"\x4"] {
            assert!(haproxy_words(line).is_err(), "{line}");
        }
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, ms, written) in [
            ("5000", 5000, "5s"),
            ("1m", 60_000, "60s"),
            ("2h", 7_200_000, "2h"),
            ("1d", 86_400_000, "24h"),
            ("1500us", 2, "2ms"),
            ("10m", 600_000, "10m"),
        ] {
            assert_eq!(haproxy_time(text), Some(ms));
            assert_eq!(lockgate_time(ms), written);
        }
        for text in [
            "",
            "s",
            "5x",
            "99999999999999999999s",
            "9999999999999999999d",
        ] {
            assert_eq!(haproxy_time(text), None);
        }
    }
}
