//! One request to a Lockgate on this machine, by a command: its response is read whole.

use std::time::Duration;

use bytes::Bytes;
use lockgate_client::{ClientError, ClientRequest, ExchangeLimits, HttpConnection, RemoteServer};
use lockgate_net::dial::DialTarget;

/// A request to an address of this machine.
#[derive(Debug)]
pub(crate) struct LocalRequest<'a> {
    /// The addresses, in the order in which they are tried.
    pub(crate) addresses: Vec<DialTarget>,
    /// The host of the request.
    pub(crate) host: &'a str,
    /// A token.
    pub(crate) method: &'a str,
    /// The path and query.
    pub(crate) path: &'a str,
    /// The body: JSON, or nothing.
    pub(crate) body: Bytes,
    /// The time for everything.
    pub(crate) time: Duration,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct CollectedResponse {
    pub(crate) status: u16,
    /// The value of the field `Server`; empty without one.
    pub(crate) server: String,
    pub(crate) body: Vec<u8>,
}

/// The most bytes of a response: some ten thousand endpoints.
const MOST: usize = 16 << 20;

impl LocalRequest<'_> {
    /// Sends the request on a connection of its own, and waits for the response.
    ///
    /// # Errors
    /// When there is no whole response.
    pub(crate) fn send(self) -> Result<CollectedResponse, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.exchange())
    }

    async fn exchange(self) -> Result<CollectedResponse, ClientError> {
        let limits = ExchangeLimits {
            time: self.time,
            head_bytes: 64 << 10,
            body_bytes: MOST,
        };
        let server = RemoteServer {
            addresses: self.addresses,
            tls: None,
            proxy_header: &[],
        };
        let request = ClientRequest {
            method: self.method,
            host: self.host,
            path: self.path,
            fields: &[("connection", "close")],
            body: self.body,
        };
        limits
            .bound(async {
                let mut connection = HttpConnection::http1(server.connect(limits).await?).await?;
                let mut response = connection.exchange(&request).await?;
                let server = response.fields.get("server");
                let server = server.and_then(|value| value.to_str().ok());
                Ok(CollectedResponse {
                    server: server.unwrap_or_default().to_owned(),
                    status: response.status,
                    body: response.read(|_, _| false).await?,
                })
            })
            .await
    }
}
