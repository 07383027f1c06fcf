//! Endpoints of a pool: the choice of the next, idle connections, limits, and requests while one of
//! them is absent.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};

use lockgate_testkit::{
    Authority, Folder, Http, Lockgate, Message, Origin, Serving, Tls, Wire, eventually,
    server_config,
};

use super::{ask, get, ok, plain_site, pooled};
use crate::scene::{NAME, Site, deserted, lockgate, text};

/// An origin that answers everything with its name.
fn origin_named(name: &'static str) -> Serving {
    Origin::tcp().answering(move |_| ok(name))
}

/// A pool of two.
fn two_endpoints(one: &Serving, other: &Serving) -> String {
    pooled(format!(
        "endpoints = [\"{}\", \"{}\"]",
        one.address(),
        other.address()
    ))
}

fn status_and_error(answer: &Message) -> (u16, String) {
    let status = answer.field("proxy-status").unwrap_or_default();
    let error = status.split("error=").nth(1).unwrap_or_default();
    (
        answer.status(),
        error.split(';').next().unwrap_or_default().to_owned(),
    )
}

#[test]
fn a_missing_endpoint_is_a_502_until_it_appears() {
    let folder = Folder::new();
    let path = folder.path("app.sock");
    let address = deserted();
    for (endpoint, is_unix) in [
        (address.to_string(), false),
        (format!("unix:{}", path.display()), true),
    ] {
        let mut gate = lockgate().start(&plain_site(&endpoint));
        let answer = ask(&gate);
        assert_eq!(
            status_and_error(&answer),
            (502, "connection_refused".to_owned()),
            "{}",
            answer.head
        );
        assert!(
            answer.text().contains("the application cannot be reached"),
            "{}",
            answer.text()
        );
        let line = gate.next_line();
        assert_eq!(
            (&line["status"], &line["cause"]),
            (&502.into(), &"connect_failed".into()),
            "{line}"
        );
        assert!(
            line["detail"].as_str().unwrap().contains(&endpoint),
            "{line}"
        );
        gate.wait_for_sample(
            "lockgate_upstream_failures_total",
            &["reason=\"connection_refused\""],
            1.0,
        );
        let origin = if is_unix {
            Origin::unix(&path)
        } else {
            Origin::tcp_at(address)
        };
        let _origin = origin.answering(|_| ok("here"));
        assert_eq!(ask(&gate).text(), "here");
    }
}

#[test]
fn an_unresolvable_endpoint_name_is_a_dns_error() {
    let gate = lockgate().start(&plain_site("no-such-host.invalid:80"));
    assert_eq!(status_and_error(&ask(&gate)), (502, "dns_error".to_owned()));
}

#[test]
fn an_endpoint_may_be_a_host_name() {
    let origin = origin_named("by name");
    let port = origin.address().rsplit_once(':').unwrap().1.to_owned();
    let gate = lockgate().start(&plain_site(format!("localhost:{port}")));
    assert_eq!(ask(&gate).text(), "by name");
}

#[test]
fn one_refusing_endpoint_fails_no_request() {
    let (one, other) = (origin_named("one"), origin_named("other"));
    for balance in ["p2c", "least", "round-robin"] {
        let gate = lockgate().workers(2).start(&pooled(format!(
            "endpoints = [\"{}\", \"{}\", \"{}\"]\nbalance = \"{balance}\"",
            deserted(),
            one.address(),
            other.address()
        )));
        closed_loop(&gate, 8, 25);
    }
}

#[test]
fn a_hundred_refusing_endpoints_are_a_502() {
    let nobody = deserted();
    let many: Vec<_> = (0..100)
        .map(|port| format!("\"{}:{}\"", nobody.ip(), 1 + port))
        .collect();
    let gate = lockgate().start(&pooled(format!("endpoints = [{}]", many.join(", "))));
    assert_eq!(
        status_and_error(&ask(&gate)),
        (502, "connection_refused".to_owned())
    );
}

/// So many clients send so many requests each, one after the other; every response is 200.
fn closed_loop(gate: &Lockgate, clients: usize, requests: usize) {
    let address = gate.address();
    let ask = || {
        let mut client = Http::connect(address);
        for _ in 0..requests {
            client.send(get("/"));
            let answer = client.answer();
            assert_eq!(answer.status(), 200, "{}", answer.head);
        }
    };
    std::thread::scope(|scope| {
        (0..clients).for_each(|_| drop(scope.spawn(ask)));
    });
}

#[test]
fn round_robin_order_is_shared_by_all_workers() {
    let (a, b, c) = (origin_named("a"), origin_named("b"), origin_named("c"));
    let gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [\"{}\", {{ addr = \"{}\", weight = 2 }}, \"{}\"]\nbalance = \"round-robin\"",
        a.address(),
        b.address(),
        c.address()
    )));
    let answers: String = (0..12).map(|_| ask(&gate).text().to_owned()).collect();
    assert_eq!(answers, "bacbbacbbacb");
}

#[test]
fn least_conn_weighs_requests_in_flight() {
    let origins = [Origin::tcp(), Origin::tcp()];
    let gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [{{ addr = \"{}\", weight = 2 }}, \"{}\"]\nbalance = \"least\"",
        origins[0].address(),
        origins[1].address()
    )));
    let mut held = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = Http::connect(gate.address());
        client.send(get("/"));
        clients.push(client);
        let mut upstream = eventually("whoever is asked", || {
            let asked = origins
                .iter()
                .find(|origin| origin.has_one(std::time::Duration::from_millis(1)))?;
            Some((asked.address(), asked.http()))
        });
        upstream.1.request();
        held.push(upstream);
    }
    let first = held
        .iter()
        .filter(|(address, _)| *address == origins[0].address())
        .count();
    assert_eq!((first, held.len() - first), (4, 2));
}

#[test]
fn an_idle_upstream_connection_is_reused_by_another_client() {
    let origin = origin_named("app");
    let gate = lockgate().start(&plain_site(origin.address()));
    for _ in 0..10 {
        assert_eq!(ask(&gate).text(), "app");
    }
    assert_eq!(origin.accepted(), 1);
    gate.wait_for_sample("lockgate_upstream_reused_total", &[], 9.0);
    gate.wait_for_sample("lockgate_upstream_connects_total", &[], 1.0);
    gate.wait_for_sample("lockgate_upstream_idle_connections", &[], 1.0);
}

#[test]
fn idle_requests_limits_the_requests_of_a_connection() {
    for (idle, connections) in [
        ("{ max = 0 }", 9),
        ("{ requests = 4 }", 3),
        ("{ requests = 1 }", 9),
    ] {
        for more in ["", "\nproxy_protocol = \"v1\""] {
            let origin = Origin::tcp().serve(move |wire| {
                let mut http = Http::over(wire.another());
                if !more.is_empty() {
                    http.line();
                }
                while http.next_request().is_some() {
                    http.send(ok("app"));
                }
            });
            let toml = pooled(format!(
                "endpoints = [\"{}\"]\nidle = {idle}{more}",
                origin.address()
            ));
            let gate = lockgate().start(&toml);
            let mut client = Http::connect(gate.address());
            for _ in 0..9 {
                client.send(get("/"));
                assert_eq!(client.answer().text(), "app");
            }
            assert_eq!(origin.accepted(), connections, "{idle}{more}");
        }
    }
}

#[test]
fn idle_upstream_connections_time_out_without_clients() {
    let origin = Origin::tcp();
    let toml = pooled(format!(
        "endpoints = [\"{}\"]\nidle = {{ for = \"1s\" }}",
        origin.address()
    ));
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(ok("app"));
    assert_eq!(client.answer().text(), "app");
    drop(client);
    upstream.expect_end();
    gate.wait_for_sample("lockgate_upstream_idle_connections", &[], 0.0);
}

/// An origin that counts how many requests it has at once; the first three wait for each other.
fn busy(most: &Arc<AtomicUsize>) -> Serving {
    let (most, now, all) = (Arc::clone(most), AtomicUsize::new(0), AtomicUsize::new(0));
    let three = Barrier::new(3);
    Origin::tcp().answering(move |_| {
        let here = now.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(here, Ordering::SeqCst);
        if all.fetch_add(1, Ordering::SeqCst) < 3 {
            three.wait();
        }
        // Others have their turn while this one is here.
        (0..20).for_each(|_| std::thread::yield_now());
        now.fetch_sub(1, Ordering::SeqCst);
        ok("done")
    })
}

#[test]
fn endpoint_max_holds_across_workers() {
    let most = Arc::default();
    let origin = busy(&most);
    let gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [{{ addr = \"{}\", max = 3 }}]\nqueue = {{ wait = \"60s\" }}",
        origin.address()
    )));
    closed_loop(&gate, 24, 20);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[test]
fn queued_requests_are_served_in_order() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [{{ addr = \"{}\", max = 1 }}]\nqueue = {{ wait = \"60s\" }}",
        origin.address()
    )));
    let mut clients = Vec::new();
    for number in 0..5_u8 {
        let mut client = Http::connect(gate.address());
        client.send(get(&format!("/{number}")));
        clients.push(client);
        gate.wait_for_sample("lockgate_requests_in_flight", &[], f64::from(number) + 1.0);
        gate.wait_for_sample("lockgate_requests_queued", &[], f64::from(number));
    }
    let mut upstream = origin.http();
    for number in 0..5 {
        assert_eq!(
            upstream.request().first_line(),
            format!("GET /{number} HTTP/1.1")
        );
        upstream.send(ok("done"));
    }
    for client in &mut clients {
        assert_eq!(client.answer().text(), "done");
    }
    gate.wait_for_sample("lockgate_requests_queued", &[], 0.0);
    gate.wait_for_sample("lockgate_request_queue_duration_seconds_count", &[], 4.0);
}

#[test]
fn a_full_queue_or_queue_timeout_is_a_503() {
    for (queue, detail) in [
        ("{ max = 0, wait = \"60s\" }", "the queue is full"),
        (
            "{ max = 10, wait = \"100ms\" }",
            "at its limit of connections",
        ),
    ] {
        let origin = Origin::tcp();
        let mut gate = lockgate().workers(2).start(&pooled(format!(
            "endpoints = [{{ addr = \"{}\", max = 1 }}]\nqueue = {queue}",
            origin.address()
        )));
        let mut first = Http::connect(gate.address());
        first.send(get("/"));
        let mut upstream = origin.http();
        upstream.request();
        for _ in 0..3 {
            assert_eq!(
                status_and_error(&ask(&gate)),
                (503, "connection_limit_reached".to_owned()),
                "{queue}"
            );
            let line = gate.next_line();
            assert_eq!(line["cause"], "limit", "{line}");
            assert!(line["detail"].as_str().unwrap().contains(detail), "{line}");
        }
        upstream.send(ok("done"));
        assert_eq!(first.answer().text(), "done");
    }
}

#[test]
fn a_client_that_leaves_frees_its_queue_position() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [{{ addr = \"{}\", max = 1 }}]\nqueue = {{ max = 1, wait = \"60s\" }}",
        origin.address()
    )));
    let mut first = Http::connect(gate.address());
    first.send(get("/first"));
    let mut upstream = origin.http();
    upstream.request();
    let mut gone = Http::connect(gate.address());
    gone.send(get("/gone"));
    gate.wait_for_sample("lockgate_requests_queued", &[], 1.0);
    gone.stream.reset();
    gate.wait_for_sample("lockgate_requests_queued", &[], 0.0);
    let mut next = Http::connect(gate.address());
    next.send(get("/next"));
    gate.wait_for_sample("lockgate_requests_queued", &[], 1.0);
    upstream.send(ok("first"));
    assert_eq!(first.answer().text(), "first");
    assert_eq!(upstream.request().first_line(), "GET /next HTTP/1.1");
    upstream.send(ok("next"));
    assert_eq!(next.answer().text(), "next");
}

#[test]
fn a_client_that_leaves_mid_response_closes_the_upstream_connection() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send(get("/events"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    client.head();
    assert_eq!(client.chunk().unwrap(), b"first");
    gate.wait_for_sample("lockgate_upstream_requests_in_flight", &[], 1.0);
    client.stream.reset();
    upstream.expect_end();
    gate.wait_for_sample("lockgate_upstream_requests_in_flight", &[], 0.0);
}

#[test]
fn an_endpoint_killed_under_load_fails_no_idempotent_request() {
    let killed = Arc::new(AtomicBool::new(false));
    let (dead, hit) = (Arc::clone(&killed), Arc::new(Barrier::new(2)));
    let shot = Arc::clone(&hit);
    let count = AtomicUsize::new(0);
    // Where no other test listens once it is gone.
    let doomed = Origin::tcp_at(deserted()).serve(move |wire| {
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            if count.fetch_add(1, Ordering::SeqCst) == 50 {
                shot.wait();
                shot.wait();
            }
            if dead.load(Ordering::SeqCst) {
                return;
            }
            http.send(ok("doomed"));
        }
    });
    let other = origin_named("other");
    let address = doomed.address().to_owned();
    let gate = lockgate().workers(2).start(&two_endpoints(&doomed, &other));
    std::thread::scope(|scope| {
        scope.spawn(|| closed_loop(&gate, 8, 100));
        hit.wait();
        killed.store(true, Ordering::SeqCst);
        drop(doomed);
        hit.wait();
    });
    closed_loop(&gate, 8, 25);
    // When it is there again, it gets requests again.
    let again = Origin::tcp_at(address.parse().unwrap()).answering(|_| ok("again"));
    eventually("its turn", || (ask(&gate).text() == "again").then_some(()));
    drop(again);
}

/// An origin that answers at once while it is not stopped, and holds every request while it is.
#[derive(Default)]
struct Stop(Mutex<bool>, Condvar);

impl Stop {
    fn set(&self, stopped: bool) {
        *self.0.lock().unwrap() = stopped;
        self.1.notify_all();
    }

    fn wait(&self) {
        drop(
            self.1
                .wait_while(self.0.lock().unwrap(), |stopped| *stopped)
                .unwrap(),
        );
    }
}

#[test]
fn a_hanging_endpoint_loses_traffic_before_its_timeout() {
    let (stop, count) = (Arc::new(Stop::default()), Arc::new(AtomicUsize::new(0)));
    let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
    let one = Origin::tcp().answering(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        stopped.wait();
        ok("one")
    });
    let other = origin_named("other");
    let gate = lockgate().workers(2).start(&two_endpoints(&one, &other));
    closed_loop(&gate, 8, 25);
    stop.set(true);
    let before = count.load(Ordering::SeqCst);
    let mut held = Vec::new();
    eventually("somebody asks the one that is stopped", || {
        let mut client = Http::connect(gate.address());
        client.send(get("/"));
        held.push(client);
        (count.load(Ordering::SeqCst) > before).then_some(())
    });
    let label = format!("endpoint=\"{}\"", one.address());
    eventually("it looks slow", || {
        (gate.sample("lockgate_upstream_latency_ewma_seconds", &[&label]) > 1.5).then_some(())
    });
    let before = count.load(Ordering::SeqCst);
    closed_loop(&gate, 4, 50);
    assert_eq!(count.load(Ordering::SeqCst), before, "nobody else is held");
    stop.set(false);
    for client in &mut held {
        assert_eq!(client.answer().status(), 200);
    }
}

/// A race of two endpoints, one of which is slow beside the other however quick the machine is.
#[derive(Default)]
struct Race(Mutex<Answers>, Condvar);

#[derive(Default)]
struct Answers {
    /// Responses of the quick one.
    quick: usize,
    /// Requests that the slow one holds.
    held: usize,
    /// Whether a request has ended: before that its latency is unknown.
    is_known: bool,
    /// Requests of the slow one since then.
    slow: usize,
}

impl Race {
    /// So many responses of the quick one take as long as one of the slow one.
    const LAP: usize = 1_000;
    /// Responses of the quick one, until which the race goes.
    const END: usize = 4_000;
    /// The slow one answers at once when it holds so many: otherwise the quick one would get no
    /// request.
    const HELD: usize = 4;

    fn quick_answers(&self) {
        self.0.lock().unwrap().quick += 1;
        self.1.notify_all();
    }

    fn slow_answers(&self) {
        let mut answers = self.0.lock().unwrap();
        answers.slow += usize::from(answers.is_known);
        if answers.held < Self::HELD {
            answers.held += 1;
            let due = Self::END.min(answers.quick + Self::LAP);
            answers = self
                .1
                .wait_while(answers, |answers| answers.quick < due)
                .unwrap();
            answers.held -= 1;
            answers.is_known = true;
        }
    }

    fn is_over(&self) -> bool {
        self.0.lock().unwrap().quick >= Self::END
    }
}

#[test]
fn a_slow_endpoint_gets_few_requests() {
    let race = Arc::new(Race::default());
    let [ours, theirs] = [&race, &race].map(Arc::clone);
    let slow = Origin::tcp().answering(move |_| {
        ours.slow_answers();
        ok("slow")
    });
    let quick = Origin::tcp().answering(move |_| {
        theirs.quick_answers();
        ok("quick")
    });
    let gate = lockgate().workers(2).start(&two_endpoints(&slow, &quick));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Http::connect(gate.address());
                while !race.is_over() {
                    client.send(get("/"));
                    assert_eq!(client.answer().status(), 200);
                }
            });
        }
    });
    let answers = race.0.lock().unwrap();
    // Without regard to latency it would get as many as the other.
    assert!(
        answers.is_known && answers.slow <= Race::END / 10,
        "{} of {}",
        answers.slow,
        answers.quick
    );
}

#[test]
fn with_proxy_protocol_upstream_connections_belong_to_one_client() {
    for (version, header) in [
        ("v1", b"PROXY TCP4 127.0.0.".as_slice()),
        ("v2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11"),
    ] {
        let origin = Origin::tcp();
        let gate = lockgate().start(&pooled(format!(
            "endpoints = [\"{}\"]\nproxy_protocol = \"{version}\"",
            origin.address()
        )));
        let introduced = |origin: &Origin, from: u8| {
            let mut upstream = origin.http();
            upstream.expect(header);
            if version == "v1" {
                let rest = upstream.line();
                assert!(rest.starts_with(&format!("{from} 127.0.0.1 ")), "{rest}");
            } else {
                let len = upstream.exactly(2);
                let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
                assert_eq!(upstream.exactly(len)[..4], [127, 0, 0, from]);
            }
            upstream
        };
        let mut clients = [2, 3].map(|from: u8| {
            let mut client =
                Http::over(Wire::connect_from([127, 0, 0, from].into(), gate.address()));
            client.send(get("/1"));
            let mut upstream = introduced(&origin, from);
            upstream.request();
            upstream.send(ok("first"));
            assert_eq!(client.answer().text(), "first");
            (client, upstream)
        });
        // Each client's next request comes by its own.
        for (client, upstream) in clients.iter_mut().rev() {
            client.send(get("/2"));
            assert_eq!(upstream.request().first_line(), "GET /2 HTTP/1.1");
            upstream.send(ok("second"));
            assert_eq!(client.answer().text(), "second");
        }
        // It ends with its client.
        let [(client, mut upstream), (mut other, other_upstream)] = clients;
        drop(client);
        upstream.expect_end();
        // A connection that was closed meanwhile is opened anew for its client, with its header.
        drop(other_upstream);
        other.send(get("/3"));
        let mut upstream = introduced(&origin, 3);
        upstream.request();
        upstream.send(ok("third"));
        assert_eq!(other.answer().text(), "third");
    }
}

#[test]
fn upstream_tls_is_verified_before_anything_is_sent() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let other = text(
        &site
            .folder
            .write("other.pem", Authority::new("Other").pem()),
    );
    let served = server_config(&site.issued, None);
    for (name, ca, well) in [
        (NAME, &ca, true),
        ("other.test", &ca, false),
        (NAME, &other, false),
    ] {
        let origin = Origin::tcp();
        let gate = lockgate().start(&pooled(format!(
            "endpoints = [\"{}\"]\ntls = {{ name = \"{name}\", ca = \"{ca}\" }}",
            origin.address()
        )));
        let mut client = Http::connect(gate.address());
        client.send(get("/secret"));
        let accepted = Tls::accept(&served, origin.accept());
        if well {
            let mut upstream = Http::over(accepted.unwrap());
            for round in 0..2 {
                assert_eq!(upstream.request().first_line(), "GET /secret HTTP/1.1");
                upstream.send(ok("hidden"));
                assert_eq!(client.answer().text(), "hidden");
                if round == 0 {
                    client.send(get("/secret"));
                }
            }
        } else {
            assert!(Tls::alert(&accepted.unwrap_err()).is_some());
            let answer = client.answer();
            assert_eq!(
                status_and_error(&answer),
                (502, "tls_certificate_error".to_owned()),
                "{}",
                answer.head
            );
        }
    }
}

#[test]
fn an_endpoint_that_speaks_no_tls_is_a_502() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\ntls = {{ name = \"{NAME}\", ca = \"{ca}\" }}",
        origin.address()
    )));
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut upstream = origin.accept();
    upstream.send("HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_eq!(
        status_and_error(&client.answer()),
        (502, "tls_protocol_error".to_owned())
    );
}

#[test]
fn a_replaced_unix_socket_is_found_by_the_next_connection() {
    let folder = Folder::new();
    let path = folder.path("app.sock");
    let old = Origin::unix(&path);
    let gate = lockgate().workers(2).start(&plain_site(old.address()));
    let mut client = Http::connect(gate.address());
    client.send(get("/"));
    let mut upstream = old.http();
    upstream.request();
    upstream.send(ok("old"));
    assert_eq!(client.answer().text(), "old");
    std::fs::remove_file(&path).unwrap();
    let _new = Origin::unix(&path).answering(|_| ok("new"));
    drop((upstream, old));
    for _ in 0..10 {
        client.send(get("/"));
        assert_eq!(client.answer().text(), "new");
    }
}

#[test]
fn idle_max_closes_surplus_connections() {
    let together = Arc::new(Barrier::new(6));
    let origin = Origin::tcp().answering(move |_| {
        together.wait();
        ok("app")
    });
    let toml = pooled(format!(
        "endpoints = [\"{}\"]\nidle = {{ max = 2 }}",
        origin.address()
    ));
    let gate = lockgate().start(&toml);
    closed_loop(&gate, 6, 1);
    assert_eq!(origin.accepted(), 6);
    gate.wait_for_sample("lockgate_upstream_idle_connections", &[], 2.0);
}

#[test]
fn an_endpoint_slot_is_freed_however_the_request_ends() {
    let origin = Origin::tcp();
    let toml = pooled(format!(
        "endpoints = [{{ addr = \"{}\", max = 1 }}]\nqueue = {{ max = 0 }}",
        origin.address()
    ));
    let gate = lockgate().start(&("timeouts = { response = \"1s\" }\n".to_owned() + &toml));
    let ended = || {
        gate.wait_for_sample("lockgate_requests_in_flight", &[], 0.0);
        gate.wait_for_sample("lockgate_upstream_requests_in_flight", &[], 0.0);
        gate.wait_for_sample("lockgate_upgraded_connections", &[], 0.0);
    };
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    for (said, leaves) in [
        ("", "nobody"),
        ("", "client"),
        ("", "endpoint"),
        ("HTTP/1.1 200 OK\r\nX: y", "endpoint"),
        ("nonsense\r\n\r\n", "nobody"),
        (half, "client"),
        (half, "endpoint"),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "endpoint"),
        (switch, "client"),
        (switch, "endpoint"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "endpoint"),
    ] {
        let mut client = Http::connect(gate.address());
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, close\r\nUpgrade: echo\r\nContent-Length: 0\r\n\r\n");
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(said);
        if !said.is_empty() && leaves == "client" {
            client.head();
        }
        match leaves {
            "client" => client.stream.reset(),
            "endpoint" => {
                drop(upstream);
                client.wait_closed();
                drop(client);
            }
            _ => drop(client.head()),
        }
        ended();
        // There is room again.
        let mut client = Http::connect(gate.address());
        client.send(get("/next"));
        let mut upstream = origin.http();
        assert_eq!(
            upstream.request().first_line(),
            "GET /next HTTP/1.1",
            "{said:?} {leaves}"
        );
        upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nnext");
        assert_eq!(client.answer().text(), "next");
        ended();
    }
}
