//! Certificate resolvers, as the keys of `[acme]`.

use super::node::TraefikNode;
use super::values::unreadable;
use crate::{ConversionReport, DraftValue, Verdict};

/// A provider of DNS: its name in lego, its name here, and each parameter with the variable that lego
/// reads it from.
type LegoProvider = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const PROVIDERS: &[LegoProvider] = &[
    (
        "alidns",
        "alidns",
        &[
            ("key", "ALICLOUD_ACCESS_KEY"),
            ("secret", "ALICLOUD_SECRET_KEY"),
        ],
    ),
    ("bunny", "bunny", &[("token", "BUNNY_API_KEY")]),
    ("cloudflare", "cloudflare", &[("token", "CF_DNS_API_TOKEN")]),
    (
        "cloudns",
        "cloudns",
        &[
            ("user", "CLOUDNS_AUTH_ID"),
            ("password", "CLOUDNS_AUTH_PASSWORD"),
        ],
    ),
    ("desec", "desec", &[("token", "DESEC_TOKEN")]),
    (
        "digitalocean",
        "digitalocean",
        &[("token", "DO_AUTH_TOKEN")],
    ),
    ("dreamhost", "dreamhost", &[("token", "DREAMHOST_API_KEY")]),
    ("duckdns", "duckdns", &[("token", "DUCKDNS_TOKEN")]),
    ("dynu", "dynu", &[("token", "DYNU_API_KEY")]),
    (
        "gandiv5",
        "gandi",
        &[("token", "GANDIV5_PERSONAL_ACCESS_TOKEN")],
    ),
    (
        "godaddy",
        "godaddy",
        &[("key", "GODADDY_API_KEY"), ("secret", "GODADDY_API_SECRET")],
    ),
    ("hetzner", "hetzner", &[("token", "HETZNER_API_KEY")]),
    (
        "infomaniak",
        "infomaniak",
        &[("token", "INFOMANIAK_ACCESS_TOKEN")],
    ),
    (
        "inwx",
        "inwx",
        &[("user", "INWX_USERNAME"), ("password", "INWX_PASSWORD")],
    ),
    ("ionos", "ionos", &[("token", "IONOS_API_KEY")]),
    ("ipv64", "ipv64", &[("token", "IPV64_API_KEY")]),
    ("linode", "linode", &[("token", "LINODE_TOKEN")]),
    ("namesilo", "namesilo", &[("token", "NAMESILO_API_KEY")]),
    (
        "netcup",
        "netcup",
        &[
            ("account", "NETCUP_CUSTOMER_NUMBER"),
            ("key", "NETCUP_API_KEY"),
            ("password", "NETCUP_API_PASSWORD"),
        ],
    ),
    ("netlify", "netlify", &[("token", "NETLIFY_TOKEN")]),
    ("ns1", "ns1", &[("token", "NS1_API_KEY")]),
    (
        "ovh",
        "ovh",
        &[
            ("key", "OVH_APPLICATION_KEY"),
            ("secret", "OVH_APPLICATION_SECRET"),
            ("token", "OVH_CONSUMER_KEY"),
            ("region", "OVH_ENDPOINT"),
        ],
    ),
    (
        "pdns",
        "powerdns",
        &[("url", "PDNS_API_URL"), ("token", "PDNS_API_KEY")],
    ),
    (
        "porkbun",
        "porkbun",
        &[
            ("key", "PORKBUN_API_KEY"),
            ("secret", "PORKBUN_SECRET_API_KEY"),
        ],
    ),
    (
        "rfc2136",
        "rfc2136",
        &[
            ("server", "RFC2136_NAMESERVER"),
            ("key", "RFC2136_TSIG_KEY"),
            ("secret", "RFC2136_TSIG_SECRET"),
        ],
    ),
    (
        "route53",
        "route53",
        &[
            ("key", "AWS_ACCESS_KEY_ID"),
            ("secret", "AWS_SECRET_ACCESS_KEY"),
        ],
    ),
    (
        "tencentcloud",
        "tencentcloud",
        &[
            ("key", "TENCENTCLOUD_SECRET_ID"),
            ("secret", "TENCENTCLOUD_SECRET_KEY"),
        ],
    ),
    ("vercel", "vercel", &[("token", "VERCEL_API_TOKEN")]),
    ("vultr", "vultr", &[("token", "VULTR_API_KEY")]),
];

/// A certificate resolver.
#[derive(Debug, Default)]
pub(super) struct TraefikResolver {
    /// Its name, in lower case.
    pub(super) name: String,
    /// The keys of `[acme]`.
    pub(super) keys: Vec<(String, DraftValue)>,
    /// Whether it can have certificates of wildcards.
    pub(super) dns: bool,
    /// Where it stands.
    pub(super) place: String,
    /// Whether it can be written at all.
    pub(super) usable: bool,
}

/// Reads all resolvers.
pub(super) fn read(root: &TraefikNode, report: &mut ConversionReport) -> Vec<TraefikResolver> {
    let resolvers = root.field("certificatesResolvers");
    let resolvers = resolvers.iter().flat_map(|node| node.fields());
    resolvers
        .map(|(name, node)| resolver(name, node, report))
        .collect()
}

fn resolver(name: &str, node: &TraefikNode, report: &mut ConversionReport) -> TraefikResolver {
    let mut resolver = TraefikResolver {
        name: name.to_ascii_lowercase(),
        place: node.place.to_string(),
        ..TraefikResolver::default()
    };
    let Some(acme) = node.field("acme") else {
        node.mark(
            report,
            &Verdict::not_supported("Lockgate gets certificates by ACME alone", None),
        );
        return resolver;
    };
    resolver.usable = true;
    if let Some(statement) = node.statement {
        report.set(statement, Verdict::Converted);
    }
    acme.set_own(report, Verdict::Converted);
    for (key, node) in acme.fields() {
        let text = node.text().map(str::trim);
        let verdict = match (key.to_ascii_lowercase().as_str(), text) {
            ("email", Some(text)) if is_mail(text) => {
                resolver.keys.push(("email".to_owned(), text.into()));
                Verdict::Converted
            }
            ("email", _) => Verdict::differs(
                "it is no address, or not known here, so the account has none: write email = \"…\" in [acme]",
            ),
            ("storage", _) => Verdict::Default,
            ("caserver", Some(text)) => {
                let url = text.trim_end_matches('/');
                match url {
                    "https://acme-v02.api.letsencrypt.org/directory" => Verdict::Default,
                    "https://acme-staging-v02.api.letsencrypt.org/directory" => {
                        resolver
                            .keys
                            .push(("directory".to_owned(), "letsencrypt-staging".into()));
                        Verdict::Converted
                    }
                    url if url.starts_with("https://") && !url.contains([' ', '"']) => {
                        resolver.keys.push(("directory".to_owned(), text.into()));
                        Verdict::Converted
                    }
                    _ => {
                        resolver.usable = false;
                        unreadable()
                    }
                }
            }
            ("caserver", None) => {
                resolver.usable = false;
                unreadable()
            }
            ("keytype", Some("EC256")) => Verdict::Default,
            ("keytype", Some("RSA2048")) => {
                resolver.keys.push(("key".to_owned(), "rsa2048".into()));
                Verdict::Converted
            }
            ("keytype", Some("EC384")) => Verdict::differs("its keys are ECDSA over P-256"),
            ("keytype", _) => {
                resolver.keys.push(("key".to_owned(), "rsa2048".into()));
                Verdict::differs("its keys are RSA with 2048 bits")
            }
            ("tlschallenge", _) => {
                node.mark(report, &Verdict::Default);
                continue;
            }
            ("httpchallenge", _) => {
                // Both ports are open: the authority may choose.
                node.mark(report, &Verdict::Default);
                continue;
            }
            ("dnschallenge", _) => {
                dns(node, &mut resolver, report);
                continue;
            }
            ("eab", _) => {
                eab(node, &mut resolver, report);
                continue;
            }
            ("preferredchain", Some("")) | ("certificatesduration" | "certificatetimeout", _) => {
                Verdict::Default
            }
            ("preferredchain", _) => {
                Verdict::not_supported("Lockgate takes the authority's first chain", None)
            }
            ("profile", Some(text)) if !text.is_empty() => {
                resolver.keys.push(("profile".to_owned(), text.into()));
                Verdict::Converted
            }
            ("cacertificates", _) => match node.items().as_slice() {
                [path] if node.text().is_none_or(|text| !text.is_empty()) => {
                    resolver.keys.push(("ca".to_owned(), path.as_str().into()));
                    Verdict::Converted
                }
                _ => unreadable(),
            },
            _ => continue,
        };
        node.set(report, verdict);
    }
    resolver
}

fn is_mail(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".@_+-".contains(c);
    text.chars().all(plain)
        && text.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && host.contains('.') && !host.contains('@')
        })
}

fn eab(node: &TraefikNode, resolver: &mut TraefikResolver, report: &mut ConversionReport) {
    let text = |key| {
        node.field(key)
            .and_then(TraefikNode::text)
            .map(str::to_owned)
    };
    match (text("kid"), text("hmacEncoded")) {
        (Some(id), Some(key)) => {
            let keys = vec![
                ("key_id".to_owned(), id.into()),
                ("mac_key".to_owned(), key.into()),
            ];
            resolver
                .keys
                .push(("eab".to_owned(), DraftValue::Inline(keys)));
            node.mark(report, &Verdict::Converted);
        }
        _ => {
            resolver.usable = false;
            node.mark(report, &unreadable());
        }
    }
}

fn dns(node: &TraefikNode, resolver: &mut TraefikResolver, report: &mut ConversionReport) {
    node.set_own(report, Verdict::Converted);
    let name = node
        .field("provider")
        .and_then(TraefikNode::text)
        .unwrap_or("");
    let known = PROVIDERS.iter().find(|(theirs, ..)| *theirs == name);
    let Some((_, ours, parameters)) = known else {
        node.mark(
            report,
            &Verdict::not_supported(
                "Lockgate does not write records at this provider in the way that lego does: certificates come by ports 80 and 443",
                Some("look in config.md, acme.dns.provider; wildcards need it"),
            ),
        );
        return;
    };
    let mut keys: Vec<(String, DraftValue)> = vec![("provider".to_owned(), (*ours).into())];
    // The same variables that Traefik has in its environment.
    for (key, variable) in *parameters {
        keys.push(((*key).to_owned(), format!("${{env:{variable}}}").into()));
    }
    for (key, node) in node.fields() {
        let verdict = match key.to_ascii_lowercase().as_str() {
            "provider" => Verdict::Converted,
            // Lockgate asks the servers of the zone until they have the record.
            "delaybeforecheck" => Verdict::Default,
            "disablepropagationcheck" if node.flag() == Some(true) => Verdict::differs(
                "Lockgate always waits until the servers of the zone have the record",
            ),
            "disablepropagationcheck" => Verdict::Default,
            "resolvers" => {
                let servers: Option<Vec<String>> =
                    node.items().iter().map(|text| server(text)).collect();
                match servers {
                    Some(servers) if !servers.is_empty() => {
                        keys.push(("resolvers".to_owned(), servers.into()));
                        Verdict::Converted
                    }
                    _ => unreadable(),
                }
            }
            "propagation" => {
                node.mark(
                    report,
                    &Verdict::differs(
                        "Lockgate waits until the servers of the zone have the record",
                    ),
                );
                continue;
            }
            _ => continue,
        };
        node.set(report, verdict);
    }
    resolver.dns = true;
    resolver
        .keys
        .push(("dns".to_owned(), DraftValue::Inline(keys)));
}

fn server(text: &str) -> Option<String> {
    let text = text.trim();
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Some(address.to_string());
    }
    let address = text.parse::<std::net::IpAddr>().ok()?;
    Some(std::net::SocketAddr::new(address, 53).to_string())
}

/// Whether no public authority certifies a host.
pub(super) fn is_private(host: &str) -> bool {
    const ZONES: [&str; 14] = [
        "localhost",
        "local",
        "lan",
        "internal",
        "intranet",
        "private",
        "corp",
        "home",
        "test",
        "example",
        "invalid",
        "onion",
        "localdomain",
        "alt",
    ];
    let last = host.rsplit('.').next().unwrap_or("");
    !host.contains('.')
        || ZONES.contains(&last)
        || host.ends_with(".arpa")
        || host.contains('_')
        || host.parse::<std::net::IpAddr>().is_ok()
}
