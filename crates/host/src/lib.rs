//! The host under the server: facts (read), plan (pure), apply (system calls).
//!
//! Three layers that do not mix: [`topology`] and what else is read through a [`Root`] directory,
//! [`placement`] and [`rules`] as functions of it, and what changes something: [`apply`] threads of
//! this process, [`tune`] the machine, with an undo journal. So a captured machine can be diagnosed
//! and planned for elsewhere, and a plan can be tested on machines that are not at hand. This crate
//! knows neither the server nor the load generator; [`output`] is what all command lines share.

pub mod apply;
pub mod capture;
pub mod cgroup;
pub mod cli;
pub mod facts;
pub mod limits;
pub mod output;
pub mod placement;
pub mod rules;
pub mod topology;
pub mod tune;

mod cpuset;
mod recording;
mod root;
mod sys;
#[cfg(test)]
mod testing;

pub use cpuset::{CpuSet, CpuSetError};
pub use root::{ReadError, Refusal, Root};
