//! Reader of TOML tables, key by key, which collects every mistake with its place.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Value<'a> = Spanned<DeValue<'a>>;

/// The mistakes of a TOML text, with their places.
#[derive(Debug)]
pub(crate) struct TomlMistakes<'t> {
    text: &'t str,
    found: RefCell<Vec<(usize, String)>>,
}

impl<'t> TomlMistakes<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        Self {
            text,
            found: RefCell::default(),
        }
    }

    pub(crate) fn add(&self, at: Range<usize>, mistake: impl Into<String>) {
        self.found.borrow_mut().push((at.start, mistake.into()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// One line for each mistake, in the order of the text: `name:line:column: mistake`, both from
    /// 1 on, columns in characters.
    pub(crate) fn render(&self, name: &str) -> String {
        let mut found = self.found.take();
        found.sort();
        let lines = found.iter().map(|(at, mistake)| {
            let before = self.text.get(..*at).unwrap_or(self.text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
            format!("{name}:{line}:{column}: {mistake}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// One table. Keys are taken out by name; [`TomlTable::end`] reports the unknown ones.
pub(crate) struct TomlTable<'a> {
    at: Range<usize>,
    pub(crate) mistakes: &'a TomlMistakes<'a>,
    /// Entries that are not taken yet, in the order of the text.
    entries: Vec<(Spanned<String>, &'a Value<'a>)>,
    /// Names that were asked for.
    known: Vec<&'static str>,
}

impl<'a> TomlTable<'a> {
    pub(crate) fn of(
        table: &'a DeTable<'a>,
        at: Range<usize>,
        mistakes: &'a TomlMistakes<'a>,
    ) -> Self {
        let entries = table.iter().map(|(key, value)| {
            let name = Spanned::new(key.span(), key.get_ref().to_string());
            (name, value)
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        Self {
            at,
            mistakes,
            entries,
            known: Vec::new(),
        }
    }

    /// Adds a mistake of the table itself.
    pub(crate) fn wrong(&self, mistake: impl Into<String>) {
        self.mistakes.add(self.at.clone(), mistake);
    }

    fn take(&mut self, name: &'static str) -> Option<&'a Value<'a>> {
        self.known.push(name);
        let is_named = |(key, _): &(Spanned<String>, _)| key.get_ref() == name;
        let index = self.entries.iter().position(is_named)?;
        Some(self.entries.remove(index).1)
    }

    /// Converts the value of the key `name`; where `convert` gives `None`, it is not as `expected`.
    fn convert<T>(
        &self,
        value: &'a Value<'a>,
        name: &str,
        expected: &str,
        convert: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Option<Spanned<T>> {
        let converted = convert(value.get_ref());
        if converted.is_none() {
            let kind = kind(value.get_ref());
            let mistake = format!("`{name}` must be {expected}, not {kind}");
            self.mistakes.add(value.span(), mistake);
        }
        Some(Spanned::new(value.span(), converted?))
    }

    fn as_text(&self, value: &'a Value<'a>, name: &str) -> Option<Spanned<String>> {
        self.convert(value, name, "text in quotes", |value| {
            value.as_str().map(str::to_owned)
        })
    }

    fn as_list<T>(
        &self,
        value: &'a Value<'a>,
        name: &str,
        each: impl FnMut(&'a Value<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.convert(value, name, "a list", DeValue::as_array)?;
        items.into_inner().iter().map(each).collect()
    }

    fn as_table(&self, value: &'a Value<'a>, name: &str) -> Option<Self> {
        let table = self.convert(value, name, "a table", DeValue::as_table)?;
        Some(Self::of(table.into_inner(), value.span(), self.mistakes))
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Option<Spanned<String>> {
        let value = self.take(name)?;
        self.as_text(value, name)
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Option<usize> {
        let value = self.take(name)?;
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| number.to_string().parse().ok());
        let number = number.filter(|number| *number > 0);
        if number.is_none() {
            let mistake = format!("`{name}` must be a number of at least 1");
            self.mistakes.add(value.span(), mistake);
        }
        number
    }

    /// Whether `name` is true; false where it is absent.
    pub(crate) fn flag(&mut self, name: &'static str) -> bool {
        let flag = self.take(name);
        let flag =
            flag.and_then(|value| self.convert(value, name, "true or false", DeValue::as_bool));
        flag.is_some_and(Spanned::into_inner)
    }

    pub(crate) fn texts(&mut self, name: &'static str) -> Option<Vec<Spanned<String>>> {
        let value = self.take(name)?;
        self.as_list(value, name, |item| self.as_text(item, name))
    }

    /// Rows of a table for people: texts, and numbers as they are written.
    pub(crate) fn rows(&mut self, name: &'static str) -> Option<Vec<Vec<String>>> {
        let value = self.take(name)?;
        let cell = |cell: &'a Value<'a>| match cell.get_ref() {
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Float(number) => Some(number.to_string()),
            _ => self.as_text(cell, name).map(Spanned::into_inner),
        };
        self.as_list(value, name, |row| self.as_list(row, name, cell))
    }

    pub(crate) fn table(&mut self, name: &'static str) -> Option<Self> {
        let value = self.take(name)?;
        self.as_table(value, name)
    }

    /// The tables `[name.A]`, `[name.B]` in the order of the text.
    pub(crate) fn tables(&mut self, name: &'static str) -> Vec<(Spanned<String>, Self)> {
        let entries = self
            .table(name)
            .map_or_else(Vec::new, |table| table.entries);
        let tables = entries.into_iter().filter_map(|(name, value)| {
            let table = self.as_table(value, name.get_ref())?;
            Some((name, table))
        });
        tables.collect()
    }

    /// A table of texts under names of the file's own.
    pub(crate) fn pairs(&mut self, name: &'static str) -> Vec<(Spanned<String>, Spanned<String>)> {
        let entries = self
            .table(name)
            .map_or_else(Vec::new, |table| table.entries);
        let pairs = entries.into_iter().filter_map(|(name, value)| {
            let text = self.as_text(value, name.get_ref())?;
            Some((name, text))
        });
        pairs.collect()
    }

    /// The value of `written` among the `known` ones.
    pub(crate) fn choice<T>(
        &self,
        written: &Spanned<String>,
        what: &str,
        known: impl Iterator<Item = (&'static str, T)> + Clone,
    ) -> Option<T> {
        let found = known
            .clone()
            .find(|(name, _)| *name == written.get_ref().as_str());
        if found.is_none() {
            let names = known.map(|(name, _)| name);
            let mistake = unknown(what, written.get_ref(), names);
            self.mistakes.add(written.span(), mistake);
        }
        found.map(|(_, value)| value)
    }

    /// Reports the keys that are not taken: they are unknown.
    pub(crate) fn end(&self) {
        for (name, _) in &self.entries {
            let known = self.known.iter().copied();
            let mistake = unknown("there is no key", name.get_ref(), known);
            self.mistakes.add(name.span(), mistake);
        }
    }
}

/// The message about a name that is none of `known`.
pub(crate) fn unknown<'k>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> String {
    let near = known
        .clone()
        .map(|other| (strsim::osa_distance(name, other), other))
        .min();
    match near {
        Some((distance, other)) if distance * 3 <= other.len().max(3) => {
            format!("{what} `{name}`: did you mean `{other}`?")
        }
        _ => format!(
            "{what} `{name}`; there are {}",
            known.collect::<Vec<_>>().join(", ")
        ),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
