//! Scripts of the kinds that applications have, with random keys and arguments, answered as by
//! Valkey: replies, errors, and what is in the keyspace at the end.

use crate::harness::Server;
use crate::harness::beside::Beside;

/// A script with the number of its keys and of its arguments.
struct RealScript {
    source: String,
    keys: usize,
    arguments: Vec<String>,
}

fn corpus() -> Vec<RealScript> {
    let parse = |text: &str| {
        let mut words = text.trim().lines().next().expect("a title").split_whitespace().skip(2);
        let keys = words.next().expect("a number of keys").parse().expect("a number");
        RealScript {
            source: text.trim().to_owned(),
            keys,
            arguments: words.map(Into::into).collect(),
        }
    };
    include_str!("real_scripts.lua").split("\n---\n").map(parse).collect()
}

fn start() -> Option<Beside> {
    // Of today: expiries are given in seconds from now.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Beside::with(Server::new(2, now.expect("after 1970").as_millis() as u64), 1)
}

/// An argument by its name in the title of a script.
fn argument(random: &mut fastrand::Rng, name: &str) -> String {
    match name {
        "now" => random.u32(1_000..1_200).to_string(),
        "limit" | "limit1" | "limit2" | "capacity" | "window" => random.u32(1..6).to_string(),
        "rate" | "leak" => ["0.5", "1", "0.25"][random.usize(..3)].to_owned(),
        "seconds" => "600".to_owned(),
        "offset" | "amount" | "count" | "wanted" | "priority" | "score" => {
            random.i32(-2..9).unsigned_abs().to_string()
        }
        "mode" => ["read", "write"][random.usize(..2)].to_owned(),
        _ => ["a", "b", "c", "x", "1", "7"][random.usize(..6)].to_owned(),
    }
}

#[test]
fn scripts_of_applications_are_answered_as_by_valkey() {
    let Some(mut both) = start() else { return };
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let corpus = corpus();
    assert!(corpus.len() >= 30);
    for round in 0..3_000 {
        let script = &corpus[random.usize(..corpus.len())];
        // Few keys, so that scripts meet what others made, of other types too.
        let mut words = vec!["EVAL".to_owned(), script.source.clone(), script.keys.to_string()];
        words.extend((0..script.keys).map(|_| format!("k{}", random.u32(..6))));
        let arguments = script.arguments.iter().map(|name| argument(&mut random, name));
        words.extend(arguments);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        both.check_words(&words);
        if round % 40 == 39 {
            both.check_words(&["DEL", &format!("k{}", random.u32(..6))]);
        }
    }
    for key in 0..6 {
        let key = format!("k{key}");
        for command in ["TYPE", "DUMP"] {
            both.check_words(&[command, &key]);
        }
    }
    both.check_words(&["DBSIZE"]);
}

#[test]
fn calls_flags_and_the_cache_are_answered_as_by_valkey() {
    let Some(mut both) = start() else { return };
    let calls = include_str!("script_calls.txt");
    let mut count = 0;
    for line in calls.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<String> =
            line.split(" | ").map(|word| word.replace("\\n", "\n").replace("<none>", "")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        both.check_words(&words);
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn verbatim_strings_of_resp3_have_formats_of_three_letters() {
    let Some(mut both) = start() else { return };
    // The answers tell of different servers.
    both.ask(&["HELLO", "3"]);
    for format in ["", "t", "txt", "markdown", "t\\0x"] {
        let script = format!("return {{verbatim_string={{format='{format}',string='text'}}}}");
        both.check_words(&["EVAL", &script, "0"]);
    }
}
