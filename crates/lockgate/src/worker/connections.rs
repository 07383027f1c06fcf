//! The connections of one worker, as they are listed and closed by an operator.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use lockgate_limits::clock::{ConnectionUse, Cut, WaitReason, Watch};
use lockgate_limits::{ListenerId, SiteNumber};
use lockgate_proxy::downstream::ActiveListener;
use lockgate_proxy::worker::Worker;
use lockgate_rules::network::Cidr;

/// The connections that are meant: those that are of every kind named.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionFilter {
    /// The numbers; empty for any.
    pub(crate) ids: HashSet<u64>,
    pub(crate) client: Option<Cidr>,
    /// The name of the listener.
    pub(crate) listener: Option<String>,
    /// The site of a request, in the generation with this number.
    pub(crate) site: Option<(u64, SiteNumber)>,
    pub(crate) older_than: Duration,
}

/// A question for connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionQuery {
    pub(crate) filter: ConnectionFilter,
    /// The most rows of one worker.
    pub(crate) limit: usize,
}

/// The answer of one worker.
#[derive(Debug, Default)]
pub(crate) struct ConnectionList {
    /// The oldest of those that are meant, in any order.
    pub(crate) rows: Vec<ConnectionRow>,
    /// The number of all that are meant.
    pub(crate) total: usize,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct ConnectionRow {
    pub(crate) id: u64,
    pub(crate) listener: String,
    pub(crate) client: Option<IpAddr>,
    pub(crate) age: Duration,
    pub(crate) state: ConnectionState,
    pub(crate) protocol: Option<&'static str>,
    /// Requests that are served now.
    pub(crate) requests: usize,
    /// The site of its request, in the generation with this number.
    pub(crate) site: Option<(u64, SiteNumber)>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// The generation that it is held to.
    pub(crate) generation: Option<u64>,
    /// Whether it takes no further request.
    pub(crate) draining: bool,
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// PROXY header, ClientHello, handshake.
    Opening,
    /// It waits for a request.
    Waiting,
    Request,
    Relay,
    Tunnel,
    /// All is sent: the client is to close its side.
    Closing,
}

/// The listeners of one worker by their numbers, with those that only have connections left.
#[derive(Default)]
pub(super) struct KnownListeners(HashMap<ListenerId, Weak<ActiveListener>>);

/// The streams of an HTTP/2 connection.
#[derive(Debug, Default, Clone, Copy)]
struct Streams {
    open: usize,
    tunnels: usize,
    /// The oldest generation that one is held to.
    generation: Option<u64>,
    site: Option<(u64, SiteNumber)>,
    /// Whether one is for the site that is asked for.
    is_meant: bool,
}

type StreamsByConnection = HashMap<*const Watch, Streams>;

impl KnownListeners {
    pub(super) fn add(&mut self, listener: &Rc<ActiveListener>) {
        self.0.retain(|_, known| known.strong_count() > 0);
        self.0.insert(listener.id, Rc::downgrade(listener));
    }

    fn name(&self, id: ListenerId) -> Option<String> {
        let listener = self.0.get(&id)?.upgrade()?;
        Some(listener.snapshot().settings.name.clone())
    }

    /// Those with this name: several where some only have connections left.
    fn named(&self, name: &str) -> HashSet<ListenerId> {
        let has_name = |listener: &Weak<ActiveListener>| {
            let listener = listener.upgrade();
            listener.is_some_and(|listener| listener.snapshot().settings.name == name)
        };
        let named = self.0.iter().filter(|(_, listener)| has_name(listener));
        named.map(|(id, _)| *id).collect()
    }
}

impl ConnectionState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Waiting => "waiting",
            Self::Request => "request",
            Self::Relay => "relay",
            Self::Tunnel => "tunnel",
            Self::Closing => "closing",
        }
    }

    fn of(watch: &Watch, streams: Streams) -> Self {
        let waiting = watch.waiting();
        match watch.used_as.get() {
            _ if waiting == WaitReason::ForClose => Self::Closing,
            ConnectionUse::Opening => Self::Opening,
            ConnectionUse::Relay => Self::Relay,
            ConnectionUse::Tunnel => Self::Tunnel,
            ConnectionUse::Http2 if streams.open > 0 && streams.open == streams.tunnels => {
                Self::Tunnel
            }
            ConnectionUse::Http2 if streams.open > 0 => Self::Request,
            ConnectionUse::Http1 | ConnectionUse::Http2 => match waiting {
                WaitReason::ForRequest => Self::Waiting,
                _ => Self::Request,
            },
        }
    }
}

/// The connections of a worker that are meant, each with its streams.
fn find(
    worker: &Worker,
    listeners: &KnownListeners,
    filter: &ConnectionFilter,
) -> Vec<(Rc<Watch>, Streams)> {
    let now = worker.clock.now();
    let streams = streams(worker, filter.site);
    let named = filter.listener.as_ref().map(|name| listeners.named(name));
    let mut found = Vec::new();
    worker.clock.each_shared(|watch| {
        let Some(listener) = watch.listener.get() else {
            return;
        };
        let streams = streams.get(&Rc::as_ptr(watch));
        let streams = streams.copied().unwrap_or_default();
        if filter.means(watch, streams)
            && now - watch.opened() >= filter.older_than.into()
            && named.as_ref().is_none_or(|ids| ids.contains(&listener))
        {
            found.push((Rc::clone(watch), streams));
        }
    });
    found
}

/// The number of connections that are held to an earlier generation, by themselves or by a stream.
pub(super) fn count_earlier(worker: &Worker) -> usize {
    let number = worker.generation().rules.number;
    let is_earlier = |watch: &Watch| (1..number).contains(&watch.generation.get());
    // Each connection with such a stream, once.
    let mut with_streams = HashSet::new();
    let mut count = 0;
    worker.clock.each(|watch| match watch.stream_of.get() {
        Some(connection) if is_earlier(watch) && !is_earlier(connection) => {
            with_streams.insert(Rc::as_ptr(connection));
        }
        None if is_earlier(watch) && watch.listener.get().is_some() => count += 1,
        _ => {}
    });
    count + with_streams.len()
}

/// Lists connections of a worker.
pub(super) fn list(
    worker: &Worker,
    listeners: &KnownListeners,
    query: &ConnectionQuery,
) -> ConnectionList {
    let mut connections = find(worker, listeners, &query.filter);
    let total = connections.len();
    if query.limit < total {
        connections.select_nth_unstable_by_key(query.limit, |(watch, _)| watch.opened());
        connections.truncate(query.limit);
    }
    let now = worker.clock.now();
    let rows = connections.iter().map(|(watch, streams)| {
        let listener = watch.listener.get().and_then(|id| listeners.name(id));
        ConnectionRow {
            listener: listener.unwrap_or_default(),
            age: Duration::from_millis((now - watch.opened()).as_u64()),
            ..ConnectionRow::of(watch, *streams)
        }
    });
    ConnectionList {
        rows: rows.collect(),
        total,
    }
}

/// Closes the connections that are meant, and returns their number.
pub(super) fn close(
    worker: &Worker,
    listeners: &KnownListeners,
    filter: &ConnectionFilter,
) -> usize {
    let found = find(worker, listeners, filter);
    let closed: HashSet<_> = found.iter().map(|(watch, _)| Rc::as_ptr(watch)).collect();
    worker.clock.each_shared(|watch| {
        // Each stream tells its endpoint, and has its line in the log.
        let connection = watch.stream_of.get().unwrap_or(watch);
        if closed.contains(&Rc::as_ptr(connection)) {
            watch.cut(Cut::Closed);
        }
    });
    closed.len()
}

/// The streams of each connection; `site` is the one that is asked for.
fn streams(worker: &Worker, site: Option<(u64, SiteNumber)>) -> StreamsByConnection {
    let mut all = StreamsByConnection::new();
    worker.clock.each(|watch| {
        let Some(connection) = watch.stream_of.get() else {
            return;
        };
        let streams = all.entry(Rc::as_ptr(connection)).or_default();
        let generation = watch.generation.get();
        streams.open += 1;
        streams.tunnels += usize::from(watch.waiting() == WaitReason::ForTunnel);
        let oldest = streams.generation.unwrap_or(generation);
        streams.generation = Some(oldest.min(generation));
        let own = site_of(watch);
        streams.is_meant |= own.is_some() && own == site;
        streams.site = streams.site.or(own);
    });
    all
}

/// The site of the request of a watch, with the number of its generation.
fn site_of(watch: &Watch) -> Option<(u64, SiteNumber)> {
    let generation = watch.generation.get();
    let site = watch.site.get().filter(|_| generation > 0);
    site.map(|site| (generation, site))
}

/// The generation that a connection or one of its streams is held to.
fn held_to(watch: &Watch, streams: Streams) -> Option<u64> {
    let own = Some(watch.generation.get()).filter(|number| *number > 0);
    own.into_iter().chain(streams.generation).min()
}

impl ConnectionFilter {
    /// Whether it means this connection, by what the connection itself tells.
    fn means(&self, watch: &Watch, streams: Streams) -> bool {
        let is_in = |network: &Cidr| watch.client.get().is_some_and(|ip| network.contains(ip));
        (self.ids.is_empty() || self.ids.contains(&watch.id.get()))
            && self.client.as_ref().is_none_or(is_in)
            && (self.site.is_none() || streams.is_meant || site_of(watch) == self.site)
    }
}

impl ConnectionRow {
    fn of(watch: &Watch, streams: Streams) -> Self {
        let state = ConnectionState::of(watch, streams);
        let used_as = watch.used_as.get();
        Self {
            id: watch.id.get(),
            listener: String::new(),
            client: watch.client.get().map(|ip| ip.to_canonical()),
            age: Duration::ZERO,
            state,
            protocol: match used_as {
                ConnectionUse::Opening => None,
                ConnectionUse::Http1 | ConnectionUse::Tunnel => Some("http/1"),
                ConnectionUse::Http2 => Some("http/2"),
                ConnectionUse::Relay => Some("tcp"),
            },
            requests: match used_as {
                ConnectionUse::Http2 => streams.open,
                _ => usize::from(state == ConnectionState::Request),
            },
            site: site_of(watch).or(streams.site),
            received: watch.meter.received.get(),
            sent: watch.meter.sent.get(),
            generation: held_to(watch, streams),
            draining: watch.is_draining(),
        }
    }
}
