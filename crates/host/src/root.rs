//! Reading a host through one directory: `/` for this machine, any other for a captured one.
//!
//! Every answer about a missing or refused file keeps its reason, because *absent*, *read-only*,
//! *not permitted* and *locked down* lead to different advice. Below a captured directory symbolic
//! links are resolved inside it (`openat2`, `RESOLVE_IN_ROOT`), so that a capture cannot show files
//! of the machine it is read on. Writing is in [`crate::tune`], not here.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::{Deserialize, Serialize};

use crate::limits::FILE_BYTES_MAX;
use crate::recording::Recording;

/// The directory a host is read from.
#[derive(Debug)]
pub struct Root {
    directory: PathBuf,
    /// `None` for the running machine.
    captured: Option<OwnedFd>,
    /// Readings that were refused where a capture was made, by path.
    refused: BTreeMap<String, ReadError>,
    /// Readings so far, while a capture is made.
    recording: Option<Mutex<Recording>>,
}

/// Reason that a file could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refusal {
    /// The kernel or this machine has no such file (ENOENT, ENOTDIR, ENODEV, ENXIO).
    Absent,
    /// The file system is mounted read-only (EROFS), as in containers.
    ReadOnly,
    /// More rights are needed (EACCES, EPERM).
    NotPermitted,
    /// Root itself is refused: kernel lockdown, or an interrupt the kernel manages (EPERM as root).
    LockedDown,
    /// The driver refuses now (EBUSY), such as a setting that another one rules out.
    Busy,
    /// The value is refused (EINVAL, ERANGE).
    Invalid,
    /// The device refuses (EIO), such as a managed interrupt on older kernels.
    Device,
    /// The file was read but is not what it should be.
    Malformed,
    /// The write succeeded and changed nothing.
    Ignored,
    /// Anything else, by its errno.
    Other,
}

/// A refusal with the path it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadError {
    /// The absolute path on the host that was asked, without the capture's directory.
    pub path: String,
    /// Kind of the refusal.
    pub refusal: Refusal,
    /// The errno behind it; 0 when the content was malformed.
    pub errno: i32,
}

impl Refusal {
    /// Classifies an errno met by a process with or without root's rights.
    pub fn from_errno(errno: i32, is_root: bool) -> Self {
        match errno {
            libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO | libc::ESRCH => Self::Absent,
            libc::EROFS => Self::ReadOnly,
            libc::EPERM if is_root => Self::LockedDown,
            libc::EACCES | libc::EPERM => Self::NotPermitted,
            libc::EBUSY => Self::Busy,
            libc::EINVAL | libc::ERANGE => Self::Invalid,
            libc::EIO => Self::Device,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::ReadOnly => "read-only",
            Self::NotPermitted => "not permitted",
            Self::LockedDown => "refused even to root",
            Self::Busy => "busy",
            Self::Invalid => "value refused",
            Self::Device => "refused by the device",
            Self::Malformed => "not understood",
            Self::Ignored => "written without effect",
            Self::Other => "failed",
        })
    }
}

impl ReadError {
    /// The error of a file that was read but not understood.
    pub fn malformed(path: &str) -> Self {
        Self { path: shown(path), refusal: Refusal::Malformed, errno: 0 }
    }

    pub(crate) fn from_io(path: &str, error: &io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let refusal = match errno {
            0 => Refusal::Malformed,
            errno => Refusal::from_errno(errno, rustix::process::geteuid().is_root()),
        };
        Self { path: shown(path), refusal, errno }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.refusal)?;
        match self.errno {
            0 => Ok(()),
            errno => write!(f, " ({})", io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for ReadError {}

/// Bytes of a file as text, without the newline and zero bytes at its end.
fn text_of(path: &str, bytes: Vec<u8>) -> Result<String, ReadError> {
    let mut text = String::from_utf8(bytes).map_err(|_| ReadError::malformed(path))?;
    text.truncate(text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0').len());
    Ok(text)
}

fn shown(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

impl Root {
    /// The running machine.
    pub fn live() -> Self {
        Self::new(PathBuf::from("/"), None)
    }

    /// Opens a directory that holds `sys`, `proc` and what else of a host; `/` is the running
    /// machine.
    ///
    /// # Errors
    /// The refusal when the directory cannot be opened.
    pub fn open(directory: &Path) -> Result<Self, ReadError> {
        if directory == Path::new("/") {
            return Ok(Self::live());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| {
            ReadError::from_io(&directory.to_string_lossy(), &io::Error::from(errno))
        })?;
        Ok(Self::new(directory.to_owned(), Some(descriptor)))
    }

    fn new(directory: PathBuf, captured: Option<OwnedFd>) -> Self {
        Self { directory, captured, refused: BTreeMap::new(), recording: None }
    }

    /// Lets these paths answer as they did where the capture was made.
    pub(crate) fn refuse(&mut self, errors: Vec<ReadError>) {
        self.refused = errors.into_iter().map(|error| (error.path.clone(), error)).collect();
    }

    /// Keeps everything read from now on.
    pub(crate) fn record(&mut self) {
        self.recording = Some(Mutex::default());
    }

    /// Texts that were read since [`Root::record`].
    pub(crate) fn recorded(&mut self) -> Recording {
        let recording = self.recording.take().unwrap_or_default();
        recording.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, note: impl FnOnce(&mut Recording)) {
        if let Some(recording) = &self.recording {
            note(&mut recording.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn check_refused(&self, path: &str) -> Result<(), ReadError> {
        if self.refused.is_empty() {
            return Ok(());
        }
        self.refused.get(&shown(path)).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// True if this is the running machine rather than a capture.
    pub fn is_live(&self) -> bool {
        self.captured.is_none()
    }

    /// The directory all paths are below.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens a file below the root for reading; also used with other flags by [`crate::tune`].
    pub(crate) fn open_file(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let relative = path.trim_start_matches('/');
        let relative = if relative.is_empty() { "." } else { relative };
        let flags = flags | OFlags::CLOEXEC;
        let descriptor = match &self.captured {
            None => rustix::fs::open(self.directory.join(relative), flags, Mode::empty())?,
            Some(root) => {
                let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
                rustix::fs::openat2(root.as_fd(), relative, flags, Mode::empty(), inside)?
            }
        };
        Ok(File::from(descriptor))
    }

    /// The text of a file, without the newline and zero bytes at its end.
    ///
    /// # Errors
    /// The refusal; text that is not UTF-8 or beyond [`FILE_BYTES_MAX`] is malformed.
    pub fn text(&self, path: &str) -> Result<String, ReadError> {
        let text = self.check_refused(path).and_then(|()| self.read_text(path));
        self.note(|recording| recording.text(&shown(path), &text));
        text
    }

    /// As [`Root::text`], but of a file beyond [`FILE_BYTES_MAX`] the whole lines that fit: for
    /// tables that grow with the load, such as that of sockets.
    ///
    /// # Errors
    /// The refusal; text that is not UTF-8 is malformed.
    pub fn head(&self, path: &str) -> Result<String, ReadError> {
        let text = self.check_refused(path).and_then(|()| self.read_head(path));
        self.note(|recording| recording.text(&shown(path), &text));
        text
    }

    fn read_text(&self, path: &str) -> Result<String, ReadError> {
        let bytes = self.read_bytes(path)?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(ReadError::malformed(path)),
            false => text_of(path, bytes),
        }
    }

    fn read_head(&self, path: &str) -> Result<String, ReadError> {
        let mut bytes = self.read_bytes(path)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
        }
        text_of(path, bytes)
    }

    /// A file's bytes; one more than [`FILE_BYTES_MAX`] of a larger one.
    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        // A capture may hold a FIFO in a file's place: opening one to read would wait without end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fail = |error: io::Error| ReadError::from_io(path, &error);
        let file = self.open_file(path, flags).map_err(fail)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
        Ok(bytes)
    }

    /// A file's text parsed as a number or any other type with [`std::str::FromStr`].
    ///
    /// # Errors
    /// The refusal, or `Malformed` when the text is no such value.
    pub fn value<T: std::str::FromStr>(&self, path: &str) -> Result<T, ReadError> {
        self.text(path)?.trim().parse().map_err(|_| ReadError::malformed(path))
    }

    /// A file's text as a CPU list.
    ///
    /// # Errors
    /// The refusal, or `Malformed` when it is no list.
    pub fn cpu_list(&self, path: &str) -> Result<crate::CpuSet, ReadError> {
        crate::CpuSet::parse_list(&self.text(path)?).map_err(|_| ReadError::malformed(path))
    }

    /// A file's text as a CPU mask.
    ///
    /// # Errors
    /// The refusal, or `Malformed` when it is no mask.
    pub fn cpu_mask(&self, path: &str) -> Result<crate::CpuSet, ReadError> {
        crate::CpuSet::parse_mask(&self.text(path)?).map_err(|_| ReadError::malformed(path))
    }

    /// The names in a directory, sorted with numbers in numeric order.
    ///
    /// # Errors
    /// The refusal of the directory.
    pub fn names(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let names = self.check_refused(path).and_then(|()| self.read_names(path));
        self.note(|recording| recording.names(&shown(path), &names));
        names
    }

    fn read_names(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let fail = |error: io::Error| ReadError::from_io(path, &error);
        let directory = self.open_file(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(fail)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(directory).map_err(|errno| fail(errno.into()))? {
            let entry = entry.map_err(|errno| fail(errno.into()))?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_by(|a, b| numeric_order(a).cmp(&numeric_order(b)));
        Ok(names)
    }

    /// True if the path exists and could be looked up.
    pub fn exists(&self, path: &str) -> bool {
        let exists = self.open_file(path, OFlags::PATH).is_ok();
        if exists {
            self.note(|recording| recording.seen(&shown(path)));
        }
        exists
    }

    /// The last component of the path a symbolic link points to, such as a device's driver.
    pub fn link_name(&self, path: &str) -> Option<String> {
        let relative = path.trim_start_matches('/');
        let (parent, name) = relative.rsplit_once('/').unwrap_or((".", relative));
        let directory = self.open_file(parent, OFlags::PATH | OFlags::DIRECTORY).ok()?;
        let target = rustix::fs::readlinkat(&directory, name, Vec::new()).ok()?;
        self.note(|recording| recording.seen(&shown(path)));
        Some(target.to_str().ok()?.rsplit('/').next()?.to_owned())
    }
}

/// Splits `cpu10` into `("cpu", 10)`, so that `cpu2` sorts before it.
fn numeric_order(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0), name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_of_a_capture_cannot_leave_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("etc")).unwrap();
        std::fs::write(directory.path().join("etc/hostname"), "inside\n").unwrap();
        symlink("/etc/hostname", directory.path().join("absolute")).unwrap();
        symlink("../../../../etc/hostname", directory.path().join("relative")).unwrap();
        let root = Root::open(directory.path()).unwrap();
        assert_eq!(root.text("absolute").unwrap(), "inside");
        assert_eq!(root.text("relative").unwrap(), "inside");
        assert_eq!(root.text("../etc/hostname").unwrap(), "inside");
    }

    #[test]
    fn absent_and_malformed_are_different_answers() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("number"), "twelve").unwrap();
        let root = Root::open(directory.path()).unwrap();
        assert_eq!(root.text("none").unwrap_err().refusal, Refusal::Absent);
        assert_eq!(root.value::<u32>("number").unwrap_err().refusal, Refusal::Malformed);
        assert_eq!(Refusal::from_errno(libc::EPERM, true), Refusal::LockedDown);
        assert_eq!(Refusal::from_errno(libc::EPERM, false), Refusal::NotPermitted);
    }

    #[test]
    fn of_a_file_beyond_the_bound_only_its_head_is_to_be_had() {
        let directory = tempfile::tempdir().unwrap();
        let line = "0123456789abcde\n";
        let lines = usize::try_from(FILE_BYTES_MAX).unwrap() / line.len();
        std::fs::write(directory.path().join("fits"), line.repeat(lines)).unwrap();
        std::fs::write(directory.path().join("large"), line.repeat(lines + 2)).unwrap();
        let root = Root::open(directory.path()).unwrap();
        assert_eq!(root.text("fits").unwrap().lines().count(), lines);
        assert_eq!(root.head("fits").unwrap().lines().count(), lines);
        assert_eq!(root.text("large").unwrap_err().refusal, Refusal::Malformed);
        assert_eq!(root.head("large").unwrap().lines().count(), lines);
    }

    #[test]
    fn names_sort_by_number() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cpu10", "cpu2", "cpu1"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(
            Root::open(directory.path()).unwrap().names("").unwrap(),
            ["cpu1", "cpu2", "cpu10"]
        );
    }

    #[test]
    fn a_fifo_in_a_capture_does_not_hang_the_reader() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(Root::open(directory.path()).unwrap().text("fifo").unwrap(), "");
    }
}
