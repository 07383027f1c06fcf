//! `[tcp."ADDR"]` tables.

use std::collections::{BTreeMap, HashMap};

use crate::check::{Checked, Id, Keyed, Named, Table, Value};
use crate::codes::Code;
use crate::keys::{self, Key};
use crate::model::{AcceptProxy, ByHello, Host, ListenAddr, Relay, SentHeader, Tcp, Timeouts, Way};
use crate::place::At;

use super::{Resolver, View, timeouts};

/// What says where the bytes of a listener go.
enum Verb {
    Proxy,
    /// One of [`BY_HELLO`].
    Hello,
}

const BY_HELLO: [&str; 3] = ["sni", "alpn", "default"];

impl Resolver<'_> {
    /// Every listener whose upstream could be read; the others have been reported.
    pub(super) fn tcp(&mut self) -> Vec<Tcp> {
        let tables = self.tables("tcp");
        tables.iter().filter_map(|one| self.listener(one)).collect()
    }

    fn listener(&mut self, one: &Keyed) -> Option<Tcp> {
        let Id::Address(addr) = &one.id else {
            return None;
        };
        let keys = keys::find(keys::ROOT, "tcp").and_then(|key| key.kind.table())?;
        let view = View {
            keys,
            layers: vec![&one.table],
        };
        let accept_proxy = self.accept_proxy(&view, matches!(addr, ListenAddr::Unix(_)));
        let way = match self.tcp_verb(&view, &one.at)? {
            Verb::Proxy => Way::Proxy(self.relay(&view, None, &one.at)?),
            Verb::Hello => Way::Hello(self.by_hello(&view)?),
        };
        Some(Tcp {
            name: one.name.clone(),
            at: one.at.clone(),
            listen: addr.clone(),
            way,
            accept_proxy,
            timeouts: self.timeouts(&view),
            max_lifetime: view.limit("max_lifetime"),
            shape: self.shape(&view),
        })
    }

    /// What says where the bytes go; nothing where that is a mistake.
    fn tcp_verb(&mut self, view: &View<'_>, at: &At) -> Option<Verb> {
        let place = |name: &str| {
            view.layers
                .iter()
                .find_map(|layer| layer.key_places.get(name).cloned())
        };
        let hello = BY_HELLO
            .into_iter()
            .find_map(|name| place(name).map(|at| (name, at)));
        for alone in ["proxy", "tls"] {
            let (Some(own), Some((name, other))) = (place(alone), &hello) else {
                continue;
            };
            let message = format!("`{alone}` beside `{name}`");
            let (why, cure) = match alone {
                "proxy" => (
                    "a table relays all connections alike, or each by its ClientHello",
                    "move it to `default`",
                ),
                _ => (
                    "each name says itself whether its TLS is taken off",
                    "write it in the entries whose TLS is taken off",
                ),
            };
            let (own, other, label) = (&own, other, "the names are here");
            self.report
                .push_pair(Code::Excluded, own, (&message, why, cure), (other, label));
            return None;
        }
        match hello {
            Some(_) => Some(Verb::Hello),
            None if view.mentions("proxy") => Some(Verb::Proxy),
            // What is missing may have been meant by a key that is not known.
            None if view.layers.iter().any(|layer| layer.strange.any) => None,
            None => {
                let why = "this table says nowhere where the bytes go";
                let cure = "add proxy = \"unix:/run/app.sock\", or sni.\"mail.example.com\" = \"10.0.0.5:443\"";
                self.report
                    .push_at(Code::MissingKey, at, "`proxy` is missing", why, cure);
                None
            }
        }
    }

    /// What one `proxy` and the keys beside it mean, in a table of its own or in an entry of
    /// `table`.
    fn relay(&mut self, view: &View<'_>, table: Option<&View<'_>>, at: &At) -> Option<Relay> {
        let tls = self.tls(view, at);
        let pool = self.proxy(view)?;
        if let Some(written) = view.written("proxy") {
            self.relayed(pool, tls.is_some(), &written.at);
        }
        let own = |view: &View<'_>| match view.value("proxy_protocol") {
            Value::Word("pass") => Some(SentHeader::Pass),
            _ => view.proxy_version("proxy_protocol").map(SentHeader::Own),
        };
        let said = |view: &View<'_>| Some((own(view)?, view.written("proxy_protocol")?.at));
        let header = said(view).or_else(|| table.and_then(said));
        if let Some((SentHeader::Pass, at)) = &header {
            self.nothing_to_pass(table.unwrap_or(view), at);
        }
        let of_pool = self
            .pools
            .all
            .get(pool)
            .and_then(|pool| pool.proxy_protocol);
        let proxy_protocol = header
            .map(|(header, _)| header)
            .or(of_pool.map(SentHeader::Own));
        Some(Relay {
            at: at.clone(),
            tls,
            pool,
            proxy_protocol,
        })
    }

    /// A header is passed on that `table` takes from nobody.
    fn nothing_to_pass(&mut self, table: &View<'_>, at: &At) {
        let none = matches!(table.value("accept_proxy"), Value::Bool(false));
        if !none || self.warned(Code::MissingKey, at) {
            return;
        }
        let message = "`proxy_protocol = \"pass\"` without `accept_proxy`";
        let cure = "add accept_proxy = \"require\", or write \"v2\"";
        self.report.push_at(
            Code::MissingKey,
            at,
            message,
            "no header comes that could be passed on",
            cure,
        );
    }

    fn by_hello(&mut self, view: &View<'_>) -> Option<ByHello> {
        let keys = view.section("default").keys;
        let (mut alpn, mut sni, mut whole) = (Vec::new(), Vec::new(), true);
        let mut hosts: HashMap<Host, At> = HashMap::new();
        for one in entries(view, "sni") {
            // It has been looked at.
            let Ok(host) = Host::parse(&one.name) else {
                continue;
            };
            if let Some(first) = hosts.insert(host.clone(), one.at.clone()) {
                let texts = (
                    "this name has an entry already",
                    "it would lead two ways",
                    "keep one of them",
                );
                self.report
                    .push_pair(Code::SameHost, &one.at, texts, (&first, "here"));
            }
            match self.entry(&one.value, keys, view, &one.at) {
                Some(relay) => sni.push((host, relay)),
                None => whole = false,
            }
        }
        for one in entries(view, "alpn") {
            match self.entry(&one.value, keys, view, &one.at) {
                Some(relay) => alpn.push((one.name, relay)),
                None => whole = false,
            }
        }
        let default = match view.written("default") {
            Some(written) => {
                let at = view
                    .layers
                    .iter()
                    .find_map(|layer| layer.key_places.get("default").cloned());
                let default = self.entry(&written, keys, view, &at.unwrap_or(written.at.clone()));
                whole &= default.is_some();
                default
            }
            None => None,
        };
        let broken = BY_HELLO
            .iter()
            .any(|name| view.mentions(name) && view.written(name).is_none());
        if whole
            && !broken
            && !self.report.has_errors()
            && sni.is_empty()
            && alpn.is_empty()
            && default.is_none()
        {
            let at = view.written("sni").or_else(|| view.written("alpn"))?.at;
            let cure = "write sni.\"mail.example.com\" = \"10.0.0.5:443\"";
            self.report.push_at(
                Code::MissingKey,
                &at,
                "no name has an entry",
                "every client would be refused",
                cure,
            );
            return None;
        }
        (whole && !broken).then_some(ByHello { alpn, sni, default })
    }

    /// One entry of `view`: a table of `keys`, or what `proxy` would be in it.
    fn entry(
        &mut self,
        written: &Checked,
        keys: &'static [Key],
        view: &View<'_>,
        at: &At,
    ) -> Option<Relay> {
        if let Value::Table(table) = &written.value {
            return self.relay(
                &View {
                    keys,
                    layers: vec![table],
                },
                Some(view),
                at,
            );
        }
        let entries = BTreeMap::from([("proxy", written.clone())]);
        let table = Table {
            entries,
            ..Table::default()
        };
        self.relay(
            &View {
                keys,
                layers: vec![&table],
            },
            Some(view),
            at,
        )
    }

    /// The deadlines of a table, merged over the global ones.
    pub(super) fn timeouts(&self, view: &View<'_>) -> Timeouts {
        let own = view.section("timeouts");
        if own.layers.is_empty() {
            return self.shared.timeouts;
        }
        let global = View {
            keys: keys::ROOT,
            layers: vec![self.root],
        }
        .section("timeouts");
        timeouts(&View {
            keys: global.keys,
            layers: [own.layers, global.layers].concat(),
        })
    }

    /// Whether a PROXY header is expected. Whoever may open a Unix socket was let in by its
    /// permissions.
    pub(super) fn accept_proxy(&mut self, view: &View<'_>, by_permission: bool) -> AcceptProxy {
        let accept_proxy = match view.value("accept_proxy") {
            Value::Word("require") => AcceptProxy::Require,
            Value::Word("optional") => AcceptProxy::Optional,
            _ => return AcceptProxy::Never,
        };
        if let (true, false, Some(written)) = (
            self.shared.trusted.is_empty(),
            by_permission,
            view.written("accept_proxy"),
        ) {
            self.nobody_trusted(&written.at);
        }
        accept_proxy
    }

    fn nobody_trusted(&mut self, at: &At) {
        // A mistake in `trusted` has been reported already.
        if matches!(
            self.root.entries.get("trusted"),
            Some(Checked {
                value: Value::Invalid,
                ..
            })
        ) {
            return;
        }
        let message = "nobody is trusted to send a PROXY header";
        let why = "a header is believed only from addresses in `trusted`, which is empty";
        let cure = "write trusted = [\"10.0.0.0/8\"] at the top, with the addresses of the proxies in front";
        self.report
            .push_at(Code::NobodyTrusted, at, message, why, cure);
    }
}

/// What stands by names that the user has chosen.
fn entries(view: &View<'_>, name: &str) -> Vec<Named> {
    match view.written(name) {
        Some(Checked {
            value: Value::Map(entries),
            ..
        }) => entries,
        _ => Vec::new(),
    }
}
