//! An authority of our own, for names and addresses that no public authority certifies, and for
//! clients: a root certificate that people trust, an intermediate certificate, and what that issues.
//!
//! Keeps no list of what it issued and revokes nothing: certificates that are renewed by themselves
//! end within days. Writes only the files of [`AuthorityFolder`]; certificates are the caller's to keep.
//!
//! The root has no name constraints (RFC 5280 §4.2.1.10): which names a machine will serve is not known
//! when it is made, and it may be trusted for ten years. Instead its certificates are good for TLS only,
//! its key is never in memory but while it signs, and it may be kept elsewhere.

mod ca_cert;
mod error;
mod folder;
mod leaf;
mod names;
pub(crate) mod pem;
mod period;

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use folder::AuthorityLock;
use rcgen::{Issuer, KeyPair};

pub use ca_cert::CaCert;
pub use error::AuthorityError;
pub use folder::AuthorityFolder;
pub use leaf::{IssuedCert, LeafRequest, LeafUsage, MOST_NAMES};
pub use names::{NameFault, certificate_name};
pub use pem::KeyPem;
pub use period::{LEAF_LIFE, LONGEST_LEAF, ValidityPeriod};

/// What the intermediate certificate must have left to issue anything.
const LEAST_LEFT: Duration = Duration::from_secs(86_400);

/// An authority that can issue certificates. `Debug` shows no key.
pub struct Authority {
    folder: AuthorityFolder,
    root: CaCert,
    intermediate: CaCert,
    issuer: Issuer<'static, KeyPair>,
    origin: AuthorityOrigin,
}

/// What [`Authority::open_or_create`] has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorityOrigin {
    /// Nothing: all was there.
    Found,
    /// An intermediate certificate, since there was none that can be used.
    NewIntermediate,
    /// Everything.
    NewRoot,
}

impl Authority {
    /// Opens the authority in `folder`, and makes what is missing: the folder itself (0700), but not the
    /// one above it; a root certificate for ten years; an intermediate certificate for three.
    ///
    /// A root certificate that is there is never replaced. A kill between any two steps leaves files from
    /// which the next call goes on. Of two processes on the same folder, one makes the files and the
    /// other takes them.
    ///
    /// An authority that is whole is only read. Otherwise this takes as long as the disk does to write
    /// five small files, and up to 10 s while another process has the lock.
    ///
    /// # Errors
    /// What the system says; files that cannot be what they should be; a root that has expired; a clock
    /// that cannot be right; a missing key of the root where a new intermediate certificate is needed.
    pub fn open_or_create(folder: &Path, now: SystemTime) -> Result<Self, AuthorityError> {
        let folder = AuthorityFolder::at(folder);
        if let Some(whole) = Self::read(&folder, now, AuthorityOrigin::Found)? {
            whole.describe(None);
            return Ok(whole);
        }
        // What begins by a wrong clock would be valid for no client.
        ValidityPeriod::from_now(now, LEAF_LIFE)?;
        folder.make()?;
        let lock = folder.lock()?;
        let (root, origin) = match folder.root()? {
            Some(root) => (root, AuthorityOrigin::NewIntermediate),
            None => (make_root(&folder, &lock, now)?, AuthorityOrigin::NewRoot),
        };
        // Another process may have made it meanwhile.
        if let Some(whole) = Self::read(&folder, now, AuthorityOrigin::Found)? {
            whole.describe(Some(&lock));
            return Ok(whole);
        }
        let made = Self::with_new_intermediate(folder, &lock, root, now, origin)?;
        made.describe(Some(&lock));
        Ok(made)
    }

    /// The authority in `folder`, if its files are whole and valid.
    fn read(
        folder: &AuthorityFolder,
        now: SystemTime,
        origin: AuthorityOrigin,
    ) -> Result<Option<Self>, AuthorityError> {
        let Some(root) = folder.root()? else {
            return Ok(None);
        };
        if now < root.period().not_before {
            let reason = "the root certificate is not valid yet";
            return Err(AuthorityError::Clock { reason });
        }
        if now > root.period().not_after {
            let path = folder.root_file();
            return Err(AuthorityError::RootExpired { path });
        }
        let found = folder.intermediate_with_key(&root)?;
        let Some((intermediate, key)) = found.filter(|(cert, _)| cert.period().contains(now))
        else {
            return Ok(None);
        };
        let issuer = intermediate.issuer(key)?;
        Ok(Some(Self {
            folder: folder.clone(),
            root,
            intermediate,
            issuer,
            origin,
        }))
    }

    fn with_new_intermediate(
        folder: AuthorityFolder,
        lock: &AuthorityLock,
        root: CaCert,
        now: SystemTime,
        origin: AuthorityOrigin,
    ) -> Result<Self, AuthorityError> {
        let root_key = folder
            .root_key()?
            .ok_or_else(|| AuthorityError::RootKeyMissing {
                path: folder.root_key_file(),
            })?;
        if !root.has_key(&root_key) {
            let path = folder.root_key_file();
            let reason = "it is not the key of the root certificate";
            return Err(AuthorityError::damaged(&path, reason));
        }
        let root_issuer = root.issuer(root_key)?;
        let key = ca_cert::new_key()?;
        let intermediate = ca_cert::new_intermediate(&key, &root, &root_issuer, now)?;
        folder.write_intermediate(lock, &intermediate, &key)?;
        let issuer = intermediate.issuer(key)?;
        Ok(Self {
            folder,
            root,
            intermediate,
            issuer,
            origin,
        })
    }

    /// Writes what people read about the files, unless it is there. Certificates are
    /// issued also where it cannot be written: the disk may be full or read-only.
    fn describe(&self, lock: Option<&AuthorityLock>) {
        if self.folder.has_overview(&self.root, &self.intermediate) {
            return;
        }
        let taken = match lock {
            Some(_) => None,
            None => self.folder.try_lock().ok().flatten(),
        };
        if let Some(lock) = lock.or(taken.as_ref()) {
            let (root, intermediate) = (&self.root, &self.intermediate);
            let _ = self.folder.write_overview(lock, root, intermediate);
        }
    }

    /// Whether [`Self::renew`] would make a new intermediate certificate: a third of its time is left,
    /// and the root does not end with it.
    pub fn is_renewal_due(&self, now: SystemTime) -> bool {
        let period = self.intermediate.period();
        now >= period.renew_at() && period.not_after < self.root.period().not_after
    }

    /// Renews the intermediate certificate if that is due; returns whether there is a new one, made by
    /// this process or by another one. Certificates of the old one stay valid.
    ///
    /// # Errors
    /// As [`Self::open_or_create`]. The old one stays, and issues as long as it is valid.
    pub fn renew(&mut self, now: SystemTime) -> Result<bool, AuthorityError> {
        if !self.is_renewal_due(now) {
            return Ok(false);
        }
        let lock = self.folder.lock()?;
        let found = Self::read(&self.folder, now, self.origin)?;
        let renewed = match found.filter(|found| !found.is_renewal_due(now)) {
            Some(found) => found,
            None => {
                let (folder, root) = (self.folder.clone(), self.root.clone());
                Self::with_new_intermediate(folder, &lock, root, now, self.origin)?
            }
        };
        *self = renewed;
        self.describe(Some(&lock));
        Ok(true)
    }

    /// Issues a certificate. Takes some 100 µs with a key of ECDSA, up to a second with one of RSA.
    ///
    /// # Errors
    /// A name, a number of names or a validity that is not possible; an intermediate certificate that
    /// ends within a day; a clock that cannot be right.
    pub fn issue(
        &self,
        request: &LeafRequest,
        now: SystemTime,
    ) -> Result<IssuedCert, AuthorityError> {
        let period = self.intermediate.period();
        if now < period.not_before {
            let reason = "the intermediate certificate is not valid yet";
            return Err(AuthorityError::Clock { reason });
        }
        if now > period.not_after - LEAST_LEFT {
            return Err(AuthorityError::IntermediateEnds);
        }
        leaf::issue(request, &self.intermediate, &self.issuer, now)
    }

    /// The root certificate, which clients must trust.
    pub fn root(&self) -> &CaCert {
        &self.root
    }

    /// The intermediate certificate, which peers get with what it has issued.
    pub fn intermediate(&self) -> &CaCert {
        &self.intermediate
    }

    /// The folder of its files.
    pub fn folder(&self) -> &AuthorityFolder {
        &self.folder
    }

    /// What was made when it was opened.
    pub fn origin(&self) -> AuthorityOrigin {
        self.origin
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("folder", &self.folder)
            .field("root", &self.root.subject())
            .field("intermediate", &self.intermediate.subject())
            .finish_non_exhaustive()
    }
}

/// Makes a root certificate: its key first, which a later call takes where this one is killed.
fn make_root(
    folder: &AuthorityFolder,
    lock: &AuthorityLock,
    now: SystemTime,
) -> Result<CaCert, AuthorityError> {
    let key = match folder.root_key()? {
        Some(key) => key,
        None => {
            let key = ca_cert::new_key()?;
            folder.write_root_key(lock, &key)?;
            key
        }
    };
    let root = ca_cert::new_root(&key, &folder::host_name(), now)?;
    folder.write_root(lock, &root)?;
    Ok(root)
}

#[cfg(test)]
mod tests;
