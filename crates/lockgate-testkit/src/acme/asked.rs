//! What a request asks for, who signed it, and why it is refused at once.

use serde_json::Value;

use super::exchange::Request;
use super::fault::Resource;
use super::jws::{Jwk, Jws, Signer, decoded};
use super::problem::Problem;
use super::state::State;
use super::validation::ChallengeKind;

/// What a path leads to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Target {
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
pub(super) enum By {
    Nobody,
    Account(usize),
    Key(Jwk),
}

/// A request that was understood.
pub(super) struct Asked {
    pub(super) target: Option<Target>,
    pub(super) by: By,
    pub(super) payload: Option<Value>,
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

    pub(super) fn identifiers(&self) -> Result<Vec<String>, Problem> {
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

    /// The place of the certificate to revoke.
    pub(super) fn revoked(&self, state: &State) -> Option<usize> {
        let der = decoded(&self.text("certificate")?).ok()?;
        state.issued.iter().position(|issued| issued.der == der)
    }

    /// The account that signed, which must own what it asks for.
    pub(super) fn owner(&self, of: Option<usize>) -> Result<usize, Problem> {
        match self.account() {
            Some(at) if of.is_none_or(|of| of == at) => Ok(at),
            Some(_) => Err(Problem::unauthorized("it belongs to another account")),
            None => Err(Problem::malformed("signed by no account")),
        }
    }
}
