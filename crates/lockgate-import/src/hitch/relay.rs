//! From the options of hitch to `[tcp]` relays.

use super::syntax::{HitchOption, HitchValue};
use crate::draft::EVERY_CLIENT;
use crate::{ConversionReport, Draft, StatementId, Verdict};

mod listen;
mod suites;

/// A certificate file.
#[derive(Debug, Clone, PartialEq)]
struct HitchCert {
    cert: String,
    key: Option<String>,
    ocsp: Option<String>,
}

/// TLS settings, of the top or of a frontend.
#[derive(Debug, Clone, Default)]
struct HitchTls {
    certs: Vec<HitchCert>,
    folders: Vec<(String, StatementId)>,
    suites: Option<Vec<&'static str>>,
    suites13: Option<Vec<&'static str>>,
    versions: Option<Vec<&'static str>>,
    groups: Option<Vec<&'static str>>,
    abort: Option<(bool, StatementId)>,
    client: Option<&'static str>,
    client_ca: Option<String>,
    /// Whether client certificates are asked for in a way that cannot be written.
    refused: bool,
}

/// A listener.
#[derive(Debug, Default)]
struct HitchFrontend {
    place: String,
    host: String,
    port: String,
    statements: Vec<StatementId>,
    tls: HitchTls,
}

/// What the top of the file says.
#[derive(Debug, Default)]
struct HitchTop {
    tls: HitchTls,
    glob: String,
    frontends: Vec<HitchFrontend>,
    backend: Option<(String, StatementId)>,
    chroot: String,
    user: String,
    group: Option<(String, StatementId)>,
    alpn: Vec<String>,
    proxy_protocol: Option<&'static str>,
    /// Whether the backend reads bytes before those of the client that Lockgate does not send.
    foreign_header: bool,
}

/// Whether a text may stand in a value: `${…}` would be replaced there.
fn plain(text: &str) -> bool {
    !text.is_empty() && !text.contains("${") && !text.chars().any(char::is_control)
}

/// The draft of a configuration.
pub(super) fn draft(options: &[HitchOption], report: &mut ConversionReport) -> Draft {
    let mut draft = Draft::default();
    let mut top = HitchTop {
        glob: "*".to_owned(),
        ..HitchTop::default()
    };
    for option in options {
        match &option.value {
            HitchValue::Text(text) => read_top(option, text, &mut top, &mut draft, report),
            HitchValue::Block(inner) => match option.key.as_str() {
                "frontend" => top.frontends.push(frontend_block(option, inner, report)),
                "pem-file" => cert_block(option, inner, &mut top.tls, report),
                _ => {}
            },
        }
    }
    if let Some((group, statement)) = &top.group {
        report.set(
            *statement,
            if *group == top.user {
                Verdict::Default
            } else {
                Verdict::differs(
                    "Lockgate takes the groups of its `user` instead of a group of its own",
                )
            },
        );
    }
    listen::write_relays(&top, &mut draft, report);
    draft
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "1" => Some(true),
        "off" | "no" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// The verdict of a flag: what it is by default, and what its other value means here.
fn flag_verdict(text: &str, same: bool, other: &str) -> Verdict {
    match flag(text) {
        Some(flag) if flag == same => Verdict::Default,
        Some(_) => Verdict::differs(other),
        None => Verdict::not_supported("its value is neither on nor off", None),
    }
}

fn read_top(
    option: &HitchOption,
    text: &str,
    top: &mut HitchTop,
    draft: &mut Draft,
    report: &mut ConversionReport,
) {
    let statement = option.statement;
    let keys = &mut draft.top;
    let number = text.parse::<i64>().ok().filter(|number| *number > 0);
    let verdict = match option.key.as_str() {
        "frontend" => match frontend_line(option, text) {
            Some(frontend) => {
                top.frontends.push(frontend);
                return;
            }
            None => Verdict::not_supported("it is not an address as [HOST]:PORT", None),
        },
        "backend" => {
            top.backend = Some((text.to_owned(), statement));
            return;
        }
        "pem-dir-glob" if plain(text) && !text.contains(['/', '[']) => {
            text.clone_into(&mut top.glob);
            Verdict::Converted
        }
        "workers" => match number {
            Some(number @ 1..=1024) => {
                keys.set("workers", number);
                Verdict::Converted
            }
            _ if text == "auto" => Verdict::Default,
            _ => Verdict::not_supported("it is not a number of workers", None),
        },
        "backlog" => match number {
            Some(number @ 1..=65535) => {
                keys.table("socket").set("backlog", number);
                Verdict::Converted
            }
            _ => Verdict::not_supported("it is not a length from 1 to 65535", None),
        },
        "keepalive" => match number {
            Some(60) => Verdict::Default,
            Some(seconds) if seconds <= 86_400 => {
                keys.table("socket").set("keepalive", format!("{seconds}s"));
                Verdict::Converted
            }
            _ => Verdict::not_supported("it is not a number of seconds", None),
        },
        "tcp-fastopen" => {
            if flag(text) == Some(true) {
                keys.table("socket").set("fast_open", true);
                Verdict::Converted
            } else {
                Verdict::Default
            }
        }
        "backend-connect-timeout" | "ssl-handshake-timeout" => match number {
            Some(seconds) if seconds <= 86_400 => {
                let key = match option.key.as_str() {
                    "ssl-handshake-timeout" => "handshake",
                    _ => "connect",
                };
                let standard = if key == "connect" { 5 } else { 10 };
                if seconds == standard {
                    Verdict::Default
                } else {
                    keys.table("timeouts").set(key, format!("{seconds}s"));
                    Verdict::Converted
                }
            }
            _ => Verdict::not_supported("it is not a number of seconds", None),
        },
        "user" if plain(text) => {
            keys.set("user", text);
            text.clone_into(&mut top.user);
            Verdict::Converted
        }
        "group" => {
            top.group = Some((text.to_owned(), statement));
            return;
        }
        "chroot" => {
            text.clone_into(&mut top.chroot);
            Verdict::not_supported(
                "Lockgate does not change its root folder",
                Some("let systemd confine it: RootDirectory=, ProtectSystem="),
            )
        }
        "daemon" => flag_verdict(
            text,
            false,
            "Lockgate stays in the foreground, and systemd or another supervisor keeps it running",
        ),
        "syslog" => flag_verdict(text, false, "Lockgate logs to stderr, which journald keeps"),
        "quiet" if flag(text) == Some(true) => {
            keys.set("log", "error");
            Verdict::Converted
        }
        "quiet" => Verdict::Default,
        "log-level" if matches!(text, "0" | "1") => {
            keys.set("log", "error");
            Verdict::Converted
        }
        "log-level" => Verdict::Default,
        "backend-refresh" => Verdict::Default,
        "alpn-protos" => {
            let names = text.split([',', ' ']).map(str::trim);
            top.alpn = names
                .filter(|name| plain(name))
                .map(str::to_owned)
                .collect();
            Verdict::Converted
        }
        "write-proxy" | "write-proxy-v2" | "write-proxy-v1" | "proxy-proxy" => {
            if flag(text) == Some(true) {
                top.proxy_protocol = Some(match option.key.as_str() {
                    "write-proxy-v1" => "v1",
                    "proxy-proxy" => "pass",
                    _ => "v2",
                });
                if option.key == "proxy-proxy" {
                    keys.set("trusted", EVERY_CLIENT.to_vec());
                    keys.comment_key("trusted", "as in hitch: better name the proxies alone");
                }
                Verdict::Converted
            } else {
                Verdict::Default
            }
        }
        "write-ip" => {
            if flag(text) == Some(false) {
                Verdict::Default
            } else {
                top.foreign_header = true;
                Verdict::not_supported(
                    "Lockgate does not send the bytes of the client's address",
                    Some("let the backend read a PROXY header: proxy_protocol = \"v2\""),
                )
            }
        }
        "proxy-tlv" => flag_verdict(
            text,
            true,
            "a PROXY header of version 2 always has the parameters of TLS",
        ),
        "proxy-client-cert" if flag(text) == Some(false) => Verdict::Default,
        "proxy-client-cert" => Verdict::not_supported(
            "the PROXY header has the name of the client's certificate, not the certificate",
            None,
        ),
        "ocsp-dir" if text.is_empty() => Verdict::Default,
        key if key.starts_with("ocsp-") => Verdict::not_supported(
            "Lockgate does not fetch OCSP responses",
            Some("write ocsp = \"FILE\" beside the certificate, if its authority still has OCSP"),
        ),
        key if read_tls(key, text, statement, &mut top.tls, report) => return,
        _ => return,
    };
    report.set(statement, verdict);
}

/// Reads an option that a frontend may have too; whether it was one.
fn read_tls(
    key: &str,
    text: &str,
    statement: StatementId,
    tls: &mut HitchTls,
    report: &mut ConversionReport,
) -> bool {
    let verdict = match key {
        "pem-file" if plain(text) => {
            tls.certs.push(HitchCert {
                cert: text.to_owned(),
                key: None,
                ocsp: None,
            });
            Verdict::Converted
        }
        "pem-dir" if plain(text) => {
            tls.folders.push((text.to_owned(), statement));
            Verdict::Converted
        }
        "tls-protos" | "ssl" | "tls" => {
            let (versions, verdict) = suites::versions(key, text);
            tls.versions = versions;
            verdict
        }
        "ciphers" => {
            let (list, verdict) = suites::ciphers(text);
            tls.suites = list;
            verdict
        }
        "ciphersuites" => {
            let (list, verdict) = suites::ciphersuites(text);
            tls.suites13 = list;
            verdict
        }
        "ecdh-curve" => {
            let (groups, verdict) = suites::groups(text);
            tls.groups = groups;
            verdict
        }
        "prefer-server-ciphers" => {
            flag_verdict(text, true, "the order of Lockgate's suites always counts")
        }
        "sni-nomatch-abort" => {
            tls.abort = Some((flag(text) == Some(true), statement));
            Verdict::Converted
        }
        "client-verify" => match text {
            "none" => Verdict::Default,
            "required" | "require" => {
                tls.client = Some("require");
                Verdict::Converted
            }
            "optional" => {
                tls.client = Some("request");
                Verdict::Converted
            }
            _ => {
                tls.refused = true;
                Verdict::not_supported("it is none of none, optional and required", None)
            }
        },
        "client-verify-ca" if plain(text) => {
            tls.client_ca = Some(text.to_owned());
            Verdict::Converted
        }
        _ => return false,
    };
    report.set(statement, verdict);
    true
}

fn frontend_line(option: &HitchOption, text: &str) -> Option<HitchFrontend> {
    let (address, cert) = match text.split_once('+') {
        Some((address, cert)) => (address, Some(cert)),
        None => (text, None),
    };
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let mut frontend = HitchFrontend {
        place: option.place.to_string(),
        host: host.to_owned(),
        port: port.to_owned(),
        statements: vec![option.statement],
        tls: HitchTls::default(),
    };
    if let Some(cert) = cert.filter(|cert| plain(cert)) {
        frontend.tls.certs.push(HitchCert {
            cert: cert.to_owned(),
            key: None,
            ocsp: None,
        });
    }
    Some(frontend)
}

fn frontend_block(
    option: &HitchOption,
    inner: &[HitchOption],
    report: &mut ConversionReport,
) -> HitchFrontend {
    let mut frontend = HitchFrontend {
        place: option.place.to_string(),
        statements: vec![option.statement],
        ..HitchFrontend::default()
    };
    for option in inner {
        let HitchValue::Text(text) = &option.value else {
            continue;
        };
        match option.key.as_str() {
            "host" => {
                text.clone_into(&mut frontend.host);
                frontend.statements.push(option.statement);
            }
            "port" => {
                text.clone_into(&mut frontend.port);
                frontend.statements.push(option.statement);
            }
            key => {
                read_tls(key, text, option.statement, &mut frontend.tls, report);
            }
        }
    }
    frontend
}

fn cert_block(
    option: &HitchOption,
    inner: &[HitchOption],
    tls: &mut HitchTls,
    report: &mut ConversionReport,
) {
    let mut cert = HitchCert {
        cert: String::new(),
        key: None,
        ocsp: None,
    };
    for option in inner {
        let HitchValue::Text(text) = &option.value else {
            continue;
        };
        let verdict = match option.key.as_str() {
            "cert" if plain(text) => {
                text.clone_into(&mut cert.cert);
                Verdict::Converted
            }
            "private-key" if plain(text) => {
                cert.key = Some(text.clone());
                Verdict::Converted
            }
            "ocsp-resp-file" if plain(text) => {
                cert.ocsp = Some(text.clone());
                Verdict::Converted
            }
            "client-verify" if text == "none" => Verdict::Default,
            "client-verify" | "client-verify-ca" => {
                // Another certificate would let the same clients in without theirs.
                read_tls(&option.key, text, option.statement, tls, report);
                Verdict::differs(
                    "client certificates are asked for on the whole listener, not by certificate",
                )
            }
            _ => continue,
        };
        report.set(option.statement, verdict);
    }
    report.set(
        option.statement,
        if cert.cert.is_empty() {
            Verdict::not_supported("it names no certificate", None)
        } else {
            tls.certs.push(cert);
            Verdict::Converted
        },
    );
}
