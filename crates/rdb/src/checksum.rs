//! CRC-64 as Redis computes it (Jones's polynomial, reflected).

use crc::{CRC_64_REDIS, Crc, Digest, Table};

/// Sliced by 16: 16 tables of 2 KiB.
static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Checksum of bytes that come in pieces.
#[derive(Clone)]
pub struct Checksum(Digest<'static, u64, Table<16>>);

impl std::fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Checksum({:016x})", self.value())
    }
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(CRC.digest())
    }
}

impl Checksum {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Checksum of all bytes so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.clone().finalize()
    }

    /// Checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        CRC.checksum(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_redis_s() {
        // The check value in Redis's crc64.c, and that of the payload of the integer 123.
        assert_eq!(Checksum::of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut pieces = Checksum::default();
        pieces.update(b"\0\xc0");
        pieces.update(b"{P\0");
        assert_eq!(pieces.value().to_le_bytes(), *b"\x87\xc8\x9ap\x9e(\x00M");
    }
}
