//! Waiting for keys: the timeout, and the wait.

use std::ops::Range;

use tidemill_resp::number::{parse_integer, parse_long_double};
use tidemill_store::Kind;

use super::context::Cx;
use super::outcome::{Outcome, Stop};
use crate::blocking::{Answers, Block, TimeoutReply};
use crate::command::{Flags, KeyPositions};
use crate::error::CommandError;

/// Waits until one of the keys at some positions is of a kind, or answers null where waiting is not
/// allowed.
pub(crate) fn wait(
    cx: &mut Cx<'_, '_>,
    (kind, keys): (Kind, Range<usize>),
    also: &[usize],
    timeout_us: u64,
    on_timeout: TimeoutReply,
) -> Outcome {
    if !cx.may_block() {
        on_timeout.write(cx.reply, None);
        return Ok(());
    }
    Err(Box::new(Stop::Block(Block {
        keys: keys.collect(),
        also: KeyPositions::from_slice(also),
        kind,
        answers: None,
        ends_without_key: false,
        fixed_arguments: Vec::new(),
        timeout_us,
        on_timeout,
    })))
}

/// Waits until `answers` tells that one of the streams at some positions has something, or answers
/// null where waiting is not allowed.
///
/// A reply has something of each stream that has, so that all their slots are needed to serve.
pub(crate) fn wait_for_streams(
    cx: &mut Cx<'_, '_>,
    keys: Range<usize>,
    timeout_ms: u64,
    answers: Answers,
    fixed_arguments: Vec<(usize, Vec<u8>)>,
) -> Outcome {
    if !cx.may_block() {
        cx.reply.null_array();
        return Ok(());
    }
    let also = if keys.len() > 1 { keys.clone().collect() } else { KeyPositions::new() };
    Err(Box::new(Stop::Block(Block {
        keys: keys.collect(),
        also,
        kind: Kind::Stream,
        answers: Some(answers),
        ends_without_key: cx.command.flags.contains(Flags::WRITE),
        fixed_arguments,
        timeout_us: timeout_ms.saturating_mul(1000),
        on_timeout: TimeoutReply::NullArray,
    })))
}

/// A timeout in milliseconds; 0 is for ever.
pub(crate) fn timeout_ms(cx: &Cx<'_, '_>, argument: &[u8]) -> Result<u64, CommandError> {
    let ms = parse_integer(argument)
        .ok_or(CommandError::from("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| CommandError::from("ERR timeout is negative"))?;
    match i64::try_from(cx.now_ms().saturating_add(ms)) {
        Ok(_) => Ok(ms),
        Err(_) => Err("ERR timeout is out of range".into()),
    }
}

/// A timeout in seconds, as microseconds; 0 is for ever.
pub(crate) fn timeout_us(cx: &Cx<'_, '_>, argument: &[u8]) -> Result<u64, CommandError> {
    // Valkey computes in long doubles, waits whole milliseconds, rounded up, and refuses a time
    // that its clock cannot show. A whole number of seconds, the usual one, does without them.
    let milliseconds = match parse_integer(argument) {
        Some(seconds) => seconds.saturating_mul(1000),
        None => {
            let seconds = parse_long_double(argument)
                .ok_or(CommandError::from("ERR timeout is not a float or out of range"))?;
            seconds.times_rounded_up(1000)
        }
    };
    let milliseconds =
        u64::try_from(milliseconds).map_err(|_| CommandError::from("ERR timeout is negative"))?;
    if milliseconds > i64::MAX as u64 - cx.now_ms() {
        return Err("ERR timeout is out of range".into());
    }
    Ok(milliseconds.saturating_mul(1000))
}
