//! Elements in streamed HTML, found by selectors.
//!
//! `lol_html` writes no replacement itself: at each insertion it calls us, and we note the
//! position. So an insertion is never confused with the document, and it may be a value that is not
//! known yet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lol_html::html_content::{
    ContentType, Element, StreamingHandler, StreamingHandlerSink, UserData,
};
use lol_html::{
    AsciiCompatibleEncoding, ElementContentHandlers, HandlerResult, HtmlRewriter, MemorySettings,
    OutputSink, Settings,
};

use super::ChangeError;
use super::compiled::{Compiled, Operation};

/// The memory limit of a document's unfinished tags and open elements, in bytes. Long tags are
/// those with inline images.
pub const LONGEST_TAG: usize = 4 << 20;

/// The longest piece of text that is given at once.
const STEP: usize = 16 * 1024;

/// The next part of the document.
pub(super) enum HtmlEvent<'a> {
    Text(&'a [u8]),
    /// The insertion of a replacement, with its values or without.
    PutIn {
        insert: usize,
        values: bool,
    },
}

/// A document on its way through the selectors.
pub(super) struct Html {
    /// None at the end of the document.
    rewriter: Option<Box<HtmlRewriter<'static, Tape>>>,
    tape: Tape,
    /// The part that was read from the tape, and the position in it.
    read: TapeRecord,
    text_at: usize,
    mark_at: usize,
}

/// The record of lol_html's sink and of our handlers, in the order of the document. Handlers must
/// be `Send`, hence the lock; it is never contended.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<TapeRecord>>);

#[derive(Default)]
struct TapeRecord {
    text: Vec<u8>,
    marks: Vec<TapeMark>,
}

struct TapeMark {
    /// The position in the text.
    at: usize,
    insert: usize,
    values: bool,
}

impl Tape {
    fn record(&self) -> MutexGuard<'_, TapeRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, insert: usize, values: bool) {
        let mut record = self.record();
        let at = record.text.len();
        record.marks.push(TapeMark { at, insert, values });
    }

    /// A handler that lol_html calls at the place of the insertion.
    fn marker(&self, insert: usize, values: bool) -> Box<dyn StreamingHandler + Send + 'static> {
        let tape = self.clone();
        Box::new(move |_: &mut StreamingHandlerSink<'_>| {
            tape.mark(insert, values);
            Ok(())
        })
    }
}

impl OutputSink for Tape {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.record().text.extend_from_slice(chunk);
    }
}

impl Html {
    pub(super) fn new(compiled: &Compiled) -> Self {
        let tape = Tape::default();
        // A byte is a character here in any coding: so none is lost or changed, and a coding that
        // has ASCII in it is read alike. Selectors are compiled for this.
        let encoding =
            AsciiCompatibleEncoding::new(encoding_rs::WINDOWS_1252).expect("it has ASCII in it");
        let memory = MemorySettings::new().with_max_allowed_memory_usage(LONGEST_TAG);
        // Not strict: in markup that browsers and lol_html might read differently, continuing beats
        // a broken response. Insertions are the configuration's own, or escaped.
        let mut settings = Settings::new()
            .with_encoding(encoding)
            .with_memory_settings(memory)
            .with_strict(false);
        for select in &compiled.selects {
            let (operation, tape) = (select.operation.clone(), tape.clone());
            let handler = ElementContentHandlers::default()
                .element(move |element: &mut Element<'_, '_>| apply(&operation, element, &tape));
            settings = settings.append_element_content_handler((
                std::borrow::Cow::Owned(select.selector.clone()),
                handler,
            ));
        }
        let rewriter = Box::new(HtmlRewriter::new(settings, tape.clone()));
        Self {
            rewriter: Some(rewriter),
            tape,
            read: TapeRecord::default(),
            text_at: 0,
            mark_at: 0,
        }
    }

    pub(super) fn write(&mut self, input: &[u8]) -> Result<(), ChangeError> {
        let Some(rewriter) = &mut self.rewriter else {
            return Ok(());
        };
        rewriter.write(input).map_err(|_| ChangeError::TagTooLong)
    }

    /// Ends the document. Further calls do nothing.
    pub(super) fn end(&mut self) -> Result<(), ChangeError> {
        let Some(rewriter) = self.rewriter.take() else {
            return Ok(());
        };
        rewriter.end().map_err(|_| ChangeError::TagTooLong)
    }

    /// The next event, if there is one yet.
    pub(super) fn next(&mut self) -> Option<HtmlEvent<'_>> {
        if self.text_at == self.read.text.len() && self.mark_at == self.read.marks.len() {
            self.read.text.clear();
            self.read.marks.clear();
            (self.text_at, self.mark_at) = (0, 0);
            std::mem::swap(&mut self.read, &mut *self.tape.record());
        }
        let mark = self.read.marks.get(self.mark_at);
        let until = mark.map_or(self.read.text.len(), |mark| mark.at);
        if self.text_at < until {
            let begin = self.text_at;
            self.text_at = until.min(begin + STEP);
            return Some(HtmlEvent::Text(&self.read.text[begin..self.text_at]));
        }
        let mark = mark?;
        self.mark_at += 1;
        Some(HtmlEvent::PutIn {
            insert: mark.insert,
            values: mark.values,
        })
    }
}

/// The result of earlier rules for an element.
enum Fate {
    /// Its start tag is rewritten by us.
    Rewritten(Arc<Mutex<StartTag>>),
    /// It is removed: later rules do nothing.
    Gone,
}

/// A start tag that we write: lol_html could not leave placeholders for values in it.
struct StartTag {
    name: String,
    attributes: Vec<(String, AttributeValue)>,
    self_closing: bool,
    /// Whether an attribute was removed.
    unset: Option<usize>,
}

enum AttributeValue {
    /// The value in the document, without quotes.
    Document(String),
    Insert(usize),
}

fn apply(operation: &Operation, element: &mut Element<'_, '_>, tape: &Tape) -> HandlerResult {
    if matches!(element.user_data().downcast_ref(), Some(Fate::Gone)) {
        return Ok(());
    }
    // No escaping makes a value harmless there.
    let inside = !matches!(&*element.tag_name(), "script" | "style");
    match *operation {
        Operation::Before(insert) => element.streaming_before(tape.marker(insert, true)),
        Operation::After(insert) => element.streaming_after(tape.marker(insert, true)),
        Operation::Prepend(insert) => element.streaming_prepend(tape.marker(insert, inside)),
        Operation::Append(insert) => element.streaming_append(tape.marker(insert, inside)),
        Operation::Inner(insert) => {
            element.streaming_set_inner_content(tape.marker(insert, inside))
        }
        Operation::Replace(insert) => {
            element.streaming_replace(tape.marker(insert, true));
            element.set_user_data(Fate::Gone);
        }
        Operation::Set { ref name, insert } => set(element, name, insert, tape),
        Operation::Unset { ref name, insert } => unset(element, name, insert, tape),
    }
    Ok(())
}

fn set(element: &mut Element<'_, '_>, name: &str, insert: usize, tape: &Tape) {
    let tag = start_tag(element, tape);
    let mut tag = tag.lock().unwrap_or_else(PoisonError::into_inner);
    match tag
        .attributes
        .iter_mut()
        .find(|(other, _)| other.eq_ignore_ascii_case(name))
    {
        Some((_, value)) => *value = AttributeValue::Insert(insert),
        None => tag
            .attributes
            .push((name.to_owned(), AttributeValue::Insert(insert))),
    }
}

fn unset(element: &mut Element<'_, '_>, name: &str, insert: usize, tape: &Tape) {
    let rewritten = matches!(element.user_data().downcast_ref(), Some(Fate::Rewritten(_)));
    if !rewritten && !element.has_attribute(name) {
        return;
    }
    let tag = start_tag(element, tape);
    let mut tag = tag.lock().unwrap_or_else(PoisonError::into_inner);
    tag.attributes
        .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    tag.unset = Some(insert);
}

/// The start tag that we write in place of lol_html's.
fn start_tag(element: &mut Element<'_, '_>, tape: &Tape) -> Arc<Mutex<StartTag>> {
    if let Some(Fate::Rewritten(tag)) = element.user_data().downcast_ref() {
        return Arc::clone(tag);
    }
    let attributes = element.attributes().iter();
    let attributes = attributes
        .map(|one| {
            (
                one.name_preserve_case(),
                AttributeValue::Document(one.value()),
            )
        })
        .collect();
    let name = element.tag_name_preserve_case();
    let self_closing = element.is_self_closing();
    let tag = Arc::new(Mutex::new(StartTag {
        name,
        attributes,
        self_closing,
        unset: None,
    }));
    let (written, tape) = (Arc::clone(&tag), tape.clone());
    element
        .start_tag()
        .streaming_replace(Box::new(move |sink: &mut StreamingHandlerSink<'_>| {
            written
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write(sink, &tape);
            Ok(())
        }));
    element.set_user_data(Fate::Rewritten(Arc::clone(&tag)));
    tag
}

impl StartTag {
    fn write(&self, sink: &mut StreamingHandlerSink<'_>, tape: &Tape) {
        let mut text = |text: &str| sink.write_str(text, ContentType::Html);
        text("<");
        text(&self.name);
        for (name, value) in &self.attributes {
            text(" ");
            text(name);
            text("=\"");
            match value {
                AttributeValue::Document(value) => text(&value.replace('"', "&quot;")),
                AttributeValue::Insert(insert) => tape.mark(*insert, true),
            }
            text("\"");
        }
        if let Some(insert) = self.unset {
            tape.mark(insert, true);
        }
        text(if self.self_closing { " />" } else { ">" });
    }
}
