//! Ways by which a command reaches its keys, each with a user who may not.

use super::harness::Server;

const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";
const NO_GET: &str = "-NOPERM User u has no permissions to run the 'get' command\r\n";
const OK: &str = "+OK\r\n";

/// A server of two workers: an administrator on the first, on the second a client of the user `u`,
/// who has these rules then.
fn server(rules: &[&str]) -> (Server, u64, u64) {
    let mut server = Server::new(2, 1_000_000);
    let (admin, client) = (server.connect(0), server.connect(1));
    let everything = ["ACL", "SETUSER", "u", "on", ">p", "+@all", "allkeys", "allchannels"];
    assert_eq!(server.call(admin, &everything), OK);
    assert_eq!(server.call(client, &["AUTH", "u", "p"]), OK);
    set(&mut server, admin, rules);
    (server, admin, client)
}

fn set(server: &mut Server, admin: u64, rules: &[&str]) {
    let words = [&["ACL", "SETUSER", "u"], rules].concat();
    assert_eq!(server.call(admin, &words), OK, "{rules:?}");
}

#[test]
fn brief_reads_are_judged() {
    let (mut server, admin, client) = server(&["resetkeys", "~a*"]);
    server.call(admin, &["SET", "a", "1"]);
    assert_eq!(server.call(client, &["GET", "a"]), "$1\r\n1\r\n");
    assert_eq!(server.call(client, &["GET", "b"]), NO_KEY);
    assert_eq!(server.call(client, &["EXISTS", "a", "b"]), NO_KEY, "not the first key alone");
    // A user who may only write a key may not read it, but may ask whether it is there.
    set(&mut server, admin, &["%W~b*"]);
    assert_eq!(server.call(client, &["GET", "b"]), NO_KEY);
    assert_eq!(server.call(client, &["EXISTS", "b"]), ":0\r\n");
    // All keys, but not this command: it is judged without its arguments.
    set(&mut server, admin, &["allkeys", "-get"]);
    assert_eq!(server.call(client, &["GET", "a"]), NO_GET);
    assert_eq!(server.call(client, &["STRLEN", "a"]), ":1\r\n");
    set(&mut server, admin, &["+get", "db=3"]);
    let denied = "-NOPERM No permissions to access database\r\n";
    assert_eq!(server.call(client, &["GET", "a"]), denied);
}

#[test]
fn a_change_holds_on_the_other_worker_once_it_is_answered() {
    let (mut server, admin, client) = server(&[]);
    for _ in 0..3 {
        assert_eq!(server.call(client, &["GET", "a"]), "$-1\r\n");
        set(&mut server, admin, &["-get"]);
        assert_eq!(server.call(client, &["GET", "a"]), NO_GET);
        set(&mut server, admin, &["+get"]);
    }
}

#[test]
fn a_change_holds_for_requests_behind_it_in_the_same_batch() {
    let (mut server, _, client) = server(&[]);
    let input = "ACL SETUSER u -get\r\nGET a\r\nSTRLEN a\r\n";
    server.turn_once(client, input.as_bytes());
    assert_eq!(server.take_output(client), format!("{OK}{NO_GET}:0\r\n"));
}

#[test]
fn queued_commands_are_judged_when_they_are_queued_and_when_they_run() {
    let (mut server, admin, client) = server(&["resetkeys", "~a*"]);
    assert_eq!(server.call(client, &["MULTI"]), OK);
    assert_eq!(server.call(client, &["SET", "b", "1"]), NO_KEY);
    assert!(server.call(client, &["EXEC"]).starts_with("-EXECABORT"));
    server.call(client, &["MULTI"]);
    for words in [&["SET", "a1", "1"][..], &["GET", "a2"], &["INCR", "a1"]] {
        assert_eq!(server.call(client, words), "+QUEUED\r\n");
    }
    set(&mut server, admin, &["-set", "resetkeys", "~a1"]);
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated \
                   and the EXEC call. This command is no longer allowed for the following reason: \
                   no permission";
    assert_eq!(
        server.call(client, &["EXEC"]),
        format!(
            "*3\r\n{changed} to execute the command or subcommand\r\n{changed} to touch the \
             specified keys\r\n:1\r\n"
        )
    );
    // By a command of the same transaction.
    server.call(client, &["MULTI"]);
    server.call(client, &["ACL", "SETUSER", "u", "-incr"]);
    server.call(client, &["INCR", "a1"]);
    let reply = server.call(client, &["EXEC"]);
    assert_eq!(reply, format!("*2\r\n{OK}{changed} to execute the command or subcommand\r\n"));
    assert_eq!(server.call(admin, &["GET", "a1"]), "$1\r\n1\r\n");
    // A denied command was not called, and failed or was rejected no more than in Valkey.
    let info = server.call(admin, &["INFO", "commandstats"]);
    let line = |name: &str| info.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("cmdstat_incr:").starts_with("cmdstat_incr:calls=1,"), "{info}");
    assert!(line("cmdstat_incr:").ends_with("rejected_calls=0,failed_calls=0"), "{info}");
    assert!(line("cmdstat_set:").ends_with("rejected_calls=1,failed_calls=0"), "{info}");
    assert!(line("cmdstat_set:").starts_with("cmdstat_set:calls=0,"), "{info}");
}

#[test]
fn a_blocked_client_is_judged_when_it_is_served() {
    for rules in [&["resetkeys"][..], &["-blmove"], &["resetkeys", "~list"]] {
        let (mut server, admin, client) = server(&[]);
        let next = server.connect(1);
        let words = ["BLMOVE", "list", "target", "LEFT", "LEFT", "0"];
        assert_eq!(server.call(client, &words), "");
        assert_eq!(server.call(next, &["BLPOP", "list", "0"]), "");
        set(&mut server, admin, rules);
        assert_eq!(server.call(admin, &["RPUSH", "list", "v"]), ":1\r\n");
        assert!(server.take_output(client).starts_with("-NOPERM "), "{rules:?}");
        assert!(!server.is_blocked(client));
        // A refused client takes nothing from those behind.
        assert_eq!(server.take_output(next), "*2\r\n$4\r\nlist\r\n$1\r\nv\r\n");
    }
}

#[test]
fn keys_that_elements_name_need_permission_on_all_keys() {
    let denied = |option: &str| {
        format!("-ERR {option} option of SORT denied due to insufficient ACL permissions.\r\n")
    };
    let (mut server, admin, client) = server(&["resetkeys", "~a", "~w_*"]);
    server.call(admin, &["RPUSH", "a", "1", "2"]);
    let sorted = "*2\r\n$1\r\n1\r\n$1\r\n2\r\n";
    assert_eq!(server.call(client, &["SORT", "a", "BY", "w_*"]), denied("BY"));
    assert_eq!(server.call(client, &["SORT_RO", "a", "GET", "w_*"]), denied("GET"));
    assert_eq!(server.call(client, &["SORT", "a", "BY", "nosort"]), sorted);
    server.call(client, &["MULTI"]);
    server.call(client, &["SORT", "a", "BY", "w_*"]);
    assert_eq!(server.call(client, &["EXEC"]), format!("*1\r\n{}", denied("BY")));
    set(&mut server, admin, &["%R~*"]);
    assert_eq!(server.call(client, &["SORT", "a", "BY", "w_*"]), sorted);
    assert_eq!(server.call(client, &["SORT", "a", "STORE", "b"]), NO_KEY);
    // The permission of one command does not stay for the next.
    set(&mut server, admin, &["resetkeys", "~a"]);
    assert_eq!(server.call(client, &["SORT", "a", "BY", "w_*"]), denied("BY"));
}

#[test]
fn clients_of_a_deleted_user_execute_nothing_any_more() {
    let (mut server, admin, client) = server(&[]);
    assert_eq!(server.call(admin, &["ACL", "DELUSER", "u", "nobody"]), ":1\r\n");
    server.turn_once(client, b"SET a 1\r\n");
    assert_eq!(server.take_output(client), "");
    assert_eq!(server.call(admin, &["GET", "a"]), "$-1\r\n");
    // A blocked one takes nothing any more, although its connection is not closed yet.
    set(&mut server, admin, &["on", ">p", "+@all", "allkeys"]);
    let blocked = server.connect(1);
    server.call(blocked, &["AUTH", "u", "p"]);
    assert_eq!(server.call(blocked, &["BLPOP", "list", "0"]), "");
    server.call(admin, &["ACL", "DELUSER", "u"]);
    server.call(admin, &["RPUSH", "list", "v"]);
    assert_eq!(server.take_output(blocked), "");
    assert_eq!(server.call(admin, &["LLEN", "list"]), ":1\r\n");
    // The caller's own connection has its reply, and nothing behind it.
    set(&mut server, admin, &["on", ">p", "+@all", "allkeys"]);
    let own = server.connect(0);
    server.call(own, &["AUTH", "u", "p"]);
    server.turn_once(own, b"ACL DELUSER u\r\nSET a 1\r\n");
    assert_eq!(server.take_output(own), ":1\r\n");
    assert_eq!(server.call(admin, &["GET", "a"]), "$-1\r\n");
}

#[test]
fn subscribers_that_lose_a_channel_are_closed_and_no_others() {
    let (mut server, admin, client) = server(&["resetchannels", "&news.*", "&a*", "&b"]);
    let denied = "-NOPERM No permissions to access a channel\r\n";
    assert_eq!(server.call(client, &["SUBSCRIBE", "news.1", "c"]), denied);
    assert_eq!(server.call(client, &["PSUBSCRIBE", "news.1*"]), denied);
    assert_eq!(server.call(client, &["PUBLISH", "c", "x"]), denied);
    assert!(server.call(client, &["PSUBSCRIBE", "news.*"]).starts_with("*3\r\n$10\r\npsubscribe"));
    assert!(server.call(client, &["SUBSCRIBE", "abc", "b"]).starts_with("*3\r\n$9\r\nsubscribe"));
    let others = server.connect(1);
    server.call(others, &["AUTH", "u", "p"]);
    let subscribers = |server: &mut Server| {
        server.call(admin, &["CLIENT", "LIST", "USER", "u"]).matches(" user=u ").count()
    };
    for rules in [&["-get"][..], &["&more"], &["resetchannels", "&news.*", "&abc", "&b"]] {
        set(&mut server, admin, rules);
        assert_eq!(subscribers(&mut server), 2, "{rules:?}");
    }
    set(&mut server, admin, &["resetchannels", "&news.*", "&abc"]);
    assert_eq!(subscribers(&mut server), 1, "the one that is subscribed to `b` is closed");
    server.turn_once(client, b"PING\r\n");
    assert_eq!(server.take_output(client), "");
    assert_eq!(server.call(others, &["STRLEN", "k"]), ":0\r\n");
}

#[test]
fn the_default_user_stands_for_all_who_have_not_authenticated() {
    let (mut server, admin, _) = server(&[]);
    let early = server.connect(1);
    assert_eq!(server.call(admin, &["CONFIG", "SET", "requirepass", "secret"]), OK);
    assert_eq!(server.call(early, &["PING"]), "+PONG\r\n", "it was let in before");
    let late = server.connect(1);
    let refused = "-NOAUTH Authentication required.\r\n";
    assert_eq!(server.call(late, &["PING"]), refused);
    // Users are made and changed beside: once nobody needs a password, that client does not.
    server.call(admin, &["ACL", "SETUSER", "default", "nopass"]);
    assert_eq!(server.call(late, &["PING"]), "+PONG\r\n");
    server.call(admin, &["ACL", "SETUSER", "default", ">other"]);
    assert_eq!(server.call(late, &["PING"]), refused);
    assert_eq!(server.call(late, &["AUTH", "other"]), OK);
    assert_eq!(server.call(late, &["PING"]), "+PONG\r\n");
    server.call(admin, &["ACL", "SETUSER", "default", "-ping"]);
    let denied = "-NOPERM User default has no permissions to run the 'ping' command\r\n";
    assert_eq!(server.call(late, &["PING"]), denied);
    assert_eq!(server.call(early, &["PING"]), denied);
}
