//! Certificates that certbot keeps, in a draft: `[acme]` obtains them instead.

use crate::{Draft, DraftTable, DraftValue};

/// Where certbot keeps the certificates that it renews.
const LIVE: &str = "/etc/letsencrypt/live/";

impl Draft {
    /// Lets Lockgate obtain the certificates that certbot has, with an account for this address.
    /// Sites without a host, and with a wildcard, keep their files: no certificate comes for them
    /// by itself. Their names are returned.
    pub fn obtain_certificates(&mut self, email: &str) -> Vec<String> {
        let mut kept = Vec::new();
        let mut obtained = false;
        let names: Vec<String> = match self.top.find_table("site") {
            Some(sites) => sites.tables().map(|(name, _)| name.to_owned()).collect(),
            None => Vec::new(),
        };
        for name in names {
            let site = self.top.table("site").table(&name);
            if !site.get("tls").is_some_and(names_certbot) {
                continue;
            }
            if name.starts_with(':') || name.starts_with("*.") || has_wildcard(site) {
                kept.push(name);
                continue;
            }
            obtained = true;
            let mut rest = match site.remove("tls") {
                Some(DraftValue::Inline(keys)) => keys,
                _ => Vec::new(),
            };
            rest.retain(|(key, _)| key != "cert" && key != "key");
            // A name without a port has TLS without it, but loses it once a port is added.
            site.set("tls", DraftValue::Inline(rest));
        }
        if obtained && self.top.find_table("acme").is_none() && self.top.get("acme").is_none() {
            let email = vec![("email".to_owned(), email.into())];
            self.top.set("acme", DraftValue::Inline(email));
        }
        kept
    }
}

/// Whether a value of `tls` names a certificate of certbot.
fn names_certbot(tls: &DraftValue) -> bool {
    match tls {
        DraftValue::Text(file) => file.starts_with(LIVE),
        DraftValue::Inline(keys) => keys
            .iter()
            .any(|(key, value)| matches!(key.as_str(), "cert" | "default") && names_certbot(value)),
        _ => false,
    }
}

fn has_wildcard(site: &DraftTable) -> bool {
    let is_wildcard =
        |host: &DraftValue| matches!(host, DraftValue::Text(host) if host.starts_with("*."));
    matches!(site.get("alias"), Some(DraftValue::List(hosts)) if hosts.iter().any(is_wildcard))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(cert: &str, more: &[(&str, DraftValue)]) -> DraftValue {
        let mut keys = vec![
            ("cert".to_owned(), cert.into()),
            ("key".to_owned(), "/key".into()),
        ];
        keys.extend(
            more.iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone())),
        );
        DraftValue::Inline(keys)
    }

    #[test]
    fn acme_takes_the_place_of_the_files_of_certbot() {
        const CERT: &str = "/etc/letsencrypt/live/a/fullchain.pem";
        let mut draft = Draft::default();
        let sites = draft.top.table("site");
        for (name, value) in [
            ("a.test", tls(CERT, &[])),
            ("b.test:443", tls(CERT, &[])),
            ("c.test", tls(CERT, &[("tickets", false.into())])),
            ("d.test", tls("/etc/tls/d.pem", &[])),
            (
                ":443",
                DraftValue::Inline(vec![("default".to_owned(), tls(CERT, &[]))]),
            ),
            ("*.e.test", CERT.into()),
        ] {
            sites.table(name).set("tls", value);
        }
        assert_eq!(draft.obtain_certificates("me@a.test"), [":443", "*.e.test"]);
        let text = draft.to_string();
        for part in [
            "acme = { email = \"me@a.test\" }",
            "[site.\"a.test\"]\ntls = {}",
            "[site.\"b.test:443\"]\ntls = {}",
            "[site.\"c.test\"]\ntls = { tickets = false }",
            "[site.\"d.test\"]\ntls = { cert = \"/etc/tls/d.pem\"",
            "[site.\":443\"]\ntls = { default = { cert = \"/etc",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
