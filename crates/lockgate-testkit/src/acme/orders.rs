//! Orders, their authorizations and challenges, and their certificates.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{Answered, rfc3339};
use super::asked::Asked;
use super::exchange::Answer;
use super::fault::Fault;
use super::issuing;
use super::jws::decoded;
use super::problem::Problem;
use super::record::IssuedCertificate;
use super::server::Shared;
use super::state::{Authorization, Certified, Challenge, Order, State, Status};
use super::validation::ChallengeKind;

/// RFC 8555 §7.4; RFC 9773 §5.
pub(super) fn new_order(state: &mut State, asked: &Asked, base: &str) -> Answered {
    let account = asked.owner(None)?;
    let names = asked.identifiers()?;
    for name in &names {
        let bare = name.strip_prefix("*.").unwrap_or(name);
        let right = bare.len() <= 253
            && bare.contains('.')
            && *name == name.to_lowercase()
            && bare.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            })
            && !bare.ends_with(|last: char| last.is_ascii_digit());
        if !right {
            let mut problem = Problem::new(400, "rejectedIdentifier", "no name of the public DNS");
            problem.name = Some(name.clone());
            return Err(problem);
        }
    }
    let profile = asked.text("profile");
    if let Some(profile) = &profile
        && !state.settings.profiles.contains_key(profile)
    {
        return Err(Problem::new(400, "invalidProfile", "no such profile"));
    }
    let replaces = asked.text("replaces");
    if let Some(replaces) = &replaces {
        let Some(old) = state.issued.iter().find(|issued| issued.id == *replaces) else {
            return Err(Problem::new(
                404,
                "malformed",
                "replaces: no such certificate",
            ));
        };
        if old.account != account || !old.names.iter().any(|name| names.contains(name)) {
            return Err(Problem::unauthorized(
                "replaces: not a name of this account",
            ));
        }
        let again = state.orders.iter().any(|order| {
            order.replaces.as_ref() == Some(replaces) && state.order_status(order) != "invalid"
        });
        if again {
            return Err(Problem::new(
                409,
                "alreadyReplaced",
                "another order does it",
            ));
        }
    }
    let authorizations = state.authorize(account, &names);
    state.orders.push(Order {
        account,
        names,
        profile,
        replaces,
        authorizations,
        error: None,
        certificate: None,
    });
    let mut answer = order(state, state.orders.len() - 1, base);
    answer.status = 201;
    Ok(answer)
}

/// RFC 8555 §7.1.3.
pub(super) fn order(state: &State, at: usize, base: &str) -> Answer {
    let order = &state.orders[at];
    let status = state.order_status(order);
    let authorizations = order.authorizations.iter();
    let names = order.names.iter();
    let mut json = json!({
        "status": status,
        "expires": in_a_week(),
        "identifiers": names.map(|name| json!({ "type": "dns", "value": name })).collect::<Vec<_>>(),
        "authorizations": authorizations
            .map(|at| format!("{base}/authorization/{at}"))
            .collect::<Vec<_>>(),
        "finalize": format!("{base}/finalize/{at}"),
    });
    if status == "valid" {
        json["certificate"] = json!(format!("{base}/certificate/{at}"));
    }
    if let Some(profile) = &order.profile {
        json["profile"] = json!(profile);
    }
    if let Some(replaces) = &order.replaces {
        json["replaces"] = json!(replaces);
    }
    if let Some(error) = state.order_error(order) {
        json["error"] = error.json();
    }
    let again = matches!(status, "pending" | "processing");
    let again = state.settings.poll_retry_after.filter(|_| again);
    Answer::json(200, &json)
        .with("Location", format!("{base}/order/{at}"))
        .retry_after(again)
}

fn in_a_week() -> String {
    rfc3339(std::time::SystemTime::now() + std::time::Duration::from_secs(7 * 86_400))
}

/// RFC 8555 §7.5, §7.5.2.
pub(super) fn authorization(state: &mut State, asked: &Asked, at: usize, base: &str) -> Answered {
    let again = state.settings.poll_retry_after;
    let authorization = &mut state.authorizations[at];
    asked.owner(Some(authorization.account))?;
    if asked.text("status").as_deref() == Some("deactivated") {
        authorization.status = Status::Deactivated;
    }
    let json = authorization_json(authorization, at, base);
    let pending = authorization.status == Status::Pending;
    Ok(Answer::json(200, &json).retry_after(again.filter(|_| pending)))
}

fn authorization_json(authorization: &Authorization, at: usize, base: &str) -> Value {
    let challenges = authorization.challenges.iter();
    let challenges: Vec<_> = challenges
        .map(|challenge| challenge_json(challenge, at, base))
        .collect();
    let mut json = json!({
        "status": authorization.status.as_str(),
        "expires": in_a_week(),
        "identifier": { "type": "dns", "value": authorization.name },
        "challenges": challenges,
    });
    if authorization.wildcard {
        json["wildcard"] = json!(true);
    }
    json
}

fn challenge_json(challenge: &Challenge, at: usize, base: &str) -> Value {
    let kind = challenge.kind.as_str();
    let mut json = json!({
        "type": kind,
        "url": format!("{base}/challenge/{at}/{kind}"),
        "token": challenge.token,
        "status": challenge.status.as_str(),
    });
    if let Some(error) = &challenge.error {
        json["error"] = error.json();
    }
    json
}

/// RFC 8555 §7.5.1.
pub(super) fn challenge(
    shared: &Arc<Shared>,
    state: &mut State,
    asked: &Asked,
    (at, kind): (usize, ChallengeKind),
    fault: Option<Fault>,
    base: &str,
) -> Answered {
    let authorization = &mut state.authorizations[at];
    let account = asked.owner(Some(authorization.account))?;
    let pending = authorization.status == Status::Pending;
    let name = authorization.name.clone();
    let mut challenges = authorization.challenges.iter_mut();
    let Some(challenge) = challenges.find(|challenge| challenge.kind == kind) else {
        return Err(Problem::new(404, "malformed", "no such challenge"));
    };
    // An empty payload reads the challenge, an empty object begins its validation.
    let begins = asked.payload.is_some() && pending && challenge.status == Status::Pending;
    if begins {
        challenge.status = Status::Processing;
    }
    let (token, json) = (challenge.token.clone(), challenge_json(challenge, at, base));
    if begins {
        let thumbprint = state.accounts[account].key.thumbprint();
        let reach = state.settings.reach.clone();
        let releases = state.releases;
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            if matches!(fault, Some(Fault::Stay)) {
                shared.wait_released(releases);
            }
            let result = match fault {
                Some(Fault::Invalid(problem)) => Err(problem),
                _ => kind.validate(&reach, &name, &token, &thumbprint),
            };
            shared.change(|state| state.validated((at, kind), result));
        });
    }
    let up = format!("<{base}/authorization/{at}>;rel=\"up\"");
    Ok(Answer::json(200, &json).with("Link", up))
}

/// RFC 8555 §7.4.
pub(super) fn finalize(
    shared: &Shared,
    state: &mut State,
    asked: &Asked,
    at: usize,
    fault: Option<Fault>,
    base: &str,
) -> Answered {
    let of = &state.orders[at];
    let account = asked.owner(Some(of.account))?;
    let status = state.order_status(of);
    if status != "ready" {
        return Err(Problem::new(
            403,
            "orderNotReady",
            format!("it is {status}"),
        ));
    }
    let csr = asked
        .text("csr")
        .ok_or_else(|| Problem::malformed("no csr"))?;
    let request = issuing::request(decoded(&csr)?, &of.names)?;
    let after_releases = match fault {
        Some(Fault::Invalid(problem)) => {
            state.orders[at].error = Some(problem);
            return Ok(order(state, at, base));
        }
        Some(Fault::Stay) => state.releases + 1,
        _ => 0,
    };
    let (not_before, not_after) = state.validity(of.profile.as_deref());
    let new = shared
        .issuing
        .issue(&of.names, &request.public_key, (not_before, not_after));
    state.issued.push(IssuedCertificate {
        names: of.names.clone(),
        account,
        profile: of.profile.clone(),
        id: new.id,
        not_before,
        not_after,
        der: new.der,
        chain: new.chain,
        revoked: None,
    });
    state.orders[at].certificate = Some(Certified {
        issued: state.issued.len() - 1,
        key: request.public_key,
        after_releases,
    });
    Ok(order(state, at, base))
}

/// RFC 8555 §7.4.2.
pub(super) fn certificate(
    shared: &Shared,
    state: &State,
    asked: &Asked,
    at: usize,
    fault: Option<Fault>,
) -> Answered {
    let order = &state.orders[at];
    asked.owner(Some(order.account))?;
    let certified = match &order.certificate {
        Some(certified) if state.order_status(order) == "valid" => certified,
        _ => return Err(Problem::new(404, "malformed", "no certificate yet")),
    };
    let issued = &state.issued[certified.issued];
    let chain = match fault {
        Some(Fault::WrongChain(wrong)) => shared.issuing.wrong_chain(
            wrong,
            &order.names,
            &certified.key,
            (issued.not_before, issued.not_after),
        ),
        _ => issued.chain.clone(),
    };
    Ok(Answer::of("application/pem-certificate-chain", chain))
}
