//! What all workers of one server share.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_store::Keyspace;
use tidemill_store::hash::Seed;

use crate::clients::Clients;
use crate::clock::Clock;
use crate::command::CommandTable;
use crate::commands;
use crate::commit::Sinks;
use crate::gate::Gate;
use crate::mailbox::{Mailboxes, Notify};
use crate::parking::{Parking, SlotReleases, Token};
use crate::settings::Settings;
use crate::side::Side;
use crate::stats::WorkerStats;

/// The state of one server. Everything in it may be used by all workers at once.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace<Side>,
    /// The commands.
    pub commands: CommandTable,
    /// Connected clients.
    pub clients: Clients,
    /// Mailboxes of the workers.
    pub mailboxes: Arc<Mailboxes>,
    /// Waiting sessions.
    pub parking: Arc<Parking>,
    /// The single token.
    pub token: Token,
    /// Stops all workers.
    pub gate: Gate,
    /// Who hears of changes.
    pub sinks: Sinks,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// Counters by worker.
    pub stats: Box<[WorkerStats]>,
    /// Unix time, in ms, that a key was found expired at: who judges an expiry later judges at this time or later, so
    /// that what was seen expired stays so, whatever the clocks of two workers say.
    expired_ms: AtomicU64,
    /// Bytes freed in the background after their workers stopped counting them.
    freed_bytes: AtomicU64,
    settings: Mutex<Arc<Settings>>,
    settings_version: AtomicU64,
    /// Numbers of blocked waits.
    waiter_ids: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

/// What a server is made with.
pub struct SharedSpec {
    /// Number of databases.
    pub database_count: usize,
    /// The secret of the hashes, from the system's random source.
    pub seed: Seed,
    /// One notifier per worker.
    pub notifiers: Vec<Box<dyn Notify>>,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// The first settings.
    pub settings: Settings,
    /// Who hears of changes.
    pub sinks: Sinks,
}

impl Shared {
    /// The state of a new server with an empty keyspace.
    #[must_use]
    pub fn new(spec: SharedSpec) -> Shared {
        let worker_count = spec.notifiers.len();
        let commands = CommandTable::new(&commands::all());
        let mailboxes = Arc::new(Mailboxes::new(spec.notifiers));
        let parking = Arc::new(Parking::new(Arc::clone(&mailboxes)));
        Shared {
            keyspace: Keyspace::new(
                spec.database_count,
                spec.seed,
                SlotReleases(Arc::clone(&parking)),
            ),
            stats: (0..worker_count).map(|_| WorkerStats::new(commands.len())).collect(),
            commands,
            clients: Clients::default(),
            mailboxes,
            parking,
            token: Token::default(),
            gate: Gate::new(worker_count),
            sinks: spec.sinks,
            clock: spec.clock,
            expired_ms: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
            settings: Mutex::new(Arc::new(spec.settings)),
            settings_version: AtomicU64::new(0),
            waiter_ids: AtomicU64::new(1),
        }
    }

    /// The settings now.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes when the settings do.
    #[must_use]
    pub fn settings_version(&self) -> u64 {
        // Acquire: pairs with the Release in `change_settings`.
        self.settings_version.load(Ordering::Acquire)
    }

    /// Replaces the settings by a changed copy. Workers see it at their next boundary.
    pub fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Settings::clone(&settings);
        change(&mut next);
        *settings = Arc::new(next);
        // Release: pairs with the Acquire in `settings_version`.
        self.settings_version.fetch_add(1, Ordering::Release);
    }

    /// The time that an expiry is judged by: `now_ms`, or a later one that another worker has judged by.
    #[must_use]
    #[inline]
    pub fn expiry_clock_ms(&self, now_ms: u64) -> u64 {
        // Acquire: pairs with the Release in `saw_expired`; who hears of an expiry sees its time.
        now_ms.max(self.expired_ms.load(Ordering::Acquire))
    }

    /// A key that expires at `expires_at_ms` was found expired: from now on it is so for everybody.
    pub fn saw_expired(&self, expires_at_ms: u64) {
        let judged_ms = expires_at_ms.saturating_add(1);
        // Relaxed: only spares the read-modify-write.
        if self.expired_ms.load(Ordering::Relaxed) < judged_ms {
            // Release: pairs with the Acquire in `expiry_clock_ms`.
            self.expired_ms.fetch_max(judged_ms, Ordering::Release);
        }
    }

    /// Counts bytes that were freed in the background.
    pub fn freed_in_background(&self, bytes: usize) {
        // Relaxed: a statistic.
        self.freed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that the dataset takes: what all workers counted, less what was freed in the background.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        let counted = self
            .stats
            .iter()
            .map(|stats| stats.live_bytes.value())
            .fold(0_u64, u64::wrapping_add);
        // Relaxed: a statistic.
        let live = counted.wrapping_sub(self.freed_bytes.load(Ordering::Relaxed)) as i64;
        live.max(0) as u64
    }

    /// A number for a new blocked wait.
    #[must_use]
    pub fn next_waiter_id(&self) -> u64 {
        // Relaxed: only has to be unique.
        self.waiter_ids.fetch_add(1, Ordering::Relaxed)
    }
}
