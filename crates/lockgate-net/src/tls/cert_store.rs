//! The certificates of one listener, by SNI.
//!
//! Running listeners see a swap at once, because they read the table at every handshake. Does not
//! watch files: the supervisor calls [`CertStore::reload`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::cert_files::CertFiles;
use super::certs::{Certificate, UnmatchedCert};
use super::error::{CertError, TlsSetupError, Warning};
use super::x509::CertFacts;

/// Certificates by SNI: exact names before wildcards of one label, then a default or none.
pub struct CertStore {
    table: ArcSwap<CertTable>,
}

/// The result of a reload. Entries of `failed` have changed nothing.
#[derive(Debug, Default)]
pub struct ReloadReport {
    /// The files of reloaded certificates and CA lists.
    pub changed: Vec<PathBuf>,
    /// The errors; the current certificates stay.
    pub failed: Vec<TlsSetupError>,
    /// The warnings about current certificates, if any was reloaded.
    pub warnings: Vec<Warning>,
}

/// One certificate of a listener, for `check -v` and the expiry metric.
#[derive(Clone, Debug)]
pub struct CertSummary {
    /// The file of the certificate.
    pub path: PathBuf,
    /// The contents of the certificate itself.
    pub facts: CertFacts,
    /// Whether an OCSP response is stapled now.
    pub stapled: bool,
    /// Whether it is for clients without SNI or with an unknown name.
    pub default: bool,
}

impl CertStore {
    /// Loads all certificates; `default` is for clients without SNI or with an unknown name.
    pub(super) fn open(
        certs: Vec<CertFiles>,
        default: Option<CertFiles>,
    ) -> Result<(Self, Vec<Warning>), Vec<TlsSetupError>> {
        let sources = CertSources::new(certs, default);
        if sources.all.is_empty() {
            return Err(vec![TlsSetupError::NoCertificates]);
        }
        let (mut loaded, mut errors) = (Vec::new(), Vec::new());
        for (files, result) in load_all(&sources.all, &[]) {
            match result {
                Ok(certificate) => loaded.push(certificate),
                Err(found) => errors.extend(found.into_iter().map(failed(&files))),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let (table, warnings) = CertTable::new(sources, loaded);
        Ok((
            Self {
                table: ArcSwap::from_pointee(table),
            },
            warnings,
        ))
    }

    /// Whether there is a certificate for a client with this SNI (any case). `false` calls for the
    /// alert unrecognized_name (RFC 6066 §3).
    pub fn serves(&self, sni: Option<&str>) -> bool {
        let table = self.table.load();
        table.default.is_some() || sni.is_some_and(|name| !table.serving(name).is_empty())
    }

    /// Reloads changed files. Sessions and tickets stay valid.
    ///
    /// Reads files: not for a worker thread. Calls must not overlap, or one may undo the other.
    pub fn reload(&self) -> ReloadReport {
        let mut report = ReloadReport::default();
        let before = self.table.load_full();
        let sources = before.sources.clone();
        let by_files = by_files(&before.all);
        let mut loaded = Vec::new();
        for (files, result) in load_all(&sources.all, &before.all) {
            let old = by_files.get(&files).copied();
            match result {
                Ok(new) => {
                    if !old.is_some_and(|old| Arc::ptr_eq(old, &new)) {
                        report.changed.push(files.cert);
                    }
                    loaded.push(new);
                }
                Err(found) => {
                    loaded.extend(old.cloned());
                    report.failed.extend(found.into_iter().map(failed(&files)));
                }
            }
        }
        if !report.changed.is_empty() {
            let (table, warnings) = CertTable::new(sources, loaded);
            report.warnings = warnings;
            self.table.store(Arc::new(table));
        }
        report
    }

    /// All files of the certificates, for watching.
    pub fn files(&self) -> Vec<PathBuf> {
        let table = self.table.load();
        let mut paths: Vec<_> = table
            .all
            .iter()
            .flat_map(|cert| cert.paths())
            .map(ToOwned::to_owned)
            .collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// The certificates in the order of the settings; the default last unless it is among them.
    pub fn describe(&self) -> Vec<CertSummary> {
        let (table, now) = (self.table.load(), SystemTime::now());
        let is_default = |cert: &Arc<Certificate>| {
            table
                .default
                .as_ref()
                .is_some_and(|default| Arc::ptr_eq(default, cert))
        };
        let summary = |cert: &Arc<Certificate>| CertSummary {
            path: cert.files().cert.clone(),
            facts: cert.facts.clone(),
            stapled: cert.is_stapled(now),
            default: is_default(cert),
        };
        table.all.iter().map(summary).collect()
    }

    /// All names with a certificate, sorted; the default's are marked.
    pub(super) fn identity(&self) -> Vec<String> {
        let table = self.table.load();
        let mut names: Vec<_> = table
            .all
            .iter()
            .flat_map(|cert| &cert.facts.names)
            .cloned()
            .collect();
        names.extend(
            table
                .default
                .iter()
                .flat_map(|cert| &cert.facts.names)
                .map(|name| format!("default {name}")),
        );
        names.sort();
        names.dedup();
        names
    }
}

impl ResolvesServerCert for CertStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let table = self.table.load();
        table
            .choose(hello.server_name(), hello.signature_schemes())
            .map(|cert| cert.certified_key().clone())
    }
}

impl fmt::Debug for CertStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertStore")
            .field("files", &self.files())
            .finish()
    }
}

#[derive(Clone, PartialEq)]
struct CertSources {
    /// Each entry once, the default included.
    all: Vec<CertFiles>,
    default: Option<CertFiles>,
}

impl CertSources {
    fn new(certs: Vec<CertFiles>, default: Option<CertFiles>) -> Self {
        let mut seen = HashSet::new();
        let named = certs.into_iter().chain(default.clone());
        let all = named.filter(|files| seen.insert(files.clone())).collect();
        Self { all, default }
    }
}

/// The table for handshakes; never changed, only replaced.
struct CertTable {
    sources: CertSources,
    all: Vec<Arc<Certificate>>,
    exact: CertsByName,
    /// Keyed by the part behind `*.`.
    wildcard: CertsByName,
    default: Option<Arc<Certificate>>,
}

/// The certificates of one name, the preferred kind of key first, each kind once.
type CertsByName = HashMap<Box<str>, Vec<Arc<Certificate>>>;

impl CertTable {
    fn new(sources: CertSources, all: Vec<Arc<Certificate>>) -> (Self, Vec<Warning>) {
        let default = all
            .iter()
            .find(|cert| Some(cert.files()) == sources.default.as_ref())
            .map(Arc::clone);
        let (mut exact, mut wildcard) = (CertsByName::new(), CertsByName::new());
        let mut warnings = Vec::new();
        let now = SystemTime::now();
        for cert in &all {
            warnings.extend(cert.warnings(now));
            if cert.facts.names.is_empty()
                && default
                    .as_ref()
                    .is_none_or(|default| !Arc::ptr_eq(default, cert))
            {
                warnings.push(Warning::Unreachable {
                    cert: cert.files().cert.clone(),
                });
            }
            for name in &cert.facts.names {
                let list = match name.strip_prefix("*.") {
                    Some(parent) => wildcard.entry(parent.into()).or_default(),
                    None => exact.entry(name.as_str().into()).or_default(),
                };
                warnings.extend(insert(list, cert, name));
            }
        }
        (
            Self {
                sources,
                all,
                exact,
                wildcard,
                default,
            },
            warnings,
        )
    }

    /// The certificates that are valid for a name: those with the exact name first.
    fn serving(&self, sni: &str) -> MatchingCerts<'_> {
        let Some(name) = Lowercase::new(sni) else {
            return MatchingCerts::default();
        };
        let name = name.as_str();
        let parent = name
            .split_once('.')
            .filter(|(label, _)| !label.is_empty())
            .map(|(_, parent)| parent);
        MatchingCerts {
            exact: self.exact.get(name).map(Vec::as_slice).unwrap_or_default(),
            wildcard: parent
                .and_then(|parent| self.wildcard.get(parent))
                .map(Vec::as_slice)
                .unwrap_or_default(),
        }
    }

    fn choose(&self, sni: Option<&str>, offered: &[SignatureScheme]) -> Option<&Arc<Certificate>> {
        let serving = sni.map(|name| self.serving(name)).unwrap_or_default();
        let all = || serving.exact.iter().chain(serving.wildcard);
        // A certificate that the client cannot verify is better than none: the handshake's error
        // then shows the reason.
        all()
            .find(|cert| cert.facts.key.suits(offered))
            .or_else(|| all().next())
            .or(self.default.as_ref())
    }
}

#[derive(Clone, Copy, Default)]
struct MatchingCerts<'a> {
    exact: &'a [Arc<Certificate>],
    wildcard: &'a [Arc<Certificate>],
}

impl MatchingCerts<'_> {
    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcard.is_empty()
    }
}

fn insert(
    list: &mut Vec<Arc<Certificate>>,
    cert: &Arc<Certificate>,
    name: &str,
) -> Option<Warning> {
    let kind = cert.facts.key;
    if let Some(used) = list.iter().find(|other| other.facts.key.same_family(kind)) {
        return (!Arc::ptr_eq(used, cert)).then(|| Warning::DuplicateName {
            name: name.to_owned(),
            used: used.files().cert.clone(),
            unused: cert.files().cert.clone(),
        });
    }
    let place = list.partition_point(|other| other.facts.key < kind);
    list.insert(place, cert.clone());
    None
}

/// A certificate, or all errors of its files.
type LoadedCert = Result<Arc<Certificate>, Vec<CertError>>;

/// Loads every entry; unchanged ones are taken from `before`.
fn load_all(sources: &[CertFiles], before: &[Arc<Certificate>]) -> Vec<(CertFiles, LoadedCert)> {
    enum CertRead {
        Kept(Arc<Certificate>),
        Fresh(Box<UnmatchedCert>),
    }
    let before = by_files(before);
    let read = |files: &CertFiles| match before.get(files) {
        Some(old) if !old.is_outdated() => Ok(CertRead::Kept(Arc::clone(old))),
        _ => UnmatchedCert::read(files).map(|parts| CertRead::Fresh(Box::new(parts))),
    };
    let all: Vec<_> = sources
        .iter()
        .map(|files| (files.clone(), read(files)))
        .collect();

    let mut owners: HashMap<Vec<u8>, PathBuf> = HashMap::new();
    for (files, read) in &all {
        let public = match read {
            Ok(CertRead::Kept(cert)) => &cert.facts.public_key,
            Ok(CertRead::Fresh(parts)) => parts.public_key(),
            Err(_) => continue,
        };
        owners
            .entry(public.to_vec())
            .or_insert_with(|| files.cert.clone());
    }
    let owner_of = |public: &[u8]| owners.get(public).cloned();
    let finish = |read: Result<CertRead, Vec<CertError>>| match read? {
        CertRead::Kept(cert) => Ok(cert),
        CertRead::Fresh(parts) => parts
            .join(owner_of)
            .map(Arc::new)
            .map_err(|error| vec![error]),
    };
    all.into_iter()
        .map(|(files, read)| (files, finish(read)))
        .collect()
}

fn failed(files: &CertFiles) -> impl Fn(CertError) -> TlsSetupError {
    move |error| TlsSetupError::Certificate {
        files: files.clone(),
        error,
    }
}

fn by_files(all: &[Arc<Certificate>]) -> HashMap<&CertFiles, &Arc<Certificate>> {
    all.iter().map(|cert| (cert.files(), cert)).collect()
}

/// A host name in lower case on the stack: a look-up allocates nothing.
pub(super) struct Lowercase {
    bytes: [u8; Self::MAX],
    length: usize,
}

impl Lowercase {
    /// The longest name, as text and without the last dot (RFC 1035 §2.3.4).
    const MAX: usize = 253;

    pub(super) fn new(name: &str) -> Option<Self> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut bytes = [0; Self::MAX];
        let place = bytes.get_mut(..name.len())?;
        place.copy_from_slice(name.as_bytes());
        place.make_ascii_lowercase();
        Some(Self {
            bytes,
            length: name.len(),
        })
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length])
            .expect("copied from a str, ASCII letters lowered")
    }
}
