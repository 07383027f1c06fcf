//! One client's connection, from its acceptance to its line in the log.

mod maintenance;
mod open;
mod relay;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_http::head::Version;
use lockgate_net::listen::Peer;
use lockgate_net::relay::{End, Meter, Times, Which};
use lockgate_net::socket::Socket;
use lockgate_net::stream::StreamError;
use lockgate_net::tls::handshake::Negotiated;
use lockgate_net::tls::session::SessionError;

use super::http::Served;
use super::http2::Streams;
use super::opening::{self, OpeningError, ServerName};
use super::{Listener, Relaying};
use crate::access_log::{Address, Cause, Record, Side, Span};
use crate::action::relay::Client;
use crate::boxed::boxed;
use crate::clients::{Account, Connected};
use crate::clock::{Cut, Guard, Waiting};
use crate::exchange::{Failure, Opener};
use crate::limits::{self, Permit};
use crate::memory::weighed;
use crate::metrics::ListenerCells;
use crate::site::Sites;
use crate::upstream::Hold;
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
    pub(super) endpoint: Option<Hold>,
    pub(super) spoke: bool,
    /// Requests that have their own lines in the log.
    pub(super) exchanges: Cell<u64>,
    /// The last of them, where it was the end of HTTP.
    pub(super) opener: Option<Box<Opener>>,
    _permit: Permit,
}

/// What came of a connection's opening.
enum Opened {
    /// It is over.
    Over(Ending),
    /// It goes on as HTTP/2, with its place among those of its client.
    Http2(Client, Option<limits::Place>),
}

/// What a connection is for.
enum Purpose<'l> {
    Relay(&'l Relaying),
    Http(&'l Sites),
}

/// How a connection ended.
pub(super) struct Ending {
    pub(super) cause: Cause,
    side: Side,
    detail: Option<String>,
    /// Whether it is said even of a connection whose requests have their own lines.
    loud: bool,
}

impl Ending {
    pub(super) fn new(cause: Cause, side: Side) -> Self {
        Self {
            cause,
            side,
            detail: None,
            loud: false,
        }
    }

    pub(super) fn because(cause: Cause, side: Side, detail: impl ToString) -> Self {
        Self {
            cause,
            side,
            detail: Some(detail.to_string()),
            loud: false,
        }
    }

    pub(super) fn loud(self) -> Self {
        Self { loud: true, ..self }
    }

    pub(super) fn of(failure: Failure) -> Self {
        Self::because(failure.cause, failure.side, failure.detail)
    }
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
            opener: None,
            _permit: permit,
        };
        if let Some(cells) = connection.cells() {
            cells.accepted.inc();
            cells.open.inc();
        }
        connection
    }

    /// Does everything there is to do with it.
    pub(super) async fn serve(mut self, socket: Socket) {
        // Boxed: what it takes is given back before HTTP/2's long life begins.
        let watch = self.guard.shared();
        match weighed(Rc::clone(&watch), boxed(|| self.run(socket))).await {
            Opened::Over(ending) => self.finish(&ending),
            Opened::Http2(client, _place) => {
                let (streams, ending) =
                    weighed(watch, boxed(|| Streams::serve(self, client))).await;
                streams.connection().finish(&ending);
            }
        }
    }

    async fn run(&mut self, socket: Socket) -> Opened {
        let listener = Arc::clone(&self.listener);
        self.guard.phase(self.listener.handshake);
        // Boxed: what opening takes is given back before the connection's long life begins.
        let (mut client, place, purpose) = match boxed(|| self.open(socket, &listener)).await {
            Ok(opened) => opened,
            Err(ending) => return Opened::Over(ending),
        };
        let ending = match purpose {
            Purpose::Http(sites) => {
                match boxed(|| self.is_http2(&mut client, sites)).await {
                    Ok(true) => return Opened::Http2(client, place),
                    Ok(false) => {}
                    Err(ending) => return Opened::Over(ending),
                }
                // Given back before what may be a long life as a relay.
                let served = boxed(|| self.http(client, sites)).await;
                match served {
                    Served::Over(ending) => ending,
                    Served::Switched {
                        mut relay,
                        bounds,
                        site,
                        _in_flight,
                        _shares,
                    } => {
                        let worker = Rc::clone(&self.worker);
                        let cells = worker.cells.http.site(site);
                        self.guard.watch().waits(Waiting::Otherwise);
                        cells.upgraded.inc();
                        bounds.begin(&self.guard);
                        let ending = self.relay(&mut relay, bounds.idle, bounds.keepalive).await;
                        cells.upgraded.dec();
                        ending
                    }
                }
            }
            Purpose::Relay(relaying) => match boxed(|| self.join(client, relaying)).await {
                Ok(mut relay) => {
                    self.shape(&mut relay, relaying.shape.as_ref());
                    self.relay(&mut relay, relaying.idle, relaying.keepalive)
                        .await
                }
                Err(ending) => ending,
            },
        };
        Opened::Over(ending)
    }

    /// Whether a client that has opened speaks HTTP/2: ALPN says so, and without TLS what it says
    /// first.
    async fn is_http2(&mut self, client: &mut Client, sites: &Sites) -> Result<bool, Ending> {
        if let Some(negotiated) = &self.negotiated {
            return Ok(negotiated.alpn.as_deref() == Some(b"h2") || !sites.http1);
        }
        if !sites.h2c || !sites.http1 {
            return Ok(sites.h2c);
        }
        self.guard.phase(sites.idle);
        self.guard.watch().waits(Waiting::ForRequest);
        let guard = &self.guard;
        let begins = || {
            guard.phase(sites.head);
            guard.watch().waits(Waiting::ForOpening);
        };
        let known = opening::prior_knowledge(&client.socket, &mut client.received, begins);
        let known = guard.within(known).await;
        guard.watch().waits(Waiting::Otherwise);
        self.spoke |= !client.received.is_empty();
        match known {
            Ok(Ok(known)) => Ok(known),
            Ok(Err(OpeningError::Closed)) => {
                Err(Ending::new(Cause::ClientClosed, Side::Downstream))
            }
            Ok(Err(error)) => Err(Ending::because(Cause::ClientReset, Side::Downstream, error)),
            Err(Cut::Deadline) if client.received.is_empty() => {
                Err(Ending::new(Cause::Idle, Side::Lockgate))
            }
            Err(cut) => Err(cut_short(cut, "first request")),
        }
    }

    /// Counts a client that broke the rules of HTTP/2.
    pub(super) fn violates(&self, reason: &str) {
        if let Some(cells) = self.cells() {
            cells.violated(reason);
        }
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
    pub(super) fn share_of(&self, version: Version) -> Option<&Arc<Account>> {
        self.account().filter(|_| version >= Version::Http2)
    }

    fn cells(&self) -> Option<&ListenerCells> {
        self.worker.cells.listeners.get(self.place)
    }

    fn finish(&self, ending: &Ending) {
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
        opener: Option<&Opener>,
        hold: &Hold,
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
            endpoint: Some(&hold.endpoint().label),
            opened: opener.map(Opener::told),
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
            opened: self.opener.as_deref().map(Opener::told),
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
                .map(|hold| hold.endpoint().label.as_str()),
            cause: ending.cause,
            side: ending.side,
            detail: ending.detail.as_deref(),
        }
    }
}

/// When the directions of what was relayed were open.
fn spans(meter: &Meter, began: Instant) -> Option<[Span; 2]> {
    let since = |when: &Times| {
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

/// What a cut means for the log; `phase` is what it interrupted.
pub(super) fn cut_short(cut: Cut, phase: &str) -> Ending {
    match cut {
        Cut::Deadline | Cut::Slow => Ending::because(Cause::TooSlow, Side::Downstream, phase),
        Cut::EndpointDown => Ending::because(Cause::TooSlow, Side::Upstream, phase),
        Cut::Idle => Ending::new(Cause::Idle, Side::Lockgate),
        Cut::Lifetime => Ending::new(Cause::Lifetime, Side::Lockgate),
        Cut::Spent => Ending::because(Cause::Limit, Side::Lockgate, "bytes"),
        Cut::Drain => Ending::because(Cause::Drain, Side::Lockgate, phase),
        Cut::Memory => Ending::because(Cause::Limit, Side::Lockgate, "memory"),
        Cut::Crowded => Ending::because(
            Cause::Limit,
            Side::Lockgate,
            "idle, and its place was wanted",
        ),
    }
}

pub(super) fn ending(end: End) -> Ending {
    match end {
        End::Finished(Which::Downstream) => Ending::new(Cause::ClientClosed, Side::Downstream),
        End::Finished(Which::Upstream) => Ending::new(Cause::UpstreamClosed, Side::Upstream),
        End::Failed(Which::Downstream, StreamError::Tls(SessionError::Alerted(alert))) => {
            Ending::because(
                Cause::ClientClosed,
                Side::Downstream,
                format_args!("alert {alert}"),
            )
        }
        End::Failed(Which::Downstream, error) => {
            Ending::because(Cause::ClientReset, Side::Downstream, error)
        }
        End::Failed(Which::Upstream, error) => {
            Ending::because(Cause::UpstreamReset, Side::Upstream, error)
        }
    }
}
