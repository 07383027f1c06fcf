//! TLS of a listener: its own `tls` merged over `[tls]`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codes::Code;
use crate::environment::is_pattern;
use crate::keys::tls::{
    self as keys, PolicyName, TlsForm, TlsShort, cert, client_auth, policy, site, tickets,
};
use crate::keys::top;
use crate::language::KeyRow;
use crate::model::{CertList, CertPaths, ClientAuth, DownstreamTls, Suite, Tickets, TlsVersion};
use crate::policy::TlsPreset;
use crate::source::SourceSpan;
use crate::table::{PlacedValue, Typed};
use crate::values::{Items, Listed, ShortOrLong};

use super::certificates::{CertFiles, CertNames, OwnAcme};
use super::{Resolver, View};

/// The value of `certs`.
type CertItems = Items<ShortOrLong<PathBuf>>;

impl Resolver<'_> {
    /// TLS of the listener that `view` shows, by its `tls`, with certificates for `names`. The key of
    /// the listener stands at `listener`.
    pub(super) fn tls<K: Typed<Value = TlsForm>>(
        &mut self,
        view: &View<'_>,
        key: &K,
        listener: &SourceSpan,
        names: &CertNames<'_>,
    ) -> Option<DownstreamTls> {
        let written = view.written(key)?;
        self.tls_as(written, &view.section(key), view, listener, names)
    }

    /// The same, with `written` in place of the key, and `own` of its table.
    pub(super) fn tls_as(
        &mut self,
        written: PlacedValue<'_, TlsForm>,
        own: &View<'_>,
        view: &View<'_>,
        listener: &SourceSpan,
        names: &CertNames<'_>,
    ) -> Option<DownstreamTls> {
        let own_cert = match written.value {
            ShortOrLong::Short(TlsShort::Off) => return None,
            ShortOrLong::Short(TlsShort::Cert(path)) => Some(certificate_at(path, written.at)),
            ShortOrLong::Short(TlsShort::Internal) => None,
            ShortOrLong::Long(_) => self.own_cert(own),
        };
        let merged = own.clone().over(self.top().section(&top::TLS));
        let (certs, default) = self.certificates(own_cert, own, &merged);
        let reported = self.is_certificate_reported(&merged, view, names);
        let files = match certs.is_empty() && default.is_none() {
            false => CertFiles::Some,
            true if reported => CertFiles::Mistaken,
            true => CertFiles::None,
        };
        let managed = self.managed(written, own, names, files);
        if files == CertFiles::None && managed.is_none() {
            self.no_certificate(written.at, listener, names);
        }
        let policy = self.policy(&merged);
        Some(DownstreamTls {
            certs,
            default,
            managed,
            versions: policy.versions,
            suites: policy.suites,
            groups: policy.groups,
            alpn: merged.list(&keys::tcp::ALPN),
            tickets: self.tickets(&merged),
            client_auth: client_auth_of(&merged),
        })
    }

    fn own_cert(&mut self, own: &View<'_>) -> Option<CertPaths> {
        let cert = own.written(&site::CERT);
        for key in [site::KEY.row(), site::OCSP.row()] {
            if let (Some(lonely), false) = (own.value_at(key), own.has(&site::CERT)) {
                let message = format!("`{}` without `cert`", key.name);
                let cure = "add cert = \"/etc/tls/app.pem\"";
                self.report.push_at(
                    Code::MissingKey,
                    lonely,
                    message,
                    "of which certificate?",
                    cure,
                );
            }
        }
        // A key that was meant otherwise is reported: nothing is to be said of a missing one.
        let meant = own.has_unknown_keys() || own.broken(&[site::KEY.row()]);
        let cert = cert.filter(|_| own.written(&site::KEY).is_some() || !meant)?;
        Some(CertPaths {
            key: own.get(&site::KEY),
            ocsp: own.get(&site::OCSP),
            key_at: own.value_at(site::KEY.row()).cloned(),
            ocsp_at: own.value_at(site::OCSP.row()).cloned(),
            ..certificate_at(cert.value, cert.at)
        })
    }

    /// The certificates in order, and the default: the table's own one when it names exactly one.
    fn certificates(
        &mut self,
        own_cert: Option<CertPaths>,
        own: &View<'_>,
        merged: &View<'_>,
    ) -> (CertList, Option<CertPaths>) {
        let listed = merged.written(&keys::CERTS);
        let only = match (&own_cert, own.written(&keys::CERTS)) {
            (Some(_), None) => own_cert.clone(),
            (None, Some(own)) => only_certificate(own.value.as_slice()),
            _ => None,
        };
        let default = |view: &View<'_>| {
            let written = view.written(&keys::DEFAULT)?;
            cert_files(written.value, written.at)
        };
        let default = default(own).or(only).or_else(|| default(merged));
        let certs = CertList {
            own: own_cert,
            listed: listed.map_or_else(Arc::default, |listed| self.listed(listed)),
        };
        (certs, default)
    }

    /// The certificates of a list, which many tables may inherit.
    fn listed(&mut self, written: PlacedValue<'_, CertItems>) -> Arc<[CertPaths]> {
        let place = written.at.start();
        if let Some(known) = self.cert_lists.get(&place) {
            return Arc::clone(known);
        }
        let mut certs = Vec::new();
        for (one, at) in written.value.placed() {
            certs.extend(self.expand(one, at));
        }
        let certs: Arc<[_]> = certs.into();
        self.cert_lists.insert(place, Arc::clone(&certs));
        certs
    }

    /// Whether a mistake in what names certificates has been reported: then none is missing.
    fn is_certificate_reported(
        &self,
        merged: &View<'_>,
        listener: &View<'_>,
        names: &CertNames<'_>,
    ) -> bool {
        const NAMED: [&str; 6] = [
            top::ACME.row().name,
            top::TLS.row().name,
            keys::ISSUER.row().name,
            site::CERT.row().name,
            keys::CERTS.row().name,
            keys::DEFAULT.row().name,
        ];
        let mut layers = merged
            .layers
            .iter()
            .chain(&listener.layers)
            .chain([&self.root]);
        const KEYS: [KeyRow; 4] = [
            site::CERT.row(),
            keys::CERTS.row(),
            keys::DEFAULT.row(),
            keys::ISSUER.row(),
        ];
        merged.broken(&KEYS)
            || matches!(names.acme, OwnAcme::Broken)
            || self.root.is_invalid(&top::ACME)
            || merged.has(&site::CERT)
            || !merged.items(&keys::CERTS).is_empty()
            || layers.any(|table| table.strange.meant_one_of(&NAMED))
    }

    /// The certificates of one entry of `certs`, which may be a pattern.
    fn expand(&mut self, one: &ShortOrLong<PathBuf>, at: &SourceSpan) -> Vec<CertPaths> {
        let ShortOrLong::Short(pattern) = one else {
            return cert_files(one, at).into_iter().collect();
        };
        if !is_pattern(pattern) {
            return vec![certificate_at(pattern, at)];
        }
        let found = self.env.glob(pattern);
        if found.is_empty() {
            let message = "this pattern matches no file";
            let cure =
                "a relative path starts from the folder of this file; `*` does not match `/`";
            self.push_once(
                Code::NoCertificateMatches,
                at,
                message,
                "no certificate is read",
                cure,
            );
        }
        let matched = |path: &PathBuf| CertPaths {
            named: crate::model::CertNaming::ByPattern,
            ..certificate_at(path, at)
        };
        found.iter().map(matched).collect()
    }

    fn policy(&mut self, merged: &View<'_>) -> TlsPreset {
        let mut policy = TlsPreset::intermediate();
        match merged.get(&keys::POLICY) {
            ShortOrLong::Short(PolicyName::Modern) => return TlsPreset::modern(),
            ShortOrLong::Short(PolicyName::Intermediate) => return policy,
            ShortOrLong::Long(_) => {}
        }
        // The table is taken whole from the nearest layer: a policy is one decision.
        let view = merged.section(&keys::POLICY).nearest();
        if view.broken(&[policy::VERSIONS.row(), policy::SUITES.row()]) {
            return policy;
        }
        let versions = view.list(&policy::VERSIONS);
        if !versions.is_empty() {
            let kept: Vec<_> = TlsVersion::ALL
                .into_iter()
                .filter(|one| versions.contains(one))
                .collect();
            policy.keep_versions(&kept);
        }
        if let Some(written) = view.written(&policy::SUITES) {
            policy.suites = self.suites(written, &policy.versions);
        }
        let groups = view.list(&policy::GROUPS);
        if !groups.is_empty() {
            policy.groups = groups;
        }
        policy
    }

    fn suites(
        &mut self,
        written: PlacedValue<'_, Items<Suite>>,
        versions: &[TlsVersion],
    ) -> Vec<Suite> {
        let mut suites = Vec::new();
        for (suite, at) in written.value.placed() {
            let suite = *suite;
            if versions.contains(&suite.version()) {
                suites.push(suite);
            } else if !self.was_reported(Code::NoEffect, at) {
                let message = format!("{} has no effect", suite.name());
                let why = format!(
                    "it is for TLS {}, which `versions` leaves out",
                    suite.version().name()
                );
                self.report
                    .push_at(Code::NoEffect, at, message, why, "remove it");
            }
        }
        for version in versions {
            let left = suites.iter().any(|suite| suite.version() == *version);
            if !left {
                let message = format!("no suite is left for TLS {}", version.name());
                let cure = format!(
                    "add a suite of TLS {0}, or leave \"{0}\" out of versions",
                    version.name()
                );
                self.push_once(
                    Code::NoSuite,
                    written.at,
                    message,
                    "every version needs one",
                    cure,
                );
            }
        }
        suites.dedup();
        suites
    }

    fn tickets(&mut self, merged: &View<'_>) -> Tickets {
        if let Some(ShortOrLong::Short(())) = merged.get(&keys::TICKETS) {
            return Tickets::Off;
        }
        let view = merged.section(&keys::TICKETS).nearest();
        let Some(file) = view.get(&tickets::KEYS) else {
            return Tickets::Rotating {
                rotate: view.get(&tickets::ROTATE),
                keep: view.get(&tickets::KEEP),
            };
        };
        for key in [tickets::ROTATE.row(), tickets::KEEP.row()] {
            let Some(at) = view.value_at(key) else {
                continue;
            };
            let message = format!("`{}` beside `keys`", key.name);
            let why = "keys from a file are not rotated";
            self.push_once(Code::Excluded, at, message, why, "remove one of the two");
        }
        Tickets::Keys(file)
    }
}

fn client_auth_of(merged: &View<'_>) -> Option<ClientAuth> {
    if !merged.get(&keys::CLIENT_AUTH).is_long() {
        return None;
    }
    let view = merged.section(&keys::CLIENT_AUTH).nearest();
    let ca = view.written(&client_auth::CA)?;
    Some(ClientAuth {
        mode: view.get(&client_auth::MODE),
        ca: ca.value.clone(),
        at: ca.at.clone(),
    })
}

/// The one certificate of a list that has one and no pattern.
fn only_certificate(listed: &[Listed<ShortOrLong<PathBuf>>]) -> Option<CertPaths> {
    let [one] = listed else { return None };
    match one.value.as_ref()? {
        ShortOrLong::Short(path) if is_pattern(path) => None,
        found => cert_files(found, &one.at),
    }
}

fn cert_files(one: &ShortOrLong<PathBuf>, at: &SourceSpan) -> Option<CertPaths> {
    let view = match one {
        ShortOrLong::Short(path) => return Some(certificate_at(path, at)),
        ShortOrLong::Long(table) => View::of(table),
    };
    let cert = view.written(&cert::CERT)?;
    Some(CertPaths {
        key: view.get(&cert::KEY),
        ocsp: view.get(&cert::OCSP),
        key_at: view.value_at(cert::KEY.row()).cloned(),
        ocsp_at: view.value_at(cert::OCSP.row()).cloned(),
        ..certificate_at(cert.value, cert.at)
    })
}

fn certificate_at(cert: &Path, at: &SourceSpan) -> CertPaths {
    CertPaths {
        cert: cert.to_owned(),
        key: None,
        ocsp: None,
        at: at.clone(),
        key_at: None,
        ocsp_at: None,
        named: crate::model::CertNaming::ByPath,
    }
}
