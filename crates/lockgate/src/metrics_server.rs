//! The metrics address: `/metrics`, `/top`, `/health` and `/ready`, over HTTP/1.1.
//!
//! Does not bind and does not count: listeners and the texts come from the caller. One request a
//! connection, so that one deadline holds for everything that a slow client can do.

mod hosts;
mod slots;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use slots::{HeadReceived, ConnectionSlots};

pub(crate) use hosts::AllowedHosts;
use hosts::HostRefusal;

/// The resources of the metrics address.
pub(crate) struct MetricsRoutes {
    /// The Prometheus text of `/metrics`. Called on the supervisor's thread for each request: it
    /// must not wait.
    pub(crate) metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// The JSON of `/top`. Likewise.
    pub(crate) top: Box<dyn Fn() -> String + Send + Sync>,
    /// The state that `/ready` reports.
    pub(crate) readiness: Arc<Readiness>,
    /// The host names that requests over TCP may have.
    pub(crate) hosts: AllowedHosts,
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

/// The most connections at once.
const AT_ONCE: usize = 64;
/// The time from the accepted connection to a whole request head.
const HEAD: Duration = Duration::from_secs(5);
/// The time from the accepted connection to the last byte of the response.
const WHOLE: Duration = Duration::from_secs(20);
/// The pause after a failed accept that waiting may cure (no descriptor left).
const PAUSE: Duration = Duration::from_secs(1);

/// The body of responses to requests for another host.
const FOREIGN: &str = "The metrics address does not answer requests for this host or from this page. To allow it, add its name to\n\
    the configuration: metrics = { at = \"ADDR:PORT\", hosts = [\"NAME\"] }\n";

const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Serves `endpoints` on `listener` until the future is dropped; connections that are open then end
/// with the runtime.
///
/// # Errors
/// When the runtime cannot take the listener over; afterwards it does not return.
pub(crate) async fn serve(listener: MetricsListener, endpoints: Arc<MetricsRoutes>) -> io::Result<()> {
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

/// A listener of either kind.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Stream>>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        self.poll_accept(cx).map_ok(|(stream, _)| stream)
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.poll_accept(cx).map_ok(|(stream, _)| stream)
    }
}

async fn accept(
    listener: impl Accept,
    endpoints: Arc<MetricsRoutes>,
    names: HostCheck,
    deadlines: Deadlines,
) -> io::Result<()> {
    let mut slots = ConnectionSlots::new(AT_ONCE);
    let mut failed = false;
    loop {
        match poll_fn(|cx| listener.poll_next(cx)).await {
            Ok(stream) => {
                failed = false;
                let slot = slots.take().await;
                let head_received = HeadReceived::default();
                let connection = serve_connection(
                    stream,
                    Arc::clone(&endpoints),
                    names,
                    head_received.clone(),
                    deadlines,
                );
                let task = tokio::spawn(async move {
                    connection.await;
                    drop(slot);
                });
                slots.occupy(head_received, task);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !std::mem::replace(&mut failed, true) {
                    tracing::warn!(%error, "the metrics address cannot accept; trying again every second");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
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
    let service = service_fn(move |request: Request<Incoming>| {
        head_received.set();
        let checked = if names == HostCheck::Any {
            Ok(())
        } else {
            endpoints.hosts.check(&request)
        };
        let response = match checked {
            Ok(()) => respond(request.method(), request.uri().path(), &endpoints),
            Err(HostRefusal::Malformed) => plain(StatusCode::BAD_REQUEST, "the request must have one Host field\n"),
            Err(HostRefusal::Foreign) => {
                log_first_refusal(&request);
                plain(StatusCode::MISDIRECTED_REQUEST, FOREIGN)
            }
        };
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    async move {
        match tokio::time::timeout(deadlines.whole, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection to the metrics address failed"),
            Err(_) => tracing::debug!("a connection to the metrics address was too slow"),
        }
    }
}

fn respond(method: &Method, path: &str, endpoints: &MetricsRoutes) -> Response<Full<Bytes>> {
    // The texts are made only for allowed methods.
    let allowed = *method == Method::GET || *method == Method::HEAD;
    match path {
        "/metrics" | "/top" | "/health" | "/ready" if !allowed => {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
            refusal
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            refusal
        }
        "/metrics" => response(StatusCode::OK, PROMETHEUS, (endpoints.metrics)().into()),
        "/top" => response(StatusCode::OK, JSON, (endpoints.top)().into()),
        "/health" => plain(StatusCode::OK, "ok\n"),
        "/ready" => match endpoints.readiness.phase() {
            Phase::Ready => plain(StatusCode::OK, "ready\n"),
            Phase::Starting => plain(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
            Phase::Draining => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        },
        _ => plain(
            StatusCode::NOT_FOUND,
            "available are /metrics, /top, /health and /ready\n",
        ),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, PLAIN, Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let limit = Duration::from_secs(60);
        runtime.block_on(async {
            tokio::time::timeout(limit, test)
                .await
                .expect("the test hangs")
        });
    }

    fn endpoints(readiness: &Arc<Readiness>) -> Arc<MetricsRoutes> {
        Arc::new(MetricsRoutes {
            metrics: Box::new(|| "lockgate_connections_total 3\n".into()),
            top: Box::new(|| "{\"clients\":[]}".into()),
            readiness: Arc::clone(readiness),
            hosts: AllowedHosts::new(&["metrics.example.com".into()]),
        })
    }

    fn started() -> (SocketAddr, Arc<Readiness>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let readiness = Arc::new(Readiness::default());
        tokio::spawn(serve(MetricsListener::Tcp(listener), endpoints(&readiness)));
        (address, readiness)
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        exchange(&mut stream, request).await
    }

    async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> String {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn fetch(address: SocketAddr, path: &str) -> String {
        ask(
            address,
            &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        )
        .await
    }

    #[test]
    fn every_path_answers_with_its_type() {
        block_on(async {
            let (address, _) = started();
            let metrics = fetch(address, "/metrics").await;
            assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
            assert!(
                metrics.contains("content-type: text/plain; version=0.0.4\r\n"),
                "{metrics}"
            );
            assert!(
                metrics.ends_with("\r\n\r\nlockgate_connections_total 3\n"),
                "{metrics}"
            );
            let top = fetch(address, "/top?n=3").await;
            assert!(top.contains("content-type: application/json\r\n"), "{top}");
            assert!(top.ends_with("\r\n\r\n{\"clients\":[]}"), "{top}");
            assert!(fetch(address, "/health").await.ends_with("\r\n\r\nok\n"));
        });
    }

    #[test]
    fn ready_follows_the_life_of_the_process() {
        block_on(async {
            let (address, readiness) = started();
            for (phase, status, body) in [
                (Phase::Starting, "503 Service Unavailable", "starting\n"),
                (Phase::Ready, "200 OK", "ready\n"),
                (Phase::Draining, "503 Service Unavailable", "draining\n"),
            ] {
                readiness.enter(phase);
                assert_eq!(readiness.phase(), phase);
                let answer = fetch(address, "/ready").await;
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                    "{answer}"
                );
                assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
            }
        });
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        block_on(async {
            let (address, _) = started();
            let answer = ask(address, "HEAD /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            assert!(answer.contains("content-length: 29\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        });
    }

    #[test]
    fn other_methods_and_paths_are_refused() {
        block_on(async {
            let (address, _) = started();
            let answer = ask(
                address,
                "POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
            )
            .await;
            assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
            assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
            assert!(
                fetch(address, "/metrics/")
                    .await
                    .starts_with("HTTP/1.1 404 ")
            );
            assert!(fetch(address, "/").await.starts_with("HTTP/1.1 404 "));
            assert!(
                ask(address, "garbage\r\n\r\n")
                    .await
                    .starts_with("HTTP/1.1 400 ")
            );
        });
    }

    #[test]
    fn silent_connections_never_keep_it_busy() {
        block_on(async {
            let (address, _) = started();
            let mut silent = VecDeque::new();
            for path in ["/health", "/metrics", "/top", "/health"] {
                for _ in 0..200 {
                    silent.push_back(TcpStream::connect(address).await.unwrap());
                    if silent.len() > 3 * AT_ONCE {
                        silent.pop_front();
                    }
                }
                assert!(fetch(address, path).await.starts_with("HTTP/1.1 200 "));
            }
        });
    }

    #[test]
    fn the_connection_that_waits_longest_for_its_head_gives_way() {
        block_on(async {
            let mut slots = ConnectionSlots::new(2);
            let (told, mut closed) = tokio::sync::mpsc::unbounded_channel();
            struct Open(u8, tokio::sync::mpsc::UnboundedSender<u8>);
            impl Drop for Open {
                fn drop(&mut self) {
                    let _ = self.1.send(self.0);
                }
            }
            // The first has sent its head, the others have not.
            for number in 1..=4 {
                let slot = slots.take().await;
                let (head_received, open) = (HeadReceived::default(), Open(number, told.clone()));
                if number == 1 {
                    head_received.set();
                }
                let task = tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop((open, slot));
                });
                slots.occupy(head_received, task);
            }
            assert_eq!(
                (closed.recv().await, closed.recv().await),
                (Some(2), Some(3))
            );
        });
    }

    #[test]
    fn a_host_of_another_is_refused_with_the_key_and_missing_is_malformed() {
        block_on(async {
            let (address, _) = started();
            for (host, status) in [
                ("evil.example", 421),
                ("metrics.example.com:9090", 200),
                ("[::1]:1", 200),
                ("localhost", 200),
            ] {
                let answer = ask(
                    address,
                    &format!("GET /top HTTP/1.1\r\nhost: {host}\r\n\r\n"),
                )
                .await;
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {status} ")),
                    "{host}: {answer}"
                );
                assert_eq!(answer.contains("hosts = ["), status == 421, "{answer}");
            }
            assert!(
                ask(address, "GET /top HTTP/1.1\r\n\r\n")
                    .await
                    .starts_with("HTTP/1.1 400 ")
            );
            let rebound =
                "GET /top HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n\r\n";
            assert!(ask(address, rebound).await.starts_with("HTTP/1.1 421 "));
            assert!(
                ask(address, "GET /top HTTP/1.0\r\n\r\n")
                    .await
                    .starts_with("HTTP/1.0 200 ")
            );
        });
    }

    #[test]
    fn half_a_head_and_an_unread_answer_end_by_their_deadlines() {
        block_on(async {
            let never = Duration::from_secs(3_600);
            let soon = Duration::from_millis(1);
            let readiness = Arc::new(Readiness::default());
            let (mut client, server) = tokio::io::duplex(64);
            client.write_all(b"GET /health HT").await.unwrap();
            serve_connection(
                server,
                endpoints(&readiness),
                HostCheck::Any,
                HeadReceived::default(),
                Deadlines {
                    head: soon,
                    whole: never,
                },
            )
            .await;

            let (mut client, server) = tokio::io::duplex(64);
            client
                .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
                .await
                .unwrap();
            serve_connection(
                server,
                endpoints(&readiness),
                HostCheck::Any,
                HeadReceived::default(),
                Deadlines {
                    head: never,
                    whole: soon,
                },
            )
            .await;
        });
    }

    #[test]
    fn a_unix_socket_serves_too() {
        block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("metrics.sock");
            let listener = StdUnixListener::bind(&path).unwrap();
            tokio::spawn(serve(MetricsListener::Unix(listener), endpoints(&Arc::default())));
            let mut stream = UnixStream::connect(&path).await.unwrap();
            let answer = exchange(&mut stream, "GET /health HTTP/1.0\r\n\r\n").await;
            assert!(answer.ends_with("ok\n"), "{answer}");
        });
    }
}
