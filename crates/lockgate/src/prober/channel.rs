//! One connection of a check: text out, bytes in, with or without TLS. The caller bounds what is
//! read, and sets the deadline.

use std::future::poll_fn;
use std::io;

use lockgate_net::socket::Socket;
use lockgate_net::tls::session::TlsSession;

/// What one read asks for: a record of TLS, and most answers.
const READ: usize = 16 * 1024;

/// A connection, and what of its records is unread.
pub(crate) struct Channel {
    socket: Socket,
    tls: Option<(Box<TlsSession>, Vec<u8>)>,
}

impl Channel {
    /// Over `socket`, under `session` if there is one.
    pub(crate) fn new(socket: Socket, session: Option<Box<TlsSession>>) -> Self {
        let tls = session.map(|mut session| {
            let partial = session.take_partial();
            (session, partial)
        });
        Self { socket, tls }
    }

    /// Sends all of it.
    pub(crate) async fn send(&mut self, text: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => send(&self.socket, text).await,
            Some((session, _)) => {
                let mut sealed = vec![0; TlsSession::sealed_len(text.len())];
                let used = session.seal(text, &mut sealed).map_err(io::Error::other)?;
                send(&self.socket, sealed.get(..used).unwrap_or_default()).await
            }
        }
    }

    /// Appends what comes next to `received`; false at the end.
    pub(crate) async fn receive(&mut self, received: &mut Vec<u8>) -> io::Result<bool> {
        let Some((session, wire)) = &mut self.tls else {
            return receive(&self.socket, received).await;
        };
        let early = session.take_early();
        received.extend_from_slice(&early);
        if !early.is_empty() {
            return Ok(true);
        }
        loop {
            let from = received.len();
            received.resize(from + wire.len(), 0);
            let opened = session.open(wire, received.get_mut(from..).unwrap_or_default());
            let opened = opened.map_err(io::Error::other)?;
            received.truncate(from + opened.produced);
            wire.drain(..opened.consumed);
            if opened.produced > 0 {
                return Ok(true);
            }
            if session.is_closed() {
                return Ok(false);
            }
            let mut owed = Vec::new();
            session.seal_owed(&mut owed).map_err(io::Error::other)?;
            send(&self.socket, &owed).await?;
            // Without a close_notify an end may be a truncation: the reader sees whether
            // anything is missing.
            if !receive(&self.socket, wire).await? {
                return Ok(false);
            }
        }
    }

    /// Says goodbye where TLS has a word for it.
    pub(crate) async fn close(mut self) {
        if let Some((session, _)) = &mut self.tls {
            let mut farewell = Vec::new();
            session.seal_close(&mut farewell);
            // The answer is there: that the peer has gone already is no news.
            let _ = send(&self.socket, &farewell).await;
        }
    }
}

async fn send(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| socket.poll_send(cx, bytes)).await?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

async fn receive(socket: &Socket, received: &mut Vec<u8>) -> io::Result<bool> {
    let from = received.len();
    received.resize(from + READ, 0);
    let read =
        poll_fn(|cx| socket.poll_recv(cx, received.get_mut(from..).unwrap_or_default())).await;
    received.truncate(from + *read.as_ref().unwrap_or(&0));
    Ok(read? > 0)
}
