//! Asks a real Valkey for its directives, defaults and CONFIG SET errors, and compares.
//!
//! Needs `valkey-server` (`make setup` puts it into build/tools/bin); without it the test says so
//! and passes.

use std::collections::BTreeMap;

use tidemill_engine::config::{Configuration, FAMILIES, Kind, Status};
use tidemill_resp::reply::Value;
use tidemill_testkit::valkey::{Connection, Valkey};

/// Directives whose default is not Valkey's, and why.
const OTHER_DEFAULTS: &[(&str, &str)] = &[
    ("dir", "the directory that the server was started in"),
    ("port", "the test starts Valkey without one"),
    ("unixsocket", "the test's own"),
];

/// Values that are wrong for most kinds, or at their edges.
const VALUES: &[&str] = &[
    "~~",
    "-1",
    "-2",
    "0",
    "1",
    "007",
    "1.5",
    "99999999999",
    "-99999999999",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
    "1kb",
    "3x",
    "kb",
    "K",
    "default save",
    "save nosave",
    "50%",
    "101%",
    "yes",
    "NO",
    "a b",
    "1 2 3",
    "normal 9mb 8mb 3",
    "foo 1 2 3",
    "KEA",
    "50 99.9",
    "a_b",
    "a.b-c",
    "a,b",
    "127.0.0.1",
    "127.0.0.01",
    "::1",
    "1:2:3:4:5:6:7:8:9",
    "a-name-of-more-than-forty-five-characters-is-longer-than-an-address",
    "{port} {title}",
    "{title}",
    "{unknown}",
    "{{title",
];

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("a string")).into_owned()
}

fn their_values(connection: &mut Connection) -> BTreeMap<String, String> {
    let Value::Array(words) = connection.ask(&["CONFIG", "GET", "*"]) else { panic!("an array") };
    words.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

fn their_value(connection: &mut Connection, name: &str) -> String {
    let Value::Array(words) = connection.ask(&["CONFIG", "GET", name]) else { panic!("an array") };
    text(&words[1])
}

#[test]
fn directives_and_defaults_are_valkeys() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let theirs = their_values(&mut valkey.connect());
    let configuration = Configuration::default();
    let ours: BTreeMap<&str, &str> = configuration.matching(&[b"*"]).into_iter().collect();
    for (name, value) in &theirs {
        let own = ours.get(name.as_str()).unwrap_or_else(|| panic!("{name} is missing"));
        let is_listed = OTHER_DEFAULTS.iter().any(|(other, _)| other == name);
        assert_eq!(*own != value, is_listed, "{name}: ours {own:?}, theirs {value:?}");
    }
    let own = FAMILIES.iter().find(|family| family.title == "Tidemill's own").expect("a family");
    for name in ours.keys().filter(|name| !theirs.contains_key(**name)) {
        assert!(own.directives.iter().any(|own| own.names().any(|own| own == *name)), "{name}");
    }
}

/// Differences on purpose: values refused because they do not exist, and stricter ones.
fn may_differ(kind: Kind, status: Status, value: &str, theirs: &str) -> bool {
    let is_refused = matches!(status, Status::Only { accepted, .. } if !accepted.contains(&value));
    // Theirs have no maximum, which what is out of range is told.
    let has_maximum = matches!(kind, Kind::Memory { max, .. } if max < i64::MAX as u64)
        && (theirs.contains("argument must be between") || value.len() > 10);
    // A number that has a sign wraps around there.
    let wraps = matches!(kind, Kind::Memory { min: ..0, .. }) && value.len() > 19;
    // Their text directives check what is in them, and some numbers are checked against the
    // machine.
    let is_checked_text = matches!(kind, Kind::Text | Kind::Secret);
    let is_machine = theirs.contains("operating system")
        || theirs.contains("Failed to")
        || theirs.contains("elements must be")
        // Their defragmentation needs a jemalloc of their own.
        || theirs.contains("a modified Jemalloc");
    is_refused || has_maximum || wraps || is_checked_text || is_machine
}

#[test]
fn what_set_answers_is_valkeys() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let mut connection = valkey.connect();
    let defaults = Configuration::default();
    let mut differences = Vec::new();
    let directives = FAMILIES.iter().filter(|family| family.title != "Tidemill's own");
    for directive in directives.flat_map(|family| family.directives) {
        // A password or a limit of memory in force would end the test's own connection, TLS without
        // certificates the whole server; a test listens on a port of its own at most, and writes no
        // log.
        let is_dangerous = directive.name.starts_with("tls-")
            || matches!(
                directive.name,
                "requirepass" | "dir" | "maxmemory-clients" | "bind" | "port" | "appendonly"
            );
        if is_dangerous {
            continue;
        }
        for value in VALUES {
            if directive.name == "maxclients" && value.starts_with(['0', '1', '9']) {
                continue;
            }
            let theirs = match connection.ask(&["CONFIG", "SET", directive.name, value]) {
                Value::Error(error) => String::from_utf8_lossy(&error).into_owned(),
                _ => their_value(&mut connection, directive.name),
            };
            let ours = match defaults
                .with_changes(&[(directive.name.as_bytes(), value.as_bytes())], false)
            {
                Err(error) => String::from_utf8_lossy(&error.wire()).into_owned(),
                Ok(changed) => changed.value(directive.name).expect("it was set").to_owned(),
            };
            connection.ask(&["CONFIG", "SET", directive.name, directive.default]);
            if ours != theirs && !may_differ(directive.kind, directive.status, value, &theirs) {
                differences.push(format!(
                    "{} {value:?}: ours {ours}\n    theirs {theirs}",
                    directive.name
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
