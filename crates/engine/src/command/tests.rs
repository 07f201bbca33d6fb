use super::manual::{declarations, manual, syntax};
use super::{Command, CommandTable};

const GENERATOR: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/go/internal/commandgen");
const MANUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

fn table() -> &'static CommandTable {
    crate::execute::commands()
}

fn all() -> Vec<&'static Command> {
    table().iter().map(|(_, command)| command).collect()
}

/// Compares a generated file with what it should be; TIDEMILL_WRITE_DOCS writes it first.
fn assert_fresh(path: &str, want: &str) {
    if std::env::var_os("TIDEMILL_WRITE_DOCS").is_some() {
        std::fs::write(path, want).expect("docs can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == want, "run with TIDEMILL_WRITE_DOCS=1 to write {path}");
}

#[test]
fn the_manual_of_commands_is_fresh() {
    let valkey = std::fs::read_to_string(format!("{GENERATOR}/valkey.jsonl"))
        .expect("the recording of Valkey's commands is committed");
    assert_fresh(MANUAL, &manual(&all(), &valkey));
}

/// After writing it, `go generate ./...` in clients/go writes the client's table.
#[test]
fn the_manual_for_the_go_client_is_fresh() {
    assert_fresh(&format!("{GENERATOR}/tidemill.jsonl"), &declarations(&all()));
}

#[test]
fn syntax_reads_like_the_documentation_of_valkey() {
    for (name, want) in [
        ("get", "GET key"),
        ("mset", "MSET key value [key value ...]"),
        ("expire", "EXPIRE key seconds [NX | XX | GT | LT]"),
        ("lmpop", "LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]"),
        ("httl", "HTTL key FIELDS numfields field [field ...]"),
        (
            "sort_ro",
            "SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] \
             [ASC | DESC] [ALPHA]",
        ),
        ("client|no-touch", "CLIENT NO-TOUCH <ON | OFF>"),
    ] {
        let command = all().into_iter().find(|command| command.name == name);
        assert_eq!(syntax(command.expect("it is declared")), want);
    }
}

#[test]
fn the_argument_that_names_an_element_is_found_in_the_syntax() {
    for (name, want) in [
        ("hget", 2),
        ("hset", 2),
        ("hexpire", 5),
        ("hsetex", 4),
        ("sismember", 2),
        ("smove", 3),
        ("zadd", 3),
        ("zincrby", 3),
        ("zrank", 2),
        ("zmscore", 2),
        ("hlen", 0),
        ("zrange", 0),
        ("sinter", 0),
        ("geopos", 0),
        ("get", 0),
    ] {
        let id = table().find(name.as_bytes()).expect("it is declared");
        assert_eq!(table().traits(id).element, want, "{name}");
    }
}

/// Rows of a family take its defaults: a row that forgot what differs would be found here.
#[test]
fn declarations_agree_with_themselves() {
    use super::{ArgumentKind, Flags, Scope};
    for command in all() {
        let flags = command.flags;
        assert!(!flags.contains(Flags::WRITE | Flags::READONLY), "{command:?}");
        let is_container = command.scope == Scope::Container;
        assert_eq!(is_container, command.name != "command" && !command.subcommands.is_empty());
        for sub in command.subcommands {
            let container = sub.name.split_once('|').map(|(container, _)| container);
            assert_eq!(container, Some(command.name), "{sub:?}");
        }
        for argument in command.arguments {
            assert!(!matches!(argument.kind, ArgumentKind::Key) || argument.key_spec.is_some());
            if let Some(index) = argument.key_spec {
                assert!(index < command.keys.len(), "{command:?}: {}", argument.name);
            }
        }
        let mandatory = command.arguments.iter().filter(|argument| !argument.optional).count();
        let words = if command.name.contains('|') { 2 } else { 1 };
        let least = command.arity.unsigned_abs() as usize;
        // Redis names the word that HOTKEYS START lacks instead of its number of arguments.
        let counts_itself = is_container || command.name == "hotkeys|start";
        assert!(counts_itself || words + mandatory <= least, "{command:?} takes fewer arguments");
    }
}
