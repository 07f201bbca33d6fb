//! The declarations of all directives, in families.
//!
//! Names, kinds, bounds and defaults are those CONFIG of Valkey 9.1 reveals; what has another default or status here
//! says so. A directive of Valkey that is missing here is an error of this table, which a test looks for.

mod cluster;
mod keyspace;
mod network;
mod observability;
mod persistence;
mod process;
mod replication;
mod tidemill;

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

/// Words that begin a line of a file without being directives, and what they ask for that does not exist.
pub const REFUSED: &[(&str, &str)] = &[
    ("loadmodule", "there are no modules"),
    ("rename-command", "commands cannot be renamed or disabled"),
    ("sentinel", "there is no sentinel mode"),
    ("user", "there is one user, whose password is 'requirepass'"),
];

const ANY: i64 = i64::MAX;
const I32: i64 = i32::MAX as i64;
const PORT: i64 = 65_535;

const fn flag(name: &'static str, default: bool, summary: &'static str) -> Directive {
    Directive::new(name, Kind::Flag, if default { "yes" } else { "no" }, summary)
}

const fn integer(
    name: &'static str,
    default: &'static str,
    min: i64,
    max: i64,
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Integer { min, max }, default, summary)
}

const fn memory(
    name: &'static str,
    default: &'static str,
    min: i64,
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Memory { min, max: i64::MAX }, default, summary)
}

const fn choice(
    name: &'static str,
    default: &'static str,
    choices: &'static [&'static str],
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Choice(choices), default, summary)
}

const fn text(name: &'static str, default: &'static str, summary: &'static str) -> Directive {
    Directive::new(name, Kind::Text, default, summary)
}

const fn secret(name: &'static str, summary: &'static str) -> Directive {
    Directive::new(name, Kind::Secret, "", summary)
}

const fn cpus(name: &'static str, summary: &'static str) -> Directive {
    Directive::new(name, Kind::CpuList, "", summary)
}
