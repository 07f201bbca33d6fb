//! The thread that saves and loads beside the workers, and writes bases of the append-only file. It
//! begins saves and bases when they are due.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::saving::LoadSource;
use tidemill_engine::shared::Shared;
use tidemill_engine::slots::parking::WaitTarget;
use tidemill_engine::system_error::reason;
use tidemill_host::CpuSet;
use tidemill_host::apply::pin_current_thread;
use tidemill_persist::append_only::BaseForm;
use tidemill_persist::snapshot::{Beside, SnapshotError};
use tidemill_rcu::{Domain, Flavour, Limits};
use tidemill_store::{Cut, Heap, Member};

use super::snapshot_file::{EmptyWriter, SnapshotFile, close_gate, take_token};
use crate::allocator;
use crate::durability::Durability;
use crate::limits::SAVE_POINT_POLL;
use crate::resources::start_thread;

/// Work for the thread.
pub(crate) enum Job {
    /// Saves a cut.
    Save(Cut),
    /// Loads all data, for a session that waits.
    Reload(LoadSource),
    /// Writes a base of the log, in this form.
    Rewrite(BaseForm),
    /// Lets the journal be told of changes, or not, as the log needs it.
    SwitchJournal,
}

/// Starts the thread, on these CPUs if some are given; it ends with the process.
///
/// # Errors
///
/// When there is no thread to be had.
pub(crate) fn serve<F: Flavour>(
    (file, cpus): (&Arc<SnapshotFile>, Option<CpuSet>),
    log: &Arc<Durability>,
    shared: &Arc<Shared>,
    domain: &Arc<Domain<F>>,
) -> io::Result<()> {
    let (sender, jobs) = channel();
    let (thread_file, thread_log) = (Arc::clone(file), Arc::clone(log));
    let (shared, domain) = (Arc::clone(shared), Arc::clone(domain));
    file.set_empty_writer(empty_writer((file, cpus.clone()), &shared));
    let body = move || {
        pin(cpus.as_ref());
        let member = match shared.keyspace.join(&domain) {
            Ok(member) => member,
            Err(error) => return log::error!("snapshots: {error}"),
        };
        let heap = member.heap(Limits::default());
        SaveThread { file: thread_file, log: thread_log, shared, member, heap }.run(&jobs);
    };
    start_thread("snapshot", body)?;
    file.set_thread(sender.clone());
    log.set_thread(sender);
    Ok(())
}

fn pin(cpus: Option<&CpuSet>) {
    if let Some(cpus) = cpus
        && let Err(error) = pin_current_thread(cpus)
    {
        log::warn!("bgsave-cpulist {cpus}: {}", reason(&error));
    }
}

/// Start of a thread that writes empty files until none is wanted. It is a thread of its own,
/// because the one that saves may be busy with a base of the log for as long as all data takes.
fn empty_writer(
    (file, cpus): (&Arc<SnapshotFile>, Option<CpuSet>),
    shared: &Arc<Shared>,
) -> EmptyWriter {
    // The file has this: it would keep itself.
    let (file, shared) = (Arc::downgrade(file), Arc::downgrade(shared));
    Box::new(move || {
        let (Some(file), Some(shared)) = (file.upgrade(), shared.upgrade()) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let cpus = cpus.clone();
        let body = move || {
            pin(cpus.as_ref());
            file.write_empty_files(&shared);
        };
        start_thread("empty-snapshot", body).map(drop)
    })
}

pub(super) struct SaveThread<F: Flavour> {
    pub(super) file: Arc<SnapshotFile>,
    pub(super) log: Arc<Durability>,
    pub(super) shared: Arc<Shared>,
    pub(super) member: Member<F>,
    pub(super) heap: Heap,
}

impl<F: Flavour> SaveThread<F> {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            // Given up by what was done last; without it the next may end by an error.
            allocator::keep_reserve();
            match self.member.offline(|| jobs.recv_timeout(SAVE_POINT_POLL)) {
                Ok(Job::Save(cut)) => self.save(cut),
                Ok(Job::Reload(source)) => self.reload(source),
                Ok(Job::Rewrite(base)) => self.rewrite(base),
                Ok(Job::SwitchJournal) => self.switch_journal(),
                Err(RecvTimeoutError::Timeout) => self.tick(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn save(&mut self, cut: Cut) {
        let SaveThread { file, shared, member, heap, .. } = self;
        match file.save_cut(shared, cut, &mut Beside(member), heap) {
            Ok(()) => log::info!("Background saving terminated with success"),
            Err(SnapshotError::Cancelled) => {}
            Err(_) => log::error!("Background saving error"),
        }
    }

    fn reload(&mut self, source: LoadSource) {
        let SaveThread { file, log, shared, member, .. } = self;
        let is_loaded = match source {
            LoadSource::Snapshot(present) => {
                let domain = Arc::clone(member.domain());
                let loaded = member.offline(|| file.load_all(shared, &domain, present));
                loaded.inspect_err(|error| log::error!("{}", file.describe(error))).is_ok()
            }
            LoadSource::Log => log.reload(shared, member),
        };
        shared.loading.end_reload(is_loaded);
        shared.parking.wake_all(WaitTarget::Reload, || {});
    }

    /// Frees what the last save left, and begins one that is due.
    fn tick(&mut self) {
        let SaveThread { shared, member, heap, .. } = self;
        shared.keyspace.discard_handed_over(heap);
        heap.retire_unpinned(usize::MAX);
        ReadSide::reclaim(member, heap);
        if shared.loading.is_running() {
            return;
        }
        let settings = shared.settings();
        let due =
            shared.snapshots.due(&settings.save_points, shared.clock.unix_us(), shared.changes());
        if let Some(point) = due {
            log::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
        } else if !shared.snapshots.is_scheduled() || shared.snapshots.is_running() {
            return self.rewrite_if_due();
        }
        let seat = Rc::clone(member.seat());
        let token = take_token(shared, &seat, member);
        let gate = close_gate(shared, &seat, member);
        let mut begun = None;
        ReadSide::section(member, &mut |section| {
            begun = shared.begin_save(&gate, section, true).ok();
        });
        drop(gate);
        drop(token);
        if let Some(cut) = begun {
            log::info!("Background saving started");
            self.save(cut);
        }
    }
}
