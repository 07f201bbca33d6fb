//! Lists against a vector, step by step.
#![allow(unsafe_code)]

use std::collections::VecDeque;

use crate::tree_common::{Random, free_retired, section};
use tidemill_store::value::list::{GatheredElements, List, ListEdit};
use tidemill_store::{Heap, Root};

struct Tested {
    heap: Heap,
    root: Option<Root>,
    model: VecDeque<Vec<u8>>,
}

impl Tested {
    fn new() -> Tested {
        Tested { heap: Heap::new(), root: None, model: VecDeque::new() }
    }

    fn edit(&mut self, change: impl FnOnce(&mut ListEdit<'_>, &mut VecDeque<Vec<u8>>)) {
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { ListEdit::new(self.root, &self.heap) };
        change(&mut edit, &mut self.model);
        assert_eq!(edit.len(), self.model.len() as u64);
        let built = edit.finish();
        self.root = built.root();
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
        self.check();
    }

    fn list(&self) -> Option<List<'_>> {
        // SAFETY: the root is live as long as `self` is borrowed.
        self.root.map(|root| unsafe { List::from_root(root, section(self)) })
    }

    fn check(&self) {
        let Some(list) = self.list() else {
            assert!(self.model.is_empty());
            assert_eq!(self.heap.live_bytes(), 0);
            return;
        };
        list.check();
        assert_eq!(self.heap.live_bytes() as u64, list.bytes());
        assert_eq!(list.len(), self.model.len() as u64);
        assert!(list.iter().eq(self.model.iter().map(Vec::as_slice)));
    }

    fn check_reads(&self, random: &mut Random) {
        let Some(list) = self.list() else { return };
        let len = self.model.len();
        for _ in 0..20 {
            let index = random.below(len + 3);
            assert_eq!(list.get(index as u64), self.model.get(index).map(Vec::as_slice));
            let forwards = self.model.iter().skip(index).map(Vec::as_slice);
            assert!(list.iter_from(index as u64).eq(forwards));
            let last = index.min(len - 1);
            let backwards = self.model.iter().rev().skip(len - 1 - last).map(Vec::as_slice);
            assert!(list.iter_back_from(index as u64).eq(backwards));
        }
    }
}

impl Drop for Tested {
    fn drop(&mut self) {
        if let Some(root) = self.root.take() {
            // SAFETY: no other code knows the root.
            unsafe { root.retire(&self.heap) };
        }
        assert!(std::thread::panicking() || self.heap.live_bytes() == 0);
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
    }
}

fn random_change(
    edit: &mut ListEdit<'_>,
    model: &mut VecDeque<Vec<u8>>,
    random: &mut Random,
    growth: usize,
) {
    let index = random.below(model.len() + 1);
    match random.below(10 + growth) {
        0 => assert_eq!(edit.pop_front(), model.pop_front().is_some()),
        1 => assert_eq!(edit.pop_back(), model.pop_back().is_some()),
        2 | 3 => assert_eq!(edit.remove(index as u64), model.remove(index).is_some()),
        4 => {
            let end = index + random.below(40).min(model.len() - index);
            edit.remove_range(index as u64, end as u64);
            model.drain(index..end);
        }
        5 if index < model.len() => {
            let element = random.bytes(40);
            assert!(edit.set(index as u64, &element));
            model[index] = element;
        }
        6 | 7 => {
            let element = random.element();
            edit.push_front(&element);
            model.push_front(element);
        }
        8 => {
            let element = random.element();
            assert!(edit.insert(index as u64, &element));
            model.insert(index, element);
        }
        _ => {
            let element = random.element();
            edit.push_back(&element);
            model.push_back(element);
        }
    }
    let probe = random.below(model.len() + 1);
    assert_eq!(edit.get(probe as u64), model.get(probe).map(Vec::as_slice));
}

#[test]
fn elements_whose_lengths_just_fit_a_byte_or_not_equal_a_vector() {
    const LENGTHS: [usize; 6] = [0, 1, 254, 255, 256, 257];
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new();
        // Of some lists all lengths fit, until a long element comes.
        let lengths = if seed % 3 == 0 { &LENGTHS[..4] } else { &LENGTHS };
        for step in 0..200 {
            let lengths = if step > 150 { &LENGTHS } else { lengths };
            let element = vec![step as u8; lengths[random.below(lengths.len())]];
            tested.edit(|edit, model| {
                let index = random.below(model.len() + 1);
                match random.below(8) {
                    0 => assert_eq!(edit.remove(index as u64), model.remove(index).is_some()),
                    1 => assert_eq!(edit.pop_back(), model.pop_back().is_some()),
                    2 if index < model.len() => {
                        assert!(edit.set(index as u64, &element));
                        model[index] = element;
                    }
                    3 | 4 => {
                        edit.push_back(&element);
                        model.push_back(element);
                    }
                    _ => {
                        assert!(edit.insert(index as u64, &element));
                        model.insert(index, element);
                    }
                }
            });
            tested.check_reads(&mut random);
        }
    }
}

#[test]
fn a_list_equals_a_vector_after_any_edits() {
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new();
        let growth = random.below(12);
        for step in 0..120 {
            let changes = 1 + random.below(12);
            tested.edit(|edit, model| {
                (0..changes).for_each(|_| random_change(edit, model, &mut random, growth));
            });
            if step % 10 == 0 {
                tested.check_reads(&mut random);
            }
        }
        while !tested.model.is_empty() {
            tested.edit(|edit, model| {
                (0..7).for_each(|_| random_change(edit, model, &mut random, 0));
                edit.remove_range(0, 9);
                model.drain(..model.len().min(9));
            });
        }
    }
}

fn fill_percent(tested: &Tested) -> u64 {
    let list = tested.list().expect("it is not empty");
    let used: usize = list.iter().map(<[u8]>::len).sum();
    // Two bytes per element are its start in the table.
    (used as u64 + 2 * list.len()) * 100 / list.bytes()
}

#[test]
fn pushing_at_either_end_fills_nodes() {
    for (pushes_per_edit, front) in [(1, false), (1, true), (1000, false), (1000, true)] {
        let mut tested = Tested::new();
        for edit_number in 0..20_000 / pushes_per_edit {
            // SAFETY: the root is the current version, and this is the only editor.
            let mut edit = unsafe { ListEdit::new(tested.root, &tested.heap) };
            for push in 0..pushes_per_edit {
                let element = format!("element {}", edit_number * pushes_per_edit + push);
                if front {
                    edit.push_front(element.as_bytes());
                } else {
                    edit.push_back(element.as_bytes());
                }
            }
            let built = edit.finish();
            tested.root = built.root();
            // SAFETY: the new root takes the place of the old one.
            unsafe { built.retire_replaced() };
            // SAFETY: no reader is left.
            unsafe { free_retired(&tested.heap) };
        }
        tested.list().expect("it is not empty").check();
        let fill = fill_percent(&tested);
        assert!(fill > 90, "{pushes_per_edit} pushes per edit, front: {front}: {fill} %");
    }
}

#[test]
fn a_list_that_got_elements_together_equals_a_vector_and_can_be_changed() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new();
        let before = [0, 0, 1, 300][random.below(4)];
        let count = [0, 1, 2, 50, 400, 3000, 20_000][random.below(7)];
        tested.edit(|list, model| {
            let mut waiting = GatheredElements::default();
            for number in 0..before + count {
                let element = random.element();
                if number < before {
                    list.push_back(&element);
                } else {
                    waiting.push(&element);
                }
                if random.below(100) == 0 {
                    list.append(&mut waiting, false);
                }
                model.push_back(element);
            }
            list.append(&mut waiting, true);
            assert_eq!(waiting.elements().bytes(), 0);
        });
        tested.check_reads(&mut random);
        for _ in 0..30 {
            tested.edit(|list, model| {
                for _ in 0..10 {
                    random_change(list, model, &mut random, 4);
                }
            });
        }
    }
}

#[test]
fn deleting_leaves_no_crumbs() {
    let mut random = Random::new(5);
    let mut tested = Tested::new();
    tested.edit(|edit, model| {
        for number in 0..30_000 {
            let element = format!("element {number}").into_bytes();
            edit.push_back(&element);
            model.push_back(element);
        }
    });
    for left in [20_000, 10_000, 3000, 500] {
        while tested.model.len() > left {
            tested.edit(|edit, model| {
                for _ in 0..500 {
                    let index = random.below(model.len());
                    edit.remove(index as u64);
                    model.remove(index);
                }
            });
        }
        let fill = fill_percent(&tested);
        assert!(fill > 45, "{left} left: {fill} %");
    }
}

#[test]
fn a_tree_of_three_levels_takes_random_edits() {
    let mut random = Random::new(11);
    let mut tested = Tested::new();
    tested.edit(|edit, model| {
        for number in 0..60_000 {
            let element = format!("{:>60}", number).into_bytes();
            edit.push_back(&element);
            model.push_back(element);
        }
    });
    for _ in 0..25 {
        tested.edit(|edit, model| {
            for _ in 0..200 {
                let index = random.below(model.len() + 1);
                let element = random.element();
                edit.insert(index as u64, &element);
                model.insert(index, element);
                let index = random.below(model.len());
                edit.remove(index as u64);
                model.remove(index);
            }
        });
    }
    tested.check_reads(&mut random);
    while !tested.model.is_empty() {
        let start = random.below(tested.model.len());
        let end = (start + 3000).min(tested.model.len());
        tested.edit(|edit, model| {
            edit.remove_range(start as u64, end as u64);
            model.drain(start..end);
        });
    }
}

#[test]
fn a_reader_of_an_old_version_sees_it_unchanged() {
    let heap = Heap::new();
    let mut random = Random::new(3);
    let mut root = None;
    let mut versions: Vec<(Root, VecDeque<Vec<u8>>)> = Vec::new();
    let mut model = VecDeque::new();
    for _ in 0..200 {
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { ListEdit::new(root, &heap) };
        (0..10).for_each(|_| random_change(&mut edit, &mut model, &mut random, 12));
        let built = edit.finish();
        root = built.root();
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
        versions.extend(root.map(|root| (root, model.clone())));
    }
    for (root, model) in &versions {
        // SAFETY: nothing was freed yet.
        let list = unsafe { List::from_root(*root, section(&heap)) };
        list.check();
        assert!(list.iter().eq(model.iter().map(Vec::as_slice)));
    }
    // SAFETY: the root is not used any more.
    root.into_iter().for_each(|root| unsafe { root.retire(&heap) });
    assert_eq!(heap.live_bytes(), 0);
    // SAFETY: no reader is left.
    unsafe { free_retired(&heap) };
}

#[test]
fn an_edit_that_is_dropped_leaves_no_trace() {
    let mut random = Random::new(9);
    let mut tested = Tested::new();
    for step in 0..100 {
        tested.edit(|edit, model| random_change(edit, model, &mut random, 12));
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { ListEdit::new(tested.root, &tested.heap) };
        let mut scratch = tested.model.clone();
        (0..20).for_each(|_| random_change(&mut edit, &mut scratch, &mut random, 6));
        if step % 2 == 0 {
            drop(edit.finish());
        }
        assert!(tested.heap.retired().is_empty());
        tested.check();
    }
}

#[test]
fn a_copy_shares_nothing_with_the_original() {
    let mut tested = Tested::new();
    tested.edit(|edit, model| {
        for number in 0..5000 {
            let element = format!("element {number}").into_bytes();
            edit.push_back(&element);
            model.push_back(element);
        }
    });
    let original = tested.root.take().expect("it is not empty");
    // SAFETY: the original is live.
    let built = unsafe { original.copy(&tested.heap) };
    tested.root = built.root();
    // SAFETY: the new root takes the place of the old one.
    unsafe { built.retire_replaced() };
    // SAFETY: no other code uses the original.
    unsafe { original.retire(&tested.heap) };
    // SAFETY: no reader is left.
    unsafe { free_retired(&tested.heap) };
    tested.check();
    tested.edit(|edit, model| {
        edit.remove_range(0, 5000);
        model.clear();
    });
}
