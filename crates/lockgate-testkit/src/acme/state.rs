//! What the authority knows: settings, accounts, orders, authorizations, certificates, and what was
//! asked of it.
//!
//! Knows no HTTP and no JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, SystemTime};

use rcgen::PublicKey;

use super::fault::FaultPlan;
use super::jws::{Jwk, coded};
use super::problem::Problem;
use super::record::{AccountRecord, IssuedCertificate, OrderRecord, Recorded, Validation};
use super::validation::{ChallengeKind, Reach};

/// A day.
const DAY: Duration = Duration::from_secs(86_400);

/// What tests choose.
pub(super) struct Settings {
    pub(super) reach: Reach,
    /// Profiles and how long their certificates are valid; the first is for orders without one.
    pub(super) profiles: BTreeMap<String, Duration>,
    /// For all profiles, instead of their own.
    pub(super) validity: Option<Duration>,
    /// When certificates begin to be valid, instead of now.
    pub(super) start: Option<SystemTime>,
    pub(super) challenges: Vec<ChallengeKind>,
    pub(super) external_account: Option<(String, Vec<u8>)>,
    pub(super) renewal_info: bool,
    pub(super) renewal_retry_after: u64,
    pub(super) poll_retry_after: Option<u64>,
    pub(super) keeps_authorizations: bool,
    /// Of 100 nonces, so many are refused.
    pub(super) refused_nonces: u64,
}

pub(super) struct Account {
    pub(super) key: Jwk,
    pub(super) contact: Vec<String>,
    pub(super) external: Option<String>,
    pub(super) deactivated: bool,
    /// It is as if it had never been.
    pub(super) forgotten: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Status {
    Pending,
    Processing,
    Valid,
    Invalid,
    Deactivated,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Deactivated => "deactivated",
        }
    }
}

pub(super) struct Challenge {
    pub(super) kind: ChallengeKind,
    pub(super) token: String,
    pub(super) status: Status,
    pub(super) error: Option<Problem>,
}

pub(super) struct Authorization {
    pub(super) account: usize,
    /// Without the asterisk of a wildcard.
    pub(super) name: String,
    pub(super) wildcard: bool,
    pub(super) status: Status,
    pub(super) challenges: Vec<Challenge>,
}

pub(super) struct Order {
    pub(super) account: usize,
    pub(super) names: Vec<String>,
    pub(super) profile: Option<String>,
    pub(super) replaces: Option<String>,
    pub(super) authorizations: Vec<usize>,
    pub(super) error: Option<Problem>,
    pub(super) certificate: Option<Certified>,
}

/// The certificate of an order.
pub(super) struct Certified {
    /// Its place among all.
    pub(super) issued: usize,
    pub(super) key: PublicKey,
    /// The order is `processing` until so many releases.
    pub(super) after_releases: u64,
}

/// Everything.
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) faults: FaultPlan,
    /// How often held answers were released.
    pub(super) releases: u64,
    pub(super) stopped: bool,
    pub(super) accounts: Vec<Account>,
    pub(super) orders: Vec<Order>,
    pub(super) authorizations: Vec<Authorization>,
    pub(super) issued: Vec<IssuedCertificate>,
    /// Windows of renewal, by the certificate's place.
    pub(super) windows: BTreeMap<usize, Range<SystemTime>>,
    pub(super) log: Vec<Recorded>,
    pub(super) validations: Vec<Validation>,
    nonces: BTreeSet<String>,
    chance: u64,
}

impl State {
    pub(super) fn new() -> Self {
        let profiles = [("default", 90 * DAY), ("shortlived", 6 * DAY)];
        Self {
            settings: Settings {
                reach: Reach {
                    http: 80,
                    tls: 443,
                    txt: None,
                },
                profiles: profiles.map(|(name, long)| (name.to_owned(), long)).into(),
                validity: None,
                start: None,
                challenges: ChallengeKind::ALL.to_vec(),
                external_account: None,
                renewal_info: true,
                renewal_retry_after: 6 * 3600,
                poll_retry_after: None,
                keeps_authorizations: false,
                refused_nonces: 0,
            },
            faults: FaultPlan::default(),
            releases: 0,
            stopped: false,
            accounts: Vec::new(),
            orders: Vec::new(),
            authorizations: Vec::new(),
            issued: Vec::new(),
            windows: BTreeMap::new(),
            log: Vec::new(),
            validations: Vec::new(),
            nonces: BTreeSet::new(),
            chance: 1,
        }
    }

    /// From now on, so many of 100 nonces are refused, always the same ones for a `seed`.
    pub(super) fn refuse_nonces(&mut self, of_100: u64, seed: u64) {
        self.settings.refused_nonces = of_100;
        // The generator stays at 0 for ever.
        self.chance = seed.max(1);
    }

    pub(super) fn new_nonce(&mut self) -> String {
        let nonce = random_text();
        self.nonces.insert(nonce.clone());
        nonce
    }

    /// Each nonce is good once, if at all.
    pub(super) fn use_nonce(&mut self, nonce: Option<&str>) -> Result<(), Problem> {
        let known = nonce.is_some_and(|nonce| self.nonces.remove(nonce));
        // Marsaglia, "Xorshift RNGs", 2003.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        match known && self.chance % 100 >= self.settings.refused_nonces {
            true => Ok(()),
            false => Err(Problem::new(400, "badNonce", "this nonce is not good")),
        }
    }

    /// The authorizations of a new order, one for each name.
    pub(super) fn authorize(&mut self, account: usize, names: &[String]) -> Vec<usize> {
        let each = names.iter().map(|full| {
            let name = full.strip_prefix("*.").unwrap_or(full);
            let wildcard = name.len() != full.len();
            let kept = self.authorizations.iter().position(|old| {
                old.account == account
                    && old.name == name
                    && old.wildcard == wildcard
                    && old.status == Status::Valid
            });
            if let (true, Some(kept)) = (self.settings.keeps_authorizations, kept) {
                return kept;
            }
            let kinds = self.settings.challenges.iter();
            // RFC 8555 §8.3, RFC 8737 §3: only DNS shows that somebody rules all names of a zone.
            let kinds = kinds.filter(|kind| !wildcard || **kind == ChallengeKind::Dns01);
            let challenges = kinds.map(|kind| Challenge {
                kind: *kind,
                token: random_text(),
                status: Status::Pending,
                error: None,
            });
            self.authorizations.push(Authorization {
                account,
                name: name.to_owned(),
                wildcard,
                status: Status::Pending,
                challenges: challenges.collect(),
            });
            self.authorizations.len() - 1
        });
        each.collect()
    }

    /// RFC 8555 §7.1.6.
    pub(super) fn order_status(&self, order: &Order) -> &'static str {
        let mut statuses = order
            .authorizations
            .iter()
            .map(|at| self.authorizations[*at].status);
        match &order.certificate {
            _ if order.error.is_some() => "invalid",
            Some(certified) if certified.after_releases > self.releases => "processing",
            Some(_) => "valid",
            None if statuses
                .clone()
                .any(|status| matches!(status, Status::Invalid | Status::Deactivated)) =>
            {
                "invalid"
            }
            None if statuses.all(|status| status == Status::Valid) => "ready",
            None => "pending",
        }
    }

    /// Why the order is invalid: itself, or the first authorization that is.
    pub(super) fn order_error<'a>(&'a self, order: &'a Order) -> Option<&'a Problem> {
        let mut challenges = order
            .authorizations
            .iter()
            .flat_map(|at| &self.authorizations[*at].challenges);
        let failed = || challenges.find_map(|challenge| challenge.error.as_ref());
        order.error.as_ref().or_else(failed)
    }

    /// The end of a validation.
    pub(super) fn validated(
        &mut self,
        (authorization, kind): (usize, ChallengeKind),
        result: Result<(), Problem>,
    ) {
        let of = &mut self.authorizations[authorization];
        let error = result.err().map(|mut problem| {
            problem.name = Some(of.name.clone());
            problem
        });
        let status = match &error {
            None => Status::Valid,
            Some(_) => Status::Invalid,
        };
        self.validations.push(Validation {
            name: of.name.clone(),
            kind: kind.as_str(),
            error: error
                .as_ref()
                .map(|error| (error.kind.clone(), error.detail.clone())),
        });
        if of.status == Status::Pending {
            of.status = status;
        }
        for challenge in &mut of.challenges {
            if challenge.kind == kind {
                challenge.status = status;
                challenge.error.clone_from(&error);
            }
        }
    }

    /// The validity of a certificate that is issued now, in whole seconds as certificates have it.
    pub(super) fn validity(&self, profile: Option<&str>) -> (SystemTime, SystemTime) {
        let now = self.settings.start.unwrap_or_else(SystemTime::now);
        let since = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs());
        let of_profile = profile
            .and_then(|profile| self.settings.profiles.get(profile))
            .or(self.settings.profiles.get("default"));
        let long = self.settings.validity.or(of_profile.copied());
        (start, start + long.unwrap_or(90 * DAY))
    }

    /// When a certificate should be renewed: what the test says, or a day or less around the time
    /// when two thirds of its validity are over.
    pub(super) fn window(&self, at: usize) -> Range<SystemTime> {
        if let Some(window) = self.windows.get(&at) {
            return window.clone();
        }
        let issued = &self.issued[at];
        let long = issued
            .not_after
            .duration_since(issued.not_before)
            .unwrap_or_default();
        let middle = issued.not_before + long * 2 / 3;
        let half = (long / 30).min(DAY / 2);
        middle - half..middle + half
    }

    pub(super) fn account_records(&self, base: &str) -> Vec<AccountRecord> {
        let records = self.accounts.iter().enumerate();
        let records = records.map(|(at, account)| AccountRecord {
            url: format!("{base}/account/{at}"),
            contact: account.contact.clone(),
            thumbprint: account.key.thumbprint(),
            external: account.external.clone(),
        });
        records.collect()
    }

    pub(super) fn order_records(&self, base: &str) -> Vec<OrderRecord> {
        let records = self.orders.iter().enumerate();
        let records = records.map(|(at, order)| OrderRecord {
            url: format!("{base}/order/{at}"),
            account: order.account,
            names: order.names.clone(),
            profile: order.profile.clone(),
            replaces: order.replaces.clone(),
            status: self.order_status(order),
        });
        records.collect()
    }
}

/// 128 bits that nobody guesses (RFC 8555 §6.5.1, §8).
fn random_text() -> String {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("there is randomness");
    coded(&bytes)
}
