//! Changes to responses: compression, Cache-Control, CORS, security headers, rewritten bodies.

mod caching;
mod compress;
mod cors;
mod rewrite;
mod rewrite_files;
mod secure;

use lockgate_content::coding::{Coded, Coding, ContentDecoder, decode_all, encode_all};
use lockgate_testkit::{Http, Message, Origin, Serving};

use crate::files::{Answer, Served, Www, get};
use crate::scene::NAME;

/// The longest that a body of these tests is.
const MOST: u64 = 1 << 30;

/// A text that compresses well; a missing piece is noticed.
fn text(len: usize) -> String {
    let mut text = String::with_capacity(len + 16);
    let mut line = 0;
    while text.len() < len {
        text.push_str(&format!("line {line}\n"));
        line += 1;
    }
    text.truncate(len);
    text
}

/// The decoded body of a response.
#[track_caller]
fn decoded(answer: &Answer) -> Vec<u8> {
    match answer.field("content-encoding") {
        None => answer.body.clone(),
        Some(coding) => {
            let coded = Coded::of(coding.as_bytes()).unwrap_or_else(|| panic!("{coding}"));
            decode_all(coded, &answer.body, MOST).unwrap()
        }
    }
}

/// Coded bytes that have come so far, and their decoder.
struct Reader(ContentDecoder);

impl Reader {
    fn new(coding: &str) -> Self {
        Self(ContentDecoder::new(
            Coded::of(coding.as_bytes()).unwrap(),
            MOST,
        ))
    }

    fn read(&mut self, mut bytes: &[u8]) -> String {
        let mut out = Vec::new();
        while self.0.step(&mut bytes, &mut out, 1 << 20).unwrap()
            == lockgate_content::StepProgress::Full
        {}
        String::from_utf8(out).unwrap()
    }
}

/// An origin that answers every request with these fields, lines with their ends, and this body.
fn origin_with(fields: &str, body: impl Into<Vec<u8>>) -> Serving {
    let (fields, body) = (fields.to_owned(), body.into());
    Origin::tcp().answering(move |request| reply(request, 200, &fields, &body))
}

/// A response with its length, as an origin writes it.
fn reply(request: &Message, status: u16, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    );
    let body = if request.first_line().starts_with("HEAD") {
        &b""[..]
    } else {
        body
    };
    [head.as_bytes(), body].concat()
}

/// A response in chunks of this many bytes.
fn chunked(fields: &str, body: &[u8], size: usize, trailers: &str) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{fields}\r\n").into_bytes();
    for chunk in body.chunks(size) {
        answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        answer.extend_from_slice(chunk);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    answer
}

/// The key of a site that is proxied.
fn proxied(origin: &Serving, keys: &str) -> String {
    format!("proxy = \"{}\"\n{keys}", origin.address())
}
