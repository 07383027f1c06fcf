//! `[tcp."ADDR"]` tables.

use crate::check::{Checked, Listening, Value};
use crate::codes::Code;
use crate::keys;
use crate::model::{
    AcceptProxy, CaSource, Cidr, Endpoint, EndpointAddr, ListenAddr, ProxyVersion, Tcp, Timeouts, Upstream,
    UpstreamTls,
};
use crate::place::At;

use super::{Resolver, View, timeouts};

impl Resolver<'_> {
    /// Every listener whose upstream could be read; the others have been reported.
    pub(super) fn tcp(&mut self, trusted: &[Cidr], global: Timeouts) -> Vec<Tcp> {
        let listening = self.listening().to_vec();
        listening.iter().filter_map(|one| self.listener(one, trusted, global)).collect()
    }

    fn listener(&mut self, one: &Listening, trusted: &[Cidr], global: Timeouts) -> Option<Tcp> {
        let keys = keys::find(keys::ROOT, "tcp").and_then(|key| key.kind.table())?;
        let view = View { keys, layers: vec![&one.table] };
        let tls = self.tls(&view, &one.at);
        let accept_proxy = self.accept_proxy(&view, &one.addr, trusted);
        let upstream = self.upstream(&view)?;
        Some(Tcp {
            name: one.name.clone(),
            at: one.at.clone(),
            listen: one.addr.clone(),
            tls,
            upstream,
            proxy_protocol: match view.value("proxy_protocol") {
                Value::Word("v1") => Some(ProxyVersion::V1),
                Value::Word("v2") => Some(ProxyVersion::V2),
                _ => None,
            },
            accept_proxy,
            timeouts: self.timeouts(&view, global),
            max_lifetime: view.limit("max_lifetime"),
        })
    }

    fn timeouts(&self, view: &View<'_>, global: Timeouts) -> Timeouts {
        let mut own = view.section("timeouts");
        if own.layers.is_empty() {
            return global;
        }
        let root = View { keys: keys::ROOT, layers: vec![self.root] };
        own.layers.extend(root.section("timeouts").layers);
        timeouts(&own)
    }

    fn accept_proxy(&mut self, view: &View<'_>, listen: &ListenAddr, trusted: &[Cidr]) -> AcceptProxy {
        let accept_proxy = match view.value("accept_proxy") {
            Value::Word("require") => AcceptProxy::Require,
            Value::Word("optional") => AcceptProxy::Optional,
            _ => return AcceptProxy::Never,
        };
        // Whoever may open a Unix socket was let in by its permissions.
        let by_permission = matches!(listen, ListenAddr::Unix(_));
        if let (true, false, Some(written)) =
            (trusted.is_empty(), by_permission, view.written("accept_proxy"))
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

    fn upstream(&mut self, view: &View<'_>) -> Option<Upstream> {
        let written = view.written("proxy")?;
        if !matches!(written.value, Value::Table(_)) {
            return Some(Upstream { endpoints: endpoints(&written)?, tls: None });
        }
        let long = view.section("proxy");
        let endpoints = endpoints(&long.written("to")?)?;
        let tls = match long.written("tls") {
            Some(written) => Some(self.upstream_tls(&long.section("tls"), &endpoints, &written.at)),
            None => None,
        };
        Some(Upstream { endpoints, tls })
    }

    fn upstream_tls(&mut self, view: &View<'_>, endpoints: &[Endpoint], at: &At) -> UpstreamTls {
        let name = view.text("name");
        let socket = endpoints.iter().find(|endpoint| matches!(endpoint.addr, EndpointAddr::Unix(_)));
        if let (None, Some(socket)) = (&name, socket) {
            let message = "there is no name to verify";
            let cure = "write tls = { name = \"app.internal\" }: the name in its certificate";
            let pair = (&socket.at, "a Unix socket has no name");
            self.report.push_pair(
                Code::NoName,
                at,
                (message, "TLS to an upstream is always verified", cure),
                pair,
            );
        }
        let ca = match view.value("ca") {
            Value::Path(path) => CaSource::File(path),
            _ => CaSource::System,
        };
        UpstreamTls { name, ca, alpn: view.texts("alpn"), at: at.clone() }
    }
}

/// One endpoint or a list; nothing when one of them was a mistake.
fn endpoints(written: &Checked) -> Option<Vec<Endpoint>> {
    match &written.value {
        Value::List(items) => items.iter().map(endpoint).collect(),
        _ => Some(vec![endpoint(written)?]),
    }
}

fn endpoint(item: &Checked) -> Option<Endpoint> {
    match &item.value {
        Value::Endpoint(addr) => Some(Endpoint { addr: addr.clone(), max: None, at: item.at.clone() }),
        Value::Table(table) => {
            let addr = table.entries.get("addr")?;
            let Value::Endpoint(found) = &addr.value else { return None };
            let max = match table.entries.get("max") {
                Some(Checked { value: Value::Integer(max), .. }) => usize::try_from(*max).ok(),
                _ => None,
            };
            Some(Endpoint { addr: found.clone(), max, at: addr.at.clone() })
        }
        _ => None,
    }
}
