//! Commands whose temporary memory depends on the data or on the request, where the system gives
//! none: each answers an error, or does without, and the server goes on.
//!
//! A process of its own, for its allocator refuses large requests. A command that cannot do without
//! ends the process; its name is printed before.
#![allow(unsafe_code)]

mod harness;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::Server;
use tidemill_engine::commit::ActiveSinks;

/// Requests of more bytes find no memory.
static BYTES_MAX: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Limited;

// SAFETY: memory comes from the system's allocator; none may be given for any request.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > BYTES_MAX.load(Ordering::Relaxed) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: all memory came from the system, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// What commands find at most: less than anything that they need for each element, and more than
/// any node of a tree or table.
const LIMIT_BYTES: usize = 100_000;
const ELEMENT_COUNT: usize = 20_000;

fn append(input: &mut Vec<u8>, words: &[String]) {
    input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        input.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The words of `text` and behind them those of each element's number.
fn with_elements(text: &str, element: impl Fn(usize) -> Vec<String>) -> Vec<String> {
    words(text).into_iter().chain((0..ELEMENT_COUNT).flat_map(element)).collect()
}

fn fill(server: &mut Server, client: u64) {
    let elements: [(&str, fn(usize) -> Vec<String>); 9] = [
        ("RPUSH list", |n| vec![format!("{n:08}")]),
        ("SADD set", |n| vec![format!("{n:08}a")]),
        ("SADD other", |n| vec![format!("{n:08}b")]),
        ("SADD integers", |n| vec![n.to_string()]),
        ("ZADD sorted", |n| vec![n.to_string(), format!("{n:08}")]),
        ("ZADD scored", |n| vec![n.to_string(), format!("{n:08}c")]),
        ("HSET hash", |n| vec![format!("{n:08}"), format!("v{n}")]),
        ("GEOADD places", |n| vec![(n % 180).to_string(), "1".to_owned(), format!("{n:08}")]),
        ("MSET", |n| vec![format!("key:{n:08}"), "value".to_owned()]),
    ];
    let mut input = Vec::new();
    for (text, element) in elements {
        append(&mut input, &with_elements(text, element));
    }
    server.pipeline(client, &input);
    for number in 1..=ELEMENT_COUNT {
        input.clear();
        append(&mut input, &words(&format!("XADD stream {number}-1 field v{number}")));
        server.pipeline(client, &input);
        if number % 100 == 0 {
            // What was replaced is freed.
            server.settle();
        }
    }
    input.clear();
    for text in [
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 20000 STREAMS stream >",
        "SETRANGE long 200000 x",
        "SETRANGE left 5000 x",
        "SETRANGE right 5000 y",
    ] {
        append(&mut input, &words(text));
    }
    server.pipeline(client, &input);
}

const COMMANDS: &[&str] = &[
    "SORT list ALPHA",
    "SORT list ALPHA STORE stored",
    "SORT list BY w_* GET # GET v_*",
    "LPOS list 00000001 COUNT 0 MAXLEN 0",
    "LRANGE list 0 -1",
    "COPY list stored",
    "DUMP list",
    "SMEMBERS set",
    "SRANDMEMBER set 19990",
    "SRANDMEMBER set 10000",
    "SRANDMEMBER set -100000",
    "SUNION set other",
    "SUNIONSTORE stored set other",
    "SDIFF set other",
    "SDIFFSTORE stored set other",
    "SINTER set set",
    "SINTERSTORE stored set set",
    "SUNION integers set",
    "SUNIONSTORE stored integers",
    "SORT set ALPHA",
    "SSCAN set 0 COUNT 20000",
    "DUMP set",
    "DUMP integers",
    "COPY set stored",
    "ZUNION 2 set sorted",
    "ZRANGE sorted 0 -1 WITHSCORES",
    "ZRANGESTORE stored sorted 0 -1",
    "ZRANDMEMBER sorted 10000",
    "ZRANDMEMBER sorted -100000 WITHSCORES",
    "ZUNIONSTORE stored 2 sorted scored",
    "ZUNION 2 sorted scored WITHSCORES",
    "ZINTERSTORE stored 2 sorted sorted",
    "ZINTER 2 sorted sorted",
    "ZDIFF 2 sorted scored",
    "ZDIFFSTORE stored 2 sorted scored",
    "ZRANGEBYSCORE sorted -inf +inf",
    "ZSCAN sorted 0 COUNT 20000",
    "DUMP sorted",
    "COPY sorted stored",
    "HGETALL hash",
    "HKEYS hash",
    "HRANDFIELD hash 10000 WITHVALUES",
    "HRANDFIELD hash -100000",
    "HSCAN hash 0 COUNT 20000",
    "DUMP hash",
    "COPY hash stored",
    "XRANGE stream - +",
    "XREAD COUNT 20000 STREAMS stream 0",
    "XPENDING stream group - + 20000",
    "XINFO STREAM stream FULL COUNT 0",
    "DUMP stream",
    "COPY stream stored",
    "GEOSEARCH places FROMLONLAT 0 0 BYRADIUS 30000 km ASC WITHCOORD WITHDIST",
    "GEOSEARCH places FROMLONLAT 0 0 BYRADIUS 30000 km",
    "GEOSEARCHSTORE stored places FROMLONLAT 0 0 BYRADIUS 30000 km",
    "KEYS *",
    "SCAN 0 COUNT 100000",
    "LCS left right",
    "LCS left right IDX",
    "GETRANGE long 0 -1",
    "APPEND long x",
    "SETRANGE long 5 x",
    "BITOP NOT stored long",
    "COPY long stored",
    "DUMP long",
    // These change what the others read.
    "LPOP list 15000",
    "RPOP list 15000",
    "LMPOP 1 list LEFT COUNT 15000",
    "LTRIM list 1 -2",
    "SPOP set 19990",
    "SPOP set 10000",
    "ZPOPMIN sorted 15000",
    "ZMPOP 1 sorted MAX COUNT 15000",
    "ZREMRANGEBYRANK sorted 0 -2",
    "XREADGROUP GROUP group consumer STREAMS stream 0",
    "XAUTOCLAIM stream group another 0 0 COUNT 20000",
    "XTRIM stream MAXLEN = 1",
    "GETDEL long",
    "FLUSHALL ASYNC",
];

#[test]
fn commands_without_memory_answer_errors() {
    let mut server = Server::new(1, 1_700_000_000_000);
    server.switch_sinks(ActiveSinks::empty());
    let client = server.connect(0);
    fill(&mut server, client);
    let mut input = Vec::new();
    for text in COMMANDS {
        input.clear();
        append(&mut input, &words(text));
        eprintln!("{text}");
        BYTES_MAX.store(LIMIT_BYTES, Ordering::Relaxed);
        server.pipeline(client, &input);
        BYTES_MAX.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(server.call(client, &["ECHO", "there"]), "$5\r\nthere\r\n");
    }
}
