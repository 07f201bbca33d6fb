//! The form of members, and strings whose hashes collide.

use std::collections::BTreeSet;

use super::member::{Encoded, decode};
use super::*;
use crate::hash::Seed;
use crate::heap::Heap;
use crate::value::named::tests::KEY_MASK;

#[test]
fn members_of_any_size_are_read_back() {
    let powers = (0..63).map(|bits| 1_i64 << bits);
    let around = powers.flat_map(|power| [power - 1, power, power + 1]);
    let integers = around.flat_map(|value| [value, -value, !value]).chain([i64::MIN, i64::MAX]);
    for value in integers {
        let element = Encoded::of(Member::Integer(value)).parts().concat();
        assert_eq!(decode(&element), Member::Integer(value));
        let shorter = element.len() - 2;
        let fits =
            |bytes: usize| bytes > 0 && (value << (64 - 8 * bytes)) >> (64 - 8 * bytes) == value;
        assert!(!fits(shorter), "{value} takes no more bytes than it needs");
    }
    for length in [0, 1, 8, 9, 200, 70_000] {
        let string = vec![b'm'; length];
        let element = Encoded::of(Member::String(&string)).parts().concat();
        assert_eq!(decode(&element), Member::String(&string));
    }
}

#[test]
fn strings_with_equal_hashes_share_a_leaf_of_any_size() {
    for mask in [0, 1, 7] {
        KEY_MASK.set(mask);
        let (heap, seed) = (Heap::new(), Seed::new(1, 2));
        let mut edit = SetEdit::create(&seed, &heap);
        let mut model = BTreeSet::new();
        for number in 0..900_usize {
            let text = format!("member-{}", number * 7919 % 400).into_bytes();
            if number % 5 == 4 {
                assert_eq!(edit.remove(Member::String(&text)), model.remove(&text));
            } else {
                assert_eq!(edit.insert(Member::String(&text)), model.insert(text));
            }
            let integer = number as i64 * 31 % 257;
            edit.insert(Member::Integer(integer));
            assert!(edit.view().is_some_and(|set| set.contains(Member::Integer(integer))));
        }
        let view = edit.view().expect("it has members");
        let strings = view.iter().filter_map(|member| match member {
            Member::String(text) => Some(text.to_vec()),
            Member::Integer(_) => None,
        });
        assert_eq!(strings.collect::<BTreeSet<_>>(), model);
        assert_eq!(view.len(), model.len() as u64 + 257);
    }
    KEY_MASK.set(u64::MAX);
}
