//! Ways to the keyspace for the thread that walks it.

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::shared::Shared;
use tidemill_rcu::Flavour;
use tidemill_store::{Cut, Heap, Member, Walked};

/// Access of one thread to a keyspace that was cut.
pub trait CutAccess {
    /// Claims the next entries, inside of the gate.
    fn claim(&mut self, cut: &mut Cut, shared: &Shared) -> Walked;

    /// Runs work that may block and reads nothing of the keyspace's tables.
    fn offline(&mut self, work: &mut dyn FnMut());

    /// Frees what the thread retired and no reader can reach any more.
    fn reclaim(&mut self, heap: &Heap);
}

/// Beside the workers, by a thread of its own.
#[derive(Debug)]
pub struct Beside<'m, F: Flavour>(pub &'m mut Member<F>);

impl<F: Flavour> CutAccess for Beside<'_, F> {
    fn claim(&mut self, cut: &mut Cut, shared: &Shared) -> Walked {
        self.0.inside(|member| {
            let guard = member.enter();
            cut.claim(&shared.keyspace, guard.section())
        })
    }

    fn offline(&mut self, work: &mut dyn FnMut()) {
        self.0.offline(work);
    }

    fn reclaim(&mut self, heap: &Heap) {
        heap.retire_unpinned(usize::MAX);
        ReadSide::reclaim(self.0, heap);
    }
}

/// With the gate closed by the thread itself: all others are stopped.
pub struct Alone<'r>(pub &'r mut dyn ReadSide);

impl std::fmt::Debug for Alone<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Alone")
    }
}

impl CutAccess for Alone<'_> {
    fn claim(&mut self, cut: &mut Cut, shared: &Shared) -> Walked {
        let mut walked = Walked::Waiting;
        self.0.section(&mut |section| walked = cut.claim(&shared.keyspace, section));
        walked
    }

    fn offline(&mut self, work: &mut dyn FnMut()) {
        self.0.offline(work);
    }

    fn reclaim(&mut self, heap: &Heap) {
        heap.retire_unpinned(usize::MAX);
        self.0.reclaim(heap);
    }
}
