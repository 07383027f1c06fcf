//! Tables and values by keys that the user chooses: addresses, hosts, paths, names, fields,
//! statuses.

use std::net::Ipv4Addr;

use crate::address::ListenAddr;
use crate::codes::Code;
use crate::document::{Branch, Entry, Node, Text};
use crate::host::{Host, HostError, SiteKey};
use crate::keys::{self, By, Key, Kind, Names};
use crate::pattern::{PathKey, is_param, is_token};
use crate::place::At;

use super::cures::{host_cure, means_every, path_cure};
use super::places::join;
use super::{Checked, Checker, Table, Value, unquoted};

/// One table and the key that it has.
#[derive(Debug, Clone)]
pub(crate) struct Keyed {
    /// The key as written.
    pub(crate) name: String,
    pub(crate) id: Id,
    pub(crate) at: At,
    pub(crate) table: Table,
}

/// What the key of a table means.
#[derive(Debug, Clone)]
pub(crate) enum Id {
    Address(ListenAddr),
    Site(SiteKey),
    Path(PathKey),
    Name,
}

/// One value of a map.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) at: At,
    pub(crate) value: Checked,
}

impl Checker<'_> {
    pub(super) fn tables(
        &mut self,
        by: By,
        keys: &'static [Key],
        branch: &Branch,
        path: &str,
    ) -> Value {
        let mut tables = Vec::new();
        for (name, entry) in &branch.entries {
            let Node::Table(inner) = &entry.item.node else {
                self.no_key(by, keys, name, entry, path);
                continue;
            };
            let dotted = unquoted::dotted(keys, inner);
            if !dotted.is_empty() {
                let found = dotted
                    .iter()
                    .filter_map(|dotted| self.unquoted_table(by, keys, dotted, path));
                tables.extend(found.collect::<Vec<_>>());
            }
            let inner = &if dotted.is_empty() {
                inner.clone()
            } else {
                unquoted::others(keys, inner)
            };
            if !dotted.is_empty() && inner.entries.is_empty() {
                continue;
            }
            // The keys inside are checked even when that of the table cannot be read.
            let table = self.table(keys, inner, &join(path, "*"), Some(&entry.key_at));
            if let Some(id) = self.id(by, name, &entry.key_at) {
                tables.push(Keyed {
                    name: name.clone(),
                    id,
                    at: entry.key_at.clone(),
                    table,
                });
            }
        }
        Value::Tables(tables)
    }

    fn id(&mut self, by: By, name: &str, at: &At) -> Option<Id> {
        if name.contains("${") {
            let message = format!("{name:?} is kept as text");
            let why = "`${…}` is replaced in values, not in keys";
            self.report.push_at(
                Code::BadText,
                at,
                message,
                why,
                "write the host, port or name itself",
            );
            return None;
        }
        match by {
            By::Address => self.listener_key(name, at).map(Id::Address),
            By::Site => self.site_key(name, at).map(Id::Site),
            By::Path => match PathKey::parse(name) {
                Ok(key) => {
                    self.foreign_parameter(name, at);
                    Some(Id::Path(key))
                }
                Err(error) => {
                    let message = format!("{name:?} is not a path to route by");
                    self.report.push_at(
                        Code::BadPath,
                        at,
                        message,
                        error.reason(),
                        path_cure(error, name),
                    );
                    None
                }
            },
            By::Name => {
                if is_table_name(name) {
                    return Some(Id::Name);
                }
                let message = format!("{name:?} is not a name");
                let why = "a name has letters, digits, `-`, `_` and dots, at most 64";
                self.report
                    .push_at(Code::BadText, at, message, why, "for example `app`");
                None
            }
        }
    }

    /// `:id` and `<id>` match themselves, but hardly any path has such a segment.
    fn foreign_parameter(&mut self, name: &str, at: &At) {
        let Some((segment, param)) = name.split('/').find_map(|segment| {
            let inner = segment
                .strip_prefix('<')
                .and_then(|rest| rest.strip_suffix('>'));
            let param = inner
                .or_else(|| segment.strip_prefix(':'))
                .filter(|param| is_param(param))?;
            Some((segment, param))
        }) else {
            return;
        };
        let message = format!("`{segment}` matches only itself");
        let cure = format!("write {:?}", name.replace(segment, &format!("{{{param}}}")));
        self.report.push_at(
            Code::LeftAsItIs,
            at,
            message,
            "a parameter stands in braces",
            cure,
        );
    }

    fn site_key(&mut self, name: &str, at: &At) -> Option<SiteKey> {
        match SiteKey::parse(name) {
            Ok(SiteKey::Implied(host) | SiteKey::Port(host, _)) if means_every(&host).is_some() => {
                let cure = match name
                    .rsplit_once(':')
                    .filter(|(_, port)| port.parse::<u16>().is_ok())
                {
                    Some((_, port)) => format!("write \":{port}\""),
                    None => "write \":443\" with tls, or \":80\"".to_owned(),
                };
                let message = format!("{name:?} is not the key of a site");
                self.report.push_at(
                    Code::BadHost,
                    at,
                    message,
                    means_every(&host).unwrap_or_default(),
                    cure,
                );
                None
            }
            Ok(SiteKey::Unix(path)) => Some(SiteKey::Unix(self.rooted(name, &path, "unix:", at))),
            Ok(key) => Some(key),
            Err(error) => {
                let message = format!("{name:?} is not the key of a site");
                let cure = host_cure(error, Some(name));
                self.report
                    .push_at(Code::BadHost, at, message, error.reason(), cure);
                None
            }
        }
    }

    fn no_key(&mut self, by: By, keys: &'static [Key], name: &str, entry: &Entry, path: &str) {
        if matches!(entry.item.node, Node::Broken) {
            return;
        }
        let section = path.rsplit('.').next().unwrap_or(path);
        let (table, key) = match by {
            By::Address => ("listener", "address"),
            By::Site => ("site", "host or port"),
            By::Path => ("path", "path"),
            By::Name if section == "pool" => ("pool", "name"),
            By::Name => ("value", "name"),
        };
        let message = match keys::find(keys, name) {
            Some(_) => format!("`{name}` stands in no {table}"),
            None => format!("`{name}` is not a table"),
        };
        let header = path.replace('*', "\"example.com\"");
        // A name that no key has may be the one that belongs there.
        let sample = match keys::find(keys, name) {
            None if takes(by, name) => format!("{name:?}"),
            _ => by.sample().to_owned(),
        };
        let cure = format!("write the {key} into the header: [{header}.{sample}]");
        let why = format!("[{section}] holds one table for each {key}");
        self.report
            .push_at(Code::WrongType, &entry.key_at, message, why, cure);
    }

    pub(super) fn map(
        &mut self,
        names: Names,
        of: &Kind,
        beside: &'static [Key],
        branch: &Branch,
        path: &str,
    ) -> Value {
        let mut map: Vec<Named> = Vec::new();
        for (name, entry) in &branch.entries {
            if let (Names::Servers, Node::Table(inner)) = (names, &entry.item.node) {
                let dotted = unquoted::dotted(of.table().unwrap_or_default(), inner);
                let section = path.rsplit('.').next().unwrap_or(path);
                if !dotted.is_empty() {
                    dotted
                        .iter()
                        .for_each(|dotted| self.unquoted_name(dotted, section));
                    continue;
                }
            }
            let known = keys::find(beside, name);
            let of = known.map_or(of, |key| &key.kind);
            if known.is_none() && !self.map_key(names, name, entry) {
                continue;
            }
            if let Some(first) = map.iter().find(|one| one.name.eq_ignore_ascii_case(name)) {
                let first = first.at.clone();
                crate::document::duplicate(self.report, &entry.key_at, Some(&first));
                continue;
            }
            let inner = if names.lead() { "*" } else { name };
            let value = self.value(of, &entry.item, &join(path, inner));
            let value = Checked {
                value,
                at: entry.item.at.clone(),
            };
            map.push(Named {
                name: name.clone(),
                at: entry.key_at.clone(),
                value,
            });
        }
        Value::Map(map)
    }

    fn map_key(&mut self, names: Names, name: &str, entry: &Entry) -> bool {
        let at = &entry.key_at;
        match names {
            Names::FileTypes => return self.file_type_key(name, at),
            Names::Cached => return self.cached_key(name, at),
            Names::Attributes => return self.attribute(name, at),
            Names::Servers => return self.server_name(name, at),
            Names::Protocols => return self.protocol_name(name, at),
            _ => {}
        }
        if names == Names::Errors {
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
            self.report.push_at(Code::OutOfRange, at, message, "", cure);
            return false;
        }
        let name = name.to_ascii_lowercase();
        if !is_token(&name) {
            let message = format!("{name:?} is not the name of a field");
            let plain = name.trim_end_matches([':', ' ']);
            let cure = match is_token(plain) {
                true => format!("write {plain}, without the colon"),
                false => "letters, digits and `-`, without the colon".to_owned(),
            };
            self.report.push_at(
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
            self.report.push_at(Code::BadField, at, message, why, cure);
            return false;
        }
        let Some(why) = untouchable(names, &name) else {
            return true;
        };
        let message = format!("`{name}` is not to be changed");
        self.report
            .push_at(Code::BadField, at, message, why, "remove it");
        false
    }

    /// The name of a field that requests get from elsewhere.
    pub(super) fn request_field(&mut self, text: &Text, at: &At) -> Value {
        let name = text.value.to_ascii_lowercase().replace('_', "-");
        let why = match () {
            () if !is_token(&name) => Some("it holds what a name must not"),
            () => untouchable(Names::RequestFields, &name).or_else(|| ours(&name)),
        };
        let Some(why) = why else {
            return Value::Text(text.value.clone());
        };
        let message = format!("{:?} is not a field to be copied", text.raw);
        self.invalid(
            Code::BadField,
            at,
            message,
            why,
            "name another, such as \"remote-user\"".to_owned(),
        )
    }

    /// What HTML takes for the name of an attribute, in ASCII.
    fn attribute(&mut self, name: &str, at: &At) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | '@');
        if !name.is_empty() && name.chars().all(plain) {
            return true;
        }
        let message = format!("{name:?} is not the name of an attribute");
        let cure = "letters, digits and `-`, such as \"data-id\"";
        self.report.push_at(
            Code::BadText,
            at,
            message,
            "it holds what a name must not",
            cure,
        );
        false
    }

    /// A name that clients can ask for (RFC 6066 §3): no address.
    fn server_name(&mut self, name: &str, at: &At) -> bool {
        let (why, cure) = match Host::parse(name) {
            Ok(Host::Exact(host)) if host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok() => (
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
        self.report.push_at(Code::BadHost, at, message, why, cure);
        false
    }

    /// RFC 7301 §3.1: from 1 to 255 bytes.
    fn protocol_name(&mut self, name: &str, at: &At) -> bool {
        if (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return true;
        }
        let message = format!("{name:?} is not a protocol of ALPN");
        let why = "it is empty, longer than 255 bytes or not in ASCII without spaces";
        self.report.push_at(
            Code::BadText,
            at,
            message,
            why,
            "for example \"acme-tls/1\"",
        );
        false
    }

    pub(super) fn site_host(&mut self, text: &Text, at: &At) -> Value {
        let error = match Host::parse(&text.value) {
            Ok(host) => return Value::Host(host),
            Err(error) => error,
        };
        let message = format!("{:?} is not a host", text.raw);
        let cure = host_cure(
            error,
            if text.is_secret() {
                None
            } else {
                Some(&text.value)
            },
        );
        self.report
            .push_at(Code::BadHost, at, message, error.reason(), cure);
        Value::Invalid
    }
}

/// Whether a name is surely the key of a table.
fn takes(by: By, name: &str) -> bool {
    match by {
        By::Address => ListenAddr::parse(name).is_ok(),
        By::Site => name.contains(['.', ':']) && SiteKey::parse(name).is_ok(),
        By::Path => PathKey::parse(name).is_ok(),
        By::Name => false,
    }
}

/// Whether a table can be called so, as `[pool.NAME]` and `[values.NAME]`.
pub(crate) fn is_table_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

/// What the verbs and signs of other servers change in fields, as it is written here.
fn foreign_change(name: &str) -> Option<(&'static str, String)> {
    const VERBS: [&str; 7] = [
        "add", "set", "remove", "delete", "append", "replace", "hide",
    ];
    if VERBS.contains(&name) {
        let cure = "write headers = { x-name = \"value\", server = false }; { add = \"value\" } as the value adds one";
        return Some((
            "fields stand by their own names, without a verb",
            cure.to_owned(),
        ));
    }
    let plain = name.trim_start_matches(['-', '+', '>', '?']);
    let cure = match name.chars().next()? {
        _ if plain.is_empty() => return None,
        '-' => format!("write {plain} = false, which removes it"),
        '+' => format!("write {plain} = {{ add = \"value\" }}"),
        _ => return None,
    };
    Some(("no sign stands before the name of a field", cure))
}

/// Why a field is left to the server: framing (RFC 9112 §6) and what belongs to one connection
/// (RFC 9110 §7.6.1).
fn untouchable(names: Names, name: &str) -> Option<&'static str> {
    match name {
        "content-length" | "transfer-encoding" => Some("it says where a message ends"),
        "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "upgrade"
        | "http2-settings" => Some("it belongs to one connection, not to the message"),
        "host" if names == Names::AnswerFields => Some("answers have no such field"),
        _ => None,
    }
}

/// Why nobody but the server says what is in a field of a request that is sent on.
fn ours(name: &str) -> Option<&'static str> {
    match name {
        "host" | "expect" | "max-forwards" | "via" => {
            Some("it says where the request goes and how")
        }
        "forwarded" | "x-request-id" => Some("it is made anew for every request"),
        name if name.starts_with("x-forwarded-") => Some("it is made anew for every request"),
        _ => None,
    }
}
