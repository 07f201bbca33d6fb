//! `WAIT` and `WAITAOF`: there are no replicas. As in Valkey, the client waits for those that do
//! not exist until its timeout is over. For this server's log it waits until everything that was
//! journaled before is durable.

use tidemill_resp::number::parse_integer;
use tidemill_store::Kind;

use crate::access::context::Cx;
use crate::access::key_wait::timeout_ms;
use crate::access::options::integer;
use crate::access::outcome::{Outcome, Stop};
use crate::blocking::{Block, LogPosition, NO_LOG, TimeoutReply};
use crate::command::KeyPositions;

/// Answers at once if nobody is waited for, or nobody may wait.
fn wait_for(cx: &mut Cx<'_, '_>, is_satisfied: bool, ms: u64, reply: TimeoutReply) -> Outcome {
    if is_satisfied || !cx.may_block() {
        let durable = cx.log_position().map(|position| position.durable);
        reply.write(cx.reply, durable);
        return Ok(());
    }
    Err(Box::new(Stop::Block(Block {
        keys: KeyPositions::new(),
        also: KeyPositions::new(),
        kind: Kind::String,
        answers: None,
        ends_without_key: false,
        fixed_arguments: Vec::new(),
        timeout_us: ms.saturating_mul(1000),
        on_timeout: reply,
    })))
}

pub(super) fn wait(cx: &mut Cx<'_, '_>) -> Outcome {
    let replicas = integer(cx.arg(1))?;
    let ms = timeout_ms(cx, cx.arg(2))?;
    wait_for(cx, replicas <= 0, ms, TimeoutReply::Zero)
}

pub(super) fn waitaof(cx: &mut Cx<'_, '_>) -> Outcome {
    let local = integer(cx.arg(1))?;
    if !(0..=1).contains(&local) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    let replicas = parse_integer(cx.arg(2)).filter(|&replicas| replicas >= 0);
    let replicas = replicas.ok_or("ERR value is out of range, must be positive")?;
    let ms = timeout_ms(cx, cx.arg(3))?;
    let position = cx.log_position();
    if local > 0 && position.is_none() {
        return Err(NO_LOG.into());
    }
    let LogPosition { last, durable } = position.unwrap_or(LogPosition { last: 0, durable: 0 });
    let is_local_satisfied = local == 0 || durable >= last;
    let reply = TimeoutReply::Durable {
        record: last,
        is_local_wanted: local > 0,
        is_local_enough: replicas == 0,
    };
    wait_for(cx, replicas == 0 && is_local_satisfied, ms, reply)
}
