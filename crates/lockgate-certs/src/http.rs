//! The HTTP client of ACME: requests to authorities over TLS, on connections that are kept.
//!
//! instant-acme wants futures that may change their thread, which ours are not: requests go over a
//! channel to a task of this thread. Signs nothing and understands no response, but for the time
//! that an authority wants to be left alone.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

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

use crate::error::{Failure, FailureKind, Unreachable};
use crate::mutex::lock;
use crate::schedule::LONGEST_ASKED;

/// Limits of one exchange: chains of certificates are the largest bodies.
const LIMITS: ExchangeLimits = ExchangeLimits {
    time: Duration::from_secs(30),
    head_bytes: 64 << 10,
    body_bytes: 1 << 20,
};

/// The value of `User-Agent` (RFC 8555 §6.1).
const AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// The idle time after which a server may well have closed a connection.
const STALE: Duration = Duration::from_secs(4);
/// Idle connections that are kept.
const KEPT: usize = 8;

/// A client for one authority. Its clones share connections.
#[derive(Clone)]
pub(crate) struct AcmeHttp {
    requests: mpsc::UnboundedSender<PendingRequest>,
    _task: Arc<OwnedAbort>,
}

/// Ends the task of the connections with the last client.
struct OwnedAbort(AbortHandle);

impl Drop for OwnedAbort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The time before which an authority wants no request at all. Its orders share it.
pub(crate) type QuietUntil = Arc<Mutex<Option<SystemTime>>>;

/// What the last response to a task's own requests has told beside its body.
type ResponseNote = Arc<Mutex<Option<LastResponse>>>;

tokio::task_local! {
    /// Orders at the same authority share its connections: each must wait for its own Retry-After.
    static LAST_RESPONSE: ResponseNote;
}

#[derive(Debug, Clone, Copy)]
struct LastResponse {
    status: u16,
    retry_after: Option<SystemTime>,
}

/// Does the requests of one order or question. A failure of it has the Retry-After of its last
/// response, and its status where the response itself tells little.
pub(crate) async fn noting_errors<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let note = ResponseNote::default();
    let result = LAST_RESPONSE.scope(Arc::clone(&note), work).await;
    let last = lock(&note).filter(|last| last.status >= 400);
    result.map_err(|mut failure| {
        if let Some(last) = last {
            failure.retry_after = failure.retry_after.or(last.retry_after);
            if failure.kind == FailureKind::Authority {
                failure.message += &format!(" (status {})", last.status);
                if last.status == 429 {
                    failure.kind = FailureKind::RateLimited;
                }
            }
        }
        failure
    })
}

/// Whether the authority has just refused a request for a while only: it wants fewer, or has an
/// error of its own.
pub(crate) fn is_refused_for_a_while() -> bool {
    last_response().is_some_and(|last| last.status >= 429)
}

/// The time before which the authority does not want to be asked again for the same thing.
pub(crate) fn last_retry_after() -> Option<SystemTime> {
    last_response()?.retry_after
}

fn last_response() -> Option<LastResponse> {
    LAST_RESPONSE.try_with(|note| *lock(note)).ok().flatten()
}

struct PendingRequest {
    request: Request<BodyWrapper<Bytes>>,
    note: ResponseNote,
    response: oneshot::Sender<Result<BytesResponse, Error>>,
}

impl AcmeHttp {
    /// A client that verifies its servers by `connector`. To be called in a `LocalSet`.
    pub(crate) fn new(connector: Connector, quiet_until: QuietUntil) -> Self {
        let (requests, mut pending) = mpsc::unbounded_channel::<PendingRequest>();
        let connections = Rc::new(Connections {
            connector,
            idle: RefCell::default(),
            quiet_until,
        });
        let task = spawn_local(async move {
            while let Some(pending) = pending.recv().await {
                let connections = Rc::clone(&connections);
                spawn_local(async move {
                    let mut response = pending.response;
                    tokio::select! {
                        made = connections.exchange(pending.request, &pending.note) => {
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
            _task: Arc::new(OwnedAbort(task.abort_handle())),
        }
    }
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (response, received) = oneshot::channel();
        let note = LAST_RESPONSE.try_with(Arc::clone).unwrap_or_default();
        let sent = self.requests.send(PendingRequest {
            request,
            note,
            response,
        });
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
    /// Those that wait for a request.
    idle: RefCell<Vec<KeptConnection>>,
    quiet_until: QuietUntil,
}

/// A connection that waits for a request.
struct KeptConnection {
    /// The server's host and port.
    server: String,
    connection: HttpConnection,
    since: Instant,
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
        note: &ResponseNote,
    ) -> Result<BytesResponse, Unreachable> {
        let outgoing = Outgoing::of(request).await?;
        let server = outgoing.server();
        let failed = |error: ClientError| Unreachable(format!("{server}: {error}"));
        if let Some((connection, idle)) = self.take_idle(&server) {
            match LIMITS.bound(self.send(connection, &outgoing, note)).await {
                Ok(response) => return Ok(response),
                // Its nonce may be used up (RFC 8555 §6.5), and the server is busy enough.
                Err(error) if idle < STALE || matches!(error, ClientError::Late(_)) => {
                    return Err(failed(error));
                }
                // The server has closed the connection meanwhile.
                Err(_) => {}
            }
        }
        let fresh = async {
            let connection = self.connect(&outgoing).await?;
            self.send(connection, &outgoing, note).await
        };
        LIMITS.bound(fresh).await.map_err(failed)
    }

    /// A connection that is kept, and for how long.
    fn take_idle(&self, server: &str) -> Option<(HttpConnection, Duration)> {
        let mut idle = self.idle.borrow_mut();
        let place = idle.iter().rposition(|kept| kept.server == server)?;
        let kept = idle.swap_remove(place);
        Some((kept.connection, kept.since.elapsed()))
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
        note: &ResponseNote,
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
        let retry_after = retry_after(&fields, SystemTime::now());
        *lock(note) = Some(LastResponse {
            status,
            retry_after,
        });
        // A POST is about one order, unless the whole server is busy.
        if status == 503 || (status >= 400 && outgoing.method != "POST") {
            // One order's response may come after another's that asks for more time.
            let mut until = lock(&self.quiet_until);
            *until = retry_after.max(*until);
        }
        let is_whole = body.len() < LIMITS.body_bytes;
        drop(response);
        let mut idle = self.idle.borrow_mut();
        if is_whole && idle.len() < KEPT {
            idle.push(KeptConnection {
                server: outgoing.server(),
                connection,
                since: Instant::now(),
            });
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
    let asked = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let unix = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            let at = lockgate_http::date::parse(value.as_bytes(), unix.as_secs())?;
            Duration::from_secs(at).saturating_sub(unix)
        }
    };
    Some(now + asked.min(LONGEST_ASKED))
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
        assert_eq!(read("31536000"), Some(7 * 86_400));
        assert_eq!(read("Fri, 06 Nov 2099 08:50:37 GMT"), Some(7 * 86_400));
        for bad in ["", "-1", "soon", "99999999999999999999", "Sun, 99 Nov"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
