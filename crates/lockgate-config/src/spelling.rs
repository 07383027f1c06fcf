//! Names that are spelt alike.

/// Longer names are not compared.
pub(crate) const LONGEST: usize = 64;

/// A message names at most so many keys.
const MOST: usize = 5;

/// The known name that is most similar, at most two typing errors away.
pub(crate) fn nearest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = letters(written)?;
    let slips = |name: &&str| distance(&written, &characters(name));
    let allowed = |name: &str| (name.chars().count().min(written.len()) / 3).clamp(1, 3);
    let near = known
        .into_iter()
        .filter(|name| slips(name) <= allowed(name));
    near.min_by_key(slips)
}

/// Up to five similar names, the likeliest first: names that share a word or half of their
/// spelling.
pub(crate) fn similar<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let Some(letters) = letters(written) else {
        return Vec::new();
    };
    let lower: String = letters.iter().collect();
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let slips = distance(&letters, &characters(name));
            let half = slips * 2 <= letters.len().min(name.len());
            (half || shares_a_word(&lower, name)).then_some((slips, name))
        })
        .collect();
    found.sort_by_key(|(slips, _)| *slips);
    found.truncate(MOST);
    found.into_iter().map(|(_, name)| name).collect()
}

/// Whether a word of one begins as a word of the other does: `read_timeout` and `timeouts`.
fn shares_a_word(one: &str, other: &str) -> bool {
    const ALIKE: usize = 4;
    let beginnings = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter_map(|word| word.get(..ALIKE))
            .map(str::to_owned)
            .collect()
    };
    let others = beginnings(other);
    beginnings(one)
        .iter()
        .any(|beginning| others.contains(beginning))
}

fn letters(written: &str) -> Option<Vec<char>> {
    let letters: Vec<char> = written
        .chars()
        .take(LONGEST + 1)
        .flat_map(char::to_lowercase)
        .collect();
    (letters.len() <= LONGEST).then_some(letters)
}

fn characters(name: &str) -> Vec<char> {
    name.to_lowercase().chars().collect()
}

/// Edits between the two, neighbours swapped counting as one (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(ca != cb))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *cb && *ca == b[j - 1] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_finds_the_name_that_was_meant() {
        let known = ["timeouts", "workers", "tls", "tcp", "state"];
        for (written, meant) in [
            ("timeout", Some("timeouts")),
            ("wrokers", Some("workers")),
            ("Workers", Some("workers")),
            ("tsl", Some("tls")),
            ("stat", Some("state")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), known), None);
    }

    #[test]
    fn similar_names_are_few_and_share_a_word_or_half_their_letters() {
        let known = [
            "request_headers",
            "headers",
            "header_a",
            "header_b",
            "header_c",
            "header_d",
            "tls",
            "cache",
        ];
        assert_eq!(similar("headers_request", known).len(), 5);
        assert_eq!(similar("caching", known), ["cache"]);
        assert!(similar("banana", known).is_empty());
        assert!(similar(&"x".repeat(1_000_000), known).is_empty());
    }
}
