//! TLS as it runs: acceptors for clients, connectors to endpoints, and the keys of tickets; with a
//! cure for each mistake in their files.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use foldhash::{HashMap, HashMapExt, HashSet};
use lockgate_config as config;
use lockgate_config::{Code, SourceSpan};
use lockgate_net::tls::{
    self, Acceptor, AcceptorIndex, Acceptors, CertError, Connector, ConnectorError, Policy,
    TicketRing, TlsSetupError, Warning,
};
use lockgate_rules::HostPattern;

use super::MistakeLog;
use super::certificates::{ObtainedCerts, WantedCerts, cert_name};

/// The ticket keys: listeners with the same settings share theirs.
pub(super) struct TicketRings<'a> {
    previous: &'a ReusableRings,
    made: ReusableRings,
}

/// Ticket keys by their settings, which the next assembly may take over.
pub(super) type ReusableRings = Vec<(config::Tickets, Arc<TicketRing>)>;

impl<'a> TicketRings<'a> {
    /// Keys that may be those of `previous`.
    pub(super) fn after(previous: &'a ReusableRings) -> Self {
        let made = Vec::new();
        Self { previous, made }
    }

    pub(super) fn into_reusable(self) -> ReusableRings {
        self.made
    }

    /// The acceptor of a listener; `at` is its place in the configuration.
    pub(super) fn acceptor(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        at: &SourceSpan,
        written: &config::DownstreamTls,
        obtained: ObtainedCerts,
    ) -> Option<Arc<Acceptor>> {
        let versions: Vec<_> = written
            .versions
            .iter()
            .map(|version| version.name())
            .collect();
        let suites: Vec<_> = written.suites.iter().map(|suite| suite.name()).collect();
        let groups: Vec<_> = written.groups.iter().map(|group| group.name()).collect();
        let policy = Policy::from_names(&versions, &suites, &groups);
        let policy = policy
            .map_err(|error| mistakes.error(Code::TlsUnusable, at, error.to_string(), ""))
            .ok();
        let tickets = self.ring(mistakes, at, &written.tickets);
        let settings = tls::ServerSettings {
            managed: obtained.managed,
            on_demand: obtained.on_demand,
            certs: certificates(mistakes, &written.certs),
            default: written.default.as_ref().map(files),
            policy: policy?,
            alpn: written
                .alpn
                .iter()
                .map(|name| name.clone().into_bytes())
                .collect(),
            client_auth: written
                .client_auth
                .as_ref()
                .map(|auth| tls::ClientAuthSettings {
                    mode: match auth.mode {
                        config::ClientCertificates::Require => tls::ClientAuthMode::Require,
                        config::ClientCertificates::Request => tls::ClientAuthMode::Request,
                    },
                    ca: auth.ca.clone(),
                }),
            tickets: tickets?,
        };
        match Acceptor::new(settings) {
            Ok((acceptor, warnings)) => {
                warnings
                    .iter()
                    .for_each(|warning| report_warning(mistakes, at, written, warning));
                Some(Arc::new(acceptor))
            }
            Err(errors) => {
                errors
                    .iter()
                    .for_each(|error| report_error(mistakes, at, written, error));
                None
            }
        }
    }

    /// The acceptors of the sites on one address, and the index of each site's acceptor. Sites with
    /// the same settings share one, with the certificates of all of them: clients without SNI get
    /// that of the site for every host.
    pub(super) fn acceptors(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        sites: &[&config::HostedSite],
        neighbours: Neighbours,
        wanted: &mut WantedCerts,
    ) -> Option<(Acceptors, Vec<AcceptorIndex>)> {
        let mut groups: Vec<AcceptorGroup<'_>> = Vec::new();
        let (mut names, mut places, mut default) = (Vec::new(), Vec::new(), AcceptorIndex::new(0));
        for site in sites {
            let written = site.tls.as_ref()?;
            let place = groups
                .iter()
                .position(|group| same_rules(group.rules, written))
                .unwrap_or_else(|| {
                    groups.push(AcceptorGroup::new(&site.at, written));
                    groups.len() - 1
                });
            let group = groups.get_mut(place)?;
            let place = AcceptorIndex::new(place);
            group.add(&written.certs);
            // The only certificate of a table is for every name where the table has the address
            // alone. A client that connects to an IP address sends no name (RFC 6066 §3).
            let own = neighbours == Neighbours::Sites && sites.len() == 1;
            let meant = own || !is_only(written) || site.hosts.iter().any(is_ip);
            group.default = group.default.or(written.default.as_ref().filter(|_| meant));
            for host in &site.hosts {
                match host {
                    HostPattern::Any => default = place,
                    HostPattern::Exact(name) => {
                        names.push((tls::SniPattern::Exact(name.clone()), place))
                    }
                    HostPattern::Under(name) => {
                        names.push((tls::SniPattern::Under(name.clone()), place))
                    }
                }
            }
            places.push(place);
        }
        // Not lazily: the mistakes of all are reported at once.
        let mut made = Vec::with_capacity(groups.len());
        for (place, group) in AcceptorIndex::enumerate(groups) {
            let of_group = sites.iter().zip(&places).filter(|(_, of)| **of == place);
            let of_group: Vec<_> = of_group.map(|(site, _)| *site).collect();
            made.push(self.group_acceptor(mistakes, group, &of_group, wanted));
        }
        let made: Vec<_> = made.into_iter().collect::<Option<_>>()?;
        Some((Acceptors::new(made, names, default), places))
    }

    /// The acceptor of sites that share their rules. Certificates are obtained for names that no file
    /// covers, if their site has a source of certificates; the other names are warned of.
    fn group_acceptor(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        group: AcceptorGroup<'_>,
        sites: &[&config::HostedSite],
        wanted: &mut WantedCerts,
    ) -> Option<Arc<Acceptor>> {
        let at = group.at;
        let settings = group.settings();
        let has_files = !settings.certs.is_empty() || settings.default.is_some();
        let is_managed = |site: &&config::HostedSite| {
            let tls = site.tls.as_ref();
            tls.is_some_and(|tls| tls.managed.is_some())
        };
        let is_managed = sites.iter().any(is_managed);
        let of_files = if has_files || !is_managed {
            Some(self.acceptor(mistakes, at, &settings, ObtainedCerts::default())?)
        } else {
            None
        };
        let covered = of_files.as_deref().map(CoveredNames::of);
        let covered = covered.unwrap_or_default();
        let (mut sourced, mut without) = (Vec::new(), Vec::new());
        for site in sites {
            let source = site.tls.as_ref().and_then(|tls| tls.managed.as_ref());
            let uncovered = site.hosts.iter().filter(|host| !covered.covers(host));
            for host in uncovered {
                match source {
                    Some(source) => sourced.push((host, source)),
                    None => without.push(host.clone()),
                }
            }
        }
        let managed = wanted.of_hosts(sourced, |host| without.push(host.clone()));
        for site in sites {
            let hosts = site.hosts.iter().filter(|host| without.contains(host));
            hosts.for_each(|host| warn_uncovered(mistakes, site, host));
        }
        match of_files {
            Some(acceptor) if managed.is_empty() => Some(acceptor),
            _ => self.acceptor(mistakes, at, &settings, managed),
        }
    }

    /// The acceptor of a relay for one name; none of its names lacks a certificate where it says how
    /// they are obtained.
    pub(super) fn relay_acceptor(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        at: &SourceSpan,
        written: &config::DownstreamTls,
        host: Option<&HostPattern>,
        wanted: &mut WantedCerts,
    ) -> Option<Arc<Acceptor>> {
        let Some((host, source)) = host.zip(written.managed.as_ref()) else {
            return self.acceptor(mistakes, at, written, ObtainedCerts::default());
        };
        let has_files = !written.certs.is_empty() || written.default.is_some();
        if has_files {
            let of_files = self.acceptor(mistakes, at, written, ObtainedCerts::default())?;
            if CoveredNames::of(&of_files).covers(host) {
                return Some(of_files);
            }
        }
        let managed = wanted.of_hosts([(host, source)], |_| ());
        self.acceptor(mistakes, at, written, managed)
    }

    /// The ticket keys for these settings; the inner `None` is no tickets.
    fn ring(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        at: &SourceSpan,
        written: &config::Tickets,
    ) -> Option<Option<Arc<TicketRing>>> {
        let known = |rings: &ReusableRings| {
            let ring = rings.iter().find(|(known, _)| known == written);
            ring.map(|(_, ring)| Arc::clone(ring))
        };
        if let Some(ring) = known(&self.made) {
            return Some(Some(ring));
        }
        let (running, now) = (known(self.previous), Instant::now());
        let made = match (written, &running) {
            (config::Tickets::Off, _) => return Some(None),
            (config::Tickets::Rotating { .. }, Some(running)) => Ok(Arc::clone(running)),
            (config::Tickets::Rotating { rotate, keep }, None) => {
                TicketRing::rotating(*rotate, usize::from(*keep), now)
            }
            (config::Tickets::Keys(path), _) => {
                TicketRing::from_file(path, now).map(|(ring, warnings)| {
                    for warning in warnings {
                        mistakes.warn(Code::CertificateDoubtful, at, warning.to_string(), "", "");
                    }
                    ring
                })
            }
        };
        match made {
            Ok(made) => {
                // The running keys are read again with the change of the configuration.
                let ring = running.unwrap_or(made);
                self.made.push((written.clone(), Arc::clone(&ring)));
                Some(Some(ring))
            }
            Err(error) => {
                let cure = "one key a line: 48 or 80 random bytes in base64, as `openssl rand -base64 48` makes";
                let (code, message) = (Code::TicketKeysUnreadable, error.to_string());
                match written {
                    config::Tickets::Keys(path) => mistakes.file(path, code, at, message, cure),
                    _ => mistakes.error(code, at, message, cure),
                }
                None
            }
        }
    }
}

/// The other tables on an address of sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbours {
    /// None.
    Sites,
    /// Relays by SNI: a name that no table has is refused.
    Relays,
}

fn is_ip(host: &HostPattern) -> bool {
    let HostPattern::Exact(host) = host else {
        return false;
    };
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Sites on one address with the same rules, which share an acceptor.
struct AcceptorGroup<'a> {
    at: &'a SourceSpan,
    /// The settings of its first site, of which the certificates do not count.
    rules: &'a config::DownstreamTls,
    /// The certificates of single sites, in the order of the sites.
    own: Vec<(CertPlace, &'a config::CertPaths)>,
    /// The lists that sites share, each with its last place.
    listed: HashMap<*const config::CertPaths, (usize, &'a [config::CertPaths])>,
    sites: usize,
    default: Option<&'a config::CertPaths>,
}

/// The place of a certificate: the site, and the index among those of the site.
type CertPlace = (usize, usize);

/// The files of a certificate, and whether it is named by its path: that is its identity.
type CertKey<'a> = (&'a Path, Option<&'a Path>, Option<&'a Path>, bool);

impl<'a> AcceptorGroup<'a> {
    fn new(at: &'a SourceSpan, rules: &'a config::DownstreamTls) -> Self {
        Self {
            at,
            rules,
            own: Vec::new(),
            listed: HashMap::new(),
            sites: 0,
            default: None,
        }
    }

    /// Adds the certificates of a site.
    fn add(&mut self, certs: &'a config::CertList) {
        let config::CertList { own, listed } = certs;
        self.own
            .extend(own.iter().map(|own| ((self.sites, 0), own)));
        self.listed.insert(listed.as_ptr(), (self.sites, listed));
        self.sites += 1;
    }

    /// Each certificate once, at its last place: each site lists its own before those of `[tls]`.
    fn certificates(&self) -> Vec<config::CertPaths> {
        let listed = self.listed.values().flat_map(|(site, listed)| {
            let places = (1..).map(move |index| (*site, index));
            places.zip(*listed)
        });
        let mut last: HashMap<CertKey<'_>, (CertPlace, &config::CertPaths)> = HashMap::new();
        for (place, cert) in self.own.iter().copied().chain(listed) {
            let by_path = cert.named == config::CertNaming::ByPath;
            let (key, ocsp) = (cert.key.as_deref(), cert.ocsp.as_deref());
            let kept = last
                .entry((&*cert.cert, key, ocsp, by_path))
                .or_insert((place, cert));
            if place > kept.0 {
                *kept = (place, cert);
            }
        }
        let mut certs: Vec<_> = last.into_values().collect();
        certs.sort_unstable_by_key(|(place, _)| *place);
        certs.into_iter().map(|(_, cert)| cert.clone()).collect()
    }

    /// The settings of the acceptor.
    fn settings(self) -> config::DownstreamTls {
        config::DownstreamTls {
            certs: config::CertList {
                own: None,
                listed: self.certificates().into(),
            },
            default: self.default.cloned(),
            managed: None,
            versions: self.rules.versions.clone(),
            suites: self.rules.suites.clone(),
            groups: self.rules.groups.clone(),
            alpn: self.rules.alpn.clone(),
            tickets: self.rules.tickets.clone(),
            client_auth: self.rules.client_auth.clone(),
        }
    }
}

/// Whether two settings differ in nothing but the certificates.
fn same_rules(one: &config::DownstreamTls, other: &config::DownstreamTls) -> bool {
    let config::DownstreamTls {
        certs: _,
        default: _,
        managed: _,
        versions,
        suites,
        groups,
        alpn,
        tickets,
        client_auth,
    } = one;
    *versions == other.versions
        && *suites == other.suites
        && *groups == other.groups
        && *alpn == other.alpn
        && *tickets == other.tickets
        && *client_auth == other.client_auth
}

/// Whether the default is the only certificate of a table: both have the same place.
fn is_only(written: &config::DownstreamTls) -> bool {
    let same = |one: &config::CertPaths, other: &config::CertPaths| {
        one.at.start() == other.at.start() && one == other
    };
    written
        .default
        .iter()
        .any(|default| written.certs.iter().any(|one| same(one, default)))
}

/// The names and addresses that the certificates of an acceptor cover.
#[derive(Default)]
struct CoveredNames {
    names: HashSet<String>,
    addresses: HashSet<IpAddr>,
}

impl CoveredNames {
    fn of(acceptor: &Acceptor) -> Self {
        let mut covered = Self::default();
        for cert in acceptor.store().describe() {
            covered.names.extend(cert.facts.names);
            covered.addresses.extend(cert.facts.addresses);
        }
        covered
    }

    /// Whether a certificate is valid for all of a host; for every host none is.
    fn covers(&self, host: &HostPattern) -> bool {
        let has = |wanted: &str| self.names.contains(wanted);
        match host {
            HostPattern::Any => false,
            HostPattern::Exact(host) => {
                let address = host.trim_start_matches('[').trim_end_matches(']');
                let by_address = address.parse().is_ok_and(|ip| self.addresses.contains(&ip));
                let parent = host.split_once('.');
                let by_parent = parent.is_some_and(|(_, parent)| has(&format!("*.{parent}")));
                has(host) || by_address || by_parent
            }
            HostPattern::Under(parent) => has(&format!("*.{parent}")),
        }
    }
}

/// Warns of a host that no certificate covers.
fn warn_uncovered(mistakes: &mut MistakeLog<'_>, site: &config::HostedSite, host: &HostPattern) {
    let Some(shown) = cert_name(host) else { return };
    let message = format!("no certificate covers {shown}");
    let cure = "add one to `tls` of the site or to `certs` of [tls]";
    mistakes.warn(
        Code::CertificateElsewhere,
        &site.at,
        message,
        "clients will not trust it",
        cure,
    );
}

pub(super) fn connector(
    mistakes: &mut MistakeLog<'_>,
    written: &config::UpstreamTls,
) -> Option<Arc<Connector>> {
    let ca = match &written.ca {
        config::AuthoritySource::System => tls::CaSource::System,
        config::AuthoritySource::File(path) => tls::CaSource::File(path.clone()),
    };
    let settings = tls::ClientSettings {
        alpn: written
            .alpn
            .iter()
            .map(|name| name.clone().into_bytes())
            .collect(),
        name: written.name.clone(),
        ..tls::ClientSettings::new(ca)
    };
    match Connector::new(settings) {
        Ok(connector) => Some(Arc::new(connector)),
        Err(error) => {
            match (&error, &written.ca) {
                (ConnectorError::Ca(_), config::AuthoritySource::File(path)) => {
                    let cure = "a PEM file with the certificates of the authorities";
                    mistakes.file(
                        path,
                        Code::AuthorityUnreadable,
                        &written.at,
                        error.to_string(),
                        cure,
                    );
                }
                (ConnectorError::Ca(_), config::AuthoritySource::System) => {
                    mistakes.error(
                        Code::AuthorityUnreadable,
                        &written.at,
                        error.to_string(),
                        "",
                    );
                }
                _ => mistakes.error(Code::TlsUnusable, &written.at, error.to_string(), ""),
            }
            None
        }
    }
}

fn report_error(
    mistakes: &mut MistakeLog<'_>,
    listener: &SourceSpan,
    written: &config::DownstreamTls,
    error: &TlsSetupError,
) {
    let message = error.to_string();
    match error {
        TlsSetupError::Certificate { files, error } => {
            let CertFileMistake { code, path, cure } = file_mistake(files, error);
            let at = place_of_file(written, &files.cert, &path).unwrap_or(listener);
            mistakes.file(&path, code, at, message, cure);
        }
        TlsSetupError::ClientCa { path, .. } => {
            let at = written
                .client_auth
                .as_ref()
                .map_or(listener, |auth| &auth.at);
            let cure = "a PEM file with the certificates of the authorities; the listener is never served without it";
            mistakes.file(path, Code::AuthorityUnreadable, at, message, cure);
        }
        TlsSetupError::NoCertificates => {
            mistakes.error(
                Code::NoCertificate,
                listener,
                message,
                "`tls = { cert = \"…\", key = \"…\" }`",
            );
        }
        TlsSetupError::AlpnLength { .. } | TlsSetupError::Refused { .. } => {
            mistakes.error(Code::TlsUnusable, listener, message, "");
        }
    }
}

fn report_warning(
    mistakes: &mut MistakeLog<'_>,
    listener: &SourceSpan,
    written: &config::DownstreamTls,
    warning: &Warning,
) {
    let (code, cert) = match warning {
        Warning::Expired { cert, .. } | Warning::NotYetValid { cert, .. } => {
            (Code::CertificateExpired, Some(cert))
        }
        Warning::ExpiresSoon { cert, .. } => (Code::CertificateExpiresSoon, Some(cert)),
        Warning::ChainOrder { cert, .. }
        | Warning::NoIntermediate { cert, .. }
        | Warning::Unreachable { cert } => (Code::CertificateDoubtful, Some(cert)),
        _ => (Code::CertificateDoubtful, None),
    };
    let at = cert
        .and_then(|cert| place_of_file(written, cert, cert))
        .unwrap_or(listener);
    mistakes.warn(code, at, warning.to_string(), "", cure_of(warning));
}

/// What to do about a warning; empty where its text says it.
fn cure_of(warning: &Warning) -> &'static str {
    match warning {
        Warning::ChainOrder { .. } => {
            "write the certificate first and then its intermediates into the file, as the authority's full chain has them"
        }
        Warning::Unreachable { .. } => "name it as `default`, or leave it out",
        Warning::DuplicateName { .. } => "leave one of the two out",
        Warning::OcspOfAnother { .. } => "name the response that was fetched for this certificate",
        Warning::OcspOutOfDate { .. } => "fetch the response again, and from now on before it ends",
        _ => "",
    }
}

/// A mistake in one of the files of a certificate.
struct CertFileMistake {
    code: Code,
    path: PathBuf,
    cure: &'static str,
}

fn file_mistake(files: &tls::CertFiles, error: &CertError) -> CertFileMistake {
    const CHAIN: &str = "a PEM file: the certificate first, then its intermediates";
    const KEY: &str =
        "a PEM file with the key: named by `key`, beside the certificate, or in its file";
    const OCSP: &str = "a response in DER, as `openssl ocsp -respout` writes it";
    const READABLE: &str = "a file that the user of Lockgate may read (chgrp, chmod 640), in folders that this user may enter (chmod 750)";
    let (path, code, cure) = match error {
        CertError::Unreadable { path, .. } => match path {
            path if path == &files.cert => (path, Code::CertificateUnreadable, READABLE),
            path if Some(path) == files.ocsp.as_ref() => (path, Code::OcspUnreadable, READABLE),
            _ => (path, Code::KeyUnreadable, READABLE),
        },
        CertError::Missing { path }
        | CertError::Empty { path }
        | CertError::BrokenPem { path, .. }
        | CertError::UnsupportedKey { path, .. } => match path {
            path if path == &files.cert => (path, Code::CertificateUnreadable, CHAIN),
            path if Some(path) == files.ocsp.as_ref() => (path, Code::OcspUnreadable, OCSP),
            _ => (path, Code::KeyUnreadable, KEY),
        },
        CertError::NoCertificate { path, .. }
        | CertError::BadCertificate { path, .. }
        | CertError::LeafNotFirst { path, .. } => (path, Code::CertificateUnreadable, CHAIN),
        CertError::NoKey { cert, .. } => {
            (files.key.as_ref().unwrap_or(cert), Code::KeyUnreadable, KEY)
        }
        CertError::EncryptedKey { path } => (path, Code::KeyUnreadable, KEY),
        CertError::Mismatch { key, .. } => (
            key,
            Code::KeyMismatch,
            "name the key that was made for this certificate",
        ),
        CertError::BadOcsp { path, .. } => (path, Code::OcspUnreadable, OCSP),
    };
    CertFileMistake {
        code,
        path: path.clone(),
        cure,
    }
}

/// The place in the configuration that names the file at `path`, one of the files of `cert`.
fn place_of_file<'a>(
    written: &'a config::DownstreamTls,
    cert: &Path,
    path: &Path,
) -> Option<&'a SourceSpan> {
    let files = written
        .certs
        .iter()
        .chain(&written.default)
        .find(|files| files.cert == cert)?;
    let named = [(&files.key, &files.key_at), (&files.ocsp, &files.ocsp_at)];
    let own = named
        .into_iter()
        .find(|(named, _)| named.as_deref() == Some(path) && path != cert);
    Some(own.and_then(|(_, at)| at.as_ref()).unwrap_or(&files.at))
}

/// The files of certificates, without certificates of authorities that a pattern also matched.
fn certificates(mistakes: &mut MistakeLog<'_>, written: &config::CertList) -> Vec<tls::CertFiles> {
    let mut certs = Vec::new();
    for one in written.iter() {
        let files = files(one);
        if one.named == config::CertNaming::ByPattern && files.are_authorities() {
            let message = format!(
                "{}: certificates of authorities, which are not served",
                files.cert.display()
            );
            let why = "the pattern matches it, and no key is in it or beside it";
            let cure = "keep authorities in a folder of their own, or narrow the pattern";
            mistakes.warn(Code::CertificateDoubtful, &one.at, message, why, cure);
        } else {
            certs.push(files);
        }
    }
    certs
}

fn files(written: &config::CertPaths) -> tls::CertFiles {
    tls::CertFiles {
        cert: written.cert.clone(),
        key: written.key.clone(),
        ocsp: written.ocsp.clone(),
    }
}
