//! Hashes as Valkey has them: scans, names of encodings, counts of changes.

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

fn call(server: &mut Server, client: u64, line: &str) -> String {
    server.call(client, &line.split(' ').collect::<Vec<_>>())
}

fn server() -> (Server, u64) {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    (server, client)
}

/// Sets fields `f0`, `f1`, ... of `h`.
fn set_fields(server: &mut Server, client: u64, count: usize) {
    let pairs: String = (0..count).map(|index| format!(" f{index} v")).collect();
    call(server, client, &format!("HSET h{pairs}"));
}

/// Cursor that a scan with a small `COUNT` answers, and the number of its lines.
fn scan(server: &mut Server, client: u64) -> (String, usize) {
    let reply = call(server, client, "HSCAN h 0 COUNT 10 NOVALUES");
    let lines: Vec<_> = reply.lines().collect();
    (lines[2].to_owned(), lines.len())
}

#[test]
fn a_listpack_is_scanned_in_one_step() {
    let (mut server, client) = server();
    set_fields(&mut server, client, 200);
    assert_eq!(scan(&mut server, client), ("0".to_owned(), 4 + 2 * 200));
    let from_within = call(&mut server, client, "HSCAN h 5 COUNT 10 MATCH f1");
    assert_eq!(from_within, "*2\r\n$1\r\n0\r\n*2\r\n$2\r\nf1\r\n$1\r\nv\r\n");
    call(&mut server, client, "CONFIG SET hash-max-listpack-entries 100");
    call(&mut server, client, "HSET h f0 v");
    assert_ne!(scan(&mut server, client).0, "0", "a hash table is scanned in pieces");
}

/// A command as it is sent.
fn encoded(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulks.collect::<String>())
}

fn encoding(server: &mut Server, client: u64) -> String {
    call(server, client, "OBJECT ENCODING h").lines().last().expect("a reply").to_owned()
}

#[test]
fn pairs_of_one_field_count_for_the_encoding() {
    let (mut server, client) = server();
    call(&mut server, client, "CONFIG SET hash-max-listpack-entries 2");
    for line in ["HSET h f 1 f 2 f 3", "HMSET h f 1 f 2 f 3"] {
        call(&mut server, client, line);
        assert_eq!(call(&mut server, client, "HLEN h"), ":1\r\n");
        assert_eq!(encoding(&mut server, client), "hashtable", "{line}");
        call(&mut server, client, "DEL h");
    }
    call(&mut server, client, "HSET h f 1 f 2");
    assert_eq!(encoding(&mut server, client), "listpack");
    // In a run.
    let run = ["HSET h f 1", "HSET h f 1 f 2 f 3", "HSET h f 1"].map(encoded).concat();
    server.pipeline(client, run.as_bytes());
    assert_eq!(encoding(&mut server, client), "hashtable");
}

#[test]
fn a_limit_that_was_lowered_counts_when_a_field_is_set() {
    for line in ["HDEL h f0", "HGETDEL h FIELDS 1 f0", "HEXPIREAT h 1 FIELDS 1 f0"] {
        let (mut server, client) = server();
        set_fields(&mut server, client, 4);
        call(&mut server, client, "CONFIG SET hash-max-listpack-entries 2");
        call(&mut server, client, line);
        assert_eq!(call(&mut server, client, "HLEN h"), ":3\r\n", "{line}");
        assert_eq!(encoding(&mut server, client), "listpack", "{line}");
        call(&mut server, client, "HSET h f1 v");
        assert_eq!(encoding(&mut server, client), "hashtable", "{line}");
    }
}
