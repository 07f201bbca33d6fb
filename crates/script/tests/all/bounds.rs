//! Scripts that would keep their worker for minutes, if long steps did not ask the host: one test
//! for each library function whose work a script chooses, and for callbacks, which cannot be
//! suspended. The host kills each after a moment.

use std::collections::TryReserveError;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::harness::{Store, identity, interpreter, run, shown};
use tidemill_script::{
    Abort, Answer, Host, Interpreter, Interrupt, Progress, Protocol, Reply, ScriptError,
};

/// Time after which the host kills a run.
const PATIENCE: Duration = Duration::from_millis(20);

/// Time within which a killed run has ended: some steps as long as the longest, on a busy machine.
const END_MAX: Duration = Duration::from_secs(20);

const KILLED: &str = "Script killed by user with SCRIPT KILL.";

/// A host that kills a run after a while.
struct Killer {
    started: Instant,
    calls: usize,
    /// Each command takes a whole turn.
    is_late: bool,
    /// The script makes something before its loop, which may take longer than the patience.
    awaits_mark: bool,
}

/// Statement from which on a run is to be killed.
const MARK: &str = "redis.acl_check_cmd('ping')";

impl Killer {
    fn new(is_late: bool) -> Self {
        Self { started: Instant::now(), calls: 0, is_late, awaits_mark: false }
    }
}

impl Host for Killer {
    fn call(&mut self, _: &[&[u8]], _: Protocol) -> Result<Answer<'_>, Abort> {
        self.calls += 1;
        Ok(Answer::Reply(Reply::Status(b"PONG".to_vec())))
    }

    fn interrupt(&mut self, _: bool) -> Interrupt {
        let is_over = !self.awaits_mark && self.started.elapsed() >= PATIENCE;
        if self.is_late || is_over {
            return Interrupt::Kill(KILLED);
        }
        Interrupt::Continue
    }

    fn is_late(&self) -> bool {
        self.is_late
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, _: &[&[u8]]) -> Result<Option<bool>, TryReserveError> {
        (self.started, self.awaits_mark) = (Instant::now(), false);
        Ok(Some(true))
    }

    fn cpu_seconds(&mut self) -> f64 {
        1.0
    }
}

/// Runs a source until it ends or is killed, on a thread of its own: one that does not end fails
/// the test.
fn end_of(source: &str) -> Result<Reply, ScriptError> {
    let (sender, receiver) = mpsc::channel();
    let text = source.to_owned();
    std::thread::spawn(move || {
        let mut interpreter =
            Interpreter::for_scripts(&identity(), 512 << 20).expect("the libraries fit");
        let script = interpreter.compile(text.as_bytes()).expect("it compiles");
        let mut host = Killer { awaits_mark: text.contains(MARK), ..Killer::new(false) };
        let result = match interpreter.start(script, &[], &[], Protocol::Resp2, &mut host) {
            Progress::Done(reply) => Ok(reply),
            Progress::Failed(error) => Err(error),
            Progress::Suspended(_) => unreachable!("nobody suspends it"),
        };
        // A late one has no receiver any more.
        let _ = sender.send(result);
    });
    receiver.recv_timeout(END_MAX).unwrap_or_else(|_| panic!("it goes on: {source}"))
}

fn is_killed(source: &str) {
    match end_of(source) {
        Err(error) if error.is_killed => {}
        other => panic!("{source}\n{}", shown(&other)),
    }
}

#[test]
fn callbacks_without_end_are_killed() {
    for source in [
        "return setmetatable({},{__index=function() while true do end end}).x",
        "setmetatable({},{__newindex=function() while true do end end}).x=1",
        "return setmetatable({},{__call=function() while true do end end})()",
        "return setmetatable({},{__add=function() while true do end end})+1",
        "return setmetatable({},{__concat=function() while true do end end})..1",
        "return tostring(setmetatable({},{__tostring=function() while true do end end}))",
        "local m={__lt=function() while true do end end} \
         return setmetatable({},m)<setmetatable({},m)",
        "local m={__eq=function() while true do end end} \
         return setmetatable({},m)==setmetatable({},m)",
        "table.sort({1,2,3},function() while true do end end)",
        "table.foreach({1},function() while true do end end)",
        "table.foreachi({1},function() while true do end end)",
        "string.gsub('x','x',function() while true do end end)",
        "string.gsub('x','x',setmetatable({},{__index=function() while true do end end}))",
        "load(function() while true do end end)",
        "load(gcinfo)",
        "xpcall(error,function() while true do end end)",
        "while true do pcall(function() while true do end end) end",
        "coroutine.wrap(function() while true do end end)()",
        "table.sort({1,2,3},coroutine.wrap(function() while true do end end))",
        "for x in function() return 1 end do end",
        "for x in gcinfo do end",
        "local function f() return f() end return f()",
    ] {
        is_killed(source);
    }
}

#[test]
fn patterns_that_backtrack_are_killed() {
    for source in [
        "return string.find(string.rep('a',1e5),string.rep('.-',20)..'b')",
        "return string.find(string.rep('a',1e5),string.rep('a?',1000)..'b')",
        "return string.match(string.rep('a',1e6),'['..string.rep('b',1e6)..'a]-c')",
        "return string.match(string.rep('a',1e6),'['..string.rep('b',1e6)..'a]*c')",
        "return string.find(string.rep('(',1e6),'%b()x')",
        "return string.find(string.rep('a',1e6),'(a*)%1b')",
        "return string.find(string.rep('a',1e6),'%f['..string.rep('b',1e6)..']x')",
        "return string.gsub(string.rep('a',1e6),'.-b','')",
        "return string.gsub(string.rep('a',1e6),'a*b',type)",
        "for w in string.gmatch(string.rep('a',1e6),'.-b') do end",
    ] {
        is_killed(source);
    }
}

#[test]
fn long_calls_of_libraries_are_killed() {
    for source in [
        "table.insert({},-2147483647,1)",
        "local t={} for i=1,7e3 do t[i]=string.rep('x',5e4)..i end \
         while true do table.sort(t,function(a,b) return a<b end) end",
        "local t={1} for i=1,60 do t={t,t} end return cjson.encode(t)",
        "local t={1} for i=1,14 do local n={} for j=1,50 do n[j]=t end t=n end \
         return cmsgpack.pack(t)",
        "local t={1} for i=1,90 do t={t,t} end return t",
        "local t={1} for i=1,90 do t={map={a=t,b=t}} end return t",
        "local t={1} for i=1,90 do t={set={[t]=1,[{t}]=1}} end return t",
    ] {
        is_killed(source);
    }
}

#[test]
fn steps_on_large_values_are_killed() {
    const TEXT: &str = "local s=string.rep('x',3e7) redis.acl_check_cmd('ping')";
    const TABLE: &str = "local t={} for i=1,1e6 do t[i]=i end redis.acl_check_cmd('ping')";
    let of_text = [
        "string.rep('x',3e7)",
        "local a=s..'y'",
        "s:upper()",
        "s:reverse()",
        "s:sub(2)",
        "s:find('y',1,true)",
        "s:find('y')",
        "string.format('%s',s)",
        "tonumber(s)",
        "redis.sha1hex(s)",
        "pcall(redis.error_reply,s)",
        "redis.call('ping',s)",
        "cjson.encode(s)",
        "cmsgpack.pack(s)",
        "cjson.decode('\"'..s..'\"')",
        "s:gsub('y','')",
        "loadstring('return \"'..s:sub(1,1e6)..'\"')",
        "table.concat({s,s})",
        "struct.pack('s',s)",
        "struct.unpack('c30000000',s)",
        "local p=cmsgpack.pack(s) while true do cmsgpack.unpack_one(p) end",
    ];
    for step in of_text {
        is_killed(&format!("{TEXT} while true do {step} end"));
    }
    let of_table = [
        "table.insert(t,1,0) table.remove(t,1)",
        "table.concat(t)",
        "table.maxn(t)",
        "table.foreach(t,type)",
        "collectgarbage()",
        "collectgarbage('step')",
        "cjson.encode(t)",
        "cmsgpack.unpack(cmsgpack.pack(t))",
        "local a={unpack(t,1,7900)}",
        "select(1,unpack(t,1,7900))",
        "for i=#t,1,-1 do t[i]=nil end while true do next(t) end",
    ];
    for step in of_table {
        is_killed(&format!("{TABLE} while true do {step} end"));
    }
    // A table that finds no place for its next key looks at all others.
    let key = |number| format!("t[-9*i-{number}]=1 t[-9*i-{number}]=nil ");
    let keys: String = (0..9).map(key).collect();
    is_killed(&format!("{TABLE} t[-1]=1 for i=2,1e9 do {keys}end"));
    is_killed(&format!("{TEXT} local a,b=s..'a',s..'b' while true do local c=a<b end"));
    is_killed(&format!("{TEXT} local a,b=s..'a',s..'b' while true do table.sort({{a,b}}) end"));
}

#[test]
fn long_functions_count_as_many_steps() {
    // A jump does not reach over more than 131,071 instructions.
    for (before, count, behind, calls) in [
        ("", 340_000, "", "for i=1,100 do f() end"),
        ("", 340_000, "return 1", "for x in f do n=n-1 if n==0 then break end end"),
        ("while n>0 do n=n-1 ", 40_000, "end", "f() f() f()"),
        ("for i=1,n do ", 40_000, "end", "f() f() f()"),
    ] {
        let source = format!(
            "local n=100 local f=loadstring('local n,a,b=... local x {before}' \
             ..string.rep('x=a..b ',{count})..'{behind}') \
             local long=f f=function() return long(n,'p','q') end {calls} return 1"
        );
        let mut host = Store::default();
        let result = run(&mut interpreter(), &mut host, source.as_bytes(), &[], &[]);
        assert_eq!(shown(&result), ":1", "{source}");
        assert!(host.interrupts > 50, "{}: {source}", host.interrupts);
    }
}

#[test]
fn long_commands_end_the_turn() {
    let mut interpreter = interpreter();
    let script = interpreter.compile(b"while true do redis.call('ping') end").expect("it compiles");
    let mut host = Killer::new(true);
    let progress = interpreter.start(script, &[], &[], Protocol::Resp2, &mut host);
    assert!(matches!(progress, Progress::Failed(error) if error.is_killed));
    assert_eq!(host.calls, 1);
}

#[test]
fn reply_that_would_take_more_memory_than_the_run_is_an_error() {
    let mut interpreter = interpreter();
    let source = b"local t={string.rep('x',1e6)} for i=1,90 do t={t,t} end return t";
    let found = shown(&run(&mut interpreter, &mut Store::default(), source, &[], &[]));
    assert!(found.starts_with("-ERR not enough memory"), "{found}");
    let found = run(&mut interpreter, &mut Store::default(), b"return {1,{2}}", &[], &[]);
    assert_eq!(shown(&found), "[:1 [:2]]");
}

#[test]
fn matches_of_a_long_text_take_as_long_as_the_text() {
    for (source, expected) in [
        // Each step of `gmatch` once copied the text.
        (
            "local n=0 for w in string.gmatch(string.rep('a',2e6),'.') do n=n+1 end return n",
            ":2000000",
        ),
        // Each step of `gsub` once looked for a zero byte in the pattern.
        ("return #string.gsub(string.rep('a',2e6),string.rep('b',2e6),'')", ":2000000"),
    ] {
        let started = Instant::now();
        let found = run(&mut interpreter(), &mut Store::default(), source.as_bytes(), &[], &[]);
        assert_eq!(shown(&found), expected, "{source}");
        assert!(started.elapsed() < END_MAX, "{source}: {:?}", started.elapsed());
    }
}

/// Result of a source whose run may ask the host a number of times.
fn within(interrupts_max: u64, source: &str) -> String {
    let mut host = Store { interrupts_max: Some(interrupts_max), ..Store::default() };
    shown(&run(&mut interpreter(), &mut host, source.as_bytes(), &[], &[]))
}

#[test]
fn walk_of_a_long_text_takes_as_many_steps_as_its_pieces() {
    // A copy of the text counts as 16,000 steps, of which each 10,000 ask the host.
    for (text, walk) in [
        ("'\\1\\0\\0\\0'", "n=n+struct.unpack('<I4',s,at)"),
        ("'\\0\\0\\0\\1'", "n=n+struct.unpack('>i4',s,at)"),
        ("'\\0\\0\\128\\63'", "n=n+struct.unpack('<f',s,at)"),
        ("'a\\0\\0\\0'", "n=n+#struct.unpack('s',s,at)"),
        ("'\\1\\0\\0\\0'", "n=n+#struct.unpack('Bc0',s,at)"),
        ("'\\1\\192\\192\\192'", "local _,v=cmsgpack.unpack_one(s,at-1) n=n+v"),
        ("'\\204\\1\\161x'", "local _,v,x=cmsgpack.unpack_limit(s,2,at-1) n=n+v*#x"),
    ] {
        let source =
            format!("local s,n=string.rep({text},5e5),0 for at=1,#s,4 do {walk} end return n");
        assert_eq!(within(1_000, &source), ":500000", "{source}");
    }
}

#[test]
fn short_part_of_a_long_text_takes_few_steps() {
    for (part, expected) in [
        ("struct.pack('c4',s)", "$aaaa"),
        ("string.format('%.4s',s)", "$aaaa"),
        ("s:rep(0)", "$"),
        ("table.concat({'b'},s)", "$b"),
    ] {
        let source = format!("local s,t=string.rep('a',2e6) for i=1,1e4 do t={part} end return t");
        assert_eq!(within(1_000, &source), expected, "{source}");
    }
}

#[test]
fn search_for_the_end_of_a_long_text_counts_as_steps() {
    let source =
        "local s=string.rep('a',2e6) for i=1,100 do pcall(struct.unpack,'s',s) end return 1";
    let mut host = Store::default();
    let result = run(&mut interpreter(), &mut host, source.as_bytes(), &[], &[]);
    assert_eq!(shown(&result), ":1");
    assert!(host.interrupts > 50, "{}", host.interrupts);
}
