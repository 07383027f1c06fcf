//! Percentile plot: latency by the share of requests, with as much room for one of 10,000 as for
//! one of 10.

use super::plot::{self, CurveLabel, LEFT, RIGHT, Scale};
use crate::summary;
use crate::units;
use lockgate_load::result::{LoadModel, NanosecondHistogram, RunResult, StageResult};

const HEIGHT: f64 = 400.0;
const AREA: (f64, f64) = (14.0, 340.0);
/// Curves that can be told apart.
const MAX_CURVES: usize = 8;

/// Shares that are marked, and from how many requests on the axis reaches them.
const TICKS: [(&str, f64, u64); 8] = [
    ("0 %", 0.0, 0),
    ("50 %", 0.5, 0),
    ("90 %", 0.9, 0),
    ("99 %", 0.99, 0),
    ("99.9 %", 0.999, 0),
    ("99.99 %", 0.9999, 0),
    ("99.999 %", 0.99999, 200_000),
    ("99.9999 %", 0.999999, 2_000_000),
];

struct Curve {
    name: String,
    histogram: NanosecondHistogram,
    stroke: String,
}

/// The figure, or nothing where nothing succeeded.
pub(super) fn figure(runs: &[(&str, &RunResult)]) -> Option<String> {
    let (curves, left_out) = curves(runs);
    let most = curves.iter().map(|curve| curve.histogram.len()).max()?;
    let ticks: Vec<_> = TICKS.iter().filter(|(_, _, from)| most >= *from).collect();
    let last = ticks.last().map_or(0.0, |(_, share, _)| exceeding(*share));
    let x = Scale::linear(0.0, last, (LEFT, RIGHT));
    let drawn: Vec<_> = curves
        .iter()
        .map(|curve| values(&curve.histogram, last))
        .collect();
    let y = Scale::fitting(
        drawn.iter().flatten().map(|(_, value)| *value),
        (AREA.1, AREA.0),
    );
    let marks: Vec<_> = ticks
        .iter()
        .map(|(label, share, _)| (x.place(exceeding(*share)), (*label).to_owned()))
        .collect();
    let mut drawing = plot::y_axis(&y, units::duration);
    drawing.push_str(&plot::x_axis(&marks, AREA));
    drawing.push_str(&plot::note(
        (LEFT + RIGHT) / 2.0,
        AREA.1 + 40.0,
        "middle",
        "share of requests that took no longer",
    ));
    let mut names = Vec::new();
    for (curve, values) in curves.iter().zip(drawn) {
        let mut points: Vec<_> = values
            .into_iter()
            .map(|(at, value)| (x.place(at), y.place(value)))
            .collect();
        points.dedup_by(|a, b| (a.0 - b.0).abs() < 0.5 && (a.1 - b.1).abs() < 0.5);
        names.extend(points.last().map(|at| CurveLabel {
            text: curve.name.clone(),
            at: *at,
        }));
        drawing.push_str(&plot::line(points.into_iter().map(Some), &curve.stroke));
    }
    drawing.push_str(&plot::names(&names, AREA));
    let scale = if y.is_log() {
        "The scale of latency is logarithmic. "
    } else {
        ""
    };
    let rest = if left_out > 0 {
        format!("{left_out} more stages are not drawn; `All figures of each stage` has them. ")
    } else {
        String::new()
    };
    let service = if curves.iter().any(|curve| curve.stroke.contains("thin")) {
        "Thin: service time, from when requests were sent. "
    } else {
        ""
    };
    let svg = plot::svg((0.0, HEIGHT), "Latency by percentile", &drawing);
    let caption =
        "A curve ends where only one request was slower. Rounds of the same stage are combined.";
    Some(format!(
        "<figure>{svg}<figcaption>{scale}{service}{rest}{caption}</figcaption></figure>\n"
    ))
}

/// Latency of each group of rounds, service time beside it in open loops while there is room; and
/// how many groups have none.
fn curves(runs: &[(&str, &RunResult)]) -> (Vec<Curve>, usize) {
    let room = (MAX_CURVES / runs.len().max(1)).max(1);
    let is_open = |(_, report): &(&str, &RunResult)| report.run.model == LoadModel::Open;
    let with_service = runs.len() * 2 <= MAX_CURVES && runs.iter().any(is_open);
    let (mut curves, mut left_out) = (Vec::new(), 0);
    let mut nth = 0;
    for (run, report) in runs {
        let groups: Vec<_> = summary::rounds(report)
            .into_iter()
            .filter(|group| group.iter().any(|stage| stage.counts.succeeded() > 0))
            .collect();
        // Rather every stage than some with their service times.
        let with_service = with_service && groups.len() <= room / 2;
        let shown = spaced(&groups, room);
        left_out += groups.len() - shown.len();
        for group in &shown {
            let name = match (runs.len(), groups.len()) {
                (1, 1) => String::new(),
                (1, _) => group[0].name.clone(),
                (_, 1) => (*run).to_owned(),
                _ => format!("{run}: {}", group[0].name),
            };
            let named = |what: &str| {
                if name.is_empty() {
                    what.to_owned()
                } else {
                    format!("{name}, {what}")
                }
            };
            let open = with_service && report.run.model == LoadModel::Open;
            let latency = if open || name.is_empty() {
                named("latency")
            } else {
                name.clone()
            };
            let latency_of = together(group, |stage| &stage.counts.latency);
            curves.push(Curve {
                name: latency,
                histogram: latency_of,
                stroke: plot::stroke(nth),
            });
            if open {
                let service = together(group, |stage| &stage.counts.service);
                curves.push(Curve {
                    name: named("service"),
                    histogram: service,
                    stroke: plot::thin_stroke(nth),
                });
            }
            nth += 1;
        }
    }
    curves.retain(|curve| !curve.histogram.is_empty());
    (curves, left_out)
}

/// This many elements, evenly spaced from the first to the last.
fn spaced<T>(all: &[T], most: usize) -> Vec<&T> {
    if all.len() <= most {
        return all.iter().collect();
    }
    if most == 1 {
        return all.last().into_iter().collect();
    }
    (0..most)
        .map(|nth| &all[nth * (all.len() - 1) / (most - 1)])
        .collect()
}

fn together(
    group: &[&StageResult],
    of: fn(&StageResult) -> &NanosecondHistogram,
) -> NanosecondHistogram {
    let mut sum = of(group[0]).clone();
    for stage in &group[1..] {
        // Of one precision and able to grow: nothing to refuse.
        let _ = sum.add(of(stage));
    }
    sum
}

/// How many powers of ten of requests there are for each that exceeds this percentile.
fn exceeding(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// Places on the axis and values there, from the smallest to the largest, which stands where one
/// request is left, or to the end of the axis.
fn values(histogram: &NanosecondHistogram, last: f64) -> Vec<(f64, f64)> {
    const STEPS: i32 = 200;
    let end = (histogram.len() as f64).log10();
    let until = end.min(last);
    let value = |at: f64| histogram.value_at_quantile(1.0 - 10_f64.powf(-at)) as f64;
    let places = (0..=STEPS).map(|step| until * f64::from(step) / f64::from(STEPS));
    let mut values: Vec<_> = places.map(|at| (at, value(at))).collect();
    if end <= last {
        values.push((end, histogram.max() as f64));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn names(runs: &[(&str, &RunResult)]) -> Vec<String> {
        curves(runs).0.into_iter().map(|curve| curve.name).collect()
    }

    #[test]
    fn every_curve_is_named_by_what_tells_it_from_the_others() {
        let (closed, open) = (sample::report(&["closed loop"]), sample::ladder(1));
        assert_eq!(names(&[("a", &closed)]), ["latency"]);
        assert_eq!(names(&[("a", &open)]), ["latency", "service"]);
        assert_eq!(names(&[("a", &closed), ("b", &closed)]), ["a", "b"]);
        let two = sample::ladder(2);
        assert_eq!(
            names(&[("a", &two)]),
            [
                "1000/s, latency",
                "1000/s, service",
                "2000/s, latency",
                "2000/s, service"
            ]
        );
        assert_eq!(
            names(&[("a", &two), ("b", &closed)])[3..],
            ["a: 2000/s, service", "b"]
        );
        // Both of its stages are drawn, rather than one of them with its service time.
        assert_eq!(
            names(&[("a", &two), ("b", &closed), ("c", &closed)])[..2],
            ["a: 1000/s", "a: 2000/s"]
        );
    }

    #[test]
    fn of_many_stages_some_are_drawn_from_the_first_to_the_last() {
        let ladder = sample::ladder(25);
        let (curves, left_out) = curves(&[("a", &ladder)]);
        let names = curves.iter().map(|curve| curve.name.as_str());
        let rates = [
            "1000/s", "4000/s", "7000/s", "11000/s", "14000/s", "18000/s", "21000/s", "25000/s",
        ];
        assert!(names.eq(rates));
        assert_eq!(left_out, 17);
        let (all, left_out) = super::curves(&[("a", &sample::ladder(8))]);
        assert_eq!((all.len(), left_out), (8, 0), "without service times");
        assert!(
            figure(&[("a", &ladder)])
                .unwrap()
                .contains("17 more stages are not drawn")
        );
    }

    #[test]
    fn a_curve_ends_at_the_largest_value_if_the_axis_reaches_it() {
        let latency = sample::stage("some", 1_000, 1e6).counts.latency;
        assert_eq!(
            values(&latency, 4.0).last(),
            Some(&(3.0, latency.max() as f64))
        );
        assert!(values(&latency, 2.0).last().unwrap().1 < latency.max() as f64 / 2.0);
    }

    #[test]
    fn the_scale_is_that_of_what_is_drawn() {
        let mut report = sample::report(&[]);
        report.stages.push(sample::stage("many", 100_000, 1e6));
        report.stages[0]
            .counts
            .latency
            .record(60_000_000_000)
            .unwrap();
        let figure = figure(&[("a", &report)]).unwrap();
        assert!(
            figure.contains(" ms</text>") && !figure.contains(" s</text>"),
            "{figure}"
        );
    }

    #[test]
    fn rounds_are_put_together_and_what_is_empty_is_not_drawn() {
        let mut report = sample::report(&["closed loop", "closed loop"]);
        report.stages.push(sample::stage("broken", 0, 1e6));
        assert_eq!(curves(&[("a", &report)]).0[0].histogram.len(), 2_000);
        assert_eq!(names(&[("a", &report)]), ["latency"]);
        report.stages.drain(..2);
        assert!(figure(&[("a", &report)]).is_none());
        report.stages = vec![sample::stage("one", 1, 1e6)];
        assert!(
            figure(&[("a", &report)])
                .unwrap()
                .contains("class=\"curve alone c0\"")
        );
    }
}
