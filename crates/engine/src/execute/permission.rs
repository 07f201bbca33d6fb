//! Permission to call a command, by the rules of the session's user. Asked before it is queued, and
//! again before it runs: by itself, in `EXEC`, and when a blocked client is served.

use tidemill_resp::request::ArgumentView;

use super::executor::Executor;
use crate::acl::{Call, Context, Denial, User};
use crate::admin::acl::note_denial;
use crate::command::{CommandId, Flags};
use crate::shared::Shared;
use crate::slots::waiter::Waiter;
use crate::worker::Worker;

/// Judges a call of a session whose user may not do everything.
///
/// # Errors
///
/// The denial; it is noted.
#[inline(never)]
pub(super) fn check<E>(
    executor: &mut Executor<'_, '_, E>,
    (id, args): (CommandId, &ArgumentView<'_>),
    context: Context,
) -> Result<(), Denial> {
    let judged = judge(executor, (id, args));
    if let Err(denial) = judged {
        let session = &*executor.session;
        let is_called = context == Context::TopLevel || session.transaction.is_some();
        note_denial(
            (executor.shared, executor.worker),
            (&session.client, is_called),
            session.user().name(),
            (id, args),
            (denial, context),
        );
    }
    judged
}

/// As [`check`], for who notes a denial itself.
///
/// # Errors
///
/// The denial.
#[inline(never)]
pub(super) fn judge<E>(
    executor: &mut Executor<'_, '_, E>,
    (id, args): (CommandId, &ArgumentView<'_>),
) -> Result<(), Denial> {
    let shared = executor.shared;
    let command = shared.commands.command(id);
    let (session, database_count) = (&mut *executor.session, shared.keyspace.database_count());
    let queue = session.transaction.as_ref();
    let database = queue.map_or(session.database, |transaction| transaction.database);
    let call = Call::new((id, command), args, database, database_count);
    let checked = session.user().check(&call);
    if command.flags.contains(Flags::DISCOVERS_KEYS) {
        session.may_discover_keys = session.user().may_discover_keys(&call);
    }
    checked
}

/// True if a session's user may call a command; a denial is not noted.
pub(super) fn may_call<E>(
    executor: &Executor<'_, '_, E>,
    (id, args): (CommandId, &ArgumentView<'_>),
) -> bool {
    let (shared, session) = (executor.shared, &*executor.session);
    let command = shared.commands.command(id);
    let call = Call::new((id, command), args, session.database, shared.keyspace.database_count());
    session.is_unrestricted || session.user().check(&call).is_ok()
}

/// Judges the call of a blocked client that is about to be served: its user may have changed since.
///
/// # Errors
///
/// The denial and the user; it is noted.
pub(super) fn check_waiter(
    shared: &Shared,
    worker: &Worker,
    id: CommandId,
    waiter: &Waiter,
) -> Result<(), (Denial, std::sync::Arc<User>)> {
    let user = waiter.account.user();
    if user.is_unrestricted() {
        return Ok(());
    }
    let args = waiter.arguments.view();
    let database_count = shared.keyspace.database_count();
    let call = Call::new((id, waiter.command), &args, waiter.database, database_count);
    let Err(denial) = user.check(&call) else { return Ok(()) };
    if let Some(client) = shared.clients.find(waiter.session) {
        let what = (denial, Context::TopLevel);
        note_denial((shared, worker), (&client, true), user.name(), (id, &args), what);
    }
    Err((denial, user))
}
