//! `DUMP` and `RESTORE`: payloads as Valkey 9.1 writes them, keys made of them, and that a payload
//! which is wrong, or whose time is over, makes none.

use crate::harness::Server;
use tidemill_engine::commit::Effect;
use tidemill_rdb::Checksum;
use tidemill_rdb::encode::{Compression, Encoder, Place, StreamListpack};
use tidemill_rdb::value::{StreamId, StreamState};

const START_MS: u64 = 1_700_000_000_000;
const WRONG_CHECKSUM: &str = "-ERR DUMP payload version or checksum are wrong\r\n";
const BAD_DATA: &str = "-ERR Bad data format\r\n";

/// A payload with its version and checksum.
fn seal(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    payload.extend_from_slice(&Checksum::of(&payload).to_le_bytes());
    payload
}

struct Client {
    server: Server,
    id: u64,
}

impl Client {
    fn new() -> Client {
        let mut server = Server::new(1, START_MS);
        let id = server.connect(0);
        Client { server, id }
    }

    fn call(&mut self, line: &str) -> String {
        self.server.call(self.id, &line.split(' ').collect::<Vec<_>>())
    }

    fn dump(&mut self, key: &str) -> Vec<u8> {
        let reply = self.server.call_for_bytes(self.id, &[b"DUMP", key.as_bytes()]);
        let start = reply.iter().position(|&byte| byte == b'\n').expect("a header") + 1;
        reply[start..reply.len() - 2].to_vec()
    }

    /// `RESTORE key ttl payload options`, the first two in `line`.
    fn restore(&mut self, line: &str, payload: &[u8], options: &str) -> String {
        let mut words: Vec<&[u8]> = vec![b"RESTORE"];
        words.extend(line.split(' ').map(str::as_bytes));
        words.push(payload);
        words.extend(options.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes));
        self.server.call_bytes(self.id, &words)
    }

    /// The records since the last call: words of their commands, payloads left out.
    fn records(&mut self) -> Vec<String> {
        let text = |effect: &Effect| {
            let words = effect.arguments.view();
            let texts = words.iter().filter_map(|word| std::str::from_utf8(word).ok());
            texts.filter(|text| !text.contains('\0')).collect::<Vec<_>>().join(" ")
        };
        let records = self.server.journal.take().into_iter().flatten();
        records.map(|effect| text(&effect)).collect()
    }
}

#[test]
fn payloads_are_those_of_valkey() {
    let mut client = Client::new();
    // Made with Valkey 9.1.2.
    let cases: [(&str, &str, &[u8]); 12] = [
        ("SET i 123", "i", b"\x00\xc0{P\x00\x87\xc8\x9ap\x9e(\x00M"),
        ("SET big 1099511627776", "big", b"\x00\r1099511627776P\x00\x13\xff\x08o'\r+\xa3"),
        (
            "SET s aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "s",
            b"\x00\xc3\t\x1e\x01aa\xe0\x11\x00\x01aaP\x00\x8aY\xb5*\xb56\x1cO",
        ),
        ("SET f 0123", "f", b"\x00\x040123P\x00\xc5\xce\xc5\x03\x00i\x03\xd6"),
        (
            "RPUSH l a 1 -5 200 70000 xxxxxxxxxxxxxxxxxxxx",
            "l",
            b"\x12\x01\x02\xc3\x1f-\x17-\x00\x00\x00\x06\x00\x81a\x02\x01\x01\xdf\xfb\x02\xc0\xc8\
              \x02\xf2p\x11\x01\x04\x94x\xe0\n\x00\x01\x15\xffP\x00\xaa\xc1S\xb6|t\xc9\xcf",
        ),
        (
            "HSET h a 1 b two c -70000000000",
            "h",
            b"\x10!!\x00\x00\x00\x06\x00\x81a\x02\x01\x01\x81b\x02\x83two\x04\x81c\x02\xf4\x00\xc4\
              \xac\xb3\xef\xff\xff\xff\t\xffP\x00+\xf1\xa4i \x8fB\xa3",
        ),
        (
            "HSET hh a zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
            "hh",
            b"\x04\x01\x01a\xc3\t@A\x01zz\xe04\x00\x01zzP\x00\xe7#\x8dr\x14\xf6\xd1\x0c",
        ),
        (
            "ZADD z 1 a 1.5 b -3e20 c 1e-7 d 12345678901234567 e",
            "z",
            b"\x1155\x00\x00\x00\n\x00\x81c\x02\x86-3e+20\x07\x81d\x02\x841e-7\x05\x81a\x02\x01\
              \x01\x81b\x02\x831.5\x04\x81e\x02\xf4\x88Kk]T\xdc+\x00\t\xffP\x00\x0e\xb3\xff\x95\
              \x12\xcd|?",
        ),
        (
            "ZADD zz 1.5 zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz 2 y",
            "zz",
            b"\x05\x02\x01y\x00\x00\x00\x00\x00\x00\x00@\xc3\t@A\x01zz\xe04\x00\x01zz\x00\x00\x00\
              \x00\x00\x00\xf8?P\x00V>i\xc5G\x0b\xd5#",
        ),
        (
            "SADD si 70000 1 2",
            "si",
            b"\x0b\x14\x04\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00p\x11\x01\
              \x00P\x00J\xff\x08\x97\xc5O\xb7\xa1",
        ),
        (
            "SADD sl a 1",
            "sl",
            b"\x14\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xffP\x00F\xb5\x94\xd14\xd665",
        ),
        (
            "HSETEX ht PXAT 2000000000000 FIELDS 1 a 1",
            "ht",
            b"\x16\x01\x01a\xc0\x01\x00 J\xa9\xd1\x01\x00\x00P\x00",
        ),
    ];
    for (line, key, payload) in cases {
        assert!(!client.call(line).starts_with('-'), "{line}");
        let dumped = client.dump(key);
        assert!(dumped.starts_with(payload), "{line}: {}", dumped.escape_ascii());
    }
    assert_eq!(client.call("DUMP absent"), "$-1\r\n");
    assert_eq!(client.call("CONFIG SET rdbcompression no"), "+OK\r\n");
    assert!(client.dump("s").starts_with(b"\x00\x1eaaaa"));
}

#[test]
fn what_is_dumped_is_restored() {
    let mut client = Client::new();
    let long = "v".repeat(100_000);
    for (make, key, show) in [
        ("SET s text".to_owned(), "s", "GET"),
        (format!("SET long {long}"), "long", "GET"),
        ("SET n -77".to_owned(), "n", "GET"),
        ("RPUSH l a 1 b".to_owned(), "l", "LRANGE"),
        (
            format!("RPUSH lq {}", (0..3000).map(|n| format!("{n} ")).collect::<String>() + "x"),
            "lq",
            "LRANGE",
        ),
        ("HSET h a 1 b 2".to_owned(), "h", "HGETALL"),
        (format!("HSET hl a {long}"), "hl", "HGETALL"),
        ("ZADD z 1 a 1.5 b -inf c 0.1 d".to_owned(), "z", "ZRANGE"),
        (format!("ZADD zl 1 a -2.25 b 3 {long}"), "zl", "ZRANGE"),
        ("SADD si 1 2 70000".to_owned(), "si", "SMEMBERS"),
        ("SADD sl a 1 300".to_owned(), "sl", "SMEMBERS"),
        (format!("SADD sh a 1 {long} -99999999999"), "sh", "SMEMBERS"),
    ] {
        client.call(&make);
        let show = |key: &str| match show {
            "LRANGE" => format!("LRANGE {key} 0 -1"),
            "ZRANGE" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            other => format!("{other} {key}"),
        };
        let payload = client.dump(key);
        assert_eq!(client.restore("copy 0", &payload, "REPLACE"), "+OK\r\n", "{key}");
        assert_eq!(client.call(&show("copy")), client.call(&show(key)), "{key}");
        let encoding = format!("OBJECT ENCODING {key}");
        assert_eq!(client.call("OBJECT ENCODING copy"), client.call(&encoding), "{key}");
        assert_eq!(client.dump("copy"), payload, "{key}");
        assert_eq!(client.call("PTTL copy"), ":-1\r\n");
    }
}

#[test]
fn fields_keep_their_expiries_and_are_deleted_when_they_are_over() {
    let mut client = Client::new();
    client.call("HSET h a 1 b 2");
    client.call("HPEXPIRE h 50 FIELDS 1 a");
    let payload = client.dump("h");
    let (mut other, mut later) = (Client::new(), Client::new());
    assert_eq!(other.restore("copy 0", &payload, ""), "+OK\r\n");
    assert_eq!(other.call("HPTTL copy FIELDS 2 a b"), "*2\r\n:50\r\n:-1\r\n");
    assert_eq!(other.call("OBJECT ENCODING copy"), "$9\r\nhashtable\r\n");
    other.server.clock.advance_ms(51);
    assert_eq!(other.call("HGETALL copy"), "*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
    other.records();
    other.server.sweep(0);
    assert_eq!(other.records(), ["HDEL copy a"], "the sweep looks for fields that expire");
    // A field whose time was over before is restored and gone.
    later.server.clock.advance_ms(1000);
    assert_eq!(later.restore("copy 0", &payload, ""), "+OK\r\n");
    assert_eq!(later.call("HGETALL copy"), "*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
}

#[test]
fn arguments_are_judged_in_valkey_s_order() {
    let mut client = Client::new();
    client.call("SET there v");
    let good = client.dump("there");
    let not_integer = "-ERR value is not an integer or out of range\r\n";
    let syntax = "-ERR syntax error\r\n";
    for (line, payload, options, reply) in [
        ("there x", &b"bad"[..], "what", syntax),
        ("there x", b"bad", "IDLETIME", syntax),
        ("there x", b"bad", "IDLETIME x", not_integer),
        ("there x", b"bad", "IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0\r\n"),
        ("there x", b"bad", "FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n"),
        ("there x", b"bad", "FREQ 1 IDLETIME 1", syntax),
        ("there x", b"bad", "IDLETIME 1 FREQ 1", syntax),
        ("there x", b"bad", "", "-BUSYKEY Target key name already exists.\r\n"),
        ("there x", b"bad", "REPLACE", not_integer),
        ("there -1", b"bad", "REPLACE", "-ERR Invalid TTL value, must be >= 0\r\n"),
        ("there 0", b"bad", "REPLACE", WRONG_CHECKSUM),
        ("there 0", &good[..good.len() - 1], "REPLACE", WRONG_CHECKSUM),
        ("there 0", &seal(b"\x08", 80), "REPLACE", BAD_DATA),
        ("there 1", &seal(b"\x08", 80), "REPLACE ABSTTL", BAD_DATA),
    ] {
        assert_eq!(client.restore(line, payload, options), reply, "{line} {options}");
        assert_eq!(client.call("GET there"), "$1\r\nv\r\n", "nothing changed");
    }
    assert_eq!(client.restore("new 0", &good, "replace absttl Idletime 5 REPLACE"), "+OK\r\n");
    assert_eq!(client.call("OBJECT IDLETIME new"), ":5\r\n");
    assert_eq!(client.restore("new 0", &good, "FREQ 255 REPLACE"), "+OK\r\n");
}

#[test]
fn a_payload_that_is_wrong_at_its_end_changes_nothing() {
    let mut client = Client::new();
    client.call("SET k v");
    client.records();
    for body in [
        &b"\x12\x01\x02\x0a\x0a\0\0\0\x01\0\x81a\x02"[..],
        b"\x01\x03\x01a\x01b",
        b"\x01\0",
        b"\x12\x01\x02\x07\x07\0\0\0\0\0\xff",
        b"\x04\x02\x01a\x011\x01b",
        b"\x04\x02\x01a\x011\x01a\x012",
        b"\x04\0",
        b"\x16\x01\x01a\x011\xfe\xff\xff\xff\xff\xff\xff\xff",
        b"\0\xc3\x04\x05\0a\x20\0",
        b"\x07\x01",
    ] {
        assert_eq!(client.restore("k 0", &seal(body, 80), "REPLACE"), BAD_DATA, "{body:?}");
        assert_eq!(client.call("GET k"), "$1\r\nv\r\n");
    }
    assert_eq!(client.records(), Vec::<String>::new());
}

/// A stream of nodes, each with one name that all its entries have.
fn stream_payload(names: &[Vec<u8>], node_entries: u64) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new(), Compression::None);
    let id = |number| StreamId { ms: 1 + number, seq: 0 };
    let length = names.len() as u64 * node_entries;
    encoder.stream(Place::Payload, names.len() as u64).expect("enough memory");
    for (node, name) in (0..).zip(names) {
        let first = node * node_entries;
        let mut listpack = StreamListpack::new(id(first));
        for number in first..first + node_entries {
            listpack.push(id(number), &[(name, b"v")]).expect("enough memory");
        }
        encoder.stream_entries(&listpack).expect("enough memory");
    }
    let state = StreamState {
        length,
        last_id: id(length - 1),
        first_id: Some(id(0)),
        max_deleted_id: None,
        entries_added: Some(u64::MAX),
    };
    encoder.stream_state(&state, 0).expect("enough memory");
    seal(&encoder.into_output(), 11)
}

/// Valkey stores names once for each node, whatever their length and number.
#[test]
fn names_that_a_node_of_a_payload_has_once_take_memory_once() {
    let mut client = Client::new();
    let of_bytes = |bytes: usize, count: usize| -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("{number:03}").repeat(bytes / 3).into_bytes()).collect()
    };
    for (name_bytes, name_count, node_entries) in
        [(1 << 16, 4, 1500), (4_000, 1, 20_000), (4_000, 200, 200), (6, 1, 100)]
    {
        let names = of_bytes(name_bytes, name_count);
        let payload = stream_payload(&names, node_entries);
        assert_eq!(client.restore("s 0", &payload, "REPLACE"), "+OK\r\n", "{name_bytes}");
        let usage = client.call("MEMORY USAGE s");
        let usage: usize = usage[1..].trim_end().parse().expect("a number of bytes");
        assert!(usage < 3 * payload.len() + 2000, "{usage} bytes of {}", payload.len());
        let last = client.call("XREVRANGE s + - COUNT 1");
        assert!(last.contains(std::str::from_utf8(&names[name_count - 1]).expect("digits")));
        let dumped = client.dump("s");
        assert_eq!(client.restore("t 0", &dumped, "REPLACE"), "+OK\r\n", "{name_bytes}");
        assert!(client.dump("t") == dumped, "{name_bytes}");
        assert_eq!(client.call("XADD s * f v").len(), 22, "the number of entries wraps");
        client.server.settle();
    }
}

#[test]
fn an_expiry_is_recorded_as_a_time() {
    let mut client = Client::new();
    client.call("SET s v");
    let payload = client.dump("s");
    client.records();
    let at_ms = START_MS + 500;
    assert_eq!(client.restore("k 500", &payload, "IDLETIME 3"), "+OK\r\n");
    assert_eq!(client.call("PEXPIRETIME k"), format!(":{at_ms}\r\n"));
    let line = format!("k {at_ms}");
    assert_eq!(client.restore(&line, &payload, "REPLACE ABSTTL"), "+OK\r\n");
    assert_eq!(client.restore("k 0", &payload, "REPLACE"), "+OK\r\n");
    assert_eq!(client.call("PTTL k"), ":-1\r\n");
    let records = [
        format!("RESTORE k {at_ms} IDLETIME 3 ABSTTL"),
        format!("RESTORE k {at_ms} REPLACE ABSTTL"),
        "RESTORE k 0 REPLACE".to_owned(),
    ];
    assert_eq!(client.records(), records);
}

#[test]
fn an_expiry_that_has_passed_makes_no_key() {
    let mut client = Client::new();
    client.call("RPUSH l v");
    for payload in [client.dump("l"), seal(b"\0\x01v", 80), seal(b"\x04\x01\x01a\x011", 80)] {
        client.call("SET k v");
        client.records();
        assert_eq!(client.restore("new 1", &payload, "ABSTTL"), "+OK\r\n");
        assert_eq!(client.restore("new 9223372036854775807", &payload, ""), "+OK\r\n");
        assert_eq!(client.call("EXISTS new"), ":0\r\n");
        assert_eq!(client.records(), Vec::<String>::new());
        assert_eq!(client.restore("k 1", &payload, "ABSTTL REPLACE"), "+OK\r\n");
        assert_eq!(client.call("EXISTS k"), ":0\r\n");
        assert_eq!(client.records(), ["DEL k"]);
    }
}

#[test]
fn versions_are_judged_by_the_directive() {
    let mut client = Client::new();
    for version in [12, 79, 81] {
        let reply = client.restore("k 0", &seal(b"\0\x01v", version), "REPLACE");
        assert_eq!(reply, WRONG_CHECKSUM, "{version}");
    }
    assert_eq!(client.restore("k 0", &seal(b"\0\x01v", 6), "REPLACE"), "+OK\r\n");
    assert_eq!(client.call("CONFIG SET rdb-version-check relaxed"), "+OK\r\n");
    for version in [12, 79, 81] {
        let reply = client.restore("k 0", &seal(b"\0\x01v", version), "REPLACE");
        assert_eq!(reply, "+OK\r\n", "{version}");
    }
    let reply = client.restore("k 0", &seal(b"\x16\0", 12), "REPLACE");
    assert_eq!(reply, "-ERR Unsupported foreign data type: 22\r\n");
}

#[test]
fn a_client_that_waits_for_a_list_is_served_by_its_restoration() {
    let mut client = Client::new();
    client.call("RPUSH l one two");
    let payload = client.dump("l");
    let waiting = client.server.connect(0);
    assert_eq!(client.server.call(waiting, &["BLPOP", "w", "0"]), "");
    assert_eq!(client.restore("w 0", &payload, ""), "+OK\r\n");
    assert_eq!(client.server.take_output(waiting), "*2\r\n$1\r\nw\r\n$3\r\none\r\n");
    assert_eq!(client.call("LRANGE w 0 -1"), "*1\r\n$3\r\ntwo\r\n");
}

#[test]
fn a_damaged_payload_is_told_to_the_log_at_a_limited_rate() {
    let mut client = Client::new();
    let bad = seal(b"\x0d\x1b\x25\x00\x00\x00secret", 9);
    let duplicate = seal(b"\x02\x02\x06secret\x06secret", 9);
    let lines = |client: &Client| client.server.host.take_lines();
    assert_eq!(client.restore("k 0", &bad, ""), BAD_DATA);
    let (level, line) = lines(&client).pop().expect("a line");
    assert_eq!(level, 1, "Valkey's is of the level verbose as well");
    assert!(line.starts_with("RESTORE: Hash ziplist integrity check failed at offset "), "{line}");
    assert!(line.ends_with("(a payload of 22 bytes, type 13)"), "{line}");

    for _ in 0..1000 {
        assert_eq!(client.restore("k 0", &duplicate, ""), BAD_DATA);
    }
    client.server.clock.advance_us(999_999);
    assert_eq!(client.restore("k 0", &duplicate, ""), BAD_DATA);
    assert_eq!(lines(&client), [], "a client filled the log");

    client.server.clock.advance_us(1);
    assert_eq!(client.restore("k 0", &duplicate, ""), BAD_DATA);
    let line = "RESTORE: Set integrity check failed at element 2: an element occurs twice (a \
                payload of 26 bytes, type 2); damaged payloads since the last such line: 1001 more";
    assert_eq!(lines(&client), [(1, line.to_string())]);
}

#[test]
fn what_is_refused_for_another_reason_is_not_called_damaged() {
    let mut client = Client::new();
    assert_eq!(
        client.restore("k 0", b"\x00\x01a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01", ""),
        WRONG_CHECKSUM
    );
    assert_eq!(client.restore("k 0", &seal(b"\x00\x01a", 9), ""), "+OK\r\n");
    assert!(client.restore("k 0", &seal(b"\x00\x01a", 9), "").contains("BUSYKEY"));
    assert_eq!(client.server.host.take_lines(), []);
}

/// Valkey deletes a key that is replaced, and so its new string has no room for an expiry.
#[test]
fn a_string_that_replaces_one_with_an_expiry_is_embedded_as_if_there_had_been_none() {
    let mut client = Client::new();
    client.call(&format!("SET from {}", "x".repeat(108)));
    let payload = client.dump("from");
    client.call("SET s2 old EX 100");
    let (server, id) = (&mut client.server, client.id);
    let reply = server.call_bytes(id, &[b"RESTORE", b"s2", b"0", &payload, b"REPLACE"]);
    assert_eq!(reply, "+OK\r\n");
    assert_eq!(client.call("OBJECT ENCODING s2"), "$6\r\nembstr\r\n");
}

#[test]
fn a_key_that_is_replaced_counts_as_new() {
    let mut server = Server::with_events(1, START_MS, true);
    let id = server.connect(0);
    let mut client = Client { server, id };
    for line in ["SET key v", "RPUSH key v", "HSET key f v", "XADD key 1-1 f v"] {
        client.call("DEL key");
        client.call(line);
        let payload = client.dump("key");
        let _ = client.server.publications.take();
        assert_eq!(client.restore("key 0", &payload, "REPLACE"), "+OK\r\n");
        let events = client.server.publications.take();
        let names: Vec<_> = events.iter().map(|publication| publication.event).collect();
        assert_eq!(names, ["new", "restore"], "{line}");
    }
}
