//! What the exchanges of one client's connection have in common: the client's address and whether
//! it is trusted, the connections to endpoints that are its own, and what is left of its rates.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarded_for;
use lockgate_http::forwarding::ForwardedClient;
use lockgate_net::listen::Peer;
use lockgate_net::millis::Millis;
use lockgate_rules::ClientAddress;
use lockgate_upstream::PrivateConnections;

use super::ListenerSnapshot;
use super::connection::ClientConnection;
use crate::generation::Generation;
use crate::shaping::{Shape, Shaped};

/// The time between two lines about clients that are not known.
const TOLD_EVERY: Millis = Millis::from_secs(60);
/// Bytes that such a line shows of what was sent.
const LONGEST_HOP: usize = 64;

/// What a connection has left of rates.
type ShapedRates = RefCell<Vec<(Arc<Shape>, Shaped)>>;

/// The state that the exchanges of one client's connection share.
#[derive(Debug)]
pub(super) struct ClientContext {
    /// The other end, or the client that a PROXY header named.
    address: ClientAddress,
    /// What endpoints are told of the client, as it was trusted at first.
    forwarded: ForwardedClient,
    /// The same where another configuration trusts it otherwise.
    forwarded_otherwise: OnceCell<Box<ForwardedClient>>,
    /// Whether it is trusted, by the configuration with the number `judged_by`.
    trusted: Cell<bool>,
    judged_by: Cell<u64>,
    /// The client's address and the one that it has connected to, once they were needed: a system
    /// call that few connections make, and so boxed.
    addresses: OnceCell<Box<Option<(SocketAddr, SocketAddr)>>>,
    /// Requests so far.
    request_count: Cell<u64>,
    /// Connections with a PROXY header that names this client.
    pub(super) private: Rc<PrivateConnections>,
    /// By the rates that it was held to so far: what it has left of them. Few are held to any.
    shaped: OnceCell<Box<ShapedRates>>,
}

impl ClientContext {
    pub(super) fn of(connection: &ClientConnection, generation: &Generation) -> Self {
        let address = ClientAddress::from(connection.client.ip());
        let trusted = is_trusted(&address, |ip| generation.trusts(ip));
        Self {
            address,
            forwarded: ForwardedClient::new(
                text_of(connection.client),
                connection.negotiated.is_some(),
                trusted,
            ),
            forwarded_otherwise: OnceCell::new(),
            trusted: Cell::new(trusted),
            judged_by: Cell::new(generation.rules.number),
            addresses: OnceCell::new(),
            request_count: Cell::new(0),
            private: Rc::default(),
            shaped: OnceCell::new(),
        }
    }

    /// Requests so far.
    pub(super) fn request_count(&self) -> u64 {
        self.request_count.get()
    }

    /// Counts one more request, and returns its number.
    pub(super) fn begin(&self) -> u64 {
        self.request_count.set(self.request_count.get() + 1);
        self.request_count.get()
    }

    /// Whether it may name other clients.
    pub(super) fn is_trusted(&self, generation: &Generation) -> bool {
        if self.judged_by.get() == generation.rules.number {
            return self.trusted.get();
        }
        let trusted = is_trusted(&self.address, |ip| generation.trusts(ip));
        self.trusted.set(trusted);
        self.judged_by.set(generation.rules.number);
        trusted
    }

    /// What endpoints are told of the client.
    pub(super) fn forwarded(&self, generation: &Generation) -> &ForwardedClient {
        let trusted = self.is_trusted(generation);
        if trusted == self.forwarded.is_trusted() {
            return &self.forwarded;
        }
        let otherwise = || Box::new(self.forwarded.with_trust(trusted));
        self.forwarded_otherwise.get_or_init(otherwise)
    }

    /// The client's address and the one that it has connected to, which `ask` finds.
    pub(super) fn addresses(
        &self,
        ask: impl FnOnce() -> Option<(SocketAddr, SocketAddr)>,
    ) -> Option<(SocketAddr, SocketAddr)> {
        **self.addresses.get_or_init(|| Box::new(ask()))
    }

    /// The address of the client of a request with these fields: where the other end is trusted,
    /// the last in X-Forwarded-For that is not.
    pub(super) fn address_of(
        &self,
        connection: &ClientConnection,
        snapshot: &ListenerSnapshot,
        fields: &Fields,
    ) -> ClientAddress {
        let (generation, sites) = (&snapshot.generation, snapshot.sites());
        // A client that asks for a tunnel writes these fields for its target: no proxy between adds
        // to them.
        if !self.is_trusted(generation) || sites.tunnels {
            return self.address;
        }
        let trusts = |ip| generation.trusts(ip);
        forwarded_address(self.address, fields, trusts).unwrap_or_else(|hop| {
            warn_of_unknown(connection, hop);
            ClientAddress::Unknown
        })
    }

    /// The rest of the connection's rates of `shape`.
    pub(super) fn with_shaped<T>(&self, shape: &Arc<Shape>, with: impl FnOnce(&Shaped) -> T) -> T {
        let mut shaped = self.shaped.get_or_init(Box::default).borrow_mut();
        let known = shaped
            .iter()
            .position(|(known, _)| Arc::ptr_eq(known, shape));
        let known = known.unwrap_or_else(|| {
            // Those of earlier configurations.
            shaped.retain(|(known, _)| Arc::strong_count(known) > 1);
            shaped.push((Arc::clone(shape), shape.connection()));
            shaped.len() - 1
        });
        with(&shaped[known].1)
    }
}

/// The client of a request from a trusted peer: the last address in X-Forwarded-For that is not
/// trusted itself.
///
/// # Errors
/// The element that is no address.
pub(super) fn forwarded_address(
    peer: ClientAddress,
    fields: &Fields,
    trusts: impl Fn(IpAddr) -> bool,
) -> Result<ClientAddress, &[u8]> {
    let mut client = peer;
    // An empty element counts: a proxy has added nothing to what its client had sent.
    let lines: Vec<&[u8]> = fields.values(Known::XForwardedFor).collect();
    let hops = lines
        .into_iter()
        .rev()
        .flat_map(|line| line.rsplit(|&byte| byte == b','));
    for hop in hops.map(<[u8]>::trim_ascii) {
        let ip = forwarded_for::address(hop).ok_or(hop)?;
        client = ClientAddress::Ip(ip);
        if !trusts(ip) {
            break;
        }
    }
    Ok(client)
}

/// Whether a client with this address may name other clients.
pub(super) fn is_trusted(address: &ClientAddress, trusts: impl Fn(IpAddr) -> bool) -> bool {
    match *address {
        ClientAddress::Ip(ip) => trusts(ip),
        // The permissions of the socket's file have let the client in.
        ClientAddress::Unix => true,
        ClientAddress::Unknown => false,
    }
}

/// Counts a request with an unknown client, and now and then names the proxy that has sent it.
fn warn_of_unknown(connection: &ClientConnection, hop: &[u8]) {
    let worker = &connection.worker;
    worker.cells.unknown_clients.inc();
    let now = worker.clock.now();
    let last = worker.unknown_client_told.get();
    if last.is_none_or(|last| now >= last + TOLD_EVERY) {
        worker.unknown_client_told.set(Some(now));
        let hop = hop.get(..LONGEST_HOP).unwrap_or(hop).escape_ascii();
        tracing::warn!(
            proxy = %text_of(connection.client), hop = %hop,
            "X-Forwarded-For of a trusted proxy names no address: the client is unknown, and `allow` and `deny` refuse it"
        );
    }
}

/// The address of a peer as text for endpoints.
fn text_of(peer: Peer) -> String {
    match peer {
        Peer::Ip(address) => address.ip().to_canonical().to_string(),
        Peer::Unix => "unknown".to_owned(),
    }
}
