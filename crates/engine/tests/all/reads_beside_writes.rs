//! Reads of many keys, or of many fields, beside one who writes some of them, on threads of their
//! own. What a read was disturbed in, it looks up under the locks: it sees one moment nevertheless,
//! and it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tidemill_engine::commit::Sinks;
use tidemill_engine::config::Configuration;
use tidemill_engine::shared::{Shared, SharedSpec};
use tidemill_rcu::{Domain, Qsbr};
use tidemill_store::hash::Seed;
use tidemill_testkit::surroundings::{SilentHost, SilentNotifier};

use crate::harness::seat::{Running, Seat};

const KEYS: usize = 1000;
const READS: usize = 2000;

fn words(name: &str, arguments: impl IntoIterator<Item = String>) -> Vec<Vec<u8>> {
    let name = [name.as_bytes().to_vec()];
    name.into_iter().chain(arguments.into_iter().map(String::into_bytes)).collect()
}

/// Sets the first key and the last one to a number that only they have in common.
fn write_ends(round: u64) -> Vec<Vec<u8>> {
    let ends = [0, KEYS - 1].into_iter();
    words("MSET", ends.flat_map(|key| [format!("k{key}"), round.to_string()]))
}

fn server_of_two_workers() -> Arc<Shared> {
    Arc::new(Shared::new(SharedSpec {
        commands: tidemill_engine::execute::commands(),
        database_count: 1,
        seed: Seed::new(1, 2),
        notifiers: (0..2).map(|_| Box::new(SilentNotifier) as _).collect(),
        clock: Box::new(Running(Instant::now())),
        configuration: Configuration::default(),
        host: Box::new(SilentHost::default()),
        sinks: Sinks::default(),
    }))
}

#[test]
fn reads_of_many_keys_are_of_one_moment_and_end() {
    let shared = server_of_two_workers();
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    let mut seat = Seat::new(&shared, &domain, 0);
    seat.call(&words("MSET", (0..KEYS).flat_map(|key| [format!("k{key}"), "0".into()])));
    drop(seat);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (shared, domain, stop) = (&shared, &domain, &stop);
        scope.spawn(move || {
            let mut seat = Seat::new(shared, domain, 1);
            for round in 1.. {
                seat.call(&write_ends(round));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut seat = Seat::new(shared, domain, 0);
        let read = words("MGET", (0..KEYS).map(|key| format!("k{key}")));
        let mut last = Some(0);
        for _ in 0..READS {
            let reply = seat.call(&read);
            let values: Vec<&str> = reply.split("\r\n").skip(2).step_by(2).collect();
            let number = |key: usize| values.get(key).and_then(|text| text.parse::<u64>().ok());
            let (first, second) = (number(0), number(KEYS - 1));
            // The other one ends before the test fails.
            if first != second || first < last {
                stop.store(true, Ordering::Relaxed);
                panic!("{first:?} and {second:?} after {last:?}");
            }
            last = first;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

const FIELDS: u64 = 1000;
const FIELD_READS: usize = 1000;

/// One write of many: each field gets the number of the write, one after the other.
fn write_field(number: u64) -> Vec<Vec<u8>> {
    let (field, value) = (format!("f{}", number % FIELDS), format!("{number:012}"));
    words("HSET", ["hash".into(), field, value])
}

#[test]
fn reads_of_many_fields_are_of_one_moment_and_end() {
    let shared = server_of_two_workers();
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    let mut seat = Seat::new(&shared, &domain, 0);
    (0..FIELDS).for_each(|number| drop(seat.call(&write_field(number))));
    drop(seat);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (shared, domain, stop) = (&shared, &domain, &stop);
        scope.spawn(move || {
            let mut seat = Seat::new(shared, domain, 1);
            let mut numbers = FIELDS..;
            while !stop.load(Ordering::Relaxed) {
                numbers.next().into_iter().for_each(|number| drop(seat.call(&write_field(number))));
            }
        });
        let mut seat = Seat::new(shared, domain, 0);
        let read = words("HVALS", ["hash".into()]);
        let mut last = 0;
        for _ in 0..FIELD_READS {
            let reply = seat.call(&read);
            let values = reply.split("\r\n").skip(2).step_by(2);
            let mut numbers: Vec<u64> = values.filter_map(|text| text.parse().ok()).collect();
            numbers.sort_unstable();
            let is_run = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            let first = numbers.first().copied().unwrap_or_default();
            // The other one ends before the test fails.
            if !is_run || numbers.len() as u64 != FIELDS || first < last {
                stop.store(true, Ordering::Relaxed);
                panic!("fields of several moments after {last}: {numbers:?}");
            }
            last = first;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

const SETS: usize = 3000;
const SET_READS: usize = 1500;

/// Moves the member `moved` from the last set to the first, or back.
fn move_member(round: usize) -> Vec<Vec<u8>> {
    let (first, last) = ("s0".to_owned(), format!("s{}", SETS - 1));
    let (from, to) = if round.is_multiple_of(2) { (last, first) } else { (first, last) };
    words("SMOVE", [from, to, "moved".into()])
}

#[test]
fn reads_of_many_sets_are_of_one_moment_and_end() {
    let shared = server_of_two_workers();
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    let mut seat = Seat::new(&shared, &domain, 0);
    for index in 0..SETS {
        seat.call(&words("SADD", [format!("s{index}"), format!("own:{index}")]));
    }
    seat.call(&words("SADD", [format!("s{}", SETS - 1), "moved".into()]));
    drop(seat);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (shared, domain, stop) = (&shared, &domain, &stop);
        scope.spawn(move || {
            let mut seat = Seat::new(shared, domain, 1);
            let mut rounds = 0..;
            while !stop.load(Ordering::Relaxed) {
                rounds.next().into_iter().for_each(|round| drop(seat.call(&move_member(round))));
            }
        });
        let mut seat = Seat::new(shared, domain, 0);
        let read = words("SUNION", (0..SETS).map(|index| format!("s{index}")));
        for _ in 0..SET_READS {
            let reply = seat.call(&read);
            // The other one ends before the test fails.
            if !reply.starts_with(&format!("*{}\r\n", SETS + 1)) || !reply.contains("moved") {
                stop.store(true, Ordering::Relaxed);
                panic!("sets of several moments: {reply}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
