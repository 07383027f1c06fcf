//! Which endpoint of a pool a request or a relay goes to, beyond whose turn it is: backups, those that were ejected, those
//! that a client belongs to.

use lockgate_testkit::{Lockgate, Origin, Serving, Wire, eventually};

use crate::http::{ask, ok, pooled};
use crate::scene::{deserted, lockgate};

/// An origin that answers every request by its name.
fn named(name: &'static str) -> Serving {
    Origin::tcp().answering(move |_| ok(name))
}

/// An origin that greets every connection by its name, and holds it.
fn greeting(name: &'static str) -> Serving {
    Origin::tcp().serve(move |wire| {
        wire.send(name);
        wire.wait_closed();
    })
}

/// A pool with these keys, and a relay in front of it.
fn relayed(keys: &str) -> String {
    format!("[pool.app]\n{keys}\n[tcp.\"127.0.0.1:0\"]\nproxy = \"pool:app\"\n")
}

/// Who greets a client of a relay whose origins have names of one letter.
fn greeted(gate: &Lockgate) -> (Wire, String) {
    let mut client = Wire::connect(gate.address());
    let name = String::from_utf8(client.exactly(1)).unwrap();
    (client, name)
}

#[test]
fn a_backup_answers_while_no_other_endpoint_is_up() {
    let (address, backup) = (deserted(), named("backup"));
    let endpoints =
        format!("endpoints = [\"{address}\", {{ addr = \"{}\", backup = true }}]", backup.address());
    for balance in ["p2c", "least", "round-robin"] {
        let gate = lockgate().workers(2).start(&pooled(format!("{endpoints}\nbalance = \"{balance}\"")));
        (0..5).for_each(|_| assert_eq!(ask(&gate).text(), "backup"));
        let _first = Origin::tcp_at(address).answering(|_| ok("first"));
        eventually("the first is back", || (ask(&gate).text() == "first").then_some(()));
        (0..20).for_each(|_| assert_eq!(ask(&gate).text(), "first"));
    }
}

#[test]
fn a_backup_takes_relays_while_no_other_endpoint_is_up() {
    let (address, backup) = (deserted(), greeting("b"));
    let endpoints =
        format!("endpoints = [\"{address}\", {{ addr = \"{}\", backup = true }}]", backup.address());
    let gate = lockgate().workers(2).start(&relayed(&endpoints));
    let (mut held, name) = greeted(&gate);
    assert_eq!(name, "b");
    let _first = Origin::tcp_at(address).serve(|wire| {
        wire.send("a");
        wire.wait_closed();
    });
    eventually("the first is back", || (greeted(&gate).1 == "a").then_some(()));
    (0..20).for_each(|_| assert_eq!(greeted(&gate).1, "a"));
    // What began at the backup stays there.
    held.send("still");
    assert!(held.is_quiet(std::time::Duration::ZERO));
}

#[test]
fn endpoints_that_are_full_are_waited_for_rather_than_replaced_by_a_backup() {
    let (first, backup) = (Origin::tcp(), greeting("b"));
    let gate = lockgate().start(&relayed(&format!(
        "endpoints = [{{ addr = \"{}\", max = 1 }}, {{ addr = \"{}\", backup = true }}]\nqueue = {{ wait = \"60s\" }}",
        first.address(),
        backup.address()
    )));
    let held = Wire::connect(gate.address());
    let _upstream = first.accept();
    let mut next = Wire::connect(gate.address());
    next.send("next");
    held.reset();
    first.accept().expect("next");
    assert_eq!(backup.accepted(), 0);
}

#[test]
fn relays_take_turns_by_weight_where_their_pool_says_so() {
    let (a, b) = (greeting("a"), greeting("b"));
    let gate = lockgate().workers(2).start(&relayed(&format!(
        "endpoints = [\"{}\", {{ addr = \"{}\", weight = 2 }}]\nbalance = \"round-robin\"",
        a.address(),
        b.address()
    )));
    let names: String = (0..9).map(|_| greeted(&gate).1).collect();
    assert_eq!(names, "babbabbab");
}

#[test]
fn relays_wait_in_the_queue_of_their_pool_and_no_longer_than_it_says() {
    for (queue, detail) in [
        ("{ max = 0, wait = \"60s\" }", "the queue is full"),
        ("{ max = 10, wait = \"100ms\" }", "as many connections as it may"),
    ] {
        let origin = Origin::tcp();
        let mut gate = lockgate().workers(2).start(&relayed(&format!(
            "endpoints = [{{ addr = \"{}\", max = 1 }}]\nqueue = {queue}",
            origin.address()
        )));
        let mut first = Wire::connect(gate.address());
        first.send("first");
        let mut upstream = origin.accept();
        upstream.expect("first");
        for _ in 0..3 {
            Wire::connect(gate.address()).wait_closed();
            let line = gate.next_line();
            assert_eq!((&line["cause"], &line["side"]), (&"limit".into(), &"lockgate".into()), "{line}");
            assert!(line["detail"].as_str().unwrap().contains(detail), "{line}");
        }
        upstream.send("answer");
        first.expect("answer");
    }
}
