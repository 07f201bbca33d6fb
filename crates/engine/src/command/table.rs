//! From a name to its command.

use super::declaration::{Command, Flags, Scope};
use super::keys::{Find, KeyFlags, Start};

/// Index of the first key among the arguments of a request that runs a script, if it declares one.
/// Behind the keys are the arguments of the script.
pub(crate) const FIRST_SCRIPT_KEY: usize = 3;

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
    /// It runs a script. Its fixed key is a key if the request declares one.
    pub(crate) is_script: bool,
    /// True if its keys hold collections.
    pub(crate) is_of_collections: bool,
    /// Index of the argument that names an element of its key, if no option is before that; else 0.
    pub(crate) element: u8,
    /// It takes little time whatever its keys hold: fast by declaration or, on keys, of constant
    /// complexity.
    pub(crate) is_brief: bool,
    /// It reads keys, briefly, and does nothing else.
    pub(crate) is_brief_read: bool,
    /// It writes to its keys, briefly and without blocking, and does nothing else.
    pub(crate) is_brief_write: bool,
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
        let is_script = command.scope == Scope::Script && !command.keys.is_empty();
        let fixed_key = if is_script { FIRST_SCRIPT_KEY as u8 } else { fixed_key };
        let is_keyed = command.scope == Scope::Keys;
        let is_brief =
            command.flags.contains(Flags::FAST) || (is_keyed && command.complexity == "O(1)");
        let is_read = is_keyed && command.flags.contains(Flags::READONLY) && fixed_key > 0;
        let is_of_collections = command.group.is_of_collections();
        let is_brief_read = is_brief && is_read;
        let is_write = is_keyed && command.flags.contains(Flags::WRITE) && fixed_key > 0;
        let is_brief_write = is_brief && is_write && !command.flags.contains(Flags::BLOCKING);
        let element = command.element_argument().and_then(|index| u8::try_from(index).ok());
        Traits {
            fixed_key,
            is_script,
            is_of_collections,
            element: element.unwrap_or(0),
            is_brief,
            is_brief_read,
            is_brief_write,
            only_key: command.only_key(),
        }
    }
}

/// All commands and subcommands, found by name in a few nanoseconds.
///
/// A command has its own name, which the log, the rules of users, `INFO` and errors use, and the
/// one by which clients and scripts call it. `rename-command` makes the latter another, or none.
#[derive(Debug)]
pub struct CommandTable {
    commands: Vec<&'static Command>,
    traits: Vec<Traits>,
    /// Names by which clients call commands.
    called: NameIndex,
    /// Own names; `None` while they are those of `called`.
    own: Option<NameIndex>,
    /// Containers by name, each with the index of its first subcommand: the others follow.
    containers: Vec<(&'static str, usize)>,
}

/// Commands by a name.
#[derive(Debug)]
struct NameIndex {
    /// By the hash of the name, open addressing, a power of two.
    places: Box<[Bucket]>,
    /// By [`CommandId::index`]; empty for one that cannot be called.
    names: Box<[Box<[u8]>]>,
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

impl NameIndex {
    /// The index of the names of commands, empty ones left out.
    fn new(names: Vec<Box<[u8]>>) -> NameIndex {
        let size = (names.len() * 4).next_power_of_two();
        let mut places = vec![Bucket::default(); size].into_boxed_slice();
        for (index, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
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
        NameIndex { places, names: names.into() }
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<CommandId> {
        let folded = folded(name);
        let mask = self.places.len() - 1;
        let mut index = name_hash(folded, name) as usize & mask;
        loop {
            let place = &self.places[index];
            let id = place.id?;
            if place.folded == folded
                && place.length == name.len()
                && (place.is_short || self.names[id.index()].eq_ignore_ascii_case(name))
            {
                return Some(id);
            }
            index = (index + 1) & mask;
        }
    }
}

impl CommandTable {
    /// The table of `commands` and all their subcommands.
    #[must_use]
    pub fn new(commands: &[&'static Command]) -> CommandTable {
        let mut all: Vec<&'static Command> = commands.to_vec();
        let mut containers = Vec::new();
        for command in commands.iter().filter(|command| !command.subcommands.is_empty()) {
            containers.push((command.name, all.len()));
            all.extend_from_slice(command.subcommands);
        }
        containers.sort_unstable();
        let traits = all.iter().map(|command| Traits::of(command)).collect();
        let names = commands.iter().map(|command| command.name.as_bytes().into()).collect();
        let called = NameIndex::new(names);
        CommandTable { commands: all, traits, called, own: None, containers }
    }

    /// This table, of which clients call some commands by another name, or cannot call them where
    /// that name is empty. Each pair is the name of a command as of those before it, and its new
    /// one.
    ///
    /// # Errors
    ///
    /// The pairs that are wrong by their index, each with the reason, as Valkey tells it.
    pub fn renamed(
        &self,
        renames: &[(&[u8], &[u8])],
    ) -> Result<CommandTable, Vec<(usize, &'static str)>> {
        let mut names = self.called.names.to_vec();
        let mut wrong = Vec::new();
        for (index, &(old, new)) in renames.iter().enumerate() {
            let of = |names: &[Box<[u8]>], wanted: &[u8]| {
                names.iter().position(|name| !name.is_empty() && name.eq_ignore_ascii_case(wanted))
            };
            let Some(command) = of(&names, old) else {
                wrong.push((index, "No such command in rename-command"));
                continue;
            };
            if of(&names, new).is_some_and(|other| other != command) {
                wrong.push((index, "Target command name already exists"));
                continue;
            }
            names[command] = new.to_ascii_lowercase().into();
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(CommandTable {
            commands: self.commands.clone(),
            traits: self.traits.clone(),
            called: NameIndex::new(names),
            own: Some(NameIndex::new(self.own_names().to_vec())),
            containers: self.containers.clone(),
        })
    }

    /// Own names of the commands that are no subcommands.
    fn own_names(&self) -> &[Box<[u8]>] {
        &self.own.as_ref().unwrap_or(&self.called).names
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

    /// All commands and subcommands that clients can call.
    pub fn callable(&self) -> impl Iterator<Item = (CommandId, &'static Command)> {
        let is_callable = |(id, command): &(CommandId, &Command)| {
            let id = match command.name.split_once('|') {
                Some((container, _)) => self.find(container.as_bytes()),
                None => Some(*id),
            };
            id.is_some_and(|id| !self.called.names[id.index()].is_empty())
        };
        self.iter().filter(is_callable)
    }

    /// The command that clients call by this name, in any case; not a subcommand.
    #[must_use]
    #[inline]
    pub fn called(&self, name: &[u8]) -> Option<CommandId> {
        self.called.find(name)
    }

    /// The command that a session calls by this name: a log that is replayed uses own names.
    #[inline]
    pub(crate) fn called_by(&self, name: &[u8], is_log: bool) -> Option<CommandId> {
        if is_log { self.find(name) } else { self.called(name) }
    }

    /// True if clients call some command by another name than its own, or none.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        self.own.is_some()
    }

    /// Own name of the command that clients call by this name, if some are renamed.
    #[inline]
    pub(crate) fn own_name(&self, called: &[u8]) -> Option<&'static str> {
        self.own.as_ref()?;
        self.called(called).map(|id| self.command(id).name)
    }

    /// The command that clients call by this name, `container|subcommand` for a subcommand, in any
    /// case.
    #[must_use]
    pub fn called_in_full(&self, name: &[u8]) -> Option<CommandId> {
        self.in_full(name, |name| self.called(name))
    }

    /// The command whose own name this is, in any case; not a subcommand.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        self.own.as_ref().unwrap_or(&self.called).find(name)
    }

    /// The command whose own name this is in full, `container|subcommand` for a subcommand, in any
    /// case.
    #[must_use]
    pub fn find_full(&self, name: &[u8]) -> Option<CommandId> {
        self.in_full(name, |name| self.find(name))
    }

    fn in_full(&self, name: &[u8], find: impl Fn(&[u8]) -> Option<CommandId>) -> Option<CommandId> {
        match name.iter().position(|&byte| byte == b'|') {
            None => find(name),
            Some(bar) => {
                let container = self.command(find(&name[..bar])?);
                self.find_subcommand(container, &name[bar + 1..])
            }
        }
    }

    /// The subcommand `name` of a container.
    #[must_use]
    pub fn find_subcommand(&self, container: &Command, name: &[u8]) -> Option<CommandId> {
        // Behind the container's own name and a bar.
        let own = |command: &Command| command.name.as_bytes().get(container.name.len() + 1..);
        let is_called =
            |command: &&Command| own(command).is_some_and(|own| own.eq_ignore_ascii_case(name));
        let index = container.subcommands.iter().position(is_called)?;
        let at = self.containers.binary_search_by_key(&container.name, |&(name, _)| name).ok()?;
        Some(CommandId((self.containers[at].1 + index) as u16))
    }
}

#[cfg(test)]
mod tests {
    use crate::execute::commands;

    #[test]
    fn a_name_is_found_in_any_case_and_no_other_name_for_it() {
        let table = commands();
        for (id, command) in table.iter().filter(|(_, command)| !command.name.contains('|')) {
            let name = command.name.as_bytes();
            assert_eq!(table.called(name), Some(id), "{command:?}");
            assert_eq!(table.called(&name.to_ascii_uppercase()), Some(id), "{command:?}");
            for (at, byte) in (0..name.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut other = name.to_vec();
                other[at] = byte;
                let is_same = other.eq_ignore_ascii_case(name);
                assert_eq!(table.called(&other) == Some(id), is_same, "{}", other.escape_ascii());
            }
            assert_ne!(table.called(&name[1..]), Some(id));
            assert_ne!(table.called(&[name, b"\0"].concat()), Some(id));
            assert_ne!(table.called(&[name, b" "].concat()), Some(id));
        }
        assert_eq!(table.called(b""), None);
    }

    #[test]
    fn a_renamed_command_is_called_by_its_new_name_alone_and_keeps_its_own() {
        let renames: [(&[u8], &[u8]); 5] = [
            (b"CONFIG", b"a Long and secret Name"),
            (b"get", b"g"),
            (b"SET", b"GET"),
            (b"flushall", b""),
            (b"g", b"hole"),
        ];
        let table = commands().renamed(&renames).expect("all of them are commands");
        let own = |name: &[u8]| Some(commands().find(name).expect("a command"));
        assert_eq!(table.called(b"a long and secret name"), own(b"config"));
        assert_eq!(table.called(b"a long and secret nam"), None);
        assert_eq!((table.called(b"HOLE"), table.called(b"g")), (own(b"get"), None));
        assert_eq!((table.called(b"Get"), table.called(b"set")), (own(b"set"), None));
        assert_eq!((table.called(b"flushall"), table.called(b"")), (None, None));
        assert_eq!(table.called(b"mget"), own(b"mget"), "the others stay");
        for name in [&b"config"[..], b"get", b"set", b"flushall", b"mget"] {
            assert_eq!(table.find(name), own(name));
        }
        assert_eq!(table.called_in_full(b"config|get"), None);
        assert!(table.called_in_full(b"a long and secret name|get").is_some());
        assert_eq!(table.called_in_full(b"acl|list"), table.find_full(b"ACL|LIST"));
        let can_be_called = |name| table.callable().any(|(_, command)| command.name == name);
        assert_eq!(["flushall", "get", "config|get"].map(can_be_called), [false, true, true]);
        assert_eq!(table.callable().count(), table.len() - 1);
    }

    #[test]
    fn wrong_renames_are_all_told() {
        let renames: [(&[u8], &[u8]); 7] = [
            (b"get", b"get"),
            (b"nothing", b"x"),
            (b"get", b"SET"),
            (b"flushall", b""),
            (b"flushall", b"y"),
            (b"config|get", b"z"),
            (b"", b""),
        ];
        let wrong = commands().renamed(&renames).expect_err("some are wrong");
        let (unknown, taken) =
            ("No such command in rename-command", "Target command name already exists");
        let expected = [(1, unknown), (2, taken), (4, unknown), (5, unknown), (6, unknown)];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn a_subcommand_is_found_in_any_case_by_its_container() {
        let table = crate::execute::commands();
        let mut count = 0;
        for (id, command) in table.iter().filter(|(_, command)| command.name.contains('|')) {
            let full = command.name.to_ascii_uppercase();
            let (container, own) = full.split_once('|').expect("it has a bar");
            let container = table.command(table.find(container.as_bytes()).expect("it is one"));
            assert_eq!(table.find_subcommand(container, own.as_bytes()), Some(id));
            assert_eq!(table.find_subcommand(container, &own.as_bytes()[1..]), None);
            assert_eq!(table.find_full(full.as_bytes()), Some(id));
            count += 1;
        }
        assert!(count > 50);
        let get = table.command(table.find(b"get").expect("it is there"));
        assert_eq!(table.find_subcommand(get, b"get"), None);
    }
}
