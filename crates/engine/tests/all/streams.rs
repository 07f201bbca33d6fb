//! Commands on streams where replies alone do not tell: clients that wait, what is journaled,
//! hostile payloads. Replies are compared with Valkey's in `streams_beside_valkey`.

use std::fmt::Write as _;

use fastrand::Rng;
use tidemill_rdb::Checksum;

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

fn call(server: &mut Server, client: u64, line: &str) -> String {
    let reply = server.call(client, &line.split(' ').collect::<Vec<_>>());
    reply.trim_end().replace("\r\n", " ")
}

/// Reply to a client that waited.
fn output(server: &mut Server, client: u64) -> String {
    server.settle();
    server.take_output(client).trim_end().replace("\r\n", " ")
}

/// A server with two workers, with a client of each.
fn server() -> (Server, u64, u64) {
    let mut server = Server::new(2, START_MS);
    let (first, second) = (server.connect(0), server.connect(1));
    (server, first, second)
}

const ENTRY: &str = "*2 $3 2-0 *2 $1 a $1 b";

#[test]
fn all_who_read_are_served_and_one_consumer_of_a_group() {
    let (mut server, writer, _) = server();
    assert_eq!(call(&mut server, writer, "XGROUP CREATE s g $ MKSTREAM"), "+OK");
    let readers: Vec<u64> = (0..2).map(|worker| server.connect(worker)).collect();
    let consumers: Vec<u64> = (0..2).map(|worker| server.connect(worker)).collect();
    for &reader in &readers {
        assert_eq!(call(&mut server, reader, "XREAD BLOCK 0 STREAMS s $"), "");
    }
    for (index, &consumer) in consumers.iter().enumerate() {
        let line = format!("XREADGROUP GROUP g c{index} BLOCK 0 STREAMS s >");
        assert_eq!(call(&mut server, consumer, &line), "");
    }
    assert_eq!(call(&mut server, writer, "XADD s 2 a b"), "$3 2-0");
    let reply = format!("*1 *2 $1 s *1 {ENTRY}");
    for reader in readers {
        assert_eq!(output(&mut server, reader), reply);
    }
    assert_eq!(output(&mut server, consumers[0]), reply);
    assert_eq!(output(&mut server, consumers[1]), "");
    assert!(server.is_blocked(consumers[1]));
    assert_eq!(call(&mut server, writer, "XADD s 3 a b"), "$3 3-0");
    assert!(output(&mut server, consumers[1]).contains("$3 3-0"));
    assert_eq!(
        call(&mut server, writer, "XPENDING s g"),
        "*4 :2 $3 2-0 $3 3-0 *2 *2 $2 c0 $1 1 *2 $2 c1 $1 1"
    );
}

/// A waiter that an entry is of no use to keeps its place and its time, and those behind it are
/// served.
#[test]
fn a_waiter_that_would_get_nothing_is_not_served() {
    let (mut server, writer, late) = server();
    let early = server.connect(0);
    assert_eq!(call(&mut server, late, "XREAD BLOCK 1000 STREAMS s 5-0"), "");
    assert_eq!(call(&mut server, early, "XREAD BLOCK 0 STREAMS s 1-0"), "");
    assert_eq!(call(&mut server, writer, "XADD s 2 a b"), "$3 2-0");
    assert_eq!(output(&mut server, early), format!("*1 *2 $1 s *1 {ENTRY}"));
    assert!(server.is_blocked(late));
    assert_eq!(call(&mut server, writer, "XADD s 6 a b"), "$3 6-0");
    assert!(output(&mut server, late).contains("$3 6-0"));
    assert_eq!(call(&mut server, late, "XREAD BLOCK 1000 STREAMS s $"), "");
    for line in ["XDEL s 6-0", "XTRIM s MAXLEN 0", "XSETID s 9-0", "XADD s NOMKSTREAM 1 a b"] {
        call(&mut server, writer, line);
        assert!(server.is_blocked(late), "{line}");
    }
    server.clock.advance_ms(1001);
    assert_eq!(output(&mut server, late), "*-1");
}

#[test]
fn who_waits_for_several_streams_gets_what_all_of_them_have() {
    let (mut server, writer, reader) = server();
    assert_eq!(call(&mut server, reader, "XREAD BLOCK 0 STREAMS a b c $ $ $"), "");
    for line in ["MULTI", "XADD c 2 a b", "XADD a 2 a b", "EXEC"] {
        call(&mut server, writer, line);
    }
    let reply = format!("*2 *2 $1 a *1 {ENTRY} *2 $1 c *1 {ENTRY}");
    assert_eq!(output(&mut server, reader), reply);
}

/// A group that is gone ends the wait of its consumers, and of them alone.
#[test]
fn consumers_of_a_group_that_is_gone_do_not_wait_on() {
    let no_group = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for (line, expected) in [
        ("DEL s", no_group),
        ("XGROUP DESTROY s g", no_group),
        ("RENAME s t", no_group),
        ("MOVE s 1", no_group),
        ("FLUSHALL", no_group),
        ("FLUSHDB", no_group),
        ("SWAPDB 0 1", no_group),
        ("PEXPIREAT s 1", no_group),
        ("COPY other s REPLACE", no_group),
        ("SET s x", wrong),
        ("RENAME list s", wrong),
    ] {
        let (mut server, writer, consumer) = server();
        let reader = server.connect(0);
        for line in ["XGROUP CREATE s g $ MKSTREAM", "RPUSH list x", "XADD other 1 a b"] {
            call(&mut server, writer, line);
        }
        assert_eq!(call(&mut server, consumer, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"), "");
        assert_eq!(call(&mut server, reader, "XREAD BLOCK 0 STREAMS s 7"), "");
        call(&mut server, writer, line);
        assert_eq!(output(&mut server, consumer), expected, "{line}");
        assert!(server.is_blocked(reader), "{line}");
    }
}

#[test]
fn nobody_waits_within_a_transaction() {
    let (mut server, client, _) = server();
    for line in ["XGROUP CREATE s g $ MKSTREAM", "MULTI"] {
        call(&mut server, client, line);
    }
    call(&mut server, client, "XREAD BLOCK 0 STREAMS s $");
    call(&mut server, client, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
    assert_eq!(call(&mut server, client, "EXEC"), "*2 *-1 *-1");
}

/// Commands of the journal since the last call.
fn effects(server: &Server) -> Vec<String> {
    let effects = server.journal.take().into_iter().flatten();
    let words = effects.map(|effect| {
        let words = effect.arguments.view();
        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>()
    });
    words.map(|words| words.join(" ")).collect()
}

#[test]
fn the_journal_has_what_came_of_a_command() {
    let (mut server, client, _) = server();
    let xclaim = |id: &str, consumer: &str, count: u64, last: &str| {
        format!(
            "XCLAIM s g {consumer} 0 {id} TIME {START_MS} RETRYCOUNT {count} FORCE JUSTID LASTID \
             {last}"
        )
    };
    let first = format!("{START_MS}-0");
    let second = format!("{START_MS}-1");
    let cases: [(&str, Vec<String>); 16] = [
        ("XADD s * a b", vec![format!("XADD s {first} a b")]),
        (
            "XADD s NOMKSTREAM MAXLEN ~ 9 LIMIT 5 * a b",
            vec![format!("XADD s NOMKSTREAM MAXLEN = 2 {second} a b")],
        ),
        ("XGROUP CREATE s g 0", vec!["XGROUP CREATE s g 0-0".into()]),
        (
            "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
            vec![xclaim(&first, "c", 1, &first), format!("XGROUP SETID s g {first} ENTRIESREAD 1")],
        ),
        ("XREADGROUP GROUP g d STREAMS s 0", vec!["XGROUP CREATECONSUMER s g d".into()]),
        ("XREADGROUP GROUP g c STREAMS s 0", vec![xclaim(&first, "c", 2, &first)]),
        (
            "XREADGROUP GROUP g d NOACK STREAMS s >",
            vec![format!("XGROUP SETID s g {second} ENTRIESREAD 2")],
        ),
        ("XREADGROUP GROUP g d STREAMS s >", vec![]),
        ("XAUTOCLAIM s g d 0 0", vec![xclaim(&first, "d", 3, &second)]),
        ("XACK s g 7-7", vec![]),
        ("XCLAIM s g c 5 9-9", vec![]),
        ("XADD s 1999999999999-0 a b", vec!["XADD s 1999999999999-0 a b".into()]),
        ("XTRIM s MAXLEN ~ 2", vec![]),
        ("XTRIM s MINID ~ 1999999999999-1", vec!["XTRIM s MINID = 1999999999999-1".into()]),
        ("XAUTOCLAIM s g c 0 0", vec![xclaim(&first, "d", 3, &second)]),
        ("XGROUP SETID s g $", vec!["XGROUP SETID s g 1999999999999-0 ENTRIESREAD -1".into()]),
    ];
    for (line, expected) in cases {
        call(&mut server, client, line);
        assert_eq!(effects(&server), expected, "{line}");
    }
}

/// Everything that clients can ask of a stream.
fn state(server: &mut Server, client: u64) -> String {
    let mut state = String::new();
    for line in ["XRANGE s - +", "XINFO STREAM s", "XINFO GROUPS s", "XINFO CONSUMERS s g"] {
        let _ = writeln!(state, "{line}: {}", call(server, client, line));
    }
    for group in ["g", "h"] {
        let line = format!("XPENDING s {group} - + 1000");
        let _ = writeln!(state, "{line}: {}", call(server, client, &line));
    }
    state
}

#[test]
fn the_journal_makes_the_same_stream_again() {
    let mut random = Rng::with_seed(7);
    let (mut server, client, _) = server();
    call(&mut server, client, "CONFIG SET stream-node-max-entries 4");
    for _ in 0..2000 {
        let id = format!("{}-0", START_MS + random.u64(..60));
        let group = ["g", "g", "h"][random.usize(..3)];
        let consumer = ["c", "d", "e"][random.usize(..3)];
        let line = match random.u8(..14) {
            0..4 => "XADD s * a b".to_owned(),
            4 => format!("XADD s MAXLEN ~ {} * name value", random.u8(..30)),
            5 => format!("XDEL s {id}"),
            6 => format!("XGROUP CREATE s {group} 0 MKSTREAM"),
            7 => format!("XREADGROUP GROUP {group} {consumer} COUNT 3 STREAMS s >"),
            8 => format!("XREADGROUP GROUP {group} {consumer} COUNT 3 NOACK STREAMS s >"),
            9 => format!("XREADGROUP GROUP {group} {consumer} COUNT 2 STREAMS s 0"),
            10 => format!("XACK s {group} {id}"),
            11 => format!("XCLAIM s {group} {consumer} 0 {id} FORCE"),
            12 => format!("XAUTOCLAIM s {group} {consumer} 0 0 COUNT 2"),
            _ if random.u8(..20) == 0 => format!("XGROUP DELCONSUMER s {group} {consumer}"),
            _ => format!("XTRIM s MINID ~ {id}"),
        };
        call(&mut server, client, &line);
        server.clock.advance_ms(u64::from(random.u8(..2)));
    }
    let (mut replayed, replayer, _) = self::server();
    replayed.clock.advance_ms(server.clock.now_ms() - START_MS);
    for effect in server.journal.take().into_iter().flatten() {
        let words: Vec<&[u8]> = effect.arguments.view().iter().collect();
        let reply = replayed.call_bytes(replayer, &words);
        assert!(!reply.starts_with('-'), "{:?}: {reply}", effect.arguments);
    }
    // Consumers were seen at other times.
    let of_journal = |state: String| {
        let lines = state.lines().filter(|line| !line.starts_with("XINFO CONSUMERS"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let (expected, replayed) = (state(&mut server, client), state(&mut replayed, replayer));
    assert_eq!(of_journal(replayed), of_journal(expected));
}

/// A payload with its version and checksum.
fn seal(body: &[u8]) -> Vec<u8> {
    let mut payload = [body, &80_u16.to_le_bytes()].concat();
    payload.extend_from_slice(&Checksum::of(&payload).to_le_bytes());
    payload
}

#[test]
fn hostile_payloads_are_refused_or_make_a_stream_that_works() {
    let (mut server, client, _) = server();
    for number in 1..30 {
        call(&mut server, client, &format!("XADD s {number} name {number} other value"));
    }
    for line in ["XGROUP CREATE s g 0", "XGROUP CREATE s h 0", "XDEL s 3-0"] {
        call(&mut server, client, line);
    }
    call(&mut server, client, "XREADGROUP GROUP g c COUNT 5 STREAMS s >");
    call(&mut server, client, "XREADGROUP GROUP g d COUNT 5 STREAMS s >");
    let dumped = server.call_for_bytes(client, &[b"DUMP", b"s"]);
    let start = dumped.iter().position(|&byte| byte == b'\n').expect("a header") + 1;
    let body = &dumped[start..dumped.len() - 2 - 10];
    let mut random = Rng::with_seed(11);
    let (mut made_count, mut refused_count) = (0, 0);
    for _ in 0..20_000 {
        let mut mutated = body.to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(1..mutated.len());
            match random.u8(..4) {
                0 => mutated.truncate(at.max(2)),
                1 => mutated[at] = random.u8(..),
                2 => mutated[at] ^= 1 << random.u8(..8),
                _ => drop(mutated.splice(at..at, [random.u8(..)])),
            }
        }
        let payload = seal(&mutated);
        let reply = server.call_bytes(client, &[b"RESTORE", b"r", b"0", &payload, b"REPLACE"]);
        if reply != "+OK\r\n" {
            assert!(reply.starts_with("-ERR Bad data format"), "{reply}");
            refused_count += 1;
            continue;
        }
        made_count += 1;
        for line in [
            "XRANGE r - +",
            "XREVRANGE r + - COUNT 3",
            "XINFO STREAM r FULL COUNT 0",
            "XADD r * a b",
            "XREADGROUP GROUP g c COUNT 3 STREAMS r >",
            "XAUTOCLAIM r g e 0 0",
            "XGROUP DELCONSUMER r g c",
            "XTRIM r MAXLEN ~ 3",
            "XTRIM r MAXLEN 1",
            "XGROUP DESTROY r g",
            "DEL r",
        ] {
            call(&mut server, client, line);
        }
    }
    assert!(made_count > 500 && refused_count > 500, "{made_count} made, {refused_count} refused");
}
