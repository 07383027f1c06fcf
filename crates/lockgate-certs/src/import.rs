//! Certificates and accounts that certbot, Caddy and Traefik have stored: they are read, checked and
//! written into a folder of certificates.
//!
//! The source is the operator's: links in it are followed, as those of certbot must be. What cannot
//! be used is reported and left out. Orders nothing, and changes nothing in the source.

mod caddy;
mod certbot;
mod keys;
mod target;
mod traefik;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use target::{ImportTarget, Imported, ImportedAs};

/// The largest file of one certificate, key or account, in bytes.
const LARGEST: u64 = 1 << 20;
/// The largest file with all of them (`acme.json` of Traefik).
const LARGEST_WHOLE: u64 = 64 << 20;
/// The most entries of a folder that are looked at.
const MOST_ENTRIES: usize = 20_000;

/// The program that has stored certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportSource {
    /// certbot: `/etc/letsencrypt`.
    Certbot,
    /// Caddy: `/var/lib/caddy/.local/share/caddy`.
    Caddy,
    /// Traefik: `acme.json`.
    Traefik,
}

/// A certificate as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCert {
    /// Where it was found.
    pub place: String,
    chain: Vec<u8>,
    key: SecretText,
    directory: Option<String>,
}

/// An account as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAccount {
    /// Where it was found.
    pub place: String,
    directory: String,
    url: Option<String>,
    email: Option<String>,
    /// In PKCS#8 and PEM.
    key: SecretText,
}

/// What cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Where it was found.
    pub place: String,
    /// Why it cannot be used.
    pub why: String,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundCerts {
    /// Certificates with their keys.
    pub certs: Vec<FoundCert>,
    /// Accounts whose keys can be used.
    pub accounts: Vec<FoundAccount>,
    /// What cannot be used.
    pub skipped: Vec<SkippedEntry>,
}

/// A key that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
struct SecretText(Vec<u8>);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl ImportSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Certbot, Self::Caddy, Self::Traefik];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certbot => "certbot",
            Self::Caddy => "caddy",
            Self::Traefik => "traefik",
        }
    }

    /// The program that has written `path`, by what is there.
    pub fn of_path(path: &Path) -> Option<Self> {
        if path.is_file() {
            return Some(Self::Traefik);
        }
        let has = |folder: &str| path.join(folder).is_dir();
        match () {
            () if has("live") => Some(Self::Certbot),
            () if has("certificates") => Some(Self::Caddy),
            () if path.join("acme.json").is_file() => Some(Self::Traefik),
            () => None,
        }
    }

    /// Reads what is stored at `path`: the folder of certbot or Caddy, the file of Traefik or its
    /// folder.
    ///
    /// # Errors
    /// When there is no such folder or file, or it is another program's. What is wrong with one
    /// certificate is no error.
    pub fn read(self, path: &Path) -> io::Result<FoundCerts> {
        match self {
            Self::Certbot => certbot::read(path),
            Self::Caddy => caddy::read(path),
            Self::Traefik => traefik::read(path),
        }
    }
}

impl FoundCerts {
    fn skip(&mut self, place: impl fmt::Display, why: impl fmt::Display) {
        self.skipped.push(SkippedEntry {
            place: place.to_string(),
            why: why.to_string(),
        });
    }
}

/// Reads a file of up to `most` bytes; links are followed, pipes are not waited for.
fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let with_path = |error: io::Error| {
        let message = format!("{}: {error}", path.display());
        io::Error::new(error.kind(), message)
    };
    let metadata = fs::metadata(path).map_err(with_path)?;
    if !metadata.is_file() {
        return Err(with_path(io::Error::other("no regular file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(with_path)?;
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(with_path)?;
    if bytes.len() as u64 > most {
        let message = format!("larger than {most} bytes");
        return Err(with_path(io::Error::other(message)));
    }
    Ok(bytes)
}

/// The folders in a folder, by name; none where it does not exist.
fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(entries_in(folder)?
        .into_iter()
        .filter(|path| path.is_dir())
        .collect())
}

fn entries_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let message = format!("{}: {error}", folder.display());
            return Err(io::Error::new(error.kind(), message));
        }
    };
    let paths = entries
        .take(MOST_ENTRIES)
        .map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<_> = paths.collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// The last part of a path, as text.
fn last_part(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
