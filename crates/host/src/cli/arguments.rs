//! The flags, one declaration each.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::CpuSet;
use crate::limits::MEMORY_NODE_MAX;

const EXAMPLES_AND_STATUS: &str = "\
Examples:
  tidemill tune doctor --port 6379
  tidemill tune plan
  sudo tidemill tune apply --only R1 R7 --persist
  sudo tidemill tune revert
  sudo tidemill tune ab R7 --load '-p 6379 -t 1 -c 50 --test-time 8'
  tidemill tune run --cpus 0-3 -- redis-server --port 6380

Exit status: 2 wrong usage, or something needed cannot be read (nothing was changed); otherwise
  doctor                  0 nothing to do, 1 advice, 3 a problem
  apply, revert, verify   0 done or in force, 1 something was refused, declined or left alone
  plan, capture           0
  ab                      0 kept, 4 not kept, 1 a run failed, undone if possible, 130 ended, undone
  run                     the command's own; 126 it cannot be started, 127 there is none";

/// Doctor and tuner for the host of a Redis-protocol server.
#[derive(Debug, Parser)]
#[command(name = "tidemill tune", after_help = EXAMPLES_AND_STATUS, arg_required_else_help = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Judges this host by every rule, with evidence; changes nothing.
    Doctor(DoctorArguments),
    /// Draws the machine with workers, interrupts and background threads, and the changes the rules
    /// propose; writes nothing.
    Plan(PlanArguments),
    /// Shows the changes, asks, writes them, reads them back, and keeps an undo journal in
    /// /var/lib/tidemill-tune.
    Apply(ApplyArguments),
    /// Undoes what was applied, last first; leaves alone values that others changed since.
    Revert(RevertArguments),
    /// Tells whether what was applied is in force.
    Verify(VerifyArguments),
    /// Measures one rule's changes by interleaved runs, and keeps them only when they help beyond
    /// the noise.
    Ab(AbArguments),
    /// Starts a command with affinity, memory node, scheduling, huge pages and limits set for it.
    Run(RunArguments),
    /// Copies what doctor reads, without secrets, into an archive; unpacked, it is a DIR for
    /// --root.
    Capture(CaptureArguments),
}

/// Machine to look at.
#[derive(Args, Clone, Debug)]
pub(super) struct Machine {
    /// A captured machine below this directory instead of the running one.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(super) root: PathBuf,
}

/// Server on it, and manner of looking.
#[derive(Args, Clone, Debug)]
pub(super) struct Look {
    #[command(flatten)]
    pub(super) machine: Machine,
    /// The server's process; it is asked over the lowest port it listens on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) pid: Option<u32>,
    /// The server that listens on this TCP port. The password is taken from REDISCLI_AUTH or
    /// VALKEYCLI_AUTH, or asked for.
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "pid",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub(super) port: Option<u16>,
    /// The user to authenticate as.
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// Time between the two samples of counters; 0 takes one sample.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(super) interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Profile {
    Latency,
    Throughput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    Server,
    Client,
}

#[derive(Args, Debug)]
pub(super) struct DoctorArguments {
    #[command(flatten)]
    pub(super) look: Look,
    /// Prints the findings as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    pub(super) look: Look,
    /// Preferred goal: with throughput, sleep states and interrupt coalescing are left alone.
    #[arg(long, value_enum, default_value = "latency")]
    pub(super) profile: Profile,
    /// Role of this machine: rules about servers alone are passed over for clients.
    #[arg(long, value_enum, default_value = "server")]
    pub(super) role: Role,
    /// Number of servers to place: on one node or spread, and why.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) instances: usize,
}

#[derive(Args, Debug)]
pub(super) struct ApplyArguments {
    #[command(flatten)]
    pub(super) plan: PlanArguments,
    /// Only the changes of these rules.
    #[arg(long, value_name = "RULE", num_args = 1.., value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Makes the changes last: sysctl.d, tmpfiles.d, udev rules, systemd units and drop-ins, marked
    /// as ours.
    #[arg(long)]
    pub(super) persist: bool,
    /// Does not ask.
    #[arg(long)]
    pub(super) yes: bool,
    /// Writes what tuned, irqbalance or bpftune manage, too; they may write it back.
    #[arg(long)]
    pub(super) take_over: bool,
}

#[derive(Args, Debug)]
pub(super) struct RevertArguments {
    #[command(flatten)]
    pub(super) machine: Machine,
    /// Only the changes of these rules.
    #[arg(long, value_name = "RULE", num_args = 1.., value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Forgets values that others changed since, and leaves them as they are.
    #[arg(long)]
    pub(super) forget: bool,
}

#[derive(Args, Debug)]
pub(super) struct CaptureArguments {
    #[command(flatten)]
    pub(super) look: Look,
    /// The archive; must not exist.
    #[arg(value_name = "OUT.tar")]
    pub(super) out: PathBuf,
}

#[derive(Args, Debug)]
pub(super) struct AbArguments {
    #[command(flatten)]
    pub(super) look: Look,
    /// The rule, such as R7.
    #[arg(value_name = "RULE")]
    pub(super) rule: String,
    /// Flags of `tidemill bench` for each run, in one word; they name the server, too.
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    pub(super) load: String,
    /// The metric that decides, by its name in the reports of `tidemill experiment`, such as
    /// p99_ms.
    #[arg(long, value_name = "NAME", default_value = "ops_per_second")]
    pub(super) metric: String,
    /// Blocks of three runs; fewer than 6 give no verdict.
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) blocks: u16,
    /// Smallest gain worth keeping, as a fraction, or the noise if that is larger.
    #[arg(long, default_value = "0.02", value_parser = fraction)]
    pub(super) threshold: f64,
    /// Seed of the order of the runs; drawn when absent.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Writes each run's value and the verdict here.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(super) struct RunArguments {
    /// CPUs it may use: a list, `auto` (workers and background threads of the plan) or `all` (as
    /// inherited).
    #[arg(long, value_name = "LIST", default_value = "auto", value_parser = cpus)]
    pub(super) cpus: Cpus,
    /// The memory node it takes memory from: a number, `auto` (the plan's) or `any`.
    #[arg(long, value_name = "NODE", default_value = "auto", value_parser = node)]
    pub(super) memory_node: MemoryNode,
    /// Scheduling policy; batch is for clients and exporters beside a server, never for the server.
    #[arg(long, value_enum)]
    pub(super) policy: Option<PolicyName>,
    /// Scheduler slice in microseconds, 100 to 100000 (Linux 6.12 or newer).
    #[arg(
        long,
        value_name = "MICROSECONDS",
        value_parser = clap::value_parser!(u32).range(100..=100_000)
    )]
    pub(super) slice_us: Option<u32>,
    /// Transparent huge pages: `never` forbids them to the command, `system` leaves them to the
    /// machine's setting, `request` lets jemalloc ask for them (MADV_HUGEPAGE), if the command uses
    /// it, unless the machine says never.
    #[arg(long, value_enum)]
    pub(super) thp: Option<HugePages>,
    /// File descriptors it may open, soft and hard limit.
    #[arg(long, value_name = "N")]
    pub(super) nofile: Option<u64>,
    /// Bytes of memory it may lock, soft and hard limit.
    #[arg(long, value_name = "BYTES")]
    pub(super) memlock: Option<u64>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cpus {
    Auto,
    All,
    List(CpuSet),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryNode {
    Auto,
    Any,
    Node(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyName {
    Other,
    Batch,
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum HugePages {
    Never,
    System,
    Request,
}

#[derive(Args, Debug)]
pub(super) struct VerifyArguments {
    #[command(flatten)]
    pub(super) machine: Machine,
}

fn cpus(text: &str) -> Result<Cpus, String> {
    match text {
        "auto" => Ok(Cpus::Auto),
        "all" => Ok(Cpus::All),
        list => {
            let list = CpuSet::parse_list(list).map_err(|error| error.to_string())?;
            if list.is_empty() { Err("the list is empty".to_owned()) } else { Ok(Cpus::List(list)) }
        }
    }
}

fn node(text: &str) -> Result<MemoryNode, String> {
    match text {
        "auto" => Ok(MemoryNode::Auto),
        "any" => Ok(MemoryNode::Any),
        number => match number.parse() {
            Ok(number) if number <= MEMORY_NODE_MAX => Ok(MemoryNode::Node(number)),
            _ => Err(format!("not a number up to {MEMORY_NODE_MAX}, `auto` or `any`")),
        },
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..1.0).contains(&number) { Ok(number) } else { Err("0.02 means 2 %".to_owned()) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
