//! `BITOP`.

use tidemill_store::value::text::Chunk;
use tidemill_store::{EntryRef, Kind, StringValue};

use crate::command::Outcome;
use crate::commands::options::is;
use crate::commands::string::{new_raw_string, pieces};
use crate::commit::{Event, EventClass};
use crate::context::Cx;
use crate::error::CommandError;
use crate::memory;

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

    /// Combines what is there with as much of another operand.
    fn apply(self, into: &mut [u8], other: &[u8]) {
        match self {
            Operation::And => combine(into, other, |left, right| left & right),
            Operation::Or => combine(into, other, |left, right| left | right),
            Operation::Xor => combine(into, other, |left, right| left ^ right),
            Operation::Not => combine(into, other, |_, right| !right),
        }
    }

    /// As [`Operation::apply`] with so many zeros, or with what lies beyond the end of an operand.
    fn apply_zeros(self, into: &mut [u8]) {
        match self {
            Operation::And => into.fill(0),
            Operation::Or | Operation::Xor => {}
            Operation::Not => into.fill(0xff),
        }
    }
}

/// Combines two slices of the same length, word by word. A closure per operation, so that each has a loop of its own, which
/// the compiler turns into vector instructions.
fn combine(into: &mut [u8], other: &[u8], operation: impl Fn(u64, u64) -> u64) {
    let (words, rest) = into.as_chunks_mut::<8>();
    let (other_words, other_rest) = other.as_chunks::<8>();
    for (word, other) in words.iter_mut().zip(other_words) {
        *word = operation(u64::from_ne_bytes(*word), u64::from_ne_bytes(*other)).to_ne_bytes();
    }
    for (byte, other) in rest.iter_mut().zip(other_rest) {
        *byte = operation(u64::from(*byte), u64::from(*other)) as u8;
    }
}

/// Combines the result so far with an operand.
fn add(operation: Operation, result: &mut [u8], operand: Option<StringValue<'_>>) {
    let mut rest = result;
    for piece in operand.into_iter().flat_map(|value| pieces(value, 0..value.len())) {
        let (here, behind) = rest.split_at_mut(piece.len() as usize);
        match piece {
            Chunk::Bytes(bytes) => operation.apply(here, bytes),
            Chunk::Zeros(_) => operation.apply_zeros(here),
        }
        rest = behind;
    }
    // Beyond its end an operand has zeros.
    operation.apply_zeros(rest);
}

pub(super) fn bitop(cx: &mut Cx<'_, '_>) -> Outcome {
    let operation = Operation::parse(cx.arg(1))?;
    let target = cx.arg(2);
    let args = cx.args;
    if operation == Operation::Not && args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut operands = memory::with_capacity(args.len() - 3)?;
    for key in args.iter().skip(3) {
        let entry = cx.edit(key).counted().entry_of(Kind::String)?;
        operands.push(entry.and_then(EntryRef::string));
    }
    let length = operands.iter().flatten().map(|value| value.len()).max().unwrap_or(0);
    let result = result(operation, &operands, length)?;
    let edit = cx.edit(target);
    if length == 0 {
        edit.remove(Event::new(EventClass::GENERIC, "del"));
    } else {
        edit.put(new_raw_string(&result), Event::new(EventClass::STRING, "set"));
    }
    cx.reply.integer(length as i64);
    Ok(())
}

/// The operands combined, with the length of the longest.
fn result(
    operation: Operation,
    operands: &[Option<StringValue<'_>>],
    length: u64,
) -> Result<Vec<u8>, CommandError> {
    let length = length as usize;
    if operation == Operation::Not {
        let mut result = memory::zeros(length)?;
        add(operation, &mut result, operands[0]);
        return Ok(result);
    }
    let mut result = memory::with_capacity(length)?;
    let (first, others) = operands.split_first().expect("the arity demands an operand");
    for piece in first.iter().flat_map(|value| pieces(*value, 0..value.len())) {
        match piece {
            Chunk::Bytes(bytes) => result.extend_from_slice(bytes),
            Chunk::Zeros(count) => result.resize(result.len() + count as usize, 0),
        }
    }
    result.resize(length, 0);
    others.iter().for_each(|operand| add(operation, &mut result, *operand));
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_the_bytes_behind_them_are_combined_alike() {
        for length in [0, 1, 7, 8, 9, 31, 64, 65] {
            let left: Vec<u8> = (0..length).map(|index| (index * 37 + 11) as u8).collect();
            let right: Vec<u8> = (0..length).map(|index| (index * 101 + 5) as u8).collect();
            let expected = |operation: fn(u8, u8) -> u8| -> Vec<u8> {
                left.iter().zip(&right).map(|(left, right)| operation(*left, *right)).collect()
            };
            for (operation, expected) in [
                (Operation::And, expected(|left, right| left & right)),
                (Operation::Or, expected(|left, right| left | right)),
                (Operation::Xor, expected(|left, right| left ^ right)),
                (Operation::Not, expected(|_, right| !right)),
            ] {
                let mut into = left.clone();
                operation.apply(&mut into, &right);
                assert_eq!(into, expected, "{length} bytes");
            }
        }
    }
}
