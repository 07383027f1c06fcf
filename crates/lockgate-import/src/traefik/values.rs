//! Values that stand at several places: durations, networks, addresses and URLs.

use std::net::IpAddr;

use super::node::is_known;
use crate::Verdict;

/// What is said of a value that cannot be read.
pub(super) fn unreadable() -> Verdict {
    Verdict::not_supported("its value cannot be read, or is not known here", None)
}

/// A duration of Go, or seconds, in Lockgate's units.
pub(super) fn duration(text: &str) -> Option<String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(format!("{seconds}s"));
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let unit = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let factor = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = after;
    }
    Some(match total {
        total if text.is_empty() || total > 366 * 86_400_000 => return None,
        total if total % 3_600_000 == 0 && total > 0 => format!("{}h", total / 3_600_000),
        total if total % 60_000 == 0 && total > 0 => format!("{}m", total / 60_000),
        total if total % 1_000 == 0 => format!("{}s", total / 1_000),
        total => format!("{total}ms"),
    })
}

/// Whether a text is an address or a network.
pub(super) fn is_network(text: &str) -> bool {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

/// Scheme, address with port, and path of a URL.
pub(super) fn url(text: &str) -> Option<(&str, String, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let standard = match scheme {
        "http" | "h2c" | "ws" => 80,
        "https" | "wss" => 443,
        _ => return None,
    };
    Some((scheme, endpoint(authority, standard)?, path))
}

/// An address, with a port if it has none.
pub(super) fn endpoint(text: &str, standard: u16) -> Option<String> {
    if !is_known(text) || text.is_empty() || text.len() > 260 {
        return None;
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (format!("[{host}]"), port.strip_prefix(':'))
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if host.is_empty() || !host.chars().all(plain) {
                return None;
            }
            (host.to_owned(), port)
        }
    };
    let port = match port {
        Some(port) => port.parse::<u16>().ok().filter(|port| *port > 0)?,
        None => standard,
    };
    Some(format!("{host}:{port}"))
}
