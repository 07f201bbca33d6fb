//! Intsets: ascending integers of one width.
//!
//! ```text
//! width: u32 | count: u32 | integers of 2, 4 or 8 bytes, least byte first
//! ```

use std::collections::TryReserveError;

use super::Bytes;
use crate::error::DecodeError;
use crate::text::Text;

const HEADER_BYTES: usize = 8;

/// Integers that were not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Intset<'b> {
    bytes: Bytes<'b>,
    width: usize,
    at: usize,
    last: Option<i64>,
}

impl<'b> Intset<'b> {
    pub(super) fn new(bytes: Bytes<'b>) -> Result<Intset<'b>, DecodeError> {
        let width = u32::from_le_bytes(bytes.array(0, "the width of an intset")?);
        if !matches!(width, 2 | 4 | 8) {
            return Err(bytes.error(0, "a width of 2, 4 or 8 bytes", width.into()));
        }
        let count = u32::from_le_bytes(bytes.array(4, "the count of an intset")?);
        let wanted = HEADER_BYTES as u64 + u64::from(count) * u64::from(width);
        if wanted != bytes.bytes.len() as u64 {
            return Err(bytes.error(4, "as many integers as there are", count.into()));
        }
        Ok(Intset { bytes, width: width as usize, at: HEADER_BYTES, last: None })
    }

    pub(super) fn next(&mut self) -> Result<Option<Text<'b>>, DecodeError> {
        let (at, expected) = (self.at, "an integer");
        if at == self.bytes.bytes.len() {
            return Ok(None);
        }
        let value = match self.width {
            2 => i16::from_le_bytes(self.bytes.array(at, expected)?).into(),
            4 => i32::from_le_bytes(self.bytes.array(at, expected)?).into(),
            _ => i64::from_le_bytes(self.bytes.array(at, expected)?),
        };
        if self.last.is_some_and(|last| last >= value) {
            return Err(self.bytes.error(at, "ascending integers", value as u64));
        }
        self.last = Some(value);
        self.at += self.width;
        Ok(Some(Text::Integer(value)))
    }
}

/// The intset of ascending integers.
pub(crate) fn encode(integers: &[i64]) -> Result<Vec<u8>, TryReserveError> {
    let fits = |low: i64, high: i64| integers.iter().all(|value| (low..=high).contains(value));
    let width = match () {
        () if fits(i16::MIN.into(), i16::MAX.into()) => 2,
        () if fits(i32::MIN.into(), i32::MAX.into()) => 4,
        () => 8,
    };
    let mut out = Vec::new();
    out.try_reserve_exact(HEADER_BYTES + integers.len() * width)?;
    out.extend_from_slice(&(width as u32).to_le_bytes());
    out.extend_from_slice(&(integers.len() as u32).to_le_bytes());
    for value in integers {
        out.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    Ok(out)
}
