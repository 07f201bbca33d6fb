//! Texts against a byte vector, step by step.
#![allow(unsafe_code)]

use crate::tree_common::{Random, free_retired, section};
use tidemill_store::value::text::{Text, TextEdit};
use tidemill_store::{Heap, Root};

struct Tested {
    heap: Heap,
    root: Option<Root>,
    model: Vec<u8>,
}

impl Tested {
    fn new() -> Tested {
        Tested { heap: Heap::new(), root: None, model: Vec::new() }
    }

    fn edit(&mut self, change: impl FnOnce(&mut TextEdit<'_>, &mut Vec<u8>)) {
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { TextEdit::new(self.root, &self.heap) };
        change(&mut edit, &mut self.model);
        let built = edit.finish();
        self.root = built.root();
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
    }

    fn text(&self) -> Option<Text<'_>> {
        // SAFETY: the root is live as long as `self` is borrowed.
        self.root.map(|root| unsafe { Text::from_root(root, section(self)) })
    }

    fn check(&self, random: &mut Random) {
        let Some(text) = self.text() else {
            assert!(self.model.is_empty());
            assert_eq!(self.heap.live_bytes(), 0);
            return;
        };
        text.check();
        assert_eq!(self.heap.live_bytes() as u64, text.bytes());
        assert_eq!(text.len(), self.model.len() as u64);
        let mut copy = Vec::new();
        text.copy_to(0..u64::MAX, &mut copy);
        assert!(copy == self.model);
        for _ in 0..5 {
            let start = random.below(self.model.len() + 5);
            let end = start + random.below(5000);
            copy.clear();
            text.copy_to(start as u64..end as u64, &mut copy);
            let bounds = start.min(self.model.len())..end.min(self.model.len());
            assert!(copy == self.model[bounds]);
            assert_eq!(text.get(start as u64), self.model.get(start).copied());
        }
    }
}

impl Drop for Tested {
    fn drop(&mut self) {
        let Some(root) = self.root.take() else { return };
        // SAFETY: no other code knows the root.
        unsafe { root.retire(&self.heap) };
        assert!(std::thread::panicking() || self.heap.live_bytes() == 0);
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
    }
}

fn write(model: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if !bytes.is_empty() && model.len() < offset + bytes.len() {
        model.resize(offset + bytes.len(), 0);
    }
    model[offset.min(bytes.len() + offset)..][..bytes.len()].copy_from_slice(bytes);
}

#[test]
fn a_text_equals_a_byte_vector_after_any_edits() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new();
        for _ in 0..60 {
            tested.edit(|edit, model| {
                for _ in 0..1 + random.below(4) {
                    let bound = [4, 40, 4000][random.below(3)];
                    let bytes = random.bytes(bound);
                    if random.below(3) == 0 {
                        edit.append(&bytes);
                        model.extend_from_slice(&bytes);
                        continue;
                    }
                    let beyond = [1, 3, 300, 20_000][random.below(4)];
                    let offset = random.below(model.len() + beyond);
                    edit.write(offset as u64, &bytes);
                    if !bytes.is_empty() {
                        write(model, offset, &bytes);
                    }
                }
            });
            tested.check(&mut random);
        }
    }
}

#[test]
fn the_last_bit_of_the_longest_string_costs_less_than_4_kib() {
    let mut tested = Tested::new();
    let last = (1 << 29) - 1;
    tested.edit(|edit, _| edit.write(last, &[1]));
    assert!(tested.heap.live_bytes() < 4096, "{}", tested.heap.live_bytes());
    let text = tested.text().expect("it was written");
    text.check();
    assert_eq!((text.len(), text.get(last), text.get(last - 1)), (1 << 29, Some(1), Some(0)));
    tested.edit(|edit, _| edit.write(1 << 20, &[7, 8]));
    let text = tested.text().expect("it was written");
    text.check();
    assert_eq!(text.get((1 << 20) + 1), Some(8));
    assert_eq!((text.len(), text.get(last)), (1 << 29, Some(1)));
}

#[test]
fn appending_fills_chunks() {
    let mut tested = Tested::new();
    for _ in 0..20_000 {
        tested.edit(|edit, _| edit.append(b"seventeen bytes.."));
    }
    let text = tested.text().expect("it was written");
    assert!(text.len() * 100 / text.bytes() > 93, "{} of {}", text.len(), text.bytes());
}

#[test]
fn long_runs_are_appended_and_written_whole() {
    let mut random = Random::new(7);
    for first in [0, 1, 1008, 39 * 1008, 40 * 1008 + 5, 900_000] {
        let mut tested = Tested::new();
        for length in [first, 41_000, 0, 700_001, 1, 300_000] {
            let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            tested.edit(|edit, model| {
                edit.append(&bytes);
                model.extend_from_slice(&bytes);
            });
            tested.check(&mut random);
        }
        let bytes = vec![7; 500_000];
        for offset in [0, 3, 900_000, tested.model.len(), tested.model.len() + 600_000] {
            tested.edit(|edit, model| {
                edit.write(offset as u64, &bytes);
                write(model, offset, &bytes);
            });
            tested.check(&mut random);
        }
        let text = tested.text().expect("it was written");
        assert!(text.len() < 2 * text.bytes(), "{} of {}", text.len(), text.bytes());
    }
}

#[test]
fn long_writes_over_chunks_and_zeros_equal_those_into_a_vector() {
    // Bytes of a full chunk.
    let chunk = 1008;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new();
        for _ in 0..10 {
            tested.edit(|edit, model| {
                for _ in 0..1 + random.below(3) {
                    let count = [2, 41, 200][random.below(3)];
                    let length = count * chunk + [0, 1, 500][random.below(3)];
                    let beyond = [1, 5 * chunk, 100 * chunk][random.below(3)];
                    let mut offset = random.below(model.len() + beyond);
                    if random.below(2) == 0 {
                        offset -= offset % chunk;
                    }
                    let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
                    edit.write(offset as u64, &bytes);
                    write(model, offset, &bytes);
                }
            });
            tested.check(&mut random);
        }
    }
}
