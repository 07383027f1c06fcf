//! Rate profile of a run, `--rate 1k..25k --step 1k --every 10s`, and its stages.
//!
//! Errors name the right form; the command line adds the option that they belong to.

use std::str::FromStr;
use std::time::Duration;

use crate::schedule::{RateError, RequestRate, Schedule};

/// Limit of a time: ten years.
const MAX_DURATION: Duration = Duration::from_secs(3650 * 86_400);
/// Limit of the steps of one ladder: each has its own histograms, and a line of the report.
const MAX_STEPS: f64 = 1_000.0;

/// The units of time in seconds.
const TIME: [(&str, f64); 5] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
];
/// The units behind the slash of a rate, in seconds.
const BY: [(&str, f64); 4] = [("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3_600.0)];

/// Error of a word that cannot be parsed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WordError {
    /// The word is no rate.
    #[error(
        "`{0}` is no rate: write a number, such as 1000, 2.5k or 1M, or one by a unit, 100/s, 60/min, 10/h"
    )]
    Rate(String),
    /// The rate is beyond the limits.
    #[error(transparent)]
    Absurd(#[from] RateError),
    /// The word is no range.
    #[error("`{0}` is no range: write both of its ends, as in 1k..25k")]
    Range(String),
    /// The word is no spike.
    #[error("`{0}` is no spike: write its rate, its beginning and its duration, as in 10k@5s+2s")]
    Spike(String),
    /// The word is no time.
    #[error("`{0}` is no time: write a number and its unit, such as 500ms, 10s, 1.5m, 2h")]
    Time(String),
    /// The time is more than ten years.
    #[error("`{0}` is too long: ten years, 3650d, is the most")]
    TooLong(String),
}

/// Parses a time: `500ms`, `10s`, `1.5m`, `2h`, `1d`.
///
/// # Errors
/// The text is no time, has no unit or is more than ten years.
pub fn duration(text: &str) -> Result<Duration, WordError> {
    let wrong = || WordError::Time(text.to_owned());
    let (number, unit) = number(text).ok_or_else(wrong)?;
    let (_, scale) = TIME
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(wrong)?;
    match Duration::try_from_secs_f64(number * scale) {
        Ok(duration) if duration <= MAX_DURATION => Ok(duration),
        _ => Err(WordError::TooLong(text.to_owned())),
    }
}

/// A number of digits and at most one point, and the rest of the text.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && !digits.ends_with('.');
    Some((digits.parse().ok().filter(|_| is_number)?, rest))
}

/// `1k`, `2.5k`, `1000`, `1000/s`, `60/min`, `1M`.
impl FromStr for RequestRate {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let wrong = || WordError::Rate(text.to_owned());
        let (number, rest) = number(text).ok_or_else(wrong)?;
        let (scale, by) = match rest.as_bytes() {
            [b'k' | b'K', ..] => (1e3, &rest[1..]),
            [b'M', ..] => (1e6, &rest[1..]),
            _ => (1.0, rest),
        };
        let seconds = match by.strip_prefix('/') {
            None if by.is_empty() => 1.0,
            None => return Err(wrong()),
            Some(unit) => {
                BY.iter()
                    .find(|(name, _)| *name == unit)
                    .ok_or_else(wrong)?
                    .1
            }
        };
        Ok(Self::new(number * scale / seconds)?)
    }
}

/// Value of `--rate`: one rate or a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestRates {
    /// One rate from begin to end: `1k`.
    One(RequestRate),
    /// A range, up or down: `1k..25k`, `25k..1k`.
    Range(RequestRate, RequestRate),
}

impl FromStr for RequestRates {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let Some((from, to)) = text.split_once("..") else {
            return Ok(Self::One(text.parse()?));
        };
        if from.is_empty() || to.is_empty() {
            return Err(WordError::Range(text.to_owned()));
        }
        // The unit behind a range is that of both ends: `60..600/min`.
        let from = match to.split_once('/') {
            Some((_, unit)) if !from.contains('/') => format!("{from}/{unit}").parse()?,
            _ => from.parse()?,
        };
        Ok(Self::Range(from, to.parse()?))
    }
}

/// Value of `--spike`: rate, begin and duration, as `10k@5s+2s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spike {
    /// Rate of requests during the spike.
    pub rate: RequestRate,
    /// Time from the begin of the run to the spike.
    pub at: Duration,
    /// How long the spike lasts.
    pub lasts: Duration,
}

impl FromStr for Spike {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let wrong = || WordError::Spike(text.to_owned());
        let (rate, when) = text.split_once('@').ok_or_else(wrong)?;
        let (at, lasts) = when.split_once('+').ok_or_else(wrong)?;
        let spike = Self {
            rate: rate.parse()?,
            at: duration(at)?,
            lasts: duration(lasts)?,
        };
        if spike.lasts.is_zero() {
            Err(wrong())
        } else {
            Ok(spike)
        }
    }
}

/// Options of rates that contradict each other.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// A step without a range.
    #[error("--step leads from one rate to another: write both, as in --rate 1k..25k")]
    StepWithoutRange,
    /// A step without a time.
    #[error("--step needs the duration of each step: add --every 10s")]
    StepWithoutEvery,
    /// A time of steps without a step.
    #[error(
        "--every is the duration of each step: add --step 1k, and a range such as --rate 1k..25k"
    )]
    EveryWithoutStep,
    /// A time of the last step without a step.
    #[error(
        "--hold is the duration of the last step: add --step 1k --every 10s, and a range such as --rate 1k..25k"
    )]
    HoldWithoutStep,
    /// A duration beside a ladder, which lasts as long as its steps.
    #[error(
        "a ladder lasts as long as its steps: leave --duration out, or --step for one even ramp"
    )]
    DurationOfLadder,
    /// A ladder of too many steps.
    #[error(
        "{0} steps are too many, {MAX_STEPS} is the most: write a longer --step, or none for one even ramp"
    )]
    TooManySteps(f64),
    /// A spike on a range.
    #[error(
        "--spike needs a single rate before and after it: write --rate 1k, or leave --spike out"
    )]
    SpikeOnRange,
    /// A spike that ends after the run.
    #[error(
        "the spike ends at {ends:?}, the run at {duration:?}: write a longer --duration, or an earlier --spike"
    )]
    SpikeBehindEnd {
        /// End of the spike, from the begin of the run.
        ends: Duration,
        /// Duration of the run, which is shorter.
        duration: Duration,
    },
    /// A time of zero, for one of the options.
    #[error("--{0} must be longer than 0s: write --{0} 10s")]
    NoTime(&'static str),
}

/// The options of rates and their times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// `--rate`: one rate or a range.
    pub rates: RequestRates,
    /// `--step`: makes a ladder of a range.
    pub step: Option<RequestRate>,
    /// `--every`: how long each of its steps lasts.
    pub every: Option<Duration>,
    /// `--hold`: how long the last of them lasts instead.
    pub hold: Option<Duration>,
    /// `--spike`: another rate for a while.
    pub spike: Option<Spike>,
    /// `--duration`: how long the run lasts.
    pub duration: Option<Duration>,
}

/// One stage of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileStage {
    /// Name of the stage in reports: `3000/s`.
    pub name: String,
    /// Due times of its requests.
    pub schedule: Schedule,
    /// How long the stage lasts.
    pub lasts: Duration,
}

impl Profile {
    /// The stages of the profile, at least one. `default` is the duration where the options have
    /// none.
    ///
    /// # Errors
    /// Options contradict each other.
    pub fn stages(&self, default: Duration) -> Result<Vec<ProfileStage>, ProfileError> {
        use ProfileError::*;
        for (name, time) in [
            ("every", self.every),
            ("hold", self.hold),
            ("duration", self.duration),
        ] {
            if time == Some(Duration::ZERO) {
                return Err(NoTime(name));
            }
        }
        let duration = self.duration.unwrap_or(default);
        let schedule = match (self.rates, self.step, self.spike) {
            (RequestRates::Range(..), _, Some(_)) => return Err(SpikeOnRange),
            (RequestRates::One(_), Some(_), _) => return Err(StepWithoutRange),
            (RequestRates::Range(from, to), Some(step), None) => {
                return self.ladder(from, to, step);
            }
            _ if self.every.is_some() => return Err(EveryWithoutStep),
            _ if self.hold.is_some() => return Err(HoldWithoutStep),
            (RequestRates::Range(from, to), None, None) => Schedule::Ramp {
                from,
                to,
                over: duration,
            },
            (RequestRates::One(rate), None, None) => Schedule::Constant(rate),
            (
                RequestRates::One(base),
                None,
                Some(Spike {
                    rate: peak,
                    at,
                    lasts,
                }),
            ) => {
                let ends = at.saturating_add(lasts);
                if ends > duration {
                    return Err(SpikeBehindEnd { ends, duration });
                }
                Schedule::Spike {
                    base,
                    peak,
                    at,
                    lasts,
                }
            }
        };
        Ok(vec![planned(schedule, duration)])
    }

    /// Stages from one rate to the other, in steps of which the last may be shorter.
    fn ladder(
        &self,
        from: RequestRate,
        to: RequestRate,
        step: RequestRate,
    ) -> Result<Vec<ProfileStage>, ProfileError> {
        let every = self.every.ok_or(ProfileError::StepWithoutEvery)?;
        if self.duration.is_some() {
            return Err(ProfileError::DurationOfLadder);
        }
        let (first, way) = (from.per_second(), to.per_second() - from.per_second());
        // 0.1..0.4 by 0.1 is three steps, though the quotient comes out a little larger.
        let steps = (way.abs() / step.per_second() - 1e-9).ceil().max(0.0);
        if steps >= MAX_STEPS {
            return Err(ProfileError::TooManySteps(steps + 1.0));
        }
        let before = (0..steps as u32)
            .map(|number| first + f64::from(number) * step.per_second().copysign(way));
        let before = before.map(|rate| RequestRate::new(rate).expect("it is between two rates"));
        let mut stages: Vec<_> = before
            .map(|rate| planned(Schedule::Constant(rate), every))
            .collect();
        stages.push(planned(Schedule::Constant(to), self.hold.unwrap_or(every)));
        Ok(stages)
    }
}

fn planned(schedule: Schedule, lasts: Duration) -> ProfileStage {
    ProfileStage {
        name: schedule.to_string(),
        schedule,
        lasts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Duration = Duration::from_secs(10);

    fn per_second(text: &str) -> f64 {
        text.parse::<RequestRate>()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .per_second()
    }

    #[test]
    fn a_rate_is_a_number_and_what_it_is_by() {
        for (text, expected) in [
            ("1000", 1000.0),
            ("1000/s", 1000.0),
            ("1k", 1000.0),
            ("1K", 1000.0),
            ("2.5k", 2500.0),
            ("2.5k/s", 2500.0),
            ("1M", 1e6),
            ("1000M", 1e9),
            ("0.1", 0.1),
            ("60/min", 1.0),
            ("60/m", 1.0),
            ("3k/m", 50.0),
            ("36/h", 0.01),
            ("007", 7.0),
        ] {
            assert_eq!(per_second(text), expected, "{text}");
        }
    }

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "", "s", "10", "-1s", "1e3s", "1m30s", "10 s", "10sec", ".5s", "5.s", "1.2.3s", "NaNs",
            "ms",
        ] {
            assert_eq!(duration(text), Err(WordError::Time(text.to_owned())));
        }
        for text in ["3650.1d", "99999999999999999999999999h"] {
            assert_eq!(duration(text), Err(WordError::TooLong(text.to_owned())));
        }
    }

    #[test]
    fn an_invalid_rate_is_refused_with_the_syntax() {
        for text in [
            "", "k", "x", "-1", "+1", "1e3", "0x10", "1,000", "1_000", "1 000", " 1", "1.", ".5",
            "1.2.3", "1kk", "1m", "1G", "1k/", "1/ms", "1/d", "1//s", "1/s/s", "1000rps",
            "1000r/s", "NaN", "inf", "½", "1\u{663}",
        ] {
            let error = text.parse::<RequestRate>().unwrap_err();
            assert_eq!(error, WordError::Rate(text.to_owned()));
            assert!(
                error
                    .to_string()
                    .contains("1000, 2.5k or 1M, or one by a unit, 100/s, 60/min, 10/h"),
                "{error}"
            );
        }
        let endless = "9".repeat(400);
        for text in [
            "0",
            "0.0000001",
            "1000000000000000",
            "1001M",
            "1000000000M",
            &endless,
        ] {
            let error = text.parse::<RequestRate>().unwrap_err().to_string();
            assert!(
                error.ends_with("from 0.000001 (one in 11 days) to 1,000,000,000"),
                "{error}"
            );
        }
    }

    fn rate(per_second: f64) -> RequestRate {
        RequestRate::new(per_second).unwrap()
    }

    #[test]
    fn a_range_has_two_ends_and_may_go_down() {
        let range = |from, to| Ok(RequestRates::Range(rate(from), rate(to)));
        for (text, expected) in [
            ("1k", Ok(RequestRates::One(rate(1000.0)))),
            ("1k..25k", range(1000.0, 25_000.0)),
            ("25k..1k", range(25_000.0, 1000.0)),
            ("0.5..1.5", range(0.5, 1.5)),
            ("60..600/min", range(1.0, 10.0)),
            ("60/min..10/s", range(1.0, 10.0)),
            ("1k..", Err(WordError::Range("1k..".to_owned()))),
            ("..1k", Err(WordError::Range("..1k".to_owned()))),
            ("..", Err(WordError::Range("..".to_owned()))),
            ("1k...2k", Err(WordError::Rate(".2k".to_owned()))),
            ("1k..2k..3k", Err(WordError::Rate("2k..3k".to_owned()))),
            ("0..1k", Err(RateError(0.0).into())),
        ] {
            assert_eq!(text.parse::<RequestRates>(), expected, "{text}");
        }
    }

    #[test]
    fn a_spike_is_a_rate_a_moment_and_a_time() {
        let [at, lasts] = [5, 2].map(Duration::from_secs);
        assert_eq!(
            "10k@5s+2s".parse(),
            Ok(Spike {
                rate: rate(10_000.0),
                at,
                lasts
            })
        );
        assert_eq!(
            "60/min@0s+2s".parse(),
            Ok(Spike {
                rate: rate(1.0),
                at: Duration::ZERO,
                lasts
            })
        );
        for text in ["10k", "10k@5s", "10k+2s", "10k+2s@5s", "10k@5s+0s"] {
            assert_eq!(
                text.parse::<Spike>(),
                Err(WordError::Spike(text.to_owned()))
            );
        }
        assert_eq!(
            "10k@5+2s".parse::<Spike>(),
            Err(WordError::Time("5".to_owned()))
        );
        assert_eq!(
            "x@5s+2s".parse::<Spike>(),
            Err(WordError::Rate("x".to_owned()))
        );
    }

    /// From the words of a command line.
    fn profile(words: &str) -> Profile {
        let words: Vec<_> = words.split(' ').collect();
        let behind = |name: &str| {
            words
                .iter()
                .position(|word| *word == name)
                .map(|at| words[at + 1])
        };
        let time = |name| behind(name).map(|text| duration(text).unwrap());
        Profile {
            rates: behind("--rate").unwrap().parse().unwrap(),
            step: behind("--step").map(|text| text.parse().unwrap()),
            every: time("--every"),
            hold: time("--hold"),
            spike: behind("--spike").map(|text| text.parse().unwrap()),
            duration: time("--duration"),
        }
    }

    /// Each stage's name and its seconds.
    fn stages(words: &str) -> Vec<String> {
        let stages = profile(words)
            .stages(USUAL)
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        stages
            .iter()
            .map(|stage| format!("{} {:?}", stage.name, stage.lasts))
            .collect()
    }

    #[test]
    fn a_profile_becomes_stages() {
        for (words, expected) in [
            ("--rate 1k", &["1000/s 10s"][..]),
            ("--rate 60/min --duration 1h", &["1/s 3600s"]),
            ("--rate 1k..25k", &["1000/s to 25000/s 10s"]),
            ("--rate 25k..1k --duration 1m", &["25000/s to 1000/s 60s"]),
            (
                "--rate 1k --spike 10k@5s+2s",
                &["1000/s, from 5s for 2s 10000/s 10s"],
            ),
            (
                "--rate 1k --spike 10k@8s+2s",
                &["1000/s, from 8s for 2s 10000/s 10s"],
            ),
            (
                "--rate 1k..3k --step 1k --every 10s",
                &["1000/s 10s", "2000/s 10s", "3000/s 10s"],
            ),
            (
                "--rate 3k..1k --step 1k --every 5s",
                &["3000/s 5s", "2000/s 5s", "1000/s 5s"],
            ),
            (
                "--rate 1k..2.5k --step 1k --every 1s",
                &["1000/s 1s", "2000/s 1s", "2500/s 1s"],
            ),
            (
                "--rate 2.5k..1k --step 1k --every 1s",
                &["2500/s 1s", "1500/s 1s", "1000/s 1s"],
            ),
            (
                "--rate 1k..2k --step 1k --every 10s --hold 60s",
                &["1000/s 10s", "2000/s 60s"],
            ),
            (
                "--rate 1k..2k --step 5k --every 10s",
                &["1000/s 10s", "2000/s 10s"],
            ),
            ("--rate 1k..1k --step 1k --every 10s", &["1000/s 10s"]),
            (
                "--rate 0.1..0.4 --step 0.1 --every 1s",
                &["0.1/s 1s", "0.2/s 1s", "0.3/s 1s", "0.4/s 1s"],
            ),
        ] {
            assert_eq!(stages(words), expected, "{words}");
        }
        let steps = stages("--rate 1k..25k --step 1k --every 10s");
        assert_eq!((steps.len(), steps[24].as_str()), (25, "25000/s 10s"));
        assert_eq!(stages("--rate 1..1k --step 1 --every 1s").len(), 1000);
        // All the way between the limits, both ways.
        assert_eq!(
            stages("--rate 0.000001..1000M --step 2M --every 1s").len(),
            501
        );
        assert_eq!(
            stages("--rate 1000M..0.000001 --step 2M --every 1s").len(),
            501
        );
    }

    #[test]
    fn a_stage_has_the_schedule_that_its_name_says() {
        let schedules = |words| {
            profile(words)
                .stages(USUAL)
                .unwrap()
                .into_iter()
                .map(|stage| stage.schedule)
        };
        let ladder: Vec<_> = schedules("--rate 1k..2k --step 1k --every 3s").collect();
        assert_eq!(
            ladder,
            [1000.0, 2000.0].map(|per_second| Schedule::Constant(rate(per_second)))
        );
        let ramp: Vec<_> = schedules("--rate 1k..2k --duration 3s").collect();
        let over = Duration::from_secs(3);
        assert_eq!(
            ramp,
            [Schedule::Ramp {
                from: rate(1000.0),
                to: rate(2000.0),
                over
            }]
        );
        let spike: Vec<_> = schedules("--rate 1k --spike 2k@3s+4s").collect();
        let (at, lasts) = (over, Duration::from_secs(4));
        assert_eq!(
            spike,
            [Schedule::Spike {
                base: rate(1000.0),
                peak: rate(2000.0),
                at,
                lasts
            }]
        );
    }

    #[test]
    fn words_that_do_not_go_together_are_refused_by_what_to_write() {
        use ProfileError::*;
        let behind = |ends, duration| SpikeBehindEnd {
            ends: Duration::from_secs(ends),
            duration: Duration::from_secs(duration),
        };
        for (words, error, cure) in [
            (
                "--rate 1k --step 1k --every 1s",
                StepWithoutRange,
                "--rate 1k..25k",
            ),
            ("--rate 1k..2k --step 1k", StepWithoutEvery, "--every 10s"),
            ("--rate 1k..2k --every 1s", EveryWithoutStep, "--step 1k"),
            ("--rate 1k --every 1s", EveryWithoutStep, "--step 1k"),
            (
                "--rate 1k..2k --hold 1s",
                HoldWithoutStep,
                "--step 1k --every 10s",
            ),
            (
                "--rate 1k..2k --step 1k --every 1s --duration 1m",
                DurationOfLadder,
                "leave --duration out",
            ),
            (
                "--rate 1..1001 --step 1 --every 1s",
                TooManySteps(1001.0),
                "longer --step",
            ),
            (
                "--rate 1..1000M --step 0.000001 --every 1s",
                TooManySteps(999_999_999_000_001.0),
                "longer --step",
            ),
            ("--rate 1k..2k --spike 5k@1s+1s", SpikeOnRange, "--rate 1k"),
            (
                "--rate 1k..2k --step 1k --every 1s --spike 5k@1s+1s",
                SpikeOnRange,
                "--rate 1k",
            ),
            (
                "--rate 1k --spike 5k@9s+2s",
                behind(11, 10),
                "longer --duration",
            ),
            (
                "--rate 1k --spike 5k@9s+2s --duration 3s",
                behind(11, 3),
                "longer --duration",
            ),
            (
                "--rate 1k --duration 0s",
                NoTime("duration"),
                "--duration 10s",
            ),
            (
                "--rate 1k..2k --step 1k --every 0s",
                NoTime("every"),
                "--every 10s",
            ),
            (
                "--rate 1k..2k --step 1k --every 1s --hold 0s",
                NoTime("hold"),
                "--hold 10s",
            ),
        ] {
            assert_eq!(profile(words).stages(USUAL), Err(error.clone()), "{words}");
            assert!(error.to_string().contains(cure), "{error}");
        }
    }
}
