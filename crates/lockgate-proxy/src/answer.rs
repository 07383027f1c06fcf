//! Answers that Lockgate gives itself because something went wrong.
//!
//! Pure functions from what happened to bytes. Does not decide that an error is answered, and does not know what else
//! the connection has to say (`Date`, `Connection`): the caller's lines go between ours and the end of the head.

mod fault;
mod form;
mod page;
pub mod proxy_status;

pub use fault::Fault;
pub use form::Form;
pub use page::{Page, Pages};

use lockgate_http::h1::encode;
use lockgate_http::status::reason;

use crate::access_log::Cause;

/// What an answer asks of a client beyond its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice<'a> {
    /// Nothing.
    #[default]
    None,
    /// To come again after so many seconds (429, 503).
    RetryAfter(u32),
    /// To say who it is, by the Basic scheme, for this realm (401).
    Challenge(&'a str),
    /// To use one of these methods, as the field has them: `GET, HEAD` (405).
    Allow(&'a str),
}

/// An error as a client is told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorAnswer<'a> {
    /// What went wrong, for `Proxy-Status`.
    pub fault: Fault,
    /// Three digits.
    pub status: u16,
    /// The word in log, metric and page.
    pub cause: Cause,
    /// For people, and public: nothing of what is behind us, nothing that a peer sent.
    pub detail: &'a str,
    /// The request's id; empty if there is none.
    pub id: &'a str,
    /// What the client is asked to do.
    pub advice: Advice<'a>,
}

/// Whether the body itself is sent: HEAD gets only its length (RFC 9110 §9.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Head and body.
    Sent,
    /// The head that would go before the body.
    Withheld,
}

impl ErrorAnswer<'_> {
    /// What is usually said of `fault`; the fields may be set to something else.
    pub const fn of(fault: Fault) -> Self {
        ErrorAnswer {
            fault,
            status: fault.status(),
            cause: fault.cause(),
            detail: fault.detail(),
            id: "",
            advice: Advice::None,
        }
    }

    /// Appends the whole answer to `out`: its head, with what `more` appends to that, and its body, whose length it
    /// returns.
    ///
    /// `page` takes the place of the body that is built in, and then `form` is not asked.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        form: Form,
        page: Option<&Page>,
        body: Body,
        more: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let mut built_in = Vec::new();
        let (media_type, content) = match page {
            Some(page) => (page.media_type.as_str(), &page.body),
            None => {
                built_in.reserve(2_048);
                page::write(&mut built_in, form, self);
                (form.media_type(), &built_in)
            }
        };
        encode::status_line(out, self.status, reason(self.status).as_bytes());
        // RFC 9110 §8.6, §15.3.5: these end with their head, whatever is said of a length.
        let ends_with_head = matches!(self.status, 204 | 304);
        if !ends_with_head {
            encode::field(out, b"Content-Type", media_type.as_bytes());
            encode::content_length(out, content.len() as u64);
        }
        encode::field(out, b"Cache-Control", b"no-store");
        proxy_status::write(out, self.fault, self.detail);
        self.advise(out);
        more(out);
        encode::end(out);
        match body {
            Body::Sent if !ends_with_head => {
                out.extend_from_slice(content);
                content.len()
            }
            Body::Sent | Body::Withheld => 0,
        }
    }

    fn advise(&self, out: &mut Vec<u8>) {
        match self.advice {
            Advice::None => {}
            Advice::RetryAfter(seconds) => {
                encode::field(out, b"Retry-After", itoa::Buffer::new().format(seconds).as_bytes());
            }
            Advice::Challenge(realm) => {
                out.extend_from_slice(b"WWW-Authenticate: Basic realm=\"");
                write_quoted(out, realm);
                // RFC 7617 §2.1: passwords are UTF-8.
                out.extend_from_slice(b"\", charset=\"UTF-8\"\r\n");
            }
            Advice::Allow(methods) => encode::field(out, b"Allow", methods.as_bytes()),
        }
    }
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
    use lockgate_http::h1::Limits;
    use lockgate_http::h1::parse::{self, Progress};
    use lockgate_http::head::ResponseHead;

    fn written(answer: &ErrorAnswer<'_>, form: Form, page: Option<&Page>, body: Body) -> Vec<u8> {
        let mut out = Vec::new();
        answer.write(&mut out, form, page, body, |out| encode::field(out, b"Connection", b"close"));
        out
    }

    /// Head and body, read by our own parser.
    fn read(bytes: &[u8]) -> (ResponseHead, &[u8]) {
        let mut head = ResponseHead::default();
        let taken =
            parse::response(bytes, &mut Progress::default(), &Limits::default(), &mut head).unwrap().unwrap();
        (head, &bytes[taken..])
    }

    fn value<'a>(head: &'a ResponseHead, name: &str) -> Option<&'a str> {
        head.fields.named(name.as_bytes()).next().map(|value| std::str::from_utf8(value).unwrap())
    }

    #[test]
    fn an_answer_is_its_head_with_the_callers_lines_and_its_body() {
        let answer = ErrorAnswer { id: "0123", ..ErrorAnswer::of(Fault::ConnectionRefused) };
        let expected = concat!(
            "HTTP/1.1 502 Bad Gateway\r\n",
            "Content-Type: text/plain; charset=utf-8\r\n",
            "Content-Length: 86\r\n",
            "Cache-Control: no-store\r\n",
            "Proxy-Status: lockgate; error=connection_refused; details=\"the application cannot be reached\"\r\n",
            "Connection: close\r\n",
            "\r\n",
            "502 Bad Gateway\nthe application cannot be reached\ncause: connect_failed\nrequest: 0123\n",
        );
        let bytes = written(&answer, Form::Text, None, Body::Sent);
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn every_fault_in_every_form_is_a_whole_answer() {
        for fault in Fault::ALL {
            for form in [Form::Text, Form::Html, Form::Json] {
                let bytes = written(&ErrorAnswer::of(fault), form, None, Body::Sent);
                let (head, body) = read(&bytes);
                assert_eq!(head.status, fault.status());
                assert_eq!(value(&head, "content-type"), Some(form.media_type()));
                assert_eq!(value(&head, "content-length"), Some(body.len().to_string().as_str()));
                assert_eq!(value(&head, "cache-control"), Some("no-store"));
            }
        }
    }

    /// RFC 9110 §9.3.2: the same fields as for GET.
    #[test]
    fn head_gets_the_length_of_the_body_but_no_body() {
        let answer = ErrorAnswer::of(Fault::NotFound);
        for form in [Form::Text, Form::Html, Form::Json] {
            let get = written(&answer, form, None, Body::Sent);
            let head = written(&answer, form, None, Body::Withheld);
            let (_, body) = read(&get);
            assert_eq!(head, &get[..get.len() - body.len()]);
        }
    }

    /// RFC 9110 §8.6: a pool may be in maintenance by one of these.
    #[test]
    fn what_ends_with_its_head_has_neither_length_nor_body() {
        for status in [204, 304] {
            let answer = ErrorAnswer { status, ..ErrorAnswer::of(Fault::NoEndpoint) };
            let bytes = written(&answer, Form::Text, None, Body::Sent);
            let (head, body) = read(&bytes);
            assert_eq!((value(&head, "content-length"), value(&head, "content-type")), (None, None));
            assert!(body.is_empty(), "{status}");
        }
    }

    #[test]
    fn a_page_of_the_configuration_replaces_body_and_type_only() {
        let page = Page { body: b"back soon\n".to_vec(), media_type: "text/x-own".to_owned() };
        let answer = ErrorAnswer { advice: Advice::RetryAfter(30), ..ErrorAnswer::of(Fault::NoEndpoint) };
        let bytes = written(&answer, Form::Html, Some(&page), Body::Sent);
        let (head, body) = read(&bytes);
        assert_eq!(body, b"back soon\n");
        assert_eq!(value(&head, "content-type"), Some("text/x-own"));
        assert_eq!(value(&head, "retry-after"), Some("30"));
        assert!(value(&head, "proxy-status").unwrap().contains("error=destination_unavailable;"));
    }

    #[test]
    fn a_client_is_told_what_it_may_do() {
        for (fault, advice, name, expected) in [
            (
                Fault::Unauthorized,
                Advice::Challenge("the \"inner\" \\ ring\r\n"),
                "www-authenticate",
                r#"Basic realm="the \"inner\" \\ ring??", charset="UTF-8""#,
            ),
            (Fault::MethodNotAllowed, Advice::Allow("GET, HEAD"), "allow", "GET, HEAD"),
            (Fault::TooManyRequests, Advice::RetryAfter(0), "retry-after", "0"),
        ] {
            let answer = ErrorAnswer { advice, ..ErrorAnswer::of(fault) };
            let bytes = written(&answer, Form::Text, None, Body::Sent);
            let (head, _) = read(&bytes);
            assert_eq!(value(&head, name), Some(expected));
        }
    }
}
