//! Access control: users, what each may do, and the log of what was denied.
//!
//! A [`User`] is immutable. An [`Account`] is its name's place among the [`Users`] of a server: it
//! stays while its user is replaced, so that sessions and blocked clients hold accounts. A session
//! keeps the user as of the server's version of users and resolves it anew when the version has
//! moved, so that a change holds for all that is sent after its answer. A user who may do anything
//! costs one bit of the session; others are judged by [`User::check`], in one bitmap load where
//! they may use all keys.
//!
//! Behaviour, words and their order are those of Valkey 9.1's ACL. To add a rule: a line in
//! `rules`, its state in `selector` or `user` with its place in their description, and the text of
//! a new error in `rules`. What a user may have many of is kept as `lists` says.
//!
//! May touch: commands' declarations, the glob matcher. It knows neither sessions nor shared state.

mod commands;
mod databases;
mod denial;
mod file;
mod lists;
mod log;
mod password;
mod patterns;
mod rules;
mod selector;
mod user;
mod users;

#[cfg(test)]
mod tests;

pub use denial::{Denial, Reason};
pub use file::begin;
pub(crate) use file::load;
pub use log::{Context, Denied, Log, LogEntry};
pub(crate) use password::generate;
pub use rules::{ChannelsOfNewUsers, RuleError};
pub(crate) use rules::{Rules, UnclosedSelector};
pub use selector::{Call, Selector};
pub use user::{BriefReads, User};
pub(crate) use users::Replaced;
pub use users::{Account, DEFAULT_NAME, Users};

/// True if a text has a byte that no user's name and no pattern may have: white space as C's
/// `isspace` has it, or a NUL.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, 0 | b' ' | b'\t'..=b'\r'))
}
