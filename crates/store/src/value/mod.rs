//! Values of keys that are trees: views for readers and edits for writers.
//!
//! Each type has two halves: a view (`List`, `Hash`, `Text`) that reads a published version under a
//! section, and an edit (`ListEdit`, ...) that builds the next version out of it:
//!
//! ```text
//! let mut edit = unsafe { ListEdit::new(old_root, heap) };
//! edit.push_back(b"x");
//! let built = edit.finish();
//! publish(built.root());          // one release store, under the slot's lock
//! unsafe { built.retire_replaced() };
//! ```
//!
//! An edit that replaced one leaf alone may be published without a new root instead
//! ([`TreeEdit::finish_leaf`]).
//!
//! An edit that is dropped, or whose `Built` is dropped, leaves no trace. Types hold bytes only:
//! expiry, the encoding that a command reports and the journal are the engine's.
//!
//! To add a type: a folder here with its view, its edit and their [`Collection`] and [`TreeEdit`];
//! its module below; a line in [`Kind`]'s table if it is none of Redis's own types, and one in
//! [`Encoding`] if `OBJECT ENCODING` has a new answer. Nothing else in this crate names a type:
//! entries, publication, copies, pins, freeing and memory need a root only. Strings are the
//! exception: a short one is stored in its entry, so [`EntryRef::string`](crate::EntryRef::string)
//! knows [`text`].
#![allow(unsafe_code)]

mod collection;
mod encoding;
mod gathered;
pub mod hash;
mod kind;
mod leaf_prefetch;
pub mod list;
mod named;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod text;

pub use self::collection::{Collection, TreeEdit};
pub use self::encoding::Encoding;
pub use self::gathered::Gathered;
pub use self::kind::Kind;
pub use self::leaf_prefetch::LeafPrefetch;
pub use self::named::Repeated;
pub use crate::tree::{Built, Root};
