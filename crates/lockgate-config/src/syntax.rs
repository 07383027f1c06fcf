//! Cures for lines that are not TOML.
//!
//! It looks at one line and the parser's message; it does not report and knows no key.

use std::ops::Range;

/// A longer line is not looked at.
const LONGEST_LINE: usize = 2_000;

/// A typical mistake in a line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Slip {
    /// The part of the line to mark, in bytes, if it is not the parser's.
    pub(crate) span: Option<Range<usize>>,
    /// Why it is no TOML, where that can be said better than the parser does.
    pub(crate) why: Option<&'static str>,
    /// The cure; empty if there is none.
    pub(crate) cure: String,
}

/// The mistake in a line, at the byte `at`.
pub(crate) fn slip(line: &str, at: usize, message: &str) -> Slip {
    let line = line.trim_end();
    if line.len() > LONGEST_LINE || !line.is_char_boundary(at.min(line.len())) {
        return Slip::default();
    }
    let (before, rest) = line.split_at(at.min(line.len()));
    if let Some(slip) = invisible(line).or_else(|| separators(line, message)) {
        return slip;
    }
    let found = match line.trim_start() {
        mark if ["<<<<<<<", "=======", ">>>>>>>"]
            .iter()
            .any(|sign| mark.starts_with(sign)) =>
        {
            let cure =
                "this is the mark of a merge conflict: keep one side, and remove the three marks";
            Some(Slip {
                span: Some(0..line.len()),
                why: None,
                cure: cure.to_owned(),
            })
        }
        comment
            if comment.starts_with("//")
                || comment.starts_with("/*")
                || comment.starts_with("--") =>
        {
            Slip::cured("a comment begins with #")
        }
        _ if line.trim_start().starts_with('[') => {
            let why = message.contains("unquoted key").then_some(QUOTED_KEY);
            quoted_header(line).map(|slip| Slip { why, ..slip })
        }
        block if block.ends_with('{') => block_header(block),
        "}" => Slip::cured("remove it: a table ends where the next [header] begins"),
        _ if line.contains(CURLED) => Slip::cured(format!(
            "write straight quotes: {}",
            straight(line).trim_start()
        )),
        _ => None,
    };
    found
        .or_else(|| by_message(line, before, rest, message))
        .unwrap_or_default()
}

/// An invisible character, or a space that is no ASCII space, from a copied line. Within quotes it
/// may be intended.
fn invisible(line: &str) -> Option<Slip> {
    let outside =
        |at: usize| line[..at].matches('"').count().is_multiple_of(2) && !line[..at].contains('#');
    let (at, found) = line.char_indices().find(|(at, c)| {
        matches!(
            c,
            '\u{a0}' | '\u{2000}'..='\u{200f}' | '\u{202f}' | '\u{2060}' | '\u{3000}' | '\u{feff}'
        ) && outside(*at)
    })?;
    let (why, cure) = match found {
        '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => {
            ("here stands a character that is not shown", "remove")
        }
        _ => (
            "here stands a character that looks like a space and is none",
            "type a plain space instead of",
        ),
    };
    let cure = format!("{cure} U+{:04X}, or type the line anew", u32::from(found));
    Some(Slip {
        span: Some(at..at + found.len_utf8()),
        why: Some(why),
        cure,
    })
}

/// `20,000`: what the parser takes for the end of a value.
fn separators(line: &str, message: &str) -> Option<Slip> {
    if !["comma", "unexpected key or value", "missing"]
        .iter()
        .any(|part| message.contains(part))
    {
        return None;
    }
    line.match_indices('=').find_map(|(sign, _)| {
        let value = line.get(sign + 1..)?;
        let start = sign + 1 + (value.len() - value.trim_start().len());
        let value = value.trim_start();
        let number = value.get(
            ..value
                .find(|c: char| !c.is_ascii_digit() && c != ',')
                .unwrap_or(value.len()),
        )?;
        let number = number.trim_end_matches(',');
        let mut groups = number.split(',');
        let first = groups
            .next()
            .filter(|first| (1..=3).contains(&first.len()))?;
        let rest: Vec<&str> = groups.collect();
        if first.starts_with('0') || rest.is_empty() || rest.iter().any(|group| group.len() != 3) {
            return None;
        }
        Some(Slip {
            span: Some(start..start + number.len()),
            why: Some("no comma stands in a number"),
            cure: format!(
                "write {} or {}",
                number.replace(',', ""),
                number.replace(',', "_")
            ),
        })
    })
}

const QUOTED_KEY: &str = "a name with dots, colons, slashes or stars stands in quotes";
const QUOTED_TEXT: &str = "a text stands in double quotes";
const PLAIN: &str = "numbers, true and false have one form";
const ASSIGNED: &str = "between a key and its value stands =";

impl Slip {
    /// A slip with only a cure, for chains of `Option`.
    fn cured(cure: impl Into<String>) -> Option<Slip> {
        Some(Slip {
            cure: cure.into(),
            ..Slip::default()
        })
    }
}

fn by_message(line: &str, before: &str, rest: &str, message: &str) -> Option<Slip> {
    let has = |part: &str| message.contains(part);
    let content = line.trim_start();
    let key = content.get(..content.find(|c: char| !is_bare(c)).unwrap_or(content.len()))?;
    let sign = content.get(key.len()..)?.trim_start();
    let value = sign.trim_start_matches([':', '=', '>', ' ', '\t']);
    match () {
        () if rest.trim_start().starts_with("//") => Slip::cured("a comment begins with #"),
        () if rest.starts_with(';') => Slip::cured("remove the `;`"),
        () if has("key with no value")
            || has("extra `=`")
            || sign.starts_with("=>")
            || value.is_empty() =>
        {
            assignment(key, value)
        }
        () if has("missing comma") => Slip::cured("put a comma between the two"),
        () if has("escaped value") => Slip::cured(
            "write \\\\ for a backslash, or the text in single quotes, where it means itself",
        ),
        () if has("basic string") || has("literal string,") => Slip::cured(
            "close the quotes on the same line; text of several lines stands in three: \"\"\"",
        ),
        () if has("unquoted key") => unquoted_key(line),
        () if has("string values must be quoted") || has("invalid") || has("leading zero") => {
            word(before, rest)
        }
        () if has("cannot extend value of type inline table") => {
            Slip::cured("write the key inside the braces, or the whole table with a [header]")
        }
        () => None,
    }
}

/// Quotes of word processors, and those of shells.
const CURLED: [char; 6] = ['“', '”', '„', '‘', '’', '`'];

fn straight(text: &str) -> String {
    text.replace(CURLED, "\"")
}

fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

const SECTIONS: [&str; 5] = ["site", "tcp", "tunnel", "pool", "values"];

/// `[tcp.:443]`, `[site example.com]`, `[site."a.b".path./x]`: the header with its quotes.
fn quoted_header(line: &str) -> Option<Slip> {
    let written = line.split('#').next().unwrap_or(line).trim();
    let start = line.find(written)?;
    let plain = straight(written);
    let cure = format!("write {}", header(plain.trim_matches(['[', ']', ' ']))?);
    Some(Slip {
        span: Some(start..start + written.len()),
        why: None,
        cure,
    })
}

/// `site "a.b" {`: the header instead.
fn block_header(line: &str) -> Option<Slip> {
    let plain = straight(line);
    let header = header(plain.trim_end_matches('{').trim())?;
    Slip::cured(format!(
        "write {header} on a line of its own, without braces"
    ))
}

fn header(inner: &str) -> Option<String> {
    let section = SECTIONS.into_iter().find(|section| {
        inner
            .strip_prefix(section)
            .is_some_and(|rest| rest.starts_with(['.', ' ', '"', '\'']))
    })?;
    let rest = inner.get(section.len()..)?;
    let parts = rest.split(".path.").flat_map(|part| part.split(".path "));
    let names: Vec<_> = parts
        .map(|part| part.trim_matches(['.', ' ', '"', '\'']))
        .collect();
    if names.is_empty()
        || names
            .iter()
            .any(|name| name.is_empty() || name.contains(['"', '\'', '\\']))
    {
        return None;
    }
    Some(format!("[{section}.\"{}\"]", names.join("\".path.\"")))
}

/// `key: value`, `key value`, `key == value`.
fn assignment(key: &str, value: &str) -> Option<Slip> {
    let cure = match value {
        _ if key.is_empty() => return None,
        "" => format!("write a value behind it: {key} = \"…\""),
        value => format!("write {key} = {}", in_toml(value)?),
    };
    Some(Slip {
        span: None,
        why: Some(ASSIGNED),
        cure,
    })
}

/// A value as TOML has it; nothing where it is more than one.
fn in_toml(value: &str) -> Option<String> {
    let value = value.trim_end_matches([';', ',']).trim();
    match value.to_ascii_lowercase().as_str() {
        "yes" | "on" | "true" => return Some("true".to_owned()),
        "no" | "off" | "false" | "none" | "null" | "nil" => return Some("false".to_owned()),
        _ => {}
    }
    if let Ok(number) = value.parse::<i64>() {
        return Some(number.to_string());
    }
    let whole = value.starts_with(['"', '\'', '[', '{']);
    match value
        .strip_prefix('$')
        .map(|name| name.trim_matches(['{', '}']))
    {
        _ if whole => Some(value.to_owned()),
        Some(name) if !name.is_empty() && name.chars().all(is_bare) => {
            Some(format!("\"${{env:{name}}}\""))
        }
        _ if value.contains(['"', '\\']) || value.is_empty() => None,
        _ => Some(format!("\"{value}\"")),
    }
}

/// A word that should be quoted, or is a word of another language for true and false.
fn word(before: &str, rest: &str) -> Option<Slip> {
    let start = before
        .rfind(|c: char| matches!(c, '=' | ',' | '[' | '{') || c.is_whitespace())
        .map_or(0, |at| at + 1);
    let among = before.contains(['[', '{']);
    let end = if among {
        rest.find([',', ']', '}', '#'])
    } else {
        rest.find('#')
    };
    let word = format!(
        "{}{}",
        before.get(start..)?,
        rest.get(..end.unwrap_or(rest.len()))?
    );
    let word = word.trim_end();
    if word.is_empty() {
        return None;
    }
    let value = in_toml(word)?;
    let why = Some(if value.starts_with('"') {
        QUOTED_TEXT
    } else {
        PLAIN
    });
    Some(Slip {
        span: Some(start..start + word.len()),
        why,
        cure: format!("write {value}"),
    })
}

/// A key that lacks its quotes: `/api = …`, `sni.*.example.com = …`. Only letters, digits, `-` and
/// `_` need none.
fn unquoted_key(line: &str) -> Option<Slip> {
    let key = line.split('=').next()?.trim();
    match key {
        key if key.contains(['"', '\'']) => None,
        path if path.starts_with('/') => Slip::cured(format!(
            "a path is a table of its own: [site.\"example.com\".path.\"{path}\"]"
        )),
        key => {
            let (section, name) = ["sni.", "alpn."]
                .iter()
                .find_map(|known| Some((*known, key.strip_prefix(known)?)))
                .unwrap_or(("", key));
            Slip::cured(format!("put it in quotes: {section}\"{name}\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_toml_has_them() {
        for (written, expected) in [
            ("127.0.0.1:3000", Some("\"127.0.0.1:3000\"")),
            ("/srv/www;", Some("\"/srv/www\"")),
            ("\"a\"", Some("\"a\"")),
            ("yes", Some("true")),
            ("Off", Some("false")),
            ("30", Some("30")),
            ("007", Some("7")),
            ("$USER", Some("\"${env:USER}\"")),
            ("${HOME}", Some("\"${env:HOME}\"")),
            ("", None),
            ("a \"b\" c", None),
        ] {
            assert_eq!(in_toml(written).as_deref(), expected, "{written}");
        }
    }

    #[test]
    fn headers_get_their_quotes() {
        for (written, expected) in [
            ("[tcp.:443]", Some("write [tcp.\":443\"]")),
            ("[tcp.127.0.0.1:443]", Some("write [tcp.\"127.0.0.1:443\"]")),
            (
                "[site.example.com:8443] # x",
                Some("write [site.\"example.com:8443\"]"),
            ),
            (
                "[site.*.example.com]",
                Some("write [site.\"*.example.com\"]"),
            ),
            ("[site \"a.b\"]", Some("write [site.\"a.b\"]")),
            ("[site.\"a.b\"", Some("write [site.\"a.b\"]")),
            ("[site.\"a.b]", Some("write [site.\"a.b\"]")),
            ("[site.“a.b”]", Some("write [site.\"a.b\"]")),
            (
                "[site.\"a.b\".path./api/*]",
                Some("write [site.\"a.b\".path.\"/api/*\"]"),
            ),
            ("[tunnel.[::1]:3128]", Some("write [tunnel.\"[::1]:3128\"]")),
            ("[tls", None),
            ("[site.]", None),
        ] {
            assert_eq!(
                quoted_header(written).map(|slip| slip.cure).as_deref(),
                expected,
                "{written}"
            );
        }
    }
}
