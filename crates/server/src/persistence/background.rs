//! The thread that saves and loads beside the workers, and begins saves when a save point is due.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::shared::Shared;
use tidemill_engine::slots::parking::WaitTarget;
use tidemill_persist::snapshot::{Beside, SnapshotError};
use tidemill_rcu::{Domain, Flavour, Limits};
use tidemill_store::{Cut, Heap, Member};

use super::snapshot_file::{SnapshotFile, close_gate};
use crate::limits::SAVE_POINT_POLL;

/// Work for the thread.
pub(super) enum Job {
    /// Saves a cut.
    Save(Cut),
    /// Loads the snapshot, for a session that waits.
    Reload,
}

/// Starts the thread; it ends with the process.
///
/// # Errors
///
/// When there is no thread to be had.
pub(crate) fn serve<F: Flavour>(
    file: &Arc<SnapshotFile>,
    shared: &Arc<Shared>,
    domain: &Arc<Domain<F>>,
) -> io::Result<()> {
    let (sender, jobs) = channel();
    let thread_file = Arc::clone(file);
    let (shared, domain) = (Arc::clone(shared), Arc::clone(domain));
    let body = move || {
        let member = match shared.keyspace.join(&domain) {
            Ok(member) => member,
            Err(error) => return log::error!("snapshots: {error}"),
        };
        let heap = member.heap(Limits::default());
        SaveThread { file: thread_file, shared, member, heap }.run(&jobs);
    };
    thread::Builder::new().name("snapshot".into()).spawn(body)?;
    file.set_thread(sender);
    Ok(())
}

struct SaveThread<F: Flavour> {
    file: Arc<SnapshotFile>,
    shared: Arc<Shared>,
    member: Member<F>,
    heap: Heap,
}

impl<F: Flavour> SaveThread<F> {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match self.member.offline(|| jobs.recv_timeout(SAVE_POINT_POLL)) {
                Ok(Job::Save(cut)) => self.save(cut),
                Ok(Job::Reload) => self.reload(),
                Err(RecvTimeoutError::Timeout) => self.tick(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn save(&mut self, cut: Cut) {
        let SaveThread { file, shared, member, heap } = self;
        match file.save_cut(shared, cut, &mut Beside(member), heap) {
            Ok(()) => log::info!("Background saving terminated with success"),
            Err(SnapshotError::Cancelled) => {}
            Err(_) => log::error!("Background saving error"),
        }
    }

    fn reload(&mut self) {
        let SaveThread { file, shared, member, .. } = self;
        let domain = Arc::clone(member.domain());
        let loaded = member.offline(|| file.load_all(shared, &domain));
        if let Err(Some(error)) = &loaded {
            log::error!("{error}");
        }
        shared.loading.end_reload(loaded.is_ok());
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
            return;
        }
        let seat = Rc::clone(member.seat());
        let gate = close_gate(shared, &seat, member);
        let mut begun = None;
        ReadSide::section(member, &mut |section| {
            begun = shared.begin_save(&gate, section, true).ok();
        });
        drop(gate);
        if let Some(cut) = begun {
            log::info!("Background saving started");
            self.save(cut);
        }
    }
}
