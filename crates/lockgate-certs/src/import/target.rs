//! The folder that imported certificates are written into, while no process obtains others there.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, lchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lockgate_rules::CertKeyKind;
use rcgen::{KeyPair, PKCS_RSA_SHA256};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{FoundAccount, FoundCert};
use crate::authority::pem::pem;
use crate::keys;
use crate::leaf::{ChainError, Leaf};
use crate::private_file::owner_of_new_files;
use crate::schedule::Validity;
use crate::store::{AccountRecord, CertFolder, CertId, CertRecord, FolderLock};

/// Where certificates are imported to; no other process obtains certificates there meanwhile.
#[derive(Debug)]
pub struct ImportTarget {
    folder: CertFolder,
    wanted: Option<Vec<CertId>>,
    force: bool,
    _lock: FolderLock,
}

/// What came of one name of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The certificate of Lockgate.
    pub id: CertId,
    /// Its file.
    pub file: PathBuf,
    /// The time in which the found certificate is valid.
    pub validity: Validity,
    /// Whether it was written.
    pub result: ImportedAs,
}

/// Whether a certificate was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedAs {
    /// It was.
    Written,
    /// The same one is there.
    Present,
    /// One that is valid as long, or longer, is there and stays.
    OlderThanPresent,
}

impl ImportTarget {
    /// Opens the folder of certificates in a state folder, and makes it if it is missing. Only
    /// certificates of `wanted` are written; `None` writes one for each name. With `force` they are
    /// written also over newer ones. `None` while another process obtains certificates there.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(
        state: &Path,
        wanted: Option<Vec<CertId>>,
        force: bool,
    ) -> io::Result<Option<Self>> {
        let folder = CertFolder::of_state(state);
        let path = folder.path();
        for made in [state, path, &path.join("accounts")] {
            make_folder(made)?;
        }
        let Some(lock) = folder.lock()? else {
            return Ok(None);
        };
        give_to_owner(&path.join("lock"))?;
        Ok(Some(Self {
            folder,
            wanted,
            force,
            _lock: lock,
        }))
    }

    /// Writes a certificate for each of its names that is wanted; the result is never empty.
    ///
    /// # Errors
    /// The reason why it cannot be used at the time `now`, in words. What was written stays.
    pub fn add_cert(&self, found: &FoundCert, now: SystemTime) -> Result<Vec<Imported>, String> {
        let chain = chain_text(&found.chain)?;
        let leaf = Leaf::of_pem(chain.as_bytes()).map_err(|error| wrong(&error))?;
        let key = key_text(&found.key.0)?;
        let public = keys::public_key(&key).ok_or("its key cannot be read")?;
        let names: Vec<_> = leaf.names.iter().filter(|name| is_name(name)).collect();
        let first = names.first().ok_or("it has no DNS name")?;
        Leaf::of_chain(&chain, first, &public, now).map_err(|error| wrong(&error))?;
        let directory = found.directory.as_deref().unwrap_or_default();
        if is_for_trials(directory) && !self.force {
            return Err(format!("no client trusts it: it is of {directory}"));
        }
        let kind = match KeyPair::from_pem(&key) {
            Ok(pair) if *pair.algorithm() == PKCS_RSA_SHA256 => CertKeyKind::Rsa2048,
            _ => CertKeyKind::EcdsaP256,
        };
        let ids: Vec<_> = names
            .iter()
            .filter_map(|name| self.id(name, kind))
            .collect();
        if ids.is_empty() {
            let names: Vec<_> = names.into_iter().map(String::as_str).collect();
            let names = names.join(", ");
            return Err(format!(
                "the configuration wants no certificate for {names}"
            ));
        }
        let text = chain + &key;
        let write = |id| self.write(id, &leaf, &text, found.directory.as_ref());
        let written = ids.into_iter().map(write).collect::<io::Result<_>>();
        written.map_err(|error| error.to_string())
    }

    /// Writes an account, unless there is one at its directory.
    ///
    /// # Errors
    /// The reason why it was not written, in words.
    pub fn add_account(&self, found: &FoundAccount) -> Result<(), String> {
        if !found.directory.starts_with("https://") {
            return Err("its directory has no URL of HTTPS".to_owned());
        }
        let known = self.folder.account(&found.directory);
        if known.map_err(|error| error.to_string())?.is_some() {
            return Err("there is another account at this authority".to_owned());
        }
        let key = std::str::from_utf8(&found.key.0).map_err(|_| "its key is no PEM")?;
        let mut record = AccountRecord::new(found.directory.clone(), key.to_owned());
        record.url.clone_from(&found.url);
        record.email.clone_from(&found.email);
        let kept = self.folder.keep_account(&record);
        kept.map_err(|error| error.to_string())
    }

    /// The certificate of Lockgate for a name, if one is wanted: that with a key of this kind, or
    /// the other one, which is renewed with its own kind.
    fn id(&self, name: &str, kind: CertKeyKind) -> Option<CertId> {
        let Some(wanted) = &self.wanted else {
            return Some(CertId {
                name: name.to_owned(),
                key: CertKeyKind::EcdsaP256,
                on_demand: false,
            });
        };
        let of_name = || wanted.iter().filter(|id| id.name == name);
        let same = of_name().find(|id| id.key == kind);
        same.or_else(|| of_name().next()).cloned()
    }

    fn write(
        &self,
        id: CertId,
        leaf: &Leaf,
        text: &str,
        directory: Option<&String>,
    ) -> io::Result<Imported> {
        let present = self.folder.cert(&id)?;
        let present = present.and_then(|pem| Leaf::of_pem(&pem).ok());
        let present = present.filter(|present| present.names.contains(&id.name));
        let result = match &present {
            Some(present) if present.der == leaf.der => ImportedAs::Present,
            Some(present)
                if present.validity.not_after >= leaf.validity.not_after && !self.force =>
            {
                ImportedAs::OlderThanPresent
            }
            _ => {
                self.folder.keep_cert(&id, text)?;
                let mut record = CertRecord::default();
                record.directory = directory.cloned();
                record.order = self.folder.record(&id)?.order;
                self.folder.keep_record(&id, &record)?;
                ImportedAs::Written
            }
        };
        Ok(Imported {
            file: self.folder.cert_file(&id),
            id,
            validity: leaf.validity,
            result,
        })
    }
}

/// Makes a folder (0700) for the owner of the one that it is in.
fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => give_to_owner(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Root must not be led elsewhere by the owner of the folder around it.
            match fs::symlink_metadata(path)?.is_dir() {
                true => Ok(()),
                false => Err(io::Error::other(format!("{} is no folder", path.display()))),
            }
        }
        Err(error) => {
            let message = format!("{}: {error}", path.display());
            Err(io::Error::new(error.kind(), message))
        }
    }
}

/// Gives what root has made to the owner of its folder.
fn give_to_owner(path: &Path) -> io::Result<()> {
    let owner = path.parent().map(owner_of_new_files).transpose()?;
    match owner.flatten() {
        Some((user, group)) => lchown(path, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// The certificates of a text, without what else stands there.
fn chain_text(text: &[u8]) -> Result<String, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let chain = chain.map_err(|_| "its file is no PEM")?;
    Ok(chain.iter().map(|der| pem(der, "CERTIFICATE")).collect())
}

/// The first key of a text, without what else stands there.
fn key_text(text: &[u8]) -> Result<String, String> {
    let key = PrivateKeyDer::from_pem_slice(text).map_err(|_| "its key is no PEM")?;
    let label = match &key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    Ok(pem(key.secret_der(), label))
}

/// Whether a name is one of DNS, as files are named after: a certificate may have any text there.
fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        (1..=63).contains(&label.len())
            && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    rest.len() <= 253 && rest.split('.').all(is_label)
}

/// Whether a directory issues certificates for trials only.
fn is_for_trials(directory: &str) -> bool {
    ["letsencrypt-staging", "google-staging"]
        .into_iter()
        .filter_map(lockgate_rules::AcmeDirectory::known)
        .any(|known| known.url == directory)
}

fn wrong(error: &ChainError) -> String {
    match error {
        ChainError::NoCertificate => "its file has no certificate".to_owned(),
        ChainError::Malformed => "it is broken".to_owned(),
        ChainError::OtherKey => "its key is that of another certificate".to_owned(),
        ChainError::OtherNames(names) => format!("it is for other names: {names}"),
        ChainError::Expired => "it has expired".to_owned(),
        ChainError::Order(_) => "its chain is not in order".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_certificate_that_would_leave_the_folder_is_none() {
        for (name, expected) in [
            ("a.example.com", true),
            ("*.example.com", true),
            ("_sip.example.com", true),
            ("../../etc/passwd", false),
            ("a/b.example.com", false),
            ("a..b", false),
            (".pem", false),
            ("*", false),
            ("a.*.example.com", false),
            ("", false),
            ("é.example.com", false),
            ("A.example.com", false),
        ] {
            assert_eq!(is_name(name), expected, "{name}");
        }
        assert!(!is_name(&format!("{}.com", "a".repeat(64))));
    }
}
