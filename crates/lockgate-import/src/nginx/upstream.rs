//! `upstream` blocks, which become pools or a single address.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::route::{inline, place_of};
use super::scope::NginxVerdicts;
use super::syntax::NginxDirective;
use super::values::{duration, nginx_millis};
use crate::{Draft, DraftTable, DraftValue, Verdict};

/// An `upstream`.
pub(super) struct NginxUpstream<'a> {
    pub(super) block: &'a NginxDirective,
    endpoints: Vec<DraftValue>,
    keys: Vec<(&'static str, DraftValue)>,
    seen: BTreeSet<String>,
    /// Whether a table of HTTP, of HTTPS, or of gRPC names it as a pool.
    pub(super) used: [Cell<bool>; 3],
    /// `tls` of the pool for HTTPS, once a route has one.
    tls: RefCell<Option<NginxEndpointTls>>,
}

/// The keys of `tls` to an endpoint.
pub(super) type NginxEndpointTls = Vec<(&'static str, DraftValue)>;

/// An address of Lockgate: `host:port` or `unix:PATH`.
pub(super) fn address(text: &str, port: u16) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let plain = path.starts_with('/') && !path.contains(['$', '{']);
        return plain.then(|| format!("unix:{path}"));
    }
    let (host, found) = match text.strip_prefix('[') {
        Some(inner) => {
            let (inner, rest) = inner.split_once(']')?;
            (format!("[{inner}]"), rest.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let port = match found {
        Some(found) => found.parse::<u16>().ok().filter(|port| *port > 0)?,
        None => port,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    let labels = host.starts_with('[') || host.split('.').all(|l| !l.is_empty() && l.len() < 64);
    let number = host.chars().all(|c| c.is_ascii_digit());
    let numeric = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    let address = !numeric || host.parse::<std::net::Ipv4Addr>().is_ok();
    (labels && !number && address && host.len() < 254 && host.chars().all(plain))
        .then(|| format!("{host}:{port}"))
}

/// The greatest weight of an endpoint.
const MOST_WEIGHT: i64 = 256;

/// The weight among the keys of an endpoint.
fn weight_in(keys: &[(&str, DraftValue)]) -> i64 {
    let weight = keys.iter().find_map(|(key, value)| match value {
        DraftValue::Number(weight) if *key == "weight" => Some(*weight),
        _ => None,
    });
    weight.unwrap_or(1)
}

impl<'a> NginxUpstream<'a> {
    /// Reads a block. `port` is that of servers without one.
    pub(super) fn read(verdicts: &NginxVerdicts, block: &'a NginxDirective, port: u16) -> Self {
        let mut this = Self {
            block,
            endpoints: Vec::new(),
            keys: Vec::new(),
            seen: BTreeSet::new(),
            used: Default::default(),
            tls: RefCell::new(None),
        };
        let mut fails: Vec<(u64, u64)> = Vec::new();
        for directive in block.children() {
            match directive.name.as_str() {
                "server" => this.server(verdicts, directive, port, &mut fails),
                "least_conn" | "least_time" => this.balance(verdicts, directive, "least".into()),
                "random" => verdicts.default(directive),
                "ip_hash" => {
                    let hash = inline(vec![("hash", "client".into())]);
                    this.balance(verdicts, directive, hash);
                }
                "hash" => match directive.arg(0) {
                    "$remote_addr" | "$binary_remote_addr" => {
                        let hash = inline(vec![("hash", "client".into())]);
                        this.balance(verdicts, directive, hash);
                    }
                    key => {
                        let by = key
                            .strip_prefix("$http_")
                            .map(|name| format!("header:{}", name.replace('_', "-")))
                            .or_else(|| {
                                key.strip_prefix("$cookie_").map(|n| format!("cookie:{n}"))
                            });
                        match by {
                            Some(by) => {
                                let hash = inline(vec![("hash", by.into())]);
                                this.balance(verdicts, directive, hash);
                            }
                            None => verdicts.refuse(
                                directive,
                                "endpoints are hashed by client, field or cookie",
                                None,
                            ),
                        }
                    }
                },
                "sticky" if directive.arg(0) == "cookie" && !directive.arg(1).is_empty() => {
                    let name = format!("cookie:{}", directive.arg(1));
                    let sticky = inline(vec![("sticky", name.into())]);
                    this.balance(verdicts, directive, sticky);
                }
                "keepalive" | "keepalive_timeout" | "keepalive_requests" | "keepalive_time"
                | "zone" | "resolver" | "resolver_timeout" | "status_zone" | "queue" => {
                    verdicts.default(directive);
                }
                _ => {}
            }
        }
        // The weight of an endpoint alone says nothing.
        if let [DraftValue::Inline(keys)] = this.endpoints.as_slice()
            && let [(_, address), (weight, _)] = keys.as_slice()
            && weight == "weight"
        {
            this.endpoints = vec![address.clone()];
        }
        if let Some(&(errors, millis)) = fails.first() {
            if fails.iter().all(|fail| *fail == (errors, millis)) {
                let mut keys = vec![("errors", (errors.min(100) as i64).into())];
                if millis != 10_000 && millis > 0 {
                    keys.push(("for", duration(millis).into()));
                }
                match errors {
                    _ if millis == 0 => this.keys.push(("eject", false.into())),
                    0 => this.keys.push(("eject", false.into())),
                    5 if millis == 10_000 => {}
                    _ => this.keys.push(("eject", inline(keys))),
                }
            } else {
                verdicts.note(format!(
                    "{}: the servers differ in max_fails or fail_timeout; here all endpoints have the default of `eject`.",
                    block.place
                ));
            }
        }
        this
    }

    fn balance(&mut self, verdicts: &NginxVerdicts, directive: &NginxDirective, value: DraftValue) {
        self.keys.push(("balance", value));
        verdicts.converted(directive);
    }

    fn server(
        &mut self,
        verdicts: &NginxVerdicts,
        directive: &NginxDirective,
        port: u16,
        fails: &mut Vec<(u64, u64)>,
    ) {
        let Some(address) = address(directive.arg(0), port) else {
            verdicts.refuse(directive, "its address cannot be read", None);
            return;
        };
        let mut keys = vec![("addr", DraftValue::from(address.clone()))];
        let (mut errors, mut millis, mut failing) = (1, 10_000, false);
        let mut verdict = Verdict::Converted;
        for option in directive.args.iter().skip(1) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let number = value.parse::<i64>().ok();
            match (name, number) {
                ("down", _) => {
                    verdicts.converted(directive); // it stays out
                    return;
                }
                ("backup", _) => keys.push(("backup", true.into())),
                ("weight", Some(1)) | ("max_conns", Some(0)) | ("resolve", _) => {}
                ("weight", Some(weight @ 2..=256)) => keys.push(("weight", weight.into())),
                ("max_conns", Some(max)) => keys.push(("max", max.into())),
                ("max_fails", Some(number)) => {
                    errors = number.unsigned_abs();
                    failing = true;
                }
                ("fail_timeout", _) => match nginx_millis(value) {
                    Some(found) => {
                        millis = found;
                        failing = true;
                    }
                    None => verdict = Verdict::differs("`fail_timeout` cannot be read"),
                },
                ("slow_start", _) => match nginx_millis(value) {
                    Some(found) => {
                        self.keys.retain(|(key, _)| *key != "slow_start");
                        self.keys.push(("slow_start", duration(found).into()));
                    }
                    None => verdict = Verdict::differs("`slow_start` cannot be read"),
                },
                _ => verdict = Verdict::differs(format!("`{name}` is not in the new file")),
            }
        }
        if failing {
            fails.push((errors, millis));
        }
        let weight = weight_in(&keys);
        let is_backup = keys.iter().any(|(key, _)| *key == "backup");
        let value = match keys.len() {
            1 => address.clone().into(),
            _ => inline(keys),
        };
        if !self.seen.insert(address.clone()) {
            match self.add_weight(&address, weight) {
                true if !is_backup => verdicts.set(directive, verdict),
                _ => verdicts.differs(directive, "an endpoint stands once in a pool"),
            }
            return;
        }
        self.endpoints.push(value);
        verdicts.set(directive, verdict);
    }

    /// Adds the weight of a server that stands twice: nginx gives it as many more requests. Says
    /// whether Lockgate takes the sum.
    fn add_weight(&mut self, address: &str, more: i64) -> bool {
        let known = self.endpoints.iter_mut().find(|known| match known {
            DraftValue::Text(text) => text == address,
            DraftValue::Inline(keys) => keys.iter().any(|(_, value)| *value == address.into()),
            _ => false,
        });
        let Some(known) = known else { return false };
        let mut keys = match std::mem::replace(known, DraftValue::Flag(false)) {
            DraftValue::Inline(keys) => keys,
            only => vec![("addr".to_owned(), only)],
        };
        let has_backup = keys.iter().any(|(key, _)| key == "backup");
        let weight = keys.iter().find_map(|(key, value)| match value {
            DraftValue::Number(weight) if key == "weight" => Some(*weight),
            _ => None,
        });
        let sum = weight.unwrap_or(1).saturating_add(more);
        keys.retain(|(key, _)| key != "weight");
        keys.insert(1, ("weight".to_owned(), sum.min(MOST_WEIGHT).into()));
        *known = DraftValue::Inline(keys);
        sum <= MOST_WEIGHT && !has_backup
    }

    /// The value of `proxy`: the only address, or the pool. `kind` is 0 for HTTP, 1 for HTTPS, 2
    /// for gRPC.
    pub(super) fn value(&self, kind: usize, tcp: bool) -> Option<DraftValue> {
        match self.endpoints.as_slice() {
            [] => None,
            // Of one address there is nothing to choose.
            [only @ DraftValue::Text(_)] => Some(only.clone()),
            many if tcp && self.keys.is_empty() => Some(DraftValue::List(many.to_vec())),
            _ => {
                self.used.get(kind)?.set(true);
                Some(format!("pool:{}", self.pool_name(kind)).into())
            }
        }
    }

    /// Gives the pool for HTTPS its `tls`. Says whether all routes so far have the same.
    pub(super) fn take_tls(&self, tls: &NginxEndpointTls) -> bool {
        self.tls.borrow_mut().get_or_insert_with(|| tls.clone()) == tls
    }

    fn pool_name(&self, kind: usize) -> String {
        let name: String = self
            .block
            .arg(0)
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .take(60)
            .collect();
        match kind {
            0 => name,
            1 => format!("{name}-tls"),
            _ => format!("{name}-grpc"),
        }
    }

    /// Writes its pools.
    pub(super) fn write(&self, verdicts: &NginxVerdicts, draft: &mut Draft) {
        for (kind, used) in self.used.iter().enumerate() {
            if !used.get() {
                continue;
            }
            let mut pool = DraftTable::default();
            pool.comments.push(place_of(self.block));
            pool.set("endpoints", DraftValue::List(self.endpoints.clone()));
            for (key, value) in &self.keys {
                pool.set(key, value.clone());
            }
            if !self.keys.iter().any(|(key, _)| *key == "balance") {
                verdicts.note("nginx takes the endpoints of a pool in turn; Lockgate takes the less busy of two: balance = \"round-robin\" does as nginx.");
            }
            if kind == 1 {
                pool.set("tls", inline(self.tls.borrow().clone().unwrap_or_default()));
            }
            if kind == 2 {
                pool.set("protocol", "h2c");
            }
            *draft.top.table("pool").table(&self.pool_name(kind)) = pool;
        }
    }
}
