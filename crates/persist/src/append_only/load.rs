//! Loading of a log: its files in the order of the manifest, each command by a [`Replay`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tidemill_resp::request::ArgumentView;

use super::LogNames;
use super::check::is_snapshot;
use super::group::{DurableBytes, GroupMark, torn_tail};
use super::manifest::{FileRole, Manifest, ManifestEntry, ManifestError};
use super::scan::{Piece, Scan};
use crate::disk::{Disk, DiskFile};

/// Receiver of what a log holds.
pub trait Replay {
    /// Checks that a command can be executed.
    ///
    /// # Errors
    ///
    /// The reason: there is no such command, or it takes another number of arguments.
    fn check(&self, command: &ArgumentView<'_>) -> Result<(), String>;

    /// Executes a command in RESP, which is at an offset of the present file. May block, and return
    /// before it is executed.
    ///
    /// # Errors
    ///
    /// The server stops.
    fn execute(&mut self, offset: u64, command: &[u8]) -> Result<(), Stopped>;

    /// Forgets a transaction that was begun and has no end.
    fn discard(&mut self);

    /// Loads the snapshot at the beginning of a file; returns the offset behind it.
    ///
    /// # Errors
    ///
    /// [`ReplayFault`].
    fn load_snapshot(&mut self, path: &Path, file: &dyn DiskFile) -> Result<u64, ReplayFault>;

    /// Is told the bytes of all files, before the first of them.
    fn begin(&mut self, _total_bytes: u64) {}

    /// Is told which file comes next.
    ///
    /// # Errors
    ///
    /// The server stops.
    fn begin_file(&mut self, _path: &Path) -> Result<(), Stopped> {
        Ok(())
    }

    /// Is told how many bytes of all files were read, behind each command and before each file.
    fn note_read(&mut self, _bytes: u64) {}
}

/// The server stops: nothing more is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Reason why a snapshot at the beginning of a file is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayFault {
    /// The server stops.
    Stopped,
    /// It cannot be loaded: the text for the operator.
    Snapshot(String),
}

/// Reason why a log is not loaded.
#[derive(Debug)]
pub enum LoadError {
    /// A file cannot be read or changed.
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The manifest is none.
    Manifest(ManifestError),
    /// A file of the manifest is absent.
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// A file has something else than commands.
    Broken {
        /// The file.
        path: PathBuf,
        /// Offset of it.
        offset: u64,
        /// The manifest, for the hint.
        manifest: String,
    },
    /// A file ends within a command, or within a transaction.
    Truncated {
        /// The file.
        path: PathBuf,
        /// Offset of that command or transaction.
        offset: u64,
        /// The manifest, for the hint.
        manifest: String,
        /// True if it is the last file, whose tail may be cut by `aof-load-truncated`.
        is_last: bool,
    },
    /// A command that cannot be executed.
    BadCommand {
        /// The file.
        path: PathBuf,
        /// Offset of the command.
        offset: u64,
        /// The fault, in the words of the error to a client.
        reason: String,
    },
    /// A snapshot that is not loaded.
    Snapshot {
        /// Text for the operator, which names the file.
        reason: String,
    },
    /// There is no log, but a snapshot, which a start with an empty log would ignore.
    SnapshotWithoutLog {
        /// The snapshot.
        path: PathBuf,
    },
    /// The server stops.
    Stopped,
}

impl From<Stopped> for LoadError {
    fn from(Stopped: Stopped) -> LoadError {
        LoadError::Stopped
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io { path, error } => write!(
                formatter,
                "{}: {error}. Nothing was changed: give the server's user access to it, or restore \
                 it from a backup",
                path.display()
            ),
            LoadError::Manifest(ManifestError { line_number, line, reason }) => write!(
                formatter,
                "*** FATAL AOF MANIFEST FILE ERROR *** Reading the manifest file, at line \
                 {line_number} >>> '{line}' {reason}. Nothing was changed: restore the manifest, \
                 whose name ends in .manifest, from a backup, or move its directory away to start \
                 without the log"
            ),
            LoadError::Absent { path } => write!(
                formatter,
                "Fatal error: can't open the append log file {} for reading: No such file or \
                 directory. The manifest names it: restore it from a backup",
                path.display()
            ),
            LoadError::Broken { path, offset, manifest } => write!(
                formatter,
                "Bad file format reading the append only file {} at offset {offset}: make a backup \
                 of your AOF file, then use tidemill check-aof --fix {manifest}",
                path.display()
            ),
            LoadError::Truncated { path, offset, manifest, is_last } => {
                write!(
                    formatter,
                    "Unexpected end of file reading the append only file {} at offset {offset}. \
                     You can: 1) Make a backup of your AOF file, then use tidemill check-aof --fix \
                     {manifest}.",
                    path.display()
                )?;
                if *is_last {
                    write!(
                        formatter,
                        " 2) Alternatively you can set the 'aof-load-truncated' configuration \
                         option to yes and restart the server."
                    )?;
                }
                Ok(())
            }
            LoadError::BadCommand { path, offset, reason } => write!(
                formatter,
                "Bad command reading the append only file {} at offset {offset}: {reason}. Nothing \
                 was changed: load it with the server that wrote it, or make a backup and cut it \
                 there",
                path.display()
            ),
            LoadError::Snapshot { reason } => write!(formatter, "{reason}"),
            LoadError::SnapshotWithoutLog { path } => write!(
                formatter,
                "appendonly is yes and there is no append only file, but a snapshot, {}: its data \
                 would be missing. Start with appendonly no and use CONFIG SET appendonly yes, or \
                 move the snapshot away",
                path.display()
            ),
            LoadError::Stopped => write!(formatter, "the server stops while the log is loaded"),
        }
    }
}

/// A log that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// Its manifest, without files if there was no log.
    pub manifest: Manifest,
    /// Length of the last increment, up to its last whole command.
    pub tail_bytes: u64,
    /// Length of all other files.
    pub other_bytes: u64,
    /// Length of the base.
    pub base_bytes: u64,
}

/// Loads the log of a directory, or finds none. An old log of a single file is taken over first.
///
/// # Errors
///
/// [`LoadError`]; no file has lost anything then.
pub fn load(
    disk: &dyn Disk,
    names: &LogNames,
    may_cut_tail: bool,
    replay: &mut dyn Replay,
) -> Result<Loaded, LoadError> {
    let mut manifest = read_manifest(disk, names)?.unwrap_or_default();
    take_over_single_file(disk, names, &mut manifest)?;
    let mut loaded = Loaded { manifest, tail_bytes: 0, other_bytes: 0, base_bytes: 0 };
    let files: Vec<ManifestEntry> = loaded.manifest.files().cloned().collect();
    if files.is_empty() && length_of(disk, &names.snapshot()) > 0 {
        return Err(LoadError::SnapshotWithoutLog { path: names.snapshot() });
    }
    let last_written = last_written(disk, names, &files)?;
    let path_of = |entry: &ManifestEntry| names.directory().join(&entry.name);
    replay.begin(files.iter().map(|entry| length_of(disk, &path_of(entry))).sum());
    let mut read_bytes = 0;
    for (index, entry) in files.iter().enumerate() {
        let (path, begun) = (path_of(entry), Instant::now());
        let is_last = index + 1 == files.len();
        let is_base = loaded.manifest.base.as_ref() == Some(entry);
        let is_tail = index >= last_written;
        let length = FileLoad { disk, names, path, is_last: is_tail, before_bytes: read_bytes }
            .run(may_cut_tail, replay)?;
        read_bytes += length;
        if is_base {
            loaded.base_bytes = length;
        }
        if is_last && !is_base {
            loaded.tail_bytes = length;
        } else {
            loaded.other_bytes += length;
        }
        let kind = if is_base { "base" } else { "incr" };
        let seconds = begun.elapsed().as_secs_f64();
        log::info!("DB loaded from {kind} file {}: {seconds:.3} seconds", entry.name);
    }
    Ok(loaded)
}

/// Bytes of the log of a directory, which may be an old one of a single file; none without one.
///
/// # Errors
///
/// [`LoadError`].
pub fn find(disk: &dyn Disk, names: &LogNames) -> Result<Option<u64>, LoadError> {
    let manifest = read_manifest(disk, names)?.unwrap_or_default();
    if manifest.files().next().is_none() {
        let is_there = disk.open(&names.single_file()).is_ok();
        return Ok(is_there.then(|| length_of(disk, &names.single_file())));
    }
    let length = |entry: &ManifestEntry| length_of(disk, &names.directory().join(&entry.name));
    Ok(Some(manifest.files().map(length).sum()))
}

/// Index of the last file with commands: only its end may be torn. Increments behind it were made
/// for a rewrite that did not come to use them. A base is whole where there are increments.
fn last_written(
    disk: &dyn Disk,
    names: &LogNames,
    files: &[ManifestEntry],
) -> Result<usize, LoadError> {
    let first = files.iter().position(|entry| entry.role == FileRole::Increment).unwrap_or(0);
    for (index, entry) in files.iter().enumerate().skip(first + 1).rev() {
        let path = names.directory().join(&entry.name);
        // One that is absent is reported when its turn comes.
        let Ok(file) = disk.open(&path) else { return Ok(index) };
        let mut scan = Scan::new(&*file, 0);
        loop {
            match scan.next_piece().map_err(failed(&path))? {
                Piece::Group { mark: GroupMark::Synced { .. }, .. } => {}
                Piece::End => break,
                _ => return Ok(index),
            }
        }
    }
    Ok(first)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LoadError {
    let path = path.to_owned();
    move |error| LoadError::Io { path, error }
}

/// The manifest, if there is one.
///
/// # Errors
///
/// It cannot be read, or is none.
pub fn read_manifest(disk: &dyn Disk, names: &LogNames) -> Result<Option<Manifest>, LoadError> {
    let path = names.manifest();
    let file = match disk.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&path)(error)),
    };
    let text = read_all(&*file).map_err(failed(&path))?;
    Manifest::parse(&text).map(Some).map_err(LoadError::Manifest)
}

fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut text = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    let mut length = 0;
    while length < text.len() {
        match file.read_at(&mut text[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    text.truncate(length);
    Ok(text)
}

/// Length of a file, 0 if it is absent.
fn length_of(disk: &dyn Disk, path: &Path) -> u64 {
    disk.open(path).and_then(|file| file.length()).unwrap_or(0)
}

/// Takes over a log of one file as older versions have it: it becomes the base. The manifest is
/// written first, so that an interrupted taking over is ended at the next start.
fn take_over_single_file(
    disk: &dyn Disk,
    names: &LogNames,
    manifest: &mut Manifest,
) -> Result<(), LoadError> {
    let old = names.single_file();
    let new = names.directory().join(&names.file_name);
    let is_begun = manifest.base.as_ref().is_some_and(|base| base.name == names.file_name)
        && manifest.increments.is_empty()
        && disk.open(&new).is_err();
    let is_empty = manifest.files().next().is_none();
    if !(is_empty || is_begun) || disk.open(&old).is_err() {
        return Ok(());
    }
    if is_empty {
        let (name, sequence) = (names.file_name.clone(), 1);
        manifest.base = Some(ManifestEntry { name, sequence, role: FileRole::Base });
        manifest.base_sequence = sequence;
        disk.create_directory(&names.directory()).map_err(failed(&names.directory()))?;
        names.write_manifest(disk, manifest).map_err(failed(&names.manifest()))?;
    }
    disk.rename(&old, &new).map_err(failed(&old))?;
    for directory in [names.directory(), names.root.clone()] {
        disk.sync_directory(&directory).map_err(failed(&directory))?;
    }
    log::info!(
        "Successfully migrated an old-style AOF configuration ({}) into the AOF directory ({}).",
        names.file_name,
        names.directory_name
    );
    Ok(())
}

/// Loading of one file.
struct FileLoad<'l> {
    disk: &'l dyn Disk,
    names: &'l LogNames,
    path: PathBuf,
    is_last: bool,
    /// Bytes of the files before it.
    before_bytes: u64,
}

impl FileLoad<'_> {
    /// Loads the file; returns its length, without a tail that was cut off.
    fn run(&self, may_cut_tail: bool, replay: &mut dyn Replay) -> Result<u64, LoadError> {
        let file = match self.disk.open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LoadError::Absent { path: self.path.clone() });
            }
            Err(error) => return Err(failed(&self.path)(error)),
        };
        let mut offset = 0;
        replay.note_read(self.before_bytes);
        replay.begin_file(&self.path)?;
        if is_snapshot(&*file).map_err(failed(&self.path))? {
            offset = replay.load_snapshot(&self.path, &*file).map_err(|fault| match fault {
                ReplayFault::Stopped => LoadError::Stopped,
                ReplayFault::Snapshot(reason) => LoadError::Snapshot { reason },
            })?;
        }
        let may_cut = self.is_last && may_cut_tail;
        let mut durable = DurableBytes::UNKNOWN;
        if self.is_last && offset == 0 {
            durable = DurableBytes::of(&*file).map_err(failed(&self.path))?;
        }
        if let Some(offset) = torn_tail(&*file, &durable).map_err(failed(&self.path))? {
            if !may_cut {
                return Err(self.truncated(offset));
            }
            self.cut(Cut { offset, in_transaction: false })?;
        }
        match self.replay_commands(&*file, offset, replay)? {
            Ok(length) => Ok(length),
            // Durable bytes ended with a whole command when they were written.
            Err(Cut { offset, .. }) if !durable.allows_cut(offset) => Err(self.broken(offset)),
            Err(cut) if may_cut => self.cut(cut),
            Err(Cut { offset, .. }) => Err(self.truncated(offset)),
        }
    }

    fn truncated(&self, offset: u64) -> LoadError {
        let manifest = self.names.manifest().display().to_string();
        LoadError::Truncated { path: self.path.clone(), offset, manifest, is_last: self.is_last }
    }

    fn broken(&self, offset: u64) -> LoadError {
        let manifest = self.names.manifest().display().to_string();
        LoadError::Broken { path: self.path.clone(), offset, manifest }
    }

    /// Executes all commands from an offset on; returns the length, or where to cut a tail off.
    fn replay_commands(
        &self,
        file: &dyn DiskFile,
        offset: u64,
        replay: &mut dyn Replay,
    ) -> Result<Result<u64, Cut>, LoadError> {
        let mut scan = Scan::new(file, offset);
        let mut transaction_offset = None;
        loop {
            match scan.next_piece().map_err(failed(&self.path))? {
                Piece::Command { offset, arguments, bytes } => {
                    if let Err(reason) = replay.check(&arguments) {
                        let path = self.path.clone();
                        return Err(LoadError::BadCommand { path, offset, reason });
                    }
                    if arguments.get(0).eq_ignore_ascii_case(b"multi") {
                        transaction_offset.get_or_insert(offset);
                    } else if arguments.get(0).eq_ignore_ascii_case(b"exec") {
                        transaction_offset = None;
                    }
                    replay.execute(offset, bytes)?;
                    replay.note_read(self.before_bytes + offset + bytes.len() as u64);
                }
                Piece::Timestamp { .. } | Piece::Group { .. } => {}
                Piece::End if transaction_offset.is_none() => return Ok(Ok(scan.offset())),
                Piece::End => {
                    replay.discard();
                    let offset = transaction_offset.unwrap_or(scan.offset());
                    return Ok(Err(Cut { offset, in_transaction: true }));
                }
                Piece::Truncated { offset } => {
                    replay.discard();
                    let in_transaction = transaction_offset.is_some();
                    let offset = transaction_offset.unwrap_or(offset);
                    return Ok(Err(Cut { offset, in_transaction }));
                }
                Piece::Broken { offset } => return Err(self.broken(offset)),
            }
        }
    }

    /// Cuts the file's tail off, which is no whole command or transaction.
    fn cut(&self, Cut { offset, in_transaction }: Cut) -> Result<u64, LoadError> {
        let path = self.path.display();
        if in_transaction {
            log::warn!("Revert incomplete MULTI/EXEC transaction from AOF file {path}");
        }
        log::warn!("!!! Warning: short read while loading the AOF file {path}!!!");
        log::warn!("AOF loaded anyway because aof-load-truncated is enabled");
        log::warn!("Truncating the AOF {path} at offset {offset}");
        let file = self.disk.open_or_create(&self.path).map_err(failed(&self.path))?;
        file.set_length(offset).and_then(|()| file.sync()).map_err(failed(&self.path))?;
        Ok(offset)
    }
}

/// Tail of a file that is no whole command or transaction.
#[derive(Clone, Copy, Debug)]
struct Cut {
    offset: u64,
    in_transaction: bool,
}
