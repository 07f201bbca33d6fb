//! Memory that readers may still see, waiting for a grace period.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// One piece of memory that nothing can newly reach, and how to free it.
#[derive(Debug)]
pub struct Garbage {
    pointer: NonNull<u8>,
    bytes: usize,
    free: unsafe fn(NonNull<u8>),
}

// SAFETY: the contract of `new` demands that `free` may run on any thread.
unsafe impl Send for Garbage {}

impl Garbage {
    /// Describes memory of `bytes` bytes that `free` gives back.
    ///
    /// # Safety
    ///
    /// `free(pointer)` must be sound to call once, on any thread, once no reader holds a reference into the memory.
    #[must_use]
    pub unsafe fn new(pointer: NonNull<u8>, bytes: usize, free: unsafe fn(NonNull<u8>)) -> Garbage {
        Garbage { pointer, bytes, free }
    }

    /// How many bytes freeing gives back.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Frees the memory now.
    ///
    /// # Safety
    ///
    /// No reader may hold a reference into the memory.
    pub unsafe fn free(self) {
        // SAFETY: `new` made `free` sound under exactly the condition that this function demands.
        unsafe { (self.free)(self.pointer) }
    }
}

/// The garbage of one thread, in the order of its retirement.
#[derive(Debug, Default)]
pub struct RetireList {
    waiting: RefCell<Vec<Garbage>>,
    bytes: Cell<usize>,
}

impl RetireList {
    /// An empty list.
    #[must_use]
    pub fn new() -> RetireList {
        RetireList::default()
    }

    /// Adds memory that was unlinked by this thread; it is freed after a grace period. Never blocks.
    pub fn retire(&self, garbage: Garbage) {
        self.bytes.set(self.bytes.get() + garbage.bytes());
        self.waiting.borrow_mut().push(garbage);
    }

    /// Bytes that wait for their grace period.
    #[must_use]
    pub fn retired_bytes(&self) -> usize {
        self.bytes.get()
    }
}
