//! Published holes of Redis's Lua as scripts, and scripts that ask for too much: each ends with an
//! answer or an error, within the limit of memory.

use crate::harness::{Store, answer, interpreter, run, shown};

fn ends_with_error(source: &str, text: &str) {
    let found = answer(source);
    assert!(found.contains(text), "{source}\n{found}");
}

#[test]
fn cve_2014_5461_many_arguments_of_a_vararg_function() {
    let parameters = (0..199).map(|index| format!("p{index}")).collect::<Vec<_>>().join(",");
    let source = format!(
        "local function f({parameters},...) return select('#',...) end \
         local t={{}} for i=1,7900 do t[i]=i end return f(unpack(t))"
    );
    assert_eq!(answer(&source), ":7701");
}

#[test]
fn cve_2015_4335_bytecode_is_not_loaded() {
    ends_with_error("return select(2,loadstring('\\27Lua\\81\\0\\1\\4'))", "wrong mode");
    ends_with_error("string.dump(redis.call)", "unable to dump");
    ends_with_error("loadstring(string.dump(function() return 1 end))()", "call a nil value");
    ends_with_error("return select(2,loadstring(string.dump(function() end)))", "wrong mode");
    let source = "local s={string.dump(function() end)} \
        return select(2,load(function() return table.remove(s) end))";
    ends_with_error(source, "wrong mode");
    ends_with_error("\x1bLua", "wrong mode");
}

#[test]
fn cve_2018_11218_nesting_and_counts_of_cmsgpack() {
    ends_with_error("return cmsgpack.unpack(string.rep('\\145',100000)..'\\192')", "");
    ends_with_error("return {cmsgpack.unpack(string.rep('\\192',1000000))}", "-ERR");
    let source = "local t={} for i=1,100000 do t={t} end return #cmsgpack.pack(t)";
    assert_eq!(answer(source), ":17");
    assert_eq!(answer("return #cmsgpack.pack(unpack({},1,4000))"), ":4000");
    ends_with_error("return #cmsgpack.pack(unpack({},1,4001))", "Too many arguments");
}

#[test]
fn cve_2021_32626_values_on_the_stack_of_library_functions() {
    let source = "return #cjson.decode(string.rep('[',1000)..string.rep(']',1000))";
    assert_eq!(answer(source), ":1");
    ends_with_error(
        "return cjson.decode(string.rep('[',1000000)..string.rep(']',1000000))",
        "nested",
    );
    assert_eq!(answer("return select('#',redis.pcall('mget',unpack({},1,7000)))"), ":1");
    let source = "local t={} for i=1,7000 do t[i]='k'..i end return #redis.call('mget',unpack(t))";
    assert_eq!(answer(source), ":7000");
    ends_with_error("return {string.byte(string.rep('x',100000),1,-1)}", "too long");
    ends_with_error("return string.format(string.rep('%s',300),unpack({},1,200))", "bad argument");
}

#[test]
fn cve_2022_24735_nothing_is_left_for_another_user() {
    let mut interpreter = interpreter();
    let mut host = Store::default();
    for poison in [
        "redis.call=nil",
        "_G.redis={}",
        "rawset(redis,'call',print)",
        "rawset(_G,'x',1)",
        "setmetatable(_G,{__index=function() return 1 end})",
        "getmetatable(_G).__index=nil",
        "getmetatable('').__index=function() end",
        "string.rep=nil",
        "table.insert(cjson,1)",
        "setmetatable(redis,{})",
        "for k in pairs(math) do math[k]=nil end",
        "debug.setmetatable(1,{})",
    ] {
        let found = shown(&run(&mut interpreter, &mut host, poison.as_bytes(), &[], &[]));
        assert!(found.starts_with("-ERR "), "{poison}: {found}");
    }
    let source = b"return {redis.call('ping'),('x'):rep(2),math.floor(1.5),#cjson.encode({})}";
    let found = shown(&run(&mut interpreter, &mut host, source, &[], &[]));
    assert_eq!(found, "[+PONG $xx :1 :2]");
}

#[test]
fn cve_2022_24736_sources_on_which_the_parser_stumbled() {
    for source in
        ["local function f(", "return function(a,", "for a,", "local a = {f(", "x = a.b:c"]
    {
        ends_with_error(source, "Error compiling script");
    }
    assert_eq!(answer("local a <const> = 1").split(' ').next(), Some("-ERR"));
}

#[test]
fn cve_2021_43519_coroutines_that_resume_each_other() {
    let source = "local function f() return coroutine.wrap(f)() end return pcall(f)";
    assert_eq!(answer(source), "nil");
    let source = "local n=0 local function f() n=n+1 pcall(coroutine.wrap(f)) end f() return n";
    assert_eq!(answer(source), ":191");
}

#[test]
fn cve_2022_24834_long_texts_in_cjson_and_cmsgpack() {
    let source = "local s=string.rep('\\1',6*1024*1024) return #cjson.encode(s)";
    assert_eq!(answer(source), ":37748738");
    ends_with_error("return cjson.encode(string.rep('\\1',20*1024*1024))", "not enough memory");
    ends_with_error("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes");
    ends_with_error("return cmsgpack.unpack('\\219\\255\\255\\255\\255')", "Missing bytes");
}

#[test]
fn cve_2024_31449_width_of_tohex() {
    assert_eq!(answer("return bit.tohex(65535, -2147483648)"), "$0000FFFF");
}

#[test]
fn cve_2024_46981_garbage_of_closed_states() {
    let source = "local t={} for i=1,200 do t[i]=setmetatable({},{__gc=function() t=nil end,\
                  __mode='k'}) end t=nil collectgarbage() return collectgarbage('count')>0";
    assert_eq!(answer(source), ":1");
}

#[test]
fn cve_2025_46817_ranges_of_unpack() {
    ends_with_error("return {unpack({},0,2147483647)}", "too many results to unpack");
    ends_with_error("return {unpack({},-2147483648,2147483647)}", "too many results to unpack");
    assert_eq!(answer("return {unpack({},2147483647,2147483647)}"), "[]");
}

#[test]
fn cve_2025_46818_metatables_of_basic_types_are_closed() {
    let text = "Attempt to modify a readonly table";
    ends_with_error("getmetatable('').__index = function() return 1 end", text);
    ends_with_error("rawset(getmetatable(''), '__index', 1)", text);
    ends_with_error("rawset(string, 'x', 1)", text);
    ends_with_error("getmetatable(_G).__index = nil", text);
    ends_with_error("setmetatable(string, {})", text);
    ends_with_error("table.insert(redis, 1)", text);
    ends_with_error("table.sort(setmetatable(_G, nil))", text);
}

#[test]
fn cve_2025_46819_long_brackets() {
    let signs = "=".repeat(1 << 16);
    ends_with_error(&format!("return [{signs}"), "invalid long string delimiter");
    assert_eq!(answer(&format!("return [{signs}[x]{signs}]")), "$x");
    ends_with_error(&format!("return [{signs}[x]{signs}"), "unfinished long string");
}

#[test]
fn cve_2025_49844_collections_while_a_chunk_is_compiled() {
    let source = "local n=0 for i=1,200 do local f=load(function() n=n+1 collectgarbage() \
                  if n%3==0 then return nil end return 'local a'..n..'=\"s'..n..'\" ' end) \
                  f() end return n";
    assert_eq!(answer(source), ":600");
}

#[test]
fn struct_sizes_do_not_overflow() {
    ends_with_error("return struct.pack('i99999999999999', 1)", "integral size overflow");
    ends_with_error("return struct.pack('>I2147483647', '10')", "larger than limit of 32");
    ends_with_error("return struct.unpack('c2147483647', 'x')", "data string too short");
    ends_with_error("return struct.unpack('>I2', 'ab', -9007199254740992)", "too short");
    assert_eq!(answer("return struct.size('c2147483647c2147483647')"), ":4294967294");
}

#[test]
fn memory_has_a_limit_that_pcall_survives() {
    let text = "not enough memory";
    ends_with_error("return string.rep('x', 2147483647)", text);
    ends_with_error("local s='x' while true do s=s..s end", text);
    ends_with_error("local t={} for i=1,1e9 do t[i]=i end", text);
    ends_with_error("local t={} for i=1,1e9 do t['k'..i]={} end", text);
    ends_with_error("local t={} while true do t={t} end", text);
    ends_with_error("return ('x'):rep(1e6):gsub('x', ('y'):rep(1000))", text);
    ends_with_error("local t={} for i=1,1e5 do t[i]=('x'):rep(1000) end table.concat(t)", text);
    ends_with_error(
        "local f=function() end local t={} while true do t[#t+1]=coroutine.create(f) end",
        text,
    );
    assert_eq!(answer("return pcall(string.rep,'x',1e9) == false and #('y'):rep(10)"), ":10");
}

#[test]
fn garbage_is_collected_within_a_run() {
    let source = "local n=0 for i=1,300000 do local t={i,tostring(i)} n=n+#t[2] end return n";
    assert_eq!(answer(source), ":1688895");
    let source = "for i=1,200 do local s=string.rep('x',5*1024*1024) end return 1";
    assert_eq!(answer(source), ":1");
}

#[test]
fn deep_stack_causes_no_collection_at_each_allocation() {
    // Bytes in use do not grow by an object that a collection frees at once.
    let source = "local function f(n) \
            local a,b,c,d,e,g,h,i,j,k,l,m,o,p,q,r \
            if n>0 then return f(n-1)+0 end \
            local grown,last=0,collectgarbage('count') \
            for i=1,1000 do \
                local t={} \
                local now=collectgarbage('count') \
                if now>last then grown=grown+1 end \
                last=now \
            end \
            return grown \
        end \
        return f(DEPTH)>950";
    for depth in ["10", "5000", "15000"] {
        assert_eq!(answer(&source.replace("DEPTH", depth)), ":1", "{depth}");
    }
}

#[test]
fn memory_of_a_run_is_free_after_it() {
    let mut interpreter = interpreter();
    for round in 0..50 {
        let source = format!("local t={{}} for i=1,20000 do t[i]={{i,'k'..i..{round}}} end");
        let result = run(&mut interpreter, &mut Store::default(), source.as_bytes(), &[], &[]);
        assert_eq!(shown(&result), "nil", "round {round}");
    }
    interpreter.collect();
    assert!(interpreter.used_bytes() < 1 << 20, "{} bytes", interpreter.used_bytes());
}

#[test]
fn depth_has_a_limit_everywhere() {
    ends_with_error("local function f() return 1+f() end return f()", "stack overflow");
    let pattern = "local p=('(a?)'):rep(10)..('a?'):rep(20000) return ('a'):rep(30000):find(p)";
    ends_with_error(pattern, "pattern too complex");
    let source = "local t=setmetatable({},{}) \
                  getmetatable(t).__index=function(t,k) return t[k] end return t.x";
    ends_with_error(source, "stack overflow");
    let source = "local function f() return pcall(f) end return f()";
    assert!(!answer(source).is_empty());
    for open in ["(", "{", "function() return ", "- ", "not ", "a[", "a.b(", "'x'..", "2^"] {
        let source = format!("return {}", open.repeat(100_000));
        ends_with_error(&source, "Error compiling");
    }
    ends_with_error(&"do ".repeat(100_000), "too many syntax levels");
    let source = "local t={} for i=1,5000 do t={t} end return t";
    ends_with_error(source, "reached lua stack limit");
    ends_with_error("return cjson.decode(('['):rep(100000))", "too many nested");
    ends_with_error("return cmsgpack.unpack(('\\145'):rep(100000))", "Bad data");
}

#[test]
fn a_killed_run_ends_whatever_it_does() {
    let sources = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return f() end f()",
        "for i=1,1e18 do end",
        "repeat until false",
        "table.sort({3,2,1,4,5},function() while true do end end)",
        "('x'):gsub('x',function() while true do end end)",
        "local t=setmetatable({},{__index=function() while true do end end}) return t.x",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "return ('a'):rep(50):find(('a?'):rep(50)..('a'):rep(50)..'b')",
        "local s=('a'):rep(200000) return s:find('.-.-.-b')",
        "xpcall(function() while true do end end,function() while true do end end)",
    ];
    for source in sources {
        let mut host = Store { interrupts_max: Some(5), ..Store::default() };
        let result = run(&mut interpreter(), &mut host, source.as_bytes(), &[], &[]);
        let error = result.expect_err(source);
        assert!(error.is_killed, "{source}: {error:?}");
    }
}
