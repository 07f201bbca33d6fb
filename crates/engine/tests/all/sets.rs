//! Sets: encodings as Valkey names them, what is published and journaled, and members by chance.

use std::collections::BTreeSet;

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

fn call(server: &mut Server, client: u64, line: &str) -> String {
    server.call(client, &line.split(' ').collect::<Vec<_>>())
}

fn server() -> (Server, u64) {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    (server, client)
}

/// Adds members to `key`, few in a command.
fn add(server: &mut Server, client: u64, key: &str, members: &[String]) {
    for part in members.chunks(50) {
        let mut words = vec!["SADD", key];
        words.extend(part.iter().map(String::as_str));
        server.call(client, &words);
    }
}

fn integers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("s{number}")).collect()
}

fn encoding(server: &mut Server, client: u64, key: &str) -> String {
    let reply = call(server, client, &format!("OBJECT ENCODING {key}"));
    reply.split("\r\n").nth(1).unwrap_or_default().to_owned()
}

/// The bulk strings of a reply, none of which begins as a header does.
fn strings(reply: &str) -> Vec<&str> {
    let is_header = |line: &&str| line.starts_with(['*', '$', '~']) || line.is_empty();
    reply.split("\r\n").filter(|line| !is_header(line)).collect()
}

#[test]
fn a_set_has_the_encoding_that_valkey_gives_it() {
    let long = "x".repeat(65);
    let cases: [(Vec<String>, &str, &str); 9] = [
        (integers(512), "", "intset"),
        (integers(513), "", "hashtable"),
        (integers(127), "x", "listpack"),
        (integers(128), "x", "hashtable"),
        (texts(128), "", "listpack"),
        (texts(128), "x", "hashtable"),
        (texts(1), &long[1..], "listpack"),
        (texts(1), &long, "hashtable"),
        (integers(1), &long, "hashtable"),
    ];
    for (members, last, expected) in cases {
        let (mut server, client) = server();
        add(&mut server, client, "k", &members);
        if !last.is_empty() {
            server.call(client, &["SADD", "k", last]);
        }
        let case = format!("{} members and {last:?}", members.len());
        assert_eq!(encoding(&mut server, client, "k"), expected, "{case}");
    }
}

#[test]
fn the_number_of_arguments_decides_even_when_they_are_equal() {
    let repeat = |first: &str, word: &str, count: usize| {
        let words = [vec![first; usize::from(!first.is_empty())], vec![word; count]].concat();
        words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    for (before, members, expected) in [
        ("", repeat("", "a", 200), "hashtable"),
        ("", repeat("", "1", 512), "intset"),
        // Too many for an intset, and for a listpack.
        ("", repeat("", "1", 513), "hashtable"),
        ("", repeat("1", "a", 200), "listpack"),
        ("", repeat("a", "1", 200), "hashtable"),
        ("1", repeat("", "1", 513), "hashtable"),
        ("a", repeat("", "a", 129), "hashtable"),
    ] {
        let (mut server, client) = server();
        if !before.is_empty() {
            server.call(client, &["SADD", "k", before]);
        }
        let mut words = vec!["SADD", "k"];
        words.extend(members.iter().map(String::as_str));
        server.call(client, &words);
        let case = format!("{} times {:?} behind {before:?}", members.len(), members.last());
        assert_eq!(encoding(&mut server, client, "k"), expected, "{case}");
    }
}

#[test]
fn a_stored_result_has_the_encoding_that_valkey_gives_it() {
    let (mut server, client) = server();
    let mixed = |count: usize| [integers(count), vec!["x".into(), "y".into()]].concat();
    add(&mut server, client, "mixed", &mixed(5));
    add(&mut server, client, "x", &["x".into()]);
    add(&mut server, client, "y", &["y".into()]);
    add(&mut server, client, "i100", &integers(100));
    add(&mut server, client, "i500", &integers(500));
    add(&mut server, client, "i600", &integers(600));
    add(&mut server, client, "t200", &texts(200));
    for number in 0..5 {
        let part = texts(200)[number * 40..(number + 1) * 40 - usize::from(number == 4)].to_vec();
        add(&mut server, client, &format!("part{number}"), &part);
    }
    for (command, expected) in [
        ("SINTERSTORE d i600 i500", "intset"),
        ("SINTERSTORE d i600", "hashtable"),
        ("SINTERSTORE d mixed i600", "intset"),
        ("SINTERSTORE d mixed", "listpack"),
        ("SUNIONSTORE d i100 x", "listpack"),
        ("SUNIONSTORE d i500 x", "hashtable"),
        ("SUNIONSTORE d i600 i500", "hashtable"),
        // Both integers and strings are left, then integers alone, by either way.
        ("SDIFFSTORE d mixed x", "listpack"),
        ("SDIFFSTORE d t200 part0", "hashtable"),
        ("SDIFFSTORE d t200 t200 mixed", ""),
        ("SDIFFSTORE d t200 part0 part1 part2 part3 part4", "hashtable"),
        ("SDIFFSTORE d i100 i500 x", ""),
    ] {
        call(&mut server, client, command);
        assert_eq!(encoding(&mut server, client, "d"), expected, "{command}");
    }
}

#[test]
fn a_set_of_which_most_was_popped_is_made_anew() {
    for (members, count, expected) in [
        (texts(200), 160, "hashtable"),
        (texts(200), 170, "listpack"),
        (texts(1000), 850, "hashtable"),
        (texts(1000), 900, "listpack"),
        (integers(1000), 900, "listpack"),
        (integers(500), 400, "intset"),
    ] {
        let (mut server, client) = server();
        add(&mut server, client, "k", &members);
        let popped = call(&mut server, client, &format!("SPOP k {count}"));
        let left = call(&mut server, client, "SMEMBERS k");
        let all: BTreeSet<&str> = strings(&popped).into_iter().chain(strings(&left)).collect();
        assert_eq!(all, members.iter().map(String::as_str).collect(), "each is popped or left");
        assert_eq!(strings(&popped).len(), count);
        let case = format!("{count} of {}", members.len());
        assert_eq!(encoding(&mut server, client, "k"), expected, "{case}");
    }
}

#[test]
fn what_was_popped_by_chance_is_journaled_by_name() {
    let (mut server, client) = server();
    let records = |server: &Server| -> Vec<String> {
        let text = |effect: &tidemill_engine::commit::Effect| {
            let words = effect.arguments.view();
            words.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
        };
        let records = server.journal.take().into_iter();
        records.map(|record| record.iter().map(text).collect::<Vec<_>>().join("; ")).collect()
    };
    call(&mut server, client, "SADD k 1 2 three 4 5");
    records(&server);
    let popped = call(&mut server, client, "SPOP k");
    assert_eq!(records(&server), [format!("SREM k {}", strings(&popped).join(" "))]);
    let popped = call(&mut server, client, "SPOP k 2");
    assert_eq!(records(&server), [format!("SREM k {}", strings(&popped).join(" "))]);
    call(&mut server, client, "SPOP k 2");
    assert_eq!(records(&server), ["DEL k"]);
    for nothing in ["SPOP k", "SPOP k 3", "SREM k 1", "SMOVE k l 1", "SUNIONSTORE d k l"] {
        call(&mut server, client, nothing);
    }
    assert_eq!(records(&server), Vec::<String>::new());
    add(&mut server, client, "k", &texts(5000));
    records(&server);
    call(&mut server, client, "SPOP k 3000");
    let effects = records(&server);
    assert_eq!(effects.len(), 1, "one record");
    let removed = effects[0].split("; ").map(|effect| effect.split(' ').count() - 2);
    assert_eq!(removed.collect::<Vec<_>>(), [1024, 1024, 952]);
}

#[test]
fn events_are_those_of_valkey() {
    for (prepare, command, expected) in [
        ("", "SADD k 1 x", "new k, sadd k"),
        ("SADD k 1", "SADD k 1", ""),
        ("SADD k 1 2", "SREM k 1 9", "srem k"),
        ("SADD k 1", "SREM k 1", "srem k, del k"),
        ("SADD k 1 2", "SMOVE k l 1", "srem k, new l, sadd l"),
        ("SADD k 1", "SMOVE k k 1", ""),
        ("SADD k 1 2", "SPOP k", "spop k"),
        ("SADD k 1 2", "SPOP k 2", "spop k, del k"),
        ("SADD k 1", "SPOP k", "spop k, del k"),
        ("SADD k 1", "SUNIONSTORE d k", "new d, sunionstore d"),
        ("SADD k 1", "SINTERSTORE k k no", "del k"),
        ("SADD k 1", "SDIFFSTORE d k k", ""),
    ] {
        let mut server = Server::with_events(1, START_MS, true);
        let client = server.connect(0);
        if !prepare.is_empty() {
            call(&mut server, client, prepare);
        }
        server.publications.take();
        call(&mut server, client, command);
        let all = server.publications.take().into_iter();
        let all: Vec<_> = all.map(|each| format!("{} {}", each.event, each.key)).collect();
        assert_eq!(all.join(", "), expected, "{command}");
    }
}

#[test]
fn a_result_takes_the_place_of_any_value_with_its_expiry() {
    let (mut server, client) = server();
    for line in ["SADD a 1 2 3", "SADD b 2 3 4", "SET d text EX 100"] {
        call(&mut server, client, line);
    }
    assert_eq!(call(&mut server, client, "SINTERSTORE d a b"), ":2\r\n");
    assert_eq!(call(&mut server, client, "TTL d"), ":-1\r\n");
    assert_eq!(call(&mut server, client, "SMEMBERS d"), "*2\r\n$1\r\n2\r\n$1\r\n3\r\n");
    // The target is among the sources.
    assert_eq!(call(&mut server, client, "SUNIONSTORE a a b"), ":4\r\n");
    assert_eq!(call(&mut server, client, "SDIFFSTORE a a b a"), ":0\r\n");
    assert_eq!(call(&mut server, client, "EXISTS a"), ":0\r\n");
}

#[test]
fn set_operations_equal_those_on_sorted_sets() {
    let (mut server, client) = server();
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..120 {
        let mut sets: Vec<BTreeSet<String>> = Vec::new();
        let size = [3, 40, 400][round % 3];
        // Sets of integers alone are intersected in another way.
        let integers_alone = round % 2 == 1;
        for index in 0..4 {
            let all = (0..random.usize(0..size)).map(|_| match random.bool() {
                true => random.usize(0..size).to_string(),
                false if integers_alone => (-random.i64(1..=size as i64)).to_string(),
                false => format!("m{}", random.usize(0..size)),
            });
            sets.push(all.collect());
            call(&mut server, client, &format!("DEL k{index}"));
            add(&mut server, client, &format!("k{index}"), &Vec::from_iter(sets[index].clone()));
        }
        let keys: Vec<usize> = (0..random.usize(1..6)).map(|_| random.usize(0..4)).collect();
        let chosen = || keys.iter().map(|&key| &sets[key]);
        let fold = |combine: fn(&BTreeSet<String>, &BTreeSet<String>) -> BTreeSet<String>| {
            let first = sets[keys[0]].clone();
            chosen().skip(1).fold(first, |all, each| combine(&all, each))
        };
        let names: Vec<_> = keys.iter().map(|key| format!("k{key}")).collect();
        for (name, expected) in [
            ("SINTER", fold(|all, each| all & each)),
            ("SUNION", fold(|all, each| all | each)),
            ("SDIFF", fold(|all, each| all - each)),
        ] {
            let line = format!("{name} {}", names.join(" "));
            let reply = call(&mut server, client, &line);
            let found: BTreeSet<String> = strings(&reply).into_iter().map(str::to_owned).collect();
            assert_eq!(found, expected, "{line}");
            assert!(reply.starts_with(&format!("*{}\r\n", expected.len())), "{line}: {reply}");
            let stored = format!("{name}STORE d {}", names.join(" "));
            assert_eq!(call(&mut server, client, &stored), format!(":{}\r\n", expected.len()));
            let reply = call(&mut server, client, "SMEMBERS d");
            let found: BTreeSet<String> = strings(&reply).into_iter().map(str::to_owned).collect();
            assert_eq!(found, expected, "{stored}");
        }
        let count = fold(|all, each| all & each).len();
        for limit in [0, 1, 2, count + 1] {
            let line = format!("SINTERCARD {} {} LIMIT {limit}", names.len(), names.join(" "));
            let expected = if limit == 0 { count } else { count.min(limit) };
            assert_eq!(call(&mut server, client, &line), format!(":{expected}\r\n"), "{line}");
        }
    }
}

#[test]
fn sets_of_more_members_than_are_compared_at_once_are_combined_whole() {
    const COUNT: usize = 20_000;
    let (mut server, client) = server();
    // Both halves of the keys' range: integers, and strings.
    let spelled = |number: usize| match number % 2 {
        0 => number.to_string(),
        _ => format!("m{number}"),
    };
    let kept = |keeps: &dyn Fn(usize) -> bool| {
        (0..COUNT).filter(|&number| keeps(number)).map(spelled).collect::<Vec<_>>()
    };
    let all: fn(usize) -> bool = |_| true;
    let thirds: fn(usize) -> bool = |number| number % 3 == 0;
    let upper: fn(usize) -> bool = |number| number >= COUNT / 2;
    let few: fn(usize) -> bool = |number| number % 1000 == 0;
    for (key, keeps) in [("all", all), ("thirds", thirds), ("upper", upper), ("few", few)] {
        add(&mut server, client, key, &kept(&keeps));
    }
    add(&mut server, client, "other", &texts(3));
    let mut check = |line: &str, expected: Vec<String>| {
        let (command, keys) = line.split_once(' ').expect("keys");
        let stored = call(&mut server, client, &format!("{command}STORE d {keys}"));
        assert_eq!(stored, format!(":{}\r\n", expected.len()), "{line}");
        for part in expected.chunks(100) {
            let line = format!("SMISMEMBER d {}", part.join(" "));
            assert_eq!(
                call(&mut server, client, &line),
                format!("*{}\r\n", part.len()) + &":1\r\n".repeat(part.len())
            );
        }
        if command == "SINTER" {
            for limit in [0, 1, 65, 500, 5000] {
                let count = keys.split(' ').count();
                let expected = if limit == 0 { expected.len() } else { expected.len().min(limit) };
                let line = format!("SINTERCARD {count} {keys} LIMIT {limit}");
                assert_eq!(call(&mut server, client, &line), format!(":{expected}\r\n"), "{line}");
            }
        }
    };
    check("SINTER all upper", kept(&upper));
    check("SINTER all upper thirds", kept(&|number| upper(number) && thirds(number)));
    check("SINTER all few upper", kept(&|number| few(number) && upper(number)));
    check("SINTER all upper other thirds", Vec::new());
    check("SDIFF all upper", kept(&|number| !upper(number)));
    check(
        "SDIFF all upper thirds few",
        kept(&|number| !upper(number) && !thirds(number) && !few(number)),
    );
    check("SDIFF all few other", kept(&|number| !few(number)));
    check("SDIFF few all upper", Vec::new());
    check(
        "SUNION upper thirds few",
        kept(&|number| upper(number) || thirds(number) || few(number)),
    );
}

const REPLIES: usize = 4000;

/// The worker's generator has a fixed seed, so this does not fail by chance; with any other it
/// would once in some thousand runs.
#[test]
fn all_members_are_equally_likely_to_be_drawn_and_popped() {
    let (mut server, client) = server();
    let members = [integers(5), texts(5)].concat();
    for (command, draws, chance) in [
        ("SRANDMEMBER k", 1.0, 0.1),
        ("SRANDMEMBER k 3", 1.0, 0.3),
        ("SRANDMEMBER k 8", 1.0, 0.8),
        ("SRANDMEMBER k -5", 5.0, 0.1),
        ("SPOP k", 1.0, 0.1),
        ("SPOP k 4", 1.0, 0.4),
    ] {
        let mut tally = [0.0; 10];
        for _ in 0..REPLIES {
            add(&mut server, client, "k", &members);
            let reply = call(&mut server, client, command);
            for member in strings(&reply) {
                let index = members.iter().position(|each| each == member).expect("a member");
                tally[index] += 1.0;
            }
        }
        let expected = REPLIES as f64 * draws * chance;
        let deviation = (expected * (1.0 - chance)).sqrt();
        for (member, times) in members.iter().zip(tally) {
            let is_likely = (times - expected).abs() <= 4.5 * deviation;
            assert!(is_likely, "{command}: {member} came {times} times, expected {expected}");
        }
    }
}

#[test]
fn a_draw_that_no_reply_holds_is_refused() {
    let (mut server, client) = server();
    call(&mut server, client, "SADD k 1");
    let error = "-ERR reply exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(call(&mut server, client, "SRANDMEMBER k -9223372036854775807"), error);
    assert_eq!(call(&mut server, client, "SRANDMEMBER no -9223372036854775807"), "*0\r\n");
}

#[test]
fn a_walk_meets_every_member_of_a_large_set() {
    let (mut server, client) = server();
    let members = [integers(3000), texts(3000)].concat();
    add(&mut server, client, "k", &members);
    let (mut cursor, mut found, mut steps) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let reply = call(&mut server, client, &format!("SSCAN k {cursor} COUNT 100"));
        let all = strings(&reply);
        found.extend(all[1..].iter().map(|member| (*member).to_owned()));
        cursor = all[0].to_owned();
        steps += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, members.into_iter().collect());
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn a_set_is_sorted_by_value_and_as_text() {
    let (mut server, client) = server();
    call(&mut server, client, "SADD k 10 9 -1 100");
    let sorted = |server: &mut Server, line: &str| strings(&call(server, client, line)).join(" ");
    assert_eq!(sorted(&mut server, "SORT k"), "-1 9 10 100");
    assert_eq!(sorted(&mut server, "SORT k ALPHA DESC"), "9 100 10 -1");
    assert_eq!(sorted(&mut server, "SORT k LIMIT 1 2"), "9 10");
    call(&mut server, client, "MSET w_10 1 w_9 2 w_-1 3 w_100 4");
    assert_eq!(sorted(&mut server, "SORT k BY w_* GET # GET w_*"), "10 1 9 2 -1 3 100 4");
    // Without an order there is none to turn round.
    assert_eq!(sorted(&mut server, "SORT k BY nosort DESC"), "-1 9 10 100");
    call(&mut server, client, "SADD k x");
    assert_eq!(call(&mut server, client, "SORT k BY nosort STORE d"), ":5\r\n");
    assert_eq!(sorted(&mut server, "LRANGE d 0 -1"), "-1 10 100 9 x");
}
