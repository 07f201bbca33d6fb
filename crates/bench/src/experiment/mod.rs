//! Many runs and an honest answer.
//!
//! An experiment is a file (`spec`): arms, loads, blocks. `runner` runs every arm once per block in
//! random order, each time with a fresh server process, and writes each run to a journal, from
//! which an interrupted experiment goes on: `record` holds their values, `metrics` names them.
//! `analysis` compares the arms with the baseline by block; `report` and `html` show every point.
//! `ab` does the same for one reversible change and keeps it only when it helped.
//!
//! It stops only the servers it started and changes nothing on the machine by itself.

pub mod ab;
pub mod analysis;
pub mod html;
pub(crate) mod measure;
pub mod metrics;
pub mod record;
pub mod report;
pub mod runner;
pub mod shell_change;
pub mod spec;

mod arm_change;
mod fault;
mod idle;
mod journal;
mod marks;
mod obstacle;
mod places;
mod program;
mod server;
mod shipped;
mod subscribers;

pub use shipped::{Shipped, shipped};
