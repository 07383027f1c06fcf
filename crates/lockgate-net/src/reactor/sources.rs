//! The descriptors that a reactor watches, and their events.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Waker};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::slots::{SlotKey, Slots};

/// Events that one call returns at most.
const EVENTS: usize = 1024;
/// The event of the alarm that other threads set off, which no descriptor has.
const ALARM: u64 = u64::MAX;

/// What tells of data. Any data wakes a thread that waits for urgent data, too, which then finds
/// none and waits on within the kernel.
pub(super) const DATA: EventFlags = EventFlags::IN.union(EventFlags::PRI);
/// What tells of room for writes.
pub(super) const ROOM: EventFlags = EventFlags::OUT;

/// Whether to wait for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Not,
    ForEvent,
}

/// The descriptors of one thread.
pub(super) struct Sources {
    epoll: OwnedFd,
    slots: RefCell<Slots<Rc<Source>>>,
    events: RefCell<Vec<Event>>,
}

/// One descriptor: its readiness, and the tasks that wait for it.
#[derive(Debug)]
pub(super) struct Source {
    fd: OwnedFd,
    /// What the kernel tells of it: at least what is not known, and what is known until an event
    /// repeats it.
    told: Cell<EventFlags>,
    watched: EventFlags,
    readiness: Cell<Readiness>,
    reader: WaitingTask,
    writer: WaitingTask,
    key: SlotKey,
}

/// The last task that has waited for a direction. Its waker is kept: the next wait is mostly its
/// own.
#[derive(Debug, Default)]
struct WaitingTask {
    waits: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl WaitingTask {
    fn wait(&self, cx: &Context<'_>) {
        self.waits.set(true);
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    fn wake(&self) {
        if self.waits.take()
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }
}

/// What a descriptor is ready for, as far as events have told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Readiness(u8);

impl Readiness {
    const READABLE: u8 = 1;
    const WRITABLE: u8 = 1 << 1;
    const READ_CLOSED: u8 = 1 << 2;
    const WRITE_CLOSED: u8 = 1 << 3;
    const PRIORITY: u8 = 1 << 4;
    const ERROR: u8 = 1 << 5;
    const END_OF_DATA: u8 = 1 << 6;

    /// What is ready to read: data, the end, or an error.
    const READ: u8 = Self::READABLE | Self::READ_CLOSED;
    /// The same for writing.
    const WRITE: u8 = Self::WRITABLE | Self::WRITE_CLOSED;

    fn of(flags: EventFlags) -> Self {
        let has = |flag| flags.contains(flag);
        let mut bits = 0;
        let mut set = |bit, is_set: bool| bits |= if is_set { bit } else { 0 };
        set(
            Self::READABLE,
            flags.intersects(EventFlags::IN | EventFlags::PRI),
        );
        set(Self::WRITABLE, has(EventFlags::OUT));
        set(
            Self::READ_CLOSED,
            flags.intersects(EventFlags::HUP | EventFlags::RDHUP),
        );
        set(
            Self::END_OF_DATA,
            has(EventFlags::IN) && flags.intersects(EventFlags::HUP | EventFlags::RDHUP),
        );
        set(
            Self::WRITE_CLOSED,
            has(EventFlags::HUP)
                || has(EventFlags::OUT | EventFlags::ERR)
                || flags == EventFlags::ERR,
        );
        set(Self::PRIORITY, has(EventFlags::PRI));
        set(Self::ERROR, has(EventFlags::ERR));
        Self(bits)
    }

    fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    /// Whether a read returns at once: with data, the end, or an error.
    pub(crate) fn is_readable(self) -> bool {
        self.has(Self::READ)
    }

    /// Whether the peer sends no more.
    pub(crate) fn is_read_closed(self) -> bool {
        self.has(Self::READ_CLOSED)
    }

    /// The same, by an event that would have told of urgent data, too.
    pub(crate) fn is_end_of_data(self) -> bool {
        self.has(Self::END_OF_DATA)
    }

    /// Whether nothing can be sent any longer.
    pub(crate) fn is_write_closed(self) -> bool {
        self.has(Self::WRITE_CLOSED)
    }

    /// Whether there was urgent data (RFC 6093).
    pub(crate) fn is_priority(self) -> bool {
        self.has(Self::PRIORITY)
    }

    /// Whether there was an error.
    pub(crate) fn is_error(self) -> bool {
        self.has(Self::ERROR)
    }

    pub(crate) fn from_tokio(ready: tokio::io::Ready) -> Self {
        let bit = |bit, is_set| if is_set { bit } else { 0 };
        Self(
            bit(Self::READABLE, ready.is_readable())
                | bit(Self::WRITABLE, ready.is_writable())
                | bit(
                    Self::READ_CLOSED | Self::END_OF_DATA,
                    ready.is_read_closed(),
                )
                | bit(Self::WRITE_CLOSED, ready.is_write_closed())
                | bit(Self::PRIORITY, ready.is_priority())
                | bit(Self::ERROR, ready.is_error()),
        )
    }
}

impl Source {
    pub(super) fn readiness(&self) -> Readiness {
        self.readiness.get()
    }

    /// Forgets that it is readable. That it is closed is final.
    pub(super) fn clear_readable(&self) {
        self.clear(Readiness::READABLE);
    }

    /// Forgets that it is writable.
    pub(super) fn clear_writable(&self) {
        self.clear(Readiness::WRITABLE);
    }

    fn clear(&self, bits: u8) {
        self.readiness
            .set(Readiness(self.readiness.get().0 & !bits));
    }

    /// Whether it can be read; if not, the task is woken once it can.
    pub(super) fn is_readable_or_wakes(&self, cx: &Context<'_>) -> bool {
        let is_ready = self.readiness.get().has(Readiness::READ);
        if !is_ready {
            self.reader.wait(cx);
        }
        is_ready
    }

    /// The same for writing.
    pub(super) fn is_writable_or_wakes(&self, cx: &Context<'_>) -> bool {
        let is_ready = self.readiness.get().has(Readiness::WRITE);
        if !is_ready {
            self.writer.wait(cx);
        }
        is_ready
    }

    /// Adds what an event has told, and wakes the tasks that wait for it; whether any of that was
    /// news.
    fn add(&self, more: Readiness) -> bool {
        let before = self.readiness.get();
        self.readiness.set(Readiness(before.0 | more.0));
        if more.has(Readiness::READ) {
            self.reader.wake();
        }
        if more.has(Readiness::WRITE) {
            self.writer.wake();
        }
        more.0 & !before.0 != 0
    }

    /// Whether it is written, too. Of others, as of timers, each event counts.
    fn is_connection(&self) -> bool {
        self.watched.contains(ROOM)
    }

    /// What is not known already.
    fn unknown(&self) -> EventFlags {
        let readiness = self.readiness.get();
        let mut known = EventFlags::empty();
        if readiness.has(Readiness::READABLE) {
            known |= DATA;
        }
        if readiness.has(Readiness::WRITABLE) {
            known |= ROOM;
        }
        self.watched - known
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Sources {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            slots: RefCell::default(),
            events: RefCell::new(Vec::with_capacity(EVENTS)),
        })
    }

    /// A descriptor that ends a wait: to be written by other threads.
    pub(super) fn alarm(&self) -> io::Result<OwnedFd> {
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Each write is an edge: the count needs no reading.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.epoll, &alarm, EventData::new_u64(ALARM), flags)?;
        Ok(alarm)
    }

    /// Watches a descriptor.
    pub(super) fn add(&self, fd: OwnedFd, watched: EventFlags) -> io::Result<Rc<Source>> {
        let mut slots = self.slots.borrow_mut();
        let key = slots.insert(|key| {
            Rc::new(Source {
                fd,
                told: Cell::new(watched),
                watched,
                readiness: Cell::default(),
                reader: WaitingTask::default(),
                writer: WaitingTask::default(),
                key,
            })
        });
        let source = Rc::clone(slots.get(key).expect("it was inserted"));
        let data = EventData::new_u64(key.to_u64());
        let added = epoll::add(&self.epoll, &source.fd, data, watched | EventFlags::ET);
        if let Err(errno) = added {
            slots.remove(key);
            return Err(errno.into());
        }
        Ok(source)
    }

    /// Lets the kernel tell of `flags` again, if it does not, which are no longer known. What the
    /// descriptor is ready for by now is told once more.
    pub(super) fn tell(&self, source: &Source, flags: EventFlags) {
        self.set_told(source, source.told.get() | flags & source.watched);
    }

    fn set_told(&self, source: &Source, told: EventFlags) {
        // The end of a connection stays ready, and each call here would be told of it once more.
        if told == source.told.get() {
            return;
        }
        let data = EventData::new_u64(source.key.to_u64());
        let modified = epoll::modify(&self.epoll, &source.fd, data, told | EventFlags::ET);
        debug_assert!(modified.is_ok(), "it was added, and is still open");
        source.told.set(told);
    }

    /// Forgets a descriptor, which its owner closes at once: that ends its events, as long as no other
    /// descriptor is of the same open file (epoll(7)).
    pub(super) fn remove(&self, source: &Source) {
        self.slots.borrow_mut().remove(source.key);
    }

    /// Ends the events of a descriptor that other processes may have, too.
    pub(super) fn unwatch(&self, source: &Source) {
        // It was added, and is still open.
        let _ = epoll::delete(&self.epoll, &source.fd);
    }

    /// How many events the last look has found.
    #[cfg(test)]
    pub(super) fn last_events(&self) -> usize {
        self.events.borrow().len()
    }

    /// Takes the events, and waits for one if it is to; whether the alarm was among them.
    pub(super) fn collect(&self, wait: Wait) -> io::Result<bool> {
        let mut events = self.events.borrow_mut();
        let at_once = Timespec::default();
        let timeout = match wait {
            Wait::Not => Some(&at_once),
            Wait::ForEvent => None,
        };
        events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, buffer, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let slots = self.slots.borrow();
        let mut has_alarm = false;
        for event in events.iter() {
            let data = event.data.u64();
            has_alarm |= data == ALARM;
            // A descriptor of this batch may be closed since.
            if let Some(source) = slots.get(SlotKey::from_u64(data))
                && !source.add(Readiness::of(event.flags))
                && source.is_connection()
            {
                // In bulk there is such an event for every packet while nothing can be sent on, and
                // for data that was already read along with earlier data.
                self.set_told(source, source.unknown());
            }
        }
        Ok(has_alarm)
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("epoll", &self.epoll)
            .field("count", &self.slots.borrow().len())
            .finish_non_exhaustive()
    }
}
