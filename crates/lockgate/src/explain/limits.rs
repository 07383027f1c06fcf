//! The limits and deadlines that hold for a request or a relay, and where each is written.

use std::time::Duration;

use lockgate_config::{LoadedConfig, TunnelListener};
use lockgate_proxy::action::forward_proxy::Connect;
use lockgate_proxy::action::proxy::Proxy;
use lockgate_proxy::downstream::{ListenerService, ListenerSettings, RelaySettings};
use lockgate_proxy::site::{ListenerSites, Route};
use lockgate_rules::AcceptProxy;
use lockgate_upstream::Pool;
use serde_json::{Value, json};

use super::place::place;
use crate::check::units;

/// Limits and deadlines, in the order in which a request meets them.
pub(super) struct HeldLimits<'a> {
    loaded: &'a LoadedConfig,
    /// The headers of the tables that a key is taken from: the nearest first.
    tables: Vec<Vec<&'a str>>,
    list: Vec<Value>,
}

impl<'a> HeldLimits<'a> {
    /// None yet; the keys at the top hold everywhere.
    pub(super) fn new(loaded: &'a LoadedConfig) -> Self {
        Self {
            loaded,
            tables: vec![Vec::new()],
            list: Vec::new(),
        }
    }

    /// Takes keys from the table of this header before all others.
    pub(super) fn nearer(&mut self, header: &[&'a str]) {
        self.tables.insert(0, header.to_vec());
    }

    /// The limits as JSON.
    pub(super) fn into_json(self) -> Value {
        Value::Array(self.list)
    }

    /// Adds a limit by its key in the reference.
    fn add(&mut self, key: &str, value: impl Into<String>) {
        let mut tables = self.tables.iter();
        let at = tables.find_map(|header| self.loaded.limit_at(header, key));
        let at = at.map(place);
        self.list
            .push(json!({ "key": key, "value": value.into(), "at": at }));
    }

    fn add_time(&mut self, key: &str, time: impl Into<Option<Duration>>) {
        self.add(key, time.into().map_or_else(off, units::duration));
    }

    /// Adds a limit that is left out where there is none.
    fn add_some(&mut self, key: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }

    /// Those of a connection until it has a request or a relay.
    pub(super) fn add_connection(&mut self, listener: &ListenerSettings) {
        let limits = self.loaded.config.limits;
        let connections = limits.connections.map(|count| count.to_string());
        self.add(
            "limits.connections",
            connections.unwrap_or_else(|| "auto".to_owned()),
        );
        self.add_some(
            "limits.per_client",
            limits.per_client.map(|count| count.to_string()),
        );
        let reads_hello = matches!(listener.service, ListenerService::Sni(_));
        let opens = listener.tls.is_some() || listener.accept_proxy != AcceptProxy::Never;
        if opens || reads_hello {
            self.add_time("timeouts.handshake", listener.handshake);
        }
    }

    /// Those of every request to a listener.
    pub(super) fn add_head(&mut self, sites: &ListenerSites) {
        self.add_time("timeouts.idle", sites.idle);
        self.add_time("timeouts.head", sites.head);
        self.add("limits.head", units::size(sites.limits.head as u64));
        self.add("limits.fields", sites.limits.fields.to_string());
        let requests = Some(sites.max_requests).filter(|max| *max != u64::MAX);
        self.add_some("limits.requests", requests.map(|max| max.to_string()));
        self.add("http2.streams", sites.http2.streams.to_string());
    }

    /// The rates that a route or a tunnel is limited to, as they were written.
    pub(super) fn add_rates(&mut self, limit: Option<String>, shape: Option<String>) {
        self.add_some("limit", limit);
        self.add_some("shape", shape);
    }

    /// Those of the body of a request, and of the one of its response.
    pub(super) fn add_bodies(&mut self, route: &Route) {
        let rates = route.rules.rates;
        let rate =
            |rate: Option<u64>| rate.map_or_else(off, |rate| format!("{}/s", units::size(rate)));
        self.add(
            "body.max",
            route.rules.body_max.map_or_else(off, units::size),
        );
        let mut tables = self.tables.iter();
        let own = tables.any(|header| self.loaded.limit_at(header, "body.min_rate").is_some());
        let key = if own { "body.min_rate" } else { "rates.min_in" };
        self.add(key, rate(rates.min_in));
        self.add("rates.min_out", rate(rates.min_out));
        self.add_time("rates.grace", rates.grace);
    }

    /// Those of an exchange with an endpoint.
    pub(super) fn add_exchange(&mut self, proxy: &Proxy, pool: Option<&'a Pool>) {
        self.add_time("timeouts.connect", proxy.connect);
        self.add_time("timeouts.response", proxy.response);
        self.add_time("timeouts.tunnel_idle", proxy.tunnel_idle);
        if let Some(pool) = pool {
            self.add_queue(pool);
            let retry = pool.settings.retry;
            self.add("retry.times", retry.times.to_string());
            if retry.times > 0 {
                self.add("retry.budget", format!("{}%", retry.budget));
            }
        }
    }

    /// Those of a tunnel, or of the connection of a request that is forwarded.
    pub(super) fn add_tunnel(&mut self, connect: &Connect, written: &TunnelListener) {
        let count = |count: Option<usize>| count.map(|count| count.to_string());
        self.add_time("dns.ttl", connect.fresh);
        self.add_time("timeouts.connect", connect.connect);
        self.add_time("timeouts.tunnel_idle", connect.tunnel_limits.idle);
        self.add_some("max_per_client", count(written.max_per_client));
        self.add_some("max_per_user", count(written.max_per_user));
        let lifetime = connect.tunnel_limits.lifetime;
        self.add_some("max_lifetime", lifetime.map(units::duration));
        self.add_some("max_bytes", connect.tunnel_limits.bytes.map(units::size));
    }

    /// That of a response to a request that is forwarded.
    pub(super) fn add_response(&mut self, proxy: &Proxy) {
        self.add_time("timeouts.response", proxy.response);
    }

    /// Those of a relay. `shape` is as it was written.
    pub(super) fn add_relay(&mut self, relay: &'a RelaySettings, shape: Option<String>) {
        self.add_time("timeouts.connect", relay.connect);
        self.add_time("timeouts.tunnel_idle", relay.idle);
        let lifetime = relay.max_lifetime.map(units::duration);
        self.add_some("max_lifetime", lifetime);
        self.add_some("shape", shape);
        self.add_queue(&relay.pool);
    }

    fn add_queue(&mut self, pool: &'a Pool) {
        self.nearer(&["pool", &pool.settings.name]);
        self.add("queue.max", pool.settings.queue.max.to_string());
        self.add_time("queue.wait", pool.settings.queue.wait);
    }
}

/// The word for no limit.
fn off() -> String {
    "off".to_owned()
}
