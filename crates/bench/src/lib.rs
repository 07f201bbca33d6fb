//! Load generation and statistically honest comparisons.
//!
//! `load` sends one load to one server and counts; `report` writes what it counted; `process`
//! reads what client and server cost. A single run says little about a server: `experiment`
//! repeats runs in random order and compares them. The crate talks to any server that speaks
//! RESP and knows nothing of Tidemill's own.

pub mod cli;
pub mod experiment;
pub mod hardware;
pub mod histogram;
pub mod load;
pub mod null_server;
pub mod process;
pub mod report;
pub mod stats;

mod limits;
mod secrets;
