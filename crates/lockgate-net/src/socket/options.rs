//! Options of a connected socket: errors, probes, half-close, acknowledgements, limits.

use std::io;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};

use super::{ACKS_PER_MESSAGE, Socket, SocketFamily};
use crate::syscall;

/// The time between two probes of a silent peer.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);

impl Socket {
    /// The pending error of this socket, if any; reading it clears it.
    ///
    /// # Errors
    /// When the option cannot be read.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(&self.fd)?.err().map(io::Error::from))
    }

    /// Probes a silent TCP peer after `idle`, then nine times every fifteen seconds. A Unix socket
    /// needs no probes.
    ///
    /// # Errors
    /// When an option cannot be set.
    pub fn probe(&self, idle: Duration) -> io::Result<()> {
        if self.family == SocketFamily::Tcp {
            sockopt::set_socket_keepalive(&self.fd, true)?;
            sockopt::set_tcp_keepidle(&self.fd, idle)?;
            sockopt::set_tcp_keepintvl(&self.fd, PROBE_INTERVAL.min(idle))?;
        }
        Ok(())
    }

    /// Ends writing and continues reading: half-close.
    ///
    /// # Errors
    /// When the peer has reset the connection in the meantime.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.fd, Shutdown::Write)?)
    }

    /// Announces that the rest of a message is awaited, of which a piece has come: the piece is
    /// acknowledged at once, so that the peer does not wait for that. Returns whether the kernel
    /// was asked for it: only for the first pieces, until something is sent.
    pub fn await_rest(&self) -> bool {
        let asked = self.acks.asked();
        if asked < ACKS_PER_MESSAGE {
            self.acknowledge_now();
        }
        self.acks.asked() > asked
    }

    /// Acknowledges received data at once instead of with the next data that is sent
    /// (TCP_QUICKACK). Without a call if nothing was received since the last one, or something was
    /// sent.
    pub fn acknowledge_now(&self) {
        if self.family == SocketFamily::Tcp && self.acks.ask() {
            // A hint: a failure changes nothing.
            let _ = sockopt::set_tcp_quickack(&self.fd, true);
        }
    }

    /// Whether received data may be unacknowledged: nothing was sent since, and the kernel was not
    /// asked.
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        self.family == SocketFamily::Tcp && self.acks.is_due()
    }

    /// The number of requests to acknowledge at once since the last send.
    pub fn acknowledged(&self) -> u8 {
        self.acks.asked()
    }

    /// Whether nothing was sent between the last two reads.
    pub(crate) fn reads_again(&self) -> bool {
        self.acks.reads_again()
    }

    /// Limits the data in the socket to what can be sent soon: its order is fixed once it is there.
    /// With `bytes` of unsent data it is full; unacknowledged data is not counted, so that long
    /// paths are not slowed down.
    pub fn limit_unsent(&self, bytes: i32) {
        self.allowed.set(usize::try_from(bytes).unwrap_or(0));
        self.set_unsent(bytes);
    }

    pub(super) fn set_unsent(&self, bytes: i32) {
        // Other sockets than TCP have no such limit, and no such queue.
        let _ = syscall::set_unsent_limit(&self.fd, bytes);
        self.unsent.set(usize::try_from(bytes).unwrap_or(0));
    }

    /// Makes the socket readable only from this many bytes on, or at the end; the default is 1.
    pub(crate) fn wait_for(&self, bytes: usize) {
        // On failure the socket is readable sooner.
        let _ = syscall::set_low_water(&self.fd, bytes);
    }

    /// Makes the following close a reset: the peer must not take truncated data for the whole.
    pub fn reset_on_close(&self) {
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }
}
