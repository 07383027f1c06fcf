//! Checks of an endpoint's frames that neither flow control nor the h2 crate makes: the number of
//! field sections that wait in the crate, empty DATA, misplaced pseudo-fields.

use lockgate_http::h2::SectionError;
use lockgate_http::h2::frames::{self, Frame, FrameEvent, FrameScanner};
use lockgate_http::hpack::{BlockAccount, SectionSummary, TABLE_SIZE};

use super::partial_message::PartialMessage;

/// The most frames of field sections on one stream: interim responses, response and trailers.
const SECTIONS: u32 = 64;
/// Empty DATA frames after which a connection gets no more requests: the h2 crate ends the
/// connection with all its requests at the 101st.
const EMPTY: u32 = 64;

/// The counters of one endpoint connection's frames.
#[derive(Debug)]
pub(super) struct EndpointFrames {
    scanner: FrameScanner,
    account: BlockAccount,
    /// The stream of the current section, and whether the section ends it.
    of: Option<(u32, bool)>,
    /// The open requests. The crate keeps nothing of others.
    streams: Vec<OpenRequest>,
    empty: u32,
    frames: u64,
    flooded: bool,
    partial_message: PartialMessage,
    /// Whether a section could not be parsed.
    lost: bool,
    malformed: usize,
}

/// A request without a complete response.
#[derive(Debug)]
struct OpenRequest {
    stream: u32,
    /// Frames of field sections that were received for it.
    sections: u32,
    /// Whether the head of its response was received: then trailers follow.
    responded: bool,
    /// Whether the endpoint has ended the stream: the crate refuses further frames.
    ended: bool,
    wrong: Option<SectionError>,
}

impl EndpointFrames {
    /// Counters for an endpoint that sends fields of up to `longest` bytes.
    pub(super) fn new(longest: usize) -> Self {
        Self {
            scanner: FrameScanner::of_server(),
            account: BlockAccount::new(TABLE_SIZE as u16, longest),
            of: None,
            streams: Vec::new(),
            empty: 0,
            frames: 0,
            flooded: false,
            partial_message: PartialMessage::default(),
            lost: false,
            malformed: 0,
        }
    }

    /// Notes the start of a request.
    pub(super) fn begin_request(&mut self, stream: u32) {
        self.streams.push(OpenRequest {
            stream,
            sections: 0,
            responded: false,
            ended: false,
            wrong: None,
        });
    }

    /// Notes the end of a request, also before the end of its response.
    pub(super) fn end_request(&mut self, stream: u32) {
        if let Some(index) = self.streams.iter().position(|one| one.stream == stream) {
            self.malformed -= usize::from(self.streams.swap_remove(index).wrong.is_some());
        }
    }

    /// HEADERS and DATA frames that were received.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether one request has more interim responses than we hold.
    pub(super) fn is_flooded(&self) -> bool {
        self.flooded
    }

    /// Whether so many DATA frames were empty that new requests should use another connection.
    pub(super) fn is_worn(&self) -> bool {
        self.empty >= EMPTY
    }

    /// The message that is incomplete.
    pub(super) fn partial_message(&mut self) -> &mut PartialMessage {
        &mut self.partial_message
    }

    /// Whether the received bytes end within a frame.
    pub(super) fn is_within_frame(&self) -> bool {
        self.scanner.is_within_frame()
    }

    /// Whether a field section could not be parsed, and no later one can be.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// The error in a field section of this response: a forbidden pseudo-field or field of the
    /// connection, or no `:status` (RFC 9113 §8.1, §8.2.2, §8.3, §8.3.2).
    pub(super) fn wrong(&self, stream: u32) -> Option<SectionError> {
        if self.malformed == 0 {
            return None;
        }
        self.streams.iter().find(|one| one.stream == stream)?.wrong
    }

    /// Checks the frames in received bytes.
    pub(super) fn observe(&mut self, bytes: &[u8]) {
        // Taken out, since the closure borrows `self`.
        let mut scanner = std::mem::replace(&mut self.scanner, FrameScanner::of_server());
        scanner.follow(bytes, |seen| match seen {
            FrameEvent::Frame(frame) => self.frame(frame),
            FrameEvent::Block(piece) if self.of.is_some() && !self.lost => {
                self.lost = self.account.see(piece).is_err();
            }
            FrameEvent::Block(_) => {}
            FrameEvent::Whole => self.end_section(),
            FrameEvent::DependsOnItself => self.lost = true,
        });
        self.scanner = scanner;
    }

    fn frame(&mut self, frame: Frame<'_>) {
        self.partial_message.observe(&frame);
        self.frames += u64::from(matches!(frame.kind, frames::HEADERS | frames::DATA));
        match frame.kind {
            frames::HEADERS | frames::CONTINUATION => {
                if frame.kind == frames::HEADERS {
                    self.of = Some((frame.stream, frame.flags & frames::END_STREAM != 0));
                }
                if let Some(running) = self.running(frame.stream) {
                    running.sections += 1;
                    self.flooded |= running.sections > SECTIONS;
                }
            }
            frames::DATA if frame.flags & frames::END_STREAM != 0 => {
                if let Some(running) = self.running(frame.stream) {
                    running.ended = true;
                }
            }
            frames::DATA if frame.length == 0 => self.empty = self.empty.saturating_add(1),
            _ => {}
        }
    }

    fn end_section(&mut self) {
        let Some((stream, ends)) = self.of.take() else {
            return;
        };
        if self.lost {
            return;
        }
        let Ok(section) = self.account.end() else {
            self.lost = true;
            return;
        };
        let Some(running) = self.running(stream) else {
            return;
        };
        let was_ended = running.ended;
        running.ended |= ends;
        if !was_ended && running.check(section) {
            self.malformed += 1;
        }
    }

    fn running(&mut self, stream: u32) -> Option<&mut OpenRequest> {
        self.streams.iter_mut().find(|one| one.stream == stream)
    }
}

impl OpenRequest {
    /// Checks its next section; returns whether that is its first malformed one.
    fn check(&mut self, section: SectionSummary) -> bool {
        let right = if self.responded {
            !section.has_pseudo_fields()
        } else {
            section.is_response()
        };
        self.responded |= !section.is_interim();
        let wrong = match () {
            () if !right || section.has_misplaced_pseudo_fields() => SectionError::PseudoFields,
            () if section.has_connection_fields() => SectionError::ConnectionField,
            () => return false,
        };
        self.wrong.replace(wrong).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `:status: 200` and `:status: 103`.
    const OK: &[u8] = &[0x88];
    const HINTS: &[u8] = &[0x08, 3, b'1', b'0', b'3'];
    /// `age` and an empty value, as trailers may have it.
    const AGE: &[u8] = &[0x80 | 21];

    fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        [
            &[
                0,
                0,
                payload.len() as u8,
                kind,
                frames::END_HEADERS,
                0,
                0,
                0,
                stream,
            ],
            payload,
        ]
        .concat()
    }

    /// Field sections are under no flow control: a client that reads none of them would make us
    /// hold all that are sent.
    #[test]
    fn response_field_sections_of_one_request_are_bounded() {
        let mut endpoint_frames = EndpointFrames::new(1_024);
        for stream in [1, 3] {
            endpoint_frames.begin_request(stream);
            endpoint_frames
                .observe(&frame(frames::HEADERS, stream.try_into().unwrap(), HINTS).repeat(64));
            assert!(!endpoint_frames.is_flooded());
        }
        // Nothing of a closed stream is held.
        endpoint_frames.end_request(1);
        endpoint_frames.observe(&frame(frames::HEADERS, 1, HINTS).repeat(100));
        assert!(!endpoint_frames.is_flooded());
        endpoint_frames.observe(&frame(frames::CONTINUATION, 3, b"x"));
        assert!(endpoint_frames.is_flooded());
    }

    #[test]
    fn empty_data_frames_exhaust_a_connection() {
        let mut endpoint_frames = EndpointFrames::new(1_024);
        endpoint_frames.begin_request(1);
        endpoint_frames.observe(
            &[frame(frames::DATA, 1, b""), frame(frames::DATA, 1, b"x")]
                .concat()
                .repeat(63),
        );
        assert!(!endpoint_frames.is_worn());
        endpoint_frames.observe(&frame(frames::DATA, 1, b""));
        assert!(endpoint_frames.is_worn());
        assert_eq!(endpoint_frames.frames(), 127);
    }

    /// RFC 9113 §8.1, §8.2.2, §8.3, §8.3.2.
    #[test]
    fn pseudo_fields_in_responses_are_only_status_and_in_heads() {
        for (sections, malformed) in [
            (&[OK][..], false),
            (&[HINTS, HINTS, OK, AGE], false),
            (&[OK, AGE], false),
            // Trailers with :status, with :path.
            (&[OK, OK], true),
            (&[OK, HINTS], true),
            (&[HINTS, OK, &[0x84]], true),
            // A head with :path, one without :status.
            (&[&[0x88, 0x84]], true),
            (&[AGE], true),
            (&[HINTS, AGE], true),
            // :status twice, behind another field; Transfer-Encoding.
            (&[&[0x88, 0x88]], true),
            (&[&[0x80 | 21, 0x88]], true),
            (&[&[0x88, 0x80 | 57]], true),
            (&[OK, &[0x80 | 57]], true),
        ] {
            let mut endpoint_frames = EndpointFrames::new(1_024);
            endpoint_frames.begin_request(1);
            endpoint_frames.begin_request(3);
            for section in sections {
                endpoint_frames.observe(&frame(frames::HEADERS, 1, section));
            }
            assert_eq!(
                (endpoint_frames.wrong(1).is_some(), endpoint_frames.wrong(3)),
                (malformed, None),
                "{sections:x?}"
            );
            assert!(!endpoint_frames.is_lost());
            endpoint_frames.end_request(1);
            assert_eq!(endpoint_frames.wrong(1), None);
        }
        // A field section behind the end of a response is no part of it.
        let mut endpoint_frames = EndpointFrames::new(1_024);
        endpoint_frames.begin_request(1);
        endpoint_frames.observe(&frame(frames::HEADERS, 1, OK));
        endpoint_frames.observe(&[0, 0, 0, frames::DATA, frames::END_STREAM, 0, 0, 0, 1]);
        endpoint_frames.observe(&frame(frames::HEADERS, 1, OK));
        assert_eq!(endpoint_frames.wrong(1), None);
    }

    /// All sections of a connection share a table, also those of closed streams (RFC 9113 §4.3).
    #[test]
    fn field_sections_of_closed_streams_are_still_decoded() {
        let mut endpoint_frames = EndpointFrames::new(1_024);
        // `:status: 103` goes into the table, and is 62 from there on.
        endpoint_frames.observe(&frame(frames::HEADERS, 7, &[0x48, 3, b'1', b'0', b'3']));
        endpoint_frames.begin_request(9);
        endpoint_frames.observe(&frame(frames::HEADERS, 9, &[0x80 | 62]));
        endpoint_frames.observe(&frame(frames::HEADERS, 9, OK));
        assert!(endpoint_frames.wrong(9).is_none() && !endpoint_frames.is_lost());
        endpoint_frames.observe(&frame(frames::HEADERS, 9, &[0x80 | 63]));
        assert!(endpoint_frames.is_lost());
    }
}
