//! Sorted sets that take the place of whatever is under a key.

use tidemill_store::value::sorted_set::{Item, SortedSet, sort};

use super::encoding::encoding;
use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::limits::ELEMENT_OVERHEAD_BYTES;

/// Puts a sorted set of distinct members under a key and answers their number; without members
/// there will be no key.
pub(in crate::handlers) fn store(
    cx: &mut Cx<'_, '_>,
    target: &[u8],
    mut items: Vec<Item<'_>>,
    is_skiplist: bool,
    event: &'static str,
) -> Outcome {
    sort(&mut items);
    cx.lock_for_result()?;
    if items.is_empty() {
        cx.edit(target).remove(Event::new(EventClass::GENERIC, "del"));
    } else {
        let bytes = items.iter().map(|item| item.member.len() as u64 + ELEMENT_OVERHEAD_BYTES);
        // Once for the tree by member, once for the one by score; a node has more than it holds.
        cx.room().check(bytes.sum::<u64>() * 5 / 2)?;
        let event = Event::new(EventClass::SORTED_SET, event);
        cx.edit(target).put_as::<SortedSet<'_>>(encoding(is_skiplist), event, |set| {
            set.fill(&mut items);
        });
    }
    cx.reply.integer(items.len() as i64);
    Ok(())
}
