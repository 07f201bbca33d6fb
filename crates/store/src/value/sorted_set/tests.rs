//! Sorted sets against a sorted vector, step by step, also with members whose hash bits collide.
//!
//! `TIDEMILL_TREE_STEPS` sets the number of steps of each model, as for the tree.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::hash::Seed;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::Root;
use crate::value::Repeated;

thread_local! {
    /// Bits of a member's hash that take part.
    pub(super) static HASH_MASK: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

type Members = BTreeMap<Vec<u8>, f64>;

struct Model {
    heap: Heap,
    seed: Seed,
    root: Option<Root>,
    members: Members,
}

impl Model {
    fn new(seed: u64) -> Model {
        let members = Members::new();
        Model { heap: Heap::new(), seed: Seed::new(seed, 7), root: None, members }
    }

    fn edit<T>(&mut self, change: impl FnOnce(&mut SortedSetEdit<'_>, &mut Members) -> T) -> T {
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { SortedSetEdit::new(self.root, &self.seed, &self.heap) };
        let outcome = change(&mut edit, &mut self.members);
        assert_eq!(edit.len(), self.members.len() as u64);
        assert_eq!(edit.is_empty(), self.members.is_empty());
        let built = edit.finish();
        self.root = built.root();
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
        // SAFETY: nothing reads.
        unsafe { self.heap.retired().free_all() };
        outcome
    }

    fn view(&self) -> Option<SortedSet<'_>> {
        // SAFETY: nothing is freed while the model is borrowed.
        let section = unsafe { Section::assume() };
        // SAFETY: the root is live as long as `self` is borrowed.
        self.root.map(|root| unsafe { SortedSet::from_root(root, &self.seed, section) })
    }

    fn sorted(&self) -> Vec<Item<'_>> {
        let items = self.members.iter().map(|(member, &score)| Item { member, score });
        let mut items: Vec<_> = items.collect();
        items.sort_by(|left, right| {
            let scores = left.score.partial_cmp(&right.score).expect("scores are not NaN");
            scores.then(left.member.cmp(right.member))
        });
        items
    }

    fn check(&self) {
        let Some(view) = self.view() else {
            assert!(self.members.is_empty());
            return assert_eq!(self.heap.live_bytes(), 0);
        };
        view.check();
        assert_eq!(view.bytes(), self.heap.live_bytes() as u64);
        assert_eq!(view.len(), self.members.len() as u64);
        let items: Vec<Item<'_>> = view.iter().collect();
        assert_eq!(items, self.sorted());
    }

    fn check_reads(&self, random: &mut Random) {
        let Some(view) = self.view() else { return };
        let items = self.sorted();
        for (rank, item) in items.iter().enumerate() {
            assert_eq!(view.score(item.member).map(f64::to_bits), Some(item.score.to_bits()));
            assert_eq!(view.rank(item.member), Some((rank as u64, item.score)));
            for hint in [item.score, -item.score, score(random)] {
                let found = view.score_near(item.member, Some(hint));
                assert_eq!(found.map(f64::to_bits), Some(item.score.to_bits()));
                let found = view.rank_near(item.member, Some(hint));
                assert_eq!(found, Some((rank as u64, item.score)));
            }
            assert_eq!(view.nth(rank as u64), Some(*item));
        }
        assert_eq!(view.nth(view.len()), None);
        assert_eq!(view.score(b"never there"), None);
        let hint = Some(items[random.below(items.len())].score);
        assert_eq!(view.score_near(b"never there", hint), None);
        assert_eq!(view.rank_near(b"never there", hint), None);
        for _ in 0..20 {
            let score = score(random);
            let below = items.iter().filter(|item| item.score < score).count();
            let up_to = items.iter().filter(|item| item.score <= score).count();
            assert_eq!(view.count_below(score), below as u64);
            assert_eq!(view.count_up_to(score), up_to as u64);
        }
        let rank = random.below(items.len() + 1);
        assert!(view.iter_from(rank as u64).eq(items[rank..].iter().copied()));
        let back = items[..=rank.min(items.len() - 1)].iter().rev().copied();
        assert!(view.iter_back_from(rank as u64).eq(back));
        self.check_scan(1 + random.below(50));
    }

    fn check_scan(&self, count: usize) {
        let Some(view) = self.view() else { return };
        let (mut cursor, mut found) = (0, HashSet::new());
        loop {
            let next = view.scan(cursor, count, |item| {
                assert!(found.insert(item.member.to_vec()), "each member is visited once");
            });
            cursor = next.unwrap();
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(found.len(), self.members.len());
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if let Some(root) = self.root.take() {
            // SAFETY: nothing else knows the tree.
            unsafe { root.retire(&self.heap) };
        }
        assert!(std::thread::panicking() || self.heap.live_bytes() == 0);
        // SAFETY: nothing reads.
        unsafe { self.heap.retired().free_all() };
    }
}

fn score(random: &mut Random) -> f64 {
    let number = random.below(2000) as f64;
    match random.below(12) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => 0.0,
        3 => -0.0,
        4 => number / 7.0,
        5 => -number,
        6 => number * 1e12,
        7 | 8 => 5.0,
        _ => number,
    }
}

fn member(random: &mut Random, spread: usize) -> Vec<u8> {
    let number = random.below(spread);
    match number % 50 {
        0 => format!("{number:0>1500}").into_bytes(),
        1 | 2 => format!("{number:0>90}").into_bytes(),
        _ => format!("m{number}").into_bytes(),
    }
}

fn step_count() -> usize {
    let steps = std::env::var("TIDEMILL_TREE_STEPS");
    steps.map_or(4_000, |steps| steps.parse().expect("TIDEMILL_TREE_STEPS is a number"))
}

fn random_change(
    edit: &mut SortedSetEdit<'_>,
    members: &mut Members,
    random: &mut Random,
    spread: usize,
    removals: usize,
) {
    let member = member(random, spread);
    let new = score(random);
    match random.below(10) {
        choice if choice < removals => {
            let removed = edit.remove(&member).map(f64::to_bits);
            assert_eq!(removed, members.remove(&member).map(f64::to_bits));
        }
        9 => {
            let change = |old: Option<f64>| old.map(|old| old + 1.0).filter(|new| !new.is_nan());
            let old = edit.update(&member, change);
            assert_eq!(old, members.get(&member).copied());
            if let Some(new) = change(old) {
                members.insert(member.clone(), new);
            }
        }
        _ => {
            let old = members.get(&member).copied();
            assert_eq!(edit.set(&member, new), old);
            if old != Some(new) {
                members.insert(member.clone(), new);
            }
        }
    }
    let found = edit.score(&member).map(f64::to_bits);
    assert_eq!(found, members.get(&member).copied().map(f64::to_bits));
}

fn remove_random_range(model: &mut Model, random: &mut Random) {
    let len = model.members.len();
    let start = random.below(len + 2);
    let length_max = [3, 100, len + 1][random.below(3)];
    let end = start + random.below(length_max);
    let gone: Vec<Vec<u8>> = {
        let items = model.sorted();
        let range = start.min(len)..end.min(len);
        items[range].iter().map(|item| item.member.to_vec()).collect()
    };
    model.edit(|edit, members| {
        edit.remove_range(start as u64, end as u64);
        gone.iter().for_each(|member| assert!(members.remove(member).is_some()));
    });
}

fn fill_anew(model: &mut Model, random: &mut Random, spread: usize) {
    model.edit(|edit, members| {
        edit.remove_range(0, u64::MAX);
        members.clear();
        for _ in 0..random.below(1500) {
            members.insert(member(random, spread), score(random));
        }
        let mut items: Vec<_> =
            members.iter().map(|(member, &score)| Item { member, score }).collect();
        if random.below(2) == 0 {
            return edit.fill(&mut items);
        }
        let mut gathered = GatheredScores::default();
        items.iter().for_each(|&item| gathered.push(item));
        if !items.is_empty() {
            let (again, mut twice) = (items[random.below(items.len())], gathered.clone());
            twice.push(Item { score: score(random), ..again });
            assert_eq!(edit.fill_with(&twice), Err(Repeated(items.len())));
        }
        edit.fill_with(&gathered).expect("each member is there once");
    });
}

fn run_model(seed: u64, mask: u32) {
    println!("seed {seed}, mask {mask:x}");
    HASH_MASK.set(mask);
    let mut random = Random(seed);
    let mut model = Model::new(seed);
    let (mut spread, mut removals) = (500, 3);
    for step in 0..step_count() {
        match random.below(500) {
            0 => {
                spread = [8, 150, 500, 4000][random.below(4)];
                fill_anew(&mut model, &mut random, spread);
            }
            1..15 => remove_random_range(&mut model, &mut random),
            choice => {
                let changes = if choice % 20 == 0 { random.below(200) } else { 1 };
                removals = if step % 300 == 0 { 1 + random.below(7) } else { removals };
                model.edit(|edit, members| {
                    (0..changes)
                        .for_each(|_| random_change(edit, members, &mut random, spread, removals));
                });
            }
        }
        model.check();
        if step % 100 == 0 {
            model.check_reads(&mut random);
        }
    }
    HASH_MASK.set(u32::MAX);
}

#[test]
fn a_sorted_set_equals_a_sorted_vector_after_any_edits() {
    run_model(1, u32::MAX);
    run_model(2, u32::MAX);
}

#[test]
fn members_with_equal_hash_bits_are_told_apart() {
    run_model(3, 0);
    run_model(4, 0x1f);
}

#[test]
fn an_edit_that_is_dropped_leaves_no_trace() {
    let mut model = Model::new(5);
    model.edit(|edit, members| {
        for number in 0..3000 {
            let member = format!("member:{number}").into_bytes();
            edit.set(&member, f64::from(number % 17));
            members.insert(member, f64::from(number % 17));
        }
    });
    model.check();
    let live_bytes = model.heap.live_bytes();
    // SAFETY: the root is the current version, and this is the only editor.
    let mut edit = unsafe { SortedSetEdit::new(model.root, &model.seed, &model.heap) };
    edit.remove_range(10, 2500);
    edit.set(b"another", 3.0);
    drop(edit);
    assert_eq!(model.heap.live_bytes(), live_bytes);
    model.check();
}

#[test]
fn members_of_equal_scores_are_counted_in_their_order() {
    for len in [3_u64, 5000] {
        let mut model = Model::new(6);
        model.edit(|edit, members| {
            for number in 0..len {
                let member = format!("{:05}", 2 * number).into_bytes();
                edit.set(&member, 1.0);
                members.insert(member, 1.0);
            }
        });
        let view = model.view().expect("there are members");
        for number in [0_u64, 1, 2, 3, len - 1, len, 2 * len, 2 * len + 1] {
            let bound = format!("{number:05}");
            let below = number.div_ceil(2).min(len);
            assert_eq!(view.members_below(bound.as_bytes()), below);
            let up_to = (number / 2 + 1).min(len);
            assert_eq!(view.members_up_to(bound.as_bytes()), up_to);
        }
        assert_eq!((view.members_below(b""), view.members_up_to(b"")), (0, 0));
    }
}

#[test]
fn a_scan_visits_staying_members_whose_scores_change() {
    for long_run in [false, true] {
        let mut random = Random(7);
        let mut model = Model::new(7);
        let len = if long_run { 20_000 } else { 3000 };
        model.edit(|edit, members| {
            for number in 0..len {
                let member = format!("kept-{number}").into_bytes();
                let score = if long_run { 1.0 } else { (number % 977) as f64 };
                edit.set(&member, score);
                members.insert(member, score);
            }
        });
        let mut missing: HashSet<Vec<u8>> = model.members.keys().cloned().collect();
        let (mut cursor, mut calls) = (0, 0);
        loop {
            let view = model.view().expect("something is kept");
            let next = view.scan(cursor, 10, |item| {
                missing.remove(item.member);
            });
            cursor = next.unwrap();
            calls += 1;
            if cursor == 0 {
                break;
            }
            model.edit(|edit, members| {
                for _ in 0..5 {
                    let member = format!("kept-{}", random.below(len)).into_bytes();
                    let score = score(&mut random);
                    edit.set(&member, score);
                    members.insert(member, score);
                    random_change(edit, members, &mut random, 300, 4);
                }
            });
        }
        assert!(missing.is_empty(), "{} missed", missing.len());
        assert!(if long_run { calls <= 70 } else { calls > 100 }, "{calls} calls");
    }
}

/// Bytes per member of sets with members of 16 bytes and integer scores; see
/// docs/benchmarks/memory.md for those of other types.
#[test]
fn a_sorted_set_takes_no_more_memory_than_planned() {
    /// Bytes of the entry of a key of up to 16 bytes.
    const ENTRY_BYTES: u64 = 48;
    let bytes = |len: usize, in_order: bool| {
        let mut model = Model::new(8);
        for batch in (0..len).collect::<Vec<_>>().chunks(1000) {
            model.edit(|edit, members| {
                for &step in batch {
                    let number = if in_order { step } else { step * 618_033 % len };
                    let member = format!("member:{number:09}").into_bytes();
                    edit.set(&member, number as f64);
                    members.insert(member, 0.0);
                }
            });
        }
        let bytes = model.view().map_or(0, |view| view.bytes());
        println!("{len} members, in order {in_order}: {:.1}", bytes as f64 / len as f64);
        bytes
    };
    assert!(bytes(10, true) + ENTRY_BYTES <= 272);
    assert!(bytes(100, true) + ENTRY_BYTES <= 2048 * 115 / 100);
    assert!(bytes(1_000_000, true) <= 46_200_000);
    assert!(bytes(1_000_000, false) <= 55_000_000);
}
