//! A disk in memory that forgets what was not made durable, and fails when it is told to.
//!
//! A file's bytes and a directory's names are two things: [`DiskFile::sync`] makes the bytes of a
//! file durable, [`Disk::sync_directory`] the names of a directory. [`SimulatedDisk::lose_power`]
//! leaves what is durable and, of the rest, a part that a seed chooses: writes in any order,
//! torn at sectors, names changed or not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, DiskLock};

/// Bytes that a device writes as a whole.
const SECTOR_BYTES: usize = 512;

/// Kinds of operations that change something, for faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A file is made.
    Create,
    /// Bytes are written.
    Write,
    /// A file is synced.
    Sync,
    /// A file gets another name.
    Rename,
    /// A directory is synced.
    SyncDirectory,
}

/// Content of a file: as programs see it, and as it was when it was last synced.
#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Beginnings and ends of what was written since.
    written: Vec<(usize, usize)>,
    /// Number of handles of the file.
    open_count: usize,
}

type Names = BTreeMap<PathBuf, usize>;

#[derive(Debug, Default)]
struct State {
    contents: Vec<Content>,
    names: Names,
    durable_names: Names,
    /// Paths that somebody has locked.
    locked: Vec<PathBuf>,
    /// Operations since the last fault was set.
    operation_count: u64,
    /// The operation from which on all fail, and their error.
    fault: Option<(u64, io::ErrorKind)>,
    /// Operations that were carried out, in their order.
    log: Vec<Operation>,
    /// Files of which a rename took the last reference.
    freed_by_rename_count: usize,
}

impl State {
    fn begin(&mut self, operation: Operation) -> io::Result<()> {
        self.operation_count += 1;
        match self.fault {
            Some((from, kind)) if self.operation_count > from => Err(kind.into()),
            _ => {
                self.log.push(operation);
                Ok(())
            }
        }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

impl SimulatedDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `count` operations that change something succeed, and all behind them fail.
    pub fn fail_after(&self, count: u64, kind: io::ErrorKind) {
        let mut state = self.state();
        state.operation_count = 0;
        state.fault = Some((count, kind));
    }

    /// Lets operations succeed again.
    pub fn repair(&self) {
        self.state().fault = None;
    }

    /// Operations that were carried out, in their order.
    #[must_use]
    pub fn log(&self) -> Vec<Operation> {
        self.state().log.clone()
    }

    /// Number of files of which a rename took the name while nobody had them open: their blocks
    /// were freed by it, which takes long on a disk.
    #[must_use]
    pub fn freed_by_rename_count(&self) -> usize {
        self.state().freed_by_rename_count
    }

    fn file(&self, state: &mut State, index: usize) -> Box<dyn DiskFile> {
        state.contents[index].open_count += 1;
        Box::new(SimulatedFile { disk: self.clone(), index })
    }

    /// Content of a file as programs see it.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.find(path).ok().map(|index| state.contents[index].bytes.clone())
    }

    /// The disk after its power was lost now: what was durable, and some of the rest.
    #[must_use]
    pub fn lose_power(&self, seed: u64) -> SimulatedDisk {
        let mut random = fastrand::Rng::with_seed(seed);
        let state = self.state();
        let contents: Vec<_> =
            state.contents.iter().map(|content| survivor(content, &mut random)).collect();
        let mut names = state.durable_names.clone();
        for path in state.names.keys().chain(state.durable_names.keys()) {
            // A change of the directory may have reached the device unasked.
            if state.names.get(path) != state.durable_names.get(path) && random.bool() {
                match state.names.get(path) {
                    Some(index) => names.insert(path.clone(), *index),
                    None => names.remove(path),
                };
            }
        }
        let durable_names = names.clone();
        let after = State { contents, names, durable_names, ..State::default() };
        SimulatedDisk(Arc::new(Mutex::new(after)))
    }
}

/// Content that is left of a file: each sector that was written is there, or is as it was.
fn survivor(content: &Content, random: &mut fastrand::Rng) -> Content {
    let mut bytes = content.durable.clone();
    for &(start, end) in &content.written {
        let mut from = start;
        while from < end {
            let to = ((from / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
            if random.bool() && to <= content.bytes.len() {
                if bytes.len() < to {
                    bytes.resize(to, 0);
                }
                bytes[from..to].copy_from_slice(&content.bytes[from..to]);
            }
            from = to;
        }
    }
    Content { durable: bytes.clone(), bytes, ..Content::default() }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let index = state.find(path)?;
        Ok(self.file(&mut state, index))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.open_or_create(path)?;
        file.set_length(0)?;
        Ok(file)
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.begin(Operation::Create)?;
        let index = match state.find(path) {
            Ok(index) => index,
            Err(_) => {
                state.contents.push(Content::default());
                let index = state.contents.len() - 1;
                state.names.insert(path.to_owned(), index);
                index
            }
        };
        Ok(self.file(&mut state, index))
    }

    fn create_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin(Operation::Rename)?;
        let index = state.find(from)?;
        state.names.remove(from);
        if let Some(replaced) = state.names.insert(to.to_owned(), index)
            && state.contents[replaced].open_count == 0
        {
            state.freed_by_rename_count += 1;
        }
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.state().names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let state = self.state();
        let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| path.file_name()).map(OsString::from).collect())
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin(Operation::SyncDirectory)?;
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut state = self.state();
        if state.locked.iter().any(|locked| locked == path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked.push(path.to_owned());
        Ok(Box::new(SimulatedLock { disk: self.clone(), path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    index: usize,
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.disk.state().contents[self.index].open_count -= 1;
    }
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let bytes = &state.contents[self.index].bytes;
        let rest = bytes.get(position as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.begin(Operation::Write)?;
        let (start, content) = (position as usize, &mut state.contents[self.index]);
        let end = start + bytes.len();
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[start..end].copy_from_slice(bytes);
        content.written.push((start, end));
        Ok(bytes.len())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.state().contents[self.index].bytes.len() as u64)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let content = &mut state.contents[self.index];
        content.bytes.resize(bytes as usize, 0);
        content.written.retain(|&(start, _)| start < bytes as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin(Operation::Sync)?;
        let content = &mut state.contents[self.index];
        content.durable = content.bytes.clone();
        content.written.clear();
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl DiskLock for SimulatedLock {
    fn is_at(&self, path: &Path) -> bool {
        path == self.path
    }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.state().locked.retain(|path| *path != self.path);
    }
}
