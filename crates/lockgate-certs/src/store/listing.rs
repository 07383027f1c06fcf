//! What a folder of certificates holds, for readers that obtain none: the process that keeps it need
//! not run. Changes nothing.

use std::collections::BTreeSet;
use std::io;
use std::time::SystemTime;

use lockgate_rules::CertKeyKind;

use super::{CertFolder, CertId};
use crate::keeper::status::{CertStatus, standing};
use crate::leaf::Leaf;

/// The most certificates that are listed.
const MOST: usize = 100_000;

impl CertFolder {
    /// How each certificate stands at the time `now`, by name, as its files tell; a folder that does
    /// not exist has none. What the configuration wants beside them is not known here.
    ///
    /// # Errors
    /// What the system says of the folder, or of a file in it.
    pub fn stored(&self, now: SystemTime) -> io::Result<Vec<(CertId, CertStatus)>> {
        let mut ids = BTreeSet::new();
        for (folder, on_demand) in [
            (self.path.clone(), false),
            (self.path.join("on-demand"), true),
        ] {
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries.take(MOST) {
                let name = entry?.file_name();
                let id = name.to_str().and_then(CertId::of_file_name);
                ids.extend(id.map(|id| CertId { on_demand, ..id }));
            }
        }
        let read = |id: CertId| {
            let record = self.record(&id)?;
            let leaf = self.cert(&id)?.and_then(|pem| Leaf::of_pem(&pem).ok());
            let leaf = leaf.as_ref();
            let standing = standing(&id, leaf, &record, record.revoked.is_some());
            let status = CertStatus::of(self, (&id, leaf, &record), &standing, now);
            Ok((id, status))
        };
        ids.into_iter().map(read).collect()
    }
}

impl CertId {
    /// The identity of the certificate with this file, which is its PEM file or the JSON beside it;
    /// nothing for other files, and for a name that the file system was too narrow for.
    pub(super) fn of_file_name(name: &str) -> Option<Self> {
        let stem = name
            .strip_suffix(".pem")
            .or_else(|| name.strip_suffix(".json"))?;
        let other = CertKeyKind::Rsa2048;
        let (stem, key) = match stem.strip_suffix(&format!(".{}", other.name())) {
            Some(stem) => (stem, other),
            None => (stem, CertKeyKind::EcdsaP256),
        };
        let name = match stem.strip_prefix("_wildcard.") {
            Some(parent) => format!("*.{parent}"),
            None => stem.to_owned(),
        };
        let is_name = !stem.is_empty() && !stem.contains('~');
        is_name.then_some(Self {
            name,
            key,
            on_demand: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_tells_the_certificate() {
        let id = |name: &str, key| {
            let name = name.to_owned();
            CertId {
                name,
                key,
                on_demand: false,
            }
        };
        for known in [
            id("a.example.com", CertKeyKind::EcdsaP256),
            id("*.example.com", CertKeyKind::EcdsaP256),
            id("a.example.com", CertKeyKind::Rsa2048),
            id("*.example.com", CertKeyKind::Rsa2048),
        ] {
            for extension in ["pem", "json"] {
                let file = format!("{}.{extension}", known.file_name());
                assert_eq!(CertId::of_file_name(&file), Some(known.clone()), "{file}");
            }
        }
        for other in ["lock", "a.example.com.key", "a.pem.new", ".pem", "a~b.pem"] {
            assert_eq!(CertId::of_file_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_folder_is_listed_without_the_process_that_keeps_it() {
        let state = tempfile::tempdir().unwrap();
        let folder = CertFolder::of_state(state.path());
        assert_eq!(folder.stored(SystemTime::now()).unwrap(), []);
        folder.prepare().unwrap();
        let id = CertId {
            name: "a.example.com".to_owned(),
            key: CertKeyKind::EcdsaP256,
            on_demand: false,
        };
        let made = rcgen::generate_simple_self_signed([id.name.clone()]).unwrap();
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        folder.keep_cert(&id, &pem).unwrap();
        let listed = folder.stored(SystemTime::now()).unwrap();
        let [(found, status)] = &listed[..] else {
            panic!("{listed:?}")
        };
        assert_eq!(*found, id);
        assert_eq!(status.names, ["a.example.com"]);
        assert!(status.validity.is_some() && status.issuer.is_some());
        assert_eq!(status.file, folder.cert_file(&id));
    }
}
