//! What the frames of an endpoint cost us beside what flow control bounds: field sections that nobody has taken yet, and
//! DATA that carries nothing.

use lockgate_http::h2::frames::{self, Scanner};

/// Frames of field sections on one stream: the answer, its trailers, and more answers before it than anybody needs.
const SECTIONS: u32 = 64;
/// Frames of DATA without bytes after which a connection gets no more requests: the h2 crate ends it at the 101st, with
/// all that run on it.
const EMPTY: u32 = 64;

/// Counts the frames of an endpoint.
#[derive(Debug)]
pub(super) struct Answers {
    scanner: Scanner,
    /// The requests that run, and the frames of field sections that came for each. Of others the crate keeps none.
    streams: Vec<(u32, u32)>,
    empty: u32,
    frames: u64,
    flooded: bool,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { scanner: Scanner::of_server(), streams: Vec::new(), empty: 0, frames: 0, flooded: false }
    }

    /// A request begins.
    pub(super) fn begins(&mut self, stream: u32) {
        self.streams.push((stream, 0));
    }

    /// A request is over, whatever still comes of its answer.
    pub(super) fn ends(&mut self, stream: u32) {
        self.streams.retain(|(one, _)| *one != stream);
    }

    /// HEADERS and DATA that have come.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether there are more interim answers to one request than we hold.
    pub(super) fn is_flooded(&self) -> bool {
        self.flooded
    }

    /// Whether so much DATA was empty that new requests are better elsewhere.
    pub(super) fn is_worn(&self) -> bool {
        self.empty >= EMPTY
    }

    /// Looks at bytes that have come.
    pub(super) fn see(&mut self, bytes: &[u8]) {
        let Self { scanner, streams, empty, frames: seen, flooded } = self;
        scanner.scan(bytes, |frame| {
            *seen += u64::from(matches!(frame.kind, frames::HEADERS | frames::DATA));
            match frame.kind {
                frames::HEADERS | frames::CONTINUATION => {
                    let running = streams.iter_mut().find(|(one, _)| *one == frame.stream);
                    if let Some((_, sections)) = running {
                        *sections += 1;
                        *flooded |= *sections > SECTIONS;
                    }
                }
                frames::DATA if frame.length == 0 && frame.flags & frames::END_STREAM == 0 => {
                    *empty = empty.saturating_add(1);
                }
                _ => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, frames::END_HEADERS, 0, 0, 0, stream], payload].concat()
    }

    /// Field sections are under no flow control: who takes none of them would have us hold all that are sent.
    #[test]
    fn field_sections_of_one_request_are_bounded() {
        let mut answers = Answers::new();
        for stream in [1, 3] {
            answers.begins(stream);
            answers.see(&frame(frames::HEADERS, stream.try_into().unwrap(), b"x").repeat(64));
            assert!(!answers.is_flooded());
        }
        // Of one that is over nothing is held.
        answers.ends(1);
        answers.see(&frame(frames::HEADERS, 1, b"x").repeat(100));
        assert!(!answers.is_flooded());
        answers.see(&frame(frames::CONTINUATION, 3, b"x"));
        assert!(answers.is_flooded());
    }

    #[test]
    fn data_without_bytes_wears_a_connection_out() {
        let mut answers = Answers::new();
        answers.begins(1);
        answers.see(&[frame(frames::DATA, 1, b""), frame(frames::DATA, 1, b"x")].concat().repeat(63));
        assert!(!answers.is_worn());
        answers.see(&frame(frames::DATA, 1, b""));
        assert!(answers.is_worn());
        assert_eq!(answers.frames(), 127);
    }
}
