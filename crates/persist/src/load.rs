//! Loading of a snapshot into the keyspace.
//!
//! The file is read in chunks by one parser, and keys are inserted by several threads
//! ([`parser`]); a key is in the keyspace once its value is complete.
//! Keys whose time is over are dropped, as a primary does. Whatever is wrong stops the loading,
//! and leaves file and keyspace as they are: what was loaded until then is not to be served.
//!
//! Workers may run meanwhile, which touch no key, for
//! [`Shared::loading`](tidemill_engine::shared::Loading) says that data is being loaded. They may
//! lock slots for a moment, as `WATCH` does.

mod batch;
mod inserter;
mod parser;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use tidemill_engine::expiry_clock::ExpiryClock;
use tidemill_engine::saving::Present;
use tidemill_engine::settings::Settings;
use tidemill_engine::shared::Shared;
use tidemill_engine::stored::DraftError;
use tidemill_rcu::{Domain, Flavour, Limits};
use tidemill_rdb::file::{Progress, Reader};
use tidemill_rdb::{DecodeError, ReadError};
use tidemill_store::Member;

use crate::disk::{Disk, DiskFile};
use crate::limits::LOAD_CHUNK_BYTES;

use inserter::Inserter;
use parser::{Outcome, Parser};

/// Bytes that say of which version a file is.
const HEADER_BYTES: usize = 9;

/// Counts of what a file held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Keys that are in the keyspace now.
    pub keys: u64,
    /// Keys whose time was over.
    pub expired_keys: u64,
    /// Keys of collections without elements, which no server of today writes.
    pub empty_keys: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// Data of modules that was passed over.
    pub module_parts: u64,
    /// Bytes of the file that were read; at its end, its own without what is behind them.
    pub bytes: u64,
}

/// Circumstances of loading.
#[derive(Clone, Copy, Debug)]
pub struct LoadRules<'r> {
    /// Judges expiries.
    pub clock: ExpiryClock,
    /// Thresholds of encodings, and the treatment of unknown versions.
    pub settings: &'r Settings,
    /// True if the checksum at the end is compared.
    pub verifies_checksum: bool,
    /// True if keys are kept whose time is over: what comes behind the file deletes them.
    pub keeps_expired: bool,
    /// Treatment of keys and libraries that there are already.
    pub present: Present,
}

/// Reason why a file cannot be loaded.
#[derive(Debug)]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub fault: LoadFault,
}

/// Fault that ended the loading of a file.
#[derive(Debug)]
pub enum LoadFault {
    /// It cannot be read.
    Io(io::Error),
    /// Its bytes are wrong.
    Decode(DecodeError),
    /// A key of it cannot be had; the offset is that of a byte at most one chunk ahead.
    Key {
        /// Its name.
        name: Vec<u8>,
        /// Its database.
        database: usize,
        /// Offset up to which the file had been read.
        before_offset: u64,
        /// Reason.
        error: DraftError,
    },
    /// The server stops.
    Stopped,
    /// There is no thread that inserts.
    Threads(io::Error),
    /// A library of functions cannot be made: the text of the error.
    Library(Vec<u8>),
    /// There is no memory for a string.
    NoMemory {
        /// Its bytes.
        bytes: usize,
    },
    /// It has a database that this server does not have.
    Database {
        /// The number of the database.
        number: u64,
        /// Number of the server's databases.
        count: usize,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.path.display())?;
        match &self.fault {
            LoadFault::Io(error) => write!(
                formatter,
                "cannot be read: {error}. Give the server's user access to it, or move it away to \
                 start without its data"
            ),
            LoadFault::Decode(error) => write!(
                formatter,
                "{error}. {} Nothing was changed: restore the file from a copy (`tidemill \
                 check-rdb` tells what can be read of it), or move it away to start without its \
                 data",
                summary(error)
            ),
            LoadFault::Key { name, database, before_offset, error } => {
                let why = match error {
                    DraftError::Malformed => "has an element twice",
                    DraftError::TooLong => "has an element of more than 1 GiB",
                    DraftError::Duplicate => "is there twice",
                };
                let name = name.escape_ascii();
                write!(
                    formatter,
                    "before offset {before_offset}: key '{name}' in database {database} {why}. \
                     Nothing was changed: load the file with the server that wrote it, or move it \
                     away to start without its data"
                )
            }
            LoadFault::Threads(error) => write!(formatter, "cannot be loaded: {error}"),
            LoadFault::Library(text) => write!(
                formatter,
                "Failed creating function, {}. Nothing was changed: load the file with the server \
                 that wrote it, or move it away to start without its data",
                text.escape_ascii()
            ),
            LoadFault::NoMemory { bytes } => write!(
                formatter,
                "has a string of {bytes} bytes, for which there is no memory. Nothing was changed: \
                 load it where there is more"
            ),
            LoadFault::Stopped => write!(formatter, "the server stops while it is loaded"),
            LoadFault::Database { number, count } => write!(
                formatter,
                "has keys in database {number}, but there are {count} databases. Set `databases` \
                 to {} or more",
                number.saturating_add(1)
            ),
        }
    }
}

impl std::error::Error for LoadError {}

impl LoadError {
    /// Last words about a file for the log, as Valkey has them: those that are no snapshot, of a
    /// version that is not read, and damaged ones.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match &self.fault {
            LoadFault::Decode(
                DecodeError::NotRdb { .. }
                | DecodeError::UnknownVersion { .. }
                | DecodeError::UnknownType { .. },
            )
            | LoadFault::Io(_)
            | LoadFault::Threads(_)
            | LoadFault::Stopped => "Fatal error loading the DB, check server logs. Exiting.",
            _ => "Terminating server after rdb file reading failure.",
        }
    }
}

/// Summary of a fault in the words of Valkey's log, which operators look for.
fn summary(error: &DecodeError) -> String {
    match error {
        DecodeError::NotRdb { .. } => "Wrong signature trying to load DB from file.".into(),
        DecodeError::UnknownVersion { found, .. } => {
            format!("Can't handle RDB format version {found}.")
        }
        DecodeError::UnknownType { found, version, .. } if version.is_foreign() => {
            let number = version.0;
            format!("Can't handle foreign type or opcode {found} in RDB with version {number}.")
        }
        DecodeError::UnknownType { .. } => {
            "Unknown type or opcode when loading DB. Unrecoverable error, aborting now.".into()
        }
        DecodeError::Truncated { .. } => "Unexpected EOF reading RDB file.".into(),
        DecodeError::Checksum { .. } => "RDB CRC error.".into(),
        DecodeError::Malformed { .. } => "RDB integrity check failed.".into(),
        DecodeError::ModuleValue { .. } => "The RDB file contains module data.".into(),
        DecodeError::NoMemory { .. } => "OOM loading DB.".into(),
    }
}

/// Opens a file to be loaded; none when it is absent.
///
/// # Errors
///
/// [`LoadFault::Io`].
pub fn open(disk: &dyn Disk, path: &Path) -> Result<Option<Box<dyn DiskFile>>, LoadError> {
    match disk.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LoadError { path: path.to_owned(), fault: LoadFault::Io(error) }),
    }
}

/// Looks whether a file begins as one of a version that is read.
///
/// # Errors
///
/// [`LoadError`].
pub fn check_version(
    file: &dyn DiskFile,
    path: &Path,
    rules: LoadRules<'_>,
) -> Result<(), LoadError> {
    let failed = |fault| LoadError { path: path.to_owned(), fault };
    let mut header = [0; HEADER_BYTES];
    let count = read(file, &mut header, 0).map_err(|error| failed(LoadFault::Io(error)))?;
    let mut reader = Reader::new(rules.settings.version_check, false);
    match reader.feed(&header[..count], |_| Ok::<(), Infallible>(())) {
        Ok(_) => Ok(()),
        Err(ReadError::Decode(error)) => Err(failed(LoadFault::Decode(error))),
        Err(ReadError::Sink(never)) => match never {},
    }
}

/// Loads a file up to its end, which need not be that of its bytes: [`Loaded::bytes`]. The calling
/// thread, which is no member, parses, and others insert. Blocks until all is loaded, and tells
/// `progress` the bytes read and the keys found so far.
///
/// # Errors
///
/// [`LoadError`]; keys before the fault are loaded then.
pub fn load<F: Flavour>(
    file: &dyn DiskFile,
    path: &Path,
    (shared, domain): (&Shared, &Arc<Domain<F>>),
    rules: LoadRules<'_>,
    inserter_count: usize,
    progress: &mut dyn FnMut(Loaded),
) -> Result<Loaded, LoadError> {
    let failed = |fault| LoadError { path: path.to_owned(), fault };
    let mut member = join(shared, domain).map_err(failed)?;
    load_by(file, (shared, domain), &mut member, rules, inserter_count, progress).map_err(failed)
}

/// Makes the calling thread a member.
fn join<F: Flavour>(shared: &Shared, domain: &Arc<Domain<F>>) -> Result<Member<F>, LoadFault> {
    shared.keyspace.join(domain).map_err(|error| LoadFault::Threads(io::Error::other(error)))
}

/// As [`load`], by a thread that is a member.
fn load_by<F: Flavour>(
    file: &dyn DiskFile,
    (shared, domain): (&Shared, &Arc<Domain<F>>),
    member: &mut Member<F>,
    rules: LoadRules<'_>,
    inserter_count: usize,
    progress: &mut dyn FnMut(Loaded),
) -> Result<Loaded, LoadFault> {
    let outcome = Outcome::default();
    let heap = member.heap(Limits::default());
    let parsed = thread::scope(|scope| {
        let own = Inserter::new(shared, member, &heap, rules);
        let count = inserter_count.max(1);
        let mut parser = Parser::new(scope, (shared, domain), rules, count, own, &outcome)?;
        let parsed = parse(file, shared, &mut parser, progress).and_then(|()| parser.finish());
        parser.close();
        parsed.map(|()| parser.loaded)
    });
    // An inserter's fault is the cause of what the parser met.
    if let Some(fault) = outcome.take_fault() {
        return Err(fault);
    }
    let inserted = outcome.loaded();
    Ok(Loaded { keys: inserted.keys, empty_keys: inserted.empty_keys, ..parsed? })
}

/// Reads a file to its end.
fn parse<F: Flavour>(
    file: &dyn DiskFile,
    shared: &Shared,
    parser: &mut Parser<'_, F>,
    progress: &mut dyn FnMut(Loaded),
) -> Result<(), LoadFault> {
    let settings = shared.settings();
    let rules = parser.rules();
    let mut reader = Reader::new(rules.settings.version_check, rules.verifies_checksum);
    let mut buffer = vec![0; LOAD_CHUNK_BYTES];
    let mut key_delay_us = settings.key_load_delay_us;
    loop {
        parser.check()?;
        parser.key_delay_us = key_delay_us;
        let position = parser.loaded.bytes;
        let count = parser.own.member.offline(|| read(file, &mut buffer, position));
        let count = count.map_err(LoadFault::Io)?;
        if count == 0 {
            reader.end().map_err(LoadFault::Decode)?;
        }
        parser.loaded.bytes += count as u64;
        match reader.feed(&buffer[..count], |event| parser.take(event)) {
            Ok(Progress::More) => progress(parser.loaded),
            Ok(Progress::Done { behind }) => {
                parser.loaded.bytes -= behind as u64;
                progress(parser.loaded);
                return Ok(());
            }
            Err(ReadError::Decode(error)) => return Err(LoadFault::Decode(error)),
            Err(ReadError::Sink(fault)) => return Err(fault),
        }
        key_delay_us = shared.settings().key_load_delay_us;
    }
}

fn read(file: &dyn DiskFile, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, position) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
