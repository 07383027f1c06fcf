//! The applications behind `demo`: each responds to every request with a page that shows the
//! request.
//!
//! Not for use without Lockgate in front: they trust the PROXY header of every connection, and the
//! fields with the client's address. So they listen on Unix sockets that only this user may open.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use lockgate_net::proxy_protocol::{ProxiedAddresses, ProxyHeader, Ssl, parse};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::{UnixListener, UnixStream};

/// The largest request body that is echoed.
const BODY_MAX: usize = 1 << 20;
/// The time for the PROXY header; the relay sends it with its first write.
const HEADER_WITHIN: Duration = Duration::from_secs(5);
/// Signature, version and family of a version 2 header, up to and with its length (PROXY protocol
/// §2.2).
const FIXED_PART: usize = 16;
/// After a failed accept that waiting may cure (no descriptor left).
const PAUSE: Duration = Duration::from_secs(1);

/// The bytes before the first request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPrefix {
    /// A PROXY header of version 2; a connection without one is refused.
    ProxyHeader,
    None,
}

/// Serves connections to `listener` until the future is dropped; `name` is on the page.
pub(crate) async fn serve(listener: UnixListener, name: &'static str, prefix: ConnectionPrefix) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_connection(stream, name, prefix))),
            Err(error) => {
                tracing::warn!(%error, "the built-in application cannot accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve_connection(mut stream: UnixStream, name: &'static str, prefix: ConnectionPrefix) {
    let caller = match prefix {
        ConnectionPrefix::None => None,
        ConnectionPrefix::ProxyHeader => {
            match tokio::time::timeout(HEADER_WITHIN, read_header(&mut stream)).await {
                Ok(Ok(header)) => Some(describe(&header)),
                Ok(Err(error)) => {
                    return tracing::debug!(%error, "the built-in application got no PROXY header");
                }
                Err(_) => {
                    return tracing::debug!("the built-in application got no PROXY header in time");
                }
            }
        }
    };
    let service = service_fn(async |request| {
        Ok::<_, io::Error>(answer(request, name, caller.as_deref()).await)
    });
    if let Err(error) = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
    {
        tracing::debug!(%error, "a connection to the built-in application failed");
    }
}

/// Reads a PROXY version 2 header and not a byte more.
async fn read_header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<ProxyHeader> {
    let mut fixed = [0; FIXED_PART];
    stream.read_exact(&mut fixed).await?;
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let [first, .., high, low] = fixed;
    if first != b'\r' {
        return Err(wrong("no PROXY header of version 2".into()));
    }
    let mut whole = fixed.to_vec();
    whole.resize(FIXED_PART + usize::from(u16::from_be_bytes([high, low])), 0);
    if let Some(rest) = whole.get_mut(FIXED_PART..) {
        stream.read_exact(rest).await?;
    }
    match parse(&whole) {
        Ok(Some(parsed)) if parsed.len == whole.len() => Ok(parsed.header),
        Ok(_) => Err(wrong("no PROXY header of version 2".into())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The lines of the page about the client.
fn describe(header: &ProxyHeader) -> String {
    let mut text = match &header.addresses {
        ProxiedAddresses::Inet {
            source,
            destination,
        } => format!("from {source} to {destination}\n"),
        _ => "from an unknown address\n".to_owned(),
    };
    if let Some(ssl) = header
        .tlvs
        .ssl
        .as_ref()
        .filter(|ssl| ssl.client & Ssl::OVER_TLS != 0)
    {
        text.push_str("over ");
        text.push_str(ssl.version.as_deref().unwrap_or("TLS"));
        if let Some(cipher) = &ssl.cipher {
            let _ = write!(text, " with {cipher}"); // writing to a String cannot fail
        }
        if let Some(name) = &ssl.common_name {
            let _ = write!(text, ", certificate of {name}");
        }
        text.push('\n');
    }
    if let Some(name) = &header.tlvs.authority {
        let _ = writeln!(text, "to the name {name}");
    }
    if let Some(alpn) = &header.tlvs.alpn {
        let _ = writeln!(text, "speaking {}", String::from_utf8_lossy(alpn));
    }
    text
}

/// The client's address and scheme by the fields of the proxy in front.
fn forwarded(fields: &HeaderMap) -> String {
    let field = |name: &str| {
        fields
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("unknown")
    };
    format!(
        "for {} by {}\n",
        field("x-forwarded-for"),
        field("x-forwarded-proto")
    )
}

/// `caller` has the lines about the client by the connection's PROXY header.
async fn answer(
    request: Request<Incoming>,
    name: &str,
    caller: Option<&str>,
) -> Response<Full<Bytes>> {
    let caller = caller.map_or_else(|| forwarded(request.headers()), str::to_owned);
    let target = request
        .uri()
        .path_and_query()
        .map_or("/", |target| target.as_str())
        .to_owned();
    let version = if request.version() == Version::HTTP_10 {
        "HTTP/1.0"
    } else {
        "HTTP/1.1"
    };
    let mut page = format!(
        "Hello from {name}.\n\n{} {target} {version}\n{caller}",
        request.method()
    )
    .into_bytes();
    match collect(request.into_body()).await {
        Some(body) => {
            if !body.is_empty() {
                page.push(b'\n');
                page.extend_from_slice(&body);
            }
            response(StatusCode::OK, page)
        }
        None => response(
            StatusCode::PAYLOAD_TOO_LARGE,
            b"only up to 1 MiB is echoed\n".to_vec(),
        ),
    }
}

/// The whole body; `None` if it is too large, at once where its length is announced, or did not
/// arrive.
async fn collect(body: Incoming) -> Option<Bytes> {
    if body.size_hint().lower() > BODY_MAX as u64 {
        return None;
    }
    Some(
        Limited::new(body, BODY_MAX)
            .collect()
            .await
            .ok()?
            .to_bytes(),
    )
}

fn response(status: StatusCode, page: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(page.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_net::proxy_protocol::{Tlvs, encode_v2};
    use tokio::io::AsyncWriteExt as _;

    fn header() -> Vec<u8> {
        let addresses = ProxiedAddresses::Inet {
            source: "192.0.2.7:4711".parse().unwrap(),
            destination: "127.0.0.1:8443".parse().unwrap(),
        };
        let ssl = Ssl {
            client: Ssl::OVER_TLS,
            verify: 0,
            version: Some("TLSv1.3".into()),
            common_name: None,
            cipher: Some("TLS_AES_128_GCM_SHA256".into()),
        };
        let tlvs = Tlvs {
            alpn: Some(b"http/1.1".into()),
            authority: Some("localhost".into()),
            ssl: Some(ssl),
        };
        let mut bytes = Vec::new();
        encode_v2(&mut bytes, &addresses, &tlvs);
        bytes
    }

    fn sent(bytes: &[u8], prefix: ConnectionPrefix) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let exchange = async {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("app.sock");
            tokio::spawn(serve(
                UnixListener::bind(&path).unwrap(),
                "an application",
                prefix,
            ));
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            let mut answer = Vec::new();
            // A refusal may come as a reset: what counts is that nothing was answered.
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8(answer).unwrap()
        };
        let limit = Duration::from_secs(60);
        runtime.block_on(async {
            tokio::time::timeout(limit, exchange)
                .await
                .expect("the test hangs")
        })
    }

    fn asked(request: &str) -> String {
        sent(
            &[header(), request.as_bytes().to_vec()].concat(),
            ConnectionPrefix::ProxyHeader,
        )
    }

    #[test]
    fn the_page_says_what_arrived_and_from_whom() {
        let answer =
            asked("GET /hello?a=1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.contains("content-type: text/plain; charset=utf-8\r\n"),
            "{answer}"
        );
        let page = "GET /hello?a=1 HTTP/1.1\nfrom 192.0.2.7:4711 to 127.0.0.1:8443\n\
                    over TLSv1.3 with TLS_AES_128_GCM_SHA256\nto the name localhost\nspeaking http/1.1\n";
        assert!(answer.ends_with(page), "{answer}");
    }

    #[test]
    fn a_body_comes_back_and_the_connection_stays() {
        let answer = asked(
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\
             POST /second HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nconnection: close\r\n\r\nworld",
        );
        assert!(answer.contains("\n\nhelloHTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("POST /second HTTP/1.1\n"), "{answer}");
        assert!(answer.ends_with("\n\nworld"), "{answer}");
    }

    #[test]
    fn a_body_that_is_too_large_is_refused() {
        let answer = asked("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1048577\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }

    #[test]
    fn a_connection_without_the_proxy_header_gets_no_answer() {
        let sent = |bytes: &[u8]| sent(bytes, ConnectionPrefix::ProxyHeader);
        assert_eq!(sent(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"), "");
        assert_eq!(
            sent(b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 8443\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n"),
            ""
        );
    }

    #[test]
    fn without_a_proxy_header_the_page_says_what_the_fields_do() {
        let request = "GET /api/hello HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\nx-forwarded-proto: https\r\n\
                       connection: close\r\n\r\n";
        let answer = sent(request.as_bytes(), ConnectionPrefix::None);
        let page =
            "Hello from an application.\n\nGET /api/hello HTTP/1.1\nfor 192.0.2.7 by https\n";
        assert!(answer.ends_with(page), "{answer}");
    }
}
