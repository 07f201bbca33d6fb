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
    let stats = worker.stats(shared);
    match denial.reason {
        Reason::Command => stats.denied_commands.add(1),
        Reason::Key => stats.denied_keys.add(1),
        Reason::Channel => stats.denied_channels.add(1),
        Reason::Database => stats.denied_databases.add(1),
    }
    let command = shared.commands.command(id);
    let object = match denial.argument {
        0 => command.name.as_bytes(),
        argument => args.get(argument),
    };
    if is_called {
        client.show_command(id);
    }
    add_entry((shared, worker), client, (Denied::Call(denial.reason), context), (object, user));
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
    worker.stats(shared).denied_authentications.add(1);
    if let Some(id) = shared.commands.find_full(command.name.as_bytes()) {
        client.show_command(id);
    }
    add_entry((shared, worker), client, (Denied::Authentication, context), (object, user));
}

/// Notes that the certificate of a client names no enabled user.
#[cold]
pub(super) fn note_certificate(shared: &Shared, worker: &Worker, client: &Client, user: &[u8]) {
    worker.stats(shared).denied_certificates.add(1);
    add_entry((shared, worker), client, (Denied::Certificate, Context::TopLevel), (b"", user));
}

fn add_entry(
    (shared, worker): (&Shared, &Worker),
    client: &Client,
    what: (Denied, Context),
    (object, user): (&[u8], &[u8]),
) {
    let now_ms = worker.now_ms();
    // Without memory for it, nothing is told of the client.
    let client = describe(shared, client, now_ms).unwrap_or_default();
    let entry = LogEntry::new(what, object, user, client, now_ms);
    shared.acl_log.add(worker.settings.acl_log_entries_max, entry);
}
