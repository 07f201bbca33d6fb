//! The append-only file as threads use it: who writes, who syncs, which replies may leave.
//!
//! Under `everysec` and `no` a worker writes by itself at the end of its iteration, for all workers
//! ([`AppendOnlyFile::write_behind`]), and its replies leave behind that: what was answered
//! survives the end of the process. Where another thread is writing, or a sync runs, the log's
//! thread writes ([`AppendOnlyFile::run_writer`]). Under `always` that thread alone writes, syncs
//! and lets replies go; what comes in meanwhile is its next group. A worker whose replies wait says
//! for which record ([`AppendOnlyFile::waits`]) and is woken.
//!
//! Rejected: a thread that writes always. The hop to it and back costs ten times the write.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use tidemill_journal::{Journal, RecordNumber};

use super::load::Loaded;
use super::names::LogNames;
use super::writer::Writer;
use crate::disk::Disk;
use crate::limits::{RETRY_MS, SYNC_MS, WRITE_POSTPONED_MS_MAX};

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
    /// Bytes of all files when the log was rewritten or loaded last.
    pub base_bytes: u64,
    /// Writes that were done beside a sync, because it took too long.
    pub delayed_sync_count: u64,
    /// True if a sync runs.
    pub is_syncing: bool,
    /// True if the last write or sync failed.
    pub has_failed: bool,
}

/// The append-only file.
pub struct AppendOnlyFile {
    journal: Arc<Journal>,
    writer: Mutex<Writer>,
    policy: AtomicU8,
    annotates_time: AtomicBool,
    /// Last record that is written, that is durable.
    written: AtomicU64,
    durable: AtomicU64,
    /// By worker: the first record that its replies wait for; 0 for none.
    needs: Box<[Need]>,
    wakes: Vec<WakeWorker>,
    is_syncing: AtomicBool,
    delayed_sync_count: AtomicU64,
    requests: Mutex<Requests>,
    /// Told when `requests` change.
    requested: Condvar,
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
struct Requests {
    is_write_wanted: bool,
    is_stopped: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
    /// Begins to append to a log that was loaded. `wakes` wake the workers, `on_failure` is told of
    /// the first failed write or sync and of the end of failures. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The log cannot be opened or its manifest be written.
    pub fn open(
        disk: &dyn Disk,
        names: &LogNames,
        loaded: Loaded,
        journal: Arc<Journal>,
        policy: FsyncPolicy,
        wakes: Vec<WakeWorker>,
        on_failure: Box<dyn Fn(Option<WriteFailure>) + Send + Sync>,
    ) -> io::Result<AppendOnlyFile> {
        let writer = Writer::open(disk, names, loaded, &journal)?;
        let number = journal.merge().merged().number;
        Ok(AppendOnlyFile {
            writer: Mutex::new(writer),
            journal,
            policy: AtomicU8::new(policy as u8),
            annotates_time: AtomicBool::new(false),
            written: AtomicU64::new(number),
            durable: AtomicU64::new(number),
            needs: wakes.iter().map(|_| Need::default()).collect(),
            wakes,
            is_syncing: AtomicBool::new(false),
            delayed_sync_count: AtomicU64::new(0),
            requests: Mutex::new(Requests::default()),
            requested: Condvar::new(),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            on_failure,
        })
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
        if self.has_failed.load(Ordering::Relaxed) {
            return RecordNumber::MAX;
        }
        match self.policy() {
            FsyncPolicy::Always => self.durable.load(Ordering::Acquire),
            FsyncPolicy::EverySecond | FsyncPolicy::No => self.written.load(Ordering::Acquire),
        }
    }

    /// The last record that is durable.
    #[must_use]
    pub fn durable(&self) -> RecordNumber {
        self.durable.load(Ordering::Acquire)
    }

    /// End of a worker's iteration: writes what is not written yet, or lets the log's thread do it.
    /// Blocks while the system takes the bytes; a worker that has filled its lane waits until
    /// another thread has written, which is what slows down clients that write more than the disk
    /// takes. To be called outside of the gate.
    pub fn write_behind(&self, worker: usize) {
        if self.journal.allocated() <= self.written.load(Ordering::Acquire) {
            return;
        }
        if self.has_failed.load(Ordering::Relaxed) {
            // The thread tries again from time to time.
            return;
        }
        if self.journal.is_crowded(worker) {
            return self.write_now();
        }
        let is_left_to_thread =
            self.policy() == FsyncPolicy::Always || self.is_syncing.load(Ordering::Relaxed);
        let mut writer = match self.writer.try_lock() {
            Ok(writer) if !is_left_to_thread => writer,
            Err(TryLockError::Poisoned(poisoned)) if !is_left_to_thread => poisoned.into_inner(),
            // The thread that has it may have drained the lanes before this worker's last record.
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

    /// Appends what the journal has; the last record's number, unless that failed.
    fn append(&self, writer: &mut Writer) -> Option<RecordNumber> {
        let unix_seconds = self.annotates_time.load(Ordering::Relaxed).then(|| {
            let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            elapsed.map_or(0, |elapsed| elapsed.as_secs() as i64)
        });
        match writer.append(&self.journal, unix_seconds) {
            Ok(number) => {
                self.recover_from_write();
                Some(number)
            }
            Err(error) => {
                self.fail(&error, false);
                None
            }
        }
    }

    /// Raises `written` or `durable`, and wakes the workers whose replies it releases.
    fn raise(&self, mark: &AtomicU64, number: RecordNumber) {
        // Release: pairs with the Acquire in `released`.
        mark.fetch_max(number, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // SeqCst: pairs with the fence in `waits`.
        fence(Ordering::SeqCst);
        let released = self.released();
        for (need, wake) in self.needs.iter().zip(&self.wakes) {
            // Relaxed: ordered by the fences.
            let first = need.0.load(Ordering::Relaxed);
            if first != 0 && first <= released {
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
            self.requested.notify_all();
        }
    }

    #[cold]
    fn fail(&self, error: &io::Error, is_of_sync: bool) {
        let what = if is_of_sync { "fsync" } else { "write" };
        if self.policy() == FsyncPolicy::Always {
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

    /// Facts for `INFO`. Waits while the file is written.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        let writer = lock(&self.writer);
        LogStatus {
            current_bytes: writer.log_bytes(),
            base_bytes: writer.base_bytes,
            delayed_sync_count: self.delayed_sync_count.load(Ordering::Relaxed),
            is_syncing: self.is_syncing.load(Ordering::Relaxed),
            has_failed: self.has_failed.load(Ordering::Relaxed),
        }
    }

    /// The log's thread: writes what workers leave to it, and under `always` writes and syncs in
    /// groups. Returns when the log is stopped.
    pub fn run_writer(&self) {
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
                self.write_and_sync();
            } else {
                self.postpone_beside_sync();
                self.write_now();
            }
        }
    }

    /// Waits while a sync runs, which would hold a write up, but not for long.
    fn postpone_beside_sync(&self) {
        let until = Instant::now() + Duration::from_millis(WRITE_POSTPONED_MS_MAX);
        while self.is_syncing.load(Ordering::Relaxed) {
            if Instant::now() >= until {
                self.delayed_sync_count.fetch_add(1, Ordering::Relaxed);
                log::warn!(
                    "Asynchronous AOF fsync is taking too long (disk is busy?). Writing the AOF \
                     buffer without waiting for fsync to complete, this may slow down the server."
                );
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn write_now(&self) {
        let written = self.append(&mut lock(&self.writer));
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
    fn sync(&self) {
        // Acquire: pairs with the Release in `raise`; the file is at least as far.
        let target = self.written.load(Ordering::Acquire);
        if target <= self.durable.load(Ordering::Acquire) {
            return;
        }
        let (file, length) = {
            let writer = lock(&self.writer);
            (Arc::clone(&writer.file), writer.length)
        };
        self.is_syncing.store(true, Ordering::Relaxed);
        let synced = file.sync();
        self.is_syncing.store(false, Ordering::Relaxed);
        match synced {
            Ok(()) if !lock(&self.failure).is_some_and(|failure| failure.is_of_sync) => {
                lock(&self.writer).note_synced(&file, length);
                self.raise(&self.durable, target);
            }
            Ok(()) => {}
            Err(error) => self.fail(&error, true),
        }
    }

    /// The thread that syncs once a second. Returns when the log is stopped.
    pub fn run_sync(&self) {
        loop {
            let requests = lock(&self.requests);
            let wait = Duration::from_millis(SYNC_MS);
            let (requests, _) = self
                .requested
                .wait_timeout_while(requests, wait, |requests| !requests.is_stopped)
                .unwrap_or_else(PoisonError::into_inner);
            if requests.is_stopped {
                return;
            }
            drop(requests);
            if self.policy() == FsyncPolicy::EverySecond {
                self.sync();
            }
        }
    }

    /// Stops the threads, and writes and syncs what is left. The workers have stopped.
    pub fn stop(&self) {
        lock(&self.requests).is_stopped = true;
        self.requested.notify_all();
        self.write_and_sync();
    }
}
