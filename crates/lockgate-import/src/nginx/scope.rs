//! The levels of nginx (http, server, location), what a level inherits, and constant variables.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::syntax::NginxDirective;
use crate::{ConversionReport, Verdict};

/// The most `set` and `if` on a level that are looked through for a variable.
const MOST_SETS: usize = 500;

/// The directives of one level, by name.
pub(super) type NginxLevel<'a> = Rc<HashMap<&'a str, Vec<&'a NginxDirective>>>;

/// The levels from http to a location.
#[derive(Clone)]
pub(super) struct NginxScope<'a> {
    pub(super) levels: Vec<NginxLevel<'a>>,
}

/// The verdicts, which every part of the import adds to.
pub(super) struct NginxVerdicts {
    pub(super) report: RefCell<ConversionReport>,
    pub(super) notes: RefCell<Vec<String>>,
}

impl NginxVerdicts {
    pub(super) fn set(&self, directive: &NginxDirective, verdict: Verdict) {
        self.report.borrow_mut().set(directive.id, verdict);
    }

    pub(super) fn converted(&self, directive: &NginxDirective) {
        self.set(directive, Verdict::Converted);
    }

    pub(super) fn default(&self, directive: &NginxDirective) {
        self.set(directive, Verdict::Default);
    }

    pub(super) fn differs(&self, directive: &NginxDirective, because: impl Into<String>) {
        self.set(directive, Verdict::differs(because));
    }

    pub(super) fn refuse(
        &self,
        directive: &NginxDirective,
        because: impl Into<String>,
        instead: Option<&str>,
    ) {
        self.set(directive, Verdict::not_supported(because, instead));
    }

    /// Gives a verdict to a directive and all in it that have none yet.
    pub(super) fn rest(&self, directive: &NginxDirective, verdict: &Verdict) {
        let mut all = vec![directive];
        while let Some(directive) = all.pop() {
            let known = self.report.borrow().has_verdict(directive.id);
            if !known {
                self.set(directive, verdict.clone());
            }
            all.extend(directive.children());
        }
    }

    /// A sentence for the head of the new file, once.
    pub(super) fn note(&self, text: impl Into<String>) {
        let text = text.into();
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
}

/// A level from the directives of a block.
pub(super) fn nginx_level<'a>(
    directives: impl IntoIterator<Item = &'a NginxDirective>,
) -> NginxLevel<'a> {
    let mut level: HashMap<&str, Vec<&NginxDirective>> = HashMap::new();
    for directive in directives {
        level.entry(&directive.name).or_default().push(directive);
    }
    Rc::new(level)
}

impl<'a> NginxScope<'a> {
    /// The scope with one more level.
    pub(super) fn inner(&self, block: &'a [NginxDirective]) -> Self {
        let mut levels = self.levels.clone();
        levels.push(nginx_level(block));
        Self { levels }
    }

    /// The directives of that name on the innermost level that has any: what nginx inherits.
    pub(super) fn nearest(&self, name: &str) -> &[&'a NginxDirective] {
        self.levels
            .iter()
            .rev()
            .find_map(|level| level.get(name))
            .map_or(&[], Vec::as_slice)
    }

    /// The directive of that name that holds here.
    pub(super) fn last(&self, name: &str) -> Option<&'a NginxDirective> {
        self.nearest(name).last().copied()
    }

    /// The directives of that name on the innermost level.
    pub(super) fn own(&self, name: &str) -> &[&'a NginxDirective] {
        self.levels
            .last()
            .and_then(|level| level.get(name))
            .map_or(&[], Vec::as_slice)
    }

    /// The value of a variable that `set` gives once, without a condition.
    fn constant(&self, name: &str, depth: usize) -> Option<(String, &'a NginxDirective)> {
        let sets = |level: &NginxLevel<'a>| -> Vec<&'a NginxDirective> {
            level
                .get("set")
                .into_iter()
                .flatten()
                .copied()
                .filter(|set| set.arg(0).strip_prefix('$') == Some(name))
                .collect()
        };
        let many = |level: &NginxLevel<'a>| {
            ["set", "if"]
                .iter()
                .any(|name| level.get(name).is_some_and(|d| d.len() > MOST_SETS))
        };
        if self.levels.iter().any(many) {
            return None;
        }
        for level in &self.levels {
            let conditions = level.get("if").into_iter().flatten();
            let mut inner = conditions.flat_map(|condition| condition.children());
            if inner.any(|d| d.name == "set" && d.arg(0).strip_prefix('$') == Some(name)) {
                return None;
            }
        }
        let found = self.levels.iter().rev().map(sets).find(|s| !s.is_empty())?;
        let [set] = found.as_slice() else {
            return None;
        };
        Some((self.folded(set.arg(1), depth + 1, &mut Vec::new())?, set))
    }

    /// A text with its constant variables replaced; other variables stay as they are. `used` gets
    /// the `set` directives. `None` if variables refer to each other without end.
    fn folded(
        &self,
        text: &str,
        depth: usize,
        used: &mut Vec<&'a NginxDirective>,
    ) -> Option<String> {
        if depth > 8 {
            return None;
        }
        let mut out = String::new();
        for part in parts_of(text) {
            match part {
                NginxPart::Text(text) => out.push_str(text),
                NginxPart::Variable(name) => match self.constant(name, depth) {
                    Some((value, set)) if value.len() < 4096 => {
                        used.push(set);
                        out.push_str(&value);
                    }
                    _ => {
                        out.push_str("${");
                        out.push_str(name);
                        out.push('}');
                    }
                },
            }
        }
        (out.len() < 65536).then_some(out)
    }

    /// A text with its constant variables replaced, those that are not written as `${name}`.
    pub(super) fn fold(&self, text: &str, verdicts: &NginxVerdicts) -> String {
        if !text.contains('$') {
            return text.to_owned();
        }
        let mut used = Vec::new();
        match self.folded(text, 0, &mut used) {
            Some(folded) => {
                for set in used {
                    verdicts.converted(set);
                }
                folded
            }
            None => text.to_owned(),
        }
    }
}

/// A part of a text with variables.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NginxPart<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// The parts of a text with variables, `$name` or `${name}`.
pub(super) fn parts_of(text: &str) -> Vec<NginxPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        let after = from.get(1..).unwrap_or_default();
        let (name, next) = match after.strip_prefix('{').and_then(|a| a.split_once('}')) {
            Some((name, next)) => (name, next),
            None => {
                let end = after
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() {
            parts.push(NginxPart::Text(rest.get(..=at).unwrap_or_default()));
            rest = after;
            continue;
        }
        if !before.is_empty() {
            parts.push(NginxPart::Text(before));
        }
        parts.push(NginxPart::Variable(name));
        rest = next;
    }
    if !rest.is_empty() {
        parts.push(NginxPart::Text(rest));
    }
    parts
}
