//! Streams: entries by id, with groups of consumers.
//!
//! ```text
//!                    composite root | base, last id, max deleted id, entries added, ... |
//!         ┌──────────────┬──────────┴─────────┬──────────────────┐
//!   middle tree      last leaf      pending by group    directory
//!   of entries       of entries     pending by consumer
//!
//! entry     | ms - base | seq | schema, starts a node | values |            by (ms, seq)
//! pending   | group | ms | seq | consumer | delivered at | deliveries |      by (group, id)
//!           | consumer | ms | seq |                                         by (consumer, id)
//! directory | 0 | number | names |                                           searched schemas
//!           | 0 | number | first id | names |                                schemas of nodes
//!           | 1 | name | group | last id | entries read |                     groups
//!           | group | name | consumer |                                       consumers of a group
//!           | consumer | seen at | active at | name |                         a consumer
//! ```
//!
//! Entries are appended: a leaf of its own takes them, so that an append copies one leaf and the
//! root; a full leaf moves into the middle tree. Elements contain all that they need but the base
//! of their milliseconds, which is the root's, and the names of their fields: entries with the same
//! names share a *schema*; where the names are not found among [`SEARCHED_SCHEMA_COUNT_MAX`] such
//! schemas, they are the entry's own. Entries that are read from a payload and have the names of
//! their node there share a schema in any case, that of the node, or a few bytes of a payload would
//! become a copy of all names for each entry. It goes with the last of the node's entries.
//!
//! Groups and consumers have numbers, drawn from one counter, so that a number is an owner of
//! pending entries of one kind only. Counts of pending entries are differences of ranks.
//!
//! Valkey keeps entries in nodes of some hundred, and trims whole nodes where `~` allows that. How
//! much is trimmed is visible, so that entries which would begin a node there are marked.
//!
//! Rejected: packing entries against a common one within a leaf, because a split or a merge would
//! have to encode all of them anew; one tree for both orders of pending entries, because the end of
//! a group would lie in its middle, where leaves are split in halves.

mod directory;
mod edit;
mod entries;
mod id;
mod listpack;
mod number;
mod parts;
mod pending;
#[cfg(test)]
mod tests;
mod value;
mod view;
mod walk;

pub use self::directory::{Consumer, Group};
pub use self::edit::{SharedNames, StreamEdit};
pub use self::entries::{Entries, EntriesBack, Fields, StreamEntry};
pub use self::id::StreamId;
pub use self::listpack::NodeLimits;
pub use self::parts::StreamState;
pub use self::pending::Pending;
pub use self::value::FieldValue;
pub use self::view::Stream;

/// Most schemas among which names of an entry are looked for. They stay until the stream is empty.
const SEARCHED_SCHEMA_COUNT_MAX: u64 = 64;

/// Greatest number of a schema. Entries of further nodes have their names to themselves.
const SCHEMA_NUMBER_MAX: u64 = u32::MAX as u64;

/// Longest names of an entry that become a searched schema, in bytes. An entry with longer
/// ones has a node of its own under the default `stream-node-max-bytes`, so that it has its names
/// to itself in Valkey too.
const SCHEMA_BYTES_MAX: usize = 4096;
