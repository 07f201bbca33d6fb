//! `INFO`.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::memory::{Usage, ratio};
use super::save::last_save_s;
use crate::REDIS_VERSION;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::config::ServerConfig;
use crate::pubsub::TopicKind;
use crate::shared::clients::Client;
use crate::shared::{PauseMode, ProcessorTime, Shared};
use crate::slots::waiter::Waiter;
use crate::telemetry::spread::Spread;
use crate::telemetry::stats::{Counter, WorkerStats};

/// The sections in their order; those that `default` leaves out are marked. `debug` is shown only
/// when it is named, as in Valkey.
const SECTIONS: &[(&str, bool)] = &[
    ("server", true),
    ("tls", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("modules", true),
    ("commandstats", false),
    ("errorstats", true),
    ("latencystats", false),
    ("cluster", true),
    ("keyspace", true),
    ("workers", false),
    ("debug", false),
];

pub(super) fn info(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let wanted: Vec<String> =
        cx.args.iter().skip(1).map(|name| String::from_utf8_lossy(name).to_lowercase()).collect();
    let is_wanted = |name: &str, is_default: bool| {
        let says = |word: &str| wanted.iter().any(|wanted| wanted == word);
        says(name)
            || (name == "modules" && says("module_list"))
            || (name != "debug" && (says("all") || says("everything")))
            || (is_default && (wanted.is_empty() || says("default")))
    };
    let (mut text, facts) = (String::new(), Facts::default());
    for &(name, is_default) in SECTIONS {
        if is_wanted(name, is_default) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            section(cx, name, &facts, &mut text);
        }
    }
    cx.reply.verbatim(*b"txt", text);
    Ok(())
}

/// Facts of the host, asked for at the first use: most sections need none.
#[derive(Default)]
struct Facts(OnceCell<BTreeMap<&'static str, String>>);

impl Facts {
    fn get(&self, shared: &Shared, name: &str) -> String {
        let all = self.0.get_or_init(|| shared.host.facts().into_iter().collect());
        all.get(name).cloned().unwrap_or_default()
    }
}

/// Writes lines of `name:value`.
struct Lines<'t>(&'t mut String);

impl Lines<'_> {
    fn title(&mut self, title: &str) {
        // Writing into a string cannot fail, here and below.
        let _ = write!(self.0, "# {title}\r\n");
    }

    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

fn sum(shared: &Shared, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
    shared.stats.iter().map(|stats| counter(stats).value()).fold(0, u64::wrapping_add)
}

/// Seconds of what took them; -1 for what there was not yet, as in Valkey.
fn seconds(seconds: Option<u64>) -> i64 {
    seconds.map_or(-1, |seconds| seconds as i64)
}

/// Fields of the append-only file; returns whether there is one.
fn append_only(shared: &Shared, lines: &mut Lines<'_>) -> bool {
    let facts = shared.host.append_only();
    let rewrites = shared.rewrites.figures(shared.clock.unix_us());
    lines.line("aof_enabled", u8::from(facts.is_some()));
    lines.line("aof_rewrite_in_progress", u8::from(rewrites.is_running));
    lines.line("aof_rewrite_scheduled", u8::from(rewrites.is_scheduled));
    lines.line("aof_last_rewrite_time_sec", seconds(rewrites.last_duration_s));
    lines.line("aof_current_rewrite_time_sec", seconds(rewrites.current_duration_s));
    lines.line("aof_last_bgrewrite_status", if rewrites.has_failed { "err" } else { "ok" });
    lines.line("aof_rewrites", rewrites.count);
    lines.line("aof_rewrites_consecutive_failures", rewrites.failures);
    let has_failed = facts.is_some_and(|facts| facts.has_failed);
    lines.line("aof_last_write_status", if has_failed { "err" } else { "ok" });
    lines.line("aof_last_cow_size", rewrites.held_bytes_peak);
    let Some(facts) = facts else { return false };
    lines.line("aof_current_size", facts.current_bytes);
    lines.line("aof_base_size", facts.base_bytes);
    lines.line("aof_pending_rewrite", u8::from(rewrites.is_scheduled));
    lines.line("aof_buffer_length", 0);
    lines.line("aof_pending_bio_fsync", u8::from(facts.is_syncing));
    lines.line("aof_delayed_fsync", facts.delayed_sync_count);
    true
}

fn section(cx: &mut SessionCx<'_, '_>, name: &str, facts: &Facts, text: &mut String) {
    let mut lines = Lines(text);
    let shared = &**cx.shared;
    let fact = |name: &str| facts.get(shared, name);
    match name {
        "server" => server(cx, &mut lines, &fact),
        "tls" => tls(&mut lines, &fact),
        "clients" => clients(shared, &mut lines),
        "memory" => memory(shared, &mut lines, &fact),
        "persistence" => persistence(shared, &mut lines),
        "stats" => stats(shared, &mut lines),
        "latencystats" => latency_stats(shared, &mut lines),
        "replication" => {
            lines.title("Replication");
            lines.line("role", "master");
            lines.line("connected_slaves", 0);
            lines.line("replicas_waiting_psync", 0);
            lines.line("master_failover_state", "no-failover");
            lines.line("master_replid", fact("replication_id"));
            lines.line("master_replid2", "0".repeat(40));
            lines.line("master_repl_offset", 0);
            lines.line("second_repl_offset", -1);
            lines.line("repl_backlog_active", 0);
            let configuration = shared.configuration();
            let backlog = configuration.value("repl-backlog-size").unwrap_or_default();
            lines.line("repl_backlog_size", backlog);
            lines.line("repl_backlog_first_byte_offset", 0);
            lines.line("repl_backlog_histlen", 0);
        }
        "cpu" => {
            lines.title("CPU");
            let ProcessorTime { user_s, system_s } = shared.host.processor_time();
            lines.line("used_cpu_sys", format_args!("{system_s:.6}"));
            lines.line("used_cpu_user", format_args!("{user_s:.6}"));
            // No work is given to child processes.
            lines.line("used_cpu_sys_children", "0.000000");
            lines.line("used_cpu_user_children", "0.000000");
            // Each worker is what Valkey's main thread and its I/O threads are together.
            for (index, stats) in shared.stats.iter().enumerate() {
                let name = match index {
                    0 => "used_active_time_main_thread".into(),
                    _ => format!("used_active_time_io_thread_{index}"),
                };
                let busy_us = stats.busy_us.value();
                let value = format_args!("{}.{:06}", busy_us / 1_000_000, busy_us % 1_000_000);
                lines.line(&name, value);
            }
        }
        "modules" => lines.title("Modules"),
        "commandstats" => command_stats(shared, &mut lines),
        "errorstats" => {
            lines.title("Errorstats");
            for (code, count) in shared.error_counts() {
                lines.line(&format!("errorstat_{code}"), format_args!("count={count}"));
            }
        }
        "cluster" => {
            lines.title("Cluster");
            lines.line("cluster_enabled", 0);
        }
        "workers" => workers(shared, &mut lines),
        "debug" => debug(shared, &mut lines),
        _ => keyspace(cx, &mut lines),
    }
}

/// Certificates in use, as Valkey shows them, and the handshakes of clients.
fn tls(lines: &mut Lines<'_>, fact: &impl Fn(&str) -> String) {
    lines.title("TLS");
    for certificate in ["server", "client", "ca"] {
        let or = |value: String, none: &str| if value.is_empty() { none.into() } else { value };
        let serial = format!("tls_{certificate}_cert_serial");
        lines.line(&serial, or(fact(&serial), "none"));
        let expiry = format!("tls_{certificate}_cert_expires_in_seconds");
        lines.line(&expiry, or(fact(&expiry), "0"));
    }
    for handshakes in ["pending", "completed", "failed", "dropped"] {
        let name = format!("tls_handshakes_{handshakes}");
        lines.line(&name, fact(&name));
    }
}

/// Figures of the event loops, of all workers together.
fn debug(shared: &Shared, lines: &mut Lines<'_>) {
    lines.title("Debug");
    lines.line("eventloop_duration_aof_sum", sum(shared, |stats| &stats.log_us));
    let periodic_us = sum(shared, |stats| &stats.sweep_us) + sum(shared, |stats| &stats.tick_us);
    lines.line("eventloop_duration_cron_sum", periodic_us);
    let greatest = |spread: fn(&WorkerStats) -> &Spread| {
        let of_workers =
            shared.stats.iter().map(|stats| spread(stats).values().percentile_ns(100.0));
        of_workers.max().unwrap_or(0)
    };
    lines.line("eventloop_duration_max", greatest(|stats| &stats.spreads.iteration_ns) / 1000);
    let commands_max = greatest(|stats| &stats.spreads.iteration_commands);
    lines.line("eventloop_cmd_per_cycle_max", commands_max);
}

/// Section that Redis does not have: a line per worker.
fn workers(shared: &Shared, lines: &mut Lines<'_>) {
    lines.title("Workers");
    for (index, stats) in shared.stats.iter().enumerate() {
        lines.line(
            &format!("worker{index}"),
            format_args!(
                "connections={},commands={},parked={},moved={}",
                stats.connections.value(),
                stats.commands_processed.value(),
                stats.parked.value(),
                stats.moved_connections.value()
            ),
        );
    }
    for (index, stats) in shared.stats.iter().enumerate() {
        let spreads = &stats.spreads;
        for (figure, spread, unit) in [
            ("iteration_usec", &spreads.iteration_ns, 1000.0),
            ("iteration_commands", &spreads.iteration_commands, 1.0),
            ("lane_delay_usec", shared.lanes.delay_ns(index), 1000.0),
            ("park_usec", &spreads.park_ns, 1000.0),
            ("held_usec", &spreads.held_ns, 1000.0),
        ] {
            let values = spread.values();
            let percentile = |percent| values.percentile_ns(percent) as f64 / unit;
            lines.line(
                &format!("worker{index}_{figure}"),
                format_args!(
                    "count={},p50={:.3},p99={:.3},p99.9={:.3}",
                    values.calls,
                    percentile(50.0),
                    percentile(99.0),
                    percentile(99.9)
                ),
            );
        }
    }
}

fn server(cx: &SessionCx<'_, '_>, lines: &mut Lines<'_>, fact: &dyn Fn(&str) -> String) {
    let configuration = cx.shared.configuration();
    let config = configuration.server();
    let setting = |name: &str| configuration.value(name).unwrap_or_default().to_owned();
    let uptime_s = cx.worker.now_us().saturating_sub(cx.shared.started_us) / 1_000_000;
    lines.title("Server");
    lines.line("redis_version", REDIS_VERSION);
    lines.line("server_name", "tidemill");
    lines.line("tidemill_version", env!("CARGO_PKG_VERSION"));
    lines.line("redis_git_sha1", fact("commit"));
    lines.line("server_mode", "standalone");
    lines.line("os", fact("os"));
    lines.line("arch_bits", usize::BITS);
    lines.line("monotonic_clock", "POSIX clock_gettime");
    lines.line("multiplexing_api", "epoll");
    lines.line("process_id", fact("process_id"));
    lines.line("process_supervised", fact("process_supervised"));
    lines.line("run_id", fact("run_id"));
    lines.line("tcp_port", if config.port > 0 { config.port } else { config.tls_port });
    lines.line("server_time_usec", cx.shared.clock.wall_us());
    lines.line("uptime_in_seconds", uptime_s);
    lines.line("uptime_in_days", uptime_s / 86_400);
    lines.line("hz", 10);
    lines.line("configured_hz", setting("hz"));
    lines.line("lru_clock", cx.worker.now_s() & 0x00ff_ffff);
    lines.line("executable", fact("executable"));
    lines.line("config_file", fact("config_file"));
    lines.line("availability_zone", setting("availability-zone"));
    for (index, listener) in listeners(&config).iter().enumerate() {
        lines.line(&format!("listener{index}"), listener);
    }
    lines.line("worker_threads", cx.shared.worker_count());
    lines.line("rcu_flavour", fact("rcu_flavour"));
    lines.line("rcu_quiescent", setting("rcu-quiescent"));
    lines.line("rcu_read_section", setting("rcu-read-section"));
}

/// Lines of the server's listeners.
fn listeners(config: &ServerConfig) -> Vec<String> {
    let mut lines = Vec::new();
    let binds: String = config.bind.iter().map(|bind| format!(",bind={bind}")).collect();
    if config.port > 0 {
        lines.push(format!("name=tcp{binds},port={}", config.port));
    }
    lines.extend(config.unix_socket.iter().map(|path| format!("name=unix,bind={path}")));
    if config.tls_port > 0 {
        lines.push(format!("name=tls{binds},port={}", config.tls_port));
    }
    lines
}

fn clients(shared: &Shared, lines: &mut Lines<'_>) {
    let all = shared.clients.all();
    let is_postponed = |client: &Client| client.is_postponed.load(Ordering::Relaxed);
    let is_blocked = |client: &Client| client.waiter().is_some() || is_postponed(client);
    let blocked = all.iter().filter(|client| is_blocked(client)).count();
    let watched: Vec<u64> = all.iter().map(|client| client.watched_keys()).collect();
    lines.title("Clients");
    lines.line("connected_clients", all.len());
    lines.line("cluster_connections", 0);
    lines.line("maxclients", shared.configuration().value("maxclients").unwrap_or_default());
    // The largest now: what a client piled up earlier is not remembered.
    let largest = |bytes: fn(&Client) -> &AtomicU64| {
        let all = all.iter().map(|client| bytes(client).load(Ordering::Relaxed));
        all.max().unwrap_or(0)
    };
    lines.line("client_recent_max_input_buffer", largest(|client| &client.pending_bytes));
    lines.line("client_recent_max_output_buffer", largest(|client| &client.unsent_bytes));
    lines.line("blocked_clients", blocked);
    lines.line("tracking_clients", shared.tracking.clients());
    lines.line("pubsub_clients", all.iter().filter(|client| client.is_subscriber()).count());
    lines.line("watching_clients", watched.iter().filter(|&&keys| keys > 0).count());
    lines.line("total_watched_keys", watched.iter().sum::<u64>());
    let waiters: Vec<_> = all.iter().filter_map(|client| client.waiter()).collect();
    let timed = waiters.iter().filter(|waiter| waiter.block.timeout_us > 0).count();
    let keys = |is_counted: fn(&Waiter) -> bool| {
        let counted = waiters.iter().filter(|waiter| is_counted(waiter));
        let keys = counted.flat_map(|waiter| waiter.keys().map(|key| (waiter.database, key)));
        keys.collect::<BTreeSet<(usize, &[u8])>>().len()
    };
    lines.line("clients_in_timeout_table", timed);
    lines.line("total_blocking_keys", keys(|_| true));
    let on_nokey = keys(|waiter| waiter.block.ends_without_key);
    lines.line("total_blocking_keys_on_nokey", on_nokey);
    let (reason, actions, left_ms) = match shared.pause_now() {
        None => ("none", "none", 0),
        Some((PauseMode::Write, left_ms)) => ("client_pause", "write", left_ms),
        Some((PauseMode::All, left_ms)) => ("client_pause", "all", left_ms),
    };
    lines.line("paused_reason", reason);
    lines.line("paused_actions", actions);
    lines.line("paused_timeout_milliseconds", left_ms);
}

/// The copied pages of Valkey's child are here what a save keeps from being freed.
fn persistence(shared: &Shared, lines: &mut Lines<'_>) {
    let figures = shared.snapshots.figures(shared.clock.unix_us(), shared.changes());
    let is_running = figures.current_duration_s.is_some();
    let percent = 100.0 * ratio(figures.saved_keys, figures.total_keys);
    let (held_bytes, held_peak_bytes) = match figures.is_writing {
        true => (shared.keyspace.cut_held_bytes(), shared.keyspace.cut_held_peak_bytes()),
        false => (0, 0),
    };
    lines.title("Persistence");
    let loading = shared.loading.figures();
    lines.line("loading", u8::from(loading.is_some()));
    lines.line("async_loading", 0);
    lines.line("current_cow_peak", held_peak_bytes);
    lines.line("current_cow_size", held_bytes);
    lines.line("current_cow_size_age", 0);
    lines.line("current_fork_perc", format_args!("{percent:.2}"));
    lines.line("current_save_keys_processed", figures.saved_keys);
    lines.line("current_save_keys_total", figures.total_keys);
    lines.line("rdb_changes_since_last_save", figures.unsaved_changes);
    lines.line("rdb_bgsave_in_progress", u8::from(is_running));
    lines.line("rdb_last_save_time", last_save_s(shared));
    lines.line("rdb_last_bgsave_status", if figures.last_succeeded { "ok" } else { "err" });
    lines.line("rdb_last_bgsave_time_sec", seconds(figures.last_duration_s));
    lines.line("rdb_current_bgsave_time_sec", seconds(figures.current_duration_s));
    lines.line("rdb_saves", figures.save_count);
    lines.line("rdb_last_cow_size", figures.held_bytes_peak);
    lines.line("rdb_last_load_keys_expired", figures.expired_keys);
    lines.line("rdb_last_load_keys_loaded", figures.loaded_keys);
    let is_logged = append_only(shared, lines);
    if let Some(loading) = loading {
        lines.line("loading_start_time", loading.started_s);
        lines.line("loading_total_bytes", loading.total_bytes);
        lines.line("loading_rdb_used_mem", 0);
        lines.line("loading_loaded_bytes", loading.loaded_bytes);
        lines.line("loading_loaded_perc", format_args!("{:.2}", loading.percent()));
        let now_s = shared.clock.unix_us() / 1_000_000;
        lines.line("loading_eta_seconds", loading.left_s(now_s));
    }
    let is_saved = !shared.settings().save_points.is_empty();
    lines.line("restart_loses_all_data", u8::from(!is_logged && !is_saved));
}

/// Bytes as Redis shows them to people.
fn human(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

fn memory(shared: &Shared, lines: &mut Lines<'_>, fact: &dyn Fn(&str) -> String) {
    let usage = Usage::now(shared);
    let (live, used, rss) = (usage.live, usage.used, usage.resident);
    let allocator = usage.allocator;
    let system: u64 = fact("total_system_memory").parse().unwrap_or(0);
    let limit = shared.settings().maxmemory_bytes;
    lines.title("Memory");
    lines.line("used_memory", used);
    lines.line("used_memory_human", human(used));
    lines.line("used_memory_rss", rss);
    lines.line("used_memory_rss_human", human(rss));
    lines.line("used_memory_peak", usage.peak);
    lines.line("used_memory_peak_human", human(usage.peak));
    lines.line("used_memory_peak_perc", format_args!("{:.2}%", 100.0 * ratio(used, usage.peak)));
    lines.line("used_memory_overhead", used.saturating_sub(live));
    lines.line("used_memory_startup", 0);
    lines.line("used_memory_dataset", live);
    lines.line("used_memory_dataset_perc", format_args!("{:.2}%", 100.0 * ratio(live, used)));
    lines.line("used_memory_retired", shared.retired_bytes());
    let retired_max = shared.retired_bytes_max(&shared.settings());
    lines.line("used_memory_retired_max", retired_max * shared.worker_count() as u64);
    lines.line("allocator_allocated", allocator.allocated_bytes);
    lines.line("allocator_active", allocator.active_bytes);
    lines.line("allocator_resident", allocator.resident_bytes);
    lines.line("allocator_muzzy", allocator.muzzy_bytes);
    lines.line("total_system_memory", system);
    lines.line("total_system_memory_human", human(system));
    script_memory(shared, lines);
    lines.line("maxmemory", limit);
    lines.line("maxmemory_human", human(limit));
    let configuration = shared.configuration();
    lines.line("maxmemory_policy", configuration.value("maxmemory-policy").unwrap_or_default());
    for (name, part, whole) in [
        ("allocator_frag", allocator.active_bytes, allocator.allocated_bytes),
        ("allocator_rss", allocator.resident_bytes, allocator.active_bytes),
        ("rss_overhead", rss, allocator.resident_bytes),
        ("mem_fragmentation", rss, used),
    ] {
        lines.line(&format!("{name}_ratio"), format_args!("{:.2}", ratio(part, whole)));
        lines.line(&format!("{name}_bytes"), part as i64 - whole as i64);
    }
    lines.line("mem_not_counted_for_evict", usage.not_counted());
    lines.line("mem_clients_normal", usage.clients);
    lines.line("mem_allocator", "jemalloc");
    lines.line("active_defrag_running", shared.defrag.effort_percent());
    let flushed = shared.lazily_freed();
    lines.line("lazyfree_pending_objects", flushed.keys + flushed.values);
    lines.line("lazyfree_pending_bytes", flushed.bytes);
    lines.line("lazyfreed_objects", flushed.done);
}

/// Fields about scripts and functions; interpreters of all workers together.
fn script_memory(shared: &Shared, lines: &mut Lines<'_>) {
    let script_bytes = shared.scripts.cache.bytes();
    let functions = shared.scripts.functions.snapshot();
    let vm = |of: fn(&WorkerStats) -> u64| shared.stats.iter().map(of).sum::<u64>();
    let vm_eval = vm(|stats| stats.script_bytes.value());
    let vm_functions = vm(|stats| stats.function_bytes.value());
    lines.line("used_memory_lua", vm_eval);
    lines.line("used_memory_vm_eval", vm_eval);
    lines.line("used_memory_lua_human", human(vm_eval));
    lines.line("used_memory_scripts_eval", script_bytes);
    lines.line("number_of_cached_scripts", shared.scripts.cache.count());
    lines.line("number_of_functions", functions.function_count());
    lines.line("number_of_libraries", functions.libraries().len());
    lines.line("used_memory_vm_functions", vm_functions);
    lines.line("used_memory_vm_total", vm_eval + vm_functions);
    lines.line("used_memory_vm_total_human", human(vm_eval + vm_functions));
    lines.line("used_memory_functions", functions.bytes());
    let scripts = script_bytes + functions.bytes() as u64;
    lines.line("used_memory_scripts", scripts);
    lines.line("used_memory_scripts_human", human(scripts));
}

fn stats(shared: &Shared, lines: &mut Lines<'_>) {
    lines.title("Stats");
    for (name, counter) in [
        ("total_connections_received", (|stats| &stats.connections_accepted) as CounterOf),
        ("total_commands_processed", |stats| &stats.commands_processed),
        ("total_net_input_bytes", |stats| &stats.input_bytes),
        ("total_net_output_bytes", |stats| &stats.output_bytes),
        ("rejected_connections", |stats| &stats.rejected_connections),
        ("total_reads_processed", |stats| &stats.reads),
        ("total_writes_processed", |stats| &stats.writes),
        ("eventloop_cycles", |stats| &stats.iterations),
        ("eventloop_duration_sum", |stats| &stats.busy_us),
        ("coalesced_waits", |stats| &stats.coalesced_waits),
        ("expired_keys", |stats| &stats.expired_keys),
        ("expired_fields", |stats| &stats.expired_fields),
        ("expired_time_cap_reached_count", |stats| &stats.sweeps_cut_short),
        ("keyspace_hits", |stats| &stats.keyspace_hits),
        ("keyspace_misses", |stats| &stats.keyspace_misses),
        ("total_error_replies", |stats| &stats.error_replies),
        ("evicted_keys", |stats| &stats.evicted_keys),
        ("evicted_clients", |stats| &stats.evicted_clients),
        ("client_query_buffer_limit_disconnections", |stats| &stats.query_limit_disconnections),
        ("client_output_buffer_limit_disconnections", |stats| &stats.output_limit_disconnections),
        ("parked_sessions", |stats| &stats.parked),
    ] {
        lines.line(name, sum(shared, counter));
    }
    let rates = shared.rates.rates();
    lines.line("instantaneous_ops_per_sec", rates.commands.round());
    lines.line("instantaneous_input_kbps", format_args!("{:.2}", rates.input_bytes / 1024.0));
    lines.line("instantaneous_output_kbps", format_args!("{:.2}", rates.output_bytes / 1024.0));
    let cycles = rates.iterations;
    lines.line("instantaneous_eventloop_cycles_per_sec", cycles.round());
    let cycle_us = if cycles > 0.0 { rates.busy_us / cycles } else { 0.0 };
    lines.line("instantaneous_eventloop_duration_usec", cycle_us.round());
    let commands_ns: u64 = shared
        .commands
        .iter()
        .flat_map(|(id, _)| shared.stats.iter().map(move |stats| stats.command(id).ns.value()))
        .sum();
    lines.line("eventloop_duration_cmd_sum", commands_ns / 1000);
    let stale =
        ratio(sum(shared, |stats| &stats.swept_expired), sum(shared, |stats| &stats.swept_entries));
    lines.line("expired_stale_perc", format_args!("{:.2}", 100.0 * stale));
    let sweep_ms = sum(shared, |stats| &stats.sweep_us) / 1000;
    lines.line("expire_cycle_cpu_milliseconds", sweep_ms);
    denials(shared, lines);
    lines.line("evicted_scripts", shared.scripts.cache.evictions());
    defragmentation(shared, lines);
    let (exceeded_us, now_us) = shared.memory_limit.exceeded_us(shared.clock.monotonic_us());
    lines.line("total_eviction_exceeded_time", exceeded_us / 1000);
    lines.line("current_eviction_exceeded_time", now_us / 1000);
    for (name, kind) in [
        ("pubsub_channels", TopicKind::Channel),
        ("pubsub_patterns", TopicKind::Pattern),
        ("pubsubshard_channels", TopicKind::ShardChannel),
    ] {
        lines.line(name, shared.pubsub.count(kind));
    }
    lines.line("tracking_total_keys", shared.tracking.totals.keys());
    lines.line("tracking_total_items", shared.tracking.totals.items());
    lines.line("tracking_total_prefixes", shared.tracking.prefixes.count());
    lines.line("migrate_cached_sockets", shared.host.kept_migration_connections());
    lines.line("total_forks", 0);
    let cut_us = shared.snapshots.figures(0, 0).last_cut_us;
    lines.line("latest_fork_usec", cut_us);
}

fn denials(shared: &Shared, lines: &mut Lines<'_>) {
    lines.line("acl_access_denied_auth", sum(shared, |stats| &stats.denied_authentications));
    lines.line("acl_access_denied_cmd", sum(shared, |stats| &stats.denied_commands));
    lines.line("acl_access_denied_key", sum(shared, |stats| &stats.denied_keys));
    lines.line("acl_access_denied_channel", sum(shared, |stats| &stats.denied_channels));
    lines.line("acl_access_denied_tls_cert", sum(shared, |stats| &stats.denied_certificates));
    lines.line("acl_access_denied_db", sum(shared, |stats| &stats.denied_databases));
}

fn defragmentation(shared: &Shared, lines: &mut Lines<'_>) {
    for (name, counter) in [
        ("active_defrag_hits", (|stats| &stats.defrag_hits) as CounterOf),
        ("active_defrag_misses", |stats| &stats.defrag_misses),
        ("active_defrag_key_hits", |stats| &stats.defrag_key_hits),
        ("active_defrag_key_misses", |stats| &stats.defrag_key_misses),
    ] {
        lines.line(name, sum(shared, counter));
    }
    let (defrag_us, running_us) = shared.defrag.times_us(shared.clock.monotonic_us());
    lines.line("total_active_defrag_time", defrag_us / 1000);
    lines.line("current_active_defrag_time", running_us / 1000);
}

type CounterOf = fn(&WorkerStats) -> &Counter;

fn command_stats(shared: &Shared, lines: &mut Lines<'_>) {
    lines.title("Commandstats");
    for (id, command) in shared.commands.iter() {
        let of = |pick: fn(&crate::telemetry::stats::CommandStats) -> &Counter| {
            shared.stats.iter().map(|stats| pick(stats.command(id)).value()).sum::<u64>()
        };
        let (calls, ns) = (of(|stats| &stats.calls), of(|stats| &stats.ns));
        let (rejected, failed) = (of(|stats| &stats.rejected), of(|stats| &stats.failed));
        if calls + rejected == 0 {
            continue;
        }
        let us = ns / 1000;
        let per_call = if calls == 0 { 0.0 } else { ns as f64 / 1000.0 / calls as f64 };
        lines.line(
            &format!("cmdstat_{}", command.name),
            format_args!(
                "calls={calls},usec={us},usec_per_call={per_call:.2},rejected_calls={rejected},\
                 failed_calls={failed}"
            ),
        );
    }
}

/// Percentiles of the times of all commands that ran, in microseconds.
fn latency_stats(shared: &Shared, lines: &mut Lines<'_>) {
    lines.title("Latencystats");
    if !shared.settings().latency_tracking {
        return;
    }
    let configuration = shared.configuration();
    let percents = configuration.value("latency-tracking-info-percentiles").unwrap_or_default();
    for (id, command) in shared.commands.iter() {
        let times = shared.command_times(id);
        if times.calls == 0 {
            continue;
        }
        let percentile = |percent: &str| {
            let us = times.percentile_ns(percent.parse().unwrap_or(0.0)) as f64 / 1000.0;
            format!("p{percent}={us:.3}")
        };
        let values: Vec<String> = percents.split_whitespace().map(percentile).collect();
        lines.line(&format!("latency_percentiles_usec_{}", command.name), values.join(","));
    }
}

fn keyspace(cx: &mut SessionCx<'_, '_>, lines: &mut Lines<'_>) {
    lines.title("Keyspace");
    let shared = cx.shared;
    for database in shared.keyspace.written(0..usize::MAX) {
        cx.reader.section(&mut |section| {
            let keys = shared.keyspace.key_count(database, section);
            let expires = shared.keyspace.expiring_count(database, section);
            let volatile = shared.keyspace.volatile_count(database, section);
            if keys > 0 {
                let average_ms = if expires > 0 { average_ttl_ms(shared, database) } else { 0 };
                lines.line(
                    &format!("db{database}"),
                    format_args!(
                        "keys={keys},expires={expires},avg_ttl={average_ms},\
 keys_with_volatile_items={volatile}"
                    ),
                );
            }
        });
    }
}

/// Milliseconds that the keys which expire have left on average, as the workers' last sweeps saw
/// them.
fn average_ttl_ms(shared: &Shared, database: usize) -> u64 {
    let (mut keys, mut ms) = (0, 0_u128);
    for stats in &shared.stats {
        let Some(seen) = stats.times_to_live(database) else { continue };
        keys += u128::from(seen.keys.value());
        ms += u128::from(seen.ms.value());
    }
    ms.checked_div(keys).unwrap_or(0) as u64
}
