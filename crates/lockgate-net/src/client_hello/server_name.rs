//! The host name in the server_name extension (RFC 6066 §3).
//!
//! Accepts what rustls accepts: letters, digits, underscores and inner hyphens.

use std::net::IpAddr;
use std::str;

use super::HelloError;

const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// The name in lower case and without a dot at its end; `None` for the literal of an IP address,
/// which RFC 6066 forbids but clients send: it means no name.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Box<str>>, HelloError> {
    let text = str::from_utf8(bytes).map_err(|_| HelloError::BadName)?;
    if text.parse::<IpAddr>().is_ok() {
        return Ok(None);
    }
    if text.len() > NAME_MAX {
        return Err(HelloError::BadName);
    }
    let name = text.strip_suffix('.').unwrap_or(text); // RFC 6066 wants none; some clients send it
    // Other software would read a number at the end as an IPv4 address.
    let numeric = name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if numeric || !name.split('.').all(is_label) {
        return Err(HelloError::BadName);
    }
    Ok(Some(name.to_ascii_lowercase().into()))
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
