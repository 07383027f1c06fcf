//! One connection to a peer: dialled, proxy a proxy where there is one, and under TLS where it is
//! spoken.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lockgate_http::h1::parse::{self, Progress};
use lockgate_http::h1::{Limits, encode};
use lockgate_http::head::ResponseHead;
use lockgate_net::dial;
use lockgate_net::proxy_protocol::{Addresses, Tlvs, Version, encode_v1, encode_v2};
use lockgate_net::socket::Socket;
use lockgate_net::stream::{Blocks, Inbox, Stream, StreamError};
use lockgate_net::tls::handshake::{self, Established, Negotiated};

use super::{ExchangeStats, Fault};
use crate::result::Failure;
use crate::shared_link::{LinkQueue, LinkSlot};
use crate::target::{ConnectProxy, Peer};
use crate::websocket::frame::Decoder;

/// A connection that is ready for exchanges.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) stream: Stream,
    /// What was received and not used.
    pub(crate) inbox: Inbox,
    /// Exchanges that it has had.
    pub(crate) exchanges: u64,
    /// What was agreed on, if it is under TLS.
    pub(crate) tls: Option<Negotiated>,
    /// Streams that the server takes at once, where it was asked over HTTP/2 and has said so.
    pub(crate) allowed: Option<usize>,
    /// What takes messages apart, once it has become a WebSocket.
    pub(super) frames: Option<Decoder>,
    /// Its place at a slow link.
    link_slot: Option<LinkSlot>,
}

impl Transport {
    fn new(
        socket: Socket,
        established: Option<Established>,
        blocks: &Rc<Blocks>,
        link_queue: Option<&Rc<LinkQueue>>,
    ) -> Self {
        let inbox = Inbox::new(blocks);
        let link_slot = link_queue.map(LinkQueue::slot);
        if let (Some(link_slot), Some(made)) = (&link_slot, &established) {
            link_slot.pay(made.received);
        }
        let (session, unsent, tls) = match established {
            Some(made) => (Some(made.session), made.unsent, Some(made.negotiated)),
            None => (None, Vec::new(), None),
        };
        Self {
            stream: Stream::new(socket, session, unsent),
            inbox,
            exchanges: 0,
            tls,
            allowed: None,
            frames: None,
            link_slot,
        }
    }

    /// Whether nothing has come since the last exchange, no end either, as far as this side has
    /// heard.
    pub(crate) fn is_quiet(&self) -> bool {
        self.inbox.is_empty() && self.stream.is_quiet()
    }

    /// Reads what has come since the last exchange, without waiting; `None` where that is nothing,
    /// `false` when the connection has ended. Of a slow link it takes no turn: an end would
    /// wait for that too.
    pub(super) async fn read_now(&mut self, stats: &mut ExchangeStats) -> Option<bool> {
        let before = self.inbox.bytes().len();
        let read = poll_fn(|cx| Poll::Ready(self.stream.poll_read(cx, &mut self.inbox))).await;
        let come = (self.inbox.bytes().len() - before) as u64;
        stats.received += come;
        match read {
            Poll::Pending => {
                self.inbox.settle();
                None
            }
            Poll::Ready(read) => {
                if let Some(link_slot) = self.link_slot.as_ref().filter(|_| come > 0) {
                    link_slot.pay(come);
                }
                // However it ended, nothing was asked.
                Some(read.unwrap_or(false))
            }
        }
    }

    /// Reads once, behind what is there; `false` when the peer has finished.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        stats: &mut ExchangeStats,
    ) -> Poll<Result<bool, Fault>> {
        let before = self.inbox.bytes().len();
        let read = match self.link_slot {
            None => self.stream.poll_read(cx, &mut self.inbox),
            Some(_) => self.poll_read_slowly(cx),
        };
        match read {
            Poll::Ready(Ok(more)) => {
                stats.received += (self.inbox.bytes().len() - before) as u64;
                Poll::Ready(Ok(more))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Fault::broken(&error))),
            Poll::Pending => {
                self.inbox.settle();
                Poll::Pending
            }
        }
    }

    /// Reads as much as the link lets proxy; `true` may come without data.
    fn poll_read_slowly(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, StreamError>> {
        let Self {
            stream,
            inbox,
            link_slot: Some(link_slot),
            ..
        } = self
        else {
            return Poll::Ready(Ok(false));
        };
        // What came with a handshake, or in a record before this one, has passed the link.
        let (before, mut nothing) = (inbox.bytes().len(), 0);
        let opened = ready!(stream.poll_read_within(cx, inbox, &mut nothing))?;
        if !opened || inbox.bytes().len() > before {
            return Poll::Ready(Ok(opened));
        }
        ready!(stream.socket().poll_readable(cx))?;
        let piece = ready!(link_slot.poll_turn(cx));
        let mut left = piece;
        let read = stream.poll_read_within(cx, inbox, &mut left);
        link_slot.pay((piece - left) as u64);
        read
    }
}

/// Connects to `address` of `peer`, behind a slow link if there is one.
///
/// # Errors
/// Of the kinds connect, proxy and TLS.
pub(super) async fn open(
    peer: &Peer,
    address: &dial::Target,
    blocks: &Rc<Blocks>,
    link_queue: Option<&Rc<LinkQueue>>,
) -> Result<Transport, Fault> {
    let buffer = link_queue.map(|link_queue| link_queue.buffer());
    let socket = dial::dial_with_buffer(address, buffer)
        .await
        .map_err(|error| refused(address, &error))?;
    let mut preface = Vec::new();
    if let Some(version) = peer.proxy_protocol {
        let ends = ends(&socket);
        match version {
            Version::V1 => encode_v1(&mut preface, &ends),
            Version::V2 => encode_v2(&mut preface, &ends, &Tlvs::default()),
        }
    }
    if let Some(proxy) = &peer.proxy {
        send(&socket, &preface).await?;
        preface.clear();
        let socket = tunnel(socket, peer, proxy, blocks).await?;
        return under_tls(socket, peer, preface, blocks, link_queue).await;
    }
    if peer.tls.is_none() {
        send(&socket, &preface).await?;
    }
    under_tls(socket, peer, preface, blocks, link_queue).await
}

fn refused(address: &dial::Target, error: &io::Error) -> Fault {
    let again =
        matches!(address, dial::Target::Unix(_)) && error.kind() == io::ErrorKind::WouldBlock;
    // The latter is of ports, where the address of this side is not written down.
    let ours = dial::is_exhaustion(error) || error.kind() == io::ErrorKind::AddrNotAvailable;
    let whose = if ours {
        "out of resources on this machine"
    } else {
        "cannot connect"
    };
    Fault {
        again,
        ours,
        ..Fault::new(Failure::Connect, format!("{address}: {whose}: {error}"))
    }
}

async fn under_tls(
    socket: Socket,
    peer: &Peer,
    preface: Vec<u8>,
    blocks: &Rc<Blocks>,
    link_queue: Option<&Rc<LinkQueue>>,
) -> Result<Transport, Fault> {
    let Some(connector) = &peer.tls else {
        return Ok(Transport::new(socket, None, blocks, link_queue));
    };
    let established = handshake::connect(&socket, connector, &peer.host, preface)
        .await
        .map_err(|error| {
            let advice = match error.reason() {
                _ if error.is_certificate() => {
                    "; use --insecure to accept any certificate, or --ca FILE to trust its issuer"
                }
                "malformed" => "; the server may not use TLS: http, ws and tcp are without it",
                _ => "",
            };
            Fault::new(Failure::Tls, format!("{error}{advice}"))
        })?;
    Ok(Transport::new(
        socket,
        Some(established),
        blocks,
        link_queue,
    ))
}

/// Asks a proxy to connect (RFC 9110 §9.3.6).
async fn tunnel(
    socket: Socket,
    peer: &Peer,
    proxy: &ConnectProxy,
    blocks: &Rc<Blocks>,
) -> Result<Socket, Fault> {
    let fault = |text: String| Fault::new(Failure::Proxy, format!("{}: {text}", proxy.written));
    let authority = format!("{}:{}", peer.host, peer.port);
    let mut head = Vec::new();
    encode::request_line(&mut head, b"CONNECT", authority.as_bytes(), None);
    encode::field(&mut head, b"Host", authority.as_bytes());
    if let Some(authorization) = &proxy.authorization {
        encode::field(&mut head, b"Proxy-Authorization", authorization.as_bytes());
    }
    encode::end(&mut head);
    send(&socket, &head).await?;
    let mut stream = Stream::new(socket, None, Vec::new());
    let (mut inbox, mut progress, mut answer) = (
        Inbox::new(blocks),
        Progress::default(),
        ResponseHead::default(),
    );
    loop {
        let parsed = parse::response(
            inbox.bytes(),
            &mut progress,
            &Limits::default(),
            &mut answer,
        );
        match parsed.map_err(|error| fault(error.to_string()))? {
            Some(used) => {
                inbox.consume(used);
                if !answer.is_interim() {
                    break;
                }
            }
            None => match poll_fn(|cx| stream.poll_read(cx, &mut inbox)).await {
                Ok(true) => {}
                Ok(false) => return Err(fault("it closed the connection".to_owned())),
                Err(error) => return Err(fault(error.to_string())),
            },
        }
    }
    if !(200..=299).contains(&answer.status) {
        return Err(fault(format!("it responded with status {}", answer.status)));
    }
    // Whoever is asked speaks first in no protocol that we speak.
    if !inbox.is_empty() {
        return Err(fault(
            "it sent unexpected bytes after its response".to_owned(),
        ));
    }
    Ok(stream.into_parts().socket)
}

async fn send(socket: &Socket, bytes: &[u8]) -> Result<(), Fault> {
    let mut sent = 0;
    while sent < bytes.len() {
        sent += poll_fn(|cx| socket.poll_send(cx, &bytes[sent..]))
            .await
            .map_err(|error| Fault::new(Failure::Closed, error.to_string()))?;
    }
    Ok(())
}

fn ends(socket: &Socket) -> Addresses {
    let local = rustix::net::getsockname(socket)
        .ok()
        .and_then(|name| SocketAddr::try_from(name).ok());
    let remote = rustix::net::getpeername(socket)
        .ok()
        .flatten()
        .and_then(|name| SocketAddr::try_from(name).ok());
    Addresses::of(local, remote)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_this_side_has_run_out_of_is_its_own_failure() {
        let address = dial::Target::Tcp("127.0.0.1:1".parse().unwrap());
        for (errno, ours) in [
            (Errno::MFILE, true),
            (Errno::NOBUFS, true),
            (Errno::ADDRNOTAVAIL, true),
            (Errno::CONNREFUSED, false),
            (Errno::NETUNREACH, false),
        ] {
            let fault = refused(&address, &errno.into());
            assert_eq!(
                (fault.failure, fault.ours),
                (Failure::Connect, ours),
                "{}",
                fault.text
            );
        }
    }
}
