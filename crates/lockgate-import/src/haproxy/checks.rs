//! Health checks: `option httpchk`, `http-check`, `tcp-check`, and those of other protocols.

use super::Importer;
use super::acls::worse;
use super::servers::HaproxyServer;
use super::words::{haproxy_time, has_variable, lockgate_time};
use crate::{DraftValue, Verdict};

type Keys = Vec<(String, DraftValue)>;

/// The `health` of a pool with servers that are checked.
pub(super) fn health(
    importer: &mut Importer<'_>,
    at: usize,
    server: &HaproxyServer,
    own_ports: &[i64],
) -> Option<DraftValue> {
    let source = importer.source;
    let lines = source.lines(at);
    let mut keys: Keys = Vec::new();
    let http = source.option(at, "httpchk");
    let dialogue = source.option(at, "tcp-check");
    let timeout = source.setting(at, "timeout check");
    if let Some(http) = http {
        let (mut method, mut path) = match (http.word(2), http.word(3)) {
            ("", _) => ("OPTIONS".to_owned(), "/".to_owned()),
            (uri, "") => ("OPTIONS".to_owned(), uri.to_owned()),
            (method, uri) => (method.to_owned(), uri.to_owned()),
        };
        let mut verdict = match http.from(4).join(" ") {
            rest if rest.contains("\r\n") || rest.contains("\\r\\n") => Verdict::differs(
                "the check has the address of the endpoint as Host, and no other fields of its own",
            ),
            _ => Verdict::Converted,
        };
        let mut expect: Option<DraftValue> = None;
        let mut body = None;
        for line in lines.iter().filter(|line| line.is("http-check")) {
            let words = line.from(2);
            let mut line_verdict = Verdict::Converted;
            match line.word(1) {
                "send" => {
                    let mut words = words.iter();
                    while let Some(word) = words.next() {
                        let mut value = || words.next().map_or("", String::as_str);
                        match word.as_str() {
                            "meth" => value().clone_into(&mut method),
                            "uri" => value().clone_into(&mut path),
                            "ver" => {
                                value();
                            }
                            "hdr" => {
                                let name = value().to_ascii_lowercase();
                                value();
                                line_verdict = worse(
                                    line_verdict,
                                    Verdict::differs(if name == "host" {
                                        "the check has the address of the endpoint as Host"
                                    } else {
                                        "the check has no fields of its own"
                                    }),
                                );
                            }
                            _ => {
                                line_verdict = worse(
                                    line_verdict,
                                    Verdict::not_supported(
                                        "a check has a method and a path, and no body or expressions",
                                        None,
                                    ),
                                );
                            }
                        }
                    }
                }
                "expect" => {
                    let negated = words.first().is_some_and(|word| word == "!");
                    let words = words.get(usize::from(negated)..).unwrap_or_default();
                    let (kind, value) = match words {
                        [kind, value] => (kind.as_str(), value.as_str()),
                        _ => ("", ""),
                    };
                    let statuses: Option<Vec<String>> = value
                        .split(',')
                        .map(|part| {
                            let number =
                                |n: &str| n.parse::<u16>().is_ok_and(|n| (100..600).contains(&n));
                            let fits = match part.split_once('-') {
                                Some((low, high)) => number(low) && number(high) && low <= high,
                                None => number(part),
                            };
                            fits.then(|| part.to_owned())
                        })
                        .collect();
                    match (kind, negated) {
                        ("status", false) if statuses.is_some() => {
                            let list = statuses.unwrap_or_default();
                            if list != ["200-399"] {
                                expect = Some(list.into());
                            }
                        }
                        ("rstatus", false)
                            if matches!(
                                value,
                                "2.." | "^2" | "(2)[0-9][0-9]" | "2[0-9][0-9]" | "^2[0-9][0-9]"
                            ) =>
                        {
                            expect = Some(vec!["200-299"].into());
                        }
                        ("rstatus", false)
                            if matches!(
                                value,
                                "(2|3)[0-9][0-9]" | "[23].." | "^[23]" | "2..|3.."
                            ) => {}
                        ("string", false) if !has_variable(value) && !value.is_empty() => {
                            body = Some(value.to_owned());
                            // HAProxy looks at the body alone then.
                            line_verdict =
                                Verdict::differs("the status must be from 200 to 399 too");
                        }
                        _ => {
                            line_verdict = Verdict::differs(
                                "a check succeeds with a status from 200 to 399, whatever else it expects",
                            );
                        }
                    }
                }
                "send-state" => line_verdict = Verdict::differs("checks tell endpoints nothing"),
                "disable-on-404" => {
                    line_verdict = Verdict::differs("a status of 404 counts as a failure")
                }
                "connect"
                    if line
                        .words
                        .iter()
                        .any(|w| w == "ssl" || w == "port" || w == "addr" || w == "sni") =>
                {
                    line_verdict = Verdict::differs(
                        "checks connect as requests do, or as `port` and `tls` of health say",
                    );
                }
                "connect" | "comment" => line_verdict = Verdict::Default,
                _ => line_verdict = Verdict::not_supported("a check is one request", None),
            }
            importer.report.set(line.id, line_verdict);
        }
        let plain = path.starts_with('/')
            && !has_variable(&path)
            && path
                .bytes()
                .all(|b| b.is_ascii_graphic() && !b"{}".contains(&b));
        let known = method.bytes().all(|b| b.is_ascii_uppercase()) && !method.is_empty();
        if !plain || !known {
            path = "/".to_owned();
            verdict = Verdict::differs("the check asks for / because this is not a path");
        }
        importer.report.set(http.id, verdict);
        keys.push(("path".to_owned(), path.into()));
        if known && method != "GET" {
            keys.push(("method".to_owned(), method.into()));
        }
        if let Some(expect) = expect {
            keys.push(("expect".to_owned(), expect));
        }
        if let Some(body) = body {
            keys.push(("body".to_owned(), body.into()));
        }
    } else if let Some(option) = dialogue {
        importer.report.set(option.id, Verdict::Converted);
        tcp_dialogue(importer, at, &mut keys);
    }
    for name in [
        "mysql-check",
        "pgsql-check",
        "redis-check",
        "smtpchk",
        "ldap-check",
        "ssl-hello-chk",
        "spop-check",
        "external-check",
    ] {
        let Some(option) = source.option(at, name).filter(|_| http.is_none()) else {
            continue;
        };
        match name {
            "redis-check" => {
                keys = vec![
                    ("tcp".to_owned(), true.into()),
                    ("send".to_owned(), "PING\r\n".into()),
                    ("expect".to_owned(), "+PONG".into()),
                ];
                importer.report.set(option.id, Verdict::Converted);
            }
            "smtpchk" => {
                keys = vec![
                    ("tcp".to_owned(), true.into()),
                    ("expect".to_owned(), "220".into()),
                ];
                importer.report.set(
                    option.id,
                    Verdict::differs("the check waits for the greeting 220 and sends nothing"),
                );
            }
            _ => importer.report.set(
                option.id,
                Verdict::differs("the check is whether a connection succeeds"),
            ),
        }
    }
    if http.is_none() && keys.is_empty() {
        keys.push(("tcp".to_owned(), true.into()));
    }
    keys.retain(|(key, value)| {
        key != "port" || !matches!(value, DraftValue::Number(port) if own_ports.contains(port))
    });
    let known = keys.iter().any(|(key, _)| key == "port");
    if let Some(port) = server
        .check_port
        .filter(|port| !known && !own_ports.contains(port))
    {
        keys.push(("port".to_owned(), port.into()));
    }
    if let Some(inter) = server.inter.filter(|inter| *inter != 2000 && *inter >= 10) {
        keys.push(("every".to_owned(), lockgate_time(inter).into()));
    }
    // Without `timeout check` a check of HAProxy may last until the next one.
    let own = timeout.and_then(|line| haproxy_time(line.word(2)));
    if let Some(line) = timeout {
        importer.report.set(line.id, Verdict::Converted);
    }
    let wanted = match own {
        Some(own) => Some(own),
        None if http.is_some() || server.inter.is_some() => Some(server.inter.unwrap_or(2000)),
        None => None,
    };
    if let Some(time) = wanted.filter(|time| *time != 1000 && *time > 0) {
        keys.push(("timeout".to_owned(), lockgate_time(time).into()));
    }
    if let Some(fall) = server.fall.filter(|n| *n != 3 && (1..=1000).contains(n)) {
        keys.push(("fall".to_owned(), fall.into()));
    }
    if let Some(rise) = server.rise.filter(|n| *n != 2 && (1..=1000).contains(n)) {
        keys.push(("rise".to_owned(), rise.into()));
    }
    if server.check_tls == Some(true) && !server.tls {
        let tls = server
            .name
            .iter()
            .map(|name| ("name".to_owned(), name.as_str().into()))
            .collect();
        keys.push(("tls".to_owned(), DraftValue::Inline(tls)));
    } else if server.tls
        && (server.check_tls == Some(false)
            || server.check_port.is_some() && server.check_tls.is_none())
    {
        keys.push(("tls".to_owned(), false.into()));
    }
    Some(match keys.as_slice() {
        [(key, value)] if key == "path" => value.clone(),
        [(key, _)] if key == "tcp" => "tcp".into(),
        _ => DraftValue::Inline(keys),
    })
}

/// A dialogue of one question and one answer.
fn tcp_dialogue(importer: &mut Importer<'_>, at: usize, keys: &mut Keys) {
    let lines: Vec<_> = importer
        .source
        .lines(at)
        .into_iter()
        .filter(|line| line.is("tcp-check"))
        .collect();
    keys.push(("tcp".to_owned(), true.into()));
    let (mut send, mut expect) = (None, None);
    for line in lines {
        let value = line.from(2);
        let verdict = match (line.word(1), value) {
            ("connect", []) => Verdict::Default,
            ("connect", [word, port])
                if word == "port" && !keys.iter().any(|(key, _)| key == "port") =>
            {
                match port.parse::<u16>() {
                    Ok(port) if port > 0 => {
                        keys.push(("port".to_owned(), i64::from(port).into()));
                        Verdict::Converted
                    }
                    _ => Verdict::differs("checks connect to the port of each endpoint"),
                }
            }
            ("connect", _) => Verdict::differs(
                "checks connect as requests do, or as `port` and `tls` of health say",
            ),
            ("comment", _) => Verdict::Default,
            ("send", [text]) if send.is_none() && expect.is_none() && !has_variable(text) => {
                send = Some(text.clone());
                Verdict::Converted
            }
            ("expect", [kind, text])
                if kind == "string" && expect.is_none() && !has_variable(text) =>
            {
                expect = Some(text.clone());
                Verdict::Converted
            }
            _ => Verdict::differs("a check is one question and one answer; this is left out of it"),
        };
        importer.report.set(line.id, verdict);
    }
    if let Some(send) = send.filter(|_| expect.is_some()) {
        keys.push(("send".to_owned(), send.into()));
    }
    if let Some(expect) = expect {
        keys.push(("expect".to_owned(), expect.into()));
    }
}

impl Importer<'_> {
    /// Lines about checks of a backend without servers that are checked.
    pub(super) fn unchecked(&mut self, at: usize) {
        let source = self.source;
        for line in source.lines(at) {
            let about = line.is("http-check")
                || line.is("tcp-check")
                || line.is("timeout check")
                || line.is("option httpchk")
                || line.is("option tcp-check");
            if about && !self.report.has_verdict(line.id) {
                self.report.set(line.id, Verdict::Default);
            }
        }
    }
}
