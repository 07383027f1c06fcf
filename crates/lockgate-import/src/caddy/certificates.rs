//! `tls`: the certificates of a site.

use super::addresses::CaddyAddress;
use super::blocks::CaddyStatement;
use super::options::CaddyOptions;
use super::texts::{self, CaddyTextKind};
use crate::{ConversionReport, DraftValue, Verdict};

/// How a listener of a site ends TLS.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CaddyTls {
    /// By ACME.
    Automatic,
    /// By Lockgate's own authority.
    Internal,
    /// As these keys say.
    Table(Vec<(String, DraftValue)>),
}

/// How an address of a site ends TLS, with the `tls` of the site.
pub(super) fn of_address(
    site: &CaddyStatement,
    address: &CaddyAddress,
    keys: Option<CaddyTls>,
    options: &CaddyOptions,
    report: &mut ConversionReport,
) -> CaddyTls {
    if !address.secure {
        return CaddyTls::Automatic;
    }
    match keys {
        Some(CaddyTls::Table(keys)) if keys.iter().any(|(name, _)| name == "cert") => {
            return CaddyTls::Table(keys);
        }
        Some(CaddyTls::Internal) => return CaddyTls::Internal,
        _ => {}
    }
    if options.local_certs || address.is_own() {
        return with_internal(keys);
    }
    let wildcard = address
        .host
        .as_deref()
        .is_some_and(|host| host.starts_with('*'));
    let has = |name: &str| options.acme.iter().any(|(key, _)| key == name);
    let because = match () {
        () if address.host.is_none() && has("on_demand") => {
            return keys.unwrap_or(CaddyTls::Automatic);
        }
        () if address.host.is_none() => {
            "it has no host to get a certificate for: Lockgate's own authority certifies it, \
                 which clients must trust"
        }
        () if address.is_private() && !has("directory") => {
            "no public authority certifies this name: Lockgate's own authority does, which \
                 clients must trust"
        }
        () if wildcard && !has("dns") && !has("on_demand") => {
            "a certificate for every name below it needs `acme.dns`: until then Lockgate's own \
                 authority certifies it, which clients must trust"
        }
        () if options.auto_https_off => {
            "its certificate is not named: Lockgate's own authority certifies it, which \
                 clients must trust"
        }
        () => return keys.unwrap_or(CaddyTls::Automatic),
    };
    report.set(site.id, Verdict::differs(because));
    with_internal(keys)
}

/// `tls`: certificates of a site.
pub(super) fn of_site(
    statement: &CaddyStatement,
    options: &mut CaddyOptions,
    report: &mut ConversionReport,
) -> Option<CaddyTls> {
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    let mut internal = false;
    let verdict = match statement.args() {
        [] => Verdict::Converted,
        [one] if one == "internal" => {
            internal = true;
            Verdict::Converted
        }
        [email] if email.contains('@') => options.email(Some(email)),
        [one] if one.starts_with('{') => options.email(Some(one)),
        [cert, key] => match (
            texts::convert(cert, CaddyTextKind::Plain, None),
            texts::convert(key, CaddyTextKind::Plain, None),
        ) {
            (Ok(cert), Ok(key)) => {
                let differs = cert.differs.clone().or(key.differs.clone());
                keys.push(("cert".to_owned(), cert.text.into()));
                keys.push(("key".to_owned(), key.text.into()));
                differs.map_or(Verdict::Converted, Verdict::differs)
            }
            _ => Verdict::not_supported("the paths have placeholders", None),
        },
        _ => Verdict::not_supported("this is not known of certificates", None),
    };
    report.set(statement.id, verdict);
    for line in statement.inner() {
        let arg = line.arg();
        let verdict = match line.name() {
            "dns" => options.dns(line.args(), line.inner()),
            "resolvers" => {
                let resolvers: Vec<String> = line
                    .args()
                    .iter()
                    .map(|one| match one.contains(':') {
                        true => one.clone(),
                        false => format!("{one}:53"),
                    })
                    .collect();
                if resolvers
                    .iter()
                    .all(|one| one.parse::<std::net::SocketAddr>().is_ok())
                    && let Some((_, DraftValue::Inline(dns))) =
                        options.acme.iter_mut().find(|(key, _)| key == "dns")
                {
                    dns.retain(|(key, _)| key != "resolvers");
                    dns.push(("resolvers".to_owned(), resolvers.into()));
                    Verdict::Converted
                } else {
                    Verdict::not_supported("name servers are addresses", None)
                }
            }
            "propagation_timeout"
            | "propagation_delay"
            | "dns_ttl"
            | "dns_challenge_override_domain" => {
                Verdict::differs("Lockgate looks until the record is there: acme.dns.propagation")
            }
            "ca" => options.directory(arg),
            "email" => options.email(arg),
            "on_demand" => match options.acme.iter().any(|(key, _)| key == "on_demand") {
                true => Verdict::Converted,
                false => {
                    Verdict::differs("certificates on demand need a permission: acme.on_demand")
                }
            },
            "issuer" if arg == Some("internal") => {
                internal = true;
                Verdict::Converted
            }
            "issuer" if arg == Some("acme") && line.inner().is_empty() => Verdict::Default,
            "protocols" => match line.args().first().map(String::as_str) {
                Some("tls1.3") => {
                    keys.push(("policy".to_owned(), "modern".into()));
                    Verdict::Converted
                }
                Some("tls1.2")
                    if line.args().len() == 1
                        || line.args().last().is_some_and(|one| one == "tls1.3") =>
                {
                    Verdict::Default
                }
                Some("tls1.2") => {
                    let versions = vec![("versions".to_owned(), vec!["1.2"].into())];
                    keys.push(("policy".to_owned(), DraftValue::Inline(versions)));
                    Verdict::Converted
                }
                _ => Verdict::not_supported("Lockgate speaks TLS 1.2 and 1.3", None),
            },
            "client_auth" => {
                client_auth(line, &mut keys, report);
                continue;
            }
            "key_type" if arg == Some("p256") => Verdict::Default,
            "ciphers" | "curves" | "alpn" | "key_type" => Verdict::differs(
                "the choice is Lockgate's own: `tls.policy` and `protocols` change it",
            ),
            "load" => Verdict::not_supported(
                "certificates are named one by one, or by a pattern",
                Some("tls = { certs = [\"/etc/tls/*.pem\"] }"),
            ),
            _ => Verdict::not_supported("this is not known of certificates", None),
        };
        line.set_all(report, &verdict);
    }
    match (internal, keys.is_empty()) {
        (true, true) => Some(CaddyTls::Internal),
        (true, false) => Some(with_internal(Some(CaddyTls::Table(keys)))),
        (false, true) => None,
        (false, false) => Some(CaddyTls::Table(keys)),
    }
}

fn client_auth(
    statement: &CaddyStatement,
    keys: &mut Vec<(String, DraftValue)>,
    report: &mut ConversionReport,
) {
    let mut mode = "require";
    let mut ca: Vec<&str> = Vec::new();
    let mut known = true;
    for line in statement.inner() {
        match (line.name(), line.arg()) {
            ("mode", Some("require_and_verify")) => {}
            ("mode", Some("verify_if_given")) => mode = "request",
            ("trusted_ca_cert_file", Some(file)) => ca.push(file),
            ("trust_pool", Some("file")) => {
                ca.extend(line.args().iter().skip(1).map(String::as_str));
                for inner in line.inner() {
                    ca.extend(inner.args().iter().map(String::as_str));
                }
            }
            _ => known = false,
        }
    }
    let mut value = Vec::new();
    if mode != "require" {
        value.push(("mode".to_owned(), mode.into()));
    }
    let verdict = match ca.as_slice() {
        [file] if known => {
            value.push(("ca".to_owned(), (*file).into()));
            Verdict::Converted
        }
        // No client has a certificate of this file until it is made.
        _ => {
            value.clear();
            value.push(("ca".to_owned(), "/etc/lockgate/clients.pem".into()));
            Verdict::differs(
                "a certificate of one file of authorities is asked for: \
                     /etc/lockgate/clients.pem, which you have to write",
            )
        }
    };
    keys.push(("client_auth".to_owned(), DraftValue::Inline(value)));
    statement.set_all(report, &verdict);
}

fn with_internal(keys: Option<CaddyTls>) -> CaddyTls {
    match keys {
        Some(CaddyTls::Table(mut keys)) => {
            keys.insert(0, ("issuer".to_owned(), "internal".into()));
            CaddyTls::Table(keys)
        }
        _ => CaddyTls::Internal,
    }
}
