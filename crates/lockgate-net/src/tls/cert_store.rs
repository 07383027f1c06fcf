//! The certificates of one listener, by SNI.
//!
//! Running listeners see a swap at once, because they read the table at every handshake. Does not
//! watch files: the supervisor calls [`CertStore::reload`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::cert_files::{CertFiles, ManagedCert};
use super::certs::{Certificate, UnmatchedCert};
use super::error::{CertError, TlsSetupError, Warning};
use super::x509::CertFacts;

/// Certificates by SNI: exact names before wildcards of one label, then a default or none.
pub struct CertStore {
    table: ArcSwap<CertTable>,
    /// Held while the table is replaced.
    replacing: Mutex<()>,
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
    /// The file that its private key was read from.
    pub key_path: PathBuf,
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
        managed: Vec<ManagedCert>,
        on_demand: bool,
    ) -> Result<(Self, Vec<Warning>), Vec<TlsSetupError>> {
        let sources = CertSources::new(certs, default, managed);
        if sources.is_empty() && !on_demand {
            return Err(vec![TlsSetupError::NoCertificates]);
        }
        let (mut loaded, mut errors, mut unusable) = (Vec::new(), Vec::new(), Vec::new());
        for LoadedEntry {
            files,
            managed,
            result,
        } in load_all(&sources, &[])
        {
            match result {
                Ok(certificate) => loaded.push(certificate),
                Err(found) if managed => unusable.extend(unless_missing(&files, found)),
                Err(found) => errors.extend(found.into_iter().map(failed(&files))),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let (table, mut warnings) = CertTable::new(sources, loaded);
        // It is obtained again: no reason against a start.
        warnings.extend(unusable.into_iter().map(Warning::ManagedUnusable));
        Ok((
            Self {
                table: ArcSwap::from_pointee(table),
                replacing: Mutex::default(),
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

    /// Whether a client with this SNI (any case) will have a certificate once that is obtained.
    pub fn awaits(&self, sni: Option<&str>) -> bool {
        let table = self.table.load();
        sni.and_then(Lowercase::new)
            .is_some_and(|name| table.awaits(name.as_str()))
    }

    /// Reloads changed files. Sessions and tickets stay valid.
    ///
    /// Reads files: not for a worker thread.
    pub fn reload(&self) -> ReloadReport {
        let _replacing = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sources = self.table.load().sources.clone();
        self.load(sources)
    }

    /// Adds a certificate that was obtained on demand, or reads its changed file.
    ///
    /// Reads files: not for a worker thread.
    pub fn add(&self, managed: ManagedCert) -> ReloadReport {
        let _replacing = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut sources = self.table.load().sources.clone();
        let is_known = |known: &ManagedCert| known.files == managed.files;
        if !sources.managed.iter().any(is_known) {
            sources.managed.push(managed);
        }
        self.load(sources)
    }

    /// Loads the changed files of `sources`; while the table is not replaced by others.
    fn load(&self, sources: CertSources) -> ReloadReport {
        let mut report = ReloadReport::default();
        let before = self.table.load_full();
        let by_files = by_files(&before.all);
        let mut loaded = Vec::new();
        for LoadedEntry {
            files,
            managed,
            result,
        } in load_all(&sources, &before.all)
        {
            let old = by_files.get(&files).copied();
            match result {
                // A managed certificate is taken away by its owner alone, and for a reason.
                Err(found) if managed && is_missing(&files, &found) => {
                    report.changed.extend(old.map(|_| files.cert));
                }
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

    /// All files of the certificates, for watching; those that are missing yet included.
    pub fn files(&self) -> Vec<PathBuf> {
        let table = self.table.load();
        let mut paths: Vec<_> = table
            .all
            .iter()
            .flat_map(|cert| cert.paths())
            .map(ToOwned::to_owned)
            .collect();
        let managed = table.sources.managed.iter();
        paths.extend(managed.map(|managed| managed.files.cert.clone()));
        paths.sort();
        paths.dedup();
        paths
    }

    /// The certificates in the order of the settings; the default last unless it is among them.
    pub fn describe(&self) -> Vec<CertSummary> {
        let table = self.table.load();
        table.all.iter().map(|cert| table.summary(cert)).collect()
    }

    /// The certificates for a client with this SNI (any case): it gets the first with a signature that
    /// it accepts.
    pub fn describe_for(&self, sni: Option<&str>) -> Vec<CertSummary> {
        let table = self.table.load();
        let serving = sni.map(|name| table.serving(name)).unwrap_or_default();
        let default = table.default.iter().filter(|_| serving.is_empty());
        serving
            .all()
            .chain(default)
            .map(|cert| table.summary(cert))
            .collect()
    }

    /// All names with a certificate, sorted; the default's are marked. Those of managed
    /// certificates are among them before there is one, unless they come on demand.
    pub(super) fn identity(&self) -> Vec<String> {
        let table = self.table.load();
        let managed = &table.sources.managed;
        let is_managed: HashSet<_> = managed.iter().map(|one| &one.files).collect();
        let mut names: Vec<_> = table
            .all
            .iter()
            .filter(|cert| !is_managed.contains(cert.files()))
            .flat_map(|cert| &cert.facts.names)
            .cloned()
            .collect();
        // A name that comes on demand must not end the sessions of all others.
        let configured = managed.iter().filter(|one| !one.on_demand);
        names.extend(configured.flat_map(|one| one.names.iter().cloned()));
        let default = table.default.iter();
        let default = default.filter(|cert| !is_managed.contains(cert.files()));
        let default = default.flat_map(|cert| cert.facts.names.iter());
        let managed_default = managed.iter().filter(|one| one.default);
        let default = default.chain(managed_default.flat_map(|one| one.names.iter()));
        names.extend(default.map(|name| format!("default {name}")));
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
    /// The operator's files, each entry once, the default included.
    given: Vec<CertFiles>,
    default: Option<CertFiles>,
    /// Those that the program obtains.
    managed: Vec<ManagedCert>,
}

impl CertSources {
    fn new(
        certs: Vec<CertFiles>,
        default: Option<CertFiles>,
        mut managed: Vec<ManagedCert>,
    ) -> Self {
        let mut seen = HashSet::new();
        let named = certs.into_iter().chain(default.clone());
        let given = named.filter(|files| seen.insert(files.clone())).collect();
        managed.retain(|managed| seen.insert(managed.files.clone()));
        // The others have taken their names before.
        managed.sort_by_key(|managed| managed.fallback);
        Self {
            given,
            default,
            managed,
        }
    }

    fn is_empty(&self) -> bool {
        self.given.is_empty() && self.managed.is_empty()
    }

    /// Every entry, and whether the program obtains it.
    fn all(&self) -> impl Iterator<Item = (&CertFiles, bool)> {
        let given = self.given.iter().map(|files| (files, false));
        let managed = self.managed.iter().map(|managed| (&managed.files, true));
        given.chain(managed)
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
    /// The names of managed certificates that are missing, wildcards as `*.example.com`.
    awaited: HashSet<Box<str>>,
}

/// The certificates of one name, the preferred kind of key first, each kind once.
type CertsByName = HashMap<Box<str>, Vec<Arc<Certificate>>>;

impl CertTable {
    fn new(sources: CertSources, all: Vec<Arc<Certificate>>) -> (Self, Vec<Warning>) {
        let managed_default = sources.managed.iter().find(|managed| managed.default);
        let default = sources
            .default
            .as_ref()
            .or(managed_default.map(|managed| &managed.files));
        let default = all
            .iter()
            .find(|cert| Some(cert.files()) == default)
            .map(Arc::clone);
        let (mut exact, mut wildcard) = (CertsByName::new(), CertsByName::new());
        let (mut warnings, mut awaited) = (Vec::new(), HashSet::new());
        let now = SystemTime::now();
        let managed: HashMap<_, _> = sources
            .managed
            .iter()
            .map(|managed| (&managed.files, managed))
            .collect();
        for cert in &all {
            if let Some(managed) = managed.get(cert.files()) {
                // It is renewed without a warning; that it is of no use now may be the clock's fault.
                let is_told = |warning: &Warning| {
                    matches!(
                        warning,
                        Warning::Expired { .. } | Warning::NotYetValid { .. }
                    )
                };
                warnings.extend(cert.warnings(now).into_iter().filter(is_told));
                for name in &managed.names {
                    let list = list_of(&mut exact, &mut wildcard, name);
                    if !managed.fallback || list.is_empty() {
                        insert(list, cert, name);
                    }
                }
                continue;
            }
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
                let list = list_of(&mut exact, &mut wildcard, name);
                warnings.extend(insert(list, cert, name));
            }
        }
        let obtained = by_files(&all);
        for managed in &sources.managed {
            if !obtained.contains_key(&managed.files) {
                awaited.extend(managed.names.iter().map(|name| name.as_str().into()));
            }
        }
        let table = Self {
            exact,
            wildcard,
            default,
            awaited,
            all,
            sources,
        };
        (table, warnings)
    }

    /// Whether a name in lower case waits for its certificate.
    fn awaits(&self, name: &str) -> bool {
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            Some(self.awaited.contains(format!("*.{parent}").as_str()))
        };
        !self.awaited.is_empty() && (self.awaited.contains(name) || wildcard().unwrap_or_default())
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
        // A certificate that the client cannot verify is better than none: the handshake's error
        // then shows the reason.
        serving
            .all()
            .find(|cert| cert.facts.key.suits(offered))
            .or_else(|| serving.all().next())
            .or(self.default.as_ref())
    }

    fn summary(&self, cert: &Arc<Certificate>) -> CertSummary {
        let default = self.default.as_ref();
        CertSummary {
            path: cert.files().cert.clone(),
            key_path: cert.key_path().to_owned(),
            facts: cert.facts.clone(),
            stapled: cert.is_stapled(SystemTime::now()),
            default: default.is_some_and(|default| Arc::ptr_eq(default, cert)),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct MatchingCerts<'a> {
    exact: &'a [Arc<Certificate>],
    wildcard: &'a [Arc<Certificate>],
}

impl<'a> MatchingCerts<'a> {
    /// Those with the exact name first.
    fn all(self) -> impl Iterator<Item = &'a Arc<Certificate>> {
        self.exact.iter().chain(self.wildcard)
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcard.is_empty()
    }
}

/// The list of a name.
fn list_of<'t>(
    exact: &'t mut CertsByName,
    wildcard: &'t mut CertsByName,
    name: &str,
) -> &'t mut Vec<Arc<Certificate>> {
    match name.strip_prefix("*.") {
        Some(parent) => wildcard.entry(parent.into()).or_default(),
        None => exact.entry(name.into()).or_default(),
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

/// An entry of the settings, and what was loaded of it.
struct LoadedEntry {
    files: CertFiles,
    /// Whether the program obtains it.
    managed: bool,
    result: LoadedCert,
}

/// Loads every entry; unchanged ones are taken from `before`.
fn load_all(sources: &CertSources, before: &[Arc<Certificate>]) -> Vec<LoadedEntry> {
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
        .all()
        .map(|(files, managed)| (files.clone(), managed, read(files)))
        .collect();

    let mut owners: HashMap<Vec<u8>, PathBuf> = HashMap::new();
    for (files, _, read) in &all {
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
        .map(|(files, managed, read)| LoadedEntry {
            files,
            managed,
            result: finish(read),
        })
        .collect()
}

/// Whether the file of a certificate does not exist.
fn is_missing(files: &CertFiles, found: &[CertError]) -> bool {
    let missing =
        |error: &CertError| matches!(error, CertError::Missing { path } if *path == files.cert);
    found.iter().any(missing)
}

/// The errors of a managed certificate that is there.
fn unless_missing(files: &CertFiles, found: Vec<CertError>) -> Vec<CertError> {
    match is_missing(files, &found) {
        true => Vec::new(),
        false => found,
    }
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
