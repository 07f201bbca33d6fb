//! The settings that commands look at, as one immutable snapshot.
//!
//! The configuration (file, command line, `CONFIG SET`) makes a new snapshot at every change; a
//! worker picks it up at its next boundary, so that reading a setting costs nothing shared.

use tidemill_rdb::VersionCheck;
use tidemill_rdb::encode::Compression;
use tidemill_store::KeyClass;
use tidemill_store::value::stream::NodeLimits;

use crate::commit::EventClass;
use crate::telemetry::command_log::LogLimits;
use crate::use_stamp::FrequencyScale;

/// Clients that may do what is dangerous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedClients {
    /// Nobody.
    Nobody,
    /// Clients on this host.
    Local,
    /// Everybody.
    All,
}

/// Frequency of a worker's quiescent states, for flavours in which readers announce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quiescent {
    /// Once per iteration of its event loop, which is the event loop's business.
    #[default]
    Iteration,
    /// After each batch of requests that were parsed together.
    Batch,
    /// After each command.
    Command,
}

/// Keys that eviction prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// The longest idle first.
    LeastRecentlyUsed,
    /// The least frequently used first.
    LeastFrequentlyUsed,
    /// Any.
    Random,
    /// The first to expire first.
    TimeToLive,
}

/// `maxmemory-policy` but `noeviction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// Keys that may be evicted.
    pub keys: KeyClass,
    /// Order of their eviction.
    pub order: EvictionOrder,
}

impl EvictionPolicy {
    /// The policy of a name; none for `noeviction`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<EvictionPolicy> {
        let (keys, order) = name.split_once('-')?;
        let keys = if keys == "allkeys" { KeyClass::All } else { KeyClass::Expiring };
        let order = match order {
            "lru" => EvictionOrder::LeastRecentlyUsed,
            "lfu" => EvictionOrder::LeastFrequentlyUsed,
            "ttl" => EvictionOrder::TimeToLive,
            _ => EvictionOrder::Random,
        };
        Some(EvictionPolicy { keys, order })
    }
}

/// One of the pairs of `save`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last save after which it is due.
    pub seconds: u64,
    /// Changes since the last save from which on it is due.
    pub changes: u64,
}

/// When, and to whom, a script that runs for long is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyReply {
    /// `busy-reply-threshold` in microseconds: how long it may run before; 0 is for ever.
    pub after_us: u64,
    /// `busy-reply-all`: whether everybody is told, and not only those who need its slots.
    pub is_for_all: bool,
}

/// Settings of the defragmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefragSettings {
    /// `activedefrag`.
    pub is_on: bool,
    /// `active-defrag-ignore-bytes`: waste below which nothing is done.
    pub ignored_bytes: u64,
    /// `active-defrag-threshold-lower`: percent of waste from which on something is done.
    pub lower_percent: u64,
    /// `active-defrag-threshold-upper`: percent of waste of the most effort.
    pub upper_percent: u64,
    /// `active-defrag-cycle-min`: percent of a worker's time at the lower threshold.
    pub effort_min: u64,
    /// `active-defrag-cycle-max`: percent of a worker's time from the upper threshold on.
    pub effort_max: u64,
    /// `active-defrag-cycle-us`: microseconds of one step.
    pub step_us: u64,
    /// `active-defrag-max-scan-fields`: elements of a collection that are looked at in one go.
    pub elements_max: usize,
}

impl Default for DefragSettings {
    fn default() -> DefragSettings {
        DefragSettings {
            is_on: false,
            ignored_bytes: 100 << 20,
            lower_percent: 10,
            upper_percent: 100,
            effort_min: 1,
            effort_max: 25,
            step_us: 500,
            elements_max: 1000,
        }
    }
}

/// One snapshot of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `requirepass`: the password that the default user was given; empty for none.
    pub requirepass: Vec<u8>,
    /// `acl-pubsub-default`: whether new users may use all channels.
    pub new_users_have_channels: bool,
    /// `aclfile`: the file of users.
    pub users_file: Option<String>,
    /// `acllog-max-len`: entries of `ACL LOG`.
    pub acl_log_entries_max: usize,
    /// `maxmemory` in bytes; 0 is no limit.
    pub maxmemory_bytes: u64,
    /// `active-expire-effort`, from 1 on.
    pub expire_effort: u64,
    /// The directives `active-defrag-*`.
    pub defrag: DefragSettings,
    /// `import-mode`.
    pub import_mode: bool,
    /// `maxmemory-policy`; none is `noeviction`.
    pub eviction_policy: Option<EvictionPolicy>,
    /// `maxmemory-samples`: keys compared per eviction.
    pub eviction_samples: usize,
    /// `maxmemory-eviction-tenacity`: see [`Settings::eviction_us_max`].
    pub eviction_tenacity: u32,
    /// `lazyfree-lazy-eviction`: evicted keys are journaled as `UNLINK`.
    pub evicts_lazily: bool,
    /// `lfu-log-factor` and `lfu-decay-time`.
    pub frequency_scale: FrequencyScale,
    /// `rcu-retired-max`: retired bytes of all workers beyond which writers wait; 0 goes by the
    /// memory.
    pub retired_bytes_max: u64,
    /// `proto-max-bulk-len` in bytes.
    pub bulk_bytes_max: usize,
    /// `availability-zone`: zone that `HELLO` tells; empty for none.
    pub availability_zone: String,
    /// `enable-debug-command`: who may run `DEBUG`.
    pub debug_command: AllowedClients,
    /// `enable-protected-configs`: who may change protected directives by `CONFIG SET`.
    pub protected_configs: AllowedClients,
    /// `hash-max-listpack-entries`: fields beyond which a hash is called a hash table.
    pub hash_listpack_entries_max: u64,
    /// `hash-max-listpack-value`: bytes of a field or value beyond which a hash is called a hash
    /// table.
    pub hash_listpack_value_bytes_max: usize,
    /// `list-max-listpack-size`: elements (or, when negative, a class of bytes) beyond which a list
    /// is a quicklist.
    pub list_listpack_size_max: i64,
    /// `set-max-intset-entries`: members beyond which a set of integers is no intset.
    pub set_intset_entries_max: u64,
    /// `set-max-listpack-entries`: members beyond which a set is called a hash table.
    pub set_listpack_entries_max: u64,
    /// `set-max-listpack-value`: bytes of a member beyond which a set is called a hash table.
    pub set_listpack_value_bytes_max: usize,
    /// `rdbcompression`: whether payloads of `DUMP` are compressed.
    pub compression: Compression,
    /// `rdbchecksum`: whether snapshots end with a checksum, and that of a file is compared.
    pub snapshot_checksum: bool,
    /// `rdb-save-incremental-fsync`: whether a snapshot is synced while it is written.
    pub snapshot_syncs_in_steps: bool,
    /// `rdb-key-save-delay` in microseconds.
    pub key_save_delay_us: i64,
    /// `key-load-delay` in microseconds.
    pub key_load_delay_us: i64,
    /// `auto-aof-rewrite-percentage`: growth at which the log is rewritten; 0 for never.
    pub rewrite_percentage: u64,
    /// `auto-aof-rewrite-min-size`: bytes of the log from which growth counts.
    pub rewrite_bytes_min: u64,
    /// `save`: when a snapshot is due.
    pub save_points: Vec<SavePoint>,
    /// `stop-writes-on-bgsave-error`: whether writes are refused after a background save that
    /// failed.
    pub stops_writes_on_save_error: bool,
    /// `rdb-version-check`: whether `RESTORE` takes payloads of unknown versions.
    pub version_check: VersionCheck,
    /// `hll-sparse-max-bytes`: bytes beyond which the registers of a HyperLogLog are dense.
    pub sparse_hyperloglog_bytes_max: u64,
    /// `zset-max-listpack-entries`: members beyond which a sorted set is called a skip list.
    pub sorted_set_listpack_entries_max: u64,
    /// `zset-max-listpack-value`: bytes of a member beyond which a sorted set is called a skip
    /// list.
    pub sorted_set_listpack_value_bytes_max: usize,
    /// `stream-node-max-bytes` and `stream-node-max-entries`: limits of the nodes that a trimming
    /// with `~` removes as a whole.
    pub stream_node_limits: NodeLimits,
    /// `commandlog-*`: what is logged as slow (in microseconds), as a large request and as a large
    /// reply (in bytes), by [`LogKind`](crate::telemetry::command_log::LogKind).
    pub command_logs: [LogLimits; 3],
    /// `latency-monitor-threshold` in nanoseconds; `u64::MAX` is off.
    pub latency_ns_min: u64,
    /// `tracking-table-max-keys`: most keys that are tracked; 0 for no limit.
    pub tracked_keys_max: u64,
    /// `latency-tracking`: whether the times of commands are kept in histograms.
    pub latency_tracking: bool,
    /// Whom a script that runs for long makes hear `-BUSY`.
    pub busy_reply: BusyReply,
    /// `lua-enable-insecure-api`: whether scripts have `getfenv`, `setfenv` and `newproxy`.
    pub offers_withdrawn_functions: bool,
    /// `rcu-quiescent`.
    pub quiescent: Quiescent,
    /// `lazyfree-lazy-user-flush`: whether `FLUSHALL` and `FLUSHDB` free in the background by
    /// default.
    pub lazy_user_flush: bool,
    /// `notify-keyspace-events`: classes of events that are published, and to which channels.
    pub published_events: EventClass,
}

impl Settings {
    /// True if uses of keys are counted.
    #[must_use]
    pub fn counts_uses(&self) -> bool {
        let order = self.eviction_policy.map(|policy| policy.order);
        order == Some(EvictionOrder::LeastFrequentlyUsed)
    }

    /// Microseconds that eviction takes before other clients have their turn, by Valkey's formula.
    #[must_use]
    pub fn eviction_us_max(&self) -> u64 {
        match self.eviction_tenacity {
            tenacity @ ..=10 => 50 * u64::from(tenacity),
            tenacity @ 11..100 => (500.0 * 1.15_f64.powi(tenacity as i32 - 10)) as u64,
            100.. => u64::MAX,
        }
    }

    /// True if events of a class are published.
    #[must_use]
    #[inline]
    pub fn publishes(&self, class: EventClass) -> bool {
        self.published_events.intersects(class)
            && self.published_events.intersects(EventClass::KEYSPACE | EventClass::KEYEVENT)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            requirepass: Vec::new(),
            new_users_have_channels: false,
            users_file: None,
            acl_log_entries_max: 128,
            maxmemory_bytes: 0,
            expire_effort: 1,
            defrag: DefragSettings::default(),
            import_mode: false,
            eviction_policy: None,
            eviction_samples: 5,
            eviction_tenacity: 10,
            evicts_lazily: true,
            frequency_scale: FrequencyScale { log_factor: 10, decay_minutes: 1 },
            retired_bytes_max: 0,
            bulk_bytes_max: 512 * 1024 * 1024,
            availability_zone: String::new(),
            debug_command: AllowedClients::Nobody,
            protected_configs: AllowedClients::Nobody,
            hash_listpack_entries_max: 512,
            hash_listpack_value_bytes_max: 64,
            list_listpack_size_max: -2,
            set_intset_entries_max: 512,
            set_listpack_entries_max: 128,
            set_listpack_value_bytes_max: 64,
            compression: Compression::Lzf,
            snapshot_checksum: true,
            snapshot_syncs_in_steps: true,
            key_save_delay_us: 0,
            key_load_delay_us: 0,
            rewrite_percentage: 0,
            rewrite_bytes_min: 0,
            save_points: Vec::new(),
            stops_writes_on_save_error: true,
            version_check: VersionCheck::Strict,
            sparse_hyperloglog_bytes_max: 3000,
            sorted_set_listpack_entries_max: 128,
            sorted_set_listpack_value_bytes_max: 64,
            stream_node_limits: NodeLimits { bytes: 4096, entries: 100 },
            command_logs: [10_000, 1 << 20, 1 << 20]
                .map(|value_min| LogLimits { value_min, entries_max: 128 }),
            latency_ns_min: u64::MAX,
            tracked_keys_max: 1_000_000,
            latency_tracking: true,
            busy_reply: BusyReply { after_us: 5_000_000, is_for_all: false },
            offers_withdrawn_functions: false,
            quiescent: Quiescent::Iteration,
            lazy_user_flush: true,
            published_events: EventClass::empty(),
        }
    }
}
