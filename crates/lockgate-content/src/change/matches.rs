//! Texts and patterns found in what streams by, with results that do not depend on how it is cut.

use aho_corasick::AhoCorasick;
use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input, PatternID};

use super::ChangeError;
use super::compile::Compiled;
use super::escape::Escape;
use super::output::{Output, put};
use crate::Progress;

/// Matches of up to so many bytes are found wherever they stand.
pub const LONGEST_MATCH: usize = 8 * 1024;

/// How far an assertion such as `\b` looks behind a match's end, and before its beginning: one character of UTF-8.
const LOOK: usize = 4;

/// What is searched for.
pub(super) enum Matcher {
    /// Nothing: everything goes through.
    Nothing,
    /// Texts only; of those that begin at the same place the first one wins.
    Texts { automaton: AhoCorasick, longest: usize, inserts: Vec<usize> },
    /// Patterns, and texts among them as patterns.
    Patterns {
        regex: Box<Regex>,
        /// How long a match can be, if no longer than [`LONGEST_MATCH`].
        longest: Option<usize>,
        /// By pattern: the replacement, and whether it has groups in it.
        inserts: Vec<(usize, bool)>,
    },
}

/// A match in the buffer.
struct Found {
    begin: usize,
    end: usize,
    pattern: usize,
}

/// What can be decided with what has come so far.
struct Window {
    /// Matches end here at the latest.
    end: usize,
    /// Assertions look this far.
    looked: usize,
    /// Whether there is a match that begins before this is certain.
    decided: usize,
}

impl Matcher {
    /// What can be decided about `buffer` from `at` on. `base` is the place of `buffer`'s first byte in its text.
    fn window(&self, len: usize, at: usize, base: u64, ended: bool) -> Option<Window> {
        let longest = match self {
            Self::Nothing => 1,
            Self::Texts { longest, .. } => *longest,
            Self::Patterns { longest: Some(longest), .. } => longest + LOOK,
            Self::Patterns { longest: None, .. } => return tile(len, at, base, ended),
        };
        if ended {
            return (at < len).then_some(Window { end: len, looked: len, decided: len });
        }
        // A match that begins before this has all its bytes here. It waits for a quarter of that to come, so that bytes
        // which come one by one are not searched as often as a match is long.
        let decided = (len + 1).saturating_sub(longest);
        let worth = decided > at && decided - at >= (longest / 4).max(1);
        worth.then_some(Window { end: len, looked: len, decided })
    }

    fn find(&self, buffer: &[u8], at: usize, window: &Window) -> Option<Found> {
        let buffer = &buffer[..window.looked];
        match self {
            Self::Nothing => None,
            Self::Texts { automaton, .. } => {
                let found = automaton.find(aho_corasick::Input::new(buffer).range(at..window.end))?;
                Some(Found { begin: found.start(), end: found.end(), pattern: found.pattern().as_usize() })
            }
            Self::Patterns { regex, .. } => {
                let found = regex.search(&Input::new(buffer).range(at..window.end))?;
                Some(Found { begin: found.start(), end: found.end(), pattern: found.pattern().as_usize() })
            }
        }
    }

    /// Gives what takes the match's place.
    fn replace(
        &self,
        buffer: &[u8],
        found: &Found,
        compiled: &Compiled,
        escape: Escape,
        out: &mut impl Output,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Texts { inserts, .. } => {
                put(&compiled.inserts[inserts[found.pattern]], Some(escape), |_| &[], out)
            }
            Self::Patterns { regex, inserts, .. } => {
                let (insert, groups) = inserts[found.pattern];
                let pieces = &compiled.inserts[insert];
                if !groups {
                    return put(pieces, Some(escape), |_| &[], out);
                }
                // The same match again, now with its groups: what is left out in a search for its ends costs less.
                let mut captures = regex.create_captures();
                let anchored = Anchored::Pattern(PatternID::must(found.pattern));
                let input = Input::new(buffer).range(found.begin..found.end).anchored(anchored);
                regex.search_captures(&input, &mut captures);
                let group = |number| captures.get_group(number).map_or(&[][..], |span| &buffer[span.range()]);
                put(pieces, Some(escape), group, out)
            }
        }
    }
}

/// Where matches may be of any length, the text is taken in tiles of [`LONGEST_MATCH`] bytes, at the same places however it
/// arrives: a match begins in one and ends in it or the next.
fn tile(len: usize, at: usize, base: u64, ended: bool) -> Option<Window> {
    const TILE: u64 = LONGEST_MATCH as u64;
    let next = ((base + at as u64) / TILE + 1) * TILE;
    // In the buffer again: at most a tile behind `at`.
    let next = usize::try_from(next - base).unwrap_or(usize::MAX);
    let (end, looked) = (next + LONGEST_MATCH, next + LONGEST_MATCH + LOOK);
    if len >= looked {
        Some(Window { end, looked, decided: next })
    } else if ended && at < len {
        Some(Window { end: end.min(len), looked: len, decided: next.min(len) })
    } else {
        None
    }
}

/// Text on its way through, and what is held back of it.
pub(super) struct Texts {
    buffer: Vec<u8>,
    /// What has not gone out begins here; before it is what assertions look back at.
    at: usize,
    /// The place of the buffer's first byte in the text since the last edge.
    base: u64,
    found: bool,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self { buffer: vec![], at: 0, base: 0, found: false }
    }

    /// Whether anything was found yet.
    pub(super) fn found(&self) -> bool {
        self.found
    }

    /// Takes more text.
    pub(super) fn feed(&mut self, text: &[u8]) {
        let gone = self.at.saturating_sub(LOOK);
        if gone >= LONGEST_MATCH || gone > 0 && self.buffer.len() == self.at {
            self.buffer.drain(..gone);
            self.at -= gone;
            self.base += gone as u64;
        }
        self.buffer.extend_from_slice(text);
    }

    /// Behind an edge: nothing is before what comes.
    pub(super) fn begin_anew(&mut self) {
        self.buffer.clear();
        self.at = 0;
        self.base = 0;
    }

    /// Gives what is decided, and all of it if the text has ended.
    pub(super) fn advance(
        &mut self,
        compiled: &Compiled,
        escape: Escape,
        ended: bool,
        out: &mut impl Output,
    ) -> Result<Progress, ChangeError> {
        let matcher = &compiled.matcher;
        while let Some(window) = matcher.window(self.buffer.len(), self.at, self.base, ended) {
            // One look for how far there is certainty, many matches.
            while self.at < window.decided {
                if out.is_full() {
                    return Ok(Progress::Full);
                }
                let found = matcher.find(&self.buffer, self.at, &window);
                let Some(found) = found.filter(|found| found.begin < window.decided) else {
                    out.text(&self.buffer[self.at..window.decided])?;
                    self.at = window.decided;
                    break;
                };
                if found.begin > self.at {
                    out.text(&self.buffer[self.at..found.begin])?;
                }
                let looked = &self.buffer[..window.looked];
                matcher.replace(looked, &found, compiled, escape, out)?;
                self.at = found.end;
                self.found = true;
            }
        }
        Ok(if out.is_full() { Progress::Full } else { Progress::Done })
    }
}
