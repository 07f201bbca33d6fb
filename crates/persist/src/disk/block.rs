//! A block of bytes as devices take them.

use std::collections::TryReserveError;

use crate::limits::{BLOCK_ALIGNMENT, BLOCK_BYTES};

/// Up to [`BLOCK_BYTES`] bytes, which begin at a multiple of [`BLOCK_ALIGNMENT`] in memory, so that
/// a device can read them there. No memory before the first byte.
#[derive(Debug, Default)]
pub struct Block {
    /// Never moves once it has memory: there is room for all of a block.
    memory: Vec<u8>,
    /// Bytes in front of the aligned ones.
    start: usize,
}

impl Block {
    /// Takes as many bytes as there is room for; returns the others. It is full if there are some.
    ///
    /// # Errors
    ///
    /// There is no memory for a block.
    pub fn fill<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], TryReserveError> {
        if self.memory.capacity() == 0 {
            self.memory.try_reserve_exact(BLOCK_BYTES + BLOCK_ALIGNMENT)?;
            let address = self.memory.as_ptr() as usize;
            self.start = address.next_multiple_of(BLOCK_ALIGNMENT) - address;
            self.memory.resize(self.start, 0);
        }
        let room = BLOCK_BYTES - self.bytes().len();
        let (taken, rest) = bytes.split_at(room.min(bytes.len()));
        self.memory.extend_from_slice(taken);
        Ok(rest)
    }

    /// Bytes that were taken.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.memory.truncate(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_its_bytes_at_an_aligned_place_and_returns_the_others() {
        let mut block = Block::default();
        assert_eq!(block.bytes(), b"");
        for _ in 0..2 {
            assert_eq!(block.fill(b"abc"), Ok(&b""[..]));
            let many = vec![7; BLOCK_BYTES];
            assert_eq!(block.fill(&many), Ok(&[7; 3][..]));
            assert_eq!(block.fill(b"x"), Ok(&b"x"[..]));
            assert_eq!(block.bytes().len(), BLOCK_BYTES);
            assert!(block.bytes().starts_with(b"abc\x07"));
            assert!((block.bytes().as_ptr() as usize).is_multiple_of(BLOCK_ALIGNMENT));
            block.clear();
        }
    }
}
