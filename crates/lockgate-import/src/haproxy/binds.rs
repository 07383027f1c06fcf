//! Listeners: the `bind` lines of a section.

use super::Importer;
use super::backends::with_base;
use super::sections::HaproxyLine;
use super::tls_policy::{HaproxyTls, ciphers, tls_options};
use super::words::has_variable;
use crate::{DraftValue, StatementId, Verdict};

/// The TLS of a listener.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct HaproxyBindTls {
    /// Files and patterns of certificates; the first one is for clients without a known name.
    pub(super) certs: Vec<String>,
    pub(super) strict: bool,
    pub(super) http1_only: bool,
    pub(super) keys: Vec<(String, DraftValue)>,
    /// Whether clients cannot be let in as safely as before.
    pub(super) refused: bool,
}

impl HaproxyBindTls {
    /// The certificate of clients without a known name, where it is one of several and known here.
    pub(super) fn first_cert(&self) -> Option<&str> {
        let first = self.certs.first().filter(|_| !self.strict)?;
        (!first.contains('*')).then_some(first)
    }

    /// Whether such clients get a certificate from HAProxy that is not known here.
    fn lacks_default(&self) -> bool {
        !self.strict && !self.certs.is_empty() && self.first_cert().is_none()
    }
}

/// A port on which a section listens.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HaproxyListener {
    /// Empty for all addresses.
    pub(super) addresses: Vec<String>,
    /// The port; none for a Unix socket.
    pub(super) port: Option<u16>,
    /// The path of a Unix socket.
    pub(super) socket: Option<String>,
    pub(super) tls: Option<HaproxyBindTls>,
    pub(super) accept_proxy: bool,
    pub(super) h2c: bool,
    pub(super) statement: StatementId,
}

impl HaproxyListener {
    /// The key of a table for every host: `:80`, `127.0.0.1:80`, `unix:/x`.
    pub(super) fn key(&self, host: Option<&str>) -> String {
        match (&self.socket, self.port, host) {
            (Some(path), ..) => format!("unix:{path}"),
            (None, Some(port), host) => format!("{}:{port}", host.unwrap_or_default()),
            (None, None, host) => host.unwrap_or_default().to_owned(),
        }
    }
}

impl Importer<'_> {
    /// Reads the `bind` lines of a section, and the address on its first line.
    pub(super) fn listeners(&mut self, at: usize) -> Vec<HaproxyListener> {
        let source = self.source;
        let Some(section) = source.sections.get(at) else {
            return Vec::new();
        };
        let mut listeners: Vec<HaproxyListener> = Vec::new();
        let own = section
            .opening
            .words
            .get(2)
            .filter(|word| word.contains(':'))
            .map(|_| (&section.opening, 2));
        let lines = section
            .lines
            .iter()
            .filter(|line| line.is("bind") && !line.uncertain);
        for (line, address) in own.into_iter().chain(lines.map(|line| (line, 1))) {
            let (listener, verdicts) = self.bind(line, address);
            self.report.set(line.id, Verdict::Converted);
            for verdict in verdicts {
                self.report.set(line.id, verdict);
            }
            for listener in listener {
                add(&mut listeners, listener);
            }
        }
        listeners
    }

    fn bind(&mut self, line: &HaproxyLine, at: usize) -> (Vec<HaproxyListener>, Vec<Verdict>) {
        let mut verdicts = Vec::new();
        let mut not = |because: &str| verdicts.push(Verdict::not_supported(because, None));
        let mut differs = Vec::new();
        let mut tls = None;
        let mut options = HaproxyBindTls::default();
        let mut asked = HaproxyTls::default();
        let mut suites = Vec::new();
        let mut accept_proxy = false;
        let mut h2c = false;
        let mut v6only = false;
        let (mut verify, mut ca) = (None, None);
        let base = self.bases.get("crt-base").cloned();
        let ca_base = self.bases.get("ca-base").cloned();
        let mut words = line.from(at + 1).iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().map_or("", String::as_str);
            match word.as_str() {
                "ssl" => tls = Some(()),
                "crt" => {
                    let file = value();
                    if file.starts_with('@')
                        || has_variable(file) && !file.contains("${env:")
                        || file.is_empty()
                    {
                        not("this certificate is not a file or a folder");
                    } else {
                        let file = with_base(file, base.as_deref());
                        let last = file.rsplit('/').next().unwrap_or_default();
                        let folder = !last.contains('.') || last.ends_with(".d");
                        if folder {
                            options
                                .certs
                                .push(format!("{}/*.pem", file.trim_end_matches('/')));
                            differs.push(
                                "of the folder the files that end in .pem are taken".to_owned(),
                            );
                        } else {
                            options.certs.push(file);
                        }
                    }
                }
                "crt-list" => {
                    let file = with_base(value(), base.as_deref());
                    match self.certificate_list(&file) {
                        Some(certs) => {
                            options.certs.extend(certs);
                            differs.push("the names of each certificate decide which client gets it, not the list's".to_owned());
                        }
                        None => {
                            not(
                                "the list of certificates cannot be read: those beside it that end in .pem are taken",
                            );
                            let folder = file.rsplit_once('/').map_or(".", |(folder, _)| folder);
                            options.certs.push(format!("{folder}/*.pem"));
                        }
                    }
                }
                "alpn" => {
                    let list = value();
                    options.http1_only = !list.split(',').any(|name| name == "h2");
                }
                "proto" => match value() {
                    "h2" => h2c = true,
                    _ => not("the protocol follows from ALPN"),
                },
                "verify" => verify = Some(value()),
                "ca-file" => ca = Some(with_base(value(), ca_base.as_deref())),
                "crl-file" => {
                    value();
                    options.refused = true;
                    not(
                        "a list of revoked certificates has no counterpart, so that the sites refuse all clients until you decide",
                    );
                }
                "ca-verify-file" | "ca-ignore-err" | "crt-ignore-err" | "ca-sign-file"
                | "ca-sign-pass" => {
                    value();
                    if word.ends_with("ignore-err") || word == "ca-verify-file" {
                        not("only the authorities of ca-file are trusted, and no error is ignored");
                    } else {
                        not("Lockgate makes certificates by tls = \"internal\" or [acme]");
                    }
                }
                "generate-certificates" => {
                    not("Lockgate makes certificates by tls = \"internal\" or [acme]")
                }
                "strict-sni" => options.strict = true,
                "ciphers" => {
                    let (list, verdict) = ciphers(value());
                    suites.extend(list);
                    if let Verdict::Differs { because } = verdict {
                        differs.push(because);
                    }
                }
                "ciphersuites" | "curves" | "ecdhe" | "dh" | "sigalgs" | "client-sigalgs" => {
                    value();
                }
                "no-sslv3"
                | "no-tlsv10"
                | "no-tlsv11"
                | "no-tlsv12"
                | "no-tlsv13"
                | "force-tlsv12"
                | "force-tlsv13"
                | "no-tls-tickets"
                | "prefer-client-ciphers"
                | "force-sslv3"
                | "force-tlsv10"
                | "force-tlsv11" => {
                    let (found, verdict) = tls_options(std::slice::from_ref(word));
                    asked.merge(found);
                    if let Verdict::Differs { because } = verdict {
                        differs.push(because);
                    }
                }
                "ssl-min-ver" | "ssl-max-ver" => {
                    let (found, verdict) = tls_options(&[word.clone(), value().to_owned()]);
                    asked.merge(found);
                    if let Verdict::Differs { because } = verdict {
                        differs.push(because);
                    }
                }
                "accept-proxy" => accept_proxy = true,
                "v6only" => v6only = true,
                "v4v6" | "tfo" | "defer-accept" | "transparent" | "allow-0rtt" | "no-ca-names"
                | "no-strict-sni" | "tls-tickets" | "expose-fd" | "default-crt" | "no-alpn" => {
                    if word == "transparent" {
                        not("Lockgate binds addresses of this machine");
                    } else if word == "allow-0rtt" {
                        differs.push("early data is not accepted".to_owned());
                    }
                }
                "name" | "id" | "backlog" | "maxconn" | "nbconn" | "process" | "thread"
                | "shards" | "level" | "severity-output" | "tcp-ut" | "npn" | "mss" | "nice"
                | "gid" | "uid" | "group" | "user" | "mode" | "interface" | "namespace"
                | "tls-ticket-keys" | "quic-cc-algo" | "label" | "guid-prefix" | "idle-ping" => {
                    let value = value();
                    match word.as_str() {
                        "interface" | "namespace" => {
                            not(
                                "a listener is bound to addresses, not to an interface, so that it is left out",
                            );
                            return (Vec::new(), verdicts);
                        }
                        "maxconn" => differs
                            .push("limits = { connections = … } is for all listeners".to_owned()),
                        "tls-ticket-keys" => options.keys.push((
                            "tickets".to_owned(),
                            DraftValue::Inline(vec![("keys".to_owned(), value.into())]),
                        )),
                        "gid" | "uid" | "group" | "user" | "mode" => differs
                            .push("the socket has the permissions of Lockgate's umask".to_owned()),
                        _ => {}
                    }
                }
                "accept-netscaler-cip" => {
                    value();
                    not("Lockgate reads PROXY headers only");
                }
                other => not(&format!(
                    "the option `{}` is not known",
                    other.chars().take(40).collect::<String>()
                )),
            }
        }
        if let Some(mode) = verify.filter(|mode| *mode != "none") {
            match ca.filter(|ca| !ca.starts_with('@')) {
                Some(ca) => {
                    let mut keys = Vec::new();
                    if mode == "optional" {
                        keys.push(("mode".to_owned(), "request".into()));
                    }
                    keys.push(("ca".to_owned(), ca.into()));
                    options
                        .keys
                        .push(("client_auth".to_owned(), DraftValue::Inline(keys)));
                }
                None => {
                    options.refused = true;
                    not(
                        "client certificates need a file of authorities, so that the sites refuse all clients until you decide",
                    );
                }
            }
        }
        options.keys.extend(asked.keys(&suites));
        let tls = tls.map(|()| options);
        if let Some(tls) = &tls
            && let [only] = tls.certs.as_slice()
            && tls.strict
            && !only.contains('*')
        {
            differs.push("a client with another server name gets the only certificate".to_owned());
        }
        if tls.as_ref().is_some_and(HaproxyBindTls::lacks_default) {
            self.notes.insert(super::notes::DEFAULT_CERTIFICATE);
        }
        if tls.as_ref().is_some_and(|tls| tls.certs.is_empty()) {
            not("TLS needs a certificate: tls = \"internal\" is in its place");
        }
        if accept_proxy {
            differs.push("a PROXY header is believed only from `trusted` addresses: write those of your proxies there".to_owned());
        }
        verdicts.extend(
            differs
                .into_iter()
                .map(|because| Verdict::Differs { because }),
        );
        let mut listeners = Vec::new();
        for text in line.word(at).split(',') {
            let mut one = HaproxyListener {
                addresses: Vec::new(),
                port: None,
                socket: None,
                tls: tls.clone(),
                accept_proxy,
                h2c: h2c && tls.is_none(),
                statement: line.id,
            };
            if text.starts_with("quic") {
                verdicts.push(Verdict::not_supported(
                    "this version does not serve HTTP/3; clients use HTTP/2",
                    None,
                ));
                continue;
            }
            let of_ipv6 = text.starts_with("ipv6@") || text.starts_with("tcp6@");
            let text = ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"]
                .iter()
                .find_map(|p| text.strip_prefix(p))
                .unwrap_or(text);
            let path = text
                .strip_prefix("unix@")
                .or(Some(text).filter(|text| text.starts_with('/')));
            if let Some(path) = path {
                one.socket = Some(path.to_owned());
                listeners.push(one);
                continue;
            }
            let (address, port) = text.rsplit_once(':').unwrap_or((text, ""));
            let Ok(port) = port.parse::<u16>() else {
                let because = if text.contains('@') {
                    "this kind of address has no counterpart, so that the listener is left out"
                } else {
                    "this is not an address with a fixed port, so that the listener is left out"
                };
                verdicts.push(Verdict::not_supported(
                    because,
                    Some("write its table by hand"),
                ));
                continue;
            };
            one.port = Some(port);
            let address = address.trim_start_matches('[').trim_end_matches(']');
            match address {
                "" | "*" | "::" if of_ipv6 && v6only => one.addresses.push("[::]".to_owned()),
                "::" if v6only => one.addresses.push("[::]".to_owned()),
                "" | "*" | "0.0.0.0" if !of_ipv6 => {
                    self.ipv4_ports.insert(port);
                }
                // `::` takes IPv4 too, if the system lets it; nearly all do.
                "" | "*" | "0.0.0.0" | "::" => {}
                _ => match address.parse::<std::net::IpAddr>() {
                    Ok(std::net::IpAddr::V4(_)) => one.addresses.push(address.to_owned()),
                    Ok(std::net::IpAddr::V6(_)) => one.addresses.push(format!("[{address}]")),
                    Err(_) if address == "localhost" => one.addresses.push("127.0.0.1".to_owned()),
                    Err(_) => {
                        verdicts.push(Verdict::not_supported(
                            "the address to listen on must be an IP address, so that the listener is left out",
                            Some("write its table by hand"),
                        ));
                        continue;
                    }
                },
            }
            if of_ipv6 || address == "::" {
                self.ipv6_ports.insert(port);
            }
            listeners.push(one);
        }
        (listeners, verdicts)
    }

    /// The files in a `crt-list`.
    fn certificate_list(&self, file: &str) -> Option<Vec<String>> {
        let text = self.files.read(std::path::Path::new(file)).ok()?;
        let certs: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|word| !word.starts_with('#'))
            .map(str::to_owned)
            .collect();
        (!certs.is_empty()).then_some(certs)
    }
}

/// Adds a listener; addresses with the same port and the same settings are one.
fn add(listeners: &mut Vec<HaproxyListener>, new: HaproxyListener) {
    let same = listeners.iter_mut().take(64).find(|old| {
        old.port == new.port
            && old.socket == new.socket
            && old.tls == new.tls
            && old.port.is_some()
            && old.accept_proxy == new.accept_proxy
    });
    match same {
        Some(old) if old.addresses.is_empty() || new.addresses.is_empty() => {
            // One of them has all addresses: both together have too, but `0.0.0.0` beside `::` alone.
            old.addresses.clear();
        }
        Some(old) => {
            for address in new.addresses {
                if !old.addresses.contains(&address) {
                    old.addresses.push(address);
                }
            }
        }
        None => listeners.push(new),
    }
}
