//! Values by names that the user chooses: fields, statuses, endings, servers.

use serde_json::{Value as Json, json};
use std::fmt::Debug;
use std::net::Ipv4Addr;

use lockgate_http::h1::parse::is_token;
use lockgate_rules::HostPattern;

use crate::check::{Checker, unquoted};
use crate::codes::Code;
use crate::document::{self, Entry as Written, Item, Node};
use crate::host::{HostError, parse_host};
use crate::keys::{self, Names, Row};
use crate::place::At;
use crate::schema;

use super::cache_policy::is_cached_key;
use super::field::{foreign_change, untouchable};
use super::served_path::is_file_type_key;
use super::{Language, Syntax, Table};

/// Values of one language by names, beside keys of a meaning of their own.
pub(crate) struct Map<L> {
    pub(crate) names: Names,
    pub(crate) of: L,
    pub(crate) beside: &'static [Row],
}

/// What stands in a map.
#[derive(Debug, Clone)]
pub(crate) struct MapOf<T> {
    pub(crate) entries: Vec<Named<T>>,
    /// The keys of a meaning of their own.
    pub(crate) beside: Table,
}

/// One value of a map.
#[derive(Debug, Clone)]
pub(crate) struct Named<T> {
    pub(crate) name: String,
    pub(crate) name_at: At,
    /// Nothing where it was a mistake.
    pub(crate) value: Option<T>,
    pub(crate) at: At,
}

impl<L: Language> Syntax for Map<L> {
    fn expected(&self) -> String {
        let names = match self.names {
            Names::Errors => "statuses",
            Names::Attributes => "attributes",
            Names::Cached => "paths and media types",
            Names::FileTypes => "endings and paths",
            Names::Servers => "names of servers",
            Names::Protocols => "protocols",
            Names::AnswerFields | Names::RequestFields => "names of fields",
        };
        format!("a table of {names}, each with {}", self.of.expected())
    }

    fn schema(&self) -> Json {
        let mut map = json!({ "type": "object", "additionalProperties": self.of.schema() });
        if !self.beside.is_empty() {
            map["properties"] = schema::table(self.beside)["properties"].take();
        }
        map
    }

    fn takes(&self, node: &Node) -> bool {
        matches!(node, Node::Table(_))
    }

    fn table(&self) -> Option<&'static [Row]> {
        if !self.beside.is_empty() {
            return Some(self.beside);
        }
        self.leads().and_then(|_| self.of.table())
    }

    fn listed_table(&self) -> Option<&'static [Row]> {
        self.leads().and_then(|_| self.of.listed_table())
    }

    fn leads(&self) -> Option<Names> {
        Some(self.names).filter(|names| names.lead())
    }
}

impl<L: Language> Language for Map<L> {
    type Value = MapOf<L::Value>;

    fn read(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Self::Value> {
        let Node::Table(branch) = &item.node else {
            return checker.wrong_type(self, item, path);
        };
        let mut map = MapOf {
            entries: Vec::new(),
            beside: Table::default(),
        };
        let mut seen: Vec<(&str, &At)> = Vec::new();
        for (name, written) in &branch.entries {
            if self.lacks_quotes(written, path, checker) {
                continue;
            }
            let known = keys::find(self.beside, name);
            if known.is_none() && !self.is_key(name, written, checker) {
                continue;
            }
            let same = |(one, _): &&(&str, &At)| one.eq_ignore_ascii_case(name);
            if let Some((_, first)) = seen.iter().find(same) {
                document::duplicate(checker.report, &written.key_at, Some(first));
                continue;
            }
            seen.push((name, &written.key_at));
            if let Some(row) = known {
                let entry = checker.entry(row, written, &format!("{path}.{name}"));
                map.beside.entries.insert(row.name, entry);
                continue;
            }
            let inner = if self.names.lead() { "*" } else { name };
            let value = checker.value(&self.of, &written.item, &format!("{path}.{inner}"));
            map.entries.push(Named {
                name: name.clone(),
                name_at: written.key_at.clone(),
                value,
                at: written.item.at.clone(),
            });
        }
        Some(map)
    }
}

impl<L: Language> Map<L> {
    /// Whether the name of a server lacks its quotes, which is reported.
    fn lacks_quotes(&self, written: &Written, path: &str, checker: &mut Checker<'_>) -> bool {
        let (Names::Servers, Node::Table(inner)) = (self.names, &written.item.node) else {
            return false;
        };
        let dotted = unquoted::dotted(self.of.table().unwrap_or_default(), inner);
        let section = path.rsplit('.').next().unwrap_or(path);
        for one in &dotted {
            checker.unquoted_name(one, section);
        }
        !dotted.is_empty()
    }

    /// Whether a name may stand here; else it is reported.
    fn is_key(&self, name: &str, written: &Written, checker: &mut Checker<'_>) -> bool {
        let at = &written.key_at;
        match self.names {
            Names::FileTypes => is_file_type_key(name, at, checker),
            Names::Cached => is_cached_key(name, at, checker),
            Names::Attributes => is_attribute(name, at, checker),
            Names::Servers => is_server_name(name, at, checker),
            Names::Protocols => is_protocol(name, at, checker),
            Names::Errors => is_error_status(name, at, checker),
            Names::AnswerFields | Names::RequestFields => {
                is_changeable_field(self.names, name, at, checker)
            }
        }
    }
}

/// What HTML takes for the name of an attribute, in ASCII.
fn is_attribute(name: &str, at: &At, checker: &mut Checker<'_>) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | '@');
    if !name.is_empty() && name.chars().all(plain) {
        return true;
    }
    let message = format!("{name:?} is not the name of an attribute");
    let cure = "letters, digits and `-`, such as \"data-id\"";
    checker.report.push_at(
        Code::BadText,
        at,
        message,
        "it holds what a name must not",
        cure,
    );
    false
}

/// A name that clients can ask for (RFC 6066 §3): no address.
fn is_server_name(name: &str, at: &At, checker: &mut Checker<'_>) -> bool {
    let (why, cure) = match parse_host(name) {
        Ok(HostPattern::Exact(host)) if host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok() => (
            "clients ask for no address in TLS",
            "write it as `default`".to_owned(),
        ),
        Ok(_) => return true,
        Err(HostError::Star) => (
            "every other name is meant by `default`",
            "write default = \"…\"".to_owned(),
        ),
        Err(HostError::Port) => {
            let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
            ("the port is that of the table", format!("write {host:?}"))
        }
        Err(error) => (
            error.reason(),
            "write \"example.com\" or \"*.example.com\"".to_owned(),
        ),
    };
    let message = format!("{name:?} is not the name of a server");
    checker
        .report
        .push_at(Code::BadHost, at, message, why, cure);
    false
}

/// RFC 7301 §3.1: from 1 to 255 bytes.
fn is_protocol(name: &str, at: &At, checker: &mut Checker<'_>) -> bool {
    if (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return true;
    }
    let message = format!("{name:?} is not a protocol of ALPN");
    let why = "it is empty, longer than 255 bytes or not in ASCII without spaces";
    checker.report.push_at(
        Code::BadText,
        at,
        message,
        why,
        "for example \"acme-tls/1\"",
    );
    false
}

fn is_error_status(name: &str, at: &At, checker: &mut Checker<'_>) -> bool {
    if name.len() == 3
        && name
            .parse()
            .is_ok_and(|status: u16| (400..600).contains(&status))
    {
        return true;
    }
    let message = format!("{name:?} is not the status of an error");
    let cure = match name {
        "4xx" => "write each status: 400, 403, 404",
        "5xx" => "write each status: 500, 502, 503, 504",
        _ => "write a status from 400 to 599",
    };
    checker
        .report
        .push_at(Code::OutOfRange, at, message, "", cure);
    false
}

fn is_changeable_field(names: Names, name: &str, at: &At, checker: &mut Checker<'_>) -> bool {
    let name = name.to_ascii_lowercase();
    if !is_token(name.as_bytes()) {
        let message = format!("{name:?} is not the name of a field");
        let plain = name.trim_end_matches([':', ' ']);
        let cure = match is_token(plain.as_bytes()) {
            true => format!("write {plain}, without the colon"),
            false => "letters, digits and `-`, without the colon".to_owned(),
        };
        checker.report.push_at(
            Code::BadField,
            at,
            message,
            "it holds what a name must not",
            cure,
        );
        return false;
    }
    if let Some((why, cure)) = foreign_change(&name) {
        let message = format!("`{name}` would be the name of a field");
        checker
            .report
            .push_at(Code::BadField, at, message, why, cure);
        return false;
    }
    let Some(why) = untouchable(names, &name) else {
        return true;
    };
    let message = format!("`{name}` is not to be changed");
    checker
        .report
        .push_at(Code::BadField, at, message, why, "remove it");
    false
}
