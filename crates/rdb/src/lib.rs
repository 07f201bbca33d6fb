//! RDB, the format of snapshots and of `DUMP` payloads, decoded and encoded without I/O.
//!
//! A file is decoded by a [`file::Reader`], which is fed chunks, a payload by
//! [`payload::decode`]. Both deliver a value element by element to a closure, so that a hash of a
//! million fields is never held twice. All versions and encodings of Redis up to 7.4 and of Valkey
//! up to 9.1 are understood; a type number that the two forks use differently is read by the
//! version of the file or payload. [`encode::Encoder`] writes what Valkey 9.1 writes, byte for
//! byte where its answer does not depend on the history of the value.
//!
//! Input is hostile: any bytes give values or a [`DecodeError`], and allocations are bounded by a
//! constant times what has arrived ([`limits`]). Every listpack, ziplist, zipmap and intset is
//! checked completely, since its elements are copied out anyhow.
//!
//! To add an encoding of a value: a line in `kinds!` (`value/kind.rs`), its stage in
//! `value/decoder.rs`, and its writer in `encode/`.
//!
//! Not part of this crate: files, sockets, clocks, expiry, keys that occur twice, and the judgement
//! which encoding a value has in memory.

mod checksum;
mod cursor;
pub mod encode;
mod error;
pub mod file;
pub mod limits;
mod lzf;
mod packed;
pub mod payload;
mod text;
pub mod value;
mod version;

pub use checksum::Checksum;
pub use error::{DecodeError, ModuleName, ReadError};
pub use text::Text;
pub use version::{Fork, Version, VersionCheck};
