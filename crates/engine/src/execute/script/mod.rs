//! Scripts and functions: `EVAL`, `FCALL` and their like.
//!
//! A run has one of two ways to reach keys ([`state`]):
//!
//! - **Without locks**, if it may not write: all its lookups are one optimistic read, whose words
//!   are compared at its end, at each interrupt, and before anything of it is answered.
//! - **As a unit**: the slots of the declared keys are locked before it begins, and held from its
//!   first write on. A key that was not declared adds its slot. Nobody may wait for a slot with
//!   others in hand, except who has the token, so a run without the token that finds such a slot
//!   taken takes back what it has written ([`undo`]) and begins anew with the token. The same holds
//!   for what cannot be taken back: messages, events, commands on whole databases ask for the token
//!   first.
//!
//! A run that begins anew has executed nothing: its commands wait for its end, or for the token,
//! before the statistics have them ([`ran`]).
//!
//! Commands run by [`run_inner`](super::unit::run_inner), as those of `EXEC` do ([`inner`]). A run
//! that takes long ends its turn ([`suspended`]): it has the token then or no lock at all, so that
//! at most one unit of the server waits for its next turn.

mod host;
mod inner;
mod logged;
pub(super) mod prepare;
mod ran;
mod replies;
mod run;
mod state;
mod suspended;
mod undo;

pub(crate) use crate::script::Kind;
pub(crate) use prepare::{has_short_key, only_reads};
pub(crate) use run::{Request, run, run_in_transaction};
pub use suspended::run_orphans;
pub(crate) use suspended::{
    Suspended, busy_holder, end as end_suspended, keep_transaction, must_go_on,
};
