//! Grace periods step by step: one thread may hold several readers, so the order of events is
//! exact.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::SECTION_DEPTH_MAX;
use crate::{Bp, Domain, Flavour, Mb, Memb, Qsbr, Signal};

/// Polls until the period is over; signals arrive when the kernel delivers them, so polling once is
/// not enough.
fn elapses<F: Flavour>(domain: &Domain<F>, period: &crate::GracePeriod) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if domain.is_elapsed(period) {
            return true;
        }
        thread::yield_now();
    }
    false
}

/// Polls often enough that a wrong answer would come.
fn stays_open<F: Flavour>(domain: &Domain<F>, period: &crate::GracePeriod) -> bool {
    (0..100).all(|_| !domain.is_elapsed(period))
}

fn a_period_waits_for_the_sections_open_at_its_start<F: Flavour>() {
    let domain = Domain::<F>::new().unwrap();
    let reader = domain.register();
    let outer = reader.enter();
    let inner = reader.enter();
    let period = domain.start_grace_period();
    assert!(stays_open(&domain, &period));
    drop(outer);
    assert!(stays_open(&domain, &period), "the inner guard is still there");
    drop(inner);
    assert!(elapses(&domain, &period));
    let _later = reader.enter();
    assert!(domain.is_elapsed(&period), "what is over stays over");
}

#[test]
fn a_period_waits_for_sections_mb() {
    a_period_waits_for_the_sections_open_at_its_start::<Mb>();
}

#[test]
fn a_period_waits_for_sections_memb() {
    a_period_waits_for_the_sections_open_at_its_start::<Memb>();
}

#[test]
fn a_period_waits_for_sections_bp() {
    a_period_waits_for_the_sections_open_at_its_start::<Bp>();
}

#[test]
#[cfg_attr(miri, ignore = "Miri delivers no signals")]
fn a_period_waits_for_sections_signal() {
    a_period_waits_for_the_sections_open_at_its_start::<Signal>();
}

#[test]
fn a_section_opened_later_does_not_hold_up_a_period() {
    let domain = Domain::<Mb>::new().unwrap();
    let reader = domain.register();
    let period = domain.start_grace_period();
    let _guard = reader.enter();
    assert!(domain.is_elapsed(&period));
}

#[test]
fn an_online_reader_holds_up_a_period_until_it_announces() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut reader = domain.register();
    let period = domain.start_grace_period();
    assert!(stays_open(&domain, &period));
    reader.quiescent();
    assert!(elapses(&domain, &period));
}

#[test]
fn an_offline_reader_holds_up_nothing_and_comes_back_after_a_panic() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let mut reader = domain.register();
    let period = domain.start_grace_period();
    assert!(reader.offline(|| elapses(&domain, &period)));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        reader.offline(|| std::panic::resume_unwind(Box::new("work failed")));
    }));
    assert!(unwound.is_err());
    let period = domain.start_grace_period();
    assert!(stays_open(&domain, &period), "online again");
}

/// The scan of the first period is under way when the second begins: its end says nothing about the
/// second.
#[test]
fn a_scan_that_began_before_a_period_does_not_end_it() {
    let domain = Domain::<Mb>::new().unwrap();
    let (first, second) = (domain.register(), domain.register());
    let held = first.enter();
    let early = domain.start_grace_period();
    assert!(!domain.is_elapsed(&early));
    let late_section = second.enter();
    let late = domain.start_grace_period();
    drop(held);
    assert!(!domain.is_elapsed(&late));
    assert!(domain.is_elapsed(&early), "the poll for the later period ended the earlier one");
    drop(late_section);
    assert!(domain.is_elapsed(&late));
}

#[test]
fn a_reader_that_leaves_does_not_make_the_scan_skip_its_neighbour() {
    let domain = Domain::<Mb>::new().unwrap();
    let readers = [domain.register(), domain.register(), domain.register()];
    let [passed, waited_for, last] = readers;
    let guard = waited_for.enter();
    let period = domain.start_grace_period();
    assert!(!domain.is_elapsed(&period), "the scan stands at the second reader");
    drop(passed);
    assert!(!domain.is_elapsed(&period));
    drop(last);
    assert!(!domain.is_elapsed(&period));
    let _newcomer = domain.register();
    drop(guard);
    assert!(domain.is_elapsed(&period));
}

/// With a pause that outlasts every test, a poll for a second period issues no barrier, and who
/// blocks does not wait for it.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no membarrier")]
fn polls_within_the_pause_wait_for_it_and_blocking_does_not() {
    let domain = Domain::<Memb>::with_barrier_pause(Duration::MAX).unwrap();
    if !domain.description().contains("sys_membarrier") {
        return;
    }
    let _reader = domain.register();
    assert!(elapses(&domain, &domain.start_grace_period()), "the first barrier is issued at once");
    let period = domain.start_grace_period();
    assert!(stays_open(&domain, &period));
    domain.synchronize();
    assert!(domain.is_elapsed(&period), "the barrier of who blocked serves it too");
}

#[test]
#[cfg_attr(miri, ignore = "Miri delivers no signals")]
fn signals_keep_the_pause_for_blocking_callers_too() {
    let pause = Duration::from_millis(20);
    let domain = Domain::<Signal>::with_barrier_pause(pause).unwrap();
    let began_at = Instant::now();
    for _ in 0..3 {
        domain.synchronize();
    }
    assert!(began_at.elapsed() >= pause * 2);
}

#[test]
fn flavours_without_interrupts_never_pause() {
    let domain = Domain::<Mb>::with_barrier_pause(Duration::MAX).unwrap();
    let _reader = domain.register();
    assert!(domain.is_elapsed(&domain.start_grace_period()));
    assert!(domain.is_elapsed(&domain.start_grace_period()));
}

#[test]
fn domains_do_not_wait_for_each_other() {
    let (domain, other) = (Domain::<Mb>::new().unwrap(), Domain::<Mb>::new().unwrap());
    let reader = other.register();
    let _guard = reader.enter();
    domain.synchronize();
}

#[test]
#[should_panic(expected = "wait for its own thread")]
fn synchronize_of_an_online_reader_panics() {
    let domain = Domain::<Qsbr>::new().unwrap();
    let _reader = domain.register();
    domain.synchronize();
}

#[test]
#[should_panic(expected = "wait for its own thread")]
fn synchronize_inside_a_section_panics() {
    let domain = Domain::<Bp>::new().unwrap();
    let _guard = domain.enter();
    domain.synchronize();
}

#[test]
#[should_panic(expected = "too many nested read sections")]
fn one_section_too_many_panics() {
    let domain = Domain::<Mb>::new().unwrap();
    let reader = domain.register();
    let _guards: Vec<_> = (0..=SECTION_DEPTH_MAX).map(|_| reader.enter()).collect();
}

/// A thread that ends takes its implicit registration along; one that reads elsewhere is still
/// waited for.
#[test]
fn implicit_readers_come_and_go_with_their_threads() {
    let (domain, other) = (Domain::<Bp>::new().unwrap(), Domain::<Bp>::new().unwrap());
    let (entered_sender, entered) = mpsc::channel();
    let (leave, leave_receiver) = mpsc::channel::<()>();
    let thread = {
        let (domain, other) = (Arc::clone(&domain), Arc::clone(&other));
        thread::spawn(move || {
            drop(other.enter());
            let _guard = domain.enter();
            drop(other.enter());
            entered_sender.send(()).unwrap();
            leave_receiver.recv().unwrap();
        })
    };
    entered.recv().unwrap();
    other.synchronize();
    let period = domain.start_grace_period();
    assert!(stays_open(&domain, &period));
    leave.send(()).unwrap();
    thread.join().unwrap();
    assert!(domain.is_elapsed(&period));
    assert_eq!(Arc::strong_count(&domain), 1, "the thread's registration is gone");
}

#[test]
fn a_description_names_the_flavour_and_its_ordering() {
    assert_eq!(Domain::<Qsbr>::new().unwrap().description(), "qsbr (announced quiescent states)");
    assert_eq!(Domain::<Mb>::new().unwrap().description(), "mb (fences in readers)");
    assert!(Domain::<Memb>::new().unwrap().description().starts_with("memb ("));
}
