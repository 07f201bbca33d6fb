//! Sorted sets: members with scores, ordered by score and, among equal scores, by member.
//!
//! ```text
//! up to four leaves          more
//!
//!      score tree            composite root
//!                              ╱        ╲
//!                       score tree    member index
//!
//! score tree | score: 1 to 9 bytes | member |         ordered by (score, member)
//! index      | 32 bits of the member's hash | score | ordered by hash, 12 bytes each
//! ```
//!
//! A member is stored once. The index tells the scores that it may have; each is looked up in the
//! score tree, so that members whose hash bits are equal are told apart by their bytes. In a small
//! set a member is found by reading all of its leaves.
//!
//! Rejected: references from one tree into the other, because a write copies leaves and would
//! change the references to all of their elements; the member in both trees.

mod edit;
mod index;
mod score;
#[cfg(test)]
mod tests;
mod view;

pub use self::edit::{GatheredScores, SortedSetEdit, sort};
pub(super) use self::index::Search;
pub use self::view::{Item, Items, ItemsBack, SortedSet};
pub(super) use self::view::{Scores, place, score_of};
