//! LZF, the compression of strings.
//!
//! A stream is a sequence of runs and references:
//!
//! ```text
//! 000LLLLL                   | L + 1 bytes as they are
//! LLLooooo oooooooo          | L + 2 bytes that begin o + 1 bytes before; L from 1 to 6
//! 111ooooo LLLLLLLL oooooooo | L + 9 bytes that begin o + 1 bytes before
//! ```
//!
//! [`Compressor`] finds the references that liblzf finds with Redis's settings and an empty table,
//! because a `DUMP` is compared with Valkey's. By hand: the crate `lzf` finds others, takes 512 KiB
//! per string, and decompresses into memory of whatever size the input claims.

use std::collections::TryReserveError;

const TABLE_LENGTH: usize = 1 << 16;
const DISTANCE_MAX: usize = 1 << 13;
const MATCH_BYTES_MAX: usize = 264;
const RUN_BYTES_MAX: usize = 32;

/// Bytes that compression must save at least.
const SAVED_BYTES_MIN: usize = 4;

/// Compresses one string after the other with one table, which is not cleared between them.
#[derive(Debug, Default)]
pub struct Compressor {
    /// Last position of three bytes, by their hash, plus `bias`; less than `bias` is of a string
    /// before. Allocated at first use.
    table: Vec<u32>,
    bias: u32,
}

/// Output that is being written: runs of bytes with their lengths in front.
struct Runs<'o> {
    out: &'o mut Vec<u8>,
    /// Length that the output must not exceed.
    bytes_max: usize,
    run_bytes: usize,
}

impl Runs<'_> {
    fn start(&mut self) {
        self.out.push(0);
        self.run_bytes = 0;
    }

    fn end(&mut self) {
        match self.run_bytes {
            0 => drop(self.out.pop()),
            count => {
                let head = self.out.len() - count - 1;
                self.out[head] = count as u8 - 1;
            }
        }
    }

    fn push(&mut self, byte: u8) {
        self.out.push(byte);
        self.run_bytes += 1;
        if self.run_bytes == RUN_BYTES_MAX {
            self.end();
            self.start();
        }
    }

    /// True if a reference fits.
    fn has_room_for_reference(&self) -> bool {
        self.out.len() - usize::from(self.run_bytes == 0) + 4 < self.bytes_max
    }

    fn reference(&mut self, distance: usize, length: usize) {
        self.end();
        let (high, length) = ((distance >> 8) as u8, length - 2);
        if length < 7 {
            self.out.push(high | (length as u8) << 5);
        } else {
            self.out.extend_from_slice(&[high | 7 << 5, (length - 7) as u8]);
        }
        self.out.push(distance as u8);
        self.start();
    }
}

fn index_of(hash: u32) -> usize {
    ((hash >> 8).wrapping_sub(hash.wrapping_mul(5)) & (TABLE_LENGTH as u32 - 1)) as usize
}

/// Number of equal bytes at two positions, of which three are. Up to 18 are compared even when that
/// is more than `max`, as in liblzf; they are there.
fn match_length(input: &[u8], earlier: usize, at: usize, max: usize) -> usize {
    let is_same = |length: usize| input[earlier + length] == input[at + length];
    let mut length = 2;
    if max > 16 {
        for _ in 0..16 {
            length += 1;
            if !is_same(length) {
                return length;
            }
        }
    }
    loop {
        length += 1;
        if length >= max || !is_same(length) {
            return length;
        }
    }
}

impl Compressor {
    /// Puts the compressed `input` into `out` in the place of what is there. Tells whether that
    /// saves enough bytes.
    ///
    /// # Errors
    ///
    /// When there is no memory for the table or the output.
    pub(crate) fn compress(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, TryReserveError> {
        out.clear();
        let bytes_max = input.len().saturating_sub(SAVED_BYTES_MIN);
        let Ok(length) = u32::try_from(input.len()) else { return Ok(false) };
        if bytes_max == 0 || length > u32::MAX / 2 {
            return Ok(false);
        }
        if self.table.is_empty() {
            self.table.try_reserve_exact(TABLE_LENGTH)?;
            self.table.resize(TABLE_LENGTH, 0);
        }
        if self.bias > u32::MAX / 2 - 1 {
            self.table.fill(0);
            self.bias = 0;
        }
        // Nothing is found at position 0, so that a slot of 0 is one that was never set.
        out.try_reserve(bytes_max + RUN_BYTES_MAX + 1)?;
        let mut runs = Runs { out, bytes_max, run_bytes: 0 };
        let is_smaller = self.write(input, &mut runs);
        self.bias += length;
        Ok(is_smaller)
    }

    /// Position of the bytes with the same hash before `at`, where `at` is put.
    fn exchange(&mut self, hash: u32, at: usize) -> Option<usize> {
        let slot = &mut self.table[index_of(hash)];
        let earlier = slot.checked_sub(self.bias).filter(|&earlier| earlier > 0);
        *slot = self.bias + at as u32;
        earlier.map(|earlier| earlier as usize)
    }

    fn write(&mut self, input: &[u8], runs: &mut Runs<'_>) -> bool {
        let first = |at: usize| u32::from(input[at]) << 8 | u32::from(input[at + 1]);
        let next = |hash: u32, at: usize| hash << 8 | u32::from(input[at + 2]);
        let end = input.len() - 2;
        runs.start();
        let (mut at, mut hash) = (0, first(0));
        while at < end {
            hash = next(hash, at);
            let earlier = self.exchange(hash, at).filter(|&earlier| {
                at - earlier <= DISTANCE_MAX && input[earlier..earlier + 3] == input[at..at + 3]
            });
            let Some(earlier) = earlier else {
                if runs.out.len() >= runs.bytes_max {
                    return false;
                }
                runs.push(input[at]);
                at += 1;
                continue;
            };
            if !runs.has_room_for_reference() {
                return false;
            }
            let max = (input.len() - at - 2).min(MATCH_BYTES_MAX);
            let length = match_length(input, earlier, at, max);
            runs.reference(at - earlier - 1, length);
            at += length;
            if at >= end {
                break;
            }
            // Of the bytes within a match only the last two positions are remembered.
            hash = first(at - 2);
            for within in [at - 2, at - 1] {
                hash = next(hash, within);
                self.exchange(hash, within);
            }
        }
        if runs.out.len() + 3 > runs.bytes_max {
            return false;
        }
        input[at..].iter().for_each(|&byte| runs.push(byte));
        runs.end();
        true
    }
}

/// Fault of a compressed string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LzfError {
    /// It ends within a run or a reference.
    Truncated,
    /// A reference leads before the beginning.
    Reference,
    /// It has not the length that was claimed.
    Length,
}

/// Appends what `input` was before compression to `out`, which is empty and has room for `length`
/// bytes; that must be its length.
pub(crate) fn decompress(input: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), LzfError> {
    let mut at = 0;
    let byte = |at: &mut usize| {
        let byte = input.get(*at).copied().ok_or(LzfError::Truncated);
        *at += 1;
        byte
    };
    while at < input.len() {
        let head = usize::from(byte(&mut at)?);
        if head < RUN_BYTES_MAX {
            let run = input.get(at..at + head + 1).ok_or(LzfError::Truncated)?;
            if out.len() + run.len() > length {
                return Err(LzfError::Length);
            }
            out.extend_from_slice(run);
            at += run.len();
            continue;
        }
        let mut count = head >> 5;
        if count == 7 {
            count += usize::from(byte(&mut at)?);
        }
        count += 2;
        let distance = (head & 31) << 8 | usize::from(byte(&mut at)?);
        let start = out.len().checked_sub(distance + 1).ok_or(LzfError::Reference)?;
        if out.len() + count > length {
            return Err(LzfError::Length);
        }
        copy_within(out, start, count);
    }
    if out.len() == length { Ok(()) } else { Err(LzfError::Length) }
}

/// Appends `count` bytes that begin at `start`; they may reach into what is appended.
fn copy_within(out: &mut Vec<u8>, start: usize, mut count: usize) {
    while count > 0 {
        let there = (out.len() - start).min(count);
        out.extend_from_within(start..start + there);
        count -= there;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(compressor: &mut Compressor, input: &[u8]) -> Option<usize> {
        let (mut out, mut again) = (Vec::new(), Vec::with_capacity(input.len()));
        if !compressor.compress(input, &mut out).expect("memory") {
            return None;
        }
        assert_eq!(decompress(&out, input.len(), &mut again), Ok(()));
        assert_eq!(again, input);
        assert!(out.len() + SAVED_BYTES_MIN <= input.len());
        Some(out.len())
    }

    #[test]
    fn what_is_compressed_is_the_same_again() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut one, mut smaller) = (Compressor::default(), 0);
        for round in 0..4000 {
            let letters = random.u8(1..=255);
            let length = random.usize(1..if round % 20 == 0 { 20_000 } else { 200 });
            let input: Vec<u8> = (0..length).map(|_| random.u8(0..letters)).collect();
            let mut input = input;
            for _ in 0..random.usize(0..4) {
                let start = random.usize(0..input.len());
                input.extend_from_within(start..);
            }
            // The table that earlier strings left behind changes nothing.
            let fresh = round_trip(&mut Compressor::default(), &input);
            assert_eq!(round_trip(&mut one, &input), fresh);
            smaller += usize::from(fresh.is_some());
        }
        assert!(smaller > 500, "{smaller} of the strings became smaller");
    }

    #[test]
    fn a_table_that_is_full_of_positions_begins_anew() {
        let mut compressor = Compressor { bias: u32::MAX / 2 - 3, ..Compressor::default() };
        let input = b"abcabcabcabcabcabcabcabcabc";
        let sizes = [(); 4].map(|()| round_trip(&mut compressor, input));
        assert_eq!(sizes, [round_trip(&mut Compressor::default(), input); 4]);
        assert!(compressor.bias < 1000);
    }

    #[test]
    fn wrong_input_is_an_error_and_never_longer_than_claimed() {
        let cases: [(&[u8], usize, LzfError); 5] = [
            (b"\x04ab", 5, LzfError::Truncated),
            (b"\x00a\x20", 4, LzfError::Truncated),
            (b"\x00a\x20\x01", 4, LzfError::Reference),
            (b"\x00a\xe0\xff\x00", 9, LzfError::Length),
            (b"\x00a", 2, LzfError::Length),
        ];
        for (input, length, error) in cases {
            let mut out = Vec::new();
            assert_eq!(decompress(input, length, &mut out), Err(error), "{input:?}");
            assert!(out.len() <= length);
        }
    }
}
