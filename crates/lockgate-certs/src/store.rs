//! The folder in which certificates, their keys, accounts and the state of orders are kept.
//!
//! ```text
//! lock                       held by the process that orders
//! accounts/URL.json          the account at an authority, with its key
//! example.com.pem            the chain, then its key: what listeners read
//! example.com.json           what a later process must know
//! example.com.key            the key of an order that is under way
//! internal/box.lan.pem       the chain of our own authority, then its key
//! on-demand/…                the same files of names that clients have asked for
//! ```
//!
//! A wildcard is `_wildcard.example.com`; a certificate with an RSA key `example.com.rsa2048`. All
//! files are 0600, and are replaced whole. Decides nothing.

mod listing;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_lc_rs::digest::{SHA256, digest};
use lockgate_dns::PublishedRecord;
use lockgate_rules::CertKeyKind;
use lockgate_rules::on_demand::is_certifiable_name;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::private_file;

/// The largest of the files, in bytes.
const LARGEST: u64 = 1 << 20;
/// The longest name of a file, without its extension: names may have 255 bytes with it.
const LONGEST: usize = 200;
/// The version of the JSON files.
const VERSION: u32 = 1;

/// The folder of certificates.
#[derive(Debug, Clone)]
pub struct CertFolder {
    path: PathBuf,
}

/// The right to order, of one process at a time.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

/// The identity of a certificate: its name, and the kind of its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CertId {
    /// The DNS name in lower case, or `*.` and one.
    pub name: String,
    /// The kind of its key.
    pub key: CertKeyKind,
    /// Whether it was obtained when a client asked for it.
    pub on_demand: bool,
}

/// The identity of a certificate of our own authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafFile<'a> {
    /// That for a DNS name.
    Name(&'a str),
    /// That for addresses, by the first of them.
    Address(IpAddr),
}

/// What is kept of a certificate beside its PEM file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CertRecord {
    version: u32,
    /// The directory that has issued it.
    pub(crate) directory: Option<String>,
    /// The profile that it was ordered with.
    pub(crate) profile: Option<String>,
    /// The challenge by which its name was proved.
    pub(crate) challenge: Option<String>,
    /// When it was obtained.
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) obtained: Option<OffsetDateTime>,
    /// The order that is under way.
    pub(crate) order: Option<OrderRecord>,
    /// When the authority wants it to be renewed.
    pub(crate) renewal: Option<RenewalRecord>,
    /// When the certificate was revoked, while there is no new one.
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) revoked: Option<OffsetDateTime>,
    /// The failures since the last success.
    pub(crate) failures: Option<FailureRecord>,
    /// The TXT records that were written and not removed since.
    pub(crate) dns: Vec<PublishedRecord>,
}

/// An order that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OrderRecord {
    /// The directory.
    pub(crate) directory: String,
    /// The URL of the order.
    pub(crate) url: String,
    /// The profile that it is for.
    #[serde(default)]
    pub(crate) profile: Option<String>,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) begun: OffsetDateTime,
}

/// When the authority wants a certificate to be renewed (RFC 9773 §4.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RenewalRecord {
    /// The begin of the window, if the authority has told one.
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) start: Option<OffsetDateTime>,
    /// Its end.
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) end: Option<OffsetDateTime>,
    /// Why, as a page of the authority.
    pub(crate) explanation: Option<String>,
    /// When the authority is asked next.
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) next_check: OffsetDateTime,
}

/// Failures since the last success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailureRecord {
    /// How many.
    pub(crate) count: u32,
    /// When the last one was.
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) last: OffsetDateTime,
    /// Its kind.
    pub(crate) kind: String,
    /// Its message.
    pub(crate) message: String,
    /// The directories that have told when to try again.
    pub(crate) pauses: Vec<PauseRecord>,
}

/// The time before which a directory wants no other request for a certificate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PauseRecord {
    /// The directory.
    pub(crate) directory: String,
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) until: OffsetDateTime,
}

/// An account at an authority.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AccountRecord {
    version: u32,
    /// The directory.
    pub(crate) directory: String,
    /// The account's URL, once it was made.
    pub(crate) url: Option<String>,
    /// The address that the authority has.
    pub(crate) email: Option<String>,
    /// The key, in PKCS#8 and PEM.
    pub(crate) key: String,
}

impl FailureRecord {
    /// The time before which a directory wants no other try, if it has told one.
    pub(crate) fn pause(&self, directory: &str) -> Option<SystemTime> {
        let mut pauses = self.pauses.iter();
        let pause = pauses.find(|pause| pause.directory == directory)?;
        Some(pause.until.into())
    }
}

impl CertId {
    fn file_name(&self) -> String {
        let folder = if self.on_demand { "on-demand/" } else { "" };
        let name = cert_file_name(&self.name);
        match self.key {
            CertKeyKind::EcdsaP256 => format!("{folder}{name}"),
            kind => format!("{folder}{name}.{}", kind.name()),
        }
    }
}

impl AccountRecord {
    pub(crate) fn new(directory: String, key: String) -> Self {
        Self {
            version: VERSION,
            directory,
            url: None,
            email: None,
            key,
        }
    }
}

impl CertFolder {
    /// The folder of certificates in a state folder.
    pub fn of_state(state: &Path) -> Self {
        let path = state.join("certs");
        Self { path }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a trial, which holds nothing for long.
    pub(crate) fn for_trials(&self) -> Self {
        let path = self.path.join("trial");
        Self { path }
    }

    /// The PEM file of a certificate: its chain, then its key.
    pub fn cert_file(&self, id: &CertId) -> PathBuf {
        self.file(id, "pem")
    }

    /// The PEM file of a certificate of our own authority: its chain, then its key.
    pub fn leaf_file(&self, leaf: &LeafFile<'_>) -> PathBuf {
        let name = match leaf {
            LeafFile::Name(name) => cert_file_name(name),
            LeafFile::Address(address) => address.to_string().replace(':', "_"),
        };
        self.path.join("internal").join(format!("{name}.pem"))
    }

    /// The certificates that were obtained on demand, in no order. One of a name that the file system
    /// was too narrow for is not among them: it is obtained anew when a client asks for it.
    pub fn on_demand_certs(&self) -> Vec<CertId> {
        let Ok(entries) = fs::read_dir(self.path.join("on-demand")) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| {
            let file = entry.ok()?.file_name().into_string().ok()?;
            let id = CertId::of_file_name(&file).filter(|_| file.ends_with(".pem"))?;
            let on_demand = true;
            is_certifiable_name(&id.name).then_some(CertId { on_demand, ..id })
        });
        names.collect()
    }

    /// Makes the folder (0700) if it is missing.
    ///
    /// # Errors
    /// What the system says.
    pub fn prepare(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(self.path.join("accounts"))?;
        builder.create(self.path.join("internal"))?;
        builder.create(self.path.join("on-demand"))
    }

    /// Takes the right to order; nothing while another process has it.
    ///
    /// # Errors
    /// What the system says.
    pub fn lock(&self) -> io::Result<Option<FolderLock>> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(self.path.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FolderLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is kept of a certificate; an empty record where nothing is, or nothing that can be read.
    ///
    /// # Errors
    /// What the system says of a file that exists.
    pub(crate) fn record(&self, id: &CertId) -> io::Result<CertRecord> {
        let read = private_file::read(&self.file(id, "json"), LARGEST)?;
        let record: Option<CertRecord> = read.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(record
            .filter(|record| record.version == VERSION)
            .unwrap_or_default())
    }

    pub(crate) fn keep_record(&self, id: &CertId, record: &CertRecord) -> io::Result<()> {
        let mut record = record.clone();
        record.version = VERSION;
        self.keep_json(&self.file(id, "json"), &record)
    }

    /// The PEM file of a certificate, if there is one.
    pub(crate) fn cert(&self, id: &CertId) -> io::Result<Option<Vec<u8>>> {
        private_file::read(&self.cert_file(id), LARGEST)
    }

    /// Removes all that is kept of a certificate.
    pub(crate) fn remove(&self, id: &CertId) -> io::Result<()> {
        for extension in ["pem", "json", "key"] {
            private_file::remove(&self.file(id, extension))?;
        }
        Ok(())
    }

    pub(crate) fn keep_cert(&self, id: &CertId, pem: &str) -> io::Result<()> {
        private_file::replace_for_folder_owner(&self.cert_file(id), pem.as_bytes())
    }

    /// The key of the order that is under way, if there is one.
    pub(crate) fn pending_key(&self, id: &CertId) -> io::Result<Option<String>> {
        let read = private_file::read(&self.file(id, "key"), LARGEST)?;
        Ok(read.and_then(|text| String::from_utf8(text).ok()))
    }

    pub(crate) fn keep_pending_key(&self, id: &CertId, pem: &str) -> io::Result<()> {
        private_file::replace_for_folder_owner(&self.file(id, "key"), pem.as_bytes())
    }

    pub(crate) fn remove_pending_key(&self, id: &CertId) -> io::Result<()> {
        private_file::remove(&self.file(id, "key"))
    }

    /// The account at the authority with this directory's URL, if there is one.
    pub(crate) fn account(&self, url: &str) -> io::Result<Option<AccountRecord>> {
        let Some(text) = private_file::read(&self.account_file(url), LARGEST)? else {
            return Ok(None);
        };
        let record: AccountRecord = serde_json::from_slice(&text).map_err(io::Error::other)?;
        Ok(Some(record))
    }

    pub(crate) fn keep_account(&self, record: &AccountRecord) -> io::Result<()> {
        self.keep_json(&self.account_file(&record.directory), record)
    }

    /// Puts an account aside that the authority does not accept any more.
    pub(crate) fn retire_account(&self, url: &str) -> io::Result<()> {
        let file = self.account_file(url);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        fs::rename(&file, file.with_extension(format!("json.refused-{now}")))
    }

    fn account_file(&self, url: &str) -> PathBuf {
        let name: String = url
            .trim_start_matches("https://")
            .chars()
            .map(|char| match char {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => char,
                _ => '_',
            })
            .collect();
        let file = format!("{}.json", file_name(&name));
        self.path.join("accounts").join(file)
    }

    fn file(&self, id: &CertId, extension: &str) -> PathBuf {
        self.path.join(format!("{}.{extension}", id.file_name()))
    }

    fn keep_json(&self, path: &Path, record: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(record)?;
        text.push(b'\n');
        private_file::replace_for_folder_owner(path, &text)
    }
}

/// The file name for a DNS name.
fn cert_file_name(name: &str) -> String {
    match name.strip_prefix("*.") {
        Some(parent) => file_name(&format!("_wildcard.{parent}")),
        None => file_name(name),
    }
}

/// A name that the file system takes: one that is too long ends in its hash.
fn file_name(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let hash = digest(&SHA256, name.as_bytes());
    let hash: String = hash
        .as_ref()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let start: String = name.chars().take(LONGEST - 40).collect();
    format!("{start}~{hash}")
}

#[cfg(test)]
mod tests;
