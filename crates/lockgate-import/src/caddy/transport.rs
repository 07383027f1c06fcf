//! `transport` of a `reverse_proxy`: TLS, protocols and deadlines towards endpoints.

use super::blocks::CaddyStatement;
use super::pool_keys::{CaddyPoolKeys, push_time};
use crate::{ConversionReport, Verdict};

/// Reads `transport http`.
pub(super) fn convert(
    line: &CaddyStatement,
    keys: &mut CaddyPoolKeys,
    report: &mut ConversionReport,
) {
    if line.arg() != Some("http") {
        let because = "Lockgate speaks HTTP to applications, not this";
        line.set_all(report, &Verdict::not_supported(because, None));
        return;
    }
    report.set(line.id, Verdict::Converted);
    for option in line.inner() {
        let arg = option.arg();
        let verdict = match option.name() {
            "tls" => {
                keys.tls.get_or_insert_default();
                Verdict::Converted
            }
            "tls_insecure_skip_verify" => {
                keys.tls.get_or_insert_default();
                Verdict::differs(
                    "Lockgate always verifies the endpoint's certificate: name its authority, \
                     or the certificate itself, in tls = { ca = \"FILE\" }",
                )
            }
            "tls_server_name" => match arg {
                Some(name) if !name.contains('{') => {
                    let tls = keys.tls.get_or_insert_default();
                    tls.push(("name".to_owned(), name.into()));
                    Verdict::Converted
                }
                _ => Verdict::not_supported("the name depends on the request", None),
            },
            "tls_trusted_ca_certs" => match option.args() {
                [file] if !file.contains('{') => {
                    let tls = keys.tls.get_or_insert_default();
                    tls.push(("ca".to_owned(), file.as_str().into()));
                    Verdict::Converted
                }
                _ => Verdict::not_supported("Lockgate takes one file here", None),
            },
            "dial_timeout" => push_time(&mut keys.timeouts, "connect", arg),
            "response_header_timeout" => push_time(&mut keys.timeouts, "response", arg),
            "read_timeout" | "write_timeout" => Verdict::differs(
                "Lockgate waits `timeouts.response` for a response, and limits no silence after it",
            ),
            "keepalive" => match arg {
                Some("off" | "0") => {
                    keys.idle.push(("max".to_owned(), 0_i64.into()));
                    Verdict::Converted
                }
                _ => push_time(&mut keys.idle, "for", arg),
            },
            "keepalive_idle_conns_per_host" => {
                match arg.and_then(|value| value.parse::<i64>().ok()) {
                    Some(max) if (1..=100_000).contains(&max) => {
                        keys.idle.push(("max".to_owned(), max.into()));
                        Verdict::differs("Lockgate keeps so many for each worker")
                    }
                    _ => Verdict::not_supported("this is no number", None),
                }
            }
            "keepalive_idle_conns"
            | "keepalive_interval"
            | "dial_fallback_delay"
            | "expect_continue_timeout"
            | "read_buffer"
            | "write_buffer" => Verdict::Default,
            "compression" => match arg {
                Some("off") => Verdict::Default,
                _ => Verdict::differs("Lockgate asks for no compression of its own"),
            },
            "versions" => {
                let words: Vec<&str> = option.args().iter().map(String::as_str).collect();
                match words.as_slice() {
                    ["1.1"] => Verdict::Default,
                    list if list.contains(&"h2c") => {
                        keys.protocol = Some("h2c");
                        Verdict::Converted
                    }
                    ["2"] => {
                        keys.protocol = Some("h2");
                        keys.tls.get_or_insert_default();
                        Verdict::Converted
                    }
                    ["1.1", "2"] | ["2", "1.1"] => Verdict::differs(
                        "Lockgate speaks HTTP/1.1 to the endpoints: protocol = \"h2\" is HTTP/2",
                    ),
                    _ => Verdict::not_supported("Lockgate does not speak this to endpoints", None),
                }
            }
            "max_conns_per_host" => match arg.and_then(|value| value.parse::<i64>().ok()) {
                Some(max) if max > 0 => {
                    keys.max = Some(max);
                    Verdict::Converted
                }
                _ => Verdict::Default,
            },
            "proxy_protocol" => match arg {
                Some(version @ ("v1" | "v2")) => {
                    keys.options
                        .push(("proxy_protocol".to_owned(), version.into()));
                    Verdict::Converted
                }
                _ => Verdict::not_supported("Lockgate sends v1 or v2", None),
            },
            "tls_timeout" => Verdict::differs("`timeouts.connect` is also for the handshake"),
            "tls_trust_pool" => trust_pool(option, keys, report),
            _ => {
                Verdict::not_supported("Lockgate's connections to endpoints do not have this", None)
            }
        };
        report.set(option.id, verdict.clone());
        if option.name() != "tls_trust_pool" {
            option.set_all(report, &verdict);
        }
    }
}

fn trust_pool(
    option: &CaddyStatement,
    keys: &mut CaddyPoolKeys,
    report: &mut ConversionReport,
) -> Verdict {
    let mut files: Vec<&str> = Vec::new();
    if option.arg() != Some("file") {
        return Verdict::not_supported("Lockgate takes a file of authorities", None);
    }
    files.extend(option.args().iter().skip(1).map(String::as_str));
    for line in option
        .inner()
        .iter()
        .filter(|line| line.name() == "pem_file")
    {
        files.extend(line.args().iter().map(String::as_str));
    }
    let [file] = files.as_slice() else {
        return Verdict::not_supported("Lockgate takes one file here", None);
    };
    let tls = keys.tls.get_or_insert_default();
    tls.push(("ca".to_owned(), (*file).into()));
    for line in option.inner() {
        report.set(line.id, Verdict::Converted);
    }
    Verdict::Converted
}
