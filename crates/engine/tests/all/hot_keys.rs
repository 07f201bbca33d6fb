//! Hot keys are those on which time and bytes are spent, by all workers, alone and in pipelines and
//! transactions.

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

/// Fields of `HOTKEYS GET` by name; a list of keys and weights as `key=weight`.
fn fields(server: &mut Server, client: u64) -> Vec<(String, String)> {
    let reply = server.call(client, &["HOTKEYS", "GET"]);
    let mut lines = reply.split("\r\n").skip(2).filter(|line| !line.starts_with('$')).peekable();
    let mut fields = Vec::new();
    while let Some(name) = lines.next().filter(|name| !name.is_empty()) {
        let value = lines.next().expect("a value follows a name");
        let Some(count) = value.strip_prefix('*') else {
            fields.push((name.into(), value.trim_start_matches(':').into()));
            continue;
        };
        let count: usize = count.parse().expect("a number");
        // The slots are one range in an array of its own.
        let extra = if name == "selected-slots" { 2 } else { 0 };
        let items: Vec<_> = lines.by_ref().take(count + extra).collect();
        fields.push((name.into(), items.join(" ")));
    }
    fields
}

fn field(server: &mut Server, client: u64, name: &str) -> String {
    let fields = fields(server, client);
    let found = fields.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no {name} in {fields:?}")).1.clone()
}

#[test]
fn bytes_of_keys_are_those_of_requests_and_replies_divided_among_the_keys() {
    let mut server = Server::new(2, START_MS);
    let (client, other) = (server.connect(0), server.connect(1));
    assert_eq!(server.call(client, &["HOTKEYS", "GET"]), "$-1\r\n");
    assert_eq!(server.call(client, &["HOTKEYS", "STOP"]), "$-1\r\n");
    assert_eq!(server.call(client, &["HOTKEYS", "START", "METRICS", "1", "NET"]), "+OK\r\n");
    assert_eq!(server.call(client, &["SET", "k", "v"]), "+OK\r\n");
    let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n+OK\r\n".len();
    assert_eq!(field(&mut server, client, "by-net-bytes"), format!("k :{set}"));
    assert_eq!(server.call(other, &["MGET", "a", "k"]), "*2\r\n$-1\r\n$1\r\nv\r\n");
    let mget = "*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nk\r\n*2\r\n$-1\r\n$1\r\nv\r\n".len();
    let want = format!("k :{} a :{}", set + mget / 2, mget / 2);
    assert_eq!(field(&mut server, client, "by-net-bytes"), want);
    assert_eq!(field(&mut server, client, "total-net-bytes"), (set + mget).to_string());
    // Commands without keys are of no key.
    server.call(client, &["PING"]);
    assert_eq!(field(&mut server, client, "total-net-bytes"), (set + mget).to_string());
    assert_eq!(field(&mut server, client, "selected-slots"), "*2 :0 :16383");
    assert_eq!(server.call(client, &["HOTKEYS", "STOP"]), "+OK\r\n");
    server.call(client, &["SET", "late", "v"]);
    assert_eq!(field(&mut server, client, "by-net-bytes"), want, "the result stays");
    assert_eq!(field(&mut server, client, "tracking-active"), "0");
    assert_eq!(server.call(client, &["HOTKEYS", "RESET"]), "+OK\r\n");
    assert_eq!(server.call(client, &["HOTKEYS", "GET"]), "$-1\r\n");
}

#[test]
fn pipelines_are_sampled_without_bias() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let start = ["HOTKEYS", "START", "METRICS", "1", "NET", "COUNT", "2"];
    assert_eq!(server.call(client, &start), "+OK\r\n");
    let get = |key: &str| format!("*2\r\n$3\r\nGET\r\n$4\r\n{key}\r\n");
    // Of each ten commands, seven are for one key.
    let batch = [vec![get("hot1"); 7], vec![get("cold"); 3]].concat().concat();
    for _ in 0..2_000 {
        server.pipeline(client, batch.as_bytes());
        server.take_output(client);
    }
    let each = get("hot1").len() + "$-1\r\n".len();
    let all = 2_000 * 10 * each;
    assert_eq!(field(&mut server, client, "total-net-bytes"), all.to_string());
    let by_bytes = field(&mut server, client, "by-net-bytes");
    let words: Vec<_> = by_bytes.split([' ', ':']).filter(|word| !word.is_empty()).collect();
    let [hot, hot_bytes, cold, cold_bytes] = words[..] else { panic!("{by_bytes}") };
    assert_eq!((hot, cold), ("hot1", "cold"));
    let bytes = |text: &str| text.parse::<usize>().expect("a number");
    assert_eq!(bytes(hot_bytes) + bytes(cold_bytes), all);
    let share = bytes(hot_bytes) as f64 / all as f64;
    assert!((0.65..0.75).contains(&share), "{share}");
}

#[test]
fn commands_of_transactions_count_for_their_keys() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    server.call(client, &["HOTKEYS", "START", "METRICS", "2", "CPU", "NET"]);
    server.call(client, &["MULTI"]);
    server.call(client, &["SET", "in-exec", "v"]);
    server.call(client, &["EXEC"]);
    let set = "*3\r\n$3\r\nSET\r\n$7\r\nin-exec\r\n$1\r\nv\r\n".len();
    let by_bytes = field(&mut server, client, "by-net-bytes");
    let bytes = by_bytes.strip_prefix("in-exec :").and_then(|text| text.parse().ok());
    // As a request that was queued, and with its reply as a command of EXEC.
    assert!(bytes.is_some_and(|bytes: usize| bytes >= set + "+OK\r\n".len()), "{by_bytes}");
    // The harness has a clock that does not move.
    assert_eq!(field(&mut server, client, "by-cpu-time-us"), "");
}

#[test]
fn wrong_arguments_are_refused_as_by_redis() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    for (arguments, error) in [
        ("", "METRICS parameter is required"),
        ("COUNT 3", "METRICS parameter is required"),
        ("METRICS 0 CPU", "METRICS count must be > 0 and <= 2"),
        ("METRICS x CPU", "METRICS count must be > 0 and <= 2"),
        ("METRICS 2 CPU", "METRICS count does not match number of metric types provided"),
        ("METRICS 2 CPU CPU", "METRICS CPU defined more than once!"),
        ("METRICS 2 NET net", "METRICS NET defined more than once!"),
        ("METRICS 1 DISK", "METRICS no valid metrics passed. Supported: CPU|NET"),
        ("METRICS 1 CPU COUNT 65", "COUNT must be between 1 and 64"),
        ("METRICS 1 CPU DURATION 0", "DURATION must be between 1 and 1000000"),
        ("METRICS 1 CPU SAMPLE 0", "SAMPLE ratio must be positive"),
        ("METRICS 1 CPU SLOTS 1 0", "SLOTS parameter cannot be used in non-cluster mode"),
        ("METRICS 1 CPU NET", "syntax error"),
        ("METRICS 1 CPU COUNT", "syntax error"),
    ] {
        let words: Vec<_> = ["HOTKEYS", "START"].into_iter().chain(arguments.split(' ')).collect();
        let words = if arguments.is_empty() { &words[..2] } else { &words[..] };
        assert_eq!(server.call(client, words), format!("-ERR {error}\r\n"), "{arguments}");
    }
    let start = ["HOTKEYS", "START", "METRICS", "1", "CPU", "DURATION", "5", "SAMPLE", "2"];
    assert_eq!(server.call(client, &start), "+OK\r\n");
    let running = "-ERR hotkey tracking session already in progress\r\n";
    assert_eq!(server.call(client, &["HOTKEYS", "START"]), running);
    let running = "-ERR hotkey tracking session in progress, stop tracking first\r\n";
    assert_eq!(server.call(client, &["HOTKEYS", "RESET"]), running);
    let arity = "-ERR wrong number of arguments for 'hotkeys|get' command\r\n";
    assert_eq!(server.call(client, &["HOTKEYS", "GET", "x"]), arity);
}

#[test]
fn bytes_of_a_long_reply_count() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    for _ in 0..10 {
        let elements = vec!["v"; 1_000];
        server.call(client, &[&["RPUSH", "list"], &elements[..]].concat());
    }
    server.call(client, &["HOTKEYS", "START", "METRICS", "1", "NET"]);
    let reply = server.call(client, &["LRANGE", "list", "0", "-1"]);
    let bytes: usize = field(&mut server, client, "total-net-bytes").parse().expect("a number");
    assert!(bytes > reply.len(), "{bytes} of {}", reply.len());
}
