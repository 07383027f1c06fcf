//! The TXT records of challenges by DNS (RFC 8555 §8.4): kept before they are written, and removed
//! whatever comes of the order.
//!
//! Writes none itself: `lockgate_dns` does.

use lockgate_dns::{DnsError, DnsWriter};
use lockgate_rules::DnsProvider;

use crate::error::{Failure, FailureKind};
use crate::store::{CertFolder, CertId, CertRecord};

/// The label below which a name's record stands (RFC 8555 §8.4).
const LABEL: &str = "_acme-challenge";

/// The records of one certificate.
pub(crate) struct DnsRecords<'a> {
    pub(crate) folder: &'a CertFolder,
    pub(crate) id: &'a CertId,
    /// Who writes them, if the settings still name one.
    pub(crate) provider: Option<&'a DnsProvider>,
}

impl From<DnsError> for Failure {
    fn from(error: DnsError) -> Self {
        Self::new(FailureKind::Dns, error.to_string())
    }
}

impl DnsRecords<'_> {
    /// Writes the record of a challenge, and waits until every server of its zone shows it.
    ///
    /// # Errors
    /// When that fails; what was written is in `kept` all the same.
    pub(crate) async fn publish(&self, value: &str, kept: &mut CertRecord) -> Result<(), Failure> {
        let provider = self
            .provider
            .ok_or_else(|| Failure::new(FailureKind::NoChallenge, "dns-01 needs `dns`"))?;
        let writer = DnsWriter::new(provider)?;
        let name = &self.id.name;
        let name = name.strip_prefix("*.").unwrap_or(name);
        let record = writer.locate(&format!("{LABEL}.{name}"), value).await?;
        if !kept.dns.contains(&record) {
            kept.dns.push(record.clone());
            self.folder.keep_record(self.id, kept)?;
        }
        writer.publish(&record).await?;
        Ok(writer.wait_visible(&record).await?)
    }

    /// Removes the records that were written, also by an earlier process. What cannot be removed now
    /// is kept for the next time.
    pub(crate) async fn remove_all(&self, kept: &mut CertRecord) {
        if kept.dns.is_empty() {
            return;
        }
        let left = match self.provider.map(DnsWriter::new) {
            Some(Ok(writer)) => {
                let mut left = Vec::new();
                for record in std::mem::take(&mut kept.dns) {
                    if let Err(error) = writer.remove(&record).await {
                        tracing::warn!(name = record.name, %error, "a TXT record is not removed");
                        left.push(record);
                    }
                }
                left
            }
            Some(Err(error)) => {
                let name = &self.id.name;
                tracing::warn!(name, %error, "its TXT records are not removed");
                return;
            }
            None => {
                for record in &kept.dns {
                    let name = &record.name;
                    tracing::warn!(name, "a TXT record is left: there is no `dns` any more");
                }
                Vec::new()
            }
        };
        kept.dns = left;
        if let Err(error) = self.folder.keep_record(self.id, kept) {
            tracing::error!(name = self.id.name, %error, "the removal of TXT records is not kept");
        }
    }
}
