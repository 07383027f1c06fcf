//! One plain connection, from either end, over TCP or a Unix socket.
//!
//! Panics on an unmet expectation, like everything in tests. Knows no protocol.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use crate::DEADLINE;

/// A connected stream; every read and write ends after [`DEADLINE`].
#[derive(Debug)]
pub struct Wire(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Wire {
    /// Connects over TCP.
    ///
    /// # Panics
    /// When there is no listener.
    pub fn connect(to: SocketAddr) -> Self {
        TcpStream::connect_timeout(&to, DEADLINE)
            .expect("somebody listens")
            .into()
    }

    /// Connects over TCP from the address `from`: all of 127.0.0.0/8 is this machine.
    ///
    /// # Panics
    /// When there is no listener.
    pub fn connect_from(from: IpAddr, to: SocketAddr) -> Self {
        let family = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("descriptors are left");
        rustix::net::bind(&socket, &SocketAddr::new(from, 0)).expect("an address of this machine");
        rustix::net::connect(&socket, &to).expect("somebody listens");
        TcpStream::from(socket).into()
    }

    /// Connects over TCP, with a small receive buffer in the kernel: some 16 KB.
    ///
    /// # Panics
    /// When there is no listener.
    pub fn connect_narrow(to: SocketAddr) -> Self {
        let family = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("descriptors are left");
        // Before there is a connection: a window never shrinks.
        sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024).expect("a size that there is");
        rustix::net::connect(&socket, &to).expect("somebody listens");
        TcpStream::from(socket).into()
    }

    /// Connects to a Unix socket.
    ///
    /// # Panics
    /// When there is no listener.
    pub fn connect_unix(to: &Path) -> Self {
        UnixStream::connect(to).expect("somebody listens").into()
    }

    /// Sends everything.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.write_all(bytes.as_ref())
            .expect("the peer takes what is sent");
    }

    /// Reads as many bytes as `bytes` has, and checks that they are equal.
    ///
    /// # Panics
    /// When they are not.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let read = self.exactly(bytes.len());
        assert!(
            read == bytes,
            "expected {:?}, got {:?}",
            shown(bytes),
            shown(&read)
        );
    }

    /// Sends zeros until no more are taken: all buffers on the way are full.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn fill(&mut self) {
        let quiet = Timespec {
            tv_sec: 0,
            tv_nsec: 500_000_000,
        };
        loop {
            let mut polled = [PollFd::new(&*self, PollFlags::OUT)];
            if poll(&mut polled, Some(&quiet)).expect("a socket can be polled") == 0 {
                return;
            }
            let sent = rustix::net::send(
                &*self,
                &[0; 65_536],
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
            match sent {
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(error) => panic!("the connection is there: {error}"),
            }
        }
    }

    /// Reads exactly `len` bytes.
    ///
    /// # Panics
    /// When they do not arrive.
    pub fn exactly(&mut self, len: usize) -> Vec<u8> {
        let mut read = vec![0; len];
        self.read_exact(&mut read).expect("the peer sends enough");
        read
    }

    /// Reads until the peer ends.
    ///
    /// # Panics
    /// When it does not end by a close.
    pub fn rest(&mut self) -> Vec<u8> {
        let (read, end) = self.end();
        end.expect("the peer ends in an orderly way");
        read
    }

    /// Reads until the peer ends, and returns the end: `Ok` is a close, `Err` a reset, for example.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(&mut self) -> (Vec<u8>, io::Result<()>) {
        until_end(self, Vec::new())
    }

    /// Waits until the peer has ended in any way; bytes before it are dropped.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_closed(&mut self) {
        let _ = self.end();
    }

    /// Checks that the peer closes without sending more.
    ///
    /// # Panics
    /// When it does not.
    pub fn expect_end(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "expected the end, got {:?}", shown(&rest));
    }

    /// Checks that the peer resets the connection; bytes before it are dropped.
    ///
    /// # Panics
    /// When it closes it or does nothing.
    pub fn expect_reset(&mut self) {
        let (_, end) = self.end();
        let kind = end.expect_err("a reset").kind();
        assert_eq!(kind, io::ErrorKind::ConnectionReset);
    }

    /// Half-closes the connection; reading goes on.
    ///
    /// # Panics
    /// When the connection is broken.
    pub fn finish(&mut self) {
        let done = match &self.0 {
            Kind::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Kind::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        done.expect("the connection is there");
    }

    /// Resets the connection: RST over TCP, a mere close over a Unix socket.
    ///
    /// # Panics
    /// When the socket option cannot be set.
    pub fn reset(self) {
        sockopt::set_socket_linger(&self, Some(Duration::ZERO))
            .expect("an option that all sockets have");
    }

    /// Sends everything and finishes, while it reads until the peer ends; returns the bytes.
    ///
    /// # Panics
    /// When either fails.
    pub fn exchange(mut self, out: impl AsRef<[u8]> + Send) -> Vec<u8> {
        let mut writer = self.another();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                writer.send(out);
                writer.finish();
            });
            self.rest()
        })
    }

    /// Whether there is no data now and within `wait`.
    ///
    /// # Panics
    /// When `wait` is too long for the system.
    pub fn is_quiet(&self, wait: Duration) -> bool {
        let wait = Timespec::try_from(wait).expect("a short time");
        let mut polled = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
        poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready == 0)
    }

    /// Another handle of the same connection.
    ///
    /// # Panics
    /// When descriptors run out.
    pub fn another(&self) -> Self {
        Self(match &self.0 {
            Kind::Tcp(stream) => Kind::Tcp(stream.try_clone().expect("descriptors are left")),
            Kind::Unix(stream) => Kind::Unix(stream.try_clone().expect("descriptors are left")),
        })
    }

    /// The address of this end.
    ///
    /// # Panics
    /// Over a Unix socket.
    pub fn local_address(&self) -> SocketAddr {
        let Kind::Tcp(stream) = &self.0 else {
            panic!("a Unix socket has no address")
        };
        stream.local_addr().expect("a connected socket has one")
    }

    /// The address of the other end.
    ///
    /// # Panics
    /// Over a Unix socket.
    pub fn peer_address(&self) -> SocketAddr {
        let Kind::Tcp(stream) = &self.0 else {
            panic!("a Unix socket has no address")
        };
        stream.peer_addr().expect("a connected socket has one")
    }

    /// Ends every later read and write after `limit` instead of [`DEADLINE`], with `WouldBlock`.
    ///
    /// # Panics
    /// When `limit` is zero.
    pub fn limit(&self, limit: Duration) {
        let set = match &self.0 {
            Kind::Tcp(stream) => stream
                .set_read_timeout(Some(limit))
                .and(stream.set_write_timeout(Some(limit))),
            Kind::Unix(stream) => stream
                .set_read_timeout(Some(limit))
                .and(stream.set_write_timeout(Some(limit))),
        };
        set.expect("a limit above zero");
    }
}

impl From<TcpStream> for Wire {
    fn from(stream: TcpStream) -> Self {
        // A test's small writes must leave as they are.
        stream
            .set_nodelay(true)
            .expect("an option that all TCP sockets have");
        let wire = Self(Kind::Tcp(stream));
        wire.limit(DEADLINE);
        wire
    }
}

impl From<UnixStream> for Wire {
    fn from(stream: UnixStream) -> Self {
        let wire = Self(Kind::Unix(stream));
        wire.limit(DEADLINE);
        wire
    }
}

impl Read for Wire {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Tcp(stream) => stream.read(buf),
            Kind::Unix(stream) => stream.read(buf),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Tcp(stream) => stream.write(buf),
            Kind::Unix(stream) => stream.write(buf),
        }
    }

    /// In one call: a flight of TLS leaves whole, like that of every client.
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Tcp(stream) => stream.write_vectored(bufs),
            Kind::Unix(stream) => stream.write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Tcp(stream) => stream.as_fd(),
            Kind::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Reads until `stream` ends, behind the bytes in `read`, and returns its end. A timeout is no end.
///
/// # Panics
/// When it does not end.
pub(crate) fn until_end(stream: &mut impl Read, mut read: Vec<u8>) -> (Vec<u8>, io::Result<()>) {
    let end = stream.read_to_end(&mut read).map(drop);
    let waits = end
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    assert!(!waits, "the peer does not end; it sent {}", shown(&read));
    (read, end)
}

/// The part of some bytes that fits into the message of a failed test.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let head = bytes.get(..200).unwrap_or(bytes);
    format!("{} bytes {}", bytes.len(), head.escape_ascii())
}

/// `len` pseudo-random bytes, the same for the same `seed`: lost, doubled or moved bytes show.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut made = Vec::with_capacity(len + 8);
    while made.len() < len {
        // xorshift64: Marsaglia, "Xorshift RNGs", 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        made.extend_from_slice(&state.to_le_bytes());
    }
    made.truncate(len);
    made
}
