//! The persistent counted B+ tree under every collection.
//!
//! A tree is one pointer to its root node. Leaves pack elements end to end; inner nodes hold, per child, how many
//! elements (or bytes of a text) it counts and where its range of the order begins. Published nodes never change: an
//! edit copies the nodes on its path, changes the copies, and hands back a new root. The caller publishes it with one
//! store and then retires the replaced nodes; readers of the old root go on undisturbed.
//!
//! What positions count, what an expiry is and how neighbours join differs between the value types: that is
//! [`order::Order`]. The order of a tree lives in the keys of the children alone, so that lists (order by position, no
//! keys) and hashes (order by hash) share every line that keeps a tree balanced.
//!
//! It is not a general map: it has no locks and no reader registration of its own. One writer at a time edits a
//! collection, and readers hold a `Section` for as long as they look.
#![allow(unsafe_code)]

pub(crate) mod arena;
pub(crate) mod check;
pub(crate) mod cursor;
pub(crate) mod inner;
pub(crate) mod leaf;
pub(crate) mod limits;
pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod split;
pub(crate) mod update;
mod whole;

pub use arena::{Built, Root};
