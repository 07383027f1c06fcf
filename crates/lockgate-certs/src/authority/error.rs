//! What can be wrong with an authority of our own, or with a request to it.

use std::io;
use std::path::{Path, PathBuf};

use super::names::NameFault;

/// Why an authority cannot be opened, or does not issue a certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The system refused to read or write a file.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file is there but cannot be what it should be. It is never replaced: clients may trust it.
    #[error(
        "{}: {reason}: restore it from a backup, or move its folder away for a new authority, which clients must trust anew",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder was written by a later version of Lockgate.
    #[error("{}: it has version {version}, which only a newer Lockgate understands", path.display())]
    Newer {
        /// The file that says so.
        path: PathBuf,
        /// The version.
        version: u64,
    },
    /// A new intermediate certificate is needed, which only the root's key can sign.
    #[error(
        "{}: the root's key is not there, and a new intermediate certificate needs it: put it back until that is made",
        path.display()
    )]
    RootKeyMissing {
        /// Where the key should be.
        path: PathBuf,
    },
    /// The root certificate has expired.
    #[error(
        "{}: the root certificate has expired: move its folder away for a new authority, which clients must trust anew",
        path.display()
    )]
    RootExpired {
        /// The root certificate.
        path: PathBuf,
    },
    /// The clock of this machine cannot be right: certificates made by it would be valid for no client.
    #[error("the clock of this machine is wrong: {reason}")]
    Clock {
        /// How that is known.
        reason: &'static str,
    },
    /// Another process has the lock.
    #[error("{}: another process has held this lock for {seconds} s", path.display())]
    LockHeld {
        /// The file of the lock.
        path: PathBuf,
        /// How long this process has waited.
        seconds: u64,
    },
    /// The intermediate certificate ends too soon to issue anything.
    #[error("the intermediate certificate ends within a day, and certificates must not outlive it")]
    IntermediateEnds,
    /// A DNS name that no certificate can have.
    #[error("\"{}\" cannot be in a certificate: {fault}", name.escape_debug())]
    Name {
        /// The name as it was written.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// A certificate of a server needs a name or an address.
    #[error("a server's certificate needs a name or an address")]
    NoNames,
    /// More names and addresses than a certificate may have.
    #[error("{count} names and addresses are too many for a certificate: it may have {most}")]
    TooManyNames {
        /// The names and addresses that were asked for.
        count: usize,
        /// The most that are possible.
        most: usize,
    },
    /// A common name that is empty, too long, or has control characters (RFC 5280, appendix A.1).
    #[error("a client's name has 1 to 64 characters, and no control characters")]
    CommonName,
    /// A validity of less than an hour, or of more than [`super::LONGEST_LEAF`].
    #[error("a certificate is valid for an hour at least, and for 365 days at most")]
    Life,
    /// Keys or signatures could not be made: there is no randomness, or no memory.
    #[error("the certificate cannot be made: {0}")]
    Crypto(String),
}

impl AuthorityError {
    /// What the system said about `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io {
            path: path.to_owned(),
            error,
        }
    }

    /// A file that is not what it should be.
    pub(super) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// Whether this process lacks the right to read or write a file.
    pub fn is_permission_denied(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Crypto(error.to_string())
    }
}
