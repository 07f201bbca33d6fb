//! Counting and finding bits.

use tidemill_store::value::text::Chunk;
use tidemill_store::{StringValue, bits};

use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::handlers::string::pieces;

/// Range of a command: its range argument, in bits, both ends included.
struct BitRange {
    first: u64,
    last: u64,
}

/// The range from `start` to `end`, in bytes or bits, of a string; `None` when it is empty.
fn bit_range(start: i64, end: i64, in_bits: bool, length_bytes: u64) -> Option<BitRange> {
    let total = (if in_bits { length_bytes * 8 } else { length_bytes }) as i64;
    let from_end = |index: i64| {
        if index < 0 { index.saturating_add(total).max(0) } else { index }
    };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    if start > end {
        return None;
    }
    let (start, end) = (start as u64, end as u64);
    Some(if in_bits {
        BitRange { first: start, last: end }
    } else {
        BitRange { first: start * 8, last: end * 8 + 7 }
    })
}

/// True if the unit argument is `BIT`.
fn unit(cx: &Cx<'_, '_>, index: usize) -> Result<bool, CommandError> {
    if cx.args.len() <= index {
        return Ok(false);
    }
    match cx.arg(index) {
        unit if is(unit, "BIT") => Ok(true),
        unit if is(unit, "BYTE") => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

pub(super) fn bitcount(cx: &mut Cx<'_, '_>) -> Outcome {
    if cx.args.len() > 5 {
        return Err(CommandError::Syntax.into());
    }
    let start = if cx.args.len() > 2 { integer(cx.arg(2))? } else { 0 };
    let in_bits = unit(cx, 4)?;
    let end = if cx.args.len() > 3 { integer(cx.arg(3))? } else { -1 };
    let Some(value) = cx.read_string(cx.arg(1))? else {
        cx.reply.integer(0);
        return Ok(());
    };
    // Unlike for BITPOS, two ends before the beginning do not meet at the first byte.
    let is_crossed = start < 0 && end < 0 && start > end;
    let range = bit_range(start, end, in_bits, value.len()).filter(|_| !is_crossed);
    let count = range.map_or(0, |range| {
        let bytes = range.first / 8..range.last / 8 + 1;
        let whole: u64 = pieces(value, bytes.clone())
            .map(|piece| match piece {
                Chunk::Bytes(bytes) => bits::count_ones(bytes),
                Chunk::Zeros(_) => 0,
            })
            .sum();
        let first = super::bit::byte_at(Some(value), bytes.start);
        let last = super::bit::byte_at(Some(value), bytes.end - 1);
        let before = u16::from(first) & !(0xff >> (range.first % 8));
        let behind = u16::from(last) & (0xff >> (range.last % 8 + 1));
        whole - u64::from(before.count_ones()) - u64::from(behind.count_ones())
    });
    cx.reply.integer(count as i64);
    Ok(())
}

/// Position of the first byte that is not `byte`. Compares words: the part skipped is mostly long.
fn first_other(bytes: &[u8], byte: u8) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let skipped = words.iter().take_while(|word| **word == [byte; 8]).count() * 8;
    let rest = bytes[skipped..].iter().position(|other| *other != byte);
    rest.map(|at| skipped + at)
}

/// The first bit equal to `bit` of a range.
fn find_bit(value: StringValue<'_>, bit: u8, range: &BitRange) -> Option<u64> {
    let bytes = range.first / 8..range.last / 8 + 1;
    // Inverted where zeros are looked for, so that always the first one is.
    let flip = if bit == 1 { 0 } else { 0xff };
    let mut index = bytes.start;
    for piece in pieces(value, bytes) {
        match piece {
            Chunk::Zeros(count) if bit == 1 => index += count,
            Chunk::Zeros(count) => {
                let from = range.first.max(index * 8);
                if from < (index + count) * 8 {
                    return Some(from).filter(|found| *found <= range.last);
                }
                index += count;
            }
            Chunk::Bytes(bytes) => {
                let mut bytes = bytes;
                if index == range.first / 8
                    && let Some((&byte, behind)) = bytes.split_first()
                {
                    let candidates = (byte ^ flip) & 0xff >> (range.first % 8);
                    if candidates != 0 {
                        let found = index * 8 + u64::from(candidates.leading_zeros());
                        return Some(found).filter(|found| *found <= range.last);
                    }
                    (bytes, index) = (behind, index + 1);
                }
                if let Some(at) = first_other(bytes, flip) {
                    let candidates = bytes[at] ^ flip;
                    let found = (index + at as u64) * 8 + u64::from(candidates.leading_zeros());
                    return Some(found).filter(|found| *found <= range.last);
                }
                index += bytes.len() as u64;
            }
        }
    }
    None
}

pub(super) fn bitpos(cx: &mut Cx<'_, '_>) -> Outcome {
    let bit = match integer(cx.arg(2))? {
        bit @ (0 | 1) => bit as u8,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    if cx.args.len() > 6 {
        return Err(CommandError::Syntax.into());
    }
    let start = if cx.args.len() > 3 { integer(cx.arg(3))? } else { 0 };
    let has_end = cx.args.len() > 4;
    let in_bits = unit(cx, 5)?;
    let end = if has_end { integer(cx.arg(4))? } else { -1 };
    let Some(value) = cx.read_string(cx.arg(1))? else {
        cx.reply.integer(if bit == 1 { -1 } else { 0 });
        return Ok(());
    };
    let Some(range) = bit_range(start, end, in_bits, value.len()) else {
        cx.reply.integer(-1);
        return Ok(());
    };
    let found = find_bit(value, bit, &range).map_or_else(
        // A string without a zero is followed by zeros, unless the end of the search was given.
        || if bit == 0 && !has_end { (range.last + 1) as i64 } else { -1 },
        |found| found as i64,
    );
    cx.reply.integer(found);
    Ok(())
}
