//! Comparisons of made-up samples.

use super::*;
use crate::comparison_run::Measurement;
use crate::sample::InvalidMark;
use lockgate_load::result::{Bottleneck, CpuSource};
use std::path::Path;

pub(crate) fn sample(requests: f64, cpu_seconds: f64) -> LoadSample {
    LoadSample {
        stage: String::new(),
        succeeded: requests,
        failed: 0.0,
        failures: Vec::new(),
        elapsed: 1.0,
        user: cpu_seconds / 4.0,
        system: cpu_seconds * 3.0 / 4.0,
        cpu_source: CpuSource::Cgroup,
        p50: Some(100.0),
        p99: Some(1000.0),
        p99_9: Some(2000.0),
        p99_99: Some(2500.0),
        max: Some(3000.0),
        memory: Some((1e6, 3e6)),
        connections: 100.0,
        opened: 100.0,
        resumed: 0.0,
        received: requests * 200.0,
        answers: vec![FirstAnswer {
            protocol: "HTTP/1.1".to_owned(),
            status: Some(200),
            length: Some(100),
        }],
        tls: None,
        open: false,
        marks: Vec::new(),
        late: 0.0,
    }
}

pub(crate) fn plan() -> ComparisonPlan {
    let text = "title = \"T <1>\"\n[program.a]\ncommand = [\"a\"]\n[program.b]\ncommand = [\"b\"]\n[program.c]\ncommand = [\"c\"]\n\
        [load.l]\nurl = \"http://h/\"\n[paper.p]\nsource = \"S & T\"\ncolumns = [\"x|y\", \"z\"]\nrows = [[\"1\", \"2\"]]\n";
    ComparisonPlan::parse(Path::new("f"), text).unwrap()
}

/// Seven rounds in which `a` takes 0.8 of the CPU time of `b`, while the machine gets slower;
/// `c` is left out.
pub(crate) fn findings(change: impl Fn(&str, usize, &mut LoadSample)) -> Findings {
    let mut findings = Findings::default();
    for round in 1..=7 {
        for (program, share) in [("a", 0.8), ("b", 1.0)] {
            let slower = 1.0 + round as f64;
            let mut sample = sample(1000.0 / slower / share, slower * share * 1e-2);
            change(program, round, &mut sample);
            let (load, program) = ("l".to_owned(), program.to_owned());
            findings.measured.push(Measurement {
                load,
                program,
                round,
                outcome: Ok(vec![sample]),
            });
        }
    }
    findings
        .skipped
        .push(("c".to_owned(), "c is not installed".to_owned()));
    findings.versions.insert("a".to_owned(), "a 1.0".to_owned());
    findings
}

fn case(change: impl Fn(&str, usize, &mut LoadSample)) -> Case {
    Case::all(&plan(), &findings(change)).remove(0)
}

fn verdict(case: &Case, metric: SampleMetric) -> Result<RatioVerdict, String> {
    let pair = case.pair("a", "b").unwrap();
    pair.ratios
        .iter()
        .find(|compared| compared.metric == metric)
        .unwrap()
        .verdict
        .clone()
}

fn best<'a>(case: &'a Case, program: &str, metric: SampleMetric) -> Option<&'a str> {
    let row = case.best_other(program, metric)?;
    Some(&row.program)
}

/// As [`findings`], with a third program that takes half of the CPU time of `b`.
fn case_of_three(change: impl Fn(&str, usize, &mut LoadSample)) -> Case {
    let change = |program: &str, round: usize, sample: &mut LoadSample| {
        sample.opened = 0.0;
        change(program, round, sample);
    };
    let mut findings = findings(change);
    findings.skipped.clear();
    for round in 1..=7 {
        let mut sample = sample(250.0, 0.5e-2 * (1.0 + round as f64));
        change("c", round, &mut sample);
        findings.measured.push(Measurement {
            load: "l".to_owned(),
            program: "c".to_owned(),
            round,
            outcome: Ok(vec![sample]),
        });
    }
    Case::all(&plan(), &findings).remove(0)
}

#[test]
fn the_best_other_is_never_a_program_with_an_invalid_figure() {
    assert_eq!(
        best(&case_of_three(|_, _, _| ()), "a", SampleMetric::Cpu),
        Some("c")
    );
    let mark = |affects| {
        move |program: &str, round: usize, sample: &mut LoadSample| {
            if program == "c" && round == 2 {
                let why = "others took 89 %".to_owned();
                sample.marks.push(InvalidMark { why, affects });
            }
        }
    };
    let case = case_of_three(mark(AffectedMetrics::PaceAndCpu));
    assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("b"));
    assert_eq!(best(&case, "a", SampleMetric::Rate), Some("b"));
    assert_eq!(best(&case, "a", SampleMetric::PerConnection), Some("b"));
    assert_eq!(
        case.passed_over(),
        [
            "c is not “the best other” by CPU µs/request, requests/s, p50, p99, p99.99: marked with *"
        ]
    );
    let case = case_of_three(mark(AffectedMetrics::Pace));
    assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("c"));
    assert_eq!(best(&case, "a", SampleMetric::P99), Some("b"));
    assert_eq!(
        case.passed_over(),
        ["c is not “the best other” by requests/s, p50, p99, p99.99: marked with *"]
    );
}

#[test]
fn without_any_valid_cpu_time_the_best_other_is_the_best_in_the_metric() {
    let case = case_of_three(|program, _, sample| {
        let (why, affects) = ("few ticks".to_owned(), AffectedMetrics::Cpu);
        sample.marks.push(InvalidMark { why, affects });
        if program == "b" {
            (sample.p99, sample.succeeded) = (Some(500.0), 5000.0);
        }
    });
    assert_eq!(best(&case, "a", SampleMetric::Cpu), None);
    assert_eq!(best(&case, "a", SampleMetric::P99), Some("b"));
    assert_eq!(best(&case, "a", SampleMetric::Rate), Some("b"));
}

#[test]
fn a_round_that_slowed_both_programs_changes_no_verdict() {
    let case = case(|_, _, _| ());
    assert_eq!(verdict(&case, SampleMetric::Cpu), Ok(RatioVerdict::Less));
    assert_eq!(verdict(&case, SampleMetric::Rate), Ok(RatioVerdict::More));
    assert_eq!(
        verdict(&case, SampleMetric::P99),
        Ok(RatioVerdict::NotShown)
    );
    assert_eq!(best(&case, "b", SampleMetric::Cpu), Some("a"));
    assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("b"));
    assert_eq!(case.passed_over(), [] as [&str; 0]);
    assert_eq!(case.rows[2].skipped.as_deref(), Some("c is not installed"));
}

#[test]
fn the_baseline_is_nobodys_best_other_and_what_is_added_to_it_is_told() {
    let mut plan = plan();
    plan.programs[0].baseline = true;
    let findings = findings(|program, _, sample| {
        if program == "b" {
            (sample.p50, sample.p99) = (Some(140.0), Some(1300.0));
        }
    });
    let case = Case::all(&plan, &findings).remove(0);
    assert_eq!(best(&case, "b", SampleMetric::Cpu), None);
    assert_eq!(case.baseline().unwrap().program, "a");
    let pair = case.pair("b", "a").unwrap();
    let added = pair
        .ratios
        .iter()
        .map(|compared| compared.added.map(|added| added.median));
    assert_eq!(
        added.collect::<Vec<_>>(),
        [None, None, Some(40.0), Some(300.0), Some(0.0), None]
    );
}

#[test]
fn a_program_with_failures_has_no_verdict_and_is_no_rival() {
    let case = case(|program, round, sample| {
        if program == "b" && round == 3 {
            sample.failed = 1.0;
        }
    });
    for metric in SampleMetric::COMPARED {
        assert_eq!(verdict(&case, metric), Err("b had failures".to_owned()));
    }
    assert_eq!(best(&case, "a", SampleMetric::Cpu), None);
    assert_eq!(best(&case, "a", SampleMetric::P99), None);
    assert_eq!(
        case.passed_over(),
        ["b is never “the best other”: it had failures"]
    );
}

#[test]
fn a_program_that_missed_a_round_has_no_verdict_and_is_no_rival() {
    let mut findings = findings(|_, _, _| ());
    let third = findings
        .measured
        .iter_mut()
        .find(|one| one.program == "b" && one.round == 3);
    third.unwrap().outcome = Err("it ended under the load".to_owned());
    let case = Case::all(&plan(), &findings).remove(0);
    for metric in SampleMetric::COMPARED {
        assert_eq!(verdict(&case, metric), Err("b had failures".to_owned()));
    }
    assert_eq!(best(&case, "a", SampleMetric::Cpu), None);
}

#[test]
fn cpu_time_counts_although_the_generator_was_the_bottleneck() {
    let limited =
        case(|_, _, sample| sample.limit(Bottleneck::Generator, "the generator was the limit"));
    assert_eq!(verdict(&limited, SampleMetric::Cpu), Ok(RatioVerdict::Less));
    assert_eq!(
        verdict(&limited, SampleMetric::Rate),
        Err("invalid for a".to_owned())
    );
    let link = case(|_, _, sample| sample.limit(Bottleneck::Link, "the link was the limit"));
    assert_eq!(
        verdict(&link, SampleMetric::Cpu),
        Err("invalid for a".to_owned())
    );
}

#[test]
fn cpu_time_that_was_too_little_takes_no_other_verdict() {
    let case = case(|_, _, sample| {
        let (why, affects) = ("few ticks".to_owned(), AffectedMetrics::Cpu);
        sample.marks.push(InvalidMark { why, affects });
    });
    assert_eq!(
        verdict(&case, SampleMetric::Cpu),
        Err("invalid for a".to_owned())
    );
    assert_eq!(verdict(&case, SampleMetric::Rate), Ok(RatioVerdict::More));
}

#[test]
fn other_tls_and_fewer_resumed_sessions_are_other_work() {
    let tls = |other: &str, resumed| {
        let other = other.to_owned();
        let case = case(move |program, _, sample| {
            sample.tls = Some(if program == "a" {
                "1.3".to_owned()
            } else {
                other.clone()
            });
            sample.resumed = if program == "a" { 99.0 } else { resumed };
        });
        verdict(&case, SampleMetric::Cpu)
    };
    assert_eq!(tls("1.3", 95.0), Ok(RatioVerdict::Less));
    assert_eq!(
        tls("1.3", 75.0),
        Err("resumed 99 % and 75 % of connections".to_owned())
    );
    assert_eq!(
        tls("1.2", 99.0),
        Err("a and b had different TLS".to_owned())
    );
}

#[test]
fn another_first_answer_is_other_work_without_a_ratio() {
    let with = |change: fn(&mut FirstAnswer)| {
        let case = case_of_three(move |program, _, sample| {
            if program == "c" {
                change(&mut sample.answers[0]);
            }
        });
        assert_eq!(best(&case, "a", SampleMetric::Cpu), Some("b"));
        assert_eq!(best(&case, "c", SampleMetric::Cpu), None);
        for compared in &case.pair("a", "c").unwrap().ratios {
            assert_eq!((compared.ratio, compared.added), (None, None));
        }
        case.passed_over()[0].clone()
    };
    let told = |answer: &str| {
        format!(
            "a and c did other work, and are not compared: a answered HTTP/1.1 200 of 100 bytes, c answered {answer}"
        )
    };
    assert_eq!(
        with(|answer| answer.length = Some(10)),
        told("HTTP/1.1 200 of 10 bytes")
    );
    assert_eq!(
        with(|answer| answer.status = Some(404)),
        told("HTTP/1.1 404 of 100 bytes")
    );
    assert_eq!(
        with(|answer| answer.protocol = "HTTP/2".to_owned()),
        told("HTTP/2 200 of 100 bytes")
    );
}

#[test]
fn other_answers_in_one_round_are_other_work() {
    let case = case(|program, round, sample| {
        if program == "b" && round == 4 {
            sample.answers[0].length = Some(10);
        }
    });
    assert_eq!(
        verdict(&case, SampleMetric::Cpu),
        Err("a answered HTTP/1.1 200 of 100 bytes, b answered HTTP/1.1 200 of 10 bytes".to_owned())
    );
}

#[test]
fn fewer_received_bytes_are_other_work_beyond_what_heads_differ_by() {
    let told = |status, [own, others]: [f64; 2]| {
        let case = case(move |program, _, sample| {
            let each = if program == "a" { own } else { others };
            sample.received = sample.succeeded * each;
            sample.answers[0].status = status;
        });
        verdict(&case, SampleMetric::Cpu).err()
    };
    assert_eq!(told(Some(200), [300.0, 700.0]), None);
    assert_eq!(told(Some(200), [1e6, 1.009e6]), None);
    let why = "a sent 1000000 bytes for each success, b 1020000".to_owned();
    assert_eq!(told(Some(200), [1e6, 1.02e6]), Some(why));
    // Bytes of a relay have no heads.
    assert_eq!(told(None, [1000.0, 1009.0]), None);
    let why = "a sent 1000 bytes for each success, b 980".to_owned();
    assert_eq!(told(None, [1000.0, 980.0]), Some(why));
}

#[test]
fn many_more_opened_connections_are_other_work() {
    let told = |opened: f64| {
        let case = case(move |program, _, sample| {
            let each = if program == "a" { 0.0 } else { opened };
            sample.opened = sample.succeeded * each;
        });
        verdict(&case, SampleMetric::Cpu).err()
    };
    assert_eq!(told(0.09), None);
    let why = "a needed 0.00 new connections for each success, b 1.00".to_owned();
    assert_eq!(told(1.0), Some(why));
}

#[test]
fn a_given_rate_has_no_verdict() {
    let case = case(|_, _, sample| sample.open = true);
    assert_eq!(
        verdict(&case, SampleMetric::Rate),
        Err("the rate was given".to_owned())
    );
    assert_eq!(verdict(&case, SampleMetric::Cpu), Ok(RatioVerdict::Less));
}

#[test]
fn fewer_than_six_rounds_show_nothing() {
    let mut findings = findings(|_, _, _| ());
    findings.measured.retain(|measured| measured.round <= 5);
    let case = Case::all(&plan(), &findings).remove(0);
    assert_eq!(
        verdict(&case, SampleMetric::Cpu),
        Err("fewer than 6 rounds".to_owned())
    );
}

#[test]
fn stages_of_a_ladder_are_cases_of_their_own_and_errors_stay_with_the_program() {
    let mut findings = Findings::default();
    let stages = ["1000/s", "2000/s"].map(|stage| LoadSample {
        stage: stage.to_owned(),
        ..sample(10.0, 1.0)
    });
    let measured = |program: &str, outcome| Measurement {
        load: "l".to_owned(),
        program: program.to_owned(),
        round: 1,
        outcome,
    };
    findings.measured.push(measured("a", Ok(stages.to_vec())));
    findings
        .measured
        .push(measured("b", Err("it ended".to_owned())));
    let cases = Case::all(&plan(), &findings);
    assert_eq!(
        cases.iter().map(Case::name).collect::<Vec<_>>(),
        ["l, 1000/s", "l, 2000/s"]
    );
    assert_eq!(cases[1].rows[1].errors, ["it ended"]);
}
