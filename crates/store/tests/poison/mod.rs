//! An allocator that overwrites what is freed, so that a reader who meets it fails.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// Overwrites what is freed.
pub struct Poisoning;

// SAFETY: passes everything on to the system's allocator; the memory is the allocator's when it is overwritten.
unsafe impl GlobalAlloc for Poisoning {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller gives the memory up.
        unsafe { pointer.write_bytes(0xdd, layout.size()) };
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Poisoning = Poisoning;
