//! TOML, read into a tree with the lines of its keys.

use std::path::Path;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::node::{MAX_DEPTH, TraefikMap, TraefikNode, TraefikValue, harmless};
use crate::{ImportError, Place};

struct TomlLines {
    file: Rc<Path>,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl TomlLines {
    fn place(&self, offset: usize) -> Place {
        Place {
            file: Rc::clone(&self.file),
            line: self.starts.partition_point(|start| *start <= offset).max(1),
        }
    }
}

/// The tree of a file.
pub(super) fn read(text: &str, path: &Path) -> Result<TraefikNode, ImportError> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    let lines = TomlLines {
        file: path.into(),
        starts: std::iter::once(0)
            .chain(ends.map(|(at, _)| at + 1))
            .collect(),
    };
    let table = DeTable::parse(text).map_err(|error| ImportError::Syntax {
        place: lines.place(error.span().map_or(0, |span| span.start)),
        reason: super::yaml::template(text)
            .unwrap_or_else(|| format!("this is not TOML: {}", error.message().replace('\n', " "))),
    })?;
    map(table.get_ref(), &lines, 0, 0)
}

fn map(
    table: &DeTable<'_>,
    lines: &TomlLines,
    start: usize,
    depth: usize,
) -> Result<TraefikNode, ImportError> {
    if depth > MAX_DEPTH {
        return Err(ImportError::Syntax {
            place: lines.place(start),
            reason: "the nesting is too deep".to_owned(),
        });
    }
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| (key.span().start, key.get_ref(), value))
        .collect();
    entries.sort_by_key(|(start, ..)| *start);
    let mut map = TraefikMap::default();
    for (start, key, value) in entries {
        map.insert(key.to_string(), node(value, lines, start, depth + 1)?);
    }
    Ok(TraefikNode::new(
        &lines.place(start),
        TraefikValue::Map(map),
    ))
}

fn node(
    value: &Spanned<DeValue<'_>>,
    lines: &TomlLines,
    start: usize,
    depth: usize,
) -> Result<TraefikNode, ImportError> {
    let value = match value.get_ref() {
        DeValue::Table(table) => return map(table, lines, start, depth),
        DeValue::Array(array) => {
            if depth > MAX_DEPTH {
                return Err(ImportError::Syntax {
                    place: lines.place(start),
                    reason: "the nesting is too deep".to_owned(),
                });
            }
            let items = array
                .iter()
                .map(|item| node(item, lines, item.span().start, depth + 1));
            TraefikValue::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::String(text) => TraefikValue::Text(harmless(text)),
        DeValue::Integer(number) => TraefikValue::Text(number.as_str().to_owned()),
        DeValue::Float(number) => TraefikValue::Text(number.as_str().to_owned()),
        DeValue::Boolean(flag) => TraefikValue::Text(flag.to_string()),
        DeValue::Datetime(time) => TraefikValue::Text(time.to_string()),
    };
    Ok(TraefikNode::new(&lines.place(start), value))
}
