//! Languages of OpenTelemetry's protocol: the URL of a sink, its fields, the share of traces.

use lockgate_http::h1::parse::is_token;
use lockgate_rules::{SecretText, TraceShare};
use serde_json::{Value as Json, json};

use crate::codes::Code;
use crate::document::{TomlItem, TomlString, TomlValue};
use crate::language::{Language, MapKeys, Notation, TreeChecker};
use crate::model::{EndpointAddr, OtlpUrl, UrlScheme};

use super::field::untouchable;
use super::{InvalidText, TextLanguage};

/// The URL of a sink, without the path of a signal.
pub(crate) struct OtlpAddress;

/// The value of a field, which may be a secret.
pub(crate) struct SecretFieldValue;

/// A share of traces as a percentage, or `parent`.
pub(crate) struct TracePercent;

/// A share of traces as a number from 0 to 1.
pub(crate) struct TraceRatio;

/// The longest value of a field, in bytes.
const VALUE: usize = 4_096;

impl TextLanguage for OtlpAddress {
    type Value = OtlpUrl;

    const EXPECTED: &str = "a URL such as \"http://10.0.0.9:4318\"";
    const PATTERN: &str = "^https?://.+";

    fn parse(&self, text: &TomlString) -> Result<OtlpUrl, InvalidText> {
        otlp_url(&text.value).map_err(|why| {
            let cure =
                "write \"http://10.0.0.9:4318\": `/v1/metrics` and `/v1/traces` are below it";
            text.invalid(Code::BadAddress, "is not where OTLP goes", why, cure)
        })
    }
}

fn otlp_url(text: &str) -> Result<OtlpUrl, &'static str> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("it does not begin with `http://` or `https://`")?;
    let (scheme, usual, port) = match scheme {
        "http" => (UrlScheme::Http, ":80", 80),
        "https" => (UrlScheme::Https, ":443", 443),
        "grpc" => return Err("OTLP is sent over HTTP, mostly to port 4318, not over gRPC"),
        _ => return Err("its scheme is neither `http` nor `https`"),
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if host.contains('@') {
        return Err("it holds a user or a password: write `headers`");
    }
    let is_bad = |byte: u8| !byte.is_ascii_graphic() || matches!(byte, b'#' | b'?');
    if rest.bytes().any(is_bad) {
        return Err("it holds a query, a `#`, or what must be percent-encoded");
    }
    let path = path.trim_end_matches('/');
    let is_of_signal = ["/v1/traces", "/v1/metrics", "/v1/logs"]
        .iter()
        .any(|signal| path.ends_with(signal));
    if is_of_signal {
        return Err("it has the path of a signal, which is added");
    }
    let host = host.strip_suffix(usual).unwrap_or(host);
    let has_port = host.contains(':') && !host.ends_with(']');
    let whole = match has_port {
        true => host.to_owned(),
        false => format!("{host}:{port}"),
    };
    let addr = match EndpointAddr::parse(&whole) {
        Ok(EndpointAddr::Unix(_) | EndpointAddr::Srv(_)) => return Err("its host cannot be read"),
        Ok(addr) => addr,
        Err(error) => return Err(error.reason()),
    };
    Ok(OtlpUrl {
        scheme,
        addr,
        host: host.to_owned(),
        path: path.to_owned(),
    })
}

impl TextLanguage for SecretFieldValue {
    type Value = SecretText;

    const EXPECTED: &str = "the value of a field";

    fn parse(&self, text: &TomlString) -> Result<SecretText, InvalidText> {
        let why = match text.value.trim() {
            "" => "it is empty",
            value if value.len() > VALUE => "it is longer than 4,096 bytes",
            // RFC 9110 §5.5: VCHAR, and SP between.
            value if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) => {
                "it holds what is no letter, digit or mark of ASCII"
            }
            value => return Ok(SecretText(value.to_owned())),
        };
        // It may be a secret: the message does not repeat it.
        let message = "this is not the value of a field".to_owned();
        let cure = "write for example \"Bearer ${file:/etc/lockgate/otlp.token}\"";
        Err(InvalidText::new(Code::BadText, message, why, cure))
    }
}

/// The name of a field of the requests that we make ourselves (RFC 9110 §5.1).
pub(super) fn sent_field(name: &TomlString) -> Result<(), InvalidText> {
    let value = name.value.to_ascii_lowercase();
    let why = match &*value {
        value if !is_token(value.as_bytes()) => Some("it holds what a name must not"),
        "host" => Some("it is that of the URL"),
        "content-type" | "content-encoding" | "accept-encoding" => Some("it tells of the body"),
        value => untouchable(MapKeys::SentFields, value),
    };
    let Some(why) = why else {
        return Ok(());
    };
    let cure = "name another, such as \"authorization\"";
    Err(name.invalid(Code::BadField, "is not a field to be sent", why, cure))
}

impl TextLanguage for TracePercent {
    type Value = TraceShare;

    const EXPECTED: &str = "a share such as \"1%\", or \"parent\"";
    const PATTERN: &str = "^(parent|[0-9]+([.][0-9]+)?%)$";

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(match number {
            1 => "write \"1%\", or \"100%\" for all".to_owned(),
            number => format!("write \"{}%\"", number.min(100)),
        })
    }

    fn parse(&self, text: &TomlString) -> Result<TraceShare, InvalidText> {
        if text.value == "parent" {
            return Ok(TraceShare::new(0.0));
        }
        let digits = text.value.strip_suffix('%').filter(|digits| {
            let is_of_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
            digits.starts_with(|first: char| first.is_ascii_digit())
                && digits.bytes().all(is_of_number)
        });
        let share = digits.and_then(|digits| digits.parse::<f64>().ok());
        match share {
            Some(share) if share <= 100.0 => Ok(TraceShare::new(share / 100.0)),
            Some(_) => {
                let cure = "write a share up to \"100%\"";
                Err(text.invalid(Code::OutOfRange, "is out of range", "", cure))
            }
            None => {
                let cure = "write \"1%\", or \"parent\" to record what clients record";
                let message = "is not a share of traces";
                Err(text.invalid(Code::BadText, message, "", cure))
            }
        }
    }
}

impl Notation for TraceRatio {
    fn expected(&self) -> String {
        "a number from 0.0 to 1.0".to_owned()
    }

    fn schema(&self) -> Json {
        json!({ "type": "number", "minimum": 0, "maximum": 1 })
    }

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Float)
    }
}

impl Language for TraceRatio {
    type Value = TraceShare;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<TraceShare> {
        let TomlValue::Float = item.node else {
            return checker.wrong_type(self, item, path);
        };
        // TOML has underscores between digits.
        let share = item.at.text().replace('_', "").parse::<f64>().ok();
        if let Some(share) = share.filter(|share| (0.0..=1.0).contains(share)) {
            return Some(TraceShare::new(share));
        }
        let message = "the number is out of range";
        let cure = "write a number from 0.0 to 1.0";
        checker.invalid(Code::OutOfRange, &item.at, message, "", cure)
    }
}

/// All traces: `true`.
pub(crate) fn all_or_no_traces(all: bool) -> Option<TraceShare> {
    all.then_some(TraceShare::ALL)
}
