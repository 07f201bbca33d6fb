//! Bounds on what a host, or a capture of one, may make this crate read or allocate.

use std::time::Duration;

/// Highest CPU number accepted from any list or mask; the kernel's own ceiling is 8,192 on x86.
pub const CPU_ID_MAX: u32 = 65_535;

/// Largest file read as text, in bytes; `/proc/interrupts` of a 512-CPU host is about 2 MiB.
pub const FILE_BYTES_MAX: u64 = 8 << 20;

/// A core whose speed is at least this share of the fastest, in percent, belongs to the top class.
///
/// Favoured cores of one class differ by a few percent (5.2 against 5.0 GHz), classes by more than
/// a fifth.
pub const TOP_CLASS_SPEED_PERCENT: u64 = 90;

/// From this many cores on, interrupts and background work get cores of their own.
pub const SEPARATE_ROLES_CORES_MIN: usize = 8;

/// From this many cores on, interrupts have a core of their own, shared with background work.
///
/// That core is also the one that a load on the same machine gets: on two CPUs two workers and a
/// load are preempted by each other, and one worker does more (docs/experiments/servers.md).
pub const SEPARATE_INTERRUPTS_CORES_MIN: usize = 2;

/// From this many cores on, interrupts get two cores.
pub const TWO_INTERRUPT_CORES_MIN: usize = 16;

/// On large nodes one core per this many takes interrupts.
pub const CORES_PER_INTERRUPT_CORE: usize = 16;

/// Most workers a plan may name; above it a request is a typing error.
pub const WORKERS_MAX: usize = 4_096;

/// Highest memory node number a command line may name; the kernel's own ceiling is 1,023.
pub const MEMORY_NODE_MAX: u32 = 1_023;

/// Time that a server may take to accept a connection and for each part of an answer.
pub const ASK_DEADLINE: Duration = Duration::from_secs(2);

/// Most bytes taken from a server that was asked for INFO and CONFIG.
pub const REPLY_BYTES_MAX: u64 = 8 << 20;

/// Most elements of a reply; a server has some 400 parameters, each a name and a value.
pub const REPLY_ELEMENTS_MAX: usize = 100_000;

const _: () = assert!(SEPARATE_INTERRUPTS_CORES_MIN < SEPARATE_ROLES_CORES_MIN);
const _: () = assert!(SEPARATE_ROLES_CORES_MIN < TWO_INTERRUPT_CORES_MIN);
const _: () = assert!(TWO_INTERRUPT_CORES_MIN / CORES_PER_INTERRUPT_CORE <= 2);
