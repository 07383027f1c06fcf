//! Servers of a backend and their options.

use super::sections::HaproxyLine;
use super::words::{haproxy_time, has_variable};
use crate::Verdict;

/// What `server` and `default-server` lines say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct HaproxyServer {
    pub(super) weight: Option<i64>,
    pub(super) backup: bool,
    pub(super) max: Option<i64>,
    pub(super) disabled: bool,
    pub(super) check: bool,
    pub(super) inter: Option<u64>,
    pub(super) fall: Option<i64>,
    pub(super) rise: Option<i64>,
    pub(super) check_port: Option<i64>,
    pub(super) check_tls: Option<bool>,
    pub(super) slow_start: Option<u64>,
    pub(super) tls: bool,
    /// The name in SNI or that is verified.
    pub(super) name: Option<String>,
    pub(super) ca: Option<String>,
    pub(super) h2: bool,
    pub(super) proxy_protocol: Option<&'static str>,
    pub(super) cookie: bool,
}

/// Reads the options of a server over those that it has from `default-server`; a verdict for each
/// option that is not what it was.
pub(super) fn server_options(
    words: &[String],
    server: &mut HaproxyServer,
    base: impl Fn(&str) -> String,
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut not = |because: &str| verdicts.push(Verdict::not_supported(because, None));
    let mut notes = Vec::new();
    let mut alpn_h2 = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().map_or("", String::as_str);
        match word.as_str() {
            "check" => server.check = true,
            "no-check" => server.check = false,
            "backup" => server.backup = true,
            "no-backup" => server.backup = false,
            "disabled" => server.disabled = true,
            "enabled" => server.disabled = false,
            "weight" => server.weight = value().parse().ok(),
            "maxconn" => server.max = value().parse().ok().filter(|max| *max > 0),
            "inter" => server.inter = haproxy_time(value()),
            "fastinter" | "downinter" => {
                value();
                notes.push("checks have one interval, whatever the state");
            }
            "fall" => server.fall = value().parse().ok(),
            "rise" => server.rise = value().parse().ok(),
            "port" => server.check_port = value().parse().ok(),
            "check-ssl" => server.check_tls = Some(true),
            "no-check-ssl" => server.check_tls = Some(false),
            "slowstart" => server.slow_start = haproxy_time(value()),
            "ssl" => server.tls = true,
            "no-ssl" => server.tls = false,
            "verify" => {
                if value() == "none" {
                    notes.push("Lockgate verifies the endpoint's certificate: name its authority by tls = { ca = … }");
                }
            }
            "ca-file" => {
                let file = value();
                if !file.starts_with('@') && !has_variable(file) {
                    server.ca = Some(base(file));
                }
            }
            "verifyhost" => {
                server.name = Some(value().to_owned()).filter(|name| !has_variable(name))
            }
            "sni" | "check-sni" => {
                let name = value();
                let inner = name
                    .strip_prefix("str(")
                    .and_then(|rest| rest.strip_suffix(')'));
                match inner.or(Some(name).filter(|_| word == "check-sni")) {
                    Some(inner) if !has_variable(inner) && !inner.contains('(') => {
                        server.name = Some(inner.trim_matches(['"', '\'']).to_owned());
                    }
                    _ => not(
                        "the server name that is sent to endpoints is fixed: the endpoint's own, or tls = { name = … }",
                    ),
                }
            }
            "alpn" => {
                let list = value();
                if list.split(',').next() == Some("h2") && !list.contains("http/1.1") {
                    alpn_h2 = true;
                } else if list.contains("h2") {
                    notes.push(
                        "endpoints are asked for HTTP/1.1; protocol = \"h2\" asks for HTTP/2",
                    );
                }
            }
            "check-alpn" => {
                value();
                notes.push("checks use the pool's protocol");
            }
            "proto" => match value() {
                "h2" => server.h2 = true,
                "h1" | "none" => {}
                _ => not("endpoints are spoken to in HTTP/1.1 or HTTP/2"),
            },
            "check-proto" => {
                value();
                notes.push("checks use the pool's protocol");
            }
            "send-proxy" => server.proxy_protocol = Some("v1"),
            "send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" => {
                server.proxy_protocol = Some("v2");
            }
            "no-send-proxy" | "no-send-proxy-v2" => server.proxy_protocol = None,
            "check-send-proxy" => notes.push("checks send a PROXY header as requests do"),
            "proxy-v2-options" => {
                value();
                notes.push("what a PROXY header of version 2 has beside the address is fixed");
            }
            "cookie" => {
                value();
                server.cookie = true;
            }
            // What Lockgate does by itself, or what changes nothing that a client sees.
            "resolvers" | "init-addr" | "id" | "resolve-opts" | "resolve-net" | "pool-max-conn"
            | "pool-low-conn" | "pool-purge-delay" | "max-reuse" | "error-limit" | "hash-key"
            | "guid" | "log-bufsize" | "ws" => {
                value();
            }
            "check-reuse-pool" | "tfo" | "no-tfo" | "allow-0rtt" | "ssl-reuse" | "no-ssl-reuse"
            | "no-sslv3" | "no-tlsv10" | "no-tlsv11" | "tls-tickets" | "no-tls-tickets"
            | "force-tlsv12" | "non-stick" | "stick" | "no-agent-check" | "no-verifyhost"
            | "no-sni" | "shard" => {}
            "resolve-prefer" => {
                value();
                notes.push("addresses of both families are used");
            }
            "ssl-min-ver" | "ssl-max-ver" | "ciphers" | "ciphersuites" | "curves" | "sigalgs" => {
                value();
                notes.push("TLS to endpoints has Lockgate's versions and suites");
            }
            "observe" => {
                value();
                notes.push("an endpoint that keeps failing is ejected for 10s; eject in the pool changes it");
            }
            "on-error" => {
                value();
                notes.push("an endpoint that keeps failing is ejected for 10s; eject in the pool changes it");
            }
            "on-marked-down" | "on-marked-up" => {
                value();
                notes.push("open connections stay when an endpoint changes its state");
            }
            "maxqueue" => {
                value();
                notes.push("a queue is of a pool, not of an endpoint");
            }
            "minconn" => {
                value();
                notes.push("an endpoint has a fixed `max`");
            }
            "crt" => {
                value();
                not("Lockgate shows endpoints no certificate of its own");
            }
            "crl-file" => {
                value();
                not("Lockgate takes no list of revoked certificates");
            }
            "agent-check" => not("Lockgate asks no agents"),
            "agent-inter" | "agent-port" | "agent-addr" | "agent-send" => {
                value();
                not("Lockgate asks no agents");
            }
            "addr" => {
                value();
                not("checks go to the endpoint's own address");
            }
            "track" => {
                value();
                not("an endpoint is checked in its own pool");
            }
            "redir" => {
                value();
                not("an endpoint is not redirected to; a site is, by redirect");
            }
            "source" | "interface" | "namespace" | "usesrc" | "tcp-ut" | "socks4"
            | "tcp-md5sig" => {
                value();
                not("Lockgate connects from the machine's own address, without a proxy");
            }
            "set-proxy-v2-tlv-fmt" => {
                value();
                not("what a PROXY header has is fixed");
            }
            other => {
                let name: String = other.chars().take(40).collect();
                not(&format!("the option `{name}` is not known"));
            }
        }
    }
    // ALPN is a part of TLS.
    server.h2 |= alpn_h2 && server.tls;
    verdicts.extend(notes.into_iter().map(Verdict::differs));
    verdicts
}

/// The address of a server as Lockgate writes it; `port` is that of the only listener, for a server
/// without one.
pub(super) fn endpoint_address(text: &str, port: Option<u16>) -> Result<String, String> {
    let text = ["ipv4@", "ipv6@", "ip@", "tcp@", "tcp4@", "tcp6@"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    if let Some(path) = text.strip_prefix("unix@") {
        return Ok(format!("unix:{}", variables(path)?));
    }
    if text.starts_with('/') {
        return Ok(format!("unix:{}", variables(text)?));
    }
    if text.contains('@') {
        return Err("endpoints are TCP addresses or Unix sockets".to_owned());
    }
    let text = variables(text)?;
    // A variable alone must hold the port too: what is in it is not known here.
    if is_variable(&text) {
        return Ok(text);
    }
    // A colon inside `${env:…}` is none of the address.
    let after = text.rfind('}').map_or(0, |at| at + 1);
    let split = text
        .get(after..)
        .and_then(|rest| rest.rfind(':'))
        .map(|at| after + at)
        .or_else(|| text.find("}:${env:").map(|at| at + 1));
    let (host, own) = match split.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))) {
        // `::1` is an address without a port, `::1:80` and `[::1]:80` have one.
        Some((host, own)) if !host.ends_with(':') => (host, Some(own)),
        _ => (text.as_str(), None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host == "*" || host == "0.0.0.0" {
        return Err("the address is that of the client's request".to_owned());
    }
    if host.starts_with(':') && host != "::1" {
        return Err("this is not the address of an endpoint".to_owned());
    }
    let port = match own.filter(|own| !own.is_empty()) {
        Some(own) if own.contains("${env:") => own.to_owned(),
        Some(own) => match own.parse::<u16>() {
            Ok(port) if port > 0 && !own.starts_with('+') => port.to_string(),
            _ => return Err("the port is not a fixed one".to_owned()),
        },
        None => match port {
            Some(port) => port.to_string(),
            None => return Err("it has no port, and is used for several".to_owned()),
        },
    };
    let bare = host.parse::<std::net::Ipv6Addr>().is_ok();
    let name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if !bare && !host.contains("${env:") && !host.bytes().all(name) {
        return Err("this is not the address of an endpoint".to_owned());
    }
    Ok(if bare {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}

/// Whether an address is a variable of the environment and nothing else.
pub(super) fn is_variable(address: &str) -> bool {
    address.starts_with("${env:") && address.find('}') == Some(address.len().saturating_sub(1))
}

/// Turns `${NAME}` into `${env:NAME}`.
fn variables(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, more)) = after.split_once('}') else {
            return Err("a variable has no closing brace".to_owned());
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err("a variable with a default value has no counterpart".to_owned());
        }
        out.push_str(before);
        out.push_str("${env:");
        out.push_str(name);
        out.push('}');
        rest = more;
    }
    out.push_str(rest);
    Ok(out)
}

/// Whether lines name a server.
pub(super) fn has_servers(lines: &[&HaproxyLine]) -> bool {
    lines
        .iter()
        .any(|line| matches!(line.word(0), "server" | "server-template"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_are_read() {
        for (text, expected) in [
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("app", "app:8080"),
            ("ipv6@[::1]:80", "[::1]:80"),
            ("::1", "[::1]:8080"),
            ("2001:db8::12:6443", "[2001:db8::12]:6443"),
            ("unix@/run/a.sock", "unix:/run/a.sock"),
            ("/run/a.sock", "unix:/run/a.sock"),
            ("${HOST}:80", "${env:HOST}:80"),
            ("${HOST}", "${env:HOST}"),
            ("${env:HOST}:${env:PORT}", "${env:HOST}:${env:PORT}"),
        ] {
            assert_eq!(
                endpoint_address(text, Some(8080)).as_deref(),
                Ok(expected),
                "{text}"
            );
        }
        for text in [
            "abns@x",
            "*:80",
            ":80",
            "0.0.0.0:0",
            "a:+10",
            "a:99999",
            "${A-b}:1",
            "${A",
            "{{ x }}:1",
            "",
        ] {
            assert!(endpoint_address(text, Some(8080)).is_err(), "{text}");
        }
        assert!(endpoint_address("app", None).is_err());
    }
}
