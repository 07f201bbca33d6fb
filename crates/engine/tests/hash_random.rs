//! A short request for very many fields by chance ends in an error instead of taking all memory.

mod harness;

use harness::Server;

const START_MS: u64 = 1_700_000_000_000;
const VALUE_BYTES: usize = 64 << 10;
const TOO_LARGE: &str = "-ERR reply exceeds maximum allowed size (proto-max-bulk-len)\r\n";

/// A server that allows 1 MiB, whose hash `h` has one field `f` of [`VALUE_BYTES`].
fn with_large_field() -> (Server, u64) {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    assert_eq!(server.call(client, &["CONFIG", "SET", "proto-max-bulk-len", "1mb"]), "+OK\r\n");
    assert_eq!(server.call(client, &["HSET", "h", "f", &"v".repeat(VALUE_BYTES)]), ":1\r\n");
    (server, client)
}

#[test]
fn a_count_that_no_reply_holds_is_refused_before_anything_is_drawn() {
    let (mut server, client) = with_large_field();
    for count in ["-9223372036854775807", "-4611686018427387903", "-1000000000"] {
        assert_eq!(server.call(client, &["HRANDFIELD", "h", count]), TOO_LARGE, "{count}");
    }
    let most = ["HRANDFIELD", "h", "-4611686018427387903", "WITHVALUES"];
    assert_eq!(server.call(client, &most), TOO_LARGE);
    let more = ["HRANDFIELD", "h", "-4611686018427387904", "WITHVALUES"];
    assert_eq!(server.call(client, &more), "-ERR value is out of range\r\n");
    assert_eq!(server.call(client, &["HRANDFIELD", "absent", "-9223372036854775807"]), "*0\r\n");
}

#[test]
fn a_reply_that_grows_too_large_is_taken_back() {
    let (mut server, client) = with_large_field();
    let pair = format!("$1\r\nf\r\n${VALUE_BYTES}\r\n{}\r\n", "v".repeat(VALUE_BYTES));
    let fits = server.call(client, &["HRANDFIELD", "h", "-15", "WITHVALUES"]);
    assert!(fits == format!("*30\r\n{}", pair.repeat(15)), "15 pairs are less than 1 MiB");
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "-16", "WITHVALUES"]), TOO_LARGE);
    server.call(client, &["MULTI"]);
    server.call(client, &["HRANDFIELD", "h", "-16", "WITHVALUES"]);
    server.call(client, &["HLEN", "h"]);
    assert_eq!(server.call(client, &["EXEC"]), format!("*2\r\n{TOO_LARGE}:1\r\n"));
}

#[test]
fn fields_whose_time_is_over_are_not_drawn() {
    let (mut server, client) = with_large_field();
    server.call(client, &["HPEXPIRE", "h", "5", "FIELDS", "1", "f"]);
    server.clock.advance_ms(10);
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "-3"]), "*0\r\n");
    server.call(client, &["HSET", "h", "g", "v"]);
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "-2"]), "*2\r\n$1\r\ng\r\n$1\r\ng\r\n");
    assert_eq!(server.call(client, &["HRANDFIELD", "h", "2"]), "*1\r\n$1\r\ng\r\n");
    assert_eq!(server.call(client, &["HRANDFIELD", "h"]), "$1\r\ng\r\n");
}
