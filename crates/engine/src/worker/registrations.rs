//! Registrations under the locks of slots that have to be taken back: of waits that are over, and
//! of keys that are no longer watched.
//!
//! The worker that ends a wait or a watch holds none of its slots, or only some of them, and must
//! not wait for the others. So the worker that owns the client takes the registrations back slot by
//! slot, and keeps those whose slot is taken at this moment. It tries again at each boundary, which
//! comes ten times a second at least, without spinning: nobody waits for it.
//!
//! The number of those kept is bounded even where a slot is hardly ever free: a worker that
//! registers in a slot has its lock, and first takes back what its worker has kept of that slot. So
//! a worker keeps no more of a slot than its clients had registered there when it last had the
//! lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_store::SlotNumber;

use crate::shared::Shared;
use crate::slots::registry::{SlotRegistry, WatchFlag};
use crate::slots::waiter::Waiter;

/// Registration in a slot for one key of one client.
#[derive(Debug)]
pub(crate) enum Registration {
    /// A client waits for one of its keys, named by its position among the arguments.
    Wait { waiter: Arc<Waiter>, position: usize },
    /// A session watches a key.
    Watch { database: usize, key: Box<[u8]>, flag: Arc<WatchFlag> },
}

impl Registration {
    fn key(&self) -> &[u8] {
        match self {
            Registration::Wait { waiter, position } => waiter.arguments.view().get(*position),
            Registration::Watch { key, .. } => key,
        }
    }

    fn remove_from(&self, side: &mut SlotRegistry) {
        match self {
            Registration::Wait { waiter, .. } => {
                side.stop_waiting(waiter.database, self.key(), waiter.id);
            }
            Registration::Watch { database, flag, .. } => side.unwatch(*database, self.key(), flag),
        }
    }
}

/// The registrations that one worker has to take back.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    kept: BTreeMap<SlotNumber, Vec<Registration>>,
}

impl Ended {
    /// True if nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Number of those left.
    pub(crate) fn len(&self) -> usize {
        self.kept.values().map(Vec::len).sum()
    }

    /// Takes registrations back whose slots are free; the others later. The caller holds
    /// none of the slots.
    pub(crate) fn take_back(
        &mut self,
        shared: &Shared,
        registrations: impl IntoIterator<Item = Registration>,
    ) {
        let of_slot =
            |registration: Registration| (SlotNumber::of_key(registration.key()), registration);
        let mut all: Vec<_> = registrations.into_iter().map(of_slot).collect();
        all.sort_unstable_by_key(|(slot, _)| *slot);
        let mut all = all.into_iter().peekable();
        while let Some((slot, first)) = all.next() {
            let others = std::iter::from_fn(|| all.next_if(|(of, _)| *of == slot));
            let of_slot = std::iter::once(first).chain(others.map(|(_, other)| other));
            if let Some(mut lock) = shared.keyspace.try_lock(slot) {
                match lock.side_if_any() {
                    Some(side) => of_slot.for_each(|each| each.remove_from(side)),
                    None => of_slot.for_each(drop),
                }
            } else {
                self.kept.entry(slot).or_default().extend(of_slot);
            }
        }
    }

    /// Tries again with what is left. The caller holds no slot.
    pub(crate) fn retry(&mut self, shared: &Shared) {
        self.kept.retain(|&slot, registrations| {
            let Some(mut lock) = shared.keyspace.try_lock(slot) else { return true };
            if let Some(side) = lock.side_if_any() {
                registrations.iter().for_each(|each| each.remove_from(side));
            }
            false
        });
    }

    /// Takes back what is left of a slot whose lock the caller holds.
    #[inline]
    pub(crate) fn settle(&mut self, slot: SlotNumber, side: &mut SlotRegistry) {
        if !self.is_empty()
            && let Some(registrations) = self.kept.remove(&slot)
        {
            registrations.iter().for_each(|each| each.remove_from(side));
        }
    }
}
