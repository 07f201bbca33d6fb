//! Variables of runs that are suspended, killed or abandoned while functions of their library keep
//! them: others read and write them, whatever becomes of the stack.

use crate::harness::{Store, identity};
use tidemill_script::{Interpreter, Progress, Protocol, Reply, Run, Script};

/// `begin` keeps a function with variables of `n` active calls, perhaps in a coroutine, and goes on
/// for a while; `look` calls that function.
const LIBRARY: &[u8] = b"#!lua name=l\n\
    local saved, wrapped\n\
    local function wait(n) local i=0 while i<n do i=i+1 end end\n\
    local function deep(n, last) if n==0 then return last() end return 1+deep(n-1,last) end\n\
    redis.register_function('begin', function(keys, args)\n\
        local x = {1,2,3}\n\
        local outer = 'outer'\n\
        local function keep()\n\
            local inner = {4,5}\n\
            saved = function(new)\n\
                local seen = {#x, outer, #inner}\n\
                if new then x = {1} outer = new inner = {} end\n\
                return seen\n\
            end\n\
            wait(tonumber(args[3]))\n\
            return #inner\n\
        end\n\
        local depth = tonumber(args[2])\n\
        local count\n\
        if args[1] == 'main' then\n\
            count = deep(depth, keep)\n\
        else\n\
            wrapped = coroutine.create(function() return deep(depth, keep) end)\n\
            count = select(2, coroutine.resume(wrapped))\n\
        end\n\
        return {#x, outer, count - depth}\n\
    end)\n\
    redis.register_function('look', function(keys, args)\n\
        collectgarbage()\n\
        local other = {} for i=1,3000 do other[i] = {i} end\n\
        return saved(args[1])\n\
    end)\n\
    redis.register_function('status', function()\n\
        local status = coroutine.status(wrapped)\n\
        local _, text = coroutine.resume(wrapped)\n\
        return {status, text}\n\
    end)";

struct Library {
    interpreter: Interpreter,
    functions: [Script; 3],
}

impl Library {
    fn new() -> Self {
        let mut interpreter =
            Interpreter::for_functions(&identity(), 64 << 20).expect("libraries fit");
        let loaded = interpreter.load(LIBRARY, &mut Store::default()).expect("it loads");
        let functions = [loaded[0].script, loaded[1].script, loaded[2].script];
        Self { interpreter, functions }
    }

    /// Starts `begin` and suspends it.
    fn suspended(&mut self, place: &str, depth: &str) -> Run {
        let mut host = Store { suspend_every: Some(1), ..Store::default() };
        let arguments = [place.as_bytes(), depth.as_bytes(), b"100000"];
        let begin = self.functions[0];
        let progress = self.interpreter.call(begin, &[], &arguments, Protocol::Resp2, &mut host);
        let Progress::Suspended(run) = progress else { panic!("{progress:?}") };
        run
    }

    fn call(&mut self, index: usize, arguments: &[&[u8]]) -> Progress {
        let function = self.functions[index];
        let mut host = Store::default();
        self.interpreter.call(function, &[], arguments, Protocol::Resp2, &mut host)
    }

    fn look(&mut self, arguments: &[&[u8]]) -> Progress {
        self.call(1, arguments)
    }

    fn status(&mut self) -> Progress {
        self.call(2, &[])
    }

    /// Ends a suspended run in one of the ways.
    fn end(&mut self, run: Run, is_killed: bool) {
        if !is_killed {
            self.interpreter.abandon(run);
            return;
        }
        let mut host = Store { interrupts_max: Some(0), ..Store::default() };
        let progress = self.interpreter.resume(run, &mut host);
        assert!(matches!(&progress, Progress::Failed(error) if error.is_killed), "{progress:?}");
    }
}

fn seen(x: i64, outer: &str, inner: i64) -> Progress {
    let outer = Reply::Bulk(outer.as_bytes().to_vec());
    Progress::Done(Reply::Array(vec![Reply::Integer(x), outer, Reply::Integer(inner)]))
}

fn status(status: &str, text: &str) -> Progress {
    let texts = [status, text].map(|text| Reply::Bulk(text.as_bytes().to_vec()));
    Progress::Done(Reply::Array(texts.to_vec()))
}

const PLACES: [(&str, &str); 6] = [
    ("main", "0"),
    ("main", "1"),
    ("main", "1000"),
    ("coroutine", "0"),
    ("coroutine", "1"),
    ("coroutine", "1000"),
];

#[test]
fn variables_of_a_suspended_run_are_shared() {
    for (place, depth) in PLACES {
        let mut library = Library::new();
        let run = library.suspended(place, depth);
        assert_eq!(library.look(&[]), seen(3, "outer", 2), "{place} {depth}");
        assert_eq!(library.look(&[b"new"]), seen(3, "outer", 2), "{place} {depth}");
        assert_eq!(library.look(&[]), seen(1, "new", 0), "{place} {depth}");
        if place == "coroutine" {
            let refusal = "cannot resume normal coroutine";
            assert_eq!(library.status(), status("normal", refusal), "{place} {depth}");
        }
        let mut host = Store { suspend_every: Some(1), ..Store::default() };
        let mut progress = library.interpreter.resume(run, &mut host);
        while let Progress::Suspended(run) = progress {
            assert_eq!(library.look(&[]), seen(1, "new", 0), "{place} {depth}");
            progress = library.interpreter.resume(run, &mut host);
        }
        assert_eq!(progress, seen(1, "new", 0), "{place} {depth}");
        assert_eq!(library.look(&[]), seen(1, "new", 0), "{place} {depth}");
    }
}

#[test]
fn variables_of_an_ended_run_outlive_it() {
    for (place, depth) in PLACES {
        for is_killed in [true, false] {
            let mut library = Library::new();
            let run = library.suspended(place, depth);
            library.end(run, is_killed);
            let case = format!("{place} {depth} {is_killed}");
            assert_eq!(library.look(&[]), seen(3, "outer", 2), "{case}");
            assert_eq!(library.look(&[b"new"]), seen(3, "outer", 2), "{case}");
            assert_eq!(library.look(&[]), seen(1, "new", 0), "{case}");
            if place == "coroutine" {
                let refusal = "cannot resume dead coroutine";
                assert_eq!(library.status(), status("dead", refusal), "{case}");
            }
        }
    }
}

#[test]
fn variables_of_several_suspended_runs_are_told_apart() {
    for (place, depth) in PLACES {
        let mut library = Library::new();
        let runs = [1, 2, 3].map(|_| library.suspended(place, depth));
        assert_eq!(library.look(&[b"third"]), seen(3, "outer", 2), "{place} {depth}");
        let [first, second, third] = runs;
        library.end(second, true);
        let mut host = Store::default();
        let progress = library.interpreter.resume(first, &mut host);
        assert_eq!(progress, seen(3, "outer", 2), "{place} {depth}");
        let progress = library.interpreter.resume(third, &mut host);
        assert_eq!(progress, seen(1, "third", 0), "{place} {depth}");
        assert_eq!(library.look(&[]), seen(1, "third", 0), "{place} {depth}");
    }
}

/// Arguments that a function has let go are not kept for it while it waits.
#[test]
fn tables_of_a_call_may_be_collected_while_it_runs() {
    let mut interpreter = Interpreter::for_functions(&identity(), 64 << 20).expect("libraries fit");
    let source = b"#!lua name=l\n\
        redis.register_function('f', function(keys, args) \
            keys = nil args = nil collectgarbage() \
            for i=1,300000 do end return 'end' end)";
    let functions = interpreter.load(source, &mut Store::default()).expect("it loads");
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let function = functions[0].script;
    let mut progress = interpreter.call(function, &[b"k"], &[b"a"], Protocol::Resp2, &mut host);
    while let Progress::Suspended(run) = progress {
        interpreter.collect();
        progress = interpreter.resume(run, &mut host);
    }
    assert_eq!(progress, Progress::Done(Reply::Bulk(b"end".to_vec())));
}

/// A function that is registered within a replacement is kept behind its end.
#[test]
fn registered_functions_are_kept_while_a_library_is_loaded() {
    let mut interpreter = Interpreter::for_functions(&identity(), 64 << 20).expect("libraries fit");
    let source = b"#!lua name=l\n\
        local lib = redis\n\
        local _ = ('x'):gsub('x', function() \
            lib.register_function('f', function() return {'result'} end) end)\n\
        for i=1,300000 do local garbage = {i} end";
    let functions = interpreter.load(source, &mut Store::default()).expect("it loads");
    let mut host = Store::default();
    let progress = interpreter.call(functions[0].script, &[], &[], Protocol::Resp2, &mut host);
    let reply = Reply::Array(vec![Reply::Bulk(b"result".to_vec())]);
    assert_eq!(progress, Progress::Done(reply));
}
