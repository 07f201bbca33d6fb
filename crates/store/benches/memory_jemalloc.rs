//! Bytes per key, with jemalloc as the allocator.

mod common;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    common::memory("jemalloc");
}
