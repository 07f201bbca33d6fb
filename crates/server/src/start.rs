//! From options to running workers.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidemill_engine::commit::Sinks;
use tidemill_engine::config::{Configuration, ServerConfig};
use tidemill_engine::mailbox::Notify;
use tidemill_engine::shared::{AllocatorMemory, Host, Shared, SharedSpec};
use tidemill_engine::worker::Worker;
use tidemill_host::apply::pin_current_thread;
use tidemill_host::placement::{Allowed, Placement, plan};
use tidemill_host::topology::Topology;
use tidemill_host::{CpuSet, Root};
use tidemill_rcu::{Bp, Domain, Flavour, Limits, Mb, Memb, Qsbr, Reclaimer, RetireList, Signal};
use tidemill_store::Heap;
use tidemill_store::hash::Seed;

use crate::allocator;
use crate::clock::SystemClock;
use crate::config::replace;
use crate::handover::{Handover, Waker};
use crate::listen::{self, Listener};
use crate::options::{self, FlavourName, bind_address};
use crate::worker::{EventLoop, WorkerSpec};

/// What the server is started with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) configuration: Configuration,
    pub(crate) config: ServerConfig,
    /// The file that the configuration came from.
    pub(crate) file: Option<PathBuf>,
}

/// Runs the server until it is told to stop.
///
/// # Errors
///
/// Text for the operator: what could not be done, and why.
pub(crate) fn run(start: &Start) -> Result<(), String> {
    let placement = place(start)?;
    let options = &start.config;
    let addresses = addresses(options)?;
    for &address in &addresses {
        listen::check_free(address).map_err(|error| {
            format!(
                "Could not create server TCP listening socket {address}: bind: {}",
                reason(&error)
            )
        })?;
    }
    announce(options, &placement, &addresses);
    match options::flavour(options) {
        FlavourName::Qsbr => run_with::<Qsbr>(start, &placement, &addresses),
        FlavourName::Memb => run_with::<Memb>(start, &placement, &addresses),
        FlavourName::Mb => run_with::<Mb>(start, &placement, &addresses),
        FlavourName::Bp => run_with::<Bp>(start, &placement, &addresses),
        FlavourName::Signal => run_with::<Signal>(start, &placement, &addresses),
    }
}

/// What the system says of an error, without the number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn place(start: &Start) -> Result<Placement, String> {
    let wishes = options::placement(&start.configuration)?;
    let topology = Topology::read(&Root::live())
        .map_err(|error| format!("the host's topology cannot be read: {error}"))?;
    plan(&topology, &Allowed::of_current_process(), &wishes).map_err(|error| error.to_string())
}

fn addresses(options: &ServerConfig) -> Result<Vec<SocketAddr>, String> {
    let mut addresses = Vec::new();
    if options.port == 0 {
        return Ok(addresses);
    }
    for text in &options.bind {
        let (ip, is_optional) = bind_address(text)?;
        let address = SocketAddr::new(ip, options.port);
        match listen::check_free(address) {
            Err(error) if is_optional && error.kind() == io::ErrorKind::AddrNotAvailable => {}
            _ => addresses.push(address),
        }
    }
    Ok(addresses)
}

fn announce(options: &ServerConfig, placement: &Placement, addresses: &[SocketAddr]) {
    println!(
        "Tidemill {} starting: {} worker(s), placement {}, pid {}",
        env!("CARGO_PKG_VERSION"),
        placement.workers.len(),
        placement.mode,
        std::process::id()
    );
    for reason in &placement.reasons {
        println!("  {reason}");
    }
    println!("  no persistence is configured: a restart loses all data");
    for address in addresses {
        println!("Ready to accept connections on {address}");
    }
    if let Some(path) = &options.unix_socket {
        println!("Ready to accept connections on {path}");
    }
    if let Some(address) = addresses.first() {
        println!("  try: redis-cli -h {} -p {} ping", address.ip(), address.port());
    }
}

fn listeners(
    options: &ServerConfig,
    addresses: &[SocketAddr],
    worker: usize,
) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    for &address in addresses {
        let listener = listen::tcp(address, options.tcp_backlog);
        listeners.push(listener.map_err(|error| format!("{address}: {}", reason(&error)))?);
    }
    // A Unix socket cannot be shared as a port can: the first worker accepts and hands over.
    if worker == 0
        && let Some(path) = &options.unix_socket
    {
        let mode = options.unix_socket_permissions.unwrap_or(0);
        let listener = listen::unix(Path::new(path), mode, options.tcp_backlog);
        listeners.push(listener.map_err(|error| format!("{path}: {}", reason(&error)))?);
    }
    Ok(listeners)
}

fn random() -> Result<u64, String> {
    getrandom::u64().map_err(|error| format!("no random numbers from the system: {error}"))
}

fn run_with<F: Flavour>(
    start: &Start,
    placement: &Placement,
    addresses: &[SocketAddr],
) -> Result<(), String> {
    let options = &start.config;
    let worker_count = placement.workers.len();
    let wakers: io::Result<Vec<Waker>> = (0..worker_count).map(|_| Waker::new()).collect();
    let wakers = wakers.map_err(|error| format!("no event descriptor: {error}"))?;
    let domain = Domain::<F>::new().map_err(|error| error.to_string())?;
    let shared = Arc::new(Shared::new(SharedSpec {
        database_count: options.databases,
        seed: Seed::new(random()?, random()?),
        notifiers: wakers.iter().map(|waker| Box::new(waker.clone()) as Box<dyn Notify>).collect(),
        clock: Box::new(SystemClock::new()),
        configuration: start.configuration.clone(),
        host: Box::new(Process {
            run_id: format!("{:016x}{:016x}{:08x}", random()?, random()?, random()? as u32),
            file: start.file.clone(),
            config: options.clone(),
        }),
        sinks: Sinks::default(),
    }));
    let reclaimer = spawn_reclaimer(placement)?;
    let handover = Arc::new(Handover::new(wakers.clone(), options.clients_max));
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for (index, waker) in wakers.iter().enumerate() {
        let spec = WorkerSpec {
            index,
            shared: Arc::clone(&shared),
            listeners: listeners(options, addresses, index)?,
            waker: waker.clone(),
            handover: Arc::clone(&handover),
            stop: Arc::clone(&stop),
        };
        let affinity = placement.worker_affinity(index).cloned();
        let domain = Arc::clone(&domain);
        let reclaimer = reclaimer.handle();
        let seed = random()?;
        let body = move || worker_thread(spec, domain, reclaimer, affinity.as_ref(), seed);
        let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(body);
        threads.push(thread.map_err(|error| format!("a worker cannot be started: {error}"))?);
    }
    write_pid_file(options.pid_file.as_deref().map(Path::new))?;
    wait_for_signal()?;
    // Release: pairs with the Acquire in the workers' loops.
    stop.store(true, Ordering::Release);
    wakers.iter().for_each(Notify::notify);
    let mut result = Ok(());
    for thread in threads {
        match thread.join() {
            Ok(outcome) => result = result.and(outcome),
            Err(_) => result = Err("a worker has panicked".into()),
        }
    }
    if let Some(path) = &options.unix_socket {
        // Gone already is as good.
        let _ = std::fs::remove_file(path);
    }
    if let Some(path) = &options.pid_file {
        let _ = std::fs::remove_file(path);
    }
    println!("Tidemill is now ready to exit, bye bye...");
    result
}

/// Starts the thread that frees large structures, on the background CPUs: a thread inherits its parent's affinity.
fn spawn_reclaimer(placement: &Placement) -> Result<Reclaimer, String> {
    let cpus = placement.background_affinity().cloned();
    let parent = move || {
        if let Some(cpus) = cpus {
            pin_current_thread(&cpus)?;
        }
        Reclaimer::spawn("reclaim")
    };
    match thread::spawn(parent).join() {
        Ok(reclaimer) => reclaimer.map_err(|error| format!("no background thread: {error}")),
        Err(_) => Err("no background thread: its parent has panicked".into()),
    }
}

fn worker_thread<F: Flavour>(
    spec: WorkerSpec,
    domain: Arc<Domain<F>>,
    reclaimer: tidemill_rcu::ReclaimerHandle,
    affinity: Option<&CpuSet>,
    seed: u64,
) -> Result<(), String> {
    if let Some(cpus) = affinity {
        pin_current_thread(cpus)
            .map_err(|error| format!("worker {}: CPU {cpus}: {error}", spec.index))?;
    }
    let retired = RetireList::for_domain(&domain, Limits::default());
    retired.set_reclaimer(reclaimer);
    let worker = Worker::new(&spec.shared, spec.index, Heap::with_retired(retired), seed);
    let mut event_loop =
        EventLoop::new(spec, domain, worker).map_err(|error| format!("no event loop: {error}"))?;
    event_loop.run().map_err(|error| format!("the event loop ended: {error}"))
}

fn write_pid_file(path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, format!("{}\n", std::process::id()))
        .map_err(|error| format!("pidfile {}: {error}", path.display()))
}

/// The process around the engine.
#[derive(Debug)]
struct Process {
    /// 40 hexadecimal digits that tell this run from others.
    run_id: String,
    file: Option<PathBuf>,
    config: ServerConfig,
}

impl Host for Process {
    fn shut_down(&self) {
        // The main thread waits for this signal and stops the workers in order.
        let own = rustix::process::getpid();
        // A process can always signal itself.
        let _ = rustix::process::kill_process(own, rustix::process::Signal::TERM);
    }

    fn rewrite_configuration(&self, configuration: &Configuration) -> Result<(), String> {
        let Some(path) = &self.file else {
            return Err("ERR The server is running without a config file".into());
        };
        let failed = |error: io::Error| format!("ERR Rewriting config file: {}", reason(&error));
        let old = std::fs::read(path).map_err(failed)?;
        replace(path, &configuration.rewrite(&old)).map_err(failed)
    }

    fn allocator(&self) -> AllocatorMemory {
        allocator::memory().unwrap_or_default()
    }

    fn allocator_report(&self) -> String {
        allocator::report()
    }

    fn purge_memory(&self) {
        allocator::purge();
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let executable = std::env::current_exe().unwrap_or_default();
        let page_bytes = rustix::param::page_size() as u64;
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident_pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        let system = rustix::system::sysinfo();
        let name = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let (user_s, system_s) = cpu_seconds().unwrap_or_default();
        vec![
            (
                "os",
                format!(
                    "{} {} {}",
                    text(name.sysname()),
                    text(name.release()),
                    text(name.machine())
                ),
            ),
            ("used_memory_rss", (resident_pages.unwrap_or(0) * page_bytes).to_string()),
            (
                "total_system_memory",
                (u64::from(system.mem_unit) * system.totalram as u64).to_string(),
            ),
            ("used_cpu_user", format!("{user_s:.6}")),
            ("used_cpu_sys", format!("{system_s:.6}")),
            ("run_id", self.run_id.clone()),
            ("process_id", std::process::id().to_string()),
            ("tcp_port", self.config.port.to_string()),
            ("listeners", listeners_text(&self.config)),
            ("executable", executable.display().to_string()),
            (
                "config_file",
                self.file.as_deref().map_or(String::new(), |path| path.display().to_string()),
            ),
            ("maxclients", self.config.clients_max.to_string()),
            ("rcu_flavour", self.config.rcu_flavour.clone()),
        ]
    }
}

/// What the server listens on, a line each.
fn listeners_text(config: &ServerConfig) -> String {
    let mut lines = Vec::new();
    if config.port > 0 {
        let binds: String = config.bind.iter().map(|bind| format!(",bind={bind}")).collect();
        lines.push(format!("name=tcp{binds},port={}", config.port));
    }
    lines.extend(config.unix_socket.iter().map(|path| format!("name=unix,bind={path}")));
    lines.join("\n")
}

/// Seconds of processor time of all threads, in user and system mode.
fn cpu_seconds() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; counted from behind it, user time is the 12th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? / ticks_per_second);
    Some((next()?, next()?))
}

/// Sleeps until SIGINT or SIGTERM.
fn wait_for_signal() -> Result<(), String> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("signals cannot be handled: {error}"))?;
    if let Some(signal) = signals.forever().next() {
        let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
        println!("Received {name} scheduling shutdown...");
    }
    Ok(())
}
