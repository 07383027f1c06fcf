//! What the server says on a connection, frame by frame.

use std::collections::VecDeque;

use lockgate_http::head::Method;

use super::super::Fault;
use super::connection::{Block, Connection, HEAD_LIST, LARGEST_WINDOW, Outcome};
use super::frame::{self, Frame, FrameType};
use super::stream::{Grpc, Stream};
use crate::result::Failure;

/// What a head says, as far as it matters here.
#[derive(Default)]
struct Said {
    status: Option<u16>,
    /// Whether it has a status at all, or several.
    statuses: usize,
    length: Option<u64>,
    grpc: Option<u64>,
    coding: Option<Vec<u8>>,
    is_misplaced: bool,
}

impl Said {
    fn take(&mut self, is_first: bool, name: &[u8], value: &[u8]) {
        let number = || {
            std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse::<u64>().ok())
        };
        match name {
            b":status" => {
                self.statuses += 1;
                self.status = number()
                    .filter(|status| (100..1000).contains(status))
                    .map(|status| status as u16);
            }
            // There is no other of a response (§8.3.2).
            [b':', ..] => self.is_misplaced = true,
            b"content-length" => self.length = number(),
            b"grpc-status" => self.grpc = number(),
            b"content-encoding" => self.coding = Some(value.to_vec()),
            _ => {}
        }
        self.is_misplaced |= name == b":status" && !is_first;
    }
}

fn garbage(text: impl Into<String>) -> Fault {
    Fault::new(Failure::Garbage, text)
}

impl Connection {
    /// Takes apart the frames that `bytes` begins with, and says how many bytes they are.
    ///
    /// # Errors
    /// When what came is not HTTP/2: the connection is of no use any more.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let mut at = 0;
        while let Some(frame) = self.rest.take().or_else(|| Frame::read(&bytes[at..])) {
            if !self.has_settings {
                if bytes.starts_with(b"HTTP/1.") {
                    let text = "the server responded with HTTP/1: without TLS it must support HTTP/2 by prior knowledge (h2c)";
                    return Err(garbage(text));
                }
                if frame.kind != FrameType::Settings || frame.has(frame::ACK) {
                    return Err(garbage("the first bytes are not HTTP/2"));
                }
            }
            if frame.length > frame::LONGEST {
                return Err(garbage(format!(
                    "a frame of {} bytes, more than allowed",
                    frame.length
                )));
            }
            let come = &bytes[at + frame.head..];
            if let Some(payload) = come.get(..frame.length) {
                at += frame.head + frame.length;
                self.take_frame(&frame, payload)?;
            } else if let Some((part, rest)) = frame.split(come.len()) {
                // A body is taken as it comes: what is kept until more comes is copied.
                at = bytes.len();
                self.take_frame(&part, come)?;
                self.rest = Some(rest);
                break;
            } else {
                break;
            }
        }
        Ok(at)
    }

    fn take_frame(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), Fault> {
        // §6.10: nothing may come within a head.
        let goes_on =
            |block: &Block| frame.kind == FrameType::Continuation && frame.stream == block.stream;
        if self.block.as_ref().is_some_and(|block| !goes_on(block)) {
            return Err(garbage("a frame within a field section"));
        }
        let of_a_stream = matches!(
            frame.kind,
            FrameType::Data | FrameType::Headers | FrameType::Reset | FrameType::Continuation
        );
        let of_all = matches!(
            frame.kind,
            FrameType::Settings | FrameType::Ping | FrameType::Goaway
        );
        // Streams that were not begun have said nothing (§5.1), and the server begins none.
        let is_begun = frame.stream % 2 == 1 && frame.stream < self.next;
        if of_a_stream && !is_begun || of_all && frame.stream != 0 {
            return Err(garbage(format!(
                "a frame on a wrong stream ({})",
                frame.stream
            )));
        }
        self.heard += u64::from(of_a_stream);
        match frame.kind {
            FrameType::Data => self.take_data(frame, payload),
            FrameType::Headers => {
                let content = frame
                    .content(payload)
                    .ok_or_else(|| garbage("padding longer than its frame"))?;
                let (stream, ends_stream) = (frame.stream, frame.has(frame::END_STREAM));
                let wire = frame::HEAD + payload.len();
                if frame.has(frame::END_HEADERS) {
                    return self.take_head(stream, ends_stream, content, wire);
                }
                self.block = Some(Block {
                    stream,
                    ends_stream,
                    bytes: content.to_vec(),
                    wire,
                });
                Ok(())
            }
            FrameType::Continuation => self.take_continuation(frame, payload),
            FrameType::Reset => self.take_reset(frame.stream, number(payload)?),
            FrameType::Settings => self.take_settings(frame, payload),
            FrameType::Ping => self.take_ping(frame, payload),
            FrameType::Goaway => self.take_goaway(payload),
            FrameType::WindowUpdate => {
                self.take_window_update(frame.stream, number(payload)? & 0x7fff_ffff)
            }
            FrameType::PushPromise => Err(garbage("a push, which is not allowed")),
            FrameType::Priority | FrameType::Other => Ok(()),
        }
    }

    fn take_data(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), Fault> {
        let data = frame
            .content(payload)
            .ok_or_else(|| garbage("padding longer than its frame"))?;
        // Padding counts (§6.9.1), and so does what comes for a stream that was given up.
        self.taken += payload.len() as u32;
        if self.taken >= self.windows.connection / 2 {
            let taken = std::mem::take(&mut self.taken);
            self.write_number(FrameType::WindowUpdate, 0, taken);
        }
        let Some(place) = self.streams.find(frame.stream) else {
            return Ok(());
        };
        let Some(stream) = self.streams.get(place) else {
            return Ok(());
        };
        stream.stats.received += (frame.head + payload.len()) as u64;
        if stream.stats.response.status.is_none() {
            return self.refuse(place, "data before the response");
        }
        stream.stats.response.length += data.len() as u64;
        if let Some(hasher) = &mut stream.hasher {
            hasher.update(data);
        }
        if let Some(kept) = &mut stream.kept {
            kept.data.extend_from_slice(data);
        }
        if frame.has(frame::END_STREAM) {
            return self.finish_answer(place);
        }
        stream.taken += payload.len() as u32;
        if stream.taken >= self.windows.stream / 2 {
            let taken = std::mem::take(&mut stream.taken);
            self.write_number(FrameType::WindowUpdate, frame.stream, taken);
        }
        Ok(())
    }

    fn take_continuation(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), Fault> {
        let Some(mut block) = self.block.take() else {
            return Err(garbage(
                "a CONTINUATION frame without a field section to continue",
            ));
        };
        block.wire += frame::HEAD + payload.len();
        if block.wire > HEAD_LIST {
            return Err(garbage("a field section that is too long"));
        }
        block.bytes.extend_from_slice(payload);
        if frame.has(frame::END_HEADERS) {
            return self.take_head(block.stream, block.ends_stream, &block.bytes, block.wire);
        }
        self.block = Some(block);
        Ok(())
    }

    fn take_head(
        &mut self,
        id: u32,
        ends_stream: bool,
        block: &[u8],
        wire: usize,
    ) -> Result<(), Fault> {
        let (mut said, mut fields) = (Said::default(), 0);
        // Also of a stream that was given up: what follows builds on it.
        let decoded = self.decoder.decode(block, HEAD_LIST, |name, value| {
            said.take(fields == 0, name, value);
            fields += 1;
        });
        decoded.map_err(|error| garbage(error.to_string()))?;
        let Some(place) = self.streams.find(id) else {
            return Ok(());
        };
        let Some(stream) = self.streams.get(place) else {
            return Ok(());
        };
        stream.stats.received += wire as u64;
        if let (Some(grpc), Some(_)) = (&mut stream.grpc, said.grpc) {
            grpc.status = said.grpc;
        }
        let is_trailer = stream.stats.response.status.is_some();
        match said {
            Said {
                is_misplaced: true, ..
            } => self.refuse(place, "a pseudo-header field in a wrong place"),
            Said { statuses: 0, .. } if is_trailer && ends_stream => self.finish_answer(place),
            _ if is_trailer => self.refuse(place, "a second field section with a status"),
            Said {
                statuses: 1,
                status: Some(status),
                ..
            } if status != 101 => {
                if status < 200 {
                    return if ends_stream {
                        self.refuse(place, "the end of the stream without a response")
                    } else {
                        Ok(())
                    };
                }
                stream.stats.response.status = Some(status);
                stream.declared = said.length;
                if let Some(kept) = &mut stream.kept {
                    kept.coding = said.coding;
                }
                if ends_stream {
                    self.finish_answer(place)
                } else {
                    Ok(())
                }
            }
            _ => self.refuse(place, "a response without a valid status"),
        }
    }

    /// The response has come to its end.
    fn finish_answer(&mut self, place: usize) -> Result<(), Fault> {
        let Some(stream) = self.streams.take(place) else {
            return Ok(());
        };
        if stream.body.is_some() {
            // It was answered before all of the request was sent: the rest never is (§8.1).
            self.write_number(FrameType::Reset, stream.id, frame::CANCEL);
        }
        let outcome = match stream.declared {
            Some(declared) if declared != stream.stats.response.length && has_body(&stream) => {
                let text = format!(
                    "{} bytes were received, but content-length is {declared}",
                    stream.stats.response.length
                );
                Outcome::Failed(Fault::new(Failure::Length, text))
            }
            // What is no response of a call at all is seen by its status.
            _ => match stream
                .grpc
                .filter(|_| stream.stats.response.status == Some(200))
                .and_then(Grpc::fault)
            {
                Some(fault) => Outcome::Failed(fault),
                None => Outcome::Answered,
            },
        };
        self.finish(place, stream, outcome);
        Ok(())
    }

    /// What came for a stream is no response; others are as good as they were (§8.1.1).
    fn refuse(&mut self, place: usize, text: &str) -> Result<(), Fault> {
        if let Some(stream) = self.streams.take(place) {
            self.write_number(FrameType::Reset, stream.id, frame::PROTOCOL_ERROR);
            self.finish(place, stream, Outcome::Failed(garbage(text)));
        }
        Ok(())
    }

    fn take_reset(&mut self, id: u32, code: u32) -> Result<(), Fault> {
        let Some(place) = self.streams.find(id) else {
            return Ok(());
        };
        let Some(stream) = self.streams.take(place) else {
            return Ok(());
        };
        let kind = if code == frame::REFUSED_STREAM {
            Failure::Refused
        } else {
            Failure::Reset
        };
        let text = format!("the server reset the stream: {}", frame::code(code));
        self.finish(place, stream, Outcome::Failed(Fault::new(kind, text)));
        Ok(())
    }

    fn take_settings(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), Fault> {
        if frame.has(frame::ACK) {
            return Ok(());
        }
        let mut streams = None;
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(garbage("SETTINGS of a wrong length"));
        }
        for [a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                frame::HEADER_TABLE_SIZE => self.encoder.resize(value as usize),
                frame::MAX_CONCURRENT_STREAMS => streams = Some(value as usize),
                frame::INITIAL_WINDOW_SIZE if value > LARGEST_WINDOW => {
                    return Err(garbage("a flow-control window that is too large"));
                }
                frame::INITIAL_WINDOW_SIZE => self.change_windows(value),
                // Longer frames gain nothing: a record of TLS has no more than the usual ones.
                _ => {}
            }
        }
        // Without a word about them there may be as many as one likes.
        if !std::mem::replace(&mut self.has_settings, true) {
            self.peer.streams = streams.unwrap_or(usize::MAX);
        } else if let Some(streams) = streams {
            self.peer.streams = streams;
        }
        self.write_frame(FrameType::Settings, frame::ACK, &[]);
        Ok(())
    }

    /// The windows of all streams change with what they are at the beginning (§6.9.2).
    fn change_windows(&mut self, window: u32) {
        let more = i64::from(window) - i64::from(self.peer.window);
        self.peer.window = window;
        let uploads = &mut self.uploads;
        for (place, stream) in self.streams.all() {
            stream.window += more;
            queue(uploads, place, stream);
        }
    }

    fn take_window_update(&mut self, id: u32, more: u32) -> Result<(), Fault> {
        if more == 0 {
            return Err(garbage("a window update of 0"));
        }
        if id == 0 {
            self.window += i64::from(more);
        } else if let Some(place) = self.streams.find(id)
            && let Some(stream) = self.streams.get(place)
        {
            stream.window += i64::from(more);
            queue(&mut self.uploads, place, stream);
        }
        Ok(())
    }

    fn take_ping(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 8 {
            return Err(garbage("a PING of a wrong length"));
        }
        if !frame.has(frame::ACK) {
            self.write_frame(FrameType::Ping, frame::ACK, payload);
        }
        Ok(())
    }

    /// What the server does nothing about may be asked of another connection; the rest goes on
    /// (§6.8).
    fn take_goaway(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let last = number(payload)? & 0x7fff_ffff;
        let code = number(payload.get(4..).unwrap_or_default())?;
        self.goodbye = Some(code);
        let above = self.streams.all().filter(|(_, stream)| stream.id > last);
        let places: Vec<_> = above.map(|(place, _)| place).collect();
        for place in places {
            if let Some(stream) = self.streams.take(place) {
                let text = format!(
                    "the server closed the connection before any response: {}",
                    frame::code(code)
                );
                self.finish(
                    place,
                    stream,
                    Outcome::Unprocessed(Fault::new(Failure::Goaway, text)),
                );
            }
        }
        Ok(())
    }
}

/// Whether what a head says of a length is about a body that comes (RFC 9110 §8.6).
fn has_body(stream: &Stream) -> bool {
    stream.method != Method::Head && !matches!(stream.stats.response.status, Some(204 | 304))
}

/// Has the body of a stream go on, if there is one and it may.
fn queue(uploads: &mut VecDeque<usize>, place: usize, stream: &mut Stream) {
    if let Some(sending) = &mut stream.body
        && stream.window > 0
        && !std::mem::replace(&mut sending.is_queued, true)
    {
        uploads.push_back(place);
    }
}

/// The number that a payload begins with.
fn number(payload: &[u8]) -> Result<u32, Fault> {
    let four = payload
        .first_chunk()
        .ok_or_else(|| garbage("a frame that is too short"))?;
    Ok(u32::from_be_bytes(*four))
}
