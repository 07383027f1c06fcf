//! The TXT records of challenges by DNS (RFC 8555 §8.4): kept before they are written, and removed
//! whether or not the order succeeds.
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
    /// The provider that writes them, if the settings still name one.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::time::Duration;

    use lockgate_dns::PublishedRecord;
    use lockgate_rules::{CertKeyKind, KnownDnsProvider};

    use super::*;

    fn provider(folder: &Path, exit: i32) -> DnsProvider {
        let script = folder.join("record");
        let text = format!(
            "#!/bin/sh\necho \"$@\" >> {}/calls\nexit {exit}\n",
            folder.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        DnsProvider {
            provider: KnownDnsProvider::named("exec").unwrap(),
            parameters: Vec::new(),
            command: vec![script.to_str().unwrap().to_owned()],
            propagation: Duration::from_secs(1),
            resolvers: Vec::new(),
        }
    }

    fn record(value: &str) -> PublishedRecord {
        PublishedRecord {
            name: "_acme-challenge.a.com".to_owned(),
            zone: "a.com".to_owned(),
            value: value.to_owned(),
        }
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test)
    }

    /// What a process has kept before it was killed.
    #[test]
    fn txt_records_of_a_killed_process_are_removed_or_kept_for_the_next_time() {
        let place = tempfile::tempdir().unwrap();
        let folder = CertFolder::of_state(place.path());
        folder.prepare().unwrap();
        let id = CertId {
            name: "*.a.com".to_owned(),
            key: CertKeyKind::EcdsaP256,
        };
        let mut kept = CertRecord::default();
        kept.dns = vec![record("one"), record("two")];
        folder.keep_record(&id, &kept).unwrap();

        let mut read = folder.record(&id).unwrap();
        assert_eq!(read.dns, kept.dns);
        let failing = provider(place.path(), 1);
        let mut records = DnsRecords {
            folder: &folder,
            id: &id,
            provider: Some(&failing),
        };
        run(records.remove_all(&mut read));
        assert_eq!(folder.record(&id).unwrap().dns, kept.dns);

        let working = provider(place.path(), 0);
        records.provider = Some(&working);
        run(records.remove_all(&mut read));
        assert!(read.dns.is_empty());
        assert!(folder.record(&id).unwrap().dns.is_empty());
        let calls = fs::read_to_string(place.path().join("calls")).unwrap();
        let both = "cleanup _acme-challenge.a.com one\ncleanup _acme-challenge.a.com two\n";
        assert_eq!(calls, both.repeat(2));
        // Nothing is left to do.
        run(records.remove_all(&mut read));
        assert_eq!(
            fs::read_to_string(place.path().join("calls")).unwrap(),
            calls
        );
    }

    #[test]
    fn txt_records_are_forgotten_once_there_is_no_dns() {
        let place = tempfile::tempdir().unwrap();
        let folder = CertFolder::of_state(place.path());
        folder.prepare().unwrap();
        let id = CertId {
            name: "a.com".to_owned(),
            key: CertKeyKind::EcdsaP256,
        };
        let mut kept = CertRecord::default();
        kept.dns = vec![record("one")];
        let records = DnsRecords {
            folder: &folder,
            id: &id,
            provider: None,
        };
        let refused = run(records.publish("value", &mut kept)).unwrap_err();
        assert_eq!(refused.kind, FailureKind::NoChallenge);
        run(records.remove_all(&mut kept));
        assert!(folder.record(&id).unwrap().dns.is_empty());
    }
}
