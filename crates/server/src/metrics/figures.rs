//! Values of the metrics and their sources: counters of the workers, facts of the process, sizes of
//! the databases.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::pubsub::TopicKind;
use tidemill_engine::shared::{ProcessorTime, Shared};
use tidemill_engine::telemetry::spread::Spread;
use tidemill_engine::telemetry::stats::{CommandStats, Counter, WorkerStats};

use super::exposition::{Exposition, Kind};

/// All figures as they are now. Time in proportion to commands, clients and databases.
pub(super) fn render(shared: &Shared, reader: &mut dyn ReadSide) -> String {
    let mut out = Exposition::default();
    process(shared, &mut out);
    traffic(shared, &mut out);
    services(shared, &mut out);
    workers(shared, &mut out);
    spreads(shared, &mut out);
    commands(shared, &mut out);
    databases(shared, reader, &mut out);
    out.finish()
}

fn process(shared: &Shared, out: &mut Exposition) {
    let facts: BTreeMap<&str, String> = shared.host.facts().into_iter().collect();
    let ProcessorTime { user_s, system_s } = shared.host.processor_time();
    let fact = |name: &str| facts.get(name).map_or("0", String::as_str);
    out.family("tidemill_build_info", Kind::Gauge, "The version, and what it was started with.")
        .sample(
            &[
                ("version", env!("CARGO_PKG_VERSION")),
                ("rcu_flavour", fact("rcu_flavour")),
                ("run_id", fact("run_id")),
            ],
            1,
        );
    let uptime_us = shared.clock.unix_us().saturating_sub(shared.started_us);
    out.family("tidemill_uptime_seconds", Kind::Gauge, "Seconds since the start.")
        .sample(&[], uptime_us as f64 / 1e6);
    out.family("tidemill_cpu_seconds_total", Kind::Counter, "Processor time of all threads.")
        .sample(&[("mode", "user")], user_s)
        .sample(&[("mode", "system")], system_s);
    out.family("tidemill_resident_bytes", Kind::Gauge, "Resident memory of the process.")
        .sample(&[], shared.host.resident_bytes());
    out.family(
        "tidemill_memory_bytes",
        Kind::Gauge,
        "Memory of the dataset: live; retired, and flushed, but not freed yet.",
    )
    .sample(&[("state", "live")], shared.live_bytes())
    .sample(&[("state", "retired")], shared.retired_bytes())
    .sample(&[("state", "flushed")], shared.lazily_freed().bytes);
    out.family("tidemill_memory_limit_bytes", Kind::Gauge, "maxmemory; 0 is no limit.")
        .sample(&[], shared.settings().maxmemory_bytes);
}

fn traffic(shared: &Shared, out: &mut Exposition) {
    let clients = shared.clients.all();
    // Relaxed: a snapshot of what goes on changing.
    let blocked = clients.iter().filter(|client| client.is_blocked.load(Ordering::Relaxed)).count();
    out.family("tidemill_clients", Kind::Gauge, "Connected clients.").sample(&[], clients.len());
    out.family("tidemill_clients_blocked", Kind::Gauge, "Clients blocked in a command.")
        .sample(&[], blocked);
    let limit = shared.configuration().value("maxclients").unwrap_or("0").to_owned();
    out.family("tidemill_clients_limit", Kind::Gauge, "maxclients.").sample(&[], limit);
    for (name, help, counter) in [
        (
            "tidemill_connections_total",
            "Connections accepted.",
            (|stats| &stats.connections_accepted) as CounterOf,
        ),
        (
            "tidemill_connections_rejected_total",
            "Connections refused beyond maxclients.",
            |stats| &stats.rejected_connections,
        ),
        ("tidemill_input_bytes_total", "Bytes read from clients.", |stats| &stats.input_bytes),
        ("tidemill_output_bytes_total", "Bytes sent to clients.", |stats| &stats.output_bytes),
        ("tidemill_keyspace_hits_total", "Keys found by reads.", |stats| &stats.keyspace_hits),
        ("tidemill_keyspace_misses_total", "Keys not found by reads.", |stats| {
            &stats.keyspace_misses
        }),
        ("tidemill_keys_expired_total", "Keys deleted because they expired.", |stats| {
            &stats.expired_keys
        }),
        ("tidemill_fields_expired_total", "Hash fields deleted because they expired.", |stats| {
            &stats.expired_fields
        }),
        ("tidemill_keys_evicted_total", "Keys deleted to make room for others.", |stats| {
            &stats.evicted_keys
        }),
        ("tidemill_changes_total", "Changes of the dataset.", |stats| &stats.changes),
        ("tidemill_sessions_parked_total", "Times a session waited for a slot.", |stats| {
            &stats.parked
        }),
    ] {
        out.family(name, Kind::Counter, help).sample(&[], sum(shared, counter));
    }
    out.family(
        "tidemill_clients_cut_off_total",
        Kind::Counter,
        "Clients disconnected for what they piled up.",
    )
    .sample(&[("buffer", "query")], sum(shared, |stats| &stats.query_limit_disconnections))
    .sample(&[("buffer", "output")], sum(shared, |stats| &stats.output_limit_disconnections));
    out.family("tidemill_error_replies_total", Kind::Counter, "Error replies by their first word.");
    for (code, count) in shared.error_counts() {
        out.sample(&[("code", &code)], count);
    }
}

fn services(shared: &Shared, out: &mut Exposition) {
    out.family("tidemill_pubsub_topics", Kind::Gauge, "Channels and patterns with subscribers.");
    for (label, kind) in [
        ("channel", TopicKind::Channel),
        ("pattern", TopicKind::Pattern),
        ("shard_channel", TopicKind::ShardChannel),
    ] {
        out.sample(&[("kind", label)], shared.pubsub.count(kind));
    }
    let tracking = &shared.tracking;
    out.family("tidemill_tracking_clients", Kind::Gauge, "Clients that keep copies of keys.")
        .sample(&[], tracking.clients());
    out.family("tidemill_tracking_keys", Kind::Gauge, "Keys of which clients keep copies.")
        .sample(&[], tracking.totals.keys());
}

type CounterOf = fn(&WorkerStats) -> &Counter;

fn sum(shared: &Shared, counter: CounterOf) -> u64 {
    shared.stats.iter().map(|stats| counter(stats).value()).fold(0, u64::wrapping_add)
}

fn workers(shared: &Shared, out: &mut Exposition) {
    let mut family = |name, kind, help, counter: CounterOf| {
        out.family(name, kind, help);
        for (index, stats) in shared.stats.iter().enumerate() {
            out.sample(&[("worker", &index.to_string())], counter(stats).value());
        }
    };
    family("tidemill_worker_connections", Kind::Gauge, "Connections of a worker.", |stats| {
        &stats.connections
    });
    family(
        "tidemill_worker_commands_total",
        Kind::Counter,
        "Commands that a worker executed.",
        |stats| &stats.commands_processed,
    );
    family(
        "tidemill_worker_iterations_total",
        Kind::Counter,
        "Iterations of a worker's event loop.",
        |stats| &stats.iterations,
    );
    family(
        "tidemill_worker_busy_microseconds_total",
        Kind::Counter,
        "Microseconds in which a worker did not wait for events.",
        |stats| &stats.busy_us,
    );
    family(
        "tidemill_worker_coalesced_waits_total",
        Kind::Counter,
        "Waits for events before which a worker paused (wakeup-coalescing-us).",
        |stats| &stats.coalesced_waits,
    );
    family(
        "tidemill_worker_moved_connections_total",
        Kind::Counter,
        "Connections that a worker handed to a less busy one.",
        |stats| &stats.moved_connections,
    );
}

/// Limits of the buckets of times, in nanoseconds: 1 us to 4 s by factors of four.
const TIME_LIMITS_NS: [u64; 12] = power_limits(1_000);

/// Limits of the buckets of numbers of commands: 1 to 4,194,304 by factors of four.
const COUNT_LIMITS: [u64; 12] = power_limits(1);

const fn power_limits(first: u64) -> [u64; 12] {
    let mut limits = [first; 12];
    let mut index = 1;
    while index < limits.len() {
        limits[index] = 4 * limits[index - 1];
        index += 1;
    }
    limits
}

/// A figure of a worker, by the state of all and the worker's index.
type SpreadOf = fn(&Shared, usize) -> &Spread;

/// Histograms of what clients wait for, by worker.
fn spreads(shared: &Shared, out: &mut Exposition) {
    let mut family = |name, help, limits: &[u64], per_unit: f64, spread: SpreadOf| {
        out.family(name, Kind::Histogram, help);
        for index in 0..shared.worker_count() {
            let spread = spread(shared, index);
            let values = spread.values();
            let up_to = limits.iter().zip(values.up_to(limits));
            let up_to: Vec<_> =
                up_to.map(|(&limit, values)| (limit as f64 / per_unit, values)).collect();
            let all = (values.calls, spread.sum() as f64 / per_unit);
            out.histogram(("worker", &index.to_string()), &up_to, all);
        }
    };
    let mut times = |name, help, spread| family(name, help, &TIME_LIMITS_NS, 1e9, spread);
    times(
        "tidemill_worker_iteration_seconds",
        "Iterations of a worker's event loop, without its wait for events.",
        |shared, index| &shared.stats[index].spreads.iteration_ns,
    );
    times(
        "tidemill_worker_lane_delay_seconds",
        "Time from the first message for a worker's clients until it took all there were.",
        |shared, index| shared.lanes.delay_ns(index),
    );
    times(
        "tidemill_worker_park_seconds",
        "Time that sessions waited for a slot before their command ran.",
        |shared, index| &shared.stats[index].spreads.park_ns,
    );
    times(
        "tidemill_worker_held_seconds",
        "Time for which reads of slots waited for a change of several steps, one of 16 of them.",
        |shared, index| &shared.stats[index].spreads.held_ns,
    );
    family(
        "tidemill_worker_iteration_commands",
        "Commands per iteration of a worker's event loop.",
        &COUNT_LIMITS,
        1.0,
        |shared, index| &shared.stats[index].spreads.iteration_commands,
    );
}

fn commands(shared: &Shared, out: &mut Exposition) {
    let mut family = |name, help, pick: fn(&CommandStats) -> &Counter, unit: f64| {
        out.family(name, Kind::Counter, help);
        for (id, command) in shared.commands.iter() {
            let of = |pick: fn(&CommandStats) -> &Counter| {
                shared.stats.iter().map(|stats| pick(stats.command(id)).value()).sum::<u64>()
            };
            // A command that was never called has no sample, as in INFO.
            if of(|stats| &stats.calls) + of(|stats| &stats.rejected) > 0 {
                out.sample(&[("command", command.name)], of(pick) as f64 * unit);
            }
        }
    };
    family("tidemill_commands_total", "Calls by command.", |stats| &stats.calls, 1.0);
    family(
        "tidemill_commands_seconds_total",
        "Time spent. Brief commands of a pipeline share theirs evenly.",
        |stats| &stats.ns,
        1e-9,
    );
    family(
        "tidemill_commands_rejected_total",
        "Calls refused before they ran.",
        |stats| &stats.rejected,
        1.0,
    );
    family(
        "tidemill_commands_failed_total",
        "Calls that ran and failed.",
        |stats| &stats.failed,
        1.0,
    );
}

fn databases(shared: &Shared, reader: &mut dyn ReadSide, out: &mut Exposition) {
    let mut counts = Vec::new();
    for database in 0..shared.keyspace.databases_end() {
        reader.section(&mut |section| {
            let keys = shared.keyspace.key_count(database, section);
            counts.push((
                database.to_string(),
                keys,
                shared.keyspace.expiring_count(database, section),
            ));
        });
        // A thread that waits for all readers waits for this one: for one database at most.
        reader.quiescent();
        reader.seat().pass();
    }
    counts.retain(|&(_, keys, _)| keys > 0);
    out.family("tidemill_keys", Kind::Gauge, "Keys by database.");
    for (database, keys, _) in &counts {
        out.sample(&[("db", database)], keys);
    }
    out.family("tidemill_keys_expiring", Kind::Gauge, "Keys with an expiry, by database.");
    for (database, _, expiring) in &counts {
        out.sample(&[("db", database)], expiring);
    }
}
