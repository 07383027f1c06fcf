//! Names for which authorities issue no certificate. Asks no authority.

use std::net::IpAddr;

use crate::acme::{AcmeSettings, KNOWN_DIRECTORIES};
use crate::host_pattern::HostPattern;

/// Why the authorities of [`AcmeSettings`] issue no certificate for a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRefusal {
    /// It is not a name, but stands for every host.
    EveryHost,
    /// A wildcard takes a challenge by DNS (RFC 8555 §8.4), which the settings do not have.
    Wildcard,
    /// It is an IP address.
    Address,
    /// It has no dot: `box`.
    SingleLabel,
    /// It lies below a name that is kept for private use: `box.lan`.
    PrivateUse(&'static str),
    /// It holds an underscore (CA/Browser Forum Baseline Requirements §3.2.2.4, RFC 5890 §2.3.1).
    Underscore,
    /// It is longer than 253 bytes with its `*.` (RFC 1035 §2.3.4).
    TooLong,
}

/// Names below which no public authority issues certificates: they are no part of the public DNS.
///
/// RFC 6761 and RFC 6762 (with appendix G), RFC 7686, RFC 8375, RFC 9476; `internal` by ICANN's
/// reservation of 2024; `corp`, `home` and `mail` by its resolution of 2018. `example.com` and its
/// like are names of the public DNS.
const PRIVATE_USE: [&str; 16] = [
    "alt",
    "corp",
    "example",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "mail",
    "onion",
    "private",
    "test",
];

/// The longest name of a host, in bytes (RFC 1035 §2.3.4 without the root's label).
const LONGEST_NAME: usize = 253;

impl AcmeSettings {
    /// Why none of the authorities issues a certificate for a host; `None` if one may.
    ///
    /// Only what is sure: an authority that is not publicly known may issue one for any name.
    pub fn refuses(&self, host: &HostPattern) -> Option<NameRefusal> {
        let (name, is_wildcard) = match host {
            HostPattern::Any => return Some(NameRefusal::EveryHost),
            HostPattern::Exact(name) => (name, false),
            HostPattern::Under(name) => (name, true),
        };
        let length = name.len() + if is_wildcard { "*.".len() } else { 0 };
        if length > LONGEST_NAME {
            return Some(NameRefusal::TooLong);
        }
        if self.is_public()
            && let Some(refusal) = public_refusal(name)
        {
            return Some(refusal);
        }
        (is_wildcard && self.dns.is_none()).then_some(NameRefusal::Wildcard)
    }

    /// Whether every directory is one that has a name, which are those of public authorities.
    pub fn is_public(&self) -> bool {
        let known = |url: &str| KNOWN_DIRECTORIES.iter().any(|(_, known)| *known == url);
        self.directories
            .iter()
            .all(|directory| known(&directory.url))
    }
}

/// Why no public authority issues a certificate for a host, given as in [`HostPattern::Exact`];
/// `None` if one may.
pub fn public_refusal(name: &str) -> Option<NameRefusal> {
    if name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Some(NameRefusal::Address);
    }
    let mut private = PRIVATE_USE.into_iter();
    let below = private.find(|zone| {
        let rest = name.strip_suffix(zone);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if let Some(zone) = below {
        return Some(NameRefusal::PrivateUse(zone));
    }
    if !name.contains('.') {
        return Some(NameRefusal::SingleLabel);
    }
    name.contains('_').then_some(NameRefusal::Underscore)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::acme::{AcmeDirectory, CertKeyKind};
    use crate::dns_provider::{DnsProvider, KnownDnsProvider};

    fn settings(directories: &[&str]) -> AcmeSettings {
        let directory = |text: &&str| {
            AcmeDirectory::known(text).unwrap_or_else(|| AcmeDirectory {
                name: (*text).to_owned(),
                url: format!("https://{text}/directory"),
            })
        };
        AcmeSettings {
            directories: directories.iter().map(directory).collect(),
            ca: None,
            email: None,
            eab: None,
            profile: None,
            keys: vec![CertKeyKind::EcdsaP256],
            dns: None,
        }
    }

    fn exact(name: &str) -> HostPattern {
        HostPattern::Exact(name.to_owned())
    }

    #[test]
    fn names_that_no_public_authority_certifies_are_refused() {
        use NameRefusal::{Address, PrivateUse, SingleLabel, Underscore};
        let public = settings(&["letsencrypt", "zerossl"]);
        for (name, refusal) in [
            ("app.example.com", None),
            ("example.org", None),
            ("xn--bcher-kva.de", None),
            ("nas.latest", None),
            ("lan.example.com", None),
            ("mail.example.com", None),
            ("box", Some(SingleLabel)),
            ("localhost", Some(PrivateUse("localhost"))),
            ("app.localhost", Some(PrivateUse("localhost"))),
            ("box.lan", Some(PrivateUse("lan"))),
            ("printer.local", Some(PrivateUse("local"))),
            ("db.internal", Some(PrivateUse("internal"))),
            ("nas.home.arpa", Some(PrivateUse("home.arpa"))),
            ("a.b.test", Some(PrivateUse("test"))),
            ("app.example", Some(PrivateUse("example"))),
            ("x.onion", Some(PrivateUse("onion"))),
            ("my_app.example.com", Some(Underscore)),
            ("192.0.2.7", Some(Address)),
            ("[2001:db8::7]", Some(Address)),
        ] {
            assert_eq!(public.refuses(&exact(name)), refusal, "{name}");
        }
        assert_eq!(
            public.refuses(&HostPattern::Any),
            Some(NameRefusal::EveryHost)
        );
    }

    #[test]
    fn a_private_directory_may_certify_any_single_name() {
        for directories in [&["ca.internal"][..], &["letsencrypt", "ca.internal"]] {
            let private = settings(directories);
            for name in ["box.lan", "box", "my_app.lan", "10.0.0.7"] {
                assert_eq!(private.refuses(&exact(name)), None, "{name}");
            }
            let wildcard = HostPattern::Under("apps.lan".to_owned());
            assert_eq!(private.refuses(&wildcard), Some(NameRefusal::Wildcard));
        }
    }

    #[test]
    fn a_wildcard_certificate_needs_a_challenge_by_dns() {
        let public = settings(&["letsencrypt"]);
        let under = |name: &str| HostPattern::Under(name.to_owned());
        for (host, refusal) in [
            (under("example.com"), NameRefusal::Wildcard),
            (under("apps.lan"), NameRefusal::PrivateUse("lan")),
            (under(&"a.".repeat(126)), NameRefusal::TooLong),
            (exact(&"a.".repeat(127)), NameRefusal::TooLong),
        ] {
            assert_eq!(public.refuses(&host), Some(refusal), "{host}");
        }
        let dns = DnsProvider {
            provider: KnownDnsProvider::named("desec").unwrap(),
            parameters: Vec::new(),
            command: Vec::new(),
            propagation: Duration::from_secs(120),
            resolvers: Vec::new(),
        };
        let with_dns = AcmeSettings {
            dns: Some(Arc::new(dns)),
            ..public
        };
        assert_eq!(with_dns.refuses(&under("example.com")), None);
        assert_eq!(
            with_dns.refuses(&under("apps.lan")),
            Some(NameRefusal::PrivateUse("lan"))
        );
    }
}
