//! Tables of a TOML text, read key by key, with every mistake and its place.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a text, and where.
#[derive(Debug)]
pub(crate) struct Mistakes<'t> {
    text: &'t str,
    found: Vec<(usize, String)>,
}

impl<'t> Mistakes<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, at: &Range<usize>, what: impl Into<String>) {
        self.found.push((at.start, what.into()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// One line for each, in the order of the text: `name:line:column: what`, both from 1, columns
    /// in characters.
    pub(crate) fn render(mut self, name: &str) -> String {
        self.found.sort();
        let lines = self.found.iter().map(|(at, what)| {
            let before = self.text.get(..*at).unwrap_or(self.text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
            format!("{name}:{line}:{column}: {what}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) at: Range<usize>,
}

/// One table. Keys are taken out by name; [`Table::end`] reports those that nobody took.
pub(crate) struct Table<'a> {
    pub(crate) at: Range<usize>,
    /// What is left, in the order of the text.
    entries: Vec<Entry<'a>>,
    /// Names that were asked for.
    known: Vec<&'static str>,
}

struct Entry<'a> {
    name: String,
    at: Range<usize>,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Table<'a> {
    pub(crate) fn of(table: &'a DeTable<'a>, at: Range<usize>) -> Self {
        let mut entries: Vec<_> = table
            .iter()
            .map(|(key, value)| Entry {
                name: key.get_ref().to_string(),
                at: key.span(),
                value,
            })
            .collect();
        entries.sort_by_key(|entry| entry.at.start);
        Self {
            at,
            entries,
            known: Vec::new(),
        }
    }

    fn take(&mut self, name: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(name);
        let at = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(at).value)
    }

    pub(crate) fn text(
        &mut self,
        name: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Placed<String>> {
        text(self.take(name)?, name, mistakes)
    }

    pub(crate) fn number(
        &mut self,
        name: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Placed<usize>> {
        let value = self.take(name)?;
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|number| number.to_string().parse::<usize>().ok());
        match number {
            Some(number) if number > 0 => Some(Placed {
                value: number,
                at: value.span(),
            }),
            _ => {
                mistakes.add(
                    &value.span(),
                    format!("`{name}` must be a number of at least 1"),
                );
                None
            }
        }
    }

    /// Whether `name` is true; not where it is absent.
    pub(crate) fn flag(&mut self, name: &'static str, mistakes: &mut Mistakes<'_>) -> bool {
        let Some(value) = self.take(name) else {
            return false;
        };
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            mistakes.add(
                &value.span(),
                format!("`{name}` must be true or false, not {}", kind(value)),
            );
        }
        flag.unwrap_or(false)
    }

    pub(crate) fn texts(
        &mut self,
        name: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Vec<Placed<String>>> {
        let value = self.take(name)?;
        list(value, name, mistakes, |value, mistakes| {
            text(value, name, mistakes)
        })
    }

    /// Rows of a table for people: strings and numbers as they are written.
    pub(crate) fn rows(
        &mut self,
        name: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Vec<Vec<String>>> {
        let value = self.take(name)?;
        list(value, name, mistakes, |row, mistakes| {
            list(row, name, mistakes, |cell, mistakes| match cell.get_ref() {
                DeValue::Integer(number) => Some(number.to_string()),
                DeValue::Float(number) => Some(number.to_string()),
                _ => text(cell, name, mistakes).map(|text| text.value),
            })
        })
    }

    pub(crate) fn table(
        &mut self,
        name: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Table<'a>> {
        table(self.take(name)?, name, mistakes)
    }

    /// The tables `[name.A]`, `[name.B]` in the order of the text.
    pub(crate) fn tables(
        &mut self,
        name: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Vec<(Placed<String>, Table<'a>)> {
        let Some(outer) = self.table(name, mistakes) else {
            return Vec::new();
        };
        let inner = outer.entries.into_iter().filter_map(|entry| {
            let inner = table(entry.value, &entry.name, mistakes)?;
            Some((
                Placed {
                    value: entry.name,
                    at: entry.at,
                },
                inner,
            ))
        });
        inner.collect()
    }

    /// A table of texts under names of the writer's own.
    pub(crate) fn pairs(
        &mut self,
        name: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Vec<(Placed<String>, Placed<String>)> {
        let Some(outer) = self.table(name, mistakes) else {
            return Vec::new();
        };
        let pairs = outer.entries.into_iter().filter_map(|entry| {
            let value = text(entry.value, &entry.name, mistakes)?;
            Some((
                Placed {
                    value: entry.name,
                    at: entry.at,
                },
                value,
            ))
        });
        pairs.collect()
    }

    /// Reports what is left.
    pub(crate) fn end(self, mistakes: &mut Mistakes<'_>) {
        for entry in &self.entries {
            let known = self.known.iter().copied();
            mistakes.add(&entry.at, unknown("there is no key", &entry.name, known));
        }
    }
}

/// What is said of a name that is none of `known`.
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

fn text(
    value: &Spanned<DeValue<'_>>,
    name: &str,
    mistakes: &mut Mistakes<'_>,
) -> Option<Placed<String>> {
    let Some(text) = value.get_ref().as_str() else {
        mistakes.add(
            &value.span(),
            format!("`{name}` must be text in quotes, not {}", kind(value)),
        );
        return None;
    };
    Some(Placed {
        value: text.to_owned(),
        at: value.span(),
    })
}

fn table<'a>(
    value: &'a Spanned<DeValue<'a>>,
    name: &str,
    mistakes: &mut Mistakes<'_>,
) -> Option<Table<'a>> {
    let Some(inner) = value.get_ref().as_table() else {
        mistakes.add(
            &value.span(),
            format!("`{name}` must be a table, not {}", kind(value)),
        );
        return None;
    };
    Some(Table::of(inner, value.span()))
}

fn list<'a, T>(
    value: &'a Spanned<DeValue<'a>>,
    name: &str,
    mistakes: &mut Mistakes<'_>,
    mut each: impl FnMut(&'a Spanned<DeValue<'a>>, &mut Mistakes<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(items) = value.get_ref().as_array() else {
        mistakes.add(
            &value.span(),
            format!("`{name}` must be a list, not {}", kind(value)),
        );
        return None;
    };
    items.iter().map(|item| each(item, mistakes)).collect()
}

fn kind(value: &Spanned<DeValue<'_>>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
