//! Maps: values by names that the user chooses (fields, statuses, extensions, servers).

use std::fmt::Debug;
use std::net::Ipv4Addr;

use lockgate_http::h1::parse::is_token;
use lockgate_rules::HostPattern;
use serde_json::{Value as Json, json};

use crate::check::unquoted;
use crate::codes::Code;
use crate::document::{self, TomlEntry, TomlItem, TomlString, TomlValue};
use crate::host::{HostError, parse_host};
use crate::key_paths::join;
use crate::language::{KeyRow, Language, MapKeys, Notation, TreeChecker, find, table_schema};
use crate::source::SourceSpan;
use crate::table::CheckedTable;

use super::InvalidText;
use super::cache_policy::cached_key;
use super::field::{foreign_change, untouchable};
use super::otlp::sent_field;
use super::served_path::file_type_key;

/// A map with values of one language, and optionally keys of their own meaning.
pub(crate) struct Map<L> {
    pub(crate) names: MapKeys,
    pub(crate) of: L,
    pub(crate) beside: &'static [KeyRow],
}

/// The entries of a map.
#[derive(Debug, Clone)]
pub(crate) struct MapOf<T> {
    pub(crate) entries: Vec<MapEntry<T>>,
    /// The keys of their own meaning.
    pub(crate) beside: CheckedTable,
}

/// One value of a map.
#[derive(Debug, Clone)]
pub(crate) struct MapEntry<T> {
    pub(crate) name: String,
    pub(crate) name_at: SourceSpan,
    /// `None` if it was a mistake.
    pub(crate) value: Option<T>,
    pub(crate) at: SourceSpan,
}

impl<L: Language> Notation for Map<L> {
    fn expected(&self) -> String {
        let names = match self.names {
            MapKeys::Errors => "statuses",
            MapKeys::Attributes => "attributes",
            MapKeys::Cached => "paths and media types",
            MapKeys::FileTypes => "extensions and paths",
            MapKeys::Servers => "names of servers",
            MapKeys::Protocols => "protocols",
            MapKeys::AnswerFields
            | MapKeys::RequestFields
            | MapKeys::TestFields
            | MapKeys::SentFields => "names of fields",
        };
        format!("a table of {names}, each with {}", self.of.expected())
    }

    fn schema(&self) -> Json {
        let mut map = json!({ "type": "object", "additionalProperties": self.of.schema() });
        if !self.beside.is_empty() {
            map["properties"] = table_schema(self.beside)["properties"].take();
        }
        map
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Table(_))
    }

    fn table(&self) -> Option<&'static [KeyRow]> {
        if !self.beside.is_empty() {
            return Some(self.beside);
        }
        self.tables_by().and_then(|_| self.of.table())
    }

    fn listed_table(&self) -> Option<&'static [KeyRow]> {
        self.tables_by().and_then(|_| self.of.listed_table())
    }

    fn tables_by(&self) -> Option<MapKeys> {
        Some(self.names).filter(|names| names.lead())
    }
}

impl<L: Language> Language for Map<L> {
    type Value = MapOf<L::Value>;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<Self::Value> {
        let TomlValue::Table(branch) = &item.node else {
            return checker.wrong_type(self, item, path);
        };
        let mut map = MapOf {
            entries: Vec::new(),
            beside: CheckedTable::default(),
        };
        let mut seen: Vec<(&str, &SourceSpan)> = Vec::new();
        for (name, written) in &branch.entries {
            if self.lacks_quotes(written, path, checker) {
                continue;
            }
            let known = find(self.beside, name);
            if known.is_none()
                && let Err(mistake) = self.key(&TomlString::plain(name))
            {
                mistake.report::<()>(&written.key_at, checker);
                continue;
            }
            let same = |(one, _): &&(&str, &SourceSpan)| one.eq_ignore_ascii_case(name);
            if let Some((_, first)) = seen.iter().find(same) {
                document::duplicate(checker.report, &written.key_at, Some(first));
                continue;
            }
            seen.push((name, &written.key_at));
            if let Some(row) = known {
                let entry = checker.entry(row, written, &join(path, name));
                map.beside.entries.insert(row.name, entry);
                continue;
            }
            let inner = if self.names.lead() { "*" } else { name };
            let value = checker.value(&self.of, &written.item, &join(path, inner));
            map.entries.push(MapEntry {
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
    fn lacks_quotes(&self, written: &TomlEntry, path: &str, checker: &mut TreeChecker<'_>) -> bool {
        let (MapKeys::Servers, TomlValue::Table(inner)) = (self.names, &written.item.node) else {
            return false;
        };
        let dotted = unquoted::dotted_keys(self.of.table().unwrap_or_default(), inner);
        let section = path.rsplit('.').next().unwrap_or(path);
        for one in &dotted {
            checker.unquoted_name(one, section);
        }
        !dotted.is_empty()
    }

    /// Whether a name is a valid key of the map.
    fn key(&self, name: &TomlString) -> Result<(), InvalidText> {
        match self.names {
            MapKeys::FileTypes => file_type_key(name),
            MapKeys::Cached => cached_key(name),
            MapKeys::Attributes => attribute(name),
            MapKeys::Servers => server_name(name),
            MapKeys::Protocols => protocol(name),
            MapKeys::Errors => error_status(name),
            MapKeys::AnswerFields | MapKeys::RequestFields => changeable_field(self.names, name),
            MapKeys::TestFields => field_name(name),
            MapKeys::SentFields => sent_field(name),
        }
    }
}

/// An attribute name of HTML, in ASCII.
fn attribute(name: &TomlString) -> Result<(), InvalidText> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | '@');
    if !name.value.is_empty() && name.value.chars().all(plain) {
        return Ok(());
    }
    let cure = "letters, digits and `-`, such as \"data-id\"";
    Err(name.invalid(
        Code::BadText,
        "is not the name of an attribute",
        "it holds what a name must not",
        cure,
    ))
}

/// A name of SNI (RFC 6066 §3), which is never an IP address.
fn server_name(name: &TomlString) -> Result<(), InvalidText> {
    let value = &*name.value;
    let (why, cure) = match parse_host(value) {
        Ok(HostPattern::Exact(host))
            if host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok() =>
        {
            (
                "SNI never holds an IP address",
                "write it as `default`".to_owned(),
            )
        }
        Ok(_) => return Ok(()),
        Err(HostError::Star) => (
            "`default` is for all other names",
            "write default = \"…\"".to_owned(),
        ),
        Err(HostError::Port) => {
            let host = value.rsplit_once(':').map_or(value, |(host, _)| host);
            ("the port is that of the table", format!("write {host:?}"))
        }
        Err(error) => (
            error.reason(),
            "write \"example.com\" or \"*.example.com\"".to_owned(),
        ),
    };
    Err(name.invalid(Code::BadHost, "is not the name of a server", why, cure))
}

/// RFC 7301 §3.1: from 1 to 255 bytes.
fn protocol(name: &TomlString) -> Result<(), InvalidText> {
    let value = &*name.value;
    if (1..=255).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let why = "it is empty, longer than 255 bytes or not in ASCII without spaces";
    let cure = "for example \"acme-tls/1\"";
    Err(name.invalid(Code::BadText, "is not a protocol of ALPN", why, cure))
}

fn error_status(name: &TomlString) -> Result<(), InvalidText> {
    let value = &*name.value;
    if value.len() == 3
        && value
            .parse()
            .is_ok_and(|status: u16| (400..600).contains(&status))
    {
        return Ok(());
    }
    let cure = match value {
        "4xx" => "write each status: 400, 403, 404",
        "5xx" => "write each status: 500, 502, 503, 504",
        _ => "write a status from 400 to 599",
    };
    Err(name.invalid(Code::OutOfRange, "is not the status of an error", "", cure))
}

fn changeable_field(names: MapKeys, name: &TomlString) -> Result<(), InvalidText> {
    let name = TomlString::plain(&name.value.to_ascii_lowercase());
    field_name(&name)?;
    let value = &*name.value;
    let (message, why, cure) = match (foreign_change(value), untouchable(names, value)) {
        (Some((why, cure)), _) => (format!("`{value}` would be the name of a field"), why, cure),
        (None, Some(why)) => (
            format!("`{value}` is not to be changed"),
            why,
            "remove it".to_owned(),
        ),
        (None, None) => return Ok(()),
    };
    Err(InvalidText::new(Code::BadField, message, why, cure))
}

/// RFC 9110 §5.1.
fn field_name(name: &TomlString) -> Result<(), InvalidText> {
    let value = &*name.value;
    if !is_token(value.as_bytes()) {
        let plain = value.trim_end_matches([':', ' ']);
        let cure = match is_token(plain.as_bytes()) {
            true => format!("write {plain}, without the colon"),
            false => "letters, digits and `-`, without the colon".to_owned(),
        };
        let (message, why) = (
            "is not the name of a field",
            "it holds what a name must not",
        );
        return Err(name.invalid(Code::BadField, message, why, cure));
    }
    Ok(())
}
