//! CRC-64 as Redis computes it (Jones's polynomial, reflected).
//!
//! Carry-less multiplication takes about 35 ns per call, whatever the length, and a nanosecond for
//! each 30 bytes then: short pieces, of which a writer has several per element, are gathered first.

use crc_fast::{CrcAlgorithm, Digest, checksum};

use crate::limits::CHECKSUM_GATHERED_BYTES;

/// Checksum of bytes that come in pieces.
#[derive(Clone)]
pub struct Checksum {
    /// Of what came before the gathered bytes.
    digest: Digest,
    gathered: [u8; CHECKSUM_GATHERED_BYTES],
    gathered_count: usize,
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Checksum({:016x})", self.value())
    }
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum {
            digest: Digest::new(CrcAlgorithm::Crc64Redis),
            gathered: [0; CHECKSUM_GATHERED_BYTES],
            gathered_count: 0,
        }
    }
}

impl Checksum {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let rest = &mut self.gathered[self.gathered_count..];
        if let Some(place) = rest.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
            self.gathered_count += bytes.len();
            return;
        }
        self.digest.update(&self.gathered[..self.gathered_count]);
        self.gathered_count = 0;
        match self.gathered.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.gathered_count = bytes.len();
            }
            None => self.digest.update(bytes),
        }
    }

    /// Checksum of all bytes so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        let mut digest = self.digest;
        digest.update(&self.gathered[..self.gathered_count]);
        digest.finalize()
    }

    /// Checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        checksum(CrcAlgorithm::Crc64Redis, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by tables.
    const BY_TABLES: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);

    #[test]
    fn the_checksum_is_redis_s() {
        // The check value in Redis's crc64.c, and that of the payload of the integer 123.
        assert_eq!(Checksum::of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut pieces = Checksum::default();
        pieces.update(b"\0\xc0");
        pieces.update(b"{P\0");
        assert_eq!(pieces.value().to_le_bytes(), *b"\x87\xc8\x9ap\x9e(\x00M");
    }

    #[test]
    fn a_checksum_of_any_length_is_that_by_tables() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        // Widths of a register, of several, and the borders between them, from any alignment.
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(1500).collect();
        for length in 0..1400 {
            let part = &bytes[random.usize(..64)..][..length];
            assert_eq!(Checksum::of(part), BY_TABLES.checksum(part), "{length} bytes");
        }
    }

    #[test]
    fn a_checksum_of_random_pieces_is_that_of_the_whole() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let borders = [0, 1, 2, 15, 16, 17, CHECKSUM_GATHERED_BYTES - 1, CHECKSUM_GATHERED_BYTES];
        for _ in 0..200 {
            let mut pieces = Checksum::default();
            let mut whole = Vec::new();
            for _ in 0..random.usize(..60) {
                let length = match random.u8(..4) {
                    0 => random.usize(..3 * CHECKSUM_GATHERED_BYTES),
                    1 => random.usize(..20),
                    2 => borders[random.usize(..borders.len())],
                    _ => CHECKSUM_GATHERED_BYTES + 1,
                };
                let start = whole.len();
                whole.extend(std::iter::repeat_with(|| random.u8(..)).take(length));
                pieces.update(&whole[start..]);
                // Looking at it changes nothing.
                if random.bool() {
                    assert_eq!(pieces.value(), BY_TABLES.checksum(&whole));
                }
            }
            assert_eq!(pieces.value(), BY_TABLES.checksum(&whole), "{} bytes", whole.len());
        }
    }
}
