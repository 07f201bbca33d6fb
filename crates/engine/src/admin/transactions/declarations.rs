//! Declarations of the commands on transactions: a row each, then what differs from the family.

use crate::command::prelude::*;

const TRANSACTION: Command = Command::session(Group::Transactions, Categories::TRANSACTION)
    .flags(&[NOSCRIPT, LOADING, STALE, FAST, ALLOW_BUSY]);

pub(super) const MULTI: Command = TRANSACTION
    .command(
        "multi",
        1,
        "1.2.0",
        "Opens a transaction: the commands that follow are queued until EXEC.",
    )
    .more_flags(&[NO_MULTI]);

pub(super) const EXEC: Command = TRANSACTION
    .command("exec", 1, "1.2.0", "Runs all queued commands as one.")
    .complexity("Depends on commands in the transaction")
    .flags(&[NOSCRIPT, LOADING, STALE, SKIP_SLOWLOG]);

pub(super) const DISCARD: Command = TRANSACTION
    .command("discard", 1, "2.0.0", "Closes a transaction and forgets its commands.")
    .complexity("O(N), when N is the number of queued commands");

pub(super) const WATCH: Command = TRANSACTION
    .command("watch", -2, "2.2.0", "Makes the next EXEC depend on keys staying as they are.")
    .complexity("O(1) for every key.")
    .more_flags(&[NO_MULTI, REGISTERS])
    .keys(&[KeySpec::all(&[RO])])
    .arguments(&[key("key").multiple()]);

pub(super) const UNWATCH: Command =
    TRANSACTION.command("unwatch", 1, "2.2.0", "Forgets all watched keys.");
