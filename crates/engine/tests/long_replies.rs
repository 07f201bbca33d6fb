//! Replies that are made in pieces, turn by turn.
//!
//! A process of its own: pinned versions are the process's, and a long reply of another test would
//! keep the garbage that is counted here.

mod harness;

use std::sync::{Mutex, MutexGuard, PoisonError};

use harness::Server;
use tidemill_engine::execute::Next;
use tidemill_engine::limits::{PIECE_BYTES, PIECE_ELEMENTS_MAX};
use tidemill_resp::request::encode;

const COUNT: usize = 3 * PIECE_ELEMENTS_MAX as usize;

/// Pinned versions are the process's: who counts what they hold must be alone.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn request(words: &[&str]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    encode(&words)
}

/// A server with one worker, a list, a hash and a set of [`COUNT`], and a client.
fn filled() -> (Server, u64) {
    let mut server = Server::new(1, 1_700_000_000_000);
    let client = server.connect(0);
    let texts: Vec<String> = (0..COUNT).map(|index| format!("element {index}")).collect();
    for texts in texts.chunks(1000) {
        let mut push = vec!["RPUSH", "list"];
        push.extend(texts.iter().map(String::as_str));
        server.call(client, &push);
        let mut set = vec!["HSET", "hash"];
        set.extend(texts.iter().flat_map(|text| [text.as_str(), "value"]));
        server.call(client, &set);
        let mut add = vec!["SADD", "set"];
        add.extend(texts.iter().map(String::as_str));
        server.call(client, &add);
    }
    (server, client)
}

/// Turns until the connection has nothing left to do; what came, and the longest piece of it in
/// bytes.
fn run_out(server: &mut Server, client: u64) -> (String, usize) {
    let (mut all, mut longest) = (String::new(), 0);
    loop {
        let next = server.turn_once(client, b"");
        let piece = server.take_output(client);
        longest = longest.max(piece.len());
        all.push_str(&piece);
        match next {
            Next::Turn => {}
            Next::Input { .. } => return (all, longest),
            other => panic!("{other:?}"),
        }
    }
}

/// Answer of a command in pieces, behind its first one, and its answer at once within
/// `EXEC`.
fn both_ways(words: &[&str], before: &[&[&str]]) -> (String, String) {
    let answer = |in_transaction: bool| {
        let (mut server, client) = filled();
        before.iter().for_each(|words| {
            server.call(client, words);
        });
        server.clock.advance_ms(1000);
        if in_transaction {
            server.call(client, &["MULTI"]);
            server.call(client, words);
            let reply = server.call(client, &["EXEC"]);
            return reply.strip_prefix("*1\r\n").expect("one reply").to_owned();
        }
        assert_eq!(server.turn_once(client, &request(words)), Next::Turn, "{words:?} is long");
        let first = server.take_output(client);
        let (rest, longest) = run_out(&mut server, client);
        assert!(first.len().max(longest) < 2 * PIECE_BYTES + 1000, "a piece of {longest} bytes");
        first + &rest
    };
    (answer(false), answer(true))
}

#[test]
fn pieces_make_the_reply_that_is_made_at_once() {
    let _alone = alone();
    let large = "x".repeat(100_000);
    let cases: [(&[&str], &[&[&str]]); 12] = [
        (&["LRANGE", "list", "0", "-1"], &[]),
        (&["LRANGE", "list", "5", "-7"], &[]),
        (&["LPOP", "list", "12000"], &[]),
        (&["RPOP", "list", "100000"], &[]),
        (&["HGETALL", "hash"], &[]),
        (&["HGETALL", "hash"], &[&["HELLO", "3"]]),
        (&["HKEYS", "hash"], &[]),
        (&["SMEMBERS", "set"], &[]),
        (&["SMEMBERS", "set"], &[&["SADD", "set", "1", "2", "3"], &["HELLO", "3"]]),
        (&["SPOP", "set", "1000000"], &[]),
        (
            &["HVALS", "hash"],
            &[&["HPEXPIRE", "hash", "100", "FIELDS", "2", "element 7", "element 9"]],
        ),
        // Few elements, but large ones.
        (&["LRANGE", "list", "0", "1"], &[&["DEL", "list"], &["RPUSH", "list", &large, &large]]),
    ];
    for (words, before) in cases {
        let (pieces, whole) = both_ways(words, before);
        assert!(pieces == whole, "{words:?}: {} bytes, not {}", pieces.len(), whole.len());
    }
}

#[test]
fn all_elements_are_of_the_version_that_was_there_at_the_beginning() {
    let _alone = alone();
    let changes: [&[&[&str]]; 4] = [
        &[&["LSET", "list", "12000", "changed"], &["LREM", "list", "0", "element 9999"]],
        &[&["DEL", "list"], &["RPUSH", "list", "another"]],
        &[&["RENAME", "list", "moved"], &["LTRIM", "moved", "10", "20"], &["DEL", "moved"]],
        &[&["FLUSHALL", "SYNC"], &["RPUSH", "list", "another"]],
    ];
    for changes in changes {
        let (mut server, client) = filled();
        let neighbour = server.connect(0);
        let expected: String = (0..COUNT)
            .map(|index| format!("element {index}"))
            .map(|text| format!("${}\r\n{text}\r\n", text.len()))
            .collect();
        let mut input = request(&["LRANGE", "list", "0", "-1"]);
        input.extend(request(&["ECHO", "behind"]));
        assert_eq!(server.turn_once(client, &input), Next::Turn);
        let mut reply = server.take_output(client);
        // The neighbour is answered while the reply is under way, and what it does shows nowhere in
        // it.
        for words in changes {
            let answer = server.call(neighbour, words);
            assert!(!answer.is_empty() && !answer.starts_with('-'), "{words:?}: {answer}");
        }
        for _ in 0..3 {
            server.settle();
        }
        for index in 0..2000 {
            server.call(neighbour, &["RPUSH", "other", &format!("overwrites {index}")]);
        }
        reply.push_str(&run_out(&mut server, client).0);
        let expected = format!("*{COUNT}\r\n{expected}$6\r\nbehind\r\n");
        assert!(reply == expected, "after {changes:?}: {} bytes", reply.len());
    }
}

#[test]
fn what_a_reply_kept_is_freed_when_it_is_complete_or_its_client_gone() {
    let _alone = alone();
    for is_completed in [true, false] {
        let (mut server, client) = filled();
        let neighbour = server.connect(0);
        server.turn_once(client, &request(&["LRANGE", "list", "0", "-1"]));
        server.call(neighbour, &["DEL", "list"]);
        (0..3).for_each(|_| server.settle());
        let list_bytes = server.worker(0).0.heap.pinned_garbage_bytes();
        assert!(list_bytes > COUNT * 10, "a list of {list_bytes} bytes is still read");
        if is_completed {
            run_out(&mut server, client);
        } else {
            server.disconnect(client);
        }
        (0..3).for_each(|_| server.settle());
        let heap = &server.worker(0).0.heap;
        assert_eq!((heap.pinned_garbage_bytes(), heap.retired().retired_bytes()), (0, 0));
    }
}

#[test]
fn a_flushed_database_is_freed_once_nobody_reads_it() {
    let _alone = alone();
    let (mut server, client) = filled();
    let neighbour = server.connect(0);
    server.turn_once(client, &request(&["HGETALL", "hash"]));
    server.call(neighbour, &["FLUSHALL"]);
    (0..3).for_each(|_| server.settle());
    let (_, shared) = server.worker(0);
    shared.free_unreachable_in_background();
    assert!(shared.should_hurry(), "a whole database waits for one reply");
    assert_eq!(shared.live_bytes(), 0, "what was flushed is not live");
    assert!(shared.lazily_freed().bytes > COUNT as u64 * 10, "it is still there");
    run_out(&mut server, client);
    server.settle();
    let (_, shared) = server.worker(0);
    shared.free_unreachable_in_background();
    assert!(!shared.should_hurry());
    // On a thread of its own.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.worker(0).1.lazily_freed().bytes > 0 {
        assert!(std::time::Instant::now() < deadline, "it is never freed");
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_is_killed_gets_no_further_piece() {
    let _alone = alone();
    let (mut server, client) = filled();
    let neighbour = server.connect(0);
    server.turn_once(client, &request(&["LRANGE", "list", "0", "-1"]));
    server.take_output(client);
    server.call(neighbour, &["CLIENT", "KILL", "ID", &client.to_string()]);
    assert_eq!(server.turn_once(client, b""), Next::Close);
    assert_eq!(server.take_output(client), "");
}

#[test]
fn replies_that_nobody_gets_or_that_limits_count_are_made_at_once() {
    let _alone = alone();
    let lrange = ["LRANGE", "list", "0", "-1"];
    let (mut server, client) = filled();
    let silent = server.connect(0);
    server.call(silent, &["CLIENT", "REPLY", "OFF"]);
    assert_eq!(server.call(silent, &lrange), "");
    assert_eq!(server.call(silent, &["CLIENT", "REPLY", "ON"]), "+OK\r\n");
    server.worker(0).0.limits_output = true;
    assert!(server.call(client, &lrange).len() > 2 * PIECE_BYTES);
}

#[test]
fn a_long_reply_counts_as_one_call_and_one_hit() {
    let _alone = alone();
    let (mut server, client) = filled();
    let other = server.connect(0);
    server.call(other, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    server.call(other, &["CONFIG", "SET", "commandlog-reply-larger-than", "100000"]);
    server.call(other, &["CONFIG", "RESETSTAT"]);
    let slow = |server: &mut Server| {
        server.call(other, &["SLOWLOG", "GET", "-1"]).matches("LRANGE").count()
    };
    server.turn_once(client, &request(&["LRANGE", "list", "0", "-1"]));
    assert_eq!(slow(&mut server), 0, "it is not complete");
    let reply_bytes = server.take_output(client).len() + run_out(&mut server, client).0.len();
    assert_eq!(slow(&mut server), 1);
    assert!(server.call(other, &["INFO", "commandstats"]).contains("cmdstat_lrange:calls=1,"));
    assert!(server.call(other, &["INFO", "stats"]).contains("keyspace_hits:1\r\n"));
    let large = server.call(other, &["COMMANDLOG", "GET", "-1", "large-reply"]);
    assert!(large.contains(&format!(":{reply_bytes}\r\n")), "{reply_bytes} bytes: {large:.300}");
}
