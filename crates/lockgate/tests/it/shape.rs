//! Bandwidth rates: all bytes arrive, and none before its time.
//!
//! The tests assert a lower bound of time, from the rate alone: on a slow or busy machine bytes
//! come later and never sooner. How close they come to the rate, and which connections are not idle
//! meanwhile, is tested on time that stands still: `lockgate_net::traffic_shaping::tests`,
//! `lockgate_net::relay::tests::shaped`, `lockgate_limits::clock::tests`.

mod sites;

use std::time::{Duration, Instant};

use lockgate_testkit::{Lockgate, Origin, Serving, Wire, bytes};

use crate::scene::{Site, lockgate};

/// Sends so many bytes to each client, and ends.
fn sends(len: usize) -> Serving {
    Origin::tcp().serve(move |wire| {
        wire.send(bytes(7, len));
        wire.finish();
        wire.rest();
    })
}

/// A listener on 127.0.0.1 with a bandwidth rate.
fn shaped(proxy: &str, shape: &str) -> String {
    format!("[tcp.\"127.0.0.1:0\"]\nproxy = \"{proxy}\"\nshape = {shape}\n")
}

/// The shortest time for so many bytes at `rate` bytes a second, with the burst at the beginning.
pub(crate) fn least(bytes: u64, rate: u64) -> Duration {
    Duration::from_millis((bytes - rate / 20) * 1_000 / rate)
}

pub(crate) fn held_for(gate: &Lockgate) -> f64 {
    gate.sample("lockgate_connection_shaped_seconds_total", &[])
}

#[test]
fn a_connection_rate_holds_and_half_close_survives() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate().start(
        &(shaped(
            &origin.address(),
            r#"{ per_connection = { in = "2MB/s", out = "1MB/s" } }"#,
        ) + &site.listener("127.0.0.2:0", &origin.address(), "")
            + "shape = \"1MB/s\"\n"),
    );
    let (up, down) = (bytes(1, 400_000), bytes(2, 200_000));
    let begun = Instant::now();
    let mut client = Wire::connect(gate.at("127.0.0.1:0"));
    let mut upstream = origin.accept();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(upstream.rest() == up));
        client.send(&up);
        client.finish();
    });
    assert!(begun.elapsed() >= least(400_000, 2_000_000));
    let begun = Instant::now();
    upstream.send(&down);
    upstream.finish();
    assert!(client.rest() == down);
    assert!(begun.elapsed() >= least(200_000, 1_000_000));
    // Under TLS, both ways at once.
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            site.client()
                .connect(gate.at("127.0.0.2:0"), crate::scene::NAME)
                .unwrap()
                .exchange(&down)
        });
        assert!(origin.accept().exchange(&up[..150_000]) == down);
        assert!(client.join().unwrap() == up[..150_000]);
    });
    gate.wait_for_sample("lockgate_connections", &["listener=\"127.0.0.1:0\""], 0.0);
    assert!(held_for(&gate) > 0.0);
}

#[test]
fn two_workers_together_hold_the_total_rate() {
    let origin = sends(100_000);
    let gate = lockgate().workers(2).start(&shaped(
        origin.address(),
        r#"{ total = { out = "1MB/s" } }"#,
    ));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope
                .spawn(|| assert!(Wire::connect(gate.address()).exchange("") == bytes(7, 100_000)));
        }
    });
    assert!(begun.elapsed() >= least(800_000, 1_000_000));
}

#[test]
fn per_client_rate_is_shared_by_a_clients_connections() {
    let origin = sends(100_000);
    let gate = lockgate()
        .workers(2)
        .start(&shaped(origin.address(), r#"{ per_client = "1MB/s" }"#));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let from = if number < 4 {
                [127, 0, 0, 1]
            } else {
                [127, 0, 0, 2]
            };
            let address = gate.address();
            scope.spawn(move || {
                assert!(Wire::connect_from(from.into(), address).exchange("") == bytes(7, 100_000));
            });
        }
    });
    assert!(begun.elapsed() >= least(400_000, 1_000_000));
}

#[test]
fn max_lifetime_cuts_a_rate_limited_connection() {
    let origin = sends(100_000);
    let toml = shaped(origin.address(), "\"1500B/s\"") + "max_lifetime = \"300ms\"\n";
    let mut gate = lockgate().start(&toml);
    let (received, _) = Wire::connect(gate.address()).end();
    // All of it would take more than a minute.
    assert!(received == bytes(7, 100_000)[..received.len()] && received.len() < 100_000);
    assert_eq!(gate.next_line()["cause"], "lifetime");
}
