//! A whole document with all changes made and placeholders for values: one text and a few marks in
//! it.

use std::borrow::Cow;

use super::changer::Machine;
use super::escape::Escape;
use super::output::ChangeOutput;
use super::{ChangeError, Changes, DocumentKind};
use crate::StepProgress;

/// A changed document with placeholders for values. Built once per document, filled in for each
/// request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePlan {
    /// The text that all requests share.
    text: Box<[u8]>,
    marks: Box<[PlaceholderMark]>,
    /// The values with their escapes: a value that is escaped in two ways has two slots.
    slots: Box<[ValueSlot]>,
    changed: bool,
}

/// A placeholder for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PlaceholderMark {
    /// The position in the text.
    at: u32,
    slot: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ValueSlot {
    number: usize,
    escape: Escape,
    /// The number of marks with this slot.
    uses: u64,
}

impl ChangePlan {
    /// Applies `changes` to `content`. Takes the time of one pass; for large files, call it from
    /// another thread than a worker's.
    ///
    /// # Errors
    /// [`ChangeError::TooLong`] if the plan would take more than `max` bytes of memory, which
    /// counts text and marks and is at most 4 GB; [`ChangeError::TagTooLong`].
    pub fn new(
        changes: &Changes,
        document: DocumentKind,
        content: &[u8],
        max: usize,
    ) -> Result<Self, ChangeError> {
        let mut machine = Machine::new(changes, document);
        let max = max.min(u32::MAX as usize);
        let mut draft = PlanDraft {
            text: Vec::with_capacity(content.len().min(max)),
            marks: vec![],
            slots: vec![],
            max,
        };
        let mut input = content;
        while machine.step(&mut input, &mut draft)? == StepProgress::Full {}
        while machine.finish(&mut draft)? == StepProgress::Full {}
        Ok(Self {
            text: draft.text.into(),
            marks: draft.marks.into(),
            slots: draft.slots.into(),
            changed: machine.changed(),
        })
    }

    /// Whether any rule has matched. If not, the document is unchanged and can be sent as it is.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Whether the document is the same for every request: it has no placeholders.
    pub fn is_fixed(&self) -> bool {
        self.marks.is_empty()
    }

    /// The text that all requests share; [`FilledPlan`] lends parts of it.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The memory of the plan, in bytes.
    pub fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.marks) + size_of_val(&*self.slots) + size_of::<Self>()
    }

    /// The numbers of the values in it, unordered; a number may occur twice.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().map(|slot| slot.number)
    }

    /// The document of one request. A missing value is empty.
    pub fn fill<'a>(&'a self, values: &[&'a [u8]]) -> FilledPlan<'a> {
        let value = |slot: &ValueSlot| {
            slot.escape
                .apply(values.get(slot.number).copied().unwrap_or_default())
        };
        FilledPlan {
            plan: self,
            values: self.slots.iter().map(value).collect(),
        }
    }
}

/// The document of one request: pieces of text and values in turn.
#[derive(Debug, Clone)]
pub struct FilledPlan<'a> {
    plan: &'a ChangePlan,
    values: Vec<Cow<'a, [u8]>>,
}

impl FilledPlan<'_> {
    /// The length of the document: Content-Length.
    pub fn length(&self) -> u64 {
        let values = self.plan.slots.iter().zip(&self.values);
        let values: u64 = values
            .map(|(slot, value)| slot.uses.saturating_mul(value.len() as u64))
            .sum();
        self.plan.text.len() as u64 + values
    }

    /// The number of pieces: one more than twice the placeholders.
    pub fn count(&self) -> usize {
        2 * self.plan.marks.len() + 1
    }

    /// The piece of this number, which may be empty; none behind the last one. It is lent, so that
    /// it can be sent without a copy, in any number of calls.
    pub fn piece(&self, number: usize) -> Option<&[u8]> {
        let (marks, half) = (&self.plan.marks, number / 2);
        if number % 2 == 1 {
            return marks
                .get(half)
                .map(|mark| &*self.values[mark.slot as usize]);
        }
        let begin = if half == 0 {
            0
        } else {
            marks.get(half - 1)?.at as usize
        };
        let end = marks
            .get(half)
            .map_or(self.plan.text.len(), |mark| mark.at as usize);
        Some(&self.plan.text[begin..end])
    }

    /// All pieces in order, without the empty ones.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count())
            .filter_map(|number| self.piece(number))
            .filter(|piece| !piece.is_empty())
    }

    /// Appends the whole document, for readers that need one piece, such as an encoder.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        out.reserve(usize::try_from(self.length()).unwrap_or(0));
        for piece in self.pieces() {
            out.extend_from_slice(piece);
        }
    }
}

/// A plan in the making.
struct PlanDraft {
    text: Vec<u8>,
    marks: Vec<PlaceholderMark>,
    slots: Vec<ValueSlot>,
    max: usize,
}

impl PlanDraft {
    fn room_for(&self, more: usize) -> Result<(), ChangeError> {
        let size = self.text.len() + size_of_val(&*self.marks) + more;
        if size > self.max {
            Err(ChangeError::TooLong)
        } else {
            Ok(())
        }
    }
}

impl ChangeOutput for PlanDraft {
    fn text(&mut self, text: &[u8]) -> Result<(), ChangeError> {
        self.room_for(text.len())?;
        self.text.extend_from_slice(text);
        Ok(())
    }

    fn value(&mut self, number: usize, escape: Escape) -> Result<(), ChangeError> {
        self.room_for(size_of::<PlaceholderMark>())?;
        let same = |slot: &ValueSlot| slot.number == number && slot.escape == escape;
        let slot = self.slots.iter().position(same).unwrap_or_else(|| {
            self.slots.push(ValueSlot {
                number,
                escape,
                uses: 0,
            });
            self.slots.len() - 1
        });
        self.slots[slot].uses += 1;
        self.marks.push(PlaceholderMark {
            at: self.text.len() as u32,
            slot: slot as u32,
        });
        Ok(())
    }

    fn is_full(&self) -> bool {
        false
    }
}
