//! `listen`, `server_name` and the certificates of a server.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::route::{NginxRoute, inline, place_of};
use super::scope::{NginxScope, NginxVerdicts};
use super::syntax::NginxDirective;
use crate::{DraftValue, Verdict};

/// An address that a server listens on.
#[derive(Debug, Clone)]
pub(super) struct NginxListen<'a> {
    pub(super) directive: Option<&'a NginxDirective>,
    /// `None` for every address.
    pub(super) ip: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) unix: Option<String>,
    pub(super) tls: bool,
    pub(super) default: bool,
    pub(super) proxy_protocol: bool,
}

/// Reads the `listen` directives of a server of http.
pub(super) fn listens<'a>(
    verdicts: &NginxVerdicts,
    scope: &NginxScope<'a>,
) -> Vec<NginxListen<'a>> {
    let ssl_on = scope.last("ssl").is_some_and(|ssl| ssl.arg(0) == "on");
    for ssl in scope.own("ssl") {
        verdicts.converted(ssl);
    }
    let mut all = Vec::new();
    for directive in scope.own("listen") {
        match listen(directive) {
            Some(mut listen) => {
                listen.tls |= ssl_on;
                if directive.args.iter().any(|arg| arg == "quic") {
                    verdicts.refuse(
                        directive,
                        "HTTP/3 is not spoken yet",
                        Some("clients get HTTP/2 over TLS"),
                    );
                    continue;
                }
                if directive.args.iter().any(|arg| arg == "udp") {
                    verdicts.refuse(
                        directive,
                        "UDP is not relayed",
                        Some("use nftables DNAT, or nginx's stream module"),
                    );
                    continue;
                }
                verdicts.converted(directive);
                all.push(listen);
            }
            None => verdicts.refuse(directive, "this address cannot be read", None),
        }
    }
    if scope.own("listen").is_empty() {
        all.push(NginxListen {
            directive: None,
            ip: None,
            port: 80,
            unix: None,
            tls: ssl_on,
            default: false,
            proxy_protocol: false,
        });
    }
    all
}

fn listen(directive: &NginxDirective) -> Option<NginxListen<'_>> {
    let text = directive.arg(0);
    let has = |word: &str| directive.args.iter().any(|arg| arg == word);
    let mut listen = NginxListen {
        directive: Some(directive),
        ip: None,
        port: 80,
        unix: None,
        tls: has("ssl"),
        default: has("default_server") || has("default"),
        proxy_protocol: has("proxy_protocol"),
    };
    if let Some(path) = text.strip_prefix("unix:") {
        listen.unix = Some(path.to_owned()).filter(|p| p.starts_with('/') && !p.contains('$'));
        return listen.unix.is_some().then_some(listen);
    }
    if let Ok(port) = text.parse::<u16>() {
        listen.port = port;
        return (port > 0).then_some(listen);
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    listen.port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => 80,
    };
    listen.ip = match host {
        "*" => None,
        "localhost" => Some([127, 0, 0, 1].into()),
        host => Some(host.parse::<IpAddr>().ok()?).filter(|ip| !ip.is_unspecified()),
    };
    Some(listen)
}

/// The hosts of a server, as Lockgate writes them.
#[derive(Debug, Clone, Default)]
pub(super) struct NginxNames<'a> {
    pub(super) hosts: Vec<String>,
    pub(super) directive: Option<&'a NginxDirective>,
    /// Whether there is a name that Lockgate cannot match, as a regular expression.
    pub(super) lost: bool,
}

/// Reads `server_name`.
pub(super) fn names<'a>(verdicts: &NginxVerdicts, scope: &NginxScope<'a>) -> NginxNames<'a> {
    let mut names = NginxNames::default();
    let mut seen = BTreeSet::new();
    for directive in scope.own("server_name") {
        names.directive = Some(directive);
        verdicts.converted(directive);
        for arg in &directive.args {
            let name = arg.to_ascii_lowercase();
            let hosts = match name.strip_prefix('.') {
                Some(domain) => vec![domain.to_owned(), format!("*.{domain}")],
                None => vec![name.clone()],
            };
            if arg.starts_with('~') || arg.ends_with(".*") || arg.contains('$') {
                names.lost = true;
                verdicts.refuse(
                    directive,
                    format!("the name {arg} has no counterpart: a host is exact or begins with *."),
                    None,
                );
            } else if hosts.iter().all(|host| is_host(host)) {
                for host in hosts {
                    if seen.insert(host.clone()) {
                        names.hosts.push(host);
                    }
                }
            } else if !matches!(name.as_str(), "_" | "" | "__" | "--" | "*" | "catch_all")
                && name.len() > 1
            {
                names.lost = true;
                verdicts.refuse(directive, format!("the name {arg} is no host"), None);
            }
        }
    }
    names
}

fn is_host(name: &str) -> bool {
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_prefix("*.").unwrap_or(name);
    let part = |part: &str| {
        !part.is_empty()
            && part.len() < 64
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && part != "_"
    };
    // Lockgate keeps the name `default` for itself.
    !name.is_empty()
        && name != "default"
        && name.len() < 254
        && name.split('.').all(part)
        && !name
            .split('.')
            .next_back()
            .is_some_and(|last| last.chars().all(|c| c.is_ascii_digit()))
}

/// Whether a host of a server (exact or `*.`) covers a host.
pub(super) fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => {
            !host.starts_with('*') && host.ends_with(end) && host.len() > end.len()
                || pattern == host
        }
        None => pattern == host,
    }
}

/// What a table has of TLS by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NginxTlsKind {
    /// Nothing.
    Plain,
    /// A site without a port is on TLS without a word.
    Bare,
    /// A site for every host beside sites with certificates of their own: clients with an unknown
    /// server name must get its certificate.
    Default,
}

/// Adds the certificates and rules of TLS. Without a certificate that is known, Lockgate's own.
pub(super) fn add_tls<'a>(
    verdicts: &NginxVerdicts,
    scope: &NginxScope<'a>,
    listen: &NginxListen<'a>,
    kind: NginxTlsKind,
    route: &mut NginxRoute,
) {
    let certs = scope.nearest("ssl_certificate");
    let keys = scope.nearest("ssl_certificate_key");
    let known = !certs.is_empty()
        && certs.len() == keys.len()
        && certs.iter().chain(keys).all(|d| {
            let text = d.arg(0);
            !text.is_empty()
                && !text.contains(['$', '{'])
                && !text.starts_with("data:")
                && !text.starts_with("engine:")
        });
    let mut tls: Vec<(&str, DraftValue)> = Vec::new();
    let acme = scope.last("acme_certificate").filter(|_| {
        certs
            .iter()
            .chain(keys)
            .all(|d| d.arg(0).starts_with("$acme_certificate"))
    });
    if let Some(acme) = acme {
        // [acme] gets it.
        for directive in certs.iter().chain(keys).chain([&acme]) {
            verdicts.converted(directive);
        }
    } else if known {
        for directive in certs.iter().chain(keys) {
            verdicts.converted(directive);
        }
        let pair = |index: usize| {
            let cert = certs.get(index).map_or("", |d| d.arg(0));
            let key = keys.get(index).map_or("", |d| d.arg(0));
            let mut pair = vec![("cert", DraftValue::from(cert))];
            if key != cert {
                pair.push(("key", key.into()));
            }
            pair
        };
        if certs.len() == 1 && kind == NginxTlsKind::Default {
            tls.push(("default", inline(pair(0))));
        } else if certs.len() == 1 {
            tls = pair(0);
        } else {
            let all: Vec<DraftValue> = (0..certs.len()).map(|i| inline(pair(i))).collect();
            tls.push(("certs", DraftValue::List(all)));
        }
    } else {
        let because = "the certificate is not known here: Lockgate's own authority makes one until `tls` names files, or [acme] gets one";
        for directive in certs.iter().chain(keys) {
            verdicts.differs(directive, because);
        }
        if certs.is_empty() && keys.is_empty() {
            match listen.directive {
                Some(directive) => verdicts.differs(directive, because),
                None => verdicts.note(because),
            }
        }
        tls.push(("issuer", "internal".into()));
    }
    if let Some(protocols) = scope.last("ssl_protocols") {
        let has = |v: &str| protocols.args.iter().any(|arg| arg == v);
        if has("TLSv1.3") && protocols.args.len() == 1 {
            tls.push(("policy", "modern".into()));
        } else if has("TLSv1.2") && protocols.args.len() == 1 {
            tls.push(("policy", inline(vec![("versions", vec!["1.2"].into())])));
        }
    }
    if scope
        .last("ssl_session_tickets")
        .is_some_and(|d| d.arg(0) == "off")
    {
        tls.push(("tickets", false.into()));
    }
    client_certificates(verdicts, scope, &mut tls, route);
    let value = match tls.as_slice() {
        [("cert", DraftValue::Text(path))] => DraftValue::Text(path.clone()),
        [("issuer", _)] => "internal".into(),
        [] if kind == NginxTlsKind::Bare => return,
        _ => inline(tls),
    };
    route.set("tls", value);
}

fn client_certificates<'a>(
    verdicts: &NginxVerdicts,
    scope: &NginxScope<'a>,
    tls: &mut Vec<(&str, DraftValue)>,
    route: &mut NginxRoute,
) {
    let Some(verify) = scope.last("ssl_verify_client") else {
        return;
    };
    if verify.arg(0) == "off" {
        verdicts.default(verify);
        return;
    }
    for depth in scope.nearest("ssl_verify_depth") {
        verdicts.default(depth);
    }
    let ca = scope
        .last("ssl_client_certificate")
        .filter(|ca| !ca.arg(0).contains('$'));
    match (verify.arg(0), ca) {
        (mode @ ("on" | "optional"), Some(ca)) => {
            let mut keys = vec![("ca", DraftValue::from(ca.arg(0)))];
            if mode == "optional" {
                keys.push(("mode", "request".into()));
            }
            tls.push(("client_auth", inline(keys)));
            verdicts.converted(verify);
            verdicts.converted(ca);
        }
        _ => {
            verdicts.set(
                verify,
                Verdict::not_supported(
                    "certificates of clients without a known authority: the site refuses all clients",
                    Some("write tls.client_auth = { ca = \"/etc/tls/clients.pem\" }"),
                ),
            );
            route
                .closed
                .push(format!("{}: ssl_verify_client", place_of(verify)));
        }
    }
}
