//! Live view of a run: a block of lines for a terminal, or one line a second elsewhere.
//!
//! Knows neither terminal nor clock: it turns the engine's progress into lines that fit a width.

use std::collections::VecDeque;
use std::time::Duration;

use crate::escape::terminal;
use crate::units;
use lockgate_load::RunProgress;
use lockgate_load::plan::{LoadStage, Loop, Until};
use lockgate_load::result::{FailureKind, Second, StageCounts};

/// Seconds that the sparkline may show.
const MAX_SECONDS: usize = 60;
/// A bar of fewer cells says nothing; one of more says no more.
const BAR: std::ops::RangeInclusive<usize> = 6..=40;
/// Eight heights; a second without a success is a gap.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Time after the end of a stage before the view says that it waits for responses.
const GRACE: Duration = Duration::from_millis(500);

/// A run as far as it has come.
#[derive(Debug)]
pub struct Live {
    /// Number of stages of one round.
    stages: usize,
    rounds: usize,
    current: Option<CurrentStage>,
    /// The counts of earlier stages, including connections of the warm-up.
    before: SecondCounts,
    /// Successes of each second, over all stages.
    history: VecDeque<u64>,
}

/// The stage that goes on.
#[derive(Debug)]
struct CurrentStage {
    index: Option<usize>,
    stage: LoadStage,
    elapsed: Duration,
    /// The last whole second, and how many there were.
    last: Option<Second>,
    passed: u64,
    counts: SecondCounts,
}

/// Counts that are summed up over stages.
#[derive(Debug, Default, Clone, Copy)]
struct SecondCounts {
    succeeded: u64,
    failures: [u64; FailureKind::ALL.len()],
    opened: u64,
}

/// A line of the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLine {
    /// Without control characters, and no longer than was asked for.
    pub text: String,
    /// How it may be coloured.
    pub tone: Tone,
}

/// Tone of a line, which decides on its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// The normal tone of a line.
    Plain,
    /// The tone of a line about failures.
    Alarm,
}

impl Live {
    /// Before the first of these stages.
    pub fn new(stages: &[LoadStage]) -> Self {
        let rounds = stages
            .iter()
            .map(|stage| stage.round)
            .max()
            .unwrap_or(1)
            .max(1);
        Self {
            stages: stages.len() / rounds,
            rounds,
            current: None,
            before: SecondCounts::default(),
            history: VecDeque::new(),
        }
    }

    /// Takes the engine's progress into account.
    pub fn observe(&mut self, progress: &RunProgress<'_>) {
        match (progress, &mut self.current) {
            (RunProgress::Begun { index, stage }, _) => self.begin(*index, stage),
            (RunProgress::Tick { elapsed }, Some(current)) => current.elapsed = *elapsed,
            (
                RunProgress::Second {
                    elapsed,
                    second,
                    counts,
                },
                Some(current),
            ) => {
                current.elapsed = *elapsed;
                current.last = Some(*second);
                current.passed += 1;
                current.counts = SecondCounts::of(counts);
                if self.history.len() == MAX_SECONDS {
                    self.history.pop_front();
                }
                self.history.push_back(second.succeeded);
            }
            (RunProgress::Over(stage), Some(current)) => {
                current.counts = SecondCounts::of(&stage.counts)
            }
            (_, None) => {}
        }
    }

    fn begin(&mut self, index: Option<usize>, stage: &LoadStage) {
        if let Some(ended) = self.current.take() {
            self.before.opened = self.before.opened.saturating_add(ended.counts.opened);
            if ended.index.is_some() {
                self.before.add_failures(&ended.counts);
            } else {
                self.history.clear();
            }
        }
        self.current = Some(CurrentStage {
            index,
            stage: stage.clone(),
            elapsed: Duration::ZERO,
            last: None,
            passed: 0,
            counts: SecondCounts::default(),
        });
    }

    /// The block, each line of it at most `width` columns; empty before the first stage.
    pub fn lines(&self, width: usize) -> Vec<LiveLine> {
        let Some(current) = &self.current else {
            return Vec::new();
        };
        let mut heading = self.heading(current);
        let opened = self.before.opened.saturating_add(current.counts.opened);
        heading.push(format!(
            "{} opened",
            units::counted(opened, "connection", "connections")
        ));
        let mut lines = vec![
            plain(fit(width, " · ", &heading)),
            plain(current.bar(width)),
        ];
        lines.extend(
            current
                .figures()
                .map(|figures| plain(fit(width, "  ", &figures))),
        );
        lines.extend(self.sparkline(width).map(plain));
        let mut counts = self.before;
        counts.add_failures(&current.counts);
        lines.extend(counts.failed(width).map(|text| LiveLine {
            text,
            tone: Tone::Alarm,
        }));
        lines
    }

    /// One line about the latest progress, where it deserves one: a stage that begins, a second
    /// that has passed.
    ///
    /// `12 s of 30 s: 15,234/s, p50 210 µs, p99 800 µs, 0 failed`; all of that second.
    pub fn line(&self, progress: &RunProgress<'_>) -> Option<String> {
        let current = self.current.as_ref()?;
        match progress {
            RunProgress::Begun { .. } => {
                Some(format!("begins: {}", self.heading(current).join(", ")))
            }
            RunProgress::Second { second, .. } => {
                let mut figures = current.figures()?;
                // The longest is in the report; a line is for how things go on.
                figures.retain(|figure| !figure.starts_with("max"));
                figures.push(format!("{} failed", units::count(second.failed)));
                let [so_far, _] = current.progress(Duration::from_secs(current.passed));
                Some(format!("{so_far}: {}", figures.join(", ")))
            }
            RunProgress::Tick { .. } | RunProgress::Over(_) => None,
        }
    }

    /// Words about the current stage, the most important first.
    fn heading(&self, current: &CurrentStage) -> Vec<String> {
        let Some(index) = current.index else {
            return vec!["warm-up, not counted".to_owned()];
        };
        let mut parts = vec![terminal(&current.stage.name)];
        if self.stages > 1 {
            parts.push(format!(
                "stage {} of {}",
                index % self.stages + 1,
                self.stages
            ));
        }
        if self.rounds > 1 {
            parts.push(format!("round {} of {}", current.stage.round, self.rounds));
        }
        parts
    }

    /// Successes of the last seconds beside each other, from nothing to the most of them.
    fn sparkline(&self, width: usize) -> Option<String> {
        let most = *self.history.iter().max()?;
        let legend = format!(" up to {}/s", units::count(most));
        let (legend, room) = match width.checked_sub(columns(&legend)) {
            Some(room) if room >= *BAR.start() => (legend, room),
            _ => (String::new(), width),
        };
        let from = self.history.len().saturating_sub(room);
        let height = |successes: u64| match (successes as f64 / most as f64 * 8.0).ceil() as usize {
            _ if successes == 0 => ' ',
            height => HEIGHTS[height.clamp(1, 8) - 1],
        };
        let mut line: String = self
            .history
            .iter()
            .skip(from)
            .map(|successes| height(*successes))
            .collect();
        line.push_str(&legend);
        Some(line)
    }
}

impl CurrentStage {
    /// A bar, as far as there is room, and how far it has come in words.
    fn bar(&self, width: usize) -> String {
        let words = fit(width, "", &self.progress(self.elapsed));
        let room = width.saturating_sub(columns(&words) + 1).min(*BAR.end());
        if room < *BAR.start() {
            return words;
        }
        let done = match self.stage.until {
            Until::Time(time) => self.elapsed.as_secs_f64() / time.as_secs_f64(),
            Until::Count(count) => self.counts.ended() as f64 / count as f64,
        };
        let full = (done.clamp(0.0, 1.0) * room as f64) as usize;
        format!("{}{} {words}", "█".repeat(full), "░".repeat(room - full))
    }

    /// Progress after this time, and an addition for a wide line: `12 s of 30 s`, `, 18 s left`.
    fn progress(&self, elapsed: Duration) -> [String; 2] {
        match self.stage.until {
            Until::Count(count) => {
                let counted = format!(
                    "{} of {} requests",
                    units::count(self.counts.ended()),
                    units::count(count)
                );
                [counted, format!(", {}", clock(elapsed.as_secs()))]
            }
            Until::Time(time) if elapsed > time.saturating_add(GRACE) => [
                format!("{} over", clock(time.as_secs())),
                ", waiting for responses".to_owned(),
            ],
            Until::Time(time) if time < Duration::from_secs(1) => {
                [units::span(time), String::new()]
            }
            Until::Time(time) => {
                let whole = time.as_secs();
                let elapsed = elapsed.as_secs().min(whole);
                let left = format!(", {} left", clock(whole - elapsed));
                [format!("{} of {}", clock(elapsed), clock(whole)), left]
            }
        }
    }

    /// Figures of the last second: `2,950/s of 3,000/s due`, `p50 210 µs`, ...
    fn figures(&self) -> Option<Vec<String>> {
        let second = self.last?;
        let mut parts = vec![format!("{}/s", units::count(second.succeeded))];
        if let Some(due) = self.due() {
            parts[0] += &format!(" of {}/s due", units::count(due));
        }
        if second.succeeded > 0 {
            let figures = [
                ("p50", second.p50),
                ("p99", second.p99),
                ("max", second.max),
            ];
            parts.extend(
                figures.map(|(name, figure)| format!("{name} {}", units::duration(figure as f64))),
            );
        }
        Some(parts)
    }

    /// The number of requests that were due in the last second of an open loop.
    fn due(&self) -> Option<u64> {
        let Loop::Open(schedule) = &self.stage.shape else {
            return None;
        };
        let within = |seconds: u64| {
            let moment = Duration::from_secs(seconds);
            match self.stage.until {
                Until::Time(time) => schedule.count(moment.min(time)),
                Until::Count(count) => schedule.count(moment).min(count),
            }
        };
        Some(within(self.passed) - within(self.passed.saturating_sub(1)))
    }
}

impl SecondCounts {
    fn of(counts: &StageCounts) -> Self {
        Self {
            succeeded: counts.succeeded(),
            failures: counts.failures,
            opened: counts.opened,
        }
    }

    fn add_failures(&mut self, other: &Self) {
        for (sum, more) in self.failures.iter_mut().zip(other.failures) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Requests that are over, well or not.
    fn ended(&self) -> u64 {
        self.failures
            .iter()
            .fold(self.succeeded, |sum, more| sum.saturating_add(*more))
    }

    /// `12 failed: 10 timeout, 2 status`, the most frequent first; nothing where none failed.
    fn failed(&self, width: usize) -> Option<String> {
        let mut kinds: Vec<_> = FailureKind::ALL
            .into_iter()
            .zip(self.failures)
            .filter(|(_, count)| *count > 0)
            .collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let sum = kinds
            .iter()
            .fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let mut parts: Vec<_> = kinds
            .iter()
            .map(|(kind, count)| format!("{} {}", units::count(*count), kind.name()))
            .collect();
        let first = parts.first_mut()?;
        *first = format!("{} failed: {first}", units::count(sum));
        Some(fit(width, ", ", &parts))
    }
}

fn plain(text: String) -> LiveLine {
    LiveLine {
        text,
        tone: Tone::Plain,
    }
}

/// As many parts as there is room for, from the first on, which is cut where it alone is too long.
fn fit(width: usize, between: &str, parts: &[String]) -> String {
    let mut line = String::new();
    for part in parts {
        if line.is_empty() {
            line = cut(part, width);
        } else if columns(&line) + columns(between) + columns(part) <= width {
            line.push_str(between);
            line.push_str(part);
        } else {
            break;
        }
    }
    line
}

fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// All that is written here takes one column a character.
fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Whole seconds: `12 s`, `2:05 min`, `1:02:05 h`.
fn clock(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, minutes) => format!("{minutes}:{rest:02} min"),
        (hours, minutes) => format!("{hours}:{minutes:02}:{rest:02} h"),
    }
}

#[cfg(test)]
mod tests;
