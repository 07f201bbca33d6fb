//! `BITOP`.

use std::cmp::Reverse;

use tidemill_store::limits::INLINE_VALUE_BYTES_MAX;
use tidemill_store::value::text::Chunk;
use tidemill_store::{EntryRef, Kind, NewValue, StringValue};

use crate::access::context::{Cx, NewEntry};
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::string::{new_raw_string, pieces};
use crate::memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Puts the first operand in the place of what is there, for NOT its complement.
    fn begin(self, into: &mut [u8], first: Chunk<'_>) {
        match (self, first) {
            (Operation::Not, Chunk::Bytes(bytes)) => combine(into, bytes, |_, right| !right),
            (Operation::Not, Chunk::Zeros(_)) => into.fill(0xff),
            (_, Chunk::Bytes(bytes)) => into.copy_from_slice(bytes),
            (_, Chunk::Zeros(_)) => into.fill(0),
        }
    }

    /// Combines what is there with as much of another operand. NOT has no other.
    fn apply(self, into: &mut [u8], other: Chunk<'_>) {
        match (self, other) {
            (Operation::And, Chunk::Bytes(bytes)) => {
                combine(into, bytes, |left, right| left & right)
            }
            (Operation::And, Chunk::Zeros(_)) => into.fill(0),
            (Operation::Or, Chunk::Bytes(bytes)) => {
                combine(into, bytes, |left, right| left | right)
            }
            (Operation::Xor, Chunk::Bytes(bytes)) => {
                combine(into, bytes, |left, right| left ^ right)
            }
            (Operation::Or | Operation::Xor, Chunk::Zeros(_)) | (Operation::Not, _) => {}
        }
    }
}

/// Combines two slices of the same length, word by word. A closure per operation, so that each has
/// a loop of its own, which the compiler turns into vector instructions.
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

/// Calls `add` for each piece of a block of the result, which begins at `start` in the whole, with
/// the same part of an operand.
fn add_part(
    start: u64,
    block: &mut [u8],
    operand: StringValue<'_>,
    add: impl Fn(&mut [u8], Chunk<'_>),
) {
    let block_bytes = block.len();
    let mut rest = block;
    for piece in part(operand, start, block_bytes) {
        let (here, behind) = rest.split_at_mut(piece.len() as usize);
        add(here, piece);
        rest = behind;
    }
    // Beyond its end an operand has zeros.
    let zeros = Chunk::Zeros(rest.len() as u64);
    add(rest, zeros);
}

/// The pieces of up to `length` bytes of a string from `start` on.
fn part(value: StringValue<'_>, start: u64, length: usize) -> impl Iterator<Item = Chunk<'_>> {
    let end = value.len().min(start + length as u64);
    pieces(value, start.min(end)..end)
}

pub(super) fn bitop(cx: &mut Cx<'_, '_>) -> Outcome {
    let operation = Operation::parse(cx.arg(1))?;
    let target = cx.arg(2);
    let args = cx.args;
    if operation == Operation::Not && args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut operands = memory::with_capacity(args.len() - 3)?;
    let mut is_any_missing = false;
    for key in args.iter().skip(3) {
        let entry = cx.edit(key).counted().entry_of(Kind::String)?;
        let operand = entry.and_then(EntryRef::string);
        is_any_missing |= operand.is_none();
        operands.extend(operand);
    }
    let mut blocks = Blocks::new(operation, operands, is_any_missing)?;
    let length = blocks.length;
    let event = Event::new(EventClass::STRING, "set");
    if length == 0 {
        cx.edit(target).remove(Event::new(EventClass::GENERIC, "del"));
    } else if length <= INLINE_VALUE_BYTES_MAX as u64 {
        let result = blocks.next().expect("the result has bytes, and no more than a block has");
        cx.edit(target).put(new_raw_string(result), event);
    } else {
        let mut result = memory::new_string(length as usize)?;
        while let Some(block) = blocks.next() {
            result.append(block);
        }
        let value = NewValue::Shared(result.finish());
        cx.edit(target).put(NewEntry { value, ..new_raw_string(&[]) }, event);
    }
    cx.reply.integer(length as i64);
    Ok(())
}

/// Bytes of the result that are made at a time, from all operands: as many as a core's first cache
/// keeps.
const BLOCK_BYTES: usize = 8192;

const _: () = assert!(INLINE_VALUE_BYTES_MAX <= BLOCK_BYTES, "a short result is one block");

/// The operands combined, with the length of the longest, block by block.
struct Blocks<'o> {
    operation: Operation,
    /// The longest first, so that what is beyond the end of many operands asks few.
    operands: Vec<StringValue<'o>>,
    /// The result.
    length: u64,
    /// From here on an operand has zeros.
    shortest_length: u64,
    start: u64,
    block: Vec<u8>,
}

impl<'o> Blocks<'o> {
    /// `is_any_missing`: one of the operands is a key that does not exist.
    fn new(
        operation: Operation,
        mut operands: Vec<StringValue<'o>>,
        is_any_missing: bool,
    ) -> Result<Self, CommandError> {
        operands.sort_unstable_by_key(|operand| Reverse(operand.len()));
        let length = operands.first().map_or(0, StringValue::len);
        let shortest_length =
            operands.last().filter(|_| !is_any_missing).map_or(0, StringValue::len);
        let block = memory::zeros(length.min(BLOCK_BYTES as u64) as usize)?;
        Ok(Self { operation, operands, length, shortest_length, start: 0, block })
    }

    /// The next block; it stays as it is until the one after it is asked for.
    fn next(&mut self) -> Option<&[u8]> {
        let start = self.start;
        let block_bytes = (self.length - start).min(BLOCK_BYTES as u64);
        let (longest, others) = self.operands.split_first().filter(|_| block_bytes > 0)?;
        self.start += block_bytes;
        let block = &mut self.block[..block_bytes as usize];
        let operation = self.operation;
        if operation == Operation::And && self.shortest_length <= start {
            block.fill(0);
            return Some(block);
        }
        add_part(start, block, *longest, |into, first| operation.begin(into, first));
        for operand in others.iter().take_while(|operand| operand.len() > start) {
            add_part(start, block, *operand, |into, other| operation.apply(into, other));
        }
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use tidemill_store::Heap;
    use tidemill_store::value::text::TextEdit;

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
            ] {
                let mut into = left.clone();
                operation.apply(&mut into, Chunk::Bytes(&right));
                assert_eq!(into, expected, "{length} bytes");
            }
            let mut into = left.clone();
            Operation::Not.begin(&mut into, Chunk::Bytes(&right));
            assert_eq!(into, expected(|_, right| !right), "{length} bytes");
        }
    }

    /// Lengths at and beside the ends of words, chunks and blocks.
    const LENGTHS: [usize; 17] =
        [1, 7, 8, 9, 63, 64, 65, 1007, 1008, 1009, 1024, 1025, 8191, 8192, 8193, 16_384, 20_003];

    /// Byte by byte, as the command is defined.
    fn expected(operation: Operation, operands: &[Option<&[u8]>]) -> Vec<u8> {
        let length = operands.iter().flatten().map(|bytes| bytes.len()).max().unwrap_or(0);
        let byte = |index: usize| {
            let bytes = operands.iter().map(|operand| {
                operand.and_then(|bytes| bytes.get(index)).copied().unwrap_or_default()
            });
            match operation {
                Operation::And => bytes.fold(0xff, |left, right| left & right),
                Operation::Or => bytes.fold(0, |left, right| left | right),
                Operation::Xor => bytes.fold(0, |left, right| left ^ right),
                Operation::Not => bytes.fold(0, |_, right| !right),
            }
        };
        (0..length).map(byte).collect()
    }

    fn combined(
        operation: Operation,
        operands: &[Option<StringValue<'_>>],
    ) -> Result<Vec<u8>, CommandError> {
        let is_any_missing = operands.iter().any(Option::is_none);
        let present = operands.iter().flatten().copied().collect();
        let mut blocks = Blocks::new(operation, present, is_any_missing)?;
        let mut result = Vec::new();
        while let Some(block) = blocks.next() {
            result.extend_from_slice(block);
        }
        Ok(result)
    }

    /// Bytes that differ in each place; `salt` tells operands apart.
    fn bytes(length: usize, salt: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 37 + (index >> 8) * 11 + salt * 101 + 5) as u8).collect()
    }

    fn check(operands: &[Option<&[u8]>], values: &[Option<StringValue<'_>>]) {
        let of_one: &[Operation] = if values.len() == 1 { &[Operation::Not] } else { &[] };
        for &operation in [Operation::And, Operation::Or, Operation::Xor].iter().chain(of_one) {
            let result = combined(operation, values).expect("there is memory");
            let lengths: Vec<_> = operands.iter().map(|operand| operand.map(<[u8]>::len)).collect();
            // Not `assert_eq`: nobody reads 20,000 bytes.
            assert!(result == expected(operation, operands), "{operation:?} of {lengths:?}");
        }
    }

    #[test]
    fn operands_of_any_length_and_alignment_are_combined() {
        let whole: Vec<Vec<u8>> = (0..3).map(|salt| bytes(20_003 + 8, salt)).collect();
        for (round, &first) in LENGTHS.iter().enumerate() {
            for &second in &LENGTHS {
                let third = LENGTHS[(round * 5 + 3) % LENGTHS.len()];
                // No operand begins where a word does, nor two alike.
                let operands = [
                    Some(&whole[0][1..=first]),
                    Some(&whole[1][3..3 + second]),
                    Some(&whole[2][6..6 + third]),
                ];
                let values = operands.map(|operand| operand.map(StringValue::Plain));
                for count in 1..=3 {
                    check(&operands[..count], &values[..count]);
                }
            }
        }
    }

    #[test]
    fn a_missing_operand_counts_as_zeros() {
        for length in LENGTHS {
            let present = bytes(length, 1);
            let value = Some(StringValue::Plain(&present));
            let present = Some(&present[..]);
            check(&[present, None], &[value, None]);
            check(&[None, present], &[None, value]);
            check(&[present, None, present], &[value, None, value]);
        }
        check(&[None, None], &[None, None]);
    }

    #[test]
    fn operands_in_chunks_and_runs_of_zeros_are_combined() {
        let heap = Heap::new();
        for (offset, length) in [(0, 1), (0, 8193), (5000, 20_003), (8191, 3), (19_000, 1003)] {
            let mut edit = TextEdit::create(&heap);
            let written = bytes(length, 2);
            edit.write(offset as u64, &written);
            let mut whole = vec![0; offset];
            whole.extend_from_slice(&written);
            let chunked = Some(StringValue::Chunks(edit.view().expect("it has bytes")));
            check(&[Some(&whole)], &[chunked]);
            for plain in LENGTHS {
                let plain = bytes(plain, 3);
                let value = Some(StringValue::Plain(&plain));
                check(&[Some(&whole), Some(&plain)], &[chunked, value]);
                check(&[Some(&plain), Some(&whole)], &[value, chunked]);
            }
        }
    }
}
