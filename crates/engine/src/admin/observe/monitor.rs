//! `MONITOR`.

use std::sync::atomic::Ordering;

use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;

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
        cx.shared.monitors.add(client);
        cx.reply.ok();
    }
    Ok(())
}
