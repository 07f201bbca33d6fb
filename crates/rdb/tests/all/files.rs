//! Files of the corpus, and files that are written here.
//!
//! `RDB_ASSETS` may name a folder with files of other servers, as Redis's and Valkey's
//! `tests/assets`: they are read too. Without it only those of the corpus are.

use std::collections::BTreeMap;
use std::convert::Infallible;

use tidemill_rdb::encode::{Compression, NodeLimit, Place};
use tidemill_rdb::file::{Event, KeyAttributes, Progress, Reader, Writer};
use tidemill_rdb::{DecodeError, ReadError, Version, VersionCheck};

use super::collected::{Collected, Owned};
use super::payloads::corpus;

/// Contents of a file.
#[derive(Debug, Default)]
struct Contents {
    keys: BTreeMap<(u64, Vec<u8>), (KeyAttributes, Collected)>,
    other: Vec<String>,
    behind: usize,
}

fn read(bytes: &[u8], chunk_bytes: usize) -> Result<Contents, DecodeError> {
    let (mut contents, mut database) = (Contents::default(), 0);
    let mut current = None;
    let mut reader = Reader::new(VersionCheck::Strict, true);
    let mut chunks = bytes.chunks(chunk_bytes);
    while let Some(chunk) = chunks.next() {
        let progress = reader.feed(chunk, |event| {
            match event {
                Event::Database(number) => database = number,
                Event::Key { name, encoding, expires_at_ms, idle_s, frequency } => {
                    let attributes = KeyAttributes { expires_at_ms, idle_s, frequency };
                    let value = Collected { encoding, items: Vec::new() };
                    current = Some(((database, name.to_vec()), (attributes, value)));
                }
                Event::Item(item) => {
                    current.as_mut().expect("a key").1.1.items.push(Owned::of(&item));
                }
                Event::KeyEnd => contents.keys.extend(current.take()),
                other => contents.other.push(format!("{other:?}")),
            }
            Ok::<(), Infallible>(())
        });
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Done { behind }) => {
                contents.behind = behind + chunks.map(<[u8]>::len).sum::<usize>();
                return Ok(contents);
            }
            Err(ReadError::Decode(error)) => return Err(error),
            Err(ReadError::Sink(never)) => match never {},
        }
    }
    reader.end()?;
    Ok(contents)
}

fn file(name: &str) -> Vec<u8> {
    corpus("files").into_iter().find(|(other, _)| other == name).expect("a file").1
}

fn attributes(contents: &Contents, key: &str) -> KeyAttributes {
    contents.keys[&(0, key.as_bytes().to_vec())].0
}

#[test]
fn files_of_servers_hold_what_their_payloads_hold() {
    for server in ["valkey-9.1", "redis-7.0"] {
        let bytes = file(&format!("{server}.rdb"));
        for chunk_bytes in [1, 7, 4096, bytes.len()] {
            let contents = read(&bytes, chunk_bytes).expect("a file");
            let mut count = 0;
            for (name, payload) in corpus("payloads") {
                let Some(key) = name.strip_prefix(&format!("{server}-")) else { continue };
                let value = Collected::of_payload(&payload).expect("a value");
                let (_, found) = &contents.keys[&(0, key.as_bytes().to_vec())];
                assert_eq!(found, &value, "{server}: {key} in chunks of {chunk_bytes}");
                count += 1;
            }
            assert!(count >= 16 && contents.keys.len() == count + 1, "{count} keys and another");
            let expiry = attributes(&contents, "text").expires_at_ms;
            assert_eq!(expiry, Some(2_000_000_000_000));
            assert!(contents.keys.contains_key(&(9, b"other".to_vec())));
            assert!(contents.other.iter().any(|event| event.starts_with("Functions")));
        }
    }
}

#[test]
fn attributes_belong_to_one_key() {
    for server in ["valkey-9.1", "redis-7.0"] {
        let contents = read(&file(&format!("{server}-lfu.rdb")), 9).expect("a file");
        assert!(attributes(&contents, "a").frequency.is_some());
        let contents = read(&file(&format!("{server}-lru.rdb")), 9).expect("a file");
        assert!(attributes(&contents, "a").idle_s.is_some());
    }
    let contents = read(&file("redis-12.rdb"), 3).expect("a file");
    let expires_at_ms = Some(2_000_000_000_000);
    let late = KeyAttributes { expires_at_ms, idle_s: Some(100), frequency: None };
    assert_eq!(attributes(&contents, "k"), late);
    let used = KeyAttributes { frequency: Some(7), ..KeyAttributes::default() };
    assert_eq!(attributes(&contents, "f"), used);
    assert_eq!(attributes(&contents, "h"), KeyAttributes::default());
    let module = "ModuleData(ModuleName(5035677737576115203))";
    assert!(contents.other.iter().any(|event| event == module), "{:?}", contents.other);
    assert!(contents.other.iter().any(|event| event.starts_with("SlotSizes { slot: 5")));
}

#[test]
fn opcodes_of_the_forks_are_not_confused() {
    let contents = read(&file("valkey-80-slots.rdb"), 11).expect("a file");
    let ranges = contents.other.iter().filter(|event| event.starts_with("SlotRange")).count();
    assert_eq!((ranges, contents.keys.len()), (2, 1));
    // The number is an opcode of newer Redis versions too, with another meaning.
    let error = read(b"REDIS0012\xf3\x00", 5).expect_err("an error");
    assert_eq!(error, DecodeError::UnknownType { offset: 9, found: 243, version: Version(12) });
}

#[test]
fn a_file_ends_before_what_is_behind_it() {
    for chunk_bytes in [1, 20, 100] {
        assert_eq!(read(&file("behind.rdb"), chunk_bytes).expect("a file").behind, 14);
    }
    assert_eq!(read(&file("redis-1.rdb"), 100).expect("a file").keys.len(), 1);
    let contents = read(&file("empty-collection.rdb"), 100).expect("a file");
    assert!(contents.keys[&(0, b"k".to_vec())].1.items.is_empty());
}

#[test]
fn damaged_files_are_refused_with_a_reason() {
    let mut bytes = file("redis-6.rdb");
    let text = |bytes: &[u8]| read(bytes, 64).expect_err("an error").to_string();
    assert!(text(&bytes[..50]).ends_with("found the end"), "{}", text(&bytes[..50]));
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    assert!(text(&bytes).contains("expected the checksum"), "{}", text(&bytes));
    let reason = "expected no value of a module, found ReJSON-RL version 3 under 'doc'";
    assert_eq!(text(&file("module.rdb")), format!("offset 11: {reason}"));
    let reason = "expected functions as Redis 7.0 writes them, found 246";
    assert_eq!(text(&file("functions-early.rdb")), format!("offset 9: {reason}"));
    for header in ["REDIS0000", "REDIS0013", "REDIS0080", "VALKEY011", "VALKEY081"] {
        assert!(text(header.as_bytes()).contains("expected a version"), "{header}");
    }
    for header in ["RUDIS0001", "REDIS00x1", "\0\0\0\0\0\0\0\0\0"] {
        assert!(text(header.as_bytes()).contains("expected REDIS or VALKEY"), "{header}");
    }
}

#[test]
fn a_file_that_is_written_is_read_again() {
    let keys = read(&file("valkey-9.1.rdb"), 4096).expect("a file").keys;
    for (compression, has_checksum) in [(Compression::Lzf, true), (Compression::None, false)] {
        let mut writer =
            Writer::new(Vec::new(), Version::VALKEY, compression, has_checksum).expect("memory");
        writer.aux(b"valkey-ver", b"9.1.0").expect("memory");
        writer.functions(b"#!lua name=lib").expect("memory");
        let mut last = None;
        for ((database, name), (attributes, value)) in &keys {
            if last != Some(*database) {
                writer.database(*database, 20, 1).expect("memory");
                last = Some(*database);
            }
            let encoder = writer.value(*attributes).expect("memory");
            let limit = NodeLimit::of_bytes(8192);
            value.write(encoder, Place::Under(name), limit).expect("memory");
        }
        let bytes = writer.end().expect("memory");
        let again = read(&bytes, 1000).expect("a file");
        for (key, (attributes, value)) in &keys {
            let (found_attributes, found) = &again.keys[key];
            assert_eq!((found_attributes, &found.items), (attributes, &value.items), "{key:?}");
        }
        assert_eq!(bytes.ends_with(&[0; 8]), !has_checksum);
    }
}

#[test]
fn files_of_other_servers_are_read() {
    let Some(folder) = std::env::var_os("RDB_ASSETS") else {
        eprintln!("skipped: RDB_ASSETS names no folder with files of other servers");
        return;
    };
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "rdb") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        let whole = read(&bytes, bytes.len()).map(|contents| contents.keys);
        let pieces = read(&bytes, 5).map(|contents| contents.keys);
        assert_eq!(whole, pieces);
        eprintln!("{}: {:?}", path.display(), whole.map(|keys| keys.len()));
    }
}
