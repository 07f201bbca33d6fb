//! The end of a session's `WATCH`.

use std::sync::Arc;

use tidemill_store::SlotNumber;

use crate::access::unit::Unit;
use crate::shared::Shared;
use crate::worker::Worker;
use crate::worker::registrations::Registration;
use crate::worker::session::{Session, Watch, WatchedKey};

/// Stops watching: under the locks of a unit, which are of all watched slots, or of each slot as it
/// becomes free.
pub(crate) fn unwatch(
    shared: &Shared,
    worker: &mut Worker,
    session: &mut Session,
    unit: Option<&mut Unit<'_>>,
) {
    let Some(watch) = session.watch.take() else { return };
    session.client.set_watch(None);
    session.client.note_watched(0, 0);
    let Some(unit) = unit else {
        let Watch { flag, keys, .. } = *watch;
        let registration = |WatchedKey { database, key }| Registration::Watch {
            database,
            key,
            flag: Arc::clone(&flag),
        };
        worker.ended.take_back(shared, keys.into_iter().map(registration));
        return;
    };
    for watched in &watch.keys {
        let lock = unit.lock(SlotNumber::of_key(&watched.key)).expect("watched slots are locked");
        lock.side().unwatch(watched.database, &watched.key, &watch.flag);
    }
}
