//! A connection's life as a relay: an endpoint for it, then bytes both ways.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_limits::MemberIndex;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{ConnectionUse, Cut, WaitReason};
use lockgate_net::listen::{self, Peer};
use lockgate_net::millis::Millis;
use lockgate_net::relay::{ByteObserver, Relay};
use lockgate_rules::{ProxyVersion, SentHeader};
use lockgate_upstream::{AffinityInput, DialError, Pool, SessionIdReader};

use super::ClientConnection;
use crate::access_log::{Cause, CauseSide};
use crate::action::relay::{ClientTransport, join};
use crate::downstream::RelaySettings;
use crate::downstream::termination::{Termination, termination_of_cut, termination_of_relay};
use crate::generation::Generation;
use crate::shaping::Shape;

/// The time that session tickets wait for a response to share a packet with.
const MOMENT: Duration = Duration::from_millis(100);
/// The age at which a connection is worth the system calls that only long-lived ones need.
const YOUTH: Duration = Duration::from_secs(5);

/// How long a relay has run.
#[derive(Debug, Clone, Copy)]
enum RelayAge {
    /// Session tickets wait for a response.
    Holding,
    /// It may be over soon.
    Young,
    /// It is worth keep-alive probes.
    Old,
}

impl RelayAge {
    /// How long it lasts, if not until the end.
    fn limit(self) -> Option<Duration> {
        match self {
            Self::Holding => Some(MOMENT),
            Self::Young => Some(YOUTH),
            Self::Old => None,
        }
    }
}

impl ClientConnection {
    /// Connects to an endpoint and joins the client to it.
    pub(in crate::downstream) async fn join(
        &mut self,
        client: ClientTransport,
        relaying: &RelaySettings,
        generation: &Generation,
    ) -> Result<Relay, Termination> {
        let watch = self.guard.watch();
        watch.set_wait(WaitReason::ForTunnel);
        watch.used_as.set(ConnectionUse::Relay);
        self.relay = generation.cells.relay(relaying.index).cloned();
        if let Some(cells) = &self.relay {
            // A connection is relayed once.
            let _ = watch.relay_traffic.set(Arc::clone(cells) as _);
            cells.begun.inc();
            cells.open.inc();
        }
        let start = Instant::now();
        let proxy_header = self.relay_proxy_header(&client, relaying);
        let session = self.session.take();
        let affinity_input = AffinityInput {
            client: self.client_ip(),
            server_name: self.server_name.as_deref(),
            session: session.as_deref(),
            fields: None,
        };
        let now = self.guard.clock().now();
        let preference = relaying.pool.preference(&affinity_input, now);
        let sockets = &self.worker.sockets;
        let dialled = relaying
            .pool
            .dial(
                &self.guard,
                sockets,
                relaying.connect,
                &proxy_header,
                preference,
            )
            .await;
        let took = start.elapsed();
        self.connect = Some(took);
        let error = match dialled {
            Ok((member, dialled)) => {
                self.cells().connect.record(took);
                if let Some(cells) = &self.relay {
                    cells.connect.record(took);
                }
                let (mut relay, permit) =
                    join(client, dialled, proxy_header).map_err(Termination::internal)?;
                self.endpoint_permit = Some(permit);
                if relaying.pool.settings.sessions().is_some() {
                    let (pool, reader) = (Arc::clone(&relaying.pool), SessionIdReader::default());
                    relay.observe_upstream(Box::new(SessionSniffer {
                        pool,
                        member,
                        now,
                        reader,
                    }));
                }
                return Ok(relay);
            }
            Err(DialError::Cut(cut)) => return Err(termination_of_cut(cut, "connecting")),
            Err(error @ (DialError::Full | DialError::QueueFull | DialError::Exhausted(_))) => {
                return Err(Termination::limit(error));
            }
            Err(error) => error,
        };
        let response = relaying
            .pool
            .settings
            .maintenance
            .as_ref()
            .filter(|_| matches!(error, DialError::Down));
        if let Some((status, page)) = response
            && boxed(|| self.respond_maintenance(client, *status, page)).await
        {
            let detail = format_args!("{error}; the client got the maintenance response");
            return Err(Termination::connect_failed(detail));
        }
        Err(Termination::connect_failed(error))
    }

    /// The PROXY header that the endpoint of a relay gets; empty where it gets none.
    fn relay_proxy_header(
        &mut self,
        client: &ClientTransport,
        relaying: &RelaySettings,
    ) -> Vec<u8> {
        let version = match relaying.proxy_protocol {
            None => return Vec::new(),
            Some(SentHeader::Pass) => match &mut self.received_proxy_header {
                Some(header) if !header.bytes.is_empty() => {
                    return std::mem::take(&mut header.bytes);
                }
                _ => ProxyVersion::V2,
            },
            Some(SentHeader::Own(version)) => version,
        };
        let addresses = self.addresses(|| listen::local_address(&client.socket).ok());
        self.proxy_header(version, addresses)
    }

    /// Holds a relay to the rates of its table, if that has some.
    pub(in crate::downstream) fn shape(&self, relay: &mut Relay, shape: Option<&Arc<Shape>>) {
        let Some(shape) = shape else { return };
        let shapers = shape.shapers(
            &shape.connection(),
            self.client_ip(),
            None,
            &self.worker.shaping_queue,
        );
        relay.shape(shapers.received, shapers.sent);
    }

    fn client_ip(&self) -> Option<IpAddr> {
        match self.client {
            Peer::Ip(client) => Some(client.ip()),
            Peer::Unix => None,
        }
    }

    /// Moves bytes until the connection is over.
    ///
    /// One wait for all its ages, of a function: it lives as long as the connection, and a second wait
    /// or an async function within would each have room of their own.
    pub(in crate::downstream) async fn relay(
        &mut self,
        relay: &mut Relay,
        idle: Duration,
        keepalive: Option<Duration>,
    ) -> Termination {
        let Some(permit) = &self.endpoint_permit else {
            return Termination::new(Cause::Internal, CauseSide::Lockgate);
        };
        self.guard.limit_idle(idle);
        let mut age = RelayAge::Holding;
        if !relay.holds() {
            relay.release();
            age = RelayAge::Young;
        }
        loop {
            match age.limit() {
                Some(limit) => self.guard.begin_phase(limit),
                None => self.guard.end_phase(),
            }
            let run = self.guard.poll_within(|cx| {
                let (buffers, meter) = (&self.worker.relay_buffers, &self.guard.watch().meter);
                relay.poll_run(cx, buffers, meter, &permit.endpoint().stalls)
            });
            match (run.await, age) {
                (Err(Cut::Deadline), RelayAge::Holding) => {
                    relay.release();
                    age = RelayAge::Young;
                }
                (Err(Cut::Deadline), RelayAge::Young) => {
                    if let Some(idle) = keepalive {
                        // Without probes a dead peer is found by the idle limit.
                        let _ = relay.probe(idle);
                    }
                    relay.rest();
                    age = RelayAge::Old;
                }
                (Ok(end), _) => return termination_of_relay(end),
                (Err(cut), _) => {
                    boxed(|| relay.abandon()).await;
                    if cut == Cut::Memory {
                        // What it has not taken is not to stay in the kernel.
                        relay.reset();
                    }
                    return termination_of_cut(cut, "relay");
                }
            }
        }
    }
}

/// Hears which TLS session an endpoint makes or resumes.
#[derive(Debug)]
struct SessionSniffer {
    pool: Arc<Pool>,
    /// The endpoint.
    member: MemberIndex,
    /// When it was connected to.
    now: Millis,
    reader: SessionIdReader,
}

impl ByteObserver for SessionSniffer {
    fn observe(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let Some(session) = self.reader.session(bytes) else {
            return ControlFlow::Continue(());
        };
        if let Some(sessions) = self.pool.settings.sessions() {
            sessions.learn(&session, self.member, self.now);
        }
        ControlFlow::Break(())
    }
}
