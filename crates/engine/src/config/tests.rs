//! Loading, changing and rewriting.

use std::collections::BTreeMap;
use std::io;

use super::configuration::directives;
use super::{
    CommandLine, Configuration, Directive, Draft, FAMILIES, Files, LoadError, OomScoreMode,
    STATEMENTS, Status, directive_list, manual, read,
};
use crate::glob;

/// Files in a map; standard input is the file `-`.
#[derive(Default)]
struct MapFiles(BTreeMap<&'static str, &'static str>);

impl Files for MapFiles {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let contents = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(contents.as_bytes().to_vec())
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let is_match = |path: &&&str| glob::matches(pattern.as_bytes(), path.as_bytes(), false);
        self.0.keys().filter(is_match).map(|path| (*path).to_owned()).collect()
    }

    fn enter(&self, directory: &str) -> io::Result<()> {
        if directory == "missing" { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    fn standard_input(&self) -> io::Result<Vec<u8>> {
        self.read("-")
    }
}

pub(super) fn read_with(files: &[(&'static str, &'static str)], arguments: &[&str]) -> Draft {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned());
    read(&CommandLine::parse(arguments), &MapFiles(files.iter().copied().collect()))
}

fn load_with(
    files: &[(&'static str, &'static str)],
    arguments: &[&str],
) -> Result<Configuration, LoadError> {
    read_with(files, arguments).finish()
}

fn load_file(contents: &'static str) -> Result<Configuration, LoadError> {
    load_with(&[("a.conf", contents)], &["a.conf"])
}

fn set(configuration: &Configuration, changes: &[(&str, &str)]) -> Result<Configuration, String> {
    let changes: Vec<(&[u8], &[u8])> =
        changes.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    configuration
        .with_changes(&changes, false)
        .map_err(|error| String::from_utf8_lossy(&error.wire()).into_owned())
}

#[test]
fn every_default_is_accepted_by_its_own_directive() {
    for directive in directives() {
        let words = super::value::words_of(directive.kind, directive.default);
        // The primary's empty default means no words at all, which no line can say.
        if directive.name == "replicaof" {
            continue;
        }
        let canonical = super::value::canonical(directive.kind, &words, directive.default);
        assert_eq!(canonical.as_deref(), Ok(directive.default), "{}", directive.name);
        assert_eq!(directive.refusal(directive.default), None, "{}", directive.name);
        if let Status::Only { missing, .. } = directive.status {
            assert!(!missing.is_empty());
        }
    }
    // Reads every typed value, so a name or bound that does not fit shows here.
    let configuration = Configuration::default();
    assert_eq!(configuration.server().port, 6379);
    assert_eq!(configuration.settings().command_logs[0].value_min, 10_000);
}

#[test]
fn no_name_is_declared_twice() {
    let mut names: Vec<&str> = directives().flat_map(|directive| directive.names()).collect();
    names.extend(STATEMENTS.iter().map(|statement| statement.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn later_sources_win() {
    let files = [
        ("a.conf", "port 1\nhz 20\ninclude more/*.conf\ninclude none/*.conf\ntimeout 3\n"),
        ("more/b.conf", "# comment\n\n  HZ   30\nmaxmemory 1gb\r\ntimeout 2"),
        ("-", "hz 40\nmaxclients 7\n"),
    ];
    let arguments = ["a.conf", "-", "--maxclients", "8", "--bind", "127.0.0.1", "-::1"];
    let configuration = load_with(&files, &arguments).expect("all is right");
    for (name, value) in [
        ("port", "1"),
        ("hz", "40"),
        ("maxmemory", "1073741824"),
        ("timeout", "3"),
        ("maxclients", "8"),
        ("bind", "127.0.0.1 -::1"),
    ] {
        assert_eq!(configuration.value(name), Some(value), "{name}");
    }
}

/// The lines of an error below its heading.
pub(super) fn faults(result: Result<Configuration, LoadError>) -> Vec<String> {
    let text = result.expect_err("something is wrong").to_string();
    let (heading, faults) = text.split_once('\n').expect("a heading");
    assert!(
        heading.starts_with("*** FATAL ") && heading.contains(" ERROR (Tidemill "),
        "{heading}"
    );
    faults.lines().map(str::to_owned).collect()
}

#[test]
fn all_that_is_wrong_is_named_with_its_place_and_what_would_be_right() {
    let files = [
        ("a.conf", "hz 10\n\n  port abc\ninclude b.conf\nmaxmemroy 1gb\nsupervised upstart\n"),
        ("b.conf", "hz 5\nloadmodule x.so\nfrobnicate 1\nrequirepass \"a\n"),
        ("-", "\ndir missing\ninclude none.conf\ninclude\n"),
    ];
    let arguments =
        ["a.conf", "-", "stray", "--prot", "1", "--hz", "x", "--check-confg", "1", "--maxmemory"];
    assert_eq!(
        faults(load_with(&files, &arguments)),
        [
            "a.conf:3: directive 'port': argument couldn't be parsed into an integer; accepted: 0 \
             to 65535",
            "b.conf:2: directive 'loadmodule': 'loadmodule' is not supported: there are no modules",
            "b.conf:3: directive 'frobnicate': Bad directive or wrong number of arguments; \
             accepted: see tidemill server --list-directives",
            "b.conf:4: directive 'requirepass': Unbalanced quotes in configuration line",
            "a.conf:5: directive 'maxmemroy': Bad directive or wrong number of arguments; did you \
             mean 'maxmemory'?",
            "a.conf:6: directive 'supervised': 'upstart' is not supported: upstart is not \
             notified; accepted: 'no', 'systemd', 'auto'",
            "standard input:2: directive 'dir': entity not found; accepted: a directory that can \
             be entered",
            "standard input:3: directive 'include': can't open config file 'none.conf': entity \
             not found",
            "standard input:4: directive 'include': Bad directive or wrong number of arguments; \
             accepted: one path or pattern",
            "command line: 'stray': a value without a directive; accepted: one file, -, \
             --directive value ...",
            "command line: 'prot': Bad directive or wrong number of arguments; did you mean \
             'port'?",
            "command line: 'hz \"x\"': argument couldn't be parsed into an integer; accepted: 0 to \
             2147483647",
            "command line: 'check-confg': Bad directive or wrong number of arguments; did you \
             mean 'check-config'?",
            "command line: 'maxmemory': wrong number of arguments; accepted: memory, from 0",
        ]
    );
}

#[test]
fn an_option_is_shown_with_what_was_taken_for_its_values_unless_they_are_secret() {
    let cases: [(&[&str], &str); 9] = [
        (&["--port", "1", "2"], "'port \"1\" \"2\"': wrong number of arguments; "),
        (&["--hz", "--bla", "--save"], "'hz \"--bla\"': argument couldn't be parsed into an "),
        (&["--shutdown-on-sigint"], "'shutdown-on-sigint': argument(s) must be one of the follo"),
        (&["--replicaof", "a", "b"], "'replicaof \"a\" \"b\"': Invalid primary port; "),
        (&["--replicaof", "a", "65536"], "'replicaof \"a\" \"65536\"': Invalid primary port; "),
        (&["--replicaof", "a"], "'replicaof \"a\"': wrong number of arguments; "),
        (&["--replicaof", "a", "1"], "'replicaof \"a\" \"1\"': 'a 1' is not supported: "),
        (&["--requirepass", "se", "cret"], "'requirepass': wrong number of arguments; "),
        (&["--requirepas", "secret"], "'requirepas': Bad directive or wrong number of arg"),
    ];
    for (arguments, start) in cases {
        let found = faults(load_with(&[], arguments));
        assert!(found[0].starts_with(&format!("command line: {start}")), "{found:?}");
        assert!(!found[0].contains("cret\""), "{found:?}");
    }
}

#[test]
fn the_heading_calls_a_command_line_no_file() {
    let heading = |result: Result<Configuration, LoadError>| {
        result.expect_err("something is wrong").to_string().lines().next().map(str::to_owned)
    };
    let version = env!("CARGO_PKG_VERSION");
    let of_file = Some(format!("*** FATAL CONFIG FILE ERROR (Tidemill {version}) ***"));
    assert_eq!(heading(load_file("foo")), of_file);
    assert_eq!(heading(load_with(&[], &["none.conf"])), of_file);
    let error = load_with(&[], &["--port", "x"]);
    assert_eq!(
        heading(error),
        Some(format!("*** FATAL COMMAND LINE ERROR (Tidemill {version}) ***"))
    );
    let missing = faults(load_with(&[], &["none.conf"]));
    assert_eq!(missing, ["Fatal error, can't open config file 'none.conf': entity not found"]);
}

#[test]
fn statements_are_listed_and_meant_by_names_near_theirs() {
    let list = directive_list();
    for statement in STATEMENTS {
        let line = format!("\n  {:<40} {}: ", statement.name, statement.accepted);
        assert!(list.contains(&line), "{list}");
        let misspelt = format!("{}{}", &statement.name[..1], &statement.name[2..]);
        let found = faults(load_with(&[], &[&format!("--{misspelt}"), "a"]));
        assert!(found[0].ends_with(&format!("did you mean '{}'?", statement.name)), "{found:?}");
    }
}

#[test]
fn of_a_thousand_faults_the_first_hundred_are_shown() {
    let lines = |count: usize| -> &'static str { "port x\n".repeat(count).leak() };
    for (count, last) in [
        (1, None),
        (2, None),
        (100, None),
        (101, Some("... and 1 more error")),
        (1000, Some("... and 900 more errors")),
    ] {
        let found = faults(load_file(lines(count)));
        assert_eq!(found.len(), count.min(100) + usize::from(last.is_some()));
        if let Some(last) = last {
            assert_eq!(found.last().map(String::as_str), Some(last));
        }
    }
}

#[test]
fn what_a_file_says_cannot_write_to_the_terminal() {
    let long = "x".repeat(10_000);
    let file = format!("\u{1b}[2J\u{7} 1\n{long} 1\nappendonly \"a\\nb\\x1b\"\n").leak();
    let found = faults(load_file(file));
    assert_eq!(found.len(), 3);
    assert!(
        found.iter().all(|line| line.len() < 700 && !line.contains(char::is_control)),
        "{found:?}"
    );
}

#[test]
fn reasons_are_valkeys() {
    for (line, reason) in [
        ("foo", "Bad directive or wrong number of arguments"),
        ("include", "Bad directive or wrong number of arguments"),
        ("hz \"a", "Unbalanced quotes in configuration line"),
        ("maxmemory", "wrong number of arguments"),
        ("port 1 2", "wrong number of arguments"),
        ("hz 5 #c", "wrong number of arguments"),
        ("port 99999", "argument must be between 0 and 65535 inclusive"),
        ("maxmemory 1zb", "argument must be a memory value"),
        ("maxmemory 50%", "argument must be a memory value"),
        ("maxmemory-clients 101%", "percentage argument must be less or equal to 100"),
        ("appendonly maybe", "argument must be 'yes' or 'no'"),
        ("save 1", "Invalid save parameters"),
        (
            "loglevel x",
            "argument(s) must be one of the following: debug, verbose, notice, warning, nothing",
        ),
        (
            "client-output-buffer-limit normal 1 2",
            "Wrong number of arguments in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit foo 1 2 3",
            "Invalid client class specified in buffer limit configuration.",
        ),
        ("notify-keyspace-events xyz", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
        ("unixsocketperm 999", "argument couldn't be parsed as an octal number"),
        ("oom-score-adj-values 1", "wrong number of arguments"),
        ("server-cpulist 3-1", "argument must be a list of CPUs like 0-3,8 or 0-7:2"),
        ("bio-cpulist 0-3:0", "argument must be a list of CPUs like 0-3,8 or 0-7:2"),
    ] {
        let found = faults(load_file(line));
        let expected = format!(": {reason}");
        let is_it =
            |fault: &String| fault.split("; ").next().is_some_and(|text| text.ends_with(&expected));
        assert!(found.len() == 1 && is_it(&found[0]), "{line}: {found:?}");
    }
}

#[test]
fn what_does_not_exist_stops_the_start() {
    for line in [
        "replicaof 127.0.0.1 6380",
        "slaveof 127.0.0.1 6380",
        "cluster-enabled yes",
        "loadmodule /x.so",
        "supervised upstart",
        "min-replicas-to-write 1",
    ] {
        let found = faults(load_file(line));
        assert!(
            found[0].starts_with("a.conf:1: ") && found[0].contains("is not supported: "),
            "{found:?}"
        );
    }
    let error = set(&Configuration::default(), &[("locale-collate", "x")]).expect_err("not there");
    assert_eq!(
        error,
        "ERR CONFIG SET failed (possibly related to argument 'locale-collate') - 'x' is \
         not supported: strings are compared as bytes. Accepted: '', 'C'"
    );
}

#[test]
fn what_asks_for_nothing_is_accepted() {
    for line in [
        "appendonly no",
        "save \"\"",
        "save",
        "client-output-buffer-limit",
        "latency-tracking-info-percentiles",
        "replicaof no one",
        "dynamic-hz yes",
        "io-threads 4",
        "bind",
        "min-string-size-avoid-copy-reply 0",
        "tls-cluster yes",
        "tls-replication yes",
        "rename-command FLUSHALL \"\"",
    ] {
        assert!(load_file(line).is_ok(), "{line}");
    }
}

#[test]
fn a_line_save_without_points_forgets_the_default_and_nothing_else() {
    for (text, want) in [
        ("save", ""),
        ("save 60 1\nsave", "60 1"),
        ("save\nsave 60 1", "60 1"),
        ("save 60 1\nsave \"\"", ""),
    ] {
        let loaded = load_file(text).expect("it is right");
        assert_eq!(loaded.value("save"), Some(want), "{text:?}");
    }
    let of_option = load_with(&[("a.conf", "save 60 1")], &["a.conf", "--save", "--hz", "5"]);
    assert_eq!(of_option.expect("it is right").value("save"), Some(""));
}

#[test]
fn command_lines_are_sorted_as_by_valkey() {
    for (arguments, name, value) in [
        // The first directive behind a file needs no dashes.
        (&["a.conf", "loglevel", "verbose", "--maxmemory '1mb'"][..], "loglevel", "verbose"),
        (&["a.conf", "loglevel", "verbose", "--maxmemory '1mb'"], "maxmemory", "1048576"),
        // The first value may look like a directive.
        (&["--requirepass", "--hz", "--port", "7"], "requirepass", "--hz"),
        (&["--requirepass", "--hz", "--port", "7"], "port", "7"),
        (&["--requirepass --hz", "--port", "7"], "requirepass", "--hz"),
        (&["--requirepass", "-", "--port", "7"], "requirepass", "-"),
        // Not that of save, which may have none.
        (&["--save", "--hz", "7"], "hz", "7"),
        (&["--save", "--hz", "7"], "save", ""),
        (&["--requirepass", "--save", "--save", "", "--hz", "7"], "requirepass", "--save"),
        (&["--requirepass", "--save", "--save", "", "--hz", "7"], "save", ""),
    ] {
        let loaded = load_with(&[("a.conf", "")], arguments);
        let loaded = loaded.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        assert_eq!(loaded.value(name), Some(value), "{arguments:?}");
    }
    let found = faults(load_with(&[("a.conf", "")], &["a.conf", "b.conf", "loglevel", "verbose"]));
    assert!(found[0].starts_with("command line: 'b.conf': a value without a directive"));
}

#[test]
fn numbers_are_brought_into_their_range() {
    for (value, want) in [("0", "1"), ("1", "1"), ("500", "500"), ("501", "500")] {
        let changed = set(&Configuration::default(), &[("hz", value)]).expect("hz takes it");
        assert_eq!(changed.value("hz"), Some(want));
    }
    let loaded = load_file("hz 0\nrepl-backlog-size 1\n").expect("both are taken");
    assert_eq!((loaded.value("hz"), loaded.value("repl-backlog-size")), (Some("1"), Some("16384")));
}

#[test]
fn a_directory_is_entered_or_stops_the_start() {
    let loaded = load_file("dir somewhere\n").expect("it is there");
    assert_eq!(loaded.value("dir"), Some("somewhere"));
    assert_eq!(loaded.in_directory("/else/where").value("dir"), Some("/else/where"));
    let found = faults(load_file("hz 5\ndir missing\n"));
    assert!(found[0].starts_with("a.conf:2: directive 'dir': "), "{found:?}");
}

#[test]
fn an_include_of_itself_ends() {
    // Each line includes all again: without an end to the reading, 10^16 times.
    for count in [1, 10] {
        let found = faults(load_file("include a.conf\n".repeat(count).leak()));
        assert!(found.len() == 1 && found[0].contains("nested more than"), "{found:?}");
    }
}

#[test]
fn protected_directives_are_changed_by_who_may() {
    let before = Configuration::default();
    let changes: [(&[u8], &[u8]); 1] = [(b"dbfilename", b"other.rdb")];
    before.with_changes(&changes, false).expect_err("the client may not");
    let after = before.with_changes(&changes, true).expect("the client may");
    assert_eq!(after.value("dbfilename"), Some("other.rdb"));
    after.with_changes(&[(b"daemonize", b"yes")], true).expect_err("immutable for everybody");
}

#[test]
fn set_changes_all_or_nothing() {
    let before = Configuration::default();
    let after = set(&before, &[("HZ", "20"), ("maxmemory", "3gb")]).expect("both are right");
    assert_eq!((after.value("hz"), after.value("maxmemory")), (Some("20"), Some("3221225472")));
    let changed: Vec<&str> = after.changed_since(&before).map(|directive| directive.name).collect();
    assert_eq!(changed.len(), 2);
    for (changes, error) in [
        (
            &[("hz", "7"), ("foo", "1")][..],
            "ERR Unknown option or number of arguments for CONFIG SET - 'foo'",
        ),
        (
            &[("hz", "x"), ("foo", "1")],
            "ERR Unknown option or number of arguments for CONFIG SET - 'foo'",
        ),
        (
            &[("hz", "7"), ("maxclients", "x"), ("maxmemory", "zz")],
            "ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't \
             be parsed into an integer",
        ),
        (
            &[("hz", "7"), ("hz", "8")],
            "ERR CONFIG SET failed (possibly related to argument 'hz') - duplicate parameter",
        ),
        (
            &[("daemonize", "yes"), ("foo", "1")],
            "ERR CONFIG SET failed (possibly related to argument 'daemonize') - can't set \
             immutable config",
        ),
        (
            &[("dbfilename", "x")],
            "ERR CONFIG SET failed (possibly related to argument 'dbfilename') - can't set \
             protected config",
        ),
    ] {
        assert_eq!(set(&before, changes), Err(error.to_owned()));
    }
}

#[test]
fn get_lists_names_and_aliases_once() {
    let configuration = Configuration::default();
    assert_eq!(configuration.matching(&[b"h?", b"HZ"]), [("hz", "10")]);
    assert_eq!(configuration.matching(&[b"hZ", b"HZ", b"h?"]), [("hZ", "10")]);
    assert_eq!(
        configuration.matching(&[b"timeout", b"HZ", b"Slave-priority"]),
        [("HZ", "10"), ("Slave-priority", "100"), ("timeout", "0")]
    );
    // A text that is no pattern is a name: no byte of it means another.
    assert_eq!(configuration.matching(&[b"\\hz", b"hz\0", b"hz\0*", b"\xff", b""]), []);
    assert_eq!(
        configuration.matching(&[b"hash-max-*-value"]),
        [("hash-max-listpack-value", "64"), ("hash-max-ziplist-value", "64")]
    );
    assert_eq!(configuration.matching(&[b"nothing"]), []);
}

#[test]
fn classes_of_clients_keep_limits_that_are_not_named() {
    let configuration = load_file("client-output-buffer-limit replica 1mb 2 3\n").expect("right");
    let limits = configuration.server().output_buffer_limits;
    assert_eq!(limits.replica.hard_bytes, 1 << 20);
    assert_eq!(limits.pubsub.soft_seconds, 60);
}

#[test]
fn keyspace_events_print_as_in_valkey() {
    for (given, printed) in [
        ("KEA$", "AKE"),
        ("nmKE", "nKEm"),
        ("An", "A"),
        ("g$lshzxetdKE", "AKE"),
        ("Em$", "$Em"),
        ("", ""),
    ] {
        let configuration =
            set(&Configuration::default(), &[("notify-keyspace-events", given)]).expect(given);
        assert_eq!(configuration.value("notify-keyspace-events"), Some(printed), "{given}");
    }
}

#[test]
fn rewrite_keeps_comments_and_order_and_reads_back() {
    let old = "# head\nport 17313\n\n# about hz\nhz 5\nmaxmemory 1gb\ninclude none*.conf\n\
               maxmemory 2gb\n  loglevel   notice\nslowlog-max-len 5\n";
    let loaded = load_file(old).expect("right");
    let changes =
        [("hz", "20"), ("maxmemory", "3gb"), ("timeout", "77"), ("requirepass", "f oo\"\\\u{e9}")];
    let changed = set(&loaded, &changes).expect("right");
    let new = String::from_utf8(changed.rewrite(old.as_bytes(), &[])).expect("ASCII");
    assert_eq!(
        new,
        "# head\nport 17313\n\n# about hz\nhz 20\nmaxmemory 3gb\ninclude none*.conf\n\
         loglevel notice\ncommandlog-slow-execution-max-len 5\n\n\
         # Generated by CONFIG REWRITE\ntimeout 77\n\
         requirepass \"f oo\\\"\\\\\\xc3\\xa9\"\n"
    );
    assert_eq!(load_file(new.clone().leak()), Ok(changed.clone()));
    assert_eq!(String::from_utf8(changed.rewrite(new.as_bytes(), &[])).expect("ASCII"), new);
}

#[test]
fn renamed_commands_are_kept_in_order_and_by_a_rewrite() {
    let text = "rename-command CONFIG \"a b\"\nport 1\nRename-Command \"FLUSHALL\" \"\"\n";
    let loaded = load_with(&[("a.conf", text)], &["a.conf", "--rename-command", "get", "hole"]);
    let loaded = loaded.expect("all is right");
    let words: Vec<Vec<&[u8]>> = loaded
        .renames()
        .iter()
        .map(|line| line.words.iter().map(Vec::as_slice).collect())
        .collect();
    assert_eq!(words, [[&b"CONFIG"[..], b"a b"], [b"FLUSHALL", b""], [b"get", b"hole"]]);
    let rewritten = loaded.rewrite(text.as_bytes(), &[]);
    assert_eq!(String::from_utf8_lossy(&rewritten), text);
    for line in ["rename-command", "rename-command get", "rename-command a b c"] {
        let found = faults(load_with(&[("a.conf", line)], &["a.conf"]));
        assert!(
            found[0].ends_with("accepted: a command and its new name, \"\" for none"),
            "{found:?}"
        );
    }
}

#[test]
fn words_of_a_choice_are_kept_in_the_order_of_the_table_each_once() {
    let changes = [("shutdown-on-sigint", "force nosave now force")];
    let next = set(&Configuration::default(), &changes).expect("they are words of it");
    assert_eq!(next.value("shutdown-on-sigint"), Some("nosave now force"));
}

#[test]
fn scores_of_the_kernel_have_bounds() {
    let score = |mode, values| {
        let changes = [("oom-score-adj", mode), ("oom-score-adj-values", values)];
        let next = set(&Configuration::default(), &changes)?.server();
        Ok::<_, String>((next.oom_score_mode, next.oom_score))
    };
    assert_eq!(score("no", "1 2 3"), Ok((OomScoreMode::Kept, 1)));
    assert_eq!(score("yes", "-2000 2 3"), Ok((OomScoreMode::Relative, -2000)));
    assert_eq!(score("absolute", "07 2 3").ok(), None, "no decimal number");
    assert_eq!(score("absolute", "7 2 3"), Ok((OomScoreMode::Absolute, 7)));
    for values in ["2001 0 0", "0 0 -2001", "0 0", "0 0 0 0", "a b c", ""] {
        assert!(score("no", values).is_err(), "{values}");
    }
}

#[test]
fn every_value_survives_a_rewrite() {
    let mut changes = Vec::new();
    for directive in directives() {
        let value = match directive.kind {
            _ if matches!(directive.status, Status::Only { .. }) => continue,
            super::Kind::Flag => {
                if directive.default == "yes" {
                    "no"
                } else {
                    "yes"
                }
            }
            super::Kind::Integer { min, .. } if min > 2 => "1025",
            super::Kind::Integer { .. } => "2",
            super::Kind::Memory { .. } => "3mb",
            super::Kind::Choice(choices) => choices[0],
            super::Kind::Text | super::Kind::Secret => "a \"b\" # 'c'\\",
            super::Kind::Percentiles => "1 99.999",
            super::Kind::OomScores => "-5 0 1000",
            super::Kind::KeyspaceEvents => "KEg$",
            _ => continue,
        };
        if directive.change == super::Change::Live {
            changes.push((directive.name, value));
        }
    }
    let changed = set(&Configuration::default(), &changes).expect("all are right");
    assert!(changed.changed_since(&Configuration::default()).count() > 80);
    let file = String::from_utf8(changed.rewrite(b"", &[])).expect("ASCII").leak();
    assert_eq!(load_file(file), Ok(changed));
}

#[test]
fn a_limit_of_memory_may_be_any_unsigned_number() {
    for value in ["9223372036854775808", "18446744073709551615"] {
        let changed = set(&Configuration::default(), &[("maxmemory", value)]).expect("it fits");
        assert_eq!(changed.settings().maxmemory_bytes.to_string(), value);
        let file = String::from_utf8(changed.rewrite(b"", &[])).expect("ASCII").leak();
        assert_eq!(load_file(file), Ok(changed));
    }
    for (name, value) in [
        ("maxmemory", "18446744073709551616"),
        ("maxmemory", "17179869184gb"),
        ("maxmemory", "-1"),
        ("repl-backlog-size", "9223372036854775808"),
        ("maxmemory-clients", "9223372036854775808"),
    ] {
        let changed = set(&Configuration::default(), &[(name, value)]);
        assert!(changed.is_err(), "{name} {value}");
    }
}

#[test]
fn a_whole_rewrite_has_a_line_of_every_directive_and_reads_back() {
    let old = "# head\nport 17313\nmaxmemory 1gb\n";
    let loaded = load_file(old).expect("right");
    let text = String::from_utf8(loaded.rewrite_whole(old.as_bytes(), &[])).expect("ASCII").leak();
    assert!(text.starts_with("# head\nport 17313\nmaxmemory 1gb\n\n"), "{text}");
    for directive in directives() {
        let has_name = |line: &str| line.split(' ').next() == Some(directive.name);
        // No line says that there is no primary.
        let has_no_line = matches!(directive.kind, super::Kind::Primary);
        assert_eq!(text.lines().any(has_name), !has_no_line, "{}", directive.name);
    }
    assert_eq!(load_file(text), Ok(loaded));
}

/// Tools that set all that they have read know which directives Valkey refuses, and none of ours.
#[test]
fn directives_of_ours_that_stay_accept_the_value_that_they_have() {
    let loaded = load_file("worker-threads 3\nmetrics-bind 127.0.0.1 ::1\n").expect("right");
    let is_fixed = |directive: &&Directive| directive.change == super::Change::Fixed;
    let fixed: Vec<&Directive> = directives().filter(is_fixed).collect();
    assert!(fixed.len() > 9);
    for directive in fixed {
        let present = loaded.value(directive.name).expect("a name of the table");
        let same = set(&loaded, &[(directive.name, present), ("hz", "10")]);
        assert_eq!(same, Ok(loaded.clone()), "{}", directive.name);
        let Some(other) = another_value(directive).filter(|other| other != present) else {
            continue;
        };
        let error = set(&loaded, &[(directive.name, &other)]).expect_err(directive.name);
        assert!(error.ends_with(" - can't set immutable config"), "{error}");
    }
    assert!(set(&loaded, &[("daemonize", "no")]).is_err(), "as in Valkey");
}

/// A node of a collection has a length of 32 bits: no limit may let an element come near it.
#[test]
fn no_argument_may_be_longer_than_an_element_can_be() {
    let most = tidemill_store::limits::ELEMENT_BYTES_MAX;
    let configuration = load_with(&[], &[]).expect("defaults are accepted");
    assert!(set(&configuration, &[("proto-max-bulk-len", &most.to_string())]).is_ok());
    let beyond = (most + 1).to_string();
    for value in [beyond.as_str(), "4gb", "9223372036854775807"] {
        let error = set(&configuration, &[("proto-max-bulk-len", value)])
            .expect_err("it is beyond the maximum");
        assert!(error.contains("argument must be between 1048576 and 1073741824"), "{error}");
        let started = load_with(&[], &["--proto-max-bulk-len", value]);
        let error = started.expect_err("it is beyond the maximum").to_string();
        assert!(error.contains("argument must be between 1048576 and 1073741824"), "{error}");
    }
}

/// Set TIDEMILL_WRITE_DOCS to write the manual instead.
#[test]
fn the_manual_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("TIDEMILL_WRITE_DOCS").is_some() {
        std::fs::write(path, manual()).expect("docs can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, manual(), "run with TIDEMILL_WRITE_DOCS=1 to write docs/configuration.md");
}

/// Another value than the default that the directive accepts; `None` when it accepts no other.
fn another_value(directive: &Directive) -> Option<String> {
    let candidates = [
        "yes",
        "no",
        "1",
        "2",
        "7",
        "3145728",
        "0700",
        "0-1",
        "debug",
        "systemd",
        "off",
        "optional",
        "URI",
        "mb",
        "command",
        "local",
        "text",
        "normal 9 8 7",
        "1.5",
    ];
    let mut loader = Configuration::default();
    let (index, _) = super::configuration::find(directive.name)?;
    candidates.iter().find_map(|candidate| {
        loader.set_words(index, &super::value::words_of(directive.kind, candidate)).ok()?;
        (loader.value_at(index) != directive.default).then(|| (*candidate).to_owned())
    })
}

#[test]
fn memory_of_clients_is_bytes_or_a_part_of_maxmemory() {
    for (value, maxmemory, want) in [
        ("0", "1gb", 0),
        ("1mb", "0", 1 << 20),
        ("1", "0", 128 << 10),
        ("10%", "1000mb", 100 << 20),
        ("10%", "0", 0),
        ("0%", "1gb", 0),
        ("100%", "9223372036854775808", 1 << 63),
        ("50%", "18446744073709551615", i64::MAX as u64),
    ] {
        let changes = [("maxmemory-clients", value), ("maxmemory", maxmemory)];
        let after = set(&Configuration::default(), &changes).expect("both are right");
        assert_eq!(after.server().client_memory_bytes_max, want, "{value} of {maxmemory}");
    }
}

/// A directive that works reaches what the server and the engine read; one that does not says so in
/// its status.
#[test]
fn a_directive_that_works_is_read() {
    // Read by name: lists of CPUs go to the placement, which has types of its own; INFO shows
    // percentiles as written. The directory is entered while it is loaded.
    let by_name = [
        "server-cpulist",
        "bio-cpulist",
        "bgsave-cpulist",
        "latency-tracking-info-percentiles",
        "dir",
    ];
    let before = Configuration::default();
    for directive in FAMILIES.iter().flat_map(|family| family.directives) {
        let works = matches!(directive.status, Status::Works) && !by_name.contains(&directive.name);
        let Some(value) = another_value(directive).filter(|_| works) else { continue };
        let name = format!("--{}", directive.name);
        let after = load_with(&[], &[&name, &value]).expect("the value was accepted before");
        assert!(
            before.server() != after.server() || before.settings() != after.settings(),
            "nothing reads {} {value}",
            directive.name
        );
    }
}
