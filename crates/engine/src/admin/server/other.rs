//! Small commands about the server.

use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;

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

/// The client as the log names it: without what its user chose, which may be a secret or a line
/// end.
fn origin(cx: &SessionCx<'_, '_>) -> String {
    let client = &cx.session.client;
    format!(
        "id={} addr={} laddr={} fd={}",
        client.id, client.address, client.local_address, client.descriptor
    )
}

/// There is nothing that `NOW`, `FORCE` and `SAFE` would change: no replica to wait for, no save,
/// no slots.
pub(super) fn shutdown(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let options: Vec<&[u8]> = cx.args.iter().skip(1).collect();
    let says = |word| options.iter().any(|option| is(option, word));
    let is_known = options.iter().all(|option| {
        ["NOSAVE", "SAVE", "NOW", "FORCE", "SAFE", "FAILOVER", "ABORT"]
            .iter()
            .any(|word| is(option, word))
    });
    let aborts_only = options.iter().all(|option| is(option, "ABORT"));
    if !is_known || (says("SAVE") && says("NOSAVE")) || (says("ABORT") && !aborts_only) {
        return Err(CommandError::Syntax.into());
    }
    if says("FAILOVER") {
        return Err("ERR SHUTDOWN FAILOVER is only supported in cluster mode.".into());
    }
    if says("ABORT") {
        return Err("ERR No shutdown in progress.".into());
    }
    if says("SAVE") {
        return Err("ERR Errors trying to SHUTDOWN. Check logs.".into());
    }
    cx.shared.host.shut_down(&origin(cx));
    cx.session.close_after_reply = true;
    Ok(())
}
