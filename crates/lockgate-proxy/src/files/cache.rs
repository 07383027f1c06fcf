//! Files that were asked for lately, of one worker: bounded memory, and never older than half a
//! second.
//!
//! Two generations: an entry that is used is put into the young one; when that is full it replaces
//! the old one. So the cache is bounded without a list of the last uses.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use lockgate_http::coding::ContentCoding;
use lockgate_http::head::ResponseHead;
use lockgate_net::memory::{self, MemoryLevel};
use lockgate_net::millis::Millis;

use super::CODINGS;
use super::file::ServedFile;
use super::representation::CopyBudget;

/// Bytes of one generation: keys, contents, and what is around them.
const BYTES: u64 = 16 << 20;
/// Descriptors of one generation; there are two.
pub const DESCRIPTORS: usize = 128;
/// The overhead of an entry beside its key and content.
const AROUND: u64 = 1024;
/// The time for which an entry is taken for what the file system has.
const TRUSTED: Millis = Millis::new(500);

/// A file in the cache, as a path has led to it.
#[derive(Debug)]
pub(crate) struct CachedFile {
    pub(crate) file: Rc<ServedFile>,
    /// 200, or 404 for the page of what was not found.
    pub(crate) status: u16,
    /// The value of Cache-Control, if it has one.
    pub(crate) caching: Option<Box<str>>,
    /// Whether another Accept may have led to something else.
    pub(crate) by_accept: bool,
    checked: Cell<Millis>,
    /// The heads of whole responses, by coding.
    heads: [OnceCell<Box<ResponseHead>>; CODINGS.len() + 1],
}

impl CachedFile {
    pub(crate) fn new(
        file: Rc<ServedFile>,
        status: u16,
        caching: Option<Box<str>>,
        by_accept: bool,
        now: Millis,
    ) -> Rc<Self> {
        Rc::new(Self {
            file,
            status,
            caching,
            by_accept,
            checked: Cell::new(now),
            heads: Default::default(),
        })
    }

    /// Whether it needs no look.
    pub(crate) fn is_current(&self, now: Millis) -> bool {
        now < self.checked.get() + TRUSTED
    }

    /// The head of every response that has all of a form; `make` makes it.
    pub(crate) fn prepared(
        &self,
        coding: ContentCoding,
        make: impl FnOnce() -> ResponseHead,
    ) -> &ResponseHead {
        self.heads[coding as usize].get_or_init(|| Box::new(make()))
    }

    /// Notes that the file was looked at and is unchanged.
    pub(crate) fn confirm(&self, now: Millis) {
        self.checked.set(now);
    }
}

type Half = HashMap<Box<[u8]>, Rc<CachedFile>, foldhash::fast::RandomState>;

/// The files of one worker, by what was asked for.
#[derive(Debug, Default)]
pub struct FileCache {
    generations: RefCell<CacheHalves>,
    /// The copies of larger files, where these are copied through us.
    pub(crate) copies: CopyBudget,
}

#[derive(Debug, Default)]
struct CacheHalves {
    young: Half,
    old: Half,
    bytes: u64,
    descriptors: u64,
    /// The number of descriptors that a generation may have.
    most: u64,
    key: Vec<u8>,
}

impl CacheHalves {
    fn key(&mut self, id: usize, path: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(&(id as u32).to_le_bytes());
        self.key.extend_from_slice(path);
    }

    fn insert(&mut self, key: Box<[u8]>, hit: Rc<CachedFile>) {
        let (bytes, descriptors) = (
            hit.file.bytes() + key.len() as u64 + AROUND,
            hit.file.descriptors(),
        );
        self.make_room(bytes, descriptors);
        self.bytes += bytes;
        self.descriptors += descriptors;
        self.young.insert(key, hit);
    }

    /// Has the young generation take the place of the old one, if it has no room for so much more.
    fn make_room(&mut self, bytes: u64, descriptors: u64) {
        if self.bytes + bytes > BYTES || self.descriptors + descriptors > self.most {
            self.old = std::mem::take(&mut self.young);
            (self.bytes, self.descriptors) = (0, 0);
        }
    }
}

impl FileCache {
    /// An empty one, of which each of two generations may have `descriptors` open.
    pub fn new(descriptors: usize) -> Self {
        let generations = CacheHalves {
            most: descriptors as u64,
            ..CacheHalves::default()
        };
        Self {
            generations: RefCell::new(generations),
            copies: CopyBudget::default(),
        }
    }

    /// The entry of `path` in the files with this id.
    pub(crate) fn get(&self, id: usize, path: &[u8]) -> Option<Rc<CachedFile>> {
        let generations = &mut *self.generations.borrow_mut();
        generations.key(id, path);
        if let Some(hit) = generations.young.get(&*generations.key) {
            return Some(Rc::clone(hit));
        }
        let (key, hit) = generations.old.remove_entry(&*generations.key)?;
        generations.insert(key, Rc::clone(&hit));
        Some(hit)
    }

    /// Keeps what was found.
    pub(crate) fn put(&self, id: usize, path: &[u8], hit: Rc<CachedFile>) {
        if memory::level() > MemoryLevel::Easy {
            return;
        }
        let generations = &mut *self.generations.borrow_mut();
        generations.key(id, path);
        let key = generations.key.as_slice().into();
        generations.old.remove(&*generations.key);
        generations.insert(key, hit);
    }

    /// Forgets what was found.
    pub(crate) fn forget(&self, id: usize, path: &[u8]) {
        let generations = &mut *self.generations.borrow_mut();
        generations.key(id, path);
        generations.young.remove(&*generations.key);
        generations.old.remove(&*generations.key);
    }

    /// Lets go of everything: descriptors or memory have run out, and these are not needed.
    pub fn clear(&self) {
        let mut generations = self.generations.borrow_mut();
        *generations = CacheHalves {
            most: generations.most,
            ..CacheHalves::default()
        };
    }

    /// An entry has grown by something that was made of it.
    pub(crate) fn grew(&self, bytes: u64) {
        let generations = &mut *self.generations.borrow_mut();
        generations.bytes += bytes;
        generations.make_room(0, 0);
    }
}
