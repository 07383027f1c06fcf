//! The HTTP client of ACME: requests to authorities over TLS, on connections that are kept.
//!
//! instant-acme wants futures that may change their thread, which ours are not: requests go over a
//! channel to a task of this thread. Signs nothing and understands no response, but for the time
//! that an authority wants to be left alone.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use lockgate_client::{ClientError, ClientRequest, ExchangeLimits, HttpConnection, RemoteServer};
use lockgate_net::dial::DialTarget;
use lockgate_net::tls::Connector;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, spawn_local};

/// Limits of one exchange: chains of certificates are the largest bodies.
const LIMITS: ExchangeLimits = ExchangeLimits {
    time: Duration::from_secs(30),
    head_bytes: 64 << 10,
    body_bytes: 1 << 20,
};

/// The value of `User-Agent` (RFC 8555 §6.1).
const AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// Idle connections that are kept.
const KEPT: usize = 8;

/// A client for one authority. Its clones share connections.
#[derive(Clone)]
pub(crate) struct AcmeHttp {
    requests: mpsc::UnboundedSender<PendingRequest>,
    notes: Arc<ResponseNotes>,
    _task: Arc<OwnedAbort>,
}

/// Ends the task of the connections with the last client.
struct OwnedAbort(AbortHandle);

impl Drop for OwnedAbort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What responses tell beside their bodies.
#[derive(Default)]
struct ResponseNotes {
    /// The Retry-After of the last response that was an error.
    retry_after: Mutex<Option<SystemTime>>,
}

struct PendingRequest {
    request: Request<BodyWrapper<Bytes>>,
    response: oneshot::Sender<Result<BytesResponse, Error>>,
}

/// There is no response.
#[derive(Debug)]
pub(crate) struct Unreachable(String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

impl AcmeHttp {
    /// A client that verifies its servers by `connector`. To be called in a `LocalSet`.
    pub(crate) fn new(connector: Connector) -> Self {
        let (requests, mut pending) = mpsc::unbounded_channel::<PendingRequest>();
        let notes = Arc::<ResponseNotes>::default();
        let connections = Rc::new(Connections {
            connector,
            idle: RefCell::default(),
            notes: Arc::clone(&notes),
        });
        let task = spawn_local(async move {
            while let Some(PendingRequest { request, response }) = pending.recv().await {
                let connections = Rc::clone(&connections);
                spawn_local(async move {
                    let mut response = response;
                    tokio::select! {
                        made = connections.exchange(request) => {
                            // Where the order was given up there is no reader.
                            let _ = response.send(made.map_err(|error| Error::Other(error.into())));
                        }
                        () = response.closed() => {}
                    }
                });
            }
        });
        Self {
            requests,
            notes,
            _task: Arc::new(OwnedAbort(task.abort_handle())),
        }
    }

    /// The time before which the authority wants no other request, if an error has told one since
    /// the last call.
    pub(crate) fn take_retry_after(&self) -> Option<SystemTime> {
        self.notes.lock().take()
    }
}

impl ResponseNotes {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<SystemTime>> {
        self.retry_after
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (response, received) = oneshot::channel();
        let sent = self.requests.send(PendingRequest { request, response });
        Box::pin(async move {
            let ended = || Error::Other(Unreachable("the client has ended".to_owned()).into());
            sent.map_err(|_| ended())?;
            received.await.map_err(|_| ended())?
        })
    }
}

/// The connections to the servers of one authority.
struct Connections {
    connector: Connector,
    /// Those that wait for a request, with the server's host and port.
    idle: RefCell<Vec<(String, HttpConnection)>>,
    notes: Arc<ResponseNotes>,
}

/// A request, read out of instant-acme's.
struct Outgoing {
    method: String,
    host: String,
    port: u16,
    path: String,
    content_type: String,
    body: Bytes,
}

impl Connections {
    async fn exchange(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Result<BytesResponse, Unreachable> {
        let outgoing = Outgoing::of(request).await?;
        let server = outgoing.server();
        let failed = |error: ClientError| Unreachable(format!("{server}: {error}"));
        let idle = self.take_idle(&server);
        if let Some(connection) = idle
            && let Ok(response) = LIMITS.bound(self.send(connection, &outgoing)).await
        {
            return Ok(response);
        }
        // The server may have closed the connection. A request that it has answered nevertheless
        // has used up its nonce, so that it counts once (RFC 8555 §6.5).
        let fresh = async {
            let connection = self.connect(&outgoing).await?;
            self.send(connection, &outgoing).await
        };
        LIMITS.bound(fresh).await.map_err(failed)
    }

    fn take_idle(&self, server: &str) -> Option<HttpConnection> {
        let mut idle = self.idle.borrow_mut();
        let place = idle.iter().rposition(|(to, _)| to == server)?;
        Some(idle.swap_remove(place).1)
    }

    async fn connect(&self, outgoing: &Outgoing) -> Result<HttpConnection, ClientError> {
        let found = tokio::net::lookup_host((&*outgoing.host, outgoing.port)).await;
        let found = found.map_err(ClientError::Unreachable)?;
        let server = RemoteServer {
            addresses: found.map(DialTarget::Tcp).collect(),
            tls: Some((&self.connector, &outgoing.host)),
            proxy_header: &[],
        };
        HttpConnection::http1(server.connect(LIMITS).await?).await
    }

    async fn send(
        &self,
        mut connection: HttpConnection,
        outgoing: &Outgoing,
    ) -> Result<BytesResponse, ClientError> {
        let authority = outgoing.authority();
        let request = ClientRequest {
            method: &outgoing.method,
            host: &authority,
            path: &outgoing.path,
            fields: &[
                ("user-agent", AGENT),
                ("content-type", &outgoing.content_type),
                ("accept-language", "en"),
            ][..if outgoing.content_type.is_empty() {
                1
            } else {
                3
            }],
            body: outgoing.body.clone(),
        };
        let mut response = connection.exchange(&request).await?;
        let (status, fields) = (response.status, std::mem::take(&mut response.fields));
        let body = response.read(|_, _| false).await?;
        if status >= 400
            && let Some(moment) = retry_after(&fields, SystemTime::now())
        {
            *self.notes.lock() = Some(moment);
        }
        let is_whole = body.len() < LIMITS.body_bytes;
        drop(response);
        let mut idle = self.idle.borrow_mut();
        if is_whole && idle.len() < KEPT {
            idle.push((outgoing.server(), connection));
        }
        drop(idle);
        let mut made = Response::new(());
        *made.status_mut() = http::StatusCode::from_u16(status)
            .map_err(|_| ClientError::Unreachable(io::ErrorKind::InvalidData.into()))?;
        *made.headers_mut() = fields;
        let (parts, ()) = made.into_parts();
        Ok(BytesResponse {
            parts,
            body: Box::new(Bytes::from(body)),
        })
    }
}

impl Outgoing {
    async fn of(request: Request<BodyWrapper<Bytes>>) -> Result<Self, Unreachable> {
        let (parts, body) = request.into_parts();
        let uri = &parts.uri;
        let bad = |why: &str| Unreachable(format!("{uri}: {why}"));
        if uri.scheme_str() != Some("https") {
            return Err(bad("only https is used"));
        }
        let host = uri.host().ok_or_else(|| bad("it has no host"))?;
        let content_type = parts.headers.get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let body = body.collect().await.map_err(|never| match never {})?;
        Ok(Self {
            method: parts.method.as_str().to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(443),
            path: path.to_owned(),
            content_type: content_type.unwrap_or_default().to_owned(),
            body: body.to_bytes(),
        })
    }

    fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The host, with its port where that is not the usual one.
    fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port {
            443 => host,
            port => format!("{host}:{port}"),
        }
    }
}

/// The moment of Retry-After (RFC 9110 §10.2.3), if it can be read.
fn retry_after(fields: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    let value = fields.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(now + Duration::from_secs(seconds.into()));
    }
    let unix = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    lockgate_http::date::parse(value.as_bytes(), unix)
        .map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let read = |value: &'static str| {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_static(value));
            retry_after(&fields, now).map(|moment| moment.duration_since(now).unwrap().as_secs())
        };
        assert_eq!(read("120"), Some(120));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        for bad in ["", "-1", "soon", "99999999999999999999", "Sun, 99 Nov"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
