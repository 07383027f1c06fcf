//! What a client's frames cost us, beside what they do: those that carry nothing for a request are
//! counted as they come, before anybody acts on them, and so are those by which it makes us reset
//! its streams.
//!
//! Each attack of its kind was cheap to send and dear to answer: PING, SETTINGS, PRIORITY and empty
//! DATA (CVE-2019-9512, -9515, -9513, -9518), requests that are taken back at once
//! (CVE-2023-44487). What the h2 crate bounds by itself is not counted again: CONTINUATION and tiny
//! DATA.

use std::collections::VecDeque;
use std::rc::Rc;

use lockgate_http::h2::HeadError;
use lockgate_http::h2::frames::{self, Frame, Scanner, Seen};
use lockgate_http::priority::{self, Priority};
use lockgate_rules::Allowance;

use super::sections::{Sections, Use, Verdict};
use super::unfinished::Unfinished;
use crate::clock::{Clock, millis};

/// Updates of windows that a connection may send before it has got anything.
const UPDATES: u64 = 256;
/// Bytes that we send, beside answers to PING and SETTINGS, for one more of them, or for a PING:
/// clients tell of what they have used for the stream and for the connection, and some (grpc-go)
/// measure the round trip behind every small answer.
const BYTES_A_FRAME: u64 = 8;
/// How many of these are saved up.
const SAVED: u64 = 65_536;
/// What our answer to a PING has, and that to SETTINGS.
const PING_ANSWER: u64 = 17;
const SETTINGS_ANSWER: u64 = 9;
/// Streams that are over and remembered: as many as may be open at once, by default.
const OVER: usize = 128;
/// Streams that are refused before the client has seen how many it may open at once (RFC 9113
/// §5.1.2): one that opens a thousand at once is not to blame.
const UNSEEN: u32 = 1_024;
/// Codes of resets (RFC 9113 §7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;
/// Priorities that are remembered until somebody asks for them.
const PRIORITIES: usize = 128;

/// What a client did too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Took requests back.
    Resets,
    /// Sent frames that carry nothing for a request.
    Control,
    /// Opened windows for which nothing was sent.
    Updates,
    /// Sent a field section that could not be followed, which the crate took.
    Sections,
}

impl Violation {
    /// For metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::Control => "control",
            Self::Updates => "updates",
            Self::Sections => "sections",
        }
    }

    /// For the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resets => "too many requests taken back",
            Self::Control => "too many frames without a use",
            Self::Updates => "too many updates of windows",
            Self::Sections => "a field section that cannot be read",
        }
    }
}

#[derive(Debug)]
struct Bucket {
    allowance: Allowance,
    /// Thousandths that are left.
    left: u64,
    filled_at: u64,
}

impl Bucket {
    fn new(allowance: Allowance, now: u64) -> Self {
        Self {
            allowance,
            left: u64::from(allowance.burst) * 1_000,
            filled_at: now,
        }
    }

    fn take(&mut self, now: u64) -> bool {
        let Allowance {
            count,
            every,
            burst,
        } = self.allowance;
        let passed = now.saturating_sub(self.filled_at);
        let fresh = passed.saturating_mul(u64::from(count) * 1_000) / millis(every).max(1);
        if fresh > 0 {
            self.left = self
                .left
                .saturating_add(fresh)
                .min(u64::from(burst) * 1_000);
            self.filled_at = now;
        }
        let after = self.left.checked_sub(1_000);
        self.left = after.unwrap_or(self.left);
        after.is_some()
    }
}

/// Counts a client's frames.
#[derive(Debug)]
pub struct Gate {
    clock: Rc<Clock>,
    scanner: Scanner,
    resets: Bucket,
    control: Bucket,
    updates: u64,
    /// Updates and PINGs that are explained by what we sent.
    explained: u64,
    /// Bytes that we sent and that were looked at for that.
    told: u64,
    /// Bytes of our answers to frames that carry nothing.
    answers: u64,
    priorities: Vec<(u32, Priority)>,
    /// Streams that ended before their bodies did, the last of them.
    over: VecDeque<u32>,
    unfinished: Unfinished,
    sections: Sections,
    /// What we send.
    sent: Scanner,
    /// Whether the client has acknowledged our SETTINGS.
    acknowledged: bool,
    /// Streams that may still be refused before it has.
    unseen: u32,
    /// Streams that we refuse for a reason of our own, and of which the reset has not left.
    refused: u32,
    violation: Option<Violation>,
}

impl Gate {
    /// For a client that may take back and control so much, whose fields have up to `longest`
    /// bytes, and that has up to `streams` requests open.
    pub fn new(
        clock: &Rc<Clock>,
        resets: Allowance,
        control: Allowance,
        longest: usize,
        streams: u32,
    ) -> Self {
        let now = clock.now();
        Self {
            clock: Rc::clone(clock),
            scanner: Scanner::of_client(),
            resets: Bucket::new(resets, now),
            control: Bucket::new(control, now),
            updates: UPDATES,
            explained: 0,
            told: 0,
            answers: 0,
            priorities: Vec::new(),
            over: VecDeque::new(),
            unfinished: Unfinished::default(),
            sections: Sections::new(longest, streams),
            sent: Scanner::of_server(),
            acknowledged: false,
            unseen: UNSEEN,
            refused: 0,
            violation: None,
        }
    }

    /// What the client did too often, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// The same when the crate has looked at all that has come: what it could not read either it
    /// has told itself.
    pub fn settle(&mut self) -> Option<Violation> {
        self.sections.settle();
        self.violation
            .or(self.sections.is_lost().then_some(Violation::Sections))
    }

    /// The crate has accepted a stream: what is to be done with its request.
    pub fn accept(&mut self, stream: u32) -> Verdict {
        let verdict = self.sections.accept(stream);
        self.refused += u32::from(verdict == Verdict::Refuse);
        verdict
    }

    /// A stream is refused for a reason of our own: it is no mistake of the client's.
    pub fn refuses(&mut self) {
        self.refused += 1;
    }

    /// What is wrong with the trailers of an open stream and not told by the crate.
    pub fn wrong(&mut self, stream: u32) -> Option<HeadError> {
        self.sections.wrong(stream)
    }

    /// Whether heads wait for the crate to hand them on, and no more is to be read before it has.
    pub(super) fn is_full(&self) -> bool {
        self.sections.is_full()
    }

    /// Priorities that the client has said since the last time, of requests that may not have come
    /// yet (RFC 9218 §7.1).
    pub fn take_priorities(&mut self) -> Vec<(u32, Priority)> {
        std::mem::take(&mut self.priorities)
    }

    /// A stream is over. Where its client has not `finished`, what still comes of its body is of
    /// use to nobody.
    pub fn ends(&mut self, stream: u32, finished: bool) {
        self.sections.ends(stream);
        if finished {
            return;
        }
        if self.over.len() == OVER {
            self.over.pop_front();
        }
        self.over.push_back(stream);
    }

    /// The message of which the rest is waited for.
    pub(super) fn unfinished(&mut self) -> &mut Unfinished {
        &mut self.unfinished
    }

    /// Whether what has come ended within a frame.
    pub(super) fn is_within_frame(&self) -> bool {
        self.scanner.is_within_frame()
    }

    /// Looks at bytes that have come, when so many were sent.
    pub(super) fn see(&mut self, bytes: &[u8], sent: u64) {
        let now = self.clock.now();
        let fresh = sent.saturating_sub(self.answers).saturating_sub(self.told) / BYTES_A_FRAME;
        self.told += fresh * BYTES_A_FRAME;
        self.explained = (self.explained + fresh).min(SAVED);
        // It is lent out for as long as it calls back.
        let mut scanner = std::mem::replace(&mut self.scanner, Scanner::of_client());
        scanner.follow(bytes, |seen| match seen {
            Seen::Frame(frame) => {
                self.unfinished.see(&frame);
                let found = self.frame(frame, now);
                self.violation = self.violation.or(found);
            }
            Seen::Block(piece) => self.sections.see(piece),
            Seen::Whole => self.sections.whole(),
            Seen::DependsOnItself => self.sections.lose(),
        });
        self.scanner = scanner;
    }

    fn frame(&mut self, frame: Frame<'_>, now: u64) -> Option<Violation> {
        let Self {
            resets,
            control,
            updates,
            explained,
            answers,
            priorities,
            over,
            ..
        } = self;
        let mut useless = || (!control.take(now)).then_some(Violation::Control);
        match frame.kind {
            frames::HEADERS => match self.sections.begins(frame.stream) {
                Use::Some => None,
                Use::None => useless(),
            },
            frames::DATA if frame.length > 0 && !over.contains(&frame.stream) => None,
            frames::DATA if frame.flags & frames::END_STREAM != 0 => None,
            // One to a SETTINGS that we never sent ends the connection by itself; of PING we send
            // one at the most.
            frames::SETTINGS if frame.flags & frames::ACK != 0 => {
                self.acknowledged = true;
                None
            }
            frames::RST_STREAM => (!resets.take(now)).then_some(Violation::Resets),
            frames::WINDOW_UPDATE => {
                (!take(explained) && !take(updates)).then_some(Violation::Updates)
            }
            frames::PING if frame.flags & frames::ACK == 0 => {
                *answers += PING_ANSWER;
                if take(explained) { None } else { useless() }
            }
            frames::SETTINGS => {
                *answers += SETTINGS_ANSWER;
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

    /// Looks at bytes that we send: streams that a client makes us reset are as good as those that
    /// it resets (CVE-2025-8671).
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let Self {
            sent,
            resets,
            refused,
            acknowledged,
            unseen,
            violation,
            clock,
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
                // Those are for reasons of ours, or of an endpoint.
                _ => false,
            };
            if counts && !resets.take(clock.now()) {
                *violation = violation.or(Some(Violation::Resets));
            }
        });
    }
}

/// Takes one, if one is left.
fn take(left: &mut u64) -> bool {
    let after = left.checked_sub(1);
    *left = after.unwrap_or(0);
    after.is_some()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Pulse;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    fn gate() -> Gate {
        let few = Allowance {
            count: 1,
            every: Duration::from_secs(1),
            burst: 10,
        };
        let mut gate = Gate::new(&Clock::new(Pulse::new()), few, few, 1_024, 128);
        gate.see(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0);
        gate
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
            let mut gate = gate();
            let one = frame(kind, flags, 1, payload);
            gate.see(&one.repeat(10), 0);
            assert_eq!(gate.violation(), None, "{kind}");
            gate.see(&one, 0);
            assert_eq!(gate.violation(), Some(violation), "{kind}");
        }
    }

    #[test]
    fn data_and_settings_ack_do_not_count_as_a_flood() {
        for (kind, flags, payload) in [
            (frames::DATA, 0, &[1][..]),
            (frames::DATA, frames::END_STREAM, &[]),
            (frames::SETTINGS, frames::ACK, &[]),
        ] {
            let mut gate = gate();
            gate.see(&frame(kind, flags, 1, payload).repeat(1_000), 0);
            assert_eq!(gate.violation(), None, "{kind}");
        }
    }

    #[test]
    fn data_for_a_closed_stream_counts_as_a_flood() {
        let mut gate = gate();
        let data = frame(frames::DATA, 0, 3, &[1; 100]);
        gate.see(&data.repeat(100), 0);
        gate.ends(3, false);
        gate.see(&data.repeat(10), 0);
        assert_eq!(gate.violation(), None);
        gate.see(&data, 0);
        assert_eq!(gate.violation(), Some(Violation::Control));
    }

    #[test]
    fn headers_for_closed_streams_are_counted() {
        let headers = |stream| frame(frames::HEADERS, 5, stream, &[0x82]);
        let mut gate = gate();
        for number in 0..1_000 {
            gate.see(&headers(2 * number + 1), 0);
        }
        assert_eq!(gate.violation(), None);
        // Once they are trailers.
        gate.see(&headers(1_999).repeat(11), 0);
        assert_eq!(gate.violation(), None);
        gate.see(&headers(1_001), 0);
        gate.ends(1_001, true);
        gate.see(&headers(1_001), 0);
        assert_eq!(gate.violation(), Some(Violation::Control));
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
            let mut gate = gate();
            gate.send(&reset(code).repeat(11));
            assert_eq!(
                gate.violation(),
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
        let mut gate = gate();
        gate.send(&reset.repeat(1_024));
        assert_eq!(gate.violation(), None);
        gate.send(&reset.repeat(11));
        assert_eq!(gate.violation(), Some(Violation::Resets));
        let mut gate = self::gate();
        gate.see(&frame(frames::SETTINGS, frames::ACK, 0, &[]), 0);
        gate.send(&reset.repeat(11));
        assert_eq!(gate.violation(), Some(Violation::Resets));
    }

    #[test]
    fn window_update_is_allowed_in_proportion_to_sent_data() {
        let update = frame(frames::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]);
        let (mut idle, mut busy) = (gate(), gate());
        idle.see(&update.repeat(300), 0);
        busy.see(&update.repeat(300), 1 << 20);
        assert_eq!(
            (idle.violation(), busy.violation()),
            (Some(Violation::Updates), None)
        );
    }

    #[test]
    fn response_bytes_justify_a_ping_but_ping_acks_do_not() {
        let ping = frame(frames::PING, 0, 0, &[0; 8]);
        let (mut measuring, mut flooding) = (gate(), gate());
        for at in 0..1_000 {
            // A response of 40 bytes, and the acknowledgement of the PING.
            measuring.see(&ping, at * (40 + PING_ANSWER));
            flooding.see(&ping, at * PING_ANSWER);
        }
        assert_eq!(
            (measuring.violation(), flooding.violation()),
            (None, Some(Violation::Control))
        );
    }

    #[test]
    fn priority_updates_are_kept_until_asked_for() {
        let mut gate = gate();
        gate.see(&frame(frames::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=1"), 0);
        let priorities = gate.take_priorities();
        assert_eq!(priorities.len(), 1);
        assert_eq!((priorities[0].0, priorities[0].1.urgency), (5, 1));
        assert!(gate.take_priorities().is_empty());
    }
}
