//! One connection to a peer: dialled, through a CONNECT proxy where there is one, and with TLS
//! where the scheme says so.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadLimits, encode};
use lockgate_http::head::ResponseHead;
use lockgate_net::dial;
use lockgate_net::proxy_protocol::{HeaderVersion, ProxiedAddresses, Tlvs, encode_v1, encode_v2};
use lockgate_net::socket::Socket;
use lockgate_net::stream::{BufferPool, ReadBuffer, Stream, StreamError};
use lockgate_net::tls::handshake::{self, Established, Negotiated};

use super::{ExchangeError, ExchangeStats};
use crate::result::FailureKind;
use crate::shared_link::{LinkQueue, LinkSlot};
use crate::target::{ConnectProxy, RemotePeer};
use crate::websocket::frame::FrameDecoder;

/// A connection that is ready for exchanges.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) stream: Stream,
    /// Bytes that were received and not parsed yet.
    pub(crate) inbox: ReadBuffer,
    /// Number of exchanges so far.
    pub(crate) exchanges: u64,
    /// The negotiated version and suite, with TLS.
    pub(crate) tls: Option<Negotiated>,
    /// Time of the TLS handshake, with TLS.
    pub(crate) tls_time: Option<Duration>,
    /// The server's limit of concurrent streams, where it speaks HTTP/2 and has sent one.
    pub(crate) max_streams: Option<usize>,
    /// Decoder of WebSocket frames, after the handshake.
    pub(super) frames: Option<FrameDecoder>,
    /// Its slot in the queue of a slow link.
    link_slot: Option<LinkSlot>,
}

impl Transport {
    fn new(
        socket: Socket,
        established: Option<Established>,
        blocks: &Rc<BufferPool>,
        link_queue: Option<&Rc<LinkQueue>>,
    ) -> Self {
        let inbox = ReadBuffer::new(blocks);
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
            tls_time: None,
            max_streams: None,
            frames: None,
            link_slot,
        }
    }

    /// Whether neither bytes nor the end of the connection has come since the last exchange, by the
    /// events so far.
    pub(crate) fn is_quiet(&self) -> bool {
        self.inbox.is_empty() && self.stream.is_quiet()
    }

    /// Reads without waiting, after the last exchange. `None`: there is nothing. `false`: the
    /// connection has ended. Takes no turn at a slow link: an end of the connection would wait for
    /// that as well.
    pub(super) async fn read_now(&mut self, stats: &mut ExchangeStats) -> Option<bool> {
        let before = self.inbox.bytes().len();
        let read = poll_fn(|cx| Poll::Ready(self.stream.poll_read(cx, &mut self.inbox))).await;
        let come = (self.inbox.bytes().len() - before) as u64;
        stats.received += come;
        match read {
            Poll::Pending => {
                self.inbox.release_block();
                None
            }
            Poll::Ready(read) => {
                if let Some(link_slot) = self.link_slot.as_ref().filter(|_| come > 0) {
                    link_slot.pay(come);
                }
                // An error is an end as well: no request was under way.
                Some(read.unwrap_or(false))
            }
        }
    }

    /// Reads once into the inbox; `false` when the peer has closed the connection.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        stats: &mut ExchangeStats,
    ) -> Poll<Result<bool, ExchangeError>> {
        // A clock is read for responses of several reads only: of the others the end is the same.
        if stats.has_begun && stats.first_byte.is_none() {
            stats.first_byte = Some(Instant::now());
        }
        let before = self.inbox.bytes().len();
        let read = match self.link_slot {
            None => self.stream.poll_read(cx, &mut self.inbox),
            Some(_) => self.poll_read_slowly(cx),
        };
        match read {
            Poll::Ready(Ok(more)) => {
                let come = (self.inbox.bytes().len() - before) as u64;
                stats.received += come;
                stats.has_begun |= come > 0;
                Poll::Ready(Ok(more))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(ExchangeError::broken(&error))),
            Poll::Pending => {
                self.inbox.release_block();
                Poll::Pending
            }
        }
    }

    /// Reads as much as the link lets through; `true` may come without data.
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
        // Bytes of a handshake, or of a TLS record that was read before, have passed the link
        // already.
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
/// Errors of the kinds connect, proxy and TLS.
pub(super) async fn open(
    peer: &RemotePeer,
    address: &dial::DialTarget,
    blocks: &Rc<BufferPool>,
    link_queue: Option<&Rc<LinkQueue>>,
) -> Result<Transport, ExchangeError> {
    let settings = dial::SocketSettings {
        receive_buffer: link_queue.map(|link_queue| link_queue.buffer()),
        source: peer.next_source(address),
    };
    let socket = dial::dial_with(address, settings)
        .await
        .map_err(|error| refused(address, &error))?;
    let mut proxy_header = Vec::new();
    if let Some(version) = peer.proxy_protocol {
        let ends = ends(&socket);
        match version {
            HeaderVersion::V1 => encode_v1(&mut proxy_header, &ends),
            HeaderVersion::V2 => encode_v2(&mut proxy_header, &ends, &Tlvs::default()),
        }
    }
    if let Some(proxy) = &peer.proxy {
        send(&socket, &proxy_header).await?;
        proxy_header.clear();
        let socket = tunnel(socket, peer, proxy, blocks).await?;
        return under_tls(socket, peer, proxy_header, blocks, link_queue).await;
    }
    if peer.tls.is_none() {
        send(&socket, &proxy_header).await?;
    }
    under_tls(socket, peer, proxy_header, blocks, link_queue).await
}

fn refused(address: &dial::DialTarget, error: &io::Error) -> ExchangeError {
    let retry =
        matches!(address, dial::DialTarget::Unix(_)) && error.kind() == io::ErrorKind::WouldBlock;
    // AddrNotAvailable means that no local port is left: source addresses were tried before the run.
    let exhausted = dial::is_exhaustion(error) || error.kind() == io::ErrorKind::AddrNotAvailable;
    let whose = if exhausted {
        "out of resources on this machine"
    } else {
        "cannot connect"
    };
    ExchangeError {
        retry,
        exhausted,
        ..ExchangeError::new(FailureKind::Connect, format!("{address}: {whose}: {error}"))
    }
}

async fn under_tls(
    socket: Socket,
    peer: &RemotePeer,
    proxy_header: Vec<u8>,
    blocks: &Rc<BufferPool>,
    link_queue: Option<&Rc<LinkQueue>>,
) -> Result<Transport, ExchangeError> {
    let Some(connector) = &peer.tls else {
        return Ok(Transport::new(socket, None, blocks, link_queue));
    };
    let begun = Instant::now();
    let established = handshake::connect(&socket, connector, &peer.host, proxy_header)
        .await
        .map_err(|error| {
            let advice = match error.reason() {
                _ if error.is_authority() => ", or use --insecure to accept any certificate",
                _ if error.is_certificate() => {
                    "; use --insecure to accept any certificate, or --ca FILE to trust its issuer"
                }
                "malformed" => "; the server may not use TLS: http, ws and tcp are without it",
                _ => "",
            };
            ExchangeError::new(FailureKind::Tls, format!("{error}{advice}"))
        })?;
    let mut transport = Transport::new(socket, Some(established), blocks, link_queue);
    transport.tls_time = Some(begun.elapsed());
    Ok(transport)
}

/// Opens a tunnel through a CONNECT proxy (RFC 9110 §9.3.6).
async fn tunnel(
    socket: Socket,
    peer: &RemotePeer,
    proxy: &ConnectProxy,
    blocks: &Rc<BufferPool>,
) -> Result<Socket, ExchangeError> {
    let fault =
        |text: String| ExchangeError::new(FailureKind::Proxy, format!("{}: {text}", proxy.written));
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
        ReadBuffer::new(blocks),
        HeadProgress::default(),
        ResponseHead::default(),
    );
    loop {
        let parsed = parse::response(
            inbox.bytes(),
            &mut progress,
            &HeadLimits::default(),
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
    // In all protocols of this generator the client speaks first.
    if !inbox.is_empty() {
        return Err(fault(
            "it sent unexpected bytes after its response".to_owned(),
        ));
    }
    Ok(stream.into_parts().socket)
}

async fn send(socket: &Socket, bytes: &[u8]) -> Result<(), ExchangeError> {
    let mut sent = 0;
    while sent < bytes.len() {
        sent += poll_fn(|cx| socket.poll_send(cx, &bytes[sent..]))
            .await
            .map_err(|error| ExchangeError::new(FailureKind::Closed, error.to_string()))?;
    }
    Ok(())
}

fn ends(socket: &Socket) -> ProxiedAddresses {
    let local = rustix::net::getsockname(socket)
        .ok()
        .and_then(|name| SocketAddr::try_from(name).ok());
    let remote = rustix::net::getpeername(socket)
        .ok()
        .flatten()
        .and_then(|name| SocketAddr::try_from(name).ok());
    ProxiedAddresses::of(local, remote)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn exhausted_ports_and_descriptors_are_failures_of_this_side() {
        let address = dial::DialTarget::Tcp("127.0.0.1:1".parse().unwrap());
        for (errno, exhausted) in [
            (Errno::MFILE, true),
            (Errno::NOBUFS, true),
            (Errno::ADDRNOTAVAIL, true),
            (Errno::CONNREFUSED, false),
            (Errno::NETUNREACH, false),
        ] {
            let fault = refused(&address, &errno.into());
            assert_eq!(
                (fault.failure, fault.exhausted),
                (FailureKind::Connect, exhausted),
                "{}",
                fault.text
            );
        }
    }
}
