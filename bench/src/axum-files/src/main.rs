//! axum with tower-http's ServeDir as a peer: axum-files ADDRESS ROOT [cache] [change=MARK]
//! [compress] [CERT KEY]
//!
//! One thread for requests, as the other programs have one worker; tokio's own threads read files.
//! Neither crate has a rate limit per client, or changes bodies: that is done here as one would by
//! hand.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::Router;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use tower_http::compression::CompressionLayer;
use tower_http::services::ServeDir;

const SECURE: [(&str, &str); 5] = [
    ("strict-transport-security", "max-age=31536000"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "strict-origin-when-cross-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// Adds the rule for caches and the five fields of security.
async fn cached(request: Request, next: Next) -> Response {
    let immutable = request.uri().path().starts_with("/assets/");
    let mut response = next.run(request).await;
    let rule = if immutable { "max-age=31536000, immutable" } else { "no-cache" };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(rule));
    for (name, value) in SECURE {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Puts another number wherever a page has `mark`.
async fn changed(mark: String, request: Request, next: Next) -> Response {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let response = next.run(request).await;
    let html = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/html");
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(html) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let page = to_bytes(body, 1 << 24).await.unwrap_or_default();
    let id = format!("{:032x}", NEXT.fetch_add(1, Ordering::Relaxed));
    let page = String::from_utf8_lossy(&page).replace(&mark, &id);
    parts.headers.insert(header::CONTENT_LENGTH, page.len().into());
    parts.headers.remove(header::ACCEPT_RANGES);
    parts.headers.remove(header::LAST_MODIFIED);
    parts.headers.remove(header::ETAG);
    Response::from_parts(parts, Body::from(page))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, root, rest @ ..] = arguments.as_slice() else { panic!("ADDRESS ROOT") };
    let address: SocketAddr = address.parse().expect("an address");
    let mut rest = rest;
    let mut router = Router::new().fallback_service(ServeDir::new(root));
    while let [word, more @ ..] = rest {
        router = match word.as_str() {
            "cache" => router.layer(from_fn(cached)),
            "compress" => router.layer(CompressionLayer::new()),
            _ => match word.strip_prefix("change=") {
                Some(mark) => {
                    let mark = mark.to_owned();
                    router.layer(from_fn(move |request, next| changed(mark.clone(), request, next)))
                }
                None => break,
            },
        };
        rest = more;
    }
    let service = router.into_make_service();
    let served = match rest {
        [certificate, key] => {
            let tls = RustlsConfig::from_pem_file(certificate, key).await.expect("a certificate and its key");
            let acceptor = RustlsAcceptor::new(tls).acceptor(NoDelayAcceptor);
            axum_server::bind(address).acceptor(acceptor).serve(service).await
        }
        _ => axum_server::bind(address).acceptor(NoDelayAcceptor).serve(service).await,
    };
    served.expect("serves until it is ended");
}
