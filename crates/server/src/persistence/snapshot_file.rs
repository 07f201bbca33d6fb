//! The file of the snapshot: saves and loads of it.

mod moved;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, TryLockError,
};
use std::thread;
use std::time::Instant;

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::config::ServerConfig;
use tidemill_engine::saving::{LoadSource, Present, Saving, SavingFailed};
use tidemill_engine::settings::Settings;
use tidemill_engine::shared::{EmptyFile, Shared};
use tidemill_engine::slots::parking::Ticket;
use tidemill_engine::slots::token::TokenGuard;
use tidemill_engine::stored::encode::UseRules;
use tidemill_engine::system_error::reason;
use tidemill_persist::disk::{Disk, DiskFile, DiskLock};
use tidemill_persist::limits::INSERTERS_MAX;
use tidemill_persist::load::{LoadError, LoadFault, LoadRules, Loaded, check_version, load, open};
use tidemill_persist::snapshot::{
    Alone, CutAccess, Purpose, SaveRules, SnapshotError, WriteRules, save, save_nothing, temporary,
    temporary_empty,
};
use tidemill_rcu::{Domain, Flavour, Limits};
use tidemill_store::gate::ClosedGate;
use tidemill_store::{Cut, Heap, Member};

pub(crate) use self::moved::SnapshotMove;
use super::background::Job;
use crate::durability::Durability;
use crate::limits::{GATE_RETRY, LOAD_LOG_S, SAVE_END_POLL};

/// Starts a thread that calls [`SnapshotFile::write_empty_files`].
pub(super) type EmptyWriter = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Directory and name of the snapshot. The process is in the directory.
pub(crate) struct SnapshotFile {
    disk: Arc<dyn Disk>,
    /// Read while a file is written: it is not moved meanwhile.
    place: RwLock<Place>,
    /// Lock against other servers that save under this name, once it is needed.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
    /// Way to the thread that saves in the background.
    to_thread: Mutex<Option<Sender<Job>>>,
    /// The append-only file beside it.
    log: Arc<Durability>,
    /// Locked while an empty file is written, by a worker or a thread.
    emptying: Mutex<()>,
    empty_writer: OnceLock<EmptyWriter>,
}

#[derive(Debug)]
struct Place {
    /// The working directory, for people to read.
    directory: String,
    /// `dbfilename`.
    path: PathBuf,
}

impl Place {
    /// A name in the directory that the process is in.
    fn here(name: &str) -> Place {
        let directory = std::env::current_dir();
        let directory = directory.map_or_else(|_| ".".into(), |path| path.display().to_string());
        Place { directory, path: PathBuf::from(name) }
    }

    fn lock_path(&self) -> PathBuf {
        PathBuf::from(format!(".{}.lock", self.path.display()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.directory, self.path.display())
    }
}

impl fmt::Debug for SnapshotFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SnapshotFile").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Reason why data was not saved before the end of the server, which goes on then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSaved {
    /// The log says why.
    Failed,
    /// A client called the end off.
    CalledOff,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SnapshotFile {
    /// The file that the configuration names.
    pub(crate) fn new(
        config: &ServerConfig,
        disk: Arc<dyn Disk>,
        log: &Arc<Durability>,
    ) -> Arc<SnapshotFile> {
        Arc::new(SnapshotFile {
            disk,
            place: RwLock::new(Place::here(&config.snapshot_file)),
            lock: Mutex::default(),
            to_thread: Mutex::default(),
            log: Arc::clone(log),
            emptying: Mutex::default(),
            empty_writer: OnceLock::new(),
        })
    }

    fn place(&self) -> RwLockReadGuard<'_, Place> {
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the channel to which jobs of the background are sent.
    pub(super) fn set_thread(&self, sender: Sender<Job>) {
        *locked(&self.to_thread) = Some(sender);
    }

    /// Sets the way to a thread that writes empty files. To be called once.
    pub(super) fn set_empty_writer(&self, writer: EmptyWriter) {
        let is_first = self.empty_writer.set(writer).is_ok();
        assert!(is_first, "one thread saves");
    }

    /// Locks the name, unless it is. The lock lasts until the process ends, or its file is removed.
    ///
    /// # Errors
    ///
    /// Text for the operator; of the kind `WouldBlock` when another server saves under the name.
    pub(crate) fn lock(&self) -> io::Result<()> {
        self.lock_at(&self.place())
    }

    fn lock_at(&self, place: &Place) -> io::Result<()> {
        let mut lock = locked(&self.lock);
        if !lock.as_ref().is_some_and(|lock| lock.is_at(&place.lock_path())) {
            *lock = Some(self.take_lock(place)?);
        }
        Ok(())
    }

    fn take_lock(&self, place: &Place) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(&place.lock_path()).map_err(|error| {
            let text = match error.kind() {
                io::ErrorKind::WouldBlock => format!(
                    "another server saves to {place}. Give this one another `dir` or \
                     `dbfilename`, or `save \"\"` to have it save nothing"
                ),
                _ => format!(
                    "{place} cannot be locked: {}. Give the server's user a `dir` that \
                     it may write, or `save \"\"` to have it save nothing",
                    reason(&error)
                ),
            };
            io::Error::new(error.kind(), text)
        })
    }

    /// Circumstances of a file for this purpose.
    pub(super) fn rules(&self, shared: &Shared, purpose: Purpose) -> SaveRules {
        let settings = shared.settings();
        let fields = vec![
            ("tidemill-ver", env!("CARGO_PKG_VERSION").to_owned()),
            ("redis-bits", usize::BITS.to_string()),
            ("ctime", (shared.clock.wall_us() / 1_000_000).to_string()),
            ("used-mem", shared.used_bytes().to_string()),
            ("aof-base", u8::from(purpose == Purpose::LogBase).to_string()),
        ];
        SaveRules {
            content: WriteRules {
                purpose,
                compression: settings.compression,
                has_checksum: settings.snapshot_checksum,
                list_listpack_size_max: settings.list_listpack_size_max,
                clock: shared.expiry_clock(),
                key_delay_us: settings.key_save_delay_us,
                uses: UseRules::of(&settings),
                fields,
            },
            syncs_in_steps: settings.snapshot_syncs_in_steps,
        }
    }

    /// Circumstances of a base of the append-only file.
    pub(crate) fn base_rules(&self, shared: &Shared) -> WriteRules {
        self.rules(shared, Purpose::LogBase).content
    }

    /// Saves a cut, tells the log and notes the end.
    pub(super) fn save_cut(
        &self,
        shared: &Shared,
        cut: Cut,
        access: &mut dyn CutAccess,
        heap: &Heap,
    ) -> Result<(), SnapshotError> {
        let rules = self.rules(shared, Purpose::Save);
        let place = self.place();
        let locked = self.lock_at(&place).map_err(SnapshotError::Io);
        let saved = match locked {
            Ok(()) => save(&*self.disk, &place.path, cut, shared, access, heap, &rules),
            Err(error) => {
                cut.end(heap);
                Err(error)
            }
        };
        match &saved {
            Ok(bytes) => log::info!("DB saved on disk ({bytes} bytes)"),
            Err(SnapshotError::Cancelled) => log::warn!("Background saving cancelled"),
            Err(error) => Self::warn(&place, error),
        }
        shared.end_save(saved.is_ok());
        saved.map(drop)
    }

    /// Writes an empty file and ends it, durable or failed. The caller has locked `emptying`.
    fn write_empty(&self, shared: &Shared, empty: &EmptyFile) {
        let rules = self.rules(shared, Purpose::Save);
        let place = self.place();
        let locked = self.lock_at(&place).map_err(SnapshotError::Io);
        let libraries = empty.libraries();
        let saved = locked.and_then(|()| {
            save_nothing(&*self.disk, &place.path, &libraries, &*shared.host, &rules)
        });
        match saved {
            Ok(()) => shared.snapshots.note_saved(shared.clock.unix_us(), empty.changes),
            // No reason not to flush; the changes count as unsaved, so that a save point is due.
            Err(error) => Self::warn(&place, &error),
        }
        shared.snapshots.end_empty(empty.number);
    }

    /// Writes empty files until none is wanted: as long as clients go on flushing, of whom each
    /// waits for two files at most. Blocks on the disk.
    pub(super) fn write_empty_files(&self, shared: &Shared) {
        loop {
            let _one = locked(&self.emptying);
            let Some(empty) = shared.snapshots.next_empty() else { return };
            self.write_empty(shared, &empty);
        }
    }

    /// Leaves work to the thread; false if there is none.
    fn send(&self, job: Job) -> bool {
        locked(&self.to_thread).as_ref().is_some_and(|sender| sender.send(job).is_ok())
    }

    fn warn(place: &Place, error: &SnapshotError) {
        log::error!("Write error saving DB to {place}: {error}");
    }

    /// Saves everything before the server ends, and lets nobody write behind it. Ends a save that
    /// is under way, and waits for a script that is: half of one must not be in the file. Blocks
    /// until that is durable; a client that ends the server without a save ends the waiting, and so
    /// does one that calls the end off, until all workers are stopped.
    ///
    /// # Errors
    ///
    /// [`NotSaved`]; the server goes on then.
    pub(crate) fn save_at_end<F: Flavour>(
        &self,
        shared: &Shared,
        domain: &Arc<Domain<F>>,
        stop: &AtomicBool,
    ) -> Result<(), NotSaved> {
        let mut member = shared.keyspace.join(domain).map_err(|error| {
            log::error!("{error}");
            NotSaved::Failed
        })?;
        let heap = member.heap(Limits::default());
        let seat = std::rc::Rc::clone(member.seat());
        // Acquire: pairs with the Release of the worker that stops the server.
        let is_stopped = || stop.load(Ordering::Acquire);
        let is_over = || is_stopped() || shared.signalled_end.is_called_off();
        let (token, gate) = loop {
            give_up_saves(shared, &mut member);
            let Some(token) = take_token_unless(shared, &seat, &mut member, is_over) else {
                return if is_stopped() { Ok(()) } else { Err(NotSaved::CalledOff) };
            };
            let gate = close_gate(shared, &seat, &mut member);
            if !is_saving(shared) {
                break (token, gate);
            }
            // One began whose turn came first.
        };
        if !shared.signalled_end.decide() {
            return Err(NotSaved::CalledOff);
        }
        if let Some(number) = shared.snapshots.latest_awaited_empty() {
            member.offline(|| self.save_nothing(shared, number));
        }
        let mut begun = None;
        ReadSide::section(&mut member, &mut |section| {
            begun = shared.begin_save(&gate, section, false).ok();
        });
        let cut = begun.ok_or(NotSaved::Failed)?;
        let saved = self.save(shared, cut, &mut member, &heap);
        saved.map_err(|SavingFailed| NotSaved::Failed)?;
        shared.clients.kill_all();
        // Release: pairs with the Acquire in the workers' loops; also ordered by the gate.
        stop.store(true, Ordering::Release);
        drop(gate);
        drop(token);
        Ok(())
    }

    /// Removes files of saves that are not complete: the process ends at once.
    pub(crate) fn remove_incomplete(&self) {
        // Mostly there is none, and none while the snapshot is moved, which may take a while.
        let place = match self.place.try_read() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(place)) => place.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let _ = self.disk.unlink(&temporary(&place.path));
        let _ = self.disk.unlink(&temporary_empty(&place.path));
    }

    /// The file to be loaded; none if it is absent.
    fn open_to_load(&self) -> Result<Option<Box<dyn DiskFile>>, LoadError> {
        open(&*self.disk, &self.place().path)
    }

    fn load_rules<'r>(&self, shared: &Shared, settings: &'r Settings) -> LoadRules<'r> {
        LoadRules {
            clock: shared.expiry_clock(),
            settings,
            verifies_checksum: settings.snapshot_checksum && shared.verifies_checksums(),
            keeps_expired: false,
            present: Present::Removed,
        }
    }

    /// Text of an error for the operator.
    pub(crate) fn describe(&self, error: &LoadError) -> String {
        format!("{}/{error}", self.place().directory)
    }

    fn io_error(&self, error: io::Error) -> LoadError {
        LoadError { path: self.place().path.clone(), fault: LoadFault::Io(error) }
    }

    /// Loads the file into a keyspace that workers do not touch, which is empty unless its keys are
    /// kept. Blocks until it is loaded.
    ///
    /// # Errors
    ///
    /// [`LoadError`].
    pub(crate) fn load_all<F: Flavour>(
        &self,
        shared: &Shared,
        domain: &Arc<Domain<F>>,
        present: Present,
    ) -> Result<(), LoadError> {
        let file = self.open_to_load()?;
        let file = file.ok_or_else(|| self.io_error(io::ErrorKind::NotFound.into()))?;
        let total_bytes = file.length().map_err(|error| self.io_error(error))?;
        shared.loading.set_total_bytes(total_bytes);
        let settings = shared.settings();
        let rules = LoadRules { present, ..self.load_rules(shared, &settings) };
        let begun = Instant::now();
        let mut logged = Instant::now();
        let note = &mut |loaded: Loaded| note_progress(shared, loaded, &mut logged);
        let inserter_count = shared.worker_count().min(INSERTERS_MAX);
        let path = self.place().path.clone();
        let loaded = load(&*file, &path, (shared, domain), rules, inserter_count, note);
        self.note_loaded(shared, loaded?, begun);
        Ok(())
    }

    /// Tells the log what was loaded.
    fn note_loaded(&self, shared: &Shared, loaded: Loaded, begun: Instant) {
        shared.snapshots.note_loaded(loaded.keys, loaded.expired_keys);
        log::info!(
            "Done loading RDB, keys loaded: {}, keys expired: {}, empty keys skipped: {}.",
            loaded.keys,
            loaded.expired_keys,
            loaded.empty_keys
        );
        log::info!("DB loaded from disk: {:.3} seconds", begun.elapsed().as_secs_f64());
        let lost = "data of modules was passed over and is lost at the next save";
        if loaded.module_parts > 0 {
            log::warn!("{}: {} times: {lost}", self.place(), loaded.module_parts);
        }
        let (limit, used) = (shared.settings().maxmemory_bytes, shared.live_bytes());
        if limit > 0 && used > limit {
            log::warn!("The data takes {used} bytes, more than maxmemory, {limit}");
        }
    }

    /// Begins the loading at start, before there are workers. Tells whether there is a file; if so,
    /// [`SnapshotFile::load_all`] is to be called once there are.
    ///
    /// # Errors
    ///
    /// [`LoadError`].
    pub(crate) fn begin_at_start(&self, shared: &Shared) -> Result<bool, LoadError> {
        let Some(file) = self.open_to_load()? else { return Ok(false) };
        let total_bytes = file.length().map_err(|error| self.io_error(error))?;
        shared.loading.begin(shared.clock.unix_us() / 1_000_000, total_bytes);
        Ok(true)
    }
}

/// Shows the progress of a load in `INFO`, and now and then in the log.
fn note_progress(shared: &Shared, loaded: Loaded, logged: &mut Instant) {
    shared.loading.note_loaded_bytes(loaded.bytes);
    shared.raise_peak(shared.data_bytes());
    if logged.elapsed().as_secs() < LOAD_LOG_S {
        return;
    }
    if let Some(figures) = shared.loading.figures() {
        *logged = Instant::now();
        log::info!("Loading RDB: {:.1}%, {} keys so far", figures.percent(), loaded.keys);
    }
}

/// Takes the token in the order of arrival: while somebody else has it, a script may be suspended
/// whose changes are seen and not journaled yet.
pub(crate) fn take_token<'k, F: Flavour>(
    shared: &'k Shared,
    seat: &std::rc::Rc<tidemill_store::gate::Seat>,
    member: &mut Member<F>,
) -> TokenGuard<'k> {
    loop {
        if let Some(token) = take_token_unless(shared, seat, member, || false) {
            return token;
        }
    }
}

/// As [`take_token`]; none once `is_over`.
fn take_token_unless<'k, F: Flavour>(
    shared: &'k Shared,
    seat: &std::rc::Rc<tidemill_store::gate::Seat>,
    member: &mut Member<F>,
    is_over: impl Fn() -> bool,
) -> Option<TokenGuard<'k>> {
    let ticket = Ticket { worker: Ticket::THREAD, session: 0 };
    loop {
        if let Some(token) = shared.token.try_take(ticket, seat) {
            return Some(token);
        }
        if is_over() {
            // Another thread that waits under the same ticket queues anew.
            shared.token.leave(ticket);
            return None;
        }
        member.offline(|| thread::sleep(GATE_RETRY));
    }
}

fn is_saving(shared: &Shared) -> bool {
    shared.snapshots.is_running() || shared.rewrites.is_running()
}

/// Gives up the save and the rewrite that are under way, and waits until they have ended: bounded
/// by the disk, since each looks behind every piece that it writes.
fn give_up_saves<F: Flavour>(shared: &Shared, member: &mut Member<F>) {
    if shared.snapshots.cancel() {
        log::warn!("A snapshot is being saved: it is given up");
    }
    while is_saving(shared) {
        // Also one that began meanwhile.
        shared.snapshots.cancel();
        shared.rewrites.cancel();
        member.offline(|| thread::sleep(SAVE_END_POLL));
    }
}

/// Closes the gate, however busy the workers are. The caller has the token.
pub(crate) fn close_gate<'k, F: Flavour>(
    shared: &'k Shared,
    seat: &tidemill_store::gate::Seat,
    member: &mut Member<F>,
) -> ClosedGate<'k> {
    let mut attempts = 0;
    loop {
        if let Ok(gate) = shared.close_gate(seat, attempts) {
            return gate;
        }
        attempts += 1;
        member.offline(|| thread::sleep(GATE_RETRY));
    }
}

impl Saving for SnapshotFile {
    fn save(
        &self,
        shared: &Shared,
        cut: Cut,
        reader: &mut dyn ReadSide,
        heap: &Heap,
    ) -> Result<(), SavingFailed> {
        self.save_cut(shared, cut, &mut Alone(reader), heap).map_err(|_| SavingFailed)
    }

    fn save_nothing(&self, shared: &Shared, number: u32) {
        let _one = locked(&self.emptying);
        if let Some(empty) = shared.snapshots.awaited_empty(number) {
            self.write_empty(shared, &empty);
        }
    }

    fn save_nothing_beside(&self, shared: &Shared) -> Result<(), SavingFailed> {
        let Some(start) = self.empty_writer.get() else { return Err(SavingFailed) };
        if !shared.snapshots.claim_empty_thread() {
            return Ok(());
        }
        start().map_err(|error| {
            shared.snapshots.give_up_empty_thread();
            log::warn!("No thread for an empty snapshot, a worker writes it: {}", reason(&error));
            SavingFailed
        })
    }

    fn is_log_closing(&self) -> bool {
        self.log.log().is_closing()
    }

    fn close_log(&self) {
        self.log.log().end_switch_off();
    }

    fn save_in_background(&self, shared: &Shared, cut: Cut) -> Result<(), SavingFailed> {
        if !self.send(Job::Save(cut)) {
            shared.end_save(false);
            return Err(SavingFailed);
        }
        log::info!("Background saving started");
        Ok(())
    }

    fn rewrite_log(&self, shared: &Shared) -> Result<(), SavingFailed> {
        self.log.rewrite(shared, &shared.configuration().server().append_only)
    }

    fn check_loadable(&self, shared: &Shared) -> Result<(), SavingFailed> {
        let file = match self.open_to_load() {
            Ok(Some(file)) => file,
            Ok(None) => {
                log::error!("{} is absent", self.place());
                return Err(SavingFailed);
            }
            Err(error) => {
                log::error!("{}", self.describe(&error));
                return Err(SavingFailed);
            }
        };
        let settings = shared.settings();
        let rules = self.load_rules(shared, &settings);
        check_version(&*file, &self.place().path, rules).map_err(|error| {
            log::error!("{}", self.describe(&error));
            SavingFailed
        })
    }

    fn load_in_background(&self, source: LoadSource) -> Result<(), SavingFailed> {
        if self.send(Job::Reload(source)) { Ok(()) } else { Err(SavingFailed) }
    }
}
