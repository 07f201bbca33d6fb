//! Allocator of the tests: overwrites what is freed, so that a reader who meets it fails, and
//! counts what each thread has allocated and not freed.
#![allow(unsafe_code, dead_code, reason = "not every binary counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes and pieces that this thread has allocated and not freed.
    static OUTSTANDING: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

fn count(bytes: i64, pieces: i64) {
    let (old_bytes, old_pieces) = OUTSTANDING.get();
    OUTSTANDING.set((old_bytes + bytes, old_pieces + pieces));
}

/// Bytes and pieces that this thread has allocated and not freed.
pub fn outstanding() -> (i64, i64) {
    OUTSTANDING.get()
}

struct Poisoning;

// SAFETY: passes everything on to the system's allocator; the memory is the allocator's when it is
// overwritten.
unsafe impl GlobalAlloc for Poisoning {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64, 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64), -1);
        // SAFETY: the caller gives the memory up.
        unsafe { pointer.write_bytes(0xdd, layout.size()) };
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Poisoning = Poisoning;
