//! The names that are kept at this machine's address: `[ddns]`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use lockgate_rules::{AddressSource, DnsProvider, DynamicDns, HostPattern, public_refusal};

use crate::codes::Code;
use crate::keys::dns_provider as provider_keys;
use crate::keys::{Defaulted, acme, ddns, top};
use crate::model::HostedSite;
use crate::source::SourceSpan;
use crate::values::Items;

use super::{Resolver, View};

impl Resolver<'_> {
    /// The names of `[ddns]`; `sites` give them where it has none of its own.
    pub(super) fn dynamic_dns(&mut self, sites: &[HostedSite]) -> Option<Arc<DynamicDns>> {
        let top = self.top();
        let at = top.key_at(&top::DDNS)?;
        let table = top.section(&top::DDNS);
        if table.layers.is_empty() {
            // A mistake, which has been reported.
            return None;
        }
        let names = match table.has(&ddns::NAMES) {
            true => self.written_names(&table),
            false => self.names_of_sites(sites, at),
        };
        let dns = self.address_provider(&table, at);
        let ipv4 = self.sources(&table, "ipv4", &ddns::IPV4);
        let ipv6 = self.sources(&table, "ipv6", &ddns::IPV6);
        if let (Some(first), Some(second)) = (
            table.key_at(&ddns::IPV4).filter(|_| ipv4.is_empty()),
            table.key_at(&ddns::IPV6).filter(|_| ipv6.is_empty()),
        ) && !table.broken(&[ddns::IPV4.row(), ddns::IPV6.row()])
        {
            let why = "no record would be kept";
            let texts = ("`ipv4 = false` with `ipv6 = false`", why, "remove one");
            self.report
                .push_pair(Code::Excluded, first, texts, (second, "and here"));
        }
        Some(Arc::new(DynamicDns {
            names,
            dns: dns?,
            ipv4,
            ipv6,
            every: table.get(&ddns::EVERY),
            private: table.get(&ddns::PRIVATE),
        }))
    }

    /// The names that are written.
    fn written_names(&mut self, table: &View<'_>) -> Vec<String> {
        let mut names = Vec::new();
        for (host, at) in table.items(&ddns::NAMES).placed() {
            match record_name(host) {
                Some(name) if names.contains(&name) => {
                    self.no_effect("names", at, "it is in the list already", "remove it");
                }
                Some(name) => names.push(name),
                None => {
                    let message = "this is no name of DNS";
                    let why = "only names have records of addresses";
                    let cure = "write \"home.example.org\" or \"*.home.example.org\"";
                    self.push_once(Code::BadHost, at, message, why, cure);
                }
            }
        }
        names
    }

    /// The hosts of sites that are public names. Those of one's own network need to be written: other
    /// machines may have the same ones.
    fn names_of_sites(&mut self, sites: &[HostedSite], at: &SourceSpan) -> Vec<String> {
        let hosts = sites.iter().flat_map(|site| &site.hosts);
        let is_public = |host: &&HostPattern| match host {
            HostPattern::Any => false,
            HostPattern::Exact(name) | HostPattern::Under(name) => public_refusal(name).is_none(),
        };
        let names: BTreeSet<_> = hosts.filter(is_public).filter_map(record_name).collect();
        let misread = self.report.has_errors() || self.root.strange.any;
        if names.is_empty() && !misread {
            let message = "[ddns] keeps no name";
            let why = "no site has a host that is a public name";
            let cure = "add names = [\"home.example.org\"]";
            self.push_once(Code::MissingKey, at, message, why, cure);
        }
        names.into_iter().collect()
    }

    /// The provider that sets the records: that of the table, or of `[acme]`.
    fn address_provider(&mut self, table: &View<'_>, at: &SourceSpan) -> Option<Arc<DnsProvider>> {
        const OTHERS: &str = "another provider, or `exec` with a command";
        let top = self.top();
        if table.has(&ddns::DNS) {
            let own = table.section(&ddns::DNS).nearest();
            let written = own.written(&provider_keys::PROVIDER)?;
            if !written.value.sets_addresses() {
                let message = format!("`{}` sets no addresses of names", written.value.name);
                let why = "it is for TXT records alone";
                let cure = format!("write {OTHERS}");
                self.push_once(Code::UnknownWord, written.at, message, why, cure);
                return None;
            }
            return self.provider_of(&own);
        }
        let of_acme = top.section(&top::ACME);
        if !of_acme.has(&acme::DNS) {
            if !table.has_unknown_keys() {
                let message = "nothing says how [ddns] sets records";
                let why = "it has no `dns`, and [acme] has none";
                let cure =
                    "add dns = { provider = \"desec\", token = \"…\" }, with your own provider";
                self.push_once(Code::MissingKey, at, message, why, cure);
            }
            return None;
        }
        let provider = self.dns_provider(&of_acme)?;
        if !provider.provider.sets_addresses() {
            let name = provider.provider.name;
            let message = "nothing says how [ddns] sets records";
            let why = format!("`{name}`, the provider of [acme], sets no addresses of names");
            let cure = format!("add `dns` to [ddns], with {OTHERS}");
            self.push_once(Code::MissingKey, at, message, why, cure);
            return None;
        }
        Some(provider)
    }

    /// The sources of a family, each once.
    fn sources(
        &mut self,
        table: &View<'_>,
        name: &str,
        key: &Defaulted<Option<Items<AddressSource>>>,
    ) -> Vec<AddressSource> {
        let mut sources: Vec<AddressSource> = Vec::new();
        let written = table.get(key).unwrap_or_default();
        for (source, at) in written.placed() {
            if sources.contains(source) {
                self.no_effect(name, at, "it is in the list already", "remove it");
            } else {
                sources.push(source.clone());
            }
        }
        sources
    }
}

/// The name of the records of a host; none of an address, or of every host.
fn record_name(host: &HostPattern) -> Option<String> {
    match host {
        HostPattern::Any => None,
        HostPattern::Exact(name) => {
            let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
            (!is_address).then(|| name.clone())
        }
        HostPattern::Under(parent) => Some(format!("*.{parent}")),
    }
}
