//! Lists against a vector, step by step.
#![allow(unsafe_code)]

mod tree_common;

use std::collections::VecDeque;

use tidemill_rcu::Section;
use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::{Heap, Root};
use tree_common::{Random, free_retired};

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
        built.retire_replaced();
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
        self.check();
    }

    fn list(&self) -> Option<List<'_>> {
        // SAFETY: the root is live as long as `self` is borrowed.
        self.root.map(|root| unsafe { List::from_root(root, Section::assume()) })
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
fn a_list_is_what_a_vector_would_be_after_any_edits() {
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
