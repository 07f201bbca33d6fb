//! Memory of a run: garbage is collected before it exceeds the limit, and code counts.

use tidemill_script::{Progress, Protocol, Reply};

use crate::harness::{Store, answer, interpreter, run, shown};

/// Code of some 2 MB in one function within another one.
const CODE: &str = "local code = 'local x, a, b return function() ' .. \
                    string.rep('x = a .. b ', 20000) .. ' end' ";

#[test]
fn code_that_a_script_keeps_counts() {
    let kept = format!("{CODE} local t = {{}} for i = 1, 100 do t[i] = loadstring(code) end");
    assert!(answer(&kept).starts_with("-ERR not enough memory"), "{}", answer(&kept));
    let made = format!("{CODE} local t = {{}} for i = 1, 100 do t[i] = loadstring(code)() end");
    assert!(answer(&made).starts_with("-ERR not enough memory"), "{}", answer(&made));
    let once = format!(
        "{CODE} local outer, t = loadstring(code), {{}} \
         for i = 1, 20000 do t[i] = outer() end collectgarbage() return #t"
    );
    assert_eq!(answer(&once), ":20000");
}

#[test]
fn code_that_a_script_drops_is_collected() {
    let dropped = format!("{CODE} for i = 1, 100 do loadstring(code) end return 1");
    assert_eq!(answer(&dropped), ":1");
}

#[test]
fn garbage_of_an_iterator_is_collected() {
    let text: String = (0..2_000_000).map(|number| format!("{number:07}")).collect();
    let source = b"local n = 0 for word in ARGV[1]:gmatch('.......') do n = n + 1 end return n";
    let result = run(&mut interpreter(), &mut Store::default(), source, &[], &[text.as_bytes()]);
    assert_eq!(shown(&result), ":2000000");
}

/// As much as one that is not suspended, however often.
#[test]
fn suspended_run_holds_no_more_than_its_limit() {
    let source = b"local t = {} for i = 1, 90 do t[i] = string.rep(i, 5e5) end return #t";
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let result = run(&mut interpreter(), &mut host, source, &[], &[]);
    assert!(shown(&result).starts_with("-ERR not enough memory"), "{}", shown(&result));
}

#[test]
fn garbage_is_collected_near_the_limit() {
    let source = "local t = {} for i = 1, 4 do t[i] = string.rep(i, 13.5e6) end \
                  for i = 1, 3e5 do local x = {} end return 1";
    assert_eq!(answer(source), ":1");
}

/// Of two runs, one may hold more than the limit of each.
#[test]
fn garbage_of_an_ended_run_is_not_what_exceeds_the_limit() {
    let mut interpreter = interpreter();
    let mut host = Store { suspend_every: Some(1), ..Store::default() };
    let mut begin = |host: &mut Store, source: &str| {
        let script = interpreter.compile(source.as_bytes()).expect("it compiles");
        match interpreter.start(script, &[], &[], Protocol::Resp2, host) {
            Progress::Suspended(run) => run,
            ended => panic!("{ended:?}"),
        }
    };
    let large = begin(
        &mut host,
        "for i = 1, 1e5 do end local t = {} for i = 1, 3 do t[i] = string.rep(i, 13.5e6) end \
         collectgarbage() for i = 4, 5 do t[i] = string.rep(i, 13.5e6) end return #t",
    );
    let small = begin(
        &mut host,
        "for i = 1, 1e5 do end local t = {} for i = 1, 100 do t[i] = {} end return #t",
    );
    for (run, count) in [(large, 5), (small, 100)] {
        let mut progress = interpreter.resume(run, &mut host);
        while let Progress::Suspended(run) = progress {
            progress = interpreter.resume(run, &mut host);
        }
        assert_eq!(progress, Progress::Done(Reply::Integer(count)));
    }
}
