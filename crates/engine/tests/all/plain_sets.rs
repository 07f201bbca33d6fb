//! `SET` without options where nothing is journaled or told: it takes a shorter way, and nobody
//! tells it from any other.

use tidemill_engine::commit::ActiveSinks;

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;
const OK: &str = "+OK\r\n";

/// A server without sinks.
fn quiet(worker_count: usize) -> Server {
    let mut server = Server::with_events(worker_count, START_MS, true);
    server.switch_sinks(ActiveSinks::empty());
    server
}

/// Changes since the last save.
fn changes(server: &mut Server, client: u64) -> u64 {
    let info = server.call(client, &["INFO", "persistence"]);
    let field = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    field.and_then(|value| value.parse().ok()).expect("INFO has the field")
}

#[test]
fn whatever_was_there_is_replaced() {
    let mut server = quiet(1);
    let client = server.connect(0);
    for former in [
        vec!["GET", "k"],
        vec!["SET", "k", "former"],
        vec!["SETEX", "k", "100", "former"],
        vec!["RPUSH", "k", "former"],
        vec!["SETRANGE", "k", "5000", "former"],
    ] {
        server.call(client, &["DEL", "k"]);
        server.call(client, &former);
        let before = changes(&mut server, client);
        assert_eq!(server.call(client, &["SET", "k", "12"]), OK, "{former:?}");
        assert_eq!(changes(&mut server, client), before + 1, "{former:?}");
        assert_eq!(server.call(client, &["GET", "k"]), "$2\r\n12\r\n");
        assert_eq!(server.call(client, &["TTL", "k"]), ":-1\r\n", "{former:?}");
        assert_eq!(server.call(client, &["OBJECT", "ENCODING", "k"]), "$3\r\nint\r\n");
        assert_eq!(server.call(client, &["DBSIZE"]), ":1\r\n");
    }
    let value = "x".repeat(3000);
    assert_eq!(server.call(client, &["SET", "k", &value]), OK);
    assert_eq!(server.call(client, &["GET", "k"]), format!("$3000\r\n{value}\r\n"));
    assert_eq!(server.call(client, &["DEL", "k"]), ":1\r\n");
}

#[test]
fn a_key_whose_time_is_over_is_expired_first() {
    let mut server = quiet(1);
    let client = server.connect(0);
    server.call(client, &["SET", "k", "former", "PX", "10"]);
    server.clock.advance_ms(20);
    assert_eq!(server.call(client, &["SET", "k", "v"]), OK);
    let info = server.call(client, &["INFO", "stats"]);
    assert!(info.contains("\nexpired_keys:1\r\n"), "{info}");
}

#[test]
fn who_watches_or_tracks_the_key_is_told() {
    let mut server = quiet(2);
    let (client, writer) = (server.connect(0), server.connect(1));
    server.call(client, &["HELLO", "3"]);
    server.call(client, &["WATCH", "k"]);
    assert_eq!(server.call(writer, &["SET", "k", "1"]), OK);
    server.call(client, &["MULTI"]);
    server.call(client, &["PING"]);
    assert_eq!(server.call(client, &["EXEC"]), "_\r\n");

    let told = |key: &str| format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len());
    // A name longer than what is gathered of several changes.
    let long = format!("b:{}", "x".repeat(17 << 20));
    let broadcast = &["ON", "BCAST", "PREFIX", "b:"][..];
    for (tracking, key) in [(&["ON"][..], "k"), (broadcast, "b:1"), (broadcast, &*long)] {
        server.call(client, &[&["CLIENT", "TRACKING"], tracking].concat());
        server.call(client, &["GET", key]);
        assert_eq!(server.call(writer, &["SET", key, "2"]), OK);
        let (worker, shared) = server.worker(1);
        worker.post_changes(shared);
        server.settle();
        assert!(server.take_output(client) == told(key), "{tracking:?}");
        server.call(client, &["CLIENT", "TRACKING", "OFF"]);
    }
}

#[test]
fn who_waits_for_a_list_waits_on() {
    let mut server = quiet(1);
    let (client, writer) = (server.connect(0), server.connect(0));
    assert_eq!(server.call(client, &["BLPOP", "k", "0"]), "");
    assert_eq!(server.call(writer, &["SET", "k", "v"]), OK);
    assert_eq!(server.call(writer, &["GET", "k"]), "$1\r\nv\r\n");
    assert!(server.is_blocked(client));
    server.call(writer, &["DEL", "k"]);
    assert_eq!(server.call(writer, &["RPUSH", "k", "e"]), ":1\r\n");
    server.settle();
    assert_eq!(server.take_output(client), "*2\r\n$1\r\nk\r\n$1\r\ne\r\n");
}

#[test]
fn sinks_are_told_where_there_are_any() {
    let mut server = quiet(1);
    let client = server.connect(0);
    for active in [ActiveSinks::empty(), ActiveSinks::EVENTS, ActiveSinks::JOURNAL] {
        server.switch_sinks(active);
        let _ = (server.journal.take(), server.publications.take());
        assert_eq!(server.call(client, &["SET", "k", "v"]), OK);
        let records = server.journal.take().len();
        let publications = server.publications.take().len();
        assert_eq!(records, usize::from(active == ActiveSinks::JOURNAL));
        assert_eq!(publications > 0, active == ActiveSinks::EVENTS);
    }
}

#[test]
fn subscribers_are_told_of_the_key_and_of_its_being_new() {
    let mut server = quiet(2);
    let (subscriber, writer) = (server.connect(0), server.connect(1));
    server.call(writer, &["CONFIG", "SET", "notify-keyspace-events", "EA"]);
    assert_eq!(server.call(writer, &["SET", "k", "unheard"]), OK);
    server.call(subscriber, &["PSUBSCRIBE", "__key*__:*"]);
    server.call(writer, &["CONFIG", "SET", "notify-keyspace-events", "E$n"]);
    for (key, events) in [("k", &["set"][..]), ("other", &["new", "set"])] {
        assert_eq!(server.call(writer, &["SET", key, "1"]), OK);
        server.settle();
        let told = server.take_output(subscriber);
        let named: Vec<&str> = ["new", "set", "del"]
            .into_iter()
            .filter(|event| {
                told.contains(&format!("__keyevent@0__:{event}\r\n${}\r\n{key}\r\n", key.len()))
            })
            .collect();
        assert_eq!(named, events, "{told}");
        assert_eq!(told.matches("pmessage").count(), events.len(), "{told}");
    }
}
