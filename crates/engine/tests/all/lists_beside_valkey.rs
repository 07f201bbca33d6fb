//! Encodings of lists beside a real Valkey, where a list is as long as a listpack may be.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the test says so
//! and passes.

use crate::harness::Server;
use crate::harness::beside::Beside;

/// Asks both, and asserts that they answer the same.
#[track_caller]
fn ask(both: &mut Beside, words: &[&str]) {
    let (ours, theirs) = both.ask(words);
    let about: Vec<&str> = words.iter().map(|word| &word[..word.len().min(20)]).collect();
    assert_eq!(ours, theirs, "{about:?}");
}

/// Compares the encoding of a key behind a command on `list`, whose lengths are about those limits
/// that `list-max-listpack-size` sets; `more` asks further under each setting.
fn compare_at_limits(command: &[&str], key: &str, more: impl Fn(&mut Beside)) {
    let Some(mut both) = Beside::with(Server::new(1, 1_700_000_000_000), 0) else { return };
    for setting in ["-2", "-1", "1", "7", "14", "128"] {
        ask(&mut both, &["CONFIG", "SET", "list-max-listpack-size", setting]);
        for others in [&[][..], &["b", "c", "a longer one", "foo", "-100", "2"]] {
            for length in (4040..4100).chain(8130..8200) {
                let long = "x".repeat(length);
                ask(&mut both, &["DEL", "list"]);
                ask(&mut both, &[&["RPUSH", "list"], others, &[&long]].concat());
                ask(&mut both, &["OBJECT", "ENCODING", "list"]);
                ask(&mut both, command);
                ask(&mut both, &["OBJECT", "ENCODING", key]);
            }
        }
        more(&mut both);
    }
}

#[test]
fn an_element_that_moves_within_its_list_is_judged_as_by_valkey() {
    compare_at_limits(&["LMOVE", "list", "list", "RIGHT", "LEFT"], "list", |_| {});
}

#[test]
fn a_sorted_list_that_is_stored_is_judged_as_by_valkey() {
    let command = ["SORT", "list", "BY", "nosort", "STORE", "sorted"];
    compare_at_limits(&command, "sorted", |both| {
        // Small integers take less than their digits.
        for count in [6, 7, 8, 14, 15, 127, 128, 129, 1360, 1370, 2720, 2730, 2740, 4100] {
            let numbers: Vec<String> = (0..count).map(|n| (1000 + n % 900).to_string()).collect();
            let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
            ask(both, &["DEL", "list"]);
            ask(both, &[&["RPUSH", "list"], &numbers[..]].concat());
            ask(both, &["SORT", "list", "STORE", "sorted"]);
            ask(both, &["OBJECT", "ENCODING", "sorted"]);
        }
    });
}

/// Compares the encoding of a list of equal elements, to which one is added after the other and
/// from which then one is taken after the other, about its limits and about half of them. They are
/// taken where they were added: how Valkey's quicklist has split the others does not matter.
fn compare_along(both: &mut Beside, element: &str, bytes_in_listpack: usize) {
    let limits = [4096, 8192].map(|bytes| bytes / bytes_in_listpack);
    let is_near = |length: usize| limits.iter().any(|limit| length.abs_diff(*limit) < 5);
    let longest = limits[1] + 5;
    ask(both, &["DEL", "list"]);
    for length in 1..longest {
        ask(both, &["RPUSH", "list", element]);
        if is_near(length) {
            ask(both, &["OBJECT", "ENCODING", "list"]);
            ask(both, &["LSET", "list", "0", element]);
            ask(both, &["OBJECT", "ENCODING", "list"]);
        }
    }
    for length in (1..longest - 1).rev() {
        ask(both, &["RPOP", "list"]);
        if is_near(length) {
            ask(both, &["OBJECT", "ENCODING", "list"]);
        }
    }
}

#[test]
fn a_list_that_grows_and_shrinks_is_judged_as_by_valkey() {
    let Some(mut both) = Beside::with(Server::new(1, 1_700_000_000_000), 0) else { return };
    let strings = [20, 59, 63, 64, 125, 126, 300].map(|length| ("x".repeat(length), length));
    for (element, length) in &strings {
        let overhead = 2 + usize::from(*length > 63) + usize::from(*length > 125);
        compare_along(&mut both, element, length + overhead);
    }
    // Integers take less than their digits.
    for (element, bytes) in [("7", 2), ("-1234567890123456789", 10), ("2147483647", 6)] {
        compare_along(&mut both, element, bytes);
    }
}
