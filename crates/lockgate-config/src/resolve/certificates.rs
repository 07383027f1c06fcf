//! Certificates that come by themselves: their issuer for the names of a table, and what a table
//! without any lacks.
//!
//! Reads no file: which names the operator's files cover is known only later.

use std::path::PathBuf;
use std::sync::Arc;

use lockgate_rules::{
    AcmeSettings, CertFallback, CertIssuer, ExternalAccount, HostPattern, NameRefusal, OnDemand,
    public_refusal,
};

use crate::codes::Code;
use crate::keys::acme::{self, eab, on_demand};
use crate::keys::tls::{self as keys, IssuerName, TlsForm, TlsShort};
use crate::keys::{Defaulted, site, top};
use crate::model::{AuthoritySource, DownstreamTls, ManagedCerts};
use crate::source::SourceSpan;
use crate::table::PlacedValue;
use crate::values::{Items, ShortOrLong};

use super::{Resolver, View};

/// The names of a table on TLS, for which certificates may be issued.
pub(super) struct CertNames<'a> {
    pub(super) table: TableKind,
    /// Each name, and its place. A site for every host has that pattern alone.
    pub(super) hosts: Vec<(HostPattern, &'a SourceSpan)>,
    pub(super) acme: OwnAcme<'a>,
}

/// The kind of a table with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    Site,
    /// A `[tcp]` or `[tunnel]` table, or an entry of `sni`, `alpn` or `default`.
    Listener,
}

/// `acme` of a table.
pub(super) enum OwnAcme<'a> {
    /// None was written, or none can be.
    Absent,
    /// `false`, at this place.
    Off(&'a SourceSpan),
    /// A table, at the place of its key.
    Table(View<'a>, &'a SourceSpan),
    /// A mistake, which has been reported.
    Broken,
}

/// Whether files of the operator may cover names of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertFiles {
    None,
    Some,
    /// What names them is a mistake, which has been reported.
    Mistaken,
}

/// Where `state` is for certificates if it was not written.
const STATE: &str = "/var/lib/lockgate";

const OWN_FILES: &str = "tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }";

impl<'a> CertNames<'a> {
    /// A table that names no hosts.
    pub(super) fn none() -> Self {
        Self {
            table: TableKind::Listener,
            hosts: Vec::new(),
            acme: OwnAcme::Absent,
        }
    }

    /// Whether no single name is among them.
    fn is_nameless(&self) -> bool {
        let is_any = |(host, _): &(HostPattern, _)| *host == HostPattern::Any;
        self.hosts.iter().all(is_any)
    }

    /// Whether no public authority certifies any of the names.
    fn is_private(&self) -> bool {
        let refused = |(host, _): &(HostPattern, _)| match host {
            HostPattern::Any => false,
            HostPattern::Exact(name) | HostPattern::Under(name) => public_refusal(name).is_some(),
        };
        !self.hosts.is_empty() && self.hosts.iter().all(refused)
    }
}

impl<'a> OwnAcme<'a> {
    /// `acme` of a site.
    pub(super) fn of(view: &View<'a>) -> Self {
        match (view.written(&site::ACME), view.key_at(&site::ACME)) {
            (Some(written), Some(key_at)) => match written.value {
                ShortOrLong::Short(()) => Self::Off(written.at),
                ShortOrLong::Long(table) => Self::Table(View::of(table), key_at),
            },
            (None, Some(_)) => Self::Broken,
            (_, None) => Self::Absent,
        }
    }
}

impl Resolver<'_> {
    /// The source of certificates for the names of a table that no file covers. `written` is its
    /// `tls`, `own` the table of that.
    pub(super) fn managed(
        &mut self,
        written: PlacedValue<'_, TlsForm>,
        own: &View<'_>,
        names: &CertNames<'_>,
        files: CertFiles,
    ) -> Option<ManagedCerts> {
        if let ShortOrLong::Short(TlsShort::Internal) = written.value {
            return internal(written.at, names);
        }
        let issuer = own.written(&keys::ISSUER);
        if let Some(issuer) = issuer
            && *issuer.value == IssuerName::Acme
            && names.is_nameless()
        {
            let cure = "write the hosts into the header and `alias`, or remove it";
            self.no_effect("issuer", issuer.at, "ACME needs the names of hosts", cure);
        }
        let issuer = issuer.or_else(|| self.top().section(&top::TLS).written(&keys::ISSUER));
        match issuer.map(|issuer| (*issuer.value, issuer.at)) {
            Some((IssuerName::Internal, at)) => internal(at, names),
            Some((IssuerName::Acme, at)) => self.by_acme(names, files, Some(at)),
            None => self.by_acme(names, files, None),
        }
    }

    /// Certificates by ACME; `asked` is the place of `issuer = "acme"`.
    fn by_acme(
        &mut self,
        names: &CertNames<'_>,
        files: CertFiles,
        asked: Option<&SourceSpan>,
    ) -> Option<ManagedCerts> {
        let top = self.top();
        let global = top.section(&top::ACME);
        let (view, at) = match (&names.acme, top.key_at(&top::ACME)) {
            (OwnAcme::Broken, _) => return None,
            (OwnAcme::Off(at), _) => {
                if let (Some(asked), CertFiles::Some) = (asked, files) {
                    let why = "the site's `acme = false` gets none by ACME";
                    let texts = ("`issuer = \"acme\"` with `acme = false`", why, "remove one");
                    self.report
                        .push_pair(Code::Excluded, asked, texts, (at, "here"));
                }
                return None;
            }
            (OwnAcme::Table(own, at), _) => (own.clone().over(global), (*at).clone()),
            (OwnAcme::Absent, Some(at)) if !global.layers.is_empty() => (global, at.clone()),
            // A mistake, which has been reported.
            (OwnAcme::Absent, Some(_)) => return None,
            (OwnAcme::Absent, None) => {
                let misspelt = self.root.strange.meant_one_of(&[top::ACME.row().name]);
                if let (Some(asked), CertFiles::Some, false) = (asked, files, misspelt) {
                    let why = "nothing says which authority is meant";
                    let message = "`issuer = \"acme\"` without [acme]";
                    self.push_once(Code::MissingKey, asked, message, why, "add [acme]");
                }
                return None;
            }
        };
        let on_demand = self.on_demand(&view);
        if names.hosts.is_empty() || (names.is_nameless() && on_demand.is_none()) {
            return None;
        }
        let settings = self.acme_settings(&view);
        if files == CertFiles::None && !view.broken(&[acme::DIRECTORY.row()]) {
            for (host, at) in &names.hosts {
                let is_excused = |refusal: NameRefusal| match refusal {
                    // One of their names may be certified.
                    NameRefusal::EveryHost => on_demand.is_some(),
                    // A mistake in `dns` has been reported.
                    NameRefusal::Wildcard => on_demand.is_some() || view.has(&acme::DNS),
                    _ => false,
                };
                if let Some(refusal) = settings.refuses(host)
                    && !is_excused(refusal)
                {
                    self.not_certified(names, host, at, refusal);
                }
            }
        }
        Some(ManagedCerts {
            issuer: CertIssuer::Acme(settings),
            fallback: view.get(&acme::FALLBACK),
            on_demand,
            at,
        })
    }

    /// The permission of `on_demand`.
    fn on_demand(&mut self, view: &View<'_>) -> Option<Arc<OnDemand>> {
        let written = view.written(&acme::ON_DEMAND)?;
        let table = view.section(&acme::ON_DEMAND).nearest();
        let names = match written.value {
            ShortOrLong::Short(hosts) => hosts.values().cloned().collect(),
            ShortOrLong::Long(_) => table.list(&on_demand::NAMES),
        };
        let ask = table.get(&on_demand::ASK);
        if names.is_empty()
            && ask.is_none()
            && !table.broken(&[on_demand::ASK.row(), on_demand::NAMES.row()])
        {
            let message = "`on_demand` without a permission";
            let why = "every client could have certificates ordered for any name";
            let cure = "add ask = \"http://127.0.0.1:3000/allowed\", or names = [\"*.customers.example.com\"]";
            self.push_once(Code::MissingKey, written.at, message, why, cure);
        }
        Some(Arc::new(OnDemand {
            names,
            ask: ask.map(|url| format!("http://{}{}", url.host, url.path)),
            per_hour: table.get(&on_demand::PER_HOUR),
            per_client: table.get(&on_demand::PER_CLIENT),
        }))
    }

    /// The settings of a table; equal ones are shared.
    fn acme_settings(&mut self, view: &View<'_>) -> Arc<AcmeSettings> {
        let account = view.section(&acme::EAB).nearest();
        let eab = account.get(&eab::KEY_ID).zip(account.get(&eab::MAC_KEY));
        let settings = AcmeSettings {
            directories: self.once_each(view, "directory", &acme::DIRECTORY),
            ca: match view.get(&acme::CA) {
                AuthoritySource::System => None,
                AuthoritySource::File(path) => Some(path),
            },
            email: view.get(&acme::EMAIL),
            eab: eab.map(|(key_id, mac_key)| ExternalAccount { key_id, mac_key }),
            profile: view.get(&acme::PROFILE),
            keys: self.once_each(view, "key", &acme::KEY),
            dns: self.dns_provider(view),
        };
        let shared = match self.acme.get(&settings) {
            Some(known) => return Arc::clone(known),
            None => Arc::new(settings),
        };
        self.acme.insert(Arc::clone(&shared));
        shared
    }

    /// The entries of a list, of which each counts once.
    fn once_each<T: Clone + PartialEq + 'static>(
        &mut self,
        view: &View<'_>,
        name: &str,
        key: &Defaulted<Items<T>>,
    ) -> Vec<T> {
        let mut once: Vec<T> = Vec::new();
        for (one, at) in view.items(key).placed() {
            if once.contains(one) {
                self.no_effect(name, at, "it is in the list already", "remove it");
            } else {
                once.push(one.clone());
            }
        }
        once
    }

    /// Reports a name for which the authority, the only source of its certificate, issues none.
    fn not_certified(
        &mut self,
        names: &CertNames<'_>,
        host: &HostPattern,
        at: &SourceSpan,
        refusal: NameRefusal,
    ) {
        let alone = match names.is_private() {
            true => "write tls = \"internal\" in its table",
            false => "move it to a site of its own with tls = \"internal\"",
        };
        let otherwise =
            format!("{alone}, for a certificate of Lockgate's own authority; or write {OWN_FILES}");
        let (message, why, cure) = match refusal {
            NameRefusal::Wildcard => (
                format!("no certificate for {host} can be had by ACME"),
                "a wildcard needs DNS-01, the challenge by DNS, and nothing says who writes its record"
                    .to_owned(),
                format!(
                    "add dns = {{ provider = \"desec\", token = \"…\" }} to [acme], with your own provider; \
                     or write {OWN_FILES}"
                ),
            ),
            refusal => (
                format!("no public authority certifies {host}"),
                reason(refusal),
                otherwise,
            ),
        };
        self.push_once(Code::NotCertified, at, message, why, cure);
    }

    /// Reports a table on TLS without any certificate. `tls` is the place of its key.
    pub(super) fn no_certificate(
        &mut self,
        tls: &SourceSpan,
        listener: &SourceSpan,
        names: &CertNames<'_>,
    ) {
        let automatic = self.top().has(&top::ACME);
        let why = match names.acme {
            OwnAcme::Off(_) => "`acme = false` gets none by ACME, and no file is named",
            _ if automatic && names.hosts.is_empty() => {
                "no file is named, and [acme] is for the hosts of sites and of `sni`"
            }
            _ if automatic => "no file is named, and [acme] needs the names of hosts",
            _ => "neither here nor in [tls]",
        };
        const INTERNAL: &str = "write tls = \"internal\" for one of Lockgate's own authority";
        let files = format!("{OWN_FILES}, or certs = [\"/etc/tls/*.pem\"] in [tls]");
        let mut cure = match (&names.acme, names.table) {
            (OwnAcme::Off(_), _) => format!("write {files}; or remove acme = false"),
            _ if names.hosts.is_empty() => format!("write {files}"),
            _ if names.is_nameless() => format!("{INTERNAL}; or {files}"),
            _ if names.is_private() => format!("{INTERNAL}; or {files}"),
            _ => format!("add [acme], and it gets one by itself; or write {files}"),
        };
        // A host without a port is served over TLS, which not every beginner wants.
        if !listener.text().contains(':') && names.table == TableKind::Site {
            cure.push_str("; for plain HTTP write tls = false");
        }
        let texts = ("this listener has no certificate", why, cure);
        if tls.rank() == listener.rank() {
            let (message, why, cure) = texts;
            return self
                .report
                .push_at(Code::NoCertificate, tls, message, why, cure);
        }
        self.report
            .push_pair(Code::NoCertificate, tls, texts, (listener, "the listener"));
    }

    /// The folder of `state`, which certificates that come by themselves need; `first` asks for
    /// them.
    pub(super) fn state(&mut self, first: Option<&ManagedCerts>) -> Option<PathBuf> {
        let top = self.top();
        match (top.written(&top::STATE), first) {
            (Some(written), Some(first)) if written.value.is_none() => {
                let texts = (
                    "`state = false` leaves certificates no place",
                    "those that come by themselves are kept in that folder, with their keys",
                    "write state = \"/var/lib/lockgate\", or remove it",
                );
                let label = (&first.at, "certificates come by this");
                self.report
                    .push_pair(Code::NoState, written.at, texts, label);
                None
            }
            (Some(written), _) => written.value.clone(),
            (None, Some(_)) if !top.has(&top::STATE) => Some(self.usual_state()),
            (None, _) => None,
        }
    }

    /// The folder that systemd gives, or the usual one.
    fn usual_state(&self) -> PathBuf {
        // Several folders have colons between (systemd.exec(5)).
        let given = self.env.var("STATE_DIRECTORY").unwrap_or_default();
        let first = PathBuf::from(given.split(':').next().unwrap_or_default());
        if first.is_absolute() {
            first
        } else {
            PathBuf::from(STATE)
        }
    }

    /// Warns of an `acme` table of a site by which it gets no certificate.
    pub(super) fn unused_acme(&mut self, names: &CertNames<'_>, tls: Option<&DownstreamTls>) {
        let OwnAcme::Table(_, at) = names.acme else {
            return;
        };
        let managed = tls.map(|tls| tls.managed.as_ref());
        let (why, cure) = match managed {
            None => ("this site has no TLS", "add tls = {}, or remove it"),
            Some(None) => (
                "a site for every host has no name to order a certificate for",
                "write the host into the header: [site.\"app.example.com\"]",
            ),
            Some(Some(managed)) => match managed.issuer {
                CertIssuer::Acme(_) => return,
                CertIssuer::Internal => (
                    "its certificates are Lockgate's own",
                    "remove it, or what says \"internal\"",
                ),
            },
        };
        self.no_effect("acme", at, why, cure);
    }
}

/// Certificates of our own authority; none for a table without hosts.
fn internal(at: &SourceSpan, names: &CertNames<'_>) -> Option<ManagedCerts> {
    (!names.hosts.is_empty()).then(|| ManagedCerts {
        issuer: CertIssuer::Internal,
        fallback: CertFallback::None,
        on_demand: None,
        at: at.clone(),
    })
}

fn reason(refusal: NameRefusal) -> String {
    match refusal {
        NameRefusal::EveryHost => "it stands for every host".to_owned(),
        NameRefusal::Wildcard => "a wildcard needs DNS-01".to_owned(),
        NameRefusal::Address => "it is an IP address".to_owned(),
        NameRefusal::SingleLabel => "it has no dot, so it is no name of the Internet".to_owned(),
        NameRefusal::PrivateUse(zone) => {
            format!("names of `{zone}` are private: many machines may have the same one")
        }
        NameRefusal::Underscore => {
            "it holds an underscore, which names of hosts may not".to_owned()
        }
        NameRefusal::TooLong => "it is longer than 253 bytes".to_owned(),
    }
}
