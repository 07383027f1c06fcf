//! The requests of an access log, by two configurations.
//!
//! Lines are read one after the other: only differences are kept, and a bounded number of them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context as _, bail};
use foldhash::fast::RandomState;
use lockgate_http::head::RequestHead;
use serde_json::{Value, json};

use super::log_line::{LogLine, LoggedLine};
use crate::explain::{Decider, RequestDecision};

/// Kinds of differences that are told apart.
const MOST_KINDS: usize = 1_000;
/// Requests that are shown of each kind.
const SAMPLES: usize = 3;
/// The longest target of a sample, in characters.
const SAMPLE_LENGTH: usize = 200;
/// The longest line that is read: one with the longest target and the longest fields is shorter.
const LONGEST_LINE: u64 = 256 * 1024;

/// What was found in logs.
#[derive(Default)]
pub(super) struct Replay<'a> {
    /// Lines of requests that were decided about.
    requests: u64,
    /// Lines of connections and tunnels.
    connections: u64,
    /// Requests of which the log has not enough.
    incomplete: u64,
    unreadable: UnreadableLines,
    /// Requests that meet something else.
    different: u64,
    kinds: HashMap<(RequestDecision<'a>, RequestDecision<'a>), DifferenceKind, RandomState>,
    /// Differences beyond the kinds.
    beyond: u64,
}

#[derive(Default)]
struct UnreadableLines {
    count: u64,
    /// The first: its file and number, and why it cannot be read.
    first: Option<(String, u64, String)>,
}

/// Requests that meet the same instead of the same.
#[derive(Default)]
struct DifferenceKind {
    count: u64,
    samples: Vec<String>,
}

impl<'a> Replay<'a> {
    /// Decides about the requests of a log by both configurations. `-` is standard input.
    ///
    /// # Errors
    /// When the log cannot be read, or is none of Lockgate's in JSON.
    pub(super) fn read(
        &mut self,
        path: &Path,
        (before, after): (&'a Decider<'_>, &'a Decider<'_>),
    ) -> anyhow::Result<()> {
        let shown = path.display();
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).with_context(|| format!("{shown} cannot be opened"))?)
        };
        let mut input = BufReader::with_capacity(256 * 1024, input);
        if let Some(tool) = compression(input.fill_buf()?) {
            bail!("{shown} is compressed: write `{tool} FILE | lockgate plan --log -`");
        }
        let mut line = Vec::new();
        let mut text = String::new();
        let known_before = self.requests + self.connections + self.incomplete;
        let mut unreadable = UnreadableLines::default();
        for number in 1.. {
            line.clear();
            let mut limited = (&mut input).take(LONGEST_LINE);
            let read = limited
                .read_until(b'\n', &mut line)
                .with_context(|| format!("{shown} cannot be read"))?;
            if read == 0 {
                break;
            }
            if read as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
                input.skip_until(b'\n')?;
                unreadable.note(path, number, || "it is longer than 256 KB".to_owned());
                continue;
            }
            match serde_json::from_slice::<LogLine<'_>>(&line) {
                Ok(parsed) => self.line(&parsed, &mut text, (before, after)),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(error) => unreadable.note(path, number, || error.to_string()),
            }
        }
        let known = self.requests + self.connections + self.incomplete;
        if let (true, Some((_, number, why))) = (known == known_before, &unreadable.first) {
            bail!(
                "{shown} is no access log of Lockgate in JSON, which is the format that has all that is needed: line {number}: {why}"
            );
        }
        self.unreadable.count += unreadable.count;
        self.unreadable.first = self.unreadable.first.take().or(unreadable.first);
        Ok(())
    }

    fn line(
        &mut self,
        line: &LogLine<'_>,
        text: &mut String,
        (before, after): (&'a Decider<'_>, &'a Decider<'_>),
    ) {
        let mut head = RequestHead::default();
        match line.head(text, &mut head) {
            LoggedLine::Connection => self.connections += 1,
            LoggedLine::Incomplete => self.incomplete += 1,
            LoggedLine::Request => {
                self.requests += 1;
                let request = line.request(&head);
                let decisions = (before.decide(&request), after.decide(&request));
                if decisions.0 != decisions.1 {
                    self.differs(decisions, line);
                }
            }
        }
    }

    fn differs(
        &mut self,
        mut decisions: (RequestDecision<'a>, RequestDecision<'a>),
        line: &LogLine<'_>,
    ) {
        self.different += 1;
        // Each request may lead to a place of its own.
        let places = (decisions.0.location.take(), decisions.1.location.take());
        let is_full = self.kinds.len() >= MOST_KINDS;
        if is_full && !self.kinds.contains_key(&decisions) {
            self.beyond += 1;
            return;
        }
        let kind = self.kinds.entry(decisions).or_default();
        kind.count += 1;
        if kind.samples.len() < SAMPLES {
            let short = |text: String| text.chars().take(SAMPLE_LENGTH).collect::<String>();
            let led = match places {
                (None, None) => String::new(),
                (None, Some(after)) => format!(", to {}", short(after)),
                (Some(before), None) => format!(", not to {}", short(before)),
                (Some(before), Some(after)) => {
                    format!(", to {}, not to {}", short(after), short(before))
                }
            };
            let sample = short(line.sample()) + &led;
            if !kind.samples.contains(&sample) {
                kind.samples.push(sample);
            }
        }
    }

    /// Whether a request would meet something else.
    pub(super) fn finds_differences(&self) -> bool {
        self.different > 0
    }

    /// All of it, the most frequent difference first.
    pub(super) fn to_json(&self) -> Value {
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_cached_key(|((before, after), kind)| {
            (u64::MAX - kind.count, before.to_string(), after.to_string())
        });
        let decision = |one: &RequestDecision<'_>| {
            json!({
                "site": one.site,
                "route": one.route,
                "outcome": one.outcome,
                "status": one.status,
                "pool": one.pool,
                "text": one.to_string(),
            })
        };
        let kinds = kinds.into_iter().map(|((before, after), kind)| {
            json!({
                "requests": kind.count,
                "before": decision(before),
                "after": decision(after),
                "samples": kind.samples,
            })
        });
        let first = self.unreadable.first.as_ref();
        json!({
            "requests": self.requests,
            "different": self.different,
            "connections": self.connections,
            "incomplete": self.incomplete,
            "unreadable": self.unreadable.count,
            "first_unreadable": first.map(|(file, line, why)| json!({ "file": file, "line": line, "why": why })),
            "differences": kinds.collect::<Vec<_>>(),
            "other_differences": self.beyond,
        })
    }
}

impl UnreadableLines {
    fn note(&mut self, path: &Path, number: u64, why: impl FnOnce() -> String) {
        self.count += 1;
        let first = || (path.display().to_string(), number, why());
        self.first.get_or_insert_with(first);
    }
}

/// The program that unpacks a file with these first bytes, if it is compressed.
fn compression(begins: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"BZh", "bzcat"),
        (b"\xfd7zXZ", "xzcat"),
    ];
    known
        .into_iter()
        .find_map(|(magic, tool)| begins.starts_with(magic).then_some(tool))
}
