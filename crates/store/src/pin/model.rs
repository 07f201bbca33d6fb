//! Loom models of leaves that are replaced where they are: `make test-loom-store`.
//!
//! The slot word and the pins are the real ones. The tree is a model: leaves are cells that are
//! written once, before they are published; an inner node has two links; the entry tells the root.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::Pins;
use crate::word::SlotWord;

/// Collection of elements in leaves of one element.
struct Collection {
    word: SlotWord,
    pins: Pins,
    leaves: [UnsafeCell<u64>; 4],
    /// Inner nodes: two links each. That of the second root is a copy with another leaf in front.
    roots: [[AtomicUsize; 2]; 2],
    /// Index of the current root.
    entry: AtomicUsize,
}

// SAFETY: loom reports a cell that is read and written at once.
unsafe impl Sync for Collection {}

impl Collection {
    /// Leaves 0 and 1 hold zeros and are linked; the others are to be written.
    fn new() -> Arc<Collection> {
        let link = |leaf| AtomicUsize::new(leaf);
        Arc::new(Collection {
            word: SlotWord::default(),
            pins: Pins::new(),
            leaves: [0, 0, 0, 0].map(UnsafeCell::new),
            roots: [[link(0), link(1)], [link(0), link(1)]],
            entry: AtomicUsize::new(0),
        })
    }

    fn write_leaf(&self, leaf: usize, value: u64) {
        // SAFETY: loom checks it.
        self.leaves[leaf].with_mut(|cell| unsafe { *cell = value });
    }

    /// Element of the leaf behind a link.
    fn element(&self, root: usize, index: usize) -> u64 {
        // Acquire: as in `StoredChild::link`.
        let leaf = self.roots[root][index].load(Ordering::Acquire);
        // SAFETY: loom checks it.
        self.leaves[leaf].with(|cell| unsafe { *cell })
    }

    fn root(&self) -> usize {
        self.entry.load(Ordering::Acquire)
    }

    fn publish_leaf(&self, root: usize, index: usize, leaf: usize) {
        self.word.begin_change();
        // Release: as in `Link::replace_child`.
        self.roots[root][index].store(leaf, Ordering::Release);
        self.word.end_change();
    }

    fn publish_root(&self, root: usize) {
        self.word.begin_change();
        self.entry.store(root, Ordering::Release);
        self.word.end_change();
    }

    fn locked(&self, change: impl FnOnce()) -> bool {
        let is_locked = self.word.try_lock();
        if is_locked {
            change();
            let _ = self.word.unlock();
        }
        is_locked
    }

    /// Sets an element: in place if no version is pinned, else by a new root.
    fn set(&self, index: usize, leaf: usize, value: u64) {
        self.write_leaf(leaf, value);
        if self.pins.none_is_alive() {
            return self.publish_leaf(self.root(), index, leaf);
        }
        // Relaxed: published with the root.
        self.roots[1][index].store(leaf, Ordering::Relaxed);
        self.publish_root(1);
    }
}

#[test]
fn an_element_is_whole_and_does_not_go_back() {
    loom::model(|| {
        let collection = Collection::new();
        let writer = {
            let collection = Arc::clone(&collection);
            thread::spawn(move || {
                collection.locked(|| {
                    collection.set(1, 2, 1);
                    collection.set(1, 3, 2);
                })
            })
        };
        // One descent each, which counts whatever is published meanwhile.
        let first = collection.element(collection.root(), 1);
        let second = collection.element(collection.root(), 1);
        assert!(first <= second);
        writer.join().unwrap();
        assert_eq!(collection.element(collection.root(), 1), 2);
    });
}

#[test]
fn a_read_of_two_elements_is_of_one_moment_if_the_word_is_unchanged() {
    loom::model(|| {
        let collection = Collection::new();
        let writer = {
            let collection = Arc::clone(&collection);
            thread::spawn(move || {
                collection.locked(|| {
                    collection.set(0, 2, 1);
                    collection.set(1, 3, 1);
                })
            })
        };
        let before = collection.word.load();
        let root = collection.root();
        let found = (collection.element(root, 0), collection.element(root, 1));
        let again = (collection.element(root, 0), collection.element(root, 1));
        if before.is_unchanged(collection.word.load_after()) {
            assert_eq!(found, again);
            assert_ne!(found, (0, 1), "the second change without the first");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_position_is_of_the_root_that_it_was_counted_in() {
    loom::model(|| {
        let collection = Collection::new();
        let writer = {
            let collection = Arc::clone(&collection);
            thread::spawn(move || {
                collection.locked(|| {
                    // `LPUSH`: a new root, where the old first leaf is the second; then `LSET 1`,
                    // of that leaf. The old root's node is below both.
                    collection.write_leaf(2, 7);
                    collection.roots[1][0].store(2, Ordering::Relaxed);
                    collection.publish_root(1);
                    collection.write_leaf(3, 8);
                    collection.publish_leaf(0, 0, 3);
                })
            })
        };
        // `LINDEX 0` by way of the old root or of the new one.
        let before = collection.word.load();
        let found = match collection.root() {
            0 => collection.element(0, 0),
            _ => collection.element(1, 0),
        };
        if before.is_unchanged(collection.word.load_after()) {
            assert_ne!(found, 8, "what was set at 1 is found at 0");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_pinned_version_does_not_change() {
    loom::model(|| {
        let collection = Collection::new();
        let writer = {
            let collection = Arc::clone(&collection);
            thread::spawn(move || collection.locked(|| collection.set(1, 2, 1)))
        };
        let (mut pin, mut root) = (None, 0);
        let is_pinned = collection.locked(|| {
            pin = Some(collection.pins.begin());
            root = collection.root();
        });
        if let (true, Some(pin)) = (is_pinned, pin) {
            let first = collection.element(root, 1);
            assert_eq!(collection.element(root, 1), first);
            collection.pins.end(pin);
        }
        writer.join().unwrap();
    });
}

#[test]
fn what_was_pinned_is_read_before_a_leaf_is_replaced() {
    loom::model(|| {
        let collection = Collection::new();
        let pin = collection.pins.begin();
        let reader = {
            let collection = Arc::clone(&collection);
            thread::spawn(move || {
                let found = collection.element(0, 1);
                collection.pins.end(pin);
                found
            })
        };
        // The old leaf is overwritten at once, as if it had been freed.
        collection.locked(|| {
            let is_free = collection.pins.none_is_alive();
            collection.set(1, 2, 1);
            if is_free {
                collection.write_leaf(1, 9);
            }
        });
        assert_eq!(reader.join().unwrap(), 0);
    });
}
