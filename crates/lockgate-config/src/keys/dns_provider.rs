//! The keys of `dns` in `[acme]` and `[ddns]`: the provider that writes the records of challenges and of
//! addresses, and its parameters.
//!
//! Which of the parameters a provider takes, `lockgate_rules::dns_provider` says.

use std::time::Duration;

use lockgate_rules::{KnownDnsProvider, SecretText};

use crate::model::EndpointAddr;
use crate::values::*;

use super::Unset::{Absent, Required};
use super::{ConfigKey, Defaulted, KeyRow};

const NONE: super::Unset = Absent("the provider gets none");

const DESEC: &str = r#"provider = "desec""#;
const UPDATES: &str = "provider = \"rfc2136\", server = \"10.0.0.1\", key = \"lockgate\", \
                       secret = \"${file:/etc/lockgate/dns.key}\"";
const KEY_OF_PORKBUN: &str = "provider = \"porkbun\", key = \"pk1_123\"";
const SECRET_OF_PORKBUN: &str =
    "provider = \"porkbun\", secret = \"${file:/etc/lockgate/dns.key}\"";
const NETCUP: &str = "provider = \"netcup\", account = \"12345\", key = \"k\"";

table! {
    const PROVIDER: ConfigKey<&'static KnownDnsProvider> = ConfigKey::new(
        "provider",
        &DnsProviderName,
        Required,
        r#""desec""#,
        "The provider that writes the records. Each one takes some of the parameters below:\n\n\
         - `rfc2136`: updates of a zone, as BIND, Knot and PowerDNS take them: `server`, `key`, `secret`, \
         perhaps `algorithm` and `zone`\n\
         - `exec`: `command`\n\
         - `acme-dns`: `url`, `user`, `password`, `subdomain`\n\
         - `token`: `arvancloud`, `bunny`, `cloudflare`, `ddnss`, `desec`, `digitalocean`, `dreamhost`, \
         `duckdns`, `dynu`, `freemyip`, `gandi`, `gcore`, `hetzner`, `hostingde`, `hostinger`, \
         `infomaniak`, `ionos`, `ipv64`, `linode`, `namesilo`, `netlify`, `ns1`, `safedns`, \
         `scaleway`, `vercel` (perhaps `account`, the team), `vultr`\n\
         - `key` and `secret`: `alidns` (perhaps `region`), `baiducloud`, `constellix`, `dnsmadeeasy`, \
         `domeneshop`, `easydns`, `exoscale`, `godaddy`, `huaweicloud` (and `region`), `lightsail` \
         (perhaps `region`), `nifcloud`, `porkbun`, `route53` (perhaps `region`), `spaceship`, \
         `tencentcloud` (perhaps `region`), `volcengine` (perhaps `region`), `websupport`\n\
         - `user` and `token`: `glesys`, `ibmcloud`, `luadns`, `namedotcom`, `simplycom`, `zoneeu`\n\
         - `user` and `password`: `autodns`, `cloudns`, `inwx`, `joker`, `mythicbeasts`, `ultradns`\n\
         - `azure`: `tenant`, `user` (the client), `password`, `subscription`, `resource_group`\n\
         - `cpanel`: `url`, `user`, `token` · `plesk`, `powerdns`: `url`, `token`\n\
         - `dnsimple`: `token`, `account` · `google`: `account` (the JSON of a service account), `project`\n\
         - `netcup`: `account`, `key`, `password` · `selectel`: `user`, `password`, `account`, `project`\n\
         - `ovh`: `key`, `secret`, `token` (the consumer key), perhaps `region` (the endpoint, as `ovh-ca`; \
         `ovh-eu` if it is left out) · `yandexcloud`: `token` (the key of a service account in base64), \
         `project` (the folder).",
    )
    .with(r#"token = "${file:/etc/lockgate/dns.token}""#);

    const TOKEN: ConfigKey<SecretText> = ConfigKey::new(
        "token",
        &Credential,
        NONE,
        r#""${file:/etc/lockgate/dns.token}""#,
        "The token, or the only key, that the provider gave.",
    )
    .with(DESEC);

    const KEY: ConfigKey<SecretText> = ConfigKey::new(
        "key",
        &Credential,
        NONE,
        r#""pk1_123""#,
        "The name of a key: for `rfc2136` that of the TSIG key; otherwise the identifier of the key that \
         the provider gave.",
    )
    .with(SECRET_OF_PORKBUN);

    const SECRET: ConfigKey<SecretText> = ConfigKey::new(
        "secret",
        &Credential,
        NONE,
        r#""${file:/etc/lockgate/dns.key}""#,
        "The secret of `key`; for `rfc2136` in base64.",
    )
    .with(KEY_OF_PORKBUN);

    const USER: ConfigKey<SecretText> = ConfigKey::new(
        "user",
        &Credential,
        NONE,
        r#""me""#,
        "The user at the provider.",
    )
    .with("provider = \"luadns\", token = \"${file:/etc/lockgate/dns.token}\"");

    const PASSWORD: ConfigKey<SecretText> = ConfigKey::new(
        "password",
        &Credential,
        NONE,
        r#""${file:/etc/lockgate/dns.key}""#,
        "The password of the user or account.",
    )
    .with(NETCUP);

    const ACCOUNT: ConfigKey<SecretText> = ConfigKey::new(
        "account",
        &Credential,
        NONE,
        r#""12345""#,
        "The account at the provider.",
    )
    .with("provider = \"dnsimple\", token = \"${file:/etc/lockgate/dns.token}\"");

    const PROJECT: ConfigKey<SecretText> = ConfigKey::new(
        "project",
        &Credential,
        NONE,
        r#""web-1""#,
        "The project that the zone belongs to.",
    )
    .with("provider = \"google\", account = \"${file:/etc/lockgate/dns.key}\"");

    const REGION: ConfigKey<SecretText> = ConfigKey::new(
        "region",
        &Credential,
        NONE,
        r#""eu-central-1""#,
        "The region of the provider's servers.",
    )
    .with("provider = \"route53\", key = \"AKIA1\", secret = \"${file:/etc/lockgate/dns.key}\"");

    const TENANT: ConfigKey<SecretText> = ConfigKey::new(
        "tenant",
        &Credential,
        NONE,
        r#""11111111-2222-3333-4444-555555555555""#,
        "The tenant at Azure.",
    )
    .with(
        "provider = \"azure\", user = \"u\", password = \"${file:/etc/lockgate/dns.key}\", \
         subscription = \"s\", resource_group = \"web\"",
    );

    const SUBSCRIPTION: ConfigKey<SecretText> = ConfigKey::new(
        "subscription",
        &Credential,
        NONE,
        r#""11111111-2222-3333-4444-555555555555""#,
        "The subscription at Azure.",
    )
    .with(
        "provider = \"azure\", user = \"u\", password = \"${file:/etc/lockgate/dns.key}\", \
         tenant = \"t\", resource_group = \"web\"",
    );

    const RESOURCE_GROUP: ConfigKey<SecretText> = ConfigKey::new(
        "resource_group",
        &Credential,
        NONE,
        r#""web""#,
        "The resource group of the zone at Azure.",
    )
    .with(
        "provider = \"azure\", user = \"u\", password = \"${file:/etc/lockgate/dns.key}\", \
         tenant = \"t\", subscription = \"s\"",
    );

    const URL: ConfigKey<SecretText> = ConfigKey::new(
        "url",
        &Credential,
        NONE,
        r#""https://dns.example.com:8081""#,
        "The URL of the provider's server.",
    )
    .with("provider = \"powerdns\", token = \"${file:/etc/lockgate/dns.token}\"");

    const SUBDOMAIN: ConfigKey<SecretText> = ConfigKey::new(
        "subdomain",
        &Credential,
        NONE,
        r#""8e5700ea-a4bf-41c7-8a77-e990661dcc6a""#,
        "The subdomain that acme-dns gave: `_acme-challenge` of each name must be a CNAME of it.",
    )
    .with(
        "provider = \"acme-dns\", url = \"https://auth.example.com\", user = \"u\", \
         password = \"${file:/etc/lockgate/dns.key}\"",
    );

    const SERVER: ConfigKey<SecretText> = ConfigKey::new(
        "server",
        &Credential,
        NONE,
        r#""10.0.0.1:53""#,
        "The primary server of the zone, which takes updates: an address or a name, with the port if it \
         is not 53.",
    )
    .with("provider = \"rfc2136\", key = \"lockgate\", secret = \"${file:/etc/lockgate/dns.key}\"");

    const ALGORITHM: ConfigKey<&'static str> = ConfigKey::new(
        "algorithm",
        &Words(&[
            ("hmac-sha256", "hmac-sha256"),
            ("hmac-sha384", "hmac-sha384"),
            ("hmac-sha512", "hmac-sha512"),
        ]),
        Absent("`\"hmac-sha256\"`"),
        r#""hmac-sha512""#,
        "The algorithm of the TSIG key (RFC 8945 §6).",
    )
    .with(UPDATES);

    const ZONE: ConfigKey<SecretText> = ConfigKey::new(
        "zone",
        &Credential,
        Absent("the zone is asked for: the nearest one upwards from the name"),
        r#""example.com""#,
        "The zone that is updated, where it cannot be found by asking.",
    )
    .with(UPDATES);

    const COMMAND: ConfigKey<Items<String>> = ConfigKey::new(
        "command",
        &List { of: SingleLine, least: 1 },
        NONE,
        r#"["/usr/local/bin/dns-record"]"#,
        "A program and its first arguments. It is run with three more: `present` or `cleanup`, the name \
         of the TXT record and its value; for `[ddns]` with `address`, the name, and all addresses that the \
         name is to have. Of the environment it gets `PATH` and what begins with \
         `LOCKGATE_`. After 60 s it is killed; what it writes to stderr is in the error.",
    )
    .with(r#"provider = "exec""#);

    const PROPAGATION: Defaulted<Duration> = ConfigKey::defaulted(
        "propagation",
        &Time { min: 1_000 },
        r#""2m""#,
        r#""10m""#,
        "The longest time until every server of the zone shows a record, but for those that do not \
         answer. Only then the authority is asked to look.",
    )
    .with(PORKBUN_WHOLE);

    const RESOLVERS: ConfigKey<Items<EndpointAddr>> = ConfigKey::new(
        "resolvers",
        &List { of: UpstreamAddress, least: 1 },
        Absent("the name servers of /etc/resolv.conf"),
        r#"["10.0.0.53:53"]"#,
        "Addresses of name servers, with ports, that are asked for zones, their servers, and aliases. They \
         must answer as the Internet does.",
    )
    .with(PORKBUN_WHOLE);
}

const PORKBUN_WHOLE: &str =
    "provider = \"porkbun\", key = \"pk1_123\", secret = \"${file:/etc/lockgate/dns.key}\"";

/// The keys of `dns` in `[ddns]`: without those that are for challenges alone.
pub(crate) const OF_ADDRESSES: &[KeyRow] = &[
    PROVIDER.row(),
    TOKEN.row(),
    KEY.row(),
    SECRET.row(),
    USER.row(),
    PASSWORD.row(),
    ACCOUNT.row(),
    PROJECT.row(),
    REGION.row(),
    TENANT.row(),
    SUBSCRIPTION.row(),
    RESOURCE_GROUP.row(),
    URL.row(),
    SERVER.row(),
    ALGORITHM.row(),
    ZONE.row(),
    COMMAND.row(),
    RESOLVERS.row(),
];

/// The parameters that are texts.
pub(crate) const CREDENTIALS: &[ConfigKey<SecretText>] = &[
    TOKEN,
    KEY,
    SECRET,
    USER,
    PASSWORD,
    ACCOUNT,
    PROJECT,
    REGION,
    TENANT,
    SUBSCRIPTION,
    RESOURCE_GROUP,
    URL,
    SUBDOMAIN,
    SERVER,
    ZONE,
];
