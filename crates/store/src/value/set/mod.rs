//! Sets: members that are strings or integers, each once.
//!
//! All members are in one tree. Integers come first, in ascending order; strings follow, ordered as
//! the fields of a hash are. A set of integers therefore needs no conversion when a string joins
//! it, whatever its size: `OBJECT ENCODING` is a name that the engine keeps.
//!
//! ```text
//! keys of the order   | 0 ... 2^63 - 1: half of an integer's value | 2^63 ...: hash of a string |
//! leaf of integers    | 2, 4 or 8 bytes each                       |                            |
//! leaf of strings     |                                            | string                     |
//! other leaves        | bytes of the integer: 1 to 8 | integer     | 0 | string                 |
//! ```
//!
//! A leaf of integers alone has elements of one length, that of its widest, and is sorted. One that
//! holds a string, or got an integer while it did, keeps the order in which its members were
//! added, as Redis's listpack does; one that always held strings alone has no tags. A leaf that
//! cannot have all its members in the form that a new member needs is parted from that member
//! instead: see `form`.

mod edit;
mod form;
mod lookup;
mod member;
mod order;
mod view;

pub use self::edit::SetEdit;
pub use self::lookup::MemberLookup;
pub use self::member::{GatheredMembers, KeyedMember, Member};
pub use self::view::{Members, Set};

#[cfg(test)]
mod tests;
