//! A connection's first steps, each under the deadline of the opening: who the client is, what it
//! asks for, its TLS.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::client_hello::ClientHello;
use lockgate_net::listen::Peer;
use lockgate_net::socket::Socket;
use lockgate_net::tls::handshake::{self, HandshakeError};
use lockgate_net::tls::session::TlsSession;
use lockgate_net::tls::{Acceptor, Acceptors};
use lockgate_rules::{AcceptProxy, ClientAddress};

use super::{Connection, Purpose};
use crate::access_log::{Cause, Side};
use crate::action::relay::Client;
use crate::clients::{Connected, Standing};
use crate::clock::{Cut, WaitReason};
use crate::downstream::by_hello::{ByHello, Chosen};
use crate::downstream::ending::{Ending, cut_short};
use crate::downstream::opening::{self, OpeningError, ServerName};
use crate::downstream::{Listener, Relaying, Service, Way};
use crate::{limits, memory};

/// For a client that is told something before the close to read it: a reset could overtake it.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);
/// What such a client may send meanwhile.
pub(super) const FAREWELL_READS: usize = 16;

/// What shakes hands with a client, and its place among those of the address.
type Rules = (usize, Arc<Acceptor>);

impl Connection {
    /// PROXY header, the client's place among its own connections, TLS; and what the connection is
    /// for.
    pub(in crate::downstream) async fn open<'l>(
        &mut self,
        socket: Socket,
        listener: &'l Listener,
    ) -> Result<(Client, Option<limits::Place>, Purpose<'l>), Ending> {
        let mut received = Vec::new();
        if listener.accept_proxy != AcceptProxy::Never {
            self.introduced(&socket, &mut received).await?;
        }
        let place = self.enter().await?;
        let began = Instant::now();
        let (purpose, rules) = match &listener.service {
            Service::Relay(relaying) => {
                self.limit_lifetime(relaying);
                if listener.tls.is_none() && relaying.pool.settings.sessions().is_some() {
                    self.overhear(&socket, &mut received).await?;
                }
                (
                    Purpose::Relay(relaying),
                    self.rules(&socket, listener.tls.as_ref(), &mut received)
                        .await?,
                )
            }
            Service::Http(sites) => (
                Purpose::Http(sites),
                self.rules(&socket, listener.tls.as_ref(), &mut received)
                    .await?,
            ),
            Service::ByHello(by_hello) => self.way(&socket, by_hello, &mut received).await?,
        };
        let Some((place_of_rules, acceptor)) = rules else {
            self.spoke |= !received.is_empty();
            self.guard.watch().meter.received.set(received.len() as u64);
            return Ok((
                Client {
                    socket,
                    session: None,
                    received,
                    unsent: Vec::new(),
                },
                place,
                purpose,
            ));
        };
        self.rules = place_of_rules;
        let (session, unsent) = self.shake(&socket, &acceptor, received, began).await?;
        Ok((
            Client {
                socket,
                session: Some(session),
                received: Vec::new(),
                unsent,
            },
            place,
            purpose,
        ))
    }

    /// Holds a connection to the time that it may take in all.
    fn limit_lifetime(&self, relaying: &Relaying) {
        if let Some(lifetime) = relaying.max_lifetime {
            self.guard
                .limit_lifetime(lifetime.saturating_sub(self.accepted.elapsed()));
        }
    }

    /// What shakes hands with a client, if anything does.
    async fn rules(
        &mut self,
        socket: &Socket,
        acceptors: Option<&Acceptors>,
        received: &mut Vec<u8>,
    ) -> Result<Option<Rules>, Ending> {
        let Some(acceptors) = acceptors else {
            return Ok(None);
        };
        let choose = |hello: &ClientHello<'_>| chosen(acceptors, hello.server_name.as_deref());
        self.hello(socket, received, choose, unknown)
            .await
            .map(Some)
    }

    /// Where a ClientHello leads. TLS that nobody takes off stays in `received`.
    async fn way<'l>(
        &mut self,
        socket: &Socket,
        by_hello: &'l ByHello,
        received: &mut Vec<u8>,
    ) -> Result<(Purpose<'l>, Option<Rules>), Ending> {
        let mut session = None;
        let choose = |hello: &ClientHello<'_>| {
            let chosen = by_hello.choose(hello)?;
            if let Chosen::Relay(Way {
                tls: None,
                relaying,
            }) = &chosen
                && relaying.pool.settings.sessions().is_some()
            {
                session = Some(hello.session_id.as_ref().into());
            }
            Some(chosen)
        };
        let (purpose, acceptors) = match self
            .hello(socket, received, choose, |_| OpeningError::NoWay)
            .await?
        {
            Chosen::Relay(way) => {
                self.session = session;
                self.limit_lifetime(&way.relaying);
                (Purpose::Relay(&way.relaying), way.tls.as_ref())
            }
            Chosen::Sites(secure) => (Purpose::Http(&secure.sites), Some(&secure.tls)),
        };
        let Some(acceptors) = acceptors else {
            return Ok((purpose, None));
        };
        match chosen(acceptors, self.server_name.as_deref()) {
            Some(rules) => Ok((purpose, Some(rules))),
            None => Err(self.refuse(socket, unknown(self.server_name.clone())).await),
        }
    }

    /// Which TLS session a client wants to resume whose bytes are relayed as they are. They are the
    /// endpoint's to judge: where there is no ClientHello, or none in time, they are relayed
    /// all the same.
    async fn overhear(&mut self, socket: &Socket, received: &mut Vec<u8>) -> Result<(), Ending> {
        let look = |hello: &ClientHello<'_>| Box::from(&*hello.session_id);
        let hello = opening::client_hello(socket, received, self.begins(received.is_empty()), look);
        let hello = self.guard.within(hello).await;
        self.guard.watch().set_wait(WaitReason::Otherwise);
        match hello {
            Ok(Ok((name, session))) => {
                self.server_name = name;
                self.session = Some(session);
                Ok(())
            }
            Ok(Err(OpeningError::Io(error))) => {
                Err(Ending::because(Cause::ClientReset, Side::Downstream, error))
            }
            Ok(Err(_)) | Err(Cut::Deadline) => Ok(()),
            Err(cut) => Err(cut_short(cut, "ClientHello")),
        }
    }

    /// Notes that the client is waited for, of which nothing has come yet if it is `silent`; and
    /// gives what is to be called when something has.
    fn begins(&self, silent: bool) -> impl Fn() {
        let watch = self.guard.watch();
        watch.set_wait(if silent {
            WaitReason::ForRequest
        } else {
            WaitReason::ForOpening
        });
        || watch.set_wait(WaitReason::ForOpening)
    }

    /// Reads a ClientHello and what `choose` makes of it; where that is nothing, the client is told
    /// what `otherwise` says.
    async fn hello<T>(
        &mut self,
        socket: &Socket,
        received: &mut Vec<u8>,
        choose: impl FnOnce(&ClientHello<'_>) -> Option<T>,
        otherwise: fn(ServerName) -> OpeningError,
    ) -> Result<T, Ending> {
        let hello =
            opening::client_hello(socket, received, self.begins(received.is_empty()), choose);
        let hello = self.guard.within(hello).await;
        self.guard.watch().set_wait(WaitReason::Otherwise);
        self.spoke |= !received.is_empty();
        match hello {
            Ok(Ok((name, chosen))) => {
                self.server_name = name;
                match chosen {
                    Some(chosen) => Ok(chosen),
                    None => Err(self
                        .refuse(socket, otherwise(self.server_name.clone()))
                        .await),
                }
            }
            Ok(Err(error)) => Err(self.refuse(socket, error).await),
            Err(cut) => Err(self.timed_out(cut)),
        }
    }

    async fn introduced(&mut self, socket: &Socket, received: &mut Vec<u8>) -> Result<(), Ending> {
        let trusted = match self.peer {
            Peer::Ip(address) => (self.worker.shared.trusted)(address.ip()),
            // Whoever may open the socket's file was let in by its permissions.
            Peer::Unix => true,
        };
        let expected = self.listener.accept_proxy;
        let passed = self.listener.passes_header();
        let watch = self.guard.watch();
        let kept = passed.then_some(&mut self.header);
        let begins = || watch.set_wait(WaitReason::ForOpening);
        watch.set_wait(WaitReason::ForRequest);
        let header = opening::proxy_header(socket, expected, trusted, received, kept, begins);
        let header = self.guard.within(header).await;
        watch.set_wait(WaitReason::Otherwise);
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

    /// Counts the connection in its client's account.
    fn count(&self) {
        let shared = &self.worker.shared;
        let (ip, standing) = match self.client {
            Peer::Ip(client) if !(shared.trusted)(client.ip()) => (client.ip(), Standing::Ordinary),
            client => (
                ClientAddress::from(client.ip()).key_or_nobody(),
                Standing::Exempt,
            ),
        };
        let connected = Connected::new(shared.clients.of(ip, standing));
        // A connection opens once.
        let _ = self.guard.watch().account.set(connected);
    }

    /// Takes the client's place among its own connections, where these are limited.
    async fn enter(&self) -> Result<Option<limits::Place>, Ending> {
        self.count();
        let Peer::Ip(client) = self.client else {
            return Ok(None);
        };
        self.guard.watch().client.set(Some(client.ip()));
        let Some(table) = &self.worker.shared.per_client else {
            return Ok(None);
        };
        let full = || {
            Ending::because(
                Cause::Limit,
                Side::Lockgate,
                "too many connections of this client",
            )
        };
        let mut place = table.enter(client.ip()).ok_or_else(full)?;
        self.guard
            .within(place.wait())
            .await
            .map_err(|cut| match cut {
                Cut::Deadline => full(),
                cut => cut_short(cut, "waiting for a slot"),
            })?;
        Ok(Some(place))
    }

    async fn shake(
        &mut self,
        socket: &Socket,
        acceptor: &Acceptor,
        received: Vec<u8>,
        began: Instant,
    ) -> Result<(Box<TlsSession>, Vec<u8>), Ending> {
        if let Err(cut) = memory::room(&self.guard, |_| ()).await {
            self.worker.cells.memory_refused.inc();
            return Err(match cut {
                Cut::Deadline => Ending::because(Cause::Limit, Side::Lockgate, "memory"),
                cut => cut_short(cut, "waiting for memory"),
            });
        }
        let (handshakes, account) = (
            &self.worker.shared.handshakes,
            self.account().map(Arc::as_ref),
        );
        let _begun = handshakes.begin();
        let (watch, queued) = (self.guard.watch(), Cell::new(false));
        let place = async || {
            queued.set(true);
            watch.set_wait(WaitReason::Otherwise);
            let place = handshakes.take(account).await;
            queued.set(false);
            watch.set_wait(WaitReason::ForOpening);
            place
        };
        let made = self
            .guard
            .within(handshake::accept_in_turn(socket, acceptor, received, place))
            .await;
        watch.set_wait(WaitReason::Otherwise);
        if matches!(made, Err(Cut::Deadline)) && queued.get() {
            return Err(Ending::because(
                Cause::Limit,
                Side::Lockgate,
                "too many handshakes at once",
            ));
        }
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
            OpeningError::Proxy(_) => {
                Ending::because(Cause::RefusedByRule, Side::Downstream, error)
            }
            _ => Ending::because(Cause::HandshakeFailed, Side::Downstream, error),
        }
    }
}

/// What of `acceptors` a client gets that asks for `name`.
fn chosen(acceptors: &Acceptors, name: Option<&str>) -> Option<Rules> {
    acceptors
        .choose(name)
        .map(|(place, acceptor)| (place, Arc::clone(acceptor)))
}

fn unknown(name: ServerName) -> OpeningError {
    name.map_or(OpeningError::NoName, OpeningError::UnknownName)
}

/// Sends the last words and waits until the client has closed: closing with its bytes unread would
/// reset the connection, and the reset could overtake what we said.
pub(super) async fn say_farewell(socket: &Socket, words: &[u8]) -> std::io::Result<()> {
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
