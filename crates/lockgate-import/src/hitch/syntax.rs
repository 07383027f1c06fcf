//! The syntax of `hitch.conf`: `key = value`, where a value is a word, a quoted text or a block.

use std::path::Path;
use std::rc::Rc;

use crate::{ConversionReport, ImportError, Place, StatementId};

/// An option of hitch.
#[derive(Debug)]
pub(super) struct HitchOption {
    /// Its statement in the report.
    pub(super) statement: StatementId,
    /// Where it stands.
    pub(super) place: Place,
    /// Its name, in lower case.
    pub(super) key: String,
    /// Its value.
    pub(super) value: HitchValue,
}

/// The value of an option.
#[derive(Debug)]
pub(super) enum HitchValue {
    /// A word or a quoted text.
    Text(String),
    /// The options of a block.
    Block(Vec<HitchOption>),
}

/// The options of a file, each registered in the report.
pub(super) fn read(
    text: &str,
    path: &Path,
    report: &mut ConversionReport,
) -> Result<Vec<HitchOption>, ImportError> {
    let file: Rc<Path> = path.into();
    let mut options = Vec::new();
    // The option that a block belongs to; blocks do not nest.
    let mut open: Option<HitchOption> = None;
    for (index, whole) in text.lines().enumerate() {
        let place = Place {
            file: Rc::clone(&file),
            line: index + 1,
        };
        let error = |reason: &str| {
            Err(ImportError::Syntax {
                place: place.clone(),
                reason: reason.to_owned(),
            })
        };
        let mut rest = whole;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
            if rest.is_empty() || rest.starts_with('#') {
                break;
            }
            if let Some(after) = rest.strip_prefix('}') {
                match open.take() {
                    Some(block) => options.push(block),
                    None => return error("this brace closes no block"),
                }
                rest = after;
                continue;
            }
            let Some((key, after)) = rest.split_once('=') else {
                return error("an option is written as `name = value`");
            };
            let key = key.trim();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if key.is_empty() || !key.chars().all(is_name) {
                return error("an option is written as `name = value`");
            }
            let key = key.to_ascii_lowercase();
            let after = after.trim_start();
            if let Some(after) = after.strip_prefix('{') {
                if open.is_some() {
                    return error("a block stands in another one");
                }
                open = Some(HitchOption {
                    statement: report.add(place.clone(), &format!("{key} = {{")),
                    place: place.clone(),
                    key,
                    value: HitchValue::Block(Vec::new()),
                });
                rest = after;
                continue;
            }
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => match quoted.split_once('"') {
                    Some(parts) => parts,
                    None => return error("this quote has no end"),
                },
                None => {
                    let end = after.find(['#', ';', '}']).unwrap_or(after.len());
                    let (word, rest) = after.split_at(end);
                    (word.trim(), rest)
                }
            };
            let option = HitchOption {
                statement: report.add(place.clone(), &format!("{key} = {value}")),
                place: place.clone(),
                key,
                value: HitchValue::Text(value.to_owned()),
            };
            match open.as_mut().map(|block| &mut block.value) {
                Some(HitchValue::Block(inner)) => inner.push(option),
                _ => options.push(option),
            }
            rest = after;
        }
    }
    match open {
        Some(block) => Err(ImportError::Syntax {
            place: block.place,
            reason: "this block has no end".to_owned(),
        }),
        None => Ok(options),
    }
}
