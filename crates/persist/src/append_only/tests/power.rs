//! A disk that loses power: of what was not synced, any sectors and any changes of names may be
//! there afterwards.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;

use crate::disk::{Disk, DiskFile, DiskLock};

const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug, Default)]
struct Content {
    durable: Vec<u8>,
    current: Vec<u8>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Content>,
    durable_names: BTreeMap<PathBuf, usize>,
    names: BTreeMap<PathBuf, usize>,
    /// Changes of names since their directory was synced, in order.
    pending: Vec<NameChange>,
    /// Bytes that are written before every write fails; none for no limit.
    room: Option<u64>,
    fails_sync: bool,
    /// True while syncs do not end.
    holds_sync: bool,
    /// Changes that are made before every one fails, as if the process had ended; none for no end.
    changes_left: Option<usize>,
}

impl State {
    fn begin_change(&mut self) -> io::Result<()> {
        match &mut self.changes_left {
            Some(0) => Err(io::Error::other("the process has ended")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// The disk.
#[derive(Clone, Debug, Default)]
pub(super) struct PowerDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct PowerFile {
    disk: PowerDisk,
    index: usize,
}

#[derive(Debug)]
struct NoLock;

impl DiskLock for NoLock {
    fn is_at(&self, _path: &Path) -> bool {
        true
    }
}

impl PowerDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    /// Leaves room for a number of bytes, behind which the disk is full; or for any.
    pub(super) fn limit(&self, bytes: Option<u64>) {
        self.state().room = bytes;
    }

    /// Lets syncs fail.
    pub(super) fn fail_sync(&self, fails: bool) {
        self.state().fails_sync = fails;
    }

    /// Lets syncs of files begin and not end, or end.
    pub(super) fn hold_sync(&self, holds: bool) {
        self.state().holds_sync = holds;
    }

    /// Leaves the disk as it is after a number of changes.
    pub(super) fn freeze_after(&self, changes: Option<usize>) {
        self.state().changes_left = changes;
    }

    /// The disk after the end of the process.
    pub(super) fn thawed(&self) -> PowerDisk {
        let state = self.state();
        let after = State {
            files: state.files.clone(),
            durable_names: state.durable_names.clone(),
            names: state.names.clone(),
            pending: state.pending.clone(),
            ..State::default()
        };
        PowerDisk(Arc::new(Mutex::new(after)))
    }

    /// The disk after a loss of power.
    pub(super) fn lose_power(&self, random: &mut Rng) -> PowerDisk {
        let state = self.state();
        let mut names = state.durable_names.clone();
        // Changes of names reach the disk in order.
        let kept = random.usize(0..=state.pending.len());
        for change in &state.pending[..kept] {
            match change {
                NameChange::Set(path, index) => drop(names.insert(path.clone(), *index)),
                NameChange::Remove(path) => drop(names.remove(path)),
            }
        }
        let files = state.files.iter().map(|content| survived(content, random)).collect();
        let after = State { files, durable_names: names.clone(), names, ..State::default() };
        PowerDisk(Arc::new(Mutex::new(after)))
    }

    /// Bytes of a file.
    pub(super) fn bytes(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        state.files[state.names[path]].current.clone()
    }

    /// Bytes of the increment that was made last.
    pub(super) fn bytes_of_last_increment(&self) -> Vec<u8> {
        let state = self.state();
        let is_increment = |path: &&PathBuf| path.to_string_lossy().contains(".incr.");
        let last = state.names.keys().filter(is_increment).map(|path| state.names[path]).max();
        last.map_or(Vec::new(), |index| state.files[index].current.clone())
    }

    /// Puts a file there, durably.
    pub(super) fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        state.files.push(Content { durable: bytes.to_vec(), current: bytes.to_vec() });
        let index = state.files.len() - 1;
        state.names.insert(path.to_owned(), index);
        state.durable_names.insert(path.to_owned(), index);
    }

    fn opened(&self, index: usize) -> Box<dyn DiskFile> {
        Box::new(PowerFile { disk: self.clone(), index })
    }

    fn rename_in(&self, change: NameChange) -> io::Result<()> {
        let mut state = self.state();
        state.begin_change()?;
        match &change {
            NameChange::Set(path, index) => drop(state.names.insert(path.clone(), *index)),
            NameChange::Remove(path) => drop(state.names.remove(path)),
        }
        state.pending.push(change);
        Ok(())
    }
}

/// Content that is left of a file: each sector as it was synced or as it was written last, and a
/// length between both.
fn survived(content: &Content, random: &mut Rng) -> Content {
    let Content { durable, current } = content;
    if durable == current {
        return content.clone();
    }
    let (short, long) = (durable.len().min(current.len()), durable.len().max(current.len()));
    let length = match random.u32(0..4) {
        0 => short,
        1 => long,
        _ => random.usize(short..=long),
    };
    let mut bytes = vec![0; length];
    let loses_sectors = random.bool();
    for start in (0..length).step_by(SECTOR_BYTES) {
        let end = length.min(start + SECTOR_BYTES);
        let source = if loses_sectors && random.bool() { durable } else { current };
        let available = source.len().min(end);
        if start < available {
            bytes[start..available].copy_from_slice(&source[start..available]);
        }
    }
    Content { durable: bytes.clone(), current: bytes }
}

impl Disk for PowerDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let index = self.state().names.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(self.opened(index))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let index = {
            let mut state = self.state();
            state.files.push(Content::default());
            state.files.len() - 1
        };
        self.rename_in(NameChange::Set(path.to_owned(), index))?;
        Ok(self.opened(index))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path).or_else(|_| self.create(path))
    }

    fn create_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let index = self.state().names.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
        self.rename_in(NameChange::Set(to.to_owned(), index))?;
        let mut state = self.state();
        state.names.remove(from);
        state.pending.push(NameChange::Remove(from.to_owned()));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.state().names.get(path).ok_or(io::ErrorKind::NotFound)?;
        self.rename_in(NameChange::Remove(path.to_owned()))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let state = self.state();
        let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_owned())).collect())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_change()?;
        let pending = std::mem::take(&mut state.pending);
        for change in pending {
            let (NameChange::Set(path, _) | NameChange::Remove(path)) = &change;
            if path.parent() != Some(directory) {
                state.pending.push(change);
                continue;
            }
            match change {
                NameChange::Set(path, index) => drop(state.durable_names.insert(path, index)),
                NameChange::Remove(path) => drop(state.durable_names.remove(&path)),
            }
        }
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn DiskLock>> {
        Ok(Box::new(NoLock))
    }
}

impl DiskFile for PowerFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let current = &state.files[self.index].current;
        let from = current.len().min(position as usize);
        let count = buffer.len().min(current.len() - from);
        buffer[..count].copy_from_slice(&current[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.begin_change()?;
        let count = bytes.len().min(state.room.map_or(usize::MAX, |room| room as usize));
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.room = state.room.map(|room| room - count as u64);
        let current = &mut state.files[self.index].current;
        let end = position as usize + count;
        if current.len() < end {
            current.resize(end, 0);
        }
        current[position as usize..end].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.index].current.len() as u64)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin_change()?;
        state.files[self.index].current.resize(bytes as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        while self.disk.state().holds_sync {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut state = self.disk.state();
        state.begin_change()?;
        if state.fails_sync {
            return Err(io::Error::from_raw_os_error(5));
        }
        let content = &mut state.files[self.index];
        content.durable.clone_from(&content.current);
        Ok(())
    }
}
