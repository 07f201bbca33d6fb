//! Commands that a selector allows.

use std::collections::{BTreeMap, HashSet};

use super::lists::{append, merge_equal, remove_repeated};
use crate::command::{CommandId, CommandTable};

/// A rule about commands as it is described: `+get`, `-@read`, `+config|get`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandRule {
    allows: bool,
    /// Command, `command|subcommand` or `@category`, in lower case.
    name: Box<[u8]>,
}

/// Removes rules in whose place later ones are: about the same name, or about the command whose
/// subcommand or first argument they name. The order stays.
fn remove_replaced(rules: &mut Vec<CommandRule>) {
    rules.reverse();
    merge_equal(rules, |rule| &*rule.name, |_, _| {});
    // No more than commands and categories of the table.
    let mut later: HashSet<Box<[u8]>> = HashSet::new();
    rules.retain(|rule| match rule.name.iter().position(|&byte| byte == b'|') {
        Some(bar) => !later.contains(&rule.name[..bar]),
        None => later.insert(rule.name.clone()),
    });
    rules.reverse();
}

/// Commands that a selector allows: a bit for each command and subcommand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllowedCommands {
    bits: Box<[u64]>,
    /// Commands that are added to the server later are allowed: `+@all` was the last word on all.
    allows_new: bool,
    /// First arguments with which commands are allowed whose bits are not set. Repetitions may be
    /// among them until [`settle`](Self::settle).
    first_arguments: BTreeMap<CommandId, Vec<Box<[u8]>>>,
    /// Rules since the last word on all, in the order in which they were given, until
    /// [`settle`](Self::settle) also those that later ones replace.
    rules: Vec<CommandRule>,
}

impl AllowedCommands {
    /// No command of a table.
    pub(super) fn none(table: &CommandTable) -> AllowedCommands {
        AllowedCommands {
            bits: vec![0; table.len().div_ceil(64)].into(),
            allows_new: false,
            first_arguments: BTreeMap::new(),
            rules: Vec::new(),
        }
    }

    /// True if a command is allowed with any arguments.
    #[inline]
    pub(super) fn allows(&self, id: CommandId) -> bool {
        self.bits[id.index() / 64] >> (id.index() % 64) & 1 == 1
    }

    /// True if a command is allowed with this first argument.
    #[cold]
    pub(super) fn allows_first_argument(&self, id: CommandId, first: Option<&[u8]>) -> bool {
        let (Some(allowed), Some(first)) = (self.first_arguments.get(&id), first) else {
            return false;
        };
        allowed.iter().any(|known| known.eq_ignore_ascii_case(first))
    }

    /// True if all commands of the table are allowed.
    pub(super) fn are_all(&self, table: &CommandTable) -> bool {
        table.iter().all(|(id, _)| self.allows(id))
    }

    /// `+@all` and `-@all`.
    pub(super) fn set_all(&mut self, allows: bool) {
        self.bits.fill(if allows { u64::MAX } else { 0 });
        self.allows_new = allows;
        self.first_arguments.clear();
        self.rules.clear();
    }

    /// Allows or denies a command with all its subcommands.
    pub(super) fn set(&mut self, table: &CommandTable, id: CommandId, allows: bool) {
        self.set_bit(id, allows);
        self.first_arguments.remove(&id);
        for sub in table.command(id).subcommands {
            if let Some(sub) = table.find_full(sub.name.as_bytes()) {
                self.set_bit(sub, allows);
            }
        }
    }

    fn set_bit(&mut self, id: CommandId, allows: bool) {
        let (word, bit) = (&mut self.bits[id.index() / 64], 1 << (id.index() % 64));
        if allows { *word |= bit } else { *word &= !bit }
    }

    /// Allows a command with a first argument.
    pub(super) fn allow_first_argument(&mut self, id: CommandId, first: &[u8]) {
        append(self.first_arguments.entry(id).or_default(), first.into(), remove_repeated);
    }

    /// Notes a rule in place of those about the same name or about its subcommands.
    pub(super) fn note_rule(&mut self, name: &[u8], allows: bool) {
        let name = name.to_ascii_lowercase().into();
        append(&mut self.rules, CommandRule { allows, name }, remove_replaced);
    }

    /// Removes what rules have made superfluous, behind the last of them.
    pub(super) fn settle(&mut self) {
        self.first_arguments.values_mut().for_each(remove_repeated);
        remove_replaced(&mut self.rules);
    }

    /// Bytes of the names in the rules.
    pub(super) fn text_bytes(&self) -> usize {
        self.rules.iter().map(|rule| rule.name.len()).sum()
    }

    /// The rules that make these commands: `-@all +get`.
    pub(super) fn describe(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(if self.allows_new { b"+@all" } else { b"-@all" });
        for rule in &self.rules {
            into.extend_from_slice(if rule.allows { b" +" } else { b" -" });
            into.extend_from_slice(&rule.name);
        }
    }
}
