//! From a name to its command.

use super::declaration::{Command, Flags, Scope};
use super::keys::{Find, KeyFlags, Start};

/// The place of a command or subcommand in a [`CommandTable`]; statistics are kept by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(u16);

impl CommandId {
    /// The id as an index below [`CommandTable::len`].
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Properties of a command that every request asks for, worked out once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// Index of the argument that is its first key, if that is always the same; else 0.
    pub(crate) fixed_key: u8,
    /// True if its keys hold collections.
    pub(crate) is_of_collections: bool,
    /// It takes little time whatever its keys hold: fast by declaration or, on keys, of constant
    /// complexity.
    pub(crate) is_brief: bool,
    /// It reads keys, briefly, and does nothing else.
    pub(crate) is_brief_read: bool,
    /// Access to its key, if it always has exactly one.
    pub(crate) only_key: Option<KeyFlags>,
}

impl Traits {
    fn of(command: &Command) -> Traits {
        let fixed_key = match command.keys.first() {
            Some(spec) => match (&spec.start, &spec.find) {
                (&Start::Index(index), Find::Range { .. }) => u8::try_from(index).unwrap_or(0),
                _ => 0,
            },
            None => 0,
        };
        let is_keyed = command.scope == Scope::Keys;
        let is_brief =
            command.flags.contains(Flags::FAST) || (is_keyed && command.complexity == "O(1)");
        let is_read = is_keyed && command.flags.contains(Flags::READONLY) && fixed_key > 0;
        let is_of_collections = command.group.is_of_collections();
        let is_brief_read = is_brief && is_read;
        let only_key = command.only_key();
        Traits { fixed_key, is_of_collections, is_brief, is_brief_read, only_key }
    }
}

/// All commands and subcommands, found by name in a few nanoseconds.
#[derive(Debug)]
pub struct CommandTable {
    commands: Vec<&'static Command>,
    traits: Vec<Traits>,
    /// Commands by the hash of the name, open addressing, a power of two.
    places: Box<[Bucket]>,
}

/// One place of the table.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// [`folded`] of the name.
    folded: u64,
    length: usize,
    /// None in an empty place.
    id: Option<CommandId>,
    /// The folded form and the length say all of the name: up to eight letters and nothing else.
    is_short: bool,
}

/// The first eight bytes of a name, with bit 5 of each set: lower-cases letters; what else it
/// merges, a comparison has to tell apart.
#[inline]
fn folded(name: &[u8]) -> u64 {
    let word = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).map_or(0, u64::from);
    let bytes = match *name {
        [first, second, third] => u64::from_le_bytes([first, second, third, 0, 0, 0, 0, 0]),
        [_, _, _, _, ..] => {
            // Two words that overlap in names of less than eight bytes.
            let last = name.len().min(8) - 4;
            word(&name[..4]) | word(&name[last..last + 4]) << 32
        }
        _ => name.iter().fold(0, |bytes, &byte| bytes << 8 | u64::from(byte)),
    };
    bytes | 0x2020_2020_2020_2020
}

/// A cheap hash: length, last byte and first eight bytes tell nearly all commands apart.
#[inline]
fn name_hash(folded: u64, name: &[u8]) -> u64 {
    let last = u64::from(name.last().copied().unwrap_or(0) | 0x20);
    (folded ^ (name.len() as u64) << 56 ^ last << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl CommandTable {
    /// The table of `commands` and all their subcommands.
    #[must_use]
    pub fn new(commands: &[&'static Command]) -> CommandTable {
        let mut all: Vec<&'static Command> = commands.to_vec();
        all.extend(commands.iter().flat_map(|command| command.subcommands.iter().copied()));
        let size = (commands.len() * 4).next_power_of_two();
        let mut places = vec![Bucket::default(); size].into_boxed_slice();
        for (index, command) in commands.iter().enumerate() {
            let name = command.name.as_bytes();
            let folded = folded(name);
            let mut place = name_hash(folded, name) as usize & (size - 1);
            while places[place].id.is_some() {
                place = (place + 1) & (size - 1);
            }
            places[place] = Bucket {
                folded,
                length: name.len(),
                id: Some(CommandId(index as u16)),
                is_short: name.len() <= 8 && name.iter().all(u8::is_ascii_lowercase),
            };
        }
        let traits = all.iter().map(|command| Traits::of(command)).collect();
        CommandTable { commands: all, traits, places }
    }

    /// Number of commands and subcommands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The command with an id.
    #[must_use]
    #[inline]
    pub fn command(&self, id: CommandId) -> &'static Command {
        self.commands[id.index()]
    }

    #[inline]
    pub(crate) fn traits(&self, id: CommandId) -> Traits {
        self.traits[id.index()]
    }

    /// All commands and subcommands with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (CommandId, &'static Command)> {
        self.commands.iter().enumerate().map(|(index, command)| (CommandId(index as u16), *command))
    }

    /// The command of this name, in any case; not a subcommand.
    #[must_use]
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        let folded = folded(name);
        let mask = self.places.len() - 1;
        let mut index = name_hash(folded, name) as usize & mask;
        loop {
            let place = &self.places[index];
            let id = place.id?;
            if place.folded == folded
                && place.length == name.len()
                && (place.is_short || self.is_called(id, name))
            {
                return Some(id);
            }
            index = (index + 1) & mask;
        }
    }

    fn is_called(&self, id: CommandId, name: &[u8]) -> bool {
        self.command(id).name.as_bytes().eq_ignore_ascii_case(name)
    }

    /// The command of a full name, `container|subcommand` for a subcommand, in any case.
    #[must_use]
    pub fn find_full(&self, name: &[u8]) -> Option<CommandId> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => {
                let container = self.command(self.find(&name[..bar])?);
                self.find_subcommand(container, &name[bar + 1..])
            }
        }
    }

    /// The subcommand `name` of a container.
    #[must_use]
    pub fn find_subcommand(&self, container: &Command, name: &[u8]) -> Option<CommandId> {
        let full = |command: &Command| {
            let (_, own) = command.name.split_once('|')?;
            own.as_bytes().eq_ignore_ascii_case(name).then_some(())
        };
        let found = container.subcommands.iter().find(|command| full(command).is_some())?;
        self.iter().find(|(_, command)| command.name == found.name).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_is_found_in_any_case_and_no_other_name_for_it() {
        let table = crate::execute::commands();
        for (id, command) in table.iter().filter(|(_, command)| !command.name.contains('|')) {
            let name = command.name.as_bytes();
            assert_eq!(table.find(name), Some(id), "{command:?}");
            assert_eq!(table.find(&name.to_ascii_uppercase()), Some(id), "{command:?}");
            for (at, byte) in (0..name.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut other = name.to_vec();
                other[at] = byte;
                let is_same = other.eq_ignore_ascii_case(name);
                assert_eq!(table.find(&other) == Some(id), is_same, "{}", other.escape_ascii());
            }
            assert_ne!(table.find(&name[1..]), Some(id));
            assert_ne!(table.find(&[name, b"\0"].concat()), Some(id));
            assert_ne!(table.find(&[name, b" "].concat()), Some(id));
        }
        assert_eq!(table.find(b""), None);
    }
}
