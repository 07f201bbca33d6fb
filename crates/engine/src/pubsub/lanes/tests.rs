use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::*;
use crate::slots::mailbox::Notify;

struct Bell(SyncSender<()>);

impl Notify for Bell {
    fn notify(&self) {
        if let Err(TrySendError::Disconnected(())) = self.0.try_send(()) {
            panic!("the worker is gone");
        }
    }
}

/// Lanes of one worker, and what rings when it is woken.
fn lanes() -> (Lanes, Receiver<()>) {
    let (bell, rung) = sync_channel(1);
    let mailboxes = Arc::new(Mailboxes::new(vec![Box::new(Bell(bell))]));
    (Lanes::new(1, mailboxes, Arc::new(Ticking::default())), rung)
}

/// A clock that moves on by a microsecond when it is read.
#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn unix_us(&self) -> u64 {
        self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        // Relaxed: a count.
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[test]
fn delay_is_that_of_the_first_post() {
    let (lanes, _rung) = lanes();
    let mut taken = VecDeque::new();
    for _ in 0..3 {
        lanes.post(0, line(1, 1));
        lanes.post(0, line(1, 1));
        assert!(lanes.take(0, &mut taken).is_some());
    }
    lanes.cut_off(0, std::iter::empty());
    assert!(lanes.take(0, &mut taken).is_some());
    let delays = lanes.delay_ns(0);
    assert_eq!((delays.values().calls, delays.sum()), (3, 3_000), "nothing was posted at last");
}

fn line(session: u64, length: usize) -> Delivery {
    Delivery::Line { session, bytes: vec![b'x'; length].into() }
}

fn sessions(deliveries: &VecDeque<Delivery>) -> Vec<u64> {
    let session = |delivery: &Delivery| match delivery {
        Delivery::Line { session, .. } => *session,
        _ => panic!("only lines were posted"),
    };
    deliveries.iter().map(session).collect()
}

#[test]
fn only_a_sleeping_worker_is_woken_and_once() {
    let (lanes, rung) = lanes();
    lanes.post(0, line(1, 1));
    assert!(rung.try_recv().is_err(), "it is awake");
    assert!(!lanes.begin_sleep(0), "it has something to deliver");
    let mut taken = VecDeque::new();
    assert!(lanes.take(0, &mut taken).is_some());
    assert!(lanes.begin_sleep(0));
    lanes.post(0, line(2, 1));
    lanes.post(0, line(3, 1));
    assert!(rung.try_recv().is_ok() && rung.try_recv().is_err());
    lanes.end_sleep(0);
    assert!(lanes.take(0, &mut taken).is_some());
    assert_eq!(sessions(&taken), [1, 2, 3]);
    assert!(lanes.take(0, &mut taken).is_none());
}

#[test]
fn full_lane_cuts_its_receivers_off_instead_of_growing() {
    let (lanes, _rung) = lanes();
    let large = LANE_BYTES_MAX / 4;
    (0..3).for_each(|session| lanes.post(0, line(session, large)));
    assert!(lanes.is_crowded(0) && lanes.is_any_crowded());
    (3..9).for_each(|session| lanes.post(0, line(session, large)));
    lanes.post(0, line(9, 10));
    let mut taken = VecDeque::new();
    let cut_off = lanes.take(0, &mut taken).expect("there are posts");
    assert_eq!(sessions(&taken), [0, 1, 2, 9], "what fits is delivered");
    assert_eq!(cut_off.sessions, (3..9).collect());
    assert!(!lanes.is_any_crowded());
    lanes.post(0, line(3, large));
    let cut_off = lanes.take(0, &mut taken).expect("there are posts");
    assert!(cut_off.sessions.is_empty());
}

/// A thread posts as soon as the worker has taken its last post, which is about when the worker
/// says that it sleeps. A wake-up that is lost leaves it asleep with a post in its lane.
#[test]
fn no_post_is_left_with_a_sleeping_worker() {
    const POSTS: u64 = 200_000;
    let (lanes, rung) = lanes();
    let (lanes, taken_count) = (&lanes, &AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(3);
            for number in 0..POSTS {
                // Longer than the worker sleeps: it fails first, and then nobody takes anything.
                let until = Instant::now() + Duration::from_secs(30);
                while taken_count.load(Ordering::Relaxed) < number {
                    assert!(Instant::now() < until, "post {number} was not asked for");
                    std::thread::yield_now();
                }
                (0..random.u32(..64)).for_each(|_| std::hint::spin_loop());
                lanes.post(0, line(number, 1));
            }
        });
        let mut taken = VecDeque::new();
        for number in 0.. {
            let _ = lanes.take(0, &mut taken);
            for session in sessions(&taken) {
                assert_eq!(session, taken_count.fetch_add(1, Ordering::Relaxed), "in order");
            }
            taken.clear();
            if taken_count.load(Ordering::Relaxed) == POSTS {
                break;
            }
            if lanes.begin_sleep(0) {
                let until = Instant::now() + Duration::from_secs(20);
                while rung.try_recv().is_err() {
                    assert!(Instant::now() < until, "asleep with a post, look {number}");
                    std::thread::yield_now();
                }
                lanes.end_sleep(0);
            }
        }
    });
}
