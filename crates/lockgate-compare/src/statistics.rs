//! Medians, spreads, and what a few paired measurements allow to be said.

/// The middle of some figures, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// How many there were.
    pub rounds: usize,
}

impl Spread {
    /// Of `figures`, or `None` where there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(figures);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (
            sorted.get((sorted.len() - 1) / 2)?,
            sorted.get(sorted.len() / 2)?,
        );
        Some(Self {
            median: (low + high) / 2.0,
            min,
            max,
            rounds: sorted.len(),
        })
    }

    /// From the least to the most, as a share of the median.
    pub fn share(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.max - self.min) / self.median
        }
    }
}

/// A ratio of two programs, from rounds in which both were measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Of the ratios of each round.
    pub spread: Spread,
    /// Where the true median lies with at least [`CONFIDENCE`]; none for fewer than 6 rounds.
    pub interval: Option<(f64, f64)>,
}

/// How sure an interval is.
pub const CONFIDENCE: f64 = 0.95;

impl Ratio {
    /// Of pairs that were measured in the same round. Pairs in which one is not above zero do not
    /// count: what was too little to be seen is not infinitely less.
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

    /// What may be said of it.
    pub fn verdict(&self) -> RatioVerdict {
        match self.interval {
            Some((_, high)) if high < 1.0 => RatioVerdict::Less,
            Some((low, _)) if low > 1.0 => RatioVerdict::More,
            _ => RatioVerdict::NotShown,
        }
    }
}

/// What rounds have shown of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatioVerdict {
    /// It is below 1.
    Less,
    /// It is above 1.
    More,
    /// It may be either.
    NotShown,
}

/// How many of `n` ordered values to leave out at each end, so that what is left covers the median
/// of what they were drawn from with at least [`CONFIDENCE`], however that is distributed.
///
/// Each value is above the median with a chance of a half: the number that are is binomial. `None`:
/// not even from the first to the last of them, for which it takes 6.
fn sign_test(n: usize) -> Option<usize> {
    // The chance that the median lies below the value at `out`, counted from 0: at most `out` of n
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

    #[test]
    fn the_median_is_in_the_middle_and_the_spread_from_end_to_end() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (spread.median, spread.min, spread.max, spread.rounds),
            (2.0, 1.0, 3.0, 3)
        );
        assert_eq!(spread.share(), 1.0);
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([5.0]).unwrap().share(), 0.0);
        assert_eq!(Spread::of([f64::NAN]), None);
    }

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
    fn what_was_not_seen_on_either_side_is_no_ratio() {
        assert_eq!(
            Ratio::of([(0.0, 1.0), (1.0, 0.0), (-1.0, -2.0), (3.0, 2.0)])
                .unwrap()
                .spread
                .rounds,
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
            (ratio.spread.share(), ratio.verdict()),
            (0.0, RatioVerdict::Less)
        );
    }
}
