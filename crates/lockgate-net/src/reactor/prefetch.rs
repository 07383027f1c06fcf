//! The memory of a task, fetched into the processor's cache before the task's turn.
//!
//! With a thousand connections, what a task has used before it waited is no longer in the cache when it
//! is woken, and its poll would wait for one line after the other. The reactor knows which task comes
//! next, and has its memory fetched while the present one is polled (`docs/notes/031-state-across-waits.md`).

use std::pin::Pin;
use std::task::{Context, Poll};

use super::CURRENT;
use crate::syscall;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Areas that a task can note, beside its own future.
const AREAS: usize = 3;
/// The bytes of one area that are fetched at most: more would displace what the present task uses.
const MOST: usize = 4096;

/// The areas of memory that a task's next poll uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NotedMemory {
    areas: [Area; AREAS],
    count: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Area {
    address: usize,
    bytes: u32,
}

impl NotedMemory {
    /// Adds an area; those beyond the last place are left out.
    fn add(&mut self, area: Area) {
        if let Some(place) = self.areas.get_mut(usize::from(self.count)) {
            *place = area;
            self.count += 1;
        }
    }

    /// Has it fetched.
    pub(super) fn prefetch(&self) {
        for area in &self.areas[..usize::from(self.count)] {
            area.prefetch();
        }
    }
}

impl Area {
    /// The first bytes of a value, `most` of them.
    fn of<T: ?Sized>(value: &T, most: usize) -> Self {
        let bytes = size_of_val(value).min(most).min(MOST);
        Self {
            address: std::ptr::from_ref(value).addr(),
            bytes: bytes as u32,
        }
    }

    /// The addresses of its lines.
    fn lines(self) -> impl Iterator<Item = usize> {
        let end = self.address + self.bytes as usize;
        (self.address & !(LINE - 1)..end).step_by(LINE)
    }

    fn prefetch(self) {
        self.lines().for_each(syscall::prefetch);
    }
}

/// Has the memory of a value fetched.
pub(super) fn prefetch<T: ?Sized>(value: &T) {
    Area::of(value, MOST).prefetch();
}

/// Notes that the running task's next poll uses the first `most` bytes of a value. The value may be
/// gone by then: fetching reads nothing.
pub fn note_memory<T>(value: &T, most: usize) {
    CURRENT.with_borrow(|current| {
        if let Some(core) = current {
            core.tasks.note(|noted| noted.add(Area::of(value, most)));
        }
    });
}

/// A boxed future, of which the memory is fetched before the task's turn.
#[derive(Debug)]
pub struct PrefetchedFuture<F>(Pin<Box<F>>);

/// Boxes the future that `make` makes: for one that a task awaits on each request.
pub fn prefetched<F: Future>(make: impl FnOnce() -> F) -> PrefetchedFuture<F> {
    PrefetchedFuture(Box::pin(make()))
}

impl<F: Future> Future for PrefetchedFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.0.as_mut().poll(cx);
        if polled.is_pending() {
            note_memory(&*self.0, MOST);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_has_the_lines_of_its_first_and_last_byte() {
        for (address, bytes, lines) in [
            (0, 0, vec![]),
            (0, 1, vec![0]),
            (0, 64, vec![0]),
            (63, 2, vec![0, 64]),
            (130, 190, vec![128, 192, 256]),
        ] {
            let area = Area { address, bytes };
            assert_eq!(area.lines().collect::<Vec<_>>(), lines, "{area:?}");
        }
    }

    #[test]
    fn an_area_is_no_longer_than_its_value_and_the_limits() {
        let value = [0_u8; 10_000];
        assert_eq!(Area::of(&value, usize::MAX).bytes as usize, MOST);
        assert_eq!(Area::of(&value, 224).bytes, 224);
        assert_eq!(Area::of(&value[..7], 224).bytes, 7);
    }

    #[test]
    fn areas_beyond_the_last_place_are_left_out() {
        let mut noted = NotedMemory::default();
        for bytes in 1..9 {
            noted.add(Area { address: 0, bytes });
        }
        assert_eq!(noted.areas.map(|area| area.bytes), [1, 2, 3]);
    }
}
