//! One client's connection, from its acceptance to its line in the log.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::listen::{self, Peer};
use lockgate_net::relay::{End, Meter, Which};
use lockgate_net::socket::Socket;
use lockgate_net::stream::StreamError;
use lockgate_net::tls::Acceptors;
use lockgate_net::tls::handshake::{self, HandshakeError, Negotiated};
use lockgate_net::tls::session::{Session, SessionError};

use super::http::Served;
use super::http2::Streams;
use super::opening::{self, AcceptProxy, OpeningError, ServerName};
use super::{Listener, Relaying, Service};
use crate::access_log::{Address, Cause, Record, Side};
use crate::action::relay::{Client, Introduction, JoinError, join};
use crate::boxed::boxed;
use crate::clock::{Cut, Guard, Waiting};
use crate::exchange::{Failure, Opener};
use crate::limits::{self, Permit};
use crate::metrics::ListenerCells;
use crate::shaping::Shape;
use crate::site::Sites;
use crate::upstream::{Asker, DialError, Hold};
use crate::worker::{Worker, unix_millis};

/// How long session tickets wait for an answer to share a packet with.
const MOMENT: Duration = Duration::from_millis(100);
/// How long a connection lives before it is worth the system calls that only long-lived ones need.
const YOUTH: Duration = Duration::from_secs(5);
/// For a client that is told something before the close to read it: a reset could overtake it.
const FAREWELL: Duration = Duration::from_secs(2);
/// What such a client may send meanwhile.
const FAREWELL_READS: usize = 16;

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
    /// Where the client connected to, if a PROXY header said so.
    destination: Option<SocketAddr>,
    pub(super) server_name: ServerName,
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

/// How a connection ended.
pub(super) struct Ending {
    cause: Cause,
    side: Side,
    detail: Option<String>,
    /// Whether it is said even of a connection whose requests have their own lines.
    loud: bool,
}

impl Ending {
    pub(super) fn new(cause: Cause, side: Side) -> Self {
        Self { cause, side, detail: None, loud: false }
    }

    pub(super) fn because(cause: Cause, side: Side, detail: impl ToString) -> Self {
        Self { cause, side, detail: Some(detail.to_string()), loud: false }
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
        guard.watch().listener.set(place);
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
            destination: None,
            server_name: None,
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
        match boxed(|| self.run(socket)).await {
            Opened::Over(ending) => self.finish(&ending),
            Opened::Http2(client, _place) => {
                let (streams, ending) = boxed(|| Streams::serve(self, client)).await;
                streams.connection().finish(&ending);
            }
        }
    }

    async fn run(&mut self, socket: Socket) -> Opened {
        let listener = Arc::clone(&self.listener);
        if let Service::Relay(Relaying { max_lifetime: Some(lifetime), .. }) = listener.service {
            self.guard.live(lifetime);
        }
        self.guard.phase(self.listener.handshake);
        // Boxed: what opening takes is given back before the connection's long life begins.
        let (mut client, place) = match boxed(|| self.open(socket)).await {
            Ok(opened) => opened,
            Err(ending) => return Opened::Over(ending),
        };
        let ending = match &listener.service {
            Service::Http(sites) => {
                match boxed(|| self.is_http2(&mut client, sites)).await {
                    Ok(true) => return Opened::Http2(client, place),
                    Ok(false) => {}
                    Err(ending) => return Opened::Over(ending),
                }
                // Given back before what may be a long life as a relay.
                let served = boxed(|| self.http(client, sites)).await;
                match served {
                    Served::Over(ending) => ending,
                    Served::Switched { mut relay, bounds, site, _in_flight, _shares } => {
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
            Service::Relay(relaying) => match boxed(|| self.join(client, relaying)).await {
                Ok(mut relay) => {
                    self.shape(&mut relay, relaying.shape.as_ref());
                    self.relay(&mut relay, relaying.idle, relaying.keepalive).await
                }
                Err(ending) => ending,
            },
        };
        Opened::Over(ending)
    }

    /// Whether a client that has opened speaks HTTP/2: ALPN says so, and without TLS what it says first.
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
            guard.watch().waits(Waiting::Otherwise);
        };
        let known = opening::prior_knowledge(&client.socket, &mut client.received, begins);
        let known = guard.within(known).await;
        guard.watch().waits(Waiting::Otherwise);
        self.spoke |= !client.received.is_empty();
        match known {
            Ok(Ok(known)) => Ok(known),
            Ok(Err(OpeningError::Closed)) => Err(Ending::new(Cause::ClientClosed, Side::Downstream)),
            Ok(Err(error)) => Err(Ending::because(Cause::ClientReset, Side::Downstream, error)),
            Err(Cut::Deadline) if client.received.is_empty() => Err(Ending::new(Cause::Idle, Side::Lockgate)),
            Err(cut) => Err(cut_short(cut, "first request")),
        }
    }

    /// Counts a client that broke the rules of HTTP/2.
    pub(super) fn violates(&self, reason: &str) {
        if let Some(cells) = self.cells() {
            cells.violated(reason);
        }
    }

    /// PROXY header, the client's place among its own connections, TLS.
    async fn open(&mut self, socket: Socket) -> Result<(Client, Option<limits::Place>), Ending> {
        let mut received = Vec::new();
        if self.listener.accept_proxy != AcceptProxy::Never {
            self.introduced(&socket, &mut received).await?;
        }
        let place = self.enter().await?;
        let listener = Arc::clone(&self.listener);
        let Some(acceptors) = &listener.tls else {
            self.spoke |= !received.is_empty();
            let watch = self.guard.watch();
            watch.meter.received.set(received.len() as u64);
            return Ok((Client { socket, session: None, received, unsent: Vec::new() }, place));
        };
        let (session, unsent) = self.shake(&socket, acceptors, received).await?;
        Ok((Client { socket, session: Some(session), received: Vec::new(), unsent }, place))
    }

    async fn introduced(&mut self, socket: &Socket, received: &mut Vec<u8>) -> Result<(), Ending> {
        let trusted = match self.peer {
            Peer::Ip(address) => (self.worker.shared.trusted)(address.ip()),
            // Whoever may open the socket's file was let in by its permissions.
            Peer::Unix => true,
        };
        let expected = self.listener.accept_proxy;
        let header = self.guard.within(opening::proxy_header(socket, expected, trusted, received)).await;
        self.spoke |= !received.is_empty();
        match header {
            Ok(Ok(Some((source, destination)))) => {
                self.spoke = true;
                self.client = Peer::Ip(source);
                self.destination = Some(destination);
                Ok(())
            }
            Ok(Ok(None)) => Ok(()),
            Ok(Err(error)) => Err(self.refuse(socket, error).await),
            Err(cut) => Err(cut_short(cut, "PROXY header")),
        }
    }

    /// Takes the client's place among its own connections, where these are limited.
    async fn enter(&self) -> Result<Option<limits::Place>, Ending> {
        let Peer::Ip(client) = self.client else { return Ok(None) };
        self.guard.watch().client.set(Some(client.ip()));
        let Some(table) = &self.worker.shared.per_client else { return Ok(None) };
        let full = || Ending::because(Cause::Limit, Side::Lockgate, "connections of this client");
        let mut place = table.enter(client.ip()).ok_or_else(full)?;
        self.guard.within(place.wait()).await.map_err(|cut| match cut {
            Cut::Deadline => full(),
            cut => cut_short(cut, "waiting for a place"),
        })?;
        Ok(Some(place))
    }

    async fn shake(
        &mut self,
        socket: &Socket,
        acceptors: &Acceptors,
        mut received: Vec<u8>,
    ) -> Result<(Box<Session>, Vec<u8>), Ending> {
        let began = Instant::now();
        let hello = self.guard.within(opening::client_hello(socket, acceptors, &mut received)).await;
        self.spoke |= !received.is_empty();
        let acceptor = match hello {
            Ok(Ok(hello)) => {
                self.server_name = hello.name;
                self.rules = hello.rules;
                hello.acceptor
            }
            Ok(Err(error)) => {
                if let OpeningError::UnknownName(name) = &error {
                    self.server_name = Some(name.clone());
                }
                return Err(self.refuse(socket, error).await);
            }
            Err(cut) => return Err(self.timed_out(cut)),
        };
        let permit = match self.worker.shared.handshakes.try_take() {
            Some(permit) => permit,
            None => match self.guard.within(self.worker.shared.handshakes.take()).await {
                Ok(permit) => permit,
                Err(Cut::Deadline) => {
                    return Err(Ending::because(Cause::Limit, Side::Lockgate, "handshakes at once"));
                }
                Err(cut) => return Err(cut_short(cut, "waiting for a handshake")),
            },
        };
        let made = self.guard.within(handshake::accept(socket, &acceptor, received)).await;
        drop(permit);
        let took = began.elapsed();
        self.handshake = Some(took);
        match made {
            Ok(Ok(made)) => {
                if let Some(cells) = self.cells() {
                    cells.shook(&made.negotiated, took);
                }
                self.negotiated = Some(Box::new(made.negotiated));
                Ok((made.session, made.unsent))
            }
            Ok(Err(error)) => Err(self.handshake_failed(socket, &error).await),
            Err(cut) => Err(self.timed_out(cut)),
        }
    }

    fn timed_out(&self, cut: Cut) -> Ending {
        if cut == Cut::Deadline
            && self.spoke
            && let Some(cells) = self.cells()
        {
            cells.failed("timeout");
        }
        cut_short(cut, "TLS handshake")
    }

    async fn handshake_failed(&self, socket: &Socket, error: &HandshakeError) -> Ending {
        if let Some(cells) = self.cells() {
            cells.failed(error.reason());
        }
        if matches!(error, HandshakeError::Tls(_)) {
            // The alert is sent; it must arrive.
            self.guard.phase(FAREWELL);
            let _ = self.guard.within(say_farewell(socket, &[])).await;
        }
        Ending::because(Cause::HandshakeFailed, Side::Downstream, error)
    }

    /// Ends a connection that did not open: tells the client why, where there is a way to.
    async fn refuse(&self, socket: &Socket, error: OpeningError) -> Ending {
        if let (Some(reason), Some(cells)) = (error.handshake_reason(), self.cells()) {
            cells.failed(reason);
        }
        let farewell = error.farewell();
        if !farewell.is_empty() {
            self.guard.phase(FAREWELL);
            // Whether the client waits for it or not, the connection is over.
            let _ = self.guard.within(say_farewell(socket, &farewell)).await;
        }
        match error {
            OpeningError::Closed => Ending::new(Cause::ClientClosed, Side::Downstream),
            OpeningError::Io(error) => Ending::because(Cause::ClientReset, Side::Downstream, error),
            OpeningError::Stranger => Ending::because(Cause::RefusedByRule, Side::Lockgate, error),
            OpeningError::Proxy(_) => Ending::because(Cause::RefusedByRule, Side::Downstream, error),
            _ => Ending::because(Cause::HandshakeFailed, Side::Downstream, error),
        }
    }

    async fn join(
        &mut self,
        client: Client,
        relaying: &Relaying,
    ) -> Result<lockgate_net::relay::Relay, Ending> {
        let start = Instant::now();
        let introduction = relaying.proxy_protocol.map(|version| Introduction {
            version,
            addresses: self.addresses(|| listen::local_address(&client.socket).ok()),
            server_name: self.server_name.as_deref(),
            negotiated: self.negotiated.as_deref(),
        });
        let asker = Asker {
            client: if let Peer::Ip(client) = self.client { Some(client.ip()) } else { None },
            server_name: self.server_name.as_deref(),
            fields: None,
        };
        let wish = relaying.pool.wish(&asker);
        let joined = join(&relaying.pool, &self.guard, relaying.connect, client, introduction, wish).await;
        let took = start.elapsed();
        self.connect = Some(took);
        match joined {
            Ok((relay, hold)) => {
                if let Some(cells) = self.cells() {
                    cells.connect.record(took);
                }
                self.endpoint = Some(hold);
                Ok(relay)
            }
            Err(JoinError::Dial(DialError::Cut(cut))) => Err(cut_short(cut, "connecting")),
            Err(error @ JoinError::Session(_)) => {
                Err(Ending::because(Cause::Internal, Side::Lockgate, error))
            }
            Err(
                error @ JoinError::Dial(DialError::Full | DialError::QueueFull | DialError::Exhausted(_)),
            ) => Err(Ending::because(Cause::Limit, Side::Lockgate, error)),
            Err(error) => Err(Ending::because(Cause::ConnectFailed, Side::Upstream, error)),
        }
    }

    /// The client's address and the one it connected to.
    pub(super) fn addresses(
        &self,
        local: impl FnOnce() -> Option<SocketAddr>,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let Peer::Ip(client) = self.client else { return None };
        let destination = self.destination.or_else(local)?;
        Some((client, destination))
    }

    /// Holds a relay to the rates of its table, if that has some.
    fn shape(&self, relay: &mut lockgate_net::relay::Relay, shape: Option<&Arc<Shape>>) {
        let Some(shape) = shape else { return };
        let shapers = shape.shapers(&shape.connection(), self.client_ip(), None, &self.worker.line);
        relay.shape(shapers.received, shapers.sent);
    }

    fn client_ip(&self) -> Option<IpAddr> {
        match self.client {
            Peer::Ip(client) => Some(client.ip()),
            Peer::Unix => None,
        }
    }

    async fn relay(
        &mut self,
        relay: &mut lockgate_net::relay::Relay,
        idle: Duration,
        keepalive: Option<Duration>,
    ) -> Ending {
        let Some(hold) = &self.endpoint else { return Ending::new(Cause::Internal, Side::Lockgate) };
        let habits = &hold.endpoint().habits;
        let meter = &self.guard.watch().meter;
        self.guard.idle(idle);
        let outlived = |outcome: &Result<End, Cut>| matches!(outcome, Err(Cut::Deadline));
        let mut outcome = Err(Cut::Deadline);
        if relay.holds() {
            self.guard.phase(MOMENT);
            outcome = self.guard.within(relay.run(&self.worker.scratch, meter, habits)).await;
        }
        if outlived(&outcome) {
            relay.release();
            self.guard.phase(YOUTH);
            outcome = self.guard.within(relay.run(&self.worker.scratch, meter, habits)).await;
        }
        if outlived(&outcome) {
            self.guard.settle();
            if let Some(idle) = keepalive {
                // Without probes a dead peer is found by the idle limit.
                let _ = relay.probe(idle);
            }
            outcome = self.guard.within(relay.run(&self.worker.scratch, meter, habits)).await;
        }
        match outcome {
            Ok(end) => ending(end),
            Err(cut) => {
                relay.abandon().await;
                cut_short(cut, "relay")
            }
        }
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
        // A probe that connects and leaves says nothing worth a line; that we failed it does.
        if empty && ending.side == Side::Downstream {
            return;
        }
        if self.exchanges.get() > 0 && !ending.loud && matches!(self.listener.service, Service::Http(_)) {
            return;
        }
        if let Some(log) = &mut *self.worker.log.borrow_mut() {
            log.write(&self.record(ending, received, sent));
        }
    }

    /// Writes the line of a tunnel that has been one of its streams: over HTTP/1 it would have been a connection.
    pub(super) fn tunnelled(
        &self,
        began: Instant,
        opener: Option<&Opener>,
        hold: &Hold,
        meter: &Meter,
        ending: &Ending,
    ) {
        let Some(log) = &mut *self.worker.log.borrow_mut() else { return };
        let took = began.elapsed();
        log.write(&Record {
            accepted: unix_millis().saturating_sub(took.as_millis() as u64),
            handshake: None,
            duration: took,
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
            handshake: self.handshake,
            connect: self.connect,
            duration: self.accepted.elapsed(),
            endpoint: self.endpoint.as_ref().map(|hold| hold.endpoint().label.as_str()),
            cause: ending.cause,
            side: ending.side,
            detail: ending.detail.as_deref(),
        }
    }
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
    }
}

pub(super) fn ending(end: End) -> Ending {
    match end {
        End::Finished(Which::Downstream) => Ending::new(Cause::ClientClosed, Side::Downstream),
        End::Finished(Which::Upstream) => Ending::new(Cause::UpstreamClosed, Side::Upstream),
        End::Failed(Which::Downstream, StreamError::Tls(SessionError::Alerted(alert))) => {
            Ending::because(Cause::ClientClosed, Side::Downstream, format_args!("alert {alert}"))
        }
        End::Failed(Which::Downstream, error) => Ending::because(Cause::ClientReset, Side::Downstream, error),
        End::Failed(Which::Upstream, error) => Ending::because(Cause::UpstreamReset, Side::Upstream, error),
    }
}

/// Sends the last words and waits until the client has closed: closing with its bytes unread would reset the
/// connection, and the reset could overtake what we said.
async fn say_farewell(socket: &Socket, words: &[u8]) -> std::io::Result<()> {
    let mut sent = 0;
    while sent < words.len() {
        sent += poll_fn(|cx| socket.poll_send(cx, &words[sent..])).await?;
    }
    socket.shutdown_write()?;
    let mut sink = [0; 1024];
    for _ in 0..FAREWELL_READS {
        if poll_fn(|cx| socket.poll_recv(cx, &mut sink)).await? == 0 {
            break;
        }
    }
    Ok(())
}
