//! The reader of a file that arrives in chunks.

use std::mem;

use itoa::Buffer;

use super::{Event, opcode};
use crate::checksum::Checksum;
use crate::cursor::{Cursor, Fault};
use crate::error::{DecodeError, ModuleName, ReadError};
use crate::limits::{CHECKSUM_VERSION_MIN, IDLE_BUFFER_BYTES_MAX};
use crate::text::Text;
use crate::value::{MODULE_TYPES, Stop, ValueDecoder, ValueEncoding};
use crate::version::{Fork, Version, VersionCheck};

/// State of a file after a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The file goes on.
    More,
    /// The file has ended; bytes of the last chunk that are behind it, as the commands of an
    /// append-only file.
    Done {
        /// Number of those bytes.
        behind: usize,
    },
}

/// Part of a file that is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    /// An opcode, or the type of a key's value.
    Opcode,
    Value,
    SlotRanges {
        left: u64,
    },
    ModuleData,
    Footer,
    Done,
}

/// Attributes of the next key, from the opcodes before it.
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    expires_at_ms: Option<i64>,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

/// Reader of one file. Holds the bytes of an element that has not arrived completely, nothing more.
#[derive(Debug)]
pub struct Reader {
    check: VersionCheck,
    verifies_checksum: bool,
    version: Version,
    stage: Stage,
    attributes: Attributes,
    value: ValueDecoder,
    checksum: Checksum,
    /// Bytes that have arrived and were not read.
    buffer: Vec<u8>,
    /// Offset of the first of them.
    offset: u64,
    /// Bytes that have to arrive before reading can go on.
    missing: u64,
    expected: &'static str,
    scratch: [Vec<u8>; 2],
}

type Step = Result<Stage, Fault>;

impl Reader {
    /// For a file that begins with the next chunk. Without `verifies_checksum` the checksum at its
    /// end is passed over.
    #[must_use]
    pub fn new(check: VersionCheck, verifies_checksum: bool) -> Reader {
        Reader {
            check,
            verifies_checksum,
            version: Version::COMMON,
            stage: Stage::Header,
            attributes: Attributes::default(),
            value: ValueDecoder::new(ValueEncoding::String),
            checksum: Checksum::default(),
            buffer: Vec::new(),
            offset: 0,
            missing: 0,
            expected: "the header of a file",
            scratch: [Vec::new(), Vec::new()],
        }
    }

    /// Reads on and gives the sink all that is complete.
    ///
    /// # Errors
    ///
    /// The fault of the file, or the sink's error; the reader is of no use then.
    pub fn feed<E>(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Progress, ReadError<E>> {
        let mut rest = chunk;
        // Bytes that were kept are completed by those that they lack and no more: all behind those
        // is read in place, without a copy.
        while !self.buffer.is_empty() {
            let lacking = usize::try_from(self.missing).unwrap_or(usize::MAX);
            let (added, behind) = rest.split_at(lacking.min(rest.len()));
            self.keep(added)?;
            self.missing -= added.len() as u64;
            if self.missing > 0 {
                return Ok(Progress::More);
            }
            rest = behind;
            let mut buffer = mem::take(&mut self.buffer);
            let consumed = self.read(&buffer, &mut sink)?;
            if self.stage == Stage::Done {
                return Ok(Progress::Done { behind: buffer.len() - consumed + rest.len() });
            }
            buffer.drain(..consumed);
            if buffer.is_empty() {
                buffer.shrink_to(IDLE_BUFFER_BYTES_MAX);
            }
            self.buffer = buffer;
        }
        let consumed = self.read(rest, &mut sink)?;
        if self.stage == Stage::Done {
            return Ok(Progress::Done { behind: rest.len() - consumed });
        }
        self.keep(&rest[consumed..])?;
        Ok(Progress::More)
    }

    /// The error of a file that ends with the last chunk.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] unless the end was there.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.stage == Stage::Done {
            return Ok(());
        }
        let offset = self.offset + self.buffer.len() as u64;
        Err(DecodeError::Truncated { offset, expected: self.expected })
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let no_memory =
            |_| DecodeError::NoMemory { offset: self.offset, bytes: bytes.len() as u64 };
        self.buffer.try_reserve(bytes.len()).map_err(no_memory)?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Reads what is complete, and returns how many bytes that is.
    fn read<E>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<usize, ReadError<E>> {
        let mut cursor = Cursor::new(bytes, self.offset);
        let mut summed = 0;
        self.missing = 0;
        while self.stage != Stage::Done {
            let start = cursor.consumed();
            if self.stage == Stage::Footer && self.version.0 >= CHECKSUM_VERSION_MIN {
                self.checksum.update(&bytes[summed..start]);
                summed = start;
            }
            match self.step(&mut cursor, sink) {
                Ok(stage) => self.stage = stage,
                Err(Stop::Sink(error)) => return Err(ReadError::Sink(error)),
                Err(Stop::Fault(Fault::Wrong(error))) => return Err(error.into()),
                Err(Stop::Fault(Fault::Short { missing, expected })) => {
                    cursor.rewind(start);
                    (self.missing, self.expected) = (missing, expected);
                    break;
                }
            }
        }
        let consumed = cursor.consumed();
        if self.stage != Stage::Footer {
            self.checksum.update(&bytes[summed..consumed]);
        }
        self.offset += consumed as u64;
        Ok(consumed)
    }

    fn step<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Stage, Stop<E>> {
        match self.stage {
            Stage::Header => {
                self.version = self.header(cursor)?;
                sink(Event::Version(self.version)).map_err(Stop::Sink)?;
                Ok(Stage::Opcode)
            }
            Stage::Opcode => self.opcode(cursor, sink),
            Stage::Value => {
                let is_complete = self.value.step(cursor, &mut |item| sink(Event::Item(item)))?;
                if !is_complete {
                    return Ok(Stage::Value);
                }
                sink(Event::KeyEnd).map_err(Stop::Sink)?;
                Ok(Stage::Opcode)
            }
            Stage::SlotRanges { left: 0 } => Ok(Stage::Opcode),
            Stage::SlotRanges { left } => {
                let first = cursor.count("the first slot of a range")?;
                let last = cursor.count("the last slot of a range")?;
                sink(Event::SlotRange(first, last)).map_err(Stop::Sink)?;
                Ok(Stage::SlotRanges { left: left - 1 })
            }
            Stage::ModuleData => Ok(module_data(cursor)?),
            Stage::Footer => Ok(self.footer(cursor)?),
            Stage::Done => Ok(Stage::Done),
        }
    }

    fn header(&self, cursor: &mut Cursor<'_>) -> Result<Version, Fault> {
        const HEADER_BYTES: u64 = 9;
        const MAGICS: [&[u8]; 2] = [b"REDIS", b"VALKEY"];
        let start = cursor.offset();
        let header = cursor.take(HEADER_BYTES, "the header of a file")?;
        let magic = MAGICS.into_iter().find(|magic| header.starts_with(magic));
        let Some(magic) = magic else {
            return Err(DecodeError::NotRdb { offset: start, found: header[0] }.into());
        };
        let offset = start + magic.len() as u64;
        let mut number = 0;
        for &digit in &header[magic.len()..] {
            if !digit.is_ascii_digit() {
                return Err(DecodeError::NotRdb { offset, found: digit }.into());
            }
            number = number * 10 + u16::from(digit - b'0');
        }
        let version = Version(number);
        let is_read = version.is_known() || self.check == VersionCheck::Relaxed;
        if number == 0 || version.magic() != magic || !is_read {
            return Err(DecodeError::UnknownVersion { offset, found: number.into() }.into());
        }
        Ok(version)
    }

    fn opcode<E>(
        &mut self,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Stage, Stop<E>> {
        let offset = cursor.offset();
        let number = cursor.byte("an opcode, or the type of a value")?;
        match number {
            opcode::EXPIRY_S => {
                let at_s = i32::from_le_bytes(cursor.array("an expiry in seconds")?);
                self.attributes.expires_at_ms = Some(i64::from(at_s) * 1000);
            }
            opcode::EXPIRY_MS => {
                self.attributes.expires_at_ms = Some(cursor.milliseconds("an expiry")?);
            }
            opcode::FREQUENCY => self.attributes.frequency = Some(cursor.byte("a frequency")?),
            opcode::IDLE => self.attributes.idle_s = Some(cursor.count("an idle time")?),
            opcode::END => return Ok(Stage::Footer),
            opcode::MODULE_DATA => {
                let module = ModuleName(cursor.count("the name of a module")?);
                module_number(cursor)?;
                sink(Event::ModuleData(module)).map_err(Stop::Sink)?;
                return Ok(Stage::ModuleData);
            }
            opcode::SLOT_IMPORT if self.version.fork() == Fork::Valkey => {
                let (job, left) = {
                    let job = cursor.string(&mut self.scratch[0], "the name of an import")?;
                    (job, cursor.count("the count of slot ranges")?)
                };
                let mut digits = Buffer::new();
                sink(Event::SlotImport(job.bytes(&mut digits))).map_err(Stop::Sink)?;
                return Ok(Stage::SlotRanges { left });
            }
            opcode::AUX
            | opcode::FUNCTIONS
            | opcode::DATABASE
            | opcode::SIZES
            | opcode::SLOT_SIZES => self.about_file(number, cursor, sink)?,
            opcode::FUNCTIONS_EARLY => {
                let expected = "functions as Redis 7.0 writes them";
                return Err(DecodeError::malformed(offset, expected, number.into()).into());
            }
            _ => return self.key(number, offset, cursor, sink),
        }
        Ok(Stage::Opcode)
    }

    fn about_file<E>(
        &mut self,
        number: u8,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let [first, second] = &mut self.scratch;
        let (mut digits, mut more_digits) = (Buffer::new(), Buffer::new());
        let event = match number {
            opcode::AUX => {
                let name = cursor.string(first, "the name of a field about the file")?;
                let value = cursor.string(second, "the value of a field about the file")?;
                let value = value.bytes(&mut more_digits);
                Event::Aux { name: name.bytes(&mut digits), value }
            }
            opcode::FUNCTIONS => {
                let functions = cursor.string(first, "a library of functions")?;
                Event::Functions(functions.bytes(&mut digits))
            }
            opcode::DATABASE => Event::Database(cursor.count("the number of a database")?),
            opcode::SIZES => {
                let keys = cursor.count("the count of keys")?;
                Event::Sizes { keys, expiring: cursor.count("the count of expiries")? }
            }
            _ => {
                let slot = cursor.count("the number of a slot")?;
                let keys = cursor.count("the count of keys")?;
                Event::SlotSizes { slot, keys, expiring: cursor.count("the count of expiries")? }
            }
        };
        sink(event).map_err(Stop::Sink)
    }

    fn key<E>(
        &mut self,
        number: u8,
        offset: u64,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Stage, Stop<E>> {
        let is_module = MODULE_TYPES.contains(&number);
        let encoding = ValueEncoding::of(self.version, number);
        if encoding.is_none() && !is_module {
            return Err(
                DecodeError::UnknownType { offset, found: number, version: self.version }.into()
            );
        }
        let mut digits = Buffer::new();
        let name: Text<'_> = cursor.string(&mut self.scratch[0], "a key")?;
        let name = name.bytes(&mut digits);
        let Some(encoding) = encoding else {
            let module = ModuleName(cursor.count("the name of a module")?);
            let error = DecodeError::ModuleValue { offset, module, key: Vec::new() };
            return Err(error.of_key(name).into());
        };
        let Attributes { expires_at_ms, idle_s, frequency } = mem::take(&mut self.attributes);
        let event = Event::Key { name, encoding, expires_at_ms, idle_s, frequency };
        sink(event).map_err(Stop::Sink)?;
        self.value.begin(encoding);
        Ok(Stage::Value)
    }

    fn footer(&mut self, cursor: &mut Cursor<'_>) -> Step {
        if self.version.0 < CHECKSUM_VERSION_MIN {
            return Ok(Stage::Done);
        }
        let offset = cursor.offset();
        let found = u64::from_le_bytes(cursor.array("a checksum")?);
        let expected = self.checksum.value();
        // A file without a checksum has a zero.
        if self.verifies_checksum && found != 0 && found != expected {
            return Err(DecodeError::Checksum { offset, expected, found }.into());
        }
        Ok(Stage::Done)
    }
}

/// Passes one value in the data of a module.
fn module_data(cursor: &mut Cursor<'_>) -> Step {
    let (end, strings, float, double) = (0, 5, 3, 4);
    let offset = cursor.offset();
    match cursor.count("the type of a value of a module")? {
        kind if kind == end => return Ok(Stage::Opcode),
        1 | 2 => drop(cursor.count("a number of a module")?),
        kind if kind == float => drop(cursor.take(4, "a number of a module")?),
        kind if kind == double => drop(cursor.take(8, "a number of a module")?),
        kind if kind == strings => cursor.skip_string("a string of a module")?,
        other => {
            let expected = "the type of a value of a module";
            return Err(DecodeError::malformed(offset, expected, other).into());
        }
    }
    Ok(Stage::ModuleData)
}

/// Passes the number that says when a module's data is to be loaded.
fn module_number(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    let offset = cursor.offset();
    let kind = cursor.count("the type of a value of a module")?;
    if kind != 2 {
        let expected = "a number that says when to load";
        return Err(DecodeError::malformed(offset, expected, kind).into());
    }
    cursor.count("a number that says when to load").map(drop)
}
