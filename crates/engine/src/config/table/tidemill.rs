//! Directives that Valkey does not have: workers, placement, scheduling, memory nodes, huge pages,
//! RCU, metrics.

use super::super::directive::{Directive, Kind};
use super::builders::{PORT, choice, cpus, flag, integer, memory};

pub(super) const DIRECTIVES: &[Directive] = &[
    choice(
        "cpu-placement",
        "auto",
        &["auto", "off", "logical", "physical", "split"],
        "Where threads run: by the plan printed at start, anywhere, on one CPU each, on one core \
         each, or workers and background apart.",
    )
    .fixed(),
    integer(
        "worker-threads",
        "0",
        0,
        1024,
        "Workers; 0 leaves the number to the placement: one on each core but one, at least one, \
         and fewer from 8 cores on.",
    )
    .fixed(),
    integer("workers-per-core", "1", 1, 2, "Workers on one physical core.").fixed(),
    flag(
        "busy-reply-all",
        false,
        "Whether a script that runs for longer than `busy-reply-threshold` makes every command \
         fail with BUSY, as in Valkey, and not only those that need its keys.",
    ),
    cpus("server-cpulist", "CPUs of the workers.").aliases(&["server_cpulist"]).at_start(),
    cpus("bio-cpulist", "CPUs of background threads.").aliases(&["bio_cpulist"]).at_start(),
    cpus("bgsave-cpulist", "CPUs of the thread that saves snapshots.")
        .aliases(&["bgsave_cpulist"])
        .at_start(),
    cpus("aof-rewrite-cpulist", "CPUs of the thread that rewrites the log.")
        .aliases(&["aof_rewrite_cpulist"])
        .at_start()
        .without_effect("bases are written where snapshots are"),
    integer(
        "worker-slice-us",
        "0",
        0,
        100_000,
        "Time slice of a worker in microseconds, at least 100 (Linux 6.12 or newer); 0 leaves it \
         to the kernel. Refused, a line is logged.",
    )
    .fixed(),
    integer(
        "wakeup-coalescing-us",
        "0",
        0,
        1000,
        "Pause in microseconds of a worker before it waits for events while many connections send \
         many requests, so that it is woken once for several of them; latency is longer by the \
         pause at most. Pays where a wake-up costs more than a timer; it did not where it was \
         measured. 0 for none.",
    ),
    choice(
        "background-scheduling",
        "other",
        &["other", "batch"],
        "Scheduling policy of background threads; under `batch` one that wakes up does not \
         preempt a worker.",
    )
    .fixed(),
    choice(
        "memory-policy",
        "default",
        &["default", "prefer", "bind", "interleave"],
        "Where memory comes from: where a thread runs that first touches it, the workers' memory \
         node first, that node only, or all nodes with a worker in turn. Refused, a line is \
         logged.",
    )
    .fixed(),
    flag(
        "huge-pages",
        false,
        "Asks for huge pages (MADV_HUGEPAGE) for what workers store, unless the machine forbids \
         them. Refused, a line is logged.",
    )
    .fixed(),
    choice(
        "rcu-flavour",
        "qsbr",
        &["qsbr", "memb", "mb", "bp", "signal"],
        "How readers and reclaimers agree.",
    )
    .fixed(),
    choice(
        "rcu-read-section",
        "iteration",
        &["iteration", "command"],
        "What a read section spans, for the flavours that have them.",
    )
    .fixed(),
    choice(
        "rcu-quiescent",
        "iteration",
        &["iteration", "batch", "command"],
        "How often a quiescent state is announced under `qsbr`.",
    )
    .fixed(),
    memory(
        "rcu-retired-max",
        "0",
        0,
        "Bytes that were replaced or deleted, of all workers together, beyond which writers wait \
         for readers; 0 takes an eighth of `maxmemory` or of the machine's memory, and 64 MiB at \
         least.",
    ),
    integer("metrics-port", "0", 0, PORT, "Port that serves metrics over HTTP; 0 for none.")
        .fixed(),
    Directive::new(
        "metrics-bind",
        Kind::Words { min: 0, max: 16 },
        "127.0.0.1",
        "Addresses that serve metrics.",
    )
    .fixed(),
];
