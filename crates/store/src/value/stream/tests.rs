//! Streams against a plain model, step by step.
//!
//! `TIDEMILL_TREE_STEPS` sets the number of steps of each model, as for the tree.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::Root;

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

type FieldList = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug, PartialEq)]
struct PlainGroup {
    last_id: StreamId,
    entries_read: Option<u64>,
    consumers: BTreeMap<Vec<u8>, (i64, i64)>,
    /// Consumer, time and count by id.
    pending: BTreeMap<StreamId, (Vec<u8>, i64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    entries: BTreeMap<StreamId, FieldList>,
    /// Ids of entries that start a node, and entries that were added to the last one.
    node_starts: BTreeSet<StreamId>,
    in_last_node: u64,
    state: StreamState,
    groups: BTreeMap<Vec<u8>, PlainGroup>,
}

impl Plain {
    fn push(&mut self, id: StreamId, fields: FieldList, node_entries_max: u64) {
        if self.entries.is_empty() || self.in_last_node >= node_entries_max {
            self.in_last_node = 0;
            self.node_starts.insert(id);
        }
        self.in_last_node += 1;
        self.entries.insert(id, fields);
        self.state.last_id = id;
        self.state.entries_added += 1;
    }

    fn remove(&mut self, id: StreamId) -> bool {
        if self.entries.remove(&id).is_none() {
            return false;
        }
        if self.node_starts.remove(&id)
            && let Some((&behind, _)) = self.entries.range(id..).next()
        {
            self.node_starts.insert(behind);
        }
        true
    }

    fn nodes_within(&self, count_max: u64) -> u64 {
        let is_end = |&count: &usize| {
            let behind = self.entries.keys().nth(count);
            behind.is_none_or(|id| self.node_starts.contains(id))
        };
        let most = self.entries.len().min(count_max as usize);
        (0..=most).rev().find(is_end).unwrap_or(0) as u64
    }
}

struct Model {
    heap: Heap,
    root: Option<Root>,
    plain: Plain,
}

impl Model {
    fn new() -> Model {
        Model { heap: Heap::new(), root: None, plain: Plain::default() }
    }

    fn edit<T>(&mut self, change: impl FnOnce(&mut StreamEdit<'_>, &mut Plain) -> T) -> T {
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { StreamEdit::new(self.root, &self.heap) };
        let outcome = change(&mut edit, &mut self.plain);
        let built = edit.finish();
        self.root = built.root();
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
        // SAFETY: nothing reads.
        unsafe { self.heap.retired().free_all() };
        outcome
    }

    fn view(&self) -> Stream<'_> {
        // SAFETY: nothing is freed while the model is borrowed.
        let section = unsafe { Section::assume() };
        let root = self.root.expect("the stream was made");
        // SAFETY: the root is live as long as `self` is borrowed.
        unsafe { Stream::from_root(root, section) }
    }

    fn check(&self) {
        let view = self.view();
        view.check();
        assert_eq!(view.bytes(), self.heap.live_bytes() as u64);
        assert_eq!(view.state(), self.plain.state);
        assert_eq!(view.len(), self.plain.entries.len() as u64);
        assert_eq!(plain_groups(view), self.plain.groups);
    }

    fn check_entries(&self, random: &mut Random) {
        let (view, plain) = (self.view(), &self.plain);
        assert_eq!(
            plain_entries(view.iter_from(0)),
            plain.entries.clone().into_iter().collect::<Vec<_>>()
        );
        let starts = view.iter_from(0).filter(|entry| entry.starts_node).map(|entry| entry.id);
        assert!(starts.eq(plain.node_starts.iter().copied()));
        let ids: Vec<StreamId> = plain.entries.keys().copied().collect();
        let rank = random.below(ids.len() + 2);
        let from: Vec<StreamId> = view.iter_from(rank as u64).map(|entry| entry.id).collect();
        assert_eq!(from, ids[rank.min(ids.len())..]);
        let back: Vec<StreamId> = view.iter_back_from(rank as u64).map(|entry| entry.id).collect();
        assert!(back.iter().eq(ids[..rank.min(ids.len())].iter().rev()));
        for _ in 0..20 {
            let id = any_id(&plain.entries, random);
            let below = ids.iter().filter(|&&other| other < id).count() as u64;
            let present = plain.entries.contains_key(&id);
            assert_eq!(view.count_below(id), below);
            assert_eq!(view.count_up_to(id), below + u64::from(present));
            assert_eq!(view.contains(id), present);
            let entry = view.get(id).map(|entry| plain_fields(&entry));
            assert_eq!(entry.as_ref(), plain.entries.get(&id));
        }
        assert_eq!(view.first_id(), ids.first().copied().unwrap_or_default());
        assert_eq!(view.last_entry_id(), ids.last().copied());
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

fn text_of(value: FieldValue<'_>) -> Vec<u8> {
    match value {
        FieldValue::Integer(value) => value.to_string().into_bytes(),
        FieldValue::Text(text) => text.to_vec(),
    }
}

fn plain_fields(entry: &StreamEntry<'_>) -> FieldList {
    let fields = entry.fields().map(|(name, value)| {
        assert_eq!(value.text_bytes(), text_of(value).len());
        (name.to_vec(), text_of(value))
    });
    fields.collect()
}

fn plain_entries<'g>(entries: impl Iterator<Item = StreamEntry<'g>>) -> Vec<(StreamId, FieldList)> {
    entries.map(|entry| (entry.id, plain_fields(&entry))).collect()
}

fn plain_groups(view: Stream<'_>) -> BTreeMap<Vec<u8>, PlainGroup> {
    let groups = view.groups().map(|(name, group)| {
        assert_eq!(view.group(name), Some(group));
        let consumers = view.consumers(group.number);
        let pending = view.pending_from(group.number, StreamId::MIN).map(|(id, pending)| {
            let consumer = view.consumer_name(pending.consumer).to_vec();
            (id, (consumer, pending.delivered_at_ms, pending.delivery_count))
        });
        let pending: BTreeMap<_, _> = pending.collect();
        assert_eq!(view.pending_count(group.number), pending.len() as u64);
        assert_eq!(view.last_pending(group.number), pending.keys().last().copied());
        let plain = PlainGroup {
            last_id: group.last_id,
            entries_read: group.entries_read,
            consumers: consumers
                .map(|(name, consumer)| {
                    (name.to_vec(), (consumer.seen_at_ms, consumer.active_at_ms))
                })
                .collect(),
            pending,
        };
        (name.to_vec(), plain)
    });
    groups.collect()
}

/// Id of an entry, or near one.
fn any_id(entries: &BTreeMap<StreamId, FieldList>, random: &mut Random) -> StreamId {
    let nth = entries.keys().nth(random.below(entries.len())).copied().unwrap_or_default();
    match random.below(12) {
        0 => StreamId::MIN,
        1 => StreamId::MAX,
        2 => nth.next().unwrap_or(nth),
        3 => nth.previous().unwrap_or(nth),
        _ => nth,
    }
}

/// Ids that follow one, mostly in order; more than one run of them at times.
fn ids_near(id: StreamId, random: &mut Random) -> Vec<StreamId> {
    let step = 1 + random.below(3) as u64;
    let count = [3, 12, 90][random.below(3)];
    let seq = |number: u64| id.seq.saturating_add(number * step);
    let mut ids: Vec<_> = (0..count).map(|number| StreamId { seq: seq(number), ..id }).collect();
    if random.below(4) == 0 {
        ids.reverse();
    }
    ids
}

fn any_fields(random: &mut Random) -> FieldList {
    let kind = random.below(40);
    let value = |random: &mut Random| match random.below(30) {
        0 => vec![b'v'; 1500],
        1 => vec![b'v'; 250],
        2..12 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
        _ => format!("value-{}", random.below(1000)).into_bytes(),
    };
    let names: Vec<Vec<u8>> = match kind {
        0 => vec![format!("rare-{}", random.below(1000)).into_bytes()],
        1 => (0..random.below(40)).map(|name| format!("{name:0>30}").into_bytes()).collect(),
        2..10 => vec![b"other".to_vec(); 3],
        _ => vec![b"temperature".to_vec(), b"place".to_vec()],
    };
    names.into_iter().map(|name| (name, value(random))).collect()
}

fn push(edit: &mut StreamEdit<'_>, id: StreamId, fields: &FieldList, entries: u64) {
    let fields = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
    edit.push(id, fields, NodeLimits { bytes: 0, entries });
}

const NODE_ENTRIES_MAX: u64 = 7;

fn change_entries(edit: &mut StreamEdit<'_>, plain: &mut Plain, random: &mut Random) {
    match random.below(20) {
        0..3 => {
            let id = any_id(&plain.entries, random);
            assert_eq!(edit.remove(id), plain.remove(id));
        }
        4..6 if random.below(2) == 0 => {
            let most = [3, 40, plain.entries.len() + 20][random.below(3)];
            let count_max = random.below(most) as u64;
            assert_eq!(edit.nodes_within(count_max), plain.nodes_within(count_max));
        }
        3 => {
            let most = [3, 40, plain.entries.len() + 2][random.below(3)];
            let mut count = random.below(most);
            if random.below(2) == 0 {
                count = edit.nodes_within(count as u64) as usize;
            }
            edit.remove_first(count as u64);
            for id in plain.entries.keys().take(count).copied().collect::<Vec<_>>() {
                plain.remove(id);
            }
        }
        4 if plain.entries.is_empty() => {
            // Ids may begin anew.
            let last_id = StreamId { ms: random.next() >> random.below(64), seq: 0 };
            plain.state = StreamState { last_id, ..plain.state };
            edit.set_state(plain.state);
        }
        _ => {
            let last = plain.state.last_id;
            let id = match random.below(5) {
                0 => {
                    StreamId { ms: last.ms.saturating_add(1 + random.below(90_000) as u64), seq: 0 }
                }
                1 => StreamId { seq: last.seq.saturating_add(random.below(700) as u64), ..last },
                _ => last,
            };
            let Some(id) = Some(id).filter(|&id| id > last).or(last.next()) else { return };
            let fields = any_fields(random);
            push(edit, id, &fields, NODE_ENTRIES_MAX);
            plain.push(id, fields, NODE_ENTRIES_MAX);
        }
    }
}

fn any_name(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => vec![b'n'; 900],
        number => format!("name-{number}").into_bytes(),
    }
}

fn change_groups(edit: &mut StreamEdit<'_>, plain: &mut Plain, random: &mut Random) {
    let name = any_name(random);
    let id = any_id(&plain.entries, random);
    match random.below(12) {
        0 => {
            let entries_read = [None, Some(random.next() >> 30)][random.below(2)];
            let group = edit.create_group(&name, id, entries_read);
            assert_eq!(group.is_none(), plain.groups.contains_key(&name));
            plain.groups.entry(name).or_insert(PlainGroup {
                last_id: id,
                entries_read,
                consumers: BTreeMap::new(),
                pending: BTreeMap::new(),
            });
        }
        1 if random.below(8) == 0 => {
            let view = edit.view();
            let numbers = |group: Group| view.consumers(group.number).map(|(_, one)| one.number);
            let consumers: Vec<u64> = view.group(&name).into_iter().flat_map(numbers).collect();
            let is_there = plain.groups.remove(&name).is_some();
            assert_eq!(edit.remove_group(&name, &consumers), is_there);
        }
        _ => {
            let nth = random.below(plain.groups.len());
            if let Some((name, group)) = plain.groups.iter_mut().nth(nth) {
                change_group(edit, name, group, id, random);
            }
        }
    }
}

fn change_group(
    edit: &mut StreamEdit<'_>,
    name: &[u8],
    plain: &mut PlainGroup,
    id: StreamId,
    random: &mut Random,
) {
    let consumer = any_name(random);
    let group = edit.view().group(name).expect("the group is there");
    let known = edit.view().consumer(group.number, &consumer);
    assert_eq!(known.is_some(), plain.consumers.contains_key(&consumer));
    let at_ms = random.next() as i64 >> random.below(64);
    match random.below(12) {
        0 => {
            (plain.last_id, plain.entries_read) = (id, Some(3));
            edit.set_group(name, Group { last_id: id, entries_read: Some(3), ..group });
        }
        1 => {
            let count = edit.remove_consumer(group.number, &consumer);
            assert_eq!(count.is_some(), plain.consumers.remove(&consumer).is_some());
            let before = plain.pending.len();
            plain.pending.retain(|_, (of, ..)| *of != consumer);
            assert_eq!(count.unwrap_or(0), (before - plain.pending.len()) as u64);
        }
        4 => {
            let ids = ids_near(id, random);
            let removed = edit.remove_all_pending(group.number, &ids);
            let known = ids.iter().filter(|&id| plain.pending.remove(id).is_some());
            assert_eq!(removed, known.count());
        }
        2..4 => {
            let removed = edit.remove_pending(group.number, id);
            assert_eq!(removed.is_some(), plain.pending.remove(&id).is_some());
        }
        _ => {
            let times = (at_ms, [-1, at_ms, 5][random.below(3)]);
            let number = match known {
                Some(known) => {
                    let (seen_at_ms, active_at_ms) = times;
                    edit.set_consumer(&consumer, Consumer { seen_at_ms, active_at_ms, ..known });
                    known.number
                }
                None => edit.create_consumer(group.number, &consumer, times.0, times.1).number,
            };
            plain.consumers.insert(consumer.clone(), times);
            let count = random.next() >> random.below(64);
            let pending =
                Pending { consumer: number, delivered_at_ms: at_ms, delivery_count: count };
            let ids = match random.below(3) {
                0 => ids_near(id, random),
                _ => vec![id],
            };
            match ids.as_slice() {
                [id] => edit.set_pending(group.number, *id, pending),
                ids => edit.set_all_pending(group.number, ids.iter().map(|&id| (id, pending))),
            }
            for id in ids {
                assert_eq!(edit.view().pending(group.number, id), Some(pending));
                plain.pending.insert(id, (consumer.clone(), at_ms, count));
            }
        }
    }
}

fn step_count() -> usize {
    let steps = std::env::var("TIDEMILL_TREE_STEPS");
    steps.map_or(4_000, |steps| steps.parse().expect("TIDEMILL_TREE_STEPS is a number"))
}

#[test]
fn a_stream_equals_a_plain_model_after_any_edits() {
    for seed in [1, 2] {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut model = Model::new();
        for step in 0..step_count() {
            let changes = if random.below(20) == 0 { random.below(150) } else { 1 };
            model.edit(|edit, plain| {
                for _ in 0..changes {
                    match random.below(3) {
                        0 => change_groups(edit, plain, &mut random),
                        _ => change_entries(edit, plain, &mut random),
                    }
                }
            });
            model.check();
            if step % 50 == 0 {
                model.check_entries(&mut random);
            }
        }
    }
}

#[test]
fn an_edit_that_is_dropped_leaves_no_trace() {
    let mut random = Random(3);
    let mut model = Model::new();
    model.edit(|edit, plain| {
        (0..3000).for_each(|_| change_entries(edit, plain, &mut random));
        (0..3000).for_each(|_| change_groups(edit, plain, &mut random));
    });
    model.check();
    let live_bytes = model.heap.live_bytes();
    let mut plain = model.plain.clone();
    // SAFETY: the root is the current version, and this is the only editor.
    let mut edit = unsafe { StreamEdit::new(model.root, &model.heap) };
    (0..500).for_each(|_| change_entries(&mut edit, &mut plain, &mut random));
    (0..500).for_each(|_| change_groups(&mut edit, &mut plain, &mut random));
    drop(edit);
    assert_eq!(model.heap.live_bytes(), live_bytes);
    model.check();
}

#[test]
fn a_copy_shares_nothing_and_both_are_freed() {
    let mut random = Random(4);
    let mut model = Model::new();
    model.edit(|edit, plain| {
        (0..3000).for_each(|_| change_entries(edit, plain, &mut random));
        (0..3000).for_each(|_| change_groups(edit, plain, &mut random));
    });
    // SAFETY: the tree is live and nothing edits it.
    let copied = unsafe { model.root.expect("it was made").copy(&model.heap) };
    let mut copy = Model { heap: Heap::new(), root: copied.root(), plain: model.plain.clone() };
    // SAFETY: the copy is known here only.
    unsafe { copied.retire_replaced() };
    let (root, heap) = (copy.root.take().expect("a copy has a root"), &model.heap);
    // SAFETY: nothing is freed here.
    let section = unsafe { Section::assume() };
    // SAFETY: the copy is live.
    let view = unsafe { Stream::from_root(root, section) };
    view.check();
    assert_eq!(plain_groups(view), model.plain.groups);
    assert_eq!(plain_entries(view.iter_from(0)).len(), model.plain.entries.len());
    // SAFETY: nothing else knows the copy.
    unsafe { root.retire(heap) };
    // SAFETY: nothing reads.
    unsafe { heap.retired().free_all() };
    model.check();
}

const NODES: u64 = 300;
const NODE_ENTRIES: u64 = 20;
const NAME_BYTES: usize = 5000;

fn shared_id(node: u64, entry: u64) -> StreamId {
    StreamId { ms: 1 + node, seq: entry }
}

fn shared_fields(node: u64, value: u64) -> FieldList {
    vec![(format!("{node:0>NAME_BYTES$}").into_bytes(), value.to_string().into_bytes())]
}

/// Nodes with names that no other has, and that are longer than those that become a searched
/// schema; each fifth entry has names of its own.
fn with_shared_names() -> Model {
    let mut model = Model::new();
    for node in 0..NODES {
        model.edit(|edit, plain| {
            edit.end_node();
            let mut shared = SharedNames::default();
            for entry in 0..NODE_ENTRIES {
                let mut fields = shared_fields(node, entry);
                if entry % 5 == 4 {
                    fields[0].0 = format!("own-{}", node % 100).into_bytes();
                    push(edit, shared_id(node, entry), &fields, 0);
                } else {
                    let names = fields.iter().map(|(name, _)| name.as_slice());
                    let names = names.filter(|_| {
                        assert_eq!(entry, 0, "names that are known are not read");
                        true
                    });
                    let values = fields.iter().map(|(_, value)| value.as_slice());
                    edit.push_shared(shared_id(node, entry), names, values, &mut shared);
                }
                plain.push(shared_id(node, entry), fields, NODE_ENTRIES);
            }
        });
    }
    model
}

#[test]
fn names_that_a_node_shares_are_stored_once_however_many_there_are() {
    let (mut random, mut model) = (Random(5), with_shared_names());
    model.check();
    model.check_entries(&mut random);
    let bytes = model.view().bytes();
    let planned = NODES * (NAME_BYTES as u64 + NODE_ENTRIES * 30);
    assert!(bytes < planned * 5 / 4, "{bytes} of {planned}");
    // Entries behind those that began a node begin it, whatever the number of their schema.
    model.edit(|edit, plain| {
        for node in 0..NODES {
            assert!(edit.remove(shared_id(node, 0)) && plain.remove(shared_id(node, 0)));
        }
    });
    // An entry with the names of the last node shares them with it.
    model.edit(|edit, plain| {
        let fields = shared_fields(NODES - 1, 0);
        push(edit, shared_id(NODES, 0), &fields, 0);
        plain.push(shared_id(NODES, 0), fields, u64::MAX);
    });
    assert!(model.view().bytes() <= bytes, "no names were added");
    model.check();
    model.check_entries(&mut random);
}

#[test]
fn names_that_a_node_shares_go_with_the_last_of_its_entries() {
    let (mut random, mut model) = (Random(7), with_shared_names());
    let bytes = model.view().bytes();
    // Of each odd node, from its front or its end.
    model.edit(|edit, plain| {
        for node in (1..NODES - 1).step_by(2) {
            for step in 0..NODE_ENTRIES {
                let entry = if node % 4 == 1 { step } else { NODE_ENTRIES - 1 - step };
                let id = shared_id(node, entry);
                assert!(edit.remove(id) && plain.remove(id));
            }
        }
    });
    model.check();
    model.check_entries(&mut random);
    assert!(model.view().bytes() < bytes * 5 / 8, "{} of {bytes}", model.view().bytes());
    // Trimming all but the last two nodes, then the last one, then all.
    let mut trim = |model: &mut Model, kept: u64| {
        let count = model.view().len() - kept;
        model.edit(|edit, plain| {
            edit.remove_first(count);
            for _ in 0..count {
                let first = plain.entries.keys().next().copied();
                assert!(first.is_some_and(|first| plain.remove(first)));
            }
        });
        model.check();
        model.check_entries(&mut random);
        model.view().bytes()
    };
    let bytes = [21, 20, 1, 0].map(|kept| trim(&mut model, kept));
    let name_bytes = NAME_BYTES as u64;
    assert!(bytes[0] > 2 * name_bytes && bytes[1] < bytes[0] - name_bytes, "{bytes:?}");
    assert!((name_bytes..2 * name_bytes).contains(&bytes[2]), "{bytes:?}");
    assert!(bytes[3] < bytes[2] - name_bytes, "{bytes:?}");
}

/// A node may go on with other names once those that it shared are gone.
#[test]
fn a_node_goes_on_without_the_names_that_it_shared() {
    let fields: FieldList = vec![(vec![b'n'; 5000], b"v".to_vec())];
    let id = |seq: u64| StreamId { ms: 1, seq };
    let mut model = Model::new();
    for _ in 0..3 {
        model.edit(|edit, plain| {
            edit.end_node();
            let names = fields.iter().map(|(name, _)| name.as_slice());
            let values = fields.iter().map(|(_, value)| value.as_slice());
            let first = id(edit.state().last_id.seq + 1);
            edit.push_shared(first, names, values, &mut SharedNames::default());
            plain.push(first, fields.clone(), 0);
            assert!(edit.remove(first) && plain.remove(first));
            let second = id(first.seq + 1);
            push(edit, second, &fields, 0);
            plain.push(second, fields.clone(), u64::MAX);
        });
        model.check();
    }
    model.check_entries(&mut Random(6));
}

/// Entries `0-N` have ties alone to tell them apart.
#[test]
fn a_million_entries_of_one_millisecond_make_no_large_leaf() {
    let mut model = Model::new();
    let fields = vec![(b"f".to_vec(), b"v".to_vec())];
    for batch in 0..1000 {
        model.edit(|edit, _| {
            for seq in 1..=1000 {
                push(edit, StreamId { ms: 0, seq: 1000 * batch + seq }, &fields, 100);
            }
        });
    }
    model.view().check();
    assert_eq!(model.view().len(), 1_000_000);
    assert_eq!(model.view().count_below(StreamId { ms: 0, seq: 500_001 }), 500_000);
    // Every third is removed, so that leaves are merged too.
    for batch in 0..1000 {
        model.edit(|edit, _| {
            for seq in (1..=1000).step_by(3) {
                assert!(edit.remove(StreamId { ms: 0, seq: 1000 * batch + seq }));
            }
        });
    }
    model.view().check();
}

/// Bytes per entry and per pending entry; see docs/benchmarks/memory.md for those of other types.
/// Valkey 9.1 takes 4,328 bytes for ten entries and 30.9 for each of many.
#[test]
fn a_stream_takes_no_more_memory_than_planned() {
    /// Bytes of the entry of a key of up to 16 bytes.
    const ENTRY_BYTES: u64 = 48;
    const START_MS: u64 = 1_700_000_000_000;
    let id = |number: u64| StreamId { ms: START_MS + number, seq: 0 };
    let filled = |len: u64| {
        let mut model = Model::new();
        for number in 0..len {
            let fields = [&b"field--a"[..], b"field--b"]
                .map(|name| (name.to_vec(), format!("val{number:05}").into_bytes()));
            model.edit(|edit, _| push(edit, id(number), &fields.to_vec(), 100));
        }
        model
    };
    let bytes = |len| filled(len).view().bytes();
    println!("10 entries: {} bytes", bytes(10));
    assert!(bytes(10) + ENTRY_BYTES <= 4328 / 5);
    for len in [1000, 100_000] {
        let per_entry = bytes(len) as f64 / len as f64;
        println!("{len} entries: {per_entry:.1} bytes each");
        assert!(per_entry <= 30.9);
    }
    for consumer_count in [1, 10] {
        let mut model = filled(100_000);
        let before = model.view().bytes();
        let group = model.edit(|edit, _| {
            let group = edit.create_group(b"group", StreamId::MIN, None).expect("it is new");
            let names = (0..consumer_count).map(|number: u64| format!("consumer-{number}"));
            names.for_each(|name| {
                edit.create_consumer(group.number, name.as_bytes(), START_MS as i64, -1);
            });
            group.number
        });
        for first in (0..100_000).step_by(10) {
            model.edit(|edit, _| {
                for number in first..first + 10 {
                    let consumer = group + 1 + number / 10 % consumer_count;
                    let delivered_at_ms = (START_MS + number + 1234) as i64;
                    let pending = Pending { consumer, delivered_at_ms, delivery_count: 1 };
                    edit.set_pending(group, id(number), pending);
                }
            });
        }
        let per_entry = (model.view().bytes() - before) as f64 / 100_000.0;
        println!("pending with {consumer_count} consumers: {per_entry:.1} bytes each");
        assert!(per_entry <= 49.0);
    }
    let mut model = filled(1);
    let before = model.view().bytes();
    model.edit(|edit, _| {
        let group = edit.create_group(b"group", StreamId::MIN, None).expect("it is new");
        for number in 0..1000 {
            let name = format!("consumer-{number}");
            edit.create_consumer(group.number, name.as_bytes(), START_MS as i64, START_MS as i64);
        }
    });
    let per_consumer = (model.view().bytes() - before) as f64 / 1000.0;
    println!("{per_consumer:.1} bytes per consumer");
    assert!(per_consumer <= 188.0 * 0.35);
}
