//! Starts the threads of a run, shows progress, gathers the result.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::hardware::HardwareUsage;
use crate::limits::{END_POLL, PUBLISH_INTERVAL};
use crate::load::cluster::Cluster;
use crate::load::command::Template;
use crate::load::connection::Connection;
use crate::load::counters::KindResult;
use crate::load::files::make_room;
use crate::load::keys::{Random, below, mix};
use crate::load::observe::{self, Observation};
use crate::load::schedule::Schedule;
use crate::load::settings::{Pace, Settings, Target};
use crate::load::values::Slab;
use crate::load::worker::{ConnectionResult, Published, Shared, Trouble, Worker, WorkerResult};
use crate::process::ThreadUsage;
use crate::report::ServerUsage;

/// Set from anywhere to end a run early; it still reports.
pub type Stop = Arc<AtomicBool>;

/// Reason that a run gave no result.
#[derive(Debug)]
pub enum LoadError {
    /// The server could not be reached or refused the handshake.
    Connect(String, io::Error),
    /// The system refused something else.
    System(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A read that waited as long as `--connection-timeout` lets it.
            Self::Connect(endpoint, error) if error.kind() == io::ErrorKind::WouldBlock => {
                write!(formatter, "cannot connect to {endpoint}: it does not answer in time")
            }
            Self::Connect(endpoint, error) => {
                write!(formatter, "cannot connect to {endpoint}: {error}")
            }
            Self::System(error) => write!(formatter, "{error}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// A look at a run that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the start of the load, warm-up included.
    pub elapsed: Duration,
    /// True if the warm-up is over.
    pub measuring: bool,
    /// Connections that live.
    pub connections: u64,
    /// Replies so far.
    pub ops: u64,
    /// Bytes in both directions so far.
    pub bytes: u64,
    /// Sum of the latencies so far, nanoseconds.
    pub latency_sum_ns: u64,
}

/// Results of one run.
#[derive(Clone)]
pub struct RunResult {
    /// Per command of the mix, in its order.
    pub kinds: Vec<KindResult>,
    /// Replies per 100 ms.
    pub slots: Vec<u64>,
    /// From the start of the measurement to the last reply.
    pub duration: Duration,
    /// Wall clock at the start of the measurement, milliseconds since 1970.
    pub started_ms: u64,
    /// Failures of the run.
    pub trouble: Trouble,
    /// CPU and switches of the load threads while measuring.
    pub client: Vec<ThreadUsage>,
    /// By connection.
    pub connections: Vec<ConnectionResult>,
    /// Hardware counters of the load threads together, where there are any.
    pub client_hardware: Option<HardwareUsage>,
    /// Hardware counters of the server, where there are any and it is here.
    pub server_hardware: Option<HardwareUsage>,
    /// Cost of the server meanwhile.
    pub server: ServerUsage,
    /// Ended by `Stop`.
    pub interrupted: bool,
}

impl RunResult {
    /// Replies in all.
    pub fn ops(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.total.ops).sum()
    }

    /// Replies per second by the wall clock.
    pub fn ops_per_second(&self) -> f64 {
        self.ops() as f64 / self.duration.as_secs_f64().max(1e-9)
    }

    /// All commands together.
    pub fn total(&self) -> KindResult {
        let mut total = KindResult::default();
        for kind in &self.kinds {
            total.add(kind);
        }
        total
    }

    /// Loads that ran side by side, as one; `None` for no load. The duration is the longest.
    pub fn sum(results: Vec<RunResult>) -> Option<RunResult> {
        let mut results = results.into_iter();
        let mut sum = results.next()?;
        for other in results {
            for (kind, theirs) in sum.kinds.iter_mut().zip(&other.kinds) {
                kind.add(theirs);
            }
            add_slots(&mut sum.slots, &other.slots);
            sum.duration = sum.duration.max(other.duration);
            sum.started_ms = sum.started_ms.min(other.started_ms);
            sum.trouble.add(&other.trouble);
            sum.client.extend(other.client);
            sum.connections.extend(other.connections);
            let both = |ours, theirs| HardwareUsage::sum([ours, theirs]);
            sum.client_hardware = both(sum.client_hardware, other.client_hardware);
            sum.server_hardware = both(sum.server_hardware, other.server_hardware);
            sum.server = sum.server.plus(other.server);
            sum.interrupted |= other.interrupted;
        }
        Some(sum)
    }

    /// CPU of the load threads together, nanoseconds.
    pub fn client_cpu_ns(&self) -> u64 {
        self.client.iter().map(ThreadUsage::busy_ns).sum()
    }
}

/// Runs a load to its end. The server's process is looked for by its port unless given. Blocks the
/// calling thread, which calls `on_progress` at 4 Hz.
///
/// # Errors
/// When the server cannot be reached at the start. Connections lost later are counted.
pub fn run(
    settings: &Settings,
    server_pid: Option<u32>,
    stop: &Stop,
    mut on_progress: impl FnMut(&Progress),
) -> Result<RunResult, LoadError> {
    let shared = shared_state(settings)?;
    let server_pids = server_pids(&shared, server_pid);
    let observe = || Observation::take(settings, &server_pids);
    let ready = Barrier::new(settings.threads as usize + 1);
    let failed = AtomicBool::new(false);
    let all_started = Mutex::new(false);
    // Set by the main thread between the two barriers.
    let epoch = std::sync::OnceLock::new();
    let running = AtomicU64::new(u64::from(settings.threads));
    std::thread::scope(|scope| {
        let start = Start {
            shared: &shared,
            all_started: &all_started,
            ready: &ready,
            failed: &failed,
            epoch: &epoch,
        };
        let handles = start_threads(scope, start, &running).map_err(LoadError::System)?;
        ready.wait();
        let start = Instant::now();
        let mut shown = Duration::ZERO;
        let started_ms = unix_ms() + settings.warmup.as_millis() as u64;
        epoch.set(start).expect("set once");
        ready.wait();
        let mut observed_start = settings.warmup.is_zero().then(|| observe().watching());
        while running.load(Ordering::Relaxed) > 0 {
            std::thread::park_timeout(END_POLL);
            if observed_start.is_none() && start.elapsed() >= settings.warmup {
                observed_start = Some(observe().watching());
            }
            if stop.load(Ordering::Relaxed) {
                shared.stop.store(true, Ordering::Relaxed);
            }
            if start.elapsed() - shown >= PUBLISH_INTERVAL {
                shown = start.elapsed();
                on_progress(&look(&shared, start));
            }
        }
        let results = handles
            .into_iter()
            .map(|handle| match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let server_hardware = observed_start.as_mut().and_then(Observation::hardware);
        let observed_end = observe();
        let server =
            observed_start.map_or(ServerUsage::Unknown, |start| start.until(&observed_end));
        let interrupted = stop.load(Ordering::Relaxed);
        Ok(RunResult {
            server,
            server_hardware,
            ..gather(settings, results, started_ms, interrupted)
        })
    })
}

/// Starts the load threads, or none that loads.
///
/// # Errors
/// When the system refuses one; the others end then.
fn start_threads<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    start: Start<'env>,
    running: &'env AtomicU64,
) -> io::Result<Vec<ScopedJoinHandle<'scope, Result<WorkerResult, LoadError>>>> {
    let mut all_started = start.all_started.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = |index: usize| {
        let work = move || {
            let _done = Done(running);
            start.work(index)
        };
        std::thread::Builder::new().name(format!("load-{index}")).spawn_scoped(scope, work)
    };
    let threads = 0..start.shared.settings.threads as usize;
    let handles = threads.map(begin).collect::<io::Result<Vec<_>>>().map_err(|error| {
        io::Error::new(error.kind(), format!("a load thread cannot be started: {error}"))
    })?;
    *all_started = true;
    Ok(handles)
}

/// State that the threads of a run share.
fn shared_state(settings: &Settings) -> Result<Shared, LoadError> {
    let slab =
        Arc::new(Slab::new(&settings.values, &settings.keys, settings.seeds.run, settings.verify));
    let templates = settings
        .commands
        .iter()
        .map(|command| Template::new(command.clone(), &settings.keys.prefix, slab.clone()))
        .collect();
    let cluster = if settings.target.cluster {
        let found = Cluster::discover(&settings.target, &settings.keys.prefix);
        let endpoint = &settings.target.endpoint;
        Some(Arc::new(found.map_err(|error| LoadError::Connect(endpoint.to_string(), error))?))
    } else {
        None
    };
    let nodes = cluster.as_ref().map_or(1, |cluster: &Arc<Cluster>| cluster.nodes().len() as u64);
    let clients = u64::from(settings.threads) * u64::from(settings.connections);
    // A limit that stays too low shows when connecting.
    let _ = make_room(clients.saturating_mul(nodes));
    Ok(Shared {
        cluster,
        settings: settings.clone(),
        templates,
        slab,
        stop: AtomicBool::new(false),
        published: (0..settings.threads).map(|_| Published::default()).collect(),
    })
}

/// Processes of the servers that are observed: the `given` one, or those that the servers name.
fn server_pids(shared: &Shared, given: Option<u32>) -> Vec<Option<u32>> {
    let target = &shared.settings.target;
    let pid = |endpoint| observe::server_pid(&Target { endpoint, ..target.clone() });
    match (given, &shared.cluster) {
        (Some(given), _) => vec![Some(given)],
        (None, None) => vec![pid(target.endpoint.clone())],
        (None, Some(cluster)) => cluster.nodes().into_iter().map(pid).collect(),
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn look(shared: &Shared, start: Instant) -> Progress {
    let sum = |value: fn(&Published) -> &AtomicU64| {
        shared.published.iter().map(|one| value(one).load(Ordering::Relaxed)).sum()
    };
    Progress {
        elapsed: start.elapsed(),
        measuring: shared.published.iter().all(|one| one.measuring.load(Ordering::Relaxed)),
        connections: sum(|one| &one.connections),
        ops: sum(|one| &one.ops),
        bytes: sum(|one| &one.bytes),
        latency_sum_ns: sum(|one| &one.latency_sum_ns),
    }
}

fn gather(
    settings: &Settings,
    results: Vec<WorkerResult>,
    started_ms: u64,
    interrupted: bool,
) -> RunResult {
    let mut kinds = vec![KindResult::default(); settings.commands.len()];
    let mut slots: Vec<u64> = Vec::new();
    let mut trouble = Trouble::default();
    let mut client = Vec::new();
    let mut connections = Vec::new();
    let mut last_reply_ns = 0;
    let client_hardware = HardwareUsage::sum(results.iter().map(|result| result.hardware));
    for result in results {
        for (kind, theirs) in kinds.iter_mut().zip(&result.kinds) {
            kind.add(theirs);
        }
        add_slots(&mut slots, &result.slots);
        trouble.add(&result.trouble);
        client.push(result.usage);
        connections.extend(result.connections);
        last_reply_ns = last_reply_ns.max(result.last_reply_ns);
    }
    let measured_ns = last_reply_ns.saturating_sub(settings.warmup.as_nanos() as u64);
    RunResult {
        kinds,
        slots,
        duration: Duration::from_nanos(measured_ns),
        started_ms,
        trouble,
        client,
        connections,
        client_hardware,
        server_hardware: None,
        server: ServerUsage::Unknown,
        interrupted,
    }
}

fn add_slots(slots: &mut Vec<u64>, others: &[u64]) {
    if slots.len() < others.len() {
        slots.resize(others.len(), 0);
    }
    for (slot, theirs) in slots.iter_mut().zip(others) {
        *slot += theirs;
    }
}

/// Counts a thread as ended, also one that panics: the main thread then joins it and passes the
/// panic on instead of waiting without end.
struct Done<'a>(&'a AtomicU64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        // Relaxed: only tells the main thread to stop looking.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Both barriers in front of the load. A thread that fails or panics passes them too, so that
/// no thread waits for it, and has all others end at once.
struct Passage<'a, 'b>(&'a Start<'b>);

impl Passage<'_, '_> {
    fn pass(self) {
        let Self(start) = &self;
        start.ready.wait();
        start.ready.wait();
        std::mem::forget(self);
    }
}

impl Drop for Passage<'_, '_> {
    fn drop(&mut self) {
        // Relaxed: the barrier orders it before the loads behind it.
        self.0.failed.store(true, Ordering::Relaxed);
        self.0.ready.wait();
        self.0.ready.wait();
    }
}

/// Parameters of a thread's start.
#[derive(Clone, Copy)]
struct Start<'a> {
    shared: &'a Shared,
    /// Locked until all threads are started; false then if one could not be. The others must not
    /// wait for it at the barrier, which counts all of them.
    all_started: &'a Mutex<bool>,
    ready: &'a Barrier,
    failed: &'a AtomicBool,
    epoch: &'a std::sync::OnceLock<Instant>,
}

impl Start<'_> {
    /// Connects, waits for the others, loads.
    fn work(&self, index: usize) -> Result<WorkerResult, LoadError> {
        if !*self.all_started.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(WorkerResult::empty());
        }
        let settings = &self.shared.settings;
        let passage = Passage(self);
        place(settings, index);
        let connections = self.connect(index)?;
        passage.pass();
        if self.failed.load(Ordering::Relaxed) {
            return Ok(WorkerResult::empty());
        }
        let epoch = *self.epoch.get().expect("set between the barriers");
        let schedule = match &settings.pace {
            Pace::Closed => None,
            Pace::Open { arrivals, steps } => {
                let seed = mix(settings.seeds.run, 0x5eed_0000 + index as u64);
                let share = 1.0 / f64::from(settings.threads);
                Some(Schedule::new(*arrivals, steps, share, 0, seed))
            }
        };
        Worker::new(self.shared, index, connections, schedule, epoch)
            .and_then(Worker::run)
            .map_err(LoadError::System)
    }

    fn connect(&self, thread: usize) -> Result<Vec<Connection>, LoadError> {
        let settings = &self.shared.settings;
        let mut jitter = Random::new(mix(settings.seeds.run, 0x6a17 + thread as u64));
        let (jitter_min, jitter_max) = settings.connect_jitter_us;
        let endpoints = self.shared.endpoints();
        let mut connections = Vec::new();
        for index in 0..settings.connections as usize {
            let number = (thread * settings.connections as usize + index) as u64;
            for (place, (endpoint, node)) in endpoints.iter().enumerate() {
                if jitter_max > 0 {
                    let pause = jitter_min + below(&mut jitter, jitter_max - jitter_min + 1);
                    std::thread::sleep(Duration::from_micros(pause));
                }
                let limit = self.shared.request_limit(place, endpoints.len());
                let opened = self.shared.open(number, endpoint, *node, limit);
                connections
                    .push(opened.map_err(|error| LoadError::Connect(endpoint.to_string(), error))?);
            }
        }
        Ok(connections)
    }
}

/// Binds the calling load thread to its CPU, if CPUs were given.
fn place(settings: &Settings, index: usize) {
    if settings.cpus.is_empty() {
        return;
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(settings.cpus[index % settings.cpus.len()]);
    // The command line was checked against the allowed CPUs; a refusal leaves the thread unbound.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
