//! Notes about what is denied: statistics and an entry of `ACL LOG`.

use crate::acl::{Context, Denial, Denied, LogEntry, Reason};
use crate::admin::connection::describe;
use crate::command::{Command, CommandId};
use crate::shared::Shared;
use crate::shared::clients::Client;
use crate::worker::Worker;
use tidemill_resp::request::ArgumentView;

/// Notes that a user may not call a command with its arguments. `is_called` if the client has
/// called it, and no script or transaction of the client.
#[cold]
pub(crate) fn note(
    (shared, worker): (&Shared, &Worker),
    (client, is_called): (&Client, bool),
    user: &[u8],
    (id, args): (CommandId, &ArgumentView<'_>),
    (denial, context): (Denial, Context),
) {
    count_denials((shared, worker), Denied::Call(denial.reason), 1);
    if is_called {
        client.show_command(id);
    }
    let entry = denial_entry((shared, worker), (client, user), (id, args), (denial, context));
    log_denial((shared, worker), entry);
}

/// Counts denials of one kind.
pub(crate) fn count_denials((shared, worker): (&Shared, &Worker), denied: Denied, count: u64) {
    let stats = worker.stats(shared);
    let counter = match denied {
        Denied::Authentication => &stats.denied_authentications,
        Denied::Certificate => &stats.denied_certificates,
        Denied::Call(Reason::Command) => &stats.denied_commands,
        Denied::Call(Reason::Key) => &stats.denied_keys,
        Denied::Call(Reason::Channel) => &stats.denied_channels,
        Denied::Call(Reason::Database) => &stats.denied_databases,
    };
    counter.add(count);
}

/// Entry about a user who may not call a command with its arguments.
pub(crate) fn denial_entry(
    by: (&Shared, &Worker),
    (client, user): (&Client, &[u8]),
    (id, args): (CommandId, &ArgumentView<'_>),
    (denial, context): (Denial, Context),
) -> LogEntry {
    let object = match denial.argument {
        0 => by.0.commands.command(id).name.as_bytes(),
        argument => args.get(argument),
    };
    new_entry(by, client, (Denied::Call(denial.reason), context), (object, user))
}

/// Adds an entry to the log, or counts it with an earlier one.
pub(crate) fn log_denial((shared, worker): (&Shared, &Worker), entry: LogEntry) {
    shared.acl_log.add(worker.settings.acl_log_entries_max, entry);
}

/// Notes that a name and a password were wrong.
#[cold]
pub(in crate::admin) fn note_authentication(
    (shared, worker): (&Shared, &Worker),
    client: &Client,
    command: &'static Command,
    context: Context,
    (object, user): (&[u8], &[u8]),
) {
    count_denials((shared, worker), Denied::Authentication, 1);
    if let Some(id) = shared.commands.find_full(command.name.as_bytes()) {
        client.show_command(id);
    }
    let what = (Denied::Authentication, context);
    log_denial((shared, worker), new_entry((shared, worker), client, what, (object, user)));
}

/// Notes that the certificate of a client names no enabled user.
#[cold]
pub(super) fn note_certificate(shared: &Shared, worker: &Worker, client: &Client, user: &[u8]) {
    count_denials((shared, worker), Denied::Certificate, 1);
    let what = (Denied::Certificate, Context::TopLevel);
    log_denial((shared, worker), new_entry((shared, worker), client, what, (b"", user)));
}

fn new_entry(
    (shared, worker): (&Shared, &Worker),
    client: &Client,
    what: (Denied, Context),
    (object, user): (&[u8], &[u8]),
) -> LogEntry {
    let now_ms = worker.now_ms();
    // Without memory for it, nothing is told of the client.
    let client = describe(shared, client, now_ms).unwrap_or_default();
    LogEntry::new(what, object, user, client, now_ms)
}
