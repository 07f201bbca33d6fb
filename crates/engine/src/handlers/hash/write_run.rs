//! Fields that are changed in a run.

use super::change::{Change, change};
use super::write::incremented;
use crate::access::context::Cx;
use crate::access::options::integer;
use crate::access::write_run::{RunCall, WriteRun};
use crate::commit::Event;
use crate::limits::RUN_FIELDS_MAX;

/// `HSET`, `HINCRBY` and `HDEL`.
pub(super) fn change_fields(cx: &mut Cx<'_, '_>, run: &mut WriteRun<'_>) {
    let result = change(cx, run.key(), Event::SILENT, |hash| {
        while hash.len() <= RUN_FIELDS_MAX
            && let Some(call) = run.next_call()
            && let Some((reply, changes)) = carry_out(call, hash)
        {
            run.reply.integer(reply);
            run.end_call(changes);
            hash.end_command();
            if hash.len() == 0 {
                // The hash that a later command makes has no expiry, and an encoding of its own.
                break;
            }
        }
        Ok(())
    });
    // Of another type, or one for whose changes there is no memory: nothing was done.
    debug_assert!(result.is_ok() || !run.has_begun());
}

/// Applies a command; returns its reply and the number of changes. None of a command that is not
/// for a run.
fn carry_out(call: RunCall<'_>, hash: &mut Change<'_, '_>) -> Option<(i64, u64)> {
    let args = call.args;
    match call.command.name {
        "hset" if args.len().is_multiple_of(2) => {
            let pair_count = args.len() / 2 - 1;
            Some((hash.set_pairs(&args) as i64, pair_count as u64))
        }
        "hincrby" => {
            let amount = integer(args.get(3)).ok()?;
            Some((incremented(hash, args.get(2), amount).ok()?, 1))
        }
        "hdel" => {
            let removed = args.iter().skip(2).filter(|field| hash.remove(field)).count();
            Some((removed as i64, removed as u64))
        }
        _ => None,
    }
}
