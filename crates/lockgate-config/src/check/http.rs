//! String values of sites and pools: rates, limits, statuses, fields, placeholders.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use crate::codes::Code;
use crate::document::Text;
use crate::model::{Allowance, HashKey, LimitKey};
use crate::newcomers::placeholders;
use crate::pattern::is_token;
use crate::place::At;
use crate::units;

use super::{Checker, Value};

/// What is looked at where no cookie can be given.
const TLS_SESSION: &str = "tls-session";

/// `20/s per client burst 40`, as far as it was written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenLimit {
    pub(crate) frequency: (u32, std::time::Duration),
    pub(crate) per: Option<LimitKey>,
    pub(crate) burst: Option<u32>,
}

impl Checker<'_> {
    pub(super) fn rate(&mut self, text: &Text, at: &At) -> Value {
        match units::rate(&text.value) {
            Ok(0) => self.zero(text, at),
            Ok(rate) => Value::Rate(rate),
            Err(_) if units::size(&text.value).is_ok() => {
                let cure = if text.is_secret() {
                    "10KB/s".to_owned()
                } else {
                    format!("{}/s", text.value)
                };
                let message = format!("{:?} is not a rate", text.raw);
                self.invalid(
                    Code::Unit,
                    at,
                    message,
                    "the time is missing",
                    format!("write \"{cure}\""),
                )
            }
            Err(error) => self.unit(
                error,
                text,
                at,
                "a rate",
                ("KB/s", "\"1KB/s\" or \"10MB/s\""),
            ),
        }
    }

    pub(super) fn percent(&mut self, text: &Text, at: &At) -> Value {
        match units::percent(&text.value) {
            Ok(percent @ 1..=100) => Value::Integer(percent),
            Ok(_) => {
                let message = format!("{:?} is out of range", text.raw);
                let cure = "write a share from \"1%\" to \"100%\"".to_owned();
                self.invalid(Code::OutOfRange, at, message, "", cure)
            }
            Err(error) => self.unit(error, text, at, "a share", ("%", "\"1%\" to \"100%\"")),
        }
    }

    pub(super) fn frequency(&mut self, text: &Text, at: &At) -> Value {
        match units::frequency(&text.value) {
            Ok((0, _)) => self.zero(text, at),
            Ok((count, every)) => Value::Frequency(count, every),
            Err(error) => self.unit(
                error,
                text,
                at,
                "a rate",
                ("/s", "\"20/s\", \"100/m\" or \"1000/h\""),
            ),
        }
    }

    fn zero(&mut self, text: &Text, at: &At) -> Value {
        let message = format!("{:?} is too small", text.raw);
        self.invalid(
            Code::OutOfRange,
            at,
            message,
            "it would let nothing through",
            String::new(),
        )
    }

    /// `RATE [per WHO] [burst N]`.
    pub(super) fn limit(&mut self, text: &Text, at: &At) -> Value {
        match WrittenLimit::parse(&text.value) {
            Ok(limit) if limit.frequency.0 == 0 => self.zero(text, at),
            Ok(limit) => Value::Limit(limit),
            Err(why) => {
                let message = format!("{:?} is not a limit", text.raw);
                let meant = if text.is_secret() {
                    None
                } else {
                    limit_meant(&text.value)
                };
                let cure = match meant {
                    Some(meant) => format!("write {meant:?}"),
                    None => "write \"20/s per client burst 40\"; or per route, or per header:x-key"
                        .to_owned(),
                };
                self.invalid(Code::BadLimit, at, message, why, cure)
            }
        }
    }

    /// `RATE [burst N]`.
    pub(super) fn allowance(&mut self, text: &Text, at: &At) -> Value {
        let why = match WrittenLimit::parse(&text.value) {
            Ok(WrittenLimit {
                frequency: (0, _), ..
            }) => return self.zero(text, at),
            Ok(WrittenLimit {
                frequency: (count, every),
                per: None,
                burst,
            }) => {
                return Value::Allowance(Allowance {
                    count,
                    every,
                    burst: burst.unwrap_or(count),
                });
            }
            Ok(_) => "each connection is counted apart",
            Err(why) => why,
        };
        let message = format!("{:?} is not a rate", text.raw);
        self.invalid(
            Code::BadLimit,
            at,
            message,
            why,
            "write \"20/s burst 200\"".to_owned(),
        )
    }

    pub(super) fn limit_key(&mut self, text: &Text, at: &At) -> Value {
        match limit_key(&text.value) {
            Some(key) => Value::LimitKey(key),
            None => {
                let message = format!("{:?} cannot be counted by", text.raw);
                let cure = "write \"client\", \"route\" or \"header:x-key\"".to_owned();
                self.invalid(Code::BadLimit, at, message, "it is not known", cure)
            }
        }
    }

    pub(super) fn hash_key(&mut self, text: &Text, at: &At) -> Value {
        match hash_key(&text.value) {
            Some(key) => Value::HashKey(key),
            None => {
                let message = format!("{:?} does not tell clients apart", text.raw);
                let cure =
                    "write \"client\", \"sni\", \"header:x-user\" or \"cookie:id\"".to_owned();
                self.invalid(Code::UnknownWord, at, message, "it is not known", cure)
            }
        }
    }

    pub(super) fn sticky_key(&mut self, text: &Text, at: &At) -> Value {
        let cure = match hash_key(&text.value) {
            Some(HashKey::Cookie(name)) => return Value::Text(name),
            None if text.value == TLS_SESSION => return Value::Word(TLS_SESSION),
            Some(_) if !text.is_secret() => {
                format!(
                    "write hash = {:?}: it leads each to the same one",
                    text.value
                )
            }
            _ => format!("write \"cookie:lg\", or in a pool of [tcp] {TLS_SESSION:?}"),
        };
        let message = format!(
            "{:?} is not something that clients could be given",
            text.raw
        );
        self.invalid(
            Code::UnknownWord,
            at,
            message,
            "a cookie is, or a TLS session",
            cure,
        )
    }

    pub(super) fn statuses(&mut self, text: &Text, from: u16, at: &At) -> Value {
        match statuses(&text.value).filter(|range| *range.start() >= from) {
            Some(range) => Value::Statuses(range),
            None => {
                let message = format!("{:?} is not a status that can stand here", text.raw);
                let why = format!("statuses go from {from} to 599");
                let cure = format!("write {}", statuses_such_as(from));
                self.invalid(Code::BadText, at, message, &why, cure)
            }
        }
    }

    pub(super) fn ip(&mut self, text: &Text, at: &At) -> Value {
        let inner = text
            .value
            .strip_prefix('[')
            .and_then(|value| value.strip_suffix(']'));
        let ip = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => text.value.parse().ok(),
        };
        if let Some(ip) = ip {
            return Value::Ip(ip);
        }
        let message = format!("{:?} is not an IP address", text.raw);
        let why = "a listener is bound to an address; the port stands in the key of the site";
        let cure = match text.value.parse::<SocketAddr>() {
            Ok(addr) if !text.is_secret() => {
                format!(
                    "write \"{}\"; the port stands in the key: [site.\":{}\"]",
                    addr.ip(),
                    addr.port()
                )
            }
            _ => "write \"127.0.0.1\" or \"[::1]\"".to_owned(),
        };
        self.invalid(Code::BadAddress, at, message, why, cure)
    }

    pub(super) fn url_path(&mut self, text: &Text, at: &At) -> Value {
        let value = &*text.value;
        let sendable = value
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if value.starts_with('/') && sendable {
            return Value::Text(value.to_owned());
        }
        let message = format!("{:?} is not the path of a URL", text.raw);
        let why = if sendable {
            "it does not begin with `/`"
        } else {
            "it holds what must be percent-encoded"
        };
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let url = value
            .split_once("://")
            .and_then(|(_, rest)| rest.get(rest.find('/')?..));
        let cure = match (&*words, url) {
            _ if text.is_secret() => "for example \"/health\"".to_owned(),
            ([method, path], _) if is_token(method) && path.starts_with('/') => {
                format!("write {{ path = {path:?}, method = {method:?} }}")
            }
            (_, Some(path)) => format!("write {path:?}: it is asked of each endpoint"),
            _ => "for example \"/health\"".to_owned(),
        };
        self.invalid(Code::BadPath, at, message, why, cure)
    }

    pub(super) fn method(&mut self, text: &Text, at: &At) -> Value {
        let value = &*text.value;
        if is_token(value)
            && !value.contains(|c: char| c.is_ascii_lowercase())
            && value != "CONNECT"
        {
            return Value::Text(value.to_owned());
        }
        let message = format!("{:?} is not a method", text.raw);
        let why = "methods are written in capitals";
        self.invalid(
            Code::BadText,
            at,
            message,
            why,
            "write \"GET\" or \"HEAD\"".to_owned(),
        )
    }

    /// Text without control characters; it may be sent in a field.
    pub(super) fn line(&mut self, text: &Text, at: &At, what: &str) -> Value {
        let why = match &*text.value {
            "" => "it is empty",
            value if value.len() > 8_000 => "it is longer than 8,000 bytes",
            value if value.contains(|c: char| c.is_control() && c != '\t') => {
                "it holds a control character"
            }
            value if value.trim() != value => "it begins or ends with a space",
            value => return Value::Text(value.to_owned()),
        };
        self.invalid(
            Code::BadField,
            at,
            format!("{:?} is not {what}", text.raw),
            why,
            String::new(),
        )
    }

    pub(super) fn template(&mut self, text: &Text, at: &At) -> Value {
        let bad = |c: char| c.is_whitespace() || c.is_control() || !c.is_ascii();
        let why = match &*text.value {
            "" => "it is empty",
            value if value.contains(bad) => "it holds what must be percent-encoded",
            value => return Value::Text(value.to_owned()),
        };
        let message = format!("{:?} is not a place to go", text.raw);
        let foreign = placeholders::foreign(&text.value).and_then(|found| found.ours);
        let status = text.value.split_once(' ').filter(|(status, to)| {
            matches!(*status, "301" | "302" | "303" | "307" | "308") && !to.contains(bad)
        });
        let cure = match (status, foreign) {
            _ if text.is_secret() => "for example \"/new/{*}\"".to_owned(),
            (Some((status, to)), _) => format!("write {{ to = {to:?}, status = {status} }}"),
            (None, Some(ours)) => format!("write {{{ours}}}"),
            (None, None) => "for example \"/new/{*}\"".to_owned(),
        };
        self.invalid(Code::BadPath, at, message, why, cure)
    }
}

impl WrittenLimit {
    /// What it says, or why it says nothing.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut words = text.split_ascii_whitespace();
        let frequency = units::frequency(words.next().unwrap_or_default());
        let frequency = frequency.map_err(|_| "it does not begin with a rate such as \"20/s\"")?;
        let mut limit = WrittenLimit {
            frequency,
            per: None,
            burst: None,
        };
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            match word {
                "per" if limit.per.is_none() => {
                    limit.per =
                        Some(limit_key(value).ok_or("what stands after `per` is not known")?);
                }
                "burst" if limit.burst.is_none() => match value.parse() {
                    Ok(count @ 1..=1_000_000) => limit.burst = Some(count),
                    _ => return Err("after `burst` stands a number from 1 to 1000000"),
                },
                _ => return Err("after the rate stand `per WHO` and `burst N` at most"),
            }
        }
        Ok(limit)
    }
}

fn limit_key(text: &str) -> Option<LimitKey> {
    match text.split_once(':') {
        None if text == "client" => Some(LimitKey::Client),
        None if text == "route" => Some(LimitKey::Route),
        Some(("header", name)) if is_token(name) => {
            Some(LimitKey::Header(name.to_ascii_lowercase()))
        }
        _ => None,
    }
}

fn hash_key(text: &str) -> Option<HashKey> {
    match text.split_once(':') {
        None if text == "client" => Some(HashKey::Client),
        None if text == "sni" => Some(HashKey::Sni),
        Some(("header", name)) if is_token(name) => {
            Some(HashKey::Header(name.to_ascii_lowercase()))
        }
        Some(("cookie", name)) if is_token(name) => Some(HashKey::Cookie(name.to_owned())),
        _ => None,
    }
}

/// `20 per second`, `20r/s burst=40`, `100rpm`: as it is written here.
fn limit_meant(text: &str) -> Option<String> {
    const UNITS: [(&str, &[&str]); 3] = [
        ("/s", &["second", "sec", "r/s", "req/s", "rps", "/s"]),
        ("/m", &["minute", "min", "r/m", "req/m", "rpm", "/m"]),
        ("/h", &["hour", "r/h", "req/h", "rph", "/h"]),
    ];
    let lower = text.to_ascii_lowercase();
    let digits = |text: &str| {
        text.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    let (rate, rest) = lower.split_once("burst").unwrap_or((&lower, ""));
    let number = digits(rate);
    let (unit, _) = UNITS
        .iter()
        .find(|(_, names)| names.iter().any(|name| rate.contains(name)))?;
    let per = if rate.contains("ip") || rate.contains("client") {
        " per client"
    } else {
        ""
    };
    let burst = digits(rest.trim_start_matches(|c: char| !c.is_ascii_digit()));
    let burst = if burst.is_empty() {
        burst
    } else {
        format!(" burst {burst}")
    };
    (!number.is_empty()).then(|| format!("{number}{unit}{per}{burst}"))
}

/// One status or a range of them.
/// What may be written where they begin with `from`.
pub(super) fn statuses_such_as(from: u16) -> &'static str {
    if from < 500 {
        "\"200\" or \"200-399\""
    } else {
        "\"503\" or \"502-504\""
    }
}

pub(crate) fn statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let status = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>()
            .ok()
            .filter(|status| digits && (100..600).contains(status))
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (status(from)?, status(to)?);
    (from <= to).then_some(from..=to)
}
