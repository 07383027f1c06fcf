//! The flow-control windows for bodies that the other side has not taken. Those for a client's uploads
//! grow while endpoints take them: a client that only fills our memory gets no more of it. Those for an
//! endpoint's responses stay.

use lockgate_http::h2::Connection;
use lockgate_net::memory::{self, MemoryLevel};

use super::super::stream_slot::StreamSlot;

/// The initial window of HTTP/2 (RFC 9113 §6.9.2): the first one of a body, and the least one of a
/// connection.
const FIRST: u32 = 65_535;
/// The bodies that the window of a connection has room for in flight.
const BODIES: u32 = 16;

/// The windows of one connection.
///
/// What we keep of bodies that nothing takes does not count against the connection's window, so that
/// other bodies go on: up to as much again as that window may be.
#[derive(Debug)]
pub(super) struct BodyWindows {
    stream: u32,
    connection: u32,
    most_stream: u32,
    most_connection: u32,
    /// Bytes of bodies that were used.
    used: u64,
    /// The same when they last grew.
    since: u64,
}

impl BodyWindows {
    /// The first windows of a connection with these limits.
    pub(super) fn new(most_stream: u32, most_connection: u32) -> Self {
        let stream = FIRST.min(most_stream);
        Self {
            stream,
            connection: Self::connection_for(stream, most_connection),
            most_stream,
            most_connection,
            used: 0,
            since: 0,
        }
    }

    /// Windows of a connection to an endpoint, which stay: each stream has all of its own.
    pub(super) fn fixed(stream: u32, connection: u32) -> Self {
        Self {
            stream,
            connection,
            most_stream: stream,
            most_connection: connection,
            used: 0,
            since: 0,
        }
    }

    fn connection_for(stream: u32, most_connection: u32) -> u32 {
        stream
            .saturating_mul(BODIES)
            .min(most_connection)
            .max(FIRST)
    }

    /// The window of one body.
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }

    /// The window of all bodies.
    pub(super) fn connection(&self) -> u32 {
        self.connection
    }

    /// The bytes of bodies that may be kept beside the connection's window.
    pub(super) fn most_kept(&self) -> usize {
        self.most_connection as usize
    }

    /// Notes that the other side, or we, have used data.
    pub(super) fn note_used(&mut self, bytes: usize) {
        self.used += bytes as u64;
    }

    /// Grows them when endpoints have taken a few times what one body may have.
    pub(super) fn grow(&mut self, connection: &mut Connection<StreamSlot>) {
        if self.stream >= self.most_stream || self.used - self.since < 4 * u64::from(self.stream) {
            return;
        }
        // Larger windows would let bodies that nothing takes stop the others.
        let is_stalled = connection.kept_bytes() > self.most_kept() / 2;
        if is_stalled || MemoryLevel::Easy < memory::level() {
            return;
        }
        let stream = self.stream.saturating_mul(2).min(self.most_stream);
        let whole = Self::connection_for(stream, self.most_connection).max(self.connection);
        // It fails as long as the client has not taken up the last change.
        if connection.grow_windows(stream, whole) {
            (self.stream, self.connection, self.since) = (stream, whole, self.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u32 = 1 << 20;

    #[test]
    fn windows_begin_small_and_grow_to_their_limits() {
        for (most_stream, most_connection) in [
            (65_536, 65_536),
            (MB, 8 * MB),
            (MB, MB),
            (u32::MAX >> 1, u32::MAX >> 1),
        ] {
            let windows = BodyWindows::new(most_stream, most_connection);
            assert_eq!(windows.stream(), FIRST);
            assert!((FIRST..=most_connection).contains(&windows.connection()));
            assert_eq!(windows.most_kept(), most_connection as usize);
            let grown = BodyWindows::connection_for(most_stream, most_connection);
            assert_eq!(grown, most_connection);
        }
        assert_eq!(BodyWindows::new(MB, 8 * MB).connection(), 16 * FIRST);
    }
}
