//! Small commands about the server.

use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;

pub(super) fn time(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let now_us = match cx.in_transaction {
        // One moment for all of it.
        true => cx.worker.now_us().saturating_sub(cx.worker.ahead_ms() * 1_000),
        false => cx.shared.clock.wall_us(),
    };
    cx.reply.array(2);
    cx.reply.bulk((now_us / 1_000_000).to_string());
    cx.reply.bulk((now_us % 1_000_000).to_string());
    Ok(())
}
