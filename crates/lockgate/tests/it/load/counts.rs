//! Counts beside those of the server: to the request, to the connection, to the byte.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockgate_load::result::{LoadModel, RunResult};
use lockgate_load::target::{RequestBody, Varying};
use lockgate_testkit::{Http, Message, Origin, Serving};

use super::{PAGE, asks, at, changed, counts, failures, run, text};

/// Bytes that a server has received and sent.
#[derive(Default)]
struct Moved {
    received: AtomicU64,
    sent: AtomicU64,
}

/// Answers every request with a page, and counts the bytes as they are.
fn counting_server(moved: &Arc<Moved>) -> Serving {
    let moved = Arc::clone(moved);
    Origin::tcp().serve(move |wire| {
        let mut unread = Vec::new();
        let mut read = [0; 4096];
        loop {
            let len = wire.read(&mut read).unwrap_or(0);
            if len == 0 {
                return;
            }
            moved.received.fetch_add(len as u64, Ordering::SeqCst);
            unread.extend_from_slice(&read[..len]);
            while let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
                unread.drain(..end + 4);
                moved.sent.fetch_add(PAGE.len() as u64, Ordering::SeqCst);
                wire.send(PAGE);
            }
        }
    })
}

/// Answers with a page, and keeps the requests.
fn recording_server(kept: &Arc<Mutex<Vec<Message>>>) -> Serving {
    let kept = Arc::clone(kept);
    Origin::tcp().answering(move |request| {
        kept.lock().unwrap().push(request.clone());
        PAGE.into()
    })
}

#[test]
fn load_counts_agree_with_the_server() {
    for (connections, threads, per_connection, count) in [
        (1, 1, None, 1),
        (1, 1, None, 100),
        (7, 3, None, 1000),
        (4, 4, Some(1), 99),
        (5, 2, Some(3), 100),
        (8, 3, None, 2),
    ] {
        let moved = Arc::new(Moved::default());
        let server = counting_server(&moved);
        let options = changed(asks(&[&at("http", &server)], count), |options| {
            options.connections.number = connections;
            options.threads.number = threads;
            options.connections.max_requests = per_connection;
        });
        let report = run(&options);
        let counts = &report.stages[0].counts;
        let case = format!("{connections} {threads} {per_connection:?} {count}");
        assert_eq!(
            (counts.succeeded(), counts.failed(), counts.cut, counts.late),
            (count, 0, 0, 0),
            "{case}"
        );
        assert_eq!(report.uncounted, 1);
        assert_eq!(counts.statuses.get(&200), Some(&count));
        assert_eq!(counts.opened + counts.reused, count, "{case}");
        assert_eq!(counts.opened + 1, server.accepted() as u64, "{case}");
        assert_eq!(counts.connect.len(), counts.opened);
        match per_connection {
            Some(1) => assert_eq!((counts.opened, counts.reused), (count, 0)),
            Some(most) => assert!(
                counts.opened >= count.div_ceil(most),
                "{case}: {}",
                counts.opened
            ),
            None => assert!(
                counts.opened <= connections as u64,
                "{case}: {}",
                counts.opened
            ),
        }
        // The first response's bytes are not counted, and all requests are alike.
        let received = moved.received.load(Ordering::SeqCst);
        assert_eq!(received, counts.sent / count * (count + 1), "{case}");
        assert_eq!(
            moved.sent.load(Ordering::SeqCst),
            counts.received / count * (count + 1),
            "{case}"
        );
        assert_eq!(counts.received, count * PAGE.len() as u64, "{case}");
    }
}

#[test]
fn per_connection_limits_the_exchanges_of_a_connection() {
    let per_connection = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&per_connection);
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        let mut requests = 0;
        while http.next_request().is_some() {
            requests += 1;
            http.send(PAGE);
        }
        seen.lock().unwrap().push(requests);
    });
    let options = changed(asks(&[&at("http", &server)], 10), |options| {
        options.connections.max_requests = Some(3);
    });
    let counts = counts(&options);
    assert_eq!(
        (counts.succeeded(), counts.opened, counts.reused),
        (10, 4, 6)
    );
    drop(server);
    lockgate_testkit::eventually("all connections end", || {
        let mut seen = per_connection.lock().unwrap().clone();
        seen.sort_unstable();
        (seen == [1, 1, 3, 3, 3]).then_some(())
    });
}

#[test]
fn a_timed_run_counts_every_request_it_began() {
    let moved = Arc::new(Moved::default());
    let server = counting_server(&moved);
    let duration = Some(Duration::from_millis(200));
    let options = changed(asks(&[&at("http", &server)], 1), |options| {
        options.connections.number = 3;
        options.threads.number = 2;
        options.timing.count = None;
        options.timing.duration = duration;
    });
    let report = run(&options);
    let stage = &report.stages[0];
    assert_eq!(Some(stage.elapsed), duration);
    let counts = &stage.counts;
    assert_eq!((failures(counts), counts.cut), (vec![], 0));
    assert!(
        counts.late <= 3,
        "one of each connection at the most: {}",
        counts.late
    );
    let requests = counts.succeeded() + 1;
    assert_eq!(
        moved.sent.load(Ordering::SeqCst),
        requests * PAGE.len() as u64
    );
    assert_eq!(
        moved.received.load(Ordering::SeqCst),
        counts.sent / counts.succeeded() * requests
    );
}

#[test]
fn every_round_is_a_stage_with_its_own_counts() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let options = changed(asks(&[&at("http", &server)], 20), |options| {
        options.timing.rounds = 3;
        options.connections.number = 2;
        options.threads.number = 2;
    });
    let RunResult {
        stages,
        uncounted,
        run,
        ..
    } = run(&options);
    assert_eq!(
        (stages.len(), uncounted, run.model),
        (3, 1, LoadModel::Closed)
    );
    for (stage, round) in stages.iter().zip(1..) {
        assert_eq!((stage.round, stage.counts.succeeded()), (round, 20));
        let seconds: u64 = stage.seconds.iter().map(|second| second.succeeded).sum();
        assert_eq!(seconds, 20, "seconds add up");
    }
    // Connections stay from one stage to the next.
    assert!(server.accepted() <= 3);
}

#[test]
fn each_target_has_its_own_failures_and_latency() {
    let server = Origin::tcp().answering(|request| {
        if request.head.starts_with("GET /missing ") {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into()
        } else {
            PAGE.into()
        }
    });
    let [page, missing] = ["/page", "/missing"].map(|path| at("http", &server) + path);
    let options = changed(asks(&[&page, &missing], 200), |options| {
        options.anyway = true;
        options.connections.number = 2;
        options.threads.number = 2;
    });
    let stage = run(&options).stages.remove(0);
    let [of_page, of_missing] = &stage.targets[..] else {
        panic!("{} targets", stage.targets.len());
    };
    assert_eq!((of_page.failed(), of_missing.latency.len()), (0, 0));
    assert_eq!(of_page.latency.len(), stage.counts.succeeded());
    assert_eq!(of_missing.failures, stage.counts.failures);
    assert_eq!(of_page.latency.len() + of_missing.failed(), 200);
    assert_eq!(stage.counts.first_byte.len(), of_page.latency.len());
    let one = run(&asks(&[&page], 1)).stages.remove(0);
    assert!(one.targets.is_empty(), "the stage has its figures");
}

/// The last exchange of a closed loop ends behind the stage's time: it is in no second.
#[test]
fn time_line_has_no_second_behind_the_end_of_its_stage() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let time = Duration::from_millis(1_200);
    let options = changed(asks(&[&at("http", &server)], 1), |options| {
        options.timing.count = None;
        options.timing.duration = Some(time);
    });
    let stage = run(&options).stages.remove(0);
    let lengths: Vec<_> = stage.seconds.iter().map(|second| second.length).collect();
    assert_eq!(lengths.iter().sum::<Duration>(), time);
    assert_eq!(lengths.len(), 2);
    let seconds: u64 = stage.seconds.iter().map(|second| second.succeeded).sum();
    assert_eq!(seconds + stage.counts.late, stage.counts.succeeded());
}

#[test]
fn the_warm_up_is_not_counted() {
    let kept = Arc::default();
    let server = recording_server(&kept);
    let options = changed(asks(&[&at("http", &server)], 5), |options| {
        options.timing.warm_up = Duration::from_millis(50);
    });
    let report = run(&options);
    assert_eq!(report.stages.len(), 1);
    assert_eq!(report.stages[0].counts.succeeded(), 5);
    assert!(report.uncounted > 1, "{}", report.uncounted);
    assert_eq!(kept.lock().unwrap().len() as u64, report.uncounted + 5);
}

#[test]
fn weighted_targets_of_one_server_share_connections() {
    let (kept, other) = (Arc::default(), Arc::default());
    let (server, beside) = (recording_server(&kept), recording_server(&other));
    let [a, b] = ["/a", "/b?c"].map(|path| at("http", &server) + path);
    let options = changed(asks(&[&a, &b, &at("http", &beside)], 1000), |options| {
        options.requests.weights = vec![1, 2, 7];
        options.connections.number = 2;
    });
    let counts = counts(&options);
    assert_eq!((counts.succeeded(), failures(&counts)), (1000, vec![]));
    let mut asked: HashMap<String, u64> = HashMap::new();
    for message in kept.lock().unwrap().iter() {
        *asked.entry(message.first_line().to_owned()).or_default() += 1;
    }
    let far = other.lock().unwrap().len() as u64 - 1;
    let (a, b) = (asked["GET /a HTTP/1.1"] - 1, asked["GET /b?c HTTP/1.1"] - 1);
    assert_eq!(a + b + far, 1000);
    // Expected are 100, 200 and 700; so far off is one of 10^14.
    assert!(
        (20..230).contains(&a) && (90..330).contains(&b) && (560..820).contains(&far),
        "{a} {b} {far}"
    );
    assert!(server.accepted() <= 4 && beside.accepted() <= 3);
}

#[test]
fn load_sends_header_fields_verbatim_and_varied() {
    let kept = Arc::default();
    let server = recording_server(&kept);
    let url = at("http", &server) + "/x?y=1";
    let options = changed(asks(&[&url], 300), |options| {
        options.requests.headers = vec![
            ("X-Twice".into(), "1".into()),
            ("X-Twice".into(), "2".into()),
            ("hOST".into(), "app.test".into()),
        ];
        options.requests.varying = vec![
            Varying {
                name: "Accept".into(),
                values: vec!["a/a".into(), "b/b".into(), "c/c".into()],
            },
            Varying {
                name: "X-One".into(),
                values: vec!["only".into()],
            },
        ];
    });
    assert_eq!(counts(&options).succeeded(), 300);
    let kept = kept.lock().unwrap();
    assert_eq!(kept.len(), 301);
    let mut drawn = HashSet::new();
    for request in kept.iter() {
        assert_eq!(request.first_line(), "GET /x?y=1 HTTP/1.1");
        assert_eq!(request.all("x-twice").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(
            (request.field("host"), request.field("x-one")),
            (Some("app.test"), Some("only"))
        );
        drawn.insert(request.field("accept").unwrap().to_owned());
    }
    assert_eq!(drawn, ["a/a", "b/b", "c/c"].map(str::to_owned).into());
}

#[test]
fn load_bodies_are_sent_whole_and_random_ones_differ() {
    let kept = Arc::default();
    let server = recording_server(&kept);
    let options = changed(asks(&[&at("http", &server)], 20), |options| {
        options.requests.body = RequestBody::Random(1000);
        options.connections.number = 3;
    });
    let sent = counts(&options);
    assert_eq!(sent.succeeded(), 20);
    {
        let kept = kept.lock().unwrap();
        let bodies: HashSet<_> = kept.iter().map(|request| request.body.clone()).collect();
        assert_eq!((kept.len(), bodies.len()), (21, 21));
        assert!(kept.iter().all(
            |request| request.body.len() == 1000 && request.first_line().starts_with("POST / ")
        ));
        let counted: usize = kept
            .iter()
            .skip(1)
            .map(|request| request.head.len() + request.body.len())
            .sum();
        assert_eq!(sent.sent, counted as u64);
    }
    kept.lock().unwrap().clear();
    for (method, body, length) in [
        (None, "hello", Some("5")),
        (Some("PUT"), "", Some("0")),
        (Some("DELETE"), "", None),
        (Some("GET"), "x", Some("1")),
    ] {
        let options = changed(asks(&[&at("http", &server)], 1), |options| {
            options.requests.method = method.map(str::to_owned);
            options.requests.body = text(body);
        });
        assert_eq!(counts(&options).succeeded(), 1);
        let request = kept.lock().unwrap().pop().unwrap();
        assert!(request.first_line().starts_with(method.unwrap_or("POST")));
        assert_eq!(
            (request.field("content-length"), request.text()),
            (length, body)
        );
    }
}

/// A closed loop has no moment at which a request was due but the one at which it was sent.
#[test]
fn a_closed_loop_has_latency_without_service_time_or_lateness() {
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().answering(move |_| match place.fetch_add(1, Ordering::SeqCst) {
        3 => b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => PAGE.into(),
    });
    let report = run(&asks(&[&at("http", &server)], 10));
    let stage = &report.stages[0];
    let counts = &stage.counts;
    assert_eq!(
        (counts.latency.len(), counts.failed.len(), counts.failed()),
        (9, 1, 1)
    );
    assert_eq!((counts.service.len(), counts.lateness.len()), (0, 0));
    assert_eq!((stage.rate, stage.name.as_str()), (None, "closed loop"));
}
