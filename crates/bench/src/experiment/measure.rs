//! One run: servers, idle connections, load, figures.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::settings::settings_from_words;
use crate::experiment::ab::Revert;
use crate::experiment::arm_change::ArmChange;
use crate::experiment::idle::hold_open;
use crate::experiment::marks;
use crate::experiment::metrics::metrics_of;
use crate::experiment::places::fill_places;
use crate::experiment::program::run_program;
use crate::experiment::record::Record;
use crate::experiment::server::Server;
use crate::experiment::spec::{Arm, Load, place};
use crate::experiment::subscribers::Subscribers;
use crate::load::command::split_words;
use crate::load::control::Control;
use crate::load::preload::{foreign_keys_warning, write_all_keys};
use crate::load::settings::{Endpoint, Target};
use crate::load::{KindResult, RunResult, Settings, Stop, run};
use crate::report::warnings;
use crate::stats::{lag_one_autocorrelation, steadiness};

/// Percentiles of the curves in the report.
pub const CURVE: [f64; 9] = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Place of a run in its experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunPlan<'a> {
    /// Block, from 0.
    pub block: usize,
    /// Directory of the reports, in which servers run.
    pub directory: &'a Path,
    /// True if events at the server are marked.
    pub marks: bool,
}

/// One run of an arm under a load, with servers of its own if the arm starts some, and with its
/// change of the machine in force meanwhile. Blocks.
///
/// # Errors
/// When a server does not start, the load cannot reach it, the flags are wrong, or the change can
/// not be made or undone.
pub(crate) fn measure_once(
    arm: &Arm,
    load: &Load,
    run: RunPlan<'_>,
    stop: &Stop,
) -> Result<Record, String> {
    let Some(mut change) = ArmChange::of(arm)? else {
        return measure(arm, load, run, stop);
    };
    let mut guard = Revert { change: &mut change, applied: false };
    guard.apply().map_err(|error| error.to_string())?;
    let record = measure(arm, load, run, stop);
    guard.revert().map_err(|error| error.to_string())?;
    record
}

fn measure(arm: &Arm, load: &Load, run: RunPlan<'_>, stop: &Stop) -> Result<Record, String> {
    let directory = std::fs::canonicalize(run.directory).map_err(|error| error.to_string())?;
    let servers = start_servers(arm, &directory)?;
    let mut held = Vec::new();
    for server in &servers {
        let streams = hold_open(server.port, arm.idle_connections);
        held.push(streams.map_err(|error| format!("idle connections: {error}"))?);
    }
    let subscribed = servers.iter().filter(|_| arm.subscribers > 0);
    let mut subscribers: Vec<Subscribers> = subscribed
        .map(|server| Subscribers::start(server.port, arm.subscribers))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("subscribers: {error}"))?;
    let record = Record {
        block: run.block,
        arm: arm.name.clone(),
        load: load.name.clone(),
        started_ms: 0,
        metrics: BTreeMap::new(),
        slots: Vec::new(),
        curve: Vec::new(),
        autocorrelation: None,
        tails: Vec::new(),
        marks: Vec::new(),
        warnings: Vec::new(),
    };
    let mut record = match &arm.program {
        Some(program) => by_program(program, arm, load, servers.first(), stop, record),
        None => by_load(arm, load, &servers, run.marks, stop, record),
    }?;
    if arm.subscribers > 0 {
        let rate: f64 = subscribers.iter().map(Subscribers::bytes_per_second).sum();
        record.metrics.insert("delivered_mb_per_second".into(), rate / 1e6);
        let lost: u64 = subscribers.iter_mut().map(Subscribers::end).sum();
        if lost > 0 {
            record.warnings.push(format!("{lost} subscribers were cut off"));
        }
    }
    Ok(record)
}

/// Starts the arm's servers; none when it measures one that runs already.
pub(super) fn start_servers(arm: &Arm, directory: &Path) -> Result<Vec<Server>, String> {
    let Some(line) = &arm.server else { return Ok(Vec::new()) };
    let words = fill_words(line, &[])?;
    let cpus = arm.cpus.as_deref().map(fill_places).transpose()?;
    let lists: Vec<&str> = cpus.as_deref().map_or(Vec::new(), |text| text.split(';').collect());
    let start = |instance: usize| {
        let list = lists.get(instance % lists.len().max(1)).copied();
        Server::start(&words, list, &arm.environment, directory)
    };
    (0..arm.instances).map(start).collect()
}

/// The words of a command with the places of this machine, the own program, and `values` filled in.
///
/// # Errors
/// When a quote is open or the machine lacks a place.
pub(super) fn fill_words(line: &str, values: &[(&str, String)]) -> Result<Vec<String>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut line = fill_places(line)?;
    for (name, value) in values {
        line = line.replace(name, value);
    }
    let fill = |word: &Vec<u8>| {
        String::from_utf8_lossy(word).replace("{tidemill}", &own.display().to_string())
    };
    let mut words: Vec<String> = split_words(&line)?.iter().map(fill).collect();
    // Servers run in the directory of the reports: a path from here would lead elsewhere there.
    if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
        let path = std::path::absolute(&*program).map_err(|error| error.to_string())?;
        *program = path.display().to_string();
    }
    Ok(words)
}

fn by_program(
    program: &str,
    arm: &Arm,
    load: &Load,
    server: Option<&Server>,
    stop: &Stop,
    record: Record,
) -> Result<Record, String> {
    let address = match (server, &arm.address) {
        (Some(server), _) => format!("127.0.0.1:{}", server.port),
        (None, address) => address.clone().unwrap_or_default(),
    };
    let words = fill_words(
        program,
        &[
            ("{address}", address),
            ("{pid}", server.map_or(String::new(), |server| server.pid().to_string())),
            ("{seconds}", load.seconds.to_string()),
            ("{flags}", load.flags.clone()),
        ],
    )?;
    let started_ms = SystemTime::now().duration_since(UNIX_EPOCH);
    let started_ms = started_ms.map_or(0, |since| since.as_millis() as u64);
    Ok(Record { started_ms, metrics: run_program(&words, stop)?, ..record })
}

fn by_load(
    arm: &Arm,
    load: &Load,
    servers: &[Server],
    marks: bool,
    stop: &Stop,
    record: Record,
) -> Result<Record, String> {
    let mut loads = Vec::new();
    for server in servers {
        let endpoint = Endpoint::Tcp("127.0.0.1".into(), server.port);
        let socket = server.socket.display().to_string();
        let mut settings = settings_of(arm, load, endpoint, &socket)?;
        if settings.0.target.tls.is_some() {
            settings.0.target.endpoint = Endpoint::Tcp("127.0.0.1".into(), server.tls_port);
        }
        let settings = prepare(settings, record.block, stop)?;
        loads.push((settings, Some(server.pid())));
    }
    if let Some(address) = &arm.address {
        let (host, port) = place(address).ok_or("address: not host:port")?;
        let endpoint = Endpoint::Tcp(host.to_string(), port);
        let settings = settings_of(arm, load, endpoint, "")?;
        loads.push((prepare(settings, record.block, stop)?, None));
    }
    let watched = loads.first().filter(|_| marks).map(|(settings, _)| &settings.target);
    let (results, seen) = watching(watched, || run_side_by_side(&loads, stop))?;
    let mut doubts = Vec::new();
    for ((settings, _), result) in loads.iter().zip(&results) {
        doubts.extend(warnings(settings, result));
    }
    let (settings, _) = loads.first().ok_or("neither server nor address")?;
    let result = RunResult::sum(results).ok_or("no load ran")?;
    doubts.extend(steadiness(&result.slots));
    let total = result.total();
    let curve = CURVE
        .iter()
        .filter(|&&percentile| total.latency.supports_percentile(percentile))
        .map(|&percentile| (percentile, total.latency.percentile_ns(percentile) as f64 / 1e6))
        .collect();
    let mut metrics = metrics_of(settings, &result);
    if let Some(megabytes) = snapshot_copy_mb(&settings.target) {
        metrics.insert("snapshot_copy_mb".into(), megabytes);
    }
    let series: Vec<f64> = result.slots.iter().map(|&count| count as f64).collect();
    Ok(Record {
        started_ms: result.started_ms,
        metrics,
        tails: tails(&total),
        marks: marks::within(seen, result.started_ms, result.duration),
        slots: result.slots.clone(),
        curve,
        autocorrelation: lag_one_autocorrelation(&series),
        warnings: doubts,
        ..record
    })
}

/// Latencies at p99 by second, in milliseconds, for seconds with enough samples.
fn tails(total: &KindResult) -> Vec<(f64, f64)> {
    let seconds = total.seconds.iter().map(|second| second.latency.to_histogram()).enumerate();
    seconds
        .filter(|(_, latency)| latency.supports_percentile(99.0))
        .map(|(second, latency)| (second as f64, latency.percentile_ns(99.0) as f64 / 1e6))
        .collect()
}

/// Runs `load` while events at the server are noted.
///
/// # Errors
/// Those of `load`, and when the system refuses the thread that watches; nothing is run then.
fn watching<T>(
    target: Option<&Target>,
    load: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Vec<(u64, String)>), String> {
    let Some(target) = target else { return Ok((load()?, Vec::new())) };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = spawn_scoped(scope, || marks::watch(target, &is_over))?;
        let loaded = load();
        is_over.store(true, Ordering::Relaxed);
        Ok((loaded?, watcher.join().unwrap_or_default()))
    })
}

fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, String> {
    let spawned = std::thread::Builder::new().spawn_scoped(scope, work);
    spawned.map_err(|error| format!("a thread cannot be started: {error}"))
}

/// Memory that the last save took beside the data, in MB, as the server says: pages that were
/// copied after a fork, or what was kept from being freed. `None` without a save.
fn snapshot_copy_mb(target: &Target) -> Option<f64> {
    let mut control = Control::connect(target).ok()?;
    let bytes: u64 = control.info("persistence", "rdb_last_cow_size").ok()??.parse().ok()?;
    (bytes > 0).then_some(bytes as f64 / 1e6)
}

/// Warning before loads on a server elsewhere that holds keys.
pub(crate) fn foreign_keys(arm: &Arm, load: &Load) -> Option<String> {
    let (host, port) = place(arm.address.as_deref().filter(|_| arm.program.is_none())?)?;
    let (settings, _) = settings_of(arm, load, Endpoint::Tcp(host.into(), port), "").ok()?;
    foreign_keys_warning(&settings)
}

/// The settings of one load, and whether it writes the keys first.
fn settings_of(
    arm: &Arm,
    load: &Load,
    endpoint: Endpoint,
    socket: &str,
) -> Result<(Settings, bool), String> {
    let line = format!("{} {}", load.flags, arm.client).replace("{socket}", socket);
    let (mut settings, preload) = settings_from_words(&line)?;
    if !matches!(settings.target.endpoint, Endpoint::Unix(_)) {
        settings.target.endpoint = endpoint;
    }
    Ok((settings, preload))
}

/// The settings for a block; writes the keys if they are wanted before the load.
///
/// # Errors
/// When the keys cannot be written, or `stop` was set meanwhile.
fn prepare(
    (mut settings, preload): (Settings, bool),
    block: usize,
    stop: &Stop,
) -> Result<Settings, String> {
    // Every block draws other keys; all arms of a block the same.
    settings.seeds.run = crate::load::keys::mix(settings.seeds.run, block as u64);
    if preload {
        write_all_keys(&settings, stop)?;
        if stop.load(Ordering::Relaxed) {
            return Err("preload: stopped".into());
        }
    }
    Ok(settings)
}

/// Runs all loads at the same time.
///
/// # Errors
/// Those of a load, and when the system refuses a thread: those that have begun end in time.
fn run_side_by_side(
    loads: &[(Settings, Option<u32>)],
    stop: &Stop,
) -> Result<Vec<RunResult>, String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = loads
            .iter()
            .map(|(settings, pid)| spawn_scoped(scope, || run(settings, *pid, stop, |_| {})))
            .collect::<Result<_, _>>()?;
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::load::SecondResult;

    #[test]
    fn seconds_with_too_few_samples_for_p99_are_left_out() {
        let second = |count: u64, value_ns: u64| {
            let mut latency = Histogram::new();
            latency.record_n(value_ns, count);
            SecondResult { latency: latency.to_sparse(), ..SecondResult::default() }
        };
        let seconds =
            vec![second(20_000, 1_000_000), second(50, 9_000_000), second(20_000, 2_000_000)];
        let tails = tails(&KindResult { seconds, ..KindResult::default() });
        let [(first, first_ms), (last, last_ms)] = tails[..] else { panic!("{tails:?}") };
        assert_eq!((first, last), (0.0, 2.0));
        assert!((first_ms - 1.0).abs() < 0.05 && (last_ms - 2.0).abs() < 0.1, "{tails:?}");
    }
}
