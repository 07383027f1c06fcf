//! Frontends of hitch as `[tcp]` tables with their certificates.

use super::{HitchCert, HitchFrontend, HitchTop, plain, suites};
use crate::{ConversionReport, Draft, DraftTable, DraftValue, Verdict};

/// The address of an endpoint.
fn backend_address(text: &str, chroot: &str) -> Option<String> {
    if text.starts_with('/') {
        return plain(text).then(|| format!("unix:{}{text}", chroot.trim_end_matches('/')));
    }
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
    match host {
        "" => None,
        host if !host.chars().all(is_host) => None,
        host if host.contains(':') => Some(format!("[{host}]:{port}")),
        host => Some(format!("{host}:{port}")),
    }
}

fn listen_address(frontend: &HitchFrontend) -> Option<String> {
    let port = frontend.port.parse::<u16>().ok()?;
    match frontend.host.as_str() {
        "*" | "" => Some(format!(":{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        host => {
            let address = host.parse::<std::net::IpAddr>().ok()?;
            Some(std::net::SocketAddr::new(address, port).to_string())
        }
    }
}

/// Writes a relay for each frontend.
pub(super) fn write_relays(top: &HitchTop, draft: &mut Draft, report: &mut ConversionReport) {
    let standard = HitchFrontend {
        host: "*".to_owned(),
        port: "8443".to_owned(),
        ..HitchFrontend::default()
    };
    let (backend, backend_statement) = match &top.backend {
        Some((text, statement)) => (backend_address(text, &top.chroot), Some(*statement)),
        None => (Some("127.0.0.1:8000".to_owned()), None),
    };
    if let Some(statement) = backend_statement {
        report.set(
            statement,
            match &backend {
                Some(_) if top.foreign_header => {
                    Verdict::not_supported("it expects bytes that Lockgate does not send", None)
                }
                Some(_) => Verdict::Converted,
                None => Verdict::not_supported("it is not an address as [HOST]:PORT", None),
            },
        );
    }
    let frontends = match top.frontends.as_slice() {
        [] => std::slice::from_ref(&standard),
        some => some,
    };
    for frontend in frontends {
        let written = (|| {
            let proxy = backend.as_deref().filter(|_| !top.foreign_header)?;
            let address = listen_address(frontend)?;
            let tls = tls_value(top, frontend, report)?;
            let mut table = DraftTable::default();
            if !frontend.place.is_empty() {
                table.comments.push(frontend.place.clone());
            }
            table.set("tls", tls);
            table.set("proxy", proxy);
            if let Some(version) = top.proxy_protocol {
                table.set("proxy_protocol", version);
                if version == "pass" {
                    table.set("accept_proxy", "require");
                }
            }
            *draft.top.table("tcp").table(&address) = table;
            Some(())
        })();
        for statement in &frontend.statements {
            report.set(
                *statement,
                match written {
                    Some(()) => Verdict::Converted,
                    None => Verdict::not_supported(
                        "its relay needs an IP address, a backend, a certificate and client certificates that can be written",
                        None,
                    ),
                },
            );
        }
    }
}

/// The `tls` of a relay; none if it would let in more clients than hitch does.
fn tls_value(
    top: &HitchTop,
    frontend: &HitchFrontend,
    report: &mut ConversionReport,
) -> Option<DraftValue> {
    let own = &frontend.tls;
    let text = |value: &str| DraftValue::from(value);
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    let certs: Vec<_> = top.tls.certs.iter().chain(&own.certs).collect();
    let folders: Vec<_> = top.tls.folders.iter().chain(&own.folders).collect();
    let one = |cert: &HitchCert| match (&cert.key, &cert.ocsp) {
        (None, None) => text(&cert.cert),
        _ => {
            let mut keys = vec![("cert".to_owned(), text(&cert.cert))];
            keys.extend(cert.key.iter().map(|key| ("key".to_owned(), text(key))));
            keys.extend(cert.ocsp.iter().map(|ocsp| ("ocsp".to_owned(), text(ocsp))));
            DraftValue::Inline(keys)
        }
    };
    let abort = own.abort.or(top.tls.abort);
    match (certs.as_slice(), folders.as_slice()) {
        ([], []) => return None,
        ([cert], []) => {
            if let Some((true, statement)) = abort {
                report.set(
                    statement,
                    Verdict::differs("the only certificate serves unknown names too"),
                );
            }
            match one(cert) {
                DraftValue::Inline(inner) => keys.extend(inner),
                path => keys.push(("cert".to_owned(), path)),
            }
        }
        _ => {
            let mut list: Vec<DraftValue> = certs.iter().map(|cert| one(cert)).collect();
            for (folder, statement) in &folders {
                let pattern = format!("{}/{}", folder.trim_end_matches('/'), top.glob);
                list.push(pattern.into());
                if certs.is_empty() && !matches!(abort, Some((true, _))) {
                    report.set(
                        *statement,
                        Verdict::differs(
                            "clients without a known server name are refused: hitch gives them the first file, name it as `default` for that",
                        ),
                    );
                }
            }
            keys.push(("certs".to_owned(), DraftValue::List(list)));
            match abort {
                Some((true, statement)) => report.set(
                    statement,
                    Verdict::differs("clients that send no server name are refused too"),
                ),
                // hitch takes the last one for names that no certificate has.
                _ => keys.extend(certs.last().map(|cert| ("default".to_owned(), one(cert)))),
            }
        }
    }
    if !top.alpn.is_empty() {
        keys.push(("alpn".to_owned(), top.alpn.clone().into()));
    }
    let policy = suites::policy(
        own.versions.as_ref().or(top.tls.versions.as_ref()),
        own.suites.as_ref().or(top.tls.suites.as_ref()),
        own.suites13.as_ref().or(top.tls.suites13.as_ref()),
        own.groups.as_ref().or(top.tls.groups.as_ref()),
    );
    keys.extend(policy.map(|policy| ("policy".to_owned(), policy)));
    if own.refused || top.tls.refused {
        return None;
    }
    if let Some(mode) = own.client.or(top.tls.client) {
        let ca = own.client_ca.as_ref().or(top.tls.client_ca.as_ref())?;
        let mut auth = Vec::new();
        if mode != "require" {
            auth.push(("mode".to_owned(), text(mode)));
        }
        auth.push(("ca".to_owned(), text(ca)));
        keys.push(("client_auth".to_owned(), DraftValue::Inline(auth)));
    }
    match keys.as_slice() {
        [(key, path)] if key == "cert" => Some(path.clone()),
        _ => Some(DraftValue::Inline(keys)),
    }
}
