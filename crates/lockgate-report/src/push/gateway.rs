//! A push gateway: where it is, and one push to it over HTTP/1.1, on a connection of its own.
//!
//! Blocks, but never longer than the timeout and the lookup of the name take.

use std::net::ToSocketAddrs as _;
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use lockgate_client::{
    ClientError, ClientRequest, DialTarget, ExchangeLimits, HttpConnection, RemoteServer,
};
use lockgate_http::target::Authority;
use lockgate_metrics::CONTENT_TYPE;
use tokio::runtime;

/// Limits of one push. A gateway explains a refusal in one line.
const LIMITS: ExchangeLimits = ExchangeLimits {
    time: Duration::from_secs(5),
    head_bytes: 64 * 1024,
    body_bytes: 16 * 1024,
};
/// Limit of that line in characters.
const MAX_MESSAGE: usize = 200;

/// A push gateway, and the job of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// As it was written, for messages.
    written: String,
    host: String,
    port: u16,
    authority: String,
    path: String,
    limits: ExchangeLimits,
}

/// Error of a URL or job that is no push gateway's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// Another scheme, userinfo, a query, characters that URLs have not.
    #[error(
        "`{0}` is no push gateway: write http://HOST:PORT, with the prefix before /metrics if it has one"
    )]
    Url(String),
    /// Gateways refuse a job without a name.
    #[error("a job needs a name")]
    Job,
}

/// Error of a push to the gateway.
#[derive(Debug, thiserror::Error)]
pub(super) enum PushError {
    #[error("{gateway}: {error}")]
    Lost { gateway: String, error: ClientError },
    #[error("{gateway} does not respond with HTTP: {error}")]
    Garbage { gateway: String, error: String },
    #[error("{gateway} responds with status {status}{message}")]
    Refused {
        gateway: String,
        status: u16,
        message: String,
    },
}

impl Gateway {
    /// The gateway at `http://HOST:PORT[/PREFIX]`, and the job by which it tells groups apart.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(written: &str, job: &str) -> Result<Self, GatewayError> {
        let wrong = || GatewayError::Url(written.to_owned());
        let rest = written.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if !prefix
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'))
        {
            return Err(wrong());
        }
        let parsed = Authority::parse(authority.as_bytes()).map_err(|_| wrong())?;
        let host = parsed.host.trim_start_matches('[').trim_end_matches(']');
        let path = format!(
            "{}/metrics/{}",
            prefix.trim_end_matches('/'),
            label("job", job)?
        );
        Ok(Self {
            written: written.to_owned(),
            host: host.to_owned(),
            port: parsed.port.unwrap_or(80),
            authority: authority.to_owned(),
            path,
            limits: LIMITS,
        })
    }

    /// The timeout of one push.
    pub(super) fn timeout(&self) -> Duration {
        self.limits.time
    }

    /// Another patience, for tests of gateways that try it.
    #[cfg(test)]
    pub(super) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.limits.time = timeout;
        self
    }

    /// Replaces the job's group by `text`.
    ///
    /// # Errors
    /// When the gateway is not there, does not answer in time, or refuses it.
    pub(super) fn put(&self, text: &str) -> Result<(), PushError> {
        let gateway = self.written.clone();
        match self.send(text) {
            Ok((200..300, _)) => Ok(()),
            Ok((status, message)) => {
                let message = first_line(&message);
                Err(PushError::Refused {
                    gateway,
                    status,
                    message,
                })
            }
            Err(ClientError::Malformed(error)) => Err(PushError::Garbage { gateway, error }),
            Err(error) => Err(PushError::Lost { gateway, error }),
        }
    }

    /// The status of the response, and the body of a refusal.
    fn send(&self, text: &str) -> Result<(u16, Vec<u8>), ClientError> {
        let addresses = (&*self.host, self.port).to_socket_addrs();
        let addresses = addresses.map_err(ClientError::Unreachable)?;
        let server = RemoteServer {
            addresses: addresses.map(DialTarget::Tcp).collect(),
            tls: None,
            proxy_header: &[],
        };
        let request = ClientRequest {
            method: "PUT",
            host: &self.authority,
            path: &self.path,
            fields: &[
                (
                    "user-agent",
                    concat!("lockgate/", env!("CARGO_PKG_VERSION")),
                ),
                ("content-type", CONTENT_TYPE),
                ("connection", "close"),
            ],
            body: text.to_owned().into(),
        };
        let mut connection = None;
        let exchange = async {
            let stream = server.connect(self.limits).await?;
            let connection = connection.insert(HttpConnection::http1(stream).await?);
            connection.exchange(&request).await
        };
        // A refusal counts as one although its body does not end.
        let answered = async {
            let mut response = self.limits.bound(exchange).await?;
            let message = match response.status {
                200..300 => Vec::new(),
                _ => {
                    let body = self.limits.bound(response.read(|_, _| false));
                    body.await.unwrap_or_default()
                }
            };
            Ok((response.status, message))
        };
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(answered)
    }
}

/// A label of the group as the path has it: base64 where its value has characters that paths take
/// otherwise.
fn label(name: &str, value: &str) -> Result<String, GatewayError> {
    if value.is_empty() {
        return Err(GatewayError::Job);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    Ok(if value.bytes().all(is_plain) {
        format!("{name}/{value}")
    } else {
        format!(
            "{name}@base64/{}",
            Base64UrlUnpadded::encode_string(value.as_bytes())
        )
    })
}

/// `: pushed metrics are invalid`, or nothing.
fn first_line(message: &[u8]) -> String {
    let message = String::from_utf8_lossy(message);
    match message.trim().lines().next() {
        Some(line) => {
            let short: String = line.chars().take(MAX_MESSAGE).collect();
            format!(": {}", crate::escape::terminal(&short))
        }
        None => String::new(),
    }
}
