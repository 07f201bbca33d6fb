//! The append-only file of the server: loaded at start, told of each change, switched on and off.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use tidemill_engine::commit::{ActiveSinks, Sinks};
use tidemill_engine::config::{AppendOnlyConfig, ServerConfig};
use tidemill_engine::execute::restore_libraries;
use tidemill_engine::saving::SavingFailed;
use tidemill_engine::script::Policy;
use tidemill_engine::shared::{AppendOnlyFacts, LogPosition, Shared};
use tidemill_engine::slots::mailbox::Notify;
use tidemill_engine::system_error::reason;
use tidemill_journal::Journal;
use tidemill_persist::append_only::{
    AppendOnlyFile, BaseForm, EmptyBase, FsyncPolicy, LoadError, LogNames, Rewrite, Stopped,
    WakeWorker, WriteFailure, find, load,
};
use tidemill_persist::disk::{Disk, DiskLock, FileSystem};
use tidemill_persist::snapshot::{WriteRules, empty};
use tidemill_rcu::{Domain, Flavour};
use tidemill_store::Member;
use tidemill_store::gate::ClosedGate;

use crate::handover::Waker;
use crate::persistence::{Job, close_gate, take_token};
use crate::replay::{LogReader, ReplayQueue};

/// State of the server, once there is one.
type LateShared = Arc<OnceLock<Weak<Shared>>>;

/// The append-only file of the server.
pub(crate) struct Durability {
    journal: Arc<Journal>,
    log: Arc<AppendOnlyFile>,
    names: LogNames,
    shared: LateShared,
    /// `appendonly`.
    is_wanted: AtomicBool,
    /// `no-appendfsync-on-rewrite`.
    spares_syncs: AtomicBool,
    /// Keep other servers from the log's directory, once this one has used it.
    locks: Mutex<Locks>,
    /// Way to the thread that writes bases.
    to_thread: Mutex<Option<Sender<Job>>>,
    /// Way to the worker that executes a log which is loaded.
    replay_queue: Arc<ReplayQueue>,
}

impl std::fmt::Debug for Durability {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Durability").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Durability {
    /// A log that is off. Touches no file.
    pub(crate) fn new(config: &ServerConfig, wakers: &[Waker]) -> Durability {
        let config = &config.append_only;
        let journal = Arc::new(Journal::new(wakers.len()));
        let names = names(config);
        let shared = LateShared::default();
        let wakes = wakers.iter().cloned();
        let wakes = wakes.map(|waker| Box::new(move || waker.notify()) as WakeWorker).collect();
        let failing = Arc::clone(&shared);
        let log = AppendOnlyFile::new(
            (Arc::new(FileSystem), names.clone()),
            Arc::clone(&journal),
            policy(config),
            wakes,
            Box::new(move |failure| note_failure(&failing, failure)),
        );
        log.configure(policy(config), config.annotates_time);
        log.keep_history(config.keeps_history);
        Durability {
            journal,
            log: Arc::new(log),
            names,
            shared,
            is_wanted: AtomicBool::new(config.is_enabled),
            spares_syncs: AtomicBool::new(config.spares_syncs),
            locks: Mutex::default(),
            to_thread: Mutex::default(),
            replay_queue: Arc::new(ReplayQueue::new(wakers[0].clone())),
        }
    }

    /// Receivers of changes for the engine. They hear nothing before the log is on.
    pub(crate) fn sinks(&self) -> Sinks {
        Sinks::inactive(None, Some(Box::new(Arc::clone(&self.journal))))
    }

    /// Sinks that have something to do.
    pub(crate) fn active_sinks(&self) -> ActiveSinks {
        match self.log.is_written() {
            true => ActiveSinks::JOURNAL,
            false => ActiveSinks::empty(),
        }
    }

    /// Way to the worker that executes a log which is loaded.
    pub(crate) fn replay_queue(&self) -> &Arc<ReplayQueue> {
        &self.replay_queue
    }

    /// The log.
    pub(crate) fn log(&self) -> &Arc<AppendOnlyFile> {
        &self.log
    }

    fn is_wanted(&self) -> bool {
        // Relaxed, here and below: what is done about it happens under locks of the log.
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Sets the channel to the thread that writes bases.
    pub(crate) fn set_thread(&self, sender: Sender<Job>) {
        *self.to_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }

    fn send(&self, work: Job) -> bool {
        let sender = self.to_thread.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|sender| sender.send(work).is_ok())
    }

    /// Lets the log know the server. To be called once.
    pub(crate) fn attach(&self, shared: &Arc<Shared>) {
        let is_first = self.shared.set(Arc::downgrade(shared)).is_ok();
        assert!(is_first, "there is one server");
    }

    /// Keeps other servers from the log's directory, and tells the bytes of the log that is there.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(crate) fn begin(&self) -> Result<Option<u64>, String> {
        self.lock_directory()?;
        find(&FileSystem, &self.names).map_err(|error| error.to_string())
    }

    /// Loads the log into the empty keyspace, and lets changes be journaled and clients be served
    /// from then on. Not on the thread of a worker; the first worker executes what the log has.
    /// Blocks on the disk.
    ///
    /// # Errors
    ///
    /// Text for the operator, none if the server stops; no file has lost anything.
    pub(crate) fn load_at_start<F: Flavour>(
        &self,
        (shared, domain): (&Arc<Shared>, &Arc<Domain<F>>),
        rules: &WriteRules,
    ) -> Result<(), Option<String>> {
        let failed = |error: LoadError| match error {
            LoadError::Stopped => self.replay_queue.take_fault(),
            error => Some(error.to_string()),
        };
        let begun = Instant::now();
        let config = shared.configuration().server().append_only;
        let mut reader = LogReader::new(Arc::clone(&self.replay_queue), shared, domain);
        let loaded = load(&FileSystem, &self.names, config.may_cut_tail, &mut reader);
        let loaded = loaded.map_err(failed)?;
        let error_count = reader.finish().map_err(|Stopped| self.replay_queue.take_fault())?;
        if error_count > 0 {
            log::warn!("{error_count} command(s) of the append only file were answered by errors");
        }
        let is_new = loaded.manifest.files().next().is_none();
        if !is_new {
            let seconds = begun.elapsed().as_secs_f64();
            log::info!("DB loaded from append only file: {seconds:.3} seconds");
        }
        let base = first_base(&config, rules)?;
        let mut member = shared.keyspace.join(domain).map_err(|error| error.to_string())?;
        alone(shared, &mut member, |gate| {
            // The log may have been switched off before; it is not meanwhile.
            if self.is_wanted() {
                self.log.go_on(loaded, &base).map_err(|error| self.describe_open(&error))?;
                shared.sinks.switch(self.active_sinks(), gate);
            }
            shared.loading.end();
            Ok(())
        })
    }

    /// Text for the operator when the log cannot be gone on with.
    fn describe_open(&self, error: &io::Error) -> String {
        let directory = self.names.directory();
        format!("Can't open the append only file in {}: {}", directory.display(), reason(error))
    }

    /// Loads the log in the place of all data, for a session that waits: the keyspace is empty, and
    /// the journal is told of nothing. As [`load_at_start`](Self::load_at_start) otherwise. Tells
    /// whether it was loaded.
    pub(crate) fn reload<F: Flavour>(&self, shared: &Arc<Shared>, member: &mut Member<F>) -> bool {
        let domain = Arc::clone(member.domain());
        let loaded = member.offline(|| {
            self.log.write_and_sync();
            // None is restored, so none can be refused.
            let _ = restore_libraries(shared, std::iter::empty(), Policy::Flush);
            let mut reader = LogReader::new(Arc::clone(&self.replay_queue), shared, &domain);
            let loaded = load(&FileSystem, &self.names, false, &mut reader);
            loaded.and_then(|_| Ok(reader.finish()?))
        });
        if let Err(error) = &loaded {
            let fault = self.replay_queue.take_fault();
            log::error!("{}", fault.unwrap_or_else(|| error.to_string()));
        }
        alone(shared, member, |gate| shared.sinks.switch(self.active_sinks(), gate));
        loaded.is_ok()
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps other servers from the log, until this process ends in any way. Makes the directory
    /// again if it was removed or moved away, and tells whether it was locked anew.
    fn lock_directory(&self) -> Result<bool, String> {
        let locked = self.locks().take(&FileSystem, &self.names);
        let directory = self.names.directory();
        locked.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                format!("another server uses the append only files in {}", directory.display())
            }
            _ => format!("Can't use the directory {}: {}", directory.display(), reason(&error)),
        })
    }

    /// Claims the log's directory for a change of the working directory: no rewrite begins before
    /// the claim is dropped. None if the log, or a rewrite of it, uses the directory.
    pub(crate) fn claim_directory(&self) -> Option<DirectoryClaim<'_>> {
        let shared = self.shared.get().and_then(Weak::upgrade)?;
        if !shared.rewrites.claim_directory() {
            return None;
        }
        if self.uses_directory() {
            shared.rewrites.end_claim();
            return None;
        }
        Some(DirectoryClaim { durability: self, shared })
    }

    /// True if the log's directory is the one that this server has locked.
    pub(crate) fn has_directory(&self) -> bool {
        self.locks().is_held(&self.names)
    }

    /// Begins a rewrite: makes the next increment. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The disk failed, or the directory is another server's.
    pub(crate) fn prepare_rewrite(&self, base: BaseForm) -> io::Result<Rewrite> {
        if self.lock_directory().map_err(io::Error::other)? {
            // Its name, if it was removed and is made again.
            FileSystem.sync_directory(&self.names.root)?;
        }
        self.log.end_switch_off();
        self.log.prepare(self.is_wanted(), base)
    }

    /// Leaves a rewrite that is noted already, with a base of this configuration, to the thread:
    /// even its beginning syncs several times, which no worker is to wait for.
    ///
    /// # Errors
    ///
    /// [`SavingFailed`]: there is no such thread; the rewrite has ended then.
    pub(crate) fn rewrite(
        &self,
        shared: &Shared,
        config: &AppendOnlyConfig,
    ) -> Result<(), SavingFailed> {
        if self.send(Job::Rewrite(base_form(config))) {
            return Ok(());
        }
        shared.rewrites.end(shared.clock.unix_us(), false);
        Err(SavingFailed)
    }

    /// True if the log has to have a base soon, asked for or not: it has none, or only a new one
    /// can tell what is durable.
    pub(crate) fn needs_base(&self) -> bool {
        self.is_wanted() && (!self.log.is_written() || self.log.awaits_base())
    }

    /// True if a rewrite is due now.
    pub(crate) fn wants_rewrite(&self, shared: &Shared) -> bool {
        if shared.snapshots.is_running() || shared.rewrites.is_running() {
            return false;
        }
        let growth = self.growth_to_rewrite(shared);
        if !shared.rewrites.is_scheduled() && growth.is_none() {
            return false;
        }
        let is_paused = shared.rewrites.is_paused(shared.clock.unix_us() / 1_000_000, |minutes| {
            log::warn!(
                "Background AOF rewrite has repeatedly failed and triggered the limit, will retry \
                 in {minutes} minutes"
            );
        });
        if let (false, Some(growth)) = (is_paused, growth) {
            log::info!("Starting automatic rewriting of AOF on {growth}% growth");
        }
        !is_paused
    }

    /// The log's growth in percent, if that is so much that it is to be rewritten.
    fn growth_to_rewrite(&self, shared: &Shared) -> Option<u64> {
        if !self.log.is_written() || self.log.awaits_first_base() {
            return None;
        }
        let status = self.log.status();
        let settings = shared.settings();
        let (percentage, bytes_min) = (settings.rewrite_percentage, settings.rewrite_bytes_min);
        if percentage == 0 || status.current_bytes <= bytes_min {
            return None;
        }
        let base_bytes = status.base_bytes.max(1);
        let growth =
            (u128::from(status.current_bytes) * 100 / u128::from(base_bytes)).saturating_sub(100);
        let growth = u64::try_from(growth).unwrap_or(u64::MAX);
        (growth >= percentage).then_some(growth)
    }

    /// Switches the log on or off, if another configuration asks for it. Threads beside the workers
    /// do what waits for the disk.
    ///
    /// # Errors
    ///
    /// It cannot be switched on; it is off then.
    pub(crate) fn switch(&self, next: &AppendOnlyConfig) -> Result<(), String> {
        if next.is_enabled == self.is_wanted() {
            return Ok(());
        }
        let Some(shared) = self.shared.get().and_then(Weak::upgrade) else {
            return Err("The server is starting".into());
        };
        self.is_wanted.store(next.is_enabled, Ordering::Relaxed);
        if next.is_enabled {
            self.switch_on(&shared, next)
                .inspect_err(|_| self.is_wanted.store(false, Ordering::Relaxed))
        } else {
            if shared.rewrites.cancel() {
                log::warn!("Killing the AOF rewrite (a thread here, not a child)");
            }
            shared.rewrites.unschedule();
            self.log.begin_switch_off();
            self.send(Job::SwitchJournal);
            Ok(())
        }
    }

    fn switch_on(&self, shared: &Shared, next: &AppendOnlyConfig) -> Result<(), String> {
        let failed = |()| "Unable to turn on AOF. Check server logs.".to_owned();
        self.lock_directory().map_err(|error| log::error!("{error}")).map_err(failed)?;
        // A part of the data is no base.
        let is_busy = shared.snapshots.is_running() || shared.loading.is_running();
        // A claim of the directory, if there is one, is that of this change of the configuration:
        // there is one at a time.
        if is_busy || !shared.rewrites.begin_in_claim(shared.clock.unix_us()) {
            log::warn!(
                "AOF was enabled but there is already another background operation. An AOF \
                        background was scheduled to start when possible."
            );
            shared.rewrites.forget_failures();
            shared.rewrites.schedule();
            return Ok(());
        }
        self.rewrite(shared, next).map_err(|SavingFailed| failed(()))
    }

    /// Records of the journal and of the log; none while it is off.
    pub(crate) fn position(&self) -> Option<LogPosition> {
        let position = LogPosition { last: self.log.need(), durable: self.log.durable() };
        self.is_wanted().then_some(position)
    }

    /// Facts about the log; none while it is off.
    pub(crate) fn facts(&self) -> Option<AppendOnlyFacts> {
        if !self.is_wanted() {
            return None;
        }
        let status = self.log.status();
        Some(AppendOnlyFacts {
            current_bytes: status.current_bytes,
            base_bytes: status.base_bytes,
            delayed_sync_count: status.delayed_sync_count,
            is_syncing: status.is_syncing,
            has_failed: status.has_failed,
            awaits_first_base: !self.log.is_written() || self.log.awaits_first_base(),
        })
    }

    /// Writes and syncs what is left. The workers have stopped. Blocks on the disk.
    pub(crate) fn stop(&self) {
        self.log.stop();
    }

    /// True if the log, or a rewrite of it, has files in the working directory.
    pub(crate) fn uses_directory(&self) -> bool {
        let shared = self.shared.get().and_then(Weak::upgrade);
        let is_rewriting = shared.is_some_and(|shared| shared.rewrites.is_running());
        self.is_wanted() || self.log.is_written() || is_rewriting
    }

    /// True while a snapshot is saved, an empty one is to be, or data is loaded.
    pub(crate) fn is_saving_or_loading(&self) -> bool {
        let shared = self.shared.get().and_then(Weak::upgrade);
        shared.is_some_and(|shared| {
            let snapshots = &shared.snapshots;
            snapshots.is_running()
                || snapshots.latest_awaited_empty().is_some()
                || shared.loading.is_running()
        })
    }

    /// Applies the configuration that is in force now.
    pub(crate) fn configure(&self, config: &ServerConfig) {
        let config = &config.append_only;
        self.log.configure(policy(config), config.annotates_time);
        self.spares_syncs.store(config.spares_syncs, Ordering::Relaxed);
    }

    /// Keeps files of the log's past or not; to be called while the configuration is changed, and
    /// with it the directory. Blocks on the disk if there is something to remove.
    pub(crate) fn keep_history(&self, keeps: bool) {
        self.log.keep_history(keeps);
    }

    /// True if the sync of each second is left out for now.
    pub(crate) fn leaves_syncs(&self) -> bool {
        let shared = self.shared.get().and_then(Weak::upgrade);
        self.spares_syncs.load(Ordering::Relaxed)
            && shared
                .is_some_and(|shared| shared.snapshots.is_running() || shared.rewrites.is_running())
    }
}

/// Claim of the log's directory while the process may leave it. Its end, of any kind, lets rewrites
/// begin again, and gives back the locks of a directory that the process is not in.
pub(crate) struct DirectoryClaim<'d> {
    durability: &'d Durability,
    shared: Arc<Shared>,
}

impl Drop for DirectoryClaim<'_> {
    fn drop(&mut self) {
        let Durability { names, .. } = self.durability;
        self.durability.locks().keep_only(names);
        self.shared.rewrites.end_claim();
    }
}

/// Locks against other servers that use the log of the same names.
#[derive(Debug, Default)]
struct Locks {
    /// Beside the log's directory: also holds when that is removed and made again.
    beside: Option<Box<dyn DiskLock>>,
    /// Within it: also holds for a directory that is reached by several ways.
    within: Option<Box<dyn DiskLock>>,
}

impl Locks {
    fn path_beside(names: &LogNames) -> PathBuf {
        names.root.join(format!(".{}-{}.lock", names.directory_name, names.file_name))
    }

    fn path_within(names: &LogNames) -> PathBuf {
        names.directory().join(format!("{}.lock", names.file_name))
    }

    fn is_held(&self, names: &LogNames) -> bool {
        self.within.as_ref().is_some_and(|lock| lock.is_at(&Self::path_within(names)))
    }

    /// Gives back the locks that are not at these names.
    fn keep_only(&mut self, names: &LogNames) {
        let (beside, within) = (Self::path_beside(names), Self::path_within(names));
        self.beside.take_if(|lock| !lock.is_at(&beside));
        self.within.take_if(|lock| !lock.is_at(&within));
    }

    /// Takes the locks that are not held; tells whether there was one within the directory to take.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] if another server has one; others of the directory.
    fn take(&mut self, disk: &dyn Disk, names: &LogNames) -> io::Result<bool> {
        let beside = Self::path_beside(names);
        if self.beside.as_ref().is_none_or(|lock| !lock.is_at(&beside)) {
            match disk.lock(&beside) {
                Ok(lock) => self.beside = Some(lock),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
                // Only the directory of the log need be writable.
                Err(_) => {}
            }
        }
        if self.is_held(names) {
            return Ok(false);
        }
        disk.create_directory(&names.directory())?;
        self.within = Some(disk.lock(&Self::path_within(names))?);
        Ok(true)
    }
}

/// Refuses writes while the log cannot be written; after a failed sync, only a new base helps.
fn note_failure(shared: &LateShared, failure: Option<WriteFailure>) {
    let Some(shared) = shared.get().and_then(Weak::upgrade) else { return };
    shared.write_refusal.set(failure.map(|WriteFailure { errno, .. }| {
        let error = io::Error::from_raw_os_error(errno);
        format!("MISCONF Errors writing to the AOF file: {}", reason(&error))
    }));
    if failure.is_some_and(|failure| failure.is_of_sync) {
        shared.rewrites.schedule();
    }
}

/// Runs work with all workers stopped, this one's own included.
fn alone<F: Flavour, T>(
    shared: &Shared,
    member: &mut Member<F>,
    work: impl FnOnce(&ClosedGate<'_>) -> T,
) -> T {
    let seat = Rc::clone(member.seat());
    let token = take_token(shared, &seat, member);
    seat.enter();
    let gate = close_gate(shared, &seat, member);
    let result = work(&gate);
    drop(gate);
    drop(token);
    seat.leave();
    result
}

/// True if the end would lose what the first base of a log that was switched on is to have.
pub(crate) fn must_write_first_base(shared: &Shared) -> bool {
    let facts = shared.host.append_only();
    facts.is_some_and(|facts| facts.awaits_first_base) && shared.rewrites.is_running()
}

/// Form of the bases under a configuration.
pub(crate) fn base_form(config: &AppendOnlyConfig) -> BaseForm {
    BaseForm {
        is_snapshot: config.base_is_snapshot,
        annotates_time: config.annotates_time,
        syncs_in_steps: config.syncs_base_in_steps,
    }
}

/// Base of a log that begins with no data.
fn first_base(config: &AppendOnlyConfig, rules: &WriteRules) -> Result<EmptyBase, String> {
    let is_snapshot = config.base_is_snapshot;
    let bytes = match is_snapshot {
        true => empty(rules).map_err(|error| error.to_string())?,
        false => Vec::new(),
    };
    Ok(EmptyBase { is_snapshot, bytes })
}

/// Names of the log's files, below the working directory, which is `dir`.
fn names(config: &AppendOnlyConfig) -> LogNames {
    LogNames {
        root: PathBuf::from("."),
        directory_name: config.directory_name.clone(),
        file_name: config.file_name.clone(),
        snapshot_name: config.snapshot_name.clone(),
    }
}

fn policy(config: &AppendOnlyConfig) -> FsyncPolicy {
    match config.fsync.as_str() {
        "always" => FsyncPolicy::Always,
        "no" => FsyncPolicy::No,
        _ => FsyncPolicy::EverySecond,
    }
}
