//! Readings that wait to be sent, of bounded size: the oldest make room for new ones.

use std::collections::VecDeque;

use crate::points::EncodedPoints;

/// Readings that wait, the oldest first.
///
/// Together they hold no more than the limit, but one reading has room in any case: it is as large as
/// the figures, which are bounded themselves.
#[derive(Debug)]
pub struct PointQueue {
    waiting: VecDeque<EncodedPoints>,
    held: usize,
    limit: usize,
}

impl PointQueue {
    /// A queue for so many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            held: 0,
            limit,
        }
    }

    /// Adds a reading. Returns the points of those that had to make room.
    pub fn push(&mut self, points: EncodedPoints) -> u64 {
        self.held += points.held_bytes();
        self.waiting.push_back(points);
        self.make_room()
    }

    /// Puts a reading back that could not be sent whole. Returns the points of those that had to make
    /// room; it is the first of them.
    pub fn put_back(&mut self, points: EncodedPoints) -> u64 {
        self.held += points.held_bytes();
        self.waiting.push_front(points);
        self.make_room()
    }

    /// Takes the oldest reading.
    pub fn pop(&mut self) -> Option<EncodedPoints> {
        let points = self.waiting.pop_front()?;
        self.held -= points.held_bytes();
        Some(points)
    }

    /// The points of all readings.
    pub fn points(&self) -> u64 {
        self.waiting.iter().map(EncodedPoints::points).sum()
    }

    fn make_room(&mut self) -> u64 {
        let mut lost = 0;
        while self.held > self.limit && self.waiting.len() > 1 {
            lost += self.pop().map_or(0, |points| points.points());
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::{FrameLimit, FrameWriter};

    /// A reading of so many points, a frame for each.
    fn reading(points: u64) -> EncodedPoints {
        let mut frames = FrameWriter::new(FrameLimit::lines(100));
        for _ in 0..points {
            frames.add(1, |out| out.extend_from_slice(&[b'x'; 100]));
        }
        frames.finish()
    }

    #[test]
    fn the_oldest_readings_make_room() {
        let size = reading(1).held_bytes();
        let mut queue = PointQueue::new(2 * size);
        assert_eq!([queue.push(reading(1)), queue.push(reading(1))], [0, 0]);
        assert_eq!(queue.push(reading(1)), 1);
        assert_eq!(queue.points(), 2);
    }

    #[test]
    fn a_reading_larger_than_the_limit_has_room_alone() {
        let mut queue = PointQueue::new(10);
        assert_eq!(queue.push(reading(5)), 0);
        assert_eq!(queue.push(reading(3)), 5);
        assert_eq!(queue.pop().map(|points| points.points()), Some(3));
        assert_eq!((queue.pop(), queue.points()), (None, 0));
    }

    #[test]
    fn a_reading_that_is_put_back_is_the_oldest() {
        let size = reading(2).held_bytes();
        let mut queue = PointQueue::new(2 * size);
        queue.push(reading(1));
        queue.push(reading(2));
        let mut first = queue.pop().unwrap();
        assert_eq!(queue.put_back(first), 0);
        first = queue.pop().unwrap();
        assert_eq!(first.points(), 1);
        queue.push(reading(2));
        // There is no room for it any more.
        assert_eq!(queue.put_back(first), 1);
        assert_eq!(queue.points(), 4);
    }
}
