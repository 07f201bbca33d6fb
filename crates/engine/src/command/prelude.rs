//! Names for files of declarations, flags without their type's name.

pub(crate) use super::arguments::{
    Argument, EX, EXAT, EXPIRY_CONDITION, PX, PXAT, block, double, integer, key, key_of, one_of,
    pattern, string, unix_time, word,
};
pub(crate) use super::declaration::{Categories, Command, Flags, Group, Scope};
pub(crate) use super::keys::{KeyFlags, KeySpec};
pub(crate) use super::touched::{Channels, Databases};

pub(crate) const WRITE: Flags = Flags::WRITE;
pub(crate) const READONLY: Flags = Flags::READONLY;
pub(crate) const DENYOOM: Flags = Flags::DENYOOM;
pub(crate) const ADMIN: Flags = Flags::ADMIN;
pub(crate) const NOSCRIPT: Flags = Flags::NOSCRIPT;
pub(crate) const BLOCKING: Flags = Flags::BLOCKING;
pub(crate) const LOADING: Flags = Flags::LOADING;
pub(crate) const STALE: Flags = Flags::STALE;
pub(crate) const SKIP_SLOWLOG: Flags = Flags::SKIP_SLOWLOG;
pub(crate) const FAST: Flags = Flags::FAST;
pub(crate) const NO_AUTH: Flags = Flags::NO_AUTH;
pub(crate) const NO_ASYNC_LOADING: Flags = Flags::NO_ASYNC_LOADING;
pub(crate) const NO_MULTI: Flags = Flags::NO_MULTI;
pub(crate) const MOVABLEKEYS: Flags = Flags::MOVABLEKEYS;
pub(crate) const ALLOW_BUSY: Flags = Flags::ALLOW_BUSY;
pub(crate) const NO_MANDATORY_KEYS: Flags = Flags::NO_MANDATORY_KEYS;
pub(crate) const MAY_REPLICATE: Flags = Flags::MAY_REPLICATE;
pub(crate) const SEVERAL_CHANGES: Flags = Flags::SEVERAL_CHANGES;
pub(crate) const DISCOVERS_KEYS: Flags = Flags::DISCOVERS_KEYS;
pub(crate) const REGISTERS: Flags = Flags::REGISTERS;
pub(crate) const ASKING: Flags = Flags::ASKING;
pub(crate) const SYSTEM: Flags = Flags::SYSTEM;

pub(crate) const RW: KeyFlags = KeyFlags::RW;
pub(crate) const RO: KeyFlags = KeyFlags::RO;
pub(crate) const OW: KeyFlags = KeyFlags::OW;
pub(crate) const RM: KeyFlags = KeyFlags::RM;
pub(crate) const ACCESS: KeyFlags = KeyFlags::ACCESS;
pub(crate) const UPDATE: KeyFlags = KeyFlags::UPDATE;
pub(crate) const INSERT: KeyFlags = KeyFlags::INSERT;
pub(crate) const DELETE: KeyFlags = KeyFlags::DELETE;
pub(crate) const INCOMPLETE: KeyFlags = KeyFlags::INCOMPLETE;
pub(crate) const VARIABLE_FLAGS: KeyFlags = KeyFlags::VARIABLE_FLAGS;
