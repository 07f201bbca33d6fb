//! The keyspace: slots, tables, entries and value types.

pub mod hash;
mod heap;
mod tree;
pub mod value;

pub use heap::Heap;
pub use tree::{Built, Root};
