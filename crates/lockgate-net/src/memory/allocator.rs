//! An allocator that counts the memory of another one.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};

use super::{MemoryKind, charge};

/// An allocator that counts the allocations of `A`.
#[derive(Debug)]
pub struct CountingAllocator<A>(pub A);

#[inline]
fn taken(bytes: usize) {
    charge(MemoryKind::Heap, bytes.cast_signed());
}

#[inline]
fn given_back(bytes: usize) {
    charge(MemoryKind::Heap, -bytes.cast_signed());
}

// SAFETY: every call is passed to `A` unchanged, and its result is returned unchanged: the
// guarantees of `A` hold here. Counting allocates nothing and cannot panic: it adds to cells of the
// thread, which have no destructor, and to atomics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller fulfils the contract of `alloc`, which is the same for `A`.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the pointer comes from `A`, like all of ours.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        charge(
            MemoryKind::Heap,
            size.cast_signed() - layout.size().cast_signed(),
        );
        // SAFETY: as above.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}

/// Returns memory that this thread has freed to the system. Takes a while: not for every tick.
pub fn collect() {
    // SAFETY: it reads the allocator's own data, and may be called at any time by any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Allocates, grows to `size` and frees; the marks after each.
#[cfg(test)]
pub(super) fn exercise(allocator: &impl GlobalAlloc, layout: Layout, size: usize) -> [isize; 3] {
    // SAFETY: the layout is not empty, and the pointer is used as the allocator returned it and
    // freed once.
    unsafe {
        let pointer = allocator.alloc(layout);
        let first = super::mark();
        let pointer = allocator.realloc(pointer, layout, size);
        let second = super::mark();
        let grown = Layout::from_size_align_unchecked(size, layout.align());
        allocator.dealloc(pointer, grown);
        [first, second, super::mark()]
    }
}
