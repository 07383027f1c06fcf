//! The judge of heads over HTTP/1: it reads along below hyper, and refuses heads that the proxy
//! refuses.
//!
//! hyper takes heads that our codec does not: lines that end by LF alone, a Content-Length given
//! twice or beside a Transfer-Encoding. An endpoint that sends such heads answers every request
//! with a 502, and a health check must not call it up.

use std::error::Error;
use std::io::{self, ErrorKind};

use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadLimits, framing};
use lockgate_http::head::{Method, ResponseHead};

/// The judge of the heads of one connection; idle until [`expect`](Self::expect).
#[derive(Debug, Default)]
pub(crate) struct HeadJudge {
    /// The method of the request, until its final head has come.
    method: Option<Method>,
    received: Vec<u8>,
    progress: HeadProgress,
    head: ResponseHead,
    /// Bytes that interim heads may still have.
    left: usize,
}

impl HeadJudge {
    /// Expects the head of the response to a request with `method`, after interim heads of no more
    /// than `left` bytes.
    pub(crate) fn expect(&mut self, method: &str, left: usize) {
        *self = Self {
            method: Some(Method::of(method.as_bytes())),
            left,
            ..Self::default()
        };
    }

    /// Judges `bytes`, which hyper gets next.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] for a malformed head, [`ErrorKind::FileTooLarge`] for too many
    /// interim ones: hyper hands either on and gives up the connection.
    pub(crate) fn observe(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(method) = self.method else {
            return Ok(());
        };
        self.received.extend_from_slice(bytes);
        let (mut at, limits) = (0, HeadLimits::default());
        loop {
            let unread = self.received.get(at..).unwrap_or_default();
            let parsed = parse::response(unread, &mut self.progress, &limits, &mut self.head);
            let Some(used) = parsed.map_err(malformed)? else {
                self.received.drain(..at);
                return Ok(());
            };
            if !self.head.is_interim() {
                let length = framing::response(method, &self.head);
                *self = Self::default();
                return length.map(drop).map_err(malformed);
            }
            at += used;
            self.left = self.left.checked_sub(used).ok_or(ErrorKind::FileTooLarge)?;
        }
    }
}

fn malformed(error: impl Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
