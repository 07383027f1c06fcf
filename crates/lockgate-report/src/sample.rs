//! Reports made by hand, for the tests of the rooms beside.

use std::time::{Duration, SystemTime};

use lockgate_load::cpu_times::CpuTime;
use lockgate_load::result::{
    Bottleneck, CpuSource, FailureKind, FirstResponse, Generator, Invalid, LoadModel,
    RunDescription, RunEnd, RunResult, Second, StageCounts, StageResult, Watched,
};

/// A run in a closed loop with these stages, each of 1,000 successes around a millisecond.
pub(crate) fn report(stages: &[&str]) -> RunResult {
    RunResult {
        run: RunDescription {
            command: ["lockgate", "load", "https://a.example/"]
                .map(str::to_owned)
                .to_vec(),
            targets: vec!["https://a.example/".to_owned()],
            model: LoadModel::Closed,
            connections: 64,
            streams: None,
            threads: 2,
            cpus: vec![0, 1],
            timeout: Duration::from_secs(10),
        },
        began: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        first: vec![FirstResponse {
            target: "https://a.example/".to_owned(),
            status: Some(200),
            length: 170,
            protocol: "HTTP/1.1",
            streams: None,
            tls: Some("TLS 1.3, TLS_AES_128_GCM_SHA256".to_owned()),
        }],
        stages: stages.iter().map(|name| stage(name, 1_000, 1e6)).collect(),
        uncounted: 501,
        end: RunEnd::Complete,
    }
}

/// An open loop that climbs to so many thousand requests a second, its latency with it.
pub(crate) fn ladder(steps: usize) -> RunResult {
    let mut report = report(&[]);
    report.run.model = LoadModel::Open;
    for step in 1..=steps {
        let rate = step as f64 * 1000.0;
        let mut stage = stage(
            &format!("{rate}/s"),
            1_000 * step as u64,
            2e5 * 1.2_f64.powi(step as i32),
        );
        stage.rate = Some(rate);
        report.stages.push(stage);
    }
    report
}

/// A stage of 10 s with so many successes, half of which take no longer than the median and few
/// much longer.
pub(crate) fn stage(name: &str, successes: u64, median: f64) -> StageResult {
    let mut counts = StageCounts::new();
    for nth in 0..successes {
        let share = (nth as f64 + 0.5) / successes as f64;
        // A tail as of queues: 0.85 of the median at first, 1.2 at 90 %, 7 and more at the end.
        let nanoseconds = median * (0.8 + 0.05 / (1.0 - share).powf(0.6) + 0.2 * share);
        counts.latency.record(nanoseconds as u64).unwrap();
        counts.service.record((nanoseconds * 0.7) as u64).unwrap();
        counts.lateness.record(1_000 + nth % 5_000).unwrap();
    }
    counts.connect.record_n(200_000, 64).unwrap();
    counts.tls.record_n(150_000, 64).unwrap();
    counts.first_byte.record_n(400_000, 100).unwrap();
    counts.statuses.insert(200, successes);
    (counts.opened, counts.resumed, counts.reused) = (64, 10, successes.saturating_sub(64));
    (counts.sent, counts.received, counts.cut) = (successes * 90, successes * 420, 3);
    let seconds = (0..10).map(|second| Second {
        length: Duration::from_secs(1),
        succeeded: successes / 10 + second % 3,
        failed: 0,
        received: successes * 42,
        p50: median as u64,
        p99: (median * (1.5 + second as f64 / 10.0)) as u64,
        max: (median * 4.0) as u64,
    });
    StageResult {
        round: 1,
        rate: None,
        name: name.to_owned(),
        elapsed: Duration::from_secs(10),
        counts,
        targets: Vec::new(),
        seconds: seconds.collect(),
        generator: Generator {
            user: Duration::from_millis(800),
            system: Duration::from_millis(1_200),
            busiest: 0.45,
            waited: 0.0,
        },
        watched: vec![Watched {
            name: "lockgate".to_owned(),
            user: Duration::from_secs(2),
            system: Duration::from_secs(3),
            source: CpuSource::Processes,
            allowed_cpus: vec![3],
            before: Some(8_000_000),
            peak: Some(9_280_000),
        }],
        cpus: vec![CpuTime {
            cpu: 3,
            processes: Duration::from_secs(6),
            busy: Duration::from_secs(7),
            whole: Duration::from_secs(10),
        }],
        invalid: Vec::new(),
        notes: Vec::new(),
    }
}

/// Adds failures of a kind.
pub(crate) fn fail(stage: &mut StageResult, kind: FailureKind, number: u64, example: &str) {
    let at = FailureKind::ALL
        .iter()
        .position(|each| *each == kind)
        .unwrap();
    stage.counts.failures[at] += number;
    stage.counts.examples[at] = Some(example.to_owned());
    if number > 0 {
        stage.counts.failed.record_n(2_000_000_000, number).unwrap();
    }
    if let Some(second) = stage.seconds.get_mut(4) {
        second.failed += number;
    }
}

/// A reason why a stage is invalid.
pub(crate) fn late(text: &str) -> Invalid {
    Invalid {
        limit: Bottleneck::Lateness,
        text: text.to_owned(),
    }
}
