//! Packets with descriptors between the two processes of a handover: a pair of Unix sockets.
//!
//! Knows no message.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair,
};

/// The most descriptors of a packet; the kernel takes 253 (`SCM_MAX_FD`).
pub(super) const MOST_DESCRIPTORS: usize = 200;
/// The most bytes of a packet: a few of them fit into the buffer of a socket.
pub(super) const MOST_BYTES: usize = 32 << 10;

/// One end of the pair.
pub(super) struct PacketSocket(OwnedFd);

/// A packet as it arrives.
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl PacketSocket {
    /// An end for this process, which never blocks, and one for a child.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::io::ioctl_fionbio(&own, true)?;
        Ok((Self(own), other))
    }

    /// The end that a process was started with; blocks.
    pub(super) fn of(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Limits the wait for a packet from now on: what does not come in time would block.
    ///
    /// # Errors
    /// When it is no socket.
    pub(super) fn limit_wait(&self, limit: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Recv, limit)?)
    }

    /// Ends both directions, also for duplicates of this end.
    pub(super) fn hang_up(&self) {
        // The other end may be gone.
        let _ = shutdown(&self.0, Shutdown::Both);
    }

    /// A duplicate of this end.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(super) fn duplicate(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Sends a packet, which must not be empty.
    ///
    /// # Errors
    /// What the system says; `WouldBlock` when the other end must read first.
    pub(super) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        loop {
            let bytes = [IoSlice::new(bytes)];
            match sendmsg(&self.0, &bytes, &mut control, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// The next packet; `None` when the other end is closed.
    ///
    /// # Errors
    /// What the system says, or a packet that is too long; `WouldBlock` when there is none.
    pub(super) fn receive(&self) -> io::Result<Option<Packet>> {
        let mut bytes = vec![0; MOST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut bytes = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        let descriptors: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        if received
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a packet was cut: too long, or no descriptor is left",
            ));
        }
        bytes.truncate(received.bytes);
        Ok((received.bytes > 0).then_some(Packet { bytes, descriptors }))
    }

    /// Waits until a packet can be received or sent, or `ended` is readable; returns whether that is.
    ///
    /// # Errors
    /// `TimedOut` when it is `until` first.
    pub(super) fn wait(
        &self,
        flags: PollFlags,
        ended: Option<BorrowedFd<'_>>,
        until: Instant,
    ) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            let mut waited = vec![PollFd::new(&self.0, flags)];
            waited.extend(ended.map(|ended| PollFd::from_borrowed_fd(ended, PollFlags::IN)));
            match poll(&mut waited, Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => {
                    let ended = waited.get(1);
                    return Ok(ended.is_some_and(|ended| !ended.revents().is_empty()));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_packet_arrives_whole_with_its_descriptors() {
        let (own, other) = PacketSocket::pair().unwrap();
        let other = PacketSocket::of(other);
        let (mut reader, writer) = io::pipe().unwrap();
        own.send(b"first", &[writer.as_fd()]).unwrap();
        own.send(b"second", &[]).unwrap();
        drop(writer);
        let first = other.receive().unwrap().unwrap();
        assert_eq!(first.bytes, b"first");
        let [writer] = <[OwnedFd; 1]>::try_from(first.descriptors).unwrap();
        rustix::io::write(&writer, b"through the copy").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the copy");
        let second = other.receive().unwrap().unwrap();
        assert!(second.bytes == b"second" && second.descriptors.is_empty());
        drop(own);
        assert!(other.receive().unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_received_yet_would_block() {
        let (own, other) = PacketSocket::pair().unwrap();
        let error = own.receive().err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let waiting = PacketSocket::of(other);
        waiting.limit_wait(Some(Duration::from_millis(1))).unwrap();
        let error = waiting.receive().err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let (never, _writer) = io::pipe().unwrap();
        for ended in [None, Some(never.as_fd())] {
            let error = own.wait(PollFlags::IN, ended, Instant::now()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
    }
}
