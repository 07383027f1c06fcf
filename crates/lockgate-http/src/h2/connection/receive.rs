//! Frames that carry messages: DATA, HEADERS and CONTINUATION.

use super::super::field_section::SectionScan;
use super::super::frame_header::{FrameHeader, HEADER_LEN, HeadersPayload, MAX_PAYLOAD, PREFACE};
use super::super::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PRIORITY,
    PRIORITY_UPDATE, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use super::super::streams::{MessageState, Stream};
use super::super::windows::{ReceiveWindow, SendWindow};
use super::super::{ConnectionError, Event, FieldSink, Key, StreamFault, code};
use super::{Connection, DrainState, Role};
use crate::head::Method;

/// A field section without its last CONTINUATION.
#[derive(Debug)]
pub(super) struct CutSection {
    front: SectionFront,
    block: Vec<u8>,
}

/// What HEADERS says of its field section.
#[derive(Debug, Clone, Copy)]
struct SectionFront {
    stream: u32,
    ended: bool,
    depends_on_itself: bool,
    /// Bytes of its frames so far, frame headers included.
    wire: usize,
}

/// A DATA frame that has come in part.
#[derive(Debug)]
pub(super) struct PartialData {
    /// `None`: its data is of no use.
    key: Option<Key>,
    /// Bytes of data and of padding that are to come.
    data: usize,
    padding: usize,
    ended: bool,
    /// Bytes of the frame that no event has told of, beside its data.
    wire: usize,
}

/// The use of a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionPurpose {
    /// A new request.
    Request,
    /// The head of a response, interim or not.
    Response(Key),
    Trailers(Key),
    /// A request that there is no room for.
    Refused,
    /// A stream that the peer has ended.
    Ended(Key),
    /// It is only decoded, because later blocks depend on it.
    Late,
    /// A stream that is over.
    Closed,
}

impl<S> Connection<S> {
    /// Handles the frames at the front of `bytes`, and returns their length: what is behind them is
    /// to be given again, with more bytes. Stops at the first frame with [events](Self::next_event),
    /// which must be taken before the next call; `0` means that there is no whole frame. Data
    /// need not be whole. The fields of a head or trailers go to `sink`.
    ///
    /// # Errors
    /// The peer has violated the protocol or used up its budget: a GOAWAY waits to be sent, the last
    /// bytes of this connection.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<usize, ConnectionError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut at = 0;
        while self.events.is_empty() {
            match self.take(bytes, &mut at, sink) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.fail(error);
                    return Err(error);
                }
            }
        }
        Ok(at)
    }

    /// Handles the next element of `bytes`, from `at` on; `false`: it is not whole.
    fn take(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        sink: &mut impl FieldSink,
    ) -> Result<bool, ConnectionError> {
        let rest = &bytes[*at..];
        if let Some(data) = self.data.take() {
            return self.take_data(data, rest.len(), at);
        }
        if self.preface < PREFACE.len() {
            return self.take_preface(rest, at);
        }
        let Some(header) = FrameHeader::read(rest) else {
            return Ok(false);
        };
        if !self.has_settings && (header.kind != SETTINGS || header.has(ACK)) {
            return Err(ConnectionError::FirstFrame);
        }
        if header.length > MAX_PAYLOAD {
            return Err(ConnectionError::FrameTooLong);
        }
        // §6.10: no other frame may come within a field section.
        if self.section.as_ref().is_some_and(|section| {
            header.kind != CONTINUATION || header.stream != section.front.stream
        }) {
            return Err(ConnectionError::Interrupted);
        }
        if header.kind == DATA {
            let padding = match (header.has(PADDED), rest.get(HEADER_LEN)) {
                (false, _) => None,
                (true, _) if header.length == 0 => return Err(ConnectionError::Padding),
                (true, None) => return Ok(false),
                (true, Some(padding)) => Some(*padding),
            };
            *at += HEADER_LEN + usize::from(padding.is_some());
            let data = self.begin_data(header, padding)?;
            return self.take_data(data, bytes.len() - *at, at);
        }
        let Some(payload) = rest.get(HEADER_LEN..HEADER_LEN + header.length) else {
            return Ok(false);
        };
        *at += HEADER_LEN + header.length;
        match header.kind {
            HEADERS => self.recv_headers(header, payload, sink)?,
            CONTINUATION => self.recv_continuation(header, payload, sink)?,
            PRIORITY => self.recv_priority(header, payload)?,
            RST_STREAM => self.recv_reset(header, payload)?,
            SETTINGS => self.recv_settings(header, payload)?,
            PUSH_PROMISE => return Err(ConnectionError::Push),
            PING => self.recv_ping(header, payload)?,
            GOAWAY => self.recv_goaway(header, payload)?,
            WINDOW_UPDATE => self.recv_window_update(header, payload)?,
            PRIORITY_UPDATE => self.recv_priority_update(header, payload)?,
            // §5.5: ignored.
            _ => self.budget.control()?,
        }
        Ok(true)
    }

    fn take_preface(&mut self, rest: &[u8], at: &mut usize) -> Result<bool, ConnectionError> {
        let due = &PREFACE[self.preface..];
        let come = rest.len().min(due.len());
        if rest[..come] != due[..come] {
            return Err(ConnectionError::Preface);
        }
        self.preface += come;
        *at += come;
        Ok(come > 0)
    }

    /// Checks and counts a DATA frame before its data (§6.1).
    fn begin_data(
        &mut self,
        header: FrameHeader,
        padding: Option<u8>,
    ) -> Result<PartialData, ConnectionError> {
        if self.is_idle(header.stream) {
            return Err(ConnectionError::WrongStream);
        }
        // The field that has its length is padding as well.
        let padding_field = usize::from(padding.is_some());
        let padding = usize::from(padding.unwrap_or(0));
        let data = header.length.checked_sub(padding_field + padding);
        let data = data.ok_or(ConnectionError::Padding)?;
        // §6.9.1: padding counts, and so does data of streams that are gone.
        if !self.receive_window.take(header.length) {
            return Err(ConnectionError::FlowControl);
        }
        let ended = header.has(END_STREAM);
        let key = self.accept_data(header, data, ended)?;
        match key {
            Some(key) => self.give_stream(key, (padding_field + padding) as u32),
            None => self.give(header.length as u32),
        }
        Ok(PartialData {
            key,
            data,
            padding,
            ended,
            wire: HEADER_LEN + padding_field + padding,
        })
    }

    /// The stream that takes the data of a frame; `None` where nobody does.
    fn accept_data(
        &mut self,
        header: FrameHeader,
        data: usize,
        ended: bool,
    ) -> Result<Option<Key>, ConnectionError> {
        let id = header.stream;
        let Some(key) = self.streams.find(id) else {
            let is_late = self.reset_streams.contains(id)
                || matches!(self.drain, DrainState::Last(last) if id > last);
            if is_late {
                self.budget.control()?;
            } else {
                // §5.1: it has ended, or was reset long ago.
                self.refuse(id, code::STREAM_CLOSED);
                self.budget.reset()?;
            }
            return Ok(None);
        };
        let Some(stream) = self.streams.get_mut(key) else {
            return Ok(None);
        };
        let fault = match stream.received {
            _ if stream.is_reset => {
                self.budget.control()?;
                return Ok(None);
            }
            MessageState::Ended => Some(StreamFault::Closed),
            MessageState::Head => Some(StreamFault::DataBeforeHead),
            MessageState::Body => {
                if !stream.receive_window.take(header.length) {
                    Some(StreamFault::FlowControl)
                } else if stream.due.is_some_and(|due| due < data as u64) {
                    Some(StreamFault::TooMuchData)
                } else {
                    None
                }
            }
        };
        if let Some(fault) = fault {
            self.fault(key, fault)?;
            return Ok(None);
        }
        if let Some(due) = &mut stream.due {
            *due -= data as u64;
        }
        stream.unused += data as u32;
        if data == 0 && !ended {
            self.budget.control()?;
        }
        Ok(Some(key))
    }

    /// Handles a piece of a DATA frame; `come` bytes of it may be there.
    fn take_data(
        &mut self,
        mut frame: PartialData,
        come: usize,
        at: &mut usize,
    ) -> Result<bool, ConnectionError> {
        let start = *at;
        let taken = frame.data.min(come);
        frame.data -= taken;
        let had_end = std::mem::replace(&mut frame.ended, frame.ended && frame.data > 0);
        let ended = had_end && frame.data == 0;
        let skipped = if frame.data == 0 {
            frame.padding.min(come - taken)
        } else {
            0
        };
        frame.padding -= skipped;
        *at += taken + skipped;
        if let Some(key) = frame.key
            && (taken > 0 || ended)
        {
            let wire = std::mem::take(&mut frame.wire) + taken;
            self.tell_data(key, start..start + taken, ended, wire)?;
        }
        let is_whole = frame.data == 0 && frame.padding == 0;
        if !is_whole {
            self.data = Some(frame);
        }
        Ok(is_whole || taken + skipped > 0)
    }

    fn tell_data(
        &mut self,
        key: Key,
        at: std::ops::Range<usize>,
        ended: bool,
        wire: usize,
    ) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(key).filter(|stream| !stream.is_reset) else {
            return Ok(());
        };
        let is_short = ended && stream.due.is_some_and(|due| due > 0);
        if ended {
            stream.received = MessageState::Ended;
        }
        let ended = ended && !is_short;
        self.events.push_back(Event::Data {
            key,
            at,
            ended,
            wire,
        });
        if is_short {
            self.fault(key, StreamFault::TooLittleData)?;
        }
        Ok(())
    }

    fn recv_headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), ConnectionError> {
        // §5.1.1: a client's streams have odd IDs, and a server opens none.
        if header.stream % 2 == 0 || self.role == Role::Client && self.is_idle(header.stream) {
            return Err(ConnectionError::WrongStream);
        }
        let HeadersPayload {
            block,
            depends_on_itself,
        } = header.headers(payload).ok_or(ConnectionError::Padding)?;
        let front = SectionFront {
            stream: header.stream,
            ended: header.has(END_STREAM),
            depends_on_itself,
            wire: HEADER_LEN + payload.len(),
        };
        if header.has(END_HEADERS) {
            return self.end_section(front, block, sink);
        }
        self.section = Some(CutSection {
            front,
            block: block.to_vec(),
        });
        Ok(())
    }

    fn recv_continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), ConnectionError> {
        let mut section = self.section.take().ok_or(ConnectionError::Continuation)?;
        section.front.wire += HEADER_LEN + payload.len();
        // Frame headers count, so that the number of frames is bounded as well (CVE-2024-27316).
        if section.front.wire > (self.local.head_list as usize).saturating_add(MAX_PAYLOAD) {
            return Err(ConnectionError::SectionTooLong);
        }
        if payload.is_empty() && !header.has(END_HEADERS) {
            self.budget.control()?;
        }
        section.block.extend_from_slice(payload);
        if header.has(END_HEADERS) {
            return self.end_section(section.front, &section.block, sink);
        }
        self.section = Some(section);
        Ok(())
    }

    fn purpose(&self, id: u32) -> SectionPurpose {
        if let Some(key) = self.streams.find(id)
            && let Some(stream) = self.streams.get(key)
        {
            return match stream.received {
                _ if stream.is_reset => SectionPurpose::Late,
                MessageState::Head => SectionPurpose::Response(key),
                MessageState::Body => SectionPurpose::Trailers(key),
                MessageState::Ended => SectionPurpose::Ended(key),
            };
        }
        if matches!(self.drain, DrainState::Last(last) if id > last) {
            SectionPurpose::Late
        } else if self.role == Role::Server && id > self.last_id {
            if self.streams.len() < self.local.streams as usize {
                SectionPurpose::Request
            } else {
                SectionPurpose::Refused
            }
        } else if self.reset_streams.contains(id) {
            SectionPurpose::Late
        } else {
            SectionPurpose::Closed
        }
    }

    /// Decodes a whole field section, and gives it its meaning.
    fn end_section(
        &mut self,
        front: SectionFront,
        block: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), ConnectionError> {
        let purpose = self.purpose(front.stream);
        let is_told = matches!(
            purpose,
            SectionPurpose::Request | SectionPurpose::Response(_) | SectionPurpose::Trailers(_)
        );
        let sender = match self.role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        let mut scan = SectionScan::new(sender, self.local.head_list);
        if is_told {
            sink.begin();
        }
        // The whole block, also beyond the head list: later ones depend on the table. A field costs
        // what its bytes on the wire do, since only the sink copies it.
        self.decoder.decode(block, usize::MAX, |name, value| {
            if scan.see(name, value) {
                if is_told {
                    sink.field(name, value);
                }
            } else if !std::mem::replace(&mut scan.is_too_long, true) && is_told {
                sink.overflow();
            }
        })?;
        match purpose {
            SectionPurpose::Request => self.open_request(front, &scan)?,
            SectionPurpose::Response(key) => self.tell_response(key, front, &scan)?,
            SectionPurpose::Trailers(key) => self.tell_trailers(key, front, &scan)?,
            SectionPurpose::Refused => {
                self.last_id = front.stream;
                self.refuse(front.stream, code::REFUSED_STREAM);
                self.budget.refusal(self.is_acknowledged)?;
            }
            SectionPurpose::Ended(key) => self.fault(key, StreamFault::Closed)?,
            SectionPurpose::Late => {
                if self.role == Role::Server {
                    self.last_id = self.last_id.max(front.stream);
                }
                self.budget.control()?;
            }
            // §5.1, and for a new stream with an ID that is too low, §5.1.1.
            SectionPurpose::Closed => return Err(ConnectionError::ClosedStream),
        }
        Ok(())
    }

    fn open_request(
        &mut self,
        front: SectionFront,
        scan: &SectionScan,
    ) -> Result<(), ConnectionError> {
        let SectionFront {
            stream: id, ended, ..
        } = front;
        self.last_id = id;
        // RFC 8441 §3: a pseudo-field that was not negotiated.
        let is_unasked = scan.has_protocol() && !self.local.connect_protocol;
        if scan.is_misplaced() || is_unasked || front.depends_on_itself {
            self.refuse(id, code::PROTOCOL_ERROR);
            return self.budget.reset();
        }
        self.accepted_id = id;
        let key = self.streams.insert(Stream {
            id,
            received: if ended {
                MessageState::Ended
            } else {
                MessageState::Body
            },
            sent: MessageState::Head,
            is_reset: false,
            wants_room: false,
            method: Method::Other,
            send_window: SendWindow::new(self.peer.window),
            receive_window: ReceiveWindow::new(self.initial_receive_window()),
            unused: 0,
            due: scan.content_length,
            user: None,
        });
        self.events.push_back(Event::Head {
            key,
            ended,
            wire: front.wire,
        });
        Ok(())
    }

    fn tell_response(
        &mut self,
        key: Key,
        front: SectionFront,
        scan: &SectionScan,
    ) -> Result<(), ConnectionError> {
        let SectionFront { ended, wire, .. } = front;
        let Some(stream) = self.streams.get_mut(key) else {
            return Ok(());
        };
        if ended {
            stream.received = MessageState::Ended;
        }
        let status = match scan.status {
            _ if front.depends_on_itself => return self.fault(key, StreamFault::SelfDependency),
            _ if scan.is_misplaced() => return self.fault(key, StreamFault::PseudoFields),
            // §8.6.
            None | Some(101) => return self.fault(key, StreamFault::Status),
            Some(100..=199) if ended => return self.fault(key, StreamFault::Interim),
            Some(100..=199) => {
                self.events.push_back(Event::Interim { key, wire });
                return Ok(());
            }
            Some(status) => status,
        };
        // RFC 9110 §8.6, §6.4.1: no content, whatever Content-Length says.
        let is_empty = match stream.method {
            Method::Head => true,
            Method::Connect => (200..300).contains(&status),
            _ => matches!(status, 204 | 304),
        };
        stream.due = scan.content_length.filter(|_| !is_empty);
        if ended && stream.due.is_some_and(|due| due > 0) {
            self.events.push_back(Event::Head {
                key,
                ended: false,
                wire,
            });
            return self.fault(key, StreamFault::TooLittleData);
        }
        if !ended {
            stream.received = MessageState::Body;
        }
        self.events.push_back(Event::Head { key, ended, wire });
        Ok(())
    }

    fn tell_trailers(
        &mut self,
        key: Key,
        front: SectionFront,
        scan: &SectionScan,
    ) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(key) else {
            return Ok(());
        };
        if front.ended {
            stream.received = MessageState::Ended;
        }
        let fault = if front.depends_on_itself {
            Some(StreamFault::SelfDependency)
        } else if !front.ended {
            Some(StreamFault::Trailers)
        } else if scan.has_pseudo_fields() {
            Some(StreamFault::PseudoFields)
        } else if stream.due.is_some_and(|due| due > 0) {
            Some(StreamFault::TooLittleData)
        } else {
            None
        };
        if let Some(fault) = fault {
            return self.fault(key, fault);
        }
        self.events.push_back(Event::Trailers {
            key,
            wire: front.wire,
        });
        Ok(())
    }
}
