//! From options to running workers.

mod change_over;

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use tidemill_engine::acl;
use tidemill_engine::command::CommandTable;
use tidemill_engine::config::{Configuration, ServerConfig};
use tidemill_engine::migration::{MigrationDone, MigrationRequest};
use tidemill_engine::saving::Saving;
use tidemill_engine::shared::{
    AllocatorMemory, AppendOnlyFacts, Block, DiskFault, Host, LogPosition, ProcessorTime, Shared,
    SharedSpec,
};
use tidemill_engine::slots::mailbox::Notify;
use tidemill_engine::system_error::reason;
use tidemill_engine::worker::Worker;
use tidemill_host::apply::pin_current_thread;
use tidemill_host::placement::{Allowed, Placement, plan};
use tidemill_host::topology::Topology;
use tidemill_host::{CpuSet, Root};
use tidemill_persist::disk::FileSystem;
use tidemill_rcu::{
    Bp, Domain, Flavour, Limits, Mb, Memb, Qsbr, Reclaimer, ReclaimerHandle, Signal,
};

use crate::allocator;
use crate::clock::SystemClock;
use crate::config::{read_file, replace};
use crate::durability::Durability;
use crate::end::wait_for_end;
use crate::first_load::begin_loading;
use crate::handover::{Handover, Waker};
use crate::identity::{identity, random, seed};
use crate::listen;
use crate::listeners::Listeners;
use crate::metrics;
use crate::migration::Migrations;
use crate::options::{self, FlavourName, bind_addresses, bind_host};
use crate::persistence::{self, SnapshotFile, SnapshotMove};
use crate::process::background::{self, PidFile};
use crate::process::crash;
use crate::process::descriptors;
use crate::process::oom_score::OomScoreSetter;
use crate::process::signals::{ShutdownRequest, StopSignals};
use crate::process::supervisor::Supervisor;
use crate::readiness::{Readiness, announce};
use crate::resources::{self, WorkerResources, in_background, start_thread};
use crate::tls::context::TlsContext;
use crate::tls::reception::{self, Reception};
use crate::worker::{EventLoop, WorkerSpec};

/// Thread of a worker; ends with the worker's error.
type WorkerThread = thread::JoinHandle<Result<(), String>>;

/// Parameters of the server's start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) configuration: Configuration,
    /// The commands, by the names that the configuration gives them.
    pub(crate) commands: &'static CommandTable,
    pub(crate) config: ServerConfig,
    pub(crate) supervisor: Supervisor,
    /// The file that the configuration came from.
    pub(crate) file: Option<PathBuf>,
    /// The commit that the binary is built from.
    pub(crate) commit: &'static str,
    /// True if no directive says when and where data is saved.
    pub(crate) saves_by_default: bool,
}

/// Parts of a server that exist before it goes into the background: nothing is built or loaded yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    placement: Placement,
    listeners: Arc<Listeners>,
    metrics_listeners: Vec<TcpListener>,
    /// Keys and certificates; none without a port for TLS.
    tls: Option<TlsContext>,
}

/// Plans where threads run, and begins to listen: what a start most often fails by. Starts no
/// thread.
///
/// # Errors
///
/// Text for the operator: what could not be done, and why.
pub(crate) fn prepare(start: &Start, tls: Option<TlsContext>) -> Result<Prepared, String> {
    let placement = place(start)?;
    // Before the Unix socket, whose file would stay behind.
    let metrics_listeners = metrics_listeners(&start.config)?;
    let listeners = Arc::new(Listeners::open(&start.config)?);
    Ok(Prepared { placement, listeners, metrics_listeners, tls })
}

/// Runs the server until it is told to stop.
///
/// # Errors
///
/// Text for the operator: what could not be done, and why.
pub(crate) fn run(start: &Start, prepared: Prepared) -> Result<(), String> {
    log::info!(
        "Tidemill version={}, bits={}, commit={}, just started, PID: {}",
        env!("CARGO_PKG_VERSION"),
        usize::BITS,
        start.commit,
        std::process::id()
    );
    resources::set_memory_nodes(&start.config, &prepared.placement);
    match options::flavour(&start.config) {
        FlavourName::Qsbr => run_with::<Qsbr>(start, prepared),
        FlavourName::Memb => run_with::<Memb>(start, prepared),
        FlavourName::Mb => run_with::<Mb>(start, prepared),
        FlavourName::Bp => run_with::<Bp>(start, prepared),
        FlavourName::Signal => run_with::<Signal>(start, prepared),
    }
}

fn place(start: &Start) -> Result<Placement, String> {
    let wishes = options::placement(&start.configuration)?;
    let topology = Topology::read(&Root::live())
        .map_err(|error| format!("the host's topology cannot be read: {error}"))?;
    plan(&topology, &Allowed::of_current_process(), &wishes).map_err(|error| error.to_string())
}

/// Keys and certificates; none without a port for TLS.
///
/// # Errors
///
/// Text for the operator.
pub(crate) fn tls_context(config: &ServerConfig) -> Result<Option<TlsContext>, String> {
    (config.tls_port != 0).then(|| TlsContext::load(&config.tls)).transpose()
}

/// The listeners of the metrics; none without a port.
fn metrics_listeners(options: &ServerConfig) -> Result<Vec<TcpListener>, String> {
    let (binds, port) = (&options.metrics_bind, options.metrics_port);
    let mut listeners = Vec::new();
    for text in binds.iter().filter(|_| port != 0) {
        let (host, is_optional) = bind_host(text);
        let opened = bind_addresses(host, port)
            .and_then(|addresses| listen::first_tcp(&addresses, false, options.tcp_backlog));
        match opened {
            Ok((_, listener)) => listeners.push(TcpListener::from(listener.socket)),
            Err(error) => {
                let call = format!("Failed listening on {host}:{port} (metrics): bind");
                let refused = format!("{call}: {}", reason(&error));
                if !(is_optional && listen::is_missing(&error)) {
                    return Err(refused);
                }
                log::warn!("{refused}");
            }
        }
    }
    Ok(listeners)
}

fn run_with<F: Flavour>(start: &Start, prepared: Prepared) -> Result<(), String> {
    let options = &start.config;
    let Prepared { ref placement, listeners, metrics_listeners, tls } = prepared;
    let worker_count = placement.workers.len();
    let signals = StopSignals::install()?;
    let clients_max = descriptors::fit_clients(options.clients_max, worker_count)?;
    listen::warn_of_short_queue(options.tcp_backlog);
    let (wakers, reception) = event_descriptors(worker_count)?;
    let domain = Domain::<F>::new().map_err(|error| error.to_string())?;
    reception.install(options.clone(), tls);
    let (stop, failure) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
    let durability = Arc::new(Durability::new(options, &wakers));
    let (snapshot_file, configuration) = open_snapshot_file(start, &durability)?;
    let is_saved = !configuration.settings().save_points.is_empty();
    let reclaimer = start_freeing(options, placement)?;
    let process = Process {
        run_id: identity()?,
        replication_id: identity()?,
        commit: start.commit,
        file: start.file.clone(),
        rcu_flavour: options.rcu_flavour.clone(),
        supervisor: start.supervisor,
        listeners: Arc::clone(&listeners),
        reception: Arc::clone(&reception),
        shutdown: signals.shutdown_request(),
        stop: Arc::clone(&stop),
        snapshot_file: Arc::clone(&snapshot_file),
        durability: Arc::clone(&durability),
        migrations: Migrations::default(),
        reclaimer: reclaimer.handle(),
        placement: placement.clone(),
        oom_score: OomScoreSetter::started(options),
        lasting_facts: OnceLock::new(),
    };
    let shared = shared_state((start, configuration), clients_max, &wakers, process)?;
    log::info!("Server initialized");
    let first_load = begin_loading(options, (&snapshot_file, &durability), (&shared, &domain))?;
    start_saving(start, placement, (&snapshot_file, &durability), (&shared, &domain))?;
    serve_metrics(metrics_listeners, (options, placement), &shared, &domain)?;
    // Before anybody is answered: who started the server looks for it then.
    let _pid_file = PidFile::write(options, background::is_wanted(options, start.supervisor));
    let handover = Arc::new(Handover::new(wakers.clone(), clients_max));
    in_background(options, placement, || start_reception(&reception, &handover, &shared))?;
    let spec = |index: usize, waker: &Waker| WorkerSpec {
        index,
        shared: Arc::clone(&shared),
        listeners: Arc::clone(&listeners),
        waker: waker.clone(),
        handover: Arc::clone(&handover),
        reception: Arc::clone(&reception),
        stop: Arc::clone(&stop),
        durability: Arc::clone(&durability),
    };
    let wanted = WorkerResources::wanted(options);
    let (threads, are_ready) =
        start_workers(&wakers, placement, wanted, &domain, &reclaimer, spec)?;
    let mut loader = None;
    if are_ready {
        run_log_threads(options, placement, &durability)?;
        announce(options, placement, is_saved);
        let ready = Readiness::new(listeners.addresses(), options, start.supervisor);
        let opening = (accepting_begins(&listeners, &shared, &wakers), ready);
        loader = first_load.start(options, (&shared, &domain), opening, (&stop, &failure))?;
    }
    wait_for_end(&signals, &snapshot_file, &shared, &domain, &stop);
    start.supervisor.tell_stopping();
    let result = stop_workers((&stop, &listeners), &wakers, threads);
    end(&listeners, loader, &durability);
    result.and_then(|()| failure.get().map_or(Ok(()), |text| Err(text.clone())))
}

/// The file of the snapshot, locked if it is going to be written, and the configuration that is in
/// force with it. In a directory that nobody chose, a second server saves nothing, and one that may
/// not write there fails to save, as Redis does.
fn open_snapshot_file(
    start: &Start,
    durability: &Arc<Durability>,
) -> Result<(Arc<SnapshotFile>, Configuration), String> {
    let file = SnapshotFile::new(&start.config, Arc::new(FileSystem), durability);
    let configuration = &start.configuration;
    if configuration.settings().save_points.is_empty() {
        return Ok((file, configuration.clone()));
    }
    match file.lock() {
        Ok(()) => Ok((file, configuration.clone())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && start.saves_by_default => {
            log::warn!("{error}. Neither is configured: this server saves nothing");
            let configuration = configuration.with_changes(&[(b"save", b"")], false);
            Ok((file, configuration.map_err(|error| error.to_string())?))
        }
        Err(error) if start.saves_by_default => {
            log::warn!("{error}. Neither is configured: this server starts, and cannot save");
            Ok((file, configuration.clone()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Function that lets the workers accept clients, who wait in the kernel's queue until then.
fn accepting_begins(
    listeners: &Arc<Listeners>,
    shared: &Arc<Shared>,
    wakers: &[Waker],
) -> impl FnOnce() + Send + use<> {
    let (listeners, shared) = (Arc::clone(listeners), Arc::clone(shared));
    let wakers = wakers.to_vec();
    move || {
        listeners.begin_accepting();
        shared.look_again_at_settings();
        wakers.iter().for_each(Notify::notify);
    }
}

/// Starts the threads that free what no worker waits for, and return it to the system.
fn start_freeing(options: &ServerConfig, placement: &Placement) -> Result<Reclaimer, String> {
    if let Err(why) = purge_in_background(options, placement) {
        log::warn!("jemalloc-bg-thread is not in force: {why}");
    }
    if let Err(why) = allocator::reuse_large_blocks() {
        log::warn!("The kernel clears the memory of each value of 8 MiB and more: {why}");
    }
    in_background(options, placement, || Reclaimer::spawn("reclaim"))
}

/// Ends what outlives the workers.
fn end(listeners: &Listeners, loader: Option<thread::JoinHandle<()>>, durability: &Durability) {
    // It ends soon, for the loading was stopped. A panic of it has ended the process.
    loader.into_iter().for_each(|loader| drop(loader.join()));
    durability.stop();
    listeners.remove_socket_file();
    log::warn!("Tidemill is now ready to exit, bye bye...");
}

/// Answers scrapes at these listeners.
fn serve_metrics<F: Flavour>(
    listeners: Vec<TcpListener>,
    (options, placement): (&ServerConfig, &Placement),
    shared: &Arc<Shared>,
    domain: &Arc<Domain<F>>,
) -> Result<(), String> {
    for listener in listeners {
        let (shared, domain) = (Arc::clone(shared), Arc::clone(domain));
        in_background(options, placement, || metrics::serve(listener, shared, domain))?;
    }
    Ok(())
}

/// Event descriptors of the workers, and the reception, which has some as well.
fn event_descriptors(worker_count: usize) -> Result<(Vec<Waker>, Arc<Reception>), String> {
    let none = |error| format!("no event descriptor: {error}");
    let wakers: io::Result<Vec<Waker>> = (0..worker_count).map(|_| Waker::new()).collect();
    Ok((wakers.map_err(none)?, Arc::new(Reception::new(worker_count).map_err(none)?)))
}

/// Starts the workers, and waits until each is ready or has ended. Returns their threads, and true
/// if all are ready.
fn start_workers<F: Flavour>(
    wakers: &[Waker],
    placement: &Placement,
    wanted: WorkerResources,
    domain: &Arc<Domain<F>>,
    reclaimer: &Reclaimer,
    spec: impl Fn(usize, &Waker) -> WorkerSpec,
) -> Result<(Vec<WorkerThread>, bool), String> {
    let (is_ready, readiness) = mpsc::channel();
    let mut threads = Vec::new();
    for (index, waker) in wakers.iter().enumerate() {
        let spec = spec(index, waker);
        let affinity = placement.worker_affinity(index).cloned();
        let domain = Arc::clone(domain);
        let reclaimer = reclaimer.handle();
        let seed = random()?;
        let is_ready = is_ready.clone();
        let body = move || {
            let _last = StopOnExit(Arc::clone(&spec.stop));
            wanted.take(spec.index);
            worker_thread(spec, domain, (reclaimer, seed), affinity.as_ref(), is_ready)
        };
        // It keeps a reserve once it has said which pages and nodes its memory is to be of.
        let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(body);
        threads.push(thread.map_err(|error| format!("a worker cannot be started: {error}"))?);
    }
    drop(is_ready);
    let are_ready = readiness.iter().count() == wakers.len();
    Ok((threads, are_ready))
}

/// Stops listening and the workers; returns their first error.
fn stop_workers(
    (stop, listeners): (&AtomicBool, &Listeners),
    wakers: &[Waker],
    threads: Vec<WorkerThread>,
) -> Result<(), String> {
    // Before any connection ends: a client that sees its own end finds nobody listening.
    listeners.all().iter().for_each(|listener| listener.stop());
    // Release: pairs with the Acquire in the workers' loops.
    stop.store(true, Ordering::Release);
    wakers.iter().for_each(Notify::notify);
    join_all(threads)
}

/// Starts the threads that write and sync the append-only file.
fn run_log_threads(
    options: &ServerConfig,
    placement: &Placement,
    durability: &Arc<Durability>,
) -> Result<(), String> {
    let spawn = |name: &str, run: fn(&Durability)| {
        let durability = Arc::clone(durability);
        let body = move || run(&durability);
        in_background(options, placement, || start_thread(name, body))
    };
    spawn("aof-write", |durability| durability.log().run_writer())?;
    spawn("aof-sync", |durability| durability.log().run_sync(|| durability.leaves_syncs()))?;
    Ok(())
}

/// Starts the thread that saves, on its CPUs.
fn start_saving<F: Flavour>(
    start: &Start,
    placement: &Placement,
    (file, durability): (&Arc<SnapshotFile>, &Arc<Durability>),
    (shared, domain): (&Arc<Shared>, &Arc<Domain<F>>),
) -> Result<(), String> {
    let cpus = options::placement(&start.configuration)?.snapshot_cpus;
    in_background(&start.config, placement, || {
        persistence::serve((file, cpus), durability, shared, domain)
    })
}

/// State that the workers and the background threads share.
fn shared_state(
    (start, configuration): (&Start, Configuration),
    clients_max: usize,
    wakers: &[Waker],
    process: Process,
) -> Result<Arc<Shared>, String> {
    let options = &start.config;
    let configuration = configuration
        .with_changes(&[(b"maxclients", clients_max.to_string().as_bytes())], false)
        .map_err(|error| error.to_string())?;
    let shared = Shared::new(SharedSpec {
        commands: start.commands,
        database_count: options.databases,
        seed: seed(options)?,
        notifiers: wakers.iter().map(|waker| Box::new(waker.clone()) as Box<dyn Notify>).collect(),
        clock: Box::new(SystemClock::of_system()),
        configuration: configuration.clone(),
        sinks: process.durability.sinks(),
        host: Box::new(process),
    });
    acl::begin(&shared.users, &configuration, |path| read_file(path))
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(shared))
}

/// Starts the threads that do handshakes. They end with the process.
fn start_reception(
    reception: &Arc<Reception>,
    handover: &Arc<Handover>,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    for index in 0..reception.thread_count() {
        let (reception, handover) = (Arc::clone(reception), Arc::clone(handover));
        let shared = Arc::clone(shared);
        start_thread(&format!("tls-{index}"), move || {
            if let Err(error) = reception::run(index, reception, handover, shared) {
                log::error!("No client can connect with TLS any more: {}", reason(&error));
            }
        })?;
    }
    Ok(())
}

/// Waits for the ends of the workers; returns their first error.
fn join_all(threads: Vec<WorkerThread>) -> Result<(), String> {
    let mut result = Ok(());
    for thread in threads {
        match thread.join() {
            Ok(outcome) => result = result.and(outcome),
            Err(_) => result = Err("a worker has panicked".into()),
        }
    }
    result
}

/// Lets the allocator return freed memory as the configuration says: by a background thread or not.
fn purge_in_background(config: &ServerConfig, placement: &Placement) -> Result<(), String> {
    in_background(config, placement, || {
        allocator::purge_in_background(config.purges_in_background).map_err(io::Error::other)
    })
}

/// Stops the server when its thread ends unasked, by an error: clients of a worker that is gone
/// would wait without end. (A panic ends the process: see `crash`.)
pub(crate) struct StopOnExit(pub(crate) Arc<AtomicBool>);

impl Drop for StopOnExit {
    fn drop(&mut self) {
        // Acquire and Release: pairs with the thread that stops the server, which saves nothing
        // when a worker ended by itself.
        if !self.0.swap(true, Ordering::AcqRel) {
            stop_this_process();
        }
    }
}

/// Makes the main thread stop the workers in order.
fn stop_this_process() {
    // A process can always signal itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
}

fn worker_thread<F: Flavour>(
    spec: WorkerSpec,
    domain: Arc<Domain<F>>,
    (reclaimer, seed): (ReclaimerHandle, u64),
    affinity: Option<&CpuSet>,
    is_ready: mpsc::Sender<()>,
) -> Result<(), String> {
    if let Some(cpus) = affinity {
        pin_current_thread(cpus)
            .map_err(|error| format!("worker {}: CPU {cpus}: {error}", spec.index))?;
    }
    let member = spec.shared.keyspace.join(&domain);
    let member = member.map_err(|error| format!("worker {}: {error}", spec.index))?;
    let heap = member.heap(Limits::default());
    heap.retired().set_reclaimer(reclaimer);
    let worker = Worker::new(&spec.shared, spec.index, heap, seed);
    let mut event_loop =
        EventLoop::new(spec, member, worker).map_err(|error| format!("no event loop: {error}"))?;
    // The receiver lives until all workers have said so or ended.
    let _ = is_ready.send(());
    drop(is_ready);
    event_loop.run().map_err(|error| format!("the event loop ended: {error}"))
}

/// The process around the engine.
#[derive(Debug)]
struct Process {
    /// 40 hexadecimal digits that tell this run from others.
    run_id: String,
    /// Name of the history of writes that a replica would follow.
    replication_id: String,
    /// The commit that the binary is built from.
    commit: &'static str,
    file: Option<PathBuf>,
    rcu_flavour: String,
    supervisor: Supervisor,
    listeners: Arc<Listeners>,
    reception: Arc<Reception>,
    shutdown: ShutdownRequest,
    /// Stops the workers.
    stop: Arc<AtomicBool>,
    snapshot_file: Arc<SnapshotFile>,
    durability: Arc<Durability>,
    migrations: Migrations,
    reclaimer: ReclaimerHandle,
    placement: Placement,
    oom_score: OomScoreSetter,
    /// Once somebody has asked for them.
    lasting_facts: OnceLock<Vec<(&'static str, String)>>,
}

impl Host for Process {
    fn delay_log_writes(&self, microseconds: u64) {
        self.durability.log().delay_writes(microseconds);
    }

    fn fail_disk(&self, fault: DiskFault) {
        FileSystem::fail(fault);
    }

    fn fill_tls_sockets(&self, are_full: bool) {
        crate::tls::stream::fill_sockets(are_full);
    }

    fn log_position(&self) -> Option<LogPosition> {
        self.durability.position()
    }

    fn append_only(&self) -> Option<AppendOnlyFacts> {
        self.durability.facts()
    }

    fn saving(&self) -> &dyn Saving {
        &*self.snapshot_file
    }

    fn shut_down(&self, requested_by: &str) {
        self.shutdown.note(requested_by);
        // First: a worker that sees the flag ends its connections, and a client that sees its own
        // end finds nobody listening.
        self.listeners.all().iter().for_each(|listener| listener.stop());
        // Release: pairs with the Acquire in the workers' loops.
        self.stop.store(true, Ordering::Release);
        stop_this_process();
    }

    fn forget_signals(&self) {
        self.shutdown.forget_signals();
    }

    fn log(&self, level: u8, message: &[u8]) {
        let message = crate::log::printable(message);
        match level {
            0 | 1 => log::debug!("{message}"),
            2 => log::info!("{message}"),
            _ => log::warn!("{message}"),
        }
    }

    fn violate_memory(&self) {
        crash::violate_memory();
    }

    fn rewrite_configuration(&self, rewritten: &dyn Fn(&[u8]) -> Vec<u8>) -> Result<(), String> {
        let Some(path) = &self.file else {
            return Err("ERR The server is running without a config file".into());
        };
        let failed = |error: io::Error| format!("ERR Rewriting config file: {}", reason(&error));
        // Each rewrite reads what the one before wrote.
        static REWRITING: Mutex<()> = Mutex::new(());
        let _one = REWRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let old = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            old => old.map_err(failed)?,
        };
        replace(path, &rewritten(&old)).map_err(failed)
    }

    fn read_users(&self, path: &str) -> io::Result<Vec<u8>> {
        read_file(path)
    }

    fn write_users(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        replace(Path::new(path), contents).inspect_err(|error| {
            log::warn!("Writing the users for ACL SAVE to {path}: {}", reason(error));
        })
    }

    fn freed_values(&self) -> u64 {
        self.reclaimer.freed_count()
    }

    fn migrate(&self, request: MigrationRequest, done: MigrationDone) {
        self.migrations.send(request, done);
    }

    fn kept_migration_connections(&self) -> usize {
        self.migrations.connection_count()
    }

    fn allocator(&self) -> AllocatorMemory {
        allocator::memory().unwrap_or_default()
    }

    fn memory_bytes(&self) -> u64 {
        resources::memory_bytes()
    }

    fn allocator_report(&self) -> String {
        allocator::report()
    }

    fn purge_memory(&self) {
        allocator::purge();
    }

    fn is_sparse(&self, block: Block<'_>) -> bool {
        allocator::is_sparse(block)
    }

    fn flush_thread_cache(&self) {
        allocator::flush_thread_cache();
    }

    fn has_room(&self, bytes: usize) -> bool {
        allocator::has_room(bytes)
    }

    fn keep_reserve(&self) -> bool {
        allocator::keep_reserve()
    }

    fn start_thread(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        resources::start_thread(name, body).map(drop)
    }

    fn prepare(
        &self,
        present: &Configuration,
        next: &Configuration,
        changed: &[&'static str],
    ) -> Result<(), (&'static str, String)> {
        let server = next.server();
        let fitting =
            descriptors::fit_clients(server.clients_max, self.placement.workers.len()).unwrap_or(0);
        if fitting < server.clients_max {
            return Err((
                "maxclients",
                format!(
                    "The operating system is not able to handle the specified number of clients, \
                     try with {fitting}"
                ),
            ));
        }
        // Dropped last: a rewrite of the log finds the directory that the process stays in.
        let claim = self.claim_directory(&server, changed)?;
        let moved = self.move_snapshot(next, changed, claim.is_some())?;
        self.prepare_in_place(&present.server(), &server, changed)?;
        moved.into_iter().for_each(SnapshotMove::commit);
        Ok(())
    }

    fn working_directory(&self) -> Option<String> {
        std::env::current_dir().ok().map(|path| path.to_string_lossy().into_owned())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut facts = self.lasting_facts.get_or_init(|| self.find_lasting_facts()).clone();
        facts.extend(self.reception.facts(now_s as i64));
        facts
    }

    fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * rustix::param::page_size() as u64
    }

    fn processor_time(&self) -> ProcessorTime {
        processor_time().unwrap_or_default()
    }
}

impl Process {
    /// Facts that do not change while the process runs.
    fn find_lasting_facts(&self) -> Vec<(&'static str, String)> {
        let system = rustix::system::sysinfo();
        let name = rustix::system::uname();
        let os = [name.sysname(), name.release(), name.machine()];
        let os = os.map(|part| part.to_string_lossy().into_owned()).join(" ");
        let memory_bytes = u64::from(system.mem_unit) * system.totalram as u64;
        let shown = |path: &Path| path.display().to_string();
        vec![
            ("os", os),
            ("total_system_memory", memory_bytes.to_string()),
            ("run_id", self.run_id.clone()),
            ("replication_id", self.replication_id.clone()),
            ("process_id", std::process::id().to_string()),
            ("executable", shown(&std::env::current_exe().unwrap_or_default())),
            ("config_file", self.file.as_deref().map_or(String::new(), shown)),
            ("process_supervised", self.supervisor.name().to_owned()),
            ("rcu_flavour", self.rcu_flavour.clone()),
            ("commit", self.commit.to_owned()),
        ]
    }
}

/// Processor time of all threads.
fn processor_time() -> Option<ProcessorTime> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; counted from behind it, user time is the 12th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? / ticks_per_second);
    Some(ProcessorTime { user_s: next()?, system_s: next()? })
}
