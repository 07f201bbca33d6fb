//! Loading of a snapshot into the keyspace.
//!
//! The file is read in chunks by one parser; a key is in the keyspace once its value is complete.
//! Keys whose time is over are dropped, as a primary does. Whatever is wrong stops the loading,
//! and leaves file and keyspace as they are: what was loaded until then is not to be served.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tidemill_engine::access::section::ReadSide;
use tidemill_engine::expiry_clock::ExpiryClock;
use tidemill_engine::settings::Settings;
use tidemill_engine::shared::Shared;
use tidemill_engine::stored::{DraftError, KeyDraft, KeySpec};
use tidemill_rdb::file::{Event, Progress, Reader};
use tidemill_rdb::value::{Item, ValueEncoding};
use tidemill_rdb::{DecodeError, ReadError};
use tidemill_store::{Heap, Section};

use crate::disk::{Disk, DiskFile};
use crate::limits::LOAD_CHUNK_BYTES;

/// Counts of what a file held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Keys that are in the keyspace now.
    pub keys: u64,
    /// Keys whose time was over.
    pub expired_keys: u64,
    /// Keys of collections without elements, which no server of today writes.
    pub empty_keys: u64,
    /// Libraries of functions, which are kept for the next snapshot.
    pub libraries: u64,
    /// Data of modules that was passed over.
    pub module_parts: u64,
    /// Bytes of the file that were read.
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
        /// Why.
        error: DraftError,
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
                "{error}. Nothing was changed: restore the file from a copy (`tidemill check-rdb` \
                 tells what can be read of it), or move it away to start without its data"
            ),
            LoadFault::Key { name, database, before_offset, error } => {
                let why = match error {
                    DraftError::Unsupported(kind) => {
                        format!("is of type {}, which is not supported yet", kind.name())
                    }
                    DraftError::Malformed => "has an element twice".into(),
                    DraftError::Duplicate => "is there twice".into(),
                };
                let name = name.escape_ascii();
                write!(
                    formatter,
                    "before offset {before_offset}: key '{name}' in database {database} {why}. \
                     Nothing was changed: load the file with the server that wrote it, or move it \
                     away to start without its data"
                )
            }
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

/// Loads a file; none when it is absent. Blocks until all is loaded, and tells `progress` the bytes
/// read and the keys loaded so far.
///
/// No other thread writes meanwhile: the workers have not started, or the caller has closed the
/// gate.
///
/// # Errors
///
/// [`LoadError`]; keys before the fault are loaded then.
pub fn load(
    disk: &dyn Disk,
    path: &Path,
    shared: &Shared,
    reader: &mut dyn ReadSide,
    heap: &Heap,
    rules: LoadRules<'_>,
    progress: &mut dyn FnMut(Loaded),
) -> Result<Option<Loaded>, LoadError> {
    let failed = |fault| LoadError { path: path.to_owned(), fault };
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(LoadFault::Io(error))),
    };
    let mut keys = KeyLoader::new(shared, heap, rules);
    let mut file_reader = Reader::new(rules.settings.version_check, rules.verifies_checksum);
    let mut buffer = vec![0; LOAD_CHUNK_BYTES];
    loop {
        let count = read(&*file, &mut buffer, keys.loaded.bytes)
            .map_err(|error| failed(LoadFault::Io(error)))?;
        if count == 0 {
            file_reader.end().map_err(|error| failed(LoadFault::Decode(error)))?;
        }
        keys.loaded.bytes += count as u64;
        let mut fed = Ok(Progress::More);
        reader.section(&mut |section| {
            fed = file_reader.feed(&buffer[..count], |event| keys.take(event, section));
        });
        reader.reclaim(heap);
        match fed {
            Ok(Progress::More) => progress(keys.loaded),
            Ok(Progress::Done { .. }) => return Ok(Some(keys.loaded)),
            Err(ReadError::Decode(error)) => return Err(failed(LoadFault::Decode(error))),
            Err(ReadError::Sink(fault)) => return Err(failed(fault)),
        }
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

/// Keys of a file on their way into the keyspace.
struct KeyLoader<'l> {
    shared: &'l Shared,
    heap: &'l Heap,
    rules: LoadRules<'l>,
    database: usize,
    /// The key whose value arrives; none while a value is passed over.
    draft: Option<KeyDraft<'l>>,
    loaded: Loaded,
}

impl<'l> KeyLoader<'l> {
    fn new(shared: &'l Shared, heap: &'l Heap, rules: LoadRules<'l>) -> KeyLoader<'l> {
        KeyLoader { shared, heap, rules, database: 0, draft: None, loaded: Loaded::default() }
    }

    fn take(&mut self, event: Event<'_>, section: Section<'_>) -> Result<(), LoadFault> {
        match event {
            Event::Database(number) => {
                let count = self.shared.keyspace.database_count();
                match usize::try_from(number).ok().filter(|&database| database < count) {
                    Some(database) => self.database = database,
                    None => return Err(LoadFault::Database { number, count }),
                }
            }
            Event::Key { name, encoding, expires_at_ms, idle_s, frequency } => {
                return self.begin(name, encoding, expires_at_ms, (idle_s, frequency));
            }
            Event::Item(item) => return self.item(item),
            Event::KeyEnd => return self.put(section),
            Event::Functions(source) => {
                self.shared.snapshots.keep_library(source);
                self.loaded.libraries += 1;
            }
            Event::ModuleData(_) => self.loaded.module_parts += 1,
            Event::Version(_)
            | Event::Aux { .. }
            | Event::Sizes { .. }
            | Event::SlotSizes { .. }
            | Event::SlotImport(_)
            | Event::SlotRange(..) => {}
        }
        Ok(())
    }

    fn begin(
        &mut self,
        name: &[u8],
        stored: ValueEncoding,
        expires_at_ms: Option<i64>,
        (idle_s, frequency): (Option<u64>, Option<u8>),
    ) -> Result<(), LoadFault> {
        let clock = self.rules.clock;
        let expires_at_ms = expires_at_ms.map(|at_ms| clock.expiry_at(at_ms).unwrap_or(u64::MAX));
        if expires_at_ms.is_some_and(|at_ms| clock.has_passed(at_ms)) {
            self.loaded.expired_keys += 1;
            return Ok(());
        }
        let name = name.to_vec();
        let spec = KeySpec {
            database: self.database,
            name: name.clone(),
            stored,
            expires_at_ms,
            idle_s: idle_s.unwrap_or(0),
            frequency,
        };
        let draft = KeyDraft::new(spec, self.rules.settings, clock, self.shared, self.heap);
        self.draft = Some(draft.map_err(|error| self.fault(name, error))?);
        Ok(())
    }

    fn item(&mut self, item: Item<'_>) -> Result<(), LoadFault> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        match draft.take(item) {
            Ok(()) => Ok(()),
            Err(error) => {
                let name = draft.spec().name.clone();
                Err(self.fault(name, error))
            }
        }
    }

    fn put(&mut self, section: Section<'_>) -> Result<(), LoadFault> {
        let Some(draft) = self.draft.take() else { return Ok(()) };
        if draft.is_empty() {
            self.loaded.empty_keys += 1;
            return Ok(());
        }
        let name = draft.spec().name.clone();
        draft.put(section).map_err(|error| self.fault(name, error))?;
        self.loaded.keys += 1;
        Ok(())
    }

    fn fault(&self, name: Vec<u8>, error: DraftError) -> LoadFault {
        let before_offset = self.loaded.bytes;
        LoadFault::Key { name, database: self.database, before_offset, error }
    }
}
