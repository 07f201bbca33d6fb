//! What the server remembers of the commands that ran, and who watches them run.
//!
//! Nothing here is touched by a command that is neither slow, nor large, nor watched: it costs the comparisons that say
//! so, and its share of one histogram. How time is measured stands in [`execute`](crate::execute).

pub mod command_log;
pub mod histogram;
pub mod latency;
pub mod monitor;
pub mod rates;
mod redact;

pub(crate) use redact::shown_arguments;
