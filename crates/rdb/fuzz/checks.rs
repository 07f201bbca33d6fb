//! Properties that hold for any bytes. Shared by the fuzz targets and by tests/fuzz.rs.
#![allow(dead_code, reason = "each target uses one of the checks")]

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};

use tidemill_rdb::encode::NodeLimit;
use tidemill_rdb::file::{Event, Progress, Reader};
use tidemill_rdb::value::Item;
use tidemill_rdb::{Checksum, DecodeError, ReadError, VersionCheck};

use super::collected::{Collected, Owned};

/// A payload, whose checksum is put right first, is an error or a value; and a value is the same
/// after it was encoded again.
pub fn payloads(data: &[u8]) {
    let mut payload = data.to_vec();
    if let Some(body) = payload.len().checked_sub(8) {
        let checksum = Checksum::of(&payload[..body]);
        payload[body..].copy_from_slice(&checksum.to_le_bytes());
    }
    let value = match Collected::of_payload(&payload) {
        Ok(value) => value,
        Err(error) => return believes_no_claim(&error),
    };
    let again = value.payload(NodeLimit::of_bytes(8192));
    let again = Collected::of_payload(&again).expect("what is written is read");
    // Old streams lack some state, which is written nevertheless, and -0 becomes 0 in a listpack.
    let mut is_same = |(one, other): (&Owned, &Owned)| match (one, other) {
        (Owned::State(one), Owned::State(other)) => one.last_id == other.last_id,
        (Owned::Consumer(one, ..), Owned::Consumer(other, ..)) => one == other,
        (Owned::Scored(one, score), Owned::Scored(other, other_score)) => {
            one == other && f64::from_bits(*score) == f64::from_bits(*other_score)
        }
        (one, other) => one == other,
    };
    assert_eq!(value.items.len(), again.items.len());
    assert!(value.items.iter().zip(&again.items).all(&mut is_same), "{value:?} became {again:?}");
}

/// A file gives the same events however it arrives.
pub fn files(data: &[u8]) {
    let whole = read(&[data]);
    let pieces = pieces(data);
    assert_eq!(whole, read(&pieces), "pieces change a file");
}

/// Fails on an input for which there is no memory: the budget is more than any input needs.
fn believes_no_claim(error: &DecodeError) {
    assert!(!matches!(error, DecodeError::NoMemory { .. }), "a claim was believed: {error}");
}

/// Events that are only counted and hashed, so that they take no memory.
#[derive(Debug, Default)]
struct Digest {
    count: u64,
    hasher: DefaultHasher,
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.hasher.write(text.as_bytes());
        Ok(())
    }
}

fn read(pieces: &[&[u8]]) -> (u64, u64, String) {
    let mut digest = Digest::default();
    let mut reader = Reader::new(VersionCheck::Relaxed, false);
    for (index, piece) in pieces.iter().enumerate() {
        let progress = reader.feed(piece, |event| {
            digest.count += 1;
            // All fields, since the entry's own text shows only where they are.
            if let Event::Item(Item::StreamEntry { id, fields, .. }) = &event {
                write!(digest, "{id:?}")?;
                return fields.clone().try_for_each(|field| write!(digest, "{field:?}"));
            }
            write!(digest, "{event:?}")
        });
        let end = match progress {
            Ok(Progress::More) => continue,
            Ok(Progress::Done { behind }) => {
                let later: usize = pieces[index + 1..].iter().map(|piece| piece.len()).sum();
                format!("{} bytes behind", behind + later)
            }
            Err(ReadError::Decode(error)) => {
                believes_no_claim(&error);
                error.to_string()
            }
            Err(ReadError::Sink(fmt::Error)) => unreachable!("a digest takes all"),
        };
        return (digest.count, digest.hasher.finish(), end);
    }
    let end = reader.end().expect_err("the file goes on").to_string();
    (digest.count, digest.hasher.finish(), end)
}

/// Cuts of `data` at places that depend on its bytes, so that a failing input fails again.
fn pieces(data: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = data;
    let mut state = data.iter().fold(1u32, |state, &byte| (state * 31 + u32::from(byte)) & 0xffff);
    while !rest.is_empty() {
        state = state.wrapping_mul(75) % 65_537 + 1;
        // Mostly single bytes, some long runs.
        let length = if state % 3 == 0 { state as usize % 40 + 1 } else { 1 };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
