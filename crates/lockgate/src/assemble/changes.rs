//! The rewriting of a route's response bodies, as it runs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lockgate_config as config;
use lockgate_config::{BodyChange, Code, ElementEdit};
use lockgate_content::change::{ChangeRule, ChangeTemplate, Changes, SelectorEdit, TemplatePart};
use lockgate_proxy::transform::Rewrite;
use lockgate_proxy::transform::rewrite::RewriteValue;
use lockgate_rules::Pattern;

use super::MistakeLog;
use crate::fetcher::Fetcher;

/// The placeholders of one route, collected while its rules are read.
struct RouteValues<'a> {
    pattern: &'a Pattern,
    fetcher: &'a Fetcher,
    /// The text between the braces of each.
    names: Vec<String>,
    values: Vec<RewriteValue>,
}

impl RouteValues<'_> {
    /// A text with its placeholders; all other braces are text.
    fn template(&mut self, text: &str) -> ChangeTemplate {
        self.read(text, false)
    }

    /// The same, in a text with groups (`${name}`).
    fn template_beside_groups(&mut self, text: &str) -> ChangeTemplate {
        self.read(text, true)
    }

    fn read(&mut self, text: &str, groups: bool) -> ChangeTemplate {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            plain.push_str(&rest[..open]);
            rest = &rest[open..];
            // `$$` is a dollar sign.
            let dollars = plain.bytes().rev().take_while(|byte| *byte == b'$').count();
            let name = rest[1..]
                .find(['{', '}'])
                .filter(|end| rest.as_bytes()[end + 1] == b'}');
            let name = name.filter(|_| !groups || dollars % 2 == 0);
            match name.and_then(|end| self.part(&rest[1..=end]).map(|part| (end, part))) {
                Some((end, part)) => {
                    if !plain.is_empty() {
                        parts.push(TemplatePart::Text(std::mem::take(&mut plain).into_bytes()));
                    }
                    parts.push(part);
                    rest = &rest[end + 2..];
                }
                None => {
                    plain.push('{');
                    rest = &rest[1..];
                }
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain.into_bytes()));
        }
        ChangeTemplate(parts)
    }

    fn part(&mut self, name: &str) -> Option<TemplatePart> {
        // The operator chose the source of these values; a request chooses the others, which are
        // escaped.
        let ours = name.starts_with("value:") || matches!(name, "time" | "counter");
        let part = if ours {
            TemplatePart::Raw
        } else {
            TemplatePart::Value
        };
        if let Some(number) = self.names.iter().position(|known| known == name) {
            return Some(part(number));
        }
        let value = match name {
            "time" => RewriteValue::Time,
            "counter" => RewriteValue::Counter(AtomicU64::new(0)),
            _ => match name.strip_prefix("value:") {
                Some(fetched) => RewriteValue::Fetched(self.fetcher.fetched(fetched)?),
                None => {
                    let text = format!("{{{name}}}");
                    let template = lockgate_rules::Template::text(&text, self.pattern);
                    // Braces around what is no placeholder are kept.
                    template
                        .fixed()
                        .is_none()
                        .then_some(RewriteValue::Template(template))?
                }
            },
        };
        self.names.push(name.to_owned());
        self.values.push(value);
        Some(part(self.values.len() - 1))
    }
}

/// The changes that a route makes to bodies; `None` with a mistake.
pub(super) fn rewrite(
    mistakes: &mut MistakeLog<'_>,
    written: &config::BodyRewrite,
    pattern: &Pattern,
    fetcher: &Fetcher,
) -> Option<Arc<Rewrite>> {
    let mut values = RouteValues {
        pattern,
        fetcher,
        names: Vec::new(),
        values: Vec::new(),
    };
    // A rule that sets several attributes becomes several rules.
    let mut rules = Vec::new();
    for rule in &written.rules {
        match &rule.change {
            BodyChange::Text { find, with } => {
                let rule_of = ChangeRule::Text {
                    find: find.clone().into_bytes(),
                    with: values.template(with),
                };
                rules.push((rule_of, &rule.at));
            }
            BodyChange::Pattern { pattern, with } => {
                let with = values.template_beside_groups(with);
                let rule_of = ChangeRule::Pattern {
                    pattern: pattern.clone(),
                    with,
                };
                rules.push((rule_of, &rule.at));
            }
            BodyChange::Select { selector, edit } => {
                for edit in edits(edit, &mut values) {
                    rules.push((
                        ChangeRule::Select {
                            selector: selector.clone(),
                            edit,
                        },
                        &rule.at,
                    ));
                }
            }
        }
    }
    let (rules, places): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
    let changes = match Changes::compile(&rules) {
        Ok(changes) => changes,
        Err(error) => {
            if let Some(at) = places.get(error.rule) {
                mistakes.error(Code::BadText, at, error.fault.to_string(), "");
            }
            return None;
        }
    };
    let mut hasher = DefaultHasher::new();
    format!("{rules:?} {:?}", values.names).hash(&mut hasher);
    Some(Arc::new(Rewrite {
        changes,
        values: values.values,
        types: written.types.clone(),
        max: written.max,
        tag: format!("{:x}", hasher.finish()),
    }))
}

fn edits(written: &ElementEdit, values: &mut RouteValues<'_>) -> Vec<SelectorEdit> {
    let one = match written {
        ElementEdit::Before(text) => SelectorEdit::Before(values.template(text)),
        ElementEdit::After(text) => SelectorEdit::After(values.template(text)),
        ElementEdit::Prepend(text) => SelectorEdit::Prepend(values.template(text)),
        ElementEdit::Append(text) => SelectorEdit::Append(values.template(text)),
        ElementEdit::Inner(text) => SelectorEdit::Inner(values.template(text)),
        ElementEdit::Replace(text) => SelectorEdit::Replace(values.template(text)),
        ElementEdit::Remove => SelectorEdit::Remove,
        ElementEdit::Set(attributes) => {
            let attribute = |(name, value): &(String, Option<String>)| match value {
                Some(value) => SelectorEdit::Set {
                    name: name.clone(),
                    value: values.template(value),
                },
                None => SelectorEdit::Unset(name.clone()),
            };
            return attributes.iter().map(attribute).collect();
        }
    };
    vec![one]
}
