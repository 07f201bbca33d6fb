//! Files: the header, opcodes, keys with their values, and the end.
//!
//! ```text
//! REDIS0011 or VALKEY080 | (opcode ... | attributes, type, key, value) ... | 255 | CRC-64
//! ```

mod reader;
mod writer;

use crate::error::ModuleName;
use crate::value::{Item, ValueEncoding};
use crate::version::Version;

pub use reader::{Progress, Reader};
pub use writer::{KeyAttributes, Summed, Writer};

/// Opcodes, which are stored where a type could be.
pub(crate) mod opcode {
    /// Slots that are being imported; Valkey's only.
    pub(super) const SLOT_IMPORT: u8 = 243;
    pub(super) const SLOT_SIZES: u8 = 244;
    pub(crate) const FUNCTIONS: u8 = 245;
    pub(super) const FUNCTIONS_EARLY: u8 = 246;
    pub(super) const MODULE_DATA: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const AUX: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const EXPIRY_MS: u8 = 252;
    pub(super) const EXPIRY_S: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// Part of a file.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The header.
    Version(Version),
    /// A field about the file. Unknown ones are to be passed over.
    Aux {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The database of the keys that follow. May come again.
    Database(u64),
    /// Keys of the database, as the writer counted: a hint, which may be wrong.
    Sizes {
        /// All keys.
        keys: u64,
        /// Keys with an expiry.
        expiring: u64,
    },
    /// As [`Event::Sizes`], of one slot.
    SlotSizes {
        /// The slot.
        slot: u64,
        /// All keys.
        keys: u64,
        /// Keys with an expiry, or with fields that expire.
        expiring: u64,
    },
    /// The job that imports slots.
    SlotImport(&'a [u8]),
    /// Slots of that job, first and last.
    SlotRange(u64, u64),
    /// Source of a library of functions.
    Functions(&'a [u8]),
    /// Data of a module beside the keys, which was passed over.
    ModuleData(ModuleName),
    /// A key; its value follows.
    Key {
        /// Its name.
        name: &'a [u8],
        /// Encoding of its value.
        encoding: ValueEncoding,
        /// When it expires, as Unix time in milliseconds; may have passed.
        expires_at_ms: Option<i64>,
        /// For how long it was not used, s.
        idle_s: Option<u64>,
        /// Frequency of its use, as `OBJECT FREQ` answers.
        frequency: Option<u8>,
    },
    /// An element of the key's value.
    Item(Item<'a>),
    /// The end of the key's value. Without an item before, the collection is empty.
    KeyEnd,
}
