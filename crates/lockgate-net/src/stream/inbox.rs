//! What was received and not used yet.
//!
//! While bytes are worked on they stand in a block that the worker lends; a connection that waits
//! for more gives it back and keeps what it has in memory of that size, mostly none.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use super::{READ, Sealing};
use crate::memory::{self, Level};

/// What must be free behind what is held before a read: the longest TLS record, and more.
const ROOM: usize = 32 * 1024;
/// A block takes a whole head of the longest kind and a read behind it.
const BLOCK: usize = READ + ROOM;
/// What is held beyond that is left in its block.
const WORTH_KEEPING: usize = BLOCK / 3;
/// Blocks that are kept for later: beyond that, memory goes back.
const KEPT: usize = 64;

/// What is lent is kept for later up to this size.
const TEXT: usize = 16 * 1024;

/// The blocks of one worker, and buffers for text that is to be sent.
pub struct Blocks {
    free: RefCell<Vec<Box<[u8]>>>,
    /// The fewest that were free since they were tidied last: so many were of no use.
    unused: Cell<usize>,
    texts: RefCell<Vec<Vec<u8>>>,
    pub(crate) sealing: RefCell<Sealing>,
}

impl Blocks {
    /// None yet; they are made when they are needed.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            free: RefCell::default(),
            unused: Cell::new(0),
            texts: RefCell::default(),
            sealing: Sealing::new(),
        })
    }

    /// Lends an empty buffer for text.
    pub fn text(&self) -> Vec<u8> {
        self.texts.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes one back.
    pub fn take_back(&self, mut text: Vec<u8>) {
        let mut texts = self.texts.borrow_mut();
        if texts.len() < KEPT && text.capacity() <= TEXT {
            text.clear();
            texts.push(text);
        }
    }

    fn take(&self) -> Box<[u8]> {
        // The one used last is in the cache.
        let mut free = self.free.borrow_mut();
        let Some(block) = free.pop() else {
            return vec![0; BLOCK].into();
        };
        self.unused.set(self.unused.get().min(free.len()));
        memory::lend(BLOCK.cast_signed());
        block
    }

    fn give(&self, block: Box<[u8]>) {
        let mut free = self.free.borrow_mut();
        let kept = if memory::level() == Level::Easy {
            KEPT
        } else {
            1
        };
        if free.len() < kept {
            memory::lend(-BLOCK.cast_signed());
            free.push(block);
        }
    }

    /// Keeps no more for later than what is used all the time.
    pub fn shrink(&self) {
        self.free.borrow_mut().truncate(1);
        self.texts.take();
    }

    /// Keeps no more for later than what was used since this was done last.
    pub fn tidy(&self) {
        let mut free = self.free.borrow_mut();
        // Those at the front were used longest ago.
        let unused = self.unused.get().min(free.len().saturating_sub(1));
        free.drain(..unused);
        self.unused.set(free.len());
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("free", &self.free.borrow().len())
            .finish()
    }
}

/// Bytes that were received, in their order.
#[derive(Debug)]
pub struct Inbox {
    blocks: Rc<Blocks>,
    /// A block, or memory of the size of what is held.
    memory: Box<[u8]>,
    is_block: bool,
    held: Range<usize>,
}

impl Inbox {
    /// An empty one.
    pub fn new(blocks: &Rc<Blocks>) -> Self {
        Self {
            blocks: Rc::clone(blocks),
            memory: Box::default(),
            is_block: false,
            held: 0..0,
        }
    }

    /// Where its blocks come from.
    pub fn blocks(&self) -> Rc<Blocks> {
        Rc::clone(&self.blocks)
    }

    /// What is held.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.held.clone()]
    }

    /// What is held, to be moved about within.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.held.clone()]
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether so much is held that a read may find no room.
    pub(super) fn is_full(&self) -> bool {
        self.held.len() > READ
    }

    /// How much [`fill`](Self::fill) will offer.
    pub(super) fn room(&self) -> usize {
        let behind = if self.is_block {
            BLOCK - self.held.end
        } else {
            0
        };
        if behind < ROOM {
            BLOCK - self.held.len()
        } else {
            behind
        }
    }

    /// Lets go of so many bytes at the front.
    pub fn consume(&mut self, count: usize) {
        self.held.start = (self.held.start + count).min(self.held.end);
        if self.held.is_empty() {
            self.release();
        }
    }

    /// Gives the block back while nothing can be done with what is held, where that saves memory.
    pub fn settle(&mut self) {
        if self.is_block && self.held.len() <= WORTH_KEEPING {
            let kept = self.bytes().into();
            self.release();
            self.memory = kept;
            self.held = 0..self.memory.len();
        }
    }

    /// Puts bytes behind what is held.
    pub fn extend(&mut self, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let filled = self.fill(|room| {
                let here = left.len().min(room.len());
                room[..here].copy_from_slice(&left[..here]);
                Ok::<_, std::convert::Infallible>(here)
            });
            match filled {
                Ok(0) | Err(_) => return,
                Ok(here) => left = &left[here..],
            }
        }
    }

    /// Has `read` fill the room behind what is held, and adds as many bytes as it says. There is
    /// always some, unless it [is full](Self::is_full).
    pub(super) fn fill<E>(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if !self.is_block {
            let mut block = self.blocks.take();
            block[..self.held.len()].copy_from_slice(self.bytes());
            self.memory = block;
            self.is_block = true;
            self.held = 0..self.held.len();
        } else if BLOCK - self.held.end < ROOM {
            self.memory.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        let filled = read(&mut self.memory[self.held.end..]);
        if let Ok(count) = filled {
            self.held.end += count;
        }
        if self.held.is_empty() {
            self.release();
        }
        filled
    }

    fn release(&mut self) {
        self.held = 0..0;
        let memory = std::mem::take(&mut self.memory);
        if std::mem::take(&mut self.is_block) {
            self.blocks.give(memory);
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.release();
    }
}
