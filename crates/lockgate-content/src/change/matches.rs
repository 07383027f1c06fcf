//! Texts and patterns in a stream, with results that do not depend on how it is cut.

use regex_automata::{Anchored, Input, PatternID};

use super::ChangeError;
use super::compiled::{Compiled, Matcher};
use super::escape::Escape;
use super::output::{ChangeOutput, put};
use crate::StepProgress;

/// The longest match, in bytes, that is found wherever it is.
pub const LONGEST_MATCH: usize = 8 * 1024;

/// The longest match, in bytes, of patterns that are searched for like texts, however many matches
/// there are: the cost of one search that fails.
pub(super) const SHORT_MATCH: usize = 512;

/// The step, in bytes, where matches may be long.
const TILE: u64 = LONGEST_MATCH as u64;

/// The reach of an assertion such as `\b` behind a match's end, and before its beginning: one
/// character of UTF-8.
const LOOK: usize = 4;

/// A match in the buffer.
struct TextMatch {
    begin: usize,
    end: usize,
    pattern: usize,
}

/// The part of the text that can be decided with the bytes so far.
struct SearchWindow {
    /// The latest end of a match.
    end: usize,
    /// The end of the bytes that assertions see.
    looked: usize,
    /// Matches that begin before this are decided.
    decided: usize,
}

impl Matcher {
    /// The window at the current position in `texts`.
    fn window(&self, texts: &Texts, ended: bool) -> Option<SearchWindow> {
        let (len, at) = (texts.buffer.len(), texts.at);
        let longest = match self {
            Self::Nothing => 1,
            Self::Texts { longest, .. } => *longest,
            Self::Patterns {
                longest: Some(longest),
                ..
            } => longest + LOOK,
            Self::Patterns { longest: None, .. } => return texts.tile(ended),
        };
        if ended {
            return (at < len).then_some(SearchWindow {
                end: len,
                looked: len,
                decided: len,
            });
        }
        // A match that begins before this has all its bytes in the buffer. The search waits for a
        // quarter of that, so that bytes which arrive one by one are not searched as often as a
        // match is long.
        let decided = (len + 1).saturating_sub(longest);
        let worth = decided > at && decided - at >= (longest / 4).max(1);
        worth.then_some(SearchWindow {
            end: len,
            looked: len,
            decided,
        })
    }

    fn find(&self, buffer: &[u8], at: usize, window: &SearchWindow) -> Option<TextMatch> {
        let buffer = &buffer[..window.looked];
        match self {
            Self::Nothing => None,
            Self::Texts { automaton, .. } => {
                let found =
                    automaton.find(aho_corasick::Input::new(buffer).range(at..window.end))?;
                Some(TextMatch {
                    begin: found.start(),
                    end: found.end(),
                    pattern: found.pattern().as_usize(),
                })
            }
            Self::Patterns { regex, .. } => {
                let found = regex.search(&Input::new(buffer).range(at..window.end))?;
                Some(TextMatch {
                    begin: found.start(),
                    end: found.end(),
                    pattern: found.pattern().as_usize(),
                })
            }
        }
    }

    /// Writes the replacement of a match.
    fn replace(
        &self,
        buffer: &[u8],
        found: &TextMatch,
        compiled: &Compiled,
        escape: Escape,
        out: &mut impl ChangeOutput,
    ) -> Result<(), ChangeError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Texts { inserts, .. } => put(
                &compiled.inserts[inserts[found.pattern]],
                Some(escape),
                |_| &[],
                out,
            ),
            Self::Patterns { regex, inserts, .. } => {
                let (insert, groups) = inserts[found.pattern];
                let pieces = &compiled.inserts[insert];
                if !groups {
                    return put(pieces, Some(escape), |_| &[], out);
                }
                // The same match again, now with its groups: a search for the ends alone costs
                // less.
                let mut captures = regex.create_captures();
                let anchored = Anchored::Pattern(PatternID::must(found.pattern));
                let input = Input::new(buffer)
                    .range(found.begin..found.end)
                    .anchored(anchored);
                regex.search_captures(&input, &mut captures);
                let group = |number| {
                    captures
                        .get_group(number)
                        .map_or(&[][..], |span| &buffer[span.range()])
                };
                put(pieces, Some(escape), group, out)
            }
        }
    }
}

/// The text in the buffer: pending bytes, and those that assertions look back at.
pub(super) struct Texts {
    buffer: Vec<u8>,
    /// The beginning of the pending bytes; assertions look back at those before it.
    at: usize,
    /// The position of the buffer's first byte in the text since the last edge.
    base: u64,
    /// The beginning of the next tile in that text, and the number of matches in this one.
    next_tile: u64,
    matches: usize,
    found: bool,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![],
            at: 0,
            base: 0,
            next_tile: TILE,
            matches: 0,
            found: false,
        }
    }

    /// Whether there was any match yet.
    pub(super) fn found(&self) -> bool {
        self.found
    }

    /// Appends text to the buffer's end.
    pub(super) fn feed(&mut self, text: &[u8]) {
        let gone = self.at.saturating_sub(LOOK);
        if gone >= LONGEST_MATCH || gone > 0 && self.buffer.len() == self.at {
            self.buffer.drain(..gone);
            self.at -= gone;
            self.base += gone as u64;
        }
        self.buffer.extend_from_slice(text);
    }

    /// Starts anew behind an edge: nothing before it is seen.
    pub(super) fn begin_anew(&mut self) {
        self.buffer.clear();
        self.at = 0;
        self.base = 0;
        self.next_tile = TILE;
        self.matches = 0;
    }

    /// The window where matches may be long: the text is taken in tiles, at the same places however
    /// it arrives. A match begins in one tile and ends in it or the next.
    ///
    /// A search for a match may look through both tiles and find a short one. To bound that cost,
    /// each match of a tile shortens how far the next search in it looks.
    fn tile(&self, ended: bool) -> Option<SearchWindow> {
        let (len, at) = (self.buffer.len(), self.at);
        let next = usize::try_from(self.next_tile - self.base).unwrap_or(usize::MAX);
        if at >= len || !ended && len < next + LONGEST_MATCH + LOOK {
            return None;
        }
        let reach = (2 * LONGEST_MATCH / (1 + self.matches)).max(SHORT_MATCH);
        let end = (next + LONGEST_MATCH).min(at + reach).min(len);
        Some(SearchWindow {
            end,
            looked: (end + LOOK).min(len),
            decided: next.min(at + reach / 2).min(len),
        })
    }

    /// Moves on to `at`: the bytes before it are decided.
    fn move_to(&mut self, at: usize) {
        self.at = at;
        let place = self.base + at as u64;
        if place >= self.next_tile {
            self.next_tile = (place / TILE + 1) * TILE;
            self.matches = 0;
        }
    }

    /// Writes the decided part, and the rest if the text has ended.
    pub(super) fn advance(
        &mut self,
        compiled: &Compiled,
        escape: Escape,
        ended: bool,
        out: &mut impl ChangeOutput,
    ) -> Result<StepProgress, ChangeError> {
        let matcher = &compiled.matcher;
        while let Some(window) = matcher.window(self, ended) {
            if out.is_full() {
                return Ok(StepProgress::Full);
            }
            let found = matcher.find(&self.buffer, self.at, &window);
            let Some(found) = found.filter(|found| found.begin < window.decided) else {
                out.text(&self.buffer[self.at..window.decided])?;
                self.move_to(window.decided);
                continue;
            };
            if found.begin > self.at {
                out.text(&self.buffer[self.at..found.begin])?;
            }
            matcher.replace(&self.buffer[..window.looked], &found, compiled, escape, out)?;
            self.found = true;
            self.matches += 1;
            self.move_to(found.end);
        }
        Ok(if out.is_full() {
            StepProgress::Full
        } else {
            StepProgress::Done
        })
    }
}
