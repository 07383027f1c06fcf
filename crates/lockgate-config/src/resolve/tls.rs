//! TLS of a listener: its own `tls` merged over `[tls]`.

use std::path::{Path, PathBuf};

use crate::check::{Checked, Table, Value};
use crate::codes::Code;
use crate::environment::is_pattern;
use crate::keys;
use crate::model::{CertFiles, ClientAuth, ClientAuthMode, Suite, Tickets, Tls, TlsVersion};
use crate::newcomers;
use crate::place::At;
use crate::policy::Policy;

use super::{Resolver, View};

impl Resolver<'_> {
    /// TLS of the listener that `view` shows and whose key stands at `listener`.
    pub(super) fn tls(&mut self, view: &View<'_>, listener: &At) -> Option<Tls> {
        let written = view
            .written("tls")
            .filter(|written| !self.automatic(written))?;
        self.tls_as(&written, view, listener)
    }

    /// Certificates that are fetched, which is not a path.
    pub(super) fn automatic(&mut self, written: &Checked) -> bool {
        let word = written.at.text().trim_matches(['"', '\'']);
        let Some(cure) = newcomers::later_certificate(word) else {
            return false;
        };
        if !self.warned(Code::NotYet, &written.at) {
            let message = format!("{word:?} is not in this version");
            self.report.push_at(
                Code::NotYet,
                &written.at,
                message,
                "it will come later",
                cure,
            );
        }
        true
    }

    /// The same, with `written` in the place of the key.
    pub(super) fn tls_as(
        &mut self,
        written: &Checked,
        view: &View<'_>,
        listener: &At,
    ) -> Option<Tls> {
        let global = View {
            keys: keys::ROOT,
            layers: vec![self.root],
        }
        .section("tls");
        let own = view.section("tls");
        let own_cert = match &written.value {
            Value::Bool(_) => return None,
            Value::Path(path) => Some(files(path, &written.at)),
            _ => self.own_cert(&own),
        };
        let merged = View {
            keys: own.keys,
            layers: [own.layers.clone(), global.layers].concat(),
        };
        let (certs, default) = self.certificates(own_cert, &own, &merged);
        if certs.is_empty() && default.is_none() && !self.named_wrongly(&merged, view) {
            self.no_certificate(&written.at, listener);
        }
        let policy = self.policy(&merged);
        Some(Tls {
            certs,
            default,
            versions: policy.versions,
            suites: policy.suites,
            groups: policy.groups,
            alpn: merged.texts("alpn"),
            tickets: self.tickets(&merged),
            client_auth: client_auth(&merged),
        })
    }

    fn own_cert(&mut self, own: &View<'_>) -> Option<CertFiles> {
        let cert = own.written("cert");
        for name in ["key", "ocsp"] {
            if let (Some(lonely), false) = (own.written(name), own.mentions("cert")) {
                let message = format!("`{name}` without `cert`");
                let cure = "add cert = \"/etc/tls/app.pem\"";
                self.report.push_at(
                    Code::MissingKey,
                    &lonely.at,
                    message,
                    "of which certificate?",
                    cure,
                );
            }
        }
        // A key that was meant otherwise is reported: nothing is to be said of a missing one.
        let meant = own.is_strange() || own.broken(&["key"]);
        let cert = cert.filter(|_| own.written("key").is_some() || !meant)?;
        let Value::Path(path) = &cert.value else {
            return None;
        };
        let place = |name| own.written(name).map(|written| written.at);
        Some(CertFiles {
            key: own.path("key"),
            ocsp: own.path("ocsp"),
            key_at: place("key"),
            ocsp_at: place("ocsp"),
            ..files(path, &cert.at)
        })
    }

    /// The certificates in order, and the default: the table's own one when it names exactly one.
    fn certificates(
        &mut self,
        own_cert: Option<CertFiles>,
        own: &View<'_>,
        merged: &View<'_>,
    ) -> (Vec<CertFiles>, Option<CertFiles>) {
        let listed = merged.list("certs");
        let only = match (&own_cert, own.written("certs")) {
            (Some(_), None) => own_cert.clone(),
            (None, Some(_)) => only(&listed),
            _ => None,
        };
        let default = own.written("default").as_ref().and_then(cert_files);
        let default = default
            .or(only)
            .or_else(|| merged.written("default").as_ref().and_then(cert_files));
        let mut certs: Vec<CertFiles> = own_cert.into_iter().collect();
        for item in &listed {
            certs.extend(self.expand(item));
        }
        (certs, default)
    }

    /// Whether a mistake in what names certificates has been reported: then none is missing.
    fn named_wrongly(&self, merged: &View<'_>, listener: &View<'_>) -> bool {
        const NAMED: [&str; 4] = ["tls", "cert", "certs", "default"];
        let mut layers = merged
            .layers
            .iter()
            .chain(&listener.layers)
            .chain([&self.root]);
        merged.broken(&NAMED[1..])
            || merged.mentions("cert")
            || !merged.list("certs").is_empty()
            || layers.any(|table| table.strange.meant_one_of(&NAMED))
    }

    fn no_certificate(&mut self, tls: &At, listener: &At) {
        let cure = "write tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }, or certs = [\"/etc/tls/*.pem\"] in [tls]";
        // A host without a port is served over TLS, which not everybody wants who begins.
        let plain = if listener.text().contains(':') {
            ""
        } else {
            "; for plain HTTP write tls = false"
        };
        let cure = format!("{cure}{plain}");
        let texts = (
            "this listener has no certificate",
            "neither here nor in [tls]",
            cure,
        );
        if tls.rank() == listener.rank() {
            let (message, why, cure) = texts;
            return self
                .report
                .push_at(Code::NoCertificate, tls, message, why, cure);
        }
        self.report
            .push_pair(Code::NoCertificate, tls, texts, (listener, "the listener"));
    }

    /// One entry of `certs`; a pattern may stand for many.
    fn expand(&mut self, item: &Checked) -> Vec<CertFiles> {
        let Value::Path(pattern) = &item.value else {
            return cert_files(item).into_iter().collect();
        };
        if !is_pattern(pattern) {
            return vec![files(pattern, &item.at)];
        }
        let found = self.env.glob(pattern);
        if found.is_empty() && !self.warned(Code::NoCertificateMatches, &item.at) {
            let message = "this pattern matches no file";
            let cure =
                "a relative path starts from the folder of this file; `*` does not match `/`";
            self.report.push_at(
                Code::NoCertificateMatches,
                &item.at,
                message,
                "no certificate is read",
                cure,
            );
        }
        let matched = |path: &PathBuf| CertFiles {
            named: crate::model::Named::ByPattern,
            ..files(path, &item.at)
        };
        found.iter().map(matched).collect()
    }

    /// `[tls]` is resolved for each listener, but what is wrong with it is said once.
    pub(super) fn warned(&self, code: Code, at: &At) -> bool {
        self.report
            .iter()
            .any(|found| found.code() == code && found.at().map(At::rank) == Some(at.rank()))
    }

    fn policy(&mut self, merged: &View<'_>) -> Policy {
        let mut policy = Policy::intermediate();
        match merged.value("policy") {
            Value::Word("modern") => return Policy::modern(),
            Value::Table(_) => {}
            _ => return policy,
        }
        // The table is taken whole from the nearest layer: a policy is one decision.
        let mut view = merged.section("policy");
        view.layers.truncate(1);
        if view.broken(&["versions", "suites"]) {
            return policy;
        }
        let versions: Vec<TlsVersion> = picked(&view, "versions", |value| match value {
            Value::Version(version) => Some(*version),
            _ => None,
        });
        if !versions.is_empty() {
            let kept: Vec<_> = TlsVersion::ALL
                .into_iter()
                .filter(|one| versions.contains(one))
                .collect();
            policy.keep_versions(&kept);
        }
        if let Some(written) = view.written("suites") {
            policy.suites = self.suites(&written, &policy.versions);
        }
        let groups = picked(&view, "groups", |value| {
            if let Value::Group(group) = value {
                Some(*group)
            } else {
                None
            }
        });
        if !groups.is_empty() {
            policy.groups = groups;
        }
        policy
    }

    fn suites(&mut self, written: &Checked, versions: &[TlsVersion]) -> Vec<Suite> {
        let Value::List(items) = &written.value else {
            return Vec::new();
        };
        let mut suites = Vec::new();
        for item in items {
            let Value::Suite(suite) = item.value else {
                continue;
            };
            if versions.contains(&suite.version()) {
                suites.push(suite);
            } else if !self.warned(Code::NoEffect, &item.at) {
                let message = format!("{} has no effect", suite.name());
                let why = format!(
                    "it is for TLS {}, which `versions` leaves out",
                    suite.version().name()
                );
                self.report
                    .push_at(Code::NoEffect, &item.at, message, why, "remove it");
            }
        }
        for version in versions {
            let left = suites.iter().any(|suite| suite.version() == *version);
            if !left && !self.warned(Code::NoSuite, &written.at) {
                let message = format!("no suite is left for TLS {}", version.name());
                let cure = format!(
                    "add a suite of TLS {0}, or leave \"{0}\" out of versions",
                    version.name()
                );
                self.report.push_at(
                    Code::NoSuite,
                    &written.at,
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
        if let Value::Bool(false) = merged.value("tickets") {
            return Tickets::Off;
        }
        let mut view = merged.section("tickets");
        view.layers.truncate(1);
        let Some(keys) = view.path("keys") else {
            return Tickets::Rotating {
                rotate: view.duration("rotate"),
                keep: view.number("keep"),
            };
        };
        for name in ["rotate", "keep"] {
            let Some(other) = view.written(name) else {
                continue;
            };
            if !self.warned(Code::Excluded, &other.at) {
                let message = format!("`{name}` beside `keys`");
                let why = "keys from a file are not rotated";
                self.report.push_at(
                    Code::Excluded,
                    &other.at,
                    message,
                    why,
                    "remove one of the two",
                );
            }
        }
        Tickets::Keys(keys)
    }
}

impl View<'_> {
    /// Whether the key was written, be it wrongly.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.layers
            .iter()
            .any(|layer| layer.entries.contains_key(name))
    }

    /// Whether one of the tables has a key that is not known, or lines that could not be read.
    pub(super) fn is_strange(&self) -> bool {
        self.layers.iter().any(|layer| layer.strange.any)
    }

    /// Whether something in one of the keys was wrong and has been reported.
    pub(super) fn broken(&self, names: &[&str]) -> bool {
        let invalid = |table: &&Table| {
            names
                .iter()
                .filter_map(|name| table.entries.get(name))
                .any(|one| one.value.is_broken())
        };
        self.layers.iter().any(invalid)
    }
}

fn picked<T>(view: &View<'_>, name: &str, pick: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    view.list(name)
        .iter()
        .filter_map(|item| pick(&item.value))
        .collect()
}

fn client_auth(merged: &View<'_>) -> Option<ClientAuth> {
    let mut view = merged.section("client_auth");
    if !matches!(merged.value("client_auth"), Value::Table(_)) {
        return None;
    }
    view.layers.truncate(1);
    let mode = match view.word("mode") {
        "request" => ClientAuthMode::Request,
        _ => ClientAuthMode::Require,
    };
    let written = view.written("ca")?;
    let Value::Path(ca) = written.value else {
        return None;
    };
    Some(ClientAuth {
        mode,
        ca,
        at: written.at,
    })
}

/// The one certificate of a list that has one and no pattern.
fn only(listed: &[Checked]) -> Option<CertFiles> {
    match listed {
        [
            Checked {
                value: Value::Path(path),
                ..
            },
        ] if is_pattern(path) => None,
        [one] => cert_files(one),
        _ => None,
    }
}

fn cert_files(item: &Checked) -> Option<CertFiles> {
    match &item.value {
        Value::Path(path) => Some(files(path, &item.at)),
        Value::Table(table) => {
            let path = |name: &str| match table.entries.get(name) {
                Some(Checked {
                    value: Value::Path(path),
                    ..
                }) => Some(path.clone()),
                _ => None,
            };
            let place = |name: &str| table.entries.get(name).map(|written| written.at.clone());
            Some(CertFiles {
                key: path("key"),
                ocsp: path("ocsp"),
                key_at: place("key"),
                ocsp_at: place("ocsp"),
                ..files(
                    &path("cert")?,
                    &place("cert").unwrap_or_else(|| item.at.clone()),
                )
            })
        }
        _ => None,
    }
}

fn files(cert: &Path, at: &At) -> CertFiles {
    CertFiles {
        cert: cert.to_owned(),
        key: None,
        ocsp: None,
        at: at.clone(),
        key_at: None,
        ocsp_at: None,
        named: crate::model::Named::ByPath,
    }
}
