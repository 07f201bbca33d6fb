//! Memory of what ran: counters, histograms, logs of commands, latency events, hot
//! keys.
//!
//! A command that is neither slow nor large costs the comparisons that say so, and its share of one
//! histogram. How time is measured is told in [`execute`](crate::execute). This room imports no
//! other.

pub mod command_log;
pub mod histogram;
pub mod hot_keys;
pub mod latency;
pub mod line_rate;
pub mod rates;
mod redact;
pub mod spread;
pub mod stats;

pub(crate) use redact::shown_arguments;
