//! What the server is started with: directives from a file and the command line.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use tidemill_engine::settings::Settings;
use tidemill_host::CpuSet;
use tidemill_host::placement::PlacementOptions;
use tidemill_resp::request::split_arguments;

/// The RCU flavour of the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlavourName {
    Qsbr,
    Memb,
    Mb,
    Bp,
    Signal,
}

/// Everything that the server is started with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) binds: Vec<String>,
    pub(crate) unix_socket: Option<PathBuf>,
    pub(crate) unix_socket_mode: u32,
    pub(crate) backlog: i32,
    pub(crate) keepalive_s: u32,
    pub(crate) timeout_s: u64,
    pub(crate) clients_max: usize,
    pub(crate) is_protected: bool,
    pub(crate) database_count: usize,
    pub(crate) flavour: FlavourName,
    pub(crate) placement: PlacementOptions,
    pub(crate) settings: Settings,
    pub(crate) pid_file: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            port: 6379,
            binds: vec!["127.0.0.1".into(), "-::1".into()],
            unix_socket: None,
            unix_socket_mode: 0,
            backlog: 511,
            keepalive_s: 300,
            timeout_s: 0,
            clients_max: 10_000,
            is_protected: true,
            database_count: 16,
            flavour: FlavourName::Qsbr,
            placement: PlacementOptions::default(),
            settings: Settings::default(),
            pid_file: None,
        }
    }
}

/// Where a directive stands.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// In a file, at a line.
    File { path: PathBuf, line: usize },
    /// On the command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(formatter, "{}, line {line}", path.display()),
            Origin::CommandLine => formatter.write_str("command line"),
        }
    }
}

/// A directive that does not do.
#[derive(Clone, Debug)]
pub(crate) struct OptionError {
    origin: Origin,
    directive: String,
    reason: String,
}

impl fmt::Display for OptionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OptionError { origin, directive, reason } = self;
        write!(formatter, "{origin}: '{directive}': {reason}")
    }
}

/// Reads the arguments of `tidemill server`: an optional file, then `--directive value ...`.
pub(crate) fn from_arguments(arguments: Vec<String>) -> Result<Options, OptionError> {
    let mut options = Options::default();
    let mut arguments: VecDeque<String> = arguments.into();
    if arguments.front().is_some_and(|first| !first.starts_with("--")) {
        let path = PathBuf::from(arguments.pop_front().unwrap_or_default());
        from_file(&mut options, &path)?;
    }
    while let Some(name) = arguments.pop_front() {
        let error = |reason: &str| OptionError {
            origin: Origin::CommandLine,
            directive: name.clone(),
            reason: reason.to_owned(),
        };
        let Some(directive) = name.strip_prefix("--") else {
            return Err(error("a directive begins with '--'"));
        };
        let mut values = Vec::new();
        while arguments.front().is_some_and(|next| !next.starts_with("--")) {
            values.extend(arguments.pop_front());
        }
        apply(&mut options, directive, &values).map_err(|reason| error(&reason))?;
    }
    Ok(options)
}

fn from_file(options: &mut Options, path: &PathBuf) -> Result<(), OptionError> {
    let error = |line: usize, directive: &str, reason: String| OptionError {
        origin: Origin::File { path: path.clone(), line },
        directive: directive.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path)
        .map_err(|failure| error(0, "", format!("cannot be read: {failure}")))?;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words = split_arguments(line.as_bytes())
            .map_err(|failure| error(index + 1, line, failure.to_string()))?;
        let words: Vec<String> =
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        if let Some((directive, values)) = words.split_first() {
            apply(options, directive, values).map_err(|reason| error(index + 1, line, reason))?;
        }
    }
    Ok(())
}

/// Directives of Redis that mean nothing here and do no harm: what they tune does not exist.
const WITHOUT_MEANING: &[&str] = &[
    "activedefrag",
    "activerehashing",
    "always-show-logo",
    "aof-load-truncated",
    "aof-rewrite-incremental-fsync",
    "aof-timestamp-enabled",
    "aof-use-rdb-preamble",
    "appenddirname",
    "appendfilename",
    "appendfsync",
    "auto-aof-rewrite-min-size",
    "auto-aof-rewrite-percentage",
    "client-output-buffer-limit",
    "dbfilename",
    "dir",
    "disable-thp",
    "dynamic-hz",
    "hll-sparse-max-bytes",
    "hz",
    "io-threads",
    "jemalloc-bg-thread",
    "latency-tracking",
    "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire",
    "lazyfree-lazy-server-del",
    "lazyfree-lazy-user-del",
    "list-compress-depth",
    "locale-collate",
    "logfile",
    "loglevel",
    "no-appendfsync-on-rewrite",
    "notify-keyspace-events",
    "oom-score-adj",
    "oom-score-adj-values",
    "proc-title-template",
    "rdb-del-sync-files",
    "rdb-save-incremental-fsync",
    "rdbchecksum",
    "rdbcompression",
    "repl-backlog-size",
    "repl-disable-tcp-nodelay",
    "repl-diskless-load",
    "repl-diskless-sync",
    "repl-diskless-sync-delay",
    "repl-diskless-sync-max-replicas",
    "replica-lazy-flush",
    "replica-priority",
    "replica-read-only",
    "replica-serve-stale-data",
    "acllog-max-len",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "set-proc-title",
    "stop-writes-on-bgsave-error",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "syslog-enabled",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
];

fn apply(options: &mut Options, directive: &str, values: &[String]) -> Result<(), String> {
    let name = directive.to_ascii_lowercase();
    let one = || match values {
        [value] => Ok(value.as_str()),
        _ => Err("wrong number of arguments".to_owned()),
    };
    let settings = &mut options.settings;
    match name.as_str() {
        "port" => options.port = number(one()?, 0, 65_535)? as u16,
        "bind" => options.binds = values.to_vec(),
        "unixsocket" => options.unix_socket = Some(one()?.into()),
        "unixsocketperm" => {
            options.unix_socket_mode = u32::from_str_radix(one()?, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
                .ok_or("argument must be an octal number up to 777")?;
        }
        "tcp-backlog" => options.backlog = number(one()?, 0, i64::from(i32::MAX))? as i32,
        "tcp-keepalive" => options.keepalive_s = number(one()?, 0, i64::from(i32::MAX))? as u32,
        "timeout" => options.timeout_s = number(one()?, 0, i64::from(i32::MAX))? as u64,
        "maxclients" => options.clients_max = number(one()?, 1, i64::from(u32::MAX))? as usize,
        "protected-mode" => options.is_protected = boolean(one()?)?,
        "databases" => options.database_count = number(one()?, 1, 1 << 16)? as usize,
        "requirepass" => settings.requirepass = one()?.as_bytes().to_vec(),
        "maxmemory" => settings.maxmemory_bytes = memory(one()?)?,
        "proto-max-bulk-len" => {
            settings.bulk_bytes_max = memory(one()?)?.max(1 << 20) as usize;
        }
        "enable-debug-command" => settings.enable_debug_command = debug_command(one()?)?,
        "hash-max-listpack-entries" | "hash-max-ziplist-entries" => {
            settings.hash_listpack_entries_max = number(one()?, 0, i64::MAX)? as u64;
        }
        "hash-max-listpack-value" | "hash-max-ziplist-value" => {
            settings.hash_listpack_value_bytes_max = memory(one()?)? as usize;
        }
        "list-max-listpack-size" | "list-max-ziplist-size" => {
            settings.list_listpack_size_max =
                number(one()?, i64::from(i32::MIN), i64::from(i32::MAX))?;
        }
        "slowlog-log-slower-than" => settings.slowlog_us_min = number(one()?, -1, i64::MAX)?,
        "slowlog-max-len" => settings.slowlog_entries_max = number(one()?, 0, i64::MAX)? as usize,
        "latency-monitor-threshold" => {
            settings.latency_ms_min = number(one()?, 0, i64::MAX)? as u64;
        }
        "lazyfree-lazy-user-flush" => settings.lazy_user_flush = boolean(one()?)?,
        "pidfile" => {
            options.pid_file =
                Some(one()?.into()).filter(|path: &PathBuf| !path.as_os_str().is_empty())
        }
        "rcu-flavour" => options.flavour = flavour(one()?)?,
        "cpu-placement" => options.placement.mode = one()?.parse()?,
        "worker-threads" => {
            options.placement.worker_count = match number(one()?, 0, 1024)? {
                0 => None,
                count => Some(count as usize),
            };
        }
        "workers-per-core" => {
            options.placement.workers_per_core = number(one()?, 1, 2)? as usize;
        }
        "server-cpulist" => options.placement.server_cpus = cpus(one()?)?,
        "bio-cpulist" => options.placement.background_cpus = cpus(one()?)?,
        "bgsave-cpulist" => options.placement.snapshot_cpus = cpus(one()?)?,
        "aof-rewrite-cpulist" => options.placement.journal_rewrite_cpus = cpus(one()?)?,
        _ => return promise(&name, values),
    }
    Ok(())
}

/// Directives that promise what does not exist yet stop the start, unless their value says that it is not wanted.
fn promise(name: &str, values: &[String]) -> Result<(), String> {
    let value = values.join(" ");
    let is_not_wanted = match name {
        "save" | "aclfile" | "replicaof" | "slaveof" | "masterauth" | "primaryauth" => {
            value.is_empty()
        }
        "appendonly" | "cluster-enabled" | "daemonize" => value.eq_ignore_ascii_case("no"),
        "supervised" => value.eq_ignore_ascii_case("no") || value.eq_ignore_ascii_case("auto"),
        "tls-port" => value == "0",
        "maxmemory-policy" => value.eq_ignore_ascii_case("noeviction"),
        _ if WITHOUT_MEANING.contains(&name) => true,
        _ => return Err("Bad directive or wrong number of arguments".into()),
    };
    if is_not_wanted {
        Ok(())
    } else {
        Err(format!("'{name} {value}' is not supported by this version of Tidemill"))
    }
}

fn number(text: &str, least: i64, most: i64) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(_) => Err(format!("argument must be between {least} and {most} inclusive")),
        Err(_) => Err("argument couldn't be parsed into an integer".into()),
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

fn debug_command(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "local" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be one of yes, no, local".into()),
    }
}

/// Bytes, with Redis's units: `k` is 1000, `kb` is 1024, and so on.
fn memory(text: &str) -> Result<u64, String> {
    let digits = text.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err("argument must be a memory value".into()),
    };
    let amount: u64 =
        text[..digits].parse().map_err(|_| "argument must be a memory value".to_owned())?;
    amount.checked_mul(unit).ok_or_else(|| "argument must be a memory value".into())
}

fn flavour(text: &str) -> Result<FlavourName, String> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "qsbr" => FlavourName::Qsbr,
        "memb" => FlavourName::Memb,
        "mb" => FlavourName::Mb,
        "bp" => FlavourName::Bp,
        "signal" => FlavourName::Signal,
        _ => return Err("argument must be one of qsbr, memb, mb, bp, signal".into()),
    })
}

fn cpus(text: &str) -> Result<Option<CpuSet>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    CpuSet::parse_list(text).map(Some).map_err(|error| error.to_string())
}

/// The address of a `bind`, and whether it may be missing on this host (a leading `-`).
pub(crate) fn bind_address(text: &str) -> Result<(IpAddr, bool), String> {
    let (text, optional) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let address = match text {
        "*" => "0.0.0.0",
        "::*" => "::",
        text => text,
    };
    let parsed = address.parse().map_err(|_| format!("'{text}' is not an IP address"))?;
    Ok((parsed, optional))
}
