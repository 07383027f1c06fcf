//! Receiving half of an HTTP/2 connection, frame by frame.

use std::collections::VecDeque;

use lockgate_http::head::Method;

use super::connection::{
    HeaderBlock, Http2Connection, MAX_HEADER_LIST, MAX_WINDOW, RequestOutcome,
};
use super::frame::{self, FrameType, Http2Frame};
use super::stream::{GrpcStatus, RequestStream};
use crate::client::outcome::ExchangeError;
use crate::result::FailureKind;

/// Fields of a response's head or trailers that matter here.
#[derive(Default)]
struct ResponseFields {
    status: Option<u16>,
    /// How many `:status` fields there are.
    statuses: usize,
    length: Option<u64>,
    grpc: Option<u64>,
    coding: Option<Vec<u8>>,
    is_misplaced: bool,
}

impl ResponseFields {
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
            // Responses have no other pseudo-field (§8.3.2).
            [b':', ..] => self.is_misplaced = true,
            b"content-length" => self.length = number(),
            b"grpc-status" => self.grpc = number(),
            b"content-encoding" => self.coding = Some(value.to_vec()),
            _ => {}
        }
        self.is_misplaced |= name == b":status" && !is_first;
    }
}

fn garbage(text: impl Into<String>) -> ExchangeError {
    ExchangeError::new(FailureKind::Garbage, text)
}

impl Http2Connection {
    /// Handles the frames at the front of `bytes`, and gives their length.
    ///
    /// # Errors
    /// The server does not speak HTTP/2: the connection is of no more use.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<usize, ExchangeError> {
        let mut at = 0;
        while let Some(frame) = self.rest.take().or_else(|| Http2Frame::read(&bytes[at..])) {
            if !self.has_settings {
                if bytes.starts_with(b"HTTP/1.") {
                    let text = "the server responded with HTTP/1: without TLS it must support HTTP/2 by prior knowledge (h2c)";
                    return Err(garbage(text));
                }
                if frame.kind != FrameType::Settings || frame.has(frame::ACK) {
                    return Err(garbage("the first bytes are not HTTP/2"));
                }
            }
            if frame.length > frame::MAX_PAYLOAD {
                return Err(garbage(format!(
                    "a frame of {} bytes, more than allowed",
                    frame.length
                )));
            }
            let come = &bytes[at + frame.head..];
            if let Some(payload) = come.get(..frame.length) {
                at += frame.head + frame.length;
                self.recv_frame(&frame, payload)?;
            } else if let Some((part, rest)) = frame.split(come.len()) {
                // Bytes of a body are handled as they come: bytes that stay in the inbox are
                // copied.
                at = bytes.len();
                self.recv_frame(&part, come)?;
                self.rest = Some(rest);
                break;
            } else {
                break;
            }
        }
        Ok(at)
    }

    fn recv_frame(&mut self, frame: &Http2Frame, payload: &[u8]) -> Result<(), ExchangeError> {
        // §6.10: no other frame may come within a header block.
        let goes_on = |block: &HeaderBlock| {
            frame.kind == FrameType::Continuation && frame.stream == block.stream
        };
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
        // An idle stream has no frames (§5.1), and the server may open none.
        let is_begun = frame.stream % 2 == 1 && frame.stream < self.next;
        if of_a_stream && !is_begun || of_all && frame.stream != 0 {
            return Err(garbage(format!(
                "a frame on a wrong stream ({})",
                frame.stream
            )));
        }
        self.frames_received += u64::from(of_a_stream);
        match frame.kind {
            FrameType::Data => self.recv_data(frame, payload),
            FrameType::Headers => {
                let content = frame
                    .content(payload)
                    .ok_or_else(|| garbage("padding longer than its frame"))?;
                let (stream, ends_stream) = (frame.stream, frame.has(frame::END_STREAM));
                let wire = frame::HEAD + payload.len();
                if frame.has(frame::END_HEADERS) {
                    return self.recv_headers(stream, ends_stream, content, wire);
                }
                self.block = Some(HeaderBlock {
                    stream,
                    ends_stream,
                    bytes: content.to_vec(),
                    wire,
                });
                Ok(())
            }
            FrameType::Continuation => self.recv_continuation(frame, payload),
            FrameType::Reset => self.recv_reset(frame.stream, number(payload)?),
            FrameType::Settings => self.recv_settings(frame, payload),
            FrameType::Ping => self.recv_ping(frame, payload),
            FrameType::Goaway => self.recv_goaway(payload),
            FrameType::WindowUpdate => {
                self.recv_window_update(frame.stream, number(payload)? & 0x7fff_ffff)
            }
            FrameType::PushPromise => Err(garbage("a push, which is not allowed")),
            FrameType::Priority | FrameType::Other => Ok(()),
        }
    }

    fn recv_data(&mut self, frame: &Http2Frame, payload: &[u8]) -> Result<(), ExchangeError> {
        let data = frame
            .content(payload)
            .ok_or_else(|| garbage("padding longer than its frame"))?;
        // Padding counts (§6.9.1), and so does data of a cancelled stream.
        self.unacknowledged += payload.len() as u32;
        if self.unacknowledged >= self.windows.connection / 2 {
            let unacknowledged = std::mem::take(&mut self.unacknowledged);
            self.write_number(FrameType::WindowUpdate, 0, unacknowledged);
        }
        let Some(slot) = self.streams.find(frame.stream) else {
            return Ok(());
        };
        let Some(stream) = self.streams.get(slot) else {
            return Ok(());
        };
        stream.stats.received += (frame.head + payload.len()) as u64;
        if stream.stats.response.status.is_none() {
            return self.refuse(slot, "data before the response");
        }
        stream.stats.response.length += data.len() as u64;
        if let Some(hasher) = &mut stream.hasher {
            hasher.update(data);
        }
        if let Some(buffered) = &mut stream.buffered {
            buffered.data.extend_from_slice(data);
        }
        if frame.has(frame::END_STREAM) {
            return self.finish_response(slot);
        }
        stream.unacknowledged += payload.len() as u32;
        if stream.unacknowledged >= self.windows.stream / 2 {
            let unacknowledged = std::mem::take(&mut stream.unacknowledged);
            self.write_number(FrameType::WindowUpdate, frame.stream, unacknowledged);
        }
        Ok(())
    }

    fn recv_continuation(
        &mut self,
        frame: &Http2Frame,
        payload: &[u8],
    ) -> Result<(), ExchangeError> {
        let Some(mut block) = self.block.take() else {
            return Err(garbage(
                "a CONTINUATION frame without a field section to continue",
            ));
        };
        block.wire += frame::HEAD + payload.len();
        if block.wire > MAX_HEADER_LIST {
            return Err(garbage("a field section that is too long"));
        }
        block.bytes.extend_from_slice(payload);
        if frame.has(frame::END_HEADERS) {
            return self.recv_headers(block.stream, block.ends_stream, &block.bytes, block.wire);
        }
        self.block = Some(block);
        Ok(())
    }

    fn recv_headers(
        &mut self,
        id: u32,
        ends_stream: bool,
        block: &[u8],
        wire: usize,
    ) -> Result<(), ExchangeError> {
        let (mut head, mut fields) = (ResponseFields::default(), 0);
        // Also for a cancelled stream: later blocks depend on the dynamic table.
        let decoded = self.decoder.decode(block, MAX_HEADER_LIST, |name, value| {
            head.take(fields == 0, name, value);
            fields += 1;
        });
        decoded.map_err(|error| garbage(error.to_string()))?;
        let Some(slot) = self.streams.find(id) else {
            return Ok(());
        };
        let Some(stream) = self.streams.get(slot) else {
            return Ok(());
        };
        stream.stats.received += wire as u64;
        if let (Some(grpc), Some(_)) = (&mut stream.grpc, head.grpc) {
            grpc.status = head.grpc;
        }
        let is_trailer = stream.stats.response.status.is_some();
        match head {
            ResponseFields {
                is_misplaced: true, ..
            } => self.refuse(slot, "a pseudo-header field in a wrong place"),
            ResponseFields { statuses: 0, .. } if is_trailer && ends_stream => {
                self.finish_response(slot)
            }
            _ if is_trailer => self.refuse(slot, "a second field section with a status"),
            ResponseFields {
                statuses: 1,
                status: Some(status),
                ..
            } if status != 101 => {
                if status < 200 {
                    return if ends_stream {
                        self.refuse(slot, "the end of the stream without a response")
                    } else {
                        Ok(())
                    };
                }
                stream.stats.first_byte = self.read_at;
                stream.stats.response.status = Some(status);
                stream.content_length = head.length;
                if let Some(buffered) = &mut stream.buffered {
                    buffered.coding = head.coding;
                }
                if ends_stream {
                    self.finish_response(slot)
                } else {
                    Ok(())
                }
            }
            _ => self.refuse(slot, "a response without a valid status"),
        }
    }

    /// Ends a response: checks its length and its gRPC status.
    fn finish_response(&mut self, slot: usize) -> Result<(), ExchangeError> {
        let Some(stream) = self.streams.take(slot) else {
            return Ok(());
        };
        if stream.body.is_some() {
            // The response came before all of the request was sent: the rest is never sent (§8.1).
            self.write_number(FrameType::Reset, stream.id, frame::CANCEL);
        }
        let outcome = match stream.content_length {
            Some(content_length)
                if content_length != stream.stats.response.length && has_body(&stream) =>
            {
                let text = format!(
                    "{} bytes were received, but content-length is {content_length}",
                    stream.stats.response.length
                );
                RequestOutcome::Failed(ExchangeError::new(FailureKind::Length, text))
            }
            // A response that is not 200 is judged by its status.
            _ => match stream
                .grpc
                .filter(|_| stream.stats.response.status == Some(200))
                .and_then(GrpcStatus::error)
            {
                Some(error) => RequestOutcome::Failed(error),
                None => RequestOutcome::Answered,
            },
        };
        self.finish(slot, stream, outcome);
        Ok(())
    }

    /// Refuses a malformed response by RST_STREAM; the other streams go on (§8.1.1).
    fn refuse(&mut self, slot: usize, text: &str) -> Result<(), ExchangeError> {
        if let Some(stream) = self.streams.take(slot) {
            self.write_number(FrameType::Reset, stream.id, frame::PROTOCOL_ERROR);
            self.finish(slot, stream, RequestOutcome::Failed(garbage(text)));
        }
        Ok(())
    }

    fn recv_reset(&mut self, id: u32, code: u32) -> Result<(), ExchangeError> {
        let Some(slot) = self.streams.find(id) else {
            return Ok(());
        };
        let Some(stream) = self.streams.take(slot) else {
            return Ok(());
        };
        let text = format!("the server reset the stream: {}", frame::code(code));
        let error = |kind| ExchangeError::new(kind, text);
        let outcome = match (code, stream.stats.response.status) {
            (frame::REFUSED_STREAM, None) => {
                RequestOutcome::Unprocessed(error(FailureKind::Refused))
            }
            // A server that has begun to answer has processed the request, also if it refuses the stream afterwards.
            (frame::REFUSED_STREAM, Some(_)) => RequestOutcome::Failed(error(FailureKind::Refused)),
            _ => RequestOutcome::Failed(error(FailureKind::Reset)),
        };
        self.finish(slot, stream, outcome);
        Ok(())
    }

    fn recv_settings(&mut self, frame: &Http2Frame, payload: &[u8]) -> Result<(), ExchangeError> {
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
                frame::INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                    return Err(garbage("a flow-control window that is too large"));
                }
                frame::INITIAL_WINDOW_SIZE => self.change_initial_window(value),
                // Longer frames have no use: a TLS record is not longer than the default.
                _ => {}
            }
        }
        // Without the setting there is no limit.
        if !std::mem::replace(&mut self.has_settings, true) {
            self.peer.streams = streams.unwrap_or(usize::MAX);
        } else if let Some(streams) = streams {
            self.peer.streams = streams;
        }
        self.write_frame(FrameType::Settings, frame::ACK, &[]);
        Ok(())
    }

    /// Applies a new initial window to all streams (§6.9.2).
    fn change_initial_window(&mut self, window: u32) {
        let more = i64::from(window) - i64::from(self.peer.window);
        self.peer.window = window;
        let uploads = &mut self.uploads;
        for (slot, stream) in self.streams.all() {
            stream.window += more;
            queue(uploads, slot, stream);
        }
    }

    fn recv_window_update(&mut self, id: u32, more: u32) -> Result<(), ExchangeError> {
        if more == 0 {
            return Err(garbage("a window update of 0"));
        }
        if id == 0 {
            self.window += i64::from(more);
        } else if let Some(slot) = self.streams.find(id)
            && let Some(stream) = self.streams.get(slot)
        {
            stream.window += i64::from(more);
            queue(&mut self.uploads, slot, stream);
        }
        Ok(())
    }

    fn recv_ping(&mut self, frame: &Http2Frame, payload: &[u8]) -> Result<(), ExchangeError> {
        if payload.len() != 8 {
            return Err(garbage("a PING of a wrong length"));
        }
        if !frame.has(frame::ACK) {
            self.write_frame(FrameType::Ping, frame::ACK, payload);
        }
        Ok(())
    }

    /// Ends the requests that the server did not process: they may be sent on another connection.
    /// The rest goes on (§6.8).
    fn recv_goaway(&mut self, payload: &[u8]) -> Result<(), ExchangeError> {
        let last = number(payload)? & 0x7fff_ffff;
        let code = number(payload.get(4..).unwrap_or_default())?;
        self.goaway = Some(code);
        let above = self.streams.all().filter(|(_, stream)| stream.id > last);
        let slots: Vec<_> = above.map(|(slot, _)| slot).collect();
        for slot in slots {
            if let Some(stream) = self.streams.take(slot) {
                let text = format!(
                    "the server closed the connection before any response: {}",
                    frame::code(code)
                );
                self.finish(
                    slot,
                    stream,
                    RequestOutcome::Unprocessed(ExchangeError::new(FailureKind::Goaway, text)),
                );
            }
        }
        Ok(())
    }
}

/// Whether the response has a body that content-length counts (RFC 9110 §8.6).
fn has_body(stream: &RequestStream) -> bool {
    stream.method != Method::Head && !matches!(stream.stats.response.status, Some(204 | 304))
}

/// Queues a stream that has a body left and a window.
fn queue(uploads: &mut VecDeque<usize>, slot: usize, stream: &mut RequestStream) {
    if let Some(sending) = &mut stream.body
        && stream.window > 0
        && !std::mem::replace(&mut sending.is_queued, true)
    {
        uploads.push_back(slot);
    }
}

/// The number at the front of a payload.
fn number(payload: &[u8]) -> Result<u32, ExchangeError> {
    let four = payload
        .first_chunk()
        .ok_or_else(|| garbage("a frame that is too short"))?;
    Ok(u32::from_be_bytes(*four))
}
