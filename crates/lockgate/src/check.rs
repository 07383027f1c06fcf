//! `lockgate check`: every mistake at once, and what a client will get.

use std::process::ExitCode;
use std::time::SystemTime;

use lockgate_config::{Config, Loaded, Report, Severity, Tcp, load};
use serde_json::{Value, json};

use crate::assemble::{Assembly, assemble};
use crate::cli::{Check, Detail, Output, Warnings};
use crate::print::{self, out};

/// Errors found.
const ERRORS: u8 = 1;
/// Warnings found, and `--strict`.
const WARNINGS: u8 = 2;

/// Checks a configuration file and what it names; binds and starts nothing.
pub(crate) fn run(check: &Check) -> ExitCode {
    let (loaded, mut report) = match load(&check.config) {
        Ok(loaded) => {
            let warnings = loaded.warnings.clone();
            (Some(loaded), warnings)
        }
        Err(report) => (None, report),
    };
    let assembly = loaded.as_ref().and_then(|loaded| assemble(&loaded.config, &mut report));
    let served = match (&loaded, &assembly, check.detail) {
        (Some(loaded), Some(assembly), Detail::Everything) => Some(describe(&loaded.config, assembly)),
        _ => None,
    };
    match check.output {
        Output::Json => print_json(&report, served.as_ref()),
        Output::Text => {
            print::report(&report);
            if let Some(served) = &served {
                print_text(served);
            }
            if !report.has_errors() {
                out!("{}: {}", check.config.display(), summary(&report, loaded.as_ref()));
            }
        }
    }
    if report.has_errors() {
        ExitCode::from(ERRORS)
    } else if check.warnings == Warnings::Fatal && !report.is_empty() {
        ExitCode::from(WARNINGS)
    } else {
        ExitCode::SUCCESS
    }
}

fn summary(report: &Report, loaded: Option<&Loaded>) -> String {
    let listeners = loaded.map_or(0, |loaded| loaded.config.tcp.len());
    match report.count(Severity::Warning) {
        0 => format!("ok, {listeners} listener(s)"),
        warnings => format!("ok, {listeners} listener(s), {warnings} warning(s)"),
    }
}

/// What each address will serve, as one JSON value that both outputs are made of.
fn describe(config: &Config, assembly: &Assembly) -> Value {
    let listeners = config.tcp.iter().zip(&assembly.listeners);
    listeners
        .map(|(tcp, planned)| {
            json!({
                "listener": tcp.name,
                "tls": planned.listener.tls.as_ref().map(|acceptor| tls(tcp, acceptor)),
                "accept_proxy": format!("{:?}", tcp.accept_proxy).to_lowercase(),
                "endpoints": config.pools.get(tcp.pool).iter().flat_map(|pool| &pool.endpoints).map(|endpoint| endpoint.addr.to_string()).collect::<Vec<_>>(),
                "endpoint_tls": config.pools.get(tcp.pool).is_some_and(|pool| pool.tls.is_some()),
                "proxy_protocol": tcp.proxy_protocol.map(|version| format!("{version:?}").to_lowercase()),
                "timeouts": {
                    "handshake": tcp.timeouts.handshake.as_secs_f64(),
                    "connect": tcp.timeouts.connect.as_secs_f64(),
                    "tunnel_idle": tcp.timeouts.tunnel_idle.as_secs_f64(),
                },
            })
        })
        .collect()
}

fn tls(tcp: &Tcp, acceptor: &lockgate_net::tls::Acceptor) -> Value {
    let written = tcp.tls.as_ref();
    let certificates: Vec<Value> = acceptor
        .store()
        .describe()
        .into_iter()
        .map(|certificate| {
            let left = certificate.not_after.duration_since(SystemTime::now()).unwrap_or_default();
            json!({
                "path": certificate.path.display().to_string(),
                "names": certificate.names,
                "key": certificate.key.to_string(),
                "days_left": left.as_secs() / 86_400,
                "default": certificate.default,
                "stapled": certificate.stapled,
            })
        })
        .collect();
    let names = |of: Option<Vec<&'static str>>| of.unwrap_or_default();
    json!({
        "certificates": certificates,
        "versions": names(written.map(|tls| tls.versions.iter().map(|version| version.name()).collect())),
        "suites": names(written.map(|tls| tls.suites.iter().map(|suite| suite.name()).collect())),
        "groups": names(written.map(|tls| tls.groups.iter().map(|group| group.name()).collect())),
        "alpn": written.map(|tls| tls.alpn.clone()),
        "client_certificates": written.and_then(|tls| tls.client_auth.as_ref()).map(|auth| format!("{:?}", auth.mode).to_lowercase()),
    })
}

fn print_json(report: &Report, served: Option<&Value>) {
    let mut out = json!({ "report": report.to_json() });
    if let Some(served) = served {
        out["listeners"] = served.clone();
    }
    out!("{out:#}");
}

fn print_text(served: &Value) {
    for listener in served.as_array().into_iter().flatten() {
        out!("{}", text(&listener["listener"]));
        if let Some(tls) = listener["tls"].as_object() {
            out!("  TLS          {}", join(&tls["versions"]));
            out!("  suites       {}", join(&tls["suites"]));
            out!("  groups       {}", join(&tls["groups"]));
            out!("  ALPN         {}", or(&join(&tls["alpn"]), "none: what clients offer is ignored"));
            if let Some(mode) = tls["client_certificates"].as_str() {
                out!("  client certs {mode}");
            }
            for certificate in tls["certificates"].as_array().into_iter().flatten() {
                let default = if certificate["default"] == true { ", default" } else { "" };
                let (names, key) = (join(&certificate["names"]), text(&certificate["key"]));
                out!(
                    "  certificate  {} ({key}, {} days left{default})",
                    or(&names, "no DNS name"),
                    certificate["days_left"]
                );
                out!("               {}", text(&certificate["path"]));
            }
        } else {
            out!("  plain TCP, bytes as they are");
        }
        let tls = if listener["endpoint_tls"] == true { " over TLS" } else { "" };
        out!("  to           {}{tls}", join(&listener["endpoints"]));
        if let Some(version) = listener["proxy_protocol"].as_str() {
            out!("  PROXY        {version} to the endpoints");
        }
        if listener["accept_proxy"] != "never" {
            out!("  PROXY        {} from clients", text(&listener["accept_proxy"]));
        }
        let limits = &listener["timeouts"];
        out!(
            "  timeouts     handshake {}s, connect {}s, idle {}s",
            limits["handshake"],
            limits["connect"],
            limits["tunnel_idle"]
        );
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn join(list: &Value) -> String {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
