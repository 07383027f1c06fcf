//! Sockets that connect to an endpoint. Does not choose one, resolve its name or time out: that is
//! the caller's.

mod race;

pub use race::{interleave, race};

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::socket::{Socket, SocketFamily};
use crate::syscall;

/// The address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DialTarget {
    /// An IP address and a port, for TCP.
    Tcp(SocketAddr),
    /// A Unix socket, looked up by its path at every dial: the file may be replaced at any time.
    Unix(PathBuf),
}

impl fmt::Display for DialTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Connects without Nagle's algorithm (RFC 896). The relay enables keep-alive probes later.
///
/// # Errors
/// Those of connect(2). [`io::ErrorKind::WouldBlock`] is a Unix socket with a full backlog: worth
/// another try soon.
pub async fn dial(target: &DialTarget) -> io::Result<Socket> {
    dial_with(target, SocketSettings::default()).await
}

/// Settings of a socket before it connects. Unix sockets have none of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketSettings {
    /// Bytes of the receive buffer, in the kernel's accounting (SO_RCVBUF, socket(7)): a small one
    /// makes the peer feel how slowly we read.
    pub receive_buffer: Option<usize>,
    /// The source address, of the target's family; the kernel chooses the port when it connects.
    pub source: Option<IpAddr>,
}

/// As [`dial`], with these settings.
///
/// # Errors
/// As [`dial`], and those of bind(2) where there is a source address.
pub async fn dial_with(target: &DialTarget, settings: SocketSettings) -> io::Result<Socket> {
    match target {
        DialTarget::Tcp(address) => dial_tcp(*address, settings).await,
        DialTarget::Unix(path) => dial_unix(path),
    }
}

async fn dial_tcp(address: SocketAddr, settings: SocketSettings) -> io::Result<Socket> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let fd = rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
    if let Some(bytes) = settings.receive_buffer {
        // Before connecting: the window scale of the connection depends on it (tcp(7)).
        sockopt::set_socket_recv_buffer_size(&fd, bytes)?;
    }
    if let Some(source) = settings.source {
        syscall::set_bind_without_port(&fd)?;
        rustix::net::bind(&fd, &SocketAddr::new(source, 0))?;
    }
    match rustix::net::connect(&fd, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let socket = Socket::connecting(fd, SocketFamily::Tcp)?;
    socket.connected().await?;
    Ok(socket)
}

fn dial_unix(path: &Path) -> io::Result<Socket> {
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
    Socket::connecting(fd, SocketFamily::Unix)
}

/// Whether an error of [`dial`] is local: descriptors or memory have run out, of the process or the
/// system. Another endpoint would fail as well.
pub fn is_exhaustion(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| {
        [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
            .contains(&Errno::from_raw_os_error(code))
    })
}

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
