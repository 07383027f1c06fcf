//! String values: what they mean for each kind of key, and what to say when they mean nothing.
//!
//! No message shows a value that came from `${env:…}` or `${file:…}`: only `Text::raw` is printed,
//! and suggestions made from the value are given for plain text alone.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::address::{AddressError, ListenAddr, is_name};
use crate::codes::Code;
use crate::document::{Item, Text};
use crate::keys::Kind;
use crate::model::{EndpointAddr, Group, Suite, TlsVersion};
use crate::newcomers;
use crate::place::At;
use crate::units::{self, UnitError};

use super::{Checker, Value, expected};

impl Checker<'_> {
    pub(super) fn text(&mut self, kind: &Kind, text: &Text, item: &Item) -> Value {
        match kind {
            Kind::Word(words) => match words.iter().find(|word| **word == text.value) {
                Some(word) => Value::Word(word),
                None => self.unknown_word(kind, item),
            },
            Kind::Duration { min } => self.duration(text, *min, &item.at),
            Kind::Size { min, max } => self.size(text, *min, *max, &item.at),
            Kind::Name => self.name(text, &item.at),
            Kind::Host => self.host(text, &item.at),
            Kind::Path | Kind::Pattern => self.path(text, &item.at),
            Kind::LogFile => self.log_file(text, &item.at),
            Kind::FormattedLog => self.formatted_log(text, &item.at),
            Kind::Listener => match self.listener(text, &item.at) {
                Some(addr) => Value::Listener(addr),
                None => Value::Invalid,
            },
            Kind::Endpoint => self.endpoint(text, &item.at),
            Kind::Target => match text.value.strip_prefix("pool:") {
                Some(name) if !text.is_secret() => Value::Pool(name.to_owned()),
                _ => self.endpoint(text, &item.at),
            },
            Kind::Ip => self.ip(text, &item.at),
            Kind::SiteHost => self.site_host(text, &item.at),
            Kind::Rate => self.rate(text, &item.at),
            Kind::Percent => self.percent(text, &item.at),
            Kind::Frequency => self.frequency(text, &item.at),
            Kind::Allowance => self.allowance(text, &item.at),
            Kind::Limit => self.limit(text, &item.at),
            Kind::LimitKey => self.limit_key(text, &item.at),
            Kind::HashKey => self.hash_key(text, &item.at),
            Kind::StickyKey => self.sticky_key(text, &item.at),
            Kind::Statuses { from } => self.statuses(text, *from, &item.at),
            Kind::UrlPath => self.url_path(text, &item.at),
            Kind::Method => self.method(text, &item.at),
            Kind::Line => self.line(text, &item.at, "a text for one line"),
            Kind::FieldValue => self.line(text, &item.at, "the value of a field"),
            Kind::Body => Value::Text(text.value.clone()),
            Kind::Template => self.template(text, &item.at),
            Kind::FileName => self.file_name(text, &item.at),
            Kind::InsidePath => self.inside_path(text, &item.at),
            Kind::TryPath => self.try_path(text, &item.at),
            Kind::MediaType => self.media_type(text, &item.at),
            Kind::Token => self.token(text, &item.at),
            Kind::RequestField => self.request_field(text, &item.at),
            Kind::CachePolicy => self.cache_policy(text, &item.at),
            Kind::Age => self.age(text, &item.at),
            Kind::MediaRange => self.media_range(text, &item.at),
            Kind::Origin => self.origin(text, &item.at),
            Kind::HttpUrl => self.http_url(text, &item.at),
            Kind::Network => self.network(text, &item.at),
            Kind::TunnelRule => self.tunnel_rule(text, &item.at),
            Kind::Version => self.version(text, &item.at),
            Kind::Suite => self.suite(text, &item.at),
            Kind::Group => self.group(text, &item.at),
            _ => Value::Invalid,
        }
    }

    /// The key of a `[tcp]` table.
    pub(super) fn listener_key(&mut self, name: &str, at: &At) -> Option<ListenAddr> {
        let text = Text {
            raw: name.to_owned(),
            value: name.to_owned(),
        };
        self.listener(&text, at)
    }

    pub(super) fn invalid(
        &mut self,
        code: Code,
        at: &At,
        message: String,
        why: &str,
        cure: String,
    ) -> Value {
        self.report.push_at(code, at, message, why, cure);
        Value::Invalid
    }

    fn duration(&mut self, text: &Text, min: u64, at: &At) -> Value {
        match units::duration(&text.value) {
            Ok(duration) if duration.as_millis() < u128::from(min) => {
                let least = units::shortest(min);
                let message = format!("{:?} is too short", text.raw);
                self.invalid(
                    Code::OutOfRange,
                    at,
                    message,
                    "",
                    format!("write at least \"{least}\""),
                )
            }
            Ok(duration) => Value::Duration(duration),
            Err(error) => self.unit(
                error,
                text,
                at,
                "a duration",
                ("s", "\"10s\", \"500ms\", \"2m\", \"1h\" or \"1d\""),
            ),
        }
    }

    fn size(&mut self, text: &Text, min: u64, max: u64, at: &At) -> Value {
        match units::size(&text.value) {
            Ok(size) if size < min => {
                let message = format!("{:?} is too small", text.raw);
                self.invalid(
                    Code::OutOfRange,
                    at,
                    message,
                    "",
                    format!("write at least \"{}\"", units::smallest(min)),
                )
            }
            Ok(size) if size > max => {
                let message = format!("{:?} is too large", text.raw);
                let cure = format!("write at most \"{}\"", units::smallest(max));
                self.invalid(Code::OutOfRange, at, message, "", cure)
            }
            Ok(size) => Value::Size(size),
            Err(error) => self.unit(
                error,
                text,
                at,
                "a size",
                ("MB", "\"64KB\", \"100MB\", \"1GB\" or \"64KiB\""),
            ),
        }
    }

    pub(super) fn unit(
        &mut self,
        error: UnitError,
        text: &Text,
        at: &At,
        what: &str,
        (unit, forms): (&str, &str),
    ) -> Value {
        let digits: String = text
            .value
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let message = format!("{:?} is not {what}", text.raw);
        let general = format!("write a whole number and a unit: {forms}");
        let shown = |cure: String| {
            if text.is_secret() {
                general.clone()
            } else {
                cure
            }
        };
        let whole = units::whole(&text.value, unit)
            .map_or_else(|| general.clone(), |whole| format!("write \"{whole}\""));
        let (code, why, cure) = match error {
            UnitError::NoUnit => (
                Code::Unit,
                "the unit is missing",
                shown(readings(&digits, unit)),
            ),
            UnitError::NoNumber => (Code::Unit, "the number is missing", general.clone()),
            UnitError::Unknown { meant: Some(meant) } => {
                let every = if unit == "KB/s" { "/s" } else { "" };
                (
                    Code::Unit,
                    "this unit is not known",
                    shown(format!("write \"{digits}{meant}{every}\"")),
                )
            }
            UnitError::Unknown { meant: None } => {
                (Code::Unit, "this unit is not known", shown(whole))
            }
            UnitError::NotWhole if text.value.starts_with('-') => {
                (Code::OutOfRange, "it is less than nothing", general.clone())
            }
            UnitError::NotWhole => (Code::Unit, "only whole numbers are read", shown(whole)),
            UnitError::TooLarge => (Code::OutOfRange, "it is too large", general.clone()),
        };
        self.invalid(code, at, message, why, cure)
    }

    fn name(&mut self, text: &Text, at: &At) -> Value {
        let bad = |c: char| c.is_whitespace() || c.is_control();
        let why = match &*text.value {
            "" => "it is empty",
            value if value.len() > 255 => "it is longer than 255 bytes",
            value if value.contains(bad) => "it holds a space or a control character",
            value => return Value::Text(value.to_owned()),
        };
        self.invalid(
            Code::BadText,
            at,
            format!("{:?} is not a name", text.raw),
            why,
            String::new(),
        )
    }

    fn host(&mut self, text: &Text, at: &At) -> Value {
        if is_name(&text.value) || text.value.parse::<IpAddr>().is_ok() {
            return Value::Text(text.value.clone());
        }
        let message = format!("{:?} is not a host name", text.raw);
        let why = "a name has letters, digits, `-` and dots, and no port";
        self.invalid(
            Code::BadText,
            at,
            message,
            why,
            "for example \"app.internal\"".to_owned(),
        )
    }

    fn path(&mut self, text: &Text, at: &At) -> Value {
        let why = match &*text.value {
            "" => "it is empty",
            value if value.contains('\0') => "it holds a NUL character",
            value if value.starts_with("~/") => "`~` is not replaced",
            _ => {
                self.shell_variable(text, at);
                return Value::Path(self.rooted(&text.raw, Path::new(&text.value), "", at));
            }
        };
        let cure = "write a path; a relative one starts from the folder of this file".to_owned();
        self.invalid(
            Code::BadText,
            at,
            format!("{:?} is not a path", text.raw),
            why,
            cure,
        )
    }

    /// `$CERT` is text here, but hardly the name of a file.
    fn shell_variable(&mut self, text: &Text, at: &At) {
        let Some((_, after)) = text.raw.split_once('$').filter(|_| !text.is_secret()) else {
            return;
        };
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(after.len());
        let name = after.get(..end).unwrap_or_default();
        if name.starts_with(|c: char| c.is_ascii_uppercase()) {
            let message = format!("`${name}` is kept as text");
            let cure = format!("write ${{env:{name}}} for a variable of the environment");
            self.report.push_at(
                Code::LeftAsItIs,
                at,
                message,
                "variables stand in ${env:NAME}",
                cure,
            );
        }
    }

    fn log_file(&mut self, text: &Text, at: &At) -> Value {
        let value = &*text.value;
        let before_slash = value.split('/').next().unwrap_or_default();
        if value.contains('/') && !before_slash.contains(':') {
            return self.path(text, at);
        }
        let message = format!("{:?} is not a place for a log", text.raw);
        let words = ["stdout", "stderr"];
        let near = if text.is_secret() {
            None
        } else {
            newcomers::nearest(value, words)
        };
        let cure = match near {
            Some(near) => format!("did you mean \"{near}\"?"),
            None if matches!(value, "off" | "none" | "no") => {
                "write false, without quotes".to_owned()
            }
            None => "write \"stdout\", \"stderr\" or a path with a `/`, such as \"./access.log\""
                .to_owned(),
        };
        self.invalid(
            Code::UnknownWord,
            at,
            message,
            "it is neither a known word nor a path",
            cure,
        )
    }

    /// A place for a log, after a format and a colon or alone.
    fn formatted_log(&mut self, text: &Text, at: &At) -> Value {
        let found = text.raw.split_once(':').zip(text.value.split_once(':'));
        let Some(((written, raw), (format, value))) = found else {
            return self.log_file(text, at);
        };
        let formats = ["json", "combined", "logfmt"];
        let Some(format) = formats
            .into_iter()
            .find(|one| *one == format && *one == written)
        else {
            return self.log_file(text, at);
        };
        let place = Text {
            raw: raw.to_owned(),
            value: value.to_owned(),
        };
        match ["stdout", "stderr"].into_iter().find(|word| *word == value) {
            Some(word) => Value::Log(format, Box::new(Value::Word(word))),
            None => match self.log_file(&place, at) {
                Value::Path(path) => {
                    // What is kept needs the format in front of the absolute path.
                    if let Some(absolute) = self.absolute.get_mut(&(at.source.order, at.span.start))
                    {
                        absolute.insert_str(0, &format!("{format}:"));
                    }
                    Value::Log(format, Box::new(Value::Path(path)))
                }
                invalid => invalid,
            },
        }
    }

    fn listener(&mut self, text: &Text, at: &At) -> Option<ListenAddr> {
        let error = match ListenAddr::parse(&text.value) {
            Ok(ListenAddr::Unix(path)) => {
                return Some(ListenAddr::Unix(self.rooted(&text.raw, &path, "unix:", at)));
            }
            Ok(addr) => return Some(addr),
            Err(error) => error,
        };
        let value = &*text.value;
        let port = value
            .rsplit(':')
            .next()
            .filter(|port| port.parse::<u16>().is_ok());
        let cure = match (error, port) {
            _ if text.is_secret() => LISTENERS.to_owned(),
            (AddressError::NoPort, Some(port)) => format!("write \":{port}\""),
            (AddressError::NoPort, None) => {
                "add the port: \"127.0.0.1:8443\", \"[::1]:8443\"".to_owned()
            }
            (AddressError::BadHost, Some(port)) if value.starts_with("*:") => {
                format!("write \":{port}\" for every address")
            }
            (AddressError::NameNotAddress, Some(port)) if value.starts_with("localhost:") => {
                format!("write \"127.0.0.1:{port}\" or \"[::1]:{port}\"")
            }
            (AddressError::BarePath, _) => format!("write \"unix:{value}\""),
            _ => LISTENERS.to_owned(),
        };
        let message = format!("{:?} is not an address to listen on", text.raw);
        self.report
            .push_at(Code::BadAddress, at, message, error.reason(), cure);
        None
    }

    fn endpoint(&mut self, text: &Text, at: &At) -> Value {
        let error = match EndpointAddr::parse(&text.value) {
            Ok(EndpointAddr::Unix(path)) => {
                return Value::Endpoint(EndpointAddr::Unix(
                    self.rooted(&text.raw, &path, "unix:", at),
                ));
            }
            Ok(addr) => return Value::Endpoint(addr),
            Err(error) => error,
        };
        if let (Some((provider, cure)), false) =
            (newcomers::later_provider(&text.value), text.is_secret())
        {
            let message = format!("`{provider}:` is not in this version");
            return self.invalid(
                Code::NotYet,
                at,
                message,
                "it will come later",
                cure.to_owned(),
            );
        }
        let message = format!("{:?} is not the address of an endpoint", text.raw);
        if let Some((why, cure)) = endpoint_with_more(&text.value).filter(|_| !text.is_secret()) {
            return self.invalid(Code::BadAddress, at, message, why, cure);
        }
        let cure = endpoint_cure(
            error,
            if text.is_secret() {
                None
            } else {
                Some(&text.value)
            },
        );
        self.invalid(Code::BadAddress, at, message, error.reason(), cure)
    }

    fn version(&mut self, text: &Text, at: &At) -> Value {
        if let Some(version) = TlsVersion::ALL
            .into_iter()
            .find(|version| version.name() == text.value)
        {
            return Value::Version(version);
        }
        let old = matches!(
            &*text.value.to_ascii_lowercase(),
            "1.0" | "1.1" | "tlsv1" | "tlsv1.0" | "tlsv1.1" | "sslv3"
        );
        let why = if old && !text.is_secret() {
            "it is broken and not offered"
        } else {
            "it is not known"
        };
        let message = format!("{:?} is not a version of TLS", text.raw);
        self.invalid(
            Code::UnknownWord,
            at,
            message,
            why,
            "write \"1.2\" or \"1.3\"".to_owned(),
        )
    }

    fn suite(&mut self, text: &Text, at: &At) -> Value {
        if let Some(suite) = Suite::parse(&text.value) {
            return Value::Suite(suite);
        }
        let names = Suite::ALL.map(Suite::name);
        let meant = Suite::from_openssl(&text.value).map(Suite::name);
        let meant = meant.or_else(|| newcomers::nearest(&text.value, names));
        let message = format!("{:?} is not a cipher suite", text.raw);
        let cure = match meant {
            Some(meant) if !text.is_secret() => format!("write \"{meant}\""),
            _ => format!("the suites are {}", names.join(", ")),
        };
        self.invalid(
            Code::UnknownWord,
            at,
            message,
            "no suite has this name",
            cure,
        )
    }

    fn group(&mut self, text: &Text, at: &At) -> Value {
        if let Some(group) = Group::ALL
            .into_iter()
            .find(|group| group.name() == text.value)
        {
            return Value::Group(group);
        }
        let names = Group::ALL.map(Group::name);
        let meant = Group::from_other(&text.value).map(Group::name);
        let meant = meant.or_else(|| newcomers::nearest(&text.value, names));
        let message = format!("{:?} is not a key exchange group", text.raw);
        let cure = match meant {
            Some(meant) if !text.is_secret() => format!("write \"{meant}\""),
            _ => format!("the groups are {}", names.join(", ")),
        };
        self.invalid(
            Code::UnknownWord,
            at,
            message,
            "no group has this name",
            cure,
        )
    }

    /// The path from the root on; notes how to write it so, for the configuration that is kept.
    pub(super) fn rooted(&mut self, raw: &str, path: &Path, scheme: &str, at: &At) -> PathBuf {
        let dir = &at.source.dir;
        if path.is_relative() {
            let written = raw.strip_prefix(scheme).unwrap_or(raw);
            let written = if scheme.is_empty() {
                written
            } else {
                written.trim_start_matches("//")
            };
            let absolute = format!("{scheme}{}", dir.join(written).display());
            self.absolute
                .insert((at.source.order, at.span.start), absolute);
        }
        dir.join(path)
    }
}

const LISTENERS: &str =
    "write \":8443\", \"127.0.0.1:8443\", \"[::1]:8443\" or \"unix:/run/lockgate.sock\"";

fn readings(digits: &str, unit: &str) -> String {
    let number = digits.parse();
    match (unit, number) {
        ("s", Ok(number)) => units::duration_readings(number),
        ("MB", Ok(number)) => units::size_readings(number),
        ("KB/s", _) => format!("write \"{digits}KB/s\""),
        ("%", _) => format!("write \"{digits}%\""),
        ("/s", _) => format!("write \"{digits}/s\", \"{digits}/m\" or \"{digits}/h\""),
        _ => format!("write \"{digits}{unit}\""),
    }
}

/// What to write instead; `value` only when it may be shown.
/// Several addresses in one text, or one with the options of other servers behind it.
fn endpoint_with_more(value: &str) -> Option<(&'static str, String)> {
    let mut parts = value.split([',', ' ', ';']).filter(|part| !part.is_empty());
    let first = parts
        .next()
        .filter(|first| EndpointAddr::parse(first).is_ok())?;
    let others: Vec<&str> = parts.collect();
    if others.is_empty() {
        return None;
    }
    if others
        .iter()
        .all(|other| EndpointAddr::parse(other).is_ok())
    {
        let all = std::iter::once(first)
            .chain(others)
            .map(|one| format!("{one:?}"));
        let cure = format!(
            "write each in quotes of its own: [{}]",
            all.collect::<Vec<_>>().join(", ")
        );
        return Some(("these are several addresses", cure));
    }
    let weight = others
        .iter()
        .find_map(|other| other.strip_prefix("weight=")?.parse::<u16>().ok());
    let weight = weight.map_or_else(String::new, |weight| format!(", weight = {weight}"));
    let backup = if others.contains(&"backup") {
        ", backup = true"
    } else {
        ""
    };
    Some((
        "behind the address stands something else",
        format!("write {{ addr = {first:?}{weight}{backup} }}"),
    ))
}

fn endpoint_cure(error: AddressError, value: Option<&str>) -> String {
    let general = format!(
        "write {}: \"127.0.0.1:3000\" or \"unix:/run/app.sock\"",
        expected(&Kind::Endpoint)
    );
    let Some(value) = value else { return general };
    match error {
        AddressError::Pool => "name it alone: proxy = \"pool:app\"".to_owned(),
        AddressError::Srv => "write \"srv:_app._tcp.example.internal\"".to_owned(),
        AddressError::Scheme => {
            let (scheme, rest) = value.split_once("://").unwrap_or_default();
            let host = rest.split('/').next().unwrap_or_default();
            match scheme {
                "https" | "tls" => {
                    format!("write {{ to = \"{}\", tls = {{}} }}", with_port(host, 443))
                }
                "h2c" | "grpc" => format!(
                    "write {{ to = \"{}\", protocol = \"h2c\" }}",
                    with_port(host, 80)
                ),
                "h2" | "grpcs" => {
                    format!(
                        "write {{ to = \"{}\", protocol = \"h2\", tls = {{}} }}",
                        with_port(host, 443)
                    )
                }
                "unix" => general,
                _ if !host.contains(['.', ':']) => {
                    format!("write \"{host}:80\"; of [pool.{host}] the address is \"pool:{host}\"")
                }
                _ => format!("write \"{}\"", with_port(host, 80)),
            }
        }
        AddressError::Path => {
            let host = value.split('/').next().unwrap_or_default();
            format!("write \"{host}\", without the path")
        }
        AddressError::BarePath => format!("for a Unix socket write \"unix:{value}\""),
        AddressError::NoHost => format!("write \"127.0.0.1{value}\""),
        AddressError::NoPort if value.parse::<u16>().is_ok() => {
            format!("write \"127.0.0.1:{value}\"")
        }
        AddressError::NoPort if value.starts_with("pool.") => {
            format!("write \"{}\"", value.replacen('.', ":", 1))
        }
        AddressError::NoPort if !value.contains('.') => {
            format!(
                "add the port: \"{value}:3000\"; of [pool.{value}] the address is \"pool:{value}\""
            )
        }
        AddressError::NoPort => format!("add the port: \"{value}:3000\""),
        _ => general,
    }
}

fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}
