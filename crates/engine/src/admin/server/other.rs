//! Small commands about the server.

use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;

pub(super) fn time(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let begun_us = cx.worker.now_us();
    let threshold_us = cx.worker.settings.busy_reply.after_us;
    // A script that waits for the time to pass ends, as in Valkey.
    let takes_long =
        || threshold_us > 0 && cx.shared.clock.unix_us().saturating_sub(begun_us) >= threshold_us;
    let now_us = match cx.in_transaction && !takes_long() {
        // One moment for all of it.
        true => begun_us.saturating_sub(cx.worker.ahead_ms() * 1_000),
        false => cx.shared.clock.wall_us(),
    };
    cx.reply.array(2);
    cx.reply.bulk((now_us / 1_000_000).to_string());
    cx.reply.bulk((now_us % 1_000_000).to_string());
    Ok(())
}
