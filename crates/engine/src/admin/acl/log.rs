//! `ACL LOG`.

use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::acl::LogEntry;
use crate::error::CommandError;

/// Entries that are answered unasked.
const ENTRIES: usize = 10;

pub(super) fn log(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let count = match cx.args.len() {
        2 => ENTRIES,
        3 if is(cx.arg(2), "RESET") => {
            cx.shared.acl_log.reset();
            cx.reply.ok();
            return Ok(());
        }
        3 => usize::try_from(integer(cx.arg(2))?).unwrap_or(0),
        _ => return Err(CommandError::subcommand_syntax("ACL", cx.arg(1)).into()),
    };
    let entries = cx.shared.acl_log.latest(count);
    cx.reply.array(entries.len());
    entries.iter().for_each(|entry| reply_entry(cx, entry));
    Ok(())
}

fn reply_entry(cx: &mut SessionCx<'_, '_>, entry: &LogEntry) {
    let age_s = cx.worker.now_ms().saturating_sub(entry.updated_ms) as f64 / 1000.0;
    let reply = &mut *cx.reply;
    reply.map(10);
    reply.bulk("count");
    reply.integer(entry.count as i64);
    reply.bulk("reason");
    reply.bulk(entry.denied.name());
    reply.bulk("context");
    reply.bulk(entry.context.name());
    reply.bulk("object");
    reply.bulk(&entry.object);
    reply.bulk("username");
    reply.bulk(&entry.user);
    reply.bulk("age-seconds");
    reply.double(age_s);
    reply.bulk("client-info");
    reply.bulk(&entry.client);
    reply.bulk("entry-id");
    reply.integer(entry.id as i64);
    reply.bulk("timestamp-created");
    reply.integer(entry.created_ms as i64);
    reply.bulk("timestamp-last-updated");
    reply.integer(entry.updated_ms as i64);
}
