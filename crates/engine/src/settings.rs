//! The settings that commands look at, as one immutable snapshot.
//!
//! The configuration (file, command line, `CONFIG SET`) makes a new snapshot at every change; a worker picks it up at its
//! next boundary, so that reading a setting costs nothing shared.

/// How often a worker announces a quiescent state, for flavours in which readers announce.
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

/// One snapshot of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `requirepass`: the default user's password; empty when none is needed.
    pub requirepass: Vec<u8>,
    /// `maxmemory` in bytes; 0 is no limit.
    pub maxmemory_bytes: u64,
    /// `proto-max-bulk-len` in bytes.
    pub bulk_bytes_max: usize,
    /// `enable-debug-command`: whether `DEBUG` runs.
    pub enable_debug_command: bool,
    /// `hash-max-listpack-entries`: fields beyond which a hash is called a hash table.
    pub hash_listpack_entries_max: u64,
    /// `hash-max-listpack-value`: bytes of a field or value beyond which a hash is called a hash table.
    pub hash_listpack_value_bytes_max: usize,
    /// `list-max-listpack-size`: elements (or, when negative, a class of bytes) beyond which a list is a quicklist.
    pub list_listpack_size_max: i64,
    /// `slowlog-log-slower-than` in microseconds; negative is off.
    pub slowlog_us_min: i64,
    /// `slowlog-max-len`.
    pub slowlog_entries_max: usize,
    /// `latency-monitor-threshold` in milliseconds; 0 is off.
    pub latency_ms_min: u64,
    /// `rcu-quiescent`.
    pub quiescent: Quiescent,
    /// `lazyfree-lazy-user-flush`: whether `FLUSHALL` and `FLUSHDB` free in the background by default.
    pub lazy_user_flush: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            requirepass: Vec::new(),
            maxmemory_bytes: 0,
            bulk_bytes_max: 512 * 1024 * 1024,
            enable_debug_command: false,
            hash_listpack_entries_max: 512,
            hash_listpack_value_bytes_max: 64,
            list_listpack_size_max: -2,
            slowlog_us_min: 10_000,
            slowlog_entries_max: 128,
            latency_ms_min: 0,
            quiescent: Quiescent::Iteration,
            lazy_user_flush: true,
        }
    }
}
