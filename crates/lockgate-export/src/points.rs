//! The encoded points of one reading, in frames: lines, datagrams, messages or bodies that are each
//! sent as a whole.

use std::ops::Range;

/// The longest datagram, in bytes: what an Ethernet frame has room for beside the headers of IPv6
/// and UDP and a tunnel's, as statsd's and DogStatsD's documentation recommend.
pub const DATAGRAM: usize = 1_432;

/// The encoded points of one reading, or what is left of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedPoints {
    bytes: Vec<u8>,
    frames: Vec<FrameRange>,
    /// The frames that were sent.
    sent: usize,
    /// Points that no frame has room for.
    too_long: u64,
}

/// A part of the bytes that is sent as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointFrame<'a> {
    /// What is sent.
    pub bytes: &'a [u8],
    /// The points in it.
    pub points: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FrameRange {
    bytes: Range<usize>,
    points: u64,
}

impl EncodedPoints {
    /// The frame that is to be sent next; none once all were.
    pub fn next_frame(&self) -> Option<PointFrame<'_>> {
        self.frame(self.sent)
    }

    /// The frames that are left.
    pub fn frames(&self) -> impl Iterator<Item = PointFrame<'_>> {
        (self.sent..self.frames.len()).filter_map(|index| self.frame(index))
    }

    fn frame(&self, index: usize) -> Option<PointFrame<'_>> {
        let frame = self.frames.get(index)?;
        Some(PointFrame {
            bytes: self.bytes.get(frame.bytes.clone())?,
            points: frame.points,
        })
    }

    /// Takes the next frame as sent: it is left no longer. Returns its points.
    pub fn advance(&mut self) -> u64 {
        let points = self.next_frame().map_or(0, |frame| frame.points);
        self.sent = (self.sent + 1).min(self.frames.len());
        points
    }

    /// Takes all frames as sent. Returns their points.
    pub fn finish(&mut self) -> u64 {
        let points = self.points();
        self.sent = self.frames.len();
        points
    }

    /// The same points with each frame written anew.
    pub(crate) fn rewritten(&self, write: impl Fn(&mut Vec<u8>, &[u8])) -> Self {
        let mut rewritten = Self {
            too_long: self.too_long,
            ..Self::default()
        };
        for frame in self.frames() {
            let begun = rewritten.bytes.len();
            write(&mut rewritten.bytes, frame.bytes);
            rewritten.frames.push(FrameRange {
                bytes: begun..rewritten.bytes.len(),
                points: frame.points,
            });
        }
        rewritten
    }

    /// The points that are left.
    pub fn points(&self) -> u64 {
        self.frames().map(|frame| frame.points).sum()
    }

    /// Points that were left out because they alone are longer than a frame may be.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.sent >= self.frames.len()
    }

    /// The memory that it holds, in bytes: also for what was sent.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.frames.capacity() * size_of::<FrameRange>()
    }
}

/// What a frame may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameLimit {
    /// The most bytes.
    pub(crate) bytes: usize,
    /// The most points.
    pub(crate) points: u64,
    /// What stands between two entries and not behind the last one, if anything: each entry ends
    /// with it.
    pub(crate) between: Option<u8>,
}

impl FrameLimit {
    /// Lines for a datagram, joined by line feeds.
    pub(crate) const DATAGRAM: Self = Self {
        bytes: DATAGRAM,
        points: u64::MAX,
        between: Some(b'\n'),
    };

    /// Lines for a stream or a body, each with its line feed, at most so many bytes together.
    pub(crate) const fn lines(bytes: usize) -> Self {
        Self {
            bytes,
            points: u64::MAX,
            between: None,
        }
    }
}

/// Packs entries into frames.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    limit: FrameLimit,
    packed: EncodedPoints,
    /// Where the frame begins that is being filled, and its points.
    begun: usize,
    points: u64,
}

impl FrameWriter {
    pub(crate) fn new(limit: FrameLimit) -> Self {
        Self {
            limit,
            packed: EncodedPoints::default(),
            begun: 0,
            points: 0,
        }
    }

    /// Adds an entry of so many points, which `write` appends: it is not divided.
    pub(crate) fn add(&mut self, points: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.packed.bytes.len();
        write(&mut self.packed.bytes);
        let joint = usize::from(self.limit.between.is_some());
        let fits = |from: usize, to: usize| to - from <= self.limit.bytes + joint;
        let end = self.packed.bytes.len();
        if !fits(at, end) {
            self.packed.bytes.truncate(at);
            self.packed.too_long += points;
            return;
        }
        let is_full = !fits(self.begun, end) || self.points + points > self.limit.points;
        if self.points > 0 && is_full {
            self.end_frame(at);
        }
        self.points += points;
    }

    /// The frames.
    pub(crate) fn finish(mut self) -> EncodedPoints {
        if self.points > 0 {
            self.end_frame(self.packed.bytes.len());
        }
        self.packed
    }

    /// Ends the frame that is being filled before `at`, where the next one begins.
    fn end_frame(&mut self, at: usize) {
        let joint = usize::from(self.limit.between.is_some());
        self.packed.frames.push(FrameRange {
            bytes: self.begun..at - joint,
            points: self.points,
        });
        self.begun = at;
        self.points = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: FrameLimit = FrameLimit {
        bytes: 7,
        points: 3,
        between: Some(b'\n'),
    };

    fn packed(limit: FrameLimit, entries: &[&str]) -> EncodedPoints {
        let mut frames = FrameWriter::new(limit);
        for entry in entries {
            frames.add(1, |out| out.extend_from_slice(entry.as_bytes()));
        }
        frames.finish()
    }

    fn texts(points: &EncodedPoints) -> Vec<(&str, u64)> {
        let frames = points.frames();
        frames
            .map(|frame| (std::str::from_utf8(frame.bytes).unwrap(), frame.points))
            .collect()
    }

    #[test]
    fn entries_fill_datagrams_and_are_joined_by_line_feeds() {
        for (entries, frames) in [
            (&["abc\n", "def\n"][..], &[("abc\ndef", 2)][..]),
            (&["abc\n", "defg\n"], &[("abc", 1), ("defg", 1)]),
            (&["abcdefg\n"], &[("abcdefg", 1)]),
            (&["a\n", "b\n", "c\n", "d\n"], &[("a\nb\nc", 3), ("d", 1)]),
            (&[], &[]),
        ] {
            let points = packed(SMALL, entries);
            assert_eq!((texts(&points), points.too_long()), (frames.to_vec(), 0));
        }
    }

    #[test]
    fn an_entry_longer_than_a_datagram_is_left_out_and_counted() {
        let points = packed(SMALL, &["a\n", "abcdefgh\n", "b\n"]);
        assert_eq!(texts(&points), [("a\nb", 2)]);
        assert_eq!(points.too_long(), 1);
    }

    #[test]
    fn frames_of_lines_keep_their_line_feeds() {
        let points = packed(FrameLimit::lines(5), &["ab\n", "c\n", "d\n"]);
        assert_eq!(texts(&points), [("ab\nc\n", 2), ("d\n", 1)]);
    }

    #[test]
    fn frames_that_were_sent_are_left_no_longer() {
        let mut points = packed(FrameLimit::lines(3), &["ab\n", "cd\n", "ef\n"]);
        assert_eq!((points.points(), points.advance()), (3, 1));
        assert_eq!(texts(&points), [("cd\n", 1), ("ef\n", 1)]);
        assert_eq!((points.finish(), points.advance()), (2, 0));
        assert!(points.is_empty() && points.next_frame().is_none());
    }
}
