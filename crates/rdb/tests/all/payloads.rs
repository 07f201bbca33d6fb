//! Payloads of the corpus, which servers wrote or which were made by hand after their formats.

use std::path::Path;

use tidemill_rdb::encode::NodeLimit;
use tidemill_rdb::payload::Payload;
use tidemill_rdb::value::{StreamId, ValueEncoding};
use tidemill_rdb::{Checksum, DecodeError, Version, VersionCheck};

use super::collected::{Collected, Owned};

pub fn corpus(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(folder);
    let entries = std::fs::read_dir(folder).expect("the corpus is in the repository");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), std::fs::read(path).expect("a file"))).collect()
}

fn payload(name: &str) -> Vec<u8> {
    let found = corpus("payloads").into_iter().find(|(other, _)| other == name);
    found.expect("a payload of the corpus").1
}

fn seal(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    payload.extend_from_slice(&Checksum::of(&payload).to_le_bytes());
    payload
}

fn ones(name: &str) -> Vec<String> {
    let value = Collected::of_payload(&payload(name)).expect("a value");
    value.ones().map(|one| one.escape_ascii().to_string()).collect()
}

fn fields(name: &str) -> Vec<(String, String, Option<u64>)> {
    let value = Collected::of_payload(&payload(name)).expect("a value");
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    value.fields().map(|(field, value, at_ms)| (text(field), text(value), at_ms)).collect()
}

#[test]
fn payloads_of_valkey_are_written_as_it_wrote_them() {
    let mut count = 0;
    for (name, bytes) in corpus("payloads") {
        let Some(key) = name.strip_prefix("valkey-9.1-") else { continue };
        let value = Collected::of_payload(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let limit = match key {
            "list-counted" => NodeLimit::of_count(3),
            _ => NodeLimit::of_bytes(8192),
        };
        let written = value.payload(limit);
        // Deleted entries are not written again.
        if key != "stream" {
            assert_eq!(written.escape_ascii().to_string(), bytes.escape_ascii().to_string());
        }
        assert_eq!(Collected::of_payload(&written).as_ref(), Ok(&value), "{name}");
        count += 1;
    }
    assert!(count >= 18, "{count} payloads");
}

#[test]
fn old_encodings_have_the_elements_that_were_packed() {
    let integers = ["a", "1", "12", "13", "-1", "300", "70000", "-1073741824", "1099511627776"];
    let list: Vec<String> = integers.map(String::from).into_iter().collect();
    let ziplist = ones("list-ziplist");
    assert_eq!(ziplist[..9], list[..]);
    assert_eq!((ziplist[9].len(), ziplist[10].as_str(), ziplist.len()), (300, "end", 11));
    assert_eq!(ones("list-quicklist"), [ziplist, vec!["tail".into()]].concat());
    let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned(), None);
    assert_eq!(fields("hash-zipmap"), [pair("a", "one"), pair("b", "two")]);
    assert_eq!(fields("hash-ziplist"), [pair("a", "1"), pair("b", "two")]);
    let scores = |name| {
        let value = Collected::of_payload(&payload(name)).expect("a value");
        value.scored().map(|(_, score)| score).collect::<Vec<_>>()
    };
    assert_eq!(scores("zset-text"), [1.5, f64::INFINITY, f64::NEG_INFINITY, 10.0]);
    assert_eq!(scores("zset-ziplist"), [1.0, 1.5, f64::NEG_INFINITY]);
    assert_eq!(ones("length-64"), ["a"]);
}

#[test]
fn type_22_is_read_by_the_fork_that_wrote_it() {
    const AT_MS: u64 = 2_000_000_000_000;
    let field = |name: &str, value: &str, at_ms| (name.to_owned(), value.to_owned(), at_ms);
    let two = [field("a", "1", Some(AT_MS)), field("b", "2", None)];
    for name in ["redis-hash-22", "redis-hash-23", "redis-hash-25", "valkey-9.1-hash-expiring"] {
        let mut found = fields(name);
        found.sort();
        assert_eq!(found, two, "{name}");
    }
    let third = field("c", "3", Some(AT_MS + 10));
    assert_eq!(fields("redis-hash-24"), [&two[..], &[third]].concat());
    assert_eq!(payload("redis-hash-22")[0], payload("valkey-9.1-hash-expiring")[0]);
}

#[test]
fn streams_of_all_versions_have_entries_groups_and_consumers() {
    let (id, late) = (StreamId { ms: 5, seq: 1 }, StreamId { ms: 7, seq: 0 });
    for (name, version) in [("stream-1", 1), ("stream-2", 2), ("stream-3", 3)] {
        let value = Collected::of_payload(&payload(name)).expect("a value");
        let text = |text: &str| text.as_bytes().to_vec();
        let first = Owned::Entry(id, vec![(text("f"), text("v"))]);
        let second = Owned::Entry(late, vec![(text("x"), text("1")), (text("y"), text("2"))]);
        assert_eq!(value.items[..2], [first, second], "{name}");
        let Owned::State(state) = &value.items[2] else { panic!("{:?}", value.items) };
        assert_eq!((state.length, state.last_id), (2, late));
        assert_eq!(state.entries_added, (version > 1).then_some(3));
        let read = (version > 1).then_some(1);
        let active_ms = (version > 2).then_some(1_700_000_000_002);
        let rest = [
            Owned::Group(text("g"), id, read),
            Owned::Pending(id, 1_700_000_000_000, 2),
            Owned::Consumer(text("con"), 1_700_000_000_001, active_ms),
            Owned::ConsumerPending(id),
        ];
        assert_eq!(value.items[3..], rest, "{name}");
    }
}

#[test]
fn a_payload_is_refused_for_its_version_then_for_its_checksum() {
    let strict =
        |bytes: &[u8]| Payload::new(bytes, VersionCheck::Strict, true).map(Payload::version);
    for version in [0, 11, 80] {
        assert_eq!(strict(&seal(b"\0\x01a", version)), Ok(Version(version)));
    }
    for version in [12, 79, 81, u16::MAX] {
        let bytes = seal(b"\0\x01a", version);
        let error = DecodeError::UnknownVersion { offset: 3, found: version.into() };
        assert_eq!(strict(&bytes), Err(error));
        assert!(Payload::new(&bytes, VersionCheck::Relaxed, true).is_ok());
    }
    let mut bytes = seal(b"\0\x01a", 80);
    bytes[2] ^= 1;
    assert!(matches!(strict(&bytes), Err(DecodeError::Checksum { offset: 5, .. })));
    assert!(matches!(strict(b"short"), Err(DecodeError::Truncated { offset: 5, .. })));
}

#[test]
fn an_error_says_what_was_expected_where() {
    let error =
        |body: &[u8]| Collected::of_payload(&seal(body, 80)).expect_err("an error").to_string();
    assert_eq!(error(b""), "offset 0: expected a type of value, found the end");
    assert_eq!(error(b"\x08"), "offset 0: expected a type or an opcode of version 80, found 8");
    assert_eq!(error(b"\x01\x02\x01a"), "offset 4: expected an element, found the end");
    assert_eq!(error(b"\x12\x01\x03\x01a"), "offset 2: expected the kind of a node, found 3");
    // The second of two integers is not greater.
    let intset = b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x05\0\x05\0";
    assert_eq!(error(intset), "offset 11: expected ascending integers, found 5");
    let error = Collected::of_payload(&payload("module")).expect_err("an error");
    assert!(matches!(error, DecodeError::ModuleValue { offset: 0, .. }), "{error}");
}

#[test]
fn a_claimed_length_takes_no_memory() {
    // 32 MiB of three compressed bytes, and a collection of all numbers there are.
    let bomb = b"\0\xc3\x03\x80\x02\0\0\0\0a\x20";
    let error = Collected::of_payload(&seal(bomb, 80)).expect_err("an error");
    assert!(matches!(error, DecodeError::Malformed { found: 33_554_432, .. }), "{error}");
    let claim = b"\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a";
    let error = Collected::of_payload(&seal(claim, 80)).expect_err("an error");
    assert!(matches!(error, DecodeError::Truncated { offset: 12, .. }), "{error}");
}

#[test]
fn a_sink_ends_the_decoding() {
    let bytes = payload("valkey-9.1-list-nodes");
    let mut count = 0;
    let payload = Payload::new(&bytes, VersionCheck::Strict, true).expect("a payload");
    assert_eq!(payload.encoding(), Ok(ValueEncoding::ListOfListpacks));
    let ended = payload.decode(|_| {
        count += 1;
        if count == 5 { Err("enough") } else { Ok(()) }
    });
    assert_eq!((ended, count), (Err(tidemill_rdb::ReadError::Sink("enough")), 5));
}
