//! The writer of a file.

use std::collections::TryReserveError;

use super::opcode;
use crate::checksum::Checksum;
use crate::encode::{Compression, Encoder, Output};
use crate::version::Version;

/// Output of a [`Writer`], with the checksum of all that went through it.
#[derive(Debug)]
pub struct Summed<O> {
    out: O,
    checksum: Option<Checksum>,
}

impl<O: Output> Output for Summed<O> {
    type Error = O::Error;

    fn write(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        self.out.write(bytes)
    }
}

/// Attributes of a key besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAttributes {
    /// When it expires, as Unix time in milliseconds.
    pub expires_at_ms: Option<i64>,
    /// For how long it was not used, s.
    pub idle_s: Option<u64>,
    /// Frequency of its use.
    pub frequency: Option<u8>,
}

/// Writer of one file.
#[derive(Debug)]
pub struct Writer<O> {
    encoder: Encoder<Summed<O>>,
}

impl<O: Output<Error: From<TryReserveError>>> Writer<O> {
    /// Writes the header. Without `has_checksum` the checksum at the end is zero.
    ///
    /// # Errors
    ///
    /// Those of the output, as all functions here.
    pub fn new(
        out: O,
        version: Version,
        compression: Compression,
        has_checksum: bool,
    ) -> Result<Writer<O>, O::Error> {
        let checksum = has_checksum.then(Checksum::default);
        let mut encoder = Encoder::new(Summed { out, checksum }, compression);
        let magic = version.magic();
        encoder.raw(magic)?;
        let width = 9 - magic.len();
        encoder.raw(format!("{:0width$}", version.0).as_bytes())?;
        Ok(Writer { encoder })
    }

    /// Writes a field about the file.
    ///
    /// # Errors
    ///
    /// As [`Writer::new`].
    pub fn aux(&mut self, name: &[u8], value: &[u8]) -> Result<(), O::Error> {
        self.encoder.raw(&[opcode::AUX])?;
        self.encoder.text(name)?;
        self.encoder.text(value)
    }

    /// Writes a library of functions.
    ///
    /// # Errors
    ///
    /// As [`Writer::new`].
    pub fn functions(&mut self, source: &[u8]) -> Result<(), O::Error> {
        self.encoder.raw(&[opcode::FUNCTIONS])?;
        self.encoder.text(source)
    }

    /// Writes the database of the keys that follow, and how many they are.
    ///
    /// # Errors
    ///
    /// As [`Writer::new`].
    pub fn database(&mut self, number: u64, keys: u64, expiring: u64) -> Result<(), O::Error> {
        self.encoder.raw(&[opcode::DATABASE])?;
        self.encoder.length(number)?;
        self.encoder.raw(&[opcode::SIZES])?;
        self.encoder.length(keys)?;
        self.encoder.length(expiring)
    }

    /// Writes the database of the keys that follow, whose size was written before or is not known.
    ///
    /// # Errors
    ///
    /// As [`Writer::new`].
    pub fn select(&mut self, number: u64) -> Result<(), O::Error> {
        self.encoder.raw(&[opcode::DATABASE])?;
        self.encoder.length(number)
    }

    /// Writes what is said of a key, whose value has to be written next, [`Place::Under`] the key.
    ///
    /// [`Place::Under`]: crate::encode::Place::Under
    ///
    /// # Errors
    ///
    /// As [`Writer::new`].
    pub fn value(
        &mut self,
        attributes: KeyAttributes,
    ) -> Result<&mut Encoder<Summed<O>>, O::Error> {
        let KeyAttributes { expires_at_ms, idle_s, frequency } = attributes;
        if let Some(at_ms) = expires_at_ms {
            self.encoder.raw(&[opcode::EXPIRY_MS])?;
            self.encoder.raw(&at_ms.to_le_bytes())?;
        }
        if let Some(idle_s) = idle_s {
            self.encoder.raw(&[opcode::IDLE])?;
            self.encoder.length(idle_s)?;
        }
        if let Some(frequency) = frequency {
            self.encoder.raw(&[opcode::FREQUENCY, frequency])?;
        }
        Ok(&mut self.encoder)
    }

    /// Writes the end and returns the output.
    ///
    /// # Errors
    ///
    /// As [`Writer::new`].
    pub fn end(mut self) -> Result<O, O::Error> {
        self.encoder.raw(&[opcode::END])?;
        let Summed { mut out, checksum } = self.encoder.into_output();
        let checksum = checksum.map_or(0, |checksum| checksum.value());
        out.write(&checksum.to_le_bytes())?;
        Ok(out)
    }
}
