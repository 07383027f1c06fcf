//! Attributes that a rule may set, and attributes in which a value is safe.

use super::rule_error::RuleFault;
use super::{ChangeTemplate, TemplatePart};

/// A valid name of an attribute, in lower case.
pub(super) fn attribute(name: &str) -> Result<String, RuleFault> {
    let fits =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.' | b'@');
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(RuleFault::Name(name.to_owned()));
    }
    Ok(name.to_ascii_lowercase())
}

/// Attributes with a URL that browsers follow or run.
const URLS: [&str; 12] = [
    "href",
    "xlink:href",
    "src",
    "srcset",
    "imagesrcset",
    "poster",
    "action",
    "formaction",
    "data",
    "to",
    "from",
    "ping",
];

/// Checks that values may stand in this attribute: escaping keeps them within the quotes, but not
/// harmless to the attribute's reader.
pub(super) fn check_attribute(name: &str, value: &ChangeTemplate) -> Result<(), RuleFault> {
    let Some(first) = value
        .0
        .iter()
        .position(|part| matches!(part, TemplatePart::Value(_)))
    else {
        return Ok(());
    };
    let before = value.0[..first].iter().map(|part| match part {
        TemplatePart::Text(text) => &text[..],
        TemplatePart::Value(_) | TemplatePart::Raw(_) => b"",
    });
    check_value_behind(name, &before.collect::<Vec<_>>().concat())
}

/// The same for the first value, behind this text. It decides for the later ones: any value may be
/// empty.
pub(super) fn check_value_behind(name: &str, before: &[u8]) -> Result<(), RuleFault> {
    if name.starts_with("on") || matches!(name, "style" | "srcdoc" | "values") {
        return Err(RuleFault::Code(name.to_owned()));
    }
    if !URLS.contains(&name) {
        return Ok(());
    }
    match open(before) {
        None => Ok(()),
        Some(OpenUrlPart::Scheme) => Err(RuleFault::Scheme(name.to_owned())),
        Some(OpenUrlPart::Host) => Err(RuleFault::Host(name.to_owned())),
    }
}

/// The part of a URL that is still open.
enum OpenUrlPart {
    Scheme,
    Host,
}

/// The part of a URL that may follow this beginning, as browsers read it (URL Standard, 4.4): they
/// skip tabs and line breaks, take `\` for `/`, and as many slashes as they find for two behind
/// `https:`.
fn open(before: &[u8]) -> Option<OpenUrlPart> {
    let url: Vec<u8> = before
        .iter()
        .filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r'))
        .map(|byte| {
            if *byte == b'\\' {
                b'/'
            } else {
                byte.to_ascii_lowercase()
            }
        })
        .skip_while(|byte| *byte <= b' ')
        .collect();
    let Some(end) = url
        .iter()
        .position(|byte| matches!(byte, b':' | b'/' | b'?' | b'#'))
    else {
        return Some(OpenUrlPart::Scheme);
    };
    let (first, rest) = url.split_at(end);
    let rest = match rest.strip_prefix(b":") {
        Some(_) if matches!(first, b"javascript" | b"vbscript" | b"data") => {
            return Some(OpenUrlPart::Scheme);
        }
        Some(rest) => rest,
        None if !first.is_empty() || rest[0] != b'/' => return None,
        None if rest.len() > 1 && rest[1] != b'/' => return None,
        None => rest,
    };
    let host = &rest[rest.iter().take_while(|byte| **byte == b'/').count()..];
    let ended = host
        .iter()
        .skip(1)
        .any(|byte| matches!(byte, b'/' | b'?' | b'#'));
    (!ended).then_some(OpenUrlPart::Host)
}
