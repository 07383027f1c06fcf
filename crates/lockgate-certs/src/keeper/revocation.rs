//! Revocation of a certificate by the account that has ordered it (RFC 8555 §7.6), in the task of
//! that certificate: nothing else changes its files meanwhile.

use std::fmt;
use std::sync::MutexGuard;

use instant_acme::{RevocationReason, RevocationRequest};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use tokio::sync::oneshot;

use super::task::{CertTask, Known};
use super::{CertKeeper, CertState};
use crate::directory::{DirectoryClient, with_nonces};
use crate::error::{Failure, is_problem};
use crate::mutex::lock;
use crate::private_file;
use crate::store::CertId;

/// Why a certificate is revoked (RFC 5280 §5.3.1): the reasons that its owner may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationWord {
    /// None is given.
    Unspecified,
    /// Others may have the key.
    KeyCompromise,
    /// The owner has another name or organization.
    AffiliationChanged,
    /// Another certificate takes its place.
    Superseded,
    /// The name is not in use any more.
    CessationOfOperation,
}

/// A certificate that was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedCert {
    /// Its identity.
    pub id: CertId,
    /// The URL of the directory that has issued it.
    pub directory: String,
    /// Whether its file was removed, so that it is served no more.
    pub removed: bool,
}

/// Why a certificate was not revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// There is none.
    #[error("there is no certificate for {0}")]
    NoCertificate(String),
    /// Its directory is not known, or not configured.
    #[error(
        "the authority that has issued the certificate of {name} is not configured: {directory}"
    )]
    OtherAuthority {
        /// The name of the certificate.
        name: String,
        /// The URL of its directory, or that it is not known.
        directory: String,
    },
    /// The authority has not revoked it.
    #[error("{} has not revoked the certificate of {name}: {}", directory, failure.message)]
    Refused {
        /// The name of the certificate.
        name: String,
        /// The name of the directory.
        directory: String,
        /// Why.
        failure: Failure,
    },
}

/// A revocation that was asked for.
pub(super) struct PendingRevocation {
    reason: RevocationWord,
    answer: oneshot::Sender<Result<RevokedCert, RevocationError>>,
}

impl RevocationWord {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Unspecified,
        Self::KeyCompromise,
        Self::AffiliationChanged,
        Self::Superseded,
        Self::CessationOfOperation,
    ];

    /// The name that RFC 5280 gives it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::KeyCompromise => "keyCompromise",
            Self::AffiliationChanged => "affiliationChanged",
            Self::Superseded => "superseded",
            Self::CessationOfOperation => "cessationOfOperation",
        }
    }

    /// The reason with this name.
    pub fn of_str(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.as_str() == name)
    }

    /// As ACME sends it; without a reason there is no member.
    fn reason(self) -> Option<RevocationReason> {
        match self {
            Self::Unspecified => None,
            Self::KeyCompromise => Some(RevocationReason::KeyCompromise),
            Self::AffiliationChanged => Some(RevocationReason::AffiliationChanged),
            Self::Superseded => Some(RevocationReason::Superseded),
            Self::CessationOfOperation => Some(RevocationReason::CessationOfOperation),
        }
    }
}

impl fmt::Debug for PendingRevocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl CertKeeper {
    /// Asks the authority to revoke the certificates of a name, and obtains others with new keys
    /// then. Empty where no certificate of this name is wanted. An answer comes once the authority
    /// has answered; its sender is gone where nothing is obtained any more, or another revocation of
    /// the certificate was asked for.
    pub fn revoke(
        &self,
        name: &str,
        reason: RevocationWord,
    ) -> Vec<oneshot::Receiver<Result<RevokedCert, RevocationError>>> {
        let certs = self.shared.lock();
        let of_name = certs.iter().filter(|(id, _)| id.name == name);
        of_name
            .map(|(_, state)| {
                let (answer, receiver) = oneshot::channel();
                *state.revocation() = Some(PendingRevocation { reason, answer });
                state.woken.notify_one();
                receiver
            })
            .collect()
    }
}

impl CertState {
    fn revocation(&self) -> MutexGuard<'_, Option<PendingRevocation>> {
        lock(&self.revocation)
    }

    /// The revocation that was asked for.
    pub(super) fn take_revocation(&self) -> Option<PendingRevocation> {
        self.revocation().take()
    }
}

impl CertTask {
    /// Revokes the certificate, and answers. Another one is due then.
    pub(super) async fn revoke(&self, known: &mut Known, pending: PendingRevocation) {
        let answer = self.revoke_at_authority(known, pending.reason).await;
        let name = &self.wanted.id.name;
        let reason = pending.reason.as_str();
        match &answer {
            Ok(_) => tracing::warn!(
                name,
                reason,
                "the certificate is revoked: another is obtained"
            ),
            Err(error) => tracing::warn!(name, reason, %error, "the certificate is not revoked"),
        }
        // The client may have left.
        let _ = pending.answer.send(answer);
    }

    async fn revoke_at_authority(
        &self,
        known: &mut Known,
        word: RevocationWord,
    ) -> Result<RevokedCert, RevocationError> {
        let id = &self.wanted.id;
        let name = || id.name.clone();
        let leaf = known.leaf.as_ref();
        let leaf = leaf.ok_or_else(|| RevocationError::NoCertificate(name()))?;
        let url = known.record.directory.as_ref();
        let mut clients = self.clients.iter();
        let client = clients.find(|client| Some(&client.directory.url) == url);
        let client = client.ok_or_else(|| RevocationError::OtherAuthority {
            name: name(),
            directory: url.map_or_else(|| "it is not known".to_owned(), String::clone),
        })?;
        let failed = |failure| RevocationError::Refused {
            name: name(),
            directory: client.directory.name.clone(),
            failure,
        };
        let der = CertificateDer::from(leaf.der.clone());
        client.revoke(&der, word.reason()).await.map_err(failed)?;
        known.record.revoked = Some(OffsetDateTime::now_utc());
        // The window was that of this certificate.
        known.record.renewal = None;
        let kept = self.folder.keep_record(id, &known.record);
        kept.map_err(|error| failed(error.into()))?;
        // Connections under a key that others have are worse than none; for the other reasons
        // clients are served until there is a new one.
        let removed = word == RevocationWord::KeyCompromise;
        if removed {
            let file = self.folder.cert_file(id);
            let gone = private_file::remove(&file);
            gone.map_err(|error| failed(error.into()))?;
            known.leaf = None;
            (self.changed)(&file);
        }
        Ok(RevokedCert {
            id: id.clone(),
            directory: client.directory.url.clone(),
            removed,
        })
    }
}

impl DirectoryClient {
    /// Revokes a certificate; one that is revoked already is no failure.
    async fn revoke(
        &self,
        certificate: &CertificateDer<'_>,
        reason: Option<RevocationReason>,
    ) -> Result<(), Failure> {
        let account = self.account().await?;
        let request = RevocationRequest {
            certificate,
            reason,
        };
        match with_nonces(async || account.revoke(&request).await).await {
            Err(error) if !is_problem(&error, "alreadyRevoked") => {
                Err(self.failed(error.into(), &account).await)
            }
            _ => Ok(()),
        }
    }
}
