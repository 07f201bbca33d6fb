//! The keyspace of Tidemill: slots, tables, entries and value types.
//!
//! Readers walk it under userspace RCU: everything that a reader can reach is immutable, but for
//! one recency field per entry and the links between the nodes of large collections. A write builds
//! what is new, publishes one pointer and retires what that replaces. Three properties follow:
//! reads take no lock and write no shared memory, long reads are consistent, and the pre-image of a
//! snapshot is a pointer.
//!
//! The crate has no clock, no replies and no notion of commands. The engine decides which locks to
//! take and what to write; the store makes each step safe beside any number of readers.

pub mod bits;
mod claim;
pub mod entry;
pub mod epoch;
pub mod gate;
pub mod hash;
pub mod heap;
mod key;
pub mod keyspace;
#[cfg(target_arch = "x86_64")]
mod lanes;
pub mod limits;
pub mod member;
mod new_string;
pub mod pin;
mod prefetch;
mod primitive;
mod size_class;
pub mod slot;
mod table;
mod tree;
pub mod value;
mod version;
pub mod word;

pub use claim::JoinError;
pub use entry::{
    Disposal, EntryRef, EntrySpec, EntryTarget, Marks, NewValue, OwnedEntry, StringValue,
};
pub use epoch::{Cut, CutDatabase, Walked};
pub use heap::Heap;
pub use key::{KeyBytes, KeyHash, LANES};
pub use keyspace::{
    Detached, DetachedLock, Editing, Found, Keyspace, Published, ReleaseObserver, SlotLock,
    TreeSpec, Unreachable,
};
pub use member::{Guard, Member, Section};
pub use new_string::NewString;
pub use pin::Pin;
pub use slot::SlotNumber;
pub use table::{KeyClass, TableShape};
pub use tree::relocate::{Block, Judge, Relocated, TreePlace};
pub use tree::{Built, Root};
pub use value::{Collection, Encoding, Kind, TreeEdit};
pub use version::Version;
