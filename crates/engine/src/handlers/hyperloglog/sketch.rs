//! The string of a HyperLogLog: header and registers.
//!
//! ```text
//! "HYLL" | encoding | 3 bytes unused | estimate: 8 bytes | registers
//! ```
//!
//! The highest bit of the estimate says that it is outdated.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidemill_store::value::text::Chunk;
use tidemill_store::{EntryRef, Kind, StringValue};

use super::estimate::Histogram;
use super::registers::{
    DENSE_BYTES, REGISTER_COUNT, Trace, dense_value, raise_dense, raise_to_dense, set_all_dense,
    set_dense,
};
use super::sparse::{self, Raising, Run};
use crate::error::CommandError;
use crate::memory;

pub(super) const HEADER_BYTES: usize = 16;

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// Offset of the estimate.
pub(super) const ESTIMATE_AT: usize = 8;

/// Offset of the byte that says that the estimate is outdated.
pub(super) const OUTDATED_AT: usize = HEADER_BYTES - 1;

/// Its mark.
pub(super) const OUTDATED: u8 = 0x80;

/// Sparse registers that are all zero.
const ALL_ZERO: [u8; 2] = [0x7f, 0xff];

const CORRUPT: &str = "INVALIDOBJ Corrupted HLL object detected";

/// Error for runs that are not of all registers.
pub(super) fn corrupt() -> CommandError {
    CORRUPT.into()
}

/// Registers of a stored HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Dense,
    Sparse,
}

/// Stored HyperLogLog. Its runs need not be valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sketch<'g> {
    pub(super) value: StringValue<'g>,
    pub(super) encoding: Encoding,
    header: [u8; HEADER_BYTES],
}

/// Bytes of sparse strings up to which their registers are raised one by one in dense ones: more
/// take longer than to unpack those and to pack them again.
const SINGLY_RAISED_BYTES_MAX: u64 = 4096;

/// Bytes by which a sparse string may grow as a register is raised, without being moved.
const GROWTH_BYTES: usize = 8;

impl<'g> Sketch<'g> {
    /// # Errors
    ///
    /// [`CommandError::WrongType`] or its variant for strings that are no HyperLogLogs.
    pub(super) fn of(entry: EntryRef<'g>) -> Result<Sketch<'g>, CommandError> {
        if entry.kind() != Kind::String {
            return Err(CommandError::WrongType);
        }
        let sketch = entry.string().and_then(Sketch::of_string);
        sketch.ok_or("WRONGTYPE Key is not a valid HyperLogLog string value.".into())
    }

    fn of_string(value: StringValue<'g>) -> Option<Sketch<'g>> {
        let header = header_of(value)?;
        let encoding = match header[ENCODING_AT] {
            DENSE if value.len() == (HEADER_BYTES + DENSE_BYTES) as u64 => Encoding::Dense,
            SPARSE => Encoding::Sparse,
            _ => return None,
        };
        header.starts_with(MAGIC).then_some(Sketch { value, encoding, header })
    }

    fn is_sparse(&self) -> bool {
        self.encoding == Encoding::Sparse
    }

    /// Estimate that is kept in the string, unless it is outdated.
    pub(super) fn kept_estimate(&self) -> Option<u64> {
        let estimate =
            self.header[ESTIMATE_AT..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        estimate.filter(|_| self.header[OUTDATED_AT] & OUTDATED == 0)
    }

    /// True if the estimate is marked as outdated.
    pub(super) fn is_outdated(&self) -> bool {
        self.header[OUTDATED_AT] & OUTDATED != 0
    }

    /// Byte of the dense registers.
    pub(super) fn dense_byte(&self, at: usize) -> u8 {
        let at = HEADER_BYTES + at;
        match self.value {
            StringValue::Plain(bytes) => bytes[at],
            StringValue::Chunks(text) => text.get(at as u64).unwrap_or(0),
        }
    }

    /// True if an element of this trace would change a dense register.
    pub(super) fn is_raised_by(&self, trace: Trace) -> bool {
        trace.value > dense_value(trace.register, |at| self.dense_byte(at))
    }

    /// The string, in one piece.
    pub(super) fn contiguous(&self) -> Result<Cow<'g, [u8]>, CommandError> {
        memory::contiguous(self.value)
    }

    /// Histogram of the registers.
    ///
    /// # Errors
    ///
    /// [`corrupt`].
    pub(super) fn histogram(&self) -> Result<Histogram, CommandError> {
        let bytes = self.contiguous()?;
        let registers = &bytes[HEADER_BYTES..];
        if self.encoding == Encoding::Dense {
            return Ok(Histogram::of_dense(registers));
        }
        let mut histogram = Histogram::new();
        let is_whole = sparse::visit(registers, |_, run| histogram.add(run.value, run.len));
        if is_whole { Ok(histogram) } else { Err(corrupt()) }
    }

    /// Checks that it has all registers.
    ///
    /// # Errors
    ///
    /// [`corrupt`].
    pub(super) fn check(&self) -> Result<(), CommandError> {
        if self.is_sparse() { self.visit_sparse(|_, _| {}) } else { Ok(()) }
    }

    /// Raises values, one per register, to those of this one.
    ///
    /// # Errors
    ///
    /// [`corrupt`].
    pub(super) fn merge_into(&self, values: &mut [u8]) -> Result<(), CommandError> {
        if self.encoding == Encoding::Dense {
            raise_to_dense(values, &self.contiguous()?[HEADER_BYTES..]);
            return Ok(());
        }
        self.visit_sparse(|first, run| {
            let values = &mut values[first..first + run.len];
            values.iter_mut().for_each(|value| *value = run.value.max(*value));
        })
    }

    /// Passes runs of sparse registers that are not zero to `visit`, with their first registers.
    ///
    /// # Errors
    ///
    /// [`corrupt`].
    fn visit_sparse(&self, mut visit: impl FnMut(usize, Run)) -> Result<(), CommandError> {
        let is_whole = sparse::visit(&self.contiguous()?[HEADER_BYTES..], |first, run| {
            if run.value > 0 {
                visit(first, run);
            }
        });
        if is_whole { Ok(()) } else { Err(corrupt()) }
    }
}

fn header_of(value: StringValue<'_>) -> Option<[u8; HEADER_BYTES]> {
    match value {
        StringValue::Plain(bytes) => bytes.first_chunk().copied(),
        StringValue::Chunks(text) => {
            let mut header: SmallVec<[u8; HEADER_BYTES]> = SmallVec::new();
            for chunk in text.chunks(0..HEADER_BYTES as u64) {
                match chunk {
                    Chunk::Bytes(bytes) => header.extend_from_slice(bytes),
                    Chunk::Zeros(count) => header.resize(header.len() + count as usize, 0),
                }
            }
            header.first_chunk().copied()
        }
    }
}

/// HyperLogLog that is being changed, as a whole string: a sparse one is copied by its first
/// change.
#[derive(Debug)]
pub(super) enum Draft<'g> {
    Sparse(Cow<'g, [u8]>),
    Dense(Vec<u8>),
}

impl<'g> Draft<'g> {
    /// Without any element. Its estimate is marked as outdated once it is finished.
    pub(super) fn empty() -> Draft<'g> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + ALL_ZERO.len() + GROWTH_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.push(SPARSE);
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(&ALL_ZERO);
        Draft::Sparse(Cow::Owned(bytes))
    }

    /// The stored one.
    pub(super) fn of(sketch: &Sketch<'g>) -> Result<Draft<'g>, CommandError> {
        Ok(match sketch.encoding {
            Encoding::Dense => Draft::Dense(memory::copy(sketch.value)?),
            Encoding::Sparse => Draft::Sparse(sketch.contiguous()?),
        })
    }

    /// Raises the register of a trace; true if it was smaller. `sparse_bytes_max` is the length up
    /// to which a string stays sparse.
    ///
    /// # Errors
    ///
    /// [`corrupt`].
    pub(super) fn raise(
        &mut self,
        trace: Trace,
        sparse_bytes_max: u64,
    ) -> Result<bool, CommandError> {
        if let Draft::Sparse(bytes) = self {
            let len = bytes.len() as u64;
            let room = sparse_bytes_max.saturating_sub(len).min(len) as usize;
            match sparse::raising(bytes, HEADER_BYTES, trace, room).ok_or_else(corrupt)? {
                Raising::Not => return Ok(false),
                Raising::By(change) => {
                    change.carry_out(own(bytes)?);
                    return Ok(true);
                }
                Raising::NeedsDense => self.make_dense()?,
            }
        }
        let Draft::Dense(bytes) = self else { return Ok(false) };
        Ok(raise_dense(&mut bytes[HEADER_BYTES..], trace))
    }

    /// Raises all registers to those of some sketches, of which the draft's own is the first, if it
    /// is stored. One that is dense makes the draft dense. `sparse_bytes_max` is as in
    /// [`raise`](Self::raise).
    ///
    /// # Errors
    ///
    /// [`corrupt`], [`CommandError::NoMemory`].
    pub(super) fn merge(
        &mut self,
        sketches: &[Sketch<'_>],
        sparse_bytes_max: u64,
    ) -> Result<(), CommandError> {
        let dense_count = sketches.iter().filter(|sketch| !sketch.is_sparse()).count();
        let mut sparse = sketches.iter().filter(|sketch| sketch.is_sparse());
        let sparse_bytes: u64 = sparse.clone().map(|sketch| sketch.value.len()).sum();
        if let Draft::Dense(bytes) = self
            && dense_count == 1
            && sparse_bytes <= SINGLY_RAISED_BYTES_MAX
        {
            // The dense one is the draft's own.
            let registers = &mut bytes[HEADER_BYTES..];
            return sparse.try_for_each(|sketch| {
                sketch.visit_sparse(|first, Run { value, len, .. }| {
                    (first..first + len).for_each(|register| {
                        raise_dense(registers, Trace { register, value });
                    });
                })
            });
        }
        let mut values = memory::zeros(REGISTER_COUNT)?;
        sketches.iter().try_for_each(|sketch| sketch.merge_into(&mut values))?;
        if dense_count > 0 {
            self.make_dense()?;
        }
        self.raise_all(&values, sparse_bytes_max)
    }

    /// Raises all registers to values, one per register, none of which is less than what its
    /// register has; see [`raise`](Self::raise).
    ///
    /// # Errors
    ///
    /// [`corrupt`].
    fn raise_all(&mut self, values: &[u8], sparse_bytes_max: u64) -> Result<(), CommandError> {
        for (register, &value) in values.iter().enumerate() {
            if let Draft::Dense(bytes) = self {
                set_all_dense(&mut bytes[HEADER_BYTES..], values);
                break;
            }
            if value > 0 {
                self.raise(Trace { register, value }, sparse_bytes_max)?;
            }
        }
        Ok(())
    }

    /// Makes the registers dense, if they are not.
    ///
    /// # Errors
    ///
    /// [`corrupt`].
    pub(super) fn make_dense(&mut self) -> Result<(), CommandError> {
        let Draft::Sparse(sparse_bytes) = self else { return Ok(()) };
        let (header, runs) = sparse_bytes.split_at(HEADER_BYTES);
        let mut bytes = memory::zeros(HEADER_BYTES + DENSE_BYTES)?;
        bytes[..HEADER_BYTES].copy_from_slice(header);
        bytes[ENCODING_AT] = DENSE;
        let registers = &mut bytes[HEADER_BYTES..];
        let is_whole = sparse::visit(runs, |first, run| {
            (first..first + run.len).for_each(|register| set_dense(registers, register, run.value));
        });
        if !is_whole {
            return Err(corrupt());
        }
        *self = Draft::Dense(bytes);
        Ok(())
    }

    /// Marks the estimate as outdated.
    ///
    /// # Errors
    ///
    /// [`CommandError::NoMemory`].
    pub(super) fn mark_outdated(&mut self) -> Result<(), CommandError> {
        let bytes = match self {
            Draft::Sparse(bytes) => own(bytes)?,
            Draft::Dense(bytes) => bytes,
        };
        bytes[OUTDATED_AT] |= OUTDATED;
        Ok(())
    }
}

/// The bytes of a draft, to be changed.
fn own<'d>(bytes: &'d mut Cow<'_, [u8]>) -> Result<&'d mut Vec<u8>, CommandError> {
    if let Cow::Borrowed(stored) = *bytes {
        let copy = memory::copy_with_room(StringValue::Plain(stored), GROWTH_BYTES)?;
        *bytes = Cow::Owned(copy);
    }
    Ok(bytes.to_mut())
}
