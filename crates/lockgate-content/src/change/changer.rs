//! Changes of a document in a stream, piece by piece.

use super::compile::Changes;
use super::compiled::Compiled;
use super::escape::Escape;
use super::html::{Html, HtmlEvent};
use super::matches::Texts;
use super::output::{ChangeOutput, put};
use super::{ChangeError, DocumentKind};
use crate::StepProgress;
use std::sync::Arc;

/// The most input of one step, in bytes.
const STEP: usize = 16 * 1024;

/// Changes a document while it streams.
///
/// The output does not depend on how the input is cut. The changer holds back what may be the
/// beginning of a match: up to the length of the longest text, up to three times
/// [`LONGEST_MATCH`](super::LONGEST_MATCH) with patterns of no bounded length, and unfinished tags.
/// Memory: that, a copy of the values, and up to [`LONGEST_TAG`](super::LONGEST_TAG).
pub struct Changer {
    machine: Machine,
    values: Vec<Box<[u8]>>,
    written: Vec<EscapedValue>,
    left: u64,
}

/// A value in its escaped forms.
struct EscapedValue {
    number: usize,
    escape: Escape,
    text: Box<[u8]>,
}

impl Changer {
    /// A changer for one document with at most `max` bytes of output. A missing value is empty.
    pub fn new(changes: &Changes, document: DocumentKind, values: &[&[u8]], max: u64) -> Self {
        let values = values.iter().map(|value| Box::from(*value)).collect();
        Self {
            machine: Machine::new(changes, document),
            values,
            written: vec![],
            left: max,
        }
    }

    /// Takes bytes from the front of `input`, which is shortened by them, and appends the output
    /// that is ready to `out`: about `room` bytes at most, which is more than 0. A step ends with
    /// the piece that has used the room up, so `out` can get 32 KB of the document more, or one
    /// text or value.
    ///
    /// # Errors
    /// [`ChangeError`]. The changer cannot be used afterwards: the document cannot be completed.
    pub fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<StepProgress, ChangeError> {
        let (machine, mut sink) = self.parts(out, room);
        machine.step(input, &mut sink)
    }

    /// As [`step`](Self::step), at the end of the input. The output is complete with
    /// [`StepProgress::Done`].
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn finish(&mut self, out: &mut Vec<u8>, room: usize) -> Result<StepProgress, ChangeError> {
        let (machine, mut sink) = self.parts(out, room);
        machine.finish(&mut sink)
    }

    fn parts<'a>(
        &'a mut self,
        out: &'a mut Vec<u8>,
        room: usize,
    ) -> (&'a mut Machine, ChangerOutput<'a>) {
        let full = out.len().saturating_add(room);
        let sink = ChangerOutput {
            values: &self.values,
            written: &mut self.written,
            left: &mut self.left,
            full,
            out,
        };
        (&mut self.machine, sink)
    }
}

/// The output of a changer.
struct ChangerOutput<'a> {
    values: &'a [Box<[u8]>],
    written: &'a mut Vec<EscapedValue>,
    left: &'a mut u64,
    full: usize,
    out: &'a mut Vec<u8>,
}

fn count(left: &mut u64, len: usize) -> Result<(), ChangeError> {
    *left = left.checked_sub(len as u64).ok_or(ChangeError::TooLong)?;
    Ok(())
}

impl ChangeOutput for ChangerOutput<'_> {
    fn text(&mut self, text: &[u8]) -> Result<(), ChangeError> {
        count(self.left, text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn value(&mut self, number: usize, escape: Escape) -> Result<(), ChangeError> {
        let Some(value) = self.values.get(number) else {
            return Ok(());
        };
        if escape == Escape::None {
            count(self.left, value.len())?;
            self.out.extend_from_slice(value);
            return Ok(());
        }
        let same = |written: &EscapedValue| written.number == number && written.escape == escape;
        let at = self.written.iter().position(same).unwrap_or_else(|| {
            self.written.push(EscapedValue {
                number,
                escape,
                text: escape.apply(value).into(),
            });
            self.written.len() - 1
        });
        let text = &self.written[at].text;
        count(self.left, text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.out.len() >= self.full
    }
}

/// Both steps of all changes, for any output.
pub(super) struct Machine {
    compiled: Arc<Compiled>,
    escape: Escape,
    html: Option<Html>,
    texts: Texts,
    state: State,
    changed: bool,
}

/// The next work before more input is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// None: more input is taken.
    Running,
    /// The insertion of a replacement by a selector: the text before it ends.
    PutIn { insert: usize, values: bool },
    /// The end of the input.
    Ending,
    /// All output has been written.
    Over,
}

impl Machine {
    pub(super) fn new(changes: &Changes, document: DocumentKind) -> Self {
        let compiled = changes.compiled();
        let html = (document == DocumentKind::Html && !compiled.selects.is_empty())
            .then(|| Html::new(&compiled));
        let escape = Escape::of(document);
        Self {
            compiled,
            escape,
            html,
            texts: Texts::new(),
            state: State::Running,
            changed: false,
        }
    }

    /// Whether there was any match yet.
    pub(super) fn changed(&self) -> bool {
        self.changed || self.texts.found()
    }

    pub(super) fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut impl ChangeOutput,
    ) -> Result<StepProgress, ChangeError> {
        loop {
            if self.drain(out)? == StepProgress::Full {
                return Ok(StepProgress::Full);
            }
            if input.is_empty() {
                return Ok(StepProgress::Done);
            }
            let (now, later) = input.split_at(input.len().min(STEP));
            *input = later;
            match &mut self.html {
                Some(html) => html.write(now)?,
                None => self.texts.feed(now),
            }
        }
    }

    pub(super) fn finish(
        &mut self,
        out: &mut impl ChangeOutput,
    ) -> Result<StepProgress, ChangeError> {
        if self.drain(out)? == StepProgress::Full {
            return Ok(StepProgress::Full);
        }
        if let Some(html) = &mut self.html {
            html.end()?;
            if self.drain(out)? == StepProgress::Full {
                return Ok(StepProgress::Full);
            }
        }
        if self.state == State::Running {
            self.state = State::Ending;
        }
        self.drain(out)
    }

    /// Writes all output that is ready.
    fn drain(&mut self, out: &mut impl ChangeOutput) -> Result<StepProgress, ChangeError> {
        loop {
            let ended = matches!(self.state, State::PutIn { .. } | State::Ending);
            if self
                .texts
                .advance(&self.compiled, self.escape, ended, out)?
                == StepProgress::Full
            {
                return Ok(StepProgress::Full);
            }
            match self.state {
                State::PutIn { insert, values } => {
                    self.texts.begin_anew();
                    let escape = values.then_some(self.escape);
                    put(&self.compiled.inserts[insert], escape, |_| &[], out)?;
                    self.state = State::Running;
                    continue;
                }
                State::Ending => self.state = State::Over,
                State::Running | State::Over => {}
            }
            match self.html.as_mut().and_then(Html::next) {
                Some(HtmlEvent::Text(text)) => self.texts.feed(text),
                Some(HtmlEvent::PutIn { insert, values }) => {
                    self.changed = true;
                    self.state = State::PutIn { insert, values };
                }
                None => return Ok(StepProgress::Done),
            }
        }
    }
}
