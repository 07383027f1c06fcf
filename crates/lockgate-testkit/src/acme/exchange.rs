//! HTTP/1.1 as the authority speaks it over TLS: one request is read, one answer is written.
//!
//! Clients are killed in tests, so each end of a connection is an ordinary one here: nothing panics.

use std::io::{self, Read, Write};

use super::problem::Problem;
use crate::tls::Tls;

/// The most bytes of a request.
const LONGEST_REQUEST: usize = 1024 * 1024;

/// A request.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) host: String,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The body is JSON.
    pub(super) fn json(status: u16, json: &serde_json::Value) -> Self {
        Self {
            status,
            fields: vec![("Content-Type", "application/json".to_owned())],
            body: json.to_string().into_bytes(),
        }
    }

    /// The body is of another type, or empty.
    pub(super) fn of(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            fields: vec![("Content-Type", content_type.to_owned())],
            body: body.into(),
        }
    }

    /// An error.
    pub(super) fn problem(problem: &Problem) -> Self {
        let mut answer = Self::json(problem.status, &problem.json());
        answer.fields = vec![("Content-Type", "application/problem+json".to_owned())];
        answer.retry_after(problem.retry_after)
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    pub(super) fn retry_after(self, seconds: Option<u64>) -> Self {
        match seconds {
            Some(seconds) => self.with("Retry-After", seconds.to_string()),
            None => self,
        }
    }
}

/// The next request; `None` when the client has ended, or speaks something else.
pub(super) fn read_request(tls: &mut Tls) -> Option<Request> {
    let mut read = Vec::new();
    let head_end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        read_more(tls, &mut read)?;
    };
    let head = String::from_utf8(read[..head_end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let mut request = Request {
        method: first.next()?.to_owned(),
        path: first.next()?.to_owned(),
        host: String::new(),
        content_type: String::new(),
        body: Vec::new(),
    };
    let mut length = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => request.host = value.to_owned(),
            "content-type" => request.content_type = value.to_owned(),
            "content-length" => length = value.parse().ok()?,
            "transfer-encoding" => return None,
            _ => {}
        }
    }
    let end = (head_end + 4).checked_add(length)?;
    while read.len() < end {
        read_more(tls, &mut read)?;
    }
    // No client of ACME sends a second request before it has the first answer.
    request.body = read[head_end + 4..end].to_vec();
    Some(request)
}

fn read_more(tls: &mut Tls, read: &mut Vec<u8>) -> Option<()> {
    let mut part = [0; 16 * 1024];
    let len = tls
        .read(&mut part)
        .ok()
        .filter(|len| *len > 0 && read.len() + len <= LONGEST_REQUEST)?;
    read.extend_from_slice(&part[..len]);
    Some(())
}

/// Writes the answer; without its body to a HEAD request.
pub(super) fn write_answer(tls: &mut Tls, answer: &Answer, to_head: bool) -> io::Result<()> {
    let mut bytes = head(answer.status, &answer.fields);
    bytes.push_str(&format!("Content-Length: {}\r\n\r\n", answer.body.len()));
    let mut bytes = bytes.into_bytes();
    if !to_head {
        bytes.extend_from_slice(&answer.body);
    }
    tls.write_all(&bytes)
}

/// Writes a body that ends only when the client closes.
pub(super) fn write_endless(tls: &mut Tls) -> io::Result<()> {
    let mut bytes = head(200, &[("Content-Type", "application/json".to_owned())]);
    bytes.push_str("Transfer-Encoding: chunked\r\n\r\n");
    tls.write_all(bytes.as_bytes())?;
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    loop {
        tls.write_all(chunk.as_bytes())?;
    }
}

fn head(status: u16, fields: &[(&'static str, String)]) -> String {
    let mut head = format!("HTTP/1.1 {status} \r\nCache-Control: no-store\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}
