//! Long strings.

use super::harness::Server;

#[test]
fn a_string_written_over_as_a_whole_is_stored_as_one_that_is_set() {
    let mut server = Server::with_events(1, 1_000_000, true);
    let client = server.connect(0);
    let mut call = |words: &[&str]| server.call(client, words).trim_end().to_owned();
    let (short, long) = ("x".repeat(20_000), "y".repeat(30_000));
    for length in [20_001, 25_000, 30_000] {
        let over = &long[..length];
        assert_eq!(call(&["SET", "a", &short, "PX", "5000"]), "+OK");
        assert_eq!(call(&["APPEND", "a", "z"]), ":20001");
        assert_eq!(call(&["SETRANGE", "a", "0", over]), format!(":{length}"));
        assert_eq!(call(&["GET", "a"]), format!("${length}\r\n{over}"));
        assert_eq!(call(&["PTTL", "a"]), ":5000", "it keeps its expiry");
        assert_eq!(call(&["SET", "b", over, "PX", "5000"]), "+OK");
        let [a, b] = ["a", "b"].map(|key| call(&["MEMORY", "USAGE", key]));
        assert_eq!(a, b, "it has chunks");
    }
    assert_eq!(call(&["SETRANGE", "a", "0", &short]), ":30000");
    assert_eq!(call(&["GETRANGE", "a", "19999", "20001"]), "$3\r\nxyy", "the rest stays");
}

#[test]
fn an_append_of_as_much_as_there_is_makes_one_piece_and_of_less_chunks() {
    let mut server = Server::with_events(1, 1_000_000, true);
    let client = server.connect(0);
    let mut call = |words: &[&str]| server.call(client, words).trim_end().to_owned();
    let bytes = "0123456789".repeat(2000);
    for (head, tail, is_whole) in [
        (1, 4095, true),
        (1, 4096, true),
        (5000, 4999, false),
        (5000, 5000, true),
        (5000, 9000, true),
    ] {
        let (head, tail) = (&bytes[..head], &bytes[bytes.len() - tail..]);
        let whole = [head, tail].concat();
        assert_eq!(call(&["SET", "a", head, "PX", "5000"]), "+OK");
        assert_eq!(call(&["APPEND", "a", tail]), format!(":{}", whole.len()));
        assert_eq!(call(&["GET", "a"]), format!("${}\r\n{whole}", whole.len()));
        assert_eq!(call(&["PTTL", "a"]), ":5000", "it keeps its expiry");
        assert_eq!(call(&["OBJECT", "ENCODING", "a"]), "$3\r\nraw");
        assert_eq!(call(&["SET", "b", &whole, "PX", "5000"]), "+OK");
        let [a, b] = ["a", "b"].map(|key| call(&["MEMORY", "USAGE", key]));
        assert_eq!(a == b, is_whole, "{} and {}", head.len(), tail.len());
    }
}
