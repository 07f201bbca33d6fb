//! Deleting keys.

use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};

/// `DEL` and `UNLINK`: large values are freed in the background either way.
pub(super) fn del(cx: &mut Cx<'_, '_>) -> Outcome {
    let args = cx.args;
    let deleted = args
        .iter()
        .skip(1)
        .filter(|key| cx.edit(key).remove(Event::new(EventClass::GENERIC, "del")))
        .count();
    cx.reply.integer(deleted as i64);
    Ok(())
}
