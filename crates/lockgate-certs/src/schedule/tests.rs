//! The schedule: single decisions, and a simulated year.

use super::*;

const START: f64 = 1_800_000_000.0;

fn at(days: f64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(START + days * 86_400.0)
}

fn valid(from: f64, to: f64) -> Option<Validity> {
    Some(Validity {
        not_before: at(from),
        not_after: at(to),
    })
}

fn of_90_days() -> Standing {
    Standing {
        validity: valid(0.0, 90.0),
        ..Standing::default()
    }
}

fn waits(standing: &Standing, now: SystemTime) -> bool {
    matches!(next(standing, now), Next::Wait(_))
}

#[test]
fn a_missing_certificate_is_obtained_at_once() {
    assert_eq!(next(&Standing::default(), at(0.0)), Next::Obtain);
}

#[test]
fn a_certificate_is_renewed_when_a_third_of_its_life_is_left() {
    let standing = of_90_days();
    assert!(waits(&standing, at(59.9)));
    assert_eq!(next(&standing, at(60.0)), Next::Obtain);
    let spread = Standing {
        spread: 1.0,
        ..standing
    };
    assert_eq!(spread.due(), Some(at(55.5)));
}

#[test]
fn a_short_lived_certificate_is_renewed_at_half_of_its_life() {
    let standing = Standing {
        validity: valid(0.0, 6.0),
        ..Standing::default()
    };
    assert!(waits(&standing, at(2.9)));
    assert_eq!(next(&standing, at(3.0)), Next::Obtain);
}

#[test]
fn a_renewal_window_of_ari_moves_the_renewal() {
    let mut standing = Standing {
        window: Some(RenewalWindow {
            start: at(70.0),
            end: at(72.0),
        }),
        spread: 0.5,
        ..of_90_days()
    };
    assert!(waits(&standing, at(70.9)));
    assert_eq!(next(&standing, at(71.0)), Next::Obtain);
    // It was revoked: the window is in the past.
    standing.window = Some(RenewalWindow {
        start: at(1.0),
        end: at(2.0),
    });
    assert_eq!(next(&standing, at(10.0)), Next::Obtain);
}

#[test]
fn a_renewal_window_past_the_end_of_validity_does_not_let_it_expire() {
    for (start, end) in [(89.0, 95.0), (1000.0, 2000.0), (95.0, 1.0)] {
        let standing = Standing {
            window: Some(RenewalWindow {
                start: at(start),
                end: at(end),
            }),
            spread: 1.0,
            ..of_90_days()
        };
        assert_eq!(next(&standing, at(79.0)), Next::Obtain, "{start} to {end}");
    }
}

#[test]
fn the_renewal_window_is_asked_for_when_that_is_due() {
    let standing = Standing {
        window_check: Some(at(2.0)),
        ..of_90_days()
    };
    assert!(waits(&standing, at(1.99)));
    assert_eq!(next(&standing, at(2.0)), Next::CheckWindow);
    assert_eq!(next_window_check(at(2.0), HOUR), at(2.0) + HOUR);
    assert_eq!(next_window_check(at(2.0), Duration::ZERO), at(2.0) + MINUTE);
    assert_eq!(next_window_check(at(2.0), DAY * 99), at(3.0));
}

#[test]
fn a_failure_delays_the_next_try_for_longer_each_time() {
    let mut standing = Standing::default();
    let mut delays = Vec::new();
    let now = at(0.0);
    for failures in 1..=10 {
        (standing.failures, standing.failed) = (failures, Some(now));
        let until = standing.not_before_retry(now).unwrap();
        delays.push(until.duration_since(now).unwrap().as_secs() / 60);
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
    standing.validity = valid(-70.0, 20.0);
    let until = standing.not_before_retry(now).unwrap();
    assert_eq!(until.duration_since(now).unwrap(), LONGEST_WITH);
    standing.failures = u32::MAX;
    assert_eq!(standing.not_before_retry(now), Some(now + LONGEST_WITH));
}

#[test]
fn retry_after_is_waited_for_but_no_longer_than_a_week() {
    let mut standing = Standing {
        failures: 1,
        failed: Some(at(0.0)),
        retry_after: Some(at(2.0)),
        ..Standing::default()
    };
    assert!(waits(&standing, at(1.99)));
    assert_eq!(next(&standing, at(2.0)), Next::Obtain);
    standing.retry_after = Some(at(7.0));
    assert!(waits(&standing, at(6.99)));
}

#[test]
fn a_clock_that_was_ahead_does_not_hold_up_the_next_try() {
    let standing = Standing {
        failures: 3,
        failed: Some(at(365.0)),
        ..Standing::default()
    };
    assert_eq!(next(&standing, at(0.0)), Next::Obtain);
    let asked_to_wait = Standing {
        failures: 1,
        failed: Some(at(-1.0)),
        retry_after: Some(at(365.0)),
        ..Standing::default()
    };
    assert_eq!(next(&asked_to_wait, at(0.0)), Next::Obtain);
    let obtained_ahead = Standing {
        obtained: Some(at(365.0)),
        window_check: Some(at(366.0)),
        ..of_90_days()
    };
    assert_eq!(next(&obtained_ahead, at(0.0)), Next::CheckWindow);
    let not_yet_valid = Standing {
        validity: valid(0.0, 90.0),
        ..Standing::default()
    };
    assert!(waits(&not_yet_valid, at(-365.0)));
}

#[test]
fn an_outdated_certificate_is_replaced_at_once() {
    let standing = Standing {
        outdated: true,
        window_check: Some(at(0.0)),
        ..of_90_days()
    };
    assert_eq!(next(&standing, at(1.0)), Next::Obtain);
}

#[test]
fn a_certificate_that_is_due_at_once_is_not_renewed_at_once() {
    let ends_soon = Standing {
        validity: valid(-0.99, 0.01),
        obtained: Some(at(0.0)),
        ..Standing::default()
    };
    assert!(waits(&ends_soon, at(0.0) + MINUTE * 30));
    assert_eq!(next(&ends_soon, at(0.0) + HOUR * 2), Next::Obtain);
    let always_now = Standing {
        window: Some(RenewalWindow {
            start: at(-9.0),
            end: at(-8.0),
        }),
        obtained: Some(at(0.0)),
        ..of_90_days()
    };
    assert!(waits(&always_now, at(0.24)));
    assert_eq!(next(&always_now, at(0.25)), Next::Obtain);
    let asked_for = Standing {
        outdated: true,
        ..always_now
    };
    assert_eq!(next(&asked_for, at(0.0)), Next::Obtain);
}

#[test]
fn renewals_of_many_names_are_spread() {
    let mut tenths = [0; 10];
    for number in 0..10_000 {
        let spread = spread_of(&format!("site{number}.example.com"));
        tenths[((spread * 10.0) as usize).min(9)] += 1;
    }
    assert!(tenths.iter().all(|count| (800..1200).contains(count)));
}

/// An authority that issues for 90 days, and fails at some times.
struct Authority {
    outages: Vec<(f64, f64)>,
}

impl Authority {
    fn works(&self, now: SystemTime) -> bool {
        let is_out = |(from, to): &(f64, f64)| (at(*from)..at(*to)).contains(&now);
        !self.outages.iter().any(is_out)
    }
}

/// Follows the schedule for a year; returns how many certificates were obtained and the least time
/// that one had left.
fn simulate(authority: &Authority, life: f64, spread: f64) -> (u32, Duration) {
    let mut standing = Standing {
        spread,
        ..Standing::default()
    };
    let (mut now, mut obtained, mut least) = (at(0.0), 0, Duration::MAX);
    while now < at(365.0) {
        match next(&standing, now) {
            Next::Wait(time) => now += time.max(Duration::from_secs(1)),
            // It is asked for nothing here.
            Next::CheckWindow => standing.window_check = Some(now + HOUR * 6),
            Next::Obtain if authority.works(now) => {
                standing = Standing {
                    validity: Some(Validity {
                        not_before: now - HOUR,
                        not_after: now + DAY.mul_f64(life),
                    }),
                    window_check: Some(now + HOUR * 6),
                    spread,
                    ..Standing::default()
                };
                obtained += 1;
            }
            Next::Obtain => {
                standing.failures += 1;
                standing.failed = Some(now);
            }
        }
        // A restart: what is kept is all that there is.
        standing = standing.clone();
        if let Some(validity) = standing.validity {
            least = least.min(validity.not_after.duration_since(now).unwrap_or_default());
        }
    }
    (obtained, least)
}

#[test]
fn no_certificate_expires_in_a_year_with_ten_days_of_failure() {
    let ten_days = Authority {
        outages: vec![(58.0, 68.0), (118.0, 128.0), (200.0, 210.0)],
    };
    for spread in [0.0, 0.3, 1.0] {
        let (obtained, least) = simulate(&ten_days, 90.0, spread);
        assert!((6..=8).contains(&obtained), "{obtained}");
        assert!(least > DAY * 18, "{least:?}");
    }
    let two_days = Authority {
        outages: vec![(3.0, 5.0), (50.0, 52.0), (51.0, 52.5)],
    };
    let (obtained, least) = simulate(&two_days, 6.0, 0.5);
    assert!(obtained > 100, "{obtained}");
    assert!(least > HOUR * 6, "{least:?}");
}
