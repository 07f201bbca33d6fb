//! From a name to its command.

use super::declaration::Command;

/// The place of a command or subcommand in a [`CommandTable`]; statistics are kept by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(u16);

impl CommandId {
    /// The id as an index below [`CommandTable::len`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// All commands and subcommands, found by name in a few nanoseconds.
#[derive(Debug)]
pub struct CommandTable {
    commands: Vec<&'static Command>,
    /// Ids by the hash of the name, open addressing, a power of two.
    places: Box<[Option<CommandId>]>,
}

/// A cheap hash of the name in lower case: its length and first eight bytes tell nearly all commands apart.
fn name_hash(name: &[u8]) -> u64 {
    let mut first = [0_u8; 8];
    let length = name.len().min(8);
    first[..length].copy_from_slice(&name[..length]);
    // Sets bit 5 of every byte, which lower-cases letters; what else it merges, the comparison tells apart.
    let folded = u64::from_le_bytes(first) | 0x2020_2020_2020_2020;
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
        let mut places = vec![None; size].into_boxed_slice();
        for (index, command) in commands.iter().enumerate() {
            let mut place = name_hash(command.name.as_bytes()) as usize & (size - 1);
            while places[place].is_some() {
                place = (place + 1) & (size - 1);
            }
            places[place] = Some(CommandId(index as u16));
        }
        CommandTable { commands: all, places }
    }

    /// How many commands and subcommands there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The command with an id.
    #[must_use]
    pub fn command(&self, id: CommandId) -> &'static Command {
        self.commands[id.index()]
    }

    /// All commands and subcommands with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (CommandId, &'static Command)> {
        self.commands.iter().enumerate().map(|(index, command)| (CommandId(index as u16), *command))
    }

    /// The command of this name, in any case; not a subcommand.
    #[must_use]
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        let mask = self.places.len() - 1;
        let mut place = name_hash(name) as usize & mask;
        while let Some(id) = self.places[place] {
            if self.command(id).name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(id);
            }
            place = (place + 1) & mask;
        }
        None
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
