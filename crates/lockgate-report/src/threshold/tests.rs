//! Conditions that are parsed, refused conditions, and stages that meet them.

use super::*;
use crate::sample;
use lockgate_load::result::FailureKind;

fn breaches(text: &str, report: &RunResult) -> Vec<String> {
    Threshold::parse(text)
        .unwrap()
        .breaches(report)
        .iter()
        .map(Breach::to_string)
        .collect()
}

/// One stage of 1,000 successes from 850 µs on, with a p99 of about 1.8 ms, and so many failures.
fn run(failures: u64) -> RunResult {
    let mut report = sample::report(&["closed loop"]);
    sample::fail(
        &mut report.stages[0],
        FailureKind::Closed,
        failures,
        "reset",
    );
    report
}

#[test]
fn a_condition_holds_or_not_by_the_figures_of_the_stage() {
    let report = run(10);
    let table = [
        ("p50 > 1ms", false),
        ("p50 < 1ms", true),
        ("p50 < 1000us and p50 > 900000ns and p50<0.001s", true),
        ("p99.9 > 20 ms or errors > 0", true),
        ("p99.9 > 20 ms or errors > 10", false),
        ("errors >= 10", true),
        ("errors == 10", true),
        ("errors != 10", false),
        ("errors <= 9", false),
        ("error_rate > 0.9%", true),
        ("error_rate > 1 %", false),
        ("rate < 100", false),
        ("rate < 101/s", true),
        ("rate < 0.2k", true),
        ("rate < 1M/s", true),
        ("unsent > 0 or invalid > 0", false),
        ("cut == 3", true),
        ("max < 1ms or mean < 1µs", false),
        // `and` binds closer than `or`.
        ("errors > 0 or errors > 0 and errors > 99", true),
        ("(errors > 0 or errors > 0) and errors > 99", false),
        ("((errors > 0))", true),
    ];
    for (text, expected) in table {
        assert_eq!(!breaches(text, &report).is_empty(), expected, "{text}");
    }
}

#[test]
fn requests_that_were_never_sent_count_as_errors_and_by_themselves() {
    let mut report = run(10);
    sample::fail(
        &mut report.stages[0],
        FailureKind::Unsent,
        5,
        "no connection was free",
    );
    let found = [
        "closed loop, round 1: unsent is 5 (fails if unsent > 4); errors is 15 (fails if errors == 15)",
    ];
    assert_eq!(breaches("unsent > 4 and errors == 15", &report), found);
}

#[test]
fn a_breach_names_the_stage_and_every_figure_that_holds() {
    let mut report = run(10);
    report.stages.insert(0, sample::stage("warm", 1_000, 1e6));
    report.stages[1].round = 2;
    assert_eq!(
        breaches(
            "errors > 0 or p50 > 5s or error_rate >= 0.5% and rate < 5k",
            &report
        ),
        ["closed loop, round 2: errors is 10 (fails if errors > 0); \
          error_rate is 0.99 % (fails if error_rate >= 0.50 %); rate is 100/s (fails if rate < 5,000/s)"]
    );
}

#[test]
fn a_run_does_not_pass_because_nothing_worked() {
    let mut report = sample::report(&[]);
    let mut stage = sample::stage("closed loop", 0, 1e6);
    stage.elapsed = std::time::Duration::ZERO;
    report.stages.push(stage);
    assert_eq!(
        breaches("p99 > 20ms", &report),
        [
            "closed loop, round 1: p99 is infinite, because too few requests succeeded (fails if p99 > 20.0 ms)"
        ]
    );
    assert_eq!(breaches("error_rate > 50%", &report).len(), 1);
    assert_eq!(breaches("rate < 1", &report).len(), 1);
    assert_eq!(breaches("p99 < 20ms", &report).len(), 0);
}

#[test]
fn percentiles_of_all_requests_take_failures_as_infinite() {
    // 1,000 successes below 20 ms: 2 failures are more than one of a thousand, not one of a hundred.
    let report = run(2);
    for (text, is_breach) in [
        ("p99.9 > 20ms", false),
        ("p99_all > 20ms", false),
        ("p99.9_all > 20ms", true),
        ("p50_all < 1ms and p50_all > 900us", true),
        ("p90_all > 10s", false),
    ] {
        assert_eq!(!breaches(text, &report).is_empty(), is_breach, "{text}");
    }
    assert_eq!(breaches("p90_all > 10s", &run(200)).len(), 1);
}

#[test]
fn syntax_errors_name_their_column() {
    let table = [
        ("", 1, "a metric was expected here, one of p50, p75,"),
        (
            "p98 > 1ms",
            1,
            "there is no metric `p98`; there are p50, p75, p90, p95, p99, p99.9, p99.99, max, mean, p50_all,",
        ),
        ("p99 > 20", 7, "20 of what? Write 20ns, 20us, 20ms or 20s"),
        ("p99 > 20 or errors > 0", 7, "20 of what?"),
        (
            "p99 > 20min",
            7,
            "`min` does not belong behind this number: a duration such as 20ms",
        ),
        (
            "p99 > 20 sec",
            7,
            "`sec` does not belong behind this number",
        ),
        (
            "p99 > fast",
            7,
            "a duration such as 20ms (ns, us, ms, s) was expected here",
        ),
        ("p99 > -5ms", 7, "a duration such as 20ms"),
        ("p99 > 1.2.3ms", 7, "a duration such as 20ms"),
        ("p99 >", 6, "a duration such as 20ms"),
        ("error_rate > 1", 14, "1 of what? Write 1%"),
        (
            "errors > 1%",
            10,
            "`%` does not belong behind this number: a whole number was expected",
        ),
        ("errors > 1.5", 10, "a whole number was expected here"),
        ("rate < 5ms", 8, "a rate such as 5000/s or 5k/s"),
        (
            "p99 20ms",
            5,
            "a comparison was expected here, one of >, >=, <, <=, ==, !=",
        ),
        ("errors = 0", 8, "write `==`"),
        ("errors => 0", 8, "there is no comparison `=>`"),
        ("errors > 0 && unsent > 0", 12, "write `and`"),
        ("errors > 0 || unsent > 0", 12, "write `or`"),
        (
            "errors > 0 unsent > 0",
            10,
            "`unsent` does not belong behind this number",
        ),
        (
            "p99 > 1ms unsent > 0",
            11,
            "`and`, `or` or the end was expected here",
        ),
        ("(errors > 0", 12, "`)` was expected here"),
        ("errors > 0)", 11, "this parenthesis was never opened"),
        ("errors > 0 and", 15, "a metric was expected here"),
        (
            "p99 > 5µs ü",
            11,
            "`and`, `or` or the end was expected here",
        ),
        ("ü > 0", 1, "there is no metric `ü`"),
        ("errors > 0 and 'x'", 16, "a metric was expected here"),
    ];
    for (text, column, message) in table {
        let error = Threshold::parse(text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("column {column}: ")),
            "{text}: {error}"
        );
        assert!(error.contains(message), "{text}: {error}");
        let caret = error.lines().last().unwrap();
        assert_eq!(caret.chars().count(), 2 + column, "{text}: {error}");
    }
    let deep = "(".repeat(100_000);
    assert!(
        Threshold::parse(&deep)
            .unwrap_err()
            .to_string()
            .contains("too many parentheses")
    );
}
