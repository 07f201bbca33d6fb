//! Adding elements at the ends.

use tidemill_store::value::list::List;
use tidemill_store::{EntryRef, Kind};

use super::encoding::{Limit, after_addition};
use super::look::End;
use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;

/// `LPUSH`, `RPUSH`, `LPUSHX` and `RPUSHX`.
pub(super) fn push(cx: &mut Cx<'_, '_>) -> Outcome {
    let name = cx.command.name;
    let end = if name.starts_with('l') { End::Front } else { End::Back };
    let args = cx.args;
    let key = cx.arg(1);
    if name.ends_with('x') && cx.edit(key).entry_of(Kind::List)?.is_none() {
        cx.reply.integer(0);
        return Ok(());
    }
    let length = push_elements(cx, key, end, || args.iter().skip(2))?;
    cx.reply.integer(length as i64);
    Ok(())
}

/// Adds elements one after the other at an end of the list under `key`, and returns its length.
pub(super) fn push_elements<'e, I: Iterator<Item = &'e [u8]>>(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    end: End,
    elements: impl Fn() -> I,
) -> Result<u64, CommandError> {
    let limit = Limit::of_setting(cx.settings().list_listpack_size_max);
    let edit = cx.edit(key);
    let list = edit.read_as::<List<'_>>()?;
    let old = edit.entry().map(EntryRef::encoding);
    let added =
        elements().fold((0, 0), |(count, bytes), next| (count + 1, bytes + next.len() as u64));
    let encoding = after_addition(old, list, added, limit);
    let name = match end {
        End::Front => "lpush",
        End::Back => "rpush",
    };
    let length = edit.change::<List<'_>, _>(Event::new(EventClass::LIST, name), |list| {
        for element in elements() {
            match end {
                End::Front => list.push_front(element),
                End::Back => list.push_back(element),
            }
        }
        Ok(Some((encoding, list.len())))
    })?;
    cx.count_changes(added.0);
    Ok(length.unwrap_or(0))
}
