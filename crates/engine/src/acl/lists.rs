//! Lists that rules lengthen, without repetitions.
//!
//! Requests iterate over these lists, so each is one vector. A rule appends without a look at the
//! others; repetitions are removed when the vector is full, and once after the last rule. That
//! takes n log n time for n rules, and the vector has room for at most twice what is left in it,
//! and one more. A table beside each vector was rejected: users are many, and most have few rules.
//!
//! Knows nothing of rules. To add a list: a function that tidies it, called by [`append`] and by
//! the `settle` of the list's owner.

/// Appends an item. A full list is tidied before it grows.
pub(super) fn append<T>(list: &mut Vec<T>, item: T, tidy: impl FnOnce(&mut Vec<T>)) {
    if list.len() == list.capacity() {
        tidy(list);
        // More than are left can follow, so that each pays for the next tidying of two items.
        list.reserve_exact(list.len() + 1);
    }
    list.push(item);
}

/// Removes items whose key an earlier one has, after `merge` has added them to the first. The order
/// stays.
pub(super) fn merge_equal<T, K: Ord + ?Sized>(
    list: &mut Vec<T>,
    key: impl Fn(&T) -> &K,
    merge: impl Fn(&mut T, &T),
) {
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_unstable_by(|&a, &b| key(&list[a]).cmp(key(&list[b])).then(a.cmp(&b)));
    let mut is_first = vec![true; list.len()];
    let mut first = 0;
    for (index, &place) in order.iter().enumerate() {
        if index == 0 || key(&list[place]) != key(&list[first]) {
            first = place;
            continue;
        }
        let (before, behind) = list.split_at_mut(place);
        merge(&mut before[first], &behind[0]);
        is_first[place] = false;
    }
    let mut is_first = is_first.into_iter();
    list.retain(|_| is_first.next().expect("one for each item"));
}

/// Removes texts that an earlier one repeats. The order stays.
pub(super) fn remove_repeated(texts: &mut Vec<Box<[u8]>>) {
    merge_equal(texts, |text| &**text, |_, _| {});
}

#[cfg(test)]
mod tests {
    use super::{append, merge_equal, remove_repeated};

    fn texts(words: &str) -> Vec<Box<[u8]>> {
        words.split_whitespace().map(|word| word.as_bytes().into()).collect()
    }

    #[test]
    fn repeated_texts_go_and_the_order_stays() {
        for (given, left) in [
            ("", ""),
            ("a", "a"),
            ("b a", "b a"),
            ("a a", "a"),
            ("b a b c a a d b", "b a c d"),
            ("c b a", "c b a"),
        ] {
            let mut list = texts(given);
            remove_repeated(&mut list);
            assert_eq!(list, texts(left), "{given}");
        }
    }

    #[test]
    fn later_items_are_merged_into_the_first_in_their_order() {
        let mut list: Vec<(&str, String)> =
            [("b", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("b", "5")]
                .map(|(key, value)| (key, value.to_owned()))
                .to_vec();
        merge_equal(&mut list, |(key, _)| *key, |(_, first), (_, later)| first.push_str(later));
        assert_eq!(list, [("b", "135".to_owned()), ("a", "24".to_owned())]);
    }

    #[test]
    fn a_list_is_tidied_seldom_and_holds_at_most_twice_what_is_left() {
        for distinct in [1, 2, 3, 4, 5, 1023, 1024, 1025] {
            let mut list: Vec<Box<[u8]>> = Vec::new();
            let mut tidied_items = 0;
            for number in 0..100_000 {
                let text = (number % distinct).to_string().into_bytes().into();
                append(&mut list, text, |list| {
                    tidied_items += list.len();
                    remove_repeated(list);
                });
            }
            assert!(tidied_items <= 200_000, "{distinct}: {tidied_items}");
            assert!(list.capacity() <= 2 * distinct + 1, "{distinct}");
            remove_repeated(&mut list);
            let all: Vec<Box<[u8]>> =
                (0..distinct).map(|number| number.to_string().into_bytes().into()).collect();
            assert_eq!(list, all);
        }
    }
}
