//! The providers: the names by which the configuration calls them, and their parameters. What is
//! written for them is read elsewhere.

/// A provider, and what must be known for it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DnsProviderKind {
    /// The name in the configuration.
    pub name: &'static str,
    /// Further names, by which other programs know it.
    pub aliases: &'static [&'static str],
    /// The TTL of its records where none is set, in seconds: the shortest that it takes, as far as
    /// that is known.
    pub ttl: u32,
    /// Optional parameters of which one must be there; empty for none.
    pub one_of: &'static [&'static str],
    /// Its own parameters, beside [`DNS_COMMON_PARAMS`](super::DNS_COMMON_PARAMS).
    pub params: &'static [DnsProviderParam],
}

/// A parameter of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DnsProviderParam {
    /// The name in the configuration.
    pub name: &'static str,
    /// What it is, for messages and documents.
    pub meaning: &'static str,
    /// Whether there is no default.
    pub is_required: bool,
    /// Whether it may have several texts.
    pub is_list: bool,
}

/// All providers.
pub const DNS_PROVIDERS: [DnsProviderKind; 74] = [
    DnsProviderKind {
        name: "rfc2136",
        aliases: &["nsupdate"],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required(
                "server",
                "the primary server: an address or a name, with a port where it is not 53",
            ),
            DnsProviderParam::required("key", "the name of the TSIG key"),
            DnsProviderParam::required("secret", "the TSIG key in base64"),
            DnsProviderParam::optional(
                "algorithm",
                "the MAC of the TSIG key; hmac-sha256 if it is left out",
            ),
            DnsProviderParam::optional("protocol", "tcp or udp; tcp if it is left out"),
        ],
    },
    DnsProviderKind {
        name: "exec",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::list(
                "command",
                "a command and its arguments; it gets present or cleanup, the name and the value",
            ),
            DnsProviderParam::optional(
                "timeout",
                "how long the command may run, as 30s; 60s if it is left out",
            ),
        ],
    },
    DnsProviderKind {
        name: "acme-dns",
        aliases: &["acmedns"],
        ttl: 1,
        one_of: &[],
        params: &[
            DnsProviderParam::required("url", "the URL of the acme-dns server"),
            DnsProviderParam::required("username", "the account's X-Api-User"),
            DnsProviderParam::required("password", "the account's X-Api-Key"),
            DnsProviderParam::required("subdomain", "the account's subdomain"),
        ],
    },
    DnsProviderKind {
        name: "alidns",
        aliases: &["aliyun"],
        ttl: 600,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
            DnsProviderParam::optional("region", "the region"),
            DnsProviderParam::optional("security_token", "a temporary token"),
            DnsProviderParam::optional("line", "the line of resolution"),
        ],
    },
    DnsProviderKind {
        name: "arvancloud",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "autodns",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("password", "the account's password"),
            DnsProviderParam::optional("context", "the number of the context"),
        ],
    },
    DnsProviderKind {
        name: "azuredns",
        aliases: &["azure"],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("tenant_id", "the tenant"),
            DnsProviderParam::required("client_id", "the application"),
            DnsProviderParam::required("secret", "the application's secret"),
            DnsProviderParam::required("subscription_id", "the subscription"),
            DnsProviderParam::required("resource_group", "the resource group of the zone"),
            DnsProviderParam::optional(
                "environment",
                "public, china or usgovernment; public if it is left out",
            ),
        ],
    },
    DnsProviderKind {
        name: "baiducloud",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "bluecat",
        aliases: &["bluecatv2"],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("url", "the server's URL"),
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("password", "the account's password"),
            DnsProviderParam::required("config", "the name of the configuration"),
            DnsProviderParam::required("view", "the name of the view"),
        ],
    },
    DnsProviderKind {
        name: "bunny",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "cloudflare",
        aliases: &["cf"],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required(
            "token",
            "an API token with the permission Zone:DNS:Edit",
        )],
    },
    DnsProviderKind {
        name: "cloudns",
        aliases: &[],
        ttl: 60,
        one_of: &["id", "sub_id"],
        params: &[
            DnsProviderParam::optional("id", "the id of the API user"),
            DnsProviderParam::optional("sub_id", "the id of the API sub-user"),
            DnsProviderParam::required("password", "the password of the API user"),
        ],
    },
    DnsProviderKind {
        name: "constellix",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "cpanel",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("url", "the server's URL"),
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("token", "an API token"),
        ],
    },
    DnsProviderKind {
        name: "ddnss",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "desec",
        aliases: &[],
        ttl: 3600,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "digitalocean",
        aliases: &["do"],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "dnsimple",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("token", "an API token"),
            DnsProviderParam::required("account_id", "the number of the account"),
        ],
    },
    DnsProviderKind {
        name: "dnsmadeeasy",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "domeneshop",
        aliases: &["domainnameshop"],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("token", "an API token"),
            DnsProviderParam::required("secret", "the secret of the token"),
        ],
    },
    DnsProviderKind {
        name: "dreamhost",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "duckdns",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "dynu",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "easydns",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("token", "an API token"),
            DnsProviderParam::required("key", "an API key"),
        ],
    },
    DnsProviderKind {
        name: "edgedns",
        aliases: &["akamai"],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("host", "the host of the API"),
            DnsProviderParam::required("client_token", "the client token"),
            DnsProviderParam::required("client_secret", "the client secret"),
            DnsProviderParam::required("access_token", "the access token"),
            DnsProviderParam::optional("account_switch_key", "the account switch key"),
        ],
    },
    DnsProviderKind {
        name: "exoscale",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "freemyip",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "gandi",
        aliases: &["gandiv5"],
        ttl: 300,
        one_of: &[],
        params: &[DnsProviderParam::required(
            "token",
            "a personal access token",
        )],
    },
    DnsProviderKind {
        name: "gcore",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "glesys",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("key", "an API key"),
        ],
    },
    DnsProviderKind {
        name: "godaddy",
        aliases: &[],
        ttl: 600,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "googleclouddns",
        aliases: &["gcloud", "googlecloud", "google"],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required(
                "service_account",
                "the key of a service account, the JSON itself",
            ),
            DnsProviderParam::required("project", "the project"),
            DnsProviderParam::optional("managed_zone", "the name of the managed zone"),
            DnsProviderParam::optional("impersonate", "a service account to act as"),
        ],
    },
    DnsProviderKind {
        name: "hetzner",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required(
            "token",
            "an API token of the Hetzner Console",
        )],
    },
    DnsProviderKind {
        name: "hostingde",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "hostinger",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "huaweicloud",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
            DnsProviderParam::required("region", "the region"),
        ],
    },
    DnsProviderKind {
        name: "ibmcloud",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("key", "an API key"),
        ],
    },
    DnsProviderKind {
        name: "infoblox",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("host", "the host of the grid manager"),
            DnsProviderParam::optional("port", "its port"),
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("password", "the account's password"),
            DnsProviderParam::optional("wapi_version", "the version of the API"),
            DnsProviderParam::optional("view", "the DNS view"),
        ],
    },
    DnsProviderKind {
        name: "infomaniak",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "inwx",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("password", "the account's password"),
        ],
    },
    DnsProviderKind {
        name: "ionos",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[DnsProviderParam::required(
            "key",
            "an API key, as prefix.secret",
        )],
    },
    DnsProviderKind {
        name: "ipv64",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "joker",
        aliases: &[],
        ttl: 120,
        one_of: &["key", "username"],
        params: &[
            DnsProviderParam::optional("key", "an API key"),
            DnsProviderParam::optional("username", "the account's name"),
            DnsProviderParam::optional("password", "the account's password"),
        ],
    },
    DnsProviderKind {
        name: "lightsail",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "the access key's id"),
            DnsProviderParam::required("secret", "the secret access key"),
            DnsProviderParam::optional("session_token", "a temporary token"),
            DnsProviderParam::optional("region", "the region"),
            DnsProviderParam::optional("domain", "the domain"),
        ],
    },
    DnsProviderKind {
        name: "linode",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "luadns",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("token", "an API token"),
        ],
    },
    DnsProviderKind {
        name: "mythicbeasts",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("password", "the account's password"),
        ],
    },
    DnsProviderKind {
        name: "namecheap",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the API user"),
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("client_ip", "the address that the account permits"),
        ],
    },
    DnsProviderKind {
        name: "namedotcom",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("token", "an API token"),
        ],
    },
    DnsProviderKind {
        name: "namesilo",
        aliases: &[],
        ttl: 3600,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "netcup",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("customer", "the customer's number"),
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("password", "the API password"),
        ],
    },
    DnsProviderKind {
        name: "netlify",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "nifcloud",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "ns1",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "oraclecloud",
        aliases: &["oci"],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("tenancy", "the OCID of the tenancy"),
            DnsProviderParam::required("user", "the OCID of the user"),
            DnsProviderParam::required("fingerprint", "the fingerprint of the key"),
            DnsProviderParam::required("private_key", "the key in PEM"),
            DnsProviderParam::optional("private_key_password", "the password of the key"),
            DnsProviderParam::required("region", "the region"),
            DnsProviderParam::required("compartment", "the OCID of the compartment"),
        ],
    },
    DnsProviderKind {
        name: "ovh",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "the application key"),
            DnsProviderParam::required("secret", "the application secret"),
            DnsProviderParam::required("consumer_key", "the consumer key"),
            DnsProviderParam::optional(
                "endpoint",
                "ovh-eu, ovh-us, ovh-ca, kimsufi-eu, kimsufi-ca, soyoustart-eu or soyoustart-ca; ovh-eu if it is left out",
            ),
        ],
    },
    DnsProviderKind {
        name: "plesk",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("url", "the server's URL"),
            DnsProviderParam::required("key", "an API key"),
        ],
    },
    DnsProviderKind {
        name: "porkbun",
        aliases: &[],
        ttl: 600,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret API key"),
        ],
    },
    DnsProviderKind {
        name: "powerdns",
        aliases: &["pdns"],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("url", "the URL of the API, as http://127.0.0.1:8081"),
            DnsProviderParam::optional(
                "server",
                "the name of the server; localhost if it is left out",
            ),
        ],
    },
    DnsProviderKind {
        name: "route53",
        aliases: &["aws"],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "the access key's id"),
            DnsProviderParam::required("secret", "the secret access key"),
            DnsProviderParam::optional("session_token", "a temporary token"),
            DnsProviderParam::optional("region", "the region; us-east-1 if it is left out"),
            DnsProviderParam::optional("zone_id", "the id of the hosted zone"),
        ],
    },
    DnsProviderKind {
        name: "safedns",
        aliases: &["ans"],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required("token", "an API token")],
    },
    DnsProviderKind {
        name: "scaleway",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[DnsProviderParam::required(
            "token",
            "the secret key of an API key",
        )],
    },
    DnsProviderKind {
        name: "selectel",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("password", "the account's password"),
            DnsProviderParam::required("account_id", "the number of the account"),
            DnsProviderParam::required("project_id", "the project"),
        ],
    },
    DnsProviderKind {
        name: "simplycom",
        aliases: &["simply"],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("key", "an API key"),
        ],
    },
    DnsProviderKind {
        name: "spaceship",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "tencentcloud",
        aliases: &["dnspod"],
        ttl: 600,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "the secret id"),
            DnsProviderParam::required("secret", "the secret key"),
            DnsProviderParam::optional("region", "the region"),
            DnsProviderParam::optional("session_token", "a temporary token"),
        ],
    },
    DnsProviderKind {
        name: "transip",
        aliases: &[],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("private_key", "the key in PEM"),
        ],
    },
    DnsProviderKind {
        name: "ultradns",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("password", "the account's password"),
            DnsProviderParam::optional("url", "the URL of the API"),
        ],
    },
    DnsProviderKind {
        name: "vercel",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("token", "an API token"),
            DnsProviderParam::optional("team_id", "the team"),
        ],
    },
    DnsProviderKind {
        name: "volcengine",
        aliases: &[],
        ttl: 600,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
            DnsProviderParam::optional("region", "the region"),
        ],
    },
    DnsProviderKind {
        name: "vultr",
        aliases: &[],
        ttl: 120,
        one_of: &[],
        params: &[DnsProviderParam::required("key", "an API key")],
    },
    DnsProviderKind {
        name: "websupport",
        aliases: &[],
        ttl: 600,
        one_of: &[],
        params: &[
            DnsProviderParam::required("key", "an API key"),
            DnsProviderParam::required("secret", "the secret of the API key"),
        ],
    },
    DnsProviderKind {
        name: "yandexcloud",
        aliases: &[],
        ttl: 60,
        one_of: &[],
        params: &[
            DnsProviderParam::required("token", "the authorized key in base64"),
            DnsProviderParam::required("folder_id", "the folder"),
        ],
    },
    DnsProviderKind {
        name: "zoneeu",
        aliases: &["zonee"],
        ttl: 300,
        one_of: &[],
        params: &[
            DnsProviderParam::required("username", "the account's name"),
            DnsProviderParam::required("key", "an API key"),
        ],
    },
];

impl DnsProviderKind {
    /// Whether the provider has this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

impl DnsProviderParam {
    const fn required(name: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            meaning,
            is_required: true,
            is_list: false,
        }
    }

    pub(super) const fn optional(name: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            meaning,
            is_required: false,
            is_list: false,
        }
    }

    const fn list(name: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            meaning,
            is_required: true,
            is_list: true,
        }
    }
}

/// The provider whose name is the most similar.
pub(super) fn similar_provider(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let of = |kind: &'static DnsProviderKind| {
        let names = std::iter::once(&kind.name).chain(kind.aliases);
        let distance = names.map(|known| strsim::damerau_levenshtein(known, &name));
        (distance.min().unwrap_or(usize::MAX), kind.name)
    };
    let (distance, found) = DNS_PROVIDERS.iter().map(of).min()?;
    (distance <= 2.min(found.len() / 2)).then_some(found)
}

/// The parameter of a provider that was meant: other programs put words before and after it, as in
/// `api_token` or `access_key_id`.
pub(super) fn similar_param(kind: &DnsProviderKind, name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let names = || {
        let common = super::DNS_COMMON_PARAMS.iter();
        kind.params.iter().chain(common).map(|param| param.name)
    };
    let by_word = || names().find(|known| name.split('_').any(|word| word == *known));
    let near = names()
        .map(|known| (strsim::damerau_levenshtein(known, &name), known))
        .min()?;
    if near.0 <= 2 {
        return Some(near.1);
    }
    by_word()
}
