//! Table of one slot of one database: from a key's hash to its entry.
//!
//! # Shape
//!
//! A table is a shallow tree. A small table is one **segment**: a run of cache-line **buckets** in
//! hash order, each with seven entries and a link to an overflow bucket at the segment's end. A
//! segment that outgrows [`SEGMENT_BUCKETS_MAX`](crate::limits::SEGMENT_BUCKETS_MAX) splits in two
//! by the next bit of the hash, and a **directory** maps the bits of a hash to its segment
//! (extendible hashing). A directory of [`DIRECTORY_DEPTH_MAX`](crate::limits::DIRECTORY_DEPTH_MAX)
//! bits does not grow; further ones hang below it. A key is therefore found in two dependent loads,
//! three from some hundred keys of one slot on and four from a million on, the table is in hash
//! order at every size, and no step moves more than one segment's entries or copies more than half
//! a directory, however many keys share one tag.
//!
//! The word of a segment or directory carries its depth and bucket count in unused pointer bits, so
//! that a lookup goes from the table's word to the bucket without loading a header between them.
//! The word of an entry carries 16 bits of its hash, so that a lookup rarely dereferences an entry
//! other than its own; its bucket keeps a few bits more, so that a resize rarely dereferences an
//! entry at all.
//!
//! # Concurrency
//!
//! Everything here is changed by the slot's lock owner only; readers walk it at any time. An entry
//! appears in and leaves a place under an odd version (see [`crate::word`]) and never changes its
//! place within a segment. A resize builds the new segment first and publishes it with one store:
//! readers find the same entries on either way, so it happens under an even version and no reader
//! waits for it. Replaced segments and directories are retired.

mod bucket;
mod directory;
mod key_class;
mod known;
mod rebuild;
mod root;
mod segment;
#[cfg(test)]
mod tests;

pub use key_class::KeyClass;
pub(crate) use root::Table;
pub use root::TableShape;
pub(crate) use segment::Position;
