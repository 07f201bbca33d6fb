//! Sparse registers: runs of equal ones, in the order of the registers.
//!
//! ```text
//! 00nnnnnn           n + 1 registers are zero, 64 at most
//! 01nnnnnn nnnnnnnn  n + 1 registers are zero, 16,384 at most
//! 1vvvvvnn           n + 1 registers are v + 1: up to 4 of a value up to 32
//! ```
//!
//! How runs are split and joined decides the bytes, and is Valkey's.

use std::ops::Range;

use smallvec::SmallVec;

use super::registers::{REGISTER_COUNT, Trace};

/// Largest value of a sparse register.
const VALUE_MAX: u8 = 32;

/// Registers of a run that are not zero, at most.
const VALUE_RUN_MAX: usize = 4;

/// Registers of a run of zeros that takes one byte, at most.
const SHORT_ZEROS_MAX: usize = 64;

/// Runs that are looked at for joining, beginning before the one that changed.
const JOINED_RUNS_MAX: usize = 5;

/// Marks of the first byte of a run.
const IS_VALUES: u8 = 0x80;
const IS_LONG_ZEROS: u8 = 0x40;

/// Run of equal registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Zero, or a value up to 32.
    pub(super) value: u8,
    /// Number of registers; not zero.
    pub(super) len: usize,
    /// Number of bytes: 1 or 2.
    pub(super) bytes: usize,
}

impl Run {
    /// Run at the start of bytes. The second byte of a run that is cut off counts as zero.
    fn first(bytes: &[u8]) -> Option<Run> {
        let &head = bytes.first()?;
        Some(if head & IS_VALUES != 0 {
            Run { value: (head >> 2 & 0x1f) + 1, len: usize::from(head & 3) + 1, bytes: 1 }
        } else if head & IS_LONG_ZEROS != 0 {
            let low = bytes.get(1).copied().unwrap_or(0);
            Run { value: 0, len: (usize::from(head & 0x3f) << 8 | usize::from(low)) + 1, bytes: 2 }
        } else {
            Run { value: 0, len: usize::from(head) + 1, bytes: 1 }
        })
    }
}

/// Registers and bytes of the run at a position, as [`Run::first`] has them: what a walk over many
/// runs needs of each.
#[inline(always)]
fn span(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let head = usize::from(*bytes.get(at)?);
    if head & usize::from(IS_VALUES) != 0 {
        return Some(((head & 3) + 1, 1));
    }
    if head & usize::from(IS_LONG_ZEROS) == 0 {
        return Some((head + 1, 1));
    }
    let low = bytes.get(at + 1).map_or(0, |&low| usize::from(low));
    Some((((head & 0x3f) << 8 | low) + 1, 2))
}

/// Runs of sparse registers.
pub(super) fn runs(bytes: &[u8]) -> impl Iterator<Item = Run> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let run = Run::first(rest)?;
        rest = rest.get(run.bytes..).unwrap_or_default();
        Some(run)
    })
}

/// Passes runs to `visit` with their first registers; false if they are not of all registers, of
/// which some may have been visited.
#[must_use]
pub(super) fn visit(bytes: &[u8], mut visit: impl FnMut(usize, Run)) -> bool {
    let mut first = 0;
    for run in runs(bytes) {
        if first + run.len > REGISTER_COUNT {
            return false;
        }
        visit(first, run);
        first += run.len;
    }
    first == REGISTER_COUNT
}

/// Way in which a register is raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Raising {
    /// Nothing: it is as large already.
    Not,
    By(Change),
    /// The registers have to become dense first.
    NeedsDense,
}

/// Change of the bytes that raises a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Start of the run before the register's, from which on runs are joined.
    before: usize,
    /// Bytes of the register's run, and those in their place. The last run may go on behind the end
    /// of the bytes; what takes its place does so then.
    replaced: Range<usize>,
    parts: SmallVec<[u8; 8]>,
}

/// Finds what raises the register of a trace, in runs that begin at `start`. `room` is the number
/// of bytes that may be added. None if the runs end before the register.
pub(super) fn raising(bytes: &[u8], start: usize, trace: Trace, room: usize) -> Option<Raising> {
    if trace.value > VALUE_MAX {
        return Some(Raising::NeedsDense);
    }
    let (mut at, mut before, mut first) = (start, start, 0);
    loop {
        let (len, run_bytes) = span(bytes, at)?;
        if trace.register < first + len {
            break;
        }
        before = at;
        at += run_bytes;
        first += len;
    }
    let run = Run::first(bytes.get(at..)?)?;
    if run.value >= trace.value {
        return Some(Raising::Not);
    }
    let (len_before, len_behind) = (trace.register - first, first + run.len - 1 - trace.register);
    let mut parts: SmallVec<[u8; 8]> = SmallVec::new();
    push_run(&mut parts, run.value, len_before);
    push_run(&mut parts, trace.value, 1);
    push_run(&mut parts, run.value, len_behind);
    if parts.len().saturating_sub(run.bytes) > room {
        return Some(Raising::NeedsDense);
    }
    Some(Raising::By(Change { before, replaced: at..at + run.bytes, parts }))
}

impl Change {
    /// Carries the change out on the bytes that it was found for.
    pub(super) fn carry_out(self, bytes: &mut Vec<u8>) {
        let Change { before, replaced, parts } = self;
        let (old_len, parts_end) = (bytes.len(), replaced.start + parts.len());
        let new_len = old_len + parts.len() - replaced.len();
        if new_len > old_len {
            bytes.resize(new_len, 0);
        }
        if replaced.end < old_len {
            bytes.copy_within(replaced.end..old_len, parts_end);
        }
        bytes.truncate(new_len);
        let written = new_len.min(parts_end) - replaced.start;
        bytes[replaced.start..][..written].copy_from_slice(&parts[..written]);
        join(bytes, before);
    }
}

/// Appends a run, unless it is empty.
fn push_run(parts: &mut SmallVec<[u8; 8]>, value: u8, len: usize) {
    match len.checked_sub(1) {
        None => {}
        Some(less_one) if value > 0 => parts.push(values(value, less_one + 1)),
        Some(less_one) if len <= SHORT_ZEROS_MAX => parts.push(less_one as u8),
        Some(less_one) => parts.extend([IS_LONG_ZEROS | (less_one >> 8) as u8, less_one as u8]),
    }
}

fn values(value: u8, len: usize) -> u8 {
    IS_VALUES | (value - 1) << 2 | (len - 1) as u8
}

/// Joins runs of equal values, of the few from `at` on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUNS_MAX {
        let Some(run) = bytes.get(at..).and_then(Run::first) else { return };
        let next = bytes.get(at + run.bytes..).and_then(Run::first);
        match next.filter(|next| run.value > 0 && next.value == run.value) {
            Some(next) if run.len + next.len <= VALUE_RUN_MAX => {
                bytes[at + 1] = values(run.value, run.len + next.len);
                bytes.remove(at);
            }
            _ => at += run.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Raises a register; `None` and `Some(false)` as [`raising`] has it.
    fn raise(bytes: &mut Vec<u8>, trace: Trace, room: usize) -> Option<bool> {
        let Raising::By(change) = raising(bytes, 0, trace, room)? else { return Some(false) };
        change.carry_out(bytes);
        Some(true)
    }

    #[test]
    fn registers_are_raised_as_in_a_plain_array() {
        let mut random = fastrand::Rng::with_seed(9);
        for round in 0..200 {
            let mut bytes = vec![0x7f, 0xff];
            let mut model = vec![0; REGISTER_COUNT];
            // Few registers, side by side, so that runs are split and joined.
            let span = 1 << (round % 14 + 1);
            for _ in 0..400 {
                let register = (random.usize(..span) + round * 77) % REGISTER_COUNT;
                let trace = Trace { register, value: random.u8(1..=3) };
                let raised = raise(&mut bytes, trace, usize::MAX);
                assert_eq!(raised, Some(trace.value > model[register]));
                model[register] = model[register].max(trace.value);
            }
            let is_whole = visit(&bytes, |first, run| {
                assert!(model[first..first + run.len].iter().all(|&value| value == run.value));
            });
            assert!(is_whole);
        }
    }

    #[test]
    fn a_last_run_that_is_cut_off_stays_cut_off() {
        // "ba" is 8,802 zeros, "r" the first byte of 12,801.
        for (register, expected) in
            [(8_902, &b"ba\x40\x63\x80\x71"[..]), (8_802, b"ba\x80\x71"), (21_602, b"ba\x71\xff")]
        {
            let mut bytes = b"bar".to_vec();
            let raised = raise(&mut bytes, Trace { register, value: 1 }, 3);
            assert_eq!((raised, &bytes[..]), (Some(true), expected), "{register}");
        }
        let mut bytes = b"@".to_vec();
        assert_eq!(raise(&mut bytes, Trace { register: 0, value: 1 }, 3), Some(true));
        assert_eq!(bytes, b"");
    }

    #[test]
    fn runs_of_any_bytes_are_looked_at_without_panic() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..200_000 {
            let mut bytes: Vec<u8> = (0..random.usize(..12)).map(|_| random.u8(..)).collect();
            let _ = visit(&bytes, |first, run| assert!(first + run.len <= REGISTER_COUNT));
            let register = random.usize(..REGISTER_COUNT);
            let trace = Trace { register, value: random.u8(1..=51) };
            if raise(&mut bytes, trace, 3).is_none() {
                assert!(!visit(&bytes, |_, _| {}));
            }
        }
    }
}
