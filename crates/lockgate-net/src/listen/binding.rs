//! Binding of listening sockets, and the check whether it would succeed.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Type};

use super::{BoundListener, ListenAddress, ListenOptions, SocketOwner};
use crate::syscall::{set_defer_accept, set_fast_open};

/// Binds `address` for `workers` workers and listens.
///
/// # Errors
/// When the address is in use, not local, or not permitted; a Unix socket file without a listener
/// is replaced.
pub fn bind(
    address: &ListenAddress,
    options: &ListenOptions,
    workers: usize,
) -> io::Result<BoundListener> {
    match address {
        ListenAddress::Ip(ip) => bind_tcp(*ip, options, workers, address),
        ListenAddress::All(port) => {
            let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port);
            match bind_tcp(v6, options, workers, address) {
                // A host without IPv6.
                Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
                    bind_tcp(
                        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                        options,
                        workers,
                        address,
                    )
                }
                bound => bound,
            }
        }
        ListenAddress::Unix(path) => bind_unix(path, options, workers, address),
    }
}

/// The extent of a trial without listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindCheck {
    /// Whether the address is local; the port may be in use.
    Address,
    /// Whether the port is free, too.
    Port,
}

/// Checks whether [`bind`] would succeed. Never listens and leaves nothing behind.
///
/// # Errors
/// Those of `bind`, as far as `trial` goes.
pub fn try_bind(address: &ListenAddress, trial: BindCheck) -> io::Result<()> {
    match (address, trial) {
        (ListenAddress::Unix(path), _) => try_bind_unix(path, trial),
        (ListenAddress::All(_), BindCheck::Address) => Ok(()),
        (ListenAddress::All(port), BindCheck::Port) => {
            let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port);
            match try_bind_tcp(v6, address) {
                Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
                    try_bind_tcp(
                        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                        address,
                    )
                }
                tried => tried,
            }
        }
        (ListenAddress::Ip(ip), BindCheck::Address) => {
            try_bind_tcp(SocketAddr::new(ip.ip(), 0), address)
        }
        (ListenAddress::Ip(ip), BindCheck::Port) => try_bind_tcp(*ip, address),
    }
}

/// Like the first socket of [`bind_tcp`]: it conflicts with every listening socket.
fn try_bind_tcp(ip: SocketAddr, address: &ListenAddress) -> io::Result<()> {
    let options = ListenOptions {
        backlog: 0,
        fast_open: false,
        defer_accept: None,
    };
    tcp_socket(ip, &options, address)?.bind(&ip.into())
}

fn try_bind_unix(path: &Path, trial: BindCheck) -> io::Result<()> {
    let local = SockAddr::unix(path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) if trial == BindCheck::Port && !is_stale(path, &local) => {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        _ => {}
    }
    Ok(rustix::fs::access(
        folder,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    )?)
}

fn bind_tcp(
    ip: SocketAddr,
    options: &ListenOptions,
    workers: usize,
    address: &ListenAddress,
) -> io::Result<BoundListener> {
    // The first socket is bound without SO_REUSEPORT: otherwise another process that has it would
    // share the port silently.
    let first = tcp_socket(ip, options, address)?;
    first.bind(&ip.into())?;
    first.set_reuse_port(true)?;
    let ip = first.local_addr()?.as_socket().unwrap_or(ip);
    let mut sockets = vec![first];
    for _ in 1..workers {
        let socket = tcp_socket(ip, options, address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&ip.into())?;
        sockets.push(socket);
    }
    for socket in &sockets {
        socket.listen(backlog(options))?;
    }
    let address = match address {
        ListenAddress::All(_) => ListenAddress::All(ip.port()),
        _ => ListenAddress::Ip(ip),
    };
    Ok(BoundListener {
        address,
        sockets: sockets.into_iter().map(OwnedFd::from).collect(),
        owner: SocketOwner::Us,
    })
}

fn tcp_socket(
    ip: SocketAddr,
    options: &ListenOptions,
    address: &ListenAddress,
) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(ip), Type::STREAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    if ip.is_ipv6() {
        socket.set_only_v6(!matches!(address, ListenAddress::All(_)))?;
    }
    socket.set_tcp_nodelay(true)?;
    if options.fast_open {
        set_fast_open(&socket, backlog(options))?;
    }
    set_defer_accept(&socket, options.defer_accept)?;
    Ok(socket)
}

/// Gives a listening socket these options; connections in its backlog stay.
///
/// # Errors
/// When the kernel refuses one.
pub fn set_options(socket: impl AsFd, options: &ListenOptions) -> io::Result<()> {
    let fd = socket.as_fd();
    let socket = socket2::SockRef::from(&fd);
    socket.listen(backlog(options))?;
    if socket.domain()? != Domain::UNIX {
        let queue = if options.fast_open {
            backlog(options)
        } else {
            0
        };
        set_fast_open(fd, queue)?;
        set_defer_accept(fd, options.defer_accept)?;
    }
    Ok(())
}

fn bind_unix(
    path: &Path,
    options: &ListenOptions,
    workers: usize,
    address: &ListenAddress,
) -> io::Result<BoundListener> {
    let local = SockAddr::unix(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    match socket.bind(&local) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path, &local) => {
            std::fs::remove_file(path)?;
            socket.bind(&local)?;
        }
        bound => bound?,
    }
    socket.listen(backlog(options))?;
    let mut sockets = Vec::new();
    for _ in 1..workers {
        sockets.push(socket.try_clone()?.into());
    }
    sockets.push(socket.into());
    Ok(BoundListener {
        address: address.clone(),
        sockets,
        owner: SocketOwner::Us,
    })
}

/// Whether a Unix socket file is stale: it has no listener. Any other file at the path is left
/// alone.
fn is_stale(path: &Path, local: &SockAddr) -> bool {
    // Symbolic links are not followed: their target may be another program's.
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return false;
    }
    let probe = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None);
    probe
        .and_then(|probe| probe.connect(local))
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn backlog(options: &ListenOptions) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}
