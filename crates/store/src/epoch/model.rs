//! Loom models of the batches, `make test-loom-store`: no node goes while the walker may still read
//! it.
#![allow(unsafe_code)]

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::Batches;

const NODE: usize = 1;

/// A node that is freed: reading it afterwards is the error that the models look for.
#[derive(Debug, Default)]
struct Node(loom::cell::UnsafeCell<bool>);

impl Node {
    fn read(&self) {
        self.0.with(|freed| {
            // SAFETY: loom reports an access that is concurrent to the one in `free`.
            assert!(!unsafe { *freed }, "a node is read behind its freeing");
        });
    }

    fn free(&self) {
        self.0.with_mut(|freed| {
            // SAFETY: as above.
            unsafe { *freed = true };
        });
    }
}

#[derive(Default)]
struct Model {
    batches: Batches,
    node: Node,
    queue: Mutex<Vec<usize>>,
    /// The slot's lock: true while its key has the version that the node is part of.
    slot: Mutex<bool>,
}

impl Model {
    /// Drains, claims if `claims`, and writes; as many batches as asked for.
    fn walk(&self, count: usize, claims: bool) {
        for batch in 0..count {
            self.batches.begin();
            let drained = std::mem::take(&mut *self.queue.lock().expect("no panic"));
            let is_claimed = claims && batch == 0 && *self.slot.lock().expect("no panic");
            if is_claimed || drained.contains(&NODE) {
                self.node.read();
            }
            self.batches.end();
        }
    }
}

/// A writer hands the old version over, and its heap frees the node when its tag is over.
#[test]
fn nodes_of_a_pre_image_outlive_its_writing() {
    loom::model(|| {
        let model = Arc::new(Model::default());
        let walker = Arc::clone(&model);
        let walker = thread::spawn(move || walker.walk(2, false));
        model.queue.lock().expect("no panic").push(NODE);
        let tag = model.batches.tag();
        if model.batches.is_over(tag) {
            model.node.free();
        }
        walker.join().expect("no panic");
    });
}

/// The walker claims the version under the slot's lock; a later writer retires its node.
#[test]
fn nodes_of_a_claimed_root_outlive_its_writing() {
    loom::model(|| {
        let model = Arc::new(Model::default());
        *model.slot.lock().expect("no panic") = true;
        let walker = Arc::clone(&model);
        let walker = thread::spawn(move || walker.walk(2, true));
        let tag = {
            let mut slot = model.slot.lock().expect("no panic");
            *slot = false;
            model.batches.tag()
        };
        if model.batches.is_over(tag) {
            model.node.free();
        }
        walker.join().expect("no panic");
    });
}

/// One thread hands the version over; another one, after the next change of the same key, retires a
/// node that both versions have.
#[test]
fn nodes_that_another_thread_retires_outlive_the_pre_image() {
    loom::model(|| {
        let model = Arc::new(Model::default());
        let walker = Arc::clone(&model);
        let walker = thread::spawn(move || walker.walk(2, false));
        let first = Arc::clone(&model);
        let first = thread::spawn(move || {
            let mut slot = first.slot.lock().expect("no panic");
            first.queue.lock().expect("no panic").push(NODE);
            *slot = true;
        });
        let is_replaced = *model.slot.lock().expect("no panic");
        if is_replaced {
            let tag = model.batches.tag();
            if model.batches.is_over(tag) {
                model.node.free();
            }
        }
        first.join().expect("no panic");
        walker.join().expect("no panic");
    });
}
