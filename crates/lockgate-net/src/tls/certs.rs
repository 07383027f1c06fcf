//! One certificate: loaded from its files, matched with its key, described for the operator.
//!
//! Does not choose between certificates: see `cert_store`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SigningKey};

use super::cert_files::CertFiles;
use super::error::{CertError, Warning};
use super::file_stamp::{FileStamp, stamp};
use super::ocsp;
use super::pem::{self, PemFile};
use super::private_key::{self, public_half};
use super::x509::{self, CertFacts, system_time};

impl CertFiles {
    /// Whether the file has only certificates of authorities, and no key is in it or beside it: a
    /// file for verification, which a pattern such as `/etc/tls/*.pem` matches too.
    pub fn are_authorities(&self) -> bool {
        let Ok(file) = PemFile::read(&self.cert) else {
            return false;
        };
        let has_no_key = matches!(private_key::find(self, &file), Err(CertError::NoKey { .. }));
        has_no_key && x509::are_authorities(&file.certificates, &self.cert)
    }
}

/// A certificate with its chain and key, ready for clients.
#[derive(Debug)]
pub(super) struct Certificate {
    files: CertFiles,
    key_path: PathBuf,
    pub(super) facts: CertFacts,
    plain: Arc<CertifiedKey>,
    staple: Option<StapledKey>,
    warnings: Vec<Warning>,
    stamps: Vec<(PathBuf, Option<FileStamp>)>,
}

/// The same certificate with an OCSP response, and the second since 1970 when that expires.
#[derive(Debug)]
struct StapledKey {
    key: Arc<CertifiedKey>,
    until: Option<i64>,
}

impl Certificate {
    /// Loads a certificate, its key and its OCSP response.
    ///
    /// # Errors
    /// See [`CertError`]. An expired certificate is no error: see [`Certificate::warnings`].
    pub(super) fn load(files: &CertFiles) -> Result<Self, CertError> {
        let first =
            |errors: Vec<CertError>| errors.into_iter().next().expect("a failure has an error");
        UnmatchedCert::read(files).map_err(first)?.join(|_| None)
    }

    /// The chain and its key.
    pub(super) fn for_clients(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.plain)
    }

    /// The entry of the settings it was read from.
    pub(super) fn files(&self) -> &CertFiles {
        &self.files
    }

    /// The file that the private key was read from.
    pub(super) fn key_path(&self) -> &Path {
        &self.key_path
    }

    /// All files of the certificate: certificate, OCSP response, key if it has its own.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.stamps.iter().map(|(path, _)| path.as_path())
    }

    /// The warnings at the time `now`.
    pub(super) fn warnings(&self, now: SystemTime) -> Vec<Warning> {
        let mut warnings: Vec<_> = self.validity_warning(now).into_iter().collect();
        warnings.extend(self.warnings.iter().cloned());
        if let (Some(staple), Some(ocsp)) = (&self.staple, &self.files.ocsp)
            && !staple.is_current(now)
        {
            warnings.push(Warning::OcspOutOfDate { ocsp: ocsp.clone() });
        }
        warnings
    }

    fn validity_warning(&self, now: SystemTime) -> Option<Warning> {
        const SOON: Duration = Duration::from_secs(14 * DAY);
        let cert = self.files.cert.clone();
        if let Ok(since) = now.duration_since(self.facts.not_after) {
            return Some(Warning::Expired {
                cert,
                days: since.as_secs() / DAY,
            });
        }
        if let Ok(until) = self.facts.not_before.duration_since(now)
            && !until.is_zero()
        {
            return Some(Warning::NotYetValid {
                cert,
                days: until.as_secs() / DAY,
            });
        }
        let left = self.facts.not_after.duration_since(now).unwrap_or_default();
        (left <= SOON).then_some(Warning::ExpiresSoon {
            cert,
            days: left.as_secs() / DAY,
        })
    }

    /// Whether an OCSP response is stapled at the time `now`.
    pub(super) fn is_stapled(&self, now: SystemTime) -> bool {
        self.staple
            .as_ref()
            .is_some_and(|staple| staple.is_current(now))
    }

    /// The certificate to send: with the OCSP response while that is fresh, because clients take a
    /// stale one for an attack.
    pub(super) fn certified_key(&self) -> &Arc<CertifiedKey> {
        match &self.staple {
            Some(staple) if staple.is_current(SystemTime::now()) => &staple.key,
            _ => &self.plain,
        }
    }

    /// Whether any of its files has changed since it was loaded.
    pub(super) fn is_outdated(&self) -> bool {
        self.stamps
            .iter()
            .any(|(path, before)| stamp(path).ok() != *before)
    }
}

impl StapledKey {
    fn is_current(&self, now: SystemTime) -> bool {
        self.until.is_none_or(|until| now < system_time(until))
    }
}

/// A certificate and a key that are not matched yet: the store reads all certificates first, so
/// that an error can name the owner of a stray key.
pub(super) struct UnmatchedCert {
    files: CertFiles,
    chain: ParsedChain,
    keys: Vec<Arc<dyn SigningKey>>,
    key_path: PathBuf,
    ocsp: Option<(Vec<u8>, Vec<ocsp::SingleResponse>)>,
    stamps: Vec<(PathBuf, Option<FileStamp>)>,
}

impl UnmatchedCert {
    /// Reads all files of a certificate.
    ///
    /// # Errors
    /// One per faulty file: at least one.
    pub(super) fn read(files: &CertFiles) -> Result<Self, Vec<CertError>> {
        // Stamps are taken before reading, so that a change in between is noticed later.
        let mut stamps = vec![stamped(&files.cert)];
        stamps.extend(files.ocsp.iter().map(|path| stamped(path)));
        let file = PemFile::read(&files.cert);
        let keys = match (&files.key, &file) {
            (Some(path), _) => private_key::named(path, &files.cert).map(Some),
            (None, Ok(file)) => private_key::find(files, file).map(Some),
            // The key may be in the file that cannot be read.
            (None, Err(_)) => Ok(None),
        };
        let chain = file.and_then(|file| ParsedChain::of(file, &files.cert));
        let ocsp = files.ocsp.as_deref().map(read_ocsp).transpose();
        let (mut chain, (key_path, keys), ocsp) = match (chain, keys, ocsp) {
            (Ok(chain), Ok(Some(keys)), Ok(ocsp)) => (chain, keys, ocsp),
            (chain, keys, ocsp) => {
                let errors = [chain.err(), keys.err(), ocsp.err()];
                return Err(errors.into_iter().flatten().collect());
            }
        };
        if key_path != files.cert {
            stamps.push(stamped(&key_path));
        }
        let warning = private_key::readable_by_others(&key_path);
        chain.warnings.extend(warning);
        Ok(Self {
            files: files.clone(),
            chain,
            keys,
            key_path,
            ocsp,
            stamps,
        })
    }

    pub(super) fn public_key(&self) -> &[u8] {
        &self.chain.facts.public_key
    }

    /// Matches certificate and key; `owner_of` names the certificate that has a public key.
    pub(super) fn join(
        self,
        owner_of: impl Fn(&[u8]) -> Option<PathBuf>,
    ) -> Result<Certificate, CertError> {
        let belongs = |public: &[u8]| {
            self.keys
                .iter()
                .find(|key| public_half(key).as_deref() == Some(public))
        };
        let Some(key) = belongs(self.public_key()).cloned() else {
            return Err(self.mismatch(owner_of));
        };
        let ParsedChain {
            chain,
            facts,
            mut warnings,
            ..
        } = self.chain;
        let plain = CertifiedKey::new(chain, key);
        let staple = self.ocsp.and_then(|(bytes, answers)| {
            match answers.iter().find(|answer| answer.serial == facts.serial) {
                Some(answer) => {
                    let key = Arc::new(CertifiedKey {
                        ocsp: Some(bytes),
                        ..plain.clone()
                    });
                    Some(StapledKey {
                        key,
                        until: answer.next_update,
                    })
                }
                None => {
                    let ocsp = self.files.ocsp.clone().unwrap_or_default();
                    warnings.push(Warning::OcspOfAnother {
                        cert: self.files.cert.clone(),
                        ocsp,
                    });
                    None
                }
            }
        });
        Ok(Certificate {
            files: self.files,
            key_path: self.key_path,
            facts,
            plain: Arc::new(plain),
            staple,
            warnings,
            stamps: self.stamps,
        })
    }

    fn mismatch(&self, owner_of: impl Fn(&[u8]) -> Option<PathBuf>) -> CertError {
        let publics: Vec<_> = self.keys.iter().filter_map(public_half).collect();
        let inside = self
            .chain
            .keys
            .iter()
            .position(|public| publics.contains(public));
        if let Some(index) = inside {
            return CertError::LeafNotFirst {
                path: self.files.cert.clone(),
                position: index + 1,
            };
        }
        let owner = publics.iter().find_map(|public| owner_of(public));
        CertError::Mismatch {
            cert: self.files.cert.clone(),
            key: self.key_path.clone(),
            owner,
        }
    }
}

/// A certificate with its chain, before its key is known.
struct ParsedChain {
    chain: Vec<CertificateDer<'static>>,
    facts: CertFacts,
    /// The public keys of the chain.
    keys: Vec<Vec<u8>>,
    warnings: Vec<Warning>,
}

impl ParsedChain {
    fn of(file: PemFile, path: &Path) -> Result<Self, CertError> {
        let chain = file.require_certificates(path)?.to_vec();
        let parsed = x509::parse_chain(&chain, path)?;
        let (facts, warnings) = (
            CertFacts::of(&parsed[0], path)?,
            x509::chain_warnings(&parsed, path),
        );
        let keys = parsed
            .iter()
            .map(|parsed| parsed.public_key().raw.to_vec())
            .collect();
        Ok(Self {
            facts,
            keys,
            warnings,
            chain,
        })
    }
}

fn read_ocsp(path: &Path) -> Result<(Vec<u8>, Vec<ocsp::SingleResponse>), CertError> {
    let bytes = pem::read_bytes(path)?;
    let answers = ocsp::parse(&bytes).map_err(|reason| CertError::BadOcsp {
        path: path.to_owned(),
        reason,
    })?;
    Ok((bytes, answers))
}

fn stamped(path: &Path) -> (PathBuf, Option<FileStamp>) {
    (path.to_owned(), stamp(path).ok())
}

const DAY: u64 = 24 * 60 * 60;
