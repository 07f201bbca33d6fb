//! Bases of the append-only file, by the thread that writes beside the workers.

use std::io;
use std::rc::Rc;

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::shared::Shared;
use tidemill_persist::append_only::{BaseForm, Rewrite};
use tidemill_persist::snapshot::{
    Beside, CommandsOutput, CutAccess, FileOutput, Purpose, SnapshotError, write,
};
use tidemill_rcu::Flavour;
use tidemill_store::Cut;

use super::background::SaveThread;
use super::snapshot_file::{close_gate, take_token};
use crate::durability::{Durability, base_form};

impl<F: Flavour> SaveThread<F> {
    /// Begins a rewrite that was asked for or that the log's growth calls for.
    pub(super) fn rewrite_if_due(&mut self) {
        let SaveThread { log, shared, .. } = self;
        if !log.wants_rewrite(shared) || !shared.rewrites.begin(shared.clock.unix_us()) {
            return;
        }
        let base = base_form(&shared.configuration().server().append_only);
        self.rewrite(base);
    }

    /// Writes a base and puts it into its place.
    pub(super) fn rewrite(&mut self, base: BaseForm) {
        log::info!("Background append only file rewriting started");
        match self.write_base(base) {
            Ok(bytes) => {
                log::info!("Background AOF rewrite finished successfully ({bytes} bytes)");
                self.end_rewrite(true);
            }
            Err(error) => {
                match error {
                    SnapshotError::Cancelled => log::warn!("The AOF rewrite is given up"),
                    error => log::error!("Background AOF rewrite failed: {error}"),
                }
                // In a directory that was made again by another server there is nothing to give up.
                if self.log.has_directory() {
                    self.log.log().give_up();
                }
                self.end_rewrite(false);
            }
        }
    }

    fn end_rewrite(&mut self, has_succeeded: bool) {
        let SaveThread { log, shared, .. } = self;
        shared.snapshots.end_log_cut();
        shared.rewrites.end(shared.clock.unix_us(), has_succeeded);
        // A base may be needed though one was written: the log has failed again meanwhile.
        if log.needs_base() {
            shared.rewrites.schedule();
        }
    }

    fn write_base(&mut self, base: BaseForm) -> Result<u64, SnapshotError> {
        let log = &self.log;
        let mut rewrite = self.member.offline(|| log.prepare_rewrite(base))?;
        let cut = self.cut_for_log(&mut rewrite)?;
        let SaveThread { file, log: durability, shared, member, heap } = self;
        let durability: &Durability = durability;
        let log = durability.log();
        let mut switched = Ok(());
        member.offline(|| switched = log.switch(&mut rewrite));
        let path = log.temporary_base();
        let created = switched.and_then(|()| match base.syncs_in_steps {
            true => log.disk().create_direct(&path),
            false => log.disk().create(&path),
        });
        let out = match created {
            Ok(file) => FileOutput::new(file, base.syncs_in_steps, &*shared.host),
            Err(error) => {
                cut.end(heap);
                return Err(error.into());
            }
        };
        let rules = file.rules(shared, Purpose::LogBase).content;
        let access = &mut Beside(member);
        let out = if base.is_snapshot {
            write(cut, shared, access, heap, &rules, out)?
        } else {
            let now_s = (shared.clock.wall_us() / 1_000_000) as i64;
            let out = CommandsOutput::new(out, base.annotates_time.then_some(now_s));
            write(cut, shared, access, heap, &rules.for_commands(), out)?.into_file()
        };
        let mut put = Ok(0);
        let mut parts = Some((out, rewrite));
        access.offline(&mut || {
            if let Some((out, rewrite)) = parts.take() {
                put = finish(durability, shared, out, rewrite);
            }
        });
        put
    }

    /// Cuts data and log at the same moment, from which on the journal is told of changes.
    fn cut_for_log(&mut self, rewrite: &mut Rewrite) -> Result<Cut, SnapshotError> {
        let SaveThread { log, shared, member, .. } = self;
        let seat = Rc::clone(member.seat());
        let token = take_token(shared, &seat, member);
        let gate = close_gate(shared, &seat, member);
        let mut cut = None;
        ReadSide::section(member, &mut |section| cut = shared.cut_for_log(&gate, section));
        if cut.is_some() {
            log.log().note_cut(rewrite);
            shared.sinks.switch(log.active_sinks(), &gate);
        }
        drop(gate);
        drop(token);
        if cut.is_none() {
            // Another cut is written: it was begun behind this rewrite, which is made up for.
            shared.rewrites.put_off();
        }
        cut.ok_or(SnapshotError::Cancelled)
    }

    /// Lets the journal be told of changes as long as the log is written.
    pub(super) fn switch_journal(&mut self) {
        let SaveThread { log, shared, member, .. } = self;
        member.offline(|| log.log().end_switch_off());
        let seat = Rc::clone(member.seat());
        let token = take_token(shared, &seat, member);
        let gate = close_gate(shared, &seat, member);
        shared.sinks.switch(log.active_sinks(), &gate);
        drop(gate);
        drop(token);
        // Records that were numbered before go nowhere, and must not take room.
        let log = log.log();
        member.offline(|| log.write_and_sync());
    }
}

fn finish(
    log: &Durability,
    shared: &Shared,
    out: FileOutput<'_>,
    rewrite: Rewrite,
) -> Result<u64, SnapshotError> {
    let bytes = out.finish()?;
    if shared.rewrites.is_cancelled() {
        return Err(SnapshotError::Cancelled);
    }
    if !log.has_directory() {
        return Err(io::Error::other("its directory is gone, or may not be entered").into());
    }
    log.log().finish(rewrite, bytes)?;
    Ok(bytes)
}
