//! Encodings of lists beside a real Valkey, where a list is as long as a listpack may be.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the test says so
//! and passes.

use crate::harness::Server;
use crate::harness::beside::Beside;

/// Asks both, and asserts that they answer the same.
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
