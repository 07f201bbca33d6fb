//! Rewrite: a base of a cut in the place of everything that was written before it.
//!
//! ```text
//! prepare     the next increment is made, durable, in no manifest yet
//! note_cut    all workers are stopped: the cut's place in the stream is noted
//! switch      the old increment gets what comes before the cut and is synced; the manifest has the
//!             next one; what comes behind the cut goes there
//!             (the base is written and synced under another name)
//! finish      the base gets its name; the manifest has it and the new increment only
//!             (old files are removed)
//! ```
//!
//! Whatever fails or ends in between, the manifest on the disk names files that hold everything,
//! once: before `finish` the old ones and the new increment, behind it the new ones. No reply that
//! depends on a record of the new increment leaves before the manifest names it durably. A rewrite
//! that fails behind `switch` leaves one more increment.
//!
//! A log that is switched on begins likewise, but the manifest has its increment together with the
//! base: nothing of it counts before.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use tidemill_journal::Merged;

use super::file::{AppendOnlyFile, LogState, lock};
use super::load::{LoadError, read_manifest};
use super::manifest::Manifest;
use super::writer::{Increment, Writer};

/// Form of a base, as the configuration has it when its rewrite begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseForm {
    /// `aof-use-rdb-preamble`: a snapshot, commands otherwise.
    pub is_snapshot: bool,
    /// `aof-timestamp-enabled`.
    pub annotates_time: bool,
    /// `aof-rewrite-incremental-fsync`.
    pub syncs_in_steps: bool,
}

/// A rewrite that has begun. Dropping it without [`AppendOnlyFile::finish`] or
/// [`AppendOnlyFile::give_up`] leaves files that the next one replaces.
#[derive(Debug)]
pub struct Rewrite {
    /// The next increment; none for a log that is off, or once it is written.
    next: Option<Increment>,
    /// State of the log when it began.
    before: LogState,
    /// Number of times that the log had been switched off.
    generation: u64,
    /// The manifest with the next increment.
    manifest: Manifest,
    /// Number of increments that the base replaces.
    replaced_count: usize,
    cut: Merged,
    base: BaseForm,
}

impl Rewrite {
    /// Form of its base.
    #[must_use]
    pub fn base(&self) -> BaseForm {
        self.base
    }
}

const SWITCHED_OFF: &str = "the log was switched off";

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl AppendOnlyFile {
    /// Begins a rewrite. With `switches_on`, a log that is off is on once it ends. Blocks on the
    /// disk. One rewrite at a time.
    ///
    /// # Errors
    ///
    /// The disk failed, or the manifest of a log that was off is none; the log is as it was.
    pub fn prepare(&self, switches_on: bool, base: BaseForm) -> io::Result<Rewrite> {
        let before = self.state();
        let directory = self.names.directory();
        if before == LogState::Off {
            self.disk.create_directory(&directory)?;
            self.disk.sync_directory(&self.names.root)?;
            let manifest = read_manifest(&*self.disk, &self.names);
            *lock(&self.manifest) =
                manifest.map_err(|error: LoadError| other(error))?.unwrap_or_default();
        }
        let generation = self.generation();
        let mut present = lock(&self.manifest);
        let mut manifest = present.clone();
        let replaced_count = manifest.increments.len();
        let mut next = None;
        if switches_on || before != LogState::Off {
            let name = manifest.push_increment(&self.names.file_name);
            if before != LogState::On {
                // One that no manifest names is written already, if this is another attempt.
                present.increment_sequence = manifest.increment_sequence;
            }
            next = Some(Increment::create(&*self.disk, &directory.join(&name))?);
            self.disk.sync_directory(&directory)?;
        }
        drop(present);
        // Less is left to sync when replies wait for it.
        self.sync();
        let cut = Merged::default();
        Ok(Rewrite { next, before, generation, manifest, replaced_count, cut, base })
    }

    /// Notes the place of a cut in the stream. All workers are stopped, and no unit is under way:
    /// what has a number is of the time before. A log that is off is written from here on, which
    /// the caller lets the journal be told of. One that was switched off since
    /// [`prepare`](Self::prepare) stays off, and [`switch`](Self::switch) fails. Does not block on
    /// the disk, but for another attempt to switch a log on.
    pub fn note_cut(&self, rewrite: &mut Rewrite) {
        let mut writer = (rewrite.before != LogState::On).then(|| lock(&self.writer));
        let mut merge = self.journal.merge();
        // Under the locks: `switch_off` counts the generation first and clears under them behind.
        if self.generation() != rewrite.generation {
            return;
        }
        rewrite.cut = self.journal.drain(&mut merge);
        merge.begin_anew();
        let Some(writer) = &mut writer else {
            *lock(&self.cut) = Some(rewrite.cut);
            return;
        };
        if let Some(next) = rewrite.next.take() {
            let first = Writer::new(next, 0, merge.attach());
            self.begin_sizes(&first);
            **writer = Some(first);
            self.raise_written(rewrite.cut.number);
            self.set_state(LogState::FirstBase);
        }
    }

    /// Lets everything behind the cut go to the next increment. Replies that depend on it wait
    /// meanwhile. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The disk failed, or the log was switched off: the log goes on as it was, and the rewrite is
    /// to be given up.
    pub fn switch(&self, rewrite: &mut Rewrite) -> io::Result<()> {
        let Some(next) = rewrite.next.take() else { return Ok(()) };
        let mut guard = lock(&self.writer);
        self.expect_generation(rewrite)?;
        let switched = self.switch_to(rewrite, &mut guard, next);
        {
            let _merge = self.journal.merge();
            *lock(&self.cut) = None;
        }
        drop(guard);
        if switched? && !self.has_failed_sync() {
            self.raise_durable(rewrite.cut.number);
        }
        Ok(())
    }

    /// Returns whether the old increment is durable.
    fn switch_to(
        &self,
        rewrite: &Rewrite,
        writer: &mut Option<Writer>,
        next: Increment,
    ) -> io::Result<bool> {
        let number = self.append(writer).ok_or_else(|| other("the log is not written"))?;
        self.raise_written(number);
        let Some(writer) = writer else { return Err(other(SWITCHED_OFF)) };
        let synced = writer.file.sync();
        if let Err(error) = &synced {
            // The base will have what may be lost.
            self.fail(error, true);
        }
        self.names.write_manifest(&*self.disk, &rewrite.manifest)?;
        lock(&self.manifest).clone_from(&rewrite.manifest);
        writer.switch(next);
        self.note_size(writer);
        Ok(synced.is_ok())
    }

    /// Path for the new base until it is complete.
    #[must_use]
    pub fn temporary_base(&self) -> PathBuf {
        self.names.directory().join(format!("temp-rewriteaof-bg-{}", self.names.file_name))
    }

    /// Puts a base, which is complete and durable under its temporary path, into its place. A log
    /// that was off is on then, if that was asked for. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The disk failed: the log goes on with one more increment, and is as it was if it was off.
    pub fn finish(&self, rewrite: Rewrite, base_bytes: u64) -> io::Result<()> {
        let (directory, temporary) = (self.names.directory(), self.temporary_base());
        self.expect_generation(&rewrite)?;
        let mut manifest = rewrite.manifest;
        let log_name = &self.names.file_name;
        let name =
            manifest.replace_base(log_name, rewrite.base.is_snapshot, rewrite.replaced_count);
        let mut present = lock(&self.manifest);
        // A name that a failed attempt left in a manifest is not used again.
        present.base_sequence = manifest.base_sequence;
        let base = directory.join(&name);
        self.disk.rename(&temporary, &base)?;
        let written = self.disk.sync_directory(&directory);
        let written = written.and_then(|()| self.names.write_manifest(&*self.disk, &manifest));
        if let Err(error) = written {
            self.remove_unnamed(&base, &name);
            return Err(error);
        }
        self.remove_history(&mut manifest);
        *present = manifest;
        drop(present);
        self.count_base(base_bytes);
        if self.awaits_first_base() {
            self.sync();
            self.set_state(LogState::On);
        }
        log::info!("Successfully created the base AOF file {name}");
        Ok(())
    }

    /// Removes a base that was not put into its place, unless the manifest on the disk may name it:
    /// it does if only the sync of its directory failed, and then a start needs the base.
    fn remove_unnamed(&self, base: &Path, name: &str) {
        let manifest = read_manifest(&*self.disk, &self.names);
        let is_named = |manifest: &Manifest| manifest.files().any(|entry| entry.name == name);
        if manifest.is_ok_and(|manifest| !manifest.as_ref().is_some_and(is_named)) {
            let _ = self.disk.unlink(base);
        }
    }

    fn expect_generation(&self, rewrite: &Rewrite) -> io::Result<()> {
        match self.generation() == rewrite.generation {
            true => Ok(()),
            false => Err(other(SWITCHED_OFF)),
        }
    }

    fn count_base(&self, base_bytes: u64) {
        let mut guard = lock(&self.writer);
        let Some(writer) = &mut *guard else { return };
        writer.set_other_bytes(base_bytes);
        self.begin_sizes(writer);
        let is_trusted = !writer.is_untrusted();
        drop(guard);
        if is_trusted {
            self.recover_by_base();
        }
    }

    /// Removes what a rewrite that failed has left. A log that is being switched on goes on being
    /// written, and needs another rewrite.
    pub fn give_up(&self) {
        let _ = self.disk.unlink(&self.temporary_base());
    }

    /// Lets the thread that syncs switch the log off, which takes as long as syncs do; nothing new
    /// is refused or answered otherwise before that.
    pub fn begin_switch_off(&self) {
        // Release: pairs with the Acquire in `is_closing`.
        self.is_closing.store(true, Ordering::Release);
        lock(&self.requests).is_close_wanted = true;
        self.stopped.notify_one();
    }

    /// True between [`begin_switch_off`](Self::begin_switch_off) and the end of it.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Switches the log off if that was begun and is not done yet. Blocks on the disk.
    pub fn end_switch_off(&self) {
        let _one = lock(&self.closing);
        if self.is_closing() {
            self.switch_off();
            // Release: who sees it sees the log switched off.
            self.is_closing.store(false, Ordering::Release);
        }
    }

    /// Switches the log off: what the journal has is written and durable then. Blocks on the disk.
    pub fn switch_off(&self) {
        self.note_switched_off();
        self.close();
        let _merge = self.journal.merge();
        *lock(&self.cut) = None;
        self.set_state(LogState::Off);
        self.forget_failure();
    }

    /// Keeps files of the past or not, for tests. They are removed at once if the log is written:
    /// before, the manifest in memory may be that of a directory which was left. Blocks on the disk
    /// if there are some.
    pub fn keep_history(&self, keeps: bool) {
        if self.set_keeps_history(keeps) && !keeps && self.is_written() {
            self.remove_history(&mut lock(&self.manifest));
        }
    }

    /// Removes files of the past, once the manifest says that they are, and lets it forget them.
    pub(super) fn remove_history(&self, manifest: &mut Manifest) {
        if manifest.history.is_empty() || self.keeps_history() {
            return;
        }
        for entry in std::mem::take(&mut manifest.history) {
            // One that is absent was removed before the manifest could say so.
            let _ = self.disk.unlink(&self.names.directory().join(&entry.name));
        }
        if let Err(error) = self.names.write_manifest(&*self.disk, manifest) {
            log::warn!("The AOF manifest still names files that are gone: {error}");
        }
    }
}
