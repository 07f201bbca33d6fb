//! Sorted trees against a sorted vector, step by step: with ties, with plain numbers, with leaves
//! of one stride.
//!
//! `TIDEMILL_TREE_STEPS` sets the number of steps of each model; `make soak` takes 10^6.

use std::cmp::Ordering;

use super::arena::Arena;
use super::build::Builder;
use super::check::check_tree;
use super::cursor::Cursor;
use super::cut::cut;
use super::leaf::{self, LeafPlan, LeafWriter};
use super::limits::NODE_BYTES_MAX;
use super::node::{Expiries, Link, NEVER, Stride, flags};
use super::order::{Order, sums};
use super::root::Root;
use super::run::{RunElement, put_run, remove_run};
use super::separator::{Place, Separator, TiedKey, compare};
use super::sorted::{self, Sorted, check_sorted, locate};
use crate::heap::Heap;

/// Numbers with ties: eight bytes, then the tie.
struct Tied;

impl Order for Tied {
    type Key = TiedKey;
}

impl Sorted for Tied {
    fn place_of(element: &[u8]) -> Place<'_> {
        place_of(element)
    }
}

/// Plain numbers of eight bytes.
struct Plain;

impl Order for Plain {
    type Key = u64;
}

impl Sorted for Plain {
    fn place_of(element: &[u8]) -> Place<'_> {
        place_of(element)
    }
}

fn place_of(element: &[u8]) -> Place<'_> {
    let (key, tie) = element.split_first_chunk().expect("an element begins with its number");
    Place { key: u64::from_be_bytes(*key), tie }
}

#[test]
fn a_search_near_any_guess_finds_the_first_that_is_not_before() {
    for len in 1..40 {
        for answer in 0..=len {
            for guess in 0..len {
                let is_before = |index: usize| {
                    assert!(index < len);
                    index < answer
                };
                assert_eq!(sorted::partition_near(len, guess, is_before), answer, "{len}, {guess}");
            }
        }
    }
}

#[test]
fn an_element_is_found_whether_all_have_one_length_or_not() {
    let mut random = Random(7);
    for round in 0..400 {
        let count = 1 + random.below(60);
        let longest = random.below(10);
        let elements: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let length = if round % 2 == 0 { longest } else { random.below(longest + 1) };
                (0..length).map(|_| random.below(3) as u8).collect()
            })
            .collect();
        let mut arena = Arena::default();
        let all = elements.iter().map(Vec::as_slice);
        let leaf = leaf::of_elements(&mut arena, flags::LENGTHS, all.clone());
        let leaf = leaf.expect("there are elements").node();
        for (index, element) in all.clone().enumerate() {
            assert_eq!(leaf.element(index), element);
        }
        let started = leaf::of_elements(&mut arena, 0, all.clone());
        let started = started.expect("there are elements").node();
        for wanted in all.clone().chain([&[0, 1][..], &[], &[9; 9], &[0; 260]]) {
            let expected = all.clone().position(|element| element == wanted);
            assert_eq!(leaf.position(|element| element == wanted), expected);
            let is_wanted = |element: &[u8]| {
                assert_eq!(element.len(), wanted.len(), "only such are asked about");
                element == wanted
            };
            assert_eq!(leaf.position_of_length(wanted.len(), is_wanted), expected);
            assert_eq!(started.position_of_length(wanted.len(), is_wanted), expected);
            if let Some(end) = wanted.last_chunk::<2>() {
                let place = (wanted.len() - 2, end);
                assert_eq!(leaf.position_with(place, |element| element == wanted), expected);
                let found = started.position_ending_with(end, |element| element == wanted);
                assert_eq!(found, expected);
            }
            if let Some(&end) = wanted.last_chunk::<4>() {
                let place = (wanted.len() - 4, &end);
                assert_eq!(leaf.position_with(place, |element| element == wanted), expected);
            }
        }
    }
}

#[test]
fn bytes_are_ordered_as_slices_are() {
    let mut random = Random(11);
    let mut bytes = || -> Vec<u8> {
        let (length, values) = (random.below(20), [0, 1, 0x7f, 0x80, 0xff]);
        (0..length).map(|_| values[random.below(values.len())]).collect()
    };
    for _ in 0..100_000 {
        let (left, mut right) = (bytes(), bytes());
        if right.len() % 2 == 0 {
            right = [&left[..left.len() / 2], &right].concat();
        }
        assert_eq!(compare(&left, &right), left.cmp(&right), "{left:?}, {right:?}");
        assert_eq!(compare(&left, &left), Ordering::Equal);
    }
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

/// Elements in the order of the tree: number and tie, each end to end.
type Elements = Vec<Vec<u8>>;

struct Model<S> {
    heap: Heap,
    root: Option<Root>,
    elements: Elements,
    special: u8,
    order: std::marker::PhantomData<S>,
}

impl<S: Sorted> Model<S> {
    fn new(special: u8) -> Model<S> {
        let order = std::marker::PhantomData;
        Model { heap: Heap::new(), root: None, elements: Vec::new(), special, order }
    }

    fn edit<T>(&mut self, change: impl FnOnce(&mut Arena, &mut Option<Link>) -> T) -> T {
        let mut arena = Arena::from(self.root);
        let mut root = self.root.map(Root::link);
        let outcome = change(&mut arena, &mut root);
        let built = arena.finish(root, &self.heap);
        self.root = built.root();
        // SAFETY: the model is the only one to know the tree.
        unsafe { built.retire_replaced() };
        // SAFETY: nothing reads.
        unsafe { self.heap.retired().free_all() };
        outcome
    }

    fn index_of(&self, element: &[u8]) -> Result<usize, usize> {
        self.elements.binary_search_by(|other| place_of(other).cmp(&place_of(element)))
    }

    fn put(&mut self, element: &[u8]) {
        let special = self.special;
        let is_new = self.edit(|arena, root| {
            sorted::put::<S>(arena, root, special, place_of(element), &[element])
        });
        match self.index_of(element) {
            Ok(_) => assert!(!is_new),
            Err(index) => {
                assert!(is_new);
                self.elements.insert(index, element.to_vec());
            }
        }
    }

    fn remove(&mut self, element: &[u8]) {
        let removed = self.edit(|arena, root| {
            let found = root.and_then(|link| sorted::find::<S>(link, place_of(element)));
            found.map(|found| *root = found.remove::<S>(arena)).is_some()
        });
        let index = self.index_of(element);
        assert_eq!(removed, index.is_ok());
        if let Ok(index) = index {
            self.elements.remove(index);
        }
    }

    /// Puts elements as a run, the number of each apart from its tie.
    fn put_run(&mut self, elements: &[Vec<u8>]) {
        let special = self.special;
        let run: Vec<_> = elements
            .iter()
            .map(|element| {
                let (number, tie) = element.split_at(8);
                RunElement { place: place_of(element), parts: [number, tie] }
            })
            .collect();
        let mut replaced = Vec::new();
        self.edit(|arena, root| {
            put_run::<S>(arena, root, special, &run, |index, old| {
                assert_eq!(old, elements[index]);
                replaced.push(index);
            });
        });
        let mut known = Vec::new();
        for (number, element) in elements.iter().enumerate() {
            match self.index_of(element) {
                Ok(_) => known.push(number),
                Err(index) => self.elements.insert(index, element.clone()),
            }
        }
        assert_eq!(replaced, known);
    }

    fn remove_run(&mut self, elements: &[Vec<u8>]) {
        let places: Vec<_> = elements.iter().map(|element| place_of(element)).collect();
        let mut removed = Vec::new();
        self.edit(|arena, root| {
            remove_run::<S>(arena, root, &places, |index, old| {
                assert_eq!(old, elements[index]);
                removed.push(index);
            });
        });
        let mut known = Vec::new();
        for (number, element) in elements.iter().enumerate() {
            if let Ok(index) = self.index_of(element) {
                self.elements.remove(index);
                known.push(number);
            }
        }
        assert_eq!(removed, known);
    }

    fn cut(&mut self, start: usize, end: usize) {
        self.edit(|arena, root| {
            *root = root.and_then(|root| cut::<S>(arena, root, start as u64, end as u64));
        });
        let end = end.min(self.elements.len());
        if start < end {
            self.elements.drain(start..end);
        }
    }

    fn build(&mut self, elements: Elements) {
        let special = self.special;
        self.edit(|arena, root| {
            root.take().into_iter().for_each(|root| arena.discard_tree(root));
            let mut builder = Builder::<S>::new(special);
            for element in &elements {
                builder.push(arena, place_of(element), &[element]);
            }
            *root = builder.finish(arena);
        });
        self.elements = elements;
    }

    fn check(&self) {
        let Some(root) = self.root else {
            assert!(self.elements.is_empty());
            return assert_eq!(self.heap.live_bytes(), 0);
        };
        let root = root.link();
        let mut index = 0;
        let totals = check_tree::<S>(root, &mut |leaf, from, to| {
            assert!(leaf.len() == 1 || leaf.header().capacity as usize <= NODE_BYTES_MAX);
            assert_eq!(leaf.has(flags::FIXED), self.special != 0);
            for within in 0..leaf.len() {
                let element = leaf.element(within);
                assert_eq!(element, self.elements[index]);
                let key = place_of(element).key;
                // A number is not parted from its equals, if numbers are all there is.
                assert!(key >= from && to.is_none_or(|to| key < to || S::Key::TIED && key == to));
                index += 1;
            }
        });
        check_sorted::<S>(root);
        assert_eq!(index, self.elements.len());
        assert_eq!(totals.bytes, self.heap.live_bytes() as u64);
        assert_eq!(totals.measure, self.elements.len() as u64);
        assert_eq!(totals.expiries, Expiries { first: NEVER, last: NEVER });
    }

    /// Looks a place up, and walks from there in both directions.
    fn check_search(&self, element: &[u8]) {
        let Some(root) = self.root else { return };
        let expected = self.index_of(element);
        let found = locate::<S>(root.link(), place_of(element));
        assert_eq!(found.is_present, expected.is_ok());
        let rank = expected.unwrap_or_else(|index| index);
        assert_eq!(found.rank, rank as u64);
        let leaf = sorted::leaf_of::<S>(root.link(), place_of(element));
        match sorted::search::<S>(leaf, place_of(element)) {
            Ok(index) => assert_eq!(leaf.element(index), element),
            Err(_) => assert!(!found.is_present),
        }
        if rank < self.elements.len() {
            let (mut cursor, within) = Cursor::at_position(root.link(), rank as u64);
            assert_eq!(cursor.leaf().element(within as usize), self.elements[rank]);
            if cursor.retreat() {
                let last = cursor.leaf().element(cursor.leaf().len() - 1);
                assert_eq!(last, self.elements[rank - within as usize - 1]);
            }
        }
    }
}

impl<S> Drop for Model<S> {
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

fn step_count() -> usize {
    let steps = std::env::var("TIDEMILL_TREE_STEPS");
    steps.map_or(6_000, |steps| steps.parse().expect("TIDEMILL_TREE_STEPS is a number"))
}

/// Element with a number and a tie of a few shapes: short ones, ones that differ late, long ones.
fn tied_element(random: &mut Random, spread: usize) -> Vec<u8> {
    let key = [0, 1, 7, u64::MAX, random.below(spread) as u64][random.below(5)];
    let mut element = key.to_be_bytes().to_vec();
    let number = random.below(spread);
    match random.below(8) {
        0 => element.extend((0..random.below(4)).map(|_| b'a' + random.below(2) as u8)),
        1 => element.extend_from_slice(format!("{:0>40}", number).as_bytes()),
        2 => element.extend_from_slice(format!("{:0>300}{}", "", number % 20).as_bytes()),
        3 if random.below(20) == 0 => {
            element.extend_from_slice(format!("{:0>2000}", number % 30).as_bytes());
        }
        _ => element.extend_from_slice(number.to_string().as_bytes()),
    }
    element
}

/// Elements of a run: any, sorted or not, or neighbours, with some new ones between them.
fn any_run(
    random: &mut Random,
    known: &Elements,
    element: impl Fn(&mut Random) -> Vec<u8>,
) -> Elements {
    let longest = [4, 30, 400][random.below(3)];
    let len = random.below(longest);
    let start = random.below(known.len() + 1);
    let neighbours = known[start..].iter().take(len).cloned();
    let mut run: Elements = match random.below(4) {
        0 => neighbours.collect(),
        1 => neighbours.filter(|_| random.below(4) > 0).collect(),
        2 => neighbours.chain((0..len / 4).map(|_| element(random))).collect(),
        _ => (0..len).map(|_| element(random)).collect(),
    };
    if random.below(6) > 0 {
        run.sort_unstable_by(|left, right| place_of(left).cmp(&place_of(right)));
    }
    run
}

fn run_model<S: Sorted>(special: u8, seed: u64, element: impl Fn(&mut Random, usize) -> Vec<u8>) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut model = Model::<S>::new(special);
    let mut spread = 300;
    for step in 0..step_count() {
        let size = model.elements.len();
        let mut next_spread = spread;
        let element = |random: &mut Random| element(random, spread);
        let known = |random: &mut Random, model: &Model<S>| match model.elements.len() {
            0 => element(random),
            len => model.elements[random.below(len)].clone(),
        };
        match random.below(1000) {
            0 => model.build(Vec::new()),
            1..4 => {
                let mut elements: Elements =
                    (0..random.below(3000)).map(|_| element(&mut random)).collect();
                elements.sort_unstable_by(|left, right| place_of(left).cmp(&place_of(right)));
                elements.dedup();
                model.build(elements);
                next_spread = [20, 300, 5000][random.below(3)];
            }
            4..20 => {
                let start = random.below(size + 2);
                let count = [3, 60, size][random.below(3)];
                model.cut(start, start + random.below(count + 1));
            }
            20..300 => {
                let element = known(&mut random, &model);
                model.remove(&element);
            }
            300..400 => {
                let element = known(&mut random, &model);
                model.put(&element);
            }
            400..450 => model.remove(&element(&mut random)),
            450..500 => {
                let run = any_run(&mut random, &model.elements, element);
                model.put_run(&run);
            }
            500..550 => {
                let run = any_run(&mut random, &model.elements, element);
                model.remove_run(&run);
            }
            _ => model.put(&element(&mut random)),
        }
        model.check();
        let probe = element(&mut random);
        model.check_search(&probe);
        let probe = known(&mut random, &model);
        if step % 8 == 0 && !model.elements.is_empty() && model.index_of(&probe).is_ok() {
            model.check_search(&probe);
        }
        spread = next_spread;
    }
}

#[test]
fn a_tree_with_ties_equals_a_vector_after_any_edits() {
    for seed in [1, 2, 3] {
        run_model::<Tied>(0, seed, tied_element);
    }
}

#[test]
fn a_tree_of_numbers_of_one_stride_equals_a_vector_after_any_edits() {
    let number = |random: &mut Random, spread: usize| {
        ((random.below(10 * spread) as u64) << [0, 40][random.below(2)]).to_be_bytes().to_vec()
    };
    for seed in [4, 5] {
        run_model::<Plain>(Stride::Eight.flags(), seed, number);
        run_model::<Plain>(0, seed, number);
    }
}

/// Elements of one number that are inserted in a given order, then removed by ranges.
fn check_equal_numbers(count: usize, name: impl Fn(usize) -> String) {
    let mut model = Model::<Tied>::new(0);
    let element = |index: usize| [&7_u64.to_be_bytes(), name(index).as_bytes()].concat();
    // A stride without a common divisor visits every index, in an order that jumps.
    let stride = 618_033;
    let numbers: Vec<usize> = (0..count).map(|step| step * stride % count).collect();
    for batch in numbers.chunks(1000) {
        model.edit(|arena, root| {
            for &number in batch {
                let element = element(number);
                assert!(sorted::put::<Tied>(arena, root, 0, place_of(&element), &[&element]));
            }
        });
    }
    model.elements = (0..count).map(element).collect();
    model.elements.sort_unstable();
    model.check();
    for number in [0, 1, count / 2, count - 1] {
        model.check_search(&element(number));
    }
    let root = model.root.expect("there are elements").link();
    assert!(root.header().level < 5, "inner nodes keep their fan-out");
    while !model.elements.is_empty() {
        let size = model.elements.len();
        model.cut(size / 3, size / 3 + size / 2 + 1);
        model.check();
    }
}

#[test]
fn a_million_equal_numbers_are_parted_by_their_ties() {
    check_equal_numbers(1_000_000, |number| format!("member:{number}"));
}

#[test]
fn a_million_ties_that_differ_late_are_found_without_being_stored() {
    check_equal_numbers(1_000_000, |number| format!("{:064}{number:06}", 0));
}

#[test]
fn a_bound_is_found_after_its_element_is_gone() {
    // Long ties: the bounds are the first elements below, which are then removed one by one.
    let mut model = Model::<Tied>::new(0);
    let element = |number: u64, tie: usize| {
        [&number.to_be_bytes()[..], format!("{:0>200}{tie:04}", "").as_bytes()].concat()
    };
    for number in 1..3 {
        (0..400).for_each(|tie| model.put(&element(number, 2 * tie)));
    }
    model.check();
    for round in 0..300 {
        let removed = model.elements[round % model.elements.len()].clone();
        model.remove(&removed);
        model.put(&element(1 + round as u64 % 2, 2 * (round * 7 % 400) + 1));
        model.check();
        model.check_search(&removed);
    }
}

#[test]
fn a_cut_reads_and_replaces_two_paths() {
    let mut model = Model::<Tied>::new(0);
    let elements = (0..200_000_u64).map(|number| number.to_be_bytes().to_vec()).collect();
    model.build(elements);
    let mut arena = Arena::from(model.root);
    let root = model.root.map(Root::link).expect("the tree has elements");
    let rest = cut::<Tied>(&mut arena, root, 100, 199_900).expect("some are left");
    assert_eq!(sums::<Tied>(rest.node()).measure, 200);
    assert!(arena.replaced_count() < 200, "whole subtrees are taken out as one");
}

#[test]
fn a_leaf_of_one_stride_has_no_table() {
    let heap = Heap::new();
    let mut arena = Arena::default();
    let mut writer = LeafWriter::new(&mut arena, Stride::Two.flags(), 200, 100);
    (0..100_u16).for_each(|number| writer.push(&[&number.to_le_bytes()]));
    let mut leaf = writer.finish();
    // Past its room, the leaf becomes another node; within, it is changed in place.
    for number in 100..504_u16 {
        let element = number.to_le_bytes();
        let at = leaf.node().len();
        let parts: [&[u8]; 1] = [&element];
        let plan = LeafPlan { leaf: leaf.node(), at, removed: 0, inserted: Some(&parts) };
        assert!(plan.fits());
        leaf = plan.splice(&mut arena);
    }
    assert_eq!(leaf.header().capacity as usize, NODE_BYTES_MAX, "504 elements fill a leaf");
    let plan = LeafPlan { leaf: leaf.node(), at: 0, removed: 0, inserted: None };
    let half = plan.build(&mut arena, |index| index % 2 == 1);
    assert_eq!(half.node().len(), 252);
    assert!(
        (0..252).all(|index| half.node().element(index) == (2 * index as u16 + 1).to_le_bytes())
    );
    assert!((0..504).all(|index| leaf.node().element(index) == (index as u16).to_le_bytes()));
    let ends: Vec<usize> = leaf.node().ends().collect();
    assert_eq!(ends, (1..=504).map(|index| 2 * index).collect::<Vec<_>>());
    drop(arena);
    assert_eq!(heap.live_bytes(), 0);
}
