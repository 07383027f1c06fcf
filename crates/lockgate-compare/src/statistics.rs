//! Ratios of paired measurements, and their verdicts by the sign test.

use lockgate_report::summary::Spread;

/// A ratio of two programs, from rounds in which both were measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Spread of the ratios of all rounds.
    pub spread: Spread,
    /// Confidence interval of the true median, by [`CONFIDENCE`]; `None` for fewer than 6 rounds.
    pub interval: Option<(f64, f64)>,
}

/// Confidence level of all intervals.
pub const CONFIDENCE: f64 = 0.95;

impl Ratio {
    /// The ratio of pairs from the same rounds. Pairs in which one is not above zero do not count:
    /// a figure too small to be seen is not infinitely less.
    pub fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let seen = pairs
            .into_iter()
            .filter(|(above, below)| *above > 0.0 && *below > 0.0);
        let ratios = sorted(seen.map(|(above, below)| above / below));
        let interval = sign_test(ratios.len())
            .and_then(|out| Some((*ratios.get(out)?, *ratios.get(ratios.len() - 1 - out)?)));
        Some(Self {
            spread: Spread::of(ratios)?,
            interval,
        })
    }

    /// The verdict that the interval allows.
    pub fn verdict(&self) -> RatioVerdict {
        match self.interval {
            Some((_, high)) if high < 1.0 => RatioVerdict::Less,
            Some((low, _)) if low > 1.0 => RatioVerdict::More,
            _ => RatioVerdict::NotShown,
        }
    }
}

/// Verdict about a ratio, by its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatioVerdict {
    /// The ratio is below 1.
    Less,
    /// The ratio is above 1.
    More,
    /// The ratio may be either.
    NotShown,
}

/// Number of values to leave out at each end of `n` ordered ones, so that the rest covers the
/// median of their distribution with at least [`CONFIDENCE`].
///
/// Each value is above the median with a probability of a half: their number is binomial. `None`:
/// not even all of them are enough; that takes 6.
fn sign_test(n: usize) -> Option<usize> {
    // The probability that the median lies below the value at `out`, from 0 on: at most `out` of n
    // lie below it.
    let mut chance = 0.5f64.powi(i32::try_from(n).ok()?);
    let mut below = 0.0;
    let mut found = None;
    for out in 0..n.div_ceil(2) {
        below += chance;
        if 1.0 - 2.0 * below < CONFIDENCE {
            break;
        }
        found = Some(out);
        chance *= (n - out) as f64 / (out + 1) as f64;
    }
    found
}

fn sorted(figures: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = figures
        .into_iter()
        .filter(|figure| figure.is_finite())
        .collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of order statistics for the median that textbooks have, for 95 %.
    #[test]
    fn intervals_leave_out_as_many_as_the_table_of_the_sign_test_says() {
        let table = [
            (1, None),
            (5, None),
            (6, Some(0)),
            (7, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (10, Some(1)),
            (11, Some(1)),
            (12, Some(2)),
            (15, Some(3)),
            (20, Some(5)),
            (25, Some(7)),
            (50, Some(17)),
        ];
        for (n, out) in table {
            assert_eq!(sign_test(n), out, "{n}");
        }
    }

    #[test]
    fn a_verdict_is_given_only_where_the_interval_has_no_one_in_it() {
        let ratio =
            |ratios: &[f64]| Ratio::of(ratios.iter().map(|ratio| (ratio * 10.0, 10.0))).unwrap();
        let seven = [0.8, 0.85, 0.9, 0.7, 0.75, 0.88, 0.99];
        assert_eq!(ratio(&seven).verdict(), RatioVerdict::Less);
        assert_eq!(ratio(&seven).interval, Some((0.7, 0.99)));
        assert_eq!(
            ratio(&seven[..5]).verdict(),
            RatioVerdict::NotShown,
            "five rounds show nothing"
        );
        assert_eq!(
            ratio(&[0.8, 0.85, 0.9, 0.7, 0.75, 0.88, 1.01]).verdict(),
            RatioVerdict::NotShown
        );
        assert_eq!(
            ratio(&[1.2, 1.1, 1.3, 1.4, 1.5, 1.05]).verdict(),
            RatioVerdict::More
        );
        // One of nine may lie on the other side.
        assert_eq!(
            ratio(&[0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 2.0]).verdict(),
            RatioVerdict::Less
        );
    }

    #[test]
    fn a_side_without_figures_gives_no_ratio() {
        assert_eq!(
            Ratio::of([(0.0, 1.0), (1.0, 0.0), (-1.0, -2.0), (3.0, 2.0)])
                .unwrap()
                .spread
                .count,
            1
        );
        assert_eq!(Ratio::of([(0.0, 1.0)]), None);
    }

    #[test]
    fn pairs_keep_together_what_a_round_did_to_both() {
        // Twice as slow in every second round, for both.
        let pairs = [
            (9.0, 10.0),
            (18.0, 20.0),
            (9.0, 10.0),
            (18.0, 20.0),
            (9.0, 10.0),
            (18.0, 20.0),
        ];
        let ratio = Ratio::of(pairs).unwrap();
        assert_eq!(
            (ratio.spread.relative(), ratio.verdict()),
            (Some(0.0), RatioVerdict::Less)
        );
    }
}
