//! The context of a handler.
//!
//! A keyed handler gets a [`Cx`]: it reads through [`Cx::read`] and writes through [`Cx::edit`],
//! and does not know whether it runs without a lock, under one, in a transaction, or in the place
//! of a client that was blocked. Expiry happens in here, memory limits before, never in handlers.
//!
//! One file per concept: the caller, which makes it (`caller`), the context (`cx`), the lookups of
//! reads without locks (`lookups`), reads (`read`), locks of slots (`slot`), edits (`edit`)
//! and what follows from a change (`changes`).

mod caller;
mod changes;
mod cx;
mod edit;
mod lookups;
mod migration;
mod pinned_reply;
mod read;
mod slot;
mod stored_result;

pub(crate) use caller::Caller;
pub(crate) use cx::Access;
pub use cx::Cx;
pub use edit::{Edit, NewEntry};
pub(crate) use lookups::{Lookups, Verdict};

#[cfg(test)]
mod tests;
