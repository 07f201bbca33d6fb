//! The root of a collection: what an entry holds.

use std::ptr::NonNull;

use tidemill_rcu::Garbage;

use super::free::{free_node, free_tree};
use super::node::Link;
use crate::heap::Heap;
use crate::limits::DEEP_BYTES_MIN;

/// Root of a finished collection: one pointer.
///
/// Copying it copies the pointer only. An empty collection has no root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Root(pub(super) Link);

// SAFETY: a root is an address; what may be done with it is the contract of the unsafe functions
// that take one.
unsafe impl Send for Root {}

impl Root {
    pub(crate) fn link(self) -> Link {
        self.0
    }

    /// Pointer to store in the place where readers find it.
    ///
    /// To be stored with release ordering, so that a reader that loads it with acquire ordering
    /// sees finished nodes.
    #[must_use]
    pub fn into_raw(self) -> NonNull<u8> {
        self.0.as_pointer()
    }

    /// Root of a pointer.
    ///
    /// # Safety
    ///
    /// The pointer came from [`Root::into_raw`].
    #[must_use]
    pub unsafe fn from_raw(pointer: NonNull<u8>) -> Root {
        // SAFETY: the caller's promise is that of `from_pointer`; functions that take a root demand
        // that it is live.
        Root(unsafe { Link::from_pointer(pointer) })
    }

    /// Allocated bytes of the whole collection, in constant time.
    ///
    /// The collection must be live.
    pub(crate) fn total_bytes(self) -> usize {
        self.0.node().bytes() as usize
    }

    /// Retires a collection that readers can no longer reach anew, as one piece of garbage; as a
    /// deep one if freeing it takes long.
    ///
    /// # Safety
    ///
    /// The root was unlinked by the caller, and is retired once.
    pub unsafe fn retire(self, heap: &Heap) {
        let (pointer, bytes) = (self.into_raw(), self.total_bytes());
        let is_deep = bytes >= DEEP_BYTES_MIN;
        let garbage = if self.0.node().is_leaf() {
            // SAFETY: any thread may free the node, which nothing can reach after the grace period.
            unsafe { Garbage::new(pointer, bytes, free_node) }
        } else if is_deep {
            // SAFETY: as above, for all nodes of the tree, which belong to no other.
            unsafe { Garbage::deep(pointer, bytes, free_tree) }
        } else {
            // SAFETY: as above.
            unsafe { Garbage::new(pointer, bytes, free_tree) }
        };
        // A new root may be above old leaves.
        heap.retire_tree(garbage);
    }

    /// Frees a collection at once, without counting.
    ///
    /// # Safety
    ///
    /// No reader can reach the root, now or later, and it is freed once.
    pub unsafe fn free(self) {
        // SAFETY: the caller's promise.
        unsafe { free_tree(self.into_raw()) };
    }
}
