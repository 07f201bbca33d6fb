//! The table of one slot of one database: from a key's hash to its entry.
//!
//! # Shape
//!
//! A table is a tree of two levels at most. A small table is one **segment**: a run of cache-line **buckets** in hash
//! order, each with seven entries and a link to an overflow bucket at the segment's end. A segment that outgrows
//! [`SEGMENT_BUCKETS_MAX`](crate::limits::SEGMENT_BUCKETS_MAX) splits in two by the next bit of the hash, and a
//! **directory** maps the top bits of a hash to its segment (extendible hashing). So a key is found in two or three
//! dependent loads, the table is in hash order at every size, and no step moves more than one segment's entries,
//! however many keys one tag gathers.
//!
//! The word of a segment or directory carries its depth and bucket count in unused pointer bits, so that a lookup
//! goes from the table's word to the bucket without loading a header between them. The word of an entry carries
//! 16 bits of its hash, so that a lookup dereferences hardly ever another entry than its own.
//!
//! # Concurrency
//!
//! Everything here is changed by the slot's lock owner only, under an odd version (see [`crate::word`]); readers walk
//! it at any time. A hit is final, a miss must be confirmed by the version. What a resize replaces is retired.

mod directory;
mod segment;

pub(crate) use directory::Table;
pub(crate) use segment::Position;
