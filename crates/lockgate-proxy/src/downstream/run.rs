//! A client's connection from its acceptance to its end: what it opens with, and the protocol that it
//! speaks then.

use std::rc::Rc;
use std::sync::Arc;

use lockgate_net::socket::Socket;

use super::connection::{Connection, Purpose};
use super::ending::{Ending, cut_short};
use super::http::Served;
use super::http2::Streams;
use super::opening::{self, OpeningError};
use crate::access_log::{Cause, Side};
use crate::action::relay::Client;
use crate::box_future::boxed;
use crate::clock::{Cut, WaitReason};
use crate::limits;
use crate::memory::weighed;
use crate::site::Sites;

/// What came of a connection's opening.
enum Opened {
    /// It is over.
    Over(Ending),
    /// It goes on as HTTP/2, with its place among those of its client.
    Http2(Client, Option<limits::Place>),
}

impl Connection {
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
                        tunnel_limits,
                        site,
                        _in_flight,
                        _shares,
                    } => {
                        let worker = Rc::clone(&self.worker);
                        let cells = worker.cells.http.site(site);
                        self.guard.watch().set_wait(WaitReason::Otherwise);
                        cells.upgraded.inc();
                        tunnel_limits.begin(&self.guard);
                        let ending = self
                            .relay(&mut relay, tunnel_limits.idle, tunnel_limits.keepalive)
                            .await;
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
        self.guard.watch().set_wait(WaitReason::ForRequest);
        let guard = &self.guard;
        let begins = || {
            guard.phase(sites.head);
            guard.watch().set_wait(WaitReason::ForOpening);
        };
        let known = opening::prior_knowledge(&client.socket, &mut client.received, begins);
        let known = guard.within(known).await;
        guard.watch().set_wait(WaitReason::Otherwise);
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
}
