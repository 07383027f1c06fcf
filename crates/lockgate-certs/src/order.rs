//! One order of a certificate, from its begin to the PEM file (RFC 8555 §7.4).
//!
//! Each step can be repeated: what the next one needs is kept before it begins. Does not decide
//! when to order: see `schedule`.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus,
};
use lockgate_net::challenges::{Challenges, PresentedAnswer};
use lockgate_rules::DnsProvider;
use time::OffsetDateTime;

use crate::directory::{DirectoryClient, is_unknown_account, with_nonces};
use crate::dns_record::DnsRecords;
use crate::error::{Failure, FailureKind, Unreachable, is_problem};
use crate::http::{is_refused_for_a_while, last_retry_after, noting_errors};
use crate::keys;
use crate::leaf::Leaf;
use crate::store::{CertFolder, CertId, CertRecord, OrderRecord};

/// The time after which an order that is not done is left for the next try.
const POLL_TIME: Duration = Duration::from_secs(60);
/// The time between two questions for the state of an order: at first, and at most. The authority may
/// ask for more, but answers to challenges are taken back when the order is left.
const POLL_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// An order older than this is not taken up again: authorities keep pending ones for a week at
/// most.
const OLDEST: Duration = Duration::from_secs(24 * 3600);

const NO_AUTHORIZATION: Error = Error::Str("the order has no authorization");

/// A way to prove a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChallengeKind {
    /// A path on port 80 (RFC 8555 §8.3).
    Http01,
    /// A handshake on port 443 (RFC 8737).
    TlsAlpn01,
    /// A TXT record (RFC 8555 §8.4).
    Dns01,
}

/// One try to obtain a certificate from one authority.
pub(crate) struct Attempt<'a> {
    pub(crate) folder: &'a CertFolder,
    pub(crate) client: &'a DirectoryClient,
    pub(crate) challenges: &'a Arc<Challenges>,
    pub(crate) id: &'a CertId,
    pub(crate) profile: Option<&'a str>,
    /// The provider that writes the record of a challenge by DNS.
    pub(crate) dns: Option<&'a DnsProvider>,
    /// The challenges that can work, the one to try first in front.
    pub(crate) ways: Vec<ChallengeKind>,
    /// The identifier of the certificate that is replaced, if this authority has issued it.
    pub(crate) replaces: Option<(String, String)>,
    pub(crate) record: &'a mut CertRecord,
}

/// An answer to a challenge; that of a listener is taken back when this is dropped.
enum Presented {
    /// None was needed: the authority has verified the name before.
    Earlier,
    Listener {
        _answer: PresentedAnswer,
    },
    /// A TXT record, which stays until it is removed.
    Record,
}

impl ChallengeKind {
    /// The name that RFCs give it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }

    fn acme_type(self) -> ChallengeType {
        match self {
            Self::Http01 => ChallengeType::Http01,
            Self::TlsAlpn01 => ChallengeType::TlsAlpn01,
            Self::Dns01 => ChallengeType::Dns01,
        }
    }
}

impl<'a> Attempt<'a> {
    /// Obtains a certificate and puts it into its file.
    pub(crate) async fn obtain(&mut self) -> Result<Leaf, Failure> {
        let client = self.client;
        // Never closed.
        let _permit = client.orders.acquire().await;
        // An order before this one may have learnt it.
        client.allows_requests(None)?;
        match self.obtain_once().await {
            // The account is made anew.
            Err(failure) if failure.is_of_account() => self.obtain_once().await,
            result => result,
        }
    }

    /// Boxed: tasks of certificates that wait for months are not to have the room for an order.
    async fn obtain_once(&mut self) -> Result<Leaf, Failure> {
        noting_errors(Box::pin(self.obtain_by_account())).await
    }

    async fn obtain_by_account(&mut self) -> Result<Leaf, Failure> {
        let account = self.client.account().await?;
        match self.obtain_by(&account).await {
            Ok(leaf) => Ok(leaf),
            Err(failure) => Err(self.client.failed(failure, &account).await),
        }
    }

    async fn obtain_by(&mut self, account: &Account) -> Result<Leaf, Failure> {
        let mut order = match self.continue_order(account).await? {
            Some(order) => order,
            None => self.begin_order(account).await?,
        };
        if order.state().status == OrderStatus::Pending {
            self.prove(&mut order).await?;
        }
        let key = self.pending_key().await?;
        if order.state().status == OrderStatus::Ready {
            let request = keys::request(&key, &self.id.name)?;
            with_nonces(async || order.finalize_csr(&request).await).await?;
        }
        let status = poll(&mut order, OrderStatus::Valid).await;
        let chain = match status {
            Ok(_) => with_nonces(async || order.certificate().await).await,
            Err(error) => Err(error),
        };
        let chain = match chain {
            Ok(chain) => chain.ok_or_else(|| {
                Failure::new(FailureKind::Authority, "the order has no certificate")
            })?,
            Err(error) => {
                self.drop_order_unless_late(&error)?;
                return Err(error.into());
            }
        };
        self.install(&chain, &key)
    }

    /// The order that an earlier process or try has begun, if it can go on.
    async fn continue_order(&mut self, account: &Account) -> Result<Option<Order>, Failure> {
        let Some(begun) = self.record.order.clone() else {
            return Ok(None);
        };
        let age = SystemTime::now().duration_since(begun.begun.into());
        let is_fresh = age.is_ok_and(|age| age < OLDEST);
        let is_same = begun.directory == self.client.directory.url
            && begun.profile.as_deref() == self.profile;
        if !is_same || !is_fresh {
            self.drop_order()?;
            return Ok(None);
        }
        let found = with_nonces(async || account.order(begun.url.clone()).await).await;
        let mut order = match found {
            Ok(order) => order,
            Err(Error::Api(problem)) if problem.status.is_none_or(|status| status < 429) => {
                tracing::debug!(name = self.id.name, %problem, "the order is not known any more");
                self.drop_order()?;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let has_key = self.folder.pending_key(self.id)?.is_some();
        let status = order.state().status;
        tracing::debug!(
            name = self.id.name,
            ?status,
            has_key,
            "an earlier order goes on"
        );
        match status {
            OrderStatus::Pending | OrderStatus::Ready => Ok(Some(order)),
            // Without its key the certificate is of no use.
            OrderStatus::Processing | OrderStatus::Valid if has_key => Ok(Some(order)),
            _ => {
                self.drop_order()?;
                Ok(None)
            }
        }
    }

    async fn begin_order(&mut self, account: &Account) -> Result<Order, Failure> {
        self.folder.remove_pending_key(self.id)?;
        let identifiers = [Identifier::Dns(self.id.name.clone())];
        let mut replaces = self.replaces.clone();
        let order = loop {
            let mut new = NewOrder::new(&identifiers);
            if let Some(profile) = self.profile {
                new = new.profile(profile);
            }
            if let Some((key, serial)) = &replaces {
                new = new.replaces(CertificateIdentifier {
                    authority_key_identifier: key.into(),
                    serial: serial.into(),
                });
            }
            match with_nonces(async || account.new_order(&new).await).await {
                Ok(order) => break order,
                // Another order has replaced it already (RFC 9773 §5), another account has ordered it,
                // or the authority does not know it: that must not keep us from a certificate.
                Err(error) if may_be_about_replaces(&error) && replaces.take().is_some() => {
                    tracing::debug!(name = self.id.name, %error, "the order replaces nothing");
                }
                Err(error) => return Err(self.refused_order(error, account).await?),
            }
        };
        self.record.order = Some(OrderRecord {
            directory: self.client.directory.url.clone(),
            url: order.url().to_owned(),
            profile: self.profile.map(str::to_owned),
            begun: OffsetDateTime::now_utc(),
        });
        self.keep_record()?;
        Ok(order)
    }

    /// The failure of an order that was not begun. An account that the authority does not accept is
    /// made anew with the next try.
    async fn refused_order(&self, error: Error, account: &Account) -> Result<Failure, Failure> {
        if is_unknown_account(&error) {
            self.client.forget_url(account).await?;
            let message = "the authority does not know the account: it is made again";
            return Ok(Failure::new(FailureKind::Account, message));
        }
        if is_problem(&error, "unauthorized") {
            self.client.retire_account(account).await?;
            let message = format!("the account is not accepted, another one is made: {error}");
            return Ok(Failure::new(FailureKind::Account, message));
        }
        Ok(error.into())
    }

    /// Proves the name, so that the order is ready.
    async fn prove(&mut self, order: &mut Order) -> Result<(), Failure> {
        let mut way = None;
        // Its orders with another key, and trials, answer by the same name.
        let _turn = self.challenges.turn_of(&self.id.name).await;
        // What an earlier process has left.
        self.remove_records().await;
        with_nonces(async || fetch_authorization(order).await).await?;
        let presented = {
            let mut authorizations = order.authorizations();
            let mut authorization = authorizations.next().await.ok_or(NO_AUTHORIZATION)??;
            match authorization.status {
                AuthorizationStatus::Valid => Presented::Earlier,
                AuthorizationStatus::Pending => {
                    let chosen = self.choose(&authorization)?;
                    way = Some(chosen);
                    match self.present(&mut authorization, chosen).await {
                        Ok(presented) => presented,
                        Err(failure) => {
                            self.remove_records().await;
                            if failure.kind == FailureKind::Validation {
                                self.drop_order()?;
                            }
                            return Err(failure);
                        }
                    }
                }
                status => {
                    self.drop_order()?;
                    let message = format!("the authorization is {status:?}");
                    return Err(Failure::new(FailureKind::Authority, message));
                }
            }
        };
        let status = poll(order, OrderStatus::Ready).await;
        drop(presented);
        self.remove_records().await;
        match status {
            Ok(OrderStatus::Ready) => {
                self.record.challenge = way.map(|way| way.as_str().to_owned());
                Ok(())
            }
            Ok(_) => {
                let failure = reason_of(order).await;
                self.drop_order()?;
                Err(failure)
            }
            Err(error) => {
                self.drop_order_unless_late(&error)?;
                Err(error.into())
            }
        }
    }

    /// The first of the ways that the authority offers.
    fn choose(&self, authorization: &AuthorizationHandle<'_>) -> Result<ChallengeKind, Failure> {
        let offers = |way: &ChallengeKind| {
            let mut offered = authorization.challenges.iter();
            offered.any(|offered| offered.r#type == way.acme_type())
        };
        self.ways.iter().copied().find(offers).ok_or_else(|| {
            let ways: Vec<_> = self.ways.iter().map(|way| way.as_str()).collect();
            let message = match ways.is_empty() {
                true => "no listener stands for port 80 or 443, and there is no `dns`".to_owned(),
                false => format!("the authority does not offer {}", ways.join(" or ")),
            };
            Failure::new(FailureKind::NoChallenge, message)
        })
    }

    /// Presents the answer to a challenge and tells the authority.
    async fn present<'h>(
        &mut self,
        authorization: &'h mut AuthorizationHandle<'h>,
        way: ChallengeKind,
    ) -> Result<Presented, Failure> {
        let gone = || Failure::new(FailureKind::Authority, "the challenge is gone");
        let mut challenge = authorization.challenge(way.acme_type()).ok_or_else(gone)?;
        let answer = challenge.key_authorization();
        let presented = match way {
            ChallengeKind::Http01 => Presented::Listener {
                _answer: self
                    .challenges
                    .present_http(&challenge.token, answer.as_str()),
            },
            ChallengeKind::TlsAlpn01 => {
                let cert = keys::challenge_cert(&self.id.name, answer.digest().as_ref())?;
                Presented::Listener {
                    _answer: self.challenges.present_tls(&self.id.name, cert),
                }
            }
            ChallengeKind::Dns01 => {
                let value = answer.dns_value();
                self.dns_records().publish(&value, self.record).await?;
                Presented::Record
            }
        };
        tracing::debug!(
            name = self.id.name,
            challenge = way.as_str(),
            "the challenge is answered"
        );
        with_nonces(async || challenge.set_ready().await).await?;
        Ok(presented)
    }

    /// Removes the TXT records that were written for this certificate.
    async fn remove_records(&mut self) {
        self.dns_records().remove_all(self.record).await;
    }

    fn dns_records(&self) -> DnsRecords<'a> {
        DnsRecords {
            folder: self.folder,
            id: self.id,
            provider: self.dns,
        }
    }

    /// The key of the order: that of an earlier try, or a new one.
    async fn pending_key(&self) -> Result<String, Failure> {
        if let Some(key) = self.folder.pending_key(self.id)? {
            return Ok(key);
        }
        let kind = self.id.key;
        // One of RSA takes long: other orders go on.
        let made = tokio::task::spawn_blocking(move || keys::generate(kind)).await;
        let key = made.map_err(|error| Failure::new(FailureKind::Storage, error.to_string()))??;
        self.folder.keep_pending_key(self.id, &key)?;
        Ok(key)
    }

    /// Checks a chain and puts it, with its key, where listeners read it.
    fn install(&mut self, chain: &str, key: &str) -> Result<Leaf, Failure> {
        let public = keys::public_key(key);
        let public = public.ok_or_else(|| {
            Failure::new(FailureKind::Storage, "the kept key of the order is broken")
        });
        let leaf = public.and_then(|public| {
            Leaf::of_chain(chain, &self.id.name, &public, SystemTime::now())
                .map_err(|error| Failure::new(FailureKind::Chain, error.to_string()))
        });
        let leaf = match leaf {
            Ok(leaf) => leaf,
            Err(failure) => {
                self.drop_order()?;
                return Err(failure);
            }
        };
        if leaf.is_alone {
            tracing::warn!(
                name = self.id.name,
                issuer = leaf.issuer,
                "the authority has sent no intermediate certificate: clients must know the issuer"
            );
        }
        self.folder
            .keep_cert(self.id, &format!("{}\n{key}", chain.trim_end()))?;
        self.record.order = None;
        self.record.directory = Some(self.client.directory.url.clone());
        self.record.profile = self.profile.map(str::to_owned);
        self.record.obtained = Some(OffsetDateTime::now_utc());
        self.record.failures = None;
        (self.record.renewal, self.record.revoked) = (None, None);
        self.keep_record()?;
        self.folder.remove_pending_key(self.id)?;
        Ok(leaf)
    }

    /// Drops an order that cannot go on.
    fn drop_order(&mut self) -> Result<(), Failure> {
        self.record.order = None;
        self.keep_record()?;
        Ok(self.folder.remove_pending_key(self.id)?)
    }

    /// The same where the authority refuses it; one that is only late is taken up again.
    fn drop_order_unless_late(&mut self, error: &Error) -> Result<(), Failure> {
        match error {
            Error::Api(problem) if problem.status.is_none_or(|status| status < 429) => {
                self.drop_order()
            }
            // instant-acme's word for an order that is invalid, and for a nonce that was refused.
            Error::Str(_) if !is_refused_for_a_while() => self.drop_order(),
            _ => Ok(()),
        }
    }

    fn keep_record(&self) -> Result<(), Failure> {
        Ok(self.folder.keep_record(self.id, self.record)?)
    }
}

/// Whether an error may be about the certificate that an order replaces. Authorities have many for it:
/// Let's Encrypt has `unauthorized` where another account has ordered that certificate, Pebble an
/// internal error where it does not find the serial number.
fn may_be_about_replaces(error: &Error) -> bool {
    match error {
        Error::Unsupported(_) => true,
        // The authority has not confirmed what it replaces.
        Error::Other(other) => !other.is::<Unreachable>(),
        Error::Api(_) => !is_problem(error, "rateLimited") && !is_unknown_account(error),
        _ => false,
    }
}

/// Waits until an order has a status, or is invalid.
async fn poll(order: &mut Order, wanted: OrderStatus) -> Result<OrderStatus, Error> {
    let (mut delay, longest) = POLL_DELAYS;
    let end = Instant::now() + POLL_TIME;
    loop {
        with_nonces(async || order.refresh().await.map(|_| ())).await?;
        let state = order.state();
        if let Some(error) = &state.error {
            return Err(Error::Api(error.clone()));
        }
        if state.status == wanted || state.status == OrderStatus::Invalid {
            return Ok(state.status);
        }
        let asked = last_retry_after().and_then(|at| at.duration_since(SystemTime::now()).ok());
        let pause = asked.map_or(delay, |asked| asked.clamp(delay, longest));
        if Instant::now() + pause > end {
            return Err(Error::Timeout(None));
        }
        tokio::time::sleep(pause).await;
        delay = delay.mul_f64(1.6).min(longest);
    }
}

/// Fetches the authorization of an order's only name, so that the order has it.
async fn fetch_authorization(order: &mut Order) -> Result<(), Error> {
    let mut authorizations = order.authorizations();
    authorizations
        .next()
        .await
        .ok_or(NO_AUTHORIZATION)?
        .map(|_| ())
}

/// Why an order is invalid: the error of its challenge.
async fn reason_of(order: &mut Order) -> Failure {
    let mut authorizations = order.authorizations();
    if let Some(Ok(mut authorization)) = authorizations.next().await {
        let _ = with_nonces(async || authorization.refresh().await.map(|_| ())).await;
        let mut challenges = authorization.challenges.iter();
        if let Some(problem) = challenges.find_map(|challenge| challenge.error.as_ref()) {
            return Failure::of_problem(problem);
        }
    }
    Failure::new(FailureKind::Validation, "the order has become invalid")
}
