//! Clients as others see them, and limits over all of them.

use std::sync::atomic::Ordering;

use tidemill_engine::execute::Next;

use super::harness::Server;

const NOW_MS: u64 = 1_700_000_000_000;
const MEGABYTE: u64 = 1 << 20;

/// Lets a client have this much input that is not executed.
fn pile_up(server: &mut Server, client: u64, bytes: u64) {
    let client = server.worker(0).1.clients.find(client).expect("it is connected");
    client.pending_memory_bytes.store(bytes, Ordering::Relaxed);
}

/// Those of the clients that `CLIENT LIST` shows.
fn listed(server: &mut Server, asker: u64, clients: &[u64]) -> Vec<u64> {
    let list = server.call(asker, &["CLIENT", "LIST"]);
    let is_listed = |client: &u64| list.contains(&format!("id={client} "));
    clients.iter().copied().filter(is_listed).collect()
}

#[test]
fn a_lowered_limit_kills_the_largest_clients_of_all_workers_and_no_more_than_needed() {
    let mut server = Server::new(2, NOW_MS);
    let clients: Vec<u64> = (0..6).map(|index| server.connect(index % 2)).collect();
    let [caller, spared, small, large, middle, late] = clients[..] else { unreachable!() };
    server.call(spared, &["CLIENT", "NO-EVICT", "on"]);
    for (client, megabytes) in [(spared, 9), (small, 1), (large, 8), (middle, 4), (late, 2)] {
        pile_up(&mut server, client, megabytes * MEGABYTE);
    }
    let limit = |server: &mut Server, value: &str| {
        assert_eq!(server.call(caller, &["CONFIG", "SET", "maxmemory-clients", value]), "+OK\r\n");
    };
    limit(&mut server, "25mb");
    assert_eq!(listed(&mut server, caller, &clients), clients, "24 MiB and a little fit");
    limit(&mut server, "17mb");
    let left = [caller, spared, small, middle, late];
    assert_eq!(listed(&mut server, caller, &clients), left, "the largest was enough");
    assert_eq!(server.turn_once(large, b"SET k v\r\n"), Next::Close);
    assert_eq!(server.call(caller, &["EXISTS", "k"]), ":0\r\n");
    for value in ["18mb", "0", "17mb"] {
        limit(&mut server, value);
        assert_eq!(listed(&mut server, caller, &clients), left, "{value}: not more than before");
    }
    // Killed clients do not count: they are about to go.
    server.call(caller, &["CLIENT", "KILL", "ID", &late.to_string()]);
    limit(&mut server, "15mb");
    assert_eq!(listed(&mut server, caller, &clients), [caller, spared, small, middle]);
    // A part of `maxmemory` sinks with it.
    limit(&mut server, "50%");
    server.call(caller, &["CONFIG", "SET", "maxmemory", "24mb"]);
    assert_eq!(listed(&mut server, caller, &clients), [caller, spared, small]);
    // The same in a transaction; clients with NO-EVICT are spared whatever they take.
    server.call(caller, &["MULTI"]);
    server.call(caller, &["CONFIG", "SET", "maxmemory-clients", "128kb"]);
    assert!(server.call(caller, &["EXEC"]).ends_with("+OK\r\n"));
    assert_eq!(listed(&mut server, caller, &clients), [caller, spared]);
}

/// Workers see the new limit while the command that lowered it chooses.
#[test]
fn threads_that_choose_at_once_evict_no_more_than_needed() {
    const CLIENTS: usize = 1_000;
    for round in 0..10 {
        let mut server = Server::new(2, NOW_MS);
        let clients: Vec<u64> = (0..CLIENTS).map(|index| server.connect(index % 2)).collect();
        for &client in &clients {
            pile_up(&mut server, client, MEGABYTE);
        }
        let shared = server.worker(0).1;
        let one = shared.clients.find(clients[0]).expect("it is connected");
        let limit_bytes = CLIENTS as u64 / 2 * one.memory_bytes();
        let ready = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    ready.wait();
                    shared.evict_clients(limit_bytes, None);
                });
            }
        });
        let left = clients.iter().filter_map(|&client| shared.clients.find(client));
        assert_eq!(left.filter(|client| !client.is_ending()).count(), CLIENTS / 2, "round {round}");
    }
}

#[test]
fn a_caller_that_is_the_largest_is_answered_before_it_is_evicted() {
    let mut server = Server::new(1, NOW_MS);
    let (caller, other) = (server.connect(0), server.connect(0));
    pile_up(&mut server, caller, 4 * MEGABYTE);
    let next = server.turn_once(caller, b"CONFIG SET maxmemory-clients 1mb\r\n");
    assert!(matches!(next, Next::Input { .. }), "{next:?}");
    let messages = format!("{:?}", server.worker(0).1.mailboxes.take(0));
    assert!(messages.contains(&format!("Evict {{ session: {caller} }}")), "{messages}");
    assert_eq!(server.take_output(caller), "+OK\r\n");
    assert_eq!(listed(&mut server, other, &[other]), [other]);
    // It is about to go, so no other has to.
    server.worker(0).1.evict_clients(MEGABYTE, None);
    assert_eq!(format!("{:?}", server.worker(0).1.mailboxes.take(0)), "[]");
}

#[test]
fn a_protected_client_is_shown_once_killed_and_executes_nothing() {
    let mut server = Server::new(2, NOW_MS);
    let (caller, client) = (server.connect(0), server.connect(1));
    let id = client.to_string();
    let shown = server.worker(0).1.clients.find(client).expect("it is connected");
    shown.is_protected.store(true, Ordering::Relaxed);
    assert_eq!(server.call(client, &["INCR", "k"]), ":1\r\n", "nobody has killed it");
    server.call(caller, &["CLIENT", "KILL", "ID", &id]);
    assert!(server.call(caller, &["CLIENT", "LIST", "ID", &id]).contains(" flags=A"));
    assert_eq!(server.turn_once(client, b"INCR k\r\n"), Next::Close);
    assert_eq!(server.call(caller, &["GET", "k"]), "$1\r\n1\r\n");
}

#[test]
fn libraries_are_compared_with_the_bytes_behind_a_nul() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["CLIENT", "SETINFO", "LIB-VER", "\0v"]);
    for (words, is_listed) in [
        (&["NOT-LIB-VER", ""], true),
        (&["LIB-VER", ""], false),
        (&["LIB-VER", "\0v"], true),
        (&["NOT-LIB-VER", "\0v"], false),
    ] {
        let reply = server.call(client, &["CLIENT", "LIST", words[0], words[1]]);
        assert_eq!(reply.contains("id="), is_listed, "{words:?}: {reply}");
    }
}

/// Commands behind an error take no memory, so that a client that goes on reaches no limit.
#[test]
fn a_transaction_that_will_be_refused_keeps_no_commands() {
    let mut server = Server::new(1, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(0));
    let id = client.to_string();
    let shown = |server: &mut Server| {
        let line = server.call(other, &["CLIENT", "LIST", "ID", &id]);
        let fields = line.split(' ').filter(|field| field.starts_with("multi"));
        fields.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(server.call(client, &["RESET"]), "+RESET\r\n");
    assert_eq!(shown(&mut server), "multi=-1 multi-mem=0", "it never used MULTI");
    server.call(client, &["MULTI"]);
    server.call(client, &["SET", "k", "v"]);
    assert!(shown(&mut server).starts_with("multi=1 "));
    server.call(client, &["NOSUCH"]);
    assert_eq!(shown(&mut server), "multi=0 multi-mem=0");
    assert_eq!(server.call(client, &["SET", "k", "v"]), "+QUEUED\r\n");
    assert_eq!(shown(&mut server), "multi=0 multi-mem=0");
    assert!(server.call(client, &["EXEC"]).starts_with("-EXECABORT"));
    // The same where a watched key has changed.
    server.call(client, &["WATCH", "k"]);
    server.call(client, &["SET", "k", "v"]);
    server.call(client, &["MULTI"]);
    assert_eq!(server.call(client, &["SET", "k", "v"]), "+QUEUED\r\n");
    assert_eq!(shown(&mut server), "multi=0 multi-mem=0");
    assert_eq!(server.call(client, &["EXEC"]), "*-1\r\n");
    assert_eq!(server.call(client, &["MULTI"]), "+OK\r\n");
    assert_eq!(server.call(client, &["PING"]), "+QUEUED\r\n");
    assert_eq!(server.call(client, &["EXEC"]), "*1\r\n+PONG\r\n");
    server.call(client, &["RESET"]);
    assert_eq!(shown(&mut server), "multi=0 multi-mem=0");
}

#[test]
fn debug_commands_run_within_a_transaction() {
    let mut server = Server::with_debug(2, NOW_MS);
    let client = server.connect(0);
    let exec = |server: &mut Server, commands: &[&str]| {
        server.call(client, &["MULTI"]);
        for command in commands {
            server.call(client, &command.split(' ').collect::<Vec<_>>());
        }
        server.call(client, &["EXEC"])
    };
    server.call(client, &["SET", "k", "v"]);
    let digest = server.call(client, &["DEBUG", "DIGEST-VALUE", "k"]);
    let digest = digest.strip_prefix("*1\r\n").expect("one key");
    server.call(client, &["DEL", "k"]);
    let replies = exec(&mut server, &["SET k v", "DEBUG DIGEST-VALUE k"]);
    assert_eq!(replies, format!("*2\r\n+OK\r\n*1\r\n{digest}"));
    assert_eq!(exec(&mut server, &["DEBUG POPULATE 2 a"]), "*1\r\n+OK\r\n");
    let replies = exec(&mut server, &["SET b:0 v", "DEBUG POPULATE 2 b"]);
    assert!(replies.starts_with("*2\r\n+OK\r\n-ERR DEBUG POPULATE is not"), "{replies}");
    assert_eq!(server.call(client, &["DBSIZE"]), ":4\r\n");
}

/// A name of any length would outlast its client there, once for each entry.
#[test]
fn long_names_are_cut_in_logs() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    server.call(client, &["CLIENT", "SETNAME", &"n".repeat(50_000)]);
    server.call(client, &["PING"]);
    server.call(client, &["AUTH", "nobody", "wrong"]);
    let entries = server.call(client, &["SLOWLOG", "GET", "1"]);
    let cut = format!("{}... (33616 more bytes)", "n".repeat(16 << 10));
    assert!(entries.ends_with(&format!("\r\n{cut}\r\n")), "{entries}");
    let entries = server.call(client, &["ACL", "LOG"]);
    assert!(entries.contains("name=nnn") && entries.len() < 17_000, "{}", entries.len());
}

/// Words of a client's line that are about its watched keys.
fn watch_words(server: &mut Server, asker: u64, client: u64) -> String {
    let line = server.call(asker, &["CLIENT", "LIST", "ID", &client.to_string()]);
    let is_asked = |word: &&str| word.starts_with("flags=") || word.starts_with("watch=");
    line.split(' ').filter(is_asked).collect::<Vec<_>>().join(" ")
}

/// As Valkey shows them: a key that changed ends the watch, a database that was emptied does not.
#[test]
fn a_watch_that_a_key_ended_shows_no_keys() {
    let mut server = Server::new(1, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(0));
    server.call(client, &["WATCH", "a", "b"]);
    assert_eq!(watch_words(&mut server, other, client), "flags=U watch=2");
    server.call(other, &["SET", "a", "1"]);
    assert_eq!(watch_words(&mut server, other, client), "flags=dU watch=0");
    let info = server.call(other, &["INFO", "clients"]);
    assert!(info.contains("watching_clients:0\r\ntotal_watched_keys:0\r\n"), "{info}");
    assert_eq!(server.call(client, &["WATCH", "c"]), "+OK\r\n");
    assert_eq!(watch_words(&mut server, other, client), "flags=dU watch=0");
    server.call(client, &["UNWATCH"]);
    server.call(client, &["WATCH", "a", "b"]);
    server.call(other, &["FLUSHDB"]);
    server.call(client, &["WATCH", "c"]);
    assert_eq!(watch_words(&mut server, other, client), "flags=dU watch=2");
    server.call(other, &["SET", "b", "1"]);
    assert_eq!(watch_words(&mut server, other, client), "flags=dU watch=0");
    server.call(client, &["MULTI"]);
    assert_eq!(server.call(client, &["EXEC"]), "*-1\r\n");
}
