//! Credit of `maxmemory` that the commands of a worker draw on.

use crate::error::{CommandError, NO_MEMORY_LEFT};
use crate::shared::Shared;
use crate::worker::Worker;

/// True if what takes memory is refused nothing: in a pause nothing is changed, and writes wait;
/// what is loaded may take more than the limit, as in Valkey.
pub(super) fn is_exempt(shared: &Shared, worker: &Worker) -> bool {
    worker.replays() || shared.is_paused() || shared.loading.is_running()
}

/// Ok if a command that takes memory may run in the place of a blocked client. Where keys may be
/// evicted, it runs, and they are at the next boundary ([`relieve`](super::relieve)), since none is
/// under locks.
///
/// # Errors
///
/// As [`make_room`](super::executor::Executor::make_room).
#[cold]
pub(super) fn check_waiter_memory(
    shared: &Shared,
    worker: &mut Worker,
) -> Result<(), CommandError> {
    let settings = &worker.settings;
    let may_evict = settings.eviction_policy.is_some() && !settings.import_mode;
    if is_exempt(shared, worker) {
        return Ok(());
    }
    if worker.lacks_memory {
        return Err(NO_MEMORY_LEFT.into());
    }
    if may_evict || claims(shared, worker) { Ok(()) } else { Err(CommandError::OutOfMemory) }
}

/// True if the worker may take memory. Wakes the others if little is left.
pub(super) fn claims(shared: &Shared, worker: &mut Worker) -> bool {
    let used = worker.used_bytes();
    if worker.lease.is_in_credit(used) {
        return true;
    }
    let claims = worker.lease.claim(used);
    tell_of_scarcity(shared, worker);
    claims
}

/// Wakes the other workers if little of `maxmemory` is left, so that they give back credit.
pub(super) fn tell_of_scarcity(shared: &Shared, worker: &Worker) {
    if worker.lease.judge_scarcity(shared.worker_count()) {
        let others = (0..shared.worker_count()).filter(|&index| index != worker.index);
        others.for_each(|index| shared.mailboxes.notify(index));
    }
}
