//! The append-only file of the server: loaded at start, then told of each change.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tidemill_engine::commit::{ActiveSinks, Sinks};
use tidemill_engine::config::{AppendOnlyConfig, ServerConfig};
use tidemill_engine::shared::{AppendOnlyFacts, Shared};
use tidemill_engine::slots::mailbox::Notify;
use tidemill_engine::system_error::reason;
use tidemill_engine::worker::Worker;
use tidemill_journal::Journal;
use tidemill_persist::append_only::{
    AppendOnlyFile, FsyncPolicy, LogNames, WakeWorker, WriteFailure, load,
};
use tidemill_persist::disk::{Disk, DiskLock, FileSystem};
use tidemill_rcu::Flavour;
use tidemill_store::Member;

use crate::handover::Waker;
use crate::replay::Replayer;

/// The append-only file of the server, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    journal: Option<Arc<Journal>>,
    /// Set once the log was loaded.
    log: OnceLock<Arc<AppendOnlyFile>>,
    /// Keeps other servers from the log's directory.
    lock: OnceLock<Box<dyn DiskLock>>,
}

impl Durability {
    /// A value of what the configuration asks for. Touches no file.
    pub(crate) fn new(config: &ServerConfig, worker_count: usize) -> Durability {
        let journal = config.append_only.is_enabled.then(|| Arc::new(Journal::new(worker_count)));
        Durability { journal, log: OnceLock::new(), lock: OnceLock::new() }
    }

    /// Receivers of changes for the engine. They hear nothing before [`Durability::begin`].
    pub(crate) fn sinks(&self) -> Sinks {
        let journal = self.journal.clone();
        Sinks::inactive(None, journal.map(|journal| Box::new(journal) as _))
    }

    /// The log, once it was loaded.
    pub(crate) fn log(&self) -> Option<&Arc<AppendOnlyFile>> {
        self.log.get()
    }

    /// Loads the log into the empty keyspace, and lets changes be journaled from then on. On the
    /// thread of a worker, while no other one runs. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// Text for the operator; no file has lost anything.
    pub(crate) fn begin<F: Flavour>(
        &self,
        shared: &Arc<Shared>,
        (worker, member): (&mut Worker, &mut Member<F>),
        wakers: &[Waker],
    ) -> Result<(), String> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let config = shared.configuration().server().append_only;
        let (disk, names) = (FileSystem, names(&config));
        self.lock_directory(&disk, &names)?;
        let mut replayer = Replayer::new(shared, worker, member);
        let loaded = load(&disk, &names, config.may_cut_tail, &mut replayer);
        let loaded = loaded.map_err(|error| error.to_string())?;
        let error_count = replayer.finish();
        if error_count > 0 {
            log::warn!("{error_count} command(s) of the append only file were answered by errors");
        }
        let log = self.open(shared, journal, wakers, (&disk, &names, &config), loaded);
        let log = log.map_err(|error| {
            let directory = names.directory();
            format!(
                "Can't open the append only file in {}: {}",
                directory.display(),
                reason(&error)
            )
        })?;
        member.seat().enter();
        let gate = shared.close_gate(member.seat(), u32::MAX).expect("no other worker runs yet");
        shared.sinks.switch(ActiveSinks::JOURNAL, &gate);
        drop(gate);
        member.seat().leave();
        let is_first = self.log.set(Arc::new(log)).is_ok();
        assert!(is_first, "the log is loaded once");
        Ok(())
    }

    /// Keeps other servers from the log, until this process ends in any way.
    fn lock_directory(&self, disk: &dyn Disk, names: &LogNames) -> Result<(), String> {
        let directory = names.directory();
        let lock = disk
            .create_directory(&directory)
            .and_then(|()| disk.lock(&directory.join("tidemill.lock")))
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => {
                    format!("another server uses the append only files in {}", directory.display())
                }
                _ => format!("Can't use the directory {}: {}", directory.display(), reason(&error)),
            })?;
        let is_first = self.lock.set(lock).is_ok();
        assert!(is_first, "the log is loaded once");
        Ok(())
    }

    fn open(
        &self,
        shared: &Arc<Shared>,
        journal: &Arc<Journal>,
        wakers: &[Waker],
        (disk, names, config): (&dyn Disk, &LogNames, &AppendOnlyConfig),
        loaded: tidemill_persist::append_only::Loaded,
    ) -> std::io::Result<AppendOnlyFile> {
        let wakes = wakers.iter().cloned();
        let wakes = wakes.map(|waker| Box::new(move || waker.notify()) as WakeWorker).collect();
        let shared = Arc::downgrade(shared);
        let on_failure = Box::new(move |failure: Option<WriteFailure>| {
            let Some(shared) = shared.upgrade() else { return };
            shared.write_refusal.set(failure.map(|WriteFailure { errno, .. }| {
                let error = std::io::Error::from_raw_os_error(errno);
                format!("MISCONF Errors writing to the AOF file: {}", reason(&error))
            }));
        });
        let log = AppendOnlyFile::open(
            disk,
            names,
            loaded,
            Arc::clone(journal),
            policy(config),
            wakes,
            on_failure,
        )?;
        log.configure(policy(config), config.annotates_time);
        Ok(log)
    }

    /// Facts about the log.
    pub(crate) fn facts(&self) -> Option<AppendOnlyFacts> {
        let status = self.log()?.status();
        Some(AppendOnlyFacts {
            current_bytes: status.current_bytes,
            base_bytes: status.base_bytes,
            delayed_sync_count: status.delayed_sync_count,
            is_syncing: status.is_syncing,
            has_failed: status.has_failed,
        })
    }

    /// Writes and syncs what is left. The workers have stopped. Blocks on the disk.
    pub(crate) fn stop(&self) {
        if let Some(log) = self.log() {
            log.stop();
        }
    }

    /// Applies the configuration that is in force now.
    pub(crate) fn configure(&self, config: &ServerConfig) {
        if let Some(log) = self.log() {
            log.configure(policy(&config.append_only), config.append_only.annotates_time);
        }
    }
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
