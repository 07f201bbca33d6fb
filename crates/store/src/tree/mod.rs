//! The persistent counted B+ tree under every collection.
//!
//! A tree is one pointer to its root node. Leaves pack elements end to end; inner nodes hold, per
//! child, the number of its elements (or bytes of a text) and the lower bound of its range of the
//! order. An edit copies the nodes on its path, changes the copies, and returns a new root (path
//! copying). The caller publishes it with one store and then retires the replaced nodes; readers of
//! the old root go on undisturbed.
//!
//! An edit that only replaces one leaf by another with the same sums may return that leaf instead,
//! which is then published in the old one's place ([`arena`]). Of a published node nothing but such
//! a link ever changes; readers of several leaves have to ask the slot's word whether it did.
//!
//! Value types differ in what a position counts, in what an expiry is and in how neighbours are
//! merged: see [`order::Order`]. The order of a tree is in the bounds of the children alone, so
//! that lists (order by position, no keys), hashes (order by hash) and sorted trees (order by
//! number and tie, also within leaves) share every line that keeps a tree balanced. A value may be
//! made of several trees under one root: see [`composite`].
//!
//! It is not a general map: it has no locks and no reader registration of its own. One writer at a
//! time edits a collection, and readers hold a `Section` for as long as they look.
#![allow(unsafe_code)]

pub(crate) mod arena;
pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod composite;
mod copy;
pub(crate) mod cursor;
pub(crate) mod cut;
mod free;
pub(crate) mod inner;
pub(crate) mod leaf;
mod leaf_search;
pub(crate) mod limits;
pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod relocate;
mod root;
pub(crate) mod run;
pub(crate) mod separator;
pub(crate) mod sorted;
pub(crate) mod split;
pub(crate) mod update;

#[cfg(test)]
mod tests;

pub use arena::{Built, BuiltLeaf};
pub use root::Root;
