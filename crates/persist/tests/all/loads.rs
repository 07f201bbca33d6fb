//! A file that is not whole stops the loading, and says where and what to do.

use std::path::Path;

use tidemill_persist::disk::Disk;
use tidemill_persist::disk::simulated::SimulatedDisk;

use crate::server::{PATH, Server, content_of};

fn disk_with(bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::default();
    let file = disk.create(Path::new(PATH)).expect("nothing fails");
    file.write_all_at(bytes, 0).expect("nothing fails");
    disk
}

fn saved() -> Vec<u8> {
    let disk = SimulatedDisk::default();
    Server::with_keys(20, "a value").save(&disk).expect("nothing fails");
    disk.content(Path::new(PATH)).expect("it was saved")
}

#[test]
fn an_absent_file_is_no_error() {
    assert_eq!(Server::new().load(&SimulatedDisk::default()).expect("no error"), None);
}

#[test]
fn a_file_that_ends_anywhere_is_refused() {
    let bytes = saved();
    for end in 0..bytes.len() {
        let error = Server::new().load(&disk_with(&bytes[..end])).expect_err("it is not whole");
        let text = error.to_string();
        let starts = text.starts_with(&format!("{PATH}: offset "));
        assert!(starts && text.contains("restore the file"), "{text}");
    }
}

#[test]
fn a_byte_that_changed_is_noticed() {
    let bytes = saved();
    // The version says whether there is a checksum.
    for index in (0..bytes.len()).filter(|index| !(5..9).contains(index)) {
        let mut wrong = bytes.clone();
        wrong[index] ^= 1;
        let loaded = Server::new().load(&disk_with(&wrong));
        assert!(loaded.is_err(), "byte {index} of {}", bytes.len());
    }
}

#[test]
fn a_key_that_is_there_twice_is_refused_by_name() {
    let bytes = saved();
    let mut server = Server::with_keys(1, "here already");
    let text = server.load(&disk_with(&bytes)).expect_err("a key twice").to_string();
    assert!(text.contains("key 'key:0' in database 0 is there twice"), "{text}");
}

#[test]
fn what_was_loaded_before_a_fault_counts_as_live() {
    let disk = SimulatedDisk::default();
    Server::with_keys(1000, &"text".repeat(40)).save(&disk).expect("nothing fails");
    let mut server = Server::new();
    server.set("key:700", "here already");
    server.load(&disk).expect_err("a key twice");
    assert!(server.content().len() > 1, "some keys were loaded");
    let (live_bytes, counted_bytes) = server.flush();
    assert_eq!(counted_bytes, live_bytes);
}

#[test]
fn a_file_of_more_than_the_queues_hold_is_loaded_whole() {
    let disk = SimulatedDisk::default();
    let mut server = Server::with_keys(60_000, &"text".repeat(40));
    server.save(&disk).expect("nothing fails");
    assert!(content_of(&disk) == server.content());
}

#[test]
fn a_list_of_more_than_the_queues_hold_is_loaded_whole() {
    let disk = SimulatedDisk::default();
    let mut server = Server::new();
    let element = |list, number| format!("{list}:{number}:{}", "text".repeat(25));
    let elements = |list| (0..20_000).map(move |number| element(list, number));
    (0..4).for_each(|list| server.set_list(&format!("list:{list}"), elements(list)));
    server.save(&disk).expect("nothing fails");
    let mut server = Server::new();
    server.load(&disk).expect("a whole file").expect("a file");
    for list in 0..4 {
        assert!(server.list(&format!("list:{list}")).into_iter().eq(elements(list)), "list {list}");
    }
}
