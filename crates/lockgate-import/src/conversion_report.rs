//! What became of each statement of a source.

use std::collections::BTreeMap;

use crate::source_files::Place;

/// What became of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It means the same in the new file.
    Converted,
    /// It is what Lockgate does without being told.
    Default,
    /// It is in the new file, or Lockgate's default, with another meaning.
    Differs {
        /// What is different, as a sentence without its full stop.
        because: String,
    },
    /// It is not in the new file.
    NotSupported {
        /// Why, as a sentence without its full stop.
        because: String,
        /// What to do instead, if there is something.
        instead: Option<String>,
    },
}

impl Verdict {
    /// It is in the new file with another meaning: what is different.
    pub fn differs(because: impl Into<String>) -> Self {
        Self::Differs {
            because: because.into(),
        }
    }

    /// It is not in the new file: why, and what to do instead.
    pub fn not_supported(because: impl Into<String>, instead: Option<&str>) -> Self {
        Self::NotSupported {
            because: because.into(),
            instead: instead.map(str::to_owned),
        }
    }

    /// The verdict of a statement of which one part is `self` and one is `other`: the worse of
    /// both, with all reasons.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differs { because: one }, Self::Differs { because: two }) => Self::Differs {
                because: joined(one, &two),
            },
            (
                Self::NotSupported { because, instead },
                Self::NotSupported {
                    because: two,
                    instead: second,
                },
            ) => Self::NotSupported {
                because: joined(because, &two),
                instead: instead.or(second),
            },
            (one, other) if one.rank() >= other.rank() => one,
            (_, other) => other,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Converted => 1,
            Self::Differs { .. } => 2,
            Self::NotSupported { .. } => 3,
        }
    }
}

fn joined(mut one: String, two: &str) -> String {
    if !one.split("; ").any(|part| part == two) {
        one.push_str("; ");
        one.push_str(two);
    }
    one
}

/// A statement and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportLine {
    /// Where it begins.
    pub place: Place,
    /// Its text, on one line; without the block that it opens.
    pub text: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// A statement in a [`ConversionReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementId(usize);

/// The verdict of every statement, in the order in which they were read.
#[derive(Debug, Clone, Default)]
pub struct ConversionReport {
    statements: Vec<(Place, String, Option<Verdict>)>,
}

/// The longest text of a statement that a report repeats, in characters.
const LONGEST_TEXT: usize = 200;

impl ConversionReport {
    /// Adds a statement. Without a verdict it is not supported.
    pub fn add(&mut self, place: Place, text: &str) -> StatementId {
        let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = words.char_indices().nth(LONGEST_TEXT) {
            words.truncate(end);
            words.push('…');
        }
        self.statements.push((place, words, None));
        StatementId(self.statements.len() - 1)
    }

    /// Gives a statement a verdict. Of several the worst counts: a statement of which a part
    /// differs is never reported as converted.
    pub fn set(&mut self, statement: StatementId, verdict: Verdict) {
        let slot = &mut self.statements[statement.0].2;
        *slot = Some(match slot.take() {
            None => verdict,
            Some(known) => known.and(verdict),
        });
    }

    /// Whether the statement has a verdict yet.
    pub fn has_verdict(&self, statement: StatementId) -> bool {
        self.statements[statement.0].2.is_some()
    }

    /// All statements with their verdicts.
    pub fn lines(&self) -> impl Iterator<Item = ReportLine> {
        self.statements
            .iter()
            .map(|(place, text, verdict)| ReportLine {
                place: place.clone(),
                text: text.clone(),
                verdict: verdict
                    .clone()
                    .unwrap_or_else(|| Verdict::not_supported("this statement is not known", None)),
            })
    }

    /// The number of statements by verdict: `converted`, `default`, `differs`, `not supported`.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for line in self.lines() {
            let name = match line.verdict {
                Verdict::Converted => "converted",
                Verdict::Default => "default",
                Verdict::Differs { .. } => "differs",
                Verdict::NotSupported { .. } => "not supported",
            };
            *counts.entry(name).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn report(verdicts: &[Verdict]) -> Verdict {
        let mut report = ConversionReport::default();
        let place = Place {
            file: Path::new("a.conf").into(),
            line: 1,
        };
        let statement = report.add(place, "a\n  b");
        for verdict in verdicts {
            report.set(statement, verdict.clone());
        }
        let line = report.lines().next().unwrap();
        assert_eq!(line.text, "a b");
        line.verdict
    }

    #[test]
    fn a_statement_without_a_verdict_is_not_supported() {
        assert!(matches!(report(&[]), Verdict::NotSupported { .. }));
    }

    #[test]
    fn the_worst_verdict_of_a_statement_counts() {
        let differs = Verdict::differs("one");
        let not = Verdict::not_supported("two", Some("three"));
        for verdicts in [
            [Verdict::Converted, differs.clone()],
            [differs.clone(), Verdict::Default],
        ] {
            assert_eq!(report(&verdicts), differs);
        }
        assert_eq!(report(&[differs.clone(), not.clone()]), not);
        assert_eq!(
            report(&[Verdict::Default, Verdict::Converted]),
            Verdict::Converted
        );
        assert_eq!(
            report(&[differs.clone(), Verdict::differs("two"), differs]),
            Verdict::differs("one; two")
        );
    }
}
