//! Channels over several workers: order against replies, ends of subscriptions, events.

use tidemill_engine::execute::limit_tracked;

use crate::harness::Server;

const NOW_MS: u64 = 1_800_000_000_000;

fn text(reply: &str) -> String {
    reply.replace("\r\n", " ")
}

#[test]
fn own_message_follows_the_reply_and_precedes_the_next_one() {
    let mut server = Server::new(2, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["HELLO", "3"]);
    server.call(client, &["SUBSCRIBE", "c"]);
    let mut both = Vec::new();
    for call in ["*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1\r\nm\r\n", "*1\r\n$4\r\nPING\r\n"] {
        both.extend_from_slice(call.as_bytes());
    }
    let _ = server.turn_once(client, &both);
    let heard = text(&server.take_output(client));
    assert_eq!(heard, ":1 >3 $7 message $1 c $1 m +PONG ");
    let heard = text(&server.call(client, &["PUBLISH", "c", "n"]));
    assert_eq!(heard, ":1 >3 $7 message $1 c $1 n ");
}

#[test]
fn message_of_a_transaction_follows_its_whole_reply() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["HELLO", "3"]);
    server.call(client, &["MULTI"]);
    for call in [&["SUBSCRIBE", "a", "b"][..], &["PUBLISH", "a", "m"], &["ECHO", "e"]] {
        server.call(client, call);
    }
    let confirmed = ">3 $9 subscribe $1 a :1 >3 $9 subscribe $1 b :2 ";
    let message = ">3 $7 message $1 a $1 m ";
    assert_eq!(text(&server.call(client, &["EXEC"])), format!("*3 {confirmed}:1 $1 e {message}"));
}

#[test]
fn message_of_a_transaction_reaches_a_subscription_that_it_ends() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["HELLO", "3"]);
    server.call(client, &["SUBSCRIBE", "c"]);
    server.call(client, &["MULTI"]);
    server.call(client, &["PUBLISH", "c", "m"]);
    server.call(client, &["UNSUBSCRIBE", "c"]);
    let heard = text(&server.call(client, &["EXEC"]));
    assert_eq!(heard, "*2 :1 >3 $11 unsubscribe $1 c :0 >3 $7 message $1 c $1 m ");
}

#[test]
fn session_stays_with_its_worker_while_its_inbox_may_have_something() {
    let mut server = Server::new(2, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["HELLO", "3"]);
    assert!(server.is_movable(client));
    server.call(client, &["SUBSCRIBE", "c"]);
    server.call(client, &["MULTI"]);
    server.call(client, &["PUBLISH", "c", "m"]);
    server.call(client, &["UNSUBSCRIBE"]);
    let _ = server.turn_once(client, b"EXEC\r\n");
    assert!(!server.take_output(client).contains("message"), "it is in the inbox");
    assert!(!server.is_movable(client));
    let _ = server.turn_once(client, b"PING\r\n");
    assert_eq!(text(&server.take_output(client)), ">3 $7 message $1 c $1 m +PONG ");
    assert!(server.is_movable(client));
}

#[test]
fn what_was_posted_precedes_the_end_of_a_subscription() {
    let mut server = Server::new(2, NOW_MS);
    let (subscriber, publisher) = (server.connect(0), server.connect(1));
    for (begin, end, channel) in [
        ("SUBSCRIBE", "UNSUBSCRIBE", "c"),
        ("PSUBSCRIBE", "PUNSUBSCRIBE", "c*"),
        ("SSUBSCRIBE", "SUNSUBSCRIBE", "c"),
    ] {
        let publish = if begin == "SSUBSCRIBE" { "SPUBLISH" } else { "PUBLISH" };
        server.call(subscriber, &[begin, channel]);
        // The subscriber's worker has no turn in between.
        assert_eq!(server.ask(publisher, &[publish, "c", "before"]), ":1\r\n");
        let heard = text(&server.ask(subscriber, &[end]));
        let (message, confirmation) = heard.split_once("before ").expect("the message is there");
        assert!(message.contains("message") && confirmation.contains("unsubscribe"), "{heard}");
        assert_eq!(server.ask(publisher, &[publish, "c", "behind"]), ":0\r\n");
    }
    server.settle();
    assert_eq!(server.take_output(subscriber), "");
}

#[test]
fn what_was_posted_before_a_subscription_is_not_for_it() {
    let mut server = Server::new(2, NOW_MS);
    let (first, second) = (server.connect(0), server.connect(0));
    let publisher = server.connect(1);
    for (begin, channel) in [("SUBSCRIBE", "c"), ("PSUBSCRIBE", "*c"), ("SSUBSCRIBE", "c")] {
        let publish = if begin == "SSUBSCRIBE" { "SPUBLISH" } else { "PUBLISH" };
        server.call(first, &[begin, channel]);
        server.ask(publisher, &[publish, "c", "early"]);
        let mut heard = server.ask(second, &[begin, channel]);
        server.settle();
        heard.push_str(&server.take_output(second));
        assert!(!heard.contains("early"), "{heard}");
        assert!(server.take_output(first).contains("early"));
        server.call(first, &["RESET"]);
        server.call(second, &["RESET"]);
    }
}

#[test]
fn ended_client_leaves_no_subscription() {
    let mut server = Server::new(2, NOW_MS);
    let other = server.connect(1);
    let subscriber = server.connect(0);
    server.call(subscriber, &["SUBSCRIBE", "a", "b"]);
    server.call(subscriber, &["PSUBSCRIBE", "a*", "*b"]);
    server.call(subscriber, &["SSUBSCRIBE", "a"]);
    assert_eq!(server.ask(other, &["PUBLISH", "a", "m"]), ":2\r\n");
    server.disconnect(subscriber);
    assert_eq!(server.call(other, &["PUBLISH", "a", "m"]), ":0\r\n");
    for question in [&["PUBSUB", "CHANNELS"][..], &["PUBSUB", "SHARDCHANNELS"]] {
        assert_eq!(server.call(other, question), "*0\r\n");
    }
    assert_eq!(server.call(other, &["PUBSUB", "NUMPAT"]), ":0\r\n");
}

#[test]
fn confirmations_are_not_silenced_and_keep_their_place() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["CLIENT", "REPLY", "OFF"]);
    let heard = text(&server.call(client, &["UNSUBSCRIBE"]));
    assert_eq!(heard, "*3 $11 unsubscribe $-1 :0 ");
    assert_eq!(text(&server.call(client, &["SUBSCRIBE", "c"])), "*3 $9 subscribe $1 c :1 ");
    assert_eq!(server.call(client, &["PING"]), "", "an answer is silenced");
}

#[test]
fn misses_are_told_once_and_before_other_events() {
    let mut server = Server::new(2, NOW_MS);
    let (listener, client) = (server.connect(0), server.connect(1));
    server.call(client, &["CONFIG", "SET", "notify-keyspace-events", "EAmn"]);
    server.call(listener, &["PSUBSCRIBE", "__keyevent@0__:*"]);
    let mut events = |call: &[&str]| -> Vec<String> {
        server.call(client, call);
        server.settle();
        let heard = server.take_output(listener);
        let events = heard.split("__keyevent@0__:").skip(2).step_by(2);
        events
            .map(|event| event.split("\r\n").step_by(2).take(2).collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(events(&["GET", "no"]), ["keymiss no"]);
    assert_eq!(events(&["SET", "k", "v", "GET"]), ["keymiss k", "new k", "set k"]);
    assert_eq!(events(&["MGET", "k", "no", "none"]), ["keymiss no", "keymiss none"]);
    assert_eq!(events(&["BITOP", "AND", "k", "no"]), ["keymiss no", "del k"]);
    assert!(events(&["OBJECT", "ENCODING", "no"]).is_empty());
}

#[test]
fn keys_of_an_ended_client_are_forgotten_behind_those_that_stay_in_the_same_slot() {
    let mut server = Server::new(1, NOW_MS);
    let (ending, staying) = (server.connect(0), server.connect(0));
    // More keys of one slot than are looked at under its lock in one go, and the first ones stay.
    for (client, keys) in [(staying, 0..1500), (ending, 1000..4000)] {
        server.call(client, &["HELLO", "3"]);
        server.call(client, &["CLIENT", "TRACKING", "ON"]);
        for key in keys {
            server.call(client, &["GET", &format!("{{tag}}{key}")]);
        }
    }
    let totals = |server: &mut Server| {
        let totals = &server.worker(0).1.tracking.totals;
        (totals.keys(), totals.items())
    };
    assert_eq!(totals(&mut server), (4000, 4500));
    server.disconnect(ending);
    for _ in 0..10 {
        let (worker, shared) = server.worker(0);
        limit_tracked(shared, worker);
    }
    assert_eq!(totals(&mut server), (1500, 1500));
    server.call(staying, &["CLIENT", "TRACKING", "OFF"]);
    let (worker, shared) = server.worker(0);
    limit_tracked(shared, worker);
    assert_eq!(totals(&mut server), (0, 0), "a second round begins at the first key");
}

/// A session that receives already, and speaks RESP3 since before.
#[test]
fn a_monitor_that_subscribes_or_tracks_is_told_in_its_protocol() {
    let mut server = Server::new(1, NOW_MS);
    let (monitor, other) = (server.connect(0), server.connect(0));
    server.call(monitor, &["HELLO", "3"]);
    let mut received = |line: &[u8]| {
        server.turn_once(monitor, line);
        server.settle();
        server.take_output(monitor);
        server.call(other, &["PUBLISH", "c", "message"]);
        server.call(other, &["SET", "k", "v"]);
        let (worker, shared) = server.worker(0);
        worker.post_changes(shared);
        server.settle();
        server.take_output(monitor)
    };
    let lines = received(b"MONITOR\r\nPING\r\nSUBSCRIBE c\r\n");
    assert!(lines.contains(">3\r\n$7\r\nmessage\r\n"), "{lines}");
    let lines = received(b"RESET\r\nHELLO 3\r\nMONITOR\r\nPING\r\nCLIENT TRACKING on BCAST\r\n");
    assert!(lines.contains(">2\r\n$10\r\ninvalidate\r\n"), "{lines}");
}

#[test]
fn a_monitor_that_wants_no_replies_gets_no_lines() {
    let mut server = Server::new(1, NOW_MS);
    let (monitor, other) = (server.connect(0), server.connect(0));
    let received = |server: &mut Server, words: &[&str]| {
        server.call(monitor, words);
        server.take_output(monitor);
        server.call(other, &["SET", "k", "v"]);
        server.take_output(monitor).contains("\"SET\" \"k\"")
    };
    assert!(!received(&mut server, &["CLIENT", "REPLY", "OFF"]));
    assert!(!received(&mut server, &["MONITOR"]));
    assert!(received(&mut server, &["CLIENT", "REPLY", "ON"]));
    assert!(received(&mut server, &["CLIENT", "REPLY", "ON"]));
    assert!(!received(&mut server, &["CLIENT", "REPLY", "OFF"]));
    assert!(!received(&mut server, &["RESET"]));
    assert!(received(&mut server, &["MONITOR"]));
}

#[test]
fn a_prefix_behind_the_empty_one_overlaps_with_it() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let mut broadcast = |prefix: &[&str]| {
        server.call(client, &[&["CLIENT", "TRACKING", "ON", "BCAST"], prefix].concat())
    };
    assert_eq!(broadcast(&["PREFIX", "foo"]), "+OK\r\n");
    assert_eq!(broadcast(&[]), "+OK\r\n", "it is not compared");
    for prefix in ["fzz", "a", "foo", "food", ""] {
        let reply = broadcast(&["PREFIX", prefix]);
        let text = format!("-ERR Prefix '{prefix}' overlaps with an existing prefix ''.");
        assert!(reply.starts_with(&text), "{reply}");
    }
}

/// `PFCOUNT` changes what is kept in the key, and its client has read that.
#[test]
fn a_count_that_is_kept_in_its_key_stays_tracked() {
    for count in [&["PFCOUNT", "h"][..], &["EVAL", "return redis.call('pfcount', 'h')", "0"]] {
        let mut server = Server::new(2, NOW_MS);
        let (client, other) = (server.connect(0), server.connect(1));
        server.call(client, &["HELLO", "3"]);
        server.call(client, &["CLIENT", "TRACKING", "on", "NOLOOP"]);
        for element in ["a", "b"] {
            server.call(other, &["PFADD", "h", element]);
            server.take_output(client);
            let counted = server.call(client, count);
            assert!(counted.starts_with(':') && !counted.contains('>'), "{counted}");
        }
        server.call(other, &["PFADD", "h", "c"]);
        assert!(server.take_output(client).contains("invalidate"), "{count:?}");
    }
}
