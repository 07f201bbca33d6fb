//! State of one worker thread, and of the sessions that it owns.
//!
//! May touch: shared state, pub/sub, slots, telemetry.

mod attempt;
pub(crate) mod called;
pub(crate) mod defrag;
mod events;
pub(crate) mod eviction;
pub(crate) mod key_ranges;
mod lease;
pub(crate) mod migrations;
pub(crate) mod registrations;
pub(crate) mod reply_need;
pub(crate) mod run;
pub(crate) mod score_hints;
pub(crate) mod scripts;
pub mod session;
mod spare;
mod state;
pub(crate) mod subscriptions;
pub(crate) mod sweep;
mod tracking;

pub use state::Worker;
pub(crate) use state::{AttemptLookups, MissedKey};
