//! `basic_auth` and `forward_auth`.

use super::blocks::CaddyStatement;
use super::outcome::{CLOSED, CaddyFlow};
use super::proxy;
use super::texts::CaddyTextPlace;
use crate::{ConversionReport, DraftValue, Verdict};

/// Where the users of `basic_auth` are to stand.
const USERS: &str = "/etc/lockgate/htpasswd";

/// `basic_auth`: users and hashes.
pub(super) fn basic(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    report: &mut ConversionReport,
) {
    let mut lines = Vec::new();
    for line in statement.inner() {
        let hash = line.arg().map(|hash| match decoded(hash) {
            Some(decoded) => decoded,
            None => hash.to_owned(),
        });
        let verdict = match hash {
            Some(hash) if hash.starts_with("$2") || hash.starts_with("$argon2") => {
                lines.push(format!("{}:{hash}", line.name()));
                Verdict::Converted
            }
            Some(hash) if hash.contains('{') => {
                let because = "users and hashes stand in a file, not in the environment";
                Verdict::not_supported(because, Some("htpasswd -B FILE USER"))
            }
            _ => Verdict::not_supported(
                "Lockgate takes bcrypt and argon2",
                Some("htpasswd -B FILE USER"),
            ),
        };
        report.set(line.id, verdict);
    }
    if !lines.is_empty() {
        flow.comments
            .push(format!("{USERS} has the users, one on a line:"));
        flow.comments.extend(lines);
    }
    let mut auth = vec![("basic".to_owned(), USERS.into())];
    let realm = words
        .iter()
        .find(|word| !matches!(word.as_str(), "bcrypt" | "argon2id" | "scrypt"));
    if let Some(realm) = realm.filter(|realm| *realm != "restricted") {
        auth.push(("realm".to_owned(), realm.as_str().into()));
    }
    if flow.auth.is_some() {
        flow.closed = true;
        let because = format!("a route has one kind of `auth`, so {CLOSED}");
        report.set(statement.id, Verdict::not_supported(because, None));
    }
    flow.auth = Some(DraftValue::Inline(auth));
    let because = format!("the users stand in a file that you have to write: {USERS}");
    report.set(statement.id, Verdict::differs(because));
}

/// Hashes of early versions of Caddy are in base64 once more.
fn decoded(text: &str) -> Option<String> {
    if text.starts_with('$') {
        return None;
    }
    let mut bytes = Vec::new();
    let mut bits: u32 = 0;
    let mut count = 0;
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    text.starts_with('$').then_some(text)
}

/// `forward_auth`: a service that is asked.
pub(super) fn forward(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) {
    let own = |line: &&CaddyStatement| !matches!(line.name(), "uri" | "copy_headers");
    let mut asked = statement.clone();
    asked.block = Some(statement.inner().iter().filter(own).cloned().collect());
    let mut flow_there = CaddyFlow::default();
    let upstream = proxy::convert(&asked, words, &mut flow_there, place, report);
    if !flow_there.request_fields.is_empty() || !flow_there.fields.is_empty() {
        for line in asked.inner() {
            if line.name().starts_with("header_") {
                let because = "the service gets the fields of the request as they are";
                report.set(line.id, Verdict::not_supported(because, None));
            }
        }
    }
    let mut path = None;
    let mut copied: Vec<String> = Vec::new();
    for line in statement.inner() {
        match line.name() {
            "uri" => {
                let verdict = match line.arg() {
                    Some(uri) if uri.starts_with('/') && !uri.contains('{') => {
                        path = Some(uri.to_owned());
                        Verdict::Converted
                    }
                    _ => {
                        flow.closed = true;
                        let because = format!("this path depends on the request, so {CLOSED}");
                        Verdict::not_supported(because, None)
                    }
                };
                report.set(line.id, verdict);
            }
            "copy_headers" => {
                let mut names: Vec<&String> = line.args().iter().collect();
                report.set(line.id, Verdict::Converted);
                for inner in line.inner() {
                    names.extend(inner.words.iter());
                    report.set(inner.id, Verdict::Converted);
                }
                for name in names {
                    if name.contains(['>', '{', '*']) {
                        let because = "a field is copied under its own name";
                        report.set(line.id, Verdict::not_supported(because, None));
                    } else {
                        copied.push(name.to_lowercase());
                    }
                }
            }
            _ => {}
        }
    }
    let Some(upstream) = upstream else {
        flow.closed = true;
        let because = format!("the service is not known, so {CLOSED}");
        report.set(statement.id, Verdict::not_supported(because, None));
        return;
    };
    if flow.auth.is_some() {
        flow.closed = true;
        let because = format!("a route has one kind of `auth`, so {CLOSED}");
        report.set(statement.id, Verdict::not_supported(because, None));
    }
    let mut auth = Vec::new();
    match (upstream.endpoints.as_slice(), upstream.options.is_empty()) {
        ([one], true) => auth.push(("forward".to_owned(), one.clone())),
        _ => {
            // Its pool is made when the table is written.
            auth.push((
                "forward".to_owned(),
                DraftValue::Inline(vec![
                    ("endpoints".to_owned(), DraftValue::List(upstream.endpoints)),
                    ("options".to_owned(), DraftValue::Inline(upstream.options)),
                ]),
            ));
        }
    }
    if let Some(path) = path {
        auth.push(("path".to_owned(), path.into()));
    }
    if !copied.is_empty() {
        auth.push(("copy".to_owned(), copied.into()));
    }
    flow.auth = Some(DraftValue::Inline(auth));
}
