//! Settings of both sides (RFC 9113 §6.5), and the rules for their values.

use super::frame_header;
use super::frames::SETTINGS;
use super::windows::{DEFAULT_WINDOW, MAX_WINDOW};
use super::{ConnectionError, Role};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
/// RFC 8441 §3.
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
/// RFC 9218 §2.1: the priorities of RFC 7540 have no meaning.
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// What we allow the peer. It is sent at the beginning; only [windows
/// grow](super::Connection::grow_windows) later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalSettings {
    /// Streams that a client may have at once; more are refused. So are more than twice as many with
    /// those that are over and not closed. No meaning for a client.
    pub streams: u32,
    /// The window of each stream in bytes, at most 2³¹ − 1.
    pub window: u32,
    /// The window of the connection in bytes, from 65,535 to 2³¹ − 1.
    pub connection_window: u32,
    /// The size of a field section as RFC 9113 §6.5.2 counts it: 32 bytes for each field beside its
    /// own. Of a larger one the sink gets the front.
    pub head_list: u32,
    /// Whether a client may send extended CONNECT (RFC 8441). No meaning for a client.
    pub connect_protocol: bool,
}

impl LocalSettings {
    /// The same within the limits of the protocol.
    pub(super) fn within_limits(self) -> Self {
        Self {
            window: self.window.min(MAX_WINDOW),
            connection_window: self.connection_window.clamp(DEFAULT_WINDOW, MAX_WINDOW),
            ..self
        }
    }

    /// Writes our first SETTINGS frame.
    pub(super) fn write(self, role: Role, out: &mut Vec<u8>) {
        let own = match role {
            Role::Client => [Some((ENABLE_PUSH, 0)), None, None],
            Role::Server => [
                Some((MAX_CONCURRENT_STREAMS, self.streams)),
                self.connect_protocol
                    .then_some((ENABLE_CONNECT_PROTOCOL, 1)),
                // The client need not send those of RFC 7540: those of RFC 9218 are followed.
                Some((NO_RFC7540_PRIORITIES, 1)),
            ],
        };
        let both = [
            Some((INITIAL_WINDOW_SIZE, self.window)),
            Some((MAX_HEADER_LIST_SIZE, self.head_list)),
        ];
        let values: Vec<_> = own.into_iter().chain(both).flatten().collect();
        write(out, &values);
    }
}

/// Writes a SETTINGS frame with these values.
pub(super) fn write(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    frame_header::begin(out, 6 * settings.len(), SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// What the peer allows us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// Streams at once; `u32::MAX` where it has set no limit.
    pub streams: u32,
    /// Whether it takes extended CONNECT (RFC 8441 §3).
    pub connect_protocol: bool,
    /// The initial window of a stream.
    pub(super) window: u32,
}

impl Default for PeerSettings {
    /// The values before any SETTINGS (RFC 9113 §6.5.2).
    fn default() -> Self {
        Self {
            streams: u32::MAX,
            connect_protocol: false,
            window: DEFAULT_WINDOW,
        }
    }
}

/// The sizes that a SETTINGS frame gives the dynamic table: the smallest one is announced as well
/// (RFC 7541 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableSizes {
    pub(super) least: u32,
    pub(super) last: u32,
}

impl PeerSettings {
    /// Takes the values of a SETTINGS frame from a peer that is not `role`.
    pub(super) fn take(
        &mut self,
        payload: &[u8],
        role: Role,
    ) -> Result<Option<TableSizes>, ConnectionError> {
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ConnectionError::FrameLength);
        }
        let mut table: Option<TableSizes> = None;
        for [a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => {
                    let least = table.map_or(value, |table| table.least.min(value));
                    table = Some(TableSizes { least, last: value });
                }
                // A server may not even set it to 1 (§6.5.2).
                ENABLE_PUSH if value > u32::from(role == Role::Server) => {
                    return Err(ConnectionError::Setting);
                }
                MAX_CONCURRENT_STREAMS => self.streams = value,
                INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                    return Err(ConnectionError::WindowOverflow);
                }
                INITIAL_WINDOW_SIZE => self.window = value,
                // Longer frames have no use for us.
                MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                    return Err(ConnectionError::Setting);
                }
                // RFC 8441 §3: not taken back, and of no meaning from a client.
                ENABLE_CONNECT_PROTOCOL if role == Role::Client => {
                    if value > 1 || value == 0 && self.connect_protocol {
                        return Err(ConnectionError::Setting);
                    }
                    self.connect_protocol = value == 1;
                }
                _ => {}
            }
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(role: Role, settings: &[(u16, u32)]) -> Result<PeerSettings, ConnectionError> {
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut peer = PeerSettings::default();
        peer.take(&payload, role).map(|_| peer)
    }

    /// RFC 9113 §6.5.2, RFC 8441 §3.
    #[test]
    fn settings_out_of_their_ranges_are_refused() {
        use ConnectionError::{Setting, WindowOverflow};
        use Role::{Client, Server};
        for (role, settings, error) in [
            (Server, &[(ENABLE_PUSH, 1)][..], None),
            (Server, &[(ENABLE_PUSH, 2)], Some(Setting)),
            (Client, &[(ENABLE_PUSH, 0)], None),
            (Client, &[(ENABLE_PUSH, 1)], Some(Setting)),
            (Client, &[(INITIAL_WINDOW_SIZE, (1 << 31) - 1)], None),
            (
                Client,
                &[(INITIAL_WINDOW_SIZE, 1 << 31)],
                Some(WindowOverflow),
            ),
            (Client, &[(MAX_FRAME_SIZE, 16_383)], Some(Setting)),
            (Client, &[(MAX_FRAME_SIZE, 16_384)], None),
            (Client, &[(MAX_FRAME_SIZE, (1 << 24) - 1)], None),
            (Client, &[(MAX_FRAME_SIZE, 1 << 24)], Some(Setting)),
            (Client, &[(ENABLE_CONNECT_PROTOCOL, 2)], Some(Setting)),
            (
                Client,
                &[(ENABLE_CONNECT_PROTOCOL, 1), (ENABLE_CONNECT_PROTOCOL, 0)],
                Some(Setting),
            ),
            // Of no meaning from a client, and an unknown one.
            (Server, &[(ENABLE_CONNECT_PROTOCOL, 9), (0x77, 9)], None),
        ] {
            assert_eq!(taken(role, settings).err(), error, "{role:?} {settings:?}");
        }
    }

    #[test]
    fn the_last_value_of_a_setting_holds() {
        let settings = [
            (MAX_CONCURRENT_STREAMS, 3),
            (INITIAL_WINDOW_SIZE, 5),
            (MAX_CONCURRENT_STREAMS, 4),
            (ENABLE_CONNECT_PROTOCOL, 1),
        ];
        let peer = taken(Role::Client, &settings).unwrap();
        assert_eq!(
            (peer.streams, peer.window, peer.connect_protocol),
            (4, 5, true)
        );
        let mut peer = PeerSettings::default();
        let sizes = [[0, 1, 0, 0, 0, 9], [0, 1, 0, 0, 0, 2], [0, 1, 0, 0, 0, 7]].concat();
        let table = TableSizes { least: 2, last: 7 };
        assert_eq!(peer.take(&sizes, Role::Client), Ok(Some(table)));
        assert_eq!(
            peer.take(&sizes[..5], Role::Client),
            Err(ConnectionError::FrameLength)
        );
    }
}
