//! Tunables of the store, with their units.

/// Number of slots of a keyspace, as in Redis Cluster.
pub const SLOT_COUNT: usize = 16_384;

/// Threads that may use a keyspace at one time: workers, and others such as metrics and snapshots.
pub const MEMBERS_MAX: usize = 1024 + 64;

/// Databases of a keyspace, at most.
pub const DATABASES_MAX: usize = 1_000_000;

/// Databases whose arrays, some 500 KiB each, do not count as live. As many as there are by
/// default: those of very many must count, or clients could take as much as they like.
pub const UNCOUNTED_DATABASES: usize = 16;

/// Longest string value, in bytes, that is stored inside its entry; longer ones are shared by
/// reference count.
pub const INLINE_VALUE_BYTES_MAX: usize = 1024;

/// Longest element of a collection, in bytes: a string, or a field or a value of a hash. A node has
/// a length of 32 bits, and one that holds a single field holds its value as well.
pub const ELEMENT_BYTES_MAX: usize = 1 << 30;

/// Longest key, in bytes, whose length fits the entry's packed length word; longer keys carry a
/// word of their own.
pub const PACKED_KEY_BYTES_MAX: usize = (1 << 21) - 1;

/// Home buckets of a segment, at most. A segment that needs more splits, which bounds every resize
/// step.
pub const SEGMENT_BUCKETS_MAX: usize = 64;

/// Entries per bucket, in tenths, for which a segment is sized when it is split, merged or shrunk;
/// a bucket has room for seven.
pub const SEGMENT_LOAD_TENTHS: usize = 48;

/// Buckets of a fresh segment for each overflow bucket among them.
pub const OVERFLOW_SHARE: usize = 4;

/// Entries that two neighbouring segments may have together to be merged.
pub const MERGED_ENTRIES_MAX: usize = SEGMENT_BUCKETS_MAX * 5 / 2;

/// Bits of the hash that one directory decides on, at most; a full one takes 32 KiB, of which a
/// doubling copies half.
pub const DIRECTORY_DEPTH_MAX: u32 = 12;

/// Bits of the hash that lead to a segment, at most. Segments at this depth do not split; a slot
/// has 10^12 keys by then.
pub const SEGMENT_DEPTH_MAX: u32 = 34;

/// Largest granularity of a walk over a slot, see `Keyspace::visit_bucket`. The cursor of `SCAN` is
/// below 2^63: it has 14 bits for the slot and 49 for the hash.
pub const SCAN_GRANULARITY_MAX: u64 = 1 << 15;

/// Items for which a heap keeps the capacity of its list of pinned garbage once that is empty; the
/// capacity that a burst needed beyond this is given back.
pub const PINNED_RETAINED_ITEMS_MAX: usize = 1024;

/// Queues of pre-images; a writer uses one, by the number of its heap.
pub const HAND_OVER_QUEUES: usize = 64;

/// Cuts that may be given up one after the other before the stamps of all entries are cleared.
pub const CUT_EPOCHS: u64 = u16::MAX as u64;

/// Entries of a slot that a walker claims under one lock, give or take a bucket.
pub const CLAIMED_ENTRIES_MAX: usize = 32;

/// Attempts of a walker to lock a slot before it goes on to the next one.
pub const CLAIM_ATTEMPTS_MAX: u32 = 100;

const _: () = assert!(SLOT_COUNT.is_power_of_two());
const _: () = assert!(INLINE_VALUE_BYTES_MAX < 1 << 11, "must fit the packed length word");
// A resize step moves at most one segment: 64 home buckets and their overflow, of whose entries it
// reads few, take far less than 100 µs.
const _: () = assert!(SEGMENT_BUCKETS_MAX <= 64);

/// Bytes of a tree from which on its leaves are prefetched for lookups by name that follow each
/// other: those of smaller ones are in the cache of the last level, and a second descent takes
/// longer than they do.
pub(crate) const PREFETCHED_TREE_BYTES_MIN: u64 = 16 << 20;

/// Size of a tree, in bytes, from which on the thread that retires it leaves it to another one to
/// be freed: some eight nodes, which take about as long as handing them over.
pub(crate) const DEEP_BYTES_MIN: usize = 8 << 10;
