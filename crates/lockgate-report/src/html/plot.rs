//! Parts of every plot: scales with their ticks, strokes that differ in grey print, labels that
//! keep apart.

use std::fmt::Write;

use crate::escape::html;
use crate::units;

/// Width of every plot, in its own pixels.
pub(super) const WIDTH: f64 = 960.0;
/// Where the area of the curves begins, behind the labels of the y axis.
pub(super) const LEFT: f64 = 76.0;
/// And where it ends, before the names of the curves.
pub(super) const RIGHT: f64 = WIDTH - 220.0;
/// Letters of a name that have room beside the curves.
const LONGEST_NAME: usize = 25;

/// Solid first; no two are alike without their colours.
const DASHES: [&str; 8] = [
    "none",
    "9 4",
    "2 3.5",
    "12 3 2 3",
    "5 3",
    "16 4 4 4",
    "8 3 2 3 2 3",
    "1 2",
];

/// The attributes of the nth curve.
pub(super) fn stroke(nth: usize) -> String {
    let at = nth % DASHES.len();
    format!("class=\"curve c{at}\" stroke-dasharray=\"{}\"", DASHES[at])
}

/// As [`stroke`], for the companion of the nth curve.
pub(super) fn thin_stroke(nth: usize) -> String {
    stroke(nth).replacen("curve", "curve thin", 1)
}

/// A scale from figures to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// From `low` to `high`, evenly.
    pub(super) fn linear(low: f64, high: f64, (from, to): (f64, f64)) -> Self {
        Self {
            low,
            high,
            is_log: false,
            from,
            to,
        }
    }

    /// From nothing to above the largest figure.
    pub(super) fn from_zero(figures: impl IntoIterator<Item = f64>, pixels: (f64, f64)) -> Self {
        let most = figures
            .into_iter()
            .filter(|figure| figure.is_finite())
            .fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most / 4.0);
        Self::linear(0.0, (most / step).ceil() * step, pixels)
    }

    /// For durations: by powers of ten where even steps would hide the smaller ones.
    pub(super) fn fitting(figures: impl IntoIterator<Item = f64>, pixels: (f64, f64)) -> Self {
        let figures: Vec<f64> = figures
            .into_iter()
            .filter(|figure| *figure > 0.0 && figure.is_finite())
            .collect();
        let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let high = figures.iter().copied().fold(0.0, f64::max);
        if high <= 20.0 * low || figures.is_empty() {
            return Self::from_zero(figures, pixels);
        }
        let (low, high) = (1.0 / step(1.0 / low), step(high));
        Self {
            low,
            high,
            is_log: true,
            from: pixels.0,
            to: pixels.1,
        }
    }

    /// The pixel of a figure, within the scale.
    pub(super) fn place(&self, figure: f64) -> f64 {
        let share = if self.is_log {
            (figure.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (figure - self.low) / (self.high - self.low)
        };
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether equal distances are equal factors.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Round figures along the scale, few enough that their labels have room.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            let step = step((self.high - self.low) / 6.0);
            let first = (self.low / step).ceil();
            let all = (0..=12).map(|nth| (first + f64::from(nth)) * step);
            return all
                .take_while(|tick| *tick <= self.high * (1.0 + 1e-9))
                .collect();
        }
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let decade = (self.to - self.from).abs() / (self.high / self.low).log10();
        let factors: &[f64] = if decade >= 60.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let every = (16.0 / decade).ceil() as usize;
        let decades = (first..=last).step_by(every.max(1));
        let all = decades.flat_map(|decade| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(decade))
        });
        let within = self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9);
        all.filter(|tick| within.contains(tick)).collect()
    }
}

/// 1, 2 or 5 by a power of ten, not below this.
fn step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    let factor = least / decade;
    let round = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|round| factor <= round * (1.0 + 1e-9))
        .unwrap_or(10.0);
    round * decade
}

/// Lines across the area with their figures at the left.
pub(super) fn y_axis(scale: &Scale, show: impl Fn(f64) -> String) -> String {
    let mut out = String::new();
    for tick in scale.ticks() {
        let y = scale.place(tick);
        let label = html(&units::short(&show(tick)));
        write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
             <text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            y + 4.0
        )
        .expect("memory");
    }
    out
}

/// Vertical lines at these pixels with their labels below; a label that would touch the one before
/// is left out.
pub(super) fn x_axis(ticks: &[(f64, String)], (top, bottom): (f64, f64)) -> String {
    let mut out = String::new();
    let mut free = f64::NEG_INFINITY;
    for (x, label) in ticks {
        write!(out, "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/>").expect("memory");
        let half = width(label) / 2.0;
        if x - half >= free {
            free = x + half + 8.0;
            let label = html(label);
            let y = bottom + 20.0;
            write!(
                out,
                "<text class=\"quiet\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>"
            )
            .expect("memory");
        }
    }
    out
}

/// A short text, such as the name of an axis.
pub(super) fn note(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = html(text);
    format!(
        "<text class=\"quiet\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    )
}

/// Points joined by lines; a missing point breaks the line, and a single point is a dot.
pub(super) fn line(
    points: impl IntoIterator<Item = Option<(f64, f64)>>,
    attributes: &str,
) -> String {
    let points: Vec<_> = points.into_iter().collect();
    let (mut path, mut alone) = (String::new(), String::new());
    for part in points.split(Option::is_none) {
        let part: Vec<_> = part.iter().flatten().collect();
        if let [(x, y)] = part[..] {
            // A line of no length with round ends.
            write!(alone, "M{x:.1} {y:.1}h0").expect("memory");
            continue;
        }
        for (at, (x, y)) in part.into_iter().enumerate() {
            write!(path, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' }).expect("memory");
        }
    }
    let drawn = |attributes: &str, path: &str| {
        if path.is_empty() {
            String::new()
        } else {
            format!("<path {attributes} d=\"{path}\"/>")
        }
    };
    drawn(attributes, &path) + &drawn(&attributes.replacen("curve", "curve alone", 1), &alone)
}

/// The label of a curve, at its end.
pub(super) struct CurveLabel {
    pub(super) text: String,
    pub(super) at: (f64, f64),
}

/// Names at the right of the area, each with a thin line from the end of its curve, none over
/// another.
pub(super) fn names(names: &[CurveLabel], within: (f64, f64)) -> String {
    let wanted: Vec<f64> = names.iter().map(|name| name.at.1).collect();
    let mut out = String::new();
    for (name, y) in names.iter().zip(apart(&wanted, 15.0, within)) {
        let (from_x, from_y) = name.at;
        let whole = html(&name.text);
        let short = html(&shortened(&name.text));
        write!(
            out,
            "<path class=\"leader\" d=\"M{from_x:.1} {from_y:.1}L{:.1} {y:.1}H{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{short}<title>{whole}</title></text>",
            RIGHT + 8.0,
            RIGHT + 14.0,
            RIGHT + 18.0,
            y + 4.0
        )
        .expect("memory");
    }
    out
}

/// Places next to the wanted ones that are at least `gap` from each other, within bounds as far as
/// there is room.
fn apart(wanted: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let room = if wanted.len() > 1 {
        (high - low) / (wanted.len() - 1) as f64
    } else {
        gap
    };
    let gap = gap.min(room);
    let mut places = wanted.to_vec();
    let mut least = low;
    for &at in &order {
        places[at] = wanted[at].max(least);
        least = places[at] + gap;
    }
    let mut most = high;
    for &at in order.iter().rev() {
        places[at] = places[at].min(most);
        most = places[at] - gap;
    }
    places
}

/// With its middle left out where it is too long: ends tell more apart.
fn shortened(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= LONGEST_NAME {
        return text.to_owned();
    }
    let end = LONGEST_NAME * 2 / 3;
    let begin = &letters[..LONGEST_NAME - end - 1];
    begin
        .iter()
        .chain(&['…'])
        .chain(&letters[letters.len() - end..])
        .collect()
}

/// About as wide as a text is, in pixels: fonts differ.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.8
}

/// A plot from its top to its bottom, with a label for screen readers.
pub(super) fn svg((top, bottom): (f64, f64), label: &str, content: &str) -> String {
    let (label, height) = (html(label), bottom - top);
    format!(
        "<div class=\"wide\" tabindex=\"0\"><svg viewBox=\"0 {top} {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{label}\">{content}</svg></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_logarithmic_only_where_the_range_needs_it() {
        let even = Scale::fitting([1e6, 3e6, 9e6], (100.0, 0.0));
        assert!(!even.is_log());
        assert_eq!((even.place(0.0), even.place(1e7)), (100.0, 0.0));
        let log = Scale::fitting([1.1e5, 9e9], (100.0, 0.0));
        assert!(log.is_log());
        assert_eq!((log.place(1e5), log.place(1e10)), (100.0, 0.0));
        assert_eq!(log.ticks(), [1e5, 1e6, 1e7, 1e8, 1e9, 1e10]);
    }

    #[test]
    fn scales_of_nothing_and_of_one_figure_still_have_a_place_for_all() {
        for figures in [
            vec![],
            vec![0.0],
            vec![f64::NAN],
            vec![5.0],
            vec![f64::MAX],
            vec![1e-300, 1e300],
        ] {
            for scale in [
                Scale::fitting(figures.clone(), (300.0, 10.0)),
                Scale::from_zero(figures, (300.0, 10.0)),
            ] {
                for figure in [0.0, 1.0, f64::NAN, f64::INFINITY, -1.0] {
                    assert!(
                        (10.0..=300.0).contains(&scale.place(figure)),
                        "{scale:?} {figure}"
                    );
                }
                assert!(scale.ticks().len() < 400);
            }
        }
    }

    #[test]
    fn names_never_cover_each_other_while_there_is_room() {
        let mut places = apart(&[50.0, 50.0, 50.0, 299.0, 300.0, 51.0], 15.0, (10.0, 300.0));
        assert_eq!(places, [50.0, 65.0, 80.0, 285.0, 300.0, 95.0]);
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 14.99));
        let crowd = apart(&[5.0; 40], 15.0, (0.0, 300.0));
        assert!(
            crowd.iter().all(|place| (-0.01..=300.01).contains(place)),
            "{crowd:?}"
        );
    }

    #[test]
    fn a_long_name_keeps_both_its_ends() {
        assert_eq!(shortened("nginx"), "nginx");
        let short = shortened("nginx 1.22 with a rather long name, service");
        assert_eq!(
            (short.as_str(), short.chars().count()),
            ("nginx 1.…ng name, service", 25)
        );
    }

    #[test]
    fn a_line_is_broken_where_a_point_is_missing() {
        let points = [Some((0.0, 1.0)), Some((1.0, 2.0)), None, Some((3.0, 4.0))];
        assert_eq!(
            line(points, "class=\"curve\""),
            "<path class=\"curve\" d=\"M0.0 1.0L1.0 2.0\"/><path class=\"curve alone\" d=\"M3.0 4.0h0\"/>"
        );
        assert_eq!(line([None], "class=\"curve\""), "");
    }
}
