//! A client that knows what it may send, as far as it has heard of both servers.

use std::collections::BTreeMap;

use super::super::*;
use super::servers::ServerRecord;
use super::{ClientStep, Dice};
use crate::h2::frame_header::MAX_PAYLOAD;
use crate::h2::frames::{CONTINUATION, DATA, PADDED, PRIORITISED, PRIORITY, PRIORITY_UPDATE};

/// The window of a stream before the client has acknowledged another one.
const FIRST_WINDOW: i64 = 65_535;
/// The size of HPACK's table (RFC 7541 §4.2), as a change of it is coded.
const WHOLE_TABLE: [u8; 3] = [0x3f, 0xe1, 0x1f];

/// Pseudo-fields: of the static table, and with values of their own (RFC 7541 §6.1, §6.2.2).
const METHODS: [&[u8]; 4] = [b"\x82", b"\x83", b"\x02\x03PUT", b"\x02\x04HEAD"];
const SCHEMES: [&[u8]; 2] = [b"\x86", b"\x87"];
const PATHS: [&[u8]; 4] = [b"\x84", b"\x85", b"\x04\x05/a?b=", b"\x04\x04/%7e"];

/// A stream as its client knows it.
#[derive(Debug, Clone)]
pub(super) struct AskedStream {
    pub(super) id: u32,
    /// What Content-Length leaves to be sent.
    pub(super) due: Option<usize>,
    pub(super) has_ended: bool,
    /// Whether both servers have begun to answer, and whether they have ended it.
    pub(super) is_being_answered: bool,
    pub(super) is_answered: bool,
    /// Whether the client has reset it.
    pub(super) is_cancelled: bool,
    /// Whether the servers have, and whether that was because there were too many.
    pub(super) is_refused: bool,
    pub(super) is_one_too_many: bool,
    /// Whether it carries a tunnel.
    pub(super) is_tunnel: bool,
    /// What both servers take.
    windows: [i64; 2],
    /// Bytes of its body so far.
    sent: usize,
}

impl AskedStream {
    /// Whether the client may send its body.
    pub(super) fn is_open(&self) -> bool {
        !self.has_ended && !self.is_cancelled && !self.is_refused
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_cancelled || self.is_refused || self.has_ended && self.is_answered
    }
}

#[derive(Debug)]
pub(super) struct ScriptedClient {
    pub(super) dice: Dice,
    pub(super) local: LocalSettings,
    pub(super) streams: Vec<AskedStream>,
    pub(super) next_id: u32,
    /// IDs that were passed over.
    pub(super) skipped: Vec<u32>,
    pub(super) has_acknowledged: bool,
    /// What both servers take on the connection.
    pub(super) windows: [i64; 2],
    /// The stream of a violation: nothing more is said of it in the same turn, since its reset may have
    /// been written by then, or not.
    pub(super) avoided: u32,
    /// Whether SETTINGS may change the windows of answers now.
    pub(super) may_shrink_windows: bool,
    /// Fields in HPACK's table, the latest first.
    table: Vec<String>,
    fields: usize,
}

impl ScriptedClient {
    pub(super) fn new(seed: u64, local: LocalSettings) -> Self {
        Self {
            dice: Dice::new(seed),
            local,
            streams: Vec::new(),
            next_id: 1,
            skipped: Vec::new(),
            has_acknowledged: false,
            windows: [FIRST_WINDOW; 2],
            avoided: 0,
            may_shrink_windows: true,
            table: Vec::new(),
            fields: 0,
        }
    }

    /// Takes note of what a server has said: it gave these windows.
    pub(super) fn hear(&mut self, server: usize, given: &BTreeMap<u32, i64>) {
        self.windows[server] += given.get(&0).unwrap_or(&0);
        for stream in &mut self.streams {
            stream.windows[server] += given.get(&stream.id).unwrap_or(&0);
        }
    }

    /// Takes note of the streams that the servers have ended.
    pub(super) fn note_ends(&mut self, record: &ServerRecord) {
        for stream in &mut self.streams {
            if let Some(answer) = record.answers.get(&stream.id) {
                stream.is_being_answered = true;
                stream.is_answered = answer.ended;
            }
            let mut resets = record.resets.iter().filter(|(id, _)| *id == stream.id);
            if let Some((_, code)) = resets.next() {
                stream.is_refused = true;
                stream.is_one_too_many = *code == code::REFUSED_STREAM;
            }
        }
    }

    pub(super) fn open_streams(&self) -> usize {
        let streams = self.streams.iter();
        streams
            .filter(|stream| !stream.is_over() || stream.id == self.avoided)
            .count()
    }

    /// One of the streams of which this is true, by its place.
    pub(super) fn stream(&mut self, is: impl Fn(&AskedStream) -> bool) -> Option<usize> {
        let all = 0..self.streams.len();
        let streams = &self.streams;
        let is = |at: &usize| streams[*at].id != self.avoided && is(&streams[*at]);
        let places: Vec<_> = all.filter(is).collect();
        (!places.is_empty()).then(|| *self.dice.pick(&places))
    }

    /// The preface, and the first SETTINGS.
    pub(super) fn greet(&mut self) -> ClientStep {
        let mut bytes = PREFACE.to_vec();
        bytes.extend(self.settings().bytes);
        ClientStep::new("the preface", bytes)
    }

    /// GOAWAY, behind which requests go on (RFC 9113 §6.8).
    pub(super) fn leave(&mut self) -> ClientStep {
        let (code, more) = (self.dice.below(16) as u32, self.dice.below(20));
        let payload = [&[0; 4], &code.to_be_bytes()[..], &vec![b'x'; more]].concat();
        ClientStep::new(format!("GOAWAY with {code}"), frame(GOAWAY, 0, 0, &payload))
    }

    /// The front of a frame other than DATA, which this layer does not wait for.
    pub(super) fn break_off(&mut self) -> ClientStep {
        loop {
            let mut step = self.step();
            if FrameHeader::read(&step.bytes).is_some_and(|header| header.kind != DATA) {
                let length = self.dice.below(step.bytes.len());
                // The first frame only: those behind it would have a meaning of their own.
                let first =
                    FrameHeader::read(&step.bytes).map_or(0, |header| HEADER_LEN + header.length);
                step.bytes.truncate(length.min(first - 1));
                step.words += ", broken off";
                return step;
            }
        }
    }

    /// Something that a client may do now.
    pub(super) fn step(&mut self) -> ClientStep {
        loop {
            let step = match self.dice.below(100) {
                0..25 if self.open_streams() < 4 => Some(self.ask()),
                0..55 => self.data(),
                55..61 => self.trailers(),
                61..66 => self.cancel(),
                66..73 => Some(self.window_update()),
                73..77 => Some(self.settings()),
                77..81 => self.acknowledge(),
                81..85 => Some(self.ping()),
                85..89 => Some(self.priority()),
                89..92 => Some(self.priority_update()),
                92..96 => Some(self.unknown()),
                _ => self.late(),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    pub(super) fn new_id(&mut self) -> u32 {
        if self.dice.chance(10) {
            self.skipped.push(self.next_id);
            self.next_id += 2;
        }
        self.next_id += 2;
        self.next_id - 2
    }

    /// Notes a stream that begins.
    pub(super) fn note_asked(
        &mut self,
        id: u32,
        ended: bool,
        due: Option<usize>,
    ) -> &mut AskedStream {
        let window = if self.has_acknowledged {
            i64::from(self.local.window)
        } else {
            FIRST_WINDOW
        };
        self.streams.push(AskedStream {
            id,
            due,
            has_ended: ended,
            is_being_answered: false,
            is_answered: false,
            is_cancelled: false,
            is_refused: false,
            is_one_too_many: false,
            is_tunnel: false,
            windows: [window; 2],
            sent: 0,
        });
        self.streams.last_mut().unwrap()
    }

    fn ask(&mut self) -> ClientStep {
        let id = self.new_id();
        let ended = self.dice.chance(40);
        let due = (!ended && self.dice.chance(40)).then(|| self.dice.below(3_000));
        let is_tunnel = !ended && due.is_none() && self.dice.chance(5);
        let mut block = self.request_block(is_tunnel);
        match due {
            Some(due) => literal(&mut block, b"content-length", due.to_string().as_bytes()),
            None if ended && self.dice.chance(10) => literal(&mut block, b"content-length", b"0"),
            None => {}
        }
        self.note_asked(id, ended, due).is_tunnel = is_tunnel;
        let words = format!("a request on {id}, ended {ended}, due {due:?}, tunnel {is_tunnel}");
        ClientStep::new(words, self.section(id, ended, &block))
    }

    /// The block of a valid request without Content-Length.
    fn request_block(&mut self, is_tunnel: bool) -> Vec<u8> {
        let mut block = Vec::new();
        if self.dice.chance(3) {
            block.push(0x20);
            block.extend_from_slice(&WHOLE_TABLE);
            self.table.clear();
        }
        let mut pseudo: Vec<Vec<u8>> = if is_tunnel {
            vec![b"\x02\x07CONNECT".to_vec(), b"\x01\x05a:443".to_vec()]
        } else {
            let method = *self.dice.pick(&METHODS);
            let scheme = *self.dice.pick(&SCHEMES);
            let path = *self.dice.pick(&PATHS);
            [method, scheme, path, b"\x01\x01a"]
                .map(<[u8]>::to_vec)
                .to_vec()
        };
        while !pseudo.is_empty() {
            let at = self.dice.below(pseudo.len());
            block.extend(pseudo.swap_remove(at));
        }
        self.regular_fields(&mut block);
        block
    }

    /// Up to three fields: new ones, some of them for the table, and those in it.
    fn regular_fields(&mut self, block: &mut Vec<u8>) {
        for _ in 0..self.dice.below(4) {
            self.fields += 1;
            let name = format!("x-{}", self.fields);
            match self.dice.below(3) {
                0 if !self.table.is_empty() => {
                    block.push(0x80 | (62 + self.dice.below(self.table.len())) as u8);
                }
                1 if self.table.len() < 20 => {
                    block.push(0x40);
                    string(block, name.as_bytes());
                    string(block, b"kept");
                    self.table.insert(0, name);
                }
                _ => literal(block, name.as_bytes(), b"once"),
            }
        }
    }

    /// The frames of a field section: cut, padded, with a priority.
    pub(super) fn section(&mut self, id: u32, ended: bool, block: &[u8]) -> Vec<u8> {
        let mut cuts = vec![block.len()];
        if self.dice.chance(20) {
            for _ in 0..=self.dice.below(4) {
                cuts.push(self.dice.below(block.len() + 1));
            }
            cuts.sort_unstable();
        }
        let (mut flags, mut front, mut padding) = (u8::from(ended), Vec::new(), 0);
        if self.dice.chance(10) {
            flags |= PADDED;
            padding = self.dice.below(30);
            front.push(padding as u8);
        }
        if self.dice.chance(10) {
            flags |= PRIORITISED;
            // It depends on no stream, since none has this ID.
            front.extend_from_slice(&[0x80 * self.dice.below(2) as u8, 0, 0, 0, 7]);
        }
        let (mut bytes, mut start, last) = (Vec::new(), 0, cuts.len() - 1);
        for (at, end) in cuts.into_iter().enumerate() {
            let end_flag = if at == last { END_HEADERS } else { 0 };
            let piece = &block[start..end];
            if at == 0 {
                let payload = [&front, piece, &vec![0; padding]].concat();
                bytes.extend(frame(HEADERS, flags | end_flag, id, &payload));
            } else {
                bytes.extend(frame(CONTINUATION, end_flag, id, piece));
            }
            start = end;
        }
        bytes
    }

    /// What a stream may still send, as both servers see it.
    pub(super) fn room(&self, at: usize) -> usize {
        let windows = [self.streams[at].windows, self.windows].concat();
        let least = windows.into_iter().min().unwrap_or(0);
        usize::try_from(least).unwrap_or(0)
    }

    /// The same without the connection's window.
    pub(super) fn stream_room(&self, at: usize) -> usize {
        let [one, other] = self.streams[at].windows;
        usize::try_from(one.min(other)).unwrap_or(0)
    }

    /// What the connection may still carry.
    pub(super) fn connection_room(&self) -> usize {
        let [one, other] = self.windows;
        usize::try_from(one.min(other)).unwrap_or(0)
    }

    /// More bytes than a stream's window can ever be.
    pub(super) fn beyond_stream_window(&self) -> usize {
        let window = i64::from(self.local.window);
        let window = if self.has_acknowledged {
            window
        } else {
            FIRST_WINDOW
        };
        window as usize + 1
    }

    /// One DATA frame with so many bytes, which counts against all windows.
    pub(super) fn data_frame(
        &mut self,
        at: usize,
        length: usize,
        padding: Option<u8>,
        ended: bool,
    ) -> Vec<u8> {
        let stream = &mut self.streams[at];
        let body = stream.sent..stream.sent + length;
        let body = body.map(|at| (at as u32 * 7 + stream.id) as u8);
        let mut payload: Vec<u8> = padding.into_iter().chain(body).collect();
        payload.resize(payload.len() + usize::from(padding.unwrap_or(0)), 0);
        stream.sent += length;
        stream.has_ended |= ended;
        if let Some(due) = &mut stream.due {
            *due = due.saturating_sub(length);
        }
        for window in stream.windows.iter_mut().chain(&mut self.windows) {
            *window -= payload.len() as i64;
        }
        let flags = u8::from(ended) | if padding.is_some() { PADDED } else { 0 };
        frame(DATA, flags, stream.id, &payload)
    }

    fn data(&mut self) -> Option<ClientStep> {
        let at = self.stream(AskedStream::is_open)?;
        let padding = self.dice.chance(15).then(|| self.dice.below(40) as u8);
        let overhead = padding.map_or(0, |padding| 1 + usize::from(padding));
        let stream = &self.streams[at];
        let (id, due) = (stream.id, stream.due.unwrap_or(usize::MAX));
        let most = self.room(at).checked_sub(overhead)?;
        let most = most.min(due).min(MAX_PAYLOAD - overhead);
        let length = match self.dice.below(10) {
            0 => 0,
            1 => most,
            2 => self.dice.below(most + 1),
            _ => self.dice.below(most.min(300) + 1),
        };
        let may_end = self.streams[at].due.is_none_or(|due| due == length);
        let ended = may_end && self.dice.chance(40);
        let words = format!("{length} bytes of {id}, padding {padding:?}, ended {ended}");
        let bytes = self.data_frame(at, length, padding, ended);
        Some(ClientStep::new(words, bytes))
    }

    fn trailers(&mut self) -> Option<ClientStep> {
        let at = self.stream(|stream| stream.is_open() && stream.due.unwrap_or(0) == 0)?;
        let id = self.streams[at].id;
        self.streams[at].has_ended = true;
        let mut block = Vec::new();
        self.regular_fields(&mut block);
        Some(ClientStep::new(
            format!("trailers of {id}"),
            self.section(id, true, &block),
        ))
    }

    fn cancel(&mut self) -> Option<ClientStep> {
        let at = self.stream(|_| true)?;
        let code = self.dice.below(16) as u32;
        self.streams[at].is_cancelled = true;
        let id = self.streams[at].id;
        let words = format!("a reset of {id} with {code}");
        Some(ClientStep::new(
            words,
            frame(RST_STREAM, 0, id, &code.to_be_bytes()),
        ))
    }

    fn window_update(&mut self) -> ClientStep {
        let id = match self.stream(|_| true) {
            Some(at) if self.dice.chance(60) => self.streams[at].id,
            _ => 0,
        };
        let by = 1 + self.dice.below(2_000) as u32;
        // The highest bit is reserved.
        let sent = by | if self.dice.chance(10) { 1 << 31 } else { 0 };
        let words = format!("a window of {by} more for {id}");
        ClientStep::new(words, frame(WINDOW_UPDATE, 0, id, &sent.to_be_bytes()))
    }

    pub(super) fn settings(&mut self) -> ClientStep {
        let mut values = Vec::new();
        for _ in 0..self.dice.below(4) {
            let (dice, may_shrink) = (&mut self.dice, self.may_shrink_windows);
            values.push(match dice.below(8) {
                0 => (1, *dice.pick(&[0, 100, 4_096, 65_536])),
                1 => (2, dice.below(2) as u32),
                2 => (3, dice.below(200) as u32),
                3 | 4 if may_shrink => (4, *dice.pick(&[0, 1, 500, 2_000, 65_535, 1 << 20])),
                5 => (5, *dice.pick(&[16_384, 20_000, (1 << 24) - 1])),
                6 => (6, 4_096 + dice.below(60_000) as u32),
                _ => (0x77 + dice.below(9) as u16, dice.below(usize::MAX) as u32),
            });
        }
        ClientStep::new(format!("SETTINGS {values:?}"), settings(&values))
    }

    fn acknowledge(&mut self) -> Option<ClientStep> {
        if std::mem::replace(&mut self.has_acknowledged, true) {
            return None;
        }
        let by = i64::from(self.local.window) - FIRST_WINDOW;
        for stream in &mut self.streams {
            stream.windows = stream.windows.map(|window| window + by);
        }
        Some(ClientStep::new(
            "SETTINGS acknowledged",
            frame(SETTINGS, ACK, 0, b""),
        ))
    }

    fn ping(&mut self) -> ClientStep {
        let data = self.dice.next().to_be_bytes();
        // An acknowledgement that nothing asked for is ignored.
        let flags = u8::from(self.dice.chance(20));
        ClientStep::new(format!("PING, flags {flags}"), frame(PING, flags, 0, &data))
    }

    fn priority(&mut self) -> ClientStep {
        let id = 1 + self.dice.below(40) as u32;
        // It depends on no stream, since none has this ID.
        let payload = [0, 0, 0, 101, 16];
        ClientStep::new(
            format!("PRIORITY of {id}"),
            frame(PRIORITY, 0, id, &payload),
        )
    }

    fn priority_update(&mut self) -> ClientStep {
        let id = 1 + 2 * self.dice.below(20) as u32;
        let payload = [&id.to_be_bytes()[..], b"u=1, i"].concat();
        let words = format!("PRIORITY_UPDATE of {id}");
        ClientStep::new(words, frame(PRIORITY_UPDATE, 0, 0, &payload))
    }

    fn unknown(&mut self) -> ClientStep {
        let kind = 0x20 + self.dice.below(200) as u8;
        let (flags, stream) = (self.dice.below(256) as u8, self.dice.below(20) as u32);
        let payload = vec![0xaa; self.dice.below(100)];
        let words = format!("an unknown frame {kind:#x} on {stream}");
        ClientStep::new(words, frame(kind, flags, stream, &payload))
    }

    /// What was on its way when the servers reset a stream (RFC 9113 §5.1).
    fn late(&mut self) -> Option<ClientStep> {
        let is_late = |stream: &AskedStream| {
            stream.is_refused
                && !stream.is_one_too_many
                && !stream.has_ended
                && !stream.is_cancelled
        };
        let at = self.stream(is_late)?;
        let id = self.streams[at].id;
        if self.dice.chance(30) {
            self.streams[at].has_ended = true;
            let mut block = Vec::new();
            self.regular_fields(&mut block);
            let bytes = self.section(id, true, &block);
            return Some(ClientStep::new(format!("late trailers of {id}"), bytes));
        }
        let most = self.room(at).min(200);
        let length = self.dice.below(most + 1);
        let ended = self.dice.chance(20);
        let bytes = self.data_frame(at, length, None, ended);
        let words = format!("{length} late bytes of {id}, ended {ended}");
        Some(ClientStep::new(words, bytes))
    }
}

/// A string of HPACK with at most 126 bytes, without Huffman codes (RFC 7541 §5.2).
pub(super) fn string(block: &mut Vec<u8>, text: &[u8]) {
    assert!(text.len() < 127);
    block.push(text.len() as u8);
    block.extend_from_slice(text);
}

/// A field that is not for the table (RFC 7541 §6.2.2).
pub(super) fn literal(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0);
    string(block, name);
    string(block, value);
}
