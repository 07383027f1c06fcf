//! The address that a server tells its client, asked over that family of addresses.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use lockgate_client::{
    ClientError, ClientRequest, DialTarget, ExchangeLimits, HttpConnection, RemoteServer,
};
use lockgate_net::tls::{CaSource, ClientSettings, Connector};
use lockgate_rules::SourceUrl;

use crate::answer::{LONGEST, first_address};
use crate::family::AddressFamily;
use crate::interface::is_temporary;
use crate::publishable::{is_publishable, refusal};

const LIMITS: ExchangeLimits = ExchangeLimits {
    time: Duration::from_secs(10),
    head_bytes: 16 << 10,
    body_bytes: LONGEST,
};

/// A server that answers with the address of its client.
pub(crate) struct AnsweringServer {
    url: SourceUrl,
    tls: Option<Connector>,
}

impl AnsweringServer {
    /// The server of a URL.
    ///
    /// # Errors
    /// When the authorities of the system cannot be read, which TLS needs.
    pub(crate) fn new(url: SourceUrl) -> Result<Self, String> {
        let tls = match url.secure {
            true => Some(
                Connector::new(ClientSettings::new(CaSource::System))
                    .map_err(|error| error.to_string())?,
            ),
            false => None,
        };
        Ok(Self { url, tls })
    }

    /// Asks for the address of a family.
    ///
    /// # Errors
    /// When there is no answer in ten seconds, or none that may be published.
    pub(crate) async fn ask(&self, family: AddressFamily, private: bool) -> Result<IpAddr, String> {
        let failed = |why: String| format!("{}: {why}", self.url);
        let exchanged = LIMITS.bound(self.exchange(family)).await;
        let (status, body) = exchanged.map_err(|error| {
            failed(match error {
                ClientError::Unresolved => format!("{} has no {family} address", self.url.host),
                error => error.to_string(),
            })
        })?;
        match status {
            200 => {}
            300..400 => {
                let why = format!("status {status}; write the URL that it leads to");
                return Err(failed(why));
            }
            status => return Err(failed(format!("status {status}"))),
        }
        let Some(address) = first_address(&body, family) else {
            return Err(failed(format!("its answer holds no {family} address")));
        };
        match refusal(address) {
            Some(refusal) if !is_publishable(address, private) => {
                Err(failed(format!("{address} is {}", refusal.as_str())))
            }
            _ if is_temporary(address) => {
                let why =
                    "a temporary address of this machine (RFC 8981); take its interface instead";
                Err(failed(format!("{address} is {why}")))
            }
            _ => Ok(address),
        }
    }

    async fn exchange(&self, family: AddressFamily) -> Result<(u16, Vec<u8>), ClientError> {
        let (host, port) = (&*self.url.host, self.url.port);
        let found = tokio::net::lookup_host((host, port)).await;
        let found = found.map_err(ClientError::Unreachable)?;
        let server = RemoteServer {
            // Over the other family it would see another address.
            addresses: found
                .filter(|address| family.has(address.ip()))
                .map(DialTarget::Tcp)
                .collect(),
            tls: self.tls.as_ref().map(|connector| (connector, host)),
            proxy_header: &[],
        };
        let mut connection = HttpConnection::http1(server.connect(LIMITS).await?).await?;
        let request = ClientRequest {
            method: "GET",
            host: &self.url.authority,
            path: &self.url.path,
            fields: &[
                ("user-agent", "lockgate"),
                ("accept", "text/plain, application/json;q=0.5, */*;q=0.1"),
            ],
            body: Bytes::new(),
        };
        let mut response = connection.exchange(&request).await?;
        let body = response.read(|_, _| false).await?;
        Ok((response.status, body))
    }
}
