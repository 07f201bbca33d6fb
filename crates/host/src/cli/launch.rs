//! `run`: starts a command in this process's place, with everything set for it beforehand.
//!
//! A setting that cannot be made stops the start: a command that runs with half of its settings
//! gives misleading measurements.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};

use super::Outcome;
use super::arguments::{Cpus, HugePages, MemoryNode, PolicyName, RunArguments};
use crate::apply::{self, MemoryPolicy, Policy};
use crate::output::note;
use crate::placement::{Allowed, Placement, PlacementOptions, plan};
use crate::topology::Topology;
use crate::{CpuSet, Root};

const STATUS_NOT_STARTED: u8 = 126;
const STATUS_NOT_FOUND: u8 = 127;

pub(super) fn launch(arguments: &RunArguments) -> Result<Outcome, String> {
    prepare(arguments)?;
    let Some((program, words)) = arguments.command.split_first() else {
        return Err("no command".to_owned());
    };
    let mut command = Command::new(program);
    command.args(words);
    if arguments.thp == Some(HugePages::Request) {
        request_huge_pages(&mut command);
    }
    let error = command.exec();
    note(format_args!("tidemill tune: {}: {error}", program.to_string_lossy()));
    let is_absent = error.kind() == io::ErrorKind::NotFound;
    let status = if is_absent { STATUS_NOT_FOUND } else { STATUS_NOT_STARTED };
    Ok(Outcome { text: String::new(), status })
}

/// The variables that jemalloc reads its options from: of the distributions, of Rust's crate, with
/// a prefix.
const JEMALLOC_OPTIONS: &[&str] = &["MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF"];

/// Lets the command's jemalloc ask for huge pages. Only the owner of memory can ask for them, so
/// that this is the allocator's matter; options somebody set stay, and this one comes last and
/// wins.
fn request_huge_pages(command: &mut Command) {
    for name in JEMALLOC_OPTIONS {
        let mut options = env::var_os(name).unwrap_or_default();
        if !options.is_empty() {
            options.push(",");
        }
        options.push("thp:always");
        command.env(name, options);
    }
}

/// Sets all that was asked for on this process.
fn prepare(arguments: &RunArguments) -> Result<(), String> {
    let named = |name: &'static str| move |error: io::Error| format!("{name}: {error}");
    let needs_plan = arguments.cpus == Cpus::Auto || arguments.memory_node == MemoryNode::Auto;
    let placement = if needs_plan { Some(placement()?) } else { None };
    let placement = placement.as_ref();
    if let Some(cpus) = cpus(&arguments.cpus, placement) {
        apply::pin_current_thread(&cpus).map_err(named("--cpus"))?;
    }
    if let Some(node) = memory_node(arguments, placement) {
        apply::set_memory_policy(&MemoryPolicy::Bind(node)).map_err(named("--memory-node"))?;
    }
    if let Some(pages) = arguments.thp {
        apply::forbid_huge_pages(pages == HugePages::Never).map_err(named("--thp"))?;
    }
    let limits = [
        ("--nofile", Resource::Nofile, arguments.nofile),
        ("--memlock", Resource::Memlock, arguments.memlock),
    ];
    for (name, resource, limit) in limits {
        let Some(limit) = limit else { continue };
        let both = Rlimit { current: Some(limit), maximum: Some(limit) };
        rustix::process::setrlimit(resource, both).map_err(|errno| named(name)(errno.into()))?;
    }
    let policy = arguments.policy.map(|policy| match policy {
        PolicyName::Other => Policy::Other,
        PolicyName::Batch => Policy::Batch,
        PolicyName::Idle => Policy::Idle,
    });
    let slice = arguments.slice_us.map(|us| Duration::from_micros(us.into()));
    if policy.is_some() || slice.is_some() {
        apply::set_scheduling(policy, slice).map_err(named("--policy, --slice-us"))?;
    }
    Ok(())
}

fn placement() -> Result<Placement, String> {
    let topology = Topology::read(&Root::live()).map_err(|error| error.to_string())?;
    let allowed = Allowed::of_current_process();
    plan(&topology, &allowed, &PlacementOptions::default()).map_err(|error| error.to_string())
}

/// Threads of the command may move among these: which of them are workers is not known from
/// outside.
fn cpus(wish: &Cpus, placement: Option<&Placement>) -> Option<CpuSet> {
    match wish {
        Cpus::All => None,
        Cpus::List(list) => Some(list.clone()),
        Cpus::Auto => placement.map(|placement| placement.worker_cpus().or(&placement.background)),
    }
}

fn memory_node(arguments: &RunArguments, placement: Option<&Placement>) -> Option<u32> {
    match arguments.memory_node {
        MemoryNode::Any => None,
        MemoryNode::Node(node) => Some(node),
        // The plan's node is that of the plan's CPUs, not of a list the operator gave.
        MemoryNode::Auto if arguments.cpus != Cpus::Auto => None,
        MemoryNode::Auto => placement.and_then(|placement| placement.memory_node),
    }
}
