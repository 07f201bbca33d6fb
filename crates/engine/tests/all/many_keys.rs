//! A command with many keys does to each what a command with that key alone would do.
//!
//! The keys of the former are hashed together and fetched ahead; those of the latter one by one.

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

/// Keys of all lengths up to 40, with and without tags; some stand there twice.
fn keys(count: usize) -> Vec<String> {
    let key = |index: usize| match index % 10 {
        0 => format!("{{tag{}}}{index}", index % 7),
        9 => format!("{:x<width$}", index - 1, width = (index - 1) % 41),
        _ => format!("{index:x<width$}", width = index % 41),
    };
    (0..count).map(key).collect()
}

fn command<'w>(name: &'w str, words: impl IntoIterator<Item = &'w String>) -> Vec<&'w str> {
    [name].into_iter().chain(words.into_iter().map(String::as_str)).collect()
}

/// `MSET`s each key to a value of its own and returns the values, the last one of a key counting.
fn set_all(server: &mut Server, client: u64, keys: &[String]) -> Vec<String> {
    let value = |key: &String| {
        let last = keys.iter().rposition(|other| other == key).expect("it is one of them");
        format!("value {last}")
    };
    let pairs = (0..keys.len()).flat_map(|index| [keys[index].clone(), format!("value {index}")]);
    let pairs: Vec<String> = pairs.collect();
    assert_eq!(server.call(client, &command("MSET", &pairs)), "+OK\r\n");
    keys.iter().map(value).collect()
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn each_key_is_set_read_and_deleted() {
    for count in (1..70).chain([300]) {
        let mut server = Server::new(1, START_MS);
        let client = server.connect(0);
        let keys = keys(count);
        let values = set_all(&mut server, client, &keys);
        for (key, value) in keys.iter().zip(&values) {
            assert_eq!(server.call(client, &["GET", key]), bulk(value), "{key} of {count}");
        }
        let all: String = values.iter().map(|value| bulk(value)).collect();
        assert_eq!(server.call(client, &command("MGET", &keys)), format!("*{count}\r\n{all}"));
        assert_eq!(server.call(client, &command("EXISTS", &keys)), format!(":{count}\r\n"));
        assert_eq!(server.call(client, &["DEL", &keys[count / 2]]), ":1\r\n");
        let left = keys.iter().filter(|&key| *key != keys[count / 2]).count();
        assert_eq!(server.call(client, &command("TOUCH", &keys)), format!(":{left}\r\n"));
        server.call(client, &command("UNLINK", &keys));
        assert_eq!(server.call(client, &["DBSIZE"]), ":0\r\n", "of {count}");
    }
}

#[test]
fn keys_that_are_asked_for_twice_or_out_of_turn_are_found() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let keys = keys(100);
    let pairs: Vec<String> = keys.iter().flat_map(|key| [key.clone(), "\u{1}".into()]).collect();
    // All keys are looked at first, and set then.
    assert_eq!(server.call(client, &command("MSETNX", &pairs)), ":1\r\n");
    assert_eq!(server.call(client, &command("MSETNX", &pairs)), ":0\r\n");
    // The first of the keys is written when the others are read.
    let operands: Vec<String> = ["XOR", "target"].map(String::from).into_iter().collect();
    assert_eq!(server.call(client, &command("BITOP", operands.iter().chain(&keys))), ":1\r\n");
    assert_eq!(server.call(client, &["GET", "target"]), bulk("\0"));
    let into_last = ["OR", &keys[99]].map(String::from);
    assert_eq!(server.call(client, &command("BITOP", into_last.iter().chain(&keys))), ":1\r\n");
    for key in &keys {
        assert_eq!(server.call(client, &["GET", key]), bulk("\u{1}"), "{key}");
    }
}

#[test]
fn a_key_of_no_bytes_is_not_taken_for_the_key_behind_it() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let calls: [(&[u8], &str); 6] = [
        (b"SET \"\" none\r\n", "+OK\r\n"),
        (b"SET a one\r\n", "+OK\r\n"),
        (b"MGET \"\" a\r\n", "*2\r\n$4\r\nnone\r\n$3\r\none\r\n"),
        (b"MGET a \"\" \"\" a\r\n", "*4\r\n$3\r\none\r\n$4\r\nnone\r\n$4\r\nnone\r\n$3\r\none\r\n"),
        (b"MSET \"\" two a three\r\n", "+OK\r\n"),
        (b"MGET \"\" a\r\n", "*2\r\n$3\r\ntwo\r\n$5\r\nthree\r\n"),
    ];
    for (input, reply) in calls {
        server.turn_once(client, input);
        assert_eq!(server.take_output(client), reply, "{}", input.escape_ascii());
    }
    server.call(client, &["LPUSH", "l", "x"]);
    server.turn_once(client, b"COPY l \"\" REPLACE\r\n");
    assert_eq!(server.take_output(client), ":1\r\n");
    assert_eq!(server.call(client, &["LMOVE", "", "l", "LEFT", "RIGHT"]), bulk("x"));
    assert_eq!(server.call(client, &["LLEN", "l"]), ":2\r\n");
}
