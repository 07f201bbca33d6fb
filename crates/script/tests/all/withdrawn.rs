//! `getfenv`, `setfenv`, `newproxy`, which scripts have only if they are offered, and
//! `string.dump`.

use tidemill_script::{Interpreter, Progress, Protocol};

use crate::harness::{Peer, Store, answer, identity, interpreter, run, shown};

/// Scripts that answer as in Valkey where the functions are offered.
const SCRIPTS: &[&str] = &[
    "return getfenv()",
    "return getfenv()==_G",
    "return {type(getfenv(0)),getfenv(1)==_G,getfenv(redis.call)==_G}",
    "return getfenv(50)",
    "return getfenv(-1)",
    "return getfenv('x')",
    "return getfenv({})",
    "x=getfenv",
    "local function f() return x end setfenv(f,{x=7}) return f()",
    "local function f() x=5 return x end local t={} setfenv(f,t) return {f(),t.x}",
    "local function f() return function() return x end end setfenv(f,{x=7}) return f()()",
    "setfenv(1,{x=3}) return x",
    "local c=redis.call setfenv(1,{x=3}) c('set','k',x) return c('get','k')",
    "local function f() return getfenv(2)==_G end return f()",
    "local function f() setfenv(2,{y=4}) end f() return y",
    "local function f() return getfenv(3) end local function g() return f() end return g()",
    "local function f() return getfenv(1).x end return setfenv(f,{x=1})()",
    "return setfenv(1)",
    "return setfenv(1,2)",
    "return setfenv(redis.call,{})",
    "return setfenv(60,{})",
    "local f=setfenv(loadstring('a=1 return a'),{}) return f()",
    "local t={a=9} setfenv(0,t) return {loadstring('return a')(),getfenv(0)==t}",
    "local f=coroutine.wrap(function() return getfenv()==_G end) return f()",
    "local f=coroutine.wrap(function() setfenv(1,{z=2}) return z end) return f()",
    "local ok,e=pcall(setfenv,1,{}) return {ok,tostring(e)}",
    "local ok,e=pcall(getfenv) return {ok,e==_G}",
    "local t=setmetatable({},{__index=function(t,k) return k..'!' end}) setfenv(1,t) return abc",
    "local t=setmetatable({},{__newindex=function() error('no') end}) setfenv(1,t) q=1",
    "setfenv(1,{}) return nothing",
    "setfenv(1,{}) nothing()",
    "return type(newproxy())",
    "local p=newproxy() return {getmetatable(p)==nil,p==p,p==newproxy()}",
    "local p=newproxy(true) return {type(getmetatable(p)),next(getmetatable(p))==nil}",
    "local p=newproxy(true) getmetatable(p).__index=function(_,k) return k..k end return p.ab",
    "local p=newproxy(true) getmetatable(p).__index={a=5} return {p.a,p.b==nil}",
    "local p=newproxy(true) local t={} getmetatable(p).__newindex=t p.a=6 return t.a",
    "local p=newproxy(true) getmetatable(p).__len=function() return 42 end return #p",
    "return #newproxy(true)",
    "return newproxy().x",
    "local p=newproxy() p.x=1",
    "return newproxy()()",
    "return newproxy()+1",
    "return newproxy()..'x'",
    "return newproxy()<newproxy()",
    "local p=newproxy(true) getmetatable(p).__call=function(s,a) return a+1 end return p(1)",
    "local p=newproxy(true) getmetatable(p).__tostring=function() return 'px' end \
        return tostring(p)",
    "local p=newproxy(true) getmetatable(p).__unm=function() return 8 end return -p",
    "local p=newproxy(true) getmetatable(p).__concat=function(a,b) return 'c' end return 'a'..p",
    "local p=newproxy(true) local q=newproxy(p) getmetatable(p).__eq=function() return true end \
        return {getmetatable(p)==getmetatable(q),p==q}",
    "return newproxy({})",
    "return newproxy(newproxy())",
    "return newproxy(1)",
    "local t={} local p=newproxy() t[p]=4 return {t[p],t[newproxy()]==nil}",
    "return newproxy()",
    "return {1,newproxy(),2}",
    "return cjson.encode({newproxy()})",
    "return pcall(cjson.encode,{a=newproxy()})",
    "return cmsgpack.unpack(cmsgpack.pack(newproxy()))",
    "return redis.call('set','k',newproxy())",
    "return setmetatable(newproxy(),{})",
    "for _ in pairs(newproxy()) do end",
    "return tostring(newproxy()):sub(1,9)",
    "return loadstring(string.dump(function() return 1 end))",
    "return type(string.dump(function() return 1 end))",
    "return string.dump(redis.call)",
    "return string.dump(1)",
    "return string.dump(function() end):sub(1,4)",
];

fn offering() -> Interpreter {
    let mut interpreter = interpreter();
    interpreter.offer_withdrawn_functions(true);
    interpreter
}

fn offered(source: &str) -> String {
    shown(&run(&mut offering(), &mut Store::default(), source.as_bytes(), &[], &[]))
}

#[test]
fn withdrawn_functions_answer_as_in_valkey_where_they_are_offered() {
    let Some(mut valkey) = Peer::start_with(&["--lua-enable-insecure-api", "yes"]) else { return };
    let mut differences = Vec::new();
    for source in SCRIPTS {
        // `setfenv(0, ...)` changes all that Valkey compiles from then on.
        if source.contains("setfenv(0") {
            assert_eq!(offered(source), "[:9 :1]");
            continue;
        }
        valkey.flush();
        let (theirs, ours) = (valkey.eval(source.as_bytes(), &[], &[]), offered(source));
        if ours != theirs {
            differences.push(format!("{source}\n  valkey: {theirs}\n  ours:   {ours}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn withdrawn_functions_are_not_there_unless_they_are_offered() {
    for name in ["getfenv", "setfenv", "newproxy"] {
        let text = format!("access nonexistent global variable '{name}'");
        assert!(answer(&format!("return {name}()")).contains(&text));
        let mut interpreter = offering();
        interpreter.offer_withdrawn_functions(false);
        let source = format!("return {name}()");
        let result = run(&mut interpreter, &mut Store::default(), source.as_bytes(), &[], &[]);
        assert!(shown(&result).contains(&text));
    }
}

#[test]
fn globals_that_a_run_gave_its_script_are_gone_in_the_next_run() {
    let (mut interpreter, mut host) = (offering(), Store::default());
    let source = b"local before=x_is_there and x or 0 setfenv(1,{x_is_there=true,x=1}) return 1";
    let guarded = b"local ok=pcall(function() return x end) \
        if ok then return 'left' end setfenv(1,{x=ARGV[1]}) return x";
    let script = interpreter.compile(guarded).expect("it compiles");
    for round in 0..3 {
        let argument = round.to_string();
        let arguments = [argument.as_bytes()];
        let progress = interpreter.start(script, &[], &arguments, Protocol::Resp2, &mut host);
        let Progress::Done(reply) = progress else { panic!("it ends: {progress:?}") };
        assert_eq!(shown(&Ok(reply)), format!("${round}"));
        interpreter.collect();
    }
    let first = shown(&run(&mut interpreter, &mut host, source, &[], &[]));
    assert!(first.contains("nonexistent"), "{first}");
}

#[test]
fn setfenv_does_not_reach_a_script_that_outlives_the_run() {
    // The run began before the functions were offered, and goes on behind that.
    let mut interpreter = interpreter();
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let source = b"for i=1,100000 do end setfenv(1,{}) return 1";
    let script = interpreter.compile(source).expect("it compiles");
    let mut progress = interpreter.start(script, &[], &[], Protocol::Resp2, &mut host);
    assert!(matches!(progress, Progress::Suspended(_)));
    interpreter.offer_withdrawn_functions(true);
    while let Progress::Suspended(run) = progress {
        progress = interpreter.resume(run, &mut host);
    }
    let Progress::Failed(error) = progress else { panic!("it fails: {progress:?}") };
    assert!(shown(&Err(error)).contains("cannot change environment"));
}

#[test]
fn globals_of_code_that_is_compiled_later_outlast_collections() {
    let mut interpreter = offering();
    let source = b"setfenv(0,{a=9}) for i=1,300000 do local garbage={i} end \
        return loadstring('return a')()";
    let script = interpreter.compile(source).expect("it compiles");
    for suspend_every in [None, Some(1)] {
        let mut host = Store { suspend_every, ..Store::default() };
        let mut progress = interpreter.start(script, &[], &[], Protocol::Resp2, &mut host);
        assert_eq!(matches!(progress, Progress::Suspended(_)), suspend_every.is_some());
        while let Progress::Suspended(parked) = progress {
            // Others run meanwhile, and do not see them.
            interpreter.collect();
            let other = shown(&run(
                &mut interpreter,
                &mut Store::default(),
                b"return getfenv(0).a or 0",
                &[],
                &[],
            ));
            assert!(!other.contains('9'), "{other}");
            progress = interpreter.resume(parked, &mut host);
        }
        let Progress::Done(reply) = progress else { panic!("it ends: {progress:?}") };
        assert_eq!(shown(&Ok(reply)), ":9");
    }
}

#[test]
fn functions_of_libraries_keep_the_globals_they_were_given() {
    let identity = identity();
    let mut interpreter = Interpreter::for_functions(&identity, 64 << 20).expect("it fits");
    interpreter.offer_withdrawn_functions(true);
    let source = b"#!lua name=a\nlocal function f() x=x+1 return x end \
        server.register_function('f',function() \
        if getfenv(f)==_G then setfenv(f,{x=0}) end return f() end)";
    let mut host = Store::default();
    let functions = interpreter.load(source, &mut host).expect("it loads");
    for round in 1..4 {
        let progress = interpreter.call(functions[0].script, &[], &[], Protocol::Resp2, &mut host);
        let Progress::Done(reply) = progress else { panic!("it ends: {progress:?}") };
        assert_eq!(shown(&Ok(reply)), format!(":{round}"));
        interpreter.collect();
    }
}

#[test]
fn dumps_of_different_functions_differ() {
    let source = "local a=string.dump(function() return 1 end) \
        local b=string.dump(function() return 1 end) \
        local c=string.dump(function() return 2 end) \
        local d=string.dump(function() return function() return 'x' end end) \
        local e=string.dump(function() return function() return 'y' end end) \
        return {a==b,a==c,d==e}";
    assert_eq!(answer(source), "[:1 nil nil]");
}
