//! `MONITOR`.

use std::sync::atomic::Ordering;

use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::worker::session::ReplyMode;

pub(super) fn monitor(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.in_transaction {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    // As in Valkey, one that watches already is not answered.
    if !cx.session.is_monitor {
        cx.session.is_monitor = true;
        let client = &cx.session.client;
        // Relaxed: for others' information only.
        client.is_monitor.store(true, Ordering::Relaxed);
        // While it wants no replies it gets no lines either: see `reply_mode`.
        if cx.session.reply_mode != ReplyMode::Off {
            cx.shared.monitors.add(client);
        }
        cx.reply.ok();
    }
    Ok(())
}
