//! Runs: suspension, several at once, functions of libraries, shebangs.

use crate::harness::{Store, answer, identity, interpreter, run, shown};
use tidemill_script::{Flags, Interpreter, LoadError, Progress, Protocol, Reply};

const LONG: &[u8] = b"local function f(n) local s=0 for i=1,n do s=s+i%7 end return s end \
    local co=coroutine.wrap(function() while true do coroutine.yield(f(20000)) end end) \
    local s=0 for i=1,5 do s=s+co() s=s+select(2,pcall(f,10000)) end return {s,KEYS[1],ARGV[1]}";

#[test]
fn suspended_run_answers_as_one_that_is_not() {
    let keys: [&[u8]; 1] = [b"k"];
    let mut plain = Store::default();
    let whole = run(&mut interpreter(), &mut plain, LONG, &keys, &[b"v"]);
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let sliced = run(&mut interpreter(), &mut host, LONG, &keys, &[b"v"]);
    assert!(host.interrupts > 10);
    assert_eq!(shown(&whole), shown(&sliced));
}

#[test]
fn run_is_suspended_between_steps_that_cannot_be() {
    // Steps of about as many instructions as lie between two questions: for one of these numbers
    // all questions fall into the metamethod.
    for count in 9_980..10_020 {
        let mut interpreter = interpreter();
        let source = format!(
            "local t = setmetatable({{}}, {{__index = function() for i = 1, {count} do end end}}) \
             for i = 1, 20 do local x = t.field end return 'end'"
        );
        let script = interpreter.compile(source.as_bytes()).expect("it compiles");
        let mut host = Store { suspend_every: Some(1), ..Store::default() };
        let mut progress = interpreter.start(script, &[], &[], Protocol::Resp2, &mut host);
        let mut turns = 0;
        while let Progress::Suspended(run) = progress {
            turns += 1;
            progress = interpreter.resume(run, &mut host);
        }
        assert_eq!(progress, Progress::Done(Reply::Bulk(b"end".to_vec())));
        assert!(turns >= 5, "{turns} turns with {count}");
    }
}

#[test]
fn small_runs_leave_nothing_behind() {
    let mut interpreter = interpreter();
    let mut host = Store::default();
    let source = b"local t = {} for i = 1, 20000 do t[i] = {'k' .. i} end return #t";
    let reply = run(&mut interpreter, &mut host, source, &[], &[]);
    assert_eq!(shown(&reply), ":20000");
    let small = interpreter.compile(b"return {KEYS[1], {ARGV[1] .. 'x'}}").expect("it compiles");
    interpreter.collect();
    let used_bytes = interpreter.used_bytes();
    for number in 0..50_000_u32 {
        let text = number.to_string();
        let texts: [&[u8]; 1] = [text.as_bytes()];
        let progress = interpreter.start(small, &texts, &texts, Protocol::Resp2, &mut host);
        assert!(matches!(progress, Progress::Done(_)));
    }
    assert_eq!(interpreter.used_bytes(), used_bytes);
}

#[test]
fn runs_of_one_interpreter_take_turns_with_values_of_their_own() {
    let mut interpreter = interpreter();
    let script = interpreter.compile(LONG).expect("it compiles");
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let names: [&[u8]; 3] = [b"one", b"two", b"three"];
    let mut waiting: Vec<_> = names
        .iter()
        .map(|name| interpreter.start(script, &[name], &[name], Protocol::Resp2, &mut host))
        .collect();
    let mut answers = Vec::new();
    while !waiting.is_empty() {
        match waiting.remove(0) {
            Progress::Suspended(run) => waiting.push(interpreter.resume(run, &mut host)),
            Progress::Done(reply) => answers.push(reply),
            Progress::Failed(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(answers.len(), 3);
    for (reply, name) in answers.iter().zip(names) {
        let Reply::Array(items) = reply else { panic!("{reply:?}") };
        assert_eq!(items[1], Reply::Bulk(name.to_vec()));
        assert_eq!(items[2], Reply::Bulk(name.to_vec()));
    }
}

#[test]
fn variables_have_their_names_when_garbage_was_collected() {
    let mut interpreter = interpreter();
    let source = b"local outer = 5 local function f() return #outer end local inner = 7 \
        for i=1,300000 do local garbage = {i} end \
        local _, error = pcall(f) return {error, select(2, pcall(function() inner() end)), #inner}";
    let answer = shown(&run(&mut interpreter, &mut Store::default(), source, &[], &[]));
    assert!(answer.contains("get length of local 'inner'"), "{answer}");
    let source = b"local outer = 5 local function f() return #outer end \
        for i=1,300000 do local garbage = {i} end \
        local _, error = pcall(f) return error";
    let answer = shown(&run(&mut interpreter, &mut Store::default(), source, &[], &[]));
    assert!(answer.contains("upvalue") && answer.contains("outer"), "{answer}");
}

#[test]
fn abandoned_run_frees_its_memory() {
    let mut interpreter = interpreter();
    let source = b"local t={} for i=1,100000 do t[i]={} end while true do end";
    let script = interpreter.compile(source).expect("it compiles");
    let mut host = Store { suspend_every: Some(30), ..Store::default() };
    let Progress::Suspended(run) = interpreter.start(script, &[], &[], Protocol::Resp2, &mut host)
    else {
        panic!("it has no end");
    };
    let held = interpreter.used_bytes();
    interpreter.abandon(run);
    assert!(interpreter.used_bytes() < held / 10);
}

#[test]
fn nothing_of_a_run_reaches_the_next_one() {
    let mut interpreter = interpreter();
    let mut next = |source: &str| {
        shown(&run(&mut interpreter, &mut Store::default(), source.as_bytes(), &[], &[]))
    };
    next("KEYS.x=1 math.randomseed(5) cjson.encode_invalid_numbers('on') redis.setresp(3)");
    assert_eq!(next("return KEYS.x"), "nil");
    // The state of its generator goes on, as in Valkey.
    assert_ne!(next("return tostring(math.random())"), next("return tostring(math.random())"));
    assert!(next("return select(2,pcall(cjson.encode,1/0))").contains("must not be"));
}

#[test]
fn library_registers_its_functions() {
    let mut interpreter = Interpreter::for_functions(&identity(), 64 << 20).expect("libraries fit");
    let source = b"#!lua name=mylib\n\
        local n=0\n\
        server.register_function('f', function(keys,args) n=n+1 return {keys[1],args[1],n} end)\n\
        redis.register_function{function_name='g', callback=function() return redis.call('ping') \
        end, flags={'no-writes'}, description='d'}";
    let mut host = Store::default();
    let functions = interpreter.load(source, &mut host).expect("it loads");
    assert_eq!(functions.len(), 2);
    assert_eq!(functions[1].flags, Flags(Flags::NO_WRITES));
    assert_eq!(functions[1].description.as_deref(), Some(b"d".as_slice()));
    let (f, g) = (functions[0].script, functions[1].script);
    let progress = interpreter.call(g, &[], &[], Protocol::Resp2, &mut host);
    assert_eq!(progress, Progress::Done(Reply::Status(b"PONG".to_vec())), "it may call commands");
    for expected in 1..3 {
        let progress = interpreter.call(f, &[b"k"], &[b"a"], Protocol::Resp2, &mut host);
        let items =
            vec![Reply::Bulk(b"k".to_vec()), Reply::Bulk(b"a".to_vec()), Reply::Integer(expected)];
        assert_eq!(progress, Progress::Done(Reply::Array(items)));
    }
}

#[test]
fn library_that_is_loaded_has_nothing_but_what_registers() {
    let mut interpreter = Interpreter::for_functions(&identity(), 64 << 20).expect("libraries fit");
    let mut host = Store::default();
    for name in ["error", "math", "pcall", "_G", "KEYS", "redis.call", "redis.setresp"] {
        let source = format!("#!lua name=x\nlocal x = {name}");
        let loaded = interpreter.load(source.as_bytes(), &mut host);
        let Err(LoadError::Failed(error)) = loaded else { panic!("{name}: {loaded:?}") };
        let text = String::from_utf8_lossy(&error.message).into_owned();
        let last = name.rsplit('.').next().unwrap_or(name);
        let end = format!("attempted to access nonexistent global variable '{last}'");
        assert!(text.ends_with(&end), "{text}");
    }
    // A function has all of it, but cannot register others.
    let source = b"#!lua name=x\nlocal lib = redis\n\
        redis.register_function('f', function() return pcall(lib.register_function, 'g', f) end)";
    let functions = interpreter.load(source, &mut host).expect("it loads");
    let progress = interpreter.call(functions[0].script, &[], &[], Protocol::Resp2, &mut host);
    let Progress::Failed(error) = progress else { panic!("{progress:?}") };
    assert!(error.message.ends_with(b"nonexistent global variable 'f'"), "{error:?}");
}

#[test]
fn function_that_was_suspended_leaves_no_keys_behind() {
    let mut interpreter = Interpreter::for_functions(&identity(), 64 << 20).expect("libraries fit");
    let source = b"#!lua name=x\n\
        redis.register_function('f', function() for i=1,100000 do local x = i end end)\n\
        redis.register_function('g', function() return KEYS end)";
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let functions = interpreter.load(source, &mut host).expect("it loads");
    let mut call = |index: usize| {
        let script = functions[index].script;
        let mut progress = interpreter.call(script, &[b"k"], &[], Protocol::Resp2, &mut host);
        while let Progress::Suspended(run) = progress {
            progress = interpreter.resume(run, &mut host);
        }
        progress
    };
    assert_eq!(call(0), Progress::Done(Reply::Null));
    let other = call(1);
    assert!(matches!(&other, Progress::Failed(error) if error.message.ends_with(b"'KEYS'")));
}

#[test]
fn killed_run_tells_where_it_was() {
    let mut host = Store { interrupts_max: Some(3), ..Store::default() };
    let source = b"local x\nwhile true do\n  x = 1\nend";
    let error = run(&mut interpreter(), &mut host, source, &[], &[]).expect_err("it is killed");
    assert!(error.is_killed);
    let (chunk, line) = error.place.expect("it has one");
    assert_eq!(chunk, b"user_script");
    assert!((2..=4).contains(&line), "{line}");
}

#[test]
fn library_that_fails_or_has_no_end_registers_nothing() {
    let mut interpreter = Interpreter::for_functions(&identity(), 64 << 20).expect("libraries fit");
    let mut host = Store { interrupts_max: Some(3), ..Store::default() };
    let endless = interpreter.load(b"#!lua name=x\nwhile true do end", &mut host);
    assert!(matches!(endless, Err(LoadError::Failed(error)) if error.is_killed));
    let mut host = Store::default();
    let broken = interpreter.load(b"#!lua name=x\nx y", &mut host);
    let text = b"user_function:2: '=' expected near 'y'".to_vec();
    assert!(matches!(broken, Err(LoadError::Syntax(found)) if found == text));
}

#[test]
fn shebang_keeps_the_numbers_of_lines() {
    let source = "#!lua flags=no-writes,allow-stale\nlocal x\nerror('here')";
    assert_eq!(answer(source), "-ERR user_script:3: here script: on @user_script:3.");
}

#[test]
fn suspended_runs_keep_their_values_through_collections() {
    let source = b"local t={} for i=1,5000 do t[i]={ARGV[1]..i} for j=1,20 do \
        local garbage={tostring(i*j)} end end \
        local n=0 for i=1,5000 do if t[i][1]==ARGV[1]..i then n=n+1 end end return {n,KEYS[1]}";
    let mut interpreter = interpreter();
    let script = interpreter.compile(source).expect("it compiles");
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let names: [&[u8]; 3] = [b"one", b"two", b"three"];
    let mut waiting = std::collections::VecDeque::new();
    for name in names {
        let progress = interpreter.start(script, &[name], &[name], Protocol::Resp2, &mut host);
        waiting.push_back((name, progress));
    }
    while let Some((name, progress)) = waiting.pop_front() {
        match progress {
            Progress::Suspended(run) => {
                waiting.push_back((name, interpreter.resume(run, &mut host)));
            }
            ended => {
                let items = vec![Reply::Integer(5000), Reply::Bulk(name.to_vec())];
                assert_eq!(ended, Progress::Done(Reply::Array(items)));
            }
        }
    }
}

#[test]
fn keys_and_arguments_are_there_however_a_script_names_them() {
    for source in [
        "return {KEYS[1],ARGV[1]}",
        "local function f() return {KEYS[1],ARGV[1]} end return f()",
        "return {(function() return (function() return KEYS[1] end)() end)(),ARGV[1]}",
        "local n='KE'..'YS' return {_G[n][1],_G['AR'..'GV'][1]}",
        "return loadstring('return {KE'..'YS[1],AR'..'GV[1]}')()",
        "local t={'return {KEYS[1],','ARGV[1]}'} local i=0 \
         return load(function() i=i+1 return t[i] end)()",
        "local f={} for name,value in pairs(_G) do f[name]=value end \
         return {f['KE'..'YS'][1],f['AR'..'GV'][1]}",
        "local all=_G local load=all['load'..'string'] return {load('return \
             KE'..'YS')()[1],ARGV[1]}",
    ] {
        let mut host = Store::default();
        let found = run(&mut interpreter(), &mut host, source.as_bytes(), &[b"k"], &[b"v"]);
        assert_eq!(shown(&found), "[$k $v]", "{source}");
    }
}

/// A script that names none of these three reaches no global that it does not name.
#[test]
fn globals_are_reached_by_their_table_and_by_compiling_only() {
    let source = "local seen,found,visit={},{} \
        visit=function(value,path) \
            if value==_G or value==load or value==loadstring then found[#found+1]=path end \
            if seen[value] then return end \
            seen[value]=true \
            if type(value)=='table' then \
                for k,v in pairs(value) do visit(k,path..'#') visit(v,path..'.'..tostring(k)) end \
            end \
            local meta=getmetatable(value) \
            if meta then visit(meta,path..'@') end \
        end \
        for name,value in pairs(_G) do \
            if name~='_G' and name~='load' and name~='loadstring' then visit(value,name) end \
        end \
        return {found,seen[string] and seen[redis] and 'all' or 'some'}";
    assert_eq!(answer(source), "[[] $all]");
}

#[test]
fn tables_of_a_run_are_empty_whatever_was_in_those_before() {
    let mut interpreter = interpreter();
    let before = b"local t={} for i=1,40 do t[i]=setmetatable({i,i,i},{__index=function() \
        return 'old' end}) end return #t";
    let script = interpreter.compile(before).expect("it compiles");
    let after = b"local t={} for i=1,40 do local n={i} t[i]=tostring(n[2])..tostring(n.x).. \
        tostring(getmetatable(n))..#n if t[i]~='nilnilnil1' then return t[i] end n.x=1 end return \
             'new'";
    let after = interpreter.compile(after).expect("it compiles");
    let mut host = Store::default();
    for _ in 0..3 {
        let progress = interpreter.start(script, &[], &[], Protocol::Resp2, &mut host);
        assert_eq!(progress, Progress::Done(Reply::Integer(40)));
        let progress = interpreter.start(after, &[], &[], Protocol::Resp2, &mut host);
        assert_eq!(progress, Progress::Done(Reply::Bulk(b"new".to_vec())));
    }
}
