//! Which endpoint of a pool a request or a relay gets, beyond the order of turns: backups, ejected
//! endpoints, and affinity of a client.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use lockgate_testkit::{Http, Lockgate, Message, Origin, Serving, Wire, eventually, h2};

use crate::http::{ask, ok, plain_site, pooled, secure_site};
use crate::scene::{NAME, Site, deserted, lockgate};

/// An origin that answers every request with its name.
fn origin_named(name: &'static str) -> Serving {
    Origin::tcp().answering(move |_| ok(name))
}

/// An origin that greets every connection by its name, and holds it.
fn greeting_origin(name: &'static str) -> Serving {
    Origin::tcp().serve(move |wire| {
        wire.send(name);
        wire.wait_closed();
    })
}

/// A pool with these keys, and a relay in front of it.
fn relay_to_pool(keys: &str) -> String {
    format!("[pool.app]\n{keys}\n[tcp.\"127.0.0.1:0\"]\nproxy = \"pool:app\"\n")
}

/// The one-letter name with which the origin greets a client of a relay.
fn greeting_origin_of(gate: &Lockgate) -> (Wire, String) {
    let mut client = Wire::connect(gate.address());
    let name = String::from_utf8(client.exactly(1)).unwrap();
    (client, name)
}

#[test]
fn a_backup_serves_requests_while_no_other_endpoint_is_up() {
    let (address, backup) = (deserted(), origin_named("backup"));
    let endpoints = format!(
        "endpoints = [\"{address}\", {{ addr = \"{}\", backup = true }}]",
        backup.address()
    );
    for balance in ["p2c", "least", "round-robin"] {
        let gate = lockgate()
            .workers(2)
            .start(&pooled(format!("{endpoints}\nbalance = \"{balance}\"")));
        (0..5).for_each(|_| assert_eq!(ask(&gate).text(), "backup"));
        let _first = Origin::tcp_at(address).answering(|_| ok("first"));
        eventually("the first is back", || {
            (ask(&gate).text() == "first").then_some(())
        });
        (0..20).for_each(|_| assert_eq!(ask(&gate).text(), "first"));
    }
}

#[test]
fn a_backup_serves_relays_while_no_other_endpoint_is_up() {
    let (address, backup) = (deserted(), greeting_origin("b"));
    let endpoints = format!(
        "endpoints = [\"{address}\", {{ addr = \"{}\", backup = true }}]",
        backup.address()
    );
    let gate = lockgate().workers(2).start(&relay_to_pool(&endpoints));
    let (mut held, name) = greeting_origin_of(&gate);
    assert_eq!(name, "b");
    let _first = Origin::tcp_at(address).serve(|wire| {
        wire.send("a");
        wire.wait_closed();
    });
    eventually("the first is back", || {
        (greeting_origin_of(&gate).1 == "a").then_some(())
    });
    (0..20).for_each(|_| assert_eq!(greeting_origin_of(&gate).1, "a"));
    // What began at the backup stays there.
    held.send("still");
    assert!(held.is_quiet(Duration::ZERO));
}

#[test]
fn a_full_endpoint_is_waited_for_before_a_backup() {
    let (first, backup) = (Origin::tcp(), greeting_origin("b"));
    let gate = lockgate().start(&relay_to_pool(&format!(
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
fn relays_use_weighted_round_robin_where_configured() {
    let (a, b) = (greeting_origin("a"), greeting_origin("b"));
    let gate = lockgate().workers(2).start(&relay_to_pool(&format!(
        "endpoints = [\"{}\", {{ addr = \"{}\", weight = 2 }}]\nbalance = \"round-robin\"",
        a.address(),
        b.address()
    )));
    let names: String = (0..9).map(|_| greeting_origin_of(&gate).1).collect();
    assert_eq!(names, "babbabbab");
}

#[test]
fn health_checks_cover_endpoints_of_relays_and_sites_once() {
    let (origin, nobody) = (origin_named("a"), deserted());
    let toml = format!(
        "[pool.app]\nendpoints = [\"{}\", \"{nobody}\"]\nhealth = {{ tcp = true, every = \"50ms\", fall = 1 }}\n\
         [tcp.\"127.0.0.1:0\"]\nproxy = \"pool:app\"\n[tcp.\"127.0.0.2:0\"]\nproxy = \"pool:app\"\n",
        origin.address()
    );
    for site in [
        "",
        &plain_site("pool:app").replace("127.0.0.1", "127.0.0.3"),
    ] {
        let gate = lockgate().workers(2).start(&format!("{toml}{site}"));
        for (endpoint, up) in [(origin.address(), 1.0), (&*nobody.to_string(), 0.0)] {
            let endpoint = format!("endpoint=\"{endpoint}\"");
            gate.wait_for_sample("lockgate_upstream_up", &["pool=\"app\"", &endpoint], up);
        }
        assert_eq!(
            gate.metrics().matches("lockgate_upstream_up{").count(),
            2,
            "each once"
        );
    }
}

#[test]
fn relays_wait_in_the_pool_queue_within_its_limits() {
    for (queue, detail) in [
        ("{ max = 0, wait = \"60s\" }", "the queue is full"),
        (
            "{ max = 10, wait = \"100ms\" }",
            "at its limit of connections",
        ),
    ] {
        let origin = Origin::tcp();
        let mut gate = lockgate().workers(2).start(&relay_to_pool(&format!(
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
            assert_eq!(
                (&line["cause"], &line["side"]),
                (&"limit".into(), &"lockgate".into()),
                "{line}"
            );
            assert!(line["detail"].as_str().unwrap().contains(detail), "{line}");
        }
        upstream.send("answer");
        first.expect("answer");
    }
}

/// A pool with requests in turn, the first of which goes to `first`.
fn round_robin_pool(first: &str, second: &str, keys: &str) -> String {
    pooled(format!(
        "endpoints = [\"{first}\", \"{second}\"]\nbalance = \"round-robin\"\nretry = false\n{keys}"
    ))
}

fn statuses(gate: &Lockgate, requests: usize) -> Vec<u16> {
    (0..requests).map(|_| ask(gate).status()).collect()
}

#[test]
fn consecutive_failure_statuses_eject_an_endpoint() {
    for (keys, count, status) in [
        ("eject = { statuses = [\"503\"] }", 5, 503),
        (
            "eject = { errors = 3, for = \"60s\", statuses = [\"500\", \"502-504\"] }",
            3,
            502,
        ),
        ("eject = { errors = 1, statuses = [\"500-599\"] }", 1, 504),
    ] {
        let bad = Origin::tcp().answering(move |_| {
            format!("HTTP/1.1 {status} Bad\r\nContent-Length: 0\r\n\r\n").into_bytes()
        });
        let good = origin_named("good");
        let gate =
            lockgate()
                .workers(2)
                .start(&round_robin_pool(bad.address(), good.address(), keys));
        let expected: Vec<u16> = (0..20)
            .map(|at| {
                if at % 2 == 0 && at / 2 < count {
                    status
                } else {
                    200
                }
            })
            .collect();
        assert_eq!(statuses(&gate, 20), expected, "{keys}");
        for (name, [of_bad, of_good]) in [
            ("lockgate_upstream_ejections_total", [1.0, 0.0]),
            ("lockgate_upstream_ejected", [1.0, 0.0]),
        ] {
            assert_eq!(gate.sample(name, &[bad.address()]), of_bad);
            assert_eq!(gate.sample(name, &[good.address()]), of_good);
        }
        gate.stderr().find("it is said once", |line| {
            line.contains("is ejected").then_some(())
        });
    }
}

#[test]
fn a_status_outside_the_eject_list_resets_the_failure_count() {
    for (statuses, ejected) in [
        ([503, 503, 500], false),
        ([503, 503, 404], false),
        ([503, 503, 502], true),
    ] {
        let turn = AtomicUsize::new(0);
        let bad = Origin::tcp().answering(move |_| {
            let status = statuses[turn.fetch_add(1, Ordering::SeqCst) % 3];
            format!("HTTP/1.1 {status} Bad\r\nContent-Length: 0\r\n\r\n").into_bytes()
        });
        let good = origin_named("good");
        let gate = lockgate().start(&round_robin_pool(
            bad.address(),
            good.address(),
            "eject = { errors = 3, statuses = [\"502-504\"] }",
        ));
        let answers = self::statuses(&gate, 20);
        let good = answers.iter().filter(|status| **status == 200).count();
        assert_eq!(good, if ejected { 17 } else { 10 }, "{answers:?}");
    }
}

#[test]
fn error_responses_alone_eject_no_endpoint() {
    for status in [500, 502, 503, 504] {
        let origin = |name: &'static str| {
            Origin::tcp().answering(move |seen| {
                match seen.first_line().starts_with("GET /broken ") {
                    true => {
                        format!("HTTP/1.1 {status} Bad\r\nContent-Length: 0\r\n\r\n").into_bytes()
                    }
                    false => ok(name),
                }
            })
        };
        let (one, other) = (origin("one"), origin("other"));
        let gate = lockgate().start(&round_robin_pool(
            one.address(),
            other.address(),
            "eject = { errors = 1 }",
        ));
        for _ in 0..20 {
            let mut client = Http::connect(gate.address());
            client.send("GET /broken HTTP/1.1\r\nHost: a.test\r\n\r\n");
            assert_eq!(client.answer().status(), status);
        }
        let served: Vec<String> = (0..4).map(|_| ask(&gate).text().to_owned()).collect();
        assert_eq!(served, ["one", "other", "one", "other"], "{status}");
        gate.wait_for_sample("lockgate_upstream_ejections_total", &[], 0.0);
    }
}

#[test]
fn with_eject_false_an_endpoint_keeps_its_turn() {
    let bad =
        Origin::tcp().answering(|_| b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec());
    let good = origin_named("good");
    let gate = lockgate().start(&round_robin_pool(
        bad.address(),
        good.address(),
        "eject = false",
    ));
    assert_eq!(statuses(&gate, 20), [503, 200].repeat(10));
    assert_eq!(
        gate.sample("lockgate_upstream_ejections_total", &[bad.address()]),
        0.0
    );
}

#[test]
fn no_further_endpoint_is_ejected_when_all_fail() {
    let bad =
        || Origin::tcp().answering(|_| b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec());
    let (one, other, alone) = (bad(), bad(), bad());
    let keys = "eject = { errors = 1, statuses = [\"503\"] }";
    let gate = lockgate().start(&round_robin_pool(one.address(), other.address(), keys));
    assert_eq!(statuses(&gate, 10), [503; 10]);
    gate.wait_for_sample("lockgate_upstream_ejections_total", &[one.address()], 1.0);
    gate.wait_for_sample("lockgate_upstream_ejections_total", &[other.address()], 0.0);
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\n{keys}",
        alone.address()
    )));
    assert_eq!(statuses(&gate, 10), [503; 10]);
    gate.wait_for_sample("lockgate_upstream_ejections_total", &[], 0.0);
}

#[test]
fn timeouts_and_unreadable_responses_eject_an_endpoint() {
    let silent = Origin::tcp().serve(Wire::wait_closed);
    let garbage = Origin::tcp().answering(|_| b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec());
    let good = origin_named("good");
    for bad in [silent, garbage] {
        let toml = round_robin_pool(
            bad.address(),
            good.address(),
            "eject = { errors = 2, for = \"60s\" }",
        );
        let gate = lockgate().start(&(toml + "timeouts = { response = \"1s\" }\n"));
        let answers = statuses(&gate, 12);
        assert_eq!(
            answers.iter().filter(|status| **status != 200).count(),
            2,
            "{answers:?}"
        );
        assert_eq!(
            gate.sample("lockgate_upstream_ejections_total", &[bad.address()]),
            1.0
        );
    }
}

#[test]
fn an_ejected_endpoint_returns_after_its_time() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let origin = Origin::tcp().answering(move |_| match is_well.load(Ordering::SeqCst) {
        true => ok("back"),
        false => b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let good = origin_named("good");
    let keys = "eject = { errors = 1, for = \"300ms\", statuses = [\"503\"] }\nslow_start = \"1s\"";
    let gate = lockgate().start(&round_robin_pool(origin.address(), good.address(), keys));
    assert_eq!(ask(&gate).status(), 503);
    well.store(true, Ordering::SeqCst);
    eventually("it is back", || (ask(&gate).text() == "back").then_some(()));
    assert_eq!(
        gate.sample("lockgate_upstream_ejected", &[origin.address()]),
        0.0
    );
}

/// Four origins that answer with their names, and a pool of them with these keys.
fn four_origins(keys: &str) -> ([Serving; 4], String) {
    let origins = ["a", "b", "c", "d"].map(origin_named);
    let keys = format!("endpoints = [{}]\n{keys}", addresses(&origins));
    (origins, keys)
}

fn addresses(origins: &[Serving]) -> String {
    origins
        .iter()
        .map(|origin| format!("\"{}\"", origin.address()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The name of the origin that serves a request with these fields.
fn origin_for(client: &mut Http, fields: &str) -> String {
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    client.answer().text().to_owned()
}

/// Each of the clients gets the same origin each time, and all four origins get some: of 80 clients,
/// one origin would get none by chance once in 10⁹ runs.
fn assert_spread<N: Ord>(names: impl Iterator<Item = [N; 3]>) {
    let mut seen = BTreeSet::new();
    for [first, second, third] in names {
        assert!(first == second && second == third);
        seen.insert(first);
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn consistent_hashing_agrees_across_workers_and_processes() {
    for (key, field) in [
        ("header:X-User", "X-User: "),
        ("cookie:id", "Cookie: a=b; id="),
    ] {
        let (_origins, keys) = four_origins(&format!("balance = {{ hash = \"{key}\" }}"));
        let gates = [2, 1, 2].map(|workers| lockgate().workers(workers).start(&pooled(&keys)));
        assert_spread((0..80).map(|user| {
            let fields = format!("{field}user-{user}\r\n");
            gates
                .each_ref()
                .map(|gate| origin_for(&mut Http::connect(gate.address()), &fields))
        }));
        // Without it, by address: all of one client's go to one.
        let mut client = Http::connect(gates[0].address());
        let first = origin_for(&mut client, "");
        assert!((0..10).all(|_| origin_for(&mut client, "Cookie: id=\r\nX-User:\r\n") == first));
    }
}

#[test]
fn ip_hash_sends_an_address_to_one_endpoint() {
    let (_origins, keys) = four_origins("balance = { hash = \"client\" }");
    let gate = lockgate().workers(2).start(&pooled(&keys));
    assert_spread((1..81).map(|host| {
        let from = Ipv4Addr::new(127, 9, 9, host).into();
        [(); 3].map(|()| {
            origin_for(
                &mut Http::over(Wire::connect_from(from, gate.address())),
                "",
            )
        })
    }));
}

#[test]
fn relays_hash_by_client_address_or_sni() {
    let origins = ["a", "b", "c", "d"].map(greeting_origin);
    let keys = |key| {
        format!(
            "endpoints = [{}]\nbalance = {{ hash = \"{key}\" }}",
            addresses(&origins)
        )
    };
    let gate = lockgate().workers(2).start(&relay_to_pool(&keys("client")));
    assert_spread((1..81).map(|host| {
        let from = Ipv4Addr::new(127, 9, 8, host).into();
        [(); 3].map(|()| Wire::connect_from(from, gate.address()).exactly(1))
    }));
    let site = Site::new();
    let cert = site
        .folder
        .certificate("names.pem", &site.authority.issue(&["*.app.test"]));
    let tls = format!("tls = {{ cert = \"{cert}\" }}\n");
    let gate = lockgate()
        .workers(2)
        .start(&(relay_to_pool(&keys("sni")) + &tls));
    assert_spread((0..80).map(|name| {
        let name = format!("{name}.app.test");
        [(); 3].map(|()| {
            site.client()
                .connect(gate.address(), &name)
                .unwrap()
                .exactly(1)
        })
    }));
}

#[test]
fn hashed_requests_of_an_unreachable_endpoint_move_and_return() {
    let (address, other) = (deserted(), origin_named("other"));
    let balance = "balance = { hash = \"header:x-user\" }";
    let gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [\"{address}\", \"{}\"]\n{balance}",
        other.address()
    )));
    let ask = |user: u32| {
        origin_for(
            &mut Http::connect(gate.address()),
            &format!("X-User: {user}\r\n"),
        )
    };
    assert!((0..20).all(|user| ask(user) == "other"));
    let _first = Origin::tcp_at(address).answering(|_| ok("first"));
    eventually("it is back", || {
        (0..20).any(|user| ask(user) == "first").then_some(())
    });
    assert!(
        (0..20).any(|user| ask(user) == "other"),
        "those who belong there"
    );
}

#[test]
fn a_dedicated_upstream_connection_is_left_when_the_hash_differs() {
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
    let alone = users
        .iter()
        .map(|user| origin_for(&mut Http::connect(gate.address()), user));
    let alone: Vec<String> = alone.collect();
    let mut client = Http::connect(gate.address());
    let together: Vec<String> = users
        .iter()
        .map(|user| origin_for(&mut client, user))
        .collect();
    assert_eq!(alone, together);
}

/// The cookie `lg` that a response sets, with everything behind it.
fn cookie_set(answer: &Message) -> Option<&str> {
    let mut set = answer
        .all("set-cookie")
        .filter(|line| line.starts_with("lg="));
    let cookie = set.next();
    assert_eq!(set.next(), None);
    cookie
}

/// The response to a request with this Cookie line.
fn with_cookie(to: std::net::SocketAddr, cookies: &str) -> Message {
    let mut client = Http::connect(to);
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nCookie: {cookies}\r\n\r\n"
    ));
    client.answer()
}

/// The name and value of a `Set-Cookie` line, which a client sends back.
fn cookie_pair(set: &str) -> &str {
    set.split(';').next().unwrap()
}

#[test]
fn a_sticky_cookie_holds_across_workers_and_processes() {
    let (_origins, keys) = four_origins("balance = { sticky = \"cookie:lg\" }");
    let gates = [2, 1, 2].map(|workers| lockgate().workers(workers).start(&pooled(&keys)));
    let mut seen = BTreeSet::new();
    for _ in 0..40 {
        let first = ask(&gates[0]);
        let set = cookie_set(&first).unwrap();
        assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{set}");
        assert_eq!(first.field("cache-control"), Some("private"));
        seen.insert((first.text().to_owned(), cookie_pair(set).to_owned()));
        for gate in &gates {
            let again = with_cookie(gate.address(), &format!("a=b; {}", cookie_pair(set)));
            assert_eq!((again.text(), cookie_set(&again)), (first.text(), None));
            assert_eq!(again.field("cache-control"), None);
        }
    }
    assert_eq!(seen.len(), 4, "one cookie for each endpoint: {seen:?}");
    // A cookie that names no endpoint is replaced.
    let answer = with_cookie(gates[0].address(), "lg=0123456789abcdef");
    assert!(cookie_set(&answer).is_some());
}

#[test]
fn over_tls_the_sticky_cookie_is_secure() {
    let (_origins, keys) = four_origins("balance = { sticky = \"cookie:lg\" }");
    let site = Site::new();
    let toml = format!("[pool.app]\n{keys}\n") + &secure_site(&site.cert, "pool:app");
    let gate = lockgate().workers(2).start(&toml);
    let settings = site.client().alpn(&["http/1.1"]);
    let mut client = Http::over(settings.connect(gate.at("127.0.0.2:0"), NAME).unwrap());
    let request = |more: &str| format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n{more}\r\n");
    client.send(request(""));
    let first = client.answer();
    let set = cookie_set(&first).unwrap();
    assert!(
        set.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"),
        "{set}"
    );
    client.send(request(&format!("Cookie: {}\r\n", cookie_pair(set))));
    let again = client.answer();
    assert_eq!((again.text(), cookie_set(&again)), (first.text(), None));
}

#[test]
fn the_sticky_cookie_is_not_forwarded_to_endpoints() {
    let origin = Origin::tcp();
    let toml = pooled(format!(
        "endpoints = [\"{}\"]\nbalance = {{ sticky = \"cookie:lg\" }}",
        origin.address()
    ));
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    let mut upstream: Option<Http> = None;
    for (sent, seen) in [
        (
            "Cookie: a=b; lg=0; c=d\r\nCookie: e=f\r\n",
            Some("a=b; c=d; e=f"),
        ),
        ("Cookie: lg=0\r\n", None),
        ("Cookie: a=b;c=d\r\n", Some("a=b;c=d")),
        ("", None),
    ] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{sent}\r\n"));
        let upstream = upstream.get_or_insert_with(|| origin.http());
        let request = upstream.request();
        assert_eq!(
            request.all("cookie").collect::<Vec<_>>(),
            seen.into_iter().collect::<Vec<_>>(),
            "{sent}"
        );
        upstream.send("HTTP/1.1 200 OK\r\nSet-Cookie: s=1\r\nCache-Control: public, max-age=60\r\nContent-Length: 0\r\n\r\n");
        let answer = client.answer();
        assert!(
            cookie_set(&answer).is_some() && answer.all("set-cookie").count() == 2,
            "{}",
            answer.head
        );
        let caching: Vec<_> = answer.all("cache-control").collect();
        assert_eq!(
            caching,
            ["public, max-age=60", "private"],
            "no shared cache keeps it"
        );
    }
}

#[test]
fn an_unreachable_endpoint_gets_its_sticky_cookie_replaced() {
    let address = deserted();
    let other = origin_named("other");
    let keys = format!(
        "endpoints = [\"{address}\", \"{}\"]\nbalance = {{ sticky = \"cookie:lg\" }}\nidle = {{ max = 0 }}",
        other.address()
    );
    let gate = lockgate().workers(2).start(&pooled(keys));
    let first = Origin::tcp_at(address).answering(|_| ok("first"));
    let (mine, theirs) = eventually("both were chosen", || {
        let answers: Vec<Message> = (0..20).map(|_| ask(&gate)).collect();
        let of = |name| {
            answers
                .iter()
                .find(|answer| answer.text() == name)
                .and_then(cookie_set)
                .map(str::to_owned)
        };
        of("first").zip(of("other"))
    });
    drop(first);
    let moved = with_cookie(gate.address(), cookie_pair(&mine));
    assert_eq!(
        (moved.text(), cookie_set(&moved)),
        ("other", Some(&*theirs))
    );
    let stays = with_cookie(gate.address(), cookie_pair(&theirs));
    assert_eq!((stays.text(), cookie_set(&stays)), ("other", None));
}

#[test]
fn an_ejected_endpoint_gets_its_sticky_cookie_replaced() {
    let bad = Arc::new(AtomicBool::new(false));
    let is_bad = Arc::clone(&bad);
    let one = Origin::tcp().answering(move |_| match is_bad.load(Ordering::SeqCst) {
        true => b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec(),
        false => ok("one"),
    });
    let other = origin_named("other");
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\", \"{}\"]\nbalance = {{ sticky = \"cookie:lg\" }}\neject = {{ errors = 2, for = \"60s\", \
         statuses = [\"503\"] }}",
        one.address(),
        other.address()
    )));
    let mine = eventually("it was chosen", || {
        let answer = ask(&gate);
        (answer.text() == "one").then(|| cookie_pair(cookie_set(&answer).unwrap()).to_owned())
    });
    bad.store(true, Ordering::SeqCst);
    let answers = [(); 3].map(|()| with_cookie(gate.address(), &mine));
    assert_eq!(answers.each_ref().map(Message::status), [503, 503, 200]);
    assert!(cookie_set(&answers[1]).is_none() && cookie_set(&answers[2]).is_some());
}

#[test]
fn a_sticky_request_waits_for_its_full_endpoint() {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let full = Origin::tcp().answering(move |request| {
        if request.first_line().starts_with("GET /hold ") {
            released.lock().unwrap().recv().unwrap();
        }
        ok("full")
    });
    let free = origin_named("free");
    let gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [{{ addr = \"{}\", max = 1 }}, \"{}\"]\nbalance = {{ sticky = \"cookie:lg\" }}\n\
         queue = {{ wait = \"60s\" }}",
        full.address(),
        free.address()
    )));
    let mine = eventually("it was chosen", || {
        let answer = ask(&gate);
        (answer.text() == "full").then(|| cookie_pair(cookie_set(&answer).unwrap()).to_owned())
    });
    let begin = |path: &str| {
        let mut client = Http::connect(gate.address());
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a.test\r\nCookie: {mine}\r\n\r\n"
        ));
        client
    };
    let mut holds = begin("/hold");
    gate.wait_for_sample(
        "lockgate_upstream_requests_in_flight",
        &[full.address()],
        1.0,
    );
    let mut waits = begin("/");
    gate.wait_for_sample("lockgate_requests_queued", &[], 1.0);
    assert_eq!(
        ask(&gate).text(),
        "free",
        "who belongs nowhere does not wait"
    );
    release.send(()).unwrap();
    assert_eq!(holds.answer().text(), "full");
    let waited = waits.answer();
    assert_eq!((waited.text(), cookie_set(&waited)), ("full", None));
}

#[test]
fn a_websocket_upgrade_gets_the_sticky_cookie() {
    let origin = Origin::tcp();
    let toml = pooled(format!(
        "endpoints = [\"{}\"]\nbalance = {{ sticky = \"cookie:lg\" }}",
        origin.address()
    ));
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    let mut upstream = origin.http();
    upstream.request();
    upstream
        .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    let head = client.head();
    assert!(
        head.starts_with("HTTP/1.1 101 ") && head.contains("Set-Cookie: lg="),
        "{head}"
    );
}

#[test]
fn sticky_cookies_work_over_http2() {
    let origin = h2::Origin::plain(|_| h2::ScriptedResponse::ok("ok"));
    let gate = lockgate().start(&format!(
        "[pool.app]\nprotocol = \"h2c\"\nendpoints = [\"{}\"]\nbalance = {{ sticky = \"cookie:lg\" }}\n{}\
         protocols = [\"h2c\"]\n",
        origin.address(),
        plain_site("pool:app")
    ));
    let client = h2::Client::connect(gate.address());
    let ask = |crumbs: &[&str]| {
        let mut request = h2::Client::request(::http::Method::GET, "/");
        for crumb in crumbs {
            request
                .headers_mut()
                .append("cookie", crumb.parse().unwrap());
        }
        let set = client
            .begin(request, true)
            .answer()
            .field("set-cookie")
            .map(str::to_owned);
        (set, origin.next().field("cookie").map(str::to_owned))
    };
    let (set, seen) = ask(&["a=b"]);
    assert_eq!(seen.as_deref(), Some("a=b"));
    let set = set.unwrap();
    assert!(
        set.starts_with("lg=") && set.ends_with("; Path=/; HttpOnly; SameSite=Lax"),
        "{set}"
    );
    assert_eq!(
        ask(&["a=b", cookie_pair(&set), "c=d"]),
        (None, Some("a=b; c=d".to_owned()))
    );
    assert_eq!(ask(&[cookie_pair(&set)]), (None, None));
}
