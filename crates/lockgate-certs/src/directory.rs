//! An authority's directory: its client, and the account there (RFC 8555 §7.3).
//!
//! Orders nothing: see `order`.

use std::sync::Arc;
use std::time::SystemTime;

use instant_acme::{Account, CertificateIdentifier, Error, ExternalAccountKey, Key, NewAccount};
use lockgate_net::tls::{CaSource, ClientSettings, Connector};
use lockgate_rules::{AcmeDirectory, AcmeSettings, CertKeyKind};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::Deserialize;
use tokio::sync::{Mutex, Semaphore};

use crate::error::{Failure, FailureKind, is_bad_nonce, is_problem};
use crate::http::{AcmeHttp, QuietUntil, noting_errors};
use crate::keys;
use crate::mutex::lock;
use crate::schedule::{RenewalWindow, is_credible};
use crate::store::{AccountRecord, CertFolder};

/// Orders at one authority at the same time.
const ORDERS: usize = 8;
/// How often a request is sent again after its nonce was refused: an authority may refuse half of
/// them for a test.
const NONCES: u32 = 12;

/// An authority, as orders see it.
pub(crate) struct DirectoryClient {
    /// The directory.
    pub(crate) directory: AcmeDirectory,
    /// One permit for each order at the same time.
    pub(crate) orders: Semaphore,
    settings: Arc<AcmeSettings>,
    folder: CertFolder,
    /// The account, once it is open.
    account: Mutex<Option<Account>>,
    quiet_until: QuietUntil,
}

/// What an authority says of a renewal.
pub(crate) struct RenewalAdvice {
    pub(crate) window: RenewalWindow,
    pub(crate) explanation: Option<String>,
    /// When it is to be asked again.
    pub(crate) again: std::time::Duration,
}

impl DirectoryClient {
    pub(crate) fn new(
        directory: AcmeDirectory,
        settings: Arc<AcmeSettings>,
        folder: CertFolder,
    ) -> Self {
        Self {
            directory,
            orders: Semaphore::new(ORDERS),
            settings,
            folder,
            account: Mutex::default(),
            quiet_until: QuietUntil::default(),
        }
    }

    /// Whether the account is the one that these settings ask for, but for its email.
    pub(crate) fn has_account_of(&self, settings: &AcmeSettings) -> bool {
        (&self.settings.ca, &self.settings.eab) == (&settings.ca, &settings.eab)
    }

    /// Whether the account's email is that of these settings.
    pub(crate) fn has_email_of(&self, settings: &AcmeSettings) -> bool {
        self.settings.email == settings.email
    }

    /// An error as long as the authority wants no other request, or none for this certificate.
    pub(crate) fn allows_requests(&self, own: Option<SystemTime>) -> Result<(), Failure> {
        let quiet_until = *lock(&self.quiet_until);
        let now = SystemTime::now();
        match own.max(quiet_until) {
            Some(until) if until > now && is_credible(until, now) => {
                let message = "the authority has asked for fewer requests";
                let mut failure = Failure::new(FailureKind::RateLimited, message);
                failure.retry_after = Some(until);
                Err(failure)
            }
            _ => Ok(()),
        }
    }

    /// The account, which is made if there is none. Its key is kept first, and gets the same account
    /// again (RFC 8555 §7.3.1), so that a process that is killed in between leaves no second one
    /// behind. With `eab` it may: there the key is known, and kept, only after the account was made.
    pub(crate) async fn account(&self) -> Result<Account, Failure> {
        // Orders that begin together wait for the first one's account.
        let mut open = self.account.lock().await;
        if let Some(open) = &*open {
            return Ok(open.clone());
        }
        let http = AcmeHttp::new(self.connector()?, Arc::clone(&self.quiet_until));
        let made = self.open_account(&http).await?;
        Ok(open.insert(made).clone())
    }

    /// Closes the account where it is the reason of a failure. Another order may have done so, and have
    /// opened another one.
    pub(crate) async fn failed(&self, failure: Failure, account: &Account) -> Failure {
        if failure.is_of_account() {
            let mut open = self.account.lock().await;
            open.take_if(|open| open.id() == account.id());
        }
        failure
    }

    /// Puts an account aside that the authority has closed. The next order makes another one, with
    /// another key.
    pub(crate) async fn retire_account(&self, account: &Account) -> Result<(), Failure> {
        let mut open = self.account.lock().await;
        open.take_if(|open| open.id() == account.id());
        let url = &self.directory.url;
        let kept = self.folder.account(url)?;
        if kept.is_some_and(|kept| kept.url.as_deref() == Some(account.id())) {
            self.folder.retire_account(url)?;
        }
        Ok(())
    }

    /// Forgets the URL of an account that the authority does not know, so that the next order makes it
    /// anew with the same key.
    pub(crate) async fn forget_url(&self, account: &Account) -> Result<(), Failure> {
        let _open = self.account.lock().await;
        let kept = self.folder.account(&self.directory.url)?;
        if let Some(mut kept) = kept
            && kept.url.as_deref() == Some(account.id())
        {
            kept.url = None;
            self.folder.keep_account(&kept)?;
        }
        Ok(())
    }

    /// Asks when a certificate is to be renewed (RFC 9773 §4.1).
    pub(crate) async fn renewal(
        &self,
        id: &(String, String),
    ) -> Result<Option<RenewalAdvice>, Failure> {
        self.allows_requests(None)?;
        noting_errors(self.ask_for_renewal(id)).await
    }

    async fn ask_for_renewal(
        &self,
        id: &(String, String),
    ) -> Result<Option<RenewalAdvice>, Failure> {
        let account = self.account().await?;
        let (key, serial) = id;
        let id = CertificateIdentifier {
            authority_key_identifier: key.into(),
            serial: serial.into(),
        };
        match account.renewal_info(&id).await {
            Ok((info, again)) => Ok(Some(RenewalAdvice {
                window: RenewalWindow {
                    start: info.suggested_window.start.into(),
                    end: info.suggested_window.end.into(),
                },
                explanation: info.explanation_url,
                again,
            })),
            Err(Error::Unsupported(_)) => Ok(None),
            Err(error) => Err(self.failed(error.into(), &account).await),
        }
    }

    fn connector(&self) -> Result<Connector, Failure> {
        let ca = match &self.settings.ca {
            Some(path) => CaSource::File(path.clone()),
            None => CaSource::System,
        };
        Connector::new(ClientSettings::new(ca))
            .map_err(|error| Failure::new(FailureKind::Unreachable, error.to_string()))
    }

    async fn open_account(&self, http: &AcmeHttp) -> Result<Account, Failure> {
        let (name, url) = (&self.directory.name, &self.directory.url);
        let kept = self.folder.account(url)?;
        let (mut record, account) = match (kept, &self.settings.eab) {
            (Some(record), _) => {
                let account = self.account_of(&record, http).await?;
                (record, account)
            }
            (None, None) => {
                let key = keys::generate(CertKeyKind::EcdsaP256)?;
                let record = AccountRecord::new(url.clone(), key);
                self.folder.keep_account(&record)?;
                let account = self.account_of(&record, http).await?;
                (record, account)
            }
            (None, Some(eab)) => {
                let key = ExternalAccountKey::new(eab.key_id.clone(), &eab.mac_key.0);
                let account = NewAccount {
                    contact: &[],
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                // instant-acme makes the key itself here: it is known only now.
                let (account, credentials) = with_nonces(async || {
                    let builder = Account::builder_with_http(Box::new(http.clone()));
                    builder.create(&account, url.clone(), Some(&key)).await
                })
                .await?;
                let key = key_of(&credentials)?;
                (AccountRecord::new(url.clone(), key), account)
            }
        };
        let is_new = record.url.is_none();
        record.url = Some(account.id().to_owned());
        if is_new {
            self.folder.keep_account(&record)?;
            tracing::info!(
                directory = name,
                account = account.id(),
                "the authority has an account for this server; its terms of service are accepted"
            );
        }
        if record.email != self.settings.email {
            let contact = self
                .settings
                .email
                .iter()
                .map(|email| format!("mailto:{email}"));
            let contact: Vec<_> = contact.collect();
            let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
            match with_nonces(async || account.update_contacts(&contact).await).await {
                Ok(()) => {
                    record.email.clone_from(&self.settings.email);
                    self.folder.keep_account(&record)?;
                }
                // It is no reason to be without certificates.
                Err(error) => tracing::warn!(
                    directory = name,
                    %error,
                    "the authority has not taken the account's `email`"
                ),
            }
        }
        Ok(account)
    }

    /// The account of a key, which the authority makes if it does not know it.
    async fn account_of(
        &self,
        record: &AccountRecord,
        http: &AcmeHttp,
    ) -> Result<Account, Failure> {
        let broken = || {
            let message = format!(
                "the kept account at {} has a broken key",
                self.directory.name
            );
            Failure::new(FailureKind::Storage, message)
        };
        let der =
            PrivatePkcs8KeyDer::from_pem_slice(record.key.as_bytes()).map_err(|_| broken())?;
        let url = &self.directory.url;
        if let Some(id) = &record.url {
            let builder = Account::builder_with_http(Box::new(http.clone()));
            let key = der.clone_key();
            return Ok(builder.from_parts(id.clone(), key, url.clone()).await?);
        }
        let made = with_nonces(async || {
            let key = Key::from_pkcs8_der(der.clone_key())?;
            let key = (key, PrivateKeyDer::Pkcs8(der.clone_key()));
            let builder = Account::builder_with_http(Box::new(http.clone()));
            builder.create_from_key(key, url.clone()).await
        });
        let (account, _) = made.await?;
        Ok(account)
    }
}

/// Sends a request again while its nonce is refused (RFC 8555 §6.5): instant-acme does so twice.
pub(crate) async fn with_nonces<T>(
    mut send: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut left = NONCES;
    loop {
        match send().await {
            Err(error) if is_bad_nonce(&error) && left > 0 => left -= 1,
            result => return result,
        }
    }
}

/// Whether an error is that the account does not exist.
pub(crate) fn is_unknown_account(error: &Error) -> bool {
    is_problem(error, "accountDoesNotExist")
}

/// The key in the credentials of a new account, which show it only as JSON.
fn key_of(credentials: &instant_acme::AccountCredentials) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Credentials {
        key_pkcs8: String,
    }
    let lost = || {
        Failure::new(
            FailureKind::Account,
            "the key of the new account is not known",
        )
    };
    let json = serde_json::to_value(credentials).map_err(|_| lost())?;
    let found: Credentials = serde_json::from_value(json).map_err(|_| lost())?;
    let lines = found.key_pkcs8.replace('-', "+").replace('_', "/");
    let padding = "=".repeat((4 - lines.trim_end_matches('=').len() % 4) % 4);
    let lines = format!("{}{padding}", lines.trim_end_matches('='));
    Ok(format!(
        "-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"
    ))
}
