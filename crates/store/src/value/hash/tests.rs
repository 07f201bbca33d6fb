//! Fields whose hashes collide, which a test could not find by searching.

use std::collections::HashMap;

use super::super::named::tests::KEY_MASK;
use super::*;

#[test]
fn fields_with_equal_hashes_share_a_leaf_of_any_size() {
    for mask in [0, 1, 7] {
        KEY_MASK.set(mask);
        let (heap, seed) = (Heap::new(), Seed::new(1, 2));
        let mut root = None;
        let mut model = HashMap::new();
        for number in 0..600_usize {
            let field = format!("field-{}", number * 7919 % 400).into_bytes();
            // Some values make a leaf longer than narrow starts can express.
            let value = vec![number as u8; if number % 100 == 3 { 70_000 } else { number % 40 }];
            // SAFETY: the root is the current version, and this is the only editor.
            let mut edit = unsafe { HashEdit::new(root, &seed, &heap) };
            if number % 5 == 4 {
                assert_eq!(edit.remove(&field), model.remove(&field).is_some());
            } else {
                assert_eq!(edit.set(&field, &value, None), model.insert(field, value).is_none());
            }
            let built = edit.finish();
            root = built.root();
            // SAFETY: the test knows the new root only.
            unsafe { built.retire_replaced() };
            // SAFETY: nothing else reads.
            unsafe { heap.retired().free_all() };
            check(root, &seed, &model);
        }
        // SAFETY: the root is not used any more.
        root.into_iter().for_each(|root| unsafe { root.retire(&heap) });
        assert_eq!(heap.live_bytes(), 0);
        // SAFETY: nothing else reads.
        unsafe { heap.retired().free_all() };
    }
    KEY_MASK.set(u64::MAX);
}

#[test]
fn a_filled_hash_tells_fields_with_equal_hashes_apart() {
    for mask in [0, 1, 7] {
        KEY_MASK.set(mask);
        let (heap, seed) = (Heap::new(), Seed::new(1, 2));
        let fields: Vec<_> =
            (0..400).map(|number| format!("field-{number}").into_bytes()).collect();
        let mut gathered = GatheredFields::default();
        let entry = |field| Entry { field, value: b"value", expires_at_ms: None };
        fields.iter().for_each(|field| gathered.push(entry(field)));
        let mut edit = HashEdit::create(&seed, &heap);
        let mut twice = gathered.clone();
        twice.push(entry(&fields[7]));
        twice.push(entry(&fields[3]));
        assert_eq!(edit.fill(&twice), Err(Repeated(400)));
        edit.fill(&gathered).expect("each field is there once");
        let model = fields.into_iter().map(|field| (field, b"value".to_vec())).collect();
        let built = edit.finish();
        check(built.root(), &seed, &model);
    }
    KEY_MASK.set(u64::MAX);
}

fn check(root: Option<Root>, seed: &Seed, model: &HashMap<Vec<u8>, Vec<u8>>) {
    let Some(root) = root else { return assert!(model.is_empty()) };
    // SAFETY: nothing is freed while the view is in use.
    let section = unsafe { Section::assume() };
    // SAFETY: as above.
    let view = unsafe { Hash::from_root(root, seed, section) };
    view.check();
    assert_eq!(view.len(), model.len() as u64);
    for (field, value) in model {
        assert_eq!(view.get(field).map(|found| found.value), Some(value.as_slice()));
    }
}

#[test]
fn prefixes_of_any_length_are_read_back() {
    for length in [0, 1, 63, 64, 127, 128, 8191, 8192, 8193, 2_000_000] {
        for expires_at_ms in [None, Some(0), Some(NEVER - 1)] {
            let field = vec![b'f'; length];
            let element = [prefix(&field, expires_at_ms).as_slice(), &field, b"value"].concat();
            let value: &[u8] = b"value";
            assert_eq!(decode(&element), Entry { field: &field, value, expires_at_ms });
            assert!(is_of(&element, &field));
            assert!(!is_of(&element, &[field.as_slice(), b"f"].concat()));
        }
    }
}
