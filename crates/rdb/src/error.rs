//! Errors of decoding: what was expected where, and what was found.

use std::fmt;

use crate::limits::QUOTED_KEY_BYTES_MAX;
use crate::version::Version;

/// Reason why bytes are no RDB. Offsets count from the beginning of the file or payload; inside of
/// a string (a compressed one after decompression) from the string's beginning on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends too early.
    Truncated {
        /// Offset of the end.
        offset: u64,
        /// Name of the part that is missing.
        expected: &'static str,
    },
    /// The input does not begin with a magic word and a version that belongs to it.
    NotRdb {
        /// Offset of the wrong byte of the header.
        offset: u64,
        /// The byte there.
        found: u8,
    },
    /// The version is not known.
    UnknownVersion {
        /// Its offset.
        offset: u64,
        /// The version.
        found: u64,
    },
    /// A type of value or an opcode that this version does not have.
    UnknownType {
        /// Its offset.
        offset: u64,
        /// Its number.
        found: u8,
        /// The version.
        version: Version,
    },
    /// Something has a value that it must not have.
    Malformed {
        /// Its offset.
        offset: u64,
        /// Name of the part, or of the values that it may have.
        expected: &'static str,
        /// The value that was found.
        found: u64,
    },
    /// A value that only a module can read.
    ModuleValue {
        /// Offset of its type.
        offset: u64,
        /// Name of the type that the module registered, with its version.
        module: ModuleName,
        /// The first bytes of the key; empty in a payload.
        key: Vec<u8>,
    },
    /// The checksum at the end is not that of the bytes before.
    Checksum {
        /// Its offset.
        offset: u64,
        /// The checksum of the bytes.
        expected: u64,
        /// The one that is stored.
        found: u64,
    },
    /// The system gives no memory for a string that has arrived.
    NoMemory {
        /// Offset of the string.
        offset: u64,
        /// Its length.
        bytes: u64,
    },
}

impl DecodeError {
    /// Offset at which the error was found.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match *self {
            DecodeError::Truncated { offset, .. }
            | DecodeError::NotRdb { offset, .. }
            | DecodeError::UnknownVersion { offset, .. }
            | DecodeError::UnknownType { offset, .. }
            | DecodeError::Malformed { offset, .. }
            | DecodeError::ModuleValue { offset, .. }
            | DecodeError::Checksum { offset, .. }
            | DecodeError::NoMemory { offset, .. } => offset,
        }
    }

    pub(crate) fn malformed(offset: u64, expected: &'static str, found: u64) -> DecodeError {
        DecodeError::Malformed { offset, expected, found }
    }

    /// The error with the key that it is about.
    pub(crate) fn of_key(mut self, name: &[u8]) -> DecodeError {
        if let DecodeError::ModuleValue { key, .. } = &mut self {
            *key = name[..name.len().min(QUOTED_KEY_BYTES_MAX)].to_vec();
        }
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "offset {}: ", self.offset())?;
        match self {
            DecodeError::Truncated { expected, .. } => {
                write!(formatter, "expected {expected}, found the end")
            }
            DecodeError::NotRdb { found, .. } => {
                write!(formatter, "expected REDIS or VALKEY and a version, found byte {found}")
            }
            DecodeError::UnknownVersion { found, .. } => {
                write!(formatter, "expected a version up to 12, or 80, found {found}")
            }
            DecodeError::UnknownType { found, version, .. } => {
                let number = version.0;
                write!(formatter, "expected a type or an opcode of version {number}, found {found}")
            }
            DecodeError::Malformed { expected, found, .. } => {
                write!(formatter, "expected {expected}, found {found}")
            }
            DecodeError::ModuleValue { module, key, .. } => {
                let key = key.escape_ascii();
                write!(formatter, "expected no value of a module, found {module} under '{key}'")
            }
            DecodeError::Checksum { expected, found, .. } => {
                write!(formatter, "expected the checksum {expected:016x}, found {found:016x}")
            }
            DecodeError::NoMemory { bytes, .. } => {
                write!(formatter, "expected memory for {bytes} bytes, found none")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reason why reading stopped: the input, or who takes what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// The input is wrong.
    Decode(DecodeError),
    /// The sink refused something.
    Sink(E),
}

impl<E> From<DecodeError> for ReadError<E> {
    fn from(error: DecodeError) -> ReadError<E> {
        ReadError::Decode(error)
    }
}

/// Number under which a module stores its values: nine characters and a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleName(pub u64);

impl fmt::Display for ModuleName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARACTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for index in (0..9).rev() {
            let sextet = self.0 >> (10 + 6 * index) & 63;
            write!(formatter, "{}", char::from(CHARACTERS[sextet as usize]))?;
        }
        write!(formatter, " version {}", self.0 & 1023)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_module_is_read_from_its_number() {
        // RedisJSON's type, as its documentation prints it.
        let characters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let number = b"ReJSON-RL".iter().fold(0, |number, byte| {
            let sextet = characters.iter().position(|other| other == byte).expect("a character");
            number << 6 | sextet as u64
        });
        assert_eq!(ModuleName(number << 10 | 3).to_string(), "ReJSON-RL version 3");
    }

    #[test]
    fn an_error_names_offset_expectation_and_finding() {
        let error = DecodeError::malformed(17, "an even count", 3);
        assert_eq!(error.to_string(), "offset 17: expected an even count, found 3");
    }
}
