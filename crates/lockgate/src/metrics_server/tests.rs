//! Requests to the metrics address over real sockets.

use super::*;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

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
        events: Box::new(|| None),
        readiness: Arc::clone(readiness),
        awaited: Box::new(Vec::new),
        hosts: ArcSwap::from_pointee(AllowedHosts::new(&["metrics.example.com".into()])),
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
fn ready_tells_the_certificates_that_are_awaited() {
    let names = |count: usize| (0..count).map(|n| format!("{n}.test")).collect::<Vec<_>>();
    for (count, text) in [
        (0, "ready\n"),
        (1, "ready\ncertificates awaited: 0.test\n"),
        (
            5,
            "ready\ncertificates awaited: 0.test, 1.test, 2.test, 3.test, 4.test\n",
        ),
        (
            8,
            "ready\ncertificates awaited: 0.test, 1.test, 2.test, 3.test, 4.test and 3 more\n",
        ),
    ] {
        assert_eq!(ready_text(&names(count)), text);
    }
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
        let answer = fetch(address, "/index.html").await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
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
        let rebound = "GET /top HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n\r\n";
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
        tokio::spawn(serve(
            MetricsListener::Unix(listener),
            endpoints(&Arc::default()),
        ));
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let answer = exchange(&mut stream, "GET /health HTTP/1.0\r\n\r\n").await;
        assert!(answer.ends_with("ok\n"), "{answer}");
    });
}
