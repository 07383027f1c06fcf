//! Listening sockets. One address gives every worker a socket of its own (SO_REUSEPORT), so that
//! the kernel spreads connections; a Unix socket is shared.
//!
//! TCP_NODELAY is set on the listening socket: on Linux, accepted sockets inherit it.

mod binding;

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};
use socket2::{SockFilter, SockRef};

use crate::reactor::{Interest, Registration};
use crate::socket::SocketFamily;
use crate::syscall::set_least_ttl;

pub use binding::{BindCheck, bind, set_options, try_bind};

/// The address of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// This port on all addresses, IPv6 and IPv4.
    All(u16),
    /// One local address and a port.
    Ip(SocketAddr),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(port) => write!(f, ":{port}"),
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The options of a listener.
#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// The backlog of connections per worker; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Whether the first packet may carry data (RFC 7413).
    pub fast_open: bool,
    /// Whether the first data wakes the worker, rather than the connection. Only if the client
    /// speaks first: a client that waits for a server's greeting would wait for this long.
    pub defer_accept: Option<Duration>,
}

/// The owner of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketOwner {
    /// This process bound it: closing it ends listening.
    Us,
    /// It was passed to us, and its owner keeps it open: it continues to queue connections for the
    /// next process.
    Another,
}

/// The listening sockets of one address.
#[derive(Debug)]
pub struct BoundListener {
    /// The bound address, with the port that the kernel chose for port 0.
    pub address: ListenAddress,
    /// A listening socket for each worker.
    pub sockets: Vec<OwnedFd>,
    /// The owner of the sockets.
    pub owner: SocketOwner,
}

/// The peer of an accepted connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Over TCP; an IPv4 client of a socket for both families is IPv4.
    Ip(SocketAddr),
    /// Over a Unix socket: any process that may open the file.
    Unix,
}

impl Peer {
    /// Its address, if it has one.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// A listening socket of one worker.
#[derive(Debug)]
pub struct Listener {
    fd: Registration,
    family: SocketFamily,
    owner: SocketOwner,
    syn_handling: Cell<SynHandling>,
}

/// The treatment of packets that open connections (SYN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SynHandling {
    Taken,
    /// They are dropped by a filter.
    Filtered,
    /// They are dropped for their TTL, as are, until it is reset, packets to accepted connections.
    BelowTtl,
}

impl Listener {
    /// Watches a listening socket.
    ///
    /// # Errors
    /// When the kernel has no room for another watch.
    pub fn new(fd: OwnedFd, family: SocketFamily, owner: SocketOwner) -> io::Result<Self> {
        let fd = Registration::new(fd, Interest::Read)?;
        Ok(Self {
            fd,
            family,
            owner,
            syn_handling: Cell::new(SynHandling::Taken),
        })
    }

    /// The owner of the socket.
    pub fn owner(&self) -> SocketOwner {
        self.owner
    }

    /// The family of its connections.
    pub fn family(&self) -> SocketFamily {
        self.family
    }

    /// Completes when a connection may be waiting, without accepting it.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub async fn ready(&self) -> io::Result<ReadyListener<'_>> {
        poll_fn(|cx| self.fd.poll_readable(cx)).await?;
        Ok(ReadyListener(&self.fd))
    }

    /// Refuses new connections, while begun ones can still be accepted: closing a listener resets
    /// those that are not accepted, and a client counts its connection as open before we can.
    ///
    /// Newer kernels let only CAP_NET_ADMIN attach a filter to a TCP socket. Without it, the TTL is
    /// the filter.
    ///
    /// # Errors
    /// When the kernel supports neither.
    pub fn refuse_syn(&self) -> io::Result<()> {
        match self.family {
            SocketFamily::Tcp => match SockRef::from(&self.fd).attach_filter(&DROP_OPENINGS) {
                Ok(()) => self.syn_handling.set(SynHandling::Filtered),
                Err(_) => self.refuse_by_ttl()?,
            },
            // A Unix socket's connection is in the backlog or does not exist.
            SocketFamily::Unix => {}
        }
        Ok(())
    }

    /// The kernel checks a SYN against the listener's least TTL, but not the packet that completes
    /// a handshake (`tcp_v4_rcv`, `tcp_v6_rcv`). No packet that was routed has 255, and no common
    /// system sends it; the few that do, from the same link, may still be reset.
    fn refuse_by_ttl(&self) -> io::Result<()> {
        set_least_ttl(&self.fd, u8::MAX)?;
        self.syn_handling.set(SynHandling::BelowTtl);
        Ok(())
    }

    /// Accepts one connection if one is waiting.
    ///
    /// # Errors
    /// Running out of descriptors or memory (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`): the
    /// connection stays in the backlog. A client that is gone already is no error.
    pub fn accept(&self) -> io::Result<Option<(OwnedFd, Peer)>> {
        loop {
            match rustix::net::acceptfrom_with(
                &self.fd,
                SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            ) {
                Ok((fd, address)) => {
                    if self.syn_handling.get() == SynHandling::BelowTtl {
                        // The socket inherits the listener's least TTL. The client sends again what
                        // was dropped meanwhile.
                        set_least_ttl(&fd, 0)?;
                    }
                    return Ok(Some((fd, peer(address))));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // accept(2): errors of the new connection; the listener itself still works.
                Err(
                    Errno::INTR
                    | Errno::CONNABORTED
                    | Errno::PROTO
                    | Errno::NETDOWN
                    | Errno::NOPROTOOPT
                    | Errno::HOSTDOWN
                    | Errno::NONET
                    | Errno::HOSTUNREACH
                    | Errno::OPNOTSUPP
                    | Errno::NETUNREACH,
                ) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Drops the packets that open connections and passes all others, as the kernel runs it on packets
/// to a listener (classic BPF, `linux/filter.h`): a dropped SYN is sent again later, to the next
/// listener.
const DROP_OPENINGS: [SockFilter; 5] = {
    const LOAD_BYTE: u16 = 0x30; // BPF_LD | BPF_B | BPF_ABS
    const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
    const SKIP_UNLESS_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    // RFC 9293 §3.1: the byte of the TCP header with the flags SYN (2) and ACK (16).
    [
        SockFilter::new(LOAD_BYTE, 0, 0, 13),
        SockFilter::new(AND, 0, 0, 0x12),
        SockFilter::new(SKIP_UNLESS_EQUAL, 0, 1, 0x02),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
};

/// A listener that probably has a waiting connection.
#[derive(Debug)]
pub struct ReadyListener<'a>(&'a Registration);

impl ReadyListener<'_> {
    /// Clears the readiness: there was no connection after all.
    pub fn none(self) {
        self.0.clear_readable();
    }
}

fn peer(address: Option<SocketAddrAny>) -> Peer {
    match address.and_then(|address| SocketAddr::try_from(address).ok()) {
        Some(address) => Peer::Ip(canonical(address)),
        None => Peer::Unix,
    }
}

/// The local address of a TCP connection.
///
/// # Errors
/// When the socket has none.
pub fn local_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(fd)?;
    SocketAddr::try_from(address)
        .map(canonical)
        .map_err(|_| io::ErrorKind::AddrNotAvailable.into())
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests;
