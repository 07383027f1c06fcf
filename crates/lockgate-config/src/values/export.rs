//! Languages of metrics that are pushed: addresses, intervals, prefixes, names of metrics, tokens.

use std::time::Duration;

use lockgate_rules::SecretText;

use crate::address::AddressError;
use crate::codes::Code;
use crate::document::TomlString;
use crate::model::{AuthoritySource, EndpointAddr, InfluxTarget, InfluxUrl, UrlScheme};
use crate::units;

use super::quantity::not_a_quantity;
use super::{InvalidText, TextLanguage};

/// The address of a sink: `HOST:PORT`.
pub(crate) struct SinkAddress;

/// The URL of a sink of InfluxDB's lines.
pub(crate) struct InfluxAddress;

/// The time between two readings, in whole seconds.
pub(crate) struct PushInterval;

/// Parts of a name with dots between them; empty for none.
pub(crate) struct NamePrefix;

/// The beginning of the names of metrics.
pub(crate) struct MetricNames;

/// A token of the field Authorization.
pub(crate) struct AccessToken;

/// The longest prefix, in bytes.
const PREFIX: usize = 200;
/// The longest token, in bytes.
const TOKEN: usize = 4_096;

impl TextLanguage for SinkAddress {
    type Value = EndpointAddr;

    const EXPECTED: &str = "an address such as \"10.0.0.9:2003\"";
    const PATTERN: &str = "^.+:[0-9]+$";

    fn parse(&self, text: &TomlString) -> Result<EndpointAddr, InvalidText> {
        host_and_port(&text.value).map_err(|why| {
            let cure = "write host and port, \"10.0.0.9:2003\" or \"graphite.internal:2003\"";
            text.invalid(Code::BadAddress, "is not the address of a sink", why, cure)
        })
    }
}

/// An IP address or a name, with a port.
fn host_and_port(text: &str) -> Result<EndpointAddr, &'static str> {
    match EndpointAddr::parse(text) {
        Ok(EndpointAddr::Unix(_)) => Err("metrics are pushed over a network"),
        Ok(EndpointAddr::Srv(_)) | Err(AddressError::Srv) => {
            Err("SRV records are not asked for here")
        }
        Ok(addr) => Ok(addr),
        Err(error) => Err(error.reason()),
    }
}

impl TextLanguage for InfluxAddress {
    type Value = InfluxTarget;

    const EXPECTED: &str = "a URL such as \"http://10.0.0.9:8086/write?db=lockgate\"";
    const PATTERN: &str = "^(https?|udp|tcp)://.+";

    fn parse(&self, text: &TomlString) -> Result<InfluxTarget, InvalidText> {
        influx_target(&text.value).map_err(|why| {
            let cure = "write \"http://10.0.0.9:8086/write?db=lockgate\" for InfluxDB 1, \
                        \"https://influx.example.com/api/v2/write?org=ORG&bucket=BUCKET\" for InfluxDB 2, \
                        or \"udp://127.0.0.1:8094\" for Telegraf";
            text.invalid(Code::BadAddress, "is not where lines of InfluxDB go", why, cure)
        })
    }
}

fn influx_target(text: &str) -> Result<InfluxTarget, &'static str> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("it does not begin with `http://`, `https://`, `udp://` or `tcp://`")?;
    match scheme {
        "udp" => host_and_port(rest).map(InfluxTarget::Udp),
        "tcp" => host_and_port(rest).map(InfluxTarget::Tcp),
        "http" => influx_url(UrlScheme::Http, rest).map(InfluxTarget::Http),
        "https" => influx_url(UrlScheme::Https, rest).map(InfluxTarget::Http),
        _ => Err("its scheme is none of `http`, `https`, `udp` and `tcp`"),
    }
}

fn influx_url(scheme: UrlScheme, rest: &str) -> Result<InfluxUrl, &'static str> {
    let (host, path) = rest
        .find(['/', '?'])
        .map_or((rest, ""), |at| rest.split_at(at));
    if host.contains('@') {
        return Err(
            "it holds a user or a password: write `token`, or `u` and `p` of InfluxDB 1 into the query",
        );
    }
    if !path.starts_with('/') || path == "/" {
        return Err(
            "its path is missing: InfluxDB 1 takes lines at `/write`, InfluxDB 2 at `/api/v2/write`",
        );
    }
    let is_bad = |byte: u8| !byte.is_ascii_graphic() || byte == b'#';
    if path.bytes().any(is_bad) {
        return Err("it holds what must be percent-encoded, or a `#`");
    }
    let query = path.split_once('?').map_or("", |(_, query)| query);
    if query.split('&').any(|one| one.starts_with("precision=")) {
        return Err("times have nanoseconds, which is what InfluxDB expects without `precision`");
    }
    let (usual, port) = match scheme {
        UrlScheme::Http => (":80", 80),
        UrlScheme::Https => (":443", 443),
    };
    let host = host.strip_suffix(usual).unwrap_or(host);
    let has_port = host.contains(':') && !host.ends_with(']');
    let whole = match has_port {
        true => host.to_owned(),
        false => format!("{host}:{port}"),
    };
    Ok(InfluxUrl {
        scheme,
        addr: host_and_port(&whole)?,
        host: host.to_owned(),
        path: SecretText(path.to_owned()),
        token: None,
        ca: AuthoritySource::System,
    })
}

impl TextLanguage for PushInterval {
    type Value = Duration;

    const EXPECTED: &str = "a duration from \"1s\" to \"1h\"";
    const PATTERN: &str = "^[0-9]+(ms|s|m|h)$";
    const UNIT: Option<&'static str> = Some("`s`, `m`, `h`");

    fn unit_cure(&self, number: u64) -> Option<String> {
        Some(units::duration_readings(number))
    }

    fn parse(&self, text: &TomlString) -> Result<Duration, InvalidText> {
        let every = units::duration(&text.value).map_err(|error| {
            let forms = ("s", "\"10s\", \"1m\" or \"1h\"");
            not_a_quantity(text, error, "a duration", forms)
        })?;
        let why = match every.as_secs() {
            0 => "it is shorter than a second",
            3_601.. => "it is longer than an hour",
            _ if every.subsec_nanos() > 0 => "it is no whole number of seconds",
            1..=3_600 => return Ok(every),
        };
        let cure = "write \"10s\", or another time from \"1s\" to \"1h\"";
        Err(text.invalid(Code::OutOfRange, "is no interval to push in", why, cure))
    }
}

impl TextLanguage for NamePrefix {
    type Value = String;

    const EXPECTED: &str = "parts of a name with dots between them, or \"\"";
    const PATTERN: &str = "^([A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*)?$";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let is_kept = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
        let mut parts = text.value.split('.');
        let why = match &*text.value {
            "" => return Ok(String::new()),
            value if value.len() > PREFIX => "it is longer than 200 bytes",
            _ if parts.clone().any(str::is_empty) => "a part between its dots is empty",
            value if parts.all(|part| part.chars().all(is_kept)) => return Ok(value.to_owned()),
            _ => "it holds more than letters, digits, `-`, `_` and dots",
        };
        let cure = "write for example \"lockgate\" or \"servers.web1.lockgate\"";
        Err(text.invalid(Code::BadText, "is not the beginning of names", why, cure))
    }
}

impl TextLanguage for MetricNames {
    type Value = String;

    const EXPECTED: &str = "the beginning of a metric's name, such as \"lockgate_request_\"";
    const PATTERN: &str = "^lockgate_[a-z0-9_]*$";

    fn parse(&self, text: &TomlString) -> Result<String, InvalidText> {
        let is_kept =
            |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
        let why = match &*text.value {
            value if !value.starts_with("lockgate_") => "all names begin with `lockgate_`",
            value if !value.chars().all(is_kept) => {
                "names have small letters, digits and `_`; what follows the text may be anything"
            }
            value => return Ok(value.to_owned()),
        };
        let cure = "write for example \"lockgate_request_\"; docs/observe.md lists the names";
        Err(text.invalid(Code::BadText, "begins no name of a metric", why, cure))
    }
}

impl TextLanguage for AccessToken {
    type Value = SecretText;

    const EXPECTED: &str = "a token";

    fn parse(&self, text: &TomlString) -> Result<SecretText, InvalidText> {
        let why = match text.value.trim() {
            "" => "it is empty",
            value if value.len() > TOKEN => "it is longer than 4,096 bytes",
            value if !value.bytes().all(|byte| byte.is_ascii_graphic()) => {
                "it holds a space or what is not ASCII"
            }
            value => return Ok(SecretText(value.to_owned())),
        };
        // It may be a secret: the message does not repeat it.
        let message = "this is not a token".to_owned();
        let cure = "write \"${file:/etc/lockgate/influx.token}\"";
        Err(InvalidText::new(Code::BadText, message, why, cure))
    }
}
