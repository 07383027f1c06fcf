//! Log and metrics of relays: each direction by itself, by listener and pool.

use lockgate_testkit::{Origin, Wire};
use serde_json::Value;

use crate::scene::{lockgate, plain};

fn number(line: &Value, field: &str) -> f64 {
    line[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} in {line}"))
}

#[test]
fn a_relay_log_line_times_both_directions() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(&plain(&origin.address()));
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    // One after the other, so that their order is certain.
    client.send("question");
    upstream.expect("question");
    upstream.send("answer");
    client.expect("answer");
    client.finish();
    upstream.expect_end();
    upstream.send("more");
    client.expect("more");
    drop(upstream);
    client.expect_end();
    let line = gate.next_line();
    let times = [
        "received_first_byte_seconds",
        "sent_first_byte_seconds",
        "received_end_seconds",
        "sent_end_seconds",
        "duration_seconds",
    ];
    let times = times.map(|field| number(&line, field));
    assert!(times.is_sorted() && times[0] > 0.0, "{line}");
    assert_eq!(
        (&line["received_bytes"], &line["sent_bytes"]),
        (&8.into(), &10.into())
    );
}

#[test]
fn a_cut_direction_has_no_end_time_in_the_log() {
    let origin = Origin::tcp();
    let mut gate = lockgate().start(
        &("timeouts = { tunnel_idle = \"300ms\" }\n".to_owned() + &plain(&origin.address())),
    );
    let mut client = Wire::connect(gate.address());
    let mut upstream = origin.accept();
    upstream.send("hello");
    client.expect("hello");
    client.wait_closed();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"idle".into(), &"lockgate".into()),
        "{line}"
    );
    for field in [
        "received_first_byte_seconds",
        "received_end_seconds",
        "sent_end_seconds",
    ] {
        assert_eq!(line[field], Value::Null, "{line}");
    }
    assert!(number(&line, "sent_first_byte_seconds") > 0.0);
    assert_eq!(line["received_bytes_per_second"], 0, "{line}");
    // Five bytes in 300 ms and more.
    assert!(number(&line, "sent_bytes_per_second") < 17.0, "{line}");
}

#[test]
fn a_failed_relay_has_no_directions_in_the_log() {
    let mut gate = lockgate().start(&plain(&crate::scene::deserted().to_string()));
    let mut client = Wire::connect(gate.address());
    client.send("hello");
    client.wait_closed();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["sent_bytes_per_second"]),
        (&"connect_failed".into(), &Value::Null),
        "{line}"
    );
}

#[test]
fn relays_are_counted_by_listener_and_pool() {
    let (one, other) = (Origin::tcp().echo(), Origin::tcp().echo());
    let gate = lockgate().workers(2).start(&format!(
        "[pool.one]\nendpoints = [\"{}\"]\n[tcp.\"127.0.0.1:0\"]\nproxy = \"pool:one\"\n\
         [tcp.\"127.0.0.2:0\"]\nproxy = \"pool:one\"\n[tcp.\"127.0.0.3:0\"]\nproxy = \"{}\"\n\
         [tcp.\"127.0.0.4:0\"]\nproxy = \"{}\"\n",
        one.address(),
        other.address(),
        crate::scene::deserted()
    ));
    let ways = [
        ("127.0.0.1:0", "one", 3),
        ("127.0.0.2:0", "one", 2),
        ("127.0.0.3:0", "127.0.0.3:0", 1),
    ];
    for (listener, _, count) in ways {
        for _ in 0..count {
            let mut client = Wire::connect(gate.at(listener));
            client.send("ping!");
            client.expect("ping!");
            client.finish();
            client.expect_end();
        }
    }
    Wire::connect(gate.at("127.0.0.4:0")).wait_closed();
    for (listener, pool, count) in ways {
        let names = [
            format!("listener=\"{listener}\""),
            format!("pool=\"{pool}\""),
        ];
        let labels = |more: &'static str| [names[0].as_str(), names[1].as_str(), more];
        gate.wait_for_sample(
            "lockgate_relays_ended_total",
            &labels("cause=\"client_closed\""),
            f64::from(count),
        );
        let sum = |name: &str| gate.sample(name, &labels("")[..2]);
        assert_eq!(sum("lockgate_relays_total"), f64::from(count));
        assert_eq!(sum("lockgate_relays"), 0.0);
        assert_eq!(
            sum("lockgate_relay_connect_duration_seconds_count"),
            f64::from(count)
        );
        for direction in ["direction=\"received\"", "direction=\"sent\""] {
            let bytes = gate.sample("lockgate_relay_bytes_total", &labels(direction));
            assert_eq!(bytes, f64::from(5 * count), "{listener} {direction}");
        }
    }
    let nobody = ["listener=\"127.0.0.4:0\"", "cause=\"connect_failed\""];
    gate.wait_for_sample("lockgate_relays_ended_total", &nobody, 1.0);
}
