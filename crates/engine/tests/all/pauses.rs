//! Commands that a pause of writers holds back, and what expires meanwhile.

use std::sync::atomic::Ordering;

use crate::harness::Server;
use tidemill_engine::execute::Next;
use tidemill_engine::slots::parking::WakeUp;

const START_MS: u64 = 1_700_000_000_000;
const READER: &str = "#!lua flags=no-writes\nreturn 7";
const WRITER: &str = "return 7";
const WRITER_DIGEST: &str = "59b6ab2fbe0ee4b25733de0f62e6cda4899ef8e9";

/// True if a command waits for the end of the pause.
fn waits(server: &mut Server, connection: u64, words: &[&str]) -> bool {
    let mut input = format!("*{}\r\n", words.len());
    for word in words {
        input.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    server.turn_once(connection, input.as_bytes()) == Next::WakeUp(WakeUp::PauseEnd)
}

fn paused() -> (Server, u64, u64) {
    let mut server = Server::new(1, START_MS);
    let (admin, client) = (server.connect(0), server.connect(0));
    let library = "#!lua name=lib\nserver.register_function{function_name='reads', \
                   callback=function() return 7 end, flags={'no-writes'}}";
    server.call(admin, &["FUNCTION", "LOAD", library]);
    server.call(admin, &["PFADD", "h", "a"]);
    assert_eq!(server.call(admin, &["CLIENT", "PAUSE", "60000", "WRITE"]), "+OK\r\n");
    (server, admin, client)
}

#[test]
fn what_may_replicate_waits() {
    for words in [
        &["SET", "k", "v"][..],
        &["PFCOUNT", "h"],
        &["PUBLISH", "channel", "message"],
        &["SPUBLISH", "channel", "message"],
        &["EVAL", WRITER, "0"],
        &["EVAL", "#!lua\nreturn 7", "0"],
    ] {
        let (mut server, admin, client) = paused();
        assert!(waits(&mut server, client, words), "{words:?}");
        // Nothing of it has run.
        assert_eq!(server.call(admin, &["SCRIPT", "EXISTS", WRITER_DIGEST]), "*1\r\n:0\r\n");
        server.call(admin, &["CLIENT", "UNPAUSE"]);
        assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 }, "{words:?}");
        assert_ne!(server.take_output(client), "", "{words:?}");
    }
}

#[test]
fn scripts_that_declare_that_they_do_not_write_go_on() {
    let (mut server, admin, client) = paused();
    let digest = server.call(admin, &["SCRIPT", "LOAD", READER]);
    let digest = digest.lines().nth(1).expect("a bulk string").to_owned();
    for words in [
        &["EVAL", READER, "0"][..],
        &["EVALSHA", &digest, "0"],
        &["EVAL_RO", WRITER, "0"],
        &["FCALL", "reads", "0"],
    ] {
        assert_eq!(server.call(client, words), ":7\r\n", "{words:?}");
    }
    server.call(client, &["MULTI"]);
    server.call(client, &["EVAL", READER, "0"]);
    assert_eq!(server.call(client, &["EXEC"]), "*1\r\n:7\r\n");
    server.call(admin, &["CLIENT", "UNPAUSE"]);
    server.call(client, &["MULTI"]);
    server.call(client, &["EVAL", WRITER, "0"]);
    server.call(admin, &["CLIENT", "PAUSE", "60000", "WRITE"]);
    assert!(waits(&mut server, client, &["EXEC"]));
}

#[test]
fn nothing_is_written_behind_a_pause_that_begins_within_a_batch() {
    let mut server = Server::with_events(1, START_MS, true);
    let client = server.connect(0);
    server.publications.pauses_at.lock().expect("no panic").replace("first".to_owned());
    let next = server.turn_once(client, b"SET before v\r\nSET first v\r\nSET second v\r\n");
    assert_eq!(next, Next::WakeUp(WakeUp::PauseEnd));
    assert_eq!(server.take_output(client), "+OK\r\n+OK\r\n");
    server.shared.unpause();
    assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
    assert_eq!(server.take_output(client), "+OK\r\n");
}

#[test]
fn reads_delete_nothing_that_expired_and_a_random_key_may_have() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    server.call(client, &["SET", "k", "v", "PX", "5"]);
    server.call(client, &["CLIENT", "PAUSE", "60000", "WRITE"]);
    server.clock.advance_ms(10);
    assert_eq!(server.call(client, &["GET", "k"]), "$-1\r\n");
    assert_eq!(server.call(client, &["DBSIZE"]), ":1\r\n");
    assert_eq!(server.call(client, &["RANDOMKEY"]), "$1\r\nk\r\n");
    server.call(client, &["CLIENT", "UNPAUSE"]);
    assert_eq!(server.call(client, &["GET", "k"]), "$-1\r\n");
    assert_eq!(server.call(client, &["DBSIZE"]), ":0\r\n");
    assert_eq!(server.call(client, &["RANDOMKEY"]), "$-1\r\n");
}

#[test]
fn commands_behind_multi_wait_to_be_queued() {
    for (mode, words) in [
        ("WRITE", &["SET", "k", "v"][..]),
        ("WRITE", &["PUBLISH", "channel", "message"]),
        ("WRITE", &["EVAL", WRITER, "0"]),
        ("ALL", &["SET", "k", "v"]),
        ("ALL", &["PING"]),
    ] {
        let mut server = Server::new(1, START_MS);
        let (admin, client) = (server.connect(0), server.connect(0));
        server.call(client, &["MULTI"]);
        server.call(admin, &["CLIENT", "PAUSE", "60000", mode]);
        assert!(waits(&mut server, client, words), "{mode} {words:?}");
        let shown = server.shared.clients.find(client).expect("it is connected");
        assert!(shown.is_postponed.load(Ordering::Relaxed));
        server.shared.unpause();
        assert_eq!(server.turn_once(client, b""), Next::Input { wanted: 1 });
        assert_eq!(server.take_output(client), "+QUEUED\r\n");
        assert!(server.call(client, &["EXEC"]).starts_with("*1\r\n"), "{mode} {words:?}");
    }
    let (mut server, _, client) = paused();
    server.call(client, &["MULTI"]);
    assert_eq!(server.call(client, &["GET", "k"]), "+QUEUED\r\n");
}

#[test]
fn a_transaction_that_will_be_refused_does_not_wait() {
    for is_watched in [true, false] {
        let mut server = Server::new(1, START_MS);
        let (admin, client) = (server.connect(0), server.connect(0));
        if is_watched {
            server.call(client, &["WATCH", "k"]);
        }
        server.call(client, &["MULTI"]);
        server.call(client, &["SET", "k", "v"]);
        server.call(admin, &["SET", "k", "other"]);
        if !is_watched {
            server.call(client, &["NOSUCH"]);
        }
        server.call(admin, &["CLIENT", "PAUSE", "60000", "WRITE"]);
        let expected = match is_watched {
            true => "*-1\r\n",
            false => "-EXECABORT Transaction discarded because of previous errors.\r\n",
        };
        assert_eq!(server.call(client, &["EXEC"]), expected);
    }
}
