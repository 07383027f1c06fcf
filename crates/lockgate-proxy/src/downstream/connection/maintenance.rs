//! The answer that a relay gives where nobody is up: to clients that speak HTTP/1, as far as we can
//! read them.
//!
//! TLS that is passed through cannot be read, and whatever else comes has no words for it: those
//! are closed.

use std::future::poll_fn;

use lockgate_net::client_hello::{self, FirstProtocol};
use lockgate_net::stream::{ReadBuffer, Stream, StreamError};

use super::Connection;
use super::open::{FAREWELL, FAREWELL_READS};
use crate::action::relay::Client;
use crate::answer::{ErrorAnswer, Fault, Form, Page};

/// The most of a head that is heard before it is answered.
const HEAD: usize = 16 * 1024;

impl Connection {
    /// Answers a client whose first bytes are a request of HTTP/1; says whether it did.
    pub(super) async fn maintenance(&self, client: Client, status: u16, page: &Page) -> bool {
        if self
            .negotiated
            .as_ref()
            .is_some_and(|agreed| agreed.alpn.as_deref() == Some(b"h2"))
        {
            return false;
        }
        let mut stream = Stream::new(client.socket, client.session, client.unsent);
        let mut inbox = ReadBuffer::new(&self.worker.blocks);
        inbox.extend(&client.received);
        self.guard.phase(self.listener.handshake);
        let begins = self
            .guard
            .within(speaks_http(&mut stream, &mut inbox))
            .await;
        if matches!(begins, Ok(Ok(true))) {
            // Who does not come to its end in time is answered all the same.
            let _ = self.guard.within(hear_head(&mut stream, &mut inbox)).await;
        }
        self.guard
            .watch()
            .meter
            .received
            .set(inbox.bytes().len() as u64);
        if !matches!(begins, Ok(Ok(true))) {
            return false;
        }
        let has_body = !inbox.bytes().starts_with(b"HEAD ");
        let words = self.words(status, page, has_body);
        self.guard.phase(FAREWELL);
        if !matches!(
            self.guard.within(tell(&mut stream, &inbox, &words)).await,
            Ok(Ok(()))
        ) {
            return false;
        }
        self.guard.watch().meter.sent.set(words.len() as u64);
        self.guard.phase(FAREWELL);
        let _ = self.guard.within(hear_out(&mut stream, &mut inbox)).await;
        true
    }

    fn words(&self, status: u16, page: &Page, has_body: bool) -> Vec<u8> {
        let answer = ErrorAnswer {
            status,
            ..ErrorAnswer::of(Fault::NoEndpoint)
        };
        let (mut head, body) = answer.make(Form::Text, Some(page));
        head.fields.append(b"Date", &self.worker.date());
        head.fields.append(b"Connection", b"close");
        let mut words = format!("HTTP/1.1 {} ", head.status).into_bytes();
        words.extend_from_slice(head.reason());
        words.extend_from_slice(b"\r\n");
        head.fields.write(&mut words, |_| true);
        words.extend_from_slice(b"\r\n");
        if has_body {
            words.extend_from_slice(&body);
        }
        words
    }
}

/// Reads what is left of a request's head, up to [`HEAD`]: who still sends it would not hear an
/// answer.
async fn hear_head(stream: &mut Stream, inbox: &mut ReadBuffer) -> Result<(), StreamError> {
    let mut heard = 0;
    loop {
        // What was looked at before is not looked at again, however small the pieces are.
        let new = inbox.bytes().get(heard..).unwrap_or_default();
        if new.windows(4).any(|end| end == b"\r\n\r\n") || inbox.bytes().len() > HEAD {
            return Ok(());
        }
        heard = inbox.bytes().len().saturating_sub(3);
        if !poll_fn(|cx| stream.poll_read(cx, inbox)).await? {
            return Ok(());
        }
    }
}

/// Whether what comes begins like a request of HTTP/1: ten bytes say it at most.
async fn speaks_http(stream: &mut Stream, inbox: &mut ReadBuffer) -> Result<bool, StreamError> {
    loop {
        match client_hello::first_protocol(inbox.bytes()) {
            FirstProtocol::Http => return Ok(!inbox.bytes().starts_with(b"PRI ")),
            FirstProtocol::Tls | FirstProtocol::Other => return Ok(false),
            FirstProtocol::Undecided => {}
        }
        if !poll_fn(|cx| stream.poll_read(cx, inbox)).await? {
            return Ok(false);
        }
    }
}

async fn tell(stream: &mut Stream, inbox: &ReadBuffer, words: &[u8]) -> Result<(), StreamError> {
    let blocks = inbox.pool();
    let mut sent = 0;
    while sent < words.len() {
        sent += poll_fn(|cx| stream.poll_write(cx, &blocks, &[&words[sent..]])).await?;
    }
    poll_fn(|cx| stream.poll_finish(cx)).await
}

/// Hears some of what the client still says: a reset could overtake our words.
async fn hear_out(stream: &mut Stream, inbox: &mut ReadBuffer) {
    for _ in 0..FAREWELL_READS {
        inbox.consume(inbox.bytes().len());
        if !matches!(poll_fn(|cx| stream.poll_read(cx, inbox)).await, Ok(true)) {
            break;
        }
    }
}
