//! The time line of a run: successes and p99 of every second, with a mark where requests failed.

use std::fmt::Write;
use std::time::Duration;

use super::plot::{self, LEFT, RIGHT, Scale};
use crate::units;
use lockgate_load::result::{RunResult, Second};

const HEIGHT: f64 = 400.0;
/// Where marks of failures and names of stages stand.
const MARKS: f64 = 34.0;
const RATE: (f64, f64) = (60.0, 180.0);
const LATENCY: (f64, f64) = (216.0, 344.0);

/// Points that a line is drawn through: more would be a surface.
const MAX_POINTS: usize = 330;

/// The figure, or nothing where there was no second.
pub(super) fn figure(report: &RunResult) -> Option<String> {
    let seconds: Vec<&Second> = report
        .stages
        .iter()
        .flat_map(|stage| &stage.seconds)
        .collect();
    if seconds.is_empty() {
        return None;
    }
    let x = Scale::linear(0.0, seconds.len() as f64, (LEFT, RIGHT));
    let together = seconds.len().div_ceil(MAX_POINTS);
    let rates: Vec<Option<f64>> = seconds.chunks(together).map(rate).collect();
    let worst: Vec<Option<f64>> = seconds.chunks(together).map(worst).collect();
    let rate = Scale::from_zero(rates.iter().flatten().copied(), (RATE.1, RATE.0));
    let latency = Scale::fitting(worst.iter().flatten().copied(), (LATENCY.1, LATENCY.0));
    let of_latency = match together {
        1 => "p99 of each second".to_owned(),
        many => format!("worst p99 of each {many} s"),
    };

    let mut drawing = plot::y_axis(&rate, units::number);
    if worst.iter().any(Option::is_some) {
        drawing.push_str(&plot::y_axis(&latency, units::duration));
    } else {
        drawing.push_str(&plot::note(
            LEFT + 12.0,
            LATENCY.0 + 24.0,
            "start",
            "nothing succeeded",
        ));
    }
    let ticks = x.ticks().into_iter().filter(|tick| tick.fract() == 0.0);
    let ticks: Vec<_> = ticks
        .map(|tick| (x.place(tick), units::count(tick as u64)))
        .collect();
    drawing.push_str(&plot::x_axis(&ticks, (LATENCY.0, LATENCY.1)));
    drawing.push_str(&plot::note(
        (LEFT + RIGHT) / 2.0,
        LATENCY.1 + 38.0,
        "middle",
        "seconds of all stages",
    ));
    drawing.push_str(&plot::note(
        RIGHT + 14.0,
        (RATE.0 + RATE.1) / 2.0,
        "start",
        "successes a second",
    ));
    drawing.push_str(&plot::note(
        RIGHT + 14.0,
        (LATENCY.0 + LATENCY.1) / 2.0,
        "start",
        &of_latency,
    ));
    drawing.push_str(&stages(report, &x));
    let middle = |at: usize| x.place((at as f64 + 0.5) * together as f64);
    let successes = rates
        .iter()
        .enumerate()
        .map(|(at, each)| each.map(|each| (middle(at), rate.place(each))));
    drawing.push_str(&plot::line(successes, "class=\"curve c0\""));
    let p99 = worst
        .iter()
        .enumerate()
        .map(|(at, each)| each.map(|each| (middle(at), latency.place(each))));
    drawing.push_str(&plot::line(p99, "class=\"curve c1\""));
    let failed = failures(&seconds, |at| x.place(at as f64 + 0.5));
    drawing.push_str(&failed);

    // Without marks and names there is nothing above.
    let top = if failed.is_empty() && report.stages.len() < 2 {
        MARKS
    } else {
        0.0
    };
    let svg = plot::svg((top, HEIGHT), "Successes and p99 of each second", &drawing);
    let crosses = if failed.is_empty() {
        ""
    } else {
        "×: requests failed. "
    };
    let scale = if latency.is_log() {
        "The scale of latency is logarithmic. "
    } else {
        ""
    };
    let caption = "Exchanges count in the second in which they ended; those that ended after their stage are not drawn.";
    Some(format!(
        "<figure>{svg}<figcaption>{crosses}{scale}{caption}</figcaption></figure>\n"
    ))
}

/// A last second that is shorter has no rate: it would be that of a few requests.
const SHORTEST: Duration = Duration::from_millis(100);

/// Successes a second of seconds that are drawn as one, by their length.
fn rate(seconds: &[&Second]) -> Option<f64> {
    let length: Duration = seconds.iter().map(|second| second.length).sum();
    let succeeded: u64 = seconds.iter().map(|second| second.succeeded).sum();
    (length >= SHORTEST).then(|| succeeded as f64 / length.as_secs_f64())
}

/// The highest of their p99, if anything succeeded.
fn worst(seconds: &[&Second]) -> Option<f64> {
    let answered = seconds.iter().filter(|second| second.succeeded > 0);
    answered.map(|second| second.p99 as f64).reduce(f64::max)
}

/// A line between stages, and their names as far as there is room.
fn stages(report: &RunResult, x: &Scale) -> String {
    let mut out = String::new();
    if report.stages.len() < 2 {
        return out;
    }
    let (mut second, mut free) = (0, 0.0);
    for stage in &report.stages {
        let start = x.place(second as f64);
        second += stage.seconds.len();
        let middle = (start + x.place(second as f64)) / 2.0;
        if start > LEFT {
            let bottom = LATENCY.1;
            write!(
                out,
                "<path class=\"border\" d=\"M{start:.1} {MARKS}V{bottom}\"/>"
            )
            .expect("memory");
        }
        let half = plot::width(&stage.name) / 2.0;
        let fits = middle - half >= free && middle + half <= RIGHT + 100.0;
        if fits {
            free = middle + half + 10.0;
            out.push_str(&plot::note(middle, 14.0, "middle", &stage.name));
        }
    }
    out
}

/// Crosses above the seconds in which requests failed; crosses that would touch are one.
fn failures(seconds: &[&Second], middle: impl Fn(usize) -> f64) -> String {
    const APART: f64 = 11.0;
    let mut marks: Vec<(f64, u64)> = Vec::new();
    for (at, second) in seconds
        .iter()
        .enumerate()
        .filter(|(_, second)| second.failed > 0)
    {
        match marks.last_mut() {
            Some((x, number)) if middle(at) - *x < APART => *number += second.failed,
            _ => marks.push((middle(at), second.failed)),
        }
    }
    marks.iter().fold(String::new(), |mut out, (x, number)| {
        let (left, top, title) = (x - 4.0, MARKS, units::counted(*number, "failure", "failures"));
        write!(
            out,
            "<path class=\"cross\" d=\"M{left:.1} {top}l8 8m0 -8l-8 8\"><title>{title}</title></path>"
        )
        .expect("memory");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use lockgate_load::result::FailureKind;

    #[test]
    fn seconds_with_failures_are_marked_and_those_without_a_success_have_no_latency() {
        let mut report = sample::report(&["a", "b"]);
        sample::fail(&mut report.stages[1], FailureKind::Timeout, 12, "late");
        report.stages[0].seconds[3].succeeded = 0;
        let figure = figure(&report).unwrap();
        assert_eq!(figure.matches("class=\"cross\"").count(), 1);
        assert!(figure.contains("<title>12 failures</title>"));
        let latency = figure
            .split("class=\"curve c1\"")
            .nth(1)
            .unwrap()
            .split("/>")
            .next()
            .unwrap();
        assert_eq!(latency.matches('M').count(), 2, "{latency}");
        report
            .stages
            .iter_mut()
            .flat_map(|stage| &mut stage.seconds)
            .for_each(|second| second.succeeded = 0);
        assert!(
            super::figure(&report)
                .unwrap()
                .contains(">nothing succeeded<")
        );
    }

    #[test]
    fn a_long_run_is_drawn_by_the_worst_of_some_seconds_and_its_failures_not_over_each_other() {
        let mut report = sample::report(&["long"]);
        let second = Second {
            failed: 1,
            ..report.stages[0].seconds[0]
        };
        report.stages[0].seconds = vec![second; 3600];
        let figure = figure(&report).unwrap();
        let crosses = figure.matches("class=\"cross\"").count();
        assert!((40..=61).contains(&crosses), "{crosses}");
        assert!(figure.contains("worst p99 of each 11 s") && figure.matches('L').count() < 700);
        let worse = Second {
            p99: second.p99 * 5,
            ..second
        };
        assert_eq!(worst(&[&second, &worse, &second]), Some(worse.p99 as f64));
    }

    #[test]
    fn partial_second_is_drawn_by_the_rate_of_its_length() {
        let second = |milliseconds: u64, succeeded: u64| Second {
            length: Duration::from_millis(milliseconds),
            succeeded,
            ..sample::report(&["a"]).stages[0].seconds[0]
        };
        assert_eq!(rate(&[&second(1000, 500)]), Some(500.0));
        assert_eq!(rate(&[&second(500, 250)]), Some(500.0));
        let together = [&second(1000, 500), &second(500, 250)];
        assert_eq!(rate(&together), Some(500.0));
        assert_eq!(rate(&[&second(3, 1)]), None);
    }

    #[test]
    fn a_run_without_seconds_has_no_time_line() {
        let mut report = sample::report(&["a"]);
        report.stages[0].seconds.clear();
        assert_eq!(figure(&report), None);
        assert_eq!(figure(&sample::report(&[])), None);
    }
}
