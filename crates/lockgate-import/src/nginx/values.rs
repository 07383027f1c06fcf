//! Times, sizes and networks of nginx, and texts with variables as placeholders.

use std::net::IpAddr;

use super::scope::{NginxPart, parts_of};

/// A time of nginx in milliseconds; a number alone counts seconds.
pub(super) fn nginx_millis(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let units = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(units);
        let factor: u64 = match unit.trim() {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = next;
    }
    Some(total)
}

/// A duration of Lockgate, in its largest whole unit.
pub(super) fn duration(millis: u64) -> String {
    for (unit, factor) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
    ] {
        // Two minutes are "2m", but one minute and a half is "90s", and one day is "1d".
        if millis > 0 && millis.is_multiple_of(factor) {
            return format!("{}{unit}", millis / factor);
        }
    }
    format!("{millis}ms")
}

/// A size of nginx, as Lockgate writes it.
pub(super) fn size(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(number) if lower.ends_with('k') => (number, "KiB"),
        Some(number) if lower.ends_with('m') => (number, "MiB"),
        Some(number) => (number, "GiB"),
        None => (lower.as_str(), "B"),
    };
    let number: u64 = number.parse().ok()?;
    (number < 1 << 30).then(|| format!("{number}{unit}"))
}

/// A network: an address and the number of its bits that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NginxNetwork {
    address: IpAddr,
    bits: u8,
}

impl NginxNetwork {
    /// A network or an address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most)?,
            None => most,
        };
        Some(Self { address, bits })
    }

    /// Whether an address is in both.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let bits = self.bits.min(other.bits);
        match (self.address, other.address) {
            (IpAddr::V4(one), IpAddr::V4(two)) => {
                let shift = 32 - u32::from(bits);
                let of = |ip| u64::from(u32::from(ip)) >> shift;
                of(one) == of(two)
            }
            (IpAddr::V6(one), IpAddr::V6(two)) => {
                let shift = 128 - u32::from(bits);
                let of = |ip| u128::from(ip).checked_shr(shift).unwrap_or(0);
                of(one) == of(two)
            }
            _ => false,
        }
    }

    /// As Lockgate writes it; bits after the network's are cleared.
    pub(super) fn text(self) -> String {
        let (full, address) = match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (32, IpAddr::V4((u32::from(ip) & mask).into()))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                (128, IpAddr::V6((u128::from(ip) & mask).into()))
            }
        };
        if self.bits == full {
            address.to_string()
        } else {
            format!("{address}/{}", self.bits)
        }
    }
}

/// What the variables of a text may become.
#[derive(Debug, Clone, Default)]
pub(super) struct NginxWords {
    pub(super) tls: bool,
    pub(super) port: u16,
    pub(super) server_name: Option<String>,
    /// Whether clients can ask for `server_name` alone.
    pub(super) one_name: bool,
    /// What a group of the location's regular expression is: `{*}`.
    pub(super) capture: Option<&'static str>,
}

/// A text for a header or a body, with placeholders for its variables.
pub(super) fn with_placeholders(text: &str, words: &NginxWords) -> Option<String> {
    let mut out = String::new();
    for part in parts_of(text) {
        let name = match part {
            NginxPart::Text(text) if text.contains('{') && has_placeholder(text) => return None,
            NginxPart::Text(text) => {
                out.push_str(text);
                continue;
            }
            NginxPart::Variable(name) => name,
        };
        match name {
            "host" | "http_host" => out.push_str("{host}"),
            "remote_addr" | "realip_remote_addr" | "binary_remote_addr" => out.push_str("{client}"),
            "scheme" => out.push_str("{scheme}"),
            "request_method" => out.push_str("{method}"),
            "request_id" => out.push_str("{id}"),
            "uri" | "document_uri" => out.push_str("{path}"),
            "request_uri" => out.push_str("{path}{query}"),
            "server_port" if words.port != 0 => out.push_str(&words.port.to_string()),
            "https" if words.tls => out.push_str("on"),
            "server_name" => out.push_str(words.server_name.as_deref()?),
            _ => return None,
        }
    }
    Some(out)
}

/// Whether a text would be read as a placeholder of Lockgate.
fn has_placeholder(text: &str) -> bool {
    [
        "host", "path", "query", "client", "scheme", "method", "id", "*", "time", "counter",
        "value:",
    ]
    .iter()
    .any(|name| text.contains(&format!("{{{name}")))
}

/// The target of a redirect. The second value says whether nginx would leave out the query that
/// Lockgate keeps.
pub(super) fn redirect_target(text: &str, words: &NginxWords) -> Option<(String, bool)> {
    let mut out = String::new();
    let mut query = false;
    let parts = parts_of(text);
    for part in &parts {
        let name = match part {
            NginxPart::Text(text) if text.contains('{') => return None,
            NginxPart::Text(text) => {
                out.push_str(text);
                continue;
            }
            NginxPart::Variable(name) => *name,
        };
        match name {
            "host" | "http_host" => out.push_str("{host}"),
            "scheme" => out.push_str(if words.tls { "https" } else { "http" }),
            "server_name" => out.push_str(words.server_name.as_deref()?),
            "server_port" if words.port != 0 => out.push_str(&words.port.to_string()),
            "request_uri" => {
                out.push_str("{path}");
                query = true;
            }
            "uri" | "document_uri" => out.push_str("{path}"),
            "is_args" => {}
            "args" | "query_string" => {
                if out.ends_with('?') {
                    out.pop();
                }
                query = true;
            }
            "1" => out.push_str(words.capture?),
            _ => return None,
        }
    }
    // The path has its slash already.
    let out = out.replace("/{path}", "{path}");
    if out.contains('?') && query {
        return None;
    }
    let known = out.starts_with('/')
        || out.starts_with("http://")
        || out.starts_with("https://")
        || out.starts_with("{path}");
    (known && !out.contains(char::is_whitespace) && !out.contains('$')).then_some((out, !query))
}
