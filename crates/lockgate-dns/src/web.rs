//! One request to one web server, and its response.

use std::time::Duration;

use lockgate_client::{
    ClientError, ClientRequest, DialTarget, ExchangeLimits, HttpConnection, RemoteServer,
};
use lockgate_net::tls::{CaSource, ClientSettings, Connector};

const LIMITS: ExchangeLimits = ExchangeLimits {
    time: Duration::from_secs(30),
    head_bytes: 16 << 10,
    body_bytes: 16 << 10,
};

/// A web server.
pub(crate) struct WebServer {
    host: String,
    port: u16,
    tls: Option<Connector>,
}

impl WebServer {
    /// The server at a host, without brackets, and a port.
    ///
    /// # Errors
    /// When the authorities of the system cannot be read, which TLS needs.
    pub(crate) fn new(host: &str, port: u16, is_secure: bool) -> Result<Self, String> {
        let tls = match is_secure {
            true => Some(
                Connector::new(ClientSettings::new(CaSource::System))
                    .map_err(|error| error.to_string())?,
            ),
            false => None,
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            tls,
        })
    }

    /// The status and body of the response to a request.
    ///
    /// # Errors
    /// When there is none in time.
    pub(crate) async fn send(
        &self,
        request: &ClientRequest<'_>,
    ) -> Result<(u16, Vec<u8>), ClientError> {
        let exchanged = async {
            let found = tokio::net::lookup_host((&*self.host, self.port)).await;
            let found = found.map_err(ClientError::Unreachable)?;
            let server = RemoteServer {
                addresses: found.map(DialTarget::Tcp).collect(),
                tls: self.tls.as_ref().map(|connector| (connector, &*self.host)),
                proxy_header: &[],
            };
            let mut connection = HttpConnection::http1(server.connect(LIMITS).await?).await?;
            let mut response = connection.exchange(request).await?;
            let body = response.read(|_, _| false).await?;
            Ok((response.status, body))
        };
        LIMITS.bound(exchanged).await
    }
}
