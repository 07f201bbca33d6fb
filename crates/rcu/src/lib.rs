//! Userspace read-copy-update.
//!
//! The seed of the crate: the types that the store builds on. Flavours and grace periods join here.

mod retire;
mod section;

pub use retire::{Garbage, RetireList};
pub use section::Section;
