//! Bytes per key, with jemalloc as the allocator.

// A bench that cannot go on stops.
#![allow(clippy::unwrap_used)]

mod common;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    common::memory("jemalloc");
}
