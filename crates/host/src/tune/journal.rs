//! The undo journal: what was, what was wanted, and when the machine had booted.
//!
//! One JSON file in a directory that only its owner may enter, replaced in one step and synced to
//! disk before the change it tells about. One process at a time holds it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, Mode};
use serde::{Deserialize, Serialize};

use super::{TuneError, store};
use crate::rules::{Change, Persistence};
use crate::{ReadError, Refusal, Root};

/// Directory of the journal on the machine it tells about.
pub(super) const DIRECTORY: &str = "/var/lib/tidemill-tune";
const FILE: &str = "/var/lib/tidemill-tune/journal.json";
const FORMAT: &str = "tidemill tune journal";
const VERSION: u64 = 1;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// One applied change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) rule: String,
    pub(super) path: String,
    /// The value found, to go back to.
    pub(super) from: String,
    /// The value in force afterwards: the one wanted, or what the kernel made of it.
    pub(super) to: String,
    /// The boot during which it was written.
    pub(super) boot_id: String,
    pub(super) persistence: Persistence,
    /// True if a file makes it last.
    pub(super) is_persisted: bool,
}

/// A file that makes changes last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnFile {
    pub(super) path: String,
    /// Its text before the last step; `None` when it was absent.
    pub(super) before: Option<String>,
    /// Its text after the last step; `None` when it is to be absent.
    pub(super) after: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Document {
    format: String,
    version: u64,
    entries: Vec<Entry>,
    files: Vec<OwnFile>,
}

#[derive(Deserialize)]
struct Header {
    format: String,
    version: u64,
}

/// The journal of one machine, held by this process.
#[derive(Debug)]
pub(super) struct Journal<'a> {
    root: &'a Root,
    /// In the order they were applied.
    pub(super) entries: Vec<Entry>,
    pub(super) files: Vec<OwnFile>,
    /// This boot; empty below a root that does not tell.
    pub(super) boot_id: String,
    /// Its lock ends with the process, however that ends. `None` for a journal that is only read.
    _lock: Option<OwnedFd>,
}

impl Entry {
    /// Subject of the entry, which lasts over reboots: an interrupt is known by its interface and
    /// its position there, because its path has another number at each boot.
    pub(super) fn subject(&self) -> String {
        match &self.persistence {
            Persistence::Interrupt { interface, index } => {
                format!("{interface} interrupt {index:06}")
            }
            Persistence::DropIn { key, .. } => format!("{} {key}", self.path),
            _ => self.path.clone(),
        }
    }

    pub(super) fn new(change: &Change, from: &str, boot_id: &str) -> Self {
        Self {
            rule: change.rule.to_owned(),
            path: change.path.clone(),
            from: from.to_owned(),
            to: change.to.clone(),
            boot_id: boot_id.to_owned(),
            persistence: change.persistence.clone(),
            is_persisted: false,
        }
    }
}

impl<'a> Journal<'a> {
    /// Opens the journal to change it, and makes its directory.
    pub(super) fn open(root: &'a Root) -> Result<Self, TuneError> {
        let directory = private_directory(root)
            .map_err(|error| TuneError::Journal(ReadError::from_io(DIRECTORY, &error)))?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(TuneError::Busy(DIRECTORY.to_owned()));
            }
            Err(errno) => {
                return Err(TuneError::Journal(ReadError::from_io(DIRECTORY, &errno.into())));
            }
        }
        store::sweep(root, FILE);
        Self::load(root, Some(directory))
    }

    /// Reads the journal; an absent one is empty.
    pub(super) fn read(root: &'a Root) -> Result<Self, TuneError> {
        Self::load(root, None)
    }

    fn load(root: &'a Root, lock: Option<OwnedFd>) -> Result<Self, TuneError> {
        let document = match root.text(FILE) {
            Err(error) if error.refusal == Refusal::Absent => Document::default(),
            Err(error) => return Err(TuneError::Journal(error)),
            Ok(text) => parse(&text)?,
        };
        let boot_id = root.text(BOOT_ID).unwrap_or_default();
        Ok(Self { root, entries: document.entries, files: document.files, boot_id, _lock: lock })
    }

    /// True if there is nothing to undo.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.files.is_empty()
    }

    /// Writes the journal, or removes it when nothing is left to undo.
    pub(super) fn save(&self) -> Result<(), TuneError> {
        if self.is_empty() {
            return store::remove(self.root, FILE).map_err(TuneError::Journal);
        }
        let document = Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            entries: self.entries.clone(),
            files: self.files.clone(),
        };
        let mut text =
            serde_json::to_string_pretty(&document).expect("strings and numbers have a JSON form");
        text.push('\n');
        store::replace(self.root, FILE, &text, Mode::from_raw_mode(0o600))
            .map_err(TuneError::Journal)
    }

    /// True if the entry was written during this boot.
    pub(super) fn is_of_this_boot(&self, entry: &Entry) -> bool {
        entry.boot_id == self.boot_id
    }
}

fn parse(text: &str) -> Result<Document, TuneError> {
    let malformed =
        |error: serde_json::Error| TuneError::JournalMalformed(FILE.to_owned(), error.to_string());
    let header: Header = serde_json::from_str(text).map_err(malformed)?;
    if header.format != FORMAT {
        let why = format!("its format is \"{}\"", header.format.escape_default());
        return Err(TuneError::JournalMalformed(FILE.to_owned(), why));
    }
    if header.version != VERSION {
        return Err(TuneError::JournalVersion(header.version, VERSION));
    }
    serde_json::from_str(text).map_err(malformed)
}

/// The journal's directory, which only its owner may enter; a foreign owner is refused.
fn private_directory(root: &Root) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(0o700);
    let directory = store::make_directory(root, DIRECTORY, mode)?;
    let stat = rustix::fs::fstat(&directory)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    rustix::fs::fchmod(&directory, mode)?;
    Ok(directory)
}
