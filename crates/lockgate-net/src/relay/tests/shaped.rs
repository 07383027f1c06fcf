//! Relays with limited rates, on time that passes only while a shaper waits for tokens.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::*;
use crate::nanos::Nanos;
use crate::reactor;
use crate::reactor::testing::{self, run};
use crate::traffic_shaping::{BURST, ShapingQueue, SharedRate};

/// A rate of 10 MB/s.
const TEN: u64 = 10_000_000;
/// The most that one wake-up is late, and the bytes that are granted and not earned.
const SLACK: Nanos = Nanos::from_millis(30);

fn bucket(rate: u64) -> Arc<SharedRate> {
    SharedRate::new(NonZeroU64::new(rate).unwrap())
}

fn shaper(buckets: &[Arc<SharedRate>], line: &Rc<ShapingQueue>) -> Option<Shaper> {
    Some(Shaper::new(buckets, line))
}

/// Lets time pass while a shaper in `lines` waits, until `done`; returns how much.
async fn pass(lines: &[&Rc<ShapingQueue>], done: impl Fn() -> bool) -> Nanos {
    let begun = lines[0].now();
    while !done() {
        if lines.iter().any(|line| !line.is_empty()) {
            lines.iter().for_each(|line| line.pass(MS));
        }
        reactor::yield_now().await;
    }
    lines[0].now() - begun
}

/// The time for so many bytes at a rate, with the saved burst at the beginning.
fn takes(bytes: usize, rate: u64) -> std::ops::Range<Nanos> {
    let time = (bytes as u64 * 1_000 / rate) * MS;
    time - BURST - SLACK..time - BURST + SLACK
}

fn receiving(socket: &Rc<Socket>) -> testing::Joined<Vec<u8>> {
    let socket = Rc::clone(socket);
    testing::spawn(async move { receive_all(&socket).await.unwrap() })
}

fn sending(socket: &Rc<Socket>, data: Vec<u8>) -> testing::Joined<()> {
    let socket = Rc::clone(socket);
    testing::spawn(async move {
        send_all(&socket, &data).await;
        socket.shutdown_write().unwrap();
    })
}

#[test]
fn each_direction_has_its_rate_and_half_close_survives() {
    for sockets in SOCKETS {
        run(async {
            let (mut bench, line) = (Bench::plain(sockets), ShapingQueue::stopped());
            bench.relay.shape(
                shaper(&[bucket(TEN)], &line),
                shaper(&[bucket(TEN / 2)], &line),
            );
            let Running {
                client,
                origin,
                task,
                meter,
                ..
            } = bench.start();
            let (client, origin) = (Rc::new(client), Rc::new(origin));
            let (up, down) = (bytes(4_000_000), bytes(1_000_000));
            sending(&client, up.clone());
            let at_origin = receiving(&origin);
            let took = pass(&[&line], || at_origin.is_finished()).await;
            assert!(takes(4_000_000, TEN).contains(&took), "{took:?}");
            assert!(at_origin.await.unwrap() == up);
            // The client has half-closed, and gets its response.
            sending(&origin, down.clone());
            let at_client = receiving(&client);
            let took = pass(&[&line], || task.is_finished()).await;
            assert!(takes(1_000_000, TEN / 2).contains(&took), "{took:?}");
            let (end, relay) = task.await.unwrap();
            assert_eq!(finished(&end), RelaySide::Downstream);
            drop(relay);
            assert!(at_client.await.unwrap() == down);
            assert_eq!(
                (meter.received.get(), meter.sent.get()),
                (4_000_000, 1_000_000)
            );
            // All of that time a shaper waited for tokens, and none does now.
            assert!(!meter.held.get());
            assert!(
                meter.held_for.get() + 2 * SLACK > 400 * MS - BURST,
                "{:?}",
                meter.held_for.get()
            );
        });
    }
}

/// Carries `data` downward while time passes; returns whether a pipe was used, and the bytes that
/// arrived.
async fn carry(bench: &mut Bench, line: &Rc<ShapingQueue>, data: &[u8]) -> (bool, Vec<u8>) {
    let (mut spliced, mut sent, mut received) = (false, 0, Vec::new());
    let mut buffer = vec![0; 1 << 20];
    while received.len() < data.len() {
        if let Ok(more) = rustix::io::write(&bench.origin, &data[sent..]) {
            sent += more;
        }
        assert!(bench.poll_until_idle(1).await.is_none());
        spliced |= bench.relay.downward.spliced.is_some();
        if let Ok(more) = rustix::io::read(&bench.client, &mut buffer) {
            received.extend_from_slice(&buffer[..more]);
        }
        if !line.is_empty() {
            assert!(bench.meter.held.get(), "it waits for us");
            line.pass(MS);
        }
    }
    (spliced, received)
}

#[test]
fn shaped_plain_tcp_is_still_spliced() {
    run(async {
        // A piece of the first rate is smaller than one read in bulk.
        for rate in [TEN, 10 * TEN] {
            let (mut bench, line) = (Bench::plain(tcp_sockets), ShapingQueue::stopped());
            bench.relay.shape(None, shaper(&[bucket(rate)], &line));
            // Full reads, but not two in a row.
            for len in [65_536, 1, 131_072, 1] {
                carry(&mut bench, &line, &bytes(len)).await;
            }
            line.pass(BURST);
            let (data, begun) = (bytes(10_000_000), line.now());
            let (spliced, received) = carry(&mut bench, &line, &data).await;
            assert!(spliced && received == data, "{rate}");
            assert!(
                takes(10_000_000, rate).contains(&(line.now() - begun)),
                "{rate}"
            );
        }
    });
}

#[test]
fn small_pieces_at_a_slow_rate_are_copied() {
    run(async {
        let (mut bench, line) = (Bench::plain(tcp_sockets), ShapingQueue::stopped());
        bench.relay.shape(None, shaper(&[bucket(TEN / 10)], &line));
        let (spliced, received) = carry(&mut bench, &line, &bytes(500_000)).await;
        assert!(!spliced && received == bytes(500_000));
    });
}

#[test]
fn two_workers_together_hold_the_shared_rate() {
    run(async {
        let total = bucket(TEN);
        let lines = [ShapingQueue::stopped(), ShapingQueue::stopped()];
        // Two connections in each worker; one of them has a limit of a tenth.
        let running: Vec<_> = [(0, 10 * TEN), (0, TEN / 10), (1, 10 * TEN), (1, 10 * TEN)]
            .into_iter()
            .map(|(worker, own)| {
                let mut bench = Bench::plain(tcp_sockets);
                bench.relay.shape(
                    None,
                    shaper(&[bucket(own), Arc::clone(&total)], &lines[worker]),
                );
                bench.start()
            })
            .collect();
        let meters: Vec<_> = running.iter().map(|one| one.meter.clone()).collect();
        let mut reading = Vec::new();
        for Running {
            client,
            origin,
            task,
            ..
        } in running
        {
            let (client, origin) = (Rc::new(client), Rc::new(origin));
            sending(&origin, bytes(20_000_000));
            reading.push((receiving(&client), client, task));
        }
        let sent = || meters.iter().map(|meter| meter.sent.get()).sum::<u64>();
        let took = pass(&[&lines[0], &lines[1]], || sent() > 20_000_000).await;
        assert!(takes(20_000_000, TEN).contains(&took), "{took:?}");
        let slow = meters[1].sent.get();
        assert!(slow <= 2_100_000, "{slow}");
        assert!(
            [0, 2, 3]
                .iter()
                .all(|&one| meters[one].sent.get() > 2 * slow),
            "{meters:?}"
        );
    });
}

#[test]
fn under_tls_the_rate_counts_plaintext_and_close_notify_passes() {
    for terms in TERMS {
        run(async {
            let Pair {
                client: mut tls_client,
                session: down,
                ..
            } = settled_pair(terms);
            let mut bench = Bench::new(unix_sockets, Some(down), None, RelayPreface::default());
            let line = ShapingQueue::stopped();
            // A packet at a time; a record needs eleven.
            bench.relay.shape(
                shaper(&[bucket(20_000)], &line),
                shaper(&[bucket(20_000)], &line),
            );
            let Running {
                client,
                origin,
                task,
                meter,
                ..
            } = bench.start();
            let mut wire = tls_client.protect(&bytes(100_000));
            wire.extend(tls_client.close());
            let (client, origin) = (Rc::new(client), Rc::new(origin));
            sending(&client, wire);
            let at_origin = receiving(&origin);
            let took = pass(&[&line], || at_origin.is_finished()).await;
            assert!(at_origin.await.unwrap() == bytes(100_000), "{terms:?}");
            // A record is delivered when all of it has come, and its tokens are owed from then on;
            // the end follows.
            let (least, most) = ((100_000 - 18_000 - 1_500) / 20, (100_000 + 3_000) / 20);
            assert!((least * MS..most * MS).contains(&took), "{took:?}");
            sending(&origin, bytes(10));
            pass(&[&line], || task.is_finished()).await;
            let (end, relay) = task.await.unwrap();
            assert_eq!(finished(&end), RelaySide::Downstream);
            drop(relay);
            assert_eq!(
                tls_client
                    .receive(&receive_all(&client).await.unwrap())
                    .unwrap(),
                bytes(10)
            );
            assert_eq!((meter.received.get(), meter.sent.get()), (100_000, 10));
        });
    }
}

#[test]
fn an_idle_connection_takes_no_tokens_from_others() {
    run(async {
        let (total, line) = (bucket(TEN), ShapingQueue::stopped());
        let mut silent = Vec::new();
        for _ in 0..50 {
            let mut bench = Bench::plain(tcp_sockets);
            let [one, other] = [(); 2].map(|()| shaper(&[Arc::clone(&total)], &line));
            bench.relay.shape(one, other);
            assert!(bench.poll_until_idle(3).await.is_none());
            silent.push(bench);
        }
        assert!(total.is_full(line.now()) && line.is_empty());
    });
}
