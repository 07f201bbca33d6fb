//! Subscribers of one topic, counted by worker.

use smallvec::SmallVec;

/// Subscribers that one worker has.
#[derive(Clone, Copy, Debug)]
struct WorkerCount {
    worker: usize,
    subscribers: u64,
}

/// Subscribers of one topic, counted by worker. No worker in it has none.
#[derive(Debug, Default)]
pub(super) struct SubscriberCounts(SmallVec<[WorkerCount; 2]>);

impl SubscriberCounts {
    /// One more subscriber at a worker.
    pub(super) fn add(&mut self, worker: usize) {
        match self.0.iter_mut().find(|count| count.worker == worker) {
            Some(count) => count.subscribers += 1,
            None => self.0.push(WorkerCount { worker, subscribers: 1 }),
        }
    }

    /// One subscriber less at a worker; returns true if there is none left at any.
    pub(super) fn remove(&mut self, worker: usize) -> bool {
        if let Some(at) = self.0.iter().position(|count| count.worker == worker) {
            self.0[at].subscribers -= 1;
            if self.0[at].subscribers == 0 {
                self.0.swap_remove(at);
            }
        }
        self.0.is_empty()
    }

    /// Subscribers at all workers.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|count| count.subscribers).sum()
    }

    /// Workers that have subscribers.
    pub(super) fn workers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|count| count.worker)
    }
}
