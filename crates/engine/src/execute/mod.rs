//! How requests are run.
//!
//! [`turn::run_turn`] takes a connection's bytes: it parses a batch, overlaps the cache misses of its keys, and executes
//! one request after the other. Each is admitted ([`admit`]), then run as its declaration says: without a lock, under the
//! lock of one slot, or under several ([`keyed`]); in a transaction ([`transaction`]); or on the session. Whoever wrote a
//! key that somebody waits for serves them before it releases ([`serve`]). Long replies are made in [`pieces`]. What is
//! noted of a command stands in [`measure`]; what expires unread is swept away beside all that ([`sweep`]).

mod admit;
pub mod keyed;
mod measure;
mod pieces;
mod serve;
mod sweep;
pub mod transaction;
pub mod turn;

pub(crate) use measure::Run;
pub use measure::note_unblocked;
pub use serve::{delete_expired, end_session, end_wait, serve_postponed};
pub use sweep::sweep;
pub(crate) use sweep::{Expiring as SweepExpiring, Position as SweepPosition};
pub(crate) use turn::Called;
pub use turn::{Batch, Next, Turn, look_ahead, prefetch, run_turn};
