//! Orphans: garbage of lists that are gone, until another list of the domain adopts it or the
//! domain itself is gone.
#![allow(unsafe_code)]

use std::collections::VecDeque;

use crate::garbage::{Elapsed, Garbage};
use crate::primitive::{AtomicUsize, Mutex, Ordering, lock, try_lock};

#[derive(Debug)]
pub(crate) struct Orphans {
    garbage: Mutex<VecDeque<Garbage>>,
    /// A hint, so that the check costs one load when there is nothing.
    count: AtomicUsize,
}

impl Default for Orphans {
    fn default() -> Orphans {
        Orphans { garbage: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }
}

impl Orphans {
    pub(crate) fn leave(&self, garbage: &mut VecDeque<Garbage>) {
        let mut waiting = lock(&self.garbage);
        waiting.append(garbage);
        // Relaxed: the lock orders the contents; a late count only delays the adoption.
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    /// Takes at most `items_max` pieces; none while another thread holds the lock. Never blocks.
    pub(crate) fn adopt(&self, items_max: usize, mut take: impl FnMut(Garbage)) {
        // Relaxed: as above.
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(mut waiting) = try_lock(&self.garbage) else {
            return;
        };
        let taken = waiting.len().min(items_max);
        waiting.drain(..taken).for_each(&mut take);
        self.count.store(waiting.len(), Ordering::Relaxed);
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        for garbage in lock(&self.garbage).drain(..) {
            // SAFETY: the domain holds these orphans and every reader holds the domain, so there is
            // no reader any more.
            drop(unsafe { Elapsed::new(garbage) });
        }
    }
}
