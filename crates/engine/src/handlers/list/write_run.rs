//! Pushes and pops in a run.

use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::{Encoding, EntryRef, Kind};

use super::encoding::{Limit, after_addition_to, when_smaller};
use super::look::End;
use crate::access::context::Cx;
use crate::access::write_run::{RunCall, WriteRun};
use crate::commit::Event;
use crate::limits::RUN_ELEMENT_BYTES_MAX;

/// `LPUSH`, `RPUSH`, `LPUSHX`, `RPUSHX`, `LPOP` and `RPOP` of one element.
pub(super) fn push_and_pop(cx: &mut Cx<'_, '_>, run: &mut WriteRun<'_>) {
    let limit = Limit::of_setting(cx.settings().list_listpack_size_max);
    let edit = cx.edit(run.key());
    if edit.entry_of(Kind::List).is_err() {
        return;
    }
    let mut encoding = edit.entry().map(EntryRef::encoding);
    let published = edit.change::<List<'_>, ()>(Event::SILENT, |list| {
        while let Some(call) = run.next_call()
            && let Some(after) = carry_out(call, run, (list, encoding), limit)
        {
            encoding = Some(after);
            if list.is_empty() {
                // The list that a later push makes has no expiry, and an encoding of its own.
                break;
            }
        }
        Ok(encoding.filter(|_| run.has_begun()).map(|encoding| (encoding, ())))
    });
    debug_assert!(published.is_ok(), "a run makes no error");
}

/// Applies a command to a list with an encoding, none of a new one, and returns the encoding
/// afterwards; none of a command that is not for a run.
fn carry_out(
    call: RunCall<'_>,
    run: &mut WriteRun<'_>,
    (list, encoding): (&mut ListEdit<'_>, Option<Encoding>),
    limit: Limit,
) -> Option<Encoding> {
    match (call.command.name, encoding) {
        ("lpush", _) | ("lpushx", Some(_)) => {
            Some(push(call, run, (list, encoding), (End::Front, limit)))
        }
        ("rpush", _) | ("rpushx", Some(_)) => {
            Some(push(call, run, (list, encoding), (End::Back, limit)))
        }
        ("lpop", Some(old)) => pop(call, run, (list, old), (End::Front, limit)),
        ("rpop", Some(old)) => pop(call, run, (list, old), (End::Back, limit)),
        _ => None,
    }
}

fn push(
    call: RunCall<'_>,
    run: &mut WriteRun<'_>,
    (list, old): (&mut ListEdit<'_>, Option<Encoding>),
    (end, limit): (End, Limit),
) -> Encoding {
    let elements = call.args.iter().skip(2);
    let added = elements
        .clone()
        .fold((0, 0), |(count, bytes), next| (count + 1, bytes + next.len() as u64));
    let encoding = after_addition_to(old, list, added, limit);
    for element in elements {
        match end {
            End::Front => list.push_front(element),
            End::Back => list.push_back(element),
        }
    }
    run.reply.integer(list.len() as i64);
    run.end_call(added.0);
    encoding
}

fn pop(
    call: RunCall<'_>,
    run: &mut WriteRun<'_>,
    (list, old): (&mut ListEdit<'_>, Encoding),
    (end, limit): (End, Limit),
) -> Option<Encoding> {
    if call.args.len() != 2 {
        return None;
    }
    let index = match end {
        End::Front => 0,
        End::Back => list.len() - 1,
    };
    let element = list.get(index).filter(|element| element.len() <= RUN_ELEMENT_BYTES_MAX)?;
    run.reply.bulk(element);
    list.remove(index);
    run.end_call(1);
    Some(match old {
        Encoding::Listpack => Encoding::Listpack,
        _ => when_smaller(list, limit),
    })
}
