//! The folder of an authority of our own, its files, and the lock that keeps two processes from
//! writing them at once.
//!
//! | file | what it has |
//! |---|---|
//! | `root.key` | the root's key, which is read only to sign an intermediate certificate |
//! | `root.pem` | the root certificate, which clients trust |
//! | `intermediate.pem` | the intermediate certificate and its key, which sign all others |
//! | `authority.json` | what the files have, for people; and the version of the folder |
//! | `lock` | nothing |
//!
//! The folder is 0700 and its files 0600. What root makes belongs to the owner of the folder above.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_http::date::Calendar;
use rcgen::KeyPair;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::ca_cert::CaCert;
use super::error::AuthorityError;
use super::pem::section;
use crate::private_file::{owner_of_new_files, read, replace_for_folder_owner};

/// The version of the folder that this program writes; it reads no later one.
const VERSION: u64 = 1;
/// The largest file, in bytes: an authority's certificate and key have a few hundred each.
const LARGEST: u64 = 64 << 10;
/// How long another process may have the lock: it needs some milliseconds to make all files.
const LOCK_TIME: Duration = Duration::from_secs(10);
/// The time between two tries for the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The folder of an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityFolder {
    path: PathBuf,
}

/// The right to write the files of an authority, until it is dropped.
#[derive(Debug)]
pub(super) struct AuthorityLock {
    _locked: File,
}

impl AuthorityFolder {
    /// The folder at `path`, which need not be there.
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the root certificate.
    pub fn root_file(&self) -> PathBuf {
        self.path.join("root.pem")
    }

    /// The file of the root's key. Only a new intermediate certificate needs it: it may be kept
    /// elsewhere meanwhile.
    pub fn root_key_file(&self) -> PathBuf {
        self.path.join("root.key")
    }

    /// The file of the intermediate certificate and its key.
    pub fn intermediate_file(&self) -> PathBuf {
        self.path.join("intermediate.pem")
    }

    /// The root certificate; nothing where there is no authority yet.
    ///
    /// # Errors
    /// What the system says of a file that exists; one that is no certificate of an authority; a
    /// folder of a newer Lockgate.
    pub fn root(&self) -> Result<Option<CaCert>, AuthorityError> {
        self.check_version()?;
        let file = self.root_file();
        let Some(bytes) = read(&file, LARGEST).map_err(AuthorityError::io(&file))? else {
            return Ok(None);
        };
        let der = section(&bytes, "CERTIFICATE");
        let der = der.ok_or_else(|| AuthorityError::damaged(&file, "it has no certificate"))?;
        let root = CaCert::parse(der).map_err(|why| AuthorityError::damaged(&file, why))?;
        Ok(Some(root))
    }

    /// The intermediate certificate, as long as `root` has signed it; nothing otherwise.
    ///
    /// # Errors
    /// What the system says of a file that exists.
    pub fn intermediate(&self, root: &CaCert) -> Result<Option<CaCert>, AuthorityError> {
        let found = self.intermediate_with_key(root)?;
        Ok(found.map(|(intermediate, _)| intermediate))
    }

    /// The intermediate certificate with its key, as long as both are whole, belong together and are
    /// of `root`; nothing otherwise, since both can be made anew.
    pub(super) fn intermediate_with_key(
        &self,
        root: &CaCert,
    ) -> Result<Option<(CaCert, KeyPair)>, AuthorityError> {
        let file = self.intermediate_file();
        let Some(bytes) = read(&file, LARGEST).map_err(AuthorityError::io(&file))? else {
            return Ok(None);
        };
        let cert = section(&bytes, "CERTIFICATE").and_then(|der| CaCert::parse(der).ok());
        let key = section(&bytes, "PRIVATE KEY").and_then(|der| KeyPair::try_from(der).ok());
        let both = cert.zip(key);
        Ok(both.filter(|(cert, key)| cert.is_signed_by(root) && cert.has_key(key)))
    }

    /// The root's key; nothing where it is not there.
    pub(super) fn root_key(&self) -> Result<Option<KeyPair>, AuthorityError> {
        let file = self.root_key_file();
        let Some(bytes) = read(&file, LARGEST).map_err(AuthorityError::io(&file))? else {
            return Ok(None);
        };
        let key = section(&bytes, "PRIVATE KEY").and_then(|der| KeyPair::try_from(der).ok());
        let key = key.ok_or_else(|| AuthorityError::damaged(&file, "it has no private key"))?;
        Ok(Some(key))
    }

    /// Makes the folder, if it is missing. The one above it must be there.
    pub(super) fn make(&self) -> Result<(), AuthorityError> {
        self.try_make().map_err(AuthorityError::io(&self.path))
    }

    fn try_make(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made?,
        }
        let above = self.path.parent().map(owner_of_new_files).transpose()?;
        match above.flatten() {
            Some((user, group)) => chown(&self.path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    /// Takes the lock, for which it waits while another process has it.
    pub(super) fn lock(&self) -> Result<AuthorityLock, AuthorityError> {
        for _ in 0..LOCK_TIME.as_millis() / LOCK_PAUSE.as_millis() {
            if let Some(lock) = self.try_lock()? {
                return Ok(lock);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Err(AuthorityError::LockHeld {
            path: self.lock_file(),
            seconds: LOCK_TIME.as_secs(),
        })
    }

    /// Takes the lock, unless another process has it.
    pub(super) fn try_lock(&self) -> Result<Option<AuthorityLock>, AuthorityError> {
        let file = self.lock_file();
        let opened = self.open_lock(&file).map_err(AuthorityError::io(&file))?;
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(AuthorityLock { _locked: opened })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(AuthorityError::io(&file)(error.into())),
        }
    }

    fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }

    fn open_lock(&self, file: &Path) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags)
            .open(file)?;
        if let Some((user, group)) = owner_of_new_files(&self.path)? {
            fchown(&opened, Some(user), Some(group))?;
        }
        Ok(opened)
    }

    pub(super) fn write_root_key(
        &self,
        _lock: &AuthorityLock,
        key: &KeyPair,
    ) -> Result<(), AuthorityError> {
        write(&self.root_key_file(), &key.serialize_pem())
    }

    pub(super) fn write_root(
        &self,
        _lock: &AuthorityLock,
        root: &CaCert,
    ) -> Result<(), AuthorityError> {
        write(&self.root_file(), &root.pem())
    }

    pub(super) fn write_intermediate(
        &self,
        _lock: &AuthorityLock,
        cert: &CaCert,
        key: &KeyPair,
    ) -> Result<(), AuthorityError> {
        write(
            &self.intermediate_file(),
            &(cert.pem() + &key.serialize_pem()),
        )
    }

    /// Writes what people read.
    pub(super) fn write_overview(
        &self,
        _lock: &AuthorityLock,
        root: &CaCert,
        intermediate: &CaCert,
    ) -> Result<(), AuthorityError> {
        write(&self.overview_file(), &overview(root, intermediate))
    }

    /// Whether what people read is there.
    pub(super) fn has_overview(&self, root: &CaCert, intermediate: &CaCert) -> bool {
        let found = read(&self.overview_file(), LARGEST).ok().flatten();
        found.is_some_and(|found| found == overview(root, intermediate).as_bytes())
    }

    fn overview_file(&self) -> PathBuf {
        self.path.join("authority.json")
    }

    /// A text that says nothing is written anew; one of a later version is not.
    fn check_version(&self) -> Result<(), AuthorityError> {
        let path = self.overview_file();
        let bytes = read(&path, LARGEST).map_err(AuthorityError::io(&path))?;
        let overview: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let version = overview.and_then(|overview| overview["version"].as_u64());
        match version {
            Some(version) if version > VERSION => Err(AuthorityError::Newer { path, version }),
            _ => Ok(()),
        }
    }
}

fn write(file: &Path, text: &str) -> Result<(), AuthorityError> {
    replace_for_folder_owner(file, text.as_bytes()).map_err(AuthorityError::io(file))
}

fn overview(root: &CaCert, intermediate: &CaCert) -> String {
    let overview = json!({
        "version": VERSION,
        "root": facts(root),
        "intermediate": facts(intermediate),
    });
    format!("{overview:#}\n")
}

fn facts(cert: &CaCert) -> Value {
    let period = cert.period();
    json!({
        "subject": cert.subject(),
        "sha256": cert.sha256(),
        "not_before": timestamp(period.not_before),
        "not_after": timestamp(period.not_after),
    })
}

/// The time in UTC, as in `2026-11-26T21:28:55Z` (RFC 3339).
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = Calendar::of_unix(since.as_secs());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        at.year, at.month, at.day, at.hour, at.minute, at.second
    )
}

/// The name of this machine, as far as it can stand in a certificate; empty where there is none.
pub(super) fn host_name() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || "-._".contains(*c);
    host.trim().chars().take_while(allowed).collect()
}
