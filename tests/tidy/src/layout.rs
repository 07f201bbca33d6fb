//! Crates and rooms: who may import and name what. The one place to edit when a room is added.
//!
//! A room is a folder or a file of a crate's `src`. Rooms are listed from top to bottom: a room may
//! import only rooms below it, of those the ones that its entry names, and anything that is in no
//! room. An entry holds from the moment at which its folder exists. To add a room: a line among the
//! rooms of its crate; to move a file into a room: nothing here.

/// A crate and its rules.
#[derive(Clone, Copy, Debug)]
pub struct CrateLayout {
    /// Path below the repository.
    pub path: &'static str,
    /// Rooms, from top to bottom.
    pub rooms: &'static [Room],
    /// Names that no file of it may use, in groups.
    pub never: &'static [&'static [&'static str]],
}

/// A part of a crate.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// First segments of its modules' names, as `execute` or `handlers::key`.
    pub name: &'static str,
    /// Names of the rooms that it may import; itself not among them.
    pub may_import: &'static [&'static str],
    /// Identifiers that must not occur in it, wherever they come from.
    pub never_names: &'static [&'static str],
}

const FILES: &[&str] = &["std::fs", "rustix::fs"];
const SOCKETS: &[&str] = &[
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::os::unix::net",
    "rustix::net",
];
const CLOCK: &[&str] = &["std::time::Instant", "std::time::SystemTime", "rustix::time"];
const NET: &[&str] = &["std::net", "std::os::unix::net", "rustix::net"];
const TIME: &[&str] = &["std::time", "core::time", "rustix::time"];

const fn room(
    name: &'static str,
    may_import: &'static [&'static str],
    never_names: &'static [&'static str],
) -> Room {
    Room { name, may_import, never_names }
}

/// Rooms of the engine. Slots are below shared state, which holds one of each, and locks are in
/// `access`, because they judge expiries by the worker's clock:
/// docs/decisions/rooms-of-the-engine.md. Users are below slots: a blocked client is judged by its
/// own. `Shared` is no forbidden name in handlers: a long string
/// is a `NewValue::Shared`, and shared state cannot be imported there.
const ENGINE: &[Room] = &[
    room(
        "execute",
        &[
            "admin",
            "handlers",
            "access",
            "worker",
            "tracking",
            "pubsub",
            "acl",
            "shared",
            "script",
            "slots",
            "telemetry",
        ],
        &[],
    ),
    room(
        "admin",
        &[
            "access",
            "worker",
            "tracking",
            "pubsub",
            "acl",
            "shared",
            "script",
            "slots",
            "telemetry",
        ],
        &[],
    ),
    room("handlers", &["access"], &["Worker", "Mailbox", "Mailboxes"]),
    room(
        "access",
        &["worker", "tracking", "shared", "pubsub", "slots", "telemetry"],
        &["Mailbox", "Gate"],
    ),
    room("worker", &["shared", "script", "pubsub", "slots", "acl", "telemetry"], &[]),
    room("tracking", &["shared", "pubsub", "slots", "telemetry"], &[]),
    room("shared", &["script", "pubsub", "slots", "acl", "telemetry"], &[]),
    room("script", &[], &["Worker"]),
    room("pubsub", &["slots", "telemetry"], &[]),
    room("slots", &["acl", "telemetry"], &[]),
    room("acl", &["telemetry"], &[]),
    room("telemetry", &[], &[]),
];

const fn layout(
    path: &'static str,
    rooms: &'static [Room],
    never: &'static [&'static [&'static str]],
) -> CrateLayout {
    CrateLayout { path, rooms, never }
}

/// All crates. Which crate may depend on which is kept by `scripts/check-dependencies.py`.
pub const CRATES: &[CrateLayout] = &[
    layout("crates/rcu", &[], &[FILES]),
    layout("crates/resp", &[], &[FILES, NET, TIME]),
    layout("crates/command", &[], &[FILES, NET, TIME]),
    layout("crates/config", &[], &[FILES, SOCKETS, CLOCK]),
    layout("crates/store", &[], &[FILES, NET, TIME]),
    layout("crates/engine", ENGINE, &[FILES, SOCKETS, CLOCK]),
    layout("crates/journal", &[], &[FILES, NET]),
    layout("crates/rdb", &[], &[FILES, NET, TIME]),
    layout("crates/persist", &[], &[NET]),
    layout("crates/replication", &[], &[FILES, NET, TIME]),
    layout("crates/cluster", &[], &[FILES, NET, TIME]),
    layout("crates/script", &[], &[FILES, NET, TIME]),
    layout("crates/server", &[], &[]),
    layout("crates/host", &[], &[]),
    layout("crates/bench", &[], &[]),
    layout("crates/tidemill", &[], &[]),
    layout("crates/testkit", &[], &[]),
    layout("tests/tidy", &[], &[]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_may_import_only_rooms_below_them() {
        for layout in CRATES {
            for (index, room) in layout.rooms.iter().enumerate() {
                let below = &layout.rooms[index + 1..];
                let is_below = |name: &str| below.iter().any(|lower| lower.name == name);
                for other in room.may_import {
                    assert!(is_below(other), "{}: {} may import {other}", layout.path, room.name);
                }
            }
        }
    }
}
