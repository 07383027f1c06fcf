//! The choice of an endpoint as JSON: the members of a pool, what is compared of them, and the one
//! that is next.

use lockgate_limits::{MemberIndex, clock};
use lockgate_net::millis::Millis;
use lockgate_upstream::{Balance, Forecast, Member, NextMember, Pool, Preference, Score};
use serde_json::{Value, json};

use crate::exposition::EndpointCondition;
use crate::views;

/// Whether the members of a pool have a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolState {
    /// They serve.
    Running,
    /// Their configuration was only read: all are taken for up and idle.
    Assumed,
}

impl PoolState {
    /// The time that members are looked at.
    pub(super) fn now(self) -> Millis {
        match self {
            Self::Running => clock::now(),
            Self::Assumed => Millis::ZERO,
        }
    }

    /// What a pool would choose for a request with this preference; without one the auth service
    /// decides.
    pub(super) fn of_request(self, pool: &Pool, preference: Option<Preference>) -> Value {
        let known = preference.unwrap_or(Preference::Any);
        let forecast = pool.forecast_request(known, self.now());
        let mut choice = self.choice(pool, &forecast);
        if preference.is_none() {
            for decided in ["method", "next"] {
                choice[decided] = Value::Null;
            }
            for decided in ["one_of", "first_free"] {
                choice[decided] = json!([]);
            }
            for member in choice["members"].as_array_mut().into_iter().flatten() {
                member["score"] = Value::Null;
                member["chance"] = Value::Null;
            }
            choice["reason"] = json!("it depends on a field that the auth service sets");
        }
        choice
    }

    /// What a pool would choose for a relay with this preference.
    pub(super) fn of_relay(self, pool: &Pool, preference: Preference) -> Value {
        self.choice(pool, &pool.forecast_relay(preference, self.now()))
    }

    fn choice(self, pool: &Pool, forecast: &Forecast) -> Value {
        let label = |at: &MemberIndex| pool.member(*at).map(|member| &*member.endpoint().label);
        let labels =
            |list: &[MemberIndex]| json!(list.iter().filter_map(label).collect::<Vec<_>>());
        let mut choice = json!({
            "method": forecast.method.map_or("sticky", method_name),
            "next": null,
            "one_of": [],
            "first_free": [],
            "reason": null,
            "live": self == Self::Running,
        });
        match &forecast.next {
            NextMember::Certain(at) => choice["next"] = json!(label(at)),
            NextMember::OneOf(list) => choice["one_of"] = labels(list),
            NextMember::FirstFree(list) => choice["first_free"] = labels(list),
            NextMember::Nobody => {
                let is_vacant = |member: &Member| member.endpoint().is_vacant();
                choice["reason"] = json!(match self {
                    Self::Assumed if pool.members().iter().any(is_vacant) => {
                        "its records are looked up when it runs"
                    }
                    _ => "no endpoint is up",
                });
            }
        }
        let members = pool.members().iter().zip(&forecast.members);
        let members = members.filter(|(member, _)| !member.endpoint().is_vacant());
        choice["members"] = members
            .map(|(member, told)| {
                let endpoint = member.endpoint();
                let state = match self {
                    Self::Running => views::state_name(EndpointCondition::of(member, self.now())),
                    Self::Assumed => "unknown",
                };
                json!({
                    "endpoint": endpoint.label,
                    "state": state,
                    "admin": views::mode_name(member.mode()),
                    "weight": member.weight(),
                    "backup": member.is_backup(),
                    "full": endpoint.is_full(),
                    "in_flight": endpoint.in_flight(),
                    "connections": endpoint.connections(),
                    "score": told.score.map(score),
                    "chance": f64::from((told.chance * 100.0).round()) / 100.0,
                })
            })
            .collect();
        choice
    }
}

/// The word of the configuration.
fn method_name(method: Balance) -> &'static str {
    match method {
        Balance::LatencyAware => "p2c",
        Balance::Least => "least",
        Balance::RoundRobin => "round-robin",
        Balance::Hash => "hash",
    }
}

fn score(score: Score) -> Value {
    // In the exactness that is compared.
    let written = |value: f32| value.to_string().parse::<f64>().unwrap_or(f64::MAX);
    match score {
        Score::Latency(micros) => json!({ "latency_seconds": written(micros) / 1e6 }),
        Score::InFlight(share) => json!({ "in_flight": written(share) }),
        Score::Hash(drawn) => json!({ "hash": written(drawn) }),
    }
}
