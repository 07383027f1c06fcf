//! Names of versions, cipher suites and groups in OpenSSL, and those of Lockgate.

use crate::openssl_suites::OPENSSL_SUITES;
use crate::{DraftValue, Verdict};

/// A choice of names, or none where Lockgate's own choice holds; and what became of the statement.
pub(super) type Choice = (Option<Vec<&'static str>>, Verdict);

/// The suites of TLS 1.3 by their names in OpenSSL.
const SUITES13: [(&str, &str); 3] = [
    ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384"),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS13_CHACHA20_POLY1305_SHA256",
    ),
];

/// The groups, likewise.
const GROUPS: [(&str, &str); 4] = [
    ("X25519", "X25519"),
    ("prime256v1", "secp256r1"),
    ("P-256", "secp256r1"),
    ("secp384r1", "secp384r1"),
];

fn known(table: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    let found = table
        .iter()
        .find(|(theirs, _)| theirs.eq_ignore_ascii_case(name));
    found.map(|(_, ours)| *ours)
}

fn chosen(table: &[(&'static str, &'static str)], text: &str, all: usize) -> Choice {
    let names = text.split([':', ',', ' ']).filter(|name| !name.is_empty());
    let (mut list, mut left) = (Vec::new(), Vec::new());
    for name in names {
        match known(table, name) {
            Some(ours) if !list.contains(&ours) => list.push(ours),
            Some(_) => {}
            None => left.push(name),
        }
    }
    let verdict = match (list.len(), left.is_empty()) {
        (0, _) => {
            return (
                None,
                Verdict::differs("Lockgate's own choice holds, all of it with forward secrecy"),
            );
        }
        (count, true) if count == all => return (None, Verdict::Default),
        (_, true) => Verdict::Converted,
        (_, false) => Verdict::differs(format!("Lockgate has no {}", left.join(", "))),
    };
    (Some(list).filter(|list| list.len() < all), verdict)
}

/// The suites of TLS 1.2 and older: a list of OpenSSL.
pub(super) fn ciphers(text: &str) -> Choice {
    chosen(&OPENSSL_SUITES, text, OPENSSL_SUITES.len())
}

/// The suites of TLS 1.3.
pub(super) fn ciphersuites(text: &str) -> Choice {
    chosen(&SUITES13, text, SUITES13.len())
}

/// The groups of the key exchange.
pub(super) fn groups(text: &str) -> Choice {
    if text == "auto" {
        return (None, Verdict::Default);
    }
    chosen(&GROUPS, text, usize::MAX)
}

/// The versions.
pub(super) fn versions(key: &str, text: &str) -> Choice {
    if key != "tls-protos" {
        return (
            None,
            Verdict::differs("Lockgate has TLS 1.2 and 1.3, never an older version"),
        );
    }
    let (mut list, mut older) = (Vec::new(), false);
    for name in text.split([' ', ',']).filter(|name| !name.is_empty()) {
        match name {
            "TLSv1.2" => list.push("1.2"),
            "TLSv1.3" => list.push("1.3"),
            _ => older = true,
        }
    }
    let verdict = match (list.len(), older) {
        (2, false) => Verdict::Default,
        (_, true) => Verdict::differs("Lockgate has TLS 1.2 and 1.3, never an older version"),
        _ => Verdict::Converted,
    };
    (Some(list).filter(|list| list.len() == 1), verdict)
}

/// The `policy` of these choices, if it is not Lockgate's own.
pub(super) fn policy(
    versions: Option<&Vec<&'static str>>,
    suites: Option<&Vec<&'static str>>,
    suites13: Option<&Vec<&'static str>>,
    groups: Option<&Vec<&'static str>>,
) -> Option<DraftValue> {
    let only = versions.and_then(|list| list.first()).copied();
    let list = |list: Vec<&str>| DraftValue::from(list);
    let mut keys = Vec::new();
    if let Some(version) = only {
        keys.push(("versions".to_owned(), list(vec![version])));
    }
    if suites.is_some() || suites13.is_some() {
        let ours = |table: &[(&'static str, &'static str)]| -> Vec<&'static str> {
            table.iter().map(|(_, ours)| *ours).collect()
        };
        let mut all = Vec::new();
        if only != Some("1.2") {
            all.extend(suites13.cloned().unwrap_or_else(|| ours(&SUITES13)));
        }
        if only != Some("1.3") {
            all.extend(suites.cloned().unwrap_or_else(|| ours(&OPENSSL_SUITES)));
        }
        keys.push(("suites".to_owned(), list(all)));
    }
    if let Some(groups) = groups {
        keys.push(("groups".to_owned(), list(groups.clone())));
    }
    match keys.as_slice() {
        [] => None,
        [(key, _)] if key == "versions" && only == Some("1.3") => Some("modern".into()),
        _ => Some(DraftValue::Inline(keys)),
    }
}
