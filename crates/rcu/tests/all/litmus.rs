//! Store-buffering litmus tests on real threads, for what loom cannot model: `sys_membarrier` and
//! signals.
//!
//! A reader opens a section and loads `unlinked`; a writer stores `unlinked` and polls a grace
//! period. Forbidden: the reader loads the old value, and the period is over while its section is
//! still open. Without a barrier on either side x86 shows this outcome, since a load may pass an
//! earlier store that waits in the store buffer. Each test runs a second, or
//! `TIDEMILL_TORTURE_SECONDS`.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidemill_rcu::{Bp, Domain, Flavour, Mb, Memb, Qsbr, Reader, Signal, limits::BARRIER_PAUSE};

use crate::PROCESSORS;

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// All hold a round's number, so that nothing has to be reset. `FINISHED` as a round ends the test.
#[derive(Default)]
struct Board {
    round: Line,
    unlinked: Line,
    /// The reader is about to close its section; the value it loaded is in `seen`.
    closing: Line,
    seen: Line,
    reader_done: Line,
}

const FINISHED: u64 = u64::MAX;
const SECTION_SPINS_MAX: u64 = 400;
/// Rounds without which nothing is concluded; on a busy machine they take longer than it was meant
/// to.
const ROUNDS_MIN: u64 = 11;

fn duration() -> Duration {
    let seconds = std::env::var("TIDEMILL_TORTURE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

fn pause(spins: u64) {
    (0..spins).for_each(|_| spin_loop());
}

fn wait_until(line: &Line, value: u64) {
    let mut spins = 0_u32;
    while line.0.load(Ordering::SeqCst) != value {
        spins += 1;
        if spins.is_multiple_of(1000) { thread::yield_now() } else { spin_loop() }
    }
}

fn wait_for_next_round(board: &Board, last: u64) -> u64 {
    let mut spins = 0_u32;
    loop {
        let round = board.round.0.load(Ordering::SeqCst);
        if round != last {
            return round;
        }
        spins += 1;
        if spins.is_multiple_of(1000) { thread::yield_now() } else { spin_loop() }
    }
}

fn read_one_round<F: Flavour>(reader: &Reader<F>, board: &Board, round: u64) {
    let guard = reader.enter();
    let seen = board.unlinked.0.load(Ordering::Relaxed);
    pause(round % SECTION_SPINS_MAX);
    board.seen.0.store(seen, Ordering::Relaxed);
    // Release pairs with the acquire in `write_rounds`, which then reads `seen`.
    board.closing.0.store(round, Ordering::Release);
    drop(guard);
}

fn read_rounds<F: Flavour>(domain: &Arc<Domain<F>>, board: &Board) {
    let mut reader = domain.register();
    let mut round = 0;
    loop {
        // Under qsbr this is where the reader comes online; under the others `enter` is.
        round = reader.offline(|| {
            let round = wait_for_next_round(board, round);
            pause(round.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58);
            round
        });
        if round == FINISHED {
            return;
        }
        read_one_round(&reader, board, round);
        reader.offline(|| board.reader_done.0.store(round, Ordering::SeqCst));
    }
}

/// Returns how many rounds it ran and how often the reader saw the old value.
fn write_rounds<F: Flavour>(domain: &Domain<F>, board: &Board, until: Instant) -> (u64, u64) {
    let (mut round, mut old_count) = (0, 0);
    while Instant::now() < until || round < ROUNDS_MIN {
        round += 1;
        board.round.0.store(round, Ordering::SeqCst);
        pause(round % 61);
        board.unlinked.0.store(round, Ordering::Relaxed);
        let period = domain.start_grace_period();
        while !domain.is_elapsed(&period) {
            spin_loop();
        }
        let was_open = board.closing.0.load(Ordering::Acquire) != round;
        wait_until(&board.reader_done, round);
        let saw_old = board.seen.0.load(Ordering::Relaxed) != round;
        old_count += u64::from(saw_old);
        if was_open && saw_old {
            board.round.0.store(FINISHED, Ordering::SeqCst);
            panic!("round {round}: the period was over while a reader held the old value");
        }
    }
    board.round.0.store(FINISHED, Ordering::SeqCst);
    (round, old_count)
}

/// Without pauses between barriers: a thousand rounds a second would prove little.
fn store_buffering<F: Flavour>() {
    store_buffering_with_pause::<F>(Duration::ZERO);
}

fn store_buffering_with_pause<F: Flavour>(pause: Duration) {
    let _alone = PROCESSORS.write().unwrap_or_else(PoisonError::into_inner);
    let domain = Domain::<F>::with_barrier_pause(pause).expect("every flavour works here");
    let board = Board::default();
    let (rounds, old_count) = thread::scope(|scope| {
        scope.spawn(|| read_rounds(&domain, &board));
        write_rounds(&domain, &board, Instant::now() + duration())
    });
    println!("{}: {rounds} rounds, {old_count} saw the old value", domain.description());
}

#[test]
fn store_buffering_memb() {
    store_buffering::<Memb>();
}

/// A scan that went ahead while it should pause would do so without a barrier.
#[test]
fn store_buffering_memb_between_paced_barriers() {
    store_buffering_with_pause::<Memb>(BARRIER_PAUSE);
}

#[test]
fn store_buffering_bp() {
    store_buffering::<Bp>();
}

#[test]
fn store_buffering_mb() {
    store_buffering::<Mb>();
}

#[test]
fn store_buffering_signal() {
    store_buffering::<Signal>();
}

#[test]
fn store_buffering_qsbr_coming_online() {
    store_buffering::<Qsbr>();
}
