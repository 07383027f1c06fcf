//! Which endpoint of a pool a request or a relay goes to, beyond whose turn it is: backups, those that were ejected, those
//! that a client belongs to.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_testkit::{Http, Lockgate, Origin, Serving, Wire, eventually};

use crate::http::{ask, ok, pooled};
use crate::scene::{Site, deserted, lockgate};

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
    assert!(held.is_quiet(Duration::ZERO));
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

/// A pool whose requests are answered by turns, the first of which is that of `first`.
fn by_turns(first: &str, second: &str, keys: &str) -> String {
    pooled(format!(
        "endpoints = [\"{first}\", \"{second}\"]\nbalance = \"round-robin\"\nretry = false\n{keys}"
    ))
}

fn statuses(gate: &Lockgate, requests: usize) -> Vec<u16> {
    (0..requests).map(|_| ask(gate).status()).collect()
}

#[test]
fn an_endpoint_that_says_again_and_again_that_it_cannot_serve_is_ejected() {
    for (keys, count, status) in
        [("", 5, 503), ("eject = { errors = 3, for = \"60s\" }", 3, 502), ("eject = { errors = 1 }", 1, 504)]
    {
        let bad = Origin::tcp()
            .answering(move |_| format!("HTTP/1.1 {status} Bad\r\nContent-Length: 0\r\n\r\n").into_bytes());
        let good = named("good");
        let gate = lockgate().workers(2).start(&by_turns(bad.address(), good.address(), keys));
        let expected: Vec<u16> =
            (0..20).map(|at| if at % 2 == 0 && at / 2 < count { status } else { 200 }).collect();
        assert_eq!(statuses(&gate, 20), expected, "{keys}");
        for (name, [of_bad, of_good]) in
            [("lockgate_upstream_ejections_total", [1.0, 0.0]), ("lockgate_upstream_ejected", [1.0, 0.0])]
        {
            assert_eq!(gate.sample(name, &[bad.address()]), of_bad);
            assert_eq!(gate.sample(name, &[good.address()]), of_good);
        }
        gate.stderr().find("it is said once", |line| line.contains("is ejected").then_some(()));
    }
}

#[test]
fn failures_are_counted_in_a_row_and_an_answer_of_another_kind_ends_it() {
    for (statuses, ejected) in [([503, 503, 500], false), ([503, 503, 404], false), ([503, 503, 502], true)] {
        let turn = AtomicUsize::new(0);
        let bad = Origin::tcp().answering(move |_| {
            let status = statuses[turn.fetch_add(1, Ordering::SeqCst) % 3];
            format!("HTTP/1.1 {status} Bad\r\nContent-Length: 0\r\n\r\n").into_bytes()
        });
        let good = named("good");
        let gate = lockgate().start(&by_turns(bad.address(), good.address(), "eject = { errors = 3 }"));
        let answers = self::statuses(&gate, 20);
        let good = answers.iter().filter(|status| **status == 200).count();
        assert_eq!(good, if ejected { 17 } else { 10 }, "{answers:?}");
    }
}

#[test]
fn without_ejections_an_endpoint_keeps_its_turn_whatever_it_answers() {
    let bad = Origin::tcp().answering(|_| b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec());
    let good = named("good");
    let gate = lockgate().start(&by_turns(bad.address(), good.address(), "eject = false"));
    assert_eq!(statuses(&gate, 20), [503, 200].repeat(10));
    assert_eq!(gate.sample("lockgate_upstream_ejections_total", &[bad.address()]), 0.0);
}

#[test]
fn where_all_fail_none_is_at_fault_and_all_are_asked() {
    let bad = || Origin::tcp().answering(|_| b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec());
    let (one, other, alone) = (bad(), bad(), bad());
    let gate = lockgate().start(&by_turns(one.address(), other.address(), "eject = { errors = 1 }"));
    assert_eq!(statuses(&gate, 10), [503; 10]);
    gate.wait_for_sample("lockgate_upstream_ejections_total", &[one.address()], 1.0);
    gate.wait_for_sample("lockgate_upstream_ejections_total", &[other.address()], 0.0);
    let gate = lockgate().start(&pooled(format!("endpoints = [\"{}\"]", alone.address())));
    assert_eq!(statuses(&gate, 10), [503; 10]);
    gate.wait_for_sample("lockgate_upstream_ejections_total", &[], 0.0);
}

#[test]
fn an_endpoint_that_does_not_answer_in_time_or_not_what_can_be_read_is_ejected() {
    let silent = Origin::tcp().serve(Wire::wait_closed);
    let garbage = Origin::tcp().answering(|_| b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec());
    let good = named("good");
    for bad in [silent, garbage] {
        let toml = by_turns(bad.address(), good.address(), "eject = { errors = 2, for = \"60s\" }");
        let gate = lockgate().start(&(toml + "timeouts = { response = \"100ms\" }\n"));
        let answers = statuses(&gate, 12);
        assert_eq!(answers.iter().filter(|status| **status != 200).count(), 2, "{answers:?}");
        assert_eq!(gate.sample("lockgate_upstream_ejections_total", &[bad.address()]), 1.0);
    }
}

#[test]
fn an_ejected_endpoint_is_asked_again_when_its_time_is_over() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let origin = Origin::tcp().answering(move |_| match is_well.load(Ordering::SeqCst) {
        true => ok("back"),
        false => b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let good = named("good");
    let keys = "eject = { errors = 1, for = \"300ms\" }\nslow_start = \"1s\"";
    let gate = lockgate().start(&by_turns(origin.address(), good.address(), keys));
    assert_eq!(ask(&gate).status(), 503);
    well.store(true, Ordering::SeqCst);
    eventually("it is back", || (ask(&gate).text() == "back").then_some(()));
    assert_eq!(gate.sample("lockgate_upstream_ejected", &[origin.address()]), 0.0);
}

/// Four origins that answer by their names, and a pool of them with these keys.
fn four(keys: &str) -> ([Serving; 4], String) {
    let origins = ["a", "b", "c", "d"].map(named);
    let keys = format!("endpoints = [{}]\n{keys}", addresses(&origins));
    (origins, keys)
}

fn addresses(origins: &[Serving]) -> String {
    origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect::<Vec<_>>().join(", ")
}

/// Who answers a request with these fields.
fn answered(client: &mut Http, fields: &str) -> String {
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    client.answer().text().to_owned()
}

/// Each of many gets to the same one each time, and all four are somebody's.
fn spread<N: Ord>(names: impl Iterator<Item = [N; 3]>) {
    let mut seen = BTreeSet::new();
    for [first, second, third] in names {
        assert!(first == second && second == third);
        seen.insert(first);
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn requests_with_the_same_key_go_to_the_same_endpoint_by_whatever_worker_and_lockgate() {
    for (key, field) in [("header:X-User", "X-User: "), ("cookie:id", "Cookie: a=b; id=")] {
        let (_origins, keys) = four(&format!("balance = {{ hash = \"{key}\" }}"));
        let gates = [2, 1, 2].map(|workers| lockgate().workers(workers).start(&pooled(&keys)));
        spread((0..40).map(|user| {
            let fields = format!("{field}user-{user}\r\n");
            gates.each_ref().map(|gate| answered(&mut Http::connect(gate.address()), &fields))
        }));
        // Without it, by address: all of one client's go to one.
        let mut client = Http::connect(gates[0].address());
        let first = answered(&mut client, "");
        assert!((0..10).all(|_| answered(&mut client, "Cookie: id=\r\nX-User:\r\n") == first));
    }
}

#[test]
fn requests_of_the_same_address_go_to_the_same_endpoint() {
    let (_origins, keys) = four("balance = { hash = \"client\" }");
    let gate = lockgate().workers(2).start(&pooled(&keys));
    spread((1..30).map(|host| {
        let from = Ipv4Addr::new(127, 9, 9, host).into();
        [(); 3].map(|()| answered(&mut Http::over(Wire::connect_from(from, gate.address())), ""))
    }));
}

#[test]
fn relays_of_the_same_address_or_name_go_to_the_same_endpoint() {
    let origins = ["a", "b", "c", "d"].map(greeting);
    let keys = |key| format!("endpoints = [{}]\nbalance = {{ hash = \"{key}\" }}", addresses(&origins));
    let gate = lockgate().workers(2).start(&relayed(&keys("client")));
    spread((1..30).map(|host| {
        let from = Ipv4Addr::new(127, 9, 8, host).into();
        [(); 3].map(|()| Wire::connect_from(from, gate.address()).exactly(1))
    }));
    let site = Site::new();
    let cert = site.folder.certificate("names.pem", &site.authority.issue(&["*.app.test"]));
    let tls = format!("tls = {{ cert = \"{cert}\" }}\n");
    let gate = lockgate().workers(2).start(&(relayed(&keys("sni")) + &tls));
    spread((0..30).map(|name| {
        let name = format!("{name}.app.test");
        [(); 3].map(|()| site.client().connect(gate.address(), &name).unwrap().exactly(1))
    }));
}

#[test]
fn who_belongs_to_an_endpoint_that_cannot_be_reached_goes_to_another_and_returns() {
    let (address, other) = (deserted(), named("other"));
    let balance = "balance = { hash = \"header:x-user\" }";
    let gate = lockgate()
        .workers(2)
        .start(&pooled(format!("endpoints = [\"{address}\", \"{}\"]\n{balance}", other.address())));
    let ask = |user: u32| answered(&mut Http::connect(gate.address()), &format!("X-User: {user}\r\n"));
    assert!((0..20).all(|user| ask(user) == "other"));
    let _first = Origin::tcp_at(address).answering(|_| ok("first"));
    eventually("it is back", || (0..20).any(|user| ask(user) == "first").then_some(()));
    assert!((0..20).any(|user| ask(user) == "other"), "those who belong there");
}

#[test]
fn a_connection_that_one_client_owns_is_left_where_its_request_belongs_elsewhere() {
    let origins = ["a", "b", "c", "d"].map(|name| {
        Origin::tcp().serve(move |wire| {
            let mut http = Http::over(wire.another());
            http.line();
            while http.next_request().is_some() {
                http.send(ok(name));
            }
        })
    });
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [{}]\nbalance = {{ hash = \"header:x-user\" }}\nproxy_protocol = \"v1\"",
        addresses(&origins)
    )));
    let users: Vec<String> = (0..20).map(|user| format!("X-User: {user}\r\n")).collect();
    let alone = users.iter().map(|user| answered(&mut Http::connect(gate.address()), user));
    let alone: Vec<String> = alone.collect();
    let mut client = Http::connect(gate.address());
    let together: Vec<String> = users.iter().map(|user| answered(&mut client, user)).collect();
    assert_eq!(alone, together);
}
