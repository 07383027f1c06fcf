//! Requests to the router's port for NAT-PMP and PCP, and their answers, by UDP.
//!
//! Knows no messages: the caller says what is an answer.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::error::ProtocolFailure;

/// A socket that talks to one port of the router.
///
/// It is connected: the kernel drops what comes from other addresses or ports (RFC 6886 §3.1,
/// RFC 6887 §8.3), and tells when the port is closed.
#[derive(Debug)]
pub(super) struct ControlSocket {
    socket: UdpSocket,
    router: SocketAddrV4,
    own: SocketAddrV4,
}

/// When requests are repeated, and when they are given up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retransmission {
    /// The wait for an answer to the first request; each further one is twice as long
    /// (RFC 6886 §3.1).
    pub(super) first_wait: Duration,
    /// The end of everything.
    pub(super) end: Instant,
}

/// Requests for one answer. RFC 6886 §3.1 has nine, over two minutes: too long to wait for a router
/// that is there, and may have none of the protocols.
const TRIES: u32 = 3;

/// The longest message of PCP (RFC 6887 §7), and one octet by which longer ones are known.
const BUFFER: usize = 1100 + 1;

impl ControlSocket {
    /// A socket with a port that the kernel chooses.
    ///
    /// # Errors
    /// When there is no route to the router, or no port is free.
    pub(super) async fn connect(router: SocketAddrV4) -> Result<Self, ProtocolFailure> {
        let opened = Self::open(router).await;
        let (socket, own) = opened.map_err(ProtocolFailure::Unsent)?;
        Ok(Self {
            socket,
            router,
            own,
        })
    }

    async fn open(router: SocketAddrV4) -> io::Result<(UdpSocket, SocketAddrV4)> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        socket.connect(router).await?;
        match socket.local_addr()? {
            SocketAddr::V4(own) => Ok((socket, own)),
            SocketAddr::V6(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// The address and port of this end.
    pub(super) fn own(&self) -> SocketAddrV4 {
        self.own
    }

    /// Sends a request once, and waits for nothing.
    pub(super) fn send_once(&self, request: &[u8]) {
        let _ = self.socket.try_send(request);
    }

    /// Sends a request until there is an answer: what `parse` takes for one. All else is passed over.
    ///
    /// # Errors
    /// When the port is closed, or no answer comes in time.
    pub(super) async fn exchange<T>(
        &self,
        request: &[u8],
        retransmission: Retransmission,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<T, ProtocolFailure> {
        let began = Instant::now();
        if began >= retransmission.end {
            return Err(ProtocolFailure::NotAsked);
        }
        let mut wait = retransmission.first_wait;
        for _ in 0..TRIES {
            let sent = self.socket.send(request).await;
            sent.map_err(|error| self.failure(error))?;
            let until = retransmission.end.min(Instant::now() + wait);
            if let Ok(received) = timeout_at(until, self.receive(&parse)).await {
                return received.map_err(|error| self.failure(error));
            }
            if until == retransmission.end {
                break;
            }
            wait *= 2;
        }
        Err(ProtocolFailure::Silent(began.elapsed()))
    }

    async fn receive<T>(&self, parse: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = self.socket.recv(&mut buffer).await?;
            let received = buffer.get(..length).unwrap_or_default();
            if let Some(answer) = parse(received) {
                return Ok(answer);
            }
        }
    }

    fn failure(&self, error: io::Error) -> ProtocolFailure {
        match error.kind() {
            // The router's answer by ICMP (RFC 1122 §4.1.3.3).
            ErrorKind::ConnectionRefused => ProtocolFailure::Closed(self.router.port()),
            _ => ProtocolFailure::Unsent(error),
        }
    }
}
