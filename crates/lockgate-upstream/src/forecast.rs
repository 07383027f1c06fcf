//! The endpoint that a pool would choose next: told by the functions that choose. Takes no permit
//! and no turn.

use std::sync::atomic::Ordering;

use lockgate_limits::MemberIndex;
use lockgate_limits::member_set::MemberSet;
use lockgate_net::millis::Millis;

use super::balance::{Balance, Score};
use super::pool::{Pool, RELAYS, REQUESTS, method};
use super::preference::Preference;
use super::random::mix;

/// Random numbers that are tried: a chance is then right within about three hundredths.
const TRIED: u64 = 1_000;

/// What a pool would choose at this moment for a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The load balancing method that decides; none where the client's cookie does.
    pub method: Option<Balance>,
    /// The members in their order.
    pub members: Vec<ForecastMember>,
    /// The result.
    pub next: NextMember,
}

/// A member of a pool in a forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForecastMember {
    /// What is compared of it, if anything is.
    pub score: Option<Score>,
    /// The chance that it is chosen, from 0 to 1.
    pub chance: f32,
}

/// The member that is chosen next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextMember {
    /// This one.
    Certain(MemberIndex),
    /// One of these, by a random number.
    OneOf(Vec<MemberIndex>),
    /// The first of these that has room again: each is at its `max`.
    FirstFree(Vec<MemberIndex>),
    /// None: no member is up.
    Nobody,
}

impl Pool {
    /// What [`choose`](Self::choose) would choose for a request on a new connection. `now` is
    /// [`lockgate_limits::clock::Clock::now`].
    pub fn forecast_request(&self, preference: Preference, now: Millis) -> Forecast {
        // The first draw looks at the upper bits: these are spread evenly.
        let numbers = (0..TRIED).map(|number| number * (u64::MAX / TRIED) + (mix(number) >> 12));
        let balance = self.balance.unwrap_or(REQUESTS);
        self.forecast((balance, preference), now, numbers)
    }

    /// What [`dial`](Self::dial) would choose first for a relay. `now` is as above.
    pub fn forecast_relay(&self, preference: Preference, now: Millis) -> Forecast {
        // Relays draw by their number.
        let number = mix(self.relays.load(Ordering::Relaxed));
        let balance = self.balance.unwrap_or(RELAYS);
        self.forecast((balance, preference), now, std::iter::once(number))
    }

    fn forecast(
        &self,
        (balance, preference): (Balance, Preference),
        now: Millis,
        numbers: impl Iterator<Item = u64>,
    ) -> Forecast {
        let (fork, none) = (self.balancer.fork(), MemberSet::default());
        let mut chosen = vec![0_u32; self.members().len()];
        let mut tried = 0;
        for number in numbers {
            fork.set_turn(&self.balancer);
            tried += 1;
            let (balance, random) = method(preference, balance, number);
            let choose = || fork.choose(balance, self.members(), |_| false, random, now);
            let picked = self.pick((preference, none, now), choose, |endpoint| {
                (!endpoint.is_full()).then_some(())
            });
            if let Some(count) = picked.and_then(|(at, ())| chosen.get_mut(at.get())) {
                *count += 1;
            }
        }
        let named = self.named(preference, none, now);
        let (method, hash) = method(preference, balance, 0);
        let members = self.members().iter().zip(&chosen);
        let members = members.map(|(member, count)| ForecastMember {
            score: match named {
                Some(_) => None,
                None => fork.score(method, member, hash, now),
            },
            chance: *count as f32 / tried as f32,
        });
        let possible = MemberIndex::enumerate(&chosen).filter(|(_, count)| **count > 0);
        let possible: Vec<_> = possible.map(|(at, _)| at).collect();
        Forecast {
            method: named.is_none().then_some(method),
            members: members.collect(),
            next: match *possible {
                [only] => NextMember::Certain(only),
                [] => match self.members_to_wait_at(preference, none, now) {
                    none if none.is_empty() => NextMember::Nobody,
                    full => NextMember::FirstFree(full),
                },
                _ => NextMember::OneOf(possible),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::balance::Member;
    use crate::endpoint::{Endpoint, EndpointAddress};
    use crate::settings::Settings;

    const NOW: Millis = Millis::from_secs(1);

    fn pool(weights: &[u32], balance: Balance, max: Option<usize>) -> Pool {
        let members = weights.iter().enumerate().map(|(at, weight)| {
            let address = EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
            let endpoint = Endpoint::new(at.to_string(), String::new(), address, max);
            Member::new(Arc::new(endpoint), *weight)
        });
        Pool::new(members.collect(), Some(balance), None, Settings::default())
    }

    fn next(forecast: &Forecast) -> usize {
        let NextMember::Certain(at) = forecast.next else {
            panic!("{forecast:?}")
        };
        at.get()
    }

    fn choose(pool: &Pool, preference: Preference, random: u64) -> Option<usize> {
        let chosen = pool.choose(preference, MemberSet::default(), random, NOW);
        chosen.map(|(at, _)| at.get())
    }

    #[test]
    fn a_forecast_names_the_next_round_robin_turn_without_taking_it() {
        let pool = pool(&[1, 3, 2], Balance::RoundRobin, None);
        for random in 0..20 {
            let told = next(&pool.forecast_request(Preference::Any, NOW));
            assert_eq!(
                next(&pool.forecast_request(Preference::Any, NOW)),
                told,
                "asked twice"
            );
            assert_eq!(choose(&pool, Preference::Any, random), Some(told));
        }
    }

    #[test]
    fn a_forecast_names_the_endpoint_of_a_hash_with_the_least_score() {
        let pool = pool(&[1, 1, 5, 1], Balance::LatencyAware, None);
        for hash in 0..50 {
            let preference = Preference::Hashed(mix(hash));
            let forecast = pool.forecast_request(preference, NOW);
            assert_eq!(choose(&pool, preference, hash), Some(next(&forecast)));
            assert_eq!(forecast.method, Some(Balance::Hash));
            let score = |at: usize| match forecast.members[at].score {
                Some(Score::Hash(score)) => score,
                score => panic!("{score:?}"),
            };
            assert!((0..4).all(|at| score(next(&forecast)) <= score(at)));
        }
    }

    #[test]
    fn a_forecast_of_two_random_choices_has_chances() {
        let pool = pool(&[1, 3], Balance::LatencyAware, None);
        let forecast = pool.forecast_request(Preference::Any, NOW);
        let both = [0, 1].map(MemberIndex::new).to_vec();
        assert_eq!(forecast.next, NextMember::OneOf(both));
        let chances: Vec<_> = forecast.members.iter().map(|one| one.chance).collect();
        assert!((chances[0] - 0.25).abs() < 0.03, "{chances:?}");
        // Of two endpoints the slow one is never chosen.
        let slow = pool.members()[1].endpoint();
        slow.record_response(std::time::Duration::from_secs(1), NOW);
        let forecast = pool.forecast_request(Preference::Any, NOW);
        assert_eq!(next(&forecast), 0);
        assert_eq!(forecast.members[0].score, Some(Score::Latency(0.0)));
        assert!((0..50).all(|random| choose(&pool, Preference::Any, mix(random)) == Some(0)));
    }

    #[test]
    fn a_forecast_says_whether_requests_wait_or_no_endpoint_is_up() {
        let pool = pool(&[1, 1], Balance::Least, Some(1));
        let all: Vec<_> = [0, 1].map(MemberIndex::new).to_vec();
        let permits: Vec<_> = (0..2)
            .map(|_| pool.choose(Preference::Any, MemberSet::default(), 0, NOW))
            .collect();
        let told = |pool: &Pool| pool.forecast_request(Preference::Any, NOW).next;
        assert_eq!(told(&pool), NextMember::FirstFree(all));
        drop(permits);
        pool.members()[0].mark_down();
        assert_eq!(told(&pool), NextMember::Certain(MemberIndex::new(1)));
        pool.members()[1].mark_down();
        assert_eq!(told(&pool), NextMember::Nobody);
    }

    #[test]
    fn a_forecast_of_a_relay_is_what_the_next_relay_gets() {
        let pool = pool(&[1, 2, 1], Balance::LatencyAware, None);
        for _ in 0..20 {
            let told = next(&pool.forecast_relay(Preference::Any, NOW));
            // As `dial` does it.
            let random = mix(pool.relays.fetch_add(1, Ordering::Relaxed));
            assert_eq!(choose(&pool, Preference::Any, random), Some(told));
        }
    }

    #[test]
    fn a_forecast_follows_a_sticky_cookie() {
        let pool = pool(&[1, 1], Balance::LatencyAware, None);
        let preference = Preference::Member(MemberIndex::new(1));
        let forecast = pool.forecast_request(preference, NOW);
        assert_eq!((next(&forecast), forecast.method), (1, None));
        pool.members()[1].mark_down();
        let forecast = pool.forecast_request(preference, NOW);
        assert_eq!(
            (next(&forecast), forecast.method),
            (0, Some(Balance::LatencyAware))
        );
    }
}
