//! Effects of commands beside their replies, as Valkey 9.1 was seen to have them: keyspace events,
//! numbers of changes, encodings.

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;

struct Client {
    server: Server,
    id: u64,
}

impl Client {
    fn new() -> Client {
        let mut server = Server::with_events(1, START_MS, true);
        let id = server.connect(0);
        server.shared.set_active_expiry(false);
        Client { server, id }
    }

    fn call(&mut self, line: &str) -> String {
        let reply = self.server.call(self.id, &line.split(' ').collect::<Vec<_>>());
        reply.trim_end().replace("\r\n", " ")
    }

    /// A number of `INFO`.
    fn number(&mut self, name: &str) -> u64 {
        let info = self.call("INFO");
        let field = format!("{name}:");
        let number = info.split(' ').find_map(|word| word.strip_prefix(&field));
        number.expect("it is shown").parse().expect("a number")
    }

    /// Calls a line, and asserts its reply, its events and the number of its changes.
    fn check(&mut self, line: &str, reply: &str, events: &[&str], changes: u64) {
        let _ = self.server.publications.take();
        let before = self.number("rdb_changes_since_last_save");
        assert_eq!(self.call(line), reply, "{line}");
        let publications = self.server.publications.take();
        let told = publications.iter().map(|each| format!("{} {}", each.event, each.key));
        assert_eq!(told.collect::<Vec<_>>(), events, "{line}");
        assert_eq!(self.number("rdb_changes_since_last_save") - before, changes, "{line}");
    }
}

#[test]
fn ltrim_of_nothing_is_told_and_changes_nothing() {
    let mut client = Client::new();
    client.call("RPUSH l a b");
    client.call("WATCH l");
    client.check("LTRIM l 0 -1", "+OK", &["ltrim l"], 0);
    client.check("LTRIM l 0 100", "+OK", &["ltrim l"], 0);
    client.check("LTRIM none 0 1", "+OK", &[], 0);
    client.call("MULTI");
    assert_eq!(client.call("EXEC"), "*0");
    client.check("LTRIM l 1 -1", "+OK", &["ltrim l"], 1);
    client.check("LTRIM l 5 9", "+OK", &["ltrim l", "del l"], 1);
}

#[test]
fn bitfield_that_grows_by_refused_writes_is_not_told() {
    let mut client = Client::new();
    client.check("BITFIELD k OVERFLOW FAIL SET u1 88 9", "*1 $-1", &["new k"], 1);
    client.check("STRLEN k", ":12", &[], 0);
    client.check("BITFIELD k OVERFLOW FAIL SET u1 96 9 SET u1 97 1", "*2 $-1 :0", &["setbit k"], 1);
}

#[test]
fn changes_of_whole_databases_count_as_keys_and_exchanges() {
    let mut client = Client::new();
    client.check("FLUSHALL", "+OK", &[], 0);
    client.check("SWAPDB 3 3", "+OK", &[], 1);
    client.call("MSET a 1 b 2");
    client.check("FLUSHDB", "+OK", &[], 2);
}

#[test]
fn msetex_with_a_time_that_has_passed_sets_keys_that_expire_at_once() {
    let mut client = Client::new();
    client.call("SET k v");
    client.check("MSETEX 1 k w PXAT 1", ":1", &["set k", "expire k"], 1);
    client.check("SET k v NX", "+OK", &["expired k", "new k", "set k"], 1);
    assert_eq!(client.number("expired_keys"), 1);
    let events = ["new a", "set a", "expire a", "new b", "set b", "expire b"];
    client.check("MSETEX 2 a 1 b 2 NX EXAT 1", ":1", &events, 2);
    client.check("DBSIZE", ":3", &[], 0);
    client.check("INCR b", ":1", &["expired b", "new b", "incrby b"], 1);
    assert_eq!(client.call("GET a"), "$-1");
    // A time that has come and not passed is one of this millisecond.
    let now = format!("MSETEX 1 c 1 PXAT {START_MS}");
    client.check(&now, ":1", &["new c", "set c", "expire c"], 1);
    client.server.clock.advance_ms(1);
    assert_eq!(client.call("GET c"), "$-1");
}

#[test]
fn expired_keys_are_deleted_before_any_of_several_is_set() {
    let events = ["expired k", "new z", "set z", "new k", "set k"];
    for line in ["MSETEX 2 z v k v NX", "MSETNX z v k v"] {
        let mut client = Client::new();
        client.call("SET k v PX 5");
        client.server.clock.advance_ms(10);
        client.check(line, ":1", &events, 2);
    }
}

#[test]
fn hsetex_with_a_time_that_has_passed_is_told_whatever_it_finds() {
    let mut client = Client::new();
    let told = ["hset h", "hexpire h", "hexpired h"];
    let all = ["new h", "hset h", "hexpire h", "hexpired h", "del h"];
    client.check("HSETEX h PXAT 1 FIELDS 2 a x a y", ":1", &all, 0);
    client.check("EXISTS h", ":0", &[], 0);
    client.call("HSET h a 1 b 2");
    client.call("WATCH h");
    client.check("HSETEX h FNX PXAT 1 FIELDS 1 z x", ":1", &told, 0);
    client.check("HSETEX h FXX PXAT 1 FIELDS 1 z x", ":0", &[], 0);
    client.call("MULTI");
    assert_eq!(client.call("EXEC"), "*0");
    client.check("HSETEX h PXAT 1 FIELDS 2 z x a 1", ":1", &told, 1);
    client.check("HSETEX h PXAT 1 FIELDS 1 b x", ":1", &all[1..], 1);
}

#[test]
fn hsetex_with_a_time_that_has_passed_deletes_a_field_that_has_expired() {
    let mut client = Client::new();
    let told = ["hset h", "hexpire h", "hexpired h"];
    client.call("HSET h a 1 b 2");
    client.call("HPEXPIRE h 5 FIELDS 1 a");
    client.server.clock.advance_ms(10);
    let _ = client.server.journal.take();
    client.check("HSETEX h PXAT 1 FIELDS 1 a x", ":1", &told, 1);
    client.check("HLEN h", ":1", &[], 0);
    let records = client.server.journal.take().into_iter().flatten();
    let deleted = records.filter(|effect| effect.arguments.view().get(0) == b"HDEL");
    assert_eq!(deleted.count(), 1);
}

#[test]
fn writes_of_bitfield_count_where_the_string_grew() {
    let mut client = Client::new();
    let events = ["new k", "setbit k"];
    let line = "BITFIELD k SET u8 0 0 SET u8 8 0 SET u8 16 0";
    client.check(line, "*3 :0 :0 :0", &events, 3);
    client.check("BITFIELD k SET u8 0 0", "*1 :0", &[], 0);
    client.check("BITFIELD k SET u8 0 1 SET u8 8 0", "*2 :0 :0", &["setbit k"], 1);
    client.check("BITFIELD k GET u8 300 SET u8 400 0 SET u8 0 1", "*3 :0 :0 :1", &["setbit k"], 2);
    let refused = "BITFIELD k OVERFLOW FAIL SET u1 800 9 SET u8 0 1";
    client.check(refused, "*2 $-1 :1", &["setbit k"], 1);
}

#[test]
fn zincrby_that_fails_leaves_the_encoding_that_was_judged_before() {
    let mut client = Client::new();
    client.call("ZADD z inf m");
    client.call("CONFIG SET zset-max-listpack-entries 0");
    let nan = "-ERR resulting score is not a number (NaN)";
    client.check("ZINCRBY z -inf m", nan, &[], 0);
    assert_eq!(client.call("OBJECT ENCODING z"), "$8 skiplist");
}

#[test]
fn lset_out_of_range_leaves_the_encoding_that_was_judged_before() {
    let mut client = Client::new();
    let full = format!("RPUSH l {}", "x".repeat(8180));
    client.call(&full);
    assert_eq!(client.call("OBJECT ENCODING l"), "$8 listpack");
    client.check("LSET l 9 xxxxxxxxxxx", "-ERR index out of range", &[], 0);
    assert_eq!(client.call("OBJECT ENCODING l"), "$9 quicklist");
}

#[test]
fn xautoclaim_counts_its_key_as_looked_up_before_its_arguments() {
    let mut client = Client::new();
    let idle = "-ERR Invalid min-idle-time argument for XAUTOCLAIM";
    assert_eq!(client.call("XAUTOCLAIM none g c bad 0"), idle);
    assert_eq!(client.number("keyspace_misses"), 1);
    client.call("SET k v");
    assert_eq!(client.call("XAUTOCLAIM k g c bad 0"), idle, "before the type");
    assert_eq!(client.number("keyspace_hits"), 1);
    assert!(client.call("XAUTOCLAIM k g c 1 0").starts_with("-WRONGTYPE"));
}

#[test]
fn copy_without_a_source_leaves_an_expired_target() {
    let mut client = Client::new();
    client.call("SET k v PX 5");
    client.server.clock.advance_ms(10);
    client.check("COPY none k", ":0", &[], 0);
    client.call("SET h v");
    client.check("COPY h k", ":1", &["expired k", "new k", "copy_to k"], 1);
}

#[test]
fn options_of_other_scans_are_named() {
    let mut client = Client::new();
    let error = "-ERR NOSCORES option can only be used in ZSCAN";
    assert_eq!(client.call("SCAN 0 NOSCORES"), error);
    assert_eq!(client.call("SCAN 0 NOSCORES COUNT 5"), error);
}
