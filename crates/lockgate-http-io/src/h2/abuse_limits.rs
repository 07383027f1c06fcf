//! Limits on the frames of a client. Frames that carry nothing for a request are counted as they
//! are received, before the h2 crate handles them, and so are resets, also those that the client
//! provokes.
//!
//! Each such flood was cheap to send and expensive to answer: PING, SETTINGS, PRIORITY and empty
//! DATA (CVE-2019-9512, -9515, -9513, -9518), requests that are reset at once (CVE-2023-44487).
//! CONTINUATION and tiny DATA are limited by the h2 crate itself.

use std::collections::VecDeque;

use lockgate_http::h2::SectionError;
use lockgate_http::h2::frames::{self, Frame, FrameEvent, FrameScanner};
use lockgate_http::priority::{self, Priority};
use lockgate_net::millis::Millis;
use lockgate_net::nanos::Nanos;
use lockgate_net::token_bucket::{TokenBucket, TokenRate};

use super::field_sections::{FieldSections, HeadVerdict, SectionUse};
use super::partial_message::PartialMessage;

/// WINDOW_UPDATE frames that a connection may send before it has received data.
const UPDATES: u64 = 256;
/// Bytes that we send, without acknowledgements of PING and SETTINGS, for one more WINDOW_UPDATE or
/// PING: clients update both windows, of stream and connection, and some (grpc-go) measure the
/// round trip with every small response.
const BYTES_A_FRAME: u64 = 8;
/// The most of these that are saved up.
const SAVED: u64 = 65_536;
/// Bytes of our acknowledgements of PING and SETTINGS.
const PING_ACK: u64 = 17;
const SETTINGS_ACK: u64 = 9;
/// Ended streams that are remembered: as many as may be open at once, by default.
const OVER: usize = 128;
/// Streams that may be refused before the client has seen SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113
/// §5.1.2): a client that opens a thousand at once is not to blame.
const UNSEEN: u32 = 1_024;
/// Codes of resets (RFC 9113 §7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;
/// The most priorities that are kept until they are fetched.
const PRIORITIES: usize = 128;

/// What a client has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// It reset requests.
    Resets,
    /// It sent frames that carry nothing for a request.
    Control,
    /// It sent WINDOW_UPDATE for data that was never sent.
    Updates,
    /// It sent a field section that the crate accepted and that could not be parsed here.
    Sections,
}

impl Violation {
    /// The metric's label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::Control => "control",
            Self::Updates => "updates",
            Self::Sections => "sections",
        }
    }

    /// The detail in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resets => "too many cancelled requests",
            Self::Control => "too many useless frames",
            Self::Updates => "too many window updates",
            Self::Sections => "a field section that cannot be decoded",
        }
    }
}

/// The rate of some frames, and the bucket of one connection.
#[derive(Debug)]
struct FrameAllowance {
    rate: TokenRate,
    bucket: TokenBucket,
}

impl FrameAllowance {
    fn new(rate: TokenRate) -> Self {
        Self {
            rate,
            bucket: TokenBucket::default(),
        }
    }

    fn take(&mut self, now: Nanos) -> bool {
        self.bucket.take(self.rate, now).is_ok()
    }
}

/// The counters of one client's frames.
#[derive(Debug)]
pub struct AbuseLimits {
    /// The time as of the current turn.
    now: Millis,
    scanner: FrameScanner,
    resets: FrameAllowance,
    control: FrameAllowance,
    updates: u64,
    /// WINDOW_UPDATE and PING frames that the data we sent accounts for.
    explained: u64,
    /// Bytes of that data.
    told: u64,
    /// Bytes of our acknowledgements.
    ack_bytes: u64,
    priorities: Vec<(u32, Priority)>,
    /// The last streams that ended before their request bodies did.
    over: VecDeque<u32>,
    partial_message: PartialMessage,
    sections: FieldSections,
    /// The scanner of frames that we send.
    sent: FrameScanner,
    /// Whether the client has acknowledged our SETTINGS.
    acknowledged: bool,
    /// Streams that may still be refused before that.
    unseen: u32,
    /// Streams that we refuse for a reason of our own, and that are not reset yet.
    refused: u32,
    violation: Option<Violation>,
}

impl AbuseLimits {
    /// Counters for a client with these limits of resets and control frames, fields of up to
    /// `longest` bytes, and up to `streams` open requests.
    pub fn new(
        now: Millis,
        resets: TokenRate,
        control: TokenRate,
        longest: usize,
        streams: u32,
    ) -> Self {
        Self {
            now,
            scanner: FrameScanner::of_client(),
            resets: FrameAllowance::new(resets),
            control: FrameAllowance::new(control),
            updates: UPDATES,
            explained: 0,
            told: 0,
            ack_bytes: 0,
            priorities: Vec::new(),
            over: VecDeque::new(),
            partial_message: PartialMessage::default(),
            sections: FieldSections::new(longest, streams),
            sent: FrameScanner::of_server(),
            acknowledged: false,
            unseen: UNSEEN,
            refused: 0,
            violation: None,
        }
    }

    /// Sets the time.
    pub fn set_now(&mut self, now: Millis) {
        self.now = now;
    }

    /// The limit that the client has exceeded, if any.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// The same after the crate has handled all received frames: a field section that it could not
    /// parse either is its own error.
    pub fn settle(&mut self) -> Option<Violation> {
        self.sections.settle();
        self.violation
            .or(self.sections.is_lost().then_some(Violation::Sections))
    }

    /// Decides what to do with the request of a stream that the crate has accepted.
    pub fn accept(&mut self, stream: u32) -> HeadVerdict {
        let verdict = self.sections.accept(stream);
        self.refused += u32::from(verdict == HeadVerdict::Refuse);
        verdict
    }

    /// Notes that we refuse a stream for a reason of our own, which is not counted against the
    /// client.
    pub fn note_refusal(&mut self) {
        self.refused += 1;
    }

    /// The error in the trailers of an open stream that the crate does not report.
    pub fn wrong(&mut self, stream: u32) -> Option<SectionError> {
        self.sections.wrong(stream)
    }

    /// Whether too many heads wait in the crate: no more is read until it has delivered them.
    pub(super) fn is_full(&self) -> bool {
        self.sections.is_full()
    }

    /// Takes the priorities that the client has sent since the last call, perhaps of requests that
    /// it has not sent yet (RFC 9218 §7.1).
    pub fn take_priorities(&mut self) -> Vec<(u32, Priority)> {
        std::mem::take(&mut self.priorities)
    }

    /// Notes the end of a stream. Where its client has not `finished`, further DATA on it counts as
    /// useless.
    pub fn end_stream(&mut self, stream: u32, finished: bool) {
        self.sections.forget(stream);
        if finished {
            return;
        }
        if self.over.len() == OVER {
            self.over.pop_front();
        }
        self.over.push_back(stream);
    }

    /// The message that is incomplete.
    pub(super) fn partial_message(&mut self) -> &mut PartialMessage {
        &mut self.partial_message
    }

    /// Whether the received bytes end within a frame.
    pub(super) fn is_within_frame(&self) -> bool {
        self.scanner.is_within_frame()
    }

    /// Counts the frames in received bytes; `sent` is the number of bytes sent so far.
    pub(super) fn observe(&mut self, bytes: &[u8], sent: u64) {
        let now = Nanos::from(self.now);
        let fresh = sent
            .saturating_sub(self.ack_bytes)
            .saturating_sub(self.told)
            / BYTES_A_FRAME;
        self.told += fresh * BYTES_A_FRAME;
        self.explained = (self.explained + fresh).min(SAVED);
        // Taken out, since the closure borrows `self`.
        let mut scanner = std::mem::replace(&mut self.scanner, FrameScanner::of_client());
        scanner.follow(bytes, |seen| match seen {
            FrameEvent::Frame(frame) => {
                self.partial_message.observe(&frame);
                let found = self.frame(frame, now);
                self.violation = self.violation.or(found);
            }
            FrameEvent::Block(piece) => self.sections.observe(piece),
            FrameEvent::Whole => self.sections.end_section(),
            FrameEvent::DependsOnItself => self.sections.mark_lost(),
        });
        self.scanner = scanner;
    }

    fn frame(&mut self, frame: Frame<'_>, now: Nanos) -> Option<Violation> {
        let Self {
            resets,
            control,
            updates,
            explained,
            ack_bytes,
            priorities,
            over,
            ..
        } = self;
        let mut useless = || (!control.take(now)).then_some(Violation::Control);
        match frame.kind {
            frames::HEADERS => match self.sections.begin(frame.stream) {
                SectionUse::Needed => None,
                SectionUse::Useless => useless(),
            },
            frames::DATA if frame.length > 0 && !over.contains(&frame.stream) => None,
            frames::DATA if frame.flags & frames::END_STREAM != 0 => None,
            // An acknowledgement of a SETTINGS that we never sent ends the connection in the crate;
            // of PING we send at most one.
            frames::SETTINGS if frame.flags & frames::ACK != 0 => {
                self.acknowledged = true;
                None
            }
            frames::RST_STREAM => (!resets.take(now)).then_some(Violation::Resets),
            frames::WINDOW_UPDATE => {
                (!take(explained) && !take(updates)).then_some(Violation::Updates)
            }
            frames::PING if frame.flags & frames::ACK == 0 => {
                *ack_bytes += PING_ACK;
                if take(explained) { None } else { useless() }
            }
            frames::SETTINGS => {
                *ack_bytes += SETTINGS_ACK;
                useless()
            }
            frames::PRIORITY_UPDATE => {
                if let Some(update) = priority::priority_update(frame.payload)
                    && priorities.len() < PRIORITIES
                {
                    priorities.push(update);
                }
                useless()
            }
            _ => useless(),
        }
    }

    /// Counts resets in bytes that we send: a client that provokes them costs as much as one that
    /// sends them (CVE-2025-8671).
    pub(super) fn observe_sent(&mut self, bytes: &[u8]) {
        let Self {
            sent,
            resets,
            refused,
            acknowledged,
            unseen,
            violation,
            now,
            ..
        } = self;
        sent.scan(bytes, |frame| {
            let (frames::RST_STREAM, [0, 0, 0, code]) = (frame.kind, frame.payload) else {
                return;
            };
            let counts = match u32::from(*code) {
                REFUSED_STREAM if *refused > 0 => {
                    *refused -= 1;
                    false
                }
                REFUSED_STREAM if !*acknowledged && *unseen > 0 => {
                    *unseen -= 1;
                    false
                }
                PROTOCOL_ERROR | FLOW_CONTROL_ERROR | STREAM_CLOSED | FRAME_SIZE_ERROR
                | REFUSED_STREAM => true,
                // Our own reasons, or an endpoint's.
                _ => false,
            };
            if counts && !resets.take(Nanos::from(*now)) {
                *violation = violation.or(Some(Violation::Resets));
            }
        });
    }
}

/// Takes a token, if one is left.
fn take(left: &mut u64) -> bool {
    let after = left.checked_sub(1);
    *left = after.unwrap_or(0);
    after.is_some()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    fn abuse_limits() -> AbuseLimits {
        let some = |number| NonZeroU32::new(number).unwrap();
        let few = TokenRate::new(some(1), Duration::from_secs(1), some(10));
        let mut abuse_limits = AbuseLimits::new(Millis::ZERO, few, few, 1_024, 128);
        abuse_limits.observe(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0);
        abuse_limits
    }

    #[test]
    fn frames_without_request_data_count_as_a_flood() {
        for (kind, flags, payload, violation) in [
            (frames::RST_STREAM, 0, &[0; 4][..], Violation::Resets),
            (frames::PING, 0, &[0; 8], Violation::Control),
            (frames::PING, frames::ACK, &[0; 8], Violation::Control),
            (frames::SETTINGS, 0, &[], Violation::Control),
            (frames::PRIORITY, 0, &[0; 5], Violation::Control),
            (frames::DATA, 0, &[], Violation::Control),
            (frames::CONTINUATION, 0, &[], Violation::Control),
            (0x77, 0, &[], Violation::Control),
        ] {
            let mut abuse_limits = abuse_limits();
            let one = frame(kind, flags, 1, payload);
            abuse_limits.observe(&one.repeat(10), 0);
            assert_eq!(abuse_limits.violation(), None, "{kind}");
            abuse_limits.observe(&one, 0);
            assert_eq!(abuse_limits.violation(), Some(violation), "{kind}");
        }
    }

    #[test]
    fn data_and_settings_ack_do_not_count_as_a_flood() {
        for (kind, flags, payload) in [
            (frames::DATA, 0, &[1][..]),
            (frames::DATA, frames::END_STREAM, &[]),
            (frames::SETTINGS, frames::ACK, &[]),
        ] {
            let mut abuse_limits = abuse_limits();
            abuse_limits.observe(&frame(kind, flags, 1, payload).repeat(1_000), 0);
            assert_eq!(abuse_limits.violation(), None, "{kind}");
        }
    }

    #[test]
    fn data_for_a_closed_stream_counts_as_a_flood() {
        let mut abuse_limits = abuse_limits();
        let data = frame(frames::DATA, 0, 3, &[1; 100]);
        abuse_limits.observe(&data.repeat(100), 0);
        abuse_limits.end_stream(3, false);
        abuse_limits.observe(&data.repeat(10), 0);
        assert_eq!(abuse_limits.violation(), None);
        abuse_limits.observe(&data, 0);
        assert_eq!(abuse_limits.violation(), Some(Violation::Control));
    }

    #[test]
    fn headers_for_closed_streams_are_counted() {
        let headers = |stream| frame(frames::HEADERS, 5, stream, &[0x82]);
        let mut abuse_limits = abuse_limits();
        for number in 0..1_000 {
            abuse_limits.observe(&headers(2 * number + 1), 0);
        }
        assert_eq!(abuse_limits.violation(), None);
        // Once they are trailers.
        abuse_limits.observe(&headers(1_999).repeat(11), 0);
        assert_eq!(abuse_limits.violation(), None);
        abuse_limits.observe(&headers(1_001), 0);
        abuse_limits.end_stream(1_001, true);
        abuse_limits.observe(&headers(1_001), 0);
        assert_eq!(abuse_limits.violation(), Some(Violation::Control));
    }

    /// CVE-2025-8671.
    #[test]
    fn streams_that_we_must_reset_are_counted() {
        let reset = |code: u8| frame(frames::RST_STREAM, 0, 1, &[0, 0, 0, code]);
        for (code, counts) in [
            (0, false),
            (1, true),
            (2, false),
            (3, true),
            (5, true),
            (7, false),
            (8, false),
        ] {
            let mut abuse_limits = abuse_limits();
            abuse_limits.observe_sent(&reset(code).repeat(11));
            assert_eq!(
                abuse_limits.violation(),
                counts.then_some(Violation::Resets),
                "{code}"
            );
        }
    }

    /// RFC 9113 §5.1.2: a client does not know how many streams it may open before it has our
    /// SETTINGS.
    #[test]
    fn refused_streams_count_once_our_settings_are_acknowledged() {
        let reset = frame(frames::RST_STREAM, 0, 1, &[0, 0, 0, 7]);
        let mut abuse_limits = abuse_limits();
        abuse_limits.observe_sent(&reset.repeat(1_024));
        assert_eq!(abuse_limits.violation(), None);
        abuse_limits.observe_sent(&reset.repeat(11));
        assert_eq!(abuse_limits.violation(), Some(Violation::Resets));
        let mut abuse_limits = self::abuse_limits();
        abuse_limits.observe(&frame(frames::SETTINGS, frames::ACK, 0, &[]), 0);
        abuse_limits.observe_sent(&reset.repeat(11));
        assert_eq!(abuse_limits.violation(), Some(Violation::Resets));
    }

    #[test]
    fn window_update_is_allowed_in_proportion_to_sent_data() {
        let update = frame(frames::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]);
        let (mut idle, mut busy) = (abuse_limits(), abuse_limits());
        idle.observe(&update.repeat(300), 0);
        busy.observe(&update.repeat(300), 1 << 20);
        assert_eq!(
            (idle.violation(), busy.violation()),
            (Some(Violation::Updates), None)
        );
    }

    #[test]
    fn response_bytes_justify_a_ping_but_ping_acks_do_not() {
        let ping = frame(frames::PING, 0, 0, &[0; 8]);
        let (mut measuring, mut flooding) = (abuse_limits(), abuse_limits());
        for at in 0..1_000 {
            // A response of 40 bytes, and the acknowledgement of the PING.
            measuring.observe(&ping, at * (40 + PING_ACK));
            flooding.observe(&ping, at * PING_ACK);
        }
        assert_eq!(
            (measuring.violation(), flooding.violation()),
            (None, Some(Violation::Control))
        );
    }

    #[test]
    fn priority_updates_are_kept_until_asked_for() {
        let mut abuse_limits = abuse_limits();
        abuse_limits.observe(&frame(frames::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=1"), 0);
        let priorities = abuse_limits.take_priorities();
        assert_eq!(priorities.len(), 1);
        assert_eq!((priorities[0].0, priorities[0].1.urgency), (5, 1));
        assert!(abuse_limits.take_priorities().is_empty());
    }
}
