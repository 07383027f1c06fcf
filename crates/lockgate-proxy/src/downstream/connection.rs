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
use lockgate_net::listen::Peer;
use lockgate_net::relay::{DirectionTimes, Meter};
use lockgate_net::tls::handshake::Negotiated;
use lockgate_rules::ProxyVersion;

use super::ending::Ending;
use super::opening::ServerName;
use super::{Listener, Relaying};
use crate::access_log::{Address, Record, Side, Span};
use crate::action::relay::Introduction;
use crate::clients::{Account, Connected};
use crate::clock::Guard;
use crate::exchange::OpeningRequest;
use crate::limits::Permit;
use crate::metrics::ListenerCells;
use crate::site::Sites;
use crate::upstream::ConnectionPermit;
use crate::worker::{Worker, unix_millis};

/// A connection and what is to be said of it.
pub(super) struct Connection {
    pub(super) worker: Rc<Worker>,
    pub(super) listener: Arc<Listener>,
    place: usize,
    pub(super) guard: Guard,
    accepted: Instant,
    accepted_at: u64,
    pub(super) id: u64,
    pub(super) peer: Peer,
    /// After the PROXY header, if there was one.
    pub(super) client: Peer,
    /// The header itself, where it is to be passed on.
    header: Vec<u8>,
    /// Where the client connected to, if a PROXY header said so.
    destination: Option<SocketAddr>,
    pub(super) server_name: ServerName,
    /// The TLS session that it wants to resume, until an endpoint has been chosen by it.
    session: Option<Box<[u8]>>,
    /// Which of the listener's rules of TLS it was made by.
    pub(super) rules: usize,
    pub(super) negotiated: Option<Box<Negotiated>>,
    handshake: Option<Duration>,
    connect: Option<Duration>,
    pub(super) endpoint: Option<ConnectionPermit>,
    pub(super) spoke: bool,
    /// Requests that have their own lines in the log.
    pub(super) exchanges: Cell<u64>,
    /// The last of them, where it was the end of HTTP.
    pub(super) opening: Option<Box<OpeningRequest>>,
    _permit: Permit,
}

/// What a connection is for.
pub(super) enum Purpose<'l> {
    Relay(&'l Relaying),
    Http(&'l Sites),
}

impl Connection {
    pub(super) fn new(
        worker: &Rc<Worker>,
        listener: Arc<Listener>,
        place: usize,
        peer: Peer,
        permit: Permit,
    ) -> Self {
        let guard = worker.clock.watch();
        guard.watch().listener.set(Some(place));
        let connection = Self {
            worker: Rc::clone(worker),
            listener,
            place,
            guard,
            accepted: Instant::now(),
            accepted_at: unix_millis(),
            id: worker.next_id(),
            peer,
            client: peer,
            header: Vec::new(),
            destination: None,
            server_name: None,
            session: None,
            rules: 0,
            negotiated: None,
            handshake: None,
            connect: None,
            endpoint: None,
            spoke: false,
            exchanges: Cell::new(0),
            opening: None,
            _permit: permit,
        };
        if let Some(cells) = connection.cells() {
            cells.accepted.inc();
            cells.open.inc();
        }
        connection
    }

    /// Counts a client that broke the rules of HTTP/2.
    pub(super) fn violates(&self, reason: &str) {
        if let Some(cells) = self.cells() {
            cells.violated(reason);
        }
    }

    /// The PROXY header that tells an endpoint of the client.
    pub(super) fn introduce(
        &self,
        version: ProxyVersion,
        addresses: Option<(SocketAddr, SocketAddr)>,
    ) -> Vec<u8> {
        let introduction = Introduction {
            version,
            addresses,
            server_name: self.server_name.as_deref(),
            negotiated: self.negotiated.as_deref(),
        };
        let mut header = Vec::new();
        introduction.encode(&mut header);
        header
    }

    /// The client's address and the one it connected to.
    pub(super) fn addresses(
        &self,
        local: impl FnOnce() -> Option<SocketAddr>,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let Peer::Ip(client) = self.client else {
            return None;
        };
        let destination = self.destination.or_else(local)?;
        Some((client, destination))
    }

    /// The client's account, once the client is known.
    pub(super) fn account(&self) -> Option<&Arc<Account>> {
        self.guard.watch().account.get().map(Connected::account)
    }

    /// The account whose share of sockets a request uses that came by this version of HTTP.
    pub(super) fn share_of(&self, version: HttpVersion) -> Option<&Arc<Account>> {
        self.account().filter(|_| version >= HttpVersion::Http2)
    }

    fn cells(&self) -> Option<&ListenerCells> {
        self.worker.cells.listeners.get(self.place)
    }

    pub(super) fn finish(&self, ending: &Ending) {
        let watch = self.guard.watch();
        self.worker.account(watch);
        let (received, sent) = (watch.meter.received.get(), watch.meter.sent.get());
        let empty = !self.spoke && received == 0 && sent == 0;
        if let Some(cells) = self.cells() {
            cells.open.dec();
            cells.ended[ending.cause.index()].inc();
            if empty {
                cells.empty.inc();
            }
        }
        if let Some(cells) = watch
            .relay
            .get()
            .and_then(|place| self.worker.cells.relays.get(place))
        {
            cells.open.dec();
            cells.ended[ending.cause.index()].inc();
        }
        // A probe that connects and leaves says nothing worth a line; that we failed it does.
        if empty && ending.side == Side::Downstream {
            return;
        }
        if self.exchanges.get() > 0 && !ending.loud {
            return;
        }
        if let Some(log) = &mut *self.worker.log.borrow_mut() {
            log.write(&self.record(ending, received, sent));
        }
    }

    /// Writes the line of a tunnel that has been one of its streams: over HTTP/1 it would have been
    /// a connection.
    pub(super) fn tunnelled(
        &self,
        began: Instant,
        opening: Option<&OpeningRequest>,
        permit: &ConnectionPermit,
        meter: &Meter,
        ending: &Ending,
    ) {
        let Some(log) = &mut *self.worker.log.borrow_mut() else {
            return;
        };
        let took = began.elapsed();
        log.write(&Record {
            accepted: unix_millis().saturating_sub(took.as_millis() as u64),
            handshake: None,
            duration: took,
            spans: spans(meter, began),
            endpoint: Some(&permit.endpoint().label),
            opened: opening.map(OpeningRequest::log_fields),
            ..self.record(ending, meter.received.get(), meter.sent.get())
        });
    }

    fn record<'a>(&'a self, ending: &'a Ending, received: u64, sent: u64) -> Record<'a> {
        let negotiated = self.negotiated.as_deref();
        Record {
            id: self.id,
            accepted: self.accepted_at,
            listener: &self.listener.name,
            client: address(self.client),
            peer: address(self.peer),
            opened: self.opening.as_deref().map(OpeningRequest::log_fields),
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
                .endpoint
                .as_ref()
                .map(|permit| permit.endpoint().label.as_str()),
            cause: ending.cause,
            side: ending.side,
            detail: ending.detail.as_deref(),
        }
    }
}

/// When the directions of what was relayed were open.
fn spans(meter: &Meter, began: Instant) -> Option<[Span; 2]> {
    let since = |when: &DirectionTimes| {
        let after = |at: Instant| at.saturating_duration_since(began);
        Span {
            first: when.first.get().map(after),
            end: when.end.get().map(after),
        }
    };
    meter
        .relayed
        .get()
        .then(|| [since(&meter.received_at), since(&meter.sent_at)])
}

pub(super) fn address(peer: Peer) -> Address {
    match peer {
        Peer::Ip(address) => Address::Ip(address),
        Peer::Unix => Address::Unix,
    }
}
