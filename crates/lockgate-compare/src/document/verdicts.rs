//! Verdicts on the programs' CPU time over all cases: a sentence for each program, and a table of
//! all. A single ratio's verdict is in its section.

use super::{Sheet, SheetCell, statement};
use crate::comparison::{Case, Compared, SampleMetric};
use crate::statistics::RatioVerdict;

/// Title of the verdicts above all tables.
pub(super) const VERDICT: &str = "CPU time a request beside the best other";

/// How often a program took less or more CPU time than the best other.
#[derive(Debug)]
pub(super) struct ProgramVerdict {
    pub(super) program: String,
    /// Cases with each verdict, with the least and the greatest ratio in them.
    less: CaseCount,
    more: CaseCount,
    not_shown: CaseCount,
    /// Cases without a verdict.
    none: usize,
}

impl ProgramVerdict {
    fn of<'a>(program: &str, ratios: impl Iterator<Item = Option<&'a Compared>>) -> Self {
        let mut own = Self {
            program: program.to_owned(),
            less: CaseCount::NONE,
            more: CaseCount::NONE,
            not_shown: CaseCount::NONE,
            none: 0,
        };
        for compared in ratios {
            let ratio = compared.and_then(|compared| compared.ratio);
            let verdict = compared.and_then(|compared| compared.verdict.as_ref().ok());
            let (Some(ratio), Some(verdict)) = (ratio, verdict) else {
                own.none += 1;
                continue;
            };
            let count = match verdict {
                RatioVerdict::Less => &mut own.less,
                RatioVerdict::More => &mut own.more,
                RatioVerdict::NotShown => &mut own.not_shown,
            };
            count.add(ratio.spread.median);
        }
        own
    }

    /// Whether there is a verdict on it in any case.
    pub(super) fn has_any(&self) -> bool {
        self.less.number + self.more.number + self.not_shown.number > 0
    }

    /// The counts in words: `less in 3 of 4 (0.64–0.81 ×), no verdict in 1 of 4`.
    pub(super) fn text(&self) -> String {
        let all = self.less.number + self.more.number + self.not_shown.number + self.none;
        let none = (self.none > 0).then(|| format!("no verdict in {} of {all}", self.none));
        let parts = [
            self.less.text("less", all),
            self.more.text("more", all),
            self.not_shown.text("no difference shown", all),
            none,
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Number of cases, and the range of their ratios.
#[derive(Debug, Clone, Copy)]
struct CaseCount {
    number: usize,
    least: f64,
    most: f64,
}

impl CaseCount {
    const NONE: Self = Self {
        number: 0,
        least: f64::INFINITY,
        most: 0.0,
    };

    fn add(&mut self, ratio: f64) {
        self.number += 1;
        (self.least, self.most) = (self.least.min(ratio), self.most.max(ratio));
    }

    /// `less in 3 of 4 (0.64–0.81 ×)`; nothing for none.
    fn text(&self, word: &str, of: usize) -> Option<String> {
        let Self {
            number,
            least,
            most,
        } = self;
        let range = format!("{least:.2}–{most:.2}");
        let range = if least == most {
            format!("{least:.2}")
        } else {
            range
        };
        (*number > 0).then(|| format!("{word} in {number} of {of} ({range} ×)"))
    }
}

/// Verdicts on the programs' CPU time in all cases: a sentence for each program.
pub(super) fn verdicts(cases: &[Case]) -> Vec<ProgramVerdict> {
    let mut programs: Vec<&str> = Vec::new();
    for row in cases.iter().flat_map(|case| &case.rows) {
        let counts = !row.baseline && row.skipped.is_none();
        if counts && !programs.contains(&row.program.as_str()) {
            programs.push(&row.program);
        }
    }
    // One alone has no other: the baseline is none.
    if programs.len() < 2 {
        return Vec::new();
    }
    let verdict = |program: &&str| {
        let ratios = cases.iter().map(|case| cpu_ratio(case, program));
        ProgramVerdict::of(program, ratios)
    };
    programs.iter().map(verdict).collect()
}

/// All verdicts on CPU time, a row for each case; nothing for one case, which its section shows.
pub(super) fn overview(cases: &[Case], verdicts: &[ProgramVerdict]) -> Option<Sheet> {
    let mut head = vec!["CPU time ÷ the best other".to_owned()];
    head.extend(verdicts.iter().map(|verdict| verdict.program.clone()));
    let rows = cases.iter().map(|case| {
        let cells = verdicts.iter().map(|verdict| {
            let compared = cpu_ratio(case, &verdict.program);
            compared.map_or_else(|| SheetCell::from("–".to_owned()), statement)
        });
        [SheetCell::from(case.name())]
            .into_iter()
            .chain(cells)
            .collect()
    });
    let rows: Vec<_> = rows.collect();
    (rows.len() > 1 && !verdicts.is_empty()).then_some(Sheet { head, rows })
}

/// The ratio of a program's CPU time to that of the best other.
fn cpu_ratio<'a>(case: &'a Case, program: &str) -> Option<&'a Compared> {
    let pair = case.pair_with_best(program, SampleMetric::Cpu)?;
    pair.ratio(SampleMetric::Cpu)
}
