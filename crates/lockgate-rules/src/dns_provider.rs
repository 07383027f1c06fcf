//! Settings of the provider that writes records of DNS: TXT for challenges (RFC 8555 §8.4), A and AAAA
//! for names that are kept at the machine's address. The known ones and their parameters. Writes no
//! record.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The provider that writes the records of a zone, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DnsProvider {
    /// The provider.
    pub provider: &'static KnownDnsProvider,
    /// Its parameters, by their names in [`KnownDnsProvider::required`] and
    /// [`KnownDnsProvider::optional`].
    pub parameters: Vec<(&'static str, SecretText)>,
    /// The program of [`EXEC`] and its arguments; empty for the others.
    pub command: Vec<String>,
    /// The longest time until all servers of the zone show a record.
    pub propagation: Duration,
    /// The name servers that are asked for zones and aliases; none takes those of the system.
    pub resolvers: Vec<SocketAddr>,
}

/// A provider of DNS that is known.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct KnownDnsProvider {
    /// The name in the configuration.
    pub name: &'static str,
    /// The parameters that it cannot do without.
    pub required: &'static [&'static str],
    /// The others that it takes.
    pub optional: &'static [&'static str],
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretText(pub String);

/// A command that writes the records.
pub const EXEC: &str = "exec";
/// Dynamic updates (RFC 2136), signed with TSIG (RFC 8945).
pub const RFC2136: &str = "rfc2136";
/// A server of acme-dns, which holds nothing but records of challenges.
pub const ACME_DNS: &str = "acme-dns";
/// DuckDNS, which has one name for each of its subdomains, set by a call of its own.
pub const DUCKDNS: &str = "duckdns";

/// The providers that write TXT records alone: acme-dns has no others, and for the rest no call that
/// sets an address is spoken here.
const TXT_ALONE: [&str; 3] = [ACME_DNS, "ddnss", "freemyip"];

/// The algorithms of TSIG that are taken (RFC 8945 §6).
pub const TSIG_ALGORITHMS: [&str; 3] = ["hmac-sha256", "hmac-sha384", "hmac-sha512"];

const fn known(
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
) -> KnownDnsProvider {
    KnownDnsProvider {
        name,
        required,
        optional,
    }
}

/// All providers, by name.
pub static DNS_PROVIDERS: [KnownDnsProvider; 68] = [
    known(ACME_DNS, &["url", "user", "password", "subdomain"], &[]),
    known("alidns", &["key", "secret"], &["region"]),
    known("arvancloud", &["token"], &[]),
    known("autodns", &["user", "password"], &[]),
    known(
        "azure",
        &[
            "tenant",
            "user",
            "password",
            "subscription",
            "resource_group",
        ],
        &[],
    ),
    known("baiducloud", &["key", "secret"], &[]),
    known("bunny", &["token"], &[]),
    known("cloudflare", &["token"], &[]),
    known("cloudns", &["user", "password"], &[]),
    known("constellix", &["key", "secret"], &[]),
    known("cpanel", &["url", "user", "token"], &[]),
    known("ddnss", &["token"], &[]),
    known("desec", &["token"], &[]),
    known("digitalocean", &["token"], &[]),
    known("dnsimple", &["token", "account"], &[]),
    known("dnsmadeeasy", &["key", "secret"], &[]),
    known("domeneshop", &["key", "secret"], &[]),
    known("dreamhost", &["token"], &[]),
    known(DUCKDNS, &["token"], &[]),
    known("dynu", &["token"], &[]),
    known("easydns", &["key", "secret"], &[]),
    known(EXEC, &["command"], &[]),
    known("exoscale", &["key", "secret"], &[]),
    known("freemyip", &["token"], &[]),
    known("gandi", &["token"], &[]),
    known("gcore", &["token"], &[]),
    known("glesys", &["user", "token"], &[]),
    known("godaddy", &["key", "secret"], &[]),
    known("google", &["account", "project"], &[]),
    known("hetzner", &["token"], &[]),
    known("hostingde", &["token"], &[]),
    known("hostinger", &["token"], &[]),
    known("huaweicloud", &["key", "secret", "region"], &[]),
    known("ibmcloud", &["user", "token"], &[]),
    known("infomaniak", &["token"], &[]),
    known("inwx", &["user", "password"], &[]),
    known("ionos", &["token"], &[]),
    known("ipv64", &["token"], &[]),
    known("joker", &["user", "password"], &[]),
    known("lightsail", &["key", "secret"], &["region"]),
    known("linode", &["token"], &[]),
    known("luadns", &["user", "token"], &[]),
    known("mythicbeasts", &["user", "password"], &[]),
    known("namedotcom", &["user", "token"], &[]),
    known("namesilo", &["token"], &[]),
    known("netcup", &["account", "key", "password"], &[]),
    known("netlify", &["token"], &[]),
    known("nifcloud", &["key", "secret"], &[]),
    known("ns1", &["token"], &[]),
    known("ovh", &["key", "secret", "token"], &["region"]),
    known("plesk", &["url", "token"], &[]),
    known("porkbun", &["key", "secret"], &[]),
    known("powerdns", &["url", "token"], &[]),
    known(
        RFC2136,
        &["server", "key", "secret"],
        &["algorithm", "zone"],
    ),
    known("route53", &["key", "secret"], &["region"]),
    known("safedns", &["token"], &[]),
    known("scaleway", &["token"], &[]),
    known("selectel", &["user", "password", "account", "project"], &[]),
    known("simplycom", &["user", "token"], &[]),
    known("spaceship", &["key", "secret"], &[]),
    known("tencentcloud", &["key", "secret"], &["region"]),
    known("ultradns", &["user", "password"], &[]),
    known("vercel", &["token"], &["account"]),
    known("volcengine", &["key", "secret"], &["region"]),
    known("vultr", &["token"], &[]),
    known("websupport", &["key", "secret"], &[]),
    known("yandexcloud", &["token", "project"], &[]),
    known("zoneeu", &["user", "token"], &[]),
];

impl KnownDnsProvider {
    /// The provider with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        DNS_PROVIDERS.iter().find(|known| known.name == name)
    }

    /// Whether it can set the addresses of a name.
    pub fn sets_addresses(&self) -> bool {
        !TXT_ALONE.contains(&self.name)
    }

    /// All parameters that it takes, the required ones first.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).copied()
    }
}

impl DnsProvider {
    /// The parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| *known == name);
        found.map(|(_, value)| value.0.as_str())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_providers_are_sorted_by_name_and_have_no_parameter_twice() {
        let names = DNS_PROVIDERS.iter().map(|known| known.name);
        assert!(names.is_sorted_by(|a, b| a < b));
        for known in &DNS_PROVIDERS {
            let mut names: Vec<_> = known.parameters().collect();
            names.sort_unstable();
            assert!(names.is_sorted_by(|a, b| a < b), "{}", known.name);
        }
    }

    #[test]
    fn providers_of_txt_records_alone_are_known_ones() {
        for name in TXT_ALONE {
            let known = KnownDnsProvider::named(name).unwrap();
            assert!(!known.sets_addresses(), "{name}");
        }
        for name in [EXEC, RFC2136, DUCKDNS, "cloudflare"] {
            assert!(
                KnownDnsProvider::named(name).unwrap().sets_addresses(),
                "{name}"
            );
        }
    }

    #[test]
    fn secrets_of_a_dns_provider_are_not_in_its_debug_output() {
        let provider = DnsProvider {
            provider: KnownDnsProvider::named("cloudflare").unwrap(),
            parameters: vec![("token", SecretText("s3cret".to_owned()))],
            command: Vec::new(),
            propagation: Duration::from_secs(1),
            resolvers: Vec::new(),
        };
        assert!(!format!("{provider:?}").contains("s3cret"));
        assert_eq!(provider.parameter("token"), Some("s3cret"));
        assert_eq!(provider.parameter("key"), None);
    }
}
