//! The field sections of a client's streams: their decoded sizes, and errors that the h2 crate does
//! not report.
//!
//! The h2 crate delivers neither pseudo-fields in trailers nor the fragment of a `:path`. Where a
//! frame ends within a field, it forgets errors before it: repeated or misplaced pseudo-fields,
//! fields of the connection. And a decoded head is larger than its block: a reference of one byte
//! may stand for 4,000. So blocks are scanned as they are received, before the crate decodes them.

use std::collections::VecDeque;

use lockgate_http::h2::SectionError;
use lockgate_http::hpack::{BlockAccount, SectionSummary, TABLE_SIZE};

/// The most bytes of heads of open streams together, for each stream that the connection may have:
/// 8 KB, which other servers allow for one head. A stream beyond that is refused, and may be
/// retried.
const HELD_EACH: usize = 8 * 1024;
/// The least value of that sum, so that a few streams may have large heads.
const HELD: usize = 1024 * 1024;
/// The most bytes of heads that the crate has decoded and we have not accepted: no more is read
/// until then.
const WAITING: usize = 256 * 1024;
/// The least number of remembered streams; it is twice the number that the connection may have. The
/// crate refuses streams beyond its limit, and accepts the others at once.
const STREAMS: usize = 4_096;

/// The decision about a request, by its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadVerdict {
    /// The request is served.
    Read,
    /// Its head or its trailers are malformed in a way that the crate does not report.
    Malformed(SectionError),
    /// There is no room for its head: it is refused, and was not processed.
    Refuse,
    /// Its head could not be parsed, for which the connection ends.
    Lost,
}

/// The meaning of HEADERS for their stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionUse {
    /// They begin a request, or are the trailers of an open one.
    Needed,
    /// The stream has ended, or its request has.
    Useless,
}

/// The field sections of one connection.
#[derive(Debug)]
pub(super) struct FieldSections {
    account: BlockAccount,
    /// The remembered streams, in the order of their numbers.
    streams: VecDeque<StreamSections>,
    /// The highest stream number so far.
    highest: u32,
    /// The stream of the current section.
    of: Option<IncomingSection>,
    /// Bytes of heads of open streams, and their limit.
    held: usize,
    most_held: usize,
    /// The limit of remembered streams.
    most_streams: usize,
    /// Bytes of heads of streams that were not accepted yet.
    waiting: usize,
    malformed: usize,
    /// Whether a section could not be parsed.
    lost: bool,
}

#[derive(Debug, Clone, Copy)]
enum IncomingSection {
    Head(u32),
    Trailers(u32),
    Unused,
}

#[derive(Debug)]
struct StreamSections {
    stream: u32,
    size: usize,
    state: State,
    /// The error in its head.
    head: Option<SectionError>,
    has_trailers: bool,
    /// The error in its trailers.
    trailers: Option<SectionError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The crate has neither accepted nor refused it.
    Waiting,
    /// The crate has handled all received frames without accepting it: it has refused it, or will
    /// accept it soon.
    Settled,
    /// The crate has accepted it.
    Open,
}

impl FieldSections {
    /// For a client that may send fields of up to `longest` bytes and open `most` streams.
    pub(super) fn new(longest: usize, most: u32) -> Self {
        let account = BlockAccount::new(TABLE_SIZE as u16, longest);
        let most = most as usize;
        let (most_held, most_streams) = (HELD.max(most * HELD_EACH), STREAMS.max(2 * most));
        let (streams, highest, of, held, waiting, malformed, lost) = Default::default();
        Self {
            account,
            streams,
            highest,
            of,
            held,
            most_held,
            most_streams,
            waiting,
            malformed,
            lost,
        }
    }

    /// Begins the section of a HEADERS frame.
    pub(super) fn begin(&mut self, stream: u32) -> SectionUse {
        if stream > self.highest {
            self.highest = stream;
            self.of = Some(IncomingSection::Head(stream));
            if self.streams.len() == self.most_streams {
                // A stream that is not remembered is not served.
                self.forget(self.streams[0].stream);
            }
            self.streams.push_back(StreamSections {
                stream,
                size: 0,
                state: State::Waiting,
                head: None,
                has_trailers: false,
                trailers: None,
            });
            return SectionUse::Needed;
        }
        let trailers = self
            .known(stream)
            .is_some_and(|known| !std::mem::replace(&mut known.has_trailers, true));
        self.of = Some(if trailers {
            IncomingSection::Trailers(stream)
        } else {
            IncomingSection::Unused
        });
        if trailers {
            SectionUse::Needed
        } else {
            SectionUse::Useless
        }
    }

    /// Scans the next bytes of a section. For bytes outside any, the crate ends the connection.
    pub(super) fn observe(&mut self, piece: &[u8]) {
        if self.of.is_some() && !self.lost {
            self.lost = self.account.see(piece).is_err();
        }
    }

    /// Notes that the crate does not decode the current section: its table and ours differ from now
    /// on.
    pub(super) fn mark_lost(&mut self) {
        self.lost = true;
    }

    pub(super) fn end_section(&mut self) {
        let Some(of) = self.of.take() else { return };
        if self.lost {
            return;
        }
        let Ok(section) = self.account.end() else {
            self.lost = true;
            return;
        };
        match of {
            IncomingSection::Head(stream) => self.head(stream, section),
            IncomingSection::Trailers(stream) => {
                let wrong = wrong_trailers(section);
                if let Some(known) = self.known(stream).filter(|_| wrong.is_some()) {
                    known.trailers = wrong;
                    self.malformed += 1;
                }
            }
            IncomingSection::Unused => {}
        }
    }

    fn head(&mut self, stream: u32, section: SectionSummary) {
        let Some(known) = self.known(stream) else {
            return;
        };
        known.size = section.size;
        known.head = wrong_head(section);
        self.waiting += section.size;
    }

    /// Notes that the crate has accepted a stream, and decides about its request. The crate never
    /// accepts lower numbers afterwards.
    pub(super) fn accept(&mut self, stream: u32) -> HeadVerdict {
        let index = self.streams.partition_point(|known| known.stream < stream);
        for before in (0..index).rev() {
            if self.streams[before].state != State::Open {
                self.forget(self.streams[before].stream);
            }
        }
        let (held, most_held, lost) = (self.held, self.most_held, self.lost);
        let Some(known) = self.known(stream) else {
            return HeadVerdict::Refuse;
        };
        let size = known.size;
        if lost && size == 0 {
            self.forget(stream);
            return HeadVerdict::Lost;
        }
        if held > 0 && held + size > most_held {
            self.forget(stream);
            return HeadVerdict::Refuse;
        }
        let verdict = known
            .head
            .or(known.trailers)
            .map_or(HeadVerdict::Read, HeadVerdict::Malformed);
        if std::mem::replace(&mut known.state, State::Open) == State::Waiting {
            self.waiting -= size;
        }
        self.held += size;
        verdict
    }

    /// Notes that the crate has handled all received frames, and accepts no more for now.
    pub(super) fn settle(&mut self) {
        if self.waiting > 0 {
            self.waiting = 0;
            for known in self
                .streams
                .iter_mut()
                .rev()
                .take_while(|known| known.state != State::Open)
            {
                if known.size > 0 {
                    known.state = State::Settled;
                }
            }
        }
    }

    /// Notes the end of a stream.
    pub(super) fn forget(&mut self, stream: u32) {
        let index = self.streams.partition_point(|known| known.stream < stream);
        if self
            .streams
            .get(index)
            .is_some_and(|known| known.stream == stream)
            && let Some(known) = self.streams.remove(index)
        {
            match known.state {
                State::Waiting => self.waiting -= known.size,
                State::Settled => {}
                State::Open => self.held -= known.size,
            }
            self.malformed -= usize::from(known.trailers.is_some());
        }
    }

    /// The error in the trailers of this stream.
    pub(super) fn wrong(&mut self, stream: u32) -> Option<SectionError> {
        if self.malformed > 0 {
            self.known(stream)?.trailers
        } else {
            None
        }
    }

    /// Whether too many decoded heads are not accepted yet: no more is read for now.
    pub(super) fn is_full(&self) -> bool {
        self.waiting > WAITING
    }

    /// Whether a section could not be parsed, and no later one can be.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    fn known(&mut self, stream: u32) -> Option<&mut StreamSections> {
        let index = self.streams.partition_point(|known| known.stream < stream);
        self.streams
            .get_mut(index)
            .filter(|known| known.stream == stream)
    }
}

/// The error in a request's head that the crate does not report (RFC 9113 §8.2.2, §8.3, §8.3.1, RFC
/// 6585 §5).
fn wrong_head(section: SectionSummary) -> Option<SectionError> {
    match () {
        () if section.has_long_fields() => Some(SectionError::TooLong),
        () if section.has_misplaced_pseudo_fields() => Some(SectionError::PseudoFields),
        () if section.has_connection_fields() => Some(SectionError::ConnectionField),
        () if section.has_fragment() => Some(SectionError::Path),
        () => None,
    }
}

/// The same for trailers (RFC 9113 §8.1).
fn wrong_trailers(section: SectionSummary) -> Option<SectionError> {
    match () {
        () if section.has_pseudo_fields() => Some(SectionError::PseudoFields),
        () if section.has_connection_fields() => Some(SectionError::ConnectionField),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GET / by references to the static table.
    const GET: &[u8] = &[0x82, 0x86, 0x84];

    fn come(sections: &mut FieldSections, stream: u32, section: &[u8]) -> SectionUse {
        let uses = sections.begin(stream);
        sections.observe(section);
        sections.end_section();
        uses
    }

    fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
        [
            &[0x40, name.len() as u8],
            name,
            &[0x7f, (value.len() - 127) as u8 | 0x80],
            &[((value.len() - 127) >> 7) as u8],
            value,
        ]
        .concat()
    }

    #[test]
    fn heads_of_open_streams_are_bounded_by_their_decoded_size() {
        let mut sections = FieldSections::new(64 * 1024, 128);
        assert_eq!(
            come(
                &mut sections,
                1,
                &[GET, &literal(b"x", &[b'x'; 4_000])].concat()
            ),
            SectionUse::Needed
        );
        assert_eq!(sections.accept(1), HeadVerdict::Read);
        // 14 bytes for 56 KB.
        let large = [GET, &[0x80 | 62; 14]].concat();
        let verdicts: Vec<_> = (1..30)
            .map(|number| {
                come(&mut sections, 2 * number + 1, &large);
                sections.accept(2 * number + 1)
            })
            .collect();
        let read = verdicts
            .iter()
            .filter(|verdict| **verdict == HeadVerdict::Read)
            .count();
        assert_eq!(read, (HELD - 4_200) / (14 * 4_033 + 130));
        assert!(
            verdicts[read..]
                .iter()
                .all(|verdict| *verdict == HeadVerdict::Refuse)
        );
        // A stream that ends leaves room for another.
        sections.forget(3);
        come(&mut sections, 101, &large);
        assert_eq!(sections.accept(101), HeadVerdict::Read);
        (0..60).for_each(|number| sections.forget(2 * number + 1));
        assert_eq!(
            (sections.held, sections.waiting, sections.streams.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn reading_stops_while_many_heads_wait() {
        let mut sections = FieldSections::new(64 * 1024, 128);
        come(&mut sections, 1, &literal(b"x", &[b'x'; 4_000]));
        for stream in [3, 5, 7, 9, 11] {
            assert!(!sections.is_full());
            come(&mut sections, stream, &[0x80 | 62; 14]);
        }
        assert!(sections.is_full());
        // The crate has refused the streams before it.
        assert_eq!(sections.accept(11), HeadVerdict::Read);
        assert!(!sections.is_full());
        assert_eq!((sections.waiting, sections.streams.len()), (0, 1));
        // And streams that it does not accept when it has read all of them.
        for stream in [13, 15, 17, 19, 21] {
            come(&mut sections, stream, &[0x80 | 62; 14]);
        }
        sections.settle();
        assert!(!sections.is_full());
        assert_eq!(sections.accept(21), HeadVerdict::Read);
        assert_eq!((sections.waiting, sections.streams.len()), (0, 2));
        sections.forget(21);
        sections.forget(11);
        assert_eq!(sections.held, 0);
    }

    /// RFC 9113 §8.1, §8.2.2: trailers have no pseudo-fields, and none of connections.
    #[test]
    fn pseudo_fields_in_trailers_are_malformed() {
        for (trailers, wrong) in [
            (&[0x84][..], Some(SectionError::PseudoFields)),
            (&[0x88], Some(SectionError::PseudoFields)),
            (&[0x80 | 57], Some(SectionError::ConnectionField)),
            (&[0x80 | 20], None),
        ] {
            let mut sections = FieldSections::new(1_024, 128);
            come(&mut sections, 1, GET);
            come(&mut sections, 3, GET);
            assert_eq!(sections.accept(1), HeadVerdict::Read);
            assert_eq!(come(&mut sections, 1, trailers), SectionUse::Needed);
            assert_eq!((sections.wrong(1), sections.wrong(3)), (wrong, None));
            sections.forget(1);
            assert_eq!((sections.wrong(1), sections.malformed), (None, 0));
        }
        let mut sections = FieldSections::new(1_024, 128);
        come(&mut sections, 1, GET);
        come(&mut sections, 1, &[0x84]);
        assert_eq!(
            sections.accept(1),
            HeadVerdict::Malformed(SectionError::PseudoFields)
        );
    }

    /// RFC 9113 §8.2.2, §8.3, §8.3.1, for a head in any pieces.
    #[test]
    fn a_malformed_request_head_is_reported() {
        for (head, wrong) in [
            (
                &[0x82, 0x86, 0x04, 3, b'/', b'#', b'x'][..],
                SectionError::Path,
            ),
            (&[0x82, 0x83, 0x86, 0x84], SectionError::PseudoFields),
            (&[0x82, 0x86, 0x90, 0x84], SectionError::PseudoFields),
            (
                &[0x82, 0x86, 0x84, 0x80 | 57],
                SectionError::ConnectionField,
            ),
            (
                &[0x82, 0x86, 0x84, 0, 2, b't', b'e', 1, b'x'],
                SectionError::ConnectionField,
            ),
        ] {
            let mut sections = FieldSections::new(1_024, 128);
            sections.begin(1);
            head.chunks(1).for_each(|byte| sections.observe(byte));
            sections.end_section();
            assert_eq!(
                sections.accept(1),
                HeadVerdict::Malformed(wrong),
                "{head:x?}"
            );
        }
    }

    #[test]
    fn headers_for_closed_streams_are_useless() {
        let mut sections = FieldSections::new(1_024, 128);
        come(&mut sections, 5, GET);
        assert_eq!(
            come(&mut sections, 3, GET),
            SectionUse::Useless,
            "below the highest"
        );
        assert_eq!(
            come(&mut sections, 5, &[0x90]),
            SectionUse::Needed,
            "trailers"
        );
        assert_eq!(
            come(&mut sections, 5, &[0x90]),
            SectionUse::Useless,
            "trailers again"
        );
        come(&mut sections, 7, GET);
        sections.accept(7);
        sections.forget(7);
        assert_eq!(come(&mut sections, 7, &[0x90]), SectionUse::Useless, "over");
    }

    /// The crate reports the error itself, in its own time.
    #[test]
    fn an_undecodable_field_section_is_known_to_be_lost() {
        let mut sections = FieldSections::new(1_024, 128);
        come(&mut sections, 1, &[0x80 | 62]);
        assert!(sections.is_lost());
        // Not a section of its own.
        let mut sections = FieldSections::new(1_024, 128);
        sections.observe(&[0x80 | 62]);
        sections.end_section();
        assert!(!sections.is_lost());
    }

    /// The fields that the crate reads behind an undecoded section may be another request than the
    /// client's.
    #[test]
    fn streams_after_an_undecodable_section_are_not_served() {
        let mut sections = FieldSections::new(1_024, 128);
        come(&mut sections, 1, GET);
        sections.begin(3);
        sections.mark_lost();
        sections.end_section();
        come(&mut sections, 5, GET);
        assert_eq!(
            [1, 5].map(|stream| sections.accept(stream)),
            [HeadVerdict::Read, HeadVerdict::Lost]
        );
    }

    /// `http2.streams` allows so many: each has room for a head of usual size.
    #[test]
    fn more_streams_have_more_room_for_their_heads() {
        let mut sections = FieldSections::new(16 * 1024, 1_000);
        let head = [GET, &literal(b"x", &[b'x'; 4_000])].concat();
        for number in 0..1_000 {
            come(&mut sections, 2 * number + 1, &head);
            assert_eq!(
                sections.accept(2 * number + 1),
                HeadVerdict::Read,
                "{number}"
            );
        }
    }

    #[test]
    fn streams_that_are_never_accepted_are_bounded() {
        let mut sections = FieldSections::new(1_024, 128);
        for number in 0..2 * STREAMS as u32 {
            come(&mut sections, 2 * number + 1, GET);
        }
        assert_eq!(sections.streams.len(), STREAMS);
        assert_eq!(sections.accept(1), HeadVerdict::Refuse);
    }
}
