//! Counters of a worker: written by it alone, read by anyone.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::CommandId;
use crate::telemetry::histogram::TimeHistogram;
use crate::telemetry::spread::WorkerSpreads;

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Only the owning worker may call this.
    #[inline]
    pub fn add(&self, amount: u64) {
        // Relaxed: one writer, and readers only want a recent figure. No read-modify-write: nothing
        // to contend with.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Sets the counter. Only the owning worker may call this.
    pub fn set(&self, value: u64) {
        // Relaxed: as in `add`.
        self.0.store(value, Ordering::Relaxed);
    }

    /// The figure now.
    #[must_use]
    pub fn value(&self) -> u64 {
        // Relaxed: as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Calls of a command, and their time.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Calls that ran.
    pub calls: Counter,
    /// Nanoseconds spent in them.
    pub ns: Counter,
    /// Spread of their times.
    pub times: TimeHistogram,
    /// Calls refused before they ran.
    pub rejected: Counter,
    /// Calls that ran and failed.
    pub failed: Counter,
}

impl CommandStats {
    /// Counts calls that took `ns` nanoseconds each, in the histogram if `tracking`. Only the
    /// owning worker may call this.
    #[inline]
    pub fn ran(&self, calls: u64, ns: u64, tracking: bool) {
        self.calls.add(calls);
        self.ns.add(calls.wrapping_mul(ns));
        if tracking {
            self.times.record(ns, calls);
        }
    }
}

/// Keys of one database with an expiry, as a worker's last sweep of its share met them.
#[derive(Debug, Default)]
pub struct TimesToLive {
    /// Number of them.
    pub keys: Counter,
    /// The milliseconds that they had left, all together.
    pub ms: Counter,
}

/// Databases whose [`TimesToLive`] are made together.
const DATABASES_PER_GROUP: usize = 64;

type TimesToLiveGroup = [TimesToLive; DATABASES_PER_GROUP];

/// All counters of one worker.
#[derive(Debug)]
#[repr(align(64))]
pub struct WorkerStats {
    commands: Box<[CommandStats]>,
    /// In groups, each made when a database of it is swept first: most databases are never used.
    times_to_live: Box<[OnceLock<Box<TimesToLiveGroup>>]>,
    /// Commands executed.
    pub commands_processed: Counter,
    /// Keys found by reads.
    pub keyspace_hits: Counter,
    /// Keys not found by reads.
    pub keyspace_misses: Counter,
    /// Keys deleted because they expired.
    pub expired_keys: Counter,
    /// Hash fields deleted because they expired.
    pub expired_fields: Counter,
    /// Keys deleted to make room for others.
    pub evicted_keys: Counter,
    /// Changes of the dataset.
    pub changes: Counter,
    /// Error replies.
    pub error_replies: Counter,
    /// Live bytes that this worker added to the keyspace, as a signed number.
    pub live_bytes: Counter,
    /// Retired bytes that wait for their grace period.
    pub retired_bytes: Counter,
    /// Values that were retired to be freed in the background.
    pub values_left: Counter,
    /// Bytes of the interpreter of scripts.
    pub script_bytes: Counter,
    /// Bytes of the interpreter of functions.
    pub function_bytes: Counter,
    /// Bytes read from clients.
    pub input_bytes: Counter,
    /// Bytes sent to clients.
    pub output_bytes: Counter,
    /// Times that it read from a client.
    pub reads: Counter,
    /// Times that it wrote to a client.
    pub writes: Counter,
    /// Iterations of its event loop.
    pub iterations: Counter,
    /// Microseconds in which it did something, waiting for events apart.
    pub busy_us: Counter,
    /// Waits for events before which it paused (`wakeup-coalescing-us`).
    pub coalesced_waits: Counter,
    /// Microseconds spent on deleting what had expired.
    pub sweep_us: Counter,
    /// Microseconds of ticks: the periodic work beside sweeps and defragmentation.
    pub tick_us: Counter,
    /// Microseconds in which it wrote to the append-only file.
    pub log_us: Counter,
    /// Sweeps that ended because their time was over.
    pub sweeps_cut_short: Counter,
    /// Entries that its last sweep met, and those of them that had expired.
    pub swept_entries: Counter,
    /// See [`WorkerStats::swept_entries`].
    pub swept_expired: Counter,
    /// Blocks that the defragmentation moved, and those that it looked at and left.
    pub defrag_hits: Counter,
    /// See [`WorkerStats::defrag_hits`].
    pub defrag_misses: Counter,
    /// Keys of which it moved something, and the others.
    pub defrag_key_hits: Counter,
    /// See [`WorkerStats::defrag_key_hits`].
    pub defrag_key_misses: Counter,
    /// Connections that this worker owns.
    pub connections: Counter,
    /// Connections that this worker accepted.
    pub connections_accepted: Counter,
    /// Connections refused because there were too many.
    pub rejected_connections: Counter,
    /// Clients disconnected because their requests outgrew `client-query-buffer-limit`.
    pub query_limit_disconnections: Counter,
    /// Clients disconnected because their replies outgrew `client-output-buffer-limit`.
    pub output_limit_disconnections: Counter,
    /// Clients disconnected because all together took more than `maxmemory-clients`.
    pub evicted_clients: Counter,
    /// Memory of this worker's clients, as of its last round, while `maxmemory-clients` is set.
    pub client_bytes: Counter,
    /// Connections handed to a less busy worker.
    pub moved_connections: Counter,
    /// Passwords that were wrong.
    pub denied_authentications: Counter,
    /// Client certificates that name no enabled user.
    pub denied_certificates: Counter,
    /// Calls of commands that their user may not call.
    pub denied_commands: Counter,
    /// Calls with keys that their user may not use.
    pub denied_keys: Counter,
    /// Calls with channels that their user may not use.
    pub denied_channels: Counter,
    /// Calls on databases that their user may not use.
    pub denied_databases: Counter,
    /// Times a session parked because a slot was taken.
    pub parked: Counter,
    /// Clients blocked in a command.
    pub blocked_clients: Counter,
    /// Units whose slots were held.
    pub held_units: Counter,
    /// Spread of the times and sizes of its work.
    pub spreads: WorkerSpreads,
}

impl WorkerStats {
    /// Counters for that number of commands and of databases.
    #[must_use]
    pub fn new(command_count: usize, database_count: usize) -> WorkerStats {
        WorkerStats {
            commands: (0..command_count).map(|_| CommandStats::default()).collect(),
            times_to_live: (0..database_count.div_ceil(DATABASES_PER_GROUP))
                .map(|_| OnceLock::new())
                .collect(),
            commands_processed: Counter::default(),
            keyspace_hits: Counter::default(),
            keyspace_misses: Counter::default(),
            expired_keys: Counter::default(),
            expired_fields: Counter::default(),
            evicted_keys: Counter::default(),
            changes: Counter::default(),
            error_replies: Counter::default(),
            live_bytes: Counter::default(),
            retired_bytes: Counter::default(),
            values_left: Counter::default(),
            script_bytes: Counter::default(),
            function_bytes: Counter::default(),
            input_bytes: Counter::default(),
            output_bytes: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
            iterations: Counter::default(),
            busy_us: Counter::default(),
            coalesced_waits: Counter::default(),
            sweep_us: Counter::default(),
            tick_us: Counter::default(),
            log_us: Counter::default(),
            sweeps_cut_short: Counter::default(),
            swept_entries: Counter::default(),
            swept_expired: Counter::default(),
            defrag_hits: Counter::default(),
            defrag_misses: Counter::default(),
            defrag_key_hits: Counter::default(),
            defrag_key_misses: Counter::default(),
            connections: Counter::default(),
            connections_accepted: Counter::default(),
            rejected_connections: Counter::default(),
            query_limit_disconnections: Counter::default(),
            output_limit_disconnections: Counter::default(),
            evicted_clients: Counter::default(),
            client_bytes: Counter::default(),
            moved_connections: Counter::default(),
            denied_authentications: Counter::default(),
            denied_certificates: Counter::default(),
            denied_commands: Counter::default(),
            denied_keys: Counter::default(),
            denied_channels: Counter::default(),
            denied_databases: Counter::default(),
            parked: Counter::default(),
            blocked_clients: Counter::default(),
            held_units: Counter::default(),
            spreads: WorkerSpreads::default(),
        }
    }

    /// Sets to zero what `CONFIG RESETSTAT` does; counts of what is there now stay.
    pub fn reset(&self) {
        for command in &self.commands {
            for counter in [&command.calls, &command.ns, &command.rejected, &command.failed] {
                counter.set(0);
            }
            command.times.reset();
        }
        for counter in [
            &self.commands_processed,
            &self.keyspace_hits,
            &self.keyspace_misses,
            &self.expired_keys,
            &self.expired_fields,
            &self.evicted_keys,
            &self.error_replies,
            &self.input_bytes,
            &self.output_bytes,
            &self.reads,
            &self.writes,
            &self.iterations,
            &self.busy_us,
            &self.coalesced_waits,
            &self.sweep_us,
            &self.tick_us,
            &self.log_us,
            &self.sweeps_cut_short,
            &self.swept_entries,
            &self.swept_expired,
            &self.defrag_hits,
            &self.defrag_misses,
            &self.defrag_key_hits,
            &self.defrag_key_misses,
            &self.connections_accepted,
            &self.rejected_connections,
            &self.query_limit_disconnections,
            &self.output_limit_disconnections,
            &self.evicted_clients,
            &self.moved_connections,
            &self.denied_authentications,
            &self.denied_certificates,
            &self.denied_commands,
            &self.denied_keys,
            &self.denied_channels,
            &self.denied_databases,
            &self.parked,
            &self.held_units,
        ] {
            counter.set(0);
        }
        self.spreads.all().iter().for_each(|(_, spread)| spread.reset());
    }

    /// Times to live that the worker's sweep saw in a database; none before its first visit.
    #[must_use]
    pub fn times_to_live(&self, database: usize) -> Option<&TimesToLive> {
        let group = self.times_to_live[database / DATABASES_PER_GROUP].get()?;
        Some(&group[database % DATABASES_PER_GROUP])
    }

    /// Times to live that the worker's sweep sees in a database.
    pub(crate) fn times_to_live_or_new(&self, database: usize) -> &TimesToLive {
        let group = &self.times_to_live[database / DATABASES_PER_GROUP];
        let empty = || Box::new(std::array::from_fn(|_| TimesToLive::default()));
        &group.get_or_init(empty)[database % DATABASES_PER_GROUP]
    }

    /// The counters of one command.
    #[must_use]
    pub fn command(&self, id: CommandId) -> &CommandStats {
        &self.commands[id.index()]
    }
}
