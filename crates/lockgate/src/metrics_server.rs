//! The metrics address: `/metrics`, `/top`, `/health` and `/ready`, and the live page at `/`, over
//! HTTP/1.1.
//!
//! Does not bind and does not count: listeners, texts and events come from the caller. One request a
//! connection, so that one deadline holds for everything that a slow client can do. The events of a
//! page go on; there each write has a deadline.

mod hosts;
mod page;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use lockgate_net::listen::ListenAddress;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;

use crate::accept_loop::{Accept, Acceptance, HeadReceived};
use crate::served_body::ServedBody;
use crate::write_limit::WriteLimited;

pub(crate) use hosts::AllowedHosts;
use hosts::HostRefusal;

/// The most names that `/ready` lists.
const LISTED_NAMES: usize = 5;

/// The body of a response: the events of a live page go on.
type MetricsBody = ServedBody<mpsc::Receiver<Bytes>>;

/// The resources of the metrics address.
pub(crate) struct MetricsRoutes {
    /// The Prometheus text of `/metrics`. Called on the supervisor's thread for each request: it
    /// must not wait.
    pub(crate) metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// The JSON of `/top`. Likewise.
    pub(crate) top: Box<dyn Fn() -> String + Send + Sync>,
    /// The events of a live page; none when there are too many pages. Likewise.
    pub(crate) events: Box<dyn Fn() -> Option<mpsc::Receiver<Bytes>> + Send + Sync>,
    /// The state that `/ready` reports.
    pub(crate) readiness: Arc<Readiness>,
    /// The names whose certificates are awaited, which `/ready` tells. Likewise.
    pub(crate) awaited: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The host names that requests over TCP may have.
    pub(crate) hosts: ArcSwap<AllowedHosts>,
}

/// The phase of the process, for the load balancer in front. Starts as [`Phase::Starting`].
#[derive(Debug, Default)]
pub(crate) struct Readiness(AtomicU8);

/// The phases of a process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Not every listener accepts yet.
    Starting = 0,
    Ready = 1,
    /// Exchanges in progress end; the load balancer should send no more.
    Draining = 2,
}

impl Readiness {
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }
}

/// A bound listener, made before root was given up.
pub(crate) enum MetricsListener {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

impl MetricsListener {
    /// The listener on a socket of this address.
    pub(crate) fn of(socket: OwnedFd, address: &ListenAddress) -> Self {
        match address {
            ListenAddress::Unix(_) => Self::Unix(socket.into()),
            _ => Self::Tcp(socket.into()),
        }
    }

    /// A duplicate of its socket, for a process that takes this one's place; `None` when there is
    /// no descriptor left.
    pub(crate) fn duplicate(&self) -> Option<OwnedFd> {
        let socket = match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        };
        socket.try_clone_to_owned().ok()
    }
}

/// The most connections at once.
const AT_ONCE: usize = 64;
/// The time from the accepted connection to a whole request head.
const HEAD: Duration = Duration::from_secs(5);
/// The time from the accepted connection to the last byte of the response.
const WHOLE: Duration = Duration::from_secs(20);
/// The time in which a page must read something of its events.
const WRITE: Duration = Duration::from_secs(20);

/// The body of responses to requests for another host.
const FOREIGN: &str = "The metrics address does not answer requests for this host or from this page. To allow it, add its name to\n\
    the configuration: metrics = { at = \"ADDR:PORT\", hosts = [\"NAME\"] }\n";

const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
const JAVASCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The fields of each response: the page loads its own style and program and nothing else, and is
/// in no frame.
const FIELDS: [(HeaderName, HeaderValue); 4] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

/// Serves `endpoints` on `listener` until the future is dropped; connections that are open then end
/// with the runtime.
///
/// # Errors
/// When the runtime cannot take the listener over; afterwards it does not return.
pub(crate) async fn serve(
    listener: MetricsListener,
    endpoints: Arc<MetricsRoutes>,
) -> io::Result<()> {
    let deadlines = Deadlines {
        head: HEAD,
        whole: WHOLE,
    };
    match listener {
        MetricsListener::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            accept(listener, endpoints, HostCheck::Checked, deadlines).await
        }
        MetricsListener::Unix(listener) => {
            listener.set_nonblocking(true)?;
            let listener = UnixListener::from_std(listener)?;
            accept(listener, endpoints, HostCheck::Any, deadlines).await
        }
    }
}

/// Whether the host of a request is checked. No host name leads to a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostCheck {
    Checked,
    Any,
}

#[derive(Clone, Copy)]
struct Deadlines {
    head: Duration,
    whole: Duration,
}

async fn accept(
    listener: impl Accept,
    endpoints: Arc<MetricsRoutes>,
    names: HostCheck,
    deadlines: Deadlines,
) -> io::Result<()> {
    let acceptance = Acceptance {
        name: "the metrics address",
        at_once: AT_ONCE,
    };
    let serve = |stream, head_received| {
        serve_connection(
            stream,
            Arc::clone(&endpoints),
            names,
            head_received,
            deadlines,
        )
    };
    acceptance.run(listener, serve).await;
    Ok(())
}

/// Logs the first refused host: programs that scrape show the status, but not the cure in the body.
fn log_first_refusal<B>(request: &Request<B>) {
    static LOGGED: AtomicBool = AtomicBool::new(false);
    if !LOGGED.swap(true, Ordering::Relaxed) {
        let host: String = request
            .headers()
            .get(HOST)
            .map(|host| {
                String::from_utf8_lossy(host.as_bytes())
                    .chars()
                    .take(100)
                    .collect()
            })
            .unwrap_or_default();
        tracing::warn!(
            ?host,
            "a request to the metrics address was refused (421): add its host to metrics.hosts"
        );
    }
}

fn serve_connection<S>(
    stream: S,
    endpoints: Arc<MetricsRoutes>,
    names: HostCheck,
    head_received: HeadReceived,
    deadlines: Deadlines,
) -> impl Future<Output = ()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let goes_on = Arc::new(AtomicBool::new(false));
    let has_events = Arc::clone(&goes_on);
    let service = service_fn(move |request: Request<Incoming>| {
        head_received.set();
        let checked = if names == HostCheck::Any {
            Ok(())
        } else {
            endpoints.hosts.load().check(&request)
        };
        let response = match checked {
            Ok(()) => respond(request.method(), request.uri().path(), &endpoints),
            Err(HostRefusal::Malformed) => plain(
                StatusCode::BAD_REQUEST,
                "the request must have one Host field\n",
            ),
            Err(HostRefusal::Foreign) => {
                log_first_refusal(&request);
                plain(StatusCode::MISDIRECTED_REQUEST, FOREIGN)
            }
        };
        has_events.store(response.body().goes_on(), Ordering::Relaxed);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(WriteLimited::new(stream, WRITE)), service);
    async move {
        let mut connection = pin!(connection);
        let mut ended = tokio::time::timeout(deadlines.whole, &mut connection).await;
        if ended.is_err() && goes_on.load(Ordering::Relaxed) {
            ended = Ok(connection.await);
        }
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection to the metrics address failed"),
            Err(_) => tracing::debug!("a connection to the metrics address was too slow"),
        }
    }
}

fn respond(method: &Method, path: &str, endpoints: &MetricsRoutes) -> Response<MetricsBody> {
    // The texts are made only for allowed methods.
    let allowed = *method == Method::GET || *method == Method::HEAD;
    match path {
        "/" | "/live.css" | "/live.js" | "/live" | "/metrics" | "/top" | "/health" | "/ready"
            if !allowed =>
        {
            let mut refusal = plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are supported\n",
            );
            refusal
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            refusal
        }
        "/" => asset(HTML, page::HTML),
        "/live.css" => asset(CSS, page::STYLE),
        "/live.js" => asset(JAVASCRIPT, page::PROGRAM),
        // Without a body nothing would be read of them.
        "/live" if *method == Method::HEAD => asset(EVENTS, ""),
        "/live" => match (endpoints.events)() {
            Some(events) => with_body(StatusCode::OK, EVENTS, ServedBody::GoesOn(events)),
            None => plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many live pages are open\n",
            ),
        },
        "/metrics" => response(StatusCode::OK, PROMETHEUS, (endpoints.metrics)().into()),
        "/top" => response(StatusCode::OK, JSON, (endpoints.top)().into()),
        "/health" => plain(StatusCode::OK, "ok\n"),
        "/ready" => match endpoints.readiness.phase() {
            Phase::Ready => response(
                StatusCode::OK,
                PLAIN,
                ready_text(&(endpoints.awaited)()).into(),
            ),
            Phase::Starting => plain(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
            Phase::Draining => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        },
        _ => plain(
            StatusCode::NOT_FOUND,
            "available are /, /metrics, /top, /health and /ready\n",
        ),
    }
}

/// The body of `/ready` in the phase that its name says. A certificate that is awaited takes no
/// server out of its pool: the other names are served.
fn ready_text(awaited: &[String]) -> String {
    let mut text = "ready\n".to_owned();
    if let Some(listed) = awaited.get(..awaited.len().min(LISTED_NAMES))
        && !listed.is_empty()
    {
        text += "certificates awaited: ";
        text += &listed.join(", ");
        if awaited.len() > LISTED_NAMES {
            text += &format!(" and {} more", awaited.len() - LISTED_NAMES);
        }
        text.push('\n');
    }
    text
}

fn plain(status: StatusCode, text: &'static str) -> Response<MetricsBody> {
    response(status, PLAIN, Bytes::from_static(text.as_bytes()))
}

fn asset(kind: HeaderValue, text: &'static str) -> Response<MetricsBody> {
    response(StatusCode::OK, kind, Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<MetricsBody> {
    with_body(status, kind, ServedBody::whole(body))
}

fn with_body(status: StatusCode, kind: HeaderValue, body: MetricsBody) -> Response<MetricsBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, kind);
    fields.extend(FIELDS);
    response
}

#[cfg(test)]
mod tests;
