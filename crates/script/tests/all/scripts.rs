//! Scripts whose answers are compared with Valkey's.

/// Scripts without keys and arguments.
pub const SCRIPTS: &str = include_str!("scripts.lua");

/// The scripts, which lines of dashes part.
pub fn scripts() -> impl Iterator<Item = &'static str> {
    SCRIPTS.split("\n----\n").filter(|script| !script.trim().is_empty())
}
