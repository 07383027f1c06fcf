//! A client's connection from its acceptance to its end: its opening, and the protocol after that.

use std::rc::Rc;
use std::time::Duration;

use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{Cut, WaitReason};
use lockgate_limits::memory::charged;
use lockgate_net::socket::Socket;

use super::connection::{ClientConnection, ConnectionPurpose};
use super::first_bytes::{FirstBytes, OpeningError};
use super::http1::{Http1End, SwitchedRelay};
use super::http2::H2ClientConnection;
use super::termination::{Termination, termination_of_cut};
use crate::action::relay::ClientTransport;
use crate::site::ListenerSites;

/// What is left after opening: nothing, since the relay was served, or HTTP.
enum OpenedConnection {
    /// The connection is over.
    Over(Termination),
    /// The connection goes on as HTTP/1. Boxed: all its life a connection has room for what it has
    /// opened as.
    Http1(Box<ClientTransport>),
    /// The connection goes on as HTTP/2.
    Http2(Box<ClientTransport>),
}

/// The settings by which HTTP/1 or HTTP/2 is chosen.
#[derive(Clone, Copy)]
struct ProtocolChoice {
    http1: bool,
    h2c: bool,
    idle: Duration,
    head: Duration,
}

impl ProtocolChoice {
    fn of(sites: &ListenerSites) -> Self {
        Self {
            http1: sites.http1,
            h2c: sites.h2c,
            idle: sites.idle,
            head: sites.head,
        }
    }
}

impl ClientConnection {
    /// Does everything there is to do with it. The socket is boxed, since a future keeps room for
    /// what it was made of.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function keeps room for its arguments twice"
    )]
    pub(super) fn serve(mut self, socket: Box<Socket>) -> impl Future<Output = ()> {
        async move {
            // Boxed: what it takes is given back before HTTP's long life begins.
            let watch = self.guard.shared();
            let opened = charged(Rc::clone(&watch), boxed(|| self.open_and_relay(*socket))).await;
            let client = match opened {
                OpenedConnection::Over(termination) => return self.finish(&termination),
                OpenedConnection::Http1(client) => client,
                OpenedConnection::Http2(client) => {
                    let (h2_connection, termination) =
                        charged(watch, boxed(|| H2ClientConnection::serve(self, *client))).await;
                    return h2_connection.connection().finish(&termination);
                }
            };
            // Given back before what may be a long life as a relay.
            let served = charged(Rc::clone(&watch), boxed(|| self.serve_http1(*client))).await;
            let termination = match served {
                Http1End::Over(termination) => termination,
                Http1End::Switched(switched) => {
                    charged(watch, boxed(|| self.relay_switched(*switched))).await
                }
            };
            self.finish(&termination);
        }
    }

    async fn open_and_relay(&mut self, socket: Socket) -> OpenedConnection {
        let snapshot = self.listener.snapshot();
        let number = snapshot.generation.rules.number;
        self.guard.watch().generation.set(number);
        self.guard.begin_phase(snapshot.settings.handshake);
        // Boxed: what opening takes is given back before the connection's long life begins.
        let (mut client, purpose) = match boxed(|| self.open(socket, &snapshot)).await {
            Ok(opened) => opened,
            Err(termination) => return OpenedConnection::Over(termination),
        };
        let relaying = match purpose {
            ConnectionPurpose::Http(sites) => {
                let choice = ProtocolChoice::of(sites);
                // Between two requests, and as a relay, it holds no configuration.
                drop(snapshot);
                self.guard.watch().generation.set(0);
                return match boxed(|| self.is_http2(&mut client, choice)).await {
                    Ok(true) => OpenedConnection::Http2(Box::new(client)),
                    Ok(false) => OpenedConnection::Http1(Box::new(client)),
                    Err(termination) => OpenedConnection::Over(termination),
                };
            }
            ConnectionPurpose::Relay(relaying) => relaying,
        };
        let generation = &snapshot.generation;
        OpenedConnection::Over(
            match boxed(|| self.join(client, relaying, generation)).await {
                Ok(mut relay) => {
                    self.shape(&mut relay, relaying.shape.as_ref());
                    let (idle, keepalive) = (relaying.idle, relaying.keepalive);
                    drop(snapshot);
                    self.relay(&mut relay, idle, keepalive).await
                }
                Err(termination) => termination,
            },
        )
    }

    /// Relays what HTTP/1 has switched to.
    fn relay_switched(&mut self, switched: SwitchedRelay) -> impl Future<Output = Termination> {
        let SwitchedRelay {
            mut relay,
            tunnel_limits,
            cells,
            in_flight,
            tunnel_permits,
        } = switched;
        self.guard.watch().set_wait(WaitReason::Nothing);
        tunnel_limits.begin(&self.guard);
        let (idle, keepalive) = (tunnel_limits.idle, tunnel_limits.keepalive);
        async move {
            cells.upgraded.inc();
            let termination = self.relay(&mut relay, idle, keepalive).await;
            cells.upgraded.dec();
            // Held until here.
            drop((in_flight, tunnel_permits));
            termination
        }
    }

    /// Whether an opened connection is one of HTTP/2: by ALPN, and without TLS by its first bytes.
    async fn is_http2(
        &mut self,
        client: &mut ClientTransport,
        choice: ProtocolChoice,
    ) -> Result<bool, Termination> {
        if let Some(negotiated) = &self.negotiated {
            return Ok(negotiated.alpn.as_deref() == Some(b"h2") || !choice.http1);
        }
        if !choice.h2c || !choice.http1 {
            return Ok(choice.h2c);
        }
        self.guard.begin_phase(choice.idle);
        self.guard.watch().set_wait(WaitReason::ForRequest);
        let guard = &self.guard;
        let begins = || {
            guard.begin_phase(choice.head);
            guard.watch().set_wait(WaitReason::ForHead);
        };
        let mut first = FirstBytes {
            socket: &client.socket,
            received: &mut client.received,
        };
        let known = guard.within(first.prior_knowledge(begins)).await;
        guard.watch().set_wait(WaitReason::Nothing);
        self.spoke |= !client.received.is_empty();
        match known {
            Ok(Ok(known)) => Ok(known),
            Ok(Err(OpeningError::Closed)) => Err(Termination::client_closed()),
            Ok(Err(error)) => Err(Termination::client_reset(error)),
            Err(Cut::Deadline) if client.received.is_empty() => Err(Termination::idle()),
            Err(cut) => Err(termination_of_cut(cut, "first request")),
        }
    }
}
