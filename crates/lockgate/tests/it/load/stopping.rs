//! Runs that end early: the figures up to then are reported, and add up.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use lockgate_load::Stop;
use lockgate_load::options::LoadOptions;
use lockgate_load::profile::{Profile, RequestRates};
use lockgate_load::result::{LoadModel, RunEnd, RunResult};
use lockgate_load::schedule::RequestRate;
use lockgate_testkit::{Folder, Http, Origin, Serving, Signal, eventually};
use serde_json::Value;

use super::{PAGE, asks, at, changed, run};
use crate::scene::{lockgate, text};

/// Answers so many requests over all connections and holds the others; reports each that it holds.
fn holding_server(answers: usize, held: mpsc::Sender<()>) -> (Serving, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let place = Arc::clone(&seen);
    let server = Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            if place.fetch_add(1, Ordering::SeqCst) >= answers {
                let _ = held.send(());
                return http.wait_closed();
            }
            http.send(PAGE);
        }
    });
    (server, seen)
}

/// Makes a run in which four connections come to wait, and ends it then.
fn ended_while_four_wait(change: impl FnOnce(&mut LoadOptions)) -> (RunResult, usize) {
    let (held, waits) = mpsc::channel();
    let (server, seen) = holding_server(11, held);
    let mut options = changed(asks(&[&at("http", &server)], 1), |options| {
        options.connections.number = 4;
        options.threads.number = 2;
        options.timing.count = None;
    });
    options.timing.duration = Some(Duration::from_secs(3600));
    change(&mut options);
    let stop = Arc::new(Stop::default());
    let report = std::thread::scope(|scope| {
        let running =
            scope.spawn(|| lockgate_load::run(options.plan().unwrap(), &stop, |_| ()).unwrap());
        for _ in 0..4 {
            waits.recv_timeout(lockgate_testkit::DEADLINE).unwrap();
        }
        stop.now();
        running.join().unwrap()
    });
    (report, seen.load(Ordering::SeqCst))
}

fn rate(per_second: f64) -> Option<Profile> {
    let rates = RequestRates::One(RequestRate::new(per_second).unwrap());
    Some(Profile {
        rates,
        step: None,
        every: None,
        hold: None,
        spike: None,
        duration: None,
    })
}

#[test]
fn an_interrupted_run_reports_completed_and_cut_requests() {
    for shape in [
        (|_| ()) as fn(&mut LoadOptions),
        |options| options.timing.count = Some(1_000_000),
        |options| {
            options.timing.profile = rate(1000.0);
            options.timing.count = Some(1_000_000);
        },
        |options| options.timing.rounds = 3,
    ] {
        let (report, seen) = ended_while_four_wait(shape);
        assert_eq!(
            (&report.end, report.stages.len(), seen),
            (&RunEnd::Interrupted, 1, 15)
        );
        let counts = &report.stages[0].counts;
        assert_eq!((counts.succeeded(), counts.late), (10, 0));
        // Where a schedule says when, what was due by then and had no connection is cut, too.
        let open = report.run.model == LoadModel::Open;
        assert!(counts.cut == 4 || open && counts.cut > 4, "{}", counts.cut);
        assert_eq!(
            counts.failures.iter().sum::<u64>(),
            0,
            "{:?}",
            counts.examples
        );
    }
}

#[test]
fn a_warm_up_that_is_ended_leaves_nothing_measured() {
    let (report, _) =
        ended_while_four_wait(|options| options.timing.warm_up = Duration::from_secs(3600));
    assert_eq!(
        (report.end, report.stages.len(), report.uncounted),
        (RunEnd::Interrupted, 0, 15)
    );
}

#[test]
fn an_interrupt_abandons_the_first_response() {
    let (held, waits) = mpsc::channel();
    let (server, _) = holding_server(0, held);
    let plan = asks(&[&at("http", &server)], 1).plan().unwrap();
    let stop = Arc::new(Stop::default());
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| lockgate_load::run(plan, &stop, |_| ()).unwrap());
        waits.recv_timeout(lockgate_testkit::DEADLINE).unwrap();
        stop.now();
        running.join().unwrap()
    });
    assert_eq!(
        (report.end, report.first.len(), report.stages.len()),
        (RunEnd::Interrupted, 0, 0)
    );
}

#[test]
fn stop_on_status_ends_the_run() {
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().answering(move |_| match place.fetch_add(1, Ordering::SeqCst) {
        0..=20 => PAGE.into(),
        _ => PAGE.replace("200", "503").into(),
    });
    let mut options = changed(asks(&[&at("http", &server)], 1), |options| {
        options.stop_on = vec![429, 503];
        options.timing.count = None;
    });
    options.timing.duration = Some(Duration::from_secs(3600));
    let report = run(&options);
    assert_eq!(report.end, RunEnd::Stopped(503));
    let counts = &report.stages[0].counts;
    assert_eq!(counts.succeeded(), 20);
    assert!(counts.statuses[&503] >= 1);
}

/// Each connect fails at once: the failures must not keep the thread busy.
#[test]
fn an_absurd_rate_against_a_missing_server_can_be_interrupted() {
    let folder = Folder::new();
    let stop = Arc::new(Stop::default());
    let options = changed(asks(&["http://app.test"], 1), |options| {
        options.connections.unix = Some(folder.path("nobody"));
        options.timing.profile = rate(1e9);
        options.anyway = true;
        options.timing.count = None;
    });
    let mut options = options;
    options.timing.profile.as_mut().unwrap().duration = Some(Duration::from_secs(3600));
    let report = lockgate_load::run(options.plan().unwrap(), &stop, |progress| {
        if let lockgate_load::RunProgress::Second { .. } = progress {
            stop.now();
        }
    });
    let report = report.unwrap();
    assert_eq!(report.end, RunEnd::Interrupted);
    assert_eq!(report.stages[0].counts.succeeded(), 0);
}

#[test]
fn signals_end_load_with_report_and_exit_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (held, waits) = mpsc::channel();
        let (server, _) = holding_server(11, held);
        let url = at("http", &server);
        let gate = lockgate().command(&[
            "load",
            "-c",
            "4",
            "--warm-up",
            "0",
            "--json",
            "-",
            "-d",
            "1h",
            &url,
        ]);
        for _ in 0..4 {
            waits.recv_timeout(lockgate_testkit::DEADLINE).unwrap();
        }
        gate.signal(signal);
        let ended = gate.ended();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert!(report.to_string().contains("interrupted"), "{report}");
    }
}

/// The report goes to a pipe without a reader: a first signal ends the run, and the program waits
/// on.
#[test]
fn a_second_signal_ends_load_at_once() {
    let folder = Folder::new();
    let nobody = text(&folder.path("nobody-reads"));
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&nobody)
            .status()
            .unwrap()
            .success()
    );
    let pipe = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&nobody)
        .unwrap();
    let mut full = pipe.try_clone().unwrap();
    std::thread::spawn(move || while full.write_all(&[b'x'; 4096]).is_ok() {});
    let (held, waits) = mpsc::channel();
    let (server, _) = holding_server(1, held);
    let url = at("http", &server);
    let gate = lockgate().command(&[
        "load",
        "-c",
        "1",
        "--warm-up",
        "0",
        "--json",
        &nobody,
        "-d",
        "1h",
        &url,
    ]);
    waits.recv_timeout(lockgate_testkit::DEADLINE).unwrap();
    gate.signal(Signal::INT);
    eventually("it ends", || {
        gate.signal(Signal::INT);
        gate.proc("stat").contains(") Z ").then_some(())
    });
    assert_eq!(gate.ended().code, Some(130));
}
