//! DuckDNS: one call sets the addresses of a subdomain (its specification is at
//! <https://www.duckdns.org/spec.jsp>).
//!
//! Names below a subdomain have its addresses by themselves.

use std::fmt::Write as _;

use bytes::Bytes;
use lockgate_client::ClientRequest;
use lockgate_rules::DnsProvider;
use lockgate_rules::dns_provider::DUCKDNS;

use crate::error::{DnsError, bounded};
use crate::wanted::WantedAddresses;
use crate::web::WebServer;

const HOST: &str = "www.duckdns.org";
const SUFFIX: &str = ".duckdns.org";

/// An account at DuckDNS.
pub(crate) struct DuckDns {
    server: WebServer,
    token: String,
}

impl DuckDns {
    /// The account of some settings.
    ///
    /// # Errors
    /// When the token is missing or none.
    pub(crate) fn new(provider: &DnsProvider) -> Result<Self, DnsError> {
        let server = WebServer::new(HOST, 443, true);
        Self::at(server, provider)
    }

    /// The same account at another server.
    pub(crate) fn at(
        server: Result<WebServer, String>,
        provider: &DnsProvider,
    ) -> Result<Self, DnsError> {
        let bad = |why: String| DnsError::Settings {
            provider: DUCKDNS,
            why,
        };
        let token = provider.parameter("token");
        let token = token.ok_or_else(|| bad("`token` is missing".to_owned()))?;
        // It stands in a query as it is.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !token.bytes().all(is_plain) {
            return Err(bad("`token` is none of DuckDNS".to_owned()));
        }
        Ok(Self {
            server: server.map_err(bad)?,
            token: token.to_owned(),
        })
    }

    /// Sets the addresses of a name, in the families in which there is one.
    ///
    /// # Errors
    /// When the name is none of DuckDNS, or the server refuses or cannot be reached.
    pub(crate) async fn set_addresses(
        &self,
        name: &str,
        addresses: WantedAddresses,
    ) -> Result<(), DnsError> {
        let failed = |why: String| DnsError::Provider {
            provider: DUCKDNS,
            why,
        };
        let subdomain = name.strip_suffix(SUFFIX);
        let subdomain = subdomain.filter(|label| !label.contains(['.', '*']));
        let Some(subdomain) = subdomain else {
            let why = format!("{name} is no name like NAME{SUFFIX}; names below one follow it");
            return Err(failed(why));
        };
        let mut path = format!("/update?domains={subdomain}&token={}", self.token);
        // An address that is left out is not looked for by the server where the other one is there.
        if let Some(address) = addresses.ipv4 {
            let _ = write!(path, "&ip={address}");
        }
        if let Some(address) = addresses.ipv6 {
            let _ = write!(path, "&ipv6={address}");
        }
        let request = ClientRequest {
            method: "GET",
            host: HOST,
            path: &path,
            fields: &[],
            body: Bytes::new(),
        };
        let sent = self.server.send(&request).await;
        let (status, body) = sent.map_err(|error| failed(error.to_string()))?;
        let body = bounded(&String::from_utf8_lossy(&body));
        match (status, &*body) {
            (200, "OK") => Ok(()),
            (200, "KO") => Err(failed(format!(
                "it refuses: the token is not that of {name}, or the name is not registered"
            ))),
            (status, body) => Err(failed(format!("status {status}: {body}"))),
        }
    }
}
