//! Certificates, and options of TLS: versions, suites, groups, client certificates.

use super::node::TraefikNode;
use super::values::unreadable;
use crate::{ConversionReport, DraftValue, Verdict};

/// The suites of Lockgate, by their names in Go, with those of TLS 1.3 first.
const SUITES: [(&str, &str); 9] = [
    ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384"),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS13_CHACHA20_POLY1305_SHA256",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
];

const GROUPS: [(&str, &str); 6] = [
    ("X25519MLKEM768", "X25519MLKEM768"),
    ("SecP256r1MLKEM768", "SECP256R1MLKEM768"),
    ("X25519", "X25519"),
    ("CurveP256", "secp256r1"),
    ("CurveP384", "secp384r1"),
    ("P256", "secp256r1"),
];

/// Options of TLS that were read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TraefikTlsOptions {
    /// The keys of `tls`: `policy` and `client_auth`.
    pub(super) keys: Vec<(String, DraftValue)>,
    /// `protocols` of a site, if they are not the default.
    pub(super) protocols: Option<Vec<String>>,
    /// Why its routers must not be served, if they must not.
    pub(super) refuse: Option<String>,
}

/// Reads options.
pub(super) fn read(node: &TraefikNode, report: &mut ConversionReport) -> TraefikTlsOptions {
    let mut options = TraefikTlsOptions::default();
    let (mut least, mut most) = ("1.2", "1.3");
    let (mut suites, mut groups): (Option<Vec<&str>>, Option<Vec<&str>>) = (None, None);
    if let Some(statement) = node.statement {
        report.set(statement, Verdict::Converted);
    }
    for (key, node) in node.fields() {
        let text = node.text().unwrap_or("");
        let verdict = match key.to_ascii_lowercase().as_str() {
            "minversion" => match text {
                "VersionTLS13" => {
                    least = "1.3";
                    Verdict::Converted
                }
                "VersionTLS12" => Verdict::Default,
                "VersionTLS10" | "VersionTLS11" => {
                    Verdict::differs("the oldest version of Lockgate is TLS 1.2")
                }
                _ => unreadable(),
            },
            "maxversion" => match text {
                "VersionTLS12" => {
                    most = "1.2";
                    Verdict::Converted
                }
                "VersionTLS13" => Verdict::Default,
                _ => Verdict::differs(
                    "the oldest version of Lockgate is TLS 1.2, so both are spoken",
                ),
            },
            "ciphersuites" => {
                let (list, verdict) = suite_names(&node.items());
                suites = list;
                verdict
            }
            "curvepreferences" => {
                let (list, verdict) = group_names(&node.items());
                groups = list;
                verdict
            }
            "snistrict" | "preferservercipherssuites" | "preferserverciphersuites" => {
                Verdict::Default
            }
            "disablesessiontickets" if node.flag() == Some(true) => {
                options.keys.push(("tickets".to_owned(), false.into()));
                Verdict::Converted
            }
            "disablesessiontickets" => Verdict::Default,
            "alpnprotocols" => {
                let list: Vec<String> = node
                    .items()
                    .iter()
                    .filter_map(|name| match name.as_str() {
                        "h2" => Some("h2".to_owned()),
                        "http/1.1" => Some("http1".to_owned()),
                        _ => None,
                    })
                    .collect();
                match list.is_empty() {
                    true => unreadable(),
                    false if list == ["h2", "http1"] => Verdict::Default,
                    false => {
                        options.protocols = Some(list);
                        Verdict::Converted
                    }
                }
            }
            "clientauth" => {
                client_auth(node, &mut options, report);
                continue;
            }
            _ => continue,
        };
        node.set(report, verdict);
    }
    if least == "1.3" && most == "1.2" {
        options.refuse = Some("no version of TLS is left".to_owned());
    }
    let policy = policy(least, most, suites, groups);
    options
        .keys
        .extend(policy.map(|policy| ("policy".to_owned(), policy)));
    options
}

fn policy(
    least: &str,
    most: &str,
    suites: Option<Vec<&str>>,
    groups: Option<Vec<&str>>,
) -> Option<DraftValue> {
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    if least == most {
        keys.push(("versions".to_owned(), vec![least].into()));
    }
    if let Some(listed) = suites {
        // Go does not let the suites of TLS 1.3 be chosen: all of them are there.
        let chosen = SUITES.iter().map(|(_, ours)| *ours).filter(|name| {
            let new = name.starts_with("TLS13");
            (new && most == "1.3") || (!new && least == "1.2" && listed.contains(name))
        });
        let chosen: Vec<&str> = chosen.collect();
        let older = chosen
            .iter()
            .filter(|name| !name.starts_with("TLS13"))
            .count();
        if least == "1.2" && older == 0 {
            // No suite of TLS 1.2 is left, which leaves TLS 1.3.
            keys.clear();
            keys.push(("versions".to_owned(), vec!["1.3"].into()));
        } else if least == "1.2" && older < 6 {
            keys.push(("suites".to_owned(), chosen.into()));
        }
    }
    if let Some(groups) = groups {
        keys.push(("groups".to_owned(), groups.into()));
    }
    match keys.as_slice() {
        [] => None,
        [(key, DraftValue::List(list))] if key == "versions" && list == &["1.3".into()] => {
            Some("modern".into())
        }
        _ => Some(DraftValue::Inline(keys)),
    }
}

fn suite_names(names: &[String]) -> (Option<Vec<&'static str>>, Verdict) {
    let (mut list, mut left) = (Vec::new(), Vec::new());
    for name in names {
        let plain = match name.ends_with("POLY1305_SHA256") && name.contains("ECDHE") {
            true => name.trim_end_matches("_SHA256"),
            false => name,
        };
        match SUITES.iter().find(|(theirs, _)| *theirs == plain) {
            Some((_, ours)) => list.push(*ours),
            None => left.push(name.as_str()),
        }
    }
    let older = list
        .iter()
        .filter(|name| !name.starts_with("TLS13"))
        .count();
    if list.is_empty() {
        return (
            None,
            Verdict::differs("Lockgate has none of them: its own suites hold"),
        );
    }
    let verdict = match left.is_empty() {
        true if older == 6 => Verdict::Default,
        true => Verdict::Converted,
        false => Verdict::differs(format!("Lockgate has no {}", left.join(", "))),
    };
    (Some(list), verdict)
}

fn group_names(names: &[String]) -> (Option<Vec<&'static str>>, Verdict) {
    let (mut list, mut left) = (Vec::new(), Vec::new());
    for name in names {
        match GROUPS
            .iter()
            .find(|(theirs, _)| theirs.eq_ignore_ascii_case(name))
        {
            Some((_, ours)) if !list.contains(ours) => list.push(*ours),
            Some(_) => {}
            None => left.push(name.as_str()),
        }
    }
    let verdict = match (list.is_empty(), left.is_empty()) {
        (true, _) => {
            return (
                None,
                Verdict::differs("Lockgate has none of them: its own groups hold"),
            );
        }
        (false, true) => Verdict::Converted,
        (false, false) => Verdict::differs(format!("Lockgate has no {}", left.join(", "))),
    };
    (Some(list), verdict)
}

fn client_auth(node: &TraefikNode, options: &mut TraefikTlsOptions, report: &mut ConversionReport) {
    let kind = node
        .field("clientAuthType")
        .and_then(TraefikNode::text)
        .unwrap_or("");
    let files = node
        .field("caFiles")
        .map(TraefikNode::items)
        .unwrap_or_default();
    let mode = match kind {
        "RequireAndVerifyClientCert" => Some("require"),
        "VerifyClientCertIfGiven" => Some("request"),
        "NoClientCert" => {
            node.mark(report, &Verdict::Default);
            return;
        }
        "RequestClientCert" => {
            node.mark(
                report,
                &Verdict::not_supported(
                    "Lockgate does not ask for certificates that it does not verify",
                    None,
                ),
            );
            return;
        }
        _ => None,
    };
    let ca = match files.as_slice() {
        [ca] if super::node::is_known(ca) && !ca.contains("-----") => Some(ca.clone()),
        _ => None,
    };
    match (mode, ca) {
        (Some(mode), Some(ca)) => {
            let mut keys: Vec<(String, DraftValue)> = Vec::new();
            if mode != "require" {
                keys.push(("mode".to_owned(), mode.into()));
            }
            keys.push(("ca".to_owned(), ca.into()));
            options
                .keys
                .push(("client_auth".to_owned(), DraftValue::Inline(keys)));
            node.mark(report, &Verdict::Converted);
        }
        _ => {
            options.refuse = Some(
                "its client certificates are not verified by one file of authorities".to_owned(),
            );
            node.mark(
                report,
                &Verdict::not_supported(
                    "Lockgate verifies client certificates by one file of authorities; the routers with these options are refused",
                    Some("join the files: client_auth = { ca = \"FILE\" }"),
                ),
            );
        }
    }
}

/// A certificate with its key, in the form of `certs`.
pub(super) fn certificate(node: &TraefikNode, report: &mut ConversionReport) -> Option<DraftValue> {
    let path = |key| {
        let text = node.field(key).and_then(TraefikNode::text)?;
        (!text.is_empty() && !text.contains("-----") && !text.contains(['*', '?'])).then_some(text)
    };
    let (cert, key) = (path("certFile"), path("keyFile"));
    let Some((cert, key)) = cert.zip(key) else {
        node.mark(
            report,
            &Verdict::not_supported("a certificate and a key are files, both with a path", None),
        );
        return None;
    };
    for (name, field) in node.fields() {
        let verdict = match name.to_ascii_lowercase().as_str() {
            "certfile" | "keyfile" => Verdict::Converted,
            "stores" => Verdict::Default,
            _ => continue,
        };
        field.mark(report, &verdict);
    }
    if cert == key || beside(cert) == key {
        return Some(cert.into());
    }
    let keys = vec![
        ("cert".to_owned(), cert.into()),
        ("key".to_owned(), key.into()),
    ];
    Some(DraftValue::Inline(keys))
}

/// Where Lockgate looks for the key of a certificate.
fn beside(cert: &str) -> String {
    std::path::Path::new(cert)
        .with_extension("key")
        .display()
        .to_string()
}
