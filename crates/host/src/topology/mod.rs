//! The shape of a machine: CPUs, physical cores, caches, memory nodes and network interfaces.
//!
//! Everything comes from what sysfs says about each CPU, never from how CPUs are numbered: on one
//! machine siblings are 0 and 12, on the next 0 and 1. Where files contradict each other the reader
//! falls back and leaves a note. The model holds no file handles and no counters.

mod model;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use read::interrupts;

pub use model::{Core, Nic, Node, Topology, TopologyError};
