//! The opening of a connection, each step under its deadline: PROXY header, ClientHello, TLS.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use lockgate_limits::PerClientPermit;
use lockgate_limits::clients::{ClientClass, CountedConnection};
use lockgate_limits::clock::{Cut, WaitReason};
use lockgate_limits::memory;
use lockgate_net::challenges::Challenges;
use lockgate_net::client_hello::ClientHello;
use lockgate_net::listen::Peer;
use lockgate_net::socket::Socket;
use lockgate_net::tls::handshake::{self, HandshakeError};
use lockgate_net::tls::session::TlsSession;
use lockgate_net::tls::{Acceptor, AcceptorIndex, Acceptors, ChallengeCert, HandshakeSettings};
use lockgate_rules::{AcceptProxy, ClientAddress};

use super::{ClientConnection, ConnectionPurpose, ReceivedProxyHeader};
use crate::access_log::{Cause, CauseSide};
use crate::action::relay::ClientTransport;
use crate::downstream::first_bytes::{FirstBytes, OpeningError, ServerName};
use crate::downstream::linger::{SHORT_LINGER, linger_on_socket};
use crate::downstream::sni_router::{HelloRoute, SniRouter};
use crate::downstream::termination::{Termination, termination_of_cut};
use crate::downstream::{ListenerService, ListenerSnapshot, RelayRoute, RelaySettings};
use crate::generation::Generation;

/// The detail of a connection of a banned client.
const BANNED: &str = "the client is banned";

/// The other side of a client's handshake.
enum ChosenHandshake {
    /// An acceptor, with its index among those of the address.
    Acceptor(AcceptorIndex, Arc<Acceptor>),
    /// The same, once it has a certificate for the name.
    OnDemand(AcceptorIndex, Arc<Acceptor>),
    /// The proof of a name for an authority (RFC 8737).
    Challenge(ChallengeCert),
}

impl ClientConnection {
    /// Reads the PROXY header, takes a permit under the limit of the client's connections, and
    /// shakes hands; tells the purpose of the connection.
    pub(in crate::downstream) async fn open<'l>(
        &mut self,
        socket: Socket,
        snapshot: &'l ListenerSnapshot,
    ) -> Result<(ClientTransport, ConnectionPurpose<'l>), Termination> {
        let listener = &*snapshot.settings;
        let mut received = Vec::new();
        let mut first = FirstBytes {
            socket: &socket,
            received: &mut received,
        };
        if listener.accept_proxy != AcceptProxy::Never {
            self.read_proxy_header(snapshot, &mut first).await?;
            // The other end was looked up when it was accepted.
            let named = self.received_proxy_header.as_ref();
            let client = named.and_then(|header| header.destination.and(self.client.ip()));
            if client.is_some_and(|ip| self.worker.is_banned(ip)) {
                let (cause, side) = (Cause::RefusedByRule, CauseSide::Lockgate);
                return Err(Termination::because(cause, side, BANNED));
            }
        }
        let permit = self.take_client_permit(&snapshot.generation).await?;
        self.client_permit = permit.map(Box::new);
        let began = Instant::now();
        let (purpose, chosen): (Option<_>, _) = match &listener.service {
            ListenerService::Relay(relaying) => {
                self.limit_lifetime(relaying);
                if listener.tls.is_none() && relaying.pool.settings.sessions().is_some() {
                    self.peek_client_hello(&mut first).await?;
                }
                let acceptor = self.choose_acceptor(&mut first, listener.tls.as_ref());
                (Some(ConnectionPurpose::Relay(relaying)), acceptor.await?)
            }
            ListenerService::Http(sites) => {
                let acceptor = self.choose_acceptor(&mut first, listener.tls.as_ref());
                (Some(ConnectionPurpose::Http(sites)), acceptor.await?)
            }
            ListenerService::Sni(router) => self.route_by_hello(&mut first, router).await?,
        };
        let chosen = match chosen {
            Some(ChosenHandshake::OnDemand(index, acceptor)) => {
                self.await_certificate(&socket, &acceptor).await?;
                Some(ChosenHandshake::Acceptor(index, acceptor))
            }
            chosen => chosen,
        };
        let (session, received, unsent) = match chosen {
            Some(
                ChosenHandshake::Acceptor(index, acceptor)
                | ChosenHandshake::OnDemand(index, acceptor),
            ) => {
                let (session, unsent) = self
                    .shake_hands(&socket, acceptor.handshake(), received, began)
                    .await?;
                self.set_acceptor(snapshot, index, acceptor);
                (Some(session), Vec::new(), unsent)
            }
            Some(ChosenHandshake::Challenge(cert)) => {
                self.shake_hands(&socket, cert.handshake(), received, began)
                    .await?;
                return Err(challenge_ended());
            }
            None => {
                self.spoke |= !received.is_empty();
                self.guard.watch().meter.received.set(received.len() as u64);
                (None, received, Vec::new())
            }
        };
        let purpose = purpose.ok_or_else(challenge_ended)?;
        let client = ClientTransport {
            socket,
            session,
            received,
            unsent,
        };
        Ok((client, purpose))
    }

    /// Holds a connection to the time that it may take in all.
    fn limit_lifetime(&self, relaying: &RelaySettings) {
        if let Some(lifetime) = relaying.max_lifetime {
            self.guard
                .limit_lifetime(lifetime.saturating_sub(self.accepted.elapsed()));
        }
    }

    /// The acceptor for a client's handshake, if TLS is ended here.
    async fn choose_acceptor(
        &mut self,
        first: &mut FirstBytes<'_>,
        acceptors: Option<&Acceptors>,
    ) -> Result<Option<ChosenHandshake>, Termination> {
        let Some(acceptors) = acceptors else {
            return Ok(None);
        };
        let shared = Arc::clone(&self.worker.shared);
        let choose = |hello: &ClientHello<'_>| chosen(acceptors, hello, &shared.challenges);
        let refused = |name: ServerName| refused(acceptors, name);
        self.read_client_hello(first, choose, refused)
            .await
            .map(Some)
    }

    /// Routes by the ClientHello. Bytes of TLS that is passed through stay in `received`. A challenge
    /// may be for a name that has no route here.
    async fn route_by_hello<'l>(
        &mut self,
        first: &mut FirstBytes<'_>,
        router: &'l SniRouter,
    ) -> Result<(Option<ConnectionPurpose<'l>>, Option<ChosenHandshake>), Termination> {
        let mut session = None;
        let shared = Arc::clone(&self.worker.shared);
        let choose = |hello: &ClientHello<'_>| {
            let Some(route) = router.choose(hello) else {
                let cert = shared.challenges.of_hello(hello)?;
                return Some((None, Some(Some(ChosenHandshake::Challenge(cert)))));
            };
            let acceptors = match &route {
                HelloRoute::Relay(RelayRoute { tls, relaying }) => {
                    if tls.is_none() && relaying.pool.settings.sessions().is_some() {
                        session = Some(hello.session_id.as_ref().into());
                    }
                    tls.as_ref()
                }
                HelloRoute::Sites(secure) => Some(&secure.tls),
            };
            // TLS that is passed through is the endpoint's, its challenges included.
            let chosen = acceptors.map(|acceptors| chosen(acceptors, hello, &shared.challenges));
            Some((Some(route), chosen))
        };
        let (route, chosen) = self
            .read_client_hello(first, choose, |_| OpeningError::NoRoute)
            .await?;
        let (purpose, acceptors) = match route {
            None => return Ok((None, chosen.flatten())),
            Some(HelloRoute::Relay(route)) => {
                self.session = session;
                self.limit_lifetime(&route.relaying);
                (
                    ConnectionPurpose::Relay(&route.relaying),
                    route.tls.as_ref(),
                )
            }
            Some(HelloRoute::Sites(secure)) => {
                (ConnectionPurpose::Http(&secure.sites), Some(&secure.tls))
            }
        };
        let purpose = Some(purpose);
        match (acceptors, chosen.flatten()) {
            (None, _) => Ok((purpose, None)),
            (_, Some(chosen)) => Ok((purpose, Some(chosen))),
            (Some(acceptors), None) => {
                let error = refused(acceptors, self.server_name.clone());
                Err(self.refuse(first.socket, error).await)
            }
        }
    }

    /// Waits for a certificate that is obtained on demand, as long as the handshake may take. The order
    /// goes on for the next client.
    async fn await_certificate(
        &self,
        socket: &Socket,
        acceptor: &Arc<Acceptor>,
    ) -> Result<(), Termination> {
        let name = self.server_name.clone().unwrap_or_default();
        let client = self.client.ip();
        let demands = &self.worker.shared.cert_demands;
        if let Some(obtained) = demands.ask(&name, client, acceptor) {
            self.guard.watch().set_wait(WaitReason::Nothing);
            match self.guard.within(obtained).await {
                Ok(Ok(())) if acceptor.serves(Some(&name)) => return Ok(()),
                Ok(_) => {}
                Err(cut) => return Err(self.timed_out(cut)),
            }
        }
        Err(self.refuse(socket, OpeningError::AwaitedCert(name)).await)
    }

    /// Learns the TLS session that a client wants to resume, where its TLS is passed through. The
    /// bytes are the endpoint's to judge: without a ClientHello, or with none in time, they are
    /// relayed all the same.
    async fn peek_client_hello(&mut self, first: &mut FirstBytes<'_>) -> Result<(), Termination> {
        let look = |hello: &ClientHello<'_>| Box::from(&*hello.session_id);
        let begins = self.note_waiting(first.received.is_empty());
        let hello = self.guard.within(first.client_hello(begins, look)).await;
        self.guard.watch().set_wait(WaitReason::Nothing);
        match hello {
            Ok(Ok((name, session))) => {
                self.server_name = name;
                self.session = Some(session);
                Ok(())
            }
            Ok(Err(OpeningError::Io(error))) => Err(Termination::client_reset(error)),
            Ok(Err(_)) | Err(Cut::Deadline) => Ok(()),
            Err(cut) => Err(termination_of_cut(cut, "ClientHello")),
        }
    }

    /// Notes that the client is waited for, which has sent nothing yet if it is `silent`; the
    /// result is to be called when bytes have come.
    fn note_waiting(&self, silent: bool) -> impl Fn() {
        let watch = self.guard.watch();
        watch.set_wait(if silent {
            WaitReason::ForRequest
        } else {
            WaitReason::ForHead
        });
        || watch.set_wait(WaitReason::ForHead)
    }

    /// Reads a ClientHello and passes it to `choose`; where that chooses nothing, the client is
    /// refused with `otherwise`.
    async fn read_client_hello<T>(
        &mut self,
        first: &mut FirstBytes<'_>,
        choose: impl FnOnce(&ClientHello<'_>) -> Option<T>,
        otherwise: impl FnOnce(ServerName) -> OpeningError,
    ) -> Result<T, Termination> {
        let begins = self.note_waiting(first.received.is_empty());
        let hello = self.guard.within(first.client_hello(begins, choose)).await;
        self.guard.watch().set_wait(WaitReason::Nothing);
        self.spoke |= !first.received.is_empty();
        match hello {
            Ok(Ok((name, chosen))) => {
                self.server_name = name;
                match chosen {
                    Some(chosen) => Ok(chosen),
                    None => {
                        let error = otherwise(self.server_name.clone());
                        Err(self.refuse(first.socket, error).await)
                    }
                }
            }
            Ok(Err(error)) => Err(self.refuse(first.socket, error).await),
            Err(cut) => Err(self.timed_out(cut)),
        }
    }

    async fn read_proxy_header(
        &mut self,
        snapshot: &ListenerSnapshot,
        first: &mut FirstBytes<'_>,
    ) -> Result<(), Termination> {
        let trusted = match self.peer {
            Peer::Ip(address) => snapshot.generation.trusts(address.ip()),
            // The permissions of the socket's file have let the peer in.
            Peer::Unix => true,
        };
        let expected = snapshot.settings.accept_proxy;
        let passed = snapshot.settings.passes_header();
        let watch = self.guard.watch();
        let mut bytes = Vec::new();
        let kept = passed.then_some(&mut bytes);
        let begins = || watch.set_wait(WaitReason::ForHead);
        watch.set_wait(WaitReason::ForRequest);
        let header = first.proxy_header(expected, trusted, kept, begins);
        let header = self.guard.within(header).await;
        watch.set_wait(WaitReason::Nothing);
        self.spoke |= !first.received.is_empty();
        match header {
            Ok(Ok(named)) => {
                if let Some((source, _)) = named {
                    self.spoke = true;
                    self.client = Peer::Ip(source);
                }
                let destination = named.map(|(_, destination)| destination);
                if destination.is_some() || !bytes.is_empty() {
                    let header = ReceivedProxyHeader { bytes, destination };
                    self.received_proxy_header = Some(Box::new(header));
                }
                Ok(())
            }
            Ok(Err(error)) => Err(self.refuse(first.socket, error).await),
            Err(cut) => Err(termination_of_cut(cut, "PROXY header")),
        }
    }

    /// Counts the connection in its client's account.
    fn open_account(&self, generation: &Generation) {
        let shared = &self.worker.shared;
        let (ip, standing) = match self.client {
            Peer::Ip(client) if !generation.trusts(client.ip()) => {
                (client.ip(), ClientClass::Ordinary)
            }
            client => (
                ClientAddress::from(client.ip()).key_or_unspecified(),
                ClientClass::Exempt,
            ),
        };
        let connected = CountedConnection::new(shared.clients.of(ip, standing));
        // A connection opens once.
        let _ = self.guard.watch().account.set(connected);
    }

    /// Takes a permit under the limit of the client's connections, where these are limited.
    async fn take_client_permit(
        &self,
        generation: &Generation,
    ) -> Result<Option<PerClientPermit>, Termination> {
        self.open_account(generation);
        let Peer::Ip(client) = self.client else {
            return Ok(None);
        };
        self.guard.watch().client.set(Some(client.ip()));
        let Some(table) = &generation.rules.per_client else {
            return Ok(None);
        };
        let full = || Termination::limit("too many connections of this client");
        let mut permit = table.enter(client.ip()).ok_or_else(full)?;
        self.guard
            .within(permit.wait())
            .await
            .map_err(|cut| match cut {
                Cut::Deadline => full(),
                cut => termination_of_cut(cut, "waiting for a slot"),
            })?;
        Ok(Some(permit))
    }

    async fn shake_hands(
        &mut self,
        socket: &Socket,
        settings: HandshakeSettings,
        received: Vec<u8>,
        began: Instant,
    ) -> Result<(Box<TlsSession>, Vec<u8>), Termination> {
        if let Err(cut) = memory::wait_for_memory(&self.guard, |_| ()).await {
            self.worker.cells.memory_refused.inc();
            return Err(match cut {
                Cut::Deadline => Termination::limit("memory"),
                cut => termination_of_cut(cut, "waiting for memory"),
            });
        }
        let (handshakes, account) = (
            &self.worker.shared.handshakes,
            self.account().map(Arc::as_ref),
        );
        let _begun = handshakes.begin();
        let (watch, queued) = (self.guard.watch(), Cell::new(false));
        let permit = async || {
            queued.set(true);
            watch.set_wait(WaitReason::Nothing);
            let permit = handshakes.take(account).await;
            queued.set(false);
            watch.set_wait(WaitReason::ForHead);
            permit
        };
        let made = self
            .guard
            .within(handshake::accept_in_turn(
                socket, settings, received, permit,
            ))
            .await;
        watch.set_wait(WaitReason::Nothing);
        if matches!(made, Err(Cut::Deadline)) && queued.get() {
            return Err(Termination::limit("too many handshakes at once"));
        }
        let took = began.elapsed();
        self.handshake = Some(took);
        match made {
            Ok(Ok(made)) => {
                self.cells().handshake_finished(&made.negotiated, took);
                self.negotiated = Some(Box::new(made.negotiated));
                Ok((made.session, made.unsent))
            }
            Ok(Err(error)) => Err(self.handshake_failed(socket, &error).await),
            Err(cut) => Err(self.timed_out(cut)),
        }
    }

    fn timed_out(&self, cut: Cut) -> Termination {
        if cut == Cut::Deadline && self.spoke {
            self.cells().failed("timeout");
        }
        termination_of_cut(cut, "TLS handshake")
    }

    async fn handshake_failed(&self, socket: &Socket, error: &HandshakeError) -> Termination {
        self.cells().failed(error.reason());
        if matches!(error, HandshakeError::Tls(_)) {
            // The alert is sent; it must arrive.
            self.guard.begin_phase(SHORT_LINGER);
            let _ = self.guard.within(linger_on_socket(socket, &[])).await;
        }
        Termination::handshake_failed(error)
    }

    /// Ends a connection that did not open: tells the client why, where there is a way to.
    async fn refuse(&self, socket: &Socket, error: OpeningError) -> Termination {
        if let Some(reason) = error.handshake_reason() {
            self.cells().failed(reason);
        }
        let last = error.last_bytes();
        if !last.is_empty() {
            self.guard.begin_phase(SHORT_LINGER);
            // Whether the client waits for it or not, the connection is over.
            let _ = self.guard.within(linger_on_socket(socket, &last)).await;
        }
        match error {
            OpeningError::Closed => Termination::client_closed(),
            OpeningError::Io(error) => Termination::client_reset(error),
            OpeningError::UntrustedProxy => {
                Termination::because(Cause::RefusedByRule, CauseSide::Lockgate, error)
            }
            OpeningError::Proxy(_) => {
                Termination::because(Cause::RefusedByRule, CauseSide::Downstream, error)
            }
            _ => Termination::handshake_failed(error),
        }
    }
}

/// The handshake for a ClientHello; nothing calls for the alert unrecognized_name (RFC 6066 §3).
fn chosen(
    acceptors: &Acceptors,
    hello: &ClientHello<'_>,
    challenges: &Challenges,
) -> Option<ChosenHandshake> {
    if let Some(cert) = challenges.of_hello(hello) {
        return Some(ChosenHandshake::Challenge(cert));
    }
    let name = hello.server_name.as_deref();
    if let Some((index, acceptor)) = acceptors.choose(name) {
        return Some(ChosenHandshake::Acceptor(index, Arc::clone(acceptor)));
    }
    let (index, acceptor) = acceptors.obtaining(name?)?;
    Some(ChosenHandshake::OnDemand(index, Arc::clone(acceptor)))
}

/// The end of a connection that proved a name: the handshake was all (RFC 8737 §3).
fn challenge_ended() -> Termination {
    let (cause, side) = (Cause::ClientClosed, CauseSide::Lockgate);
    Termination::because(cause, side, "a challenge of ACME by TLS-ALPN-01")
}

/// Why there is no handshake for a name.
fn refused(acceptors: &Acceptors, name: ServerName) -> OpeningError {
    match name {
        Some(name) if acceptors.awaits(Some(&name)) => OpeningError::AwaitedCert(name),
        Some(name) => OpeningError::UnknownName(name),
        None => OpeningError::NoName,
    }
}
