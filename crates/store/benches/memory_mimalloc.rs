//! Bytes per key, with mimalloc as the allocator.

mod common;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    common::memory("mimalloc");
}
