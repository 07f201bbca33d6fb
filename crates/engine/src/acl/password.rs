//! Passwords: kept as SHA-256, compared in constant time.

use std::fmt::Write;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// SHA-256 of a password.
#[derive(Clone, Copy, Debug)]
pub(super) struct PasswordHash([u8; 32]);

impl PasswordHash {
    pub(super) fn of(password: &[u8]) -> PasswordHash {
        let digest = digest(&SHA256, password);
        PasswordHash(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// The hash that 64 digits in lower case write.
    pub(super) fn parse(text: &[u8]) -> Option<PasswordHash> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if text.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(PasswordHash(hash))
    }

    pub(super) fn digits(&self) -> String {
        hex(&self.0)
    }

    /// Compares without telling by its time how much is equal: the differences are gathered behind
    /// a barrier that keeps the compiler from ending the loop early.
    pub(super) fn is_equal(&self, other: &PasswordHash) -> bool {
        let bytes = self.0.iter().zip(&other.0);
        bytes.fold(0, |different, (a, b)| std::hint::black_box(different | (a ^ b))) == 0
    }
}

/// Bytes as digits in lower case.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A random password of this number of bits, rounded up to whole digits; none when the system has
/// no random numbers.
pub(crate) fn generate(bits: usize) -> Option<String> {
    let digits = bits.div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    SystemRandom::new().fill(&mut bytes).ok()?;
    let mut text = hex(&bytes);
    text.truncate(digits);
    Some(text)
}
