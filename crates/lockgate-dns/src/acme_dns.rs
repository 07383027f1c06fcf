//! A server of acme-dns: it holds one name for each of its accounts, of which it keeps the last two
//! TXT records. Nothing is ever removed there.

use bytes::Bytes;
use lockgate_client::ClientRequest;
use lockgate_rules::DnsProvider;
use lockgate_rules::dns_provider::ACME_DNS;

use crate::error::{DnsError, bounded};
use crate::web::WebServer;

/// An account at a server of acme-dns.
pub(crate) struct AcmeDns {
    server: WebServer,
    /// The host, with its port where that is not the scheme's own.
    authority: String,
    /// The path of an update.
    path: String,
    user: String,
    password: String,
    subdomain: String,
}

impl AcmeDns {
    /// The account of some settings.
    ///
    /// # Errors
    /// When a parameter is missing or cannot be read.
    pub(crate) fn new(provider: &DnsProvider) -> Result<Self, DnsError> {
        let bad = |why: String| DnsError::Settings {
            provider: ACME_DNS,
            why,
        };
        let required = |name: &str| {
            let found = provider.parameter(name);
            let found = found.ok_or_else(|| bad(format!("`{name}` is missing")));
            found.map(str::to_owned)
        };
        let url = required("url")?;
        let not_url = || bad("`url` is not a URL of http or https".to_owned());
        let (is_secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(not_url()),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| not_url())?)
            }
            _ => (authority, if is_secure { 443 } else { 80 }),
        };
        if host.is_empty() || authority.contains('@') {
            return Err(not_url());
        }
        let host = host.trim_matches(['[', ']']);
        Ok(Self {
            server: WebServer::new(host, port, is_secure).map_err(bad)?,
            authority: authority.to_owned(),
            path: format!("{}/update", path.trim_end_matches('/')),
            user: required("user")?,
            password: required("password")?,
            subdomain: required("subdomain")?,
        })
    }

    /// Adds a TXT record to the account's name.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) async fn update(&self, value: &str) -> Result<(), DnsError> {
        let failed = |why: String| DnsError::Provider {
            provider: ACME_DNS,
            why: format!("{}: {why}", self.authority),
        };
        let body = serde_json::json!({ "subdomain": self.subdomain, "txt": value });
        let request = ClientRequest {
            method: "POST",
            host: &self.authority,
            path: &self.path,
            fields: &[
                ("content-type", "application/json"),
                ("x-api-user", &self.user),
                ("x-api-key", &self.password),
            ],
            body: Bytes::from(body.to_string()),
        };
        let sent = self.server.send(&request).await;
        let (status, body) = sent.map_err(|error| failed(error.to_string()))?;
        match status {
            200..300 => Ok(()),
            status => {
                let body = bounded(&String::from_utf8_lossy(&body));
                Err(failed(format!("status {status}: {body}")))
            }
        }
    }
}
