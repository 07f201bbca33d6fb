//! docs/commands.md and the declarations for the Go client, from the table.
//!
//! Valkey's commands that are not declared here come from the client's recording of Valkey's
//! `COMMAND`, one line of JSON each: docs/decisions/command-table-of-the-go-client.md.

use std::fmt::Write;

use super::{Argument, ArgumentKind, Command, Find, Flags, Group, KeySpec, Scope, Start};

const INTRODUCTION: &str = "\
# Commands

Generated from the declarations (`crates/engine/src/{handlers,admin}/*/declarations.rs`); a test
fails when the two differ. `COMMAND DOCS` and `COMMAND INFO` answer the same, key
specifications and ACL categories included.

";

const LEGEND: &str = "
*Since* is the version of Redis or Valkey that brought the command. Of the flags in `COMMAND INFO`,
these are shown: `write` and `readonly`; `fast`, of constant or logarithmic time; `denyoom`, refused
when memory is short; `blocking`; `admin`; `noscript`, not from scripts; `no_multi`, not in a
transaction; `no_auth`, allowed before authentication; `movablekeys`, with keys that a client finds
only if it knows the syntax.
";

const MISSING: &str = "\
## Commands of Valkey 9.1 that are not there

They are answered with `unknown command`, or `unknown subcommand` where other subcommands of the
container exist. `REPLICAOF HOST PORT` and `SLAVEOF HOST PORT` are known and refused, because there
is no replication; `WAIT` and `WAITAOF` count what there is: no replica, and this server's
append-only file. `MODULE` knows the subcommands of a server without modules.

";

/// Families of the manual, in its order.
const FAMILIES: [(Group, &str); 16] = [
    (Group::String, "Strings"),
    (Group::Bitmap, "Bitmaps"),
    (Group::List, "Lists"),
    (Group::Hash, "Hashes"),
    (Group::Set, "Sets"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Stream, "Streams"),
    (Group::Geo, "Positions"),
    (Group::HyperLogLog, "HyperLogLogs"),
    (Group::Generic, "Keys of any type"),
    (Group::Transactions, "Transactions"),
    (Group::Scripting, "Scripts and functions"),
    (Group::PubSub, "Publish and subscribe"),
    (Group::Connection, "Connections"),
    (Group::Server, "Server"),
    (Group::Cluster, "Cluster"),
];

/// Flags of the manual; the introduction explains them.
const SHOWN_FLAGS: Flags = Flags::WRITE
    .union(Flags::READONLY)
    .union(Flags::FAST)
    .union(Flags::DENYOOM)
    .union(Flags::BLOCKING)
    .union(Flags::ADMIN)
    .union(Flags::NOSCRIPT)
    .union(Flags::NO_MULTI)
    .union(Flags::NO_AUTH)
    .union(Flags::MOVABLEKEYS);

/// The manual of all commands, in Markdown. `valkey` is the recording of Valkey's commands.
pub(super) fn manual(commands: &[&'static Command], valkey: &str) -> String {
    let mut out = String::from(INTRODUCTION);
    let missing = missing(commands, valkey);
    let titles = |is_there: bool| {
        let families = missing.iter().filter(|(family, _)| family.is_there == is_there);
        families.map(|(family, _)| family.title).collect::<Vec<_>>().join(", ")
    };
    write!(
        out,
        "Families of Valkey 9.1 that are **not there**: {}.\nSingle commands are missing about {}. \
         [All by name](#commands-of-valkey-91-that-are-not-there).\n",
        titles(false),
        titles(true)
    )
    .expect("a String takes everything");
    out += LEGEND;
    for (group, title) in FAMILIES {
        write!(
            out,
            "\n## {title}\n\n| command | what it does | since | complexity | flags |\n\
             |---|---|---|---|---|\n"
        )
        .expect("a String takes everything");
        let of_group = |command: &&&Command| command.group == group;
        let mut rows: Vec<&&Command> = commands.iter().filter(of_group).collect();
        rows.retain(|command| command.scope != Scope::Container);
        rows.sort_by_key(|command| command.name);
        rows.iter().for_each(|command| out.push_str(&row(command)));
    }
    out += "\n";
    out += MISSING;
    for (family, names) in missing {
        writeln!(out, "- {}: {}", family.title, names.join(", "))
            .expect("a String takes everything");
    }
    out
}

fn row(command: &Command) -> String {
    let syntax = syntax(command).replace('|', "\\|");
    let flags = command.flags.intersection(SHOWN_FLAGS).names().join(", ");
    let deprecated = command.deprecated.map_or(String::new(), |(since, replacement)| {
        format!(" Deprecated since {since} in favour of {replacement}.")
    });
    format!(
        "| `{syntax}` | {}{deprecated} | {} | {} | {flags} |\n",
        command.summary, command.since, command.complexity
    )
}

/// A command with its arguments, as in `SET key value [NX | XX]`.
pub(super) fn syntax(command: &Command) -> String {
    let name = command.name.replace('|', " ").to_uppercase();
    let arguments: Vec<String> = command.arguments.iter().map(argument_syntax).collect();
    [name].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

fn argument_syntax(argument: &Argument) -> String {
    let join = |parts: &[Argument], by: &str| {
        parts.iter().map(argument_syntax).collect::<Vec<_>>().join(by)
    };
    let bare = match argument.kind {
        ArgumentKind::PureToken => String::new(),
        // The brackets of an optional argument enclose its alternatives already.
        ArgumentKind::OneOf(parts)
            if argument.optional && argument.token.is_none() && !argument.multiple =>
        {
            join(parts, " | ")
        }
        ArgumentKind::OneOf(parts) => format!("<{}>", join(parts, " | ")),
        ArgumentKind::Block(parts) => join(parts, " "),
        _ => argument.display.unwrap_or(argument.name).to_owned(),
    };
    let words = [argument.token.unwrap_or(""), &bare];
    let once = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let whole = match (argument.multiple, argument.multiple_token) {
        (false, _) => once,
        (true, true) => format!("{once} [{once} ...]"),
        (true, false) => format!("{once} [{bare} ...]"),
    };
    if argument.optional { format!("[{whole}]") } else { whole }
}

/// A group of Valkey's commands.
struct Family {
    /// Name in `COMMAND DOCS`.
    group: &'static str,
    title: &'static str,
    /// Some command of the group is declared.
    is_there: bool,
}

const VALKEY_FAMILIES: [Family; 15] = [
    family("set", "sets"),
    family("sorted-set", "sorted sets"),
    family("stream", "streams"),
    family("geo", "geographic indexes"),
    family("hyperloglog", "HyperLogLog"),
    family("pubsub", "pub/sub"),
    family("scripting", "scripts and functions"),
    family("cluster", "cluster"),
    family("string", "strings"),
    family("bitmap", "bitmaps"),
    family("list", "lists"),
    family("hash", "hashes"),
    family("connection", "connections"),
    family("generic", "keys of any type"),
    family("server", "server"),
];

const fn family(group: &'static str, title: &'static str) -> Family {
    Family { group, title, is_there: false }
}

/// Valkey's commands that are not declared, by family; of a container of which no subcommand is
/// declared only its name.
fn missing(commands: &[&'static Command], valkey: &str) -> Vec<(Family, Vec<String>)> {
    let is_declared = |name: &str| commands.iter().any(|command| command.name == name);
    let mut found = VALKEY_FAMILIES.map(|family| (family, Vec::new()));
    for (family, _) in &mut found {
        family.is_there = commands.iter().any(|command| command.group.name() == family.group);
    }
    // The first line says what was recorded.
    for line in valkey.lines().skip(1) {
        let (name, group) = (field(line, "name"), field(line, "group"));
        let container = name.split_once('|').map(|(container, _)| container);
        if is_declared(name) || container.is_some_and(|container| !is_declared(container)) {
            continue;
        }
        let of_group = found.iter_mut().find(|(family, _)| family.group == group);
        let (_, names) = of_group.unwrap_or_else(|| panic!("group {group} of {name} has no title"));
        names.push(format!("`{}`", name.replace('|', " ").to_uppercase()));
    }
    found.into_iter().filter(|(_, names)| !names.is_empty()).collect()
}

/// Text of a field of a line of JSON that this program's or the client's generator wrote.
fn field<'l>(line: &'l str, name: &str) -> &'l str {
    let begin = format!("\"{name}\":\"");
    let (_, rest) = line.split_once(&begin).expect("each line has name and group");
    rest.split_once('"').expect("a text ends").0
}

/// The declarations for the Go client's generator: a line of JSON per command, by name.
pub(super) fn declarations(commands: &[&'static Command]) -> String {
    let mut sorted = commands.to_vec();
    sorted.sort_by_key(|command| command.name);
    sorted.iter().map(|command| declaration(command) + "\n").collect()
}

fn declaration(command: &Command) -> String {
    let (first, last, step) = command.legacy_range();
    object(&[
        ("name", text(command.name)),
        ("group", text(command.group.name())),
        ("since", text(command.since)),
        ("summary", text(command.summary)),
        ("arity", command.arity.to_string()),
        ("flags", texts(&command.flags.names())),
        ("tips", texts(command.tips)),
        ("range", format!("[{first},{last},{step}]")),
        ("keys", array(command.keys.iter().map(key_rule))),
        ("arguments", array(command.arguments.iter().map(argument_object))),
    ])
}

/// Parts of a key specification that the client needs.
fn key_rule(spec: &KeySpec) -> String {
    let mut fields = match spec.start {
        Start::Index(index) => vec![("index", index.to_string())],
        Start::Keyword(word, from) => vec![("keyword", text(word)), ("from", from.to_string())],
        Start::Unknown => vec![("unknown", "true".to_owned())],
    };
    if let Find::Count { count, .. } = spec.find {
        fields.push(("count", count.to_string()));
    }
    object(&fields)
}

fn argument_object(argument: &Argument) -> String {
    let (kind, parts) = argument.kind_name();
    let flags: Vec<&str> = argument.flag_names().collect();
    let mut fields = vec![("name", text(&argument.shown_name())), ("type", text(kind))];
    if let Some(token) = argument.token {
        fields.push(("token", text(token)));
    }
    if !flags.is_empty() {
        fields.push(("flags", texts(&flags)));
    }
    if !parts.is_empty() {
        fields.push(("arguments", array(parts.iter().map(argument_object))));
    }
    object(&fields)
}

fn object(fields: &[(&str, String)]) -> String {
    let is_empty = |value: &str| value == "[]";
    let shown = fields.iter().filter(|(_, value)| !is_empty(value));
    let shown: Vec<String> = shown.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", shown.join(","))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn texts(items: &[&str]) -> String {
    array(items.iter().map(|item| text(item)))
}

/// A JSON string: of printable ASCII, Rust's notation is JSON's.
fn text(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    assert!(value.bytes().all(is_plain), "{value} is not printable ASCII");
    format!("{value:?}")
}
