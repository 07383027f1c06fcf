//! From the engine's progress to lines, at every width.

use super::*;
use crate::sample;
use lockgate_load::schedule::{RequestRate, Schedule};

fn stage(name: &str, shape: Loop, until: Until) -> LoadStage {
    LoadStage {
        round: 1,
        name: name.to_owned(),
        shape,
        until,
    }
}

fn closed(seconds: u64) -> LoadStage {
    stage(
        "closed loop",
        Loop::Closed,
        Until::Time(Duration::from_secs(seconds)),
    )
}

fn constant(rate: f64, seconds: u64) -> LoadStage {
    let shape = Loop::Open(Schedule::Constant(RequestRate::new(rate).unwrap()));
    stage("3000/s", shape, Until::Time(Duration::from_secs(seconds)))
}

fn second(succeeded: u64) -> Second {
    let (p50, p99, max) = if succeeded > 0 {
        (210_000, 800_000, 3_200_000)
    } else {
        (0, 0, 0)
    };
    Second {
        length: Duration::from_secs(1),
        succeeded,
        failed: 0,
        received: 0,
        p50,
        p99,
        max,
    }
}

fn begin(live: &mut Live, index: Option<usize>, stage: &LoadStage) {
    live.observe(&RunProgress::Begun { index, stage });
}

/// Seconds that pass one after the other, and all of the stage so far.
fn pass(live: &mut Live, seconds: &[u64], counts: &StageCounts) {
    for (at, succeeded) in seconds.iter().enumerate() {
        let elapsed = Duration::from_secs(at as u64 + 1);
        live.observe(&RunProgress::Second {
            elapsed,
            second: second(*succeeded),
            counts,
        });
    }
}

fn texts(live: &Live, width: usize) -> Vec<String> {
    live.lines(width)
        .into_iter()
        .map(|line| line.text)
        .collect()
}

/// A run that has everything there is to show.
fn busy() -> Live {
    let stages = vec![constant(3000.0, 30); 25];
    let mut live = Live::new(&stages);
    begin(&mut live, Some(2), &stages[2]);
    let mut counts = StageCounts::new();
    counts.opened = 64;
    counts.failures[FailureKind::Status as usize] = 2;
    counts.failures[FailureKind::Timeout as usize] = 10;
    pass(&mut live, &[0, 1, 1500, 2950], &counts);
    live
}

#[test]
fn a_block_says_what_goes_on_how_far_it_is_how_fast_and_what_failed() {
    assert_eq!(
        texts(&busy(), 80),
        [
            "3000/s · stage 3 of 25 · 64 connections opened",
            "█████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 4 s of 30 s, 26 s left",
            "2,950/s of 3,000/s due  p50 210 µs  p99 800 µs  max 3.20 ms",
            " ▁▅█ up to 2,950/s",
            "12 failed: 10 timeout, 2 status",
        ]
    );
    let tones: Vec<_> = busy().lines(80).iter().map(|line| line.tone).collect();
    assert_eq!(tones[3..], [Tone::Plain, Tone::Alarm]);
}

#[test]
fn columns_beyond_the_width_are_left_out_from_the_end() {
    assert_eq!(
        texts(&busy(), 40),
        [
            "3000/s · stage 3 of 25",
            "██░░░░░░░░░░░░░░░ 4 s of 30 s, 26 s left",
            "2,950/s of 3,000/s due  p50 210 µs",
            " ▁▅█ up to 2,950/s",
            "12 failed: 10 timeout, 2 status",
        ]
    );
    assert_eq!(
        texts(&busy(), 20),
        [
            "3000/s",
            "█░░░░░░░ 4 s of 30 s",
            "2,950/s of 3,000/s …",
            " ▁▅█ up to 2,950/s",
            "12 failed: 10 timeo…"
        ]
    );
}

#[test]
fn no_line_is_ever_wider_than_it_may_be_nor_has_it_control_characters() {
    let mut huge = Live::new(&[]);
    let endless = stage("\x1b[2J\nname", Loop::Closed, Until::Count(u64::MAX));
    let mut counts = StageCounts::new();
    counts.failures = [u64::MAX / 16; FailureKind::ALL.len()];
    counts.opened = u64::MAX;
    begin(&mut huge, Some(usize::MAX), &endless);
    for _ in 0..100 {
        let second = Second {
            length: Duration::from_secs(1),
            succeeded: u64::MAX,
            failed: u64::MAX,
            received: 0,
            p50: u64::MAX,
            p99: 1,
            max: u64::MAX,
        };
        huge.observe(&RunProgress::Second {
            elapsed: Duration::MAX,
            second,
            counts: &counts,
        });
    }
    let mut zero = Live::new(&[closed(0)]);
    begin(&mut zero, Some(0), &closed(0));
    pass(&mut zero, &[0, 0], &StageCounts::new());
    for live in [&busy(), &huge, &zero] {
        for width in [0, 1, 2, 5, 7, 20, 40, 80, 200, 10_000] {
            for line in live.lines(width) {
                assert!(columns(&line.text) <= width, "{width}: {}", line.text);
                assert!(!line.text.contains(char::is_control), "{:?}", line.text);
            }
        }
    }
}

#[test]
fn a_warm_up_is_named_as_what_it_is_and_leaves_nothing_but_its_connections() {
    let stages = [closed(10)];
    let mut live = Live::new(&stages);
    assert_eq!(live.lines(80), []);
    begin(&mut live, None, &closed(1));
    assert_eq!(
        texts(&live, 80)[0],
        "warm-up, not counted · 0 connections opened"
    );
    let mut counts = StageCounts::new();
    counts.opened = 1;
    counts.failures[0] = 7;
    pass(&mut live, &[50], &counts);
    begin(&mut live, Some(0), &stages[0]);
    assert_eq!(
        texts(&live, 80),
        [
            "closed loop · 1 connection opened".to_owned(),
            format!("{} 0 s of 10 s, 10 s left", "░".repeat(40))
        ]
    );
}

#[test]
fn failures_of_all_rounds_are_summed_up() {
    let stages = [
        closed(10),
        LoadStage {
            round: 2,
            ..closed(10)
        },
    ];
    let mut live = Live::new(&stages);
    for (index, stage) in stages.iter().enumerate() {
        begin(&mut live, Some(index), stage);
        let mut over = sample::stage("closed loop", 1_000, 1e6);
        over.counts.failures = Default::default();
        over.counts.failures[FailureKind::Closed as usize] = 3;
        live.observe(&RunProgress::Over(&over));
    }
    let texts = texts(&live, 80);
    assert!(
        texts[0].starts_with("closed loop · round 2 of 2 · "),
        "{texts:?}"
    );
    assert_eq!(texts.last().unwrap(), "6 failed: 6 closed");
}

#[test]
fn a_count_is_told_by_requests_and_not_by_time() {
    let counted = stage("closed loop", Loop::Closed, Until::Count(10_000));
    let mut live = Live::new(std::slice::from_ref(&counted));
    begin(&mut live, Some(0), &counted);
    let mut counts = StageCounts::new();
    counts.latency.record_n(1_000, 4_990).unwrap();
    counts.failures[0] = 10;
    pass(&mut live, &[2_495; 2], &counts);
    let bar = "█".repeat(20) + &"░".repeat(20);
    assert_eq!(
        texts(&live, 80)[1],
        format!("{bar} 5,000 of 10,000 requests, 2 s")
    );
    assert_eq!(texts(&live, 20)[1], "5,000 of 10,000 req…");
}

#[test]
fn a_stage_whose_time_is_over_waits_for_answers() {
    let mut live = Live::new(&[closed(60)]);
    begin(&mut live, Some(0), &closed(60));
    live.observe(&RunProgress::Tick {
        elapsed: Duration::from_secs(65),
    });
    assert!(texts(&live, 80)[1].ends_with("█ 1:00 min over, waiting for responses"));
}

#[test]
fn requests_due_follow_the_schedule_and_end_with_the_stage() {
    let rate = |per_second| RequestRate::new(per_second).unwrap();
    let schedule = Schedule::Ramp {
        from: rate(100.0),
        to: rate(300.0),
        over: Duration::from_secs(2),
    };
    let ramp = stage(
        "ramp",
        Loop::Open(schedule),
        Until::Time(Duration::from_millis(2_500)),
    );
    let mut live = Live::new(std::slice::from_ref(&ramp));
    begin(&mut live, Some(0), &ramp);
    let figures = |live: &Live| texts(live, 80)[2].clone();
    pass(&mut live, &[0], &StageCounts::new());
    assert_eq!(figures(&live), "0/s of 150/s due");
    pass(&mut live, &[0], &StageCounts::new());
    assert_eq!(figures(&live), "0/s of 250/s due");
    pass(&mut live, &[0], &StageCounts::new());
    assert_eq!(figures(&live), "0/s of 150/s due");
}

#[test]
fn without_a_terminal_each_stage_and_each_second_has_a_line() {
    let stages = vec![constant(3000.0, 30); 2];
    let mut live = Live::new(&stages);
    let counts = StageCounts::new();
    let mut line = |progress: RunProgress<'_>| {
        live.observe(&progress);
        live.line(&progress)
    };
    let told = |at: u64, second: Second| RunProgress::Second {
        elapsed: Duration::from_secs(at),
        second,
        counts: &counts,
    };
    assert_eq!(line(told(1, second(1))), None, "nothing has begun");
    let begun = line(RunProgress::Begun {
        index: Some(1),
        stage: &stages[1],
    });
    assert_eq!(begun.unwrap(), "begins: 3000/s, stage 2 of 2");
    assert_eq!(
        line(RunProgress::Tick {
            elapsed: Duration::from_millis(250)
        }),
        None
    );
    assert_eq!(
        line(told(1, second(2950))).unwrap(),
        "1 s of 30 s: 2,950/s of 3,000/s due, p50 210 µs, p99 800 µs, 0 failed"
    );
    let nothing = Second {
        failed: 4,
        ..second(0)
    };
    // Told late, it is the second second all the same.
    assert_eq!(
        line(told(9, nothing)).unwrap(),
        "2 s of 30 s: 0/s of 3,000/s due, 4 failed"
    );
}
