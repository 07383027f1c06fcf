//! `[tcp."ADDR"]` tables: listeners, and where their bytes go.

use std::collections::HashMap;

use lockgate_rules::{AcceptProxy, HostPattern, SentHeader};

use crate::codes::Code;
use crate::host::parse_host;
use crate::keys::tcp::{self, Destination, relay};
use crate::keys::{ConfigKey, Defaulted, top};
use crate::language::KeyRow;
use crate::model::{ListenAddr, RelayDestination, RelaySelection, RelaysByHello, Tcp, Timeouts};
use crate::source::SourceSpan;
use crate::table::{CheckedTable, PlacedValue};
use crate::values::{Keyed, MapEntry, MapOf, ShortOrLong};

use super::certificates::CertNames;
use super::{Resolver, View, timeouts};

/// The kind of a listener's destination.
enum RelayVerb {
    Proxy,
    /// One of the keys in [`BY_HELLO`].
    Hello,
}

const BY_HELLO: [KeyRow; 3] = [tcp::SNI.row(), tcp::ALPN.row(), tcp::DEFAULT.row()];

impl Resolver<'_> {
    /// The listeners with upstreams that could be read; the others have been reported.
    pub(super) fn tcp(&mut self) -> Vec<Tcp> {
        let tables = self.root.value(&top::TCP).into_iter().flatten();
        tables.filter_map(|one| self.listener(one)).collect()
    }

    fn listener(&mut self, one: &Keyed<ListenAddr>) -> Option<Tcp> {
        let addr = &one.key;
        let view = View::of(&one.table);
        let by_permission = matches!(addr, ListenAddr::Unix(_));
        let accept_proxy = self.accept_proxy(&view, &tcp::ACCEPT_PROXY, by_permission);
        let way = match self.tcp_verb(&view, &one.at)? {
            RelayVerb::Proxy => {
                RelaySelection::Proxy(self.relay(&view, None, &one.at, &CertNames::none())?)
            }
            RelayVerb::Hello => RelaySelection::Hello(self.by_hello(&view)?),
        };
        Some(Tcp {
            name: one.name.clone(),
            at: one.at.clone(),
            listen: addr.clone(),
            way,
            accept_proxy,
            timeouts: self.timeouts(&view, &tcp::TIMEOUTS),
            max_lifetime: view.get(&tcp::MAX_LIFETIME),
            shape: self.shape(&view),
        })
    }

    /// The kind of the table's destination; `None` for a mistake.
    fn tcp_verb(&mut self, view: &View<'_>, at: &SourceSpan) -> Option<RelayVerb> {
        let hello = BY_HELLO
            .into_iter()
            .find_map(|key| Some((key.name, view.place_of(key)?)));
        let alike = (
            "a table relays all connections alike, or each by its ClientHello",
            "move it to `default`",
        );
        let each = (
            "each name has its own `tls`",
            "write it in the entries with TLS that Lockgate terminates",
        );
        for (alone, (why, cure)) in [(tcp::PROXY.row(), alike), (tcp::TLS.row(), each)] {
            let (Some(own), Some((name, other))) = (view.place_of(alone), hello) else {
                continue;
            };
            let message = format!("`{}` beside `{name}`", alone.name);
            let label = "the entries are here";
            self.report
                .push_pair(Code::Excluded, own, (&message, why, cure), (other, label));
            return None;
        }
        match hello {
            Some(_) => Some(RelayVerb::Hello),
            None if view.has(&tcp::PROXY) => Some(RelayVerb::Proxy),
            // What is missing may have been meant by a key that is not known.
            None if view.has_unknown_keys() => None,
            None => {
                let why = "this table has no destination for its connections";
                let cure = "add proxy = \"unix:/run/app.sock\", or sni.\"mail.example.com\" = \"10.0.0.5:443\"";
                self.report
                    .push_at(Code::MissingKey, at, "`proxy` is missing", why, cure);
                None
            }
        }
    }

    /// The relay of one `proxy` and the keys beside it, in `table` itself or in one of its entries.
    fn relay(
        &mut self,
        view: &View<'_>,
        table: Option<&View<'_>>,
        at: &SourceSpan,
        names: &CertNames<'_>,
    ) -> Option<RelayDestination> {
        let tls = self.tls(view, &relay::TLS, at, names);
        let written = view.written(&relay::PROXY)?;
        let pool = self.proxy(written, &view.section(&relay::PROXY))?;
        self.relayed(pool, tls.is_some(), written.at);
        Some(RelayDestination {
            at: at.clone(),
            tls,
            pool,
            proxy_protocol: self.sent_header(view, table, pool),
        })
    }

    /// An entry of `table` that only says where the bytes go.
    fn short_relay(
        &mut self,
        destination: &Destination,
        at: &SourceSpan,
        table: &View<'_>,
        key_at: &SourceSpan,
    ) -> Option<RelayDestination> {
        let pool = self.destination_pool(destination, at)?;
        self.relayed(pool, false, at);
        Some(RelayDestination {
            at: key_at.clone(),
            tls: None,
            pool,
            proxy_protocol: self.sent_header(&View::default(), Some(table), pool),
        })
    }

    /// The header that endpoints are sent: that of `view`, else of `table`, else of the pool.
    fn sent_header(
        &mut self,
        view: &View<'_>,
        table: Option<&View<'_>>,
        pool: usize,
    ) -> Option<SentHeader> {
        let own = view.written(&relay::PROXY_PROTOCOL);
        let own = own.or_else(|| table?.written(&tcp::PROXY_PROTOCOL));
        if let Some(written) = own {
            if *written.value == SentHeader::Pass {
                self.nothing_to_pass(table.unwrap_or(view), written.at);
            }
            return Some(*written.value);
        }
        let pool = self.pools.all.get(pool)?;
        pool.proxy_protocol.map(SentHeader::Own)
    }

    /// Reports that a header is passed on which `table` takes from no client.
    fn nothing_to_pass(&mut self, table: &View<'_>, at: &SourceSpan) {
        let none = table.get(&tcp::ACCEPT_PROXY) == AcceptProxy::Never;
        if !none || self.was_reported(Code::MissingKey, at) {
            return;
        }
        let message = "`proxy_protocol = \"pass\"` without `accept_proxy`";
        let cure = "add accept_proxy = \"require\", or write \"v2\"";
        self.report.push_at(
            Code::MissingKey,
            at,
            message,
            "the table accepts no PROXY header that could be passed on",
            cure,
        );
    }

    fn by_hello(&mut self, view: &View<'_>) -> Option<RelaysByHello> {
        let (mut alpn, mut sni, mut whole) = (Vec::new(), Vec::new(), true);
        let mut hosts: HashMap<HostPattern, &SourceSpan> = HashMap::new();
        for one in entries(view, &tcp::SNI) {
            // It has been looked at.
            let Ok(host) = parse_host(&one.name) else {
                continue;
            };
            if let Some(first) = hosts.insert(host.clone(), &one.name_at) {
                let texts = (
                    "this name has an entry already",
                    "a name has one destination",
                    "keep one of them",
                );
                self.report
                    .push_pair(Code::SameHost, &one.name_at, texts, (first, "here"));
            }
            let names = CertNames {
                hosts: vec![(host.clone(), &one.name_at)],
                ..CertNames::none()
            };
            match self.named(one, view, &names) {
                Some(relay) => sni.push((host, relay)),
                None => whole = false,
            }
        }
        for one in entries(view, &tcp::ALPN) {
            match self.named(one, view, &CertNames::none()) {
                Some(relay) => alpn.push((one.name.clone(), relay)),
                None => whole = false,
            }
        }
        let default = match view.written(&tcp::DEFAULT) {
            Some(written) => {
                let at = view.key_at(&tcp::DEFAULT).unwrap_or(written.at);
                let default = self.entry(written, view, at, &CertNames::none());
                whole &= default.is_some();
                default
            }
            None => None,
        };
        let broken = BY_HELLO
            .iter()
            .any(|key| view.place_of(*key).is_some() && view.value_at(*key).is_none());
        if whole
            && !broken
            && !self.report.has_errors()
            && sni.is_empty()
            && alpn.is_empty()
            && default.is_none()
        {
            let maps = [tcp::SNI.row(), tcp::ALPN.row()];
            let at = maps.into_iter().find_map(|key| view.value_at(key))?;
            let cure = "write sni.\"mail.example.com\" = \"10.0.0.5:443\"";
            self.report.push_at(
                Code::MissingKey,
                at,
                "no name has an entry",
                "every client would be refused",
                cure,
            );
            return None;
        }
        (whole && !broken).then_some(RelaysByHello { alpn, sni, default })
    }

    /// The relay of a name of `sni` or `alpn`.
    fn named(
        &mut self,
        one: &MapEntry<ShortOrLong<Destination>>,
        table: &View<'_>,
        names: &CertNames<'_>,
    ) -> Option<RelayDestination> {
        let written = PlacedValue {
            value: one.value.as_ref()?,
            at: &one.at,
        };
        self.entry(written, table, &one.name_at, names)
    }

    /// One entry of `table`: a table of its own, or what `proxy` would be in it.
    fn entry(
        &mut self,
        written: PlacedValue<'_, ShortOrLong<Destination>>,
        table: &View<'_>,
        key_at: &SourceSpan,
        names: &CertNames<'_>,
    ) -> Option<RelayDestination> {
        match written.value {
            ShortOrLong::Long(own) => self.relay(&View::of(own), Some(table), key_at, names),
            ShortOrLong::Short(destination) => {
                self.short_relay(destination, written.at, table, key_at)
            }
        }
    }

    /// The deadlines of a table, merged over the global ones.
    pub(super) fn timeouts(&self, view: &View<'_>, key: &ConfigKey<CheckedTable>) -> Timeouts {
        let own = view.section(key);
        if own.layers.is_empty() {
            return self.shared.timeouts;
        }
        timeouts(&own.over(self.top().section(&top::TIMEOUTS)))
    }

    /// Whether a PROXY header is expected. Clients of a Unix socket were let in by its permissions.
    pub(super) fn accept_proxy(
        &mut self,
        view: &View<'_>,
        key: &Defaulted<AcceptProxy>,
        by_permission: bool,
    ) -> AcceptProxy {
        let accept_proxy = view.get(key);
        if accept_proxy == AcceptProxy::Never {
            return accept_proxy;
        }
        if let (true, false, Some(written)) = (
            self.shared.trusted.is_empty(),
            by_permission,
            view.written(key),
        ) {
            self.no_trusted_proxy(written.at);
        }
        accept_proxy
    }

    fn no_trusted_proxy(&mut self, at: &SourceSpan) {
        // A mistake in `trusted` has been reported already.
        if self.root.is_invalid(&top::TRUSTED) {
            return;
        }
        let message = "no address is trusted to send a PROXY header";
        let why = "a header is believed only from addresses in `trusted`, which is empty";
        let cure = "write trusted = [\"10.0.0.0/8\"] at the top, with the addresses of the proxies in front";
        self.report
            .push_at(Code::NobodyTrusted, at, message, why, cure);
    }
}

/// The entries of a map.
fn entries<'a>(
    view: &View<'a>,
    key: &ConfigKey<MapOf<ShortOrLong<Destination>>>,
) -> &'a [MapEntry<ShortOrLong<Destination>>] {
    view.written(key).map_or(&[], |map| &map.value.entries)
}
