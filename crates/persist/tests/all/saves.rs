//! The file of a snapshot is the old one or the new one, and whole, whatever fails and when.

use std::io;
use std::path::Path;

use tidemill_persist::disk::simulated::{Operation, SimulatedDisk};
use tidemill_persist::snapshot::SnapshotError;

use crate::server::{PATH, Server, content_of};

/// Keys enough for several writes and a sync in between: values do not compress.
fn filled(seed: u64) -> Server {
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::new();
    for number in 0..600 {
        let value: String = std::iter::repeat_with(|| random.alphanumeric()).take(9000).collect();
        server.set(&format!("key:{number}"), &value);
    }
    server
}

/// A disk with a durable file of an old state.
fn with_old_file() -> (SimulatedDisk, Vec<(String, String)>) {
    let disk = SimulatedDisk::default();
    let mut old = Server::with_keys(3, "old");
    old.save(&disk).expect("nothing fails");
    (disk, old.content())
}

#[test]
fn what_was_saved_is_loaded() {
    let disk = SimulatedDisk::default();
    let mut server = filled(1);
    server.save(&disk).expect("nothing fails");
    assert_eq!(content_of(&disk), server.content());
}

#[test]
fn the_old_file_is_not_freed_by_the_rename() {
    let (disk, _) = with_old_file();
    filled(5).save(&disk).expect("nothing fails");
    assert_eq!(disk.freed_by_rename_count(), 0);
}

#[test]
fn a_save_that_fails_anywhere_leaves_the_old_file() {
    let (disk, old) = with_old_file();
    let mut server = filled(2);
    let mut failures = 0;
    for count in 0.. {
        disk.fail_after(count, io::ErrorKind::StorageFull);
        let saved = server.save(&disk);
        disk.repair();
        let Err(error) = saved else { break };
        assert!(matches!(error, SnapshotError::Io(_)), "{error}");
        failures += 1;
        let log = disk.log();
        if log.iter().filter(|step| **step == Operation::Rename).count() < 2 {
            assert_eq!(content_of(&disk), old, "after {count} operations");
        }
        assert!(server.shared.keyspace.cut_held_bytes() == 0);
    }
    assert!(failures > 8, "the save has steps that can fail: {failures}");
    assert_eq!(content_of(&disk), server.content(), "and once nothing fails, the new one is there");
}

#[test]
fn power_lost_behind_a_save_leaves_the_new_file() {
    let (disk, _) = with_old_file();
    let mut server = filled(3);
    server.save(&disk).expect("nothing fails");
    for seed in 0..20 {
        assert_eq!(content_of(&disk.lose_power(seed)), server.content(), "seed {seed}");
    }
}

#[test]
fn power_lost_within_a_save_leaves_the_old_file_or_the_new_one() {
    for count in 0..40 {
        let (disk, old) = with_old_file();
        let mut server = filled(4);
        disk.fail_after(count, io::ErrorKind::Other);
        let is_saved = server.save(&disk).is_ok();
        for seed in 0..6 {
            let left = content_of(&disk.lose_power(seed));
            let is_whole = left == old || left == server.content();
            assert!(is_whole, "seed {seed} after {count} operations: {} keys", left.len());
        }
        if is_saved {
            return;
        }
    }
    panic!("a save takes fewer operations");
}

#[test]
fn a_cancelled_save_leaves_the_old_file() {
    let (disk, old) = with_old_file();
    let mut server = Server::with_keys(10, "new");
    // Cancelled behind its beginning: the first look at it is behind the first piece.
    let cancelled = server.save_after(&disk, |shared| assert!(shared.snapshots.cancel()));
    assert!(matches!(cancelled, Err(SnapshotError::Cancelled)));
    assert_eq!(content_of(&disk), old);
    assert!(disk.content(Path::new(&format!("temp-{PATH}"))).is_none(), "nothing is left behind");
}
