//! The addresses of this machine's network interfaces, and when they or the default route change, as the
//! kernel tells it by rtnetlink(7).
//!
//! Judges no address: which one others can reach, its user decides.

mod message;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::syscall;

pub use message::{DumpPart, MessageError, parse_dump, tells_change};

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The index of the interface.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// Whether the kernel uses it as usual: it is neither tentative (RFC 4862 §5.4), nor has another
    /// machine the same one, nor is it deprecated (§5.5.4).
    pub usable: bool,
    /// A temporary one (RFC 8981), which is another one tomorrow. IPv4 has none.
    pub temporary: bool,
}

/// Bytes of a message of the kernel, which makes none longer than 32 KiB.
const BUFFER: usize = 64 << 10;
/// The most messages of one answer.
const MOST_MESSAGES: usize = 1024;
/// How often the kernel is asked for a list that did not change meanwhile.
const TRIES: u32 = 4;

/// The groups that tell of changed addresses and routes (rtnetlink(7)).
const IPV4_ADDRESSES: u32 = 0x10;
const IPV4_ROUTES: u32 = 0x40;
const IPV6_ADDRESSES: u32 = 0x100;

/// All addresses of this network namespace, in the order of the kernel.
///
/// # Errors
/// When the kernel refuses, or its answer cannot be read.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    for _ in 0..TRIES {
        if let Some(addresses) = list()? {
            return Ok(addresses);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::Interrupted,
        "the addresses of this machine keep changing",
    ))
}

/// The index of an interface; none if there is no such interface.
///
/// # Errors
/// When the kernel has no room for a socket.
pub fn interface_index(name: &str) -> io::Result<Option<u32>> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    match rustix::net::netdevice::name_to_index(&socket, name) {
        Ok(index) => Ok(Some(index)),
        Err(Errno::NODEV | Errno::NXIO | Errno::INVAL | Errno::NAMETOOLONG) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Asks once; none where addresses have changed meanwhile.
fn list() -> io::Result<Option<Vec<InterfaceAddress>>> {
    let socket = netlink_socket(0, SocketFlags::CLOEXEC)?;
    rustix::net::send(&socket, &message::dump_request(), SendFlags::empty())?;
    // The kernel has made the first part before send(2) returned, and makes each further one while
    // it is received: none of this waits for anything.
    let (mut found, mut changed) = (Vec::new(), false);
    let mut buffer = vec![0; BUFFER];
    for _ in 0..MOST_MESSAGES {
        let Some(length) = receive(&socket, &mut buffer)? else {
            continue;
        };
        let part = parse_dump(&buffer[..length]).map_err(io::Error::other)?;
        found.extend(part.addresses);
        changed |= part.interrupted;
        if part.done {
            return Ok((!changed).then_some(found));
        }
    }
    Err(io::Error::other(MessageError::TooLong))
}

/// Tells when an address has come, gone, or changed its state, and when a default route of IPv4 has. An
/// address that is merely confirmed, as routers do for those of IPv6, counts as well. To be used in a
/// runtime of tokio with IO.
#[derive(Debug)]
pub struct NetworkChanges {
    socket: AsyncFd<OwnedFd>,
}

impl NetworkChanges {
    /// Begins to look.
    ///
    /// # Errors
    /// When the kernel has no room for a socket.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
        let groups = IPV4_ADDRESSES | IPV6_ADDRESSES | IPV4_ROUTES;
        let socket = netlink_socket(groups, flags)?;
        Ok(Self {
            socket: syscall::watch(socket, Interest::READABLE)?,
        })
    }

    /// Waits for the next change; several at once count as one.
    ///
    /// # Errors
    /// When the socket has failed.
    pub async fn changed(&self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let mut ready = self.socket.readable().await?;
            let mut some = false;
            for _ in 0..MOST_MESSAGES {
                match receive(self.socket.get_ref(), &mut buffer) {
                    Ok(received) => {
                        let message = received.and_then(|length| buffer.get(..length));
                        some |= message.is_some_and(tells_change);
                    }
                    // Some were lost, as there were too many.
                    Err(error) if is(&error, Errno::NOBUFS) => some = true,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready.clear_ready();
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if some {
                return Ok(());
            }
        }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// A socket for the routing family (NETLINK_ROUTE) that gets the messages of these groups.
fn netlink_socket(groups: u32, flags: SocketFlags) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// The length of the next message; none for one that another process has sent.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let (length, _, from) = rustix::net::recvfrom(socket, buffer, RecvFlags::empty())?;
    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
    Ok(from.is_some_and(|from| from.pid() == 0).then_some(length))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        let index = interface_index("lo").unwrap().unwrap();
        let addresses = interface_addresses().unwrap();
        let of_loopback = addresses.iter().filter(|one| one.interface == index);
        let found: Vec<_> = of_loopback.map(|one| one.address).collect();
        assert!(
            found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)),
            "{addresses:?}"
        );
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_index() {
        assert_eq!(interface_index("no-such-if").unwrap(), None);
        assert_eq!(interface_index(&"x".repeat(80)).unwrap(), None);
        assert_eq!(interface_index("").unwrap(), None);
    }

    #[test]
    fn the_kernel_takes_a_watch_of_network_changes() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(async {
            let changes = NetworkChanges::new().unwrap();
            let early = std::pin::pin!(changes.changed());
            // What was before is no change.
            assert!(first_poll(early).is_none());
        });
    }

    /// What a future has at its first poll.
    fn first_poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut cx) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
