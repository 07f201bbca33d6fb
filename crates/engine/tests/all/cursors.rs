//! Cursors of walks: some clients keep them as signed numbers of 64 bits.

use std::collections::HashSet;

use crate::harness::Server;

/// Walks with `command` (the words before and behind the cursor) to its end, and returns the items.
fn walk(server: &mut Server, client: u64, (before, behind): (&str, &str)) -> HashSet<String> {
    let mut cursor = 0_u64;
    let mut found = HashSet::new();
    for _ in 0..20_000 {
        let line = format!("{before} {cursor} {behind}");
        let words: Vec<&str> = line.split(' ').collect();
        let reply = server.call(client, &words);
        let mut lines = reply.lines().filter(|line| !line.starts_with(['*', '$']));
        cursor = lines.next().and_then(|cursor| cursor.parse().ok()).expect(&reply);
        assert!(cursor <= i64::MAX as u64, "{before} answers the cursor {cursor}");
        found.extend(lines.map(str::to_owned));
        if cursor == 0 {
            return found;
        }
    }
    panic!("{before} does not end");
}

#[test]
fn cursors_are_below_two_to_the_63() {
    const COUNT: usize = 5000;
    let mut server = Server::new(1, 1_700_000_000_000);
    let client = server.connect(0);
    for (before, each) in [
        ("MSET", "{tag}# v"),
        ("HSET hash", "field# v"),
        ("SADD strings", "member#"),
        ("SADD integers", "#"),
        ("SADD mixed", "member# -#"),
        ("ZADD sorted", "# member#"),
    ] {
        let elements =
            (0..COUNT).map(|number| format!(" {}", each.replace('#', &number.to_string())));
        let line = elements.fold(before.to_owned(), |line, element| line + &element);
        server.call(client, &line.split(' ').collect::<Vec<_>>());
    }
    for (command, count) in [
        (("SCAN", "COUNT 10 TYPE string"), COUNT),
        (("HSCAN hash", "COUNT 10 NOVALUES"), COUNT),
        (("SSCAN strings", "COUNT 10"), COUNT),
        (("SSCAN integers", "COUNT 10"), COUNT),
        (("SSCAN mixed", "COUNT 10"), 2 * COUNT),
        (("ZSCAN sorted", "COUNT 10 NOSCORES"), COUNT),
    ] {
        assert_eq!(walk(&mut server, client, command).len(), count, "{command:?}");
    }
}
