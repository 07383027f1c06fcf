//! One request to a Lockgate on this machine, by a command: its response is read whole, or followed.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use lockgate_client::{
    ClientError, ClientRequest, ClientResponse, ExchangeLimits, HttpConnection, RemoteServer,
};
use lockgate_net::dial::DialTarget;
use tokio::runtime::{Builder, Runtime};

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

/// How a response that goes on has come to its end.
#[derive(Debug)]
pub(crate) enum FollowEnd<B> {
    /// It does not go on, and tells of an error.
    Refused(CollectedResponse),
    /// The reader has broken off.
    Left(B),
    /// The server has ended it, or the connection has failed.
    Ended,
}

/// The most bytes of a response: some ten thousand endpoints.
const MOST: usize = 16 << 20;

/// The time that a body may take that goes on: a hundred years.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 86_400);

impl LocalRequest<'_> {
    /// Sends the request on a connection of its own, and waits for the response.
    ///
    /// # Errors
    /// When there is no whole response.
    pub(crate) fn send(self) -> Result<CollectedResponse, ClientError> {
        let limits = self.limits(self.time);
        runtime()?.block_on(limits.bound(async {
            let mut connection = self.connect(limits).await?;
            let response = connection.exchange(&self.request()).await?;
            collect(response).await
        }))
    }

    /// Sends the request, and hands the body of a successful response to `each` piece by piece, until
    /// it ends or `each` breaks off: only what comes before it is limited in time.
    ///
    /// # Errors
    /// When there is no response, or no whole one that tells of an error.
    pub(crate) fn follow<B>(
        self,
        mut each: impl FnMut(Bytes) -> ControlFlow<B>,
    ) -> Result<FollowEnd<B>, ClientError> {
        let limits = self.limits(self.time);
        runtime()?.block_on(async {
            let connection = self.connect(self.limits(ENDLESS));
            let mut connection = limits.bound(connection).await?;
            let request = self.request();
            let mut response = limits.bound(connection.exchange(&request)).await?;
            if response.status >= 400 {
                let refused = limits.bound(collect(response)).await?;
                return Ok(FollowEnd::Refused(refused));
            }
            // The server may end at any time.
            while let Ok(Some(data)) = response.next().await {
                if let ControlFlow::Break(left) = each(data) {
                    return Ok(FollowEnd::Left(left));
                }
            }
            Ok(FollowEnd::Ended)
        })
    }

    fn limits(&self, time: Duration) -> ExchangeLimits {
        ExchangeLimits {
            time,
            head_bytes: 64 << 10,
            body_bytes: MOST,
        }
    }

    async fn connect(&self, limits: ExchangeLimits) -> Result<HttpConnection, ClientError> {
        let server = RemoteServer {
            addresses: self.addresses.clone(),
            tls: None,
            proxy_header: &[],
        };
        HttpConnection::http1(server.connect(limits).await?).await
    }

    fn request(&self) -> ClientRequest<'_> {
        ClientRequest {
            method: self.method,
            host: self.host,
            path: self.path,
            fields: &[("connection", "close")],
            body: self.body.clone(),
        }
    }
}

async fn collect(mut response: ClientResponse<'_>) -> Result<CollectedResponse, ClientError> {
    Ok(CollectedResponse {
        server: server_of(&response),
        status: response.status,
        body: response.read(|_, _| false).await?,
    })
}

fn server_of(response: &ClientResponse<'_>) -> String {
    let server = response.fields.get("server");
    let server = server.and_then(|value| value.to_str().ok());
    server.unwrap_or_default().to_owned()
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
