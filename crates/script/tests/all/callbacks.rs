//! Functions that library functions, metamethods and loops call: each of them yields, fails, calls
//! `pcall` and lets all values be collected that it can take away from its caller.

use crate::harness::{Store, interpreter, run, shown};

const PRELUDE: &str = "local T={} \
    local function text(v) \
        local kind=type(v) \
        if kind=='table' then return 't'..tostring(rawget(v,1)) end \
        if kind=='function' or kind=='thread' then return kind end \
        return (tostring(v):gsub('0x%x+','0x')) \
    end \
    local function texts(...) \
        local out={} \
        for i=1,select('#',...) do out[i]=text((select(i,...))) end \
        return table.concat(out,',') \
    end \
    local function garbage() \
        for k in pairs(T) do T[k]=nil end \
        collectgarbage() \
        local other={} \
        for i=1,200 do other[i]={'o'..i} end \
        return other \
    end \
    local function fill() for i=1,5 do T[i]={i} T['k'..i]={-i} end end ";

/// Functions that are called; `N` is what a call returns.
const CALLBACKS: [&str; 20] = [
    "function(...) return N end",
    "function(x,y) x=nil y=nil garbage() return N end",
    "function(...) local t={...} garbage() return N end",
    "function(...) coroutine.yield('y') return N end",
    "function(...) return pcall(coroutine.yield,N) end",
    "function(...) error('inner') end",
    "function(...) garbage() error({'table'}) end",
    "function(...) error(setmetatable({9},{__index=function(t) t=nil garbage() end})) end",
    "function(...) return pcall(error,'caught') and N end",
    "function(...) return select(2,xpcall(function() error('x') end,function() return N end)) end",
    "function(...) return (coroutine.wrap(function() garbage() return N end)()) end",
    "pcall",
    "error",
    "tostring",
    "xpcall",
    "coroutine.resume",
    "coroutine.wrap(function(...) return N end)",
    "coroutine.wrap(function(...) while true do garbage() coroutine.yield(N) end end)",
    "coroutine.wrap(function(...) coroutine.yield(N) error('inner') end)",
    "coroutine.wrap(function(...) error({'table'}) end)",
];

/// Expressions that call `F`, and what it returns at best.
const CALLERS: [(&str, &str); 25] = [
    ("table.sort(T,F)", "false"),
    ("table.sort(T,F)", "true"),
    ("table.sort({{3},{1},{2}},F)", "true"),
    ("table.foreach(T,F)", "nil"),
    ("table.foreach({[T[1]]=1,[T[2]]=2},F)", "nil"),
    ("table.foreachi(T,F)", "nil"),
    ("string.gsub('abc','%w',F)", "'r'"),
    ("('abc'):gsub('(%w)(%w)',F)", "false"),
    ("string.gsub('abc','%w',setmetatable({},{__index=F}))", "'r'"),
    ("load(F)", "nil"),
    ("tostring(setmetatable({},{__tostring=F}))", "'s'"),
    ("setmetatable({},{__index=F}).x", "{5}"),
    ("(function() local t=setmetatable({},{__newindex=F}) t.x={1} return 1 end)()", "nil"),
    ("setmetatable({},{__add=F})+{}", "'a'"),
    ("'l'..setmetatable({},{__concat=F})..'r'", "'c'"),
    ("-setmetatable({},{__unm=F})", "'u'"),
    ("setmetatable({},{__call=F})({1},{2})", "{6}"),
    ("(function() local m={__eq=F} return setmetatable({},m)==setmetatable({},m) end)()", "1"),
    ("(function() local m={__lt=F} return setmetatable({},m)<setmetatable({},m) end)()", "1"),
    ("(function() local m={__le=F} return setmetatable({},m)<=setmetatable({},m) end)()", "1"),
    ("xpcall(function() error({8}) end,F)", "'h'"),
    ("xpcall(error,F)", "'h'"),
    ("pcall(error,setmetatable({7},{__index=F}))", "'m'"),
    ("(function() local n=0 for v in F do n=n+1 if n>3 then break end end return n end)()", "nil"),
    ("(function() local f=F return f({1},{2}) end)()", "'p'"),
];

/// Callers that `pcall` may call itself.
const DIRECT: [&str; 8] = [
    "table.sort",
    "table.foreach",
    "table.foreachi",
    "string.gsub",
    "load",
    "tostring",
    "xpcall",
    "pcall",
];

/// Places of a call `C`.
const PLACES: [&str; 6] = [
    "pcall(function() return C end)",
    "xpcall(function() return C end,function(e) garbage() return e end)",
    "pcall(pcall,function() return C end)",
    "coroutine.resume(coroutine.create(function() return C end))",
    "pcall(coroutine.wrap(function() return 'w',C end))",
    "pcall(string.gsub,'z','z',function() local a,b=pcall(function() return C end) return b end)",
];

/// A script for each function and each of its callers.
pub fn sources() -> Vec<String> {
    let mut sources = Vec::new();
    for (caller, result) in CALLERS {
        for callback in CALLBACKS {
            let call = caller.replace('F', &callback.replace('N', result));
            let mut source = PRELUDE.to_owned() + "local out={} ";
            for place in PLACES {
                let call = place.replace('C', &call);
                source += &format!(
                    "fill() out[#out+1]=texts({call}) out[#out+1]=texts(unpack(T,1,5)) \
                     garbage() "
                );
            }
            // The caller without a function around it.
            if let Some((name, arguments)) = call.split_once('(')
                && DIRECT.contains(&name)
            {
                source += &format!(
                    "fill() out[#out+1]=texts(pcall({name},{arguments}) \
                     out[#out+1]=texts(unpack(T,1,5)) "
                );
            }
            sources.push(source + "return out");
        }
    }
    sources
}

#[test]
fn callbacks_may_do_everything() {
    for source in sources() {
        let plain = run(&mut interpreter(), &mut Store::default(), source.as_bytes(), &[], &[]);
        let mut host = Store { suspend_every: Some(1), ..Store::default() };
        let sliced = run(&mut interpreter(), &mut host, source.as_bytes(), &[], &[]);
        assert!(plain.is_ok(), "{source}\n{}", shown(&plain));
        assert_eq!(shown(&plain), shown(&sliced), "{source}");
    }
}
