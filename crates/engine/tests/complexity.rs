//! No command takes more than n log n time for n arguments: each command of the table, with each
//! argument of its syntax that may be repeated, and each option given again and again.
//!
//! It compares the processor time of this thread for ten times the arguments, never a time
//! by itself: a machine that is slow or busy makes both longer. A call that is too short to be
//! anything but linear is not compared at all.
//!
//! A process of its own: threads of other tests share the allocator and the page tables with the
//! calls that are measured, and lengthen one of the two that are compared.

mod harness;

use std::fmt::Write;

use harness::Server;
use nix::time::{ClockId, clock_gettime};
use tidemill_engine::command::{Argument, ArgumentKind, Command, Group, Scope};
use tidemill_engine::execute;

/// The numbers of arguments.
const COUNTS: [usize; 3] = [1_000, 10_000, 100_000];
/// Factor of time that ten times the arguments may take: n log n is 13, caches that overflow
/// three times that, n squared 100.
const RATIO_MAX: f64 = 60.0;
/// A call that takes no longer is not compared; one with the most arguments is not quadratic then:
/// each pair of them had 0.1 ns, less than one instruction.
const SHORT_US: u64 = 1_000_000;
const ATTEMPTS: usize = 3;
const LONG_US: u64 = 2_000_000;
/// Requests behind which what they replaced is freed: more of it holds writers back.
const SETTLED_REQUESTS: usize = 100;
const NOW_MS: u64 = 1_700_000_000_000;

fn processor_us() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    time.tv_sec() as u64 * 1_000_000 + time.tv_nsec() as u64 / 1_000
}

/// Value of the n-th occurrence of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Each another one.
    Distinct,
    /// All equal.
    Same,
}

/// A call under construction.
struct Call {
    words: Vec<String>,
    count: usize,
    values: Values,
}

impl Call {
    fn word(&mut self, word: impl Into<String>) {
        self.words.push(word.into());
    }

    fn value(&self, occurrence: usize) -> usize {
        match self.values {
            Values::Distinct => occurrence,
            Values::Same => 0,
        }
    }

    /// Adds an occurrence of an argument, without its token.
    fn add_one(&mut self, argument: &Argument, focus: &Focus, occurrence: usize) {
        let number = self.value(occurrence);
        match argument.kind {
            // Numbers of keys and fields stand before them.
            ArgumentKind::Integer if argument.name.starts_with("num") => {
                let count = if focus.is_multiple { self.count } else { 1 };
                self.word(count.to_string());
            }
            ArgumentKind::Integer | ArgumentKind::Double => self.word((number + 1).to_string()),
            ArgumentKind::UnixTime => self.word((NOW_MS + number as u64).to_string()),
            ArgumentKind::Key => self.word(format!("k{number}")),
            ArgumentKind::Pattern => self.word(format!("p{number}*")),
            ArgumentKind::String => self.word(match argument.name {
                "encoding" => "u8".into(),
                "command-name" | "command" => ["get", "set"][number % 2].to_owned(),
                _ => format!("v{number}"),
            }),
            ArgumentKind::PureToken => {}
            ArgumentKind::OneOf(children) => {
                let chosen = children.iter().find(|child| focus.is_within(child));
                let chosen = chosen.unwrap_or(&children[number % children.len()]);
                self.add(chosen, focus, occurrence);
            }
            ArgumentKind::Block(children) => {
                for child in
                    children.iter().filter(|child| !child.optional || focus.is_within(child))
                {
                    self.add(child, focus, occurrence);
                }
            }
        }
    }

    /// Adds an argument with its tokens, as often as the focus wants it.
    fn add(&mut self, argument: &Argument, focus: &Focus, occurrence: usize) {
        let repeats = std::ptr::eq(argument, focus.argument);
        let token = |call: &mut Call| {
            if let Some(token) = argument.token {
                call.word(token);
            }
        };
        token(self);
        self.add_one(argument, focus, occurrence);
        for occurrence in 1..if repeats { self.count } else { 1 } {
            // An option that may be given once is given again as a whole.
            if argument.multiple_token || !argument.multiple {
                token(self);
            }
            self.add_one(argument, focus, occurrence);
        }
    }
}

/// The argument that a call repeats.
struct Focus<'a> {
    argument: &'a Argument,
    is_multiple: bool,
}

impl Focus<'_> {
    /// True if the repeated argument is this one or part of it.
    fn is_within(&self, argument: &Argument) -> bool {
        std::ptr::eq(argument, self.argument)
            || children(argument).iter().any(|child| self.is_within(child))
    }
}

fn children(argument: &Argument) -> &'static [Argument] {
    match argument.kind {
        ArgumentKind::OneOf(children) | ArgumentKind::Block(children) => children,
        _ => &[],
    }
}

/// All arguments that a call may repeat: those which may occur several times, and options.
fn repeatable<'a>(arguments: &'a [Argument], found: &mut Vec<&'a Argument>) {
    for argument in arguments {
        if argument.multiple || argument.optional {
            found.push(argument);
        }
        repeatable(children(argument), found);
    }
}

fn call(command: &Command, focus: &Focus<'_>, count: usize, values: Values) -> Vec<String> {
    let mut call = Call { words: Vec::new(), count, values };
    command.name.split('|').for_each(|word| call.word(word));
    for argument in command.arguments {
        if !argument.optional || focus.is_within(argument) {
            call.add(argument, focus, 0);
        }
    }
    call.words
}

fn encode<W: AsRef<str>>(words: &[W]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        // Writing into a string cannot fail.
        let _ = write!(text, "${}\r\n{}\r\n", word.as_ref().len(), word.as_ref());
    }
    text.into_bytes()
}

/// A server whose keys are such that a call has something to do with each argument.
fn server(command: &Command, count: usize) -> (Server, u64) {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let mut words: Vec<String> = Vec::new();
    match command.group {
        Group::Hash => {
            words.extend(["HSET".into(), "k0".into()]);
            words.extend((0..count).flat_map(|number| [format!("v{number}"), "1".into()]));
        }
        Group::Set => {
            words.extend(["SADD".into(), "k0".into()]);
            words.extend((0..count).map(|number| format!("v{number}")));
        }
        Group::List if !command.name.starts_with('b') => {
            words.extend(["RPUSH".into(), "k0".into()]);
            words.extend((0..count).map(|number| format!("v{number}")));
        }
        Group::String | Group::Bitmap | Group::Generic => {
            words.push("MSET".into());
            words.extend((0..count).flat_map(|number| [format!("k{number}"), "1".into()]));
        }
        _ => {}
    }
    if !words.is_empty() {
        server.pipeline(client, &encode(&words));
    }
    (server, client)
}

/// Processor time of a call, of what follows it, and of the end of its client.
fn measure(command: &Command, keys: usize, words: &[String]) -> u64 {
    let (mut server, client) = server(command, keys);
    let request = encode(words);
    let begin_us = processor_us();
    let _next = server.turn_once(client, &request);
    server.settle();
    server.disconnect(client);
    processor_us() - begin_us
}

/// The least of several measurements, the first of which was made already. What takes longer than
/// any disturbance is not repeated: a quadratic command takes a minute as it is.
fn least(first_us: u64, mut time: impl FnMut() -> u64) -> u64 {
    let mut least_us = first_us.max(1);
    for _ in 1..ATTEMPTS {
        if least_us > LONG_US {
            break;
        }
        least_us = least_us.min(time().max(1));
    }
    least_us
}

/// Reports when ten times the arguments take `time` out of proportion. What shows with fewer is not
/// called with more: it would take minutes.
fn compare(name: &str, mut time: impl FnMut(usize) -> u64, report: &mut Vec<String>) {
    time(COUNTS[0]);
    for pair in COUNTS.windows(2) {
        let (some, many) = (pair[0], pair[1]);
        let first_us = time(many);
        if first_us <= SHORT_US {
            continue;
        }
        let many_us = least(first_us, || time(many));
        let some_us = least(time(some), || time(some));
        let ratio = many_us as f64 / some_us as f64;
        let figures = format!("{name}: {some_us} us for {some}, {many_us} us for {many}");
        println!("{figures}");
        if many_us > SHORT_US && ratio > RATIO_MAX {
            report.push(format!("{figures}: {ratio:.0}"));
            return;
        }
    }
}

/// True if a call does what no test may do to its own process, or takes its time by the value of an
/// argument.
fn is_left_out(command: &Command) -> bool {
    matches!(command.name, "shutdown" | "debug" | "lolwut") || command.name.starts_with("debug|")
}

#[test]
fn no_command_takes_more_than_n_log_n_for_n_arguments() {
    let mut report = Vec::new();
    let mut calls = 0;
    for (_, command) in execute::commands().iter() {
        if is_left_out(command) || command.scope == Scope::Container {
            continue;
        }
        let mut arguments = Vec::new();
        repeatable(command.arguments, &mut arguments);
        for argument in arguments {
            let focus = Focus { argument, is_multiple: argument.multiple };
            let both: &[Values] = if argument.multiple {
                &[Values::Distinct, Values::Same]
            } else {
                &[Values::Distinct]
            };
            for &values in both {
                let name = format!("{} with {} {values:?}", command.name, argument.name);
                let time = |count| {
                    // The value of an option that is given again and again is refused, or counts
                    // once.
                    let keys =
                        if argument.multiple && values == Values::Distinct { count } else { 1 };
                    measure(command, keys, &call(command, &focus, count, values))
                };
                compare(&name, time, &mut report);
                calls += 1;
            }
        }
    }
    assert!(calls > 150, "the table has more to repeat than {calls} arguments");
    assert!(report.is_empty(), "{}", report.join("\n"));
}

/// Processor time of requests, each list of which is sent in one piece, after others that do not
/// count.
fn measure_requests(prepare: &[Vec<String>], requests: &[Vec<String>]) -> u64 {
    let mut server = Server::new(1, NOW_MS);
    let client = server.connect(0);
    let encoded =
        |all: &[Vec<String>]| all.iter().flat_map(|words| encode(words)).collect::<Vec<u8>>();
    for some in prepare.chunks(SETTLED_REQUESTS) {
        server.pipeline(client, &encoded(some));
        server.settle();
    }
    let requests = encoded(requests);
    let begin_us = processor_us();
    if !requests.is_empty() {
        server.pipeline(client, &requests);
    }
    server.settle();
    server.disconnect(client);
    processor_us() - begin_us
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn numbered(first: &str, count: usize) -> Vec<String> {
    let mut all = words(first);
    all.extend((0..count).map(|number| format!("k{number}")));
    all
}

/// Requests whose arguments the syntax does not tell, the last of which is measured: what is in
/// braces is there n times with numbers for `#`, a whole request behind `*` as well. `@register`
/// and `@read` are sources that register n functions and read n keys, `@keys` is n + 1.
const OF_MEANING: &[&[&str]] = &[
    &["ACL SETUSER u {>p#}"],
    &["ACL SETUSER u {>p#} {<p#}"],
    &["ACL SETUSER u {~k#}"],
    &["ACL SETUSER u resetchannels {&c#}"],
    &["ACL SETUSER u {+get|a#}"],
    &["ACL SETUSER u {+get|a#}", "ACL SETUSER u {+get|a#}"],
    &["ACL SETUSER u {+get|a#} {+@read}"],
    &["ACL SETUSER u {(~k#)}"],
    &["ACL SETUSER u {>p#} {~k#} {+get|a#}", "ACL GETUSER u"],
    &["SUBSCRIBE {c#}", "UNSUBSCRIBE {c#}"],
    &["PSUBSCRIBE {c#}", "PUNSUBSCRIBE {c#}"],
    &["SSUBSCRIBE {{c}#}", "SUNSUBSCRIBE {{c}#}"],
    &["CLIENT TRACKING ON BCAST {PREFIX p#;}"],
    &["*CLIENT TRACKING ON BCAST PREFIX p#;"],
    &["SADD s {m#}", "SADD one m1", "SDIFF s {one}"],
    &["SADD s {m#}", "SADD one m1", "SDIFFSTORE d s {one}"],
    &["ZADD s {# m#}", "ZADD one 1 m1", "ZDIFF @keys s {one}"],
    &["XADD s 1-1 {f# v}", "XRANGE s - +"],
    &["*XADD s #-1 f v", "XDEL s {#-1}"],
    &["*XADD s #-1 f v", "XGROUP CREATE s g 0", "XCLAIM s g c 0 {#-1} FORCE"],
    &[
        "*XADD s #-1 f v",
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c STREAMS s >",
        "XACK s g {#-1}",
    ],
    &["XGROUP CREATE s g 0 MKSTREAM", "*XGROUP CREATECONSUMER s g c#", "XGROUP DESTROY s g"],
    &["ZADD z {# m#}"],
    &["ZADD z {# m#}", "ZREM z {m#}"],
    &["ZADD z {# m#}", "ZMSCORE z {m#}"],
    &["GEOADD p {1 1 m#}"],
    &["GEOADD p {1 1 m#}", "GEOSEARCH p FROMLONLAT 1 1 BYRADIUS 1 km ASC COUNT 10"],
    &["PFADD h {m#}"],
    &["BITFIELD b {SET u8 # 1}"],
    &["FUNCTION LOAD @register"],
    &["FUNCTION LOAD @register", "FUNCTION LOAD REPLACE @register"],
    &["FUNCTION LOAD @register", "FUNCTION LIST"],
    &["FUNCTION LOAD @register", "FUNCTION DELETE l"],
    &["EVAL_RO @read 0"],
    &["EVAL @read 0"],
];

fn source(name: &str, count: usize) -> Option<String> {
    match name {
        "@register" => Some(format!(
            "#!lua name=l\nlocal f = function() return 1 end\nfor i=1,{count} do \
             server.register_function('f'..i, f) end"
        )),
        "@keys" => Some((count + 1).to_string()),
        "@read" => Some(format!("for i=1,{count} do redis.call('GET', 'k'..i) end")),
        _ => None,
    }
}

/// The requests of a line of [`OF_MEANING`].
fn expanded(line: &str, count: usize) -> Vec<Vec<String>> {
    let numbered = |text: &str, number: usize| text.replace('#', &number.to_string());
    if let Some(request) = line.strip_prefix('*') {
        return (1..=count).map(|number| words(&numbered(request, number))).collect();
    }
    let mut all = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let part;
        match rest.strip_prefix('{') {
            Some(repeated) => {
                (part, rest) = repeated.split_at(repeated.find("} ").unwrap_or(repeated.len() - 1));
                rest = &rest[1..];
                all.extend((1..=count).flat_map(|number| words(&numbered(part, number))));
            }
            None => {
                (part, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
                all.push(source(part, count).unwrap_or_else(|| part.to_owned()));
            }
        }
        rest = rest.trim_start();
    }
    vec![all]
}

#[test]
fn requests_with_arguments_of_a_meaning_take_no_more_than_n_log_n() {
    let mut report = Vec::new();
    for lines in OF_MEANING {
        let (last, before) = lines.split_last().expect("one at least");
        let time = |count| {
            let prepare: Vec<_> = before.iter().flat_map(|line| expanded(line, count)).collect();
            measure_requests(&prepare, &expanded(last, count))
        };
        compare(&lines.join(", "), time, &mut report);
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
}

/// Each line does what it is there for.
#[test]
fn requests_with_arguments_of_a_meaning_are_accepted() {
    for lines in OF_MEANING {
        let mut server = Server::new(1, NOW_MS);
        let client = server.connect(0);
        for request in lines.iter().flat_map(|line| expanded(line, 5)) {
            let words: Vec<&str> = request.iter().map(String::as_str).collect();
            let reply = server.call(client, &words);
            assert!(!reply.is_empty() && !reply.starts_with('-'), "{request:?}: {reply}");
        }
    }
}

#[test]
fn transactions_and_watches_take_no_more_than_n_log_n() {
    let mut report = Vec::new();
    let transaction = |count: usize, command: fn(usize) -> String| {
        let mut requests = vec![words("MULTI")];
        requests.extend((0..count).map(|number| words(&command(number))));
        requests.push(words("EXEC"));
        requests
    };
    compare(
        "EXEC of n commands on n keys",
        |count| measure_requests(&[], &transaction(count, |number| format!("SET k{number} v"))),
        &mut report,
    );
    compare(
        "WATCH of n keys, EXEC",
        |count| {
            let mut requests = vec![numbered("WATCH", count)];
            requests.extend(transaction(1, |_| "SET other v".into()));
            measure_requests(&[], &requests)
        },
        &mut report,
    );
    compare(
        "n times WATCH, UNWATCH",
        |count| {
            let mut requests: Vec<_> =
                (0..count).map(|number| words(&format!("WATCH k{number}"))).collect();
            requests.push(words("UNWATCH"));
            measure_requests(&[], &requests)
        },
        &mut report,
    );
    for each in ["CLIENT KILL ID", "CLIENT LIST ID", "CLIENT KILL SKIPME yes ID"] {
        compare(
            &format!("{each} with n ids, and n times with one"),
            |count| {
                let first = words(each);
                let ids = (0..count).map(|number| (1_000_000 + number).to_string());
                let together: Vec<_> = first.iter().cloned().chain(ids.clone()).collect();
                let apart = ids.flat_map(|id| ["ID".to_owned(), id]);
                let apart: Vec<_> = first[..2].iter().cloned().chain(apart).collect();
                measure_requests(&[], &[together, apart])
            },
            &mut report,
        );
    }
    compare(
        "SORT with n patterns",
        |count| {
            let patterns = (0..count).flat_map(|_| ["GET".to_owned(), "#".to_owned()]);
            let sort: Vec<_> = words("SORT list BY nosort").into_iter().chain(patterns).collect();
            measure_requests(&[words("RPUSH list 1")], &[sort])
        },
        &mut report,
    );
    assert!(report.is_empty(), "{}", report.join("\n"));
}

#[test]
fn waits_take_no_more_than_n_log_n() {
    let mut report = Vec::new();
    compare(
        "n keys become ready in one EXEC",
        |count| {
            let mut server = Server::new(1, NOW_MS);
            let (waiter, writer) = (server.connect(0), server.connect(0));
            let mut wait = numbered("BLPOP", count);
            wait.push("0".into());
            let _next = server.turn_once(waiter, &encode(&wait));
            let pushes = (0..count).rev().map(|number| words(&format!("LPUSH k{number} v")));
            let requests: Vec<_> =
                [words("MULTI")].into_iter().chain(pushes).chain([words("EXEC")]).collect();
            let input: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
            let begin_us = processor_us();
            server.pipeline(writer, &input);
            server.settle();
            processor_us() - begin_us
        },
        &mut report,
    );
    compare(
        "n clients wait for one key, and end in any order",
        |count| {
            let mut server = Server::new(1, NOW_MS);
            let waiters: Vec<u64> = (0..count).map(|_| server.connect(0)).collect();
            let request = encode(&words("BLPOP k 100"));
            let begin_us = processor_us();
            for &waiter in &waiters {
                let _next = server.turn_once(waiter, &request);
            }
            let mut order: Vec<u64> = waiters;
            fastrand::Rng::with_seed(7).shuffle(&mut order);
            order.into_iter().for_each(|waiter| server.disconnect(waiter));
            processor_us() - begin_us
        },
        &mut report,
    );
    compare(
        "a client is served from the last of n keys",
        |count| {
            let mut server = Server::new(1, NOW_MS);
            let (waiter, writer) = (server.connect(0), server.connect(0));
            let mut wait = numbered("BLPOP", count);
            wait.push("0".into());
            let begin_us = processor_us();
            let _next = server.turn_once(waiter, &encode(&wait));
            server.pipeline(writer, &encode(&words(&format!("RPUSH k{} v", count - 1))));
            server.settle();
            assert!(!server.take_output(waiter).is_empty(), "it was served");
            processor_us() - begin_us
        },
        &mut report,
    );
    assert!(report.is_empty(), "{}", report.join("\n"));
}

#[test]
fn logins_among_n_users_take_no_more_than_n_log_n() {
    let mut report = Vec::new();
    compare(
        "n logins among n users",
        |count| {
            let rules = |number| format!("ACL SETUSER user{number} on >p +@read -@dangerous ~a*");
            let users: Vec<_> = (0..count).map(|number| words(&rules(number))).collect();
            let logins: Vec<_> =
                (0..count).map(|number| words(&format!("AUTH user{number} p"))).collect();
            measure_requests(&users, &logins)
        },
        &mut report,
    );
    assert!(report.is_empty(), "{}", report.join("\n"));
}
