//! The findings as text: a line each below the name of their group, and the cure below the line.

use std::fmt::Write as _;

use super::finding::{Finding, Level};
use crate::printable::printable;

/// The widest text in the second column that others are aligned with.
const WIDEST: usize = 32;

/// Findings of a group that ask for nothing and are printed; of more, only their number is told.
const MOST_FINE: usize = 20;

/// The text of the findings, and a line with their counts.
pub(super) fn of(findings: &[Finding]) -> String {
    let mut text = String::new();
    for group in findings.chunk_by(|one, next| one.group == next.group) {
        if let Some(first) = group.first() {
            let _ = writeln!(text, "{}", first.group.name());
        }
        let widths = group
            .iter()
            .map(|found| printable(&found.what).chars().count());
        let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        let mut fine = 0;
        for found in group {
            fine += usize::from(found.level == Level::Ok);
            if found.level == Level::Ok && fine > MOST_FINE {
                continue;
            }
            let [what, state, cure] =
                [&found.what, &found.found, &found.cure].map(|text| printable(text));
            let level = found.level.name();
            let _ = writeln!(text, "  {level:<8} {what:<width$}  {state}");
            if !cure.is_empty() {
                let _ = writeln!(text, "           {:<width$}  {cure}", "");
            }
        }
        if fine > MOST_FINE {
            let _ = writeln!(text, "  ok       and {} more", fine - MOST_FINE);
        }
    }
    let counts = [Level::Problem, Level::Warning, Level::Note].map(|level| {
        let count = findings.iter().filter(|found| found.level == level).count();
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {}{plural}", level.name())
    });
    let _ = writeln!(text, "{}", counts.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::super::finding::Group;
    use super::*;

    #[test]
    fn findings_stand_below_their_group_with_their_cure() {
        let findings = [
            Group::Ports.ok(":443", "free"),
            Group::Ports.problem(":80", "another\nprocess", "stop it"),
            Group::Disk.note("/var", "1 GB", "make room"),
        ];
        assert_eq!(
            of(&findings),
            "ports\n  ok       :443  free\n  problem  :80   another\\nprocess\n                 stop it\n\
             disk\n  note     /var  1 GB\n                 make room\n\
             1 problem, 0 warnings, 1 note\n"
        );
    }

    #[test]
    fn of_many_fine_findings_the_number_is_told() {
        let fine = |number| Group::Certificates.ok(format!("{number}.pem"), "valid");
        let mut findings: Vec<_> = (0..30).map(fine).collect();
        findings.push(Group::Certificates.problem("last.pem", "expired", "replace it"));
        let text = of(&findings);
        assert!(
            text.contains("19.pem") && !text.contains("20.pem"),
            "{text}"
        );
        assert!(text.contains("last.pem"), "{text}");
        assert!(text.contains("\n  ok       and 10 more\n"), "{text}");
    }
}
