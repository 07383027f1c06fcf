//! The provider that writes records of DNS: `dns` in `[acme]` and `[ddns]`.

use std::net::SocketAddr;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};
use lockgate_rules::dns_provider::{ACME_DNS, RFC2136};
use lockgate_rules::{DnsProvider, KnownDnsProvider, SecretText};

use crate::codes::Code;
use crate::keys::acme;
use crate::keys::dns_provider as keys;
use crate::model::EndpointAddr;
use crate::source::SourceSpan;

use super::{Resolver, View};

impl Resolver<'_> {
    /// The provider of a table with the keys of ACME. The nearest `dns` counts as a whole.
    pub(super) fn dns_provider(&mut self, view: &View<'_>) -> Option<Arc<DnsProvider>> {
        self.provider_of(&view.section(&acme::DNS).nearest())
    }

    /// The provider of a table with its parameters.
    pub(super) fn provider_of(&mut self, table: &View<'_>) -> Option<Arc<DnsProvider>> {
        let written = table.written(&keys::PROVIDER)?;
        let (provider, at) = (*written.value, written.at);
        self.check_parameters(table, provider, at);
        let mut parameters: Vec<(&'static str, SecretText)> = Vec::new();
        for key in keys::CREDENTIALS {
            if let Some(value) = table.get(key) {
                parameters.push((key.row().name, value));
            }
        }
        if let Some(algorithm) = table.get(&keys::ALGORITHM) {
            let value = SecretText(algorithm.to_owned());
            parameters.push((keys::ALGORITHM.row().name, value));
        }
        let mut command = Vec::new();
        for (argument, _) in table.items(&keys::COMMAND).placed() {
            command.push(argument.clone());
        }
        let resolvers = self.addresses_of_name_servers(&table.items(&keys::RESOLVERS));
        Some(Arc::new(DnsProvider {
            provider,
            parameters,
            command,
            propagation: table.get(&keys::PROPAGATION),
            resolvers,
        }))
    }

    /// Reports parameters that the provider does not take, lacks, or could not use.
    fn check_parameters(&mut self, table: &View<'_>, provider: &KnownDnsProvider, at: &SourceSpan) {
        let list = |names: &mut dyn Iterator<Item = &'static str>| {
            let quoted: Vec<_> = names.map(|name| format!("`{name}`")).collect();
            quoted.join(", ")
        };
        let taken = list(&mut provider.parameters());
        let rows = keys::CREDENTIALS.iter().map(|key| key.row());
        let rows = rows.chain([keys::ALGORITHM.row(), keys::COMMAND.row()]);
        for row in rows {
            if let Some(key_at) = table.place_of(row)
                && !provider.parameters().any(|name| name == row.name)
                && !self.was_reported(Code::Excluded, key_at)
            {
                let message = format!("`{}` takes no `{}`", provider.name, row.name);
                let why = format!("it takes {taken}");
                let texts = (message, why, "remove it, or write another provider");
                self.report
                    .push_pair(Code::Excluded, key_at, texts, (at, "the provider"));
            }
        }
        let has = |name: &&&'static str| {
            let mut rows = keys::ALL.iter();
            rows.any(|row| row.name == **name && table.place_of(*row).is_some())
        };
        let missing: Vec<_> = provider.required.iter().filter(|name| !has(name)).collect();
        if let Some(first) = missing.first()
            && !table.has_unknown_keys()
        {
            let message = format!(
                "`{}` needs {}",
                provider.name,
                list(&mut missing.iter().map(|name| **name))
            );
            let why = format!("it takes {taken}");
            let cure = match **first {
                "command" => "add command = [\"/usr/local/bin/dns-record\"]".to_owned(),
                first => format!("add {first} = \"…\""),
            };
            self.push_once(Code::MissingKey, at, message, why, cure);
        }
        match provider.name {
            RFC2136 => self.check_update_server(table),
            ACME_DNS | "powerdns" | "plesk" | "cpanel" => self.check_provider_url(table),
            _ => {}
        }
    }

    fn check_update_server(&mut self, table: &View<'_>) {
        if let Some(secret) = table.written(&keys::SECRET)
            && !Base64::decode_vec(&secret.value.0).is_ok_and(|key| !key.is_empty())
        {
            let why = "TSIG secrets are written in base64, as tsig-keygen prints them";
            let cure = "write secret = \"${file:/etc/lockgate/dns.key}\"";
            let message = "this is not the secret of a TSIG key";
            self.push_once(Code::BadText, secret.at, message, why, cure);
        }
        if let Some(server) = table.written(&keys::SERVER) {
            let text = &server.value.0;
            let with_port = [text.clone(), format!("{text}:53"), format!("[{text}]:53")];
            let mut parsed = with_port.iter().map(|text| EndpointAddr::parse(text));
            let is_server = |addr: Result<EndpointAddr, _>| {
                matches!(addr, Ok(EndpointAddr::Ip(_) | EndpointAddr::Name { .. }))
            };
            if !parsed.any(is_server) {
                let message = "this is not the address of a name server";
                let cure = "write server = \"10.0.0.1:53\"";
                self.push_once(Code::BadAddress, server.at, message, "", cure);
            }
        }
    }

    fn check_provider_url(&mut self, table: &View<'_>) {
        let Some(url) = table.written(&keys::URL) else {
            return;
        };
        let rest = url.value.0.strip_prefix("https://");
        let rest = rest.or_else(|| url.value.0.strip_prefix("http://"));
        let is_url = rest.is_some_and(|rest| {
            let host = rest.split('/').next().unwrap_or_default();
            !host.is_empty() && !host.contains('@') && !rest.contains([' ', '#'])
        });
        if !is_url {
            let message = "this is not the URL of a server";
            let why = "it needs `https://` or `http://`, and a host";
            let cure = "write url = \"https://auth.example.com\"";
            self.push_once(Code::BadAddress, url.at, message, why, cure);
        }
    }

    /// The addresses of name servers that are asked.
    pub(super) fn addresses_of_name_servers(
        &mut self,
        written: &crate::values::Items<EndpointAddr>,
    ) -> Vec<SocketAddr> {
        let mut servers = Vec::new();
        for (server, at) in written.placed() {
            match server {
                EndpointAddr::Ip(address) => servers.push(*address),
                _ => {
                    let message = "a name server needs an IP address";
                    let why = "its own name could not be resolved";
                    let cure = "write \"10.0.0.53:53\"";
                    self.push_once(Code::BadAddress, at, message, why, cure);
                }
            }
        }
        servers
    }
}
