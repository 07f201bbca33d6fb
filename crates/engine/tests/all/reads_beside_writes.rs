//! Reads of many keys, or of many fields, beside one who writes some of them, on threads of their
//! own. What a read was disturbed in, it looks up under the locks: it sees one moment nevertheless,
//! and it ends.

use std::ops::RangeFrom;
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

/// Command of a number, that writes.
type Write = fn(u64) -> Vec<Vec<u8>>;

/// Writes on one worker, the command of each number, until the reads on another one are over.
///
/// # Panics
///
/// With what a read finds wrong.
fn read_beside_writes(
    (shared, domain): (&Arc<Shared>, &Arc<Domain<Qsbr>>),
    (numbers, write): (RangeFrom<u64>, Write),
    (count, mut read): (usize, impl FnMut(&mut Seat) -> Result<(), String>),
) {
    let stop = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            let mut seat = Seat::new(shared, domain, 1);
            for number in numbers {
                seat.call(&write(number));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut seat = Seat::new(shared, domain, 0);
        let found = (0..count).try_for_each(|_| read(&mut seat));
        // The other one ends before the test fails.
        stop.store(true, Ordering::Relaxed);
        found
    });
    assert_eq!(found, Ok(()));
}

#[test]
fn reads_of_many_keys_are_of_one_moment_and_end() {
    let shared = server_of_two_workers();
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    let mut seat = Seat::new(&shared, &domain, 0);
    seat.call(&words("MSET", (0..KEYS).flat_map(|key| [format!("k{key}"), "0".into()])));
    drop(seat);
    let command = words("MGET", (0..KEYS).map(|key| format!("k{key}")));
    let mut last = Some(0);
    let read = |seat: &mut Seat| {
        let reply = seat.call(&command);
        let values: Vec<&str> = reply.split("\r\n").skip(2).step_by(2).collect();
        let number = |key: usize| values.get(key).and_then(|text| text.parse::<u64>().ok());
        let (first, second) = (number(0), number(KEYS - 1));
        if first != second || first < last {
            return Err(format!("{first:?} and {second:?} after {last:?}"));
        }
        last = first;
        Ok(())
    };
    read_beside_writes((&shared, &domain), (1.., write_ends), (READS, read));
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
    let command = words("HVALS", ["hash".into()]);
    let mut last = 0;
    let read = |seat: &mut Seat| {
        let reply = seat.call(&command);
        let values = reply.split("\r\n").skip(2).step_by(2);
        let mut numbers: Vec<u64> = values.filter_map(|text| text.parse().ok()).collect();
        numbers.sort_unstable();
        let is_run = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let first = numbers.first().copied().unwrap_or_default();
        if !is_run || numbers.len() as u64 != FIELDS || first < last {
            return Err(format!("fields of several moments after {last}: {numbers:?}"));
        }
        last = first;
        Ok(())
    };
    read_beside_writes((&shared, &domain), (FIELDS.., write_field), (FIELD_READS, read));
}

const SETS: usize = 3000;
const SET_READS: usize = 1500;

/// Moves the member `moved` from the last set to the first, or back.
fn move_member(round: u64) -> Vec<Vec<u8>> {
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
    let command = words("SUNION", (0..SETS).map(|index| format!("s{index}")));
    let read = |seat: &mut Seat| {
        let reply = seat.call(&command);
        let is_whole = reply.starts_with(&format!("*{}\r\n", SETS + 1)) && reply.contains("moved");
        if is_whole { Ok(()) } else { Err(format!("sets of several moments: {reply}")) }
    };
    read_beside_writes((&shared, &domain), (0.., move_member), (SET_READS, read));
}
