//! Credit of `maxmemory` that the commands of a worker draw on.

use crate::shared::Shared;
use crate::worker::Worker;

/// True if a command that takes memory is refused in the place of a blocked client: there is none,
/// and no key may be evicted. Where keys may be, it runs, and they are evicted at the next boundary
/// ([`relieve`](super::relieve)), since none is under locks.
#[cold]
pub(super) fn refuses_waiter(shared: &Shared, worker: &mut Worker) -> bool {
    let settings = &worker.settings;
    let may_evict = settings.eviction_policy.is_some() && !settings.import_mode;
    let waits = shared.is_paused() || shared.loading.is_running();
    !may_evict && !waits && !worker.replays() && !claims(shared, worker)
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
