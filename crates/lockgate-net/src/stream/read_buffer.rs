//! Received bytes that are not consumed yet.
//!
//! Bytes that are worked on are in a block of the worker; a connection that waits for more gives
//! the block back and keeps its bytes in memory of their size, mostly none.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use super::{READ, SealBuffers};
use crate::memory;
use crate::spare_pool::SparePool;
use crate::traffic_shaping::ShapingQueue;

/// The least free room behind the held bytes before a read: the longest TLS record, and more.
const ROOM: usize = 32 * 1024;
/// A block has room for a head of the longest kind and a read behind it.
const BLOCK: usize = READ + ROOM;
/// From this many bytes on they stay in their block.
const WORTH_KEEPING: usize = BLOCK / 3;
/// The free blocks that are always kept.
const LEAST: usize = 1;

/// The most text buffers that are kept, and the largest capacity of one of them.
const TEXTS: usize = 64;
const TEXT: usize = 16 * 1024;

/// The blocks of one worker, and buffers for text that is to be sent.
pub struct BufferPool {
    free: SparePool<Box<[u8]>>,
    texts: RefCell<Vec<Vec<u8>>>,
    pub(crate) sealing: RefCell<SealBuffers>,
    /// The waits for full reads, in a worker.
    queue: Option<Rc<ShapingQueue>>,
}

impl BufferPool {
    /// An empty set; blocks are created on demand.
    pub fn new() -> Rc<Self> {
        Self::with_queue(None)
    }

    /// The same, where the rest of a body may be [awaited](super::Stream::poll_read_body) by full
    /// reads.
    pub fn with_queue(queue: Option<Rc<ShapingQueue>>) -> Rc<Self> {
        Rc::new(Self {
            free: SparePool::default(),
            texts: RefCell::default(),
            sealing: SealBuffers::new(),
            queue,
        })
    }

    pub(super) fn queue(&self) -> Option<&ShapingQueue> {
        self.queue.as_deref()
    }

    /// Lends an empty buffer for text.
    pub fn text(&self) -> Vec<u8> {
        self.texts.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes back a buffer that was lent for text.
    pub fn take_back(&self, mut text: Vec<u8>) {
        let mut texts = self.texts.borrow_mut();
        if texts.len() < TEXTS && text.capacity() <= TEXT {
            text.clear();
            texts.push(text);
        }
    }

    fn take(&self) -> Box<[u8]> {
        let Some(block) = self.free.take() else {
            return vec![0; BLOCK].into();
        };
        memory::lend(BLOCK.cast_signed());
        block
    }

    fn give(&self, block: Box<[u8]>) {
        if self.free.give(block, LEAST) {
            memory::lend(-BLOCK.cast_signed());
        }
    }

    /// Keeps only the blocks that are used all the time.
    pub fn shrink(&self) {
        self.free.shrink(LEAST);
        self.texts.take();
    }

    /// Keeps only the blocks that were used since the last call.
    pub fn evict_unused(&self) {
        self.free.evict_unused(LEAST);
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("free", &self.free.count())
            .finish()
    }
}

/// Received bytes of one connection that are not consumed yet.
#[derive(Debug)]
pub struct ReadBuffer {
    pool: Rc<BufferPool>,
    /// A block, or memory of the size of the held bytes.
    memory: Box<[u8]>,
    is_block: bool,
    held: Range<usize>,
}

impl ReadBuffer {
    /// An empty buffer that takes its blocks from `pool`.
    pub fn new(pool: &Rc<BufferPool>) -> Self {
        Self {
            pool: Rc::clone(pool),
            memory: Box::default(),
            is_block: false,
            held: 0..0,
        }
    }

    /// The pool that its blocks come from.
    pub fn pool(&self) -> Rc<BufferPool> {
        Rc::clone(&self.pool)
    }

    /// The received bytes that are not consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.held.clone()]
    }

    /// The same, to be changed in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.held.clone()]
    }

    /// Whether no bytes are held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether a read may find no room.
    pub(super) fn is_full(&self) -> bool {
        self.held.len() > READ
    }

    /// The room that [`fill`](Self::fill) will offer.
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

    /// Removes bytes from the front.
    pub fn consume(&mut self, count: usize) {
        self.held.start = (self.held.start + count).min(self.held.end);
        if self.held.is_empty() {
            self.release();
        }
    }

    /// Gives the block back while the held bytes cannot be processed, if that saves memory.
    pub fn release_block(&mut self) {
        if self.is_block && self.held.len() <= WORTH_KEEPING {
            let kept = self.bytes().into();
            self.release();
            self.memory = kept;
            self.held = 0..self.memory.len();
        }
    }

    /// Appends a copy of `bytes`, as if they had been read.
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

    /// Lets `read` fill the room behind the held bytes, and adds as many bytes as it returns. There
    /// is always room, unless it [is full](Self::is_full).
    pub(super) fn fill<E>(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if !self.is_block {
            let mut block = self.pool.take();
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
            self.pool.give(memory);
        }
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        self.release();
    }
}
