//! System calls without a safe wrapper: some socket options, and watching a descriptor; and one
//! instruction of the processor. The only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with tokio's runtime, in threads other than workers.
///
/// # Errors
/// When the kernel has no room for another watch.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: a watched descriptor must stay the same open descriptor until it is dropped. An
    // `OwnedFd` does: nothing can close or replace it while it is owned, and no code takes it out
    // of the `AsyncFd` by `get_mut`.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// Allows data in the first packet to a listener (TCP_FASTOPEN, RFC 7413), for `queue` connections
/// at a time.
///
/// # Errors
/// When the kernel has no fast open.
pub(crate) fn set_fast_open(fd: impl AsFd, queue: i32) -> io::Result<()> {
    set_tcp_int(fd, libc::TCP_FASTOPEN, queue)
}

/// Wakes the acceptor with the first data instead of with the connection (TCP_DEFER_ACCEPT); after
/// `wait`, which is rounded up to a step of retransmission, a silent connection is accepted all the
/// same. Without `wait` it does not.
///
/// # Errors
/// When the socket is not TCP.
pub(crate) fn set_defer_accept(fd: impl AsFd, wait: Option<Duration>) -> io::Result<()> {
    let seconds = wait.map_or(0, |wait| wait.as_secs().max(1));
    let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    set_tcp_int(fd, libc::TCP_DEFER_ACCEPT, seconds)
}

/// Makes a socket full with `bytes` of unsent data (TCP_NOTSENT_LOWAT), so that it holds no more
/// than it can send soon.
///
/// # Errors
/// When the socket is not TCP.
pub(crate) fn set_unsent_limit(fd: impl AsFd, bytes: i32) -> io::Result<()> {
    set_tcp_int(fd, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Makes a socket readable only from this many bytes on, or at its end (SO_RCVLOWAT, socket(7)).
/// The kernel makes room for them, and without room the socket is readable earlier.
///
/// # Errors
/// When the descriptor is no socket.
pub(crate) fn set_low_water(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    set_int(
        fd,
        libc::SOL_SOCKET,
        libc::SO_RCVLOWAT,
        i32::try_from(bytes).unwrap_or(i32::MAX),
    )
}

/// Sets the least TTL of a packet that a socket accepts (IP_MINTTL and IPV6_MINHOPCOUNT, RFC 5082);
/// 0 accepts all. On an IPv6 socket it applies to IPv4 as well.
///
/// # Errors
/// When the socket is of neither family.
pub(crate) fn set_least_ttl(fd: impl AsFd, least: u8) -> io::Result<()> {
    let (fd, least) = (fd.as_fd(), libc::c_int::from(least));
    if rustix::net::sockopt::socket_domain(fd)? == rustix::net::AddressFamily::INET6 {
        set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, least)?;
    }
    set_int(fd, libc::IPPROTO_IP, libc::IP_MINTTL, least)
}

/// Leaves the choice of a port to connect(2), where bind(2) gives an address only
/// (IP_BIND_ADDRESS_NO_PORT): a port is then taken for one address and peer, not for all peers.
///
/// # Errors
/// When the descriptor is no Internet socket.
pub(crate) fn set_bind_without_port(fd: impl AsFd) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// The supplementary groups of the process at the other end of a Unix socket, as they were when it
/// connected (SO_PEERGROUPS, unix(7)).
///
/// # Errors
/// When the descriptor is no connected Unix socket.
pub fn peer_groups(fd: impl AsFd) -> io::Result<Vec<u32>> {
    let fd = fd.as_fd();
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut size = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the descriptor is borrowed, so it is open for the whole call; the kernel writes
        // at most `size` bytes to the live buffer, which has that many, and the length to `size`.
        let result = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut size,
            )
        };
        let error = io::Error::last_os_error();
        let count = size as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        // With ERANGE the kernel has written the length that it needs.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

/// The user of the process at the other end of a Unix socket (SO_PEERCRED, unix(7)): for a client, as
/// the server was when it began to listen.
///
/// # Errors
/// When the descriptor is no connected Unix socket.
pub fn peer_user(fd: impl AsFd) -> io::Result<u32> {
    let fd = fd.as_fd();
    // rustix has the call, but no process 0, as which one of another PID namespace appears. An
    // unconnected socket has these numbers.
    let mut peer = libc::ucred {
        pid: 0,
        uid: libc::uid_t::MAX,
        gid: libc::gid_t::MAX,
    };
    let mut size = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the descriptor is borrowed, so it is open for the whole call; the kernel writes at
    // most `size` bytes to the live value, which has that many, and any bytes are valid numbers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    match peer.uid {
        libc::uid_t::MAX => Err(io::ErrorKind::NotConnected.into()),
        user => Ok(user),
    }
}

/// Whether something keeps the clock of this machine right, as NTP does (adjtimex(2)). Changes
/// nothing.
///
/// # Errors
/// When a filter of system calls forbids the question.
pub fn is_clock_synchronized() -> io::Result<bool> {
    // SAFETY: the structure has only numbers, for which zeroes are valid.
    let mut answer: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes one live `timex`; without a mode it sets nothing.
    let state = unsafe { libc::adjtimex(&raw mut answer) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(state != libc::TIME_ERROR && answer.status & libc::STA_UNSYNC == 0)
}

fn set_tcp_int(fd: impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, option, value)
}

fn set_int(
    fd: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let fd = fd.as_fd();
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is borrowed, so it is open for the whole call; the pointer is to a
    // live integer of the given size, and the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has the processor fetch the cache line of an address, which need not be mapped. The standard library
/// has the instruction of x86-64 only; elsewhere this does nothing.
#[inline]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction changes nothing that a program can see, and faults for no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
