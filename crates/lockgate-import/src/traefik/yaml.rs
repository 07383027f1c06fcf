//! YAML, read as events into a tree of bounded depth and size.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::node::{MAX_DEPTH, TraefikMap, TraefikNode, TraefikValue, harmless};
use crate::{ConversionReport, ImportError, Place};

/// How many nodes aliases may add.
const MAX_ALIASED: usize = 50_000;

/// A list or a map that is being read.
struct YamlFrame {
    anchor: usize,
    place: Place,
    list: Option<Vec<TraefikNode>>,
    map: TraefikMap,
    key: Option<(String, Place)>,
}

/// The tree of the first documents of a file, merged.
pub(super) fn read(
    text: &str,
    path: &Path,
    report: &mut ConversionReport,
) -> Result<TraefikNode, ImportError> {
    let file: Rc<Path> = path.into();
    let place = |line: usize| Place {
        file: Rc::clone(&file),
        line: line.max(1),
    };
    let mut root = TraefikNode::new(&place(1), TraefikValue::Map(TraefikMap::default()));
    let mut stack: Vec<YamlFrame> = Vec::new();
    let mut anchors: HashMap<usize, (TraefikNode, usize)> = HashMap::new();
    let mut aliased = 0_usize;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| ImportError::Syntax {
            place: place(error.marker().line()),
            reason: template(text).unwrap_or_else(|| format!("this is not YAML: {}", error.info())),
        })?;
        let here = place(span.start.line());
        let node = match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = match text.as_ref() {
                    "" | "~" | "null" if style == ScalarStyle::Plain => TraefikValue::Empty,
                    text => TraefikValue::Text(harmless(text)),
                };
                let node = TraefikNode::new(&here, value);
                if anchor > 0 {
                    anchors.insert(anchor, (node.clone(), 1));
                }
                node
            }
            Event::Alias(anchor) => match anchors.get(&anchor) {
                Some((node, size)) => {
                    aliased += size;
                    if aliased > MAX_ALIASED {
                        return Err(syntax(here, "the aliases stand for too many values"));
                    }
                    node.clone()
                }
                None => return Err(syntax(here, "this alias has no anchor before it")),
            },
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                if stack.len() >= MAX_DEPTH {
                    return Err(syntax(here, "the nesting is too deep"));
                }
                let list = matches!(event, Event::SequenceStart(..)).then(Vec::new);
                stack.push(YamlFrame {
                    anchor,
                    place: here,
                    list,
                    map: TraefikMap::default(),
                    key: None,
                });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = stack.pop() else { continue };
                let value = match frame.list {
                    Some(list) => TraefikValue::List(list),
                    None => TraefikValue::Map(frame.map),
                };
                let node = TraefikNode::new(&frame.place, value);
                if frame.anchor > 0 {
                    let size = size(&node);
                    anchors.insert(frame.anchor, (node.clone(), size));
                }
                node
            }
            _ => continue,
        };
        let Some(frame) = stack.last_mut() else {
            if node.is_map() {
                root.merge(node, report);
            }
            continue;
        };
        if let Some(list) = &mut frame.list {
            list.push(node);
            continue;
        }
        match frame.key.take() {
            None => match node.value {
                TraefikValue::Text(key) => frame.key = Some((key, node.place)),
                _ => frame.key = Some((String::new(), node.place)),
            },
            Some((key, _)) if key == "<<" => {
                let parts = match node.value {
                    TraefikValue::List(list) => list,
                    _ => vec![node],
                };
                for part in parts {
                    if let TraefikValue::Map(map) = part.value {
                        for (name, node) in map.iter() {
                            frame.map.insert(name.to_owned(), node.clone());
                        }
                    }
                }
            }
            // The line of the key is that of the statement.
            Some((key, place)) => frame.map.insert(key, TraefikNode { place, ..node }),
        }
    }
    Ok(root)
}

fn size(node: &TraefikNode) -> usize {
    1 + match &node.value {
        TraefikValue::List(list) => list.iter().map(size).sum(),
        TraefikValue::Map(map) => map.iter().map(|(_, node)| size(node)).sum(),
        _ => 0,
    }
}

fn syntax(place: Place, reason: &str) -> ImportError {
    ImportError::Syntax {
        place,
        reason: reason.to_owned(),
    }
}

/// What to say of a file that a template engine fills in.
pub(super) fn template(text: &str) -> Option<String> {
    (text.contains("{{") || text.contains("{%"))
        .then(|| "this file is a template: import what the template makes of it".to_owned())
}
