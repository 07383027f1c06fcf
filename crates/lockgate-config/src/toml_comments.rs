//! The comments of a TOML text, found by its quotes alone: beside `format`, which works on a tree,
//! so that what that one loses is noticed.

/// The first comment of `before` that `after` has less often, in any order; `None` if all are kept.
pub(crate) fn first_lost<'t>(before: &'t str, after: &str) -> Option<&'t str> {
    let mut kept = comments(after);
    kept.sort_unstable();
    let mut all = comments(before);
    all.sort_unstable();
    let mut kept = kept.into_iter().peekable();
    all.into_iter().find(|comment| {
        while kept.next_if(|one| one < comment).is_some() {}
        kept.next_if(|one| one == comment).is_none()
    })
}

/// All comments, each from its `#` to the end of its line, without spaces at the end.
fn comments(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['#', '"', '\'']) {
        let (_, from) = rest.split_at(at);
        rest = if from.starts_with('#') {
            let (comment, after) = from.split_once('\n').unwrap_or((from, ""));
            found.push(comment.trim_end());
            after
        } else {
            after_string(from)
        };
    }
    found
}

/// What follows the string that a text begins with; nothing where the string has no end.
fn after_string(text: &str) -> &str {
    for quote in ["\"\"\"", "'''", "\"", "'"] {
        let Some(mut rest) = text.strip_prefix(quote) else {
            continue;
        };
        let has_escapes = quote.starts_with('"');
        loop {
            if let Some(after) = rest.strip_prefix(quote) {
                // Up to two quotes may stand before the three that end a string.
                let more = after
                    .bytes()
                    .take_while(|byte| quote.as_bytes().first() == Some(byte));
                let more = if quote.len() == 3 {
                    more.take(2).count()
                } else {
                    0
                };
                return after.get(more..).unwrap_or_default();
            }
            let mut chars = rest.chars();
            match chars.next() {
                Some('\\') if has_escapes => drop(chars.next()),
                Some(_) => {}
                None => return "",
            }
            rest = chars.as_str();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_outside_of_strings() {
        let text = "# one\na = \"# no \\\" # no\" # two  \r\nb = '#' #three\nc = \"\"\"\n# no \\\"\"\" \" # no\"\"\"\"# four\nd = '''# no''' # five\n[x.\"#y\"]#six";
        let expected = ["# one", "# two", "#three", "# four", "# five", "#six"];
        assert_eq!(comments(text), expected);
    }

    #[test]
    fn a_lost_comment_is_named() {
        let before = "# a\nx = 1 # b\n# a\n";
        assert_eq!(first_lost(before, "x = 1 # b\n# a\n# a\n# c"), None);
        assert_eq!(first_lost(before, "# a\nx = 1 # b\n"), Some("# a"));
        assert_eq!(first_lost(before, "# a\nx = 1\n# a\n"), Some("# b"));
        assert_eq!(first_lost(before, "# a\nx = '# b'\n# a\n"), Some("# b"));
        assert_eq!(first_lost("a = \"#", ""), None);
    }
}
