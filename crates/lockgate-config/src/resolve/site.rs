//! `[site."HOST"]` tables: hosts, listeners, and their routes in order.

use std::iter;
use std::net::{IpAddr, SocketAddr};

use lockgate_rules::HostPattern;

use crate::codes::Code;
use crate::host::SiteKey;
use crate::keys::tls::TlsShort;
use crate::keys::{site, top};
use crate::model::{DownstreamTls, HostedSite, ListenAddr, Protocol, SiteListener};
use crate::source::SourceSpan;
use crate::table::{CheckedTable, PlacedValue};
use crate::values::{Keyed, ShortOrLong};

use super::certificates::{CertNames, OwnAcme, TableKind};
use super::route::error_pages;
use super::{Resolver, View};

impl Resolver<'_> {
    /// Every site that means something, with those of its routes that do; the others have been
    /// reported.
    pub(super) fn sites(&mut self) -> Vec<HostedSite> {
        let Some(sites) = self.root.value(&top::SITE) else {
            return Vec::new();
        };
        let mut resolved = Vec::with_capacity(sites.len());
        resolved.extend(sites.iter().filter_map(|one| self.site(one)));
        resolved
    }

    fn site(&mut self, one: &Keyed<SiteKey>) -> Option<HostedSite> {
        let key = &one.key;
        let view = View::of(&one.table);
        let names = cert_names(&view, key, &one.at);
        let mut tls = self.site_tls(&view, key, &one.at, &names);
        if !view.has(&site::TLS) || view.written(&site::TLS).is_some() {
            self.unused_acme(&names, tls.as_ref());
        }
        let by_permission = matches!(key, SiteKey::Unix(_));
        let accept_proxy = self.accept_proxy(&view, &site::ACCEPT_PROXY, by_permission);
        // Also where its TLS is a mistake.
        let secure = !plain(&view) && (view.has(&site::TLS) || matches!(key, SiteKey::Implied(_)));
        if let (SiteKey::Port(_, 443), false) = (key, secure) {
            let message = "plain HTTP on port 443";
            let cure = "write tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }, or another port";
            self.report.push_at(
                Code::PlainOnHttps,
                &one.at,
                message,
                "browsers speak TLS there",
                cure,
            );
        }
        let protocols = self.protocols(&view.items(&site::PROTOCOLS), secure);
        if let Some(tls) = &mut tls {
            tls.alpn = protocols.iter().filter_map(alpn).collect();
        }
        Some(HostedSite {
            name: one.name.clone(),
            at: one.at.clone(),
            hosts: self.hosts(&view, key),
            listen: self.site_listeners(&view, key, tls.is_some()),
            tls,
            protocols,
            accept_proxy,
            access_log: self.site_log(&view),
            error_pages: error_pages(&view),
            routes: self.routes(one, &view, secure),
        })
    }

    /// TLS of a site: on the implied ports also without a word about it.
    fn site_tls(
        &mut self,
        view: &View<'_>,
        key: &SiteKey,
        at: &SourceSpan,
        names: &CertNames<'_>,
    ) -> Option<DownstreamTls> {
        let implied = ShortOrLong::Long(CheckedTable::default());
        let written = match view.written(&site::TLS) {
            Some(written) => written,
            None if view.has(&site::TLS) => return None,
            None if matches!(key, SiteKey::Implied(_)) => PlacedValue {
                value: &implied,
                at,
            },
            None => return None,
        };
        self.tls_as(written, &view.section(&site::TLS), view, at, names)
    }

    /// The hosts of a site, that of the key first, each once.
    fn hosts(&mut self, view: &View<'_>, key: &SiteKey) -> Vec<HostPattern> {
        let mut hosts = vec![match key {
            SiteKey::Implied(host) | SiteKey::Port(host, _) => host.clone(),
            SiteKey::Unix(_) => HostPattern::Any,
        }];
        for (host, at) in view.items(&site::ALIAS).placed() {
            let served = match hosts.first() {
                Some(HostPattern::Any) if *host != HostPattern::Any => {
                    Some("the key of the table takes every host")
                }
                _ if hosts.contains(host) => Some("it is given twice"),
                _ => None,
            };
            if let Some(why) = served {
                let message = format!("{host} is served by this site already");
                self.report
                    .push_at(Code::NoEffect, at, message, why, "remove it");
                continue;
            }
            hosts.push(host.clone());
        }
        hosts
    }

    fn site_listeners(
        &mut self,
        view: &View<'_>,
        key: &SiteKey,
        secure: bool,
    ) -> Vec<SiteListener> {
        let ports = self.shared.ports;
        let (port, secure, redirect) = match key {
            SiteKey::Unix(path) => {
                if let Some(written) = view.written(&site::LISTEN) {
                    let message = "`listen` beside a Unix socket";
                    let cure = "remove it, or write a site of its own for the address";
                    self.report.push_at(
                        Code::Excluded,
                        written.at,
                        message,
                        "it has no IP address",
                        cure,
                    );
                }
                let addr = ListenAddr::Unix(path.clone());
                return vec![SiteListener {
                    addr,
                    secure,
                    redirects: false,
                }];
            }
            SiteKey::Port(_, port) => (*port, secure, None),
            SiteKey::Implied(_) if plain(view) => (ports.http, false, None),
            SiteKey::Implied(_) => (ports.https, true, Some(ports.http)),
        };
        let ips: Vec<IpAddr> = view.list(&site::LISTEN);
        let at = |port: u16, secure, redirects| {
            addresses(&ips, port)
                .into_iter()
                .map(move |addr| SiteListener {
                    addr,
                    secure,
                    redirects,
                })
        };
        let redirects = redirect.into_iter().flat_map(|port| at(port, false, true));
        at(port, secure, false).chain(redirects).collect()
    }
}

/// The hosts of a site as they were written, for certificates.
fn cert_names<'a>(view: &View<'a>, key: &SiteKey, at: &'a SourceSpan) -> CertNames<'a> {
    let host = key.host().cloned().unwrap_or(HostPattern::Any);
    let is_any = host == HostPattern::Any;
    let alias = view.written(&site::ALIAS).filter(|_| !is_any);
    let alias = alias.into_iter().flat_map(|alias| alias.value.placed());
    let alias = alias.map(|(host, at)| (host.clone(), at));
    CertNames {
        table: TableKind::Site,
        hosts: iter::once((host, at)).chain(alias).collect(),
        acme: OwnAcme::of(view),
    }
}

/// The name that is offered over TLS (RFC 7301 §6, RFC 9113 §3.1).
pub(super) fn alpn(protocol: &Protocol) -> Option<String> {
    match protocol {
        Protocol::Http1 => Some("http/1.1".to_owned()),
        Protocol::H2 => Some("h2".to_owned()),
        Protocol::H2c => None,
    }
}

/// Whether `tls = false` was written.
fn plain(view: &View<'_>) -> bool {
    let tls = view.written(&site::TLS);
    tls.is_some_and(|tls| matches!(tls.value, ShortOrLong::Short(TlsShort::Off)))
}

/// The addresses with a port; the two that mean every address are one listener.
fn addresses(ips: &[IpAddr], port: u16) -> Vec<ListenAddr> {
    let every = |v4: bool| {
        ips.iter()
            .any(|ip| ip.is_unspecified() && ip.is_ipv4() == v4)
    };
    if every(true) && every(false) {
        return vec![ListenAddr::All(port)];
    }
    let mut addresses = Vec::new();
    for ip in ips {
        let addr = ListenAddr::Ip(SocketAddr::new(*ip, port));
        if !addresses.contains(&addr) {
            addresses.push(addr);
        }
    }
    addresses
}
