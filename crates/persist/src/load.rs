//! Loading of a snapshot into the keyspace.
//!
//! The file is read in chunks by one parser; a key is in the keyspace once its value is complete.
//! Keys whose time is over are dropped, as a primary does. Whatever is wrong stops the loading,
//! and leaves file and keyspace as they are: what was loaded until then is not to be served.
//!
//! Workers may run meanwhile, which touch no key, for
//! [`Shared::loading`](tidemill_engine::shared::Loading) says that data is being loaded. They may
//! lock slots for a moment, as `WATCH` does.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use tidemill_engine::expiry_clock::ExpiryClock;
use tidemill_engine::settings::Settings;
use tidemill_engine::shared::Shared;
use tidemill_engine::stored::{DraftError, KeyDraft, KeySpec};
use tidemill_rcu::{Budget, Flavour};
use tidemill_rdb::file::{Event, Progress, Reader};
use tidemill_rdb::value::{Item, ValueEncoding};
use tidemill_rdb::{DecodeError, ReadError};
use tidemill_store::{Heap, Member};

use crate::disk::{Disk, DiskFile};
use crate::limits::{LOAD_CHUNK_BYTES, SLOT_PAUSE};
use crate::test_delay::delay;

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
    /// The server stops.
    Stopped,
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

/// Loads a file up to its end, which need not be that of its bytes: [`Loaded::bytes`]. Blocks until
/// all is loaded, and tells `progress` the bytes read and the keys loaded so far.
///
/// # Errors
///
/// [`LoadError`]; keys before the fault are loaded then.
pub fn load<F: Flavour>(
    file: &dyn DiskFile,
    path: &Path,
    shared: &Shared,
    (member, heap): (&mut Member<F>, &Heap),
    rules: LoadRules<'_>,
    progress: &mut dyn FnMut(Loaded),
) -> Result<Loaded, LoadError> {
    let failed = |fault| LoadError { path: path.to_owned(), fault };
    let mut keys = KeyLoader::new(shared, member, heap, rules);
    let mut reader = Reader::new(rules.settings.version_check, rules.verifies_checksum);
    let mut buffer = vec![0; LOAD_CHUNK_BYTES];
    loop {
        let position = keys.loaded.bytes;
        let count = keys.member.offline(|| read(file, &mut buffer, position));
        let count = count.map_err(|error| failed(LoadFault::Io(error)))?;
        if count == 0 {
            reader.end().map_err(|error| failed(LoadFault::Decode(error)))?;
        }
        keys.loaded.bytes += count as u64;
        let fed = reader.feed(&buffer[..count], |event| keys.take(event));
        heap.retired().reclaim(keys.member.domain(), Budget::UNLIMITED);
        match fed {
            Ok(Progress::More) => progress(keys.loaded),
            Ok(Progress::Done { behind }) => {
                keys.loaded.bytes -= behind as u64;
                progress(keys.loaded);
                return Ok(keys.loaded);
            }
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
struct KeyLoader<'l, F: Flavour> {
    shared: &'l Shared,
    member: &'l mut Member<F>,
    heap: &'l Heap,
    rules: LoadRules<'l>,
    database: usize,
    /// The key whose value arrives; none while a value is passed over.
    draft: Option<KeyDraft<'l>>,
    loaded: Loaded,
}

impl<'l, F: Flavour> KeyLoader<'l, F> {
    fn new(
        shared: &'l Shared,
        member: &'l mut Member<F>,
        heap: &'l Heap,
        rules: LoadRules<'l>,
    ) -> KeyLoader<'l, F> {
        let loaded = Loaded::default();
        KeyLoader { shared, member, heap, rules, database: 0, draft: None, loaded }
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), LoadFault> {
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
            Event::KeyEnd => return self.put(),
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

    fn put(&mut self) -> Result<(), LoadFault> {
        if self.shared.loading.is_stopped() {
            return Err(LoadFault::Stopped);
        }
        let key_delay_us = self.shared.settings().key_load_delay_us;
        if key_delay_us != 0 {
            self.member.offline(|| delay(key_delay_us));
        }
        let Some(draft) = self.draft.take() else { return Ok(()) };
        if draft.is_empty() {
            self.loaded.empty_keys += 1;
            return Ok(());
        }
        let name = draft.spec().name.clone();
        let mut left = Some(draft);
        while let Some(draft) = left {
            let put = self.member.inside(|member| draft.put(member.enter().section()));
            left = put.map_err(|error| self.fault(name.clone(), error))?;
            if left.is_some() {
                self.member.offline(|| thread::sleep(SLOT_PAUSE));
            }
        }
        self.loaded.keys += 1;
        Ok(())
    }

    fn fault(&self, name: Vec<u8>, error: DraftError) -> LoadFault {
        let before_offset = self.loaded.bytes;
        LoadFault::Key { name, database: self.database, before_offset, error }
    }
}
