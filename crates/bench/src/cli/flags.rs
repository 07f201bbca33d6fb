//! The flags of `tidemill bench`, declared once.
//!
//! Names, short forms and defaults are memtier's, so that command lines keep working; options that
//! memtier does not have are under headings of their own.

use std::path::PathBuf;

use clap::Parser;

/// Load generator for any Redis-protocol server, with memtier_benchmark's flags.
#[derive(Parser, Debug, Clone)]
#[command(
    name = "tidemill bench",
    disable_help_flag = true,
    disable_version_flag = true,
    infer_long_args = true,
    args_override_self = true,
    after_help = "Examples:\n  \
                  tidemill bench -h 127.0.0.1 -p 6379 --native\n  \
                  tidemill bench -p 6379 -t 1 -c 50 --pipeline 16 --ratio 1:10 --test-time 10 \
                  --warmup 2\n  \
                  tidemill bench -p 6379 --rate 50000 --test-time 30 --json-out-file run.json\n  \
                  tidemill bench -p 6379 --command 'HSET __key__ field __data__' --key-maximum \
                  100000\n\n\
                  Exit codes: 0 the run completed; 1 it completed with lost connections, wrong \
                  values or unanswered requests; 2 a wrong option; 3 the server cannot be \
                  reached; 130 ended by Ctrl-C (the report is still printed)."
)]
pub(crate) struct Flags {
    /// Server address
    #[arg(
        short = 'h',
        long = "host",
        visible_short_alias = 's',
        visible_alias = "server",
        default_value = "localhost",
        help_heading = "Connection"
    )]
    pub host: String,
    /// Server port
    #[arg(short = 'p', long, default_value_t = 6379, help_heading = "Connection")]
    pub port: u16,
    /// Unix domain socket instead of host and port
    #[arg(short = 'S', long = "unix-socket", help_heading = "Connection")]
    pub unix_socket: Option<PathBuf>,
    /// IPv4 addresses only
    #[arg(short = '4', long = "ipv4", conflicts_with = "ipv6", help_heading = "Connection")]
    pub ipv4: bool,
    /// IPv6 addresses only
    #[arg(short = '6', long = "ipv6", help_heading = "Connection")]
    pub ipv6: bool,
    /// redis (no HELLO), resp2 or resp3
    #[arg(
        short = 'P',
        long,
        default_value = "redis",
        value_parser = ["redis", "resp2", "resp3"],
        help_heading = "Connection"
    )]
    pub protocol: String,
    /// Password, or user:password
    #[arg(short = 'a', long, value_name = "CREDENTIALS", help_heading = "Connection")]
    pub authenticate: Option<String>,
    /// redis://[user:password@]host[:port][/db], rediss:// for TLS, unix:///path
    #[arg(short = 'u', long, help_heading = "Connection")]
    pub uri: Option<String>,
    /// Database
    #[arg(long = "select-db", default_value_t = 0, help_heading = "Connection")]
    pub select_db: u32,
    /// TLS
    #[arg(long, help_heading = "Connection")]
    pub tls: bool,
    /// Client certificate, PEM
    #[arg(long, help_heading = "Connection")]
    pub cert: Option<PathBuf>,
    /// Client key, PEM
    #[arg(long, help_heading = "Connection")]
    pub key: Option<PathBuf>,
    /// Trusted certificates, PEM
    #[arg(long, help_heading = "Connection")]
    pub cacert: Option<PathBuf>,
    /// Accept any server certificate
    #[arg(long = "tls-skip-verify", help_heading = "Connection")]
    pub tls_skip_verify: bool,
    /// Allowed versions, comma separated: TLSv1.2, TLSv1.3
    #[arg(long = "tls-protocols", value_delimiter = ',', help_heading = "Connection")]
    pub tls_protocols: Vec<String>,
    /// Server name for SNI and verification
    #[arg(long, help_heading = "Connection")]
    pub sni: Option<String>,
    /// Redis Cluster: find the masters and route by slot
    #[arg(long = "cluster-mode", help_heading = "Connection")]
    pub cluster_mode: bool,
    /// Limit for connecting and the handshake in seconds, 0 for none
    #[arg(long = "connection-timeout", default_value_t = 0, help_heading = "Connection")]
    pub connection_timeout: u64,
    /// Reconnect each connection after this many requests (blocks its thread meanwhile)
    #[arg(long = "reconnect-interval", default_value_t = 0, help_heading = "Connection")]
    pub reconnect_interval: u64,
    /// Reconnect lost connections (counted and reported either way)
    #[arg(long = "reconnect-on-error", help_heading = "Connection")]
    pub reconnect_on_error: bool,
    /// Attempts in a row before giving a connection up, 0 unlimited
    #[arg(long = "max-reconnect-attempts", default_value_t = 0, help_heading = "Connection")]
    pub max_reconnect_attempts: u32,
    /// Factor between the pauses before attempts, the first of 1 ms, the longest of 30 s; 0 always
    /// 1 ms
    #[arg(long = "reconnect-backoff-factor", default_value_t = 0.0, help_heading = "Connection")]
    pub reconnect_backoff_factor: f64,
    /// Least pause before each connection is made, microseconds
    #[arg(
        long = "thread-conn-start-min-jitter-micros",
        default_value_t = 0,
        help_heading = "Connection"
    )]
    pub start_jitter_min_us: u64,
    /// Longest pause before each connection is made, microseconds
    #[arg(
        long = "thread-conn-start-max-jitter-micros",
        default_value_t = 0,
        help_heading = "Connection"
    )]
    pub start_jitter_max_us: u64,

    /// Load threads
    #[arg(short = 't', long, default_value_t = 4, help_heading = "Load")]
    pub threads: u32,
    /// Connections per thread
    #[arg(short = 'c', long, default_value_t = 50, help_heading = "Load")]
    pub clients: u32,
    /// Requests per connection, or allkeys [default: 10000]
    #[arg(short = 'n', long, conflicts_with = "test_time", help_heading = "Load")]
    pub requests: Option<String>,
    /// Seconds instead of a number of requests
    #[arg(long = "test-time", value_name = "SECS", help_heading = "Load")]
    pub test_time: Option<f64>,
    /// Requests on their way per connection
    #[arg(long, default_value_t = 1, help_heading = "Load")]
    pub pipeline: u32,
    /// SET:GET
    #[arg(long, default_value = "1:10", help_heading = "Load")]
    pub ratio: String,
    /// Scheduled requests per second and connection (evenly spaced open loop)
    #[arg(long = "rate-limiting", help_heading = "Load")]
    pub rate_limiting: Option<f64>,
    /// Runs
    #[arg(short = 'x', long = "run-count", default_value_t = 1, help_heading = "Load")]
    pub run_count: u32,
    /// Connections per thread at first
    #[arg(long = "clients-start", requires = "clients_step", help_heading = "Load")]
    pub clients_start: Option<u32>,
    /// Connections per thread added by each step
    #[arg(long = "clients-step", requires = "step_duration", help_heading = "Load")]
    pub clients_step: Option<u32>,
    /// Seconds per step
    #[arg(long = "step-duration", requires = "clients_start", help_heading = "Load")]
    pub step_duration: Option<f64>,

    /// Command with __key__, __data__, __rand_int__; may be given several times
    #[arg(long, help_heading = "Commands")]
    pub command: Vec<String>,
    /// Times in a row the preceding command is sent [default: 1]
    #[arg(long = "command-ratio", help_heading = "Commands")]
    pub command_ratio: Vec<u32>,
    /// Key pattern of the preceding command: R, S, P, G or Z [default: R]
    #[arg(long = "command-key-pattern", help_heading = "Commands")]
    pub command_key_pattern: Vec<String>,
    /// Group the report by command or line
    #[arg(
        long = "command-stats-breakdown",
        default_value = "command",
        value_parser = ["command", "line"],
        help_heading = "Commands"
    )]
    pub command_stats_breakdown: String,
    /// Keys per MGET instead of GET
    #[arg(long = "multi-key-get", default_value_t = 0, help_heading = "Commands")]
    pub multi_key_get: u32,
    /// Follow the cursor of --command="SCAN 0 ..." (pipeline 1)
    #[arg(long = "scan-incremental-iteration", help_heading = "Commands")]
    pub scan_incremental_iteration: bool,
    /// Continuations per cycle, 0 to the end
    #[arg(
        long = "scan-incremental-max-iterations",
        default_value_t = 0,
        help_heading = "Commands"
    )]
    pub scan_incremental_max_iterations: u32,
    /// Commands from a file of MONITOR output, used by --command=__monitor_line@__ or
    /// __monitor_lineN__
    #[arg(long = "monitor-input", help_heading = "Commands")]
    pub monitor_input: Option<PathBuf>,
    /// Order of __monitor_line@__: S sequential, R random
    #[arg(
        long = "monitor-pattern",
        default_value = "S",
        value_parser = ["S", "R"],
        help_heading = "Commands"
    )]
    pub monitor_pattern: String,

    /// Before the key number
    #[arg(long = "key-prefix", default_value = "memtier-", help_heading = "Keys")]
    pub key_prefix: String,
    /// Smallest key number
    #[arg(long = "key-minimum", default_value_t = 0, help_heading = "Keys")]
    pub key_minimum: u64,
    /// Largest key number
    #[arg(long = "key-maximum", default_value_t = 10_000_000, help_heading = "Keys")]
    pub key_maximum: u64,
    /// SET:GET, each R uniform, S sequential, P sequential in parts, G Gaussian, Z zipf
    #[arg(long = "key-pattern", default_value = "R:R", help_heading = "Keys")]
    pub key_pattern: String,
    /// Zipf exponent
    #[arg(long = "key-zipf-exp", default_value_t = 1.0, help_heading = "Keys")]
    pub key_zipf_exp: f64,
    /// Standard deviation of G [default: a sixth of the range]
    #[arg(long = "key-stddev", help_heading = "Keys")]
    pub key_stddev: Option<f64>,
    /// Centre of G [default: of the range]
    #[arg(long = "key-median", help_heading = "Keys")]
    pub key_median: Option<f64>,

    /// Value size in bytes
    #[arg(short = 'd', long = "data-size", default_value_t = 32, help_heading = "Values")]
    pub data_size: usize,
    /// Random bytes instead of x
    #[arg(short = 'R', long = "random-data", help_heading = "Values")]
    pub random_data: bool,
    /// Sizes MIN-MAX
    #[arg(long = "data-size-range", help_heading = "Values")]
    pub data_size_range: Option<String>,
    /// Sizes SIZE:WEIGHT,...
    #[arg(long = "data-size-list", help_heading = "Values")]
    pub data_size_list: Option<String>,
    /// With a range: R random, S growing with the key
    #[arg(
        long = "data-size-pattern",
        default_value = "R",
        value_parser = ["R", "S"],
        help_heading = "Values"
    )]
    pub data_size_pattern: String,
    /// Write and read at this offset (SETRANGE, GETRANGE)
    #[arg(long = "data-offset", default_value_t = 0, help_heading = "Values")]
    pub data_offset: u64,
    /// Expiry in seconds, MIN-MAX
    #[arg(long = "expiry-range", help_heading = "Values")]
    pub expiry_range: Option<String>,

    /// Every connection draws its own keys
    #[arg(long = "distinct-client-seed", help_heading = "Seeds")]
    pub distinct_client_seed: bool,
    /// Seed from the clock
    #[arg(long, help_heading = "Seeds")]
    pub randomize: bool,
    /// This seed
    #[arg(long, conflicts_with = "randomize", help_heading = "Seeds")]
    pub seed: Option<u64>,

    /// Text report to this file instead of standard output
    #[arg(short = 'o', long = "out-file", help_heading = "Output")]
    pub out_file: Option<PathBuf>,
    /// JSON report, memtier's names
    #[arg(long = "json-out-file", help_heading = "Output")]
    pub json_out_file: Option<PathBuf>,
    /// Requests and replies per connection as CSV
    #[arg(long = "client-stats", help_heading = "Output")]
    pub client_stats: Option<PathBuf>,
    /// HdrHistogram files: PREFIX_FULL_RUN_1.txt and so on
    #[arg(long = "hdr-file-prefix", help_heading = "Output")]
    pub hdr_file_prefix: Option<String>,
    /// No latency distribution in the text report
    #[arg(long = "hide-histogram", help_heading = "Output")]
    pub hide_histogram: bool,
    /// Percentiles of the report
    #[arg(
        long = "print-percentiles",
        value_delimiter = ',',
        default_value = "50,99,99.9",
        help_heading = "Output"
    )]
    pub print_percentiles: Vec<f64>,
    /// With several runs, report each
    #[arg(long = "print-all-runs", help_heading = "Output")]
    pub print_all_runs: bool,
    /// Print the settings first
    #[arg(long = "show-config", help_heading = "Output")]
    pub show_config: bool,

    /// Better defaults: 1 thread, distinct seeds, 5 s warm-up, 10 s run, no histogram listing
    #[arg(long, help_heading = "Beyond memtier")]
    pub native: bool,
    /// Seconds discarded at the beginning [default: 0, native 5]
    #[arg(long, help_heading = "Beyond memtier")]
    pub warmup: Option<f64>,
    /// Open loop: requests per second in all; RATE, or FROM..TO over the run, or SECOND:RATE,...
    /// from its beginning (the warm-up has the first rate)
    #[arg(long, conflicts_with = "rate_limiting", help_heading = "Beyond memtier")]
    pub rate: Option<String>,
    /// Distances of an open loop
    #[arg(
        long,
        default_value = "poisson",
        value_parser = ["poisson", "even"],
        help_heading = "Beyond memtier"
    )]
    pub arrivals: String,
    /// sliding: every reply makes room for a request; batch: all replies first
    #[arg(
        long,
        default_value = "sliding",
        value_parser = ["sliding", "batch"],
        help_heading = "Beyond memtier"
    )]
    pub window: String,
    /// Compare one reply in 1024 with what was written
    #[arg(long, help_heading = "Beyond memtier")]
    pub verify: bool,
    /// Bind load threads to these CPUs, in turn
    #[arg(long, value_delimiter = ',', help_heading = "Beyond memtier")]
    pub cpus: Vec<usize>,
    /// Process of the server [default: found by port on this machine]
    #[arg(long = "server-pid", help_heading = "Beyond memtier")]
    pub server_pid: Option<u32>,
    /// Write every key once before the run
    #[arg(long, help_heading = "Beyond memtier")]
    pub preload: bool,
    /// Delete keys with our prefix and number range afterwards
    #[arg(long, help_heading = "Beyond memtier")]
    pub cleanup: bool,
    /// Measure the client alone, against a built-in server that does nothing with as many threads
    #[arg(long, help_heading = "Beyond memtier")]
    pub calibrate: bool,
    /// Only serve: a do-nothing server with --threads that prints its port and ends with its
    /// standard input
    #[arg(long = "serve-nothing", help_heading = "Beyond memtier")]
    pub serve_nothing: bool,
    /// This help
    #[arg(long, action = clap::ArgAction::Help, help_heading = "Beyond memtier")]
    pub help: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Options of memtier_benchmark's manual, but for memcached, waiting for replicas, reading from
    /// them, imported data, exporters of live metrics, and repeating of failed requests.
    const MEMTIERS: &str = "h/host s/server p/port S/unix-socket 4/ipv4 6/ipv6 P/protocol \
        a/authenticate u/uri /tls /cert /key /cacert /tls-skip-verify /tls-protocols /sni \
        x/run-count /cluster-mode /help o/out-file /json-out-file /client-stats /hdr-file-prefix \
        /show-config /hide-histogram /print-percentiles /print-all-runs /command-stats-breakdown \
        n/requests /rate-limiting c/clients t/threads /test-time /clients-start /clients-step \
        /step-duration /ratio /pipeline /reconnect-interval /reconnect-on-error \
        /max-reconnect-attempts /reconnect-backoff-factor /connection-timeout \
        /thread-conn-start-min-jitter-micros /thread-conn-start-max-jitter-micros /multi-key-get \
        /select-db /distinct-client-seed /randomize /command /command-ratio /command-key-pattern \
        /monitor-input /monitor-pattern /scan-incremental-iteration \
        /scan-incremental-max-iterations d/data-size /data-offset R/random-data /data-size-range \
        /data-size-list /data-size-pattern /expiry-range /key-prefix /key-minimum /key-maximum \
        /key-pattern /key-zipf-exp /key-stddev /key-median";

    #[test]
    fn memtiers_options_are_there_under_their_names_and_letters() {
        let command = Flags::command();
        for option in MEMTIERS.split_whitespace() {
            let (letter, name) = option.split_once('/').unwrap();
            let has = |argument: &&clap::Arg| {
                let names = argument.get_long_and_visible_aliases().unwrap_or_default();
                let letters = argument.get_short_and_visible_aliases().unwrap_or_default();
                names.contains(&name) && letter.chars().all(|letter| letters.contains(&letter))
            };
            assert!(command.get_arguments().any(|argument| has(&argument)), "{option}");
        }
    }
}
