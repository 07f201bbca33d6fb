//! Load generation and statistically honest comparisons.

pub mod cli;
