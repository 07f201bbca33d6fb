//! Placement of workers, interrupts and background threads on CPUs: a pure function of the machine.
//!
//! 1. **Allowed** CPUs: online ∩ process mask ∩ effective cpuset, without CPUs isolated for
//!    somebody else.
//! 2. **Node**: the network interface's; where that is ambiguous, the one that holds most of the
//!    server's memory; else the one with most allowed cores. One node only, unless asked, because a
//!    worker walks the whole keyspace and pays for remote memory on every miss.
//! 3. **Cores** of the fastest class, last-level cache by last-level cache: workers first, then
//!    interrupts, then background threads; slower cores take background threads. Cores that
//!    somebody has put the interrupts on are not for workers.
//! 4. When there are too few cores, roles are given up in one order: the sibling left idle beside a
//!    worker, background threads' own CPU, interrupts' own CPU, workers. A quota limits workers
//!    before anything else. Of two cores one has a worker and one is left to everything else, as
//!    from three cores on, unless siblings, slower cores or a second server change that.
//!
//! [`plan`] reads no files and changes nothing; [`Allowed`] is read beforehand, and a plan is put
//! in force by [`crate::apply`].

mod allowed;
mod instances;
mod options;
mod picture;
mod plan;
#[cfg(test)]
mod tests;

pub use allowed::Allowed;
pub use instances::{Instance, Instances, instances};
pub use options::{Mode, PlacementError, PlacementOptions};
pub use plan::{GivenUp, Placement, plan};
