//! The keyspace of Tidemill: slots, tables, entries and value types.
//!
//! Readers walk it under userspace RCU: everything that a reader can reach is immutable, but for one recency field per
//! entry. A write builds the new version, publishes one pointer and retires the old one. From this follow reads
//! without locks and shared writes, consistent long reads, and snapshots whose pre-image is a pointer.
//!
//! The crate knows nothing of commands: no clock, no replies, no notion of which command does what. The engine decides
//! which locks to take and what to write; the store makes each step safe beside any number of readers.

mod database;
mod detached;
mod editing;
pub mod entry;
pub mod gate;
pub mod hash;
pub mod heap;
mod key;
pub mod keyspace;
#[cfg(target_arch = "x86_64")]
mod lanes;
pub mod limits;
pub mod member;
pub mod pin;
mod prefetch;
mod primitive;
pub mod slot;
mod table;
mod tree;
pub mod value;
pub mod word;

pub use detached::{Detached, Unreachable};
pub use editing::{Editable, Editing, Finish, Published, TreeSpec};
pub use entry::{
    Disposal, Encoding, EntryRef, EntrySpec, Kind, Marks, NewValue, OwnedEntry, Place, StringValue,
};
pub use heap::Heap;
pub use key::{KeyBytes, KeyHash, LANES};
pub use keyspace::{Found, Keyspace, ReleaseObserver, SlotLock};
pub use member::{Guard, JoinError, Member, Section};
pub use pin::Version;
pub use slot::SlotNumber;
pub use table::TableShape;
pub use tree::{Built, Root};
