//! Sizes of the tree's nodes.

use crate::limits::ELEMENT_BYTES_MAX;

use super::node::{HEADER_BYTES, StoredChild, TOTALS_BYTES};

/// Largest allocation of a node that holds more than one element, in bytes.
///
/// A write copies one leaf: below this, copying costs about as much as the allocation itself.
pub(crate) const NODE_BYTES_MAX: usize = 1024;

/// Bytes of a root that are prefetched before it is known which of them will be read.
pub(crate) const ROOT_PREFETCHED_BYTES: usize = 256;

/// Size in bytes below which a leaf is merged with a neighbour, where both fit into one node.
pub(crate) const LEAF_BYTES_MIN: usize = NODE_BYTES_MAX * 2 / 5;

/// Most children of an inner node.
pub(crate) const CHILD_COUNT_MAX: usize = 40;

/// Number of children below which an inner node is merged with a neighbour, where both fit into one
/// node.
pub(crate) const CHILD_COUNT_MIN: usize = CHILD_COUNT_MAX * 2 / 5;

/// Level from which on nodes are taken to be cached while a tree is in use: there is one for some
/// thousand leaves.
pub(crate) const CACHED_LEVEL: u8 = 2;

/// Most bytes of a node of one element beside its header and its element.
pub(crate) const ELEMENT_OVERHEAD_BYTES_MAX: usize = 256;

/// Payload of a full chunk of a text, in bytes.
pub(crate) const CHUNK_BYTES: usize = NODE_BYTES_MAX - HEADER_BYTES;

const _: () = assert!(
    HEADER_BYTES + TOTALS_BYTES + CHILD_COUNT_MAX * size_of::<StoredChild>() <= NODE_BYTES_MAX
);
// The longest field and the longest value with their lengths and expiry, and the rounding to a size
// class.
const _: () =
    assert!(HEADER_BYTES + 2 * ELEMENT_BYTES_MAX + ELEMENT_OVERHEAD_BYTES_MAX <= u32::MAX as usize);
// Halves of a split must not be merged again at once.
const _: () = assert!(LEAF_BYTES_MIN < NODE_BYTES_MAX / 2 && CHILD_COUNT_MIN < CHILD_COUNT_MAX / 2);
