//! The append-only file as threads use it: who writes, who syncs, which replies may leave.
//!
//! Under `everysec` and `no` a worker writes by itself at the end of its iteration, for all workers
//! ([`AppendOnlyFile::write_behind`]), and its replies leave behind that: what was answered
//! survives the end of the process. Where another thread is writing, or a sync runs, the log's
//! thread writes ([`AppendOnlyFile::run_writer`]): a write beside a sync may have to wait for it,
//! and mostly does not. Under `always` that thread alone writes, syncs and lets replies go; what
//! comes in meanwhile, and from the clients that were answered, is its next group. A worker whose
//! replies wait says for which record ([`AppendOnlyFile::waits`]) and is woken.
//!
//! A log is off, or on; between these it has an increment, but no base yet, so that nothing of it
//! counts. [`super::rewrite`] leads from one to the other, and makes bases.
//!
//! Rejected: a write that waits for the end of a sync, as in Valkey, whose replies leave before it.
//! Here they would wait for as long; beside syncs of 4 to 25 ms, a write took 9 us in the median.
//! A thread that writes always. The hop to it and back costs ten times the write.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use tidemill_journal::{Journal, Merged, RecordNumber};

use super::load::Loaded;
use super::manifest::Manifest;
use super::names::LogNames;
use super::writer::{Increment, Writer};
use crate::disk::Disk;
use crate::limits::{GATHERING_MAX, LATE_SYNC, RETRY_MS, SYNC_MS};

/// When the file is synced, `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FsyncPolicy {
    /// Before each reply that depends on it.
    Always,
    /// Once a second.
    EverySecond,
    /// When the system likes to.
    No,
}

/// Wakes a worker whose replies may leave. Must not block.
pub type WakeWorker = Box<dyn Fn() + Send + Sync>;

/// Failure of the last write or sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Error number of the system.
    pub errno: i32,
    /// True if a sync failed: what is durable is not known any more, and a later success of one
    /// would prove nothing.
    pub is_of_sync: bool,
}

/// Facts about the log for `INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// Bytes of all files.
    pub current_bytes: u64,
    /// Bytes of all files behind the last rewrite; of the base since a start.
    pub base_bytes: u64,
    /// Writes beside a sync that took too long.
    pub delayed_sync_count: u64,
    /// True if a sync runs.
    pub is_syncing: bool,
    /// True if the last write or sync failed.
    pub has_failed: bool,
}

/// State of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LogState {
    /// Nothing is written.
    Off,
    /// The first base is being written, and an increment beside it. No reply waits for it.
    FirstBase,
    /// Everything is written.
    On,
}

/// Content of a base without any data.
#[derive(Clone, Debug)]
pub struct EmptyBase {
    /// True if it is a snapshot; it has no bytes otherwise.
    pub is_snapshot: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The append-only file.
pub struct AppendOnlyFile {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) names: LogNames,
    pub(super) journal: Arc<Journal>,
    state: AtomicU8,
    /// Number of times that it was switched off.
    generation: AtomicU64,
    /// None while the log is off.
    pub(super) writer: Mutex<Option<Writer>>,
    /// End of what belongs into the present increment, while the next one is about to be begun.
    /// Changed while the merge is kept.
    pub(super) cut: Mutex<Option<Merged>>,
    /// As it is on the disk. Locked by one change of the log at a time.
    pub(super) manifest: Mutex<Manifest>,
    current_bytes: AtomicU64,
    base_bytes: AtomicU64,
    policy: AtomicU8,
    annotates_time: AtomicBool,
    /// True if files of the past are kept, for tests.
    keeps_history: AtomicBool,
    /// Pause before each write, for tests, in microseconds.
    write_delay_us: AtomicU64,
    /// Last record that is written, that is durable.
    written: AtomicU64,
    durable: AtomicU64,
    /// By worker: the first record that its replies wait for; 0 for none.
    needs: Box<[Need]>,
    /// By worker: the first record that clients wait for to be durable; 0 for none.
    durable_needs: Box<[Need]>,
    wakes: Vec<WakeWorker>,
    is_syncing: AtomicBool,
    /// Record up to which the next group of `always` gathers, so that it is not asked for before;
    /// 0 while none gathers.
    gathers_until: AtomicU64,
    /// True while it is being switched off.
    pub(super) is_closing: AtomicBool,
    /// Locked by the thread that switches it off.
    pub(super) closing: Mutex<()>,
    delayed_sync_count: AtomicU64,
    pub(super) requests: Mutex<Requests>,
    /// Told when a write is wanted, or the log is stopped. Waited for by the log's thread alone:
    /// under `always` it is woken for each group.
    requested: Condvar,
    /// Told when the log is stopped or to be switched off. Waited for by the thread that syncs.
    pub(super) stopped: Condvar,
    /// The failure of the last write or sync, if it failed.
    failure: Mutex<Option<WriteFailure>>,
    has_failed: AtomicBool,
    on_failure: Box<dyn Fn(Option<WriteFailure>) + Send + Sync>,
}

/// Record that a worker waits for, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Need(AtomicU64);

/// Requests to the threads of the log.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) is_write_wanted: bool,
    pub(super) is_close_wanted: bool,
    is_stopped: bool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for AppendOnlyFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AppendOnlyFile")
            .field("written", &self.written)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

impl AppendOnlyFile {
    /// A log that is off. `wakes` wake the workers, `on_failure` is told of the first failed write
    /// or sync and of the end of failures. Touches no file.
    pub fn new(
        (disk, names): (Arc<dyn Disk>, LogNames),
        journal: Arc<Journal>,
        policy: FsyncPolicy,
        wakes: Vec<WakeWorker>,
        on_failure: Box<dyn Fn(Option<WriteFailure>) + Send + Sync>,
    ) -> AppendOnlyFile {
        AppendOnlyFile {
            disk,
            names,
            journal,
            state: AtomicU8::new(LogState::Off as u8),
            generation: AtomicU64::new(0),
            writer: Mutex::default(),
            cut: Mutex::default(),
            manifest: Mutex::default(),
            current_bytes: AtomicU64::new(0),
            base_bytes: AtomicU64::new(0),
            policy: AtomicU8::new(policy as u8),
            annotates_time: AtomicBool::new(false),
            keeps_history: AtomicBool::new(false),
            write_delay_us: AtomicU64::new(0),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            needs: wakes.iter().map(|_| Need::default()).collect(),
            durable_needs: wakes.iter().map(|_| Need::default()).collect(),
            wakes,
            is_syncing: AtomicBool::new(false),
            gathers_until: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            closing: Mutex::default(),
            delayed_sync_count: AtomicU64::new(0),
            requests: Mutex::new(Requests::default()),
            requested: Condvar::new(),
            stopped: Condvar::new(),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            on_failure,
        }
    }

    /// Goes on with a log that was loaded, from the end that the journal has now; where there was
    /// none, begins one with this base. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The log cannot be opened or its manifest be written.
    pub fn go_on(&self, loaded: Loaded, first_base: &EmptyBase) -> io::Result<()> {
        let Loaded { mut manifest, tail_bytes, mut other_bytes, mut base_bytes } = loaded;
        let (disk, names, directory) = (&*self.disk, &self.names, self.names.directory());
        disk.create_directory(&directory)?;
        let cursor = self.journal.merge().attach();
        let last = manifest.increments.last().map(|last| directory.join(&last.name));
        let last =
            last.map(|path| Increment::go_on(disk, &path, tail_bytes)).transpose()?.flatten();
        let writer = if let Some(last) = last {
            Writer::new(last, other_bytes, cursor)
        } else {
            // The name of the log's directory.
            disk.sync_directory(&names.root)?;
            if manifest.files().next().is_none() {
                let name = manifest.replace_base(&names.file_name, first_base.is_snapshot, 0);
                let base = disk.create(&directory.join(&name))?;
                base.write_all_at(&first_base.bytes, 0)?;
                base.sync()?;
                other_bytes = first_base.bytes.len() as u64;
                base_bytes = other_bytes;
                log::info!("Creating AOF base file {name} on server start");
            }
            let name = manifest.push_increment(&names.file_name);
            // One of this name is in no manifest: it is left from a start that did not get here.
            let next = Increment::create(disk, &directory.join(&name))?;
            names.write_manifest(disk, &manifest)?;
            log::info!("Creating AOF incr file {name} on server start");
            Writer::new(next, tail_bytes + other_bytes, cursor)
        };
        self.remove_history(&mut manifest);
        self.give_up();
        let number = self.journal.merge().merged().number;
        self.written.store(number, Ordering::Release);
        self.durable.store(number, Ordering::Release);
        self.note_size(&writer);
        // The size of the increments when the base was made is not known any more.
        self.base_bytes.store(base_bytes, Ordering::Relaxed);
        *lock(&self.writer) = Some(writer);
        *lock(&self.manifest) = manifest;
        self.set_state(LogState::On);
        Ok(())
    }

    pub(super) fn state(&self) -> LogState {
        // Relaxed: changed while all workers are stopped, or followed by a wake-up.
        match self.state.load(Ordering::Relaxed) {
            0 => LogState::Off,
            1 => LogState::FirstBase,
            _ => LogState::On,
        }
    }

    pub(super) fn set_state(&self, state: LogState) {
        self.state.store(state as u8, Ordering::Relaxed);
        self.wake_all();
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn note_switched_off(&self) {
        // AcqRel: pairs with the Acquire in `generation`; also ordered by the writer's lock.
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// True unless the log is off.
    #[must_use]
    #[inline]
    pub fn is_written(&self) -> bool {
        self.state() != LogState::Off
    }

    /// True while the log has no base yet, so that a start would not find it.
    #[must_use]
    pub fn awaits_first_base(&self) -> bool {
        self.state() == LogState::FirstBase
    }

    pub(super) fn begin_sizes(&self, writer: &Writer) {
        // Relaxed, here and below: statistics.
        self.current_bytes.store(writer.log_bytes(), Ordering::Relaxed);
        self.base_bytes.store(writer.log_bytes(), Ordering::Relaxed);
    }

    pub(super) fn note_size(&self, writer: &Writer) {
        self.current_bytes.store(writer.log_bytes(), Ordering::Relaxed);
    }

    fn policy(&self) -> FsyncPolicy {
        // Relaxed: a change applies from some moment on.
        match self.policy.load(Ordering::Relaxed) {
            0 => FsyncPolicy::Always,
            1 => FsyncPolicy::EverySecond,
            _ => FsyncPolicy::No,
        }
    }

    /// Changes the policy, and whether commands are annotated with their time.
    pub fn configure(&self, policy: FsyncPolicy, annotates_time: bool) {
        self.annotates_time.store(annotates_time, Ordering::Relaxed);
        self.policy.store(policy as u8, Ordering::Relaxed);
        // Replies that wait for the one may be waiting for the other now.
        self.request_write();
        self.wake_all();
    }

    pub(super) fn keeps_history(&self) -> bool {
        self.keeps_history.load(Ordering::Relaxed)
    }

    /// Returns what it was before.
    pub(super) fn set_keeps_history(&self, keeps: bool) -> bool {
        self.keeps_history.swap(keeps, Ordering::Relaxed)
    }

    /// Pauses before each write from now on, for tests.
    pub fn delay_writes(&self, microseconds: u64) {
        self.write_delay_us.store(microseconds, Ordering::Relaxed);
    }

    /// The record that a reply made now depends on.
    #[must_use]
    #[inline]
    pub fn need(&self) -> RecordNumber {
        self.journal.allocated()
    }

    /// The last record whose replies may leave. After a failure, when the file lags behind and no
    /// further write is taken, reads have to go on: no reply waits.
    #[must_use]
    #[inline]
    pub fn released(&self) -> RecordNumber {
        // Acquire, here and below: pairs with the Release in `raise`. `has_failed` is a hint that
        // is followed by a wake-up.
        if self.has_failed.load(Ordering::Relaxed) || self.state() != LogState::On {
            return RecordNumber::MAX;
        }
        match self.policy() {
            FsyncPolicy::Always => self.durable.load(Ordering::Acquire),
            FsyncPolicy::EverySecond | FsyncPolicy::No => self.written.load(Ordering::Acquire),
        }
    }

    /// The last record that is durable; 0 while the log has no base.
    #[must_use]
    pub fn durable(&self) -> RecordNumber {
        match self.state() {
            LogState::On => self.durable.load(Ordering::Acquire),
            _ => 0,
        }
    }

    /// End of a worker's iteration: writes what is not written yet, or lets the log's thread do it.
    /// Blocks while the system takes the bytes; a worker that has filled its lane waits until
    /// another thread has written, which is what slows down clients that write more than the disk
    /// takes. To be called outside of the gate.
    pub fn write_behind(&self, worker: usize) {
        if !self.is_written() || self.journal.allocated() <= self.written.load(Ordering::Acquire) {
            return;
        }
        if self.has_failed.load(Ordering::Relaxed) {
            // The thread tries again from time to time.
            return;
        }
        if self.journal.is_crowded(worker) {
            self.write_now();
            if self.policy() == FsyncPolicy::Always {
                // The sync of it is asked for by this worker alone.
                self.request_write();
            }
            return;
        }
        let is_left_to_thread =
            self.policy() == FsyncPolicy::Always || self.is_syncing.load(Ordering::Relaxed);
        let mut writer = match self.writer.try_lock() {
            Ok(writer) if !is_left_to_thread => writer,
            Err(TryLockError::Poisoned(poisoned)) if !is_left_to_thread => poisoned.into_inner(),
            // The thread that has it may have drained the lanes before this worker's last record.
            _ if self.is_gathering() => return,
            _ => return self.request_write(),
        };
        let written = self.append(&mut writer);
        drop(writer);
        if let Some(number) = written {
            self.raise(&self.written, number);
        }
    }

    /// A worker's replies wait for a record, of which it is woken; 0 when none waits. Returns true
    /// if the record is released already.
    #[must_use]
    pub fn waits(&self, worker: usize, need: RecordNumber) -> bool {
        self.needs[worker].0.store(need, Ordering::Relaxed);
        if need == 0 {
            return false;
        }
        // SeqCst: pairs with the fence in `wake`: either this worker sees the record released, or
        // the thread that releases it sees the need.
        fence(Ordering::SeqCst);
        self.released() >= need
    }

    /// As [`waits`](Self::waits), for clients that wait for a record to be durable.
    #[must_use]
    pub fn waits_for_sync(&self, worker: usize, need: RecordNumber) -> bool {
        // As in `waits`; `raise` wakes.
        self.durable_needs[worker].0.store(need, Ordering::Relaxed);
        if need == 0 {
            return false;
        }
        fence(Ordering::SeqCst);
        !self.is_written() || self.durable() >= need
    }

    /// Appends what the journal has; the last record's number, unless that failed.
    pub(super) fn append(&self, writer: &mut Option<Writer>) -> Option<RecordNumber> {
        let writer = writer.as_mut()?;
        let delay_us = self.write_delay_us.load(Ordering::Relaxed);
        if delay_us > 0 {
            std::thread::sleep(Duration::from_micros(delay_us));
        }
        let unix_seconds = self.annotates_time.load(Ordering::Relaxed).then(|| {
            let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            elapsed.map_or(0, |elapsed| elapsed.as_secs() as i64)
        });
        match writer.append(&self.journal, &self.cut, unix_seconds) {
            Ok(number) => {
                self.note_size(writer);
                self.recover_from_write();
                Some(number)
            }
            Err(error) => {
                self.fail(&error, false);
                None
            }
        }
    }

    /// Notes that records are durable, and wakes the workers whose replies that releases.
    pub(super) fn raise_durable(&self, number: RecordNumber) {
        self.raise(&self.durable, number);
    }

    /// As [`raise_durable`](Self::raise_durable), of `written`.
    pub(super) fn raise_written(&self, number: RecordNumber) {
        self.raise(&self.written, number);
    }

    /// Raises `written` or `durable`.
    fn raise(&self, mark: &AtomicU64, number: RecordNumber) {
        // Release: pairs with the Acquire in `released`.
        mark.fetch_max(number, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // SeqCst: pairs with the fence in `waits`.
        fence(Ordering::SeqCst);
        let (released, durable) = (self.released(), self.durable());
        let needs = self.needs.iter().zip(&self.durable_needs);
        for ((need, durable_need), wake) in needs.zip(&self.wakes) {
            // Relaxed: ordered by the fences.
            let is_over = |need: &Need, end: RecordNumber| {
                let first = need.0.load(Ordering::Relaxed);
                first != 0 && first <= end
            };
            if is_over(need, released) || is_over(durable_need, durable) {
                wake();
            }
        }
    }

    fn wake_all(&self) {
        self.wakes.iter().for_each(|wake| wake());
    }

    /// Lets the log's thread write soon.
    fn request_write(&self) {
        let was_wanted = std::mem::replace(&mut lock(&self.requests).is_write_wanted, true);
        if !was_wanted {
            self.requested.notify_one();
        }
    }

    #[cold]
    pub(super) fn fail(&self, error: &io::Error, is_of_sync: bool) {
        let what = if is_of_sync { "fsync" } else { "write" };
        if self.policy() == FsyncPolicy::Always && self.state() == LogState::On {
            log::error!(
                "Can't recover from AOF {what} error when the AOF fsync policy is 'always': \
                 {error}. Exiting..."
            );
            // No reply that depends on the records may leave, and nothing may be written behind
            // them.
            std::process::exit(1);
        }
        let failure = WriteFailure { errno: error.raw_os_error().unwrap_or(0), is_of_sync };
        let mut present = lock(&self.failure);
        if present.is_none_or(|present| !present.is_of_sync && is_of_sync) {
            log::error!("Error in the {what} of the AOF file: {error}");
            *present = Some(failure);
            self.has_failed.store(true, Ordering::Relaxed);
            (self.on_failure)(Some(failure));
        }
        drop(present);
        self.wake_all();
    }

    /// A write succeeded: nothing is lost if only writes had failed.
    fn recover_from_write(&self) {
        if !self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let mut present = lock(&self.failure);
        if present.is_some_and(|failure| !failure.is_of_sync) {
            log::warn!("AOF write error looks solved. The server can write again.");
            *present = None;
            self.has_failed.store(false, Ordering::Relaxed);
            (self.on_failure)(None);
        }
    }

    /// A new base has all that was written before the file at hand, which is trusted: failures of
    /// syncs before do not matter any more.
    pub(super) fn recover_by_base(&self) {
        let mut present = lock(&self.failure);
        if present.is_some_and(|failure| failure.is_of_sync) {
            log::warn!("AOF fsync error is over by a new base. The server can write again.");
            *present = None;
            self.has_failed.store(false, Ordering::Relaxed);
            (self.on_failure)(None);
        }
    }

    /// The log is off: a failure of it is no reason to refuse writes any more.
    pub(super) fn forget_failure(&self) {
        let mut present = lock(&self.failure);
        if present.take().is_some() {
            self.has_failed.store(false, Ordering::Relaxed);
            (self.on_failure)(None);
        }
    }

    /// True if the log needs a base before anything more is durable for certain.
    #[must_use]
    pub fn awaits_base(&self) -> bool {
        self.awaits_first_base() || self.has_failed_sync()
    }

    /// The disk that it is on.
    #[must_use]
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// True if a sync failed, so that only a new base can tell what is durable.
    pub(super) fn has_failed_sync(&self) -> bool {
        lock(&self.failure).is_some_and(|failure| failure.is_of_sync)
    }

    /// Facts for `INFO`. Does not wait.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        LogStatus {
            current_bytes: self.current_bytes.load(Ordering::Relaxed),
            base_bytes: self.base_bytes.load(Ordering::Relaxed),
            delayed_sync_count: self.delayed_sync_count.load(Ordering::Relaxed),
            is_syncing: self.is_syncing.load(Ordering::Relaxed),
            has_failed: self.has_failed.load(Ordering::Relaxed),
        }
    }

    /// The log's thread: writes what workers leave to it, and under `always` writes and syncs in
    /// groups. Returns when the log is stopped.
    pub fn run_writer(&self) {
        let mut syncing_since = None;
        loop {
            let requests = lock(&self.requests);
            let wait = Duration::from_millis(RETRY_MS);
            let idle = |requests: &mut Requests| !requests.is_write_wanted && !requests.is_stopped;
            let (mut requests, _) = self
                .requested
                .wait_timeout_while(requests, wait, idle)
                .unwrap_or_else(PoisonError::into_inner);
            requests.is_write_wanted = false;
            let is_stopped = requests.is_stopped;
            drop(requests);
            if is_stopped {
                return;
            }
            if self.policy() == FsyncPolicy::Always {
                self.write_group();
            } else {
                self.note_slow_sync(&mut syncing_since);
                self.write_now();
            }
        }
    }

    /// Writes and syncs a group of `always`, lets the replies go that waited for it, and lets the
    /// next group gather: it begins once half as many records have come as this one released,
    /// besides those that wait already, or twice the time of this one is over. If it began at once,
    /// the clients that were just answered would miss it, and all would go on by turns in groups of
    /// a part each. A client that is alone waits for nothing: its next record is enough.
    fn write_group(&self) {
        let begun = Instant::now();
        self.write_now();
        let Some(number) = self.sync_file() else { return };
        let released = number.saturating_sub(self.durable.load(Ordering::Acquire));
        // Before a client is answered: its next record may come before this thread goes on.
        let target = self.journal.allocated() + released.div_ceil(2);
        self.begin_gathering(target);
        self.raise(&self.durable, number);
        self.end_gathering(target, begun.elapsed() * 2);
    }

    /// From now on no worker asks for a write before that record is there.
    pub(super) fn begin_gathering(&self, target: RecordNumber) {
        self.gathers_until.store(target, Ordering::Relaxed);
        // Asked for during the sync, of records that wait already.
        lock(&self.requests).is_write_wanted = false;
    }

    /// Waits for that record, for so long and [`GATHERING_MAX`] at most, and asks for a group of
    /// what has come.
    pub(super) fn end_gathering(&self, target: RecordNumber, time_max: Duration) {
        let is_gathering = |requests: &mut Requests| {
            let is_asked = requests.is_write_wanted || requests.is_stopped;
            !is_asked && self.journal.allocated() < target
        };
        let requests = lock(&self.requests);
        let gathered =
            self.requested.wait_timeout_while(requests, time_max.min(GATHERING_MAX), is_gathering);
        drop(gathered);
        self.gathers_until.store(0, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `is_gathering`: either this thread sees the record of a
        // worker that asks for no write, or that worker sees that nothing gathers any more.
        fence(Ordering::SeqCst);
        // A crowded worker may have written it already: it is to be synced then.
        if self.journal.allocated() > self.durable.load(Ordering::Acquire) {
            lock(&self.requests).is_write_wanted = true;
        }
    }

    /// True if the next group of `always` gathers still: it begins by itself, soon.
    fn is_gathering(&self) -> bool {
        // SeqCst: pairs with the fence in `end_gathering`.
        fence(Ordering::SeqCst);
        self.journal.allocated() < self.gathers_until.load(Ordering::Relaxed)
    }

    /// Before a write: tells of a sync that this thread has seen running for long, `since` then. It
    /// looks again within [`RETRY_MS`], so it also sees the [`SYNC_MS`] between two syncs.
    fn note_slow_sync(&self, since: &mut Option<Instant>) {
        if !self.is_syncing.load(Ordering::Relaxed) {
            *since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() >= LATE_SYNC {
            *since = None;
            self.delayed_sync_count.fetch_add(1, Ordering::Relaxed);
            log::warn!(
                "Asynchronous AOF fsync is taking too long (disk is busy?). Writing the AOF \
                 buffer without waiting for fsync to complete, this may slow down the server."
            );
        }
    }

    fn write_now(&self) {
        let mut writer = lock(&self.writer);
        if writer.is_none() {
            // The log is off: what is left of the time before goes nowhere.
            self.journal.drain(&mut self.journal.merge());
        }
        let written = self.append(&mut writer);
        drop(writer);
        if let Some(number) = written {
            self.raise(&self.written, number);
        }
    }

    /// Writes and syncs what the journal has. Blocks on the device.
    ///
    /// Under `always` the process ends when that fails.
    pub fn write_and_sync(&self) {
        self.write_now();
        self.sync();
    }

    /// Makes durable what is written. Blocks on the device.
    pub(super) fn sync(&self) {
        if let Some(number) = self.sync_file() {
            self.raise(&self.durable, number);
        }
    }

    /// Syncs what is written; returns the last record that is durable now, which nobody knows yet.
    /// None if all was durable before, or the sync failed.
    fn sync_file(&self) -> Option<RecordNumber> {
        // Acquire: pairs with the Release in `raise`; the file is at least as far.
        let target = self.written.load(Ordering::Acquire);
        if target <= self.durable.load(Ordering::Acquire) {
            return None;
        }
        let (file, length) = match &*lock(&self.writer) {
            Some(writer) => (Arc::clone(&writer.file), writer.length),
            None => return None,
        };
        self.is_syncing.store(true, Ordering::Relaxed);
        let synced = file.sync();
        self.is_syncing.store(false, Ordering::Relaxed);
        if let Some(writer) = &mut *lock(&self.writer) {
            writer.note_synced(&file, length, synced.is_ok());
        }
        match synced {
            Ok(()) if !self.has_failed_sync() => Some(target),
            Ok(()) => None,
            Err(error) => {
                self.fail(&error, true);
                None
            }
        }
    }

    /// The thread that syncs once a second, unless that is to be left for now. Returns when the log
    /// is stopped.
    pub fn run_sync(&self, is_left: impl Fn() -> bool) {
        loop {
            let requests = lock(&self.requests);
            let wait = Duration::from_millis(SYNC_MS);
            let idle = |requests: &mut Requests| !requests.is_stopped && !requests.is_close_wanted;
            let (mut requests, _) = self
                .stopped
                .wait_timeout_while(requests, wait, idle)
                .unwrap_or_else(PoisonError::into_inner);
            if requests.is_stopped {
                return;
            }
            let is_close_wanted = std::mem::take(&mut requests.is_close_wanted);
            drop(requests);
            if is_close_wanted {
                self.end_switch_off();
            } else if self.policy() == FsyncPolicy::EverySecond && !is_left() {
                self.sync();
            }
        }
    }

    /// Stops the threads, and writes and syncs what is left. The workers have stopped.
    pub fn stop(&self) {
        lock(&self.requests).is_stopped = true;
        self.requested.notify_one();
        self.stopped.notify_one();
        self.close();
    }

    /// Writes and syncs what the journal has, and says in the file that this is all. Nothing is
    /// written behind it. Blocks on the device.
    pub(super) fn close(&self) {
        self.write_and_sync();
        if let Some(mut writer) = lock(&self.writer).take()
            && let Err(error) = writer.seal()
        {
            log::warn!("The end of the AOF file could not be marked: {error}");
        }
    }
}
