//! The stream has each record once, whole and in the order of the numbers, however the lanes are
//! filled and whenever the merge runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastrand::Rng;

use super::*;
use crate::limits::{LANE_BYTES_MAX, LARGE_EFFECT_BYTES, SEGMENT_BYTES};
use crate::stream::Cursor;

fn read(cursor: &mut Cursor) -> String {
    let mut bytes = Vec::new();
    while let Some(piece) = cursor.read() {
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes).expect("text")
}

/// The commands of a stream, separated by `;`.
fn words(stream: &str) -> String {
    let mut text = String::new();
    for line in stream.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with('$')) {
        if !text.is_empty() {
            text.push(if line.starts_with('*') { ';' } else { ' ' });
        }
        if !line.starts_with('*') {
            text.push_str(line);
        }
    }
    text.replace("; ", ";")
}

fn record(database: usize, commands: &[&str]) -> Record {
    let mut record = Record::default();
    for command in commands {
        record.push(database, command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    record
}

#[test]
fn databases_are_selected_where_they_change_and_several_effects_are_a_transaction() {
    let journal = Journal::new(1);
    let mut cursor = journal.merge().attach();
    let mut mixed = record(0, &["SET a 2"]);
    mixed.append(&mut record(3, &["SET b 2"]));
    for mut record in [record(0, &["SET a 1"]), mixed, record(0, &[]), record(3, &["DEL b"])] {
        journal.push(0, journal.allocate(), &mut record);
    }
    let merged = journal.drain(&mut journal.merge());
    assert_eq!(merged.number, 4);
    assert_eq!(
        words(&read(&mut cursor)),
        "SELECT 0;SET a 1;MULTI;SET a 2;SELECT 3;SET b 2;EXEC;DEL b"
    );
    assert_eq!(cursor.offset(), merged.offset);
    let mut second = journal.merge().attach();
    journal.push(0, journal.allocate(), &mut record(3, &["DEL c"]));
    journal.drain(&mut journal.merge());
    assert_eq!(words(&read(&mut second)), "SELECT 3;DEL c");
    assert_eq!(words(&read(&mut cursor)), "SELECT 3;DEL c");
}

#[test]
fn effects_of_commands_by_themselves_are_no_transaction() {
    let journal = Journal::new(1);
    let mut cursor = journal.merge().attach();
    let mut divisible = record(0, &["RPUSH a 1", "RPUSH a 2"]);
    divisible.set_divisible();
    for record in [&mut divisible, &mut record(0, &["SET a 1", "SET b 1"])] {
        journal.push(0, journal.allocate(), record);
    }
    divisible.append(&mut record(0, &["SET a 2", "SET b 2"]));
    journal.push(0, journal.allocate(), &mut divisible);
    journal.drain(&mut journal.merge());
    assert_eq!(
        words(&read(&mut cursor)),
        "SELECT 0;RPUSH a 1;RPUSH a 2;MULTI;SET a 1;SET b 1;EXEC;MULTI;SET a 2;SET b 2;EXEC"
    );
}

/// All ways to push four records from two lanes with a merge anywhere between: a number that nobody
/// has pushed yet holds back all higher ones.
#[test]
fn every_interleaving_of_two_lanes_gives_the_order_of_the_numbers() {
    // Bit 0 to 3 of `lanes`: lane of each number. `order` counts in base 3: the lane whose next
    // record is pushed (0, 1), or a merge (2).
    for lanes in 0..16_usize {
        for order in 0..3_usize.pow(8) {
            let journal = Journal::new(2);
            let mut cursor = journal.merge().attach();
            let mut queues = [Vec::new(), Vec::new()];
            for number in 1..=4_u64 {
                assert_eq!(journal.allocate(), number);
                queues[lanes >> (number - 1) & 1].insert(0, number);
            }
            let mut pushed = [false; 5];
            let mut stream = String::new();
            let mut rest = order;
            for _ in 0..8 {
                let step = rest % 3;
                rest /= 3;
                if step < 2 {
                    if let Some(number) = queues[step].pop() {
                        let name = format!("R {number}");
                        // Number 2 came to nothing.
                        let commands: &[&str] = if number == 2 { &[] } else { &[&name] };
                        journal.push(step, number, &mut record(0, commands));
                        pushed[number as usize] = true;
                    }
                } else {
                    let merged = journal.drain(&mut journal.merge()).number;
                    let expected = (1..=4).take_while(|&number| pushed[number]).count();
                    assert_eq!(merged, expected as u64);
                    stream += &read(&mut cursor);
                    let expected: Vec<_> = (1..=merged)
                        .filter(|&number| number != 2)
                        .map(|number| format!(";R {number}"))
                        .collect();
                    let expected = if merged == 0 {
                        String::new()
                    } else {
                        format!("SELECT 0{}", expected.concat())
                    };
                    assert_eq!(words(&stream), expected);
                }
            }
        }
    }
}

#[test]
fn large_effects_are_segments_and_streams_of_any_length_are_read_whole() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let journal = Journal::new(3);
    let mut cursor = journal.merge().attach();
    let mut lazy = cursor.clone();
    let (mut expected, mut seen) = (Vec::new(), Vec::new());
    encode_select(&mut expected);
    for _ in 0..400 {
        let length = match random.u32(0..10) {
            0 => LARGE_EFFECT_BYTES + random.usize(0..SEGMENT_BYTES),
            _ => random.usize(0..2000),
        };
        let value = vec![random.alphanumeric() as u8; length];
        let mut record = Record::default();
        record.push(0, [&b"SET"[..], b"key", &value]);
        expected.extend_from_slice(record.effects().next().expect("one").bytes);
        journal.push(random.usize(0..3), journal.allocate(), &mut record);
        if random.bool() {
            let end = journal.drain(&mut journal.merge()).offset;
            let limit = random.u64(cursor.offset()..=end);
            while let Some(bytes) = cursor.read_until(limit) {
                seen.extend_from_slice(&bytes);
            }
            assert_eq!(cursor.offset(), limit);
        }
    }
    journal.drain(&mut journal.merge());
    while let Some(bytes) = cursor.read() {
        seen.extend_from_slice(&bytes);
    }
    assert!(seen == expected);
    assert!(read(&mut lazy).as_bytes() == expected);
}

fn encode_select(out: &mut Vec<u8>) {
    out.extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n");
}

#[test]
fn a_lane_is_crowded_until_it_is_merged() {
    let journal = Journal::new(2);
    while !journal.is_crowded(1) {
        let mut record = Record::default();
        record.push(0, [&vec![b'x'; LANE_BYTES_MAX / 8][..]]);
        journal.push(1, journal.allocate(), &mut record);
        assert!(journal.allocated() < 20);
    }
    assert!(!journal.is_crowded(0));
    journal.drain(&mut journal.merge());
    assert!(!journal.is_crowded(1));
}

/// Threads push while another one merges and a third one reads: each record is there once, those of
/// a thread in its order, all in the order of the numbers.
#[test]
fn threads_push_while_others_merge_and_read() {
    const THREADS: usize = 3;
    const RECORDS: usize = 20_000;
    let journal = Arc::new(Journal::new(THREADS));
    let mut cursor = journal.merge().attach();
    let is_done = AtomicBool::new(false);
    let stream = thread::scope(|scope| {
        let pushers: Vec<_> = (0..THREADS)
            .map(|lane| {
                let journal = &journal;
                scope.spawn(move || {
                    let mut record = Record::default();
                    for index in 0..RECORDS {
                        let number = journal.allocate();
                        if index % 7 != 0 {
                            record.push(0, [format!("{number}").as_bytes()]);
                        }
                        journal.push(lane, number, &mut record);
                    }
                })
            })
            .collect();
        let merger = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                journal.drain(&mut journal.merge());
            }
        });
        let reader = scope.spawn(|| {
            let mut stream = String::new();
            while !is_done.load(Ordering::Relaxed) {
                stream += &read(&mut cursor);
            }
            stream
        });
        for pusher in pushers {
            pusher.join().expect("no panic");
        }
        is_done.store(true, Ordering::Relaxed);
        merger.join().expect("no panic");
        reader.join().expect("no panic")
    });
    let merged = journal.drain(&mut journal.merge());
    assert_eq!(merged.number, (THREADS * RECORDS) as u64);
    let stream = stream + &read(&mut cursor);
    let text = words(&stream);
    let numbers: Vec<u64> =
        text.split(';').skip(1).map(|word| word.parse().expect("a number")).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    let empty = THREADS * RECORDS.div_ceil(7);
    assert_eq!(numbers.len(), THREADS * RECORDS - empty);
}
