//! Commands whose temporary memory depends on the data or on the request, where the system gives
//! none: each answers an error, or does without, and the server goes on.
//!
//! A process of its own, for its allocator refuses large requests. A command that cannot do without
//! ends the process; its name is printed before.
#![allow(unsafe_code)]

mod harness;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use harness::Server;
use tidemill_engine::commit::ActiveSinks;
use tidemill_engine::execute;

/// Requests of more bytes find no memory.
static BYTES_MAX: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bytes that are left, for requests of [`BUDGETED_BYTES_MIN`] and more.
static BYTES_LEFT: AtomicI64 = AtomicI64::new(i64::MAX / 2);

/// Number of requests that found no memory.
static REFUSED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Requests of fewer bytes are for what is small whatever a client sends.
const BUDGETED_BYTES_MIN: usize = 16 << 10;

/// Whose limit it is: tests of one process run beside each other.
static LIMITED_TEST: Mutex<()> = Mutex::new(());

struct Limited;

// SAFETY: memory comes from the system's allocator; none may be given for any request.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > BYTES_MAX.load(Ordering::Relaxed) || !take(layout) {
            REFUSED_COUNT.fetch_add(1, Ordering::Relaxed);
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give_back(layout);
        // SAFETY: all memory came from the system, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Takes a block from what is left; false if it is more than that.
fn take(layout: Layout) -> bool {
    let bytes = layout.size() as i64;
    let is_budgeted = layout.size() >= BUDGETED_BYTES_MIN;
    if is_budgeted && BYTES_LEFT.fetch_sub(bytes, Ordering::Relaxed) < bytes {
        BYTES_LEFT.fetch_add(bytes, Ordering::Relaxed);
        return false;
    }
    true
}

fn give_back(layout: Layout) {
    if layout.size() >= BUDGETED_BYTES_MIN {
        BYTES_LEFT.fetch_add(layout.size() as i64, Ordering::Relaxed);
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Memory that commands find: less than anything that they need for each element, and as much as
/// they take in one piece without having asked.
const LIMIT_BYTES: usize = 256 << 10;
const ELEMENT_COUNT: usize = 60_000;

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
fn with_elements(text: &str, element: Element) -> Vec<String> {
    words(text).into_iter().chain((0..ELEMENT_COUNT).flat_map(element)).collect()
}

/// The words of the element with a number.
type Element = fn(usize) -> Vec<String>;

fn fill(server: &mut Server, client: u64) {
    let elements: [(&str, Element); 9] = [
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
    input.clear();
    append(&mut input, &words("XGROUP CREATE crowded group 0 MKSTREAM"));
    server.pipeline(client, &input);
    for number in 1..=ELEMENT_COUNT {
        input.clear();
        append(&mut input, &words(&format!("XADD stream {number}-1 field v{number}")));
        append(&mut input, &words(&format!("XGROUP CREATECONSUMER crowded group {number}")));
        server.pipeline(client, &input);
        if number % 100 == 0 {
            // Replaced nodes are freed.
            server.settle();
        }
    }
    input.clear();
    for text in [
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 60000 STREAMS stream >",
        "SETRANGE long 600000 x",
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
    "SRANDMEMBER set 59990",
    "SRANDMEMBER set 40000",
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
    "SSCAN set 0 COUNT 60000",
    "DUMP set",
    "DUMP integers",
    "COPY set stored",
    "ZUNION 2 set sorted",
    "ZRANGE sorted 0 -1 WITHSCORES",
    "ZRANGESTORE stored sorted 0 -1",
    "ZRANDMEMBER sorted 40000",
    "ZRANDMEMBER sorted -100000 WITHSCORES",
    "ZUNIONSTORE stored 2 sorted scored",
    "ZUNION 2 sorted scored WITHSCORES",
    "ZINTERSTORE stored 2 sorted sorted",
    "ZINTER 2 sorted sorted",
    "ZDIFF 2 sorted scored",
    "ZDIFFSTORE stored 2 sorted scored",
    "ZRANGEBYSCORE sorted -inf +inf",
    "ZSCAN sorted 0 COUNT 60000",
    "DUMP sorted",
    "COPY sorted stored",
    "HGETALL hash",
    "HKEYS hash",
    "HRANDFIELD hash 40000 WITHVALUES",
    "HRANDFIELD hash -100000",
    "HSCAN hash 0 COUNT 60000",
    "DUMP hash",
    "COPY hash stored",
    "XRANGE stream - +",
    "XREAD COUNT 60000 STREAMS stream 0",
    "XPENDING stream group - + 60000",
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
    "LPOP list 50000",
    "RPOP list 50000",
    "LMPOP 1 list LEFT COUNT 50000",
    "LTRIM list 1 -2",
    "SPOP set 59990",
    "SPOP set 40000",
    "ZPOPMIN sorted 50000",
    "ZMPOP 1 sorted MAX COUNT 50000",
    "ZREMRANGEBYRANK sorted 0 -2",
    "XREADGROUP GROUP group consumer STREAMS stream 0",
    "XAUTOCLAIM stream group another 0 0 COUNT 60000",
    "XTRIM stream MAXLEN = 1",
    "XGROUP DESTROY crowded group",
    "GETDEL long",
    "FLUSHALL ASYNC",
];

const ARGUMENT_COUNT: usize = 16_000;

/// Memory that requests with many arguments find: as much as they have asked for.
const ARGUMENTS_LIMIT_BYTES: usize = ARGUMENT_COUNT * ARGUMENT_BYTES_MAX;
const ARGUMENT_BYTES_MAX: usize = 128;

/// Commands with many arguments: the words before these, and the arguments for each number.
const OF_MANY: &[(&str, &str)] = &[
    ("MGET", "key:#"),
    ("EXISTS", "key:#"),
    ("TOUCH", "key:#"),
    ("WATCH", "key:#"),
    ("MSET", "new:# value"),
    ("MSETNX", "newer:# value"),
    ("BLPOP", "absent:#"),
    ("BZPOPMIN", "absent:#"),
    ("SUBSCRIBE", "channel:#"),
    ("PSUBSCRIBE", "pattern:#"),
    ("SSUBSCRIBE", "{channel}#"),
    ("PUBSUB NUMSUB", "channel:#"),
    ("CLIENT KILL", "ID 9#"),
    ("CLIENT TRACKING ON BCAST", "PREFIX prefix:#"),
    ("COMMAND GETKEYS MGET", "key:#"),
    ("COMMAND INFO", "none:#"),
    ("CONFIG GET", "none:#"),
    ("SCRIPT EXISTS", "none:#"),
    ("ACL SETUSER user", "~key:#"),
    ("SMISMEMBER set", "#a"),
    ("SINTERCARD 16000", "set:#"),
    ("SUNION", "set:#"),
    ("SDIFF set", "set:#"),
    ("ZMSCORE sorted", "#"),
    ("ZUNION 16000", "sorted:#"),
    ("ZINTERCARD 16000", "sorted:#"),
    ("HMGET hash", "#"),
    ("HTTL hash FIELDS 16000", "#"),
    ("HEXPIRE hash 100 FIELDS 16000", "#"),
    ("HGETEX hash EX 100 FIELDS 16000", "#"),
    ("GEOPOS places", "#"),
    ("GEOHASH places", "#"),
    ("XACK stream group", "#-1"),
    ("XCLAIM stream group another 0", "#-1"),
    ("XADD entries *", "field# value"),
    ("PFADD counted", "element:#"),
    ("PFCOUNT", "absent:#"),
    ("PFMERGE counted", "absent:#"),
    ("BITOP OR stored", "absent:#"),
    ("BITFIELD bits", "GET u8 #"),
    ("RPUSH pushed", "element:#"),
    ("SADD added", "element:#"),
    ("HSET fields", "field:# value"),
    ("ZADD members", "# member:#"),
    ("GEOADD points", "1 1 place:#"),
    ("EVAL return{#KEYS,#ARGV} 16000", "key:#"),
    ("XDEL stream", "#-1"),
    ("SREM set", "#a"),
    ("ZREM sorted", "#"),
    ("HDEL hash", "#"),
    ("HGETDEL hash FIELDS 1000", "#"),
    ("DEL", "key:#"),
    ("UNLINK", "new:#"),
];

/// Memory that scripts find: as much as they take in one piece without having asked.
const SCRIPTS_LIMIT_BYTES: usize = 1 << 20;

const SCRIPTS: &[&str] = &[
    "local t={} for i=1,1000000 do t[i]=i end return t",
    "local t={} for i=1,1000000 do t['k'..i]=i end return 1",
    "local t={} for i=1,1000000 do t[i]='x'..i end return table.concat(t)",
    "local t={} for i=1,1000000 do t[i]={i} end return t",
    "local t={} for i=1,1000000 do t[i]=i end return cjson.encode(t)",
    "local t={} for i=1,1000000 do t[i]=i end return cmsgpack.pack(t)",
    "return string.rep('x',3000000)",
    "local s=('x'):rep(300000) return #(s..s..s..s)",
    "local s=('x'):rep(300000) return s:gsub('x','yyyy')",
    "local s=('x'):rep(300000) return s:gsub('x','%0%0%0%0')",
    "local s=('x'):rep(300000) return ('abcd'):gsub('.',s)",
    "local s=('x'):rep(300000) return ('abcd'):gsub('.',function() return s end)",
    "local s=('x'):rep(300000) return string.format('%s%s%s%s',s,s,s,s)",
    "return string.format('%q',('\\0'):rep(300000))",
    "local s=('x'):rep(300000) return table.concat({s,s,s,s})",
    "local s=('x'):rep(300000) return struct.pack('c300000c300000c300000c300000',s,s,s,s)",
    "local s=('x'):rep(300000) return cjson.encode({s,s,s,s})",
    "return cjson.encode(('\\1'):rep(300000))",
    "return cjson.encode({[('\\1'):rep(300000)]=1})",
    "local s=('x'):rep(300000) return cmsgpack.pack({s,s,s,s})",
    "local s=('x'):rep(300000) return redis.call('RPUSH','pushed',s,s,s,s)",
    "local s=('x'):rep(300000) return redis.acl_check_cmd('RPUSH','pushed',s,s,s,s)",
    "local s=('x'):rep(300000) redis.log(redis.LOG_WARNING,s,s,s,s)",
    "local s=('x'):rep(1000000) error(s..('x'):rep(48000))",
    "local s=('x'):rep(1000000) return redis.error_reply(s..('x'):rep(48574))",
    "local s=('x'):rep(300000) return {s,s,s,s}",
    "return #redis.call('LRANGE','list',0,-1)",
    "return redis.call('HGETALL','hash')",
    "return #redis.call('KEYS','*')",
    "return #redis.call('GET','long')",
    "for i=1,30000 do redis.call('SET','s'..i,i) end return 1",
    "return redis.call('MGET',unpack(redis.call('LRANGE','list',0,7000)))",
];

/// Commands that store a string, `@`, which has more bytes than there are.
const OF_LARGE: &[&str] = &[
    "SET a @",
    "SET a @ EX 100",
    "SET a @ GET NX",
    "SETNX a @",
    "SETEX a 100 @",
    "PSETEX a 100000 @",
    "GETSET a @",
    "MSET a value b @ c value",
    "MSETNX a value b @ c value",
    "MSETEX 3 a value b @ c value EX 100",
    "APPEND a @",
    "SETRANGE a 0 @",
];

#[test]
fn a_large_string_without_memory_is_refused_and_nothing_is_set() {
    let _turn = LIMITED_TEST.lock().expect("no test panicked");
    let mut server = Server::new(1, 1_700_000_000_000);
    server.switch_sinks(ActiveSinks::empty());
    let client = server.connect(0);
    let large = "x".repeat(2 * LIMIT_BYTES);
    let error = format!("-OOM no memory for {} bytes that the command needs\r\n", large.len());
    for text in OF_LARGE {
        let mut input = Vec::new();
        append(&mut input, &words(&text.replace('@', &large)));
        eprintln!("{text}");
        BYTES_MAX.store(LIMIT_BYTES, Ordering::Relaxed);
        let reply_bytes = server.pipeline(client, &input);
        BYTES_MAX.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(reply_bytes, error.len(), "{text}");
        assert_eq!(server.call(client, &["DBSIZE"]), ":0\r\n", "{text}");
    }
}

#[test]
fn commands_without_memory_answer_errors() {
    let _turn = LIMITED_TEST.lock().expect("no test panicked");
    let mut server = Server::new(1, 1_700_000_000_000);
    server.switch_sinks(ActiveSinks::empty());
    let client = server.connect(0);
    fill(&mut server, client);
    let of_many = OF_MANY.iter().map(|(before, each)| {
        let number = 1..=ARGUMENT_COUNT;
        let arguments =
            number.flat_map(|number| words(&each.replace('#', &format!("{number:08}"))));
        (words(before).into_iter().chain(arguments).collect(), ARGUMENTS_LIMIT_BYTES)
    });
    let script = |script: &&str| ["EVAL", script, "0"].map(str::to_owned).to_vec();
    let scripts = SCRIPTS.iter().map(|text| (script(text), SCRIPTS_LIMIT_BYTES));
    let plain = COMMANDS.iter().map(|text| (words(text), LIMIT_BYTES));
    let requests: Vec<(Vec<String>, usize)> = of_many.chain(scripts).chain(plain).collect();
    let mut input = Vec::new();
    for (request, limit_bytes) in requests {
        // Of its own: waits and replies that are made in pieces go with it.
        let caller = server.connect(0);
        input.clear();
        append(&mut input, &request);
        eprintln!("{:.60}", request.join(" "));
        BYTES_MAX.store(limit_bytes, Ordering::Relaxed);
        server.pipeline(caller, &input);
        BYTES_MAX.store(usize::MAX, Ordering::Relaxed);
        server.disconnect(caller);
        assert_eq!(server.call(client, &["ECHO", "there"]), "$5\r\nthere\r\n");
    }
}

/// Commands that refuse a string by its length: no copy of it is tried.
const BY_LENGTH: &[(&str, &str)] = &[
    ("LCS long long", "-ERR Insufficient memory, transient memory for LCS exceeds"),
    ("LCS long long LEN", "-ERR Insufficient memory, transient memory for LCS exceeds"),
    ("INCR long", "-ERR value is not an integer or out of range"),
    ("DECRBY long 5", "-ERR value is not an integer or out of range"),
    ("INCRBYFLOAT long 1.5", "-ERR value is not a valid float"),
];

#[test]
fn long_strings_are_judged_by_their_lengths_first() {
    let _turn = LIMITED_TEST.lock().expect("no test panicked");
    let mut server = Server::new(1, 1_700_000_000_000);
    server.switch_sinks(ActiveSinks::empty());
    server.host.try_room();
    let client = server.connect(0);
    // In chunks, so that to have it in one piece is to copy it.
    assert_eq!(server.call(client, &["SETRANGE", "long", "600000", "x"]), ":600001\r\n");
    for (text, expected) in BY_LENGTH {
        let words: Vec<&str> = text.split(' ').collect();
        let refused_before = REFUSED_COUNT.load(Ordering::Relaxed);
        BYTES_MAX.store(LIMIT_BYTES, Ordering::Relaxed);
        let reply = server.call(client, &words);
        BYTES_MAX.store(usize::MAX, Ordering::Relaxed);
        assert!(reply.starts_with(expected), "{text}: {reply}");
        let refused_count = REFUSED_COUNT.load(Ordering::Relaxed) - refused_before;
        assert_eq!(refused_count, 0, "{text}: nothing is copied");
    }
}

/// Bytes of the argument of which commands make copies.
const KEPT_BYTES: usize = 128 << 10;

/// Commands that keep copies of an argument, `@`, or make some on their way to a reply, beside
/// those of [`each_argument`]; `§` is a source as large, which is compiled to far more.
const OF_ARGUMENT: &[&str] = &[
    "HELLO 2 SETNAME @",
    "HELLO 2 AUTH @ @",
    "CLIENT SETINFO LIB-NAME @",
    "CLIENT TRACKING ON BCAST PREFIX @",
    "ACL SETUSER u @",
    "ACL SETUSER u ~@",
    "ACL SETUSER u &@",
    "ACL SETUSER u >@",
    "ACL SETUSER u +@",
    "ACL SETUSER u +get|@",
    "ACL SETUSER u -@@",
    "ACL SETUSER u (~@)",
    "ACL DRYRUN default GET @",
    "CONFIG SET proc-title-template @",
    "CONFIG SET cluster-announce-hostname @",
    "CONFIG SET notify-keyspace-events @",
    "CONFIG SET save @",
    "CONFIG SET client-output-buffer-limit @",
    "COMMAND GETKEYS SET @ value",
    "COMMAND GETKEYSANDFLAGS SET @ value",
    "COMMAND LIST FILTERBY PATTERN @",
    "CLIENT KILL USER @",
    "CLIENT LIST NAME @",
    "EVAL @ 0",
    "EVAL --@ 0",
    "EVAL return'@' 0",
    "EVAL return#KEYS[1] 1 @",
    "EVAL return#ARGV[1] 0 @",
    "EVAL return(KEYS[1]) 1 @",
    "EVAL return(redis.call('GET',KEYS[1])) 1 @",
    "SCRIPT LOAD --@",
    "SCRIPT LOAD §",
    "EVAL § 0",
    "SCRIPT LOAD return'@'",
    "FUNCTION LOAD #!lua\tname=@\nserver.register_function('f',function()end)",
    "FUNCTION LOAD #!lua\tname=l\nserver.register_function('@',function()end)",
    "FUNCTION LOAD #!lua\tname=l\nserver.register_function('f',function()return'@'end)",
    "FUNCTION LOAD #!lua\tname=l\nserver.register_function(('x'):rep(131072),function()end)",
    "FUNCTION LOAD #!lua\tname=l\nserver.register_function{function_name='f',\
     description=('x'):rep(131072),callback=function()end}",
    "FUNCTION LOAD #!lua\tname=l\nlocal\tf=function()end\nfor\ti=1,5000\tdo\t\
     server.register_function('f'..i,f)end",
    "EVAL local\tt={}for\ti=1,4097\tdo\tt[i]=i\tend\treturn\tt 0",
    "EVAL local\tt={}for\ti=1,4097\tdo\tt[i]=i\tend\treturn{map=t} 0",
    "EVAL local\tt={}for\ti=1,4097\tdo\tt[i]=i\tend\treturn{set=t} 0",
    "BLMOVE @ @ LEFT LEFT 1",
    "BLMPOP 1 1 @ LEFT",
    "BZPOPMIN @ 1",
    "XREAD BLOCK 100 STREAMS @ $",
    "XADD @ * field value",
    "XADD stream * @ value",
    "XADD stream * field @",
    "XADD filled * @ value",
    "XGROUP CREATE filled @ 0",
    "XGROUP CREATECONSUMER filled group @",
    "XREADGROUP GROUP group @ COUNT 1 STREAMS filled >",
    "XAUTOCLAIM filled group @ 0 0",
    "XCLAIM filled group @ 0 1-1",
    "SORT list BY *@",
    "SORT list BY nosort GET *@",
    "SORT list BY nosort STORE @",
    "GEOADD places 1 1 @",
    "HSETEX hash EX 100 FIELDS 1 @ value",
    "ZADD sorted 1 @",
    "LINSERT list BEFORE first @",
    "SET @ value",
    "RENAME filled @",
    "COPY filled @",
    "MIGRATE 127.0.0.1 1 @ 0 10",
];

/// Every command with a large argument at each place in turn.
fn each_argument() -> Vec<String> {
    let is_left_out = |name: &str| name == "shutdown" || name.starts_with("debug");
    let commands = execute::commands().callable().map(|(_, command)| command);
    let mut requests = Vec::new();
    for command in commands.filter(|command| !is_left_out(command.name)) {
        let name = command.name.replace('|', " ");
        let own = name.split(' ').count();
        let count = (command.arity.unsigned_abs() as usize).max(own + 1) - own;
        for large in 0..count {
            let word = |index| if index == large { " @" } else { " 1" };
            requests.push(name.clone() + &(0..count).map(word).collect::<String>());
        }
    }
    requests
}

/// Numbers of quarters of [`KEPT_BYTES`] for which there is room: many for the few copies that most
/// commands make, and some for a compiler.
const ROOMS: [i64; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 32, 64, 128,
    192, 224, 256,
];

/// Carries out a request with room for some quarters of [`KEPT_BYTES`].
fn call_with_room(server: &mut Server, caller: u64, text: &str, quarters: i64) {
    let large = "x".repeat(KEPT_BYTES);
    let mut input = Vec::new();
    let source = "f();".repeat(KEPT_BYTES / 4);
    append(&mut input, &words(&text.replace('@', &large).replace('§', &source)));
    eprintln!("{text}: room for {quarters} quarters");
    let before = BYTES_LEFT.swap(quarters * KEPT_BYTES as i64 / 4, Ordering::Relaxed);
    server.pipeline(caller, &input);
    BYTES_LEFT.store(before, Ordering::Relaxed);
}

#[test]
fn arguments_are_copied_when_there_is_room_for_all_copies() {
    let _turn = LIMITED_TEST.lock().expect("no test panicked");
    let mut server = Server::new(1, 1_700_000_000_000);
    server.switch_sinks(ActiveSinks::empty());
    server.host.try_room();
    let listed = OF_ARGUMENT.iter().map(|&text| text.to_owned());
    for text in each_argument().into_iter().chain(listed) {
        for quarters in ROOMS {
            let caller = server.connect(0);
            assert_eq!(server.call(caller, &["FLUSHALL"]), "+OK\r\n", "before {text}");
            for before in [
                "SCRIPT FLUSH",
                "FUNCTION FLUSH",
                "ACL DELUSER u",
                "XADD filled 1-1 field value",
                "XGROUP CREATE filled group 0",
                "RPUSH list first second",
            ] {
                server.call(caller, &before.split(' ').collect::<Vec<_>>());
            }
            server.settle();
            call_with_room(&mut server, caller, &text, quarters);
            server.disconnect(caller);
        }
    }
}

/// Collections of one large element, `@`, that is compressed where it is stored.
const OF_COMPRESSED: &[&str] = &[
    "RPUSH stored @",
    "SADD stored @",
    "ZADD stored 1 @",
    "HSET stored @ value",
    "HSET stored field @",
    "XADD stored 1-1 field @",
    "XADD stored 1-1 @ value",
];

#[test]
fn compressed_elements_are_restored_when_there_is_room_for_all_copies() {
    let _turn = LIMITED_TEST.lock().expect("no test panicked");
    let mut server = Server::new(1, 1_700_000_000_000);
    server.switch_sinks(ActiveSinks::empty());
    server.host.try_room();
    let client = server.connect(0);
    for text in OF_COMPRESSED {
        server.call(client, &["DEL", "stored"]);
        let large = "x".repeat(KEPT_BYTES);
        let request = words(&text.replace('@', &large));
        server.call(client, &request.iter().map(String::as_str).collect::<Vec<_>>());
        let dump = server.call_for_bytes(client, &[b"DUMP", b"stored"]);
        let start = dump.iter().position(|&byte| byte == b'\n').expect("a length") + 1;
        let payload = &dump[start..dump.len() - 2];
        assert!(payload.len() < KEPT_BYTES / 4, "{text}: {} bytes", payload.len());
        let mut results = Vec::new();
        for quarters in ROOMS {
            server.settle();
            eprintln!("{text}: room for {quarters} quarters");
            let before = BYTES_LEFT.swap(quarters * KEPT_BYTES as i64 / 4, Ordering::Relaxed);
            let request: &[&[u8]] = &[b"RESTORE", b"again", b"0", payload, b"REPLACE"];
            let reply = server.call_bytes(client, request);
            BYTES_LEFT.store(before, Ordering::Relaxed);
            results.push(reply == "+OK\r\n");
            assert!(results.ends_with(&[true]) || reply.starts_with("-OOM "), "{reply}");
        }
        assert_eq!((results[0], results[ROOMS.len() - 1]), (false, true), "{text}");
    }
}

/// Commands that clients and operators have sent before, `@` being large.
const STORED: &[&str] = &[
    "CLIENT SETNAME @",
    "CLIENT SETINFO LIB-NAME @",
    "ACL SETUSER u ~@ &@ (~@)",
    "ACL SETUSER @ on",
    "CONFIG SET requirepass @",
    "AUTH @",
    "EVAL return'@' 0",
    "FUNCTION LOAD #!lua\tname=l\nserver.register_function('f',function()return'@'end)",
    "XADD filled 1-1 field @",
    "XADD filled 1-2 @ value",
    "XGROUP CREATE filled @ 0",
    "XREADGROUP GROUP @ @ STREAMS filled >",
    "HSET hash @ @",
    "SADD set @",
    "ZADD sorted 0 @",
    "GEOADD places 1 1 @",
    "RPUSH list @ @",
    "SET @ @",
];

/// Commands that a subscriber has sent before.
const SUBSCRIBED: &[&str] = &["SUBSCRIBE @", "PSUBSCRIBE @", "SSUBSCRIBE @"];

/// Commands that show it.
const SHOWING: &[&str] = &[
    "CLIENT GETNAME",
    "CLIENT INFO",
    "CLIENT LIST",
    "CLIENT LIST TYPE NORMAL",
    "ACL LIST",
    "ACL USERS",
    "ACL GETUSER u",
    "ACL GETUSER @",
    "ACL LOG",
    "CONFIG GET *",
    "CONFIG GET requirepass",
    "CONFIG REWRITE",
    "FUNCTION LIST WITHCODE",
    "FUNCTION DUMP",
    "FCALL f 0",
    "XINFO STREAM filled FULL",
    "XINFO STREAM filled",
    "XINFO GROUPS filled",
    "XINFO CONSUMERS filled @",
    "XRANGE filled - +",
    "XPENDING filled @",
    "XPENDING filled @ - + 10",
    "XCLAIM filled @ other 0 1-1 1-2",
    "XAUTOCLAIM filled @ other 0 0",
    "HGETALL hash",
    "HKEYS hash",
    "HRANDFIELD hash",
    "HRANDFIELD hash -2 WITHVALUES",
    "HSCAN hash 0",
    "SMEMBERS set",
    "SPOP set",
    "SRANDMEMBER set -3",
    "SMOVE set other @",
    "SSCAN set 0",
    "SUNIONSTORE other set",
    "ZRANGE sorted 0 -1",
    "ZRANGE sorted - + BYLEX",
    "ZRANDMEMBER sorted -3",
    "ZPOPMIN sorted",
    "ZMPOP 1 sorted MIN",
    "ZUNIONSTORE other 1 sorted",
    "ZDIFFSTORE other 1 sorted",
    "ZRANGESTORE other sorted 0 -1",
    "GEOSEARCH places FROMLONLAT 1 1 BYRADIUS 1000 km",
    "GEOSEARCHSTORE other places FROMLONLAT 1 1 BYRADIUS 1000 km",
    "LMOVE list other LEFT RIGHT",
    "LPOP list 2",
    "LRANGE list 0 -1",
    "LREM list 0 @",
    "SORT list ALPHA",
    "SORT list ALPHA STORE other",
    "RANDOMKEY",
    "KEYS *",
    "SCAN 0",
    "DUMP list",
    "DUMP hash",
    "DUMP filled",
    "COPY list other",
    "COPY hash other",
    "COPY sorted other",
    "COPY filled other",
    "RENAME @ other",
    "PUBSUB CHANNELS",
    "PUBSUB SHARDCHANNELS",
    "PUBSUB NUMSUB @",
    "PUBLISH @ @",
    "SPUBLISH @ @",
    "SLOWLOG GET",
    "COMMANDLOG GET 10 large-request",
    "DEBUG OBJECT list",
    "OBJECT ENCODING @",
    "MEMORY USAGE list",
    "MEMORY STATS",
    "INFO everything",
];

/// Commands of the subscriber.
const UNSUBSCRIBING: &[&str] =
    &["UNSUBSCRIBE", "UNSUBSCRIBE @", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "PING @", "RESET", "QUIT"];

#[test]
fn stored_texts_are_shown_when_there_is_room_for_them() {
    let _turn = LIMITED_TEST.lock().expect("no test panicked");
    let large = "x".repeat(KEPT_BYTES);
    let showing = SHOWING.iter().map(|text| (text, false));
    let unsubscribing = UNSUBSCRIBING.iter().map(|text| (text, true));
    for (text, is_subscriber) in showing.chain(unsubscribing) {
        for quarters in ROOMS {
            let mut server = Server::new(1, 1_700_000_000_000);
            server.switch_sinks(ActiveSinks::empty());
            server.host.try_room();
            let (client, subscriber) = (server.connect(0), server.connect(0));
            for (caller, stored) in [(client, STORED), (subscriber, SUBSCRIBED)] {
                for text in stored {
                    let mut input = Vec::new();
                    append(&mut input, &words(&text.replace('@', &large)));
                    server.pipeline(caller, &input);
                }
            }
            server.settle();
            let caller = if is_subscriber { subscriber } else { client };
            call_with_room(&mut server, caller, text, quarters);
        }
    }
}

#[test]
fn expired_names_are_deleted_when_there_is_room_for_them() {
    let _turn = LIMITED_TEST.lock().expect("no test panicked");
    let large = "x".repeat(KEPT_BYTES);
    for quarters in ROOMS {
        let mut server = Server::new(1, 1_700_000_000_000);
        server.host.try_room();
        let client = server.connect(0);
        for text in ["SET @ value PX 1", "HSET hash @ v f v", "HPEXPIRE hash 1 FIELDS 1 @"] {
            let reply =
                server.call(client, &text.replace('@', &large).split(' ').collect::<Vec<_>>());
            assert!(!reply.starts_with('-'), "{reply}");
        }
        server.clock.advance_ms(10);
        eprintln!("room for {quarters} quarters");
        let before = BYTES_LEFT.swap(quarters * KEPT_BYTES as i64 / 4, Ordering::Relaxed);
        for _ in 0..3 {
            server.sweep(0);
        }
        for text in ["RANDOMKEY", "SCAN 0", "HLEN hash"] {
            server.call(client, &words(text).iter().map(String::as_str).collect::<Vec<_>>());
        }
        BYTES_LEFT.store(before, Ordering::Relaxed);
        server.sweep(0);
        assert_eq!(server.call(client, &["DBSIZE"]), ":1\r\n");
        assert_eq!(server.call(client, &["HLEN", "hash"]), ":1\r\n");
    }
}
