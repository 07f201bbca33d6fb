//! State of one worker thread, and of the sessions that it owns.
//!
//! May touch: shared state, slots, telemetry.

pub(crate) mod called;
pub(crate) mod registrations;
pub(crate) mod run;
pub mod session;
mod state;
pub(crate) mod sweep;

pub(crate) use state::ExpiredKey;
pub use state::Worker;
