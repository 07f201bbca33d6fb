//! Members that join and leave a set in a run.

use tidemill_store::value::set::{Set, SetEdit};
use tidemill_store::{Encoding, EntryRef, Kind};

use super::encoding::Thresholds;
use super::member::member_of;
use crate::access::context::Cx;
use crate::access::write_run::{RunCall, WriteRun};
use crate::commit::Event;

/// `SADD` and `SREM`.
pub(super) fn add_and_remove(cx: &mut Cx<'_, '_>, run: &mut WriteRun<'_>) {
    let thresholds = Thresholds::of(cx.settings());
    let room = cx.room();
    let edit = cx.edit(run.key());
    let Ok(old) = edit.entry_of(Kind::Set) else { return };
    let mut encoding = old.map(EntryRef::encoding);
    let mut changes = 0;
    let published = edit.change::<Set<'_>, ()>(Event::SILENT, |set| {
        while let Some(call) = run.next_call() {
            let count = call.args.len() as u64 - 2;
            if old.is_some_and(|entry| room.check_edit(entry, count).is_err()) {
                break;
            }
            let Some((after, changed)) = carry_out(call, (set, encoding), thresholds) else {
                break;
            };
            encoding = Some(after);
            changes += changed;
            run.reply.integer(changed as i64);
            run.end_call(changed);
            if set.is_empty() {
                // The set that a later command makes has no expiry, and an encoding of its own.
                break;
            }
        }
        Ok(encoding.filter(|_| changes > 0).map(|encoding| (encoding, ())))
    });
    debug_assert!(published.is_ok(), "a run makes no error");
    // Valkey makes room before it knows that no member is new.
    if changes == 0
        && let (Some(entry), Some(encoding)) = (old, encoding)
        && entry.encoding() != encoding
    {
        cx.edit(run.key()).set_encoding(encoding);
    }
}

/// Applies a command to a set with an encoding, none of a new one; returns the encoding afterwards
/// and the number of changes. None of a command that is not for a run.
fn carry_out(
    call: RunCall<'_>,
    (set, old): (&mut SetEdit<'_>, Option<Encoding>),
    thresholds: Thresholds,
) -> Option<(Encoding, u64)> {
    let count = call.args.len() as u64 - 2;
    let members = call.args.iter().skip(2).map(member_of);
    if call.command.name == "srem" {
        let removed = members.filter(|&member| set.remove(member)).count();
        return Some((old?, removed as u64));
    }
    let mut encoding = match old {
        Some(encoding) => thresholds.for_more(encoding, count),
        None => thresholds.for_new(member_of(call.args.get(2)), count),
    };
    let added = members.filter(|&member| thresholds.add(set, &mut encoding, member)).count();
    Some((encoding, added as u64))
}
