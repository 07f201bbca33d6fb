//! Values as RDB stores them, for payloads of `DUMP` and `RESTORE` and for files.
//!
//! Encodings are judged here: what a value's `OBJECT ENCODING` becomes when it is read, and which
//! stored form it has when it is written. Works on entries and edits; knows neither commands nor
//! files.
//!
//! To add a type: an arm in [`encode::value`], a draft in [`draft`].

pub(crate) mod draft;
pub mod encode;
mod key_draft;

pub use key_draft::{CollectionDraft, DraftError, KeyDraft, KeySpec, RefusedKey};
