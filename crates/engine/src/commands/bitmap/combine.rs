//! `BITOP`.

use tidemill_store::Kind;

use crate::command::Outcome;
use crate::commands::options::is;
use crate::commands::string::new_raw_string;
use crate::commit::{Event, EventClass};
use crate::context::Cx;
use crate::error::CommandError;
use crate::reply;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(argument: &[u8]) -> Result<Operation, CommandError> {
        match () {
            () if is(argument, "AND") => Ok(Operation::And),
            () if is(argument, "OR") => Ok(Operation::Or),
            () if is(argument, "XOR") => Ok(Operation::Xor),
            () if is(argument, "NOT") => Ok(Operation::Not),
            () => Err(CommandError::Syntax),
        }
    }

    fn apply(self, into: &mut [u8], other: &[u8]) {
        // Beyond its end an operand has zeros.
        let (shared, beyond) = into.split_at_mut(other.len());
        for (byte, other) in shared.iter_mut().zip(other) {
            match self {
                Operation::And => *byte &= other,
                Operation::Or => *byte |= other,
                Operation::Xor => *byte ^= other,
                Operation::Not => {}
            }
        }
        if self == Operation::And {
            beyond.fill(0);
        }
    }
}

pub(super) fn bitop(cx: &mut Cx<'_, '_>) -> Outcome {
    let operation = Operation::parse(cx.arg(1))?;
    let target = cx.arg(2);
    let args = cx.args;
    if operation == Operation::Not && args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut operands = Vec::with_capacity(args.len() - 3);
    for key in args.iter().skip(3) {
        let entry = cx.edit(key).counted().entry_of(Kind::String)?;
        operands
            .push(entry.and_then(|entry| entry.string()).map_or_else(Vec::new, reply::to_bytes));
    }
    let length = operands.iter().map(Vec::len).max().unwrap_or(0);
    let mut operands = operands.into_iter();
    let mut result = operands.next().unwrap_or_default();
    result.resize(length, 0);
    if operation == Operation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    operands.for_each(|operand| operation.apply(&mut result, &operand));
    let edit = cx.edit(target);
    if length == 0 {
        edit.remove(Event::new(EventClass::GENERIC, "del"));
    } else {
        edit.put(new_raw_string(&result), Event::new(EventClass::STRING, "set"));
    }
    cx.reply.integer(length as i64);
    Ok(())
}
