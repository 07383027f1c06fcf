//! One end of an HTTP/2 connection, scripted: sends any frame, and reads one frame at a time.
//!
//! Enforces no rules: no states of streams, no windows. By default it acknowledges SETTINGS and
//! PING, which every peer under test waits for.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use super::frame::{self, Frame, flag, kind};
use super::hpack::{self, Decoder};
use super::message::{Field, ReceivedResponse, text};
use crate::tls::{ClientSettings, Tls};
use crate::wire::{Wire, shown};

/// The connection preface of a client (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection, and bytes that were read ahead of it.
#[derive(Debug)]
pub struct Peer<S = Wire> {
    /// Its stream; reading it directly skips bytes that were read ahead.
    pub stream: S,
    /// Whether SETTINGS and PING are acknowledged as they are read.
    pub acknowledges: bool,
    unread: Vec<u8>,
    decoder: Decoder,
}

/// The GOAWAY of the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// The last stream that it has processed.
    pub last_stream: u32,
    /// A number of [`frame::code`].
    pub code: u32,
    /// The debug data.
    pub debug: String,
}

impl Peer<Wire> {
    /// Connects as a client with prior knowledge of HTTP/2, and sends the preface and empty
    /// SETTINGS.
    ///
    /// # Panics
    /// When there is no listener.
    pub fn connect(to: SocketAddr) -> Self {
        let mut peer = Self::over(Wire::connect(to));
        peer.hello(&[]);
        peer
    }

    /// Another handle of the same connection, for a thread that reads while this one writes; it
    /// acknowledges nothing. Bytes that were read ahead stay here.
    ///
    /// # Panics
    /// When descriptors run out.
    pub fn another(&self) -> Self {
        Self {
            acknowledges: false,
            ..Self::over(self.stream.another())
        }
    }
}

impl Peer<Tls> {
    /// Connects over TLS, agrees on `h2` by ALPN, and sends the preface and empty SETTINGS.
    ///
    /// # Panics
    /// When the other end does not agree.
    pub fn connect_tls(settings: &ClientSettings, to: SocketAddr, name: &str) -> Self {
        let tls = settings
            .clone()
            .alpn(&["h2"])
            .connect(to, name)
            .expect("a handshake");
        assert_eq!(tls.agreed().alpn_protocol(), Some(&b"h2"[..]));
        let mut peer = Self::over(tls);
        peer.hello(&[]);
        peer
    }
}

impl<S: Read + Write> Peer<S> {
    /// Wraps `stream`; nothing is sent yet.
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            acknowledges: true,
            unread: Vec::new(),
            decoder: Decoder::new(4096),
        }
    }

    /// Serves over `stream`: reads the preface of a client, and sends SETTINGS.
    ///
    /// # Panics
    /// When the client's preface is wrong.
    pub fn accept(stream: S, settings: &[(u16, u32)]) -> Self {
        let mut peer = Self::over(stream);
        while peer.unread.len() < PREFACE.len() {
            assert!(
                peer.read_more().is_ok_and(|more| more),
                "no preface: {}",
                shown(&peer.unread)
            );
        }
        let rest = peer.unread.split_off(PREFACE.len());
        let preface = std::mem::replace(&mut peer.unread, rest);
        assert!(
            preface == PREFACE,
            "this is no preface: {}",
            shown(&preface)
        );
        peer.settings(settings);
        peer
    }

    /// Begins as a client: the preface and SETTINGS.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn hello(&mut self, settings: &[(u16, u32)]) {
        self.send(
            [
                PREFACE,
                &frame::frame(kind::SETTINGS, 0, 0, frame::settings(settings)),
            ]
            .concat(),
        );
    }

    /// Sends bytes as they are, at once.
    ///
    /// # Panics
    /// When the peer does not accept them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the peer takes it");
    }

    /// Sends bytes as they are, to a peer that may have ended.
    ///
    /// # Errors
    /// When it has.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream
            .write_all(bytes.as_ref())
            .and_then(|()| self.stream.flush())
    }

    /// Sends any frame.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) {
        self.send(frame::frame(kind, flags, stream, payload));
    }

    /// Sends HEADERS, in one frame; `end` ends this half of the stream.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn headers(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) {
        let end = if end { flag::END_STREAM } else { 0 };
        self.frame(
            kind::HEADERS,
            flag::END_HEADERS | end,
            stream,
            hpack::section(fields),
        );
    }

    /// Sends a request for `path` at `app.test`, without a body.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn get(&mut self, stream: u32, path: &str) {
        let scheme = (":scheme", "http");
        self.headers(
            stream,
            &[
                (":method", "GET"),
                scheme,
                (":authority", "app.test"),
                (":path", path),
            ],
            true,
        );
    }

    /// Sends DATA, in one frame.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn data(&mut self, stream: u32, bytes: impl AsRef<[u8]>, end: bool) {
        self.frame(
            kind::DATA,
            if end { flag::END_STREAM } else { 0 },
            stream,
            bytes,
        );
    }

    /// Sends RST_STREAM.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn reset(&mut self, stream: u32, code: u32) {
        self.frame(kind::RST_STREAM, 0, stream, code.to_be_bytes());
    }

    /// Sends PING.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn ping(&mut self, bytes: [u8; 8]) {
        self.frame(kind::PING, 0, 0, bytes);
    }

    /// Sends WINDOW_UPDATE; the stream 0 is the connection.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn window_update(&mut self, stream: u32, more: u32) {
        self.frame(kind::WINDOW_UPDATE, 0, stream, more.to_be_bytes());
    }

    /// Sends SETTINGS.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn settings(&mut self, settings: &[(u16, u32)]) {
        self.frame(kind::SETTINGS, 0, 0, frame::settings(settings));
    }

    /// Sends GOAWAY.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn goaway(&mut self, last_stream: u32, code: u32) {
        self.frame(
            kind::GOAWAY,
            0,
            0,
            [last_stream.to_be_bytes(), code.to_be_bytes()].concat(),
        );
    }

    /// The next frame; `None` is the peer's close between two frames.
    ///
    /// # Errors
    /// When it ends in another way, within a frame too, or no frame comes.
    pub fn try_next(&mut self) -> io::Result<Option<Frame>> {
        while self.unread.len() < 9 {
            if !self.read_more()? {
                let clean = self.unread.is_empty();
                return if clean {
                    Ok(None)
                } else {
                    Err(ErrorKind::UnexpectedEof.into())
                };
            }
        }
        let head: [u8; 9] = self.unread[..9].try_into().expect("it is there");
        let [_, _, _, kind, flags, stream @ ..] = head;
        let end =
            9 + (usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]));
        while self.unread.len() < end {
            if !self.read_more()? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let payload = self.unread[9..end].to_vec();
        self.unread.drain(..end);
        let frame = Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
            payload,
        };
        if self.acknowledges
            && matches!(kind, kind::SETTINGS | kind::PING)
            && flags & flag::ACK == 0
        {
            let payload = if kind == kind::PING {
                &frame.payload[..]
            } else {
                &[]
            };
            // A peer that has closed already gets nothing; the frames that it sent are still read.
            let _ = self.try_send(frame::frame(kind, flag::ACK, 0, payload));
        }
        Ok(Some(frame))
    }

    /// The next frame; not named `next`, since an end is a panic.
    ///
    /// # Panics
    /// When the peer ends, or sends none.
    pub fn read(&mut self) -> Frame {
        self.try_next()
            .expect("the peer sends frames")
            .expect("the peer goes on")
    }

    /// The next frame of this kind; others are discarded, but their field sections are decoded.
    ///
    /// # Panics
    /// When none comes.
    pub fn read_until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.read();
            if frame.kind == kind {
                return frame;
            }
            if frame.kind == kind::HEADERS {
                self.fields(&frame);
            }
        }
    }

    /// Waits until the peer has processed everything sent so far: until a PING is acknowledged.
    /// Frames before are returned.
    ///
    /// # Panics
    /// When it is not acknowledged.
    pub fn settle(&mut self) -> Vec<Frame> {
        self.ping(*b"settle??");
        let mut before = Vec::new();
        loop {
            let frame = self.read();
            if frame.has(kind::PING, flag::ACK) && frame.payload == b"settle??" {
                return before;
            }
            before.push(frame);
        }
    }

    /// The fields of HEADERS and its CONTINUATION frames. Every HEADERS must be passed here, in
    /// order.
    ///
    /// # Panics
    /// When the section is malformed.
    pub fn fields(&mut self, headers: &Frame) -> Vec<Field> {
        let mut payload = &headers.payload[..];
        let mut padding = 0;
        if headers.flags & flag::PADDED != 0 {
            padding = usize::from(payload[0]);
            payload = &payload[1..];
        }
        if headers.flags & flag::PRIORITY != 0 {
            payload = &payload[5..];
        }
        let mut section = payload[..payload.len() - padding].to_vec();
        let mut whole = headers.flags & flag::END_HEADERS != 0;
        while !whole {
            let more = self.read();
            assert_eq!(
                (more.kind, more.stream),
                (kind::CONTINUATION, headers.stream)
            );
            section.extend_from_slice(&more.payload);
            whole = more.flags & flag::END_HEADERS != 0;
        }
        let fields = self
            .decoder
            .decode(&section)
            .unwrap_or_else(|wrong| panic!("{wrong}: {section:x?}"));
        fields
            .into_iter()
            .map(|(name, value)| (text(&name), text(&value)))
            .collect()
    }

    /// The response on this stream, up to its end or its reset; its window is opened for the body
    /// as far as needed. Frames of other streams are dropped.
    ///
    /// # Panics
    /// When the peer ends earlier, or sends GOAWAY before the response begins.
    pub fn answer(&mut self, stream: u32) -> ReceivedResponse {
        let mut answer = ReceivedResponse::default();
        loop {
            let frame = self.read();
            match frame.kind {
                kind::HEADERS => {
                    let fields = self.fields(&frame);
                    if frame.stream == stream {
                        answer.take(fields);
                    }
                }
                kind::DATA if !frame.payload.is_empty() => {
                    let more = u32::try_from(frame.payload.len()).expect("frames are short");
                    // For an ended stream it is needless, and harmless.
                    self.window_update(0, more);
                    if frame.stream == stream {
                        self.window_update(stream, more);
                        answer.body.extend_from_slice(unpadded(&frame));
                    }
                }
                kind::RST_STREAM if frame.stream == stream => {
                    answer.reset = Some(frame.number(0));
                    return answer;
                }
                kind::GOAWAY => {
                    let goaway = GoAway::of(&frame);
                    assert!(
                        goaway.last_stream >= stream,
                        "no answer on {stream}: {goaway:?}"
                    );
                }
                _ => {}
            }
            if frame.stream == stream && frame.ends_stream() {
                return answer;
            }
        }
    }

    /// Reads to the end of the connection: all frames, and how it ended; `Err` is a reset or a cut.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(&mut self) -> (Vec<Frame>, io::Result<()>) {
        let mut frames = Vec::new();
        loop {
            match self.try_next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return (frames, Ok(())),
                Err(error) => {
                    let waits = error.kind() == ErrorKind::WouldBlock;
                    assert!(!waits, "the peer does not end; it sent {frames:?}");
                    return (frames, Err(error));
                }
            }
        }
    }

    /// Reads to the end of the connection, which must bring a GOAWAY; returns the last one.
    ///
    /// # Panics
    /// When there is none, or the connection does not end.
    pub fn goodbye(&mut self) -> GoAway {
        let (frames, end) = self.end();
        let last = GoAway::last(&frames);
        last.unwrap_or_else(|| panic!("no goodbye, {end:?} instead: {frames:?}"))
    }

    /// Reads available bytes, or waits for them; `false` is the peer's end.
    fn read_more(&mut self) -> io::Result<bool> {
        let mut read = [0; 16 * 1024];
        let len = self.stream.read(&mut read)?;
        self.unread.extend_from_slice(&read[..len]);
        Ok(len > 0)
    }
}

impl GoAway {
    /// The content of a GOAWAY.
    ///
    /// # Panics
    /// When it is too short.
    pub fn of(frame: &Frame) -> Self {
        let (last_stream, code) = (frame.number(0) & (u32::MAX >> 1), frame.number(4));
        Self {
            last_stream,
            code,
            debug: text(&frame.payload[8..]),
        }
    }

    /// The last one of these frames.
    pub fn last(frames: &[Frame]) -> Option<Self> {
        frames
            .iter()
            .rev()
            .find(|frame| frame.kind == kind::GOAWAY)
            .map(Self::of)
    }
}

/// The bytes of DATA without padding.
fn unpadded(data: &Frame) -> &[u8] {
    if data.flags & flag::PADDED == 0 {
        return &data.payload;
    }
    let end = data.payload.len() - usize::from(data.payload[0]);
    &data.payload[1..end]
}
