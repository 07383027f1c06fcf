//! The ladder: latency against the rate that was asked for.

use std::fmt::Write;

use super::plot::{self, CurveLabel, LEFT, RIGHT, Scale};
use crate::summary::{self, Spread, Summary};
use crate::units;
use lockgate_load::result::{RunResult, StageResult};

const HEIGHT: f64 = 380.0;
const AREA: (f64, f64) = (14.0, 320.0);

/// A figure of a stage's latency.
type Of = fn(&Summary) -> Option<f64>;
const FIGURES: [(&str, Of); 2] = [("p99", Summary::p99), ("p50", Summary::p50)];

/// The figure where any run has several rates.
pub(super) fn figure(runs: &[(&str, &RunResult)]) -> Option<String> {
    let ladders: Vec<_> = runs
        .iter()
        .filter(|(_, report)| is_ladder(report))
        .collect();
    let stages = || ladders.iter().flat_map(|(_, report)| &report.stages);
    let rates: Vec<f64> = stages().filter_map(|stage| stage.rate).collect();
    if rates.is_empty() {
        return None;
    }
    let x = Scale::from_zero(rates, (LEFT, RIGHT - 12.0));
    let latency = stages()
        .filter(|stage| stage.rate.is_some())
        .filter_map(|stage| Summary::of(&stage.counts.latency));
    let y = Scale::fitting(
        latency.flat_map(|summary| [summary.p50(), summary.p99()].into_iter().flatten()),
        (AREA.1, AREA.0),
    );
    let mut drawing = plot::y_axis(&y, units::duration);
    let ticks: Vec<_> = x
        .ticks()
        .into_iter()
        .map(|rate| (x.place(rate), units::rate(rate)))
        .collect();
    drawing.push_str(&plot::x_axis(&ticks, AREA));
    drawing.push_str(&plot::note(
        (LEFT + RIGHT) / 2.0,
        AREA.1 + 40.0,
        "middle",
        "requests a second that were due",
    ));
    let mut names = Vec::new();
    for (nth, (run, report)) in ladders.iter().enumerate() {
        for (which, (figure, of)) in FIGURES.into_iter().enumerate() {
            let style = nth * FIGURES.len() + which;
            let medians = medians(report, of);
            let points: Vec<_> = medians
                .into_iter()
                .map(|(rate, median)| median.map(|latency| (x.place(rate), y.place(latency))))
                .collect();
            let text = if runs.len() > 1 {
                format!("{run}, {figure}")
            } else {
                figure.to_owned()
            };
            names.extend(
                points
                    .iter()
                    .flatten()
                    .last()
                    .map(|at| CurveLabel { text, at: *at }),
            );
            drawing.push_str(&plot::line(points, &plot::stroke(style)));
            drawing.push_str(&dots(report, of, style, &x, &y));
        }
    }
    drawing.push_str(&plot::names(&names, AREA));
    let svg = plot::svg((0.0, HEIGHT), "Latency by rate", &drawing);
    let scale = if y.is_log() {
        "The scale of latency is logarithmic. "
    } else {
        ""
    };
    let hollow = if stages().any(|stage| !stage.invalid.is_empty()) {
        "Hollow: an invalid stage. "
    } else {
        ""
    };
    let crosses = if stages().any(|stage| stage.counts.succeeded() == 0) {
        "×: nothing succeeded. "
    } else {
        ""
    };
    Some(format!(
        "<figure>{svg}<figcaption>{hollow}{crosses}{scale}A dot is a stage; the line is the median of its rounds.\
         </figcaption></figure>\n"
    ))
}

fn is_ladder(report: &RunResult) -> bool {
    let mut rates = report.stages.iter().filter_map(|stage| stage.rate);
    rates
        .next()
        .is_some_and(|first| rates.any(|rate| rate != first))
}

/// The median of the rounds of each rate, none where nothing succeeded, in rising order.
fn medians(report: &RunResult, of: Of) -> Vec<(f64, Option<f64>)> {
    let figures = |group: &[&StageResult]| {
        Spread::of(
            group
                .iter()
                .filter_map(|stage| Summary::of(&stage.counts.latency))
                .filter_map(|each| of(&each)),
        )
    };
    let groups = summary::rounds(report);
    let mut medians: Vec<_> = groups
        .iter()
        .filter_map(|group| Some((group[0].rate?, figures(group).map(|spread| spread.median))))
        .collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    medians
}

fn dots(report: &RunResult, of: Of, style: usize, x: &Scale, y: &Scale) -> String {
    let mut out = String::new();
    for stage in &report.stages {
        let Some(rate) = stage.rate else { continue };
        let at = x.place(rate);
        let Some(summary) = Summary::of(&stage.counts.latency) else {
            let (left, top) = (at - 4.0, AREA.1 - 12.0);
            write!(
                out,
                "<path class=\"cross\" d=\"M{left:.1} {top}l8 8m0 -8l-8 8\"/>"
            )
            .expect("memory");
            continue;
        };
        let hollow = if stage.invalid.is_empty() {
            ""
        } else {
            " hollow"
        };
        let Some(figure) = of(&summary) else { continue };
        let (colour, height) = (style % 8, y.place(figure));
        write!(
            out,
            "<circle class=\"dot c{colour}{hollow}\" cx=\"{at:.1}\" cy=\"{height:.1}\" r=\"3.5\"/>"
        )
        .expect("memory");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_rate_is_a_dot_and_rounds_are_joined_by_their_median() {
        let mut ladder = sample::ladder(3);
        ladder.stages.extend(sample::ladder(3).stages);
        ladder.stages[1].invalid.push(sample::late("late"));
        let figure = figure(&[("a", &ladder)]).unwrap();
        assert_eq!(figure.matches("<circle").count(), 12);
        assert_eq!(figure.matches(" hollow\"").count(), 2);
        assert_eq!(medians(&ladder, Summary::p50).len(), 3);
        let line = figure
            .split("class=\"curve c0\"")
            .nth(1)
            .unwrap()
            .split("/>")
            .next()
            .unwrap();
        assert_eq!(
            (line.matches('M').count(), line.matches('L').count()),
            (1, 2)
        );
    }

    #[test]
    fn one_rate_is_no_ladder() {
        assert_eq!(
            figure(&[
                ("a", &sample::ladder(1)),
                ("b", &sample::report(&["closed loop"]))
            ]),
            None
        );
    }

    #[test]
    fn a_rate_at_which_nothing_succeeded_is_a_cross() {
        let mut ladder = sample::ladder(3);
        ladder.stages[2].counts.latency.reset();
        let figure = figure(&[("a", &ladder)]).unwrap();
        assert!(figure.contains("class=\"cross\"") && figure.contains("×: nothing succeeded"));
    }
}
