//! Units of execution from outside: their end, and the commands within one.
//!
//! Everything that runs several commands as one calls [`run_inner`] for each under one [`Unit`] and
//! ends it by [`commit`]: `EXEC` does.

use tidemill_resp::request::ArgumentView;
use tidemill_store::Section;
use tidemill_store::gate::{ClosedGate, Seat};

use super::executor::Executor;
use super::{admit, serve};
use crate::access::context::{Access, Caller};
use crate::access::handler::Handler;
use crate::access::key_hashes::KeyHashes;
use crate::access::outcome::Stop;
use crate::access::section::{Enter, OpenSection};
use crate::access::session_context::SessionCx;
use crate::access::unit::Unit;
use crate::command::CommandId;
use crate::error::CommandError;
use crate::shared::Shared;
use crate::worker::Worker;

/// Ends a unit: what it has to tell is told, its record goes to the journal, blocked clients are
/// served by units of their own, the locks are given back, the replies of served clients are sent.
///
/// Does not block. To be called in a read section.
#[inline]
pub(crate) fn commit<'k>(
    shared: &'k Shared,
    worker: &mut Worker,
    mut unit: Unit<'k>,
    section: Section<'_>,
) {
    unit.deliver_messages(shared, worker);
    if unit.ready().is_some() {
        unit.succeed(shared, worker);
        unit = serve::serve_ready(shared, worker, unit, section);
    }
    let Some(served) = unit.release(shared, worker) else { return };
    if !served.is_empty() {
        worker.post_changes(shared);
        worker.publish_lookups(shared);
    }
    // Behind the records, so that a worker which sends nothing before the journal's tail is durable
    // holds these replies back too; and without the locks, which a wake-up need not prolong.
    for (owner, reply) in served {
        shared.mailboxes.post(owner, reply);
    }
}

/// Stops all other workers, for the holder of the token.
///
/// It waits for the longest command that is under way: nobody waits for the slots of the holder
/// within a command.
pub(crate) fn close_gate<'k>(shared: &'k Shared, seat: &Seat) -> ClosedGate<'k> {
    let gate = shared.keyspace.close_gate(seat, || false);
    gate.expect("the holder of the token alone closes the gate")
}

/// Runs one command under the locks of a unit. It has its reply then, that of the returned error
/// where it failed, which the caller counts. It can neither block nor wait, because the unit has
/// all its slots already.
///
/// `alone` is the closed gate where nobody else runs, without which a command on the whole keyspace
/// is no part of a unit. `known` are the hashes of keys that the caller has computed.
pub(crate) fn run_inner<'k, E: Enter>(
    executor: &mut Executor<'k, '_, E>,
    mut unit: Unit<'k>,
    (id, args): (CommandId, &ArgumentView<'_>),
    known: KeyHashes<'_>,
    alone: Option<&ClosedGate<'_>>,
) -> (Unit<'k>, Option<CommandError>) {
    let shared: &'k Shared = executor.shared;
    let command = shared.commands.command(id);
    let (database, before) = (executor.session.database, executor.reply.len());
    let (outcome, mut unit) = match executor.handlers.of(id) {
        Some(Handler::Keyed(handler)) => {
            executor.register_inner_reads(&mut unit, command, args);
            let guard = executor.reader.enter();
            let (worker, reply) = (&mut *executor.worker, &mut *executor.reply);
            let mut cx = Caller::client(shared, worker, reply, executor.session).calls(
                (command, args),
                guard.section(),
                Access::Locked(unit),
                known,
            );
            let outcome = handler(&mut cx);
            (outcome, cx.into_unit())
        }
        Some(Handler::Session(handler)) => {
            let mut cx = SessionCx {
                args: *args,
                reply: &mut *executor.reply,
                worker: &mut *executor.worker,
                session: &mut *executor.session,
                shared: executor.shared,
                reader: &mut *executor.reader,
                command,
                in_transaction: true,
                alone,
                unit: Some(&mut unit),
            };
            (handler(&mut cx), unit)
        }
        Some(Handler::Script(_)) => unreachable!("scripts call none, and EXEC runs them itself"),
        None => (Err(admit::container_error(command, args).into()), unit),
    };
    match unit.outbox() {
        Some(outbox) => outbox.misses(executor.worker),
        None => executor.worker.publish_misses(shared),
    }
    unit.end_command(shared, executor.worker, database, args);
    match outcome.map_err(|stop| *stop) {
        Ok(()) => (unit, None),
        Err(Stop::Error(error)) => {
            executor.take_back(&error, before);
            executor.write_error(&error);
            (unit, Some(error))
        }
        Err(stop) => unreachable!("a command within a unit neither blocks nor waits: {stop:?}"),
    }
}
