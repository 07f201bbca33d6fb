//! The keyspace: slots, tables, entries and value types.

mod heap;

pub use heap::Heap;
