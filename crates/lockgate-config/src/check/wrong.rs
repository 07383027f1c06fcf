//! Values of another type, without their unit or of another server: what to write instead.

use crate::codes::Code;
use crate::document::{Item, Node, Text};
use crate::keys::Kind;
use crate::newcomers::{self, Given};
use crate::units;

use super::expected::{expected, quoted};
use super::networks::network_cure;
use super::places::example;
use super::{Checker, Value};

impl Checker<'_> {
    /// A number where a unit belongs: the readings are offered, the likeliest first, none is taken.
    pub(super) fn bare(&mut self, kind: &Kind, value: Option<i64>, item: &Item) -> Value {
        let number = value.map_or(10, i64::unsigned_abs);
        let cure = match kind {
            Kind::Size { .. } => units::size_readings(number),
            Kind::Rate => format!("write \"{number}KB/s\" or \"{number}B/s\""),
            Kind::Percent => format!("write \"{number}%\""),
            Kind::Frequency | Kind::Allowance | Kind::Limit => {
                format!("write \"{number}/s\", \"{number}/m\" or \"{number}/h\"")
            }
            _ => units::duration_readings(number),
        };
        self.report.push_at(
            Code::Unit,
            &item.at,
            "a number without a unit",
            "which unit is meant?",
            cure,
        );
        Value::Invalid
    }

    pub(super) fn wrong_type(&mut self, kind: &Kind, item: &Item, path: &str) -> Value {
        let message = format!("{} cannot stand here", item.node.kind());
        let why = format!("expected {}", expected(kind));
        let cure = self.type_cure(kind, item, path);
        self.report
            .push_at(Code::WrongType, &item.at, message, why, cure);
        Value::Invalid
    }

    fn type_cure(&self, kind: &Kind, item: &Item, path: &str) -> String {
        let name = path.rsplit('.').next().unwrap_or(path);
        let upstream_tls = name == "tls" && matches!(kind, Kind::Table(_));
        let known = newcomers::instead(name, given(&item.node)).filter(|_| !upstream_tls);
        let found = match &item.node {
            _ if takes(kind, is_off) && means_off(&item.node) => Some("write \"off\"".to_owned()),
            Node::Integer(Some(port)) if takes(kind, |kind| matches!(kind, Kind::Ip)) => {
                Some(format!("the port stands in the key: [site.\":{port}\"]"))
            }
            Node::Text(text) => {
                let truth = truth_cure(kind, text, path);
                truth
                    .or_else(|| known.map(str::to_owned))
                    .or_else(|| text_cure(kind, text))
            }
            _ if known.is_some() => known.map(str::to_owned),
            Node::Bool(true) if upstream_tls => Some("write tls = {}".to_owned()),
            Node::Integer(_) | Node::Bool(_) if takes(kind, is_plain_text) => {
                Some(format!("write \"{}\"", item.at.text()))
            }
            Node::Integer(Some(port)) if takes(kind, is_address) => {
                Some(format!("write \"127.0.0.1:{port}\""))
            }
            Node::List(_) => match kind {
                Kind::Tables(by, _) => {
                    let header = path.replace('*', "\"example.com\"");
                    Some(format!(
                        "write [{header}.{}], with single brackets",
                        by.sample()
                    ))
                }
                _ => None,
            },
            _ => None,
        };
        found.unwrap_or_else(|| match (kind, example(path)) {
            (Kind::Word(words), _) => format!("write {}", quoted(words)),
            (_, Some(example)) if !example.is_empty() => format!("for example {example}"),
            _ => String::new(),
        })
    }

    pub(super) fn unknown_word(&mut self, kind: &Kind, item: &Item) -> Value {
        let words = words(kind);
        let Node::Text(text) = &item.node else {
            return Value::Invalid;
        };
        let near = newcomers::other_word(&words, &text.value)
            .or_else(|| newcomers::nearest(&text.value, words.iter().copied()))
            .filter(|_| !text.is_secret());
        if let Some(cure) = newcomers::later_word(&words, &text.value).filter(|_| !text.is_secret())
        {
            let message = format!("{:?} is not in this version", text.raw);
            self.report
                .push_at(Code::NotYet, &item.at, message, "it will come later", cure);
            return Value::Invalid;
        }
        let number = !text.is_secret() && fits_integer(kind) && text.value.parse::<u64>().is_ok();
        let table = newcomers::table_for(&words, &text.value).filter(|_| !text.is_secret());
        let cure = match (table, near) {
            (Some(table), _) => table.to_owned(),
            (None, Some(near)) => format!("did you mean \"{near}\"?"),
            (None, None) if number => format!("write {} without quotes", text.value),
            (None, None) => format!("write {}", expected(kind)),
        };
        let message = format!("{:?} is not known here", text.raw);
        self.report.push_at(
            Code::UnknownWord,
            &item.at,
            message,
            format!("expected {}", expected(kind)),
            cure,
        );
        Value::Invalid
    }
}

/// What is written without quotes, and what else could stand there.
fn truth_cure(kind: &Kind, text: &Text, path: &str) -> Option<String> {
    let truth = truth(&text.value).filter(|_| !text.is_secret())?;
    takes(kind, |kind| {
        matches!(kind, Kind::Bool) || !truth && matches!(kind, Kind::False)
    })
    .then_some(())?;
    let quotes = if text.value == truth.to_string() {
        " without quotes"
    } else {
        ""
    };
    let other = example(path).filter(|example| example.starts_with('"'));
    let other = other.map_or_else(String::new, |other| format!(", or for example {other}"));
    Some(format!("write {truth}{quotes}{other}"))
}

/// What a text was meant to be where no text can stand.
fn text_cure(kind: &Kind, text: &Text) -> Option<String> {
    if let Some(Kind::List { of, .. }) = kinds(kind)
        .iter()
        .find(|kind| matches!(kind, Kind::List { .. }))
    {
        let network = matches!(of, Kind::Network)
            .then(|| network_cure(&text.value))
            .flatten();
        // Lists of other servers have commas or spaces in one text.
        let parts = text.value.split([',', ' ']).filter(|part| !part.is_empty());
        let parts = parts.map(|part| format!("{part:?}")).collect::<Vec<_>>();
        let cure = match network {
            _ if text.is_secret() || parts.is_empty() => format!("write [{:?}]", text.raw),
            Some(network) => network,
            None => format!("write [{}]", parts.join(", ")),
        };
        return Some(cure);
    }
    let value = &*text.value;
    match value.parse::<u64>() {
        _ if text.is_secret() => None,
        Err(_) if takes(kind, |kind| matches!(kind, Kind::Body)) => {
            let (status, reason) = value.split_once(' ')?;
            Some(format!(
                "write {status} for the status, or {{ status = {status}, body = {reason:?} }}"
            ))
        }
        Ok(_) if takes(kind, |kind| matches!(kind, Kind::Body)) => Some(format!(
            "write {value} without quotes for the status; a body is {{ body = \"{value}\" }}"
        )),
        Err(_) => match value.strip_suffix('%')?.trim_end().parse::<u64>() {
            Ok(number) if fits_integer(kind) => Some(format!("write {number}, without %")),
            _ => None,
        },
        Ok(_) => Some(format!("write {value} without quotes")),
    }
}

fn is_off(kind: &Kind) -> bool {
    matches!(kind, Kind::Word(["off"]))
}

/// What people write for no limit.
fn means_off(node: &Node) -> bool {
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
        Node::Integer(Some(number)) => *number <= 0,
        Node::Bool(false) => true,
        Node::Text(text) => !text.is_secret() && NONE.contains(&&*text.value),
        _ => false,
    }
}

/// Whether no limit is meant by a value that is none.
pub(super) fn unlimited(kinds: &[Kind], node: &Node) -> bool {
    kinds.iter().any(is_off) && means_off(node)
}

/// Whether a text that could be of kind `chosen` was surely meant as another of `kinds`.
pub(super) fn misread(kinds: &[Kind], chosen: &Kind, text: &Text) -> bool {
    let has = |is: fn(&Kind) -> bool| kinds.iter().any(is);
    if text.is_secret() || matches!(chosen, Kind::FieldValue | Kind::Line) {
        return false;
    }
    let status = matches!(chosen, Kind::Body)
        && kinds
            .iter()
            .any(|kind| match (kind, status_in(&text.value)) {
                (Kind::Integer { min, max }, Some(number)) => (*min..=*max).contains(&number),
                _ => false,
            });
    let truth = !matches!(chosen, Kind::Body) && truth(&text.value).is_some();
    status || truth && has(|kind| matches!(kind, Kind::Bool | Kind::False))
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

/// What people write for true and false.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "enable" | "enabled" => Some(true),
        "false" | "no" | "off" | "none" | "disable" | "disabled" => Some(false),
        _ => None,
    }
}

fn given(node: &Node) -> Given {
    match node {
        Node::Bool(true) => Given::True,
        Node::Integer(_) => Given::Number,
        Node::Text(_) => Given::Text,
        Node::List(_) => Given::List,
        Node::Table(_) => Given::Table,
        _ => Given::Any,
    }
}

/// The alternatives of a kind.
fn kinds(kind: &Kind) -> &[Kind] {
    match kind {
        Kind::Either(kinds) => kinds,
        one => std::slice::from_ref(one),
    }
}

fn takes(kind: &Kind, is: impl Fn(&Kind) -> bool) -> bool {
    kinds(kind).iter().any(is)
}

fn is_plain_text(kind: &Kind) -> bool {
    matches!(kind, Kind::FieldValue | Kind::Line | Kind::Body)
}

fn is_address(kind: &Kind) -> bool {
    matches!(kind, Kind::Listener | Kind::Endpoint | Kind::Target)
}

fn fits_integer(kind: &Kind) -> bool {
    takes(kind, |kind| matches!(kind, Kind::Integer { .. }))
}

fn words(kind: &Kind) -> Vec<&'static str> {
    match kind {
        Kind::Word(words) => words.to_vec(),
        Kind::Either(kinds) => kinds.iter().flat_map(words).collect(),
        _ => Vec::new(),
    }
}
