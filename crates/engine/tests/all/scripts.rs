//! Scripts among other sessions: what they lock, what becomes of them when that is taken, and what
//! of a run others see.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidemill_engine::execute::Next;
use tidemill_engine::shared::Shared;
use tidemill_engine::slots::parking::{Ticket, WakeUp};
use tidemill_store::SlotNumber;

use crate::harness::{Left, Server};

const NOW_MS: u64 = 1_700_000_000_000;

pub fn eval(script: &str, keys: &[&str]) -> Vec<u8> {
    eval_by("EVAL", script, keys)
}

pub fn eval_by(command: &str, script: &str, keys: &[&str]) -> Vec<u8> {
    let count = keys.len().to_string();
    let words = [&[command, script, &count], keys].concat();
    let mut input = format!("*{}\r\n", words.len());
    for word in words {
        input.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    input.into_bytes()
}

/// Runs `work` while somebody else has the slot of a key and the token.
pub fn beside_holder(server: &mut Server, key: &str, work: impl FnOnce(&mut Server)) {
    let (_, shared) = server.worker(0);
    let shared: std::sync::Arc<Shared> = std::sync::Arc::clone(shared);
    let member = server.joining()();
    let ticket = Ticket { worker: 0, session: 1_000_000 };
    let token = shared.token.try_take(ticket, member.seat()).expect("it is free");
    let lock = shared.keyspace.try_lock(SlotNumber::of_key(key.as_bytes())).expect("it is free");
    work(server);
    drop(lock);
    drop(token);
}

const WRITES_THEN_UNDECLARED: &str = "redis.call('set', KEYS[1], 'new') \
    redis.call('rpush', KEYS[2], 'b', 'c') redis.call('del', KEYS[3]) \
    redis.call('rename', KEYS[1], KEYS[4]) redis.call('append', KEYS[4], 'x') \
    return redis.call('incr', 'undeclared')";

#[test]
fn a_run_that_finds_an_undeclared_slot_taken_leaves_nothing_and_begins_anew() {
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    server.call(other, &["SET", "s", "old"]);
    server.call(other, &["RPUSH", "l", "a"]);
    server.call(other, &["HSET", "h", "f", "v"]);
    server.take_departures();
    let records = server.journal.take().len();
    assert!(records > 0);
    let input = eval(WRITES_THEN_UNDECLARED, &["s", "l", "h", "t"]);
    beside_holder(&mut server, "undeclared", |server| {
        let next = server.turn_once(client, &input);
        assert_eq!(next, Next::WakeUp(WakeUp::Message), "the token is taken");
        assert_eq!(server.take_output(client), "");
        assert_eq!(server.call(other, &["GET", "s"]), "$3\r\nold\r\n");
        assert_eq!(server.call(other, &["LRANGE", "l", "0", "-1"]), "*1\r\n$1\r\na\r\n");
        assert_eq!(server.call(other, &["HGET", "h", "f"]), "$1\r\nv\r\n");
        assert_eq!(server.call(other, &["EXISTS", "t"]), ":0\r\n");
        assert_eq!(server.journal.take().len(), 0, "nothing of it is journaled");
    });
    let next = server.turn_once(client, b"");
    assert!(matches!(next, Next::Input { .. }), "{next:?}");
    assert_eq!(server.take_output(client), ":1\r\n");
    assert_eq!(server.call(other, &["GET", "t"]), "$4\r\nnewx\r\n");
    assert_eq!(server.call(other, &["LLEN", "l"]), ":3\r\n");
    assert_eq!(server.call(other, &["EXISTS", "s", "h", "undeclared"]), ":1\r\n");
    assert_eq!(server.journal.take().len(), 1, "one record of all its effects");
}

/// Of a large collection one leaf changes where it is, and of any list or hash the root.
#[test]
fn a_run_takes_back_what_it_changed_within_collections() {
    const WRITES_THEN_UNDECLARED: &str = "redis.call('hincrby', KEYS[1], 'f7', 1) \
        redis.call('lset', KEYS[2], 7, 'x') redis.call('setrange', KEYS[3], 9, 'x') \
        redis.call('hset', KEYS[4], 'new', 1) redis.call('rpush', KEYS[5], 'new') \
        return redis.call('incr', 'undeclared')";
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    for number in 0..2000 {
        server.call(other, &["HSET", "hash", &format!("f{number}"), "1000"]);
        server.call(other, &["RPUSH", "list", &format!("e{number}")]);
    }
    server.call(other, &["SETRANGE", "text", "20000", "e"]);
    server.call(other, &["HSET", "h", "f", "v"]);
    server.call(other, &["RPUSH", "l", "e"]);
    let seen = |server: &mut Server| {
        let mut see = |words: &[&str]| server.call(other, words);
        [
            see(&["HGET", "hash", "f7"]),
            see(&["LINDEX", "list", "7"]),
            see(&["GETRANGE", "text", "9", "9"]),
            see(&["HLEN", "h"]),
            see(&["LLEN", "l"]),
        ]
        .concat()
    };
    let before = seen(&mut server);
    let input = eval(WRITES_THEN_UNDECLARED, &["hash", "list", "text", "h", "l"]);
    beside_holder(&mut server, "undeclared", |server| {
        assert_eq!(server.turn_once(client, &input), Next::WakeUp(WakeUp::Message));
        assert_eq!(seen(server), before, "taken back");
    });
    server.turn_once(client, b"");
    assert_eq!(server.take_output(client), ":1\r\n");
    let once = "$4\r\n1001\r\n$1\r\nx\r\n$1\r\nx\r\n:2\r\n:2\r\n";
    assert_eq!(seen(&mut server), once, "it has run once");
}

#[test]
fn a_script_is_one_record_and_its_number_is_taken_at_its_end() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let script = "redis.call('set', 'a', '1') redis.call('set', 'b', '2') return 1";
    server.call(client, &["EVAL", script, "0"]);
    assert_eq!(server.take_departures(), [Left::Number, Left::Record]);
    let records = server.journal.take();
    assert_eq!(records.len(), 1);
    server.call(client, &["EVAL", "return redis.call('get', 'a')", "0"]);
    assert_eq!(server.journal.take().len(), 0, "it has changed nothing");
}

#[test]
fn commands_of_a_script_are_judged_by_the_rules_of_its_user() {
    let mut server = Server::new(1, NOW_MS);
    let (admin, client) = (server.connect(0), server.connect(0));
    server.call(admin, &["SET", "secret", "x"]);
    let rules = ["ACL", "SETUSER", "u", "on", ">p", "+eval", "+eval_ro", "+get", "+set", "~a*"];
    server.call(admin, &rules);
    server.call(client, &["AUTH", "u", "p"]);
    for command in ["EVAL", "EVAL_RO"] {
        let denied = server.call(client, &[command, "return redis.call('get', 'secret')", "0"]);
        let no_key = "-ERR ACL failure in script: No permissions to access a key script: on \
                      @user_script:1.\r\n";
        assert_eq!(denied, no_key);
        let denied = server.call(client, &[command, "return redis.pcall('del', 'a')", "0"]);
        let no_command = "-ERR ACL failure in script: User u has no permissions to run the 'del' \
                          command\r\n";
        assert_eq!(denied, no_command);
    }
    assert_eq!(
        server.call(client, &["EVAL", "return redis.call('set', 'a', '1')", "0"]),
        "+OK\r\n"
    );
    let log = server.call(admin, &["ACL", "LOG"]);
    assert!(log.contains("$3\r\nlua\r\n") && log.contains("$6\r\nsecret\r\n"), "{log}");
    let check = "return {redis.acl_check_cmd('get', 'a'), redis.acl_check_cmd('get', 'b')}";
    assert_eq!(server.call(client, &["EVAL", check, "0"]), "*2\r\n:1\r\n$-1\r\n");
}

/// Valkey reads behind the arguments of some of these calls and ends.
#[test]
fn a_check_of_permissions_takes_any_number_of_arguments() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["ACL", "SETUSER", "u", "on", "nopass", "~a*", "&a*", "+@all", "-set"]);
    let list = server.call(client, &["COMMAND", "LIST"]);
    let names: Vec<&str> =
        list.lines().filter(|line| !line.starts_with(['*', '$']) && !line.contains('|')).collect();
    assert!(names.len() > 200, "{list}");
    server.call(client, &["AUTH", "u", "x"]);
    let check = "return redis.acl_check_cmd(unpack(ARGV)) and 'yes' or 'no'";
    let mut check =
        |words: &[&str]| server.call(client, &[&["EVAL", check, "0"][..], words].concat());
    for (words, is_allowed) in [
        (&["get"][..], true),
        (&["get", "b"], false),
        (&["get", "b", "x"], false),
        (&["get", "a", "x"], true),
        (&["set"], false),
        (&["set", "a", "b"], false),
        (&["rename", "b"], true),
        (&["mset", "b"], false),
        (&["sort"], true),
        (&["sort", "b"], false),
        (&["migrate", "h"], true),
        (&["publish"], true),
        (&["publish", "b"], false),
        (&["subscribe", "a"], true),
        (&["client"], true),
        (&["object", "encoding"], true),
        (&["object", "encoding", "b", "x"], false),
    ] {
        let expected = if is_allowed { "$3\r\nyes\r\n" } else { "$2\r\nno\r\n" };
        assert_eq!(check(words), expected, "{words:?}");
    }
    let unknown = "-ERR Invalid command passed to server.acl_check_cmd() script: on \
                   @user_script:1.\r\n";
    for words in [&["nosuch"][..], &["config", "nosuch"], &["config|get"], &["get\0"], &[""]] {
        assert_eq!(check(words), unknown, "{words:?}");
    }
    for name in names {
        for others in [&[][..], &[""], &["1"], &["x", "9"], &["x", "STREAMS", "1", "STORE"]] {
            let reply = check(&[&[name], others].concat());
            let is_known = reply.starts_with('$') || reply == unknown;
            assert!(is_known, "{name} {others:?}: {reply}");
        }
    }
}

/// As Valkey answers, but for the byte 0xff.
#[test]
fn first_lines_of_scripts_are_read_as_inline_requests_are() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let unexpected = "-ERR Unexpected flag in script shebang: ";
    let unknown = "-ERR Unknown lua shebang option: ";
    for (line, expected) in [
        ("#!lua", ":1".to_owned()),
        ("#!LUA flags=", ":1".to_owned()),
        ("#!lua  flags=no-writes  flags=allow-oom ", ":1".to_owned()),
        ("#!lua \"flags=no-wr\\x69tes\"", ":1".to_owned()),
        ("#!lua flags=no-writes,", unexpected.to_owned()),
        ("#!lua flags=,no-writes", unexpected.to_owned()),
        ("#!lua flags", format!("{unknown}flags")),
        ("#!lua Flags=no-writes", format!("{unknown}Flags=no-writes")),
        ("#! lua", format!("{unknown}lua")),
        ("#!foo bar", format!("{unknown}bar")),
        ("#!foo", "-ERR Could not find scripting engine 'foo'".to_owned()),
        ("#!lua \"flags=no-writes", "-ERR Invalid engine in script shebang".to_owned()),
        ("#!lua\0", "-ERR Invalid script shebang".to_owned()),
    ] {
        let source = format!("{line}\nreturn 1");
        let reply = server.call(client, &["EVAL", &source, "0"]);
        assert_eq!(reply, format!("{expected}\r\n"), "{line:?}");
    }
    for (line, expected) in [
        ("#!lua name=\"\\x61\"", "$1\r\na"),
        ("#!lua NAME=b", "$1\r\nb"),
        ("#!lua name", "-ERR Invalid metadata value given: name"),
        ("#!lua name=a flags=", "-ERR Invalid metadata value given: flags="),
        ("#!lua name=a \"x", "-ERR Invalid library metadata"),
        ("#!lua name=a\0b", "-ERR Invalid library metadata"),
    ] {
        let source = format!("{line}\nredis.register_function('f', function() return 1 end)");
        let reply = server.call(client, &["FUNCTION", "LOAD", "REPLACE", &source]);
        assert_eq!(reply, format!("{expected}\r\n"), "{line:?}");
        server.call(client, &["FUNCTION", "FLUSH"]);
    }
}

#[test]
fn a_flushed_script_runs_on_no_worker() {
    let mut server = Server::new(2, NOW_MS);
    let (one, two) = (server.connect(0), server.connect(1));
    let digest = server.call(one, &["SCRIPT", "LOAD", "return 7"]);
    let digest = digest.lines().nth(1).expect("a digest").to_owned();
    for client in [one, two] {
        assert_eq!(server.call(client, &["EVALSHA", &digest, "0"]), ":7\r\n");
    }
    server.call(one, &["SCRIPT", "FLUSH"]);
    for client in [one, two] {
        assert!(server.call(client, &["EVALSHA", &digest, "0"]).starts_with("-NOSCRIPT"));
    }
    assert_eq!(server.call(two, &["EVAL", "return 7", "0"]), ":7\r\n");
    assert_eq!(server.call(one, &["EVALSHA", &digest, "0"]), ":7\r\n");
}

/// Alone, and among others, of which a worker forgets replaced ones later.
#[test]
fn libraries_change_on_all_workers_at_once() {
    for others in [0, 200] {
        let mut server = Server::new(2, NOW_MS);
        let (one, two) = (server.connect(0), server.connect(1));
        for other in (0..others).map(|other| format!("o{other}")) {
            let source = format!(
                "#!lua name={other}\nredis.register_function('{other}', function() return 0 end)"
            );
            server.call(one, &["FUNCTION", "LOAD", &source]);
            assert_eq!(server.call(two, &["FCALL", &other, "0"]), ":0\r\n");
        }
        let library = |number: u32| {
            format!("#!lua name=l\nredis.register_function('f', function() return {number} end)")
        };
        assert_eq!(server.call(one, &["FUNCTION", "LOAD", &library(1)]), "$1\r\nl\r\n");
        assert_eq!(server.call(two, &["FCALL", "f", "0"]), ":1\r\n");
        let replaced = server.call(one, &["FUNCTION", "LOAD", "REPLACE", &library(2)]);
        assert_eq!(replaced, "$1\r\nl\r\n");
        for client in [one, two] {
            assert_eq!(server.call(client, &["FCALL", "f", "0"]), ":2\r\n");
        }
        server.call(one, &["FUNCTION", "DELETE", "l"]);
        assert_eq!(server.call(two, &["FCALL", "f", "0"]), "-ERR Function not found\r\n");
    }
}

#[test]
fn out_of_memory_is_judged_before_the_first_write_only() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["SET", "large", &"x".repeat(10_000)]);
    server.call(client, &["CONFIG", "SET", "maxmemory", "1"]);
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    let reply = server.call(client, &["EVAL", "return redis.call('set', 'a', '1')", "0"]);
    assert_eq!(reply, format!("-{oom} script: on @user_script:1.\r\n"));
    let script = "redis.call('del', 'large') return redis.call('set', 'a', '1')";
    assert_eq!(server.call(client, &["EVAL", script, "0"]), "+OK\r\n");
    let declared = "#!lua\nreturn 1";
    assert_eq!(server.call(client, &["EVAL", declared, "0"]), format!("-{oom}\r\n"));
    let allowed = "#!lua flags=allow-oom\nreturn redis.call('set', 'b', '1')";
    assert_eq!(server.call(client, &["EVAL", allowed, "0"]), "+OK\r\n");
    // In a transaction it is refused at once, and the rest with it.
    for (script, is_queued) in [(declared, false), (allowed, true), ("return 1", true)] {
        server.call(client, &["MULTI"]);
        let reply = server.call(client, &["EVAL", script, "0"]);
        let queued = if is_queued { "+QUEUED\r\n".into() } else { format!("-{oom}\r\n") };
        assert_eq!(reply, queued, "{script}");
        let end = server.call(client, &["EXEC"]);
        assert_eq!(end.starts_with("*1"), is_queued, "{script}: {end}");
        assert_eq!(end.starts_with("-EXECABORT"), !is_queued, "{script}: {end}");
    }
    // As by what was queued while there was memory.
    server.call(client, &["CONFIG", "SET", "maxmemory", "0"]);
    server.call(client, &["MULTI"]);
    assert_eq!(server.call(client, &["EVAL", declared, "0"]), "+QUEUED\r\n");
    let other = server.connect(0);
    server.call(other, &["CONFIG", "SET", "maxmemory", "1"]);
    let end = server.call(client, &["EXEC"]);
    assert!(end.contains(oom) && end.starts_with('-'), "{end}");
}

#[test]
fn a_script_that_the_system_has_no_memory_for_is_told_so() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let (declared, reading) = ("#!lua\nreturn 1", "#!lua flags=no-writes\nreturn 1");
    for script in [declared, reading] {
        assert_eq!(server.call(client, &["EVAL", script, "0"]), ":1\r\n");
    }
    server.host.set_lacks_memory(true);
    let refused = "-OOM command not allowed: the system has no memory left\r\n";
    assert_eq!(server.call(client, &["EVAL", declared, "0"]), refused);
    assert_eq!(server.call(client, &["EVAL", reading, "0"]), ":1\r\n");
    server.host.set_lacks_memory(false);
    assert_eq!(server.call(client, &["EVAL", declared, "0"]), ":1\r\n");
}

#[test]
fn waiters_are_served_when_the_script_ends() {
    let mut server = Server::new(1, NOW_MS);
    let (client, waiting) = (server.connect(0), server.connect(0));
    assert_eq!(server.call(waiting, &["BLPOP", "l", "0"]), "");
    let script = "redis.call('rpush', 'l', 'x', 'y') return redis.call('llen', 'l')";
    assert_eq!(server.call(client, &["EVAL", script, "0"]), ":2\r\n");
    assert_eq!(server.take_output(waiting), "*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    let script = "redis.call('rpush', 'm', 'x') return redis.call('del', 'm')";
    assert_eq!(server.call(waiting, &["BLPOP", "m", "0"]), "");
    assert_eq!(server.call(client, &["EVAL", script, "0"]), ":1\r\n");
    assert!(server.is_blocked(waiting), "it was gone when the script ended");
}

#[test]
fn messages_of_a_run_that_is_taken_back_are_not_told_and_come_once() {
    let mut server = Server::new(2, NOW_MS);
    let (client, subscriber) = (server.connect(0), server.connect(1));
    server.call(client, &["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    server.call(subscriber, &["HELLO", "3"]);
    server.call(subscriber, &["PSUBSCRIBE", "*"]);
    let script = "redis.call('set', KEYS[1], 'new') \
        local n = redis.call('publish', 'news', 'paper') redis.call('incr', 'undeclared') return n";
    let input = eval(script, &["s"]);
    beside_holder(&mut server, "undeclared", |server| {
        assert_eq!(server.turn_once(client, &input), Next::WakeUp(WakeUp::Message));
        assert_eq!(server.call(subscriber, &["PING"]), "+PONG\r\n", "it is taken back");
    });
    let _ = server.turn_once(client, b"");
    assert_eq!(server.take_output(client), ":1\r\n");
    let told = server.call(subscriber, &["PING"]);
    let place = |text: &str| told.find(text).unwrap_or_else(|| panic!("{text} in {told}"));
    let places = ["keyspace@0__:s\r\n$3\r\nset", "paper", "keyspace@0__:undeclared"].map(place);
    assert!(places.is_sorted(), "{told}");
    assert_eq!(told.matches("paper").count(), 1, "{told}");
}

/// The service comes behind the run, whose own events waited for its end.
#[test]
fn events_of_clients_that_a_script_serves_are_told() {
    for fills in [
        &["EVAL redis.call('rpush',KEYS[1],'1') 1 l"][..],
        &["MULTI", "EVAL redis.call('set','a','1') 0", "RPUSH l 1", "EXEC"],
    ] {
        let mut server = Server::new(2, NOW_MS);
        let (client, waiter) = (server.connect(0), server.connect(0));
        let subscriber = server.connect(1);
        server.call(client, &["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
        server.call(subscriber, &["HELLO", "3"]);
        server.call(subscriber, &["PSUBSCRIBE", "__keyevent*"]);
        assert_eq!(server.call(waiter, &["BLPOP", "l", "0"]), "");
        for line in fills {
            server.call(client, &line.split(' ').collect::<Vec<_>>());
        }
        assert_eq!(server.call(waiter, &["PING"]), "*2\r\n$1\r\nl\r\n$1\r\n1\r\n+PONG\r\n");
        let told = server.call(subscriber, &["PING"]);
        let place = |event| told.find(event).unwrap_or_else(|| panic!("{event} in {told}"));
        let places = ["__:rpush\r\n", "__:lpop\r\n", "__:del\r\n"].map(place);
        assert!(places.is_sorted(), "{told}");
    }
}

/// A loop that ends when the clock was moved on by [`LONG_MS`].
const LONG: &str = " local t = os.clock() while os.clock() < t + 1000 do end ";
const LONG_MS: u64 = 1_000_000;

/// Flag that is set when it goes out of scope, also by a panic.
struct SetOnDrop<'f>(&'f AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `act` beside a clock that runs in steps of some milliseconds, after a real pause.
fn beside_clock<T>(
    server: &mut Server,
    (step_ms, pause): (u64, Duration),
    act: impl FnOnce(&mut Server) -> T,
) -> T {
    let (clock, is_over) = (server.clock.clone(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(pause);
            while !is_over.load(Ordering::Relaxed) {
                clock.advance_ms(step_ms);
                thread::sleep(Duration::from_micros(200));
            }
        });
        let _over = SetOnDrop(&is_over);
        act(server)
    })
}

/// Gives a script with [`LONG`] in it some turns, of which the first may end before that.
fn begin_long(server: &mut Server, client: u64, input: &[u8]) {
    for input in [input, b"", b""] {
        let clock = (1, Duration::from_millis(30));
        let next = beside_clock(server, clock, |server| server.turn_once(client, input));
        assert_eq!(next, Next::Turn);
    }
}

/// Gives it turns to its end.
fn end_long(server: &mut Server, client: u64) {
    server.clock.advance_ms(LONG_MS);
    beside_clock(server, (100, Duration::ZERO), |server| {
        while server.turn_once(client, b"") != (Next::Input { wanted: 1 }) {}
    });
}

#[test]
fn a_read_only_script_is_of_one_moment_beside_a_flush_and_an_exchange_of_databases() {
    let script = ["local a = redis.call('get', KEYS[1]) if a == 'old' then", LONG, "end"].concat()
        + " return {a or 'nil', redis.call('get', KEYS[2]) or 'nil'}";
    for (command, found) in
        [(&["FLUSHALL"][..], "nil"), (&["FLUSHDB", "ASYNC"], "nil"), (&["SWAPDB", "0", "1"], "new")]
    {
        let mut server = Server::new(1, NOW_MS);
        let (client, other) = (server.connect(0), server.connect(0));
        server.call(other, &["SELECT", "1"]);
        server.call(other, &["MSET", "x", "new", "y", "new"]);
        server.call(other, &["SELECT", "0"]);
        server.call(other, &["MSET", "x", "old", "y", "old"]);
        begin_long(&mut server, client, &eval_by("EVAL_RO", &script, &["x", "y"]));
        assert_eq!(server.call(other, command), "+OK\r\n");
        end_long(&mut server, client);
        let reply = format!("*2\r\n$3\r\n{found}\r\n$3\r\n{found}\r\n");
        assert_eq!(server.take_output(client), reply, "{command:?}");
    }
}

#[test]
fn walks_and_counts_wait_for_a_script_that_has_emptied_a_slot() {
    let script =
        ["redis.call('del', KEYS[1])", LONG, "redis.call('set', KEYS[1], 'again')"].concat();
    for (request, reply) in [
        ("KEYS *\r\n", "*1\r\n$1\r\nk\r\n"),
        // The slot of the key: a cursor from which it has nothing yet.
        ("SCAN 7629\r\n", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n"),
        ("DBSIZE\r\n", ":1\r\n"),
        ("RANDOMKEY\r\n", "$1\r\nk\r\n"),
    ] {
        let mut server = Server::new(1, NOW_MS);
        let (client, other) = (server.connect(0), server.connect(0));
        server.call(client, &["SET", "k", "old"]);
        begin_long(&mut server, client, &eval(&script, &["k"]));
        let next = server.turn_once(other, request.as_bytes());
        assert_eq!(next, Next::WakeUp(WakeUp::Message), "{request:?}");
        end_long(&mut server, client);
        assert_eq!(server.turn_once(other, b""), Next::Input { wanted: 1 });
        assert_eq!(server.take_output(other), reply);
    }
}

/// `bar` is behind `hello` in the order of slots.
#[test]
fn a_walk_that_is_refused_beside_a_busy_script_is_not_gone_on_with() {
    let script =
        ["redis.call('del', KEYS[1])", LONG, "redis.call('set', KEYS[1], 'again')"].concat();
    for request in ["KEYS *\r\n", "DBSIZE\r\n"] {
        let mut server = Server::new(1, NOW_MS);
        let (client, other) = (server.connect(0), server.connect(0));
        server.call(client, &["MSET", "hello", "", "bar", ""]);
        begin_long(&mut server, client, &eval(&script, &["bar"]));
        let next = server.turn_once(other, request.as_bytes());
        assert_eq!(next, Next::WakeUp(WakeUp::Message), "{request:?}");
        // Beyond `busy-reply-threshold`.
        server.clock.advance_ms(6_000);
        assert_eq!(server.turn_once(other, b""), Next::Input { wanted: 1 });
        assert!(server.take_output(other).starts_with("-BUSY"), "{request:?}");
        assert_eq!(server.turn_once(other, request.as_bytes()), Next::Input { wanted: 1 });
        assert!(server.take_output(other).starts_with("-BUSY"), "{request:?} at once");
        end_long(&mut server, client);
        assert_eq!(server.call(other, &["DEL", "hello"]), ":1\r\n");
        assert_eq!(server.call(other, &["KEYS", "*"]), "*1\r\n$3\r\nbar\r\n", "{request:?}");
        assert_eq!(server.call(other, &["DBSIZE"]), ":1\r\n");
    }
}

#[test]
fn a_client_that_tracks_keys_hears_of_a_busy_script() {
    let script = ["redis.call('set', KEYS[1], 'new')", LONG].concat();
    let mut server = Server::new(1, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(0));
    server.call(other, &["HELLO", "3"]);
    server.call(other, &["CLIENT", "TRACKING", "ON"]);
    begin_long(&mut server, client, &eval(&script, &["k"]));
    assert_eq!(server.turn_once(other, b"GET k\r\n"), Next::WakeUp(WakeUp::Message));
    // Beyond `busy-reply-threshold`.
    server.clock.advance_ms(6_000);
    assert_eq!(server.turn_once(other, b""), Next::Input { wanted: 1 });
    assert!(server.take_output(other).starts_with("-BUSY"));
    end_long(&mut server, client);
    assert_eq!(server.call(other, &["GET", "k"]), "$3\r\nnew\r\n");
}

#[test]
fn monitors_are_shown_a_long_script_while_it_runs() {
    const CALLS: usize = 40_000;
    let calls = format!("for i = 1, {CALLS} do redis.call('ping') end");
    let mut server = Server::new(1, NOW_MS);
    let (client, monitor) = (server.connect(0), server.connect(0));
    server.call(monitor, &["MONITOR"]);
    begin_long(&mut server, client, &eval(&[&calls, LONG].concat(), &[]));
    let mut seen = String::new();
    for _ in 0..300 {
        server.settle();
        seen += &server.take_output(monitor);
        if seen.lines().count() > CALLS / 2 {
            break;
        }
        let clock = (1, Duration::from_millis(30));
        let next = beside_clock(&mut server, clock, |server| server.turn_once(client, b""));
        assert_eq!(next, Next::Turn, "it runs");
    }
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines.first().is_some_and(|line| line.contains("\"EVAL\"")), "{:?}", lines.first());
    assert!(lines.len() > CALLS / 2, "{} lines", lines.len());
    end_long(&mut server, client);
    server.settle();
    let seen = seen + &server.take_output(monitor);
    assert_eq!(seen.matches("\"ping\"").count(), CALLS);
    assert_eq!(seen.matches("\"EVAL\"").count(), 1);
}

#[test]
fn monitors_are_shown_a_transaction_whose_script_took_several_turns() {
    let mut server = Server::new(1, NOW_MS);
    let (client, monitor) = (server.connect(0), server.connect(0));
    server.call(monitor, &["MONITOR"]);
    server.call(client, &["MULTI"]);
    let call = String::from_utf8(eval(LONG, &[])).expect("it is text");
    begin_long(&mut server, client, (call + "EXEC\r\n").as_bytes());
    end_long(&mut server, client);
    server.settle();
    let seen = server.take_output(monitor);
    let shown = ["\"MULTI\"", "\"EVAL\"", "\"EXEC\""].map(|name| seen.matches(name).count());
    assert_eq!(shown, [1; 3], "{seen}");
}

#[test]
fn the_request_of_a_suspended_script_is_memory_of_its_client() {
    for in_transaction in [false, true] {
        let large = "v".repeat(1 << 20);
        let mut server = Server::new(1, NOW_MS);
        let (client, other) = (server.connect(0), server.connect(0));
        let mut call = eval(LONG, &["k", &large]);
        if in_transaction {
            server.call(client, &["MULTI"]);
            call.extend_from_slice(b"EXEC\r\n");
        }
        begin_long(&mut server, client, &call);
        let memory = |server: &mut Server| {
            let list = server.call(other, &["CLIENT", "LIST", "ID", &client.to_string()]);
            let (_, behind) = list.split_once("tot-mem=").expect("a field of each client");
            behind.split(' ').next().and_then(|digits| digits.parse().ok()).unwrap_or(0_usize)
        };
        let kept = memory(&mut server);
        assert!((large.len()..2 * large.len()).contains(&kept), "{kept}");
        end_long(&mut server, client);
        assert!(memory(&mut server) < large.len() / 2, "{}", memory(&mut server));
    }
}

/// Figures of `INFO`; 0 for a command that nobody has called.
fn figures<const N: usize>(server: &mut Server, client: u64, names: [&str; N]) -> [u64; N] {
    let info = server.call(client, &["INFO", "stats", "commandstats"]);
    names.map(|name| {
        let digits = info.split_once(&format!("\n{name}")).map_or("0", |(_, rest)| rest);
        let end = digits.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().expect("a number")
    })
}

const HITS: &str = "keyspace_hits:";
const MISSES: &str = "keyspace_misses:";
const GETS: &str = "cmdstat_get:calls=";
const ECHOES: &str = "cmdstat_echo:calls=";
const PROCESSED: &str = "total_commands_processed:";

/// Up to 1,025 lookups are compared at each interrupt; behind them a run takes locks.
#[test]
fn a_read_only_run_of_many_lookups_takes_locks() {
    for (count, takes_locks) in [(1_024, false), (1_025, true)] {
        let mut server = Server::new(2, NOW_MS);
        let client = server.connect(0);
        server.call(client, &["MSET", "k", "1", "locked", "2"]);
        let script = format!(
            "for i = 1, {count} do redis.call('get', KEYS[1]) end \
            return redis.call('get', 'locked')"
        );
        let input = eval_by("EVAL_RO", &script, &["k"]);
        beside_holder(&mut server, "locked", |server| {
            let next = server.turn_once(client, &input);
            assert_eq!(next == Next::WakeUp(WakeUp::Message), takes_locks, "{count}: {next:?}");
        });
        if takes_locks {
            server.turn_once(client, b"");
        }
        assert_eq!(server.take_output(client), "$1\r\n2\r\n", "{count}");
    }
}

#[test]
fn commands_of_a_run_that_takes_locks_count_once() {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    server.call(client, &["SET", "k", "1"]);
    let script = "for i = 1, 3000 do redis.call('get', KEYS[1]) end \
        redis.call('get', 'missing') return 1";
    let names = [HITS, MISSES, GETS];
    for command in ["EVAL_RO", "EVAL"] {
        let before = figures(&mut server, client, names);
        assert_eq!(server.call(client, &[command, script, "1", "k"]), ":1\r\n");
        let counted = figures(&mut server, client, names);
        assert_eq!(counted, [before[0] + 3000, before[1] + 1, before[2] + 3001], "{command}");
    }
}

#[test]
fn attempts_of_a_run_that_reads_without_locks_count_once() {
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    server.call(other, &["SET", "k", "1"]);
    let script = "for i = 1, 3000 do redis.call('echo', '') end return redis.call('get', KEYS[1])";
    let names = [HITS, MISSES, GETS, ECHOES, PROCESSED];
    let before = figures(&mut server, other, names);
    let shared = std::sync::Arc::clone(&server.shared);
    let mut lock = shared.keyspace.try_lock(SlotNumber::of_key(b"k")).expect("it is free");
    lock.mark_held();
    let next = server.turn_once(client, &eval_by("EVAL_RO", script, &["k"]));
    assert_eq!(next, Next::WakeUp(WakeUp::Message));
    drop(lock);
    server.turn_once(client, b"");
    assert_eq!(server.take_output(client), "$1\r\n1\r\n");
    let counted = figures(&mut server, other, names);
    let added: Vec<u64> = counted.iter().zip(before).map(|(now, then)| now - then).collect();
    assert_eq!(added, [1, 0, 1, 3000, 3000 + 3], "beside the script's, EVAL_RO and INFO");
}

#[test]
fn errors_of_a_run_count_once_for_all_attempts() {
    // It begins anew for locks, when it has read much, and for a slot that somebody else has.
    // Before that commands fail, one is rejected, and one is none.
    let script = "redis.pcall('llen', KEYS[1]) redis.pcall('get', KEYS[1]) redis.pcall('get') \
        redis.pcall('nonsense') for i = 1, 1100 do redis.call('hlen', KEYS[1]) end \
        return redis.call('exists', 'locked')";
    for command in ["EVAL", "EVAL_RO"] {
        let mut server = Server::new(2, NOW_MS);
        let client = server.connect(0);
        server.call(client, &["HSET", "k", "field", "value"]);
        beside_holder(&mut server, "locked", |server| {
            let next = server.turn_once(client, &eval_by(command, script, &["k"]));
            assert_eq!(next, Next::WakeUp(WakeUp::Message), "{command}");
        });
        server.turn_once(client, b"");
        assert_eq!(server.take_output(client), ":0\r\n", "{command}");
        let info = server.call(client, &["INFO", "stats", "commandstats", "errorstats"]);
        for (name, end) in [
            ("total_error_replies:", ":4"),
            ("errorstat_ERR:", ":count=2"),
            ("errorstat_WRONGTYPE:", ":count=2"),
            ("cmdstat_llen:calls=1,", "rejected_calls=0,failed_calls=1"),
            ("cmdstat_get:calls=1,", "rejected_calls=1,failed_calls=1"),
            ("cmdstat_hlen:calls=1100,", "rejected_calls=0,failed_calls=0"),
        ] {
            let line = info.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            assert!(line.ends_with(end), "{command} {name} {end}: {info}");
        }
    }
}

#[test]
fn a_script_within_a_transaction_counts_as_processed() {
    let mut server = Server::new(2, NOW_MS);
    let client = server.connect(0);
    let before = figures(&mut server, client, [PROCESSED, GETS]);
    server.call(client, &["MULTI"]);
    server.turn_once(client, &eval("return redis.call('get', KEYS[1])", &["k"]));
    server.call(client, &["EXEC"]);
    let [processed, gets] = figures(&mut server, client, [PROCESSED, GETS]);
    assert_eq!([processed - before[0], gets - before[1]], [4 + 1, 1], "with INFO");
}

/// `SCRIPT KILL` has answered that it is.
#[test]
fn a_killed_run_does_not_begin_anew() {
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    let script = ["redis.call('get', KEYS[1])", LONG].concat();
    begin_long(&mut server, client, &eval_by("EVAL_RO", &script, &["k"]));
    server.call(other, &["SET", "k", "new"]);
    assert_eq!(server.call(other, &["SCRIPT", "KILL"]), "+OK\r\n");
    end_long(&mut server, client);
    let reply = server.take_output(client);
    assert_eq!(reply, "-ERR Script killed by user with SCRIPT KILL.\r\n");
}

#[test]
fn turns_of_a_run_that_begins_anew_count_once() {
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    server.call(other, &["SET", "k", "old"]);
    let script = [
        "local a = redis.call('get', KEYS[1]) redis.call('get', KEYS[1]) \
        for i = 1, 3000 do redis.call('echo', '') end if a == 'old' then",
        LONG,
        "end return a",
    ];
    let names = [HITS, MISSES, GETS, ECHOES, PROCESSED];
    let before = figures(&mut server, other, names);
    begin_long(&mut server, client, &eval_by("EVAL_RO", &script.concat(), &["k"]));
    server.call(other, &["SET", "k", "new"]);
    end_long(&mut server, client);
    assert_eq!(server.take_output(client), "$3\r\nnew\r\n");
    let counted = figures(&mut server, other, names);
    let added: Vec<u64> = counted.iter().zip(before).map(|(now, then)| now - then).collect();
    assert_eq!(added, [2, 0, 2, 3000, 3002 + 3], "beside the script's, EVAL_RO, SET and INFO");
}

#[test]
fn attempts_of_a_run_that_asks_for_the_token_count_once() {
    let mut server = Server::new(2, NOW_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    server.call(other, &["SET", "k", "1"]);
    let script = "for i = 1, 3000 do redis.call('get', KEYS[1]) end \
        return redis.call('incr', 'undeclared')";
    let names = [HITS, MISSES, GETS, PROCESSED];
    let before = figures(&mut server, other, names);
    beside_holder(&mut server, "undeclared", |server| {
        assert_eq!(server.turn_once(client, &eval(script, &["k"])), Next::WakeUp(WakeUp::Message));
        let so_far = figures(server, other, names);
        assert_eq!(so_far[..3], before[..3], "it has not run yet");
    });
    server.turn_once(client, b"");
    assert_eq!(server.take_output(client), ":1\r\n");
    let counted = figures(&mut server, other, names);
    let added: Vec<u64> = counted.iter().zip(before).map(|(now, then)| now - then).collect();
    assert_eq!(added, [3000, 0, 3000, 3001 + 3], "beside the script's, EVAL and two of INFO");
}
