//! Saves of all data: state of the one at hand, outcome of the last one, and when the next is due.
//!
//! The files are written by the process around the engine, which is called by
//! [`Host`](super::Host). What is counted and answered is decided here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::empty_file::{EmptyFile, EmptyFiles};
use crate::limits::SAVE_RETRY_S;
use crate::script::Snapshot as Libraries;
use crate::settings::SavePoint;

/// Figures of saves and loads, for `INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFigures {
    /// Unix time in seconds of the last save that succeeded; of the start before there was one.
    pub last_save_s: u64,
    /// False if the last background save failed.
    pub last_succeeded: bool,
    /// Seconds that the last background save took.
    pub last_duration_s: Option<u64>,
    /// Seconds since the save at hand began.
    pub current_duration_s: Option<u64>,
    /// Saves that were written.
    pub save_count: u64,
    /// Changes that the last save does not have.
    pub unsaved_changes: u64,
    /// Keys that were loaded from a file last.
    pub loaded_keys: u64,
    /// Keys that were not, because their time was over.
    pub expired_keys: u64,
    /// True if a background save or a base of the append-only file is being written.
    pub is_writing: bool,
    /// Keys of it that are written.
    pub saved_keys: u64,
    /// Keys that there were at its cut.
    pub total_keys: u64,
    /// Microseconds for which the last cut stopped the workers.
    pub last_cut_us: u64,
    /// Most bytes that the last save kept from being freed.
    pub held_bytes_peak: u64,
}

/// A save that is under way, and the start of its figures.
#[derive(Clone, Copy, Debug)]
struct Running {
    started_us: u64,
    /// Changes of all workers at the cut.
    changes: u64,
    is_background: bool,
    /// True if it is to count as failed although it was cancelled.
    is_aborted: bool,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    figures: SnapshotFigures,
    /// Sum of the workers' changes that the last save has.
    saved_changes: u64,
    /// Unix time in seconds of the last attempt.
    last_attempt_s: u64,
    /// True while a base of the append-only file is written.
    has_log_cut: bool,
    /// Libraries of functions at the cut of the save at hand.
    libraries: Arc<Libraries>,
    empty_files: EmptyFiles,
}

impl State {
    /// Changes that the last save does not have, given all. A save may have some that are counted
    /// in a moment.
    fn unsaved(&self, changes: u64) -> u64 {
        let unsaved = changes.wrapping_sub(self.saved_changes).cast_signed();
        unsaved.max(0).cast_unsigned()
    }

    fn is_busy(&self) -> bool {
        self.running.is_some() || self.empty_files.is_one_awaited()
    }
}

/// State of saves.
#[derive(Debug)]
pub struct Snapshots {
    state: Mutex<State>,
    /// Locked while a finished file is put into its place, which may take as long as the disk
    /// likes, and by those that must not come in between. Locked before `state`.
    placing: Mutex<()>,
    /// The last background save failed; a copy of `last_succeeded` for the boundary of a worker.
    has_failed: AtomicBool,
    /// Keys that the save at hand has written.
    saved_keys: AtomicU64,
    /// The save at hand is to end without a file.
    is_cancelled: AtomicBool,
    /// A background save is to begin soon.
    is_scheduled: AtomicBool,
}

/// Reason why no save begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadySaving;

impl Snapshots {
    pub(super) fn new(now_s: u64) -> Snapshots {
        let figures =
            SnapshotFigures { last_save_s: now_s, last_succeeded: true, ..Default::default() };
        Snapshots {
            state: Mutex::new(State { figures, ..State::default() }),
            placing: Mutex::new(()),
            has_failed: AtomicBool::new(false),
            saved_keys: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
            is_scheduled: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a cut for the append-only file, with the libraries of functions at it.
    pub(super) fn begin_log_cut(&self, libraries: Arc<Libraries>) {
        let mut state = self.state();
        state.libraries = libraries;
        state.has_log_cut = true;
        // Relaxed: a statistic.
        self.saved_keys.store(0, Ordering::Relaxed);
    }

    /// The cut for the append-only file is written, or given up.
    pub fn end_log_cut(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.has_log_cut) {
            state.figures.total_keys = 0;
        }
    }

    /// Sources of the libraries of functions at the last cut.
    #[must_use]
    pub fn cut_libraries(&self) -> Vec<Box<[u8]>> {
        let libraries = Arc::clone(&self.state().libraries);
        libraries.libraries().map(|library| library.source.clone()).collect()
    }

    /// Notes what was loaded.
    pub fn note_loaded(&self, loaded_keys: u64, expired_keys: u64) {
        let mut state = self.state();
        state.figures.loaded_keys = loaded_keys;
        state.figures.expired_keys = expired_keys;
    }

    /// Begins a save of what there is at this moment, these libraries among it; `changes` is the
    /// sum of the workers'.
    pub(super) fn begin(
        &self,
        now_us: u64,
        (changes, libraries): (u64, Arc<Libraries>),
        is_background: bool,
    ) -> Result<(), AlreadySaving> {
        let mut state = self.state();
        if state.is_busy() {
            return Err(AlreadySaving);
        }
        state.running =
            Some(Running { started_us: now_us, changes, is_background, is_aborted: false });
        state.last_attempt_s = now_us / 1_000_000;
        state.libraries = libraries;
        // Relaxed, all: statistics, and requests that are looked at again and again.
        self.saved_keys.store(0, Ordering::Relaxed);
        self.is_cancelled.store(false, Ordering::Relaxed);
        if is_background {
            self.is_scheduled.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes the beginning of a save back.
    pub(super) fn give_up(&self) {
        self.state().running = None;
    }

    /// Notes how many keys the save at hand has, and how long its cut stopped the workers.
    pub(super) fn note_cut(&self, total_keys: u64, cut_us: u64) {
        let mut state = self.state();
        state.figures.total_keys = total_keys;
        state.figures.last_cut_us = cut_us;
    }

    /// Ends the save at hand.
    pub(super) fn end(&self, now_us: u64, has_succeeded: bool) {
        let mut state = self.state();
        let Some(running) = state.running.take() else { return };
        let was_cancelled = self.is_cancelled() && !has_succeeded && !running.is_aborted;
        let figures = &mut state.figures;
        figures.total_keys = 0;
        if running.is_background {
            let duration_us = now_us.saturating_sub(running.started_us);
            figures.last_duration_s = Some(duration_us / 1_000_000);
        }
        if has_succeeded {
            figures.last_save_s = now_us / 1_000_000;
            figures.save_count += 1;
            state.saved_changes = running.changes;
        }
        // One that was cancelled says nothing of the disk, and a client sees that its SAVE failed.
        if has_succeeded || (running.is_background && !was_cancelled) {
            state.figures.last_succeeded = has_succeeded;
            // Relaxed: workers see it at some boundary soon.
            self.has_failed.store(!has_succeeded, Ordering::Relaxed);
        }
    }

    /// Puts a finished file into its place by `put`, which may block, unless the save at hand was
    /// cancelled; none then. No save is cancelled meanwhile. Figures are answered meanwhile, and
    /// `put` may ask for them.
    pub fn put_unless_cancelled<T>(&self, put: impl FnOnce() -> T) -> Option<T> {
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.is_cancelled()).then(put)
    }

    /// Asks for a background save as soon as there can be one.
    pub fn schedule(&self) {
        // Relaxed, here and below: looked at again and again.
        self.is_scheduled.store(true, Ordering::Relaxed);
    }

    /// Takes back what [`Snapshots::schedule`] asked for; tells whether it was.
    pub fn unschedule(&self) -> bool {
        self.is_scheduled.swap(false, Ordering::Relaxed)
    }

    /// True if a background save was asked for.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        self.is_scheduled.load(Ordering::Relaxed)
    }

    /// Notes the most bytes that the save at hand kept from being freed.
    pub fn note_held_bytes(&self, held_bytes_peak: u64) {
        self.state().figures.held_bytes_peak = held_bytes_peak;
    }

    /// Notes a save that needed no walk.
    pub fn note_saved(&self, now_us: u64, changes: u64) {
        let mut state = self.state();
        state.figures.last_save_s = now_us / 1_000_000;
        state.figures.save_count += 1;
        state.figures.last_succeeded = true;
        state.saved_changes = changes;
        // Relaxed: as in `end`.
        self.has_failed.store(false, Ordering::Relaxed);
    }

    /// Counts keys that the save at hand has written.
    pub fn count_saved_keys(&self, count: u64) {
        // Relaxed: a statistic.
        self.saved_keys.fetch_add(count, Ordering::Relaxed);
    }

    /// True if a save of a cut is under way.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().running.is_some()
    }

    /// Notes that an empty file is to be written, in which these changes are and these libraries,
    /// and returns its number. No save begins before it is there: its file would be replaced.
    pub(super) fn begin_empty(&self, changes: u64, libraries: Arc<Libraries>) -> u32 {
        self.state().empty_files.begin(changes, libraries)
    }

    /// Makes the caller the one that has to see to a thread which writes empty files; false if
    /// there is one.
    pub fn claim_empty_thread(&self) -> bool {
        self.state().empty_files.claim_thread()
    }

    /// There is no such thread after all.
    pub fn give_up_empty_thread(&self) {
        self.state().empty_files.give_up_thread();
    }

    /// The empty file that the thread has to write next. If there is none, the thread has to end:
    /// the next file is another one's.
    pub fn next_empty(&self) -> Option<EmptyFile> {
        self.state().empty_files.next_of_thread()
    }

    /// The latest empty file, unless the one of that number is there or has failed.
    #[must_use]
    pub fn awaited_empty(&self, number: u32) -> Option<EmptyFile> {
        self.state().empty_files.awaited(number)
    }

    /// The empty file of that number, and all before it, are there or have failed.
    pub fn end_empty(&self, number: u32) {
        self.state().empty_files.end(number);
    }

    /// True if the empty file of that number is there, or has failed.
    #[must_use]
    pub(crate) fn has_ended_empty(&self, number: u32) -> bool {
        self.state().empty_files.has_ended(number)
    }

    /// Number of the latest empty file that is to be written, if one is.
    #[must_use]
    pub fn latest_awaited_empty(&self) -> Option<u32> {
        self.state().empty_files.latest_awaited()
    }

    /// Asks the save at hand to end without a file; tells whether there is one. Waits while its
    /// file is put into its place.
    pub fn cancel(&self) -> bool {
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let is_running = state.running.is_some();
        if is_running {
            // Relaxed: looked at again and again.
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        is_running
    }

    /// As [`cancel`](Self::cancel), and lets a save in the background count as failed.
    pub(crate) fn abort(&self) {
        if let Some(running) = &mut self.state().running {
            running.is_aborted = true;
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// True if the save at hand is to end without a file.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// True if the last background save failed.
    #[must_use]
    #[inline]
    pub fn has_failed(&self) -> bool {
        // Relaxed: as in `end`.
        self.has_failed.load(Ordering::Relaxed)
    }

    /// The first save point that is due.
    #[must_use]
    pub fn due(&self, points: &[SavePoint], now_us: u64, changes: u64) -> Option<SavePoint> {
        let state = self.state();
        let now_s = now_us / 1_000_000;
        let waits = !state.figures.last_succeeded
            && now_s.saturating_sub(state.last_attempt_s) <= SAVE_RETRY_S;
        if state.is_busy() || waits {
            return None;
        }
        let unsaved = state.unsaved(changes);
        let since_s = now_s.saturating_sub(state.figures.last_save_s);
        points.iter().copied().find(|point| unsaved >= point.changes && since_s > point.seconds)
    }

    /// Figures for `INFO`.
    #[must_use]
    pub fn figures(&self, now_us: u64, changes: u64) -> SnapshotFigures {
        let state = self.state();
        let running = state.running.filter(|running| running.is_background);
        let is_writing = running.is_some() || state.has_log_cut;
        SnapshotFigures {
            is_writing,
            current_duration_s: running
                .map(|running| now_us.saturating_sub(running.started_us) / 1_000_000),
            unsaved_changes: state.unsaved(changes),
            saved_keys: if is_writing { self.saved_keys.load(Ordering::Relaxed) } else { 0 },
            ..state.figures.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Bound of what must not wait.
    const PROMPT: Duration = Duration::from_secs(20);

    fn running() -> Snapshots {
        let snapshots = Snapshots::new(0);
        snapshots.begin(0, (0, Arc::default()), true).expect("no other save");
        snapshots
    }

    /// A rename that frees a large file takes hundreds of milliseconds, and workers ask meanwhile.
    #[test]
    fn figures_do_not_wait_until_a_file_is_in_its_place() {
        let snapshots = Arc::new(running());
        let put = snapshots.put_unless_cancelled(|| {
            let (sender, answers) = channel();
            let asked = Arc::clone(&snapshots);
            thread::spawn(move || {
                let figures = asked.figures(1_000_000, 0);
                let _ = sender.send((figures.current_duration_s, asked.is_running()));
            });
            answers.recv_timeout(PROMPT)
        });
        assert_eq!(put, Some(Ok((Some(1), true))));
    }

    #[test]
    fn no_save_begins_before_an_empty_file_is_there() {
        let snapshots = Snapshots::new(0);
        let begin = || snapshots.begin(0, (0, Arc::default()), false);
        let numbers = [0, 1].map(|changes| snapshots.begin_empty(changes, Arc::default()));
        assert!(begin().is_err() && !snapshots.is_running());
        snapshots.end_empty(numbers[0]);
        assert_eq!(numbers.map(|number| snapshots.has_ended_empty(number)), [true, false]);
        assert_eq!((snapshots.latest_awaited_empty(), begin().is_err()), (Some(numbers[1]), true));
        snapshots.end_empty(numbers[1]);
        assert!(snapshots.has_ended_empty(numbers[1]));
        assert_eq!(begin(), Ok(()));
    }

    #[test]
    fn a_save_is_cancelled_before_its_file_is_put_or_behind_that() {
        let snapshots = running();
        let events = Mutex::new(Vec::new());
        let note = |event| events.lock().expect("no panic").push(event);
        thread::scope(|scope| {
            let put = snapshots.put_unless_cancelled(|| {
                let (sender, begun) = channel();
                let (snapshots, note) = (&snapshots, &note);
                scope.spawn(move || {
                    let _ = sender.send(());
                    snapshots.cancel();
                    note("cancelled");
                });
                begun.recv_timeout(PROMPT).expect("the thread begins");
                // Time for the other thread to be wrong in.
                thread::sleep(Duration::from_millis(20));
                note("put");
            });
            assert_eq!(put, Some(()));
        });
        assert_eq!(*events.lock().expect("no panic"), ["put", "cancelled"]);
        assert_eq!(snapshots.put_unless_cancelled(|| note("put again")), None);
    }
}
