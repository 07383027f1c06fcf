//! Requests as they are sent, encoded before the run as far as they are always the same.

use lockgate_http::h1::encode;
use lockgate_http::head::Method;

use super::{ConnectionOptions, RequestOptions};
use crate::target::{
    Http1Request, Http2Request, RequestBody, TargetRequest, Url, UrlScheme, Varying, WebSocket,
};

const USER_AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"));

impl RequestOptions {
    /// The exchange with the target of `url`.
    pub(super) fn target_request(
        &self,
        url: &Url,
        connections: &ConnectionOptions,
    ) -> TargetRequest {
        match url.scheme {
            UrlScheme::Http | UrlScheme::Https if connections.streams.is_some() => {
                let method = self.method();
                TargetRequest::Http2(self.http2(method, url, self.has_length(method)))
            }
            UrlScheme::Http | UrlScheme::Https => {
                TargetRequest::Http1(self.http1(url, connections))
            }
            UrlScheme::Ws | UrlScheme::Wss => TargetRequest::WebSocket(WebSocket {
                head: self.head("GET", url),
                message: self.body.clone(),
            }),
            UrlScheme::Tcp | UrlScheme::Tls => TargetRequest::Bytes(self.body.clone()),
        }
    }

    fn method(&self) -> &str {
        let default = if self.body.is_empty() && !self.grpc {
            "GET"
        } else {
            "POST"
        };
        self.method.as_deref().unwrap_or(default)
    }

    /// Whether requests get a Content-Length that no option sets.
    fn has_length(&self, method: &str) -> bool {
        let has_body = !self.body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH");
        has_body && !self.has_field("content-length")
    }

    fn http1(&self, url: &Url, connections: &ConnectionOptions) -> Http1Request {
        let method = self.method();
        let mut head = self.head(method, url);
        if self.has_length(method) && !self.has_field("transfer-encoding") {
            encode::content_length(&mut head, self.body.len() as u64);
        }
        if connections.max_requests == Some(1) && !self.has_field("connection") {
            encode::field(&mut head, b"Connection", b"close");
        }
        if self.varying.is_empty() {
            encode::end(&mut head);
        }
        Http1Request {
            method: Method::of(method.as_bytes()),
            head,
            varying: self.varying.clone(),
            body: self.body.clone(),
        }
    }

    /// The request line and header fields of an HTTP/1.1 request, without the empty line.
    pub(crate) fn head(&self, method: &str, url: &Url) -> Vec<u8> {
        let mut head = Vec::new();
        encode::request_line(&mut head, method.as_bytes(), url.target.as_bytes(), None);
        if !self.has_field("host") {
            encode::field(&mut head, b"Host", url.authority().as_bytes());
        }
        if !self.has_field("user-agent") {
            encode::field(&mut head, b"User-Agent", USER_AGENT.as_bytes());
        }
        if !self.has_field("accept") {
            encode::field(&mut head, b"Accept", b"*/*");
        }
        for (name, value) in &self.headers {
            encode::field(&mut head, name.as_bytes(), value.as_bytes());
        }
        head
    }

    /// The HTTP/2 request (RFC 9113 §8.3.1).
    pub(crate) fn http2(&self, method: &str, url: &Url, has_length: bool) -> Http2Request {
        let is_host = |name: &str| name.eq_ignore_ascii_case("host");
        let host = self.headers.iter().find(|(name, _)| is_host(name));
        let authority = host.map_or_else(|| url.authority(), |(_, value)| value.clone());
        let is_tls = url.scheme == UrlScheme::Https;
        let scheme = if is_tls { "https" } else { "http" };
        let body = if self.grpc {
            grpc_message(&self.body)
        } else {
            self.body.clone()
        };
        let mut fields = vec![
            (":method".to_owned(), method.to_owned()),
            (":scheme".to_owned(), scheme.to_owned()),
            (":authority".to_owned(), authority),
            (":path".to_owned(), url.target.clone()),
        ];
        let mut default = |name: &str, value: &str| {
            if !self.has_field(name) {
                fields.push((name.to_owned(), value.to_owned()));
            }
        };
        default("user-agent", USER_AGENT);
        if self.grpc {
            default("content-type", "application/grpc");
            default("te", "trailers");
        } else {
            default("accept", "*/*");
        }
        if has_length && !self.grpc {
            default("content-length", &body.len().to_string());
        }
        let headers = self.headers.iter().filter(|(name, _)| !is_host(name));
        fields.extend(headers.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        let varying = self.varying.iter().map(|field| Varying {
            name: field.name.to_ascii_lowercase(),
            values: field.values.clone(),
        });
        Http2Request {
            method: Method::of(method.as_bytes()),
            fields,
            varying: varying.collect(),
            body,
            is_grpc: self.grpc,
        }
    }

    /// Whether an option sets the header field `name`.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        let headers = self.headers.iter().map(|(name, _)| name);
        let varying = self.varying.iter().map(|field| &field.name);
        headers
            .chain(varying)
            .any(|other| other.eq_ignore_ascii_case(name))
    }
}

/// A message with its prefix: not compressed, and its length (gRPC over HTTP/2,
/// Length-Prefixed-Message).
fn grpc_message(message: &RequestBody) -> RequestBody {
    let message = message.or(&[]);
    let length = (message.len() as u32).to_be_bytes();
    RequestBody::Fixed([&[0], &length[..], message].concat().into())
}
