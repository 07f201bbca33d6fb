//! Loom models of the handshake: `make test-loom-engine`.
//!
//! The handshake is the real one. A lane is a number of posts under a lock, and the worker's waker
//! a counter, which a wait returns at and sets back.

use loom::model::Builder;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use super::Handshake;

#[derive(Default)]
struct Lane {
    posts: Mutex<usize>,
    handshake: Handshake,
    wake_ups: AtomicUsize,
}

impl Lane {
    fn post(&self) {
        let mut posts = self.posts.lock().unwrap();
        *posts += 1;
        self.handshake.note_posts();
        drop(posts);
        if self.handshake.claims_wake_up() {
            // Release: a wait that returns at it sees what precedes it, as by a system call.
            self.wake_ups.fetch_add(1, Ordering::Release);
        }
    }

    /// An iteration up to its wait; true if the worker waits for events then.
    fn falls_asleep(&self) -> bool {
        if self.handshake.has_posts() {
            let mut posts = self.posts.lock().unwrap();
            self.handshake.note_taken();
            *posts = 0;
        }
        self.handshake.begin_sleep()
    }

    /// The wait returns, at a wake-up or at something else.
    fn wakes(&self) {
        self.handshake.end_sleep();
        // Acquire: pairs with the release in `post`.
        self.wake_ups.swap(0, Ordering::Acquire);
    }

    /// Wake-ups of a worker that sleeps while nobody posts any more.
    fn wake_ups_of_sleeper(&self) -> usize {
        let wake_ups = self.wake_ups.load(Ordering::Relaxed);
        let is_empty = *self.posts.lock().unwrap() == 0;
        assert!(wake_ups > 0 || is_empty, "asleep with a post, and nobody wakes it");
        wake_ups
    }
}

/// A thread that posts.
fn poster(lane: &Arc<Lane>) -> JoinHandle<()> {
    let lane = Arc::clone(lane);
    thread::spawn(move || lane.post())
}

#[test]
fn no_post_is_left_with_a_sleeping_worker() {
    loom::model(|| {
        let lane = Arc::new(Lane::default());
        let other = poster(&lane);
        let sleeps = lane.falls_asleep();
        other.join().unwrap();
        if sleeps {
            lane.wake_ups_of_sleeper();
        }
    });
}

#[test]
fn a_worker_that_sleeps_again_is_woken_again() {
    loom::model(|| {
        let lane = Arc::new(Lane::default());
        let other = poster(&lane);
        if lane.falls_asleep() {
            lane.wakes();
        }
        let sleeps = lane.falls_asleep();
        other.join().unwrap();
        if sleeps {
            lane.wake_ups_of_sleeper();
        }
    });
}

#[test]
fn one_of_several_that_post_wakes_the_worker() {
    // Three threads: interleavings with up to three preemptions.
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let lane = Arc::new(Lane::default());
        let posters = [poster(&lane), poster(&lane)];
        let sleeps = lane.falls_asleep();
        posters.into_iter().for_each(|poster| poster.join().unwrap());
        if sleeps {
            assert!(lane.wake_ups_of_sleeper() <= 1, "woken twice");
        }
    });
}
