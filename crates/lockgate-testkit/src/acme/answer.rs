//! The answer of a well-behaved authority to what is asked: here the directory, accounts, revocation
//! and renewal information; `orders` has the others.

use std::sync::Arc;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::asked::{Asked, By, Target};
use super::exchange::Answer;
use super::fault::Fault;
use super::issuing::public_point;
use super::jws::verify_binding;
use super::orders::{authorization, certificate, challenge, finalize, new_order, order};
use super::problem::Problem;
use super::server::Shared;
use super::state::{Account, State};

/// An answer, or the error that is one.
pub(super) type Answered = Result<Answer, Problem>;

/// The answer; `fault` is one of those that change what happens.
pub(super) fn respond(
    shared: &Arc<Shared>,
    asked: &Asked,
    fault: Option<Fault>,
    base: &str,
) -> Answered {
    let Some(target) = &asked.target else {
        return Err(Problem::new(404, "malformed", "nothing is there"));
    };
    let state = &mut *shared.lock();
    match target {
        Target::Directory => Ok(directory(state, base)),
        Target::NewNonce => Ok(Answer::of("text/plain", "")),
        Target::NewAccount => new_account(state, asked, base),
        Target::Account(at) => account(state, asked, *at),
        Target::NewOrder => new_order(state, asked, base),
        Target::Order(at) => {
            asked.owner(Some(state.orders[*at].account))?;
            Ok(order(state, *at, base))
        }
        Target::Authorization(at) => authorization(state, asked, *at, base),
        Target::Challenge(at, kind) => challenge(shared, state, asked, (*at, *kind), fault, base),
        Target::Finalize(at) => finalize(shared, state, asked, *at, fault, base),
        Target::Certificate(at) => certificate(shared, state, asked, *at, fault),
        Target::RevokeCert => revoke(state, asked),
        Target::RenewalInfo(id) => renewal_info(state, id),
    }
}

fn directory(state: &State, base: &str) -> Answer {
    let profiles = state.settings.profiles.iter();
    let profiles: serde_json::Map<_, _> = profiles
        .map(|(name, long)| {
            (
                name.clone(),
                json!(format!("{} hours", long.as_secs() / 3600)),
            )
        })
        .collect();
    let mut directory = json!({
        "newNonce": format!("{base}/nonce"),
        "newAccount": format!("{base}/new-account"),
        "newOrder": format!("{base}/new-order"),
        "revokeCert": format!("{base}/revoke"),
        "meta": {
            "termsOfService": format!("{base}/terms"),
            "externalAccountRequired": state.settings.external_account.is_some(),
        },
    });
    if !profiles.is_empty() {
        directory["meta"]["profiles"] = profiles.into();
    }
    if state.settings.renewal_info {
        directory["renewalInfo"] = json!(format!("{base}/renewal-info"));
    }
    Answer::json(200, &directory)
}

/// RFC 8555 §7.3.
fn new_account(state: &mut State, asked: &Asked, base: &str) -> Answered {
    let By::Key(key) = &asked.by else {
        return Err(Problem::malformed("a new account is signed by its key"));
    };
    let Some(payload) = &asked.payload else {
        return Err(Problem::malformed("no payload"));
    };
    let same = |account: &Account| account.key == *key && !account.forgotten;
    if let Some(at) = state.accounts.iter().position(same) {
        if state.accounts[at].deactivated {
            return Err(Problem::unauthorized("the account is deactivated"));
        }
        let answer = Answer::json(200, &account_json(&state.accounts[at]));
        return Ok(answer.with("Location", format!("{base}/account/{at}")));
    }
    if payload["onlyReturnExisting"] == json!(true) {
        return Err(Problem::new(400, "accountDoesNotExist", "no such account"));
    }
    if payload["termsOfServiceAgreed"] != json!(true) {
        let detail = "the terms must be agreed to";
        return Err(Problem::new(403, "userActionRequired", detail));
    }
    let contact = contacts(payload)?;
    let external = match (
        &state.settings.external_account,
        payload.get("externalAccountBinding"),
    ) {
        (None, _) => None,
        (Some(_), None) => {
            let detail = "an external account is required";
            return Err(Problem::new(403, "externalAccountRequired", detail));
        }
        (Some((id, secret)), Some(binding)) => {
            verify_binding(binding, key, &format!("{base}/new-account"), (id, secret))?;
            Some(id.clone())
        }
    };
    state.accounts.push(Account {
        key: key.clone(),
        contact,
        external,
        deactivated: false,
        forgotten: false,
    });
    let at = state.accounts.len() - 1;
    let answer = Answer::json(201, &account_json(&state.accounts[at]));
    Ok(answer.with("Location", format!("{base}/account/{at}")))
}

fn contacts(payload: &Value) -> Result<Vec<String>, Problem> {
    let list = payload["contact"].as_array().into_iter().flatten();
    let each = list.map(|contact| match contact.as_str() {
        Some(contact) if contact.starts_with("mailto:") && contact.contains('@') => {
            Ok(contact.to_owned())
        }
        _ => Err(Problem::new(400, "unsupportedContact", "only mailto:")),
    });
    each.collect()
}

fn account_json(account: &Account) -> Value {
    let status = match account.deactivated {
        true => "deactivated",
        false => "valid",
    };
    json!({ "status": status, "contact": account.contact })
}

/// RFC 8555 §7.3.2, §7.3.6.
fn account(state: &mut State, asked: &Asked, at: usize) -> Answered {
    asked.owner(Some(at))?;
    let account = &mut state.accounts[at];
    if let Some(payload) = &asked.payload {
        if payload["status"] == json!("deactivated") {
            account.deactivated = true;
        }
        if payload.get("contact").is_some() {
            account.contact = contacts(payload)?;
        }
    }
    Ok(Answer::json(200, &account_json(account)))
}

/// RFC 8555 §7.6.
fn revoke(state: &mut State, asked: &Asked) -> Answered {
    let Some(at) = asked.revoked(state) else {
        return Err(Problem::new(404, "malformed", "no such certificate"));
    };
    let issued = &mut state.issued[at];
    let allowed = match &asked.by {
        By::Account(account) => issued.account == *account,
        By::Key(key) => public_point(&issued.der) == key.point,
        By::Nobody => false,
    };
    if !allowed {
        return Err(Problem::unauthorized("not a certificate of this signer"));
    }
    if issued.revoked.is_some() {
        return Err(Problem::new(400, "alreadyRevoked", "it is revoked already"));
    }
    let reason = asked.payload.as_ref().map(|payload| &payload["reason"]);
    issued.revoked = Some(reason.and_then(Value::as_u64).unwrap_or(0));
    Ok(Answer::of("text/plain", ""))
}

/// RFC 9773 §4.
fn renewal_info(state: &State, id: &str) -> Answered {
    let Some(at) = state.issued.iter().position(|issued| issued.id == id) else {
        return Err(Problem::new(404, "malformed", "no such certificate"));
    };
    let window = state.window(at);
    let json = json!({
        "suggestedWindow": { "start": rfc3339(window.start), "end": rfc3339(window.end) },
    });
    Ok(Answer::json(200, &json).retry_after(Some(state.settings.renewal_retry_after)))
}

/// A time as JSON has it (RFC 3339).
pub(super) fn rfc3339(at: std::time::SystemTime) -> String {
    OffsetDateTime::from(at)
        .format(&Rfc3339)
        .expect("a year of four digits")
}
