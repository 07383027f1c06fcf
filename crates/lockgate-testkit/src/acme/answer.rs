//! What is asked by a request, and the answer of a well-behaved authority.

use std::sync::Arc;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::exchange::{Answer, Request};
use super::fault::{Fault, Resource};
use super::issuing::{self, public_point};
use super::jws::{Jwk, Jws, Signer, decoded, verify_binding};
use super::problem::Problem;
use super::record::IssuedCertificate;
use super::server::Shared;
use super::state::{Account, Authorization, Certified, Challenge, Order, State, Status};
use super::validation::ChallengeKind;

type Answered = Result<Answer, Problem>;

/// What a path leads to.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Target {
    Directory,
    NewNonce,
    NewAccount,
    Account(usize),
    NewOrder,
    Order(usize),
    Authorization(usize),
    Challenge(usize, ChallengeKind),
    Finalize(usize),
    Certificate(usize),
    RevokeCert,
    RenewalInfo(String),
}

impl Target {
    fn of(path: &str, state: &State) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let (first, second, third) = (parts.next()?, parts.next(), parts.next());
        let at = |all: usize| second?.parse().ok().filter(|at| *at < all);
        let authorizations = state.authorizations.len();
        Some(match first {
            "dir" => Self::Directory,
            "nonce" => Self::NewNonce,
            "new-account" => Self::NewAccount,
            "account" => Self::Account(at(state.accounts.len())?),
            "new-order" => Self::NewOrder,
            "order" => Self::Order(at(state.orders.len())?),
            "authorization" => Self::Authorization(at(authorizations)?),
            "challenge" => {
                let mut kinds = ChallengeKind::ALL.into_iter();
                let kind = kinds.find(|kind| Some(kind.as_str()) == third)?;
                Self::Challenge(at(authorizations)?, kind)
            }
            "finalize" => Self::Finalize(at(state.orders.len())?),
            "certificate" => Self::Certificate(at(state.orders.len())?),
            "revoke" => Self::RevokeCert,
            "renewal-info" => Self::RenewalInfo(second?.to_owned()),
            _ => return None,
        })
    }

    fn resource(&self) -> Resource {
        match self {
            Self::Directory => Resource::Directory,
            Self::NewNonce => Resource::NewNonce,
            Self::NewAccount => Resource::NewAccount,
            Self::Account(_) => Resource::Account,
            Self::NewOrder => Resource::NewOrder,
            Self::Order(_) => Resource::Order,
            Self::Authorization(_) => Resource::Authorization,
            Self::Challenge(..) => Resource::Challenge,
            Self::Finalize(_) => Resource::Finalize,
            Self::Certificate(_) => Resource::Certificate,
            Self::RevokeCert => Resource::RevokeCert,
            Self::RenewalInfo(_) => Resource::RenewalInfo,
        }
    }

    /// Whether it is asked for by GET and HEAD; all others by POST (RFC 8555 §6.3).
    fn is_open(&self) -> bool {
        matches!(
            self,
            Self::Directory | Self::NewNonce | Self::RenewalInfo(_)
        )
    }
}

/// Who signed a request.
enum By {
    Nobody,
    Account(usize),
    Key(Jwk),
}

/// A request that was understood.
pub(super) struct Asked {
    target: Option<Target>,
    by: By,
    payload: Option<Value>,
    /// The names that it is about.
    pub(super) names: Vec<String>,
}

impl Asked {
    /// What is asked, as far as it can be told, and why it is refused at once.
    pub(super) fn of(state: &mut State, request: &Request, base: &str) -> (Self, Option<Problem>) {
        let mut asked = Self {
            target: Target::of(&request.path, state),
            by: By::Nobody,
            payload: None,
            names: Vec::new(),
        };
        let refused = match &asked.target {
            None => Some(Problem::new(404, "malformed", "nothing is there")),
            Some(target) if target.is_open() => match request.method.as_str() {
                "GET" | "HEAD" => None,
                _ => Some(Problem::new(405, "malformed", "GET, please")),
            },
            Some(_) => asked.open(state, request, base).err(),
        };
        asked.names = asked.find_names(state);
        (asked, refused)
    }

    /// RFC 8555 §6.2–§6.5.
    fn open(&mut self, state: &mut State, request: &Request, base: &str) -> Result<(), Problem> {
        if request.method != "POST" {
            return Err(Problem::new(405, "malformed", "POST, please"));
        }
        if request.content_type != "application/jose+json" {
            return Err(Problem::new(415, "malformed", "application/jose+json"));
        }
        let jws = Jws::parse(&request.body)?;
        let key = match &jws.signer {
            Signer::Key(key) => key.clone(),
            Signer::Account(url) => {
                let account = url
                    .strip_prefix(base)
                    .and_then(|path| path.strip_prefix("/account/"))
                    .and_then(|at| at.parse().ok())
                    .and_then(|at: usize| Some((at, state.accounts.get(at)?)))
                    .filter(|(_, account)| !account.forgotten);
                let Some((at, account)) = account else {
                    return Err(Problem::new(400, "accountDoesNotExist", "no such account"));
                };
                self.by = By::Account(at);
                if account.deactivated {
                    return Err(Problem::unauthorized("the account is deactivated"));
                }
                account.key.clone()
            }
        };
        self.payload = jws.verify(&key)?;
        if let Signer::Key(key) = jws.signer {
            self.by = By::Key(key);
        }
        if jws.url != format!("{base}{}", request.path) {
            return Err(Problem::unauthorized("signed for another URL"));
        }
        state.use_nonce(jws.nonce.as_deref())
    }

    pub(super) fn resource(&self) -> Option<Resource> {
        self.target.as_ref().map(Target::resource)
    }

    pub(super) fn account(&self) -> Option<usize> {
        match self.by {
            By::Account(at) => Some(at),
            _ => None,
        }
    }

    /// A text of the payload.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.payload.as_ref()?[name].as_str().map(str::to_owned)
    }

    /// RFC 8555 §6.5: answers to POST have a nonce, and §7.2.
    pub(super) fn wants_nonce(&self) -> bool {
        !matches!(
            self.target,
            Some(Target::Directory | Target::RenewalInfo(_))
        )
    }

    fn find_names(&self, state: &State) -> Vec<String> {
        match &self.target {
            Some(Target::NewOrder) => self.identifiers().unwrap_or_default(),
            Some(Target::Order(at) | Target::Finalize(at) | Target::Certificate(at)) => {
                state.orders[*at].names.clone()
            }
            Some(Target::Authorization(at) | Target::Challenge(at, _)) => {
                vec![state.authorizations[*at].name.clone()]
            }
            Some(Target::RenewalInfo(id)) => {
                let issued = state.issued.iter().find(|issued| issued.id == *id);
                issued
                    .map(|issued| issued.names.clone())
                    .unwrap_or_default()
            }
            Some(Target::RevokeCert) => {
                let issued = self.revoked(state).map(|at| &state.issued[at]);
                issued
                    .map(|issued| issued.names.clone())
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn identifiers(&self) -> Result<Vec<String>, Problem> {
        let list = self.payload.as_ref().map(|payload| &payload["identifiers"]);
        let Some(list) = list
            .and_then(Value::as_array)
            .filter(|list| !list.is_empty())
        else {
            return Err(Problem::malformed("an order without identifiers"));
        };
        let each = list.iter().map(|identifier| {
            let name = identifier["value"].as_str().unwrap_or_default();
            match identifier["type"].as_str() {
                Some("dns") => Ok(name.to_owned()),
                _ => Err(Problem::new(400, "unsupportedIdentifier", "only dns")),
            }
        });
        each.collect()
    }

    fn revoked(&self, state: &State) -> Option<usize> {
        let der = decoded(&self.text("certificate")?).ok()?;
        state.issued.iter().position(|issued| issued.der == der)
    }

    /// The account that signed, which must own what it asks for.
    fn owner(&self, of: Option<usize>) -> Result<usize, Problem> {
        match self.account() {
            Some(at) if of.is_none_or(|of| of == at) => Ok(at),
            Some(_) => Err(Problem::unauthorized("it belongs to another account")),
            None => Err(Problem::malformed("signed by no account")),
        }
    }
}

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
    let same =
        |account: &Account| account.key == *key && !account.deactivated && !account.forgotten;
    if let Some(at) = state.accounts.iter().position(same) {
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

/// RFC 8555 §7.4; RFC 9773 §5.
fn new_order(state: &mut State, asked: &Asked, base: &str) -> Answered {
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
fn order(state: &State, at: usize, base: &str) -> Answer {
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

fn rfc3339(at: std::time::SystemTime) -> String {
    OffsetDateTime::from(at)
        .format(&Rfc3339)
        .expect("a year of four digits")
}

/// RFC 8555 §7.5, §7.5.2.
fn authorization(state: &mut State, asked: &Asked, at: usize, base: &str) -> Answered {
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
fn challenge(
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
        let (reach, releases) = (state.settings.reach.clone(), state.releases);
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
fn finalize(
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
fn certificate(
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
