//! `ACL` beside a real Valkey: rules and their errors, descriptions, categories, verdicts on calls
//! of all commands.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the tests say so
//! and pass.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use tidemill_engine::command::Scope;
use tidemill_engine::execute::commands;
use tidemill_resp::reply::Value;

use super::harness::beside::Beside;

/// Both servers, and where their replies differ.
struct Both {
    servers: Beside,
    /// Subject of the commands at hand, for differences.
    about: String,
    differences: Vec<String>,
}

impl Both {
    fn start() -> Option<Both> {
        let servers = Beside::start()?;
        Some(Both { servers, about: String::new(), differences: Vec::new() })
    }

    /// Sends a command to both and notes replies that differ; returns ours.
    fn ask(&mut self, words: &[&str]) -> Value {
        let (ours, theirs) = self.servers.ask(words);
        // The server's name and version.
        if ours != theirs && words[0] != "HELLO" {
            let (ours, theirs) = (shown(&ours), shown(&theirs));
            let about = &self.about;
            self.differences.push(format!("{words:?} {about}\n  ours   {ours}\n  theirs {theirs}"));
        }
        ours
    }

    fn assert_equal(&self) {
        let shown = self.differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.differences.is_empty(), "{} differ:\n{shown}", self.differences.len());
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::SimpleString(text) | Value::Error(text) => {
            format!("{:?}", String::from_utf8_lossy(text))
        }
        Value::Array(items) | Value::Set(items) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn texts(value: &Value) -> BTreeSet<String> {
    let (Value::Array(items) | Value::Set(items)) = value else { panic!("no list: {value:?}") };
    let text = |item: &Value| match item {
        Value::SimpleString(text) | Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no text: {other:?}"),
    };
    items.iter().map(text).collect()
}

const HASH: &str = "#0123456789012345678901234567890123456789012345678901234567890123";

/// Rules, one list per user.
const RULES: &[&str] = &[
    "",
    "on",
    "OFF",
    "nopass",
    "nopass >a",
    ">a nopass",
    ">a >b >a",
    ">a <a",
    "<a",
    ">",
    "resetpass",
    "#abc",
    "!abc",
    HASH,
    "nopass resetpass",
    "sanitize-payload",
    "skip-sanitize-payload",
    "bogus",
    "+",
    "-",
    "+@",
    "-@",
    "+@all",
    "-@all",
    "+@ALL",
    "allcommands",
    "nocommands",
    "+@nope",
    "+nope",
    "-nope",
    "+get",
    "+GET",
    "-get",
    "+get|x",
    "+GET|X",
    "-get|x",
    "+config|get",
    "+Config|GET",
    "+config|nope",
    "-config|nope",
    "+config|get|x",
    "+config|get|",
    "+config|",
    "+get|",
    "+|",
    "+nope|x",
    "+@all -get +get -@read +config -config|set +config|get",
    "+config|get +config|set -config",
    "+select|0 +select|1 +select",
    "+select|0 -select",
    "+@read -@read +@READ +GET",
    "+select|0 +select|0",
    "+get +@read -get",
    "+@read +get -@read",
    "+config +config|get -@dangerous",
    "-@all +@keyspace",
    "~",
    "~a ~b %R~a %W~c %R~c",
    "%R~a %W~a",
    "%RW~x",
    "%WR~x",
    "%rw~x",
    "%~x",
    "%X~x",
    "%RWR~x",
    "%R",
    "%",
    "%RW",
    "%R~*",
    "%W~*",
    "%RW~* ~x",
    "~* ~x",
    "allkeys %R~x",
    "~x ~*",
    "~x allkeys resetkeys",
    "ALLKEYS",
    "&",
    "&a &b &a",
    "&* &x",
    "allchannels &x",
    "&x allchannels",
    "allchannels resetchannels",
    "AllChannels",
    "db=0",
    "db=3,1,1",
    "DB=1",
    "db=",
    "db=1,",
    "db=,1",
    "db=a",
    "db=-1",
    "db=01",
    "db=+1",
    "db=2147483647",
    "db=2147483648",
    "db=99999999999999999999",
    "db=*",
    "dbs=0",
    "db=1 db=2",
    "alldbs",
    "resetdbs",
    "ResetDBs",
    "db=1 resetdbs",
    "resetdbs db=5",
    "resetdbs alldbs",
    "db=1 alldbs db=2",
    "()",
    "(+get)",
    "(+get",
    "( +get",
    "(",
    ")",
    "(+nope)",
    "(on)",
    "(nopass)",
    "(>x)",
    "(allkeys)",
    "(~* ~x)",
    "(%R~x",
    "(+get ~a) (+set ~b)",
    "(+get ~a +set)",
    "(+get ~a b)",
    "(db=1 +get ~x)",
    "(~x (+get ~y)",
    "(%)",
    "((+get))",
    "(+config|get|x)",
    "(+get) clearselectors",
    "(+get ~a on) off",
    "~x)",
    "(+get|x &a)",
    "(~a) (~a)",
    "(+@read -get allkeys allchannels resetdbs)",
    "( +get  ~x  )",
    "clearselectors",
    "on >a ~k &c +get (+set ~x) db=1",
    "on >a ~k &c +get (+set ~x) db=1 reset",
    "reset on",
];

#[test]
fn rules_errors_and_descriptions_are_valkeys() {
    let Some(mut both) = Both::start() else { return };
    for rules in RULES {
        both.ask(&["ACL", "DELUSER", "u"]);
        let words: Vec<&str> = rules.split(' ').collect();
        both.ask(&[&["ACL", "SETUSER", "u"], &words[..]].concat());
        both.ask(&["ACL", "LIST"]);
        both.ask(&["ACL", "GETUSER", "u"]);
    }
    both.assert_equal();
}

/// Keys of `MIGRATE` depend on other arguments; `_` is the empty one.
#[test]
fn keys_of_migrate_are_those_of_valkey() {
    let Some(mut both) = Both::start() else { return };
    both.ask(&["ACL", "SETUSER", "m", "+@all", "%R~read*", "%W~write*", "%RW~rw*"]);
    for call in [
        "rw 0 500",
        "read 0 500",
        "write 0 500",
        "_ 0 500",
        "_ 0 500 KEYS rw",
        "_ 0 500 KEYS rw rw2 read",
        "_ 0 500 KEYS _",
        "_ 0 500 COPY KEYS write",
        "_ 0 500 AUTH KEYS KEYS rw",
        "_ 0 500 AUTH KEYS KEYS read",
        "_ 0 500 AUTH KEYS rw",
        "_ 0 500 AUTH2 KEYS 123 KEYS rw",
        "_ 0 500 AUTH2 USER KEYS KEYS write",
    ] {
        let mut words = vec!["ACL", "DRYRUN", "m", "MIGRATE", "host", "1"];
        words.extend(call.split(' ').map(|word| if word == "_" { "" } else { word }));
        both.ask(&words);
    }
    both.assert_equal();
}

/// Commands one after the other.
const LINES: &[&str] = &[
    "ACL",
    "ACL FOO",
    "ACL SETUSER",
    "ACL SETUSER a\tb",
    "ACL SETUSER v on nopass +get ~z (+set ~x)",
    "ACL GETUSER v",
    "ACL GETUSER nobody",
    "ACL GETUSER",
    "ACL GETUSER default",
    "ACL LIST",
    "ACL LIST x",
    "ACL USERS",
    "ACL WHOAMI",
    "ACL WHOAMI x",
    "ACL CAT",
    "ACL CAT nope",
    "ACL CAT read x",
    "ACL GENPASS 0",
    "ACL GENPASS x",
    "ACL GENPASS -1",
    "ACL GENPASS 4097",
    "ACL GENPASS 1 2",
    "ACL LOAD",
    "ACL SAVE",
    "ACL LOG x",
    "ACL LOG -1",
    "ACL LOG 0",
    "ACL LOG",
    "ACL LOG RESET",
    "ACL LOG reset x",
    "ACL HELP x",
    "ACL DELUSER",
    "ACL DELUSER default",
    "ACL DELUSER v default",
    "ACL DELUSER nobody",
    "ACL USERS",
    "ACL DRYRUN",
    "ACL DRYRUN v",
    "ACL DRYRUN nobody GET x",
    "ACL DRYRUN v FOO",
    "ACL DRYRUN v GET",
    "ACL DRYRUN v CONFIG",
    "ACL DRYRUN v CONFIG FOO",
    "ACL DRYRUN v config|get x",
    "ACL DRYRUN v AUTH x",
    "ACL DRYRUN v GET z",
    "ACL DRYRUN v GET y",
    "ACL DRYRUN v SET x 1",
    "ACL DRYRUN default GET x",
    "AUTH",
    "AUTH p",
    "AUTH v",
    "AUTH nobody p",
    "AUTH a b c",
    "AUTH v anything",
    "ACL WHOAMI",
    "GET z",
    "GET y",
    "SET x 1",
    "SET y 1",
    "CONFIG GET x",
    "CONFIG FOO",
    "FOO",
    "SET x",
    "RESET",
    "ACL WHOAMI",
    "CLIENT LIST USER nobody",
    "CLIENT KILL USER nobody",
    "ACL DELUSER v v nobody",
    "ACL USERS",
    "ACL SETUSER w on nopass +@all allkeys db=0",
    "AUTH w x",
    "SELECT 1",
    "SELECT 99",
    "SELECT x",
    "SWAPDB 0 1",
    "SWAPDB 0 0",
    "SWAPDB 0 99",
    "MOVE k 1",
    "MOVE k 99",
    "MOVE k x",
    "COPY a b DB 1",
    "COPY a b DB 0 DB 1",
    "COPY a b DB 99",
    "COPY a b DB x",
    "COPY a b DB 1 DB x",
    "COPY a b REPLACE db 1",
    "COPY a b DB 1 x",
    "COPY a b DB",
    "SWAPDB 1 x",
    "FLUSHALL",
    "FLUSHDB",
    "DBSIZE",
    "KEYS *",
    "RESET",
    "ACL SETUSER w alldbs",
    "AUTH w x",
    "SELECT 1",
    "ACL SETUSER w db=0",
    "GET a",
    "COPY a b DB 0",
    "PING",
    "SWAPDB 0 0",
    "SWAPDB 1 0",
    "OBJECT HELP x",
    "MULTI",
    "GET a",
    "EXEC",
    "SELECT 0",
    "MULTI",
    "WATCH a",
    "ECHO a",
    "SELECT 1",
    "DISCARD",
    "ACL SETUSER w -multi -exec",
    "MULTI",
    "EXEC",
    "RESET",
    "HELLO 3",
    "ACL GETUSER w",
    "ACL GETUSER nobody",
    "ACL CAT",
    "ACL LIST",
    "ACL SETUSER default >q",
    "PING",
    "RESET",
    "PING",
    "AUTH x",
    "AUTH q",
    "AUTH default q",
    "ACL SETUSER default off",
    "PING",
    "RESET",
    "AUTH q",
];

#[test]
fn answers_are_valkeys() {
    let Some(mut both) = Both::start() else { return };
    for line in LINES {
        let words: Vec<&str> = line.split(' ').collect();
        both.ask(&words);
    }
    both.assert_equal();
}

/// Parts of an entry of `ACL LOG` that do not depend on the time and the connection.
fn entries(log: &Value) -> Vec<Vec<Value>> {
    let Value::Array(entries) = log else { panic!("no list: {log:?}") };
    let kept = ["count", "reason", "context", "object", "username"];
    let fields = |entry: &Value| {
        let Value::Array(words) = entry else { panic!("no list: {entry:?}") };
        let is_kept =
            |name: &Value| kept.iter().any(|kept| name.as_bytes() == Some(kept.as_bytes()));
        let names: Vec<Value> = words.iter().step_by(2).cloned().collect();
        assert_eq!(names.len(), 10, "{names:?}");
        words.chunks(2).filter(|pair| is_kept(&pair[0])).map(|pair| pair[1].clone()).collect()
    };
    entries.iter().map(fields).collect()
}

#[test]
fn the_log_is_valkeys() {
    let Some(mut both) = Both::start() else { return };
    for line in [
        "ACL SETUSER u on nopass +@all -config -@blocking ~k* db=0,2",
        "ACL LOG RESET",
        "AUTH u x",
        "gEt x",
        "GET x",
        "MGET k y x",
        "config GET port",
        "CONFIG get port",
        "SELECT 1",
        "sElect 1",
        "COPY k1 k2 DB 1",
        "SWAPDB 0 1",
        "FlushAll",
        "BLPOP k 0",
        "MULTI",
        "GET x",
        "INCR k",
        "EXEC",
        "RESET",
        "AUTH nobody x",
        "auth nobody x",
        "HELLO 3 AUTH nobody x",
        "AUTH u x",
        "SELECT 2",
        "ACL SETUSER u db=0",
        "gEt zz",
        "OBJECT ENCODING k",
        "object encoding k",
        "RESET",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        both.ask(&words);
    }
    both.assert_equal();
    let words = ["ACL", "LOG", "100"];
    let ours = both.servers.ours(&words);
    let theirs = both.servers.theirs(&words);
    assert_eq!(entries(&ours), entries(&theirs));
}

#[test]
fn queued_commands_are_judged_in_the_database_that_they_will_run_in() {
    let Some(mut both) = Both::start() else { return };
    for line in [
        "ACL SETUSER u on nopass (db=0,1 +@all -@read ~*) (db=2,3 +@all -@write ~*)",
        "AUTH u x",
        "MULTI",
        "SET k 1",
        "GET k",
        "DISCARD",
        "MULTI",
        "SET k 1",
        "SELECT 2",
        "GET k",
        "SELECT 0",
        "SET k 2",
        "EXEC",
        "GET k",
        "MULTI",
        "SELECT 2",
        "DISCARD",
        "SET k 3",
        "MULTI",
        "SELECT 2",
        "SET k 1",
        "EXEC",
        "MULTI",
        "SELECT 4",
        "SELECT 99",
        "SELECT x",
        "GET k",
        "EXEC",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        both.ask(&words);
    }
    both.assert_equal();
}

/// True for commands that Valkey does not have.
fn is_of_redis(name: &str) -> bool {
    name.split('|').next() == Some("hotkeys")
}

/// Names and categories in the reply to `COMMAND`, subcommands included.
fn categories(commands: &Value, into: &mut BTreeMap<String, BTreeSet<String>>) {
    let Value::Array(commands) = commands else { panic!("no list: {commands:?}") };
    for command in commands {
        let Value::Array(fields) = command else { panic!("no list: {command:?}") };
        let name = fields[0].as_bytes().expect("a name");
        into.insert(String::from_utf8_lossy(name).into_owned(), texts(&fields[6]));
        categories(&fields[9], into);
    }
}

#[test]
fn categories_are_valkeys() {
    let Some(mut both) = Both::start() else { return };
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
    categories(&both.servers.ours(&["COMMAND"]), &mut ours);
    categories(&both.servers.theirs(&["COMMAND"]), &mut theirs);
    ours.retain(|name, _| !is_of_redis(name));
    theirs.retain(|name, _| ours.contains_key(name));
    for (name, own) in &ours {
        assert_eq!(Some(own), theirs.get(name), "{name}");
    }
    let names = texts(&both.ask(&["ACL", "CAT"]));
    for name in &names {
        let mut own = texts(&both.servers.ours(&["ACL", "CAT", name]));
        own.retain(|command| ours.contains_key(command));
        let mut all = texts(&both.servers.theirs(&["ACL", "CAT", name]));
        all.retain(|command| ours.contains_key(command));
        assert_eq!(own, all, "{name}");
    }
    both.assert_equal();
}

/// Rules of random users.
const POOL: &[&str] = &[
    "+@all",
    "-@all",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@keyspace",
    "-@dangerous",
    "+@fast",
    "-@slow",
    "+get",
    "-set",
    "+config|get",
    "-config",
    "+select|0",
    "+select|1",
    "-select",
    "+debug|x",
    "+@list",
    "-@list",
    "+@connection",
    "-@transaction",
    "+@blocking",
    "allkeys",
    "resetkeys",
    "~k1",
    "%R~k*",
    "%W~*1",
    "%RW~1",
    "~*",
    "%R~[kr]?",
    "allchannels",
    "resetchannels",
    "&k*",
    "&1",
    "alldbs",
    "resetdbs",
    "db=0",
    "db=1",
    "db=0,1",
    "(+@all ~k1)",
    "(+get allkeys)",
    "(+@read %R~* db=0)",
    "(+@write %W~r1 allchannels)",
    "clearselectors",
];

/// Arguments of random calls: keys, numbers, options.
const WORDS: &[&str] = &[
    "k1", "r1", "1", "2", "0", "x", "LEFT", "STORE", "GET", "SET", "BY", "DB", "u8", "STREAMS",
    "EX", "REPLACE",
];

#[test]
fn verdicts_on_random_calls_are_valkeys() {
    let Some(mut both) = Both::start() else { return };
    let mut random = Rng::with_seed(7);
    let all: Vec<_> = commands()
        .iter()
        .map(|(_, command)| command)
        .filter(|command| command.scope != Scope::Container && !is_of_redis(command.name))
        .collect();
    for round in 0..40 {
        both.ask(&["SELECT", if round % 4 == 3 { "1" } else { "0" }]);
        both.ask(&["ACL", "DELUSER", "u"]);
        let rules = (0..random.usize(1..12)).map(|_| POOL[random.usize(..POOL.len())]);
        let mut words = vec!["ACL", "SETUSER", "u"];
        words.extend(rules.flat_map(|rule| rule.split(' ')));
        both.about = words.join(" ");
        both.ask(&words);
        both.ask(&["ACL", "LIST"]);
        for command in &all {
            let mut words = vec!["ACL", "DRYRUN", "u"];
            let name_count = words.len();
            words.extend(command.name.split('|'));
            while !command.takes(words.len() - name_count) {
                words.push(WORDS[random.usize(..WORDS.len())]);
            }
            if command.arity < 0 {
                // Valkey finds no key in a `PFMERGE` of one, and allows it to everybody.
                let least = usize::from(command.name == "pfmerge");
                let more = random.usize(least..4);
                words.extend((0..more).map(|_| WORDS[random.usize(..WORDS.len())]));
            }
            both.ask(&words);
        }
    }
    both.assert_equal();
}
