//! Drawing elements of a collection by chance, by their positions.
//!
//! A draw with repetition may answer more than any collection holds. The reply is written as it is
//! drawn, and given up for an error beyond `proto-max-bulk-len`, the limit of what one string may
//! hold: a short request must not take all memory.

use std::collections::HashSet;

use rand_xoshiro::rand_core::Rng;

use super::context::Cx;
use super::outcome::Outcome;
use crate::error::{CommandError, NO_MEMORY_FOR_REPLY};
use crate::memory;

/// Bytes that an element of the reply takes at least: an empty string.
const ELEMENT_BYTES_MIN: u64 = b"$0\r\n\r\n".len() as u64;

/// Answers with `count` draws, each from all `length` positions, of which there is one at least.
/// `begin` answers the header, `write` the strings of a position, `strings_per_draw` of them.
pub(crate) fn answer_with_repetition<'k: 'g, 'g>(
    cx: &mut Cx<'k, 'g>,
    (length, count): (u64, u64),
    strings_per_draw: u64,
    begin: impl FnOnce(&mut Cx<'k, 'g>, usize),
    write: impl Fn(&mut Cx<'k, 'g>, u64),
) -> Outcome {
    let bytes_max = cx.settings().bulk_bytes_max;
    if count.saturating_mul(strings_per_draw) > bytes_max as u64 / ELEMENT_BYTES_MIN {
        return Err(CommandError::ReplyTooLarge.into());
    }
    let (mark, before) = (cx.reply.mark(), cx.reply.len());
    begin(cx, count as usize);
    for _ in 0..count {
        let position = cx.random().next_u64() % length;
        write(cx, position);
        if cx.reply.len() - before > bytes_max {
            if cx.reply.has_failed() {
                return Err(NO_MEMORY_FOR_REPLY.into());
            }
            cx.reply.truncate(mark);
            return Err(CommandError::ReplyTooLarge.into());
        }
    }
    Ok(())
}

/// Draws `count` different ones of `length` positions, at most all of them.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn different(
    random: &mut impl Rng,
    length: u64,
    count: u64,
) -> Result<Vec<u64>, CommandError> {
    if count >= length {
        return memory::collect(0..length);
    }
    // Few of many: drawing again what was drawn is rare. Many: what is left out is drawn.
    let is_few = count <= length / 2;
    let drawn_count = if is_few { count } else { length - count };
    let mut drawn = HashSet::new();
    let bytes = drawn_count * size_of::<u64>() as u64;
    drawn.try_reserve(drawn_count as usize).map_err(|_| CommandError::NoMemory(bytes))?;
    while (drawn.len() as u64) < drawn_count {
        drawn.insert(random.next_u64() % length);
    }
    if is_few {
        memory::collect(drawn.into_iter())
    } else {
        memory::collect((0..length).filter(|position| !drawn.contains(position)))
    }
}
