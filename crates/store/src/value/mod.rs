//! The values of keys that are collections: what commands read and edit.
//!
//! Each type comes in two halves: a view (`List`, `Hash`, `Text`) that reads a published version under a section, and
//! an edit (`ListEdit`, ...) that builds the next version out of it:
//!
//! ```text
//! let mut edit = unsafe { ListEdit::new(old_root, heap) };
//! edit.push_back(b"x");
//! let built = edit.finish();
//! publish(built.root());          // one release store, under the slot's lock
//! unsafe { built.retire_replaced() };
//! ```
//!
//! An edit that is dropped, or whose `Built` is dropped, leaves no trace. Types hold bytes only: what is expired, which
//! encoding a command reports and what goes to the journal is decided above.
#![allow(unsafe_code)]

pub mod hash;
pub mod list;
pub mod text;

pub use crate::tree::{Built, Root};
