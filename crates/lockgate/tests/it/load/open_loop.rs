//! Open loops: requests are due by a schedule, independent of responses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use lockgate_load::profile::{Profile, RequestRates, Spike};
use lockgate_load::result::LoadModel;
use lockgate_load::schedule::RequestRate;
use lockgate_testkit::{Http, Origin};

use super::{PAGE, asks, at, changed, failures, run};

fn rates(rates: RequestRates) -> Profile {
    Profile {
        rates,
        step: None,
        every: None,
        hold: None,
        spike: None,
        duration: None,
    }
}

fn constant(per_second: f64) -> Profile {
    rates(RequestRates::One(rate(per_second)))
}

fn rate(per_second: f64) -> RequestRate {
    RequestRate::new(per_second).unwrap()
}

#[test]
fn a_count_at_a_rate_is_sent_exactly() {
    for (connections, threads, count) in [(1, 1, 20), (4, 2, 101), (5, 5, 3)] {
        let server = Origin::tcp().answering(|_| PAGE.into());
        let options = changed(asks(&[&at("http", &server)], count), |options| {
            options.timing.profile = Some(constant(1000.0));
            options.connections.number = connections;
            options.threads.number = threads;
        });
        let begun = Instant::now();
        let report = run(&options);
        assert_eq!(report.run.model, LoadModel::Open);
        let stage = &report.stages[0];
        let counts = &stage.counts;
        assert_eq!((counts.succeeded(), failures(counts)), (count, vec![]));
        assert_eq!((stage.rate, stage.name.as_str()), (Some(1000.0), "1000/s"));
        assert_eq!((counts.latency.len(), counts.service.len()), (count, count));
        assert!(counts.lateness.len() <= count);
        // Nothing is sent before it is due: the last one when all before it have had their time.
        assert!(begun.elapsed() >= Duration::from_millis(count - 1));
    }
}

/// One connection, and a server that answers the first request only when all are due: each counts
/// from when it was due, and takes no time itself.
#[test]
fn open_loop_latency_counts_from_the_due_time() {
    const COUNT: u64 = 50;
    let answered = Arc::new(Mutex::new(None));
    let (gate, told) = (
        Arc::new((Mutex::new(None::<Instant>), Condvar::new())),
        Arc::clone(&answered),
    );
    let shared = Arc::clone(&gate);
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            if place.fetch_add(1, Ordering::SeqCst) == 1 {
                *told.lock().unwrap() = Some(Instant::now());
                let (open, opened) = &*shared;
                let _until = opened
                    .wait_while(open.lock().unwrap(), |open| open.is_none())
                    .unwrap();
            }
            http.send(PAGE);
        }
    });
    let options = changed(asks(&[&at("http", &server)], COUNT), |options| {
        options.timing.profile = Some(constant(1000.0));
    });
    let begun = Instant::now();
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&options));
        // All are due one after the other from the arrival of the first on: the server controls
        // that.
        let first = lockgate_testkit::eventually("the first request", || *answered.lock().unwrap());
        let all_due = first + Duration::from_millis(2 * COUNT);
        lockgate_testkit::eventually("all are due", || (Instant::now() >= all_due).then_some(()));
        *gate.0.lock().unwrap() = Some(Instant::now());
        gate.1.notify_all();
        running.join().unwrap()
    });
    let took = begun.elapsed();
    let counts = &report.stages[0].counts;
    assert_eq!((counts.succeeded(), failures(counts)), (COUNT, vec![]));
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    // The last one was due COUNT - 1 ms after the first, and answered 2 COUNT ms after it at the
    // earliest.
    assert!(
        milliseconds(counts.latency.min()) >= COUNT as f64,
        "{}",
        milliseconds(counts.latency.min())
    );
    assert!(milliseconds(counts.latency.max()) >= 2.0 * COUNT as f64 - 1.0);
    // Of the service times each was a part of the run; histograms are right to three digits.
    assert!(counts.service.mean() * COUNT as f64 <= took.as_nanos() as f64 * 1.001);
    assert!(
        counts.lateness.len() <= 1,
        "for the others no connection was free"
    );
}

#[test]
fn requests_due_but_unsent_are_a_failure_kind() {
    // Holds the first request until the client gives up, when the requests behind it are too late,
    // too.
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            if place.fetch_add(1, Ordering::SeqCst) == 1 {
                return http.wait_closed();
            }
            http.send(PAGE);
        }
    });
    let options = changed(asks(&[&at("http", &server)], 1000), |options| {
        // All are due within a microsecond: the sweep that ends the first finds all of them too
        // late.
        options.timing.profile = Some(constant(1e9));
        options.timing.timeout = Duration::from_millis(300);
    });
    let report = run(&options);
    let counts = &report.stages[0].counts;
    assert_eq!(
        failures(counts),
        [("timeout", 1), ("unsent", 999)],
        "{:?}",
        counts.examples
    );
    assert_eq!((counts.succeeded(), counts.failed()), (0, 1000));
}

#[test]
fn an_absurd_rate_ends_on_time_with_all_counted() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let duration = Some(Duration::from_millis(200));
    let options = changed(asks(&[&at("http", &server)], 1), |options| {
        options.timing.profile = Some(Profile {
            duration,
            ..constant(1e9)
        });
        options.timing.timeout = Duration::from_millis(300);
        options.connections.number = 2;
        options.timing.count = None;
    });
    let report = run(&options);
    let stage = &report.stages[0];
    assert_eq!(
        stage.counts.succeeded() + stage.counts.failed(),
        200_000_000
    );
    assert!(stage.counts.latency.len() < 1_000_000);
}

#[test]
fn rate_ladders_have_stages_and_ramps_and_spikes_one() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let options = |profile| {
        changed(asks(&[&at("http", &server)], 1), |options| {
            options.timing.profile = Some(profile);
            options.connections.number = 4;
            options.timing.count = None;
        })
    };
    let tenth = Some(Duration::from_millis(100));
    let ladder = Profile {
        step: Some(rate(100.0)),
        every: tenth,
        ..rates(RequestRates::Range(rate(100.0), rate(300.0)))
    };
    let stages = run(&options(ladder)).stages;
    let counted: Vec<_> = stages
        .iter()
        .map(|stage| (stage.rate.unwrap(), stage.counts.succeeded()))
        .collect();
    assert_eq!(counted, [(100.0, 10), (200.0, 20), (300.0, 30)]);
    let ramp = Profile {
        duration: tenth,
        ..rates(RequestRates::Range(rate(100.0), rate(300.0)))
    };
    let stages = run(&options(ramp)).stages;
    assert_eq!(
        (stages.len(), stages[0].rate, stages[0].counts.succeeded()),
        (1, None, 20)
    );
    let spike: Spike = "1k@50ms+50ms".parse().unwrap();
    let spiked = Profile {
        duration: tenth,
        spike: Some(spike),
        ..constant(100.0)
    };
    let stages = run(&options(spiked)).stages;
    assert_eq!((stages.len(), stages[0].counts.succeeded()), (1, 55));
}
