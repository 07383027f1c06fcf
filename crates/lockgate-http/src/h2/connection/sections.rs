//! Field sections (RFC 9113 §4.3, §8): HEADERS and CONTINUATION, and what they mean for a stream.

use super::super::field_section::SectionScan;
use super::super::frame_header::{FrameHeader, HEADER_LEN, HeadersPayload, MAX_PAYLOAD};
use super::super::frames::{END_HEADERS, END_STREAM};
use super::super::streams::{MessageState, Stream};
use super::super::windows::{ReceiveWindow, SendWindow};
use super::super::{ConnectionError, Event, FieldSink, Key, Role, StreamFault, code};
use super::Connection;
use crate::head::Method;

/// CONTINUATION frames below this size that do not end their section are counted as useless.
const SHORT_CONTINUATION: usize = 1024;
/// The most of these in one section, also where the budget allows more.
const MOST_SHORT: u32 = 1024;

/// A field section without its last CONTINUATION.
#[derive(Debug)]
pub(super) struct PartialSection {
    front: SectionFront,
    block: Vec<u8>,
    /// Its short CONTINUATION frames so far.
    short: u32,
}

/// What HEADERS says of its field section.
#[derive(Debug, Clone, Copy)]
struct SectionFront {
    stream: u32,
    ended: bool,
    /// Bytes of its frames so far, frame headers included.
    wire: usize,
}

impl PartialSection {
    /// Its memory in bytes, for tests of its bounds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.block.capacity()
    }

    pub(super) fn stream(&self) -> u32 {
        self.front.stream
    }
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
    pub(super) fn recv_headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), ConnectionError> {
        // §5.1.1: a client's streams have odd IDs, and a server opens none.
        if header.stream.is_multiple_of(2)
            || self.role == Role::Client && self.is_idle(header.stream)
        {
            return Err(ConnectionError::WrongStream);
        }
        let HeadersPayload {
            block,
            depends_on_itself,
        } = header.headers(payload).ok_or(ConnectionError::Padding)?;
        if depends_on_itself {
            self.write_reset(header.stream, code::PROTOCOL_ERROR);
            return Err(ConnectionError::SelfDependency);
        }
        let front = SectionFront {
            stream: header.stream,
            ended: header.has(END_STREAM),
            wire: HEADER_LEN + payload.len(),
        };
        if header.has(END_HEADERS) {
            return self.end_section(front, block, sink);
        }
        self.section = Some(PartialSection {
            front,
            block: block.to_vec(),
            short: 0,
        });
        Ok(())
    }

    pub(super) fn recv_continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), ConnectionError> {
        let mut section = self.section.take().ok_or(ConnectionError::Continuation)?;
        section.front.wire += HEADER_LEN + payload.len();
        // Frame headers count, so that the number of frames is bounded as well (CVE-2024-27316).
        let list = self.local.head_list as usize;
        let most = list.saturating_mul(4).max(list.saturating_add(MAX_PAYLOAD));
        if section.front.wire > most {
            return Err(ConnectionError::SectionTooLong);
        }
        // Honest ones fill their frames.
        if payload.len() < SHORT_CONTINUATION && !header.has(END_HEADERS) {
            self.budget.control()?;
            section.short += 1;
            if section.short > MOST_SHORT {
                return Err(ConnectionError::SectionTooLong);
            }
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
        if self.is_late(id) {
            SectionPurpose::Late
        } else if id <= self.last_id {
            SectionPurpose::Closed
        } else if self.has_room(self.local.streams) {
            SectionPurpose::Request
        } else {
            SectionPurpose::Refused
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
        if scan.is_excessive {
            return Err(ConnectionError::FieldTooLong);
        }
        match purpose {
            SectionPurpose::Request => self.accept_request(front, &scan)?,
            SectionPurpose::Response(key) => self.tell_response(key, front, &scan)?,
            SectionPurpose::Trailers(key) => self.tell_trailers(key, front, &scan)?,
            SectionPurpose::Refused => {
                self.note_opened(front.stream);
                self.write_reset(front.stream, code::REFUSED_STREAM);
                self.budget.refusal(self.has_acknowledged)?;
            }
            SectionPurpose::Ended(key) => self.fault(key, StreamFault::Closed)?,
            SectionPurpose::Late => {
                if self.role == Role::Server {
                    self.last_id = self.last_id.max(front.stream);
                }
                self.budget.control()?;
            }
            // §5.1.1: a new stream with an ID that is too low.
            SectionPurpose::Closed if self.skipped_streams.contains(front.stream) => {
                return Err(ConnectionError::WrongStream);
            }
            // §5.1.
            SectionPurpose::Closed => return Err(ConnectionError::ClosedStream),
        }
        Ok(())
    }

    /// Notes a stream that the client has opened, and those that this closes (§5.1.1).
    fn note_opened(&mut self, id: u32) {
        // Its first stream is 1.
        let next = if self.last_id == 0 {
            1
        } else {
            self.last_id + 2
        };
        if id > next {
            self.skipped_streams.insert(next, id - 2);
        }
        self.last_id = id;
    }

    /// Gives a new request its slot.
    fn accept_request(
        &mut self,
        front: SectionFront,
        scan: &SectionScan,
    ) -> Result<(), ConnectionError> {
        let SectionFront {
            stream: id, ended, ..
        } = front;
        self.note_opened(id);
        // RFC 8441 §3: a pseudo-field that was not negotiated. What is malformed otherwise makes no
        // head, and the user may answer that.
        if scan.has_protocol() && !self.local.connect_protocol {
            self.write_reset(id, code::PROTOCOL_ERROR);
            return self.budget.reset();
        }
        self.accepted_id = id;
        self.held_heads += scan.size() as usize;
        let key = self.streams.insert(Stream {
            id,
            received: if ended {
                MessageState::Ended
            } else {
                MessageState::Body
            },
            sent: MessageState::Head,
            is_reset: false,
            wants_window: false,
            method: Method::Other,
            send_window: SendWindow::new(self.peer.window),
            receive_window: ReceiveWindow::new(self.initial_receive_window()),
            unused: 0,
            kept: 0,
            head: scan.size(),
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
        // RFC 9110 §8.6, §6.4.1: no content, even with a Content-Length.
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
        self.hold_head(key, scan);
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
        let fault = if !front.ended {
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
        self.hold_head(key, scan);
        self.events.push_back(Event::Trailers {
            key,
            wire: front.wire,
        });
        Ok(())
    }

    /// Counts a field section that the user may hold while the stream has its slot.
    fn hold_head(&mut self, key: Key, scan: &SectionScan) {
        if let Some(stream) = self.streams.get_mut(key) {
            let before = stream.head;
            stream.head = before.saturating_add(scan.size());
            self.held_heads += (stream.head - before) as usize;
        }
    }
}
