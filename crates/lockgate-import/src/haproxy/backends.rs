//! Backends: servers become an address, a list or a pool.

use super::Importer;
use super::checks::health;
use super::sections::HaproxyLine;
use super::servers::{HaproxyServer, endpoint_address, is_variable, server_options};
use super::words::{haproxy_time, has_variable, lockgate_time};
use crate::{DraftTable, DraftValue, StatementId, Verdict};

/// Where a backend's requests or connections go.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HaproxyTarget {
    /// The value of `proxy`; without it nothing answers.
    pub(super) proxy: Option<DraftValue>,
    /// The name of its pool.
    pub(super) pool: Option<String>,
    /// PROXY headers, which are a key of a `[tcp]` table where there is no pool.
    pub(super) proxy_protocol: Option<&'static str>,
}

impl Importer<'_> {
    /// The target of a backend, made when it is first asked for.
    pub(super) fn target(&mut self, at: usize, port: Option<u16>, tcp: bool) -> HaproxyTarget {
        let key = (at, port.filter(|_| self.needs_port(at)), tcp);
        if let Some(target) = self.targets.get(&key) {
            return target.clone();
        }
        let target = self.new_target(at, port, tcp);
        self.targets.insert(key, target.clone());
        target
    }

    /// Whether a server of the backend has the port of its clients.
    fn needs_port(&self, at: usize) -> bool {
        let lines = self.source.sections.get(at).map_or(&[][..], |s| &s.lines);
        lines
            .iter()
            .any(|line| line.is("server") && endpoint_address(line.word(2), None).is_err())
    }

    fn new_target(&mut self, at: usize, port: Option<u16>, tcp: bool) -> HaproxyTarget {
        let none = HaproxyTarget {
            proxy: None,
            pool: None,
            proxy_protocol: None,
        };
        let source = self.source;
        let Some(section) = source.sections.get(at) else {
            return none;
        };
        let lines = source.lines(at);
        let mut defaults = HaproxyServer::default();
        let mut first: Option<HaproxyServer> = None;
        let mut addresses = std::collections::HashSet::new();
        let mut servers: Vec<(String, HaproxyServer, StatementId)> = Vec::new();
        for line in lines.iter().filter(|line| !line.uncertain) {
            let options = match line.word(0) {
                "default-server" => 1,
                "server" => 3,
                "server-template" => 4,
                _ => continue,
            };
            let ca_base = self.bases.get("ca-base").cloned();
            let base = |file: &str| with_base(file, ca_base.as_deref());
            if options == 1 {
                let verdicts = server_options(line.from(1), &mut defaults, base);
                self.verdicts(line.id, verdicts);
                continue;
            }
            let mut server = defaults.clone();
            let verdicts = server_options(line.from(options), &mut server, base);
            let text = line.word(options - 1);
            let address = if options == 4 && text.starts_with('_') {
                Ok(format!("srv:{text}"))
            } else {
                endpoint_address(text, port)
            };
            let address = match address {
                Ok(address) => address,
                Err(because) => {
                    self.report
                        .set(line.id, Verdict::not_supported(because, None));
                    continue;
                }
            };
            if server.disabled || server.weight == Some(0) {
                self.report.set(
                    line.id,
                    Verdict::differs("an endpoint that gets no requests is left out"),
                );
                continue;
            }
            if options == 4 && !address.starts_with("srv:") {
                self.report.set(
                    line.id,
                    Verdict::differs(
                        "the name is one endpoint, whatever the number of its addresses",
                    ),
                );
            }
            if is_variable(&address) {
                self.report.set(
                    line.id,
                    Verdict::differs("the variable must hold the port too, as host:port"),
                );
            }
            if server.max.is_some() && endpoint_address(text, None).is_err() && options == 3 {
                self.report.set(
                    line.id,
                    Verdict::differs("max is of each port of the endpoint"),
                );
            }
            let main = first.get_or_insert_with(|| server.clone());
            if (main.tls, main.h2, main.proxy_protocol, &main.name, &main.ca)
                != (
                    server.tls,
                    server.h2,
                    server.proxy_protocol,
                    &server.name,
                    &server.ca,
                )
            {
                self.report.set(line.id, Verdict::not_supported(
                    "all endpoints of a pool are spoken to in the same way, and the first one of this backend in another",
                    Some("make a pool of its own for it"),
                ));
                continue;
            }
            if server.check != main.check && server.check {
                self.report.set(
                    line.id,
                    Verdict::differs("all endpoints of the pool are checked"),
                );
                main.check = true;
                main.inter = server.inter;
            }
            if !addresses.insert(address.clone()) {
                self.report.set(
                    line.id,
                    Verdict::differs("an address is in a pool once; `weight` gives it more"),
                );
                continue;
            }
            self.verdicts(line.id, verdicts);
            if let Some(max) = server.max {
                let known = *self.max.entry(address.clone()).or_insert(max);
                if known != max {
                    server.max = Some(known);
                    self.report.set(
                        line.id,
                        Verdict::differs("an endpoint has one max, over all pools"),
                    );
                }
            }
            servers.push((address, server, line.id));
        }
        self.report.set(section.opening.id, Verdict::Converted);
        let Some(main) = first else {
            return none;
        };
        if servers.iter().all(|(_, server, _)| server.backup) {
            for (_, server, id) in &mut servers {
                server.backup = false;
                if lines.iter().any(|line| line.id == *id) {
                    self.report.set(*id, Verdict::Converted);
                }
            }
        }
        // One weight for all is none.
        let weight = servers.first().and_then(|(_, server, _)| server.weight);
        if servers.iter().all(|(_, server, _)| server.weight == weight) {
            for (_, server, _) in &mut servers {
                server.weight = None;
            }
        }
        let backups = servers.iter().filter(|(_, server, _)| server.backup);
        if backups.clone().count() > 1 && source.option(at, "allbackups").is_none() {
            for (.., id) in backups {
                self.report.set(
                    *id,
                    Verdict::differs("all backups share the load, not the first one alone"),
                );
            }
        }
        let endpoints: Vec<DraftValue> = servers
            .iter()
            .map(|(address, server, _)| endpoint(address, server))
            .collect();
        let mut pool = DraftTable::default();
        let one = endpoints.len() == 1 && !servers.iter().any(|(a, ..)| a.starts_with("srv:"));
        let checked = servers.iter().any(|(_, server, _)| server.check);
        self.balance(at, &lines, one, tcp, &mut pool);
        if main.h2 && !tcp {
            pool.set("protocol", if main.tls { "h2" } else { "h2c" });
        }
        if checked {
            // A port that all endpoints have needs no other one for checks.
            let mut ports: Vec<i64> = servers
                .iter()
                .map(|(address, ..)| {
                    address
                        .rsplit(':')
                        .next()
                        .and_then(|p| p.parse().ok())
                        .unwrap_or(0)
                })
                .collect();
            ports.dedup();
            if ports.len() > 1 {
                ports.clear();
            }
            let health = health(self, at, &main, &ports);
            if let Some(health) = health {
                pool.set("health", health);
            }
        } else {
            self.unchecked(at);
        }
        if let Some(time) = main.slow_start.filter(|time| *time > 0 && !one) {
            pool.set("slow_start", lockgate_time(time));
        }
        let limited = servers.iter().any(|(_, server, _)| server.max.is_some());
        if let Some(line) = source.setting(at, "timeout queue").filter(|_| limited) {
            if let Some(time) = haproxy_time(line.word(2)).filter(|t| *t > 0 && *t != 2000) {
                pool.set(
                    "queue",
                    DraftValue::Inline(vec![("wait".to_owned(), lockgate_time(time).into())]),
                );
            }
            self.report.set(line.id, Verdict::Converted);
        }
        let mut tls = Vec::new();
        if let Some(name) = &main.name {
            tls.push(("name".to_owned(), name.as_str().into()));
        }
        if let Some(ca) = &main.ca {
            tls.push(("ca".to_owned(), ca.as_str().into()));
        }
        let unix = servers
            .iter()
            .any(|(address, ..)| address.starts_with("unix:"));
        if main.tls && unix && main.name.is_none() {
            for (.., id) in &servers {
                self.report.set(
                    *id,
                    Verdict::not_supported(
                        "TLS over a Unix socket needs a name to verify",
                        Some("write tls = { name = … } in a pool"),
                    ),
                );
            }
            return none;
        }
        let tls = DraftValue::Inline(tls);
        let inline = endpoints.len() == 1
            && pool.is_empty()
            && matches!(endpoints.first(), Some(DraftValue::Text(text)) if !text.starts_with("srv:"));
        if inline {
            let to = endpoints.into_iter().next();
            let options = main.tls || (main.proxy_protocol.is_some() && !tcp);
            let proxy = if options {
                let mut keys: Vec<_> = to.map(|to| ("to".to_owned(), to)).into_iter().collect();
                if main.tls {
                    keys.push(("tls".to_owned(), tls));
                }
                if let Some(version) = main.proxy_protocol.filter(|_| !tcp) {
                    keys.push(("proxy_protocol".to_owned(), version.into()));
                }
                Some(DraftValue::Inline(keys))
            } else {
                to
            };
            return HaproxyTarget {
                proxy,
                pool: None,
                proxy_protocol: main.proxy_protocol,
            };
        }
        if main.tls {
            pool.set("tls", tls);
        }
        if let Some(version) = main.proxy_protocol.filter(|_| !tcp) {
            pool.set("proxy_protocol", version);
        }
        let name = self.pool_name(&section.name);
        let mut table = DraftTable::default();
        table.comments.push(section.opening.place.to_string());
        table.set("endpoints", DraftValue::List(endpoints));
        table.append(pool);
        self.pools.push((name.clone(), table));
        HaproxyTarget {
            proxy: Some(format!("pool:{name}").into()),
            pool: Some(name),
            proxy_protocol: main.proxy_protocol,
        }
    }

    /// Sets the verdicts of a line with options: converted, if there are none.
    pub(super) fn verdicts(&mut self, id: StatementId, verdicts: Vec<Verdict>) {
        self.report.set(id, Verdict::Converted);
        for verdict in verdicts {
            self.report.set(id, verdict);
        }
    }

    /// A name for a pool that no other pool has.
    fn pool_name(&mut self, name: &str) -> String {
        let plain: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                    c
                } else {
                    '-'
                }
            })
            .take(60)
            .collect();
        let plain = if plain.is_empty() {
            "app".to_owned()
        } else {
            plain
        };
        let count = self.pool_names.entry(plain.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            return plain;
        }
        let name = format!("{plain}_{count}");
        self.pool_names.entry(name.clone()).or_insert(1);
        name
    }

    /// How an endpoint is chosen: `balance`, `cookie`, `stick on`.
    fn balance(
        &mut self,
        at: usize,
        lines: &[&HaproxyLine],
        one: bool,
        tcp: bool,
        pool: &mut DraftTable,
    ) {
        let source = self.source;
        let balance = source.setting(at, "balance");
        let cookie = source.setting(at, "cookie").filter(|_| !tcp);
        let stick = lines.iter().find(|line| {
            line.is("stick on") || line.is("stick match") || line.is("stick store-request")
        });
        let hash = |key: &str| DraftValue::Inline(vec![("hash".to_owned(), key.into())]);
        let mut chosen = None;
        let mut sticky = false;
        if let Some(line) = cookie {
            let name = line.word(1);
            let own = line.words.iter().any(|word| word == "insert");
            let plain = name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
                && !name.is_empty();
            let verdict = if one {
                Verdict::Default
            } else if own && plain {
                chosen = Some(DraftValue::Inline(vec![(
                    "sticky".to_owned(),
                    format!("cookie:{name}").into(),
                )]));
                sticky = true;
                if line.words.iter().any(|w| {
                    matches!(
                        w.as_str(),
                        "maxlife" | "maxidle" | "domain" | "attr" | "dynamic" | "preserve"
                    )
                }) {
                    Verdict::differs(
                        "the cookie has its own attributes and lasts for the browser's session",
                    )
                } else {
                    Verdict::Converted
                }
            } else {
                chosen = Some(DraftValue::Inline(vec![(
                    "sticky".to_owned(),
                    "cookie:lockgate_endpoint".into(),
                )]));
                sticky = true;
                Verdict::differs(
                    "Lockgate sets a cookie of its own and does not change those of the application",
                )
            };
            self.report.set(line.id, verdict);
        }
        if let Some(line) = stick {
            let key = match line.word(2) {
                "src" => Some("client".to_owned()),
                word => word
                    .strip_prefix("req.cook(")
                    .or_else(|| word.strip_prefix("cookie("))
                    .and_then(|rest| rest.strip_suffix(')'))
                    .filter(|_| !tcp)
                    .map(|name| format!("cookie:{name}")),
            };
            let key = key.filter(|_| line.is("stick on") && line.words.len() <= 3 && !sticky);
            let verdict = match key {
                _ if one => Verdict::Default,
                Some(key) => {
                    chosen = Some(hash(&key));
                    sticky = true;
                    Verdict::differs(
                        "the endpoint follows from a hash of the key, not from a table",
                    )
                }
                None => Verdict::not_supported(
                    "endpoints are not kept in a table",
                    Some("use balance = { sticky = \"cookie:…\" } or { hash = … }"),
                ),
            };
            self.report.set(line.id, verdict);
        }
        for line in lines {
            if matches!(line.word(0), "stick" | "stick-table") && !self.report.has_verdict(line.id)
            {
                if line.is("stick") && !one {
                    self.report.set(
                        line.id,
                        Verdict::not_supported("endpoints are not kept in a table", None),
                    );
                } else if line.is("stick") || stick.is_some() {
                    self.report.set(line.id, Verdict::Default);
                }
            }
        }
        if let Some(line) = balance {
            let name = line.word(1);
            let value: Option<DraftValue> = match name.split('(').next().unwrap_or(name) {
                "roundrobin" | "static-rr" => Some("round-robin".into()),
                "leastconn" if tcp => None,
                "leastconn" => Some("least".into()),
                "source" => Some(hash("client")),
                "hdr" if !tcp => {
                    let field = name
                        .strip_prefix("hdr(")
                        .and_then(|rest| rest.strip_suffix(')'));
                    field.map(|field| hash(&format!("header:{}", field.to_ascii_lowercase())))
                }
                _ => None,
            };
            let verdict = match name.split('(').next().unwrap_or(name) {
                _ if one => Verdict::Default,
                "leastconn" if tcp => Verdict::Default,
                "random" if tcp => {
                    Verdict::differs("the endpoint with the fewest connections is used")
                }
                "random" => Verdict::Default,
                "roundrobin" | "static-rr" | "leastconn" if sticky => Verdict::differs(
                    "a client that has no endpoint yet gets the better one of two at random",
                ),
                _ if sticky => {
                    Verdict::differs("what the other lines say about keeping a client decides")
                }
                _ if value.is_some() => {
                    chosen = value;
                    Verdict::Converted
                }
                other => Verdict::not_supported(
                    format!(
                        "endpoints are not chosen by `{}`; the better one of two at random is used",
                        other.chars().take(20).collect::<String>()
                    ),
                    Some("balance = { hash = … } takes the client, a header or a cookie"),
                ),
            };
            self.report.set(line.id, verdict);
        }
        if let Some(line) = source.setting(at, "hash-type") {
            self.report.set(line.id, Verdict::Default);
        }
        if let Some(chosen) = chosen.filter(|_| !one) {
            pool.set("balance", chosen);
        }
    }
}

/// An endpoint in a list.
fn endpoint(address: &str, server: &HaproxyServer) -> DraftValue {
    let mut keys = vec![("addr".to_owned(), DraftValue::from(address))];
    if let Some(weight) = server.weight.filter(|weight| (2..=256).contains(weight)) {
        keys.push(("weight".to_owned(), weight.into()));
    }
    if let Some(max) = server.max {
        keys.push(("max".to_owned(), max.into()));
    }
    if server.backup {
        keys.push(("backup".to_owned(), true.into()));
    }
    if keys.len() == 1 {
        address.into()
    } else {
        DraftValue::Inline(keys)
    }
}

/// A relative path from the folder of `crt-base` or `ca-base`.
pub(super) fn with_base(file: &str, base: Option<&str>) -> String {
    match base {
        Some(base) if !file.starts_with('/') && !has_variable(file) => {
            format!("{}/{file}", base.trim_end_matches('/'))
        }
        _ => file.to_owned(),
    }
}
