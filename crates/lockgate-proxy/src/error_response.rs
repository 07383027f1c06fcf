//! Responses that Lockgate gives itself because something went wrong.
//!
//! Pure functions from a fault to a head and a body. Does not decide that an error is sent, and
//! does not add the fields of the connection (`Date`, `Connection`).

mod body_format;
mod dial;
mod fault;
pub mod grpc;
mod page;
pub mod proxy_status;

pub use body_format::BodyFormat;
pub use fault::HttpFault;
pub use page::{ErrorPage, ErrorPages};

use std::borrow::Cow;

use lockgate_http::fields::Fields;
use lockgate_http::head::ResponseHead;

use crate::access_log::Cause;

/// The advice of a response to its client beyond the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice<'a> {
    /// Nothing.
    #[default]
    None,
    /// To retry after so many seconds (429, 503).
    RetryAfter(u32),
    /// To authenticate by the Basic scheme, for this realm (401).
    Challenge(&'a str),
    /// The same to a proxy (407).
    ProxyChallenge(&'a str),
    /// To use one of these methods, as the field has them: `GET, HEAD` (405).
    Allow(&'a str),
}

/// An error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// The fault, for `Proxy-Status`.
    pub fault: HttpFault,
    /// Three digits.
    pub status: u16,
    /// The word in log, metric and page.
    pub cause: Cause,
    /// For people, and public: nothing of what is behind us, nothing that a peer sent.
    pub detail: &'a str,
    /// The request's id; empty if there is none.
    pub id: &'a str,
    /// The advice to the client.
    pub advice: Advice<'a>,
}

impl ErrorResponse<'_> {
    /// The usual response to `fault`; its fields may be changed.
    pub const fn of(fault: HttpFault) -> Self {
        ErrorResponse {
            fault,
            status: fault.status(),
            cause: fault.cause(),
            detail: fault.detail(),
            id: "",
            advice: Advice::None,
        }
    }

    /// The response's head and body.
    ///
    /// `page` takes the place of the body that is built in, and then `form` does not matter.
    pub fn render<'p>(
        &self,
        form: BodyFormat,
        page: Option<&'p ErrorPage>,
    ) -> (ResponseHead, Cow<'p, [u8]>) {
        let mut head = ResponseHead::of(self.status);
        let (media_type, mut content) = match page {
            Some(page) => (
                page.media_type.as_str(),
                Cow::Borrowed(page.body.as_slice()),
            ),
            None => {
                let mut built_in = Vec::with_capacity(2_048);
                page::write(&mut built_in, form, self);
                (form.media_type(), Cow::Owned(built_in))
            }
        };
        // RFC 9110 §8.6, §15.3.5: these end with their head, even where a length is given.
        if matches!(self.status, 204 | 304) {
            content = Cow::default();
        } else {
            head.fields.append(b"Content-Type", media_type.as_bytes());
            let length = itoa::Buffer::new().format(content.len()).to_owned();
            head.fields.append(b"Content-Length", length.as_bytes());
        }
        head.fields.append(b"Cache-Control", b"no-store");
        head.fields.append(
            b"Proxy-Status",
            &proxy_status::value(self.fault, self.detail),
        );
        self.add_advice(&mut head.fields);
        (head, content)
    }

    /// The same for a call of gRPC: a head without a body.
    pub fn render_grpc(&self) -> ResponseHead {
        let mut head = grpc::response(self.fault.grpc_status(), self.detail);
        head.fields.append(
            b"Proxy-Status",
            &proxy_status::value(self.fault, self.detail),
        );
        self.add_advice(&mut head.fields);
        head
    }

    fn add_advice(&self, fields: &mut Fields) {
        match self.advice {
            Advice::None => {}
            Advice::RetryAfter(seconds) => {
                fields.append(
                    b"Retry-After",
                    itoa::Buffer::new().format(seconds).as_bytes(),
                );
            }
            Advice::Challenge(realm) => fields.append(b"WWW-Authenticate", &challenge(realm)),
            Advice::ProxyChallenge(realm) => {
                fields.append(b"Proxy-Authenticate", &challenge(realm))
            }
            Advice::Allow(methods) => fields.append(b"Allow", methods.as_bytes()),
        }
    }
}

fn challenge(realm: &str) -> Vec<u8> {
    let mut value = b"Basic realm=\"".to_vec();
    write_quoted(&mut value, realm);
    // RFC 7617 §2.1: passwords are UTF-8.
    value.extend_from_slice(b"\", charset=\"UTF-8\"");
    value
}

/// The inside of a quoted-string (RFC 9110 §5.6.4); a control character becomes a question mark.
fn write_quoted(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\t' | b' '..=b'~' | 0x80.. => out.push(byte),
            _ => out.push(b'?'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(head: &'a ResponseHead, name: &str) -> Option<&'a str> {
        head.fields
            .named(name.as_bytes())
            .next()
            .map(|value| std::str::from_utf8(value).unwrap())
    }

    #[test]
    fn an_error_response_has_proxy_status_and_an_explaining_body() {
        let response = ErrorResponse {
            id: "0123",
            ..ErrorResponse::of(HttpFault::ConnectionRefused)
        };
        let (head, body) = response.render(BodyFormat::Text, None);
        let mut fields = Vec::new();
        head.fields.write(&mut fields, |_| true);
        let expected = concat!(
            "Content-Type: text/plain; charset=utf-8\r\n",
            "Content-Length: 86\r\n",
            "Cache-Control: no-store\r\n",
            "Proxy-Status: lockgate; error=connection_refused; details=\"the application cannot be reached\"\r\n",
        );
        assert_eq!((head.status, head.reason()), (502, &b"Bad Gateway"[..]));
        assert_eq!(String::from_utf8(fields).unwrap(), expected);
        let expected = "502 Bad Gateway\nthe application cannot be reached\ncause: connect_failed\nrequest: 0123\n";
        assert_eq!(std::str::from_utf8(&body).unwrap(), expected);
    }

    #[test]
    fn every_fault_in_every_form_is_a_complete_response() {
        for fault in HttpFault::ALL {
            for form in [BodyFormat::Text, BodyFormat::Html, BodyFormat::Json] {
                let (head, body) = ErrorResponse::of(fault).render(form, None);
                assert_eq!(head.status, fault.status());
                assert_eq!(value(&head, "content-type"), Some(form.media_type()));
                assert_eq!(
                    value(&head, "content-length"),
                    Some(body.len().to_string().as_str())
                );
                assert_eq!(value(&head, "cache-control"), Some("no-store"));
            }
        }
    }

    /// RFC 9110 §8.6: a pool may be in maintenance by one of these.
    #[test]
    fn error_responses_204_and_304_have_no_content_length() {
        for status in [204, 304] {
            let response = ErrorResponse {
                status,
                ..ErrorResponse::of(HttpFault::NoEndpoint)
            };
            let (head, body) = response.render(BodyFormat::Text, None);
            assert_eq!(
                (value(&head, "content-length"), value(&head, "content-type")),
                (None, None)
            );
            assert!(body.is_empty(), "{status}");
        }
    }

    #[test]
    fn every_fault_ends_a_grpc_call_with_status_and_message() {
        for fault in HttpFault::ALL {
            let head = ErrorResponse::of(fault).render_grpc();
            assert_eq!(
                (head.status, value(&head, "content-type")),
                (200, Some("application/grpc"))
            );
            let status = grpc::status(&head.fields).unwrap();
            assert!((1..=16).contains(&status), "{fault:?}");
            assert_eq!(value(&head, "grpc-message"), Some(fault.detail()));
            assert_eq!(value(&head, "content-length"), None);
        }
    }

    #[test]
    fn a_configured_error_page_replaces_only_body_and_type() {
        let page = ErrorPage {
            body: b"back soon\n".to_vec(),
            media_type: "text/x-own".to_owned(),
        };
        let response = ErrorResponse {
            advice: Advice::RetryAfter(30),
            ..ErrorResponse::of(HttpFault::NoEndpoint)
        };
        let (head, body) = response.render(BodyFormat::Html, Some(&page));
        assert_eq!(&*body, b"back soon\n");
        assert_eq!(value(&head, "content-type"), Some("text/x-own"));
        assert_eq!(value(&head, "retry-after"), Some("30"));
        assert!(
            value(&head, "proxy-status")
                .unwrap()
                .contains("error=destination_unavailable;")
        );
    }

    #[test]
    fn error_responses_carry_challenge_allow_and_retry_after() {
        for (fault, advice, name, expected) in [
            (
                HttpFault::Unauthorized,
                Advice::Challenge("the \"inner\" \\ ring\r\n"),
                "www-authenticate",
                r#"Basic realm="the \"inner\" \\ ring??", charset="UTF-8""#,
            ),
            (
                HttpFault::ProxyUnauthorized,
                Advice::ProxyChallenge("way out"),
                "proxy-authenticate",
                r#"Basic realm="way out", charset="UTF-8""#,
            ),
            (
                HttpFault::MethodNotAllowed,
                Advice::Allow("GET, HEAD"),
                "allow",
                "GET, HEAD",
            ),
            (
                HttpFault::TooManyRequests,
                Advice::RetryAfter(0),
                "retry-after",
                "0",
            ),
        ] {
            let response = ErrorResponse {
                advice,
                ..ErrorResponse::of(fault)
            };
            let (head, _) = response.render(BodyFormat::Text, None);
            assert_eq!(value(&head, name), Some(expected));
        }
    }
}
