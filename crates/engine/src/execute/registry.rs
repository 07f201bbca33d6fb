//! All commands, and the function that executes each.
//!
//! Commands are declared beside their handlers, and below the execution know nothing of them:
//! shared state receives the table, and the execution asks here for its handler.

use std::sync::LazyLock;

use crate::access::handler::{Handler, KeyedHandler};
use crate::access::write_run::{WriteRunCommands, WriteRunHandler};
use crate::admin;
use crate::command::{Command, CommandId, CommandTable, WriteRunFamily};
use crate::config::{Configuration, LoadError, RENAME};
use crate::handlers;

/// Commands of all families that have subcommands only.
const CONTAINERS: &[&[&Command]] = &[
    handlers::key::CONTAINERS,
    handlers::stream::CONTAINERS,
    admin::acl::CONTAINERS,
    admin::cluster::CONTAINERS,
    admin::connection::CONTAINERS,
    admin::observe::CONTAINERS,
    admin::pubsub::CONTAINERS,
    admin::scripting::CONTAINERS,
    admin::server::CONTAINERS,
];

/// Handlers of all families, those of subcommands included.
const REGISTERED: &[&[(&Command, Handler)]] = &[
    handlers::bitmap::HANDLERS,
    handlers::geo::HANDLERS,
    handlers::hash::HANDLERS,
    handlers::hyperloglog::HANDLERS,
    handlers::key::HANDLERS,
    handlers::list::HANDLERS,
    handlers::set::HANDLERS,
    handlers::sorted_set::HANDLERS,
    handlers::stream::HANDLERS,
    handlers::string::HANDLERS,
    admin::acl::HANDLERS,
    admin::cluster::HANDLERS,
    admin::connection::HANDLERS,
    admin::keyspace::HANDLERS,
    admin::observe::HANDLERS,
    admin::pubsub::HANDLERS,
    admin::scripting::HANDLERS,
    admin::server::HANDLERS,
    admin::server::standing::HANDLERS,
    admin::transactions::HANDLERS,
];

/// Commands that may be carried out in runs, by families.
const WRITE_RUNS: &[WriteRunCommands] = &[
    handlers::hash::WRITE_RUN,
    handlers::list::WRITE_RUN,
    handlers::set::WRITE_RUN,
    handlers::sorted_set::WRITE_RUN,
    handlers::stream::WRITE_RUN,
];

/// Commands and subcommands that can be executed, with their handlers.
fn registered() -> impl Iterator<Item = (&'static Command, Handler)> {
    REGISTERED.iter().copied().flatten().copied()
}

static COMMANDS: LazyLock<CommandTable> = LazyLock::new(|| {
    let top_level = registered().map(|(command, _)| command);
    let top_level = top_level.filter(|command| !command.name.contains('|'));
    let containers = CONTAINERS.iter().copied().flatten().copied();
    CommandTable::new(&top_level.chain(containers).collect::<Vec<_>>())
});
static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| Handlers::new(&COMMANDS));

/// Table of all commands: the one that [`SharedSpec`](crate::shared::SharedSpec) takes.
#[must_use]
pub fn commands() -> &'static CommandTable {
    &COMMANDS
}

/// Table of all commands with the names that a configuration gives them. One of its own is never
/// freed: a process needs one.
///
/// # Errors
///
/// All lines that are wrong.
pub fn renamed_commands(configuration: &Configuration) -> Result<&'static CommandTable, LoadError> {
    let lines = configuration.renames();
    if lines.is_empty() {
        return Ok(commands());
    }
    let renames: Vec<(&[u8], &[u8])> =
        lines.iter().map(|line| (&*line.words[0], &*line.words[1])).collect();
    match commands().renamed(&renames) {
        Ok(table) => Ok(Box::leak(Box::new(table))),
        Err(wrong) => {
            let mut error = LoadError::default();
            for (index, reason) in wrong {
                error.add_declaration(RENAME, &lines[index], String::from(reason));
            }
            Err(error)
        }
    }
}

/// Handlers of all commands.
pub(crate) fn handlers() -> &'static Handlers {
    &HANDLERS
}

/// Handlers by command.
#[derive(Debug)]
pub(crate) struct Handlers {
    /// By [`CommandId::index`]; none for a container of subcommands.
    by_id: Box<[(&'static Command, Option<Handler>)]>,
    /// By [`CommandId::index`].
    write_runs: Box<[Option<WriteRunFamily>]>,
}

impl Handlers {
    fn new(table: &CommandTable) -> Handlers {
        let find = |name: &str| {
            registered().find(|(command, _)| command.name == name).map(|(_, handler)| handler)
        };
        let write_run = |name: &str| {
            let of_name = WRITE_RUNS.iter().find(|run| run.1.iter().any(|one| one.name == name));
            of_name.map(|run| run.0)
        };
        Handlers {
            by_id: table.iter().map(|(_, command)| (command, find(command.name))).collect(),
            write_runs: table.iter().map(|(_, command)| write_run(command.name)).collect(),
        }
    }

    /// Family of the runs that a command may be part of.
    #[inline]
    pub(crate) fn write_run_of(&self, id: CommandId) -> Option<WriteRunFamily> {
        self.write_runs[id.index()]
    }

    /// Handler of the runs of a family.
    pub(crate) fn of_write_run(&self, family: WriteRunFamily) -> WriteRunHandler {
        let run = WRITE_RUNS.iter().find(|run| run.0 == family);
        run.expect("each family has commands").2
    }

    /// Handler of a command; none of a container of subcommands.
    #[inline]
    pub(crate) fn of(&self, id: CommandId) -> Option<Handler> {
        self.by_id[id.index()].1
    }

    /// A command that works on its keys, and its handler.
    ///
    /// # Panics
    ///
    /// When the command does not: its declaration says so.
    #[inline]
    pub(crate) fn of_keyed(&self, id: CommandId) -> (&'static Command, KeyedHandler) {
        match self.by_id[id.index()] {
            (command, Some(Handler::Keyed(handler))) => (command, handler),
            _ => unreachable!("a command with the scope of its keys has a handler on keys"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Scope;

    #[test]
    fn what_a_write_run_is_made_of_is_a_brief_write() {
        let in_runs = |&(id, _): &(CommandId, &Command)| handlers().write_run_of(id).is_some();
        for (id, command) in commands().iter().filter(in_runs) {
            assert!(commands().traits(id).is_brief_write, "{}", command.name);
        }
    }

    #[test]
    fn each_command_has_the_handler_that_its_scope_says() {
        for (id, command) in commands().iter() {
            let handler = handlers().of(id);
            let fits = match command.scope {
                Scope::Keys => matches!(handler, Some(Handler::Keyed(_))),
                Scope::Session | Scope::Keyspace => matches!(handler, Some(Handler::Session(_))),
                Scope::Script => matches!(handler, Some(Handler::Script(_))),
                Scope::Container => handler.is_none() && !command.subcommands.is_empty(),
            };
            assert!(fits, "{}: {:?}, {handler:?}", command.name, command.scope);
        }
        let with_handler = commands().iter().filter(|&(id, _)| handlers().of(id).is_some()).count();
        assert_eq!(registered().count(), with_handler, "a handler of no command, or two of one");
    }
}
