//! The target and the Host of a request, taken together (RFC 9112 §3.2, §3.3).

use crate::fields::Known;
use crate::head::{HttpVersion, Method, RequestHead};
use crate::target::{self, Authority, TargetError, TargetForm};

/// The resource that a request asks for, and its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTarget<'a> {
    /// Host and port as they were written, if any: those of the target, else of Host.
    pub host: &'a [u8],
    /// The same host and port, parsed.
    pub authority: Option<Authority<'a>>,
    /// The path from its first slash on, as it was sent; `*` for the server as a whole, empty for
    /// CONNECT.
    pub path: &'a [u8],
    /// The text behind the first question mark.
    pub query: Option<&'a [u8]>,
    /// Whether the scheme is https; `None` if the target has none, and the connection decides.
    pub secure: Option<bool>,
}

/// The reason why a request's host is invalid or ambiguous: always 400 (RFC 9112 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestTargetError {
    /// The target has none of its forms.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No Host, which HTTP/1.1 requires.
    #[error("Host is missing")]
    NoHost,
    /// More than one Host: readers of the first line and of the last would disagree.
    #[error("Host is given more than once")]
    Hosts,
    /// A Host that is no host and port.
    #[error("Host is malformed")]
    BadHost,
}

impl<'a> RequestTarget<'a> {
    /// Parses a request's target and Host.
    ///
    /// # Errors
    /// When either is malformed, or a required Host is missing.
    pub fn of(head: &'a RequestHead) -> Result<Self, RequestTargetError> {
        let mut hosts = head.fields.values(Known::Host);
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err(RequestTargetError::Hosts);
        }
        let named = match host {
            None if head.version >= HttpVersion::Http11 => return Err(RequestTargetError::NoHost),
            // RFC 9110 §7.2: empty where the target has no authority.
            None | Some(b"") => None,
            Some(host) => Some(Authority::parse(host).map_err(|_| RequestTargetError::BadHost)?),
        };
        let host = host.unwrap_or_default();
        let whole = head.target();
        Ok(match target::parse(head.method, whole)? {
            TargetForm::Origin { path, query } => Self {
                host,
                authority: named,
                path,
                query,
                secure: None,
            },
            TargetForm::Asterisk => Self {
                host,
                authority: named,
                path: whole,
                query: None,
                secure: None,
            },
            TargetForm::Authority(authority) => Self {
                host: whole,
                authority: Some(authority),
                path: b"",
                query: None,
                secure: None,
            },
            // RFC 9112 §3.2.2: then Host is ignored and replaced by the target's.
            TargetForm::Absolute {
                secure,
                authority,
                path,
                query,
            } => {
                let (host, rest) = split(whole);
                // RFC 9112 §3.2.4: the request is for the server as a whole.
                let path = if head.method == Method::Options && rest.is_empty() {
                    b"*"
                } else {
                    path
                };
                Self {
                    host,
                    authority: Some(authority),
                    path,
                    query,
                    secure: Some(secure),
                }
            }
        })
    }
}

/// The text between `//` and the next slash or question mark, and the rest.
fn split(absolute: &[u8]) -> (&[u8], &[u8]) {
    let start = memchr::memmem::find(absolute, b"//").map_or(0, |at| at + 2);
    let rest = &absolute[start..];
    rest.split_at(memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::HeadLimits;
    use crate::h1::parse::{self, HeadProgress};

    fn of(request: &str) -> Result<(String, String, Option<String>), RequestTargetError> {
        let mut head = RequestHead::default();
        let input = format!("{request}\r\n\r\n");
        let limits = HeadLimits::default();
        parse::request(
            input.as_bytes(),
            &mut HeadProgress::default(),
            &limits,
            &mut head,
        )
        .unwrap()
        .unwrap();
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        RequestTarget::of(&head)
            .map(|asked| (text(asked.host), text(asked.path), asked.query.map(text)))
    }

    fn is(
        host: &str,
        path: &str,
        query: Option<&str>,
    ) -> Result<(String, String, Option<String>), RequestTargetError> {
        Ok((host.to_owned(), path.to_owned(), query.map(str::to_owned)))
    }

    /// RFC 9112 §3.2: "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1
    /// request message that lacks a Host header field and to any request message that contains
    /// more than one Host header field line or a Host header field with an invalid field
    /// value."
    #[test]
    fn a_request_without_one_valid_host_is_refused() {
        assert_eq!(of("GET / HTTP/1.1"), Err(RequestTargetError::NoHost));
        assert_eq!(of("GET / HTTP/1.0"), is("", "/", None));
        assert_eq!(
            of("GET / HTTP/1.1\r\nHost: a\r\nHost: a"),
            Err(RequestTargetError::Hosts)
        );
        assert_eq!(
            of("GET / HTTP/1.0\r\nHost: a\r\nhost: b"),
            Err(RequestTargetError::Hosts)
        );
        for host in [
            "a b", "a/b", "user@a", "a:b", "a:99999", "[::1", "a,b", "a..b", "http://a",
        ] {
            assert_eq!(
                of(&format!("GET / HTTP/1.1\r\nHost: {host}")),
                Err(RequestTargetError::BadHost),
                "{host}"
            );
        }
        assert_eq!(
            of("GET / HTTP/1.1\r\nHost: A.example.:8080"),
            is("A.example.:8080", "/", None)
        );
        assert_eq!(of("GET / HTTP/1.1\r\nHost:"), is("", "/", None));
        assert_eq!(of("OPTIONS * HTTP/1.1\r\nHost: a"), is("a", "*", None));
        // RFC 9113 §8.3.1: HTTP/2 builds it from :authority.
        let head = RequestHead {
            version: HttpVersion::Http2,
            ..RequestHead::default()
        };
        assert_eq!(RequestTarget::of(&head), Err(RequestTargetError::NoHost));
    }

    #[test]
    fn the_authority_of_an_absolute_form_target_overrides_host() {
        let with = |target: &str| of(&format!("GET {target} HTTP/1.1\r\nHost: other"));
        assert_eq!(with("http://a:81/b?c"), is("a:81", "/b", Some("c")));
        assert_eq!(with("https://a"), is("a", "/", None));
        assert_eq!(with("http://a?c"), is("a", "/", Some("c")));
        assert_eq!(
            of("CONNECT a:443 HTTP/1.1\r\nHost: other"),
            is("a:443", "", None)
        );
        // RFC 9112 §3.2.4.
        let options = |target: &str| of(&format!("OPTIONS {target} HTTP/1.1\r\nHost: other"));
        assert_eq!(options("http://a:81"), is("a:81", "*", None));
        assert_eq!(options("http://a/"), is("a", "/", None));
        assert_eq!(options("http://a/b/a"), is("a", "/b/a", None));
        assert_eq!(options("http://a?"), is("a", "/", Some("")));
    }
}
