//! Changes to bodies: rules of `rewrite_body`, and the values that they insert.

use lockgate_rules::Pattern;

use crate::codes::Code;
use crate::keys::content::{self, rewrite_body, rule, value};
use crate::keys::{ConfigKey, top};
use crate::language::KeyRow;
use crate::model::{BodyChange, BodyRewrite, BodyRule, ElementEdit, NamedValue, ValueSource};
use crate::source::SourceSpan;
use crate::spelling::nearest;
use crate::table::{CheckedEntry, CheckedTable, PlacedValue};
use crate::values::{MapEntry, MapOf, ShortOrLong, is_table_name};

use super::{Resolver, View};

const SEARCHES: [KeyRow; 3] = [rule::TEXT.row(), rule::REGEX.row(), rule::SELECT.row()];

const OPERATIONS: [KeyRow; 8] = [
    rule::APPEND.row(),
    rule::PREPEND.row(),
    rule::BEFORE.row(),
    rule::AFTER.row(),
    rule::REPLACE.row(),
    rule::INNER.row(),
    rule::REMOVE.row(),
    rule::SET.row(),
];

/// Builds the edit of an operation from its text.
type EditConstructor = fn(String) -> ElementEdit;

/// Operations that put a text in.
const PUT_IN: [(ConfigKey<String>, EditConstructor); 6] = [
    (rule::APPEND, ElementEdit::Append),
    (rule::PREPEND, ElementEdit::Prepend),
    (rule::BEFORE, ElementEdit::Before),
    (rule::AFTER, ElementEdit::After),
    (rule::REPLACE, ElementEdit::Replace),
    (rule::INNER, ElementEdit::Inner),
];

/// The placeholders of a replacement beyond those of a fixed response.
const BESIDES: [&str; 2] = ["time", "counter"];

/// The example of one rule, for messages.
const RULE: &str =
    "write { text = \"a\", with = \"b\" } or { select = \"head\", append = \"<meta …>\" }";

impl Resolver<'_> {
    /// The values of `[values.NAME]` tables.
    pub(super) fn values(&mut self) -> Vec<NamedValue> {
        let mut values = Vec::new();
        for one in self.root.value(&top::VALUES).into_iter().flatten() {
            self.value_names.insert(one.name.clone(), false);
            let Some(source) = self.source(&one.table, &one.at) else {
                continue;
            };
            let view = View::of(&one.table);
            values.push(NamedValue {
                name: one.name.clone(),
                at: one.at.clone(),
                source,
                every: view.get(&value::EVERY),
                default: view.get(&value::DEFAULT).unwrap_or_default(),
            });
        }
        values
    }

    /// The source of a value; `None` for a mistake.
    fn source(&mut self, table: &CheckedTable, at: &SourceSpan) -> Option<ValueSource> {
        match (table.entry(&value::FILE), table.entry(&value::URL)) {
            (Some(_), Some(url)) => {
                let message = "`url` beside `file`";
                let why = "a value has one source";
                let cure = "keep one of them";
                self.report
                    .push_at(Code::Excluded, &url.at, message, why, cure);
                None
            }
            (Some(_), None) => table.value(&value::FILE).cloned().map(ValueSource::File),
            (None, Some(_)) => table.value(&value::URL).cloned().map(ValueSource::Url),
            (None, None) if table.strange.any => None,
            (None, None) => {
                let message = "this value has no source";
                let why = "it has neither `file` nor `url`";
                let cure = "add file = \"/etc/version\" or url = \"http://127.0.0.1:9000/motd\"";
                self.report
                    .push_at(Code::MissingKey, at, message, why, cure);
                None
            }
        }
    }

    /// Values that no route puts in.
    pub(super) fn unused_values(&mut self, values: &[NamedValue]) {
        if self.report.has_errors() {
            return;
        }
        for value in values {
            if self.value_names.get(&value.name) == Some(&false) {
                let message = format!("no rule inserts the value `{}`", value.name);
                let cure = format!(
                    "write {{value:{}}} in a rule of rewrite_body, or remove it",
                    value.name
                );
                self.report.push_at(
                    Code::NoEffect,
                    &value.at,
                    message,
                    "it would be fetched for nothing",
                    cure,
                );
            }
        }
    }

    /// The rules of the nearest table that has some. Rules of several tables are not merged: their
    /// order is one decision.
    pub(super) fn body_rewrite(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
    ) -> Option<BodyRewrite> {
        let (list, long) = match view.written(&content::REWRITE_BODY)?.value {
            ShortOrLong::Short(short) => (short.clone()?, View::default()),
            ShortOrLong::Long(table) => {
                let long = View::of(table);
                (long.items(&rewrite_body::RULES), long)
            }
        };
        let mut rules = Vec::new();
        // Every mistake is told, also behind the first.
        for (table, at) in list.placed() {
            rules.extend(self.body_rule(table, at, pattern));
        }
        let (types, max) = (
            long.list(&rewrite_body::TYPES),
            long.get(&rewrite_body::MAX),
        );
        if !types.iter().any(|range| range.matches(b"text/html")) {
            for rule in &rules {
                let BodyChange::Select { .. } = rule.change else {
                    continue;
                };
                let cure = "add \"text/html\" to types";
                let why = "it acts in HTML, and `types` has none";
                self.push_once(
                    Code::NoEffect,
                    &rule.at,
                    "this selector has no effect",
                    why,
                    cure,
                );
            }
        }
        (rules.len() == list.as_slice().len()).then_some(BodyRewrite { rules, types, max })
    }

    fn body_rule(
        &mut self,
        table: &CheckedTable,
        at: &SourceSpan,
        pattern: &Pattern,
    ) -> Option<BodyRule> {
        let (search, entry) = self.one_of(table, &SEARCHES, at)?;
        let find = entry.written::<String>()?.value.clone();
        let search_at = entry.at.clone();
        if find.is_empty() {
            let why = "an empty text is everywhere";
            self.push_once(
                Code::BadText,
                &search_at,
                "the text to find is empty",
                why,
                RULE,
            );
            return None;
        }
        let change = if search == rule::SELECT.row().name {
            if let Some(with) = table.key_at(&rule::WITH) {
                let why = "the operation, such as `append`, has the text to insert";
                self.push_once(
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
            let operation = OPERATIONS
                .iter()
                .find_map(|key| table.entries.get(key.name));
            if let Some(operation) = operation {
                let why = "it is for elements of a page";
                self.push_once(
                    Code::Excluded,
                    &operation.key_at,
                    "an operation without `select`",
                    why,
                    RULE,
                );
                return None;
            }
            let Some(with) = table.entry(&rule::WITH) else {
                if !table.strange.any {
                    let cure = "add with = \"…\"; with = \"\" takes it out";
                    self.push_once(
                        Code::MissingKey,
                        at,
                        "`with` is missing",
                        "this rule needs it",
                        cure,
                    );
                }
                return None;
            };
            let with = with.written::<String>()?;
            if search == rule::TEXT.row().name {
                let with = self.replacement(with.value, with.at, pattern)?;
                BodyChange::Text { find, with }
            } else {
                let whole = without_groups(with.value);
                let known = self.is_known_template(&whole, with.at, pattern);
                let with = known.then(|| with.value.clone())?;
                BodyChange::Pattern {
                    pattern: find,
                    with,
                }
            }
        };
        Some(BodyRule {
            change,
            at: search_at,
        })
    }

    fn edit(
        &mut self,
        table: &CheckedTable,
        at: &SourceSpan,
        pattern: &Pattern,
    ) -> Option<ElementEdit> {
        let (operation, entry) = self.one_of(table, &OPERATIONS, at)?;
        if operation == rule::REMOVE.row().name {
            return Some(ElementEdit::Remove);
        }
        if operation == rule::SET.row().name {
            return self.attributes(entry.written()?, pattern);
        }
        let of = |(key, _): &&(ConfigKey<String>, _)| key.row().name == operation;
        let (_, made) = PUT_IN.iter().find(of)?;
        let written = entry.written::<String>()?;
        self.replacement(written.value, written.at, pattern)
            .map(made)
    }

    fn attributes(
        &mut self,
        written: PlacedValue<'_, MapOf<Option<String>>>,
        pattern: &Pattern,
    ) -> Option<ElementEdit> {
        let PlacedValue { value: map, at } = written;
        if map.entries.is_empty() {
            // A name that is none has been told.
            let (order, start, end) = at.rank();
            let within =
                |at: &SourceSpan| at.rank() > (order, start, end) && at.rank() < (order, end, end);
            let told = self
                .report
                .iter()
                .filter_map(|found| found.at())
                .any(within);
            if !told {
                let message = "`set` names no attribute";
                let cure = "name one: { class = \"a\" }";
                self.push_once(Code::MissingKey, at, message, "", cure);
            }
            return None;
        }
        let attribute = |one: &MapEntry<Option<String>>| {
            let name = one.name.to_ascii_lowercase();
            match one.value.as_ref()? {
                None => Some((name, None)),
                Some(value) => Some((name, Some(self.replacement(value, &one.at, pattern)?))),
            }
        };
        let attributes = map.entries.iter().map(attribute).collect::<Option<_>>()?;
        Some(ElementEdit::Set(attributes))
    }

    /// The only one of `keys` that the table has; `false` is as if it were not there.
    fn one_of<'t>(
        &mut self,
        table: &'t CheckedTable,
        keys: &[KeyRow],
        at: &SourceSpan,
    ) -> Option<(&'static str, &'t CheckedEntry)> {
        let off = |key: &KeyRow| {
            key.name == rule::REMOVE.row().name && table.value(&rule::REMOVE) == Some(&false)
        };
        let written = keys.iter().filter(|key| !off(key));
        let mut found = written.filter_map(|key| Some((key.name, table.entries.get(key.name)?)));
        let Some((name, first)) = found.next() else {
            if !table.strange.any {
                let each: Vec<_> = keys.iter().map(|key| format!("`{}`", key.name)).collect();
                let why = format!("it has none of {}", each.join(", "));
                let message = "this rule changes nothing";
                self.push_once(Code::MissingKey, at, message, &why, RULE);
            }
            return None;
        };
        if let Some((second, entry)) = found.next() {
            let message = format!("`{second}` beside `{name}`");
            let why = "a rule does one thing";
            self.push_once(
                Code::Excluded,
                &entry.key_at,
                &message,
                why,
                "write two rules",
            );
            return None;
        }
        Some((name, first))
    }

    /// A text to insert, if its placeholders have values.
    fn replacement(&mut self, text: &str, at: &SourceSpan, pattern: &Pattern) -> Option<String> {
        self.is_known_template(text, at, pattern)
            .then(|| text.to_owned())
    }

    fn is_known_template(&mut self, text: &str, at: &SourceSpan, pattern: &Pattern) -> bool {
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
            let cure = match nearest(name, names) {
                Some(near) => format!("did you mean {{value:{near}}}?"),
                None => "write [values.NAME] with file = \"/etc/version\"".to_owned(),
            };
            let why = "no [values.NAME] has this name";
            self.push_once(Code::BadPlaceholder, at, "a value is not known", why, &cure);
            return false;
        }
        self.warn_left_as_text(text, at, pattern, &BESIDES);
        true
    }
}

/// The rest of a replacement without `$$`, a dollar, and `${name}`, a group of the expression.
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
