//! The server of requests: its addresses, its TLS, and the PROXY header that it gets.

use std::io::ErrorKind;
use std::time::Duration;

use lockgate_net::dial::{DialTarget, dial};
use lockgate_net::socket::Socket;
use lockgate_net::tls::Connector;
use lockgate_net::tls::handshake;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::error::ClientError;
use crate::limits::ExchangeLimits;
use crate::stream::ServerStream;

/// A server, and how to connect to it.
#[derive(Debug)]
pub struct RemoteServer<'a> {
    /// Addresses, in the order in which they are tried.
    pub addresses: Vec<DialTarget>,
    /// TLS, with the host that the server must prove to be.
    pub tls: Option<(&'a Connector, &'a str)>,
    /// The PROXY header, which goes first, in plain, also before TLS; empty for none.
    pub proxy_header: &'a [u8],
}

impl RemoteServer<'_> {
    /// Connects to the first address that accepts; each has its share of the time.
    ///
    /// # Errors
    /// When none accepts, TLS fails, or the time is up.
    pub async fn connect(&self, limits: ExchangeLimits) -> Result<ServerStream, ClientError> {
        let connected = async {
            let (socket, address) = self.dial(limits.time).await?;
            let Some((connector, host)) = self.tls else {
                let mut stream = ServerStream::new(socket, None, address, limits);
                stream.write_all(self.proxy_header).await?;
                return Ok(stream);
            };
            let proxy_header = self.proxy_header.to_vec();
            let made = handshake::connect(&socket, connector, host, proxy_header).await?;
            Ok(ServerStream::new(socket, Some(made), address, limits))
        };
        limits.bound(connected).await
    }

    async fn dial(&self, time: Duration) -> Result<(Socket, DialTarget), ClientError> {
        let share = time / self.addresses.len().max(1) as u32;
        let mut failure = ClientError::Unresolved;
        for address in &self.addresses {
            let late = Err(ErrorKind::TimedOut.into());
            match timeout(share, dial(address)).await.unwrap_or(late) {
                Ok(socket) => return Ok((socket, address.clone())),
                Err(error) => failure = ClientError::Unreachable(error),
            }
        }
        Err(failure)
    }
}
