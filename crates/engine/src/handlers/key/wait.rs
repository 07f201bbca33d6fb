//! `WAIT` and `WAITAOF`: there are no replicas, so what they answer is known beforehand. As in
//! Valkey, the client waits for replicas that do not exist until its timeout is over.

use tidemill_resp::number::parse_integer;
use tidemill_store::Kind;

use crate::access::context::Cx;
use crate::access::key_wait::timeout_ms;
use crate::access::options::integer;
use crate::access::outcome::{Outcome, Stop};
use crate::blocking::{Block, TimeoutReply};
use crate::command::KeyPositions;
use crate::settings::LocalFile;

/// Answers at once if nobody is waited for, or nobody may wait.
fn wait_for(cx: &mut Cx<'_, '_>, is_satisfied: bool, ms: u64, reply: TimeoutReply) -> Outcome {
    if is_satisfied || !cx.may_block() {
        reply.write(cx.reply);
        return Ok(());
    }
    Err(Box::new(Stop::Block(Block {
        keys: KeyPositions::new(),
        also: KeyPositions::new(),
        kind: Kind::String,
        answers: None,
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
    let reply = match (local, cx.settings().local_file) {
        (1.., LocalFile::Absent) => {
            return Err("ERR WAITAOF cannot be used when numlocal is set but appendonly is \
                        disabled."
                .into());
        }
        (1.., LocalFile::Later) => {
            return Err("ERR WAITAOF with numlocal set is not supported unless appendfsync is \
                        always"
                .into());
        }
        // No reply leaves before the changes that came before it are durable.
        (_, LocalFile::BeforeReply) => TimeoutReply::OneAndZero,
        _ => TimeoutReply::TwoZeros,
    };
    wait_for(cx, replicas == 0, ms, reply)
}
