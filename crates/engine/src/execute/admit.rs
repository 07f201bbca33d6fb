//! Admission of a request: known, complete, permitted, affordable; run, or queued in
//! `MULTI`.

use tidemill_resp::encode::Protocol;
use tidemill_resp::request::ArgumentView;

use super::executor::Executor;
use super::measure::request_bytes;
use super::permission;
use super::script::prepare::takes_memory;
use crate::access::handler::Handler;
use crate::access::options::database;
use crate::access::section::Enter;
use crate::access::unwatch::unwatch;
use crate::acl::Context;
use crate::admin::scripting::busy_error;
use crate::command::{Command, CommandId, Flags};
use crate::error::{CommandError, QUOTED_BYTES_MAX, until_nul};
use crate::slots::parking::WaitTarget;
use crate::worker::session::Session;

/// Way of an admissible request.
pub(crate) enum Admitted {
    Run(CommandId, &'static Command),
    Queued,
    /// It runs, or is queued, once keys have been evicted or a pause is over.
    Waiting(WaitTarget),
}

/// Checks a request; queues it in a transaction.
#[inline]
pub(crate) fn admit<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    id: Option<CommandId>,
    args: &ArgumentView<'_>,
) -> Result<Admitted, CommandError> {
    let resolved = authenticate(executor, id, args).and_then(|()| {
        let (id, command) = resolve(executor, id, args)?;
        if executor.session.transaction.is_some() {
            permit_in_multi(executor, id, command)?;
        }
        if !executor.session.is_unrestricted {
            let is_queued = executor.session.transaction.is_some();
            let context = if is_queued { Context::Multi } else { Context::TopLevel };
            permission::check(executor, (id, args), context).map_err(|denial| {
                count_rejected(executor, id);
                denial.error(executor.session.user().name(), command)
            })?;
        }
        permit(executor, (id, command), args).map(|target| (id, command, target))
    });
    match resolved {
        Ok((_, _, Some(target))) => Ok(Admitted::Waiting(target)),
        Ok((id, command, None)) if executor.session.transaction.is_some() => {
            enqueue(executor, id, command, args)
        }
        Ok((id, command, None)) => Ok(Admitted::Run(id, command)),
        Err(error) => Err(reject(executor, id, error)),
    }
}

/// Answer to a refused request; in a transaction it makes `EXEC` refuse, and `EXEC` itself ends
/// it.
#[cold]
fn reject<E>(
    executor: &mut Executor<'_, '_, E>,
    id: Option<CommandId>,
    error: CommandError,
) -> CommandError {
    executor.session.abort_transaction();
    if id.is_none_or(|id| executor.shared.commands.command(id).name != "exec") {
        return error;
    }
    executor.session.transaction = None;
    executor.session.show_transaction();
    unwatch(executor.shared, executor.worker, executor.session, None);
    let wire = error.wire();
    let reason = wire.strip_prefix(b"ERR ").unwrap_or(&wire);
    let mut text = b"EXECABORT Transaction discarded because of: ".to_vec();
    text.extend_from_slice(reason);
    CommandError::Bytes(text)
}

/// Permission to send this at all. Asked before anything else, so that a client that has
/// not authenticated learns neither which commands there are nor what they take.
#[inline]
fn authenticate<E>(
    executor: &Executor<'_, '_, E>,
    id: Option<CommandId>,
    args: &ArgumentView<'_>,
) -> Result<(), CommandError> {
    if executor.session.is_authenticated {
        return Ok(());
    }
    refuse_unauthenticated(executor, id, args)
}

/// Lets the commands pass by which a client authenticates or leaves.
#[cold]
fn refuse_unauthenticated<E>(
    executor: &Executor<'_, '_, E>,
    id: Option<CommandId>,
    args: &ArgumentView<'_>,
) -> Result<(), CommandError> {
    let table = &executor.shared.commands;
    let called = id.and_then(|id| {
        let command = table.command(id);
        match command.subcommands.is_empty() || args.len() < 2 {
            true => Some(id),
            false => table.find_subcommand(command, args.get(1)),
        }
    });
    match called {
        Some(id) if table.command(id).flags.contains(Flags::NO_AUTH) => return Ok(()),
        Some(id) => count_rejected(executor, id),
        None => {}
    }
    Err(CommandError::NotAuthenticated)
}

/// The command or subcommand that the arguments call, with the right number of arguments.
#[inline]
fn resolve<E>(
    executor: &Executor<'_, '_, E>,
    id: Option<CommandId>,
    args: &ArgumentView<'_>,
) -> Result<(CommandId, &'static Command), CommandError> {
    let id = id.ok_or_else(|| unknown_command(args))?;
    let command = executor.shared.commands.command(id);
    if command.subcommands.is_empty() || args.len() < 2 {
        check_arity(executor, (id, command), args)?;
        return Ok((id, command));
    }
    let table = &executor.shared.commands;
    let sub = table.find_subcommand(command, args.get(1));
    let Some(id) = sub else {
        // A container with a handler of its own answers without a subcommand only.
        return Err(unknown_subcommand(args));
    };
    let command = table.command(id);
    check_arity(executor, (id, command), args)?;
    Ok((id, command))
}

#[inline]
fn check_arity<E>(
    executor: &Executor<'_, '_, E>,
    (id, command): (CommandId, &'static Command),
    args: &ArgumentView<'_>,
) -> Result<(), CommandError> {
    if command.takes(args.len()) {
        return Ok(());
    }
    count_rejected(executor, id);
    Err(CommandError::Arity(command.name.into()))
}

fn count_rejected<E>(executor: &Executor<'_, '_, E>, id: CommandId) {
    executor.worker.stats(executor.shared).command(id).rejected.add(1);
}

/// Commands that touch data: not for a session that watches others.
const DATA: Flags = Flags::READONLY.union(Flags::WRITE).union(Flags::MAY_REPLICATE);

/// Ok if a command may run as things are, or the target that it has to wait for first.
#[inline]
fn permit<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    (id, command): (CommandId, &'static Command),
    args: &ArgumentView<'_>,
) -> Result<Option<WaitTarget>, CommandError> {
    let mut target = None;
    let error = if executor.session.is_monitor && command.flags.intersects(DATA) {
        CommandError::from("ERR Replica can't interact with the keyspace")
    } else if executor.worker.may_refuse_memory()
        && (command.flags.contains(Flags::DENYOOM)
            || executor.session.transaction.is_some() && is_script_for_memory(executor, id, args)
            || executor.worker.lacks_memory && registers_something(executor.session, command))
        && let Err(error) = executor.make_room().map(|wanted| target = wanted)
    {
        error
    } else if executor.worker.is_restricted
        && let Some(error) = refused_now(executor, command)
    {
        error
    } else if executor.session.is_subscriber && is_refused_to_subscribers(executor, command) {
        CommandError::err(format_args!(
            "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context",
            command.name
        ))
    } else {
        return Ok(target);
    };
    count_rejected(executor, id);
    Err(error)
}

/// True if a command runs a script or function that takes memory by what it declares: in a
/// transaction it is refused when it is queued, and the transaction with it. One that runs by
/// itself is refused when it has been prepared.
#[cold]
pub(super) fn is_script_for_memory<E>(
    executor: &mut Executor<'_, '_, E>,
    id: CommandId,
    args: &ArgumentView<'_>,
) -> bool {
    let Executor { shared, handlers, worker, .. } = executor;
    match handlers.of(id) {
        Some(Handler::Script(how)) => takes_memory((shared, worker), how, args),
        _ => false,
    }
}

/// True if a command adds to what clients and the server keep beside data, little at a time. It is
/// not refused by `maxmemory`, as in Valkey, but when the system has no memory left.
#[cold]
fn registers_something(session: &Session, command: &Command) -> bool {
    let tracks = session.tracking.is_some() && command.flags.contains(Flags::READONLY);
    tracks || command.flags.contains(Flags::REGISTERS)
}

/// Error of a command that is refused while data cannot be saved, or is being loaded, or a script
/// is busy: in Valkey's order. A log is replayed whatever there is.
#[cold]
fn refused_now<E>(executor: &Executor<'_, '_, E>, command: &Command) -> Option<CommandError> {
    let Executor { shared, worker, session, .. } = executor;
    if worker.refuses_writes && is_refused_unsaved(command) {
        return Some(shared.write_refused());
    }
    if session.replays {
        return None;
    }
    // One that was queued before runs by EXEC.
    let queued = session.transaction.iter().filter(|_| command.name == "exec");
    let queued = queued.flat_map(|transaction| &transaction.queued);
    let queued = queued.map(|queued| shared.commands.command(queued.id));
    let mut all = std::iter::once(command).chain(queued);
    let is_refused = |command: &Command| !command.flags.contains(Flags::LOADING);
    if shared.loading.is_running() && all.any(is_refused) {
        return Some(CommandError::Loading);
    }
    let is_busy = !command.flags.contains(Flags::ALLOW_BUSY);
    worker.busy.filter(|_| is_busy).map(busy_error)
}

/// True if a command is refused while data cannot be saved: a write, and `PING`, by which clients
/// and balancers ask for health.
fn is_refused_unsaved(command: &Command) -> bool {
    command.flags.contains(Flags::WRITE) || command.name == "ping"
}

/// True if a client that subscribes may not send a command: in RESP2 it could not tell the reply
/// from a message.
#[cold]
fn is_refused_to_subscribers<E>(executor: &Executor<'_, '_, E>, command: &Command) -> bool {
    let is_allowed = matches!(
        command.name,
        "ping"
            | "subscribe"
            | "unsubscribe"
            | "psubscribe"
            | "punsubscribe"
            | "ssubscribe"
            | "sunsubscribe"
            | "quit"
            | "reset"
    );
    executor.reply.protocol() == Protocol::Resp2 && !is_allowed
}

/// Commands that a transaction runs at once instead of queueing them.
fn runs_in_multi(command: &Command) -> bool {
    matches!(command.name, "exec" | "discard" | "reset" | "quit")
}

/// Ok if a command may be queued in a transaction, or ends it.
#[cold]
fn permit_in_multi<E>(
    executor: &Executor<'_, '_, E>,
    id: CommandId,
    command: &'static Command,
) -> Result<(), CommandError> {
    if !command.flags.contains(Flags::NO_MULTI) || runs_in_multi(command) {
        return Ok(());
    }
    count_rejected(executor, id);
    Err(CommandError::err(format_args!(
        "Command '{}' not allowed inside a transaction",
        command.name
    )))
}

/// Queues a command behind `MULTI`, or lets one that ends the transaction run. What `EXEC` will
/// refuse to run is not kept, so that it takes no memory.
#[cold]
fn enqueue<E: Enter>(
    executor: &mut Executor<'_, '_, E>,
    id: CommandId,
    command: &'static Command,
    args: &ArgumentView<'_>,
) -> Result<Admitted, CommandError> {
    if runs_in_multi(command) {
        return Ok(Admitted::Run(id, command));
    }
    if executor.waits_for_pause((id, command), args) {
        return Ok(Admitted::Waiting(WaitTarget::Pause));
    }
    if executor.session.is_transaction_refused() {
        return Ok(Admitted::Queued);
    }
    let transaction =
        executor.session.transaction.as_mut().expect("the caller saw an open transaction");
    if transaction.try_queue(id, args).is_none() {
        executor.session.abort_transaction();
        count_rejected(executor, id);
        return Err(CommandError::NoMemory(request_bytes(args) as u64));
    }
    if command.name == "select"
        && let Ok(index) = database(args.get(1), executor.shared.keyspace.database_count())
    {
        transaction.database = index;
    }
    executor.session.show_transaction();
    Ok(Admitted::Queued)
}

#[cold]
fn unknown_command(args: &ArgumentView<'_>) -> CommandError {
    let mut text = b"ERR unknown command '".to_vec();
    let name = until_nul(args.get(0));
    text.extend_from_slice(&name[..name.len().min(QUOTED_BYTES_MAX)]);
    text.extend_from_slice(b"', with args beginning with: ");
    let mut quoted = 0;
    for argument in args.iter().skip(1) {
        if quoted >= QUOTED_BYTES_MAX {
            break;
        }
        let argument = until_nul(argument);
        let shown = &argument[..argument.len().min(QUOTED_BYTES_MAX - quoted)];
        text.push(b'\'');
        text.extend_from_slice(shown);
        text.extend_from_slice(b"' ");
        quoted += shown.len() + 3;
    }
    CommandError::Bytes(text)
}

#[cold]
fn unknown_subcommand(args: &ArgumentView<'_>) -> CommandError {
    let sub = args.get(1);
    let shown = &sub[..sub.len().min(QUOTED_BYTES_MAX)];
    // The name by which it is called, which `rename-command` may have changed.
    let container = args.get(0).to_ascii_uppercase();
    let after = format!("'. Try {} HELP.", String::from_utf8_lossy(&container));
    CommandError::quoting("ERR unknown subcommand '", shown, &after)
}

/// Answer of a command whose subcommand is missing or unknown.
pub(crate) fn container_error(command: &Command, args: &ArgumentView<'_>) -> CommandError {
    debug_assert!(!command.subcommands.is_empty());
    if args.len() < 2 { CommandError::Arity(command.name.into()) } else { unknown_subcommand(args) }
}
