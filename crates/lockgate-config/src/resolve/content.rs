//! What is put into bodies: rules of `rewrite_body`, and the values that they name.

use crate::check::{Checked, Id, Table, Value, is_table_name};
use crate::codes::Code;
use crate::keys;
use crate::model::{
    BodyChange, BodyRewrite, BodyRule, ElementEdit, FetchedValue, Pattern, ValueSource,
};
use crate::place::At;

use super::{Resolver, View};

const SEARCHES: [&str; 3] = ["text", "regex", "select"];
const OPERATIONS: [&str; 8] = [
    "append", "prepend", "before", "after", "replace", "inner", "remove", "set",
];
/// What a replacement has besides the placeholders of a fixed answer.
const BESIDES: [&str; 2] = ["time", "counter"];

/// The example of one rule, for messages.
const RULE: &str =
    "write { text = \"a\", with = \"b\" } or { select = \"head\", append = \"<meta …>\" }";

impl Resolver<'_> {
    /// `[values.NAME]` tables.
    pub(super) fn values(&mut self) -> Vec<FetchedValue> {
        let keys = keys::find(keys::ROOT, "values")
            .and_then(|key| key.kind.table())
            .unwrap_or(&[]);
        let mut values = Vec::new();
        for one in self.tables("values") {
            let Id::Name = one.id else { continue };
            self.value_names.insert(one.name.clone(), false);
            let view = View {
                keys,
                layers: vec![&one.table],
            };
            let written = ["file", "url"].map(|name| one.table.entries.get(name).cloned());
            let source = match written {
                [Some(_), Some(url)] => {
                    let why = "a value comes from one place";
                    self.report.push_at(
                        Code::Excluded,
                        &url.at,
                        "`url` beside `file`",
                        why,
                        "keep one of them",
                    );
                    continue;
                }
                [None, None] => {
                    let cure =
                        "add file = \"/etc/version\" or url = \"http://127.0.0.1:9000/motd\"";
                    if !one.table.strange.any {
                        let message = "this value comes from nowhere";
                        let why = "it has neither `file` nor `url`";
                        self.report
                            .push_at(Code::MissingKey, &one.at, message, why, cure);
                    }
                    continue;
                }
                [
                    Some(Checked {
                        value: Value::Path(file),
                        ..
                    }),
                    None,
                ] => ValueSource::File(file),
                [
                    None,
                    Some(Checked {
                        value: Value::Url(url),
                        ..
                    }),
                ] => ValueSource::Url(url),
                _ => continue,
            };
            let (name, at) = (one.name.clone(), one.at.clone());
            let default = view.text("default").unwrap_or_default();
            values.push(FetchedValue {
                name,
                at,
                source,
                every: view.duration("every"),
                default,
            });
        }
        values
    }

    /// Values that no route puts in.
    pub(super) fn unused_values(&mut self, values: &[FetchedValue]) {
        if self.report.has_errors() {
            return;
        }
        for value in values {
            if self.value_names.get(&value.name) == Some(&false) {
                let message = format!("nothing puts in the value `{}`", value.name);
                let cure = format!(
                    "write {{value:{}}} in a rule of rewrite_body, or remove it",
                    value.name
                );
                self.report.push_at(
                    Code::NoEffect,
                    &value.at,
                    message,
                    "it would be looked for in vain",
                    cure,
                );
            }
        }
    }

    /// That of the nearest table that says something: the order of rules is one decision.
    pub(super) fn body_rewrite(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
    ) -> Option<BodyRewrite> {
        let written = view.written("rewrite_body")?;
        let mut long = view.section("rewrite_body");
        long.layers
            .truncate(usize::from(matches!(written.value, Value::Table(_))));
        let list = match written.value {
            Value::List(items) => items,
            Value::Table(_) => long.list("rules"),
            _ => return None,
        };
        let mut rules = Vec::new();
        for item in &list {
            // Every mistake is told, also behind the first.
            let Value::Table(table) = &item.value else {
                continue;
            };
            rules.extend(self.body_rule(table, &item.at, pattern));
        }
        let types = long
            .list("types")
            .into_iter()
            .filter_map(|item| match item.value {
                Value::MediaRange(range) => Some(range),
                _ => None,
            });
        let (types, max): (Vec<_>, _) = (types.collect(), long.size("max"));
        if !types.iter().any(|range| range.matches("text/html")) {
            for rule in &rules {
                let BodyChange::Select { .. } = rule.change else {
                    continue;
                };
                let cure = "add \"text/html\" to types";
                let why = "it acts in HTML, and `types` has none";
                self.tell(
                    Code::NoEffect,
                    &rule.at,
                    "this selector has no effect",
                    why,
                    cure,
                );
            }
        }
        (rules.len() == list.len()).then_some(BodyRewrite { rules, types, max })
    }

    fn body_rule(&mut self, table: &Table, at: &At, pattern: &Pattern) -> Option<BodyRule> {
        let (search, find) = self.one_of(table, &SEARCHES, at)?;
        let (search_at, Value::Text(find)) = (find.at, find.value) else {
            return None;
        };
        if find.is_empty() {
            let why = "it would be everywhere";
            self.tell(
                Code::BadText,
                &search_at,
                "there is nothing to look for",
                why,
                RULE,
            );
            return None;
        }
        let change = if search == "select" {
            if let Some(with) = table.key_places.get("with") {
                let why = "an operation says what is put in";
                self.tell(
                    Code::Excluded,
                    with,
                    "`with` beside `select`",
                    why,
                    "write append, replace or inner",
                );
                return None;
            }
            let edit = self.edit(table, at, pattern)?;
            BodyChange::Select {
                selector: find,
                edit,
            }
        } else {
            if let Some(operation) = OPERATIONS
                .iter()
                .find_map(|name| table.key_places.get(name))
            {
                let why = "it is for elements of a page";
                self.tell(
                    Code::Excluded,
                    operation,
                    "an operation without `select`",
                    why,
                    RULE,
                );
                return None;
            }
            let Some(with) = table.entries.get("with") else {
                if !table.strange.any {
                    let cure = "add with = \"…\"; with = \"\" takes it out";
                    self.tell(
                        Code::MissingKey,
                        at,
                        "`with` is missing",
                        "this rule needs it",
                        cure,
                    );
                }
                return None;
            };
            match search {
                "text" => BodyChange::Text {
                    find,
                    with: self.put_in(with, pattern)?,
                },
                _ => BodyChange::Pattern {
                    pattern: find,
                    with: self.put_in_beside_groups(with, pattern)?,
                },
            }
        };
        Some(BodyRule {
            change,
            at: search_at,
        })
    }

    fn edit(&mut self, table: &Table, at: &At, pattern: &Pattern) -> Option<ElementEdit> {
        let (operation, written) = self.one_of(table, &OPERATIONS, at)?;
        let made = match operation {
            "remove" => return Some(ElementEdit::Remove),
            "set" => {
                let Value::Map(map) = &written.value else {
                    return None;
                };
                if map.is_empty() {
                    // A name that is none has been told.
                    let (order, start, end) = written.at.rank();
                    let within =
                        |at: &At| at.rank() > (order, start, end) && at.rank() < (order, end, end);
                    if !self
                        .report
                        .iter()
                        .filter_map(|found| found.at())
                        .any(within)
                    {
                        let cure = "name one: { class = \"a\" }";
                        self.tell(
                            Code::MissingKey,
                            &written.at,
                            "`set` names no attribute",
                            "",
                            cure,
                        );
                    }
                    return None;
                }
                let mut attributes = Vec::new();
                for one in map {
                    let value = match &one.value.value {
                        Value::Bool(false) => None,
                        _ => Some(self.put_in(&one.value, pattern)?),
                    };
                    attributes.push((one.name.to_ascii_lowercase(), value));
                }
                return Some(ElementEdit::Set(attributes));
            }
            "append" => ElementEdit::Append,
            "prepend" => ElementEdit::Prepend,
            "before" => ElementEdit::Before,
            "after" => ElementEdit::After,
            "replace" => ElementEdit::Replace,
            _ => ElementEdit::Inner,
        };
        self.put_in(&written, pattern).map(made)
    }

    /// The only one of `names` that the table has; `false` is as if it were not there.
    fn one_of(
        &mut self,
        table: &Table,
        names: &[&'static str],
        at: &At,
    ) -> Option<(&'static str, Checked)> {
        let off = |entry: &Checked| matches!(entry.value, Value::Bool(false));
        let written = |name: &&'static str| {
            Some((*name, table.entries.get(*name).filter(|entry| !off(entry))?))
        };
        let mut found = names.iter().filter_map(written);
        let each = || {
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let Some((name, first)) = found.next() else {
            if !table.strange.any {
                let why = format!("it has none of {}", each());
                self.tell(
                    Code::MissingKey,
                    at,
                    "this rule changes nothing",
                    &why,
                    RULE,
                );
            }
            return None;
        };
        if let Some((second, _)) = found.next() {
            let second_at = table.key_places.get(second).unwrap_or(at).clone();
            let message = format!("`{second}` beside `{name}`");
            self.tell(
                Code::Excluded,
                &second_at,
                &message,
                "a rule does one thing",
                "write two rules",
            );
            return None;
        }
        Some((name, first.clone()))
    }

    /// A text that is put in, whose placeholders stand for something.
    fn put_in(&mut self, written: &Checked, pattern: &Pattern) -> Option<String> {
        let Value::Text(text) = &written.value else {
            return None;
        };
        self.stands_for_something(text, &written.at, pattern)
            .then(|| text.clone())
    }

    /// The same beside a regular expression: `${name}` is a group of it, whatever the name, and
    /// `$$` a dollar.
    fn put_in_beside_groups(&mut self, written: &Checked, pattern: &Pattern) -> Option<String> {
        let Value::Text(text) = &written.value else {
            return None;
        };
        self.stands_for_something(&without_groups(text), &written.at, pattern)
            .then(|| text.clone())
    }

    fn stands_for_something(&mut self, text: &str, at: &At, pattern: &Pattern) -> bool {
        let named = text
            .split("{value:")
            .skip(1)
            .filter_map(|after| after.split_once('}'));
        // With any other letters it is an object of a script: `{value: 3}`.
        for (name, _) in named.filter(|(name, _)| is_table_name(name)) {
            if let Some(used) = self.value_names.get_mut(name) {
                *used = true;
                continue;
            }
            let names: Vec<&str> = self.value_names.keys().map(String::as_str).collect();
            let cure = match crate::newcomers::nearest(name, names) {
                Some(near) => format!("did you mean {{value:{near}}}?"),
                None => "write [values.NAME] with file = \"/etc/version\"".to_owned(),
            };
            let why = "no [values.NAME] has this name";
            self.tell(Code::BadPlaceholder, at, "a value is not known", why, &cure);
            return false;
        }
        self.text_with(text, at, pattern, &BESIDES);
        true
    }

    /// What a path inherits is looked at again for it, but told once.
    fn tell(&mut self, code: Code, at: &At, message: &str, why: &str, cure: &str) {
        if !self.warned(code, at) {
            self.report.push_at(code, at, message, why, cure);
        }
    }
}

/// What is left of a replacement without `$$` and `${name}`.
fn without_groups(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        left.push_str(before);
        rest = match behind.strip_prefix('{') {
            Some(group) => group.split_once('}').map_or(behind, |(_, behind)| behind),
            None => behind.strip_prefix('$').unwrap_or(behind),
        };
    }
    left + rest
}
