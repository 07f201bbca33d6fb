//! Cuts: all data of one moment, handed to a walker while writers go on.
//!
//! A [`Cut`] begins with the gate closed and costs nothing proportional to the keys. From then on
//! each entry is on one of two sides: it carries the cut's *epoch* in its header, or it is older
//! and belongs to the cut. A writer that takes an older entry out of its table does not retire it
//! but hands it over as a *pre-image*; what a writer publishes carries the epoch. The walker visits
//! the slots one after the other, and under a slot's lock stamps and claims the entries that do not
//! carry it yet. So each entry of the cut reaches the walker exactly once, however often keys are
//! replaced, renamed, moved or expire, and whatever a resize does to the tables.
//!
//! ```text
//! writer   lock · publish new (stamped) · push old · retire nodes: tag 7 · unlock
//! walker   batch 8: drain ▸ [lock slot · stamp, claim · unlock] ▸ write ▸ done = 8: tag 7 may go
//! ```
//!
//! # Nodes of trees
//!
//! A pre-image shares its nodes with the versions that replace it, and a claimed root is read after
//! its slot was unlocked. Nodes that are retired while a cut is active are therefore held by the
//! writer's heap, tagged with the number of the current *batch* ([`batches`]), and go once the
//! walker has finished a later one. So holding ends when what was handed over is written, not with
//! the cut.
//!
//! A node that was born behind the cut is part of no pre-image, and is not held: a node keeps the
//! *era* in which it was published, the number of cuts that had begun, where an unfinished edit has
//! its index. So what is held of a tree is no more than the tree was at the cut, however often it
//! is written. A tree or subtree that is retired as one piece is held, for a new root may be above
//! old leaves. Eras stay at their last number, from which on all is held.
//!
//! # Databases
//!
//! A cut refers to databases by their content, and to each by the number that it had at the cut, so
//! `SWAPDB` changes nothing for it. Content that `FLUSHDB` takes out of the keyspace is not freed
//! while a cut holds it.
//!
//! # Epochs
//!
//! Sixteen bits tell cuts apart. A completed walk leaves no older epoch behind; only cuts that were
//! given up do, and before these are enough for an epoch to come again, all stamps are cleared.

pub(crate) mod active;
mod batches;
mod claimed;
mod cut;
mod cuts;

pub use cut::{Cut, CutDatabase, Walked};
pub(crate) use cuts::Cuts;
