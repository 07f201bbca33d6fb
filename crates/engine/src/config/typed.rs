//! Configuration as the server and the engine read it: values with their types and units.

use tidemill_rdb::VersionCheck;
use tidemill_rdb::encode::Compression;
use tidemill_store::value::stream::NodeLimits;

use super::configuration::Configuration;
use super::value::parse_memory;
use crate::commit::EventClass;
use crate::settings::{
    AllowedClients, BusyReply, DefragSettings, EvictionPolicy, Quiescent, SavePoint, Settings,
};
use crate::telemetry::command_log::LogLimits;
use crate::use_stamp::FrequencyScale;

/// Values that the server reads. Taken from a [`Configuration`] at start and after a change; shared
/// as an `Arc`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// TCP port; 0 for none.
    pub port: u16,
    /// TCP port for TLS; 0 for none.
    pub tls_port: u16,
    /// Keys, certificates and parameters of TLS.
    pub tls: TlsConfig,
    /// Addresses to listen on.
    pub bind: Vec<String>,
    /// Path of the Unix socket.
    pub unix_socket: Option<String>,
    /// Group of the Unix socket, by name or number.
    pub unix_socket_group: Option<String>,
    /// Permissions of the Unix socket; `None` leaves them to the umask.
    pub unix_socket_permissions: Option<u32>,
    /// True if clients of other hosts are refused while there is no password.
    pub protected_mode: bool,
    /// Connections the kernel queues.
    pub tcp_backlog: i32,
    /// Seconds before the kernel probes an idle client; 0 never.
    pub tcp_keepalive_seconds: u32,
    /// Seconds before an idle client is disconnected; 0 never.
    pub timeout_seconds: u32,
    /// Most clients at once.
    pub clients_max: usize,
    /// Limits of unsent replies.
    pub output_buffer_limits: OutputBufferLimits,
    /// Most bytes of one client's requests.
    pub query_buffer_bytes_max: usize,
    /// Most bytes of all clients together; 0 is no limit.
    pub client_memory_bytes_max: u64,
    /// Number of databases.
    pub databases: usize,
    /// True if the server detaches from its terminal.
    pub daemonize: bool,
    /// File with the process's number.
    pub pid_file: Option<String>,
    /// Supervisor to notify: `no`, `systemd`, `upstart` or `auto`.
    pub supervised: String,
    /// `debug`, `verbose`, `notice`, `warning` or `nothing`.
    pub log_level: String,
    /// File to log to; `None` for standard output.
    pub log_file: Option<String>,
    /// `legacy`, `logfmt` or `json`.
    pub log_format: String,
    /// `legacy`, `iso8601` or `milliseconds`.
    pub log_time_format: String,
    /// Logging to syslog.
    pub syslog: Syslog,
    /// Meaning of `oom_score`.
    pub oom_score_mode: OomScoreMode,
    /// Score by which the kernel chooses whom to kill when memory runs out.
    pub oom_score: i32,
    /// Text that the seeds of hashes are made of; `None` for random ones.
    pub hash_seed: Option<String>,
    /// `auto`, `off`, `logical`, `physical` or `split`.
    pub cpu_placement: String,
    /// Workers; 0 leaves the number to the placement.
    pub worker_threads: usize,
    /// Workers on one physical core.
    pub workers_per_core: usize,
    /// Time slice of a worker, in microseconds; 0 leaves it to the kernel.
    pub worker_slice_us: u32,
    /// Pause of a worker under load before it waits for events, in microseconds; 0 for none.
    pub wakeup_coalescing_us: u64,
    /// True if background threads run under `SCHED_BATCH`.
    pub background_is_batch: bool,
    /// True if the allocator has a thread that returns freed memory to the system.
    pub purges_in_background: bool,
    /// `default`, `prefer`, `bind` or `interleave`.
    pub memory_policy: String,
    /// True if workers ask for huge pages.
    pub asks_for_huge_pages: bool,
    /// `qsbr`, `memb`, `mb`, `bp` or `signal`.
    pub rcu_flavour: String,
    /// True if a read section spans an iteration of the event loop, for the flavours that have
    /// sections.
    pub rcu_section_spans_iteration: bool,
    /// The append-only file.
    pub append_only: AppendOnlyConfig,
    /// The working directory.
    pub directory: String,
    /// Name of the snapshot in the working directory.
    pub snapshot_file: String,
    /// Bytes of files up to which data is loaded at a start before clients are accepted.
    pub unseen_load_bytes_max: u64,
    /// Port of the metrics; 0 for none.
    pub metrics_port: u16,
    /// Addresses of the metrics.
    pub metrics_bind: Vec<String>,
}

/// Logging to syslog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// True if lines go there too.
    pub is_enabled: bool,
    /// First word of each line.
    pub name: String,
    /// `user`, or `local0` to `local7`.
    pub facility: String,
}

/// Meaning of the score by which the kernel chooses the process to kill when memory runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomScoreMode {
    /// None: the process keeps the score that it has.
    Kept,
    /// Added to the score that the process was started with.
    Relative,
    /// In its place.
    Absolute,
}

/// Keys, certificates and parameters of TLS.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsConfig {
    /// File of the server's certificate and its chain.
    pub certificate_file: Option<String>,
    /// File of the private key.
    pub key_file: Option<String>,
    /// Password of the key file.
    pub key_password: Option<String>,
    /// File of the authorities of clients.
    pub authorities_file: Option<String>,
    /// Directory of the authorities of clients.
    pub authorities_directory: Option<String>,
    /// File of the certificate that outgoing connections would show.
    pub outgoing_certificate_file: Option<String>,
    /// Demand for certificates of clients.
    pub client_certificates: ClientCertificates,
    /// Field of a client's certificate that names its user.
    pub certificate_user: CertificateUser,
    /// Versions, in words.
    pub protocols: Vec<String>,
    /// Cipher suites of TLS 1.2 as OpenSSL's list; empty for all.
    pub ciphers: String,
    /// Cipher suites of TLS 1.3; empty for all.
    pub cipher_suites: String,
    /// True if the server's order of cipher suites counts.
    pub prefers_own_ciphers: bool,
    /// True if sessions may be resumed.
    pub keeps_sessions: bool,
    /// Most sessions kept; 0 is no limit.
    pub sessions_max: usize,
    /// Seconds that a session is kept.
    pub session_seconds: u32,
    /// Seconds between looks at the files; 0 never.
    pub reload_seconds: u32,
}

/// Demand for certificates of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Not asked for.
    None,
    /// Asked for, and judged if there is one.
    Optional,
    /// Required.
    Required,
}

/// Field of a client's certificate that names its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUser {
    /// None: clients authenticate by commands.
    Off,
    /// Common name of the subject.
    CommonName,
    /// Any URI among the alternative names.
    Uri,
}

/// Configuration of the append-only file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendOnlyConfig {
    /// True if there is one.
    pub is_enabled: bool,
    /// `always`, `everysec` or `no`.
    pub fsync: String,
    /// First part of its files' names.
    pub file_name: String,
    /// Directory of its files.
    pub directory_name: String,
    /// Name of the snapshot that may be beside it.
    pub snapshot_name: String,
    /// True if a tail that is no whole command is cut off at start.
    pub may_cut_tail: bool,
    /// True if commands are annotated with their time.
    pub annotates_time: bool,
    /// True if there is no sync every second while a snapshot or a base is written.
    pub spares_syncs: bool,
    /// True if the files that a base replaces are kept.
    pub keeps_history: bool,
    /// True if a base is a snapshot, not commands.
    pub base_is_snapshot: bool,
    /// True if a base is synced while it is written.
    pub syncs_base_in_steps: bool,
}

/// Limits of a class of clients; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// Bytes at which a client is disconnected.
    pub hard_bytes: u64,
    /// Bytes at which it is after `soft_seconds`.
    pub soft_bytes: u64,
    /// Seconds it may stay above `soft_bytes`.
    pub soft_seconds: u64,
}

/// Limits of all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimits {
    /// Clients that send commands.
    pub normal: OutputBufferLimit,
    /// Replicas.
    pub replica: OutputBufferLimit,
    /// Subscribers.
    pub pubsub: OutputBufferLimit,
}

impl Configuration {
    /// Values that the server reads.
    #[must_use]
    pub fn server(&self) -> ServerConfig {
        ServerConfig {
            port: self.number("port"),
            tls_port: self.number("tls-port"),
            tls: self.tls(),
            bind: self.words("bind"),
            unix_socket: self.path("unixsocket"),
            unix_socket_group: self.path("unixsocketgroup"),
            unix_socket_permissions: u32::from_str_radix(self.text("unixsocketperm"), 8)
                .ok()
                .filter(|&permissions| permissions > 0),
            protected_mode: self.flag("protected-mode"),
            tcp_backlog: self.number("tcp-backlog"),
            tcp_keepalive_seconds: self.number("tcp-keepalive"),
            timeout_seconds: self.number("timeout"),
            clients_max: self.number("maxclients"),
            output_buffer_limits: self.output_buffer_limits(),
            query_buffer_bytes_max: self.number("client-query-buffer-limit"),
            client_memory_bytes_max: self.client_memory_bytes_max(),
            databases: self.number("databases"),
            daemonize: self.flag("daemonize"),
            pid_file: self.path("pidfile"),
            supervised: self.text("supervised").to_owned(),
            log_level: self.text("loglevel").to_owned(),
            log_file: self.path("logfile"),
            log_format: self.text("log-format").to_owned(),
            log_time_format: self.text("log-timestamp-format").to_owned(),
            syslog: Syslog {
                is_enabled: self.flag("syslog-enabled"),
                name: self.text("syslog-ident").to_owned(),
                facility: self.text("syslog-facility").to_owned(),
            },
            oom_score_mode: match self.text("oom-score-adj") {
                "no" => OomScoreMode::Kept,
                "absolute" => OomScoreMode::Absolute,
                _ => OomScoreMode::Relative,
            },
            oom_score: self.words("oom-score-adj-values")[0].parse().expect("it was checked"),
            hash_seed: self.path("hash-seed"),
            cpu_placement: self.text("cpu-placement").to_owned(),
            worker_threads: self.number("worker-threads"),
            workers_per_core: self.number("workers-per-core"),
            worker_slice_us: self.number("worker-slice-us"),
            wakeup_coalescing_us: self.number("wakeup-coalescing-us"),
            background_is_batch: self.text("background-scheduling") == "batch",
            purges_in_background: self.flag("jemalloc-bg-thread"),
            memory_policy: self.text("memory-policy").to_owned(),
            asks_for_huge_pages: self.flag("huge-pages"),
            rcu_flavour: self.text("rcu-flavour").to_owned(),
            rcu_section_spans_iteration: self.text("rcu-read-section") == "iteration",
            append_only: AppendOnlyConfig {
                is_enabled: self.flag("appendonly"),
                fsync: self.text("appendfsync").to_owned(),
                file_name: self.text("appendfilename").to_owned(),
                directory_name: self.text("appenddirname").to_owned(),
                snapshot_name: self.text("dbfilename").to_owned(),
                may_cut_tail: self.flag("aof-load-truncated"),
                annotates_time: self.flag("aof-timestamp-enabled"),
                spares_syncs: self.flag("no-appendfsync-on-rewrite"),
                keeps_history: self.flag("aof-disable-auto-gc"),
                base_is_snapshot: self.flag("aof-use-rdb-preamble"),
                syncs_base_in_steps: self.flag("aof-rewrite-incremental-fsync"),
            },
            directory: self.text("dir").to_owned(),
            snapshot_file: self.text("dbfilename").to_owned(),
            unseen_load_bytes_max: self.number("loading-process-events-interval-bytes"),
            metrics_port: self.number("metrics-port"),
            metrics_bind: self.words("metrics-bind"),
        }
    }

    fn tls(&self) -> TlsConfig {
        TlsConfig {
            certificate_file: self.path("tls-cert-file"),
            key_file: self.path("tls-key-file"),
            key_password: self.path("tls-key-file-pass"),
            authorities_file: self.path("tls-ca-cert-file"),
            authorities_directory: self.path("tls-ca-cert-dir"),
            outgoing_certificate_file: self.path("tls-client-cert-file"),
            client_certificates: match self.text("tls-auth-clients") {
                "no" => ClientCertificates::None,
                "optional" => ClientCertificates::Optional,
                _ => ClientCertificates::Required,
            },
            certificate_user: match self.text("tls-auth-clients-user") {
                "CN" => CertificateUser::CommonName,
                "URI" => CertificateUser::Uri,
                _ => CertificateUser::Off,
            },
            protocols: self.words("tls-protocols"),
            ciphers: self.text("tls-ciphers").to_owned(),
            cipher_suites: self.text("tls-ciphersuites").to_owned(),
            prefers_own_ciphers: self.flag("tls-prefer-server-ciphers"),
            keeps_sessions: self.flag("tls-session-caching"),
            sessions_max: self.number("tls-session-cache-size"),
            session_seconds: self.number("tls-session-cache-timeout"),
            reload_seconds: self.number("tls-auto-reload-interval"),
        }
    }

    fn defrag(&self) -> DefragSettings {
        DefragSettings {
            is_on: self.flag("activedefrag"),
            ignored_bytes: self.number("active-defrag-ignore-bytes"),
            lower_percent: self.number("active-defrag-threshold-lower"),
            upper_percent: self.number("active-defrag-threshold-upper"),
            effort_min: self.number("active-defrag-cycle-min"),
            effort_max: self.number("active-defrag-cycle-max"),
            step_us: self.number("active-defrag-cycle-us"),
            elements_max: self.number("active-defrag-max-scan-fields"),
        }
    }

    /// Values that commands read.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            requirepass: self.text("requirepass").as_bytes().to_vec(),
            new_users_have_channels: self.text("acl-pubsub-default") == "allchannels",
            users_file: self.path("aclfile"),
            acl_log_entries_max: self.number("acllog-max-len"),
            maxmemory_bytes: self.number("maxmemory"),
            expire_effort: self.number("active-expire-effort"),
            defrag: self.defrag(),
            import_mode: self.flag("import-mode"),
            eviction_policy: EvictionPolicy::of_name(self.text("maxmemory-policy")),
            eviction_samples: self.number("maxmemory-samples"),
            eviction_tenacity: self.number("maxmemory-eviction-tenacity"),
            evicts_lazily: self.flag("lazyfree-lazy-eviction"),
            frequency_scale: FrequencyScale {
                log_factor: self.number("lfu-log-factor"),
                decay_minutes: self.number("lfu-decay-time"),
            },
            retired_bytes_max: self.number("rcu-retired-max"),
            bulk_bytes_max: self.number("proto-max-bulk-len"),
            availability_zone: self.text("availability-zone").to_owned(),
            debug_command: self.clients("enable-debug-command"),
            protected_configs: self.clients("enable-protected-configs"),
            hash_listpack_entries_max: self.number("hash-max-listpack-entries"),
            hash_listpack_value_bytes_max: self.number("hash-max-listpack-value"),
            list_listpack_size_max: self.number("list-max-listpack-size"),
            set_intset_entries_max: self.number("set-max-intset-entries"),
            set_listpack_entries_max: self.number("set-max-listpack-entries"),
            set_listpack_value_bytes_max: self.number("set-max-listpack-value"),
            compression: match self.flag("rdbcompression") {
                true => Compression::Lzf,
                false => Compression::None,
            },
            snapshot_checksum: self.flag("rdbchecksum"),
            snapshot_syncs_in_steps: self.flag("rdb-save-incremental-fsync"),
            key_save_delay_us: self.number("rdb-key-save-delay"),
            key_load_delay_us: self.number("key-load-delay"),
            save_points: self.save_points(),
            rewrite_percentage: self.number("auto-aof-rewrite-percentage"),
            rewrite_bytes_min: self.number("auto-aof-rewrite-min-size"),
            stops_writes_on_save_error: self.flag("stop-writes-on-bgsave-error"),
            version_check: match self.text("rdb-version-check") {
                "relaxed" => VersionCheck::Relaxed,
                _ => VersionCheck::Strict,
            },
            sparse_hyperloglog_bytes_max: self.number("hll-sparse-max-bytes"),
            sorted_set_listpack_entries_max: self.number("zset-max-listpack-entries"),
            sorted_set_listpack_value_bytes_max: self.number("zset-max-listpack-value"),
            stream_node_limits: NodeLimits {
                bytes: self.number("stream-node-max-bytes"),
                entries: self.number("stream-node-max-entries"),
            },
            command_logs: self.command_logs(),
            latency_ns_min: match self.number::<u64>("latency-monitor-threshold") {
                0 => u64::MAX,
                ms => ms.saturating_mul(1_000_000),
            },
            busy_reply: self.busy_reply(),
            offers_withdrawn_functions: self.flag("lua-enable-insecure-api"),
            tracked_keys_max: self.number("tracking-table-max-keys"),
            latency_tracking: self.flag("latency-tracking"),
            quiescent: match self.text("rcu-quiescent") {
                "batch" => Quiescent::Batch,
                "command" => Quiescent::Command,
                _ => Quiescent::Iteration,
            },
            lazy_user_flush: self.flag("lazyfree-lazy-user-flush"),
            published_events: EventClass::of_letters(self.text("notify-keyspace-events")),
        }
    }

    fn busy_reply(&self) -> BusyReply {
        BusyReply {
            after_us: self.number::<u64>("busy-reply-threshold").saturating_mul(1_000),
            is_for_all: self.flag("busy-reply-all"),
        }
    }

    fn command_logs(&self) -> [LogLimits; 3] {
        [
            self.log_limits(
                "commandlog-execution-slower-than",
                "commandlog-slow-execution-max-len",
            ),
            self.log_limits("commandlog-request-larger-than", "commandlog-large-request-max-len"),
            self.log_limits("commandlog-reply-larger-than", "commandlog-large-reply-max-len"),
        ]
    }

    fn log_limits(&self, value: &str, entries: &str) -> LogLimits {
        // -1 logs nothing.
        let value_min = u64::try_from(self.number::<i64>(value)).unwrap_or(u64::MAX);
        LogLimits { value_min, entries_max: self.number(entries) }
    }

    fn save_points(&self) -> Vec<SavePoint> {
        let words: Vec<u64> = self
            .text("save")
            .split_whitespace()
            .map(|word| word.parse().expect("the value was checked"))
            .collect();
        let point = |pair: &[u64]| SavePoint { seconds: pair[0], changes: pair[1] };
        words.chunks_exact(2).map(point).collect()
    }

    fn text(&self, name: &str) -> &str {
        self.stored(name).expect("a name of the table")
    }

    fn clients(&self, name: &str) -> AllowedClients {
        match self.text(name) {
            "yes" => AllowedClients::All,
            "local" => AllowedClients::Local,
            _ => AllowedClients::Nobody,
        }
    }

    fn flag(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> N {
        let value = self.text(name).parse().ok();
        value.expect("the table's bounds lie within the type")
    }

    fn words(&self, name: &str) -> Vec<String> {
        self.text(name).split_whitespace().map(str::to_owned).collect()
    }

    fn path(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|path| !path.is_empty()).map(str::to_owned)
    }

    /// Bytes that all clients together may take; 0 for no limit.
    #[must_use]
    pub fn client_memory_bytes_max(&self) -> u64 {
        // Less would not let clients talk at all.
        const LEAST: u64 = 128 << 10;
        let text = self.text("maxmemory-clients");
        let bytes: u64 = match text.strip_suffix('%') {
            Some(percent) => {
                let percent: u128 = percent.parse().expect("the value was checked");
                (u128::from(self.number::<u64>("maxmemory")) * percent / 100) as u64
            }
            None => text.parse().expect("the value was checked"),
        };
        if bytes == 0 { 0 } else { bytes.max(LEAST) }
    }

    fn output_buffer_limits(&self) -> OutputBufferLimits {
        let words: Vec<&str> = self.text("client-output-buffer-limit").split(' ').collect();
        let number = |index: usize| {
            let value = words.get(index).and_then(|word| parse_memory(word));
            value.expect("the value was checked")
        };
        let limit = |class: usize| OutputBufferLimit {
            hard_bytes: number(class * 4 + 1),
            soft_bytes: number(class * 4 + 2),
            soft_seconds: number(class * 4 + 3),
        };
        OutputBufferLimits { normal: limit(0), replica: limit(1), pubsub: limit(2) }
    }
}
