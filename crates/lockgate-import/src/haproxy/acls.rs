//! Named ACLs and the conditions at the end of rules.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::conditions::{HaproxyAtom, HaproxyCondition, HaproxyCondition as C};
use super::patterns::{HostPattern, PathPattern};
use super::sections::HaproxyLine;
use super::words::has_variable;
use crate::{ConversionReport, StatementId, Verdict};

/// The named ACLs of a section.
#[derive(Debug, Default)]
pub(super) struct HaproxyAcls {
    pub(super) named: HashMap<String, Vec<HaproxyCondition>>,
    /// The lines, with what is to be said of them where a rule uses them.
    pub(super) lines: Vec<(String, StatementId, Verdict)>,
    /// Stick tables that count requests, by name (empty: the section's own): milliseconds.
    pub(super) rates: HashMap<String, u64>,
    /// The period of the table that `track-sc0 src` counts in.
    pub(super) tracked: Option<u64>,
    /// The port of the section, where it has only one.
    pub(super) port: Option<u16>,
    /// Whether the section relays bytes: then it sees server names, and no requests.
    pub(super) tcp: bool,
}

impl HaproxyAcls {
    /// Reads the `acl` lines of a section.
    pub(super) fn read(&mut self, lines: &[&HaproxyLine]) {
        for line in lines.iter().filter(|line| line.is("acl")) {
            let (condition, verdict) = self.criterion(line.from(2));
            let condition = if line.uncertain {
                opaque(line.from(2), true)
            } else {
                condition
            };
            self.lines.push((line.word(1).to_owned(), line.id, verdict));
            self.named
                .entry(line.word(1).to_owned())
                .or_default()
                .push(condition);
        }
    }

    /// Sets the verdicts of the lines: one that no rule uses changes nothing.
    pub(super) fn settle(&self, used: &HashSet<String>, report: &mut ConversionReport) {
        for (name, id, verdict) in &self.lines {
            if used.contains(name) {
                report.set(*id, verdict.clone());
            } else if !report.has_verdict(*id) {
                report.set(*id, Verdict::Default);
            }
        }
    }

    /// The condition at the end of a rule: `if …` or `unless …`; its words begin with that word.
    pub(super) fn condition(
        &self,
        words: &[String],
        used: &mut HashSet<String>,
    ) -> (HaproxyCondition, Verdict) {
        let mut verdict = Verdict::Converted;
        let Some((first, words)) = words.split_first() else {
            return (C::Always(true), verdict);
        };
        let mut either = Vec::new();
        let mut all = Vec::new();
        let mut negated = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "or" || word == "||" {
                either.push(C::all(std::mem::take(&mut all)));
                continue;
            }
            if word == "and" || word == "&&" {
                continue;
            }
            if word == "!" {
                negated = !negated;
                continue;
            }
            let name = word.strip_prefix('!');
            negated ^= name.is_some();
            let name = name.unwrap_or(word);
            let found = if let Some(glued) = name.strip_prefix('{') {
                let mut inner: Vec<String> = Vec::new();
                if !glued.is_empty() {
                    inner.push(glued.to_owned());
                }
                for word in words.by_ref() {
                    if word == "}" {
                        break;
                    }
                    inner.push(word.clone());
                }
                let (found, why) = self.criterion(&inner);
                verdict = worse(verdict, why);
                found
            } else {
                used.insert(name.to_owned());
                self.by_name(name)
            };
            all.push(if negated { found.not() } else { found });
            negated = false;
        }
        either.push(C::all(all));
        let condition = C::any(either);
        if first == "unless" {
            (condition.not(), verdict)
        } else {
            (condition, verdict)
        }
    }

    fn by_name(&self, name: &str) -> HaproxyCondition {
        if let Some(alternatives) = self.named.get(name) {
            // Networks on several lines are one list.
            let mut networks = Vec::new();
            let mut rest = Vec::new();
            for alternative in alternatives {
                match alternative {
                    C::Atom(HaproxyAtom::Source(more)) => networks.extend(more.iter().cloned()),
                    other => rest.push(other.clone()),
                }
            }
            if !networks.is_empty() {
                rest.push(C::Atom(HaproxyAtom::Source(networks)));
            }
            return C::any(rest);
        }
        match name {
            "TRUE" | "HTTP" => C::Always(true),
            "FALSE" => C::Always(false),
            "LOCALHOST" => C::Atom(HaproxyAtom::Source(vec![
                "127.0.0.0/8".to_owned(),
                "::1/128".to_owned(),
            ])),
            _ => opaque(&[name.to_owned()], !name.starts_with("METH_")),
        }
    }

    /// A criterion with its flags and values.
    fn criterion(&self, words: &[String]) -> (HaproxyCondition, Verdict) {
        let Some((fetch, rest)) = words.split_first() else {
            return (opaque(words, true), unknown_criterion(""));
        };
        let mut fold = false;
        let mut method = None;
        let mut values = Vec::new();
        let mut rest = rest.iter();
        let mut understood = true;
        while let Some(word) = rest.next() {
            match word.as_str() {
                _ if !values.is_empty() => values.push(word.as_str()),
                "-i" => fold = true,
                "-m" => method = rest.next().map(String::as_str),
                "-n" => {}
                "--" => values.extend(rest.by_ref().map(String::as_str)),
                "-f" | "-M" | "-u" | "-p" => understood = false,
                _ => values.push(word.as_str()),
            }
        }
        understood &= !values.iter().any(|value| has_variable(value));
        let (name, converters) = split_converters(fetch);
        let plain = match converters {
            "" => true,
            "lower" => {
                fold = true;
                true
            }
            "host_only" | "field(1,:)" | "word(1,:)" => true,
            "field(1,:),lower" | "lower,field(1,:)" | "host_only,lower" => {
                fold = true;
                true
            }
            _ => false,
        };
        if understood
            && plain
            && let Some(found) = self.known(name, method, fold, &values)
        {
            return found;
        }
        let access = is_access_fetch(name);
        (opaque(words, access), unknown_criterion(name))
    }

    fn known(
        &self,
        name: &str,
        method: Option<&str>,
        fold: bool,
        values: &[&str],
    ) -> Option<(HaproxyCondition, Verdict)> {
        let plain = |condition| Some((condition, Verdict::Converted));
        match name {
            "always_true" => return plain(C::Always(true)),
            "always_false" => return plain(C::Always(false)),
            "ssl_fc" if values.is_empty() => return plain(C::Atom(HaproxyAtom::Tls)),
            "dst_port" | "fc_dst_port" => {
                let ports: Option<Vec<u16>> = values
                    .iter()
                    .filter(|value| **value != "eq")
                    .map(|value| value.parse().ok())
                    .collect();
                let ports = ports.filter(|ports| !ports.is_empty())?;
                let atoms = ports.into_iter().map(|p| C::Atom(HaproxyAtom::Port(p)));
                return plain(C::any(atoms.collect()));
            }
            "src" if method.is_none_or(|m| m == "ip") => {
                let networks: Option<Vec<_>> = values.iter().map(|v| network(v)).collect();
                let networks = networks.filter(|found| !found.is_empty())?;
                return plain(C::Atom(HaproxyAtom::Source(networks)));
            }
            _ => {}
        }
        if let Some(list) = name
            .strip_prefix("http_auth(")
            .and_then(|rest| rest.strip_suffix(')'))
        {
            return values.is_empty().then(|| {
                (
                    C::Atom(HaproxyAtom::User(list.to_owned())),
                    Verdict::Converted,
                )
            });
        }
        if name.starts_with("src_conn_cur") || matches!(name, "sc0_conn_cur" | "sc_conn_cur(0)") {
            let number = match values {
                ["gt", number] => number.parse().ok()?,
                ["ge", number] => number.parse::<u64>().ok()?.checked_sub(1)?,
                _ => return None,
            };
            return plain(C::Atom(HaproxyAtom::Connections(number)));
        }
        if let Some(found) = self.rate(name, values) {
            return plain(found);
        }
        if values.is_empty() {
            return None;
        }
        if let Some(how) = host_fetch(name) {
            let of_client = name.contains("ssl_fc_sni");
            if self.tcp != name.contains("ssl_") && !of_client {
                return None;
            }
            if of_client && !self.tcp {
                let (found, verdict) = self.hosts(method.unwrap_or("str"), fold, values)?;
                let because = "the Host of the request decides rather than the server name of TLS";
                return Some((found, worse(verdict, Verdict::differs(because))));
            }
            let how = if how.is_empty() {
                method.unwrap_or("str")
            } else {
                how
            };
            return self.hosts(how, fold, values);
        }
        let how = match name {
            "path" | "url" => method.unwrap_or("str"),
            "path_beg" | "url_beg" => "beg",
            _ => return None,
        };
        paths(name.starts_with("url"), how, fold, values)
    }

    /// A rate of requests: `sc_http_req_rate(0) gt 20`, counted by the client's address.
    fn rate(&self, name: &str, values: &[&str]) -> Option<HaproxyCondition> {
        let period = match name {
            "sc0_http_req_rate" | "sc_http_req_rate(0)" | "sc0_http_req_rate()" => self.tracked?,
            _ => {
                let table = name.strip_prefix("src_http_req_rate")?;
                let table = match table {
                    "" => "",
                    _ => table.strip_prefix('(')?.strip_suffix(')')?,
                };
                *self.rates.get(table)?
            }
        };
        let [comparison, number] = values else {
            return None;
        };
        let number: u64 = number.parse().ok()?;
        let most = match *comparison {
            "gt" => number,
            "ge" => number.checked_sub(1)?,
            _ => return None,
        };
        Some(C::Atom(HaproxyAtom::Rate(most, period)))
    }

    fn hosts(&self, how: &str, fold: bool, values: &[&str]) -> Option<(HaproxyCondition, Verdict)> {
        let mut atoms = Vec::new();
        let mut verdict = Verdict::Converted;
        for value in values {
            let mut differs = |because: &str| {
                verdict = worse(verdict.clone(), Verdict::differs(because));
            };
            let (name, port) = match value.rsplit_once(':') {
                Some((name, port)) if port.parse::<u16>().is_ok() => (name, port.parse().ok()),
                _ => (*value, None),
            };
            if port.is_some_and(|port| self.port != Some(port)) {
                return None;
            }
            let mut add = |pattern: HostPattern| atoms.push(C::Atom(HaproxyAtom::Host(pattern)));
            match how {
                "str" => {
                    if !fold && name.chars().any(|c| c.is_ascii_uppercase()) {
                        differs("host names are compared without regard to case");
                    }
                    add(HostPattern::exact(name)?);
                }
                "end" => match name.strip_prefix('.') {
                    Some(suffix) => add(HostPattern::below(suffix)?),
                    None => {
                        differs(
                            "a host such as notexample.com, which only ends in the same letters, is not matched",
                        );
                        add(HostPattern::exact(name)?);
                        add(HostPattern::below(name)?);
                    }
                },
                // A first label alone, such as `www.`, would stand for any domain.
                "beg" if name.contains('.') && !name.ends_with('.') => {
                    differs("only the whole host name is matched, not names that begin with it");
                    add(HostPattern::exact(name)?);
                }
                "dom" if name.contains('.') => {
                    differs(
                        "only the host and those below it are matched, not names that hold it before other labels",
                    );
                    add(HostPattern::exact(name)?);
                    add(HostPattern::below(name)?);
                }
                _ => return None,
            }
            if port.is_none()
                && self.port.is_some_and(|port| port != 80 && port != 443)
                && how == "str"
            {
                differs("a Host with the port, as clients send it to this port, is matched too");
            }
        }
        Some((C::any(atoms), verdict))
    }
}

fn paths(url: bool, how: &str, fold: bool, values: &[&str]) -> Option<(HaproxyCondition, Verdict)> {
    let mut atoms = Vec::new();
    let mut verdict = Verdict::Converted;
    for value in values {
        let first = verdict == Verdict::Converted;
        let said = &mut verdict;
        let mut differs = |because: String| {
            *said = worse(said.clone(), Verdict::Differs { because });
        };
        if fold && value.chars().any(|c| c.is_ascii_alphabetic()) {
            differs("upper and lower case differ in paths".to_owned());
        }
        if url && how == "str" {
            differs("the query is not compared".to_owned());
        }
        let pattern = match how {
            "str" => PathPattern::exact(value)?,
            "beg" => {
                let pattern = PathPattern::below(value)?;
                if !pattern.is_every() {
                    // One example is enough.
                    if first {
                        match value.strip_suffix('/') {
                            Some(bare) => differs(format!("{bare} itself is matched too")),
                            None => differs(format!(
                                "whole segments of a path are matched: {value} and {value}/x, not {value}x"
                            )),
                        }
                    }
                }
                pattern
            }
            _ => return None,
        };
        atoms.push(C::Atom(HaproxyAtom::Path(pattern)));
    }
    Some((C::any(atoms), verdict))
}

/// How a fetch of the host compares: empty for the one that `-m` says. `None` for another fetch.
fn host_fetch(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("req.").unwrap_or(&name);
    let name = name.strip_prefix("req_").unwrap_or(name);
    Some(match name {
        "hdr(host)" | "hdr(host,1)" | "hdr(host,-1)" | "fhdr(host)" | "ssl_sni" | "ssl_fc_sni" => {
            ""
        }
        "hdr_end(host)" | "ssl_sni_end" | "ssl_fc_sni_end" => "end",
        "hdr_beg(host)" | "ssl_sni_beg" => "beg",
        "hdr_dom(host)" => "dom",
        _ => return None,
    })
}

/// Whether what a condition looks at may say which clients are let in.
fn is_access_fetch(name: &str) -> bool {
    const FETCHES: [&str; 7] = [
        "path",
        "url",
        "method",
        "nbsrv",
        "capture",
        "req.ssl_alpn",
        "ssl_fc_alpn",
    ];
    const FIELDS: [&str; 10] = [
        "upgrade",
        "host",
        "content-type",
        "connection",
        "accept",
        "origin",
        "sec-websocket",
        "user-agent",
        "x-forwarded-proto",
        "x-forwarded-port",
    ];
    let name = name.to_ascii_lowercase();
    let harmless = FETCHES.iter().any(|fetch| name.starts_with(fetch))
        || (name.contains("hdr") && FIELDS.iter().any(|field| name.contains(field)));
    !harmless
}

/// A fetch and its converters: at the first comma outside of parentheses.
fn split_converters(fetch: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (at, c) in fetch.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                return (
                    fetch.get(..at).unwrap_or(fetch),
                    fetch.get(at + 1..).unwrap_or_default(),
                );
            }
            _ => {}
        }
    }
    (fetch, "")
}

fn opaque(words: &[String], access: bool) -> HaproxyCondition {
    let text: String = words.join(" ").chars().take(80).collect();
    C::Atom(HaproxyAtom::Opaque { text, access })
}

fn unknown_criterion(name: &str) -> Verdict {
    let name: String = name.chars().take(40).collect();
    Verdict::not_supported(
        format!("Lockgate chooses routes by host and path, not by `{name}` with these values"),
        None,
    )
}

/// The worse of two verdicts of conditions.
pub(super) fn worse(one: Verdict, two: Verdict) -> Verdict {
    match (&one, &two) {
        (Verdict::NotSupported { .. }, _) => one,
        (_, Verdict::NotSupported { .. }) => two,
        (Verdict::Differs { because: a }, Verdict::Differs { because: b }) => {
            if a.len() > 400 || a.split("; ").any(|part| part == b) {
                one
            } else {
                Verdict::differs(format!("{a}; {b}"))
            }
        }
        (Verdict::Differs { .. }, _) => one,
        _ => two,
    }
}

/// A network or address as Lockgate writes it.
pub(super) fn network(text: &str) -> Option<String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => match bits.parse::<u8>() {
            Ok(bits) if bits <= most => bits,
            Ok(_) => return None,
            // A mask such as 255.255.0.0.
            Err(_) => {
                let mask = u32::from(bits.parse::<std::net::Ipv4Addr>().ok()?);
                (mask.leading_ones() == mask.count_ones())
                    .then(|| u8::try_from(mask.count_ones()).ok())??
            }
        },
    };
    // The bits behind the network are zero.
    let address: IpAddr = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    };
    Some(format!("{address}/{bits}"))
}
