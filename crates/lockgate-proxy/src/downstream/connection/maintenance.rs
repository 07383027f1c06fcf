//! The response of a relay with no endpoint up: to clients that speak HTTP/1, as far as we can read
//! them.
//!
//! TLS that is passed through cannot be read, and other protocols have no such response: those
//! connections are closed.

use std::future::poll_fn;

use lockgate_net::client_hello::{self, FirstProtocol};
use lockgate_net::stream::{ReadBuffer, Stream, StreamError};

use super::ClientConnection;
use crate::action::relay::ClientTransport;
use crate::downstream::linger::{SHORT_LINGER, linger_on_stream};
use crate::error_response::{BodyFormat, ErrorPage, ErrorResponse, HttpFault};

/// The most of a head that is heard before it is answered.
const HEAD: usize = 16 * 1024;

impl ClientConnection {
    /// Responds to a client that begins with a request of HTTP/1; tells whether it did.
    pub(super) async fn respond_maintenance(
        &self,
        client: ClientTransport,
        status: u16,
        page: &ErrorPage,
    ) -> bool {
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
        let handshake = self.listener.snapshot().settings.handshake;
        self.guard.begin_phase(handshake);
        let begins = self
            .guard
            .within(begins_http(&mut stream, &mut inbox))
            .await;
        if matches!(begins, Ok(Ok(true))) {
            // A client that does not finish its head in time gets the response all the same.
            let _ = self.guard.within(read_head(&mut stream, &mut inbox)).await;
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
        let response = self.maintenance_response(status, page, has_body);
        self.guard.begin_phase(SHORT_LINGER);
        if !matches!(
            self.guard
                .within(send(&mut stream, &inbox, &response))
                .await,
            Ok(Ok(()))
        ) {
            return false;
        }
        self.guard.watch().meter.sent.set(response.len() as u64);
        self.guard.begin_phase(SHORT_LINGER);
        let _ = self
            .guard
            .within(linger_on_stream(&mut stream, &mut inbox))
            .await;
        true
    }

    fn maintenance_response(&self, status: u16, page: &ErrorPage, has_body: bool) -> Vec<u8> {
        let response = ErrorResponse {
            status,
            ..ErrorResponse::of(HttpFault::NoEndpoint)
        };
        let (mut head, body) = response.render(BodyFormat::Text, Some(page));
        head.fields.append(b"Date", &self.worker.date());
        head.fields.append(b"Connection", b"close");
        let mut response = format!("HTTP/1.1 {} ", head.status).into_bytes();
        response.extend_from_slice(head.reason());
        response.extend_from_slice(b"\r\n");
        head.fields.write(&mut response, |_| true);
        response.extend_from_slice(b"\r\n");
        if has_body {
            response.extend_from_slice(&body);
        }
        response
    }
}

/// Reads the rest of a request's head, up to [`HEAD`]: a client that is still sending would not
/// read a response.
async fn read_head(stream: &mut Stream, inbox: &mut ReadBuffer) -> Result<(), StreamError> {
    let mut searched = 0;
    loop {
        // What was looked at before is not looked at again, however small the pieces are.
        let new = inbox.bytes().get(searched..).unwrap_or_default();
        if new.windows(4).any(|end| end == b"\r\n\r\n") || inbox.bytes().len() > HEAD {
            return Ok(());
        }
        searched = inbox.bytes().len().saturating_sub(3);
        if !poll_fn(|cx| stream.poll_read(cx, inbox)).await? {
            return Ok(());
        }
    }
}

/// Whether the first bytes are those of an HTTP/1 request: ten bytes tell at most.
async fn begins_http(stream: &mut Stream, inbox: &mut ReadBuffer) -> Result<bool, StreamError> {
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

async fn send(stream: &mut Stream, inbox: &ReadBuffer, response: &[u8]) -> Result<(), StreamError> {
    let blocks = inbox.pool();
    let mut sent = 0;
    while sent < response.len() {
        sent += poll_fn(|cx| stream.poll_write(cx, &blocks, &[&response[sent..]])).await?;
    }
    poll_fn(|cx| stream.poll_finish(cx)).await
}
