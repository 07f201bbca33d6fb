//! Values as Valkey 9.1 writes them.
//!
//! An [`Encoder`] puts a value into an [`Output`]: a buffer, or whatever takes bytes in their
//! order. Which encoding a value gets is the caller's judgement, by what `OBJECT ENCODING` answers.

mod collection;
mod stream;

use std::collections::TryReserveError;

use tidemill_resp::number::parse_integer;

use crate::limits::{INTEGER_TEXT_BYTES_MAX, UNCOMPRESSED_BYTES_MAX};
use crate::value::ValueEncoding;

pub use crate::lzf::Compressor;
pub use collection::NodeLimit;
pub use stream::StreamListpack;

/// Target of encoded bytes.
pub trait Output {
    /// Reason why bytes are not taken.
    type Error;

    /// Takes bytes that follow those before.
    ///
    /// # Errors
    ///
    /// When they are not taken; the output is of no use then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

impl Output for Vec<u8> {
    type Error = TryReserveError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), TryReserveError> {
        self.try_reserve(bytes.len())?;
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Choice of `rdbcompression`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// All are written as they are.
    None,
    /// Long ones that become shorter are compressed.
    Lzf,
}

/// Place of a value: what is between its type and its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'k> {
    /// A payload: nothing.
    Payload,
    /// A file: the key.
    Under(&'k [u8]),
}

/// Encoder of values.
#[derive(Debug)]
pub struct Encoder<O> {
    out: O,
    compression: Compression,
    compressor: Compressor,
    compressed: Vec<u8>,
}

impl<O> Encoder<O> {
    /// For an output.
    pub fn new(out: O, compression: Compression) -> Encoder<O> {
        Encoder::with_compressor(out, compression, Compressor::default())
    }

    /// For an output, with a compressor that was in use before.
    pub(crate) fn with_compressor(
        out: O,
        compression: Compression,
        compressor: Compressor,
    ) -> Encoder<O> {
        Encoder { out, compression, compressor, compressed: Vec::new() }
    }

    pub(crate) fn into_parts(self) -> (O, Compressor) {
        (self.out, self.compressor)
    }

    /// Ends the encoding.
    pub fn into_output(self) -> O {
        self.out
    }
}

impl<O: Output<Error: From<TryReserveError>>> Encoder<O> {
    /// Writes a string.
    ///
    /// # Errors
    ///
    /// Those of the output, or no memory for compression; as all functions here.
    pub fn string(&mut self, place: Place<'_>, value: &[u8]) -> Result<(), O::Error> {
        self.begin(ValueEncoding::String, place)?;
        self.text(value)
    }

    pub(crate) fn begin(
        &mut self,
        encoding: ValueEncoding,
        place: Place<'_>,
    ) -> Result<(), O::Error> {
        self.raw(&[encoding.number()])?;
        match place {
            Place::Payload => Ok(()),
            Place::Under(key) => self.text(key),
        }
    }

    /// Writes bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        self.out.write(bytes)
    }

    /// Writes a length in as few bytes as possible.
    pub(crate) fn length(&mut self, length: u64) -> Result<(), O::Error> {
        match length {
            0..=0x3f => self.raw(&[length as u8]),
            0x40..=0x3fff => self.raw(&(length as u16 | 0x4000).to_be_bytes()),
            _ => match u32::try_from(length) {
                Ok(length) => {
                    self.raw(&[0x80])?;
                    self.raw(&length.to_be_bytes())
                }
                Err(_) => {
                    self.raw(&[0x81])?;
                    self.raw(&length.to_be_bytes())
                }
            },
        }
    }

    /// Writes a text: as an integer or compressed, if that is shorter.
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<(), O::Error> {
        if text.len() <= INTEGER_TEXT_BYTES_MAX
            && let Some(value) = parse_integer(text)
            && let Ok(value) = i32::try_from(value)
        {
            return self.integer(value);
        }
        if self.compression == Compression::Lzf && text.len() > UNCOMPRESSED_BYTES_MAX {
            let mut compressed = std::mem::take(&mut self.compressed);
            let is_shorter = self.compressor.compress(text, &mut compressed)?;
            if is_shorter {
                self.raw(&[0xc3])?;
                self.length(compressed.len() as u64)?;
                self.length(text.len() as u64)?;
                self.raw(&compressed)?;
            }
            self.compressed = compressed;
            if is_shorter {
                return Ok(());
            }
        }
        self.length(text.len() as u64)?;
        self.raw(text)
    }

    fn integer(&mut self, value: i32) -> Result<(), O::Error> {
        let bytes = value.to_le_bytes();
        let (head, width) = match value {
            -0x80..=0x7f => (0xc0, 1),
            -0x8000..=0x7fff => (0xc1, 2),
            _ => (0xc2, 4),
        };
        self.raw(&[head])?;
        self.raw(&bytes[..width])
    }
}
