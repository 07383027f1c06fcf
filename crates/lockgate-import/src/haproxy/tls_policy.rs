//! TLS versions and cipher suites.

use super::words::has_variable;
use crate::openssl_suites::OPENSSL_SUITES;
use crate::{DraftValue, Verdict};

/// What options of TLS ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct HaproxyTls {
    pub(super) only_13: bool,
    pub(super) only_12: bool,
    pub(super) no_tickets: bool,
}

impl HaproxyTls {
    pub(super) fn merge(&mut self, other: Self) {
        self.only_13 |= other.only_13;
        self.only_12 |= other.only_12;
        self.no_tickets |= other.no_tickets;
    }

    /// Writes `policy` and `tickets` where they are not the default.
    pub(super) fn keys(&self, suites: &[&'static str]) -> Vec<(String, DraftValue)> {
        let mut keys = Vec::new();
        let versions = match (self.only_12, self.only_13) {
            (true, false) => Some("1.2"),
            (false, true) => Some("1.3"),
            _ => None,
        };
        let mut policy = Vec::new();
        if let Some(version) = versions {
            policy.push(("versions".to_owned(), vec![version].into()));
        }
        if !suites.is_empty() && !self.only_13 {
            let mut all: Vec<&str> = if self.only_12 {
                Vec::new()
            } else {
                TLS13.to_vec()
            };
            all.extend(suites);
            policy.push(("suites".to_owned(), all.into()));
        }
        if self.only_13 {
            keys.push(("policy".to_owned(), "modern".into()));
        } else if !policy.is_empty() {
            keys.push(("policy".to_owned(), DraftValue::Inline(policy)));
        }
        if self.no_tickets {
            keys.push(("tickets".to_owned(), false.into()));
        }
        keys
    }
}

const TLS13: [&str; 3] = [
    "TLS13_AES_128_GCM_SHA256",
    "TLS13_AES_256_GCM_SHA384",
    "TLS13_CHACHA20_POLY1305_SHA256",
];

/// Suites of TLS 1.2 that are not Lockgate's default, and the verdict of the list.
pub(super) fn ciphers(list: &str) -> (Vec<&'static str>, Verdict) {
    let names: Vec<_> = list.split(':').filter(|name| !name.is_empty()).collect();
    let found: Vec<&'static str> = names
        .iter()
        .filter_map(|name| OPENSSL_SUITES.iter().find(|(openssl, _)| openssl == name))
        .map(|(_, iana)| *iana)
        .collect();
    let known = |name: &&str| {
        OPENSSL_SUITES.iter().any(|(openssl, _)| openssl == name)
            || name.starts_with("TLS_")
            || name.starts_with('!')
    };
    let all = names.iter().all(known);
    let keyword = names.iter().any(|name| {
        !known(name) && (!name.contains('-') || name.contains('@') || name.contains('+'))
    });
    if keyword || has_variable(list) || found.is_empty() {
        return (
            Vec::new(),
            Verdict::differs(
                "Lockgate's suites are those of Mozilla's intermediate policy with forward secrecy by ECDHE",
            ),
        );
    }
    let list = if found.len() == OPENSSL_SUITES.len() {
        Vec::new()
    } else {
        found
    };
    let verdict = match (all, list.is_empty()) {
        (true, true) => Verdict::Default,
        (true, false) => Verdict::Converted,
        (false, _) => {
            Verdict::differs("suites without ECDHE and AEAD, such as DHE and CBC, are not offered")
        }
    };
    (list, verdict)
}

/// The verdict of a list of suites of TLS 1.3.
pub(super) fn suites_of_tls13(list: &str) -> Verdict {
    let names = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ];
    if names
        .iter()
        .all(|name| list.split(':').any(|word| word == *name))
    {
        Verdict::Default
    } else {
        Verdict::differs("all suites of TLS 1.3 are offered")
    }
}

/// Options of `bind` and `ssl-default-bind-options` about TLS.
pub(super) fn tls_options(words: &[String]) -> (HaproxyTls, Verdict) {
    let mut tls = HaproxyTls::default();
    let mut verdict = Verdict::Default;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "no-sslv3" | "no-tlsv10" | "no-tlsv11" => {}
            "no-tlsv12" | "force-tlsv13" => tls.only_13 = true,
            "no-tlsv13" | "force-tlsv12" => tls.only_12 = true,
            "no-tls-tickets" => tls.no_tickets = true,
            "ssl-min-ver" => match words.next().map(String::as_str) {
                Some("TLSv1.2") => {}
                Some("TLSv1.3") => tls.only_13 = true,
                _ => verdict = Verdict::differs("the lowest version is TLS 1.2"),
            },
            "ssl-max-ver" => match words.next().map(String::as_str) {
                Some("TLSv1.3") => {}
                Some("TLSv1.2") => tls.only_12 = true,
                _ => verdict = Verdict::differs("the lowest version is TLS 1.2"),
            },
            "prefer-client-ciphers" => {
                verdict = Verdict::differs("the server's order of suites decides");
            }
            "strict-sni" => {}
            _ => {
                verdict = Verdict::differs(format!(
                    "`{}` has no counterpart",
                    word.chars().take(40).collect::<String>()
                ));
            }
        }
    }
    if verdict == Verdict::Default && tls != HaproxyTls::default() {
        verdict = Verdict::Converted;
    }
    (tls, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_known_by_the_names_of_openssl() {
        let all = OPENSSL_SUITES.map(|(name, _)| name).join(":");
        assert_eq!(ciphers(&all), (Vec::new(), Verdict::Default));
        let (list, verdict) = ciphers("ECDHE-RSA-AES256-GCM-SHA384:!aNULL");
        assert_eq!(list, ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]);
        assert_eq!(verdict, Verdict::Converted);
        for list in [
            "HIGH:!aNULL",
            "PROFILE=SYSTEM",
            "ECDH+AESGCM:DH+AESGCM",
            "AES128-SHA",
        ] {
            let (list, verdict) = ciphers(list);
            assert!(list.is_empty() && matches!(verdict, Verdict::Differs { .. }));
        }
        let (_, verdict) = ciphers(&format!("{all}:DHE-RSA-AES128-GCM-SHA256"));
        assert!(matches!(verdict, Verdict::Differs { .. }));
    }
}
