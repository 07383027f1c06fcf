//! `[tcp."ADDR"]` tables.

use crate::check::{Checked, Id, Keyed, Value};
use crate::codes::Code;
use crate::keys;
use crate::model::{AcceptProxy, ListenAddr, Tcp, Timeouts};
use crate::place::At;

use super::{Resolver, View, timeouts};

impl Resolver<'_> {
    /// Every listener whose upstream could be read; the others have been reported.
    pub(super) fn tcp(&mut self) -> Vec<Tcp> {
        let tables = self.tables("tcp");
        tables.iter().filter_map(|one| self.listener(one)).collect()
    }

    fn listener(&mut self, one: &Keyed) -> Option<Tcp> {
        let Id::Address(addr) = &one.id else { return None };
        let keys = keys::find(keys::ROOT, "tcp").and_then(|key| key.kind.table())?;
        let view = View { keys, layers: vec![&one.table] };
        let tls = self.tls(&view, &one.at);
        let accept_proxy = self.accept_proxy(&view, matches!(addr, ListenAddr::Unix(_)));
        let pool = self.proxy(&view)?;
        if let Some(written) = view.written("proxy") {
            self.relayed(pool, &written.at);
        }
        let of_pool = self.pools.all.get(pool).and_then(|pool| pool.proxy_protocol);
        Some(Tcp {
            name: one.name.clone(),
            at: one.at.clone(),
            listen: addr.clone(),
            tls,
            pool,
            proxy_protocol: view.proxy_version("proxy_protocol").or(of_pool),
            accept_proxy,
            timeouts: self.timeouts(&view),
            max_lifetime: view.limit("max_lifetime"),
            shape: self.shape(&view),
        })
    }

    /// The deadlines of a table, merged over the global ones.
    pub(super) fn timeouts(&self, view: &View<'_>) -> Timeouts {
        let own = view.section("timeouts");
        if own.layers.is_empty() {
            return self.shared.timeouts;
        }
        let global = View { keys: keys::ROOT, layers: vec![self.root] }.section("timeouts");
        timeouts(&View { keys: global.keys, layers: [own.layers, global.layers].concat() })
    }

    /// Whether a PROXY header is expected. Whoever may open a Unix socket was let in by its permissions.
    pub(super) fn accept_proxy(&mut self, view: &View<'_>, by_permission: bool) -> AcceptProxy {
        let accept_proxy = match view.value("accept_proxy") {
            Value::Word("require") => AcceptProxy::Require,
            Value::Word("optional") => AcceptProxy::Optional,
            _ => return AcceptProxy::Never,
        };
        if let (true, false, Some(written)) =
            (self.shared.trusted.is_empty(), by_permission, view.written("accept_proxy"))
        {
            self.nobody_trusted(&written.at);
        }
        accept_proxy
    }

    fn nobody_trusted(&mut self, at: &At) {
        // A mistake in `trusted` has been reported already.
        if matches!(self.root.entries.get("trusted"), Some(Checked { value: Value::Invalid, .. })) {
            return;
        }
        let message = "nobody is trusted to send a PROXY header";
        let why = "a header is believed only from addresses in `trusted`, which is empty";
        let cure = "write trusted = [\"10.0.0.0/8\"] at the top, with the addresses of the proxies in front";
        self.report.push_at(Code::NobodyTrusted, at, message, why, cure);
    }
}
