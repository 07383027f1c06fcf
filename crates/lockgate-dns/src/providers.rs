//! The providers with a protocol of their own, which the crate `dns-update` speaks.
//!
//! Their parameters have our names: a provider's documentation calls them otherwise.

use std::time::Duration;

use dns_update::providers::azuredns::{AzureDnsConfig, AzureEnvironment};
use dns_update::providers::google_cloud_dns::GoogleCloudDnsConfig;
use dns_update::providers::joker::JokerAuth;
use dns_update::providers::lightsail::LightsailConfig;
use dns_update::providers::route53::Route53Config;
use dns_update::providers::volcengine::VolcengineConfig;
use dns_update::providers::yandexcloud::YandexCloudConfig;
use dns_update::{DnsRecord, DnsRecordType, DnsUpdater, Error};
use hickory_proto::rr::Name;
use lockgate_rules::{DnsProvider, SecretText};
use tokio::sync::Mutex;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::error::{DnsError, bounded, shown};
use crate::update::Change;
use crate::wanted::WantedAddresses;

/// The time for one request.
const REQUEST_TIME: Option<Duration> = Some(Duration::from_secs(30));
/// The time for a change, which takes several requests.
const TIME: Duration = Duration::from_secs(90);

/// The providers that keep one TXT record of a name and list none: to add one is to set it.
const SINGLE: [&str; 2] = ["ddnss", "duckdns"];

/// The providers that replace all records of a kind by one request. At the others, `dns-update` deletes
/// what is no longer wanted and then creates what is.
const WHOLE_SETS: [&str; 24] = [
    "autodns",
    "azure",
    "constellix",
    "cpanel",
    "desec",
    "gandi",
    "gcore",
    "godaddy",
    "google",
    "hetzner",
    "hostingde",
    "hostinger",
    "huaweicloud",
    "joker",
    "mythicbeasts",
    "netcup",
    "nifcloud",
    "ns1",
    "powerdns",
    "route53",
    "scaleway",
    "selectel",
    "ultradns",
    "yandexcloud",
];

/// The parameters that are shown to no reader of the log.
const SECRETS: [&str; 4] = ["token", "key", "secret", "password"];

/// Held during a change.
static CHANGES: Mutex<()> = Mutex::const_new(());

/// The account at a provider.
pub(crate) struct ProviderAccount {
    name: &'static str,
    updater: DnsUpdater,
    secrets: Vec<SecretText>,
}

impl ProviderAccount {
    /// The account of some settings.
    ///
    /// # Errors
    /// When a parameter is missing or cannot be read.
    pub(crate) fn new(provider: &DnsProvider) -> Result<Self, DnsError> {
        let name = provider.provider.name;
        let bad = |why: String| DnsError::Settings {
            provider: name,
            why,
        };
        let mut required = provider.provider.required.iter();
        if let Some(missing) = required.find(|name| provider.parameter(name).is_none()) {
            return Err(bad(format!("`{missing}` is missing")));
        }
        let parameters = provider.parameters.iter();
        let secrets =
            parameters.filter(|(name, value)| SECRETS.contains(name) && !value.0.is_empty());
        let secrets: Vec<_> = secrets.map(|(_, value)| value.clone()).collect();
        match updater(provider) {
            Some(Ok(updater)) => Ok(Self {
                name,
                updater,
                secrets,
            }),
            Some(Err(error)) => Err(bad(told(&error, &secrets))),
            None => Err(bad("this provider is not known".to_owned())),
        }
    }

    /// Adds or removes a TXT record. Others of the same name stay.
    ///
    /// # Errors
    /// When the provider refuses or cannot be reached.
    pub(crate) async fn update(
        &self,
        change: Change,
        zone: &Name,
        name: &Name,
        value: &str,
    ) -> Result<(), DnsError> {
        let (name, zone) = (shown(name), shown(zone));
        let records = vec![DnsRecord::TXT(value.to_owned())];
        // Most providers replace all records of a name: two changes at once would lose one.
        let _one = CHANGES.lock().await;
        let changed = async {
            let kind = DnsRecordType::TXT;
            if SINGLE.contains(&self.name) {
                let records = match change {
                    Change::Add => records,
                    Change::Remove => Vec::new(),
                };
                let ttl = self.ttl();
                let updater = &self.updater;
                return updater.set_rrset(&*name, kind, ttl, records, &*zone).await;
            }
            match change {
                Change::Add => {
                    let ttl = self.ttl();
                    self.updater
                        .add_to_rrset(&*name, kind, ttl, records, &*zone)
                        .await
                }
                Change::Remove => {
                    self.updater
                        .remove_from_rrset(&*name, kind, records, &*zone)
                        .await
                }
            }
        };
        match timeout(TIME, changed).await {
            // It is gone already.
            Ok(Err(Error::NotFound)) if change == Change::Remove => Ok(()),
            changed => self.result(changed),
        }
    }

    /// Gives a name these addresses and no others of their families.
    ///
    /// # Errors
    /// When the provider refuses or cannot be reached; one of two families may be set already.
    pub(crate) async fn set_addresses(
        &self,
        zone: &Name,
        name: &Name,
        addresses: WantedAddresses,
    ) -> Result<(), DnsError> {
        let (name, zone) = (shown(name), shown(zone));
        let ipv4 = addresses
            .ipv4
            .map(|address| (DnsRecordType::A, DnsRecord::A(address)));
        let ipv6 = addresses
            .ipv6
            .map(|address| (DnsRecordType::AAAA, DnsRecord::AAAA(address)));
        let _one = CHANGES.lock().await;
        for (kind, record) in ipv4.into_iter().chain(ipv6) {
            let records = vec![record];
            if !WHOLE_SETS.contains(&self.name) {
                self.add_first(&name, kind, records.clone(), &zone).await;
            }
            let changed = self
                .updater
                .set_rrset(&*name, kind, self.ttl(), records, &*zone);
            self.result(timeout(TIME, changed).await)?;
        }
        Ok(())
    }

    /// Adds a record before the others of its kind are removed, so that the name is never without one.
    /// Where that fails, the change of the whole set tells why, or does without.
    async fn add_first(
        &self,
        name: &str,
        kind: DnsRecordType,
        records: Vec<DnsRecord>,
        zone: &str,
    ) {
        let added = self
            .updater
            .add_to_rrset(name, kind, self.ttl(), records, zone);
        if let Err(error) = self.result(timeout(TIME, added).await) {
            tracing::debug!(name, %error, "the new address is not added before the old one goes");
        }
    }

    fn result(&self, changed: Result<Result<(), Error>, Elapsed>) -> Result<(), DnsError> {
        let why = match changed {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => told(&error, &self.secrets),
            Err(_) => format!("no answer within {} s", TIME.as_secs()),
        };
        Err(DnsError::Provider {
            provider: self.name,
            why,
        })
    }

    /// The time in seconds that a record may be kept elsewhere: the shortest that the provider takes,
    /// where `dns-update` does not see to it.
    fn ttl(&self) -> u32 {
        match self.name {
            "alidns" | "autodns" | "godaddy" | "porkbun" | "tencentcloud" | "volcengine"
            | "websupport" => 600,
            "dynu" | "gandi" | "huaweicloud" | "infomaniak" | "inwx" | "ionos" | "linode"
            | "luadns" | "namedotcom" | "netlify" => 300,
            _ => 120,
        }
    }
}

/// An error without the secrets of the account. `dns-update` repeats the URL of a request that has failed,
/// and some providers have the token in its query, percent-encoded: so all queries are left out.
fn told(error: &Error, secrets: &[SecretText]) -> String {
    let mut text = error.to_string();
    for SecretText(secret) in secrets {
        text = text.replace(&**secret, HIDDEN);
    }
    let mut rest = &*text;
    let mut shown = String::with_capacity(text.len());
    let is_end = |char: char| char.is_whitespace() || matches!(char, ')' | '"' | '\'' | '>');
    while let Some((before, after)) = rest.split_once("://") {
        let (url, behind) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        shown.extend([before, "://"]);
        match url.split_once('?') {
            Some((path, _)) => shown.extend([path, "?", HIDDEN]),
            None => shown.push_str(url),
        }
        rest = behind;
    }
    shown.push_str(rest);
    bounded(&shown)
}

/// What stands for a secret.
const HIDDEN: &str = "…";

/// The client of a provider; `None` if it is not one of these, or lacks a parameter.
fn updater(provider: &DnsProvider) -> Option<Result<DnsUpdater, Error>> {
    let get = |name: &str| provider.parameter(name);
    let text = |name: &str| get(name).map(str::to_owned);
    let (token, time) = (get("token"), REQUEST_TIME);
    let key = get("key").zip(get("secret"));
    let user = get("user").zip(get("password"));
    let user_token = get("user").zip(token);
    Some(match provider.provider.name {
        "alidns" => {
            let (key, secret) = key?;
            DnsUpdater::new_alidns(key, secret, get("region"), None::<&str>, None::<&str>, time)
        }
        "arvancloud" => DnsUpdater::new_arvancloud(token?, time),
        "autodns" => DnsUpdater::new_autodns(user?.0, user?.1, None, time),
        "azure" => DnsUpdater::new_azuredns(AzureDnsConfig {
            tenant_id: text("tenant")?,
            client_id: text("user")?,
            client_secret: text("password")?,
            subscription_id: text("subscription")?,
            resource_group: text("resource_group")?,
            environment: AzureEnvironment::Public,
            request_timeout: time,
        }),
        "baiducloud" => DnsUpdater::new_baiducloud(key?.0, key?.1, time),
        "bunny" => DnsUpdater::new_bunny(token?, time),
        "cloudflare" => DnsUpdater::new_cloudflare(token?, time),
        "cloudns" => DnsUpdater::new_cloudns(Some(user?.0), None::<&str>, user?.1, time),
        "constellix" => DnsUpdater::new_constellix(key?.0, key?.1, time),
        "cpanel" => DnsUpdater::new_cpanel(get("url")?, get("user")?, token?, time),
        "ddnss" => DnsUpdater::new_ddnss(token?, time),
        "desec" => DnsUpdater::new_desec(token?, time),
        "digitalocean" => DnsUpdater::new_digitalocean(token?, time),
        "dnsimple" => DnsUpdater::new_dnsimple(token?, get("account")?, time),
        "dnsmadeeasy" => DnsUpdater::new_dnsmadeeasy(key?.0, key?.1, time),
        "domeneshop" => DnsUpdater::new_domeneshop(key?.0, key?.1, time),
        "dreamhost" => DnsUpdater::new_dreamhost(token?, time),
        "duckdns" => DnsUpdater::new_duckdns(token?, time),
        "dynu" => DnsUpdater::new_dynu(token?, time),
        "easydns" => DnsUpdater::new_easydns(key?.0, key?.1, time),
        "exoscale" => DnsUpdater::new_exoscale(key?.0, key?.1, time),
        "freemyip" => DnsUpdater::new_freemyip(token?, time),
        "gandi" => DnsUpdater::new_gandiv5(token?, time),
        "gcore" => DnsUpdater::new_gcore(token?, time),
        "glesys" => DnsUpdater::new_glesys(user_token?.0, user_token?.1, time),
        "godaddy" => DnsUpdater::new_godaddy(key?.0, key?.1, time),
        "google" => DnsUpdater::new_google_cloud_dns(GoogleCloudDnsConfig {
            service_account_json: text("account")?,
            project_id: text("project")?,
            managed_zone: None,
            private_zone: false,
            impersonate_service_account: None,
            request_timeout: time,
        }),
        "hetzner" => DnsUpdater::new_hetzner(token?, time),
        "hostingde" => DnsUpdater::new_hostingde(token?, time),
        "hostinger" => DnsUpdater::new_hostinger(token?, time),
        "huaweicloud" => DnsUpdater::new_huaweicloud(key?.0, key?.1, get("region")?, time),
        "ibmcloud" => DnsUpdater::new_ibmcloud(user_token?.0, user_token?.1, time),
        "infomaniak" => DnsUpdater::new_infomaniak(token?, time),
        "inwx" => DnsUpdater::new_inwx(user?.0, user?.1, false, time),
        "ionos" => DnsUpdater::new_ionos(token?, time),
        "ipv64" => DnsUpdater::new_ipv64(token?, time),
        "joker" => {
            let (username, password) = (user?.0.to_owned(), user?.1.to_owned());
            DnsUpdater::new_joker(JokerAuth::UsernamePassword { username, password }, time)
        }
        "lightsail" => DnsUpdater::new_lightsail(LightsailConfig {
            access_key_id: text("key")?,
            secret_access_key: text("secret")?,
            session_token: None,
            region: text("region"),
            domain: None,
            request_timeout: time,
        }),
        "linode" => DnsUpdater::new_linode(token?, time),
        "luadns" => DnsUpdater::new_luadns(user_token?.0, user_token?.1, time),
        "mythicbeasts" => DnsUpdater::new_mythicbeasts(user?.0, user?.1, time),
        "namedotcom" => DnsUpdater::new_namedotcom(user_token?.0, user_token?.1, time),
        "namesilo" => DnsUpdater::new_namesilo(token?, time),
        "netcup" => DnsUpdater::new_netcup(get("account")?, get("key")?, get("password")?, time),
        "netlify" => DnsUpdater::new_netlify(token?, time),
        "nifcloud" => DnsUpdater::new_nifcloud(key?.0, key?.1, time),
        "ns1" => DnsUpdater::new_ns1(token?, time),
        "ovh" => match get("region").unwrap_or("ovh-eu").parse() {
            Ok(endpoint) => DnsUpdater::new_ovh(key?.0, key?.1, token?, endpoint, time),
            Err(error) => Err(error),
        },
        "plesk" => DnsUpdater::new_plesk(get("url")?, token?, time),
        "porkbun" => DnsUpdater::new_porkbun(key?.0, key?.1, time),
        "powerdns" => DnsUpdater::new_pdns(token?, Some(get("url")?), None::<&str>, time),
        "route53" => DnsUpdater::new_route53(Route53Config {
            access_key_id: text("key")?,
            secret_access_key: text("secret")?,
            session_token: None,
            region: text("region"),
            hosted_zone_id: None,
            private_zone_only: Some(false),
            endpoint: None,
        }),
        "safedns" => DnsUpdater::new_safedns(token?, time),
        "scaleway" => DnsUpdater::new_scaleway(token?, time),
        "selectel" => {
            let (account, project) = (get("account")?, get("project")?);
            DnsUpdater::new_selectel(user?.0, user?.1, account, project, time)
        }
        "simplycom" => DnsUpdater::new_simplycom(user_token?.0, user_token?.1, time),
        "spaceship" => DnsUpdater::new_spaceship(key?.0, key?.1, time),
        "tencentcloud" => {
            let (key, secret) = key?;
            DnsUpdater::new_tencentcloud(key, secret, get("region"), None::<&str>, time)
        }
        "ultradns" => DnsUpdater::new_ultradns(user?.0, user?.1, None, time),
        "vercel" => DnsUpdater::new_vercel(token?, get("account"), time),
        "volcengine" => DnsUpdater::new_volcengine(VolcengineConfig {
            access_key: text("key")?,
            secret_key: text("secret")?,
            region: text("region"),
            host: None,
            scheme: None,
            request_timeout: time,
        }),
        "vultr" => DnsUpdater::new_vultr(token?, time),
        "websupport" => DnsUpdater::new_websupport(key?.0, key?.1, time),
        "yandexcloud" => DnsUpdater::new_yandexcloud(YandexCloudConfig {
            iam_token_b64: text("token")?,
            folder_id: text("project")?,
            request_timeout: time,
        }),
        "zoneeu" => DnsUpdater::new_zoneeu(user_token?.0, user_token?.1, time),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use lockgate_rules::dns_provider::{ACME_DNS, DNS_PROVIDERS, EXEC, RFC2136};

    use super::*;

    #[test]
    fn providers_with_manners_of_their_own_are_known_ones() {
        for name in WHOLE_SETS.iter().chain(&SINGLE) {
            assert!(
                DNS_PROVIDERS.iter().any(|known| known.name == *name),
                "{name}"
            );
        }
    }

    /// With a text for each required parameter there is a client, or what it lacks is its form.
    #[test]
    fn every_known_dns_provider_has_a_client() {
        for known in &DNS_PROVIDERS {
            let text = |name: &'static str| (name, SecretText("https://x.example".to_owned()));
            let provider = DnsProvider {
                provider: known,
                parameters: known.parameters().map(text).collect(),
                command: Vec::new(),
                propagation: Duration::from_secs(1),
                resolvers: Vec::new(),
            };
            let made = updater(&provider).is_some();
            let own = [ACME_DNS, EXEC, RFC2136].contains(&known.name);
            assert_eq!(made, !own, "{}", known.name);
        }
    }

    /// The texts are those of `dns-update`, which has the URL of reqwest in them a second time.
    #[test]
    fn errors_of_a_dns_provider_hide_tokens_and_queries() {
        let provider = DnsProvider {
            provider: lockgate_rules::KnownDnsProvider::named("dreamhost").unwrap(),
            parameters: vec![("token", SecretText("s3cret+/".to_owned()))],
            command: Vec::new(),
            propagation: Duration::from_secs(1),
            resolvers: Vec::new(),
        };
        let account = ProviderAccount::new(&provider).unwrap();
        for (text, expected) in [
            (
                "Failed to send request to https://api.example/?key=s3cret%2B%2F&cmd=a: error sending \
                 request for url (https://api.example/?key=s3cret%2B%2F&cmd=a): timed out",
                "Failed to send request to https://api.example/?… error sending request for url \
                 (https://api.example/?…): timed out",
            ),
            ("no key s3cret+/ is known?", "no key … is known?"),
            ("is it so? https://a/b", "is it so? https://a/b"),
            (
                "https://a/ or http://b?c and d?e",
                "https://a/ or http://b?… and d?e",
            ),
            (
                "HTTP 400: {\"url\":\"https://a?t=1\"}",
                "HTTP 400: {\"url\":\"https://a?…\"}",
            ),
            ("://?", "://?…"),
            ("HTTP 500", "HTTP 500"),
        ] {
            let error = account.result(Ok(Err(Error::Api(text.to_owned()))));
            let expected = format!("dreamhost: API error: {expected}");
            assert_eq!(error.unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_missing_parameter_of_a_dns_provider_is_named() {
        let provider = DnsProvider {
            provider: lockgate_rules::KnownDnsProvider::named("netcup").unwrap(),
            parameters: vec![("account", SecretText("1".to_owned()))],
            command: Vec::new(),
            propagation: Duration::from_secs(1),
            resolvers: Vec::new(),
        };
        let error = ProviderAccount::new(&provider).err().unwrap();
        assert_eq!(
            error.to_string(),
            "the settings of `netcup`: `key` is missing"
        );
    }
}
