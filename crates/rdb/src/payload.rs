//! Payloads of `DUMP` and `RESTORE`: one value with its type, a version and a checksum.
//!
//! ```text
//! type | value | version: u16 | CRC-64 of all before
//! ```

use std::collections::TryReserveError;

use itoa::Buffer;

use crate::checksum::Checksum;
use crate::cursor::{Cursor, Fault};
use crate::encode::{Compression, Compressor, Encoder, Place};
use crate::error::{DecodeError, ModuleName, ReadError};
use crate::file::opcode;
use crate::limits::VALKEY_VERSION;
use crate::value::{Item, MODULE_TYPES, Stop, ValueDecoder, ValueEncoding};
use crate::version::{Version, VersionCheck};

const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;
const TYPE_BYTES: usize = 1;
/// Bytes of a payload besides its value: type, version and checksum.
pub const FRAME_BYTES: usize = TYPE_BYTES + VERSION_BYTES + CHECKSUM_BYTES;

/// A payload whose version and checksum are right.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'p> {
    body: &'p [u8],
    version: Version,
}

impl<'p> Payload<'p> {
    /// Checks version and checksum, as `RESTORE` does; the checksum unless `verifies_checksum` is
    /// false.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`], [`DecodeError::UnknownVersion`] or [`DecodeError::Checksum`].
    /// Versions that only Redis uses are refused unless the check is relaxed.
    pub fn new(
        bytes: &'p [u8],
        check: VersionCheck,
        verifies_checksum: bool,
    ) -> Result<Payload<'p>, DecodeError> {
        let expected = "a version and a checksum";
        let truncated = || DecodeError::Truncated { offset: bytes.len() as u64, expected };
        let (checked, stored) = bytes.split_last_chunk().ok_or_else(truncated)?;
        let (body, version) = checked.split_last_chunk().ok_or_else(truncated)?;
        let number = u16::from_le_bytes(*version);
        let version = Version(number);
        let is_refused = version.is_foreign() || number > VALKEY_VERSION;
        if check == VersionCheck::Strict && is_refused {
            let offset = body.len() as u64;
            return Err(DecodeError::UnknownVersion { offset, found: number.into() });
        }
        let (expected, found) = (Checksum::of(checked), u64::from_le_bytes(*stored));
        if verifies_checksum && expected != found {
            let offset = checked.len() as u64;
            return Err(DecodeError::Checksum { offset, expected, found });
        }
        Ok(Payload { body, version })
    }

    /// The version.
    #[must_use]
    pub fn version(self) -> Version {
        self.version
    }

    /// The type number as it is stored.
    #[must_use]
    pub fn type_number(self) -> Option<u8> {
        self.body.first().copied()
    }

    /// Encoding of the value.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownType`], [`DecodeError::ModuleValue`] or [`DecodeError::Truncated`].
    pub fn encoding(self) -> Result<ValueEncoding, DecodeError> {
        self.begin(&mut Cursor::new(self.body, 0))
    }

    /// Number of the nodes of a list that is stored in nodes, or of the members of a set that are
    /// not packed; as the payload claims.
    #[must_use]
    pub fn claimed_count(self) -> Option<u64> {
        let mut cursor = Cursor::new(self.body, 0);
        match self.begin(&mut cursor) {
            Ok(
                ValueEncoding::ListOfZiplists | ValueEncoding::ListOfListpacks | ValueEncoding::Set,
            ) => cursor.count("a count").ok(),
            _ => None,
        }
    }

    fn begin(self, cursor: &mut Cursor<'_>) -> Result<ValueEncoding, DecodeError> {
        let end = self.body.len() as u64;
        let number = cursor.byte("a type of value").map_err(ended(end))?;
        if MODULE_TYPES.contains(&number) {
            let module = ModuleName(cursor.count("the name of a module").map_err(ended(end))?);
            return Err(DecodeError::ModuleValue { offset: 0, module, key: Vec::new() });
        }
        let unknown = DecodeError::UnknownType { offset: 0, found: number, version: self.version };
        ValueEncoding::of(self.version, number).ok_or(unknown)
    }

    /// Sources of the libraries in a payload of `FUNCTION DUMP`; none when it is of anything else.
    #[must_use]
    pub fn functions(self) -> Option<Vec<Vec<u8>>> {
        let mut cursor = Cursor::new(self.body, 0);
        let mut sources = Vec::new();
        while cursor.consumed() < self.body.len() {
            if cursor.byte("a library of functions").ok()? != opcode::FUNCTIONS {
                return None;
            }
            let (mut scratch, mut digits) = (Vec::new(), Buffer::new());
            let source = cursor.string(&mut scratch, "a library of functions").ok()?;
            sources.push(source.bytes(&mut digits).to_vec());
        }
        Some(sources)
    }

    /// Delivers the value, element by element. Bytes behind it are passed over, as in Valkey.
    ///
    /// # Errors
    ///
    /// Any error; those of the sink as [`ReadError::Sink`].
    pub fn decode<E>(
        self,
        mut sink: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), ReadError<E>> {
        let end = self.body.len() as u64;
        let mut cursor = Cursor::new(self.body, 0);
        let mut decoder = ValueDecoder::new(self.begin(&mut cursor)?);
        loop {
            match decoder.step(&mut cursor, &mut sink) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Stop::Fault(fault)) => return Err(ended(end)(fault).into()),
                Err(Stop::Sink(error)) => return Err(ReadError::Sink(error)),
            }
        }
    }
}

/// The error of a fault in input that is complete.
fn ended(end: u64) -> impl Fn(Fault) -> DecodeError {
    move |fault| match fault {
        Fault::Short { expected, .. } => DecodeError::Truncated { offset: end, expected },
        Fault::Wrong(error) => error,
    }
}

/// Payload of a value that `write` writes. The compressor is for its long strings: a table takes
/// longer to make than a short value to encode.
///
/// # Errors
///
/// Those of `write`, and when there is no memory for it.
pub fn encode<E: From<TryReserveError>>(
    compression: Compression,
    compressor: &mut Compressor,
    write: impl FnOnce(&mut Encoder<Vec<u8>>, Place<'_>) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let taken = std::mem::take(compressor);
    let mut encoder = Encoder::with_compressor(Vec::new(), compression, taken);
    let written = write(&mut encoder, Place::Payload);
    let payload;
    (payload, *compressor) = encoder.into_parts();
    written?;
    Ok(sealed(payload)?)
}

/// Payload of libraries of functions, given by their sources, as `FUNCTION DUMP` answers it.
///
/// # Errors
///
/// When there is no memory for it.
pub fn encode_functions<'s>(
    compression: Compression,
    sources: impl IntoIterator<Item = &'s [u8]>,
) -> Result<Vec<u8>, TryReserveError> {
    let mut encoder = Encoder::new(Vec::new(), compression);
    for source in sources {
        encoder.raw(&[opcode::FUNCTIONS])?;
        encoder.text(source)?;
    }
    sealed(encoder.into_output())
}

/// Payload of what was written, with version and checksum.
fn sealed(mut payload: Vec<u8>) -> Result<Vec<u8>, TryReserveError> {
    payload.try_reserve(VERSION_BYTES + CHECKSUM_BYTES)?;
    payload.extend_from_slice(&VALKEY_VERSION.to_le_bytes());
    let checksum = Checksum::of(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    Ok(payload)
}
