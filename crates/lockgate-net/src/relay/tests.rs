//! Relays over sockets, with scripted peers on both sides and no clock.

mod shaped;

use super::*;
use crate::reactor;
use crate::reactor::testing::{self, run};
use crate::tls::handshake::tests::{
    Pair, Rustls, TERMS, TLS12_TERMS, TLS13_TERMS, client_config, client_pair, longest_tickets,
    pair, receive_all, receive_some, send_all, server_config, settled_pair, tcp_sockets, twins,
    unix_sockets,
};
use crate::tls::record::{ContentType, RecordOpener};

/// Two peers with a relay between them.
struct Bench {
    client: Socket,
    origin: Socket,
    relay: Relay,
    relay_buffers: Rc<RelayBuffers>,
    meter: Rc<Meter>,
    stalls: Rc<EndpointStalls>,
}

impl Bench {
    fn plain(sockets: fn() -> (Socket, Socket)) -> Self {
        Self::new(sockets, None, None, RelayPreface::default())
    }

    fn new(
        sockets: fn() -> (Socket, Socket),
        down: Option<Box<TlsSession>>,
        up: Option<Box<TlsSession>>,
        preface: RelayPreface,
    ) -> Self {
        let ((client, near), (far, origin)) = (sockets(), sockets());
        let relay = Relay::new(side(near, down), side(far, up), preface).unwrap();
        let (meter, stalls) = (Rc::default(), Rc::default());
        Self {
            client,
            origin,
            relay,
            relay_buffers: RelayBuffers::new(Pipes::new(8), ShapingQueue::new().unwrap()),
            meter,
            stalls,
        }
    }

    /// Starts the relay and leaves the peers.
    fn start(mut self) -> Running {
        let meter = self.meter.clone();
        let task = testing::spawn(async move {
            let end = poll_fn(|cx| {
                self.relay
                    .poll_run(cx, &self.relay_buffers, &self.meter, &self.stalls)
            })
            .await;
            (end, self.relay)
        });
        Running {
            client: self.client,
            origin: self.origin,
            task,
            meter,
        }
    }

    /// Polls the relay until it waits, at most `turns` times; returns its end, if it came.
    async fn poll_until_idle(&mut self, turns: usize) -> Option<RelayOutcome> {
        for _ in 0..turns {
            // Lets the reactor check which sockets are ready.
            reactor::yield_now().await;
            let polled = poll_fn(|cx| {
                let (buffers, meter) = (&self.relay_buffers, &self.meter);
                Poll::Ready(self.relay.poll_run(cx, buffers, meter, &self.stalls))
            });
            if let Poll::Ready(end) = polled.await {
                return Some(end);
            }
        }
        None
    }
}

struct Running {
    client: Socket,
    origin: Socket,
    task: testing::Joined<(RelayOutcome, Relay)>,
    meter: Rc<Meter>,
}

fn side(socket: Socket, session: Option<Box<TlsSession>>) -> RelayEnd {
    match session {
        Some(session) => RelayEnd::tls(socket, session),
        None => RelayEnd::plain(socket),
    }
}

const MS: crate::nanos::Nanos = crate::nanos::Nanos::from_millis(1);
const SOCKETS: [fn() -> (Socket, Socket); 2] = [unix_sockets, tcp_sockets];

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 % 253) as u8).collect()
}

fn finished(end: &RelayOutcome) -> RelaySide {
    match end {
        RelayOutcome::Finished(first) => *first,
        RelayOutcome::Failed(which, error) => panic!("{which:?} failed: {error}"),
    }
}

#[test]
fn half_close_of_either_side_is_passed_on() {
    for sockets in SOCKETS {
        run(async {
            let Running {
                client,
                origin,
                task,
                meter,
                ..
            } = Bench::plain(sockets).start();
            send_all(&client, b"question").await;
            client.shutdown_write().unwrap();
            assert_eq!(receive_all(&origin).await.unwrap(), b"question");
            for word in ["one", "two"] {
                send_all(&origin, word.as_bytes()).await;
                assert_eq!(receive_some(&client).await.unwrap(), word.as_bytes());
            }
            drop(origin);
            let (end, relay) = task.await.unwrap();
            assert_eq!(finished(&end), RelaySide::Downstream);
            drop(relay);
            assert_eq!(
                receive_some(&client).await.unwrap(),
                b"",
                "an end, not a reset"
            );
            assert_eq!((meter.received.get(), meter.sent.get()), (8, 6));
        });
        run(async {
            let Running {
                client,
                origin,
                task,
                ..
            } = Bench::plain(sockets).start();
            send_all(&origin, b"greeting").await;
            origin.shutdown_write().unwrap();
            assert_eq!(receive_all(&client).await.unwrap(), b"greeting");
            send_all(&client, b"bye").await;
            assert_eq!(receive_some(&origin).await.unwrap(), b"bye");
            drop(client);
            let (end, relay) = task.await.unwrap();
            assert_eq!(finished(&end), RelaySide::Upstream);
            drop(relay);
            assert_eq!(receive_some(&origin).await.unwrap(), b"");
        });
    }
}

#[test]
fn a_relay_copies_both_directions_at_once() {
    for sockets in SOCKETS {
        run(async {
            let Running {
                client,
                origin,
                task,
                meter,
                ..
            } = Bench::plain(sockets).start();
            let (up, down) = (bytes(3_000_000), bytes(2_000_001));
            let (client, origin) = (Rc::new(client), Rc::new(origin));
            for (from, data) in [(client.clone(), up.clone()), (origin.clone(), down.clone())] {
                testing::spawn(async move {
                    send_all(&from, &data).await;
                    from.shutdown_write().unwrap();
                });
            }
            let at_client = testing::spawn({
                let client = client.clone();
                async move { receive_all(&client).await.unwrap() }
            });
            let at_origin = testing::spawn({
                let origin = origin.clone();
                async move { receive_all(&origin).await.unwrap() }
            });
            let (end, relay) = task.await.unwrap();
            finished(&end);
            // The direction that ends last is closed.
            drop(relay);
            assert!(at_client.await.unwrap() == down);
            assert!(at_origin.await.unwrap() == up);
            assert_eq!(
                (meter.received.get(), meter.sent.get()),
                (3_000_000, 2_000_001)
            );
        });
    }
}

#[test]
fn backpressure_of_a_sink_stops_reading_from_the_source() {
    for terms in [None, Some(TLS13_TERMS)] {
        run(async {
            let session = terms.map(|terms| settled_pair(terms).session);
            let mut bench = Bench::new(unix_sockets, session, None, RelayPreface::default());
            // The client never reads; the origin sends until its socket is full.
            let (mut sent, data) = (0, bytes(1 << 16));
            for _ in 0..1000 {
                if let Ok(more) = rustix::io::write(&bench.origin, &data) {
                    sent += more;
                }
                assert!(bench.poll_until_idle(1).await.is_none());
            }
            assert_eq!(
                rustix::io::write(&bench.origin, &data),
                Err(rustix::io::Errno::AGAIN)
            );
            let kept = bench.relay.downward.pending.len() - bench.relay.downward.sent;
            assert!(
                kept > 0
                    && bench.relay.downward.pending.capacity()
                        <= TlsSession::sealed_len(ReadSize::MOST_WIRE),
                "{kept}"
            );
            assert!(sent < 4 << 20 && bench.meter.sent.get() <= sent as u64);
            assert!(bench.relay.upward.pending.is_empty());
        });
    }
}

#[test]
fn pending_bytes_arrive_and_their_buffer_is_released() {
    run(async {
        let mut bench = Bench::plain(unix_sockets);
        let data = bytes(1 << 16);
        let mut sent = Vec::new();
        while let Ok(more) = rustix::io::write(&bench.origin, &data) {
            sent.extend_from_slice(&data[..more]);
            assert!(bench.poll_until_idle(3).await.is_none());
        }
        assert!(bench.relay.downward.pending.capacity() > 0);
        drop(std::mem::replace(&mut bench.origin, unix_sockets().0));
        let client = std::mem::replace(&mut bench.client, unix_sockets().0);
        let reading = testing::spawn(async move { (receive_all(&client).await.unwrap(), client) });
        let task = bench.start().task;
        let (received, client) = reading.await.unwrap();
        assert!(received == sent);
        drop(client);
        let (end, relay) = task.await.unwrap();
        assert_eq!(finished(&end), RelaySide::Upstream);
        assert_eq!(relay.downward.pending.capacity(), 0);
    });
}

/// Carries `len` bytes downward over a relay that is polled here; returns whether a pipe was used,
/// and the bytes that arrived.
async fn carry(bench: &mut Bench, data: &[u8]) -> Carried {
    let (mut spliced, mut mark, mut sent, mut received) = (false, None, 0, Vec::new());
    let mut buffer = vec![0; 1 << 20];
    while received.len() < data.len() {
        if let Ok(more) = rustix::io::write(&bench.origin, &data[sent..]) {
            sent += more;
        }
        assert!(bench.poll_until_idle(1).await.is_none());
        spliced |= bench.relay.downward.spliced.is_some();
        mark = mark.or(bench.relay.downward.bulk().mark());
        if let Ok(more) = rustix::io::read(&bench.client, &mut buffer) {
            received.extend_from_slice(&buffer[..more]);
        }
    }
    Carried {
        spliced,
        mark,
        received,
    }
}

/// What came of data that was carried: whether it was spliced, and how much was once awaited.
struct Carried {
    spliced: bool,
    mark: Option<usize>,
    received: Vec<u8>,
}

#[test]
fn plain_tcp_bulk_is_spliced_unchanged() {
    run(async {
        let mut bench = Bench::plain(tcp_sockets);
        let data = bytes(20_000_000);
        let carried = carry(&mut bench, &data).await;
        assert!(carried.spliced && carried.received == data);
        assert_eq!(bench.meter.sent.get(), 20_000_000);
        assert_eq!(carried.mark, Some(512 * 1024), "half a pipe is awaited");
        // An end in the middle of it, and the other direction after that.
        bench.origin.shutdown_write().unwrap();
        assert!(bench.poll_until_idle(3).await.is_none());
        assert_eq!(receive_some(&bench.client).await.unwrap(), b"");
        send_all(&bench.client, b"thanks").await;
        assert!(bench.poll_until_idle(3).await.is_none());
        assert_eq!(receive_some(&bench.origin).await.unwrap(), b"thanks");
        assert!(
            bench.relay.downward.pipe.is_none(),
            "the pipe was given back"
        );
    });
}

/// A tap that takes so many bytes.
#[derive(Debug)]
struct Hears(usize, Rc<RefCell<Vec<u8>>>);

impl ByteObserver for Hears {
    fn observe(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let mut heard = self.1.borrow_mut();
        heard.extend_from_slice(bytes);
        if heard.len() < self.0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

#[test]
fn a_tap_sees_the_first_bytes_before_bulk_is_spliced() {
    run(async {
        let mut bench = Bench::plain(tcp_sockets);
        let heard = Rc::default();
        bench
            .relay
            .observe_upstream(Box::new(Hears(5, Rc::clone(&heard))));
        for (piece, after) in [
            ("he", "he"),
            ("l", "hel"),
            ("lo, all", "hello, all"),
            ("not", "hello, all"),
        ] {
            send_all(&bench.origin, piece.as_bytes()).await;
            assert!(bench.poll_until_idle(2).await.is_none());
            assert_eq!(heard.borrow().as_slice(), after.as_bytes());
            assert_eq!(receive_some(&bench.client).await.unwrap(), piece.as_bytes());
            // The client's bytes are not for the tap.
            send_all(&bench.client, b"client").await;
            assert!(bench.poll_until_idle(2).await.is_none());
            assert_eq!(receive_some(&bench.origin).await.unwrap(), b"client");
        }
        for enough in [1, usize::MAX] {
            bench
                .relay
                .observe_upstream(Box::new(Hears(enough, Rc::default())));
            let data = bytes(5_000_000);
            let Carried {
                spliced, received, ..
            } = carry(&mut bench, &data).await;
            assert!(spliced && received == data, "{enough}");
        }
    });
}

#[test]
fn relays_that_wait_lend_their_pipe_to_others() {
    run(async {
        let mut benches = [Bench::plain(tcp_sockets), Bench::plain(tcp_sockets)];
        let shared = RelayBuffers::new(Pipes::new(1), ShapingQueue::new().unwrap());
        for bench in &mut benches {
            bench.relay_buffers = Rc::clone(&shared);
        }
        let data = bytes(5_000_000);
        for bench in &mut benches {
            let carried = carry(bench, &data).await;
            assert!(carried.spliced && carried.received == data);
        }
        for bench in &benches {
            assert!(bench.relay.downward.spliced.is_some());
            assert!(bench.relay.downward.pipe.is_none());
        }
    });
}

#[test]
fn small_pieces_after_bulk_end_splicing() {
    run(async {
        let mut bench = Bench::plain(tcp_sockets);
        assert!(carry(&mut bench, &bytes(5_000_000)).await.spliced);
        for word in ["a", "few", "words", "more", "than", "that"] {
            send_all(&bench.origin, word.as_bytes()).await;
            assert!(bench.poll_until_idle(2).await.is_none());
            assert_eq!(receive_some(&bench.client).await.unwrap(), word.as_bytes());
        }
        assert!(bench.relay.downward.spliced.is_none());
        assert!(
            carry(&mut bench, &bytes(5_000_000)).await.spliced,
            "and bulk is spliced again"
        );
    });
}

#[test]
fn splice_needs_plain_tcp_on_both_sides() {
    run(async {
        let data = bytes(5_000_000);
        let Carried {
            spliced, received, ..
        } = carry(&mut Bench::plain(unix_sockets), &data).await;
        assert!(!spliced && received == data);
        let session = settled_pair(TLS13_TERMS).session;
        let mut bench = Bench::new(tcp_sockets, Some(session), None, RelayPreface::default());
        assert!(!carry(&mut bench, &data).await.spliced);
    });
}

#[test]
fn without_a_pipe_bulk_is_copied() {
    run(async {
        let mut bench = Bench::plain(tcp_sockets);
        bench.relay_buffers = RelayBuffers::new(Pipes::new(0), ShapingQueue::new().unwrap());
        let Running {
            client,
            origin,
            task,
            ..
        } = bench.start();
        let sending = testing::spawn(async move {
            send_all(&origin, &bytes(5_000_000)).await;
            origin.shutdown_write().unwrap();
            origin
        });
        assert!(receive_all(&client).await.unwrap() == bytes(5_000_000));
        drop(client);
        finished(&task.await.unwrap().0);
        drop(sending.await.unwrap());
    });
}

#[test]
fn a_relay_terminates_and_originates_tls_on_either_side() {
    for terms in TERMS {
        run(async {
            let Pair {
                client: mut tls_client,
                session: down,
                ..
            } = settled_pair(terms);
            let (server, up) = twins(terms);
            let (mut tls_origin, up) = (server.session(), up.session());
            let bench = Bench::new(unix_sockets, Some(down), Some(up), RelayPreface::default());
            let Running {
                client,
                origin,
                task,
                meter,
                ..
            } = bench.start();
            send_all(&client, &tls_client.protect(&bytes(40_000))).await;
            let mut got = Vec::new();
            while got.len() < 40_000 {
                got.extend(opened(
                    &mut tls_origin,
                    &receive_some(&origin).await.unwrap(),
                ));
            }
            assert!(got == bytes(40_000), "{terms:?}");
            send_all(&origin, &sealed(&mut tls_origin, &bytes(20_000))).await;
            let mut got = Vec::new();
            while got.len() < 20_000 {
                got.extend(
                    tls_client
                        .receive(&receive_some(&client).await.unwrap())
                        .unwrap(),
                );
            }
            assert!(got == bytes(20_000));
            send_all(&client, &tls_client.close()).await;
            opened(&mut tls_origin, &receive_all(&origin).await.unwrap());
            assert!(
                tls_origin.is_closed(),
                "a close is passed on by TLS and by TCP"
            );
            let mut close = Vec::new();
            tls_origin.seal_close(&mut close);
            send_all(&origin, &close).await;
            let (end, relay) = task.await.unwrap();
            assert_eq!(finished(&end), RelaySide::Downstream);
            drop(relay);
            tls_client
                .receive(&receive_all(&client).await.unwrap())
                .unwrap();
            assert!(tls_client.process_new_packets().unwrap().peer_has_closed());
            assert_eq!((meter.received.get(), meter.sent.get()), (40_000, 20_000));
        });
    }
}

fn sealed(session: &mut TlsSession, data: &[u8]) -> Vec<u8> {
    let mut wire = vec![0; TlsSession::sealed_len(data.len())];
    let used = session.seal(data, &mut wire).unwrap();
    wire.truncate(used);
    wire
}

fn opened(session: &mut TlsSession, wire: &[u8]) -> Vec<u8> {
    let mut whole = session.take_partial();
    whole.extend_from_slice(wire);
    let mut plain = vec![0; whole.len()];
    let done = session.open(&whole, &mut plain).unwrap();
    session.keep_partial(&whole[done.consumed..]);
    plain.truncate(done.produced);
    plain
}

#[test]
fn a_truncated_source_sends_no_close_notify_to_the_sink() {
    for cut_in_a_record in [false, true] {
        run(async {
            let (server, up) = twins(TLS13_TERMS);
            let (mut tls_origin, up) = (server.session(), up.session());
            let Pair {
                client: mut tls_client,
                session: down,
                ..
            } = settled_pair(TLS13_TERMS);
            let Running {
                client,
                origin,
                task,
                ..
            } = Bench::new(unix_sockets, Some(down), Some(up), RelayPreface::default()).start();
            let mut wire = sealed(&mut tls_origin, b"half of it");
            if cut_in_a_record {
                wire.extend(&sealed(&mut tls_origin, b"the other half")[..9]);
            }
            send_all(&origin, &wire).await;
            origin.shutdown_write().unwrap();
            assert_eq!(
                tls_client
                    .receive(&receive_all(&client).await.unwrap())
                    .unwrap(),
                b"half of it"
            );
            assert!(!tls_client.process_new_packets().unwrap().peer_has_closed());
            drop((client, origin));
            task.await.unwrap();
        });
    }
}

#[test]
fn a_plain_fin_becomes_close_notify_for_a_tls_sink() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            ..
        } = settled_pair(TLS12_TERMS);
        let Running {
            client,
            origin,
            task,
            ..
        } = Bench::new(unix_sockets, Some(session), None, RelayPreface::default()).start();
        origin.shutdown_write().unwrap();
        assert_eq!(
            tls_client
                .receive(&receive_all(&client).await.unwrap())
                .unwrap(),
            b""
        );
        assert!(tls_client.process_new_packets().unwrap().peer_has_closed());
        drop((client, origin));
        task.await.unwrap();
    });
}

#[test]
fn held_session_tickets_are_sent_with_the_first_data() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            unsent,
        } = pair(TLS13_TERMS);
        let preface = RelayPreface {
            downstream: unsent.clone(),
            ..RelayPreface::default()
        };
        let mut bench = Bench::new(unix_sockets, Some(session), None, preface);
        send_all(&bench.origin, b"answer").await;
        assert!(bench.poll_until_idle(3).await.is_none());
        let first = receive_some(&bench.client).await.unwrap();
        assert_eq!(
            first[..unsent.len()],
            unsent,
            "tickets first, by their numbers"
        );
        assert_eq!(tls_client.receive(&first).unwrap(), b"answer");
        assert!(tls_client.tls13_tickets_received() > 0);
    });
}

#[test]
fn held_session_tickets_wait_until_released() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            unsent,
        } = pair(TLS13_TERMS);
        let preface = RelayPreface {
            downstream: unsent.clone(),
            ..RelayPreface::default()
        };
        let mut bench = Bench::new(unix_sockets, Some(session), None, preface);
        assert!(bench.poll_until_idle(3).await.is_none());
        assert_eq!(
            rustix::io::read(&bench.client, &mut [0; 1]),
            Err(rustix::io::Errno::AGAIN)
        );
        assert!(bench.relay.holds());
        bench.relay.release();
        assert!(bench.poll_until_idle(3).await.is_none() && !bench.relay.holds());
        let first = receive_some(&bench.client).await.unwrap();
        assert_eq!(first, unsent);
        tls_client.receive(&first).unwrap();
        bench.relay.release();
        send_all(&bench.origin, b"later").await;
        assert!(bench.poll_until_idle(3).await.is_none());
        assert_eq!(
            tls_client
                .receive(&receive_some(&bench.client).await.unwrap())
                .unwrap(),
            b"later"
        );
    });
}

#[test]
fn released_session_tickets_are_sent_with_pending_data() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            unsent,
        } = pair(TLS13_TERMS);
        let preface = RelayPreface {
            downstream: unsent,
            ..RelayPreface::default()
        };
        let mut bench = Bench::new(unix_sockets, Some(session), None, preface);
        let (mut sent, mut received) = (0, 0);
        while bench.relay.downward.pending.is_empty() {
            sent += rustix::io::write(&bench.origin, &bytes(1 << 16)).unwrap_or(0);
            assert!(bench.poll_until_idle(1).await.is_none());
        }
        assert!(!bench.relay.holds());
        bench.relay.release();
        while received < sent {
            received += tls_client
                .receive(&receive_some(&bench.client).await.unwrap())
                .unwrap()
                .len();
            assert!(bench.poll_until_idle(2).await.is_none());
        }
        assert!(tls_client.tls13_tickets_received() > 0);
    });
}

#[test]
fn held_session_tickets_precede_close_notify_and_key_update() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            unsent,
        } = pair(TLS13_TERMS);
        let preface = RelayPreface {
            downstream: unsent,
            ..RelayPreface::default()
        };
        let mut bench = Bench::new(unix_sockets, Some(session), None, preface);
        bench.origin.shutdown_write().unwrap();
        assert!(bench.poll_until_idle(3).await.is_none());
        tls_client
            .receive(&receive_all(&bench.client).await.unwrap())
            .unwrap();
        assert!(tls_client.tls13_tickets_received() > 0);
        assert!(tls_client.process_new_packets().unwrap().peer_has_closed());
    });
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            unsent,
        } = pair(TLS13_TERMS);
        let preface = RelayPreface {
            downstream: unsent,
            ..RelayPreface::default()
        };
        let mut bench = Bench::new(unix_sockets, Some(session), None, preface);
        tls_client.refresh_traffic_keys().unwrap();
        send_all(&bench.client, &tls_client.protect(b"x")).await;
        send_all(&bench.origin, b"y").await;
        assert!(bench.poll_until_idle(3).await.is_none());
        assert_eq!(receive_some(&bench.origin).await.unwrap(), b"x");
        let mut got = Vec::new();
        while got.is_empty() {
            got = tls_client
                .receive(&receive_some(&bench.client).await.unwrap())
                .unwrap();
        }
        assert_eq!(
            (got.as_slice(), tls_client.tls13_tickets_received() > 0),
            (&b"y"[..], true)
        );
    });
}

/// The pending bytes of a slow sink are one read: it must not stay a large one.
#[test]
fn the_read_size_follows_the_speed_of_the_sink() {
    run(async {
        // Not spliced: only one side is TCP.
        let ((client, near), (far, origin)) = (tcp_sockets(), unix_sockets());
        let relay = Relay::new(side(near, None), side(far, None), RelayPreface::default()).unwrap();
        let relay_buffers = RelayBuffers::new(Pipes::new(0), ShapingQueue::new().unwrap());
        let mut bench = Bench {
            client,
            origin,
            relay,
            relay_buffers,
            meter: Rc::default(),
            stalls: Rc::default(),
        };
        let (data, mut sink) = (bytes(1 << 20), vec![0; 1 << 20]);
        let mut turns = async |bench: &mut Bench| {
            let mut largest = 0;
            for _ in 0..100 {
                while rustix::io::write(&bench.client, &data).is_ok() {}
                assert!(bench.poll_until_idle(1).await.is_none());
                largest = largest.max(bench.relay.upward.read_size().plain());
                while rustix::io::read(&bench.origin, &mut sink).is_ok() {}
            }
            largest
        };
        assert!(turns(&mut bench).await > ReadSize::default().plain());
        rustix::net::sockopt::set_socket_send_buffer_size(bench.relay.up.socket(), 4096).unwrap();
        turns(&mut bench).await;
        assert_eq!(turns(&mut bench).await, 32 * 1024);
    });
}

/// The worker's buffers must hold them beside the data.
#[test]
fn session_tickets_of_any_length_precede_the_first_data() {
    let tickets = longest_tickets();
    run(async {
        let Pair { session, .. } = settled_pair(TLS13_TERMS);
        let preface = RelayPreface {
            downstream: tickets.clone(),
            ..RelayPreface::default()
        };
        let mut bench = Bench::new(unix_sockets, Some(session), None, preface);
        let data = bytes(ReadSize::default().plain());
        send_all(&bench.origin, &data).await;
        let mut received = Vec::new();
        while received.len() < tickets.len() + data.len() {
            assert!(bench.poll_until_idle(3).await.is_none());
            received.extend(receive_some(&bench.client).await.unwrap());
        }
        assert!(received[..tickets.len()] == tickets);
    });
}

#[test]
fn the_preface_is_sent_before_any_relayed_data() {
    run(async {
        let preface = RelayPreface {
            upstream: b"PROXY UNKNOWN\r\n".to_vec(),
            ..RelayPreface::default()
        };
        let Running {
            client,
            origin,
            meter,
            ..
        } = Bench::new(unix_sockets, None, None, preface).start();
        send_all(&client, b"GET /").await;
        client.shutdown_write().unwrap();
        assert_eq!(
            receive_all(&origin).await.unwrap(),
            b"PROXY UNKNOWN\r\nGET /"
        );
        assert_eq!(meter.received.get(), 5);
    });
    run(async {
        let (server, up) = twins(TLS13_TERMS);
        let (mut tls_origin, up) = (server.session(), up.session());
        let preface = RelayPreface {
            upstream: b"read already".to_vec(),
            ..RelayPreface::default()
        };
        let Running { origin, .. } = Bench::new(unix_sockets, None, Some(up), preface).start();
        assert_eq!(
            opened(&mut tls_origin, &receive_some(&origin).await.unwrap()),
            b"read already"
        );
    });
}

#[test]
fn a_requested_key_update_is_answered_without_application_data() {
    run(async {
        let (up, mut tls_origin) =
            client_pair(&client_config(TLS13_TERMS), &server_config(TLS13_TERMS));
        let mut bench = Bench::new(unix_sockets, None, Some(up), RelayPreface::default());
        let mut wire = tls_origin.take_sent();
        tls_origin.refresh_traffic_keys().unwrap();
        wire.extend(tls_origin.take_sent());
        send_all(&bench.origin, &wire).await;
        assert!(bench.poll_until_idle(3).await.is_none());
        let answer = receive_some(&bench.origin).await.unwrap();
        assert_eq!(tls_origin.receive(&answer).unwrap(), b"", "a key update");
        send_all(&bench.client, b"under the new key").await;
        assert!(bench.poll_until_idle(3).await.is_none());
        assert_eq!(
            tls_origin
                .receive(&receive_some(&bench.origin).await.unwrap())
                .unwrap(),
            b"under the new key"
        );
    });
}

#[test]
fn a_downstream_tls_error_sends_an_alert_and_resets_upstream() {
    for terms in TERMS {
        run(async {
            let Pair {
                client: mut tls_client,
                session,
                ..
            } = settled_pair(terms);
            let Running {
                client,
                origin,
                task,
                ..
            } = Bench::new(tcp_sockets, Some(session), None, RelayPreface::default()).start();
            let mut wire = tls_client.protect(b"data");
            *wire.last_mut().unwrap() ^= 1;
            send_all(&client, &wire).await;
            let (end, relay) = task.await.unwrap();
            assert!(
                matches!(
                    end,
                    RelayOutcome::Failed(RelaySide::Downstream, StreamError::Tls(_))
                ),
                "{end:?}"
            );
            drop(relay);
            let told = tls_client
                .receive(&receive_some(&client).await.unwrap())
                .unwrap_err();
            assert_eq!(
                told,
                rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)
            );
            let reset = receive_some(&origin).await.unwrap_err();
            assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset, "{terms:?}");
        });
    }
}

#[test]
fn an_upstream_tls_error_resets_the_client() {
    run(async {
        let (_, up) = twins(TLS13_TERMS);
        let Running {
            client,
            origin,
            task,
            ..
        } = Bench::new(
            tcp_sockets,
            None,
            Some(up.session()),
            RelayPreface::default(),
        )
        .start();
        send_all(&origin, b"HTTP/1.1 200 OK\r\n\r\n").await;
        let (end, relay) = task.await.unwrap();
        assert!(
            matches!(
                end,
                RelayOutcome::Failed(RelaySide::Upstream, StreamError::Tls(_))
            ),
            "{end:?}"
        );
        drop(relay);
        assert_eq!(
            receive_some(&client).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    });
}

#[test]
fn a_reset_connection_is_blamed_on_its_side() {
    // Read: the side itself. Written: the side that was written to.
    for (breaks, talks) in [
        (RelaySide::Downstream, false),
        (RelaySide::Upstream, false),
        (RelaySide::Downstream, true),
        (RelaySide::Upstream, true),
    ] {
        run(async {
            let mut bench = Bench::plain(tcp_sockets);
            let (broken, other) = match breaks {
                RelaySide::Downstream => (&mut bench.client, &bench.origin),
                RelaySide::Upstream => (&mut bench.origin, &bench.client),
            };
            if talks {
                send_all(other, &bytes(100_000)).await;
            }
            broken.reset_on_close();
            drop(std::mem::replace(broken, tcp_sockets().0));
            let end = bench.start().task.await.unwrap().0;
            assert!(
                matches!(&end, RelayOutcome::Failed(which, StreamError::Io(_)) if *which == breaks),
                "{breaks:?} {end:?}"
            );
        });
    }
}

#[test]
fn a_fatal_tls_alert_of_a_peer_is_not_answered() {
    run(async {
        let (server, client_end) = twins(TLS13_TERMS);
        let mut tls_client = client_end.session();
        let Running {
            client,
            origin: _origin,
            task,
            ..
        } = Bench::new(
            unix_sockets,
            Some(server.session()),
            None,
            RelayPreface::default(),
        )
        .start();
        let mut alert = Vec::new();
        tls_client.seal_alert(42, &mut alert);
        send_all(&client, &alert).await;
        let (end, relay) = task.await.unwrap();
        assert!(matches!(
            end,
            RelayOutcome::Failed(
                RelaySide::Downstream,
                StreamError::Tls(SessionError::Alerted(42))
            )
        ));
        drop(relay);
        assert_eq!(receive_all(&client).await.unwrap(), b"");
    });
}

/// The alert of a close has the level of a warning (RFC 5246 §7.2.1): clients of TLS 1.2 take a
/// fatal one for an error.
#[test]
fn an_abandoned_tls_client_gets_close_notify_at_warning_level() {
    for terms in [TLS13_TERMS, TLS12_TERMS] {
        run(async {
            let (server, client_end) = twins(terms);
            let mut opener = RecordOpener::new(terms.version.version, client_end.secrets.rx);
            let mut bench = Bench::new(
                unix_sockets,
                Some(server.session()),
                None,
                RelayPreface::default(),
            );
            assert!(bench.poll_until_idle(2).await.is_none());
            bench.relay.abandon().await;
            let record = receive_some(&bench.client).await.unwrap();
            let mut plain = vec![0; record.len()];
            let alert = opener.open(&record, &mut plain).unwrap();
            assert_eq!(
                (alert.kind, &plain[..alert.len]),
                (ContentType::Alert, &[1, 0][..]),
                "{terms:?}"
            );
        });
    }
}

#[test]
fn an_abandoned_client_inside_a_record_gets_no_alert() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            ..
        } = settled_pair(TLS13_TERMS);
        let mut bench = Bench::new(unix_sockets, Some(session), None, RelayPreface::default());
        while bench.relay.downward.pending.is_empty() {
            let _ = rustix::io::write(&bench.origin, &bytes(1 << 16));
            assert!(bench.poll_until_idle(1).await.is_none());
        }
        // There is room again, but a close would stand inside the record.
        let mut wire = receive_some(&bench.client).await.unwrap();
        bench.relay.abandon().await;
        drop(bench.relay);
        wire.extend(receive_all(&bench.client).await.unwrap());
        tls_client.receive(&wire).unwrap();
        assert!(!tls_client.process_new_packets().unwrap().peer_has_closed());
    });
}

#[test]
fn a_plain_client_that_is_abandoned_is_sent_nothing() {
    run(async {
        let mut bench = Bench::plain(unix_sockets);
        bench.relay.abandon().await;
        drop(bench.relay);
        assert_eq!(receive_all(&bench.client).await.unwrap(), b"");
    });
}

#[test]
fn a_relay_cut_off_can_be_run_again() {
    run(async {
        let mut bench = Bench::plain(unix_sockets);
        send_all(&bench.client, b"one ").await;
        assert!(bench.poll_until_idle(3).await.is_none());
        bench.relay.probe(Duration::from_secs(60)).unwrap();
        let Running { client, origin, .. } = bench.start();
        send_all(&client, b"two").await;
        client.shutdown_write().unwrap();
        assert_eq!(receive_all(&origin).await.unwrap(), b"one two");
    });
}

/// Data after a close is ignored (RFC 8446 §6.1); it must not keep the worker busy either.
#[test]
fn data_after_a_close_does_not_make_the_relay_spin() {
    for follows in [
        &b""[..],
        b"\x17\x03\x03\x00\x11 seventeen bytes ",
        b"garbage after the close",
    ] {
        run(async {
            let Pair {
                client: mut tls_client,
                session,
                ..
            } = settled_pair(TLS13_TERMS);
            let mut bench = Bench::new(unix_sockets, Some(session), None, RelayPreface::default());
            let wire = [
                &tls_client.protect(b"bye")[..],
                &tls_client.close(),
                follows,
            ]
            .concat();
            send_all(&bench.client, &wire).await;
            assert!(bench.poll_until_idle(5).await.is_none());
            assert!(
                bench.relay.upward.has_ended(),
                "the end was passed on: {follows:?}"
            );
            assert_eq!(receive_all(&bench.origin).await.unwrap(), b"bye");
        });
    }
}

#[test]
fn early_data_and_an_early_close_need_no_read() {
    run(async {
        let (server, client_end) = twins(TLS13_TERMS);
        let (mut tls_client, mut session) = (client_end.session(), server.session());
        let mut wire = sealed(&mut tls_client, b"early");
        tls_client.seal_close(&mut wire);
        session.keep_partial(&wire);
        let mut bench = Bench::new(unix_sockets, Some(session), None, RelayPreface::default());
        assert!(bench.poll_until_idle(3).await.is_none());
        assert_eq!(receive_all(&bench.origin).await.unwrap(), b"early");
    });
}

/// Pieces and whole messages look alike to a relay: it acknowledges where an endpoint is known to
/// pause.
#[test]
fn data_is_acknowledged_at_once_where_the_endpoint_stalls() {
    run(async {
        let mut bench = Bench::plain(tcp_sockets);
        send_all(&bench.client, b"question").await;
        assert!(bench.poll_until_idle(5).await.is_none());
        send_all(&bench.origin, b"answer").await;
        assert!(bench.poll_until_idle(5).await.is_none());
        assert_eq!(receive_some(&bench.client).await.unwrap(), b"answer");
        assert!(
            bench.relay.up.socket.acknowledged() == 0
                && bench.relay.down.socket.acknowledged() == 0
        );
        (0..8).for_each(|_| bench.stalls.note());
        send_all(&bench.origin, b" in two").await;
        assert!(bench.poll_until_idle(5).await.is_none());
        assert_eq!(receive_some(&bench.client).await.unwrap(), b" in two");
        assert!(
            bench.relay.up.socket.acknowledged() == 1
                && bench.relay.down.socket.acknowledged() == 0
        );
    });
}

/// A relay cannot see that a request is not whole; that it stays unanswered shows it, a few
/// milliseconds later.
#[test]
fn a_client_stalled_by_delayed_acknowledgements_is_detected_early() {
    run(async {
        let (mut bench, line) = (Bench::plain(tcp_sockets), ShapingQueue::stopped());
        bench.relay_buffers = RelayBuffers::new(Pipes::new(0), Rc::clone(&line));
        send_all(&bench.origin, b"greeting").await;
        assert!(bench.poll_until_idle(5).await.is_none());
        send_all(&bench.client, b"a piece").await;
        assert!(bench.poll_until_idle(5).await.is_none());
        assert_eq!(
            bench.relay.down.socket.acknowledged(),
            0,
            "the answer may carry it"
        );
        line.pass(8 * MS);
        assert!(bench.poll_until_idle(5).await.is_none());
        assert_eq!(bench.relay.down.socket.acknowledged(), 1);
        send_all(&bench.client, b"the rest").await;
        assert!(bench.poll_until_idle(5).await.is_none());
        // From now on while requests come in pieces, and for 254 reads more.
        for pieces in [2; 300].into_iter().chain([1; 254]) {
            send_all(&bench.origin, b"answer").await;
            assert!(bench.poll_until_idle(3).await.is_none());
            for piece in 1..=pieces {
                send_all(&bench.client, b"a piece").await;
                assert!(bench.poll_until_idle(3).await.is_none());
                assert_eq!(bench.relay.down.socket.acknowledged(), piece);
            }
        }
        send_all(&bench.origin, b"answer").await;
        send_all(&bench.client, b"a request").await;
        assert!(bench.poll_until_idle(5).await.is_none());
        assert_eq!(
            bench.relay.down.socket.acknowledged(),
            0,
            "it is one in pieces no more"
        );
    });
}

/// A message with a response in time does not affect the next one.
#[test]
fn an_endpoint_that_answers_at_once_costs_no_early_acknowledgement() {
    run(async {
        let (mut bench, line) = (Bench::plain(tcp_sockets), ShapingQueue::stopped());
        bench.relay_buffers = RelayBuffers::new(Pipes::new(0), Rc::clone(&line));
        for _ in 0..20 {
            send_all(&bench.origin, b"answer").await;
            assert!(bench.poll_until_idle(3).await.is_none());
            line.pass(8 * MS);
            assert!(bench.poll_until_idle(3).await.is_none());
            send_all(&bench.client, b"request").await;
            assert!(bench.poll_until_idle(3).await.is_none());
            assert_eq!(bench.relay.down.socket.acknowledged(), 0);
        }
    });
}

/// An acknowledgement by itself costs a packet: a client that does not wait for one gets a few,
/// then none.
#[test]
fn a_client_waiting_for_responses_gets_eight_early_acknowledgements() {
    run(async {
        let (mut bench, line) = (Bench::plain(tcp_sockets), ShapingQueue::stopped());
        bench.relay_buffers = RelayBuffers::new(Pipes::new(0), Rc::clone(&line));
        let mut early = 0;
        for _ in 0..20 {
            send_all(&bench.origin, b"answer").await;
            assert!(bench.poll_until_idle(3).await.is_none());
            send_all(&bench.client, b"request").await;
            assert!(bench.poll_until_idle(3).await.is_none());
            line.pass(8 * MS);
            assert!(bench.poll_until_idle(3).await.is_none());
            early += bench.relay.down.socket.acknowledged();
        }
        assert_eq!((early, line.len()), (8, 0));
    });
}

/// A client with Nagle's algorithm on holds its first request back until the end of its handshake
/// is acknowledged.
#[test]
fn before_the_first_data_tls_is_acknowledged_at_once() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            ..
        } = settled_pair(TLS13_TERMS);
        let mut bench = Bench::new(tcp_sockets, Some(session), None, RelayPreface::default());
        let request = tls_client.protect(b"request");
        send_all(&bench.client, &request[..7]).await;
        while bench.relay.down.socket.acknowledged() == 0 {
            assert!(bench.poll_until_idle(1).await.is_none());
        }
        send_all(&bench.client, &request[7..]).await;
        assert!(bench.poll_until_idle(5).await.is_none());
        assert_eq!(receive_some(&bench.origin).await.unwrap(), b"request");
    });
}

#[test]
fn an_idle_relay_holds_no_buffer() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            ..
        } = settled_pair(TLS13_TERMS);
        let mut bench = Bench::new(unix_sockets, Some(session), None, RelayPreface::default());
        send_all(&bench.client, &tls_client.protect(&bytes(10_000))).await;
        send_all(&bench.origin, &bytes(10_000)).await;
        assert!(bench.poll_until_idle(5).await.is_none());
        let flows = [&bench.relay.upward, &bench.relay.downward];
        assert_eq!(
            flows.map(|flow| flow.pending.capacity() + flow.held.capacity()),
            [0, 0]
        );
        assert!(flows.iter().all(|flow| flow.pipe.is_none()));
    });
}

/// Held tickets do not keep a client from getting the alert: they can go before it.
#[test]
fn a_client_with_held_session_tickets_still_gets_the_alert() {
    run(async {
        let Pair {
            client: mut tls_client,
            session,
            unsent,
        } = pair(TLS13_TERMS);
        let preface = RelayPreface {
            downstream: unsent,
            ..RelayPreface::default()
        };
        let mut bench = Bench::new(unix_sockets, Some(session), None, preface);
        let mut wire = tls_client.protect(b"data");
        *wire.last_mut().unwrap() ^= 1;
        send_all(&bench.client, &wire).await;
        assert!(matches!(
            bench.poll_until_idle(3).await,
            Some(RelayOutcome::Failed(RelaySide::Downstream, _))
        ));
        drop(bench.relay);
        let told = tls_client.receive(&receive_all(&bench.client).await.unwrap());
        assert_eq!(
            told,
            Err(rustls::Error::AlertReceived(
                rustls::AlertDescription::BadRecordMac
            ))
        );
    });
}

#[test]
fn bulk_tls_reads_wait_until_a_pause_or_a_response() {
    for answered in [false, true] {
        run(async {
            let (server, client_end) = twins(TLS13_TERMS);
            let (down, mut tls_client) = (server.session(), client_end.session());
            let mut bench = Bench::new(tcp_sockets, Some(down), None, RelayPreface::default());
            if !answered {
                // Without it no pause is noticed.
                let line = Rc::clone(&bench.relay_buffers.queue);
                testing::spawn(async move { line.run().await });
            }
            let (near, far) = tcp_sockets();
            let client = std::mem::replace(&mut bench.client, near);
            let origin = std::mem::replace(&mut bench.origin, far);
            let sent = bytes(24 * 1024 * 1024);
            let wire = sealed(&mut tls_client, &sent);
            let sender = testing::spawn(async move {
                send_all(&client, &wire).await;
                client
            });
            let (mut received, mut room) = (Vec::new(), vec![0; 1 << 20]);
            let (mut waited, mut stopped) = (false, false);
            while received.len() < sent.len() {
                assert!(bench.poll_until_idle(1).await.is_none());
                let waits = bench.relay.upward.bulk().mark().is_some();
                if waits && !waited && answered {
                    send_all(&origin, b"so much?").await;
                    // Meanwhile only as much passes as sockets hold.
                    while bench.meter.sent.get() == 0 {
                        assert!(bench.poll_until_idle(1).await.is_none());
                    }
                }
                waited |= waits;
                stopped |= waited && !waits;
                while let Poll::Ready(read) =
                    poll_fn(|cx| Poll::Ready(origin.poll_recv(cx, &mut room))).await
                {
                    received.extend_from_slice(&room[..read.unwrap()]);
                }
            }
            assert!(
                waited && received == sent,
                "the last of it is less than what was waited for"
            );
            while !answered && bench.relay.upward.bulk().mark().is_some() {
                assert!(bench.poll_until_idle(1).await.is_none());
            }
            assert!(
                stopped || !answered,
                "who was answered may wait for the next answer"
            );
            drop(sender.await.unwrap());
        });
    }
}
