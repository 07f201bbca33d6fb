//! Sets against a model, step by step.
#![allow(unsafe_code)]

use std::collections::BTreeSet;

use crate::tree_common::{Random, free_retired, section};
use tidemill_store::hash::Seed;
use tidemill_store::value::Repeated;
use tidemill_store::value::set::{GatheredMembers, KeyedMember, Member, Set, SetEdit};
use tidemill_store::{Heap, Root};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Owned {
    Integer(i64),
    String(Vec<u8>),
}

impl Owned {
    fn of(member: Member<'_>) -> Owned {
        match member {
            Member::Integer(value) => Owned::Integer(value),
            Member::String(text) => Owned::String(text.to_vec()),
        }
    }

    fn member(&self) -> Member<'_> {
        match self {
            Owned::Integer(value) => Member::Integer(*value),
            Owned::String(text) => Member::String(text),
        }
    }
}

struct Tested {
    heap: Heap,
    seed: Seed,
    root: Option<Root>,
    members: BTreeSet<Owned>,
}

impl Tested {
    fn new(seed: u64) -> Tested {
        let (heap, seed) = (Heap::new(), Seed::new(seed, 7));
        Tested { heap, seed, root: None, members: BTreeSet::new() }
    }

    fn edit(&mut self, change: impl FnOnce(&mut SetEdit<'_>, &mut BTreeSet<Owned>)) {
        // SAFETY: the root is the current version, and this is the only editor.
        let mut edit = unsafe { SetEdit::new(self.root, &self.seed, &self.heap) };
        change(&mut edit, &mut self.members);
        assert_eq!(edit.len(), self.members.len() as u64);
        let built = edit.finish();
        self.root = built.root();
        // SAFETY: the new root takes the place of the old one.
        unsafe { built.retire_replaced() };
        // SAFETY: no reader is left.
        unsafe { free_retired(&self.heap) };
    }

    fn set(&self) -> Option<Set<'_>> {
        // SAFETY: the root is live as long as `self` is borrowed.
        self.root.map(|root| unsafe { Set::from_root(root, &self.seed, section(self)) })
    }

    fn listed(&self) -> Vec<Owned> {
        self.set().iter().flat_map(Set::iter).map(Owned::of).collect()
    }

    fn check(&self) {
        let Some(set) = self.set() else {
            assert!(self.members.is_empty());
            assert_eq!(self.heap.live_bytes(), 0);
            return;
        };
        set.check();
        assert_eq!(self.heap.live_bytes() as u64, set.bytes());
        assert_eq!(set.len(), self.members.len() as u64);
        assert_eq!(self.listed().into_iter().collect::<BTreeSet<_>>(), self.members);
    }

    fn check_reads(&self, random: &mut Random) {
        let Some(set) = self.set() else { return };
        for member in &self.members {
            assert!(set.contains(member.member()));
        }
        for _ in 0..50 {
            let member = member(random, 5000);
            assert_eq!(set.contains(member.member()), self.members.contains(&member));
        }
        for (index, member) in set.iter().enumerate() {
            assert_eq!(set.nth(index as u64), Some(member));
        }
        assert_eq!(set.nth(set.len()), None);
        let from = random.below(self.members.len()) as u64;
        assert!(set.iter_from(from).eq(set.iter().skip(from as usize)));
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

fn integer(random: &mut Random, bound: usize) -> Owned {
    let number = random.below(bound) as i64;
    Owned::Integer(match random.below(4) {
        0 => number,
        1 => -number,
        2 => number << random.below(50),
        _ => i64::MAX - number,
    })
}

fn member(random: &mut Random, bound: usize) -> Owned {
    if random.below(2) == 0 {
        return integer(random, bound);
    }
    let number = random.below(bound);
    let mut text = format!("member-{number}").into_bytes();
    if number.is_multiple_of(97) {
        text.resize(100 + number % 1500, b'x');
    }
    Owned::String(text)
}

fn random_change(edit: &mut SetEdit<'_>, members: &mut BTreeSet<Owned>, member: Owned, adds: bool) {
    if adds {
        assert_eq!(edit.insert(member.member()), members.insert(member));
    } else {
        assert_eq!(edit.remove(member.member()), members.remove(&member));
    }
}

#[test]
fn a_set_equals_a_set_after_any_edits() {
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        let bound = [6, 40, 300, 3000][random.below(4)];
        // Of integers alone, of both, or of integers with strings that come and go.
        let string_share = [0, 50, 3][random.below(3)];
        for step in 0..100 {
            let additions = if step < 60 { 8 } else { 3 };
            let changes = 1 + random.below(25);
            tested.edit(|edit, members| {
                for _ in 0..changes {
                    let member = match random.below(100) < string_share {
                        true => member(&mut random, bound),
                        false => integer(&mut random, bound),
                    };
                    random_change(edit, members, member, random.below(10) < additions);
                }
            });
            tested.check();
            if step % 10 == 0 {
                tested.check_reads(&mut random);
            }
        }
        let members: Vec<_> = tested.members.iter().cloned().collect();
        for member in members {
            tested.edit(|edit, members| random_change(edit, members, member, false));
            tested.check();
        }
    }
}

#[test]
fn a_set_of_integers_is_in_order_whatever_its_size() {
    for (seed, count) in [(1, 10), (2, 300), (3, 20_000)] {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        tested.edit(|edit, members| {
            for _ in 0..count {
                random_change(edit, members, integer(&mut random, 1 << 20), true);
            }
        });
        tested.check();
        assert!(tested.listed().is_sorted(), "{count} integers");
    }
}

#[test]
fn counted_integers_fill_their_leaves() {
    for step in [1, -1, 1000] {
        let mut tested = Tested::new(5);
        for part in 0..100 {
            tested.edit(|edit, members| {
                for number in part * 1000..(part + 1) * 1000 {
                    random_change(edit, members, Owned::Integer(number * step), true);
                }
            });
        }
        tested.check();
        // Four bytes each.
        let bytes = tested.set().map_or(0, |set| set.bytes());
        assert!(bytes < 100_000 * 9 / 2, "{bytes} bytes for 100,000 integers {step} apart");
    }
}

#[test]
fn a_small_set_of_integers_takes_what_an_intset_takes() {
    for (from, step, bytes_each) in [(0, 1, 2), (-100, 2, 2), (100_000, 37, 4), (1 << 40, 9, 8)] {
        let mut tested = Tested::new(6);
        for number in 0..100 {
            let member = Owned::Integer(from + number * step);
            tested.edit(|edit, members| random_change(edit, members, member, true));
            tested.check();
        }
        let bytes = tested.set().map_or(0, |set| set.bytes());
        // The header, and the rounding to a size class.
        assert!(bytes <= (16 + 100 * bytes_each) * 9 / 8, "{bytes} bytes from {from}");
    }
}

#[test]
fn long_integers_and_strings_join_full_leaves_of_short_ones() {
    let joining = [
        Owned::Integer(i64::MAX),
        Owned::Integer(i64::MIN),
        Owned::Integer(32_768),
        Owned::Integer(-32_769),
        Owned::Integer(1 << 31),
        Owned::String(b"text".to_vec()),
        Owned::String(vec![b'x'; 2000]),
    ];
    for count in [1, 40, 49, 50, 51, 90, 125, 126, 127, 252, 253, 503, 504, 505, 600, 3000] {
        for rotation in 0..joining.len() {
            let mut tested = Tested::new(count as u64);
            let change = |tested: &mut Tested, member: Owned, inserts: bool| {
                tested.edit(|edit, members| random_change(edit, members, member, inserts));
                tested.check();
            };
            tested.edit(|edit, members| {
                for number in 0..count {
                    random_change(edit, members, Owned::Integer(number - count / 2), true);
                }
            });
            let order = || joining.iter().cycle().skip(rotation).take(joining.len());
            order().for_each(|member| change(&mut tested, member.clone(), true));
            order().for_each(|member| change(&mut tested, member.clone(), false));
            for number in 0..count {
                change(&mut tested, Owned::Integer(number - count / 2), false);
                if count > 100 && number > 20 {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_small_set_with_a_string_keeps_the_order_of_arrival() {
    let mut tested = Tested::new(1);
    let text = |text: &str| Owned::String(text.into());
    let arrived = [Owned::Integer(7), Owned::Integer(3), text("d"), Owned::Integer(5), text("a")];
    for member in &arrived {
        tested.edit(|edit, members| random_change(edit, members, member.clone(), true));
    }
    let [seven, three, rest @ ..] = arrived;
    let expected: Vec<_> = [three, seven].into_iter().chain(rest).collect();
    assert_eq!(tested.listed(), expected, "integers are sorted until a string joins them");
}

#[test]
fn a_scan_visits_staying_members_whatever_happens_to_the_rest() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        let kept = [3, 30, 400, 2000][random.below(4)];
        let others = [1, 100, 2000][random.below(3)];
        tested.edit(|edit, members| {
            for number in 0..kept {
                let kept = match number % 2 {
                    0 => Owned::String(format!("kept-{number}").into_bytes()),
                    _ => Owned::Integer(number << 40 | 1 << 39),
                };
                random_change(edit, members, kept, true);
            }
        });
        let is_kept = |member: &Owned| match member {
            Owned::Integer(value) => value % (1 << 40) == 1 << 39,
            Owned::String(text) => text.starts_with(b"kept"),
        };
        let mut missing = tested.members.clone();
        let (mut cursor, mut calls) = (0, 0);
        loop {
            let set = tested.set().expect("something is kept");
            cursor = set.scan(cursor, 1 + random.below(30), |member| {
                missing.remove(&Owned::of(member));
            });
            calls += 1;
            if cursor == 0 {
                break;
            }
            tested.edit(|edit, members| {
                for _ in 0..random.below(200) {
                    let other = member(&mut random, others);
                    if !is_kept(&other) {
                        random_change(edit, members, other, random.below(2) == 0);
                    }
                }
            });
        }
        assert!(missing.is_empty(), "seed {seed}: {missing:?} missed");
        assert!(kept < 100 || calls > 2);
        tested.check();
    }
}

#[test]
fn a_filled_set_equals_its_members_and_can_be_changed() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut tested = Tested::new(seed);
        let count = [1, 2, 50, 400, 3000, 30_000][random.below(6)];
        let string_share = [0, 50, 100, 3][random.below(4)];
        let members: BTreeSet<Owned> = (0..count)
            .map(|_| match random.below(100) < string_share {
                true => member(&mut random, 50_000),
                false => integer(&mut random, 50_000),
            })
            .collect();
        let keyed = |seed: &Seed| -> Vec<_> {
            members.iter().map(|member| KeyedMember::new(member.member(), seed)).collect()
        };
        let mut all = keyed(&tested.seed);
        KeyedMember::sort(&mut all);
        let mut gathered = GatheredMembers::default();
        let mut shuffled: Vec<_> = members.iter().collect();
        (1..shuffled.len()).for_each(|index| shuffled.swap(index, random.below(index + 1)));
        shuffled.iter().for_each(|member| gathered.push(member.member()));
        tested.edit(|edit, model| {
            if seed % 2 == 0 {
                edit.fill(&all);
            } else {
                let mut twice = gathered.clone();
                twice.push(shuffled[random.below(shuffled.len())].member());
                assert_eq!(edit.fill_with(&twice), Err(Repeated(shuffled.len())));
                edit.fill_with(&gathered).expect("each member is there once");
            }
            model.extend(members.iter().cloned());
        });
        tested.check();
        tested.check_reads(&mut random);
        for _ in 0..30 {
            tested.edit(|edit, members| {
                for _ in 0..20 {
                    let member = member(&mut random, 50_000);
                    random_change(edit, members, member, random.below(10) < 5);
                }
            });
            tested.check();
        }
    }
}
