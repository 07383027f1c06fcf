//! One client's connection, from its acceptance to its line in the log.

mod maintenance;
mod open;
mod relay;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_http::head::HttpVersion;
use lockgate_limits::clients::{ClientAccount, CountedConnection};
use lockgate_limits::clock::Guard;
use lockgate_limits::{PerClientPermit, Permit};
use lockgate_net::listen::Peer;
use lockgate_net::relay::{DirectionTimes, Meter};
use lockgate_net::tls::handshake::Negotiated;
use lockgate_net::tls::{Acceptor, AcceptorIndex};
use lockgate_rules::ProxyVersion;
use lockgate_upstream::EndpointPermit;

use super::first_bytes::ServerName;
use super::termination::Termination;
use super::{ActiveListener, ListenerSnapshot, RelaySettings};
use crate::access_log::{
    CauseSide, ConnectionEntry, DirectionSpan, LoggedAddress, is_error_of_ours,
};
use crate::action::relay::ClientProxyHeader;
use crate::exchange::TunnelRequest;
use crate::metrics::relay::RelayCells;
use crate::metrics::{ListenerCells, SharedCells};
use crate::site::ListenerSites;
use crate::worker::{Worker, unix_millis};

/// One client's connection, and all that its log entry tells.
pub(super) struct ClientConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) listener: Rc<ActiveListener>,
    pub(super) guard: Guard,
    accepted: Instant,
    accepted_at: u64,
    pub(super) id: u64,
    pub(super) peer: Peer,
    /// After the PROXY header, if there was one.
    pub(super) client: Peer,
    /// The PROXY header, if it has told something.
    received_proxy_header: Option<Box<ReceivedProxyHeader>>,
    pub(super) server_name: ServerName,
    /// The TLS session that it wants to resume, until an endpoint has been chosen by it.
    session: Option<Box<[u8]>>,
    /// The acceptor that it was made by.
    acceptor: Option<Box<UsedAcceptor>>,
    pub(super) negotiated: Option<Box<Negotiated>>,
    handshake: Option<Duration>,
    connect: Option<Duration>,
    /// Its permit at the endpoint, as a relay or a tunnel.
    pub(super) endpoint_permit: Option<EndpointPermit>,
    /// The counters of its relay, if it is one.
    relay: Option<SharedCells<RelayCells>>,
    pub(super) spoke: bool,
    /// Requests that have their own lines in the log.
    pub(super) exchanges: Cell<u64>,
    /// The last of them, where it was the end of HTTP.
    pub(super) tunnel_request: Option<Box<TunnelRequest>>,
    _permit: Permit,
    /// Its permit under the limit of its client, where that is limited.
    client_permit: Option<Box<PerClientPermit>>,
}

/// The PROXY header of a connection.
struct ReceivedProxyHeader {
    /// As it was received, where it is to be passed on.
    bytes: Vec<u8>,
    /// The address that the client connected to, if it named that.
    destination: Option<SocketAddr>,
}

/// The acceptor that a connection was made by.
struct UsedAcceptor {
    acceptor: Arc<Acceptor>,
    /// Its index in its configuration, which has this number.
    index: AcceptorIndex,
    generation: u64,
    /// The last answer for a later configuration: its number, an index there, and whether the
    /// acceptor with that index has the same rules.
    later: Cell<(u64, AcceptorIndex, bool)>,
}

/// The purpose of a connection.
pub(super) enum ConnectionPurpose<'l> {
    Relay(&'l RelaySettings),
    Http(&'l ListenerSites),
}

impl ClientConnection {
    pub(super) fn new(
        worker: &Rc<Worker>,
        listener: Rc<ActiveListener>,
        peer: Peer,
        permit: Permit,
    ) -> Self {
        let guard = worker.clock.watch();
        let watch = guard.watch();
        let id = worker.next_id();
        watch.id.set(id);
        watch.listener.set(Some(listener.id));
        // It is set once.
        let _ = watch.listener_traffic.set(Arc::clone(&listener.cells) as _);
        if worker.is_stopping() || listener.is_draining() {
            worker.drain_one(watch);
        }
        let connection = Self {
            worker: Rc::clone(worker),
            listener,
            guard,
            accepted: Instant::now(),
            accepted_at: unix_millis(),
            id,
            peer,
            client: peer,
            received_proxy_header: None,
            server_name: None,
            session: None,
            acceptor: None,
            negotiated: None,
            handshake: None,
            connect: None,
            endpoint_permit: None,
            relay: None,
            spoke: false,
            exchanges: Cell::new(0),
            tunnel_request: None,
            _permit: permit,
            client_permit: None,
        };
        let cells = connection.cells();
        cells.accepted.inc();
        worker.cells.accepted.inc();
        cells.open.inc();
        connection
    }

    /// Counts a client that broke the rules of HTTP/2.
    pub(super) fn count_violation(&self, reason: &str) {
        self.cells().violated(reason);
    }

    /// Notes that it was made by `acceptor`, with this index in the configuration of `snapshot`.
    fn set_acceptor(
        &mut self,
        snapshot: &ListenerSnapshot,
        index: AcceptorIndex,
        acceptor: Arc<Acceptor>,
    ) {
        let generation = snapshot.generation.rules.number;
        self.acceptor = Some(Box::new(UsedAcceptor {
            acceptor,
            index,
            generation,
            later: Cell::new((generation, index, true)),
        }));
    }

    /// Whether it was made by the acceptor of an earlier configuration than that of `snapshot`.
    pub(super) fn is_of_earlier(&self, snapshot: &ListenerSnapshot) -> bool {
        let used = self.acceptor.as_ref();
        used.is_some_and(|used| used.generation != snapshot.generation.rules.number)
    }

    /// The index of the acceptor that it was made by, if it has TLS.
    pub(super) fn acceptor_index(&self) -> Option<AcceptorIndex> {
        self.acceptor.as_ref().map(|used| used.index)
    }

    /// Whether its handshake has given what the acceptor with this index asks for.
    pub(super) fn is_made_by(&self, snapshot: &ListenerSnapshot, index: AcceptorIndex) -> bool {
        let Some(used) = &self.acceptor else {
            return false;
        };
        let number = snapshot.generation.rules.number;
        if number == used.generation {
            return index == used.index;
        }
        let (known, other, is_same) = used.later.get();
        if (known, other) == (number, index) {
            return is_same;
        }
        let acceptors = snapshot.settings.tls_of_sites();
        let is_same = acceptors.is_some_and(|all| all.has_rules_of(index, &used.acceptor));
        used.later.set((number, index, is_same));
        is_same
    }

    /// The PROXY header that tells an endpoint of the client.
    pub(super) fn proxy_header(
        &self,
        version: ProxyVersion,
        addresses: Option<(SocketAddr, SocketAddr)>,
    ) -> Vec<u8> {
        let contents = ClientProxyHeader {
            version,
            addresses,
            server_name: self.server_name.as_deref(),
            negotiated: self.negotiated.as_deref(),
        };
        let mut proxy_header = Vec::new();
        contents.encode(&mut proxy_header);
        proxy_header
    }

    /// The client's address and the one it connected to.
    pub(super) fn addresses(
        &self,
        local: impl FnOnce() -> Option<SocketAddr>,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let Peer::Ip(client) = self.client else {
            return None;
        };
        let named = self.received_proxy_header.as_ref();
        let destination = named.and_then(|header| header.destination).or_else(local)?;
        Some((client, destination))
    }

    /// The client's account, once the client is known.
    pub(super) fn account(&self) -> Option<&Arc<ClientAccount>> {
        self.guard
            .watch()
            .account
            .get()
            .map(CountedConnection::account)
    }

    /// The account that is charged with the socket of a request by this version of HTTP.
    pub(super) fn socket_account(&self, version: HttpVersion) -> Option<&Arc<ClientAccount>> {
        self.account().filter(|_| version >= HttpVersion::Http2)
    }

    fn cells(&self) -> &ListenerCells {
        &self.listener.cells
    }

    pub(super) fn finish(&self, termination: &Termination) {
        let watch = self.guard.watch();
        self.worker.count_traffic(watch);
        let (received, sent) = (watch.meter.received.get(), watch.meter.sent.get());
        let empty = !self.spoke && received == 0 && sent == 0;
        let cells = self.cells();
        cells.open.dec();
        cells.ended[termination.cause.index()].inc();
        if empty {
            cells.empty.inc();
        }
        if let Some(cells) = &self.relay {
            cells.open.dec();
            cells.ended[termination.cause.index()].inc();
        }
        // A probe that connects and leaves is not worth a line; one that we have failed is.
        if empty && termination.side == CauseSide::Downstream {
            return;
        }
        if self.exchanges.get() > 0 && !termination.is_always_logged {
            return;
        }
        let snapshot = self.listener.snapshot();
        let generation = &snapshot.generation;
        let is_error = is_error_of_ours(termination.cause, termination.side);
        if let Some(sinks) = self.line_sinks(generation.log.as_ref(), generation, is_error) {
            sinks.write(&self.log_entry(&snapshot, termination, received, sent));
        }
    }

    /// Writes the line of a tunnel that has been one of its streams: over HTTP/1 it would have been
    /// a connection.
    pub(super) fn log_tunnel(
        &self,
        began: Instant,
        tunnel_request: Option<&TunnelRequest>,
        permit: &EndpointPermit,
        meter: &Meter,
        termination: &Termination,
    ) {
        let snapshot = self.listener.snapshot();
        let generation = &snapshot.generation;
        let is_error = is_error_of_ours(termination.cause, termination.side);
        let Some(sinks) = self.line_sinks(generation.log.as_ref(), generation, is_error) else {
            return;
        };
        let took = began.elapsed();
        sinks.write(&ConnectionEntry {
            accepted: unix_millis().saturating_sub(took.as_millis() as u64),
            handshake: None,
            duration: took,
            spans: spans(meter, began),
            endpoint: Some(&permit.endpoint().label),
            tunnel: tunnel_request.map(TunnelRequest::log_fields),
            ..self.log_entry(
                &snapshot,
                termination,
                meter.received.get(),
                meter.sent.get(),
            )
        });
    }

    fn log_entry<'a>(
        &'a self,
        snapshot: &'a ListenerSnapshot,
        termination: &'a Termination,
        received: u64,
        sent: u64,
    ) -> ConnectionEntry<'a> {
        let negotiated = self.negotiated.as_deref();
        ConnectionEntry {
            id: self.id,
            accepted: self.accepted_at,
            listener: &snapshot.settings.name,
            client: address(self.client),
            peer: address(self.peer),
            tunnel: self
                .tunnel_request
                .as_deref()
                .map(TunnelRequest::log_fields),
            sni: self.server_name.as_deref(),
            alpn: negotiated
                .and_then(|agreed| agreed.alpn.as_deref())
                .and_then(|alpn| std::str::from_utf8(alpn).ok()),
            tls_version: negotiated.map(|agreed| agreed.version),
            cipher: negotiated.map(|agreed| agreed.cipher),
            resumed: negotiated.map(|agreed| agreed.resumed),
            client_cn: negotiated.and_then(|agreed| agreed.peer_name.as_deref()),
            received,
            sent,
            spans: spans(&self.guard.watch().meter, self.accepted),
            handshake: self.handshake,
            connect: self.connect,
            duration: self.accepted.elapsed(),
            endpoint: self
                .endpoint_permit
                .as_ref()
                .map(|permit| permit.endpoint().label.as_str()),
            cause: termination.cause,
            side: termination.side,
            detail: termination.detail.as_deref(),
        }
    }
}

/// When the directions of what was relayed were open.
fn spans(meter: &Meter, began: Instant) -> Option<[DirectionSpan; 2]> {
    let since = |when: &DirectionTimes| {
        let after = |at: Instant| at.saturating_duration_since(began);
        DirectionSpan {
            first: when.first.get().map(after),
            end: when.end.get().map(after),
        }
    };
    meter
        .relayed
        .get()
        .then(|| [since(&meter.received_at), since(&meter.sent_at)])
}

pub(super) fn address(peer: Peer) -> LoggedAddress {
    match peer {
        Peer::Ip(address) => LoggedAddress::Ip(address),
        Peer::Unix => LoggedAddress::Unix,
    }
}
