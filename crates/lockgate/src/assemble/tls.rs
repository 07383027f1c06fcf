//! TLS as it runs: acceptors for clients, connectors to endpoints, and the keys of tickets; with a
//! cure for each mistake in their files.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use lockgate_config as config;
use lockgate_config::{Code, SourceSpan};
use lockgate_net::tls::{
    self, Acceptor, AcceptorIndex, Acceptors, CertError, Connector, ConnectorError, Policy,
    TicketRing, TlsSetupError, Warning,
};
use lockgate_rules::HostPattern;

use super::MistakeLog;

/// The ticket keys: listeners with the same settings share theirs.
#[derive(Default)]
pub(super) struct TicketRings(Vec<(config::Tickets, Arc<TicketRing>)>);

impl TicketRings {
    pub(super) fn all(self) -> Vec<Arc<TicketRing>> {
        self.0.into_iter().map(|(_, ring)| ring).collect()
    }

    /// The acceptor of a listener; `at` is its place in the configuration.
    pub(super) fn acceptor(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        at: &SourceSpan,
        written: &config::DownstreamTls,
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
    ) -> Option<(Acceptors, Vec<AcceptorIndex>)> {
        let mut groups: Vec<(&SourceSpan, config::DownstreamTls)> = Vec::new();
        let (mut names, mut places, mut default) = (Vec::new(), Vec::new(), AcceptorIndex::new(0));
        for site in sites {
            let written = site.tls.as_ref()?;
            let place = groups
                .iter()
                .position(|(_, group)| same_rules(group, written))
                .unwrap_or_else(|| {
                    let group = config::DownstreamTls {
                        certs: Vec::new(),
                        default: None,
                        ..written.clone()
                    };
                    groups.push((&site.at, group));
                    groups.len() - 1
                });
            let (_, group) = groups.get_mut(place)?;
            let place = AcceptorIndex::new(place);
            group.certs.extend(written.certs.iter().cloned());
            // The only certificate of a table is for every name where the table has the address
            // alone. A client that connects to an IP address sends no name (RFC 6066 §3).
            let own = neighbours == Neighbours::Sites && sites.len() == 1;
            let meant = own || !is_only(written) || site.hosts.iter().any(is_ip);
            group.default = group
                .default
                .take()
                .or(written.default.clone().filter(|_| meant));
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
        for (_, group) in &mut groups {
            group.certs = last_of_each(std::mem::take(&mut group.certs));
        }
        // Not lazily: the mistakes of all are reported at once.
        let made: Vec<_> = groups
            .iter()
            .map(|(at, group)| self.acceptor(mistakes, at, group))
            .collect();
        let made: Vec<_> = made.into_iter().collect::<Option<_>>()?;
        for (site, place) in sites.iter().zip(&places) {
            let names = made
                .get(place.get())
                .map(|acceptor| acceptor.store().describe())
                .unwrap_or_default();
            for host in &site.hosts {
                warn_uncovered(mistakes, site, host, &names);
            }
        }
        Some((Acceptors::new(made, names, default), places))
    }

    /// The ticket keys for these settings; the inner `None` is no tickets.
    fn ring(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        at: &SourceSpan,
        written: &config::Tickets,
    ) -> Option<Option<Arc<TicketRing>>> {
        if let Some((_, ring)) = self.0.iter().find(|(known, _)| known == written) {
            return Some(Some(Arc::clone(ring)));
        }
        let now = Instant::now();
        let made = match written {
            config::Tickets::Off => return Some(None),
            config::Tickets::Rotating { rotate, keep } => {
                TicketRing::rotating(*rotate, usize::from(*keep), now)
            }
            config::Tickets::Keys(path) => {
                TicketRing::from_file(path, now).map(|(ring, warnings)| {
                    for warning in warnings {
                        mistakes.warn(Code::CertificateDoubtful, at, warning.to_string(), "", "");
                    }
                    ring
                })
            }
        };
        match made {
            Ok(ring) => {
                self.0.push((written.clone(), Arc::clone(&ring)));
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

/// Whether two settings differ in nothing but the certificates.
fn same_rules(one: &config::DownstreamTls, other: &config::DownstreamTls) -> bool {
    let rules = |tls: &config::DownstreamTls| config::DownstreamTls {
        certs: Vec::new(),
        default: None,
        ..tls.clone()
    };
    rules(one) == rules(other)
}

/// Whether the default is the only certificate of a table: both have the same place.
fn is_only(written: &config::DownstreamTls) -> bool {
    let same = |one: &config::CertPaths, other: &config::CertPaths| {
        one == other && one.at.to_string() == other.at.to_string()
    };
    written
        .default
        .iter()
        .any(|default| written.certs.iter().any(|one| same(one, default)))
}

/// Warns of a host that no certificate covers.
fn warn_uncovered(
    mistakes: &mut MistakeLog<'_>,
    site: &config::HostedSite,
    host: &HostPattern,
    certs: &[tls::CertSummary],
) {
    let has = |wanted: &str| {
        certs
            .iter()
            .any(|cert| cert.facts.names.iter().any(|name| name == wanted))
    };
    let (covered, shown) = match host {
        HostPattern::Any => return,
        HostPattern::Exact(host) => {
            let address = host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .parse::<IpAddr>();
            let by_address =
                address.is_ok_and(|ip| certs.iter().any(|cert| cert.facts.addresses.contains(&ip)));
            let parent = host
                .split_once('.')
                .map(|(_, parent)| format!("*.{parent}"));
            (
                has(host) || by_address || parent.is_some_and(|parent| has(&parent)),
                host.clone(),
            )
        }
        HostPattern::Under(parent) => (has(&format!("*.{parent}")), format!("*.{parent}")),
    };
    if !covered {
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
}

/// Each certificate once, at its last place: each site lists its own before those of `[tls]`.
fn last_of_each(certs: Vec<config::CertPaths>) -> Vec<config::CertPaths> {
    let mut kept: Vec<config::CertPaths> = Vec::new();
    for one in certs.into_iter().rev() {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept.reverse();
    kept
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
    mistakes.warn(code, at, warning.to_string(), "", "");
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
    let (path, code, cure) = match error {
        CertError::Missing { path }
        | CertError::Unreadable { path, .. }
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
fn certificates(
    mistakes: &mut MistakeLog<'_>,
    written: &[config::CertPaths],
) -> Vec<tls::CertFiles> {
    let mut certs = Vec::new();
    for one in written {
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
