//! The declarations of all directives, in families.
//!
//! Names, kinds, bounds and defaults are those CONFIG of Valkey 9.1 reveals; what has another
//! default or status here says so. A directive of Valkey that is missing here is an error of this
//! table, which a test looks for.

mod builders;
mod cluster;
mod keyspace;
mod network;
mod observability;
mod persistence;
mod process;
mod replication;
mod tidemill;
mod tls;

use super::directive::{Directive, Kind};

/// A group of directives, for the manual.
#[derive(Debug)]
pub struct Family {
    /// Heading.
    pub title: &'static str,
    /// Members, in the order of the manual.
    pub directives: &'static [Directive],
}

/// All directives.
pub const FAMILIES: &[Family] = &[
    Family { title: "Network and clients", directives: network::DIRECTIVES },
    Family { title: "TLS", directives: tls::DIRECTIVES },
    Family { title: "Process and log", directives: process::DIRECTIVES },
    Family { title: "Tidemill's own", directives: tidemill::DIRECTIVES },
    Family { title: "Keyspace and memory", directives: keyspace::DIRECTIVES },
    Family { title: "Observability", directives: observability::DIRECTIVES },
    Family { title: "Persistence", directives: persistence::DIRECTIVES },
    Family { title: "Replication", directives: replication::DIRECTIVES },
    Family { title: "Cluster", directives: cluster::DIRECTIVES },
];

/// Directives of earlier versions that Valkey still reads and ignores, and so do we.
pub const OBSOLETE: &[&str] = &[
    "dynamic-hz",
    "events-per-io-thread",
    "io-threads-do-reads",
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
    "watchdog-period",
];

/// Words that begin a line of a file without being directives, and what they ask for that does not
/// exist.
pub const REFUSED: &[(&str, &str)] =
    &[("loadmodule", "there are no modules"), ("sentinel", "there is no sentinel mode")];

/// Word that begins the renaming of a command.
pub const RENAME: &str = "rename-command";

/// A directive without a value that `CONFIG` could show.
#[derive(Debug)]
pub struct Statement {
    /// Word that it begins with.
    pub name: &'static str,
    /// Words that follow, for people.
    pub accepted: &'static str,
    /// One sentence for the manual.
    pub summary: &'static str,
}

/// Heading of the statements, for people.
pub const STATEMENTS_TITLE: &str = "Lines that CONFIG does not show";

/// All statements. What each does is in the loader.
pub const STATEMENTS: &[Statement] = &[
    Statement {
        name: "include",
        accepted: "one path or pattern",
        summary: "Reads the files of that name at this place.",
    },
    Statement {
        name: "user",
        accepted: "a name and rules",
        summary: "Declares a user by rules of `ACL SETUSER`.",
    },
    Statement {
        name: RENAME,
        accepted: "a command and its new name, \"\" for none",
        summary: "Lets clients call a command by another name only.",
    },
];

/// The statement that begins with a word, in any case.
pub(super) fn statement(word: &[u8]) -> Option<&'static Statement> {
    STATEMENTS.iter().find(|statement| word.eq_ignore_ascii_case(statement.name.as_bytes()))
}

/// True if a directive of this name, in any case, holds a secret.
#[must_use]
pub fn is_secret(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let mut all = FAMILIES.iter().flat_map(|family| family.directives);
    all.any(|directive| {
        matches!(directive.kind, Kind::Secret)
            && directive.names().any(|known| known.eq_ignore_ascii_case(name))
    })
}
