//! Open loops: requests are due by a schedule, independent of responses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use lockgate_load::options::Options;
use lockgate_load::profile::{Profile, Rates, Spike};
use lockgate_load::result::Model;
use lockgate_load::schedule::Rate;
use lockgate_testkit::{Http, Origin};

use super::{PAGE, asks, at, failures, run};

fn rates(rates: Rates) -> Profile {
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
    rates(Rates::One(rate(per_second)))
}

fn rate(per_second: f64) -> Rate {
    Rate::new(per_second).unwrap()
}

#[test]
fn a_count_at_a_rate_is_sent_exactly() {
    for (connections, threads, count) in [(1, 1, 20), (4, 2, 101), (5, 5, 3)] {
        let server = Origin::tcp().answering(|_| PAGE.into());
        let options = Options {
            profile: Some(constant(1000.0)),
            connections,
            threads,
            ..asks(&[&at("http", &server)], count)
        };
        let begun = Instant::now();
        let report = run(&options);
        assert_eq!(report.run.model, Model::Open);
        let stage = &report.stages[0];
        let tally = &stage.tally;
        assert_eq!((tally.succeeded(), failures(tally)), (count, vec![]));
        assert_eq!((stage.rate, stage.name.as_str()), (Some(1000.0), "1000/s"));
        assert_eq!((tally.latency.len(), tally.service.len()), (count, count));
        assert!(tally.lateness.len() <= count);
        // Nothing is sent before it is due: the last one after the time of all before it.
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
    let options = Options {
        profile: Some(constant(1000.0)),
        ..asks(&[&at("http", &server)], COUNT)
    };
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
    let tally = &report.stages[0].tally;
    assert_eq!((tally.succeeded(), failures(tally)), (COUNT, vec![]));
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    // The last one was due COUNT - 1 ms after the first, and answered 2 COUNT ms after it at the
    // earliest.
    assert!(
        milliseconds(tally.latency.min()) >= COUNT as f64,
        "{}",
        milliseconds(tally.latency.min())
    );
    assert!(milliseconds(tally.latency.max()) >= 2.0 * COUNT as f64 - 1.0);
    // Of the service times each was a part of the run; histograms are right to three digits.
    assert!(tally.service.mean() * COUNT as f64 <= took.as_nanos() as f64 * 1.001);
    assert!(
        tally.lateness.len() <= 1,
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
    let options = Options {
        // All are due within a microsecond: the sweep that ends the first finds all of them too
        // late.
        profile: Some(constant(1e9)),
        timeout: Duration::from_millis(300),
        ..asks(&[&at("http", &server)], 1000)
    };
    let report = run(&options);
    let tally = &report.stages[0].tally;
    assert_eq!(
        failures(tally),
        [("timeout", 1), ("unsent", 999)],
        "{:?}",
        tally.examples
    );
    assert_eq!((tally.succeeded(), tally.failed()), (0, 1000));
}

#[test]
fn an_absurd_rate_ends_on_time_with_all_counted() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let duration = Some(Duration::from_millis(200));
    let options = Options {
        profile: Some(Profile {
            duration,
            ..constant(1e9)
        }),
        timeout: Duration::from_millis(300),
        connections: 2,
        count: None,
        ..asks(&[&at("http", &server)], 1)
    };
    let report = run(&options);
    let stage = &report.stages[0];
    assert_eq!(stage.tally.succeeded() + stage.tally.failed(), 200_000_000);
    assert!(stage.tally.latency.len() < 1_000_000);
}

#[test]
fn rate_ladders_have_stages_and_ramps_and_spikes_one() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let options = |profile| Options {
        profile: Some(profile),
        connections: 4,
        count: None,
        ..asks(&[&at("http", &server)], 1)
    };
    let tenth = Some(Duration::from_millis(100));
    let ladder = Profile {
        step: Some(rate(100.0)),
        every: tenth,
        ..rates(Rates::Range(rate(100.0), rate(300.0)))
    };
    let stages = run(&options(ladder)).stages;
    let counted: Vec<_> = stages
        .iter()
        .map(|stage| (stage.rate.unwrap(), stage.tally.succeeded()))
        .collect();
    assert_eq!(counted, [(100.0, 10), (200.0, 20), (300.0, 30)]);
    let ramp = Profile {
        duration: tenth,
        ..rates(Rates::Range(rate(100.0), rate(300.0)))
    };
    let stages = run(&options(ramp)).stages;
    assert_eq!(
        (stages.len(), stages[0].rate, stages[0].tally.succeeded()),
        (1, None, 20)
    );
    let spike: Spike = "1k@50ms+50ms".parse().unwrap();
    let spiked = Profile {
        duration: tenth,
        spike: Some(spike),
        ..constant(100.0)
    };
    let stages = run(&options(spiked)).stages;
    assert_eq!((stages.len(), stages[0].tally.succeeded()), (1, 55));
}
