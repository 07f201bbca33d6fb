//! Bytes per key, with mimalloc as the allocator.

// A bench that cannot go on stops.
#![allow(clippy::unwrap_used)]

mod common;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    common::memory("mimalloc");
}
