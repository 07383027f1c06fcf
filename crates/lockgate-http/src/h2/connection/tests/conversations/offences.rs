//! What a client must not send.

use super::super::*;
use super::ClientStep;
use super::client::{AskedStream, ScriptedClient, literal, string};
use crate::h2::frames::{
    CONTINUATION, DATA, PADDED, PRIORITISED, PRIORITY, PRIORITY_UPDATE, PUSH_PROMISE,
};

/// A violation, by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientOffence {
    /// GOAWAY, which is none.
    Leave,
    // The preface (RFC 9113 §3.4).
    OtherPreface,
    NoSettings,
    AckFirst,
    // Frames on wrong streams (§5.1, §6).
    DataOnIdle,
    DataOnEven,
    DataOnZero,
    DataBehindEnd,
    DataOnOver,
    HeadersOnZero,
    HeadersOnEven,
    HeadersOnSkipped,
    HeadersBehindEnd,
    HeadersOnOver,
    TrailersWithoutEnd,
    ResetOnIdle,
    ResetOnZero,
    UpdateOnIdle,
    PriorityOnZero,
    SettingsOnStream,
    PingOnStream,
    GoawayOnStream,
    PriorityUpdateOnStream,
    // Lengths (§4.2, §6).
    PriorityLength,
    ResetLength,
    SettingsLength,
    AckLength,
    PingLength,
    GoawayLength,
    UpdateLength,
    FrameTooLong,
    DataPadding,
    HeadersPadding,
    HeadersWithoutPriority,
    // Windows (§6.9).
    UpdateZero,
    UpdateZeroOfStream,
    UpdateOverflow,
    UpdateOverflowOfStream,
    SettingsOverflow,
    BeyondStreamWindow,
    BeyondWindow,
    // Settings (§6.5).
    EnablePush,
    LargeWindow,
    SmallFrames,
    LargeFrames,
    SecondAck,
    // Sequences (§6.6, §6.10, §5.1.2).
    Push,
    Continuation,
    Interrupted,
    OtherContinuation,
    TooManyStreams,
    // No violations, but of streams that the h2 crate does not remember.
    LateOnRefused,
    LateTrailersOnRefused,
    TooManyPieces,
    // HPACK (§4.3).
    WrongIndex,
    LargeTable,
    CutString,
    LateTableSize,
    // Messages (§8).
    PseudoTwice,
    PseudoUnknown,
    PseudoOfResponse,
    PseudoBehind,
    NoMethod,
    NoScheme,
    NoPath,
    EmptyPath,
    RelativePath,
    CapitalName,
    EmptyName,
    ConnectionField,
    TeOther,
    ControlInValue,
    SpaceAroundValue,
    BadLength,
    DifferentLengths,
    LengthWithoutBody,
    EmptyLength,
    Protocol,
    ConnectWithPath,
    Userinfo,
    NoAuthority,
    OtherHost,
    LargeHead,
    PseudoInTrailers,
    CapitalInTrailers,
    ConnectionInTrailers,
    TooMuchData,
    TooLittleData,
    TooLittleDataByTrailers,
    // Priorities (RFC 7540 §5.3.1).
    SelfDependency,
    SelfDependencyOfHeaders,
}

use ClientOffence::*;

impl ClientOffence {
    pub(super) const ALL: [Self; 87] = [
        DataOnIdle,
        DataOnEven,
        DataOnZero,
        DataBehindEnd,
        DataOnOver,
        HeadersOnZero,
        HeadersOnEven,
        HeadersOnSkipped,
        HeadersBehindEnd,
        HeadersOnOver,
        TrailersWithoutEnd,
        ResetOnIdle,
        ResetOnZero,
        UpdateOnIdle,
        PriorityOnZero,
        SettingsOnStream,
        PingOnStream,
        GoawayOnStream,
        PriorityUpdateOnStream,
        PriorityLength,
        ResetLength,
        SettingsLength,
        AckLength,
        PingLength,
        GoawayLength,
        UpdateLength,
        FrameTooLong,
        DataPadding,
        HeadersPadding,
        HeadersWithoutPriority,
        UpdateZero,
        UpdateZeroOfStream,
        UpdateOverflow,
        UpdateOverflowOfStream,
        SettingsOverflow,
        BeyondStreamWindow,
        BeyondWindow,
        EnablePush,
        LargeWindow,
        SmallFrames,
        LargeFrames,
        SecondAck,
        Push,
        Continuation,
        Interrupted,
        OtherContinuation,
        TooManyStreams,
        TooManyPieces,
        WrongIndex,
        LargeTable,
        CutString,
        LateTableSize,
        PseudoTwice,
        PseudoUnknown,
        PseudoOfResponse,
        PseudoBehind,
        NoMethod,
        NoScheme,
        NoPath,
        EmptyPath,
        RelativePath,
        CapitalName,
        EmptyName,
        ConnectionField,
        TeOther,
        ControlInValue,
        SpaceAroundValue,
        BadLength,
        DifferentLengths,
        LengthWithoutBody,
        EmptyLength,
        LateOnRefused,
        LateTrailersOnRefused,
        Protocol,
        ConnectWithPath,
        Userinfo,
        NoAuthority,
        OtherHost,
        LargeHead,
        PseudoInTrailers,
        CapitalInTrailers,
        ConnectionInTrailers,
        TooMuchData,
        TooLittleData,
        TooLittleDataByTrailers,
        SelfDependency,
        SelfDependencyOfHeaders,
    ];
}

impl ClientOffence {
    /// Whether it may go unpunished: it is none, it is within our limits, or behind an answer there is no window.
    pub(super) fn may_pass(self) -> bool {
        matches!(
            self,
            Leave
                | LateOnRefused
                | LateTrailersOnRefused
                | SettingsOverflow
                | TooManyPieces
                | UpdateOverflowOfStream
        )
    }
}

impl ScriptedClient {
    /// A preface that is none.
    pub(super) fn greet_wrongly(&mut self) -> (ClientOffence, ClientStep) {
        let kind = *self.dice.pick(&[OtherPreface, NoSettings, AckFirst]);
        let mut bytes = PREFACE.to_vec();
        match kind {
            OtherPreface => {
                let at = self.dice.below(bytes.len());
                bytes[at] ^= 1 << self.dice.below(8);
            }
            NoSettings => bytes.extend(match self.dice.below(3) {
                0 => frame(PING, 0, 0, b"12345678"),
                1 => headers(END_STREAM, 1, GET),
                _ => frame(0x77, 0, 0, b""),
            }),
            _ => bytes.extend(frame(SETTINGS, ACK, 0, b"")),
        }
        (kind, ClientStep::new(format!("VIOLATION {kind:?}"), bytes))
    }

    /// A violation of this kind; `None` where the client is in no state for it.
    pub(super) fn offend(&mut self, kind: ClientOffence) -> Option<ClientStep> {
        // One more stream is a violation of its own.
        if kind != TooManyStreams && self.open_streams() >= 4 {
            return None;
        }
        let bytes = match kind {
            // These are at the beginning and the end.
            Leave | OtherPreface | NoSettings | AckFirst => return None,
            DataOnIdle => frame(DATA, 0, self.idle(), b"x"),
            DataOnEven => frame(DATA, 0, 2 + 2 * self.dice.below(20) as u32, b"x"),
            DataOnZero => frame(DATA, 0, 0, b"x"),
            DataBehindEnd => frame(DATA, 0, self.id(AskedStream::is_half_closed)?, b"x"),
            DataOnOver => frame(
                DATA,
                0,
                self.id(|stream| stream.is_over() && !stream.is_refused)?,
                b"x",
            ),
            HeadersOnZero => headers(END_STREAM, 0, GET),
            HeadersOnEven => headers(END_STREAM, 2 + 2 * self.dice.below(20) as u32, GET),
            HeadersOnSkipped => {
                let last = self.streams.last()?.id;
                let lower = self.skipped.iter().rfind(|id| **id < last);
                headers(END_STREAM, *lower?, GET)
            }
            HeadersBehindEnd => headers(END_STREAM, self.id(AskedStream::is_half_closed)?, GET),
            HeadersOnOver => headers(
                END_STREAM,
                self.id(|stream| stream.is_over() && !stream.is_refused)?,
                GET,
            ),
            TrailersWithoutEnd => headers(0, self.id(AskedStream::is_open)?, b"\x00\x01a\x01b"),
            ResetOnIdle => frame(RST_STREAM, 0, self.idle(), &[0, 0, 0, 8]),
            ResetOnZero => frame(RST_STREAM, 0, 0, &[0, 0, 0, 8]),
            UpdateOnIdle => frame(WINDOW_UPDATE, 0, self.idle(), &[0, 0, 0, 8]),
            PriorityOnZero => frame(PRIORITY, 0, 0, &[0, 0, 0, 101, 16]),
            SettingsOnStream => frame(SETTINGS, 0, self.any_id(), b""),
            PingOnStream => frame(PING, 0, self.any_id(), b"12345678"),
            GoawayOnStream => frame(GOAWAY, 0, self.any_id(), &[0; 8]),
            PriorityUpdateOnStream => frame(PRIORITY_UPDATE, 0, self.any_id(), b"\0\0\0\x01u=1"),
            PriorityLength => frame(PRIORITY, 0, self.any_id(), &[9; 6][..self.other_than(5, 7)]),
            ResetLength => frame(
                RST_STREAM,
                0,
                self.id(|_| true)?,
                &[0; 6][..self.other_than(4, 7)],
            ),
            SettingsLength => frame(
                SETTINGS,
                0,
                0,
                &[0; 12][..self.dice.below(2) * 6 + 1 + self.dice.below(5)],
            ),
            AckLength => frame(SETTINGS, ACK, 0, &[0; 6]),
            PingLength => frame(PING, 0, 0, &[0; 10][..self.other_than(8, 11)]),
            GoawayLength => frame(GOAWAY, 0, 0, &[0; 7][..self.dice.below(8)]),
            UpdateLength => {
                let stream = if self.dice.chance(50) {
                    0
                } else {
                    self.any_id()
                };
                frame(WINDOW_UPDATE, 0, stream, &[1; 6][..self.other_than(4, 7)])
            }
            FrameTooLong => {
                let id = self.id(AskedStream::is_open)?;
                let kind = *self.dice.pick(&[DATA, HEADERS, 0x77]);
                frame(kind, 0, id, &[0; 16_385])
            }
            DataPadding => {
                let id = self.id(AskedStream::is_open)?;
                let length = self.dice.below(5);
                frame(DATA, PADDED, id, &[5; 5][..length])
            }
            HeadersPadding => {
                let length = self.dice.below(5);
                frame(
                    HEADERS,
                    END_HEADERS | PADDED,
                    self.idle(),
                    &[5; 5][..length],
                )
            }
            HeadersWithoutPriority => {
                let length = self.dice.below(5);
                frame(
                    HEADERS,
                    END_HEADERS | PRIORITISED,
                    self.idle(),
                    &[5; 5][..length],
                )
            }
            UpdateZero => frame(WINDOW_UPDATE, 0, 0, &[0; 4]),
            UpdateZeroOfStream => frame(
                WINDOW_UPDATE,
                0,
                self.id(|stream| !stream.is_over())?,
                &[0; 4],
            ),
            UpdateOverflow => frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
            UpdateOverflowOfStream => {
                let id = self.id(AskedStream::writes_nothing)?;
                // The first one may fill a window that is 0 or less.
                frame(WINDOW_UPDATE, 0, id, b"\x7f\xff\xff\xff").repeat(2)
            }
            SettingsOverflow => {
                let id = self.id(AskedStream::writes_nothing)?;
                let more = frame(WINDOW_UPDATE, 0, id, b"\0\x10\0\0");
                // Behind an answer there is no window (§6.9.2), and the connection goes on.
                let most = settings(&[(4, (1 << 31) - 1)]);
                [settings(&[(4, 0)]), more, most, settings(&[(4, 65_535)])].concat()
            }
            BeyondStreamWindow => return self.beyond_stream(),
            BeyondWindow => return self.beyond_connection(),
            EnablePush => settings(&[(2, 2 + self.dice.below(9) as u32)]),
            LargeWindow => settings(&[(4, 1 << 31)]),
            SmallFrames => settings(&[(5, self.dice.below(16_384) as u32)]),
            LargeFrames => settings(&[(5, 1 << 24)]),
            SecondAck => {
                if !self.has_acknowledged {
                    return None;
                }
                frame(SETTINGS, ACK, 0, b"")
            }
            Push => {
                // The h2 crate fails an assertion of its own for a stream that it was made to reset.
                let id = self.id(|stream| !stream.is_refused)?;
                frame(PUSH_PROMISE, END_HEADERS, id, b"\0\0\0\x02\x82")
            }
            Continuation => frame(CONTINUATION, END_HEADERS, self.any_id(), b""),
            Interrupted => {
                let first = frame(HEADERS, 0, self.idle(), GET);
                let next = *self.dice.pick(&[PING, 0x77, HEADERS, DATA, SETTINGS]);
                [first, frame(next, 0, 0, b"12345678")].concat()
            }
            OtherContinuation => {
                let id = self.idle();
                let first = frame(HEADERS, 0, id, GET);
                [first, frame(CONTINUATION, END_HEADERS, id + 2, b"")].concat()
            }
            TooManyStreams => {
                if self.open_streams() < 4 {
                    return None;
                }
                let id = self.new_id();
                self.note_asked(id, false, None);
                headers(0, id, GET_UNINDEXED)
            }
            TooManyPieces => {
                let id = self.new_id();
                self.note_asked(id, true, None);
                let first = frame(HEADERS, END_STREAM, id, GET);
                let middle = frame(CONTINUATION, 0, id, b"\x00\x01x\x01y").repeat(7);
                [first, middle, frame(CONTINUATION, END_HEADERS, id, b"")].concat()
            }
            WrongIndex => self.malformed(b"\xff\x00", true),
            LargeTable => self.malformed_front(b"\x3f\xe2\x1f"),
            CutString => self.malformed(b"\x00\x05x", true),
            LateTableSize => self.malformed(b"\x20\x3f\xe1\x1f", true),
            PseudoTwice => self.malformed(b"\x84", true),
            PseudoUnknown => self.malformed(b"\x00\x02:x\x01y", true),
            PseudoOfResponse => self.malformed(b"\x88", true),
            PseudoBehind => self.block(b"\x82\x86\x00\x01x\x01y\x84\x01\x01a"),
            NoMethod => self.block(b"\x86\x84\x01\x01a"),
            NoScheme => self.block(b"\x82\x84\x01\x01a"),
            NoPath => self.block(b"\x82\x86\x01\x01a"),
            EmptyPath => self.block(b"\x82\x86\x04\x00\x01\x01a"),
            RelativePath => self.block(b"\x82\x86\x04\x01a\x01\x01a"),
            CapitalName => self.malformed(b"\x00\x02xY\x01y", true),
            EmptyName => self.malformed(b"\x00\x00\x01y", true),
            ConnectionField => {
                let name = *self.dice.pick(&[
                    "connection",
                    "keep-alive",
                    "proxy-connection",
                    "transfer-encoding",
                    "upgrade",
                ]);
                self.malformed_field(name, "x")
            }
            TeOther => self.malformed_field("te", "gzip"),
            ControlInValue => {
                let value = *self.dice.pick(&["a\0", "a\rb", "\nb", "\x7f", "\x01"]);
                self.malformed_field("x-y", value)
            }
            SpaceAroundValue => {
                let value = *self.dice.pick(&[" a", "a ", "\ta", "a\t"]);
                self.malformed_field("x-y", value)
            }
            BadLength => {
                let value =
                    *self
                        .dice
                        .pick(&["a", "-1", "+1", "1,2", "0x1", "99999999999999999999"]);
                self.malformed_length(&[value])
            }
            EmptyLength => self.malformed_length(&[""]),
            LateOnRefused => {
                let id = self.id(|stream| stream.is_one_too_many)?;
                frame(DATA, 0, id, b"x")
            }
            LateTrailersOnRefused => {
                let id = self.id(|stream| stream.is_one_too_many)?;
                headers(END_STREAM, id, b"\x00\x01a\x01b")
            }
            DifferentLengths => self.malformed_length(&["1", "2"]),
            LengthWithoutBody => self.malformed_field("content-length", "1"),
            Protocol => {
                self.block(b"\x02\x07CONNECT\x86\x84\x01\x01a\x00\x09:protocol\x09websocket")
            }
            ConnectWithPath => self.block(b"\x02\x07CONNECT\x84\x01\x01a"),
            Userinfo => self.block(b"\x82\x86\x84\x01\x03b@a"),
            NoAuthority => self.block(b"\x82\x86\x84"),
            OtherHost => self.malformed_field("host", "b"),
            LargeHead => {
                let mut block = Vec::new();
                for _ in 0..40 {
                    literal(&mut block, b"x-y", &[b'z'; 120]);
                }
                self.malformed(&block, true)
            }
            PseudoInTrailers => self.trailers_of(b"\x84")?,
            CapitalInTrailers => self.trailers_of(b"\x00\x02xY\x01y")?,
            ConnectionInTrailers => self.trailers_of(b"\x00\x0aconnection\x01y")?,
            TooMuchData => {
                let at = self.stream(|stream| stream.is_open() && stream.due.is_some())?;
                let length = self.streams[at].due? + 1;
                if length > self.room(at) {
                    return None;
                }
                let ended = self.dice.chance(50);
                self.data_frame(at, length, None, ended)
            }
            TooLittleData => {
                let at = self
                    .stream(|stream| stream.is_open() && stream.due.is_some_and(|due| due > 0))?;
                let length = self.streams[at].due? - 1;
                if length > self.room(at) {
                    return None;
                }
                self.data_frame(at, length, None, true)
            }
            TooLittleDataByTrailers => {
                let at = self
                    .stream(|stream| stream.is_open() && stream.due.is_some_and(|due| due > 0))?;
                self.streams[at].has_ended = true;
                headers(END_STREAM, self.streams[at].id, b"\x00\x01a\x01b")
            }
            SelfDependency => {
                let id = self.any_id();
                frame(PRIORITY, 0, id, &[&id.to_be_bytes()[..], &[16]].concat())
            }
            SelfDependencyOfHeaders => {
                let id = self.idle();
                let payload = [&id.to_be_bytes()[..], &[16], GET].concat();
                frame(
                    HEADERS,
                    END_HEADERS | END_STREAM | PRIORITISED,
                    id,
                    &payload,
                )
            }
        };
        let mut step = ClientStep::new("", bytes);
        step.words = format!("VIOLATION {kind:?} on {}", step.stream());
        Some(step)
    }

    fn id(&mut self, is: impl Fn(&AskedStream) -> bool) -> Option<u32> {
        self.stream(is).map(|at| self.streams[at].id)
    }

    fn idle(&self) -> u32 {
        self.next_id
    }

    /// One of the streams so far, or an idle one.
    fn any_id(&mut self) -> u32 {
        self.id(|_| true).unwrap_or(self.next_id)
    }

    /// A number below `end` other than this.
    fn other_than(&mut self, not: usize, end: usize) -> usize {
        let number = self.dice.below(end - 1);
        number + usize::from(number >= not)
    }

    /// A request with this block.
    fn block(&mut self, block: &[u8]) -> Vec<u8> {
        let id = self.new_id();
        let ended = self.dice.chance(50);
        self.note_asked(id, ended, None);
        self.section(id, ended, block)
    }

    /// A request with these bytes behind a good block.
    fn malformed(&mut self, behind: &[u8], ended: bool) -> Vec<u8> {
        let id = self.new_id();
        self.note_asked(id, ended, None);
        self.section(id, ended, &[GET_UNINDEXED, behind].concat())
    }

    fn malformed_front(&mut self, front: &[u8]) -> Vec<u8> {
        let id = self.new_id();
        self.note_asked(id, true, None);
        self.section(id, true, &[front, GET_UNINDEXED].concat())
    }

    fn malformed_field(&mut self, name: &str, value: &str) -> Vec<u8> {
        let mut field = Vec::new();
        literal(&mut field, name.as_bytes(), value.as_bytes());
        self.malformed(&field, true)
    }

    fn malformed_length(&mut self, values: &[&str]) -> Vec<u8> {
        let mut fields = Vec::new();
        for value in values {
            // Content-Length by its index (RFC 7541 §6.2.2, appendix A).
            fields.extend_from_slice(b"\x0f\x0d");
            string(&mut fields, value.as_bytes());
        }
        self.malformed(&fields, false)
    }

    fn trailers_of(&mut self, block: &[u8]) -> Option<Vec<u8>> {
        let at = self.stream(|stream| stream.is_open() && stream.due.unwrap_or(0) == 0)?;
        self.streams[at].has_ended = true;
        let id = self.streams[at].id;
        Some(self.section(id, true, block))
    }

    fn beyond_stream(&mut self) -> Option<ClientStep> {
        // Before the acknowledgement, a larger window of this layer holds already.
        if !self.has_acknowledged && self.local.window > 65_535 {
            return None;
        }
        let at = self.stream(|stream| stream.is_open() && stream.due.is_none())?;
        let length = self.beyond_stream_window();
        if length > self.connection_room() {
            return None;
        }
        let bytes = self.data_frames(at, length);
        Some(ClientStep::new(format!("VIOLATION {length} bytes"), bytes))
    }

    fn beyond_connection(&mut self) -> Option<ClientStep> {
        let length = self.local.connection_window as usize + 1;
        // Behind the end of a stream's window, it would depend on the pieces what was given back.
        let is_of_connection = self.has_acknowledged && self.local.window as usize > length;
        if !is_of_connection {
            return None;
        }
        let at = self.stream(|stream| stream.is_open() && stream.due.is_none())?;
        if self.stream_room(at) < length {
            return None;
        }
        let bytes = self.data_frames(at, length);
        Some(ClientStep::new(format!("VIOLATION {length} bytes"), bytes))
    }

    /// So many bytes in as few frames as can be.
    fn data_frames(&mut self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut left = length;
        while left > 0 {
            let piece = left.min(16_384);
            bytes.extend(self.data_frame(at, piece, None, false));
            left -= piece;
        }
        bytes
    }
}

impl AskedStream {
    /// Whether no answer waits for a window: it would depend on the pieces what is written of it.
    fn writes_nothing(&self) -> bool {
        !self.is_over() && (self.is_answered || !self.is_being_answered)
    }

    /// Whether the client has ended it, and the servers have not.
    fn is_half_closed(&self) -> bool {
        self.has_ended && !self.is_over()
    }
}

/// `:method GET`, `:scheme http`, `:path /`, `:authority a`: nothing for the table.
const GET_UNINDEXED: &[u8] = b"\x82\x86\x84\x01\x01a";
