//! Values of another type or of another server: the probable alternative and the cure.

use crate::codes::Code;
use crate::document::{TomlItem, TomlString, TomlValue};
use crate::foreign_names::{self, Given};
use crate::key_paths::example;
use crate::language::{Notation, TreeChecker, alternatives, quoted};
use crate::spelling::nearest;

impl TreeChecker<'_> {
    /// The alternative that fits the form of the value, by its place; a word only when it is
    /// exactly that word, or when no other alternative is a text.
    pub(crate) fn choose(
        &mut self,
        whole: &dyn Notation,
        item: &TomlItem,
        path: &str,
    ) -> Option<usize> {
        let of = whole.of();
        let text = match &item.node {
            TomlValue::Text(text) => Some(text),
            _ => None,
        };
        let is_word =
            |one: &&dyn Notation| text.is_some_and(|text| one.words().contains(&&*text.value));
        if let Some(word) = of.iter().position(is_word) {
            return Some(word);
        }
        let mut fitting = (0..of.len()).filter(|at| of[*at].accepts(&item.node));
        let first = fitting.clone().next();
        let chosen = fitting.find(|at| of[*at].words().is_empty()).or(first);
        match chosen {
            _ if means_no_limit(&of, &item.node) => self.wrong_type(whole, item, path),
            Some(chosen) if !of[chosen].words().is_empty() => self.unknown_word(whole, item),
            Some(chosen) if text.is_some_and(|text| misread(&of, of[chosen], text)) => {
                self.wrong_type(whole, item, path)
            }
            Some(chosen) => Some(chosen),
            None => self.wrong_type(whole, item, path),
        }
    }

    /// Reports a value of another type.
    pub(crate) fn wrong_type<T>(
        &mut self,
        language: &dyn Notation,
        item: &TomlItem,
        path: &str,
    ) -> Option<T> {
        let message = format!("{} cannot stand here", item.node.kind());
        let why = format!("expected {}", language.expected());
        let cure = type_cure(language, item, path, example(self.root, path));
        self.invalid(Code::WrongType, &item.at, message, &why, cure)
    }

    /// Reports a word that is none of those that are known.
    pub(crate) fn unknown_word<T>(
        &mut self,
        language: &dyn Notation,
        item: &TomlItem,
    ) -> Option<T> {
        let TomlValue::Text(text) = &item.node else {
            return None;
        };
        let shown = !text.is_secret();
        let words = language.words();
        let later = foreign_names::later_word(&words, &text.value).filter(|_| shown);
        if let Some(cure) = later {
            let message = format!("{:?} is not in this version", text.raw);
            let why = "it will come later";
            return self.invalid(Code::NotYet, &item.at, message, why, cure.to_owned());
        }
        let near = foreign_names::other_word(&words, &text.value)
            .or_else(|| nearest(&text.value, words.iter().copied()))
            .filter(|_| shown);
        let number = shown && language.range().is_some() && text.value.parse::<u64>().is_ok();
        let table = foreign_names::table_for(&words, &text.value).filter(|_| shown);
        let expected = language.expected();
        let cure = match (table, near) {
            (Some(table), _) => table.to_owned(),
            (None, Some(near)) => format!("did you mean \"{near}\"?"),
            (None, None) if number => format!("write {} without quotes", text.value),
            (None, None) => format!("write {expected}"),
        };
        let message = format!("{:?} is not known here", text.raw);
        let why = format!("expected {expected}");
        self.invalid(Code::UnknownWord, &item.at, message, &why, cure)
    }
}

fn type_cure(
    language: &dyn Notation,
    item: &TomlItem,
    path: &str,
    example: Option<&'static str>,
) -> String {
    let mut of = Vec::new();
    alternatives([language], &mut of);
    let name = path.rsplit('.').next().unwrap_or(path);
    let upstream_tls = name == "tls" && of.len() == 1 && language.table().is_some();
    let known =
        foreign_names::other_type_cure(name, value_kind(&item.node)).filter(|_| !upstream_tls);
    let found = match &item.node {
        node if means_no_limit(&of, node) => Some("write \"off\"".to_owned()),
        TomlValue::Text(text) => truth_cure(&of, text, example)
            .or_else(|| known.map(str::to_owned))
            .or_else(|| text_cure(&of, text)),
        _ if known.is_some() => known.map(str::to_owned),
        TomlValue::Bool(true) if upstream_tls => Some("write tls = {}".to_owned()),
        TomlValue::List(_) => language.by().map(|by| {
            let header = path.replace('*', "\"example.com\"");
            let sample = by.sample();
            format!("write [{header}.{sample}], with single brackets")
        }),
        _ => language.other_type_cure(item),
    };
    let words = language.words();
    found.unwrap_or_else(|| match example {
        _ if of.len() == 1 && !words.is_empty() => format!("write {}", quoted(&words)),
        Some(example) if !example.is_empty() => format!("for example {example}"),
        _ => String::new(),
    })
}

/// The cure for a text in quotes that stands for `true`, `false` or a number.
fn truth_cure(of: &[&dyn Notation], text: &TomlString, example: Option<&str>) -> Option<String> {
    let truth = truth(&text.value).filter(|_| !text.is_secret())?;
    accepts(of, &TomlValue::Bool(truth)).then_some(())?;
    let quotes = match text.value == truth.to_string() {
        true => " without quotes",
        false => "",
    };
    let other = example.filter(|example| example.starts_with('"'));
    let other = other.map_or_else(String::new, |other| format!(", or for example {other}"));
    Some(format!("write {truth}{quotes}{other}"))
}

/// The cure for a text where no text is allowed.
fn text_cure(of: &[&dyn Notation], text: &TomlString) -> Option<String> {
    if let Some(entries) = of.iter().find_map(|one| one.entries()) {
        // Lists of other servers have commas or spaces in one text.
        let parts = text.value.split([',', ' ']).filter(|part| !part.is_empty());
        let parts = parts.map(|part| format!("{part:?}")).collect::<Vec<_>>();
        return Some(match entries.list_cure(&text.value) {
            _ if text.is_secret() || parts.is_empty() => format!("write [{:?}]", text.raw),
            Some(meant) => meant,
            None => format!("write [{}]", parts.join(", ")),
        });
    }
    let value = &*text.value;
    let number = value.parse::<u64>();
    let is_body = of.iter().any(|one| one.is_free());
    match number {
        _ if text.is_secret() => None,
        Err(_) if is_body => {
            let (status, reason) = value.split_once(' ')?;
            Some(format!(
                "write {status} for the status, or {{ status = {status}, body = {reason:?} }}"
            ))
        }
        Ok(_) if is_body => Some(format!(
            "write {value} without quotes for the status; a body is {{ body = \"{value}\" }}"
        )),
        Err(_) => match value.strip_suffix('%')?.trim_end().parse::<u64>() {
            Ok(number) if of.iter().any(|one| one.range().is_some()) => {
                Some(format!("write {number}, without %"))
            }
            _ => None,
        },
        Ok(_) => Some(format!("write {value} without quotes")),
    }
}

/// Whether an invalid value probably stands for "no limit".
fn means_no_limit(of: &[&dyn Notation], node: &TomlValue) -> bool {
    means_off(node) && of.iter().any(|one| one.words() == ["off"])
}

/// Whether a value is one of the usual notations of "no limit".
fn means_off(node: &TomlValue) -> bool {
    const NONE: [&str; 11] = [
        "0",
        "0s",
        "-1",
        "never",
        "none",
        "no",
        "false",
        "infinite",
        "infinity",
        "unlimited",
        "disabled",
    ];
    match node {
        TomlValue::Integer(Some(number)) => *number <= 0,
        TomlValue::Bool(false) => true,
        TomlValue::Text(text) => !text.is_secret() && NONE.contains(&&*text.value),
        _ => false,
    }
}

/// Whether a text in the language `chosen` probably belongs to another alternative.
fn misread(of: &[&dyn Notation], chosen: &dyn Notation, text: &TomlString) -> bool {
    if text.is_secret() {
        return false;
    }
    if chosen.is_free() {
        let number = status_in(&text.value);
        let within = |one: &&dyn Notation| {
            one.range()
                .zip(number)
                .is_some_and(|(range, number)| range.contains(&number))
        };
        return of.iter().any(within);
    }
    let either = [true, false].map(|truth| accepts(of, &TomlValue::Bool(truth)));
    truth(&text.value).is_some() && either.contains(&true)
}

/// `404` and `404 Not Found`.
fn status_in(text: &str) -> Option<u64> {
    let (status, reason) = text.split_once(' ').unwrap_or((text, ""));
    let named = reason.is_empty() || reason.starts_with(|c: char| c.is_ascii_uppercase());
    status
        .parse()
        .ok()
        .filter(|_| named && status.len() == 3 && reason.len() < 40)
}

/// The usual words for true and false.
fn truth(text: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_one_of(&["true", "yes", "on", "enable", "enabled"]) {
        return Some(true);
    }
    is_one_of(&["false", "no", "off", "none", "disable", "disabled"]).then_some(false)
}

fn value_kind(node: &TomlValue) -> Given {
    match node {
        TomlValue::Bool(true) => Given::True,
        TomlValue::Integer(_) => Given::Number,
        TomlValue::Text(_) => Given::Text,
        TomlValue::List(_) => Given::List,
        TomlValue::Table(_) => Given::Table,
        _ => Given::Any,
    }
}

fn accepts(of: &[&dyn Notation], node: &TomlValue) -> bool {
    of.iter().any(|one| one.accepts(node))
}
