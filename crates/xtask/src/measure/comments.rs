//! Comment lines: how many, and which say little.

/// Words that stand where the name of a thing belongs.
const VAGUE: [&str; 7] = [
    "who", "whom", "whose", "whoever", "nobody", "somebody", "whatever",
];

/// A documentation of one line says little with no more words than these.
const FEW_WORDS: usize = 4;

/// The figures of a file's comments. A comment behind code on a line is not counted.
#[derive(Default)]
pub(super) struct Comments {
    pub(super) lines: usize,
    pub(super) doc_lines: usize,
    /// Doc comments of one line with few words.
    pub(super) short_docs: usize,
    /// Lines with a vague word, with their numbers.
    pub(super) vague: Vec<(usize, String)>,
}

impl Comments {
    pub(super) fn of(lines: &[(usize, String)]) -> Comments {
        let mut comments = Comments::default();
        for (number, line) in lines {
            let line = line.trim();
            if !line.starts_with("//") {
                continue;
            }
            comments.lines += 1;
            if is_vague(line) {
                comments.vague.push((*number, line.to_owned()));
            }
        }
        for block in lines.chunk_by(|(_, one), (_, next)| doc_prefix(one) == doc_prefix(next)) {
            let Some(prefix) = doc_prefix(&block[0].1) else {
                continue;
            };
            comments.doc_lines += block.len();
            let words = block[0]
                .1
                .trim()
                .trim_start_matches(prefix)
                .split_whitespace();
            if block.len() == 1 && words.count() <= FEW_WORDS {
                comments.short_docs += 1;
            }
        }
        comments
    }
}

fn doc_prefix(line: &str) -> Option<&'static str> {
    let line = line.trim();
    ["///", "//!"]
        .into_iter()
        .find(|prefix| line.starts_with(prefix))
}

fn is_vague(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphabetic());
    words.any(|word| VAGUE.iter().any(|vague| vague.eq_ignore_ascii_case(word)))
}
