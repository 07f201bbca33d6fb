//! Snapshots: the data of a cut as an RDB file.
//!
//! [`write`] turns a cut into the bytes of a file: [`save`] puts them into a file, a replica may be
//! sent them. The walk visits the keyspace in small pieces, so that it holds no lock for longer
//! than copying a few dozen entries takes; what writers hand over meanwhile is written before the
//! next piece.

mod access;
mod commands;
mod output;
mod save;

use std::collections::TryReserveError;
use std::fmt;
use std::io;
use std::thread;

use tidemill_engine::expiry_clock::ExpiryClock;
use tidemill_engine::shared::Shared;
use tidemill_engine::stored::encode::{self, EncodeError, EncodeRules, UseRules};
use tidemill_rdb::Version;
use tidemill_rdb::encode::{Compression, Output, Place};
use tidemill_rdb::file::{KeyAttributes, Writer};
use tidemill_store::{Cut, CutDatabase, EntryRef, Heap, Kind, Walked};

use crate::limits::WALK_PAUSE;
use crate::test_delay::delay;

pub use access::{Alone, Beside, CutAccess};
pub use commands::CommandsOutput;
pub use output::FileOutput;
pub use save::{SaveRules, save, save_nothing, temporary, temporary_empty};

/// Reason why a snapshot was not written.
#[derive(Debug)]
pub enum SnapshotError {
    /// The disk, or whatever takes the bytes, failed.
    Io(io::Error),
    /// There is no memory for a value's stored form.
    Memory,
    /// A key has a value that cannot be stored yet.
    Unsupported {
        /// Type of the value.
        kind: Kind,
        /// The key.
        key: Vec<u8>,
    },
    /// It was cancelled.
    Cancelled,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(error) => write!(formatter, "{error}"),
            SnapshotError::Memory => write!(formatter, "no memory for a value"),
            SnapshotError::Unsupported { kind, key } => {
                let key = key.escape_ascii();
                write!(formatter, "key '{key}' is of type {}, which is not saved yet", kind.name())
            }
            SnapshotError::Cancelled => write!(formatter, "cancelled"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        SnapshotError::Io(error)
    }
}

impl From<TryReserveError> for SnapshotError {
    fn from(_: TryReserveError) -> SnapshotError {
        SnapshotError::Memory
    }
}

/// Purpose of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A save, as [`Shared::snapshots`] knows it.
    Save,
    /// A base of the append-only file, as [`Shared::rewrites`] knows it.
    LogBase,
}

impl Purpose {
    fn is_cancelled(self, shared: &Shared) -> bool {
        match self {
            Purpose::Save => shared.snapshots.is_cancelled(),
            Purpose::LogBase => shared.rewrites.is_cancelled(),
        }
    }

    fn note_held_bytes(self, shared: &Shared, held_bytes_peak: u64) {
        match self {
            Purpose::Save => shared.snapshots.note_held_bytes(held_bytes_peak),
            Purpose::LogBase => shared.rewrites.note_held_bytes(held_bytes_peak),
        }
    }
}

/// Circumstances of a snapshot.
#[derive(Clone, Debug)]
pub struct WriteRules {
    /// Purpose of the snapshot.
    pub purpose: Purpose,
    /// `rdbcompression`.
    pub compression: Compression,
    /// `rdbchecksum`.
    pub has_checksum: bool,
    /// `list-max-listpack-size`.
    pub list_listpack_size_max: i64,
    /// Turns expiries into times of the wall clock.
    pub clock: ExpiryClock,
    /// `rdb-key-save-delay`, for tests: microseconds per key; -N, one in N keys.
    pub key_delay_us: i64,
    /// Rules by which the file says how keys were used.
    pub uses: UseRules,
    /// Fields about the file.
    pub fields: Vec<(&'static str, String)>,
}

impl WriteRules {
    /// The same without what only a file is for: compression and checksum.
    #[must_use]
    pub fn for_commands(mut self) -> WriteRules {
        self.compression = Compression::None;
        self.has_checksum = false;
        self
    }
}

/// Writes a cut as an RDB file. The cut has ended when this returns. Blocks until all is written.
///
/// # Errors
///
/// [`SnapshotError`]; what the output was given is to be thrown away then.
pub fn write<O: Output<Error = SnapshotError>>(
    cut: Cut,
    shared: &Shared,
    access: &mut dyn CutAccess,
    heap: &Heap,
    rules: &WriteRules,
    out: O,
) -> Result<O, SnapshotError> {
    let mut walk = Walk { cut: Some(cut), heap };
    let written = walk.write(shared, access, rules, out);
    drop(walk);
    access.reclaim(heap);
    written
}

/// Writes what is said of the file, and what is no key.
fn begin_file<O: Output<Error = SnapshotError>>(
    libraries: &[Box<[u8]>],
    rules: &WriteRules,
    out: O,
    version: Version,
) -> Result<Writer<O>, SnapshotError> {
    let mut writer = Writer::new(out, version, rules.compression, rules.has_checksum)?;
    for (name, value) in &rules.fields {
        writer.aux(name.as_bytes(), value.as_bytes())?;
    }
    for library in libraries {
        writer.functions(library)?;
    }
    Ok(writer)
}

/// A snapshot without any data.
///
/// # Errors
///
/// There is no memory for it.
pub fn empty(rules: &WriteRules) -> Result<Vec<u8>, SnapshotError> {
    let writer = begin_file(&[], rules, output::Memory::default(), Version::COMMON)?;
    Ok(writer.end()?.0)
}

/// A cut that ends however its writing does.
struct Walk<'h> {
    cut: Option<Cut>,
    heap: &'h Heap,
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        if let Some(cut) = self.cut.take() {
            cut.end(self.heap);
        }
    }
}

impl Walk<'_> {
    fn write<O: Output<Error = SnapshotError>>(
        &mut self,
        shared: &Shared,
        access: &mut dyn CutAccess,
        rules: &WriteRules,
        out: O,
    ) -> Result<O, SnapshotError> {
        let Walk { cut: Some(cut), heap } = self else { unreachable!("it is taken by drop alone") };
        let databases: Vec<CutDatabase> = cut.databases().collect();
        // The oldest version that has all types.
        let has_expiring_fields = databases.iter().any(|database| database.volatile > 0);
        let version = if has_expiring_fields { Version::VALKEY } else { Version::COMMON };
        let writer = begin_file(&shared.snapshots.cut_libraries(), rules, out, version)?;
        let mut keys = Keys { writer, shared, rules, databases, current: None };
        loop {
            cut.begin_batch(heap);
            let walked = access.claim(cut, shared);
            let mut written = Ok(());
            access.offline(&mut || written = keys.batch(cut));
            let is_last = cut.end_batch(heap);
            access.reclaim(heap);
            if let Err(error) = written {
                // Its writer waits for the disk.
                let mut keys = Some(keys);
                access.offline(&mut || drop(keys.take()));
                return Err(error);
            }
            if is_last {
                break;
            }
            if walked == Walked::Waiting {
                access.offline(&mut || thread::sleep(WALK_PAUSE));
            }
        }
        rules.purpose.note_held_bytes(shared, shared.keyspace.cut_held_peak_bytes() as u64);
        let mut writer = Some(keys.writer);
        let mut ended = Err(SnapshotError::Cancelled);
        access.offline(&mut || {
            if let Some(writer) = writer.take() {
                ended = writer.end();
            }
        });
        ended
    }
}

/// Keys on their way into a file.
struct Keys<'w, O> {
    writer: Writer<O>,
    shared: &'w Shared,
    rules: &'w WriteRules,
    /// Databases whose sizes are not written yet.
    databases: Vec<CutDatabase>,
    /// Database of the last key.
    current: Option<usize>,
}

impl<O: Output<Error = SnapshotError>> Keys<'_, O> {
    /// Writes everything that a round has.
    fn batch(&mut self, cut: &Cut) -> Result<(), SnapshotError> {
        if self.rules.purpose.is_cancelled(self.shared) {
            return Err(SnapshotError::Cancelled);
        }
        let mut count = 0;
        for (database, entry) in cut.pre_images().chain(cut.claimed()) {
            self.key(database, entry)?;
            count += 1;
        }
        self.shared.snapshots.count_saved_keys(count);
        Ok(())
    }

    fn key(&mut self, database: usize, entry: EntryRef<'_>) -> Result<(), SnapshotError> {
        if self.current != Some(database) {
            self.select(database)?;
        }
        let clock = self.rules.clock;
        let expires_at_ms = entry
            .expires_at_ms()
            .map(|at_ms| i64::try_from(clock.wall_ms(at_ms)).unwrap_or(i64::MAX));
        let used = self.rules.uses.attributes(entry, clock.now_ms() / 1000);
        let attributes = KeyAttributes { expires_at_ms, ..used };
        let rules = EncodeRules {
            seed: self.shared.keyspace.seed(),
            list_listpack_size_max: self.rules.list_listpack_size_max,
            clock,
        };
        let encoder = self.writer.value(attributes)?;
        encode::value(entry, rules, encoder, Place::Under(entry.key())).map_err(
            |error| match error {
                EncodeError::Output(error) => error,
                EncodeError::Unsupported(kind) => {
                    SnapshotError::Unsupported { kind, key: entry.key().to_vec() }
                }
            },
        )?;
        if self.rules.key_delay_us != 0 {
            let is_cancelled = || self.rules.purpose.is_cancelled(self.shared);
            let is_over = || is_cancelled() || self.shared.settings().key_save_delay_us == 0;
            delay(self.rules.key_delay_us, is_over);
            if is_cancelled() {
                return Err(SnapshotError::Cancelled);
            }
        }
        Ok(())
    }

    fn select(&mut self, number: usize) -> Result<(), SnapshotError> {
        self.current = Some(number);
        let sizes = self.databases.iter().position(|database| database.number == number);
        match sizes.map(|index| self.databases.swap_remove(index)) {
            Some(CutDatabase { keys, expiring, .. }) => {
                self.writer.database(number as u64, keys, expiring)
            }
            None => self.writer.select(number as u64),
        }
    }
}
